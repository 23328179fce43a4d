#![cfg_attr(
    not(test),
    allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "tables of values that plans have shaped"
    )
)]

use crate::{
    commands::shared::secret_key::SecretKeyFile,
    output::{self, Output, printable, say},
    values::{Names, TableFormat, names, whole},
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use sudare::ckks::{Decryptor, Params, serial::Kind};
use sudare_apps::{
    logreg::Scores,
    stats::{GroupStatistics, Histogram, MAX_SHARED_BITS, Statistics, TTest},
};
use sudare_roles::{
    clear::{
        decrypted::{Decrypted, TrainedModel},
        groups::GroupLabels,
        model::{
            Model, NamedGroups, NamedHistograms, NamedLeastSquares, NamedScores, NamedStatistics,
            OfRows,
        },
    },
    error::{Error, Result},
    format::{
        label::{Content, Meta},
        opened::{self, Opened},
    },
    os::files,
    owner::decryption::Share,
    pooled::{self, sums},
    text::size,
};
use sudare_table::list;

/// Decrypt a result with the secret key
///
/// The values have the full precision of the computation and are for you, the owner of the key,
/// alone: their last bits reveal information about the key. Make values for others with --share.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare decrypt --secret keys/secret.key -i model.ct -o model.json\n  \
    sudare decrypt --secret keys/secret.key -i model.ct --table births.ct -o model.json\n  \
    sudare decrypt --secret keys/secret.key -i model.ct --share 10 -o shared.json\n  \
    sudare decrypt --secret keys/secret.key -i scores.ct -o scores.csv")]
pub struct Args {
    #[command(flatten)]
    secret: SecretKeyFile,
    /// Encrypted result of `sudare train`, `sudare stats`, `sudare predict` or `sudare pool add`
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// File for the values: CSV if its name ends in .csv, else JSON; default: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Encrypted table that the result must name as its origin; with several owners, one --table
    /// for each
    #[arg(long, value_name = "T.ct")]
    table: Vec<PathBuf>,
    /// Schema that the owners agreed on, for the total of several owners' sums
    #[arg(long, value_name = "S.json")]
    schema: Option<PathBuf>,
    #[command(flatten)]
    finish: Finish,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Values to compute from decrypted sums in addition.
#[derive(Debug, clap::Args)]
struct Finish {
    /// Column whose values weight additional means: for statistics
    #[arg(long, value_name = "COL")]
    weights: Option<String>,
    /// Column to fit an additional linear model of, on all other columns: for statistics
    #[arg(long, value_name = "COL")]
    regress: Option<String>,
    /// Two columns of statistics, or two groups, to compare by Welch's test; for groups, each
    /// column is tested. Quote a name with a comma: 'a,"b, in km"'
    #[arg(long, value_name = "A,B", allow_hyphen_values = true, value_parser = names)]
    t_test: Option<Names>,
    /// Probabilities of the quantiles of histograms [default: 0.25,0.5,0.75]
    #[arg(long, value_name = "P,P", value_delimiter = ',')]
    quantiles: Vec<f64>,
    /// Unchanged table that you encrypted, to calibrate the probabilities of a model: an encrypted
    /// training stops before they are accurate
    #[arg(long, value_name = "T.csv", conflicts_with = "share")]
    calibrate: Option<PathBuf>,
    #[command(flatten)]
    format: TableFormat,
    /// Bits after the binary point of values that others may see: for a model, statistics or scores
    /// with keys made with --share. Noise hides the errors of the values. Shared statistics are
    /// means of columns, scaled to [-1, 1], and of their products; a shared model has no history
    #[arg(long, value_name = "BITS", value_parser = whole(1..=MAX_SHARED_BITS))]
    share: Option<u32>,
    /// Assume that inner products and weights stay within the range of the keys in every iteration:
    /// for --share of a model of several owners' rows. No one can check it. If it does not hold,
    /// the model may reveal information about the key
    #[arg(long, requires = "share")]
    assume_range: bool,
}

impl Finish {
    /// Rejects the first given option among `options`, because a result of this kind does not have
    /// it.
    fn expect_none(&self, kind: &str, options: &[&str]) -> Result<()> {
        let given = [
            ("--weights", self.weights.is_some()),
            ("--regress", self.regress.is_some()),
            ("--t-test", self.t_test.is_some()),
            ("--quantiles", !self.quantiles.is_empty()),
            ("--calibrate", self.calibrate.is_some()),
        ];
        match given.iter().find(|(name, given)| *given && options.contains(name)) {
            Some((name, _)) => {
                Err(Error::Usage(format!("{name} does not apply to {kind}: leave it out")))
            }
            None => Ok(()),
        }
    }

    fn apply(&self, decrypted: Decrypted) -> Result<Values> {
        Ok(match decrypted {
            Decrypted::Model(trained) => {
                let all = ["--weights", "--regress", "--t-test", "--quantiles"];
                self.expect_none("a model", &all)?;
                Values::Model(Box::new(self.model(*trained)?))
            }
            Decrypted::Statistics { columns, statistics } => {
                Values::Statistics(Box::new(self.statistics(columns, statistics)?))
            }
            Decrypted::Groups { key, labels, columns, statistics } => {
                Values::Groups(self.groups(columns, key, labels, statistics)?)
            }
            Decrypted::Histograms { rows, columns, histograms } => {
                Values::Histograms(self.histograms(columns, rows, histograms)?)
            }
            Decrypted::Scores { scores, classes, text_labels, members } => {
                let Scores { scores, probabilities } = scores;
                let all = ["--weights", "--regress", "--t-test", "--quantiles", "--calibrate"];
                self.expect_none("scores", &all)?;
                let members = members.as_deref();
                let named = NamedScores::new(scores, probabilities, &classes, members)?;
                Values::Scores(NamedScores { text_labels, ..named })
            }
        })
    }

    /// Returns the model, with calibrated probabilities if the user wants them.
    fn model(&self, trained: TrainedModel) -> Result<Model> {
        let Some(path) = &self.calibrate else { return Ok(trained.model) };
        let mut table = trained.model.inputs()?.read_table(path, None, &self.format.reading())?;
        // Calibrated on the trained rows alone, so that held-out rows still measure the model.
        if let Some(held_out) = trained.model.held_out {
            table = held_out.split(&table).map_err(Error::in_table(path))?.0;
        }
        trained.calibrated(&table)
    }

    /// Returns the two names of `--t-test`.
    fn pair(&self) -> Result<Option<(&str, &str)>> {
        match self.t_test.as_deref() {
            None => Ok(None),
            Some([a, b]) => Ok(Some((a, b))),
            Some(names) => Err(Error::Usage(format!(
                "--t-test {}: pass two columns or groups, as in A,B, with double quotes around names \
                 that have commas",
                names.join(",")
            ))),
        }
    }

    fn statistics(&self, columns: Vec<String>, statistics: Statistics) -> Result<NamedStatistics> {
        self.expect_none("statistics", &["--quantiles", "--calibrate"])?;
        let index = |name: &str| {
            columns.iter().position(|column| column == name).ok_or_else(|| {
                let columns = columns.join(", ");
                Error::Usage(format!("there is no column {name:?}; the columns are {columns}"))
            })
        };
        let weights = self.weights.as_deref().map(index).transpose()?;
        let weighted_mean = weights.map(|j| statistics.weighted_mean(j)).transpose()?;
        let target = self.regress.as_deref().map(index).transpose()?;
        let fit = target.map(|j| statistics.least_squares(j)).transpose()?;
        let t_test = match self.pair()? {
            Some((a, b)) => {
                let a = statistics.sample(index(a)?)?;
                let b = statistics.sample(index(b)?)?;
                Some(TTest::welch(&a, &b)?)
            }
            None => None,
        };
        let least_squares = fit.map(|fit| NamedLeastSquares::new(fit, &columns));
        let named = NamedStatistics::new(columns, statistics);
        Ok(NamedStatistics { weighted_mean, least_squares, t_test, ..named })
    }

    fn groups(
        &self,
        columns: Vec<String>,
        key: String,
        labels: GroupLabels,
        statistics: GroupStatistics,
    ) -> Result<NamedGroups> {
        self.expect_none(
            "sums by groups",
            &["--weights", "--regress", "--quantiles", "--calibrate"],
        )?;
        let index = |name: &str| labels.index(&key, name);
        let t_test = match self.pair()? {
            Some((a, b)) => {
                let a = index(a)?;
                let b = index(b)?;
                let test = |j| {
                    let a = statistics.sample(a, j)?;
                    let b = statistics.sample(b, j)?;
                    // A column may be constant in a group. The other columns still have their
                    // tests.
                    Ok(TTest::welch(&a, &b).ok())
                };
                Some((0..columns.len()).map(test).collect::<Result<_>>()?)
            }
            None => None,
        };
        Ok(NamedGroups { t_test, ..NamedGroups::new(columns, (key, labels), statistics) })
    }

    fn histograms(
        &self,
        columns: Vec<String>,
        rows: usize,
        histograms: Vec<Histogram>,
    ) -> Result<NamedHistograms> {
        self.expect_none("histograms", &["--weights", "--regress", "--t-test", "--calibrate"])?;
        let probabilities = match &self.quantiles[..] {
            [] => NamedHistograms::QUARTILES.to_vec(),
            given => given.to_vec(),
        };
        NamedHistograms::new(columns, rows, histograms, probabilities)
    }
}

/// A decrypted result.
#[derive(Serialize)]
#[serde(untagged)]
enum Values {
    Model(Box<Model>),
    Statistics(Box<NamedStatistics>),
    Groups(NamedGroups),
    Histograms(NamedHistograms),
    Scores(NamedScores),
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
    // An existing file costs no decryption, and no release from the ledger.
    if let Some(path) = &args.output {
        files::check_free(path, args.force)?;
    }
    let input = Opened::open(&args.input, Kind::Ciphertexts)?;
    let contents = [&Content::RESULTS[..], &[Content::Sums]].concat();
    let (content, Meta { job, origin, .. }) = input.meta(&contents)?;
    if !args.table.is_empty() {
        opened::expect_tables(&args.input, origin.as_ref(), &args.table)?;
    }
    let file = args.secret.open()?;
    let secret = file.opened();
    // Compared before a passphrase is asked for: the headers are readable.
    input.expect_key(secret.info().params_id, secret.info().key_id)?;
    // The bound of the error follows from the job, which the server could have changed. The label of
    // the key is the owner's own.
    let (_, made_for) = secret.meta(&[Content::Keys])?;
    if !made_for.job.serves(&job) {
        return Err(Error::Usage(format!(
            "{} is a result of {job}, but the key was made for {}: decrypt the result of a table \
             that was encrypted with this key",
            args.input.display(),
            made_for.job
        )));
    }
    let params = secret.params()?;
    let decryptor = Decryptor::new(&params, args.secret.key(file, &params)?)?;
    let decrypted = match (content, &args.schema) {
        (Content::Sums, schema) => args.totals(input, schema.as_deref(), &params, &decryptor)?,
        (_, Some(_)) => {
            return Err(Error::Usage(format!(
                "{} holds {}, which has no schema: leave --schema out",
                args.input.display(),
                content.name()
            )));
        }
        (_, None) => {
            let ledger = |_| args.secret.ledger(&params, &decryptor);
            let Finish { share, assume_range, .. } = args.finish;
            // Only a release opens the ledger, so an owner's decryption works without one.
            let ledger = share.map(ledger).transpose()?;
            let share = share.zip(ledger.as_ref());
            let share = share.map(|(bits, ledger)| Share { bits, assume_range, ledger });
            Decrypted::read(input, &params, &decryptor, share)?
        }
    };
    let values = args.finish.apply(decrypted)?;
    let content = content.name();
    match &args.output {
        None => output.write(&Shown { content, values }, |shown| text(&shown.values)),
        Some(path) => {
            if let Values::Model(model) = &values {
                warn_of_small_categories(model);
            }
            let csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
            let text = if csv { values.to_csv()? } else { values.to_json()? };
            files::write_text(path, &text, args.force)?;
            let written = Written { content, path: path.clone(), bytes: text.len() as u64 };
            output.write(&written, |written| {
                let size = size::bytes(written.bytes);
                format!("{}: {}, {size}\n", written.path.display(), written.content)
            })
        }
    }
}

/// Warns before a model is written that reveals facts about single rows.
fn warn_of_small_categories(model: &Model) {
    let found = model.small_categories();
    if found.is_empty() {
        return;
    }
    let told: Vec<String> = found.iter().map(|(name, rows)| format!("{name} ({rows})")).collect();
    let least = Model::MIN_CATEGORY_ROWS;
    say(format_args!(
        "warning: the model has categories of fewer than {least} rows, which reveal facts \
         about single rows: {}; keep its file with the owner of the rows, or train with --rare {least}, which joins rare categories",
        list(&told)
    ));
}

impl Args {
    /// Reads the statistics of the rows of several owners.
    fn totals(
        &self,
        input: Opened,
        schema: Option<&Path>,
        params: &Params,
        decryptor: &Decryptor,
    ) -> Result<Decrypted> {
        let Some(path) = schema else {
            return Err(Error::Usage(format!(
                "{} holds sums of several owners: pass the schema that they agreed on with --schema",
                self.input.display()
            )));
        };
        if self.finish.share.is_some() {
            return Err(Error::Usage(
                "--share is for models, statistics and scores of one table, but sums of several owners are \
                 exact: leave it out, and keep the values to yourself"
                    .into(),
            ));
        }
        let schema = pooled::read_schema(path)?;
        let (_, totals) = sums::read(input, &schema, params, decryptor)?;
        let columns = schema.columns().to_vec();
        Ok(Decrypted::Statistics { columns, statistics: totals.statistics() })
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
            Self::Groups(groups) => groups.to_csv(),
            Self::Histograms(histograms) => histograms.to_csv(),
            Self::Scores(scores) => scores.to_csv(),
        }
    }
}

fn number(x: &f64) -> String {
    // NaN marks figures that encryption errors leave undecided.
    if x.is_nan() { "-".into() } else { format!("{x:.6}") }
}

/// The weights of columns in standard units of the file, side by side for several classes.
fn model(model: &Model) -> String {
    let names = core::iter::once("(intercept)").chain(model.columns.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = names
        .enumerate()
        .map(|(i, name)| {
            let weights = model.weights.iter().map(|weights| number(&weights[i]));
            core::iter::once(name.to_owned()).chain(weights).collect()
        })
        .collect();
    let mut head = vec!["column"];
    match model.weights.len() {
        1 => head.push("weight"),
        _ => head.extend(model.classes.iter().map(String::as_str)),
    }
    let readers = model.shared_bits.map_or_else(
        || "for the owner of the secret key alone".into(),
        |bits| format!("released to {bits} bits"),
    );
    format!(
        "logistic regression of {} after {} iterations{}, for columns in their largest distances \
         from their means; {readers}\n",
        printable(&model.target),
        model.iterations,
        if model.calibrated { ", calibrated" } else { "" }
    ) + &output::table(&head, &rows)
}

fn scores(named: &NamedScores) -> String {
    let head = match named.scores {
        OfRows::One(_) => vec!["row", "score", "probability", "class"],
        OfRows::Several(_) => vec!["row", "class", "probability"],
    };
    let rows = named.predicted.iter().enumerate().map(|(row, class)| {
        let place = (row + 1).to_string();
        match (&named.scores, &named.probabilities) {
            (OfRows::One(scores), OfRows::One(p)) => {
                vec![place, number(&scores[row]), number(&p[row]), class.clone()]
            }
            (_, OfRows::Several(p)) => {
                let largest = p[row].iter().copied().fold(0.0, f64::max);
                vec![place, class.clone(), number(&largest)]
            }
            _ => vec![place, class.clone()],
        }
    });
    let quality = [
        ("accuracy", named.accuracy),
        ("largest class", named.largest_class),
        ("AUC", named.auc),
        ("calibration error", named.calibration_error),
    ];
    let quality = quality.iter().filter_map(|(name, x)| Some((*name, format!("{:.4}", (*x)?))));
    output::table(&head, &rows.collect::<Vec<_>>()) + &output::fields(&quality.collect::<Vec<_>>())
}

fn text(values: &Values) -> String {
    match values {
        Values::Model(named) => model(named),
        Values::Statistics(named) => statistics(named),
        Values::Groups(named) => groups(named),
        Values::Scores(named) => scores(named),
        Values::Histograms(named) => histograms(named),
    }
}

fn statistics(named: &NamedStatistics) -> String {
    let s = &named.statistics;
    let columns = [&s.mean, &s.std_dev, &s.skewness, &s.kurtosis];
    let rows = named.columns.iter().enumerate().map(|(i, name)| {
        let cells = columns.iter().filter_map(|values| values.get(i)).map(number);
        core::iter::once(name.clone()).chain(cells).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut text = output::table(&["column", "mean", "std dev", "skewness", "kurtosis"], &rows);
    if let Some(means) = &named.weighted_mean {
        let rows = named.columns.iter().zip(means);
        let rows: Vec<_> = rows.map(|(c, m)| vec![c.clone(), number(m)]).collect();
        text += &output::table(&["column", "weighted mean"], &rows);
    }
    if let Some(fit) = &named.least_squares {
        text += &least_squares(fit);
    }
    if let Some(test) = &named.t_test {
        text += &t_test(test);
    }
    if s.rows > 1 && s.variance.iter().any(|x| x.is_nan()) {
        text += BELOW_ERROR;
    }
    text + "Covariances and correlations: -o FILE, or --json.\n"
}

/// Line below tables with undecided figures.
const BELOW_ERROR: &str = "- stands for figures that the errors of encryption leave open: leave out \
                           outliers, or split the table.\n";

fn least_squares(fit: &NamedLeastSquares) -> String {
    let intercept =
        vec!["(intercept)".into(), number(&fit.intercept), String::new(), String::new()];
    let mut rows = vec![intercept];
    let of_columns = fit.predictors.iter().zip(&fit.coefficients);
    let errors = fit.standard_errors.iter().zip(&fit.p_values);
    rows.extend(of_columns.zip(errors).map(|((column, c), (error, p))| {
        vec![column.clone(), number(c), number(error), format!("{p:.3e}")]
    }));
    format!("{}: R squared {:.6}\n", printable(&fit.target), fit.r_squared)
        + &output::table(&["column", "coefficient", "std error", "p"], &rows)
}

fn groups(named: &NamedGroups) -> String {
    let s = &named.statistics;
    let labels = named.labels.texts();
    let row = |group: usize, label: &str, j: usize, column: &str| {
        vec![
            label.to_owned(),
            column.to_owned(),
            s.count[group].to_string(),
            number(&s.sum[group][j]),
            number(&s.mean[group][j]),
            number(&s.variance[group][j].sqrt()),
        ]
    };
    let rows = labels.iter().enumerate().flat_map(|(group, label)| {
        let columns = named.columns.iter().enumerate();
        columns.map(move |(j, column)| row(group, label, j, column))
    });
    let head = [&named.key, "column", "count", "sum", "mean", "std dev"];
    let mut text = output::table(&head, &rows.collect::<Vec<_>>());
    for (column, test) in named.columns.iter().zip(named.t_test.iter().flatten()) {
        let test = test.as_ref().map_or_else(|| "no test\n".into(), t_test);
        text += &format!("{}: {test}", printable(column));
    }
    let below = s
        .count
        .iter()
        .zip(&s.variance)
        .any(|(count, variances)| *count > 1 && variances.iter().any(|x| x.is_nan()));
    if below {
        text += BELOW_ERROR;
    }
    if s.count_error > 0.0 {
        text += &format!("Counts are within {:.1} rows.\n", s.count_error);
    }
    text
}

fn histograms(named: &NamedHistograms) -> String {
    let mut text = String::new();
    let each = named.columns.iter().zip(&named.histograms).zip(&named.quantiles);
    let each = each.zip(&named.quantile_bounds);
    for (((column, histogram), quantiles), bounds) in each {
        let counts = histogram.counts.iter().zip(&histogram.errors);
        let bins = histogram.edges.windows(2).zip(counts);
        let rows: Vec<Vec<String>> = bins
            .map(|(e, (count, error))| {
                let exact = *error == 0.0;
                let error = if error.is_nan() { "-".into() } else { format!("{error:.1}") };
                // Exact counts are whole numbers.
                let [count, error] = if exact {
                    [format!("{count}"), "0".into()]
                } else {
                    [format!("{count:.1}"), error]
                };
                vec![number(&e[0]), number(&e[1]), count, error]
            })
            .collect();
        text += &output::table(&[column, "to", "count", "within"], &rows);
        let Histogram { below, above, .. } = histogram;
        if below + above > 0 {
            text += &format!("{below} below and {above} above, in no bin\n");
        }
        let quantiles = named.probabilities.iter().zip(quantiles).zip(bounds);
        let list: Vec<String> = quantiles
            .map(|((p, x), (low, high))| {
                format!("{p}: {} ({} to {})", number(x), number(low), number(high))
            })
            .collect();
        text += &format!("quantiles {}\n", list.join(", "));
    }
    text
}

fn t_test(test: &TTest) -> String {
    let TTest { t, degrees_of_freedom, p_value, difference, .. } = test;
    format!(
        "difference {difference:.6}, t = {t:.4}, {degrees_of_freedom:.2} degrees of freedom, p = {p_value:.4e}\n"
    )
}
