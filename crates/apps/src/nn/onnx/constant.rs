//! Constants of a model.

/// Numbers that do not depend on samples. The number of samples itself is an exception.
#[derive(Debug, Clone)]
pub(crate) struct Constant {
    pub(crate) shape: Vec<usize>,
    /// The numbers, in row-major order.
    pub(crate) numbers: Numbers,
}

#[derive(Debug, Clone)]
pub(crate) enum Numbers {
    Floats {
        numbers: Vec<f64>,
        /// True if the floats have 32 bits.
        single: bool,
    },
    /// Integers, where `None` is the number of samples.
    Integers(Vec<Option<i64>>),
}

/// Results whose error describes the problem.
type Result<T> = core::result::Result<T, String>;

impl Numbers {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Floats { numbers, .. } => numbers.len(),
            Self::Integers(numbers) => numbers.len(),
        }
    }

    /// Returns the numbers at these places.
    pub(crate) fn at(&self, places: &[usize]) -> Self {
        match self {
            Self::Floats { numbers, single } => {
                let numbers = places.iter().filter_map(|&place| numbers.get(place).copied());
                Self::Floats { numbers: numbers.collect(), single: *single }
            }
            Self::Integers(numbers) => {
                let numbers = places.iter().filter_map(|&place| numbers.get(place).copied());
                Self::Integers(numbers.collect())
            }
        }
    }
}

impl Constant {
    pub(crate) fn of_integers(numbers: Vec<Option<i64>>) -> Self {
        Self { shape: vec![numbers.len()], numbers: Numbers::Integers(numbers) }
    }

    pub(crate) fn floats(&self) -> Result<&[f64]> {
        match &self.numbers {
            Numbers::Floats { numbers, .. } => Ok(numbers),
            Numbers::Integers(_) => Err("it takes floats here, not integers".into()),
        }
    }

    /// Returns integers, where `None` is the number of samples.
    pub(crate) fn sizes(&self) -> Result<&[Option<i64>]> {
        match &self.numbers {
            Numbers::Integers(numbers) => Ok(numbers),
            Numbers::Floats { .. } => Err("it takes integers here, not floats".into()),
        }
    }

    pub(crate) fn integers(&self) -> Result<Vec<i64>> {
        let known = self.sizes()?.iter().copied().collect::<Option<_>>();
        known.ok_or_else(|| "it depends on the number of samples".into())
    }

    /// Returns the only number.
    pub(crate) fn integer(&self) -> Result<i64> {
        match self.integers()?[..] {
            [number] => Ok(number),
            ref numbers => Err(format!("it takes one integer, not {}", numbers.len())),
        }
    }

    /// Broadcasts the numbers to a larger shape, as NumPy does.
    pub(crate) fn spread(&self, shape: &[usize]) -> Result<Numbers> {
        let missing = shape.len().checked_sub(self.shape.len());
        let sizes = missing.map(|ones| [vec![1; ones], self.shape.clone()].concat());
        let fits = |sizes: &Vec<usize>| {
            sizes.iter().zip(shape).all(|(&size, &whole)| size == 1 || size == whole)
        };
        let sizes = sizes.filter(fits).ok_or_else(|| {
            format!("a constant of the shape {:?} does not fit the shape {shape:?}", self.shape)
        })?;
        let places: Vec<usize> = (0..self.numbers.len()).collect();
        Ok(self.numbers.at(&repeated(&places, &sizes, shape)))
    }

    pub(crate) fn with_shape(&self, shape: Vec<usize>) -> Self {
        Self { shape, numbers: self.numbers.clone() }
    }

    /// Returns the rows along the first axis with these indices.
    pub(crate) fn rows(&self, numbers: impl Iterator<Item = usize>) -> Vec<usize> {
        let row: usize = self.shape.iter().skip(1).product();
        let row = |number: usize| {
            let first = number.saturating_mul(row);
            first..first.saturating_add(row)
        };
        numbers.flat_map(row).collect()
    }
}

/// Repeats places of numbers of these sizes to fill a larger shape.
fn repeated(places: &[usize], sizes: &[usize], shape: &[usize]) -> Vec<usize> {
    let (Some((&size, sizes)), Some((&whole, shape))) = (sizes.split_first(), shape.split_first())
    else {
        return places.to_vec();
    };
    let part = places.len().checked_div(size).unwrap_or(0).max(1);
    let parts = places.chunks(part).map(|part| repeated(part, sizes, shape));
    let all = parts.collect::<Vec<_>>().concat();
    if size == whole { all } else { all.repeat(whole) }
}
