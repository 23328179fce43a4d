use crate::{
    array::Result,
    exact::{IntegerRange, Layout},
};

/// Operations on planes: arrays of small integers, each in a range that is known. Results that
/// leave the range that a plane can hold are refused.
///
/// # Errors
/// All operations return the errors of the engine:
/// [`ArrayError::TableRange`](crate::array::ArrayError::TableRange) for numbers that are too large;
/// [`LevelExhausted`](sudare::Error::LevelExhausted) and
/// [`NoiseExhausted`](sudare::Error::NoiseExhausted) where no bootstrapping helps.
pub trait Digits {
    /// A plane. Clones are cheap.
    type Plane: Clone;

    /// Returns the layout of a plane.
    fn layout<'a>(&self, a: &'a Self::Plane) -> &'a Layout;

    /// Returns the range of the elements.
    fn range(&self, a: &Self::Plane) -> IntegerRange;

    /// Returns the same plane with the promise that elements lie in a range.
    fn within(&self, a: &Self::Plane, range: IntegerRange) -> Self::Plane;

    /// Returns the same elements in another shape.
    fn reshaped(&self, a: &Self::Plane, shape: &[usize]) -> Result<Self::Plane>;

    /// Returns a plane of one element repeated to `shape`.
    fn repeated(&self, op: &'static str, a: &Self::Plane, shape: &[usize]) -> Result<Self::Plane>;

    /// Returns the sum of planes times small coefficients, and of a constant.
    fn sum(&self, terms: &[(&Self::Plane, i64)], constant: i64) -> Result<Self::Plane>;

    /// Returns the sum with a plain number for each element, in C order.
    fn add_plain(&self, a: &Self::Plane, values: &[i64]) -> Result<Self::Plane>;

    /// Returns sums of products, each one level below and with one relinearisation.
    fn products(&self, sums: &[Vec<(Self::Plane, Self::Plane)>]) -> Result<Vec<Self::Plane>>;

    /// Returns functions of planes that all have one range, each given by its values for the
    /// integers of that range in ascending order. The results are sorted by plane, then by
    /// function.
    fn tables(&self, xs: &[Self::Plane], functions: &[Vec<i64>]) -> Result<Vec<Vec<Self::Plane>>>;
}
