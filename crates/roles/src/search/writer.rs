//! Encrypts an index and queries.

use super::setup::{Content, Session};
use crate::{
    error::{Error, Result},
    format::opened::Opened,
    key::{FileEncryptor, Key},
};
use serde::Serialize;
use std::{
    io::{Read, Write},
    path::Path,
    sync::Arc,
};
use sudare::{
    ckks::serial::{self, Shape},
    rlwe::SecretKey,
};
use sudare_apps::search::Record;

/// Encrypts the files of a search, with its public key or with the owner's secret key.
pub struct Writer {
    session: Session,
    key: FileEncryptor,
}

impl Writer {
    /// Creates a writer with the public key in a file.
    ///
    /// # Errors
    /// The errors of [`Session::of`].
    pub fn public<R: Read>(file: Opened<R>) -> Result<Self> {
        let session = Session::of(&file)?;
        let params = session.plan.params();
        let key = FileEncryptor::new(params, Key::Public(Arc::new(file.public_key(params)?)))?;
        Ok(Self { session, key })
    }

    /// Creates a writer with the secret key of a session.
    ///
    /// # Errors
    /// [`Error::Library`] for a key of other parameters or from before a fork; [`Error::Usage`] for
    /// the key of another session.
    pub fn secret(session: Session, key: Arc<SecretKey>) -> Result<Self> {
        if key.id() != session.key {
            return Err(Error::Usage(format!(
                "the secret key is {}, but this search uses {}: use the secret key of the search",
                key.id(),
                session.key
            )));
        }
        let key = FileEncryptor::new(session.plan.params(), Key::Secret(key))?;
        Ok(Self { session, key })
    }

    /// Returns the public facts of the search.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Encrypts a query, writes its file and returns the number of bytes written.
    ///
    /// # Errors
    /// [`Error::Search`] for a vector that cannot be compared, or if queries are plain;
    /// [`Error::Library`] if the file cannot be written.
    pub fn write_query(&self, out: &mut (impl Write + ?Sized), vector: &[f64]) -> Result<u64> {
        let Session { plan, setup, .. } = &self.session;
        let label = self.session.label(Content::Query, setup)?;
        let params = plan.params();
        Ok(match &self.key {
            FileEncryptor::Public(key) => {
                let query = [plan.encrypt_query(key, vector)?];
                serial::write_ciphertexts(out, params, &query, &label)?
            }
            FileEncryptor::Secret(key) => {
                let query = [plan.encrypt_query_seeded(key, vector)?];
                serial::write_seeded_ciphertexts(out, params, &query, &label)?
            }
        })
    }

    /// Encrypts a block, writes its file and returns the number of bytes written. Messages call the
    /// file `path`.
    pub(super) fn write_block(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        meta: &impl Serialize,
        block: usize,
        records: &[Option<Record<'_>>],
    ) -> Result<u64> {
        let plan = &self.session.plan;
        let params = plan.params();
        let log_slots = params.log_n() - 1;
        let forms = (0..plan.block_parts()).map(|part| {
            let (level, scale) = plan.part_form(part);
            Shape { level, scale, log_slots }
        });
        let forms = forms.collect();
        let label = self.session.label(Content::Block, meta)?;
        let in_file = Error::in_file(path);
        let mut writer = self.key.writer(out, params, forms, &label).map_err(&in_file)?;
        match &self.key {
            FileEncryptor::Public(key) => {
                plan.encrypt_block(key, block, records, |_, part| Ok(writer.write(&part)?))?;
            }
            FileEncryptor::Secret(key) => {
                plan.encrypt_block_seeded(key, block, records, |_, part| {
                    Ok(writer.write_seeded(&part)?)
                })?;
            }
        }
        writer.finish().map_err(&in_file)
    }
}
