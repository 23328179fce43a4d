//! Published measurements, for comparison with ours.
//!
//! `published.csv` has one row for each measurement. `op` and `case` identify it, `table` is the
//! table of the publication, and `values` are the numbers there.

use std::{collections::HashMap, sync::LazyLock};
use sudare_cli::bench::{Publications, bootstrap, refresh};

const ROWS: &str = include_str!("published.csv");

/// A measurement.
#[derive(Debug, Clone)]
pub struct Row {
    /// Table of the publication.
    pub table: &'static str,
    values: HashMap<&'static str, f64>,
}

impl Row {
    /// Returns the number of this name, or NaN if the row has none.
    pub fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(f64::NAN)
    }

    /// Returns the whole number of this name.
    pub fn whole(&self, name: &str) -> u32 {
        self.value(name) as u32
    }
}

/// All rows, by operation and case.
static TABLE: LazyLock<HashMap<(String, String), Row>> = LazyLock::new(|| {
    let numbers = |text: &'static str| {
        let number = |pair: &'static str| {
            let (name, number) = pair.split_once('=')?;
            Some((name, number.parse().ok()?))
        };
        text.split(' ').filter_map(number).collect()
    };
    let row = |line: &'static str| {
        // Only table names contain commas, and they are quoted.
        let (key, rest) = line.split_once(",\"")?;
        let (op, case) = key.split_once(',')?;
        let (table, values) = rest.split_once("\",")?;
        Some(((op.to_owned(), case.to_owned()), Row { table, values: numbers(values) }))
    };
    ROWS.lines().filter_map(row).collect()
});

/// Finds the published measurement of a case of an operation.
pub fn published(op: &str, case: String) -> Option<&'static Row> {
    TABLE.get(&(op.to_owned(), case))
}

/// Lists the cases of an operation, in the order of the file.
pub fn cases(op: &str) -> impl Iterator<Item = &'static str> {
    // The comma ends the name: operations may begin alike.
    ROWS.lines().filter_map(move |line| line.strip_prefix(op)?.strip_prefix(',')?.split(',').next())
}

/// Published measurements of bootstrapping.
pub const PUBLICATIONS: Publications = Publications { bootstrap: bootstrapped, refresh: refreshed };

fn bootstrapped(set: &str, log_slots: u32) -> Option<bootstrap::Published> {
    let row = published("bootstrap", format!("params={set} log_slots={log_slots}"))?;
    Some(bootstrap::Published {
        log_slots,
        integer_bits: row.whole("integer_bits"),
        precision_bits: row.value("precision_bits"),
        levels_left: row.whole("levels_left"),
        seconds: row.value("seconds"),
        threads: row.whole("threads"),
        table: row.table,
    })
}

fn refreshed(set: &str) -> Option<refresh::Published> {
    let case = format!("params={set}");
    let row = published("bfv_bootstrap", case.clone());
    let row = row.or_else(|| published("bfv_bootstrap_slim", case))?;
    Some(refresh::Published {
        levels_before: row.whole("levels_before"),
        levels_left: row.whole("levels_left"),
        seconds: row.value("seconds"),
        prepare_s: row.value("prepare_s"),
        memory_gb: row.value("memory_gb"),
        security_bits: row.value("security_bits"),
        table: row.table,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare::{circuits::ckks::bootstrap, ckks::Params};

    /// Each row is read, with finite numbers.
    #[test]
    fn every_row_is_read() {
        assert_eq!((TABLE.len(), ROWS.lines().count()), (599, 600));
        for row in TABLE.values() {
            assert!(
                !row.values.is_empty() && row.values.values().all(|x| x.is_finite()),
                "{row:?}"
            );
        }
    }

    #[test]
    fn rows_are_those_of_their_slots() {
        let row = bootstrapped("seal-boot-9", 11).unwrap();
        assert_eq!((row.log_slots, row.integer_bits, row.levels_left), (11, 1, 9));
        assert_eq!((row.precision_bits, row.seconds), (18.65, 116.7));
        assert_eq!(bootstrapped("seal-boot-1", 15).unwrap().levels_left, 9);
        assert_eq!(bootstrapped("fullrns-boot", 15).unwrap().threads, 1);
        for (set, log_slots) in [
            ("seal-boot-1", 9),
            ("seal-boot-1", 16),
            ("seal-boot-0", 15),
            ("seal-boot-13", 15),
            ("fullrns-boot", 14),
            ("n16-boot", 15),
        ] {
            assert_eq!(bootstrapped(set, log_slots), None, "{set}, {log_slots}");
        }
        let row = refreshed("n15-t257-boot").unwrap();
        assert_eq!((row.levels_before, row.levels_left, row.table), (31, 15, "Han, Table 3.5"));
        assert_eq!(refreshed("n15-t65537-boot"), None);
    }

    /// Checks the printed time per slot, in milliseconds, to its last digit.
    #[test]
    fn times_agree_with_those_printed_per_slot() {
        let printed: [[f64; 6]; 12] = [
            [91.6, 52.4, 31.5, 19.1, 11.8, 10.3],
            [84.1, 48.7, 29.3, 17.9, 11.1, 9.2],
            [76.9, 44.4, 26.9, 16.5, 10.2, 8.3],
            [114.8, 65.9, 39.2, 23.6, 14.5, 12.6],
            [106.9, 61.4, 37.0, 22.4, 13.8, 11.4],
            [98.1, 56.5, 33.8, 20.6, 12.7, 10.4],
            [115.4, 66.4, 39.5, 23.9, 14.5, 12.7],
            [108.3, 62.3, 37.5, 22.6, 13.9, 11.5],
            [99.4, 57.0, 34.2, 20.8, 12.8, 10.5],
            [114.9, 65.9, 39.0, 23.4, 14.3, 11.7],
            [108.2, 62.3, 37.2, 22.5, 13.8, 11.3],
            [99.6, 57.1, 34.2, 20.7, 12.7, 10.4],
        ];
        for (set, printed) in (1..).zip(printed) {
            for (log_slots, printed) in (10..).zip(printed) {
                let row = bootstrapped(&format!("seal-boot-{set}"), log_slots).unwrap();
                let found = row.seconds * 1e3 / f64::exp2(f64::from(log_slots));
                assert!((found - printed).abs() < 0.1, "{found} {printed}");
            }
        }
    }

    /// Checks that levels and precision of sets are at least as large as printed.
    #[test]
    fn sets_keep_what_is_printed() {
        let mut rows = 0;
        for set in bootstrap::presets() {
            let name = &set.preset.name;
            for log_slots in 10..=15 {
                let Some(row) = bootstrapped(name, log_slots) else { continue };
                rows += 1;
                let params = Params::new(set.preset.spec.clone()).unwrap();
                let spec = match log_slots {
                    15 => set.bootstrap.clone(),
                    fewer => set.bootstrap.with_log_slots(fewer),
                };
                let plan = spec.plan(&params, params.upper_top()).unwrap();
                assert!(plan.usable_levels() >= row.levels_left, "{name}, {log_slots}");
                // Random slots have coefficients far below the largest slot.
                assert!(plan.log2_bound() > f64::from(row.integer_bits) - 1.1, "{name}");
                if log_slots == 15 {
                    assert!(set.precision_bits >= row.precision_bits, "{name}");
                }
            }
        }
        assert_eq!(rows, 74);
    }
}
