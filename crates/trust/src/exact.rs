//! Keys and ciphertexts of BGV and BFV for the targets, identical in every run.

use std::sync::{Arc, LazyLock};
use sudare::{
    exact::{
        self, Ciphertext, Decryptor, Encryptor, Evaluator, Modulus, Params, PlainPoly, Spec,
        serial::{self, Label},
    },
    rlwe::{GaloisElement, KeyGenerator, KeyRequest, Level, ParamsId, SecretDistribution},
};
use sudare_arith::prng::Seed;

/// A key pair in a small ring, and its files.
pub struct Pair {
    /// The parameters of keys and ciphertexts.
    pub params: Params,
    /// An evaluator with keys of every kind.
    pub evaluator: Evaluator,
    /// Ciphertexts of both levels, and of several plaintext moduli.
    pub items: Vec<Ciphertext>,
    /// A decryptor with the secret key.
    pub decryptor: Decryptor,
    /// Files of the secret key, the public key, evaluation keys and ciphertexts.
    pub files: [Vec<u8>; 4],
}

/// Two pairs. The plaintext modulus is a prime in the first, and a power of a prime in the second,
/// which also has level keys and a sparse secret.
pub static PAIRS: LazyLock<[Pair; 2]> = LazyLock::new(|| {
    let modulus = |p, k| Modulus::new(p, k).unwrap();
    // A ring of 32 coefficients, far below any secure one, so that an input takes little time.
    let spec = |t, p_bits| Spec { insecure: true, ..Spec::uniform(5, t, 45.0, 1, 32.0, p_bits) };
    let secret = SecretDistribution::FixedWeight { h: 9 };
    [
        Pair::new(spec(modulus(257, 1), vec![46.0])),
        Pair::new(Spec { secret, ..spec(modulus(127, 2), vec![46.0; 2]) }),
    ]
});

impl Pair {
    fn new(spec: Spec) -> Self {
        let params = Params::new(spec).unwrap();
        let log_n = params.log_n();
        let top = params.top();
        let mut request = KeyRequest::new()
            .relinearize(top)
            .rotations(log_n, [1, -3], top)
            .automorphism(GaloisElement::conjugation(log_n), Level(0));
        let t = params.plaintext_modulus();
        let high = t.with_exponent(t.exponent() + 1).unwrap();
        request = request.raise(exact::raise_to(top, high).with_weight(7));
        if params.spec().p_bits.len() > 1 {
            let low = KeyRequest::new().relinearize(Level(0)).rotations(log_n, [1, 2], Level(0));
            request |= low.into_level_keys(params.rlwe());
        }
        // The corpus has files of these keys, so every run must make the same ones.
        let mut keygen = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([5; 32]));
        let secret = Arc::new(keygen.secret_key().unwrap());
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());

        let encryptor = Encryptor::new(&params, Arc::clone(&public)).unwrap();
        let encrypt = |t: Modulus, level: Level| {
            let plain = PlainPoly::from_signed(t, log_n, &[3, -2]).unwrap();
            let factor = params.fresh_factor(level, t).unwrap();
            encryptor.encrypt_with(&plain, level, factor, &Seed::from_bytes([6; 32])).unwrap()
        };
        let other = Modulus::new(2, 8).unwrap();
        let items = vec![encrypt(t, top), encrypt(t, Level(0)), encrypt(other, top)];

        let label = Label { name: "tiny".into(), content: "test".into(), meta: vec![1, 2, 3] };
        let mut files = [(); 4].map(|()| Vec::new());
        let [of_secret, of_public, of_keys, of_items] = &mut files;
        serial::write_secret_key(of_secret, &params, &secret, &label).unwrap();
        serial::write_public_key(of_public, &params, &public, &label).unwrap();
        serial::write_evaluation_keys(of_keys, &params, &keys, &label).unwrap();
        serial::write_ciphertexts(of_items, &params, &items, &label).unwrap();
        let evaluator = Evaluator::new(&params, keys).unwrap();
        let decryptor = Decryptor::new(&params, secret).unwrap();
        Self { params, evaluator, items, decryptor, files }
    }

    /// Returns the pair with these parameters, or the first pair.
    #[must_use]
    pub fn of(id: ParamsId) -> &'static Self {
        // Files of other parameters meet the first pair, whose readers must refuse them.
        PAIRS.iter().find(|pair| pair.params.rlwe().id() == id).unwrap_or(&PAIRS[0])
    }
}
