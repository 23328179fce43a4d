//! Encrypted sums of the rows of each owner, and of all owners.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::{of_owner, together};
use crate::{
    error::{Error, Result},
    format::{
        label::{Content, Meta},
        opened::Opened,
    },
    job::Job,
};
use std::{
    io::{Read, Write},
    path::Path,
    sync::Arc,
};
use sudare::{
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Evaluator, Params, serial},
    rlwe::{EvaluationKeys, PublicKey},
};
use sudare_apps::pool::{PoolError, Schema, Sums, SumsPlan, Totals};
use sudare_table::Table;

/// Returns whether a job needs sums of each class, to weigh rows by class.
#[must_use]
pub fn by_class(job: &Job) -> bool {
    job.training().is_some_and(|spec| spec.class_weights.is_some())
}

/// Plans the encryption of the sums of tables for a job.
///
/// # Errors
/// [`Error::Usage`] for a job without a table, or with other numbers of columns or owners than the
/// schema; [`Error::Pool`].
pub fn plan(job: &Job, schema: &Schema, params: &Params) -> Result<SumsPlan> {
    let (rows, features) = job.shape()?;
    let columns = schema.columns().len();
    let owners = schema.owners().len();
    let tables = job.training().map_or(owners, |spec| spec.tables);
    if columns != features || owners != tables {
        return Err(Error::Usage(format!(
            "the schema has {columns} columns and {owners} owners, but the keys are for {job}: \
             make keys with --schema and --for {}:{rows}x{columns}",
            job.kind()
        )));
    }
    Ok(SumsPlan::new(schema, by_class(job), rows, params)?)
}

/// A public key with the job and the parameters of its pair.
pub struct JobKeys<'a> {
    /// The job of the keys.
    pub job: Job,
    /// The parameters of the keys.
    pub params: &'a Params,
    /// Name of the parameter set.
    pub name: &'a str,
    /// The key that encrypts.
    pub public: Arc<PublicKey>,
}

/// Encrypts the sums of an owner's table, writes their file and returns its bytes. Messages call
/// the file `path`.
///
/// # Errors
/// The errors of [`plan`]; [`Error::File`].
pub fn write(
    out: &mut (impl Write + ?Sized),
    path: &Path,
    keys: JobKeys<'_>,
    schema: &Schema,
    owner: &str,
    table: &Table,
) -> Result<u64> {
    let JobKeys { job, params, name, public } = keys;
    let plan = plan(&job, schema, params)?;
    let sums = Sums::of(schema, table, by_class(&job))?;
    let encryptor = Encryptor::new(params, public)?;
    let items = plan.encrypt(&encryptor, schema.owner(owner)?, &sums)?;
    let pooled = Some(of_owner(schema, owner, None)?);
    let label = Meta { pooled, ..Meta::of(job) }.label(name, Content::Sums)?;
    serial::write_ciphertexts(out, params, &items, &label).map_err(Error::in_file(path))
}

/// The encrypted total of all owners, and the metadata of its file.
pub struct Total {
    /// The ciphertexts.
    pub items: Vec<Ciphertext>,
    /// The parameters of the sums.
    pub params: Params,
    /// Name of the parameter set.
    pub name: String,
    /// Metadata of the file.
    pub meta: Meta,
}

/// Adds the sums of all owners of a schema. No key is needed. Calls `progress` with the number of
/// files done.
///
/// # Errors
/// [`Error::Usage`] for other files; [`Error::Pooled`] if a file is missing or given twice;
/// [`Error::File`] for files of different keys, or damaged ones; [`Error::Pool`].
pub fn add<R: Read>(
    files: Vec<Opened<R>>,
    schema: &Schema,
    progress: impl Fn(usize),
) -> Result<Total> {
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let (_, meta) = file.meta(&[Content::Sums])?;
        all.push((file, meta));
    }
    let meta = together(&mut all)?;
    expect_schema(&meta, schema)?;
    let info = all.first().map(|(file, _)| file.info().clone());
    let info = info.ok_or_else(|| Error::Bug("there are no sums".into()))?;
    let params = Params::new(info.spec)?;
    // Sums are only added, and additions need no evaluation key.
    let keys = EvaluationKeys::none(params.rlwe(), info.key_id);
    let plan = plan(&meta.job, schema, &params)?;
    let ops = Evaluator::new(&params, Arc::new(keys))?;
    let mut items = Vec::new();
    for (number, (file, meta)) in (1..).zip(all) {
        // Sums under different keys add up to a total that no key decrypts.
        file.expect_key(params.rlwe().id(), info.key_id)?;
        plan.add(&ops, &mut items, file.ciphertexts(&params, meta.note)?.content)?;
        progress(number);
    }
    Ok(Total { items, params, name: info.label.name, meta })
}

impl Total {
    /// Writes the file of the total and returns its bytes. Messages call the file `path`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, out: &mut (impl Write + ?Sized), path: &Path) -> Result<u64> {
        let label = self.meta.label(&self.name, Content::Sums)?;
        let written = serial::write_ciphertexts(out, &self.params, &self.items, &label);
        written.map_err(Error::in_file(path))
    }
}

/// Reads the total of all owners with the secret key, and the job of the total.
///
/// # Errors
/// [`Error::Usage`] for another file; [`Error::Pooled`] unless the file is the total of all owners;
/// [`Error::File`] for a total of another key, or a damaged one; [`Error::Pool`].
pub fn read<R: Read>(
    file: Opened<R>,
    schema: &Schema,
    params: &Params,
    decryptor: &Decryptor,
) -> Result<(Job, Totals)> {
    let (_, meta) = file.meta(&[Content::Sums])?;
    file.expect_key(params.rlwe().id(), decryptor.key_id())?;
    let mut all = [(file, meta)];
    // The total is checked like a set of files: it must have the rows of every owner.
    let meta = together(&mut all)?;
    expect_schema(&meta, schema)?;
    let [(file, _)] = all;
    let plan = plan(&meta.job, schema, params)?;
    let encoder = Encoder::new(params);
    let items = file.ciphertexts(params, meta.note)?.content;
    let slots = items.iter().map(|item| encoder.decode_real(&decryptor.decrypt(item)?));
    let totals = plan.decode(&slots.collect::<sudare::Result<Vec<_>>>()?)?;
    Ok((meta.job, totals))
}

/// Refuses sums of another schema.
fn expect_schema(meta: &Meta, schema: &Schema) -> Result<()> {
    match &meta.pooled {
        Some(pooled) if pooled.schema == schema.digest() => Ok(()),
        _ => Err(PoolError::OtherSchema { what: "these sums".into() }.into()),
    }
}
