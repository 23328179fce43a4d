//! Notes: bytes in the slots of ciphertexts.
//!
//! Some facts about a table, such as column names, must stay with its owner and hidden from the
//! server. They travel encrypted under the same key. Each slot holds a byte, and a header holds the
//! length and a checksum. A note is therefore read back whole or not at all.

use crate::{Error, Result, Slots};
use sudare::{
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Params, Scale},
    rlwe::Level,
};
use sudare_arith::real;

/// Maximum length of a note, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// Bytes of the length, in little-endian order.
const LENGTH_BYTES: usize = 4;
/// Bytes of the checksum: the first ones of the BLAKE3 hash of the note.
const CHECKSUM_BYTES: usize = 12;
const HEADER_BYTES: usize = LENGTH_BYTES + CHECKSUM_BYTES;

/// Divisor of a byte in a slot: slots are in `[0, 1)`.
const BYTE_RANGE: f64 = 256.0;

/// Maximum `log2` of the scale. Up to it, encoding is exact in double precision.
const MAX_LOG2_SCALE: f64 = 45.0;

/// Packs the bytes of a note into the slots of ciphertexts at level 0.
///
/// All slots are used, so the number of ciphertexts tells only the length rounded up to a multiple
/// of `N / 2`.
///
/// # Errors
/// [`Error::NoteTooLong`] for more than [`MAX_BYTES`]; [`Error::Precision`] if the modulus at level
/// 0 is too small to tell bytes from each other.
pub fn pack(params: &Params, bytes: &[u8]) -> Result<Vec<Slots>> {
    let found = bytes.len();
    let length = u32::try_from(found).ok().filter(|_| found <= MAX_BYTES);
    let length = length.ok_or(Error::NoteTooLong { found, max: MAX_BYTES })?;
    let scale = scale(params)?;
    let mut message = length.to_le_bytes().to_vec();
    message.extend(checksum(bytes));
    message.extend(bytes);
    let parts = message.chunks(params.max_slots()).map(|part| {
        let mut slots: Vec<f64> = part.iter().map(|&b| f64::from(b) / BYTE_RANGE).collect();
        slots.resize(params.max_slots(), 0.0);
        (slots, Level(0), scale)
    });
    Ok(parts.collect())
}

/// Encrypts bytes in the slots that [`pack`] makes.
///
/// # Errors
/// The errors of [`pack`]; [`Error::Library`] if the encryptor has other parameters.
pub fn encrypt(encryptor: &Encryptor, params: &Params, bytes: &[u8]) -> Result<Vec<Ciphertext>> {
    let encoder = Encoder::new(params);
    let encrypt = |(slots, level, scale): Slots| {
        Ok(encryptor.encrypt(&encoder.encode_real_at(&slots, level, scale)?)?)
    };
    pack(params, bytes)?.into_iter().map(encrypt).collect()
}

/// Decrypts the bytes of a note.
///
/// # Errors
/// [`Error::DamagedNote`] if a ciphertext is missing, out of place, altered or not part of a note;
/// [`Error::Library`] if the decryptor has another key or other parameters.
pub fn decrypt(decryptor: &Decryptor, params: &Params, note: &[Ciphertext]) -> Result<Vec<u8>> {
    let damaged = |problem: String| Error::DamagedNote { problem };
    let most = (HEADER_BYTES + MAX_BYTES).div_ceil(params.max_slots());
    // Before anything is decrypted, since the time depends on the number of ciphertexts.
    if note.len() > most {
        return Err(damaged(format!("{} ciphertexts are more than {most}", note.len())));
    }
    let encoder = Encoder::new(params);
    let mut message = Vec::new();
    for ciphertext in note {
        let slots = encoder.decode_real(&decryptor.decrypt(ciphertext)?)?;
        for slot in slots {
            let value = slot * BYTE_RANGE;
            let byte = value.round();
            // Negated, so that NaN is rejected as well.
            if !((0.0..BYTE_RANGE).contains(&byte) && (value - byte).abs() < 0.25) {
                return Err(damaged(format!("slot {} holds no byte", message.len())));
            }
            message.push(byte as u8);
        }
    }
    let header = message.split_first_chunk().and_then(|(length, rest)| {
        let (sum, bytes) = rest.split_first_chunk::<CHECKSUM_BYTES>()?;
        Some((u32::from_le_bytes(*length) as usize, sum, bytes))
    });
    let (length, sum, bytes) = header.ok_or_else(|| damaged("it has no header".into()))?;
    let bytes = bytes.get(..length).ok_or_else(|| {
        damaged(format!("its length is {length}, but {} bytes are there", bytes.len()))
    })?;
    if checksum(bytes) != *sum {
        return Err(damaged("its checksum is wrong".into()));
    }
    Ok(bytes.to_vec())
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut sum = [0; CHECKSUM_BYTES];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM_BYTES]);
    sum
}

/// Returns a scale of a quarter of the modulus, if it separates bytes from the error of encryption.
fn scale(params: &Params) -> Result<Scale> {
    /// Bits of the error in a slot of a fresh encryption, beyond `log2(N)`. Larger errors have a
    /// probability of 2^-60: 9 standard deviations of `sqrt(10.5 * 4/3) N`.
    const ERROR_BITS: f64 = 5.1;
    let log2_scale = (params.chain().log2_q(Level(0)) - 2.0).min(MAX_LOG2_SCALE);
    let found = log2_scale - ERROR_BITS - f64::from(params.log_n());
    // The error must stay within a quarter of the step between bytes.
    let needed = real::log2(4.0 * BYTE_RANGE);
    if found < needed {
        return Err(Error::Precision { what: "a byte of a note", found, needed });
    }
    Ok(Scale::from_log2(log2_scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use sudare::{ckks::Spec, rlwe::KeyGenerator};

    fn parties(base_bits: f64) -> (Params, Encryptor, Decryptor) {
        let spec = Spec::uniform(11, base_bits, 0, 20.0, vec![base_bits]);
        let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let encryptor = Encryptor::new(&params, public).unwrap();
        let decryptor = Decryptor::new(&params, secret).unwrap();
        (params, encryptor, decryptor)
    }

    #[test]
    fn notes_of_all_lengths_come_back() {
        for base_bits in [30.0, 60.0] {
            let (params, encryptor, decryptor) = parties(base_bits);
            let slots = params.max_slots();
            let limit = slots - HEADER_BYTES;
            for (length, ciphertexts) in [(0, 1), (1, 1), (limit, 1), (limit + 1, 2), (3000, 3)] {
                let bytes: Vec<u8> = (0..length).map(|i| (i * 89 + i / 256) as u8).collect();
                let note = encrypt(&encryptor, &params, &bytes).unwrap();
                assert_eq!(note.len(), ciphertexts);
                assert!(note.iter().all(|c| c.slots() == slots && c.level() == Level(0)));
                assert_eq!(decrypt(&decryptor, &params, &note).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn damage_is_noticed() {
        let (params, encryptor, decryptor) = parties(40.0);
        let bytes: Vec<u8> = (0..2500_u32).map(|i| (i * 89 + i / 256) as u8).collect();
        let note = encrypt(&encryptor, &params, &bytes).unwrap();
        let encoder = Encoder::new(&params);
        let forge = |slots: &[f64]| {
            let plain = encoder.encode_real_at(slots, Level(0), Scale::from_log2(35.0)).unwrap();
            encryptor.encrypt(&plain).unwrap()
        };
        let swapped = vec![note[0].clone(), note[2].clone(), note[1].clone()];
        let twice = vec![note[0].clone(), note[1].clone(), note[1].clone()];
        let cases = [
            (vec![], "no header"),
            (note[..2].to_vec(), "its length is 2500"),
            (note[1..].to_vec(), "its length is"),
            (swapped, "checksum"),
            (twice, "checksum"),
            (vec![forge(&[0.5 / 256.0; 8])], "slot 0 holds no byte"),
            (vec![forge(&[-1.0 / 256.0; 8])], "slot 0 holds no byte"),
            (vec![forge(&[1.0; 8])], "slot 0 holds no byte"),
            (vec![forge(&[0.0; 8])], "no header"),
            (vec![forge(&[0.0; 32])], "checksum"),
        ];
        for (damaged, part) in cases {
            match decrypt(&decryptor, &params, &damaged) {
                Err(Error::DamagedNote { problem }) => assert!(problem.contains(part), "{problem}"),
                other => panic!("{part}: {:?}", other.map(|bytes| bytes.len())),
            }
        }
        let (_, stranger, _) = parties(40.0);
        let foreign = encrypt(&stranger, &params, &bytes).unwrap();
        assert!(matches!(decrypt(&decryptor, &params, &foreign), Err(Error::Library(_))));
    }

    #[test]
    fn impossible_notes_are_refused() {
        let (params, encryptor, _) = parties(40.0);
        assert_eq!(
            encrypt(&encryptor, &params, &vec![0; MAX_BYTES + 1]).unwrap_err(),
            Error::NoteTooLong { found: MAX_BYTES + 1, max: MAX_BYTES }
        );
        let (params, encryptor, _) = parties(25.0);
        let refused = encrypt(&encryptor, &params, b"x").unwrap_err();
        assert!(matches!(refused, Error::Precision { what: "a byte of a note", .. }), "{refused}");
    }
}
