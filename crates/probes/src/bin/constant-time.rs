//! Runs code that must not depend on secrets under Valgrind. See `scripts/constant_time.py`.
//!
//! `constant-time PART` hides secrets from memcheck and runs one part. `constant-time count`
//! encrypts and decrypts under 64 keys, and Valgrind counts the instructions of each.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "its user reads the output, and it may fail this way"
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
        ckks::{
            Ciphertext, Decryptor, Encoder, Encryptor, Params, Plaintext, Release, Spec,
            SymmetricEncryptor, preset,
        },
        exact::{self, PlainPoly},
        rlwe::{self, KeyGenerator, KeyRequest, Level, Raise, SecretKey},
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

    /// Number of keys whose instructions are counted.
    const KEYS: u8 = 64;

    pub fn run(part: &str) {
        assert!(is_running() || part == "count", "run this under Valgrind");
        // One thread only: threads wait for each other for varying times.
        par::with_threads(1, || match part {
            "samplers" => samplers(),
            "keygen" => drop(keygen(params().rlwe(), 1)),
            "encryption" => drop(encryption(true)),
            "owner-encryption" => owner_encryption(),
            "decryption" => decryption(),
            "exact-encryption" => drop(exact_encryption(true)),
            "exact-decryption" => exact_decryption(),
            "release" => release(),
            "leak" => leak(),
            "count" => count(),
            _ => panic!(
                "a part is needed: samplers, keygen, encryption, owner-encryption, decryption, \
                 exact-encryption, exact-decryption, release, leak, count"
            ),
        })
        .unwrap();
        println!("done");
    }

    /// Returns the shape of a production set, in a small ring.
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

    /// Returns a generator with a hidden secret seed, and a key from it. Public seeds stay visible,
    /// since sampling from them may take any time.
    fn keygen(params: &rlwe::Params, number: u8) -> (KeyGenerator, SecretKey) {
        let root = seed(number);
        let mut generator = KeyGenerator::from_seed(params, &root);
        let secret = root.derive("key generator, secret", 0);
        let places = memory::find(secret.as_bytes()).unwrap();
        // One copy here and one in the generator.
        assert!(places.len() >= 2);
        places.into_iter().for_each(|place| memory::hide_at(place, secret.as_bytes().len()));
        let key = generator.secret_key().unwrap();
        let level = Level(1);
        let request = KeyRequest::new().relinearize(level).rotations(9, [1], level);
        let raise = Raise::to(level);
        drop(generator.evaluation_keys(&key, &request.raise(raise)).unwrap());
        (generator, key)
    }

    fn plaintext(params: &Params) -> Plaintext {
        let top = params.rlwe().top();
        let values: Vec<f64> = (0..256).map(|k| f64::from(k) / 256.0).collect();
        Encoder::new(params).encode_real_at(&values, top, params.scale_at(top)).unwrap()
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
            // A ciphertext is public, so later code may depend on it.
            publish(bytes_of(row));
        }
        (params, ciphertext)
    }

    /// Encrypts by the secret key in both schemes. The seed stays visible, since a public seed
    /// follows from it. Key generation tests the same sampler of errors.
    fn owner_encryption() {
        let params = params();
        let (_, secret) = keygen(params.rlwe(), 1);
        let encryptor = SymmetricEncryptor::new(&params, Arc::new(secret)).unwrap();
        drop(black_box(encryptor.encrypt_seeded_with(&plaintext(&params), &seed(2)).unwrap()));
        let params = exact_params();
        let (_, secret) = keygen(params.rlwe(), 1);
        let encryptor = exact::SymmetricEncryptor::new(&params, Arc::new(secret)).unwrap();
        let plain = exact_plaintext(&params, 0);
        hide(plain.coeffs());
        let top = params.top();
        let seed = seed(2);
        let factor = params.fresh_factor(top, plain.modulus()).unwrap();
        drop(black_box(encryptor.encrypt_seeded_with(&plain, top, factor, &seed).unwrap()));
    }

    fn decryption() {
        let (params, ciphertext) = encryption(false);
        let (_, secret) = keygen(params.rlwe(), 1);
        drop(black_box(Decryptor::new(&params, secret).unwrap().decrypt(&ciphertext).unwrap()));
    }

    /// Same as [`params`], for exact arithmetic.
    fn exact_params() -> exact::Params {
        let spec = exact::preset("n13-t65537").unwrap().spec;
        exact::Params::new(exact::Spec { log_n: 9, insecure: true, ..spec }).unwrap()
    }

    fn exact_plaintext(params: &exact::Params, number: u8) -> PlainPoly {
        let values: Vec<u128> = (0..512).map(|k| (k * 997 + u128::from(number)) % 65537).collect();
        PlainPoly::from_unsigned(params.plaintext_modulus(), params.log_n(), &values).unwrap()
    }

    fn exact_encryptor(params: &exact::Params, number: u8) -> (exact::Encryptor, SecretKey) {
        let mut generator = KeyGenerator::from_seed(params.rlwe(), &seed(number));
        let secret = generator.secret_key().unwrap();
        let public = Arc::new(generator.public_key(&secret).unwrap());
        (exact::Encryptor::new(params, public).unwrap(), secret)
    }

    fn exact_encrypted(
        params: &exact::Params,
        encryptor: &exact::Encryptor,
        plain: &PlainPoly,
        seed: &Seed,
    ) -> exact::Ciphertext {
        let top = params.top();
        let factor = params.fresh_factor(top, plain.modulus()).unwrap();
        encryptor.encrypt_with(plain, top, factor, seed).unwrap()
    }

    /// Encrypts a message, which may be hidden too.
    fn exact_encryption(hidden: bool) -> (exact::Params, exact::Ciphertext) {
        let params = exact_params();
        let (encryptor, _) = exact_encryptor(&params, 1);
        let seed = seed(2);
        let plain = exact_plaintext(&params, 0);
        if hidden {
            hide(seed.as_bytes());
            hide(plain.coeffs());
        }
        let ciphertext = exact_encrypted(&params, &encryptor, &plain, &seed);
        for row in ciphertext.polys().iter().flat_map(|poly| poly.rows()) {
            publish(bytes_of(row));
        }
        (params, ciphertext)
    }

    fn exact_decryption() {
        let (params, ciphertext) = exact_encryption(false);
        let (_, secret) = keygen(params.rlwe(), 1);
        let decryptor = exact::Decryptor::new(&params, Arc::new(secret)).unwrap();
        drop(black_box(decryptor.decrypt(&ciphertext).unwrap()));
    }

    /// Releases values. The noise is secret until it is added.
    fn release() {
        let params = params();
        let (_, secret) = keygen(params.rlwe(), 1);
        let decryptor = Decryptor::new(&params, secret).unwrap();
        black_box(released(&decryptor.release_seed(&[7; 32]).unwrap()));
        let seed = seed(3);
        hide(seed.as_bytes());
        black_box(released(&seed));
    }

    fn released(seed: &Seed) -> Vec<f64> {
        let values: Vec<f64> = (0..256).map(|k| f64::from(k) / 7.0 - 18.0).collect();
        Release::default().values(&values, (-50f64).exp2(), 12, seed).unwrap()
    }

    /// Control: a branch on a secret.
    fn leak() {
        let seed = seed(1);
        hide(seed.as_bytes());
        let mut stream = Stream::new(&seed, "leak", 0);
        if black_box(stream.next_u64()) & 1 == 1 {
            println!("odd");
        }
    }

    /// Objects of both schemes under one key.
    struct Counted {
        plain: Plaintext,
        encryptor: Encryptor,
        owner_encryptor: SymmetricEncryptor,
        decryptor: Decryptor,
        exact_params: exact::Params,
        exact_plain: PlainPoly,
        exact_encryptor: exact::Encryptor,
        exact_decryptor: exact::Decryptor,
    }

    impl Counted {
        fn new(params: &Params, exact_params: &exact::Params, number: u8) -> Self {
            let (encryptor, secret) = encryptor(params, number);
            let (exact_encryptor, exact_secret) = exact_encryptor(exact_params, number);
            let secret = Arc::new(secret);
            let exact_secret = Arc::new(exact_secret);
            Self {
                plain: plaintext(params),
                encryptor,
                owner_encryptor: SymmetricEncryptor::new(params, Arc::clone(&secret)).unwrap(),
                decryptor: Decryptor::new(params, secret).unwrap(),
                exact_params: exact_params.clone(),
                exact_plain: exact_plaintext(exact_params, number),
                exact_encryptor,
                exact_decryptor: exact::Decryptor::new(exact_params, exact_secret).unwrap(),
            }
        }

        fn encrypt_and_decrypt(&self, seed: &Seed) {
            let ciphertext = self.encryptor.encrypt_with(&self.plain, seed).unwrap();
            drop(black_box(self.decryptor.decrypt(&ciphertext).unwrap()));
            // A fixed uniform half, since it is public and sampling may take any time.
            let uniform = Seed::from_bytes([0; 32]);
            let owned = self.owner_encryptor.encrypt_seeded_with(&self.plain, &uniform);
            drop(black_box(owned.unwrap()));
            let params = &self.exact_params;
            let encryptor = &self.exact_encryptor;
            let ciphertext = exact_encrypted(params, encryptor, &self.exact_plain, seed);
            drop(black_box(self.exact_decryptor.decrypt(&ciphertext).unwrap()));
        }
    }

    fn work(under: &Counted, seed: &Seed) {
        let mut stream = Stream::new(seed, "counted", 0);
        let mut values = vec![0; 1 << 10];
        sample::ternary(&mut stream, &mut values);
        sample::cbd21(&mut stream, &mut values);
        sample::fixed_weight(&mut stream, 32, &mut values).unwrap();
        black_box(&values);
        black_box(released(seed));
        under.encrypt_and_decrypt(seed);
    }

    /// The counted code.
    #[inline(never)]
    fn counted(under: &Counted, seed: &Seed) {
        work(under, seed);
    }

    /// Makes all keys first: the allocator's time depends on its free list.
    fn count() {
        let params = params();
        let exact_params = exact_params();
        let all: Vec<_> =
            (0..=KEYS).map(|number| Counted::new(&params, &exact_params, number)).collect();
        // Warms up tables and the allocator, which later calls find as they left them.
        for _ in 0..3 {
            work(&all[0], &seed(0));
        }
        for (under, number) in all.iter().zip(0..).skip(1) {
            counted(under, &seed(number));
        }
    }
}
