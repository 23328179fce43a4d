use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use sudare::{
    circuits::{Complex, ComplexOps, Trace, bootstrap::Bootstrapper, sim},
    ckks::{Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_arith::{par, real};

use super::{Array, ArrayError, Layout, Result};
use crate::{
    bootstrap::{bootstrapped, restore_headroom},
    maybe_shared::MaybeShared,
};

/// Computes on arrays. Cheap to clone; clones count together.
///
/// Every operation returns a new array at the default scale of its level. The tables below say
/// how many levels it takes; where too few are left it bootstraps, if it can.
pub struct Engine<'a, E: ComplexOps> {
    evaluator: MaybeShared<'a, E>,
    /// The default scale of each level.
    scales: Arc<[Scale]>,
    /// The lowest level that results may have.
    floor: Level,
    bootstrapper: Option<MaybeShared<'a, Bootstrapper<E>>>,
    /// In simulation.
    watch: Option<Watch<E::Ct>>,
    power_rotations: bool,
    counters: Arc<Counters>,
}

impl<E: ComplexOps> Clone for Engine<'_, E> {
    fn clone(&self) -> Self {
        Self {
            evaluator: self.evaluator.clone(),
            scales: Arc::clone(&self.scales),
            bootstrapper: self.bootstrapper.clone(),
            counters: Arc::clone(&self.counters),
            ..*self
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    bootstraps: AtomicU64,
    log_slots: AtomicU32,
    /// Below the highest level, how far results went.
    depth: AtomicU32,
}

/// What an engine has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Ciphertexts bootstrapped.
    pub bootstraps: u64,
    /// `log2` of the most slots of one that was, 0 if none was.
    pub bootstrapped_log_slots: u32,
    /// The lowest level of a result.
    pub lowest_level: Level,
}

/// The keys for any program with [`Engine::with_power_rotations`] that starts at `level`: to
/// relinearise, and of rotations by powers of two in both directions.
#[must_use]
pub fn general_keys(params: &Params, level: Level) -> KeyRequest {
    let powers = (0..params.log_n() - 1).map(|bit| 1i64 << bit);
    let request = KeyRequest::new().relinearize(level);
    request.rotations(params.log_n(), powers.flat_map(|k| [k, -k]), level)
}

impl<'a, E: ComplexOps> Engine<'a, E> {
    /// An engine on `evaluator`, which bootstraps if it is given a way to.
    ///
    /// Results go down to level 0 or, with bootstrapping, to the level that this takes in; in
    /// either case no lower than levels rescale to their default scales.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for an evaluator of other parameters, or a bootstrapping whose
    /// result is not above what it takes in.
    pub fn new(
        evaluator: &'a E,
        params: &Params,
        bootstrapper: Option<&'a Bootstrapper<E>>,
    ) -> Result<Self> {
        Self::with(
            MaybeShared::Borrowed(evaluator),
            params,
            bootstrapper.map(MaybeShared::Borrowed),
        )
    }

    fn with(
        evaluator: MaybeShared<'a, E>,
        params: &Params,
        bootstrapper: Option<MaybeShared<'a, Bootstrapper<E>>>,
    ) -> Result<Self> {
        const OP: &str = "engine";
        let invalid = |problem: &str| Err(ArrayError::Argument { op: OP, problem: problem.into() });
        if evaluator.log_n() != params.log_n() || evaluator.chain() != params.chain() {
            return invalid("the evaluator has other parameters: give those that it was made for");
        }
        let (chain, top) = (params.chain(), params.top());
        let scales: Vec<Scale> = (0..=top.0).map(|level| params.scale_at(Level(level))).collect();
        let rescales = |level: &u32| {
            let (scale, below) = (scales[*level as usize], scales[*level as usize - 1]);
            (scale * scale / chain.divisor(Level(*level))).matches(below)
        };
        let boot = bootstrapper.as_ref().map(|bootstrapper| bootstrapper.plan());
        let highest = boot.map_or(top, |plan| plan.output_level()).0;
        let mut floor = (1..=highest).rev().take_while(rescales).last().map_or(highest, |l| l - 1);
        if let Some(plan) = boot {
            let input = plan.input_level();
            let fits = scales[input.index()].matches(plan.input_scale());
            floor = floor.max(input.0 + u32::from(!fits));
            if floor >= highest {
                return invalid("bootstrapping leaves no level to use: choose another set");
            }
        }
        Ok(Self {
            evaluator,
            scales: scales.into(),
            floor: Level(floor),
            bootstrapper,
            watch: None,
            power_rotations: false,
            counters: Arc::default(),
        })
    }

    /// An engine that rotates by sums of powers of two alone, so that [`general_keys`] are all it
    /// needs. Matrices, which take many rotations, are the slower for it.
    #[must_use]
    pub fn with_power_rotations(self, power_rotations: bool) -> Self {
        Self { power_rotations, ..self }
    }

    /// An engine that rotates as is best with these keys: by sums of powers of two if they have all of
    /// [`general_keys`].
    #[must_use]
    pub fn for_keys(self, params: &Params, keys: &KeyRequest) -> Self {
        let general = general_keys(params, self.highest_level());
        let all = general.galois.iter().all(|(g, level)| keys.galois.get(g) >= Some(level));
        self.with_power_rotations(all)
    }

    /// The evaluator.
    #[must_use]
    pub fn evaluator(&self) -> &E {
        &self.evaluator
    }

    /// The level of new arrays: that of bootstrapped ones, or the top.
    #[must_use]
    pub fn highest_level(&self) -> Level {
        match &self.bootstrapper {
            Some(bootstrapper) => bootstrapper.plan().output_level(),
            None => Level(self.scales.len() as u32 - 1),
        }
    }

    /// The lowest level of results.
    #[must_use]
    pub fn lowest_level(&self) -> Level {
        self.floor
    }

    /// `log2` of the most slots of a block: those that are bootstrapped, or all of the ring.
    #[must_use]
    pub fn log_slots_max(&self) -> u32 {
        match &self.bootstrapper {
            Some(bootstrapper) => bootstrapper.plan().spec().log_slots,
            None => self.evaluator.log_n() - 1,
        }
    }

    /// What has been done since the engine was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let depth = self.counters.depth.load(Relaxed);
        Counts {
            bootstraps: self.counters.bootstraps.load(Relaxed),
            bootstrapped_log_slots: self.counters.log_slots.load(Relaxed),
            lowest_level: Level(self.scales.len() as u32 - 1 - depth),
        }
    }

    /// The array with its blocks bootstrapped, at the highest level.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] without bootstrapping, or for blocks of more slots than it has;
    /// in simulation [`ArrayError::BeyondBound`]; what the evaluator refuses.
    pub fn refresh(&self, a: &Array<E>) -> Result<Array<E>> {
        const OP: &str = "bootstrapping";
        let invalid = |problem: String| Err(ArrayError::Argument { op: OP, problem });
        let Some(bootstrapper) = &self.bootstrapper else {
            return invalid("the engine was made without: give it a bootstrapper".into());
        };
        let (plan, own) = (bootstrapper.plan(), a.layout.log_slots());
        let log_slots = plan.spec().log_slots;
        if own > log_slots {
            return invalid(format!(
                "blocks of 2^{own} slots exceed the 2^{log_slots} that it was planned for: plan \
                 it for as many"
            ));
        }
        let blocks = match a.refreshed.get() {
            Some(blocks) => blocks.clone(),
            None => {
                self.check_magnitudes(OP, a, real::exp2(plan.log2_bound()))?;
                let before: Vec<&E::Ct> = a.blocks.iter().map(|block| &**block).collect();
                let mut blocks = bootstrapped(&*self.evaluator, bootstrapper, &before)?;
                if let Some(watch) = self.watch {
                    let pairs = blocks.iter_mut().zip(before);
                    pairs.for_each(|(after, before)| (watch.restore_headroom)(after, before));
                }
                let blocks: Vec<_> = blocks.into_iter().map(Arc::new).collect();
                self.counters.bootstraps.fetch_add(blocks.len() as u64, Relaxed);
                self.counters.log_slots.fetch_max(own, Relaxed);
                a.refreshed.get_or_init(|| blocks).clone()
            }
        };
        Ok(Array {
            layout: a.layout.clone(),
            level: plan.output_level(),
            scale: self.scale_at(plan.output_level()),
            blocks,
            padding_is_zero: a.padding_is_zero,
            refreshed: Arc::default(),
        })
    }

    fn check_magnitudes(&self, op: &'static str, a: &Array<E>, most: f64) -> Result<()> {
        let Some(Watch { magnitude, .. }) = self.watch else { return Ok(()) };
        let found = largest(a.blocks.iter().map(|block| magnitude(block)));
        // Noise and rounding may reach beyond.
        if found <= most * (1.0 + 1e-3) {
            Ok(())
        } else {
            Err(ArrayError::BeyondBound { op, found, most })
        }
    }

    pub(super) fn scale_at(&self, level: Level) -> Scale {
        self.scales[level.index()]
    }

    /// Of blocks at `level` and the default scale there.
    pub(super) fn array(
        &self,
        layout: Layout,
        level: Level,
        blocks: Vec<Arc<E::Ct>>,
        padding_is_zero: bool,
    ) -> Array<E> {
        debug_assert_eq!(blocks.len(), layout.blocks());
        let top = self.scales.len() as u32 - 1;
        self.counters.depth.fetch_max(top.saturating_sub(level.0), Relaxed);
        let scale = self.scale_at(level);
        let refreshed = Arc::new(OnceLock::new());
        Array { layout, level, scale, blocks, padding_is_zero, refreshed }
    }

    /// Refuses an array of other parameters.
    fn check(&self, a: &Array<E>) -> Result<()> {
        let known = self.scales.get(a.level.index()).is_some_and(|scale| scale.matches(a.scale));
        if known && a.layout.log_slots() < self.evaluator.log_n() {
            return Ok(());
        }
        Err(ArrayError::Blocks {
            what: "parameters of an array",
            found: format!("level {}, scale {} and {} slots", a.level, a.scale, a.layout.slots()),
            needed: format!(
                "levels up to {} at their default scales and up to 2^{} slots",
                self.scales.len() - 1,
                self.evaluator.log_n() - 1
            ),
        })
    }

    /// The array with as many levels above the lowest, bootstrapped if it must be.
    pub(super) fn ready(&self, op: &'static str, a: &Array<E>, needed: u32) -> Result<Array<E>> {
        self.check(a)?;
        let left = |level: Level| level.0.saturating_sub(self.floor.0);
        if a.level >= Level(self.floor.0 + needed) {
            return Ok(a.clone());
        }
        let highest = left(self.highest_level());
        if self.bootstrapper.is_some() && highest >= needed {
            return self.refresh(a);
        }
        Err(ArrayError::LevelExhausted { op, needed, left: left(a.level) })
    }

    /// The same at a level at or below its own, and the default scale there.
    pub(super) fn lowered(&self, a: &Array<E>, level: Level) -> Result<Array<E>> {
        if a.level == level {
            return Ok(a.clone());
        }
        let scale = self.scale_at(level);
        let blocks =
            self.each(&a.blocks, |block| self.evaluator.match_scale(block, level, scale))?;
        Ok(self.array(a.layout.clone(), level, blocks, a.padding_is_zero))
    }

    /// Both at one level with as many levels above the lowest.
    pub(super) fn aligned(
        &self,
        op: &'static str,
        a: &Array<E>,
        b: &Array<E>,
        needed: u32,
    ) -> Result<[Array<E>; 2]> {
        let [a, b] = [self.ready(op, a, needed)?, self.ready(op, b, needed)?];
        let level = a.level.min(b.level);
        Ok([self.lowered(&a, level)?, self.lowered(&b, level)?])
    }

    /// `f` of every block.
    pub(super) fn each(
        &self,
        blocks: &[Arc<E::Ct>],
        f: impl Fn(&E::Ct) -> sudare::Result<E::Ct> + Send + Sync,
    ) -> Result<Vec<Arc<E::Ct>>> {
        Ok(par::try_map(blocks, |block| f(block).map(Arc::new))?)
    }

    /// Blocks read as `2^log_slots` slots.
    pub(super) fn widened(&self, a: &Array<E>, log_slots: u32) -> Result<Array<E>> {
        if a.layout.log_slots() == log_slots {
            return Ok(a.clone());
        }
        let blocks =
            self.each(&a.blocks, |block| self.evaluator.with_log_slots(block, log_slots))?;
        let layout = a.layout.with_log_slots(log_slots);
        Ok(Array { layout, blocks, refreshed: Arc::default(), ..a.clone() })
    }

    /// The scale of a factor that brings what is at `level` to the default scale one level down.
    pub(super) fn factor_scale(&self, level: Level) -> Scale {
        let below = self.scale_at(Level(level.0 - 1));
        below * self.evaluator.chain().divisor(level) / self.scale_at(level)
    }

    /// Products of blocks at `level` with one vector of slots, one level down.
    pub(super) fn times_vector(
        &self,
        level: Level,
        blocks: &[&E::Ct],
        values: &[f64],
    ) -> Result<Vec<Arc<E::Ct>>> {
        let values: Vec<_> = values.iter().map(|&x| Complex::new(x, 0.0)).collect();
        let products = self.evaluator.mul_plain_many(blocks, &values, self.factor_scale(level))?;
        Ok(par::try_map(products, |product| self.rescaled(product))?)
    }

    /// Products of blocks at `level` with a number, one level down.
    pub(super) fn times_constant(
        &self,
        level: Level,
        blocks: &[Arc<E::Ct>],
        factor: f64,
    ) -> Result<Vec<Arc<E::Ct>>> {
        let scale = self.factor_scale(level);
        let product = |block: &Arc<E::Ct>| {
            self.rescaled(self.evaluator.mul_const(block, Complex::new(factor, 0.0), scale)?)
        };
        Ok(par::try_map(blocks, product)?)
    }

    fn rescaled(&self, mut product: E::Ct) -> sudare::Result<Arc<E::Ct>> {
        self.evaluator.rescale_assign(&mut product)?;
        Ok(Arc::new(product))
    }

    /// Slot `i` of the result is slot `i + k` of `a`, which has `slots`.
    pub(super) fn rotated(&self, a: &E::Ct, k: usize, slots: usize) -> sudare::Result<E::Ct> {
        let k = k % slots;
        if !self.power_rotations {
            return self.evaluator.rotate(a, k as i64);
        }
        let mut steps = signed_powers(k, slots).into_iter();
        let Some(first) = steps.next() else { return Ok(a.clone()) };
        steps.try_fold(self.evaluator.rotate(a, first)?, |a, step| self.evaluator.rotate(&a, step))
    }

    /// The sum over the field from `shift` of `log` bits, in slots of index 0 along it, and in
    /// all if nothing lies above it.
    pub(super) fn field_sum(&self, a: &E::Ct, shift: u32, log: u32) -> sudare::Result<E::Ct> {
        let e = self.evaluator();
        Trace::inner_sum(e.log_n(), 1 << shift, 1 << log)?.doubling().run(e, a)
    }

    /// What slots of index 0 along the field from `shift` have, in the first `count`, if others
    /// are zero.
    pub(super) fn field_copy(&self, a: &E::Ct, shift: u32, count: usize) -> sudare::Result<E::Ct> {
        let e = self.evaluator();
        Trace::replicate(e.log_n(), 1 << shift, count)?.doubling().run(e, a)
    }

    pub(super) fn uses_power_rotations(&self) -> bool {
        self.power_rotations
    }
}

impl<E: ComplexOps> Engine<'static, E> {
    /// As [`Engine::new`], of what is shared.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn shared(
        evaluator: Arc<E>,
        params: &Params,
        bootstrapper: Option<Arc<Bootstrapper<E>>>,
    ) -> Result<Self> {
        Self::with(MaybeShared::Shared(evaluator), params, bootstrapper.map(MaybeShared::Shared))
    }
}

impl<E: ComplexOps<Ct = sim::Ciphertext>> Engine<'_, E> {
    /// An engine that refuses to bootstrap values beyond the bound.
    #[must_use]
    pub fn with_checked_magnitudes(self) -> Self {
        Self { watch: Some(Watch { magnitude, restore_headroom }), ..self }
    }
}

/// What is looked at in simulation when arrays are bootstrapped.
struct Watch<Ct> {
    /// The largest magnitude of a slot.
    magnitude: fn(&Ct) -> f64,
    /// Gives a bootstrapped block the room that the second one had.
    restore_headroom: fn(&mut Ct, &Ct),
}

impl<Ct> Clone for Watch<Ct> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Ct> Copy for Watch<Ct> {}

fn magnitude(a: &sim::Ciphertext) -> f64 {
    largest(a.slots.iter().map(|z| real::hypot(z.re, z.im)))
}

/// The largest of numbers that are not negative, or NaN if one is.
fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |most, x| if x <= most || most.is_nan() { most } else { x })
}

/// Powers of two and their negatives, as few as can be, whose sum is `k` modulo `slots`: the
/// digits of its non-adjacent form.
fn signed_powers(k: usize, slots: usize) -> Vec<i64> {
    let (mut k, mut power, mut steps) = (k as i64, 1i64, Vec::new());
    while k != 0 && power < slots as i64 {
        if k & 1 == 1 {
            // The last two bits are 01 or 11.
            let digit = 2 - (k & 3);
            steps.push(digit * power);
            k -= digit;
        }
        k >>= 1;
        power <<= 1;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_are_sums_of_few_powers() {
        for slots in [1usize, 2, 64, 1 << 15] {
            for k in (0..slots).step_by(slots.div_ceil(512)) {
                let steps = signed_powers(k, slots);
                let sum: i64 = steps.iter().sum();
                assert_eq!(sum.rem_euclid(slots as i64), k as i64, "{k} of {slots}");
                assert!(steps.iter().all(|step| step.unsigned_abs().is_power_of_two()));
                assert!(steps.len() <= slots.ilog2() as usize / 2 + 1, "{k} of {slots}");
            }
        }
    }
}
