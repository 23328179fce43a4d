//! Files of keys and ciphertexts. `docs/file-format.md` describes the format.
//!
//! Every file names its parameters and its key. Uniform halves of keys are stored as their public
//! seeds. On request, so are uniform halves of encryptions under the secret key. Checksums detect
//! damage but do not prevent anyone from writing another valid file, so a file is as trustworthy as
//! its source. Reading checks every length, number and residue before it is used.
//!
//! ```
//! use sudare::{ckks::{Params, Spec, serial}, rlwe::KeyGenerator};
//!
//! # fn main() -> sudare::Result<()> {
//! let params = Params::new(Spec { insecure: true, ..Spec::uniform(10, 40.0, 1, 30.0, vec![40.0]) })?;
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = keygen.public_key(&secret)?;
//!
//! let mut file = Vec::new();
//! let bytes = serial::write_public_key(&mut file, &params, &public, &serial::Label::default())?;
//!
//! let reader = serial::Reader::new(&file[..], bytes)?;
//! assert_eq!(reader.info().key_id, secret.id());
//! let params = reader.params()?;
//! let public = reader.public_key(&params)?;
//! assert_eq!(public.id(), secret.id());
//! # Ok(())
//! # }
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub use super::rules::Form as Shape;
use super::{Ciphertext, Params, Scale, Spec, params::check_sizes, rules::Form};
pub use crate::rlwe::serial::{
    FORMAT_VERSION, Kind, Label, evaluation_keys_bytes, generate_evaluation_keys,
    write_ciphertexts, write_evaluation_keys, write_public_key, write_secret_key,
    write_seeded_ciphertexts,
};
use crate::{
    Error, Result,
    rlwe::{
        self, Level,
        serial::{self, PrimeCounts, Scheme},
    },
};
use std::io::{Read, Seek};

/// Information in a file's header.
pub type Info = serial::Info<Spec>;
/// A file whose header was read.
pub type Reader<R> = serial::Reader<R, Params>;
/// The ciphertexts of a file. Each is read and checked on request.
pub type CiphertextReader<R> = serial::CiphertextReader<R, Params>;
/// Writes ciphertexts of one key one after the other, without storing them.
pub type CiphertextWriter<'a, W> = serial::CiphertextWriter<'a, W, Params>;

/// Computes the digest of a whole file of keys or ciphertexts from its checksums, without reading
/// the content. Files with the same digest have the same content, unless reading them detects
/// damage.
///
/// # Errors
/// See [`Reader::new`].
pub fn digest(input: impl Read + Seek, file_bytes: u64) -> Result<[u8; 32]> {
    serial::digest::<Params>(input, file_bytes)
}

impl Scheme for Params {
    const CODE: u16 = 1;
    const NAME: &'static str = "CKKS";

    type Spec = Spec;
    type Ciphertext = Ciphertext;
    type Form = Form;
    /// The scale, and `log2` of the slots.
    type Meta = (Scale, u32);
    type Known = ();

    fn count_primes(spec: &Spec) -> Result<PrimeCounts> {
        check_sizes(spec)?;
        let counts = PrimeCounts::new(spec.log_n, &spec.q_bits, spec.p_bits.len());
        Ok(counts.with_upper(spec.upper.as_ref()).with_others(spec.extra_p_bits.len()))
    }

    fn from_spec(spec: Spec) -> Result<Self> {
        Self::new(spec)
    }

    fn to_spec(&self) -> Spec {
        self.spec().clone()
    }

    fn form(a: &Ciphertext) -> Form {
        a.form()
    }

    fn described(form: Form) -> (Level, Self::Meta) {
        (form.level, (form.scale, form.log_slots))
    }

    fn checked_form(
        &self,
        level: Level,
        (scale, log_slots): Self::Meta,
        (): &mut (),
    ) -> Result<Form> {
        let malformed = |problem: String| Err(Error::Malformed { what: "ciphertext", problem });
        if !scale.is_valid() {
            return malformed("its scale is not a positive number".into());
        }
        if log_slots >= self.log_n() {
            let slots = self.max_slots();
            return malformed(format!("it has 2^{log_slots} slots, its parameters {slots}"));
        }
        Ok(Form { level, scale, log_slots })
    }

    fn ciphertext(inner: rlwe::Ciphertext, form: Form) -> Ciphertext {
        Ciphertext::new(inner, form)
    }
}
