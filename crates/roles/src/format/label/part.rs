//! Labels of the files that the processes of one training exchange.

use crate::job::Job;
use core::ops::Range;
use serde::{Deserialize, Serialize};
use sudare::{Error, Result, ckks::serial::Label};

/// Metadata of the ciphertexts of a part of a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartMeta {
    /// The job of the training.
    pub job: Job,
    /// The content of the ciphertexts.
    pub holds: Holds,
    /// Number of row groups of a batch. Tables with fewer rows than planned have fewer groups.
    pub groups: usize,
    /// Number of iterations done before.
    pub iteration: u32,
    /// Ranges of the table's ciphertexts that the part holds or is computed from.
    pub shares: Vec<Range<usize>>,
}

/// The content of the ciphertexts of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holds {
    /// Rows on their way to a worker.
    Rows,
    /// The weights at which a gradient is computed.
    Point,
    /// A part of a gradient.
    Gradient,
}

impl Holds {
    /// Returns the name of the content.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Point => "point",
            Self::Gradient => "gradient",
        }
    }
}

impl PartMeta {
    /// Content of the label of a part. All processes of one training must run the same version.
    pub const CONTENT: &'static str =
        concat!("a part of a training by sudare ", env!("CARGO_PKG_VERSION"));

    /// Creates a label with this metadata. `params` is the name of the parameter set.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the metadata cannot be encoded.
    pub fn label(&self, params: &str) -> Result<Label> {
        let meta = postcard::to_extend(self, Vec::new()).map_err(malformed)?;
        Ok(Label { name: params.into(), content: Self::CONTENT.into(), meta })
    }

    /// Reads the metadata of a label. Returns `None` for the label of another file.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn read(label: &Label) -> Result<Option<Self>> {
        if label.content != Self::CONTENT {
            return Ok(None);
        }
        postcard::from_bytes(&label.meta).map(Some).map_err(malformed)
    }
}

fn malformed(error: postcard::Error) -> Error {
    Error::Malformed { what: "part of a training", problem: error.to_string() }
}
