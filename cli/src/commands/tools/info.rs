mod about;
mod exact;

use crate::output::{self, Output};
use about::{About, Evaluation, Parameters};
use serde::Serialize;
use std::{
    io::Read,
    path::{Path, PathBuf},
};
use sudare::rlwe::serial::Kind;
use sudare_roles::{
    error::Result,
    exact_files,
    format::{
        label::{Content, Meta, Origin},
        opened::{self, Opened},
    },
    os::files::{self, Access},
    owner::{
        ledger::Entries,
        secret::{self, SecretFile},
    },
};

/// Explain a file of keys or ciphertexts, or a ledger of releases, without a secret
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare info evaluation.key")]
pub struct Args {
    /// File to explain
    file: PathBuf,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    about: About,
    log2_scale: f64,
    job: Option<String>,
    /// Origin that a result names.
    origin: Option<ComesFrom>,
    iterations: Option<u32>,
    /// Ciphertexts of earlier weights that a model stores.
    history: Option<u64>,
    /// Owners of the rows, where there are several.
    owners: Option<Vec<String>>,
}

/// Origin that a result names.
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

/// Number of results of a key that were released to others.
#[derive(Serialize)]
struct Releases {
    kind: &'static str,
    params_id: String,
    key_id: String,
    releases: u64,
    limit: u64,
}

/// Reads the ledger in a file, if it is one.
fn ledger(path: &Path) -> Result<Option<Releases>> {
    let mut begin = [0; 8];
    let (mut file, _) = files::open(path, Access::Owner)?;
    // A file of fewer bytes is not a ledger. The checks below name the defect.
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
    // By their first bytes: ledgers and files of integers have formats of their own.
    if let Some(ledger) = ledger(&args.file)? {
        return output.write(&ledger, ledger_text);
    }
    if let Some(facts) = exact_files::facts(&args.file)? {
        return exact::explain(&facts, output);
    }
    let report = match secret::is_sealed(&args.file)? {
        true => report(SecretFile::open(&args.file)?.opened(), None)?,
        // Opened without a buffer, which would keep a copy of a secret key.
        false => {
            let digest = opened::digest(&args.file)?;
            report(&Opened::any(&args.file, Access::Owner)?, Some(digest))?
        }
    };
    output.write(&report, text)
}

fn report<R: Read>(file: &Opened<R>, digest: Option<[u8; 32]>) -> Result<Report> {
    let info = file.info();
    let spec = &info.spec;
    let evaluation = match info.kind {
        Kind::EvaluationKeys => {
            let params = file.params()?;
            Some(Evaluation::of(params.rlwe(), &file.key_request(&params)?)?)
        }
        _ => None,
    };
    let params = Parameters {
        log_n: spec.log_n,
        log_qp: spec.log2_qp(),
        levels: spec.q_bits.len().saturating_sub(1) as u32,
        secret: spec.secret,
        insecure: spec.insecure,
    };
    let label = Meta::read(&info.label);
    let history = match &label {
        Some((Content::Model, meta)) => {
            let models = meta.job.training().map_or(1, |spec| spec.models()) as u64;
            // The label is a claim: a damaged one may count more than the file has.
            info.count.checked_sub(models.saturating_add(meta.note.into()))
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
        about: About::new(info, &params, evaluation, digest.is_none(), digest),
        log2_scale: spec.log2_scale,
        job: meta.as_ref().map(|meta| meta.job.to_string()),
        origin: meta.as_ref().and_then(|meta| meta.origin.as_ref().map(ComesFrom::new)),
        iterations: meta.map(|meta| meta.iterations).filter(|&done| done > 0),
        history: history.filter(|&count| count > 0),
        owners,
    })
}

fn text(report: &Report) -> String {
    let mut rows = Vec::new();
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
    report.about.text(&format!("at 2^{:.1}", report.log2_scale), rows)
}
