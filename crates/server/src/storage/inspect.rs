//! Inspection of uploads: what a file is, by its first bytes.
// Strangers choose these bytes, so no operation on them may panic.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    problem::{Answer, Problem},
    storage::records::Collection,
};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
    ops::Range,
    path::Path,
};
use sudare::ckks::serial::Kind;
use sudare_roles::{
    clear::model::Model,
    error::Error,
    format::{
        label::{Content, Meta},
        opened::Opened,
    },
    owner::outgoing::MAGIC,
};

pub use sudare_roles::owner::outgoing::MAX_MODEL_BYTES;

/// Bytes that identify a file.
pub const START_BYTES: usize = 64;

/// Position of the key pair's name.
const KEY: Range<usize> = 24..32;
/// Bytes of a header before its encoded part, and of the checksum after it.
const AROUND_BYTES: u64 = START_BYTES as u64 + 32;
/// Maximum size of the encoded part, in bytes.
const MAX_ENCODED_BYTES: u64 = 64 << 20;

/// Name of an upload in messages.
const NAME: &str = "the upload";

/// Returns the size of the header of a file with this start, or `None` for a foreign file.
#[must_use]
pub fn header_bytes(start: &[u8]) -> Option<u64> {
    let start = start.strip_prefix(MAGIC)?;
    let encoded = u64::from_le_bytes(*start.get(40..48)?.first_chunk()?);
    let end = encoded.checked_add(AROUND_BYTES)?;
    (encoded <= MAX_ENCODED_BYTES).then(|| end.next_multiple_of(64))
}

/// Returns the memory for reading a header of this size, in bytes: for its text and for the parsed values.
#[must_use]
pub fn memory_of(header: u64) -> u64 {
    header.saturating_mul(2).saturating_add(1 << 20)
}

/// Returns the memory for reading a model of this size, in bytes: for its text and for the parsed values.
#[must_use]
pub fn memory_of_model(bytes: u64) -> u64 {
    bytes.min(MAX_MODEL_BYTES).saturating_mul(8)
}

/// Facts about an upload, from its header.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Facts that are stored with the object.
    pub about: Value,
    /// Size of the tables of the parameters, in bytes.
    pub table_bytes: u64,
    /// Digest of everything that determines whether the file has a plan: the header without the key.
    pub plan: [u8; 32],
}

fn open(file: &File, bytes: u64) -> Answer<Opened> {
    let io = |error| Problem::from(Error::io("read", Path::new(NAME), error));
    let mut file = file.try_clone().map_err(io)?;
    file.rewind().map_err(io)?;
    Ok(Opened::new(BufReader::new(file), bytes, Path::new(NAME))?)
}

/// Reads the header of an upload of `bytes` in total. [`plan`] checks the rest, which requires parameters.
///
/// # Errors
/// A [`Problem`] for a file that does not belong in the collection, differs in size from its header, has no
/// keys or ciphertexts, or has parameters below 128 bits of security without permission.
pub fn header(
    file: &File,
    bytes: u64,
    collection: Collection,
    insecure_allowed: bool,
) -> Answer<Header> {
    let (kind, content) = match collection {
        Collection::Keys => (Kind::EvaluationKeys, Content::Keys),
        Collection::Tables => (Kind::Ciphertexts, Content::Table),
        Collection::Models | Collection::Results => (Kind::Ciphertexts, Content::Model),
    };
    let opened = open(file, bytes)?.expect(kind)?;
    let (_, meta) = opened.meta(&[content])?;
    let info = opened.info();
    if info.spec.insecure && !insecure_allowed {
        return Err(Problem::unusable(
            "Insecure",
            "the parameters have less than 128 bits of security: make keys without --insecure",
        ));
    }
    // Such a file has a kilobyte, and its parameters may still take seconds to build.
    if info.count == 0 {
        let detail = "the file has only a header, and no keys or ciphertexts: make it again";
        return Err(Problem::unusable("Malformed", detail));
    }
    Ok(Header {
        about: about(&meta, &info.label.name, info.params_id.to_string(), info.key_id.to_string()),
        table_bytes: opened.table_bytes()?,
        plan: digest_of_plan(file, collection)?,
    })
}

/// Digests the header of an object.
///
/// # Errors
/// A [`Problem`] if the system cannot read it.
pub fn digest_of_header(path: &Path) -> Answer<[u8; 32]> {
    let read = || -> io::Result<[u8; 32]> {
        let mut file = File::open(path)?;
        let mut start = [0; START_BYTES];
        file.read_exact(&mut start)?;
        let header = header_bytes(&start).unwrap_or(0);
        file.rewind()?;
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut file.take(header), &mut hasher)?;
        Ok(*hasher.finalize().as_bytes())
    };
    Ok(read().map_err(|error| Error::io("read", path, error))?)
}

/// Digests the collection and the header, without the key pair and the checksum.
fn digest_of_plan(mut file: &File, collection: Collection) -> Answer<[u8; 32]> {
    let mut read = || -> io::Result<[u8; 32]> {
        let mut start = [0; START_BYTES];
        file.rewind()?;
        file.read_exact(&mut start)?;
        // The checksum depends on the key pair, and is left out.
        let rest = header_bytes(&start).unwrap_or(0).saturating_sub(AROUND_BYTES);
        // So all key pairs of the same parameters and job share one plan.
        start.get_mut(KEY).unwrap_or_default().fill(0);
        let mut hasher = blake3::Hasher::new();
        hasher.update(collection.name().as_bytes()).update(&start);
        io::copy(&mut file.take(rest), &mut hasher)?;
        Ok(*hasher.finalize().as_bytes())
    };
    Ok(read().map_err(|error| Error::io("read", Path::new(NAME), error))?)
}

/// Builds the parameters of a file whose header is here. Rejects a file that does not fit them or cannot be
/// planned.
///
/// # Errors
/// A [`Problem`].
pub fn plan(file: &File, bytes: u64, collection: Collection) -> Answer<()> {
    let opened = open(file, bytes)?;
    let (_, meta) = opened.meta(&[Content::Keys, Content::Table, Content::Model])?;
    let params = opened.params()?;
    // A model has no plan of its own: the plan is for the rows.
    if collection != Collection::Models {
        meta.job.plan(&params)?;
    }
    if collection == Collection::Keys {
        opened.key_request(&params)?;
    }
    Ok(())
}

/// Describes a file of keys or ciphertexts.
pub fn about(meta: &Meta, params: &str, params_id: String, key_id: String) -> Value {
    let Meta { job, iterations, .. } = meta;
    let iterations = (*iterations > 0).then_some(*iterations);
    json!({
        "job": job.to_string(),
        "kind": job.kind(),
        "params": params,
        "params_id": params_id,
        "key_id": key_id,
        "iterations": iterations,
        "owners": meta.pooled.as_ref().map(|pooled| pooled.owners.len()),
    })
}

/// Describes a complete model in the clear.
///
/// # Errors
/// A [`Problem`] for anything else.
pub fn plain_model(mut file: &File, bytes: u64) -> Answer<Value> {
    let mut text = Vec::new();
    let read = file.by_ref().take(bytes.min(MAX_MODEL_BYTES)).read_to_end(&mut text);
    read.map_err(|error| Error::io("read", Path::new(NAME), error))?;
    let model = Model::from_json(&text, Path::new(NAME))?;
    Ok(json!({ "plain": true, "features": model.columns.len(), "classes": model.classes.len() }))
}

/// Rejects a table that was encrypted for another kind of job, by the facts from [`about`].
///
/// # Errors
/// A [`Problem`].
pub fn expect_kind(about: &Value, kind: &str) -> Answer<()> {
    match (about["kind"].as_str(), about["job"].as_str()) {
        (Some(found), Some(job)) if found != kind => {
            let detail = format!("the table was encrypted for {job}, which is not a {kind} job");
            Err(Problem::unusable("Usage", detail))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_end_where_they_say() {
        let mut start = [0; 64];
        start[..8].copy_from_slice(MAGIC);
        for (encoded, bytes) in [(0_u64, 128_u64), (32, 128), (33, 192), (1 << 20, (1 << 20) + 128)]
        {
            start[48..56].copy_from_slice(&encoded.to_le_bytes());
            assert_eq!(header_bytes(&start), Some(bytes));
        }
        start[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(header_bytes(&start), None);
        assert_eq!((header_bytes(b"{"), header_bytes(&start[..50])), (None, None));
    }
}
