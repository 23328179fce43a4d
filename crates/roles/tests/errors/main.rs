//! Every message of every error of the libraries, as lists that a reviewer can read: `arith.txt`, `sudare.txt`,
//! `table.txt`, `apps.txt` and `roles.txt` next to this file. A line has the name of a variant and its message
//! for sample values. `SUDARE_WRITE_ERRORS=1` writes the lists again.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod apps;
mod arith;
mod place;
mod roles;
mod sudare;
mod table;

use std::{collections::BTreeSet, env, error::Error, fs, path::Path};
use strum::VariantNames;

/// Renders the messages of an enum under its name. `samples` must have all of its variants.
#[track_caller]
fn section<E>(name: &str, samples: &[E]) -> String
where
    E: Error + VariantNames,
    for<'a> &'static str: From<&'a E>,
{
    let found: BTreeSet<&str> = samples.iter().map(<&str>::from).collect();
    let needed: BTreeSet<&str> = E::VARIANTS.iter().copied().collect();
    let missing: Vec<_> = needed.difference(&found).collect();
    assert!(missing.is_empty(), "samples of {name} lack {missing:?}: add a value of each");
    let mut text = format!("# {name}\n");
    for sample in samples {
        let message = sample.to_string();
        assert!(!message.contains('\n'), "{name}: {message:?} has several lines");
        text.push_str(&format!("{}: {message}\n", <&str>::from(sample)));
    }
    text
}

/// Compares sections with a list.
#[track_caller]
fn assert_listed(file: &str, sections: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors").join(file);
    let found = sections.join("\n");
    if env::var_os("SUDARE_WRITE_ERRORS").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "messages differ from {}, first at {differs:?}: if you mean to change them, run this test \
         with SUDARE_WRITE_ERRORS=1",
        path.display()
    );
}
