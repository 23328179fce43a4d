use super::*;
use crate::{
    ckks::{
        Encoder, Encryptor, Evaluator, Release, Spec,
        serial::{self, Label, Reader},
    },
    rlwe::{
        CanonicalBounds, KeyRequest,
        shared::{Sharing, tests::Group},
    },
};
use std::sync::Arc;
use sudare_arith::prng::Seed;

fn params(log_n: u32, sharing: &Sharing) -> Params {
    let spec = Spec::uniform(log_n, 60.0, 2, 58.0, vec![61.0]);
    Params::new(Spec { secret: sharing.distribution(), insecure: true, ..spec }).unwrap()
}

/// A value encrypted under the joint key, and a bound of its error.
fn encrypted(params: &Params, group: &Group, value: &[f64]) -> (Ciphertext, f64) {
    let plain = Encoder::new(params).encode_real(value).unwrap();
    let public = Arc::new(group.keys().public);
    let seed = Seed::from_bytes([50; 32]);
    let a = Encryptor::new(params, public).unwrap().encrypt_with(&plain, &seed).unwrap();
    let slots = params.max_slots() as f64;
    let error = (CanonicalBounds::new(params.rlwe()).fresh() + slots) / a.scale().to_f64();
    (a, error)
}

/// Encrypts, multiplies and opens, for every threshold of up to eight key holders and several sets.
#[test]
fn every_threshold_up_to_eight_opens() {
    for parties in 2..=8 {
        for threshold in 2..=parties {
            let sharing = Sharing::new(parties, threshold).unwrap();
            let params = &params(5, &sharing);
            let request =
                KeyRequest::new().relinearize(params.top()).rotations(5, [1], params.top());
            let group = Group::new(params.rlwe(), &sharing, &request, 11);
            let keys = group.keys();
            let value: Vec<f64> = (0..16).map(|i| f64::from(i) / 16.0).collect();
            let (a, error) = encrypted(params, &group, &value);
            let evaluator = Evaluator::new(params, keys.evaluation).unwrap();
            let squared = evaluator.mul_rescale(&a, &a).unwrap();
            let turned = evaluator.rotate(&squared, 1).unwrap();
            let pieces: Vec<Pieces> = (0..parties).map(|party| group.pieces(party)).collect();
            let first = Vec::from_iter(0..threshold);
            let last = Vec::from_iter(parties - threshold..parties);
            for set in [first, last] {
                let opening = || {
                    let error = 64.0 * error;
                    Opening::new(&group.ceremony, params, &turned, 16, error, &set).unwrap()
                };
                let share = |&party: &usize| opening().share(&pieces[party]).unwrap();
                let shares: Vec<_> = set.iter().map(share).collect();
                let opening = opening();
                let read =
                    |share: &OpeningShare| opening.read(share.party(), share.as_bytes()).unwrap();
                let read: Vec<_> = shares.iter().map(read).collect();
                let plain = opening.open(&read).unwrap();
                let found = Encoder::new(params).decode_real(&plain).unwrap();
                let tolerance = 9.0 * opening.deviation() + 64.0 * error;
                // The most pieces, 70, have the largest noise.
                assert!(tolerance < 0.1, "{tolerance}");
                let digit = 2f64.powi(-opening.bits()) / opening.deviation();
                assert!((16.0..32.0).contains(&digit), "{digit}");
                for (i, found) in found.iter().enumerate() {
                    let expected = value[(i + 1) % 16].powi(2);
                    assert!((found - expected).abs() < tolerance, "{found} {expected}");
                }
            }
            // A share too few, one twice, and one of another set.
            let opening =
                |set: &[usize]| Opening::new(&group.ceremony, params, &turned, 16, error, set);
            let set = Vec::from_iter(0..threshold);
            let share = |party: usize| opening(&set).unwrap().share(&pieces[party]).unwrap();
            let few: Vec<_> = (1..threshold).map(share).collect();
            let twice: Vec<_> = (1..threshold).chain([1]).map(share).collect();
            for wrong in [few, twice] {
                assert!(opening(&set).unwrap().open(&wrong).is_err());
            }
            if threshold < parties {
                assert!(opening(&set).unwrap().share(&pieces[parties - 1]).is_err());
            }
        }
    }
}

/// Files of joint keys have both halves of the relinearisation key, and give the same results.
#[test]
fn joint_keys_are_written_and_read() {
    let sharing = Sharing::new(3, 2).unwrap();
    let params = &params(6, &sharing);
    let request = KeyRequest::new().relinearize(params.top()).rotations(6, [1], params.top());
    let group = Group::new(params.rlwe(), &sharing, &request, 16);
    let keys = group.keys();
    let label = Label::default();
    let mut file = Vec::new();
    let bytes = serial::write_evaluation_keys(&mut file, params, &keys.evaluation, &label).unwrap();
    assert_eq!(bytes, file.len() as u64);
    assert_eq!(bytes, serial::evaluation_keys_bytes(params, &request, &label).unwrap());
    let mut public = Vec::new();
    serial::write_public_key(&mut public, params, &keys.public, &label).unwrap();
    let reader = || Reader::new(&file[..], bytes).unwrap();
    let (a, _) = encrypted(params, &group, &[0.5; 32]);
    let result = |keys| {
        let evaluator = Evaluator::new(params, keys).unwrap();
        evaluator.rotate(&evaluator.mul_rescale(&a, &a).unwrap(), 1).unwrap()
    };
    let expected = result(keys.evaluation);
    for small in [false, true] {
        let read = reader().small_keys(small).evaluation_keys(&reader().params().unwrap()).unwrap();
        assert_eq!(read.fulfils(), request);
        let found = result(read);
        for (found, expected) in found.polys().iter().zip(expected.polys()) {
            assert!(found.rows().eq(expected.rows()));
        }
    }
    let reader = Reader::new(&public[..], public.len() as u64).unwrap();
    assert_eq!(reader.public_key(params).unwrap().id(), group.ceremony.key_id());
    // No file holds the secret.
    assert!(
        serial::write_secret_key(&mut Vec::new(), params, &group.secret_key(), &label).is_err()
    );
    // Every cut is an error.
    for end in (0..file.len()).step_by(997) {
        let read = Reader::new(&file[..end], end as u64).and_then(|r| r.evaluation_keys(params));
        assert!(read.is_err(), "{end}");
    }
}

/// The noise of a share is a share less `c_1 s`. It is normal with the stated deviation, differs
/// between parties and openings, and is the same for the same opening.
#[test]
fn shares_have_the_noise_of_the_bound() {
    let sharing = Sharing::new(3, 2).unwrap();
    let params = &params(12, &sharing);
    let group = Group::new(params.rlwe(), &sharing, &KeyRequest::new(), 12);
    let (a, error) = encrypted(params, &group, &[0.5; 2048]);
    let rlwe = params.rlwe();
    let basis = rlwe.basis();
    let noise = |set: &[usize], slots: usize| {
        let opening = || Opening::new(&group.ceremony, params, &a, slots, error, set).unwrap();
        let shares: Vec<_> =
            set.iter().map(|&i| opening().share(&group.pieces(i)).unwrap()).collect();
        let again = opening().share(&group.pieces(set[0])).unwrap();
        assert!(again == shares[0]);
        let opening = opening();
        // All pieces together: the sum of both shares is `c_1 s` plus the noise of both.
        let found = opening.open(&shares).unwrap();
        let phase = group.secret_key().phase(rlwe, &a.inner, found.poly.limbs()).unwrap();
        let found = basis.into_coeff(found.poly.clone());
        let phase = basis.into_coeff(phase);
        let gap = params.max_slots() / slots;
        let m = basis.modulus(found.limbs(), 0);
        let of_message = found.row(0).iter().zip(phase.row(0)).step_by(gap);
        let noise: Vec<f64> =
            of_message.map(|(&found, &phase)| m.centered(m.sub(found, phase)) as f64).collect();
        let log2 = opening.inner.flood().log2_deviation();
        (noise, 2f64.powi(log2.cast_signed()) * 2f64.sqrt())
    };
    let (first, deviation) = noise(&[0, 1], 2048);
    let (second, _) = noise(&[1, 2], 2048);
    let (third, _) = noise(&[0, 2], 2048);
    let n = first.len() as f64;
    let all: Vec<f64> =
        [&first, &second, &third].into_iter().flatten().map(|x| x / deviation).collect();
    let found = (all.iter().map(|x| x * x).sum::<f64>() / all.len() as f64).sqrt();
    // Four deviations of an estimate from 12,288 values are 2.6 %.
    assert!((found - 1.0).abs() < 0.026, "{found}");
    for (a, b) in [(&first, &second), (&second, &third), (&first, &third)] {
        let correlation = a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / n / deviation.powi(2);
        assert!(correlation.abs() < 4.5 / n.sqrt(), "{correlation}");
    }
    // The deviation hides the bound: `sqrt(12 r) 2^(s/2)` times the norm for each party alone.
    let release = Release::default();
    assert_eq!(release.statistical_bits, Flood::STATISTICAL_BITS);
    assert_eq!(release.releases, Flood::OPENINGS);
    let needed = release.deviation(1, error * a.scale().to_f64());
    let one = deviation / 2f64.sqrt();
    assert!(needed <= one && one < 2.0 * needed, "{needed} {one}");
    // Fewer slots have fewer coefficients, with the same noise.
    let (few, _) = noise(&[0, 1], 16);
    assert_eq!(few.len(), 32);
    assert!(few.iter().all(|x| x.abs() < 6.0 * deviation));
}

/// The noise of openings averages out over encryptions of one value, so openings are counted. It
/// does not average out over repetitions of one opening, whose noise is the same.
#[test]
fn repetitions_do_not_average_noise() {
    let sharing = Sharing::new(2, 2).unwrap();
    let params = &params(8, &sharing);
    let group = Group::new(params.rlwe(), &sharing, &KeyRequest::new(), 13);
    let pieces = [0, 1].map(|party| group.pieces(party));
    let value = [0.25; 128];
    let (a, error) = encrypted(params, &group, &value);
    let opening =
        |a: &Ciphertext| Opening::new(&group.ceremony, params, a, 128, error, &[0, 1]).unwrap();
    let mean_error = |others: &[Ciphertext]| {
        let mut mean = vec![0.0; 128];
        for a in others {
            let shares = [0, 1].map(|i: usize| opening(a).share(&pieces[i]).unwrap());
            let opened = opening(a).open(&shares).unwrap();
            let found = Encoder::new(params).decode_real(&opened).unwrap();
            mean.iter_mut().zip(found).for_each(|(mean, x)| *mean += (x - 0.25) / 64.0);
        }
        let square = mean.iter().map(|x| x * x).sum::<f64>() / 128.0;
        square.sqrt() / opening(&a).deviation()
    };
    let same = mean_error(&vec![a.clone(); 64]);
    assert!((0.7..1.3).contains(&same), "{same}");
    let encryptor = Encryptor::new(params, group.keys().public).unwrap();
    let plain = Encoder::new(params).encode_real(&value).unwrap();
    let others: Vec<Ciphertext> = (0..64).map(|_| encryptor.encrypt(&plain).unwrap()).collect();
    let averaged = mean_error(&others);
    assert!((0.09..0.17).contains(&averaged), "{averaged}");
}

#[test]
fn results_without_a_bound_are_refused() {
    let sharing = Sharing::new(2, 2).unwrap();
    let params = &params(6, &sharing);
    let group = Group::new(params.rlwe(), &sharing, &KeyRequest::new(), 14);
    let (a, error) = encrypted(params, &group, &[0.25; 32]);
    let refused = |slots, error, set: &[usize]| {
        Opening::new(&group.ceremony, params, &a, slots, error, set).unwrap_err()
    };
    for error in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        let refused = refused(32, error, &[0, 1]);
        assert!(matches!(refused, Error::NoErrorBound { .. }), "{error}: {refused}");
    }
    for slots in [0, 3, 64] {
        assert!(matches!(
            refused(slots, error, &[0, 1]),
            Error::InvalidSpec { field: "slots", .. }
        ));
    }
    for set in [&[0][..], &[1, 0], &[0, 2], &[0, 1, 2]] {
        assert!(matches!(refused(32, error, set), Error::InvalidSpec { field: "set", .. }));
    }
    // Another ceremony has another key.
    let other = Group::new(params.rlwe(), &sharing, &KeyRequest::new(), 15);
    let refused = Opening::new(&other.ceremony, params, &a, 32, error, &[0, 1]).unwrap_err();
    assert!(matches!(refused, Error::KeyMismatch { .. }), "{refused}");
    let opening = || Opening::new(&group.ceremony, params, &a, 32, error, &[0, 1]).unwrap();
    let refused = opening().share(&other.pieces(0)).unwrap_err();
    assert!(matches!(refused, Error::KeyMismatch { .. }), "{refused}");
    let share = opening().share(&group.pieces(0)).unwrap();
    for bytes in [
        &share.as_bytes()[1..],
        &[share.as_bytes(), &[0]].concat(),
        &[],
        &vec![0xff; share.as_bytes().len()],
    ] {
        let refused = opening().read(0, bytes).unwrap_err();
        assert!(matches!(refused, Error::Malformed { .. }), "{refused}");
    }
    assert!(opening().read(2, share.as_bytes()).is_err());
}

/// A chosen ciphertext `(0, c)` opens to `c s`, which is the key whatever the noise. So key holders
/// open only results that they computed themselves.
#[test]
fn a_chosen_ciphertext_opens_to_the_key() {
    let sharing = Sharing::new(2, 2).unwrap();
    let params = &params(8, &sharing);
    let group = Group::new(params.rlwe(), &sharing, &KeyRequest::new(), 17);
    let (a, error) = encrypted(params, &group, &[0.25; 128]);
    let basis = params.rlwe().basis();
    let zero = basis.zero(a.inner.polys[0].limbs());
    let large = basis.add_constant(&zero, |_| 1 << 54);
    let inner = crate::rlwe::Ciphertext { polys: [zero, large], ..a.inner.clone() };
    let chosen = Ciphertext { inner, ..a };
    let opening = || Opening::new(&group.ceremony, params, &chosen, 128, error, &[0, 1]).unwrap();
    let shares = [0, 1].map(|i| opening().share(&group.pieces(i)).unwrap());
    let opened = basis.into_coeff(opening().open(&shares).unwrap().poly);
    let m = basis.modulus(opened.limbs(), 0);
    let rounded = |&x: &u64| (m.centered(x) as f64 / 2f64.powi(54)).round() as i64;
    let found: Vec<i64> = opened.row(0).iter().map(rounded).collect();
    assert_eq!(found, group.secret());
}
