//! What encrypts an index and queries.

use super::setup::{Content, Session};
use crate::{
    error::{Error, Result},
    opened::Opened,
};
use serde::Serialize;
use std::{
    io::{Read, Write},
    path::Path,
    sync::Arc,
};
use sudare::{
    ckks::{
        Encryptor, SymmetricEncryptor,
        serial::{self, CiphertextWriter, Shape},
    },
    rlwe::SecretKey,
};
use sudare_apps::search::Record;

/// Encrypts what belongs to a search, by its public key or by the owner's secret key: what that
/// encrypts is half as large in files, and serves as well.
pub struct Writer {
    session: Session,
    key: Key,
}

enum Key {
    Public(Encryptor),
    Secret(SymmetricEncryptor),
}

impl Writer {
    /// By the public key in a file.
    ///
    /// # Errors
    /// As [`Session::of`].
    pub fn public<R: Read>(file: Opened<R>) -> Result<Self> {
        let session = Session::of(&file)?;
        let params = session.plan.params();
        let key = Key::Public(Encryptor::new(params, Arc::new(file.public_key(params)?))?);
        Ok(Self { session, key })
    }

    /// By the secret key of a session.
    ///
    /// # Errors
    /// [`Error::Library`] for a key of other parameters or from before a fork;
    /// [`Error::Usage`] for that of another session.
    pub fn secret(session: Session, key: Arc<SecretKey>) -> Result<Self> {
        if key.id() != session.key {
            let (found, needed) = (key.id(), session.key);
            return Err(Error::Usage(format!(
                "the secret key is {found}, this search has {needed}"
            )));
        }
        let key = Key::Secret(SymmetricEncryptor::new(session.plan.params(), key)?);
        Ok(Self { session, key })
    }

    /// What is public of the search.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Encrypts a query and writes its file; returns the bytes written.
    ///
    /// # Errors
    /// [`Error::Search`] for a vector that cannot be compared, or if queries are plain;
    /// [`Error::Library`] if it cannot be written.
    pub fn write_query(&self, out: &mut (impl Write + ?Sized), vector: &[f64]) -> Result<u64> {
        let Session { plan, setup, .. } = &self.session;
        let label = self.session.label(Content::Query, setup)?;
        let params = plan.params();
        Ok(match &self.key {
            Key::Public(key) => {
                let query = [plan.encrypt_query(key, vector)?];
                serial::write_ciphertexts(out, params, &query, &label)?
            }
            Key::Secret(key) => {
                let query = [plan.encrypt_query_seeded(key, vector)?];
                serial::write_seeded_ciphertexts(out, params, &query, &label)?
            }
        })
    }

    /// Encrypts a block and writes its file, which messages call `path`; returns the bytes written.
    pub(super) fn write_block(
        &self,
        (out, path): (&mut (impl Write + ?Sized), &Path),
        meta: &impl Serialize,
        (block, records): (usize, &[Option<Record<'_>>]),
    ) -> Result<u64> {
        let Session { plan, key: id, .. } = &self.session;
        let params = plan.params();
        let log_slots = params.log_n() - 1;
        let forms = (0..plan.block_parts()).map(|part| {
            let (level, scale) = plan.part_form(part);
            Shape { level, scale, log_slots }
        });
        let (forms, label) = (forms.collect(), self.session.label(Content::Block, meta)?);
        let in_file = Error::in_file(path);
        let writer = match &self.key {
            Key::Public(key) => {
                let mut writer =
                    CiphertextWriter::new(out, params, *id, forms, &label).map_err(&in_file)?;
                plan.encrypt_block(key, block, records, |_, part| Ok(writer.write(&part)?))?;
                writer
            }
            Key::Secret(key) => {
                let mut writer =
                    CiphertextWriter::seeded(out, params, *id, forms, &label).map_err(&in_file)?;
                plan.encrypt_block_seeded(key, block, records, |_, part| {
                    Ok(writer.write_seeded(&part)?)
                })?;
                writer
            }
        };
        writer.finish().map_err(&in_file)
    }
}
