"""Makes tables from the records of finished programs.

A record describes one run of one program: part, case, library, set, threads, round, runs and operations, the
revision of sudare, benchmark lines, seconds, and peak memory.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from cases import CASES, PARTS, SUDARE, VARIANTS, Case, Entrant
from programs import Pricer, gib

# Largest relative difference of log Q between two leveled sets that count as the same size.
LOG_Q_TOLERANCE = 0.02
NONE = "–"

# Best published throughput of bootstrapping with Lattigo, log2 of bits of slots times bits of
# modulus per second: one thread of a Core i7-9700, https://ckks.org/blog/2026/less-mod-ckks.
PUBLISHED_LOG2_THROUGHPUT = 24.6


def log2_throughput(slots: int, precision_bits: float, residual_bits: float, seconds: float) -> float:
    """Bootstrapping throughput of Bossuat et al. (EUROCRYPT 2021, ePrint 2020/1203), in log2.

    Slots times bits of precision times bits of modulus left, over the seconds of one bootstrapping.
    """
    return math.log2(slots * precision_bits * residual_bits / seconds)


def of_case(records: Iterable[dict], case: Case, threads: int) -> list[dict]:
    key = (case.part, case.ours.params, threads)
    return [r for r in records if (r["part"], r["case"], r["threads"]) == key]


def of_entrant(records: Iterable[dict], entrant: Entrant) -> list[dict]:
    key = (entrant.library, entrant.params)
    return [r for r in records if (r["library"], r["params"]) == key]


def thread_counts(records: Iterable[dict]) -> list[int]:
    return sorted({record["threads"] for record in records})


def op_lines(records: Iterable[dict], op: str) -> dict[int, dict]:
    """Returns the line of an operation in each round."""
    return {r["round"]: line for r in records for line in r["lines"] if line["op"] == op}


@dataclass(frozen=True)
class Row:
    """An operation of a peer and the same of sudare, in the rounds that have both."""

    case: Case
    peer: Entrant
    op: str
    threads: int
    ours: list[dict]
    theirs: list[dict]

    @property
    def ratios(self) -> list[float]:
        pairs = zip(self.ours, self.theirs, strict=True)
        return [theirs["median_ms"] / ours["median_ms"] for ours, theirs in pairs]


def rows_of(records: list[dict], case: Case, threads: int) -> list[Row]:
    """Returns the rows of a case, peer by peer."""
    found = of_case(records, case, threads)
    ours, rows = of_entrant(found, case.ours), []
    for peer in case.peers:
        theirs = of_entrant(found, peer)
        for op in peer.ops:
            own = op_lines(ours, op)
            for name in (op, *VARIANTS.get(op, ())):
                other = op_lines(theirs, name)
                if rounds := sorted(own.keys() & other.keys()):
                    both = [own[i] for i in rounds], [other[i] for i in rounds]
                    rows.append(Row(case, peer, name, threads, *both))
    return rows


def median_ms(lines: list[dict]) -> float:
    return median(line["median_ms"] for line in lines)


def least(lines: list[dict], field: str) -> float | None:
    """Returns the minimum of a field that some lines have."""
    return min((line[field] for line in lines if line.get(field) is not None), default=None)


def number(value: object, form: str = ".0f") -> str:
    return format(value, form) if isinstance(value, (int, float)) else NONE


def spread(ratios: list[float]) -> list[str]:
    return [f"{median(ratios):.2f}", f"{min(ratios):.2f}–{max(ratios):.2f}"]


OPERATION_HEADINGS = [
    "operation", "sudare", "ms", "peer", "set", "ms", "peer / sudare", "range",
    "precision, bits: sudare / peer",
]


def operation_cells(row: Row) -> list[str]:
    precision = [number(least(lines, "precision_bits"), ".1f") for lines in (row.ours, row.theirs)]
    return [
        row.op, row.case.ours.params, f"{median_ms(row.ours):.4g}",
        row.peer.library, row.peer.params, f"{median_ms(row.theirs):.4g}",
        *spread(row.ratios), " / ".join(precision),
    ]


BOOTSTRAP_HEADINGS = [
    "library", "set", "log N", "slots", "security", "seconds", "library / sudare", "range",
    "precision, bits", "worst slot", "levels left", "modulus left, bits", "log2 throughput",
    "keys, GiB", "keys, s", "matrices, s", "memory, GiB",
]


def bootstrap_table(records: list[dict], case: Case, threads: int, pricer: Pricer) -> list[list[str]]:
    """Yields sudare, then its peers at the same size."""
    found, table = of_case(records, case, threads), []
    ratios = {row.peer: row.ratios for row in rows_of(records, case, threads)}
    for entrant in case.entrants:
        ran = of_entrant(found, entrant)
        lines = list(op_lines(ran, "bootstrap").values())
        if not lines:
            continue
        sizes = set_sizes(entrant, lines[0], pricer)
        seconds, slots = median_ms(lines) / 1e3, 1 << lines[0]["log_slots"]
        precision, residual = least(lines, "precision_bits"), residual_bits(entrant, lines[0], pricer)
        throughput = log2_throughput(slots, precision, residual, seconds) if residual else None
        table.append([
            entrant.library, entrant.params, number(sizes["log_n"]), f"2^{lines[0]['log_slots']}",
            number(sizes["security_bits"], ".1f"), f"{seconds:.2f}",
            *(spread(ratios[entrant]) if entrant in ratios else [NONE, NONE]),
            number(precision, ".1f"), number(least(lines, "worst_precision_bits"), ".1f"),
            number(lines[0].get("levels_left")), number(residual), number(throughput, ".1f"),
            gib(lines[0]["key_bytes"]) if lines[0].get("key_bytes") else NONE,
            number(lines[0].get("keygen_s")), number(lines[0].get("prepare_s")),
            gib(max(record["peak_bytes"] for record in ran)),
        ])
    return table


def residual_bits(entrant: Entrant, line: dict, pricer: Pricer) -> float | None:
    """Returns log2 of the lowest prime, and of the levels until the next bootstrapping."""
    if entrant.library != SUDARE:
        return line.get("residual_bits")
    if (ours := pricer.describe(entrant.params)) is None:
        return None
    return sum(ours["q_bits"][0]) + line["levels_left"] * ours["log2_scale"]


def set_sizes(entrant: Entrant, line: dict, pricer: Pricer) -> dict:
    """Returns the sizes of a set at its largest modulus. The tables of sudare rate the security."""
    if entrant.library == SUDARE:
        known = dict(pricer.describe(entrant.params) or {})
        if raised := known.get("raised"):
            known["log_q"] = sum(raised["base_bits"]) + sum(map(sum, raised["levels_bits"]))
            known["log_p"] = known["log_qp"] - known["log_q"]
    else:
        known = dict(line)
        if line.get("keys"):
            known["security_bits"] = pricer.security_bits(line["log_n"], line["keys"])
    fields = ("log_n", "log_q", "log_p", "dnum", "security_bits")
    return {field: known.get(field) for field in fields}


SETS_HEADINGS = [
    "library", "version", "set", "log N", "log Q", "log P", "digits", "security", "kernels",
    "memory, GiB",
]


def sets_table(records: list[dict], pricer: Pricer) -> list[list[str]]:
    """Returns a row for each library and set with a chain of primes, in the order of the cases."""
    table: dict[tuple[str, str], list[str]] = {}
    for case in (case for case in CASES if case.part != "transforms"):
        for entrant in case.entrants:
            if not (ran := of_entrant(records, entrant)):
                continue
            line = ran[0]["lines"][0]
            sizes = set_sizes(entrant, line, pricer)
            table[entrant.library, entrant.params] = [
                entrant.library, line.get("version", NONE), entrant.params,
                *(number(sizes[field]) for field in ("log_n", "log_q", "log_p", "dnum")),
                number(sizes["security_bits"], ".1f"), line.get("isa", NONE),
                gib(max(record["peak_bytes"] for record in ran)),
            ]
    return list(table.values())


def size_warnings(records: list[dict], pricer: Pricer) -> list[str]:
    """Lists differences in size between compared leveled sets."""
    warnings = []
    for case in CASES:
        ours = pricer.describe(case.ours.params)
        if case.part == "bootstrapping" or ours is None:
            continue
        for peer in case.peers:
            if not (ran := of_entrant((r for r in records if r["case"] == case.ours.params), peer)):
                continue
            theirs = ran[0]["lines"][0]
            where = f"{case.ours.params} and {peer.library} {peer.params}"
            for field, tolerance in (("log_n", 0), ("log_q", LOG_Q_TOLERANCE), ("dnum", 0)):
                # A transform has a ring and no chain.
                if theirs.get(field) and abs(ours[field] / theirs[field] - 1) > tolerance:
                    warnings.append(f"{where}: {field} is {ours[field]:.5g} and {theirs[field]:.5g}")
    return warnings


def markdown_table(headings: list[str], table: list[list[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *table]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def text_table(headings: list[str], table: list[list[str]]) -> list[str]:
    lines = [headings, *table]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


@dataclass(frozen=True)
class Section:
    """A table with its title and its explanation."""

    title: str
    explained: list[str]
    headings: list[str]
    table: list[list[str]]


EXPLAINED = {
    "bootstrapping": [
        "Precision is `-log2` of the mean distance of a slot from the decrypted input, for parts"
        " uniform in [-1, 1). The worst slot is the same for the largest distance.",
        "A refreshed ciphertext can use the levels left before it must be refreshed again. The modulus"
        " left covers these levels and the lowest prime.",
        "Throughput follows Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux (EUROCRYPT 2021, ePrint"
        " 2020/1203): slots × bits of precision × bits of modulus left, per second. Lattigo's best published"
        f" value is 2^{PUBLISHED_LOG2_THROUGHPUT}, on one thread of a Core i7-9700"
        " ([source](https://ckks.org/blog/2026/less-mod-ckks)).",
    ],
    "leveled": ["Precision is the precision of the worst slot. The last table has sizes and security."],
    "exact": [
        "`mul` is the product, relinearised and not rescaled. `rotate` rotates rows by one slot. All slots"
        " hold random integers, and all results are exact. Rotations of both schemes are one operation.",
    ],
    "transforms": [],
}


def sections(records: list[dict], pricer: Pricer) -> list[Section]:
    """Returns the tables, bootstrapping first."""
    found = []
    for name in reversed(PARTS):
        cases = [case for case in CASES if case.part == name]
        for threads in thread_counts(records):
            if name == "bootstrapping":
                tables = [bootstrap_table(records, case, threads, pricer) for case in cases]
                headings, table = BOOTSTRAP_HEADINGS, sum(tables, [])
            else:
                rows = [row for case in cases for row in rows_of(records, case, threads)]
                headings, table = OPERATION_HEADINGS, [operation_cells(row) for row in rows]
                if name in ("transforms", "exact"):
                    # Transforms have no precision.
                    headings, table = headings[:-1], [cells[:-1] for cells in table]
            if table:
                title = f"{PARTS[name].title}, {threads} thread{'s' if threads > 1 else ''}"
                found.append(Section(title, EXPLAINED[name], headings, table))
    if table := sets_table(records, pricer):
        found.append(Section("Parameter sets", [], SETS_HEADINGS, table))
    return found


def rounds_of(records: list[dict]) -> str:
    """Describes the rounds and runs of each part."""
    said = []
    for name, part in PARTS.items():
        if ran := [record for record in records if record["part"] == name]:
            rounds = len({record["round"] for record in ran})
            runs = " or ".join(map(str, sorted({record["runs"] for record in ran})))
            said.append(f"{part.title}: {rounds} × {runs} runs")
    return "; ".join(said)


def markdown(records: list[dict], machine: list[str], notes: list[str], pricer: Pricer) -> str:
    lines = [
        "# Benchmarks against other libraries",
        "",
        "`make bench-peers` writes this page. [benches/peers/README.md](../benches/peers/README.md) explains how"
        " the comparison stays fair.",
        "",
        *(f"- {line}" for line in machine),
        "- Programs run one after the other, in rounds of several runs after a warm-up."
        f" {rounds_of(records)}.",
        "- Times are medians over the rounds. A ratio is the median of the ratios of each round, followed"
        " by their range. Above 1, sudare is faster.",
        "- Security, in bits, is the security of the weakest published key, at its own modulus and secret."
        " The tables of `sudare params` price every library.",
        "- Memory is the maximum of a program, including keys and checks.",
        *(f"- {note}" for note in notes),
    ]
    for section in sections(records, pricer):
        explained = [f"- {line}" for line in section.explained]
        lines += ["", f"## {section.title}", *explained, *([""] if explained else [])]
        lines += markdown_table(section.headings, section.table)
    return "\n".join(lines) + "\n"


def text(records: list[dict], pricer: Pricer) -> str:
    found = sections(records, pricer)
    return "\n\n".join(
        "\n".join([section.title, *text_table(section.headings, section.table)]) for section in found
    )
