"""Private search, against the same search in NumPy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from sudare import errors, search

Floats = npt.NDArray[np.float64]
# A ring too small to be secure, whose blocks are small.
LOG_N = 10


class World:
    """Makes the keys of a search, and its index in a directory."""

    def __init__(self, folder: Path, rows: int, dimension: int, **options: Any) -> None:
        options.setdefault("insecure_log_n", LOG_N)
        self.plan = search.plan(rows, dimension, **options)
        self.keys = self.plan.make_keys(folder / "keys")
        self.server = search.Server(self.keys.evaluation)
        self.folder = folder / "index"

    def build(self, vectors: Floats, payloads: Any = None) -> search.Index:
        return search.Index.build(self.folder, self.keys.secret, vectors, payloads)

    def ask(self, vector: Floats, answer: Any = None, **options: Any) -> Any:
        query = self.keys.secret.encrypt(vector)
        found = self.server.compute(query, self.folder, answer=answer)
        return self.keys.secret.decrypt(found, **options)


def cosines(vectors: Floats, query: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    return np.asarray(vectors @ query / norms)


def test_scores_of_all_metrics_and_modes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(1200, 5))
    vectors /= np.linalg.norm(vectors, axis=1).max()
    query = np.array([0.3, -0.2, 0.5, 0.1, -0.6])
    expected = {
        "cosine": cosines(vectors, query),
        "inner": vectors @ query,
        "euclidean": ((vectors - query) ** 2).sum(axis=1),
    }
    for metric, mode in (
        ("cosine", "encrypted"),
        ("inner", "plain-index"),
        ("euclidean", "plain-query"),
    ):
        largest = None if metric == "cosine" else 1.0
        world = World(tmp_path / metric, 2000, 5, metric=metric, mode=mode, largest=largest)
        sent: Any = query if mode == "plain-query" else world.keys.public.encrypt(query)
        if mode == "plain-index":
            answer = world.server.compute(sent, vectors)
        else:
            world.build(vectors)
            answer = world.server.compute(sent, world.folder)
        scores = world.keys.secret.decrypt(answer)
        assert isinstance(scores, search.Scores)
        np.testing.assert_allclose(scores.values, expected[metric], atol=scores.largest_error)
        rows, values = scores.top_k(3)
        order = np.argsort(expected[metric] if metric == "euclidean" else -expected[metric])
        # Scores of distances are squares. Ranks and results are distances.
        similar = scores.values[rows] if metric != "euclidean" else np.sqrt(scores.values[rows])
        assert rows.tolist() == order[:3].tolist() and np.allclose(values, similar, rtol=1e-15)
        if metric == "euclidean":
            nearest = np.sort(np.linalg.norm(vectors - query, axis=1))[:3]
            np.testing.assert_allclose(values**2, nearest**2, atol=scores.largest_error)


def test_an_index_is_appended_to_and_deleted_from(tmp_path: Path) -> None:
    world = World(tmp_path, 4000, 4)
    rng = np.random.default_rng(2)
    length = world.plan.explain().block_rows
    vectors = rng.normal(size=(length + 10, 4))
    index = world.build(vectors)
    assert index.encrypted == [0, 1]
    assert world.build(vectors).encrypted == []
    more = rng.normal(size=(3, 4))
    index.append(more)
    assert (index.encrypted, len(index)) == ([1], length + 13)
    index.delete([5])
    assert index.encrypted == [0] and index.deleted == {5}
    query = vectors[5]
    scores = world.ask(query, deleted=index.deleted)
    expected = cosines(np.concatenate([vectors, more]), query)
    assert scores.top_k(1)[0][0] == np.argsort(-expected)[1]
    with pytest.raises(errors.SearchError):
        index.delete([9999])
    (world.folder / "block-00001.ct").unlink()
    with pytest.raises(errors.SearchError, match="block 1 "):
        world.ask(query)
    block = world.folder / "block-00000.ct"
    block.write_bytes(block.read_bytes()[:-8])
    with pytest.raises(errors.SearchError, match="block 0 "):
        world.ask(query)


@pytest.mark.parametrize("matches", [0, 1, 32, 33])
def test_matches_with_payloads(tmp_path: Path, matches: int) -> None:
    options: Any = {"at": 0.8, "margin": 0.15, "most": 32, "payload": "integers:2x12"}
    world = World(tmp_path, 2500, 4, answer="matches", insecure_log_n=11, **options)
    length = world.plan.explain().block_rows
    rows = length + 100
    # On both sides of each edge of the gap.
    inside, outside = 0.951, 0.649
    similarity = np.full(rows, outside)
    # Matches at both ends of blocks and in between.
    chosen = np.unique(np.linspace(0, rows - 1, matches).astype(int))
    similarity[chosen] = inside
    vectors = np.zeros((rows, 4))
    vectors[:, 0] = similarity
    vectors[:, 1] = np.sqrt(1 - similarity**2)
    payloads = np.stack([np.arange(rows) % 4096, np.arange(rows) * 7 % 4096], axis=1)
    world.build(vectors, payloads)
    query = np.array([3.0, 0.0, 0.0, 0.0])
    found = world.ask(query)
    assert found.more_than_planned == (matches > 32)
    assert len(found.rows) + found.crowded == len(chosen)
    assert found.undecided == 0
    assert set(found.rows) <= set(chosen)
    if matches <= 32:
        assert found.is_complete and found.rows.tolist() == chosen.tolist()
    np.testing.assert_array_equal(found.payloads, payloads[found.rows])
    count = world.ask(query, "count")
    assert (count.matches, count.undecided) == (len(chosen), 0)


def test_the_secret_key_halves_bytes(tmp_path: Path) -> None:
    world = World(tmp_path, 100, 3)
    vectors = np.random.default_rng(3).normal(size=(90, 3))
    block = world.folder / "block-00000.ct"
    search.Index.build(world.folder, world.keys.public, vectors)
    whole, query = block.stat().st_size, world.keys.public.encrypt(vectors[7])
    first = world.keys.secret.decrypt(world.server.compute(query, world.folder))
    # One row has changed.
    vectors[89] = 1.0
    search.Index.build(world.folder, world.keys.secret, vectors)
    assert 0.5 < block.stat().st_size / whole < 0.56
    assert 0.5 < len(world.keys.secret.encrypt(vectors[7])) / len(query) < 0.56
    second = world.ask(vectors[7])
    assert isinstance(first, search.Scores)
    np.testing.assert_allclose(second.values[:89], first.values[:89], atol=2 * first.largest_error)


def test_payloads_of_bytes(tmp_path: Path) -> None:
    options: Any = {"at": 0.5, "margin": 0.3, "most": 4, "payload": "bytes:6"}
    world = World(tmp_path, 100, 2, answer="matches", mode="plain-index", **options)
    vectors = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.1]])
    query = world.keys.public.encrypt([1.0, 0.0])
    answer = world.server.compute(query, vectors, np.array(["a", "b", "maß"]), deleted=[0])
    found = world.keys.secret.decrypt(answer)
    assert isinstance(found, search.Matches) and found.payloads is not None
    assert (found.rows.tolist(), found.payloads[0].decode()) == ([2], "maß")


def test_plans_are_explained_before_keys() -> None:
    said = search.plan(50_000, 128).explain()
    assert said.security_bits >= 128 and said.log_n == 13 and said.query_bytes < 1e6
    assert any("server learns" in sentence for sentence in said.leakage)
    assert re.match("ring +N = 2\\^13", str(said))
    assert said.index_bytes > 1e8 and 0 < said.seconds < 60
    assert search.plan(50_000, 128, mode="plain-index").explain().index_bytes == 0


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.SearchError, match="threshold"):
        search.plan(100, 4, answer="count", at=1.5, margin=0.1)
    for options in ({"answer": "count"}, {"at": 0.5, "margin": 0.1}, {"metric": "inner"}):
        with pytest.raises(errors.ArgumentError):
            search.plan(100, 4, **options)
    (tmp_path / "taken").write_text("")
    with pytest.raises(errors.FileError):
        search.plan(100, 4, insecure_log_n=LOG_N).make_keys(tmp_path / "taken" / "keys")
    world = World(tmp_path, 100, 4, metric="inner", largest=1.0)
    for bad in (np.zeros((2, 3)), np.zeros(4)):
        with pytest.raises(errors.SearchError):
            world.build(bad)
    for bad in (np.full((1, 4), np.nan), np.full((1, 4), 1.0)):
        with pytest.raises(errors.SearchError, match="row 0"):
            world.build(bad)
    with pytest.raises(errors.SearchError):
        world.ask(np.zeros(4))
    with pytest.raises(errors.SearchError):
        world.build(np.zeros((101, 4)))
    world.build(np.zeros((3, 4)))
    other = World(tmp_path / "other", 100, 4, metric="inner", largest=1.0)
    with pytest.raises(errors.SearchError):
        other.server.compute(other.keys.public.encrypt(np.zeros(4)), world.folder)
    with pytest.raises(errors.SearchError):
        world.ask(np.zeros(4), "count")


def found_payloads(folder: Path, payload: str, carried: Any, rows: int = 3) -> Any:
    """Returns the payloads of a search that all records match."""
    options: Any = {"at": 0.5, "margin": 0.3, "most": 4, "payload": payload}
    world = World(folder, 100, 2, answer="matches", mode="plain-index", **options)
    vectors = np.tile([1.0, 0.0], (rows, 1))
    answer = world.server.compute(world.keys.public.encrypt([1.0, 0.0]), vectors, carried)
    found = world.keys.secret.decrypt(answer)
    assert isinstance(found, search.Matches) and found.rows.tolist() == list(range(rows))
    assert found.payloads is not None
    return found.payloads.tolist()


def test_bytes_come_back_as_they_were(tmp_path: Path) -> None:
    texts = [b"\x01\xff\x07", b"", "maß".encode()]
    frame = pd.Series(["a", b"bc", "maß"])
    for number, (carried, expected) in enumerate(
        [
            (texts, texts),
            (tuple(texts), texts),
            (np.array(texts), texts),
            (np.array(["a", "bc", "maß"]), [b"a", b"bc", "maß".encode()]),
            (frame, [b"a", b"bc", "maß".encode()]),
            (frame[[0, 2, 2]].astype("string"), [b"a", "maß".encode(), "maß".encode()]),
        ]
    ):
        assert found_payloads(tmp_path / str(number), "bytes:6", carried) == expected
    for number, carried in enumerate(
        [
            [b"\x01\xff\x07\x00", b"a", b"b"],
            ["a\0", "b", "c"],
            np.array([b"a\0", b"b", b"c"], dtype="V2"),
            [b"a", None, b"b"],
            [b"a", 1, b"b"],
            [b"a", b"b"],
            np.array([[b"a"], [b"b"], [b"c"]]),
            pd.Series(["a", None, "b"]),
            pd.Series(["a", pd.NA, "b"], dtype="string"),
        ]
    ):
        with pytest.raises(errors.Error, match="row|end with 0|payloads"):
            found_payloads(tmp_path / f"no{number}", "bytes:6", carried)


def test_whole_numbers_come_in_the_shape_of_the_plan(tmp_path: Path) -> None:
    pairs = np.array([[1, 2], [3, 4], [5, 6]])
    assert found_payloads(tmp_path / "a", "integers:2x8", pairs) == pairs.tolist()
    assert found_payloads(tmp_path / "b", "integers:1x8", [7, 8, 9]) == [[7], [8], [9]]
    for number, carried in enumerate([pairs.T, pairs.ravel(), pairs - 2, pairs / 2, [[1, 2], [3]]]):
        with pytest.raises(errors.SearchError, match="payloads"):
            found_payloads(tmp_path / f"no{number}", "integers:2x8", carried)


def test_only_real_numbers_are_searched(tmp_path: Path) -> None:
    world = World(tmp_path, 100, 3)
    plain = np.eye(3)
    for vectors in [
        plain + 5j,
        plain.astype(str),
        [["a", "b", "c"]],
        [[1, 2, 3], [4]],
        plain.astype("m8[s]"),
    ]:
        with pytest.raises(errors.SearchError):
            world.build(vectors)  # type: ignore[arg-type]
    queries: list[Any] = [
        np.ones(3) + 5j,
        ["a", "b", "c"],
        ["1", "2", "3"],
        [1, [2], 3],
        np.ones(4),
    ]
    for query in queries:
        with pytest.raises(errors.SearchError):
            world.keys.secret.encrypt(query)
    index = world.build(plain.astype(np.float16))
    index.append(plain.astype(int))
    scores = world.ask(plain[1])
    assert isinstance(scores, search.Scores) and scores.top_k(9)[0][:2].tolist() in ([1, 4], [4, 1])
    for k in (-1, 1.5, "a", None):
        with pytest.raises(errors.ArgumentError, match="k is"):
            scores.top_k(k)  # type: ignore[arg-type]
    for rows in ([-1], [0.5], ["a"]):
        with pytest.raises(errors.ArgumentError, match="the number of a row"):
            search.Index.build(tmp_path / "other", world.keys.secret, plain, deleted=rows)  # type: ignore[arg-type]
    with pytest.raises(errors.SearchError, match="counted from 0"):
        index.delete([-1])
    with pytest.raises(errors.ArgumentError, match="an answer"):
        world.keys.secret.decrypt("abc")  # type: ignore[arg-type]
    for options in ({"rows": 1.5}, {"dimension": "a"}, {"rows": -1}):
        with pytest.raises(errors.ArgumentError, match="is"):
            search.plan(**{"rows": 100, "dimension": 4, **options})  # type: ignore[arg-type]
    sizes: list[Any] = [np.int64(100), np.int32(4)]
    threshold: dict[str, Any] = {"at": np.float32(0.5), "margin": np.float32(0.25)}
    assert search.plan(*sizes, answer="count", **threshold).explain().log_n >= 13
