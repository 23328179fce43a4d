//! Operations on encrypted arrays against those on plain ones, in simulation and encrypted.
#![expect(clippy::single_range_in_vec_init, reason = "slices of one axis")]

use crate::session::Session;
use core::{ops::Range, slice::from_ref};
use proptest::prelude::*;
use sudare::{
    circuits::{
        Ops,
        ckks::{
            ComplexOps, EvalModSpec, ModMethod, Polynomial,
            bootstrap::{BootstrapPlan, BootstrapSpec, Order, Values},
            cost, sim,
        },
    },
    ckks::{Params, Spec},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    array::{self, Array, ArrayError, Engine, Layout, PlainArray, PlanOptions},
    functions::{self, Fit, Function},
};

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

    /// Of vectors and matrices, of which one may have further axes before its last two.
    fn matmul(&self, other: &Self) -> Self {
        let row = self.shape.len() == 1;
        let column = other.shape.len() == 1;
        let a = if row { self.reshape(&[&[1], &self.shape[..]].concat()) } else { self.clone() };
        let b =
            if column { other.reshape(&[&other.shape[..], &[1]].concat()) } else { other.clone() };
        let n = a.shape.len();
        let m = b.shape.len();
        let rows = a.shape[n - 2];
        let count = a.shape[n - 1];
        let columns = b.shape[m - 1];
        assert_eq!(b.shape[m - 2], count);
        let leading = if n > m { &a.shape[..n - 2] } else { &b.shape[..m - 2] };
        let product = Self::of(&[leading, &[rows, columns]].concat(), |index| {
            let (leading, last) = index.split_at(index.len() - 2);
            let own = |x: &Self, i: usize, j: usize| {
                let leading = if x.shape.len() > 2 { leading } else { &[] };
                x.at(&[leading, &[i, j]].concat())
            };
            (0..count).map(|j| own(&a, last[0], j) * own(&b, j, last[1])).sum()
        });
        let mut shape = product.shape.clone();
        if column {
            shape.pop();
        }
        if row {
            shape.remove(leading.len());
        }
        product.reshape(&shape)
    }

    fn slice(&self, ranges: &[Range<usize>]) -> Self {
        let mut shape = self.shape.clone();
        shape.iter_mut().zip(ranges).for_each(|(size, range)| *size = range.len());
        Self::of(&shape, |index| {
            let mut own = index.to_vec();
            own.iter_mut().zip(ranges).for_each(|(i, range)| *i += range.start);
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
    MatmulPlain(Nd),
    RmatmulPlain(Nd),
    Matmul,
    Slice(Vec<Range<usize>>),
    Then(Box<Case>, Box<Case>),
}

impl Case {
    fn then(self, next: Self) -> Self {
        Self::Then(Box::new(self), Box::new(next))
    }

    fn run<E: ComplexOps>(&self, e: &Engine<'_, E>, x: &[Array<E>]) -> array::Result<Array<E>> {
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
            Self::MatmulPlain(w) => e.matmul_plain(a, &w.plain()),
            Self::RmatmulPlain(w) => e.rmatmul_plain(&w.plain(), a),
            Self::Matmul => e.matmul(a, &x[1]),
            Self::Slice(ranges) => e.slice(a, ranges),
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
            Self::MatmulPlain(w) => a.matmul(w),
            Self::RmatmulPlain(w) => w.matmul(a),
            Self::Matmul => a.matmul(&x[1]),
            Self::Slice(ranges) => a.slice(ranges),
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
    let engine = Engine::new(&e, params, None).unwrap();
    let engine = engine.with_power_rotations(power_rotations);
    let arrays: Vec<_> = inputs
        .iter()
        .map(|x| {
            let layout = Layout::new(&x.shape, engine.log_slots_max()).unwrap();
            let top = params.top();
            array::simulate_encryption(e.slots(), params, &layout, &x.plain(), top).unwrap()
        })
        .collect();
    let result = case.run(&engine, &arrays).map_err(|error| format!("{case:?}: {error}")).unwrap();
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
    let result = case.run(&engine, &arrays).map_err(|error| format!("{case:?}: {error}")).unwrap();
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
        let a = Nd::random(&a, salt);
        let b = Nd::random(&b, !salt);
        for case in [Case::AddPlain(b.clone()), Case::SubPlain(b.clone()), Case::MulPlain(b)] {
            check(6, &case, from_ref(&a));
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
        // Padding with other values.
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
        check(6, &Case::Polynomial(p.clone()), from_ref(&a));
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

fn dirty(a: &Nd, salt: u64) -> [Nd; 2] {
    [a.clone(), Nd::random(&vec![1; a.shape.len()], salt)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn products_with_plain_matrices(
        leading in prop::collection::vec(1usize..4, 0..2),
        rows in 1usize..10,
        count in 1usize..20,
        columns in 1usize..20,
        salt: u64,
    ) {
        let right = |columns: &[usize]| Nd::random(&[&[count], columns].concat(), salt);
        let left = |rows: &[usize]| Nd::random(&[rows, &[count]].concat(), salt);
        let a = Nd::random(&[&leading[..], &[rows, count]].concat(), !salt);
        for w in [right(&[columns]), right(&[])] {
            check(6, &Case::MatmulPlain(w.clone()), from_ref(&a));
            check(6, &Case::MatmulPlain(w.clone()), &[Nd::random(&[count], !salt)]);
            check(6, &Case::Add.then(Case::MatmulPlain(w)), &dirty(&a, salt));
        }
        let b = Nd::random(&[&leading[..], &[count, rows]].concat(), !salt);
        for w in [left(&[columns]), left(&[])] {
            check(6, &Case::RmatmulPlain(w.clone()), from_ref(&b));
            check(6, &Case::RmatmulPlain(w.clone()), &[Nd::random(&[count], !salt)]);
            check(6, &Case::Add.then(Case::RmatmulPlain(w)), &dirty(&b, salt));
        }
    }

    #[test]
    fn products_of_encrypted_matrices(
        rows in 1usize..12,
        count in 1usize..12,
        columns in 1usize..12,
        salt: u64,
    ) {
        let a = Nd::random(&[rows, count], salt);
        let b = Nd::random(&[count, columns], !salt);
        let row = Nd::random(&[count], salt);
        let column = Nd::random(&[count], !salt);
        check(6, &Case::Matmul, &[a.clone(), b.clone()]);
        check(6, &Case::Matmul, &[row.clone(), b.clone()]);
        check(6, &Case::Matmul, &[a.clone(), column.clone()]);
        check(6, &Case::Matmul, &[row, column]);
        let one = Nd::random(&[], salt);
        check(6, &Case::AddPlain(one).then(Case::Matmul), &[a.clone(), b]);
        // A matrix that has been transposed against another of the same layout, and itself.
        let c = Nd::random(&[rows, columns], !salt);
        check(6, &Case::Transpose(vec![1, 0]).then(Case::Matmul), &[a.clone(), c]);
        check(6, &Case::Transpose(vec![1, 0]).then(Case::Matmul), &[a.clone(), a]);
    }

    #[test]
    fn slices(shape in shape(), ends in prop::collection::vec(any::<(u8, u8)>(), 4), salt: u64) {
        let a = Nd::random(&shape, salt);
        let range = |(&size, &(x, y)): (&usize, &(u8, u8))| {
            let x = x as usize % size;
            let y = y as usize % size;
            x.min(y)..x.max(y) + 1
        };
        let ranges: Vec<_> = shape.iter().zip(&ends).map(range).collect();
        let case = Case::Slice(ranges.clone());
        check(6, &case, from_ref(&a));
        check(6, &Case::Add.then(case.clone()), &dirty(&a, salt));
        let all: Vec<usize> = (0..shape.len()).collect();
        check(6, &case.clone().then(Case::Sum(all.clone(), false)), from_ref(&a));
        check(6, &case.clone().then(Case::Mean(all.into_iter().skip(1).collect(), true)), from_ref(&a));
        let same = Nd::random(&case.expected(from_ref(&a)).shape, !salt);
        check(6, &case.then(Case::Mul), &[a, same]);
    }
}

/// Rows and columns over several blocks, and padding that is not zero along the axis of sums.
#[test]
fn products_of_matrices_over_several_blocks() {
    let dirtied = |axis| {
        Case::Slice(match axis {
            0 => vec![0..13, 0..7],
            _ => vec![0..7, 0..13],
        })
    };
    // Few rows or columns, with long sums.
    let long = Case::Matmul;
    check(6, &long, &[Nd::random(&[3, 100], 1), Nd::random(&[100, 5], 2)]);
    let square = Case::Transpose(vec![1, 0]).then(Case::Matmul);
    for shape in [[100, 3], [3, 100]] {
        check(6, &square, &[Nd::random(&shape, 1), Nd::random(&shape, 2)]);
    }
    let turned = Case::Transpose(vec![1, 0]).then(Case::Matmul).then(Case::Transpose(vec![1, 0]));
    check(6, &turned, &[Nd::random(&[90, 6], 1), Nd::random(&[90, 2], 2)]);
    for (a, b) in [([40, 3], [3, 40]), ([3, 40], [40, 3]), ([40, 33], [33, 5])] {
        check(6, &Case::Matmul, &[Nd::random(&a, 1), Nd::random(&b, 2)]);
    }
    let a = Nd::random(&[16, 16], 3);
    let b = Nd::random(&[13, 7], 4);
    let gram = dirtied(0).then(Case::Transpose(vec![1, 0])).then(Case::Matmul);
    check(8, &gram, &[a.clone(), b.clone()]);
    check(9, &dirtied(1).then(Case::Matmul), &[a, b]);
}

#[test]
fn levels_are_those_stated() {
    let spent = |case: &Case, inputs: &[Nd]| 9 - check(6, case, inputs).level().0;
    let a = Nd::random(&[5, 3], 1);
    let row = Nd::random(&[3], 2);
    let one = |case: Case| spent(&case, from_ref(&a));
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
    assert_eq!(one(Case::Var(vec![1], 0)), 3);
    assert_eq!(one(Case::Var(vec![0, 1], 0)), 3);
    assert_eq!(one(Case::Reshape(vec![5, 1, 3])), 0);
    assert_eq!(one(Case::Sum(vec![1], false).then(Case::Reshape(vec![5, 1]))), 1);
    let weights = |columns: &[usize]| Nd::random(columns, 9);
    assert_eq!(one(Case::MatmulPlain(weights(&[3, 4]))), 1);
    assert_eq!(one(Case::MatmulPlain(weights(&[3]))), 2);
    assert_eq!(one(Case::RmatmulPlain(weights(&[4, 5]))), 1);
    assert_eq!(one(Case::RmatmulPlain(weights(&[5]))), 1);
    assert_eq!(spent(&Case::Matmul, &[a.clone(), weights(&[3, 2])]), 2);
    let transposed = Case::Transpose(vec![1, 0]).then(Case::Matmul);
    assert_eq!(spent(&transposed, &[a.clone(), a.clone()]), 3);
    assert_eq!(one(Case::Slice(vec![1..4, 0..2])), 0);
    assert_eq!(one(Case::Slice(vec![1..4, 1..2])), 1);
    assert_eq!(spent(&Case::Slice(vec![32..70]), &[Nd::random(&[70], 3)]), 0);
    assert_eq!(spent(&Case::Slice(vec![1..70]), &[Nd::random(&[70], 3)]), 1);
    // Wide arrays: one tile of the last axis is the block.
    let wide = Nd::random(&[2, 3, 100], 3);
    assert_eq!(spent(&Case::Sum(vec![2], false), from_ref(&wide)), 0);
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

/// What is encrypted in the layout of a sum goes with the sum and its summands.
#[test]
fn operands_in_the_layout_of_sums_stay_where_they_are() {
    let params = params(7, 3);
    let e = cost::Evaluator::new(&params, &KeyRequest::new());
    let engine = Engine::new(&e, &params, None).unwrap();
    let encrypt = |x: &Nd, layout: &Layout| -> Array<cost::Evaluator> {
        array::simulate_encryption(e.slots(), &params, layout, &x.plain(), params.top()).unwrap()
    };
    let x = Nd::random(&[9, 5], 1);
    let y = Nd::random(&[9], 2);
    let layout = Layout::new(&x.shape, engine.log_slots_max()).unwrap();
    let a = encrypt(&x, &layout);
    let b = encrypt(&y, &layout.summed(&[1]).unwrap());
    let sum = engine.sum(&a, Some(&[1]), false).unwrap();
    assert_eq!(sum.layout(), b.layout());
    let found = engine.add(&sum, &b).unwrap();
    assert_eq!(found.level(), sum.level());
    let expected = x.sum(&[1], false).zip(&y, |a, b| a + b);
    assert_near(&array::simulate_decryption(&found).unwrap(), &expected, 1e-8, &"sum");
    let column = engine.reshape(&b, &[9, 1]).unwrap();
    let found = engine.mul(&a, &column).unwrap();
    assert_eq!(found.level(), Level(2));
    let expected = x.zip(&y.reshape(&[9, 1]), |a, b| a * b);
    assert_near(&array::simulate_decryption(&found).unwrap(), &expected, 1e-8, &"product");
    for axes in [&[2][..], &[1, 1]] {
        assert!(matches!(layout.summed(axes), Err(ArrayError::Axis { .. })));
    }
}

/// Moving a field of 12 bits by one takes 4096 diagonals at once, 64 twice.
#[test]
fn large_moves_take_several_steps() {
    let column = Nd::random(&[4096, 1], 1);
    let wide = Nd::random(&[4096, 2], 2);
    let params = params(14, 4);
    let inputs = [column.clone(), wide.clone()];
    let (result, keys) = simulate(&params, &Case::Mul, &inputs, false);
    assert_eq!(result.level(), Level(1));
    assert!(keys.count() < 64, "{} keys", keys.count());
    let found = array::simulate_decryption(&result).unwrap();
    assert_near(&found, &Case::Mul.expected(&inputs), 1e-8, &"column by matrix");
    // Back down, and over several blocks.
    let narrow = Case::Sum(vec![1], false).then(Case::Add);
    let inputs = [Nd::random(&[6000, 2], 3), Nd::random(&[6000], 4)];
    let (result, _) = simulate(&params, &narrow, &inputs, false);
    let found = array::simulate_decryption(&result).unwrap();
    assert_near(&found, &narrow.expected(&inputs), 1e-8, &"sum and vector");
}

#[test]
fn moves_in_too_many_ways_are_refused() {
    let params = params(14, 4);
    let e = cost::Evaluator::new(&params, &KeyRequest::new());
    let engine = Engine::new(&e, &params, None).unwrap();
    let layout = Layout::new(&[90, 91], 13).unwrap();
    let x = Nd::random(&[90, 91], 1).plain();
    let x = array::simulate_encryption(e.slots(), &params, &layout, &x, params.top()).unwrap();
    let turned = engine.transpose(&x, None).unwrap();
    let error = engine.reshape(&turned, &[8190]).unwrap_err();
    assert!(matches!(error, ArrayError::TooManyDiagonals { most: 1024, .. }), "{error}");
}

/// One of each kind.
fn cases() -> Vec<(Case, Vec<Nd>)> {
    let a = Nd::random(&[10, 6], 5);
    let row = Nd::random(&[6], 6);
    let column = Nd::random(&[10, 1], 7);
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
        (Case::MatmulPlain(Nd::random(&[6, 5], 9)), vec![a.clone()]),
        (Case::MatmulPlain(Nd::random(&[16, 2], 9)), vec![Nd::random(&[4, 16], 10)]),
        (Case::RmatmulPlain(Nd::random(&[10], 9)), vec![a.clone()]),
        (Case::Matmul, vec![a.clone(), Nd::random(&[6, 3], 11)]),
        (Case::Transpose(vec![1, 0]).then(Case::Matmul), vec![a.clone(), a.clone()]),
        (Case::Slice(vec![2..7, 1..5]), vec![a.clone()]),
        (Case::Slice(vec![2..7, 1..2]), vec![a.clone()]),
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
    let engine = Engine::new(&e, &params, None).unwrap();
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
        exhausted(engine.powi(&x, u32::MAX), "square", 1, 0);
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
        // These need no key.
        engine.sum(&fourth, None, false).unwrap();
        engine.neg(&fourth).unwrap();
        engine.add(&fourth, &x).unwrap();
        let message = engine.square(&fourth).unwrap_err().to_string();
        assert!(message.contains("choose parameters"), "{message}");
    });
}

fn refused(found: array::Result<Array<cost::Evaluator>>) -> ArrayError {
    found.map(|_| ()).unwrap_err()
}

#[test]
fn wrong_operands_are_refused() {
    simulated(3, &[5, 3], |engine, x| {
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
        let matrix = |shape: &[usize]| Nd::random(shape, 2).plain();
        for shape in [&[4][..], &[4, 3], &[1, 3, 3], &[]] {
            let found = refused(engine.matmul_plain(&x, &matrix(shape)));
            assert!(matches!(found, ArrayError::Shapes { .. }));
            let found = refused(engine.rmatmul_plain(&matrix(shape), &x));
            assert!(matches!(found, ArrayError::Shapes { .. }));
        }
        assert!(matches!(refused(engine.matmul(&x, &x)), ArrayError::Shapes { .. }));
        for range in [2..2, 3..6, 6..7, usize::MAX..usize::MAX] {
            let found = refused(engine.slice(&x, &[range]));
            assert!(matches!(found, ArrayError::Range { axis: 0, size: 5, .. }));
        }
        assert!(matches!(refused(engine.slice(&x, &[0..1, 0..1, 0..1])), ArrayError::Axis { .. }));
        assert!(matches!(refused(engine.refresh(&x)), ArrayError::Argument { .. }));
        let row = engine.sum(&x, Some(&[0]), false).unwrap();
        let column = engine.sum(&x, Some(&[1]), false).unwrap();
        assert!(matches!(refused(engine.add(&row, &column)), ArrayError::Shapes { .. }));
    });
}

fn blocks(array: &Array<cost::Evaluator>) -> Vec<sim::Ciphertext> {
    array.blocks().iter().map(|block| (**block).clone()).collect()
}

#[test]
fn blocks_of_another_layout_are_refused() {
    simulated(3, &[5, 3], |engine, x| {
        let e = engine.evaluator();
        let layout = x.layout().clone();
        let same =
            Array::from_parts(e, layout.clone(), blocks(&x), true, array::Range::new(-1.0, 1.0))
                .unwrap();
        assert_eq!((same.level(), same.layout()), (x.level(), x.layout()));
        let square = engine.square(&x).unwrap();
        let other = Layout::new(&[3], 5).unwrap();
        let long = Layout::new(&[64], 5).unwrap();
        let mixed = [blocks(&engine.reshape(&x, &[15]).unwrap()), blocks(&square)].concat();
        for (layout, blocks) in [
            (layout.clone(), vec![]),
            (layout, [blocks(&x), blocks(&x)].concat()),
            (other, blocks(&x)),
            (long, mixed),
        ] {
            let found = Array::from_parts(e, layout, blocks, true, array::Range::new(-1.0, 1.0));
            assert!(matches!(refused(found), ArrayError::Blocks { .. }));
        }
    });
}

/// A scale or a level that the parameters do not have.
#[test]
fn blocks_of_other_parameters_are_refused() {
    simulated(3, &[5, 3], |engine, x| {
        let e = engine.evaluator();
        let scale = sudare::ckks::Scale::from_log2(39.0);
        let scaled = x.blocks().iter().map(|block| e.with_scale(block, scale).unwrap()).collect();
        let foreign =
            Array::from_parts(e, x.layout().clone(), scaled, true, array::Range::new(-1.0, 1.0))
                .unwrap();
        let matrix = Nd::random(&[3], 2).plain();
        simulated(2, &[5, 3], |smaller, _| {
            for (engine, x) in [(engine, &foreign), (smaller, &x)] {
                for found in [
                    engine.neg(x),
                    engine.add_scalar(x, 1.0),
                    engine.add(x, x),
                    engine.sum(x, None, false),
                    engine.slice(x, &[1..3]),
                    engine.matmul_plain(x, &matrix),
                ] {
                    assert!(matches!(refused(found), ArrayError::Blocks { .. }));
                }
            }
        });
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
            Level(0),
        )
        .map(|_| ())
    };
    encrypt(vec![16_000.0, -16_000.0, 0.0]).unwrap();
    let error = encrypt(vec![0.0, -17_000.0, 0.0]).unwrap_err();
    assert!(matches!(error, ArrayError::Library(sudare::Error::ValueTooLarge { index: 1, .. })));
    let error = encrypt(vec![f64::NAN, 0.0, 0.0]).unwrap_err();
    assert!(matches!(error, ArrayError::NotFinite { index: 0, .. }));
    let error = encrypt(vec![0.0; 2]).unwrap_err();
    assert!(matches!(error, ArrayError::Values { .. }));
}

/// A program with every kind of movement, run with the keys and parameters that were planned.
#[test]
fn planned_programs_run_with_what_was_planned() {
    let shapes: [&[usize]; 2] = [&[300, 5], &[5]];
    let program = Case::Mul
        .then(Case::Sum(vec![1], false))
        .then(Case::Slice(vec![40..140]))
        .then(Case::Mean(vec![0], false));
    let options = PlanOptions { log_n: 12..=14, ..PlanOptions::default() };
    let planned =
        array::plan(&shapes, &options, |engine, x| Ok(vec![program.run(engine, &x)?])).unwrap();
    let params = Params::new(planned.spec.clone()).unwrap();
    assert!(planned.security_bits >= 128.0 && params.rlwe().security_bits() >= 128.0);
    assert_eq!((planned.depth, planned.outputs[0].level, planned.bootstraps), (3, 0, 0));
    assert_eq!((planned.log_n, params.top()), (14, Level(3)));
    assert_eq!((planned.inputs[0].blocks, planned.outputs[0].shape.len()), (1, 0));
    assert!(planned.seconds > 0.0 && planned.peak_bytes > planned.key_bytes);
    let json = serde_json::to_value(&planned).unwrap();
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!([300, 5]));

    let s = Session::new(params.clone(), &planned.required_keys);
    assert_eq!(s.evaluator.keys().bytes(), planned.key_bytes);
    let engine = Engine::new(&s.evaluator, &params, None).unwrap();
    let inputs = shapes.map(|shape| Nd::random(shape, 1));
    let arrays = inputs.each_ref().map(|x| {
        let layout = Layout::new(&x.shape, engine.log_slots_max()).unwrap();
        array::encrypt(&s.encryptor, &params, &layout, &x.plain(), params.top()).unwrap()
    });
    assert_eq!(arrays[0].nbytes(), planned.inputs[0].bytes);
    let result = program.run(&engine, &arrays).unwrap();
    assert_eq!(result.nbytes(), planned.outputs[0].bytes);
    let found = array::decrypt(&s.decryptor, &params, &result).unwrap();
    assert_near(&found, &program.expected(&inputs), 1e-6, &program);

    // Built from its parts, as after reading a file.
    let blocks: Vec<_> = result.blocks().iter().map(|block| (**block).clone()).collect();
    let again = Array::from_ciphertexts(
        result.layout().clone(),
        blocks.clone(),
        false,
        result.range().clone(),
    )
    .unwrap();
    assert_eq!(array::decrypt(&s.decryptor, &params, &again).unwrap(), found);
    let other = Layout::new(&[2], 1).unwrap();
    let error = Array::from_ciphertexts(other, blocks, false, array::Range::unknown()).unwrap_err();
    assert!(matches!(error, ArrayError::Blocks { what: "slots of a block", .. }), "{error}");
}

/// Scales are as large as sharing takes, and errors as small as the plan says.
#[test]
fn results_can_be_shared_to_the_bits_planned_for() {
    let shapes: [&[usize]; 1] = [&[200, 4]];
    let program = |engine: &Engine<'static, _>, x: Vec<Array<_>>| {
        let squares = engine.mul(&x[0], &x[0])?;
        Ok(vec![engine.mean(&squares, Some(&[0]), false)?])
    };
    let options = PlanOptions { share_bits: Some(10), ..PlanOptions::default() };
    let planned = array::plan(&shapes, &options, program).unwrap();
    let [output] = &planned.outputs[..] else { panic!("one result") };
    assert!(output.largest_error() <= output.largest_shared_error(10));
    assert!(output.most_shared_bits() >= Some(10));
    assert!(planned.spec.log2_scale > 50.0 && planned.security_bits >= 128.0);
    let own = array::plan(&shapes, &PlanOptions::default(), program).unwrap();
    assert_eq!((own.outputs[0].most_shared_bits(), own.spec.log2_scale), (None, 40.0));

    let params = Params::new(planned.spec.clone()).unwrap();
    let s = Session::new(params.clone(), &planned.required_keys);
    let engine = Engine::new(&s.evaluator, &params, None).unwrap();
    let x = Nd::random(shapes[0], 1);
    let layout = Layout::new(&x.shape, engine.log_slots_max()).unwrap();
    let encrypted =
        array::encrypt(&s.encryptor, &params, &layout, &x.plain(), params.top()).unwrap();
    let squares = engine.mul(&encrypted, &encrypted).unwrap();
    let result = engine.mean(&squares, Some(&[0]), false).unwrap();
    let found = array::decrypt(&s.decryptor, &params, &result).unwrap();
    let column = |j: usize| x.values.iter().skip(j).step_by(4).map(|x| x * x).sum::<f64>() / 200.0;
    let errors = found.values.iter().enumerate().map(|(j, y)| (y - column(j)).abs());
    let largest = errors.fold(0.0, f64::max);
    assert!(largest < output.largest_error(), "{largest:e} of {:e}", output.largest_error());

    let refused = |bits| {
        let options = PlanOptions { share_bits: Some(bits), ..PlanOptions::default() };
        array::plan(&shapes, &options, program).unwrap_err()
    };
    // f64 has too few digits for this much noise.
    let too_little = refused(25);
    assert!(
        matches!(
            too_little,
            ArrayError::Library(sudare::Error::TooLittlePrecision { bits: 25, .. })
        ),
        "{too_little}"
    );
    assert!(matches!(refused(0), ArrayError::Argument { .. }));
}

/// Factors of a square have the same errors, and inputs may be as large as they can.
#[test]
fn errors_of_powers_are_within_their_bound() {
    let shapes: [&[usize]; 1] = [&[8]];
    let program = |engine: &Engine<'static, _>, x: Vec<Array<_>>| Ok(vec![engine.powi(&x[0], 16)?]);
    let options = PlanOptions { share_bits: Some(8), ..PlanOptions::default() };
    let planned = array::plan(&shapes, &options, program).unwrap();
    let params = Params::new(planned.spec.clone()).unwrap();
    let s = Session::new(params.clone(), &planned.required_keys);
    let engine = Engine::new(&s.evaluator, &params, None).unwrap();
    let layout = Layout::new(&[8], engine.log_slots_max()).unwrap();
    let ones = PlainArray::new(&[8], vec![1.0; 8]);
    for _ in 0..8 {
        let x = array::encrypt(&s.encryptor, &params, &layout, &ones, params.top()).unwrap();
        let power = engine.powi(&x, 16).unwrap();
        let found = array::decrypt(&s.decryptor, &params, &power).unwrap();
        let largest = found.values.iter().map(|y| (y - 1.0).abs()).fold(0.0, f64::max);
        let bound = planned.outputs[0].largest_error();
        assert!(largest < bound, "{largest:e} of {bound:e}");
    }
}

#[test]
fn plans_choose_the_smallest_ring_and_refuse_what_fits_none() {
    let power = |n| move |engine: &Engine<'static, _>, x: Vec<_>| Ok(vec![engine.powi(&x[0], n)?]);
    let plan = |n, options: &PlanOptions| array::plan(&[&[100]], options, power(n));
    let rings: Vec<_> = [1, 2, 8, 64, 1 << 14]
        .map(|n| plan(n, &PlanOptions::default()).unwrap())
        .iter()
        .map(|planned| (planned.log_n, planned.depth, planned.outputs[0].level))
        .collect();
    assert_eq!(rings, [(13, 0, 0), (13, 1, 0), (14, 3, 0), (14, 6, 0), (15, 14, 0)]);
    let small = PlanOptions { log_n: 13..=13, ..PlanOptions::default() };
    assert!(matches!(plan(64, &small), Err(ArrayError::LevelExhausted { .. })));
    for options in [
        PlanOptions { log_n: 13..=18, ..small.clone() },
        PlanOptions { log2_scale: f64::NAN, ..small.clone() },
        PlanOptions { log2_range: -1.0, ..small.clone() },
        PlanOptions { input_bound: 0.0, ..small.clone() },
        PlanOptions { input_bound: 1e9, ..small.clone() },
    ] {
        assert!(matches!(plan(2, &options), Err(ArrayError::Argument { .. })), "{options:?}");
    }
    let unknown = PlanOptions { bootstrapping: Some("none".into()), ..small };
    let error = plan(64, &unknown).unwrap_err();
    assert!(matches!(error, ArrayError::Library(sudare::Error::UnknownPreset { .. })));
}

/// A set in a small ring, as in the tests of bootstrapping.
fn bootstrapping_set(log_slots: u32) -> (Params, BootstrapPlan) {
    let eval_mod = EvalModSpec {
        k: 14,
        log2_ratio: 7.0,
        method: ModMethod::Cosine { degree: 28, double_angles: 3 },
        inverse_sine: None,
    };
    let spec = BootstrapSpec {
        log_slots: 8,
        order: Order::SlotsToCoeffsFirst,
        values: Values::Real,
        ephemeral_weight: Some(32),
        coeffs_to_slots: vec![4, 4],
        slots_to_coeffs: vec![4, 4],
        eval_mod,
        correction: true,
        refinement: None,
    }
    .with_log_slots(log_slots);
    let maps = [&spec.coeffs_to_slots, &spec.slots_to_coeffs].map(Vec::len);
    let high = maps[0] + spec.eval_mod.depth().unwrap() as usize;
    let q_bits =
        [vec![vec![44.0]], vec![vec![37.0]; maps[1] + 2 + 4], vec![vec![49.6]; high]].concat();
    let uniform = Spec::uniform(9, 0.0, 0, 37.0, vec![49.65; 6]);
    let params = Params::new(Spec { q_bits, insecure: true, ..uniform }).unwrap();
    let plan = spec.plan(&params, params.upper_top()).unwrap();
    (params, plan)
}

/// Padding is 0, which lies in the interval of neither the logarithm nor the inverse; relu takes
/// more levels than there are at once, so bootstrappings come between its polynomials.
#[test]
fn functions_of_elements_are_those_in_the_clear() {
    let close = |found: &Array<cost::Evaluator>, f: &Function, x: &Nd| {
        let found = array::simulate_decryption(found).unwrap();
        assert_near(&found, &x.clone().map(|x| f.evaluate(x)), 1e-5, &f.name());
    };
    let params = params(7, 9);
    let e = cost::Evaluator::new(&params, &KeyRequest::new());
    let engine = Engine::new(&e, &params, None).unwrap();
    let x = Nd::random(&[5, 3], 3).map(|x| 1.25 + 0.74 * x);
    let encrypted = |e: &cost::Evaluator, params: &Params, x: &Nd, level| {
        let layout = Layout::new(&x.shape, 5).unwrap();
        array::simulate_encryption(e.slots(), params, &layout, &x.plain(), level).unwrap()
    };
    let fit = Fit::PrecisionBits(8.0);
    for f in [functions::log(0.5..2.0, fit).unwrap(), functions::inverse(0.5..2.0, fit).unwrap()] {
        let a = encrypted(&e, &params, &x, params.top());
        let result = engine.function(&a, &f).unwrap();
        close(&result, &f, &x);
        assert!(result.padding_is_zero());
        assert!(a.level().0 - result.level().0 >= f.depth());
    }

    let (params, plan) = bootstrapping_set(5);
    let e = cost::Evaluator::new(&params, plan.required_keys());
    let bootstrapper = plan.prepare(&e).unwrap();
    let engine = Engine::new(&e, &params, Some(&bootstrapper)).unwrap().with_checked_magnitudes();
    let relu = functions::relu(-1.0..1.0, Fit::PrecisionBits(12.0)).unwrap();
    assert!(relu.stages().len() > 1 && relu.depth() > plan.usable_levels());
    let x = Nd::random(&[5, 3], 4);
    let a = encrypted(&e, &params, &x, engine.highest_level());
    let result = engine.function(&a, &relu).unwrap();
    assert!(engine.counts().bootstraps >= 2);
    let found = array::simulate_decryption(&result).unwrap();
    assert_near(&found, &x.map(|x| relu.evaluate(x)), 1e-3, &"relu");
}

#[test]
fn programs_beyond_the_levels_are_bootstrapped() {
    let (params, plan) = bootstrapping_set(5);
    assert_eq!(plan.usable_levels(), 4);
    // Six levels, then one more bootstrapping.
    let program = Case::Power(64).then(Case::Mul);
    let x = [Nd::random(&[7, 3], 1).map(|x| x * 0.02 + 0.98), Nd::random(&[3], 2)];

    let e = cost::Evaluator::new(&params, plan.required_keys());
    let bootstrapper = plan.prepare(&e).unwrap();
    let engine = Engine::new(&e, &params, Some(&bootstrapper)).unwrap().with_checked_magnitudes();
    assert_eq!(
        (engine.lowest_level(), engine.highest_level()),
        (plan.input_level(), plan.output_level())
    );
    assert_eq!(engine.log_slots_max(), 5);
    let level = engine.highest_level();
    let layout = |x: &Nd| Layout::new(&x.shape, engine.log_slots_max()).unwrap();
    let simulate = |x: &Nd| -> Array<cost::Evaluator> {
        array::simulate_encryption(e.slots(), &params, &layout(x), &x.plain(), level).unwrap()
    };
    let simulated = program.run(&engine, &[simulate(&x[0]), simulate(&x[1])]).unwrap();
    assert_eq!(engine.counts().bootstraps, 1);
    assert_near(
        &array::simulate_decryption(&simulated).unwrap(),
        &program.expected(&x),
        1e-4,
        &program,
    );

    // Bootstrapped ciphertexts replace the old ones.
    let low = engine.powi(&simulate(&x[0]), 16).unwrap();
    assert_eq!(low.level(), engine.lowest_level());
    let before = engine.counts().bootstraps;
    for _ in 0..3 {
        engine.square(&low).unwrap();
    }
    assert_eq!(engine.counts().bootstraps, before + 1);

    // Values beyond the bound are found in simulation.
    let large = engine.mul_scalar(&low, 3.0).unwrap();
    let error = engine.square(&large).unwrap_err();
    assert!(matches!(error, ArrayError::BeyondBound { most: 1.0, .. }), "{error}");
    // Deeper than the levels after one bootstrapping.
    let p = Polynomial::chebyshev(|x| (3.0 * x).sin(), -1.0..1.0, 40).unwrap();
    let error = engine.polynomial(&low, &p).unwrap_err();
    assert!(error.to_string().contains("bootstrapping leaves 4"), "{error}");
    let p = Polynomial::chebyshev(|x| (3.0 * x).sin(), -1.0..1.0, 7).unwrap();
    engine.polynomial(&low, &p).unwrap();
    assert_eq!(engine.counts().bootstraps, before + 1);

    let mut keys = e.slots().used_keys();
    keys |= plan.required_keys();
    let s = Session::new(params.clone(), &keys);
    let bootstrapper = plan.prepare(&s.evaluator).unwrap();
    let engine = Engine::new(&s.evaluator, &params, Some(&bootstrapper)).unwrap();
    let encrypt =
        |x: &Nd| array::encrypt(&s.encryptor, &params, &layout(x), &x.plain(), level).unwrap();
    let result = program.run(&engine, &[encrypt(&x[0]), encrypt(&x[1])]).unwrap();
    assert_eq!((result.level(), engine.counts().bootstraps), (simulated.level(), 1));
    let found = array::decrypt(&s.decryptor, &params, &result).unwrap();
    assert_near(&found, &program.expected(&x), 2e-3, &program);
}

/// In the set for real numbers, as planned only.
#[test]
fn deep_programs_are_planned_with_bootstrapping() {
    let options = PlanOptions {
        log_n: 13..=13,
        bootstrapping: Some("n16-boot-real".into()),
        ..PlanOptions::default()
    };
    let planned = array::plan(&[&[4, 4]], &options, |engine, x| {
        let mut y = x[0].clone();
        for _ in 0..20 {
            y = engine.square(&y)?;
        }
        Ok(vec![y])
    })
    .unwrap();
    assert_eq!((planned.log_n, planned.bootstraps), (16, 1));
    assert_eq!(planned.bootstrapping, Some(("n16-boot-real".into(), 4)));
    assert!(planned.matrix_bytes > 0 && planned.keys > 20);
    let params = Params::new(planned.spec.clone()).unwrap();
    let plan = planned.bootstrap_plan(&params).unwrap().unwrap();
    assert_eq!(plan.spec().log_slots, 4);
}
