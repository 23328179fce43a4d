use crate::{
    artefacts::{Content, Meta, Note, NoteScaling, Opened, Parts, Plan},
    error::{Error, Result},
    files,
    model::{Model, ModelKind, NamedStatistics},
    output::{self, Output},
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use sudare::ckks::{Decryptor, Encoder, Params, serial::Kind};
use sudare_apps::note;

/// Decrypt a result with the secret key
///
/// The values are exact to the precision of the computation and meant for the owner of
/// the key alone: their last bits tell about the key. Round what you pass on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare decrypt --secret keys/secret.key -i model.ct -o model.json"
)]
pub struct Args {
    /// Secret key
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
    /// Encrypted result of `sudare train` or `sudare stats`
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// File for the values, CSV if its name ends in .csv and JSON otherwise; standard
    /// output if left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// A decrypted result.
#[derive(Serialize)]
#[serde(untagged)]
enum Values {
    Model(Model),
    Statistics(NamedStatistics),
}

#[derive(Serialize)]
struct Shown {
    content: &'static str,
    values: Values,
}

#[derive(Serialize)]
struct Written {
    content: &'static str,
    path: PathBuf,
    bytes: u64,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    if let Some(path) = &args.output {
        files::check_free(path, args.force)?;
    }
    let input = Opened::open(&args.input, Kind::Ciphertexts)?;
    let (content, meta) = input.meta(&[Content::Model, Content::Statistics])?;
    let secret = Opened::open(&args.secret, Kind::SecretKey)?;
    input.expect_same_key(&secret)?;
    let params = secret.params()?;
    let parts = input.ciphertexts(&params, meta.note)?;
    let decryptor = Decryptor::new(&params, secret.secret_key(&params)?)?;
    let values = decrypt(&params, &decryptor, &meta, &parts, &args.input)?;
    let content = content.name();
    match &args.output {
        None => output.write(&Shown { content, values }, |shown| text(&shown.values)),
        Some(path) => {
            let csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
            let text = if csv { values.to_csv()? } else { values.to_json()? };
            files::write_text(path, &text, args.force)?;
            let written = Written { content, path: path.clone(), bytes: text.len() as u64 };
            output.write(&written, |written| {
                let size = output::bytes(written.bytes);
                format!("{}: {}, {size}\n", written.path.display(), written.content)
            })
        }
    }
}

/// The values in `parts`, the content of the file at `path`.
fn decrypt(
    params: &Params,
    decryptor: &Decryptor,
    meta: &Meta,
    parts: &Parts,
    path: &Path,
) -> Result<Values> {
    let malformed = |problem: &str| Error::Parse {
        path: path.into(),
        what: "result",
        problem: format!("{problem}; compute it again from an undamaged encrypted table"),
    };
    let bytes = note::decrypt(decryptor, params, &parts.note)?;
    let note: Note =
        serde_json::from_slice(&bytes).map_err(|_| malformed("its note is not of this program"))?;
    let encoder = Encoder::new(params);
    let slots = parts
        .content
        .iter()
        .map(|item| encoder.decode_real(&decryptor.decrypt(item)?))
        .collect::<sudare::Result<Vec<_>>>()?;
    match (meta.job.plan(params)?, note.scaling) {
        (Plan::Train(plan), NoteScaling::Train { target, divisors }) => {
            let [slots] = &slots[..] else {
                return Err(malformed("a model is one ciphertext"));
            };
            let (weights, features) = (plan.decode(slots), plan.job().features);
            if weights.len() != features + 1 {
                return Err(malformed("its ciphertext has fewer slots than a model"));
            }
            if note.columns.len() != features || divisors.features() != features {
                return Err(malformed("its note is of another table"));
            }
            Ok(Values::Model(Model {
                kind: ModelKind::LogisticRegression,
                weights,
                columns: note.columns,
                target,
                divisors,
                iterations: meta.iterations,
                rows: plan.job().rows,
            }))
        }
        (Plan::Stats(plan), NoteScaling::Stats(scaling)) => {
            if note.columns.len() != plan.job().features {
                return Err(malformed("its note is of another table"));
            }
            Ok(Values::Statistics(NamedStatistics {
                kind: "statistics",
                columns: note.columns,
                statistics: plan.decode(&slots, &scaling)?,
            }))
        }
        _ => Err(malformed("its note is of another computation")),
    }
}

impl Values {
    fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::Bug(error.to_string()))
    }

    fn to_csv(&self) -> Result<String> {
        match self {
            Self::Model(model) => model.to_csv(),
            Self::Statistics(statistics) => statistics.to_csv(),
        }
    }
}

fn text(values: &Values) -> String {
    let number = |x: &f64| if x.is_nan() { "-".into() } else { format!("{x:.6}") };
    match values {
        Values::Model(model) => {
            let intercept = core::iter::once("(intercept)".to_owned());
            let rows: Vec<Vec<String>> = intercept
                .chain(model.columns.iter().cloned())
                .zip(&model.weights)
                .map(|(name, weight)| vec![name, number(weight)])
                .collect();
            format!(
                "logistic regression of {} after {} iterations, for columns divided by their \
                 largest magnitude\n",
                model.target, model.iterations
            ) + &output::table(&["column", "weight"], &rows)
        }
        Values::Statistics(named) => {
            let s = &named.statistics;
            let columns = [&s.mean, &s.std_dev, &s.skewness, &s.kurtosis];
            let rows: Vec<Vec<String>> = named
                .columns
                .iter()
                .enumerate()
                .map(|(i, name)| {
                    let cells = columns.iter().filter_map(|values| values.get(i)).map(number);
                    core::iter::once(name.clone()).chain(cells).collect()
                })
                .collect();
            output::table(&["column", "mean", "std dev", "skewness", "kurtosis"], &rows)
                + "Covariances and correlations: -o FILE, or --json.\n"
        }
    }
}
