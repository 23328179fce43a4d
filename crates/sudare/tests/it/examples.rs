//! The programs in `examples` do what they say.
#![allow(dead_code, clippy::print_stdout, reason = "examples are programs")]

#[path = "../../examples/bfv_bootstrapping.rs"]
mod bfv_bootstrapping;
#[path = "../../examples/bgv_counts.rs"]
mod bgv_counts;
#[path = "../../examples/bootstrapping.rs"]
mod bootstrapping;
#[path = "../../examples/dot_product.rs"]
mod dot_product;
#[path = "../../examples/encrypt_compute_decrypt.rs"]
mod encrypt_compute_decrypt;
#[path = "../../examples/files.rs"]
mod files;
#[path = "../../examples/integer_slots.rs"]
pub mod integer_slots;
#[path = "../../examples/own_circuit.rs"]
mod own_circuit;
#[path = "../../examples/real_slots.rs"]
mod real_slots;
#[path = "../../examples/sigmoid.rs"]
mod sigmoid;

#[test]
fn the_index_lists_every_example() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let index = std::fs::read_to_string(examples.join("README.md")).unwrap();
    for entry in std::fs::read_dir(examples).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let listed = |program: &str| index.contains(&format!("`{program}`"));
        assert!(name.strip_suffix(".rs").is_none_or(listed), "{name}");
    }
}

#[test]
fn a_server_computes_a_mean_square() {
    let n = 1024.0;
    let expected = (n - 1.0) * (2.0 * n - 1.0) / (6.0 * n * n);
    let found = encrypt_compute_decrypt::run().unwrap();
    assert!((found - expected).abs() < 1e-4, "{found} for {expected}");
}

#[test]
fn a_dot_product_is_found_for_any_length() {
    let found = dot_product::run(&[0.5, -1.0, 2.0], &[4.0, 2.0, -0.5]).unwrap();
    assert!((found + 1.0).abs() < 1e-4, "{found}");
}

#[test]
fn slots_become_their_sigmoids() {
    let arguments = [-7.5, -1.0, 0.25, 8.0];
    for (x, found) in arguments.into_iter().zip(sigmoid::run(&arguments).unwrap()) {
        let expected = sigmoid::sigmoid(x);
        assert!((found - expected).abs() < 2e-4, "{x}: {found} for {expected}");
    }
}

#[test]
fn rows_with_both_marks_are_counted() {
    let left: Vec<bool> = (0..500).map(|row| row % 3 == 0).collect();
    let right: Vec<bool> = (0..500).map(|row| row % 5 < 2).collect();
    let expected = left.iter().zip(&right).filter(|(x, y)| **x && **y).count();
    assert_eq!(bgv_counts::run(&left, &right).unwrap(), expected as i128);
}

#[test]
fn integers_get_new_levels() {
    let found = bfv_bootstrapping::run(&[0, 1, -3, 7]).unwrap();
    // 7^4 is 2401, which is 88 modulo 257.
    assert_eq!(found, [0, 1, 81, 88]);
}

#[test]
fn files_are_all_that_owner_and_server_exchange() {
    let name = format!("files-{}", std::process::id());
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let squares = files::run(&directory, &[1.5, -2.0]).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!((squares[0] - 2.25).abs() < 1e-4 && (squares[1] - 4.0).abs() < 1e-4, "{squares:?}");
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

#[test]
fn slots_of_integers_become_what_operations_say() {
    use integer_slots::{ROTATIONS, T, X, Y, slots};
    let results = integer_slots::run(T, 12).unwrap();
    assert_eq!(results.len(), 5 + ROTATIONS.len());
    let x = slots(X, T, 1 << 12);
    let y = slots(Y, T, 1 << 12);
    let row = x.len() / 2;
    let t = u128::from(T);
    for (op, found) in &results[1..] {
        let expected: Vec<u128> = match op.strip_prefix("rotate ") {
            Some(k) => {
                let k: i64 = k.parse().unwrap();
                let from = |i: usize| (i as i64 + k).rem_euclid(row as i64) as usize;
                (0..x.len()).map(|i| x[i / row * row + from(i % row)]).collect()
            }
            None if op == "swap_rows" => [&x[row..], &x[..row]].concat(),
            None if op == "add" => x.iter().zip(&y).map(|(x, y)| (x + y) % t).collect(),
            None => x.iter().zip(&y).map(|(x, y)| x * y % t).collect(),
        };
        assert_eq!(*found, expected, "{op}");
    }
}

#[test]
fn slots_of_real_numbers_become_what_operations_say() {
    use real_slots::{X, Y, values};
    for (op, found) in real_slots::run().unwrap() {
        let expected = |x: f64, y: f64| match op {
            "encrypted" => x,
            "sum" => x + y,
            "difference" => x - y,
            "product" | "product_plain" => x * y,
            _ => x.powi(4),
        };
        let x = values(X, found.len());
        let y = values(Y, found.len());
        for ((found, x), y) in found.iter().zip(x).zip(y) {
            let expected = expected(x, y);
            assert!((found - expected).abs() < 1e-3, "{op}: {found} for {expected}");
        }
    }
}
