use super::{make_keys, timed};
use crate::{
    bench::exact_bootstrapping::slim,
    output::{self, Output, say},
    progress::Progress,
};
use serde::Serialize;
use std::sync::Arc;
use sudare::{
    circuits::exact::bootstrap::BootstrapPreset,
    exact::{Decryptor, Encryptor, Params, serial},
};
use sudare_apps::{
    array,
    exact::{self, Condition, CountsPlan, Engine, Scheme, Setting, matrix_bytes},
};
use sudare_arith::par;
use sudare_roles::{
    error::{Error, Result},
    exact_files::key_label,
    os::machine,
    plan::security::least_security,
    text::size,
};
use sudare_table::Table;

/// Count the rows of an encrypted table by groups and conditions, exactly
///
/// The owner encrypts the Low Birth Weight Study as codes, once. The server counts births by race,
/// smoking and weight of the child, among mothers of 20 to 34 years and 110 pounds or more, without
/// hypertension or uterine irritability. It also counts all births by the weight of the mother: a
/// histogram. The owner decrypts the counts. Where conditions need more levels than the parameters
/// have, the server bootstraps: in the default set, but not in n16-t65537-boot, which has a larger
/// ring and larger keys. The command needs 7 GiB of memory.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  sudare demo counts\n  sudare demo counts --scheme bfv\n  sudare demo counts --params n16-t65537-boot\n  sudare demo counts --params n16-t786433-boot"
)]
pub struct Args {
    /// Parameter set for bootstrapping
    #[arg(long, value_name = "NAME", default_value = "n15-t65537-boot")]
    params: String,
    /// Scheme: bgv or bfv
    #[arg(long, value_name = "SCHEME", default_value = "bgv", value_parser = scheme)]
    scheme: Scheme,
}

fn scheme(name: &str) -> core::result::Result<Scheme, &'static str> {
    name.parse().map_err(|_| "expected bgv or bfv")
}

#[derive(Serialize)]
struct Report {
    dataset: &'static str,
    rows: usize,
    conditions: Vec<String>,
    groups: Vec<Group>,
    histogram: Vec<Bin>,
    params: String,
    scheme: Scheme,
    plaintext_modulus: String,
    log_n: u32,
    slots: usize,
    security_bits: f64,
    bootstraps: u64,
    /// `log2` of the probability that a bootstrapping fails.
    log2_failure: f64,
    keys: usize,
    evaluation_key_bytes: u64,
    matrix_bytes: u64,
    keygen_s: f64,
    encrypt_s: f64,
    count_s: f64,
    decrypt_s: f64,
    threads: usize,
    peak_rss_bytes: Option<u64>,
}

/// Counts of a group, encrypted and in the clear.
#[derive(Serialize)]
struct Group {
    race: &'static str,
    smoker: bool,
    births: u64,
    low_weight: u64,
    plain_births: u64,
    plain_low_weight: u64,
}

/// Counts of mothers within a range of pounds, encrypted and in the clear.
#[derive(Serialize)]
struct Bin {
    from: u32,
    below: u32,
    births: u64,
    plain_births: u64,
}

const RACES: [&str; 3] = ["white", "black", "other"];
// Codes start at 0, so each column has its smallest value subtracted.
const YOUNGEST: u32 = 14;
const AGES: u32 = 32;
const LIGHTEST: u32 = 80;
/// Pounds of a code of weights that conditions ask for.
const STEP: u32 = 5;
const WEIGHTS: u32 = 35;
/// Pounds of a bin of the histogram. It has the same number of bins as there are cells of groups, so that
/// columns have one shape for both.
const BIN: u32 = 15;
const BINS: u32 = 12;

/// Columns of the table as codes.
struct Coded {
    columns: Vec<Vec<u32>>,
    conditions: Vec<String>,
    /// Plans of the groups where the conditions hold, and of the histogram of all rows.
    plans: [CountsPlan; 2],
}

impl Coded {
    /// Codes the bundled table.
    fn new() -> Result<Self> {
        let table = Table::bundled("lbw")?;
        let column = |name: &str| -> Vec<u32> {
            let index = table.columns().iter().position(|column| column == name);
            index.map_or_else(Vec::new, |i| table.column(i).map(|x| x as u32).collect())
        };
        let races = column("race_white").into_iter().zip(column("race_black"));
        // The table has a column of 0 and 1 for two of the three races. Code 2 is the third.
        let race = races.map(|(white, black)| 2 - 2 * white - black).collect();
        // The label of the table is a normal weight, and the counts are of low ones.
        let low = table.labels()?.iter().map(|&normal| u32::from(!normal)).collect();
        let age = column("age").iter().map(|age| age - YOUNGEST).collect();
        let weights =
            |step: u32| column("lwt").iter().map(|pounds| (pounds - LIGHTEST) / step).collect();
        let weight = weights(STEP);
        let bin = weights(BIN);
        let columns =
            vec![race, column("smoke"), low, age, weight, column("ht"), column("ui"), bin];
        let among = |column, accepted: core::ops::Range<u32>| Condition {
            column,
            accepted: accepted.collect(),
        };
        let accepted = vec![
            among(3, 20 - YOUNGEST..35 - YOUNGEST),
            among(4, (110 - LIGHTEST) / STEP..WEIGHTS),
            among(5, 0..1),
            among(6, 0..1),
        ];
        let codes = [3, 2, 2, AGES, WEIGHTS, 2, 2, BINS];
        let plan = |by: &[usize], accepted| CountsPlan::new(table.rows(), &codes, by, accepted);
        let plans = [plan(&[0, 1, 2], accepted)?, plan(&[7], Vec::new())?];
        let conditions = [
            "mother of 20 to 34 years",
            "of 110 pounds or more",
            "without hypertension",
            "without uterine irritability",
        ];
        Ok(Self { columns, conditions: conditions.map(Into::into).to_vec(), plans })
    }

    /// Turns counts by cell into groups of race and smoking.
    fn groups(&self, found: &[u64], clear: &[u64]) -> Vec<Group> {
        let both = found.chunks(2).zip(clear.chunks(2)).enumerate();
        let group = |(i, (found, clear)): (usize, (&[u64], &[u64]))| Group {
            race: RACES[i / 2],
            smoker: i % 2 == 1,
            births: found.iter().sum(),
            low_weight: found.last().copied().unwrap_or(0),
            plain_births: clear.iter().sum(),
            plain_low_weight: clear.last().copied().unwrap_or(0),
        };
        both.map(group).collect()
    }

    /// Turns counts by cell into bins of weights.
    fn histogram(&self, found: &[u64], clear: &[u64]) -> Vec<Bin> {
        let both = (LIGHTEST..).step_by(BIN as usize).zip(found.iter().zip(clear));
        let bin = |(from, (&births, &plain_births)): (u32, (&u64, &u64))| Bin {
            from,
            below: from + BIN,
            births,
            plain_births,
        };
        both.map(bin).collect()
    }
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    output.write(&count(&slim(&args.params)?, args.scheme)?, text)
}

fn count(set: &BootstrapPreset, scheme: Scheme) -> Result<Report> {
    let name = &set.preset.name;
    let coded = Coded::new()?;
    let params = Params::new(set.preset.spec.clone())?;
    let setting = Setting::named(name, params.clone(), scheme, false)?;
    // Keys take gigabytes, so parameters that are too small are found first.
    coded.plans.iter().try_for_each(|plan| plan.fits(&setting))?;
    let request = setting.required_keys()?;
    let label = key_label(name, &setting)?;
    let evaluation_key_bytes = serial::evaluation_keys_bytes(&params, &request, &label)?;
    let plan = setting.bootstrapping();
    let matrices = plan.map_or(0, |plan| matrix_bytes(&params, plan));
    let keys = [params.rlwe().key_security(), request.key_security(params.rlwe())?].concat();
    let security_bits = least_security(&keys);
    let [groups, histogram] = &coded.plans;
    say(format_args!(
        "lbw: {} rows by {} groups and {} bins; N = 2^{}, {} levels, {security_bits:.0} bits of \
         security, {} evaluation keys ({}), matrices of {}",
        coded.columns.first().map_or(0, Vec::len),
        groups.cells(),
        histogram.cells(),
        params.log_n(),
        setting.usable_levels(),
        request.count(),
        size::bytes(evaluation_key_bytes),
        size::bytes(matrices),
    ));

    let ((secret, public, keys), keygen_s) = timed(|| make_keys(params.rlwe(), &request))?;
    let (columns, encrypt_s) = timed(|| {
        let encryptor = Encryptor::new(&params, Arc::new(public))?;
        let encrypt = |(column, codes): (usize, &Vec<u32>)| {
            exact::encrypt(&encryptor, &setting, &groups.column(column, codes)?)
        };
        Ok(coded.columns.iter().enumerate().map(encrypt).collect::<array::Result<Vec<_>>>()?)
    })?;
    let ((counted, bootstraps), count_s) = timed(|| {
        let engine = Engine::new(&setting, Arc::new(keys))?;
        let _progress = Progress::new("Server: counting", 0);
        let counted = coded.plans.iter().map(|plan| plan.run(&engine, &columns));
        Ok((counted.collect::<array::Result<Vec<_>>>()?, engine.bootstraps()))
    })?;
    let (found, decrypt_s) = timed(|| {
        let decryptor = Decryptor::new(&params, Arc::new(secret))?;
        let decrypt = |(plan, counts): (&CountsPlan, _)| {
            plan.decode(&exact::decrypt(&decryptor, &setting, counts)?)
        };
        Ok(coded.plans.iter().zip(&counted).map(decrypt).collect::<array::Result<Vec<_>>>()?)
    })?;
    let clear = coded.plans.iter().map(|plan| plan.clear(&coded.columns));
    let clear = clear.collect::<array::Result<Vec<_>>>()?;
    if found != clear {
        return Err(Error::WrongResult("counts by group or bin of encrypted rows".into()));
    }
    Ok(Report {
        dataset: "lbw",
        rows: coded.columns.first().map_or(0, Vec::len),
        groups: coded.groups(&found[0], &clear[0]),
        histogram: coded.histogram(&found[1], &clear[1]),
        conditions: coded.conditions,
        params: name.clone(),
        scheme,
        plaintext_modulus: setting.modulus().to_string(),
        log_n: params.log_n(),
        slots: setting.slots(),
        security_bits,
        bootstraps,
        log2_failure: plan.map_or(f64::NEG_INFINITY, |plan| plan.log2_failure()),
        keys: request.count(),
        evaluation_key_bytes,
        matrix_bytes: matrices,
        keygen_s,
        encrypt_s,
        count_s,
        decrypt_s,
        threads: par::threads(),
        peak_rss_bytes: machine::peak_rss_bytes(),
    })
}

fn text(report: &Report) -> String {
    let row = |group: &Group| {
        vec![
            group.race.into(),
            if group.smoker { "yes" } else { "no" }.into(),
            group.births.to_string(),
            group.plain_births.to_string(),
            group.low_weight.to_string(),
            group.plain_low_weight.to_string(),
        ]
    };
    let rows: Vec<_> = report.groups.iter().map(row).collect();
    let headings = ["race", "smoker", "births", "in the clear", "low weight", "in the clear"];
    let groups = output::table(&headings, &rows);
    let row = |bin: &Bin| {
        let pounds = format!("{} to {}", bin.from, bin.below - 1);
        vec![pounds, bin.births.to_string(), bin.plain_births.to_string()]
    };
    let rows: Vec<_> = report.histogram.iter().map(row).collect();
    let bins = output::table(&["pounds of the mother", "births", "in the clear"], &rows);
    let seconds = |s: f64| format!("{s:.2} s");
    let fields = output::fields(&[
        ("groups", report.conditions.join(", ")),
        (
            "bootstraps",
            format!("{}, each fails with 2^{:.1}", report.bootstraps, report.log2_failure),
        ),
        ("making keys", seconds(report.keygen_s)),
        ("encrypting", seconds(report.encrypt_s)),
        ("counting", seconds(report.count_s)),
        ("decrypting", seconds(report.decrypt_s)),
        ("peak memory", report.peak_rss_bytes.map_or_else(|| "unknown".into(), size::bytes)),
    ]);
    format!("{groups}\n{bins}\n{fields}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of the table by another program, as (births, of low weight).
    const COUNTS: [(u64, u64); 6] = [(31, 1), (19, 7), (4, 1), (6, 3), (21, 3), (4, 0)];
    /// Births by weight of the mother, by the same.
    const BINNED: [u64; 12] = [10, 32, 61, 36, 17, 12, 7, 7, 2, 2, 2, 1];

    #[test]
    fn groups_and_a_histogram_are_counted_in_a_small_ring() {
        let set = exact::bootstrapping_set("n15-t65537-boot", Some(10)).unwrap();
        for scheme in [Scheme::Bgv, Scheme::Bfv] {
            let report = count(&set, scheme).unwrap();
            let found: Vec<_> =
                report.groups.iter().map(|group| (group.births, group.low_weight)).collect();
            assert_eq!(found, COUNTS);
            let bins: Vec<_> = report.histogram.iter().map(|bin| bin.births).collect();
            assert_eq!(bins, BINNED);
            assert!(report.bootstraps > 0 && report.security_bits < 128.0);
            let shown = text(&report);
            assert!(shown.contains("black") && shown.contains("80 to 94 "), "{shown}");
        }
    }
}
