//! Fetch by similarity: payloads, or the number, of the records near a query, all encrypted.

use crate::{instance::Instance, no_step};
use std::{fs, path::Path};
use sudare_roles::error::{Error, Result};

/// Names of the sizes.
pub const SIZES: [&str; 4] = ["toy", "small", "medium", "large"];

/// Records and coordinates of a size.
const fn shape(size: usize) -> (usize, usize) {
    match size {
        0 => (1_000, 128),
        1 => (50_000, 128),
        2 => (1_000_000, 256),
        _ => (20_000_000, 512),
    }
}

/// Does a step.
///
/// # Errors
/// [`Error::Usage`] if there is no such step; [`Error::Io`]; [`Error::Parse`] for data of another
/// size.
pub fn run(step: &str, instance: &Instance) -> Result<()> {
    let (rows, dimension) = shape(instance.size);
    match step {
        "client_preprocess_dataset" => {
            expect_numbers(&instance.dataset("db.bin"), rows * dimension)
        }
        "client_preprocess_query" => expect_numbers(&instance.dataset("query.bin"), dimension),
        _ => Err(no_step(step)),
    }
}

/// Refuses a file of another number of 32-bit numbers.
fn expect_numbers(path: &Path, count: usize) -> Result<()> {
    let bytes = fs::metadata(path).map_err(|error| Error::io("read", path, error))?.len();
    if bytes == 4 * count as u64 {
        return Ok(());
    }
    let problem = format!("it has {bytes} bytes, {count} numbers of 4 bytes are needed");
    Err(Error::Parse { path: path.into(), what: "data of this size", problem })
}
