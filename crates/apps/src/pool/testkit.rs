//! Tables and schemas for tests.

use sudare_arith::prng::{Seed, Stream};
use sudare_table::{Frame, Table};

use super::Schema;

/// Numbers in `[0, 1)`.
pub fn uniform(seed: u8) -> impl FnMut() -> f64 {
    let mut stream = Stream::new(&Seed::from_bytes([seed; 32]), "test", 0);
    move || (stream.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns columns of all kinds, and three classes: wide, with a mean of 10^6 deviations, constant,
/// rare, correlated with the first, and very small.
pub fn mixed(rows: usize, seed: u8) -> Table {
    let names = ["wide", "far", "constant", "rare", "related", "small"];
    let mut next = uniform(seed);
    let mut values = Vec::new();
    let mut members = Vec::new();
    for _ in 0..rows {
        let a = next();
        let b = next();
        let c = next();
        let class = if c < 0.2 { 2 } else { u32::from(c < 0.5 + a / 4.0) };
        let far = 1e6 + (next() + next() + next() - 1.5) * 2.0 + f64::from(class);
        let rare = f64::from(u8::from(next() < 0.01));
        values.extend([1000.0 * a, far, 7.0, rare, 3.0 * a - b, 1e-9 * b * b]);
        members.push(class);
    }
    let classes = ["no", "maybe", "yes"].map(str::to_owned).to_vec();
    let columns = names.map(str::to_owned).to_vec();
    Table::with_classes(columns, values, ("y".to_owned(), classes, members)).unwrap()
}

/// Returns a schema for tables like [`mixed`].
pub fn schema(owners: usize) -> Schema {
    let number = |name: &str, low: f64, high: f64| serde_json::json!({ "name": name, "kind": { "number": { "low": low, "high": high } } });
    let document = serde_json::json!({
        "version": 1,
        "owners": (0..owners).map(|owner| format!("owner {owner}")).collect::<Vec<_>>(),
        "target": { "name": "y", "classes": ["no", "maybe", "yes"] },
        "missing": "refuse",
        "unseen": "refuse",
        "columns": [
            number("wide", -200.0, 1234.5),
            number("far", 0.0, 2.1e6),
            number("constant", 0.0, 22.0),
            number("rare", 0.0, 1.0),
            number("related", -1.0, 3.5),
            number("small", 0.0, 1e-8),
        ],
    });
    Schema::from_json(&document.to_string()).unwrap()
}

/// Returns a table as an owner's file has it, with the target last.
pub fn frame(table: &Table) -> Frame {
    let names = table.columns().iter().map(String::as_str).chain(table.target());
    let members = table.members().unwrap();
    let number = |row: usize| table.classes().unwrap()[members[row] as usize].parse().unwrap();
    let rows = table.iter_rows().enumerate();
    let numbers = rows.flat_map(|(row, values)| [values, &[number(row)]].concat());
    Frame::new(names.map(|name| (name.to_owned(), None)).collect(), numbers.collect()).unwrap()
}
