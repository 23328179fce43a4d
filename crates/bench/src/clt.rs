//! Operations over the integers.

use crate::op::Own;
use serde::Serialize;
use std::time::Instant;
use sudare::rlwe::Level;
use sudare_arith::prng::{Seed, Stream};
use sudare_cli::{
    bench::{
        line::Line as OfAll,
        timing::{Time, summary, time},
    },
    output::{self, Output},
    progress::Progress,
};
use sudare_research_clt::{
    Ciphertext,
    aes::{Cipher, RoundKeys, State, clear_rounds},
    program::{Session, refused},
};
use sudare_roles::{
    error::{Error, Result},
    os::machine,
    text::size,
};

/// A line of output. Integers have neither levels nor precision.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    of_all: OfAll,
    slots: usize,
    /// Largest error of a slot of the result, measured and predicted.
    noise_bits: f64,
    predicted_noise_bits: f64,
    keygen_s: f64,
    insecure: bool,
    /// Number of rounds of AES.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refreshed_before: Option<Vec<u32>>,
    /// Time of all blocks together.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    peak_rss_bytes: Option<u64>,
}

/// Result of a measurement.
struct Measured {
    time: Time,
    runs: u32,
    noise_bits: f64,
    predicted_noise_bits: f64,
    aes: Option<(Vec<u32>, f64)>,
}

pub(super) struct Options<'a> {
    pub params: &'a str,
    pub ops: &'a [Own],
    pub runs: u32,
    /// Number of AES rounds to run, from the first on.
    pub rounds: u32,
}

pub(super) fn run(options: &Options<'_>, output: Output) -> Result<()> {
    let session = Session::new(options.params)?;
    let mut lines = Vec::new();
    for &op in options.ops {
        let measured = match op {
            Own::Aes128Block => blocks(&session, options.rounds)?,
            _ => operation(&session, op, options.runs)?,
        };
        let (refreshed_before, seconds) = measured.aes.unzip();
        let line = Line {
            of_all: OfAll {
                bytes: session.params.evaluation_key_bytes(),
                ..OfAll::new(op.name(), options.params, Level(0), &measured.time, measured.runs)
            },
            slots: session.params.spec().slots,
            noise_bits: measured.noise_bits,
            predicted_noise_bits: measured.predicted_noise_bits,
            keygen_s: session.keygen_s,
            insecure: true,
            rounds: seconds.map(|_| options.rounds),
            refreshed_before,
            seconds,
            peak_rss_bytes: machine::peak_rss_bytes(),
        };
        if output.json {
            output.write(&line, |_| String::new())?;
        }
        lines.push(line);
    }
    if output.json { Ok(()) } else { output.write_text(&text(&lines)) }
}

/// Times products or bootstrappings of random bits.
fn operation(session: &Session, op: Own, runs: u32) -> Result<Measured> {
    let mut stream = Stream::new(&seed()?, "bench integers", 0);
    let mut bits = || -> Vec<u64> {
        (0..session.params.spec().slots).map(|_| stream.next_u64() & 1).collect()
    };
    let a = bits();
    let b = bits();
    let encrypted = |bits: &[u64]| session.secret.encrypt(bits, 1).map_err(refused);
    let x = encrypted(&a)?;
    let y = encrypted(&b)?;
    let product = || session.evaluator.mul(&x, &y).map_err(refused);
    let progress = Progress::new(format!("Timing {}", op.name()), runs as usize + 1);
    let mut done = 0;
    let mut timed = |work: &dyn Fn() -> Result<Ciphertext>| {
        time(runs, || {
            let result = work();
            done += 1;
            // A run may repeat a short operation, so there can be more calls than runs.
            progress.set(done.min(runs as usize));
            result
        })
    };
    let (time, result) = match op {
        Own::CltBootstrap => {
            // A product, because its noise is what bootstrapping is for.
            let noisy = product()?;
            timed(&|| session.evaluator.bootstrap(&noisy).map_err(refused))?
        }
        _ => timed(&product)?,
    };
    let expected: Vec<u64> = a.iter().zip(&b).map(|(a, b)| a & b).collect();
    if session.secret.decrypt(&result).map_err(refused)? != expected {
        return Err(Error::WrongResult(format!("{} of random bits", op.name())));
    }
    let noise_bits = session.noise_bits([&result])?;
    let predicted_noise_bits = result.noise().bits();
    Ok(Measured { time, runs, noise_bits, predicted_noise_bits, aes: None })
}

/// Times some rounds of AES on a random block in each slot, once. Times are per block.
fn blocks(session: &Session, rounds: u32) -> Result<Measured> {
    let mut stream = Stream::new(&seed()?, "bench integers", 1);
    let mut block = || -> [u8; 16] { core::array::from_fn(|_| stream.next_u64() as u8) };
    let key = block();
    let slots = session.params.spec().slots;
    let blocks: Vec<[u8; 16]> = (0..slots).map(|_| block()).collect();
    let cipher = Cipher::new(&session.evaluator).map_err(refused)?;
    let keys = RoundKeys::encrypt(&session.secret, &key).map_err(refused)?;
    let mut state = State::encrypt(&session.secret, &blocks).map_err(refused)?;

    let progress = Progress::new("Timing rounds of AES", rounds as usize);
    let start = Instant::now();
    // Round 0 adds the first key.
    for round in 0..=rounds {
        state = cipher.round(&keys, &state, round).map_err(refused)?;
        progress.set(round as usize);
    }
    // Decryption is the owner's work and not part of the time.
    let seconds = start.elapsed().as_secs_f64();

    let expected: Vec<[u8; 16]> =
        blocks.iter().map(|block| clear_rounds(&key, block, rounds)).collect();
    if state.decrypt(&session.secret).map_err(refused)? != expected {
        return Err(Error::WrongResult(format!("{rounds} rounds of AES-128")));
    }
    let refreshed = cipher.plan().refreshed().iter().copied().filter(|&round| round <= rounds);
    let predicted = state.bits().map(|bit| bit.noise().bits());
    Ok(Measured {
        time: summary(vec![seconds * 1e3 / slots as f64]),
        runs: 1,
        noise_bits: session.noise_bits(state.bits())?,
        predicted_noise_bits: predicted.fold(0.0, f64::max),
        aes: Some((refreshed.collect(), seconds)),
    })
}

fn seed() -> Result<Seed> {
    Ok(Seed::random().map_err(sudare::Error::from)?)
}

fn text(lines: &[Line]) -> String {
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                line.of_all.op.clone(),
                format!("{:.2}", line.of_all.median_ms),
                format!("{:.2}", line.of_all.min_ms),
                line.of_all.runs.to_string(),
                format!("{:.1}", line.noise_bits),
                line.peak_rss_bytes.map_or_else(|| "unknown".into(), size::bytes),
            ]
        })
        .collect();
    let head = lines.first().map_or_else(String::new, |line| {
        format!(
            "{}, {} slots, {} thread(s), {}, keys of {} made in {:.1} s\n",
            line.of_all.params,
            line.slots,
            line.of_all.threads,
            line.of_all.isa,
            size::bytes(line.of_all.bytes),
            line.keygen_s
        )
    });
    let aes = lines.iter().filter_map(|line| Some((line.rounds?, line.seconds?))).map(
        |(rounds, seconds)| {
            format!("aes128_block is per block: {rounds} rounds of all took {seconds:.1} s\n")
        },
    );
    let table =
        output::table(&["op", "median ms", "min ms", "runs", "noise bits", "peak memory"], &rows);
    head + &table + &aes.collect::<String>()
}
