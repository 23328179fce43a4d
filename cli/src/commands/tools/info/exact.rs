//! Files of keys and arrays of integers.

use super::about::{About, Evaluation, Parameters};
use crate::output::Output;
use serde::Serialize;
use sudare::exact::IntegerEncoder;
use sudare_apps::exact::{Scheme, Setting, matrix_bytes};
use sudare_roles::{error::Result, exact_files::Facts, text::size};

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    about: About,
    plaintext_modulus: String,
    slots: usize,
    /// Bootstrapping of keys.
    scheme: Option<Scheme>,
    signed: Option<bool>,
    bootstrapping: Option<Bootstrapping>,
    /// Shape of an array.
    shape: Option<Vec<usize>>,
    level: Option<u32>,
    /// `log2` of the bound of the errors of an array.
    log2_noise: Option<f64>,
}

/// Bootstrapping of arrays under a key.
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
    let spec = params.spec();
    let request = facts.request.as_ref();
    let evaluation = request.map(|request| Evaluation::of(params.rlwe(), request)).transpose()?;
    let log_slots = IntegerEncoder::most_slots(spec.plaintext_modulus, spec.log_n);
    let public = Parameters {
        log_n: spec.log_n,
        log_qp: spec.log2_qp(),
        levels: params.top().0,
        secret: spec.secret,
        insecure: spec.insecure,
    };
    Ok(Report {
        about: About::new(info, &public, evaluation, facts.sealed, facts.digest),
        plaintext_modulus: spec.plaintext_modulus.to_string(),
        slots: log_slots.map_or(0, |log_slots| 1 << log_slots),
        scheme: setting.as_ref().map(Setting::scheme),
        signed: setting.as_ref().map(Setting::is_signed),
        bootstrapping: setting.as_ref().and_then(Bootstrapping::of),
        shape: facts.shape.clone(),
        level: facts.forms.iter().map(|form| form.level.0).min(),
        log2_noise: facts.forms.iter().map(|form| form.noise.log2()).reduce(f64::max),
    })
}

fn text(report: &Report) -> String {
    let mut rows = Vec::new();
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
        let matrices = size::bytes(way.matrix_bytes);
        let text = format!(
            "{} levels left, fails with 2^{:.1} a ciphertext, matrices of {matrices}",
            way.levels_left, way.log2_failure
        );
        rows.push(("bootstrapping", text));
    }
    let Report { about, slots, plaintext_modulus, .. } = report;
    about.text(&format!("of {slots} integers modulo {plaintext_modulus}"), rows)
}
