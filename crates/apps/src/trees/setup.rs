//! The public part of a plan, which is all that the owner of rows needs.

use super::{
    error::{Result, TreesError, expect},
    grid::{DIGIT_BITS, Feature, Outside},
    model::Link,
    output::Output,
};
use serde::{Deserialize, Serialize};
use sudare::{
    exact::{BatchEncoder, Params, PlainPoly},
    rlwe::KeyRequest,
};

/// Maximum number of features and of outputs in a setup.
const MAX_PARTS: usize = 1 << 12;

/// The facts about a model that its users need: grids, outputs and the link. Thresholds and leaves
/// are not among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The grid of each feature.
    pub features: Vec<Feature>,
    /// The raw scores.
    pub outputs: Vec<Output>,
    /// The function from raw scores to predictions.
    pub link: Link,
    /// Names of the classes, or nothing.
    pub classes: Vec<String>,
}

impl Setup {
    /// Checks a setup that another party wrote.
    ///
    /// # Errors
    /// [`TreesError::Grid`]; [`TreesError::Forest`] for outputs that are not finite or do not fit.
    pub fn check(&self) -> Result<()> {
        let refused = |problem: String| Err(TreesError::Forest { problem });
        if !(1..=MAX_PARTS).contains(&self.features.len())
            || !(1..=MAX_PARTS).contains(&self.outputs.len())
        {
            let features = self.features.len();
            let outputs = self.outputs.len();
            return refused(format!(
                "has {features} features and {outputs} outputs: 1 to {MAX_PARTS} are possible"
            ));
        }
        self.features.iter().try_for_each(Feature::check)?;
        let finite = |output: &&Output| {
            !(output.offset.is_finite() && output.unit.is_finite() && output.error.is_finite())
        };
        if let Some(output) = self.outputs.iter().find(finite) {
            return refused(format!("has the output {output:?}: finite numbers are needed"));
        }
        let predictions = self.link.predictions(self.outputs.len());
        match self.classes.len() {
            0 => Ok(()),
            found => expect("names of classes", found, predictions),
        }
    }

    /// Returns a bound on the error of any raw score by rounded leaves.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.outputs.iter().map(|output| output.error).fold(0.0, f64::max)
    }

    /// Returns the number of ciphertexts of a block of rows: one for each digit of each feature.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.features.iter().map(|feature| feature.digits() as usize).sum()
    }

    /// Returns the place of the lowest digit of a feature among the ciphertexts of a block.
    pub(super) fn place(&self, feature: usize) -> usize {
        self.features[..feature].iter().map(|feature| feature.digits() as usize).sum()
    }

    /// Returns the number of blocks of this number of rows: one ciphertext has a row in each slot.
    #[must_use]
    pub fn blocks(rows: usize, params: &Params) -> usize {
        rows.div_ceil(Self::block_rows(params))
    }

    /// Returns the number of rows of a block.
    #[must_use]
    pub fn block_rows(params: &Params) -> usize {
        1 << params.log_n()
    }

    /// Returns the keys that the server needs: one for relinearisation.
    #[must_use]
    pub fn required_keys(params: &Params) -> KeyRequest {
        KeyRequest::new().relinearize(params.top())
    }

    /// Returns the codes of rows, a number for each feature of each row.
    ///
    /// # Errors
    /// [`TreesError::Count`] for an incomplete row; [`TreesError::Row`] for a missing number, or one
    /// outside its grid.
    pub fn codes(&self, rows: &[f64], outside: Outside) -> Result<Vec<u64>> {
        let width = self.features.len();
        if !rows.len().is_multiple_of(width) {
            return expect("features of the last row", rows.len() % width, width).map(|()| vec![]);
        }
        let code = |(place, &x): (usize, &f64)| {
            self.features[place % width].code(x, outside).map_err(|error| match error {
                TreesError::Row { feature, found, least, most, .. } => {
                    TreesError::Row { feature, row: place / width, found, least, most }
                }
                other => other,
            })
        };
        rows.iter().enumerate().map(code).collect()
    }

    /// Returns the plaintexts of a block of codes of at most [`Setup::block_rows`] rows, for each
    /// feature from its lowest digit to its highest. Slots beyond the last row are 0.
    ///
    /// # Errors
    /// [`TreesError::Library`] for parameters without a slot for each coefficient.
    pub fn plaintexts<'a>(
        &'a self,
        params: &Params,
        codes: &'a [u64],
    ) -> Result<impl Iterator<Item = Result<PlainPoly>> + 'a> {
        let encoder = BatchEncoder::new(params.plaintext_modulus(), params.log_n())?;
        let width = self.features.len();
        let slots = Self::block_rows(params);
        let digits = self.features.iter().enumerate().flat_map(|(place, feature)| {
            (0..feature.digits()).map(move |digit| (place, DIGIT_BITS * digit))
        });
        Ok(digits.map(move |(place, shift)| {
            let digit = |row: &[u64]| u128::from(row[place] >> shift & 15);
            let mut values: Vec<u128> = codes.chunks_exact(width).map(digit).collect();
            expect("rows of a block", values.len().min(slots), values.len())?;
            values.resize(slots, 0);
            Ok(encoder.encode_unsigned(&values)?)
        }))
    }

    /// Returns the raw scores in the plaintexts of a block of results, for `rows` rows: one number
    /// for each output of each row.
    ///
    /// # Errors
    /// [`TreesError::Count`] for another number of results; [`TreesError::Library`] for plaintexts
    /// of other parameters.
    pub fn raw(&self, params: &Params, results: &[PlainPoly], rows: usize) -> Result<Vec<f64>> {
        expect("results of a block", results.len(), self.outputs.len())?;
        let encoder = BatchEncoder::new(params.plaintext_modulus(), params.log_n())?;
        let slots = results.iter().map(|plain| encoder.decode(plain));
        let slots = slots.collect::<sudare::Result<Vec<_>>>()?;
        let rows = rows.min(Self::block_rows(params));
        let row = |row: usize| {
            slots.iter().zip(&self.outputs).map(move |(slots, output)| output.score(slots[row]))
        };
        Ok((0..rows).flat_map(row).collect())
    }

    /// Returns the predictions for raw scores, an output of each row after the other.
    #[must_use]
    pub fn predictions(&self, raw: &[f64]) -> Vec<f64> {
        raw.chunks_exact(self.outputs.len()).flat_map(|raw| self.link.apply(raw)).collect()
    }
}
