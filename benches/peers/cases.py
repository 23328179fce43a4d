"""Parameter sets of sudare and its peers, by part of the comparison.

Seconds and memory are for one run of a program with the default options, on an idle processor with AVX-512 IFMA.
They announce the time of the runs. A program that needs more memory than the machine has does not start.
"""

from collections.abc import Collection
from dataclasses import dataclass

SUDARE = "sudare"

TRANSFORMS = ("ntt_forward", "ntt_inverse")
SWITCHES = ("mul_rescale", "rotate")
CKKS_OPS = (
    "encode", "encrypt", "decrypt", "add", "mul_plain", *SWITCHES, "rotate_hoisted_8",
)
EXACT_OPS = ("bfv_mul", "bfv_rotate", "bgv_mul", "bgv_rotate")
BOOTSTRAP = ("bootstrap",)
# Second forms of a peer's operations, each compared with the same operation of sudare.
VARIANTS = {"ntt_inverse": ("ntt_inverse_normalized",)}


@dataclass(frozen=True)
class Entrant:
    """A library with one of its parameter sets."""

    library: str
    params: str
    ops: tuple[str, ...]
    seconds: float
    gib: float = 1
    # Maximum threads of the library in this comparison.
    max_threads: int | None = None


@dataclass(frozen=True)
class Case:
    """sudare and its peers at one size, which run in turn."""

    part: str
    ours: Entrant
    peers: tuple[Entrant, ...]

    @property
    def entrants(self) -> tuple[Entrant, ...]:
        return (self.ours, *self.peers)


@dataclass(frozen=True)
class Part:
    """Cases of one table."""

    title: str
    # Number of rounds, and timed runs of an operation in each.
    rounds: int
    runs: int


PARTS = {
    "transforms": Part("Transforms of one limb", 3, 7),
    "leveled": Part("Operations of CKKS", 3, 7),
    "exact": Part("Operations of BGV and BFV", 3, 7),
    "bootstrapping": Part("Bootstrapping", 2, 3),
}


def _transforms(params: str, theirs: str) -> Case:
    """Makes a case of transforms modulo a prime of the size of a set's largest prime."""
    ours = Entrant(SUDARE, params, TRANSFORMS, 3)
    return Case("transforms", ours, (Entrant("tfhe-ntt", theirs, TRANSFORMS, 2),))


CASES = (
    *(_transforms(f"n{log_n}", f"n{log_n}-50") for log_n in range(13, 17)),
    _transforms("bench-n15-q610", "n15-48"),
    _transforms("n16-d24", "n16-48"),
    Case(
        "leveled",
        Entrant(SUDARE, "bench-n15-q610", CKKS_OPS, 10),
        (
            Entrant("lattigo", "n15-q610", CKKS_OPS, 15),
            Entrant("openfhe", "n15-q610", SWITCHES, 15),
            Entrant("poulpy", "n15-q610", SWITCHES, 10, max_threads=1),
        ),
    ),
    Case(
        "leveled",
        Entrant(SUDARE, "n16-d24", TRANSFORMS + CKKS_OPS, 20, 3),
        (
            Entrant("lattigo", "n16-d24", TRANSFORMS + CKKS_OPS, 45, 3),
            Entrant("openfhe", "n16-d24", SWITCHES, 45, 3),
            Entrant("poulpy", "n16-d24", SWITCHES, 15, 2, max_threads=1),
        ),
    ),
    Case(
        "exact",
        Entrant(SUDARE, "bench-n14-q330-t65537", EXACT_OPS, 5),
        (Entrant("lattigo", "n14-q330-t65537", EXACT_OPS, 10),),
    ),
    Case(
        "bootstrapping",
        Entrant(SUDARE, "n15-boot", BOOTSTRAP, 15, 6),
        (
            Entrant("lattigo", "n15qp880h16384h32", BOOTSTRAP, 75, 13),
            Entrant("poulpy", "n15_d35_k180_p18_c2s", BOOTSTRAP, 110, 13, max_threads=1),
        ),
    ),
    Case(
        "bootstrapping",
        Entrant(SUDARE, "n16-boot", BOOTSTRAP, 35, 8),
        (
            Entrant("lattigo", "n16qp1767h32768h32", BOOTSTRAP, 150, 16),
            Entrant("openfhe", "n16-stc-first", BOOTSTRAP, 180, 16),
            Entrant("poulpy", "n16_d35_k685_p19_s2c_ffr_ci", BOOTSTRAP, 190, 15, max_threads=1),
        ),
    ),
)

PEERS = tuple(dict.fromkeys(peer.library for case in CASES for peer in case.peers))


def in_turn(entrant: Entrant, ops: Collection[str]) -> tuple[str, ...]:
    """Returns the requested operations that an entrant has."""
    return tuple(op for op in entrant.ops if op in ops)
