"""One class per error, all of them under `Error`, and two classes of warnings.

Each is also a built-in exception where Python programs expect one. A message says what was found,
what was needed and what to do.
"""

import builtins


class Error(Exception):
    """Everything that sudare refuses."""


class SecurityWarning(UserWarning):
    """Keys are made or read, or a context is, with less than 128 bits of security.

    Also: the file of a secret key can be read by others than its owner; it has no ledger of releases
    yet; coefficients for the owner of a key alone are pickled or saved; or results of a service come
    from a server whose key is not known.
    """


class PrecisionWarning(UserWarning):
    """Statistics that the errors of encryption leave open are NaN, or not there."""


class InvalidSpecError(Error, ValueError):
    """A parameter is out of its range."""


class UnknownPresetError(Error, ValueError):
    """No parameter set has this name."""


class InsecureError(Error, ValueError):
    """A key would be insecure."""


class ParamsMismatchError(Error, ValueError):
    """Two objects come from different parameters."""


class KeyMismatchError(Error, ValueError):
    """Two objects come from different secret keys."""


class ForkedError(Error, RuntimeError):
    """A secret of the process that this one was forked from."""


class LevelExhaustedError(Error, ArithmeticError):
    """The program is deeper than the parameters allow."""


class LevelOutOfRangeError(Error, ValueError):
    """There is no such level."""


class RaisedLevelError(Error, ValueError):
    """Two levels have no primes in common."""


class ScaleMismatchError(Error, ValueError):
    """Two scales differ by more than rounding."""


class ScaleOutOfRangeError(Error, ValueError):
    """A modulus cannot hold a scale."""


class TooManySlotsError(Error, ValueError):
    """There are more values than slots."""


class SlotMismatchError(Error, ValueError):
    """Two numbers of slots differ."""


class NotFiniteError(Error, ValueError):
    """A value is NaN or infinite."""


class TooLittlePrecisionError(Error, ValueError):
    """Noise that hides the error of a result would also hide the digits asked for."""


class ValueTooLargeError(Error, builtins.OverflowError):
    """A value is too large for its scale and level."""


class MissingRelinearizationKeyError(Error, LookupError):
    """The evaluation keys have none for products."""


class MissingGaloisKeyError(Error, LookupError):
    """The evaluation keys have none for a rotation."""


class MissingRaisingKeyError(Error, LookupError):
    """The evaluation keys do not raise to a level."""


class RaisingDivisorMismatchError(Error, ValueError):
    """The evaluation keys raise ciphertexts of another plaintext modulus."""


class EphemeralSecretMismatchError(Error, ValueError):
    """The evaluation keys raise through another ephemeral secret."""


class PlaintextModulusNotPrimeError(Error, ValueError):
    """A plaintext modulus is not a power of a prime."""


class PlaintextModulusOutOfRangeError(Error, ValueError):
    """A plaintext modulus is larger than residues can be."""


class PlaintextModulusNotCoprimeError(Error, ValueError):
    """A plaintext modulus has a prime in common with the modulus of the ciphertexts."""


class PlaintextMismatchError(Error, ValueError):
    """Two plaintexts are of different rings."""


class FactorMismatchError(Error, ValueError):
    """The plaintexts of two ciphertexts are multiplied by different units."""


class NotAUnitError(Error, ValueError):
    """A residue has no inverse."""


class NotAMultipleError(Error, ValueError):
    """A power of its prime does not divide a plaintext."""


class NoSlotsError(Error, ValueError):
    """A plaintext modulus does not have as many slots."""


class NotInSlotsError(Error, ValueError):
    """The slots of a plaintext do not repeat, or are not integers."""


class ValueOutOfRangeError(Error, ValueError):
    """A value is not among the representatives of residues."""


class NoiseExhaustedError(Error, ArithmeticError):
    """The result of an operation might not decrypt."""


class CircuitError(Error, ValueError):
    """A computation was given something that it cannot do."""


class ArithError(Error, RuntimeError):
    """The machine has no randomness or no threads to give."""


class MalformedError(Error, ValueError):
    """Bytes are no valid file of sudare."""


class WrongKindError(Error, ValueError):
    """A file holds something else."""


class UnsupportedVersionError(Error, ValueError):
    """A file has a format that this release does not read."""


class ChecksumError(Error, ValueError):
    """A file was changed after it was written."""


class TruncatedError(Error, EOFError):
    """A file ends too early."""


class FileChangedError(Error, OSError):
    """A file is another one than before."""


class IoError(Error, OSError):
    """The operating system refused something."""


class NoFileError(Error, FileNotFoundError):
    """There is no such file."""


class ExistsError(Error, FileExistsError):
    """A file would be overwritten."""


class NoFolderError(Error, FileNotFoundError):
    """The folder of a new file does not exist."""


class NotAFolderError(Error, NotADirectoryError):
    """A file is where a folder is needed."""


class NotAFileError(Error, OSError):
    """A folder or a device is where a file is needed."""


class KeysInMemoryError(Error, ValueError):
    """Workers of a training need evaluation keys that are in a file."""


class WorkersLostError(Error, RuntimeError):
    """No worker of a training is left, or too many were lost."""


class SecretKeyPickleError(Error, TypeError):
    """A secret key would leave its process."""


class NoSecretKeyError(Error, TypeError):
    """Only the owner of the secret key can do this."""


class NoPublicKeyError(Error, TypeError):
    """Encrypting needs the public key."""


class SimulationError(Error, TypeError):
    """Nothing is encrypted in simulation."""


class TracedError(Error, TypeError):
    """A program that is planned asks for values."""


class UnsupportedError(Error, TypeError):
    """NumPy or Python asks for what encrypted arrays cannot do."""


class DtypeError(Error, TypeError):
    """Values are not real numbers."""


class ShapeError(Error, ValueError):
    """A shape, an axis or an index is not possible."""


class TableShapeError(ShapeError):
    """A table has other rows or columns than planned."""


class TableClassesError(ShapeError):
    """A target has another number of classes than planned."""


class RowsError(ShapeError):
    """A table has more rows than planned."""


class TransformColumnsError(ShapeError):
    """Rows are to be prepared as those of other columns."""


class EmptyError(ShapeError):
    """An array would have no elements."""


class TooFewError(ShapeError):
    """There is less than the job is about."""


class TooLargeError(ShapeError):
    """An array would have too many elements or axes."""


class ShapesError(ShapeError):
    """Two shapes do not go together."""


class AxisError(ShapeError):
    """There is no such axis."""


class SlotRowsError(ShapeError):
    """The last axes of an array of integers are not the two rows of its slots."""


class RangeError(ShapeError, IndexError):
    """An axis has no such range."""


class ValuesError(ShapeError):
    """There are more or fewer values than elements."""


class ArgumentError(Error, ValueError):
    """An argument is none of those that are possible."""


class TooManyDiagonalsError(Error, ValueError):
    """Elements would move in too many ways."""


class InvalidLayoutError(Error, ValueError):
    """A file says something impossible about an array."""


class BlocksError(Error, ValueError):
    """A file has other ciphertexts than its array needs."""


class BeyondBoundError(Error, builtins.OverflowError):
    """A value that bootstrapping could lose."""


class OverflowError(Error, builtins.OverflowError):
    """In simulation: a value that the modulus does not hold."""


class DetachedError(Error, TypeError):
    """An array came without the context to compute in."""


class UsageError(Error, ValueError):
    """Arguments do not go together, or with a file."""


class OtherJobError(Error, ValueError):
    """Keys, plans, tables or results of different jobs meet."""


class ParseError(Error, ValueError):
    """A result is not one of this program."""


class DamagedNoteError(Error, ValueError):
    """What a table's owner needs to read a result is damaged."""


class NoteTooLongError(Error, ValueError):
    """Names of columns are too long."""


class ParamsTooSmallError(Error, ValueError):
    """Parameters have too few levels or too small a modulus for a job."""


class UnnamedColumnError(Error, ValueError):
    """A column has no name."""


class DuplicateColumnError(Error, ValueError):
    """Two columns have the same name."""


class UnknownColumnError(Error, LookupError):
    """There is no column of this name."""


class MissingValueError(Error, ValueError):
    """A cell of a table is empty."""


class AllMissingError(Error, ValueError):
    """A column has no value at all."""


class NoCompleteRowError(Error, ValueError):
    """Every row of a table lacks a value."""


class GapError(Error, ValueError):
    """A value is missing where the table that was learnt from had none."""


class TextError(Error, ValueError):
    """A column of numbers has text."""


class NotNumbersError(Error, ValueError):
    """A column of a file holds neither numbers nor text."""


class TooMuchTextError(Error, ValueError):
    """The texts of a table take too much memory."""


class InexactNameError(Error, ValueError):
    """A category or class is a whole number that is not exact."""


class TooManyCategoriesError(Error, ValueError):
    """A column has too many different values to be coded by categories."""


class UnseenCategoryError(Error, ValueError):
    """A row has a category that the table which was learnt from did not have."""


class MissingColumnsError(Error, ValueError):
    """A table lacks columns that a model takes."""


class SurplusColumnsError(Error, ValueError):
    """A table has columns that a model does not take."""


class EncodedNameError(Error, ValueError):
    """Two columns would have the same name once they are coded."""


class EncodingError(Error, ValueError):
    """What is said of how columns become numbers is not possible."""


class ScaleError(Error, ValueError):
    """A column cannot be divided by what is said."""


class ScalingError(Error, ValueError):
    """A column cannot be scaled as is said."""


class NoTargetError(Error, ValueError):
    """A table lacks labels."""


class UnknownTargetError(Error, LookupError):
    """A table has no such target."""


class UnknownClassError(Error, ValueError):
    """A label is none of the classes that are known."""


class NotTwoClassesError(Error, ValueError):
    """Labels of two classes are needed."""


class UnknownRowError(Error, IndexError):
    """There is no such row."""


class UnknownBundledError(Error, LookupError):
    """No table of this name comes along."""


class SplitError(Error, ValueError):
    """A table cannot be cut into two parts so."""


class ReadError(Error, OSError):
    """A table cannot be read."""


class NoHeaderError(Error, ValueError):
    """A file of a table has no names of columns."""


class RaggedError(Error, ValueError):
    """A line of a table has more or fewer cells than its first."""


class OpenQuoteError(Error, ValueError):
    """A quoted cell of a table does not end."""


class BlankLineError(Error, ValueError):
    """A line of a table is blank."""


class NotUtf8Error(Error, ValueError):
    """A file of a table is not text in UTF-8."""


class ReadOptionError(Error, ValueError):
    """A table is to be read in a way that is not possible."""


class DecimalMarksError(Error, ValueError):
    """Numbers of a table have points and commas as decimal marks, or marks that may all separate
    thousands."""


class ParquetError(Error, ValueError):
    """A Parquet file is damaged, or has something that is not read."""


class TooManyCellsError(Error, ValueError):
    """A table is too large to be read."""


class TargetNotBinaryError(Error, ValueError):
    """A label is neither 0 nor 1."""


class ConstantTargetError(Error, ValueError):
    """All rows of a training have the same label."""


class TooManyIterationsError(Error, ValueError):
    """A training has more iterations than there is room for."""


class TooManyFeaturesError(Error, ValueError):
    """A row of a training does not fit a ciphertext."""


class PrecisionError(Error, ValueError):
    """A result would have too large an error."""


class WeightsTooLargeError(Error, ArithmeticError):
    """Training leads to weights that there is no room for."""


class RangeUncheckedError(Error, ValueError):
    """A model of several owners' rows is to be released, whose errors have a bound only if rows stay in
    a range that nobody can check."""


class OutOfRoomError(Error, builtins.OverflowError):
    """A result could be too large for its level."""


class OutsideIntervalError(Error, ValueError):
    """The argument of a function could lie outside the interval of the function."""


class OutsideRangeError(Error, ValueError):
    """A value is not in the range that is known of its array."""


class IntervalUncheckedError(Error, ValueError):
    """Results are to be released of a function whose arguments could be outside its interval."""


class RowsTooHeavyError(Error, ValueError):
    """By their class weights, few rows weigh too much beside the others."""


class InnerProductsTooLargeError(Error, ArithmeticError):
    """Rows and weights leave the range of the sigmoid in training."""


class TooManyToCorrelateError(Error, ValueError):
    """There are too many columns to whiten or to standardise."""


class FinishedError(Error, ValueError):
    """All iterations of a training are done."""


class TooMuchWorkError(Error, ValueError):
    """A plan takes more work than any job of use does."""


class NotScorableError(Error, ValueError):
    """A training leaves its model no level to score rows by."""


class FeatureTooLargeError(Error, ValueError):
    """A row to be scored is far beyond those that the model was trained on."""


class RowTooLargeError(Error, ValueError):
    """A row to be scored is far from those that the model was trained on."""


class OtherDirectionsError(Error, ValueError):
    """Rows were prepared without directions that a model has weights in."""


class WeightTooLargeError(Error, ValueError):
    """A weight is larger than rows can be scored by."""


class ScoresTooLargeError(Error, ValueError):
    """Scores of a model may exceed the range of the sigmoid."""


class SharedBitsError(Error, ValueError):
    """Results cannot be shared to so many bits."""


class DivergedError(Error, ArithmeticError):
    """Training diverges."""


class NotAsPlannedError(Error, ValueError):
    """Something encrypted is not what was planned for."""


class OutOfRangeError(Error, ValueError):
    """A decrypted sum is beyond what it can reach."""


class ColumnError(Error, IndexError):
    """There is no such column."""


class GroupError(Error, LookupError):
    """There is no such group."""


class GroupKeyError(Error, ValueError):
    """Rows are grouped by whole numbers that are not exact."""


class EdgesError(Error, ValueError):
    """Edges make no bins of a column."""


class QuantileError(Error, ValueError):
    """A quantile of no part of the values is asked for."""


class WeightsError(Error, ValueError):
    """A column cannot be weights of means."""


class SampleError(Error, ValueError):
    """A sample cannot be tested."""


class RegressionError(Error, ValueError):
    """A linear model cannot be fitted."""


class LengthError(ShapeError):
    """There are not as many scores as labels."""


class NotANumberError(Error, ValueError):
    """A score is not a number."""


class OneClassError(Error, ValueError):
    """Rows of two classes are needed."""


class MissingDependencyError(Error, ImportError):
    """A package that is not installed is needed."""


class NotFittedError(Error, ValueError, AttributeError):
    """An estimator has no coefficients yet."""


class IterationsError(Error, ValueError):
    """A training has no iterations."""


class BatchError(Error, ValueError):
    """Batches have no rows."""


class WorkersError(Error, ValueError):
    """Batches are to be divided among no workers."""


class LearningRateError(Error, ValueError):
    """A learning rate is not a positive number."""


class PenaltyError(Error, ValueError):
    """The strength of a penalty is not possible."""


class ClassesError(Error, ValueError):
    """A target has fewer than two classes, too many, or two that are called the same."""


class TablesError(Error, ValueError):
    """A training is to be on no tables, or on too many."""


class ClassWeightError(Error, ValueError):
    """A class weight is not a positive number."""


class ClassWeightCountError(Error, ValueError):
    """There are more or fewer class weights than classes."""


class NoClassWeightsError(Error, ValueError):
    """A training is planned with class weights, and there are none."""


class UnplannedClassWeightsError(Error, ValueError):
    """Class weights are given for a training that is planned without."""


class DegreeError(Error, ValueError):
    """There is no polynomial of this degree for the sigmoid."""


class PooledError(Error, ValueError):
    """Tables of several owners do not go together."""


class LedgerError(Error, ValueError):
    """The ledger of the releases of a key cannot be used."""


class LedgerMalformedError(LedgerError):
    """A file is no ledger of releases, or a damaged one."""


class LedgerVersionError(LedgerError):
    """A ledger has a format that this release does not read."""


class LedgerOtherKeyError(LedgerError):
    """A ledger is of another key."""


class LedgerOlderError(LedgerError):
    """A ledger has fewer releases than this process has seen counted."""


class NotCountedError(Error, OSError):
    """A release cannot be counted, and so is not made."""


class ReleasesSpentError(Error, PermissionError):
    """As many results of a key were released as its noise hides."""


class PooledAloneError(PooledError):
    """A table was encrypted by itself, among others."""


class PooledSingleError(PooledError):
    """There are several tables, and the keys are for one."""


class PooledSchemaError(PooledError):
    """Tables are of different columns, units or owners."""


class PooledTransformError(PooledError):
    """Rows of tables were prepared in different ways."""


class PooledTwiceError(PooledError):
    """Two tables are of one owner."""


class PooledMissingError(PooledError):
    """The table of an owner is missing."""


class PoolSchemaError(PooledError):
    """A document is no schema, or what it says cannot be."""


class PoolFilledByMeanError(PooledError):
    """Missing values are to be filled by a mean, which no owner knows."""


class PoolUnknownOwnerError(PooledError):
    """A schema has no such owner."""


class PoolMissingError(PooledError):
    """A value is missing in a column where the schema has none missing."""


class PoolOutOfBoundsError(PooledError):
    """A value lies outside the bounds of its column."""


class PoolOtherTableError(PooledError):
    """A table was not coded by the schema."""


class PoolOtherSchemaError(PooledError):
    """Sums are of another schema or plan."""


class PoolCountError(PooledError):
    """There are more or fewer owners, columns, classes or rows than possible."""


class PoolParamsTooSmallError(PooledError):
    """Parameters have no room for the sums of all rows."""


class PoolRingTooSmallError(PooledError):
    """A ring has too few slots for the owners' marks."""


class PoolNotAsPlannedError(PooledError):
    """Sums are not what was planned for."""


class PoolOwnerMissingError(PooledError):
    """A total lacks the sums of an owner."""


class PoolOwnerRepeatedError(PooledError):
    """A total has the sums of an owner more than once."""


class PoolDamagedError(PooledError):
    """What was decrypted is no total."""


class PoolNotByClassError(PooledError):
    """Rows are to weigh by classes that were not summed apart."""


class PoolRowWeightError(PooledError):
    """Rows cannot weigh so by their classes."""


class InUseError(Error, OSError):
    """Another process writes to the folder of states, or to the index."""


class RefusedError(Error, RuntimeError):
    """A service refuses a request, or cannot do a job.

    Attributes
    ----------
    kind
        Its word for that, as the command has it.
    """

    def __init__(self, detail: str, kind: str = "") -> None:
        super().__init__(detail)
        self.kind = kind


class UnreachableError(Error, ConnectionError):
    """A service cannot be reached."""


class CheckpointError(Error, OSError):
    """The state of a training cannot be written."""


class NoBootstrappingError(Error, ValueError):
    """A parameter set has no bootstrapping."""


class MemoryError(Error, builtins.MemoryError):
    """More memory is needed than is free."""


class WrongResultError(Error, RuntimeError):
    """A computation gave a wrong result."""


class BugError(Error, RuntimeError):
    """Something that cannot happen did."""


class SealedError(Error, ValueError):
    """A secret key is sealed by a passphrase, which is not given."""


class EmptyPassphraseError(Error, ValueError):
    """A passphrase is empty."""


class LongPassphraseError(Error, ValueError):
    """A passphrase is longer than any."""


class WrongPassphraseError(Error, ValueError):
    """A secret key was sealed by another passphrase, or its file was changed."""


class SealCostsError(Error, ValueError):
    """A sealed file asks for more memory or time than any that is meant to be unsealed."""


class SealMemoryError(Error, builtins.MemoryError):
    """The system does not give the memory that unsealing takes."""


class ReceiptError(Error, ValueError):
    """The receipt of a result is not what it should be."""


class ReceiptMalformedError(ReceiptError):
    """A receipt is none, or was altered in its form."""


class ReceiptForgedError(ReceiptError):
    """A receipt has a false signature."""


class ReceiptOtherServerError(ReceiptError):
    """A receipt is signed by another server than was expected."""


class ReceiptDiffersError(ReceiptError):
    """A receipt is for something else than was asked for."""


class ReceiptMissingError(ReceiptError):
    """A service has no receipt of a result, and one was asked for."""


class OtherFileError(Error, ValueError):
    """A file is another one than was expected."""


class OtherTableError(Error, ValueError):
    """A result was computed from another table than the one that was named."""


class ForgedKeyError(Error, ValueError):
    """A public key says that it belongs to a secret key, and does not."""


class NnError(Error, ValueError):
    """A network cannot be used so."""


class NnLayerError(NnError):
    """A layer cannot be, or does not fit the one before it."""


class NnNetworkError(NnError):
    """A network cannot be, or cannot be planned."""


class NnShapeError(NnError, ShapeError):
    """Samples, results or layers have another shape than needed."""


class NnOutOfRangeError(NnError):
    """A number leaves the range that was calibrated."""


class NnTooDeepError(NnError):
    """No ring has the levels that a network takes."""


class NnDeepActivationError(NnError):
    """An activation takes more levels than bootstrapping gives."""


class NnNotAsPlannedError(NnError):
    """Something encrypted was not made for a plan."""


class NnOnnxError(NnError):
    """Bytes are no ONNX model that can be read."""


class NnOperatorError(NnError):
    """An operator of an ONNX model is not computed on encrypted data."""


class SearchError(Error, ValueError):
    """An index cannot be planned, built or searched, or an answer not read."""


class SearchCountError(SearchError):
    """A count that no index has."""


class SearchNumberError(SearchError):
    """A number that has no meaning in its place, such as a threshold that no similarity reaches."""


class SearchShapeError(SearchError):
    """Something has another shape than planned."""


class SearchVectorError(SearchError):
    """A vector that cannot be compared with others."""


class SearchNotAsPlannedError(SearchError):
    """Something encrypted is not what was planned for."""


class SearchNotPlannedError(SearchError):
    """An index was made for other answers or another mode."""


class SearchBlockOrderError(SearchError):
    """Blocks come in another order than theirs."""


class SearchTooFewLevelsError(SearchError):
    """The parameters have too few levels for a search."""


class SearchPrecisionError(SearchError):
    """The primes, or the margin of a threshold, are too small for a right answer."""


class SearchUnreadableError(SearchError):
    """A part of an index cannot be read."""


class NoIndexError(SearchError):
    """A folder holds no index."""


class ForeignIndexError(SearchError):
    """An index is of other keys or another plan."""


class UnfinishedIndexError(SearchError):
    """An index was not encrypted to its end."""


class MissingBlockError(SearchError):
    """A block of an index has no file."""


class AlteredBlockError(SearchError):
    """A block of an index is not as it was written."""


class ForeignBlockError(SearchError):
    """A block of an index is of other keys, another plan or another place."""
