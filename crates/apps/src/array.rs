//! Encrypted arrays of any shape.
//!
//! An [`Array`] occupies one or more ciphertexts, and its [`Layout`] maps elements to slots. An
//! [`Engine`] has NumPy's operations: elementwise operations with broadcasting, sums along axes,
//! products of matrices, slices. It rescales, brings operands to one level and bootstraps by
//! itself.
//!
//! Programs are generic over [`ComplexOps`]. On a [`ckks::Evaluator`] a program computes under
//! encryption. On a [`cost::Evaluator`](sudare::circuits::ckks::cost::Evaluator) the same program runs in
//! the clear. From such a run [`plan()`] finds the ring, the levels, the keys and the cost before a
//! key exists.
//!
//! ```
//! use sudare_apps::array::{self, PlanOptions};
//!
//! let planned = array::plan(&[&[500, 3]], &PlanOptions::default(), |engine, inputs| {
//!     let centred = engine.sub(&inputs[0], &engine.mean(&inputs[0], Some(&[0]), false)?)?;
//!     Ok(vec![engine.mean(&engine.square(&centred)?, Some(&[0]), false)?])
//! })?;
//! assert_eq!((planned.log_n, planned.depth, planned.outputs[0].shape.as_slice()), (14, 3, &[3][..]));
//! # Ok::<(), array::ArrayError>(())
//! ```
//!
//! # Scales and levels
//! Every array has the default scale of its level,
//! [`Params::scale_at`](sudare::ckks::Params::scale_at). Products rescale to it. An operand of a
//! higher level is brought down to it, at no level of the result. If too few levels are left for an
//! operation, the engine bootstraps the operand where it can. An array keeps its refreshed blocks,
//! so this happens once. Scale your data so that bootstrapped values have a magnitude of at most
//! `2^b`, where `b` is
//! [`BootstrapPlan::log2_bound`](sudare::circuits::ckks::bootstrap::BootstrapPlan::log2_bound). For the
//! named sets `2^b` is 1. In simulation larger values are an error.
//!
//! # Padding
//! Slots beyond the end of an axis are zero in new arrays. Operations keep them zero where that
//! costs no level, and an array knows whether they are zero. If nonzero padding would reach a
//! result, the engine masks it first, at the cost of a level.

mod crypt;
mod elementwise;
mod engine;
mod function;
mod layout;
mod matrix;
mod movement;
mod plan;
mod range;
mod reduce;

use std::sync::{Arc, OnceLock};

use sudare::{
    circuits::ckks::ComplexOps,
    ckks::{self, Scale},
    rlwe::Level,
};

pub use crypt::{decrypt, encrypt, simulate_decryption, simulate_encryption};
pub use engine::{Counts, Engine, general_keys};
pub use layout::Layout;
pub use plan::{
    ArrayFacts, InputRange, PlanOptions, Planned, SimulatedArray, Simulator, measure, plan,
};
pub use range::{PublicRange, Range};

/// Reason why an operation on arrays is impossible.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[non_exhaustive]
pub enum ArrayError {
    /// The underlying library returned an error.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// An axis has no elements.
    #[error("axis {axis} of shape {shape:?} has no elements: every axis needs one or more")]
    Empty {
        /// The shape.
        shape: Vec<usize>,
        /// The axis.
        axis: usize,
    },
    /// The array has too many elements or too many axes.
    #[error("shape {shape:?} is too large: at most 32 axes and 2^40 elements are possible")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// A layout read from a file is inconsistent.
    #[error("this is not a layout of an array: {problem}; use a layout that this library wrote")]
    InvalidLayout {
        /// The inconsistency.
        problem: String,
    },
    /// Blocks do not match the layout or the parameters of the engine.
    #[error(
        "{what}: found {found}, expected {needed}; use the blocks of one array, made for these parameters"
    )]
    Blocks {
        /// The quantity.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value required.
        needed: String,
    },
    /// The shapes of the operands do not match.
    #[error("{op}: shapes {left:?} and {right:?} do not match; reshape one of the arrays")]
    Shapes {
        /// The operation.
        op: &'static str,
        /// The shape of the left operand.
        left: Vec<usize>,
        /// The shape of the right operand.
        right: Vec<usize>,
    },
    /// An axis does not exist, or is named twice.
    #[error(
        "{op}: axis {axis} is out of bounds for an array of dimension {ndim}, or is named twice: \
         name each axis once, counted from 0"
    )]
    Axis {
        /// The operation.
        op: &'static str,
        /// The axis.
        axis: usize,
        /// Number of axes of the array.
        ndim: usize,
    },
    /// A range is empty or reaches beyond its axis.
    #[error(
        "{op}: the range {start}..{end} is empty or exceeds axis {axis}, which has {size} elements: \
         choose a range within 0..{size}"
    )]
    Range {
        /// The operation.
        op: &'static str,
        /// The axis.
        axis: usize,
        /// Elements along the axis.
        size: usize,
        /// Start of the range.
        start: usize,
        /// End of the range, exclusive.
        end: usize,
    },
    /// The number of values differs from the number of elements of the shape.
    #[error("{found} values do not fill shape {shape:?}: pass one for each element")]
    Values {
        /// Number of values passed.
        found: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// A plain value is NaN or infinite.
    #[error("{op}: value {index} is {value}: all values must be finite numbers")]
    NotFinite {
        /// The operation.
        op: &'static str,
        /// The index of the value, in C order.
        index: usize,
        /// The value, as printed.
        value: String,
    },
    /// An argument is out of the range of the operation.
    #[error("{op}: {problem}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// The value found, and the one required.
        problem: String,
    },
    /// The last axes are not rows of slots.
    #[error(
        "{op}: rows of slots are the last two axes of arrays of shape (2, c), c a power of two, and \
         of stacks of shape (…, 2, {columns}); this one has shape {shape:?}: encrypt it in such a \
         shape"
    )]
    SlotRows {
        /// The operation.
        op: &'static str,
        /// The shape of the array.
        shape: Vec<usize>,
        /// Slots of a row.
        columns: usize,
    },
    /// A move of elements would have too many diagonals.
    #[error(
        "{op} would need a matrix of {found} diagonals, but at most {most} are possible here: use \
         a smaller array, or an array that already has the required layout"
    )]
    TooManyDiagonals {
        /// The operation.
        op: &'static str,
        /// Diagonals of the move.
        found: usize,
        /// Maximum number of diagonals.
        most: usize,
    },
    /// A program is deeper than the levels allow.
    #[error(
        "{op} needs {needed} level{}, but {left} {} left: choose parameters with more depth, or \
         with bootstrapping",
        if *.needed == 1 { "" } else { "s" }, if *.left == 1 { "is" } else { "are" }
    )]
    LevelExhausted {
        /// The operation.
        op: &'static str,
        /// Levels that the operation needs.
        needed: u32,
        /// Levels left.
        left: u32,
    },
    /// A value may exceed the bound of bootstrapping.
    #[error(
        "{op}: values of magnitude up to {} would be bootstrapped, but at most {most} can be: scale the data \
         down or, if you know a smaller range, promise it with within(low, high)",
        short(*.found)
    )]
    BeyondBound {
        /// The operation.
        op: &'static str,
        /// The largest possible magnitude of a value.
        found: f64,
        /// The bound of bootstrapping.
        most: f64,
    },
    /// Values of a result may exceed the capacity of its level.
    #[error(
        "{op}: values from {} to {} are possible, but only magnitudes below {} fit at \
         level {level}: scale the data down, plan the program for the range of its inputs, choose \
         parameters of one more level or, if you know a smaller range, promise it with \
         within(low, high)",
        short(*.low), short(*.high), short(*.most)
    )]
    OutOfRoom {
        /// The operation.
        op: &'static str,
        /// The lowest possible value.
        low: f64,
        /// The highest possible value.
        high: f64,
        /// Exclusive bound of magnitudes at the level.
        most: f64,
        /// The level of the result.
        level: u32,
    },
    /// The argument of a function may be outside the interval of the function.
    #[error(
        "{op}: arguments from {} to {} are possible, but the function is approximated on \
         [{start}, {end}]: choose a wider interval, scale the data or, if you know a smaller range, \
         promise it with within(low, high)",
        short(*.low), short(*.high)
    )]
    OutsideInterval {
        /// The operation.
        op: &'static str,
        /// The lowest possible argument.
        low: f64,
        /// The highest possible argument.
        high: f64,
        /// The lower end of the interval.
        start: f64,
        /// The upper end of the interval.
        end: f64,
    },
    /// A value is outside the known range of its array.
    #[error(
        "{op}: element {index} is {}, but elements lie in [{}, {}]: a range that was \
         declared or promised did not hold, or the argument of a function left its interval; check \
         the inputs in simulation",
        short(*.value), short(*.low), short(*.high)
    )]
    OutsideRange {
        /// The operation.
        op: &'static str,
        /// The place of the element, in C order.
        index: usize,
        /// The value of the element.
        value: f64,
        /// The lower end of the range.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// An element is outside the range that was declared for an array of integers.
    #[error(
        "value {index} is {value}, outside the declared range from {low} to {high}: declare a range \
         with all values"
    )]
    OutsideIntegers {
        /// The place of the element, in C order.
        index: usize,
        /// The value of the element.
        value: i64,
        /// The lower end of the range.
        low: i64,
        /// The upper end.
        high: i64,
    },
    /// The integers that elements can be are too many for a table.
    #[error(
        "{op}: integers from {low} to {high} are possible, which are {count}, but a table has at \
         most {most}: declare a smaller range with encrypt(values, low=…, high=…), or promise one \
         with within(low, high)"
    )]
    TableRange {
        /// The operation.
        op: &'static str,
        /// The lowest possible integer.
        low: i128,
        /// The highest possible integer.
        high: i128,
        /// Number of possible integers.
        count: u128,
        /// Maximum number of integers.
        most: u128,
    },
    /// In simulation, a value exceeds the modulus.
    #[error(
        "a value exceeds the modulus by {excess_bits:.1} bits and would decrypt to noise: scale the data down, or leave more room above the scale"
    )]
    Overflow {
        /// Bits by which the value exceeds the modulus.
        excess_bits: f64,
    },
    /// A function of results to be shared may get arguments outside its interval.
    #[error(
        "for the largest possible inputs, the argument of a function could be {found:.2} \
         half-widths from the middle of its interval, but errors are bounded only inside it: \
         choose a wider interval or, if you know that arguments stay inside it, pass \
         assume_intervals=True"
    )]
    IntervalUnchecked {
        /// Distance of the argument from the middle of the interval, in half-widths: at most 1 is
        /// within.
        found: f64,
    },
}

/// Results of operations on arrays.
pub type Result<T> = core::result::Result<T, ArrayError>;

/// An encrypted array. Clones share the blocks, so cloning is cheap.
pub struct Array<E: ComplexOps> {
    layout: Layout,
    level: Level,
    scale: Scale,
    blocks: Vec<Arc<E::Ct>>,
    padding_is_zero: bool,
    range: Range,
    /// The blocks after bootstrapping, filled by the first operation that needs it.
    refreshed: Arc<OnceLock<Vec<Arc<E::Ct>>>>,
}

impl<E: ComplexOps> Clone for Array<E> {
    fn clone(&self) -> Self {
        Self {
            layout: self.layout.clone(),
            blocks: self.blocks.clone(),
            range: self.range.clone(),
            refreshed: Arc::clone(&self.refreshed),
            ..*self
        }
    }
}

impl<E: ComplexOps> Array<E> {
    /// Builds an array from blocks in the order of the layout, for example from a file. Its
    /// elements lie in `range`. Pass `false` for padding that is not known to be zero.
    ///
    /// # Errors
    /// [`ArrayError::Blocks`] unless the blocks match the layout in number and slots, and all have
    /// one level and scale.
    pub fn from_parts(
        evaluator: &E,
        layout: Layout,
        blocks: Vec<E::Ct>,
        padding_is_zero: bool,
        range: Range,
    ) -> Result<Self> {
        Self::checked(layout, blocks, padding_is_zero, range, |block| {
            (evaluator.level(block), evaluator.scale(block), evaluator.log_slots(block))
        })
    }

    /// Checks the blocks, each passed with its level, scale and `log2` of its slots.
    fn checked(
        layout: Layout,
        blocks: Vec<E::Ct>,
        padding_is_zero: bool,
        range: Range,
        facts: impl Fn(&E::Ct) -> (Level, Scale, u32),
    ) -> Result<Self> {
        let differs =
            |what, found: String, needed: String| Err(ArrayError::Blocks { what, found, needed });
        let Some(first) = blocks.first().filter(|_| blocks.len() == layout.blocks()) else {
            let found = blocks.len().to_string();
            let needed = layout.blocks().to_string();
            return differs("number of blocks", found, needed);
        };
        let (level, scale, _) = facts(first);
        for (found_level, found_scale, log_slots) in blocks.iter().map(&facts) {
            if log_slots != layout.log_slots() {
                let needed = format!("2^{}", layout.log_slots());
                return differs("slots of a block", format!("2^{log_slots}"), needed);
            }
            if found_level != level {
                return differs("level of a block", found_level.to_string(), level.to_string());
            }
            if !found_scale.matches(scale) {
                return differs("scale of a block", found_scale.to_string(), scale.to_string());
            }
        }
        let blocks = blocks.into_iter().map(Arc::new).collect();
        let refreshed = Arc::default();
        Ok(Self { layout, level, scale, blocks, padding_is_zero, range, refreshed })
    }

    /// Returns the layout of the array in its blocks.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the elements along each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Returns the level of the blocks.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the scale of the blocks.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the ciphertexts of the array, in C order of the tiles.
    #[must_use]
    pub fn blocks(&self) -> &[Arc<E::Ct>] {
        &self.blocks
    }

    /// Returns whether slots beyond the end of an axis are known to be zero.
    #[must_use]
    pub fn padding_is_zero(&self) -> bool {
        self.padding_is_zero || !self.layout.is_padded()
    }

    /// Returns the known range of the elements.
    #[must_use]
    pub fn range(&self) -> &Range {
        &self.range
    }

    /// Returns the largest magnitude that the padding can have.
    fn padding(&self) -> f64 {
        if self.padding_is_zero() { 0.0 } else { self.range.padding() }
    }

    /// Returns the array with elements declared to lie from `low` to `high`. Execution does not
    /// check this: results are wrong if it does not hold.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] unless both are finite and in order.
    pub fn within(&self, low: f64, high: f64) -> Result<Self> {
        check_ends("within", low, high)?;
        Ok(Self { range: self.range.promised(low, high), ..self.clone() })
    }

    /// Returns the array with a range for elements that will be read at other places.
    fn moved(&self) -> Self {
        Self { range: self.range.moved(), ..self.clone() }
    }

    /// Returns the same blocks in another layout that describes the same slots.
    fn with_layout(&self, layout: Layout) -> Self {
        Self { layout, ..self.clone() }
    }
}

impl Array<ckks::Evaluator> {
    /// Builds an array as [`Array::from_parts`] does, without an evaluator.
    ///
    /// # Errors
    /// The errors of [`Array::from_parts`].
    pub fn from_ciphertexts(
        layout: Layout,
        blocks: Vec<ckks::Ciphertext>,
        padding_is_zero: bool,
        range: Range,
    ) -> Result<Self> {
        Self::checked(layout, blocks, padding_is_zero, range, |block| {
            (block.level(), block.scale(), block.slots().ilog2())
        })
    }

    /// Returns the size of the blocks in memory, in bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        let polys = self.blocks.iter().flat_map(|block| block.polys());
        polys.flat_map(|poly| poly.rows()).map(|row| 8 * row.len() as u64).sum()
    }
}

impl<E: ComplexOps> core::fmt::Debug for Array<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let shape = self.shape();
        let level = self.level;
        let blocks = self.blocks.len();
        write!(f, "Array(shape {shape:?}, level {level}, {blocks} blocks)")
    }
}

/// An array of plain numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainArray {
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// The elements in C order. An operation checks that they fill the shape.
    pub values: Vec<f64>,
}

impl PlainArray {
    /// Creates an array. Operations check its values, not this function.
    #[must_use]
    pub fn new(shape: &[usize], values: Vec<f64>) -> Self {
        Self { shape: shape.to_vec(), values }
    }

    /// Creates an array without axes.
    #[must_use]
    pub fn scalar(value: f64) -> Self {
        Self { shape: Vec::new(), values: vec![value] }
    }

    /// Rejects values that do not fill the shape or are not finite.
    fn check(&self, op: &'static str) -> Result<()> {
        let elements = self.shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
        if elements != Some(self.values.len()) {
            let found = self.values.len();
            let shape = self.shape.clone();
            return Err(ArrayError::Values { found, shape });
        }
        if let Some(axis) = self.shape.iter().position(|&size| size == 0) {
            return Err(ArrayError::Empty { shape: self.shape.clone(), axis });
        }
        match self.values.iter().position(|x| !x.is_finite()) {
            None => Ok(()),
            Some(index) => {
                let value = self.values[index].to_string();
                Err(ArrayError::NotFinite { op, index, value })
            }
        }
    }
}

/// Formats a number for a message, in a few digits.
fn short(x: f64) -> String {
    let magnitude = x.abs();
    if magnitude != 0.0 && !(1e-3..1e6).contains(&magnitude) {
        return format!("{x:.3e}");
    }
    let digits = format!("{x:.4}");
    digits.trim_end_matches('0').trim_end_matches('.').into()
}

/// Rejects ends that do not form an interval.
fn check_ends(op: &'static str, low: f64, high: f64) -> Result<()> {
    if low <= high && low.is_finite() && high.is_finite() {
        return Ok(());
    }
    let problem = format!("{low} to {high} is not a range: pass finite ascending numbers");
    Err(ArrayError::Argument { op, problem })
}
