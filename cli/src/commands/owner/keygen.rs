use crate::{
    commands::shared::{
        key_files::{KeyFiles, NewKeys, PlannedTable},
        training::Training,
    },
    output::{self, Output},
    values::{TableFormat, tell_identifiers, whole},
};
use std::path::PathBuf;
use sudare::{
    circuits::ckks::bootstrap::BootstrapPreset,
    ckks::{Params, Preset},
    rlwe::KeyRequest,
};
use sudare_apps::{logreg, stats};
use sudare_roles::{
    clear::features::Inputs,
    error::{Error, Result},
    format::label::{Content, Meta},
    job::{Extent, Job, Purpose},
    plan::sets::Set,
    pooled,
};
use sudare_table::Encoding;

/// Make the keys that one job needs: a secret, a public and an evaluation key file
///
/// The secret key stays with the owner of the data, and the evaluation key goes to the server. The
/// files record the job, so later steps know it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare keygen --params auto --for train:189x9 --out keys\n  \
    sudare keygen --params auto --for train:189x9 --passphrase --out keys\n  \
    sudare keygen --params auto --for train:births.csv --target low --out keys\n  \
    sudare keygen --params auto --for train:visits.csv --target died --drop note --missing mean --out keys\n  \
    sudare keygen --params auto --for groups:visits.csv --by ward --out keys\n  \
    sudare keygen --params auto --for histogram:visits.csv --bins 20 --out keys\n  \
    sudare keygen --params auto --for train:11982x196 --iterations 32 --batch 1024 --out keys\n  \
    sudare keygen --params auto --for train:189x9 --class-weight balanced --out keys\n  \
    sudare keygen --params n14 --for stats:1000x12 --out keys\n  \
    sudare keygen --params auto --for histogram:100000x5x10 --exact --out keys\n  \
    sudare keygen --params auto --for predict:1000x9 --out keys\n  \
    sudare keygen --params auto --for predict:new.csv --like model.json --out keys\n  \
    sudare keygen --params auto --for predict:1000x9 --share 8 --score-range 16 --out keys\n  \
    sudare keygen --params n16-boot --for bootstrap --out keys")]
pub struct Args {
    /// Parameter set, or auto for the smallest secure ring for the job
    #[arg(long, value_name = "NAME|auto")]
    params: String,
    /// Job: train:ROWSxFEATURES or stats:ROWSxFEATURES, without the target column, or a table file
    /// in place of the numbers; groups:ROWSxFEATURESxGROUPS or groups:TABLE with --by;
    /// histogram:ROWSxFEATURESxBINS or histogram:TABLE with --bins; predict:ROWSxFEATURES, or
    /// predict:TABLE with --like; or bootstrap. Keys serve tables with exactly that number of columns and at most that number of
    /// rows. If the table has more than numbers, the file coding.json next to the keys says how it
    /// was read, and `sudare encrypt` reads tables in the same way
    #[arg(long = "for", value_name = "JOB")]
    purpose: Purpose,
    /// Schema that several owners agreed on, to train on their rows together. Pass the number of
    /// all rows with --for
    #[arg(long, value_name = "S.json", conflicts_with = "target")]
    schema: Option<PathBuf>,
    /// Target column of the table that --for names
    #[arg(long, value_name = "COL")]
    target: Option<String>,
    /// Column that defines the groups of rows of the table that --for names
    #[arg(long, value_name = "COL")]
    by: Option<String>,
    /// Number of bins of a histogram of the table that --for names [default: 10]
    #[arg(long, value_name = "BINS", value_parser = whole(1..=u32::MAX))]
    bins: Option<u32>,
    /// Model that scores the rows of the table that --for names, or the table that the model was
    /// trained on
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    #[command(flatten)]
    training: Training,
    #[command(flatten)]
    format: TableFormat,
    #[command(flatten)]
    files: KeyFiles,
    /// Accept a parameter set with less than 128 bits of security
    #[arg(long)]
    insecure: bool,
}

impl Args {
    /// Rejects options about tables that the job does not use.
    fn check_sources(&self) -> Result<()> {
        let of_groups = matches!(&self.purpose, Purpose::GroupsOf(_));
        let of_bins = matches!(&self.purpose, Purpose::HistogramOf(_));
        let of_table =
            matches!(&self.purpose, Purpose::Train(Extent::File(_)) | Purpose::StatsOf(_));
        let of_rows = matches!(&self.purpose, Purpose::PredictOf(_));
        let of_file = of_table || of_groups || of_bins || of_rows;
        if self.like.is_some() && !of_rows {
            return Err(Error::Usage(
                "--like needs a table of rows to score: make keys with --for predict:TABLE.csv, or pass it to \
                 `sudare encrypt`"
                    .into(),
            ));
        }
        if self.by.is_some() && !of_groups {
            return Err(Error::Usage(
                "--by needs a table of groups: make keys with --for groups:TABLE.csv, or pass it to `sudare \
                 encrypt`"
                    .into(),
            ));
        }
        if self.bins.is_some() && !of_bins {
            return Err(Error::Usage(
                "--bins needs a table: make keys with --for histogram:TABLE.csv, or write \
                 histogram:ROWSxFEATURESxBINS"
                    .into(),
            ));
        }
        if self.target.is_some() && !of_file {
            return Err(Error::Usage(
                "--target needs a table file in --for: leave it out here, and pass it to `sudare encrypt`"
                    .into(),
            ));
        }
        if self.schema.is_some() && !matches!(&self.purpose, Purpose::Train(_)) {
            return Err(Error::Usage(
                "--schema is for trainings on the rows of several owners: leave it out; keys for \
                 statistics need only the number of rows and columns"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// Reads the job from the arguments, and the way in which the table is to be read. The specification of
/// the job is not checked yet.
fn job(args: &Args) -> Result<(Job, Option<PlannedTable>)> {
    let mut planned = None;
    let reading = args.format.reading();
    let mut plan = |encoding: Encoding, by: Option<String>| {
        tell_identifiers(&encoding);
        // A table of numbers is read in the same way without a coding, whatever its columns are called.
        if by.is_some() || !encoding.is_plain() {
            planned = Some(PlannedTable { reading: reading.clone(), by, encoding });
        }
    };
    let target = args.target.as_deref();
    let purpose = &args.purpose;
    let training = &args.training;
    training.check(purpose)?;
    args.check_sources()?;
    let job = match purpose {
        Purpose::Job(job) => *job,
        &Purpose::Predict { rows, features } => {
            let model = training.scored(features, 2);
            Job::Predict(logreg::ScoreJob { rows, model })
        }
        Purpose::PredictOf(path) => {
            let Some(like) = &args.like else {
                return Err(Error::Usage(format!(
                    "no model for the rows of {}: pass --like with a decrypted model, or with the table \
                     that the model was trained on",
                    path.display()
                )));
            };
            let inputs = Inputs::read(like, None, (target, None), &reading)?;
            let table = inputs.read_table(path, target, &reading)?;
            // A model knows the coding of its columns. A table has to be read in the same way again.
            if let Some(encoding) = inputs.encoding.filter(|_| !Inputs::is_described(like)) {
                plan(encoding, None);
            }
            // A table without labels tells no classes.
            let classes = inputs.classes.len().max(2) as u32;
            let model = training.scored(table.features(), classes);
            Job::Predict(logreg::ScoreJob { rows: table.rows(), model })
        }
        &Purpose::Train(Extent::Shape { rows, features }) => {
            let mut spec = training.spec(rows, features)?;
            if let Some(path) = &args.schema {
                spec = training.pooled(spec, features, &pooled::read_schema(path)?)?;
            }
            Job::Train(logreg::Job { rows, features, spec })
        }
        Purpose::Train(Extent::File(path)) => {
            if args.schema.is_some() {
                return Err(Error::Usage(
                    "with --schema, --for needs the number of rows of all owners together, not a file: \
                     write train:ROWSxFEATURES"
                        .into(),
                ));
            }
            let Some(target) = args.target.as_deref() else {
                return Err(Error::Usage(format!(
                    "no target column for {}: pass --target COLUMN",
                    path.display()
                )));
            };
            let (table, encoding) = reading.table(path, Some(target))?;
            plan(encoding, None);
            let spec = training.spec_for(&table)?;
            Job::Train(logreg::Job { rows: table.rows(), features: table.features(), spec })
        }
        Purpose::StatsOf(path) => {
            let (table, encoding) = reading.table(path, target)?;
            plan(encoding, None);
            Job::Stats(stats::Job { rows: table.rows(), features: table.features() })
        }
        Purpose::HistogramOf(path) => {
            let (table, encoding) = reading.table(path, target)?;
            plan(encoding, None);
            let bins = args.bins.map_or(DEFAULT_BINS, |bins| bins as usize);
            let rows = table.rows();
            Job::Histogram(stats::HistogramJob { rows, features: table.features(), bins })
        }
        Purpose::GroupsOf(path) => {
            let Some(by) = &args.by else {
                return Err(Error::Usage(format!(
                    "no column that groups the rows of {}: pass --by COLUMN",
                    path.display()
                )));
            };
            let (table, key, encoding) = reading.grouped(path, by, target)?;
            plan(encoding, Some(by.clone()));
            let groups = key.labels.count();
            let rows = table.rows();
            Job::Groups(stats::GroupJob { rows, features: table.features(), groups })
        }
    };
    Ok((job, planned))
}

/// Number of bins of a histogram, as in Python.
const DEFAULT_BINS: usize = 10;

/// Keys to make, and their parameters.
struct Planned {
    name: String,
    params: Params,
    request: KeyRequest,
    /// Bootstrappings in a training.
    bootstraps: u32,
}

/// Chooses the parameters for the job, unless they are named, and plans its keys.
fn planned(args: &Args, job: &Job) -> Result<Planned> {
    let auto = args.params == "auto";
    let share = args.training.share;
    let exact = args.training.exact;
    // A named set has a precision of its own, which `--exact` could not change.
    if exact && !auto {
        return Err(Error::Usage(
            "--exact chooses its own parameters: pass --params auto, or leave --exact out".into(),
        ));
    }
    if *job == Job::Bootstrap {
        if exact {
            // Always an error for this job, which says why.
            job.exact_params()?;
        }
        if let Some(bits) = share {
            // Always an error for this job, which says why.
            job.shared_params(bits)?;
        }
        let set = if auto { smallest()? } else { Set::bootstrapping(&args.params)? };
        let params = accepted(args, &set.preset)?;
        let plan = set.bootstrap.plan(&params, params.upper_top())?;
        let request = plan.required_keys().clone();
        return Ok(Planned { name: set.preset.name, params, request, bootstraps: 0 });
    }
    let params = match (auto, share) {
        (true, None) if exact => job.exact_params()?,
        (true, None) => job.auto_params()?,
        (true, Some(bits)) => job.shared_params(bits)?,
        (false, _) => accepted(args, Set::named(&args.params)?.preset())?,
    };
    let plan = job.plan(&params)?;
    // A named set may be too coarse for the precision that others are to see.
    share.map_or(Ok(()), |bits| plan.expect_shared(bits))?;
    let request = plan.required_keys().clone();
    let bootstraps = plan.bootstraps();
    Ok(Planned { name: args.params.clone(), params, request, bootstraps })
}

/// Finds the secure set with bootstrapping in the smallest ring.
fn smallest() -> Result<Box<BootstrapPreset>> {
    let sets = Set::all().filter_map(|set| match set {
        Set::Bootstrapping(set) if !set.preset.spec.insecure => Some(set),
        _ => None,
    });
    // The first one among several in the same ring.
    sets.min_by_key(|set| set.preset.spec.log_n)
        .ok_or_else(|| Error::Bug("there is no secure set with bootstrapping".into()))
}

/// Returns the parameters of a set, if the user accepts its security.
fn accepted(args: &Args, preset: &Preset) -> Result<Params> {
    let params = Params::new(preset.spec.clone())?;
    let bits = params.rlwe().security_bits();
    if preset.spec.insecure && !args.insecure {
        return Err(Error::Usage(format!(
            "{} has {bits:.1} bits of security, below the required 128: choose another set, or pass \
             --insecure for a reproduction with data that anyone may read",
            preset.name
        )));
    }
    Ok(params)
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    // Planning takes seconds and reads a table, so taken names are found first.
    args.files.check_free()?;
    let (job, table) = job(args)?;
    let Planned { name, params, request, bootstraps } = planned(args, &job)?;
    let keys = NewKeys {
        params: &params,
        request: &request,
        job: job.to_string(),
        remark: output::bootstraps(bootstraps),
        label: Meta::of(job).label(&name, Content::Keys)?,
        table,
    };
    args.files.make(&keys, output)
}
