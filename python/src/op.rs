//! Operations on arrays: the steps of a program, run here and recorded for planning.

use crate::{
    function::{Function, Kind},
    numbers::Numbers,
};
use pyo3::prelude::*;
use std::sync::Arc;
use sudare::circuits::ckks::ComplexOps;
use sudare_apps::{
    array::{Array, ArrayError, Engine, PlainArray},
    exact::{self, Comparison, IntegerArray, Operand},
};

/// An operation, as Python holds it.
#[pyclass(frozen, module = "sudare._native", name = "Op")]
pub struct PyOp(pub Op);

/// An operation on one operand or two.
#[derive(Debug, Clone)]
pub enum Op {
    /// Sum, with broadcasting.
    Add,
    /// Difference, with broadcasting.
    Sub,
    /// Product of elements, with broadcasting.
    Mul,
    /// Product of matrices or vectors.
    MatMul,
    /// Negation.
    Neg,
    /// Whole power, from 1 on.
    Power {
        /// The exponent.
        exponent: u64,
    },
    /// Sum along axes.
    Sum {
        /// The axes.
        axes: Vec<usize>,
        /// True if they stay, with one element.
        keepdims: bool,
    },
    /// Mean along axes.
    Mean {
        /// The axes.
        axes: Vec<usize>,
        /// True if they stay, with one element.
        keepdims: bool,
    },
    /// Variance along axes.
    Var {
        /// The axes.
        axes: Vec<usize>,
        /// True if they stay, with one element.
        keepdims: bool,
        /// The divisor is the number of elements less this.
        ddof: usize,
    },
    /// A range of each axis.
    Slice {
        /// Starts and ends.
        ranges: Vec<(usize, usize)>,
    },
    /// The same elements in C order.
    Reshape {
        /// Elements along each axis.
        shape: Vec<usize>,
    },
    /// The same axes in another order.
    Transpose {
        /// The axis that comes to each place.
        axes: Vec<usize>,
    },
    /// The same elements, which are promised to lie between two numbers.
    Within {
        /// The lower one.
        low: f64,
        /// The upper one.
        high: f64,
    },
    /// A polynomial of elements, exactly.
    Polynomial {
        /// The coefficients, of degree 0 first.
        coefficients: Vec<i64>,
    },
    /// Rows of slots, rotated to the left.
    Rotate {
        /// Number of slots.
        steps: i64,
    },
    /// Both rows of slots exchanged.
    SwapRows,
    /// The same elements, bootstrapped.
    Bootstrap,
    /// A comparison of elements, with broadcasting.
    Compare {
        /// The comparison.
        comparison: Comparison,
    },
    /// Elements of the second or the third operand, where the first is 1 or 0.
    Select,
    /// A function of elements, or of pairs of them with broadcasting.
    Function {
        /// The function.
        function: Arc<Kind>,
    },
}

/// An operand.
pub enum Value<E: ComplexOps> {
    /// Encrypted.
    Encrypted(Array<E>),
    /// In the clear for the machine that computes.
    Plain(PlainArray),
}

#[pymethods]
impl PyOp {
    #[staticmethod]
    fn add() -> Self {
        Self(Op::Add)
    }
    #[staticmethod]
    fn sub() -> Self {
        Self(Op::Sub)
    }
    #[staticmethod]
    fn mul() -> Self {
        Self(Op::Mul)
    }
    #[staticmethod]
    fn matmul() -> Self {
        Self(Op::MatMul)
    }
    #[staticmethod]
    fn neg() -> Self {
        Self(Op::Neg)
    }
    #[staticmethod]
    fn power(exponent: u64) -> Self {
        Self(Op::Power { exponent })
    }
    #[staticmethod]
    fn sum(axes: Vec<usize>, keepdims: bool) -> Self {
        Self(Op::Sum { axes, keepdims })
    }
    #[staticmethod]
    fn mean(axes: Vec<usize>, keepdims: bool) -> Self {
        Self(Op::Mean { axes, keepdims })
    }
    #[staticmethod]
    fn var(axes: Vec<usize>, keepdims: bool, ddof: usize) -> Self {
        Self(Op::Var { axes, keepdims, ddof })
    }
    #[staticmethod]
    fn slice(ranges: Vec<(usize, usize)>) -> Self {
        Self(Op::Slice { ranges })
    }
    #[staticmethod]
    fn reshape(shape: Vec<usize>) -> Self {
        Self(Op::Reshape { shape })
    }
    #[staticmethod]
    fn transpose(axes: Vec<usize>) -> Self {
        Self(Op::Transpose { axes })
    }
    #[staticmethod]
    fn within(low: f64, high: f64) -> Self {
        Self(Op::Within { low, high })
    }
    #[staticmethod]
    fn polynomial(coefficients: Numbers<i64>) -> Self {
        Self(Op::Polynomial { coefficients: coefficients.values })
    }
    #[staticmethod]
    fn rotate(steps: i64) -> Self {
        Self(Op::Rotate { steps })
    }
    #[staticmethod]
    fn swap_rows() -> Self {
        Self(Op::SwapRows)
    }
    #[staticmethod]
    fn bootstrap() -> Self {
        Self(Op::Bootstrap)
    }
    #[staticmethod]
    fn less() -> Self {
        Self(Op::Compare { comparison: Comparison::Less })
    }
    #[staticmethod]
    fn less_equal() -> Self {
        Self(Op::Compare { comparison: Comparison::LessEqual })
    }
    #[staticmethod]
    fn greater() -> Self {
        Self(Op::Compare { comparison: Comparison::Greater })
    }
    #[staticmethod]
    fn greater_equal() -> Self {
        Self(Op::Compare { comparison: Comparison::GreaterEqual })
    }
    #[staticmethod]
    fn equal() -> Self {
        Self(Op::Compare { comparison: Comparison::Equal })
    }
    #[staticmethod]
    fn not_equal() -> Self {
        Self(Op::Compare { comparison: Comparison::NotEqual })
    }
    #[staticmethod]
    fn select() -> Self {
        Self(Op::Select)
    }
    #[staticmethod]
    fn function(function: &Function) -> Self {
        Self(Op::Function { function: Arc::clone(&function.0) })
    }
}

/// References to operands.
pub fn refs<E: ComplexOps>(operands: &[Value<E>]) -> Vec<&Value<E>> {
    operands.iter().collect()
}

impl Op {
    /// Returns the result of the operation.
    pub fn apply<E: ComplexOps>(
        &self,
        engine: &Engine<'_, E>,
        operands: &[&Value<E>],
    ) -> Result<Array<E>, ArrayError> {
        use Value::{Encrypted, Plain};
        match (self, operands) {
            (Self::Add, [Encrypted(a), Encrypted(b)]) => engine.add(a, b),
            (Self::Add, [Encrypted(a), Plain(b)] | [Plain(b), Encrypted(a)]) => {
                engine.add_plain(a, b)
            }
            (Self::Sub, [Encrypted(a), Encrypted(b)]) => engine.sub(a, b),
            (Self::Sub, [Encrypted(a), Plain(b)]) => engine.sub_plain(a, b),
            // Engines subtract from ciphertexts only. Negation is exact and needs no level.
            (Self::Sub, [Plain(a), Encrypted(b)]) => engine.add_plain(&engine.neg(b)?, a),
            (Self::Mul, [Encrypted(a), Encrypted(b)]) => engine.mul(a, b),
            (Self::Mul, [Encrypted(a), Plain(b)] | [Plain(b), Encrypted(a)]) => {
                engine.mul_plain(a, b)
            }
            (Self::MatMul, [Encrypted(a), Encrypted(b)]) => engine.matmul(a, b),
            (Self::MatMul, [Encrypted(a), Plain(b)]) => engine.matmul_plain(a, b),
            (Self::MatMul, [Plain(a), Encrypted(b)]) => engine.rmatmul_plain(a, b),
            (Self::Neg, [Encrypted(a)]) => engine.neg(a),
            (Self::Power { exponent }, [Encrypted(a)]) => match u32::try_from(*exponent) {
                Ok(exponent) => engine.powi(a, exponent),
                Err(_) => self.fails(operands.len()),
            },
            (Self::Sum { axes, keepdims }, [Encrypted(a)]) => engine.sum(a, Some(axes), *keepdims),
            (Self::Mean { axes, keepdims }, [Encrypted(a)]) => {
                engine.mean(a, Some(axes), *keepdims)
            }
            (Self::Var { axes, keepdims, ddof }, [Encrypted(a)]) => {
                engine.var(a, Some(axes), *keepdims, *ddof)
            }
            (Self::Slice { ranges }, [Encrypted(a)]) => {
                let ranges: Vec<_> = ranges.iter().map(|&(start, end)| start..end).collect();
                engine.slice(a, &ranges)
            }
            (Self::Reshape { shape }, [Encrypted(a)]) => engine.reshape(a, shape),
            (Self::Transpose { axes }, [Encrypted(a)]) => engine.transpose(a, Some(axes)),
            (Self::Within { low, high }, [Encrypted(a)]) => engine.within(a, *low, *high),
            (Self::Function { function }, operands) => match (&**function, operands) {
                (Kind::One(function), [Encrypted(a)]) => engine.function(a, function),
                (Kind::Pair(pair), [a, b]) => {
                    // Each operand is checked before the difference, whose range hides where they
                    // lie.
                    let operand = |x: &Value<E>| -> Result<_, ArrayError> {
                        Ok(match x {
                            Encrypted(x) => Encrypted(engine.operand(x, pair)?),
                            Plain(x) => Plain(x.clone()),
                        })
                    };
                    let [a, b] = [&operand(a)?, &operand(b)?];
                    let difference = Self::Sub.apply(engine, &[a, b])?;
                    let value = engine.function(&difference, pair.of_difference())?;
                    // The maximum is `b + relu(a - b)`: `b` itself goes around the polynomial.
                    match pair.adds_second() {
                        true => Self::Add.apply(engine, &[&Encrypted(value), b]),
                        false => Ok(value),
                    }
                }
                _ => self.fails(operands.len()),
            },
            _ => self.fails(operands.len()),
        }
    }

    /// Returns the result of the operation on integers.
    pub fn apply_exactly(
        &self,
        engine: &exact::Engine,
        operands: &[Operand],
    ) -> Result<IntegerArray, ArrayError> {
        use Operand::{Encrypted, Plain};
        match (self, operands) {
            (Self::Add, [Encrypted(a), Encrypted(b)]) => engine.add(a, b),
            (Self::Add, [Encrypted(a), Plain(b)] | [Plain(b), Encrypted(a)]) => {
                engine.add_plain(a, b)
            }
            (Self::Sub, [Encrypted(a), Encrypted(b)]) => engine.sub(a, b),
            (Self::Sub, [Encrypted(a), Plain(b)]) => engine.add_plain(a, &b.negated()),
            (Self::Sub, [Plain(a), Encrypted(b)]) => engine.add_plain(&engine.neg(b)?, a),
            (Self::Mul, [Encrypted(a), Encrypted(b)]) => engine.mul(a, b),
            (Self::Mul, [Encrypted(a), Plain(b)] | [Plain(b), Encrypted(a)]) => {
                engine.mul_plain_array(a, b)
            }
            (Self::MatMul, [Plain(a), Encrypted(b)]) => engine.matmul_left(a, b),
            (Self::MatMul, [Encrypted(a), Plain(b)]) => engine.matmul_right(a, b),
            (Self::MatMul, [Encrypted(a), Encrypted(b)])
                if a.shape().len() == 1 && a.shape() == b.shape() =>
            {
                engine.sum(&engine.mul(a, b)?)
            }
            (Self::MatMul, [Encrypted(_), Encrypted(_)]) => Err(ArrayError::Argument {
                op: "multiply matrices",
                problem: "both are encrypted, which is possible only for two vectors of the same \
                          length: pass one of the matrices in the clear"
                    .into(),
            }),
            (Self::Neg, [Encrypted(a)]) => engine.neg(a),
            (Self::Power { exponent }, [Encrypted(a)]) => engine.power(a, *exponent),
            // The layout of integers sums all slots. Sums along single axes do not exist, and are
            // refused below.
            (Self::Sum { axes, .. }, [Encrypted(a)]) if axes.len() == a.shape().len() => {
                engine.sum(a)
            }
            (Self::Polynomial { coefficients }, [Encrypted(a)]) => {
                engine.polynomial(a, coefficients)
            }
            (Self::Rotate { steps }, [Encrypted(a)]) => engine.rotate(a, *steps),
            (Self::SwapRows, [Encrypted(a)]) => engine.swap_rows(a),
            (Self::Bootstrap, [Encrypted(a)]) => engine.bootstrap(a),
            (Self::Compare { comparison }, [a, b]) => engine.compare(a, *comparison, b),
            (Self::Select, [Encrypted(mask), a, b]) => engine.select(mask, a, b),
            _ => self.fails(operands.len()),
        }
    }

    fn fails<T>(&self, operands: usize) -> Result<T, ArrayError> {
        Err(ArrayError::Argument {
            op: "operation",
            problem: format!("{self:?} does not take these {operands} operands"),
        })
    }

    /// Returns the shape of the result for operands of these shapes.
    pub fn shape(&self, shapes: &[&[usize]]) -> Result<Vec<usize>, ArrayError> {
        match (self, shapes) {
            (Self::Add | Self::Sub | Self::Mul | Self::Function { .. }, [a, b]) => {
                broadcast("broadcast", a, b)
            }
            (Self::MatMul, [a, b]) => matmul(a, b),
            (
                Self::Sum { axes, keepdims }
                | Self::Mean { axes, keepdims }
                | Self::Var { axes, keepdims, .. },
                [a],
            ) => {
                each_once("sum", axes, a.len())?;
                let size = |(axis, &size): (usize, &usize)| match axes.contains(&axis) {
                    true => keepdims.then_some(1),
                    false => Some(size),
                };
                Ok(a.iter().enumerate().filter_map(size).collect())
            }
            (Self::Slice { ranges }, [a]) if ranges.len() == a.len() => {
                // Empty ranges are refused, too: a ciphertext cannot hold an empty array.
                let lengths = ranges.iter().zip(*a).enumerate().map(|(axis, (range, &size))| {
                    let &(start, end) = range;
                    let fails = ArrayError::Range { op: "slice", axis, size, start, end };
                    if start < end && end <= size { Ok(end - start) } else { Err(fails) }
                });
                lengths.collect()
            }
            (Self::Reshape { shape }, [a]) => match elements(shape) == elements(a) {
                true => Ok(shape.clone()),
                false => {
                    let left = a.to_vec();
                    let right = shape.clone();
                    Err(ArrayError::Shapes { op: "reshape", left, right })
                }
            },
            (Self::Transpose { axes }, [a]) if axes.len() == a.len() => {
                each_once("transpose", axes, a.len())?;
                Ok(axes.iter().filter_map(|&axis| a.get(axis).copied()).collect())
            }
            (Self::Neg | Self::Power { .. } | Self::Function { .. } | Self::Within { .. }, [a]) => {
                Ok(a.to_vec())
            }
            _ => self.fails(shapes.len()),
        }
    }
}

/// Refuses axes that do not exist or are named twice.
fn each_once(op: &'static str, axes: &[usize], ndim: usize) -> Result<(), ArrayError> {
    let fails = |(place, axis): (usize, &usize)| *axis >= ndim || axes[..place].contains(axis);
    match axes.iter().enumerate().find(|&found| fails(found)) {
        Some((_, &axis)) => Err(ArrayError::Axis { op, axis, ndim }),
        None => Ok(()),
    }
}

/// Returns the number of elements of a shape, or `None` if it overflows.
fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
}

/// Broadcasts as NumPy: sizes from the last axis on are equal or 1.
fn broadcast(op: &'static str, a: &[usize], b: &[usize]) -> Result<Vec<usize>, ArrayError> {
    let ndim = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(ndim).map_or(1, |axis| shape[axis])
    };
    (0..ndim)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (a, b) if a == b || b == 1 => Some(a),
            (1, b) => Some(b),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| ArrayError::Shapes { op, left: a.to_vec(), right: b.to_vec() })
}

/// Multiplies as NumPy: vectors are rows on the left and columns on the right.
fn matmul(a: &[usize], b: &[usize]) -> Result<Vec<usize>, ArrayError> {
    const OP: &str = "matmul";
    let fails = || ArrayError::Shapes { op: OP, left: a.to_vec(), right: b.to_vec() };
    let (Some((&inner, rows)), Some(_)) = (a.split_last(), b.last()) else { return Err(fails()) };
    let (other, columns, stack) = match b {
        [other] => (*other, None, &[][..]),
        [stack @ .., other, columns] => (*other, Some(*columns), stack),
        [] => return Err(fails()),
    };
    if inner != other {
        return Err(fails());
    }
    let (row, left_stack) = match rows.split_last() {
        Some((&row, stack)) => (Some(row), stack),
        None => (None, &[][..]),
    };
    let mut shape = broadcast(OP, left_stack, stack)?;
    shape.extend(row);
    shape.extend(columns);
    Ok(shape)
}
