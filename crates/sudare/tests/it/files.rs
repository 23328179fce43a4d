//! Files: what is written is what is read, and it works.

use crate::common::{
    Content, Parts, Session, load, open, seed, session, session_with_level_keys,
    session_with_upper_keys, specs, values,
};
use std::{
    io::{Cursor, ErrorKind, Read, Write},
    sync::Arc,
};
use sudare::{
    Error,
    ckks::{
        Ciphertext, Complex, Decryptor, Encoder, Params, Scale, Spec, SymmetricEncryptor,
        UpperSpec,
        serial::{self, CiphertextWriter, Kind, Label, Reader, Shape},
    },
    rlwe::{GaloisElement, KeyGenerator, KeyId, KeyRequest, Level, SecretDistribution},
};
use sudare_arith::{
    prng::{Seed, Stream},
    sample,
};

fn label() -> Label {
    Label { name: "tiny".into(), content: "table, größer".into(), meta: (0..=255).collect() }
}

#[test]
fn loaded_objects_are_written_as_the_same_bytes() {
    for spec in specs(10).into_iter().chain([raised_spec(10)]) {
        let s = session(spec);
        let loaded = s.reloaded();
        let label = label();
        assert_eq!(loaded.secret_file(&label), s.secret_file(&label));
        assert_eq!(loaded.public_file(&label), s.public_file(&label));
        assert_eq!(loaded.keys_file(&label), s.keys_file(&label));
        assert_eq!(loaded.keys.fulfils(), s.request);
        let ev = s.evaluator();
        let a = s.encrypt(s.params.max_slots(), s.params.top());
        let product = ev.mul(&a, &a).unwrap();
        let items =
            [a, s.encrypt(1, Level(0)), s.encrypt(64, Level(1)), ev.rescale(&product).unwrap()];
        let file = s.ciphertexts_file(&items, &label);
        let read = open(&file).unwrap().ciphertexts(&s.params).unwrap();
        assert_eq!(s.ciphertexts_file(&read, &label), file);
        for (a, b) in items.iter().zip(&read) {
            assert_eq!(
                (a.level(), a.slots(), a.key_id(), a.params_id()),
                (b.level(), b.slots(), b.key_id(), b.params_id())
            );
            assert_eq!(<(f64, f64)>::from(a.scale()), <(f64, f64)>::from(b.scale()));
        }
    }
}

/// Written one by one, and read in any order.
#[test]
fn ciphertexts_stream() {
    let s = session(specs(10).remove(0));
    let label = label();
    let levels = [s.params.top(), Level(0), Level(1), Level(0)];
    let items: Vec<_> = levels.iter().map(|&level| s.encrypt(8, level)).collect();
    let file = s.ciphertexts_file(&items, &label);
    let shapes: Vec<Shape> = items.iter().map(Shape::of).collect();
    let key = s.secret.id();
    let mut out = Vec::new();
    let write = |out: &mut Vec<u8>, some: &[Ciphertext]| {
        let mut writer = CiphertextWriter::new(out, &s.params, key, shapes.clone(), &label)?;
        some.iter().try_for_each(|item| writer.write(item))?;
        writer.finish()
    };
    assert_eq!(write(&mut out, &items), Ok(file.len() as u64));
    assert!(out == file);
    let malformed = |result: sudare::Result<u64>| match result {
        Err(Error::Malformed { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    assert!(malformed(write(&mut Vec::new(), &items[..3])).contains("1 more"));
    assert!(malformed(write(&mut Vec::new(), &items[1..])).contains("header says"));
    let more = [&items[..], &items[..1]].concat();
    assert!(malformed(write(&mut Vec::new(), &more)).contains("header says None"));
    let mut nowhere = Vec::new();
    let mut stranger =
        CiphertextWriter::new(&mut nowhere, &s.params, KeyId(7), shapes.clone(), &label).unwrap();
    let refused = stranger.write(&items[0]);
    assert!(matches!(refused, Err(Error::KeyMismatch { .. })), "{refused:?}");

    let open = |file: &[u8]| {
        let reader = Reader::new(Cursor::new(file.to_vec()), file.len() as u64).unwrap();
        reader.into_ciphertexts(&s.params).unwrap()
    };
    let mut reader = open(&file);
    assert_eq!(reader.shapes(), shapes);
    let parts: Vec<_> = [3..4, 0..2, 2..3, 4..4].map(|some| reader.read(some).unwrap()).concat();
    let ordered = [1, 2, 3, 0].map(|i| parts[i].clone());
    assert!(s.ciphertexts_file(&ordered, &label) == file);
    assert!(matches!(reader.read(3..5), Err(Error::Malformed { .. })));

    // Damage is reported at its place, or by the digest if a checksum was recomputed.
    let digest = |file: &[u8]| serial::digest(Cursor::new(file), file.len() as u64).unwrap();
    assert_eq!(digest(&file), digest(&out));
    let mut damaged = file.clone();
    damaged[file.len() - 100] ^= 1;
    let mut reader = open(&damaged);
    assert_eq!(reader.read(0..3).unwrap().len(), 3);
    assert_eq!(reader.read(3..4).err(), Some(Error::Checksum { section: 4 }));
    assert_eq!(reader.read(1..2).unwrap().len(), 1);
    assert_eq!(digest(&damaged), digest(&file));
    damaged[file.len() - 1] ^= 1;
    assert_ne!(digest(&damaged), digest(&file));
    let other: Vec<_> = levels.iter().map(|&level| s.encrypt(16, level)).collect();
    assert_ne!(digest(&s.ciphertexts_file(&other, &label)), digest(&file));
}

/// Ciphertexts under the secret key, of which the file has one polynomial and the seed of the
/// other, are those that were written.
#[test]
fn seeded_ciphertexts_come_back_whole() {
    for spec in specs(10) {
        let params = Params::new(spec).unwrap();
        let label = label();
        let mut keygen = KeyGenerator::from_seed(params.rlwe(), &seed(1));
        let secret = Arc::new(keygen.secret_key().unwrap());
        let encryptor = SymmetricEncryptor::new(&params, Arc::clone(&secret)).unwrap();
        let encoder = Encoder::new(&params);
        let forms = [(params.top(), params.max_slots()), (Level(0), 4), (Level(1), 64)];
        let items = forms.map(|(level, slots)| {
            let plain = encoder.encode_at(&values(slots), level, params.scale_at(level)).unwrap();
            encryptor.encrypt_seeded(&plain).unwrap()
        });
        let mut file = Vec::new();
        let bytes = serial::write_seeded_ciphertexts(&mut file, &params, &items, &label);
        assert_eq!(bytes, Ok(file.len() as u64));
        let whole: Vec<Ciphertext> = items.iter().map(|item| item.ciphertext().clone()).collect();
        let mut larger = Vec::new();
        serial::write_ciphertexts(&mut larger, &params, &whole, &label).unwrap();

        // As documented: the seed, and the first polynomial of the other file's pair.
        let parts = Parts::of(&file);
        let others = Parts::of(&larger);
        assert_eq!(parts.seal(), file, "the frame is not as documented");
        for ((section, other), item) in parts.sections.iter().zip(&others.sections).zip(&whole) {
            let (public, first) = section.split_at(32);
            assert_eq!((first.len(), first), (other.len() / 2, &other[..other.len() / 2]));
            let public = Seed::from_bytes(public.try_into().unwrap());
            let primes = params.rlwe().spec().q[..=item.level().index()].concat();
            for (row, q) in item.polys()[1].rows().zip(primes) {
                let mut expected = vec![0; row.len()];
                let mut stream = Stream::new(&public.derive("uniform", 0), "prime", q);
                sample::uniform(q, &mut stream, &mut expected);
                assert!(row == expected);
            }
        }
        for ((content, _), (other, _)) in parts.table.iter().zip(&others.table) {
            let Content::Ciphertext { level, scale, log_slots } = *other else {
                panic!("{other:?}")
            };
            assert_eq!(*content, Content::SeededCiphertext { level, scale, log_slots });
        }

        let decryptor = Decryptor::new(&params, secret).unwrap();
        let reader = Reader::new(Cursor::new(file.clone()), file.len() as u64).unwrap();
        let mut reader = reader.into_ciphertexts(&params).unwrap();
        let mut read = reader.read(1..3).unwrap();
        read.insert(0, reader.read(0..1).unwrap().remove(0));
        let all = open(&file).unwrap().ciphertexts(&params).unwrap();
        for ((a, b), c) in whole.iter().zip(&read).zip(&all) {
            for other in [b, c] {
                assert_eq!(Shape::of(a), Shape::of(other));
                assert!(a.polys().iter().zip(other.polys()).all(|(a, b)| a.rows().eq(b.rows())));
            }
            let found = encoder.decode(&decryptor.decrypt(b).unwrap()).unwrap();
            let expected = values(a.slots());
            let error = |(x, y): (&Complex<f64>, &Complex<f64>)| (x.re - y.re).hypot(x.im - y.im);
            assert!(found.iter().zip(&expected).all(|pair| error(pair) < 1e-2));
        }

        // A file has one kind.
        let forms: Vec<Shape> = whole.iter().map(Shape::of).collect();
        let key = items[0].ciphertext().key_id();
        let mut out = Vec::new();
        let mut writer = CiphertextWriter::seeded(&mut out, &params, key, forms.clone(), &label);
        let refused = writer.as_mut().unwrap().write(&whole[0]).unwrap_err();
        assert!(refused.to_string().contains("header says a seed"), "{refused}");
        writer.unwrap().write_seeded(&items[0]).unwrap();
        let mut out = Vec::new();
        let mut writer = CiphertextWriter::new(&mut out, &params, key, forms, &label).unwrap();
        let refused = writer.write_seeded(&items[0]).unwrap_err();
        assert!(refused.to_string().contains("header says two"), "{refused}");
        writer.write(items[0].ciphertext()).unwrap();
    }
}

#[test]
fn loaded_keys_encrypt_evaluate_and_decrypt() {
    for (spec, bits) in specs(11).into_iter().zip([18.0, 32.0, 30.0, 18.0]) {
        let s = session(spec.clone());
        let loaded = s.reloaded();
        let slots = loaded.params.max_slots();
        let x = values(slots);
        // Encrypted with the loaded public key, sent through a file, used with the
        // loaded evaluation keys, decrypted with the loaded secret key.
        let fresh = loaded.encrypt(slots, loaded.params.top());
        let file = loaded.ciphertexts_file(&[fresh], &Label::default());
        let [a] = open(&file).unwrap().ciphertexts(&loaded.params).unwrap().try_into().unwrap();
        let ev = loaded.evaluator();
        let square = ev.mul_rescale(&a, &a).unwrap();
        let turned = ev.rotate(&square, 1).unwrap();
        let low = ev.drop_to(&turned, Level(0)).unwrap();
        let conjugate = ev.conjugate(&low).unwrap();
        let mut expected: Vec<Complex<f64>> = x.iter().map(|&x| (x * x).conj()).collect();
        expected.rotate_left(1);
        let found = loaded.precision(&conjugate, &expected);
        assert!(found > bits, "{found:.1} bits with loaded keys, {spec:?}");
        // The halves of each pair match across the file.
        let found = s.precision(&conjugate, &expected);
        assert!(found > bits, "{found:.1} bits with the original secret key, {spec:?}");
    }
}

#[test]
fn sizes_are_known_before_and_as_documented() {
    for spec in specs(10) {
        let s = session(spec);
        let p = s.params.rlwe();
        for label in [Label::default(), label()] {
            let file = s.keys_file(&label);
            let predicted = serial::evaluation_keys_bytes(&s.params, &s.request, &label);
            assert_eq!(predicted, Ok(file.len() as u64));
            let parts = Parts::of(&file);
            assert_eq!(parts.seal(), file, "the frame is not as documented");
        }
        let packed = |primes: &[u64]| {
            let bytes = |q: &u64| u64::from(u64::BITS - q.leading_zeros()).div_ceil(8) << 10;
            primes.iter().map(bytes).sum::<u64>()
        };
        let chain = |level: usize| p.spec().q[..=level].concat();
        let key = |level: usize| {
            let digits = p.digits(Level(level as u32)) as u64;
            32 + digits * (packed(&chain(level)) + packed(&p.spec().p))
        };
        let lengths = |file: &[u8]| {
            Parts::of(file).sections.iter().map(|s| s.len() as u64).collect::<Vec<_>>()
        };
        let none = Label::default();
        assert_eq!(lengths(&s.secret_file(&none)), [256]);
        assert_eq!(lengths(&s.public_file(&none)), [32 + packed(&chain(2))]);
        // Relinearisation, then 5, the conjugation 2N - 1 and the inverse of 125 in
        // increasing order.
        let inverse = GaloisElement::rotation(10, -3).0;
        assert!(5 < inverse && inverse < 2047);
        // Then the two keys for raising, with as few special primes as exceed level 0.
        let product = |primes: &[u64]| primes.iter().map(|&q| q as f64).product::<f64>();
        let special = (1..).map(|k| &p.spec().p[..k]).find(|&p| product(p) > product(&chain(0)));
        let special = packed(special.unwrap());
        let raising = 64 + packed(&chain(0)) + packed(&chain(1)) + 2 * special;
        assert_eq!(lengths(&s.keys_file(&none)), [key(2), key(1), key(1), key(0), raising]);
        let file = s.ciphertexts_file(&[s.encrypt(4, Level(1))], &none);
        assert_eq!(lengths(&file), [2 * packed(&chain(1))]);
    }
}

/// Levels 0 and 1 have level keys with one and with two special primes.
#[test]
fn level_keys_come_back_and_work() {
    let spec = Spec::uniform(10, 48.0, 2, 40.0, vec![50.0; 3]);
    let s = session_with_level_keys(Spec { insecure: true, ..spec });
    let label = label();
    let file = s.keys_file(&label);
    let predicted = serial::evaluation_keys_bytes(&s.params, &s.request, &label);
    assert_eq!(predicted, Ok(file.len() as u64));
    let parts = Parts::of(&file);
    assert_eq!(parts.seal(), file, "the frame is not as documented");
    let level_keys: Vec<_> = parts.table[4..].iter().map(|(content, _)| *content).collect();
    let expected = [0, 1].map(|level| {
        let galois = [5, 25].map(|g| Content::LevelGalois(g, level));
        [Content::LevelRelinearization(level), galois[0], galois[1]]
    });
    assert_eq!(level_keys, expected.concat());
    let lengths: Vec<_> = parts.sections[4..].iter().map(Vec::len).collect();
    // Primes of 48 and 50 bits take seven bytes, those of 40 bits five or six.
    let [q0, q1] = [0, 1].map(|l| s.params.rlwe().primes_of(Level(l))[0].ilog2() as usize / 8 + 1);
    let expected = [q0 + 7, q0 + q1 + 2 * 7].map(|bytes| [32 + (bytes << 10); 3]);
    assert_eq!(lengths, expected.concat());

    let loaded = s.reloaded();
    assert_eq!(loaded.keys_file(&label), file);
    assert_eq!(loaded.keys.fulfils(), s.request);
    let slots = loaded.params.max_slots();
    let ev = loaded.evaluator();
    let a = loaded.encrypt(slots, loaded.params.top());
    let low = ev.mul_rescale(&ev.drop_to(&a, Level(1)).unwrap(), &a).unwrap();
    assert_eq!(low.level(), Level(0));
    let turned = ev.rotate(&low, 2).unwrap();
    let mut expected: Vec<_> = values(slots).iter().map(|&x| x * x).collect();
    expected.rotate_left(2);
    let found = s.precision(&turned, &expected);
    assert!(found > 18.0, "{found:.1} bits");
}

/// Of primes of every width, one of its levels of two.
fn raised_spec(log_n: u32) -> Spec {
    let raised = UpperSpec {
        base_bits: vec![56.0, 36.0, 36.0],
        levels_bits: vec![vec![30.0, 25.0], vec![48.0]],
    };
    let spec = Spec::uniform(log_n, 48.0, 2, 40.0, vec![60.0, 50.0]);
    Spec { insecure: true, upper: Some(raised), extra_p_bits: vec![50.0], ..spec }
}

/// Parameters, ciphertexts and keys of levels above the top.
/// Bytes of a row modulo each of the primes, of 1,024 coefficients.
fn packed(primes: &[u64]) -> usize {
    let bytes = |q: &u64| (u64::from(u64::BITS - q.leading_zeros()).div_ceil(8) << 10) as usize;
    primes.iter().map(bytes).sum()
}

/// Primes of a level of [`raised_spec`]: above the top those of the base and of its own levels.
fn primes(params: &Params, level: usize) -> Vec<u64> {
    let spec = params.rlwe().spec();
    let above = spec.upper.as_ref().unwrap();
    match level {
        0..3 => spec.q[..=level].concat(),
        _ => [above.base.clone(), above.levels[..level - 2].concat()].concat(),
    }
}

/// A ciphertext of each level from the second on.
fn items(s: &Session) -> Vec<Ciphertext> {
    let raised = [(1024 / 2, 3), (16, 4), (1, 3)];
    let raised = raised.map(|(slots, level)| s.raised(slots, Level(level)));
    raised.into_iter().chain([s.encrypt(8, Level(2))]).collect()
}

#[test]
fn raised_levels_are_packed_by_their_own_primes() {
    let s = session_with_upper_keys(raised_spec(10));
    let rlwe = s.params.rlwe();
    let file = s.keys_file(&label());
    let predicted = serial::evaluation_keys_bytes(&s.params, &s.request, &label());
    assert_eq!(predicted, Ok(file.len() as u64));
    let parts = Parts::of(&file);
    assert_eq!(parts.seal(), file, "the frame is not as documented");
    let packed_at = |level: u32| packed(&primes(&s.params, level as usize));
    let special = [rlwe.spec().p.clone(), rlwe.spec().extra_p.clone()].concat();
    for (content, bytes) in &parts.table {
        let expected = match *content {
            Content::Raising { level, .. } => {
                64 + packed_at(0) + packed_at(level) + 2 * packed(&special[..1])
            }
            Content::Raised(_, level) => 32 + packed_at(level) + packed(&special[..1]),
            Content::LevelRelinearization(level) | Content::LevelGalois(_, level) => {
                let limbs = rlwe.level_key_limbs(Level(level)).unwrap();
                let digits = rlwe.digit_primes_of(limbs).len();
                32 + digits * (packed_at(level) + packed(&special[..limbs.p()]))
            }
            _ => continue,
        };
        assert_eq!(*bytes, expected as u64, "{content:?}");
    }
    let sent = s.ciphertexts_file(&items(&s), &label());
    let lengths: Vec<_> = Parts::of(&sent).sections.iter().map(Vec::len).collect();
    assert_eq!(lengths, [3, 4, 3, 2].map(|level| 2 * packed_at(level)));
}

#[test]
fn raised_levels_come_back_and_work() {
    let s = session_with_upper_keys(raised_spec(10));
    let label = label();
    let items = items(&s);
    let sent = s.ciphertexts_file(&items, &label);
    let loaded = s.reloaded();
    assert_eq!(loaded.params.spec(), s.params.spec());
    assert_eq!(loaded.params.rlwe(), s.params.rlwe());
    assert_eq!(loaded.params.chain(), s.params.chain());
    assert_eq!(loaded.keys_file(&label), s.keys_file(&label));
    assert_eq!(loaded.secret_file(&label), s.secret_file(&label));
    assert_eq!(loaded.public_file(&label), s.public_file(&label));
    assert_eq!(loaded.keys.fulfils(), s.request);
    let read = open(&sent).unwrap().ciphertexts(&loaded.params).unwrap();
    assert_eq!(loaded.ciphertexts_file(&read, &label), sent);
    for (a, b) in items.iter().zip(&read) {
        assert_eq!((a.level(), a.slots(), a.scale()), (b.level(), b.slots(), b.scale()));
        assert!(a.polys().iter().zip(b.polys()).all(|(a, b)| a.rows().eq(b.rows())));
    }
    // The loaded keys, whole and small, give the same bits.
    let none = Label::default();
    let small = {
        let file = s.keys_file(&none);
        let reader = Reader::new(&file[..], file.len() as u64).unwrap().small_keys(true);
        let keys = Arc::new(reader.evaluation_keys(&loaded.params).unwrap());
        assert!(keys.bytes() < loaded.keys.bytes());
        sudare::ckks::Evaluator::new(&loaded.params, keys).unwrap()
    };
    let low = s.encrypt(16, Level(0));
    let results = [s.evaluator(), loaded.evaluator(), small].map(|ev| {
        let raised = ev.mod_raise(&low, Level(4)).unwrap();
        let square = ev.mul_rescale(&raised, &raised).unwrap();
        let turned = ev.rotate(&square, 1).unwrap();
        let sum = ev.add(&turned, &square).unwrap();
        let crossed = ev.mul_rescale(&sum, &ev.rotate(&sum, 2).unwrap()).unwrap();
        assert_eq!(crossed.level(), s.params.top());
        s.ciphertexts_file(&[raised, square, turned, crossed], &none)
    });
    assert!(results[0] == results[1] && results[0] == results[2]);
}

#[test]
fn the_info_says_what_was_written() {
    let spec = specs(10).swap_remove(2);
    let s = session(spec.clone());
    let label = label();
    let items = vec![s.encrypt(8, Level(1)); 3];
    let files = [
        (Kind::SecretKey, 1, s.secret_file(&label)),
        (Kind::PublicKey, 1, s.public_file(&label)),
        (Kind::EvaluationKeys, 5, s.keys_file(&label)),
        (Kind::Ciphertexts, 3, s.ciphertexts_file(&items, &label)),
    ];
    for (kind, count, file) in files {
        let reader = open(&file).unwrap();
        let info = reader.info();
        assert_eq!((info.kind, info.count, info.bytes), (kind, count, file.len() as u64));
        assert_eq!((info.format_version, &info.spec, &info.label), (1, &spec, &label));
        assert_eq!((info.key_id, info.params_id), (s.secret.id(), s.params.rlwe().id()));
        assert_eq!(reader.params().unwrap().rlwe(), s.params.rlwe());
    }
    assert_eq!(Kind::EvaluationKeys.to_string(), "evaluation keys");
}

#[test]
fn coefficients_of_the_secret_are_its_file() {
    for spec in specs(10) {
        let s = session(spec.clone());
        let parts = Parts::of(&s.secret_file(&Label::default()));
        let codes: Vec<u8> =
            (0..1024).map(|i| parts.sections[0][i / 4] >> (2 * (i % 4)) & 3).collect();
        assert!(codes.iter().all(|&c| c != 2));
        let weight = codes.iter().filter(|&&c| c != 0).count();
        match spec.secret {
            SecretDistribution::FixedWeight { h } => assert_eq!(weight, h as usize),
            // 2/3 of 1024 within five standard deviations.
            _ => assert!(weight.abs_diff(683) < 76),
        }
    }
}

fn mul(a: u64, b: u64, q: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(q)) as u64
}

fn pow(x: u64, e: u64, q: u64) -> u64 {
    (0..64).rev().fold(1, |y, bit| {
        let square = mul(y, y, q);
        if e >> bit & 1 == 1 { mul(square, x, q) } else { square }
    })
}

/// The powers of the least primitive `2n`-th root of unity modulo `q`.
fn roots(n: usize, q: u64) -> Vec<u64> {
    let order = 2 * n as u64;
    let powers = |x: u64| {
        std::iter::successors(Some(1), move |&y| Some(mul(x, y, q))).take(2 * n).collect::<Vec<_>>()
    };
    let mut candidates = (2..).map(|x| pow(x, (q - 1) / order, q));
    let any = candidates.find(|&psi| pow(psi, order / 2, q) == q - 1).unwrap();
    powers(powers(any).into_iter().skip(1).step_by(2).min().unwrap())
}

/// A public key from its file, opened with the secret key from its file, after
/// docs/file-format.md and docs/notes/randomness.md: transforms by definition,
/// nothing of the library but streams and sampling.
#[test]
fn a_public_key_means_what_the_documents_say() {
    for log_n in [9, 11] {
        let n = 1usize << log_n;
        let s = session(specs(log_n).swap_remove(0));
        let secret = Parts::of(&s.secret_file(&Label::default())).sections.remove(0);
        let public = Parts::of(&s.public_file(&Label::default())).sections.remove(0);
        let q = s.params.rlwe().spec().q[0][0];
        let roots = roots(n, q);
        let exponent = |k: usize| {
            let u = if n < 2048 { k } else { k - k % 2048 + 256 * (k % 8) + k % 2048 / 8 };
            2 * (u.reverse_bits() >> (usize::BITS - log_n)) + 1
        };
        let b = |k: usize| {
            let bytes = &public[32 + 7 * k..][..7];
            bytes.iter().rev().fold(0, |b, &byte| b << 8 | u64::from(byte))
        };
        let secret: Vec<u64> = (0..n)
            .map(|i| [0, 1, u64::MAX, q - 1][usize::from(secret[i / 4] >> (2 * (i % 4)) & 3)])
            .collect();
        let seed = Seed::from_bytes(public[..32].try_into().unwrap());
        let mut a = vec![0; n];
        let mut stream = Stream::new(&seed.derive("uniform", 0), "prime", q);
        sample::uniform(q, &mut stream, &mut a);
        // b + a s is the error: at each point, then by coefficients.
        let error = |k: usize| {
            let point = |i: usize| roots[exponent(k) * i % (2 * n)];
            let s = (0..n).fold(0, |sum, i| (sum + mul(secret[i], point(i), q)) % q);
            (b(k) + mul(a[k], s, q)) % q
        };
        let error: Vec<u64> = (0..n).map(error).collect();
        let n_inverse = pow(n as u64, q - 2, q);
        let coefficient = |i: usize| {
            let point = |k: usize| roots[(2 * n - exponent(k) * i % (2 * n)) % (2 * n)];
            let sum = (0..n).fold(0, |sum, k| (sum + mul(error[k], point(k), q)) % q);
            let c = mul(sum, n_inverse, q);
            if c > q / 2 { -((q - c) as f64) } else { c as f64 }
        };
        let error: Vec<f64> = (0..n).map(coefficient).collect();
        assert!(error.iter().all(|c| c.abs() <= 21.0));
        // Variance 10.5, within about three standard deviations of its estimate.
        let variance = error.iter().map(|c| c * c).sum::<f64>() / n as f64;
        assert!((8.5..12.5).contains(&variance), "{variance}");
    }
}

/// One byte at a time, as a slow pipe may, with interruptions.
struct Slow<'a>(&'a [u8], bool);

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(ErrorKind::Interrupted.into());
        }
        let len = out.len().min(1);
        self.0.read(&mut out[..len])
    }
}

/// Fails after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn any_stream_will_do_and_its_errors_arrive() {
    let s = session(specs(10).swap_remove(0));
    let file = s.public_file(&label());
    let reader = Reader::new(Slow(&file, false), file.len() as u64).unwrap();
    let public = Arc::new(reader.public_key(&s.params).unwrap());
    let same = Session { public, ..s };
    assert_eq!(same.public_file(&label()), file);
    for room in [0, 100, file.len() - 1] {
        let written =
            serial::write_public_key(&mut Full(room), &same.params, &same.public, &label());
        assert!(matches!(written, Err(Error::Io { kind: ErrorKind::StorageFull, .. })));
    }
    let out: &mut dyn Write = &mut Full(file.len());
    let written = serial::write_public_key(out, &same.params, &same.public, &label());
    assert_eq!(written, Ok(file.len() as u64));
}

#[test]
fn files_of_other_kinds_parameters_and_keys_are_refused() {
    let [narrow, wide, ..] = <[Spec; 4]>::try_from(specs(10)).unwrap();
    let s = session(narrow.clone());
    let other = session(wide);
    let none = Label::default();
    let file = s.secret_file(&none);
    let found = open(&file).unwrap().public_key(&s.params);
    let needed = Kind::PublicKey;
    assert_eq!(found.err(), Some(Error::WrongKind { found: Kind::SecretKey, needed }));
    let found = open(&file).unwrap().secret_key(&other.params);
    assert!(matches!(found, Err(Error::ParamsMismatch { what: "file", .. })));
    let mut out = Vec::new();
    let written = serial::write_secret_key(&mut out, &other.params, &s.secret, &none);
    assert!(matches!(written, Err(Error::ParamsMismatch { .. })));
    let mut keygen = KeyGenerator::from_seed(s.params.rlwe(), &seed(9));
    let stranger = keygen.secret_key().unwrap();
    let public = Arc::new(keygen.public_key(&stranger).unwrap());
    let a = s.encrypt(8, Level(1));
    let items = [a, Session { public, ..s }.encrypt(8, Level(1))];
    let params = Params::new(narrow).unwrap();
    let written = serial::write_ciphertexts(&mut out, &params, &items, &none);
    assert!(matches!(written, Err(Error::KeyMismatch { .. })));
    let written = serial::write_ciphertexts(&mut out, &params, &[], &none);
    assert!(matches!(written, Err(Error::InvalidSpec { field: "ciphertexts", .. })));
    let large = Label { meta: vec![0; 16 << 20], ..Label::default() };
    let written = serial::write_secret_key(&mut out, &params, &stranger, &large);
    assert!(matches!(written, Err(Error::InvalidSpec { field: "label", .. })));
    assert!(out.is_empty());
}

#[test]
fn a_large_label_is_kept() {
    let s = session(specs(10).swap_remove(0));
    let meta: Vec<u8> = (0..(16 << 20) - 15).map(|i: u32| (i ^ i >> 8) as u8).collect();
    let label = Label { meta, ..Label::default() };
    let file = s.secret_file(&label);
    assert_eq!(open(&file).unwrap().info().label, label);
    load(&file).unwrap();
}

#[test]
fn no_keys_are_a_file_too() {
    let params = Params::new(specs(10).swap_remove(0)).unwrap();
    let mut keygen = KeyGenerator::from_seed(params.rlwe(), &seed(1));
    let secret = keygen.secret_key().unwrap();
    let keys = keygen.evaluation_keys(&secret, &KeyRequest::new()).unwrap();
    let mut file = Vec::new();
    let none = Label::default();
    let bytes = serial::write_evaluation_keys(&mut file, &params, &keys, &none).unwrap();
    assert_eq!(serial::evaluation_keys_bytes(&params, &KeyRequest::new(), &none), Ok(bytes));
    let loaded = open(&file).unwrap().evaluation_keys(&params).unwrap();
    assert_eq!((loaded.fulfils().count(), loaded.id()), (0, secret.id()));
}

#[test]
fn keys_that_are_written_as_they_are_made_are_those_that_are_held() {
    let level_keys = Spec { insecure: true, ..Spec::uniform(10, 48.0, 2, 40.0, vec![50.0; 3]) };
    for s in [session_with_upper_keys(raised_spec(10)), session_with_level_keys(level_keys)] {
        let mut generator = KeyGenerator::from_seed(s.params.rlwe(), &seed(1));
        let secret = generator.secret_key().unwrap();
        let keys = generator.evaluation_keys(&secret, &s.request).unwrap();
        let mut held = Vec::new();
        serial::write_evaluation_keys(&mut held, &s.params, &keys, &label()).unwrap();

        let mut generator = KeyGenerator::from_seed(s.params.rlwe(), &seed(1)).small_keys(true);
        let secret = generator.secret_key().unwrap();
        let mut made = Vec::new();
        let mut counted = Vec::new();
        let owner = (&mut generator, &secret);
        let bytes = serial::generate_evaluation_keys(
            &mut made,
            &s.params,
            owner,
            &s.request,
            &label(),
            |count| counted.push(count),
        );
        assert_eq!(bytes, Ok(made.len() as u64));
        assert!(made == held);
        assert_eq!(counted, (1..=s.request.count()).collect::<Vec<_>>());
    }
}

#[test]
fn impossible_keys_have_no_size() {
    let params = Params::new(specs(10).swap_remove(0)).unwrap();
    let refused = |request: KeyRequest, expected: Error| {
        let label = Label::default();
        let in_file = serial::evaluation_keys_bytes(&params, &request, &label);
        assert_eq!(in_file, Err(expected.clone()));
        assert_eq!(request.bytes(params.rlwe()), Err(expected));
    };
    for found in [Level(params.top().0 + 1), Level(u32::MAX)] {
        let error = Error::LevelOutOfRange { found, max: params.top() };
        assert_eq!(params.rlwe().check_level(found), Err(error.clone()));
        refused(KeyRequest::new().relinearize(found), error.clone());
        refused(KeyRequest::new().rotations(10, [1], found), error);
    }
    let even = KeyRequest::new().automorphism(GaloisElement(2), Level(0));
    let problem = "2 is not an odd number below 2N = 2048".into();
    refused(even, Error::InvalidSpec { field: "galois", problem });
}

#[test]
fn a_file_cannot_lower_the_security_asked_for() {
    let s = session(specs(12).swap_remove(0));
    let file = s.public_file(&Label::default());
    let mut parts = Parts::of(&file);
    parts.spec.insecure = false;
    let found = open(&parts.seal()).unwrap().params();
    assert!(matches!(found, Err(Error::Insecure { .. })), "{found:?}");
    // In the other direction, the fingerprint differs.
    let spec = Spec::uniform(12, 40.0, 0, 30.0, vec![40.0]);
    let params = Params::new(spec).unwrap();
    let mut keygen = KeyGenerator::from_seed(params.rlwe(), &seed(1));
    let secret = keygen.secret_key().unwrap();
    let mut file = Vec::new();
    serial::write_secret_key(&mut file, &params, &secret, &Label::default()).unwrap();
    let mut parts = Parts::of(&file);
    parts.spec.insecure = true;
    let found = open(&parts.seal()).unwrap().params();
    assert!(matches!(found, Err(Error::ParamsMismatch { .. })), "{found:?}");
}

#[test]
fn scales_keep_both_parts() {
    let s = session(specs(10).swap_remove(0));
    let third = Scale::from_f64(2f64.powi(40)) / Scale::from_f64(3.0);
    let encoder = sudare::ckks::Encoder::new(&s.params);
    let plain = encoder.encode_at(&values(8), Level(1), third).unwrap();
    let encryptor = sudare::ckks::Encryptor::new(&s.params, Arc::clone(&s.public)).unwrap();
    let file = s.ciphertexts_file(&[encryptor.encrypt(&plain).unwrap()], &Label::default());
    let read = open(&file).unwrap().ciphertexts(&s.params).unwrap();
    let (hi, lo) = read[0].scale().into();
    assert!(lo != 0.0);
    assert_eq!((hi, lo), third.into());
}
