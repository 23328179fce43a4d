use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use sudare::{
    circuits::{
        Trace,
        ckks::{Complex, ComplexOps, bootstrap::Bootstrapper, sim},
    },
    ckks::{Decryptor, Params, Scale},
    rlwe::{GaloisElement, KeyRequest, Level},
};
use sudare_arith::{par, real};

use super::{Array, ArrayError, Layout, Range, Result};
use crate::{
    bootstrap::{bootstrapped, restore_headroom},
    maybe_shared::MaybeShared,
};

/// Computes on arrays. Clones are cheap and share their counts.
///
/// Every operation returns a new array at the default scale of its level. The tables below list the
/// levels that it takes. If too few are left, the engine bootstraps where it can.
pub struct Engine<'a, E: ComplexOps> {
    evaluator: MaybeShared<'a, E>,
    /// The default scale of each level.
    scales: Arc<[Scale]>,
    /// The lowest allowed level of results.
    floor: Level,
    bootstrapper: Option<MaybeShared<'a, Bootstrapper<E>>>,
    /// Checks of values, in simulation.
    watch: Option<Watch<E::Ct>>,
    /// Requirements of the program, recorded during planning.
    needs: Option<Arc<Needs>>,
    power_rotations: bool,
    counters: Arc<Counters>,
}

impl<E: ComplexOps> Clone for Engine<'_, E> {
    fn clone(&self) -> Self {
        Self {
            evaluator: self.evaluator.clone(),
            scales: Arc::clone(&self.scales),
            bootstrapper: self.bootstrapper.clone(),
            needs: self.needs.clone(),
            counters: Arc::clone(&self.counters),
            ..*self
        }
    }
}

/// Factor by which values may exceed the bound of bootstrapping, because of noise and rounding.
const BOUND_SLACK: f64 = 1.0 + 1e-3;

/// Bits of the modulus reserved for noise.
const ROOM_MARGIN_BITS: f64 = 0.02;

/// Integer bits that decryption reads, without the sign.
const READABLE_BITS: f64 = Decryptor::VALUE_BITS - 1.0;

/// Distance of simulated values from a promised range that is tolerated, relative to the magnitude
/// of the range.
const SIMULATED_SLACK: f64 = 1e-6;

/// Share of a function's interval by which noise may move simulated values beyond its ends. More
/// noise must not hide a value that does not belong there.
const NOISE_SHARE: f64 = 1.0 / 16.0;

/// Requirements of a program, found while it is planned.
#[derive(Debug)]
pub(super) struct Needs {
    /// Bits left between the largest magnitudes and their room. Negative if values do not fit.
    room_bits: Mutex<f64>,
    /// Intervals of the functions whose arguments are unchanged inputs, by the source of their
    /// range.
    intervals: Mutex<Vec<(u64, core::ops::Range<f64>)>>,
}

impl Needs {
    pub(super) fn new() -> Self {
        Self { room_bits: Mutex::new(f64::INFINITY), intervals: Mutex::default() }
    }

    pub(super) fn room_bits(&self) -> f64 {
        *self.room_bits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the interval recorded for a source, if any.
    pub(super) fn interval(&self, source: u64) -> Option<core::ops::Range<f64>> {
        let intervals = self.intervals.lock().unwrap_or_else(PoisonError::into_inner);
        let own = intervals.iter().filter(|(of, _)| *of == source).map(|(_, interval)| interval);
        // An input that goes to several functions must lie in all of their intervals.
        own.cloned().reduce(|a, b| a.start.max(b.start)..a.end.min(b.end))
    }

    fn note_room(&self, bits: f64) {
        let mut least = self.room_bits.lock().unwrap_or_else(PoisonError::into_inner);
        // `min` ignores NaN, which must not pass for room.
        *least = least.min(if bits.is_nan() { f64::NEG_INFINITY } else { bits });
    }

    fn note_interval(&self, source: Option<u64>, interval: &core::ops::Range<f64>) {
        if let Some(source) = source {
            let mut intervals = self.intervals.lock().unwrap_or_else(PoisonError::into_inner);
            intervals.push((source, interval.clone()));
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    bootstraps: AtomicU64,
    log_slots: AtomicU32,
    /// Distance of the lowest result from the highest level.
    depth: AtomicU32,
}

/// Counts of an engine's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Number of ciphertexts bootstrapped.
    pub bootstraps: u64,
    /// `log2` of the largest number of slots of a bootstrapped ciphertext, 0 if none was
    /// bootstrapped.
    pub bootstrapped_log_slots: u32,
    /// The lowest level of a result.
    pub lowest_level: Level,
}

/// Returns the keys for any program with [`Engine::with_power_rotations`] that starts at `level`:
/// for relinearisation, for conjugation, and for rotations by powers of two in both directions.
#[must_use]
pub fn general_keys(params: &Params, level: Level) -> KeyRequest {
    // A ring has `2^(log_n - 1)` slots. The largest power is half of them.
    let powers = (0..params.log_n() - 1).map(|bit| 1i64 << bit);
    let request = KeyRequest::new().relinearize(level);
    let request = request.automorphism(GaloisElement::conjugation(params.log_n()), level);
    request.rotations(params.log_n(), powers.flat_map(|k| [k, -k]), level)
}

impl<'a, E: ComplexOps> Engine<'a, E> {
    /// Creates an engine on `evaluator`. It bootstraps if you pass a `bootstrapper`.
    ///
    /// Results go down to level 0 or, with bootstrapping, to the input level of bootstrapping. In
    /// both cases they stay at levels that rescale to their default scales.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for an evaluator of other parameters, or a bootstrapping whose
    /// output level is not above its input level.
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
            return invalid("the evaluator has other parameters: pass its own parameters");
        }
        let chain = params.chain();
        let top = params.top();
        let scales: Vec<Scale> = (0..=top.0).map(|level| params.scale_at(Level(level))).collect();
        // A product of two default scales, rescaled, must have the default scale one level down.
        let rescales = |level: &u32| {
            let scale = scales[*level as usize];
            let below = scales[*level as usize - 1];
            (scale * scale / chain.divisor(Level(*level))).matches(below)
        };
        let boot = bootstrapper.as_ref().map(|bootstrapper| bootstrapper.plan());
        let highest = boot.map_or(top, |plan| plan.output_level()).0;
        // From the highest level down to the first that does not rescale to its default scale.
        let mut floor = (1..=highest).rev().take_while(rescales).last().map_or(highest, |l| l - 1);
        if let Some(plan) = boot {
            let input = plan.input_level();
            let fits = scales[input.index()].matches(plan.input_scale());
            // If bootstrapping takes another scale than the default one, a level is left to reach
            // it.
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
            needs: None,
            power_rotations: false,
            counters: Arc::default(),
        })
    }

    /// Makes the engine rotate by sums of powers of two alone, so that [`general_keys`] suffice.
    /// Products with matrices, which take many rotations, become slower.
    #[must_use]
    pub fn with_power_rotations(self, power_rotations: bool) -> Self {
        Self { power_rotations, ..self }
    }

    /// Chooses rotations for these keys: by sums of powers of two if they include all of
    /// [`general_keys`].
    #[must_use]
    pub fn for_keys(self, params: &Params, keys: &KeyRequest) -> Self {
        let general = general_keys(params, self.highest_level());
        let conjugation = GaloisElement::conjugation(params.log_n());
        let mut rotations = general.galois.iter().filter(|(g, _)| **g != conjugation);
        // A missing key compares as lower than any level.
        let all = rotations.all(|(g, level)| keys.galois.get(g) >= Some(level));
        self.with_power_rotations(all)
    }

    /// Returns the evaluator.
    #[must_use]
    pub fn evaluator(&self) -> &E {
        &self.evaluator
    }

    /// Returns whether the engine can bootstrap.
    pub(super) fn bootstraps(&self) -> bool {
        self.bootstrapper.is_some()
    }

    /// Returns the estimated largest error of a bootstrapped element, or `None` without
    /// bootstrapping.
    pub(super) fn bootstrapping_error(&self) -> Option<f64> {
        self.bootstrapper.as_ref().map(|bootstrapper| bootstrapper.plan().largest_error())
    }

    /// Returns the level of new arrays: the output level of bootstrapping, or the top level.
    #[must_use]
    pub fn highest_level(&self) -> Level {
        match &self.bootstrapper {
            Some(bootstrapper) => bootstrapper.plan().output_level(),
            None => Level(self.scales.len() as u32 - 1),
        }
    }

    /// Returns the lowest level of results.
    #[must_use]
    pub fn lowest_level(&self) -> Level {
        self.floor
    }

    /// Returns `log2` of the maximum number of slots of a block: the slots that bootstrapping
    /// accepts, or all of the ring.
    #[must_use]
    pub fn log_slots_max(&self) -> u32 {
        match &self.bootstrapper {
            Some(bootstrapper) => bootstrapper.plan().spec().log_slots,
            None => self.evaluator.log_n() - 1,
        }
    }

    /// Returns the operations done since the engine was created.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let depth = self.counters.depth.load(Relaxed);
        Counts {
            bootstraps: self.counters.bootstraps.load(Relaxed),
            bootstrapped_log_slots: self.counters.log_slots.load(Relaxed),
            lowest_level: Level(self.scales.len() as u32 - 1 - depth),
        }
    }

    /// Returns the array with its blocks bootstrapped, at the highest level.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] without bootstrapping, or for blocks of more slots than it has; in
    /// simulation [`ArrayError::BeyondBound`]; errors of the evaluator.
    pub fn refresh(&self, a: &Array<E>) -> Result<Array<E>> {
        const OP: &str = "bootstrapping";
        let invalid = |problem: String| Err(ArrayError::Argument { op: OP, problem });
        let Some(bootstrapper) = &self.bootstrapper else {
            return invalid("the engine has no bootstrapping: pass a bootstrapper".into());
        };
        let plan = bootstrapper.plan();
        let own = a.layout.log_slots();
        let log_slots = plan.spec().log_slots;
        if own > log_slots {
            return invalid(format!(
                "blocks of 2^{own} slots exceed the 2^{log_slots} of the plan: plan for 2^{own} \
                 slots"
            ));
        }
        let bound = real::exp2(plan.log2_bound());
        // Asked every time: arrays of other promised ranges share the refreshed blocks.
        let range = self.range_to_bootstrap(OP, a, bound)?;
        let blocks = match a.refreshed.get() {
            Some(blocks) => blocks.clone(),
            None => {
                self.check_magnitudes(OP, a, bound)?;
                let before: Vec<&E::Ct> = a.blocks.iter().map(|block| &**block).collect();
                let mut blocks = bootstrapped(&*self.evaluator, bootstrapper, &before)?;
                if let Some(watch) = self.watch {
                    let pairs = blocks.iter_mut().zip(before);
                    pairs.for_each(|(after, before)| (watch.restore_headroom)(after, before));
                }
                let blocks: Vec<_> = blocks.into_iter().map(Arc::new).collect();
                self.counters.bootstraps.fetch_add(blocks.len() as u64, Relaxed);
                self.counters.log_slots.fetch_max(own, Relaxed);
                // If another thread was faster, its blocks are kept.
                a.refreshed.get_or_init(|| blocks).clone()
            }
        };
        Ok(Array {
            layout: a.layout.clone(),
            level: plan.output_level(),
            scale: self.scale_at(plan.output_level()),
            blocks,
            padding_is_zero: a.padding_is_zero,
            range,
            refreshed: Arc::default(),
        })
    }

    /// Returns the range after bootstrapping. Values above `bound` become other values, all within
    /// the returned range.
    fn range_to_bootstrap(&self, op: &'static str, a: &Array<E>, bound: f64) -> Result<Range> {
        // Padding is bootstrapped, too.
        let found = a.range.magnitude().max(a.padding());
        if found > bound * BOUND_SLACK {
            return Err(ArrayError::BeyondBound { op, found, most: bound });
        }
        let error = self.bootstrapping_error().unwrap_or(0.0);
        Ok(a.range.clone().with_more_noise(error))
    }

    fn check_magnitudes(&self, op: &'static str, a: &Array<E>, most: f64) -> Result<()> {
        let Some(Watch { magnitude, .. }) = self.watch else { return Ok(()) };
        let found = largest(a.blocks.iter().map(|block| magnitude(block)));
        // Noise and rounding may exceed the bound slightly.
        if found <= most * BOUND_SLACK {
            Ok(())
        } else {
            Err(ArrayError::BeyondBound { op, found, most })
        }
    }

    /// Returns the largest magnitude that `level` holds at its default scale.
    fn room(&self, level: Level) -> f64 {
        // One bit for the sign.
        let modulus_bits = self.evaluator.chain().log2_q(level) - 1.0;
        let value_bits = (modulus_bits - self.scale_at(level).log2()).min(READABLE_BITS);
        real::exp2(value_bits - ROOM_MARGIN_BITS)
    }

    /// Rejects a result at `level` whose elements could exceed its capacity.
    pub(super) fn check_room(&self, op: &'static str, level: Level, range: &Range) -> Result<()> {
        let most = self.room(level);
        let found = range.magnitude();
        if let Some(needs) = &self.needs {
            needs.note_room(real::log2(most) - real::log2(found));
            return Ok(());
        }
        if found <= most {
            return Ok(());
        }
        Err(ArrayError::OutOfRoom {
            op,
            low: range.low(),
            high: range.high(),
            most,
            level: level.0,
        })
    }

    /// Returns whether padding of this magnitude fits at `level` next to the elements.
    pub(super) fn holds_padding(&self, level: Level, padding: f64) -> bool {
        padding <= self.room(level)
    }

    /// Returns the range of a function's argument, clamped to the function's interval. A tight
    /// range that exceeds the interval is rejected. A loose bound is accepted, because actual
    /// values may stay far from it.
    pub(super) fn argument(
        &self,
        op: &'static str,
        a: &Array<E>,
        interval: &core::ops::Range<f64>,
    ) -> Result<Range> {
        if let Some(needs) = &self.needs {
            needs.note_interval(a.range.source(), interval);
        }
        if a.range.is_within(interval) {
            return Ok(a.range.clone());
        }
        let &core::ops::Range { start, end } = interval;
        if self.needs.is_none() {
            if a.range.is_tight() {
                return Err(ArrayError::OutsideInterval {
                    op,
                    low: a.range.low(),
                    high: a.range.high(),
                    start,
                    end,
                });
            }
            let noise = a.range.error().min(NOISE_SHARE * (end - start));
            self.check_values(op, a, interval, noise)?;
        }
        Ok(a.range.clamped(start, end))
    }

    /// In simulation, rejects elements outside an interval by more than `noise`.
    fn check_values(
        &self,
        op: &'static str,
        a: &Array<E>,
        interval: &core::ops::Range<f64>,
        noise: f64,
    ) -> Result<()> {
        let Some(watch) = self.watch.filter(|_| self.needs.is_none()) else { return Ok(()) };
        let slots: Vec<Vec<f64>> = a.blocks.iter().map(|block| (watch.values)(block)).collect();
        let &core::ops::Range { start: low, end: high } = interval;
        let slack = SIMULATED_SLACK * low.abs().max(high.abs()) + noise;
        check_elements(op, &a.layout.gather(&slots), low, high, slack)
    }

    /// Returns the array with elements declared to lie from `low` to `high`. Execution does not
    /// check this: results are wrong if it does not hold. Simulation checks it.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] unless both are finite and in order; in simulation
    /// [`ArrayError::OutsideRange`].
    pub fn within(&self, a: &Array<E>, low: f64, high: f64) -> Result<Array<E>> {
        let promised = a.within(low, high)?;
        self.check_values("within", a, &(low..high), a.range.error())?;
        Ok(promised)
    }

    pub(super) fn scale_at(&self, level: Level) -> Scale {
        self.scales[level.index()]
    }

    /// Builds an array of blocks at `level` and its default scale, the result of `op`.
    ///
    /// Every result at another level comes from here, so no operation can leave values at a level
    /// that has no room for them. Operations that take long check the room before they compute.
    ///
    /// # Errors
    /// [`ArrayError::OutOfRoom`].
    pub(super) fn array(
        &self,
        op: &'static str,
        layout: Layout,
        level: Level,
        blocks: Vec<Arc<E::Ct>>,
        padding_is_zero: bool,
        range: Range,
    ) -> Result<Array<E>> {
        debug_assert_eq!(blocks.len(), layout.blocks());
        self.check_room(op, level, &range)?;
        // As a depth, so that the counter can start at 0.
        let top = self.scales.len() as u32 - 1;
        self.counters.depth.fetch_max(top.saturating_sub(level.0), Relaxed);
        let scale = self.scale_at(level);
        let refreshed = Arc::new(OnceLock::new());
        Ok(Array { layout, level, scale, blocks, padding_is_zero, range, refreshed })
    }

    /// Rejects an array of other parameters.
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

    /// Returns the array with at least `needed` levels above the lowest, bootstrapped if necessary.
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

    /// Returns the array lowered to `level`, at the default scale of that level. Padding that has
    /// no room there is masked.
    pub(super) fn lowered(&self, op: &'static str, a: &Array<E>, level: Level) -> Result<Array<E>> {
        if a.level == level {
            return Ok(a.clone());
        }
        if !self.holds_padding(level, a.padding()) {
            return self.lowered(op, &self.masked(op, a, 1.0)?, level);
        }
        let scale = self.scale_at(level);
        let blocks =
            self.each(&a.blocks, |block| self.evaluator.match_scale(block, level, scale))?;
        let range = a.range.clone();
        self.array(op, a.layout.clone(), level, blocks, a.padding_is_zero, range)
    }

    /// Brings both to one level with at least `needed` levels above the lowest.
    pub(super) fn aligned(
        &self,
        op: &'static str,
        a: &Array<E>,
        b: &Array<E>,
        needed: u32,
    ) -> Result<[Array<E>; 2]> {
        let [a, b] = [self.ready(op, a, needed)?, self.ready(op, b, needed)?];
        let level = a.level.min(b.level);
        Ok([self.lowered(op, &a, level)?, self.lowered(op, &b, level)?])
    }

    /// Applies `f` to every block.
    pub(super) fn each(
        &self,
        blocks: &[Arc<E::Ct>],
        f: impl Fn(&E::Ct) -> sudare::Result<E::Ct> + Send + Sync,
    ) -> Result<Vec<Arc<E::Ct>>> {
        Ok(par::try_map(blocks, |block| f(block).map(Arc::new))?)
    }

    /// Returns the blocks read as `2^log_slots` slots.
    pub(super) fn widened(&self, a: &Array<E>, log_slots: u32) -> Result<Array<E>> {
        if a.layout.log_slots() == log_slots {
            return Ok(a.clone());
        }
        let blocks =
            self.each(&a.blocks, |block| self.evaluator.with_log_slots(block, log_slots))?;
        let layout = a.layout.with_log_slots(log_slots);
        // Blocks that were refreshed before have the old number of slots.
        Ok(Array { layout, blocks, refreshed: Arc::default(), ..a.clone() })
    }

    /// Returns the scale of a factor that takes a block at `level` to the default scale one level
    /// down.
    pub(super) fn factor_scale(&self, level: Level) -> Scale {
        let below = self.scale_at(Level(level.0 - 1));
        below * self.evaluator.chain().divisor(level) / self.scale_at(level)
    }

    /// Multiplies blocks at `level` by one vector of slots. The products are one level down.
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

    /// Multiplies blocks at `level` by a number. The products are one level down.
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

    /// Rotates `a`, which has `slots` slots: slot `i` of the result is slot `i + k` of `a`.
    pub(super) fn rotated(&self, a: &E::Ct, k: usize, slots: usize) -> sudare::Result<E::Ct> {
        let k = k % slots;
        if !self.power_rotations {
            return self.evaluator.rotate(a, k as i64);
        }
        let mut steps = signed_powers(k, slots).into_iter();
        let Some(first) = steps.next() else { return Ok(a.clone()) };
        steps.try_fold(self.evaluator.rotate(a, first)?, |a, step| self.evaluator.rotate(&a, step))
    }

    /// Sums over the field of `log` bits from bit `shift`. The sum is in slots of index 0 along the
    /// field, and in all slots if nothing lies above the field.
    pub(super) fn field_sum(&self, a: &E::Ct, shift: u32, log: u32) -> sudare::Result<E::Ct> {
        let e = self.evaluator();
        Trace::inner_sum(e.log_n(), 1 << shift, 1 << log)?.doubling().run(e, a)
    }

    /// Copies slots of index 0 along the field from `shift` to the first `count` indices. All other
    /// slots must be zero.
    pub(super) fn field_copy(&self, a: &E::Ct, shift: u32, count: usize) -> sudare::Result<E::Ct> {
        let e = self.evaluator();
        Trace::replicate(e.log_n(), 1 << shift, count)?.doubling().run(e, a)
    }

    pub(super) fn uses_power_rotations(&self) -> bool {
        self.power_rotations
    }
}

impl<E: ComplexOps> Engine<'static, E> {
    /// Creates an engine as [`Engine::new`] does, from shared parts.
    ///
    /// # Errors
    /// The errors of [`Engine::new`].
    pub fn shared(
        evaluator: Arc<E>,
        params: &Params,
        bootstrapper: Option<Arc<Bootstrapper<E>>>,
    ) -> Result<Self> {
        Self::with(MaybeShared::Shared(evaluator), params, bootstrapper.map(MaybeShared::Shared))
    }
}

impl<E: ComplexOps<Ct = sim::Ciphertext>> Engine<'_, E> {
    /// Makes the engine record the room and the intervals that a program needs. It then accepts a
    /// program that lacks them.
    pub(super) fn noting(self, needs: &Arc<Needs>) -> Self {
        Self { needs: Some(Arc::clone(needs)), ..self }
    }

    /// Makes the engine check values in simulation. It rejects bootstrapping beyond the bound,
    /// arguments outside the interval of a function, and values outside a promised range.
    #[must_use]
    pub fn with_checked_magnitudes(self) -> Self {
        Self { watch: Some(Watch { magnitude, values, restore_headroom }), ..self }
    }
}

/// Checks of blocks in simulation.
struct Watch<Ct> {
    /// Returns the largest magnitude of a slot.
    magnitude: fn(&Ct) -> f64,
    /// Returns the real parts of the slots.
    values: fn(&Ct) -> Vec<f64>,
    /// Gives the bootstrapped block the headroom of the second one.
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

fn values(a: &sim::Ciphertext) -> Vec<f64> {
    a.slots.iter().map(|z| z.re).collect()
}

/// Rejects elements that are NaN or more than `slack` outside an interval.
pub(super) fn check_elements(
    op: &'static str,
    elements: &[f64],
    low: f64,
    high: f64,
    slack: f64,
) -> Result<()> {
    let inside = |x: &f64| low - slack <= *x && *x <= high + slack;
    match elements.iter().position(|x| !inside(x)) {
        None => Ok(()),
        Some(index) => {
            Err(ArrayError::OutsideRange { op, index, value: elements[index], low, high })
        }
    }
}

/// Returns the largest of numbers that are not negative, or NaN if one is NaN.
fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    // A NaN fails every comparison, so it comes in and stays.
    numbers.fold(0.0, |most, x| if x <= most || most.is_nan() { most } else { x })
}

/// Returns the fewest signed powers of two whose sum is `k` modulo `slots`: the digits of its
/// non-adjacent form.
fn signed_powers(k: usize, slots: usize) -> Vec<i64> {
    let mut k = k as i64;
    let mut power = 1i64;
    let mut steps = Vec::new();
    // The power `slots` is a full turn.
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
