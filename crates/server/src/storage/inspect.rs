//! What uploads are, by their first bytes: before the rest of them is taken.
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
    error::Error,
    label::{Content, Meta},
    model::Model,
    opened::Opened,
};

/// Bytes by which every file is known.
pub const START_BYTES: usize = 64;

/// What files of keys and ciphertexts begin with.
const MAGIC: &[u8; 8] = b"\x89sudare\n";
/// Where the name of the key pair is.
const KEY: Range<usize> = 24..32;
/// Of a header before its encoded part, and the checksum after it.
const AROUND_BYTES: u64 = START_BYTES as u64 + 32;
/// Most bytes of the encoded part.
const MAX_ENCODED_BYTES: u64 = 64 << 20;
/// A model in the clear is read whole, and is never larger.
pub const MAX_MODEL_BYTES: u64 = 16 << 20;

/// What messages call an upload.
const NAME: &str = "the upload";

/// How many bytes the header of a file with this start has, if it is a file of this program.
#[must_use]
pub fn header_bytes(start: &[u8]) -> Option<u64> {
    let start = start.strip_prefix(MAGIC)?;
    let encoded = u64::from_le_bytes(*start.get(40..48)?.first_chunk()?);
    let end = encoded.checked_add(AROUND_BYTES)?;
    (encoded <= MAX_ENCODED_BYTES).then(|| end.next_multiple_of(64))
}

/// Bytes of memory that reading a header of this size takes: its own, and what is read of it.
#[must_use]
pub fn memory_of(header: u64) -> u64 {
    header.saturating_mul(2).saturating_add(1 << 20)
}

/// Bytes of memory that reading a model of this size takes: its text, and values and strings of it.
#[must_use]
pub fn memory_of_model(bytes: u64) -> u64 {
    bytes.min(MAX_MODEL_BYTES).saturating_mul(8)
}

/// Facts about an upload, from its header.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Facts that stay with the object.
    pub about: Value,
    /// Bytes of the tables of its parameters.
    pub table_bytes: u64,
    /// A digest of all that decides whether the file has a plan: that of the header without the key.
    pub plan: [u8; 32],
}

fn open(file: &File, bytes: u64) -> Answer<Opened> {
    let io = |error| Problem::from(Error::io("read", Path::new(NAME), error));
    let mut file = file.try_clone().map_err(io)?;
    file.rewind().map_err(io)?;
    Ok(Opened::new(BufReader::new(file), bytes, Path::new(NAME))?)
}

/// Reads the header of an upload of `bytes` in all. The rest, for which parameters are built, is checked by
/// [`plan`].
///
/// # Errors
/// A [`Problem`] for what the collection does not hold, of another size than its header says, without
/// keys or ciphertexts, or under parameters below 128 bits unless these are allowed.
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
    if info.count == 0 {
        let detail = "the file has a header alone, and no keys or ciphertexts: make it again";
        return Err(Problem::unusable("Malformed", detail));
    }
    Ok(Header {
        about: about(&meta, &info.label.name, info.params_id.to_string(), info.key_id.to_string()),
        table_bytes: opened.table_bytes()?,
        plan: digest_of_plan(file, collection)?,
    })
}

/// A digest of all that the header of an object says.
///
/// # Errors
/// A [`Problem`] if the system does not let it be read.
pub fn digest_of_header(path: &Path) -> Answer<[u8; 32]> {
    let read = || -> io::Result<[u8; 32]> {
        let (mut file, mut start) = (File::open(path)?, [0; START_BYTES]);
        file.read_exact(&mut start)?;
        let header = header_bytes(&start).unwrap_or(0);
        file.rewind()?;
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut file.take(header), &mut hasher)?;
        Ok(*hasher.finalize().as_bytes())
    };
    Ok(read().map_err(|error| Error::io("read", path, error))?)
}

/// A digest of the collection and of a header without the key pair and without its checksum.
fn digest_of_plan(mut file: &File, collection: Collection) -> Answer<[u8; 32]> {
    let mut read = || -> io::Result<[u8; 32]> {
        let mut start = [0; START_BYTES];
        file.rewind()?;
        file.read_exact(&mut start)?;
        let rest = header_bytes(&start).unwrap_or(0).saturating_sub(AROUND_BYTES);
        start.get_mut(KEY).unwrap_or_default().fill(0);
        let mut hasher = blake3::Hasher::new();
        hasher.update(collection.name().as_bytes()).update(&start);
        io::copy(&mut file.take(rest), &mut hasher)?;
        Ok(*hasher.finalize().as_bytes())
    };
    Ok(read().map_err(|error| Error::io("read", Path::new(NAME), error))?)
}

/// Builds the parameters of a file whose header is here, and refuses one that does not fit them or cannot be
/// planned.
///
/// # Errors
/// A [`Problem`].
pub fn plan(file: &File, bytes: u64, collection: Collection) -> Answer<()> {
    let opened = open(file, bytes)?;
    let (_, meta) = opened.meta(&[Content::Keys, Content::Table, Content::Model])?;
    let params = opened.params()?;
    // Of a model, that of the rows is planned.
    if collection != Collection::Models {
        meta.job.plan(&params)?;
    }
    if collection == Collection::Keys {
        opened.key_request(&params)?;
    }
    Ok(())
}

/// What is known of a file of keys or ciphertexts.
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

/// What a model in the clear is, all of which is here.
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

/// Refuses a table that was encrypted for a job of another kind, by what [`about`] says of it.
///
/// # Errors
/// A [`Problem`].
pub fn expect_kind(about: &Value, kind: &str) -> Answer<()> {
    match (about["kind"].as_str(), about["job"].as_str()) {
        (Some(found), Some(job)) if found != kind => {
            let detail = format!("the table was encrypted for {job}, which is no job of {kind}");
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
