use crate::{assert_listed, section};
use std::io;
use sudare::{
    Error,
    exact::serial::Kind,
    rlwe::{GaloisElement, KeyId, Level, ParamsId},
};

fn keys() -> Vec<Error> {
    vec![
        Error::Arith(sudare_arith::Error::Threads(0)),
        Error::InvalidSpec {
            field: "log_n",
            problem: "18 is out of range: 4 to 17 are supported".into(),
        },
        Error::UnknownPreset { name: "n99".into(), known: "n13, n14, n15".into() },
        Error::Insecure {
            what: "the secret key".into(),
            log2_qp: 300.0,
            log_n: 13,
            security_bits: 90.3,
            needed: 128.0,
            limit: 218.0,
        },
        Error::ParamsMismatch {
            what: "ciphertext",
            found: ParamsId(0x0123_4567_89ab_cdef),
            expected: ParamsId(0x0f1e_2d3c_4b5a_6978),
        },
        Error::KeyMismatch {
            what: "ciphertext",
            found: KeyId(0xfedc_ba98_7654_3210),
            expected: KeyId(0x0022_4466_88aa_ccee),
        },
        Error::Forked { what: "secret key" },
        Error::OtherShare { party: 2 },
        Error::NoErrorBound { log2_norm: f64::INFINITY, most: 35.2 },
        Error::MissingRelinearizationKey { level: Level(3) },
        Error::MissingGaloisKey {
            element: GaloisElement(5),
            rotation: "rotation by 1".into(),
            level: Level(3),
            key_level: None,
        },
        Error::MissingGaloisKey {
            element: GaloisElement(16_383),
            rotation: "conjugation".into(),
            level: Level(1),
            key_level: Some(Level(2)),
        },
        Error::MissingRaisingKey { level: Level(9), found: None },
        Error::MissingRaisingKey { level: Level(9), found: Some(Level(7)) },
        Error::RaisingDivisorMismatch { found: 1, needed: 65_537 },
        Error::EphemeralSecretMismatch { found: None, needed: 32 },
        Error::EphemeralSecretMismatch { found: Some(48), needed: 32 },
    ]
}

fn operands() -> Vec<Error> {
    vec![
        Error::LevelExhausted { op: "multiply", needed: 2, level: Level(1) },
        Error::LevelOutOfRange { found: Level(9), max: Level(5) },
        Error::RaisedLevel { found: Level(9), needed: Level(3), top: Level(5) },
        Error::ScaleMismatch { op: "polynomial", left: 40.0, right: 40.25, levels: None },
        Error::ScaleMismatch {
            op: "add",
            left: 40.0,
            right: 40.0 + 1e-9,
            levels: Some([Level(3); 2]),
        },
        Error::ScaleOutOfRange { op: "multiply", log2_scale: 90.0, log2_q: 60.0 },
        Error::ScaleOutOfRange { op: "encode", log2_scale: f64::NAN, log2_q: 60.0 },
        Error::TooManySlots { found: 5000, slots: 4096 },
        Error::SlotMismatch { op: "add", found: 1024, expected: 4096 },
        Error::TooLittlePrecision { bits: 20, found: 1e-7, needed: 1e-9 },
        Error::NotFinite { index: 3, value: "NaN".into() },
        Error::ValueTooLarge { index: 3, needed_bits: 70.0, available_bits: 59.0 },
        Error::NoiseExhausted { op: "multiply", log2_noise: 62.0, log2_room: 58.5 },
        Error::OutOfRoom { op: "multiply", largest: 14_400.0, room: 501.0 },
        Error::OutsideInterval { degree: 15, largest: 1.25 },
        Error::Expression {
            op: "multiply",
            at: crate::place::here(),
            source: Box::new(Error::LevelExhausted { op: "multiply", needed: 1, level: Level(0) }),
        },
        Error::Circuit("odd approximation of degree 0: at least 1 is needed".into()),
    ]
}

fn plaintexts() -> Vec<Error> {
    vec![
        Error::PlaintextModulusNotPrime { found: 65_535, primes: "65521 or 65537".into() },
        Error::PlaintextModulusOutOfRange { prime: 2, exponent: 125 },
        Error::NotAUnit { value: 34, modulus: (17, 2) },
        Error::ValueOutOfRange { index: 3, value: "-1".into(), most: 65_536, signed: false },
        Error::ValueOutOfRange { index: 3, value: "40000".into(), most: 32_768, signed: true },
        Error::PlaintextMismatch { op: "decoding", left: (65_537, 1, 13), right: (257, 2, 13) },
        Error::NotAMultiple { index: 3, divisor: 257 },
        Error::NoSlots {
            modulus: (257, 1),
            slots: 32_768,
            possible: 128,
            primes: "65537 or 786433".into(),
        },
        Error::NotInSlots {
            slots: 128,
            problem: "slot 3 is an element of the Galois ring of degree 4; decode elements".into(),
        },
        Error::PlaintextModulusNotCoprime { modulus: (65_537, 1) },
        Error::FactorMismatch { op: "add", left: 1, right: 4711, modulus: (65_537, 1) },
    ]
}

fn files() -> Vec<Error> {
    vec![
        Error::Malformed {
            what: "secret key",
            problem: "it has 4096 coefficients, but 8192 are needed".into(),
        },
        Error::WrongKind { found: Kind::SecretKey, needed: Kind::EvaluationKeys },
        Error::UnsupportedVersion { found: 9, supported: 3 },
        Error::Checksum { section: 2 },
        Error::Truncated { found: 4096, needed: 65_536 },
        io::Error::other("input/output error (os error 5)").into(),
    ]
}

#[test]
fn messages_of_the_library_are_those_of_the_list() {
    let errors = [keys(), operands(), plaintexts(), files()].concat();
    assert_listed("sudare.txt", &[section("sudare::Error", &errors)]);
}
