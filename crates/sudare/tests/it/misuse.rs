//! What a caller can get wrong is a typed error that says what to do.

use crate::session::Session;
use std::sync::{Arc, LazyLock};
use sudare::{
    Error,
    circuits::{
        LockStep, Ops,
        ckks::{ComplexOps, LinearTransform, Polynomial, cost, sim},
    },
    ckks::{
        Ciphertext, Complex, Decryptor, Encryptor, Evaluator, Params, Plaintext, ProductSum, Scale,
        Spec, UpperSpec,
    },
    rlwe::{
        self, GaloisElement, KeyGenerator, KeyRequest, Level, LevelKeys, Noise, Raise,
        SecretDistribution, UpperChain,
    },
};

const TOP: Level = Level(3);
/// Level of the key of the rotation by 3.
const LOW: Level = Level(1);

fn small(levels: usize) -> Spec {
    Spec { insecure: true, ..Spec::uniform(6, 50.0, levels, 40.0, vec![50.0, 41.0]) }
}

fn session(spec: Spec, request: &KeyRequest) -> Session {
    Session::new(Params::new(spec).unwrap(), request)
}

fn request() -> KeyRequest {
    KeyRequest::new().relinearize(TOP).rotations(6, [1], TOP).rotations(6, [3], LOW)
}

/// Keys of the same kinds under the same parameters, and others with two levels.
static ALICE: LazyLock<Session> = LazyLock::new(|| session(small(3), &request()));
static BOB: LazyLock<Session> = LazyLock::new(|| session(small(3), &request()));
static OTHER: LazyLock<Session> =
    LazyLock::new(|| session(small(2), &KeyRequest::new().relinearize(Level(2))));

/// Steps that these tests share.
trait Misused {
    fn encode_at(&self, values: &[f64], level: Level) -> Plaintext;
    fn encode(&self, values: &[f64]) -> Plaintext;
    fn encrypt(&self, values: &[f64]) -> Ciphertext;
}

impl Misused for Session {
    fn encode_at(&self, values: &[f64], level: Level) -> Plaintext {
        self.encoder.encode_real_at(values, level, self.params.scale_at(level)).unwrap()
    }

    fn encode(&self, values: &[f64]) -> Plaintext {
        self.encode_at(values, self.params.top())
    }

    fn encrypt(&self, values: &[f64]) -> Ciphertext {
        self.encryptor.encrypt(&self.encode(values)).unwrap()
    }
}

const VALUES: [f64; 32] = [0.5; 32];

/// The operation failed with exactly this error, whose message has these words.
#[track_caller]
fn refused<T>(result: Result<T, Error>, expected: Error, words: &[&str]) {
    let found = result.err().unwrap();
    assert_eq!(found, expected);
    says(&found, words);
}

#[track_caller]
fn says(error: &Error, words: &[&str]) {
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "`{message}` does not say `{word}`");
    }
}

/// Of every operation: `misuse_matrix.rs`. Here is what errors say.
#[test]
fn objects_of_another_key_or_other_parameters() {
    let s = &*ALICE;
    let stranger = &*BOB;
    let other = &*OTHER;
    let a = s.encrypt(&VALUES);
    let error = Error::KeyMismatch {
        what: "ciphertext",
        found: stranger.decryptor.key_id(),
        expected: s.decryptor.key_id(),
    };
    let words = ["ciphertext", "use objects of the same key pair"];
    let b = stranger.encrypt(&VALUES);
    refused(s.decryptor.decrypt(&b), error.clone(), &words);
    // Even if another evaluator hoisted it.
    let hoisted = stranger.evaluator.hoist(&b).unwrap();
    refused(s.evaluator.rotate_hoisted(&hoisted, 1), error.clone(), &words);
    refused(s.evaluator.rotate_hoisted(&hoisted, 0), error, &words);

    let error = |what| Error::ParamsMismatch {
        what,
        found: other.params.rlwe().id(),
        expected: s.params.rlwe().id(),
    };
    let words = ["use objects made under the same parameters"];
    let b = other.encrypt(&VALUES);
    refused(s.evaluator.add(&a, &b), error("ciphertext"), &words);
    refused(s.evaluator.add_plain(&a, &other.encode(&VALUES)), error("plaintext"), &words);
    let hoisted = other.evaluator.hoist(&b).unwrap();
    refused(s.evaluator.rotate_hoisted(&hoisted, 1), error("ciphertext"), &words);
    let mut keygen = KeyGenerator::new(other.params.rlwe()).unwrap();
    let secret = keygen.secret_key().unwrap();
    let public = Arc::new(keygen.public_key(&secret).unwrap());
    let keys = Arc::new(keygen.evaluation_keys(&secret, &KeyRequest::new()).unwrap());
    refused(Encryptor::new(&s.params, public), error("public key"), &words);
    refused(Evaluator::new(&s.params, keys), error("evaluation key"), &words);
    refused(Decryptor::new(&s.params, secret), error("secret key"), &words);
}

#[test]
fn keys_that_are_missing() {
    let s = &*ALICE;
    let a = s.encrypt(&VALUES);
    let galois = |k, rotation: &str, level| Error::MissingGaloisKey {
        element: GaloisElement::rotation(6, k),
        rotation: rotation.into(),
        level,
        key_level: None,
    };
    let words = ["add it to the KeyRequest"];
    let ev = &s.evaluator;
    refused(ev.rotate(&a, 2), galois(2, "rotation by 2", TOP), &words);
    refused(ev.rotate(&a, -1), galois(-1, "rotation by -1", TOP), &words);
    let hoisted = ev.hoist(&a).unwrap();
    refused(ev.rotate_hoisted(&hoisted, 2), galois(2, "rotation by 2", TOP), &words);
    let element = GaloisElement::conjugation(6);
    let rotation = "with conjugation".into();
    let error = Error::MissingGaloisKey { element, rotation, level: TOP, key_level: None };
    refused(ev.conjugate(&a), error, &["with conjugation", "level 3", "KeyRequest"]);
    // A key for 3 exists, at a lower level.
    let error = galois(3, "rotation by 3", TOP);
    refused(ev.rotate(&a, 3), error, &["rotation by 3", "at level 3"]);
    assert!(ev.rotate(&ev.drop_to(&a, LOW).unwrap(), 3).is_ok());

    let bare = session(small(3), &KeyRequest::new());
    let b = bare.encrypt(&VALUES);
    let error = || Error::MissingRelinearizationKey { level: TOP };
    let words = ["level 3", "add `relinearize`", "KeyRequest"];
    refused(bare.evaluator.mul(&b, &b), error(), &words);
    refused(bare.evaluator.mul_rescale(&b, &b), error(), &words);
    let low = session(small(3), &KeyRequest::new().relinearize(LOW));
    let c = low.encrypt(&VALUES);
    refused(low.evaluator.mul(&c, &c), error(), &words);
    assert!(low.evaluator.mul(&low.evaluator.drop_to(&c, LOW).unwrap(), &c).is_ok());
}

/// Levels 0 to 2 have level keys, the top has none.
#[test]
fn level_keys_above_their_level() {
    let spec = Spec { p_bits: vec![50.0; 4], ..small(3) };
    let params = Params::new(spec.clone()).unwrap();
    let request = KeyRequest::new().relinearize(LOW).rotations(6, [1], LOW);
    let level_keys = request.into_level_keys(params.rlwe());
    // Two primes of the chain, of six bytes, and two special ones, of seven; priced at their
    // own modulus.
    assert_eq!(
        (level_keys.count(), level_keys.bytes(params.rlwe())),
        (2, Ok(2 * 2 * (6 + 6 + 7 + 7) * 64))
    );
    let [price] = level_keys.key_security(params.rlwe()).unwrap().try_into().unwrap();
    assert!(price.what.contains("level") && (price.log2_q - 190.0).abs() < 0.1, "{price:?}");
    let s = session(spec, &level_keys);
    let a = s.encrypt(&VALUES);
    for level in [TOP, Level(2)] {
        let a = s.evaluator.drop_to(&a, level).unwrap();
        let ev = &s.evaluator;
        let words = [&*format!("level {level}"), "KeyRequest"];
        refused(ev.mul(&a, &a), Error::MissingRelinearizationKey { level }, &words);
        refused(ev.mul_many(&[(&a, &a)]), Error::MissingRelinearizationKey { level }, &words);
        let element = GaloisElement::rotation(6, 1);
        let rotation = "rotation by 1".to_owned();
        let missing = || Error::MissingGaloisKey {
            element,
            rotation: rotation.clone(),
            level,
            key_level: None,
        };
        refused(ev.rotate(&a, 1), missing(), &words);
        refused(ev.rotate_hoisted(&ev.hoist(&a).unwrap(), 1), missing(), &words);
    }
    for level in [LOW, Level(0)] {
        let a = s.evaluator.drop_to(&a, level).unwrap();
        assert!(s.evaluator.mul(&a, &a).is_ok() || level == Level(0));
        assert!(s.evaluator.rotate(&a, 1).is_ok());
    }

    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = keygen.secret_key().unwrap();
    let mut make = |level, keys: &LevelKeys| {
        let request =
            KeyRequest { level_keys: [(level, keys.clone())].into(), ..KeyRequest::new() };
        assert!(request.bytes(params.rlwe()).is_err());
        keygen.evaluation_keys(&secret, &request).map(drop).unwrap_err()
    };
    let relinearize = LevelKeys { relinearize: true, ..LevelKeys::default() };
    says(&make(TOP, &relinearize), &["level 3 has no level keys", "into_level_keys"]);
    assert_eq!(make(Level(4), &relinearize), Error::LevelOutOfRange { found: Level(4), max: TOP });
    says(&make(LOW, &LevelKeys::default()), &["level keys for level 1"]);
    let even = LevelKeys { galois: [GaloisElement(2)].into(), ..LevelKeys::default() };
    says(&make(LOW, &even), &["2 is not an odd number"]);
    // Without level keys, the evaluator looks for the others.
    let top = KeyRequest::new().relinearize(TOP).rotations(6, [1], Level(9));
    assert_eq!(top.clone().into_level_keys(params.rlwe()), top);
}

#[test]
fn key_requests_out_of_range() {
    let s = &*ALICE;
    let mut keygen = KeyGenerator::new(s.params.rlwe()).unwrap();
    let secret = keygen.secret_key().unwrap();
    let mut make = |request: &KeyRequest| keygen.evaluation_keys(&secret, request);
    let above = Error::LevelOutOfRange { found: Level(4), max: TOP };
    refused(make(&KeyRequest::new().relinearize(Level(4))), above.clone(), &["at most 3"]);
    refused(make(&KeyRequest::new().rotations(6, [1], Level(4))), above, &["at most 3"]);
    for element in [2, 128, 129, u32::MAX] {
        let request = KeyRequest::new().automorphism(GaloisElement(element), TOP);
        let problem = format!("{element} is not an odd number below 2N = 128");
        refused(make(&request), Error::InvalidSpec { field: "galois", problem }, &["odd"]);
    }
}

#[test]
fn levels_that_are_not_there() {
    let s = &*ALICE;
    let ev = &s.evaluator;
    let a = s.encrypt(&VALUES);
    let bottom = ev.drop_to(&a, Level(0)).unwrap();
    let exhausted = |op, needed, level| Error::LevelExhausted { op, needed, level };
    let words = ["needs 1 level,", "choose parameters with more levels, or bootstrap"];
    refused(ev.rescale(&bottom), exhausted("rescale", 1, Level(0)), &words);
    let fused = ev.mul_rescale(&a, &bottom);
    refused(fused, exhausted("multiply and rescale", 1, Level(0)), &words);
    let matched = ev.match_scale(&bottom, Level(0), a.scale());
    refused(matched, exhausted("match_scale", 1, Level(0)), &words);
    // The operand must be above the level of the result.
    let matched = ev.match_scale(&a, TOP, a.scale());
    refused(matched, exhausted("match_scale", TOP.0 + 1, TOP), &["needs 4 levels"]);
    let higher = ev.match_scale(&ev.drop_to(&a, LOW).unwrap(), Level(2), a.scale());
    refused(higher, exhausted("match_scale", 3, LOW), &["needs 3 levels"]);
    refused(
        ev.match_scale(&bottom, Level(u32::MAX), a.scale()),
        exhausted("match_scale", u32::MAX, Level(0)),
        &["more levels"],
    );

    let out_of_range = |found, max| Error::LevelOutOfRange { found, max };
    refused(ev.drop_to(&bottom, LOW), out_of_range(LOW, Level(0)), &["at most 0"]);
    let mut assigned = bottom.clone();
    refused(ev.drop_to_assign(&mut assigned, LOW), out_of_range(LOW, Level(0)), &["at most 0"]);
    let plain = s.encoder.encode_real_at(&VALUES, Level(9), a.scale());
    refused(plain, out_of_range(Level(9), TOP), &["level 9", "at most 3"]);
    let low = s.encode_at(&VALUES, Level(0));
    let noise = s.decryptor.measure_noise(&a, &low);
    refused(noise, out_of_range(TOP, Level(0)), &["out of range"]);
}

#[test]
fn scales_that_do_not_fit() {
    let s = &*ALICE;
    let ev = &s.evaluator;
    let a = s.encrypt(&VALUES);
    let product = ev.mul(&a, &a).unwrap();
    let mismatch = |op, left: &Ciphertext, right: &Ciphertext| Error::ScaleMismatch {
        op,
        left: left.scale().log2(),
        right: right.scale().log2(),
        levels: Some([left.level(), right.level()]),
    };
    let words = ["2^40.000000 at level 3", "2^80.000000 at level 3", "rescale", "match_scale"];
    refused(ev.add(&a, &product), mismatch("add", &a, &product), &words);
    refused(ev.add_assign(&mut a.clone(), &product), mismatch("add", &a, &product), &words);
    refused(ev.sub(&product, &a), mismatch("subtract", &product, &a), &words);
    let plain = ev.add_plain(&product, &s.encode(&VALUES));
    refused(plain, mismatch("add a plaintext", &product, &a), &["encode a plaintext at"]);
    // Digits that are not printed count, too.
    let near = ev.with_scale(&a, a.scale() * Scale::from_f64(1.0 + 1e-11)).unwrap();
    refused(ev.add(&a, &near), mismatch("add", &a, &near), &["by a factor of 1 + 1.0e-11"]);
    // From above, a product with 1 would multiply by 1.5 and round.
    let large = s.params.scale_at(LOW) * s.params.chain().divisor(Level(2)) / Scale::from_f64(1.5);
    let large = ev.with_scale(&ev.drop_to(&a, Level(2)).unwrap(), large).unwrap();
    let low = s.encode_at(&VALUES, LOW);
    let low = ev.drop_to(&s.encryptor.encrypt(&low).unwrap(), LOW).unwrap();
    refused(ev.add(&low, &large), mismatch("add", &low, &large), &["at level 2"]);
    let rounded = ev.match_scale(&large, LOW, low.scale()).err().unwrap();
    assert!(matches!(rounded, Error::ScaleOutOfRange { .. }), "{rounded}");

    let q = |level: Level| s.params.chain().log2_q(level);
    let range = |op, log2_scale, level| Error::ScaleOutOfRange { op, log2_scale, log2_q: q(level) };
    let words = ["modulus", "rescale first, or use a lower scale"];
    let low = ev.drop_to(&product, LOW).unwrap();
    let twice = product.scale() * product.scale();
    refused(ev.mul(&low, &low), range("multiply", twice.log2(), LOW), &words);
    refused(ev.mul_rescale(&low, &low), range("multiply", twice.log2(), LOW), &words);
    let plain = s.encoder.encode_real_at(&VALUES, LOW, product.scale()).unwrap();
    refused(ev.mul_plain(&low, &plain), range("multiply", twice.log2(), LOW), &words);
    let one = Complex { re: 1.0, im: 0.0 };
    let constant = ev.mul_const(&low, one, product.scale());
    refused(constant, range("multiply", twice.log2(), LOW), &words);
    let huge = Scale::from_log2(60.0);
    refused(
        s.encoder.encode_real_at(&VALUES, Level(0), huge),
        range("encode", 60.0, Level(0)),
        &words,
    );
    let factor = Scale::from_log2(20.0) * s.params.chain().divisor(LOW) / product.scale();
    assert!(factor.log2() < 0.0);
    let matched = ev.match_scale(&product, Level(0), Scale::from_log2(20.0));
    refused(matched, range("match_scale", factor.log2(), LOW), &["match_scale"]);

    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let bad = Scale::from_f64(bad);
        let errors = [
            s.encoder.encode_real_at(&VALUES, TOP, bad).err().unwrap(),
            ev.with_scale(&a, bad).err().unwrap(),
            ev.mul_const(&a, one, bad).err().unwrap(),
            ev.match_scale(&a, LOW, bad).err().unwrap(),
        ];
        for error in errors {
            assert!(matches!(error, Error::ScaleOutOfRange { .. }), "{bad:?}: {error}");
        }
    }
}

#[test]
fn values_that_do_not_fit() {
    let s = &*ALICE;
    let ev = &s.evaluator;
    let a = s.encrypt(&VALUES);
    let scale = s.params.scale_at(Level(0));
    let many = Error::TooManySlots { found: 33, slots: 32 };
    refused(
        s.encoder.encode_real_at(&[0.0; 33], TOP, scale),
        many,
        &["33", "32", "use several ciphertexts or a larger ring"],
    );
    let not_finite = |index, value: &str| Error::NotFinite { index, value: value.into() };
    let words = ["only finite numbers"];
    for (value, text) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf")] {
        let found = s.encoder.encode_real_at(&[1.0, 2.0, value], TOP, scale);
        refused(found, not_finite(2, text), &words);
        let found = s.encoder.encode_at(&[Complex { re: 1.0, im: value }], TOP, scale);
        says(&found.err().unwrap(), &["value 0", text]);
        let c = Complex { re: value, im: 0.0 };
        refused(ev.add_const(&a, c), not_finite(0, text), &words);
        refused(ev.mul_const(&a, c, scale), not_finite(0, text), &words);
        let c = Complex { re: 1.0, im: value };
        assert!(matches!(ev.add_const(&a, c), Err(Error::NotFinite { index: 0, .. })));
        assert!(matches!(ev.mul_const(&a, c, scale), Err(Error::NotFinite { index: 0, .. })));
    }

    // The error names the value, not a coefficient.
    let words = ["value 5", "scale the data down, or encode at a lower scale or higher level"];
    for large in [1e6, -1e6, 1e20, 1e300, f64::MAX] {
        let mut values = [0.25; 32];
        values[5] = large;
        let found = s.encoder.encode_real_at(&values, Level(0), scale).err().unwrap();
        assert!(matches!(found, Error::ValueTooLarge { index: 5, .. }), "{large}: {found}");
        says(&found, &words);
    }
    let bottom = ev.drop_to(&a, Level(0)).unwrap();
    let unit = Scale::from_log2(5.0);
    for (re, im) in [(1e6, 0.0), (-1e300, 0.0), (0.0, 1e6), (1.0, f64::MAX)] {
        let c = Complex { re, im };
        let sum = ev.add_const(&bottom, c);
        assert!(matches!(sum, Err(Error::ValueTooLarge { index: 0, .. })), "{c:?}");
        // Half the modulus has 49 bits: 2^44 times 2^5 is too large, and 2^20 is not.
        let product = ev.mul_const(&bottom, c, unit);
        assert_eq!(product.is_ok(), re.abs().max(im) < 44f64.exp2(), "{c:?}");
    }
    // Values that fit are decoded: at the edge of the modulus, and after ten small primes.
    let largest = 0.98 * (s.params.chain().log2_q(Level(0)) - 1.0 - scale.log2()).exp2();
    let plain = s.encoder.encode_real_at(&[largest], Level(0), scale).unwrap();
    assert!((s.encoder.decode_real(&plain).unwrap()[0] / largest - 1.0).abs() < 1e-9);
    let many = Spec { log_n: 4, q_bits: vec![vec![13.0; 10]], ..small(0) };
    let spec = Spec { log2_scale: 60.0, p_bits: vec![40.0], ..many };
    let s = session(spec, &KeyRequest::new());
    let large = 46f64.exp2();
    let plain = s.encode(&[large, -3.0 * large, 1.0, 0.0]);
    let opened = s.decryptor.decrypt(&s.encryptor.encrypt(&plain).unwrap()).unwrap();
    for plain in [plain, opened] {
        let found = s.encoder.decode_real(&plain).unwrap();
        assert!((found[1] / large + 3.0).abs() < 1e-6, "{found:?}");
    }
}

#[test]
fn slots_that_differ() {
    let s = &*ALICE;
    let a = s.encrypt(&VALUES);
    let b = s.encrypt(&VALUES[..4]);
    let error = Error::SlotMismatch { op: "add", found: 4, expected: 32 };
    refused(s.evaluator.add(&a, &b), error, &["4 slots", "32 are needed"]);
}

#[test]
fn parameters_that_are_insecure() {
    let spec = Spec { insecure: false, ..Spec::uniform(13, 50.0, 5, 40.0, vec![50.0]) };
    let error = Params::new(spec.clone()).unwrap_err();
    assert!(matches!(
        error,
        Error::Insecure { log_n: 13, security_bits, needed: 128.0, limit, .. }
            if security_bits < 128.0 && limit < 250.0
    ));
    says(&error, &["2^13", "larger ring or a shorter chain", "`insecure`"]);
    let accepted = Params::new(Spec { insecure: true, ..spec }).unwrap();
    assert!(accepted.rlwe().security_bits() < 128.0);
    // The secret counts.
    let dense = Spec::uniform(13, 50.0, 2, 40.0, vec![50.0]);
    assert!(Params::new(dense.clone()).is_ok());
    let sparse = Spec { secret: SecretDistribution::FixedWeight { h: 32 }, ..dense };
    assert!(matches!(Params::new(sparse), Err(Error::Insecure { .. })));
}

/// The field that the specification is refused for, and why.
#[track_caller]
fn invalid(spec: Spec) -> (&'static str, String) {
    let error = Params::new(spec).unwrap_err();
    let invalid = match &error {
        Error::InvalidSpec { field, problem } => Some((*field, problem.clone())),
        _ => None,
    };
    invalid.ok_or(error).unwrap()
}

#[test]
fn specifications_out_of_range() {
    for log_n in [0, 3, 18, 64, u32::MAX] {
        let (field, problem) = invalid(Spec { log_n, ..small(1) });
        assert_eq!(field, "log_n");
        assert!(problem.contains("4 to 17"), "{problem}");
    }
    for bits in [0.0, 7.9, 61.6, 1e9, -3.0, f64::NAN, f64::INFINITY] {
        let (field, problem) = invalid(Spec { q_bits: vec![vec![50.0], vec![bits]], ..small(1) });
        assert_eq!(field, "q_bits");
        assert!(problem.contains("8 to 61.5"), "{problem}");
        let (field, problem) = invalid(Spec { p_bits: vec![50.0, bits], ..small(1) });
        assert_eq!(field, "p_bits");
        assert!(problem.contains("8 to 61.5"), "{problem}");
    }
    for q_bits in [vec![], vec![vec![]], vec![vec![50.0], vec![]]] {
        assert_eq!(invalid(Spec { q_bits, ..small(1) }).0, "q_bits");
    }
    for log2_scale in [0.0, 121.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(invalid(Spec { log2_scale, ..small(1) }).0, "log2_scale");
    }
    let (field, problem) = invalid(Spec { p_bits: vec![], ..small(1) });
    assert_eq!(field, "p");
    assert!(problem.contains("at least one special prime"), "{problem}");
    let (field, problem) = invalid(Spec { p_bits: vec![30.0], ..small(1) });
    assert_eq!(field, "p");
    assert!(problem.contains("less than the largest prime"), "{problem}");
    for h in [0, 65, u32::MAX] {
        let secret = SecretDistribution::FixedWeight { h };
        let (field, problem) = invalid(Spec { secret, ..small(1) });
        assert_eq!(field, "secret");
        assert!(problem.contains("does not fit 2^6"), "{problem}");
    }
    // More primes of one size than exist, and more than are supported.
    let (field, problem) = invalid(Spec { q_bits: vec![vec![9.0; 30]], ..small(1) });
    assert_eq!(field, "q_bits");
    assert!(problem.contains("not enough primes"), "{problem}");
    for count in [129, 100_000] {
        let (field, problem) = invalid(small(count));
        assert_eq!(field, "q_bits");
        assert!(problem.contains("at most 128"), "{problem}");
        let (field, problem) = invalid(Spec { p_bits: vec![50.0; count], ..small(1) });
        assert_eq!(field, "p_bits");
        assert!(problem.contains("at most 128"), "{problem}");
    }
}

#[test]
fn primes_that_are_none() {
    let spec = |q: Vec<Vec<u64>>, p: Vec<u64>| rlwe::Spec {
        log_n: 4,
        q,
        p,
        upper: None,
        extra_p: vec![],
        secret: SecretDistribution::UniformTernary,
        security_bits: None,
    };
    let found = |q, p| rlwe::Params::new(spec(q, p)).unwrap_err();
    assert!(rlwe::Params::new(spec(vec![vec![97], vec![193]], vec![257])).is_ok());
    let twice = found(vec![vec![97], vec![97]], vec![257]);
    assert!(matches!(twice, Error::InvalidSpec { field: "q", .. }));
    says(&twice, &["97 is listed twice"]);
    assert!(matches!(found(vec![vec![97]], vec![97]), Error::InvalidSpec { .. }));
    // Composite, not 1 modulo 2N, even, and out of range.
    for (bad, word) in [(33, "root of unity"), (101, "1 modulo 2^5"), (98, "odd"), (0, "odd")] {
        let error = found(vec![vec![bad]], vec![257]);
        assert!(matches!(error, Error::Arith(_)), "{bad}: {error:?}");
        says(&error, &[word]);
    }
    for bad in [1 << 62, u64::MAX] {
        assert!(matches!(found(vec![vec![97]], vec![bad]), Error::Arith(_)));
    }
    let many = found(vec![vec![97]], vec![257; 129]);
    says(&many, &["p: 129 primes", "at most 128"]);
}

#[test]
fn polynomials_and_plans() {
    let words = ["interval", "two finite ends are needed, the lower first"];
    for (a, b) in [(1.0, 1.0), (1.0, -1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
        let problem = format!(
            "polynomial: interval from {a} to {b}: two finite ends are needed, the lower first"
        );
        let error = || Error::Circuit(problem.clone());
        refused(Polynomial::chebyshev(f64::exp, a..b, 5), error(), &words);
        refused(Polynomial::least_squares(f64::exp, a..b, 5), error(), &words);
        refused(Polynomial::chebyshev_series(vec![1.0], a..b), error(), &words);
    }
    for radius in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let found = Polynomial::taylor(vec![1.0, 1.0], radius);
        assert!(matches!(found, Err(Error::Circuit(_))));
    }
    let error = Error::NotFinite { index: 1, value: "NaN".into() };
    refused(Polynomial::monomial(vec![0.0, f64::NAN]), error, &["only finite"]);

    let s = &*ALICE;
    let chain = s.params.chain();
    let scale = s.params.scale_at(TOP);
    let deep = Polynomial::monomial(vec![0.1; 17]).unwrap().plan(chain, TOP, scale, scale);
    let error = Error::LevelExhausted { op: "polynomial", needed: 5, level: TOP };
    refused(deep, error, &["needs 5 levels", "ciphertext is at level 3"]);
    let square = Polynomial::monomial(vec![0.0, 0.0, 1.0]).unwrap();
    let above = square.plan(chain, Level(4), scale, scale);
    refused(above, Error::LevelOutOfRange { found: Level(4), max: TOP }, &["at most 3"]);
    let plan = square.plan(chain, TOP, scale, scale).unwrap();
    let a = s.encrypt(&VALUES);
    let low = s.evaluator.drop_to(&a, LOW).unwrap();
    let error = Error::LevelOutOfRange { found: TOP, max: LOW };
    refused(plan.run(&s.evaluator, &low), error, &["level 3"]);
    let read = s.evaluator.with_scale(&a, Scale::from_log2(39.0)).unwrap();
    let error = Error::ScaleMismatch { op: "polynomial", left: 39.0, right: 40.0, levels: None };
    refused(plan.run(&s.evaluator, &read), error, &["match_scale"]);
    // An evaluator with fewer levels than the plan and its ciphertext.
    let line = Polynomial::monomial(vec![0.0, 0.5]).unwrap();
    for plan in [plan, line.plan(chain, TOP, scale, scale).unwrap()] {
        let found = plan.run(&OTHER.evaluator, &a).err().unwrap();
        says(&found, &["plan with the chain of that evaluator"]);
    }
}

/// Rotations repeat with the slots, so a key that is too low does not hide another.
#[test]
fn rotations_take_any_key_that_does() {
    let keys = |far: i64| KeyRequest::new().rotations(6, [1], LOW).rotations(6, [far], TOP);
    for far in [1 + 4, 1 + 12, 1 - 4] {
        let s = session(small(3), &keys(far));
        let a = s.encrypt(&[1.0, 2.0, 3.0, 4.0]);
        let hoisted = s.evaluator.hoist(&a).unwrap();
        for k in [1, -3, 5] {
            for b in [s.evaluator.rotate(&a, k), s.evaluator.rotate_hoisted(&hoisted, k)] {
                let slots = s.decryptor.decrypt(&b.unwrap()).unwrap();
                let slots = s.encoder.decode_real(&slots).unwrap();
                let errors = slots.iter().zip([2.0, 3.0, 4.0, 1.0]).map(|(x, y)| (x - y).abs());
                assert!(errors.fold(0.0, f64::max) < 1e-6, "{slots:?}");
            }
        }
        assert!(s.evaluator.rotate(&s.evaluator.drop_to(&a, LOW).unwrap(), 1).is_ok());
        let element = GaloisElement::rotation(6, 2);
        let rotation = "rotation by 2".into();
        let error = Error::MissingGaloisKey { element, rotation, level: TOP, key_level: None };
        refused(s.evaluator.rotate(&a, 2), error, &["rotation by 2", "KeyRequest"]);
    }
}

const LOWEST: Level = Level(4);
const HIGHEST: Level = Level(5);
/// [`VALUES`].
const HALVES: [Complex<f64>; 32] = [Complex { re: 0.5, im: 0.0 }; 32];

/// Two levels above the top.
fn raised() -> Spec {
    let raised = UpperSpec { base_bits: vec![42.5; 4], levels_bits: vec![vec![45.0]; 2] };
    Spec { upper: Some(raised), p_bits: vec![50.0; 3], ..small(3) }
}

/// Keys for relinearisation and the rotation by 1 at the top and at the lowest upper level; for
/// the rotation by 2 at the lowest upper level alone, by 3 at the top alone, and by 4 made for
/// level 1.
static RAISED: LazyLock<Session> = LazyLock::new(|| {
    let params = Params::new(raised()).unwrap();
    let at = |level, steps: &[i64]| KeyRequest::new().rotations(6, steps.to_vec(), level);
    let mut keys = at(TOP, &[1, 3]).relinearize(TOP);
    keys |= at(LOWEST, &[1, 2]).relinearize(LOWEST).into_level_keys(params.rlwe());
    keys |= at(LOW, &[4]).into_level_keys(params.rlwe());
    assert_eq!(keys.level_keys.keys().copied().collect::<Vec<_>>(), [LOW, LOWEST]);
    Session::new(params, &keys)
});

/// What evaluators say of an operation.
type Said = (String, Option<Error>);

/// What an evaluator says of operations on ciphertexts of one scale at any two levels.
fn across<E: ComplexOps>(e: &E, xs: &[E::Ct], matrices: &[E::Matrix]) -> Vec<Said> {
    let mut said = Vec::new();
    let unit = Scale::from_log2(20.0);
    let one = Complex { re: 1.0, im: 0.0 };
    for a in xs {
        for b in xs {
            let square = e.mul(b, b).unwrap();
            let plus = |x, y, z| ProductSum { products: vec![(x, y)], addend: Some(z) };
            let other_scale = e.mul_const(a, one, unit).unwrap();
            let run = LockStep::new(e).run(&[a.clone(), b.clone()], |_, x| Ok(x.clone()));
            let errors = [
                ("add", e.add(a, b).err()),
                ("add, other scale", e.add(&other_scale, b).err()),
                ("sub", e.sub(a, b).err()),
                ("mul", e.mul(a, b).err()),
                ("mul_rescale", e.mul_rescale(a, b).err()),
                ("mul_many", e.mul_many(&[(a, a), (a, b)]).err()),
                ("mul_rescale_many", e.mul_rescale_many(&[(a, b), (b, b)]).err()),
                ("mul_sum_rescale", e.mul_sum_rescale(&plus(a, a, &square)).err()),
                ("mul_sum_rescale of both", e.mul_sum_rescale(&plus(a, b, &square)).err()),
                ("mul_const_sum", e.mul_const_sum(&[(a, 0.5, unit), (b, 0.25, unit)]).err()),
                ("lock step", run.err()),
            ];
            let x = e.level(a);
            let y = e.level(b);
            said.extend(errors.map(|(op, error)| (format!("{op} {x} {y}"), error)));
        }
        for (i, matrix) in matrices.iter().enumerate() {
            let op = format!("transform {} {i}", e.level(a));
            said.push((op.clone(), e.transform(a, matrix).err()));
            said.push((op, e.transform_many(&[a, a], matrix).err()));
        }
        for to in [0, 1, 3, 4, 5, 6, u32::MAX].map(Level) {
            let from = e.level(a);
            said.push((format!("drop {from} {to}"), e.drop_to(&mut a.clone(), to).err()));
            said.push((format!("raise {from} {to}"), e.mod_raise(a, to, None).err()));
        }
    }
    said
}

/// Level 0 raised to `level`, or dropped to it from the top.
fn at<E: ComplexOps>(e: &E, fresh: &E::Ct, level: Level) -> E::Ct {
    let mut a = fresh.clone();
    if level > TOP {
        a = e.mod_raise(&a, level, None).unwrap();
    } else {
        e.drop_to(&mut a, level).unwrap();
    }
    e.with_scale(&a, Scale::from_log2(30.0)).unwrap()
}

#[test]
fn ciphertexts_without_primes_in_common() {
    let params = Params::new(raised()).unwrap();
    let scale = Scale::from_log2(30.0);
    let diagonals = [(0, vec![Complex { re: 0.5, im: 0.0 }; 32]), (1, HALVES.to_vec())];
    let matrix = LinearTransform::new(5, diagonals.into()).unwrap();
    let levels = [LOW, TOP, LOWEST, HIGHEST];
    let plans = levels.map(|l| matrix.plan(6, params.chain(), l, scale, scale).unwrap());
    let mut keys = KeyRequest::new();
    for (plan, level) in plans.iter().zip(levels) {
        let own = plan.required_keys().clone().relinearize(level);
        keys |= if level > TOP { own.into_level_keys(params.rlwe()) } else { own };
    }
    let s = Session::new(params.clone(), &keys);
    let ev = &s.evaluator;
    let fresh = s.encrypt(&VALUES);
    let xs = levels.map(|level| at(ev, &fresh, level));
    let matrices = plans.each_ref().map(|plan| ev.prepare(plan).unwrap());
    let said = across(ev, &xs, &matrices);

    let level_of = |word: &str| Level(word.parse().unwrap());
    for (op, error) in &said {
        let words: Vec<_> = op.split(' ').collect();
        let [.., x, y] = words[..] else { panic!("{op}") };
        let x = level_of(x);
        let mut y = level_of(y);
        let expected = match words[0] {
            "raise" if x > TOP => Some((x, Level(0))),
            "raise" => None,
            "transform" | "drop" => {
                if words[0] == "transform" {
                    y = levels[y.index()];
                }
                (x > TOP && y <= TOP).then_some((x, y))
            }
            _ => ((x > TOP) != (y > TOP)).then_some((x.max(y), x.min(y))),
        };
        if let Some((found, needed)) = expected {
            let expected = Error::RaisedLevel { found, needed, top: TOP };
            assert_eq!(error.as_ref(), Some(&expected), "{op}");
            let words = ["other primes", &*format!("rescale to level {TOP} first")];
            says(&expected, &words);
        } else if words[0] == "drop" || words[0] == "transform" {
            let refused = Error::LevelOutOfRange { found: y, max: x };
            assert_eq!(error.clone(), (y > x).then_some(refused), "{op}");
        } else if words[0] == "raise" {
            let refused = Error::LevelOutOfRange { found: y, max: HIGHEST };
            assert_eq!(error.clone(), (y > HIGHEST).then_some(refused), "{op}");
        } else if words[1] == "other" && x >= y {
            // The first operand has the larger scale, which a product with an integer must not
            // reduce.
            let mismatched = matches!(error, Some(Error::ScaleMismatch { .. }));
            assert!(mismatched || x > y && error.is_none(), "{op}: {error:?}");
        } else {
            assert_eq!(*error, None, "{op}");
        }
    }

    // The simulators refuse the same.
    let clear = sim::Evaluator::new(6, params.chain().clone());
    let zeros = clear.encrypt(&HALVES, TOP, fresh.scale()).unwrap();
    let xs = levels.map(|level| at(&clear, &zeros, level));
    let kinds = |said: Vec<Said>| -> Vec<_> {
        said.into_iter().map(|(op, e)| (op, e.as_ref().map(core::mem::discriminant))).collect()
    };
    assert_eq!(kinds(across(&clear, &xs, &plans)), kinds(said.clone()));
    let work = cost::Evaluator::new(&params, &keys);
    assert_eq!(kinds(across(&work, &xs, &plans)), kinds(said));
}

/// By the inherent methods, beside what [`Ops`] has.
#[test]
fn objects_without_primes_in_common() {
    let s = &*RAISED;
    let ev = &s.evaluator;
    let fresh = s.encrypt(&VALUES);
    let [low, top, lowest, highest] = [LOW, TOP, LOWEST, HIGHEST].map(|l| at(ev, &fresh, l));
    let raised = |found, needed| Error::RaisedLevel { found, needed, top: TOP };
    let out = |found, max| Error::LevelOutOfRange { found, max };
    let words = ["other primes", "rescale to level 3 first"];
    refused(ev.add_assign(&mut top.clone(), &lowest), raised(LOWEST, TOP), &words);
    refused(ev.add_assign(&mut highest.clone(), &low), raised(HIGHEST, LOW), &words);
    for level in [LOW, TOP] {
        let assigned = ev.drop_to_assign(&mut highest.clone(), level);
        refused(assigned, raised(HIGHEST, level), &words);
    }
    let scale = top.scale();
    for (a, other) in [(&top, LOWEST), (&low, HIGHEST), (&lowest, TOP), (&highest, Level(0))] {
        let plain = s.encoder.encode_real_at(&VALUES, other, scale).unwrap();
        assert_eq!(s.encoder.decode_real(&plain).unwrap().len(), 32);
        let error = raised(a.level().max(other), a.level().min(other));
        refused(ev.add_plain(a, &plain), error.clone(), &words);
        refused(ev.mul_plain(a, &plain), error, &words);
    }
    let plain = |level| s.encoder.encode_real_at(&VALUES, level, scale).unwrap();
    for level in [LOWEST, HIGHEST] {
        refused(s.encryptor.encrypt(&plain(level)), out(level, TOP), &["at most 3"]);
    }
    // Decryption reads all of this chain.
    let noise = s.decryptor.measure_noise(&top, &plain(LOWEST));
    refused(noise, raised(LOWEST, TOP), &words);
    refused(s.decryptor.measure_noise(&lowest, &plain(TOP)), out(LOWEST, TOP), &["at most 3"]);
    assert!(s.decryptor.measure_noise(&highest, &plain(LOWEST)).is_ok());
    assert_eq!(
        s.encoder.encode_real_at(&VALUES, Level(6), scale).err(),
        Some(out(Level(6), HIGHEST))
    );

    // Down to the top and no further, because of its primes.
    assert_eq!(ev.match_scale(&highest, TOP, scale).unwrap().level(), TOP);
    assert_eq!(ev.match_scale(&highest, LOWEST, scale).unwrap().level(), LOWEST);
    refused(ev.match_scale(&highest, LOW, scale), raised(HIGHEST, Level(2)), &words);
    refused(ev.match_scale(&lowest, Level(0), scale), raised(LOWEST, LOW), &words);
    let needs = |needed, level| Error::LevelExhausted { op: "match_scale", needed, level };
    refused(ev.match_scale(&top, LOWEST, scale), needs(LOWEST.0 + 1, TOP), &["needs 5 levels"]);
    // A ciphertext of parameters with more levels.
    let foreign = OTHER.evaluator.match_scale(&lowest, TOP, scale).unwrap_err();
    assert!(matches!(foreign, Error::ParamsMismatch { what: "ciphertext", .. }));
}

/// Raising reads the primes of level 0.
#[test]
fn raised_ciphertexts_are_not_raised_again() {
    let params = Params::new(raised()).unwrap();
    let scale = Scale::from_log2(30.0);
    let weight = 8;
    let matrix = LinearTransform::new(5, [(1, vec![Complex { re: 0.5, im: 0.0 }; 32])].into());
    let matrix = matrix.unwrap();
    let plan = matrix
        .plan_raised(6, params.chain(), Raise::to(HIGHEST).with_weight(weight), [scale; 2])
        .unwrap();
    let s = Session::new(params.clone(), plan.required_keys());
    let ev = &s.evaluator;
    let clear = sim::Evaluator::new(6, params.chain().clone()).with_ephemeral_secret(weight);
    let weights = ev.prepare(&plan).unwrap();
    let fresh = s.encrypt(&VALUES);
    let zeros = clear.encrypt(&HALVES, TOP, fresh.scale()).unwrap();
    let low = ev.with_scale(&fresh, scale).unwrap();
    let low_zeros = clear.with_scale(&zeros, scale).unwrap();
    assert!(ev.raise_transform(&low, &weights).is_ok());
    assert!(clear.raise_transform(&low_zeros, &plan).is_ok());
    for level in [LOWEST, HIGHEST] {
        let error = || Error::RaisedLevel { found: level, needed: Level(0), top: TOP };
        let a = at(ev, &fresh, level);
        let b = at(&clear, &zeros, level);
        refused(ev.raise_transform(&a, &weights), error(), &["rescale to level 3"]);
        refused(ev.raise_transform_many(&[&low, &a], &weights), error(), &["level 0"]);
        refused(clear.raise_transform(&b, &plan), error(), &["rescale to level 3"]);
        refused(ev.mod_raise(&a, level), error(), &["rescale to level 3"]);
        refused(clear.mod_raise(&b, level, None), error(), &["rescale to level 3"]);
    }
    // Keys for one section of levels do not serve the other.
    let chain =
        Session::new(params.clone(), &KeyRequest::new().raise(Raise::to(TOP).with_weight(weight)));
    let missing = |level, found| Error::MissingRaisingKey { level, found: Some(found) };
    let a = chain.encrypt(&VALUES);
    for level in [LOWEST, HIGHEST] {
        refused(chain.evaluator.mod_raise(&a, level), missing(level, TOP), &["to level 3"]);
    }
    let weights = chain.evaluator.prepare(&plan).unwrap();
    let a = chain.evaluator.with_scale(&a, scale).unwrap();
    let found = chain.evaluator.raise_transform(&a, &weights);
    refused(found, missing(HIGHEST, TOP), &["to level 3"]);
    for level in [LOW, TOP] {
        refused(ev.mod_raise(&fresh, level), missing(level, HIGHEST), &["to level 5"]);
    }
}

#[test]
fn keys_of_the_other_levels_are_missing() {
    let s = &*RAISED;
    let ev = &s.evaluator;
    let fresh = s.encrypt(&VALUES);
    let missing = |k, level, key_level| Error::MissingGaloisKey {
        element: GaloisElement::rotation(6, k),
        rotation: format!("rotation by {k}"),
        level,
        key_level,
    };
    let words = ["add it to the KeyRequest"];
    for level in [LOW, TOP, LOWEST, HIGHEST] {
        let a = at(ev, &fresh, level);
        let hoisted = ev.hoist(&a).unwrap();
        for (k, there) in [
            (1, level <= LOWEST),
            (2, level == LOWEST),
            (3, level <= TOP),
            (4, level <= LOW),
            (5, false),
        ] {
            let group = [GaloisElement(1), GaloisElement::rotation(6, k)];
            for found in [
                ev.rotate(&a, k),
                ev.rotate_hoisted(&hoisted, k),
                ev.sum_automorphisms(&a, &[&group, &group[1..]]),
            ] {
                match there {
                    true => assert_eq!(found.unwrap().level(), level),
                    false => refused(found, missing(k, level, None), &words),
                }
            }
        }
        let products = [
            ev.mul(&a, &a).err(),
            ev.mul_rescale(&a, &a).err(),
            ev.mul_many(&[(&a, &a); 3]).err(),
            ev.mul_sum_rescale(&ProductSum { products: vec![(&a, &a); 2], addend: None }).err(),
        ];
        let error = (level == HIGHEST).then_some(Error::MissingRelinearizationKey { level });
        assert_eq!(products, [(); 4].map(|()| error.clone()));
    }
    // A rotation for which only keys of the other section exist.
    let bare = |keys: KeyRequest| Session::new(s.params.clone(), &keys);
    let at_level = |level| KeyRequest::new().relinearize(level).rotations(6, [1], level);
    let above = bare(at_level(HIGHEST).into_level_keys(s.params.rlwe()));
    let below = bare(at_level(TOP));
    for (s, has, lacks) in [(&above, LOWEST, TOP), (&below, TOP, LOWEST)] {
        let a = s.encrypt(&VALUES);
        let [has, a] = [has, lacks].map(|level| at(&s.evaluator, &a, level));
        assert!(s.evaluator.rotate(&has, 1).is_ok() && s.evaluator.mul(&has, &has).is_ok());
        refused(s.evaluator.rotate(&a, 1), missing(1, lacks, None), &words);
        let error = Error::MissingRelinearizationKey { level: lacks };
        refused(s.evaluator.mul(&a, &a), error, &["KeyRequest"]);
    }
}

#[test]
fn keys_of_raised_levels_are_level_keys() {
    let params = RAISED.params.clone();
    let rlwe = params.rlwe();
    let mut keygen = KeyGenerator::new(rlwe).unwrap();
    let secret = keygen.secret_key().unwrap();
    let mut make = |request: &KeyRequest| {
        let found = keygen.evaluation_keys(&secret, request).map(drop);
        assert_eq!(request.bytes(rlwe).err(), found.clone().err());
        assert_eq!(request.key_security(rlwe).err(), found.clone().err());
        found
    };
    let out = |found, max| Err(Error::LevelOutOfRange { found, max });
    for level in [LOWEST, HIGHEST, Level(6), Level(u32::MAX)] {
        let relinearize = KeyRequest::new().relinearize(level);
        let rotation = KeyRequest::new().rotations(6, [1], level);
        for request in [relinearize, rotation] {
            assert_eq!(make(&request), out(level, TOP));
            let level_keys = request.clone().into_level_keys(rlwe);
            if level <= HIGHEST {
                assert_eq!(level_keys.level_keys.keys().collect::<Vec<_>>(), [&level]);
                assert_eq!(make(&level_keys), Ok(()));
            } else {
                assert_eq!((&level_keys, make(&level_keys)), (&request, out(level, TOP)));
            }
        }
    }
    for found in [Level(6), Level(u32::MAX)] {
        let keys = LevelKeys { relinearize: true, ..LevelKeys::default() };
        let request = KeyRequest { level_keys: [(found, keys)].into(), ..KeyRequest::new() };
        assert_eq!(make(&request), out(found, HIGHEST));
        assert_eq!(
            make(&KeyRequest::new().raise(Raise::to(found).with_weight(8))),
            out(found, HIGHEST)
        );
    }
    let none =
        KeyRequest { level_keys: [(HIGHEST, LevelKeys::default())].into(), ..KeyRequest::new() };
    says(&make(&none).unwrap_err(), &["level keys for level 5"]);
    for level in [LOWEST, HIGHEST] {
        assert_eq!(rlwe.check_level(level), Ok(()));
        assert_eq!(rlwe.check_chain_level(level), out(level, TOP));
    }
    assert_eq!(rlwe.check_level(Level(6)), out(Level(6), HIGHEST));
}

/// Predictions are numbers for levels and keys that do not go together, too.
#[test]
fn predictions_do_not_panic() {
    // The key of the upper level has a special prime of 31 bits, level 0 a prime of 60.
    let prime = |below: u64, skip: usize| {
        let primes = (1..below).rev().filter(|n| n % 32 == 1 && sudare_arith::is_prime(*n));
        primes.take(skip + 1).last().unwrap()
    };
    let narrow: Vec<u64> = (0..4).map(|skip| prime(1 << 31, skip)).collect();
    let spec = rlwe::Spec {
        log_n: 4,
        q: vec![vec![prime(1 << 60, 0)]],
        upper: Some(UpperChain { base: vec![narrow[2]], levels: vec![vec![narrow[3]]] }),
        p: vec![narrow[0], 97, narrow[1]],
        extra_p: vec![],
        secret: SecretDistribution::UniformTernary,
        security_bits: None,
    };
    let params = rlwe::Params::new(spec).unwrap();
    assert_eq!(params.level_key_limbs(Level(1)).unwrap().p(), 1);
    for params in [&params, RAISED.params.rlwe()] {
        for level in [0, 1, 2, 3, 4, 5, 6, u32::MAX].map(Level) {
            let mut all = vec![Noise::key_switch(params, level)];
            all.push(Noise::fresh(params).rescaled(params, level));
            for key_level in [0, 1, 2, 3, 4, 5, 6, u32::MAX].map(Level) {
                all.push(Noise::level_key_switch(params, level, key_level));
            }
            assert!(all.iter().all(|noise| noise.log2_sd().is_finite()));
        }
    }
}

#[test]
fn raised_levels_out_of_range() {
    let good = raised();
    let with = |change: &dyn Fn(&mut UpperSpec)| {
        let mut spec = good.clone();
        change(spec.upper.as_mut().unwrap());
        spec
    };
    let refused = |change: &dyn Fn(&mut UpperSpec)| invalid(with(change));
    assert_eq!(Params::new(good.clone()).unwrap().upper_top(), HIGHEST);
    // The chain has 170 bits.
    for base in [vec![], vec![42.5; 3], vec![42.5; 5], vec![50.0, 60.0, 60.51], vec![169.0]] {
        let (field, problem) = refused(&|raised| raised.base_bits = base.clone());
        assert_eq!(field, "upper");
        assert!(problem.contains("170.00") && problem.contains("half a bit"), "{problem}");
    }
    for base in [vec![56.5; 3], vec![57.0, 57.0, 56.0], vec![42.5, 42.5, 42.5, 42.9]] {
        assert!(Params::new(with(&|raised| raised.base_bits = base.clone())).is_ok(), "{base:?}");
    }
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -42.5] {
        assert_eq!(refused(&|raised| raised.base_bits[1] = bad).0, "upper", "{bad}");
        let (field, _) = refused(&|raised| raised.levels_bits[1][0] = bad);
        assert_eq!(field, "q_bits", "{bad}");
        let mut spec = good.clone();
        spec.q_bits[2][0] = bad;
        invalid(spec);
    }
    for levels in [vec![], vec![vec![]], vec![vec![45.0], vec![]]] {
        let (field, problem) = refused(&|raised| raised.levels_bits = levels.clone());
        assert_eq!(field, "upper");
        assert!(problem.contains("one prime or more"), "{problem}");
    }
    // Sizes of single primes, as in the chain.
    for bits in [7.9, 61.6, 1e9] {
        let (field, problem) = refused(&|raised| raised.levels_bits[0] = vec![45.0, bits]);
        assert_eq!(field, "q_bits");
        assert!(problem.contains("8 to 61.5"), "{problem}");
        let (_, problem) = refused(&|raised| raised.base_bits = vec![bits, 170.0 - bits]);
        assert!(problem.contains("8 to 61.5") || problem.contains("half a bit"), "{problem}");
    }
    let (field, problem) = refused(&|raised| raised.levels_bits[1] = vec![60.0; 13]);
    assert_eq!(field, "q_bits");
    assert!(problem.contains("level 5 has 780 bits"), "{problem}");
    // Together with the primes of the chain there are too many, in all ways.
    for levels in [vec![vec![45.0]; 121], vec![vec![45.0]; 100_000], vec![vec![20.0; 36]; 4]] {
        let (field, problem) = refused(&|raised| raised.levels_bits = levels.clone());
        assert_eq!(field, "q_bits");
        assert!(problem.contains("at most 128"), "{problem}");
    }
    let (field, problem) = refused(&|raised| raised.levels_bits = vec![vec![9.0; 30]]);
    assert_eq!(field, "q_bits");
    assert!(problem.contains("not enough primes"), "{problem}");
    // Special primes that cover the primes of the chain, but not those above.
    let spec = Spec { p_bits: vec![50.5], ..good.clone() };
    let (field, problem) = invalid(Spec {
        upper: Some(UpperSpec { base_bits: vec![57.0, 57.0, 56.0], levels_bits: vec![vec![45.0]] }),
        ..spec.clone()
    });
    assert_eq!(field, "p");
    assert!(problem.contains("less than the largest prime"), "{problem}");
    assert!(Params::new(spec).is_ok());

    // The modulus of the highest level counts: 2^14 has room for 430 bits.
    let chain = Spec::uniform(14, 50.0, 4, 50.0, vec![50.5]);
    assert!(Params::new(chain.clone()).is_ok());
    let raised =
        |count| UpperSpec { base_bits: vec![50.0; 5], levels_bits: vec![vec![50.0]; count] };
    let with = |count| Spec { upper: Some(raised(count)), ..chain.clone() };
    let params = Params::new(with(2)).unwrap();
    let prices = params.rlwe().key_security();
    assert!(params.rlwe().security_bits() >= 128.0 && prices.len() == 3);
    assert!((prices[2].log2_q - 400.0).abs() < 1.0, "{prices:?}");
    let error = Params::new(with(3)).unwrap_err();
    assert!(matches!(&error, Error::Insecure { log_n: 14, log2_qp, .. } if *log2_qp > 440.0));
    says(&error, &["upper level", "`insecure`"]);
    let accepted = Params::new(Spec { insecure: true, ..with(3) }).unwrap();
    assert!(accepted.rlwe().security_bits() < 128.0);
}

#[test]
fn raised_primes_that_are_none() {
    let spec = |base: Vec<u64>, levels: Vec<Vec<u64>>| rlwe::Spec {
        log_n: 4,
        q: vec![vec![97], vec![193]],
        p: vec![257],
        upper: Some(UpperChain { base, levels }),
        extra_p: vec![12289],
        secret: SecretDistribution::UniformTernary,
        security_bits: None,
    };
    let found = |base, levels| rlwe::Params::new(spec(base, levels)).unwrap_err();
    assert!(rlwe::Params::new(spec(vec![353], vec![vec![449]])).is_err());
    let params = rlwe::Params::new(rlwe::Spec { p: vec![577], ..spec(vec![353], vec![vec![449]]) });
    assert_eq!(params.unwrap().upper_top(), Level(2));
    for (base, levels, twice) in [
        (vec![97], vec![vec![449]], 97),
        (vec![353], vec![vec![193]], 193),
        (vec![353], vec![vec![353]], 353),
        (vec![353, 353], vec![vec![449]], 353),
        (vec![353], vec![vec![449, 449]], 449),
        (vec![353], vec![vec![257]], 257),
        (vec![12289], vec![vec![449]], 12289),
    ] {
        says(&found(base, levels), &[&format!("{twice} is listed twice")]);
    }
    for (base, levels) in [
        (vec![], vec![vec![449]]),
        (vec![353], vec![]),
        (vec![353], vec![vec![]]),
        (vec![353], vec![vec![449], vec![]]),
    ] {
        let error = found(base, levels);
        assert!(matches!(error, Error::InvalidSpec { field: "upper", .. }), "{error:?}");
    }
    for (bad, word) in [(33, "root of unity"), (101, "1 modulo 2^5"), (98, "odd"), (0, "odd")] {
        for (base, level) in [(bad, 449), (353, bad)] {
            let spec = rlwe::Spec { p: vec![577], ..spec(vec![base], vec![vec![level]]) };
            says(&rlwe::Params::new(spec).unwrap_err(), &[word]);
        }
    }
    says(&found(vec![353; 126], vec![vec![449]]), &["q: 129 primes", "at most 128"]);
}

/// A polynomial whose powers lie on both sides of the top is refused, before or when it runs.
#[test]
fn polynomials_across_the_top() {
    let s = &*RAISED;
    let chain = s.params.chain();
    let scale = Scale::from_log2(30.0);
    let clear = sim::Evaluator::new(6, chain.clone());
    let fresh = clear.encrypt(&HALVES, TOP, s.params.scale_at(TOP)).unwrap();
    let mut refused = 0;
    for degree in 1..8 {
        let p = Polynomial::monomial(vec![0.1; degree + 1]).unwrap();
        for level in [LOWEST, HIGHEST] {
            match p.plan(chain, level, scale, scale) {
                Ok(plan) => drop(plan.run(&clear, &at(&clear, &fresh, level)).unwrap()),
                Err(Error::RaisedLevel { .. }) => refused += 1,
                Err(_) => {}
            }
        }
    }
    assert!(refused > 0);
}
