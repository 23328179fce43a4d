//! Ledgers of releases: each release is counted once, and before it is shown.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail this way")]

use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};
use sudare::rlwe::{KeyId, ParamsId};
use sudare_roles::{
    error::{Error, LedgerError},
    owner::ledger::{Entries, Ledger, ReleaseId},
};

const PARAMS: ParamsId = ParamsId(0x0123_4567_89ab_cdef);
const KEY: KeyId = KeyId(0xfedc_ba98_7654_3210);

fn id(number: u64) -> ReleaseId {
    *blake3::hash(&number.to_le_bytes()).as_bytes()
}

/// A directory with a file in the place of a secret key.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret.key");
    fs::write(&secret, "a key").unwrap();
    (folder, secret)
}

fn ledger(secret: &Path) -> Ledger {
    Ledger::beside(secret, PARAMS, KEY).unwrap()
}

fn counted(secret: &Path) -> u64 {
    ledger(secret).entries().unwrap().counted()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn releases_count_once() {
    let (folder, secret) = folder();
    let first = ledger(&secret);
    assert!(first.notice().unwrap().contains("fedcba9876543210.ledger"));
    assert_eq!(first.entries().unwrap().counted(), 0);
    first.count(&[id(1), id(2), id(1)]).unwrap();
    first.count(&[id(2)]).unwrap();
    assert_eq!((counted(&secret), first.notice()), (2, None));
    // Another process, with another name for the key's file.
    let link = folder.path().join("other.key");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    #[cfg(not(unix))]
    fs::copy(&secret, &link).unwrap();
    ledger(&link).count(&[id(1), id(3)]).unwrap();
    assert_eq!(first.entries().unwrap().counted(), 3);
    let ledgers = ["fedcba9876543210.ledger", "fedcba9876543210.ledger.lock"];
    assert_eq!(names(folder.path()), [&ledgers[..], &["other.key", "secret.key"]].concat());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(first.path().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn many_threads_count_all() {
    let (_folder, secret) = folder();
    thread::scope(|scope| {
        for thread in 0..8 {
            let secret = &secret;
            scope.spawn(move || {
                let ledger = ledger(secret);
                (0..20).for_each(|i| ledger.count(&[id(100 * thread + i)]).unwrap());
            });
        }
    });
    assert_eq!(counted(&secret), 160);
}

#[test]
fn releases_are_limited_to_the_number_that_noise_hides() {
    let (_folder, secret) = folder();
    for ledger in [ledger(&secret), Ledger::in_memory(PARAMS, KEY)] {
        let all: Vec<ReleaseId> = (0..1023).map(id).collect();
        ledger.count(&all).unwrap();
        let refused = ledger.count(&[id(2000), id(2001)]).unwrap_err();
        let Error::ReleasesSpent { counted, needed, limit, .. } = refused else {
            panic!("{refused}")
        };
        assert_eq!((counted, needed, limit), (1023, 2, 1024));
        ledger.count(&[id(2000)]).unwrap();
        let refused = ledger.count(&[id(2001)]).unwrap_err();
        assert_eq!((refused.kind().as_str(), refused.exit_code()), ("ReleasesSpent", 2));
        assert!(refused.to_string().contains("make new keys"), "{refused}");
        // Earlier releases can be repeated.
        ledger.count(&all).unwrap();
        assert_eq!(ledger.entries().unwrap().counted(), 1024);
    }
}

#[test]
fn copies_go_on_from_what_was_counted() {
    let (_first, secret) = folder();
    let (_second, copy) = folder();
    let memory = Ledger::in_memory(PARAMS, KEY);
    memory.count(&[id(1), id(2)]).unwrap();
    assert_eq!(memory.path(), None);
    ledger(&secret).count(&[id(2), id(3)]).unwrap();
    memory.copy_beside(&secret).unwrap();
    assert_eq!((counted(&secret), memory.entries().unwrap().counted()), (3, 3));
    // The file now has the releases, and a further copy does not move the ledger.
    memory.copy_beside(&copy).unwrap();
    memory.count(&[id(4)]).unwrap();
    assert_eq!((counted(&secret), counted(&copy)), (4, 3));
    assert_eq!(memory.path(), ledger(&secret).path());
    let unused = Ledger::in_memory(PARAMS, KEY);
    let (_third, other) = folder();
    unused.copy_beside(&other).unwrap();
    assert!(unused.notice().is_some());
}

/// Threads release while the key is written to a file. The file counts all of their releases.
#[test]
fn releases_are_counted_while_the_key_is_written() {
    for round in 0..20 {
        let (_folder, secret) = folder();
        let ledger = Ledger::in_memory(PARAMS, KEY);
        thread::scope(|scope| {
            for thread in 0..4 {
                let ledger = &ledger;
                scope.spawn(move || {
                    (0..10).for_each(|i| ledger.count(&[id(100 * thread + i)]).unwrap());
                });
            }
            thread::sleep(Duration::from_micros(20 * round));
            ledger.copy_beside(&secret).unwrap();
        });
        assert_eq!((counted(&secret), ledger.entries().unwrap().counted()), (40, 40));
    }
}

/// Problems of damaged or foreign ledgers.
fn problem(refused: Error) -> LedgerError {
    let Error::NotCounted { source } = refused else { panic!("{refused}") };
    let Error::Ledger { source, .. } = *source else { panic!("{source}") };
    source
}

#[test]
fn invalid_ledgers_are_refused_and_unchanged() {
    let (_folder, secret) = folder();
    ledger(&secret).count(&[id(1), id(2)]).unwrap();
    let path = ledger(&secret).path().unwrap();
    let good = fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let refused = ledger(&secret).count(&[id(3)]).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        problem(refused)
    };
    for length in 0..good.len() {
        let found = refused(&good[..length]);
        assert!(matches!(found, LedgerError::Malformed { .. }), "{length}: {found}");
    }
    for bit in 0..8 * good.len() {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let found = refused(&bytes);
        let version = (64..128).contains(&bit);
        assert_eq!(matches!(found, LedgerError::Version { .. }), version, "{bit}: {found}");
    }
    assert!(matches!(refused(&[&good[..], &[0; 32]].concat()), LedgerError::Malformed { .. }));
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(Entries::read(&path), Err(Error::Ledger { .. })));
    fs::write(&path, &good).unwrap();
    assert_eq!(counted(&secret), 2);
}

#[test]
fn ledgers_of_other_keys_and_older_ones_are_refused() {
    let (_folder, secret) = folder();
    let other = KeyId(7);
    Ledger::beside(&secret, PARAMS, other).unwrap().count(&[id(1)]).unwrap();
    let own = ledger(&secret);
    let path = &own.path().unwrap();
    fs::rename(path.with_file_name("0000000000000007.ledger"), path).unwrap();
    let found = problem(own.count(&[id(2)]).unwrap_err());
    assert!(matches!(found, LedgerError::OtherKey { found, .. } if found == other), "{found}");

    fs::remove_file(path).unwrap();
    own.count(&[id(1)]).unwrap();
    let older = fs::read(path).unwrap();
    own.count(&[id(2)]).unwrap();
    let newer = fs::read(path).unwrap();
    fs::write(path, &older).unwrap();
    let found = problem(own.count(&[id(3)]).unwrap_err());
    assert!(matches!(found, LedgerError::Older { found: 1, known: 2 }), "{found}");
    fs::remove_file(path).unwrap();
    let found = problem(own.count(&[id(3)]).unwrap_err());
    assert!(matches!(found, LedgerError::Older { found: 0, known: 2 }), "{found}");
    fs::write(path, newer).unwrap();
    own.count(&[id(3)]).unwrap();
    assert_eq!(counted(&secret), 3);
}

#[test]
fn failed_writes_are_not_counted() {
    let refused = |ledger: &Ledger| {
        let refused = ledger.count(&[id(1)]).unwrap_err();
        assert_eq!(refused.kind(), "NotCounted");
        assert!(refused.to_string().contains("write access"), "{refused}");
    };
    let (folder, secret) = folder();
    let gone = ledger(&secret);
    fs::create_dir(gone.path().unwrap()).unwrap();
    refused(&gone);
    fs::remove_dir_all(folder.path()).unwrap();
    refused(&gone);
    // A file system that refuses new files.
    #[cfg(target_os = "linux")]
    refused(&ledger(Path::new("/proc/self/status")));
}

/// Runs this program again, as a process that counts, after shell commands.
fn child(secret: &Path, first: u64, shell: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("{shell} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "counting_child", "--ignored", "--nocapture"])
        .env("SUDARE_TEST_SECRET", secret)
        .env("SUDARE_TEST_FIRST", first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Counts and shows releases until the process is killed.
#[test]
#[ignore = "is run by others"]
#[expect(clippy::print_stdout, reason = "what it shows is what the others look at")]
fn counting_child() {
    let Some(secret) = std::env::var_os("SUDARE_TEST_SECRET") else { return };
    let first: u64 = std::env::var("SUDARE_TEST_FIRST").unwrap().parse().unwrap();
    let ledger = ledger(Path::new(&secret));
    println!("\nbegins");
    for number in first.. {
        if ledger.count(&[id(number)]).is_err() {
            println!("refused");
            return;
        }
        println!("shown {number}");
    }
}

/// Kills processes that release. Every release that they showed is counted.
fn killed(kills: u64) {
    let (mut current, mut secret) = folder();
    let mut shown = HashSet::new();
    let mut total = 0;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for kill in 0..kills {
        // Stop before the limit is reached.
        if shown.len() > 500 {
            (current, secret) = folder();
            shown.clear();
        }
        let mut child = child(&secret, 1000 * kill, "");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while lines.next().unwrap().unwrap() != "begins" {}
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(kill | 1);
        thread::sleep(Duration::from_micros((random >> 32) % 40_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let number = |line: String| line.strip_prefix("shown ")?.parse::<u64>().ok();
        let before = shown.len();
        shown.extend(lines.map_while(Result::ok).filter_map(number));
        total += shown.len() - before;
        let counted = counted(&secret);
        assert!(counted >= shown.len() as u64, "{kill}: {counted} of {}", shown.len());
        // Counting all of them again adds nothing.
        let again: Vec<ReleaseId> = shown.iter().map(|&number| id(number)).collect();
        ledger(&secret).count(&again).unwrap();
        assert_eq!(self::counted(&secret), counted, "{kill}");
    }
    drop(current);
    assert!(total as u64 >= kills / 2, "hardly any was shown: {total}");
}

#[cfg(unix)]
#[test]
fn killed_processes_have_counted_what_they_showed() {
    killed(20);
}

#[cfg(unix)]
#[test]
#[ignore = "long form"]
fn killed_processes_have_counted_what_they_showed_500_times() {
    killed(500);
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_ledger_as_it_was() {
    let (folder, secret) = folder();
    ledger(&secret).count(&[id(1)]).unwrap();
    // No file may grow, as on a full disk.
    let full = child(&secret, 10, "trap '' XFSZ; ulimit -f 0;");
    let said = String::from_utf8(full.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains("refused") && !said.contains("shown"), "{said}");
    assert_eq!(counted(&secret), 1);
    assert_eq!(names(folder.path()).len(), 3);
}
