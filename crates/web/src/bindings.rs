//! JavaScript classes for the page's Worker.
//!
//! They return JSON, files and bytes of files. Keys stay in the module until an object is freed,
//! and are then wiped.

use crate::{
    fault, owner, scorer, shown,
    table::{self, columns},
};
use js_sys::{Function, Uint8Array};
use std::{
    cell::RefCell,
    io::{self, BufWriter, Read, Write},
    path::Path,
};
use sudare_roles::{error::Error, owner::outgoing, sealed::Passphrase};
use wasm_bindgen::{JsError, JsValue, prelude::wasm_bindgen};

/// Bytes to pass to the page at a time.
const AT_ONCE: usize = 1 << 20;

/// Converts an error to a JavaScript `Error` whose name is [`Error::kind`]. Its message has a line for
/// each fault.
fn refused(error: impl Into<Error>) -> JsValue {
    let error = error.into();
    let thrown = js_sys::Error::new(&fault::sentences(&error).join("\n"));
    let kind = error.kind();
    thrown.set_name(&kind);
    thrown.into()
}

fn json(value: &impl serde::Serialize) -> Result<String, JsValue> {
    serde_json::to_string(value).map_err(|error| refused(Error::Bug(error.to_string())))
}

/// Passes the location of the next bytes in memory to a function of the page, without a copy.
struct Sink(Function);

impl Sink {
    fn buffered(write: Function) -> BufWriter<Self> {
        BufWriter::with_capacity(AT_ONCE, Self(write))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let place = [bytes.as_ptr() as usize, bytes.len()].map(JsValue::from);
        let [start, length] = &place;
        let written = self.0.call2(&JsValue::NULL, start, length);
        match written {
            Ok(_) => Ok(bytes.len()),
            Err(error) => Err(io::Error::other(String::from(js_sys::Error::from(error).message()))),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file of the page from its start.
struct Source {
    /// Returns at most the requested number of bytes from an offset.
    read: Function,
    at: u64,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Offsets in files of a browser are exact as doubles.
        let [start, length] = [self.at as f64, buffer.len() as f64].map(JsValue::from);
        let part = self.read.call2(&JsValue::NULL, &start, &length);
        let part = part.map_err(|error| {
            io::Error::other(String::from(js_sys::Error::from(error).message()))
        })?;
        let part = Uint8Array::new(&part).to_vec();
        // The page's function may return more bytes than it was asked for.
        let count = part.len().min(buffer.len());
        for (byte, read) in buffer.iter_mut().zip(part) {
            *byte = read;
        }
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

/// Refuses a file of `bytes` bytes unless it may be sent to a collection of the service. Calls
/// `read` with the offset and the length of parts of the file.
///
/// # Errors
/// The reason why the file must stay here.
#[wasm_bindgen]
pub fn check(read: Function, bytes: f64, collection: &str) -> Result<(), JsValue> {
    let collection = collection.parse().map_err(|error: Error| refused(error))?;
    let source = Source { read, at: 0 };
    let name = Path::new("the file");
    // The page sends no models in clear.
    let found = outgoing::check(source, bytes as u64, name, &[collection], false);
    found.map(|_| ()).map_err(refused)
}

thread_local! {
    /// The function that progress is reported to. Progress may come from any thread on other
    /// platforms.
    static WATCHER: RefCell<Option<Function>> = const { RefCell::new(None) };
}

fn watched_by(watcher: Function) {
    WATCHER.with_borrow_mut(|kept| *kept = Some(watcher));
}

fn tell(done: usize) {
    WATCHER.with_borrow(|watcher| {
        // An exception from the page's function is ignored.
        let told = watcher.as_ref().map(|watcher| watcher.call1(&JsValue::NULL, &done.into()));
        drop(told);
    });
}

/// A CSV file.
#[wasm_bindgen]
pub struct Csv(table::Csv);

#[wasm_bindgen]
impl Csv {
    /// Creates a table from the text of a file.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(name: String, text: Vec<u8>) -> Self {
        Self(table::Csv::new(name, text))
    }

    /// Returns the columns of the file as JSON.
    ///
    /// # Errors
    /// The problem with the file.
    pub fn contents(&self) -> Result<String, JsValue> {
        json(&self.0.contents().map_err(refused)?)
    }

    /// Plans a job from a choice in JSON.
    ///
    /// # Errors
    /// The reason why the job is impossible with the table.
    pub fn plan(&self, choice: &str) -> Result<Owner, JsValue> {
        let choice = serde_json::from_str(choice).map_err(JsError::from)?;
        Ok(Owner(self.0.plan(&choice).map_err(refused)?))
    }

    /// Plans scores of the rows by a model.
    ///
    /// # Errors
    /// The reason why the rows do not suit the model.
    pub fn plan_scores(&self, scorer: &Scorer) -> Result<Owner, JsValue> {
        self.0.plan_scores(&scorer.0).map(Owner).map_err(refused)
    }

    /// Returns the options of `sudare keygen` that read the table as a choice in JSON does, each as a
    /// word.
    ///
    /// # Errors
    /// The reason why the choice does not suit the table.
    pub fn words(&self, choice: &str) -> Result<Vec<String>, JsValue> {
        let choice = serde_json::from_str(choice).map_err(JsError::from)?;
        Ok(columns::words(&self.0.options(&choice).map_err(refused)?))
    }
}

/// A decrypted model that scores rows.
#[wasm_bindgen]
pub struct Scorer(scorer::Scorer);

#[wasm_bindgen]
impl Scorer {
    /// Reads the file of a model.
    ///
    /// # Errors
    /// The problem with the file.
    pub fn read(text: &[u8], name: &str) -> Result<Scorer, JsValue> {
        scorer::Scorer::read(text, name).map(Self).map_err(refused)
    }

    /// Returns facts about the model as JSON.
    ///
    /// # Errors
    /// A bug.
    pub fn about(&self) -> Result<String, JsValue> {
        json(&self.0.about())
    }
}

/// A table with a plan.
#[wasm_bindgen]
pub struct Owner(owner::Owner);

#[wasm_bindgen]
impl Owner {
    /// Returns the summary of the plan as JSON.
    ///
    /// # Errors
    /// The reason why the job is impossible.
    pub fn summary(&self) -> Result<String, JsValue> {
        json(&self.0.summary().map_err(refused)?)
    }

    /// Draws a secret key.
    ///
    /// # Errors
    /// A browser without randomness.
    pub fn draw(&mut self) -> Result<Holder, JsValue> {
        self.0.draw().map(Holder).map_err(refused)
    }

    /// Makes the evaluation keys of a drawn key. Calls `write` with the location and length of each
    /// part of their file in turn, and `progress` with the number of finished keys. Returns bytes
    /// and digest as JSON.
    ///
    /// # Errors
    /// The exception from `write`.
    pub fn make_keys(
        &mut self,
        holder: &Holder,
        write: Function,
        progress: Function,
    ) -> Result<String, JsValue> {
        watched_by(progress);
        let written = self.0.make_keys(&holder.0, Sink::buffered(write), tell);
        json(&written.map_err(refused)?)
    }

    /// Returns the file of the secret key, sealed by a passphrase.
    ///
    /// # Errors
    /// The problem with the passphrase.
    pub fn seal(&self, holder: &Holder, passphrase: Vec<u8>) -> Result<Vec<u8>, JsValue> {
        let passphrase = Passphrase::new(passphrase).map_err(refused)?;
        self.0.seal(&holder.0, &passphrase).map_err(refused)
    }

    /// Encrypts the table. Calls `write` with the location and length of each part of the file in
    /// turn, and `progress` with the number of finished ciphertexts. Returns bytes and digest as
    /// JSON.
    ///
    /// # Errors
    /// The exception from `write`, or the problem with the table.
    pub fn encrypt(
        &self,
        holder: &Holder,
        write: Function,
        progress: Function,
    ) -> Result<String, JsValue> {
        watched_by(progress);
        json(&self.0.encrypt(&holder.0, Sink::buffered(write), tell).map_err(refused)?)
    }

    /// Encrypts the model that scores the rows, as [`Owner::encrypt`] does the table. Returns `null` as
    /// JSON for other jobs.
    ///
    /// # Errors
    /// The exception from `write`, or the problem with the model.
    pub fn encrypt_model(&self, holder: &Holder, write: Function) -> Result<String, JsValue> {
        json(&self.0.encrypt_model(&holder.0, Sink::buffered(write)).map_err(refused)?)
    }
}

/// The holder of a secret key.
#[wasm_bindgen]
pub struct Holder(owner::Holder);

#[wasm_bindgen]
impl Holder {
    /// Opens the sealed file of a secret key.
    ///
    /// # Errors
    /// The reason why the file cannot be opened.
    pub fn unseal(sealed: Vec<u8>, passphrase: Vec<u8>) -> Result<Holder, JsValue> {
        let passphrase = Passphrase::new(passphrase).map_err(refused)?;
        owner::Holder::unseal(sealed, passphrase).map(Self).map_err(refused)
    }

    /// Decrypts the result of a job, which must have this digest.
    ///
    /// # Errors
    /// The problem with the result.
    pub fn decrypt(&self, result: &[u8], digest: &str) -> Result<Shown, JsValue> {
        self.0.decrypt(result, digest).map(Shown).map_err(refused)
    }
}

/// A decrypted result.
#[wasm_bindgen]
pub struct Shown(shown::Shown);

#[wasm_bindgen]
impl Shown {
    /// Returns the file of the result as JSON.
    ///
    /// # Errors
    /// A bug.
    pub fn json(&self) -> Result<String, JsValue> {
        self.0.json().map_err(refused)
    }

    /// Returns the result as CSV. For a model, returns its weights.
    ///
    /// # Errors
    /// A bug.
    pub fn csv(&self) -> Result<String, JsValue> {
        self.0.csv().map_err(refused)
    }

    /// Returns figures of the columns of a table with this name. Returns `undefined` for a model.
    #[must_use]
    pub fn figures(&self, name: &str) -> Option<Page> {
        let figures = self.0.figures()?;
        Some(Page { body: figures.body().to_owned(), page: figures.page(name) })
    }

    /// Returns the model for scoring rows. Returns `undefined` for other results.
    #[must_use]
    pub fn scorer(&self) -> Option<Scorer> {
        self.0.scorer().map(Scorer)
    }

    /// Measures a model on a table.
    ///
    /// # Errors
    /// The reason why the model does not match the table.
    pub fn report(&self, csv: &Csv) -> Result<Page, JsValue> {
        let name = csv.0.name();
        let report = self.0.report(&csv.0).map_err(refused)?;
        Ok(Page { body: report.body(name), page: report.page(name) })
    }
}

/// The HTML of a result.
#[wasm_bindgen]
pub struct Page {
    body: String,
    page: String,
}

#[wasm_bindgen]
impl Page {
    /// Returns the content for embedding in a larger page.
    #[must_use]
    pub fn body(&self) -> String {
        self.body.clone()
    }

    /// Returns a page of its own.
    #[must_use]
    pub fn page(&self) -> String {
        self.page.clone()
    }
}
