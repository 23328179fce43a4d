use super::{BatchEncoder, Modulus, PlainPoly, Slots, modulus::name_primes};
use crate::{Error, Result};

/// Encodes vectors of integers modulo `t = p^k` as slots, for any odd prime `p`. Bootstrapping
/// refreshes such slots.
///
/// Slots form two rows of `n / 2`: slot `(0, j)` is the value at `zeta^(5^j)`, slot `(1, j)` the
/// value at `zeta^(-5^j)`. Sums and products are slotwise for every prime. Automorphisms differ.
#[derive(Debug, Clone)]
pub enum IntegerEncoder {
    /// Encoder for `p = 1 mod 4`. Automorphisms rotate each row, or swap rows.
    Batch(BatchEncoder),
    /// Encoder for `p = 3 mod 4`: slim packing. `X -> X^5` rotates all slots, from the end of each
    /// row on to the other one, and `X -> X^-1` swaps rows.
    Slim(Slots),
}

impl IntegerEncoder {
    /// Makes an encoder for `2^log_slots` slots in the ring of degree `2^log_n`. Fewer than all are
    /// possible only for `p = 1 mod 4`.
    ///
    /// # Errors
    /// [`Error::NoSlots`] if there are no slots or fewer, which names suitable primes;
    /// [`Error::InvalidSpec`] as for [`BatchEncoder::with_slots`].
    pub fn new(t: Modulus, log_n: u32, log_slots: u32) -> Result<Self> {
        // The prime 2 goes here, too: the batch encoder refuses it and names other primes.
        if t.prime() % 4 != 3 {
            return Ok(Self::Batch(BatchEncoder::with_slots(t, log_n, log_slots)?));
        }
        let most = Self::most_slots(t, log_n);
        if most != Some(log_slots) {
            // For the message only: the shift must not overflow.
            let slots: usize = 1 << log_slots.min(MAX_LOG_SLOTS);
            return Err(Error::NoSlots {
                modulus: t.into(),
                slots,
                possible: most.map_or(0, |log_slots| 1 << log_slots),
                primes: name_primes(&BatchEncoder::primes_near(t.value(), slots.ilog2())),
            });
        }
        Ok(Self::Slim(Slots::new(t, log_n)?))
    }

    /// Returns `log2` of the maximum number of slots of integers modulo `t` in the ring of degree
    /// `2^log_n`, if it is two or more. There are no slots for `p = -1 mod 2N`, where no
    /// automorphism swaps rows.
    #[must_use]
    pub fn most_slots(t: Modulus, log_n: u32) -> Option<u32> {
        if t.prime() % 4 != 3 {
            return BatchEncoder::most_slots(t, log_n);
        }
        let twos = (t.prime() + 1).trailing_zeros();
        (twos <= log_n).then_some(twos - 1)
    }

    /// `t`.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        match self {
            Self::Batch(encoder) => encoder.modulus(),
            Self::Slim(slots) => slots.ring().modulus(),
        }
    }

    /// `log2(N)`.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        match self {
            Self::Batch(encoder) => encoder.log_n(),
            Self::Slim(slots) => slots.ring().log_n(),
        }
    }

    /// Number of slots, in two rows of equal length.
    #[must_use]
    pub fn slots(&self) -> usize {
        match self {
            Self::Batch(encoder) => encoder.slots(),
            Self::Slim(slots) => slots.count(),
        }
    }

    /// Encodes `values`, with 0 in the remaining slots.
    ///
    /// # Errors
    /// [`Error::TooManySlots`]; [`Error::ValueOutOfRange`] for a value beyond `t / 2` in magnitude.
    pub fn encode(&self, values: &[i128]) -> Result<PlainPoly> {
        match self {
            Self::Batch(encoder) => encoder.encode(values),
            Self::Slim(slots) => slots.encode_integers(values),
        }
    }

    /// Decodes the slots of a plaintext, in `(-t/2, t/2]`.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a plaintext of another ring; [`Error::NotInSlots`] for
    /// slots that are not integers or do not repeat.
    pub fn decode(&self, a: &PlainPoly) -> Result<Vec<i128>> {
        match self {
            Self::Batch(encoder) => encoder.decode(a),
            Self::Slim(slots) => slots.decode_integers(a),
        }
    }

    /// Returns the plaintext whose slot `(i, j)` is `scale` times the power `exponent(i, j)` of the
    /// primitive `2n`-th root of unity that evaluates polynomials in `X^(N/n)`. The slot is 0 if
    /// there is no exponent.
    ///
    /// # Errors
    /// [`Error::ValueOutOfRange`] for a scale that is not below `t`.
    pub(crate) fn roots(
        &self,
        scale: u128,
        exponent: impl Fn(usize, usize) -> Option<usize>,
    ) -> Result<PlainPoly> {
        let columns = self.slots() / 2;
        let at = |slot: usize| exponent(slot / columns, slot % columns);
        match self {
            Self::Batch(encoder) => encoder.roots(scale, at),
            Self::Slim(slots) => Ok(slots.roots(scale, at)),
        }
    }
}

impl From<BatchEncoder> for IntegerEncoder {
    fn from(encoder: BatchEncoder) -> Self {
        Self::Batch(encoder)
    }
}

/// `log2` of the number of slots of the largest ring.
const MAX_LOG_SLOTS: u32 = 17;
