#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    Error, EvaluationKey, Noise, Params, Result,
    big::{big, limbs},
    keys::KeyId,
};
use core::fmt;
use num_bigint::BigUint;

/// An encrypted message modulo `t^a` in every slot. **Insecure**, for research.
///
/// One integer below `x_0`, with the exponent `a` of its message space, a prediction of its noise
/// and the name of its key.
#[derive(Clone, PartialEq)]
pub struct Ciphertext {
    pub(crate) value: BigUint,
    pub(crate) exponent: u32,
    pub(crate) noise: Noise,
    pub(crate) key: KeyId,
}

/// First bytes of a ciphertext; the last one is the version.
const MAGIC: &[u8; 8] = b"SDRINT\0\x01";
/// Magic, key, exponent, two parts of the noise.
const HEAD_BYTES: usize = 8 + 16 + 4 + 16;
const DIGEST_BYTES: usize = 32;

impl Ciphertext {
    /// Returns the exponent `a` of the message space `Z_{t^a}`.
    #[must_use]
    pub fn exponent(&self) -> u32 {
        self.exponent
    }

    /// Returns the predicted noise.
    #[must_use]
    pub fn noise(&self) -> Noise {
        self.noise
    }

    /// Returns the same ciphertext, read modulo a power of `t` that is `steps` higher, lower if negative.
    pub(crate) fn read_as(&self, params: &Params, steps: i32) -> Self {
        Self {
            exponent: self.exponent.saturating_add_signed(steps),
            noise: self.noise.shifted(params, steps),
            ..self.clone()
        }
    }

    /// Returns the ciphertext as bytes: `"SDRINT", 0, 1`, the name of its key, exponent, noise, the
    /// integer in the parameters' number of limbs, little-endian, and the BLAKE3 digest of all
    /// these bytes.
    #[must_use]
    pub fn to_bytes(&self, params: &Params) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.key);
        bytes.extend(self.exponent.to_le_bytes());
        bytes.extend(self.noise.parts().iter().flat_map(|part| part.to_le_bytes()));
        bytes.extend(limbs(&self.value, params.limbs()).iter().flat_map(|limb| limb.to_le_bytes()));
        bytes.extend(blake3::hash(&bytes).as_bytes());
        bytes
    }

    /// Reads the bytes of [`Ciphertext::to_bytes`], to compute under `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::OtherKey`]; [`Error::ExponentOutOfRange`].
    pub fn from_bytes(bytes: &[u8], key: &EvaluationKey) -> Result<Self> {
        let damaged = |problem| Error::Damaged { problem };
        let params = key.params();
        let body_bytes = params.limbs().saturating_mul(8);
        let frame = bytes
            .split_last_chunk::<DIGEST_BYTES>()
            // The length follows from the parameters: bytes cannot claim one of their own.
            .filter(|(content, _)| content.len() == body_bytes.saturating_add(HEAD_BYTES));
        let (content, digest) =
            frame.ok_or(damaged("a ciphertext under these parameters has another size"))?;
        let head = content.strip_prefix(MAGIC).and_then(Head::of);
        let Head { key: id, exponent, noise: [error, lift], body } =
            head.ok_or(damaged("they begin otherwise"))?;
        if blake3::hash(content).as_bytes() != digest {
            return Err(damaged("they do not match their digest"));
        }
        params.message_modulus(exponent)?;
        let noise = Noise::from_parts(error, lift).ok_or(damaged("their noise is not a number"))?;
        let (limbs, _) = body.as_chunks();
        let limbs: Vec<u64> = limbs.iter().map(|&limb| u64::from_le_bytes(limb)).collect();
        let ciphertext = Self { value: big(&limbs), exponent, noise, key: id };
        key.check(&ciphertext)?;
        // Operations assume reduced integers.
        if ciphertext.value >= *key.modulus.value() {
            return Err(damaged("their integer exceeds the modulus"));
        }
        Ok(ciphertext)
    }
}

/// Fields after the magic.
struct Head<'a> {
    key: KeyId,
    exponent: u32,
    noise: [f64; 2],
    /// The limbs.
    body: &'a [u8],
}

impl<'a> Head<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (&key, rest) = bytes.split_first_chunk()?;
        let (&exponent, rest) = rest.split_first_chunk()?;
        let (&error, rest) = rest.split_first_chunk()?;
        let (&lift, body) = rest.split_first_chunk()?;
        let noise = [error, lift].map(f64::from_le_bytes);
        Some(Self { key, exponent: u32::from_le_bytes(exponent), noise, body })
    }
}

impl fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ciphertext")
            .field("insecure", &true)
            .field("exponent", &self.exponent)
            .field("noise_bits", &self.noise.bits())
            .finish_non_exhaustive()
    }
}
