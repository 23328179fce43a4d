use crate::rlwe::{GaloisElement, KeyId, Level, ParamsId, serial::Kind};
use sudare_arith::real;

/// What a caller of this crate can get wrong, with what was found, what was
/// needed and what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table or a stream could not be made.
    #[error(transparent)]
    Arith(#[from] sudare_arith::Error),
    /// A parameter is out of its range.
    #[error("{field}: {problem}")]
    InvalidSpec {
        /// The field of the specification.
        field: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// No preset has this name.
    #[error("there is no preset {name:?}: the presets are {known}")]
    UnknownPreset {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A key would be insecure for its secret.
    #[error(
        "{what} has {security_bits:.1} bits of security at N = 2^{log_n} and log2 of the modulus \
         {log2_qp:.1}; {needed:.0} are needed, so at most {limit:.0} bits of modulus: use a \
         larger ring or a shorter chain, or write `insecure` into the parameters"
    )]
    Insecure {
        /// The object judged.
        what: String,
        /// `log2(N)`.
        log_n: u32,
        /// Its modulus.
        log2_qp: f64,
        /// Its estimated security.
        security_bits: f64,
        /// The security asked for.
        needed: f64,
        /// The largest modulus with that security.
        limit: f64,
    },
    /// Two objects come from different parameters.
    #[error(
        "this {what} belongs to parameters {found}, but the operation to {expected}: use objects made under the same parameters"
    )]
    ParamsMismatch {
        /// The object.
        what: &'static str,
        /// Its parameters.
        found: ParamsId,
        /// Those needed.
        expected: ParamsId,
    },
    /// Two objects come from different secret keys.
    #[error(
        "this {what} belongs to key {found}, but the operation to key {expected}: use objects of the same key pair"
    )]
    KeyMismatch {
        /// The object.
        what: &'static str,
        /// Its key.
        found: KeyId,
        /// The key needed.
        expected: KeyId,
    },
    /// A secret of the process that this one was forked from.
    #[error(
        "this {what} was made before the process forked and stayed in the parent process: make or read one after the fork"
    )]
    Forked {
        /// The object.
        what: &'static str,
    },
    /// The circuit is deeper than the ciphertext allows.
    #[error(
        "{op} needs {needed} more level(s), the ciphertext is at level {level}: choose parameters with more levels, or bootstrap first"
    )]
    LevelExhausted {
        /// The operation.
        op: &'static str,
        /// Levels it consumes.
        needed: u32,
        /// Level of the operand.
        level: Level,
    },
    /// A level outside the chain, or above that of the operand.
    #[error(
        "level {found} is out of range: it must be at most {max} here; use a lower level, or parameters with more levels"
    )]
    LevelOutOfRange {
        /// The level asked for.
        found: Level,
        /// The largest possible.
        max: Level,
    },
    /// Ciphertexts of the chain and above its top do not have primes in common.
    #[error(
        "level {found} has other primes than level {needed}, as levels above {top} do: rescale to level {top} first"
    )]
    RaisedLevel {
        /// Level of the operand.
        found: Level,
        /// The level that it would be brought to.
        needed: Level,
        /// The top of the chain.
        top: Level,
    },
    /// Scales differ by more than rounding.
    #[error(
        "{op}: scales 2^{left:.6} and 2^{right:.6} differ: bring one to the other with match_scale"
    )]
    ScaleMismatch {
        /// The operation.
        op: &'static str,
        /// `log2` of one scale.
        left: f64,
        /// `log2` of the other.
        right: f64,
    },
    /// A scale that is not a positive number, or that the modulus cannot hold.
    #[error(
        "{op}: a scale of 2^{log2_scale:.2} does not fit a modulus of {log2_q:.1} bits at this level: rescale first, or use a lower scale"
    )]
    ScaleOutOfRange {
        /// The operation.
        op: &'static str,
        /// `log2` of the scale; NaN if it is not a positive number.
        log2_scale: f64,
        /// `log2` of the modulus.
        log2_q: f64,
    },
    /// More values than slots.
    #[error("{found} values do not fit {slots} slots: use several ciphertexts or a larger ring")]
    TooManySlots {
        /// Values given.
        found: usize,
        /// Slots there are.
        slots: usize,
    },
    /// The numbers of slots differ, or a number is not a power of two.
    #[error("{op}: {found} slots, {expected} needed: encode as many values, filling up with zeros")]
    SlotMismatch {
        /// The operation.
        op: &'static str,
        /// Slots found.
        found: usize,
        /// Slots needed.
        expected: usize,
    },
    /// Noise that hides the error of a result would also hide the digits asked for.
    #[error(
        "values to {bits} bits after the point can be shown if their errors are below \
         2^{:.1}; they are known to be below 2^{:.1}, so {:.1} bits are missing: show fewer bits, or \
         compute with more precision", real::log2(*.needed), real::log2(*.found), real::log2(.found / .needed)
    )]
    TooLittlePrecision {
        /// Bits after the binary point asked for.
        bits: u32,
        /// The bound of the error of a value.
        found: f64,
        /// The largest possible.
        needed: f64,
    },
    /// A value that is NaN or infinite.
    #[error("value {index} is {value}: only finite numbers can be encoded")]
    NotFinite {
        /// Its place.
        index: usize,
        /// As printed.
        value: String,
    },
    /// A value too large for its scale and level.
    #[error(
        "value {index} needs {needed_bits:.0} bits at this scale, but only {available_bits:.0} are available: scale the data down, or encode at a lower scale or higher level"
    )]
    ValueTooLarge {
        /// Its place.
        index: usize,
        /// Bits of the scaled value.
        needed_bits: f64,
        /// Bits of the modulus, or of integers of 128 bits, less the sign.
        available_bits: f64,
    },
    /// Relinearisation lacks its key.
    #[error(
        "no relinearisation key for level {level}: add `relinearize` at that level to the KeyRequest"
    )]
    MissingRelinearizationKey {
        /// Level at which it was needed.
        level: Level,
    },
    /// A rotation, conjugation or trace lacks its key.
    #[error(
        "no Galois key for element {element} ({rotation}) at level {level}{}: add it to the KeyRequest",
        .key_level.map_or(String::new(), |key_level| format!(" among the level keys for level {key_level}"))
    )]
    MissingGaloisKey {
        /// The element.
        element: GaloisElement,
        /// The rotation it stands for, in words.
        rotation: String,
        /// Level at which it was needed.
        level: Level,
        /// The level of the level keys that the operation uses, if any.
        key_level: Option<Level>,
    },
    /// The keys to and from an ephemeral secret do not reach the level.
    #[error(
        "no keys to raise to level {level}: there are {}; add `Raise::to` that level to the \
         KeyRequest", .found.map_or("none".into(), |found| format!("keys to level {found}"))
    )]
    MissingRaisingKey {
        /// The level asked for.
        level: Level,
        /// The highest level that the keys raise to, if there are any.
        found: Option<Level>,
    },
    /// The keys to raise with are for ciphertexts of another plaintext modulus.
    #[error(
        "raising needs keys for the plaintext modulus {needed}, but these are for {found}: make \
         them from the KeyRequest of the plan (1 stands for CKKS)"
    )]
    RaisingDivisorMismatch {
        /// That of the keys.
        found: u128,
        /// The one needed.
        needed: u128,
    },
    /// The keys do not raise through an ephemeral secret as sparse as a circuit relies on.
    #[error(
        "the circuit needs keys that raise through an ephemeral secret of weight at most {needed}, \
         but these have {}: make them from the KeyRequest of the plan",
        .found.map_or("none".into(), |weight| format!("one of weight {weight}"))
    )]
    EphemeralSecretMismatch {
        /// Its weight, if there is one.
        found: Option<u32>,
        /// The largest possible.
        needed: u32,
    },
    /// A plaintext modulus that is not a power of a prime.
    #[error(
        "plaintext modulus: {found} is neither a prime nor a power of one; choose a prime, such as \
         {primes}"
    )]
    PlaintextModulusNotPrime {
        /// The number.
        found: u64,
        /// Primes near it, and what they have.
        primes: String,
    },
    /// A plaintext modulus beyond what residues can be.
    #[error(
        "plaintext modulus {} is out of range: choose a prime below 2^60, or a power of one of at \
         most 2^124", power((*.prime, *.exponent))
    )]
    PlaintextModulusOutOfRange {
        /// The base of the power.
        prime: u128,
        /// Its exponent.
        exponent: u32,
    },
    /// A residue without an inverse.
    #[error(
        "{value} has no inverse modulo {}: use a number that {} does not divide",
        power(*.modulus), .modulus.0
    )]
    NotAUnit {
        /// The residue.
        value: u128,
        /// Prime and exponent of the modulus.
        modulus: (u64, u32),
    },
    /// A value that is not among the representatives of residues.
    #[error(
        "value {index} is {value}: integers from {} to {most} can be encoded; use a larger \
         plaintext modulus", if *.signed { format!("-{most}") } else { "0".into() }
    )]
    ValueOutOfRange {
        /// Its place.
        index: usize,
        /// As printed.
        value: String,
        /// The largest possible.
        most: u128,
        /// Whether as small ones are possible below 0.
        signed: bool,
    },
    /// Plaintexts of different rings.
    #[error(
        "{op}: polynomials modulo {} with N = 2^{} and modulo {} with N = 2^{} do not match: use \
         plaintexts of one ring", power((.left.0, .left.1)), .left.2, power((.right.0, .right.1)), .right.2
    )]
    PlaintextMismatch {
        /// The operation.
        op: &'static str,
        /// Prime and exponent of the modulus of one operand, and `log2(N)`.
        left: (u64, u32, u32),
        /// Those of the other.
        right: (u64, u32, u32),
    },
    /// A plaintext that a power of its prime does not divide.
    #[error(
        "coefficient {index} is not a multiple of {divisor}: remove its lowest digits before \
         dividing"
    )]
    NotAMultiple {
        /// Its place.
        index: usize,
        /// The power of the prime.
        divisor: u128,
    },
    /// A plaintext modulus without as many slots.
    #[error(
        "modulo {} there are {possible} slots in batches, not {slots}: primes that are 1 modulo \
         {}, such as {primes}, have as many", power(*.modulus), 2 * .slots
    )]
    NoSlots {
        /// Prime and exponent of the modulus.
        modulus: (u64, u32),
        /// Slots asked for.
        slots: usize,
        /// Slots that there can be.
        possible: usize,
        /// The nearest primes with as many slots.
        primes: String,
    },
    /// The slots of a plaintext do not repeat, or are not integers.
    #[error("this plaintext is not one of {slots} integers: {problem}")]
    NotInSlots {
        /// Slots that it was read with.
        slots: usize,
        /// Why it cannot be.
        problem: String,
    },
    /// A plaintext modulus that is not coprime to the ciphertext modulus.
    #[error(
        "the plaintext modulus {} has a prime in common with the modulus of the parameters: \
         choose another, or name it in the specification, whose chain then avoids it",
        power(*.modulus)
    )]
    PlaintextModulusNotCoprime {
        /// Prime and exponent of the plaintext modulus.
        modulus: (u64, u32),
    },
    /// Ciphertexts whose plaintexts are multiplied by different units.
    #[error(
        "{op}: factors {left} and {right} modulo {} differ: bring one to the other with \
         match_factor", power(*.modulus)
    )]
    FactorMismatch {
        /// The operation.
        op: &'static str,
        /// One factor.
        left: u128,
        /// The other.
        right: u128,
        /// Prime and exponent of the plaintext modulus.
        modulus: (u64, u32),
    },
    /// The result of an operation might not decrypt.
    #[error(
        "{op}: the error of the result could reach 2^{log2_noise:.1} but must stay below \
         2^{log2_room:.1}: rescale first, choose parameters with more levels, or bootstrap"
    )]
    NoiseExhausted {
        /// The operation.
        op: &'static str,
        /// `log2` of the bound of the error.
        log2_noise: f64,
        /// `log2` of what decrypts.
        log2_room: f64,
    },
    /// A circuit was given something that it cannot do.
    #[error("{0}")]
    Circuit(String),
    /// Bytes are not a valid object.
    #[error("not a valid {what}: {problem}; use one that this library wrote, undamaged")]
    Malformed {
        /// The object expected.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A file has another kind of content.
    #[error("this is a file of kind {found}, one of kind {needed} is needed here: name that one")]
    WrongKind {
        /// What it holds.
        found: Kind,
        /// What is needed.
        needed: Kind,
    },
    /// A file of a format that this release does not read.
    #[error(
        "this file has format version {found}, but this release reads version {supported}: use the release that wrote it, or make the file again"
    )]
    UnsupportedVersion {
        /// Its version.
        found: u32,
        /// The version read here.
        supported: u32,
    },
    /// A file was changed after it was written.
    #[error(
        "section {section} of the file does not match its checksum: the file is damaged; copy it or make it again"
    )]
    Checksum {
        /// The section, 0 for the header.
        section: u64,
    },
    /// A file ends too early.
    #[error(
        "the file ends after {found} bytes, but {needed} are needed: it was truncated; copy it or make it again"
    )]
    Truncated {
        /// Bytes there are.
        found: u64,
        /// Bytes the file must have at least.
        needed: u64,
    },
    /// Reading or writing failed.
    #[error("reading or writing failed: {message}")]
    Io {
        /// The kind of the failure.
        kind: std::io::ErrorKind,
        /// The system's words.
        message: String,
        /// The system's error.
        source: IoSource,
    },
}

/// An error of the system, shared so that errors can be cloned. Two are equal if their kinds and words are.
#[derive(Debug, Clone)]
pub struct IoSource(std::sync::Arc<std::io::Error>);

impl PartialEq for IoSource {
    fn eq(&self, other: &Self) -> bool {
        self.0.kind() == other.0.kind() && self.0.to_string() == other.0.to_string()
    }
}

impl core::fmt::Display for IoSource {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for IoSource {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Self::Io { kind: e.kind(), message: e.to_string(), source: IoSource(e.into()) }
    }
}

/// A power of a prime as messages name it.
fn power((prime, exponent): (impl core::fmt::Display, u32)) -> String {
    match exponent {
        1 => prime.to_string(),
        _ => format!("{prime}^{exponent}"),
    }
}

/// This crate's results.
pub type Result<T> = core::result::Result<T, Error>;
