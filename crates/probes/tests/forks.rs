//! Secrets of a process that forks.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use std::sync::Arc;
use sudare::{
    Error,
    ckks::{self, Decryptor, Encoder, Encryptor, SymmetricEncryptor, serial},
    rlwe::{KeyGenerator, KeyRequest, Level},
};
use sudare_arith::par;
use sudare_probes::in_child;

fn params() -> ckks::Params {
    let spec = ckks::preset("n13").unwrap().spec;
    ckks::Params::new(ckks::Spec { log_n: 8, insecure: true, ..spec }).unwrap()
}

/// Returns a one-word summary of a result.
fn kind<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "done".into(),
        Err(Error::Forked { what }) => format!("forked {what}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn keys_of_the_parent_are_refused_and_everything_else_works() {
    // Threads do not follow a fork.
    par::with_threads(1, || {
        let params = params();
        let top = params.rlwe().top();
        let mut generator = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = generator.secret_key().unwrap();
        let other = generator.secret_key().unwrap();
        let public = Arc::new(generator.public_key(&secret).unwrap());
        let request = KeyRequest::new().relinearize(Level(1));
        let secret = Arc::new(secret);
        let owner_encryptor = SymmetricEncryptor::new(&params, Arc::clone(&secret)).unwrap();
        let decryptor = Decryptor::new(&params, secret).unwrap();
        let encoder = Encoder::new(&params);
        let encryptor = Encryptor::new(&params, public).unwrap();
        let plain = encoder.encode_real_at(&[0.5, -0.25], top, params.scale_at(top)).unwrap();
        let ciphertext = encryptor.encrypt(&plain).unwrap();

        let mut child = || {
            let label = serial::Label::default();
            let mut fresh = KeyGenerator::new(params.rlwe()).unwrap();
            let own = fresh.secret_key().unwrap();
            let encrypted = encryptor.encrypt(&plain).unwrap();
            let results = [
                kind(generator.secret_key()),
                kind(generator.public_key(&own)),
                kind(generator.evaluation_keys(&own, &request)),
                kind(fresh.public_key(&other)),
                kind(fresh.evaluation_keys(&other, &request)),
                kind(decryptor.decrypt(&ciphertext)),
                kind(owner_encryptor.encrypt_seeded(&plain)),
                kind(serial::write_secret_key(&mut Vec::new(), &params, &other, &label)),
                kind(fresh.evaluation_keys(&own, &request)),
                (encrypted.polys()[0].row(0) != ciphertext.polys()[0].row(0)).to_string(),
            ];
            let decrypted = Decryptor::new(&params, own).map(|own| own.key_id());
            format!("{}, {}", results.join(", "), kind(decrypted))
        };
        assert_eq!(
            in_child(&mut child),
            "forked key generator, forked key generator, forked key generator, forked secret key, \
             forked secret key, forked secret key, forked secret key, forked secret key, done, true, \
             done"
        );
        // The parent process continues as before.
        assert_eq!(kind(generator.secret_key()), "done");
        let decrypted = encoder.decode_real(&decryptor.decrypt(&ciphertext).unwrap()).unwrap();
        assert!((decrypted[0] - 0.5).abs() < 1e-6 && (decrypted[1] + 0.25).abs() < 1e-6);
    })
    .unwrap();
}
