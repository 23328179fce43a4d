//! Encrypted arrays of any shape.
//!
//! An [`Array`] lies in one or more ciphertexts as its [`Layout`] says; an [`Engine`] computes on
//! arrays as NumPy does on its own: elementwise with broadcasting, sums along axes, products of
//! matrices, slices. It rescales, brings operands to one level and bootstraps by itself.
//!
//! Everything is written once against [`ComplexOps`]. On a
//! [`ckks::Evaluator`] it computes under encryption; on a
//! [`cost::Evaluator`](sudare::circuits::cost::Evaluator) the same program runs in the clear, and
//! [`plan()`] finds from that the ring, the levels, the keys and the cost before a key exists.
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
//! [`Params::scale_at`](sudare::ckks::Params::scale_at): products rescale to it, and an operand of
//! a higher level is brought down to it without the loss of a level of the result. An operation
//! that finds too few levels left bootstraps its operand, if the engine can; an array keeps its
//! refreshed blocks, so that this happens once. What is bootstrapped must be at most
//! [`BootstrapPlan::log2_bound`](sudare::circuits::bootstrap::BootstrapPlan::log2_bound) in
//! magnitude, 1 for the named sets: scale data so. In simulation larger values are an error.
//!
//! # Padding
//! Slots beyond the end of an axis are zero in new arrays. Operations keep them so where that
//! costs no level, and an array knows whether they are; where they are not, and would
//! reach a result, they are masked first, which takes a level.

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
    circuits::ComplexOps,
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

/// Why an operation on arrays is impossible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// The engine refused.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// An axis has no elements.
    #[error("axis {axis} of shape {shape:?} has no elements: give every axis one or more")]
    Empty {
        /// The shape.
        shape: Vec<usize>,
        /// The axis.
        axis: usize,
    },
    /// More elements or axes than can be.
    #[error("shape {shape:?} is too large: at most 32 axes and 2^40 elements are possible")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// A layout that does not fit itself, from a file.
    #[error("this is no layout of an array, {problem}: use one that this library wrote")]
    InvalidLayout {
        /// What is wrong.
        problem: String,
    },
    /// Blocks that are not those of a layout, or not made for an engine.
    #[error(
        "{what}: found {found}, but {needed} is needed; use the blocks of one array, made for the parameters at hand"
    )]
    Blocks {
        /// The quantity.
        what: &'static str,
        /// As found.
        found: String,
        /// As needed.
        needed: String,
    },
    /// Operands whose shapes do not go together.
    #[error("{op}: shapes {left:?} and {right:?} do not go together; reshape one of them")]
    Shapes {
        /// The operation.
        op: &'static str,
        /// One shape.
        left: Vec<usize>,
        /// The other.
        right: Vec<usize>,
    },
    /// An axis that an array does not have, or has been named before.
    #[error("{op}: axis {axis} is not one of the {ndim} of the array, or is named twice")]
    Axis {
        /// The operation.
        op: &'static str,
        /// The axis.
        axis: usize,
        /// Axes there are.
        ndim: usize,
    },
    /// A range that an axis does not have.
    #[error(
        "{op}: {start}..{end} is not a range of one element or more of axis {axis}, which has \
         {size}"
    )]
    Range {
        /// The operation.
        op: &'static str,
        /// The axis.
        axis: usize,
        /// Its elements.
        size: usize,
        /// Start of the range.
        start: usize,
        /// Its end.
        end: usize,
    },
    /// A number of values that is not that of the shape.
    #[error("{found} values do not fill shape {shape:?}: give one for each element")]
    Values {
        /// Values given.
        found: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// A plain value that is NaN or infinite.
    #[error("{op}: value {index} is {value}: only finite numbers can be computed with")]
    NotFinite {
        /// The operation.
        op: &'static str,
        /// Its place, in C order.
        index: usize,
        /// As printed.
        value: String,
    },
    /// A number that an operation cannot do with.
    #[error("{op}: {problem}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// What was found and what is needed.
        problem: String,
    },
    /// Axes that are not the rows of slots.
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
    /// Elements that move in too many ways.
    #[error(
        "{op} would take a matrix of {found} diagonals, and at most {most} are possible here: use \
         a smaller array, or one in the layout that is needed"
    )]
    TooManyDiagonals {
        /// The operation.
        op: &'static str,
        /// Diagonals that it would take.
        found: usize,
        /// Diagonals that are possible.
        most: usize,
    },
    /// A program is deeper than the levels allow.
    #[error(
        "{op} needs {needed} more level(s), and {left} {} left: choose parameters of more depth, \
         or with bootstrapping",
        if *.left == 1 { "is" } else { "are" }
    )]
    LevelExhausted {
        /// The operation.
        op: &'static str,
        /// Levels that it needs.
        needed: u32,
        /// Levels left.
        left: u32,
    },
    /// A value that bootstrapping could lose.
    #[error(
        "{op}: values of magnitude up to {} would be bootstrapped, but at most {most} can be: scale the data \
         down or, if you know a smaller range, promise it with within(low, high)",
        short(*.found)
    )]
    BeyondBound {
        /// The operation.
        op: &'static str,
        /// The largest magnitude.
        found: f64,
        /// The largest possible.
        most: f64,
    },
    /// Values of a result may exceed what its level holds.
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
        /// The lowest value that is possible.
        low: f64,
        /// The highest one.
        high: f64,
        /// Magnitudes that fit are below.
        most: f64,
        /// The level of the result.
        level: u32,
    },
    /// The argument of a function may leave the interval of the function.
    #[error(
        "{op}: arguments from {} to {} are possible, but the function is approximated on \
         [{start}, {end}]: take a wider interval, scale the data or, if you know a smaller range, \
         promise it with within(low, high)",
        short(*.low), short(*.high)
    )]
    OutsideInterval {
        /// The operation.
        op: &'static str,
        /// The lowest argument that is possible.
        low: f64,
        /// The highest one.
        high: f64,
        /// The lower end of the interval.
        start: f64,
        /// The upper end.
        end: f64,
    },
    /// A value is not in the range that is known of its array.
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
        /// Its value.
        value: f64,
        /// The lower end of the range.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// In simulation: a value that the modulus does not hold.
    #[error(
        "a value exceeds what the modulus holds by {excess_bits:.1} bits and would decrypt to \
         noise: scale the data down, or leave more room above the scale"
    )]
    Overflow {
        /// Bits by which it exceeds.
        excess_bits: f64,
    },
    /// A function of results that are to be shared may be given arguments outside its interval.
    #[error(
        "for inputs as large as they may be, the argument of a function could be {found:.2} \
         half-widths from the middle of its interval, and errors are bounded within it alone: take \
         a wider interval or, if you know that arguments stay within it, say that intervals are to be \
         assumed"
    )]
    IntervalUnchecked {
        /// The distance, which is at most 1 within the interval.
        found: f64,
    },
}

/// Results of operations on arrays.
pub type Result<T> = core::result::Result<T, ArrayError>;

/// An encrypted array. Cheap to clone: blocks are shared.
pub struct Array<E: ComplexOps> {
    layout: Layout,
    level: Level,
    scale: Scale,
    blocks: Vec<Arc<E::Ct>>,
    padding_is_zero: bool,
    range: Range,
    /// The blocks after bootstrapping, once that was needed.
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
    /// An array of blocks in the order of the layout, such as those of a file, whose elements lie
    /// in `range`. Padding that is not known to be zero is said not to be.
    ///
    /// # Errors
    /// [`ArrayError::Blocks`] unless there are as many blocks as the layout has, of as many
    /// slots, all of one level and scale.
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

    /// With level, scale and `log2` of the slots of each block.
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
            let (found, needed) = (blocks.len().to_string(), layout.blocks().to_string());
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

    /// How it lies in its blocks.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Elements along each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The level of its blocks.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The scale of its blocks.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The ciphertexts of the array, in C order of the tiles.
    #[must_use]
    pub fn blocks(&self) -> &[Arc<E::Ct>] {
        &self.blocks
    }

    /// Whether slots beyond the end of an axis are known to be zero.
    #[must_use]
    pub fn padding_is_zero(&self) -> bool {
        self.padding_is_zero || !self.layout.is_padded()
    }

    /// Where its elements lie.
    #[must_use]
    pub fn range(&self) -> &Range {
        &self.range
    }

    /// The largest magnitude that its padding can have.
    fn padding(&self) -> f64 {
        if self.padding_is_zero() { 0.0 } else { self.range.padding() }
    }

    /// The same, where elements are known to lie from `low` to `high`. Nobody checks that in
    /// execution: results are wrong if it does not hold.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] unless both are finite and in order.
    pub fn within(&self, low: f64, high: f64) -> Result<Self> {
        check_ends("within", low, high)?;
        Ok(Self { range: self.range.promised(low, high), ..self.clone() })
    }

    /// The same, whose elements are to be read at other places.
    fn moved(&self) -> Self {
        Self { range: self.range.moved(), ..self.clone() }
    }

    /// The same blocks in another layout that says the same of their slots.
    fn with_layout(&self, layout: Layout) -> Self {
        Self { layout, ..self.clone() }
    }
}

impl Array<ckks::Evaluator> {
    /// As [`Array::from_parts`], for whoever has no evaluator.
    ///
    /// # Errors
    /// As [`Array::from_parts`].
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

    /// Bytes of memory that the blocks take.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        let polys = self.blocks.iter().flat_map(|block| block.polys());
        polys.flat_map(|poly| poly.rows()).map(|row| 8 * row.len() as u64).sum()
    }
}

impl<E: ComplexOps> core::fmt::Debug for Array<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (shape, level, blocks) = (self.shape(), self.level, self.blocks.len());
        write!(f, "Array(shape {shape:?}, level {level}, {blocks} blocks)")
    }
}

/// An array of plain numbers, in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainArray {
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// The elements, as many as the shape has.
    pub values: Vec<f64>,
}

impl PlainArray {
    /// With these values, which an operation checks.
    #[must_use]
    pub fn new(shape: &[usize], values: Vec<f64>) -> Self {
        Self { shape: shape.to_vec(), values }
    }

    /// An array of no axes.
    #[must_use]
    pub fn scalar(value: f64) -> Self {
        Self { shape: Vec::new(), values: vec![value] }
    }

    /// Refuses values that do not fill the shape or are not finite.
    fn check(&self, op: &'static str) -> Result<()> {
        let elements = self.shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
        if elements != Some(self.values.len()) {
            let (found, shape) = (self.values.len(), self.shape.clone());
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

/// A number for a message, in a few digits.
fn short(x: f64) -> String {
    let magnitude = x.abs();
    if magnitude != 0.0 && !(1e-3..1e6).contains(&magnitude) {
        return format!("{x:.3e}");
    }
    let digits = format!("{x:.4}");
    digits.trim_end_matches('0').trim_end_matches('.').into()
}

/// Refuses what are no two ends of an interval.
fn check_ends(op: &'static str, low: f64, high: f64) -> Result<()> {
    if low <= high && low.is_finite() && high.is_finite() {
        return Ok(());
    }
    let problem = format!("a range from {low} to {high}: give finite numbers, the lower one first");
    Err(ArrayError::Argument { op, problem })
}
