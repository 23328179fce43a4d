//! Inference of handwritten digits: a network of three layers in the clear, on encrypted images.
//!
//! The network is [`nn::digits`], with squares in place of the reference's `relu`. A single image
//! is packed into one ciphertext. Several images are packed by features, 2,048 images in a run.
//! Images are encrypted under the secret key. The harness calls `server_preprocess_model` without a
//! size; any size works. `run_ml_inference.py` in the directory of this package runs all sizes.

use crate::{
    instance::{Instance, Steps},
    no_step,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    ckks::{Ciphertext, Decryptor, Evaluator, Params, SymmetricEncryptor, serial},
    rlwe::{KeyGenerator, SecretKey},
};
use sudare_apps::nn::{self, NnError, Options, Plan};
use sudare_roles::{
    error::{Error, Result},
    os::files::{self, Access, NewFile},
};

/// Names of the sizes.
pub const SIZES: [&str; 4] = ["single", "small", "medium", "large"];

/// Number of pixels of an image.
const PIXELS: usize = 784;

/// Bits of precision of the activations of many images.
const PRECISION_BITS: f64 = 7.0;

/// Number of images that a run is planned for, one by one or packed.
const MANY: usize = 1 << 16;

/// Runs a step.
///
/// # Errors
/// [`Error::Usage`] for an unknown step; [`Error::Io`]; [`Error::Parse`] for data that are not
/// images; errors from the library.
pub fn run(step: &str, instance: &Instance) -> Result<()> {
    match step {
        "client_key_generation" => generate_keys(instance),
        // Matrices are encoded where they are used, since the server has the whole network.
        "server_preprocess_model" => plan(instance).map(drop),
        "client_preprocess_input" => preprocess(instance),
        "client_encode_encrypt_input" => encrypt(instance),
        "server_encrypted_compute" => compute(instance),
        "client_decrypt_decode" => decrypt(instance),
        "client_postprocess" => postprocess(instance),
        _ => Err(no_step(step)),
    }
}

/// Derives the plan of both sides from public facts.
fn plan(instance: &Instance) -> Result<Plan> {
    let (network, ranges) = nn::digits().map_err(refused)?;
    let options = match instance.size {
        0 => Options::for_samples(1),
        _ => Options { precision_bits: PRECISION_BITS, ..Options::for_samples(MANY) },
    };
    Plan::new(&network, &ranges, options).map_err(refused)
}

fn refused(error: NnError) -> Error {
    match error {
        NnError::Library(error) => error.into(),
        error => Error::Usage(error.to_string()),
    }
}

fn secret_path(instance: &Instance) -> PathBuf {
    instance.io("secret_key").join("secret.key")
}

fn keys_path(instance: &Instance) -> PathBuf {
    instance.io("public_keys").join("evaluation.key")
}

/// Returns the path of the images: consecutive, one byte a pixel.
fn pixels_path(instance: &Instance) -> PathBuf {
    instance.io("intermediate").join("pixels.u8")
}

/// Returns the path of the images' logits, one line each.
fn logits_path(instance: &Instance) -> PathBuf {
    instance.io("intermediate").join("logits.txt")
}

fn batch_path(instance: &Instance, folder: &str, batch: usize) -> PathBuf {
    instance.io(folder).join(format!("{batch}.ct"))
}

/// Writes a file with `write`, whole or not at all.
fn write_file(
    path: &Path,
    access: Access,
    write: impl FnOnce(&mut NewFile) -> sudare::Result<u64>,
) -> Result<()> {
    let mut file = NewFile::create(path, access, true)?;
    write(&mut file)?;
    file.finish()
}

fn generate_keys(instance: &Instance) -> Result<()> {
    let plan = plan(instance)?;
    let params = plan.params();
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let keys = keygen.evaluation_keys(&secret, plan.required_keys())?;
    for folder in ["secret_key", "public_keys"] {
        instance.io_folder(folder)?;
    }
    let label = serial::Label::default();
    write_file(&secret_path(instance), Access::Owner, |file| {
        serial::write_secret_key(file, params, &secret, &label)
    })?;
    write_file(&keys_path(instance), Access::Shared, |file| {
        serial::write_evaluation_keys(file, params, &keys, &label)
    })
}

fn read_secret(instance: &Instance, params: &Params) -> Result<SecretKey> {
    let (file, bytes) = files::open(&secret_path(instance), Access::Owner)?;
    Ok(serial::Reader::new(file, bytes)?.secret_key(params)?)
}

fn preprocess(instance: &Instance) -> Result<()> {
    let path = instance.dataset("intermediate/test_pixels.txt");
    let text = files::read_text(&path, 1 << 30)?;
    let parse =
        |problem: String| Error::Parse { path: path.clone(), what: "file of images", problem };
    let mut bytes = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let before = bytes.len();
        for word in line.split_ascii_whitespace() {
            let pixel = word.parse::<f64>().ok().filter(|pixel| (0.0..=1.0).contains(pixel));
            let pixel = pixel.ok_or_else(|| {
                parse(format!("line {i} has {word:?}; numbers from 0 to 1 are needed"))
            })?;
            bytes.push((255.0 * pixel).round() as u8);
        }
        let found = bytes.len() - before;
        if found != PIXELS {
            return Err(parse(format!("line {i} has {found} pixels, {PIXELS} are needed")));
        }
    }
    instance.io_folder("intermediate")?;
    let path = pixels_path(instance);
    fs::write(&path, bytes).map_err(|error| Error::io("write", &path, error))
}

/// Reads the images as numbers from 0 to 1.
fn images(instance: &Instance) -> Result<Vec<Vec<f64>>> {
    let path = pixels_path(instance);
    let bytes = fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
    let image = |bytes: &[u8]| bytes.iter().map(|&byte| f64::from(byte) / 255.0).collect();
    Ok(bytes.chunks_exact(PIXELS).map(image).collect())
}

fn encrypt(instance: &Instance) -> Result<()> {
    let plan = plan(instance)?;
    let secret = Arc::new(read_secret(instance, plan.params())?);
    let encryptor = SymmetricEncryptor::new(plan.params(), secret)?;
    instance.io_folder("ciphertexts_upload")?;
    for (batch, images) in images(instance)?.chunks(plan.samples_per_run()).enumerate() {
        let images: Vec<&[f64]> = images.iter().map(Vec::as_slice).collect();
        let ciphertexts = plan.encrypt_seeded(&encryptor, &images).map_err(refused)?;
        let path = batch_path(instance, "ciphertexts_upload", batch);
        write_file(&path, Access::Shared, |file| {
            let label = serial::Label::default();
            serial::write_seeded_ciphertexts(file, plan.params(), &ciphertexts, &label)
        })?;
    }
    Ok(())
}

/// Reads the ciphertexts of a batch. Returns `None` after the last batch.
fn read_batch(
    instance: &Instance,
    folder: &str,
    batch: usize,
    params: &Params,
) -> Result<Option<Vec<Ciphertext>>> {
    let path = batch_path(instance, folder, batch);
    if batch > 0 && !path.exists() {
        return Ok(None);
    }
    let (file, bytes) = files::open(&path, Access::Shared)?;
    Ok(Some(serial::Reader::new(file, bytes)?.ciphertexts(params)?))
}

fn compute(instance: &Instance) -> Result<()> {
    let plan = plan(instance)?;
    let params = plan.params();
    let mut steps = Steps::default();
    let (evaluator, prepared) = steps.time("Reading keys, encoding the network", || {
        let (file, bytes) = files::open(&keys_path(instance), Access::Shared)?;
        let keys = serial::Reader::new(file, bytes)?.evaluation_keys(params)?;
        let evaluator = Evaluator::new(params, Arc::new(keys))?;
        let prepared = plan.prepare(&evaluator).map_err(refused)?;
        Ok((evaluator, prepared))
    })?;
    instance.io_folder("ciphertexts_download")?;
    let mut batch = 0;
    while let Some(inputs) = steps.time(&format!("Reading batch {batch}"), || {
        read_batch(instance, "ciphertexts_upload", batch, params)
    })? {
        let results = steps.time(&format!("Computing batch {batch}"), || {
            plan.run(&evaluator, &prepared, &inputs).map_err(refused)
        })?;
        let path = batch_path(instance, "ciphertexts_download", batch);
        write_file(&path, Access::Shared, |file| {
            serial::write_ciphertexts(file, params, &results, &serial::Label::default())
        })?;
        batch += 1;
    }
    steps.write(instance)
}

fn decrypt(instance: &Instance) -> Result<()> {
    let plan = plan(instance)?;
    let decryptor = Decryptor::new(plan.params(), read_secret(instance, plan.params())?)?;
    let path = pixels_path(instance);
    let bytes = fs::metadata(&path).map_err(|error| Error::io("read", &path, error))?.len();
    let mut left = bytes as usize / PIXELS;
    let mut lines = String::new();
    for batch in 0.. {
        let samples = left.min(plan.samples_per_run());
        if samples == 0 {
            break;
        }
        let results = read_batch(instance, "ciphertexts_download", batch, plan.params())?;
        let results = results.unwrap_or_default();
        for logits in plan.decrypt(&decryptor, &results, samples).map_err(refused)? {
            let words: Vec<String> = logits.iter().map(|logit| format!("{logit:.4}")).collect();
            lines += &(words.join(" ") + "\n");
        }
        left -= samples;
    }
    let path = logits_path(instance);
    fs::write(&path, lines).map_err(|error| Error::io("write", &path, error))
}

/// Writes the digit with the largest logit of each image.
fn postprocess(instance: &Instance) -> Result<()> {
    let path = logits_path(instance);
    let text = files::read_text(&path, 1 << 26)?;
    let digit = |line: &str| {
        let logits = line.split(' ').map(|word| word.parse().unwrap_or(f64::NAN));
        let largest = logits.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        largest.map_or(0, |(digit, _)| digit).to_string() + "\n"
    };
    let path = instance.io("encrypted_model_predictions.txt");
    let digits: String = text.lines().map(digit).collect();
    fs::write(&path, digits).map_err(|error| Error::io("write", &path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_data_than_images_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::new(folder.path(), "1", SIZES, &[]).unwrap();
        let pixels = instance.dataset("intermediate/test_pixels.txt");
        fs::create_dir_all(pixels.parent().unwrap()).unwrap();
        for text in ["0 1\n", "0 x\n", "0 2\n", "NaN\n"] {
            fs::write(&pixels, text).unwrap();
            let refused = run("client_preprocess_input", &instance).unwrap_err();
            assert_eq!(refused.kind(), "Parse", "{text}");
        }
        assert_eq!(run("nothing", &instance).unwrap_err().kind(), "Usage");
    }
}
