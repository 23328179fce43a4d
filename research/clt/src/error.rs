/// Why an operation was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A size of a parameter set is impossible.
    #[error("{name} is {found}: {needed}")]
    InvalidParams {
        /// The size.
        name: &'static str,
        /// Its value.
        found: u64,
        /// What it has to be, and why.
        needed: String,
    },
    /// There is no parameter set of that name.
    #[error("there is no parameter set {name}: choose one of {known}")]
    UnknownPreset {
        /// What was named.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Messages for another number of slots.
    #[error("{found} messages were given, but a ciphertext has {slots} slots: give one a slot")]
    SlotCount {
        /// Messages.
        found: usize,
        /// Slots.
        slots: usize,
    },
    /// A message outside its message space.
    #[error("the message {found} of slot {slot} is out of range: it has to be below {modulus}")]
    MessageOutOfRange {
        /// The slot, from 0.
        slot: usize,
        /// The message.
        found: u64,
        /// `t^a`.
        modulus: u64,
    },
    /// A message space that the parameters do not have.
    #[error("the message space t^{found} is out of range: exponents from 1 to {most} are possible")]
    ExponentOutOfRange {
        /// The exponent.
        found: u32,
        /// The largest one.
        most: u32,
    },
    /// Operands with different message spaces.
    #[error("the message spaces t^{left} and t^{right} differ: contract or dilate one of them")]
    ExponentMismatch {
        /// Of the first operand.
        left: u32,
        /// Of the second.
        right: u32,
    },
    /// An operation on bits was given something else.
    #[error("{operation} is for bits: message spaces of t = 2 with exponent 1 are needed")]
    NotBits {
        /// The operation.
        operation: &'static str,
    },
    /// Operands under different keys or parameters.
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
        /// What is predicted.
        found_bits: f64,
        /// The most that is possible.
        limit_bits: f64,
    },
    /// A computation that refreshing before each of its steps does not make possible.
    #[error(
        "{what} is too deep for these parameters: its noise reaches {found_bits:.1} bits, where \
         {limit_bits:.1} are possible; take shorter words or a longer eta"
    )]
    TooDeep {
        /// The computation.
        what: &'static str,
        /// What is predicted.
        found_bits: f64,
        /// The most that is possible.
        limit_bits: f64,
    },
    /// Bits or blocks of a number that a computation does not take.
    #[error("{found} {what} were given, but {needed} are needed")]
    Count {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there have to be.
        needed: usize,
    },
    /// Bytes that are no ciphertext, or a damaged one.
    #[error("these bytes are no intact ciphertext: {problem}; get them again from their source")]
    Damaged {
        /// What is wrong with them.
        problem: &'static str,
    },
    /// There is no randomness, or no thread.
    #[error(transparent)]
    Arith(#[from] sudare_arith::Error),
}

/// This crate's results.
pub type Result<T> = core::result::Result<T, Error>;
