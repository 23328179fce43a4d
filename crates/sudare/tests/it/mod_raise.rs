//! Raising the modulus against polynomials over the integers: residues are those of the
//! centred lift, `I` is as small as the ephemeral secret is sparse, and the noise is the
//! predicted one.

use crate::oracle::{centred, lift_eval, moduli, product, rounded, to_f64};
use crate::session::Session;
use num_bigint::BigInt;
use sudare::{
    Error,
    ckks::{Ciphertext, Complex, Params, Spec, UpperSpec},
    rlwe::{KeyGenerator, KeyRequest, Level, Noise, Raise, SecretDistribution},
};
use sudare_arith::prng::Seed;

fn seed(label: &str, index: u64) -> Seed {
    Seed::from_bytes([8; 32]).derive(label, index)
}

fn spec(log_n: u32, q_bits: &[&[f64]], p_bits: &[f64]) -> Spec {
    Spec {
        q_bits: q_bits.iter().map(|level| level.to_vec()).collect(),
        insecure: true,
        ..Spec::uniform(log_n, 0.0, 0, 30.0, p_bits.to_vec())
    }
}

/// Level 0 of one, two and three primes of all widths; as many special primes as that
/// needs and more; main digits of one prime and of several; levels above the top.
fn specs(log_n: u32) -> Vec<Spec> {
    let sparse = SecretDistribution::FixedWeight { h: 20 };
    vec![
        spec(log_n, &[&[48.0], &[40.0], &[40.0]], &[49.0]),
        spec(log_n, &[&[45.0], &[40.0], &[50.0, 30.0], &[50.0]], &[45.5, 50.0, 48.0]),
        spec(log_n, &[&[30.0, 25.0], &[55.0], &[29.0, 25.0]], &[40.0, 40.0, 40.0]),
        spec(log_n, &[&[61.0], &[55.0]], &[61.0, 61.0]),
        Spec { secret: sparse, ..spec(log_n, &[&[20.0, 25.0, 30.0], &[40.0]], &[50.0, 50.0]) },
        with_upper(
            spec(log_n, &[&[48.0], &[40.0], &[40.0]], &[49.0, 49.0]),
            &[32.0; 4],
            &[&[48.0], &[45.0]],
        ),
        with_upper(
            spec(log_n, &[&[30.0, 25.0], &[30.0]], &[60.0, 50.0]),
            &[57.0, 28.0],
            &[&[25.0, 30.0]],
        ),
    ]
}

fn with_upper(spec: Spec, base_bits: &[f64], levels_bits: &[&[f64]]) -> Spec {
    let levels_bits = levels_bits.iter().map(|level| level.to_vec()).collect();
    Spec { upper: Some(UpperSpec { base_bits: base_bits.to_vec(), levels_bits }), ..spec }
}

/// The highest level of the chain and the highest of all.
fn tops(spec: &Spec) -> [Level; 2] {
    let raised = spec.upper.iter().map(|raised| raised.levels_bits.len()).sum::<usize>();
    [0, raised].map(|above| Level((spec.q_bits.len() + above) as u32 - 1))
}

fn session(spec: &Spec, key: u64, request: &KeyRequest) -> Session {
    Session::from_seed(Params::new(spec.clone()).unwrap(), &seed("keys", key), request)
}

fn through(weight: u32, level: Level) -> KeyRequest {
    KeyRequest::new().raise(Raise::to(level).with_weight(weight))
}

/// Steps that these tests share.
trait Raising {
    fn encrypt(&self, salt: u64, level: Level) -> Ciphertext;
    fn open(&self, a: &Ciphertext) -> Vec<BigInt>;
    fn raise(&self, a: &Ciphertext, to: Level) -> (Vec<f64>, Vec<f64>);
}

impl Raising for Session {
    fn encrypt(&self, salt: u64, level: Level) -> Ciphertext {
        let values: Vec<_> = (0..self.params.max_slots() as u64)
            .map(|i| (i * i + 3 * salt * i + salt) as f64)
            .map(|x| Complex { re: x.sin(), im: (2.0 * x).cos() })
            .collect();
        let scale = self.params.scale_at(level);
        let plain = self.encoder.encode_at(&values, level, scale).unwrap();
        self.encryptor.encrypt_with(&plain, &seed("encryption", salt)).unwrap()
    }

    /// The decryption as integers next to zero.
    fn open(&self, a: &Ciphertext) -> Vec<BigInt> {
        let plain = self.decryptor.decrypt(a).unwrap();
        lift_eval(self.params.rlwe().basis(), plain.poly())
    }

    /// Raises `a`: the coefficients of `I`, and of the error.
    fn raise(&self, a: &Ciphertext, to: Level) -> (Vec<f64>, Vec<f64>) {
        let rlwe = self.params.rlwe();
        let q0 = product(&moduli(rlwe.basis(), rlwe.limbs(Level(0))));
        let raised = self.evaluator.mod_raise(a, to).unwrap();
        assert_eq!((raised.level(), raised.slots()), (to, a.slots()));
        assert!(raised.scale().matches(a.scale()));
        let message = self.open(&self.evaluator.drop_to(a, Level(0)).unwrap());
        let differences = self.open(&raised).into_iter().zip(message).map(|(x, m)| x - m);
        let split = |x: BigInt| (to_f64(&rounded(&x, &q0)), to_f64(&centred(&x, &q0)));
        differences.map(split).unzip()
    }
}

fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64
}

#[test]
fn without_keys_residues_are_those_of_the_centred_lift() {
    for spec in specs(5) {
        let s = session(&spec, 0, &KeyRequest::new());
        let (basis, [top, highest]) = (s.params.rlwe().basis(), tops(&spec));
        let cases = [(Level(0), top), (top, top), (Level(1), Level(1)), (top, Level(0))];
        let raised = (top.0 + 1..=highest.0).map(|to| (Level(to % 2), Level(to)));
        for (from, to) in cases.into_iter().chain(raised) {
            let a = s.encrypt(1, from);
            let raised = s.evaluator.mod_raise(&a, to).unwrap();
            assert_eq!(raised.level(), to);
            let low = s.evaluator.drop_to(&a, Level(0)).unwrap();
            for (low, raised) in low.polys().iter().zip(raised.polys()) {
                assert_eq!(raised.limbs(), s.params.rlwe().limbs(to));
                assert_eq!(lift_eval(basis, raised), lift_eval(basis, low), "{spec:?}");
            }
        }
        // A polynomial of the secret's weight, without error.
        let (quotients, errors) = s.raise(&s.encrypt(2, top), highest);
        let weight = match spec.secret {
            SecretDistribution::FixedWeight { h } => f64::from(h),
            _ => 32.0,
        };
        assert!(quotients.iter().all(|i| i.abs() <= (weight + 1.0) / 2.0), "{quotients:?}");
        assert!(errors.iter().all(|&e| e == 0.0));
    }
}

#[test]
fn an_ephemeral_secret_bounds_the_multiple_of_q0() {
    for spec in specs(6) {
        for (key, weight) in [(0, 1), (1, 4), (2, 9)] {
            let [top, highest] = tops(&spec);
            let s = session(&spec, key, &through(weight, highest));
            let chain = [(Level(0), top), (top, top), (Level(1), Level(1))];
            let raised = (top.0 + 1..=highest.0).map(|to| (Level(0), Level(to)));
            let chain = chain.into_iter().filter(|_| top == highest);
            for (from, to) in chain.chain(raised) {
                let (quotients, errors) = s.raise(&s.encrypt(key, from), to);
                let most = f64::from(weight + 1) / 2.0;
                assert!(quotients.iter().all(|i| i.abs() <= most), "{weight}: {quotients:?}");
                // One rotated polynomial exceeds nothing.
                assert!(weight == 1 || quotients.iter().any(|&i| i != 0.0));
                // Two digits below q_0 / 2 <= P / 2, errors at most 21, two roundings of
                // both polynomials.
                let n = f64::from(1 << spec.log_n);
                let bound = n * 21.0 + (2.0 + n + f64::from(weight)) / 2.0;
                assert!(errors.iter().all(|e| e.abs() <= bound), "{spec:?}: {errors:?}");
            }
        }
    }
}

#[test]
fn the_noise_is_as_predicted() {
    for spec in specs(10) {
        let [_, top] = tops(&spec);
        let squares = (0..4).map(|key| {
            let s = session(&spec, key, &through(32, top));
            mean_square(&s.raise(&s.encrypt(key, Level(0)), top).1)
        });
        let measured = (squares.sum::<f64>() / 4.0).log2() / 2.0;
        let predicted = Noise::mod_raise(Params::new(spec.clone()).unwrap().rlwe(), 32).log2_sd();
        assert!(
            (measured - predicted).abs() < 0.3,
            "{spec:?}: 2^{measured:.2} measured, 2^{predicted:.2} predicted"
        );
    }
}

/// `I` is `c_1 s / q_0` rounded, but for a small message: a sum of `h` numbers uniform in
/// `(-1/2, 1/2)`, whose variance is `h / 12`, and the rounding, whose variance is `1 / 12`.
#[test]
fn the_multiple_of_q0_is_a_sum_of_uniform_numbers() {
    let spec = spec(12, &[&[45.0], &[40.0]], &[46.0]);
    for weight in [8u32, 32, 128] {
        let mut all = Vec::new();
        for key in 0..4 {
            let s = session(&spec, key, &through(weight, Level(1)));
            all.extend(s.raise(&s.encrypt(key, Level(0)), Level(1)).0);
        }
        let count = all.len() as f64;
        let mean = all.iter().sum::<f64>() / count;
        let variance = mean_square(&all);
        let predicted = f64::from(weight + 1) / 12.0;
        assert!(mean.abs() < 5.0 * (predicted / count).sqrt(), "{weight}: mean {mean}");
        // The standard deviation of a sample variance is sqrt(2 / count) of it.
        let tolerance = 5.0 * (2.0 / count).sqrt();
        assert!((variance / predicted - 1.0).abs() < tolerance, "{weight}: {variance}");
        let most = all.iter().fold(0.0, |most, i| i.abs().max(most));
        assert!(most <= f64::from(weight + 1) / 2.0);
        assert!(weight != 32 || most <= 14.0, "{most}");
    }
}

fn same(a: &Ciphertext, b: &Ciphertext) -> bool {
    a.level() == b.level() && a.polys().iter().zip(b.polys()).all(|(a, b)| a.rows().eq(b.rows()))
}

#[test]
fn a_key_for_a_lower_level_raises_to_it_alone() {
    for spec in specs(5).into_iter().filter(|spec| spec.upper.is_none()) {
        let s = session(&spec, 3, &through(7, Level(0)));
        let a = s.encrypt(3, Level(1));
        let error = Error::MissingRaisingKey { level: Level(1), found: Some(Level(0)) };
        assert_eq!(s.evaluator.mod_raise(&a, Level(1)).unwrap_err(), error);
        let (quotients, _) = s.raise(&a, Level(0));
        assert!(quotients.iter().all(|&i| i == 0.0));
        // The key for a higher level contains the key for a lower one.
        let top = session(&spec, 3, &through(7, s.params.top()));
        let [lower, higher] = [&s, &top].map(|s| s.evaluator.mod_raise(&a, Level(0)).unwrap());
        assert!(same(&lower, &higher));
    }
}

#[test]
fn requests_merge_and_count() {
    let mut request = through(32, Level(1)).rotations(6, [1], Level(1));
    request |= through(48, Level(2));
    request |= KeyRequest::new();
    assert_eq!(request.raise, Some(Raise::to(Level(2))));
    assert_eq!(request, request.clone().raise(Raise::to(Level(0))));
    assert_eq!(request.count(), 2);
    let params = Params::new(specs(6).swap_remove(0)).unwrap();
    // Two halves of 64 residues modulo two primes below and four above, beside a Galois key
    // of two digits and three primes.
    let bytes = |prime: u64| u64::from((u64::BITS - prime.leading_zeros()).div_ceil(8));
    let spec = params.rlwe().spec();
    let [q0, q1, q2, p] = [spec.q[0][0], spec.q[1][0], spec.q[2][0], spec.p[0]].map(bytes);
    let raising = (q0 + p) + (q0 + q1 + q2 + p);
    assert_eq!(request.bytes(params.rlwe()), Ok(2 * 64 * (raising + 2 * (q0 + q1 + p))));
}

/// The keys back have the primes of one section of levels.
#[test]
fn a_key_raises_to_levels_of_its_own_primes() {
    let spec = specs(5).swap_remove(5);
    let [top, highest] = tops(&spec);
    let above = Level(top.0 + 1);
    let s = session(&spec, 3, &through(7, highest));
    let a = s.encrypt(3, Level(1));
    for to in 0..=top.0 {
        let error = Error::MissingRaisingKey { level: Level(to), found: Some(highest) };
        assert_eq!(s.evaluator.mod_raise(&a, Level(to)).unwrap_err(), error);
    }
    let low = session(&spec, 3, &through(7, above));
    let [lower, higher] = [&low, &s].map(|s| s.evaluator.mod_raise(&a, above).unwrap());
    assert!(same(&lower, &higher));
    let error = Error::MissingRaisingKey { level: highest, found: Some(above) };
    assert_eq!(low.evaluator.mod_raise(&a, highest).unwrap_err(), error);
    let chain = session(&spec, 3, &through(7, top));
    for to in [above, highest] {
        let error = Error::MissingRaisingKey { level: to, found: Some(top) };
        assert_eq!(chain.evaluator.mod_raise(&a, to).unwrap_err(), error);
    }
    let max = highest;
    for s in [&s, &chain] {
        let found = Level(highest.0 + 1);
        let error = Error::LevelOutOfRange { found, max };
        assert_eq!(s.evaluator.mod_raise(&a, found).unwrap_err(), error);
        // The raised ciphertext has no prime of level 0.
        let found = above;
        let needed = Level(0);
        let error = Error::RaisedLevel { found, needed, top };
        let raised = low.evaluator.mod_raise(&a, above).unwrap();
        assert_eq!(s.evaluator.mod_raise(&raised, highest).unwrap_err(), error);
    }
}

fn secure(log_n: u32, base: f64, levels: usize, p: &[f64]) -> Params {
    Params::new(Spec::uniform(log_n, base, levels, 30.0, p.to_vec())).unwrap()
}

#[test]
fn each_key_is_priced_at_its_own_modulus_and_secret() {
    let params = secure(14, 36.0, 3, &[37.0]);
    let rlwe = params.rlwe();
    let request = through(32, Level(2)).relinearize(Level(3));
    let [main, to, from] = request.key_security(rlwe).unwrap().try_into().unwrap();
    assert_eq!(main.log2_q, rlwe.log2_qp(Level(3)));
    assert!((to.log2_q - 73.0).abs() < 0.01 && to.what.contains("weight 32"), "{to:?}");
    // One special prime, which is all there are.
    assert_eq!(from.log2_q, rlwe.log2_qp(Level(2)));
    let bits = |secret, log2_q| sudare::rlwe::security_bits(14, secret, log2_q);
    let sparse = SecretDistribution::FixedWeight { h: 32 };
    assert_eq!(to.security_bits, bits(sparse, to.log2_q));
    assert_eq!(from.security_bits, bits(SecretDistribution::UniformTernary, from.log2_q));
    let mut keygen = KeyGenerator::new(rlwe).unwrap();
    let secret = keygen.secret_key().unwrap();
    assert!(keygen.evaluation_keys(&secret, &request).is_ok());

    // 97 bits are too many for a secret this sparse in this ring, and no weight below 32 has a
    // price.
    let wide = secure(14, 48.0, 3, &[49.0]);
    for (params, weight) in [(&wide, 32), (&params, 31)] {
        let request = through(weight, Level(1));
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let Err(error) = keygen.evaluation_keys(&secret, &request) else { panic!("{weight}") };
        let Error::Insecure { what, log2_qp, security_bits, limit, .. } = &error else {
            panic!("{error}");
        };
        assert!(what.contains("ephemeral") && *security_bits < 128.0, "{error}");
        assert!(limit < log2_qp, "{error}");
        assert_eq!(request.bytes(params.rlwe()), Err(error));
        assert!(request.key_security(params.rlwe()).is_ok());
    }
    assert!(KeyGenerator::new(wide.rlwe()).is_ok());
}

#[test]
fn impossible_requests_are_refused() {
    // Level 0 has two primes, and the special prime covers each alone.
    let narrow = Params::new(spec(5, &[&[30.0, 30.0], &[30.0]], &[31.0])).unwrap();
    let refused = |params: &Params, weight, level| {
        let request = through(weight, level);
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let error = keygen.evaluation_keys(&secret, &request).err().unwrap();
        assert_eq!(request.bytes(params.rlwe()), Err(error.clone()));
        assert_eq!(request.key_security(params.rlwe()), Err(error.clone()));
        error
    };
    let error = refused(&narrow, 8, Level(1));
    assert!(
        matches!(&error, Error::InvalidSpec { field: "p", problem }
        if problem.contains("31.0 bits") && problem.contains("60.0 bits")),
        "{error}"
    );
    let params = Params::new(specs(5).swap_remove(0)).unwrap();
    for weight in [0, 33, u32::MAX] {
        let error = refused(&params, weight, Level(1));
        assert!(
            matches!(&error, Error::InvalidSpec { field: "raise", problem }
            if problem.contains("1 to N = 32")),
            "{error}"
        );
    }
    let above = Error::LevelOutOfRange { found: Level(3), max: Level(2) };
    assert_eq!(refused(&params, 8, Level(3)), above);
    let s = session(&specs(5)[0], 0, &KeyRequest::new());
    assert_eq!(s.evaluator.mod_raise(&s.encrypt(0, Level(0)), Level(3)).unwrap_err(), above);
    // Without keys, special primes do not matter.
    let s = session(narrow.spec(), 0, &KeyRequest::new());
    assert!(s.evaluator.mod_raise(&s.encrypt(0, Level(0)), Level(1)).is_ok());
}
