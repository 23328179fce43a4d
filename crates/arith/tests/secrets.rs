//! Memory for secrets: what the system does with it, and what a forked process finds.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail this way")]

use std::{fs, io::Read, os::fd::FromRawFd};
use sudare_arith::{
    mem::{Buf, Pool, Secrecy},
    prng::{KeptSeed, Seed},
};

/// What `f` finds in a process that is forked from this one. It must not wait for other threads,
/// which are not there.
fn in_child(f: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written; each is owned once, in either process. The child ends
    // here, without the handlers of this process.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        match libc::fork() {
            0 => {
                let found = f();
                libc::write(ends[1], found.as_ptr().cast(), found.len());
                libc::_exit(0);
            }
            child => {
                assert!(child > 0);
                libc::close(ends[1]);
                let mut found = Vec::new();
                fs::File::from_raw_fd(ends[0]).read_to_end(&mut found).unwrap();
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                assert_eq!(status, 0);
                found
            }
        }
    }
}

/// The flags of the pages of `buf`, as `proc(5)` names them.
fn flags(buf: &Buf) -> Vec<String> {
    let address = buf.as_ptr() as usize;
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut within = false;
    for line in maps.lines() {
        let bounds = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).ok();
        if let Some((Some(start), Some(end))) = bounds.map(|(a, b)| (number(a), number(b))) {
            within = (start..end).contains(&address);
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| within) {
            return flags.split_whitespace().map(String::from).collect();
        }
    }
    panic!("no pages at {address:x}");
}

#[test]
fn secret_pages_are_not_dumped_and_key_pages_not_inherited() {
    let pool = Pool::new(0);
    for len in [64, 1 << 18] {
        for (secrecy, dumped, inherited) in [
            (Secrecy::Public, true, true),
            (Secrecy::Value, false, true),
            (Secrecy::Key, false, false),
        ] {
            let buf = pool.take_as(secrecy, len);
            let flags = flags(&buf);
            let has = |flag| flags.iter().any(|other| other == flag);
            assert_eq!((!has("dd"), !has("wf")), (dumped, inherited), "{secrecy:?}, {len}");
        }
    }
    // Pages are locked within the process's limit, which counts all its locked pages.
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) }, 0);
    if limit.rlim_cur >= 1 << 16 {
        for secrecy in [Secrecy::Value, Secrecy::Key] {
            assert!(flags(&pool.take_as(secrecy, 64)).iter().any(|flag| flag == "lo"));
        }
    }
}

#[test]
fn keys_stay_in_the_process_that_made_them() {
    let pool = Pool::new(1 << 20);
    let taken = |secrecy| {
        let mut buf = pool.take_as(secrecy, 100);
        buf.fill(u64::MAX);
        buf
    };
    let [public, value, key] = [Secrecy::Public, Secrecy::Value, Secrecy::Key].map(taken);
    let seed = KeptSeed::new(&pool, &Seed::from_bytes([7; 32]));
    // Bytes of the child, so that a grandchild inspects them, too.
    let look = || {
        let kept = |buf: &Buf| u8::from(buf.iter().all(|&x| x == u64::MAX));
        let lost = |buf: &Buf| u8::from(buf.is_lost());
        let own = KeptSeed::new(&pool, &Seed::from_bytes([8; 32]));
        vec![
            kept(&public),
            lost(&public),
            kept(&value),
            lost(&value),
            u8::from(key.iter().all(|&x| x == 0)),
            lost(&key),
            u8::from(seed.get().is_none()),
            u8::from(own.get().is_some_and(|seed| *seed.as_bytes() == [8; 32])),
        ]
    };
    assert_eq!(in_child(look), [1, 0, 1, 0, 1, 1, 1, 1]);
    assert_eq!(in_child(|| in_child(look)), [1, 0, 1, 0, 1, 1, 1, 1]);
    // Pages that the child made do not exist in its own child.
    let made_there = || {
        let own = KeptSeed::new(&pool, &Seed::from_bytes([8; 32]));
        let mut found = in_child(|| vec![u8::from(own.get().is_none())]);
        found.push(u8::from(own.get().is_some()));
        found
    };
    assert_eq!(in_child(made_there), [1, 1]);
    // The parent is unchanged.
    assert!(key.iter().all(|&x| x == u64::MAX) && !key.is_lost());
    assert_eq!(*seed.get().unwrap().as_bytes(), [7; 32]);
}
