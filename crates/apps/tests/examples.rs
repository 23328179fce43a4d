//! The programs in `examples` do what they say.
#![allow(dead_code, clippy::print_stdout, reason = "examples are programs")]

#[path = "../examples/statistics.rs"]
mod statistics;

use sudare_table::Table;

#[test]
fn statistics_are_those_of_the_table() {
    let table = Table::bundled("lbw").unwrap();
    let found = statistics::run(&table).unwrap();
    for (column, mean) in found.mean.iter().enumerate() {
        let values = table.iter_rows().map(|row| row[column]);
        let expected = values.sum::<f64>() / table.rows() as f64;
        assert!((mean - expected).abs() < 1e-4 * expected.abs().max(1.0), "{column}: {mean}");
    }
}
