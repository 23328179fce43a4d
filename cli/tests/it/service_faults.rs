//! The service when its process dies, or the disk fails, at any one of the writes that it counts on. Strace makes
//! them fail (Debian has it): `make test-service` tries the first ones of each kind, `make test-service-full` more.
#![expect(clippy::print_stdout, reason = "what was measured is shown")]

use crate::common::computed::{digest, origin};
use crate::common::server::{Service, in_full};
use crate::common::sudare_at;
use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Calls of the system by which something gets to the disk.
const DURABLE: [&str; 6] = ["fsync", "fdatasync", "rename", "pwrite64", "ftruncate", "mkdir"];

/// Has the call of this number of a kind end in some way, in each thread of the server and of its jobs. What is
/// started becomes the server, not a child.
fn strace(call: &str, number: u32, how: &str) -> Vec<String> {
    let inject = format!("inject={call}:{how}:when={number}");
    let words = [
        "strace",
        "-D",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &format!("trace={call}"),
        "-e",
        &inject,
    ];
    words.map(str::to_owned).into()
}

/// Sends keys and a table to a server in which calls fail, and has statistics computed; started again if it
/// dies, it comes to the result of the command. Whether it died.
fn travel(call: &str, number: u32, how: &str) -> bool {
    let mut service = Service::start(&[]);
    let token = service.token("clinic");
    // The server may end before it serves.
    let mut died = !service.is_restarted_under(strace(call, number, how));
    if died {
        assert!(service.is_restarted_under(Vec::new()));
    }
    let out = format!("{call}-{number}.ct");
    let line = format!(
        "remote stats --evaluation-key stats/evaluation.key -i stats.ct -o {out} --force --json --url {} \
         --token-file {}",
        service.url(),
        service.token_file(&token).display()
    );
    // A job whose process got the fault may have failed. It is requested again when the disk works.
    for attempt in 0..2 {
        let mut client = Command::new(env!("CARGO_BIN_EXE_sudare"))
            .args(line.split_whitespace())
            .current_dir(origin())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let status = loop {
            if !died && service.process.try_wait().unwrap().is_some() {
                died = true;
                assert!(service.is_restarted_under(Vec::new()));
            }
            if let Some(status) = client.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "{call} {number}: no end");
            thread::sleep(Duration::from_millis(10));
        };
        if status.success() {
            break;
        }
        let said = std::io::read_to_string(client.stderr.take().unwrap()).unwrap();
        assert!(attempt == 0, "{call} {number} {how}: {said}");
        assert!(service.is_restarted_under(Vec::new()));
    }
    assert_eq!(digest(&out), digest("stats-local.ct"), "{call} {number} {how}");
    // The recorded lines are complete.
    sudare_at(origin(), &format!("serve audit {}", service.place())).ok();
    died
}

fn each_of_many(how: &str) -> BTreeMap<&'static str, u32> {
    let number = in_full(12, 2);
    let count =
        |call| (call, (1..=number).filter(|&number| travel(call, number, how)).count() as u32);
    DURABLE.map(count).into()
}

/// Killed at any write, the server comes back to where it was.
#[test]
#[ignore = "long, and takes strace: make test-service"]
fn a_server_that_dies_at_a_write_recovers() {
    let died = each_of_many("signal=KILL");
    println!("died at: {died:?}");
    assert!(died.values().sum::<u32>() >= in_full(20, 5), "{died:?}");
}

/// A write that fails once costs a request, which is made again, and no more.
#[test]
#[ignore = "long, and takes strace: make test-service"]
fn a_write_that_fails_costs_one_request() {
    for error in ["EIO", "ENOSPC"] {
        println!("died by {error}: {:?}", each_of_many(&format!("error={error}")));
    }
}
