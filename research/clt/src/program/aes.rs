//! AES-128 on encrypted blocks.

use super::sets::{INSECURE, Session, refused};
use crate::aes::{Cipher, ROUND_PRODUCTS, ROUNDS, RoundKeys, State, clear_rounds};
use serde::Serialize;
use std::time::Instant;
use sudare_arith::{Isa, par};
use sudare_cli::{
    output::{self, Output},
    progress::Progress,
};
use sudare_roles::{
    error::{Error, Result},
    os::machine,
    text::size,
};

/// Encrypt blocks by AES-128 on encrypted data, over the integers: insecure, for research
///
/// The owner encrypts the key and the blocks of FIPS 197 bit by bit, a block in each slot; the
/// server computes AES-128 on them with 34 products an S-box, and bootstraps the state where its
/// noise plan says; the owner decrypts and compares. The scheme's published parameters have no
/// security: it reproduces a thesis, and protects nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  sudare-clt aes\n  sudare-clt aes --params clt-500")]
pub struct Args {
    /// Parameter set: clt-4, or clt-500 for 500 blocks in 2 GiB of memory
    #[arg(long, value_name = "NAME", default_value = "clt-4")]
    params: String,
}

#[derive(Serialize)]
struct Report {
    params: String,
    insecure: bool,
    blocks: usize,
    products: usize,
    bootstraps: usize,
    refreshed_before: Vec<u32>,
    /// The largest error of a slot after a round, and the limit of decryption.
    noise_bits: f64,
    noise_limit_bits: f64,
    /// The first block, in the clear and encrypted.
    first_block: String,
    first_result: String,
    keygen_s: f64,
    encrypt_s: f64,
    evaluate_s: f64,
    decrypt_s: f64,
    evaluation_key_bytes: u64,
    threads: usize,
    isa: &'static str,
    peak_rss_bytes: Option<u64>,
}

/// FIPS 197, appendix C.1.
const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const BLOCK: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
const RESULT: u128 = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a;

pub fn run(args: &Args, output: Output) -> Result<()> {
    let session = Session::new(&args.params)?;
    let slots = session.params.spec().slots;
    let cipher = Cipher::new(&session.evaluator).map_err(refused)?;
    // Each next block counts up.
    let blocks: Vec<[u8; 16]> = (0..slots as u128).map(|i| (BLOCK + i).to_be_bytes()).collect();

    let start = Instant::now();
    let keys = RoundKeys::encrypt(&session.secret, &KEY).map_err(refused)?;
    let mut state = State::encrypt(&session.secret, &blocks).map_err(refused)?;
    let encrypt_s = start.elapsed().as_secs_f64();

    let mut evaluate_s = 0.0;
    let mut noise_bits = 0.0f64;
    {
        let progress = Progress::new("Server: rounds of AES", ROUNDS as usize);
        for round in 0..=ROUNDS {
            let start = Instant::now();
            state = cipher.round(&keys, &state, round).map_err(refused)?;
            evaluate_s += start.elapsed().as_secs_f64();
            // Needs the secret key, so a server could not do it: it is not part of the time.
            noise_bits = noise_bits.max(session.noise_bits(state.bits())?);
            progress.set_with(round as usize, &format!("  noise {noise_bits:.0} bits at most"));
        }
    }

    let start = Instant::now();
    let found = state.decrypt(&session.secret).map_err(refused)?;
    let decrypt_s = start.elapsed().as_secs_f64();
    let clear: Vec<[u8; 16]> =
        blocks.iter().map(|block| clear_rounds(&KEY, block, ROUNDS)).collect();
    let first = found.first().map(|block| u128::from_be_bytes(*block));
    if found != clear || first != Some(RESULT) {
        return Err(Error::WrongResult("AES-128 of encrypted blocks".into()));
    }
    let refreshed_before = cipher.plan().refreshed().to_vec();
    let report = Report {
        params: args.params.clone(),
        insecure: true,
        blocks: slots,
        products: ROUND_PRODUCTS * ROUNDS as usize,
        bootstraps: state.bits().count() * refreshed_before.len(),
        refreshed_before,
        noise_bits,
        noise_limit_bits: session.params.noise_limit_bits(1),
        first_block: format!("{BLOCK:032x}"),
        first_result: format!("{RESULT:032x}"),
        keygen_s: session.keygen_s,
        encrypt_s,
        evaluate_s,
        decrypt_s,
        evaluation_key_bytes: session.params.evaluation_key_bytes(),
        threads: par::threads(),
        isa: Isa::detect().name(),
        peak_rss_bytes: machine::peak_rss_bytes(),
    };
    output.write(&report, text)
}

fn text(report: &Report) -> String {
    let seconds = |s: f64| format!("{s:.2} s");
    let rounds: Vec<String> = report.refreshed_before.iter().map(u32::to_string).collect();
    output::fields(&[
        ("security", INSECURE.into()),
        ("first block", report.first_block.clone()),
        ("encrypted", format!("{} (as in FIPS 197)", report.first_result)),
        ("blocks", format!("{}, all as in the clear", report.blocks)),
        ("products", report.products.to_string()),
        ("bootstraps", format!("{}, before rounds {}", report.bootstraps, rounds.join(", "))),
        (
            "noise",
            format!("{:.1} bits at most, of {:.1}", report.noise_bits, report.noise_limit_bits),
        ),
        ("making keys", seconds(report.keygen_s)),
        ("encrypting", seconds(report.encrypt_s)),
        (
            "evaluating",
            format!(
                "{}, {} a block",
                seconds(report.evaluate_s),
                seconds(report.evaluate_s / report.blocks as f64)
            ),
        ),
        ("decrypting", seconds(report.decrypt_s)),
        ("keys", format!("{} in memory", size::bytes(report.evaluation_key_bytes))),
        ("peak memory", report.peak_rss_bytes.map_or_else(|| "unknown".into(), size::bytes)),
    ])
}
