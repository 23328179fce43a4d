//! Key switching against polynomials over the integers, in small rings: what a
//! product or a rotation decrypts to is the exact result on the decryptions of its
//! operands, and a noise of the predicted size.

use crate::oracle::{automorphism, centred, lift_eval, moduli, negacyclic, product, to_f64};
use crate::session::Session;
use core::cmp::Ordering;
use num_bigint::BigInt;
use sudare::{
    Error,
    ckks::{Ciphertext, Complex, Params, ProductSum, Spec, UpperSpec},
    ring::LimbSet,
    rlwe::{GaloisElement, KeyRequest, Level, Noise},
};
use sudare_arith::{par, prng::Seed};

fn seed(label: &str, index: u64) -> Seed {
    Seed::from_bytes([6; 32]).derive(label, index)
}

/// Keys for relinearisation at `relinearize` and every rotation and the conjugation
/// at `galois`.
fn session(spec: &Spec, key: u64, relinearize: Level, galois: Level) -> Session {
    let params = Params::new(spec.clone()).unwrap();
    let request = request(&params, relinearize, galois);
    Session::from_seed(params, &seed("keys", key), &request)
}

fn request(params: &Params, relinearize: Level, galois: Level) -> KeyRequest {
    let log_n = params.log_n();
    KeyRequest::new()
        .relinearize(relinearize)
        .rotations(log_n, 0..params.max_slots() as i64, galois)
        .automorphism(GaloisElement::conjugation(log_n), galois)
}

/// Level keys for the highest upper level, if there are any, and others for the top.
fn every_key(params: &Params) -> KeyRequest {
    let top = params.top();
    let raised = params.upper_top();
    let mut keys = request(params, top, top);
    if raised > top {
        keys |= request(params, raised, raised).into_level_keys(params.rlwe());
    }
    keys
}

/// The primes of the keys of [`every_key`] that are used at `level`.
fn used_limbs(params: &Params, level: Level) -> LimbSet {
    let rlwe = params.rlwe();
    match rlwe.is_raised(level) {
        true => {
            let special = rlwe.level_key_limbs(params.upper_top()).unwrap().p();
            rlwe.limbs(level).with_special(special)
        }
        false => rlwe.key_limbs(level),
    }
}

fn spec(log_n: u32, q_bits: &[&[f64]], p_bits: &[f64], log2_scale: f64) -> Spec {
    Spec {
        q_bits: q_bits.iter().map(|level| level.to_vec()).collect(),
        insecure: true,
        ..Spec::uniform(log_n, 0.0, 0, log2_scale, p_bits.to_vec())
    }
}

/// Special primes of level keys alone.
fn with_extra_primes(spec: Spec, extra_p_bits: &[f64]) -> Spec {
    Spec { extra_p_bits: extra_p_bits.to_vec(), ..spec }
}

/// One to five digits, digits of one to five primes, several primes a level, and
/// levels that end within a digit; primes of all sizes in one chain.
fn specs() -> Vec<(Spec, usize)> {
    let mixed: &[&[f64]] = &[&[61.0], &[30.0, 45.0], &[48.0], &[50.0], &[55.0]];
    let even: &[&[f64]] = &[&[48.0], &[48.0], &[48.0], &[48.0]];
    vec![
        (spec(5, even, &[48.5], 40.0), 4),
        (spec(6, even, &[49.0, 48.0], 40.0), 2),
        (spec(5, even, &[49.0, 48.0, 48.0, 48.0], 40.0), 1),
        (spec(6, even, &[49.0, 49.0, 48.0], 40.0), 2),
        (spec(5, mixed, &[61.5], 40.0), 6),
        (spec(6, mixed, &[61.0, 50.0], 40.0), 3),
        (spec(5, mixed, &[61.0, 61.0, 61.0], 40.0), 2),
        (with_extra_primes(spec(6, even, &[48.5], 40.0), &[48.0]), 4),
        (with_extra_primes(spec(5, mixed, &[61.5], 40.0), &[50.0, 49.0]), 6),
    ]
}

fn with_upper(spec: Spec, base_bits: &[f64], levels_bits: &[&[f64]]) -> Spec {
    let levels_bits = levels_bits.iter().map(|level| level.to_vec()).collect();
    Spec { upper: Some(UpperSpec { base_bits: base_bits.to_vec(), levels_bits }), ..spec }
}

/// Fewer and more primes in place of the chain's, larger and smaller ones, over a chain of one
/// level, too; upper levels of one prime and of two; level keys of more and of fewer special
/// primes than others have, and of as many.
fn raised_specs() -> Vec<Spec> {
    let small: &[&[f64]] = &[&[48.0], &[30.0], &[30.0], &[30.0]];
    let large: &[&[f64]] = &[&[60.0], &[55.0], &[55.0]];
    let one: &[&[f64]] = &[&[50.0, 42.0]];
    vec![
        with_upper(spec(5, small, &[49.0], 30.0), &[46.0; 3], &[&[48.0], &[48.0], &[45.0]]),
        with_upper(spec(6, large, &[61.0, 60.0], 50.0), &[34.0; 5], &[&[30.0, 25.0], &[56.0]]),
        with_upper(spec(5, one, &[61.0, 50.0, 50.0, 50.0, 50.0], 30.0), &[60.0, 32.0], &[&[40.0]]),
        with_upper(
            with_extra_primes(spec(6, small, &[50.0, 50.0], 30.0), &[50.0; 3]),
            &[46.0; 3],
            &[&[48.0], &[24.0, 26.0]],
        ),
    ]
}

fn levels(params: &Params) -> impl Iterator<Item = Level> + use<> {
    (0..=params.upper_top().0).map(Level)
}

/// The modulus at `level`.
fn modulus(params: &Params, level: Level) -> BigInt {
    product(&moduli(params.rlwe().basis(), params.rlwe().limbs(level)))
}

/// What rescaling from `level` makes of integers modulo its modulus.
fn rescaled(params: &Params, level: Level, a: &[BigInt]) -> Vec<BigInt> {
    let [before, after] = [level, Level(level.0 - 1)].map(|level| modulus(params, level));
    let one = |x: &BigInt| crate::oracle::rounded(&(centred(x, &before) * &after), &before);
    a.iter().map(one).collect()
}

/// Steps that these tests share.
trait Switching {
    fn at(&self, salt: u64, level: Level) -> Ciphertext;
    fn encrypt(&self, salt: u64) -> Ciphertext;
    fn open(&self, a: &Ciphertext) -> (Vec<BigInt>, BigInt);
    fn open_at(&self, a: &Ciphertext) -> Vec<BigInt>;
    fn error(&self, a: &Ciphertext, expected: &[BigInt]) -> Vec<f64>;
    fn bound(&self, level: Level) -> f64;
    fn bound_with(&self, limbs: LimbSet) -> f64;
}

impl Switching for Session {
    /// At any level: above the top a message modulo `q_0`, raised.
    fn at(&self, salt: u64, level: Level) -> Ciphertext {
        match self.params.rlwe().is_raised(level) {
            true => self.evaluator.mod_raise(&self.encrypt(salt), level).unwrap(),
            false => self.evaluator.drop_to(&self.encrypt(salt), level).unwrap(),
        }
    }

    fn encrypt(&self, salt: u64) -> Ciphertext {
        let values: Vec<_> = (0..self.params.max_slots() as u64)
            .map(|i| (i * i + 3 * salt * i + salt) as f64)
            .map(|x| Complex { re: x.sin(), im: (2.0 * x).cos() })
            .collect();
        let top = self.params.top();
        let scale = self.params.scale_at(top);
        let plain = self.encoder.encode_at(&values, top, scale).unwrap();
        self.encryptor.encrypt_with(&plain, &seed("encryption", salt)).unwrap()
    }

    /// The decryption as integers, and the modulus that it is read at.
    fn open(&self, a: &Ciphertext) -> (Vec<BigInt>, BigInt) {
        let basis = self.params.rlwe().basis();
        let plain = self.decryptor.decrypt(a).unwrap();
        let q = product(&moduli(basis, plain.poly().limbs()));
        (lift_eval(basis, plain.poly()), q)
    }

    /// Same as [`Session::open`], as integers that are small beside the modulus that they are read at.
    fn open_at(&self, a: &Ciphertext) -> Vec<BigInt> {
        let (plain, q) = self.open(a);
        assert!(plain.iter().all(|x| x * 4 < q && x * 4 > -q.clone()));
        plain
    }

    /// `a` less the `expected` integers.
    fn error(&self, a: &Ciphertext, expected: &[BigInt]) -> Vec<f64> {
        let (found, q) = self.open(a);
        found.iter().zip(expected).map(|(x, y)| to_f64(&centred(&(x - y), &q))).collect()
    }

    /// No key switch adds more than this: digits are below `D / 2`, errors at most 21,
    /// and each of two roundings is at most a half.
    fn bound(&self, level: Level) -> f64 {
        self.bound_with(self.params.rlwe().key_limbs(level))
    }

    /// For keys with these primes.
    fn bound_with(&self, limbs: LimbSet) -> f64 {
        let params = self.params.rlwe();
        let n = params.basis().n() as f64;
        let primes = moduli(params.basis(), limbs);
        let log2 = |primes: &[u64]| primes.iter().map(|&q| (q as f64).log2()).sum::<f64>();
        let log2_p = log2(&primes[limbs.q()..]);
        let digits = params.digit_primes_of(limbs).into_iter();
        let digits = digits.map(|owned| (log2(&primes[owned]) - log2_p).exp2() / 2.0);
        n * 21.0 * digits.sum::<f64>() + (1.0 + n) / 2.0
    }
}

/// Errors of many operations: their root mean square is the prediction within
/// half a bit (the secret of so small a ring varies), and none is above the bound.
struct Errors {
    what: String,
    predicted: Noise,
    bound: f64,
    squares: f64,
    count: usize,
}

impl Errors {
    fn new(what: String, s: &Session, level: Level) -> Self {
        let predicted = Noise::key_switch(s.params.rlwe(), level);
        Self { what, predicted, bound: s.bound(level), squares: 0.0, count: 0 }
    }

    fn add(&mut self, errors: &[f64]) {
        for e in errors {
            assert!(e.abs() <= self.bound, "{}: {e} is above {}", self.what, self.bound);
            self.squares += e * e;
        }
        self.count += errors.len();
    }

    fn check(&self) {
        let measured = (self.squares / self.count as f64).log2() / 2.0;
        let predicted = self.predicted.log2_sd();
        assert!(
            (measured - predicted).abs() <= 0.5,
            "{}: 2^{measured:.2} measured, 2^{predicted:.2} predicted",
            self.what
        );
    }
}

#[test]
fn products_are_exact_up_to_the_noise_of_one_key_switch() {
    for (spec, digits) in specs() {
        let top = Level(spec.q_bits.len() as u32 - 1);
        // At the top with a key for the top, and below with keys for two levels.
        for (level, key_level) in [(top, top), (Level(2), top), (Level(1), Level(1))] {
            let mut errors = None;
            for key in 0..12 {
                let s = session(&spec, key, key_level, Level(0));
                assert_eq!(s.params.rlwe().digits(top), digits, "{spec:?}");
                let what = format!("product at level {level} of {spec:?}");
                let errors = errors.get_or_insert_with(|| Errors::new(what, &s, level));
                let ev = &s.evaluator;
                let [a, b] = [1, 2].map(|salt| ev.drop_to(&s.encrypt(salt), level).unwrap());
                let expected = negacyclic(&s.open(&a).0, &s.open(&b).0);
                errors.add(&s.error(&ev.mul(&a, &b).unwrap(), &expected));
                let square = negacyclic(&s.open(&a).0, &s.open(&a).0);
                errors.add(&s.error(&ev.mul(&a, &a).unwrap(), &square));
            }
            errors.unwrap().check();
        }
    }
}

#[test]
fn rotations_are_exact_up_to_the_noise_of_one_key_switch() {
    for (spec, _) in specs() {
        let top = Level(spec.q_bits.len() as u32 - 1);
        for (level, key_level) in [(top, top), (Level(2), top), (Level(1), Level(1))] {
            let s = session(&spec, 20, Level(0), key_level);
            let log_n = s.params.log_n();
            let mut errors =
                Errors::new(format!("rotation at level {level} of {spec:?}"), &s, level);
            let a = s.evaluator.drop_to(&s.encrypt(3), level).unwrap();
            let (plain, _) = s.open(&a);
            for k in 1..s.params.max_slots() as i64 {
                let g = GaloisElement::rotation(log_n, k);
                let rotated = s.evaluator.rotate(&a, k).unwrap();
                errors.add(&s.error(&rotated, &automorphism(&plain, g.0 as usize)));
            }
            let conjugate = s.evaluator.conjugate(&a).unwrap();
            let expected = automorphism(&plain, (2 << log_n) - 1);
            errors.add(&s.error(&conjugate, &expected));
            errors.check();
        }
    }
}

fn same(a: &Ciphertext, b: &Ciphertext) -> bool {
    a.level() == b.level()
        && a.scale().matches(b.scale())
        && a.polys().iter().zip(b.polys()).all(|(a, b)| a.rows().eq(b.rows()))
}

#[test]
fn hoisted_rotations_are_the_same_bit_for_bit() {
    for (spec, _) in specs() {
        let top = Level(spec.q_bits.len() as u32 - 1);
        let s = session(&spec, 30, Level(0), top);
        for level in (0..=top.0).map(Level) {
            let a = s.evaluator.drop_to(&s.encrypt(4), level).unwrap();
            let hoisted = s.evaluator.hoist(&a).unwrap();
            for k in 0..s.params.max_slots() as i64 {
                let plain = s.evaluator.rotate(&a, k).unwrap();
                assert!(same(&plain, &s.evaluator.rotate_hoisted(&hoisted, k).unwrap()));
            }
        }
    }
}

/// Each group adds the noise of a key switch for each of its images and multiplies what there
/// was by their number.
#[test]
fn sums_of_images_are_exact_up_to_the_noise_of_their_key_switches() {
    let rotations = |log_n, steps: &[i64]| -> Vec<_> {
        steps.iter().map(|&k| GaloisElement::rotation(log_n, k)).collect()
    };
    for spec in specs().into_iter().map(|(spec, _)| spec).chain(raised_specs()) {
        let params = Params::new(spec.clone()).unwrap();
        let s = Session::from_seed(params.clone(), &seed("keys", 60), &every_key(&params));
        let log_n = s.params.log_n();
        let conjugates = [GaloisElement(1), GaloisElement::conjugation(log_n)];
        let pair = rotations(log_n, &[3, 5]);
        let triple = rotations(log_n, &[-1, 0, 2]);
        let many = rotations(log_n, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let cases: [&[&[GaloisElement]]; 6] = [
            &[],
            &[&many[1..2]],
            &[&conjugates],
            &[&pair, &triple],
            &[&many, &conjugates, &pair[1..]],
            &[&[GaloisElement(1); 2], &triple],
        ];
        for level in levels(&params) {
            let a = s.at(3, level);
            let one_switch = s.bound_with(used_limbs(&params, level));
            for groups in cases {
                let mut plain = s.open(&a).0;
                let mut bound = 1.0;
                for group in groups {
                    let mut sum = vec![BigInt::from(0); plain.len()];
                    for g in *group {
                        let image = automorphism(&plain, g.0 as usize);
                        sum.iter_mut().zip(image).for_each(|(sum, x)| *sum += x);
                    }
                    plain = sum;
                    bound = group.len() as f64 * (bound + one_switch);
                }
                let found = s.evaluator.sum_automorphisms(&a, groups).unwrap();
                assert_eq!(found.level(), level);
                assert!(found.scale().matches(a.scale()));
                let errors = s.error(&found, &plain);
                assert!(errors.iter().all(|e| e.abs() <= bound), "level {level} of {spec:?}");
            }
        }
    }
}

#[test]
fn sums_of_images_are_refused_without_their_keys() {
    let (spec, _) = specs().swap_remove(0);
    let s = session(&spec, 61, Level(0), Level(1));
    let low = s.evaluator.drop_to(&s.encrypt(1), Level(1)).unwrap();
    let high = s.encrypt(1);
    let group = [GaloisElement(1), GaloisElement::rotation(s.params.log_n(), 3)];
    assert!(s.evaluator.sum_automorphisms(&low, &[&group]).is_ok());
    let missing = s.evaluator.sum_automorphisms(&high, &[&group[..1], &group]).err().unwrap();
    assert!(matches!(missing, Error::MissingGaloisKey { element, level: Level(3), .. }
        if element == group[1]));
    let empty = s.evaluator.sum_automorphisms(&low, &[&group, &[]]).err().unwrap();
    assert!(matches!(empty, Error::Circuit(_)));
    let other = session(&spec, 62, Level(0), Level(1));
    let foreign = other.evaluator.sum_automorphisms(&low, &[&group]).err().unwrap();
    assert!(matches!(foreign, Error::KeyMismatch { .. }));
}

#[test]
fn results_do_not_depend_on_threads() {
    let (spec, _) = specs().swap_remove(4);
    let top = Level(4);
    let run = |threads| {
        par::with_threads(threads, || {
            let s = session(&spec, 31, top, top);
            let a = s.encrypt(1);
            let b = s.encrypt(2);
            let product = s.evaluator.mul_rescale(&a, &b).unwrap();
            let group = [0, 1, 2, 3].map(|k| GaloisElement::rotation(s.params.log_n(), k));
            let sum = s.evaluator.sum_automorphisms(&product, &[&group, &group[1..2]]).unwrap();
            s.evaluator.rotate(&sum, 3).unwrap()
        })
        .unwrap()
    };
    let alone = run(1);
    assert!(same(&alone, &run(2)) && same(&alone, &run(3)));
}

#[test]
fn a_fused_rescaling_is_the_same_bit_for_bit() {
    // Primes of 8 bits would show a difference near ties.
    let tiny = spec(4, &[&[50.0], &[8.0]], &[51.0], 8.0);
    let all = specs().into_iter().map(|(spec, _)| spec).chain(raised_specs());
    for (spec, runs) in all.map(|spec| (spec, 2)).chain([(tiny, 100)]) {
        let params = Params::new(spec.clone()).unwrap();
        let s = Session::from_seed(params.clone(), &seed("keys", 40), &every_key(&params));
        for (level, salt) in
            levels(&params).skip(1).flat_map(|l| (0..runs).map(move |salt| (l, salt)))
        {
            let [a, b] = [salt, salt + 1000].map(|salt| s.at(salt, level));
            let slow = s.evaluator.rescale(&s.evaluator.mul(&a, &b).unwrap()).unwrap();
            let fused = s.evaluator.mul_rescale(&a, &b).unwrap();
            assert!(same(&slow, &fused), "level {level} of {spec:?}");
            let pair = s.evaluator.mul_rescale_many(&[(&a, &b); 2]).unwrap();
            assert!(pair.iter().all(|one| same(one, &fused)));
            // Both divide the product of integers by the primes of the level, or replace them.
            let exact = negacyclic(&s.open(&a).0, &s.open(&b).0);
            let expected = rescaled(&params, level, &exact);
            let bound = s.bound_with(used_limbs(&params, level)) + 1.0;
            assert!(s.error(&fused, &expected).iter().all(|e| e.abs() <= bound));
            let sum = s.evaluator.mul(&b, &b).unwrap();
            let fused = s
                .evaluator
                .mul_sum_rescale(&ProductSum { products: vec![(&a, &b)], addend: Some(&sum) });
            let fused = fused.unwrap();
            let slow = s.evaluator.add(&s.evaluator.mul(&a, &b).unwrap(), &sum).unwrap();
            let slow = s.evaluator.rescale(&slow).unwrap();
            let square = negacyclic(&s.open(&b).0, &s.open(&b).0);
            let exact: Vec<_> = exact.iter().zip(square).map(|(x, y)| x + y).collect();
            let expected = rescaled(&params, level, &exact);
            for found in [slow, fused] {
                assert!(s.error(&found, &expected).iter().all(|e| e.abs() <= 2.0 * bound));
            }
        }
    }
}

#[test]
fn rescaling_is_an_exact_division_of_both_polynomials() {
    for spec in specs().into_iter().map(|(spec, _)| spec).chain(raised_specs()) {
        let s = session(&spec, 50, Level(0), Level(0));
        let basis = s.params.rlwe().basis();
        for level in levels(&s.params).skip(1) {
            let a = s.at(7, level);
            let divided = s.evaluator.rescale(&a).unwrap();
            assert_eq!(divided.level(), Level(level.0 - 1));
            let q = modulus(&s.params, divided.level());
            for (a, divided) in a.polys().iter().zip(divided.polys()) {
                assert_eq!(divided.limbs(), s.params.rlwe().limbs(Level(level.0 - 1)));
                let expected = rescaled(&s.params, level, &lift_eval(basis, a));
                for (expected, found) in expected.iter().zip(lift_eval(basis, divided)) {
                    assert_eq!(found, centred(expected, &q));
                }
            }
            // The decrypted value is off by the roundings of both polynomials, and its scale is
            // divided by the factor of the modulus.
            let expected = rescaled(&s.params, level, &s.open_at(&a));
            let most = 1.0 + basis.n() as f64 / 2.0;
            assert!(s.error(&divided, &expected).iter().all(|e| e.abs() <= most));
            let quotient = to_f64(&modulus(&s.params, level)) / to_f64(&q);
            let ratio = (a.scale() / divided.scale()).to_f64() / quotient;
            assert!((ratio - 1.0).abs() < 1e-12, "level {level} of {spec:?}");
        }
    }
}

/// Level keys for `key_level` at `level`, alone and beside others for the top.
fn check_key_level(params: &Params, key_level: Level, level: Level) {
    let rlwe = params.rlwe();
    let top = params.top();
    let special = rlwe.level_key_limbs(key_level).unwrap().p();
    let level_keys = request(params, key_level, key_level).into_level_keys(rlwe);
    let mut errors = Errors {
        what: format!("level {level} of {key_level}, {:?}", params.spec()),
        predicted: Noise::level_key_switch(rlwe, level, key_level),
        bound: 0.0,
        squares: 0.0,
        count: 0,
    };
    for key in 0..12 {
        let mut keys = level_keys.clone();
        if key % 2 == 1 {
            keys |= request(params, top, top);
        }
        let s = Session::from_seed(params.clone(), &seed("keys", key), &keys);
        errors.bound = s.bound_with(rlwe.limbs(level).with_special(special));
        let ev = &s.evaluator;
        // At a scale whose square fits every level.
        let [a, b] = [1, 2].map(|salt| {
            ev.with_scale(&s.at(salt, level), sudare::ckks::Scale::from_log2(10.0)).unwrap()
        });
        let plain = s.open(&a).0;
        let other = s.open(&b).0;
        let product = ev.mul(&a, &b).unwrap();
        errors.add(&s.error(&product, &negacyclic(&plain, &other)));
        let [pair, again] = ev.mul_many(&[(&a, &b); 2]).unwrap().try_into().unwrap();
        assert!(same(&product, &pair) && same(&product, &again));
        if level > Level(0) {
            let fused = ev.mul_rescale(&a, &b).unwrap();
            assert!(same(&ev.rescale(&product).unwrap(), &fused));
        }
        let hoisted = ev.hoist(&a).unwrap();
        for k in 1..params.max_slots() as i64 {
            let g = GaloisElement::rotation(params.log_n(), k);
            let rotated = ev.rotate(&a, k).unwrap();
            assert_eq!((rotated.level(), rotated.polys()[0].limbs()), (level, rlwe.limbs(level)));
            errors.add(&s.error(&rotated, &automorphism(&plain, g.0 as usize)));
            assert!(same(&rotated, &ev.rotate_hoisted(&hoisted, k).unwrap()));
        }
    }
    errors.check();
}

/// Level keys at every level that they are for.
#[test]
fn level_keys_are_exact_up_to_their_noise() {
    let mut digits = Vec::new();
    for (spec, _) in specs() {
        let params = Params::new(spec.clone()).unwrap();
        let rlwe = params.rlwe();
        let Some(key_level) = levels(&params).filter(|&l| rlwe.level_key_limbs(l).is_some()).last()
        else {
            continue;
        };
        let limbs = rlwe.level_key_limbs(key_level).unwrap();
        assert_ne!(limbs.p(), spec.p_bits.len());
        digits.push((rlwe.digits(key_level), rlwe.digit_primes_of(limbs).len()));
        (0..=key_level.0).for_each(|level| check_key_level(&params, key_level, Level(level)));
    }
    // Fewer special primes with few digits, and more with fewer digits.
    assert!(digits.contains(&(1, 1)) && digits.contains(&(4, 2)), "{digits:?}");
}

/// Upper levels have keys of their own: of each of them and of those above.
#[test]
fn keys_of_raised_levels_are_exact_up_to_their_noise() {
    let mut special = Vec::new();
    for spec in raised_specs() {
        let params = Params::new(spec.clone()).unwrap();
        let rlwe = params.rlwe();
        let lowest = params.top().0 + 1;
        for key_level in lowest..=params.upper_top().0 {
            let p = rlwe.level_key_limbs(Level(key_level)).unwrap().p();
            special.push(p.cmp(&spec.p_bits.len()));
            (lowest..=key_level)
                .for_each(|level| check_key_level(&params, Level(key_level), Level(level)));
        }
    }
    for order in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
        assert!(special.contains(&order), "{special:?}");
    }
}

/// Level keys change nothing above their level.
#[test]
fn other_levels_are_the_same_with_level_keys() {
    let (spec, _) = specs().swap_remove(2);
    let params = Params::new(spec.clone()).unwrap();
    let top = params.top();
    let mut keys = request(&params, top, top);
    let plain = Session::from_seed(params.clone(), &seed("keys", 60), &keys);
    keys |= request(&params, Level(1), Level(1)).into_level_keys(params.rlwe());
    let s = Session::from_seed(params.clone(), &seed("keys", 60), &keys);
    for level in (0..=top.0).map(Level) {
        let results = [&plain, &s].map(|s| {
            let a = s.evaluator.drop_to(&s.encrypt(1), level).unwrap();
            s.evaluator.rotate(&a, 3).unwrap()
        });
        assert_eq!(same(&results[0], &results[1]), level > Level(1), "{level}");
    }
    let low = |threads| {
        let low = s.evaluator.drop_to(&s.encrypt(1), Level(1)).unwrap();
        par::with_threads(threads, || s.evaluator.mul_rescale(&low, &low).unwrap()).unwrap()
    };
    assert!(same(&low(1), &low(2)));
}
