//! Options of a plan.

use serde::{Deserialize, Serialize};

use super::error::{NnError, Result};

/// Maximum number of samples of a plan.
const MAX_SAMPLES: usize = 1 << 16;
/// Allowed bits of precision.
const PRECISION_BITS: core::ops::RangeInclusive<f64> = 2.0..=30.0;
/// Maximum number of samples that are faster one by one.
const FEW_SAMPLES: usize = 2;

/// Content of the slots of a ciphertext.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// A ciphertext holds one feature of many samples. Layers are sums of ciphertexts times
    /// numbers, without rotations. Time and bytes are the same for any number of samples up to the
    /// number of slots.
    Features,
    /// A ciphertext holds one sample. Layers multiply slots by matrices, using their diagonals.
    Sample,
}

/// Options of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Number of samples that are encrypted together, 1 to 2^16. They may need several runs.
    pub samples: usize,
    /// Content of the slots.
    pub packing: Packing,
    /// `-log2` of the tolerable error by encryption of each activation, as a fraction of its range:
    /// 2 to 30. Classification needs few bits.
    pub precision_bits: f64,
}

impl Options {
    /// Returns the options for the fastest packing of this number of samples, at eight bits.
    #[must_use]
    pub fn for_samples(samples: usize) -> Self {
        let few = samples <= FEW_SAMPLES;
        let packing = if few { Packing::Sample } else { Packing::Features };
        Self { samples, packing, precision_bits: 8.0 }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(1..=MAX_SAMPLES).contains(&self.samples) {
            let what = "samples";
            let needed = format!("1 to {MAX_SAMPLES}");
            return Err(NnError::Shape { what, found: self.samples, needed });
        }
        if !PRECISION_BITS.contains(&self.precision_bits) {
            let least = PRECISION_BITS.start();
            let most = PRECISION_BITS.end();
            let problem = format!(
                "cannot be planned at {} bits of precision: {least} to {most} are possible",
                self.precision_bits
            );
            return Err(NnError::Network { problem });
        }
        Ok(())
    }
}
