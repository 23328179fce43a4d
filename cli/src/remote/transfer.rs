//! Transfers of files to a service and from it, in parts that are repeated after broken connections.

use super::client::{
    Client, Patience, Seen, checked, expect_success, is_passing, no_answer, refusal,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::io::{Read, Write};
use sudare_roles::{
    error::{Error, Result},
    os::files::NewFile,
    owner::outgoing::Outgoing,
};
use ureq::{
    Body,
    http::{Response, StatusCode},
};

/// Bytes per upload request: proxies limit larger ones.
const CHUNK_BYTES: u64 = 8 << 20;
/// Bytes per read.
const READ_AT_ONCE: usize = 1 << 20;

impl Client {
    /// Sends a file, unless the service has it, and returns its digest. `progress` is called with
    /// the bytes that arrived, and with all bytes.
    pub fn upload(&self, file: &Outgoing, mut progress: impl FnMut(u64, u64)) -> Result<String> {
        let collection = file.destination().name();
        // The digest names the object, so a file that the service has is found before it is sent.
        let digest = file.digest()?;
        let bytes = file.bytes();
        if let Seen::There = self.look_for(&format!("/v1/{collection}/{digest}"))? {
            progress(bytes, bytes);
            return Ok(digest);
        }
        let (mut place, mut sent) = self.begin(collection, &digest, bytes)?;
        let mut patience = Patience::new();
        while sent < bytes {
            progress(sent, bytes);
            match self.append(&place, sent, &file.part(sent, CHUNK_BYTES)?)? {
                Appended::All(now) if now > sent => (sent, patience) = (now, Patience::new()),
                // Without this limit, the same part would go forever to a server that accepts nothing.
                Appended::All(_) => patience.wait(no_answer(&"that it has taken nothing"))?,
                Appended::Some(error) => {
                    patience.wait(error)?;
                    // The service knows how much arrived, or may have dropped the upload.
                    (place, sent) = self.begin(collection, &digest, bytes)?;
                }
            }
        }
        progress(sent, bytes);
        Ok(digest)
    }

    /// Begins an upload, or finds its state.
    fn begin(&self, collection: &str, digest: &str, bytes: u64) -> Result<(String, u64)> {
        let url = self.url(&format!("/v1/{collection}"));
        let answer = self.until_answered(|| {
            let post = self.agent.post(&url).header("authorization", self.authorization());
            let post = post.header("tus-resumable", "1.0.0");
            let post = post.header("upload-length", bytes.to_string());
            post.header("upload-metadata", format!("digest {}", STANDARD.encode(digest)))
                .send_empty()
        })?;
        let answer = expect_success(answer)?;
        // Checked, so that a server cannot send the file elsewhere.
        let place = header(&answer, "location").map(upload_path).transpose()?;
        let offset = header(&answer, "upload-offset").and_then(|text| text.parse().ok());
        place.zip(offset).ok_or_else(|| no_tus(answer))
    }

    fn append(&self, place: &str, offset: u64, chunk: &[u8]) -> Result<Appended> {
        let patch = self.agent.patch(self.url(place));
        let patch = patch.header("authorization", self.authorization());
        let patch = patch.header("tus-resumable", "1.0.0");
        let patch = patch.header("upload-offset", offset.to_string());
        let patch = patch.header("content-type", "application/offset+octet-stream").send(chunk);
        let answer = match patch {
            Ok(answer) => answer,
            Err(error) => return Ok(Appended::Some(self.connection.error(&error))),
        };
        let status = answer.status();
        // Each can follow from a broken connection or another request. `begin` finds the true
        // state.
        let goes_on = matches!(
            status,
            StatusCode::CONFLICT
                | StatusCode::LOCKED
                | StatusCode::NOT_FOUND
                | StatusCode::REQUEST_TIMEOUT
                | StatusCode::INSUFFICIENT_STORAGE
        );
        if goes_on || status.is_server_error() || is_passing(&answer) {
            return Ok(Appended::Some(refusal(answer)));
        }
        let answer = expect_success(answer)?;
        let offset = header(&answer, "upload-offset").and_then(|text| text.parse().ok());
        offset.map(Appended::All).ok_or_else(|| no_tus(answer))
    }

    /// Writes a result to a new file, and returns its size.
    pub fn download(
        &self,
        digest: &str,
        file: NewFile,
        progress: impl FnMut(u64, u64),
    ) -> Result<u64> {
        self.read(&format!("/v1/results/{}", checked(digest)?), digest, file, progress)
    }

    /// Writes the content at a path to a new file, if it has this digest, and returns its size.
    pub(super) fn read(
        &self,
        place: &str,
        digest: &str,
        mut file: NewFile,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<u64> {
        let path = file.path().to_owned();
        let io = |error| Error::io("write", &path, error);
        let mut hasher = blake3::Hasher::new();
        let mut have = 0;
        let mut patience = Patience::new();
        let mut buffer = vec![0; READ_AT_ONCE];
        let mut announced = None;
        loop {
            let url = self.url(place);
            let answer = self.until_answered(|| {
                let get = self.agent.get(&url).header("authorization", self.authorization());
                get.header("range", format!("bytes={have}-")).call()
            })?;
            let answer = expect_success(answer)?;
            let total = total_of(&answer, have).ok_or_else(|| {
                self.connection.interrupted("a proxy on the way drops the header of ranges")
            })?;
            // Parts of two different files would otherwise be joined.
            if *announced.get_or_insert(total) != total {
                return Err(no_answer(&format!(
                    "{total} bytes long, where it was of another length before"
                )));
            }
            let mut body = answer.into_body().into_reader();
            // An error ends this part only. The next request continues after the bytes that
            // arrived.
            while let Ok(count @ 1..) = body.read(&mut buffer) {
                let part = buffer.get(..count).unwrap_or_default();
                have = have.saturating_add(count as u64);
                // A server could send without an end and fill the disk.
                if have > total {
                    return Err(no_answer(&format!(
                        "longer than the {total} bytes that it announced"
                    )));
                }
                hasher.update(part);
                file.write_all(part).map_err(io)?;
                patience = Patience::new();
                progress(have, total);
            }
            if have >= total {
                break;
            }
            patience.wait(self.connection.interrupted("the connection broke"))?;
        }
        // The file gets its name only after this check.
        let found = hasher.finalize().to_string();
        if found != digest {
            return Err(Error::OtherFile { path, found, expected: digest.into() });
        }
        file.finish()?;
        Ok(have)
    }
}

/// Outcome of sending a part.
enum Appended {
    /// The whole part arrived; the total number of bytes.
    All(u64),
    /// A part of it may have arrived, for this reason.
    Some(Error),
}

/// Returns the path of an upload, which must be on the server of the request.
fn upload_path(location: &str) -> Result<String> {
    match location.strip_prefix("/v1/uploads/").map(checked) {
        Some(Ok(_)) => Ok(location.into()),
        _ => Err(no_answer(&format!(
            "to send the file to {location:?}, not to an upload of its own"
        ))),
    }
}

fn header<'a>(answer: &'a Response<Body>, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

/// Returns the total size of a file from an answer whose body begins at byte `first`.
fn total_of(answer: &Response<Body>, first: u64) -> Option<u64> {
    if answer.status() == StatusCode::PARTIAL_CONTENT {
        let range = header(answer, "content-range")?.strip_prefix("bytes ")?;
        let (range, total) = range.split_once('/')?;
        let from: u64 = range.split_once('-')?.0.parse().ok()?;
        // A server or proxy that ignores the range would send bytes from elsewhere.
        return (from == first).then(|| total.parse().ok())?;
    }
    let all = || header(answer, "content-length")?.parse().ok();
    // A whole file in place of a range is of use only at the start.
    (first == 0).then(all)?
}

fn no_tus(answer: Response<Body>) -> Error {
    let detail = format!("it answered {} without the state of the upload", answer.status());
    Error::Refused { kind: "Http".into(), detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_stay_at_the_server() {
        assert_eq!(upload_path("/v1/uploads/0af3").unwrap(), "/v1/uploads/0af3");
        for elsewhere in [
            "http://127.0.0.2:1/v1/uploads/0",
            "https://server.example/v1/uploads/0",
            "//server.example/v1/uploads/0",
            "@127.0.0.2:1/v1/uploads/0",
            ".server.example/v1/uploads/0",
            "/v1/uploads/",
            "/v1/uploads/../keys",
            "/v1/uploads/0/1",
            "/v1/uploads/0?x=1",
            "/v1/uploads/0#x",
            "/v1/uploads/%2e%2e",
            "/v1/uploads/0\r\nx: y",
            "/v1/keys/0",
            "v1/uploads/0",
            "",
        ] {
            assert!(upload_path(elsewhere).is_err(), "{elsewhere}");
        }
    }
}
