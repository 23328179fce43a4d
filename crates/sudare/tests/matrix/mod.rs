//! A table of operations and of what a caller can get wrong about their operands, and the tests
//! that every scheme runs on its own.

use core::fmt::Debug;
use std::{collections::BTreeSet, fs, path::Path};
use sudare::{Error, Result};
use sudare_arith::prng::{Seed, Stream};

/// Cases of each cell; of the long form a hundred times as many.
pub const CASES: usize = 100;

/// Whatever the operations of a table take.
pub trait Operands: Sized {
    /// What can be wrong about them.
    type Fault: Copy + Debug + 'static;
    /// Everything that an operation could have altered.
    type State: PartialEq;

    /// With nothing wrong.
    fn good(draw: &mut Draw) -> Self;

    /// Gets one thing wrong.
    fn spoil(&mut self, fault: Self::Fault, draw: &mut Draw);

    fn state(&self) -> Self::State;

    /// Whether this is the error for it.
    fn explains(fault: Self::Fault, error: &Error) -> bool;
}

/// An operation, and what of its operands can be wrong: a list for each kind, empty where it takes
/// nothing of the kind.
pub struct Row<O: Operands, const KINDS: usize> {
    pub name: &'static str,
    pub call: fn(&mut O) -> Result<()>,
    pub faults: [&'static [O::Fault]; KINDS],
}

/// Rows of a table: a name, a call of operands, and lists of faults.
macro_rules! rows {
    ($($name:literal: |$o:ident| $call:expr; $($faults:expr),*;)*) => {
        &[$($crate::matrix::Row {
            name: $name,
            call: |$o| $call.map(drop),
            faults: [$(&$faults),*],
        }),*]
    };
}
pub(crate) use rows;

/// Random choices.
pub struct Draw(Stream);

impl Draw {
    pub fn new(seed: u8, number: u64) -> Self {
        Self(Stream::new(&Seed::from_bytes([seed; 32]), "misuse", number))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// What is wrong with the answer to a fault, if anything is.
fn answer<O: Operands, const KINDS: usize>(
    row: &Row<O, KINDS>,
    fault: O::Fault,
    draw: &mut Draw,
) -> core::result::Result<(), String> {
    let mut operands = O::good(draw);
    operands.spoil(fault, draw);
    let before = operands.state();
    let Err(error) = (row.call)(&mut operands) else { return Err("is no error".into()) };
    let said = error.to_string();
    if !O::explains(fault, &error) {
        return Err(format!("is {error:?}"));
    }
    if operands.state() != before {
        return Err("alters operands".into());
    }
    let advises = said.len() > 30 && said.contains([':', ',', ';']);
    if advises { Ok(()) } else { Err(format!("says only {said:?}")) }
}

/// Every fault of every row is its error, in so many cases of each kind.
pub fn check<O: Operands, const KINDS: usize>(
    table: &[Row<O, KINDS>],
    kinds: [&str; KINDS],
    cases: usize,
) {
    let mut wrong = BTreeSet::new();
    for (number, row) in (0..).zip(table) {
        let mut draw = Draw::new(7, number);
        for (kind, faults) in kinds.iter().zip(row.faults).filter(|(_, faults)| !faults.is_empty())
        {
            for case in 0..cases {
                let fault = faults[case % faults.len()];
                if let Err(problem) = answer(row, fault, &mut draw) {
                    wrong.insert(format!("{}, {kind}: {fault:?} {problem}", row.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// No row refuses good operands, which `fit` makes such that it takes them.
pub fn accept<O: Operands, const KINDS: usize>(
    table: &[Row<O, KINDS>],
    fit: impl Fn(&str, &mut O),
) {
    let mut draw = Draw::new(8, 0);
    for row in table {
        for _ in 0..20 {
            let mut operands = O::good(&mut draw);
            fit(row.name, &mut operands);
            let called = (row.call)(&mut operands);
            assert!(called.is_ok(), "{}: {:?}", row.name, called.err());
        }
    }
}

/// Public methods that can fail of `types`, in these sources; each with what is written before its
/// name.
pub fn fallible_methods(files: &[(&str, &str)], types: &[&str]) -> BTreeSet<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for (file, prefix) in files {
        let code = fs::read_to_string(src.join(file)).unwrap();
        for of in types {
            for block in code.split("\nimpl").skip(1) {
                let (head, block) = block.split_once(" {\n").unwrap();
                let generic = [" ", "::"].map(|before| format!("{before}{of}<"));
                let names_it = generic.iter().any(|name| head.contains(name));
                if !names_it && !head.ends_with(&format!(" {of}")) {
                    continue;
                }
                let block = block.split("\n}\n").next().unwrap();
                for method in block.split("\n    pub fn ").skip(1) {
                    let signature = method.split('{').next().unwrap();
                    if signature.contains("-> Result") {
                        let name = signature.split(['(', '<']).next().unwrap();
                        found.insert(format!("{prefix}{of}::{name}"));
                    }
                }
            }
        }
    }
    found
}
