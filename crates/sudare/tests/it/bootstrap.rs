//! Bootstrapping on small rings, against the decrypted input.

use crate::session::Session;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use sudare::{
    Error,
    circuits::ckks::{
        Complex, EvalModSpec, ModMethod,
        bootstrap::{
            BootstrapPlan, BootstrapSpec, Bootstrapper, Order, Refinement, Stage, Values,
            log2_failure, preset, presets,
        },
        sim,
    },
    ckks::{Ciphertext, Evaluator, Params, Scale, Spec, UpperSpec},
    rlwe::{GaloisElement, KeyGenerator, KeyRequest, Level, LevelKeys, Raise, SecretDistribution},
};
use sudare_arith::{
    par,
    prng::{Seed, Stream},
};

const LOG_N: u32 = 10;
const USABLE: usize = 3;
const COSINE: ModMethod = ModMethod::Cosine { degree: 28, double_angles: 3 };
const EXPONENTIAL: ModMethod = ModMethod::Exponential { degree: 15, squarings: 6 };

/// Complex slots, corrected before the cosine.
fn standard(log_slots: u32) -> BootstrapSpec {
    let eval_mod = EvalModSpec { k: 14, log2_ratio: 7.0, method: COSINE, inverse_sine: None };
    BootstrapSpec {
        log_slots: LOG_N - 1,
        order: Order::SlotsToCoeffsFirst,
        values: Values::Complex,
        ephemeral_weight: Some(32),
        coeffs_to_slots: vec![3, 3, 3],
        slots_to_coeffs: vec![5, 4],
        eval_mod,
        correction: true,
        refinement: None,
    }
    .with_log_slots(log_slots)
}

/// A chain like those of the presets, with the levels that `spec` needs.
fn params_for(spec: &BootstrapSpec, secret: SecretDistribution) -> Params {
    let slots_first = spec.order == Order::SlotsToCoeffsFirst;
    // Inputs of a refined bootstrapping have a larger scale than those of a single one.
    let (scale, single) = if spec.refinement.is_some() { (58.0, 38.5) } else { (37.0, 37.0) };
    let maps = [&spec.coeffs_to_slots, &spec.slots_to_coeffs].map(|layers| layers.len().max(1));
    let low = if slots_first { maps[1] + 2 * usize::from(spec.correction) } else { 0 };
    let last = if slots_first { 1 } else { maps[1] };
    let usable = if spec.refinement.is_some() { vec![29.0; 2] } else { vec![37.0] };
    let q_bits = [
        vec![vec![single + spec.eval_mod.log2_ratio]; 1],
        vec![vec![single]; low],
        vec![usable.clone(); USABLE],
        vec![if spec.refinement.is_some() { vec![49.6] } else { usable }; last],
        vec![vec![49.6]; maps[0] + spec.eval_mod.depth().unwrap() as usize],
    ];
    let uniform = Spec::uniform(LOG_N, 0.0, 0, scale, vec![49.65; 6]);
    Params::new(Spec { q_bits: q_bits.concat(), secret, insecure: true, ..uniform }).unwrap()
}

fn seed(label: &str, index: u64) -> Seed {
    Seed::from_bytes([9; 32]).derive(label, index)
}

fn random(values: Values, slots: usize, salt: u64) -> Vec<Complex<f64>> {
    let mut stream = Stream::new(&seed("values", salt), "bootstrap test", 0);
    let mut unit = || (stream.next_u64() as i64) as f64 / 2f64.powi(63);
    let mut value = || match values {
        Values::Complex => Complex::new(unit(), unit()),
        Values::Real => Complex::new(unit(), 0.0),
    };
    (0..slots).map(|_| value()).collect()
}

struct Setup {
    plan: BootstrapPlan,
    session: Session,
    bootstrapper: Bootstrapper<Evaluator>,
}

impl Setup {
    fn new(spec: &BootstrapSpec) -> Self {
        Self::with(spec, params_for(spec, SecretDistribution::UniformTernary))
    }

    fn with(spec: &BootstrapSpec, params: Params) -> Self {
        let plan = spec.plan(&params, params.upper_top()).unwrap();
        let session = Session::from_seed(params, &seed("keys", 0), plan.required_keys());
        let bootstrapper = plan.prepare(&session.evaluator).unwrap();
        Self { plan, session, bootstrapper }
    }

    fn encrypt(&self, level: Level, salt: u64) -> Ciphertext {
        let spec = self.plan.spec();
        self.encrypt_values(&random(spec.values, 1 << spec.log_slots, salt), level, salt)
    }

    fn encrypt_values(&self, values: &[Complex<f64>], level: Level, salt: u64) -> Ciphertext {
        let s = &self.session;
        let plain = s.encoder.encode_at(values, level, s.params.scale_at(level)).unwrap();
        s.encryptor.encrypt_with(&plain, &seed("encryption", salt)).unwrap()
    }

    fn open(&self, a: &Ciphertext) -> Vec<Complex<f64>> {
        let s = &self.session;
        let mut values = s.encoder.decode(&s.decryptor.decrypt(a).unwrap()).unwrap();
        if self.plan.spec().values == Values::Real {
            values.iter_mut().for_each(|z| z.im = 0.0);
        }
        values
    }

    fn run(&self, a: &Ciphertext) -> Ciphertext {
        self.bootstrapper.run(&self.session.evaluator, a).unwrap()
    }

    /// `-log2` of the mean and of the largest error.
    fn bits(&self, found: &Ciphertext, expected: &Ciphertext) -> (f64, f64) {
        let found = self.open(found);
        let expected = self.open(expected);
        assert_eq!(found.len(), expected.len());
        let errors = found.iter().zip(&expected).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
        let errors: Vec<f64> = errors.collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        (-mean.log2(), -errors.iter().fold(0.0, |most: f64, &x| most.max(x)).log2())
    }
}

/// The five ways to reduce: method, degree of the inverse sine, correction.
const WAYS: [(ModMethod, Option<usize>, bool); 5] = [
    (COSINE, None, false),
    (COSINE, None, true),
    (COSINE, Some(3), false),
    (EXPONENTIAL, None, false),
    (EXPONENTIAL, Some(3), false),
];

const LOG_SLOTS: [u32; 5] = [LOG_N - 1, LOG_N - 2, 4, 1, 0];

fn spec(order: Order, values: Values, way: usize, log_slots: u32) -> BootstrapSpec {
    let (method, inverse_sine, correction) = WAYS[way];
    let mut spec = standard(log_slots);
    (spec.order, spec.values, spec.correction) = (order, values, correction);
    (spec.eval_mod.method, spec.eval_mod.inverse_sine) = (method, inverse_sine);
    spec
}

/// `-log2` of the largest error that each choice has in 16 slots or more, for each number of
/// [`LOG_SLOTS`]. The sine alone leaves 11.3 bits of messages of 1. With CoeffsToSlots first,
/// messages are smaller for many slots, errors of all coefficients add up in the slots, and
/// those that the cosine has in common most of all.
#[rustfmt::skip]
const PRECISIONS: [(Order, Values, usize, [f64; 5]); 18] = [
    (Order::SlotsToCoeffsFirst, Values::Complex, 0, [10.9, 10.9, 11.5, 11.4, 11.4]),
    (Order::SlotsToCoeffsFirst, Values::Complex, 1, [20.7, 20.8, 21.4, 21.3, 21.5]),
    (Order::SlotsToCoeffsFirst, Values::Complex, 2, [23.0, 23.2, 23.4, 23.5, 23.5]),
    (Order::SlotsToCoeffsFirst, Values::Complex, 3, [10.9, 10.9, 11.5, 11.4, 11.4]),
    (Order::SlotsToCoeffsFirst, Values::Complex, 4, [23.9, 23.9, 24.1, 24.1, 24.5]),
    (Order::SlotsToCoeffsFirst, Values::Real, 0, [11.3, 11.3, 13.0, 11.8, 11.8]),
    (Order::SlotsToCoeffsFirst, Values::Real, 1, [21.0, 21.1, 23.2, 22.1, 22.0]),
    (Order::SlotsToCoeffsFirst, Values::Real, 2, [23.4, 23.4, 24.1, 23.6, 23.5]),
    (Order::SlotsToCoeffsFirst, Values::Real, 3, [11.3, 11.3, 13.0, 11.8, 11.8]),
    (Order::SlotsToCoeffsFirst, Values::Real, 4, [24.2, 24.2, 24.7, 24.7, 24.6]),
    (Order::CoeffsToSlotsFirst, Values::Complex, 0, [17.1, 17.9, 14.9, 11.7, 11.4]),
    (Order::CoeffsToSlotsFirst, Values::Complex, 2, [17.1, 17.9, 22.0, 23.2, 23.5]),
    (Order::CoeffsToSlotsFirst, Values::Complex, 3, [19.1, 17.9, 14.9, 11.7, 11.4]),
    (Order::CoeffsToSlotsFirst, Values::Complex, 4, [21.7, 22.1, 24.8, 24.3, 24.4]),
    (Order::CoeffsToSlotsFirst, Values::Real, 0, [17.2, 18.6, 18.4, 13.0, 11.8]),
    (Order::CoeffsToSlotsFirst, Values::Real, 2, [17.3, 18.3, 21.5, 23.8, 23.5]),
    (Order::CoeffsToSlotsFirst, Values::Real, 3, [19.9, 19.1, 18.3, 13.0, 11.8]),
    (Order::CoeffsToSlotsFirst, Values::Real, 4, [21.2, 22.2, 24.6, 24.6, 24.6]),
];

#[test]
fn every_choice_gives_its_input_back() {
    for (order, values, way, expected) in PRECISIONS {
        for (log_slots, expected) in LOG_SLOTS.into_iter().zip(expected) {
            let s = Setup::new(&spec(order, values, way, log_slots));
            let name = format!("{order:?} {values:?} {:?} 2^{log_slots}", WAYS[way]);
            assert_eq!(s.plan.usable_levels(), s.plan.output_level().0 - s.plan.input_level().0);
            // The error of a single slot is not meaningful.
            let inputs = 1..=(16 >> log_slots).max(1);
            let least = inputs.fold(f64::INFINITY, |least, seed| {
                let a = s.encrypt(s.plan.input_level(), seed);
                let b = s.run(&a);
                assert_eq!(b.level(), s.plan.output_level(), "{name}");
                assert!(b.scale().matches(s.session.params.scale_at(b.level())), "{name}");
                let (_, most) = s.bits(&b, &a);
                least.min(most)
            });
            assert!(least > expected - 0.6, "{name}: {least:.2} bits");
        }
    }
}

/// The keys that the simulator uses are those of the plan, and its values come back.
#[test]
fn the_simulator_uses_the_planned_keys() {
    for (order, values, way, _) in PRECISIONS {
        for log_slots in LOG_SLOTS {
            let spec = spec(order, values, way, log_slots);
            let rounds = Some(Refinement { rounds: 2, gain_bits: 8 });
            for refinement in [None, rounds].into_iter().take(1 + usize::from(log_slots == 4)) {
                let spec = BootstrapSpec { refinement, ..spec.clone() };
                let params = params_for(&spec, SecretDistribution::UniformTernary);
                let plan = spec.plan(&params, params.upper_top()).unwrap();
                let e = sim::Evaluator::new(LOG_N, params.chain().clone());
                let e = e.with_ephemeral_secret(32).with_level_keys(plan.required_keys());
                let x = random(values, 1 << log_slots, 1);
                let a = e.encrypt(&x, plan.input_level(), plan.input_scale()).unwrap();
                let b = plan.prepare(&e).unwrap().run(&e, &a).unwrap();
                assert_eq!(e.used_keys(), *plan.required_keys(), "{spec:?}");
                assert_eq!(b.level, plan.output_level());
                let error = x.iter().zip(&b.slots).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
                let bits = -error.fold(0.0, f64::max).log2();
                let least = if WAYS[way].1.is_some() || WAYS[way].2 { 14.9 } else { 10.0 };
                assert!(bits > least, "{spec:?}: {bits:.1} bits");
            }
        }
    }
}

/// What happens to a bootstrapping of one ciphertext with fewer keys than its plan asks for.
struct FewerKeys {
    setup: Setup,
    input: Ciphertext,
    all: KeyRequest,
}

impl FewerKeys {
    fn of(spec: &BootstrapSpec) -> Self {
        let setup = Setup::new(spec);
        let input = setup.encrypt(setup.plan.input_level(), 1);
        let all = setup.plan.required_keys().clone();
        Self { setup, input, all }
    }

    fn fails(&self, request: &KeyRequest) -> Error {
        let params = self.setup.session.params.clone();
        let other = Session::from_seed(params, &seed("keys", 0), request);
        self.setup.bootstrapper.run(&other.evaluator, &self.input).unwrap_err()
    }

    #[track_caller]
    fn lacks(&self, request: &KeyRequest, g: GaloisElement) {
        let error = self.fails(request);
        let missing = matches!(error, Error::MissingGaloisKey { element, .. } if element == g);
        assert!(missing, "{error}");
    }

    fn automorphisms(&self) {
        for &g in self.all.galois.keys() {
            let mut request = self.all.clone();
            let level = request.galois.remove(&g).unwrap();
            self.lacks(&request, g);
            // And at the same level.
            self.lacks(&request.automorphism(g, Level(level.0 - 1)), g);
        }
    }

    fn automorphisms_of_levels(&self) {
        for (&key_level, keys) in &self.all.level_keys {
            for &g in &keys.galois {
                let mut request = self.all.clone();
                let level_keys = request.level_keys.get_mut(&key_level).unwrap();
                level_keys.galois.remove(&g);
                if *level_keys == LevelKeys::default() {
                    request.level_keys.remove(&key_level);
                }
                // Matrices use all keys of one place, the others use the existing keys.
                let mut higher = request.level_keys.range(key_level..).map(|(_, keys)| keys);
                if g.0 % 4 == 1 || !higher.any(|keys| keys.galois.contains(&g)) {
                    self.lacks(&request, g);
                }
            }
        }
    }

    fn relinearization(&self) {
        let all = &self.all;
        let relinearizing = all.level_keys.iter().filter(|(_, keys)| keys.relinearize);
        let highest =
            relinearizing.map(|(&key_level, _)| key_level).max().max(all.relinearize).unwrap();
        let mut request = all.clone();
        request.relinearize = None;
        if let Some(keys) = request.level_keys.get_mut(&highest) {
            keys.relinearize = false;
        }
        request.level_keys.retain(|_, keys| *keys != LevelKeys::default());
        for below in [None, Some(Level(highest.0 - 1))] {
            let error = self.fails(&KeyRequest { relinearize: below, ..request.clone() });
            assert!(matches!(error, Error::MissingRelinearizationKey { .. }), "{error}");
        }
    }

    fn raising(&self) {
        let all = &self.all;
        for &g in &all.raised {
            let mut request = all.clone();
            request.raised.remove(&g);
            self.lacks(&request, g);
        }
        let raise = |raise: Option<Raise>| {
            let raised = raise.iter().flat_map(|_| all.raised.clone()).collect();
            self.fails(&KeyRequest { raise, raised, ..all.clone() })
        };
        let none = Error::EphemeralSecretMismatch { found: None, needed: 32 };
        assert_eq!(raise(None), none);
        assert!(none.to_string().contains("KeyRequest"), "{none}");
        let top = self.setup.session.params.upper_top();
        let denser = Error::EphemeralSecretMismatch { found: Some(33), needed: 32 };
        assert_eq!(raise(Some(Raise::to(top).with_weight(33))), denser);
        let low = Level(top.0 - 1);
        let low_key = Error::MissingRaisingKey { level: top, found: Some(low) };
        assert_eq!(raise(Some(Raise::to(low))), low_key);
    }
}

#[test]
fn every_key_is_needed() {
    for spec in [
        spec(Order::SlotsToCoeffsFirst, Values::Complex, 1, 4),
        spec(Order::CoeffsToSlotsFirst, Values::Real, 4, 3),
        spec(Order::SlotsToCoeffsFirst, Values::Complex, 3, LOG_N - 1),
    ] {
        let fewer = FewerKeys::of(&spec);
        fewer.automorphisms();
        fewer.automorphisms_of_levels();
        fewer.relinearization();
        fewer.raising();
    }
}

/// Raising under the main secret, and through denser ephemeral ones.
#[test]
fn other_secrets() {
    let dense = SecretDistribution::UniformTernary;
    for (secret, ephemeral_weight, weight, k, degree) in [
        (SecretDistribution::FixedWeight { h: 32 }, None, 32, 14, 28),
        (SecretDistribution::FixedWeight { h: 64 }, None, 64, 22, 40),
        (dense, Some(64), 64, 22, 40),
        (dense, Some(16), 16, 8, 22),
    ] {
        let mut spec = BootstrapSpec { ephemeral_weight, ..standard(LOG_N - 1) };
        spec.eval_mod.k = k;
        spec.eval_mod.method = ModMethod::Cosine { degree, double_angles: 3 };
        let s = Setup::with(&spec, params_for(&spec, secret));
        assert_eq!(s.plan.required_keys().raise.map(|raise| raise.weight), ephemeral_weight);
        assert_eq!(s.plan.log2_failure(weight), log2_failure(weight, k, 1 << LOG_N));
        let a = s.encrypt(s.plan.input_level(), 1);
        let (mean, most) = s.bits(&s.run(&a), &a);
        assert!(most > 20.5, "{secret:?} {ephemeral_weight:?}: {most:.2} bits, mean {mean:.2}");
    }
}

/// Of few slots.
static SMALL: LazyLock<Setup> = LazyLock::new(|| Setup::new(&standard(4)));

#[test]
fn inputs_may_be_at_any_level_from_the_input_level_on() {
    let s = &*SMALL;
    let highest = s.session.params.upper_top();
    for level in (s.plan.input_level().0..=highest.0).map(Level) {
        let a = s.encrypt(level, u64::from(level.0));
        let (_, most) = s.bits(&s.run(&a), &a);
        assert!(most > 20.6, "{level}: {most:.2} bits");
    }
}

fn same(a: &Ciphertext, b: &Ciphertext) -> bool {
    a.level() == b.level() && a.polys().iter().zip(b.polys()).all(|(a, b)| a.rows().eq(b.rows()))
}

#[test]
fn bits_do_not_depend_on_threads_or_company() {
    let s = &*SMALL;
    let e = &s.session.evaluator;
    let levels = [s.plan.input_level(), s.plan.output_level(), s.plan.input_level()];
    let xs = [0, 1, 2].map(|i| s.encrypt(levels[i], i as u64));
    let mut stages = Vec::new();
    let together = s.bootstrapper.run_with(e, &xs, |stage| stages.push(stage)).unwrap();
    let order = [Stage::SlotsToCoeffs, Stage::ModRaise, Stage::CoeffsToSlots, Stage::EvalMod];
    assert_eq!(stages, order);
    for (x, y) in xs.iter().zip(&together) {
        for threads in [1, 2] {
            assert!(same(&par::with_threads(threads, || s.run(x)).unwrap(), y));
        }
    }
    assert!(s.bootstrapper.run_many(e, &[]).unwrap().is_empty());
}

#[test]
fn a_second_run_takes_nothing_from_the_pool() {
    // A separate pool.
    let s = Setup::new(&standard(4));
    let a = s.encrypt(s.plan.input_level(), 0);
    let pool = s.session.params.rlwe().basis().pool();
    par::with_threads(1, || {
        pool.trim();
        let allocations = || {
            let before = pool.allocations();
            drop(s.run(&a));
            pool.allocations() - before
        };
        assert!(allocations() > 0);
        assert_eq!(allocations(), 0);
    })
    .unwrap();
}

/// Bootstraps `count` times, each time the result of the last one, turned by a slot. Each bootstrapping
/// adds its own error, so that of all together grows; that of one does not.
#[expect(clippy::print_stdout, reason = "figures of long runs")]
fn in_a_row(spec: &BootstrapSpec, params: Params, count: usize) {
    let plan = spec.plan(&params, params.upper_top()).unwrap();
    let turns = plan.required_keys().clone().rotations(params.log_n(), [1], plan.output_level());
    let session = Session::from_seed(params, &seed("keys", 0), &turns);
    let bootstrapper = plan.prepare(&session.evaluator).unwrap();
    let s = Setup { plan, session, bootstrapper };
    let mut a = s.encrypt(s.plan.input_level(), 1);
    let mut expected = s.open(&a);
    let largest = |x: &[Complex<f64>], y: &[Complex<f64>]| {
        let errors = x.iter().zip(y).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
        errors.fold(0.0, f64::max)
    };
    let mut single = Vec::with_capacity(count);
    for _ in 0..count {
        let before = s.open(&a);
        let refreshed = s.run(&a);
        single.push(largest(&before, &s.open(&refreshed)));
        a = s.session.evaluator.rotate(&refreshed, 1).unwrap();
        expected.rotate_left(1);
    }
    let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
    let first = mean(&single[..count / 20]);
    let last = mean(&single[count - count / 20..]);
    assert!((first / last).log2().abs() < 0.7, "{first:e} {last:e}");
    let total = largest(&s.open(&a), &expected);
    let sum = single.iter().sum::<f64>();
    assert!(total < 1.05 * sum, "{total:e} {sum:e}");
    println!(
        "{count} in a row: errors of {first:.2e} at first, {last:.2e} at last, {total:.2e} in all"
    );
}

#[test]
fn a_hundred_in_a_row() {
    in_a_row(&standard(4), params_for(&standard(4), SecretDistribution::UniformTernary), 100);
}

#[test]
#[ignore = "minutes"]
fn ten_thousand_in_a_row() {
    in_a_row(&standard(4), params_for(&standard(4), SecretDistribution::UniformTernary), 10_000);
}

#[test]
#[ignore = "minutes at full ring size"]
fn a_hundred_in_a_row_at_full_size() {
    let set = preset("n15-boot").unwrap();
    in_a_row(&set.bootstrap, Params::new(set.preset.spec).unwrap(), 100);
}

/// The probability that the sum of `count` numbers uniform on `[-1/2, 1/2]` exceeds `bound`
/// in magnitude, on a grid.
fn tail_of_uniform_sums(count: usize, bound: f64) -> f64 {
    const STEPS: usize = 200;
    let width = 1.0 / STEPS as f64;
    let mut density = vec![1.0; STEPS];
    for _ in 1..count {
        let mut sums = vec![0.0; density.len() + STEPS - 1];
        let mut window = 0.0;
        for (i, sum) in sums.iter_mut().enumerate() {
            window += density.get(i).copied().unwrap_or(0.0);
            if i >= STEPS {
                window -= density.get(i - STEPS).copied().unwrap_or(0.0);
            }
            *sum = window * width;
        }
        density = sums;
    }
    let middle = (density.len() - 1) as f64 / 2.0;
    let outside = |&(i, _): &(usize, f64)| (i as f64 - middle).abs() * width > bound;
    density.into_iter().enumerate().filter(outside).map(|(_, p)| p * width).sum()
}

/// For messages far below the modulus `I` is the rounding of a sum of `h` numbers, so that
/// fewer coefficients fail than the formula for any message says.
#[test]
fn failures_are_as_frequent_as_predicted() {
    let mut spec = standard(LOG_N - 1);
    spec.eval_mod.k = 3;
    spec.eval_mod.method = ModMethod::Cosine { degree: 16, double_angles: 2 };
    let s = Setup::new(&spec);
    let reduced = |x: f64| s.plan.eval_mod().evaluate(x).abs();
    assert!(reduced(3.0) < 1e-6 && reduced(4.0) > 0.01);
    let mut failures = 0;
    let mut count = 0;
    for salt in 0..6 {
        let a = s.encrypt(s.plan.input_level(), salt);
        for (x, y) in s.open(&a).iter().zip(s.open(&s.run(&a))) {
            for error in [x.re - y.re, x.im - y.im] {
                failures += u32::from(error.abs() > 0.005);
                count += 1;
            }
        }
    }
    let count = f64::from(count);
    let expected = tail_of_uniform_sums(32, 3.5);
    let deviation = (count * expected).sqrt();
    let difference = f64::from(failures) - count * expected;
    assert!(difference.abs() < 4.0 * deviation, "{failures} of {count}, {expected}");
    let bound = log2_failure(32, 3, 1).exp2();
    assert!(bound > expected && bound < 3.0 * expected, "{bound} {expected}");
    assert_eq!(s.plan.log2_failure(1), log2_failure(32, 3, 1 << LOG_N));
}

/// What is above 1 comes out as the functions say in the clear.
#[test]
fn values_above_one_are_bent_as_planned() {
    let s = &*SMALL;
    let ratio = s.plan.spec().eval_mod.log2_ratio;
    let bend = (core::f64::consts::TAU * (-ratio).exp2()).powi(2) / 6.0;
    let predicted = |m: f64| s.plan.eval_mod().evaluate((m + bend * m.powi(3)) * (-ratio).exp2());
    let sizes: Vec<_> = (0..16).map(|i| f64::from(i) / 4.0).collect();
    let values: Vec<_> = sizes.iter().map(|&m| Complex::new(m, -m)).collect();
    let a = s.encrypt_values(&values, s.plan.input_level(), 0);
    for (z, m) in s.open(&s.run(&a)).into_iter().zip(sizes) {
        let error = predicted(m) - m;
        let expected = [z.re - m, -z.im - m];
        for found in expected {
            assert!((found - error).abs() < 2e-6 + 0.01 * error.abs(), "{m}: {found:e} {error:e}");
        }
        assert!(m < 3.0 || error.abs() > 1e-5, "{m}: {error:e}");
    }
}

#[test]
fn wrong_inputs_are_refused() {
    let s = &*SMALL;
    let run = |a: &Ciphertext| s.bootstrapper.run(&s.session.evaluator, a).map(drop).unwrap_err();
    let e = &s.session.evaluator;
    let input = s.plan.input_level();
    let low = s.encrypt(Level(input.0 - 1), 0);
    let needed = input.0;
    let op = "bootstrapping";
    let level = Level(input.0 - 1);
    assert_eq!(run(&low), Error::LevelExhausted { op, needed, level });
    let a = s.encrypt(input, 0);
    let other = e.with_scale(&a, a.scale() * Scale::from_f64(1.001)).unwrap();
    assert!(matches!(run(&other), Error::ScaleMismatch { op: "bootstrapping", .. }));
    // A product without rescaling.
    let high = s.encrypt(s.plan.output_level(), 0);
    let product = e.mul(&high, &high).unwrap();
    assert!(matches!(run(&product), Error::ScaleMismatch { op: "bootstrapping", .. }));
    for slots in [8, 32] {
        let few = s.encrypt_values(&random(Values::Complex, slots, 0), input, 0);
        assert_eq!(run(&few), Error::SlotMismatch { op, found: slots, expected: 16 });
    }
    let params = s.session.params.clone();
    let other = Session::from_seed(params, &seed("keys", 1), &KeyRequest::new());
    let plain = other.encoder.encode_at(&[Complex::new(0.5, 0.0); 16], input, a.scale()).unwrap();
    let foreign = other.encryptor.encrypt(&plain).unwrap();
    assert!(matches!(run(&foreign), Error::KeyMismatch { .. }));
    let batch = s.bootstrapper.run_many(e, &[a, foreign]);
    assert!(matches!(batch, Err(Error::KeyMismatch { .. })));
}

/// With the maps in the other order the slots are checked too, before anything else sees them.
#[test]
fn other_numbers_of_slots_are_refused_in_both_orders() {
    let s = Setup::new(&spec(Order::CoeffsToSlotsFirst, Values::Complex, 0, 2));
    let a = s.encrypt_values(&random(Values::Complex, 8, 0), Level(0), 0);
    let found = s.bootstrapper.run(&s.session.evaluator, &a).map(drop);
    let op = "bootstrapping";
    assert_eq!(found, Err(Error::SlotMismatch { op, found: 8, expected: 4 }));
}

#[test]
fn plans_that_do_not_fit_are_refused() {
    let good = standard(4);
    let params = params_for(&good, SecretDistribution::UniformTernary);
    let top = params.upper_top();
    let plan = |spec: &BootstrapSpec| spec.plan(&params, top).map(drop).unwrap_err();
    let edit = |change: fn(&mut BootstrapSpec)| {
        let mut spec = good.clone();
        change(&mut spec);
        plan(&spec)
    };
    let above = Level(top.0 + 1);
    let out_of_range = Error::LevelOutOfRange { found: above, max: top };
    assert_eq!(good.plan(&params, above).map(drop), Err(out_of_range));
    // 3 levels before raising, and 11 afterwards, but 3 must remain.
    assert_eq!(good.plan(&params, Level(14)).unwrap().usable_levels(), 0);
    for level in 0..14 {
        let found = good.plan(&params, Level(level)).map(drop);
        assert!(matches!(found, Err(Error::LevelExhausted { .. })), "{level}: {found:?}");
    }
    for (change, named) in [
        ((|s| s.log_slots = LOG_N) as fn(&mut BootstrapSpec), "2^10 slots"),
        (|s| s.coeffs_to_slots = vec![3], "sum to 4"),
        (|s| s.slots_to_coeffs = vec![], "sum to 4"),
        (|s| s.eval_mod.k = 5000, "from 0 to 1024"),
        (|s| s.eval_mod.log2_ratio = 2.0, "from 3 to 32"),
        (|s| s.order = Order::CoeffsToSlotsFirst, "SlotsToCoeffs must"),
        (
            |s| {
                (s.order, s.correction) = (Order::CoeffsToSlotsFirst, false);
                s.eval_mod.log2_ratio = 9.0;
            },
            "use a larger prime",
        ),
        (|s| s.refinement = Some(Refinement { rounds: 0, gain_bits: 8 }), "rounds 0"),
        (|s| s.refinement = Some(Refinement { rounds: 9, gain_bits: 8 }), "from 1 to 8"),
        (|s| s.refinement = Some(Refinement { rounds: 1, gain_bits: 41 }), "from 1 to 40"),
        (|s| s.refinement = Some(Refinement { rounds: 1, gain_bits: 39 }), "must differ"),
    ] {
        let error = edit(change);
        assert!(matches!(&error, Error::Circuit(text) if text.contains(named)), "{error}");
    }
    let weightless = good.plan(&params, top).unwrap();
    assert!(weightless.required_keys().bytes(params.rlwe()).is_ok());
    let spec = BootstrapSpec { ephemeral_weight: Some(0), ..good.clone() };
    let request = spec.plan(&params, top).unwrap().required_keys().clone();
    let mut keygen = KeyGenerator::from_seed(params.rlwe(), &seed("keys", 0));
    let secret = keygen.secret_key().unwrap();
    let refused = keygen.evaluation_keys(&secret, &request).map(drop);
    assert!(matches!(refused, Err(Error::InvalidSpec { field: "raise", .. })));
}

/// Each round adds its gain, until the scale of the results ends it.
#[test]
fn rounds_add_their_gain() {
    for (order, values, way, log_slots, rounds, gain_bits, expected) in [
        (Order::SlotsToCoeffsFirst, Values::Complex, 1, LOG_N - 1, 1, 19, 42.5),
        (Order::SlotsToCoeffsFirst, Values::Complex, 1, 4, 2, 10, 43.8),
        (Order::SlotsToCoeffsFirst, Values::Real, 1, LOG_N - 1, 3, 6, 41.8),
        (Order::CoeffsToSlotsFirst, Values::Complex, 4, LOG_N - 1, 1, 18, 40.6),
        (Order::CoeffsToSlotsFirst, Values::Real, 4, 4, 1, 18, 44.6),
    ] {
        let refinement = Some(Refinement { rounds, gain_bits });
        let spec = BootstrapSpec { refinement, ..spec(order, values, way, log_slots) };
        let s = Setup::new(&spec);
        let name = format!("{order:?} {values:?} 2^{log_slots} {refinement:?}");
        for level in [s.plan.input_level(), s.plan.output_level()] {
            let a = s.encrypt(level, 3);
            let mut stages = 0;
            let runs =
                s.bootstrapper
                    .run_with(&s.session.evaluator, core::slice::from_ref(&a), |_| stages += 1);
            let b = runs.unwrap().remove(0);
            assert_eq!((b.level(), stages), (s.plan.output_level(), 4 * (rounds + 1)), "{name}");
            assert!(b.scale().matches(s.session.params.scale_at(b.level())), "{name}");
            let (mean, most) = s.bits(&b, &a);
            assert!(most > expected - 0.6, "{name}: {most:.2} bits, mean {mean:.2}");
        }
    }
}

/// The last doublings may be below the top of the chain: there are keys on both sides.
#[test]
fn the_reduction_may_cross_the_top() {
    let spec = standard(LOG_N - 1);
    let whole = params_for(&spec, SecretDistribution::UniformTernary).spec().clone();
    let high = spec.coeffs_to_slots.len() + spec.eval_mod.depth().unwrap() as usize;
    for below in [1, 2] {
        let mut q_bits = whole.q_bits.clone();
        q_bits.truncate(whole.q_bits.len() - high + below);
        let chain: f64 = q_bits.iter().flatten().sum();
        let base = (chain / 49.9).ceil();
        let raised = UpperSpec {
            base_bits: vec![chain / base; base as usize],
            levels_bits: vec![vec![49.6]; high - below],
        };
        let params = Spec { q_bits, upper: Some(raised), ..whole.clone() };
        let s = Setup::with(&spec, Params::new(params).unwrap());
        assert_eq!(s.plan.output_level().0 + below as u32, s.session.params.top().0);
        let a = s.encrypt(s.plan.input_level(), 1);
        let (mean, most) = s.bits(&s.run(&a), &a);
        assert!(most > 20.0, "{below}: {most:.2} bits, mean {mean:.2}");
    }
}

/// Every named set fits its ring at full size, and has its precision in a small one.
#[test]
fn named_sets() {
    for (name, usable, least_bits) in [
        ("n16-boot", 14, 20.0),
        ("n16-boot-real", 14, 20.0),
        ("n16-boot-h48", 13, 20.0),
        ("n16-boot-fast", 8, 12.0),
        ("n15-boot", 4, 15.0),
        ("n15-boot-net", 7, 11.0),
        ("n16-boot-high", 8, 40.0),
    ] {
        let set = preset(name).unwrap();
        let params = Params::new(set.preset.spec.clone()).unwrap();
        let plan = set.bootstrap.plan(&params, params.upper_top()).unwrap();
        assert_eq!(plan.usable_levels(), usable, "{name}");
        assert!(plan.log2_failure(0) < -60.0, "{name}: {}", plan.log2_failure(0));
        let bytes = plan.required_keys().bytes(params.rlwe()).unwrap() + plan.matrix_bytes(&params);
        // Three and a half GiB.
        assert!(bytes < 7 << 29, "{name}: {bytes} bytes");

        let fewer = set.bootstrap.with_log_slots(10);
        let mut small = Spec { log_n: 11, insecure: true, ..set.preset.spec };
        let levels = fewer.coeffs_to_slots.len() + fewer.eval_mod.depth().unwrap() as usize;
        small.upper.as_mut().unwrap().levels_bits.truncate(levels);
        let s = Setup::with(&fewer, Params::new(small).unwrap());
        assert!(s.plan.usable_levels() >= usable, "{name}");
        let a = s.encrypt(s.plan.input_level(), 1);
        let (mean, most) = s.bits(&s.run(&a), &a);
        assert!(most > least_bits, "{name}: {most:.2} bits, mean {mean:.2}");
    }
    let names = presets().into_iter().map(|set| set.preset.name);
    assert!(names.clone().all(|name| preset(&name).unwrap().preset.name == name));
    assert_eq!(names.collect::<BTreeSet<_>>().len(), presets().len());
    assert!(matches!(preset("n17-boot"), Err(Error::UnknownPreset { .. })));
}
