//! What to plan for.

use serde::{Deserialize, Serialize};

use super::error::{NnError, Result};

/// The most samples of a plan.
const MAX_SAMPLES: usize = 1 << 16;
/// Bits of precision that can be asked for.
const PRECISION_BITS: core::ops::RangeInclusive<f64> = 2.0..=30.0;
/// So many samples take less time one by one.
const FEW_SAMPLES: usize = 2;

/// What slots hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// A ciphertext holds one feature of many samples. Layers are sums of ciphertexts times numbers,
    /// without rotations: time and bytes are the same for one sample and for as many as there are
    /// slots.
    Features,
    /// A ciphertext holds one sample. Layers are products of matrices with slots by diagonals.
    Sample,
}

/// What to plan for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Samples that are encrypted together, 1 to 2^16; they may take several runs.
    pub samples: usize,
    /// What slots hold.
    pub packing: Packing,
    /// `-log2` of the tolerable error of each activation by encryption, as a part of its range, 2
    /// to 30. To classify takes few bits.
    pub precision_bits: f64,
}

impl Options {
    /// The packing of least time for so many samples, at eight bits.
    #[must_use]
    pub fn for_samples(samples: usize) -> Self {
        let few = samples <= FEW_SAMPLES;
        let packing = if few { Packing::Sample } else { Packing::Features };
        Self { samples, packing, precision_bits: 8.0 }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(1..=MAX_SAMPLES).contains(&self.samples) {
            let (what, needed) = ("samples", format!("1 to {MAX_SAMPLES}"));
            return Err(NnError::Shape { what, found: self.samples, needed });
        }
        if !PRECISION_BITS.contains(&self.precision_bits) {
            let (least, most) = (PRECISION_BITS.start(), PRECISION_BITS.end());
            let problem = format!(
                "is to be planned at {} bits of precision: {least} to {most} are possible",
                self.precision_bits
            );
            return Err(NnError::Network { problem });
        }
        Ok(())
    }
}
