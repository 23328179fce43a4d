#![cfg_attr(
    not(test),
    allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "figures of scores that were computed here, a row of each as long as the others"
    )
)]

use super::evaluate::{self, Labelled};
use crate::{
    output::Output,
    svg::{self, Axis, Chart, Mark, Series, escape},
};
use serde::Serialize;
use std::path::PathBuf;
use sudare_apps::{
    logreg::{Batches, Prepared, TrainSpec, Transform, reference},
    metrics::{self, Quality},
    table::Table,
};
use sudare_arith::par;
use sudare_roles::{error::Result, files, model::Model};

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
    /// Another table, whose rows the model was not trained on, to measure it on as well
    #[arg(long, value_name = "T.csv")]
    test: Option<PathBuf>,
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
    classes: Vec<String>,
    features: usize,
    iterations: u32,
    trained_rows: usize,
    /// Bits to which weights were released; none if they are for the owner of the key alone.
    shared_bits: Option<u32>,
    #[serde(flatten)]
    quality: Quality,
    /// On the other table.
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<Quality>,
    /// Share of rows of the second of two classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    base_rate: Option<f64>,
    /// By iteration; empty without a history.
    curve: Vec<Step>,
    /// Of two classes: shares of rows of the first and of the second that score above falling
    /// thresholds.
    #[serde(skip_serializing_if = "Option::is_none")]
    roc: Option<Vec<[f64; 2]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Histogram>,
    /// Groups of rows, in the order of their probabilities.
    calibration: Vec<Calibration>,
    /// Rows of each class by the class that the model names.
    confusion: Vec<Vec<usize>>,
    /// Of each weight vector.
    intercepts: Vec<f64>,
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
    auc: Option<f64>,
    clear_log_loss: Option<f64>,
    clear_auc: Option<f64>,
}

/// Rows by their probability of the second class, in bins of equal width, of either class.
#[derive(Serialize)]
struct Histogram {
    edges: Vec<f64>,
    zeros: Vec<usize>,
    ones: Vec<usize>,
}

#[derive(Serialize)]
struct Calibration {
    rows: usize,
    /// Mean probability of the second class, or of the class that the model names among several.
    predicted: f64,
    /// Share of rows that are of that class.
    observed: f64,
}

#[derive(Serialize)]
struct Weight {
    /// The class that it tells from others, of more than two.
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
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
/// Classes on the page.
const SHOWN_CLASSES: usize = 20;

pub fn run(args: &Args, output: Output) -> Result<()> {
    if let Some(path) = &args.output {
        files::check_free(path, args.force)?;
    }
    let (model, table) = args.labelled.read()?;
    let mut report = Report::new(&model, &table)?;
    if let Some(path) = &args.test {
        report.test = Some(model.quality(&args.labelled.table(&model, path)?)?);
    }
    let data = args.labelled.data.file_name().map_or("".into(), |name| name.to_string_lossy());
    match &args.output {
        Some(path) => {
            files::write_text(path, &report.page(&data), args.force)?;
            report.path = Some(path.clone());
            output.write(&report, |report| {
                let figures = evaluate::fields(&report.quality).into_iter().take(4);
                let figures: Vec<_> =
                    figures.map(|(name, value)| format!("{name} {value}")).collect();
                format!("{}: {}\n", path.display(), figures.join(", "))
            })
        }
        None => output.write(&report, |report| report.page(&data)),
    }
}

impl Report {
    fn new(model: &Model, table: &Table) -> Result<Self> {
        let scores = model.scores(table)?;
        let members = table.members()?;
        let quality = Quality::of(&scores, members)?;
        let binary = match (&scores[..], table.labels()) {
            ([scores], Ok(labels)) => Some((scores, labels)),
            _ => None,
        };
        let of_binary = binary.as_ref().filter(|_| quality.auc.is_some());
        Ok(Self {
            target: table.target().unwrap_or_default().into(),
            classes: model.classes.clone(),
            features: table.features(),
            iterations: model.iterations,
            trained_rows: model.rows,
            shared_bits: model.shared_bits,
            base_rate: binary.as_ref().map(|(_, labels)| {
                labels.iter().filter(|&&label| label).count() as f64 / labels.len() as f64
            }),
            curve: curve(model, table)?,
            roc: of_binary.map(|(scores, l)| metrics::roc(scores, l)).transpose()?.map(thinned),
            histogram: binary.as_ref().map(|(scores, labels)| Histogram::new(scores, labels)),
            calibration: calibration(&scores, members),
            confusion: confusion(&scores, members, model.classes.len()),
            intercepts: model.weights.iter().map(|weights| weights[0]).collect(),
            weights: weights(model),
            quality,
            test: None,
            path: None,
        })
    }
}

/// The weights of all classes, the largest first.
fn weights(model: &Model) -> Vec<Weight> {
    let several = model.weights.len() > 1;
    let of_model = |(class, of_class): (usize, &Vec<f64>)| -> Vec<Weight> {
        let columns = model.columns.iter().zip(&model.divisors);
        let weights = columns.zip(&of_class[1..]).map(|((column, &divisor), &weight)| Weight {
            class: several.then(|| model.classes[class].clone()),
            column: column.clone(),
            weight,
            divisor,
        });
        weights.collect()
    };
    let mut weights: Vec<Weight> = model.weights.iter().enumerate().flat_map(of_model).collect();
    weights.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()));
    weights
}

/// Rows of each class by the class that the model names.
fn confusion(scores: &[Vec<f64>], members: &[u32], classes: usize) -> Vec<Vec<usize>> {
    let mut counts = vec![vec![0; classes]; classes];
    for (row, &class) in members.iter().enumerate() {
        counts[class as usize][metrics::named(scores, row)] += 1;
    }
    counts
}

/// The quality of the weights after each iteration, or of some iterations of a long training on a
/// large table.
fn curve(model: &Model, table: &Table) -> Result<Vec<Step>> {
    let Some(history) = &model.history else { return Ok(Vec::new()) };
    let members = table.members()?;
    let clear = clear_history(model, table)?;
    let products = table.rows() * (1 + model.columns.len()) * model.weights.len();
    let most = (MOST_PRODUCTS / products).max(20);
    let last = history.len() - 1;
    let every = history.len().div_ceil(most);
    let shown = (0..history.len()).filter(|i| i % every == 0 || *i == last);
    par::try_map(shown.collect::<Vec<_>>(), |i| {
        let quality = |weights: &[Vec<f64>]| -> Result<_> {
            Ok(Quality::of(&model.scores_with(weights, table)?, members)?)
        };
        let encrypted = quality(&history[i])?;
        let clear = clear.as_ref().map(|clear| quality(&clear[i])).transpose()?;
        Ok(Step {
            iteration: i as u32 + 1,
            log_loss: encrypted.log_loss,
            auc: encrypted.auc,
            clear_log_loss: clear.as_ref().map(|clear| clear.log_loss),
            clear_auc: clear.and_then(|clear| clear.auc),
        })
    })
}

/// The weights of the same training in the clear, if the table is the one that was trained on, as
/// far as rows, means and ranges tell, and it takes about a second.
fn clear_history(model: &Model, table: &Table) -> Result<Option<Vec<Vec<Vec<f64>>>>> {
    let Some(spec) = model.training else { return Ok(None) };
    let spec = TrainSpec { iterations: model.iterations, ..spec };
    let batch_rows = Batches::new(table.rows(), &spec).most_rows();
    let entries = (1 + model.columns.len()) * model.weights.len();
    let products = (batch_rows * entries).saturating_mul(spec.iterations as usize);
    let other = table.target() != Some(&model.target) || table.rows() != model.rows;
    if other || products > MOST_PRODUCTS {
        return Ok(None);
    }
    let (shown, found) = (model.inputs()?.shown, Transform::spreading(table));
    // Decimals are read to the last bit but one.
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * (a.abs() + b.abs());
    let as_trained = shown.divisors().iter().zip(found.divisors()).all(near)
        && shown.centers().iter().zip(found.centers()).all(near);
    if !as_trained {
        return Ok(None);
    }
    let given = model.class_weights.as_deref();
    let Ok(rows) = Prepared::new(table, &spec, table.rows(), given) else { return Ok(None) };
    // What cannot be trained in the clear is not compared.
    let Ok(history) = reference::history(&rows, &spec) else { return Ok(None) };
    let under = |weights: &Vec<f64>| Ok(rows.transform().weights_under(weights, &shown)?);
    let of_iteration = |models: &Vec<Vec<f64>>| models.iter().map(under).collect();
    history.iter().map(of_iteration).collect::<Result<_>>().map(Some)
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
            let bin = (BINS as f64 / (1.0 + (-score).exp())) as usize;
            (if label { &mut ones } else { &mut zeros })[bin.min(BINS - 1)] += 1;
        }
        Self { edges, zeros, ones }
    }
}

/// Groups of as many rows each, as evenly as can be.
fn calibration(scores: &[Vec<f64>], members: &[u32]) -> Vec<Calibration> {
    let probabilities = metrics::probabilities(scores);
    let stated = |row: usize| {
        let class = if scores.len() == 1 { 1 } else { metrics::named(scores, row) };
        (probabilities[class][row], members[row] as usize == class)
    };
    let mut rows: Vec<(f64, bool)> = (0..members.len()).map(stated).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let groups = (rows.len() / GROUP_ROWS).clamp(1, GROUPS);
    let group = |i: usize| {
        let rows = &rows[i * rows.len() / groups..(i + 1) * rows.len() / groups];
        let count = rows.len() as f64;
        Calibration {
            rows: rows.len(),
            predicted: rows.iter().map(|row| row.0).sum::<f64>() / count,
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
        let Self { quality, iterations, trained_rows, .. } = self;
        let shape =
            [("features", self.features.to_string()), ("iterations", iterations.to_string())];
        let mut figures = tiles(shape.into_iter().chain(evaluate::fields(quality)));
        if let Some(test) = &self.test {
            figures += &format!(
                "</dl>\n<h2>On the other table</h2>\n<dl>\n{}",
                tiles(evaluate::fields(test).into_iter())
            );
        }
        let training = self.training().map_or_else(String::new, |figures| {
            format!("<h2>Training</h2>\n<div class=\"charts\">\n{figures}</div>\n")
        });
        let charts_of =
            [self.roc_figure(), self.histogram_figure(), Some(self.calibration_figure())];
        let quality_charts: String = charts_of.into_iter().flatten().collect();
        let confusion = self.confusion_table();
        let weights = self.weights_table();
        let readers = match self.shared_bits {
            Some(bits) => format!(
                "Weights were released to {bits} bits, with noise that hides the secret key; figures \
                 tell about the rows that they were measured on."
            ),
            None => {
                "For the owner of the secret key alone: weights carry errors that tell about the \
                     key."
                    .into()
            }
        };
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
             {} rows of <bdi>{}</bdi>. {readers}</p>\n<dl>\n{figures}</dl>\n{training}\
             <h2>Quality</h2>\n<div class=\"charts\">\n{quality_charts}</div>\n{confusion}\
             <h2>Weights</h2>\n{weights}</main>\n</body>\n</html>\n",
            quality.rows,
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
        let chart = |id, title, label, of: fn(&Step) -> [Option<f64>; 2]| {
            let at = |step: &Step, value: f64| [f64::from(step.iteration), value];
            let points = |which: usize| -> Vec<[f64; 2]> {
                self.curve.iter().filter_map(|step| Some(at(step, of(step)[which]?))).collect()
            };
            let (encrypted, clear) = (points(0), points(1));
            let y = Axis::around(label, encrypted.iter().chain(&clear).map(|point| point[1]));
            let description = format!(
                "{label} {:.4} after iteration {}, {:.4} after iteration {}.",
                of(first)[0]?,
                first.iteration,
                of(last)[0]?,
                last.iteration
            );
            let mark = if first.iteration < last.iteration { Mark::Line } else { Mark::Dots };
            let mut series = vec![Series { name: "encrypted", mark, points: encrypted }];
            if !clear.is_empty() {
                series.push(Series { name: "in the clear", mark: Mark::Dashed, points: clear });
            }
            let chart = Chart { id, title, description: &description, x: iterations(), y, series };
            Some(figure(&chart))
        };
        let loss = chart("loss", "Log loss by iteration", "log loss", |step| {
            [Some(step.log_loss), step.clear_log_loss]
        });
        let auc = chart("auc", "AUC by iteration", "AUC", |step| [step.auc, step.clear_auc]);
        Some(loss.into_iter().chain(auc).collect())
    }

    /// The second of two classes, of which probabilities are; nothing of more.
    fn second(&self) -> Option<&str> {
        if self.classes.len() == 2 { Some(&self.classes[1]) } else { None }
    }

    fn roc_figure(&self) -> Option<String> {
        let (roc, auc, second) = (self.roc.as_ref()?, self.quality.auc?, self.second()?);
        let description = format!(
            "Area under the curve {auc:.4}. Share of rows of {second} against share of the others \
             that score above a threshold; a guess is on the diagonal.",
        );
        let share = |label| Axis { label, low: 0.0, high: 1.0, whole: false };
        Some(figure(&Chart {
            id: "roc",
            title: "ROC curve",
            description: &description,
            x: share("share of other rows above the threshold"),
            y: share(&format!("share of rows of {second}")),
            series: vec![
                Series { name: "model", mark: Mark::Line, points: roc.clone() },
                Series { name: "guess", mark: Mark::Reference, points: vec![[0.0; 2], [1.0; 2]] },
            ],
        }))
    }

    fn histogram_figure(&self) -> Option<String> {
        let (Histogram { edges, zeros, ones }, [first, second]) =
            (self.histogram.as_ref()?, &self.classes[..])
        else {
            return None;
        };
        let shares = |counts: &[usize]| -> Vec<[f64; 2]> {
            let all = counts.iter().sum::<usize>().max(1) as f64;
            edges.iter().zip(counts).map(|(&edge, &count)| [edge, count as f64 / all]).collect()
        };
        let (zeros, ones) = (shares(zeros), shares(ones));
        let highest = zeros.iter().chain(&ones).map(|point| point[1]).fold(0.0, f64::max);
        let probability = format!("probability of {second}");
        Some(figure(&Chart {
            id: "histogram",
            title: "Probabilities of either class",
            description: &format!(
                "Share of the rows of {first}, and of those of {second}, by the probability that the \
                 model gives to {second}."
            ),
            x: Axis { label: &probability, low: 0.0, high: 1.0, whole: false },
            y: Axis { label: "share of the class", low: 0.0, high: 1.05 * highest, whole: false },
            series: vec![
                Series { name: &format!("rows of {second}"), mark: Mark::Bars, points: ones },
                Series { name: &format!("rows of {first}"), mark: Mark::Bars, points: zeros },
            ],
        }))
    }

    fn calibration_figure(&self) -> String {
        let points = self.calibration.iter().map(|group| [group.predicted, group.observed]);
        let share = |label| Axis { label, low: 0.0, high: 1.0, whole: false };
        let class = self.second().unwrap_or("the class that the model names");
        let description = format!(
            "Share of rows of {class} against the mean probability that the model gives to it, in {} \
             groups of rows with probabilities next to each other; right probabilities are on the \
             diagonal.",
            self.calibration.len()
        );
        figure(&Chart {
            id: "calibration",
            title: "Calibration",
            description: &description,
            x: share("mean probability"),
            y: share("share of rows"),
            series: vec![
                Series { name: "groups of rows", mark: Mark::Dots, points: points.collect() },
                Series { name: "right", mark: Mark::Reference, points: vec![[0.0; 2], [1.0; 2]] },
            ],
        })
    }

    /// Rows of each class by the class that the model names.
    fn confusion_table(&self) -> String {
        let names = self.classes.iter().take(SHOWN_CLASSES);
        let head: String =
            names.clone().map(|class| format!("<th>{}</th>", escape(class))).collect();
        let row = |(class, counts): (&String, &Vec<usize>)| {
            let counts = counts.iter().take(SHOWN_CLASSES);
            let counts: String = counts.map(|count| format!("<td>{count}</td>")).collect();
            format!("<tr><td><bdi>{}</bdi></td>{counts}</tr>\n", escape(class))
        };
        let rows: String = names.zip(&self.confusion).map(row).collect();
        let more = self.classes.len().saturating_sub(SHOWN_CLASSES);
        let rest =
            if more > 0 { format!(" {more} more classes are not shown.") } else { String::new() };
        format!(
            "<p>Rows of each class, by the class that the model names.{rest}</p>\n<table>\n<thead>\
             <tr><th>class</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
        )
    }

    fn weights_table(&self) -> String {
        let largest = self.weights.first().map_or(0.0, |weight| weight.weight.abs());
        let row = |weight: &Weight| {
            let Weight { class, column, weight, divisor } = weight;
            let length = if largest > 0.0 { 100.0 * weight.abs() / largest } else { 0.0 };
            let (up, x) = if *weight < 0.0 { ("down", 100.0 - length) } else { ("up", 100.0) };
            let of_class = class.as_ref().map_or_else(String::new, |class| format!("{class}: "));
            format!(
                "<tr><td><bdi>{}</bdi></td><td>{}</td><td>{}</td><td class=\"bar\">\
                 <svg viewBox=\"0 0 200 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect class=\"{up}\" x=\"{x:.1}\" y=\"1\" width=\"{length:.1}\" height=\"8\"/>\
                 </svg></td></tr>\n",
                escape(&format!("{of_class}{column}")),
                short(*weight),
                short(weight / divisor)
            )
        };
        let rows: String = self.weights.iter().take(SHOWN_WEIGHTS).map(row).collect();
        let rest = match self.weights.len().saturating_sub(SHOWN_WEIGHTS) {
            0 => String::new(),
            more => format!(" {more} smaller ones are not shown."),
        };
        let intercepts: Vec<String> = self.intercepts.iter().map(|&x| short(x)).collect();
        format!(
            "<p>Of columns in their largest distances from their means, so that sizes compare; and \
             per unit of the column. Intercept, where all columns have their means: {}.{rest}</p>\n\
             <table>\n<thead><tr>\
             <th>column</th><th>weight</th><th>per unit</th><th></th></tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table>\n",
            intercepts.join(", ")
        )
    }
}

/// Figures with their names above them.
fn tiles(figures: impl Iterator<Item = (&'static str, String)>) -> String {
    figures.map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n")).collect()
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
