//! What the labels of files say that travel between the processes of one training.

use crate::job::Job;
use core::ops::Range;
use serde::{Deserialize, Serialize};
use sudare::{Error, Result, ckks::serial::Label};

/// What stands beside the ciphertexts of a part of a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartMeta {
    /// The training.
    pub job: Job,
    /// What the ciphertexts are.
    pub holds: Holds,
    /// Groups of rows of a batch, which are fewer for tables with fewer rows than planned.
    pub groups: usize,
    /// Iterations done before.
    pub iteration: u32,
    /// Which ciphertexts of the table these are, or are computed from.
    pub shares: Vec<Range<usize>>,
}

/// What ciphertexts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holds {
    /// Rows on their way to a worker.
    Rows,
    /// Where a gradient is taken.
    Point,
    /// A part of a gradient.
    Gradient,
}

impl Holds {
    /// In words.
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
    /// What such a label calls its content. Processes of one training are of one version.
    pub const CONTENT: &'static str =
        concat!("a part of a training by sudare ", env!("CARGO_PKG_VERSION"));

    /// A label with this, under parameters of this name.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it cannot be encoded.
    pub fn label(&self, params: &str) -> Result<Label> {
        let meta = postcard::to_extend(self, Vec::new()).map_err(malformed)?;
        Ok(Label { name: params.into(), content: Self::CONTENT.into(), meta })
    }

    /// What `label` says; none if it is that of another file.
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
