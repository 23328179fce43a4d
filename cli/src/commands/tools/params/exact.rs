//! Parameter sets of BGV and BFV.

use crate::{
    bench::exact_bootstrapping::Way,
    commands::shared::security::{least_security, secret_name, security_of_keys, sizes},
    output,
};
use serde::Serialize;
use sudare::{
    circuits::exact::digits::ResiduePolynomial,
    exact::{self, IntegerEncoder, Params, Preset},
    rlwe::{self, KeySecurity, Rates},
};
use sudare_roles::{error::Result, text::size};

/// Source of the sets.
const SOURCE: &str = "own";
/// Source of the bootstrapping sets with less than 128 bits of security.
const REPRODUCED: &str = "log2 Q of Han's thesis, Tables 3.4 and 3.5, and its levels where errors have room; the rest own";

/// Decides whether a set of BGV and BFV has this name.
pub fn is_set(name: &str) -> bool {
    exact::preset(name).is_ok() || Way::named(name).is_ok()
}

/// Lists the names of the sets of exact schemes.
pub fn names() -> Vec<String> {
    all().into_iter().map(|preset| preset.name).collect()
}

/// Lists all sets. Sets for bootstrapping come last.
fn all() -> Vec<Preset> {
    let ways = Way::all();
    let bootstrapping = ways.iter().map(|way| way.preset().clone());
    exact::presets().into_iter().chain(bootstrapping).collect()
}

/// One line of the list: the sizes of the specification.
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
        let log_slots = IntegerEncoder::most_slots(spec.plaintext_modulus, spec.log_n);
        Self {
            name: preset.name,
            summary: preset.summary,
            log_n: spec.log_n,
            levels: spec.q_bits.len().saturating_sub(1),
            plaintext_modulus: spec.plaintext_modulus.to_string(),
            slots: log_slots.map_or(0, |log_slots| 1 << log_slots),
            log_qp,
            security_bits: rlwe::security_bits(spec.log_n, spec.secret, log_qp),
        }
    }
}

/// Lists all sets.
pub fn list() -> Vec<Listed> {
    all().into_iter().map(Listed::of).collect()
}

/// Formats the list of sets for people.
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
    keys: Vec<KeySecurity>,
    levels: u32,
    slots: usize,
    plaintext_modulus: String,
    /// Always `None`, because integers have no scale. The field exists for readers of sets of CKKS.
    log2_scale: Option<f64>,
    dnum: usize,
    q_bits: Vec<Vec<f64>>,
    p_bits: Vec<f64>,
    ciphertext_bytes: u64,
    switching_key_bytes: u64,
    bootstrapping: Option<Bootstrapping>,
}

/// Properties of a set for bootstrapping.
#[derive(Serialize)]
struct Bootstrapping {
    /// `slim` if slots are integers, `full` if all coefficients are refreshed.
    mode: &'static str,
    slots: usize,
    /// Numbers that a slot has.
    slot_degree: usize,
    /// Levels that a refreshed ciphertext can use.
    levels_left: u32,
    input_level: u32,
    output_level: u32,
    top: u32,
    /// The largest digit that is removed, and the degree of the polynomial that removes it.
    bound: u32,
    degree: usize,
    ephemeral_weight: u32,
    log2_failure: f64,
    /// Bits by which errors of a refreshed ciphertext may grow.
    budget_bits: f64,
    /// Predicted for one thread of the reference machine.
    seconds: f64,
    keys: usize,
    key_bytes: u64,
    matrix_bytes: u64,
}

impl Bootstrapping {
    /// Returns the properties, and the estimated security of each kind of key.
    fn of(way: &Way, params: &Params) -> Result<(Self, Vec<KeySecurity>)> {
        let plan = way.plan(params)?;
        let spec = plan.spec();
        let request = plan.required_keys();
        let simulated = plan.simulate(params)?;
        // Raising leaves integers modulo the next power, whose lowest digit is removed.
        let high = spec.modulus.with_exponent(spec.modulus.exponent().saturating_add(1))?;
        let facts = Self {
            mode: plan.mode(),
            slots: 1 << spec.log_slots,
            slot_degree: plan.degree(),
            levels_left: plan.usable_levels(),
            input_level: plan.input_level().0,
            output_level: plan.output_level().0,
            top: plan.top().0,
            bound: spec.bound,
            degree: ResiduePolynomial::bounded_removal(high, spec.bound)?.degree(),
            ephemeral_weight: spec.ephemeral_weight,
            log2_failure: plan.log2_failure(),
            budget_bits: simulated.budget_bits,
            seconds: simulated.work.seconds(&Rates::reference(params.log_n())),
            keys: request.count(),
            key_bytes: request.bytes(params.rlwe())?,
            matrix_bytes: plan.matrix_bytes(params),
        };
        Ok((facts, request.key_security(params.rlwe())?))
    }
}

/// Explains a set.
pub fn explain(name: &str) -> Result<Explained> {
    let way = Way::named(name).ok();
    let preset = match &way {
        Some(way) => way.preset().clone(),
        None => exact::preset(name)?,
    };
    let listed = Listed::of(preset.clone());
    let params = Params::new(preset.spec)?;
    let rlwe = params.rlwe();
    let top = params.top();
    let mut keys = rlwe.key_security();
    let mut facts = None;
    if let Some(way) = &way {
        let (bootstrapping, security) = Bootstrapping::of(way, &params)?;
        keys.extend(security);
        facts = Some(bootstrapping);
    }
    let spec = params.spec();
    Ok(Explained {
        name: preset.name,
        summary: preset.summary,
        source: if way.is_some() && spec.insecure { REPRODUCED } else { SOURCE },
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
        ciphertext_bytes: (rlwe.limbs(top).q() as u64).saturating_mul(16 << params.log_n()),
        switching_key_bytes: rlwe.switching_key_bytes(top),
        bootstrapping: facts,
    })
}

/// Formats the explanation of a set for people.
pub fn text(set: &Explained) -> String {
    let mark = if set.insecure { "; for tests and comparisons only" } else { "" };
    let mut fields = vec![
        ("name", set.name.clone()),
        ("what", set.summary.clone()),
        ("source", set.source.into()),
        ("schemes", set.schemes.join(" and ")),
        ("ring", format!("N = 2^{}", set.log_n)),
        ("plaintexts", format!("{} slots of integers modulo {}", set.slots, set.plaintext_modulus)),
        ("levels", format!("{}, one for each product", set.levels)),
        ("log2 Q", format!("{:.1} = {} bits", set.log_q, sizes(&set.q_bits.concat()))),
        ("log2 P", format!("{:.1} = {} bits", set.log_p, sizes(&set.p_bits))),
        ("log2 QP", format!("{:.1} at most", set.log_qp)),
        ("digits", format!("{} (dnum)", set.dnum)),
        ("secret", set.secret.clone()),
        (
            "security",
            format!("{:.1} bits: {}{mark}", set.security_bits, security_of_keys(&set.keys)),
        ),
        ("ciphertext", size::bytes(set.ciphertext_bytes)),
        ("switching key", format!("{} in memory", size::bytes(set.switching_key_bytes))),
    ];
    if let Some(facts) = &set.bootstrapping {
        fields.extend([
            (
                "bootstrapping",
                format!(
                    "{} slots{} from level {} through level {} to level {}: {} levels left",
                    facts.slots,
                    match facts.slot_degree {
                        1 => String::new(),
                        degree => format!(" of degree {degree}"),
                    },
                    facts.input_level,
                    facts.top,
                    facts.output_level,
                    facts.levels_left
                ),
            ),
            (
                "digits removed",
                format!(
                    "of at most {} by degree {}, through an ephemeral secret of weight {}",
                    facts.bound, facts.degree, facts.ephemeral_weight
                ),
            ),
            ("failure", format!("2^{:.1} a ciphertext", facts.log2_failure)),
            ("budget afterwards", format!("{:.1} bits that errors may grow by", facts.budget_bits)),
            (
                "bootstrapping time",
                format!("{:.2} s predicted, one thread of the reference machine", facts.seconds),
            ),
            (
                "bootstrapping keys",
                format!("{}, {} in memory", facts.keys, size::bytes(facts.key_bytes)),
            ),
            ("bootstrapping matrices", size::bytes(facts.matrix_bytes)),
        ]);
    }
    output::fields(&fields)
}
