//! The bytes of an upload, on their way to the disk.

use crate::{
    app::{Counters, Server},
    audit::Event,
    clock::now,
    inspect,
    problem::{Answer, Problem},
    records::{Collection, Object, Upload},
    uploads::Progress,
};
use axum::{body::Bytes, http::StatusCode};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};
use sudare_roles::error::Error;
use tokio::sync::mpsc;

/// Takes what comes of an upload, keeps as much as came, and makes an object of it when all is
/// there. Returns how many bytes are there.
///
/// # Errors
/// A [`Problem`] for what is refused; the upload is then gone, or as it was before the bytes that
/// were too many.
pub fn receive(
    app: &Server,
    upload: &Upload,
    progress: &mut Progress,
    chunks: mpsc::Receiver<Bytes>,
) -> Answer<u64> {
    let path = app.store.upload(&upload.id);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(failed)?;
    // What was not said to be there may be torn.
    file.set_len(upload.received).map_err(failed)?;
    let hasher = progress.hasher(&file, upload.received).map_err(failed)?;
    let start = start_of(&file, upload.received).map_err(failed)?;
    let mut taking = Taking { upload, path, file, hasher, received: upload.received, start };
    let taken = taking.take(app, progress, chunks);
    if let Err(problem) = taken {
        if problem.status.is_client_error() && problem.kind != TOO_LONG {
            discard(app, upload, problem.kind == SECRET_KEY)?;
        } else {
            taking.settle(app, progress)?;
        }
        return Err(problem);
    }
    taking.settle(app, progress)?;
    let received = taking.received;
    if received == upload.bytes {
        taking.finish_or_discard(app, progress)?;
    }
    Ok(received)
}

/// Makes an object of an upload of which all is here, where the server was killed before it did, or failed to.
///
/// # Errors
/// As [`receive`].
pub fn finish(app: &Server, upload: &Upload, progress: &mut Progress) -> Answer<()> {
    let path = app.store.upload(&upload.id);
    // Or it has the place of an object, of which nothing is known yet.
    let path = match path.exists() {
        true => path,
        false => app.store.bring_object(&upload.tenant, &upload.digest)?,
    };
    let file = File::open(&path).map_err(failed)?;
    let hasher = progress.hasher(&file, upload.bytes).map_err(failed)?;
    let start = start_of(&file, upload.bytes).map_err(failed)?;
    let taking = Taking { upload, path, file, hasher, received: upload.bytes, start };
    taking.finish_or_discard(app, progress)
}

/// What a secret key is refused with.
const SECRET_KEY: &str = "SecretKey";
/// What bytes beyond the end are refused with.
const TOO_LONG: &str = "UploadTooLong";

/// The system refused to write or to read what comes.
fn failed(error: io::Error) -> Problem {
    Error::io("keep", Path::new("an upload"), error).into()
}

/// The first bytes of an upload of which so many are here, to the end of which its file is set.
fn start_of(mut file: &File, received: u64) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.rewind()?;
    file.take(received.min(inspect::START_BYTES as u64)).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(received))?;
    Ok(start)
}

/// Forgets an upload; what came of a secret key is overwritten.
fn discard(app: &Server, upload: &Upload, secret: bool) -> Answer<()> {
    if secret {
        tracing::warn!(tenant = upload.tenant, "a secret key was sent: refused and wiped");
        app.store.wipe_upload(&upload.id)?;
        app.records.note(&Event::SecretKeyRefused { tenant: &upload.tenant })?;
    } else {
        app.store.remove_upload(&upload.id)?;
    }
    app.records.remove_upload(&upload.id)?;
    app.uploads.forget(&upload.id);
    Ok(())
}

struct Taking<'a> {
    upload: &'a Upload,
    path: PathBuf,
    file: File,
    hasher: blake3::Hasher,
    received: u64,
    /// The first bytes.
    start: Vec<u8>,
}

impl Taking<'_> {
    fn take(
        &mut self,
        app: &Server,
        progress: &mut Progress,
        mut chunks: mpsc::Receiver<Bytes>,
    ) -> Answer<()> {
        while let Some(chunk) = chunks.blocking_recv() {
            let room = self.upload.bytes.saturating_sub(self.received);
            if chunk.len() as u64 > room {
                let detail =
                    format!("more than the {} bytes that were declared", self.upload.bytes);
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LONG, detail));
            }
            let missing = inspect::START_BYTES.saturating_sub(self.start.len());
            self.start.extend(chunk.iter().take(missing));
            if inspect::is_secret(&self.start) {
                if let Ok(mut bytes) = chunk.try_into_mut() {
                    bytes.fill(0);
                }
                return Err(Problem::unusable(
                    SECRET_KEY,
                    "this is a secret key, which the server must not have: it was refused and \
                     wiped. Send evaluation keys (evaluation.key), and make new keys if anybody \
                     else could have read what was sent",
                ));
            }
            self.file.write_all(&chunk).map_err(failed)?;
            self.hasher.update(&chunk);
            self.received += chunk.len() as u64;
            Counters::add(&app.counters.uploaded_bytes, chunk.len() as u64);
            self.look(app, progress)?;
        }
        Ok(())
    }

    /// Reads the header once it is here.
    fn look(&mut self, app: &Server, progress: &mut Progress) -> Answer<()> {
        if progress.about.is_some() || self.start.len() < inspect::START_BYTES {
            return Ok(());
        }
        let Upload { collection, bytes, .. } = *self.upload;
        match inspect::header_bytes(&self.start) {
            Some(header) if self.received >= header.min(bytes) => {
                let mut file = &self.file;
                file.rewind().map_err(failed)?;
                let allowed = app.limits.insecure_allowed;
                progress.about = Some(inspect::header(file, bytes, collection, allowed)?);
                file.seek(SeekFrom::Start(self.received)).map_err(failed)?;
                Ok(())
            }
            Some(_) => Ok(()),
            None if collection == Collection::Models && bytes <= inspect::MOST_MODEL_BYTES => {
                Ok(())
            }
            None => Err(Problem::unusable(
                "Malformed",
                "this is no file of keys or ciphertexts of this program",
            )),
        }
    }

    /// What is here is on the disk, and is known to be.
    fn settle(&mut self, app: &Server, progress: &mut Progress) -> Answer<()> {
        self.file.sync_data().map_err(failed)?;
        app.records.received(&self.upload.id, self.received, now())?;
        progress.keep(self.hasher.clone(), self.received);
        Ok(())
    }

    /// Makes an object of an upload that is whole; one that cannot be an object is forgotten.
    fn finish_or_discard(self, app: &Server, progress: &mut Progress) -> Answer<()> {
        let upload = self.upload;
        let finished = self.finish(app, progress);
        if finished.as_ref().is_err_and(|problem| !problem.status.is_server_error()) {
            discard(app, upload, false)?;
        }
        finished
    }

    fn finish(mut self, app: &Server, progress: &mut Progress) -> Answer<()> {
        self.look(app, progress)?;
        let Upload { id, tenant, collection, digest, bytes, .. } = self.upload;
        let found = self.hasher.finalize().to_string();
        if found != *digest {
            return Err(Problem::unusable(
                "DigestMismatch",
                format!("what came has the digest {found}, {digest} was declared: send it again"),
            ));
        }
        let about = match progress.about.take() {
            Some(about) => about,
            None if *collection == Collection::Models => {
                let mut file = &self.file;
                file.rewind().map_err(failed)?;
                inspect::plain_model(file, *bytes)?
            }
            None => {
                let detail = "this is no file of keys or ciphertexts of this program";
                return Err(Problem::unusable("Malformed", detail));
            }
        };
        app.store.share_object(&self.path, tenant, digest)?;
        app.store.adopt(&self.path, tenant, digest)?;
        let object = Object {
            tenant: tenant.clone(),
            digest: digest.clone(),
            collection: *collection,
            bytes: *bytes,
            created: now(),
            about,
        };
        app.records.complete_upload(id, &object)?;
        app.uploads.forget(id);
        tracing::info!(tenant, digest, bytes, collection = collection.name(), "received");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::testing::server;
    use std::fs;

    const MODEL: &[u8] = br#"{"kind":"logistic regression","weights":[1.0,2.0],"columns":["a"],
        "target":"y","divisors":[1.0],"iterations":1,"rows":2}"#;

    /// An upload of a model, of which all is here and known to be, and nothing else.
    fn whole(app: &Server, content: &[u8]) -> Upload {
        let digest = blake3::hash(MODEL).to_string();
        let (id, bytes, tenant, server) = ("u", MODEL.len() as u64, "clinic", "one");
        let upload = Upload {
            id: id.into(),
            tenant: tenant.into(),
            server: server.into(),
            collection: Collection::Models,
            digest,
            bytes,
            received: bytes,
            complete: false,
            touched: now(),
        };
        assert!(app.records.begin_upload(&upload, 1 << 20).unwrap());
        fs::write(app.store.upload(id), content).unwrap();
        upload
    }

    fn is_known(app: &Server, upload: &Upload) -> bool {
        let found = app.records.object(&upload.tenant, &upload.digest).unwrap();
        let again = app.records.upload(&upload.tenant, &upload.id).unwrap();
        assert_eq!(again.is_some_and(|upload| upload.complete), found.is_some());
        found.is_some()
    }

    #[test]
    fn what_was_whole_before_a_kill_becomes_an_object() {
        for has_its_place in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let app = server(folder.path(), 0);
            let upload = whole(&app, MODEL);
            let path = app.store.upload(&upload.id);
            if has_its_place {
                app.store.adopt(&path, &upload.tenant, &upload.digest).unwrap();
            }
            assert!(!is_known(&app, &upload));
            finish(&app, &upload, &mut Progress::default()).unwrap();
            assert!(is_known(&app, &upload) && !path.exists());
            let object = app.store.bring_object(&upload.tenant, &upload.digest).unwrap();
            assert_eq!(fs::read(object).unwrap(), MODEL);
        }
    }

    #[test]
    fn what_was_whole_and_is_none_of_that_digest_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let app = server(folder.path(), 0);
        let upload = whole(&app, &MODEL.to_ascii_uppercase());
        let problem = finish(&app, &upload, &mut Progress::default()).unwrap_err();
        assert_eq!(problem.kind, "DigestMismatch");
        assert!(!is_known(&app, &upload) && !app.store.upload(&upload.id).exists());
    }
}
