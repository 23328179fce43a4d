"""Private search: an index of vectors, queries, and a server that finds what is near them unseen.

| who | does |
|---|---|
| owner | `p = plan(50_000, 128, answer="matches", at=0.8, margin=0.1)`, and `p.explain()` |
| owner | `keys = p.make_keys("keys")`, three files in a folder |
| owner | `index = Index.build("index", keys.secret, vectors, payloads)`, a folder for the server |
| owner | `query = keys.secret.query(vector)` |
| server | `answer = Server("evaluation.key").search(query, "index")` |
| owner | `keys.secret.read(answer)` |

Queries and answers are bytes, of the files that the command `sudare search` reads and writes. Either
the index or queries may be in the clear: see `mode` of `plan`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sudare import _native, _plain, errors
from sudare._progress import Progress, callback

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

_Path = str | os.PathLike[str]
_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Explanation:
    """What a search takes and tells. Bytes are those of files, but for headers."""

    log_n: int
    """`log2(N)` of the ring."""
    security_bits: float
    levels: int
    blocks: int
    """Blocks of the index, of `block_rows` vectors in `block_ciphertexts` ciphertexts each."""
    block_rows: int
    block_ciphertexts: int
    keys: int
    key_memory_bytes: int
    """Of the server's keys in its memory; files are half."""
    index_bytes: int
    """Of an index by the public key, twice those of one by the secret key."""
    query_bytes: int
    answer_bytes: int
    automorphisms: int
    """Of a whole search."""
    products: int
    """Of a whole search: those that are relinearised."""
    seconds: float
    """Of one thread of a reference machine, without reading files."""
    largest_error: float
    """Of scores, whatever the vectors are."""
    log2_incomplete: float | None
    """Of as many matches as planned: `log2` of the probability that some are not told."""
    log2_wrong: float | None
    """Of counts and matches: `log2` of a bound of the probability that noise makes an answer wrong."""
    leakage: tuple[str, ...]
    """Who learns what, in sentences."""

    def __str__(self) -> str:
        lines = [
            f"ring N = 2^{self.log_n}, {self.levels} levels, {self.security_bits:.0f} bits of security",
            f"{self.keys} keys, {self.key_memory_bytes / 1e6:.0f} MB in memory",
            f"index: {self.blocks} blocks of {self.block_rows} rows, {self.index_bytes / 1e6:.0f} MB",
            f"query: {self.query_bytes / 1e6:.2f} MB, answer: {self.answer_bytes / 1e6:.2f} MB",
            f"about {self.seconds:.1f} s on one thread",
            *self.leakage,
        ]
        return "\n".join(lines)


class Plan:
    """What is searched, and how; planned before any key exists. Made by `plan`."""

    def __init__(self, native: _native.SearchPlan) -> None:
        self._native = native

    def explain(self) -> Explanation:
        """What the search takes and tells."""
        said = json.loads(self._native.explain())
        return Explanation(**{**said, "leakage": tuple(said["leakage"])})

    def make_keys(
        self,
        folder: _Path,
        *,
        passphrase: str | None = None,
        overwrite: bool = False,
        progress: Progress = None,
    ) -> Keys:
        """Makes the keys of the search and writes them: `secret.key` for you alone, `public.key` to
        encrypt, `evaluation.key` for the server. The folder is made if it does not exist.
        """
        path = Path(folder)
        self._native.write_keys(path, passphrase, overwrite, callback(progress))
        return Keys(path, passphrase=passphrase)


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
    """Plans a search among at most `rows` vectors, those to be appended included.

    Parameters
    ----------
    metric
        How vectors are compared: by the cosine of their angle, their inner product, or their
        Euclidean distance.
    largest, largest_query
        Of inner products and distances: the largest norm of a vector, and of a query, by default the
        same. Longer ones are refused.
    mode
        Who sees what: `"encrypted"`, the server sees neither index nor queries; `"plain-index"`, it
        has the index in the clear; `"plain-query"`, it sees queries.
    answer
        What the server answers: `"scores"`, the similarity of every vector; `"count"`, how many
        match; `"matches"`, which ones and what they carry. One that finds matches gives scores and
        counts, too.
    at, margin
        Of counts and matches: from which similarity, or up to which distance, vectors match, and how
        far from it answers are right.
    most
        Of matches: how many are told but for a probability of `2^-20`.
    payload
        Of matches: what each vector carries: `"rows"`, nothing; `"integers:COLUMNSxBITS"`, numbers
        from 0; `"bytes:MOST"`, bytes or text in UTF-8, which do not end with NUL.
    insecure_log_n
        For tests: a ring of this size, which is not secure.
    """
    whole, real = _plain.whole, _plain.real
    threshold = {
        "at": None if at is None else real(at, "at"),
        "margin": None if margin is None else real(margin, "margin"),
    }
    if largest is not None:
        largest = real(largest, "largest")
    if largest_query is not None:
        largest_query = real(largest_query, "largest_query")
    if (answer == "scores") != (at is None) or (at is None) != (margin is None):
        raise errors.ArgumentError(
            "counts and matches take at= and margin=, scores take neither: name both or none"
        )
    answers: dict[str, Any] = {
        "scores": "Scores",
        "count": {"Count": threshold},
        "matches": {"Matches": {"threshold": threshold, "most": whole(most, "most"), "payload": 0}},
    }
    if metric != "cosine" and largest is None:
        raise errors.ArgumentError("inner products and distances take largest=, the largest norm")
    metrics: dict[str, Any] = {
        "cosine": "Cosine",
        "inner": {
            "InnerProduct": {
                "largest": largest,
                "largest_query": largest if largest_query is None else largest_query,
            }
        },
        "euclidean": {"Euclidean": {"largest": largest}},
    }
    modes = {"encrypted": "Encrypted", "plain-index": "PlainIndex", "plain-query": "PlainQuery"}
    for name, given, known in (
        ("metric", metric, set(metrics)),
        ("mode", mode, set(modes)),
        ("answer", answer, set(answers)),
    ):
        if not isinstance(given, str) or given not in known:
            raise errors.ArgumentError(f"{name} is {given!r}, one of {sorted(known)} is needed")
    setup = {
        "spec": {
            "dimension": whole(dimension, "dimension"),
            "rows": whole(rows, "rows"),
            "metric": metrics[metric],
            "mode": modes[mode],
            "answer": answers[answer],
        },
        "payload": _payload(payload),
    }
    log_n = None if insecure_log_n is None else whole(insecure_log_n, "insecure_log_n")
    return Plan(_native.SearchPlan.make(json.dumps(setup), log_n))


def _payload(text: str) -> Any:
    kind, _, sizes = text.partition(":")
    parts = sizes.split("x")
    if text == "rows":
        return "rows"
    if kind == "integers" and len(parts) == 2 and all(part.isdecimal() for part in parts):
        return {"integers": {"columns": int(parts[0]), "bits": int(parts[1])}}
    if kind == "bytes" and sizes.isdecimal():
        return {"bytes": {"most": int(sizes)}}
    raise errors.ArgumentError(
        f"payload is {text!r}: rows, integers:COLUMNSxBITS or bytes:MOST is needed"
    )


def _vectors(setup: Any, vectors: npt.ArrayLike) -> _Floats:
    array = _plain.reals(vectors, "vectors", errors.SearchShapeError)
    dimension = setup["spec"]["dimension"]
    if array.ndim != 2 or array.shape[1] != dimension:
        raise errors.SearchShapeError(
            f"vectors have the shape {array.shape}, but the plan needs (rows, {dimension})"
        )
    return array


def _query(setup: Any, vector: npt.ArrayLike) -> bytes:
    array = _plain.reals(vector, "the coordinates of a query", errors.SearchShapeError)
    dimension = setup["spec"]["dimension"]
    if array.shape != (dimension,):
        raise errors.SearchShapeError(
            f"a query has the shape {array.shape}, but the plan needs ({dimension},)"
        )
    return array.tobytes()


def _rows(rows: Iterable[int]) -> set[int]:
    """Numbers of rows."""
    return {_plain.whole(row, "the number of a row") for row in rows}


_Carried = list[list[int]] | list[bytes]
"""What records carry: numbers of each, or bytes."""


def _carried(setup: Any, rows: int, payloads: npt.ArrayLike | None) -> _Carried | None:
    """What so many records carry; `None` if that is nothing."""
    kind = setup["payload"]
    if (kind == "rows") != (payloads is None):
        raise errors.ArgumentError("payloads are given if the plan has some, and only then")
    if payloads is None:
        return None
    if "bytes" in kind:
        return _texts(rows, payloads)
    columns = kind["integers"]["columns"]
    try:
        array = np.asarray(payloads)
    except ValueError as error:
        raise errors.SearchShapeError(f"payloads make no array ({error})") from None
    # One number each may come without an axis of its own.
    possible = [(rows, columns), (rows,)] if columns == 1 else [(rows, columns)]
    if array.dtype.kind not in "iu" or array.shape not in possible or (array < 0).any():
        raise errors.SearchShapeError(
            f"payloads are {array.dtype} of the shape {array.shape}, but the plan needs whole numbers "
            f"from 0 of the shape ({rows}, {columns})"
        )
    numbers: list[list[int]] = array.reshape(rows, columns).tolist()
    return numbers


def _texts(rows: int, payloads: npt.ArrayLike) -> list[bytes]:
    """Bytes of so many records. NumPy would cut trailing NULs off those that it has no array of yet."""
    values: Any = payloads
    if not isinstance(values, list | tuple):
        array = np.asarray(values)
        if array.ndim != 1:
            raise errors.SearchShapeError(
                f"payloads have the shape {array.shape}, but the plan needs ({rows},)"
            )
        values = array.tolist()
    if len(values) != rows:
        raise errors.SearchShapeError(f"there are {len(values)} payloads for {rows} vectors")
    texts: list[bytes] = []
    for row, value in enumerate(values):
        if isinstance(value, str):
            value = value.encode()
        if not isinstance(value, bytes):
            raise errors.SearchShapeError(
                f"row {row} carries {value!r} of type {type(value).__name__}: bytes or text are needed"
            )
        texts.append(value)
    return texts


def _payloads(
    rows: int, carried: _Carried | None
) -> tuple[int, list[list[int]] | None, list[bytes] | None]:
    """What native code takes: how many rows, and their numbers or bytes."""
    if not carried:
        return rows, None, None
    if isinstance(carried[0], bytes):
        return rows, None, carried
    return rows, carried, None


class _Encrypts:
    """A key that encrypts an index and queries."""

    _writer: _native.SearchWriter
    _setup: Any

    def query(self, vector: npt.ArrayLike) -> bytes:
        """An encrypted query, for the server."""
        return self._writer.query(_query(self._setup, vector))


class PublicKey(_Encrypts):
    """Encrypts an index and queries. May be given to anybody."""

    def __init__(self, path: _Path) -> None:
        self._writer = _native.SearchWriter.public(Path(path))
        self._setup = json.loads(self._writer.setup())


class SecretKey(_Encrypts):
    """Reads answers, and encrypts an index and queries in half the bytes. For the owner alone."""

    def __init__(self, path: _Path, *, passphrase: str | None = None) -> None:
        self._native = _native.SearchSecretKey.open(Path(path), passphrase)
        self._writer = self._native.writer()
        self._setup = json.loads(self._native.setup())

    def read(self, answer: bytes, *, deleted: Iterable[int] = ()) -> Scores | Count | Matches:
        """What an answer says, deleted rows left out of scores."""
        said = self._native.read(_plain.octets(answer, "an answer"))
        if said["scores"] is not None:
            return Scores(np.array(said["scores"]), frozenset(_rows(deleted)), self._native)
        if said["count"] is not None:
            return Count(said["count"], said["undecided"])
        rows = np.array(said["rows"], dtype=np.int64)
        payloads: npt.NDArray[Any] | None = None
        if said["integers"] is not None:
            columns = self._setup["payload"]["integers"]["columns"]
            payloads = np.array(said["integers"], dtype=np.int64).reshape(len(rows), columns)
        if said["bytes"] is not None:
            most = self._setup["payload"]["bytes"]["most"]
            payloads = np.array([bytes(item) for item in said["bytes"]], dtype=f"S{most}")
        return Matches(
            rows, payloads, said["crowded"], said["undecided"], said["more_than_planned"]
        )


class Keys:
    """The keys of a search in a folder."""

    def __init__(self, folder: _Path, *, passphrase: str | None = None) -> None:
        self.folder = Path(folder)
        """Where they are; `evaluation.key` in it goes to the server."""
        self.public = PublicKey(self.folder / "public.key")
        """Encrypts; what `secret` encrypts is half as large."""
        self.secret = SecretKey(self.folder / "secret.key", passphrase=passphrase)
        """Decrypts, and encrypts."""

    @property
    def evaluation(self) -> Path:
        """The file for the server."""
        return self.folder / "evaluation.key"


class Scores:
    """The similarity of every vector."""

    def __init__(
        self, values: _Floats, deleted: frozenset[int], native: _native.SearchSecretKey
    ) -> None:
        self.values = values
        """A cosine, an inner product, or the square of a distance for each row; not a number for
        rows that the server knows to be deleted."""
        self.largest_error: float = native.largest_error
        """A bound of the errors of `values`, whatever the vectors are; of squares, where these are."""
        self._deleted = deleted
        self._native = native

    def top_k(self, k: int) -> tuple[_Ints, _Floats]:
        """The rows of the `k` nearest vectors and their similarities, the nearest first: cosines, inner
        products or distances. A distance is the root of its square in `values`."""
        count = _plain.whole(k, "k")
        rows, values = self._native.nearest(self.values.tolist(), set(self._deleted), count)
        return np.array(rows, dtype=np.int64), np.array(values)


@dataclass(frozen=True)
class Count:
    """How many vectors match."""

    matches: int
    undecided: int
    """Sums that were left out: each has a vector within the margin of the threshold."""


@dataclass(frozen=True)
class Matches:
    """Which vectors match."""

    rows: _Ints
    """Their numbers, ascending."""
    payloads: npt.NDArray[Any] | None
    """What they carry, row by row; `None` if that is nothing."""
    crowded: int
    """Further ones, too many in one bucket to be told apart."""
    undecided: int
    """Buckets that were left out: each has a vector within the margin of the threshold."""
    more_than_planned: bool

    @property
    def is_complete(self) -> bool:
        """Whether these are all that match."""
        return self.crowded == 0 and self.undecided == 0


class Index:
    """An encrypted index in a folder, as its owner has it: with the vectors in the clear beside.

    Beside the folder is a file, `FOLDER.owner`, by which the owner tells blocks that have changed.
    Only these are encrypted anew. The folder is for the server, the file is not.
    """

    def __init__(self, folder: _Path, key: PublicKey | SecretKey) -> None:
        self.folder = Path(folder)
        self._key = key
        self._vectors = np.zeros((0, key._setup["spec"]["dimension"]))
        self._payloads: _Carried | None = None
        self._deleted: set[int] = set()
        self.encrypted: Sequence[int] = ()
        """Blocks that the last change encrypted."""

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
        """Encrypts vectors, a row each, and what they carry. Of an index that there is already,
        blocks that say the same stay; so an interrupted call goes on where it was. What the secret
        key encrypts is half as large.
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
        """Adds vectors after the last one."""
        new = _vectors(self._key._setup, vectors)
        added = _carried(self._key._setup, len(new), payloads)
        if added is not None:
            self._payloads = [*(self._payloads or []), *added]
        self._vectors = np.concatenate([self._vectors, new])
        self._update(progress)

    def delete(self, rows: Iterable[int], *, progress: Progress = None) -> None:
        """Deletes vectors by their numbers. Others keep theirs."""
        named = {_plain.whole(row, "the number of a row", -(2**62), 2**62) for row in rows}
        new = self._deleted | named
        if new and not 0 <= min(new) <= max(new) < len(self):
            raise errors.SearchShapeError(f"there are {len(self)} rows, counted from 0")
        self._deleted = new
        self._update(progress)

    @property
    def deleted(self) -> frozenset[int]:
        """Rows that were deleted."""
        return frozenset(self._deleted)

    def __len__(self) -> int:
        """Rows, deleted ones included."""
        return len(self._vectors)

    def _update(self, progress: Progress) -> None:
        payloads = _payloads(len(self._vectors), self._payloads)
        catalogue = Path(f"{self.folder}.owner")
        records, report = (self._vectors.tobytes(), payloads), callback(progress)
        self.encrypted = self._key._writer.update(
            self.folder, catalogue, records, self._deleted, report
        )


class Server:
    """Searches without seeing: has the evaluation keys, and no other."""

    def __init__(self, path: _Path) -> None:
        self._native = _native.SearchServer.open(Path(path))
        self._setup = json.loads(self._native.setup())

    def search(
        self,
        query: bytes | npt.ArrayLike,
        index: _Path | npt.ArrayLike,
        payloads: npt.ArrayLike | None = None,
        *,
        deleted: Iterable[int] = (),
        answer: Literal["scores", "count", "matches"] | None = None,
        progress: Progress = None,
    ) -> bytes:
        """The encrypted answer to a query.

        Parameters
        ----------
        query
            An encrypted query; with `mode="plain-query"` a vector.
        index
            The folder of an encrypted index; with `mode="plain-index"` vectors, a row each, with what
            they carry as `payloads`, but for those that are `deleted`.
        answer
            What to find, by default what was planned.
        """
        encrypted = isinstance(query, bytes)
        asked = query if isinstance(query, bytes) else _query(self._setup, query)
        report = callback(progress)
        if isinstance(index, str | os.PathLike):
            return self._native.search_index(asked, encrypted, Path(index), answer, report)
        if not encrypted:
            raise errors.ArgumentError("index and query are both in the clear: encrypt one")
        vectors = _vectors(self._setup, index)
        carried = _carried(self._setup, len(vectors), payloads)
        records = vectors.tobytes(), _payloads(len(vectors), carried)
        return self._native.search_records(asked, records, _rows(deleted), answer, report)
