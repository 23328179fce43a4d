//! Fit of an encoding to a frame.

use super::{
    super::{
        Frame, TableError, binary_classes,
        error::{excerpt, list},
        unknown_target,
    },
    Categorical, Code, EncodingOptions, Input, Labels, MAX_CATEGORIES, Missing, Parts,
};

type Result<T, E = TableError> = core::result::Result<T, E>;

/// Returns the codes of all columns.
pub(super) fn parts(
    frame: &Frame,
    target: Option<&str>,
    options: &EncodingOptions,
) -> Result<Parts> {
    let columns = frame.columns();
    let target_at = match target {
        None => None,
        Some(name) => Some(frame.position(name).ok_or_else(|| unknown_target(name, columns))?),
    };
    let inputs = (0..columns.len()).filter(|&at| Some(at) != target_at);
    if inputs.clone().count() == 0 {
        return Err(TableError::Empty { rows: frame.rows(), features: 0 });
    }
    if let Categorical::Columns(names) = &options.categorical
        && let Some(unknown) = names.iter().find(|name| frame.position(name).is_none())
    {
        let column = excerpt(unknown);
        let columns = list(columns);
        return Err(TableError::UnknownColumn { column, columns });
    }
    let fit = Fit::new(frame, target_at, options)?;
    let input = |at: usize| Ok(Input { name: columns[at].clone(), code: fit.code(at)? });
    Ok(Parts {
        inputs: inputs.map(input).collect::<Result<_>>()?,
        target: target_at.map(|at| fit.labels(at)).transpose()?,
        missing: options.missing,
        unseen: options.unseen,
    })
}

/// A frame with statistics of its columns.
struct Fit<'a> {
    frame: &'a Frame,
    options: &'a EncodingOptions,
    /// Number of missing values of each column.
    gaps: Vec<usize>,
    /// The mean of each column, if missing numbers are to be replaced.
    means: Option<Vec<Mean>>,
    /// True for each row that is kept. `None` keeps all rows.
    kept: Option<Vec<bool>>,
}

impl<'a> Fit<'a> {
    fn new(
        frame: &'a Frame,
        target_at: Option<usize>,
        options: &'a EncodingOptions,
    ) -> Result<Self> {
        let gaps = frame.gaps();
        check_gaps(frame, target_at, &gaps, options.missing)?;
        let mut means = None;
        let mut kept = None;
        match options.missing {
            Missing::Mean | Missing::Flag => means = Some(self::means(frame)),
            Missing::Drop if gaps.iter().any(|&gaps| gaps > 0) => kept = Some(complete(frame)?),
            Missing::Drop | Missing::Refuse => {}
        }
        Ok(Self { frame, options, gaps, means, kept })
    }

    /// Returns the code of column `at`.
    fn code(&self, at: usize) -> Result<Code> {
        let text = self.frame.text(at);
        let categorical = match &self.options.categorical {
            Categorical::None => false,
            Categorical::Every => text.is_some(),
            Categorical::Columns(names) => names.contains(&self.frame.columns()[at]),
        };
        let has_gaps = self.gaps[at] > 0;
        if categorical {
            // `Drop` has no means, and rows with gaps do not reach the encoding.
            let missing = has_gaps && self.means.is_some();
            return Ok(Code::Categories { values: self.values(at)?, missing });
        }
        let mut mean = self.means.as_ref().map(|means| means[at]);
        // In the numbers of the frame a text column is NaN everywhere, so its mean comes from its
        // texts.
        if let Some(text) = text {
            let numbers = self.frame.numbers_of(at, text)?;
            let codes = text.codes().iter();
            // The code of a missing value is beyond all values, so gaps drop out.
            let numbers = codes.filter_map(|&code| numbers.get(code as usize));
            mean = mean.map(|_| numbers.fold(Mean::default(), |mean, &number| mean.and(number)));
        }
        let flag = has_gaps && self.options.missing == Missing::Flag;
        Ok(Code::Number { mean: mean.map(|mean| mean.value), flag })
    }

    /// Returns the classes of column `at`.
    fn labels(&self, at: usize) -> Result<Labels> {
        let name = self.frame.columns()[at].clone();
        let binary = binary_classes();
        let classes = self.values(at)?;
        let is_binary = classes.iter().all(|class| binary.contains(class));
        Ok(Labels { name, classes: if is_binary { binary } else { classes } })
    }

    /// Returns the different values of column `at` in the kept rows, in order.
    fn values(&self, at: usize) -> Result<Vec<String>> {
        let text = self.frame.texts(at)?;
        let mut occurs = vec![false; text.values().len()];
        for (row, &code) in text.codes().iter().enumerate() {
            // A value of dropped rows alone would become a feature that is always 0.
            let kept = self.kept.as_ref().is_none_or(|kept| kept[row]);
            if let Some(occurs) = occurs.get_mut(code as usize).filter(|_| kept) {
                *occurs = true;
            }
        }
        let values = text.values().iter().zip(&occurs).filter(|&(_, &occurs)| occurs);
        let values: Vec<&String> = values.map(|(value, _)| value).collect();
        if values.len() > MAX_CATEGORIES {
            let column = excerpt(&self.frame.columns()[at]);
            let found = values.len();
            return Err(TableError::TooManyCategories { column, found, limit: MAX_CATEGORIES });
        }
        Ok(in_order(values.into_iter().cloned().collect()))
    }
}

/// Rejects missing values that the options do not allow, and columns without any value.
fn check_gaps(
    frame: &Frame,
    target_at: Option<usize>,
    gaps: &[usize],
    missing: Missing,
) -> Result<()> {
    let column = |at: usize| excerpt(&frame.columns()[at]);
    // With `Refuse`, the gap itself is the fault, below.
    if missing != Missing::Refuse
        && let Some(at) = gaps.iter().position(|&gaps| gaps == frame.rows())
    {
        return Err(TableError::AllMissing { column: column(at) });
    }
    let refused = |&at: &usize| match missing {
        Missing::Refuse => true,
        // A label cannot be replaced by a mean.
        Missing::Mean | Missing::Flag => Some(at) == target_at,
        Missing::Drop => false,
    };
    let refused: Vec<usize> = (0..gaps.len()).filter(|at| gaps[*at] > 0 && refused(at)).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let first =
        |row: usize| refused.iter().find(|&&at| frame.is_missing(row, at)).map(|&at| (row, at));
    match (0..frame.rows()).find_map(first) {
        Some((row, at)) => Err(TableError::Gap { place: frame.place(row), column: column(at) }),
        None => Ok(()),
    }
}

/// Returns, for each row, whether it has all values.
fn complete(frame: &Frame) -> Result<Vec<bool>> {
    let columns = 0..frame.columns().len();
    let complete = |row| !columns.clone().any(|at| frame.is_missing(row, at));
    let kept: Vec<bool> = (0..frame.rows()).map(complete).collect();
    if kept.contains(&true) {
        return Ok(kept);
    }
    Err(TableError::NoCompleteRow { rows: frame.rows() })
}

/// The mean of some numbers. It lies between them, however large they are, and is exact if they are
/// equal.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    value: f64,
    count: f64,
}

impl Mean {
    /// Adds a number.
    fn and(self, number: f64) -> Self {
        let count = self.count + 1.0;
        let step = (number - self.value) / count;
        // The difference of two huge numbers overflows, although their mean does not.
        let step = if step.is_finite() { step } else { number / count - self.value / count };
        Self { value: self.value + step, count }
    }
}

/// Returns the mean of each column. Text columns have no mean.
fn means(frame: &Frame) -> Vec<Mean> {
    let mut means = vec![Mean::default(); frame.columns().len()];
    for row in frame.numbers().chunks_exact(means.len()) {
        for (mean, &number) in means.iter_mut().zip(row) {
            if !number.is_nan() {
                *mean = mean.and(number);
            }
        }
    }
    means
}

/// Sorts values numerically if all of them are numbers, and alphabetically otherwise.
fn in_order(mut values: Vec<String>) -> Vec<String> {
    // `inf` and `nan` parse as numbers, but are words here.
    let number = |value: &String| value.parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
    let Some(numbers) = numbers else {
        values.sort_unstable();
        return values;
    };
    let mut pairs: Vec<(f64, String)> = numbers.into_iter().zip(values).collect();
    // Different texts may be equal numbers, such as `10` and `1e1`. The text decides between these.
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    pairs.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(numbers: &[f64]) -> f64 {
        numbers.iter().fold(Mean::default(), |mean, &number| mean.and(number)).value
    }

    #[test]
    fn means_of_any_size() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(mean(&[0.1; 1000]), 0.1);
        assert_eq!(mean(&[f64::MAX; 7]), f64::MAX);
        assert_eq!(mean(&[1e300, 3e300]), 2e300);
        assert!((mean(&[1e-300, 3e-300]) / 2e-300 - 1.0).abs() < 1e-15);
        let apart = mean(&[f64::MAX, -f64::MAX, f64::MAX, -f64::MAX]);
        assert!(apart.abs() < 1e300, "{apart}");
        // The mean of 1 to n is known.
        let numbers: Vec<f64> = (1..=1_000_001).map(f64::from).collect();
        assert!((mean(&numbers) - 500_001.0).abs() < 1e-6);
    }

    #[test]
    fn numbers_have_their_order() {
        let order = |values: &[&str]| in_order(values.iter().map(|&v| v.to_owned()).collect());
        assert_eq!(order(&["10", "9", "-1", "1e1", "2.5"]), ["-1", "2.5", "9", "10", "1e1"]);
        assert_eq!(order(&["10", "9", "b", "B"]), ["10", "9", "B", "b"]);
        assert_eq!(order(&["inf", "2", "10"]), ["10", "2", "inf"]);
    }
}
