//! Parsers of option values.

use crate::output::say;
use std::{collections::BTreeMap, ops::RangeInclusive};
use sudare_apps::stats::Edges;
use sudare_roles::clear::reading::{Reading, names_between_commas};
use sudare_table::{
    Categorical, DatePart, Encoding, EncodingOptions, Missing, Selection, Unseen, list,
};

/// Reads a whole number in a range.
pub fn whole(
    range: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let first = range.start();
        let last = range.end();
        number.ok_or_else(|| format!("expected a whole number from {first} to {last}"))
    }
}

/// Reads a finite number.
pub fn finite(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or("expected a number such as 2.5")
}

/// Reads a number of GiB as bytes.
#[cfg(feature = "serve")]
pub fn gibibytes(text: &str) -> Result<u64, &'static str> {
    // The upper bound keeps bytes within 64 bits.
    let number = text.parse().ok().filter(|&gib: &f64| gib > 0.0 && gib < 1e9);
    number.map(|gib| (gib * f64::from(1 << 30)) as u64).ok_or("expected a number such as 2.5")
}

/// Reads the weights of classes, such as 1,2.5.
pub fn class_weights(text: &str) -> Result<Vec<f64>, &'static str> {
    let positive = |text: &str| text.parse().ok().filter(|&w: &f64| w.is_finite() && w > 0.0);
    let weights: Option<Vec<f64>> = text.split(',').map(positive).collect();
    // A target has two classes or more.
    weights.filter(|weights| weights.len() > 1).ok_or(
        "expected positive numbers, the weight of a row of each class, such as 1,2.5 for a target \
         of 0 and 1",
    )
}

/// Edges of bins, for one column or for all.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnEdges {
    /// Name of the column; nothing for all.
    pub column: Option<String>,
    /// The choice of the edges.
    pub edges: Edges,
}

/// Reads edges of bins: `[COL=]equal`, `quantile`, `log`, or numbers such as `0,10,20`.
pub fn edges(text: &str) -> Result<ColumnEdges, &'static str> {
    // From the right: names of columns may contain `=`, edges cannot.
    let (column, text) = match text.rsplit_once('=') {
        Some((column, text)) => (Some(column.to_owned()), text),
        None => (None, text),
    };
    let edges = match text {
        "equal" => Edges::Equal,
        "quantile" => Edges::Quantiles,
        "log" => Edges::Logarithmic,
        numbers => {
            let number = |text: &str| text.trim().parse().ok().filter(|x: &f64| x.is_finite());
            let numbers: Option<Vec<f64>> = numbers.split(',').map(number).collect();
            Edges::Given(numbers.filter(|numbers| numbers.len() > 2).ok_or(
                "expected equal, quantile, log, or three or more numbers such as 0,10,20, with the name of \
                 a column first if they are for that column alone, such as age=0,10,20",
            )?)
        }
    };
    Ok(ColumnEdges { column, edges })
}

/// Treatment of missing values, for one column or for all others.
#[derive(Debug, Clone, PartialEq)]
struct ColumnMissing {
    /// Name of the column; nothing for all others.
    column: Option<String>,
    rule: Missing,
}

/// Reads a treatment of missing values: `[COL=]mean`.
fn missing(text: &str) -> Result<ColumnMissing, &'static str> {
    // From the right: names of columns may contain `=`, treatments cannot.
    let (column, rule) = match text.rsplit_once('=') {
        Some((column, rule)) => (Some(column.to_owned()), rule),
        None => (None, text),
    };
    let rule = Missing::named(rule).ok_or(
        "expected refuse, mean, median, most-frequent, drop or flag, with the name of a column first \
         if it is for that column alone, such as age=median",
    )?;
    Ok(ColumnMissing { column, rule })
}

/// Parts of the dates of a column.
#[derive(Debug, Clone, PartialEq)]
struct ColumnDates {
    column: String,
    parts: Vec<DatePart>,
}

/// Reads parts of dates: `COL=year,month`.
fn dates(text: &str) -> Result<ColumnDates, &'static str> {
    let (column, parts) = text.rsplit_once('=').unwrap_or_default();
    let parts: Option<Vec<DatePart>> = parts.split(',').map(DatePart::named).collect();
    let parts = parts.filter(|_| !column.is_empty()).ok_or(
        "expected a column and parts of its dates, such as admitted=year,month; the parts are days, year, \
         month, day, weekday and hour",
    )?;
    Ok(ColumnDates { column: column.to_owned(), parts })
}

/// Reads a share of rows.
pub fn share(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|&share: &f64| share > 0.0 && share < 1.0);
    number.ok_or("expected a share between 0 and 1, such as 0.2")
}

/// Names in one argument.
pub type Names = Vec<String>;

/// Reads names between commas. A name with a comma stands in double quotes.
pub fn names(text: &str) -> Result<Names, &'static str> {
    names_between_commas(text)
        .ok_or("expected names between commas, in double quotes where they contain commas")
}

/// Format of tables in files.
#[derive(Debug, Clone, clap::Args)]
pub struct TableFormat {
    /// Columns to use, besides the target; default: all except identifiers. A column of at least 20
    /// rows is an identifier if nine in ten of its texts differ, or if its numbers are different
    /// integers and its name marks an identifier, such as patient_id. Quote a name with a comma as in
    /// a CSV file: 'a,"b, in km"'
    #[arg(long, value_name = "COL,COL", value_parser = names)]
    columns: Vec<Names>,
    /// Columns to leave out
    #[arg(long, value_name = "COL,COL", value_parser = names)]
    drop: Vec<Names>,
    /// Columns of categories, besides detected columns of text: each becomes a column of 0 and 1
    /// for every value. A column of ISO 8601 dates becomes days since 1970-01-01, and true and
    /// false become 1 and 0. With all, dates, truth values and text among numbers are categories,
    /// too
    #[arg(long, value_name = "COL,COL|all", value_parser = names)]
    categorical: Vec<Names>,
    /// Categories with fewer rows than this number are joined as one category, other, of at least
    /// this number of rows. Values of later tables that are unknown count as other, too; default: no
    /// category is joined
    #[arg(long, value_name = "ROWS", value_parser = whole(2..=u32::MAX))]
    rare: Option<u32>,
    /// Treatment of missing values: refuse; mean or median, which replace numbers by the mean or the
    /// median of the column, and text by a category of its own; most-frequent, which replaces both by
    /// the most frequent value; drop, which leaves out their rows; flag, which is mean with an extra
    /// column that marks them. For a single column, put its name first, and repeat the option for
    /// each such column: age=median [default: refuse]
    #[arg(
        long,
        value_name = "[COL=]refuse|mean|median|most-frequent|drop|flag",
        value_parser = missing
    )]
    missing: Vec<ColumnMissing>,
    /// Parts of the dates of a column, which become columns of numbers in its place: days, year,
    /// month, day, weekday (0 is Monday) and hour, in UTC. The parts of the column admitted are
    /// called "admitted year" and so on, and other options may name them. Repeat the option for each
    /// such column
    #[arg(long, value_name = "COL=PART,PART", value_parser = dates)]
    dates: Vec<ColumnDates>,
    /// Words of a CSV file that mean a missing value in any column, with --missing. By default, NA,
    /// N/A, n/a, na, #N/A, <NA>, NaN, nan, NAN, null, NULL, Null, None, ? and - do so in columns of
    /// numbers, and are categories in columns of text. An empty cell always does
    #[arg(long, value_name = "WORD,WORD", value_parser = names)]
    missing_words: Vec<Names>,
    /// Treatment of a category that the training table does not have: refuse; or zero, in all its
    /// columns [default: refuse]
    #[arg(long, value_name = "refuse|zero", value_parser = unseen)]
    unseen: Option<Unseen>,
    /// Delimiter of a CSV file; default: detected
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<char>,
    /// Decimal mark of a CSV file, point or comma; default: detected
    #[arg(long, value_name = "CHAR")]
    decimal: Option<char>,
}

impl TableFormat {
    /// Returns the format of the table in the terms of [`Reading`].
    pub fn reading(&self) -> Reading {
        let categorical = match &self.categorical.concat()[..] {
            [all] if all == "all" => Categorical::Every,
            names => Categorical::Detect(names.to_vec()),
        };
        let given = |words: &[Names]| Some(words.concat()).filter(|words| !words.is_empty());
        // The last one counts, as with other repeated options.
        let rule =
            self.missing.iter().rfind(|given| given.column.is_none()).map(|given| given.rule);
        let own = self.missing.iter().filter_map(|given| Some((given.column.clone()?, given.rule)));
        let mut dates = BTreeMap::<_, Vec<_>>::new();
        for ColumnDates { column, parts } in &self.dates {
            dates.entry(column.clone()).or_default().extend(parts);
        }
        let encoding = EncodingOptions {
            categorical,
            missing: rule.unwrap_or_default(),
            missing_of: own.collect(),
            dates,
            unseen: self.unseen.unwrap_or_default(),
            selection: Selection { columns: given(&self.columns), drop: self.drop.concat() },
            rare: self.rare.map_or(0, |rows| rows as usize),
        };
        Reading {
            encoding,
            delimiter: self.delimiter,
            decimal: self.decimal,
            // No words given means the usual list, not an empty one.
            missing_words: given(&self.missing_words),
        }
    }

    /// Returns whether no option is given.
    pub fn is_default(&self) -> bool {
        let lists = [&self.columns, &self.drop, &self.categorical, &self.missing_words];
        lists.iter().all(|list| list.is_empty())
            && (self.missing.is_empty() && self.dates.is_empty())
            && (self.rare, self.unseen) == (None, None)
            && (self.delimiter, self.decimal) == (None, None)
    }
}

/// Tells the user which columns the fit of an encoding left out.
pub fn tell_identifiers(encoding: &Encoding) {
    let found = encoding.identifiers();
    if found.is_empty() {
        return;
    }
    say(format_args!(
        "left out {}, because the values identify rows: name the columns to use with --columns to \
         use it, or leave it out with --drop",
        list(&found)
    ));
}

fn unseen(text: &str) -> Result<Unseen, &'static str> {
    match text {
        "refuse" => Ok(Unseen::Refuse),
        "zero" => Ok(Unseen::Zero),
        _ => Err("expected refuse or zero"),
    }
}

/// Reads a character, `\t` being a tab.
fn delimiter(text: &str) -> Result<char, &'static str> {
    let text = if text == "\\t" { "\t" } else { text };
    text.parse().map_err(|_| "expected one character, such as ';' or '\\t'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_told_the_range() {
        let read = whole(1..=9);
        assert_eq!((read("1"), read("9")), (Ok(1), Ok(9)));
        for bad in ["0", "10", "-1", "1.5", "x", "", "99999999999"] {
            assert_eq!(read(bad), Err("expected a whole number from 1 to 9".into()), "{bad}");
        }
        assert_eq!((finite("2.5"), finite("-1e3")), (Ok(2.5), Ok(-1e3)));
        for bad in ["nan", "inf", "1e999", "x", ""] {
            assert!(finite(bad).is_err(), "{bad}");
        }
        assert_eq!(class_weights("1,2.5"), Ok(vec![1.0, 2.5]));
        assert_eq!(class_weights("1,2,3"), Ok(vec![1.0, 2.0, 3.0]));
        assert_eq!((share("0.2"), delimiter("\\t"), delimiter(";")), (Ok(0.2), Ok('\t'), Ok(';')));
        assert_eq!(names("a"), Ok(vec!["a".into()]));
        let quoted = names("a,\"b, in \"\"km\"\"\",c d");
        assert_eq!(quoted, Ok(["a", "b, in \"km\"", "c d"].map(String::from).to_vec()));
        for bad in ["", "a,", ",a"] {
            assert!(names(bad).is_err(), "{bad}");
        }
        assert!(share("1").is_err() && delimiter("ab").is_err() && missing("x").is_err());
        let column = |name: &str, rule| Ok(ColumnMissing { column: Some(name.to_owned()), rule });
        assert_eq!(missing("mean"), Ok(ColumnMissing { column: None, rule: Missing::Mean }));
        assert_eq!(missing("a=b=most-frequent"), column("a=b", Missing::MostFrequent));
        let parts = vec![DatePart::Year, DatePart::Weekday];
        assert_eq!(dates("a=b=year,weekday"), Ok(ColumnDates { column: "a=b".into(), parts }));
        for bad in ["year", "=year", "a=", "a=year,", "a=decade"] {
            assert!(dates(bad).is_err(), "{bad}");
        }
        for bad in ["1", "1,", "1,0", "-1,1", "inf,1", "nan,1", ""] {
            assert!(class_weights(bad).is_err(), "{bad}");
        }
    }
}
