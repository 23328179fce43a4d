"""Every kind of error has a class."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import sudare
from sudare import errors

KINDS = Path(__file__).parents[2] / "crates/roles/src/error/kinds.txt"

# Errors of Python alone.
OWN = {
    "Detached": errors.UnsupportedError,
    "KeysInMemory": errors.MissingKeyError,
    "MissingDependency": errors.MissingDependencyError,
    "MissingValue": errors.TableError,
    "NoFile": errors.MissingFileError,
    "NoPublicKey": errors.MissingKeyError,
    "NoSecretKey": errors.MissingKeyError,
    "NotFitted": errors.NotFittedError,
    "OtherJob": errors.MismatchError,
    "SecretKeyPickle": errors.UnsupportedError,
    "Simulation": errors.UnsupportedError,
    "Traced": errors.UnsupportedError,
    "WorkersLost": errors.UnreachableError,
}

CLASSES = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, errors.Error)
]


@pytest.mark.parametrize("kind", KINDS.read_text().split())
def test_every_kind_of_native_code_has_a_class(kind: str) -> None:
    error = errors.of_kind(kind, "text")
    assert type(error) is not errors.Error and type(error).__doc__
    assert (str(error), error.kind, error.args) == ("text", kind, ("text",))


@pytest.mark.parametrize(("kind", "cls"), OWN.items())
def test_every_kind_of_python_has_a_class(kind: str, cls: type[errors.Error]) -> None:
    assert type(errors.of_kind(kind, "text")) is cls


@pytest.mark.parametrize("cls", CLASSES)
def test_errors_know_their_kind_in_other_processes(cls: type[errors.Error]) -> None:
    assert cls("text").kind == ("" if cls is errors.Error else cls.__name__.removesuffix("Error"))
    again = pickle.loads(pickle.dumps(cls("text", "Special")))
    assert type(again) is cls and (str(again), again.kind) == ("text", "Special")


def test_there_are_few_classes() -> None:
    assert len(CLASSES) <= 30


def test_old_names_are_classes_of_their_kinds() -> None:
    with pytest.warns(DeprecationWarning, match="NoSecretKeyError will be removed: catch MissingKey"):
        old = getattr(errors, "NoSecretKeyError")  # noqa: B009
    assert old is errors.MissingKeyError
    with pytest.warns(DeprecationWarning):
        from sudare.errors import NnLayerError  # type: ignore[attr-defined]
    assert NnLayerError is errors.NnError
    for unknown in ("MistakeError", "NoSecretKey", "of"):
        with pytest.raises(AttributeError):
            getattr(errors, unknown)


def test_native_errors_have_kinds() -> None:
    with pytest.raises(errors.ParametersError) as caught:
        sudare.Context.preset("none")
    assert caught.value.kind == "UnknownPreset"
    with pytest.raises(FileNotFoundError) as missing:
        sudare.PublicKey.open("none.key")
    assert isinstance(missing.value, errors.MissingFileError) and missing.value.kind == "NoFile"


def test_files_are_made_of_bytes() -> None:
    for kind in (
        sudare.EncryptedArray,
        sudare.EncryptedIntegers,
        sudare.PublicKey,
        sudare.EvaluationKeys,
        sudare.EncryptedTable,
    ):
        for data in ("abc", None, 3, [1, 2]):
            with pytest.raises(errors.ArgumentError, match="pass the bytes of a file"):
                kind.from_bytes(data)
