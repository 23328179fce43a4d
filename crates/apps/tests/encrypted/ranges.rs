//! Ranges of arrays, on the simulator and encrypted.

use sudare::{
    circuits::ckks::{ComplexOps, cost},
    ckks::{Params, Spec},
    rlwe::KeyRequest,
};
use sudare_apps::{
    array::{self, Array, ArrayError, Engine, Layout, PlainArray, PlanOptions, Range},
    functions::{self, Fit},
};

use crate::session::Session;

/// A program of one input.
trait Program {
    fn run<E: ComplexOps>(&self, e: &Engine<'_, E>, x: &Array<E>) -> array::Result<Array<E>>;
}

/// The mean of squares, as the first thing that is tried with ages.
struct MeanSquare;

impl Program for MeanSquare {
    fn run<E: ComplexOps>(&self, e: &Engine<'_, E>, x: &Array<E>) -> array::Result<Array<E>> {
        e.mean(&e.square(x)?, None, false)
    }
}

/// `(x - mean(x))^4`, which leaves powers of the mean in the padding.
struct FourthMoment;

impl Program for FourthMoment {
    fn run<E: ComplexOps>(&self, e: &Engine<'_, E>, x: &Array<E>) -> array::Result<Array<E>> {
        e.powi(&e.sub(x, &e.mean(x, None, true)?)?, 4)
    }
}

struct Sigmoid;

impl Program for Sigmoid {
    fn run<E: ComplexOps>(&self, e: &Engine<'_, E>, x: &Array<E>) -> array::Result<Array<E>> {
        e.function(x, &functions::sigmoid(-8.0..8.0, Fit::PrecisionBits(10.0))?)
    }
}

/// What a program gives in simulation, and what it gives encrypted, under `params`.
fn both(
    params: &Params,
    program: &impl Program,
    x: &PlainArray,
) -> [array::Result<(Vec<f64>, core::ops::RangeInclusive<f64>)>; 2] {
    let simulator = cost::Evaluator::new(params, &KeyRequest::new());
    let engine = Engine::new(&simulator, params, None).unwrap().with_checked_magnitudes();
    let layout = Layout::new(&x.shape, engine.log_slots_max()).unwrap();
    let top = params.top();
    let simulated = || {
        let x = array::simulate_encryption(simulator.slots(), params, &layout, x, top)?;
        let y = program.run(&engine, &x)?;
        Ok((array::simulate_decryption(&y)?.values, y.range().interval()))
    };
    let simulated = simulated();
    let s = Session::new(params.clone(), &simulator.slots().used_keys());
    let engine = Engine::new(&s.evaluator, params, None).unwrap();
    let executed = || {
        let x = array::encrypt(&s.encryptor, params, &layout, x, top)?;
        let y = program.run(&engine, &x)?;
        Ok((array::decrypt(&s.decryptor, params, &y)?.values, y.range().interval()))
    };
    [simulated, executed()]
}

fn params(levels: usize, base_bits: f64) -> Params {
    let spec = Spec::uniform(10, base_bits, levels, 40.0, vec![50.0; 2]);
    Params::new(Spec { insecure: true, ..spec }).unwrap()
}

fn ages() -> PlainArray {
    PlainArray::new(&[300], (0..300).map(|i| f64::from(18 + i % 75)).collect())
}

#[test]
fn large_results_are_right_or_refused() {
    let x = ages();
    let exact = x.values.iter().map(|x| x * x).sum::<f64>() / 300.0;
    for found in both(&params(2, 60.0), &MeanSquare, &x) {
        let (values, range) = found.unwrap();
        assert!((values[0] - exact).abs() < 1e-3, "{values:?} for {exact}");
        assert!(*range.start() <= exact && exact <= *range.end() && *range.end() <= 92.0 * 92.1);
    }
    // 8464 exceeds 2^9, the maximum at the lowest level.
    for found in both(&params(2, 50.0), &MeanSquare, &x) {
        match found.unwrap_err() {
            ArrayError::OutOfRoom { op: "mean", high, most, level: 0, .. } => {
                assert!((8464.0..8465.0).contains(&high) && most <= 512.0);
            }
            error => panic!("{error}"),
        }
    }
}

#[test]
fn padding_is_masked_before_its_powers_overflow() {
    let values = (0..300).map(|i| 20.0 + f64::from(i % 11) / 10.0 - 0.5).collect();
    let x = PlainArray::new(&[300], values);
    let mean = x.values.iter().sum::<f64>() / 300.0;
    for found in both(&params(5, 50.0), &FourthMoment, &x) {
        let (values, range) = found.unwrap();
        for (found, x) in values.iter().zip(&x.values) {
            assert!((found - (x - mean).powi(4)).abs() < 1e-4, "{found} for {x}");
        }
        assert!(*range.start() > -0.01 && *range.end() < 1.1, "{range:?}");
    }
}

#[test]
fn one_argument_outside_the_interval_is_refused_by_both() {
    let mut values = vec![0.5; 300];
    for found in both(&params(5, 50.0), &Sigmoid, &PlainArray::new(&[300], values.clone())) {
        assert!((found.unwrap().0[0] - 1.0 / (1.0 + (-0.5f64).exp())).abs() < 1e-3);
    }
    values[17] = 9.0;
    for found in both(&params(5, 50.0), &Sigmoid, &PlainArray::new(&[300], values)) {
        assert!(matches!(
            found.unwrap_err(),
            ArrayError::OutsideInterval { op: "sigmoid", high: 9.0, end: 8.0, .. }
        ));
    }
}

/// Interval arithmetic alone would let `x (1.5 - 0.5 x^2)` grow by a half each time.
#[test]
fn polynomials_of_one_array_are_bounded_as_a_whole() {
    let params = params(25, 50.0);
    let e = cost::Evaluator::new(&params, &KeyRequest::new());
    let engine = Engine::new(&e, &params, None).unwrap().with_checked_magnitudes();
    let layout = Layout::new(&[64], engine.log_slots_max()).unwrap();
    let values = (0..64).map(|i| f64::from(i) / 31.5 - 1.0).collect();
    let x = PlainArray::new(&[64], values);
    let mut x = array::simulate_encryption(e.slots(), &params, &layout, &x, params.top()).unwrap();
    for _ in 0..8 {
        let slope =
            engine.add_scalar(&engine.mul_scalar(&engine.square(&x).unwrap(), -0.5).unwrap(), 1.5);
        x = engine.mul(&x, &slope.unwrap()).unwrap();
        assert!(x.range().magnitude() < 1.0 + 1e-3, "{:?}", x.range());
    }
    // For another array of the same range, only the ends are known.
    let other = x.within(-1.0, 1.0).unwrap();
    let product = engine.mul(&x, &other).unwrap();
    assert!(*product.range().interval().start() < -0.9);
    assert!(*engine.square(&x).unwrap().range().interval().start() > -1e-3);
}

#[test]
fn promises_are_checked_in_simulation_and_ranges_are_rounded_for_others() {
    let params = params(3, 50.0);
    let e = cost::Evaluator::new(&params, &KeyRequest::new());
    let engine = Engine::new(&e, &params, None).unwrap().with_checked_magnitudes();
    let layout = Layout::new(&[3], engine.log_slots_max()).unwrap();
    let plain = PlainArray::new(&[3], vec![0.0, 41.7, 5.0]);
    let x: Array<cost::Evaluator> =
        array::simulate_encryption(e.slots(), &params, &layout, &plain, params.top()).unwrap();
    let public = x.range().public();
    assert_eq!((public.low, public.high, public.padding), (0.0, 64.0, 0.0));
    let again = Range::from(public);
    assert_eq!(again.interval(), 0.0..=64.0);
    assert_eq!(x.declared(&plain, 0.0, 50.0).unwrap().range().public().high, 50.0);
    let refused = x.declared(&plain, 0.0, 40.0).unwrap_err();
    assert!(matches!(refused, ArrayError::OutsideRange { index: 1, value: 41.7, .. }));
    engine.within(&x, -1.0, 42.0).unwrap();
    let refused = engine.within(&x, -1.0, 41.0).unwrap_err();
    assert!(matches!(refused, ArrayError::OutsideRange { index: 1, .. }));
    assert!(matches!(x.within(2.0, 1.0), Err(ArrayError::Argument { .. })));
}

/// A range that was promised and does not hold shows when a value is decrypted.
#[test]
fn broken_promises_are_refused_when_they_are_decrypted() {
    let params = params(5, 50.0);
    let s = Session::new(params.clone(), &KeyRequest::new().relinearize(params.top()));
    let engine = Engine::new(&s.evaluator, &params, None).unwrap();
    let layout = Layout::new(&[3], engine.log_slots_max()).unwrap();
    let x = PlainArray::new(&[3], vec![0.0, 60.0, 5.0]);
    let x = array::encrypt(&s.encryptor, &params, &layout, &x, params.top()).unwrap();
    let y = Sigmoid.run(&engine, &x.within(-8.0, 8.0).unwrap()).unwrap();
    let refused = array::decrypt(&s.decryptor, &params, &y).unwrap_err();
    assert!(matches!(refused, ArrayError::OutsideRange { .. }), "{refused}");
}

/// Programs have room for a million where nothing is declared, and for what is declared.
#[test]
fn plans_have_room_for_the_inputs() {
    let square = |e: &array::Simulator, x: Vec<Array<_>>| Ok(vec![e.square(&x[0])?]);
    let planned = array::plan(&[&[100]], &PlanOptions::default(), square).unwrap();
    assert!(planned.ranges[0].high >= f64::from(1 << 20) && !planned.ranges[0].declared);
    let declared = PlanOptions { ranges: vec![Some((0.0, 10.0))], ..PlanOptions::default() };
    let small = array::plan(&[&[100]], &declared, square).unwrap();
    assert_eq!(small.spec.q_bits[0], [50.0]);
    let huge = PlanOptions { ranges: vec![Some((-1e12, 1e12))], ..PlanOptions::default() };
    let huge = array::plan(&[&[100]], &huge, square).unwrap();
    let room_bits = huge.spec.q_bits[0].iter().sum::<f64>() - 41.0;
    assert!(room_bits > 79.7, "{room_bits}");
    // An input of a function fills its interval, and needs no more room.
    let log = functions::log(100.0..1000.0, Fit::Degree(15)).unwrap();
    let logs = |e: &array::Simulator, x: Vec<Array<_>>| Ok(vec![e.function(&x[0], &log)?]);
    let planned = array::plan(&[&[100]], &PlanOptions::default(), logs).unwrap();
    let range = &planned.ranges[0];
    assert_eq!((range.low, range.high, range.declared), (100.0, 1000.0, true));
    // 2^31 terms of a million do not fit next to four levels of the largest ring.
    let power = |e: &array::Simulator, x: Vec<Array<_>>| Ok(vec![e.powi(&x[0], 8)?]);
    let planned = array::plan(&[&[100]], &PlanOptions::default(), power).unwrap();
    assert!((1.0..1e6).contains(&planned.ranges[0].high), "{:?}", planned.ranges);
}
