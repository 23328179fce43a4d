//! A key pair with everything that works with it, for tests of any crate.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::Arc;
use sudare::{
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Evaluator, Params},
    rlwe::{KeyGenerator, KeyRequest},
};
use sudare_arith::prng::Seed;

pub struct Session {
    pub params: Params,
    pub encoder: Encoder,
    pub encryptor: Encryptor,
    pub evaluator: Evaluator,
    pub decryptor: Decryptor,
}

/// The residues of both polynomials.
pub fn rows(a: &Ciphertext) -> Vec<&[u64]> {
    a.polys().iter().flat_map(|poly| poly.rows()).collect()
}

impl Session {
    /// With the keys of `request`, from fresh randomness.
    pub fn new(params: Params, request: &KeyRequest) -> Self {
        let keygen = KeyGenerator::new(params.rlwe()).unwrap();
        Self::with(keygen, params, request)
    }

    /// The same keys for the same seed.
    pub fn from_seed(params: Params, seed: &Seed, request: &KeyRequest) -> Self {
        let keygen = KeyGenerator::from_seed(params.rlwe(), seed);
        Self::with(keygen, params, request)
    }

    fn with(mut keygen: KeyGenerator, params: Params, request: &KeyRequest) -> Self {
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = Arc::new(keygen.evaluation_keys(&secret, request).unwrap());
        assert_eq!(keys.fulfils(), *request);
        assert_eq!(Ok(keys.bytes()), request.bytes(params.rlwe()));
        Self {
            encoder: Encoder::new(&params),
            encryptor: Encryptor::new(&params, public).unwrap(),
            evaluator: Evaluator::new(&params, keys).unwrap(),
            decryptor: Decryptor::new(&params, secret).unwrap(),
            params,
        }
    }
}
