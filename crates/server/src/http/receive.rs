//! Data of uploads, on the way to the disk.

use crate::{
    clock::now,
    jobs::{
        app::{Counters, Server},
        planning,
    },
    problem::{Answer, Problem, REMOVAL_PATIENCE},
    storage::{
        audit::Event,
        inspect,
        records::{Collection, Object, Removing, Upload},
        uploads::Progress,
    },
};
use axum::{body::Bytes, http::StatusCode};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};
use sudare_roles::{error::Error, owner::outgoing::is_secret};
use tokio::sync::OwnedMutexGuard;

/// Makes an object of an upload that has all its bytes, after a failure or a kill. Returns the completed
/// upload.
///
/// # Errors
/// Same as [`Receiving::end`].
pub fn finish(
    app: &Server,
    upload: Upload,
    mut progress: OwnedMutexGuard<Progress>,
) -> Answer<Upload> {
    let path = app.store.upload(&upload.id);
    // The file may have its final place already, before the records know of it.
    let path = match path.exists() {
        true => path,
        false => app.store.fetch_object(&upload.tenant, &upload.digest)?,
    };
    let file = File::open(&path).map_err(failed)?;
    let hasher = progress.hasher(&file, upload.bytes).map_err(failed)?;
    let start = start_of(&file, upload.bytes).map_err(failed)?;
    Receiving { upload, progress, path, file, hasher, start, unchecked: 0 }.finish_or_discard(app)
}

/// Bytes of an upload between two checks of the disk space.
// The size of a client's `PATCH`, which is thus checked once.
const MAX_UNCHECKED_BYTES: u64 = 8 << 20;
/// Returns the bytes of an upload until the next check of the disk space.
fn unchecked(upload: &Upload) -> u64 {
    upload.bytes.saturating_sub(upload.received).min(MAX_UNCHECKED_BYTES)
}

/// Error kind for secret keys.
const SECRET_KEY: &str = "SecretKey";
/// Error kind for bytes beyond the declared size.
const TOO_LONG: &str = "UploadTooLong";

/// Describes a failure to read or write an upload.
fn failed(error: io::Error) -> Problem {
    Error::io("keep", Path::new("an upload"), error).into()
}

/// Reads the first bytes of an upload, and moves to its end.
fn start_of(mut file: &File, received: u64) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.rewind()?;
    file.take(received.min(inspect::START_BYTES as u64)).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(received))?;
    Ok(start)
}

/// Deletes an upload. Overwrites the data of a secret key.
fn discard(app: &Server, upload: &Upload, secret: bool) -> Answer<()> {
    if secret {
        tracing::warn!(tenant = upload.tenant, "a secret key was sent, rejected and wiped");
        // Before the audit line, which a full disk may prevent: the key must be gone in any case.
        app.store.wipe_upload(&upload.id)?;
        app.records.note(&Event::SecretKeyRefused { tenant: &upload.tenant })?;
    } else {
        app.store.remove_upload(&upload.id)?;
    }
    app.records.remove_upload(&upload.id)?;
    app.uploads.forget(&upload.id);
    Ok(())
}

/// An upload that receives data.
pub struct Receiving {
    /// The upload, with the number of bytes received.
    upload: Upload,
    progress: OwnedMutexGuard<Progress>,
    path: PathBuf,
    file: File,
    hasher: blake3::Hasher,
    /// The first bytes.
    start: Vec<u8>,
    /// Bytes received since the last check of the disk space.
    unchecked: u64,
}

impl Receiving {
    /// Resumes an upload.
    ///
    /// # Errors
    /// A [`Problem`] if the system cannot open the file.
    pub fn begin(
        app: &Server,
        upload: Upload,
        mut progress: OwnedMutexGuard<Progress>,
    ) -> Answer<Self> {
        // Before the file is opened, so that a refused part leaves the upload as it was.
        app.disk.expect_room(unchecked(&upload))?;
        let path = app.store.upload(&upload.id);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(failed)?;
        // Bytes beyond the recorded offset may be incomplete.
        file.set_len(upload.received).map_err(failed)?;
        let hasher = progress.hasher(&file, upload.received).map_err(failed)?;
        let start = start_of(&file, upload.received).map_err(failed)?;
        Ok(Self { upload, progress, path, file, hasher, start, unchecked: 0 })
    }

    /// Writes the next chunk.
    ///
    /// # Errors
    /// A [`Problem`] for rejected data, or if the system cannot write.
    pub fn write(&mut self, app: &Server, chunk: Bytes) -> Answer<()> {
        let room = self.upload.bytes.saturating_sub(self.upload.received);
        // The quota has counted the declared size, so nothing beyond it is stored.
        if chunk.len() as u64 > room {
            let detail = format!(
                "the upload exceeds the declared {} bytes: declare the size of the file",
                self.upload.bytes
            );
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LONG, detail));
        }
        let missing = inspect::START_BYTES.saturating_sub(self.start.len());
        // A secret key may come in small chunks, so its first bytes are collected.
        self.start.extend(chunk.iter().take(missing));
        // Before the chunk is written: at most the first bytes of a secret key reach the disk.
        if is_secret(&self.start) {
            // Wipes the chunk in memory, unless something else still holds it.
            if let Ok(mut bytes) = chunk.try_into_mut() {
                bytes.fill(0);
            }
            return Err(Problem::unusable(
                SECRET_KEY,
                "this is a secret key, which the server must not have: it was rejected and wiped. Send \
                 evaluation keys (evaluation.key), and make new keys if anyone else could have read \
                 the upload",
            ));
        }
        self.unchecked = self.unchecked.saturating_add(chunk.len() as u64);
        // Other uploads fill the disk meanwhile, so one check at the beginning is not enough.
        if self.unchecked > MAX_UNCHECKED_BYTES {
            app.disk.expect_room(unchecked(&self.upload))?;
            self.unchecked = chunk.len() as u64;
        }
        self.file.write_all(&chunk).map_err(failed)?;
        self.hasher.update(&chunk);
        self.upload.received += chunk.len() as u64;
        Counters::add(&app.counters.uploaded_bytes, chunk.len() as u64);
        self.read_header(app)
    }

    /// Stores the received data unless it was rejected, and makes an object of a complete upload. Returns
    /// the upload in its new state.
    ///
    /// # Errors
    /// The error of the last chunk, or a [`Problem`] for a complete upload that is rejected. The upload is
    /// then deleted, or as it was before the excess bytes.
    pub fn end(mut self, app: &Server, written: Answer<()>) -> Answer<Upload> {
        if let Err(problem) = written {
            if !problem.may_pass() && problem.kind != TOO_LONG {
                discard(app, &self.upload, problem.kind == SECRET_KEY)?;
            } else if problem.retry_after.is_none() {
                // Chunks before the problem are good. The client continues after them.
                self.persist(app)?;
            }
            // Otherwise the client sends the same part again, and finds the upload unchanged.
            return Err(problem);
        }
        self.persist(app)?;
        if self.upload.received < self.upload.bytes {
            return Ok(self.upload);
        }
        self.finish_or_discard(app)
    }

    /// Reads the header once all of it is here.
    fn read_header(&mut self, app: &Server) -> Answer<()> {
        if self.progress.about.is_some() || self.start.len() < inspect::START_BYTES {
            return Ok(());
        }
        let Upload { collection, bytes, received, .. } = self.upload;
        match inspect::header_bytes(&self.start) {
            Some(header) if received >= header.min(bytes) => {
                let mut file = &self.file;
                // The tenant chose the size of the header, so nothing is parsed without reserved
                // memory.
                let mut turn = app.gate.enter(&self.upload.tenant, inspect::memory_of(header))?;
                let allowed = app.limits.insecure_allowed;
                let header = inspect::header(file, bytes, collection, allowed)?;
                // Planning may take seconds, and most files of a job share their plan.
                if app.planned.get(&header.plan).is_none() {
                    let memory = header.table_bytes;
                    turn.reserve(memory)?;
                    planning::plan(&app.program, &self.path, bytes, collection, memory)?;
                    app.planned.insert(header.plan, ());
                }
                drop(turn);
                self.progress.about = Some(header.about);
                // Reading the header moved the position, and the next chunk belongs at the end.
                file.seek(SeekFrom::Start(received)).map_err(failed)?;
                Ok(())
            }
            Some(_) => Ok(()),
            // A model in the clear has no header. It is checked when it is complete.
            None if collection == Collection::Models && bytes <= inspect::MAX_MODEL_BYTES => Ok(()),
            None => Err(Problem::unusable(
                "Malformed",
                "this is not a file of keys or ciphertexts: send a file that sudare wrote",
            )),
        }
    }

    /// Syncs the data to the disk, and records the offset.
    fn persist(&mut self, app: &Server) -> Answer<()> {
        // The records must not count bytes that a power failure could take.
        self.file.sync_data().map_err(failed)?;
        self.upload.touched = now();
        app.records.received(&self.upload.id, self.upload.received, self.upload.touched)?;
        self.progress.set_digest(self.hasher.clone(), self.upload.received);
        Ok(())
    }

    /// Makes an object of a complete upload. Deletes an upload that cannot be one.
    fn finish_or_discard(mut self, app: &Server) -> Answer<Upload> {
        let finished = self.finish(app);
        if finished.as_ref().is_err_and(|problem| !problem.may_pass()) {
            discard(app, &self.upload, false)?;
        }
        finished.map(|()| Upload { complete: true, ..self.upload })
    }

    fn finish(&mut self, app: &Server) -> Answer<()> {
        // After a restart the facts of the header are unknown, so it is read again.
        self.read_header(app)?;
        let Upload { id, tenant, collection, digest, bytes, .. } = &self.upload;
        // Before a model is parsed, so that damage on the way is reported as such.
        let found = self.hasher.finalize().to_string();
        if found != *digest {
            return Err(Problem::unusable(
                "DigestMismatch",
                format!(
                    "the received file has the digest {found}, not the declared {digest}: send it again"
                ),
            ));
        }
        let about = match self.progress.about.take() {
            Some(about) => about,
            None if *collection == Collection::Models => {
                let mut file = &self.file;
                let _turn = app.gate.enter(tenant, inspect::memory_of_model(*bytes))?;
                file.rewind().map_err(failed)?;
                inspect::plain_model(file, *bytes)?
            }
            None => {
                let detail =
                    "this is not a file of keys or ciphertexts: send a file that sudare wrote";
                return Err(Problem::unusable("Malformed", detail));
            }
        };
        let object = Object {
            tenant: tenant.clone(),
            digest: digest.clone(),
            collection: *collection,
            bytes: *bytes,
            created: now(),
            about,
        };
        let keep =
            |done, adopt: &dyn Fn() -> _| app.records.complete_upload(id, &object, done, adopt);
        let kept = app.keep_object(&self.path, tenant, digest, REMOVAL_PATIENCE, keep)?;
        kept.map_err(|Removing| Problem::removing())?;
        app.uploads.forget(id);
        tracing::info!(tenant, digest, bytes, collection = collection.name(), "received");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::app::testing::server;
    use std::fs;

    const MODEL: &[u8] = br#"{"kind":"logistic regression","weights":[1.0,2.0],"columns":["a"],
        "target":"y","divisors":[1.0],"iterations":1,"rows":2}"#;

    /// Makes a complete upload of a model, and nothing else.
    fn whole(app: &Server, content: &[u8]) -> Upload {
        let digest = blake3::hash(MODEL).to_string();
        let id = "u";
        let bytes = MODEL.len() as u64;
        let tenant = "clinic";
        let server = "one";
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
        let begun = app.records.begin_upload(&upload, &app.limits.tenant).unwrap();
        assert_eq!(begun, crate::storage::records::Begun::Taken);
        fs::write(app.store.upload(id), content).unwrap();
        upload
    }

    fn finished(app: &Server, upload: &Upload) -> Answer<Upload> {
        finish(app, upload.clone(), app.uploads.take(&upload.id).unwrap())
    }

    fn is_known(app: &Server, upload: &Upload) -> bool {
        let found = app.records.object(&upload.tenant, &upload.digest).unwrap();
        let again = app.records.upload(&upload.tenant, &upload.id).unwrap();
        assert_eq!(again.is_some_and(|upload| upload.complete), found.is_some());
        found.is_some()
    }

    #[test]
    fn uploads_complete_before_a_kill_become_objects() {
        for has_its_place in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let app = server(folder.path(), 0);
            let upload = whole(&app, MODEL);
            let path = app.store.upload(&upload.id);
            if has_its_place {
                app.store.adopt(&path, &upload.tenant, &upload.digest).unwrap();
            }
            assert!(!is_known(&app, &upload));
            assert!(finished(&app, &upload).unwrap().complete);
            assert!(is_known(&app, &upload) && !path.exists());
            let object = app.store.fetch_object(&upload.tenant, &upload.digest).unwrap();
            assert_eq!(fs::read(object).unwrap(), MODEL);
        }
    }

    /// An object that is sent again during its removal has its file in the end, here and in the shared
    /// store.
    #[cfg(feature = "cluster")]
    #[test]
    fn files_sent_again_during_removal_stay() {
        use crate::{
            jobs::app::testing::with_store,
            storage::{records::Removal, store::testing::sharing},
        };
        let folder = tempfile::tempdir().unwrap();
        let [store, other] = sharing(folder.path());
        let app = with_store(folder.path(), 0, store);
        let first = whole(&app, MODEL);
        finished(&app, &first).unwrap();
        let begun = app.records.remove_object(&first.tenant, &first.digest, "two").unwrap();
        assert_eq!(begun, Removal::Begun);
        let again = whole(&app, MODEL);
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| finished(&app, &again).unwrap());
            // The file is in the shared store, and the upload waits.
            let name = folder.path().join("shared/objects/clinic").join(&first.digest);
            fs::remove_file(&name).unwrap();
            while !name.exists() {
                std::thread::yield_now();
            }
            assert!(!sent.is_finished());
            app.finish_removal(&first.tenant, &first.digest).unwrap();
            assert!(sent.join().unwrap().complete);
        });
        assert!(is_known(&app, &again));
        // A late removal of the first object leaves the second.
        app.finish_removal(&first.tenant, &first.digest).unwrap();
        for store in [&app.store, &other] {
            let path = store.fetch_object(&again.tenant, &again.digest).unwrap();
            assert_eq!(fs::read(path).unwrap(), MODEL);
        }
    }

    #[test]
    fn complete_uploads_with_another_digest_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let app = server(folder.path(), 0);
        let upload = whole(&app, &MODEL.to_ascii_uppercase());
        let problem = finished(&app, &upload).unwrap_err();
        assert_eq!(problem.kind, "DigestMismatch");
        assert!(!is_known(&app, &upload) && !app.store.upload(&upload.id).exists());
    }
}
