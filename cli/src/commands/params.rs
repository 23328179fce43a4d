use crate::{
    error::Result,
    output::{self, Output},
};
use serde::Serialize;
use sudare::{
    ckks::{self, Params, Preset, Spec},
    rlwe::{self, PricedKey, SecretDistribution},
};

/// List parameter sets, or explain one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  sudare params\n  sudare params n15 --json")]
pub struct Args {
    /// The set to explain; all are listed if left out
    name: Option<String>,
}

/// One set, its primes found.
#[derive(Serialize)]
struct Explained {
    name: String,
    summary: String,
    source: String,
    log_n: u32,
    log_q: f64,
    log_p: f64,
    log_qp: f64,
    secret: String,
    security_bits: f64,
    insecure: bool,
    keys: Vec<PricedKey>,
    levels: u32,
    slots: usize,
    log2_scale: f64,
    dnum: usize,
    q_bits: Vec<Vec<f64>>,
    p_bits: Vec<f64>,
    ciphertext_bytes: u64,
    switching_key_bytes: u64,
}

/// One line of the list: sizes as the specification says them.
#[derive(Serialize)]
struct Listed {
    name: String,
    summary: String,
    log_n: u32,
    levels: usize,
    log2_scale: f64,
    log_qp: f64,
    security_bits: f64,
}

#[derive(Serialize)]
struct List {
    presets: Vec<Listed>,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    match &args.name {
        Some(name) => {
            let preset = ckks::preset(name)?;
            let params = Params::new(preset.spec.clone())?;
            output.write(&explain(preset, &params), text)
        }
        None => {
            let presets = ckks::presets().into_iter().map(list).collect();
            output.write(&List { presets }, list_text)
        }
    }
}

fn list(preset: Preset) -> Listed {
    let Spec { log_n, secret, log2_scale, .. } = preset.spec;
    let bits = preset.spec.q_bits.iter().flatten().chain(&preset.spec.p_bits);
    let log_qp = bits.sum();
    Listed {
        name: preset.name,
        summary: preset.summary,
        log_n,
        levels: preset.spec.q_bits.len() - 1,
        log2_scale,
        log_qp,
        security_bits: rlwe::security_bits(log_n, secret, log_qp),
    }
}

fn list_text(list: &List) -> String {
    let rows: Vec<Vec<String>> = list
        .presets
        .iter()
        .map(|set| {
            vec![
                set.name.clone(),
                set.log_n.to_string(),
                set.levels.to_string(),
                set.log2_scale.to_string(),
                format!("{:.0}", set.log_qp),
                format!("{:.0}", set.security_bits),
            ]
        })
        .collect();
    output::table(&["name", "log N", "levels", "log scale", "log QP", "security"], &rows)
        + "\nsudare params NAME explains one.\n"
}

/// How a secret is drawn, in words.
pub fn secret_name(secret: SecretDistribution) -> String {
    match secret {
        SecretDistribution::UniformTernary => "uniform ternary".into(),
        SecretDistribution::FixedWeight { h } => format!("ternary of weight {h}"),
    }
}

fn explain(preset: Preset, params: &Params) -> Explained {
    let rlwe = params.rlwe();
    let top = params.top();
    let ciphertext_words = (2 * rlwe.limbs(top).q()) << params.log_n();
    Explained {
        name: preset.name,
        summary: preset.summary,
        source: preset.source,
        log_n: params.log_n(),
        log_q: rlwe.log2_q(top),
        log_p: rlwe.log2_p(),
        log_qp: rlwe.log2_qp(top),
        secret: secret_name(preset.spec.secret),
        security_bits: rlwe.security_bits(),
        insecure: preset.spec.insecure,
        keys: rlwe.priced_keys(),
        levels: top.0,
        slots: params.max_slots(),
        log2_scale: preset.spec.log2_scale,
        dnum: rlwe.digits(top),
        q_bits: preset.spec.q_bits,
        p_bits: preset.spec.p_bits,
        ciphertext_bytes: 8 * ciphertext_words as u64,
        switching_key_bytes: rlwe.switching_key_bytes(top),
    }
}

fn text(set: &Explained) -> String {
    let sizes = |bits: &[f64]| {
        let run = bits.chunk_by(|a, b| a == b);
        run.map(|run| format!("{} x {}", run.len(), run[0])).collect::<Vec<_>>().join(" + ")
    };
    let chain: Vec<f64> = set.q_bits.concat();
    let price = |key: &PricedKey| format!("{} {:.1} bits", key.what, key.security_bits);
    let prices: Vec<String> = set.keys.iter().map(price).collect();
    let mark = if set.insecure { "; for reproduction only" } else { "" };
    output::fields(&[
        ("name", set.name.clone()),
        ("what", set.summary.clone()),
        ("source", set.source.clone()),
        ("ring", format!("N = 2^{}, {} slots", set.log_n, set.slots)),
        ("levels", format!("{} at a scale of 2^{}", set.levels, set.log2_scale)),
        ("log2 Q", format!("{:.1} = {} bits", set.log_q, sizes(&chain))),
        ("log2 P", format!("{:.1} = {} bits", set.log_p, sizes(&set.p_bits))),
        ("log2 QP", format!("{:.1}", set.log_qp)),
        ("digits", format!("{} (dnum)", set.dnum)),
        ("secret", set.secret.clone()),
        ("security", format!("{:.1} bits: {}{mark}", set.security_bits, prices.join(", "))),
        ("ciphertext", output::bytes(set.ciphertext_bytes)),
        ("switching key", format!("{} in memory", output::bytes(set.switching_key_bytes))),
    ])
}
