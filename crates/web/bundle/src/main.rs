//! Makes the folder of the page: bindings of the module for browsers, the files of the page, and
//! digests of all of them in `index.html`.
//!
//! `sudare-bundle MODULE.wasm OUT FILE…`, where `index.html` is one of the files. There,
//! `sha384-of:NAME` becomes the digest of that file as browsers check it (Subresource Integrity).

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

/// What a place for a digest begins with.
const PLACE: &str = "sha384-of:";
/// The file with the places.
const INDEX: &str = "index.html";

type Result<T> = core::result::Result<T, Box<dyn core::error::Error>>;

fn main() -> ExitCode {
    let args: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [module, out, files @ ..] = &args[..] else {
        eprintln!("sudare-bundle MODULE.wasm OUT FILE…");
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
        let name = file.file_name().ok_or_else(|| format!("{} is no file", file.display()))?;
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

/// The text with digests in their places.
fn filled(text: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<String> {
    let mut parts = text.split(PLACE);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find('"').ok_or("a place of a digest has no end")?;
        let (name, rest) = part.split_at(end);
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no file {name}"));
        let digest = Sha384::digest(files.get(name).ok_or_else(missing)?);
        filled += &format!("sha384-{}{rest}", STANDARD.encode(digest));
    }
    Ok(filled)
}

/// Bytes of a file as servers compress it.
fn compressed(bytes: &[u8]) -> Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}
