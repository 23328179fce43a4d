//! Runs one image and several images through the executable that a harness runs, and compares with
//! the network in the clear.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use std::{fs, path::Path, process::Command};
use sudare_apps::nn::{self, Options, Plan};

fn step(root: &Path, name: &str, size: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sudare-suite"));
    command.current_dir(root).args(["ml-inference", name, size]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns an image of strokes.
fn image(number: usize) -> Vec<f64> {
    let inside = |i: usize| {
        let row = i / 28;
        let column = i % 28;
        (6..22).contains(&row) && (row + number * column) % 13 < 2 && (8..20).contains(&column)
    };
    (0..28 * 28).map(|i| if inside(i) { 0.8 } else { 0.0 }).collect()
}

fn steps_agree_with_the_network((size, name): (&str, &str), count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let data = root.join("datasets").join(name).join("intermediate");
    fs::create_dir_all(&data).unwrap();
    let images: Vec<Vec<f64>> = (0..count).map(image).collect();
    let line = |image: &Vec<f64>| {
        let words: Vec<String> = image.iter().map(|pixel| format!("{pixel:.6}")).collect();
        words.join(" ") + "\n"
    };
    fs::write(data.join("test_pixels.txt"), images.iter().map(line).collect::<String>()).unwrap();
    for name in [
        "client_key_generation",
        "server_preprocess_model",
        "client_preprocess_input",
        "client_encode_encrypt_input",
        "server_encrypted_compute",
        "client_decrypt_decode",
        "client_postprocess",
    ] {
        step(root, name, size);
    }
    let (network, ranges) = nn::digits().unwrap();
    let io = root.join("io").join(name);
    let logits = fs::read_to_string(io.join("intermediate/logits.txt")).unwrap();
    let digits = fs::read_to_string(io.join("encrypted_model_predictions.txt")).unwrap();
    assert_eq!((logits.lines().count(), digits.lines().count()), (count, count));
    let plan = Plan::new(&network, &ranges, Options::for_samples(count)).unwrap();
    // Activations have seven bits of precision for many images, and more than eight for one.
    let bound = 10.0 * plan.error();
    for ((image, line), digit) in images.iter().zip(logits.lines()).zip(digits.lines()) {
        let expected = network.forward(image).unwrap();
        let found: Vec<f64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        assert_eq!(found.len(), 10);
        for (x, y) in found.iter().zip(&expected) {
            assert!((x - y).abs() < bound, "{x} {y} {bound}");
        }
        let most = found.iter().copied().fold(f64::MIN, f64::max);
        assert_eq!(found[digit.parse::<usize>().unwrap()], most);
    }
}

#[test]
fn one_image_is_classified() {
    steps_agree_with_the_network(("0", "single"), 1);
}

#[test]
fn some_images_are_classified() {
    steps_agree_with_the_network(("1", "small"), 7);
}
