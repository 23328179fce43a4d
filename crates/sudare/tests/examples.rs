//! The programs in `examples` do what they say.
#![allow(dead_code, clippy::print_stdout, reason = "examples are programs")]

#[path = "../examples/bootstrapping.rs"]
mod bootstrapping;
#[path = "../examples/encrypt_compute_decrypt.rs"]
mod encrypt_compute_decrypt;
#[path = "../examples/own_circuit.rs"]
mod own_circuit;

#[test]
fn a_server_computes_a_mean_square() {
    let n = 1024.0;
    let expected = (n - 1.0) * (2.0 * n - 1.0) / (6.0 * n * n);
    let found = encrypt_compute_decrypt::run().unwrap();
    assert!((found - expected).abs() < 1e-4, "{found} for {expected}");
}

#[test]
fn a_circuit_is_the_same_encrypted_and_in_the_clear() {
    for ((found, simulated), x) in
        own_circuit::run().unwrap().into_iter().zip([-0.9, -0.4, 0.1, 0.7])
    {
        let x: f64 = x;
        let expected = x * (3.0 - x * x) / 2.0;
        assert!((found - expected).abs() < 1e-5, "{found} for {expected}");
        assert!((simulated - expected).abs() < 1e-12, "{simulated} for {expected}");
    }
}

#[test]
fn a_ciphertext_gets_new_levels() {
    let (error, levels) = bootstrapping::run().unwrap();
    assert!(error < 2f64.powi(-15) && levels == 4, "{error}, {levels}");
}
