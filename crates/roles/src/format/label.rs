//! Public metadata in the labels of files.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod array;
mod part;

pub use array::ArrayMeta;
pub use part::{Holds, PartMeta};

use crate::{
    error::{Error, Result},
    job::Job,
};
use serde::{Deserialize, Serialize};
use sudare::ckks::serial::Label;

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A key of a key pair.
    Keys,
    /// An encrypted table and its note.
    Table,
    /// Sums of the table of one owner of several, or of all owners.
    Sums,
    /// The weights of a trained model, and the note of its table.
    Model,
    /// Sums or counts, and the note of their table.
    Statistics,
    /// The state of a training.
    Checkpoint,
    /// Weights of an unfinished training.
    Weights,
    /// Scores, the note of their rows, and the note of the model if it is encrypted.
    Scores,
}

impl Content {
    const ALL: [Self; 8] = [
        Self::Keys,
        Self::Table,
        Self::Sums,
        Self::Model,
        Self::Statistics,
        Self::Checkpoint,
        Self::Weights,
        Self::Scores,
    ];

    /// The results that an owner decrypts.
    pub const RESULTS: [Self; 3] = [Self::Model, Self::Statistics, Self::Scores];

    /// Returns the name of the content in labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Table => "table",
            Self::Sums => "sums",
            Self::Model => "model",
            Self::Statistics => "statistics",
            Self::Checkpoint => "checkpoint",
            Self::Weights => "weights",
            Self::Scores => "scores",
        }
    }
}

/// Metadata in the label of a file.
// Files store these fields in order and without names. A change needs another `META_VERSION`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The job that the keys were made for.
    pub job: Job,
    /// Number of ciphertexts of the note, which are the last ones of the file.
    pub note: u32,
    /// Number of iterations done, for models and checkpoints.
    pub iterations: u32,
    /// Origin of results, checkpoints and weights.
    pub origin: Option<Origin>,
    /// The model of scores.
    pub scored_by: Option<ScoredBy>,
    /// Owners of a table of several owners, and of results computed from it.
    pub pooled: Option<Pooled>,
}

/// The model that scored rows. The owner compares its preparation with the preparation of the rows.
// Files store the number of the variant, so only append variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScoredBy {
    /// A plain model, with the digest of its columns and of their preparation.
    Plain([u8; 32]),
    /// An encrypted model, with the number of ciphertexts of its note, which are the last ones of
    /// the file.
    Encrypted(u32),
}

/// The owner of a table among several, and the data that all owners share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pooled {
    /// Digest of the schema.
    pub schema: [u8; 32],
    /// Identifier of the transform that prepared the rows. `None` for sums, which precede the
    /// transform.
    pub transform: Option<[u8; 32]>,
    /// Names of all owners in the schema.
    pub of: Vec<String>,
    /// Owners of these rows, by their positions among all owners, ascending.
    pub owners: Vec<u32>,
}

/// The inputs of a computation, as the server states them. A training resumes with identical
/// results if its origin is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Version of the program.
    pub program: String,
    /// Digest of the evaluation keys.
    pub keys: [u8; 32],
    /// Digest of the encrypted table, or of the digests of several.
    pub table: [u8; 32],
}

impl Origin {
    /// Creates the origin of a result of this version of the program. The order of the tables'
    /// digests does not matter.
    #[must_use]
    pub fn new(keys: [u8; 32], mut tables: Vec<[u8; 32]>) -> Self {
        // Sorted, because the same tables in another order give the same result.
        tables.sort_unstable();
        let table = match tables[..] {
            // A single table keeps its own digest, so that its owner can compare it with the file.
            [table] => table,
            _ => blake3::hash(tables.as_flattened()).into(),
        };
        Self { program: env!("CARGO_PKG_VERSION").into(), keys, table }
    }

    /// Returns whether the origin names encrypted tables with these digests, in any order.
    #[must_use]
    pub fn is_of(&self, tables: Vec<[u8; 32]>) -> bool {
        Self::new(self.keys, tables).table == self.table
    }
}

/// Version of the encoding of [`Meta`].
const META_VERSION: u8 = 5;

impl Meta {
    /// Returns the metadata of a file without note or iterations.
    #[must_use]
    pub fn of(job: Job) -> Self {
        Self { job, note: 0, iterations: 0, origin: None, scored_by: None, pooled: None }
    }

    /// Creates a label with this metadata. `params` is the name of the parameter set.
    ///
    /// # Errors
    /// [`Error::Bug`] if the metadata cannot be encoded.
    pub fn label(&self, params: &str, content: Content) -> Result<Label> {
        let meta = postcard::to_extend(self, vec![META_VERSION])
            .map_err(|error| Error::Bug(error.to_string()))?;
        Ok(Label { name: params.into(), content: content.name().into(), meta })
    }

    /// Reads the metadata of a label. Returns `None` for a label of another program or version.
    #[must_use]
    pub fn read(label: &Label) -> Option<(Content, Self)> {
        let content = Content::ALL.into_iter().find(|content| content.name() == label.content)?;
        // The version comes first and alone, so that any later version can change everything after
        // it.
        let (&META_VERSION, bytes) = label.meta.split_first()? else { return None };
        // Each label has one encoding, so bytes after it are refused.
        let Ok((meta, [])) = postcard::take_from_bytes::<Self>(bytes) else { return None };
        Some((content, meta))
    }

    /// Returns whether `label` comes from another version of this program.
    #[must_use]
    pub fn is_of_another_version(label: &Label) -> bool {
        let known = Content::ALL.into_iter().any(|content| content.name() == label.content);
        known && label.meta.first().is_some_and(|&version| version != META_VERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare_apps::logreg::{self, TrainSpec};

    #[test]
    fn labels_carry_the_job() {
        let spec = TrainSpec::default();
        let job = Job::Train(logreg::Job { rows: 189, features: 9, spec });
        let program = "1.2.3".to_owned();
        let origin = Some(Origin { program, keys: [2; 32], table: [3; 32] });
        let pooled = Some(Pooled {
            schema: [4; 32],
            transform: None,
            of: vec!["a".into()],
            owners: vec![0],
        });
        let meta = Meta { note: 2, iterations: 5, origin, pooled, ..Meta::of(job) };
        let label = meta.label("n14", Content::Model).unwrap();
        assert_eq!(Meta::read(&label), Some((Content::Model, meta)));
        for bad in [
            Label { content: "song".into(), ..label.clone() },
            Label { meta: label.meta[1..].to_vec(), ..label.clone() },
            Label { meta: [&[4], &label.meta[1..]].concat(), ..label.clone() },
            Label { meta: [&label.meta[..], &[0]].concat(), ..label.clone() },
            Label::default(),
        ] {
            assert_eq!(Meta::read(&bad), None);
        }
    }

    /// The order of tables does not matter. A single table keeps its own digest.
    #[test]
    fn origins_have_all_tables() {
        let of = |tables: &[u8]| Origin::new([0; 32], tables.iter().map(|&t| [t; 32]).collect());
        assert_eq!(of(&[7]).table, [7; 32]);
        assert_eq!(of(&[1, 2]), of(&[2, 1]));
        assert_ne!(of(&[1, 2]), of(&[1, 3]));
        assert!(of(&[1, 2]).is_of(vec![[2; 32], [1; 32]]));
        assert!(!of(&[1, 2]).is_of(vec![[1; 32]]) && !of(&[1]).is_of(vec![]));
    }
}
