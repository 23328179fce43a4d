"""Compares private search with brute force."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from sudare import search

from .core import Case, Generator, Rng, Verdict, attempt, judge, said
from .tables import Close, command
from .values import Floats, ordered


@dataclass(frozen=True)
class SearchCase(Case):
    """An index, a query and an answer."""

    vectors: Any
    plain: Floats | None
    what: str
    query: Floats
    metric: Any
    mode: Any
    answer: Any
    payloads: Any
    payload: str
    texts: tuple[bytes, ...] | None
    """Payloads of the vectors, as bytes."""
    deleted: tuple[int, ...]
    k: Any

    def describe(self) -> str:
        return (
            f"vectors {self.what} of shape {np.shape(self.vectors)}, {self.metric}, {self.mode}, {self.answer}, "
            f"payloads {self.payload}: {np.asarray(self.payloads).tolist()[:9] if self.payloads is not None else None}, "
            f"deleted {self.deleted}, top {self.k}"
        )

    def run(self, *, execute: bool) -> Verdict:
        with tempfile.TemporaryDirectory() as folder:
            found = attempt(lambda: self._found(Path(folder)))
            if self.plain is None:
                return judge({"execute": found}, None)
            if found.error is not None:
                return judge({"execute": found}, {})
            close = Close([])
            checked = attempt(lambda: self._check(found.value, close))
            if checked.error is not None:
                if checked.refused:
                    return Verdict("refused", type(checked.error).__name__)
                return Verdict("finding", "foreign exception", said(checked.error))
        return close.verdict()

    def _threshold(self) -> tuple[float, float]:
        return {"cosine": (0.6, 0.15), "inner": (0.3, 0.15), "euclidean": (1.0, 0.3)}[self.metric]

    def _found(self, folder: Path) -> Any:
        options: dict[str, Any] = {"metric": self.metric, "mode": self.mode, "answer": self.answer}
        rows, dimension = np.shape(self.vectors) if self.plain is None else self.plain.shape
        if self.metric != "cosine":
            options["largest"] = 1.0
        if self.answer != "scores":
            at, margin = self._threshold()
            options |= {"at": at, "margin": margin}
        if self.answer == "matches":
            options |= {"most": 8, "payload": self.payload}
        plan = search.plan(max(rows, 1), dimension, insecure_log_n=11, **options)
        keys = plan.make_keys(folder / "keys")
        server = search.Server(keys.evaluation)
        query: Any = self.query if self.mode == "plain-query" else keys.secret.encrypt(self.query)
        payloads = self.payloads if self.answer == "matches" else None
        if self.mode == "plain-index":
            answer = server.compute(query, self.vectors, payloads, deleted=self.deleted)
        else:
            index = search.Index.build(folder / "index", keys.secret, self.vectors, payloads)
            if self.deleted:
                index.delete(self.deleted)
            answer = server.compute(query, folder / "index")
        return keys.secret.decrypt(answer, deleted=self.deleted)

    def _check(self, found: Any, close: Close) -> None:
        assert self.plain is not None
        x, q = self.plain, self.query
        if self.metric == "cosine":
            scores = x @ q / (np.linalg.norm(x, axis=1) * np.linalg.norm(q))
        else:
            scores = x @ q if self.metric == "inner" else ((x - q) ** 2).sum(axis=1)
        kept = np.array([i not in self.deleted for i in range(len(x))])
        at, margin = self._threshold()
        if self.metric == "euclidean":
            distance = np.sqrt(scores)
            inside, outside = distance <= at - margin, distance >= at + margin
        else:
            inside, outside = scores >= at + margin, scores <= at - margin
        if isinstance(found, search.Scores):
            values = np.asarray(found.values)
            # A server that cannot see deleted rows scores them, too.
            allowed = np.where(kept, found.largest_error, np.inf)
            close.near("scores", values, scores, allowed, undefined=~kept)
            rows, nearest = found.top_k(self.k)
            order = np.argsort(scores if self.metric == "euclidean" else -scores, kind="stable")
            order = np.array([i for i in order if kept[i]])[: int(self.k)]
            if len(rows) != len(order):
                close.faults.append(f"top_k({self.k}) gives {len(rows)} rows, expected {len(order)}")
            else:
                close.near("top_k", scores[rows], scores[order], 2 * found.largest_error)
                # Scores of distances are squares.
                shown = np.sqrt(np.maximum(values, 0)) if self.metric == "euclidean" else values
                close.near("values of top_k", nearest, shown[rows], 1e-12)
        elif isinstance(found, search.Count):
            sure, possible = int((inside & kept).sum()), int((~outside & kept).sum())
            if found.undecided == 0 and not sure <= found.matches <= possible:
                close.faults.append(f"count {found.matches}, expected {sure} to {possible}")
        elif isinstance(found, search.Matches):
            rows = np.asarray(found.rows)
            wrong = [int(i) for i in rows if outside[i] or not kept[i]]
            missing = [int(i) for i in np.flatnonzero(inside & kept) if i not in rows]
            if wrong or (missing and found.is_complete):
                close.faults.append(f"matches {rows.tolist()}: {wrong} are none, {missing} are missing")
            if found.payloads is not None:
                self._carried(found, rows, close)

    def _carried(self, found: Any, rows: Any, close: Close) -> None:
        for i, carried in zip(rows.tolist(), found.payloads, strict=True):
            if self.texts is not None:
                got = bytes(carried)
                if got != self.texts[i]:
                    close.faults.append(f"row {i} carries {got!r}, expected {self.texts[i]!r}")
            else:
                expected = np.asarray(self.payloads)[i].ravel().tolist()
                if np.asarray(carried).ravel().tolist() != expected:
                    close.faults.append(f"row {i} carries {carried}, expected {expected}")


def _payload(rng: Rng, rows: int) -> tuple[Any, str, tuple[bytes, ...] | None]:
    """Draws payloads: the argument, its kind, and the bytes of byte payloads."""
    kind = int(rng.integers(0, 6))
    if kind == 0:
        return None, "rows", None
    if kind == 1:
        values = rng.integers(0, 4096, (rows, 2))
        return values.astype(str(rng.choice(["int64", "uint16", "int32"]))), "integers:2x12", None
    ids = [bytes(rng.integers(1, 256, 4).astype(np.uint8)) for _ in range(rows)]
    if kind == 2:
        # For example little-endian integers.
        ids = [part[: int(rng.integers(0, 4))].ljust(4, b"\0") for part in ids]
        return ids, "bytes:4", tuple(ids)
    if kind == 3:
        return np.array(ids, dtype="S4"), "bytes:4", tuple(ids)
    words = [f"id{i}" for i in range(rows)]
    texts = tuple(word.encode() for word in words)
    if kind == 4:
        return np.array(words), "bytes:6", texts
    return pd.Series(words), "bytes:6", texts


def draw(rng: Rng) -> Case:
    """A search."""
    rows, dimension = int(rng.integers(1, 40)), int(rng.integers(1, 9))
    x = rng.normal(size=(rows, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + rng.random((rows, 1)) * 0.5)
    query = rng.normal(size=dimension)
    query /= np.linalg.norm(query) * 1.001
    if rng.random() < 0.5:
        query = x[int(rng.integers(rows))] * 0.999
    whole = np.eye(dimension)[rng.integers(0, dimension, rows)].astype(int)
    options: list[tuple[str, Any, Floats | None]] = [
        ("floats", x, x),
        ("floats in another order of memory", ordered(rng, x), x),
        ("float32", x.astype(np.float32), x.astype(np.float32).astype(np.float64)),
        ("float16", x.astype(np.float16), x.astype(np.float16).astype(np.float64)),
        ("whole numbers", whole, whole.astype(np.float64)),
        ("lists", x.tolist(), x),
        ("frame", pd.DataFrame(x), x),
        ("complex", x + 1j, None),
        ("text", x.astype(str), None),
        ("not finite", np.where(x == x.flat[0], np.inf, x), None),
        ("one axis", x[0], None),
    ]
    p = np.array([4, 2, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.3])
    what, vectors, plain = options[int(rng.choice(len(options), p=p / p.sum()))]
    if what == "one axis":
        # A plan needs a dimension; the vectors do not fit it.
        return _Misfit(vectors, None, what, query, "cosine", "encrypted", "scores", None, "rows", None, (), 1)
    payloads, payload, texts = _payload(rng, rows)
    answer = str(rng.choice(["scores", "scores", "count", "matches"]))
    deleted = tuple(int(i) for i in rng.choice(rows, int(rng.integers(0, min(3, rows))), replace=False)) if rng.random() < 0.3 else ()
    k = rng.integers(1, rows + 1)
    return SearchCase(
        vectors,
        plain,
        what,
        query,
        str(rng.choice(["cosine", "inner", "euclidean"])),
        str(rng.choice(["encrypted", "plain-index", "plain-query"])),
        answer,
        payloads,
        payload,
        texts,
        deleted,
        int(k) if rng.random() < 0.8 else k,
    )


class _Misfit(SearchCase):
    """Vectors without rows."""

    def _found(self, folder: Path) -> Any:
        keys = search.plan(8, len(self.vectors), insecure_log_n=11).make_keys(folder / "keys")
        return search.Index.build(folder / "index", keys.secret, self.vectors)


# Files of vectors.


@dataclass(frozen=True)
class FileCase(Case):
    """Vectors in a file that `sudare search index` reads or refuses."""

    vectors: npt.NDArray[Any]
    how: str

    def describe(self) -> str:
        return f"vectors of {self.vectors.dtype} {self.vectors.tolist()} in a file: {self.how}"

    def run(self, *, execute: bool) -> Verdict:
        with tempfile.TemporaryDirectory() as name:
            found = attempt(lambda: self._found(Path(name)))
        rows = len(self.vectors)
        if found.error is not None:
            must = "Python takes the same" if self.how.startswith("npy") and self.vectors.dtype.kind in "iuf" else None
            return judge({"command": found}, {}, must=must)
        read, nearest = found.value
        if read != rows or nearest != rows - 1:
            return Verdict("finding", "wrong value", f"{read} rows of {rows}, nearest {nearest} for {rows - 1}")
        return Verdict("right", "right")

    def _found(self, folder: Path) -> tuple[int, int]:
        rows, dimension = self.vectors.shape
        keys = search.plan(rows + 2, dimension, insecure_log_n=11).make_keys(folder / "k")
        del keys
        data = "v.npy" if self.how.startswith("npy") else "v.csv"
        frame = pd.DataFrame(self.vectors)
        if self.how == "npy in Fortran order":
            np.save(folder / data, np.asfortranarray(self.vectors))
        elif data == "v.npy":
            np.save(folder / data, self.vectors)
        elif self.how == "csv with row numbers":
            frame.to_csv(folder / data)
        else:
            frame.columns = {
                "csv with numbers for names": list(range(dimension)),
                "csv with words for names": [f"v{i}" for i in range(dimension)],
                "csv with decimal names": [f"{i}.0" for i in range(dimension)],
            }.get(self.how, list(range(dimension)))
            frame.to_csv(folder / data, index=False, header=self.how != "csv without names")
        np.save(folder / "q.npy", np.asarray(self.vectors[-1], dtype=np.float64))
        key = "k/secret.key"
        command("search", "index", "--secret", key, "--data", data, "-o", "i", folder=folder)
        command("search", "query", "--secret", key, "--data", "q.npy", "-o", "q.ct", folder=folder)
        command("search", "run", "--evaluation-key", "k/evaluation.key", "-i", "q.ct", "--index", "i", "-o", "a.ct", folder=folder)
        said_ = command("search", "open", "--secret", key, "-i", "a.ct", "--top", "1", folder=folder)
        return int(said_["rows"]), int(_first(said_["nearest"]))


def _first(nearest: Any) -> Any:
    item = nearest[0]
    return item["row"] if isinstance(item, dict) else item[0] if isinstance(item, list) else item


def draw_file(rng: Rng) -> Case:
    """A file of vectors."""
    dimension = int(rng.integers(2, 5))
    vectors: npt.NDArray[Any] = np.eye(dimension) + np.round(rng.random((dimension, dimension)) * 0.2, 2)
    how = str(rng.choice(["csv with numbers for names", "csv with words for names", "csv with decimal names", "csv without names", "csv with row numbers", "npy", "npy in Fortran order"]))
    if how.startswith("npy"):
        vectors = (vectors * 10).astype(str(rng.choice(["float16", "float32", "int32", "uint8", "float64", "bool", ">f8"])))
    return FileCase(vectors, how)


GENERATORS = [
    Generator(
        "searches",
        draw,
        (
            "payloads that end in zeros",
            "imaginary parts",
            "types, orders and containers of operands",
            "errors of other packages",
        ),
        share=0.3,
    ),
    Generator("files of vectors", draw_file, ("headers that look like numbers",), share=0.05),
]
