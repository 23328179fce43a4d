//! Files of keys and arrays of integers.

use super::{Evaluation, evaluation_rows};
use crate::{
    commands::security::{least_security, secret_name},
    output::{self, Output},
};
use serde::Serialize;
use sudare::{exact::IntegerEncoder, rlwe};
use sudare_apps::exact::{Scheme, Setting, matrix_bytes};
use sudare_roles::{error::Result, integers::Facts, machine};

#[derive(Serialize)]
struct Report {
    kind: &'static str,
    content: String,
    format_version: u32,
    /// Of a secret key: whether by a passphrase.
    sealed: Option<bool>,
    params: String,
    params_id: String,
    key_id: String,
    bytes: u64,
    count: u64,
    log_n: u32,
    log_qp: f64,
    levels: u32,
    plaintext_modulus: String,
    slots: usize,
    secret: String,
    security_bits: f64,
    insecure: bool,
    /// Not of a sealed file.
    digest: Option<String>,
    /// Of keys.
    scheme: Option<Scheme>,
    signed: Option<bool>,
    bootstrapping: Option<Bootstrapping>,
    /// Of an array.
    shape: Option<Vec<usize>>,
    level: Option<u32>,
    /// `log2` of the bound of the errors of an array.
    log2_noise: Option<f64>,
    #[serde(flatten)]
    evaluation: Option<Evaluation>,
}

/// How arrays under a key are bootstrapped.
#[derive(Serialize)]
struct Bootstrapping {
    levels_left: u32,
    log2_failure: f64,
    matrix_bytes: u64,
}

impl Bootstrapping {
    fn of(setting: &Setting) -> Option<Self> {
        let plan = setting.bootstrapping()?;
        Some(Self {
            levels_left: plan.usable_levels(),
            log2_failure: plan.log2_failure(),
            matrix_bytes: matrix_bytes(setting.params(), plan),
        })
    }
}

pub(super) fn explain(facts: &Facts, output: Output) -> Result<()> {
    output.write(&report(facts)?, text)
}

fn report(facts: &Facts) -> Result<Report> {
    let Facts { info, params, setting, .. } = facts;
    let (spec, rlwe) = (params.spec(), params.rlwe());
    let request = facts.request.as_ref();
    let evaluation = request.map(|request| Evaluation::of(rlwe, request)).transpose()?;
    let least = evaluation.as_ref().map_or(f64::INFINITY, |keys| least_security(&keys.keys));
    let log_qp = spec.log2_qp();
    let log_slots = IntegerEncoder::most_slots(spec.plaintext_modulus, spec.log_n);
    Ok(Report {
        kind: info.kind.name(),
        content: info.label.content.clone(),
        format_version: info.format_version,
        sealed: (info.kind == sudare::exact::serial::Kind::SecretKey).then_some(facts.sealed),
        params: info.label.name.clone(),
        params_id: info.params_id.to_string(),
        key_id: info.key_id.to_string(),
        bytes: info.bytes,
        count: info.count,
        log_n: spec.log_n,
        log_qp,
        levels: params.top().0,
        plaintext_modulus: spec.plaintext_modulus.to_string(),
        slots: log_slots.map_or(0, |log_slots| 1 << log_slots),
        secret: secret_name(spec.secret),
        security_bits: rlwe::security_bits(spec.log_n, spec.secret, log_qp).min(least),
        insecure: spec.insecure,
        digest: facts.digest.map(|digest| blake3::Hash::from(digest).to_string()),
        scheme: setting.as_ref().map(Setting::scheme),
        signed: setting.as_ref().map(Setting::is_signed),
        bootstrapping: setting.as_ref().and_then(Bootstrapping::of),
        shape: facts.shape.clone(),
        level: facts.forms.iter().map(|form| form.level.0).min(),
        log2_noise: facts.forms.iter().map(|form| form.noise.log2()).reduce(f64::max),
        evaluation,
    })
}

fn text(report: &Report) -> String {
    let mark = if report.insecure { "; for tests and comparisons only" } else { "" };
    let sealed = if report.sealed == Some(true) { ", sealed by a passphrase" } else { "" };
    let mut rows = vec![
        ("kind", format!("{}{sealed}, format version {}", report.kind, report.format_version)),
        ("content", format!("{} ({})", report.content, report.count)),
        ("size", machine::bytes(report.bytes)),
        (
            "parameters",
            format!(
                "{} ({}): N = 2^{}, log2 QP {:.1}, {} levels",
                report.params, report.params_id, report.log_n, report.log_qp, report.levels
            ),
        ),
        (
            "plaintexts",
            format!("{} slots of integers modulo {}", report.slots, report.plaintext_modulus),
        ),
        ("security", format!("{:.1} bits, {} secret{mark}", report.security_bits, report.secret)),
        ("key", report.key_id.clone()),
    ];
    rows.extend(report.digest.as_ref().map(|digest| ("digest", digest.clone())));
    if let Some((scheme, signed)) = report.scheme.zip(report.signed) {
        let range = if signed { "signed" } else { "unsigned" };
        rows.push(("arithmetic", format!("{scheme}, {range} integers")));
    }
    if let Some(shape) = &report.shape {
        rows.push(("shape", format!("{shape:?}")));
    }
    if let Some((level, noise)) = report.level.zip(report.log2_noise) {
        rows.push(("level", format!("{level}, errors below 2^{noise:.1}")));
    }
    if let Some(way) = &report.bootstrapping {
        let matrices = machine::bytes(way.matrix_bytes);
        let text = format!(
            "{} levels left, fails with 2^{:.1} a ciphertext, matrices of {matrices}",
            way.levels_left, way.log2_failure
        );
        rows.push(("bootstrapping", text));
    }
    if let Some(evaluation) = &report.evaluation {
        rows.extend(evaluation_rows(evaluation));
    }
    output::fields(&rows)
}
