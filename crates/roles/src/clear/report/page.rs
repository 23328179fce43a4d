//! The HTML page.

use super::{
    Histogram, Report, Step, Weight,
    svg::{Axis, Chart, Mark, Series, escape},
};
use sudare_arith::real;
use sudare_table::metrics::Quality;

/// Maximum number of weights on the page.
const SHOWN_WEIGHTS: usize = 40;
/// Maximum number of classes on the page.
const SHOWN_CLASSES: usize = 20;

/// Meaning of the figures of quality.
const MEANINGS: &str = "<details>\n<summary>How to read the figures</summary>\n<ul>\n\
    <li>AUC: how often a row of one class gets a higher score than a row of the other; 0.5 is chance, \
    1 is perfect.</li>\n\
    <li>KS: largest distance between the score distributions of both classes; 0 is chance, 1 is \
    perfect.</li>\n\
    <li>Log loss and Brier score: errors of the probabilities; smaller is better. With two \
    classes, a coin has 0.693 and 0.25.</li>\n\
    <li>Calibration error: mean distance of predicted probabilities from observed shares; smaller is \
    better.</li>\n</ul>\n</details>\n";

/// The mark of the project: a disc behind a blind.
const BRAND: &str = "<p class=\"brand\"><svg viewBox=\"0 0 32 32\" aria-hidden=\"true\">\
    <path d=\"M10.2 4h11.6l3.4 3H6.8zM5.2 9.6h21.6l1.5 3H3.7zM3 15.2h26v3H3zM3.7 20.8h24.6l-1.5 3H5.2z\
    M6.8 26.4h18.4l-3.4 3H10.2z\"/></svg>sudare</p>\n";

/// Style sheet for [`Report::page`], and for pages that embed [`Report::body`].
pub const STYLE: &str = include_str!("report.css");

impl Report {
    /// Returns a page about the model, measured on a table with the name `data`. The page is one
    /// self-contained HTML file that is also well-formed XML.
    #[must_use]
    pub fn page(&self, data: &str) -> String {
        document("Logistic regression of", &self.target, &self.body(data))
    }

    /// Returns the content of [`Report::page`] below its heading, to embed in a larger page.
    #[must_use]
    pub fn body(&self, data: &str) -> String {
        let Self { quality, iterations, trained_rows, .. } = self;
        let shape =
            [("features", self.features.to_string()), ("iterations", iterations.to_string())];
        let mut figures = tiles(shape.into_iter().chain(fields(quality)));
        if let Some(test) = &self.test {
            figures += &format!(
                "</dl>\n<h2>Quality on the other table</h2>\n<dl>\n{}",
                tiles(fields(test).into_iter())
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
        let lead = format!(
            "The model names the right class of <bdi>{}</bdi> for {} of the rows; naming the larger \
             class for every row would be right for {}.",
            escape(&self.target),
            percent(quality.accuracy),
            percent(quality.largest_class)
        );
        let readers = match self.shared_bits {
            Some(bits) => format!(
                "The weights were released to {bits} bits, with noise that hides the secret key. \
                 The figures reveal information about the rows that they were measured on."
            ),
            None => {
                "For the owner of the secret key alone: the weights contain errors that reveal \
                 information about the key."
                    .into()
            }
        };
        format!(
            "<p class=\"lead\">{lead}</p>\n<p>Trained on {trained_rows} encrypted rows, {iterations} \
             iterations. Measured on the {} rows of <bdi>{}</bdi>. {readers}</p>\n<dl>\n{figures}</dl>\n{MEANINGS}{training}\
             <h2>Quality</h2>\n\
             <div class=\"charts\">\n{quality_charts}</div>\n{confusion}<h2>Coefficients</h2>\n{weights}",
            quality.rows,
            escape(data)
        )
    }

    /// Draws loss and AUC by iteration.
    fn training(&self) -> Option<String> {
        let first = self.curve.first()?;
        let last = self.curve.last()?;
        let iterations = || {
            let low = f64::from(first.iteration);
            let high = f64::from(last.iteration);
            // A single iteration has no length on the axis, so it gets room on both sides.
            let room = if low < high { 0.0 } else { 0.5 };
            Axis { label: "iteration", low: low - room, high: high + room, whole: true }
        };
        let chart = |id, title, label, of: fn(&Step) -> [Option<f64>; 2]| {
            let at = |step: &Step, value: f64| [f64::from(step.iteration), value];
            let points = |which: usize| -> Vec<[f64; 2]> {
                self.curve.iter().filter_map(|step| Some(at(step, of(step)[which]?))).collect()
            };
            let encrypted = points(0);
            let clear = points(1);
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

    /// Returns the second of two classes, which probabilities refer to. Returns `None` for more
    /// classes.
    fn second(&self) -> Option<&str> {
        if self.classes.len() == 2 { Some(&self.classes[1]) } else { None }
    }

    fn roc_figure(&self) -> Option<String> {
        let roc = self.roc.as_ref()?;
        let auc = self.quality.auc?;
        let second = self.second()?;
        let description = format!(
            "Area under the curve: {auc:.4}. Share of rows of {second} above a threshold, against \
             the share of other rows above it. A random guess lies on the diagonal.",
        );
        let share = |label| Axis { label, low: 0.0, high: 1.0, whole: false };
        Some(figure(&Chart {
            id: "roc",
            title: "ROC curve",
            description: &description,
            x: share("false positive rate"),
            y: share("true positive rate"),
            series: vec![
                Series { name: "model", mark: Mark::Line, points: roc.clone() },
                Series {
                    name: "random guess",
                    mark: Mark::Reference,
                    points: vec![[0.0; 2], [1.0; 2]],
                },
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
            // An empty class has shares of 0 instead of NaN.
            let all = counts.iter().sum::<usize>().max(1) as f64;
            edges.iter().zip(counts).map(|(&edge, &count)| [edge, count as f64 / all]).collect()
        };
        let zeros = shares(zeros);
        let ones = shares(ones);
        let highest = zeros.iter().chain(&ones).map(|point| point[1]).fold(0.0, f64::max);
        let probability = format!("probability of {second}");
        Some(figure(&Chart {
            id: "histogram",
            title: "Predicted probabilities by class",
            description: &format!(
                "Share of the rows of {first}, and share of the rows of {second}, by the predicted \
                 probability of {second}."
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
        let class = self.second().unwrap_or("the predicted class");
        let description = format!(
            "Observed share of {class} against its mean predicted probability, in {} groups of \
             rows with similar probabilities. A calibrated model lies on the diagonal.",
            self.calibration.len()
        );
        figure(&Chart {
            id: "calibration",
            title: "Calibration",
            description: &description,
            x: share("mean predicted probability"),
            y: share("observed share"),
            series: vec![
                Series { name: "groups of rows", mark: Mark::Dots, points: points.collect() },
                Series {
                    name: "calibrated",
                    mark: Mark::Reference,
                    points: vec![[0.0; 2], [1.0; 2]],
                },
            ],
        })
    }

    /// Formats the confusion matrix: rows by class and predicted class.
    fn confusion_table(&self) -> String {
        let names = self.classes.iter().take(SHOWN_CLASSES);
        let head: String = names
            .clone()
            .map(|class| format!("<th scope=\"col\">{}</th>", escape(class)))
            .collect();
        let row = |(class, counts): (&String, &Vec<usize>)| {
            let counts = counts.iter().take(SHOWN_CLASSES);
            let counts: String = counts.map(|count| format!("<td>{count}</td>")).collect();
            format!("<tr><td><bdi>{}</bdi></td>{counts}</tr>\n", escape(class))
        };
        let rows: String = names.zip(&self.confusion).map(row).collect();
        let more = self.classes.len().saturating_sub(SHOWN_CLASSES);
        let rest =
            if more > 0 { format!(" {more} more classes are not shown.") } else { String::new() };
        let table = wide(
            "Confusion matrix",
            &format!(
                "<table>\n<thead><tr><th scope=\"col\">class</th>{head}</tr></thead>\n<tbody>\n{rows}\
                 </tbody>\n</table>\n"
            ),
        );
        format!("<p>Confusion matrix: rows of each class, by predicted class.{rest}</p>\n{table}")
    }

    /// Returns a sentence about the column with the largest effect.
    fn strongest(&self) -> String {
        match self.weights.first() {
            Some(Weight { column, class, per_std, .. }) if *per_std != 0.0 => format!(
                "The strongest column is <bdi>{}</bdi>: a standard deviation more multiplies the \
                 odds of class <bdi>{}</bdi> by {}. ",
                escape(column),
                escape(class.as_deref().or(self.second()).unwrap_or_default()),
                short(real::exp(*per_std))
            ),
            _ => String::new(),
        }
    }

    fn weights_table(&self) -> String {
        let largest = self.weights.first().map_or(0.0, |weight| weight.per_std.abs());
        let row = |weight: &Weight| {
            let Weight { class, column, weight, divisor, per_std } = weight;
            // A model of weights 0 has no largest weight to compare with.
            let length = if largest > 0.0 { 100.0 * per_std.abs() / largest } else { 0.0 };
            let (up, x) = if *per_std < 0.0 { ("down", 100.0 - length) } else { ("up", 100.0) };
            let of_class = class.as_ref().map_or_else(String::new, |class| format!("{class}: "));
            format!(
                "<tr><td><bdi>{}</bdi></td><td>{}</td><td>{}</td><td>{}</td><td class=\"bar\">\
                 <svg viewBox=\"0 0 200 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect class=\"{up}\" x=\"{x:.1}\" y=\"1\" width=\"{length:.1}\" height=\"8\"/>\
                 </svg></td></tr>\n",
                escape(&format!("{of_class}{column}")),
                short(*per_std),
                short(real::exp(*per_std)),
                short(weight / divisor)
            )
        };
        let rows: String = self.weights.iter().take(SHOWN_WEIGHTS).map(row).collect();
        let rest = match self.weights.len().saturating_sub(SHOWN_WEIGHTS) {
            0 => String::new(),
            more => format!(" {more} smaller coefficients are not shown."),
        };
        let intercepts: Vec<String> = self.intercepts.iter().map(|&x| short(x)).collect();
        let table = wide(
            "Coefficients",
            &format!(
                "<table>\n<thead><tr><th scope=\"col\">column</th><th scope=\"col\">standardised</th>\
                 <th scope=\"col\">odds ratio</th><th scope=\"col\">per unit</th><td></td></tr></thead>\n<tbody>\n{rows}</tbody>\n\
                 </table>\n"
            ),
        );
        format!(
            "<p>{}A standardised coefficient is the change of the score by a standard deviation of the \
             column in these rows, so you can compare sizes. The odds ratio is the factor of the \
             odds by the same change. Intercept, where all columns have the means of the training: \
             {}.{rest}</p>\n{table}",
            self.strongest(),
            intercepts.join(", ")
        )
    }
}

/// Formats a page. `name` is untrusted and ends the title.
pub(super) fn document(title: &str, name: &str, body: &str) -> String {
    // The policy below is a second defence: even a name that was not escaped could run no script.
    let name = escape(name);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{title} {name}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<main>\n{BRAND}<h1>{title} <bdi>{name}</bdi></h1>\n\
         {body}</main>\n</body>\n</html>\n"
    )
}

/// Formats figures below their names. A remark in parentheses goes on a line of its own.
fn tiles(figures: impl Iterator<Item = (&'static str, String)>) -> String {
    let tile = |(name, value): (&str, String)| {
        let parts = value.split_once(" (").map(|(value, rest)| (value, rest.trim_end_matches(')')));
        let (value, remark) = parts.map_or((&value[..], String::new()), |(value, remark)| {
            (value, format!("<dd class=\"remark\">{remark}</dd>"))
        });
        format!("<div><dt>{name}</dt><dd>{value}</dd>{remark}</div>\n")
    };
    figures.map(tile).collect()
}

/// Wraps a table that may be wider than the page, so that it scrolls by the keyboard, too.
pub(super) fn wide(name: &str, table: &str) -> String {
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">\n{table}</div>\n"
    )
}

/// Formats a share in percent.
pub(super) fn percent(share: f64) -> String {
    // The space does not break.
    format!("{:.1}\u{a0}%", 100.0 * share)
}

/// Formats a number with four decimals, or in scientific notation.
pub(super) fn short(x: f64) -> String {
    // Four decimals would leave too few digits of values below a hundredth.
    if x == 0.0 || (1e-2..1e6).contains(&x.abs()) { format!("{x:.4}") } else { format!("{x:.3e}") }
}

/// Formats a chart with its title above and its description below.
pub(super) fn figure(chart: &Chart<'_>) -> String {
    format!(
        "<figure><h3>{}</h3>\n{}<figcaption>{}</figcaption></figure>\n",
        escape(chart.title),
        chart.svg(),
        escape(chart.description)
    )
}

/// Returns the quality figures of a model with their names.
#[must_use]
pub fn fields(quality: &Quality) -> Vec<(&'static str, String)> {
    let number = |x: f64| format!("{x:.4}");
    let known = |x: Option<f64>| x.map_or_else(|| "-".into(), number);
    vec![
        ("rows", quality.rows.to_string()),
        (
            "accuracy",
            format!("{:.4} (the larger class {:.4})", quality.accuracy, quality.largest_class),
        ),
        ("AUC", known(quality.auc)),
        ("KS", known(quality.ks)),
        ("log loss", number(quality.log_loss)),
        ("Brier score", number(quality.brier)),
        ("calibration error", number(quality.calibration_error)),
    ]
}
