//! Bootstrapping of arrays, and its sets of parameters.

use super::{
    Engine, IntegerArray, Leveled as _, Scheme, Setting,
    setting::{check_slots, modulus, most_slots},
};
use crate::array::{ArrayError, Result};
use std::sync::{Arc, PoisonError, atomic::Ordering::Relaxed};
use sudare::{
    circuits::exact::bootstrap::{
        self, BootstrapPlan, BootstrapPreset, BootstrapSpec, Bootstrapper,
    },
    exact::{self, BatchEncoder, Params, Spec},
};

/// Number of ciphertexts that are bootstrapped, or looked up in tables, together. It is large enough to share the reading of
/// keys and matrices, and small enough that intermediate results do not fill the memory.
pub(crate) const TOGETHER: usize = 4;

/// Returns the bootstrapping set of this name. For an insecure ring of degree `2^n`, pass `n` as
/// `insecure_log_n`. The set then keeps its number of levels, more than bootstrapping of fewer slots
/// needs.
///
/// # Errors
/// [`sudare::Error::UnknownPreset`]; [`sudare::Error::NoSlots`] for a ring where the modulus of the
/// set has no slots.
pub fn bootstrapping_set(
    name: &str,
    insecure_log_n: Option<u32>,
) -> sudare::Result<BootstrapPreset> {
    sized(bootstrap::preset(name)?, insecure_log_n)
}

/// Returns the smallest bootstrapping set for arrays modulo `t` that leaves `depth` levels: a named
/// set, or one that [`bootstrap::choose`] makes.
///
/// # Errors
/// [`sudare::Error::InvalidSpec`], which names the maximum number of levels, or the reason why
/// there are no levels; [`sudare::Error::NoSlots`]; the errors of
/// [`sudare::exact::Modulus::from_value`].
pub fn plan_bootstrapping(t: u128, depth: u32) -> sudare::Result<BootstrapPreset> {
    let modulus = modulus(t, |_| Some(*bootstrap::RINGS.end()))?;
    check_slots(modulus, *bootstrap::RINGS.end())?;
    // Only sets whose slots match the slots of arrays are usable.
    let holds = |set: &BootstrapPreset| {
        let way = &set.bootstrap;
        let spec = &set.preset.spec;
        way.modulus == modulus
            && BatchEncoder::most_slots(way.modulus, spec.log_n) == Some(way.log_slots)
    };
    let levels = |set: &BootstrapPreset| {
        let way = &set.bootstrap;
        let levels = set.preset.spec.q_bits.len() as u32;
        levels.saturating_sub(1 + way.slots_to_coeffs.len() as u32)
    };
    let mut sets: Vec<_> = bootstrap::presets().into_iter().filter(holds).collect();
    // The first set with enough levels is taken: of the smallest ring, and there of the fewest
    // levels.
    sets.sort_by_key(|set| (set.preset.spec.log_n, levels(set)));
    let named = !sets.is_empty();
    // Other moduli have no named set. Sets are made one ring at a time, until one has the depth.
    let chosen = bootstrap::RINGS.filter(|_| !named).map(|log_n| bootstrap::choose(modulus, log_n));
    let mut most = 0;
    let mut refused = None;
    for set in sets.into_iter().map(Ok).chain(chosen) {
        match set {
            Ok(set) if !holds(&set) => {}
            Ok(set) if levels(&set) >= depth => return Ok(set),
            Ok(set) => most = most.max(levels(&set)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if most == 0 => Err(error),
        _ => Err(sudare::Error::InvalidSpec {
            field: "depth",
            problem: format!(
                "{depth} levels in a row are too many: bootstrapping leaves at most {most}; choose at \
                 most that depth"
            ),
        }),
    }
}

/// Returns the size in bytes of the matrices of bootstrapping, which an [`Engine`] prepares when it
/// first bootstraps.
#[must_use]
pub fn matrix_bytes(params: &Params, plan: &BootstrapPlan) -> u64 {
    plan.matrix_bytes(params)
}

/// Returns a set in a ring of another degree, if one is passed.
fn sized(mut set: BootstrapPreset, insecure_log_n: Option<u32>) -> sudare::Result<BootstrapPreset> {
    let Some(log_n) = insecure_log_n else { return Ok(set) };
    let spec = &mut set.preset.spec;
    let way = &mut set.bootstrap;
    (spec.log_n, spec.insecure) = (log_n, true);
    way.log_slots = most_slots(way.modulus, log_n)?.min(way.log_slots);
    let layers = way.log_slots.saturating_sub(1);
    // The number of factors stays the same, so that the levels match the set.
    let split = |factors: &[u32]| -> Vec<u32> {
        let count = factors.len() as u32;
        (0..count).map(|i| layers * (i + 1) / count - layers * i / count).collect()
    };
    (way.slots_to_coeffs, way.coeffs_to_slots) =
        (split(&way.slots_to_coeffs), split(&way.coeffs_to_slots));
    Ok(set)
}

impl Setting {
    /// Creates a setting as [`Setting::new`] does, with the bootstrapping of the parameters of this
    /// name, if any. The ring may have any size.
    ///
    /// # Errors
    /// The errors of [`Setting::new`], which rejects sets whose slots do not match the slots of
    /// arrays; [`BootstrapSpec::plan`].
    pub fn named(name: &str, params: Params, scheme: Scheme, signed: bool) -> sudare::Result<Self> {
        let Spec { log_n, insecure, .. } = *params.spec();
        let sets = bootstrap::candidates(name).unwrap_or_default().into_iter();
        let mut sets = sets.filter_map(|set| sized(set, insecure.then_some(log_n)).ok());
        let setting = Self::new(params, scheme, signed)?;
        match sets.find(|set| set.preset.spec == *setting.params().spec()) {
            Some(set) => setting.with_bootstrapping(&set.bootstrap),
            None => Ok(setting),
        }
    }

    /// Returns the setting with bootstrapping, so that engines bootstrap where too few levels are
    /// left.
    ///
    /// # Errors
    /// [`sudare::Error::Circuit`] for a bootstrapping whose number of slots differs from arrays, or
    /// that leaves no level; the errors of [`BootstrapSpec::plan`].
    pub fn with_bootstrapping(&self, spec: &BootstrapSpec) -> sudare::Result<Self> {
        let params = self.params();
        let plan = match self.scheme() {
            Scheme::Bgv => spec.plan(params, Params::factor_at),
            Scheme::Bfv => spec.plan(params, Params::fresh_factor),
        }?;
        let slots = 1 << spec.log_slots;
        // Without a level above the input, the result could be used for nothing but bootstrapping.
        if slots != self.slots() || spec.modulus != self.modulus() || plan.usable_levels() == 0 {
            return Err(sudare::Error::Circuit(format!(
                "{slots} slots modulo {} are bootstrapped and {} levels left, but arrays have {} \
                 modulo {} and need a level: choose another way to bootstrap",
                spec.modulus,
                plan.usable_levels(),
                self.slots(),
                self.modulus()
            )));
        }
        Ok(self.bootstrapped_by(plan))
    }

    /// Returns the levels of a new array: the number of successive products before it has to be
    /// bootstrapped.
    #[must_use]
    pub fn usable_levels(&self) -> u32 {
        let top = self.params().top().0;
        self.bootstrapping().map_or(top, |plan| top.saturating_sub(plan.input_level().0))
    }
}

impl Engine {
    /// Returns the array with its blocks bootstrapped, at [`BootstrapPlan::output_level`]. The
    /// array may have any level down to the input level of bootstrapping. It keeps the new blocks,
    /// so this happens once.
    ///
    /// The first call prepares matrices, which takes seconds and gigabytes in the named sets.
    /// Bootstrapping fails with a probability of `2^`[`BootstrapPlan::log2_failure`] per block, and
    /// then elements are wrong.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for a setting without bootstrapping;
    /// [`sudare::Error::EphemeralSecretMismatch`] for keys without it;
    /// [`sudare::Error::LevelExhausted`], [`sudare::Error::NoiseExhausted`] for an array below the
    /// lowest level, or with too large errors there; [`sudare::Error::ParamsMismatch`];
    /// [`sudare::Error::KeyMismatch`]; [`sudare::Error::MissingGaloisKey`].
    pub fn bootstrap(&self, a: &IntegerArray) -> Result<IntegerArray> {
        let Some(plan) = self.setting.bootstrapping() else {
            return Err(ArrayError::Argument {
                op: "bootstrap",
                problem: "these parameters cannot bootstrap: choose a set for bootstrapping".into(),
            });
        };
        self.check(a)?;
        if let Some(blocks) = a.blocks.refreshed() {
            return Ok(IntegerArray { blocks: blocks.clone(), ..a.clone() });
        }
        // An array below that level stays there, so that bootstrapping names the level in its
        // error.
        let input = self.lowered(a, plan.input_level().min(a.level()))?;
        let bootstrapper = self.bootstrapper(plan)?;
        let mut blocks = Vec::with_capacity(input.blocks.len());
        for part in input.blocks.chunks(TOGETHER) {
            blocks.extend(bootstrapper.run_many(self.exact(), part)?);
        }
        self.bootstraps.fetch_add(blocks.len() as u64, Relaxed);
        Ok(IntegerArray { blocks: a.blocks.keep_refreshed(blocks.into()).clone(), ..a.clone() })
    }

    fn bootstrapper(
        &self,
        plan: &BootstrapPlan,
    ) -> sudare::Result<Arc<Bootstrapper<exact::Evaluator>>> {
        // The value is set only when it is complete, so a panic of another thread leaves it usable.
        let mut held = self.bootstrapper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bootstrapper) = &*held {
            return Ok(Arc::clone(bootstrapper));
        }
        let bootstrapper = Arc::new(plan.prepare(self.exact())?);
        *held = Some(Arc::clone(&bootstrapper));
        Ok(bootstrapper)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        PlainIntegers,
        tests::{Session, at, values},
    };
    use super::*;
    use std::sync::LazyLock;
    use sudare::{
        Error,
        rlwe::{KeyGenerator, Level},
    };

    const NAME: &str = "n15-t65537-boot";

    fn setting(scheme: Scheme) -> Setting {
        let set = bootstrapping_set(NAME, Some(8)).unwrap();
        Setting::named(NAME, Params::new(set.preset.spec).unwrap(), scheme, true).unwrap()
    }

    /// The levels of the set with 256 slots.
    static SESSIONS: LazyLock<[Session; 2]> =
        LazyLock::new(|| [Scheme::Bgv, Scheme::Bfv].map(|scheme| Session::of(setting(scheme))));

    fn input_level(s: &Session) -> Level {
        s.setting.bootstrapping().unwrap().input_level()
    }

    #[test]
    fn arrays_come_back_at_their_highest_level() {
        for s in SESSIONS.iter() {
            let top = s.setting.params().top();
            assert_eq!(s.setting.usable_levels(), top.0 - input_level(s).0);
            for shape in [&[][..], &[7], &[2, 128], &[1300]] {
                let a = values(shape, 3);
                let b = values(shape, 8);
                let mut x = s.encrypt(&a);
                let y = s.encrypt(&b);
                while x.level() > input_level(s) {
                    x = s.engine.mul_plain_array(&x, &PlainIntegers::scalar(20_000)).unwrap();
                }
                let factor = (0..s.setting.usable_levels())
                    .fold(1, |product, _| product * 20_000i128 % 65537);
                let fresh = s.engine.bootstrap(&x).unwrap();
                assert_eq!((fresh.level(), fresh.padding_is_zero()), (top, x.padding_is_zero()));
                s.expect(&fresh, shape, |i| at(&a, i) * factor);
                // Kept, whatever the shape.
                let again = s.engine.bootstrap(&x.reshaped(&[a.values.len()]).unwrap()).unwrap();
                let polys = |a: &IntegerArray| a.blocks()[0].polys().as_ptr();
                assert_eq!(polys(&again), polys(&fresh));
                // With the factor of its level.
                s.expect(&s.engine.add(&fresh, &y).unwrap(), shape, |i| {
                    at(&a, i) * factor + at(&b, i)
                });
                s.expect(&s.engine.bootstrap(&y).unwrap(), shape, |i| at(&b, i));
            }
        }
    }

    #[test]
    fn every_set_with_slots_of_arrays_bootstraps_them() {
        for set in bootstrap::presets() {
            let name = set.preset.name.as_str();
            let t = set.bootstrap.modulus;
            let spec = Spec { log_n: 8, insecure: true, ..set.preset.spec };
            let params = Params::new(spec).unwrap();
            for scheme in [Scheme::Bgv, Scheme::Bfv] {
                let setting = Setting::named(name, params.clone(), scheme, true);
                if t.prime() == 127 {
                    assert!(matches!(setting, Err(Error::NoSlots { .. })), "{name}: {setting:?}");
                    continue;
                }
                let s = Session::of(setting.unwrap());
                let a = PlainIntegers::new(&[3, 50], (-75..75).collect());
                let low = s.engine.lowered(&s.encrypt(&a), input_level(&s)).unwrap();
                let square = s.engine.mul(&low, &low).unwrap();
                assert!(s.engine.bootstraps() > 0 && square.level() > input_level(&s), "{name}");
                s.expect(&square, &[3, 50], |i| at(&a, i) * at(&a, i));
            }
        }
    }

    #[test]
    fn programs_may_be_of_any_depth() {
        for s in SESSIONS.iter() {
            let a = values(&[2, 100], 5);
            let e = &s.engine;
            let t = s.setting.modulus();
            let x = s.encrypt(&a);
            // Fermat: 0 where an element is 0, and 1 elsewhere, 16 levels deep.
            let found = e.power(&x, 65536).unwrap();
            s.expect(&found, &[2, 100], |i| (at(&a, i) != 0).into());
            assert!(found.level() >= input_level(s));
            let mut low = x.clone();
            while low.level() > input_level(s) {
                low = e.mul(&low, &low).unwrap();
            }
            let power = 1 << s.setting.usable_levels();
            let value = |i| t.pow(t.reduce_i128(at(&a, i)), power) as i128;
            // Every operation gets levels when they have run out.
            s.expect(&e.mul(&low, &x).unwrap(), &[2, 100], |i| value(i) * at(&a, i));
            s.expect(&e.mul(&x, &low).unwrap(), &[2, 100], |i| value(i) * at(&a, i));
            s.expect(&e.mul_plain_array(&low, &a).unwrap(), &[2, 100], |i| value(i) * at(&a, i));
            s.expect(&e.add(&low, &x).unwrap(), &[2, 100], |i| value(i) + at(&a, i));
            s.expect(&e.polynomial(&low, &[1, 0, 2]).unwrap(), &[2, 100], |i| {
                1 + 2 * (value(i) * value(i) % 65537)
            });
            s.expect(&e.matmul_left(&values(&[1, 2], 1), &low).unwrap(), &[1, 100], |i| {
                let row = values(&[1, 2], 1);
                at(&row, 0) * value(i) + at(&row, 1) * value(i + 100)
            });
            let total: i128 = (0..200).map(value).sum();
            let sum = e.sum(&low).unwrap();
            s.expect(&sum, &[], |_| total);
            let square = t.reduce_i128(total * total) as i128;
            s.expect(&e.mul(&sum, &sum).unwrap(), &[], |_| square);
            // Errors of many sums at the lowest level end as all do.
            let mut doubled = low.clone();
            for _ in 0..40 {
                doubled = e.add(&doubled, &doubled).unwrap();
            }
            let factor = t.pow(2, 40) as i128;
            s.expect(&doubled, &[2, 100], |i| factor * value(i));
            // More levels at once than there are.
            let deep = e.polynomial(&x, &[1; 300]).unwrap_err();
            assert!(matches!(deep, ArrayError::LevelExhausted { needed: 9, .. }), "{deep}");
        }
    }

    #[test]
    fn what_cannot_be_bootstrapped_is_refused() {
        let s = &SESSIONS[0];
        let x = s.encrypt(&values(&[3], 1));
        let set = bootstrapping_set(NAME, Some(8)).unwrap();
        let plain = Setting::new(s.setting.params().clone(), Scheme::Bgv, true).unwrap();
        assert!(
            Setting::named("", plain.params().clone(), Scheme::Bgv, true)
                .is_ok_and(|setting| setting.bootstrapping().is_none())
        );
        // Parameters that differ from the parameters of the name.
        let other = bootstrapping_set("n16-t65537-boot", Some(8)).unwrap();
        let other = Params::new(other.preset.spec).unwrap();
        let other = Setting::named(NAME, other, Scheme::Bgv, true).unwrap();
        assert!(other.bootstrapping().is_none());

        let keyless = |setting: &Setting| {
            let mut keygen = KeyGenerator::new(plain.params().rlwe()).unwrap();
            let secret = keygen.secret_key().unwrap();
            let keys = keygen.evaluation_keys(&secret, &plain.required_keys().unwrap()).unwrap();
            Engine::new(setting, Arc::new(keys)).unwrap()
        };
        let refused = keyless(&plain).bootstrap(&x).unwrap_err();
        assert!(matches!(refused, ArrayError::Argument { op: "bootstrap", .. }), "{refused}");
        let refused = keyless(&s.setting).bootstrap(&x).unwrap_err();
        assert!(matches!(refused, ArrayError::Library(_)), "{refused}");

        let fewer = BootstrapSpec {
            log_slots: 7,
            slots_to_coeffs: vec![3, 3],
            coeffs_to_slots: vec![2, 2, 2],
            ..set.bootstrap
        };
        assert!(matches!(plain.with_bootstrapping(&fewer), Err(Error::Circuit(_))));
        assert!(matches!(bootstrapping_set("n15", None), Err(Error::UnknownPreset { .. })));
        let name = |t, depth| plan_bootstrapping(t, depth).map(|set| set.preset.name);
        assert_eq!(name(65537, 7).as_deref(), Ok("n15-t65537-boot"));
        assert_eq!(name(65537, 8).as_deref(), Ok("n16-t65537-boot"));
        let refused = name(65537, 21).unwrap_err();
        assert!(refused.to_string().contains("at most 20"), "{refused}");
        assert!(matches!(name(127, 1), Err(Error::NoSlots { .. })));
        assert!(matches!(name(255, 1), Err(Error::PlaintextModulusNotPrime { .. })));
        assert_eq!(name(12289, 1).as_deref(), Ok("n15-t12289-auto"));
        // Found again by its name.
        let small = bootstrapping_set("n15-t12289-auto", Some(8)).unwrap();
        let params = Params::new(small.preset.spec.clone()).unwrap();
        let setting = Setting::named("n15-t12289-auto", params, Scheme::Bgv, true).unwrap();
        assert_eq!(setting.bootstrapping().map(|plan| plan.spec()), Some(&small.bootstrap));
        let few = bootstrapping_set("n16-t786433-boot", Some(10)).unwrap();
        assert_eq!((few.bootstrap.log_slots, few.preset.spec.insecure), (10, true));
    }

    #[test]
    #[ignore = "plans in the largest ring"]
    fn other_primes_take_the_smallest_ring_that_leaves_the_levels() {
        let deeper = plan_bootstrapping(12289, 12).unwrap();
        assert_eq!(deeper.preset.name, "n16-t12289-auto");
        assert_eq!(bootstrapping_set("n16-t12289-auto", None), Ok(deeper));
        let refused = plan_bootstrapping(12289, 90).unwrap_err();
        assert!(refused.to_string().contains("bootstrapping leaves at most"), "{refused}");
    }
}
