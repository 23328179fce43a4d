mod exact;

use crate::{
    commands::shared::security::{
        key_security, least_security, secret_name, security_of_keys, sizes,
    },
    output::{self, Output},
    values::{finite, whole},
};
use serde::Serialize;
use sudare::{
    circuits::ckks::{
        ModMethod,
        bootstrap::{BootstrapPlan, BootstrapPreset, Order, Values},
    },
    ckks::{Params, Spec, UpperSpec, serial},
    rlwe::{self, KeySecurity, SecretDistribution},
};
use sudare_roles::{
    error::{Error, Result},
    format::label::{Content, Meta},
    job::Job,
    plan::sets::Set,
    text::size,
};

/// List parameter sets, explain one, or estimate the security of a modulus
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  sudare params\n  sudare params n15 --json\n  sudare params n16-boot\n  \
                  sudare params n14-t65537\n  sudare params --log-n 15 --log-qp 881"
)]
pub struct Args {
    /// Set to explain; default: list all sets
    name: Option<String>,
    /// Ring to estimate the security of any library's keys in: log2 of its degree, 1 to 63
    #[arg(long, value_name = "LOG_N", requires = "log_qp", conflicts_with = "name")]
    #[arg(value_parser = whole(1..=63))]
    log_n: Option<u32>,
    /// Size of the modulus of the keys, special primes included: its log2, in bits
    #[arg(long, value_name = "BITS", requires = "log_n")]
    #[arg(allow_negative_numbers = true, value_parser = finite)]
    log_qp: Option<f64>,
    /// Number of nonzero coefficients of the ternary secret; default: a uniform secret
    #[arg(long, value_name = "H", requires = "log_n", value_parser = whole(1..=u32::MAX))]
    weight: Option<u32>,
}

/// The security of a modulus.
#[derive(Serialize)]
struct Estimate {
    log_n: u32,
    log_qp: f64,
    secret: String,
    security_bits: f64,
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
    keys: Vec<KeySecurity>,
    levels: u32,
    slots: usize,
    log2_scale: f64,
    dnum: usize,
    q_bits: Vec<Vec<f64>>,
    raised: Option<UpperSpec>,
    p_bits: Vec<f64>,
    fitted_p_bits: Vec<f64>,
    ciphertext_bytes: u64,
    switching_key_bytes: u64,
    #[serde(flatten)]
    bootstrapping: Option<Bootstrapping>,
}

/// Bootstrapping of a set.
#[derive(Serialize)]
struct Bootstrapping {
    levels_after: u32,
    precision_bits: f64,
    log2_failure: f64,
    evaluation_keys: usize,
    evaluation_key_bytes: u64,
    evaluation_key_memory_bytes: u64,
    matrix_bytes: u64,
    order: &'static str,
    values: &'static str,
    ephemeral_weight: Option<u32>,
    k: u32,
    log2_ratio: f64,
    method: &'static str,
    degree: usize,
    /// Doublings of the angle.
    doublings: u32,
    inverse_sine_degree: Option<usize>,
    correction: bool,
    coeffs_to_slots: Vec<u32>,
    slots_to_coeffs: Vec<u32>,
    log_slots: u32,
    input_level: u32,
    output_level: u32,
}

/// One line of the list: the sizes of the specification.
#[derive(Serialize)]
struct Listed {
    name: String,
    summary: String,
    log_n: u32,
    levels: usize,
    log2_scale: f64,
    log_qp: f64,
    security_bits: f64,
    /// Precision of bootstrapping, where the set has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    precision_bits: Option<f64>,
}

#[derive(Serialize)]
struct List {
    presets: Vec<Listed>,
    /// Sets of BGV and BFV.
    exact: Vec<exact::Listed>,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    if let (Some(log_n), Some(log_qp)) = (args.log_n, args.log_qp) {
        return output.write(&estimate(log_n, log_qp, args.weight)?, estimate_text);
    }
    match &args.name {
        Some(name) if exact::is_set(name) => output.write(&exact::explain(name)?, exact::text),
        Some(name) => output.write(&explain(named(name)?)?, text),
        None => {
            let list = List { presets: Set::all().map(list).collect(), exact: exact::list() };
            output.write(&list, list_text)
        }
    }
}

/// Finds the set of this name. The error for an unknown name lists the sets of all schemes.
fn named(name: &str) -> Result<Set> {
    Set::named(name).map_err(|error| match error {
        Error::Library(sudare::Error::UnknownPreset { name, known }) => {
            let known = [known].into_iter().chain(exact::names()).collect::<Vec<_>>().join(", ");
            sudare::Error::UnknownPreset { name, known }.into()
        }
        error => error,
    })
}

fn estimate(log_n: u32, log_qp: f64, weight: Option<u32>) -> Result<Estimate> {
    if log_qp <= 0.0 {
        return Err(Error::Usage(format!(
            "--log-qp {log_qp} is not possible: it must be greater than 0"
        )));
    }
    if weight.is_some_and(|h| u64::from(h) > 1 << log_n) {
        return Err(Error::Usage(format!(
            "a secret in a ring of degree 2^{log_n} has 2^{log_n} coefficients: pass --weight 1 to \
             2^{log_n}"
        )));
    }
    let secret = weight
        .map_or(SecretDistribution::UniformTernary, |h| SecretDistribution::FixedWeight { h });
    let security_bits = rlwe::security_bits(log_n, secret, log_qp);
    Ok(Estimate { log_n, log_qp, secret: secret_name(secret), security_bits })
}

fn estimate_text(estimate: &Estimate) -> String {
    output::fields(&[
        ("ring", format!("N = 2^{}", estimate.log_n)),
        ("log2 QP", format!("{:.1}", estimate.log_qp)),
        ("secret", estimate.secret.clone()),
        ("security", format!("{:.1} bits", estimate.security_bits)),
    ])
}

fn list(set: Set) -> Listed {
    let precision_bits = match &set {
        Set::Leveled(_) => None,
        Set::Bootstrapping(set) => Some(set.precision_bits),
    };
    let preset = set.into_preset();
    let Spec { log_n, secret, log2_scale, .. } = preset.spec;
    let log_qp = preset.spec.log2_qp();
    Listed {
        name: preset.name,
        summary: preset.summary,
        log_n,
        levels: preset.spec.q_bits.len().saturating_sub(1),
        log2_scale,
        log_qp,
        security_bits: rlwe::security_bits(log_n, secret, log_qp),
        precision_bits,
    }
}

fn list_text(list: &List) -> String {
    let rows: Vec<Vec<String>> = list
        .presets
        .iter()
        .map(|set| {
            let bootstrapping = set.precision_bits.map(|bits| format!("to {bits:.1} bits"));
            vec![
                set.name.clone(),
                set.log_n.to_string(),
                set.levels.to_string(),
                set.log2_scale.to_string(),
                format!("{:.0}", set.log_qp),
                format!("{:.0}", set.security_bits),
                bootstrapping.unwrap_or_default(),
            ]
        })
        .collect();
    let head = ["name", "log N", "levels", "log scale", "log QP", "security", "bootstrapping"];
    output::table(&head, &rows)
        + "\nFor exact integers, with BGV and BFV:\n"
        + &exact::list_text(&list.exact)
        + "\nsudare params NAME explains a set.\n"
}

fn explain(set: Set) -> Result<Explained> {
    let params = Params::new(set.preset().spec.clone())?;
    let mut keys = params.rlwe().key_security();
    let mut bootstrapping = None;
    if let Set::Bootstrapping(set) = &set {
        let plan = set.bootstrap.plan(&params, params.upper_top())?;
        keys = key_security(&params, plan.required_keys())?;
        bootstrapping = Some(explain_bootstrapping(set, &params, &plan)?);
    }
    let preset = set.into_preset();
    let rlwe = params.rlwe();
    let top = params.top();
    let ciphertext_words = rlwe.limbs(top).q().saturating_mul(2 << params.log_n());
    Ok(Explained {
        name: preset.name,
        summary: preset.summary,
        source: preset.source,
        log_n: params.log_n(),
        log_q: rlwe.log2_q(top),
        log_p: rlwe.log2_p(),
        // Each key is judged at its own modulus. The largest one stands for the set.
        log_qp: keys.iter().map(|key| key.log2_q).fold(0.0, f64::max),
        secret: secret_name(preset.spec.secret),
        security_bits: least_security(&keys),
        insecure: preset.spec.insecure,
        keys,
        levels: top.0,
        slots: params.max_slots(),
        log2_scale: preset.spec.log2_scale,
        dnum: rlwe.digits(top),
        q_bits: preset.spec.q_bits,
        raised: preset.spec.upper,
        p_bits: preset.spec.p_bits,
        fitted_p_bits: preset.spec.extra_p_bits,
        ciphertext_bytes: (ciphertext_words as u64).saturating_mul(8),
        switching_key_bytes: rlwe.switching_key_bytes(top),
        bootstrapping,
    })
}

fn explain_bootstrapping(
    set: &BootstrapPreset,
    params: &Params,
    plan: &BootstrapPlan,
) -> Result<Bootstrapping> {
    let spec = &set.bootstrap;
    let request = plan.required_keys();
    let reduction = &spec.eval_mod;
    let (method, degree, doublings) = match reduction.method {
        ModMethod::Cosine { degree, double_angles } => ("cosine", degree, double_angles),
        ModMethod::Exponential { degree, squarings } => ("exponential", degree, squarings),
    };
    let label = Meta::of(Job::Bootstrap).label(&set.preset.name, Content::Keys)?;
    let weight = match params.spec().secret {
        // On average two thirds of the coefficients are nonzero. Three quarters never occur in practice.
        SecretDistribution::UniformTernary | SecretDistribution::SharedTernary { .. } => {
            (3 << params.log_n()) / 4
        }
        SecretDistribution::FixedWeight { h } => h,
    };
    Ok(Bootstrapping {
        levels_after: plan.usable_levels(),
        precision_bits: set.precision_bits,
        log2_failure: plan.log2_failure(weight),
        evaluation_keys: request.count(),
        evaluation_key_bytes: serial::evaluation_keys_bytes(params, request, &label)?,
        evaluation_key_memory_bytes: request.bytes(params.rlwe())?,
        matrix_bytes: plan.matrix_bytes(params),
        order: match spec.order {
            Order::CoeffsToSlotsFirst => "coeffs_to_slots first",
            Order::SlotsToCoeffsFirst => "slots_to_coeffs first",
        },
        values: match spec.values {
            Values::Complex => "complex",
            Values::Real => "real",
        },
        ephemeral_weight: spec.ephemeral_weight,
        k: reduction.k,
        log2_ratio: reduction.log2_ratio,
        method,
        degree,
        doublings,
        inverse_sine_degree: reduction.inverse_sine,
        correction: spec.correction,
        coeffs_to_slots: spec.coeffs_to_slots.clone(),
        slots_to_coeffs: spec.slots_to_coeffs.clone(),
        log_slots: spec.log_slots,
        input_level: plan.input_level().0,
        output_level: plan.output_level().0,
    })
}

fn text(set: &Explained) -> String {
    let chain: Vec<f64> = set.q_bits.concat();
    let extra = match set.fitted_p_bits.is_empty() {
        true => String::new(),
        false => format!("; {} bits more for level keys", sizes(&set.fitted_p_bits)),
    };
    let mark = if set.insecure { "; for reproduction only" } else { "" };
    let mut rows = vec![
        ("name", set.name.clone()),
        ("what", set.summary.clone()),
        ("source", set.source.clone()),
        ("ring", format!("N = 2^{}, {} slots", set.log_n, set.slots)),
        ("levels", format!("{} at a scale of 2^{}", set.levels, set.log2_scale)),
        ("log2 Q", format!("{:.1} = {} bits", set.log_q, sizes(&chain))),
        ("log2 P", format!("{:.1} = {} bits{extra}", set.log_p, sizes(&set.p_bits))),
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
    if let Some(UpperSpec { base_bits, levels_bits }) = &set.raised {
        let levels = format!(
            "{} above level {}, of {} bits on {} in place of the primes of log2 Q",
            levels_bits.len(),
            set.levels,
            sizes(&levels_bits.concat()),
            sizes(base_bits)
        );
        // After `log2 Q`, whose primes it replaces.
        rows.insert(6, ("upper levels", levels));
    }
    if let Some(bootstrapping) = &set.bootstrapping {
        rows.extend(bootstrapping_rows(bootstrapping));
    }
    output::fields(&rows)
}

fn bootstrapping_rows(set: &Bootstrapping) -> Vec<(&'static str, String)> {
    let factors = |layers: &[u32]| {
        let layers: Vec<String> = layers.iter().map(u32::to_string).collect();
        format!("{} factors of {} layers", layers.len(), layers.join(", "))
    };
    let through = match set.ephemeral_weight {
        Some(weight) => format!("an ephemeral secret of weight {weight}"),
        None => "the main secret".into(),
    };
    let inverse =
        set.inverse_sine_degree.map(|degree| format!(", inverse sine of degree {degree}"));
    let correction = if set.correction { ", messages corrected for the sine before" } else { "" };
    vec![
        (
            "bootstrapping",
            format!(
                "2^{} {} slots to {:.1} bits, from level {} to {}: {} levels to use",
                set.log_slots,
                set.values,
                set.precision_bits,
                set.input_level,
                set.output_level,
                set.levels_after
            ),
        ),
        ("order", set.order.into()),
        ("raising", format!("through {through}, |I| <= {}", set.k)),
        ("failure", format!("2^{:.1} a ciphertext", set.log2_failure)),
        (
            "reduction",
            format!(
                "{} of degree {}, {} doublings, ratio 2^{}{}{correction}",
                set.method,
                set.degree,
                set.doublings,
                set.log2_ratio,
                inverse.unwrap_or_default()
            ),
        ),
        ("CoeffsToSlots", factors(&set.coeffs_to_slots)),
        ("SlotsToCoeffs", factors(&set.slots_to_coeffs)),
        (
            "its keys",
            format!(
                "{} keys, {} in memory, {} in a file",
                set.evaluation_keys,
                size::bytes(set.evaluation_key_memory_bytes),
                size::bytes(set.evaluation_key_bytes)
            ),
        ),
        ("its matrices", format!("{} in memory", size::bytes(set.matrix_bytes))),
    ]
}
