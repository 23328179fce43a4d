//! Creates the directory of the page: bindings of the module for browsers, the files of the page,
//! and the digests of all files in `index.html`.
//!
//! Usage: `sudare-bundle MODULE.wasm OUT FILE…`, where one of the files is `index.html`. There,
//! `sha384-of:NAME` is replaced by the digest of that file in the form that browsers check
//! (Subresource Integrity).

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha384};
use std::{
    collections::BTreeMap,
    env, fs,
    io::{Error, ErrorKind, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};
use wasm_bindgen_cli_support::Bindgen;

/// Prefix of a placeholder for a digest.
const PLACE: &str = "sha384-of:";
/// The file with the placeholders.
const INDEX: &str = "index.html";

type Result<T> = core::result::Result<T, Box<dyn core::error::Error>>;

fn main() -> ExitCode {
    let args: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [module, out, files @ ..] = &args[..] else {
        eprintln!("usage: sudare-bundle MODULE.wasm OUT FILE…");
        return ExitCode::FAILURE;
    };
    match bundle(module, out, files) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bundle(module: &Path, out: &Path, files: &[PathBuf]) -> Result<()> {
    if out.exists() {
        fs::remove_dir_all(out)?;
    }
    fs::create_dir_all(out)?;
    let mut bindings = Bindgen::new();
    bindings.input_path(module).web(true)?.typescript(false).omit_default_module_path(true);
    bindings.remove_name_section(true).remove_producers_section(true);
    bindings.generate(out)?;
    for file in files {
        let name =
            file.file_name().ok_or_else(|| format!("{} has no file name", file.display()))?;
        fs::copy(file, out.join(name))?;
    }
    let mut contents = BTreeMap::new();
    for entry in fs::read_dir(out)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        contents.insert(name, fs::read(&path)?);
    }
    let index = contents.remove(INDEX).ok_or_else(|| format!("there is no {INDEX}"))?;
    let filled = filled(&String::from_utf8(index)?, &contents)?;
    fs::write(out.join(INDEX), filled)?;
    for (name, bytes) in &contents {
        println!("{name}: {} bytes, {} compressed", bytes.len(), compressed(bytes)?);
    }
    Ok(())
}

/// Replaces the placeholders of a text by digests.
fn filled(text: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<String> {
    let mut parts = text.split(PLACE);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find('"').ok_or("a placeholder for a digest has no closing quote")?;
        let (name, rest) = part.split_at(end);
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no file {name}"));
        let digest = Sha384::digest(files.get(name).ok_or_else(missing)?);
        filled += &format!("sha384-{}{rest}", STANDARD.encode(digest));
    }
    Ok(filled)
}

/// Returns the compressed size of a file, as a server would send it.
fn compressed(bytes: &[u8]) -> Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}
