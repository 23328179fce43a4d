//! Scaling of features for training.

use serde::{Deserialize, Serialize};

use super::{Table, TableError};

/// One positive divisor per feature column, which brings every feature into [-1, 1].
///
/// It belongs to the model: a row must be scored under the scaling that the model was trained
/// under. Serialised as the list of divisors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct Scaling {
    divisors: Vec<f64>,
}

impl Scaling {
    /// Divides each feature by its largest absolute value in `table`, the normalisation of
    /// Kim, Song, Kim, Lee, Cheon 2018 (BMC Medical Genomics 11(4), 83). A feature that is 0 in
    /// all rows is left as it is.
    pub fn max_abs(table: &Table) -> Self {
        let mut divisors = vec![0.0_f64; table.features()];
        for row in table.iter_rows() {
            for (divisor, value) in divisors.iter_mut().zip(row) {
                *divisor = divisor.max(value.abs());
            }
        }
        for divisor in &mut divisors {
            if *divisor == 0.0 {
                *divisor = 1.0;
            }
        }
        Self { divisors }
    }

    /// The scaling with the given divisors, one per feature.
    ///
    /// # Errors
    /// [`TableError::Scale`] if a divisor is not positive and finite.
    pub fn from_divisors(divisors: Vec<f64>) -> Result<Self, TableError> {
        match divisors.iter().position(|&divisor| !(divisor.is_finite() && divisor > 0.0)) {
            Some(feature) => Err(TableError::Scale { feature, found: divisors[feature] }),
            None => Ok(Self { divisors }),
        }
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.divisors.len()
    }

    /// The divisors, one per feature.
    pub fn divisors(&self) -> &[f64] {
        &self.divisors
    }

    /// `(1, x / divisors)`: the intercept's 1, then the scaled features.
    ///
    /// # Errors
    /// [`TableError::Shape`] if `x` has another number of features.
    pub fn design_row(&self, x: &[f64]) -> Result<Vec<f64>, TableError> {
        self.scaled_row(x, 1.0)
    }

    /// `z = y (1, x / divisors)` with `y = 1` for a true label and `y = -1` for a false one.
    ///
    /// # Errors
    /// [`TableError::Shape`] if `x` has another number of features.
    pub fn signed_row(&self, x: &[f64], label: bool) -> Result<Vec<f64>, TableError> {
        self.scaled_row(x, if label { 1.0 } else { -1.0 })
    }

    /// [`Scaling::design_row`] of every row.
    ///
    /// # Errors
    /// [`TableError::Shape`] if the table has another number of features.
    pub fn design_rows(&self, table: &Table) -> Result<Vec<Vec<f64>>, TableError> {
        table.iter_rows().map(|row| self.design_row(row)).collect()
    }

    /// [`Scaling::signed_row`] of every row: what logistic regression trains on.
    ///
    /// # Errors
    /// [`TableError::NoTarget`], or [`TableError::Shape`] if the table has another number of
    /// features.
    pub fn signed_rows(&self, table: &Table) -> Result<Vec<Vec<f64>>, TableError> {
        let labels = table.labels()?;
        table.iter_rows().zip(labels).map(|(row, label)| self.signed_row(row, label)).collect()
    }

    fn scaled_row(&self, x: &[f64], sign: f64) -> Result<Vec<f64>, TableError> {
        let needed = self.divisors.len();
        if x.len() != needed {
            return Err(TableError::Shape { what: "features", found: x.len(), needed });
        }
        let scaled = x.iter().zip(&self.divisors).map(|(value, divisor)| sign * (value / divisor));
        Ok(std::iter::once(sign).chain(scaled).collect())
    }
}

impl TryFrom<Vec<f64>> for Scaling {
    type Error = TableError;

    fn try_from(divisors: Vec<f64>) -> Result<Self, TableError> {
        Self::from_divisors(divisors)
    }
}

impl From<Scaling> for Vec<f64> {
    fn from(scaling: Scaling) -> Self {
        scaling.divisors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> Result<Table, TableError> {
        Table::from_csv(text.as_bytes(), None, 1000)
    }

    fn csv_target(text: &str) -> Result<Table, TableError> {
        Table::from_csv(text.as_bytes(), Some("y"), 1000)
    }

    #[test]
    fn scaling_divides_by_the_largest_absolute_value() {
        let table = csv_target("a,b,zero,y\n1,-8,0,1\n4,2,0,0\n").unwrap();
        let scaling = Scaling::max_abs(&table);
        assert_eq!(scaling.divisors(), [4.0, 8.0, 1.0]);
        assert_eq!(
            scaling.design_rows(&table).unwrap(),
            [[1.0, 0.25, -1.0, 0.0], [1.0, 1.0, 0.25, 0.0]]
        );
        assert_eq!(
            scaling.signed_rows(&table).unwrap(),
            [[1.0, 0.25, -1.0, 0.0], [-1.0, -1.0, -0.25, 0.0]]
        );
        assert_eq!(
            scaling.design_row(&[1.0]),
            Err(TableError::Shape { what: "features", found: 1, needed: 3 })
        );
        assert_eq!(scaling.signed_rows(&csv("a\n1\n").unwrap()), Err(TableError::NoTarget));
    }

    #[test]
    fn scaling_survives_serialisation_and_refuses_bad_divisors() {
        let scaling = Scaling::from_divisors(vec![0.1, 45.0, 3e-5]).unwrap();
        let text = serde_json::to_string(&scaling).unwrap();
        assert_eq!(text, "[0.1,45.0,0.00003]");
        assert_eq!(serde_json::from_str::<Scaling>(&text).unwrap(), scaling);
        for bad in ["[1.0,0.0]", "[1.0,-2.0]"] {
            let error = serde_json::from_str::<Scaling>(bad).unwrap_err().to_string();
            assert!(error.contains("feature 1"), "{error}");
        }
        assert!(Scaling::from_divisors(vec![f64::NAN]).is_err());
        assert!(Scaling::from_divisors(vec![f64::INFINITY]).is_err());
    }
}
