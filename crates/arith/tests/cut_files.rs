//! Mapped files that are cut, and the handler of `SIGBUS` that was there before.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use core::{
    ffi::{c_int, c_void},
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{fs::File, io::Write, os::fd::AsRawFd, thread};
use sudare_arith::mem::Mapping;

const PAGE: usize = 4096;

/// Signals that another handler got.
static OTHERS: AtomicUsize = AtomicUsize::new(0);

/// A handler of another program part, which puts a zero page under the address.
extern "C" fn other(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    OTHERS.fetch_add(1, Ordering::Relaxed);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the page is one of the mapping below, which nothing else uses.
    unsafe {
        let page = (*info).si_addr().map_addr(|address| address & !(PAGE - 1));
        libc::mmap(page, PAGE, libc::PROT_READ, flags, -1, 0);
    }
}

fn file(pages: usize) -> File {
    let mut file = tempfile();
    file.write_all(&vec![7; pages * PAGE]).unwrap();
    file
}

/// A file without a name.
fn tempfile() -> File {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("sudare-cut-{}-{count}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[test]
fn missing_bytes_are_zeros_and_reported() {
    // SAFETY: a plain handler, as `sigaction` takes it.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = other as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()), 0);
    }
    let cut = file(16);
    let whole = file(16);
    let mapping = Mapping::new(&cut).unwrap();
    let other = Mapping::new(&whole).unwrap();
    assert!(mapping.iter().all(|&x| x == 7) && mapping.is_intact());
    cut.set_len(3 * PAGE as u64 + 1).unwrap();
    assert_eq!(mapping[3 * PAGE], 7);
    assert!(mapping.is_intact(), "nothing was read that is not there");
    // On several threads at once.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(mapping[4 * PAGE..].iter().all(|&x| x == 0)));
        }
    });
    assert!(!mapping.is_intact() && !mapping.clone().is_intact());
    assert!(mapping[..3 * PAGE].iter().all(|&x| x == 7), "what is left is still there");
    assert!(other.is_intact() && other.iter().all(|&x| x == 7));
    assert_eq!(OTHERS.load(Ordering::Relaxed), 0);

    // A foreign mapping in place of ours.
    drop(mapping);
    let foreign = file(1);
    // SAFETY: new pages, which are read below while they are there.
    unsafe {
        let protection = libc::PROT_READ;
        let flags = libc::MAP_PRIVATE;
        let start = libc::mmap(ptr::null_mut(), PAGE, protection, flags, foreign.as_raw_fd(), 0);
        assert!(start != libc::MAP_FAILED);
        foreign.set_len(0).unwrap();
        assert_eq!(start.cast::<u8>().read_volatile(), 0);
        libc::munmap(start, PAGE);
    }
    assert_eq!(OTHERS.load(Ordering::Relaxed), 1, "it goes to the handler from before");

    // The places of removed mappings are used again, like intact ones.
    for _ in 0..100 {
        let again = Mapping::new(&whole).unwrap();
        assert!(again.is_intact() && again[16 * PAGE - 1] == 7);
    }
    let empty = Mapping::new(&tempfile()).unwrap();
    assert!(empty.is_empty() && empty.is_intact());
}

/// Without a handler from before, and for signals that somebody sends, the process ends as ever.
#[test]
fn other_signals_end_the_process() {
    let run = |kind: &str| {
        let program = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(program);
        command.env("SUDARE_CUT", kind).args(["--exact", "dies", "--ignored", "--nocapture"]);
        std::os::unix::process::ExitStatusExt::signal(&command.output().unwrap().status)
    };
    for kind in ["sent", "foreign"] {
        assert_eq!(run(kind), Some(libc::SIGBUS), "{kind}");
    }
    assert_eq!(run("none"), None);
}

#[test]
#[ignore = "dies, for the test above"]
fn dies() {
    let whole = file(1);
    let foreign = file(1);
    let kind = std::env::var("SUDARE_CUT").unwrap_or_default();
    if kind == "sent" {
        // Rust's own handler lets one such signal pass.
        // SAFETY: the handler that processes have by themselves.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
    let mapping = Mapping::new(&whole).unwrap();
    // SAFETY: new pages, which are read while they are there; a signal to this process.
    unsafe {
        match kind.as_str() {
            "sent" => assert_eq!(libc::raise(libc::SIGBUS), 0),
            "foreign" => {
                let flags = libc::MAP_PRIVATE;
                let file = foreign.as_raw_fd();
                let start = libc::mmap(ptr::null_mut(), PAGE, libc::PROT_READ, flags, file, 0);
                foreign.set_len(0).unwrap();
                start.cast::<u8>().read_volatile();
            }
            _ => {}
        }
    }
    assert!(mapping.is_intact());
}
