//! The files of a key: a secret, a public and an evaluation key in one directory.

use super::security::{key_security, least_security};
use crate::{
    output::{self, Output, say},
    passphrase,
    progress::Progress,
};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use sudare::{
    ckks::{Params, serial},
    rlwe::{KeyGenerator, KeyRequest},
};
use sudare_roles::{
    clear::{coding::Coding, reading::Reading},
    error::{Error, Result},
    format::opened,
    os::files::{self, Access, NewFile},
    owner::secret,
    text::size,
};
use sudare_table::Encoding;

/// Directory of the files, and the passphrase of the secret key.
#[derive(Debug, clap::Args)]
pub struct KeyFiles {
    /// Directory for the files, created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Seal the secret key with a passphrase. The terminal asks for it, unless you pass
    /// --passphrase-fd
    #[arg(long)]
    passphrase: bool,
    #[command(flatten)]
    source: passphrase::Source,
    /// Replace existing files. You then lose the data that only the old secret key decrypts
    #[arg(long)]
    force: bool,
}

/// Names of the files in the directory.
const FILES: [&str; 3] = ["secret.key", "public.key", "evaluation.key"];

/// Keys to make for a job.
pub struct NewKeys<'a> {
    /// Parameters of all keys.
    pub params: &'a Params,
    /// The evaluation keys.
    pub request: &'a KeyRequest,
    /// The job, in words.
    pub job: String,
    /// A clause for the message about sizes, empty if there is nothing to add.
    pub remark: String,
    /// Label of all files.
    pub label: serial::Label,
    /// The table that the job was planned for, if later steps must read tables alike.
    pub table: Option<PlannedTable>,
}

/// The reading of a table.
pub struct PlannedTable {
    /// The options of the table.
    pub reading: Reading,
    /// The column that groups rows.
    pub by: Option<String>,
    /// The encoding of the columns.
    pub encoding: Encoding,
}

#[derive(Serialize)]
struct Report {
    params: String,
    log_n: u32,
    security_bits: f64,
    job: String,
    key_id: String,
    keys: usize,
    secret_key_bytes: u64,
    public_key_bytes: u64,
    evaluation_key_bytes: u64,
    public_key_digest: String,
    evaluation_key_digest: String,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    coding: Option<PathBuf>,
    out: PathBuf,
}

impl KeyFiles {
    fn paths(&self) -> [PathBuf; 3] {
        FILES.map(|name| self.out.join(name))
    }

    /// Rejects taken names. Call it before you plan the keys.
    pub fn check_free(&self) -> Result<()> {
        // A missing directory has no taken names, and is created later.
        if self.out.exists() {
            for path in self.paths().into_iter().chain([self.out.join(Coding::FILE)]) {
                files::check_free(&path, self.force)?;
            }
        }
        Ok(())
    }

    /// Prints the sizes of the keys, makes them, writes their files and reports them.
    pub fn make(&self, keys: &NewKeys<'_>, output: Output) -> Result<()> {
        let NewKeys { request, job, remark, label, .. } = keys;
        let params = keys.params;
        let request = *request;
        let [secret_path, public_path, evaluation_path] = self.paths();
        let name = &label.name;
        let evaluation_bytes = serial::evaluation_keys_bytes(params, request, label)?;
        let memory_bytes = request.bytes(params.rlwe())?;
        let security_bits = least_security(&key_security(params, request)?);
        say(format_args!(
            "{job}: {name}, N = 2^{}, {} levels, {security_bits:.0} bits of security{remark}; {} keys, {} \
             in memory, {} in {}",
            params.log_n(),
            params.top(),
            request.count(),
            size::bytes(memory_bytes),
            size::bytes(evaluation_bytes),
            evaluation_path.display(),
        ));
        // A named descriptor asks for a seal, too.
        let seal = self.passphrase || self.source.is_named();
        // Asked for before the work, so that you need not wait at the terminal for minutes.
        let passphrase = seal.then(|| self.source.to_seal(&secret_path)).transpose()?;
        files::make_folder(&self.out)?;
        let mut secret_file = NewFile::create(&secret_path, Access::Owner, self.force)?;
        let mut public_file = NewFile::create(&public_path, Access::Shared, self.force)?;
        let mut evaluation_file = NewFile::create(&evaluation_path, Access::Shared, self.force)?;
        let start = Instant::now();
        // The file has seeds in place of the uniform halves, so these are not made at all.
        let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(true);
        let secret = generator.secret_key()?;
        let public = generator.public_key(&secret)?;
        let evaluation_key_bytes = {
            let progress = Progress::new("Making keys", request.count());
            let made = |keys| progress.set(keys);
            let owner = (&mut generator, &secret);
            let file = &mut evaluation_file;
            // Written one by one as they are made, so that large sets of keys never need to fit in
            // memory.
            serial::generate_evaluation_keys(file, params, owner, request, label, made)
                .map_err(Error::in_file(&evaluation_path))?
        };

        // All files are complete before the first one gets its name.
        let passphrase = passphrase.as_ref();
        let secret_key_bytes =
            secret::write(&mut secret_file, &secret_path, params, &secret, label, passphrase)?;
        let public_key_bytes = serial::write_public_key(&mut public_file, params, &public, label)
            .map_err(Error::in_file(&public_path))?;
        let coding = self.out.join(Coding::FILE);
        match &keys.table {
            Some(PlannedTable { reading, by, encoding }) => {
                let key_id = secret.id().to_string();
                let file = Coding::new(reading, by.as_deref(), encoding.clone(), key_id);
                files::write_text(&coding, &file.to_json()?, self.force)?;
            }
            // A coding of earlier keys would be taken for one of these.
            None if coding.exists() => files::remove(&coding)?,
            None => {}
        }
        for file in [secret_file, public_file, evaluation_file] {
            file.finish()?;
        }

        let report = Report {
            params: name.clone(),
            log_n: params.log_n(),
            security_bits,
            job: job.clone(),
            key_id: secret.id().to_string(),
            keys: request.count(),
            secret_key_bytes,
            public_key_bytes,
            evaluation_key_bytes,
            // The digests of the files under their own names, as others will compute them.
            public_key_digest: digest(&public_path)?,
            evaluation_key_digest: digest(&evaluation_path)?,
            seconds: start.elapsed().as_secs_f64(),
            coding: keys.table.is_some().then_some(coding),
            out: self.out.clone(),
        };
        output.write(&report, text)
    }
}

/// Returns the digest of a file, in hexadecimal.
fn digest(path: &Path) -> Result<String> {
    Ok(blake3::Hash::from(opened::digest(path)?).to_string())
}

fn text(report: &Report) -> String {
    let file =
        |name: &str, bytes| format!("{} ({})", report.out.join(name).display(), size::bytes(bytes));
    let [secret, public, evaluation] = FILES;
    let coding = report.coding.iter().map(|path| ("only for you", path.display().to_string()));
    let coding: Vec<_> = coding.collect();
    let fields = [
        ("only for you", file(secret, report.secret_key_bytes)),
        ("to encrypt", file(public, report.public_key_bytes)),
        ("  its digest", report.public_key_digest.clone()),
        ("for the server", file(evaluation, report.evaluation_key_bytes)),
        ("  its digest", report.evaluation_key_digest.clone()),
        ("key", report.key_id.clone()),
        ("time", format!("{:.1} s", report.seconds)),
    ];
    output::fields(&[coding, fields.to_vec()].concat())
}
