"""Private search: a server finds the vectors of an index that are near a query, and sees neither.

| who | step |
|---|---|
| owner | `p = plan(50_000, 128, answer="matches", at=0.8, margin=0.1)`, and `p.explain()` |
| owner | `keys = p.make_keys("keys")`, three files in a directory |
| owner | `index = Index.build("index", keys.secret, vectors, payloads)`, a directory for the server |
| owner | `query = keys.secret.encrypt(vector)` |
| server | `answer = Server("evaluation.key").compute(query, "index")` |
| owner | `keys.secret.decrypt(answer)` |

Queries and answers are the bytes of files that the command `sudare search` reads and writes. Either the
index or the queries may be in the clear: see `mode` of `plan`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._plain import (
    choice,
    expect_type,
    flag,
    hidden,
    items,
    octets,
    optional,
    path_of,
    plain_array,
    real,
    reals,
    shown,
    string,
    whole,
)
from sudare._progress import Progress, callback
from sudare._renamed import renamed
from sudare._shown import Facts, columns_html, duration, facts_html, megabytes

__all__ = [
    "Count",
    "Explanation",
    "Index",
    "Keys",
    "Matches",
    "Plan",
    "PublicKey",
    "Scores",
    "SecretKey",
    "Server",
    "plan",
]


def __dir__() -> list[str]:
    return sorted(__all__)

_Path = str | os.PathLike[str]
_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Explanation(Facts):
    """The costs and the leakage of a search. Bytes are bytes of files without headers. Prints as a table."""

    log_n: int
    """`log2(N)` of the ring."""
    security_bits: float
    levels: int
    blocks: int
    """The number of blocks of the index, each with `block_rows` vectors in `block_ciphertexts` ciphertexts."""
    block_rows: int
    block_ciphertexts: int
    keys: int
    key_memory_bytes: int
    """Bytes of the server's keys in memory; files have half."""
    index_bytes: int
    """Bytes of an index by the public key; the secret key needs half."""
    query_bytes: int
    answer_bytes: int
    automorphisms: int
    """The number of automorphisms of a search."""
    products: int
    """The number of relinearised products of a search."""
    seconds: float
    """Predicted time on one thread of the reference machine, without reading files."""
    largest_error: float
    """The largest error of scores, for all vectors."""
    log2_incomplete: float | None
    """`log2` of the probability that some matches are missing, with the planned number of matches."""
    log2_wrong: float | None
    """`log2` of a bound on the probability that noise makes a count or matches wrong."""
    leakage: tuple[str, ...]
    """Sentences about the knowledge of each party."""

    def _facts(self) -> dict[str, str]:
        return {
            "ring": f"N = 2^{self.log_n}, {self.security_bits:.0f} bits of security",
            "levels": str(self.levels),
            "evaluation keys": f"{self.keys}, {megabytes(self.key_memory_bytes)} in memory",
            "index": f"{self.blocks} blocks of {self.block_rows} rows, {megabytes(self.index_bytes)}",
            "query": f"{self.query_bytes / 1e6:.2f} MB",
            "answer": f"{self.answer_bytes / 1e6:.2f} MB",
            "time": f"about {duration(self.seconds)} on one thread",
            "leakage": "\n".join(self.leakage),
        }


class Plan:
    """A search, planned before any key exists. Made by `plan`."""

    def __init__(self, native: _native.SearchPlan) -> None:
        self._native = native

    def explain(self) -> Explanation:
        """Returns the costs and the leakage of the search."""
        found = json.loads(self._native.explain())
        return Explanation(**{**found, "leakage": tuple(found["leakage"])})

    def make_keys(
        self,
        folder: _Path,
        *,
        passphrase: str | None = None,
        overwrite: bool = False,
        progress: Progress = None,
    ) -> Keys:
        """Makes the keys of the search, and writes them to a directory, which it creates if necessary.

        `secret.key` is for you alone, `public.key` encrypts, and `evaluation.key` is for the server.
        """
        path = path_of(folder, "folder")
        passphrase, overwrite = optional(hidden, passphrase, "passphrase"), flag(overwrite, "overwrite")
        self._native.write_keys(path, passphrase, overwrite, callback(progress))
        return Keys(path, passphrase=passphrase)

    def __repr__(self) -> str:
        found = self.explain()
        return f"Plan({found.blocks * found.block_rows} rows at most, levels={found.levels})"

    def _repr_html_(self) -> str:
        return facts_html("Plan", self.explain()._facts())


def plan(
    rows: int,
    dimension: int,
    *,
    metric: Literal["cosine", "inner", "euclidean"] = "cosine",
    largest: float | None = None,
    largest_query: float | None = None,
    mode: Literal["encrypted", "plain-index", "plain-query"] = "encrypted",
    answer: Literal["scores", "count", "matches"] = "scores",
    at: float | None = None,
    margin: float | None = None,
    most: int = 32,
    payload: str = "rows",
    insecure_log_n: int | None = None,
) -> Plan:
    """Plans a search.

    Parameters
    ----------
    rows : int
        The maximum number of vectors, including later ones.
    dimension : int
        The number of coordinates of a vector.
    metric : {"cosine", "inner", "euclidean"}, default "cosine"
        The similarity of vectors: the cosine of their angle, their inner product, or their Euclidean
        distance.
    largest, largest_query : float, optional
        For inner products and distances: the largest norm of a vector, and of a query, by default the same.
        Longer ones are refused.
    mode : {"encrypted", "plain-index", "plain-query"}, default "encrypted"
        What the server sees: neither index nor queries, the index, or queries.
    answer : {"scores", "count", "matches"}, default "scores"
        The answer of the server: the similarity of every vector, the number of matches, or the matches and
        their payloads. A plan for matches also answers scores and counts.
    at, margin : float, optional
        For counts and matches: the minimum similarity, or maximum distance, of a match, and the distance
        from it at which answers are right.
    most : int, default 32
        For matches: the number of matches that an answer holds, except with probability `2^-20`.
    payload : str, default "rows"
        For matches: the payload of each vector. `"rows"` is nothing, `"integers:COLUMNSxBITS"` are numbers
        from 0, and `"bytes:MAXIMUM"` are bytes or text in UTF-8 that do not end with NUL.
    insecure_log_n : int, optional
        For tests: `log2` of the degree of another ring, without security.
    """
    threshold = {"at": optional(real, at, "at"), "margin": optional(real, margin, "margin")}
    largest = optional(real, largest, "largest")
    largest_query = optional(real, largest_query, "largest_query")
    metrics = {"cosine": "Cosine", "inner": "InnerProduct", "euclidean": "Euclidean"}
    modes = {"encrypted": "Encrypted", "plain-index": "PlainIndex", "plain-query": "PlainQuery"}
    metric = choice(metric, "metric", ("cosine", "inner", "euclidean"))
    mode = choice(mode, "mode", ("encrypted", "plain-index", "plain-query"))
    answer = choice(answer, "answer", ("scores", "count", "matches"))
    if (answer == "scores") != (at is None) or (at is None) != (margin is None):
        raise errors.ArgumentError(
            "counts and matches need at= and margin=, scores need neither: give both or none"
        )
    answers: dict[str, Any] = {
        "scores": "Scores",
        "count": {"Count": threshold},
        "matches": {"Matches": {"threshold": threshold, "most": whole(most, "most"), "payload": 0}},
    }
    if metric != "cosine" and largest is None:
        raise errors.ArgumentError("inner products and distances need the largest norm of a vector: pass largest=")
    norms = {"largest": largest}
    if metric == "inner":
        norms["largest_query"] = largest if largest_query is None else largest_query
    setup = {
        "spec": {
            "dimension": whole(dimension, "dimension"),
            "rows": whole(rows, "rows"),
            "metric": metrics[metric] if metric == "cosine" else {metrics[metric]: norms},
            "mode": modes[mode],
            "answer": answers[answer],
        },
        "payload": _payload(payload),
    }
    log_n = optional(whole, insecure_log_n, "insecure_log_n")
    return Plan(_native.SearchPlan.make(json.dumps(setup), log_n))


def _payload(payload: object) -> Any:
    given = payload if isinstance(payload, str) else ""
    if given == "rows":
        return "rows"
    if sizes := re.fullmatch("integers:([0-9]{1,9})x([0-9]{1,9})", given):
        return {"integers": {"columns": int(sizes[1]), "bits": int(sizes[2])}}
    if sizes := re.fullmatch("bytes:([0-9]{1,9})", given):
        return {"bytes": {"most": int(sizes[1])}}
    raise errors.ArgumentError(
        f"payload is {shown(payload)}: pass rows, integers:COLUMNSxBITS or bytes:MAXIMUM"
    )


def _vectors(setup: Any, vectors: npt.ArrayLike) -> _Floats:
    array = reals(vectors, "vectors", "SearchShape")
    dimension = setup["spec"]["dimension"]
    if array.ndim != 2 or array.shape[1] != dimension:
        raise errors.of_kind(
            "SearchShape",
            f"vectors have the shape {array.shape}: pass the shape (rows, {dimension})"
        )
    return array


def _query(setup: Any, vector: npt.ArrayLike) -> _Floats:
    array = reals(vector, "the coordinates of a query", "SearchShape")
    dimension = setup["spec"]["dimension"]
    if array.shape != (dimension,):
        raise errors.of_kind(
            "SearchShape",
            f"a query has the shape {array.shape}: pass the shape ({dimension},)"
        )
    return array


def _rows(rows: Iterable[int]) -> set[int]:
    """Checks numbers of rows."""
    listed = items(rows, "deleted", "a list of numbers of rows")
    return {whole(row, "the number of a row") for row in listed}


_Carried = list[list[int]] | list[bytes]
"""Payloads of records: numbers of each, or bytes."""


def _carried(setup: Any, rows: int, payloads: npt.ArrayLike | None) -> _Carried | None:
    """Checks the payloads of records. Returns `None` if records have no payloads."""
    kind = setup["payload"]
    if (kind == "rows") != (payloads is None):
        raise errors.ArgumentError("pass payloads if the plan has some, and only then")
    if payloads is None:
        return None
    if "bytes" in kind:
        return _texts(rows, payloads)
    columns = kind["integers"]["columns"]
    array = plain_array(payloads, "payloads", "SearchShape")
    # One number each may come without an axis of its own.
    possible = [(rows, columns), (rows,)] if columns == 1 else [(rows, columns)]
    if array.dtype.kind not in "iu" or array.shape not in possible or (array < 0).any():
        raise errors.of_kind(
            "SearchShape",
            f"payloads are {array.dtype} of the shape {array.shape}: pass whole numbers from 0 of the shape "
            f"({rows}, {columns})"
        )
    numbers: list[list[int]] = array.reshape(rows, columns).tolist()
    return numbers


def _texts(rows: int, payloads: npt.ArrayLike) -> list[bytes]:
    """Checks the bytes of records. NumPy would strip trailing NULs when it makes an array."""
    values: Any = payloads
    if not isinstance(values, list | tuple):
        array = plain_array(values, "payloads", "SearchShape")
        if array.ndim != 1:
            raise errors.of_kind(
                "SearchShape",
                f"payloads have the shape {array.shape}: pass the shape ({rows},)"
            )
        values = array.tolist()
    if len(values) != rows:
        raise errors.of_kind("SearchShape", f"there are {len(values)} payloads for {rows} vectors: pass one for each")
    texts: list[bytes] = []
    for row, value in enumerate(values):
        if isinstance(value, str):
            value = string(value, f"the payload of row {row}").encode()
        if not isinstance(value, bytes):
            raise errors.of_kind(
                "SearchShape",
                f"the payload of row {row} is {shown(value)} of type {type(value).__name__}: pass bytes or text"
            )
        texts.append(value)
    return texts


def _payloads(
    rows: int, carried: _Carried | None
) -> tuple[int, list[list[int]] | None, list[bytes] | None]:
    """Returns the number of rows, and their numbers or bytes, for native code."""
    if not carried:
        return rows, None, None
    if isinstance(carried[0], bytes):
        return rows, None, carried
    return rows, carried, None


class _Encrypts:
    """A key that encrypts an index and queries."""

    _path: Path
    _writer: _native.SearchWriter
    _setup: Any

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    def encrypt(self, vector: npt.ArrayLike) -> bytes:
        """Encrypts a query, for the server."""
        return self._writer.query(_query(self._setup, vector))

    query = renamed(encrypt, "query")


class PublicKey(_Encrypts):
    """Encrypts an index and queries. You may give it to anybody."""

    def __init__(self, path: _Path) -> None:
        self._path = path_of(path)
        self._writer = _native.SearchWriter.public(self._path)
        self._setup = json.loads(self._writer.setup())


class SecretKey(_Encrypts):
    """Decrypts answers, and encrypts an index and queries in half the bytes. For the owner alone."""

    def __init__(self, path: _Path, *, passphrase: str | None = None) -> None:
        self._path = path_of(path)
        self._native = _native.SearchSecretKey.open(
            self._path, optional(hidden, passphrase, "passphrase")
        )
        self._writer = self._native.writer()
        self._setup = json.loads(self._native.setup())

    def decrypt(self, answer: bytes, *, deleted: Iterable[int] = ()) -> Scores | Count | Matches:
        """Decrypts an answer. Deleted rows are left out of scores."""
        left_out = frozenset(_rows(deleted))
        found = self._native.read(octets(answer, "an answer"))
        if found["scores"] is not None:
            return Scores(np.array(found["scores"]), left_out, self._native)
        if found["count"] is not None:
            return Count(found["count"], found["undecided"])
        rows = np.array(found["rows"], dtype=np.int64)
        payloads: npt.NDArray[Any] | None = None
        if found["integers"] is not None:
            columns = self._setup["payload"]["integers"]["columns"]
            payloads = np.array(found["integers"], dtype=np.int64).reshape(len(rows), columns)
        if found["bytes"] is not None:
            most = self._setup["payload"]["bytes"]["most"]
            payloads = np.array([bytes(item) for item in found["bytes"]], dtype=f"S{most}")
        return Matches(
            rows, payloads, found["crowded"], found["undecided"], found["more_than_planned"]
        )

    read = renamed(decrypt, "read")


class Keys:
    """The keys of a search in a directory."""

    def __init__(self, folder: _Path, *, passphrase: str | None = None) -> None:
        self.folder = path_of(folder, "folder")
        """The directory; its `evaluation.key` goes to the server."""
        self.public = PublicKey(self.folder / "public.key")
        """Encrypts in twice the bytes of `secret`."""
        self.secret = SecretKey(self.folder / "secret.key", passphrase=passphrase)
        """Decrypts, and encrypts."""

    @property
    def evaluation(self) -> Path:
        """The file for the server."""
        return self.folder / "evaluation.key"

    def __repr__(self) -> str:
        return f"Keys({str(self.folder)!r})"


class Scores:
    """The similarity of every vector."""

    def __init__(
        self, values: _Floats, deleted: frozenset[int], native: _native.SearchSecretKey
    ) -> None:
        self.values = values
        """A cosine, an inner product, or the square of a distance for each row; NaN for rows that the
        server knows to be deleted."""
        self.largest_error: float = native.largest_error
        """A bound on the errors of `values`, for all vectors; of squares for distances."""
        self._deleted = deleted
        self._native = native

    def top_k(self, k: int) -> tuple[_Ints, _Floats]:
        """Returns the rows of the `k` nearest vectors and their similarities, the nearest first.

        Similarities are cosines, inner products or distances, the roots of squares in `values`.
        """
        count = whole(k, "k")
        rows, values = self._native.nearest(self.values.tolist(), set(self._deleted), count)
        return np.array(rows, dtype=np.int64), np.array(values)

    def __repr__(self) -> str:
        return f"Scores of {len(self.values)} rows"

    def _repr_html_(self) -> str:
        rows, values = self.top_k(min(10, len(self.values) - len(self._deleted)))
        notes = [f"The nearest of {len(self.values)} rows."]
        return columns_html("Scores", {"row": rows, "similarity": values}, notes)


@dataclass(frozen=True)
class Count(Facts):
    """The number of vectors that match."""

    matches: int
    undecided: int
    """The number of sums that are left out, because they have a vector within the margin of the threshold."""

    def _facts(self) -> dict[str, str]:
        return {"matches": str(self.matches), "undecided": str(self.undecided)}


@dataclass(frozen=True)
class Matches:
    """The vectors that match."""

    rows: _Ints
    """The numbers of rows, ascending."""
    payloads: npt.NDArray[Any] | None
    """The payloads of rows, or `None` if the search has no payloads."""
    crowded: int
    """The number of further matches, too many in one bucket to tell apart."""
    undecided: int
    """The number of buckets that are left out, because they have a vector within the margin of the threshold."""
    more_than_planned: bool

    def _repr_html_(self) -> str:
        columns: dict[str, Any] = {"row": self.rows}
        if self.payloads is not None:
            columns["payload"] = self.payloads.tolist()
        complete = "These are all matches." if self.is_complete else "Some matches may be missing."
        return columns_html("Matches", columns, [complete])

    @property
    def is_complete(self) -> bool:
        """True if these are all matches."""
        return self.crowded == 0 and self.undecided == 0


class Index:
    """An encrypted index in a directory, with the vectors of its owner in the clear.

    Next to the directory is a file, `DIRECTORY.owner`, by which the owner recognises blocks that changed.
    Only these are encrypted again. The directory is for the server, the file is not.
    """

    def __init__(self, folder: _Path, key: PublicKey | SecretKey) -> None:
        self.folder = path_of(folder, "folder")
        expect_type(key, "key", PublicKey, SecretKey)
        self._key = key
        self._vectors = np.zeros((0, key._setup["spec"]["dimension"]))
        self._payloads: _Carried | None = None
        self._deleted: set[int] = set()
        self.encrypted: Sequence[int] = ()
        """The blocks that the last change encrypted."""

    @classmethod
    def build(
        cls,
        folder: _Path,
        key: PublicKey | SecretKey,
        vectors: npt.ArrayLike,
        payloads: npt.ArrayLike | None = None,
        *,
        deleted: Iterable[int] = (),
        progress: Progress = None,
    ) -> Index:
        """Encrypts vectors, a row each, and their payloads.

        Blocks of an existing index with the same content stay, so an interrupted call continues. The secret
        key needs half the bytes.
        """
        index = cls(folder, key)
        index._vectors = _vectors(key._setup, vectors)
        index._payloads = _carried(key._setup, len(index._vectors), payloads)
        index._deleted = _rows(deleted)
        index._update(progress)
        return index

    def append(
        self,
        vectors: npt.ArrayLike,
        payloads: npt.ArrayLike | None = None,
        *,
        progress: Progress = None,
    ) -> None:
        """Appends vectors."""
        new = _vectors(self._key._setup, vectors)
        added = _carried(self._key._setup, len(new), payloads)
        if added is not None:
            self._payloads = [*(self._payloads or []), *added]
        self._vectors = np.concatenate([self._vectors, new])
        self._update(progress)

    def delete(self, rows: Iterable[int], *, progress: Progress = None) -> None:
        """Deletes vectors by their numbers. Other vectors keep their numbers."""
        listed = items(rows, "rows", "a list of numbers of rows")
        named = {whole(row, "the number of a row", -(2**62), 2**62) for row in listed}
        new = self._deleted | named
        if new and not 0 <= min(new) <= max(new) < len(self):
            raise errors.of_kind("SearchShape", f"there are only {len(self)} rows, counted from 0")
        self._deleted = new
        self._update(progress)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, {len(self)} rows, {len(self._deleted)} of them deleted)"

    @property
    def deleted(self) -> frozenset[int]:
        """The numbers of deleted rows."""
        return frozenset(self._deleted)

    def __len__(self) -> int:
        """Returns the number of rows, including deleted ones."""
        return len(self._vectors)

    def _update(self, progress: Progress) -> None:
        payloads = _payloads(len(self._vectors), self._payloads)
        catalogue = Path(f"{self.folder}.owner")
        records = self._vectors, payloads
        report = callback(progress)
        self.encrypted = self._key._writer.update(
            self.folder, catalogue, records, self._deleted, report
        )


class Server:
    """Searches with the evaluation keys, and sees nothing."""

    def __init__(self, path: _Path) -> None:
        self._path = path_of(path)
        self._native = _native.SearchServer.open(self._path)
        self._setup = json.loads(self._native.setup())

    def __repr__(self) -> str:
        return f"Server({str(self._path)!r})"

    def compute(
        self,
        query: bytes | npt.ArrayLike,
        index: _Path | npt.ArrayLike,
        payloads: npt.ArrayLike | None = None,
        *,
        deleted: Iterable[int] = (),
        answer: Literal["scores", "count", "matches"] | None = None,
        progress: Progress = None,
    ) -> bytes:
        """Computes the encrypted answer to a query.

        Parameters
        ----------
        query : bytes or array_like
            An encrypted query; with `mode="plain-query"` a vector.
        index : path or array_like
            The directory of an encrypted index; with `mode="plain-index"` vectors, a row each.
        payloads : array_like, optional
            The payloads of plain vectors.
        deleted : iterable of int, optional
            The numbers of deleted plain vectors.
        answer : {"scores", "count", "matches"}, optional
            The answer to compute; the planned one by default.
        progress : callable or bool, optional
            Called as `progress(step, done, total)`. `True` shows bars of tqdm.
        """
        asked = query if isinstance(query, bytes) else _query(self._setup, query)
        report = callback(progress)
        wanted = optional(choice, answer, "answer", ("scores", "count", "matches"))
        left_out = _rows(deleted)
        if isinstance(index, str | os.PathLike):
            if payloads is not None or left_out:
                raise errors.ArgumentError(
                    "the index is encrypted, and knows its payloads and deleted rows: leave out payloads and "
                    "deleted"
                )
            return self._native.search_index(asked, path_of(index, "index"), wanted, report)
        if not isinstance(asked, bytes):
            raise errors.ArgumentError("index and query are both in the clear: encrypt one")
        vectors = _vectors(self._setup, index)
        carried = _carried(self._setup, len(vectors), payloads)
        records = vectors, _payloads(len(vectors), carried)
        return self._native.search_records(asked, records, left_out, wanted, report)

    search = renamed(compute, "search")
