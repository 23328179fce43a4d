//! The same bytes on every machine: other kernels and other numbers of threads.

use crate::common::{artefacts, digests, exact};
use std::process::Command;
use sudare_arith::{
    Isa,
    par::{self, Strategy},
};

const EXPECTED: &str = "SUDARE_TEST_EXPECTED_DIGESTS";

fn all_digests() -> String {
    let files = [artefacts(), exact::artefacts()].concat();
    digests(&files).into_iter().map(|(name, hex)| format!("{name}: {hex}\n")).collect()
}

#[test]
fn threads_do_not_matter() {
    let one = par::with_threads(1, all_digests).unwrap();
    for threads in [2, 3] {
        assert_eq!(par::with_threads(threads, all_digests).unwrap(), one, "{threads} threads");
    }
    for strategy in [Strategy::Coefficients, Strategy::Limbs, Strategy::Both] {
        let found = par::with_strategy(2, strategy, all_digests).unwrap();
        assert_eq!(found, one, "{strategy:?}");
    }
}

#[test]
fn kernels_do_not_matter() {
    let expected = all_digests();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        // A process chooses its instruction set once.
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "portable::digests_are_those_of_the_parent", "--ignored"])
            .env("SUDARE_ISA", isa.name())
            .env(EXPECTED, &expected)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && text.contains("1 passed"), "{}: {text}", isa.name());
    }
}

#[test]
#[ignore = "runs in a process of its own, started by kernels_do_not_matter"]
fn digests_are_those_of_the_parent() {
    // Without a parent, as under --include-ignored, there is nothing to compare with.
    let Ok(expected) = std::env::var(EXPECTED) else { return };
    assert_eq!(Isa::detect().name(), std::env::var("SUDARE_ISA").unwrap());
    assert_eq!(all_digests(), expected);
}
