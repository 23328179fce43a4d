//! Owner and server in one process.

use super::values::uniform;
use crate::progress;
use std::sync::Arc;
use sudare::{
    ckks::{Ciphertext, Complex, Decryptor, Encoder, Encryptor, Evaluator, Params, Scale},
    rlwe::{KeyGenerator, KeyRequest, Level},
};
use sudare_arith::prng::{Seed, Stream};
use sudare_roles::error::Result;

/// Owner and server in one process, under fresh keys, with random inputs.
pub struct Parties {
    /// Encodes slots.
    pub encoder: Encoder,
    /// Encrypts under the public key.
    pub encryptor: Encryptor,
    /// Computes with the evaluation keys.
    pub evaluator: Evaluator,
    /// Decrypts with the secret key.
    pub decryptor: Decryptor,
    seed: Seed,
}

impl Parties {
    /// Makes fresh keys; the server has the keys of `request`.
    ///
    /// # Errors
    /// If keys cannot be made.
    pub fn new(params: &Params, request: &KeyRequest) -> Result<Self> {
        Self::with_small_keys(params, request, false)
    }

    /// Makes keys as [`Parties::new`] does; if `small`, the server computes half of its keys when it
    /// needs them.
    ///
    /// # Errors
    /// If keys cannot be made.
    pub fn with_small_keys(params: &Params, request: &KeyRequest, small: bool) -> Result<Self> {
        let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(small);
        let secret = generator.secret_key()?;
        let public = Arc::new(generator.public_key(&secret)?);
        let keys = progress::evaluation_keys("Making keys", &mut generator, &secret, request)?;
        Ok(Self {
            encoder: Encoder::new(params),
            encryptor: Encryptor::new(params, public)?,
            evaluator: Evaluator::new(params, Arc::new(keys))?,
            decryptor: Decryptor::new(params, secret)?,
            // Fresh inputs each time, so that no result depends on lucky ones.
            seed: Seed::random().map_err(sudare::Error::from)?,
        })
    }

    /// Draws random words, the same for the same label.
    #[must_use]
    pub fn stream(&self, label: &str) -> Stream {
        Stream::new(&self.seed, label, 0)
    }

    /// Draws complex numbers with parts in [-1, 1), the same for the same label.
    #[must_use]
    pub fn uniform(&self, label: &str, count: usize) -> Vec<Complex<f64>> {
        uniform(&self.seed, label, count)
    }

    /// Encodes and encrypts slots.
    ///
    /// # Errors
    /// If the slots do not fit the level and the scale.
    pub fn encrypt(
        &self,
        slots: &[Complex<f64>],
        level: Level,
        scale: Scale,
    ) -> Result<Ciphertext> {
        Ok(self.encryptor.encrypt(&self.encoder.encode_at(slots, level, scale)?)?)
    }

    /// Decrypts and decodes a ciphertext.
    ///
    /// # Errors
    /// If it is under another key.
    pub fn open(&self, a: &Ciphertext) -> Result<Vec<Complex<f64>>> {
        Ok(self.encoder.decode(&self.decryptor.decrypt(a)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::values::precision;
    use sudare::ckks;

    #[test]
    fn both_kinds_of_keys_open_what_they_encrypt() {
        let params = Params::new(ckks::preset("n13").unwrap().spec).unwrap();
        let level = Level(1);
        let scale = params.scale_at(Level(1));
        let request = KeyRequest::new().rotations(params.log_n(), [1], level);
        for small in [false, true] {
            let parties = Parties::with_small_keys(&params, &request, small).unwrap();
            let mut slots = parties.uniform("x", params.max_slots());
            assert_ne!(slots, parties.uniform("y", params.max_slots()));
            let a = parties.encrypt(&slots, level, scale).unwrap();
            let rotated = parties.evaluator.rotate(&a, 1).unwrap();
            slots.rotate_left(1);
            let bits = precision(&parties.open(&rotated).unwrap(), &slots);
            assert!(bits > scale.log2() - 23.0, "{bits}");
        }
    }
}
