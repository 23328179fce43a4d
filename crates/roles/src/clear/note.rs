//! Notes: encrypted metadata of a table. Its owner gets the note back with a result, and no other
//! party can read it.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    clear::fingerprint::Fingerprints,
    error::{Error, Result},
};
use serde::{Deserialize, Serialize};
use sudare::ckks::{Ciphertext, Decryptor, Encryptor, Params};
use sudare_apps::{
    Slots,
    logreg::Transform,
    note,
    stats::{Bins, ColumnScaling},
};
use sudare_arith::prng::Seed;
use sudare_table::{Encoding, Table, TableError};

/// The note of a table, or of a model for scoring rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Names of the features.
    pub columns: Vec<String>,
    /// Number of encrypted rows, at most the number that the keys were made for.
    pub rows: usize,
    /// Data that depends on the job.
    pub about: About,
}

/// The data that converts decrypted values into values of the table.
// Files store the number of the variant, so only append variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum About {
    /// A table to train on.
    Train(Box<Trained>),
    /// A table for statistics, or for histograms of unscaled values.
    Columns(ColumnScaling),
    /// A table for sums by groups, with one scaling per column.
    Groups {
        /// Scaling of the features.
        scaling: ColumnScaling,
        /// Name of the key column.
        key: String,
        /// Values of the key column.
        labels: Vec<f64>,
    },
    /// Rows to score.
    Rows {
        /// Digest of the preparation of the rows.
        prepared: [u8; 32],
        /// The classes of the model.
        classes: Vec<String>,
        /// The class of each row, little endian, if it is known.
        members: Option<Vec<[u8; 2]>>,
        /// True if the classes are text even where they look like numbers.
        // Version 2 appends this field after the note, so version 1 is still read.
        #[serde(skip)]
        text_labels: bool,
    },
    /// A model that was encrypted to score rows.
    Model {
        /// Digest of the preparation of rows for the model.
        prepared: [u8; 32],
    },
    /// A table for sums by groups.
    ScaledGroups {
        /// Scaling of the features in each group, up to the maximum number of groups.
        scalings: Vec<ColumnScaling>,
        /// Name of the key column.
        key: String,
        /// Values of the key column.
        labels: Vec<f64>,
    },
    /// A table for a histogram: the bins of each column.
    Bins(Vec<Bins>),
    /// A table for sums by groups that are texts.
    NamedGroups {
        /// Scaling of the features in each group, up to the maximum number of groups.
        scalings: Vec<ColumnScaling>,
        /// Name of the key column.
        key: String,
        /// Values of the key column.
        labels: Vec<String>,
    },
}

/// Metadata that turns trained weights into a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// Name of the target.
    pub target: String,
    /// Classes of the target.
    pub classes: Vec<String>,
    /// Preparation of the rows.
    pub transform: Transform,
    /// Center and unit of each column in the model's file.
    pub shown: Transform,
    /// Weights of the classes, if they were given.
    pub class_weights: Option<Vec<f64>>,
    /// The encoding of the columns, if they were not numbers.
    pub encoding: Option<Encoding>,
    /// The held-out test rows.
    pub held_out: Option<HeldOut>,
    /// Fingerprints of the rows, if one owner had all of them.
    // Version 2 appends this field after the note (`More`), so that notes of version 1 are still
    // read.
    #[serde(skip)]
    pub fingerprints: Option<Fingerprints>,
    /// True if the classes are text even where they look like numbers.
    #[serde(skip)]
    pub text_labels: bool,
}

/// Fields that version 2 of the notes appends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct More {
    fingerprints: Option<Fingerprints>,
    text_labels: bool,
}

/// Test rows of a table, which the model is not trained on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// The fraction of all rows that is held out.
    pub share: f64,
    /// Seed that selects the rows.
    pub seed: [u8; 32],
}

impl HeldOut {
    /// Selects a random fraction of the rows of a table.
    ///
    /// # Errors
    /// [`Error::Library`] if the machine has no randomness.
    pub fn random(share: f64) -> Result<Self> {
        let seed = Seed::random().map_err(sudare::Error::from)?;
        Ok(Self { share, seed: *seed.as_bytes() })
    }

    /// Splits a table into training rows and test rows. The split depends on the positions of the
    /// rows alone.
    ///
    /// # Errors
    /// [`TableError::Split`] unless the share lies between 0 and 1 and there are two rows.
    pub fn split(&self, table: &Table) -> core::result::Result<(Table, Table), TableError> {
        table.split(self.share, &Seed::from_bytes(self.seed))
    }
}

/// Returns a digest that identifies columns and their preparation.
///
/// # Errors
/// [`Error::Bug`] if they cannot be encoded.
pub fn prepared_digest(columns: &[String], transform: &Transform) -> Result<[u8; 32]> {
    // Names and order of columns count as well: a weight belongs to the place of its column.
    let bytes = postcard::to_extend(&(columns, transform), Vec::new());
    let bytes = bytes.map_err(|error| Error::Bug(error.to_string()))?;
    Ok(blake3::hash(&bytes).into())
}

/// Version of the encoding of [`Note`].
const VERSION: u8 = 2;

/// The version without [`More`].
const FIRST_VERSION: u8 = 1;

impl Note {
    /// Packs the note into slots.
    ///
    /// # Errors
    /// [`Error::Apps`] with `NoteTooLong`, or for parameters that cannot hold a note.
    pub fn pack(&self, params: &Params) -> Result<Vec<Slots>> {
        Ok(note::pack(params, &self.to_bytes()?)?)
    }

    /// Encrypts the note.
    ///
    /// # Errors
    /// The errors of [`Note::pack`]; [`Error::Apps`] if the encryptor has other parameters.
    pub fn encrypt(&self, encryptor: &Encryptor, params: &Params) -> Result<Vec<Ciphertext>> {
        Ok(note::encrypt(encryptor, params, &self.to_bytes()?)?)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        // The version comes first and alone, so that later versions can change everything after it.
        let bytes = postcard::to_extend(&(self, self.more()), vec![VERSION]);
        bytes.map_err(|error| Error::Bug(error.to_string()))
    }

    /// Reads a note. Returns `None` for another version.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, bytes) = bytes.split_first()?;
        let (mut note, rest) = postcard::take_from_bytes::<Self>(bytes).ok()?;
        match *version {
            FIRST_VERSION => {}
            VERSION => note.set_more(postcard::from_bytes(rest).ok()?),
            _ => return None,
        }
        Some(note)
    }

    fn more(&self) -> More {
        match &self.about {
            About::Train(trained) => {
                let Trained { fingerprints, text_labels, .. } = **trained;
                More { fingerprints, text_labels }
            }
            About::Rows { text_labels, .. } => {
                More { text_labels: *text_labels, ..More::default() }
            }
            _ => More::default(),
        }
    }

    fn set_more(&mut self, more: More) {
        match &mut self.about {
            About::Train(trained) => {
                trained.fingerprints = more.fingerprints;
                trained.text_labels = more.text_labels;
            }
            About::Rows { text_labels, .. } => *text_labels = more.text_labels,
            _ => {}
        }
    }

    /// Decrypts a note. Returns `None` for a note of another program or version.
    ///
    /// # Errors
    /// [`Error::Apps`] for damaged ciphertexts, or ciphertexts of another key.
    pub fn decrypt(
        decryptor: &Decryptor,
        params: &Params,
        note: &[Ciphertext],
    ) -> Result<Option<Self>> {
        let bytes = note::decrypt(decryptor, params, note)?;
        Ok(Self::from_bytes(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clear::fingerprint::Fingerprint;

    #[test]
    fn held_out_rows_are_the_same_each_time() {
        let table = Table::bundled("lbw").unwrap();
        let held_out = HeldOut::random(0.25).unwrap();
        let (kept, held) = held_out.split(&table).unwrap();
        assert_eq!((kept.rows(), held.rows()), (142, 47));
        assert_eq!(held_out.split(&table).unwrap(), (kept, held));
        assert_ne!(HeldOut::random(0.25).unwrap(), held_out);
    }

    /// Notes of version 1 are a prefix of notes of version 2.
    #[test]
    fn notes_of_both_versions_are_read() {
        let table = Table::bundled("lbw").unwrap();
        let shown = Transform::spreading(&table);
        let trained = Fingerprint::of(&table, &shown).unwrap();
        let of_training = About::Train(Box::new(Trained {
            target: "y".into(),
            classes: ["3", "8"].map(String::from).to_vec(),
            transform: shown.clone(),
            shown,
            class_weights: None,
            encoding: None,
            held_out: Some(HeldOut { share: 0.5, seed: [7; 32] }),
            fingerprints: Some(Fingerprints { trained, held_out: Some(trained) }),
            text_labels: true,
        }));
        let of_rows = About::Rows {
            prepared: [1; 32],
            classes: ["3", "8"].map(String::from).to_vec(),
            members: Some(vec![[0, 1]]),
            text_labels: true,
        };
        for about in [of_training, of_rows, About::Model { prepared: [2; 32] }] {
            let mut note = Note { columns: table.columns().to_vec(), rows: 189, about };
            let bytes = note.to_bytes().unwrap();
            assert_eq!(Note::from_bytes(&bytes), Some(note.clone()));
            let first = postcard::to_extend(&note, vec![FIRST_VERSION]).unwrap();
            note.set_more(More::default());
            assert_eq!(Note::from_bytes(&first), Some(note));
            let other = [&[VERSION + 1], &bytes[1..]].concat();
            assert_eq!(Note::from_bytes(&other), None);
            assert_eq!(Note::from_bytes(&first[..first.len() - 1]), None);
        }
        assert_eq!(Note::from_bytes(&[]), None);
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
