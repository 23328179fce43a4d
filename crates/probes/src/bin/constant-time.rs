//! Runs what must not depend on secrets, for Valgrind: `scripts/constant_time.py` says how.
//!
//! `constant-time PART` hides secrets from memcheck and does one part; `constant-time count`
//! encrypts and decrypts under 64 keys, whose instructions are counted apart.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "whoever runs it reads it, and it may fail this way"
)]

#[cfg(target_os = "linux")]
fn main() {
    linux::run(&std::env::args().nth(1).unwrap_or_default());
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use core::hint::black_box;
    use std::sync::Arc;
    use sudare::{
        ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Params, Plaintext, Spec, preset},
        rlwe::{KeyGenerator, KeyRequest, Level, Raise, SecretKey},
    };
    use sudare_arith::{
        mem::bytes_of,
        par,
        prng::{Seed, Stream},
        sample,
    };
    use sudare_probes::{
        memory,
        valgrind::{hide, is_running, publish},
    };

    /// Keys whose instructions are counted.
    const KEYS: u8 = 64;

    pub fn run(part: &str) {
        assert!(is_running() || part == "count", "run this under Valgrind");
        // Threads wait for each other for as long as they like.
        par::with_threads(1, || match part {
            "samplers" => samplers(),
            "keygen" => drop(keygen(&params(), 1)),
            "encryption" => drop(encryption(true)),
            "decryption" => decryption(),
            "leak" => leak(),
            "count" => count(),
            _ => panic!("a part is needed: samplers, keygen, encryption, decryption, leak, count"),
        })
        .unwrap();
        println!("done");
    }

    /// The shape of a set for use, in a small ring.
    fn params() -> Params {
        let spec = preset("n13").unwrap().spec;
        Params::new(Spec { log_n: 9, insecure: true, ..spec }).unwrap()
    }

    fn seed(number: u8) -> Seed {
        Seed::from_bytes([number; 32])
    }

    fn samplers() {
        let seed = seed(1);
        hide(seed.as_bytes());
        let mut stream = Stream::new(&seed, "samplers", 0);
        let mut values = vec![0; 1 << 12];
        sample::ternary(&mut stream, &mut values);
        sample::cbd21(&mut stream, &mut values);
        sample::fixed_weight(&mut stream, 64, &mut values).unwrap();
        let params = params();
        let basis = params.rlwe().basis();
        let secrecy = sudare_arith::mem::Secrecy::Key;
        let small = basis.from_small(&values[..basis.n()], basis.all(), secrecy);
        drop(black_box(basis.into_coeff(small)));
    }

    /// A generator whose secret seed is hidden, and a key of it. Public seeds are not: what is
    /// drawn from them takes the time that it takes.
    fn keygen(params: &Params, number: u8) -> (KeyGenerator, SecretKey) {
        let root = seed(number);
        let mut generator = KeyGenerator::from_seed(params.rlwe(), &root);
        let secret = root.derive("key generator, secret", 0);
        let places = memory::find(secret.as_bytes()).unwrap();
        // Here and in the generator.
        assert!(places.len() >= 2);
        places.into_iter().for_each(|place| memory::hide_at(place, secret.as_bytes().len()));
        let key = generator.secret_key().unwrap();
        let level = Level(1);
        let request = KeyRequest::new().relinearize(level).rotations(9, [1], level);
        let raise = Raise { level, weight: 32 };
        drop(generator.evaluation_keys(&key, &request.raise(raise)).unwrap());
        (generator, key)
    }

    fn plaintext(params: &Params) -> Plaintext {
        let top = params.rlwe().top();
        let values: Vec<f64> = (0..256).map(|k| f64::from(k) / 256.0).collect();
        Encoder::new(params).encode_real(&values, top, params.scale_at(top)).unwrap()
    }

    fn encryptor(params: &Params, number: u8) -> (Encryptor, SecretKey) {
        let mut generator = KeyGenerator::from_seed(params.rlwe(), &seed(number));
        let secret = generator.secret_key().unwrap();
        let public = Arc::new(generator.public_key(&secret).unwrap());
        (Encryptor::new(params, public).unwrap(), secret)
    }

    fn encryption(hidden: bool) -> (Params, Ciphertext) {
        let params = params();
        let (encryptor, _) = encryptor(&params, 1);
        let seed = seed(2);
        if hidden {
            hide(seed.as_bytes());
        }
        let ciphertext = encryptor.encrypt_with(&plaintext(&params), &seed).unwrap();
        for row in ciphertext.polys().iter().flat_map(|poly| poly.rows()) {
            publish(bytes_of(row));
        }
        (params, ciphertext)
    }

    fn decryption() {
        let (params, ciphertext) = encryption(false);
        let (_, secret) = keygen(&params, 1);
        drop(black_box(Decryptor::new(&params, secret).unwrap().decrypt(&ciphertext).unwrap()));
    }

    /// The control: a branch on a secret.
    fn leak() {
        let seed = seed(1);
        hide(seed.as_bytes());
        let mut stream = Stream::new(&seed, "leak", 0);
        if black_box(stream.next_u64()) & 1 == 1 {
            println!("odd");
        }
    }

    /// What is counted.
    #[inline(never)]
    fn counted(encryptor: &Encryptor, plain: &Plaintext, decryptor: &Decryptor, seed: &Seed) {
        let mut stream = Stream::new(seed, "counted", 0);
        let mut values = vec![0; 1 << 10];
        sample::ternary(&mut stream, &mut values);
        sample::cbd21(&mut stream, &mut values);
        sample::fixed_weight(&mut stream, 32, &mut values).unwrap();
        black_box(&values);
        let ciphertext = encryptor.encrypt_with(plain, seed).unwrap();
        drop(black_box(decryptor.decrypt(&ciphertext).unwrap()));
    }

    fn count() {
        let params = params();
        let plain = plaintext(&params);
        for number in 0..=KEYS {
            let (encryptor, secret) = encryptor(&params, number);
            let decryptor = Decryptor::new(&params, secret).unwrap();
            // The first fills the pool of buffers.
            if number == 0 {
                warm_up(&encryptor, &plain, &decryptor, &seed(number));
            } else {
                counted(&encryptor, &plain, &decryptor, &seed(number));
            }
        }
    }

    #[inline(never)]
    fn warm_up(encryptor: &Encryptor, plain: &Plaintext, decryptor: &Decryptor, seed: &Seed) {
        for _ in 0..2 {
            let ciphertext = encryptor.encrypt_with(plain, seed).unwrap();
            drop(black_box(decryptor.decrypt(&ciphertext).unwrap()));
        }
    }
}
