//! Targets that decrypt accepted input.

use super::{
    Harness, Reached, Target,
    evaluate::chosen,
    mutate_bytes, mutate_text,
    parse::{self, mutate_file},
    script::{self, Input},
    unchanged,
};
use crate::{
    file::resealed,
    world::{CASES, Pair, open},
};
use sudare::ckks::{Encoder, Spec, serial::Reader};
use sudare_apps::{
    array::{self, Array, Layout, Range},
    note,
};
use sudare_roles::clear::{decrypted::Decrypted, note::Note};

pub const CIPHERTEXTS_DECRYPTED: Target = Target {
    name: "ciphertexts_decrypted",
    harness: Harness::Decrypt,
    prepare: resealed::<Spec>,
    run: ciphertexts,
    mutate: mutate_file::<Spec>,
    seeds: || parse::of_pairs(3),
};

pub const RESULT: Target = Target {
    name: "result",
    harness: Harness::Decrypt,
    prepare: unchanged,
    run: result,
    mutate: mutate_bytes,
    seeds: || script::seeds(CASES.len()),
};

pub const NOTE: Target = Target {
    name: "note",
    harness: Harness::Decrypt,
    prepare: unchanged,
    run: a_note,
    mutate: mutate_text,
    seeds: notes,
};

/// Decrypts ciphertexts, also as an array.
fn ciphertexts(file: &[u8]) -> Reached {
    let Ok(reader) = Reader::new(file, file.len() as u64) else { return Reached::Frame };
    let pair = Pair::of(reader.info().params_id);
    let items = reader.ciphertexts(&pair.params);
    let reached = Reached::of_read(&items);
    let Ok(items) = items else { return reached };
    let encoder = Encoder::new(&pair.params);
    for item in &items {
        if let Ok(plain) = pair.decryptor.decrypt(item) {
            let _ = (encoder.decode(&plain), encoder.decode_real(&plain));
        }
    }
    let slots = items.first().map_or(1, |item| item.slots());
    let layout = Layout::new(&[items.len(), slots], slots.ilog2());
    let array =
        layout.and_then(|layout| Array::from_ciphertexts(layout, items, false, Range::unknown()));
    if let Ok(array) = array {
        let _ = array::decrypt(&pair.decryptor, &pair.params, &array);
    }
    Reached::Accepted
}

/// Decrypts an untrusted result as its owner. The first byte selects the case.
fn result(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let case = chosen(&mut input);
    let file = script::altered(case, &case.result, &case.table, &mut input);
    let Ok(opened) = open(&file) else { return Reached::Frame };
    Reached::content(Decrypted::read(opened, &case.params, &case.decryptor, None))
}

/// Decrypts an untrusted note: encrypts the bytes and reads them back.
fn a_note(bytes: &[u8]) -> Reached {
    let case = &CASES[0];
    let bytes = &bytes[..bytes.len().min(1 << 12)];
    let encrypted = note::encrypt(&case.encryptor, &case.params, bytes).unwrap();
    let read = Note::decrypt(&case.decryptor, &case.params, &encrypted);
    Reached::content(read.map_err(drop).and_then(|note| note.ok_or(())))
}

/// Returns the notes of the cases.
fn notes() -> Vec<Vec<u8>> {
    let of = |case: &crate::world::Case| {
        let items = open(&case.table).unwrap().ciphertexts(&case.params, 1).unwrap();
        note::decrypt(&case.decryptor, &case.params, &items.note).unwrap()
    };
    CASES.iter().map(of).collect()
}
