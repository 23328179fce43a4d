//! Vectors shorter than the slots: one rule in every scheme. Values fill the first slots, the
//! remaining slots are 0, and all slots repeat until they fill the ring.

use crate::session::Session;
use sudare::{
    Error, ckks,
    exact::{BatchEncoder, IntegerEncoder, Modulus},
    rlwe::{GaloisElement, KeyRequest},
};

const LOG_N: u32 = 6;

/// Slots that are encoded for values, by the rule.
fn expected(values: &[i32], slots: usize, filled: usize) -> Vec<i32> {
    let zeros = slots - values.len();
    let all = values.iter().copied().chain(std::iter::repeat_n(0, zeros));
    all.cycle().take(filled).collect()
}

#[test]
fn real_numbers_are_padded_and_repeated() {
    let spec = ckks::Spec::uniform(LOG_N, 50.0, 1, 40.0, vec![50.0]);
    let params = ckks::Params::new(ckks::Spec { insecure: true, ..spec }).unwrap();
    let s = Session::new(params, &KeyRequest::new());
    let most = s.params.max_slots();
    let check = |encoder: &ckks::Encoder, values: &[i32], slots: usize| {
        let numbers: Vec<f64> = values.iter().map(|&x| x.into()).collect();
        let plain = encoder.encode_real(&numbers).unwrap();
        assert_eq!(plain.slots(), slots);
        // Read as all slots of the ring.
        let encrypted = s.encryptor.encrypt(&plain).unwrap();
        let all = s.evaluator.with_log_slots(&encrypted, most.ilog2()).unwrap();
        for (a, filled) in [(&encrypted, slots), (&all, most)] {
            let found = s.encoder.decode_real(&s.decryptor.decrypt(a).unwrap()).unwrap();
            let found: Vec<i32> = found.iter().map(|x| x.round() as i32).collect();
            assert_eq!(found, expected(values, slots, filled));
        }
    };
    let values: Vec<i32> = (1..=32).collect();
    // The next power of two by default.
    for (count, slots) in [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (32, 32)] {
        check(&ckks::Encoder::new(&s.params), &values[..count], slots);
    }
    for slots in [4, 16, most] {
        let encoder = ckks::Encoder::with_slots(&s.params, slots).unwrap();
        for count in [0, 1, 3, 4] {
            check(&encoder, &values[..count], slots);
        }
        let error = encoder.encode_real(&vec![1.0; slots + 1]).unwrap_err();
        assert_eq!(error, Error::TooManySlots { found: slots + 1, slots });
    }
    let refused = ckks::Encoder::with_slots(&s.params, 12).unwrap_err();
    assert!(refused.to_string().contains("choose 16"), "{refused}");

    // Vectors of different lengths share one number of slots.
    let [few, many] = [4, 8].map(|count| s.encoder.encode_real(&vec![1.0; count]).unwrap());
    let [few, many] = [few, many].map(|plain| s.encryptor.encrypt(&plain).unwrap());
    let error = s.evaluator.add(&few, &many).unwrap_err();
    assert!(error.to_string().contains("with_slots(4)"), "{error}");
    let encoder = ckks::Encoder::with_slots(&s.params, 8).unwrap();
    let few = s.encryptor.encrypt(&encoder.encode_real(&[1.0; 4]).unwrap()).unwrap();
    let sum = s.decryptor.decrypt(&s.evaluator.add(&few, &many).unwrap()).unwrap();
    let sum: Vec<f64> = s.encoder.decode_real(&sum).unwrap().iter().map(|x| x.round()).collect();
    assert_eq!(sum, [2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
}

#[test]
fn integers_are_padded_and_repeated() {
    let t = Modulus::new(257, 1).unwrap();
    let most = 1 << LOG_N;
    let values: Vec<i32> = (1..=32).collect();
    let integers = |count: usize| values[..count].iter().map(|&x| x.into()).collect::<Vec<i128>>();
    // All slots of the ring by default.
    let all = BatchEncoder::new(t, LOG_N).unwrap();
    assert_eq!(all.slots(), most);
    for log_slots in [2, 4, LOG_N] {
        let encoder = BatchEncoder::with_slots(t, LOG_N, log_slots).unwrap();
        let slots = encoder.slots();
        let columns = slots / 2;
        for count in [0, 1, 3, 4] {
            let plain = encoder.encode(&integers(count)).unwrap();
            let found = encoder.decode(&plain).unwrap();
            let padded = expected(&values[..count], slots, slots);
            assert_eq!(found, padded.iter().map(|&x| x.into()).collect::<Vec<i128>>());
            // Each of the two rows repeats: a rotation by its length changes nothing.
            let turned = plain.image(GaloisElement::rotation(LOG_N, columns as i64));
            assert_eq!(turned, plain);
        }
        let error = encoder.encode(&vec![1; slots + 1]).unwrap_err();
        assert_eq!(error, Error::TooManySlots { found: slots + 1, slots });
    }
    // Slim slots, too.
    let encoder = IntegerEncoder::new(Modulus::new(31, 1).unwrap(), LOG_N, 4).unwrap();
    let found = encoder.decode(&encoder.encode(&integers(3)).unwrap()).unwrap();
    assert_eq!(found[..4], [1, 2, 3, 0]);
    assert!(found[4..].iter().all(|&x| x == 0));
}
