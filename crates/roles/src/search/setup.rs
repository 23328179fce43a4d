//! The public part of a search, which labels of files carry.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::payload::Payload;
use crate::{
    error::{Error, Result},
    format::opened::Opened,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::Read;
use sudare::{ckks::serial::Label, rlwe::KeyId};
use sudare_apps::search::{Answer, Plan, Spec};

/// Version of the metadata in labels.
const VERSION: u32 = 1;

/// The public part of a search. Owner and server derive the same plan from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Kind and size of the search.
    pub spec: Spec,
    /// The payload of the records. It is [`Payload::Rows`] unless answers contain matches.
    pub payload: Payload,
}

impl Setup {
    /// Creates the setup of a search with `payload`, which overrides the payload of `spec`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a payload that is too large, or that the answer does not carry.
    pub fn new(mut spec: Spec, payload: Payload) -> Result<Self> {
        let payload = payload.checked()?;
        match &mut spec.answer {
            Answer::Matches { payload: bytes, .. } => *bytes = payload.bytes(),
            // Scores and counts name no record, so a payload would be lost without an error.
            _ if payload == Payload::Rows => {}
            _ => {
                return Err(Error::Usage(format!(
                    "only matches carry payloads of {payload}: ask for matches, or for no payloads"
                )));
            }
        }
        Ok(Self { spec, payload })
    }
}

/// A search under a key pair, as the file of any of its keys describes it.
#[derive(Debug, Clone)]
pub struct Session {
    /// The public part.
    pub setup: Setup,
    /// The plan derived from the setup.
    pub plan: Plan,
    /// The key pair.
    pub key: KeyId,
    /// Name of the parameter set.
    pub name: String,
}

impl Session {
    /// Returns the session that the file of a key is for.
    ///
    /// # Errors
    /// [`Error::Usage`] for keys of another job; [`Error::File`]; [`Error::Search`].
    pub fn of<R: Read>(key: &Opened<R>) -> Result<Self> {
        let setup: Setup = read(key, Content::Keys)?;
        let plan = Plan::new(&setup.spec, &key.params()?)?;
        let info = key.info();
        Ok(Self { setup, plan, key: info.key_id, name: info.label.name.clone() })
    }

    /// Refuses a file of another key pair or other parameters.
    pub(super) fn expect<R: Read>(&self, file: &Opened<R>) -> Result<()> {
        file.expect_key(self.plan.params().rlwe().id(), self.key)
    }

    pub(super) fn label(&self, content: Content, meta: &impl Serialize) -> Result<Label> {
        label(&self.name, content, meta)
    }
}

/// Content of the files of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A key of a key pair.
    Keys,
    /// Records of an index.
    Block,
    /// A query.
    Query,
    /// An encrypted answer.
    Answer,
}

impl Content {
    fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys of a search",
            Self::Block => "block of an index",
            Self::Query => "query of a search",
            Self::Answer => "answer of a search",
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Versioned<M> {
    version: u32,
    meta: M,
}

/// Creates the label of keys for a search. `name` is the name of the parameter set.
///
/// # Errors
/// [`Error::Bug`] if the setup cannot be encoded.
pub fn key_label(name: &str, setup: &Setup) -> Result<Label> {
    label(name, Content::Keys, setup)
}

fn label(name: &str, content: Content, meta: &impl Serialize) -> Result<Label> {
    let meta = serde_json::to_vec(&Versioned { version: VERSION, meta });
    let meta = meta.map_err(|error| Error::Bug(error.to_string()))?;
    Ok(Label { name: name.into(), content: content.name().into(), meta })
}

/// Reads the metadata of a file's label, which must have the given content.
pub(super) fn read<R: Read, M: DeserializeOwned>(file: &Opened<R>, content: Content) -> Result<M> {
    let label = &file.info().label;
    let needed = content.name();
    if label.content != needed {
        // A stranger may have written the label, so a message shows only its beginning.
        let found: String = label.content.chars().take(40).collect();
        return Err(Error::Usage(format!(
            "{} holds {found:?}, but the {needed} is needed here: name another file",
            file.path().display()
        )));
    }
    let meta = serde_json::from_slice::<Versioned<M>>(&label.meta).ok();
    // A label of another version may parse as well, with another meaning.
    let meta = meta.filter(|meta| meta.version == VERSION).map(|versioned| versioned.meta);
    meta.ok_or_else(|| {
        let problem = format!("its label does not fit the {needed} in this version");
        Error::in_file(file.path())(sudare::Error::Malformed { what: "file", problem })
    })
}
