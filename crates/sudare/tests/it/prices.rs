//! Prices of keys, by an estimator of its own.

use crate::estimator::Secret;
use std::process::Command;
use sudare::{
    circuits::{ckks::bootstrap, exact::bootstrap as exact_bootstrap},
    ckks, exact,
    rlwe::{
        self, KeyRequest, KeySecurity, SecretDistribution, SecretDistribution::FixedWeight,
        SecretDistribution::UniformTernary, max_log2_qp, security_bits,
    },
};

/// Bits by which the table and the estimator may differ: attacks are optimised on grids.
const TOLERANCE: f64 = 0.8;

fn estimated(log_n: u32, secret: SecretDistribution, log2_q: f64) -> f64 {
    let secret = match secret {
        // One piece, if it is shared.
        UniformTernary | SecretDistribution::SharedTernary { .. } => Secret::Ternary,
        FixedWeight { h } => Secret::Weight(h),
    };
    crate::estimator::security_bits(log_n, secret, log2_q)
}

/// The estimator gives the published limits, of sources that did not use it.
#[test]
fn the_estimator_gives_published_figures() {
    for (log_n, limit) in [(12, 106.0), (13, 214.0), (14, 430.0), (15, 868.0), (16, 1747.0)] {
        let found = estimated(log_n, UniformTernary, limit);
        assert!((found - 128.0).abs() < 1.0, "2^{log_n}: {found}");
    }
    // Table 5.2 of ePrint 2024/463 beyond its limits, by malb/lattice-estimator.
    for (log_n, log2_q, bits) in [(15, 880.0, 126.1), (16, 1767.0, 126.6), (16, 1793.0, 124.6)] {
        assert!((estimated(log_n, UniformTernary, log2_q) - bits).abs() < 0.3);
    }
    // Limits of 128 bits under the rotation attack of ePrint 2026/279.
    for (log_n, h, limit) in [(14, 64, 229.0), (15, 32, 162.0), (15, 192, 739.0), (16, 64, 961.0)] {
        let found = estimated(log_n, FixedWeight { h }, limit);
        assert!((found - 128.0).abs() < TOLERANCE, "2^{log_n}, weight {h}: {found}");
    }
}

/// Limits of weights that no published table has are those of the estimator.
#[test]
fn the_limits_of_weight_48_are_those_of_the_estimator() {
    let secret = FixedWeight { h: 48 };
    for (log_n, limit) in [(14, 165.0), (15, 341.0), (16, 710.0)] {
        assert_eq!(max_log2_qp(log_n, secret, 128.0), limit);
        let found = estimated(log_n, secret, limit);
        assert!((found - 128.0).abs() < TOLERANCE, "2^{log_n}: {found}");
        // The weight is worth more than 32, and less than 64.
        let of = |h| max_log2_qp(log_n, FixedWeight { h }, 128.0);
        assert!(of(32) < limit && limit < of(64));
    }
}

/// A key is worth 128 bits by the table and by the estimator, which agree.
fn check(name: &str, log_n: u32, secret: SecretDistribution, key: &KeySecurity) {
    let KeySecurity { what, log2_q, security_bits: price } = key;
    assert_eq!(*price, security_bits(log_n, secret, *log2_q), "{name}, {what}");
    assert!(*price >= 128.0, "{name}, {what}: {price} bits");
    let found = estimated(log_n, secret, *log2_q);
    assert!(found >= 128.0 - TOLERANCE, "{name}, {what}: {found} bits by the estimator");
    // Below the largest value in the table.
    assert!(*price <= found + TOLERANCE || found > 256.0, "{name}, {what}: {price}, {found}");
}

/// What parameters publish whatever is asked for.
fn check_params(name: &str, params: &rlwe::Params) {
    for key in params.key_security() {
        check(name, params.log_n(), params.spec().secret, &key);
    }
}

/// Of a request: ephemeral secrets have keys of their own.
fn check_request(name: &str, params: &rlwe::Params, request: &KeyRequest) {
    for key in request.key_security(params).unwrap() {
        let ephemeral = request.raise.filter(|_| key.what.starts_with("key to an ephemeral"));
        let secret =
            ephemeral.map_or(params.spec().secret, |raise| FixedWeight { h: raise.weight });
        check(name, params.log_n(), secret, &key);
    }
}

#[test]
fn keys_of_named_sets_are_secure_by_the_estimator_too() {
    for set in ckks::presets().into_iter().filter(|set| !set.spec.insecure) {
        let params = ckks::Params::new(set.spec).unwrap();
        let rlwe = params.rlwe();
        check_params(&set.name, rlwe);
        let all =
            KeyRequest::new().relinearize(rlwe.top()).rotations(rlwe.log_n(), [1], rlwe.top());
        check_request(&set.name, rlwe, &all);
        check_request(&set.name, rlwe, &all.into_level_keys(rlwe));
    }
}

#[test]
#[ignore = "builds the largest parameters"]
fn keys_of_sets_with_bootstrapping_are_secure_by_the_estimator_too() {
    for set in bootstrap::presets().into_iter().filter(|set| !set.preset.spec.insecure) {
        let params = ckks::Params::new(set.preset.spec.clone()).unwrap();
        for log_slots in [5, set.bootstrap.log_slots] {
            let plan = set.plan(&params, log_slots).unwrap();
            check_request(&set.preset.name, params.rlwe(), plan.required_keys());
        }
    }
}

#[test]
fn keys_of_exact_sets_are_secure_by_the_estimator_too() {
    for set in exact::presets().into_iter().filter(|set| !set.spec.insecure) {
        let params = exact::Params::new(set.spec).unwrap();
        check_params(&set.name, params.rlwe());
    }
}

#[test]
#[ignore = "builds the largest parameters"]
fn keys_of_exact_sets_with_bootstrapping_are_secure_by_the_estimator_too() {
    for set in exact_bootstrap::presets() {
        let params = exact::Params::new(set.preset.spec.clone()).unwrap();
        let plan = set.plan(&params, exact::Params::factor_at).unwrap();
        check_request(&set.preset.name, params.rlwe(), plan.required_keys());
    }
    for set in exact_bootstrap::full::presets() {
        let params = exact::Params::new(set.preset.spec.clone()).unwrap();
        let plan = set.plan(&params, exact::Params::factor_at).unwrap();
        check_request(&set.preset.name, params.rlwe(), plan.required_keys());
    }
}

/// What a key at too high a level is worth: that Lattigo published one until 2025 is why every key
/// has a price of its own.
#[test]
fn a_key_at_too_high_a_level_is_found() {
    let set = bootstrap::preset("n15-boot").unwrap();
    let sizes = &set.preset.spec.q_bits;
    let chain: f64 = sizes.iter().flatten().sum();
    for (h, log2_q) in [(32, chain), (48, set.preset.spec.log2_qp())] {
        let secret = FixedWeight { h };
        assert!(security_bits(15, secret, log2_q) < 128.0);
        assert!(estimated(15, secret, log2_q) < 128.0 - TOLERANCE);
    }
}

/// The model of Meet-LWE, by its script beside the note that quotes it.
#[test]
fn meet_lwe_costs_what_the_note_says() {
    let notes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/notes");
    let script = format!("{notes}/meet_lwe.py");
    let output = Command::new("python3").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let note = std::fs::read_to_string(format!("{notes}/sparse-secrets.md")).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.lines().count() > 6);
    for line in table.lines() {
        assert!(note.lines().any(|other| other == line), "not in the note: {line}");
    }
    // The table of prices claims no more.
    for line in table.lines().skip(2) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = |k: usize| cells[k].trim_start_matches("2^").parse::<f64>().unwrap();
        let log_n = number(1) as u32;
        let h = number(2) as u32;
        let cost = number(4);
        // The key to the ephemeral secret of the sets, 98 bits.
        assert!(security_bits(log_n, FixedWeight { h }, 98.0) <= cost, "{line}");
    }
}
