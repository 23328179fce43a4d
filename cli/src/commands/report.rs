use super::evaluate::Labelled;
use crate::{
    output::Output,
    svg::{self, Axis, Chart, Mark, Series, escape},
};
use serde::Serialize;
use std::path::PathBuf;
use sudare_apps::{
    logreg::{Batches, TrainSpec, reference},
    metrics,
    table::Table,
};
use sudare_arith::par;
use sudare_roles::{
    error::Result,
    files,
    model::{Model, sigmoid},
};

/// Show a decrypted model and how well it does on a table, as a page for a browser
///
/// One HTML file that needs no other: quality, ROC curve, how scores are spread and how right
/// probabilities are, weights, and where the model has a history (`sudare train --history`) the
/// loss and the AUC after each iteration, beside the same training in the clear if the table is
/// the one that was trained on and that takes seconds at most.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare report --model model.json --data births.csv -o report.html"
)]
pub struct Args {
    #[command(flatten)]
    labelled: Labelled,
    /// The page; standard output if left out, unless --json asks for the figures
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// The figures of a page.
#[derive(Serialize)]
struct Report {
    target: String,
    rows: usize,
    features: usize,
    iterations: u32,
    trained_rows: usize,
    accuracy: f64,
    auc: f64,
    ks: f64,
    log_loss: f64,
    /// Share of rows whose target is 1.
    base_rate: f64,
    /// By iteration; empty without a history.
    curve: Vec<Step>,
    /// Shares of rows of 0 and of 1 that score above falling thresholds.
    roc: Vec<[f64; 2]>,
    histogram: Histogram,
    /// Groups of rows, in the order of their probabilities.
    calibration: Vec<Calibration>,
    intercept: f64,
    /// The largest first.
    weights: Vec<Weight>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

/// How good the weights after an iteration are, and those of the same training in the clear.
#[derive(Serialize)]
struct Step {
    iteration: u32,
    log_loss: f64,
    auc: f64,
    clear_log_loss: Option<f64>,
    clear_auc: Option<f64>,
}

/// Rows by their probability that the target is 1, in bins of equal width, of either class.
#[derive(Serialize)]
struct Histogram {
    edges: Vec<f64>,
    zeros: Vec<usize>,
    ones: Vec<usize>,
}

#[derive(Serialize)]
struct Calibration {
    rows: usize,
    /// Mean probability that the target is 1.
    predicted: f64,
    /// Share of rows whose target is 1.
    observed: f64,
}

#[derive(Serialize)]
struct Weight {
    column: String,
    weight: f64,
    divisor: f64,
}

/// Products of a row and weights that are done in about a second, and as many for the curve.
const MOST_PRODUCTS: usize = 1 << 30;
/// Corners of a ROC curve, about.
const ROC_POINTS: f64 = 400.0;
const BINS: usize = 20;
/// Groups of rows of a calibration, at most, and rows of each, at least.
const GROUPS: usize = 10;
const GROUP_ROWS: usize = 10;
/// Weights on the page.
const SHOWN_WEIGHTS: usize = 40;

pub fn run(args: &Args, output: Output) -> Result<()> {
    if let Some(path) = &args.output {
        files::check_free(path, args.force)?;
    }
    let (model, table) = args.labelled.read()?;
    let mut report = Report::new(&model, &table)?;
    let data = args.labelled.data.file_name().map_or("".into(), |name| name.to_string_lossy());
    match &args.output {
        Some(path) => {
            files::write_text(path, &report.page(&data), args.force)?;
            report.path = Some(path.clone());
            output.write(&report, |report| {
                let Report { rows, accuracy, auc, ks, .. } = report;
                let path = path.display();
                format!("{path}: {rows} rows, accuracy {accuracy:.4}, AUC {auc:.4}, KS {ks:.4}\n")
            })
        }
        None => output.write(&report, |report| report.page(&data)),
    }
}

impl Report {
    fn new(model: &Model, table: &Table) -> Result<Self> {
        let scores = model.scores(table)?;
        let labels = &table.labels()?;
        let ones = labels.iter().filter(|&&label| label).count();
        let names = model.columns.iter().zip(model.divisors.divisors());
        let weights = names.zip(&model.weights[1..]);
        let mut weights: Vec<Weight> = weights
            .map(|((column, &divisor), &weight)| Weight { column: column.clone(), weight, divisor })
            .collect();
        weights.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()));
        Ok(Self {
            target: table.target().unwrap_or_default().into(),
            rows: table.rows(),
            features: table.features(),
            iterations: model.iterations,
            trained_rows: model.rows,
            accuracy: metrics::accuracy(&scores, labels)?,
            auc: metrics::auc(&scores, labels)?,
            ks: metrics::ks(&scores, labels)?,
            log_loss: metrics::log_loss(&scores, labels)?,
            base_rate: ones as f64 / labels.len() as f64,
            curve: curve(model, table)?,
            roc: thinned(metrics::roc(&scores, labels)?),
            histogram: Histogram::new(&scores, labels),
            calibration: calibration(&scores, labels),
            intercept: model.weights[0],
            weights,
            path: None,
        })
    }
}

/// The quality of the weights after each iteration, or of some iterations of a long training on a
/// large table.
fn curve(model: &Model, table: &Table) -> Result<Vec<Step>> {
    let Some(history) = &model.history else { return Ok(Vec::new()) };
    let labels = table.labels()?;
    let clear = clear_history(model, table)?;
    let products = table.rows() * model.weights.len();
    let most = (MOST_PRODUCTS / products).max(20);
    let last = history.len() - 1;
    let every = history.len().div_ceil(most);
    let shown = (0..history.len()).filter(|i| i % every == 0 || *i == last);
    par::try_map(shown.collect::<Vec<_>>(), |i| {
        let quality = |weights: &[f64]| -> Result<_> {
            let (scores, labels) = (model.scores_with(weights, table)?, &labels);
            Ok((metrics::log_loss(&scores, labels)?, metrics::auc(&scores, labels)?))
        };
        let (log_loss, auc) = quality(&history[i])?;
        let clear = clear.as_ref().map(|clear| quality(&clear[i])).transpose()?;
        let (clear_log_loss, clear_auc) = clear.unzip();
        Ok(Step { iteration: i as u32 + 1, log_loss, auc, clear_log_loss, clear_auc })
    })
}

/// The weights of the same training in the clear, if the table is the one that was trained on, as far
/// as rows and ranges tell, and it takes about a second.
fn clear_history(model: &Model, table: &Table) -> Result<Option<Vec<Vec<f64>>>> {
    let Some(spec) = model.training else { return Ok(None) };
    let spec = TrainSpec { iterations: model.iterations, ..spec };
    let batch_rows = Batches::new(table.rows(), &spec).most_rows();
    let products = (batch_rows * model.weights.len()).saturating_mul(spec.iterations as usize);
    let other = table.target() != Some(&model.target) || table.rows() != model.rows;
    if other || products > MOST_PRODUCTS {
        return Ok(None);
    }
    let divisors = model.divisors.divisors();
    let mut largest = vec![0.0_f64; divisors.len()];
    for row in model.rows(table)? {
        largest.iter_mut().zip(&row).for_each(|(largest, x)| *largest = largest.max(x.abs()));
    }
    // A feature of zeros has the divisor 1; decimals are read to the last bit but one.
    let as_trained = |(&divisor, &largest): (&f64, &f64)| {
        (divisor - largest).abs() <= 1e-12 * divisor || (largest == 0.0 && divisor == 1.0)
    };
    if !divisors.iter().zip(&largest).all(as_trained) {
        return Ok(None);
    }
    let rows = model.rows(table)?.zip(table.labels()?);
    let signed = rows.map(|(row, label)| model.divisors.signed_row(&row, label));
    let signed = signed.collect::<core::result::Result<Vec<_>, _>>()?;
    // What cannot be trained in the clear is not compared.
    Ok(reference::history(&signed, &spec, model.class_weights).ok())
}

/// Corners of a curve that are apart.
fn thinned(corners: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    let last = corners.len() - 1;
    let mut kept: Vec<[f64; 2]> = Vec::new();
    for (i, corner) in corners.into_iter().enumerate() {
        let far = |kept: &[f64; 2]| corner[0] - kept[0] + corner[1] - kept[1] >= 2.0 / ROC_POINTS;
        if i == last || kept.last().is_none_or(far) {
            kept.push(corner);
        }
    }
    kept
}

impl Histogram {
    fn new(scores: &[f64], labels: &[bool]) -> Self {
        let edges = (0..=BINS).map(|i| i as f64 / BINS as f64).collect();
        let (mut zeros, mut ones) = (vec![0; BINS], vec![0; BINS]);
        for (&score, &label) in scores.iter().zip(labels) {
            let bin = (sigmoid(score) * BINS as f64) as usize;
            (if label { &mut ones } else { &mut zeros })[bin.min(BINS - 1)] += 1;
        }
        Self { edges, zeros, ones }
    }
}

/// Groups of as many rows each, as evenly as can be.
fn calibration(scores: &[f64], labels: &[bool]) -> Vec<Calibration> {
    let mut rows: Vec<(f64, bool)> = scores.iter().copied().zip(labels.iter().copied()).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let groups = (rows.len() / GROUP_ROWS).clamp(1, GROUPS);
    let group = |i: usize| {
        let rows = &rows[i * rows.len() / groups..(i + 1) * rows.len() / groups];
        let count = rows.len() as f64;
        Calibration {
            rows: rows.len(),
            predicted: rows.iter().map(|row| sigmoid(row.0)).sum::<f64>() / count,
            observed: rows.iter().filter(|row| row.1).count() as f64 / count,
        }
    };
    (0..groups).map(group).collect()
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2128;--soft:#57606a;--line:#d8dee4;--paper:#fff;\
--card:#f6f8fa;--a:#0969da;--b:#bc4c00;--c:#6e7781}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9ba7b4;--line:#30363d;\
--paper:#0d1117;--card:#161b22;--a:#58a6ff;--b:#f0883e;--c:#8b949e}}
body{margin:0;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
main{max-width:60rem;margin:auto;padding:1.2rem 1rem 3rem}
h1{font-size:1.5rem;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2rem 0 .6rem}
p{margin:.3rem 0;color:var(--soft);overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(5.6rem,1fr));gap:.6rem;margin:1.2rem 0}
dl div,figure{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.6rem .8rem}
dt{font-size:.8rem;color:var(--soft)}
dd{margin:0;font-size:1.25rem;font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:1rem}
figure{margin:0;break-inside:avoid}
figure h3{font-size:.95rem;margin:0 0 .3rem}
figcaption{font-size:.82rem;color:var(--soft)}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{padding:.2rem .5rem;border-bottom:1px solid var(--line);text-align:right;\
font-variant-numeric:tabular-nums;white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;\
min-width:6.5rem}
td.bar{width:40%}
td.bar svg{height:.8rem}
.up{fill:var(--a)}.down{fill:var(--b)}
";

impl Report {
    /// The page, which is well-formed as XML too.
    fn page(&self, data: &str) -> String {
        let target = escape(&self.target);
        let charts = svg::STYLE;
        let Self { rows, iterations, trained_rows, .. } = self;
        let tiles: String = [
            ("rows", rows.to_string()),
            ("features", self.features.to_string()),
            ("iterations", iterations.to_string()),
            ("accuracy", format!("{:.4}", self.accuracy)),
            ("AUC", format!("{:.4}", self.auc)),
            ("KS", format!("{:.4}", self.ks)),
            ("log loss", format!("{:.4}", self.log_loss)),
            ("base rate", format!("{:.4}", self.base_rate)),
        ]
        .iter()
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n"))
        .collect();
        let training = self.training().map_or_else(String::new, |figures| {
            format!("<h2>Training</h2>\n<div class=\"charts\">\n{figures}</div>\n")
        });
        let quality = self.roc_figure() + &self.histogram_figure() + &self.calibration_figure();
        let weights = self.weights_table();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
             <meta charset=\"utf-8\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta name=\"color-scheme\" content=\"light dark\"/>\n\
             <title>Logistic regression of {target}</title>\n<style>\n{STYLE}{charts}</style>\n\
             </head>\n<body>\n<main>\n<h1>Logistic regression of <bdi>{target}</bdi></h1>\n\
             <p>Trained on {trained_rows} encrypted rows, {iterations} iterations. Measured on the \
             {rows} rows of <bdi>{}</bdi>.</p>\n<dl>\n{tiles}</dl>\n{training}\
             <h2>Quality</h2>\n<div class=\"charts\">\n{quality}</div>\n\
             <h2>Weights</h2>\n{weights}</main>\n</body>\n</html>\n",
            escape(data)
        )
    }

    /// Loss and AUC by iteration.
    fn training(&self) -> Option<String> {
        let (first, last) = (self.curve.first()?, self.curve.last()?);
        let iterations = || {
            let (low, high) = (f64::from(first.iteration), f64::from(last.iteration));
            let room = if low < high { 0.0 } else { 0.5 };
            Axis { label: "iteration", low: low - room, high: high + room, whole: true }
        };
        let chart = |id, title, label, of: fn(&Step) -> (f64, Option<f64>)| {
            let at = |step: &Step, value| [f64::from(step.iteration), value];
            let encrypted: Vec<_> = self.curve.iter().map(|step| at(step, of(step).0)).collect();
            let clear: Vec<_> =
                self.curve.iter().filter_map(|step| Some(at(step, of(step).1?))).collect();
            let values = encrypted.iter().chain(&clear).map(|point| point[1]);
            let y = Axis::around(label, values);
            let description = format!(
                "{label} {:.4} after iteration {}, {:.4} after iteration {}.",
                of(first).0,
                first.iteration,
                of(last).0,
                last.iteration
            );
            let mark = if first.iteration < last.iteration { Mark::Line } else { Mark::Dots };
            let mut series = vec![Series { name: "encrypted", mark, points: encrypted }];
            if !clear.is_empty() {
                series.push(Series { name: "in the clear", mark: Mark::Dashed, points: clear });
            }
            figure(&Chart { id, title, description: &description, x: iterations(), y, series })
        };
        let loss = chart("loss", "Log loss by iteration", "log loss", |step| {
            (step.log_loss, step.clear_log_loss)
        });
        let auc = chart("auc", "AUC by iteration", "AUC", |step| (step.auc, step.clear_auc));
        Some(loss + &auc)
    }

    fn roc_figure(&self) -> String {
        let description = format!(
            "Area under the curve {:.4}. Share of rows of 1 against share of rows of 0 that score \
             above a threshold; a guess is on the diagonal.",
            self.auc
        );
        let share = |label| Axis { label, low: 0.0, high: 1.0, whole: false };
        figure(&Chart {
            id: "roc",
            title: "ROC curve",
            description: &description,
            x: share("share of rows of 0 above the threshold"),
            y: share("share of rows of 1"),
            series: vec![
                Series { name: "model", mark: Mark::Line, points: self.roc.clone() },
                Series { name: "guess", mark: Mark::Reference, points: vec![[0.0; 2], [1.0; 2]] },
            ],
        })
    }

    fn histogram_figure(&self) -> String {
        let Histogram { edges, zeros, ones } = &self.histogram;
        let shares = |counts: &[usize]| -> Vec<[f64; 2]> {
            let all = counts.iter().sum::<usize>().max(1) as f64;
            edges.iter().zip(counts).map(|(&edge, &count)| [edge, count as f64 / all]).collect()
        };
        let (zeros, ones) = (shares(zeros), shares(ones));
        let highest = zeros.iter().chain(&ones).map(|point| point[1]).fold(0.0, f64::max);
        figure(&Chart {
            id: "histogram",
            title: "Probabilities of either class",
            description: "Share of the rows of 0, and of those of 1, by the probability that the \
                          model gives to 1.",
            x: Axis { label: "probability of 1", low: 0.0, high: 1.0, whole: false },
            y: Axis { label: "share of the class", low: 0.0, high: 1.05 * highest, whole: false },
            series: vec![
                Series { name: "rows of 1", mark: Mark::Bars, points: ones },
                Series { name: "rows of 0", mark: Mark::Bars, points: zeros },
            ],
        })
    }

    fn calibration_figure(&self) -> String {
        let points = self.calibration.iter().map(|group| [group.predicted, group.observed]);
        let share = |label| Axis { label, low: 0.0, high: 1.0, whole: false };
        let description = format!(
            "Share of rows of 1 against the mean probability that the model gives to 1, in {} \
             groups of rows with probabilities next to each other; right probabilities are on the \
             diagonal.",
            self.calibration.len()
        );
        figure(&Chart {
            id: "calibration",
            title: "Calibration",
            description: &description,
            x: share("mean probability of 1"),
            y: share("share of 1"),
            series: vec![
                Series { name: "groups of rows", mark: Mark::Dots, points: points.collect() },
                Series { name: "right", mark: Mark::Reference, points: vec![[0.0; 2], [1.0; 2]] },
            ],
        })
    }

    fn weights_table(&self) -> String {
        let largest = self.weights.first().map_or(0.0, |weight| weight.weight.abs());
        let row = |weight: &Weight| {
            let Weight { column, weight, divisor } = weight;
            let length = if largest > 0.0 { 100.0 * weight.abs() / largest } else { 0.0 };
            let (class, x) = if *weight < 0.0 { ("down", 100.0 - length) } else { ("up", 100.0) };
            format!(
                "<tr><td><bdi>{}</bdi></td><td>{}</td><td>{}</td><td class=\"bar\">\
                 <svg viewBox=\"0 0 200 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect class=\"{class}\" x=\"{x:.1}\" y=\"1\" width=\"{length:.1}\" height=\"8\"/>\
                 </svg></td></tr>\n",
                escape(column),
                short(*weight),
                short(weight / divisor)
            )
        };
        let rows: String = self.weights.iter().take(SHOWN_WEIGHTS).map(row).collect();
        let rest = match self.weights.len().saturating_sub(SHOWN_WEIGHTS) {
            0 => String::new(),
            more => format!(" Smaller ones of {more} more columns are not shown."),
        };
        format!(
            "<p>Of columns divided by their largest magnitude, so that sizes compare; and per unit \
             of the column. The intercept is {}.{rest}</p>\n<table>\n<thead><tr>\
             <th>column</th><th>weight</th><th>per unit</th><th></th></tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table>\n",
            short(self.intercept)
        )
    }
}

/// A number with four digits or decimals.
fn short(x: f64) -> String {
    if x == 0.0 || (1e-2..1e6).contains(&x.abs()) { format!("{x:.4}") } else { format!("{x:.3e}") }
}

/// A chart with its title above and what it says below.
fn figure(chart: &Chart<'_>) -> String {
    format!(
        "<figure><h3>{}</h3>\n{}<figcaption>{}</figcaption></figure>\n",
        escape(chart.title),
        chart.svg(),
        escape(chart.description)
    )
}
