//! What a program on arrays needs, from the shapes of its inputs.

use core::ops::{Range as Interval, RangeInclusive};
use std::sync::Arc;

use serde::Serialize;
use sudare::{
    circuits::{
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

/// Most levels that are tried.
const MAX_DEPTH: usize = 60;

/// Most bits of a scale: with more, results are not more precise, since `f64` rounds them.
const MAX_SCALE_BITS: f64 = 90.0;

/// Bits of the magnitude of inputs that a program has room for where nothing is said of them: a
/// million.
const USUAL_BOUND_BITS: f64 = 20.0;

/// Magnitudes of inputs that are tried, the largest first.
const BOUNDS_BITS: [f64; 7] = [30.0, USUAL_BOUND_BITS, 16.0, 12.0, 8.0, 4.0, 0.0];

/// The most room for values that is considered.
const MAX_ROOM_BITS: f64 = 200.0;

/// Bits of room that one prime more may give: squares of numbers up to a million need 31 more than
/// [`PlanOptions::log2_range`], squares of thousands 16.
const SPARES_BITS: [f64; 7] = [40.0, 36.0, 32.0, 28.0, 24.0, 20.0, 16.0];

/// Blocks of arrays that a program holds at once for each of its inputs and results, about.
const BLOCKS_HELD: u64 = 3;

/// What runs a program in the clear, with the costs and errors that it would have.
pub type Simulator = Engine<'static, cost::Evaluator>;

/// An array in a [`Simulator`].
pub type SimulatedArray = Array<cost::Evaluator>;

/// What is asked of the parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOptions {
    /// Rings that are tried, by `log2` of their dimension.
    pub log_n: RangeInclusive<u32>,
    /// `log2` of the scale without bootstrapping: values have some 18 bits less behind the point
    /// in the largest ring. With more than 60 bits, levels have several primes.
    pub log2_scale: f64,
    /// `log2` of the largest magnitude of a value, without bootstrapping.
    pub log2_range: f64,
    /// For each input the interval that it lies in, where that is known. There is room for it. An
    /// input without one is taken to fill the interval of the function that it goes into; if it goes
    /// into none, there is room for magnitudes up to 2^20 or as many as one prime more allows.
    pub ranges: Vec<Option<(f64, f64)>>,
    /// The set to bootstrap with if no ring has as many levels, such as `n16-boot-real`; none
    /// refuses such programs.
    pub bootstrapping: Option<String>,
    /// The largest magnitude of the inputs that the program is run on.
    pub input_bound: f64,
    /// Bits after the point to which others than the owner of the key may see the results, if any:
    /// scales are then as large as [`Release`] needs them, at least `log2_scale`.
    pub share_bits: Option<u32>,
    /// That arguments of functions stay in their intervals, also where inputs of such a magnitude and
    /// the steps before do not imply it. Bounds of errors rely on it: if it is not so, what is
    /// released may tell about the key.
    pub assume_intervals: bool,
    /// The speed of the machine, else that of [`Rates::reference`].
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
    /// The set that it bootstraps with, and `log2` of the slots that are bootstrapped.
    pub bootstrapping: Option<(String, u32)>,
    /// `log2` of the dimension of the ring.
    pub log_n: u32,
    /// Bits of security.
    pub security_bits: f64,
    /// Levels from the inputs to the lowest result.
    pub depth: u32,
    /// Ciphertexts that are bootstrapped.
    pub bootstraps: u64,
    /// The inputs, in the layouts of new arrays.
    pub inputs: Vec<ArrayFacts>,
    /// The results.
    pub outputs: Vec<ArrayFacts>,
    /// What each input may hold: there is room for all that follows from it.
    pub ranges: Vec<InputRange>,
    /// The keys that the program uses, and no other.
    #[serde(skip)]
    pub required_keys: KeyRequest,
    /// Number of evaluation keys.
    pub keys: usize,
    /// Bytes of evaluation keys in memory.
    pub key_bytes: u64,
    /// Bytes of the matrices of bootstrapping.
    pub matrix_bytes: u64,
    /// Bytes of the inputs.
    pub ciphertext_bytes: u64,
    /// Bytes of memory that the program takes, about: keys, matrices of bootstrapping, and three
    /// times its inputs and results.
    pub peak_bytes: u64,
    /// What is computed, without the encoding of matrices.
    pub work: Work,
    /// The time that it takes.
    pub seconds: f64,
}

/// What an input of a planned program may hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct InputRange {
    /// The lowest value.
    pub low: f64,
    /// The highest value.
    pub high: f64,
    /// Whether the range was declared or follows from the program, rather than from the room that
    /// there is.
    pub declared: bool,
}

/// An array of a planned program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArrayFacts {
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// Ciphertexts of the array.
    pub blocks: usize,
    /// Level of the array.
    pub level: u32,
    /// Bytes of its ciphertexts.
    pub bytes: u64,
    /// `log2` of the standard deviation of the error of an element that noise causes, for inputs
    /// that fill their declared ranges, or up to [`PlanOptions::input_bound`]. What bootstrapping and approximations add is not in it.
    pub noise_log2: f64,
    /// The same for inputs that fill the ranges that there is room for.
    pub filled_noise_log2: f64,
    /// The largest magnitude that an element can have.
    pub magnitude: f64,
    /// A bound of the errors that encryption, rounding and encoding cause, whatever the inputs are
    /// and however often they are used ([`WorstCase`](sudare::circuits::WorstCase)); infinite with
    /// bootstrapping.
    pub error_bound: f64,
    /// How far from the middle of its interval the argument of a function can be, in half-widths; 0
    /// if there is none, or if intervals are assumed.
    pub argument: f64,
    /// Bits left between the largest value that inputs can lead to on the way here and the modulus
    /// that held it; negative if some would be lost.
    pub headroom_bits: f64,
}

impl ArrayFacts {
    /// A bound of the errors of decrypted elements, for all inputs up to
    /// [`PlanOptions::input_bound`]: [`ArrayFacts::error_bound`] and the rounding of decoding.
    /// Infinite where none is known, also if arguments of functions can leave their intervals.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        if self.headroom_bits < 0.0 || self.leaves_intervals() {
            return f64::INFINITY;
        }
        self.error_bound + self.decoding_error()
    }

    /// Whether arguments of functions can be outside of their intervals.
    fn leaves_intervals(&self) -> bool {
        self.argument > WorstCase::LARGEST_ARGUMENT
    }

    fn decoding_error(&self) -> f64 {
        DECODING_ERROR * self.magnitude.max(1.0)
    }

    /// The largest error of elements with which all can be shared to `bits` bits after the point.
    #[must_use]
    pub fn largest_shared_error(&self, bits: u32) -> f64 {
        Release::default().largest_error(self.shape.iter().product(), bits)
    }

    /// The most bits after the point to which all elements can be shared, if there are any.
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
    /// How it bootstraps in parameters made from its specification, if it does.
    ///
    /// # Errors
    /// As [`bootstrap::BootstrapPreset::plan`].
    pub fn bootstrap_plan(&self, params: &Params) -> Result<Option<BootstrapPlan>> {
        let plan = |(name, log_slots): &(String, u32)| -> Result<_> {
            Ok(bootstrap::preset(name)?.plan(params, *log_slots)?)
        };
        self.bootstrapping.as_ref().map(plan).transpose()
    }
}

/// Runs a program in simulation, on inputs of these shapes, to find the smallest ring of 128 bits
/// of security that has its levels, and what it takes there. Which operations are done must
/// depend on shapes only.
///
/// # Errors
/// [`ArrayError::LevelExhausted`] if no ring has the levels, and bootstrapping is not allowed or of
/// no help; [`ArrayError::Argument`] for options out of range; [`ArrayError::Library`] with
/// `TooLittlePrecision` for results that cannot be shared to so many bits, and
/// [`ArrayError::Overflow`] if some inputs would be lost, [`ArrayError::IntervalUnchecked`] if some
/// could lead out of the interval of a function; those of the program.
pub fn plan(
    shapes: &[&[usize]],
    options: &PlanOptions,
    program: impl Fn(&Simulator, Vec<SimulatedArray>) -> Result<Vec<SimulatedArray>>,
) -> Result<Planned> {
    let mut options = options.clone();
    let mut lacking: Option<ArrayError> = None;
    loop {
        let planned = match (plan_at_scale(shapes, &options, &program), &lacking) {
            // No ring has room for scales that are as large as it takes.
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
            // Larger scales help if it is for errors, and then the first time.
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
            let worst = errors.max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
            worst.filter(|(found, needed)| found > needed)
        };
        let Some((found, needed)) = errors(ArrayFacts::largest_error) else { return Ok(planned) };
        let error = ArrayError::Library(sudare::Error::TooLittlePrecision { bits, found, needed });
        // Larger scales do not make decoding more precise.
        let hopeless = errors(ArrayFacts::decoding_error).is_some();
        if hopeless || !found.is_finite() || options.log2_scale >= MAX_SCALE_BITS {
            return Err(error);
        }
        options.log2_scale += real::log2(found / needed) + 0.5;
        options.log2_scale = options.log2_scale.min(MAX_SCALE_BITS);
        lacking = Some(error);
    }
}

/// As [`plan`], whatever the errors.
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
            Err(error @ ArrayError::LevelExhausted { .. }) => exhausted = Some(error),
            Err(error) => return Err(error),
        }
    }
    let Some(name) = &options.bootstrapping else {
        let none = || ArrayError::Argument {
            op: OP,
            problem: format!("no ring of {:?} has 128 bits of security: try others", options.log_n),
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

/// What an input of a program is taken to hold.
#[derive(Debug, Clone, PartialEq)]
struct Assumed {
    /// What it may hold, for which there is room.
    range: (f64, f64),
    /// What it holds in the trial, for which errors are estimated.
    values: (f64, f64),
    /// Whether the range is to stay as it is.
    is_fixed: bool,
    /// Whether it was asked for, or follows from the program.
    is_declared: bool,
}

impl Assumed {
    fn fixed(range: (f64, f64)) -> Self {
        Self { range, values: range, is_fixed: true, is_declared: true }
    }

    /// The same, whose values in the trial fill the range.
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

/// Whether a constant of a program is too large for its level.
fn lacks_room(error: &ArrayError) -> bool {
    matches!(error, ArrayError::Library(sudare::Error::ValueTooLarge { needed_bits, .. })
        if needed_bits.is_finite())
}

/// The search for parameters of a program.
struct Search<'a, P> {
    shapes: &'a [&'a [usize]],
    options: &'a PlanOptions,
    program: &'a P,
}

impl<P: Fn(&Simulator, Vec<SimulatedArray>) -> Result<Vec<SimulatedArray>>> Search<'_, P> {
    /// The least levels and the least modulus of a ring that have room for the inputs: for those
    /// of a declared range, or for as large ones as one prime more allows.
    ///
    /// # Errors
    /// [`ArrayError::LevelExhausted`] where the ring is too small.
    fn in_ring(&self, log_n: u32) -> Result<Planned> {
        let too_small = || ArrayError::LevelExhausted { op: OP, needed: 1, left: 0 };
        let spec = |depth, room_bits| self.options.spec(log_n, depth, room_bits);
        let own_bits = self.options.log2_range;
        let deepest = (0..=MAX_DEPTH).rev().find(|&depth| spec(depth, own_bits).is_some());
        let deepest = deepest.ok_or_else(too_small)?;
        let params = Params::new(spec(deepest, own_bits).ok_or_else(too_small)?)?;
        let mut assumed = self.assumed(&params, None)?;
        let mut depth = match self.trial(&params, &assumed) {
            // At the end of all levels, for a constant of the program: below it is given room.
            Err(error) if lacks_room(&error) => deepest,
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
                Err(ArrayError::Library(sudare::Error::ValueTooLarge {
                    needed_bits,
                    available_bits,
                    ..
                })) if needed_bits.is_finite() && room_bits < MAX_ROOM_BITS => {
                    room_bits += (needed_bits - available_bits).max(0.0) + 1.0;
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
                    // Simulation refuses what noise would ruin.
                    Err(ArrayError::Library(sudare::Error::Circuit(_)))
                        if self.shrink(&mut assumed) => {}
                    filled => return trial.with_filled(filled?).planned(self.options, None),
                }
            } else if !(is_free && self.shrink(&mut assumed)) {
                room_bits += 0.1 - trial.room_bits;
            }
        }
    }

    /// Halves the ranges of inputs that nobody declared; whether any could be.
    fn shrink(&self, assumed: &mut [Assumed]) -> bool {
        let mut any = false;
        for input in assumed.iter_mut().filter(|input| !input.is_fixed) {
            if input.range.1 / 2.0 >= self.options.input_bound {
                input.range = (input.range.0 / 2.0, input.range.1 / 2.0);
                any = true;
            }
        }
        any
    }

    /// Room and ranges for inputs that nobody declared: numbers of [`USUAL_BOUND_BITS`] or more if
    /// there is room for what follows from them, else as large ones as one prime more allows.
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
                Err(error) if lacks_room(&error) => Ok(false),
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

    /// The same, where inputs that nobody declared may be `2^bits` times the usual bound.
    fn with_bound(&self, assumed: &[Assumed], bits: f64) -> Vec<Assumed> {
        let bound = real::exp2(bits) * self.options.input_bound;
        let of = |input: &Assumed| match input.is_fixed {
            true => input.clone(),
            false => Assumed { range: (-bound, bound), ..input.clone() },
        };
        assumed.iter().map(of).collect()
    }

    /// What inputs are taken to hold: what was declared; else what functions want that they go
    /// into as they are; else numbers up to [`PlanOptions::input_bound`].
    fn assumed(&self, params: &Params, plan: Option<&BootstrapPlan>) -> Result<Vec<Assumed>> {
        let bound = self.options.input_bound;
        let declared = |place: usize| self.options.ranges.get(place).copied().flatten();
        let is_shared = self.options.share_bits.is_some();
        let first = (0..self.shapes.len()).map(|place| match declared(place) {
            Some(range) => Assumed::fixed(range),
            None => Assumed {
                range: (-bound, bound),
                values: (-bound, bound),
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
            // Intervals without a number in common are refused where the second one is met.
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

/// What a program takes under given parameters with these keys, and with a way to bootstrap if there
/// is one: the name of its set and the plan. Of the options the bound of inputs, the rates and whether
/// intervals are assumed count.
///
/// # Errors
/// [`ArrayError::LevelExhausted`] for a program that is too deep; as [`plan`].
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
    // As large ones as there is room for, where nothing is declared.
    if assumed.iter().any(|input| !input.is_fixed) {
        for bits in BOUNDS_BITS {
            match run(&search.with_bound(&assumed, bits)) {
                Ok(wider) if wider.room_bits >= 0.0 => {
                    trial = wider;
                    break;
                }
                Ok(_) | Err(ArrayError::LevelExhausted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    trial.planned(options, bootstrapping)
}

impl PlanOptions {
    /// The smallest ring of these that has `depth` levels at 128 bits of security, with room for
    /// results of the lowest level up to 2^40 times [`PlanOptions::log2_range`] where it has the
    /// modulus.
    #[must_use]
    pub fn parameters(&self, depth: usize) -> Option<Spec> {
        self.log_n.clone().find_map(|log_n| {
            let own = self.spec(log_n, depth, self.log2_range)?;
            let mut roomier = self.roomier(log_n, depth, self.log2_range);
            Some(if roomier.is_empty() { own } else { roomier.swap_remove(0).1 })
        })
    }

    /// Parameters of this depth with more room, by the sizes of their keys, and for each size the most
    /// room: more modulus leaves less for special primes, so that keys may have more digits.
    fn roomier(&self, log_n: u32, depth: usize, room_bits: f64) -> Vec<(f64, Spec)> {
        let mut found: Vec<(u64, f64, Spec)> = Vec::new();
        for spare in SPARES_BITS {
            let Some(spec) = self.spec(log_n, depth, room_bits + spare) else { continue };
            let Ok(params) = Params::new(spec.clone()) else { continue };
            let key = KeyRequest::new().relinearize(params.top());
            let bytes = key.bytes(params.rlwe()).unwrap_or(u64::MAX);
            if found.iter().all(|(known, ..)| *known != bytes) {
                found.push((bytes, room_bits + spare, spec));
            }
        }
        found.sort_by_key(|(bytes, ..)| *bytes);
        found.into_iter().map(|(_, room_bits, spec)| (room_bits, spec)).collect()
    }

    fn check(&self) -> Result<()> {
        let argument = |problem| Err(ArrayError::Argument { op: OP, problem });
        let (first, last) = (*self.log_n.start(), *self.log_n.end());
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
            && !(1..=Release::MOST_BITS).contains(&bits)
        {
            return argument(format!(
                "results to be shared to {bits} bits after the point: 1 to {} are possible",
                Release::MOST_BITS
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

    /// Parameters of this depth with so much room at the lowest level, if they have 128 bits of
    /// security.
    fn spec(&self, log_n: u32, depth: usize, room_bits: f64) -> Option<Spec> {
        let room = Room::new(log_n);
        // Before memory is taken for each level.
        if !room.holds(self.log2_scale * depth as f64) {
            return None;
        }
        let mut q_bits = vec![planner::level(self.log2_scale + room_bits + 1.0, FAST_BITS)];
        q_bits.resize(depth + 1, planner::level(self.log2_scale, MAX_PRIME_BITS));
        room.complete(planner::chain(log_n, q_bits, self.log2_scale))
    }
}

/// A program that has been run in simulation.
struct Trial {
    params: Params,
    engine: Simulator,
    /// The keys that it uses.
    keys: KeyRequest,
    inputs: Vec<ArrayFacts>,
    outputs: Vec<ArrayFacts>,
    ranges: Vec<InputRange>,
    /// For each input the interval of the functions that it goes into as it is.
    intervals: Vec<Option<Interval<f64>>>,
    /// Bits left between the largest magnitudes and the room for them.
    room_bits: f64,
}

impl Trial {
    /// As [`Trial::run`] where the keys that it uses are all that there will be.
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
        if !trial.engine.clone().for_keys(params, &keys).uses_power_rotations() {
            return Ok(trial);
        }
        let mut again = Self::run(params, Some(&keys), plan, shapes, options, assumed, program)?;
        again.keys |= keys;
        Ok(again)
    }

    /// With as many rotations as it likes, or with those that these keys are for.
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
            // Errors of products grow with the factors.
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

    /// The same, with the errors of a trial on inputs that fill their ranges.
    fn with_filled(mut self, filled: Self) -> Self {
        for (output, filled) in self.outputs.iter_mut().zip(filled.outputs) {
            output.filled_noise_log2 = filled.noise_log2;
        }
        self
    }

    /// Refuses a program whose results could be larger than its parameters hold.
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
        let (params, rlwe) = (&self.params, self.params.rlwe());
        let evaluator = self.engine.evaluator();
        let mut required_keys = self.keys.clone();
        let counts = self.engine.counts();
        // Without any, the keys for it are not needed.
        let bootstrapping = bootstrapping.filter(|_| counts.bootstraps > 0);
        let mut matrix_bytes = 0;
        if let Some((_, plan)) = &bootstrapping {
            required_keys |= plan.required_keys();
            matrix_bytes = plan.matrix_bytes(params);
        }
        let key_bytes = required_keys.bytes(rlwe)?;
        let bytes = |arrays: &[ArrayFacts]| arrays.iter().map(|array| array.bytes).sum::<u64>();
        let (ciphertext_bytes, results) = (bytes(&self.inputs), bytes(&self.outputs));
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

/// Numbers in [-1, 1] without structure.
fn unit(salt: usize, i: usize) -> f64 {
    let mut x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((salt as u64) << 48);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((x >> 11) as f64) / (1u64 << 52) as f64 - 1.0
}
