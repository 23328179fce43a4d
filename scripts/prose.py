#!/usr/bin/env python3
"""Checks the plain English of documents, item docs, comments and messages: the rules in CONTRIBUTING.md.

Each group, a crate or a document, may have as many findings of a check as its line in scripts/prose.toml
allows. A group without a line has only the share that CHECKS allows. `--write` lowers limits to the current
counts; it never raises one. `--all` prints every finding, `--rates` rates per 10,000 words. If you name
crates or documents, only these are checked.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Check:
    """A rule of CONTRIBUTING.md, the remedy, and the share of findings that is always allowed."""

    rule: int
    remedy: str
    share: float = 0.0
    per: str = "word"


CHECKS = {
    "opener": Check(1, "open with a verb or with the noun itself", 0.01, "item"),
    "start": Check(2, "start the sentence with its subject or with `you`"),
    "what": Check(2, "name the thing instead of `what …`", 8e-4),
    "chain": Check(3, "repeat the noun", 3e-4),
    "long": Check(4, "split the sentence: at most 25 words, never above 30", 0.03, "sentence"),
    "word": Check(7, "use the common word: except, next to, also, fixed, you or the role", 1e-4),
    "none": Check(8, "state what holds, or say `not a …`"),
    "number": Check(9, "name the number: `count` bytes, the same number of rows", 4e-4),
    "tuple": Check(13, "write two plain lets, or pass a small struct"),
}
OPENER = re.compile(r"(What|Who|Whom|Whose|Whoever|Whether|Where|How|Of|As|For|That|Those|Its|Nobody|None|So)\b")
COMMENT = re.compile(r"(What|Who|Whom|Whose|Whoever|Whether|Of|Those|That|Nobody|None|So that)\b")
START = re.compile(r"(What|Who|Whoever|Whom|Of)\b(?! course\b)(?![^.]*\?$)")
WORDS = {
    "what": r"\bwhat\b",
    "chain": r"\bof (?:which|whom)\b|\b(?:those|that) of\b",
    "word": r"\b(?:who(?:m|so)?ever|nobody|but for|likewise|as ever|beside|mended|wished for|is said to be)\b",
    "none": r"\b(?:is|are|was|were) (?-i:none)\b|\bnone of (?:this|these|its)\b",
    "number": r"\b(?:so|as) (?:many|much|few|large|small)\b",
}
# Messages and comments are short, so a share of their words is not meaningful. Only these are searched in them.
IN_SHORT = ("chain", "word", "none")
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in WORDS.items()}
RUST = re.compile(
    r"//(?P<comment>[^\n]*)|/\*.*?\*/|\br(?P<hash>#*)\"(?P<raw>.*?)\"(?P=hash)"
    r"|\"(?P<string>(?:[^\"\\]|\\.)*)\"|'(?:[^'\\\n]|\\.[^'\n]*)'",
    re.DOTALL,
)
BINDINGS = r"\((?:mut )?\w+(?:,\s*(?:mut )?\w+)+,?\s*\)"
TUPLES = re.compile(rf"\blet {BINDINGS}(?:: [^=;]+)? = (?=\()|(?<!let )(?<=[(,\s]){BINDINGS}: (?=\()")
TESTS = re.compile(r"(?m)^#\[cfg\(test\)\]\n(?:pub(?:\(crate\))? )?mod \w+ \{")
CODE = re.compile(r"(?ms)^ *(```|~~~).*?^ *\1[ \t]*$|(?<=\n\n)(?:    (?! *(?:[-+*|]|\d+\.) )[^\n]+\n)+|<!--.*?-->")


@dataclass(frozen=True)
class Text:
    """A passage and its first line. `kind` is "item", "comment", "string" or "page"."""

    kind: str
    line: int
    text: str


def plain(text: str) -> str:
    """Replaces code, addresses and formulas by a single word, with the lines kept."""
    text = CODE.sub(lambda code: re.sub(r"[^\n]+", "", code[0]), text)
    text = re.sub(r"`[^`]+`|\$[^$\n]+\$", lambda code: "Code" + "\n" * code[0].count("\n"), text)
    return re.sub(r"\]\([^)\s]*\)|\]\[[^\]]*\]|<https?:[^>]*>|[\[\]*]", "", text)


def rust(source: str, tested: bool) -> Iterator[Text]:
    """Yields comments and, outside tests, doc comments and strings."""
    tests = TESTS.search(source)
    end = 0 if tested else tests.start() if tests else len(source)
    found = list[Text]()
    line, at = 1, 0
    for token in RUST.finditer(source):
        line, at = line + source.count("\n", at, token.start()), token.start()
        comment = token["comment"]
        if comment is None:
            if at < end and (string := token["raw"] or token["string"]):
                yield Text("string", line, re.sub(r"\\\n\s*", "", string))
        elif not re.match(r"/(?!/)|!", comment):
            found.append(Text("comment", line, comment))
        elif at < end:
            found.append(Text("item", line, comment[1:]))
    yield from joined(found)


def joined(found: list[Text]) -> Iterator[Text]:
    """Joins texts of one kind on consecutive lines."""
    lines = list[Text]()
    for text in found:
        if lines and (text.kind != lines[-1].kind or text.line != lines[-1].line + 1):
            yield Text(lines[0].kind, lines[0].line, "\n".join(line.text for line in lines))
            lines = []
        lines.append(text)
    if lines:
        yield Text(lines[0].kind, lines[0].line, "\n".join(line.text for line in lines))


def python(source: str, tested: bool) -> Iterator[Text]:
    """Yields docstrings, comments and, outside tests, strings."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    yield from joined([Text("comment", token.start[0], token.string[1:]) for token in comments])
    tree = ast.parse(source)
    docs = set[int]()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for part in body:
                text = part.value if isinstance(part, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    docs.add(id(text))
                    yield Text("item", text.lineno, text.value)
    for node in ast.walk(tree):
        if not tested and isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield Text("string", node.lineno, node.value)


def sentences(text: Text) -> Iterator[tuple[int, str]]:
    """Yields the sentences of paragraphs and list items, each with its line; tables and headings have none."""
    at = 0
    for block in re.split(r"(\n\s*\n|\n(?=\s*(?:[-+]|\d+\.|\|)\s)|\n(?=#))", text.text):
        if not re.match(r"\s*[|#]", block):
            for part in re.finditer(r"\S.*?(?:[.?!](?=[\s)])(?!\s+[a-z\d])|\Z)", block, re.DOTALL):
                line = text.line + text.text.count("\n", 0, at + part.start())
                yield line, re.sub(r"^(?:[-+>]|\d+\.)\s+|\s+", lambda s: " " if s[0].isspace() else "", part[0])
        at += len(block)


def findings(text: Text) -> Iterator[tuple[int, str, str]]:
    """Yields the line, check and excerpt of each finding in a passage that `plain` has been through."""
    openers = {"item": OPENER, "comment": COMMENT}.get(text.kind)
    if openers and (opener := openers.match(text.text.lstrip())):
        yield text.line, "opener", opener[0]
    for name in IN_SHORT if text.kind in ("string", "comment") else PATTERNS:
        for found in PATTERNS[name].finditer(text.text):
            yield text.line + text.text.count("\n", 0, found.start()), name, found[0]
    if text.kind == "page":
        for line, sentence in sentences(text):
            if start := START.match(sentence):
                yield line, "start", start[0]
            if (length := len(re.findall(r"\w[\w'’.,-]*", sentence))) > 30:
                yield line, "long", f"{length} words: {sentence[:50]}…"


def tuples(source: str) -> Iterator[tuple[int, str, str]]:
    """Yields lets that bind a tuple to a tuple, and parameters that take one apart."""
    for found in TUPLES.finditer(source):
        depth, end = 0, found.end()
        if found[0].startswith("let"):
            while end < len(source) and (end == found.end() or depth):
                depth += {"(": 1, ")": -1}.get(source[end], 0)
                end += 1
            if source[end : end + 1] != ";":
                continue
        yield source.count("\n", 0, found.start()) + 1, "tuple", found[0].rstrip(" =:")


def group(path: str) -> str:
    """Returns the crate or document that a file counts for."""
    parts = path.split("/")
    if path.endswith(".md"):
        return path
    return "/".join(parts[: 2 if parts[0] in ("benches", "crates", "python") else 1])


def check(path: str, source: str) -> tuple[list[tuple[int, str, str]], Counter[str]]:
    """Returns the findings in one file, and its numbers of items, sentences, words and words `you`."""
    tested = bool(re.search(r"(^|/)(tests?|benches|fuzz|examples)/|/(tests?|testkit)\.rs$", path))
    if path.endswith(".rs"):
        texts, found = rust(source, tested), list(tuples(source))
    else:
        is_python = path.endswith((".py", ".pyi"))
        tested = not path.startswith("python/sudare/")
        texts, found = python(source, tested) if is_python else iter([Text("page", 1, source)]), []
    size = Counter[str]()
    for raw in texts:
        text = Text(raw.kind, raw.line, plain(raw.text) if raw.kind != "string" else raw.text)
        found += findings(text)
        if text.kind not in ("string", "comment"):
            size["item"] += 1
            size["sentence"] += sum(1 for _ in sentences(text))
            words = re.findall(r"\w[\w'’.,-]*", text.text)
            size["word"] += len(words)
            size["you"] += sum(word.lower().startswith("you") for word in words)
    return found, size


def limits(table: str) -> dict[str, dict[str, int]]:
    """Reads lines such as `"crates/apps" = { opener = 12, what = 3 }`."""
    lines = re.findall(r'(?m)^"(.+)" = \{(.*)\}$', table)
    return {name: {key: int(value) for key, value in re.findall(r"(\w+) = (\d+)", row)} for name, row in lines}


def row(name: str, counts: dict[str, int]) -> str:
    """Returns a line that `limits` reads."""
    return f'"{name}" = {{ ' + ", ".join(f"{key} = {counts[key]}" for key in CHECKS if counts.get(key)) + " }"


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Runs the command, and returns its exit status."""
    table = root / "scripts/prose.toml"
    allowed = limits(table.read_text())
    found: dict[str, list[tuple[str, int, str, str]]] = defaultdict(list)
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    patterns = ["*.rs", "*.md", "*.py", "*.pyi"]
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    for path in listed.stdout.split():
        if (root / path).exists():
            faults, size = check(path, (root / path).read_text())
            found[group(path)] += [(path, *fault) for fault in faults]
            sizes[group(path)] += size
    failed, lowered = False, dict[str, dict[str, int]]()
    names = {argument for argument in arguments if not argument.startswith("--")} & sizes.keys() or sizes.keys()
    for name, size in sorted(sizes.items()):
        counts = Counter(fault[2] for fault in found[name])
        limit = {key: max(allowed.get(name, {}).get(key, 0), ceil(c.share * size[c.per])) for key, c in CHECKS.items()}
        above = {key for key in CHECKS if counts[key] > limit[key]}
        lowered[name] = {key: min(counts[key], allowed.get(name, {}).get(key, 0)) for key in CHECKS}
        if name not in names:
            continue
        failed |= bool(above)
        if "--rates" in arguments:
            if size["word"]:
                rates = ", ".join(f"{key} {counts[key] * 1e4 / size['word']:.1f}" for key in PATTERNS)
                long, opener = counts["long"] / max(size["sentence"], 1), counts["opener"] / size["item"]
                you = size["you"] * 1e4 / size["word"]
                print(f"{name}: {size['word']} words: {rates}, you {you:.1f}; long {long:.1%}, opener {opener:.1%}")
        elif above or "--all" in arguments:
            for path, line, key, excerpt in sorted(found[name]):
                if key in above or "--all" in arguments:
                    print(f"{path}:{line}: rule {CHECKS[key].rule} ({key}): {excerpt!r}: {CHECKS[key].remedy}")
            for key in sorted(above):
                print(f"{name}: {counts[key]} findings of {key}, {limit[key]} allowed", file=sys.stderr)
            if counts:
                print(f"{name}: now {row(name, counts)}", file=sys.stderr)
    if "--write" in arguments:
        head = "".join(line + "\n" for line in table.read_text().split("\n") if line.startswith("#"))
        table.write_text(head + "".join(row(name, lows) + "\n" for name, lows in lowered.items() if any(lows.values())))
    return int(failed and "--write" not in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
