//! What publications print of their own runs, to stand beside ours.

use serde::Serialize;

/// A row of a publication's table: one bootstrapping on all cores or threads it names.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Published {
    /// `log2` of the number of slots.
    pub log_slots: u32,
    /// `log2` of the size of slots that the precision is for.
    pub integer_bits: u32,
    /// `-log2` of the error; what is behind the point of a slot.
    pub precision_bits: f64,
    /// Levels left afterwards.
    pub levels_left: u32,
    pub seconds: f64,
    pub threads: u32,
    /// The publication's table.
    pub table: &'static str,
}

/// The row for a parameter set with `2^log_slots` slots.
pub(super) fn published(set: &str, log_slots: u32) -> Option<Published> {
    let all_slots = |row: Published| (log_slots == row.log_slots).then_some(row);
    match set {
        // Times of Table 2; precision and level of section 5.1.
        "fullrns-boot" => all_slots(Published {
            log_slots: 15,
            integer_bits: 0,
            precision_bits: 11.0,
            levels_left: 7,
            seconds: 224.006,
            threads: 1,
            table: "Akimoto, Sakuma, Table 2",
        }),
        // "About 2^-7 additive error", 468 bits of modulus.
        "thesis-boot" => all_slots(Published {
            log_slots: 15,
            integer_bits: 0,
            precision_bits: 7.0,
            levels_left: 14,
            seconds: 127.0,
            threads: 8,
            table: "Han, Table 4.2",
        }),
        _ => seal(set.strip_prefix("seal-boot-")?.parse().ok()?, log_slots),
    }
}

/// A set of Table 2 of "Bootstrapping on SEAL".
struct Seal {
    integer_bits: u32,
    /// With fewer than all slots, and with all.
    levels_left: [u32; 2],
    /// Precision and seconds of `2^10` to `2^15` slots.
    rows: [(f64, f64); 6],
}

fn seal(number: usize, log_slots: u32) -> Option<Published> {
    let set = SEAL.get(number.checked_sub(1)?)?;
    let row = log_slots.checked_sub(10)? as usize;
    let &(precision_bits, seconds) = set.rows.get(row)?;
    let [fewer, all] = set.levels_left;
    Some(Published {
        log_slots,
        integer_bits: set.integer_bits,
        precision_bits,
        levels_left: if row + 1 == set.rows.len() { all } else { fewer },
        seconds,
        threads: 1,
        table: "Bootstrapping on SEAL, Table 2",
    })
}

#[rustfmt::skip]
const SEAL: [Seal; 12] = [
    Seal {
        integer_bits: 17,
        levels_left: [7, 9],
        rows: [(6.44, 93.8), (5.96, 107.3), (5.46, 128.8), (4.97, 156.3), (4.46, 193.6), (4.17, 338.6)],
    },
    Seal {
        integer_bits: 4,
        levels_left: [8, 9],
        rows: [(17.11, 86.1), (16.62, 99.7), (16.13, 120.1), (15.62, 146.7), (15.11, 182.5), (14.86, 301.5)],
    },
    Seal {
        integer_bits: 1,
        levels_left: [6, 7],
        rows: [(22.00, 78.7), (21.49, 90.9), (20.96, 110.1), (20.47, 134.8), (19.98, 167.9), (19.70, 273.4)],
    },
    Seal {
        integer_bits: 17,
        levels_left: [10, 12],
        rows: [(4.63, 117.5), (4.12, 134.9), (3.59, 160.4), (3.11, 193.3), (2.59, 237.9), (2.33, 413.6)],
    },
    Seal {
        integer_bits: 4,
        levels_left: [11, 12],
        rows: [(16.08, 109.5), (15.55, 125.7), (15.05, 151.6), (14.57, 183.8), (14.08, 226.8), (13.80, 372.6)],
    },
    Seal {
        integer_bits: 1,
        levels_left: [9, 10],
        rows: [(21.03, 100.5), (20.59, 115.8), (20.06, 138.6), (19.60, 168.7), (19.07, 207.9), (18.80, 340.0)],
    },
    Seal {
        integer_bits: 17,
        levels_left: [10, 12],
        rows: [(4.30, 118.1), (3.64, 135.9), (3.18, 161.6), (2.66, 195.9), (2.16, 237.8), (1.89, 415.3)],
    },
    Seal {
        integer_bits: 4,
        levels_left: [11, 12],
        rows: [(14.19, 110.9), (13.71, 127.6), (13.17, 153.5), (12.65, 185.4), (12.17, 227.9), (11.89, 375.4)],
    },
    Seal {
        integer_bits: 1,
        levels_left: [9, 10],
        rows: [(19.16, 101.8), (18.65, 116.7), (18.14, 140.0), (17.69, 170.3), (17.17, 209.2), (16.91, 344.7)],
    },
    Seal {
        integer_bits: 17,
        levels_left: [9, 10],
        rows: [(5.30, 117.7), (4.79, 135.1), (4.31, 159.8), (3.78, 191.9), (3.29, 234.4), (3.02, 383.6)],
    },
    Seal {
        integer_bits: 4,
        levels_left: [10, 11],
        rows: [(15.30, 110.8), (14.81, 127.6), (14.29, 152.2), (13.80, 184.2), (13.27, 226.6), (13.04, 369.3)],
    },
    Seal {
        integer_bits: 1,
        levels_left: [8, 9],
        rows: [(20.32, 102.0), (19.80, 117.0), (19.27, 140.0), (18.82, 169.5), (18.32, 208.3), (18.05, 340.6)],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use sudare::{circuits::bootstrap, ckks::Params};

    #[test]
    fn rows_are_those_of_their_slots() {
        let row = published("seal-boot-9", 11).unwrap();
        assert_eq!((row.log_slots, row.integer_bits, row.levels_left), (11, 1, 9));
        assert_eq!((row.precision_bits, row.seconds), (18.65, 116.7));
        assert_eq!(published("seal-boot-1", 15).unwrap().levels_left, 9);
        assert_eq!(published("fullrns-boot", 15).unwrap().threads, 1);
        for (set, log_slots) in [
            ("seal-boot-1", 9),
            ("seal-boot-1", 16),
            ("seal-boot-0", 15),
            ("seal-boot-13", 15),
            ("fullrns-boot", 14),
            ("n16-boot", 15),
        ] {
            assert_eq!(published(set, log_slots), None, "{set}, {log_slots}");
        }
    }

    /// The printed time per slot, in milliseconds, to its last digit.
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
        for (set, printed) in SEAL.iter().zip(printed) {
            for (log_slots, ((_, seconds), printed)) in (10..).zip(set.rows.iter().zip(printed)) {
                let found = seconds * 1e3 / f64::exp2(f64::from(log_slots));
                assert!((found - printed).abs() < 0.1, "{found} {printed}");
            }
        }
    }

    /// Levels left are at least those printed, and so is the precision that sets state.
    #[test]
    fn sets_keep_what_is_printed() {
        let mut rows = 0;
        for set in bootstrap::presets() {
            let name = &set.preset.name;
            for log_slots in 10..=15 {
                let Some(row) = published(name, log_slots) else { continue };
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
