//! What other libraries of BGV and BFV got wrong, each by its number: it is right here, or refused.

use std::sync::Arc;
use sudare::{
    Error, bfv,
    circuits::exact::bootstrap,
    exact::{
        BatchEncoder, Ciphertext, Decryptor, Encryptor, Modulus, Params, PlainPoly, Spec,
        inner_sum_keys,
    },
    rlwe::{KeyGenerator, KeyRequest, Level},
};
use sudare_arith::prng::Seed;

struct Session {
    t: Modulus,
    params: Params,
    encoder: BatchEncoder,
    encryptor: Encryptor,
    decryptor: Decryptor,
    evaluator: bfv::Evaluator,
}

/// Steps that these tests share.
trait Mistaken {
    fn new(t: u64, q_bits: Vec<Vec<f64>>, request: KeyRequest) -> Self;
    fn values(&self, salt: u128) -> Vec<u128>;
    fn plain(&self, values: &[u128]) -> PlainPoly;
    fn encrypt(&self, values: &[u128]) -> Ciphertext;
    fn assert_holds(&self, a: &Ciphertext, expected: &[u128]);
    fn products(&self, a: &[u128], b: &[u128]) -> Vec<u128>;
}

impl Mistaken for Session {
    /// In the ring of `2^10`, with keys for products and what else is asked for.
    fn new(t: u64, q_bits: Vec<Vec<f64>>, request: KeyRequest) -> Self {
        let t = Modulus::new(t, 1).unwrap();
        let spec = Spec::uniform(10, t, 60.0, 0, 0.0, vec![61.0, 61.0]);
        let params = Params::new(Spec { q_bits, insecure: true, ..spec }).unwrap();
        let mut keygen = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([1; 32]));
        let secret = Arc::new(keygen.secret_key().unwrap());
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let request = request.relinearize(params.top());
        let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());
        Self {
            t,
            encoder: BatchEncoder::new(t, params.log_n()).unwrap(),
            encryptor: Encryptor::new(&params, public).unwrap(),
            decryptor: Decryptor::new(&params, secret).unwrap(),
            evaluator: bfv::Evaluator::new(&params, keys).unwrap(),
            params,
        }
    }

    fn values(&self, salt: u128) -> Vec<u128> {
        let slots = self.encoder.slots() as u128;
        (0..slots).map(|i| self.t.reduce((i + salt) * (i * 7919 + salt))).collect()
    }

    fn plain(&self, values: &[u128]) -> PlainPoly {
        self.encoder.encode_unsigned(values).unwrap()
    }

    fn encrypt(&self, values: &[u128]) -> Ciphertext {
        self.encryptor.encrypt(&self.plain(values)).unwrap()
    }

    #[track_caller]
    fn assert_holds(&self, a: &Ciphertext, expected: &[u128]) {
        let found = self.decryptor.decrypt(a).unwrap();
        assert_eq!(self.encoder.decode_unsigned(&found).unwrap(), expected);
        let noise = self.decryptor.noise(a).unwrap();
        assert!(noise <= a.form().noise.log2(), "{noise} {:?}", a.form().noise);
    }

    fn products(&self, a: &[u128], b: &[u128]) -> Vec<u128> {
        a.iter().zip(b).map(|(&a, &b)| self.t.mul(a, b)).collect()
    }
}

/// OpenFHE 81: products of many.
#[test]
fn products_of_many_are_right() {
    let s = Session::new(65537, vec![vec![55.0]; 8], KeyRequest::new());
    let ev = &s.evaluator;
    let mut layer: Vec<_> = (0..13).map(|i| s.values(i + 2)).map(|x| (s.encrypt(&x), x)).collect();
    while layer.len() > 1 {
        let mut next = Vec::new();
        for pair in layer.chunks(2) {
            next.push(match pair {
                [(a, x), (b, y)] => (ev.mul_rescale(a, b).unwrap(), s.products(x, y)),
                // A single value, down to the level of the others.
                [(a, x)] => (ev.rescale_to(a, Level(a.level().0 - 1)).unwrap(), x.clone()),
                _ => unreachable!(),
            });
        }
        layer = next;
    }
    s.assert_holds(&layer[0].0, &layer[0].1);
}

/// OpenFHE 111 and the change of 1.3.1: a bound of errors that many additions exceed.
#[test]
fn many_additions_stay_below_the_bound() {
    let s = Session::new(65537, vec![vec![60.0]; 3], KeyRequest::new());
    let x = s.values(3);
    let ev = s.evaluator.exact();
    let a = s.encrypt(&x);
    let sum = (0..12).fold(a.clone(), |sum, _| ev.add(&sum, &sum).unwrap());
    let expected: Vec<u128> = x.iter().map(|&x| s.t.mul(x, 1 << 12)).collect();
    s.assert_holds(&sum, &expected);
    let terms: Vec<_> = (0..1000).map(|c| (&a, c)).collect();
    let expected: Vec<u128> = x.iter().map(|&x| s.t.mul(x, s.t.reduce(499_500))).collect();
    s.assert_holds(&ev.mul_const_sum(&terms).unwrap(), &expected);
}

/// OpenFHE 280 and 1066: the scale-invariant product beyond a depth of 31.
#[test]
fn products_go_beyond_a_depth_of_31() {
    let s = Session::new(786_433, vec![vec![58.0]; 42], KeyRequest::new());
    let mut x = s.values(5);
    let mut a = s.encrypt(&x);
    for _ in 0..40 {
        a = s.evaluator.mul_rescale(&a, &a).unwrap();
        x = s.products(&x, &x);
    }
    s.assert_holds(&a, &x);
}

/// OpenFHE 1137 and 1139: limbs of unequal size. Lattigo 34: an auxiliary modulus of another length
/// than the modulus.
#[test]
fn limbs_of_any_size_decrypt_and_multiply() {
    let q_bits = vec![vec![61.0], vec![27.0, 30.0], vec![49.0], vec![61.0], vec![28.0, 27.0]];
    let s = Session::new(12289, q_bits, KeyRequest::new());
    let x = s.values(5);
    let y = s.values(6);
    let a = s.encrypt(&x);
    let b = s.encrypt(&y);
    let product = s.products(&x, &y);
    for level in (1..=s.params.top().0).rev().map(Level) {
        let [a, b] = [&a, &b].map(|a| s.evaluator.rescale_to(a, level).unwrap());
        s.assert_holds(&a, &x);
        s.assert_holds(&s.evaluator.mul(&a, &b).unwrap(), &product);
        s.assert_holds(&s.evaluator.exact().mul(&a, &b).unwrap(), &product);
    }
}

/// Lattigo 510: sums over all slots that mix the two rows.
#[test]
fn sums_stay_within_rows() {
    let level = Level(1);
    let row = 1 << 9;
    let request = inner_sum_keys(10, row, level).unwrap();
    let s = Session::new(65537, vec![vec![60.0]; 2], request);
    let x = s.values(7);
    let ev = s.evaluator.exact();
    let sums: Vec<u128> =
        x.chunks(row).flat_map(|x| vec![s.t.reduce(x.iter().sum()); row]).collect();
    let a = s.encrypt(&x);
    s.assert_holds(&ev.inner_sum(&a, row).unwrap(), &sums);
    // A sum wider than a row is not a sum of a row.
    let wide = ev.inner_sum(&a, 2 * row);
    assert!(matches!(wide, Err(Error::InvalidSpec { .. })), "{wide:?}");
}

/// SEAL 44 and 59: fresh errors that grow from one version to the next. Under a public key they are
/// `v e + e_0 + e_1 s` with binomial errors of standard deviation 3.24 and ternary `v` and `s`, and
/// the rounding of the plaintext: 4 N / 3 terms, a standard deviation of 120 at `N = 2^10`.
#[test]
fn fresh_errors_are_as_large_as_they_ever_were() {
    let s = Session::new(65537, vec![vec![60.0]; 2], KeyRequest::new());
    for salt in 0..20 {
        let noise = s.decryptor.noise(&s.encrypt(&s.values(salt))).unwrap();
        // The largest of 1,024 errors: from 2.5 to 6.5 standard deviations.
        assert!((2.5..6.5).contains(&(noise.exp2() / 120.0)), "2^{noise}");
    }
}

/// TenSEAL 187: silent garbage where errors are too large.
#[test]
fn errors_that_are_too_large_are_refused() {
    let s = Session::new(65537, vec![vec![60.0]; 2], KeyRequest::new());
    let mut a = s.encrypt(&s.values(8));
    let mut x = s.values(8);
    let refused = loop {
        match s.evaluator.mul(&a, &a) {
            Ok(square) => a = square,
            Err(error) => break error,
        }
        x = s.products(&x, &x);
        s.assert_holds(&a, &x);
    };
    assert!(matches!(refused, Error::NoiseExhausted { .. }), "{refused}");
}

/// Lattigo before 6.1.1: a key from a dense to a sparse secret at the highest level.
#[test]
fn keys_to_sparse_secrets_are_at_their_own_level() {
    let set = bootstrap::preset("n15-t257-boot").unwrap();
    let params = Params::new(set.preset.spec.clone()).unwrap();
    let plan = set.plan(&params, Params::factor_at).unwrap();
    let keys = plan.required_keys().key_security(params.rlwe()).unwrap();
    let sparse: Vec<_> =
        keys.iter().filter(|key| key.what.starts_with("key to an ephemeral")).collect();
    assert_eq!(sparse.len(), 1);
    assert!(sparse[0].log2_q < 162.0 && sparse[0].security_bits >= 128.0, "{sparse:?}");
}
