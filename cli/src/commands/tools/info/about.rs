//! Facts about every file of keys or ciphertexts, of any scheme.

use crate::{
    commands::shared::security::{least_security, secret_name, security_of_keys},
    output,
};
use serde::Serialize;
use sudare::rlwe::{
    self, KeyRequest, KeySecurity, Level, LevelKeys, SecretDistribution,
    serial::{Info, Kind},
};
use sudare_roles::{error::Result, text::size};

#[derive(Serialize)]
pub(super) struct About {
    kind: &'static str,
    content: String,
    format_version: u32,
    /// True if a secret key is sealed by a passphrase.
    sealed: Option<bool>,
    params: String,
    params_id: String,
    key_id: String,
    bytes: u64,
    count: u64,
    log_n: u32,
    log_qp: f64,
    levels: u32,
    secret: String,
    security_bits: f64,
    insecure: bool,
    /// Digest of the file, from its checksums; a sealed file has none.
    digest: Option<String>,
    #[serde(flatten)]
    evaluation: Option<Evaluation>,
}

/// Properties of the parameters of every scheme.
pub(super) struct Parameters {
    pub log_n: u32,
    pub log_qp: f64,
    pub levels: u32,
    pub secret: SecretDistribution,
    pub insecure: bool,
}

impl About {
    /// Describes a file with these parameters, its evaluation keys if it has any, and its digest if it
    /// is not sealed.
    pub fn new<S>(
        info: &Info<S>,
        params: &Parameters,
        evaluation: Option<Evaluation>,
        sealed: bool,
        digest: Option<[u8; 32]>,
    ) -> Self {
        let &Parameters { log_n, log_qp, levels, secret, insecure } = params;
        let least = evaluation.as_ref().map_or(f64::INFINITY, |keys| least_security(&keys.keys));
        Self {
            kind: info.kind.name(),
            content: info.label.content.clone(),
            format_version: info.format_version,
            sealed: (info.kind == Kind::SecretKey).then_some(sealed),
            params: info.label.name.clone(),
            params_id: info.params_id.to_string(),
            key_id: info.key_id.to_string(),
            bytes: info.bytes,
            count: info.count,
            log_n,
            log_qp,
            levels,
            secret: secret_name(secret),
            // Keys for bootstrapping have moduli and secrets of their own, and may be weaker.
            security_bits: rlwe::security_bits(log_n, secret, log_qp).min(least),
            insecure,
            digest: digest.map(|digest| blake3::Hash::from(digest).to_string()),
            evaluation,
        }
    }

    /// Returns text for people. `plaintexts` describes the plaintexts of the parameters, and `rows` are further
    /// facts.
    pub fn text(&self, plaintexts: &str, rows: Vec<(&'static str, String)>) -> String {
        let mark = if self.insecure { "; for reproduction and tests only" } else { "" };
        let sealed = if self.sealed == Some(true) { ", sealed by a passphrase" } else { "" };
        let Self { params, params_id, log_n, log_qp, levels, .. } = self;
        let params = format!(
            "{params} ({params_id}): N = 2^{log_n}, log2 QP {log_qp:.1}, {levels} levels {plaintexts}"
        );
        let mut all = vec![
            ("kind", format!("{}{sealed}, format version {}", self.kind, self.format_version)),
            ("content", format!("{} ({})", self.content, self.count)),
            ("size", size::bytes(self.bytes)),
            ("parameters", params),
            ("security", format!("{:.1} bits, {} secret{mark}", self.security_bits, self.secret)),
            ("key", self.key_id.clone()),
        ];
        all.extend(self.digest.as_ref().map(|digest| ("digest", digest.clone())));
        all.extend(rows);
        all.extend(self.evaluation.iter().flat_map(Evaluation::rows));
        output::fields(&all)
    }
}

/// Operations of evaluation keys.
#[derive(Serialize)]
pub(super) struct Evaluation {
    /// Highest level of relinearisation.
    relinearization_level: Option<u32>,
    /// Rotations and conjugations.
    automorphisms: usize,
    /// Keys for the lowest levels alone.
    fitted_keys: usize,
    raising: Option<Raising>,
    memory_bytes: u64,
    keys: Vec<KeySecurity>,
}

/// Keys to an ephemeral secret and back.
#[derive(Serialize)]
struct Raising {
    level: u32,
    ephemeral_weight: u32,
}

impl Evaluation {
    pub fn of(params: &rlwe::Params, request: &KeyRequest) -> Result<Self> {
        Ok(Self {
            relinearization_level: request.relinearize.map(|Level(level)| level),
            automorphisms: request.galois.len(),
            fitted_keys: request.level_keys.values().map(LevelKeys::count).sum(),
            raising: request
                .raise
                .map(|raise| Raising { level: raise.level.0, ephemeral_weight: raise.weight }),
            memory_bytes: request.bytes(params)?,
            keys: request.key_security(params)?,
        })
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let none = || "none".to_owned();
        let relinearization = |level| format!("up to level {level}");
        let raising = |raising: &Raising| {
            format!(
                "to level {}, through an ephemeral secret of weight {}",
                raising.level, raising.ephemeral_weight
            )
        };
        vec![
            ("products", self.relinearization_level.map_or_else(none, relinearization)),
            ("automorphisms", self.automorphisms.to_string()),
            ("level keys", self.fitted_keys.to_string()),
            ("raising", self.raising.as_ref().map_or_else(none, raising)),
            ("security", security_of_keys(&self.keys)),
            ("memory", size::bytes(self.memory_bytes)),
        ]
    }
}
