//! Runs each fuzz target on its committed inputs, and on altered ones, without a fault.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use sudare_trust::{
    campaign::{self, Run},
    mutate::Rng,
    targets::{self, Harness, Reached, TARGETS, Target},
};

/// Returns the number of altered inputs of a target.
fn cases(target: &Target) -> u64 {
    if target.harness == Harness::Parse { 1500 } else { 60 }
}

/// The heap is counted for the whole process, so tests run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn every_target_takes_its_corpus_and_altered_inputs() {
    let _alone = alone();
    let mut total = 0;
    for target in TARGETS {
        let corpus = campaign::corpus(target);
        assert!(!corpus.is_empty(), "{} has no corpus: run `sudare-trust seeds`", target.name);
        total += corpus.iter().map(Vec::len).sum::<usize>();
        // Warm up, so that one-time initialization does not count.
        drop(Run::of(target, &corpus[0]));
        let mut accepted = 0;
        for input in &corpus {
            let run = Run::of(target, input);
            assert_eq!(run.fault(target), None, "{}", target.name);
            accepted += usize::from(run.reached == Ok(Reached::Accepted));
        }
        assert!(accepted > 0, "{} accepts none of its corpus", target.name);
        let tally = campaign::run(target, 1, Duration::from_secs(60), cases(target));
        assert!(tally.faults.is_empty(), "{}: {:?}", target.name, tally.faults[0].0);
        if target.harness == Harness::Parse {
            let share = tally.share_past_frame();
            assert!(share >= 0.3, "{}: {share} of inputs get past checksums", target.name);
        }
    }
    assert!(total <= 500 << 10, "the corpora have {total} bytes");
}

/// Checksums stop almost all altered inputs unless they are updated.
#[test]
fn stale_checksums_stop_altered_inputs() {
    let _alone = alone();
    let target = targets::target("public_key").unwrap();
    let as_it_is = Target { prepare: |input| input.to_vec(), ..*target };
    let mutate = |input: &mut Vec<u8>, rng: &mut Rng| sudare_trust::mutate::bytes(input, &[], rng);
    let as_it_is = Target { mutate, ..as_it_is };
    let tally = campaign::run(&as_it_is, 1, Duration::from_secs(60), 500);
    assert!(tally.share_past_frame() < 0.05, "{tally}");
}

/// The limits must be able to fail.
#[test]
fn faults_are_found() {
    let _alone = alone();
    let none = targets::target("csv").unwrap();
    let panics = Target { run: |_| panic!("planted"), ..*none };
    assert_eq!(Run::of(&panics, b"").fault(&panics).unwrap(), "panic: planted");
    let busy = |_: &[u8]| {
        let clock = || campaign::processor_clock().unwrap();
        let end = clock() + Duration::from_millis(1100);
        while clock() < end {}
        Reached::Content
    };
    let hangs = Target { run: busy, ..*none };
    assert!(Run::of(&hangs, b"").fault(&hangs).unwrap().starts_with("took"));
    // Time spent waiting for the processor is not a fault.
    static FIRST: AtomicBool = AtomicBool::new(true);
    let waits = |_: &[u8]| {
        if FIRST.swap(false, Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1100));
        }
        Reached::Content
    };
    let waits = Target { run: waits, ..*none };
    assert_eq!(Run::of(&waits, b"").fault(&waits), None);
    let hoard = |_: &[u8]| {
        std::hint::black_box(vec![1u8; 2 << 20]);
        Reached::Content
    };
    let hoards = Target { run: hoard, ..*none };
    assert!(Run::of(&hoards, b"").fault(&hoards).unwrap().contains("of heap"));
}

/// Each target has exactly one program for the fuzzer.
#[test]
fn every_target_has_a_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let files = fs::read_dir(folder).unwrap();
    let stem = |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let found: HashSet<String> = files.map(|file| stem(file.unwrap().path())).collect();
    let names: HashSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(found, names);
    assert_eq!(names.len(), TARGETS.len());
    let of = |harness| TARGETS.iter().filter(|target| target.harness == harness).count();
    assert!(of(Harness::Parse) >= 12 && of(Harness::Evaluate) >= 4 && of(Harness::Decrypt) >= 3);
}
