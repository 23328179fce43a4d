//! Charts as inline SVG. The page's style sheet colours them, also in dark mode and in print.

use core::fmt::Write;
use std::f64::consts::LOG10_2;
use sudare_arith::real;

/// Sizes in SVG user units, about one pixel each.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 388.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 226.0;

/// A chart with one horizontal and one vertical axis.
pub struct Chart<'a> {
    /// Identifier, unique in the page; a valid XML name.
    pub id: &'a str,
    pub title: &'a str,
    /// Text description for readers who cannot see the chart.
    pub description: &'a str,
    pub x: Axis<'a>,
    pub y: Axis<'a>,
    /// Up to three series.
    pub series: Vec<Series<'a>>,
}

/// An axis from `low` to `high`, with `low < high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis<'a> {
    pub label: &'a str,
    pub low: f64,
    pub high: f64,
    /// True if only whole numbers make sense. Such an axis is at least 1 long.
    pub whole: bool,
}

/// Points within the axes.
pub struct Series<'a> {
    /// Name in the legend.
    pub name: &'a str,
    pub mark: Mark,
    pub points: Vec<[f64; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Line,
    Dashed,
    /// A reference for comparison, in the third colour.
    Reference,
    Dots,
    /// A bar from each point to the next, and from the last to the end of the axis.
    Bars,
}

impl<'a> Axis<'a> {
    /// Creates an axis that covers finite values with some margin.
    pub fn around(label: &'a str, values: impl IntoIterator<Item = f64>) -> Self {
        let none = (f64::INFINITY, f64::NEG_INFINITY);
        let least_and_most = |(low, high), x: f64| (x.min(low), x.max(high));
        let (mut low, mut high) = values.into_iter().fold(none, least_and_most);
        // No value at all leaves the bounds crossed, and such a chart still needs an axis.
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        // Values that are all equal also need an axis with a length, even at 0.
        let room = (0.05 * (high - low)).max(1e-3 * high.abs().max(low.abs())).max(1e-9);
        Self { label, low: low - room, high: high + room, whole: false }
    }

    /// Returns about `most` positions of numbers on the axis, and the number of decimals to show.
    fn ticks(&self, most: u32) -> (Vec<f64>, usize) {
        let length = (self.high - self.low).min(f64::from(most)) as u32;
        ticks(self.low, self.high, if self.whole { length.max(1) } else { most })
    }

    /// Returns the fraction of the axis below `x`.
    fn part(&self, x: f64) -> f64 {
        (x - self.low) / (self.high - self.low)
    }
}

/// Returns up to `most + 1` evenly spaced round numbers from `low` to `high`, and the number of
/// decimals that distinguishes them.
fn ticks(low: f64, high: f64, most: u32) -> (Vec<f64>, usize) {
    let least = (high - low) / f64::from(most);
    let power = log10(least).floor() as i32;
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * real::powi(10.0, power));
    // The tolerance keeps a step that rounding made too small by its last bit.
    let step = steps.into_iter().find(|&step| step >= least * (1.0 - 1e-9)).unwrap_or(least);
    // More than 12 decimals would be digits of rounding errors.
    let decimals = (-(log10(step) + 1e-9).floor()).clamp(0.0, 12.0) as usize;
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    ((first..=last).map(|k| k as f64 * step).collect(), decimals)
}

fn log10(x: f64) -> f64 {
    real::log2(x) * LOG10_2
}

/// Escapes text for XML and replaces control characters.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // XML cannot contain these characters, not even as references.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

impl Chart<'_> {
    /// Returns the `svg` element, with title and description.
    pub fn svg(&self) -> String {
        let Self { id, title, description, .. } = self;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             role=\"img\" aria-labelledby=\"{id}-title {id}-text\">\n\
             <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-text\">{}</desc>\n",
            escape(title),
            escape(description)
        );
        self.draw(&mut out);
        out + "</svg>\n"
    }

    fn place(&self, [x, y]: [f64; 2]) -> (f64, f64) {
        let x = self.x.part(x);
        let y = self.y.part(y);
        (LEFT + x * (RIGHT - LEFT), BOTTOM - y * (BOTTOM - TOP))
    }

    fn draw(&self, out: &mut String) {
        let mut grid = String::new();
        let mut labels = String::new();
        let mut label = |x: f64, y: f64, anchor: &str, text: &str| {
            let text = escape(text);
            labels += &format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n"
            );
        };
        let (values, decimals) = self.x.ticks(6);
        for value in values {
            let (x, _) = self.place([value, self.y.low]);
            grid += &format!("M{x:.1} {TOP}V{BOTTOM}");
            label(x, BOTTOM + 16.0, "middle", &format!("{value:.decimals$}"));
        }
        let (values, decimals) = self.y.ticks(5);
        for value in values {
            let (_, y) = self.place([self.x.low, value]);
            grid += &format!("M{LEFT} {y:.1}H{RIGHT}");
            label(LEFT - 6.0, y + 4.0, "end", &format!("{value:.decimals$}"));
        }
        label((LEFT + RIGHT) / 2.0, HEIGHT - 8.0, "middle", self.x.label);
        let mut at = LEFT + 4.0;
        let mut keys = String::new();
        for (number, series) in self.series.iter().enumerate() {
            let class = series.class(number);
            keys += &match series.mark {
                Mark::Bars => format!("<path class=\"{class}\" d=\"M{at} 9h16v10h-16z\"/>\n"),
                Mark::Dots => format!("<path class=\"{class}\" d=\"M{} 14h0\"/>\n", at + 8.0),
                Mark::Line | Mark::Dashed | Mark::Reference => {
                    format!("<path class=\"{class}\" d=\"M{at} 14h16\"/>\n")
                }
            };
            label(at + 21.0, 18.0, "start", series.name);
            at += 36.0 + 6.2 * series.name.chars().count() as f64;
        }
        label(RIGHT, 18.0, "end", self.y.label);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"{grid}\"/>\n\
             <path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>\n{labels}{keys}"
        );
        for (number, series) in self.series.iter().enumerate() {
            let path = self.path(series);
            let _ = writeln!(out, "<path class=\"{}\" d=\"{path}\"/>", series.class(number));
        }
    }

    fn path(&self, series: &Series<'_>) -> String {
        let mut path = String::new();
        let (end, ground) = self.place([self.x.high, self.y.low]);
        for (i, &point) in series.points.iter().enumerate() {
            let (x, y) = self.place(point);
            match series.mark {
                Mark::Line | Mark::Dashed | Mark::Reference => {
                    let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
                }
                Mark::Dots => {
                    let _ = write!(path, "M{x:.1} {y:.1}h0");
                }
                Mark::Bars => {
                    let next = series.points.get(i.saturating_add(1));
                    let to = next.map_or(end, |&next| self.place(next).0);
                    let _ = write!(path, "M{x:.1} {ground:.1}V{y:.1}H{to:.1}V{ground:.1}z");
                }
            }
        }
        path
    }
}

impl Series<'_> {
    fn class(&self, number: usize) -> String {
        match self.mark {
            Mark::Line => format!("s s{number}"),
            Mark::Dashed => format!("s s{number} dashed"),
            Mark::Reference => "s s2 dashed".into(),
            Mark::Dots => format!("s s{number} dots"),
            Mark::Bars => format!("s s{number} area"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let shown = |low, high, most| {
            let (ticks, decimals) = ticks(low, high, most);
            ticks.iter().map(|tick| format!("{tick:.decimals$}")).collect::<Vec<_>>()
        };
        assert_eq!(shown(0.0, 1.0, 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(shown(1.0, 32.0, 6), ["10", "20", "30"]);
        assert_eq!(shown(0.612, 0.694, 5), ["0.62", "0.64", "0.66", "0.68"]);
        assert_eq!(shown(-0.3, 0.1, 4), ["-0.3", "-0.2", "-0.1", "0.0", "0.1"]);
        assert_eq!(
            shown(9.99e5, 1.001e6, 4),
            ["999000", "999500", "1000000", "1000500", "1001000"]
        );
        for i in 1..300 {
            let low = f64::from(i % 17) * 0.37;
            let high = f64::from(i % 17) * 0.37 + f64::from(i);
            let (ticks, _) = ticks(low, high, 6);
            assert!((2..=7).contains(&ticks.len()), "{low} {high}: {ticks:?}");
            let room = 1e-6 * (high - low);
            assert!(ticks.iter().all(|&t| t >= low - room && t <= high + room), "{ticks:?}");
        }
    }

    #[test]
    fn axes_have_a_length() {
        for values in [vec![], vec![0.0], vec![0.7], vec![-5e8], vec![1.0, 1.0], vec![0.0, 1e-30]] {
            let axis = Axis::around("", values.clone());
            assert!(axis.high > axis.low, "{axis:?}");
            assert!(values.iter().all(|&x| (0.0..=1.0).contains(&axis.part(x))), "{axis:?}");
        }
    }

    #[test]
    fn markup_in_text_is_text() {
        let evil = "<script>alert('&\"')</script>\0\u{1b}";
        let safe = "&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;\u{fffd}\u{fffd}";
        assert_eq!(escape(evil), safe);
    }

    #[test]
    fn points_are_drawn_in_their_places() {
        let chart = Chart {
            id: "c",
            title: "a < b",
            description: "",
            x: Axis { label: "x", low: 0.0, high: 2.0, whole: true },
            y: Axis { label: "y", low: -1.0, high: 1.0, whole: false },
            series: vec![
                Series {
                    name: "l",
                    mark: Mark::Line,
                    points: vec![[0.0, -1.0], [1.0, 0.0], [2.0, 1.0]],
                },
                Series { name: "b", mark: Mark::Bars, points: vec![[0.0, 1.0], [1.0, 0.0]] },
                Series { name: "d", mark: Mark::Dots, points: vec![[1.0, 0.0]] },
            ],
        };
        let svg = chart.svg();
        for part in [
            "<title id=\"c-title\">a &lt; b</title>",
            "<path class=\"s s0\" d=\"M48.0 226.0L218.0 128.0L388.0 30.0\"/>",
            "d=\"M48.0 226.0V30.0H218.0V226.0zM218.0 226.0V128.0H388.0V226.0z\"/>",
            "<path class=\"s s2 dots\" d=\"M218.0 128.0h0\"/>",
        ] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }
}
