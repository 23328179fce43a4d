/// Reason why an operation was rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A size of a parameter set is impossible.
    #[error("{name} is {found}: {needed}")]
    InvalidParams {
        /// The size.
        name: &'static str,
        /// The value of the size.
        found: u64,
        /// The required value, and the reason.
        needed: String,
    },
    /// There is no parameter set of this name.
    #[error("there is no parameter set {name}: choose one of {known}")]
    UnknownPreset {
        /// The given name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// The number of messages differs from the number of slots.
    #[error(
        "found {found} messages, but a ciphertext has {slots} slots: pass one message for each \
         slot"
    )]
    SlotCount {
        /// Number of messages.
        found: usize,
        /// Number of slots.
        slots: usize,
    },
    /// A message is outside its message space.
    #[error("the message {found} of slot {slot} is out of range: it has to be below {modulus}")]
    MessageOutOfRange {
        /// The slot, from 0.
        slot: usize,
        /// The message.
        found: u64,
        /// `t^a`.
        modulus: u64,
    },
    /// The parameters do not have this message space.
    #[error("the message space t^{found} is out of range: exponents from 1 to {most} are possible")]
    ExponentOutOfRange {
        /// The exponent.
        found: u32,
        /// The largest exponent.
        most: u32,
    },
    /// The operands have different message spaces.
    #[error("the message spaces t^{left} and t^{right} differ: contract or dilate one of them")]
    ExponentMismatch {
        /// Exponent of the first operand.
        left: u32,
        /// Exponent of the second operand.
        right: u32,
    },
    /// An operation on bits got another message space.
    #[error("{operation} is for bits: message spaces of t = 2 with exponent 1 are needed")]
    NotBits {
        /// The operation.
        operation: &'static str,
    },
    /// The operands belong to different keys or parameters.
    #[error(
        "the ciphertext belongs to another key or other parameters: use the key it was made with"
    )]
    OtherKey,
    /// A result could not be decrypted, or could not be bootstrapped.
    #[error(
        "{operation} would have noise of {found_bits:.1} bits, where {limit_bits:.1} are possible: \
         bootstrap its operands first"
    )]
    NoiseExhausted {
        /// The operation.
        operation: &'static str,
        /// The predicted value.
        found_bits: f64,
        /// The limit of the noise, in bits.
        limit_bits: f64,
    },
    /// A computation is too deep, even if each step is refreshed first.
    #[error(
        "{what} is too deep for these parameters: its noise reaches {found_bits:.1} bits, where \
         {limit_bits:.1} are possible; take shorter words or a longer eta"
    )]
    TooDeep {
        /// The computation.
        what: &'static str,
        /// The predicted value.
        found_bits: f64,
        /// The limit of the noise, in bits.
        limit_bits: f64,
    },
    /// A computation does not accept this number of bits or blocks.
    #[error("found {found} {what}, but {needed} are needed")]
    Count {
        /// The counted items.
        what: &'static str,
        /// The given number.
        found: usize,
        /// The required number.
        needed: usize,
    },
    /// Bytes are not a ciphertext, or are damaged.
    #[error(
        "these bytes are not an intact ciphertext: {problem}; get them again from their source"
    )]
    Damaged {
        /// The problem.
        problem: &'static str,
    },
    /// The system has no randomness, or cannot start a thread.
    #[error(transparent)]
    Arith(#[from] sudare_arith::Error),
}

/// Results of this crate.
pub type Result<T> = core::result::Result<T, Error>;
