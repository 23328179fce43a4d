"""Tables that are encrypted for one job, and the files that they share with the command line."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare import _native, errors
from sudare._native import Data, Result, Table, TablePlan
from sudare._plain import Floats

ROWS, COLUMNS = 50, ["age", "weight", "dose"]


class Owner:
    """Makes a plan, its keys and its table."""

    def __init__(self) -> None:
        self.plan = TablePlan.statistics(ROWS, len(COLUMNS), insecure_log_n=11)
        self.public, self.evaluation, self.secret = _native.generate_keys(self.plan)
        self.values: Floats = np.random.default_rng(1).normal(
            [40, 70, 0.1], [10, 9, 0.02], (ROWS, 3)
        )

    def encrypt(self, **options: Any) -> Table:
        return self.plan.encrypt(self.public, Data(COLUMNS, self.values), **options)


@pytest.fixture(scope="module")
def owner() -> Owner:
    return Owner()


@pytest.fixture(scope="module")
def table(owner: Owner) -> Table:
    return owner.encrypt()


@pytest.fixture(scope="module")
def result(owner: Owner, table: Table) -> Result:
    return table.compute(owner.evaluation)


def check(owner: Owner, values: dict[str, Any]) -> None:
    """Checks statistics against the owner's table."""
    assert values["columns"] == COLUMNS and values["rows"] == ROWS
    spread = owner.values.std(axis=0, ddof=1)
    assert np.allclose(values["mean"], owner.values.mean(axis=0), atol=1e-4 * spread.min())
    assert np.allclose(values["std_dev"], spread, rtol=1e-4)
    assert np.allclose(values["correlation"], np.corrcoef(owner.values.T), atol=1e-4)


def test_statistics_come_back(owner: Owner, table: Table, result: Result) -> None:
    assert (table.rows, table.features, table.kind) == (ROWS, 3, "stats")
    assert table.job == owner.plan.job == result.job == "stats:50x3"
    assert table.key_id == result.key_id == owner.secret.key_id
    assert table.blocks == owner.plan.blocks
    assert table.nbytes == len(table.to_bytes()) and table.path is None
    assert result.nbytes == len(result.to_bytes()) and result.content == "statistics"
    decrypted = result.decrypt(owner.secret)
    check(owner, decrypted.values())
    x = owner.values
    expected = (x * x[:, :1]).sum(axis=0) / x[:, 0].sum()
    assert np.allclose(decrypted.weighted_mean(0), expected, rtol=1e-5)


def test_a_plan_says_what_it_costs(owner: Owner) -> None:
    report = owner.plan.report()
    assert report["log_n"] == 11 and report["security_bits"] < 128
    assert report["evaluation_keys"] == len(owner.evaluation)
    assert report["evaluation_key_bytes"] == owner.evaluation.nbytes
    secure = TablePlan.statistics(ROWS, 3).report()
    assert secure["security_bits"] >= 128
    assert secure["program"]["depth"] == 2 and secure["program"]["seconds"] > 0
    for plan in (TablePlan.groups(ROWS, 2, 3), TablePlan.histogram(ROWS, 2, 3)):
        assert plan.report()["program"]["input_bytes"] > 0
    training = TablePlan.train(ROWS, 3, insecure_log_n=11).report()["program"]
    assert training["depth"] == 16 and training["seconds"] > 0


@pytest.mark.parametrize("protocol", [2, 5])
def test_tables_and_results_are_picklable(
    owner: Owner, table: Table, result: Result, tmp_path: Path, protocol: int
) -> None:
    again = pickle.loads(pickle.dumps(table, protocol=protocol))
    assert again.to_bytes() == table.to_bytes() and copy.copy(table).key_id == table.key_id
    check(owner, again.compute(owner.evaluation).decrypt(owner.secret).values())
    assert pickle.loads(pickle.dumps(result, protocol=protocol)).to_bytes() == result.to_bytes()
    buffers: list[pickle.PickleBuffer] = []
    pickle.dumps(table, protocol=5, buffer_callback=buffers.append)
    assert buffers[0].raw().obj is table.to_bytes()

    path = tmp_path / "table.ct"
    stored = owner.encrypt(path=path)
    assert stored.path == path and path.stat().st_size == stored.nbytes
    data = pickle.dumps(stored, protocol=protocol)
    assert len(data) < 500
    check(owner, pickle.loads(data).compute(owner.evaluation).decrypt(owner.secret).values())
    table.save(path, overwrite=True)
    for use in (lambda: stored.compute(owner.evaluation), lambda: pickle.loads(data)):
        with pytest.raises(errors.FileError, match="table.ct"):
            use()


def sudare(*args: object) -> Any:
    """Runs a command, and returns its JSON."""
    command = [sys.executable, "-m", "sudare", *map(str, args), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_line_takes_the_files(owner: Owner, table: Table, tmp_path: Path) -> None:
    names = ("secret.key", "public.key", "evaluation.key", "table.ct", "result.ct")
    secret, public, evaluation, encrypted, out = (tmp_path / name for name in names)
    owner.secret.save(secret)
    owner.public.save(public)
    owner.evaluation.save(evaluation)
    table.save(encrypted)
    assert sudare("info", encrypted)["job"] == table.job
    sudare("stats", "--evaluation-key", evaluation, "-i", encrypted, "-o", out)
    check(owner, sudare("decrypt", "--secret", secret, "-i", out)["values"])
    check(owner, Result.open(out).decrypt(owner.secret).values())

    csv = tmp_path / "table.csv"
    np.savetxt(csv, owner.values, fmt="%.17g", delimiter=",", header=",".join(COLUMNS), comments="")
    sudare("encrypt", "--public", public, "--data", csv, "-o", encrypted, "--force")
    result = Table.open(encrypted).compute(owner.evaluation)
    check(owner, result.decrypt(owner.secret).values())
    result.save(out, overwrite=True)
    check(owner, sudare("decrypt", "--secret", secret, "-i", out)["values"])


def test_files_of_the_command_line_are_taken(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    made = sudare("keygen", "--params", "auto", "--for", "groups:6x1x2", "--out", keys)
    public = _native.PublicKey.open(keys / "public.key")
    plan = TablePlan.of(public)
    assert plan.job == made["job"] and plan.kind == "groups" and public.key_id == made["key_id"]
    numbers = np.array([[7, 1], [8, 2], [7, 3], [8, 4], [7, 5], [8, 6.0]])
    table = plan.encrypt(
        public, Data(["g", "x"], numbers), by="g", path=tmp_path / "t.ct"
    )
    keys_of_server = _native.EvaluationKeys.open(keys / "evaluation.key")
    secret = _native.SecretKey.open(keys / "secret.key")
    decrypted = table.compute(keys_of_server).decrypt(secret)
    values = decrypted.values()
    assert values["labels"] == [7, 8] and values["key"] == "g" and values["count"] == [3, 3]
    assert np.allclose(values["mean"], [[3], [4]], atol=1e-5)
    (test,) = decrypted.t_test(0, 1)
    assert test is not None and np.isclose(test["difference"], -1, atol=1e-5)


def test_a_model_is_read(tmp_path: Path) -> None:
    """Trains by the command line."""
    rng = np.random.default_rng(2)
    x: Floats = rng.normal(size=(40, 2))
    members = (x[:, 0] > 0).astype(int).tolist()
    plan = TablePlan.train(40, 2, iterations=3, insecure_log_n=11)
    public, evaluation, secret = _native.generate_keys(plan)
    paths = [tmp_path / name for name in ("evaluation.key", "table.ct", "model.ct")]
    evaluation.save(paths[0])
    data = Data(["a", "b"], x, labels=("y", ["no", "yes"], members))
    table = plan.encrypt(public, data, path=paths[1])
    assert table.kind == "train"
    with pytest.raises(errors.MismatchError, match="train:40x2"):
        table.compute(evaluation)
    sudare("train", "--evaluation-key", paths[0], "-i", paths[1], "-o", paths[2])
    result = Result.open(paths[2])
    values = result.decrypt(secret).values()
    assert result.content == "model" and result.iterations == values["iterations"] == 3
    assert values["columns"] == ["a", "b"] and values["target"] == "y" and values["rows"] == 40
    assert values["classes"] == ["no", "yes"] and not values["calibrated"]
    assert values["weights"][1] > abs(values["weights"][2])
    calibrated = result.decrypt(secret).calibrated(data)
    assert calibrated["calibrated"] and calibrated["weights"] != values["weights"]
    with pytest.raises(errors.ArgumentError, match="39 rows, but the model was trained on 40"):
        labels = ("y", ["no", "yes"], members[1:])
        result.decrypt(secret).calibrated(Data(["a", "b"], x[1:], labels=labels))
    with pytest.raises(errors.ArgumentError, match="row 3 has the index 2"):
        Data(["a", "b"], x, labels=("y", ["no", "yes"], [0, 1, 0, 2] * 10))
    with pytest.raises(errors.ShapeError, match="3 classes"):
        three = ("y", ["no", "yes", "perhaps"], members)
        plan.encrypt(public, Data(["a", "b"], x, labels=three))
    with pytest.raises(errors.TableError):
        plan.encrypt(public, Data(["a", "b"], x, labels=("y", ["no", "yes"], [1] * 40)))
    with pytest.raises(errors.TableError):
        plan.encrypt(public, Data(["a", "b"], x))


def test_models_that_are_shared_are_not_calibrated() -> None:
    x: Floats = np.random.default_rng(3).normal(size=(40, 2))
    labels = ("y", ["0", "1"], (x[:, 0] > 0).astype(int).tolist())
    data = Data(["a", "b"], x, labels=labels)
    plan = TablePlan.train(40, 2, iterations=2, shared_bits=8, insecure_log_n=11)
    public, evaluation, secret = _native.generate_keys(plan)
    trainer = _native.Trainer([plan.encrypt(public, data)], evaluation)
    trainer.step()
    shared = trainer.model().decrypt(secret, share_bits=8)
    assert shared.values()["weights"]
    with pytest.raises(errors.ArgumentError, match="share_bits"):
        shared.calibrated(data)


def test_the_secret_key_encrypts_in_half_the_bytes(owner: Owner, table: Table) -> None:
    data = Data(COLUMNS, owner.values)
    half = owner.plan.encrypt(owner.secret, data)
    assert 0.5 < half.nbytes / table.nbytes < 0.6
    check(owner, half.compute(owner.evaluation).decrypt(owner.secret).values())
    other = TablePlan.statistics(ROWS + 1, 3, insecure_log_n=11)
    with pytest.raises(errors.MismatchError, match="the secret key for stats:50x3.*stats:51x3"):
        other.encrypt(owner.secret, data)


def test_what_does_not_belong_together_is_refused(
    owner: Owner, table: Table, result: Result
) -> None:
    other = Owner()
    with pytest.raises(errors.MismatchError):
        table.compute(other.evaluation)
    with pytest.raises(errors.MismatchError):
        result.decrypt(other.secret)
    plan = TablePlan.statistics(ROWS + 1, 3, insecure_log_n=11)
    values = np.ones((ROWS + 1, 3))
    with pytest.raises(errors.MismatchError, match="stats:50x3.*stats:51x3"):
        plan.encrypt(owner.public, Data(COLUMNS, values))
    groups = TablePlan.groups(ROWS, 2, 2, insecure_log_n=11)
    with pytest.raises(errors.ArgumentError, match="by is missing"):
        groups.encrypt(_native.generate_keys(groups)[0], Data(COLUMNS, owner.values))


@pytest.mark.parametrize(
    ("columns", "numbers", "error"),
    [
        (COLUMNS, np.ones((ROWS, 2)), errors.ShapeError),
        (COLUMNS, np.ones((ROWS + 1, 3)), errors.ShapeError),
        ([*COLUMNS, "sex"], np.ones((ROWS, 4)), errors.ShapeError),
        (COLUMNS, np.ones(3 * ROWS), errors.ShapeError),
        (COLUMNS[:2], np.ones((ROWS, 3)), errors.ShapeError),
        (["a", "b", "a"], np.ones((ROWS, 3)), errors.TableError),
        (["a", "", "c"], np.ones((ROWS, 3)), errors.TableError),
        (COLUMNS, np.full((ROWS, 3), np.nan), errors.OutsideRangeError),
    ],
)
def test_other_tables_are_refused(
    owner: Owner, columns: list[str], numbers: Floats, error: type[errors.Error]
) -> None:
    with pytest.raises(error):
        owner.plan.encrypt(owner.public, Data(columns, numbers))


def test_tables_may_have_fewer_rows_than_planned(owner: Owner) -> None:
    few: Floats = owner.values[:20]
    table = owner.plan.encrypt(owner.public, Data(COLUMNS, few))
    assert table.rows == ROWS
    values = table.compute(owner.evaluation).decrypt(owner.secret).values()
    assert values["rows"] == 20
    assert np.allclose(values["mean"], few.mean(axis=0), rtol=1e-6)
    assert np.allclose(values["std_dev"], few.std(axis=0, ddof=1), rtol=1e-4)

    plan = TablePlan.groups(ROWS, 1, 4, insecure_log_n=11)
    public, evaluation, secret = _native.generate_keys(plan)
    keyed: Floats = np.column_stack([np.arange(30) % 3, few[np.arange(30) % 20, 0]])
    data = Data(["ward", "age"], keyed)
    values = plan.encrypt(public, data, by="ward").compute(evaluation).decrypt(secret).values()
    assert values["labels"] == [0, 1, 2] and values["count"] == [10, 10, 10]
    means = [[keyed[keyed[:, 0] == ward, 1].mean()] for ward in range(3)]
    assert np.allclose(values["mean"], means, rtol=1e-5)
    with pytest.raises(errors.ShapeError, match="groups"):
        five = Data(["ward", "age"], np.column_stack([np.arange(30) % 5, keyed[:, 1]]))
        plan.encrypt(public, five, by="ward")


def test_damaged_bytes_are_refused(owner: Owner, table: Table, result: Result) -> None:
    for whole, read in (
        (table.to_bytes(), Table.from_bytes),
        (result.to_bytes(), Result.from_bytes),
    ):
        for length in (0, 7, 100):
            with pytest.raises(errors.Error):
                read(whole[:length])
    with pytest.raises(errors.WrongFileError):
        Table.from_bytes(table.to_bytes()[:-10]).compute(owner.evaluation)
    damaged = bytearray(table.to_bytes())
    damaged[-1000] ^= 1
    with pytest.raises(errors.WrongFileError):
        Table.from_bytes(damaged).compute(owner.evaluation)
    with pytest.raises(errors.WrongFileError):
        Table.from_bytes(owner.public.to_bytes())
    with pytest.raises(errors.ArgumentError, match="statistics, but table"):
        Table.from_bytes(result.to_bytes())


def test_progress_is_told(owner: Owner) -> None:
    steps: list[tuple[str, int, int]] = []
    owner.encrypt(progress=lambda *step: steps.append(step)).compute(
        owner.evaluation, lambda *step: steps.append(step)
    )
    assert ("encrypting", 1, 1) in steps and steps[-1][0] == "computing"
    assert steps[-1][1] == steps[-1][2]
