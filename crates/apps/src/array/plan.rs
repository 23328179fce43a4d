//! Plans: the parameters, keys and cost of a program on arrays, from the shapes of its inputs.

use core::ops::{Range as Interval, RangeInclusive};
use std::sync::Arc;

use serde::Serialize;
use sudare::{
    circuits::ckks::{
        WorstCase,
        bootstrap::{self, BootstrapPlan},
        cost::{self, Rates, Work},
    },
    ckks::{
        Params, Release, Spec,
        planner::{self, FAST_BITS, MAX_PRIME_BITS, Room},
    },
    rlwe::KeyRequest,
};

use super::{
    Array, ArrayError, Engine, Layout, PlainArray, Range, Result, check_ends,
    crypt::simulate_encryption_within, engine::Needs,
};
use crate::release::DECODING_ERROR;
use sudare_arith::real;

const OP: &str = "plan";

/// Maximum number of levels to try.
const MAX_DEPTH: usize = 60;

/// Maximum bits of a scale. `f64` rounds results, so more bits would not make them more precise.
const MAX_SCALE_BITS: f64 = 90.0;

/// Bits of the magnitude of inputs without a declared range: a million.
const USUAL_BOUND_BITS: f64 = 20.0;

/// Magnitudes of inputs to try, in bits, from the largest.
const BOUNDS_BITS: [f64; 7] = [30.0, USUAL_BOUND_BITS, 16.0, 12.0, 8.0, 4.0, 0.0];

/// Maximum room for values, in bits.
const MAX_ROOM_BITS: f64 = 200.0;

/// Bits of room that one additional prime may provide. Squares of numbers up to a million need 31
/// bits more than [`PlanOptions::log2_range`], squares of thousands 16.
const SPARES_BITS: [f64; 7] = [40.0, 36.0, 32.0, 28.0, 24.0, 20.0, 16.0];

/// Estimated number of blocks in memory at once, for each block of inputs and results.
const BLOCKS_HELD: u64 = 3;

/// An engine that runs a program in the clear, with the costs and errors of encryption.
pub type Simulator = Engine<'static, cost::Evaluator>;

/// An array in a [`Simulator`].
pub type SimulatedArray = Array<cost::Evaluator>;

/// Requirements for the parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOptions {
    /// Rings to try, by `log2` of their dimension.
    pub log_n: RangeInclusive<u32>,
    /// `log2` of the scale without bootstrapping. In the largest ring, values have about 18 bits
    /// less after the point. Above 60 bits, levels have several primes.
    pub log2_scale: f64,
    /// `log2` of the largest magnitude of a value, without bootstrapping.
    pub log2_range: f64,
    /// The known interval of each input, or `None`.
    ///
    /// There is room for a declared interval. An input without one is assumed to fill the interval
    /// of the function that it is passed to. If it is passed to none, there is room for magnitudes
    /// up to 2^20, or up to the largest bound that one additional prime allows.
    pub ranges: Vec<Option<(f64, f64)>>,
    /// The set to bootstrap with if no ring has enough levels, such as `n16-boot-real`. With
    /// `None`, such programs are rejected.
    pub bootstrapping: Option<String>,
    /// The largest magnitude of the inputs in the trial run.
    pub input_bound: f64,
    /// Bits after the point to which people other than the key's owner may see the results. `None`
    /// shares no results. Scales then have the size that [`Release`] needs, at least `log2_scale`.
    pub share_bits: Option<u32>,
    /// Assume that arguments of functions stay in their intervals, even if the magnitude of the
    /// inputs and the previous steps do not imply it. Error bounds rely on this assumption: if it
    /// is wrong, released results may leak information about the key.
    pub assume_intervals: bool,
    /// The speed of the machine. `None` uses [`Rates::reference`].
    pub rates: Option<Rates>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            log_n: 13..=16,
            log2_scale: 40.0,
            log2_range: 9.0,
            ranges: Vec::new(),
            bootstrapping: None,
            input_bound: 1.0,
            share_bits: None,
            assume_intervals: false,
            rates: None,
        }
    }
}

/// Parameters, keys and cost of a program.
#[derive(Debug, Clone, Serialize)]
pub struct Planned {
    /// The parameters.
    pub spec: Spec,
    /// The bootstrapping set, and `log2` of the number of bootstrapped slots.
    pub bootstrapping: Option<(String, u32)>,
    /// `log2` of the ring dimension.
    pub log_n: u32,
    /// Bits of security.
    pub security_bits: f64,
    /// Levels from the inputs to the lowest result.
    pub depth: u32,
    /// Number of bootstrapped ciphertexts.
    pub bootstraps: u64,
    /// The inputs, in the layouts of new arrays.
    pub inputs: Vec<ArrayFacts>,
    /// The results.
    pub outputs: Vec<ArrayFacts>,
    /// Ranges of the inputs. The parameters have room for every value that follows from them.
    pub ranges: Vec<InputRange>,
    /// Exactly the keys that the program uses.
    #[serde(skip)]
    pub required_keys: KeyRequest,
    /// Number of evaluation keys.
    pub keys: usize,
    /// Size of the evaluation keys in memory, in bytes.
    pub key_bytes: u64,
    /// Size of the matrices of bootstrapping, in bytes.
    pub matrix_bytes: u64,
    /// Size of the inputs, in bytes.
    pub ciphertext_bytes: u64,
    /// Estimated memory of the program, in bytes: keys, matrices of bootstrapping, and three times
    /// its inputs and results.
    pub peak_bytes: u64,
    /// Work of the computation, without the encoding of matrices.
    pub work: Work,
    /// Estimated time of the computation, in seconds.
    pub seconds: f64,
}

/// Range of an input of a planned program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct InputRange {
    /// The lowest value.
    pub low: f64,
    /// The highest value.
    pub high: f64,
    /// True if the range was declared or follows from the program. Otherwise it follows from the
    /// room of the parameters.
    pub declared: bool,
}

/// Shape, size and errors of an array of a planned program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArrayFacts {
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// Ciphertexts of the array.
    pub blocks: usize,
    /// Level of the array.
    pub level: u32,
    /// Size of the ciphertexts, in bytes.
    pub bytes: u64,
    /// `log2` of the standard deviation of the error that noise causes in an element. Inputs fill
    /// their declared ranges, or have magnitudes up to [`PlanOptions::input_bound`]. Errors of
    /// bootstrapping and approximations are not included.
    pub noise_log2: f64,
    /// `noise_log2` for inputs that fill the ranges for which there is room.
    pub filled_noise_log2: f64,
    /// The largest magnitude that an element can have.
    pub magnitude: f64,
    /// A bound of the errors of encryption, rounding and encoding, for all inputs and any number of
    /// uses ([`WorstCase`](sudare::circuits::ckks::WorstCase)). Infinite with bootstrapping.
    pub error_bound: f64,
    /// Largest possible distance of a function's argument from the middle of its interval, in
    /// half-widths. 0 without functions, or if intervals are assumed.
    pub argument: f64,
    /// Bits left between the largest value that inputs can produce on the way here and the modulus
    /// that held it. Negative if some values would be lost.
    pub headroom_bits: f64,
}

impl ArrayFacts {
    /// Returns a bound of the errors of decrypted elements for all inputs up to
    /// [`PlanOptions::input_bound`]: [`ArrayFacts::error_bound`] plus the rounding of decoding.
    ///
    /// Infinite if no bound is known, or if arguments of functions can leave their intervals.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        if self.headroom_bits < 0.0 || self.leaves_intervals() {
            return f64::INFINITY;
        }
        self.error_bound + self.decoding_error()
    }

    /// Returns whether arguments of functions can leave their intervals.
    fn leaves_intervals(&self) -> bool {
        self.argument > WorstCase::LARGEST_ARGUMENT
    }

    fn decoding_error(&self) -> f64 {
        DECODING_ERROR * self.magnitude.max(1.0)
    }

    /// Returns the largest error of elements with which all elements can be shared to `bits` bits
    /// after the point.
    #[must_use]
    pub fn largest_shared_error(&self, bits: u32) -> f64 {
        Release::default().largest_error(self.shape.iter().product(), bits)
    }

    /// Returns the maximum number of bits after the point to which all elements can be shared, if
    /// any.
    #[must_use]
    pub fn most_shared_bits(&self) -> Option<u32> {
        Release::default().most_bits(self.shape.iter().product(), self.largest_error())
    }

    fn of(array: &SimulatedArray, params: &Params, options: &PlanOptions) -> Self {
        let rows = 2 * params.rlwe().limbs(array.level()).count() as u64;
        let block = rows * params.rlwe().basis().n() as u64 * 8;
        let worst = || array.worst();
        Self {
            shape: array.shape().to_vec(),
            blocks: array.blocks().len(),
            level: array.level().0,
            bytes: block * array.blocks().len() as u64,
            noise_log2: array.noise_log2(),
            filled_noise_log2: array.noise_log2(),
            magnitude: worst().map(WorstCase::magnitude).fold(0.0, f64::max),
            error_bound: worst().map(|worst| worst.error).fold(0.0, f64::max),
            argument: match options.assume_intervals {
                true => 0.0,
                false => worst().map(|worst| worst.argument).fold(0.0, f64::max),
            },
            headroom_bits: worst().map(|worst| worst.headroom_bits).fold(f64::INFINITY, f64::min),
        }
    }
}

impl Planned {
    /// Returns the plan of bootstrapping in `params`, which are made from [`Planned::spec`], or
    /// `None` without bootstrapping.
    ///
    /// # Errors
    /// The errors of [`bootstrap::BootstrapPreset::plan`].
    pub fn bootstrap_plan(&self, params: &Params) -> Result<Option<BootstrapPlan>> {
        let plan = |(name, log_slots): &(String, u32)| -> Result<_> {
            Ok(bootstrap::preset(name)?.plan(params, *log_slots)?)
        };
        self.bootstrapping.as_ref().map(plan).transpose()
    }
}

/// Runs a program in simulation, on inputs of these shapes. Finds the smallest ring of 128 bits of
/// security that has enough levels, and the cost of the program there. The operations of the
/// program may depend on the shapes only.
///
/// # Errors
/// [`ArrayError::LevelExhausted`] if no ring has the levels, and bootstrapping is not allowed or
/// does not help; [`ArrayError::Argument`] for options out of range; [`ArrayError::Library`] with
/// `TooLittlePrecision` for results that cannot be shared to `share_bits` bits;
/// [`ArrayError::Overflow`] if some inputs would be lost; [`ArrayError::IntervalUnchecked`] if some
/// inputs could lead out of the interval of a function; the errors of the program.
pub fn plan(
    shapes: &[&[usize]],
    options: &PlanOptions,
    program: impl Fn(&Simulator, Vec<SimulatedArray>) -> Result<Vec<SimulatedArray>>,
) -> Result<Planned> {
    let mut options = options.clone();
    let mut lacking: Option<ArrayError> = None;
    loop {
        let planned = match (plan_at_scale(shapes, &options, &program), &lacking) {
            // No ring has room for the scale that the errors require.
            (Err(ArrayError::LevelExhausted { .. }), Some(lacking)) => return Err(lacking.clone()),
            (planned, _) => planned?,
        };
        let Some(bits) = options.share_bits else { return Ok(planned) };
        if planned.bootstraps > 0 {
            let problem = "results of bootstrapped arrays are not precise enough to be shared: use \
                           a program of less depth";
            return Err(ArrayError::Argument { op: OP, problem: problem.into() });
        }
        if let Some(out) = planned.outputs.iter().find(|out| out.leaves_intervals()) {
            return Err(ArrayError::IntervalUnchecked { found: out.argument });
        }
        let room = planned.outputs.iter().map(|out| out.headroom_bits).fold(0.0, f64::min);
        if room < 0.0 {
            let error = ArrayError::Overflow { excess_bits: -room };
            // Larger scales help only against errors that are too large, and against an overflow in
            // the first round.
            if matches!(lacking, Some(ArrayError::Overflow { .. })) {
                return Err(error);
            }
            options.log2_scale = (options.log2_scale + 2.0 - room).min(MAX_SCALE_BITS);
            lacking = Some(error);
            continue;
        }
        let errors = |of: fn(&ArrayFacts) -> f64| {
            let errors =
                planned.outputs.iter().map(|out| (of(out), out.largest_shared_error(bits)));
            // By the ratio, because results of different sizes need different errors.
            let worst = errors.max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
            worst.filter(|(found, needed)| found > needed)
        };
        let Some((found, needed)) = errors(ArrayFacts::largest_error) else { return Ok(planned) };
        let error = ArrayError::Library(sudare::Error::TooLittlePrecision { bits, found, needed });
        // Above the error of decoding, larger scales do not make results more precise.
        let hopeless = errors(ArrayFacts::decoding_error).is_some();
        if hopeless || !found.is_finite() || options.log2_scale >= MAX_SCALE_BITS {
            return Err(error);
        }
        // Primes may be slightly smaller than requested, so half a bit is added.
        options.log2_scale += real::log2(found / needed) + 0.5;
        options.log2_scale = options.log2_scale.min(MAX_SCALE_BITS);
        lacking = Some(error);
    }
}

/// Plans the program at the scale of `options`, for any errors.
fn plan_at_scale(
    shapes: &[&[usize]],
    options: &PlanOptions,
    program: impl Fn(&Simulator, Vec<SimulatedArray>) -> Result<Vec<SimulatedArray>>,
) -> Result<Planned> {
    options.check()?;
    let search = Search { shapes, options, program: &program };
    let mut exhausted = None;
    for log_n in options.log_n.clone() {
        match search.in_ring(log_n) {
            Ok(planned) => return Ok(planned),
            // Only a lack of levels makes a larger ring worth trying.
            Err(error @ ArrayError::LevelExhausted { .. }) => exhausted = Some(error),
            Err(error) => return Err(error),
        }
    }
    let Some(name) = &options.bootstrapping else {
        let none = || ArrayError::Argument {
            op: OP,
            problem: format!(
                "no ring with log2(N) in {:?} has 128 bits of security: allow larger rings",
                options.log_n
            ),
        };
        return Err(exhausted.unwrap_or_else(none));
    };
    let set = bootstrap::preset(name)?;
    let params = Params::new(set.preset.spec.clone())?;
    let mut log_slots = 0;
    for shape in shapes {
        log_slots = Layout::new(shape, params.log_n() - 1)?.log_slots().max(log_slots);
    }
    let plan = set.plan(&params, log_slots)?;
    let assumed = search.assumed(&params, Some(&plan))?;
    let trial = Trial::with_its_keys(&params, Some(&plan), shapes, options, &assumed, &program)?;
    trial.check_room()?;
    trial.planned(options, Some((name.clone(), &plan)))
}

/// Assumed range of an input.
#[derive(Debug, Clone, PartialEq)]
struct Assumed {
    /// The range for which there is room.
    range: (f64, f64),
    /// The range of values in the trial, for which errors are estimated.
    values: (f64, f64),
    /// True if the range may not be changed.
    is_fixed: bool,
    /// True if the range was requested or follows from the program.
    is_declared: bool,
}

impl Assumed {
    fn fixed(range: (f64, f64)) -> Self {
        Self { range, values: range, is_fixed: true, is_declared: true }
    }

    /// Returns the input with trial values that fill the range.
    fn filled(&self) -> Self {
        Self { values: self.range, ..self.clone() }
    }

    fn facts(&self) -> InputRange {
        InputRange { low: self.range.0, high: self.range.1, declared: self.is_declared }
    }

    fn bound(&self) -> f64 {
        self.values.0.abs().max(self.values.1.abs())
    }
}

/// Returns the bits that a level lacks for a constant of a program, and one more.
fn lacking_bits(error: &ArrayError) -> Option<f64> {
    let &ArrayError::Library(sudare::Error::ValueTooLarge { needed_bits, available_bits, .. }) =
        error
    else {
        return None;
    };
    // A constant that is infinite fits nowhere.
    needed_bits.is_finite().then(|| (needed_bits - available_bits).max(0.0) + 1.0)
}

/// The search for parameters of a program.
struct Search<'a, P> {
    shapes: &'a [&'a [usize]],
    options: &'a PlanOptions,
    program: &'a P,
}

impl<P: Fn(&Simulator, Vec<SimulatedArray>) -> Result<Vec<SimulatedArray>>> Search<'_, P> {
    /// Plans the program in one ring, with the minimum levels and the smallest modulus that have
    /// room for the inputs: their declared ranges, or the largest bound that one additional prime
    /// allows.
    ///
    /// # Errors
    /// [`ArrayError::LevelExhausted`] if the ring is too small.
    fn in_ring(&self, log_n: u32) -> Result<Planned> {
        let too_small = || ArrayError::LevelExhausted { op: OP, needed: 1, left: 0 };
        let spec = |depth, room_bits| self.options.spec(log_n, depth, room_bits);
        let mut own_bits = self.options.log2_range;
        let (deepest, params, mut assumed) = loop {
            // From the top, because the first trial gets all levels that the ring allows.
            let deepest = (0..=MAX_DEPTH).rev().find(|&depth| spec(depth, own_bits).is_some());
            let deepest = deepest.ok_or_else(too_small)?;
            let params = Params::new(spec(deepest, own_bits).ok_or_else(too_small)?)?;
            let assumed = self.assumed(&params, None);
            match assumed.as_ref().err().and_then(lacking_bits) {
                // A constant at the end of all levels. With more room, the ring may be too small.
                Some(bits) => own_bits += bits,
                None => break (deepest, params, assumed?),
            }
        };
        let mut depth = match self.trial(&params, &assumed) {
            // At the end of all levels, for a constant of the program: below it is given room.
            Err(error) if lacking_bits(&error).is_some() => deepest,
            trial => trial?.depth() as usize,
        };
        // Fewer levels leave room for more special primes, and less of it for padding, which may
        // have to be masked.
        let mut room_bits = own_bits;
        let mut is_widened = false;
        loop {
            let params = Params::new(spec(depth, room_bits).ok_or_else(too_small)?)?;
            let trial = match self.trial_with_its_keys(&params, &assumed) {
                Err(ArrayError::LevelExhausted { .. }) if depth < deepest => {
                    depth += 1;
                    continue;
                }
                // A constant of the program has too little room at the lowest level.
                Err(error) if room_bits < MAX_ROOM_BITS => {
                    room_bits += lacking_bits(&error).ok_or(error)?;
                    continue;
                }
                trial => trial?,
            };
            let is_free = assumed.iter().any(|input| !input.is_fixed);
            if is_free && !is_widened {
                is_widened = true;
                (room_bits, assumed) = self.widened(log_n, depth, room_bits, &assumed)?;
            } else if trial.room_bits >= 0.0 {
                let filled: Vec<Assumed> = assumed.iter().map(Assumed::filled).collect();
                if filled == assumed {
                    return trial.planned(self.options, None);
                }
                match self.trial_with_its_keys(&params, &filled) {
                    // Simulation rejects values that noise would ruin, so smaller ranges are tried.
                    Err(ArrayError::Library(sudare::Error::Circuit(_)))
                        if self.shrink(&mut assumed) => {}
                    filled => return trial.with_filled(filled?).planned(self.options, None),
                }
            } else if !(is_free && self.shrink(&mut assumed)) {
                // Slightly more than is lacking, so that this ends.
                room_bits += 0.1 - trial.room_bits;
            }
        }
    }

    /// Halves the ranges of inputs without a declared range. Returns whether any could be halved.
    fn shrink(&self, assumed: &mut [Assumed]) -> bool {
        let mut any = false;
        for input in assumed.iter_mut().filter(|input| !input.is_fixed) {
            // Not below the values of the trial.
            if input.range.1 / 2.0 >= self.options.input_bound {
                input.range = (input.range.0 / 2.0, input.range.1 / 2.0);
                any = true;
            }
        }
        any
    }

    /// Finds room and ranges for inputs without a declared range.
    ///
    /// They may have [`USUAL_BOUND_BITS`] bits or more if the results have room. Otherwise they may
    /// be as large as one additional prime allows.
    fn widened(
        &self,
        log_n: u32,
        depth: usize,
        room_bits: f64,
        assumed: &[Assumed],
    ) -> Result<(f64, Vec<Assumed>)> {
        let with_bound = |bits: f64| self.with_bound(assumed, bits);
        let fits = |room_bits: f64, bits: f64| -> Result<bool> {
            let Some(spec) = self.options.spec(log_n, depth, room_bits) else { return Ok(false) };
            match self.trial(&Params::new(spec)?, &with_bound(bits)) {
                // Padding may have to be masked, at the cost of a level.
                Err(ArrayError::LevelExhausted { .. }) => Ok(false),
                Err(error) if lacking_bits(&error).is_some() => Ok(false),
                trial => Ok(trial?.room_bits >= 0.0),
            }
        };
        for bits in BOUNDS_BITS.into_iter().filter(|&bits| bits >= USUAL_BOUND_BITS) {
            if fits(room_bits, bits)? {
                return Ok((room_bits, with_bound(bits)));
            }
        }
        let roomier = self.options.roomier(log_n, depth, room_bits);
        for (room_bits, _) in &roomier {
            if fits(*room_bits, USUAL_BOUND_BITS)? {
                return Ok((*room_bits, with_bound(USUAL_BOUND_BITS)));
            }
        }
        let most = roomier.iter().map(|(room_bits, _)| *room_bits).fold(room_bits, f64::max);
        for bits in BOUNDS_BITS {
            if fits(most, bits)? {
                return Ok((most, with_bound(bits)));
            }
        }
        Ok((room_bits, with_bound(0.0)))
    }

    /// Returns the inputs with bounds of `2^bits` times the usual one where no range is declared.
    fn with_bound(&self, assumed: &[Assumed], bits: f64) -> Vec<Assumed> {
        let bound = real::exp2(bits) * self.options.input_bound;
        let of = |input: &Assumed| match input.is_fixed {
            true => input.clone(),
            false => Assumed { range: (-bound, bound), ..input.clone() },
        };
        assumed.iter().map(of).collect()
    }

    /// Returns the assumed ranges of the inputs: the declared range, or the interval of the
    /// function that an unchanged input is passed to, or magnitudes up to
    /// [`PlanOptions::input_bound`].
    fn assumed(&self, params: &Params, plan: Option<&BootstrapPlan>) -> Result<Vec<Assumed>> {
        let bound = self.options.input_bound;
        let declared = |place: usize| self.options.ranges.get(place).copied().flatten();
        let is_shared = self.options.share_bits.is_some();
        let first = (0..self.shapes.len()).map(|place| match declared(place) {
            Some(range) => Assumed::fixed(range),
            None => Assumed {
                range: (-bound, bound),
                values: (-bound, bound),
                // Bounds of shared results hold up to `input_bound`, and a set that bootstraps has
                // a fixed modulus.
                is_fixed: is_shared || plan.is_some(),
                is_declared: false,
            },
        });
        let first: Vec<Assumed> = first.collect();
        if is_shared {
            return Ok(first);
        }
        let trial =
            Trial::run(params, None, plan, self.shapes, self.options, &first, self.program)?;
        let narrowed = |(place, (input, interval)): (usize, (Assumed, Option<Interval<f64>>))| {
            let Some(Interval { start, end }) = interval else { return input };
            let (low, high) = match declared(place) {
                Some((low, high)) => (low.max(start), high.min(end)),
                None => (start, end),
            };
            // Disjoint intervals are rejected when the program meets the second one.
            if low <= high { Assumed::fixed((low, high)) } else { input }
        };
        Ok(first.into_iter().zip(trial.intervals).enumerate().map(narrowed).collect())
    }

    fn trial(&self, params: &Params, assumed: &[Assumed]) -> Result<Trial> {
        Trial::run(params, None, None, self.shapes, self.options, assumed, self.program)
    }

    fn trial_with_its_keys(&self, params: &Params, assumed: &[Assumed]) -> Result<Trial> {
        Trial::with_its_keys(params, None, self.shapes, self.options, assumed, self.program)
    }
}

/// Finds the cost of a program under given parameters with these keys. To allow bootstrapping, pass
/// the name of its set and the plan. Of the options only the bound and ranges of inputs, the rates,
/// `share_bits` and `assume_intervals` matter.
///
/// # Errors
/// [`ArrayError::LevelExhausted`] for a program that is too deep; the errors of [`plan`].
pub fn measure(
    params: &Params,
    keys: &KeyRequest,
    bootstrapping: Option<(String, &BootstrapPlan)>,
    shapes: &[&[usize]],
    options: &PlanOptions,
    program: impl Fn(&Simulator, Vec<SimulatedArray>) -> Result<Vec<SimulatedArray>>,
) -> Result<Planned> {
    options.check()?;
    let plan = bootstrapping.as_ref().map(|(_, plan)| *plan);
    let search = Search { shapes, options, program: &program };
    let assumed = search.assumed(params, plan)?;
    let run = |assumed: &[Assumed]| {
        Trial::run(params, Some(keys), plan, shapes, options, assumed, &program)
    };
    let mut trial = run(&assumed)?;
    trial.check_room()?;
    // Ranges that are not declared become as large as the room allows.
    // The bounds decrease, so this is a binary search for the first that fits. The last one has
    // just fit.
    if assumed.iter().any(|input| !input.is_fixed) {
        let mut largest = 0;
        let mut fitting = BOUNDS_BITS.len() - 1;
        while largest < fitting {
            let middle = largest.midpoint(fitting);
            match run(&search.with_bound(&assumed, BOUNDS_BITS[middle])) {
                Ok(wider) if wider.room_bits >= 0.0 => {
                    trial = wider;
                    fitting = middle;
                }
                Ok(_) | Err(ArrayError::LevelExhausted { .. }) => largest = middle + 1,
                Err(error) => return Err(error),
            }
        }
    }
    trial.planned(options, bootstrapping)
}

impl PlanOptions {
    /// Returns the smallest of these rings that has `depth` levels at 128 bits of security. Results
    /// at the lowest level have room up to 2^40 times [`PlanOptions::log2_range`], if the modulus
    /// allows.
    #[must_use]
    pub fn parameters(&self, depth: usize) -> Option<Spec> {
        self.log_n.clone().find_map(|log_n| {
            let own = self.spec(log_n, depth, self.log2_range)?;
            let mut roomier = self.roomier(log_n, depth, self.log2_range);
            Some(if roomier.is_empty() { own } else { roomier.swap_remove(0).1 })
        })
    }

    /// Returns parameters of this depth with more room, sorted by the sizes of their keys. For each
    /// size, the one with the most room is returned. More modulus leaves less for special primes,
    /// so that keys may have more digits.
    fn roomier(&self, log_n: u32, depth: usize, room_bits: f64) -> Vec<(f64, Spec)> {
        let mut found: Vec<(u64, f64, Spec)> = Vec::new();
        for spare in SPARES_BITS {
            let Some(spec) = self.spec(log_n, depth, room_bits + spare) else { continue };
            let Ok(params) = Params::new(spec.clone()) else { continue };
            let key = KeyRequest::new().relinearize(params.top());
            let bytes = key.bytes(params.rlwe()).unwrap_or(u64::MAX);
            // Spare bits decrease, so the first set of each size has the most room.
            if found.iter().all(|(known, ..)| *known != bytes) {
                found.push((bytes, room_bits + spare, spec));
            }
        }
        found.sort_by_key(|(bytes, ..)| *bytes);
        found.into_iter().map(|(_, room_bits, spec)| (room_bits, spec)).collect()
    }

    fn check(&self) -> Result<()> {
        let argument = |problem| Err(ArrayError::Argument { op: OP, problem });
        let first = *self.log_n.start();
        let last = *self.log_n.end();
        if first < 10 || last > 17 {
            return argument(format!("rings of 2^{first} to 2^{last}: 2^10 to 2^17 are possible"));
        }
        if !(20.0..=MAX_SCALE_BITS).contains(&self.log2_scale)
            || !(0.0..=60.0).contains(&self.log2_range)
        {
            return argument(format!(
                "a scale of 2^{} and values of 2^{}: scales of 2^20 to 2^{MAX_SCALE_BITS} and \
                 values of 1 to 2^60 are possible",
                self.log2_scale, self.log2_range
            ));
        }
        if let Some(bits) = self.share_bits
            && !(1..=Release::MAX_BITS).contains(&bits)
        {
            return argument(format!(
                "results to be shared to {bits} bits after the point: 1 to {} are possible",
                Release::MAX_BITS
            ));
        }
        for &(low, high) in self.ranges.iter().flatten() {
            check_ends(OP, low, high)?;
        }
        if !(self.input_bound > 0.0 && self.input_bound < real::exp2(self.log2_range)) {
            return argument(format!(
                "inputs of {}: a positive number below 2^log2_range is needed",
                self.input_bound
            ));
        }
        Ok(())
    }

    /// Returns parameters of this depth with `room_bits` bits of room at the lowest level, if they
    /// have 128 bits of security.
    fn spec(&self, log_n: u32, depth: usize, room_bits: f64) -> Option<Spec> {
        let room = Room::new(log_n);
        // Checked before memory is reserved for each level.
        if !room.holds(self.log2_scale * depth as f64) {
            return None;
        }
        // One bit for the sign.
        let mut q_bits = vec![planner::level(self.log2_scale + room_bits + 1.0, FAST_BITS)];
        q_bits.resize(depth + 1, planner::level(self.log2_scale, MAX_PRIME_BITS));
        room.complete(planner::chain(log_n, q_bits, self.log2_scale))
    }
}

/// The result of a simulated run of a program.
struct Trial {
    params: Params,
    engine: Simulator,
    /// The keys that the run used.
    keys: KeyRequest,
    inputs: Vec<ArrayFacts>,
    outputs: Vec<ArrayFacts>,
    ranges: Vec<InputRange>,
    /// Interval of the functions that each input is passed to unchanged.
    intervals: Vec<Option<Interval<f64>>>,
    /// Bits left between the largest magnitudes and their room.
    room_bits: f64,
}

impl Trial {
    /// Runs the program with exactly the keys that a first run used.
    fn with_its_keys(
        params: &Params,
        plan: Option<&BootstrapPlan>,
        shapes: &[&[usize]],
        options: &PlanOptions,
        assumed: &[Assumed],
        program: impl Fn(&Simulator, Vec<SimulatedArray>) -> Result<Vec<SimulatedArray>>,
    ) -> Result<Self> {
        let trial = Self::run(params, None, plan, shapes, options, assumed, &program)?;
        let keys = trial.keys.clone();
        // An engine for these keys would rotate by powers of two, so the trial does so, too.
        if !trial.engine.clone().for_keys(params, &keys).uses_power_rotations() {
            return Ok(trial);
        }
        let mut again = Self::run(params, Some(&keys), plan, shapes, options, assumed, program)?;
        // Keys of both runs, so that engines for them make the same choice.
        again.keys |= keys;
        Ok(again)
    }

    /// Runs the program with any rotations, or with the rotations of the keys `held`.
    fn run(
        params: &Params,
        held: Option<&KeyRequest>,
        plan: Option<&BootstrapPlan>,
        shapes: &[&[usize]],
        options: &PlanOptions,
        assumed: &[Assumed],
        program: impl Fn(&Simulator, Vec<SimulatedArray>) -> Result<Vec<SimulatedArray>>,
    ) -> Result<Self> {
        let keys = plan.map_or_else(KeyRequest::new, |plan| plan.required_keys().clone());
        let evaluator = cost::Evaluator::new(params, &keys).with_folded_arguments();
        let evaluator = Arc::new(evaluator);
        let bootstrapper = plan.map(|plan| plan.prepare(&*evaluator).map(Arc::new)).transpose()?;
        let engine = Engine::shared(Arc::clone(&evaluator), params, bootstrapper)?;
        let needs = Arc::new(Needs::new());
        let mut engine = engine.with_checked_magnitudes().noting(&needs);
        if let Some(held) = held {
            engine = engine.for_keys(params, held);
        }
        let mut inputs = Vec::with_capacity(shapes.len());
        for (salt, (shape, assumed)) in shapes.iter().zip(assumed).enumerate() {
            let layout = Layout::new(shape, engine.log_slots_max())?;
            // Errors of products grow with the factors, so inputs fill their trial range.
            let (low, high) = assumed.values;
            let value = |i| match options.share_bits {
                Some(_) if unit(salt, i) < 0.0 => low,
                Some(_) => high,
                None => low + (high - low) * (1.0 + unit(salt, i)) / 2.0,
            };
            let values = PlainArray::new(shape, (0..layout.elements()).map(value).collect());
            let level = engine.highest_level();
            inputs.push(simulate_encryption_within(
                evaluator.slots(),
                params,
                &layout,
                &values,
                assumed.bound(),
                Range::new(assumed.range.0, assumed.range.1),
                level,
            )?);
        }
        let sources: Vec<_> = inputs.iter().map(|input| input.range().source()).collect();
        for input in &inputs {
            engine.check_room("encrypt", input.level(), input.range())?;
        }
        let facts = |arrays: &[Array<_>]| {
            let fact = |array| ArrayFacts::of(array, params, options);
            arrays.iter().map(fact).collect::<Vec<_>>()
        };
        let in_facts = facts(&inputs);
        let outputs = facts(&program(&engine, inputs)?);
        let keys = evaluator.slots().used_keys();
        let interval = |source: &Option<u64>| source.and_then(|source| needs.interval(source));
        Ok(Self {
            params: params.clone(),
            engine,
            keys,
            inputs: in_facts,
            outputs,
            ranges: assumed.iter().map(Assumed::facts).collect(),
            intervals: sources.iter().map(interval).collect(),
            room_bits: needs.room_bits(),
        })
    }

    /// Adds the errors of a trial on inputs that fill their ranges.
    fn with_filled(mut self, filled: Self) -> Self {
        for (output, filled) in self.outputs.iter_mut().zip(filled.outputs) {
            output.filled_noise_log2 = filled.noise_log2;
        }
        self
    }

    /// Rejects a program whose results could exceed its parameters.
    fn check_room(&self) -> Result<()> {
        if self.room_bits >= 0.0 {
            return Ok(());
        }
        Err(ArrayError::Overflow { excess_bits: -self.room_bits })
    }

    fn depth(&self) -> u32 {
        let lowest = self.engine.counts().lowest_level;
        self.engine.highest_level().0.saturating_sub(lowest.0)
    }

    fn planned(
        self,
        options: &PlanOptions,
        bootstrapping: Option<(String, &BootstrapPlan)>,
    ) -> Result<Planned> {
        let params = &self.params;
        let rlwe = self.params.rlwe();
        let evaluator = self.engine.evaluator();
        let mut required_keys = self.keys.clone();
        let counts = self.engine.counts();
        // Without bootstrapped ciphertexts, the keys for bootstrapping are not needed.
        let bootstrapping = bootstrapping.filter(|_| counts.bootstraps > 0);
        let mut matrix_bytes = 0;
        if let Some((_, plan)) = &bootstrapping {
            required_keys |= plan.required_keys();
            matrix_bytes = plan.matrix_bytes(params);
        }
        let key_bytes = required_keys.bytes(rlwe)?;
        let bytes = |arrays: &[ArrayFacts]| arrays.iter().map(|array| array.bytes).sum::<u64>();
        let ciphertext_bytes = bytes(&self.inputs);
        let results = bytes(&self.outputs);
        let rates = options.rates.unwrap_or_else(|| Rates::reference(params.log_n()));
        let work = evaluator.work();
        Ok(Planned {
            spec: params.spec().clone(),
            log_n: params.log_n(),
            security_bits: rlwe.security_bits(),
            depth: self.depth(),
            bootstraps: counts.bootstraps,
            keys: required_keys.count(),
            required_keys,
            key_bytes,
            matrix_bytes,
            ciphertext_bytes,
            peak_bytes: key_bytes + matrix_bytes + BLOCKS_HELD * (ciphertext_bytes + results),
            work,
            seconds: work.seconds(&rates),
            bootstrapping: bootstrapping.map(|(name, plan)| (name, plan.spec().log_slots)),
            inputs: self.inputs,
            outputs: self.outputs,
            ranges: self.ranges,
        })
    }
}

/// Returns a pseudorandom number in [-1, 1].
fn unit(salt: usize, i: usize) -> f64 {
    // Constants of SplitMix64.
    let mut x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((salt as u64) << 48);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((x >> 11) as f64) / (1u64 << 52) as f64 - 1.0
}
