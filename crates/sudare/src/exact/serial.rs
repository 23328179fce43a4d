//! Files of keys and ciphertexts. `docs/file-format.md` describes the frame that all schemes share.
//!
//! Every file names its parameters and its key. Uniform halves of keys are stored as their public
//! seeds. On request, so are uniform halves of encryptions under the secret key. The header lists
//! each ciphertext's plaintext modulus, factor and error bound, so operations rejected for the
//! error before writing are rejected after reading. Checksums detect damage but do not prevent
//! anyone from writing another valid file, so a file is as trustworthy as its source. Reading
//! checks every length, number and residue before it is used.
//!
//! ```
//! use sudare::{exact::{Params, preset, serial}, rlwe::KeyGenerator};
//!
//! # fn main() -> sudare::Result<()> {
//! let params = Params::preset("toy-n8")?;
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = keygen.public_key(&secret)?;
//!
//! let mut file = Vec::new();
//! let bytes = serial::write_public_key(&mut file, &params, &public, &serial::Label::default())?;
//!
//! let reader = serial::Reader::new(&file[..], bytes)?;
//! let params = reader.params()?;
//! assert_eq!(reader.public_key(&params)?.id(), secret.id());
//! # Ok(())
//! # }
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::{Ciphertext, Form, Modulus, NoiseBound, Params, Spec, Unit, params::check_sizes};
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
use std::{
    collections::BTreeMap,
    io::{Read, Seek},
};

/// Information in a file's header.
pub type Info = serial::Info<Spec>;
/// A file whose header was read.
pub type Reader<R> = serial::Reader<R, Params>;
/// The ciphertexts of a file. Each is read and checked on request.
pub type CiphertextReader<R> = serial::CiphertextReader<R, Params>;
/// Writes ciphertexts of one key one after the other, without storing them.
pub type CiphertextWriter<'a, W> = serial::CiphertextWriter<'a, W, Params>;

/// Computes the digest of a whole file of keys or ciphertexts from its checksums, without reading
/// the content.
///
/// # Errors
/// See [`Reader::new`].
pub fn digest(input: impl Read + Seek, file_bytes: u64) -> Result<[u8; 32]> {
    serial::digest::<Params>(input, file_bytes)
}

/// Plaintext moduli by prime and exponent. Each is tested for a prime once.
#[derive(Debug, Default)]
pub struct Moduli(BTreeMap<(u64, u32), Modulus>);

impl Moduli {
    fn get(&mut self, params: &Params, power: (u64, u32)) -> Result<Modulus> {
        // Known to be the power of a prime since the parameters were made.
        if power == params.plaintext_modulus().into() {
            return Ok(params.plaintext_modulus());
        }
        if let Some(&known) = self.0.get(&power) {
            return Ok(known);
        }
        let modulus = Modulus::new(power.0, power.1)?;
        self.0.insert(power, modulus);
        Ok(modulus)
    }
}

impl Scheme for Params {
    const CODE: u16 = 2;
    const NAME: &'static str = "BGV or BFV";

    type Spec = Spec;
    type Ciphertext = Ciphertext;
    type Form = Form;
    /// The prime and the exponent of the plaintext modulus, the factor, and the bound of the error.
    type Meta = ((u64, u32), u128, NoiseBound);
    type Known = Moduli;

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
        (form.level, (form.factor.modulus().into(), form.factor.value(), form.noise))
    }

    fn checked_form(
        &self,
        level: Level,
        (power, factor, noise): Self::Meta,
        moduli: &mut Moduli,
    ) -> Result<Form> {
        let modulus = moduli.get(self, power)?;
        self.check_modulus(modulus)?;
        if factor >= modulus.value() || !noise.is_valid() {
            let problem = "its factor or the bound of its error is out of range".into();
            return Err(Error::Malformed { what: "ciphertext", problem });
        }
        Ok(Form { level, factor: Unit::new(factor, modulus)?, noise })
    }

    fn ciphertext(inner: rlwe::Ciphertext, form: Form) -> Ciphertext {
        Ciphertext::new(inner, form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exact::{
            Decryptor, Encryptor, Evaluator, SymmetricEncryptor,
            tests::{Session, chain, modulus, mul},
        },
        rlwe::{KeyGenerator, KeyRequest, Raise},
    };
    use std::{collections::BTreeSet, io::Cursor, sync::Arc};
    use sudare_arith::{mem::Mapping, prng::Seed};

    fn open(file: &[u8]) -> Reader<&[u8]> {
        Reader::new(file, file.len() as u64).unwrap()
    }

    /// Everything goes through files. Operations rejected before are rejected after.
    #[test]
    fn keys_and_ciphertexts_survive_a_round_trip() {
        let t = modulus(257, 1);
        let mut session = Session::new(chain(5, t, 2), 51);
        let params = session.params.clone();
        let label = Label::default();
        let public = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([9; 32]))
            .public_key(&session.secret)
            .unwrap();
        let a = session.random(t);
        let b = session.random(modulus(127, 2));
        let items = [session.encrypt(&a), session.encrypt(&b)];
        let items = [items[0].clone(), session.evaluator.rescale(&items[1]).unwrap()];
        let mut files: [Vec<u8>; 4] = Default::default();
        let [secret, open_key, keys, ciphertexts] = &mut files;
        let written = [
            write_secret_key(secret, &params, &session.secret, &label).unwrap(),
            write_public_key(open_key, &params, &public, &label).unwrap(),
            write_evaluation_keys(keys, &params, &session.keys, &label).unwrap(),
            write_ciphertexts(ciphertexts, &params, &items, &label).unwrap(),
        ];
        assert_eq!(written, files.each_ref().map(|file| file.len() as u64));

        let params = open(&files[3]).params().unwrap();
        assert_eq!(open(&files[3]).info().spec, *session.params.spec());
        let secret = open(&files[0]).secret_key(&params).unwrap();
        let decryptor = Decryptor::new(&params, Arc::new(secret)).unwrap();
        let public = open(&files[1]).public_key(&params).unwrap();
        let encryptor = Encryptor::new(&params, Arc::new(public)).unwrap();
        let keys = open(&files[2]).evaluation_keys(&params).unwrap();
        let evaluator = Evaluator::new(&params, Arc::new(keys)).unwrap();
        let read = open(&files[3]).ciphertexts(&params).unwrap();
        for (read, (item, plain)) in read.iter().zip(items.iter().zip([&a, &b])) {
            assert_eq!(read.form(), item.form());
            assert_eq!(decryptor.decrypt(read).unwrap(), *plain);
        }
        let fresh = encryptor.encrypt(&a).unwrap();
        let product = evaluator.mul(&fresh, &read[0]).unwrap();
        assert_eq!(decryptor.decrypt(&product).unwrap(), mul(&a, &a));
        let digest = |file: &[u8]| digest(Cursor::new(file), file.len() as u64).unwrap();
        let digests: BTreeSet<_> = files.iter().map(|file| digest(file)).collect();
        assert_eq!(digests.len(), files.len());
        assert_eq!(digest(&files[3].clone()), digest(&files[3]));
        let wrong = open(&files[1]).ciphertexts(&params);
        assert!(matches!(wrong, Err(Error::WrongKind { .. })));
        let none = write_ciphertexts(&mut Vec::new(), &params, &[], &label);
        assert!(matches!(none, Err(Error::InvalidSpec { field: "ciphertexts", .. })));
    }

    #[test]
    fn metadata_out_of_range_is_refused() {
        let t = modulus(257, 1);
        let mut session = Session::new(chain(5, t, 1), 52);
        let a = session.random(t);
        let a = session.encrypt(&a);
        let (level, (power, factor, noise)) = Params::described(a.form());
        let checked = |power, factor| {
            session.params.checked_form(level, (power, factor, noise), &mut Moduli::default())
        };
        assert_eq!(checked(power, factor), Ok(a.form()));
        let prime = session.params.rlwe().spec().q[0][0];
        for (power, factor) in [((257, 1), 257), ((257, 1), 0), ((257, 2), 514), ((prime, 1), 1)] {
            assert!(checked(power, factor).is_err(), "{power:?} {factor}");
        }
        let primes = "251 or 257".into();
        let not_prime = Error::PlaintextModulusNotPrime { found: 255, primes };
        assert_eq!(checked((255, 1), 1), Err(not_prime));
        assert!(matches!(checked((2, 125), 1), Err(Error::PlaintextModulusOutOfRange { .. })));
        for (at, wrong) in [(0, f64::NAN), (1, f64::INFINITY), (2, f64::NEG_INFINITY)] {
            let mut logarithms = [20.0, 22.0, 24.0];
            logarithms[at] = wrong;
            let noise = postcard::from_bytes(&logarithms.map(f64::to_le_bytes).concat()).unwrap();
            let meta = (power, factor, noise);
            let found = session.params.checked_form(level, meta, &mut Moduli::default());
            assert!(matches!(found, Err(Error::Malformed { .. })), "{found:?}");
        }
    }

    /// Keys that raise ciphertexts store their divisor.
    #[test]
    fn keys_that_divide_come_back() {
        let raise = Raise::to(Level(1)).with_weight(8).with_divisor(257 * 257);
        let spec = chain(5, modulus(257, 1), 2);
        let session = Session::with_keys(spec, 56, &KeyRequest::new().raise(raise));
        let mut file = Vec::new();
        write_evaluation_keys(&mut file, &session.params, &session.keys, &Label::default())
            .unwrap();
        let read = open(&file).evaluation_keys(&session.params).unwrap();
        assert_eq!(read.fulfils().raise, Some(raise));
        assert_eq!(read.fulfils(), session.keys.fulfils());
    }

    /// A modulus of many ciphertexts is tested for a prime once, and the modulus of the parameters
    /// never.
    #[test]
    fn moduli_are_tested_once() {
        let t = modulus(257, 1);
        let session = Session::new(chain(5, t, 1), 54);
        let mut moduli = Moduli::default();
        for _ in 0..3 {
            for other in [t, modulus(257, 2), modulus(127, 3)] {
                assert_eq!(moduli.get(&session.params, other.into()), Ok(other));
            }
        }
        assert_eq!(moduli.0.len(), 2);
    }

    /// Ciphertexts of several moduli, one by one, in any order.
    #[test]
    fn ciphertexts_are_read_when_they_are_asked_for() {
        let t = modulus(257, 1);
        let other = modulus(127, 2);
        let mut session = Session::new(chain(5, t, 2), 55);
        let plain = [t, other, t].map(|t| session.random(t));
        let items = plain.each_ref().map(|plain| session.encrypt(plain));
        let params = session.params.clone();
        let label = Label::default();
        let mut file = Vec::new();
        let forms: Vec<Form> = items.iter().map(Ciphertext::form).collect();
        let key = items[0].key_id();
        let mut writer =
            CiphertextWriter::new(&mut file, &params, key, forms.clone(), &label).unwrap();
        items.iter().for_each(|item| writer.write(item).unwrap());
        assert!(writer.write(&items[0]).is_err());
        let bytes = writer.finish().unwrap();
        let reader = Reader::new(Cursor::new(&file), bytes).unwrap();
        let mut reader = reader.into_ciphertexts(&params).unwrap();
        assert_eq!(reader.shapes(), forms);
        let decryptor = Decryptor::new(&params, session.secret.clone()).unwrap();
        for k in [2, 0, 1] {
            let read = reader.read(k..k + 1).unwrap();
            assert_eq!(decryptor.decrypt(&read[0]).unwrap(), plain[k]);
        }
        assert!(matches!(reader.read(2..4), Err(Error::Malformed { .. })));
        let digest = |file: &[u8]| digest(Cursor::new(file), file.len() as u64).unwrap();
        let mut again = Vec::new();
        write_ciphertexts(&mut again, &params, &items, &label).unwrap();
        assert_eq!(digest(&file), digest(&again));
        let request = session.keys.fulfils();
        let predicted = evaluation_keys_bytes(&params, &request, &label);
        let mut keys = Vec::new();
        assert_eq!(predicted, write_evaluation_keys(&mut keys, &params, &session.keys, &label));
        let mapped = Reader::shared(Mapping::shared(keys)).unwrap();
        let keys = Arc::new(mapped.evaluation_keys(&params).unwrap());
        let evaluator = Evaluator::new(&params, keys).unwrap();
        let square = evaluator.mul(&items[0], &items[2]).unwrap();
        assert_eq!(decryptor.decrypt(&square).unwrap(), mul(&plain[0], &plain[2]));
    }

    /// Encryptions under the secret key need half the bytes and are read like any other ciphertext.
    #[test]
    fn seeds_stand_for_uniform_halves() {
        let t = modulus(257, 1);
        let mut session = Session::new(chain(5, t, 2), 56);
        let params = session.params.clone();
        let label = Label::default();
        let plain = session.random(t);
        let other = session.random(modulus(127, 2));
        let encryptor = SymmetricEncryptor::new(&params, session.secret.clone()).unwrap();
        let items = [&plain, &other].map(|plain| encryptor.encrypt_seeded(plain).unwrap());
        let mut seeded = Vec::new();
        let mut whole = Vec::new();
        write_seeded_ciphertexts(&mut seeded, &params, &items, &label).unwrap();
        let items = items.map(crate::rlwe::Seeded::into_ciphertext);
        write_ciphertexts(&mut whole, &params, &items, &label).unwrap();
        // Except for the seeds and their entries in the header.
        let saved = (whole.len() - seeded.len()) as u64;
        let halves = 2 * params.rlwe().basis().packed_bytes(params.rlwe().limbs(params.top()));
        assert!(saved.abs_diff(halves) <= 2 * 64, "{saved} of {halves}");
        let decryptor = Decryptor::new(&params, session.secret.clone()).unwrap();
        let read = open(&seeded).ciphertexts(&params).unwrap();
        for (read, (item, plain)) in read.iter().zip(items.iter().zip([&plain, &other])) {
            assert_eq!(read.form(), item.form());
            assert_eq!(decryptor.decrypt(read).unwrap(), *plain);
        }
        let form = items[0].form();
        let of = |seed| {
            let seed = Seed::from_bytes([seed; 32]);
            let both = [
                encryptor.encrypt_with(&plain, form.level, form.factor, &seed).unwrap(),
                encryptor
                    .encrypt_seeded_with(&plain, form.level, form.factor, &seed)
                    .unwrap()
                    .into_ciphertext(),
            ];
            both.map(|item| {
                let mut file = Vec::new();
                write_ciphertexts(&mut file, &params, &[item], &label).unwrap();
                file
            })
        };
        let [plain_file, seeded_file] = of(1);
        assert!(plain_file == seeded_file && plain_file != of(2)[0]);
    }

    #[test]
    fn every_changed_bit_of_exact_ciphertexts_is_refused() {
        let t = modulus(257, 1);
        let mut session = Session::new(chain(5, t, 1), 53);
        let a = session.random(t);
        let items = [session.encrypt(&a)];
        let params = session.params.clone();
        let mut file = Vec::new();
        write_ciphertexts(&mut file, &params, &items, &Label::default()).unwrap();
        let refused = |file: &[u8]| {
            let reader = Reader::new(file, file.len() as u64);
            reader.and_then(|reader| reader.ciphertexts(&params)).is_err()
        };
        assert!(!refused(&file));
        assert!((0..8 * file.len()).all(|bit| {
            let mut file = file.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            refused(&file)
        }));
        assert!((0..file.len()).all(|length| refused(&file[..length])));
        // The scheme of the file. Readers of other schemes reject it.
        assert_eq!(file[12..14], [2, 0]);
    }
}
