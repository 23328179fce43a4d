//! The label of the file of an encrypted array.

use serde::{Deserialize, Serialize};
use sudare::{Error, Result, ckks::serial::Label};
use sudare_apps::array::{Layout, PublicRange};

/// Metadata of an array's ciphertexts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayMeta {
    /// The layout of the elements in the slots.
    pub layout: Layout,
    /// True if slots beyond the end of the array hold 0.
    pub padding_is_zero: bool,
    /// A digest of the program that computed the array, if it is known.
    #[serde(default)]
    pub lineage: Option<[u8; 32]>,
    /// Bounds of the elements, if they are known.
    #[serde(default)]
    pub range: Option<PublicRange>,
}

/// Content of the label of an array.
const CONTENT: &str = "array";

impl ArrayMeta {
    /// Creates a label with this metadata. `params` is the name of the parameter set.
    ///
    /// # Errors
    /// [`Error::Io`] if the metadata cannot be encoded.
    pub fn label(&self, params: &str) -> Result<Label> {
        let meta = serde_json::to_vec(self).map_err(std::io::Error::other)?;
        Ok(Label { name: params.into(), content: CONTENT.into(), meta })
    }

    /// Reads the metadata of a label.
    ///
    /// # Errors
    /// [`Error::Malformed`] unless the label belongs to an array.
    pub fn read(label: &Label) -> Result<Self> {
        let malformed = |problem: String| Error::Malformed { what: "array", problem };
        if label.content != CONTENT {
            return Err(malformed(format!("the file holds {:?}", label.content)));
        }
        let meta: Self =
            serde_json::from_slice(&label.meta).map_err(|error| malformed(error.to_string()))?;
        // NaN compares with nothing, so later checks of ranges could not refuse it.
        match meta.range.is_none_or(PublicRange::is_valid) {
            true => Ok(meta),
            false => Err(malformed("the bounds of its range are not numbers in order".into())),
        }
    }
}
