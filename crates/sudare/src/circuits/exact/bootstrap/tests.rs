use super::*;
use crate::{
    bfv,
    exact::{Ciphertext, Spec, tests::Session},
    rlwe::UpperSpec,
};
use sudare_arith::prng::Stream;

const LOG_N: u32 = 6;

/// `|I| <= 3` under a secret of weight 6, always.
fn spec(p: u64, r: u32, log_slots: u32) -> BootstrapSpec {
    let layers = log_slots - 1;
    let split: Vec<u32> =
        [layers / 2, layers - layers / 2].into_iter().filter(|&k| k > 0).collect();
    BootstrapSpec {
        modulus: Modulus::new(p, r).unwrap(),
        log_slots,
        ephemeral_weight: 6,
        bound: 3,
        slots_to_coeffs: split.clone(),
        coeffs_to_slots: split,
    }
}

/// A chain with a few usable levels.
fn chain(log_n: u32, t: Modulus) -> Spec {
    Spec { insecure: true, ..Spec::uniform(log_n, t, 52.0, 13, 50.0, vec![55.0; 3]) }
}

/// The same with usable levels of small primes, and others above them for bootstrapping.
fn raised_chain(log_n: u32, t: Modulus) -> Spec {
    let q_bits = [vec![vec![52.0]], vec![vec![30.0]; 5]].concat();
    let raised = UpperSpec { base_bits: vec![202.0 / 4.0; 4], levels_bits: vec![vec![50.0]; 6] };
    Spec { q_bits, upper: Some(raised), ..chain(log_n, t) }
}

struct Bootstrapping {
    session: Session,
    encoder: BatchEncoder,
    bootstrapper: Bootstrapper<exact::Evaluator>,
}

impl Bootstrapping {
    fn new(spec: &BootstrapSpec, chain: Spec, seed: u8) -> Self {
        let params = Params::new(chain.clone()).unwrap();
        let plan = spec.plan(&params, Params::factor_at).unwrap();
        let session = Session::with_keys(chain, seed, plan.required_keys());
        let encoder =
            BatchEncoder::with_slots(spec.modulus, params.log_n(), spec.log_slots).unwrap();
        let bootstrapper = plan.prepare(&session.evaluator).unwrap();
        Self { session, encoder, bootstrapper }
    }

    fn encrypt(&mut self, values: &[u128], level: Level, factor: Unit) -> Ciphertext {
        let plain = self.encoder.encode_unsigned(values).unwrap();
        self.session.encrypt_at(&plain, level, factor)
    }

    fn decrypt(&self, a: &Ciphertext) -> Vec<u128> {
        let plain = self.session.decryptor.decrypt(a).unwrap();
        self.session.assert_holds(a, &plain);
        self.encoder.decode_unsigned(&plain).unwrap()
    }

    fn random(&mut self) -> Vec<u128> {
        let t = self.encoder.modulus();
        let value = |stream: &mut Stream| t.reduce(stream.next_u64().into());
        (0..self.encoder.slots()).map(|_| value(&mut self.session.stream)).collect()
    }
}

#[test]
fn every_slot_comes_back() {
    for (p, r, log_slots) in
        [(257, 1, 6), (257, 2, 6), (17, 1, 3), (97, 2, 4), (65537, 1, 6), (13, 1, 1)]
    {
        let spec = spec(p, r, log_slots);
        let mut b = Bootstrapping::new(&spec, chain(LOG_N, spec.modulus), 3);
        let (t, plan) = (spec.modulus, b.bootstrapper.plan().clone());
        assert!(plan.usable_levels() > 0);
        assert_eq!(plan.log2_failure(), f64::NEG_INFINITY);
        let slots = b.encoder.slots();
        let highest = t.value() - 1;
        let mut cases = vec![vec![0; slots], vec![highest; slots], vec![1; slots]];
        cases.extend((0..4).map(|_| b.random()));
        for values in cases {
            for level in [plan.input_level(), b.session.params.top()] {
                let factor = b.session.params.factor_at(level, t).unwrap();
                let a = b.encrypt(&values, level, factor);
                let e = &b.session.evaluator;
                let fresh = b.bootstrapper.run(e, &a).unwrap();
                assert_eq!(fresh.level(), plan.output_level());
                assert_eq!(b.decrypt(&fresh), values, "{p}^{r}, level {level}");
                // What is left computes.
                let square = e.mul_rescale(&fresh, &fresh).unwrap();
                let squares: Vec<u128> = values.iter().map(|&x| t.mul(x, x)).collect();
                assert_eq!(b.decrypt(&square), squares);
                if level == plan.input_level() {
                    let out = b.session.params.factor_at(fresh.level(), t).unwrap();
                    assert!(fresh.factor().matches(out));
                }
            }
        }
    }
}

#[test]
fn slots_come_back_through_raised_levels() {
    let spec = spec(257, 1, 6);
    let mut b = Bootstrapping::new(&spec, raised_chain(LOG_N, spec.modulus), 4);
    let (params, t) = (b.session.params.clone(), spec.modulus);
    let plan = b.bootstrapper.plan().clone();
    assert_eq!(plan.top(), params.upper_top());
    assert!(plan.output_level() <= params.top());
    let values = b.random();
    let a = b.encrypt(&values, params.top(), params.fresh_factor(params.top(), t).unwrap());
    let fresh = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
    assert_eq!(b.decrypt(&fresh), values);
}

/// Rounding errors beyond a bound that is too small spoil slots as often as the formula says.
#[test]
fn failures_are_as_frequent_as_predicted() {
    check_failures(200);
}

#[test]
#[ignore = "takes minutes"]
fn failures_of_many_bootstrappings_are_as_frequent_as_predicted() {
    check_failures(10_000);
}

fn check_failures(runs: u32) {
    const SMALL: u32 = 4;
    let spec = BootstrapSpec { ephemeral_weight: 12, bound: 2, ..spec(97, 1, SMALL) };
    let mut b = Bootstrapping::new(&spec, chain(SMALL, spec.modulus), 5);
    let t = spec.modulus;
    let level = b.bootstrapper.plan().input_level();
    let factor = b.session.params.factor_at(level, t).unwrap();
    let mut failures = 0;
    for _ in 0..runs {
        let values = b.random();
        let a = b.encrypt(&values, level, factor);
        let fresh = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
        let found = b.session.decryptor.decrypt(&fresh).unwrap();
        failures += u32::from(b.encoder.decode_unsigned(&found).unwrap() != values);
    }
    // A digit beyond the bound, which spoils all slots. What inputs bring is far below 1/32 here.
    let digit = log2_exceeds(12, 2.5, 1).exp2();
    let expected = 1.0 - (1.0 - digit).powi(1 << SMALL);
    let count = f64::from(runs);
    let deviation = (count * expected * (1.0 - expected)).sqrt();
    let difference = f64::from(failures) - count * expected;
    assert!(difference.abs() < 4.0 * deviation, "{failures} of {count}, {expected}");
    let bound = b.bootstrapper.plan().log2_failure().exp2();
    assert!((expected..1.0).contains(&bound), "{bound}");
}

#[test]
fn factors_of_inputs_are_kept() {
    let spec = spec(257, 1, 6);
    let mut b = Bootstrapping::new(&spec, chain(LOG_N, spec.modulus), 6);
    let t = spec.modulus;
    let level = b.bootstrapper.plan().input_level();
    let planned = b.session.params.factor_at(level, t).unwrap();
    let out = b.session.params.factor_at(b.bootstrapper.plan().output_level(), t).unwrap();
    let values = [b.random(), b.random(), b.random()];
    let factors = [1, 3, 200].map(|f| Unit::new(f, t).unwrap());
    let inputs: Vec<_> =
        values.iter().zip(factors).map(|(values, f)| b.encrypt(values, level, f)).collect();
    let mut stages = Vec::new();
    let fresh = b.bootstrapper.run_with(&b.session.evaluator, &inputs, |stage| stages.push(stage));
    let fresh = fresh.unwrap();
    use Stage::{CoeffsToSlots, DigitRemoval, Raise, SlotsToCoeffs};
    assert_eq!(stages, [SlotsToCoeffs, Raise, CoeffsToSlots, DigitRemoval]);
    for ((fresh, values), factor) in fresh.iter().zip(&values).zip(factors) {
        assert_eq!(b.decrypt(fresh), *values);
        assert!(fresh.factor().matches(out * factor / planned));
    }
}

/// The scale-invariant product goes on with what the product of BGV bootstrapped.
#[test]
fn bootstraps_for_both_products() {
    let spec = spec(257, 1, 6);
    let chain = chain(LOG_N, spec.modulus);
    let params = Params::new(chain.clone()).unwrap();
    let plan = spec.plan(&params, Params::fresh_factor).unwrap();
    let session = Session::with_keys(chain, 7, plan.required_keys());
    let bootstrapper = plan.prepare(&session.evaluator).unwrap();
    let encoder = BatchEncoder::new(spec.modulus, LOG_N).unwrap();
    let mut b = Bootstrapping { session, encoder, bootstrapper };
    let t = spec.modulus;
    let values = b.random();
    let level = plan.input_level();
    let a = b.encrypt(&values, level, params.fresh_factor(level, t).unwrap());
    let fresh = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
    // The factor of a fresh encryption there, with which sums are possible.
    assert!(fresh.factor().matches(params.fresh_factor(fresh.level(), t).unwrap()));
    let other = b.encrypt(&values, fresh.level(), fresh.factor());
    let e = bfv::Evaluator::new(&params, b.session.keys.clone()).unwrap();
    let product = e.mul(&fresh, &other).unwrap();
    let squares: Vec<u128> = values.iter().map(|&x| t.mul(x, x)).collect();
    assert_eq!(b.decrypt(&product), squares);
}

#[test]
fn what_does_not_fit_is_refused() {
    let spec = spec(257, 1, 6);
    let mut b = Bootstrapping::new(&spec, chain(LOG_N, spec.modulus), 8);
    let (params, t) = (b.session.params.clone(), spec.modulus);
    let values = b.random();
    let run = |b: &Bootstrapping, a| b.bootstrapper.run(&b.session.evaluator, a).map(drop);
    let below = b.encrypt(&values, Level(1), Unit::one(t));
    let exhausted = Error::LevelExhausted { op: OP, needed: 2, level: Level(1) };
    assert_eq!(run(&b, &below), Err(exhausted));
    let other = b.session.random(Modulus::new(17, 1).unwrap());
    let other = b.session.encrypt(&other);
    assert!(matches!(run(&b, &other), Err(Error::PlaintextMismatch { .. })));

    // Keys through a denser secret than planned, and none.
    let denser = BootstrapSpec { ephemeral_weight: 7, ..spec.clone() };
    let plan = denser.plan(&params, Params::factor_at).unwrap();
    let denser = Session::with_keys(chain(LOG_N, t), 8, plan.required_keys());
    let a = denser.encryptor.encrypt(&b.encoder.encode_unsigned(&values).unwrap()).unwrap();
    let refused = |found| Err(Error::EphemeralSecretMismatch { found, needed: 6 });
    assert_eq!(b.bootstrapper.run(&denser.evaluator, &a).map(drop), refused(Some(7)));
    let mut undivided = b.bootstrapper.plan().required_keys().clone();
    (undivided.raise, undivided.raised) = (None, [].into());
    let none = Session::with_keys(chain(LOG_N, t), 8, &undivided);
    let a = none.encryptor.encrypt(&b.encoder.encode_unsigned(&values).unwrap()).unwrap();
    assert_eq!(b.bootstrapper.run(&none.evaluator, &a).map(drop), refused(None));

    let plan = |spec: BootstrapSpec, chain: Spec| {
        spec.plan(&Params::new(chain).unwrap(), Params::factor_at).map(drop)
    };
    let few = Spec { q_bits: vec![vec![50.0]; 6], ..chain(LOG_N, t) };
    assert!(matches!(plan(spec.clone(), few), Err(Error::LevelExhausted { .. })));
    let wide = BootstrapSpec { bound: 129, ..spec.clone() };
    assert!(matches!(plan(wide, chain(LOG_N, t)), Err(Error::Circuit(_))));
    let no_slots = BootstrapSpec { modulus: Modulus::new(19, 1).unwrap(), ..spec.clone() };
    assert!(matches!(plan(no_slots, chain(LOG_N, t)), Err(Error::NoSlots { .. })));
    let layers = BootstrapSpec { coeffs_to_slots: vec![3, 3], ..spec };
    assert!(matches!(plan(layers, chain(LOG_N, t)), Err(Error::Circuit(_))));
}

/// The failure, the levels and the security that the sets promise.
#[test]
fn named_sets_are_as_they_say() {
    for (name, usable) in
        [("n15-t65537-boot", 7), ("n16-t65537-boot", 20), ("n16-t786433-boot", 14)]
    {
        let set = preset(name).unwrap();
        let params = Params::new(set.preset.spec.clone()).unwrap();
        let plan = set.plan(&params, Params::factor_at).unwrap();
        assert_eq!(plan.usable_levels(), usable, "{name}");
        assert!(plan.log2_failure() < -128.0, "{name}: {}", plan.log2_failure());
        for key in plan.required_keys().key_security(params.rlwe()).unwrap() {
            assert!(key.security_bits >= 128.0, "{name}: {key:?}");
        }
    }
    assert_eq!(presets().len(), 3);
    assert!(matches!(preset("n15"), Err(Error::UnknownPreset { .. })));
}

/// Every slot at full size, and products down to the last level.
#[test]
#[ignore = "takes minutes and gigabytes"]
fn named_sets_bootstrap_every_slot() {
    for set in presets().iter().filter(|set| set.preset.spec.log_n < 16) {
        check_set(set);
    }
}

#[test]
#[ignore = "takes minutes and 12 GiB"]
fn named_sets_of_the_large_ring_bootstrap_every_slot() {
    for set in presets().iter().filter(|set| set.preset.spec.log_n == 16) {
        check_set(set);
    }
}

fn check_set(set: &BootstrapPreset) {
    let name = &set.preset.name;
    let mut b = Bootstrapping::new(&set.bootstrap, set.preset.spec.clone(), 9);
    let (t, slots) = (set.bootstrap.modulus, b.encoder.slots());
    let level = b.bootstrapper.plan().input_level();
    let factor = b.session.params.factor_at(level, t).unwrap();
    let highest = t.value() - 1;
    for values in [b.random(), vec![0; slots], vec![highest; slots], b.random()] {
        let a = b.encrypt(&values, level, factor);
        let mut x = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
        let mut expected = values;
        assert!(b.decrypt(&x) == expected, "{name}");
        while x.level() > level {
            x = b.session.evaluator.mul_rescale(&x, &x).unwrap();
            expected.iter_mut().for_each(|v| *v = t.mul(*v, *v));
            assert!(b.decrypt(&x) == expected, "{name}, level {}", x.level());
        }
    }
}
