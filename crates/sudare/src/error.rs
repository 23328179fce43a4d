use crate::rlwe::{GaloisElement, KeyId, Level, ParamsId, serial::Kind};
use sudare_arith::real;

/// Errors of callers of this crate: each names the found value, the required one and the remedy.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
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
        /// The problem, and the valid values.
        problem: String,
    },
    /// No preset has this name.
    #[error("there is no preset {name:?}: choose one of {known}")]
    UnknownPreset {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// A key would be insecure for its secret.
    #[error(
        "{what} has {security_bits:.1} bits of security, but {needed:.0} are required: its modulus \
         has {log2_qp:.1} bits, and a ring of N = 2^{log_n} allows at most {limit:.0}; use a \
         larger ring or a shorter chain, or set `insecure` in the parameters for a test"
    )]
    Insecure {
        /// The estimated object.
        what: String,
        /// `log2(N)`.
        log_n: u32,
        /// `log2` of the modulus of the object.
        log2_qp: f64,
        /// Estimated security of the object, in bits.
        security_bits: f64,
        /// Required security, in bits.
        needed: f64,
        /// `log2` of the largest modulus with that security.
        limit: f64,
    },
    /// A key holder sent another share than it committed to.
    #[error(
        "the first message of key holder {party} is not the one whose digest it published: ask for \
         the right file; if it does not exist, start a new ceremony"
    )]
    OtherShare {
        /// Number of the key holder, from 0 on.
        party: usize,
    },
    /// An error without a bound that an opening could hide.
    #[error(
        "the error of this result has no bound below 2^{most:.1}, found 2^{log2_norm:.1}: its opening \
         could reveal the key; open results of circuits whose plan has a bound"
    )]
    NoErrorBound {
        /// `log2` of the bound of the Euclidean norm of the error.
        log2_norm: f64,
        /// `log2` of the largest norm that can be hidden.
        most: f64,
    },
    /// Two objects come from different parameters.
    #[error(
        "this {what} belongs to parameters {found}, but the operation needs {expected}: use objects made under the same parameters"
    )]
    ParamsMismatch {
        /// The object.
        what: &'static str,
        /// Parameters of the object.
        found: ParamsId,
        /// Required parameters.
        expected: ParamsId,
    },
    /// Two objects come from different secret keys.
    #[error(
        "this {what} belongs to key {found}, but the operation needs key {expected}: use objects of the same key pair"
    )]
    KeyMismatch {
        /// The object.
        what: &'static str,
        /// Key of the object.
        found: KeyId,
        /// Required key.
        expected: KeyId,
    },
    /// A secret is in the process that this one was forked from.
    #[error(
        "this {what} was made before the process forked and stayed in the parent process: make or read one after the fork"
    )]
    Forked {
        /// The object.
        what: &'static str,
    },
    /// The circuit is deeper than the ciphertext allows.
    #[error(
        "{op} needs {needed} level{}, but the ciphertext is at level {level}: choose parameters with more levels, or bootstrap first",
        if *.needed == 1 { "" } else { "s" }
    )]
    LevelExhausted {
        /// The operation.
        op: &'static str,
        /// Number of levels that the operation consumes.
        needed: u32,
        /// Level of the operand.
        level: Level,
    },
    /// A level is outside the chain, or above the level of the operand.
    #[error(
        "level {found} is out of range: it must be at most {max} here; use a lower level, or parameters with more levels"
    )]
    LevelOutOfRange {
        /// The requested level.
        found: Level,
        /// The highest possible level.
        max: Level,
    },
    /// Ciphertexts of the chain and above its top share no primes.
    #[error(
        "level {found} is above the top level {top} and has other primes than level {needed}: rescale to level {top} first"
    )]
    RaisedLevel {
        /// Level of the operand.
        found: Level,
        /// The level to which it would be brought.
        needed: Level,
        /// The top of the chain.
        top: Level,
    },
    /// Scales differ by more than rounding.
    #[error("{op}: {}", scales_differ(*.left, *.right, *.levels))]
    ScaleMismatch {
        /// The operation.
        op: &'static str,
        /// `log2` of one scale.
        left: f64,
        /// `log2` of the other.
        right: f64,
        /// Levels of both operands, if there are two.
        levels: Option<[Level; 2]>,
    },
    /// A scale is not a positive number, or the modulus has no room for it.
    #[error(
        "{op}: {} does not fit a modulus of {log2_q:.1} bits at this level: rescale first, or use a lower scale",
        if .log2_scale.is_finite() { format!("a scale of 2^{log2_scale:.2}") } else { "a scale that is not a positive number".into() }
    )]
    ScaleOutOfRange {
        /// The operation.
        op: &'static str,
        /// `log2` of the scale; NaN if it is not a positive number.
        log2_scale: f64,
        /// `log2` of the modulus.
        log2_q: f64,
    },
    /// There are more values than slots.
    #[error("{found} values do not fit {slots} slots: use several ciphertexts or a larger ring")]
    TooManySlots {
        /// Number of values.
        found: usize,
        /// Number of slots.
        slots: usize,
    },
    /// The numbers of slots differ, or a number is not a power of two.
    #[error(
        "{op}: found {found} slots, but {expected} are needed: encode {expected} values, with zeros at the end, or make the encoder with_slots({expected})"
    )]
    SlotMismatch {
        /// The operation.
        op: &'static str,
        /// Number of slots found.
        found: usize,
        /// Required number of slots.
        expected: usize,
    },
    /// Noise that hides the error of a result would also hide the requested digits.
    #[error(
        "results cannot be shared to {bits} bits after the point: their errors must be below 2^{:.1}, \
         but can reach 2^{:.1}, so {:.1} bits are missing; share fewer bits, or compute with more \
         precision", real::log2(*.needed), real::log2(*.found), real::log2(.found / .needed)
    )]
    TooLittlePrecision {
        /// Requested bits after the binary point.
        bits: u32,
        /// Bound of the error of a value.
        found: f64,
        /// Largest possible error.
        needed: f64,
    },
    /// A value is NaN or infinite.
    #[error("value {index} is {value}: only finite numbers can be encoded")]
    NotFinite {
        /// Index of the value.
        index: usize,
        /// The value as printed.
        value: String,
    },
    /// A value is too large for its scale and level.
    #[error(
        "value {index} needs {needed_bits:.0} bits at this scale, but only {available_bits:.0} are available: scale the data down, or encode at a lower scale or higher level"
    )]
    ValueTooLarge {
        /// Index of the value.
        index: usize,
        /// Bits of the scaled value.
        needed_bits: f64,
        /// Bits of the modulus, or of integers of 128 bits, minus the sign.
        available_bits: f64,
    },
    /// Relinearisation lacks its key.
    #[error(
        "no relinearisation key for level {level}: add `relinearize` at that level to the KeyRequest"
    )]
    MissingRelinearizationKey {
        /// Level of the operation.
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
        /// The rotation of the element, in words.
        rotation: String,
        /// Level of the operation.
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
        /// The requested level.
        level: Level,
        /// The highest level that the keys raise to, if any.
        found: Option<Level>,
    },
    /// The keys for raising serve ciphertexts of another plaintext modulus.
    #[error(
        "raising needs keys for the plaintext modulus {needed}, but these are for {found}: make \
         them from the KeyRequest of the plan (1 stands for CKKS)"
    )]
    RaisingDivisorMismatch {
        /// Plaintext modulus of the keys.
        found: u128,
        /// Required plaintext modulus.
        needed: u128,
    },
    /// The keys raise through an ephemeral secret that is not sparse enough for the circuit.
    #[error(
        "the circuit needs keys that raise through an ephemeral secret of weight at most {needed}, \
         but these have {}: make them from the KeyRequest of the plan",
        .found.map_or("none".into(), |weight| format!("one of weight {weight}"))
    )]
    EphemeralSecretMismatch {
        /// Weight of the keys' ephemeral secret, if any.
        found: Option<u32>,
        /// Largest possible weight.
        needed: u32,
    },
    /// A plaintext modulus is not a power of a prime.
    #[error(
        "the plaintext modulus {found} is neither a prime nor a power of a prime: choose a prime, \
         such as {primes}"
    )]
    PlaintextModulusNotPrime {
        /// The number.
        found: u64,
        /// Primes near the number, with their properties.
        primes: String,
    },
    /// A plaintext modulus is out of the supported range.
    #[error(
        "the plaintext modulus {} is out of range: choose a prime below 2^60, or a power of such a \
         prime, at most 2^124", power((*.prime, *.exponent))
    )]
    PlaintextModulusOutOfRange {
        /// The base of the power.
        prime: u128,
        /// Exponent of the power.
        exponent: u32,
    },
    /// A residue has no inverse.
    #[error(
        "{value} has no inverse modulo {}: use a number that is not a multiple of {}",
        power(*.modulus), .modulus.0
    )]
    NotAUnit {
        /// The residue.
        value: u128,
        /// Prime and exponent of the modulus.
        modulus: (u64, u32),
    },
    /// A value is not among the representatives of residues.
    #[error(
        "value {index} is {value}: integers from {} to {most} can be encoded; use a larger \
         plaintext modulus", if *.signed { format!("-{most}") } else { "0".into() }
    )]
    ValueOutOfRange {
        /// Index of the value.
        index: usize,
        /// The value as printed.
        value: String,
        /// Largest possible value.
        most: u128,
        /// `true` if values down to minus the largest are possible.
        signed: bool,
    },
    /// Plaintexts belong to different rings.
    #[error(
        "{op}: polynomials modulo {} with N = 2^{} and modulo {} with N = 2^{} do not match: use \
         plaintexts of one ring", power((.left.0, .left.1)), .left.2, power((.right.0, .right.1)), .right.2
    )]
    PlaintextMismatch {
        /// The operation.
        op: &'static str,
        /// Prime and exponent of the modulus of one operand, and `log2(N)`.
        left: (u64, u32, u32),
        /// Prime and exponent of the modulus of the other operand, and `log2(N)`.
        right: (u64, u32, u32),
    },
    /// A power of the prime does not divide a plaintext.
    #[error(
        "coefficient {index} is not a multiple of {divisor}: remove its lowest digits before \
         dividing"
    )]
    NotAMultiple {
        /// Index of the coefficient.
        index: usize,
        /// The power of the prime.
        divisor: u128,
    },
    /// A plaintext modulus does not have the requested number of slots.
    #[error(
        "the plaintext modulus {} allows {possible} slots, but {slots} are requested: choose a \
         prime that is 1 modulo {}, such as {primes}", power(*.modulus), 2 * .slots
    )]
    NoSlots {
        /// Prime and exponent of the modulus.
        modulus: (u64, u32),
        /// Requested number of slots.
        slots: usize,
        /// Maximum number of slots.
        possible: usize,
        /// The nearest primes with the requested number of slots.
        primes: String,
    },
    /// The slots of a plaintext do not repeat, or are not integers.
    #[error("this plaintext does not hold {slots} integers: {problem}")]
    NotInSlots {
        /// Number of slots.
        slots: usize,
        /// Reason why the plaintext does not have them.
        problem: String,
    },
    /// A plaintext modulus is not coprime to the ciphertext modulus.
    #[error(
        "the plaintext modulus {} has a prime in common with the modulus of the parameters: \
         choose another modulus, or name this one in the specification, so that its chain avoids it",
        power(*.modulus)
    )]
    PlaintextModulusNotCoprime {
        /// Prime and exponent of the plaintext modulus.
        modulus: (u64, u32),
    },
    /// The plaintexts of ciphertexts are multiplied by different units.
    #[error(
        "{op}: the factors {left} and {right} modulo {} differ: adjust one of the operands with \
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
        /// `log2` of the largest error that decrypts.
        log2_room: f64,
    },
    /// A result could be too large for its level.
    #[error(
        "{op}: a slot of the result could be {largest:.4e} in magnitude, but there is room for \
         {room:.4e}: scale the data down, or compute at a higher level"
    )]
    OutOfRoom {
        /// The operation.
        op: &'static str,
        /// The largest possible magnitude of a slot.
        largest: f64,
        /// The largest magnitude that decrypts.
        room: f64,
    },
    /// The argument of a polynomial could lie outside its interval.
    #[error(
        "polynomial of degree {degree}: its argument could be {largest:.4} in magnitude, in units \
         where its interval is [-1, 1]: widen the interval, or bound the argument"
    )]
    OutsideInterval {
        /// Degree of the polynomial.
        degree: usize,
        /// The largest possible magnitude of the argument, in units of the interval.
        largest: f64,
    },
    /// An operation of an expression of [`Value`](crate::Value)s failed.
    #[error("{source} (in \"{op}\" at {at})")]
    Expression {
        /// The operation.
        op: &'static str,
        /// The place of the operation in your source.
        at: &'static core::panic::Location<'static>,
        /// The error of the operation.
        source: Box<Error>,
    },
    /// A circuit was given an impossible task.
    #[error("{0}")]
    Circuit(String),
    /// Bytes are not a valid object.
    #[error(
        "this is not a valid {what}: {problem}; use an undamaged {what} that this library wrote"
    )]
    Malformed {
        /// The expected object.
        what: &'static str,
        /// The problem.
        problem: String,
    },
    /// A file has another kind of content.
    #[error(
        "this file is of the kind \"{found}\", but the kind \"{needed}\" is needed here: pass a file of that kind"
    )]
    WrongKind {
        /// Kind of the file.
        found: Kind,
        /// Required kind.
        needed: Kind,
    },
    /// This release does not read the file's format version.
    #[error(
        "this file has format version {found}, but this release reads version {supported}: use the release that wrote it, or create the file again"
    )]
    UnsupportedVersion {
        /// Version of the file.
        found: u32,
        /// Supported version.
        supported: u32,
    },
    /// A file was changed after it was written.
    #[error(
        "section {section} of the file does not match its checksum: the file is damaged; copy or create it again"
    )]
    Checksum {
        /// The section, 0 for the header.
        section: u64,
    },
    /// A file ends too early.
    #[error(
        "the file ends after {found} bytes, but {needed} are needed: it was truncated; copy or create it again"
    )]
    Truncated {
        /// Size of the file, in bytes.
        found: u64,
        /// Minimum size of the file, in bytes.
        needed: u64,
    },
    /// Reading or writing failed.
    #[error("reading or writing failed: {message}")]
    Io {
        /// Kind of the error.
        kind: std::io::ErrorKind,
        /// The system's message.
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

/// Describes two scales that differ, with a remedy.
fn scales_differ(left: f64, right: f64, levels: Option<[Level; 2]>) -> String {
    let at = |i: usize| levels.map_or(String::new(), |levels| format!(" at level {}", levels[i]));
    let [one, other] = [left, right].map(|bits| format!("2^{bits:.6}"));
    // Scales count as different from the 18th digit on.
    let by = match one == other {
        true => {
            format!(", by a factor of 1 + {:.1e}", (left - right).abs() * core::f64::consts::LN_2)
        }
        false => String::new(),
    };
    let remedy = match levels {
        Some(_) => {
            "rescale the operand with the larger scale, bring an operand down to the level and \
             scale of the other with match_scale, or encode a plaintext at the other's scale"
        }
        None => "adjust one of the operands with match_scale",
    };
    format!("the scales {one}{} and {other}{} differ{by}: {remedy}", at(0), at(1))
}

/// Formats a power of a prime for messages.
fn power(modulus: (impl core::fmt::Display, u32)) -> String {
    let (prime, exponent) = modulus;
    match exponent {
        1 => prime.to_string(),
        _ => format!("{prime}^{exponent}"),
    }
}

/// Results of this crate.
pub type Result<T> = core::result::Result<T, Error>;
