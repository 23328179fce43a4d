//! Operations on encrypted arrays against those on plain ones, in simulation and encrypted.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

#[path = "../../sudare/tests/session/mod.rs"]
mod session;

use proptest::prelude::*;
use session::Session;
use sudare::{
    circuits::{Ops, Polynomial, cost},
    ckks::{Params, Spec},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::array::{self, Array, ArrayError, Engine, Layout, PlainArray};

/// A plain array with the operations that are tested, written down as their definitions.
#[derive(Debug, Clone, PartialEq)]
struct Nd {
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Nd {
    fn new(shape: &[usize], f: impl Fn(usize) -> f64) -> Self {
        let count = shape.iter().product();
        Self { shape: shape.to_vec(), values: (0..count).map(f).collect() }
    }

    /// Numbers in [-1, 1] without structure.
    fn random(shape: &[usize], salt: u64) -> Self {
        Self::new(shape, |i| {
            let mut x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(77);
            x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x ^= x >> 32;
            x as i32 as f64 / 2f64.powi(31)
        })
    }

    fn plain(&self) -> PlainArray {
        PlainArray::new(&self.shape, self.values.clone())
    }

    fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
        let count = shape.iter().product();
        let index = |mut i: usize| {
            let mut index = vec![0; shape.len()];
            for (place, size) in index.iter_mut().zip(shape).rev() {
                *place = i % size;
                i /= size;
            }
            index
        };
        (0..count).map(index).collect()
    }

    /// Axes count from the last, and one element is any.
    fn at(&self, index: &[usize]) -> f64 {
        let mut flat = 0;
        for (axis, &size) in self.shape.iter().enumerate() {
            let i = index[index.len() - self.shape.len() + axis];
            flat = flat * size + if size == 1 { 0 } else { i };
        }
        self.values[flat]
    }

    fn of(shape: &[usize], f: impl Fn(&[usize]) -> f64) -> Self {
        let values = Self::indices(shape).iter().map(|index| f(index)).collect();
        Self { shape: shape.to_vec(), values }
    }

    fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { shape: self.shape.clone(), values: self.values.iter().map(|&x| f(x)).collect() }
    }

    fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let ndim = self.shape.len().max(other.shape.len());
        let size = |shape: &[usize], axis: usize| {
            (axis + shape.len()).checked_sub(ndim).map_or(1, |axis| shape[axis])
        };
        let shape: Vec<usize> =
            (0..ndim).map(|axis| size(&self.shape, axis).max(size(&other.shape, axis))).collect();
        Self::of(&shape, |index| f(self.at(index), other.at(index)))
    }

    fn sum(&self, axes: &[usize], keepdims: bool) -> Self {
        let kept = |axis: usize| !axes.contains(&axis);
        let shape: Vec<usize> = (0..self.shape.len())
            .map(|axis| if kept(axis) { self.shape[axis] } else { 1 })
            .collect();
        let mut sums = Self::new(&shape, |_| 0.0);
        for index in Self::indices(&self.shape) {
            let place = index
                .iter()
                .zip(&shape)
                .fold(0, |flat, (&i, &size)| flat * size + if size == 1 { 0 } else { i });
            sums.values[place] += self.at(&index);
        }
        if !keepdims {
            sums.shape =
                (0..shape.len()).filter(|&axis| kept(axis)).map(|axis| shape[axis]).collect();
        }
        sums
    }

    fn mean(&self, axes: &[usize], keepdims: bool) -> Self {
        let count: usize = axes.iter().map(|&axis| self.shape[axis]).product();
        self.sum(axes, keepdims).map(|x| x / count as f64)
    }

    fn transpose(&self, axes: &[usize]) -> Self {
        let shape: Vec<usize> = axes.iter().map(|&axis| self.shape[axis]).collect();
        Self::of(&shape, |index| {
            let mut own = vec![0; index.len()];
            axes.iter().zip(index).for_each(|(&axis, &i)| own[axis] = i);
            self.at(&own)
        })
    }

    fn reshape(&self, shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), values: self.values.clone() }
    }
}

/// What is computed on up to two inputs.
#[derive(Debug, Clone)]
enum Case {
    Add,
    Sub,
    Mul,
    Square,
    Power(u32),
    AddScalar(f64),
    MulScalar(f64),
    AddPlain(Nd),
    SubPlain(Nd),
    MulPlain(Nd),
    Sum(Vec<usize>, bool),
    Mean(Vec<usize>, bool),
    Var(Vec<usize>, usize),
    Polynomial(Polynomial),
    Transpose(Vec<usize>),
    Reshape(Vec<usize>),
    /// To the layout of a new array of this shape, of axes in this order.
    Relayout(Vec<usize>, Vec<usize>),
    Then(Box<Case>, Box<Case>),
}

impl Case {
    fn then(self, next: Self) -> Self {
        Self::Then(Box::new(self), Box::new(next))
    }

    fn run<E: Ops>(&self, e: &Engine<'_, E>, x: &[Array<E>]) -> array::Result<Array<E>> {
        let a = &x[0];
        match self {
            Self::Add => e.add(a, &x[1]),
            Self::Sub => e.sub(a, &x[1]),
            Self::Mul => e.mul(a, &x[1]),
            Self::Square => e.square(a),
            Self::Power(n) => e.powi(a, *n),
            Self::AddScalar(c) => e.add_scalar(a, *c),
            Self::MulScalar(c) => e.mul_scalar(a, *c),
            Self::AddPlain(b) => e.add_plain(a, &b.plain()),
            Self::SubPlain(b) => e.sub_plain(a, &b.plain()),
            Self::MulPlain(b) => e.mul_plain(a, &b.plain()),
            Self::Sum(axes, keepdims) => e.sum(a, Some(axes), *keepdims),
            Self::Mean(axes, keepdims) => e.mean(a, Some(axes), *keepdims),
            Self::Var(axes, ddof) => e.var(a, Some(axes), false, *ddof),
            Self::Polynomial(p) => e.polynomial(a, p),
            Self::Transpose(axes) => e.transpose(a, Some(axes)),
            Self::Reshape(shape) => e.reshape(a, shape),
            Self::Relayout(shape, axes) => {
                let target = Layout::new(shape, e.log_slots_max())?;
                let new = e.relayout(a, &target)?;
                e.transpose(&new, Some(axes))
            }
            Self::Then(first, next) => {
                let first = first.run(e, x)?;
                let rest = x.get(1).cloned();
                next.run(e, &[vec![first], rest.into_iter().collect()].concat())
            }
        }
    }

    fn expected(&self, x: &[Nd]) -> Nd {
        let a = &x[0];
        match self {
            Self::Add => a.zip(&x[1], |a, b| a + b),
            Self::Sub => a.zip(&x[1], |a, b| a - b),
            Self::Mul => a.zip(&x[1], |a, b| a * b),
            Self::Square => a.map(|a| a * a),
            Self::Power(n) => a.map(|a| a.powi(*n as i32)),
            Self::AddScalar(c) => a.map(|a| a + c),
            Self::MulScalar(c) => a.map(|a| a * c),
            Self::AddPlain(b) => a.zip(b, |a, b| a + b),
            Self::SubPlain(b) => a.zip(b, |a, b| a - b),
            Self::MulPlain(b) => a.zip(b, |a, b| a * b),
            Self::Sum(axes, keepdims) => a.sum(axes, *keepdims),
            Self::Mean(axes, keepdims) => a.mean(axes, *keepdims),
            Self::Var(axes, ddof) => {
                let count: usize = axes.iter().map(|&axis| a.shape[axis]).product();
                let deviations = a.zip(&a.mean(axes, true), |a, b| (a - b) * (a - b));
                deviations.sum(axes, false).map(|x| x / (count - ddof) as f64)
            }
            Self::Polynomial(p) => a.map(|a| p.evaluate(a)),
            Self::Transpose(axes) => a.transpose(axes),
            Self::Reshape(shape) => a.reshape(shape),
            Self::Relayout(shape, axes) => a.reshape(shape).transpose(axes),
            Self::Then(first, next) => {
                let mut x = x.to_vec();
                x[0] = first.expected(&x);
                next.expected(&x)
            }
        }
    }
}

fn params(log_n: u32, levels: usize) -> Params {
    let spec = Spec::uniform(log_n, 55.0, levels, 40.0, vec![60.0, 60.0]);
    Params::new(Spec { insecure: true, ..spec }).unwrap()
}

fn assert_near(found: &PlainArray, expected: &Nd, tolerance: f64, what: &dyn core::fmt::Debug) {
    assert_eq!(found.shape, expected.shape, "{what:?}");
    for (i, (x, y)) in found.values.iter().zip(&expected.values).enumerate() {
        assert!((x - y).abs() <= tolerance * (1.0 + y.abs()), "{what:?}: {x} for {y} at {i}");
    }
}

/// In simulation, with the result's padding checked to be zero where it is said to be; gives the
/// result and the keys.
fn simulate(
    params: &Params,
    case: &Case,
    inputs: &[Nd],
    power_rotations: bool,
) -> (Array<cost::Evaluator>, KeyRequest) {
    let e = cost::Evaluator::new(params, &KeyRequest::new());
    let engine = Engine::simulating(&e, params, None).unwrap();
    let engine = engine.with_power_rotations(power_rotations);
    let arrays: Vec<_> = inputs
        .iter()
        .map(|x| {
            let layout = Layout::new(&x.shape, engine.log_slots_max()).unwrap();
            let top = params.top();
            array::simulate_encryption(e.slots(), params, &layout, &x.plain(), top).unwrap()
        })
        .collect();
    let result = case.run(&engine, &arrays).unwrap_or_else(|error| panic!("{case:?}: {error}"));
    assert!(result.scale().matches(params.scale_at(result.level())), "{case:?}");
    assert_eq!(engine.counts().lowest_level, result.level(), "{case:?}");
    if result.padding_is_zero() {
        let ones = vec![1.0; result.layout().elements()];
        let valid = result.layout().scatter(&ones);
        for (block, valid) in result.blocks().iter().zip(valid) {
            for (slot, valid) in block.slots.iter().zip(valid) {
                assert!(valid == 1.0 || slot.re.abs() < 1e-7, "{case:?}: padding of {}", slot.re);
            }
        }
    }
    (result, e.slots().used_keys())
}

fn check(log_n: u32, case: &Case, inputs: &[Nd]) -> Array<cost::Evaluator> {
    let params = params(log_n, 9);
    let (result, _) = simulate(&params, case, inputs, false);
    let found = array::simulate_decryption(&result).unwrap();
    assert_near(&found, &case.expected(inputs), 1e-8, &(case, inputs));
    result
}

/// Encrypted, with exactly the keys that simulation found or with those for any program.
fn check_encrypted(case: &Case, inputs: &[Nd], power_rotations: bool) {
    let params = params(7, 6);
    let (simulated, keys) = simulate(&params, case, inputs, power_rotations);
    let keys = match power_rotations {
        true => array::general_keys(&params, params.top()),
        false => keys,
    };
    let s = Session::new(params.clone(), &keys);
    let engine = Engine::new(&s.evaluator, &params, None).unwrap();
    let engine = engine.with_power_rotations(power_rotations);
    let arrays: Vec<_> = inputs
        .iter()
        .map(|x| {
            let layout = Layout::new(&x.shape, engine.log_slots_max()).unwrap();
            array::encrypt(&s.encryptor, &params, &layout, &x.plain(), params.top()).unwrap()
        })
        .collect();
    let result = case.run(&engine, &arrays).unwrap_or_else(|error| panic!("{case:?}: {error}"));
    assert_eq!((result.layout(), result.level()), (simulated.layout(), simulated.level()));
    assert_eq!(result.padding_is_zero(), simulated.padding_is_zero());
    let found = array::decrypt(&s.decryptor, &params, &result).unwrap();
    assert_near(&found, &case.expected(inputs), 1e-5, &(case, inputs));
    let noise = simulated.noise_log2().exp2();
    assert_near(&found, &case.expected(inputs), 64.0 * noise, &(case, inputs));
}

fn shape() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1usize..12, 0..4)
}

/// Shapes that go together: the second has fewer axes, or one element where the first has more.
fn shapes() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    (shape(), prop::collection::vec(any::<bool>(), 4), 0usize..4).prop_map(|(a, ones, fewer)| {
        let b = a.iter().zip(ones).map(|(&size, one)| if one { 1 } else { size });
        let b = b.skip(fewer.min(a.len())).collect();
        (a, b)
    })
}

fn axes_of(shape: &[usize], picked: &[bool]) -> Vec<usize> {
    (0..shape.len()).filter(|&axis| picked[axis]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn two_arrays_of_any_shape((a, b) in shapes(), swap: bool, salt: u64) {
        let mut inputs = [Nd::random(&a, salt), Nd::random(&b, !salt)];
        if swap {
            inputs.reverse();
        }
        for case in [Case::Add, Case::Sub, Case::Mul] {
            check(6, &case, &inputs);
        }
    }

    #[test]
    fn an_array_and_a_plain_one((a, b) in shapes(), swap: bool, salt: u64) {
        let (a, b) = if swap { (b, a) } else { (a, b) };
        let (a, b) = (Nd::random(&a, salt), Nd::random(&b, !salt));
        for case in [Case::AddPlain(b.clone()), Case::SubPlain(b.clone()), Case::MulPlain(b)] {
            check(6, &case, &[a.clone()]);
        }
    }

    #[test]
    fn one_array(shape in shape(), salt: u64, c in -2.0..2.0f64, n in 1u32..9) {
        let a = [Nd::random(&shape, salt)];
        for case in [
            Case::Square,
            Case::Power(n),
            Case::AddScalar(c),
            Case::MulScalar(c),
            Case::MulScalar(c.round()),
        ] {
            check(6, &case, &a);
        }
    }

    #[test]
    fn sums_along_axes(shape in shape(), picked: [bool; 4], keepdims: bool, salt: u64) {
        let a = [Nd::random(&shape, salt)];
        let axes = axes_of(&shape, &picked);
        let count: usize = axes.iter().map(|&axis| shape[axis]).product();
        check(6, &Case::Sum(axes.clone(), keepdims), &a);
        check(6, &Case::Mean(axes.clone(), keepdims), &a);
        check(6, &Case::Var(axes.clone(), 0), &a);
        if count > 1 {
            check(6, &Case::Var(axes.clone(), 1), &a);
        }
        // Padding that holds something else.
        let case = Case::AddPlain(Nd::random(&[], salt)).then(Case::Sum(axes.clone(), keepdims));
        check(6, &case, &a);
        let dirty = [a[0].clone(), Nd::random(&vec![1; shape.len()], salt)];
        check(6, &Case::Add.then(Case::Sum(axes, keepdims)), &dirty);
    }

    /// A sum is broadcast against what it was summed from, and its mirror image against that.
    #[test]
    fn sums_meet_their_summands(rows in 1usize..20, columns in 1usize..20, salt: u64) {
        let a = Nd::random(&[rows, columns], salt);
        for (axis, shape) in [(0, vec![1, columns]), (1, vec![rows, 1])] {
            let sum = Case::Sum(vec![axis], false).then(Case::Reshape(shape)).then(Case::Mul);
            let transposed = sum.clone().then(Case::Transpose(vec![1, 0]));
            check(7, &sum, &[a.clone(), a.clone()]);
            check(7, &transposed, &[a.clone(), a.clone()]);
        }
    }

    #[test]
    fn polynomials(shape in shape(), salt: u64, positive: bool) {
        let (interval, a) = match positive {
            true => (1.0..3.0, Nd::random(&shape, salt).map(|x| x + 2.0)),
            false => (-1.0..1.0, Nd::random(&shape, salt)),
        };
        let p = Polynomial::chebyshev(|x| (0.3 * x + 0.1).exp(), interval, 7).unwrap();
        check(6, &Case::Polynomial(p.clone()), &[a.clone()]);
        let other = Nd::random(&vec![1; shape.len()], salt);
        let dirty = Case::Add.then(Case::MulScalar(0.5)).then(Case::Polynomial(p));
        let b = if positive { a.map(|x| x * 0.5 + 1.0) } else { a };
        let other = if positive { other.map(|x| 0.5 * x + 2.0) } else { other };
        check(6, &dirty, &[b, other]);
    }

    #[test]
    fn moved_elements(shape in shape(), turn in 0usize..4, salt: u64) {
        let a = [Nd::random(&shape, salt)];
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        if !axes.is_empty() {
            axes.rotate_left(turn % shape.len());
        }
        let turned: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
        let transposed = Case::Transpose(axes.clone());
        check(6, &transposed, &a);
        let back: Vec<usize> = (0..shape.len()).map(|i| axes.iter().position(|&x| x == i).unwrap()).collect();
        check(6, &transposed.clone().then(Case::Transpose(back)), &a);
        check(6, &transposed.clone().then(Case::Reshape(vec![shape.iter().product()])), &a);
        check(6, &Case::Reshape(vec![1, shape.iter().product(), 1]).then(Case::Square), &a);
        check(6, &transposed.then(Case::Relayout(turned, (0..shape.len()).collect())), &a);
        let sum = Case::Sum(axes[..shape.len().min(1)].to_vec(), true);
        check(6, &sum.clone().then(Case::Reshape(sum.expected(&a).shape)), &a);
    }
}

#[test]
fn levels_are_those_stated() {
    let spent = |case: &Case, inputs: &[Nd]| 9 - check(6, case, inputs).level().0;
    let (a, row) = (Nd::random(&[5, 3], 1), Nd::random(&[3], 2));
    let one = |case: Case| spent(&case, &[a.clone()]);
    assert_eq!(spent(&Case::Add, &[a.clone(), row.clone()]), 0);
    assert_eq!(spent(&Case::Mul, &[a.clone(), row.clone()]), 1);
    assert_eq!(one(Case::Power(5)), 3);
    assert_eq!(one(Case::MulScalar(-3.0)), 0);
    assert_eq!(one(Case::MulScalar(0.5)), 1);
    assert_eq!(one(Case::MulPlain(row)), 1);
    assert_eq!(one(Case::Sum(vec![0], false)), 0);
    assert_eq!(one(Case::Sum(vec![0, 1], false)), 0);
    assert_eq!(one(Case::Sum(vec![1], false)), 1);
    assert_eq!(one(Case::Mean(vec![1], false)), 1);
    assert_eq!(one(Case::Mean(vec![0], false)), 1);
    assert_eq!(one(Case::Var(vec![0], 0)), 3);
    assert_eq!(one(Case::Reshape(vec![5, 1, 3])), 0);
    assert_eq!(one(Case::Sum(vec![1], false).then(Case::Reshape(vec![5, 1]))), 1);
    // Wide arrays: one tile of the last axis is the block.
    let wide = Nd::random(&[2, 3, 100], 3);
    assert_eq!(spent(&Case::Sum(vec![2], false), &[wide.clone()]), 0);
    assert_eq!(spent(&Case::Sum(vec![0], false), &[wide]), 0);
}

#[test]
fn joined_and_cut_axes_are_free_where_nothing_moves() {
    let spent = |shape: &[usize], to: &[usize]| {
        let case = Case::Reshape(to.to_vec());
        9 - check(6, &case, &[Nd::random(shape, 4)]).level().0
    };
    assert_eq!(spent(&[5, 4], &[20]), 0);
    assert_eq!(spent(&[20], &[5, 4]), 0);
    assert_eq!(spent(&[100], &[25, 4]), 0);
    assert_eq!(spent(&[100, 4], &[50, 8]), 0);
    assert_eq!(spent(&[3, 2, 2], &[12]), 0);
    assert_eq!(spent(&[5, 3], &[15]), 1);
    assert_eq!(spent(&[4, 5], &[20]), 1);
    assert_eq!(spent(&[6, 2], &[4, 3]), 1);
}

/// One of each kind.
fn cases() -> Vec<(Case, Vec<Nd>)> {
    let a = Nd::random(&[10, 6], 5);
    let (row, column) = (Nd::random(&[6], 6), Nd::random(&[10, 1], 7));
    let p = Polynomial::chebyshev(f64::cos, 0.5..1.5, 5).unwrap();
    vec![
        (Case::Add, vec![a.clone(), row.clone()]),
        (Case::Mul, vec![a.clone(), row.clone()]),
        (Case::Sub, vec![a.clone(), column.clone()]),
        (Case::Power(3), vec![a.clone()]),
        (Case::AddScalar(0.3), vec![a.clone()]),
        (Case::MulScalar(-0.3), vec![a.clone()]),
        (Case::MulScalar(7.0), vec![a.clone()]),
        (Case::AddPlain(row.clone()), vec![a.clone()]),
        (Case::MulPlain(column.clone()), vec![a.clone()]),
        (Case::MulPlain(a.clone()), vec![column]),
        (Case::Sum(vec![0], false), vec![a.clone()]),
        (Case::Sum(vec![1], false), vec![a.clone()]),
        (Case::Mean(vec![0, 1], true), vec![a.clone()]),
        (Case::Var(vec![0], 1), vec![a.clone()]),
        (Case::Polynomial(p), vec![a.map(|x| 1.0 + x / 2.0)]),
        (Case::Reshape(vec![60]), vec![a.clone()]),
        (Case::Sum(vec![1], false).then(Case::Add), vec![a, Nd::random(&[10], 8)]),
    ]
}

#[test]
fn encrypted_arrays_are_those_in_the_clear() {
    for (case, inputs) in cases() {
        check_encrypted(&case, &inputs, false);
    }
}

#[test]
fn keys_for_any_program_suffice() {
    for (case, inputs) in cases() {
        check_encrypted(&case, &inputs, true);
    }
}

fn simulated<T>(
    levels: usize,
    shape: &[usize],
    f: impl FnOnce(&Engine<'_, cost::Evaluator>, Array<cost::Evaluator>) -> T,
) -> T {
    let params = params(6, levels);
    let e = cost::Evaluator::new(&params, &KeyRequest::new());
    let engine = Engine::simulating(&e, &params, None).unwrap();
    let layout = Layout::new(shape, engine.log_slots_max()).unwrap();
    let x = Nd::random(shape, 1).plain();
    let x = array::simulate_encryption(e.slots(), &params, &layout, &x, params.top()).unwrap();
    f(&engine, x)
}

#[test]
fn programs_that_are_too_deep_say_so() {
    simulated(2, &[5, 3], |engine, x| {
        let exhausted = |found: array::Result<_>, op: &'static str, needed, left| {
            let error = found.map(|_: Array<_>| ()).unwrap_err();
            assert_eq!(error, ArrayError::LevelExhausted { op, needed, left });
        };
        exhausted(engine.powi(&x, 5), "multiply", 1, 0);
        let fourth = engine.powi(&x, 4).unwrap();
        exhausted(engine.mul(&fourth, &x), "multiply", 1, 0);
        exhausted(engine.mul_scalar(&fourth, 0.5), "multiply by a number", 1, 0);
        exhausted(
            engine.mul_plain(&fourth, &PlainArray::new(&[3], vec![0.5; 3])),
            "multiply by a plain array",
            1,
            0,
        );
        exhausted(engine.sum(&fourth, Some(&[1]), false), "sum", 1, 0);
        exhausted(engine.mean(&fourth, None, false), "mean", 1, 0);
        let p = Polynomial::chebyshev(f64::sin, -1.0..1.0, 7).unwrap();
        exhausted(engine.polynomial(&x, &p), "polynomial", 3, 2);
        // These need none.
        engine.sum(&fourth, None, false).unwrap();
        engine.neg(&fourth).unwrap();
        engine.add(&fourth, &x).unwrap();
        let message = engine.square(&fourth).unwrap_err().to_string();
        assert!(message.contains("choose parameters"), "{message}");
    });
}

#[test]
fn wrong_operands_are_refused() {
    simulated(3, &[5, 3], |engine, x| {
        let refused = |found: array::Result<Array<_>>| found.map(|_| ()).unwrap_err();
        let plain = |shape: &[usize], values| PlainArray::new(shape, values);
        assert!(matches!(
            refused(engine.add_plain(&x, &plain(&[2], vec![0.0; 2]))),
            ArrayError::Shapes { .. }
        ));
        assert!(matches!(
            refused(engine.mul_plain(&x, &plain(&[3], vec![0.0; 2]))),
            ArrayError::Values { .. }
        ));
        assert!(matches!(
            refused(engine.mul_plain(&x, &plain(&[0], vec![]))),
            ArrayError::Empty { .. }
        ));
        for value in [f64::NAN, f64::INFINITY] {
            let bad = plain(&[3], vec![0.0, value, 0.0]);
            assert!(matches!(
                refused(engine.add_plain(&x, &bad)),
                ArrayError::NotFinite { index: 1, .. }
            ));
            assert!(matches!(refused(engine.add_scalar(&x, value)), ArrayError::NotFinite { .. }));
            assert!(matches!(refused(engine.mul_scalar(&x, value)), ArrayError::NotFinite { .. }));
        }
        assert!(matches!(refused(engine.powi(&x, 0)), ArrayError::Argument { .. }));
        for axes in [&[2][..], &[0, 0]] {
            assert!(matches!(refused(engine.sum(&x, Some(axes), false)), ArrayError::Axis { .. }));
            assert!(matches!(refused(engine.transpose(&x, Some(axes))), ArrayError::Axis { .. }));
        }
        assert!(matches!(refused(engine.transpose(&x, Some(&[0]))), ArrayError::Axis { .. }));
        assert!(matches!(refused(engine.reshape(&x, &[4, 4])), ArrayError::Shapes { .. }));
        assert!(matches!(refused(engine.reshape(&x, &[15, 0])), ArrayError::Empty { .. }));
        assert!(matches!(
            refused(engine.var(&x, Some(&[1]), false, 3)),
            ArrayError::Argument { .. }
        ));
        assert!(matches!(refused(engine.refresh(&x)), ArrayError::Argument { .. }));
        let row = engine.sum(&x, Some(&[0]), false).unwrap();
        let column = engine.sum(&x, Some(&[1]), false).unwrap();
        assert!(matches!(refused(engine.add(&row, &column)), ArrayError::Shapes { .. }));

        let blocks = |array: &Array<cost::Evaluator>| {
            array.blocks().iter().map(|block| (**block).clone()).collect::<Vec<_>>()
        };
        let e = engine.evaluator();
        let layout = x.layout().clone();
        let same =
            Array::<cost::Evaluator>::from_parts(e, layout.clone(), blocks(&x), true).unwrap();
        assert_eq!((same.level(), same.layout()), (x.level(), x.layout()));
        let square = engine.square(&x).unwrap();
        let other = Layout::new(&[3], 5).unwrap();
        for (layout, blocks) in [
            (layout.clone(), vec![]),
            (layout.clone(), [blocks(&x), blocks(&x)].concat()),
            (other, blocks(&x)),
        ] {
            let found = Array::<cost::Evaluator>::from_parts(e, layout, blocks, true);
            assert!(matches!(refused(found), ArrayError::Blocks { .. }));
        }
        let long = Layout::new(&[64], 5).unwrap();
        let mixed = [blocks(&engine.reshape(&x, &[15]).unwrap()), blocks(&square)].concat();
        let found = Array::<cost::Evaluator>::from_parts(e, long, mixed, true);
        assert!(matches!(refused(found), ArrayError::Blocks { .. }));
    });
}

#[test]
fn values_beyond_the_message_range_are_refused() {
    let params = params(6, 2);
    let e = cost::Evaluator::new(&params, &KeyRequest::new());
    let layout = Layout::new(&[3], 5).unwrap();
    let encrypt = |values: Vec<f64>| {
        let values = PlainArray::new(&[3], values);
        array::simulate_encryption::<cost::Evaluator>(
            e.slots(),
            &params,
            &layout,
            &values,
            Level(2),
        )
        .map(|_| ())
    };
    encrypt(vec![16_000.0, -16_000.0, 0.0]).unwrap();
    let error = encrypt(vec![0.0, -17_000.0, 0.0]).unwrap_err();
    assert!(matches!(error, ArrayError::Engine(sudare::Error::ValueTooLarge { index: 1, .. })));
    let error = encrypt(vec![f64::NAN, 0.0, 0.0]).unwrap_err();
    assert!(matches!(error, ArrayError::NotFinite { index: 0, .. }));
    let error = encrypt(vec![0.0; 2]).unwrap_err();
    assert!(matches!(error, ArrayError::Values { .. }));
}
