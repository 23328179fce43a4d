//! Bounds of the errors of array programs and trainings against the errors themselves.
#![expect(clippy::print_stdout, reason = "bounds beside the largest errors, with --nocapture")]

use crate::session::Session;
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use std::cell::RefCell;
use sudare::{
    circuits::ckks::{ComplexOps, cost},
    ckks::{Params, Release, Spec},
    rlwe::KeyRequest,
};
use sudare_apps::{
    TablePlan,
    array::{self, Array, ArrayError, ArrayFacts, Engine, Layout, PlainArray, PlanOptions},
    functions::{self, Fit},
    logreg::{
        Job, LearningRate, Penalty, Preparation, SigmoidApprox, SigmoidDegree, TrainPlan,
        TrainSpec, reference,
    },
};
use sudare_table::Table;

/// A program on arrays that runs on any evaluator.
trait Program {
    fn run<E: ComplexOps>(&self, e: &Engine<'_, E>, x: &[Array<E>])
    -> array::Result<Vec<Array<E>>>;
}

/// Parameters of a chain with room for values up to `2^9`, in a small ring.
fn small(levels: usize, log2_scale: f64) -> Params {
    let log2_base = log2_scale + 10.0;
    let primes = |bits: f64| {
        let count = (bits / 60.0).ceil();
        vec![bits / count; count as usize]
    };
    let mut q_bits = vec![primes(log2_base)];
    q_bits.resize(levels + 1, primes(log2_scale));
    let special = vec![60.0; primes(log2_base).len()];
    let spec = Spec { q_bits, ..Spec::uniform(11, 60.0, 0, log2_scale, special) };
    Params::new(Spec { insecure: true, ..spec }).unwrap()
}

/// What is known of the results of a program for inputs up to 1, and the keys.
fn measured(params: &Params, shapes: &[&[usize]], program: &impl Program) -> array::Planned {
    measured_with(params, &KeyRequest::new(), shapes, program)
}

/// The same where there are such keys.
fn measured_with(
    params: &Params,
    keys: &KeyRequest,
    shapes: &[&[usize]],
    program: &impl Program,
) -> array::Planned {
    let run = |e: &array::Simulator, x: Vec<_>| program.run(e, &x);
    array::measure(params, keys, None, shapes, &PlanOptions::default(), run).unwrap()
}

/// A key pair that runs a program.
struct Runner {
    session: Session,
    keys: KeyRequest,
}

impl Runner {
    fn new(params: &Params, planned: &array::Planned) -> Self {
        Self::with_keys(params, &planned.required_keys)
    }

    fn with_keys(params: &Params, keys: &KeyRequest) -> Self {
        Self { session: Session::new(params.clone(), keys), keys: keys.clone() }
    }

    /// The decrypted results.
    fn run(&self, program: &impl Program, inputs: &[PlainArray]) -> Vec<Vec<f64>> {
        let Session { params, encryptor, evaluator, decryptor, .. } = &self.session;
        let engine = Engine::new(evaluator, params, None).unwrap().for_keys(params, &self.keys);
        let encrypt = |x: &PlainArray| {
            let layout = Layout::new(&x.shape, engine.log_slots_max()).unwrap();
            array::encrypt(encryptor, params, &layout, x, params.top()).unwrap()
        };
        let inputs: Vec<_> = inputs.iter().map(encrypt).collect();
        let results = program.run(&engine, &inputs).unwrap();
        results.iter().map(|y| array::decrypt(decryptor, params, y).unwrap().values).collect()
    }
}

/// What the results are without any error of encryption.
fn in_clear(params: &Params, program: &impl Program, inputs: &[PlainArray]) -> Vec<Vec<f64>> {
    let e = cost::Evaluator::new(params, &Default::default());
    let engine = Engine::new(&e, params, None).unwrap();
    let encrypt = |x: &PlainArray| {
        let layout = Layout::new(&x.shape, engine.log_slots_max()).unwrap();
        array::simulate_encryption(e.slots(), params, &layout, x, params.top()).unwrap()
    };
    let inputs: Vec<_> = inputs.iter().map(encrypt).collect();
    let results = program.run(&engine, &inputs).unwrap();
    results.iter().map(|y| array::simulate_decryption(y).unwrap().values).collect()
}

/// The largest difference.
fn largest(found: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(found.len(), exact.len());
    found.iter().zip(exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// Numbers in [-1, 1] without structure.
fn unit(salt: u64, i: usize) -> f64 {
    let mut x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xa5a5_1357);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 32;
    f64::from(x as i32) / 2f64.powi(31)
}

/// Programs that use a value again, or weigh elements differently, on 1,024 elements.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// `x 2^-k`, doubled `k` times.
    Doublings(u32),
    /// The sum of as many equal terms.
    Equal(u32),
    /// One weight of 10 among weights of 0.01, or others.
    Weights(f64, f64),
    /// `(1 - x^2)^2`
    OneMinusSquare,
    Mean,
    MeanSquare,
}

const ELEMENTS: usize = 1024;

impl Known {
    fn weights((first, others): (f64, f64)) -> Vec<f64> {
        (0..ELEMENTS).map(|i| if i == 0 { first } else { others }).collect()
    }

    fn exact(self, x: &[f64]) -> Vec<f64> {
        let mean = |f: fn(f64) -> f64| vec![x.iter().map(|&x| f(x)).sum::<f64>() / x.len() as f64];
        match self {
            Self::Doublings(_) | Self::Equal(_) => x.to_vec(),
            Self::Weights(first, others) => {
                let weights = Self::weights((first, others));
                x.iter().zip(weights).map(|(x, w)| x * w).collect()
            }
            Self::OneMinusSquare => x.iter().map(|x| (1.0 - x * x).powi(2)).collect(),
            Self::Mean => mean(|x| x),
            Self::MeanSquare => mean(|x| x * x),
        }
    }
}

impl Program for Known {
    fn run<E: ComplexOps>(
        &self,
        e: &Engine<'_, E>,
        x: &[Array<E>],
    ) -> array::Result<Vec<Array<E>>> {
        let x = &x[0];
        let y = match *self {
            Self::Doublings(count) => {
                let mut y = e.mul_scalar(x, (-f64::from(count)).exp2())?;
                for _ in 0..count {
                    y = e.add(&y, &y)?;
                }
                y
            }
            Self::Equal(count) => {
                let term = e.mul_scalar(x, 1.0 / f64::from(count))?;
                let mut sum = term.clone();
                for _ in 1..count {
                    sum = e.add(&sum, &term)?;
                }
                sum
            }
            Self::Weights(first, others) => {
                let weights = Self::weights((first, others));
                e.mul_plain(x, &PlainArray::new(&[ELEMENTS], weights))?
            }
            Self::OneMinusSquare => {
                let difference = e.add_scalar(&e.neg(&e.square(x)?)?, 1.0)?;
                e.square(&difference)?
            }
            Self::Mean => e.mean(x, Some(&[0]), false)?,
            Self::MeanSquare => e.mean(&e.square(x)?, Some(&[0]), false)?,
        };
        Ok(vec![y])
    }
}

const KNOWN: [Known; 13] = [
    Known::Doublings(8),
    Known::Doublings(16),
    Known::Doublings(20),
    Known::Doublings(30),
    Known::Doublings(40),
    Known::Equal(256),
    Known::Equal(4096),
    Known::Weights(10.0, 0.01),
    Known::Weights(1.0, 0.0),
    Known::Weights(100.0, 0.0),
    Known::OneMinusSquare,
    Known::Mean,
    Known::MeanSquare,
];

/// Inputs of adversaries: all as large as they can be, of one sign, of two, of small values where
/// large ones are planned for, and one among zeros.
fn adversarial(count: usize, salt: u64) -> [Vec<f64>; 5] {
    let signs = |i| if unit(salt, i) < 0.0 { -1.0 } else { 1.0 };
    [
        vec![1.0; count],
        (0..count).map(signs).collect(),
        (0..count).map(|i| 0.1 * unit(salt, i)).collect(),
        (0..count).map(|i| unit(salt, i)).collect(),
        (0..count).map(|i| if i == 0 { 1.0 } else { 0.0 }).collect(),
    ]
}

#[test]
fn no_error_of_a_known_program_is_above_its_bound() {
    let params = small(4, 55.0);
    for program in KNOWN {
        let planned = measured(&params, &[&[ELEMENTS]], &program);
        let bound = planned.outputs[0].largest_error();
        let mut most: f64 = 0.0;
        for salt in 0..4 {
            let runner = Runner::new(&params, &planned);
            for x in adversarial(ELEMENTS, salt) {
                let exact = program.exact(&x);
                let found = runner.run(&program, &[PlainArray::new(&[ELEMENTS], x)]);
                most = most.max(largest(&found[0], &exact));
            }
        }
        let bits = (bound / most).log2();
        println!("{program:?}: bound {bound:.2e}, largest {most:.2e}, {bits:.1} bits");
        assert!((0.0..=12.0).contains(&bits), "{program:?}: {most:e} of {bound:e}");
        // The simulator's expected error does not bound programs that use a value again.
        if let Known::Doublings(16..) = program {
            assert!(most.log2() > planned.outputs[0].noise_log2 + 5.0, "{program:?}");
        }
    }
}

/// A row of 64 rows.
struct Row(usize);

impl Program for Row {
    fn run<E: ComplexOps>(
        &self,
        e: &Engine<'_, E>,
        x: &[Array<E>],
    ) -> array::Result<Vec<Array<E>>> {
        Ok(vec![e.slice(&x[0], &[self.0..self.0 + 1, 0..16])?])
    }
}

/// Keys for any program turn by sums of powers of two, each of which adds an error.
#[test]
fn bounds_are_for_the_rotations_that_keys_are_for() {
    let params = small(2, 30.0);
    let general = array::general_keys(&params, params.top());
    let program = Row(0b01_0101);
    let own = measured(&params, &[&[64, 16]], &program);
    let powers = measured_with(&params, &general, &[&[64, 16]], &program);
    // One rotation instead of three, before the row is copied to its layout.
    assert_eq!(powers.required_keys.count(), own.required_keys.count() + 2);
    let [fewest, most] = [own, powers].map(|planned| planned.outputs[0].largest_error());
    assert!(most > 1.1 * fewest, "{most:e} of {fewest:e}");
    let runner = Runner::with_keys(&params, &general);
    for x in adversarial(ELEMENTS, 5) {
        let exact = x[program.0 * 16..][..16].to_vec();
        let found = runner.run(&program, &[PlainArray::new(&[64, 16], x)]);
        let error = largest(&found[0], &exact);
        assert!(error < most, "{error:e} of {most:e}");
    }
}

/// A bound of a function holds within its interval alone.
#[test]
fn programs_that_may_leave_the_interval_of_a_function_are_not_shared() {
    let sigmoid = functions::sigmoid(-2.0..2.0, Fit::PrecisionBits(12.0)).unwrap();
    let sign = functions::sign(-2.0..2.0, 0.1, Fit::PrecisionBits(8.0)).unwrap();
    assert!(sign.stages().len() > 1);
    let plan = |terms: usize, f: &functions::Function, assume_intervals| {
        let share_bits = Some(4);
        let options = PlanOptions { share_bits, assume_intervals, ..PlanOptions::default() };
        array::plan(&[&[16]], &options, |e: &array::Simulator, x| {
            let sum = (1..terms).try_fold(x[0].clone(), |sum, _| e.add(&sum, &x[0]))?;
            Ok(vec![e.function(&sum, f)?])
        })
    };
    for f in [&sigmoid, &sign] {
        let within = plan(2, f, false).unwrap();
        assert!((within.outputs[0].argument - 1.0).abs() < 1e-4, "{:?}", within.outputs);
        match plan(3, f, false) {
            Err(ArrayError::IntervalUnchecked { found }) => {
                assert!((found - 1.5).abs() < 1e-4, "{found}");
            }
            other => panic!("{other:?}"),
        }
        let assumed = plan(3, f, true).unwrap();
        assert!(assumed.outputs[0].most_shared_bits() >= Some(4));
    }
}

/// Scales are as large as the bound takes, or the bits are named that are missing.
#[test]
fn known_programs_are_planned_by_their_bounds() {
    let options = PlanOptions { share_bits: Some(8), ..PlanOptions::default() };
    let plan = |program: Known| {
        array::plan(&[&[ELEMENTS]], &options, |e: &array::Simulator, x| program.run(e, &x))
    };
    for program in KNOWN {
        match plan(program) {
            Ok(planned) => {
                let out = &planned.outputs[0];
                assert!(out.largest_error() <= out.largest_shared_error(8), "{program:?}");
                assert!(out.most_shared_bits() >= Some(8), "{program:?}");
                assert!(!matches!(program, Known::Doublings(40)));
            }
            Err(ArrayError::Library(
                error @ sudare::Error::TooLittlePrecision { bits: 8, found, needed },
            )) => {
                // The latter because f64 has too few digits.
                let refused = matches!(program, Known::Doublings(30..) | Known::Weights(100.0, _));
                assert!(refused, "{program:?}: {error}");
                let missing = (found / needed).log2();
                assert!((0.0..60.0).contains(&missing), "{program:?}: {error}");
                assert!(error.to_string().contains(&format!("{missing:.1} bits are missing")));
            }
            Err(error) => panic!("{program:?}: {error}"),
        }
    }
    // 2^12 terms of 1 exceed values of 2^9 at level 0, so the plan has more room there.
    let sum = |e: &array::Simulator, x: Vec<Array<_>>| {
        let mut sum = x[0].clone();
        for _ in 0..12 {
            sum = e.add(&sum, &sum)?;
        }
        Ok(vec![sum])
    };
    let one_bit = PlanOptions { share_bits: Some(1), ..options };
    let planned = array::plan(&[&[4]], &one_bit, sum).unwrap();
    assert!(planned.outputs[0].headroom_bits >= 0.0);
    let room_bits = planned.spec.q_bits[0].iter().sum::<f64>() - planned.spec.log2_scale;
    assert!((13.0..15.0).contains(&room_bits), "{room_bits}");
}

/// A step of a random program, on arrays that there are by then.
#[derive(Debug, Clone, Copy)]
enum Step {
    Add(usize, usize),
    Sub(usize, usize),
    Mul(usize, usize),
    Square(usize),
    Scale(usize, i8),
    /// Weights of which one is large.
    Weigh(usize, u64),
    Shift(usize, u64),
    /// Minus its mean over an axis.
    Centre(usize, usize),
    /// Times one of its rows.
    Row(usize, usize),
    /// Plus one of its columns.
    Column(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    let pair = || (index(), index());
    let step = prop_oneof![
        3 => pair().prop_map(|(a, b)| Step::Add(a, b)),
        2 => pair().prop_map(|(a, b)| Step::Sub(a, b)),
        2 => pair().prop_map(|(a, b)| Step::Mul(a, b)),
        1 => index().prop_map(Step::Square),
        1 => (index(), any::<i8>()).prop_map(|(a, c)| Step::Scale(a, c)),
        2 => (index(), any::<u64>()).prop_map(|(a, salt)| Step::Weigh(a, salt)),
        1 => (index(), any::<u64>()).prop_map(|(a, salt)| Step::Shift(a, salt)),
        1 => pair().prop_map(|(a, axis)| Step::Centre(a, axis % 2)),
        1 => pair().prop_map(|(a, row)| Step::Row(a, row)),
        1 => pair().prop_map(|(a, column)| Step::Column(a, column)),
    ];
    prop::collection::vec(step, 4..14)
}

const SIDE: usize = 16;

impl Step {
    fn plain(salt: u64, large: f64) -> PlainArray {
        let spike = (salt % (SIDE * SIDE) as u64) as usize;
        let value = |i| if i == spike { large } else { 0.01 * unit(salt, i) };
        PlainArray::new(&[SIDE; 2], (0..SIDE * SIDE).map(value).collect())
    }

    fn run<E: ComplexOps>(self, e: &Engine<'_, E>, all: &[Array<E>]) -> array::Result<Array<E>> {
        // Later registers more often, so that programs are deep.
        let at = |index: usize| &all[all.len() - 1 - (index % all.len()).min(index % 5)];
        match self {
            Self::Add(a, b) => e.add(at(a), at(b)),
            Self::Sub(a, b) => e.sub(at(a), at(b)),
            Self::Mul(a, b) => e.mul(at(a), at(b)),
            Self::Square(a) => e.square(at(a)),
            Self::Scale(a, c) => e.mul_scalar(at(a), f64::from(c) / 48.0),
            Self::Weigh(a, salt) => e.mul_plain(at(a), &Self::plain(salt, 4.0)),
            Self::Shift(a, salt) => e.add_plain(at(a), &Self::plain(salt, -1.0)),
            Self::Centre(a, axis) => e.sub(at(a), &e.mean(at(a), Some(&[axis]), true)?),
            Self::Row(a, row) => {
                let row = row % SIDE;
                e.mul(at(a), &e.slice(at(a), &[row..row + 1, 0..SIDE])?)
            }
            Self::Column(a, column) => {
                let column = column % SIDE;
                e.add(at(a), &e.slice(at(a), &[0..SIDE, column..column + 1])?)
            }
        }
    }
}

struct Random {
    steps: Vec<Step>,
}

impl Program for Random {
    fn run<E: ComplexOps>(
        &self,
        e: &Engine<'_, E>,
        x: &[Array<E>],
    ) -> array::Result<Vec<Array<E>>> {
        let mut all = x.to_vec();
        for step in &self.steps {
            all.push(step.run(e, &all)?);
        }
        Ok(all.split_off(x.len()))
    }
}

impl Random {
    /// Of the steps that there are levels and room for.
    fn fitting(params: &Params, steps: &[Step]) -> Self {
        let kept = RefCell::new(Vec::new());
        let shapes: [&[usize]; 2] = [&[SIDE; 2]; 2];
        let run = |e: &array::Simulator, x: Vec<Array<_>>| {
            let mut all = x;
            // A plan runs its program more than once.
            kept.borrow_mut().clear();
            for &step in steps {
                match step.run(e, &all) {
                    Ok(next) if next.blocks().iter().all(|b| b.worst.headroom_bits > 0.0) => {
                        all.push(next);
                        kept.borrow_mut().push(step);
                    }
                    _ => {}
                }
            }
            Ok(all.split_off(2))
        };
        array::measure(params, &KeyRequest::new(), None, &shapes, &PlanOptions::default(), run)
            .unwrap();
        Self { steps: kept.into_inner() }
    }
}

/// On so many inputs of each kind. Returns the number of elements that were compared.
fn check_random(params: &Params, steps: &[Step], salts: core::ops::Range<u64>) -> usize {
    let program = Random::fitting(params, steps);
    let shapes: [&[usize]; 2] = [&[SIDE; 2]; 2];
    let planned = measured(params, &shapes, &program);
    let runner = Runner::new(params, &planned);
    let mut compared = 0;
    let pairs = salts.flat_map(|salt| {
        let [a, b] = [2 * salt, 2 * salt + 1].map(|salt| adversarial(SIDE * SIDE, salt));
        a.into_iter().zip(b)
    });
    for (a, b) in pairs {
        let inputs = [a, b].map(|values| PlainArray::new(&[SIDE; 2], values));
        let found = runner.run(&program, &inputs);
        let exact = in_clear(params, &program, &inputs);
        for (k, ((found, exact), out)) in found.iter().zip(&exact).zip(&planned.outputs).enumerate()
        {
            let most = largest(found, exact);
            let bound = out.largest_error();
            assert!(bound.is_finite());
            assert!(most <= bound, "{most:e} of {bound:e} after {:?}", &program.steps[..=k]);
            compared += found.len();
        }
    }
    compared
}

fn check_random_programs(least: usize, inputs: u64) {
    let params = small(8, 50.0);
    let mut runner = TestRunner::deterministic();
    let mut compared = 0;
    let mut programs = 0;
    while compared < least {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        compared += check_random(&params, &steps, inputs * programs..inputs * (programs + 1));
        programs += 1;
    }
    println!("{compared} errors of {programs} programs");
}

/// With values used again, indexing, constants of all sizes and inputs of adversaries.
#[test]
fn no_error_of_a_random_program_is_above_its_bound() {
    check_random_programs(200_000, 1);
}

#[test]
#[ignore = "takes a quarter of an hour"]
fn no_error_of_ten_million_is_above_its_bound() {
    check_random_programs(10_000_000, 4);
}

/// The programs of `docs/costs.md` that are not bootstrapped.
#[derive(Debug, Clone, Copy)]
enum Documented {
    MeansAndVariances,
    Covariances,
    MatrixProduct,
    LinearModel,
    Sigmoid,
    Comparison,
}

impl Documented {
    fn shapes(self) -> Vec<Vec<Vec<usize>>> {
        match self {
            Self::MeansAndVariances => vec![vec![vec![1000, 10]]],
            Self::Covariances => vec![vec![vec![500, 4]], vec![vec![16384, 9]]],
            Self::MatrixProduct => vec![vec![vec![64, 64], vec![64, 64]]],
            Self::LinearModel => vec![vec![vec![10000, 100], vec![100]]],
            Self::Sigmoid => vec![vec![vec![100_000]]],
            Self::Comparison => vec![vec![vec![10_000], vec![10_000]]],
        }
    }
}

impl Program for Documented {
    fn run<E: ComplexOps>(
        &self,
        e: &Engine<'_, E>,
        x: &[Array<E>],
    ) -> array::Result<Vec<Array<E>>> {
        Ok(match self {
            Self::MeansAndVariances => {
                let axes: Option<&[usize]> = Some(&[0]);
                vec![e.mean(&x[0], axes, false)?, e.var(&x[0], axes, false, 0)?]
            }
            Self::Covariances => {
                let centred = e.sub(&x[0], &e.mean(&x[0], Some(&[0]), false)?)?;
                let product = e.matmul(&e.transpose(&centred, None)?, &centred)?;
                vec![e.mul_scalar(&product, 1.0 / x[0].shape()[0] as f64)?]
            }
            Self::MatrixProduct | Self::LinearModel => vec![e.matmul(&x[0], &x[1])?],
            Self::Sigmoid => {
                let sigmoid = functions::sigmoid(-8.0..8.0, Fit::PrecisionBits(16.0)).unwrap();
                vec![e.function(&x[0], &sigmoid)?]
            }
            Self::Comparison => {
                let step = functions::step(-1.0..1.0, 0.01, Fit::PrecisionBits(10.0)).unwrap();
                vec![e.function(&e.sub(&x[0], &x[1])?, &step)?]
            }
        })
    }
}

#[test]
#[ignore = "full rings"]
fn bounds_of_documented_programs_are_near_the_largest_errors() {
    use Documented::*;
    for program in [MeansAndVariances, Covariances, MatrixProduct, LinearModel, Sigmoid, Comparison]
    {
        for shapes in program.shapes() {
            let shapes_of: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
            let run = |e: &array::Simulator, x: Vec<_>| program.run(e, &x);
            // The values of a pair are so close that their difference lies in the interval.
            let options = PlanOptions { assume_intervals: true, ..PlanOptions::default() };
            let planned = array::plan(&shapes_of, &options, run).unwrap();
            let params = Params::new(planned.spec.clone()).unwrap();
            let mut most = vec![0f64; planned.outputs.len()];
            for salt in 0..2 {
                let runner = Runner::new(&params, &planned);
                let value = |i: usize| match program {
                    // Both bounds are equal where a step is steepest.
                    Comparison => 0.5,
                    _ => unit(salt, i).signum(),
                };
                let input = |shape: &Vec<usize>| {
                    let count = shape.iter().product();
                    PlainArray::new(shape, (0..count).map(value).collect())
                };
                let inputs: Vec<_> = shapes.iter().map(input).collect();
                let exact = in_clear(&params, &program, &inputs);
                let found = runner.run(&program, &inputs);
                for ((most, found), exact) in most.iter_mut().zip(&found).zip(&exact) {
                    *most = most.max(largest(found, exact));
                }
            }
            for (most, out) in most.iter().zip(&planned.outputs) {
                let ArrayFacts { noise_log2, .. } = out;
                let bound = out.largest_error().log2();
                let found = most.log2();
                println!(
                    "{program:?} {shapes:?}: N = 2^{}, estimate 2^{noise_log2:.1}, bound 2^{bound:.1}, largest 2^{found:.1}: {:.1} bits",
                    planned.log_n,
                    bound - found
                );
                assert!(found <= bound);
            }
        }
    }
}

/// Rows of any numbers, of which all columns but one are zero, or with one row that is large.
#[derive(Debug, Clone, Copy)]
enum Rows {
    Any,
    OneColumn,
    OneRow,
}

impl Rows {
    fn table(self, rows: usize, features: usize, salt: u64) -> Table {
        let value = |i: usize| {
            let row = i / features;
            let column = i % features;
            match self {
                Self::Any => unit(salt, i),
                Self::OneColumn if column > 0 => 0.0,
                Self::OneColumn => unit(salt, i),
                Self::OneRow if row == 0 || column == 0 => 1.0 - 1e-6 * row as f64,
                Self::OneRow => 1e-6 * unit(salt, i),
            }
        };
        let values = (0..rows * features).map(value).collect();
        let labels = (0..rows).map(|i| i == 0 || i > 1 && unit(salt + 1, i) > 0.0).collect();
        let columns = (0..features).map(|j| format!("c{j}")).collect();
        Table::new(columns, values, Some(("y".into(), labels))).unwrap()
    }
}

/// The bound, and the largest error of a weight.
fn training_error(spec: TrainSpec, levels: usize, table: &Table) -> (f64, f64) {
    // Far above the rounding of f64, with room for the iterations.
    let params = small(levels, f64::min(45.0 + 2.0 * f64::from(spec.iterations), 60.0));
    let job = Job { rows: table.rows(), features: table.features(), spec };
    let plan = TrainPlan::new(&job, &params).unwrap();
    assert_eq!(plan.bootstraps_within(spec.iterations), 0);
    let s = Session::new(params, plan.required_keys());
    let data = plan.encrypt(&s.encryptor, table, None, |_| ()).unwrap();
    let (rows, sums) = data.split_at(plan.row_ciphertexts());
    let trainer = plan.trainer(&s.evaluator, sums.to_vec()).unwrap();
    let mut training = trainer.start().unwrap();
    while training.iteration < spec.iterations {
        trainer.step(&rows[plan.batch(training.iteration)], &mut training).unwrap();
    }
    let model = plan.model(&training).unwrap().remove(0);
    let shape = (model.level(), model.scale());
    assert!(shape.0 == plan.output().0 && shape.1.matches(plan.output().1));
    let slots = s.encoder.decode_real(&s.decryptor.decrypt(&model).unwrap()).unwrap();
    let rows = plan.prepare(table, None).unwrap();
    let expected = reference::train(&rows, &spec).unwrap().concat();
    (plan.largest_error(), largest(&plan.decode(&slots), &expected))
}

fn check_training(spec: TrainSpec, kind: Rows) {
    let of_iteration = match spec.sigmoid.degree {
        SigmoidDegree::Three => 3,
        SigmoidDegree::Five | SigmoidDegree::Seven => 4,
    };
    let levels = of_iteration * (spec.iterations - 1) as usize;
    let table = kind.table(64, 7, u64::from(spec.iterations));
    let (bound, most) = training_error(spec, levels, &table);
    println!(
        "{} iterations, {:?}, {kind:?}: bound 2^{:.1}, largest 2^{:.1}",
        spec.iterations,
        spec.preparation,
        bound.log2(),
        most.log2()
    );
    assert!(bound.is_finite() && most <= bound, "{most:e} of {bound:e}: {spec:?}");
}

/// At a constant rate, where errors grow the most, and at a falling one.
#[test]
fn no_error_of_a_training_is_above_its_bound() {
    let whitened = TrainSpec {
        learning_rate: LearningRate::Constant(1.0),
        penalty: Penalty::None,
        ..TrainSpec::default()
    };
    let scaled = TrainSpec { preparation: Preparation::Scale, ..whitened };
    for iterations in [1, 3, 8] {
        for kind in [Rows::Any, Rows::OneColumn, Rows::OneRow] {
            check_training(TrainSpec { iterations, ..whitened }, kind);
        }
    }
    // Takes longer than all others together, and has the largest errors.
    check_training(TrainSpec { iterations: 14, ..whitened }, Rows::OneRow);
    for iterations in [3, 8] {
        check_training(TrainSpec { iterations, ..scaled }, Rows::Any);
        check_training(TrainSpec { iterations, ..TrainSpec::published() }, Rows::OneRow);
        let penalty = Penalty::Alpha(0.1);
        check_training(TrainSpec { iterations, penalty, ..whitened }, Rows::Any);
        let batch = Some(32);
        check_training(TrainSpec { iterations, batch, ..whitened }, Rows::Any);
    }
    for degree in [SigmoidDegree::Five, SigmoidDegree::Seven] {
        let sigmoid = SigmoidApprox { degree, ..whitened.sigmoid };
        check_training(TrainSpec { iterations: 3, sigmoid, ..whitened }, Rows::Any);
    }
}

/// Primes are as large as the bound takes.
#[test]
fn trainings_to_be_shared_are_planned_by_their_bounds() {
    for (iterations, bits) in [(3, 8), (5, 4)] {
        let spec = TrainSpec { iterations, shared_bits: Some(bits), ..TrainSpec::default() };
        let job = Job { rows: 64, features: 7, spec };
        let params = TrainPlan::auto_params(&job).unwrap();
        let plan = TrainPlan::new(&job, &params).unwrap();
        let most = Release::default().largest_error(8, bits);
        assert!(plan.largest_error() <= most, "{:e}", plan.largest_error());
        assert!(plan.largest_error() > most / 64.0, "{:e}", plan.largest_error());
        println!("{iterations}, {bits} bits: N = 2^{}", params.log_n());
    }
}
