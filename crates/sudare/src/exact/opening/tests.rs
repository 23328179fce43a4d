use super::*;
use crate::{
    exact::{BatchEncoder, Encryptor, Modulus, Spec},
    rlwe::{
        KeyRequest,
        shared::{Sharing, tests::Group},
    },
};
use sudare_arith::prng::Seed;

fn params(log_n: u32, sharing: &Sharing) -> Params {
    let t = Modulus::new(257, 1).unwrap();
    let spec = Spec::uniform(log_n, t, 55.0, 2, 50.0, vec![56.0]);
    Params::new(Spec { secret: sharing.distribution(), insecure: true, ..spec }).unwrap()
}

/// Sums and products open to the exact result.
#[test]
fn exact_results_open_exactly() {
    for (parties, threshold) in [(2, 2), (3, 2), (5, 5)] {
        let sharing = Sharing::new(parties, threshold).unwrap();
        let params = &params(7, &sharing);
        let request = KeyRequest::new().relinearize(params.top());
        let group = Group::new(params.rlwe(), &sharing, &request, 21);
        let keys = group.keys();
        let encoder = BatchEncoder::new(params.plaintext_modulus(), 7).unwrap();
        let value: Vec<u128> = (0..128).map(|i| (3 * i + 1) % 257).collect();
        let plain = encoder.encode_unsigned(&value).unwrap();
        let encryptor = Encryptor::new(params, keys.public).unwrap();
        let a = encryptor.encrypt(&plain).unwrap();
        let evaluator = Evaluator::new(params, keys.evaluation).unwrap();
        let doubled = evaluator.add(&a, &a).unwrap();
        // Not rescaled: an opening rescales until there is room.
        let square = evaluator.mul(&a, &a).unwrap();
        type Of = fn(u128) -> u128;
        let cases: [(&Ciphertext, Of); 2] =
            [(&doubled, |x| 2 * x % 257), (&square, |x| x * x % 257)];
        for (ciphertext, expected) in cases {
            let set = Vec::from_iter(parties - threshold..parties);
            let opening = || Opening::new(&group.ceremony, params, ciphertext, &set).unwrap();
            let share = |&i: &usize| opening().share(&group.pieces(i)).unwrap();
            let shares: Vec<_> = set.iter().map(share).collect();
            let found = encoder.decode_unsigned(&opening().open(&shares).unwrap()).unwrap();
            let expected: Vec<u128> = value.iter().map(|&x| expected(x)).collect();
            assert_eq!(found, expected);
            // The flood is far above the bound of the error, and below the room of the level.
            let bound = opening().ciphertext.noise().log2_two();
            assert!(opening().log2_deviation() > bound + 26.7);
            assert!(opening().level() < ciphertext.level() || ciphertext.level() == Level(0));
        }
    }
}

/// A bound that leaves no level with room for the noise is an error.
#[test]
fn openings_without_room_are_refused() {
    let sharing = Sharing::new(2, 2).unwrap();
    let t = Modulus::new(257, 1).unwrap();
    let spec = Spec::uniform(7, t, 36.0, 0, 36.0, vec![40.0]);
    let params =
        &Params::new(Spec { secret: sharing.distribution(), insecure: true, ..spec }).unwrap();
    let group = Group::new(params.rlwe(), &sharing, &KeyRequest::new(), 22);
    let plain = BatchEncoder::new(t, 7).unwrap().encode(&[1; 128]).unwrap();
    let encryptor = Encryptor::new(params, group.keys().public).unwrap();
    let seed = Seed::from_bytes([1; 32]);
    let factor = params.fresh_factor(Level(0), t).unwrap();
    let a = encryptor.encrypt_with(&plain, Level(0), factor, &seed).unwrap();
    let refused = Opening::new(&group.ceremony, params, &a, &[0, 1]).unwrap_err();
    assert!(matches!(refused, Error::NoiseExhausted { op: "open", .. }), "{refused}");
}
