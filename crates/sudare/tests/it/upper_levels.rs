//! Levels above the top of the chain, in slots: what operations make of ciphertexts there, on
//! the way to the top and below it, against the same in the clear.

use crate::common::{Parts, Session, session_with};
use crate::oracle::{centred, lift_eval, moduli, negacyclic, product};
use num_bigint::BigInt;
use std::collections::BTreeMap;
use sudare::{
    circuits::{
        Ops,
        ckks::{ComplexOps as _, LinearPlan, LinearTransform, sim},
    },
    ckks::{
        Ciphertext, Complex, Decryptor, Encoder, Evaluator, Params, ProductSum, Scale, Spec,
        UpperSpec, serial::Label,
    },
    rlwe::{KeyRequest, Level, Raise},
};
use sudare_arith::par;

const LOG_N: u32 = 10;
const TOP: Level = Level(3);
const LOWEST: Level = Level(4);
const HIGHEST: Level = Level(6);
const WEIGHT: u32 = 32;

/// More and larger primes in place of the chain's, one of its levels of two primes, and fewer.
fn specs() -> Vec<Spec> {
    let with = |base_bits: Vec<f64>, levels_bits: Vec<Vec<f64>>| Spec {
        upper: Some(UpperSpec { base_bits, levels_bits }),
        insecure: true,
        extra_p_bits: vec![49.0; 2],
        ..Spec::uniform(LOG_N, 50.0, 3, 40.0, vec![50.5, 50.0])
    };
    vec![
        with(vec![34.0; 5], vec![vec![45.0], vec![22.0, 24.0], vec![45.0]]),
        with(vec![60.0, 60.0, 50.0], vec![vec![25.0, 22.0], vec![50.0], vec![45.0]]),
    ]
}

fn session(spec: &Spec, request: impl Fn(&Params) -> KeyRequest) -> Session {
    session_with(spec.clone(), |params| {
        assert_eq!((params.top(), params.upper_top()), (TOP, HIGHEST));
        let mut keys = request(params).into_level_keys(params.rlwe());
        keys |= KeyRequest::new().raise(Raise::to(HIGHEST).with_weight(WEIGHT));
        keys
    })
}

/// Relinearisation and rotations by each of `steps`, at the top and at every upper level.
fn everywhere(params: &Params, steps: &[i64]) -> KeyRequest {
    let at = |level| KeyRequest::new().relinearize(level).rotations(LOG_N, steps.to_vec(), level);
    let mut keys = at(TOP);
    for level in (LOWEST.0..=HIGHEST.0).map(Level) {
        keys |= at(level).into_level_keys(params.rlwe());
    }
    keys
}

/// A key pair with its evaluator and the owner's tools.
struct Parties {
    params: Params,
    encoder: Encoder,
    evaluator: Evaluator,
    low: [Ciphertext; 2],
    decryptor: Decryptor,
}

impl Parties {
    fn new(s: Session) -> Self {
        Self {
            encoder: Encoder::new(&s.params),
            evaluator: s.evaluator(),
            low: [s.encrypt(s.params.max_slots(), Level(0)), s.encrypt(16, Level(0))],
            decryptor: Decryptor::new(&s.params, s.secret).unwrap(),
            params: s.params,
        }
    }

    fn slots(&self, a: &Ciphertext) -> Vec<Complex<f64>> {
        self.encoder.decode(&self.decryptor.decrypt(a).unwrap()).unwrap()
    }

    /// Of a root mean square near 1: `m + q_0 I`, whose coefficients have a variance of
    /// `q_0^2 (h + 1) / 12`, at such a scale.
    fn raised(&self, which: usize, level: Level) -> Ciphertext {
        let raised = self.evaluator.mod_raise(&self.low[which], level).unwrap();
        let variance = f64::from(WEIGHT + 1) / 12.0;
        let log2_scale =
            self.params.chain().log2_q(Level(0)) + variance.log2() / 2.0 + f64::from(LOG_N) / 2.0;
        self.evaluator.with_scale(&raised, Scale::from_log2(log2_scale)).unwrap()
    }

    /// The same at any level, of the chain by a product with 1 that changes the primes.
    fn at(&self, which: usize, level: Level) -> Ciphertext {
        if self.params.rlwe().is_raised(level) {
            return self.raised(which, level);
        }
        let raised = self.raised(which, LOWEST);
        let one = Complex { re: 1.0, im: 0.0 };
        let divisor = self.params.chain().divisor(LOWEST);
        let product = self.evaluator.mul_const(&raised, one, divisor).unwrap();
        self.evaluator.drop_to(&self.evaluator.rescale(&product).unwrap(), level).unwrap()
    }

    /// Bits of precision of the largest error.
    fn bits(&self, a: &Ciphertext, expected: &[Complex<f64>]) -> f64 {
        let found = self.slots(a);
        assert_eq!(found.len(), expected.len());
        let errors = found.iter().zip(expected).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
        -errors.fold(0.0, f64::max).log2()
    }

    fn modulus(&self, level: Level) -> BigInt {
        let rlwe = self.params.rlwe();
        product(&moduli(rlwe.basis(), rlwe.limbs(level)))
    }
}

/// `2^300 scale`, exactly.
fn exact(scale: Scale) -> BigInt {
    let part = |x: f64| {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i32 - 1075;
        let mantissa = BigInt::from((bits & ((1 << 52) - 1)) | 1 << 52);
        assert!(x == 0.0 || exponent > -300);
        let value = if x == 0.0 { BigInt::ZERO } else { mantissa << (300 + exponent) as u32 };
        if x < 0.0 { -value } else { value }
    };
    let (hi, lo) = scale.into();
    part(hi) + part(lo)
}

/// Whether `a / b` is 1 up to `2^-95`.
fn near(a: &BigInt, b: &BigInt) -> bool {
    let difference = (a - b) << 95u32;
    difference <= *b && -difference <= *b
}

fn rotated(x: &[Complex<f64>], k: usize) -> Vec<Complex<f64>> {
    let mut x = x.to_vec();
    x.rotate_left(k);
    x
}

fn zip(
    x: &[Complex<f64>],
    y: &[Complex<f64>],
    f: impl Fn(Complex<f64>, Complex<f64>) -> Complex<f64>,
) -> Vec<Complex<f64>> {
    x.iter().zip(y).map(|(&x, &y)| f(x, y)).collect()
}

/// `c_0 + c_1 s` by integers, with the coefficients of the secret from its file.
#[test]
fn decryption_is_by_the_secret_modulo_the_primes_of_the_level() {
    for spec in specs() {
        let s = session(&Spec { log_n: 8, ..spec }, |_| KeyRequest::new());
        let file = Parts::of(&s.secret_file(&Label::default()));
        let code = |i: usize| file.sections[0][i / 4] >> (2 * (i % 4)) & 3;
        let secret: Vec<_> =
            (0..256).map(|i| BigInt::from([0, 1, 2, -1][code(i) as usize])).collect();
        let low = s.encrypt(128, Level(0));
        let ev = s.evaluator();
        let params = s.params.clone();
        let raised: Vec<_> = (LOWEST.0..=HIGHEST.0)
            .map(|level| ev.mod_raise(&low, Level(level)).unwrap())
            .chain([ev.rescale(&ev.mod_raise(&low, LOWEST).unwrap()).unwrap(), low.clone()])
            .collect();
        let decryptor = Decryptor::new(&params, s.secret).unwrap();
        let basis = params.rlwe().basis();
        for a in raised {
            let [c0, c1] = a.polys().each_ref().map(|poly| lift_eval(basis, poly));
            assert_eq!(a.polys()[0].limbs(), params.rlwe().limbs(a.level()));
            let q = product(&moduli(basis, a.polys()[0].limbs()));
            let sum =
                negacyclic(&c1, &secret).into_iter().zip(c0).map(|(x, y)| centred(&(x + y), &q));
            let plain = decryptor.decrypt(&a).unwrap();
            assert_eq!(params.rlwe().is_raised(plain.level()), params.rlwe().is_raised(a.level()));
            assert!(sum.eq(lift_eval(basis, plain.poly())), "level {}", a.level());
        }
    }
}

#[test]
fn a_circuit_from_the_highest_level_down_is_that_in_the_clear() {
    for spec in specs() {
        let p = Parties::new(session(&spec, |params| everywhere(params, &[1, 5])));
        let ev = &p.evaluator;
        let mut a = p.raised(0, HIGHEST);
        let mut x = p.slots(&a);
        let size = x.iter().map(|z| z.re * z.re + z.im * z.im).sum::<f64>() / x.len() as f64;
        assert!((0.5..2.0).contains(&size), "{size}");
        for level in (2..=HIGHEST.0).rev().map(Level) {
            assert_eq!((a.level(), a.polys()[0].limbs()), (level, p.params.rlwe().limbs(level)));
            let half = Complex { re: 0.5, im: 0.0 };
            let turned = ev.rotate(&a, 5).unwrap();
            let y = rotated(&x, 5);
            assert!(p.bits(&turned, &y) > 35.0, "rotation at level {level}");
            let hoisted = ev.hoist(&a).unwrap();
            let again = ev.rotate_hoisted(&hoisted, 5).unwrap();
            assert!(again.polys().iter().zip(turned.polys()).all(|(a, b)| a.rows().eq(b.rows())));
            let sum =
                ev.add(&ev.sub(&a, &turned).unwrap(), &ev.rotate_hoisted(&hoisted, 1).unwrap());
            let sum = sum.unwrap();
            let sums = zip(&zip(&x, &y, |x, y| x - y), &rotated(&x, 1), |x, y| x + y);
            assert!(p.bits(&sum, &sums) > 35.0, "sum at level {level}");
            let unit = p.params.chain().divisor(level);
            let sum = ev.mul_const(&sum, half, unit).unwrap();
            let sums: Vec<_> = sums.iter().map(|&x| x * half).collect();
            assert!(p.bits(&sum, &sums) > 35.0, "constant at level {level}");
            let rescaled = ev.rescale(&sum).unwrap();
            let bits = p.bits(&rescaled, &sums);
            assert!(bits > 35.0, "rescaled from level {level}: {bits}");
            // The scale is divided by the quotient of moduli, exactly.
            assert!(rescaled.scale().matches(a.scale()));
            let below = Level(level.0 - 1);
            let [before, after] = [level, below].map(|level| p.modulus(level));
            assert!(near(&(exact(rescaled.scale()) * &before), &(exact(sum.scale()) * &after)));
            let matched = ev.match_scale(&a, below, p.params.scale_at(TOP)).unwrap();
            assert_eq!((matched.level(), matched.scale()), (below, p.params.scale_at(TOP)));
            assert!(p.bits(&matched, &x) > 24.0, "matched at level {below}");
            (a, x) = (rescaled, sums);
        }
        assert_eq!(a.level(), Level(1));
    }
}

#[test]
fn products_at_every_level_are_those_in_the_clear() {
    for spec in specs() {
        let p = Parties::new(session(&spec, |params| everywhere(params, &[1])));
        let ev = &p.evaluator;
        for level in (2..=HIGHEST.0).map(Level) {
            let a = p.at(0, level);
            let b = ev.rotate(&a, 1).unwrap();
            let x = p.slots(&a);
            let y = p.slots(&b);
            let check = |found: &Ciphertext, expected: &[Complex<f64>], what: &str| {
                let bits = p.bits(found, expected);
                assert!(bits > 36.0, "{what} at level {level}: {bits} bits");
            };
            let products = zip(&x, &y, |x, y| x * y);
            let c = ev.mul(&b, &b).unwrap();
            let sums = zip(&products, &y, |xy, y| xy + y * y);
            let with_addend = ProductSum { products: vec![(&a, &b)], addend: Some(&c) };
            let of_two = ProductSum { products: vec![(&a, &b), (&b, &b)], addend: None };
            let found = [
                ("mul", ev.mul(&a, &b).unwrap(), &products),
                ("mul_rescale", ev.mul_rescale(&a, &b).unwrap(), &products),
                ("mul_sum_rescale", ev.mul_sum_rescale(&with_addend).unwrap(), &sums),
                ("mul_sum_rescale of two", ev.mul_sum_rescale(&of_two).unwrap(), &sums),
            ];
            let before = exact(a.scale()) * exact(b.scale());
            let [q, below] = [level, Level(level.0 - 1)].map(|level| p.modulus(level));
            for (what, found, expected) in &found {
                check(found, expected, what);
                let (numerator, denominator) = match found.level() == level {
                    true => (BigInt::from(1), BigInt::from(1)),
                    false => (below.clone(), q.clone()),
                };
                let scale = (exact(found.scale()) * denominator) << 300u32;
                assert!(near(&scale, &(&before * numerator)), "{what} at level {level}");
            }
        }
    }
}

fn matrix(log_slots: u32, offsets: &[i64]) -> LinearTransform {
    let slots = 1i64 << log_slots;
    let value = |k: i64, i: i64| {
        let t = (3 * k + 1) as f64 * 0.37 + i as f64 * 0.7;
        Complex { re: t.sin(), im: (1.3 * t).cos() }
    };
    let diagonal = |&k: &i64| {
        (k.rem_euclid(slots) as usize, (0..slots).map(|i| value(k, i)).collect::<Vec<_>>())
    };
    let diagonals: BTreeMap<_, _> = offsets.iter().map(diagonal).collect();
    LinearTransform::new(log_slots, diagonals).unwrap()
}

/// One diagonal, one stage, several stages, and few slots.
fn shapes() -> Vec<(u32, Vec<i64>)> {
    let full = LOG_N - 1;
    vec![(full, vec![3]), (full, vec![0, 1, 3]), (full, (-9..14).collect()), (4, (0..16).collect())]
}

fn plan(params: &Params, matrix: &LinearTransform, level: Level, scale: Scale) -> LinearPlan {
    matrix.plan(LOG_N, params.chain(), level, scale, scale).unwrap()
}

/// Of the operands of matrices.
const LOG2_SCALE: f64 = 56.0;

#[test]
fn matrices_at_every_level_are_those_in_the_clear() {
    for spec in specs() {
        for (log_slots, offsets) in shapes() {
            let matrix = matrix(log_slots, &offsets);
            for (level, key_level) in [
                (HIGHEST, HIGHEST),
                (LOWEST, LOWEST),
                (LOWEST, HIGHEST),
                (TOP, TOP),
                (Level(2), TOP),
            ] {
                let scale = Scale::from_log2(LOG2_SCALE);
                let request = |params: &Params| {
                    let plan = plan(params, &matrix, level, scale);
                    let elements = plan.required_keys().galois.keys();
                    let keys = KeyRequest {
                        galois: elements.map(|&g| (g, key_level)).collect(),
                        ..KeyRequest::new()
                    };
                    keys.into_level_keys(params.rlwe())
                };
                let s = session(&spec, request);
                let keys = request(&s.params);
                let p = Parties::new(s);
                let plan = plan(&p.params, &matrix, level, scale);
                let level_keys = keys.level_keys.keys().next();
                let there = p.params.rlwe().level_key_limbs(key_level).is_some();
                assert_eq!(level_keys.is_some(), there);
                products_are_those_in_the_clear(&p, &plan, level_keys.copied());
                the_simulator_uses(&p, &plan, &keys);
            }
        }
    }
}

/// Of one ciphertext at the level of the plan, and of one above it.
fn products_are_those_in_the_clear(p: &Parties, plan: &LinearPlan, level_keys: Option<Level>) {
    let ev = &p.evaluator;
    let rlwe = p.params.rlwe();
    let level = plan.level();
    let matrix = matrix_of(plan);
    let scale = Scale::from_log2(LOG2_SCALE);
    let weights = ev.prepare(plan).unwrap();
    let special = level_keys
        .map_or(rlwe.spec().p.len(), |key_level| rlwe.level_key_limbs(key_level).unwrap().p());
    let row = rlwe.basis().packed_bytes(rlwe.limbs(level).with_special(special));
    // Residues of 2^4 slots repeat 32 times, in groups of eight.
    let repeats = if matrix.log_slots() == 4 { 2 } else { 0 };
    assert_eq!(weights.bytes(), (plan.weights() as u64 * row) >> repeats);

    let which = usize::from(matrix.log_slots() == 4);
    let above = if rlwe.is_raised(level) { HIGHEST } else { TOP };
    let inputs = [level, above].map(|at| p.at(which, at));
    let inputs = inputs.map(|a| ev.with_scale(&a, scale).unwrap());
    let inputs = inputs.each_ref();
    let found = ev.transform_many(&inputs, &weights).unwrap();
    for (a, found) in inputs.iter().zip(&found) {
        let x = p.slots(a);
        assert_eq!(found.level(), plan.output_level());
        assert_eq!(found.polys()[0].limbs(), rlwe.limbs(plan.output_level()));
        assert!(found.scale().matches(plan.output_scale()));
        let largest = x.iter().map(|z| z.re.hypot(z.im)).fold(0.0, f64::max).log2();
        let bits = p.bits(found, &matrix.apply(&x)) + largest;
        let offsets: Vec<_> = matrix.diagonals().keys().collect();
        assert!(bits > 30.0, "{offsets:?} {level} {level_keys:?}: {bits} bits");
        let alone = par::with_threads(1, || ev.transform(a, &weights).unwrap()).unwrap();
        let same = |(a, b): (&_, &_)| rows(a) == rows(b);
        assert!(alone.polys().iter().zip(found.polys()).all(same));
    }
}

/// The matrix of a plan, with all diagonals.
fn matrix_of(plan: &LinearPlan) -> LinearTransform {
    let of = plan.diagonals();
    let diagonal = |k| (k, of.diagonal(k).unwrap().into_owned());
    let diagonals = of.offsets().into_iter().map(diagonal).collect();
    LinearTransform::new(of.log_slots(), diagonals).unwrap()
}

fn the_simulator_uses(p: &Parties, plan: &LinearPlan, keys: &KeyRequest) {
    let e = sim::Evaluator::new(LOG_N, p.params.chain().clone());
    let e = e.with_level_keys(keys).with_ephemeral_secret(WEIGHT);
    let x = vec![Complex { re: 0.5, im: 0.25 }; 1 << plan.diagonals().log_slots()];
    let a = e.encrypt(&x, Level(0), Scale::from_log2(40.0)).unwrap();
    let mut a = e.mod_raise(&a, HIGHEST, None).unwrap();
    if !p.params.rlwe().is_raised(plan.level()) {
        for _ in TOP.0..HIGHEST.0 {
            e.rescale_assign(&mut a).unwrap();
        }
    }
    let a = e.with_scale(&a, Scale::from_log2(LOG2_SCALE)).unwrap();
    let product = e.transform(&a, plan).unwrap();
    assert_eq!(product.level, plan.output_level());
    assert_eq!(e.used_keys().level_keys, keys.level_keys);
}

fn rows(poly: &sudare::ring::RnsPoly<sudare::ring::Eval>) -> Vec<u64> {
    poly.rows().flatten().copied().collect()
}

/// A matrix applied while the ciphertext comes back from the ephemeral secret, to a raised
/// level and across the change of primes.
#[test]
fn matrices_of_what_is_raised_are_those_in_the_clear() {
    for spec in specs() {
        for (log_slots, offsets) in shapes() {
            let matrix = matrix(log_slots, &offsets);
            let which = usize::from(log_slots == 4);
            let scale = Scale::from_log2(40.0);
            for level in [LOWEST, HIGHEST] {
                let planned = |params: &Params| {
                    let chain = params.chain();
                    matrix
                        .plan_raised(LOG_N, chain, Raise::to(level).with_weight(WEIGHT), [scale; 2])
                        .unwrap()
                };
                let p =
                    Parties::new(session(&spec, |params| planned(params).required_keys().clone()));
                let ev = &p.evaluator;
                let plan = planned(&p.params);
                let weights = ev.prepare(&plan).unwrap();
                let low = ev.with_scale(&p.low[which], scale).unwrap();
                let found = ev.raise_transform(&low, &weights).unwrap();
                assert_eq!(found.level(), Level(level.0 - 1));
                assert_eq!(found.polys()[0].limbs(), p.params.rlwe().limbs(found.level()));
                assert!(found.scale().matches(scale));
                let x = p.slots(&ev.mod_raise(&low, level).unwrap());
                let largest = x.iter().map(|z| z.re.hypot(z.im)).fold(0.0, f64::max).log2();
                let bits = p.bits(&found, &matrix.apply(&x)) + largest;
                assert!(bits > 30.0, "{log_slots} {offsets:?} {level}: {bits} bits");
            }
        }
    }
}

/// The levels below the top are what they are without others above, bit for bit.
#[test]
fn the_chain_is_the_same_without_levels_above() {
    let with = specs().swap_remove(0);
    let without = Spec { upper: None, ..with.clone() };
    let keys = |_: &Params| KeyRequest::new().relinearize(TOP).rotations(LOG_N, [1], TOP);
    let [a, b] = [with, without].map(|spec| {
        let s = session_with(spec, keys);
        let ev = s.evaluator();
        let a = s.encrypt(s.params.max_slots(), TOP);
        assert_eq!(a.scale(), s.params.scale_at(TOP));
        let turned = ev.rotate(&ev.mul_rescale(&a, &a).unwrap(), 1).unwrap();
        let primes = s.params.rlwe().spec().q.clone();
        (primes, turned.polys().each_ref().map(rows), <(f64, f64)>::from(turned.scale()))
    });
    assert_eq!(a, b);
}
