//! What travels encrypted with a table: what its owner wants back with a result, and nobody else
//! may know.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use sudare::ckks::{Ciphertext, Decryptor, Encryptor, Params};
use sudare_apps::{
    Slots,
    logreg::Transform,
    note,
    stats::{Bins, ColumnScaling},
    table::{Encoding, Table, TableError},
};
use sudare_arith::prng::Seed;

/// The note of a table, or of a model that rows are to be scored by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Names of the features.
    pub columns: Vec<String>,
    /// Rows that were encrypted, at most as many as the keys were made for.
    pub rows: usize,
    /// What depends on the job.
    pub about: About,
}

/// What brings decrypted values back to those of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum About {
    /// Of a training.
    Train(Box<Trained>),
    /// Of statistics, and of histograms whose values were encrypted as they are.
    Columns(ColumnScaling),
    /// Of sums by groups whose columns were scaled as wholes.
    Groups {
        /// Of the features.
        scaling: ColumnScaling,
        /// Name of the key column.
        key: String,
        /// Its values.
        labels: Vec<f64>,
    },
    /// Of rows to be scored.
    Rows {
        /// Digest of how they were prepared.
        prepared: [u8; 32],
        /// The classes that the model tells apart.
        classes: Vec<String>,
        /// The class of each row, little endian, if it is known.
        members: Option<Vec<[u8; 2]>>,
    },
    /// Of a model that was encrypted to score rows by.
    Model {
        /// Digest of how rows are prepared for it.
        prepared: [u8; 32],
    },
    /// Of sums by groups.
    ScaledGroups {
        /// Of the features in each group that there may be.
        scalings: Vec<ColumnScaling>,
        /// Name of the key column.
        key: String,
        /// Its values.
        labels: Vec<f64>,
    },
    /// Of a histogram, those of each column.
    Bins(Vec<Bins>),
}

/// What makes a model of trained weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// Name of the target.
    pub target: String,
    /// Classes of the target.
    pub classes: Vec<String>,
    /// How rows were prepared.
    pub transform: Transform,
    /// From where, and in which unit, the model's file counts the values of each column.
    pub shown: Transform,
    /// Weights of the rows of each class, if they were given.
    pub class_weights: Option<Vec<f64>>,
    /// How columns became numbers, if they were not.
    pub encoding: Option<Encoding>,
    /// The rows that were left out to test on.
    pub held_out: Option<HeldOut>,
}

/// Rows of a table that a model is not trained on, to test it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// The share of all rows that is held out.
    pub share: f64,
    /// Decides which they are.
    pub seed: [u8; 32],
}

impl HeldOut {
    /// A share of the rows of a table, which nobody can guess.
    ///
    /// # Errors
    /// [`Error::Library`] if the machine has no randomness to give.
    pub fn random(share: f64) -> Result<Self> {
        let seed = Seed::random().map_err(sudare::Error::from)?;
        Ok(Self { share, seed: *seed.as_bytes() })
    }

    /// The rows to train on, and those to test on.
    ///
    /// # Errors
    /// [`TableError::Split`] unless the share lies between 0 and 1 and there are two rows.
    pub fn split(&self, table: &Table) -> core::result::Result<(Table, Table), TableError> {
        table.split(self.share, &Seed::from_bytes(self.seed))
    }
}

/// Tells columns, and how rows of them are prepared, from others.
///
/// # Errors
/// [`Error::Bug`] if they cannot be encoded.
pub fn prepared_digest(columns: &[String], transform: &Transform) -> Result<[u8; 32]> {
    let bytes = postcard::to_extend(&(columns, transform), Vec::new());
    let bytes = bytes.map_err(|error| Error::Bug(error.to_string()))?;
    Ok(blake3::hash(&bytes).into())
}

/// Of the encoding of [`Note`].
const VERSION: u8 = 1;

impl Note {
    /// What its ciphertexts hold.
    ///
    /// # Errors
    /// [`Error::Apps`] with `NoteTooLong`, or for parameters that cannot hold a note.
    pub fn pack(&self, params: &Params) -> Result<Vec<Slots>> {
        Ok(note::pack(params, &self.to_bytes()?)?)
    }

    /// Encrypts the note.
    ///
    /// # Errors
    /// As [`Note::pack`]; [`Error::Apps`] if the encryptor has other parameters.
    pub fn encrypt(&self, encryptor: &Encryptor, params: &Params) -> Result<Vec<Ciphertext>> {
        Ok(note::encrypt(encryptor, params, &self.to_bytes()?)?)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let bytes = postcard::to_extend(self, vec![VERSION]);
        bytes.map_err(|error| Error::Bug(error.to_string()))
    }

    /// The note in these ciphertexts; none if it is of another program or version.
    ///
    /// # Errors
    /// [`Error::Apps`] for damaged ciphertexts and those of another key.
    pub fn decrypt(
        decryptor: &Decryptor,
        params: &Params,
        note: &[Ciphertext],
    ) -> Result<Option<Self>> {
        let bytes = note::decrypt(decryptor, params, note)?;
        let Some((&VERSION, bytes)) = bytes.split_first() else { return Ok(None) };
        Ok(postcard::from_bytes(bytes).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_out_is_the_same_each_time() {
        let table = Table::bundled("lbw").unwrap();
        let held_out = HeldOut::random(0.25).unwrap();
        let (kept, held) = held_out.split(&table).unwrap();
        assert_eq!((kept.rows(), held.rows()), (142, 47));
        assert_eq!(held_out.split(&table).unwrap(), (kept, held));
        assert_ne!(HeldOut::random(0.25).unwrap(), held_out);
    }

    #[test]
    fn other_columns_and_transforms_have_other_digests() {
        let transform = |center: f64| Transform::affine(vec![center, 0.0], vec![1.0; 2]).unwrap();
        let [a, b] = [["a", "b"], ["b", "a"]].map(|names| names.map(str::to_owned));
        let first = prepared_digest(&a, &transform(0.0)).unwrap();
        assert_eq!(prepared_digest(&a, &transform(0.0)).unwrap(), first);
        assert_ne!(prepared_digest(&b, &transform(0.0)).unwrap(), first);
        assert_ne!(prepared_digest(&a, &transform(1.0)).unwrap(), first);
    }
}
