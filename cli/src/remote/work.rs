//! A service, as its workers see it.

use super::client::{Client, expect_success, json};
use serde::Serialize;
use std::{path::Path, time::Duration};
use sudare_roles::{
    error::{Error, Result},
    files::{self, Access, NewFile},
};
use sudare_server::{Assignment, Blob, Desk, Hold, Leaving, Offer, Report};
use ureq::http::StatusCode;

fn body(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::Bug(error.to_string()))
}

impl Client {
    /// The address of something that is done for a job.
    fn of(&self, hold: &Hold, what: &str) -> String {
        self.url(&format!("/v1/work/{}/{}/{what}", hold.job, hold.fence))
    }

    /// Sends a file to where its digest is looked for at the end of the address.
    fn put(&self, hold: &Hold, what: &str, path: &Path) -> Result<()> {
        let url = self.of(hold, &format!("{what}/{}", files::digest(path)?));
        let file = files::open(path, Access::Shared)?.0.into_inner();
        let answer = self.until_answered(|| {
            // Again from the start, if it was sent in part.
            std::io::Seek::rewind(&mut &file)?;
            self.agent.put(&url).header("authorization", self.authorization()).send(&file)
        })?;
        expect_success(answer).map(|_| ())
    }
}

impl Desk for Client {
    fn claim(&self, offer: &Offer) -> Result<Option<Assignment>> {
        let post = self.agent.post(self.url("/v1/work/claim"));
        let post = post.header("authorization", self.authorization());
        let answer = self.once(post.send(body(offer)?))?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        json(answer).map(Some)
    }

    fn renew(&self, hold: &Hold, report: &Report, within: Duration) -> Result<()> {
        let post = self.agent.post(self.of(hold, "renew"));
        let post = post.config().timeout_global(Some(within)).build();
        let post = post.header("authorization", self.authorization());
        self.once(post.send(body(report)?)).map(|_| ())
    }

    fn fetch(&self, blob: &Blob, file: NewFile) -> Result<()> {
        self.read(&blob.path, &blob.digest, file, |_, _| {}).map(|_| ())
    }

    fn keep(&self, hold: &Hold, name: &str, state: &Path) -> Result<()> {
        self.put(hold, &format!("states/{name}"), state)
    }

    fn finish(&self, hold: &Hold, result: &Path) -> Result<()> {
        self.put(hold, "result", result)
    }

    fn leave(&self, hold: &Hold, why: &Leaving) -> Result<()> {
        let (url, body) = (self.of(hold, "leave"), body(why)?);
        let answer = self.until_answered(|| {
            self.agent.post(&url).header("authorization", self.authorization()).send(&body[..])
        })?;
        expect_success(answer).map(|_| ())
    }
}
