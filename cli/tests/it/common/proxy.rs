//! What stands between a client and a service, and does to connections what networks do.

use super::server::Random;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

/// Passes connections on: most of them until they break after some bytes, one way or the other, some late, and
/// of some a request twice, as if it had been sent again.
pub struct Proxy {
    pub address: String,
    pub counts: Arc<Counts>,
}

/// How many connections broke or were late, and how many requests were sent twice.
#[derive(Debug, Default)]
pub struct Counts {
    pub broken: AtomicU32,
    pub delayed: AtomicU32,
    pub repeated: AtomicU32,
}

/// Longest request that is sent twice.
const MAX_REPEATED_BYTES: usize = 16 << 20;

impl Proxy {
    /// One that passes on to `server`.
    pub fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let counts = Arc::new(Counts::default());
        let server = server.to_owned();
        let done = Arc::clone(&counts);
        thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let done = Arc::clone(&done);
                let server = server.clone();
                // The connection ends when either side closes.
                thread::spawn(move || attend(client?, &server, number as u64, &done));
            }
        });
        Self { address, counts }
    }
}

fn attend(client: TcpStream, server: &str, number: u64, done: &Counts) -> io::Result<()> {
    let mut random = Random::new(number);
    let count = |count: &AtomicU32| count.fetch_add(1, Ordering::Relaxed);
    let upstream = TcpStream::connect(server)?;
    match random.below(5) {
        0 => {
            count(&done.broken);
            join(client, upstream, random.below(12 << 20), u64::MAX)
        }
        1 => {
            count(&done.broken);
            join(client, upstream, u64::MAX, random.below(2000))
        }
        2 => {
            count(&done.delayed);
            thread::sleep(Duration::from_millis(300));
            join(client, upstream, u64::MAX, u64::MAX)
        }
        3 => {
            count(&done.repeated);
            twice(client, upstream, TcpStream::connect(server)?)
        }
        _ => join(client, upstream, u64::MAX, u64::MAX),
    }
}

/// Passes on both ways, until one way ends or has passed so many bytes on.
fn join(client: TcpStream, server: TcpStream, sent: u64, answered: u64) -> io::Result<()> {
    let from = client.try_clone()?;
    let to = server.try_clone()?;
    let there = thread::spawn(move || pass(from, to, sent));
    pass(server, client, answered);
    let _ = there.join();
    Ok(())
}

fn pass(from: TcpStream, mut to: TcpStream, most: u64) {
    let _ = io::copy(&mut (&from).take(most), &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Passes one request on twice, and the answer to the second.
fn twice(mut client: TcpStream, first: TcpStream, second: TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 1 << 16];
    while !is_whole(&request) {
        let read = client.read(&mut buffer)?;
        if read == 0 || request.len() > MAX_REPEATED_BYTES {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..read]);
    }
    for (mut server, answers) in [(first, false), (second, true)] {
        server.write_all(&request)?;
        let mut read = server.read(&mut buffer)?;
        // All parts of a response that arrives in parts.
        server.set_read_timeout(Some(Duration::from_millis(200)))?;
        while read > 0 && answers {
            client.write_all(&buffer[..read])?;
            read = server.read(&mut buffer).unwrap_or(0);
        }
        server.shutdown(Shutdown::Both)?;
    }
    client.shutdown(Shutdown::Both)
}

/// Whether a request is here with all of its body.
fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    request.len() >= end + 4 + length.map_or(0, |text| text.trim().parse().unwrap_or(0))
}
