use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use sudare::{
    circuits::{Complex, ComplexOps, Trace, bootstrap::Bootstrapper, sim},
    ckks::{Decryptor, Params, Scale},
    rlwe::{GaloisElement, KeyRequest, Level},
};
use sudare_arith::{par, real};

use super::{Array, ArrayError, Layout, Range, Result};
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
    /// While a program is planned.
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

/// How much larger than the bound of bootstrapping values may be: noise and rounding reach beyond.
const BOUND_SLACK: f64 = 1.0 + 1e-3;

/// Bits of the modulus that are kept for noise.
const ROOM_MARGIN_BITS: f64 = 0.02;

/// Bits before the point that decryption reads, less the sign.
const READABLE_BITS: f64 = Decryptor::VALUE_BITS - 1.0;

/// How far outside of a promised range simulated values may be, relative to its magnitude.
const SIMULATED_SLACK: f64 = 1e-6;

/// What a program turns out to need while it is planned.
#[derive(Debug)]
pub(super) struct Needs {
    /// Bits left between the largest magnitudes and the room for them; negative if they lack.
    room_bits: Mutex<f64>,
    /// Intervals of functions that inputs go into as they are, by the source of their range.
    intervals: Mutex<Vec<(u64, core::ops::Range<f64>)>>,
}

impl Needs {
    pub(super) fn new() -> Self {
        Self { room_bits: Mutex::new(f64::INFINITY), intervals: Mutex::default() }
    }

    pub(super) fn room_bits(&self) -> f64 {
        *self.room_bits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interval that holds for a source, where one was noted.
    pub(super) fn interval(&self, source: u64) -> Option<core::ops::Range<f64>> {
        let intervals = self.intervals.lock().unwrap_or_else(PoisonError::into_inner);
        let own = intervals.iter().filter(|(of, _)| *of == source).map(|(_, interval)| interval);
        own.cloned().reduce(|a, b| a.start.max(b.start)..a.end.min(b.end))
    }

    fn note_room(&self, bits: f64) {
        let mut least = self.room_bits.lock().unwrap_or_else(PoisonError::into_inner);
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
/// relinearise, to conjugate, and of rotations by powers of two in both directions.
#[must_use]
pub fn general_keys(params: &Params, level: Level) -> KeyRequest {
    let powers = (0..params.log_n() - 1).map(|bit| 1i64 << bit);
    let request = KeyRequest::new().relinearize(level);
    let request = request.automorphism(GaloisElement::conjugation(params.log_n()), level);
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
            needs: None,
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
        let conjugation = GaloisElement::conjugation(params.log_n());
        let mut rotations = general.galois.iter().filter(|(g, _)| **g != conjugation);
        let all = rotations.all(|(g, level)| keys.galois.get(g) >= Some(level));
        self.with_power_rotations(all)
    }

    /// The evaluator.
    #[must_use]
    pub fn evaluator(&self) -> &E {
        &self.evaluator
    }

    /// Whether it has a way to bootstrap.
    pub(super) fn bootstraps(&self) -> bool {
        self.bootstrapper.is_some()
    }

    /// The largest error of a bootstrapped element, about; none without bootstrapping.
    pub(super) fn bootstrapping_error(&self) -> Option<f64> {
        self.bootstrapper.as_ref().map(|bootstrapper| bootstrapper.plan().largest_error())
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
        let bound = real::exp2(plan.log2_bound());
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

    /// The range after bootstrapping, which takes values up to `bound` and gives others for those
    /// that are larger, all within the range.
    fn range_to_bootstrap(&self, op: &'static str, a: &Array<E>, bound: f64) -> Result<Range> {
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
        // Noise and rounding may reach beyond.
        if found <= most * BOUND_SLACK {
            Ok(())
        } else {
            Err(ArrayError::BeyondBound { op, found, most })
        }
    }

    /// The largest magnitude that `level` holds at its default scale.
    fn room(&self, level: Level) -> f64 {
        let modulus_bits = self.evaluator.chain().log2_q(level) - 1.0;
        let value_bits = (modulus_bits - self.scale_at(level).log2()).min(READABLE_BITS);
        real::exp2(value_bits - ROOM_MARGIN_BITS)
    }

    /// Refuses a result at `level` whose elements could be too large for it.
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

    /// Whether padding of this magnitude fits at `level` beside the elements.
    pub(super) fn holds_padding(&self, level: Level, padding: f64) -> bool {
        padding <= self.room(level)
    }

    /// The range of an argument of a function on an interval, within that. Arguments that may
    /// well lie outside are refused; a bound that is far from what values reach is taken on trust.
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
            self.check_values(op, a, start, end)?;
        }
        Ok(a.range.clamped(start, end))
    }

    /// In simulation, refuses elements that are not within two numbers.
    fn check_values(&self, op: &'static str, a: &Array<E>, low: f64, high: f64) -> Result<()> {
        let Some(watch) = self.watch.filter(|_| self.needs.is_none()) else { return Ok(()) };
        let slots: Vec<Vec<f64>> = a.blocks.iter().map(|block| (watch.values)(block)).collect();
        let slack = SIMULATED_SLACK * low.abs().max(high.abs()) + a.range.error();
        check_elements(op, &a.layout.gather(&slots), low, high, slack)
    }

    /// The same array, where elements are known to lie from `low` to `high`. In execution nobody
    /// checks that: results are wrong if it does not hold. Simulation does.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] unless both are finite and in order; in simulation
    /// [`ArrayError::OutsideRange`].
    pub fn within(&self, a: &Array<E>, low: f64, high: f64) -> Result<Array<E>> {
        let promised = a.within(low, high)?;
        self.check_values("within", a, low, high)?;
        Ok(promised)
    }

    pub(super) fn scale_at(&self, level: Level) -> Scale {
        self.scales[level.index()]
    }

    /// An array of blocks at `level` and the default scale there.
    pub(super) fn array(
        &self,
        layout: Layout,
        level: Level,
        blocks: Vec<Arc<E::Ct>>,
        padding_is_zero: bool,
        range: Range,
    ) -> Array<E> {
        debug_assert_eq!(blocks.len(), layout.blocks());
        let top = self.scales.len() as u32 - 1;
        self.counters.depth.fetch_max(top.saturating_sub(level.0), Relaxed);
        let scale = self.scale_at(level);
        let refreshed = Arc::new(OnceLock::new());
        Array { layout, level, scale, blocks, padding_is_zero, range, refreshed }
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
        let range = a.range.clone();
        Ok(self.array(a.layout.clone(), level, blocks, a.padding_is_zero, range))
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
    /// An engine that notes the room and the intervals that a program needs, and refuses nothing
    /// for lack of them.
    pub(super) fn noting(self, needs: &Arc<Needs>) -> Self {
        Self { needs: Some(Arc::clone(needs)), ..self }
    }

    /// An engine that looks at the values: it refuses to bootstrap any beyond the bound, arguments
    /// outside the interval of a function and values outside a promised range.
    #[must_use]
    pub fn with_checked_magnitudes(self) -> Self {
        Self { watch: Some(Watch { magnitude, values, restore_headroom }), ..self }
    }
}

/// What is looked at in simulation when arrays are bootstrapped.
struct Watch<Ct> {
    /// The largest magnitude of a slot.
    magnitude: fn(&Ct) -> f64,
    /// The real parts of the slots.
    values: fn(&Ct) -> Vec<f64>,
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

fn values(a: &sim::Ciphertext) -> Vec<f64> {
    a.slots.iter().map(|z| z.re).collect()
}

/// Refuses elements that are more than `slack` outside of an interval, or not numbers.
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
