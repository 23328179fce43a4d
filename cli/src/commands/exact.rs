//! Parameter sets of BGV and BFV.

use super::params::{least_security, prices, secret_name};
use crate::output;
use serde::Serialize;
use sudare::{
    exact::{self, BatchEncoder, Params, Preset},
    rlwe::{self, PricedKey},
};
use sudare_roles::{error::Result, machine};

/// Where the sets are from.
const SOURCE: &str = "own";

/// Whether a name is that of a set of BGV and BFV.
pub fn is_set(name: &str) -> bool {
    exact::preset(name).is_ok()
}

/// Their names.
pub fn names() -> Vec<String> {
    exact::presets().into_iter().map(|preset| preset.name).collect()
}

/// One line of the list: sizes as the specification says them.
#[derive(Serialize)]
pub struct Listed {
    name: String,
    summary: String,
    log_n: u32,
    levels: usize,
    plaintext_modulus: String,
    slots: usize,
    log_qp: f64,
    security_bits: f64,
}

impl Listed {
    fn of(preset: Preset) -> Self {
        let spec = preset.spec;
        let log_qp = spec.log2_qp();
        let log_slots = BatchEncoder::most_slots(spec.plaintext_modulus, spec.log_n);
        Self {
            name: preset.name,
            summary: preset.summary,
            log_n: spec.log_n,
            levels: spec.q_bits.len() - 1,
            plaintext_modulus: spec.plaintext_modulus.to_string(),
            slots: log_slots.map_or(0, |log_slots| 1 << log_slots),
            log_qp,
            security_bits: rlwe::security_bits(spec.log_n, spec.secret, log_qp),
        }
    }
}

/// All sets.
pub fn list() -> Vec<Listed> {
    exact::presets().into_iter().map(Listed::of).collect()
}

/// The same for people.
pub fn list_text(list: &[Listed]) -> String {
    let rows: Vec<Vec<String>> = list
        .iter()
        .map(|set| {
            vec![
                set.name.clone(),
                set.log_n.to_string(),
                set.levels.to_string(),
                set.plaintext_modulus.clone(),
                set.slots.to_string(),
                format!("{:.0}", set.log_qp),
                format!("{:.0}", set.security_bits),
            ]
        })
        .collect();
    output::table(&["name", "log N", "levels", "modulo", "slots", "log QP", "security"], &rows)
}

/// A set, its primes found.
#[derive(Serialize)]
pub struct Explained {
    name: String,
    summary: String,
    source: &'static str,
    schemes: [&'static str; 2],
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
    plaintext_modulus: String,
    /// None: integers have no scale.
    log2_scale: Option<f64>,
    dnum: usize,
    q_bits: Vec<Vec<f64>>,
    p_bits: Vec<f64>,
    ciphertext_bytes: u64,
    switching_key_bytes: u64,
}

/// Explains a set.
pub fn explain(name: &str) -> Result<Explained> {
    let preset = exact::preset(name)?;
    let listed = Listed::of(preset.clone());
    let params = Params::new(preset.spec)?;
    let (rlwe, top) = (params.rlwe(), params.top());
    let keys = rlwe.priced_keys();
    let spec = params.spec();
    Ok(Explained {
        name: preset.name,
        summary: preset.summary,
        source: SOURCE,
        schemes: ["bgv", "bfv"],
        log_n: params.log_n(),
        log_q: rlwe.log2_q(top),
        log_p: rlwe.log2_p(),
        log_qp: keys.iter().map(|key| key.log2_q).fold(0.0, f64::max),
        secret: secret_name(spec.secret),
        security_bits: least_security(&keys),
        insecure: spec.insecure,
        keys,
        levels: top.0,
        slots: listed.slots,
        plaintext_modulus: listed.plaintext_modulus,
        log2_scale: None,
        dnum: rlwe.digits(top),
        q_bits: spec.q_bits.clone(),
        p_bits: spec.p_bits.clone(),
        ciphertext_bytes: (16 * rlwe.limbs(top).q() as u64) << params.log_n(),
        switching_key_bytes: rlwe.switching_key_bytes(top),
    })
}

/// The same for people.
pub fn text(set: &Explained) -> String {
    let mark = if set.insecure { "; for tests and comparisons only" } else { "" };
    output::fields(&[
        ("name", set.name.clone()),
        ("what", set.summary.clone()),
        ("source", set.source.into()),
        ("schemes", set.schemes.join(" and ")),
        ("ring", format!("N = 2^{}", set.log_n)),
        ("plaintexts", format!("{} slots of integers modulo {}", set.slots, set.plaintext_modulus)),
        ("levels", format!("{}, one for each product", set.levels)),
        (
            "log2 Q",
            format!("{:.1} = {} bits", set.log_q, super::params::sizes(&set.q_bits.concat())),
        ),
        ("log2 P", format!("{:.1} = {} bits", set.log_p, super::params::sizes(&set.p_bits))),
        ("log2 QP", format!("{:.1} at most", set.log_qp)),
        ("digits", format!("{} (dnum)", set.dnum)),
        ("secret", set.secret.clone()),
        ("security", format!("{:.1} bits: {}{mark}", set.security_bits, prices(&set.keys))),
        ("ciphertext", machine::bytes(set.ciphertext_bytes)),
        ("switching key", format!("{} in memory", machine::bytes(set.switching_key_bytes))),
    ])
}
