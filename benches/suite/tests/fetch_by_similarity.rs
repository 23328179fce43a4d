//! Runs the toy size through the executable that a harness runs, on generated data, and verifies
//! the result.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use std::{fs, path::Path, process::Command};
use sudare_arith::prng::{Seed, Stream};

const ROWS: usize = 1000;
const DIMENSION: usize = 128;

fn step(root: &Path, name: &str, options: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sudare-suite"));
    command.current_dir(root).args(["fetch-by-similarity", name, "0"]).args(options);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns a random direction. Sums of uniform numbers are close enough to normal.
fn direction(stream: &mut Stream) -> Vec<f64> {
    let mut uniform = || stream.next_u64() as f64 / u64::MAX as f64 - 0.5;
    let vector: Vec<f64> = (0..DIMENSION).map(|_| (0..6).map(|_| uniform()).sum::<f64>()).collect();
    unit(&vector)
}

fn unit(vector: &[f64]) -> Vec<f64> {
    let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.iter().map(|x| x / norm).collect()
}

/// Returns a vector near a center.
fn near(center: &[f64], stream: &mut Stream) -> Vec<f64> {
    let noise = direction(stream);
    unit(&center.iter().zip(noise).map(|(c, x)| c + 0.3 * x).collect::<Vec<_>>())
}

fn floats(vectors: &[Vec<f64>]) -> Vec<u8> {
    vectors.iter().flatten().flat_map(|&x| (x as f32).to_le_bytes()).collect()
}

/// Returns the sorted payloads of the matching records.
fn expected(vectors: &[Vec<f64>], payloads: &[[u16; 7]], query: &[f64]) -> Vec<[u16; 7]> {
    let similarity = |v: &[f64]| v.iter().zip(query).map(|(a, b)| a * b).sum::<f64>();
    let pairs = vectors.iter().zip(payloads);
    let mut found: Vec<_> =
        pairs.filter(|(v, _)| similarity(v) > 0.8).map(|(_, &payload)| payload).collect();
    found.sort_unstable();
    found
}

#[test]
fn the_toy_size_is_fetched_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let data = root.join("datasets/toy");
    fs::create_dir_all(&data).unwrap();
    let mut stream = Stream::new(&Seed::from_bytes([3; 32]), "suite", 0);
    let centers: Vec<_> = (0..ROWS / 32).map(|_| direction(&mut stream)).collect();
    let vectors: Vec<_> = (0..ROWS)
        .map(|row| match row % 2 {
            0 => direction(&mut stream),
            _ => near(&centers[row / 2 % centers.len()], &mut stream),
        })
        .collect();
    let payloads: Vec<[u16; 7]> =
        (0..ROWS).map(|_| [(); 7].map(|()| (stream.next_u64() % 512) as u16)).collect();
    fs::write(data.join("db.bin"), floats(&vectors)).unwrap();
    let bytes: Vec<u8> = payloads.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(data.join("payloads.bin"), bytes).unwrap();

    let near_center = near(&centers[5], &mut stream);
    let queries = [near_center, direction(&mut stream)];
    for options in [&[][..], &["--count_only", "--seed", "7"]] {
        for name in [
            "client_preprocess_dataset",
            "client_key_generation",
            "client_encode_encrypt_db",
            "server_preprocess_dataset",
        ] {
            step(root, name, options);
        }
        for (i, query) in queries.iter().enumerate() {
            fs::write(data.join("query.bin"), floats(std::slice::from_ref(query))).unwrap();
            for name in [
                "client_preprocess_query",
                "client_encode_encrypt_query",
                "server_encrypted_compute",
                "client_decrypt_decode",
                "client_postprocess",
            ] {
                step(root, name, options);
            }
            let found = fs::read(root.join("io/toy/results.bin")).unwrap();
            let payloads = expected(&vectors, &payloads, query);
            assert_eq!(payloads.is_empty(), i == 1);
            let bytes: Vec<u8> = match options {
                [] => payloads.iter().flatten().flat_map(|x| x.to_le_bytes()).collect(),
                _ => (payloads.len() as u64).to_le_bytes().to_vec(),
            };
            assert_eq!(found, bytes, "query {i}, {options:?}");
        }
        let steps = fs::read_to_string(root.join("io/toy/server_reported_steps.json")).unwrap();
        assert!(steps.contains("Encrypted computation"), "{steps}");
        fs::remove_dir_all(root.join("io")).unwrap();
    }
}
