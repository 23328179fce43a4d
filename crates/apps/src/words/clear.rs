use super::Digits;
use crate::{
    array::{ArrayError, Result},
    exact::{IntegerRange, Layout, Setting},
};

/// Computes on planes in the clear, and refuses numbers outside the range of their plane.
#[derive(Debug, Clone)]
pub struct Clear {
    setting: Setting,
}

/// A plane in the clear.
#[derive(Debug, Clone)]
pub struct ClearPlane {
    layout: Layout,
    values: Vec<i64>,
    range: IntegerRange,
}

impl ClearPlane {
    /// Returns the elements in C order.
    #[must_use]
    pub fn values(&self) -> &[i64] {
        &self.values
    }
}

impl Clear {
    /// Creates an engine for arrays in the layout of `setting`.
    #[must_use]
    pub fn new(setting: &Setting) -> Self {
        Self { setting: setting.clone() }
    }

    /// Returns numbers in a range as a plane.
    ///
    /// # Errors
    /// [`ArrayError::Empty`]; [`ArrayError::TooLarge`].
    pub fn plane(
        &self,
        shape: &[usize],
        values: Vec<i64>,
        range: IntegerRange,
    ) -> Result<ClearPlane> {
        Ok(ClearPlane { layout: self.setting.layout(shape)?, values, range })
    }
}

impl ClearPlane {
    /// Returns a plane whose numbers must be in the range.
    fn checked(&self, values: Vec<i64>, [low, high]: [i128; 2]) -> Result<Self> {
        let range = IntegerRange { low: low as i64, high: high as i64 };
        let outside = values.iter().position(|&v| v < range.low || v > range.high);
        match outside {
            None => Ok(Self { layout: self.layout.clone(), values, range }),
            Some(index) => {
                let value = values[index];
                let IntegerRange { low, high } = range;
                Err(ArrayError::OutsideIntegers { index, value, low, high })
            }
        }
    }
}

impl Digits for Clear {
    type Plane = ClearPlane;

    fn layout<'a>(&self, a: &'a ClearPlane) -> &'a Layout {
        &a.layout
    }
    fn range(&self, a: &ClearPlane) -> IntegerRange {
        a.range
    }
    fn within(&self, a: &ClearPlane, range: IntegerRange) -> ClearPlane {
        debug_assert!(a.values.iter().all(|&v| range.low <= v && v <= range.high), "{a:?} {range}");
        ClearPlane { range, ..a.clone() }
    }
    fn reshaped(&self, a: &ClearPlane, shape: &[usize]) -> Result<ClearPlane> {
        Ok(ClearPlane { layout: a.layout.reshaped(shape)?, ..a.clone() })
    }
    fn repeated(&self, op: &'static str, a: &ClearPlane, shape: &[usize]) -> Result<ClearPlane> {
        let layout = a.layout.repeated(op, self.setting.layout(shape)?)?;
        let values = match a.values[..] {
            [value] => vec![value; layout.elements()],
            _ => a.values.clone(),
        };
        Ok(ClearPlane { layout, values, range: a.range })
    }
    fn sum(&self, terms: &[(&ClearPlane, i64)], constant: i64) -> Result<ClearPlane> {
        let Some((first, _)) = terms.first() else {
            return Err(sudare::Error::Circuit("a sum needs a term".into()).into());
        };
        let value = |i: usize| terms.iter().map(|(a, c)| a.values[i] * c).sum::<i64>() + constant;
        let values = (0..first.values.len()).map(value).collect();
        first.checked(values, sum_ends(terms.iter().map(|(a, c)| (a.range, *c)), constant))
    }
    fn add_plain(&self, a: &ClearPlane, values: &[i64]) -> Result<ClearPlane> {
        let sum = a.values.iter().zip(values).map(|(a, b)| a + b).collect();
        a.checked(sum, a.range.extremes(IntegerRange::of(values), |x, y| x + y))
    }
    fn products(&self, sums: &[Vec<(ClearPlane, ClearPlane)>]) -> Result<Vec<ClearPlane>> {
        let sum = |pairs: &Vec<(ClearPlane, ClearPlane)>| {
            let value =
                |i: usize| pairs.iter().map(|(a, b)| a.values[i] * b.values[i]).sum::<i64>();
            let values = (0..pairs[0].0.values.len()).map(value).collect();
            pairs[0].0.checked(values, product_ends(pairs.iter().map(|(a, b)| (a.range, b.range))))
        };
        sums.iter().map(sum).collect()
    }
    fn tables(&self, xs: &[ClearPlane], functions: &[Vec<i64>]) -> Result<Vec<Vec<ClearPlane>>> {
        let table = |x: &ClearPlane, f: &Vec<i64>| {
            if f.len() as u128 != x.range.count() {
                let problem = format!("{} values of a function for {}", f.len(), x.range);
                return Err(sudare::Error::Circuit(problem).into());
            }
            let value = |v: &i64| f[(v - x.range.low) as usize];
            x.checked(x.values.iter().map(value).collect(), IntegerRange::of(f).ends())
        };
        xs.iter().map(|x| functions.iter().map(|f| table(x, f)).collect()).collect()
    }
}

/// Returns the lowest and the highest sum of numbers times coefficients, and of a constant.
pub(super) fn sum_ends(
    terms: impl Iterator<Item = (IntegerRange, i64)>,
    constant: i64,
) -> [i128; 2] {
    let constant = i128::from(constant);
    terms.fold([constant; 2], |[low, high], (range, c)| {
        let [least, most] = range.extremes(IntegerRange { low: c, high: c }, |x, c| x * c);
        [low + least, high + most]
    })
}

/// Returns the lowest and the highest sum of products.
pub(super) fn product_ends(pairs: impl Iterator<Item = (IntegerRange, IntegerRange)>) -> [i128; 2] {
    pairs.fold([0; 2], |[low, high], (a, b)| {
        let [least, most] = a.extremes(b, |x, y| x * y);
        [low + least, high + most]
    })
}
