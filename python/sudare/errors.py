"""Exceptions and warnings of sudare.

Each class stands for one thing that you can do about an error. `error.kind` is a stable word for
the exact event, such as `"NoSecretKey"`: the same word as `kind` in the JSON of the command and
the service.

>>> import sudare
>>> try:
...     sudare.Context.preset("n12-unknown")
... except sudare.errors.ParametersError as error:
...     print(error.kind)
UnknownPreset

Each class is also a built-in exception where Python programs expect one. A message has the value found, the
requirement and the remedy.

Until version 0.2, each kind had a class of its own, named after it: `NoSecretKeyError`. These names still
work in this release, with a `DeprecationWarning`. Each stands for the class of its kind, which is
broader: `except NoSecretKeyError` now catches every `MissingKeyError`.
"""

from __future__ import annotations

import builtins
import warnings
from typing import TYPE_CHECKING


__all__ = [
    "ArgumentError",
    "BeyondBoundError",
    "BugError",
    "DtypeError",
    "Error",
    "ExistsError",
    "FileError",
    "LevelExhaustedError",
    "MismatchError",
    "MissingDependencyError",
    "MissingFileError",
    "MissingKeyError",
    "NnError",
    "NotFittedError",
    "OutOfMemoryError",
    "OutOfRoomError",
    "OutsideIntervalError",
    "OutsideRangeError",
    "ParametersError",
    "PassphraseError",
    "PooledError",
    "PrecisionWarning",
    "RefusedError",
    "ReleaseError",
    "SearchError",
    "SecurityWarning",
    "ShapeError",
    "TableError",
    "TreesError",
    "UnreachableError",
    "UnsupportedError",
    "WrongFileError",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class Error(Exception):
    """The base class of all errors of sudare.

    Attributes
    ----------
    kind : str
        A stable word for what happened.
    """

    kind: str = ""

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:
            cls.kind = cls.__name__.removesuffix("Error")

    def __init__(self, message: str = "", kind: str = "") -> None:
        super().__init__(message)
        if kind:
            self.kind = kind


class IdentifierWarning(UserWarning):
    """Columns that identify rows, such as numbers of patients, were left out."""


class SecurityWarning(UserWarning):
    """A risk for the secrecy of data or of a key.

    - You make or open keys, or a context, with less than 128 bits of security.
    - Other users can read the file of a secret key.
    - The file of a secret key has no ledger of releases yet.
    - You pickle or save coefficients that are for the owner of a key alone.
    - The results of a service come from a server whose key is not known.
    """


class PrecisionWarning(UserWarning):
    """Statistics are NaN or missing because the errors of encryption are too large to tell them."""


class ArgumentError(Error, ValueError):
    """An argument is not possible, or does not go with another argument or with a file: change the
    call."""


class ShapeError(Error, ValueError, IndexError):
    """A shape, an axis, an index or a count of values does not fit."""


class DtypeError(Error, TypeError):
    """Values have a type that cannot be encrypted or computed with: convert them."""


class UnsupportedError(Error, TypeError):
    """Encrypted arrays, keys or contexts do not support this operation."""


class ParametersError(Error, ValueError):
    """Parameters do not exist, are not secure, or are too small for a job: choose others."""


class LevelExhaustedError(Error, ArithmeticError):
    """A program is deeper than its parameters allow: choose more depth, or bootstrap."""


class OutOfRoomError(Error, builtins.OverflowError):
    """A result, or a weight of a training, could be larger than there is room for."""


class BeyondBoundError(Error, builtins.OverflowError):
    """Bootstrapping could lose a value that is this large: scale it down."""


class OutsideIntervalError(Error, ValueError, ArithmeticError):
    """The argument of a function could lie outside the interval of the function."""


class OutsideRangeError(Error, ValueError, builtins.OverflowError):
    """A value is not finite, or lies outside the range of its array, modulus or scale."""


class TableError(Error, ValueError, IndexError):
    """A table, a row or a column cannot be used as it is: prepare the data."""


class PooledError(Error, ValueError):
    """The tables or sums of several owners do not go together."""


class SearchError(Error, ValueError):
    """An index cannot be planned, built or searched, or an answer cannot be read."""


class TreesError(Error, ValueError):
    """A model of trees cannot be read, planned or computed like this."""


class NnError(Error, ValueError):
    """A network cannot be read, planned or computed like this."""


class MismatchError(Error, ValueError):
    """Keys, plans, parameters or encrypted data do not belong together."""


class MissingKeyError(Error, LookupError, TypeError):
    """The key for this operation is not here: add it, or let its holder do the operation."""


class PassphraseError(Error, ValueError):
    """The passphrase of a secret key is missing, wrong or not possible."""


class ReleaseError(Error, PermissionError, ValueError):
    """Results cannot be shared like this: too many bits, no releases left, or no ledger to count
    them."""


class WrongFileError(Error, ValueError, EOFError):
    """A file, a key or a receipt is damaged, forged, of another kind or version, or not the expected
    one: get the right one from its maker."""


class FileError(Error, OSError):
    """The system cannot read or write a file, or the file changed or is in use."""


class MissingFileError(FileError, FileNotFoundError):
    """A file, or the directory of a new file, does not exist."""


class ExistsError(FileError, FileExistsError):
    """A file would be overwritten."""


class RefusedError(Error, RuntimeError):
    """A service refuses a request or cannot do a job. `kind` is the word of the service."""


class UnreachableError(Error, ConnectionError):
    """A service, or the workers of a training, cannot be reached: resume later, or correct the setting in
    the message."""


class NotFittedError(Error, ValueError, AttributeError):
    """An estimator has no coefficients yet."""


class MissingDependencyError(Error, ImportError):
    """A package that is needed is not installed."""


class OutOfMemoryError(builtins.MemoryError, Error):
    """An operation needs more memory than is free."""

    # The built-in class is first, because it makes its instances itself.
    __init__ = Error.__init__


class BugError(Error, RuntimeError):
    """A bug of sudare, or a fault of the machine: report it."""


_KINDS = {
    ArgumentError: """
        Argument Array Batch Circuit ClassWeight ClassWeightCount Classes Degree Edges Finished
        GroupKey Iterations LearningRate NoClassWeights NotAMultiple NotAUnit NotInSlots Penalty Quantile
        ReadOption Regression RowWeights Sample Split Tables TooManyDiagonals TooMuchWork UnplannedClassWeights
        Usage Weights Workers""",
    ShapeError: """
        Shape Axis Empty Length Range Rows Shapes SlotMismatch SlotRows TableClasses TableShape TooFew
        TooLarge TooManySlots TransformColumns Values""",
    DtypeError: "Dtype",
    UnsupportedError: "Unsupported Detached Forked SecretKeyPickle Simulation Traced",
    ParametersError: """
        InvalidSpec Insecure LevelOutOfRange NoBootstrapping NoSlots NotScorable ParamsTooSmall
        PlaintextModulusNotCoprime PlaintextModulusNotPrime PlaintextModulusOutOfRange Precision
        RaisedLevel ScaleOutOfRange TooManyFeatures TooManyIterations TooManyToCorrelate UnknownPreset""",
    LevelExhaustedError: "LevelExhausted NoiseExhausted",
    OutOfRoomError: "OutOfRoom Diverged Overflow RowsTooHeavy WeightsTooLarge",
    BeyondBoundError: "BeyondBound",
    OutsideIntervalError: """
        OutsideInterval FeatureTooLarge InnerProductsTooLarge RowTooLarge ScoresTooLarge
        TableRange WeightTooLarge""",
    OutsideRangeError: """
        OutsideIntegers OutsideRange NotANumber NotFinite OutOfRange ValueOutOfRange ValueTooLarge""",
    TableError: """
        AllMissing AllRare BlankLine Column ConstantTarget Contradiction DecimalMarks DuplicateColumn
        EncodedName Encoding Gap Group InexactName MissingColumns MissingValue NoCompleteRow NoHeader
        NoTarget NotDate NotNumbers NotTwoClasses NotUtf8 NoteTooLong OneClass OpenQuote Parquet Ragged
        Rule Scale Scaling Several SurplusColumns TargetNotBinary Text TooManyCategories TooManyCells
        TooMuchText UnknownBundled UnknownClass UnknownColumn UnknownColumns UnknownRow UnknownTarget
        UnnamedColumn UnseenCategory""",
    MismatchError: """
        EphemeralSecretMismatch FactorMismatch KeyMismatch NotAsPlanned OtherDirections OtherJob
        ParamsMismatch PlaintextMismatch RaisingDivisorMismatch ScaleMismatch""",
    MissingKeyError: """
        KeysInMemory MissingGaloisKey MissingRaisingKey MissingRelinearizationKey NoPublicKey
        NoSecretKey""",
    PassphraseError: "EmptyPassphrase LongPassphrase Sealed WrongPassphrase",
    ReleaseError: """
        IntervalUnchecked NoErrorBound NotCounted RangeUnchecked ReleasesSpent SharedBits TooLittlePrecision""",
    WrongFileError: """
        Blocks Checksum DamagedNote ForgedKey InvalidLayout Malformed OtherFile OtherShare OtherTable
        Parse SealCosts Truncated UnsupportedVersion WrongKind""",
    FileError: "Checkpoint FileChanged InUse Io NotAFile NotAFolder Read Stdout",
    MissingFileError: "NoFile NoFolder",
    ExistsError: "Exists",
    SearchError: """
        AlteredBlock ForeignBlock ForeignIndex MissingBlock NoIndex UnfinishedIndex""",
    RefusedError: "Refused",
    UnreachableError: "NoConnection Unreachable WorkersLost",
    NotFittedError: "NotFitted",
    MissingDependencyError: "MissingDependency",
    OutOfMemoryError: "Memory SealMemory",
    BugError: "Arith Bug WrongResult",
}

_AREAS = {
    "Ledger": ReleaseError,
    "Nn": NnError,
    "Pool": PooledError,
    "Receipt": WrongFileError,
    "Search": SearchError,
    "Trees": TreesError,
}
"""Classes of all kinds that begin with a word."""

_CLASSES: dict[str, type[Error]] = {
    kind: cls for cls, kinds in _KINDS.items() for kind in kinds.split()
}


def _class_of(kind: str) -> type[Error]:
    """Returns the class of a kind; `Error` for an unknown one."""
    of_area = (cls for area, cls in _AREAS.items() if kind.startswith(area))
    return _CLASSES.get(kind) or next(of_area, Error)


def of_kind(kind: str, message: str) -> Error:
    """Makes the error of a kind.

    Parameters
    ----------
    kind : str
        The kind, such as `"NoSecretKey"`.
    message : str
        The problem, the need and the remedy.

    Returns
    -------
    Error
        An error of the class that the kind belongs to.
    """
    return _class_of(kind)(message, kind)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> type[Error]:
        kind = name.removesuffix("Error")
        cls = _class_of(kind)
        if kind == name or cls is Error:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(
            f"sudare.errors.{name} will be removed: catch {cls.__name__}, whose `kind` is {kind!r} then",
            DeprecationWarning,
            stacklevel=2,
        )
        return cls
