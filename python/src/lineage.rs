//! Lineages of arrays: the programs that computed them.

use crate::op::Op;

/// A digest of the computation behind an array: the operations from inputs of known shapes on, with
/// their plain operands.
///
/// It distinguishes results of a program from other arrays, whose errors have no known bound. Inputs of
/// the same shape have the same lineage, because error bounds hold for all inputs. It is not a proof: the
/// maker of an array's file can write any digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lineage([u8; 32]);

/// An operand, for a lineage.
pub enum Ancestor<'a> {
    /// An array, with its lineage if that is known.
    Array(Option<Lineage>),
    /// Plain numbers.
    Plain {
        /// Elements along each axis.
        shape: &'a [usize],
        /// The elements.
        values: &'a [f64],
    },
}

impl Lineage {
    /// Returns the lineage of an encrypted input.
    pub fn input(shape: &[usize]) -> Self {
        Self::hashed("input", |out| add_shape(out, shape))
    }

    /// Returns the lineage of an operation's result, if the lineages of all operands are known.
    pub fn of<'a>(op: &Op, operands: impl IntoIterator<Item = Ancestor<'a>>) -> Option<Self> {
        let mut known = true;
        let lineage = Self::hashed("operation", |out| {
            // The `Debug` text has all fields of an operation, so different operations differ in
            // it.
            let op = format!("{op:?}");
            // Lengths go first, so that no two computations hash the same bytes.
            out.update(&(op.len() as u64).to_le_bytes()).update(op.as_bytes());
            for operand in operands {
                match operand {
                    Ancestor::Array(Some(Self(digest))) => {
                        out.update(b"array").update(&digest);
                    }
                    Ancestor::Array(None) => known = false,
                    Ancestor::Plain { shape, values } => {
                        out.update(b"plain");
                        add_shape(out, shape);
                        for value in values {
                            out.update(&value.to_bits().to_le_bytes());
                        }
                    }
                }
            }
        });
        known.then_some(lineage)
    }

    /// Returns the digest of the lineage, as the file of an array has it.
    pub fn digest(self) -> [u8; 32] {
        self.0
    }

    /// Reads the result of [`Lineage::digest`].
    pub fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// Returns the digest in hexadecimal.
    pub fn to_hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_string()
    }

    fn hashed(what: &str, add: impl FnOnce(&mut blake3::Hasher)) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("sudare v1 lineage of an array");
        hasher.update(&(what.len() as u64).to_le_bytes()).update(what.as_bytes());
        add(&mut hasher);
        Self(*hasher.finalize().as_bytes())
    }
}

fn add_shape(out: &mut blake3::Hasher, shape: &[usize]) {
    for &size in [shape.len()].iter().chain(shape) {
        out.update(&(size as u64).to_le_bytes());
    }
}
