//! Named sets: explanations, and keys.

use crate::{
    Ciphertext, Evaluator, KeyGenerator, Params, SecretKey, Spec, aes::Plan, insecure_research,
    preset_names,
};
use serde::Serialize;
use std::time::Instant;
use sudare_cli::{
    output::{self, Output, say},
    progress::Progress,
};
use sudare_roles::{
    error::{Error, Result},
    os::memory,
    text::size,
};

/// Warning of every command.
pub const INSECURE: &str = "insecure, for research only: lattice reduction finds the secret primes \
                            from public values";

/// Source of the sets.
const SOURCE: &str =
    "Han, Bootstrapping and applications of homomorphic encryption (thesis), section 5.4";

/// Explain a named set of the scheme, or list all of them
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of a set; default: list the names
    name: Option<String>,
}

/// The names of the sets.
#[derive(Serialize)]
struct List {
    sets: Vec<&'static str>,
    insecure: bool,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    match &args.name {
        Some(name) => output.write(&explain(name)?, text),
        None => {
            let list = List { sets: preset_names().to_vec(), insecure: true };
            output.write(&list, |list| format!("{}: {INSECURE}\n", list.sets.join(", ")))
        }
    }
}

/// Turns an error of the scheme into a mistake of the user.
#[must_use]
pub fn refused(error: crate::Error) -> Error {
    Error::Usage(error.to_string())
}

/// Returns the parameters of a named set.
fn params(name: &str) -> Result<Params> {
    let spec = Spec::named(name).map_err(refused)?;
    Params::new(spec, insecure_research()).map_err(refused)
}

/// Keys of both roles.
pub struct Session {
    /// Parameters of the set.
    pub params: Params,
    /// Key of the owner.
    pub secret: SecretKey,
    /// Operations of the server.
    pub evaluator: Evaluator,
    /// Seconds that making the keys took.
    pub keygen_s: f64,
}

impl Session {
    /// Makes keys for the set `name`.
    ///
    /// # Errors
    /// If there is no such set, or memory is too small.
    pub fn new(name: &str) -> Result<Self> {
        let params = params(name)?;
        say(format_args!("{name}: {INSECURE}"));
        memory::check(
            "keys",
            params.evaluation_key_bytes().saturating_add(WORK_BYTES),
            "choose a smaller set, such as clt-4",
        )?;
        let start = Instant::now();
        let generator = KeyGenerator::new(&params).map_err(refused)?;
        let (secret, key) = {
            let progress = Progress::new("Making keys", generator.parts());
            generator.generate_with(|made| progress.set(made)).map_err(refused)?
        };
        let evaluator = Evaluator::new(key.into());
        Ok(Self { params, secret, evaluator, keygen_s: start.elapsed().as_secs_f64() })
    }

    /// Measures the bits of the largest error of any slot.
    ///
    /// # Errors
    /// If a ciphertext is under another key.
    pub fn noise_bits<'a>(
        &self,
        ciphertexts: impl IntoIterator<Item = &'a Ciphertext>,
    ) -> Result<f64> {
        let measured = ciphertexts.into_iter().map(|c| self.secret.measure_noise(c));
        let measured = measured.collect::<crate::Result<Vec<f64>>>().map_err(refused)?;
        Ok(measured.into_iter().fold(0.0, f64::max))
    }
}

/// Memory of the computation, in addition to the keys.
const WORK_BYTES: u64 = 512 << 20;

/// A set, explained.
#[derive(Serialize)]
struct Explained {
    name: String,
    summary: String,
    source: &'static str,
    insecure: bool,
    security_bits: f64,
    slots: usize,
    t: u32,
    eta: u32,
    rho: u32,
    gamma: u32,
    convert_len: usize,
    convert_weight: usize,
    word_bits: u32,
    bootstrap_len: usize,
    bootstrap_weight: usize,
    digits: u32,
    noise_limit_bits: f64,
    bootstrap_limit_bits: f64,
    bootstrap_products: u32,
    aes_refreshed_before: Vec<u32>,
    ciphertext_bytes: u64,
    evaluation_key_bytes: u64,
}

/// Explains a set.
fn explain(name: &str) -> Result<Explained> {
    let params = params(name)?;
    let spec = params.spec();
    Ok(Explained {
        name: name.into(),
        summary: format!("integers, {} slots of bits; {INSECURE}", spec.slots),
        source: SOURCE,
        insecure: true,
        // Lattice reduction finds the key of every set, so any other figure would mislead.
        security_bits: 0.0,
        slots: spec.slots,
        t: spec.t,
        eta: spec.eta,
        rho: spec.rho,
        gamma: spec.gamma,
        convert_len: spec.convert.len,
        convert_weight: spec.convert.weight,
        word_bits: spec.word_bits,
        bootstrap_len: spec.bootstrap.len,
        bootstrap_weight: spec.bootstrap.weight,
        digits: spec.digits,
        noise_limit_bits: params.noise_limit_bits(1),
        bootstrap_limit_bits: params.bootstrap_limit_bits(),
        bootstrap_products: params.bootstrap_products(),
        aes_refreshed_before: Plan::new(&params).map_err(refused)?.refreshed().to_vec(),
        ciphertext_bytes: params.ciphertext_bytes(),
        evaluation_key_bytes: params.evaluation_key_bytes(),
    })
}

/// Shows the explanation of a set.
fn text(set: &Explained) -> String {
    let rounds: Vec<String> = set.aes_refreshed_before.iter().map(u32::to_string).collect();
    output::fields(&[
        ("name", set.name.clone()),
        ("what", set.summary.clone()),
        ("source", set.source.into()),
        (
            "security",
            "none: gamma is about twice 2 eta l, so LLL reduces lattices of public elements far \
             enough; 3.2 million bits and more would be needed"
                .into(),
        ),
        ("slots", format!("{}, modulo powers of {}", set.slots, set.t)),
        ("secret primes", format!("{} of {} bits", set.slots, set.eta)),
        ("modulus", format!("{} bits (gamma)", set.gamma)),
        ("fresh noise", format!("{} bits (rho)", set.rho)),
        (
            "product key",
            format!(
                "{} numbers (Theta), {} a slot (theta), words of {} bits (w)",
                set.convert_len, set.convert_weight, set.word_bits
            ),
        ),
        (
            "bootstrapping key",
            format!(
                "{} numbers (Theta'), {} a slot (theta'), {} digits (n), {} products",
                set.bootstrap_len, set.bootstrap_weight, set.digits, set.bootstrap_products
            ),
        ),
        (
            "noise",
            format!(
                "up to {:.1} bits, to bootstrap {:.1}",
                set.noise_limit_bits, set.bootstrap_limit_bits
            ),
        ),
        ("AES-128", format!("bootstraps its state before rounds {}", rounds.join(", "))),
        ("ciphertext", size::bytes(set.ciphertext_bytes)),
        ("keys", format!("{} in memory", size::bytes(set.evaluation_key_bytes))),
    ])
}
