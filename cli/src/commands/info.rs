mod exact;

use super::security::{least_security, secret_name, security_of_keys};
use crate::output::{self, Output};
use serde::Serialize;
use std::{
    io::Read,
    path::{Path, PathBuf},
};
use sudare::{
    ckks::serial::Kind,
    rlwe::{self, KeyRequest, KeySecurity, Level, LevelKeys},
};
use sudare_roles::{
    error::Result,
    files::{self, Access},
    integers,
    label::{Content, Meta, Origin},
    ledger::Entries,
    machine,
    opened::{self, Opened},
    secret::{self, SecretFile},
};

/// Explain a file of keys or ciphertexts, or a ledger of releases; no secret is needed
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare info evaluation.key")]
pub struct Args {
    /// The file
    file: PathBuf,
}

#[derive(Serialize)]
struct Report {
    kind: &'static str,
    content: String,
    format_version: u32,
    /// Of a secret key: whether by a passphrase.
    sealed: Option<bool>,
    params: String,
    params_id: String,
    key_id: String,
    bytes: u64,
    count: u64,
    log_n: u32,
    log_qp: f64,
    levels: usize,
    log2_scale: f64,
    secret: String,
    security_bits: f64,
    insecure: bool,
    /// Of the file, by the checksums in it; not of a sealed one.
    digest: Option<String>,
    job: Option<String>,
    /// Of a result: what it says that it comes from.
    origin: Option<ComesFrom>,
    iterations: Option<u32>,
    /// Ciphertexts of earlier weights that a model has with it.
    history: Option<u64>,
    /// Whose rows are in it, of several owners.
    owners: Option<Vec<String>>,
    #[serde(flatten)]
    evaluation: Option<Evaluation>,
}

/// What a result says that it comes from.
#[derive(Serialize)]
struct ComesFrom {
    program: String,
    evaluation_key_digest: String,
    table_digest: String,
}

impl ComesFrom {
    fn new(origin: &Origin) -> Self {
        let Origin { program, keys, table } = origin;
        let [keys, table] = [keys, table].map(|digest| blake3::Hash::from(*digest).to_string());
        Self { program: program.clone(), evaluation_key_digest: keys, table_digest: table }
    }
}

/// What evaluation keys can do.
#[derive(Serialize)]
struct Evaluation {
    /// Highest level of relinearisation.
    relinearization_level: Option<u32>,
    /// Rotations and conjugations.
    automorphisms: usize,
    /// Keys for the lowest levels alone.
    fitted_keys: usize,
    raising: Option<Raising>,
    memory_bytes: u64,
    keys: Vec<KeySecurity>,
}

/// Keys to an ephemeral secret and back.
#[derive(Serialize)]
struct Raising {
    level: u32,
    ephemeral_weight: u32,
}

impl Evaluation {
    fn of(params: &rlwe::Params, request: &KeyRequest) -> Result<Self> {
        Ok(Self {
            relinearization_level: request.relinearize.map(|Level(level)| level),
            automorphisms: request.galois.len(),
            fitted_keys: request.level_keys.values().map(LevelKeys::count).sum(),
            raising: request
                .raise
                .map(|raise| Raising { level: raise.level.0, ephemeral_weight: raise.weight }),
            memory_bytes: request.bytes(params)?,
            keys: request.key_security(params)?,
        })
    }
}

/// How many results of a key others have seen.
#[derive(Serialize)]
struct Releases {
    kind: &'static str,
    params_id: String,
    key_id: String,
    releases: u64,
    limit: u64,
}

/// The ledger in a file, if that is one.
fn ledger(path: &Path) -> Result<Option<Releases>> {
    let mut begin = [0; 8];
    let (mut file, _) = files::open(path, Access::Owner)?;
    if file.read_exact(&mut begin).is_err() || !Entries::begin(&begin) {
        return Ok(None);
    }
    let entries = Entries::read(path)?;
    Ok(Some(Releases {
        kind: "ledger of releases",
        params_id: entries.params.to_string(),
        key_id: entries.key.to_string(),
        releases: entries.counted(),
        limit: entries.limit,
    }))
}

fn ledger_text(ledger: &Releases) -> String {
    output::fields(&[
        ("kind", format!("{}, format version 1", ledger.kind)),
        ("key", ledger.key_id.clone()),
        ("parameters", ledger.params_id.clone()),
        ("releases", format!("{} of {}", ledger.releases, ledger.limit)),
    ])
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    if let Some(ledger) = ledger(&args.file)? {
        return output.write(&ledger, ledger_text);
    }
    if let Some(facts) = integers::facts(&args.file)? {
        return exact::explain(&facts, output);
    }
    let report = match secret::is_sealed(&args.file)? {
        true => Report { sealed: Some(true), ..report(SecretFile::open(&args.file)?.opened())? },
        // Unbuffered, as secret keys are read.
        false => {
            let digest = Some(blake3::Hash::from(opened::digest(&args.file)?).to_string());
            Report { digest, ..report(&Opened::any(&args.file, Access::Owner)?)? }
        }
    };
    output.write(&report, text)
}

fn report<R: Read>(file: &Opened<R>) -> Result<Report> {
    let info = file.info();
    let spec = &info.spec;
    let log_qp = spec.log2_qp();
    let evaluation = match info.kind {
        Kind::EvaluationKeys => {
            let params = file.params()?;
            Some(Evaluation::of(params.rlwe(), &file.key_request(&params)?)?)
        }
        _ => None,
    };
    let least = evaluation.as_ref().map_or(f64::INFINITY, |keys| least_security(&keys.keys));
    let security_bits = rlwe::security_bits(spec.log_n, spec.secret, log_qp).min(least);
    let label = Meta::read(&info.label);
    let history = match &label {
        Some((Content::Model, meta)) => {
            let models = meta.job.training().map_or(1, |spec| spec.models()) as u64;
            info.count.checked_sub(models + u64::from(meta.note))
        }
        _ => None,
    };
    let meta = label.map(|(_, meta)| meta);
    let owners = meta.as_ref().and_then(|meta| {
        let pooled = meta.pooled.as_ref()?;
        let owners = pooled.owners.iter().filter_map(|&owner| pooled.of.get(owner as usize));
        Some(owners.cloned().collect())
    });
    Ok(Report {
        kind: info.kind.name(),
        content: info.label.content.clone(),
        format_version: info.format_version,
        sealed: (info.kind == Kind::SecretKey).then_some(false),
        params: info.label.name.clone(),
        params_id: info.params_id.to_string(),
        key_id: info.key_id.to_string(),
        bytes: info.bytes,
        count: info.count,
        log_n: spec.log_n,
        log_qp,
        levels: spec.q_bits.len().saturating_sub(1),
        log2_scale: spec.log2_scale,
        secret: secret_name(spec.secret),
        security_bits,
        insecure: spec.insecure,
        digest: None,
        job: meta.as_ref().map(|meta| meta.job.to_string()),
        origin: meta.as_ref().and_then(|meta| meta.origin.as_ref().map(ComesFrom::new)),
        iterations: meta.map(|meta| meta.iterations).filter(|&done| done > 0),
        history: history.filter(|&count| count > 0),
        owners,
        evaluation,
    })
}

fn text(report: &Report) -> String {
    let mark = if report.insecure { "; for reproduction only" } else { "" };
    let sealed = if report.sealed == Some(true) { ", sealed by a passphrase" } else { "" };
    let mut rows = vec![
        ("kind", format!("{}{sealed}, format version {}", report.kind, report.format_version)),
        ("content", format!("{} ({})", report.content, report.count)),
        ("size", machine::bytes(report.bytes)),
        (
            "parameters",
            format!(
                "{} ({}): N = 2^{}, log2 QP {:.1}, {} levels at 2^{:.1}",
                report.params,
                report.params_id,
                report.log_n,
                report.log_qp,
                report.levels,
                report.log2_scale
            ),
        ),
        ("security", format!("{:.1} bits, {} secret{mark}", report.security_bits, report.secret)),
        ("key", report.key_id.clone()),
    ];
    rows.extend(report.digest.as_ref().map(|digest| ("digest", digest.clone())));
    if let Some(job) = &report.job {
        rows.push(("job", job.clone()));
    }
    if let Some(from) = &report.origin {
        rows.push(("from table", from.table_digest.clone()));
        rows.push(("by keys", from.evaluation_key_digest.clone()));
    }
    if let Some(iterations) = report.iterations {
        rows.push(("iterations", iterations.to_string()));
    }
    if let Some(history) = report.history {
        rows.push(("history", format!("{history} ciphertexts of weights after iterations")));
    }
    if let Some(owners) = &report.owners {
        rows.push(("owners", owners.join(", ")));
    }
    if let Some(evaluation) = &report.evaluation {
        rows.extend(evaluation_rows(evaluation));
    }
    output::fields(&rows)
}

fn evaluation_rows(keys: &Evaluation) -> Vec<(&'static str, String)> {
    let none = || "none".to_owned();
    let relinearization = |level| format!("up to level {level}");
    let raising = |raising: &Raising| {
        format!(
            "to level {}, through an ephemeral secret of weight {}",
            raising.level, raising.ephemeral_weight
        )
    };
    vec![
        ("products", keys.relinearization_level.map_or_else(none, relinearization)),
        ("automorphisms", keys.automorphisms.to_string()),
        ("level keys", keys.fitted_keys.to_string()),
        ("raising", keys.raising.as_ref().map_or_else(none, raising)),
        ("security", security_of_keys(&keys.keys)),
        ("memory", machine::bytes(keys.memory_bytes)),
    ]
}
