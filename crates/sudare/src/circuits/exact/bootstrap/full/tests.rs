use super::*;
use crate::{
    bfv,
    circuits::exact::{
        bootstrap::{choose::check_refreshed, tests::spec},
        sim,
    },
    exact::{Ciphertext, Spec, tests::Session},
    rlwe::UpperSpec,
};

fn chain(log_n: u32, t: Modulus) -> Spec {
    Spec { insecure: true, ..Spec::uniform(log_n, t, 55.0, 11, 52.0, vec![55.0; 3]) }
}

struct Bootstrapping {
    session: Session,
    slots: Slots,
    bootstrapper: FullBootstrapper<exact::Evaluator>,
}

impl Bootstrapping {
    fn new(spec: &BootstrapSpec, chain: Spec, seed: u8) -> Self {
        let params = Params::new(chain.clone()).unwrap();
        let plan = spec.plan_full(&params, Params::factor_at).unwrap();
        // The requested keys, one for products, and no others.
        let keys = plan.required_keys().clone().relinearize(params.top());
        let session = Session::with_exactly(chain, seed, &keys);
        let slots = spec.full_slots(params.log_n()).unwrap();
        let bootstrapper = plan.prepare(&session.evaluator).unwrap();
        Self { session, slots, bootstrapper }
    }

    fn modulus(&self) -> Modulus {
        self.slots.ring().modulus()
    }

    /// Elements with these coefficients, in every slot.
    fn elements(&self, coefficient: impl Fn(usize, usize) -> u128) -> Vec<Vec<u128>> {
        let element = |i| (0..self.slots.ring().degree()).map(|j| coefficient(i, j)).collect();
        (0..self.slots.count()).map(element).collect()
    }

    fn random(&mut self) -> Vec<Vec<u128>> {
        let t = self.modulus();
        self.slots.decode(&self.session.random(t)).unwrap()
    }

    fn encrypt(&mut self, elements: &[Vec<u128>], level: Level, factor: Unit) -> Ciphertext {
        let plain = self.slots.encode(elements).unwrap();
        self.session.encrypt_at(&plain, level, factor)
    }

    fn decrypt(&self, a: &Ciphertext) -> Vec<Vec<u128>> {
        let plain = self.session.decryptor.decrypt(a).unwrap();
        self.session.assert_holds(a, &plain);
        self.slots.decode(&plain).unwrap()
    }

    fn product(&self, a: &[Vec<u128>], b: &[Vec<u128>]) -> Vec<Vec<u128>> {
        a.iter().zip(b).map(|(a, b)| self.slots.ring().mul(a, b).unwrap()).collect()
    }

    /// Refreshes these elements from a level, then their product with others.
    fn check(&mut self, elements: &[Vec<u128>], level: Level) {
        let t = self.modulus();
        let name = format!("{}, level {level}", self.modulus());
        let plan = self.bootstrapper.plan().clone();
        let factor = self.session.params.factor_at(level, t).unwrap();
        let a = self.encrypt(elements, level, factor);
        let fresh = self.bootstrapper.run(&self.session.evaluator, &a).unwrap();
        assert_eq!(fresh.level(), plan.output_level());
        assert!(self.decrypt(&fresh) == elements, "{name}");
        let others = self.random();
        let b = self.encrypt(&others, self.session.params.top(), fresh.factor());
        let product = self.session.evaluator.mul_rescale(&fresh, &b).unwrap();
        assert!(self.decrypt(&product) == self.product(elements, &others), "{name}, product");
    }
}

/// Slots of degree 1 to 16, modulo primes of both kinds, with all slots and with fewer.
const TOYS: [(u64, u32, u32, u32); 9] = [
    (17, 1, 6, 3),
    (257, 2, 7, 6),
    (257, 1, 6, 6),
    (97, 2, 6, 4),
    (13, 1, 5, 1),
    (31, 1, 6, 4),
    (31, 2, 5, 4),
    (127, 2, 8, 6),
    (47, 3, 5, 3),
];

#[test]
fn every_coefficient_comes_back() {
    for (p, r, log_n, log_slots) in TOYS {
        let spec = spec(p, r, log_slots);
        let mut b = Bootstrapping::new(&spec, chain(log_n, spec.modulus), 3);
        let t = spec.modulus;
        let plan = b.bootstrapper.plan().clone();
        assert_eq!(plan.slices() << log_slots, 1 << log_n);
        assert!(plan.usable_levels() > 0);
        assert_eq!(plan.log2_failure(), f64::NEG_INFINITY);
        let last = t.value() - 1;
        let corner = b.elements(|i, j| if i + j == 0 { last } else { 0 });
        let zeta = b.elements(|_, j| u128::from(j == b.slots.ring().degree() - 1));
        let constants = [0, last, 1].map(|c| b.elements(|_, _| c));
        let random = [b.random(), b.random()];
        for elements in constants.into_iter().chain([corner, zeta]).chain(random) {
            b.check(&elements, plan.input_level());
        }
        let elements = b.random();
        b.check(&elements, b.session.params.top());
    }
}

#[test]
fn either_product_bootstraps_every_coefficient() {
    for (p, r, log_n, log_slots) in [(17, 1, 6, 3), (31, 1, 6, 4)] {
        let spec = spec(p, r, log_slots);
        let mut b = Bootstrapping::new(&spec, chain(log_n, spec.modulus), 5);
        let params = b.session.params.clone();
        let t = spec.modulus;
        let plan = spec.plan_full_with(&params, Tensor::Scaled, Params::fresh_factor).unwrap();
        assert_eq!(plan.required_keys(), b.bootstrapper.plan().required_keys());
        let e = bfv::Evaluator::new(&params, b.session.keys.clone()).unwrap();
        let elements = b.random();
        let level = plan.input_level();
        let a = b.encrypt(&elements, level, params.fresh_factor(level, t).unwrap());
        let fresh = plan.prepare(&e).unwrap().run(&e, &a).unwrap();
        assert!(b.decrypt(&fresh) == elements, "{t}");
        assert!(e.factor(&fresh).unwrap().matches(Unit::one(t)));
        assert_eq!(plan.simulate(&params).unwrap().output, fresh.form());
    }
}

#[test]
fn coefficients_come_back_through_upper_levels() {
    for (p, log_slots) in [(257, 6), (31, 4)] {
        let spec = spec(p, 1, log_slots);
        let q_bits = [vec![vec![55.0]], vec![vec![45.0]; 4]].concat();
        let upper =
            Some(UpperSpec { base_bits: vec![235.0 / 5.0; 5], levels_bits: vec![vec![50.0]; 6] });
        let chain = Spec { q_bits, upper, ..chain(7, spec.modulus) };
        let mut b = Bootstrapping::new(&spec, chain, 4);
        assert_eq!(b.bootstrapper.plan().top(), b.session.params.upper_top());
        let elements = b.random();
        b.check(&elements, b.bootstrapper.plan().input_level());
    }
}

#[test]
fn factors_of_inputs_are_kept_and_stages_are_told() {
    let spec = spec(31, 1, 4);
    let mut b = Bootstrapping::new(&spec, chain(7, spec.modulus), 6);
    let t = spec.modulus;
    let plan = b.bootstrapper.plan().clone();
    let level = plan.input_level();
    let planned = b.session.params.factor_at(level, t).unwrap();
    let out = b.session.params.factor_at(plan.output_level(), t).unwrap();
    let factor = Unit::new(3, t).unwrap();
    let elements = b.random();
    let a = b.encrypt(&elements, level, factor);
    let mut stages = Vec::new();
    let e = &b.session.evaluator;
    let fresh = b.bootstrapper.run_with(e, &a, |stage| stages.push(stage)).unwrap();
    assert_eq!(b.decrypt(&fresh), elements);
    assert!(fresh.factor().matches(out * factor / planned));
    // Eight slices, four at a time.
    let slices = [Stage::Slices, Stage::CoeffsToSlots, Stage::DigitRemoval];
    let expected = [&[Stage::SlotsToCoeffs, Stage::Raise][..], &slices, &slices];
    assert_eq!(stages, [&expected.concat()[..], &[Stage::Slices]].concat());
}

/// There is one key per halving, for any number of slices.
#[test]
fn keys_do_not_grow_with_the_slices() {
    let count = |log_n| {
        let spec = spec(257, 1, 6);
        let params = Params::new(chain(log_n, spec.modulus)).unwrap();
        let plan = spec.plan_full(&params, Params::factor_at).unwrap();
        assert_eq!(plan.slices(), 1 << (log_n - 6));
        plan.required_keys().count()
    };
    assert_eq!(count(9) - count(8), 1);
    assert_eq!(count(12) - count(8), 4);
}

/// Without the product with `delta`, or with one matrix for all slices, some slices would be wrong.
#[test]
fn slices_of_both_kinds_are_integers_in_slots() {
    let t = Modulus::new(127, 2).unwrap();
    let encoder = IntegerEncoder::new(t, 9, 6).unwrap();
    let halvings = Halving::of_slots(&encoder, 3).unwrap();
    let x = PlainPoly::new(t, (0..512u128).map(|i| (i * i * 31 + 7) % t.value()).collect());
    let mut slices = vec![x.unwrap()];
    for halving in &halvings {
        slices = slices.iter().flat_map(|x| halving.apply(x)).collect();
    }
    assert_eq!(slices.len(), 8);
    for slice in &slices {
        encoder.decode(slice).unwrap();
    }
    let inverse = Halving::excess_inverse(&encoder).unwrap().unwrap();
    let values = encoder.decode(&inverse).unwrap();
    assert!(values.iter().any(|&value| value != values[0]));
    let batch = IntegerEncoder::new(Modulus::new(257, 2).unwrap(), 9, 7).unwrap();
    assert_eq!(Halving::excess_inverse(&batch).unwrap(), None);
}

#[test]
fn what_does_not_fit_is_refused() {
    let spec = spec(257, 1, 6);
    let mut b = Bootstrapping::new(&spec, chain(7, spec.modulus), 8);
    let params = b.session.params.clone();
    let t = spec.modulus;
    let elements = b.random();
    let run = |b: &Bootstrapping, a| b.bootstrapper.run(&b.session.evaluator, a).map(drop);
    let below = b.encrypt(&elements, Level(1), Unit::one(t));
    let exhausted = Error::LevelExhausted { op: OP, needed: 2, level: Level(1) };
    assert_eq!(run(&b, &below), Err(exhausted));
    let other = b.session.random(Modulus::new(17, 1).unwrap());
    let other = b.session.encrypt(&other);
    assert!(matches!(run(&b, &other), Err(Error::PlaintextMismatch { .. })));
    // Keys of slim bootstrapping alone.
    let slim = spec.plan(&params, Params::factor_at).unwrap();
    let slim = Session::with_exactly(chain(7, t), 8, slim.required_keys());
    let a = slim.encryptor.encrypt(&b.slots.encode(&elements).unwrap()).unwrap();
    let error = b.bootstrapper.run(&slim.evaluator, &a).map(drop).unwrap_err();
    assert!(matches!(error, Error::MissingGaloisKey { .. }), "{error}");

    let plan = |spec: BootstrapSpec, chain: Spec| {
        spec.plan_full(&Params::new(chain).unwrap(), Params::factor_at).map(drop)
    };
    let few = Spec { q_bits: vec![vec![50.0]; 6], ..chain(7, t) };
    assert!(matches!(plan(spec.clone(), few), Err(Error::LevelExhausted { .. })));
    let no_slots = BootstrapSpec { modulus: Modulus::new(2, 8).unwrap(), ..spec.clone() };
    assert!(matches!(plan(no_slots, chain(7, t)), Err(Error::NoSlots { .. })));
    let layers = BootstrapSpec { coeffs_to_slots: vec![3, 3], ..spec };
    assert!(matches!(plan(layers, chain(7, t)), Err(Error::Circuit(_))));
}

/// The usable levels of each set, and the bits of security of its weakest key.
const SETS: [(&str, u32); 6] = [
    ("n15-t257-full", 14),
    ("n15-t257-2-full", 7),
    ("n15-t127-full", 15),
    ("n15-t127-2-full", 10),
    ("bfv-thesis-full-127", 7),
    ("bfv-thesis-full-257", 4),
];

/// Checks errors in a bootstrapping, in products down to its input level, and in a bootstrapping of
/// the result.
fn check_errors(plan: &FullPlan, params: &Params) -> Result<()> {
    let e = sim::Evaluator::new(params, plan.required_keys());
    let bootstrapper = plan.prepare(&e)?;
    let input = (plan.input_level(), plan.spec().modulus);
    check_refreshed(&e, params, input, |x| bootstrapper.run(&e, x))
}

#[test]
fn named_sets_are_as_they_say() {
    let all: Vec<_> = presets().into_iter().chain(reproductions()).collect();
    assert_eq!(all.iter().map(|set| &set.preset.name[..]).collect::<Vec<_>>(), SETS.map(|s| s.0));
    for (set, (name, usable)) in all.iter().zip(SETS) {
        let params = Params::new(set.preset.spec.clone()).unwrap();
        let plan = set.plan(&params, Params::factor_at).unwrap();
        assert_eq!(plan.usable_levels(), usable, "{name}");
        assert!(plan.log2_failure() < -128.0, "{name}: {}", plan.log2_failure());
        let secure = plan.required_keys().key_security(params.rlwe()).unwrap();
        let secure = secure.iter().all(|key| key.security_bits >= 128.0);
        assert_eq!(secure, !set.preset.spec.insecure, "{name}");
        assert_eq!(set.preset.spec.insecure, name.starts_with("bfv-thesis"), "{name}");
        if set.preset.spec.insecure {
            // The modulus printed in the publication.
            assert!(params.rlwe().log2_q(params.upper_top()) <= 558.0, "{name}");
        }
        assert_eq!(check_errors(&plan, &params), Ok(()), "{name}");
        assert_eq!(preset(name).unwrap(), *set);
    }
    assert!(matches!(preset("n15-t257-boot"), Err(Error::UnknownPreset { .. })));
}

/// Checks elements that are 0, the largest or random in every coefficient, and products down to the
/// last level.
fn check_set(name: &str) {
    let set = preset(name).unwrap();
    let mut b = Bootstrapping::new(&set.bootstrap, set.preset.spec.clone(), 9);
    let t = b.modulus();
    let level = b.bootstrapper.plan().input_level();
    let factor = b.session.params.factor_at(level, t).unwrap();
    for elements in [b.elements(|_, _| t.value() - 1), b.random()] {
        let a = b.encrypt(&elements, level, factor);
        let mut x = b.bootstrapper.run(&b.session.evaluator, &a).unwrap();
        assert!(b.decrypt(&x) == elements, "{name}");
        let mut expected = elements;
        while x.level() > level {
            x = b.session.evaluator.mul_rescale(&x, &x).unwrap();
            expected = b.product(&expected, &expected);
            assert!(b.decrypt(&x) == expected, "{name}, level {}", x.level());
        }
    }
}

#[test]
#[ignore = "takes minutes and 2 GiB"]
fn sets_of_the_thesis_bootstrap_every_coefficient() {
    check_set("bfv-thesis-full-127");
    check_set("bfv-thesis-full-257");
}

#[test]
#[ignore = "takes half an hour and 6 GiB"]
fn named_sets_bootstrap_every_coefficient() {
    presets().iter().for_each(|set| check_set(&set.preset.name));
}
