use super::*;
use crate::{
    bfv,
    exact::{Ciphertext, NoiseBound, PlainPoly, Spec, tests::Session},
    rlwe::{SecretDistribution, UpperSpec},
};
use sudare_arith::prng::Stream;

const LOG_N: u32 = 6;

/// A specification where always `|I| <= 3`, under a secret of weight 6.
pub(super) fn spec(p: u64, r: u32, log_slots: u32) -> BootstrapSpec {
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

/// Makes a chain with a few usable levels.
fn chain(log_n: u32, t: Modulus) -> Spec {
    Spec { insecure: true, ..Spec::uniform(log_n, t, 52.0, 13, 50.0, vec![55.0; 3]) }
}

/// Makes the same chain with usable levels of small primes, and other primes above them for
/// bootstrapping.
fn raised_chain(log_n: u32, t: Modulus) -> Spec {
    let q_bits = [vec![vec![52.0]], vec![vec![30.0]; 5]].concat();
    let raised = UpperSpec { base_bits: vec![202.0 / 4.0; 4], levels_bits: vec![vec![50.0]; 6] };
    Spec { q_bits, upper: Some(raised), ..chain(log_n, t) }
}

struct Bootstrapping<E: IntegerOps = exact::Evaluator> {
    session: Session,
    encoder: IntegerEncoder,
    bootstrapper: Bootstrapper<E>,
}

impl Bootstrapping {
    fn new(spec: &BootstrapSpec, chain: Spec, seed: u8) -> Self {
        let params = Params::new(chain.clone()).unwrap();
        let plan = spec.plan(&params, Params::factor_at).unwrap();
        let session = Session::with_keys(chain, seed, plan.required_keys());
        let encoder = spec.encoder(params.log_n()).unwrap();
        let bootstrapper = plan.prepare(&session.evaluator).unwrap();
        Self { session, encoder, bootstrapper }
    }
}

impl Bootstrapping<bfv::Evaluator> {
    /// Makes a setup with the product of BFV, and its evaluator.
    fn scaled(spec: &BootstrapSpec, chain: Spec, seed: u8) -> (bfv::Evaluator, Self) {
        let params = Params::new(chain.clone()).unwrap();
        let plan = spec.plan_with(&params, Tensor::Scaled, Params::fresh_factor).unwrap();
        let session = Session::with_keys(chain, seed, plan.required_keys());
        let e = bfv::Evaluator::new(&session.params, session.keys.clone()).unwrap();
        let encoder = spec.encoder(params.log_n()).unwrap();
        let bootstrapper = plan.prepare(&e).unwrap();
        (e, Self { session, encoder, bootstrapper })
    }
}

impl<E: IntegerOps> Bootstrapping<E> {
    fn encrypt(&mut self, values: &[u128], level: Level, factor: Unit) -> Ciphertext {
        let plain = self.encode(values);
        self.session.encrypt_at(&plain, level, factor)
    }

    fn encode(&self, values: &[u128]) -> PlainPoly {
        let t = self.encoder.modulus();
        self.encoder.encode(&values.iter().map(|&x| t.centered(x)).collect::<Vec<_>>()).unwrap()
    }

    fn decrypt(&self, a: &Ciphertext) -> Vec<u128> {
        let plain = self.session.decryptor.decrypt(a).unwrap();
        self.session.assert_holds(a, &plain);
        let t = self.encoder.modulus();
        self.encoder.decode(&plain).unwrap().iter().map(|&x| t.reduce_i128(x)).collect()
    }

    fn random(&mut self) -> Vec<u128> {
        let t = self.encoder.modulus();
        let value = |stream: &mut Stream| t.reduce(stream.next_u64().into());
        (0..self.encoder.slots()).map(|_| value(&mut self.session.stream)).collect()
    }
}

#[test]
fn every_slot_comes_back() {
    for (p, r, log_slots) in [
        (257, 1, 6),
        (257, 2, 6),
        (17, 1, 3),
        (97, 2, 4),
        (65537, 1, 6),
        (13, 1, 1),
        (31, 1, 4),
        (47, 3, 3),
        (127, 2, 6),
    ] {
        let spec = spec(p, r, log_slots);
        // Modulo 127, the slots of integers have degree 2 at least.
        let log_n = LOG_N.max(log_slots + u32::from(p % 4 == 3));
        let mut b = Bootstrapping::new(&spec, chain(log_n, spec.modulus), 3);
        let t = spec.modulus;
        let plan = b.bootstrapper.plan().clone();
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
                // The remaining levels are usable.
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
    let params = b.session.params.clone();
    let t = spec.modulus;
    let plan = b.bootstrapper.plan().clone();
    assert_eq!(plan.top(), params.upper_top());
    assert!(plan.output_level() <= params.top());
    let values = b.random();
    let a = b.encrypt(&values, params.top(), params.fresh_factor(params.top(), t).unwrap());
    let fresh = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
    assert_eq!(b.decrypt(&fresh), values);
}

/// With a bound that is too small, rounding errors spoil slots as often as the formula predicts.
#[test]
fn failures_are_as_frequent_as_predicted() {
    check_failures(97, 4, 200);
    check_failures(31, 5, 200);
}

#[test]
#[ignore = "takes minutes"]
fn failures_of_many_bootstrappings_are_as_frequent_as_predicted() {
    check_failures(97, 4, 10_000);
    check_failures(31, 5, 10_000);
}

fn check_failures(p: u64, log_n: u32, runs: u32) {
    const SMALL: u32 = 4;
    let spec = BootstrapSpec { ephemeral_weight: 12, bound: 2, ..spec(p, 1, SMALL) };
    let mut b = Bootstrapping::new(&spec, chain(log_n, spec.modulus), 5);
    let t = spec.modulus;
    let level = b.bootstrapper.plan().input_level();
    let factor = b.session.params.factor_at(level, t).unwrap();
    let mut failures = 0;
    for _ in 0..runs {
        let values = b.random();
        let a = b.encrypt(&values, level, factor);
        let fresh = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
        let found = b.session.decryptor.decrypt(&fresh).unwrap();
        let values: Vec<_> = values.iter().map(|&x| t.centered(x)).collect();
        failures += u32::from(b.encoder.decode(&found).unwrap() != values);
    }
    // A digit beyond the bound spoils all slots. The contribution of inputs is far below 1/32 here.
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

/// Both pipelines return every slot correctly, with the results that their simulations predict.
#[test]
fn either_product_bootstraps_every_slot() {
    for (p, r, log_slots, raised) in
        [(257, 1, 6, false), (257, 1, 6, true), (17, 2, 3, false), (31, 1, 4, true)]
    {
        let spec = spec(p, r, log_slots);
        let chain = if raised { raised_chain } else { chain }(LOG_N, spec.modulus);
        let mut b = Bootstrapping::new(&spec, chain, 10);
        let params = b.session.params.clone();
        let t = spec.modulus;
        let plan = spec.plan_with(&params, Tensor::Scaled, Params::fresh_factor).unwrap();
        let planned = b.bootstrapper.plan().clone();
        // The same keys and levels serve both.
        assert_eq!(plan.required_keys(), planned.required_keys());
        assert_eq!(plan.output_level(), planned.output_level());
        let e = bfv::Evaluator::new(&params, b.session.keys.clone()).unwrap();
        let bootstrapper = plan.prepare(&e).unwrap();
        let level = plan.input_level();
        let values = b.random();
        let a = b.encrypt(&values, level, params.fresh_factor(level, t).unwrap());
        let fresh = bootstrapper.run(&e, &a).unwrap();
        assert_eq!(b.decrypt(&fresh), values, "{t}");
        assert!(e.factor(&fresh).unwrap().matches(Unit::one(t)));
        let simulated = plan.simulate(&params).unwrap();
        assert_eq!(simulated.output, fresh.form(), "{t}");
        let a = b.encrypt(&values, level, params.factor_at(level, t).unwrap());
        let plain = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
        assert_eq!(b.decrypt(&plain), values, "{t}");
        assert_eq!(planned.simulate(&params).unwrap().output, plain.form(), "{t}");
        // The remaining levels are usable, and the result is bootstrapped again, also with another
        // factor.
        let square = e.mul_rescale(&fresh, &fresh).unwrap();
        let squares: Vec<u128> = values.iter().map(|&x| t.mul(x, x)).collect();
        assert_eq!(b.decrypt(&square), squares);
        let read = exact::Evaluator::with_factor(e.exact(), &square, Unit::new(3, t).unwrap());
        let read = read.unwrap();
        let again = bootstrapper.run_many(&e, &[square.clone(), read.clone()]).unwrap();
        assert_eq!(b.decrypt(&again[0]), squares);
        assert_eq!(b.decrypt(&again[1]), b.decrypt(&read));
        assert!(plan.inputs(&params).unwrap().check(square.form()).is_ok());
    }
}

/// Returns, for each step of one bootstrapping, `log2` of the bound of the error and of the error.
fn ledger<E: IntegerOps<Ct = Ciphertext>>(
    e: &E,
    b: &Bootstrapping<E>,
    a: &Ciphertext,
) -> Vec<(Stage, [f64; 2])> {
    let Bootstrapper { plan, to_coeffs, to_slots } = &b.bootstrapper;
    let mut steps = Vec::new();
    let mut note = |stage, x: Ciphertext| {
        steps.push((stage, [x.noise().log2(), b.session.decryptor.noise(&x).unwrap()]));
        x
    };
    let (mut x, _) = accept(e, a, plan.input_level(), plan.input_scale).unwrap();
    for (plan, matrix) in plan.to_coeffs.iter().zip(to_coeffs) {
        x = note(Stage::SlotsToCoeffs, plan.run(e, matrix, &x).unwrap());
    }
    x = note(Stage::Raise, e.raise_transform(&x, &to_slots[0]).unwrap());
    if let Some((trace, multiple)) = &plan.trace {
        let selected = e.with_scale(&trace.run(e, &x).unwrap(), *multiple).unwrap();
        x = note(Stage::CoeffsToSlots, selected);
    }
    for (plan, matrix) in plan.to_slots.iter().zip(to_slots).skip(1) {
        x = note(Stage::CoeffsToSlots, plan.run(e, matrix, &x).unwrap());
    }
    x = note(Stage::DigitRemoval, plan.removal.run(e, &x).unwrap());
    assert_eq!(x.noise(), b.bootstrapper.run(e, a).unwrap().noise());
    steps
}

/// At levels about as small as in named sets, each step leaves the predicted budget and up to six
/// bits more.
#[test]
fn errors_of_each_step_are_within_bounds() {
    fn levels(spec: &BootstrapSpec, log_n: u32) -> Spec {
        let rounding = NoiseBound::rounding(log_n, SecretDistribution::UniformTernary);
        let bits = spec.high().unwrap().log2() + rounding.canonical_log2() + 3.0;
        let levels = Spec::uniform(log_n, spec.modulus, 52.0, 13, bits, vec![55.0; 3]);
        Spec { insecure: true, ..levels }
    }
    fn check<E: IntegerOps<Ct = Ciphertext>>(e: &E, mut b: Bootstrapping<E>) {
        let level = b.bootstrapper.plan().input_level();
        let t = b.encoder.modulus();
        let factor = b.session.params.fresh_factor(level, t).unwrap();
        for _ in 0..3 {
            let values = b.random();
            let a = b.encrypt(&values, level, factor);
            let steps = ledger(e, &b, &a);
            assert!(steps.iter().all(|(_, [bound, found])| found <= bound), "{steps:?}");
            assert!(steps.iter().all(|(_, [bound, found])| bound - found < 6.0), "{steps:?}");
        }
    }
    for (p, r, log_slots, log_n) in [(257, 1, 6, LOG_N), (31, 1, 4, LOG_N), (257, 1, 7, 10)] {
        let spec = spec(p, r, log_slots);
        let b = Bootstrapping::new(&spec, levels(&spec, log_n), 12);
        check(&b.session.evaluator.clone(), b);
        let (e, b) = Bootstrapping::scaled(&spec, levels(&spec, log_n), 12);
        check(&e, b);
    }
}

/// The scale-invariant product continues with ciphertexts bootstrapped by the product of BGV. Its
/// results bootstrap like results of the BGV product.
#[test]
fn bootstraps_for_both_products() {
    for (p, r, log_slots) in [(257, 1, 6), (31, 2, 4)] {
        let spec = spec(p, r, log_slots);
        let chain = chain(LOG_N, spec.modulus);
        let params = Params::new(chain.clone()).unwrap();
        let plan = spec.plan(&params, Params::fresh_factor).unwrap();
        let session = Session::with_keys(chain, 7, plan.required_keys());
        let bootstrapper = plan.prepare(&session.evaluator).unwrap();
        let encoder = spec.encoder(LOG_N).unwrap();
        let mut b = Bootstrapping { session, encoder, bootstrapper };
        let t = spec.modulus;
        let values = b.random();
        let level = plan.input_level();
        let a = b.encrypt(&values, level, params.fresh_factor(level, t).unwrap());
        let fresh = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
        // The factor equals the factor of a fresh encryption there, so sums are possible.
        assert!(fresh.factor().matches(params.fresh_factor(fresh.level(), t).unwrap()));
        let other = b.encrypt(&values, fresh.level(), fresh.factor());
        let e = bfv::Evaluator::new(&params, b.session.keys.clone()).unwrap();
        let scaled = e.mul(&fresh, &other).unwrap();
        let plain = b.session.evaluator.mul_rescale(&fresh, &other).unwrap();
        let squares: Vec<u128> = values.iter().map(|&x| t.mul(x, x)).collect();
        for product in [scaled, plain] {
            assert_eq!(b.decrypt(&product), squares);
            let fresh = b.bootstrapper.run(&b.session.evaluator, &product).unwrap();
            assert_eq!(b.decrypt(&fresh), squares);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let spec = spec(257, 1, 6);
    let mut b = Bootstrapping::new(&spec, chain(LOG_N, spec.modulus), 8);
    let params = b.session.params.clone();
    let t = spec.modulus;
    let values = b.random();
    let run = |b: &Bootstrapping, a| b.bootstrapper.run(&b.session.evaluator, a).map(drop);
    let below = b.encrypt(&values, Level(1), Unit::one(t));
    let exhausted = Error::LevelExhausted { op: OP, needed: 2, level: Level(1) };
    assert_eq!(run(&b, &below), Err(exhausted));
    let other = b.session.random(Modulus::new(17, 1).unwrap());
    let other = b.session.encrypt(&other);
    assert!(matches!(run(&b, &other), Err(Error::PlaintextMismatch { .. })));

    // Keys through a denser secret than planned, and no such keys.
    let denser = BootstrapSpec { ephemeral_weight: 7, ..spec.clone() };
    let plan = denser.plan(&params, Params::factor_at).unwrap();
    let denser = Session::with_keys(chain(LOG_N, t), 8, plan.required_keys());
    let a = denser.encryptor.encrypt(&b.encode(&values)).unwrap();
    let refused = |found| Err(Error::EphemeralSecretMismatch { found, needed: 6 });
    assert_eq!(b.bootstrapper.run(&denser.evaluator, &a).map(drop), refused(Some(7)));
    let mut undivided = b.bootstrapper.plan().required_keys().clone();
    (undivided.raise, undivided.raised) = (None, [].into());
    let none = Session::with_keys(chain(LOG_N, t), 8, &undivided);
    let a = none.encryptor.encrypt(&b.encode(&values)).unwrap();
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
    // Even moduli have no slots, and the code does not divide by their number.
    for exponent in 1..4 {
        let even = Modulus::new(2, exponent).unwrap();
        for log_slots in [3, LOG_N] {
            let spec = BootstrapSpec { modulus: even, log_slots, ..spec.clone() };
            let refused = plan(spec.clone(), chain(LOG_N, even));
            assert!(matches!(refused, Err(Error::NoSlots { .. })), "{even}: {refused:?}");
            let params = Params::new(chain(LOG_N, even)).unwrap();
            let refused = spec.plan_full(&params, Params::factor_at).map(drop);
            assert!(matches!(refused, Err(Error::NoSlots { .. })), "{even}: {refused:?}");
        }
    }
    let layers = BootstrapSpec { coeffs_to_slots: vec![3, 3], ..spec };
    assert!(matches!(plan(layers, chain(LOG_N, t)), Err(Error::Circuit(_))));
    // For slim slots the first factor must keep the subring of coefficients.
    let slim = self::spec(31, 1, 4);
    let merged = BootstrapSpec { coeffs_to_slots: vec![3], ..slim };
    let chain_of = chain(LOG_N, merged.modulus);
    assert!(matches!(plan(merged, chain_of), Err(Error::Circuit(_))));
}

/// The usable levels of each set.
const SETS: [(&str, u32); 11] = [
    ("n14-t257-boot", 2),
    ("n15-t257-boot", 15),
    ("n15-t257-2-boot", 10),
    ("n15-t257-3-boot", 5),
    ("n15-t127-boot", 16),
    ("n15-t127-2-boot", 11),
    ("n15-t127-3-boot", 7),
    ("n15-t65537-boot", 7),
    ("n16-t65537-boot", 20),
    ("n16-t786433-boot", 14),
    ("n16-t4293918721-boot", 10),
];

/// Checks the failure probability, the levels and the security that a set promises, and that errors
/// decrypt.
fn check_promises(set: &BootstrapPreset) {
    let name = set.preset.name.as_str();
    let params = Params::new(set.preset.spec.clone()).unwrap();
    let plan = set.plan(&params, Params::factor_at).unwrap();
    let usable = SETS.iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!(plan.usable_levels(), usable, "{name}");
    assert!(plan.log2_failure() < -128.0, "{name}: {}", plan.log2_failure());
    for key in plan.required_keys().key_security(params.rlwe()).unwrap() {
        assert!(key.security_bits >= 128.0, "{name}: {key:?}");
    }
    let scaled = set.bootstrap.plan_with(&params, Tensor::Scaled, Params::fresh_factor).unwrap();
    for plan in [plan, scaled] {
        let tensor = plan.tensor();
        assert_eq!(choose::check_errors(&plan, &params), Ok(()), "{name}, {tensor:?}");
    }
}

#[test]
fn named_sets_of_few_slots_are_as_they_say() {
    let few = |set: &&BootstrapPreset| set.bootstrap.log_slots < 10;
    presets().iter().filter(few).for_each(check_promises);
    let names: Vec<_> = presets().into_iter().map(|set| set.preset.name).collect();
    assert_eq!(names, SETS.map(|(name, _)| name));
    assert!(matches!(preset("n15"), Err(Error::UnknownPreset { .. })));
}

#[test]
#[ignore = "full ring size"]
fn named_sets_of_many_slots_are_as_they_say() {
    let many = |set: &&BootstrapPreset| set.bootstrap.log_slots >= 10;
    presets().iter().filter(many).for_each(check_promises);
}

#[test]
fn reproductions_have_the_modulus_of_the_thesis_and_say_that_they_are_insecure() {
    let all = reproductions();
    let names: Vec<_> = all.iter().map(|set| &set.preset.name[..]).collect();
    assert_eq!(names, ["bfv-thesis-slim-127", "bfv-thesis-slim-257"]);
    for (set, levels) in all.iter().zip([9, 7]) {
        let name = &set.preset.name;
        let params = Params::new(set.preset.spec.clone()).unwrap();
        let plan = set.plan(&params, Params::factor_at).unwrap();
        assert_eq!((plan.usable_levels(), set.preset.spec.insecure), (levels, true), "{name}");
        assert!(plan.log2_failure() < -128.0, "{name}");
        // The modulus printed in the publication.
        assert!(params.rlwe().log2_q(params.upper_top()) <= 558.0, "{name}");
        assert_eq!(choose::check_errors(&plan, &params), Ok(()), "{name}");
        assert_eq!(preset(name).unwrap(), *set);
    }
}

/// Checks that chosen sets keep the same promises as named ones, for primes of every size and for
/// powers.
fn check_choice(p: u64, r: u32, log_n: u32, usable: u32) {
    let t = Modulus::new(p, r).unwrap();
    let set = choose(t, log_n).unwrap();
    assert_eq!(preset(&set.preset.name).as_ref(), Ok(&set));
    assert_eq!((set.bootstrap.modulus, set.preset.spec.log_n), (t, log_n));
    let params = Params::new(set.preset.spec.clone()).unwrap();
    let plan = set.plan(&params, Params::factor_at).unwrap();
    assert!(plan.usable_levels() >= usable, "{t}: {}", plan.usable_levels());
    assert!(plan.log2_failure() < -128.0);
    for key in plan.required_keys().key_security(params.rlwe()).unwrap() {
        assert!(key.security_bits >= 128.0, "{t}: {key:?}");
    }
}

#[test]
fn sets_are_chosen_for_few_slots() {
    for (p, r, log_n, usable) in
        [(257, 1, 15, 13), (127, 2, 15, 8), (31, 1, 15, 13), (97, 1, 14, 1)]
    {
        check_choice(p, r, log_n, usable);
    }
}

#[test]
#[ignore = "full ring size"]
fn sets_are_chosen_for_large_primes() {
    for (p, log_n, usable) in
        [(786_433, 15, 2), (1_099_510_054_913, 16, 3), (1_125_899_903_827_969, 16, 1)]
    {
        check_choice(p, 1, log_n, usable);
    }
}

#[test]
fn names_of_other_sets_are_not_read_as_those_of_chosen_ones() {
    for name in ["n15-t257-boot", "n15-t-auto", "n15-tx-auto", "15-t257-auto", "n15-t257-2-3-auto"]
    {
        assert_eq!(choose::parse(name), None, "{name}");
    }
    assert_eq!(choose::parse("n15-t31-2-auto"), Some((15, (31, 2))));
    assert!(matches!(preset("n15-t255-auto"), Err(Error::PlaintextModulusNotPrime { .. })));
    assert!(matches!(preset("n15-tx-auto"), Err(Error::UnknownPreset { .. })));
}

#[test]
fn what_no_set_bootstraps_is_refused_with_what_would_work() {
    let refused = |p, log_n| choose(Modulus::new(p, 1).unwrap(), log_n).unwrap_err().to_string();
    // An even modulus, and one without slots.
    assert!(matches!(choose(Modulus::new(2, 8).unwrap(), 15), Err(Error::NoSlots { .. })));
    assert!(refused(2, 15).contains("65537 or 786433"));
    // Fewer digits than rounding leaves, and two or four slots.
    assert!(refused(29, 15).contains("at least 31"));
    assert!(refused(43, 15).contains("multiple of 16"));
    // No room for a level here, but in a larger ring; and in no ring.
    assert!(refused(1_125_899_903_827_969, 15).contains("N = 2^16 leaves"));
    assert!(refused(2_251_799_815_520_257, 16).contains("at most 50 bits"));
    assert!(refused(257, 12).contains("2^13 to 2^16"));
}

/// Checks every slot at full size, and products down to the last level.
#[test]
#[ignore = "takes minutes and gigabytes"]
fn named_sets_bootstrap_every_slot() {
    for set in presets().iter().filter(|set| set.preset.spec.log_n < 16) {
        check_set(set);
    }
}

#[test]
#[ignore = "takes half an hour and 12 GiB"]
fn named_sets_of_the_large_ring_bootstrap_every_slot() {
    for set in presets().iter().filter(|set| set.preset.spec.log_n == 16) {
        check_set(set);
    }
}

/// Checks a set with the product of BFV, and its products down to the last level.
fn check_scaled_set(set: &BootstrapPreset) {
    let name = &set.preset.name;
    let (e, mut b) = Bootstrapping::scaled(&set.bootstrap, set.preset.spec.clone(), 11);
    let t = set.bootstrap.modulus;
    let level = b.bootstrapper.plan().input_level();
    let factor = b.session.params.fresh_factor(level, t).unwrap();
    for _ in 0..2 {
        let mut expected = b.random();
        let a = b.encrypt(&expected, level, factor);
        let mut x = b.bootstrapper.run(&e, &a).unwrap();
        assert!(b.decrypt(&x) == expected, "{name}");
        while x.level() > level {
            x = e.mul_rescale(&x, &x).unwrap();
            expected.iter_mut().for_each(|v| *v = t.mul(*v, *v));
            assert!(b.decrypt(&x) == expected, "{name}, level {}", x.level());
        }
        let again = b.bootstrapper.run(&e, &x).unwrap();
        assert!(b.decrypt(&again) == expected, "{name}, again");
    }
}

#[test]
#[ignore = "takes minutes and gigabytes"]
fn named_sets_bootstrap_by_the_product_of_bfv() {
    for set in presets().iter().filter(|set| set.preset.spec.log_n < 16) {
        check_scaled_set(set);
    }
}

/// Number of random vectors that each named set bootstraps.
const VECTORS: usize = 100;

/// Checks slots of 0, of the largest and the middle residue, and random ones, two of them with both
/// products.
fn check_set(set: &BootstrapPreset) {
    let name = &set.preset.name;
    let mut b = Bootstrapping::new(&set.bootstrap, set.preset.spec.clone(), 9);
    let t = set.bootstrap.modulus;
    let slots = b.encoder.slots();
    let level = b.bootstrapper.plan().input_level();
    let factor = b.session.params.factor_at(level, t).unwrap();
    let scaled = bfv::Evaluator::new(&b.session.params, b.session.keys.clone()).unwrap();
    let constants = [0, t.value() - 1, t.value() / 2].map(|x| vec![x; slots]);
    for values in constants.into_iter().chain([b.random(), b.random()]) {
        let a = b.encrypt(&values, level, factor);
        let mut x = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
        let mut expected = values;
        assert!(b.decrypt(&x) == expected, "{name}");
        let product = scaled.mul(&x, &x).unwrap();
        while x.level() > level {
            x = b.session.evaluator.mul_rescale(&x, &x).unwrap();
            expected.iter_mut().for_each(|v| *v = t.mul(*v, *v));
            assert!(b.decrypt(&x) == expected, "{name}, level {}", x.level());
        }
        let again = b.bootstrapper.run(&b.session.evaluator, &x).unwrap();
        assert!(b.decrypt(&again) == expected, "{name}, again");
        let squares = b.decrypt(&product);
        assert!(b.decrypt(&b.session.evaluator.rescale(&product).unwrap()) == squares, "{name}");
    }
    for _ in 2..VECTORS {
        let values = b.random();
        let a = b.encrypt(&values, level, factor);
        let x = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
        assert!(b.decrypt(&x) == values, "{name}");
    }
}
