"""A clinical table with an identifier, a date, text, truth values and gaps, through the command and Python."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sudare
from sudare import pool, stats
from sudare._coding import Missing
from sudare.linear_model import LinearRegression, LogisticRegression, Ridge

ROWS = 160
EPOCH = pd.Timestamp("1970-01-01")
FEATURES = [
    "admitted",
    "sex=F",
    "sex=M",
    "ward=east",
    "ward=north",
    "ward=west",
    "smoking=current",
    "smoking=former",
    "smoking=never",
    "smoking missing",
    "diabetes",
    "age",
    "crp",
    "stay",
]


def clinical(rows: int = ROWS, seed: int = 48) -> pd.DataFrame:
    """Makes the table."""
    draw = np.random.default_rng(seed)
    age = draw.integers(20, 90, rows)
    crp = np.round(draw.gamma(2.0, 9.0, rows), 1)
    diabetes = draw.random(rows) < 0.02 + age / 150
    risk = (age - 60) / 12 + (crp - 18) / 15 + diabetes - 0.4 + draw.normal(0, 0.7, rows)
    frame = pd.DataFrame(
        {
            "patient_id": [f"P{number:07d}" for number in draw.permutation(10**6)[:rows]],
            "admitted": EPOCH + pd.to_timedelta(draw.integers(19_000, 19_700, rows), unit="D"),
            "sex": draw.choice(["F", "M"], rows),
            "ward": draw.choice(["north", "east", "west"], rows, p=[0.5, 0.3, 0.2]),
            "smoking": draw.choice(["never", "former", "current"], rows, p=[0.5, 0.3, 0.2]),
            "diabetes": diabetes,
            "age": age.astype(float),
            "crp": crp,
            "stay": draw.poisson(6, rows).astype(float),
            "died": np.where(risk > 0, "yes", "no"),
        }
    )
    frame.loc[draw.random(rows) < 0.08, "crp"] = np.nan
    frame.loc[draw.random(rows) < 0.05, "smoking"] = None
    return frame


def coded(frame: pd.DataFrame, fitted: pd.DataFrame | None = None) -> pd.DataFrame:
    """Codes the features as pandas does, with means of the `fitted` table."""
    fitted = frame if fitted is None else fitted
    found = {"admitted": (frame["admitted"] - EPOCH) / pd.Timedelta(days=1)}
    for name in ["sex", "ward", "smoking"]:
        for value in sorted(fitted[name].dropna().unique()):
            found[f"{name}={value}"] = (frame[name] == value).astype(float)
        if fitted[name].isna().any():
            found[f"{name} missing"] = frame[name].isna().astype(float)
    for name in ["diabetes", "age", "crp", "stay"]:
        found[name] = frame[name].astype(float).fillna(fitted[name].mean())
    return pd.DataFrame(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the table and of new rows."""
    at = tmp_path_factory.mktemp("clinical")
    write(clinical(), at / "t.csv")
    clinical().to_parquet(at / "t.parquet", index=False)
    write(clinical(30, 49).drop(columns="died"), at / "new.csv")
    return at


def write(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, date_format="%Y-%m-%d")


def run(at: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Runs the command, and returns its output."""
    command = [sys.executable, "-m", "sudare", *line.split()]
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def quietly(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Calls a function that leaves out the identifier, and expects the warning."""
    with pytest.warns(sudare.errors.IdentifierWarning, match="patient_id"):
        return call(*args, **options)


@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
def test_statistics_are_those_of_pandas(folder: Path, tmp_path: Path, table: str) -> None:
    keys = tmp_path / "keys"
    line = f"keygen --params auto --for stats:{table} --missing mean --target died --out {keys}"
    assert "patient_id" in run(folder, line).stderr
    run(folder, f"encrypt --public {keys}/public.key --data {table} -o {tmp_path}/t.ct")
    run(folder, f"stats --evaluation-key {keys}/evaluation.key -i {tmp_path}/t.ct -o {tmp_path}/s.ct")
    shown = run(folder, f"decrypt --secret {keys}/secret.key -i {tmp_path}/s.ct --json")
    values = json.loads(shown.stdout)["values"]
    expected = coded(clinical())
    assert values["columns"] == FEATURES == list(expected.columns)
    scale = expected.std().to_numpy()
    assert np.abs((values["mean"] - expected.mean()) / scale).max() < 1e-6
    assert np.abs(values["std_dev"] / scale - 1).max() < 1e-6
    assert np.abs(np.array(values["correlation"]) - expected.corr().to_numpy()).max() < 1e-6


def test_statistics_in_python_are_those_of_pandas() -> None:
    frame = clinical().drop(columns="died")
    summary = quietly(stats.run, frame, missing="mean")
    expected = coded(frame)
    assert list(summary.columns) == FEATURES
    assert np.abs((summary.mean - expected.mean()) / expected.std()).max() < 1e-6
    assert np.abs(np.asarray(summary.correlation) - expected.corr().to_numpy()).max() < 1e-6


@pytest.mark.parametrize("missing", ["median", "most_frequent", "drop", "flag"])
def test_missing_values_are_those_of_pandas(missing: Missing) -> None:
    frame = clinical()[["crp", "smoking", "age"]]
    summary = stats.run(frame, missing=missing)
    rest = frame.dropna()
    middle = frame["crp"].median()
    expected = {
        "median": lambda: frame["crp"].fillna(middle).mean(),
        "most_frequent": lambda: frame["crp"].fillna(frame["crp"].mode()[0]).mean(),
        "drop": lambda: rest["crp"].mean(),
        "flag": lambda: frame["crp"].fillna(frame["crp"].mean()).mean(),
    }[missing]()
    columns = list(summary.columns)
    assert summary.mean[columns.index("crp")] == pytest.approx(expected, rel=1e-6)
    assert ("crp missing" in columns) == (missing == "flag")
    assert ("smoking missing" in columns) == (missing in ("median", "flag"))
    never = {"most_frequent": frame["smoking"].fillna(frame["smoking"].mode()[0]), "drop": rest["smoking"]}
    share = (never.get(missing, frame["smoking"]) == "never").mean()
    assert summary.mean[columns.index("smoking=never")] == pytest.approx(share, rel=1e-6)


def ruled(frame: pd.DataFrame) -> pd.DataFrame:
    """Codes a table by rules of single columns and parts of dates, as pandas does."""
    kept = frame[frame["smoking"].notna()]
    admitted = kept["admitted"].dt
    found = {
        "admitted year": admitted.year.astype(float),
        "admitted month": admitted.month.astype(float),
        "admitted weekday": admitted.day_of_week.astype(float),
        "crp": kept["crp"].fillna(kept["crp"].median()),
        "stay": kept["stay"].fillna(kept["stay"].mode()[0]),
    }
    for value in sorted(kept["smoking"].unique()):
        found[f"smoking={value}"] = (kept["smoking"] == value).astype(float)
    return pd.DataFrame(found)


def gappy(rows: int = ROWS) -> pd.DataFrame:
    frame = clinical(rows)[["admitted", "crp", "stay", "smoking", "died"]]
    frame.loc[::9, "stay"] = np.nan
    return frame


RULES: dict[str, Any] = {"crp": "median", "stay": "most_frequent", "smoking": "drop"}
PARTS: dict[str, Any] = {"admitted": ["year", "month", "weekday"]}


def test_columns_have_rules_of_their_own(folder: Path, tmp_path: Path) -> None:
    frame = gappy()
    write(frame, folder / "gappy.csv")
    expected = ruled(frame)
    rules = "--missing crp=median --missing stay=most-frequent --missing smoking=drop"
    line = f"keygen --params auto --for stats:gappy.csv --target died {rules}"
    keys = tmp_path / "keys"
    run(folder, f"{line} --dates admitted=year,month,weekday --out {keys}")
    told = run(folder, f"encrypt --public {keys}/public.key --data gappy.csv -o {tmp_path}/t.ct").stderr
    assert f"left out {len(frame) - len(expected)} rows" in told
    run(folder, f"stats --evaluation-key {keys}/evaluation.key -i {tmp_path}/t.ct -o {tmp_path}/s.ct")
    shown = run(folder, f"decrypt --secret {keys}/secret.key -i {tmp_path}/s.ct --json")
    values = json.loads(shown.stdout)["values"]
    assert values["columns"] == list(expected.columns) and values["rows"] == len(expected)
    assert np.abs((values["mean"] - expected.mean()) / expected.std()).max() < 1e-6
    assert np.abs(np.array(values["correlation"]) - expected.corr().to_numpy()).max() < 1e-6


@pytest.mark.parametrize("library", ["pandas", "polars", "dict"])
def test_rules_of_columns_in_python_are_those_of_pandas(library: str) -> None:
    frame = gappy().drop(columns="died")
    expected = ruled(frame)
    table: Any = {"pandas": frame, "polars": pl.from_pandas(frame), "dict": frame.to_dict("list")}[library]
    found = stats.run(table, missing=RULES, dates=PARTS)
    assert list(found.columns) == list(expected.columns) and found.rows == len(expected)
    assert np.abs((found.mean - expected.mean()) / expected.std()).max() < 1e-6
    # The names of parts may have rules, and "*" is the rule of all others.
    late = frame.assign(admitted=frame["admitted"].where(frame.index % 7 > 0))
    rules: Any = {"*": "mean", "admitted year": "flag", "smoking": "drop"}
    found = stats.run(late, missing=rules, dates=PARTS)
    columns = ["admitted year", "admitted year missing", "admitted month", "admitted weekday"]
    assert list(found.columns)[:4] == columns
    kept = late[late["smoking"].notna()]
    assert found.mean[1] == pytest.approx(kept["admitted"].isna().mean(), abs=1e-7)
    assert found.mean[2] == pytest.approx(kept["admitted"].dt.month.mean(), rel=1e-6)


def test_groups_have_a_rule_of_their_own() -> None:
    frame = gappy().drop(columns=["died", "admitted"])
    rules: Any = {"crp": "mean", "stay": "mean", "smoking": "drop"}
    found = stats.run(frame, "groups", by="smoking", missing=rules)
    kept = frame[frame["smoking"].notna()]
    filled = kept.fillna({"crp": frame["crp"].mean(), "stay": frame["stay"].mean()})
    expected = filled.groupby("smoking")["crp"].mean()
    assert found.labels.tolist() == expected.index.tolist()
    assert np.allclose(found.mean[:, list(found.columns).index("crp")], expected, rtol=1e-6)
    with pytest.raises(sudare.errors.TableError, match="'smoking' has no value"):
        stats.run(frame, "groups", by="smoking", missing={"*": "mean"})


def test_estimators_remember_rules_of_columns() -> None:
    frame = gappy()
    X, y = frame.drop(columns="died"), frame["died"]
    model = LogisticRegression(mode="simulate", missing=RULES, dates=PARTS).fit(X, y)
    expected = ruled(X)
    assert list(model.columns_) == list(expected.columns)
    assert list(model.feature_names_in_) == list(X.columns)
    complete = X["smoking"].notna()
    again = LogisticRegression(mode="simulate").fit(expected, y[complete])
    assert np.allclose(model.coef_, again.coef_, rtol=1e-9)
    # Gaps of later rows are filled by the fitted table, and rows that would be dropped are refused.
    later = X[complete].assign(crp=np.nan)
    assert np.allclose(
        model.decision_function(later), again.decision_function(expected.assign(crp=expected["crp"].median()))
        if X["crp"][complete].notna().all()
        else again.decision_function(expected.assign(crp=X["crp"][complete].median())),
    )
    with pytest.raises(sudare.errors.TableError, match="lacks a value"):
        model.predict(X)
    linear = LinearRegression(mode="simulate", missing=RULES, dates=PARTS)
    linear.fit(X, np.arange(len(X)) % 11)
    assert linear.coef_.shape == (len(expected.columns),)
    assert linear.coef_[list(linear.columns_).index("smoking=current")] == 0.0


def test_rules_that_make_no_sense_are_refused() -> None:
    frame = gappy().drop(columns="died")
    for options, says in [
        ({"missing": {"crp": "zero"}}, r"missing\['crp'\]"),
        ({"missing": {"crpp": "mean"}}, "did you mean"),
        ({"missing": {"crp": "mean"}, "drop": ["crp"]}, "left out"),
        ({"dates": {"admitted": ["decade"]}}, "a part of dates"),
        ({"dates": {"admitted": []}}, "at least one"),
        ({"dates": {"crp": ["year"]}}, "crp"),
        ({"dates": {"admitted": "year"}}, "dates"),
        ({"dates": ["admitted"]}, "dates"),
        ({"missing": ["mean"]}, "missing"),
    ]:
        with pytest.raises(sudare.errors.Error, match=says):
            stats.plan(frame, **options)  # type: ignore[arg-type]


def test_hundreds_of_columns_have_statistics() -> None:
    rows = np.random.default_rng(1).normal(size=(60, 300))
    plan = stats.plan(rows)
    assert "2^13" in str(plan.explain())
    with pytest.raises(sudare.errors.Error, match="at most 1024"):
        stats.plan((60, 1025))
    with pytest.raises(sudare.errors.Error, match="columns of this length"):
        stats.plan((50_000, 1000))


def test_rows_to_score_are_counted_by_their_model(folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    options = "--missing mean --drop patient_id"
    line = f"keygen --params auto --for predict:new.csv --like t.csv --target died {options} --out {keys}"
    assert "predict:30x14" in run(folder, line).stderr
    # The coding that the keys remember says how to read the training table again.
    told = run(
        folder, f"encrypt --public {keys}/public.key --data new.csv --like t.csv --target died -o {tmp_path}/n.ct"
    )
    assert "coding.json" in told.stderr
    command = [sys.executable, "-m", "sudare", "keygen", "--params", "auto", "--for", "predict:new.csv", "--out", "k"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--like" in done.stderr


def test_groups_by_text_have_their_labels(folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    options = "--columns age,stay,diabetes"
    run(folder, f"keygen --params auto --for groups:t.csv --by ward {options} --out {keys}")
    run(folder, f"encrypt --public {keys}/public.key --data t.csv -o {tmp_path}/t.ct")
    run(folder, f"stats --evaluation-key {keys}/evaluation.key -i {tmp_path}/t.ct -o {tmp_path}/s.ct")
    line = f"decrypt --secret {keys}/secret.key -i {tmp_path}/s.ct --t-test north,west --json"
    values = json.loads(run(folder, line).stdout)["values"]
    frame = clinical()
    expected = frame.groupby("ward")[["diabetes", "age", "stay"]]
    assert values["labels"] == ["east", "north", "west"]
    assert values["columns"] == ["diabetes", "age", "stay"]
    assert np.allclose(values["mean"], expected.mean(), rtol=1e-6)
    groups = stats.run(frame, "groups", by="ward", columns=["age", "stay", "diabetes"])
    assert list(groups.labels) == ["east", "north", "west"]
    assert np.allclose(groups.mean, expected.mean(), rtol=1e-6)
    assert np.allclose(groups.variance, expected.var(), rtol=1e-6)
    test = groups.t_test("north", "west")["age"]
    assert test is not None
    assert test.p_value == pytest.approx(values["t_test"][1]["p_value"], 1e-5)
    assert groups.to_frame()["ward"].tolist()[::3] == ["east", "north", "west"]
    by_day = stats.plan(frame.assign(admitted=frame["admitted"].dt.floor("365D")), "groups", by="admitted", columns=["age"])
    assert "groups" in by_day.job


def test_training_and_scoring(folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    run(folder, f"keygen --params auto --for train:t.csv --target died --missing mean --out {keys}")
    run(folder, f"encrypt --public {keys}/public.key --data t.csv -o {tmp_path}/t.ct")
    run(folder, f"train --evaluation-key {keys}/evaluation.key -i {tmp_path}/t.ct -o {tmp_path}/m.ct")
    run(folder, f"decrypt --secret {keys}/secret.key -i {tmp_path}/m.ct -o {tmp_path}/m.json")
    model = json.loads((tmp_path / "m.json").read_text())
    assert model["columns"] == FEATURES
    text = (tmp_path / "m.json").read_text()
    assert not any(identifier in text for identifier in clinical()["patient_id"])

    # New rows have the identifier and the date, too, and gaps.
    scored = json.loads(run(folder, f"predict --model {tmp_path}/m.json --data new.csv --json").stdout)
    new = clinical(30, 49).drop(columns="died")
    rows = (coded(new, clinical()) - model["centers"]) / model["divisors"]
    weights = np.array(model["weights"])
    assert np.allclose(scored["scores"], rows @ weights[1:] + weights[0], atol=1e-9)

    # The same in Python, in the clear and under encryption.
    frame = clinical()
    X, y = frame.drop(columns="died"), frame["died"]
    found = quietly(LogisticRegression(missing="mean", calibrate=False).fit, X, y)
    opened = LogisticRegression.open(tmp_path / "m.json")
    assert np.allclose(opened.decision_function(new), scored["scores"], atol=1e-9)
    assert np.allclose(found.decision_function(new), scored["scores"], atol=1e-2)
    assert found.score(X, y) > 0.8
    with pytest.raises(sudare.errors.TableError, match="ward"):
        found.predict(new.drop(columns="ward"))


def test_least_squares_take_text_and_dates() -> None:
    frame = clinical()
    X, y = frame[["admitted", "sex", "crp", "age", "patient_id"]], frame["stay"] + frame["age"] / 10
    model = quietly(LinearRegression(missing="median").fit, X, y)
    assert list(model.columns_) == ["admitted", "sex=F", "sex=M", "crp", "age"]
    numbers = pd.DataFrame(
        {
            "one": 1.0,
            "admitted": (X["admitted"] - EPOCH) / pd.Timedelta(days=1),
            "male": (X["sex"] == "M").astype(float),
            "crp": X["crp"].fillna(X["crp"].median()),
            "age": X["age"],
        }
    )
    expected, *_ = np.linalg.lstsq(numbers, y)
    assert np.allclose(model.coef_, [expected[1], 0.0, *expected[2:]], rtol=1e-4, atol=1e-6)
    assert np.allclose(model.predict(X), numbers @ expected, atol=1e-5)
    ridge = quietly(Ridge(missing="median", mode="simulate", columns=None, alpha=2.0).fit, X, y)
    assert (ridge.coef_ != 0.0).all()


def test_problems_of_all_columns_are_told_together(folder: Path) -> None:
    frame = clinical().drop(columns=["patient_id", "died"])
    with pytest.raises(sudare.errors.TableError) as told:
        stats.plan(frame)
    message = str(told.value)
    assert "crp" in message and "smoking" in message and 'missing="mean"' in message, message
    with pytest.raises(sudare.errors.TableError, match="did you mean"):
        stats.plan(frame, drop=["crpp"])
    command = [sys.executable, "-m", "sudare", "keygen", "--params", "auto", "--for", "stats:t.csv", "--out", "k"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--missing mean" in done.stderr and "smoking" in done.stderr


def test_rare_categories_are_joined(tmp_path: Path) -> None:
    frame = clinical()
    frame.loc[:1, "ward"] = "isolation"
    X, y = frame[["ward", "age"]], frame["died"]
    model = LogisticRegression(mode="simulate").fit(X, y)
    with pytest.warns(sudare.errors.SecurityWarning, match=r"ward=isolation \(2\)"):
        model.save(tmp_path / "m.json")
    joined = LogisticRegression(mode="simulate", rare=5).fit(X, y)
    assert [name for name in joined.columns_ if "other" in name] == ["ward=other"]
    # Unknown values count as other, too.
    joined.predict(X.assign(ward="new"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joined.save(tmp_path / "j.json")
    plan = LogisticRegression(share_bits=8).plan(X, y)
    keys = plan.make_keys()
    shared = LogisticRegression(share_bits=8)
    encrypted = shared.encrypt(X, y, keys.secret)
    result = sudare.linear_model.compute(encrypted, keys.evaluation)
    with pytest.raises(sudare.errors.ArgumentError, match="rare"):
        shared.decrypt(result, keys.secret)


def test_identifiers_can_be_used_on_purpose() -> None:
    frame = pd.DataFrame({"case_no": np.arange(100.0, 140.0), "x": np.arange(40.0) % 7})
    assert quietly_named(frame) == ("x",)
    assert stats.run(frame, columns=["case_no", "x"]).columns == ("case_no", "x")
    renamed = frame.rename(columns={"case_no": "dose"})
    assert stats.run(renamed).columns == ("dose", "x")


def quietly_named(frame: pd.DataFrame) -> tuple[str, ...]:
    with pytest.warns(sudare.errors.IdentifierWarning, match="case_no"):
        return tuple(stats.run(frame).columns)


def test_owners_of_a_pool_leave_out_the_same_columns() -> None:
    frame = clinical()
    X, y = frame.drop(columns=["died", "crp", "smoking"]), frame["died"]
    schema = quietly(pool.Schema.draft, X, y, owners=["north", "south"])
    assert schema.columns == [name for name in FEATURES if not name.startswith(("smoking", "crp"))]
    # The tables of owners have the identifier, too.
    data = schema._data(X, y)
    assert data.features == len(schema.columns)
