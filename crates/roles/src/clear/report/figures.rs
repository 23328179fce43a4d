//! Pages about statistics of columns, sums by groups and histograms.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::{
    page::{document, figure, percent, short, wide},
    svg::{Axis, Chart, Mark, Series, escape},
};
use crate::clear::model::{NamedGroups, NamedHistograms, NamedScores, NamedStatistics, OfRows};
use sudare_apps::stats::Histogram;

/// Maximum number of columns on a page.
// Each column has a picture, and hundreds of pictures would load slowly.
const SHOWN_COLUMNS: usize = 40;
/// Maximum number of columns in a table of pairs.
// A table of pairs has the square of this number of cells.
const SHOWN_PAIRS: usize = 20;
/// Maximum number of rows in a table of groups.
const SHOWN_ROWS: usize = 400;
/// Maximum number of classes in the first sentence about scores.
const TOLD_CLASSES: usize = 4;
/// Number of bins of the chart of probabilities.
const PROBABILITY_BINS: usize = 20;

const FOR_THE_OWNER: &str = "For the owner of the secret key alone: the figures contain errors that reveal information \
     about the key.";

/// Figures of the columns of a table, for the owner of the key alone.
pub struct Figures {
    /// Title before the name of the table.
    title: &'static str,
    body: String,
}

impl Figures {
    /// Shows columns, each on its own and in pairs.
    #[must_use]
    pub fn of_statistics(named: &NamedStatistics) -> Self {
        let s = &named.statistics;
        let values = [&s.mean, &s.std_dev, &s.skewness, &s.kurtosis];
        let rows = named.columns.iter().enumerate().map(|(at, column)| {
            let cells = values.iter().filter_map(|values| values.get(at));
            row(column, cells.map(|&x| known(x)))
        });
        let head = ["column", "mean", "standard deviation", "skewness", "excess kurtosis"];
        let lead = strongest(&named.columns, &s.correlation).unwrap_or_else(|| {
            format!("Here are mean and standard deviation of {}.", counted(named.columns.len()))
        });
        let mut body = opening(&lead, s.rows);
        body += &table("Columns", &head, rows, named.columns.len(), SHOWN_COLUMNS);
        let names = named.columns.iter().take(SHOWN_PAIRS);
        let head: Vec<&str> = core::iter::once("column").chain(names.map(String::as_str)).collect();
        let rows = named.columns.iter().zip(&s.correlation).map(|(column, correlations)| {
            row(column, correlations.iter().take(SHOWN_PAIRS).map(|&x| known(x)))
        });
        body += "<h2>Correlations</h2>\n";
        body += &table("Correlations", &head, rows, named.columns.len(), SHOWN_PAIRS);
        Self { title: "Statistics of", body }
    }

    /// Shows groups of rows.
    #[must_use]
    pub fn of_groups(named: &NamedGroups) -> Self {
        let s = &named.statistics;
        let of_group = s.count.iter().zip(&s.sum).zip(s.mean.iter().zip(&s.variance));
        let rows = named.labels.texts().into_iter().zip(of_group).flat_map(
            |(label, ((count, sum), (mean, variance)))| {
                let of_column = sum.iter().zip(mean).zip(variance);
                named.columns.iter().zip(of_column).map(move |(column, ((sum, mean), variance))| {
                    let figures = [*sum, *mean, variance.sqrt()].map(known);
                    let cells = [format!("<bdi>{}</bdi>", escape(column)), count.to_string()];
                    row(&label, cells.into_iter().chain(figures))
                })
            },
        );
        let head = [&named.key[..], "column", "rows", "sum", "mean", "standard deviation"];
        let all: usize = s.count.iter().sum();
        let lines = named.labels.count().saturating_mul(named.columns.len());
        let groups = named.labels.count();
        let lead = format!(
            "The rows form {groups} {} by <bdi>{}</bdi>, {}.",
            if groups == 1 { "group" } else { "groups" },
            escape(&named.key),
            match (s.count.iter().min(), s.count.iter().max()) {
                (Some(least), Some(most)) if least < most => format!("of {least} to {most} rows"),
                _ => "of equal size".into(),
            }
        );
        let body =
            opening(&lead, all) + &classed("texts", "Groups", &head, rows, lines, SHOWN_ROWS);
        Self { title: "Groups of rows in", body }
    }

    /// Shows the distribution of each column.
    #[must_use]
    pub fn of_histograms(named: &NamedHistograms) -> Self {
        let each = named.columns.iter().zip(&named.histograms).zip(&named.quantiles);
        let charts =
            each.enumerate().take(SHOWN_COLUMNS).map(|(at, ((column, histogram), found))| {
                let bounds = named.quantile_bounds.get(at).map_or(&[][..], Vec::as_slice);
                let quantiles = named.probabilities.iter().zip(found).zip(bounds);
                let quantiles: Vec<String> = quantiles
                    .map(|((part, x), (low, high))| {
                        format!("{part} at {} ({} to {})", short(*x), short(*low), short(*high))
                    })
                    .collect();
                chart(at, column, histogram, &format!("Quantiles: {}.", quantiles.join(", ")))
            });
        let charts: String = charts.collect();
        let lead = format!("Here are the distributions of {}.", counted(named.columns.len()));
        let body = format!(
            "{}<p>Each quantile lies between the numbers in parentheses.{}</p>\n<div class=\"charts\">\n\
             {charts}</div>\n",
            opening(&lead, named.rows),
            rest(named.columns.len(), SHOWN_COLUMNS)
        );
        Self { title: "Histograms of", body }
    }

    /// Shows the scores of rows, and how they are distributed.
    #[must_use]
    pub fn of_scores(named: &NamedScores) -> Self {
        let mut body = opening(&predicted(named), named.rows);
        if let (OfRows::One(probabilities), [_, second]) =
            (&named.probabilities, &named.classes[..])
        {
            body += &format!("<div class=\"charts\">\n{}</div>\n", spread(probabilities, second));
        }
        let several = matches!(named.scores, OfRows::Several(_));
        let classes = |what: &str| -> Vec<String> {
            match (several, &named.classes[..]) {
                (false, [.., second]) if what == "probability" => {
                    vec![format!("{what} of {second}")]
                }
                (false, _) => vec![what.to_owned()],
                (true, classes) => {
                    classes.iter().map(|class| format!("{what} of {class}")).collect()
                }
            }
        };
        let head: Vec<String> =
            [vec!["row".to_owned(), "class".to_owned()], classes("probability"), classes("score")]
                .concat();
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let rows = named.predicted.iter().enumerate().map(|(at, class)| {
            let probabilities = named.probabilities.of(at).iter().map(|&x| percent(x));
            let scores = named.scores.of(at).iter().map(|&x| known(x));
            let class = format!("<bdi>{}</bdi>", escape(class));
            // Counted from 1, as tables of the command do.
            let place = at.saturating_add(1).to_string();
            row(&place, core::iter::once(class).chain(probabilities).chain(scores))
        });
        body += "<h2>Rows</h2>\n";
        body += &classed("texts numbered", "Scores", &head, rows, named.rows, SHOWN_ROWS);
        Self { title: "Scores of", body }
    }

    /// Returns a page with these figures under the name of the table. The page is one
    /// self-contained HTML file that is also well-formed XML.
    #[must_use]
    pub fn page(&self, data: &str) -> String {
        document(self.title, data, &self.body)
    }

    /// Returns the content of [`Figures::page`] below its heading, to embed in a larger page.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }
}

/// Formats the first sentence about a result, with the number of rows behind it.
fn opening(lead: &str, rows: usize) -> String {
    format!(
        "<p class=\"lead\">{lead}</p>\n<p>Based on {rows} encrypted rows. {FOR_THE_OWNER}</p>\n"
    )
}

/// Returns a sentence about the predicted classes, the most frequent one first.
fn predicted(named: &NamedScores) -> String {
    let mut counts: Vec<(&str, usize)> =
        named.classes.iter().map(|class| (class.as_str(), 0)).collect();
    for class in &named.predicted {
        if let Some((_, rows)) = counts.iter_mut().find(|(name, _)| name == class) {
            *rows = rows.saturating_add(1);
        }
    }
    counts.sort_by_key(|&(_, rows)| core::cmp::Reverse(rows));
    let all = if named.rows == 1 { "1 row".to_owned() } else { format!("{} rows", named.rows) };
    let first = counts.iter().take(TOLD_CLASSES).enumerate();
    let told: Vec<String> = first
        .map(|(at, (class, rows))| {
            let of = if at == 0 { format!(" of {all}") } else { String::new() };
            format!("<bdi>{}</bdi> for {rows}{of}", escape(class))
        })
        .collect();
    let more = if counts.len() > TOLD_CLASSES { ", and other classes for the rest" } else { "" };
    let right = named.accuracy.map_or_else(String::new, |accuracy| {
        format!(" It is right for {} of the rows, whose classes are known.", percent(accuracy))
    });
    format!("The model predicts {}{more}.{right}", told.join(", "))
}

/// Draws the distribution of the probabilities of a class.
fn spread(probabilities: &[f64], class: &str) -> String {
    let mut counts = [0_u32; PROBABILITY_BINS];
    for probability in probabilities {
        // A probability of 1 is the upper edge of the last bin.
        let bin = ((probability * PROBABILITY_BINS as f64) as usize).min(PROBABILITY_BINS - 1);
        if let Some(count) = counts.get_mut(bin) {
            *count = count.saturating_add(1);
        }
    }
    let label = format!("probability of {class}");
    let highest = counts.iter().copied().max().unwrap_or_default().max(1);
    let edge = |bin: usize| bin as f64 / PROBABILITY_BINS as f64;
    let points =
        counts.iter().enumerate().map(|(bin, &count)| [edge(bin), f64::from(count)]).collect();
    figure(&Chart {
        id: "probabilities",
        title: "Predicted probabilities",
        description: &format!("Numbers of rows by the predicted probability of {class}."),
        x: Axis { label: &label, low: 0.0, high: 1.0, whole: false },
        y: Axis { label: "rows", low: 0.0, high: 1.05 * f64::from(highest), whole: false },
        series: vec![Series { name: "rows", mark: Mark::Bars, points }],
    })
}

fn counted(count: usize) -> String {
    if count == 1 { "one column".into() } else { format!("{count} columns") }
}

/// Returns a sentence about the strongest correlation, if there is one.
fn strongest(names: &[String], correlation: &[Vec<f64>]) -> Option<String> {
    let pairs = correlation.iter().zip(names).enumerate().flat_map(|(at, (row, name))| {
        row.iter().zip(names).take(at).map(move |(r, other)| (other, name, *r))
    });
    let known = pairs.filter(|(_, _, r)| !r.is_nan());
    let (one, other, r) = known.max_by(|a, b| a.2.abs().total_cmp(&b.2.abs()))?;
    Some(format!(
        "Among {}, <bdi>{}</bdi> and <bdi>{}</bdi> have the strongest correlation, {r:.2}.",
        counted(names.len()),
        escape(one),
        escape(other)
    ))
}

/// Draws the chart of one column.
fn chart(at: usize, column: &str, histogram: &Histogram, quantiles: &str) -> String {
    let Histogram { edges, counts, .. } = histogram;
    let low = edges.first().copied().unwrap_or(0.0);
    let high = edges.last().copied().unwrap_or(0.0);
    // A column of one value has bins without width, and an axis needs two ends.
    let x = if low < high {
        Axis { label: column, low, high, whole: false }
    } else {
        Axis::around(column, [low])
    };
    // At least 1, since an axis from 0 to 0 has no scale.
    let highest = counts.iter().copied().fold(0.0, f64::max).max(1.0);
    figure(&Chart {
        id: &format!("column-{at}"),
        title: column,
        description: quantiles,
        x,
        y: Axis { label: "rows", low: 0.0, high: 1.05 * highest, whole: false },
        series: vec![Series {
            name: "rows",
            mark: Mark::Bars,
            points: edges
                .iter()
                .zip(counts)
                // The noise of the encryption can make an empty bin slightly negative.
                .map(|(&edge, &count)| [edge, count.max(0.0)])
                .collect(),
        }],
    })
}

/// Formats a number. NaN gives an empty text.
fn known(x: f64) -> String {
    if x.is_nan() { String::new() } else { short(x) }
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr><td><bdi>{}</bdi></td>{cells}</tr>\n", escape(name))
}

/// Formats the first `most` rows of a table with `all` rows.
fn table(
    name: &str,
    head: &[&str],
    rows: impl Iterator<Item = String>,
    all: usize,
    most: usize,
) -> String {
    let head: String =
        head.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    let rows: String = rows.take(most).collect();
    let more = rest(all, most);
    let more = if more.is_empty() { more } else { format!("<p>{}</p>\n", more.trim_start()) };
    let table =
        format!("<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n");
    wide(name, &table) + &more
}

/// Formats a table as [`table`] does, with a class of the style sheet: `texts` if the second column has
/// texts, too, and `numbered` if the first one has numbers of rows.
fn classed(
    class: &str,
    name: &str,
    head: &[&str],
    rows: impl Iterator<Item = String>,
    all: usize,
    most: usize,
) -> String {
    table(name, head, rows, all, most).replacen("<table>", &format!("<table class=\"{class}\">"), 1)
}

/// Returns a sentence about the columns or rows that are not shown.
fn rest(all: usize, most: usize) -> String {
    match all.saturating_sub(most) {
        0 => String::new(),
        more => format!(" The files contain {more} more."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clear::groups::GroupLabels;
    use sudare_apps::stats::{GroupStatistics, Statistics};

    const MEAN: &str = "a <b> & \"c\"";

    /// Refuses pages that an XML parser would refuse, and names that break out of their element.
    fn check(page: &str) {
        assert!(page.starts_with("<!DOCTYPE html>\n") && page.ends_with("</html>\n"));
        assert!(!page.contains("<b>") && page.contains("a &lt;b&gt; &amp; &quot;c&quot;"));
        let mut open = Vec::new();
        for part in page.split('<').skip(2) {
            let (tag, _) = part.split_once('>').unwrap();
            let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "{tag}");
            } else if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert_eq!(open, [""; 0]);
    }

    fn columns(count: usize) -> Vec<String> {
        (0..count).map(|at| if at == 0 { MEAN.into() } else { format!("x{at}") }).collect()
    }

    #[test]
    fn statistics_are_shown_without_what_is_undefined() {
        let count = SHOWN_COLUMNS + 2;
        let of_columns = |x: f64| vec![x; count];
        let of_pairs = |x: f64| vec![of_columns(x); count];
        let statistics = Statistics {
            rows: 17,
            mean: of_columns(1.5),
            variance: of_columns(4.0),
            std_dev: of_columns(2.0),
            skewness: of_columns(f64::NAN),
            kurtosis: of_columns(-0.25),
            covariance: of_pairs(7.0),
            correlation: of_pairs(0.125),
            mean_error: of_columns(1e-6),
            covariance_error: of_pairs(1e-6),
        };
        let page =
            Figures::of_statistics(&NamedStatistics::new(columns(count), statistics)).page("t");
        check(&page);
        let line = "<td>1.5000</td><td>2.0000</td><td></td><td>-0.2500</td></tr>";
        assert_eq!(page.matches(line).count(), SHOWN_COLUMNS);
        assert_eq!(page.matches("<td>0.1250</td>").count(), SHOWN_PAIRS * SHOWN_PAIRS);
        assert!(page.contains("17 encrypted rows") && page.contains("The files contain 2 more"));
        let lead = "<p class=\"lead\">Among 42 columns, ";
        assert!(page.contains(lead) && page.contains("strongest correlation, 0.12."), "{page}");
        // The strongest correlation may be negative. Undefined ones do not count.
        let correlation = [vec![1.0], vec![f64::NAN, 1.0], vec![0.5, -0.75, 1.0]];
        let sentence = strongest(&columns(3), &correlation).unwrap();
        assert!(sentence.contains("<bdi>x1</bdi> and <bdi>x2</bdi>"), "{sentence}");
        assert!(
            sentence.contains("correlation, -0.75")
                && strongest(&columns(1), &[vec![1.0]]).is_none()
        );
    }

    #[test]
    fn groups_are_shown_by_their_values() {
        let statistics = GroupStatistics {
            count: vec![3, 1],
            sum: vec![vec![6.0, 9.0], vec![5.0, 1.0]],
            mean: vec![vec![2.0, 3.0], vec![5.0, 1.0]],
            variance: vec![vec![4.0, 1.0], vec![f64::NAN; 2]],
            count_error: 0.0,
            sum_error: vec![vec![1e-6; 2]; 2],
            mean_error: vec![vec![1e-6; 2]; 2],
            variance_error: vec![vec![1e-6; 2]; 2],
        };
        let labels = ("ward".to_owned(), GroupLabels::Numbers(vec![-1.0, 2.5]));
        let page = Figures::of_groups(&NamedGroups::new(columns(2), labels, statistics)).page("t");
        check(&page);
        let second = "<td><bdi>2.5</bdi></td><td><bdi>x1</bdi></td><td>1</td><td>1.0000</td><td>1.0000\
                      </td><td></td></tr>";
        assert!(page.contains(second) && page.contains("Based on 4 encrypted rows"), "{page}");
        assert!(
            page.contains("The rows form 2 groups by <bdi>ward</bdi>, of 1 to 3 rows."),
            "{page}"
        );
    }

    #[test]
    fn scores_begin_with_the_predicted_classes() {
        let classes =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let two = [MEAN, "yes"];
        let scores = vec![vec![2.0, -3.0, 1.0]];
        let named = NamedScores::new(scores, None, &classes(&two), Some(&[1, 0, 0])).unwrap();
        let page = Figures::of_scores(&named).page("new.csv");
        check(&page);
        let lead = "The model predicts <bdi>yes</bdi> for 2 of 3 rows, \
                    <bdi>a &lt;b&gt; &amp; &quot;c&quot;</bdi> for 1. It is right for 66.7\u{a0}% of the rows";
        assert!(page.contains(lead), "{page}");
        assert!(
            page.contains("Scores of <bdi>new.csv</bdi>") && page.contains("id=\"probabilities")
        );
        assert!(page.contains("<th scope=\"col\">probability of yes</th>"), "{page}");
        // The sigmoid of -3 is 0.0474.
        let second = "<td><bdi>a &lt;b&gt; &amp; &quot;c&quot;</bdi></td><td>4.7\u{a0}%</td><td>-3.0000</td></tr>";
        assert!(page.contains(second), "{page}");

        let five = [MEAN, "b", "c", "d", "e"];
        let scores = (0..5).map(|class| vec![f64::from(class == 4)]).collect();
        let named = NamedScores::new(scores, None, &classes(&five), None).unwrap();
        let page = Figures::of_scores(&named).page("new.csv");
        check(&page);
        assert!(
            page.contains("predicts <bdi>e</bdi> for 1 of 1 row, ") && !page.contains("right for")
        );
        assert!(page.contains("and other classes for the rest.") && !page.contains("<svg class"));
        assert_eq!(page.matches("<th scope=\"col\">probability of ").count(), 5);
    }

    #[test]
    fn histograms_are_drawn_also_of_constant_columns() {
        let histogram = |edges: [f64; 3]| Histogram {
            edges: edges.into(),
            counts: vec![4.0, -0.1],
            errors: vec![0.5, 0.5],
            below: 0,
            above: 0,
        };
        let histograms = vec![histogram([0.0, 1.0, 2.0]), histogram([3.0; 3])];
        let quartiles = NamedHistograms::QUARTILES.to_vec();
        let named = NamedHistograms::new(columns(2), 4, histograms, quartiles).unwrap();
        let page = Figures::of_histograms(&named).page("t");
        check(&page);
        assert_eq!(page.matches("role=\"img\"").count(), 2);
        assert!(page.contains("Quantiles: 0.25 at ") && !page.contains("NaN"), "{page}");
    }
}
