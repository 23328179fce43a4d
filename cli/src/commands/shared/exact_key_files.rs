//! The files of keys for integers: a secret, a public and an evaluation key in one directory.

use super::security::least_security;
use crate::{
    output::{self, Output, say},
    passphrase,
    progress::Progress,
};
use serde::Serialize;
use std::{path::PathBuf, time::Instant};
use sudare::{
    exact::{
        Params,
        serial::{self, Label},
    },
    rlwe::{KeyGenerator, KeyRequest},
};
use sudare_roles::{
    error::{Error, Result},
    exact_files,
    os::files::{self, Access, NewFile},
    text::size,
    trees::key_paths,
};

/// Directory of the files, and the passphrase of the secret key.
#[derive(Debug, clap::Args)]
pub struct ExactKeyFiles {
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

#[derive(Serialize)]
struct Report {
    log_n: u32,
    security_bits: f64,
    key_id: String,
    keys: usize,
    secret_key_bytes: u64,
    public_key_bytes: u64,
    evaluation_key_bytes: u64,
    seconds: f64,
    out: PathBuf,
}

impl ExactKeyFiles {
    /// Makes the keys of a request, writes their files and reports them.
    pub fn make(
        &self,
        params: &Params,
        request: &KeyRequest,
        label: &Label,
        output: Output,
    ) -> Result<()> {
        let paths = key_paths(&self.out);
        if self.out.exists() {
            paths.iter().try_for_each(|path| files::check_free(path, self.force))?;
        }
        let [secret_path, public_path, evaluation_path] = paths;
        let rlwe = params.rlwe();
        let keys: Vec<_> =
            rlwe.key_security().into_iter().chain(request.key_security(rlwe)?).collect();
        let security_bits = least_security(&keys);
        let bytes = serial::evaluation_keys_bytes(params, request, label)?;
        say(format_args!(
            "N = 2^{}, {} levels, {security_bits:.0} bits of security; {} keys, {} in {}",
            params.log_n(),
            params.top(),
            request.count(),
            size::bytes(bytes),
            evaluation_path.display()
        ));
        let seal = self.passphrase || self.source.is_named();
        let passphrase = seal.then(|| self.source.to_seal(&secret_path)).transpose()?;
        files::make_folder(&self.out)?;
        let mut secret_file = NewFile::create(&secret_path, Access::Owner, self.force)?;
        let mut public_file = NewFile::create(&public_path, Access::Shared, self.force)?;
        let mut evaluation_file = NewFile::create(&evaluation_path, Access::Shared, self.force)?;
        let start = Instant::now();
        // The file has seeds in place of the uniform halves, so these are not made at all.
        let mut generator = KeyGenerator::new(rlwe)?.small_keys(true);
        let secret = generator.secret_key()?;
        let public = generator.public_key(&secret)?;
        let evaluation_key_bytes = {
            let progress = Progress::new("Making keys", request.count());
            let owner = (&mut generator, &secret);
            let made = |keys| progress.set(keys);
            serial::generate_evaluation_keys(
                &mut evaluation_file,
                params,
                owner,
                request,
                label,
                made,
            )
            .map_err(Error::in_file(&evaluation_path))?
        };
        // All files are complete before the first one gets its name.
        let secret_key_bytes = exact_files::write_secret(
            &mut secret_file,
            &secret_path,
            params,
            &secret,
            label,
            passphrase.as_ref(),
        )?;
        let public_key_bytes = serial::write_public_key(&mut public_file, params, &public, label)
            .map_err(Error::in_file(&public_path))?;
        for file in [secret_file, public_file, evaluation_file] {
            file.finish()?;
        }
        let report = Report {
            log_n: params.log_n(),
            security_bits,
            key_id: secret.id().to_string(),
            keys: request.count(),
            secret_key_bytes,
            public_key_bytes,
            evaluation_key_bytes,
            seconds: start.elapsed().as_secs_f64(),
            out: self.out.clone(),
        };
        output.write(&report, text)
    }
}

fn text(report: &Report) -> String {
    let [secret, public, evaluation] = key_paths(&report.out);
    let file = |path: PathBuf, bytes| format!("{} ({})", path.display(), size::bytes(bytes));
    output::fields(&[
        ("only for you", file(secret, report.secret_key_bytes)),
        ("to encrypt", file(public, report.public_key_bytes)),
        ("for the server", file(evaluation, report.evaluation_key_bytes)),
        ("key", report.key_id.clone()),
        ("time", format!("{:.1} s", report.seconds)),
    ])
}
