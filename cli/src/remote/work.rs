//! Requests of workers to a service.

use super::client::{Client, checked, expect_success, json, no_answer};
use serde::Serialize;
use std::{path::Path, time::Duration};
use sudare_roles::{
    error::{Error, Result},
    os::files::NewFile,
    owner::outgoing::{Destination, Outgoing},
};
use sudare_server::{Assignment, Blob, Desk, Hold, Leaving, Offer, Report};
use ureq::http::StatusCode;

fn body(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::Bug(error.to_string()))
}

impl Client {
    /// Returns the URL of an action on a held job.
    fn of(&self, hold: &Hold, what: &str) -> String {
        self.url(&format!("/v1/work/{}/{}/{what}", hold.job, hold.fence))
    }

    /// Sends a file to a URL that ends with its digest.
    fn put(&self, hold: &Hold, what: &str, file: &Outgoing) -> Result<()> {
        let url = self.of(hold, &format!("{what}/{}", file.digest()?));
        let answer = self.until_answered(|| {
            // From the start each time: a request that broke off has sent a part.
            let file = file.rewound()?;
            self.agent.put(&url).header("authorization", self.authorization()).send(file)
        })?;
        expect_success(answer).map(|_| ())
    }
}

/// Decides whether all files of a job are at the server.
fn names_are_plain(assignment: &Assignment) -> bool {
    let Assignment { job, keys, tables, model, states, .. } = assignment;
    let mut blobs = tables.iter().chain(states).chain(model).chain([keys]);
    checked(job).is_ok() && blobs.all(is_plain)
}

/// Decides whether a file is at the server, and its names can be names of local files.
fn is_plain(blob: &Blob) -> bool {
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        // A dot at the start would allow `..` and hidden files.
        !name.is_empty() && name.chars().all(is_plain) && !name.starts_with('.')
    };
    let mut parts =
        blob.path.strip_prefix("/v1/work/").into_iter().flat_map(|path| path.split('/'));
    parts.next().is_some_and(is_name)
        && parts.all(is_name)
        && is_name(&blob.name)
        && checked(&blob.digest).is_ok()
}

impl Desk for Client {
    fn claim(&self, offer: &Offer) -> Result<Option<Assignment>> {
        let post = self.agent.post(self.url("/v1/work/claim"));
        let post = post.header("authorization", self.authorization());
        // Not repeated here: the worker asks again by itself.
        let answer = self.once(post.send(body(offer)?))?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        let assignment = json(answer)?;
        // A worker uses these names for local files and sends its token to these paths.
        if !names_are_plain(&assignment) {
            return Err(no_answer(&"a job with names or addresses that are not its own"));
        }
        Ok(Some(assignment))
    }

    fn renew(&self, hold: &Hold, report: &Report, within: Duration) -> Result<()> {
        let post = self.agent.post(self.of(hold, "renew"));
        // An answer after the end of the lease is of no use, and the worker must end its process
        // then.
        let post = post.config().timeout_global(Some(within)).build();
        let post = post.header("authorization", self.authorization());
        self.once(post.send(body(report)?)).map(|_| ())
    }

    fn fetch(&self, blob: &Blob, file: NewFile) -> Result<()> {
        // Checked again at the point of use, whatever the caller did before.
        if !is_plain(blob) {
            return Err(no_answer(&format!("to read {:?}, not a file of a job", blob.path)));
        }
        self.read(&blob.path, &blob.digest, file, |_, _| {}).map(|_| ())
    }

    fn store_state(&self, hold: &Hold, name: &str, state: &Path) -> Result<()> {
        let state = Outgoing::open(state, &[Destination::States], false)?;
        self.put(hold, &format!("states/{name}"), &state)
    }

    fn finish(&self, hold: &Hold, result: &Path) -> Result<()> {
        self.put(hold, "result", &Outgoing::open(result, &[Destination::Results], false)?)
    }

    fn leave(&self, hold: &Hold, why: &Leaving) -> Result<()> {
        let url = self.of(hold, "leave");
        let body = body(why)?;
        let answer = self.until_answered(|| {
            self.agent.post(&url).header("authorization", self.authorization()).send(&body[..])
        })?;
        expect_success(answer).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, net::TcpListener};

    #[test]
    fn files_of_jobs_are_at_the_server() {
        let blob = |name: &str, digest: &str, path: &str| Blob {
            name: name.into(),
            digest: digest.into(),
            bytes: 1,
            path: path.into(),
        };
        let path = "/v1/work/0123/7/files/1000/00ff/iteration-000002.ct";
        assert!(is_plain(&blob("iteration-000002.ct", "00ff", path)));
        for elsewhere in [
            "http://127.0.0.2:1/v1/work/0/7/files/1",
            "@127.0.0.2:1/v1/work/0",
            "//server.example/v1/work/0",
            ".server.example/v1/work/0",
            "/v1/work/",
            "/v1/work//x",
            "/v1/work/0/../../keys/1",
            "/v1/work/0?x=/v1",
            "/v1/work/0#x",
            "/v1/keys/0",
            "",
        ] {
            assert!(!is_plain(&blob("keys", "00ff", elsewhere)), "{elsewhere}");
        }
        for name in ["../secret.key", "/etc/passwd", "a/b", "..", ".", ""] {
            assert!(!is_plain(&blob(name, "00ff", path)), "{name}");
            assert!(!is_plain(&blob("keys", name, path)), "{name}");
        }
    }

    /// A worker sends only results and states, whatever other files its directory has.
    #[test]
    fn workers_send_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::new(&url, "sudare_token", None).unwrap();
        let hold = Hold { job: "0".into(), fence: 1 };
        let secret = [&b"\x89sudare\n\x01\0\0\0\x01\0\x01\0"[..], &[0; 500]].concat();
        for file in [&secret[..], b"\x89sealed\n", b"a,b\n1,2\n", b"{}", b"PAR1", b"\x93NUMPY", b""]
        {
            let path = folder.path().join("file");
            fs::write(&path, file).unwrap();
            client.finish(&hold, &path).unwrap_err();
            client.store_state(&hold, "iteration-000002.ct", &path).unwrap_err();
            let none = listener.accept().unwrap_err();
            assert_eq!(none.kind(), std::io::ErrorKind::WouldBlock);
        }
    }
}
