use crate::{
    output::{Output, say},
    values::{TableFormat, tell_identifiers},
};
use serde::Serialize;
use std::path::PathBuf;
use sudare_apps::pool::Schema;
use sudare_roles::{
    error::Result,
    os::files::{Access, NewFile},
    pooled,
};
use sudare_table::Encoding;

/// Draft the schema that several owners of rows agree on, or check a table against it
///
/// A schema has the columns, the minimum and the maximum of each, the categories and classes, and
/// the names of the owners. It is public. One owner drafts it from a table, with extremes of
/// columns rounded outwards. All owners read it, correct it by hand and agree on it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare schema --data north.csv --target low --owners north,south,west -o schema.json\n  \
    sudare schema --check schema.json --data south.csv")]
pub struct Args {
    /// CSV or Parquet file of an owner
    #[arg(long, value_name = "T.csv")]
    data: PathBuf,
    /// Target column, if there is one
    #[arg(long, value_name = "COL", conflicts_with = "check")]
    target: Option<String>,
    /// Names of all owners, in any order
    #[arg(
        long,
        value_name = "NAME,NAME",
        value_delimiter = ',',
        required_unless_present = "check"
    )]
    owners: Vec<String>,
    /// Schema to check the table against, without writing anything
    #[arg(long, value_name = "S.json", conflicts_with_all = ["owners", "output"])]
    check: Option<PathBuf>,
    #[command(flatten)]
    format: TableFormat,
    /// File for the schema
    #[arg(short, long, value_name = "S.json", required_unless_present = "check")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    columns: usize,
    classes: usize,
    owners: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let reading = args.format.reading();
    let (schema, rows) = match &args.check {
        Some(path) => {
            let schema = pooled::read_schema(path)?;
            let rows = reading.pooled(&args.data, &schema)?.rows();
            (schema, rows)
        }
        None => {
            let options = &reading.encoding;
            let target = args.target.as_deref();
            let frame = reading.frame(&args.data, options.read_options(target))?;
            let schema = Schema::draft(&frame, target, options, &args.owners)?;
            tell_identifiers(&Encoding::fit(&frame, target, options)?);
            (schema, frame.rows())
        }
    };
    if let Some(path) = &args.output {
        let mut file = NewFile::create(path, Access::Shared, args.force)?;
        file.write_text(&schema.to_json()?)?;
        file.finish()?;
        say(
            "the schema is public: correct the bounds of columns if they reveal too much, and let all \
             owners agree on it",
        );
    }
    let report = Report {
        rows,
        columns: schema.columns().len(),
        classes: schema.classes().len(),
        owners: schema.owners().len(),
        path: args.output.clone(),
    };
    output.write(&report, |report| {
        let Report { rows, columns, classes, owners, .. } = report;
        let place = match &report.path {
            Some(path) => path.display().to_string(),
            None => format!("{} has {rows} rows of the schema", args.data.display()),
        };
        format!("{place}: {columns} columns, {classes} classes, {owners} owners\n")
    })
}
