//! What the label of the file of an encrypted array says.

use serde::{Deserialize, Serialize};
use sudare::{Error, Result, ckks::serial::Label};
use sudare_apps::array::{Layout, PublicRange};

/// What stands beside the ciphertexts of an array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayMeta {
    /// How it lies in them.
    pub layout: Layout,
    /// Whether slots beyond its end hold 0.
    pub padding_is_zero: bool,
    /// A digest of the program that it was computed by, if that is known.
    #[serde(default)]
    pub lineage: Option<[u8; 32]>,
    /// Where its elements lie, if that is known.
    #[serde(default)]
    pub range: Option<PublicRange>,
}

/// What such a label calls its content.
const CONTENT: &str = "array";

impl ArrayMeta {
    /// A label with this, under parameters of this name.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be encoded.
    pub fn label(&self, params: &str) -> Result<Label> {
        let meta = serde_json::to_vec(self).map_err(std::io::Error::other)?;
        Ok(Label { name: params.into(), content: CONTENT.into(), meta })
    }

    /// What `label` says.
    ///
    /// # Errors
    /// [`Error::Malformed`] unless it is that of an array.
    pub fn read(label: &Label) -> Result<Self> {
        let malformed = |problem: String| Error::Malformed { what: "array", problem };
        if label.content != CONTENT {
            return Err(malformed(format!("the file holds {:?}", label.content)));
        }
        let meta: Self =
            serde_json::from_slice(&label.meta).map_err(|error| malformed(error.to_string()))?;
        match meta.range.is_none_or(PublicRange::is_valid) {
            true => Ok(meta),
            false => Err(malformed("its range has no numbers in order".into())),
        }
    }
}
