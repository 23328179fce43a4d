//! Joint computations on tables of several owners.
//!
//! Each owner first encrypts [sums] of its own rows, and the server adds them. From the total the
//! holder of the key makes a [transform], and each owner prepares and encrypts its rows with it.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub mod sums;
pub mod transform;

use crate::{
    error::{Error, PooledError, Result},
    format::{
        label::{Meta, Pooled},
        opened::Opened,
    },
    job::Job,
    os::files,
};
use std::{
    io::Read,
    path::{Path, PathBuf},
};
use sudare_apps::pool::Schema;

/// Returns the joint metadata of several files of one job, and sorts the files by their owners. For
/// a single file, returns its metadata.
///
/// # Errors
/// [`Error::Pooled`] unless there is one file, or one of every owner; [`Error::Usage`] for files of
/// different jobs, or for no file.
pub fn together<R: Read>(files: &mut [(Opened<R>, Meta)]) -> Result<Meta> {
    // Sorted, so that the order in which files are named does not change the result.
    files.sort_by_key(|(_, meta)| meta.pooled.as_ref().map(|pooled| pooled.owners.clone()));
    let Some(((first, meta), others)) = files.split_first() else {
        return Err(Error::Usage("no encrypted table is given: name at least one".into()));
    };
    let first = first.path();
    let mut meta = meta.clone();
    // Before files are compared: the job is for one table, whatever the others hold.
    if meta.pooled.is_none() && files.len() > 1 && tables(&meta.job) == 1 {
        return Err(PooledError::Single { found: files.len() }.into());
    }
    for (file, other) in others {
        add(&mut meta, first, (file.path(), other))?;
    }
    match &meta.pooled {
        Some(pooled) => expect_all(pooled)?,
        None if tables(&meta.job) > 1 => {
            return Err(PooledError::Alone { path: first.into() }.into());
        }
        None => {}
    }
    Ok(meta)
}

/// Returns the number of tables of a job.
fn tables(job: &Job) -> usize {
    job.training().map_or(1, |spec| spec.tables)
}

/// Adds the metadata of another file.
fn add(all: &mut Meta, first: &Path, (path, other): (&Path, &Meta)) -> Result<()> {
    if all.job != other.job {
        return Err(Error::Usage(format!(
            "{} was encrypted for {}, but {} for {}: use files of one job",
            path.display(),
            other.job,
            first.display(),
            all.job
        )));
    }
    let (Some(all), Some(other)) = (&mut all.pooled, &other.pooled) else {
        let path = if all.pooled.is_some() { path } else { first };
        return Err(PooledError::Alone { path: path.into() }.into());
    };
    let path = PathBuf::from(path);
    let other_path = PathBuf::from(first);
    // The schema before the transform: a transform of another schema always differs.
    if all.schema != other.schema || all.of != other.of {
        return Err(PooledError::Schema { path, other: other_path }.into());
    }
    if all.transform != other.transform {
        return Err(PooledError::Transform { path, other: other_path }.into());
    }
    // Rows of one owner that count twice would give a wrong model without any error.
    if let Some(&twice) = other.owners.iter().find(|owner| all.owners.contains(owner)) {
        return Err(PooledError::Twice { path, owner: name(all, twice) }.into());
    }
    all.owners.extend(&other.owners);
    all.owners.sort_unstable();
    Ok(())
}

/// Refuses metadata that lacks an owner.
fn expect_all(pooled: &Pooled) -> Result<()> {
    // All owners are needed: the transform has the means and row counts of all of them.
    let missing = (0..pooled.of.len() as u32).filter(|owner| !pooled.owners.contains(owner));
    let owners: Vec<String> = missing.map(|owner| name(pooled, owner)).collect();
    if owners.is_empty() { Ok(()) } else { Err(PooledError::Missing { owners }.into()) }
}

/// Returns the metadata of an owner's file: of its sums, or of a table that `transform` prepared.
///
/// # Errors
/// [`Error::Pool`] if the schema has no such owner.
pub fn of_owner(schema: &Schema, owner: &str, transform: Option<[u8; 32]>) -> Result<Pooled> {
    Ok(Pooled {
        schema: schema.digest(),
        transform,
        of: schema.owners().to_vec(),
        owners: vec![schema.owner(owner)? as u32],
    })
}

/// Reads a schema.
///
/// # Errors
/// [`Error::Io`]; [`Error::Pool`] for any other file.
pub fn read_schema(path: &Path) -> Result<Schema> {
    let text = files::read_text(path, SCHEMA_BYTES)?;
    Ok(Schema::from_json(&text)?)
}

/// Maximum size of a schema, in bytes.
// Room for 1024 columns with 1000 categories of 16 bytes each.
const SCHEMA_BYTES: u64 = 16 << 20;

fn name(pooled: &Pooled, owner: u32) -> String {
    pooled.of.get(owner as usize).cloned().unwrap_or_else(|| format!("owner {owner}"))
}
