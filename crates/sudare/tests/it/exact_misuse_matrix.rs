//! Every public operation of BGV, of BFV and on plaintexts of integers, with everything that a
//! caller can get wrong about its operands: a typed error each time, and operands as they were.
//!
//! The table below has a row for each operation and a cell for each kind of mistake. A public
//! method without a row fails the test.

use crate::matrix::{CASES, Draw, Row, rows};
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};
use sudare::{
    Error, Result, Value, bfv,
    exact::{
        BatchEncoder, Ciphertext, Decryptor, EncodedMatrix, Encryptor, Evaluator, Form,
        IntegerEncoder, Modulus, Params, PlainPoly, Spec, Unit, inner_sum_keys, raise_to,
    },
    rlwe::{
        AutomorphismSum, EvaluationKeys, GaloisElement, KeyGenerator, KeyRequest, Level,
        ProductSum, PublicKey, SecretKey,
    },
};
use sudare_arith::prng::Seed;

const LOG_N: u32 = 6;
const TOP: Level = Level(3);
/// What ciphertexts are raised to.
const RAISED: Level = Level(2);
/// Rings of plaintexts with all slots.
const T: (u64, u32) = (257, 1);
const SQUARE: (u64, u32) = (257, 2);
const OTHER_T: (u64, u32) = (769, 1);

fn modulus((prime, exponent): (u64, u32)) -> Modulus {
    Modulus::new(prime, exponent).unwrap()
}

fn spec(levels: usize) -> Spec {
    Spec { insecure: true, ..Spec::uniform(LOG_N, modulus(T), 45.0, levels, 45.0, vec![52.0; 2]) }
}

/// A matrix of two diagonals, or one for what is raised.
fn sum(level: Level, raised: bool) -> AutomorphismSum {
    let raise = raised.then(|| raise_to(RAISED, modulus(SQUARE)).with_weight(8));
    let rotation = |k| GaloisElement::rotation(LOG_N, k);
    let baby = vec![rotation(0), rotation(1)];
    AutomorphismSum { level, baby, giant: rotation(2), stages: 1, raise }
}

/// A key pair with what works with it, and its keys themselves.
struct World {
    params: Params,
    evaluator: Evaluator,
    bfv: bfv::Evaluator,
    /// Have no keys but those of the pair.
    bare: (Evaluator, bfv::Evaluator),
    encryptor: Encryptor,
    decryptor: Decryptor,
    public: Arc<PublicKey>,
    keys: Arc<EvaluationKeys>,
    secret: Arc<SecretKey>,
}

impl World {
    fn new(levels: usize) -> Self {
        let params = Params::new(spec(levels)).unwrap();
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = Arc::new(keygen.secret_key().unwrap());
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let mut request = KeyRequest::new()
            .relinearize(params.top())
            .rotations(LOG_N, [1], params.top())
            .automorphism(GaloisElement::conjugation(LOG_N), params.top());
        request |= inner_sum_keys(LOG_N, 2, params.top()).unwrap();
        request |= sum(RAISED, true).required_keys();
        let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());
        let none = Arc::new(EvaluationKeys::none(params.rlwe(), secret.id()));
        Self {
            evaluator: Evaluator::new(&params, Arc::clone(&keys)).unwrap(),
            bfv: bfv::Evaluator::new(&params, Arc::clone(&keys)).unwrap(),
            bare: (
                Evaluator::new(&params, Arc::clone(&none)).unwrap(),
                bfv::Evaluator::new(&params, none).unwrap(),
            ),
            encryptor: Encryptor::new(&params, Arc::clone(&public)).unwrap(),
            decryptor: Decryptor::new(&params, Arc::clone(&secret)).unwrap(),
            params,
            public,
            keys,
            secret,
        }
    }

    fn encrypted(&self, level: Level, factor: Unit) -> Ciphertext {
        let level = level.min(self.params.top());
        self.encryptor.encrypt_at(&plain(factor.modulus(), LOG_N), level, factor).unwrap()
    }

    /// With the factor that products of BFV count from.
    fn fresh(&self, level: Level, t: Modulus) -> Ciphertext {
        let level = level.min(self.params.top());
        self.encrypted(level, self.params.fresh_factor(level, t).unwrap())
    }
}

fn plain(t: Modulus, log_n: u32) -> PlainPoly {
    let values: Vec<i128> = (0..1 << log_n).map(|i| i % 50 - 20).collect();
    PlainPoly::from_signed(t, log_n, &values).unwrap()
}

/// One's own keys, those of another pair, and those of other parameters.
static OWN: LazyLock<World> = LazyLock::new(|| World::new(3));
static STRANGER: LazyLock<World> = LazyLock::new(|| World::new(3));
static OTHER: LazyLock<World> = LazyLock::new(|| World::new(2));

/// Slots as many as coefficients, and fewer.
static ALL: LazyLock<BatchEncoder> =
    LazyLock::new(|| BatchEncoder::new(modulus(T), LOG_N).unwrap());
static FEW: LazyLock<BatchEncoder> =
    LazyLock::new(|| BatchEncoder::with_slots(modulus(T), LOG_N, 3).unwrap());

/// Whatever operations take.
struct Operands {
    evaluator: &'static Evaluator,
    bfv: &'static bfv::Evaluator,
    /// Whose keys are given to what is made with keys.
    keys: &'static World,
    a: Ciphertext,
    /// Has the factor of `a`, at a level of its own.
    b: Ciphertext,
    /// Has what counts in BFV of the factor of `a`.
    scaled: Ciphertext,
    /// An addend of products of `a` with itself.
    square: Ciphertext,
    plain: PlainPoly,
    encoder: &'static BatchEncoder,
    modulus: Modulus,
    factor: Unit,
    level: Level,
    log_n: u32,
    log_slots: u32,
    values: Vec<i128>,
    element: GaloisElement,
    width: usize,
    /// Whether there is nothing to sum.
    nothing: bool,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    KeyOfA,
    KeyOfB,
    ParamsOfA,
    ParamsOfB,
    ParamsOfKeys,
    /// An operand has no level left.
    LevelOfA,
    /// The level asked for is too high.
    LevelAbove,
    /// Errors of operands are nearly as large as can be.
    Noise,
    FactorOfB,
    /// What is asked for is no unit.
    FactorOfNone,
    NoKeys,
    ModulusOfB,
    ModulusOfPlain,
    /// The modulus asked for is of another prime.
    ModulusAsked,
    /// The factor asked for is of another modulus.
    ModulusOfFactor,
    /// The modulus asked for has a prime of the chain.
    ModulusOfChain,
    /// The modulus asked for has no slots.
    ModulusWithoutSlots,
    /// The plaintext is of a ring of another degree.
    RingOfPlain,
    /// Of no ring.
    Degree,
    SlotsOfEncoder,
    /// The slots of the plaintext do not repeat.
    SlotsOfPlain,
    LogSlots,
    TooManyValues,
    TooLarge,
    NotAMultiple,
    Element,
    Width,
    Nothing,
}

impl crate::matrix::Operands for Operands {
    type Fault = Fault;
    type State = ([Form; 4], Vec<Vec<u64>>, PlainPoly);

    /// Ciphertexts of any levels but the lowest.
    fn good(draw: &mut Draw) -> Self {
        let own = &*OWN;
        let t = modulus(T);
        let level = Level(1 + draw.below(3) as u32);
        let lower = Level(1 + draw.below(3) as u32);
        let a = own.fresh(level, t);
        Self {
            evaluator: &own.evaluator,
            bfv: &own.bfv,
            keys: own,
            b: own.encrypted(lower, a.factor()),
            scaled: own.fresh(lower, t),
            square: own.encrypted(level, a.factor() * a.factor()),
            plain: plain(t, LOG_N),
            encoder: &ALL,
            modulus: t,
            factor: Unit::new(3 + u128::from(draw.below(200)), t).unwrap(),
            level: Level(draw.below(level.0.into()) as u32),
            log_n: LOG_N,
            log_slots: 1 + draw.below(LOG_N.into()) as u32,
            values: (0..8).map(|i| i - 4).collect(),
            element: GaloisElement::conjugation(LOG_N),
            width: 2,
            nothing: false,
            a,
        }
    }

    fn spoil(&mut self, fault: Fault, draw: &mut Draw) {
        let own = &*OWN;
        let stranger = &*STRANGER;
        let other = &*OTHER;
        let t = modulus(T);
        let level = self.a.level();
        let factor = self.a.factor();
        match fault {
            Fault::KeyOfA => self.a = stranger.encrypted(level, factor),
            Fault::KeyOfB => {
                self.b = stranger.encrypted(self.b.level(), factor);
                self.scaled = stranger.fresh(self.scaled.level(), t);
            }
            Fault::ParamsOfA => self.a = other.encrypted(level, factor),
            Fault::ParamsOfB => {
                self.b = other.encrypted(self.b.level(), factor);
                self.scaled = other.fresh(self.scaled.level(), t);
            }
            Fault::ParamsOfKeys => self.keys = other,
            Fault::LevelOfA => self.a = own.fresh(Level(0), t),
            Fault::LevelAbove => {
                self.level = Level(draw.one_of(&[TOP.0 + 1, TOP.0 + 2, 1 << 20, u32::MAX]));
            }
            Fault::Noise => {
                self.a = exhausted(&self.a);
                (self.b, self.scaled) = (self.a.clone(), self.a.clone());
                self.values[0] = 100;
                self.level = Level(0);
            }
            Fault::FactorOfB => {
                let double = |a: &Ciphertext| a.factor() * Unit::new(2, t).unwrap();
                let read = |a| own.evaluator.with_factor(a, double(a)).unwrap();
                (self.b, self.scaled) = (read(&self.b), read(&self.scaled));
            }
            Fault::FactorOfNone => {
                // A product of units of different primes.
                self.factor = self.factor * Unit::one(modulus((3, 1)));
            }
            Fault::NoKeys => (self.evaluator, self.bfv) = (&own.bare.0, &own.bare.1),
            Fault::ModulusOfB => {
                let of = modulus(draw.one_of(&[OTHER_T, SQUARE]));
                self.b = own.fresh(self.b.level(), of);
                self.scaled = own.fresh(self.scaled.level(), of);
            }
            Fault::ModulusOfPlain => {
                self.plain = plain(modulus(draw.one_of(&[OTHER_T, SQUARE])), LOG_N);
            }
            Fault::ModulusAsked => self.modulus = modulus(OTHER_T),
            Fault::ModulusOfFactor => {
                self.factor = Unit::one(modulus(draw.one_of(&[OTHER_T, SQUARE])));
            }
            Fault::ModulusOfChain => {
                let primes = own.params.rlwe().spec().q.concat();
                self.modulus = modulus((draw.one_of(&primes), 1));
                self.plain = plain(self.modulus, LOG_N);
                self.factor = Unit::one(self.modulus);
            }
            Fault::ModulusWithoutSlots => {
                self.modulus = modulus(draw.one_of(&[(5, 1), (17, 2), (65_539, 1), (2, 3)]));
                (self.log_n, self.log_slots) = (LOG_N, LOG_N);
            }
            Fault::RingOfPlain => {
                self.plain = plain(t, draw.one_of(&[LOG_N - 1, LOG_N + 1, 12]));
            }
            Fault::Degree => {
                self.log_n = draw.one_of(&[0, 18, 31, 32, 64, u32::MAX]);
                self.log_slots = 1;
            }
            Fault::SlotsOfEncoder => self.encoder = &FEW,
            Fault::SlotsOfPlain => (self.encoder, self.plain) = (&FEW, plain(t, LOG_N)),
            Fault::LogSlots => {
                self.log_slots = draw.one_of(&[0, LOG_N + 1, 31, 32, 64, u32::MAX]);
            }
            Fault::TooManyValues => self.values = vec![1; 65 + draw.below(100) as usize],
            Fault::TooLarge => {
                let at = draw.below(self.values.len() as u64) as usize;
                self.values[at] = draw.one_of(&[257, 300, -257, 1 << 60, i128::MIN, i128::MAX]);
            }
            Fault::NotAMultiple => {
                (self.plain, self.modulus) = (plain(modulus(SQUARE), LOG_N), t);
            }
            Fault::Element => {
                self.element = GaloisElement(draw.one_of(&[0, 2, 7, 1 << 7, 129, u32::MAX]));
            }
            Fault::Width => self.width = draw.one_of(&[0, 3, 64, 1 << 40, usize::MAX]),
            Fault::Nothing => self.nothing = true,
        }
    }

    fn state(&self) -> Self::State {
        let items = [&self.a, &self.b, &self.scaled, &self.square];
        let polys = items.into_iter().flat_map(Ciphertext::polys);
        let rows = polys.flat_map(|poly| poly.rows()).map(<[u64]>::to_vec).collect();
        (items.map(Ciphertext::form), rows, self.plain.clone())
    }

    fn explains(fault: Fault, error: &Error) -> bool {
        use Error::*;
        let error = if let Expression { source, .. } = error { &**source } else { error };
        match fault {
            Fault::KeyOfA | Fault::KeyOfB => matches!(error, KeyMismatch { .. }),
            Fault::ParamsOfA | Fault::ParamsOfB | Fault::ParamsOfKeys => {
                matches!(error, ParamsMismatch { .. })
            }
            Fault::LevelOfA => matches!(error, LevelExhausted { .. } | LevelOutOfRange { .. }),
            Fault::LevelAbove => matches!(error, LevelOutOfRange { .. }),
            Fault::Noise => matches!(error, NoiseExhausted { .. }),
            Fault::FactorOfB => matches!(error, FactorMismatch { .. }),
            Fault::FactorOfNone => matches!(error, NotAUnit { .. }),
            Fault::NoKeys => matches!(
                error,
                MissingGaloisKey { .. }
                    | MissingRelinearizationKey { .. }
                    | MissingRaisingKey { .. }
            ),
            Fault::ModulusOfB
            | Fault::ModulusOfPlain
            | Fault::ModulusAsked
            | Fault::ModulusOfFactor
            | Fault::RingOfPlain => matches!(error, PlaintextMismatch { .. }),
            Fault::ModulusOfChain => matches!(error, PlaintextModulusNotCoprime { .. }),
            Fault::ModulusWithoutSlots => matches!(error, NoSlots { .. }),
            Fault::Degree | Fault::LogSlots | Fault::Width => {
                matches!(error, InvalidSpec { .. } | NoSlots { .. })
            }
            Fault::SlotsOfEncoder => matches!(error, SlotMismatch { .. }),
            Fault::SlotsOfPlain => matches!(error, NotInSlots { .. }),
            Fault::TooManyValues => matches!(error, TooManySlots { .. }),
            Fault::TooLarge => matches!(error, ValueOutOfRange { .. }),
            Fault::NotAMultiple => matches!(error, NotAMultiple { .. }),
            Fault::Element => matches!(error, InvalidSpec { .. } | MissingGaloisKey { .. }),
            Fault::Nothing => matches!(error, Circuit(..)),
        }
    }
}

/// The same, multiplied by integers until twice its error is refused.
fn exhausted(a: &Ciphertext) -> Ciphertext {
    let mut a = a.clone();
    for c in [128, 2] {
        while let Ok(next) = OWN.evaluator.mul_const(&a, c) {
            a = next;
        }
    }
    a
}

impl Operands {
    fn unsigned(&self) -> Vec<u128> {
        self.values.iter().map(|value| value.unsigned_abs()).collect()
    }

    fn integers(&self) -> IntegerEncoder {
        self.encoder.clone().into()
    }

    /// The elements of a list, none if there is nothing to sum.
    fn any<T>(&self, mut list: Vec<T>) -> Vec<T> {
        if self.nothing {
            list.clear();
        }
        list
    }

    /// Weights of a matrix modulo that of the plaintext.
    fn encoded(&self) -> Result<EncodedMatrix> {
        let weight = |_, _| Some(self.plain.clone());
        self.evaluator.encode_matrix(self.factor, sum(self.level, false), weight)
    }
}

/// A matrix at a level, of one's own, and that of what is raised.
fn weights(level: Level) -> EncodedMatrix {
    let one = Unit::one(modulus(T));
    let weight = |_, _| Some(plain(modulus(T), LOG_N));
    OWN.evaluator.encode_matrix(one, sum(level, false), weight).unwrap()
}

fn raising() -> EncodedMatrix {
    let one = Unit::one(modulus(SQUARE));
    let weight = |_, _| Some(plain(modulus(SQUARE), LOG_N));
    OWN.evaluator.encode_matrix(one, sum(RAISED, true), weight).unwrap()
}

/// Another key, other parameters, level or error, factor, a missing key, modulus, and shape or
/// value.
const KINDS: [&str; 7] =
    ["another key", "other parameters", "level", "factor", "missing key", "modulus", "shape"];

use Fault::{
    Degree, Element, FactorOfB, FactorOfNone, KeyOfA, KeyOfB, LevelAbove, LevelOfA, LogSlots,
    ModulusAsked, ModulusOfB, ModulusOfChain, ModulusOfFactor, ModulusOfPlain, ModulusWithoutSlots,
    NoKeys, Noise, NotAMultiple, Nothing, ParamsOfA, ParamsOfB, ParamsOfKeys, RingOfPlain,
    SlotsOfEncoder, SlotsOfPlain, TooLarge, TooManyValues, Width,
};

#[rustfmt::skip]
const ROWS: &[Row<Operands, { KINDS.len() }>] = rows![
    "Evaluator::new": |o| Evaluator::new(&OWN.params, Arc::clone(&o.keys.keys));
        [], [ParamsOfKeys], [], [], [], [], [];
    "Evaluator::add": |o| o.evaluator.add(&o.a, &o.b);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [], [], [ModulusOfB], [];
    "Evaluator::sub": |o| o.evaluator.sub(&o.a, &o.b);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [], [], [ModulusOfB], [];
    "Evaluator::neg": |o| o.evaluator.neg(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [], [], [];
    "Evaluator::add_plain": |o| o.evaluator.add_plain(&o.a, &o.plain);
        [KeyOfA], [ParamsOfA], [], [], [], [ModulusOfPlain], [RingOfPlain];
    "Evaluator::sub_plain": |o| o.evaluator.sub_plain(&o.a, &o.plain);
        [KeyOfA], [ParamsOfA], [], [], [], [ModulusOfPlain], [RingOfPlain];
    "Evaluator::mul_plain": |o| o.evaluator.mul_plain(&o.a, &o.plain);
        [KeyOfA], [ParamsOfA], [Noise], [], [], [ModulusOfPlain], [RingOfPlain];
    "Evaluator::mul_plain_many": |o| o.evaluator.mul_plain_many(&[&o.a, &o.b], &o.plain, o.factor);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [FactorOfNone], [],
        [ModulusOfPlain, ModulusOfB, ModulusOfFactor], [RingOfPlain];
    "Evaluator::add_const": |o| o.evaluator.add_const(&o.a, o.values[0]);
        [KeyOfA], [ParamsOfA], [], [], [], [], [];
    "Evaluator::mul_const": |o| o.evaluator.mul_const(&o.a, o.values[0]);
        [KeyOfA], [ParamsOfA], [Noise], [], [], [], [];
    "Evaluator::mul_const_sum": |o| o.evaluator
            .mul_const_sum(&o.any(vec![(&o.a, o.values[0]), (&o.b, 5)]));
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [FactorOfB], [], [ModulusOfB], [Nothing];
    "Evaluator::mul_scaled_sum": |o| o.evaluator
            .mul_scaled_sum(&o.any(vec![(&o.a, o.values[0], o.factor), (&o.b, 5, o.factor)]));
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [FactorOfB, FactorOfNone], [],
        [ModulusOfB, ModulusOfFactor], [Nothing];
    "Evaluator::mul": |o| o.evaluator.mul(&o.a, &o.b);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [], [NoKeys], [ModulusOfB], [];
    "Evaluator::mul_rescale": |o| o.evaluator.mul_rescale(&o.a, &o.b);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA, Noise], [], [NoKeys], [ModulusOfB], [];
    "Evaluator::mul_sums": |o| o.evaluator.mul_sums(
            &[ProductSum { products: o.any(vec![(&o.a, &o.a), (&o.a, &o.b)]), addend: Some(&o.square) }], true);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA, Noise], [FactorOfB], [NoKeys],
        [ModulusOfB], [Nothing];
    "Evaluator::rescale": |o| o.evaluator.rescale(&o.a);
        [KeyOfA], [ParamsOfA], [LevelOfA], [], [], [], [];
    "Evaluator::rescale_assign": |o| o.evaluator.rescale_assign(&mut o.a);
        [KeyOfA], [ParamsOfA], [LevelOfA], [], [], [], [];
    "Evaluator::drop_to": |o| o.evaluator.drop_to(&o.a, o.level);
        [KeyOfA], [ParamsOfA], [LevelAbove, Noise], [], [], [], [];
    "Evaluator::drop_to_assign": |o| o.evaluator.drop_to_assign(&mut o.a, o.level);
        [KeyOfA], [ParamsOfA], [LevelAbove, Noise], [], [], [], [];
    "Evaluator::match_factor": |o| o.evaluator.match_factor(&o.a, o.level, o.factor);
        [KeyOfA], [ParamsOfA], [LevelAbove], [FactorOfNone], [], [ModulusOfFactor], [];
    "Evaluator::with_factor": |o| o.evaluator.with_factor(&o.a, o.factor);
        [KeyOfA], [ParamsOfA], [], [FactorOfNone], [], [ModulusOfFactor], [];
    "Evaluator::with_plaintext_modulus": |o| o.evaluator.with_plaintext_modulus(&o.a, o.modulus);
        [KeyOfA], [ParamsOfA], [], [], [], [ModulusAsked], [];
    "Evaluator::automorphism": |o| o.evaluator.automorphism(&o.a, o.element);
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [], [Element];
    "Evaluator::rotate": |o| o.evaluator.rotate(&o.a, 1);
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [], [];
    "Evaluator::swap_rows": |o| o.evaluator.swap_rows(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [], [];
    "Evaluator::rotate_flat": |o| o.evaluator.rotate_flat(&o.a, o.encoder, 1);
        [KeyOfA], [ParamsOfA], [Noise], [], [NoKeys], [], [SlotsOfEncoder];
    "Evaluator::hoist": |o| o.evaluator.hoist(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [], [], [];
    "Evaluator::automorphism_hoisted": |o| o.evaluator
            .hoist(&o.a).and_then(|hoisted| o.evaluator.automorphism_hoisted(&hoisted, o.element));
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [], [Element];
    "Evaluator::rotate_hoisted": |o| o.evaluator
            .hoist(&o.a).and_then(|hoisted| o.evaluator.rotate_hoisted(&hoisted, 1));
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [], [];
    "Evaluator::sum_automorphisms": |o| o.evaluator
            .sum_automorphisms(&o.a, &[&o.any(vec![GaloisElement(1), o.element])]);
        [KeyOfA], [ParamsOfA], [Noise], [], [NoKeys], [], [Element, Nothing];
    "Evaluator::inner_sum": |o| o.evaluator.inner_sum(&o.a, o.width);
        [KeyOfA], [ParamsOfA], [Noise], [], [NoKeys], [], [Width];
    "Evaluator::encode_matrix": |o| o.encoded();
        [], [], [LevelAbove], [FactorOfNone], [], [ModulusOfPlain, ModulusOfFactor, ModulusOfChain],
        [RingOfPlain];
    "Evaluator::transform": |o| o.evaluator.transform(&o.a, &weights(Level(1)));
        [KeyOfA], [ParamsOfA], [LevelOfA, Noise], [], [NoKeys], [], [];
    "Evaluator::transform_many": |o| o.evaluator.transform_many(&[&o.a, &o.b], &weights(Level(1)));
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA, Noise], [], [NoKeys], [ModulusOfB], [];
    "Evaluator::raise": |o| o.modulus.with_exponent(2)
            .and_then(|high| o.evaluator.raise(&o.a, o.level, high));
        [KeyOfA], [ParamsOfA], [LevelAbove, Noise], [], [NoKeys], [ModulusAsked], [];
    "Evaluator::raise_transform_many": |o| o.evaluator
            .raise_transform_many(&[&o.a, &o.b], &raising());
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [], [NoKeys], [ModulusOfB], [];
    "bfv::Evaluator::new": |o| bfv::Evaluator::new(&OWN.params, Arc::clone(&o.keys.keys));
        [], [ParamsOfKeys], [], [], [], [], [];
    "bfv::Evaluator::factor": |o| o.bfv.factor(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [], [], [];
    "bfv::Evaluator::rescale_to": |o| o.bfv.rescale_to(&o.a, o.level);
        [KeyOfA], [ParamsOfA], [LevelAbove], [], [], [], [];
    "bfv::Evaluator::add": |o| o.bfv.add(&o.a, &o.scaled);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [], [], [ModulusOfB], [];
    "bfv::Evaluator::sub": |o| o.bfv.sub(&o.a, &o.scaled);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [], [], [ModulusOfB], [];
    "bfv::Evaluator::mul": |o| o.bfv.mul(&o.a, &o.scaled);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [Noise], [], [NoKeys], [ModulusOfB], [];
    "bfv::Evaluator::mul_rescale": |o| o.bfv.mul_rescale(&o.a, &o.scaled);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA, Noise], [], [NoKeys], [ModulusOfB], [];
    "bfv::Evaluator::mul_sum": |o| o.bfv.mul_sum(
            &ProductSum { products: o.any(vec![(&o.a, &o.a), (&o.a, &o.scaled)]), addend: Some(&o.a) }, true);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA, Noise], [FactorOfB], [NoKeys],
        [ModulusOfB], [Nothing];
    "Encryptor::new": |o| Encryptor::new(&OWN.params, Arc::clone(&o.keys.public));
        [], [ParamsOfKeys], [], [], [], [], [];
    "Encryptor::encrypt": |o| OWN.encryptor.encrypt(&o.plain);
        [], [], [], [], [], [ModulusOfChain], [RingOfPlain];
    "Encryptor::encrypt_at": |o| OWN.encryptor.encrypt_at(&o.plain, o.level, o.factor);
        [], [], [LevelAbove], [FactorOfNone], [],
        [ModulusOfPlain, ModulusOfFactor, ModulusOfChain], [RingOfPlain];
    "Encryptor::encrypt_with": |o| OWN.encryptor
            .encrypt_with(&o.plain, o.level, o.factor, &Seed::from_bytes([1; 32]));
        [], [], [LevelAbove], [FactorOfNone], [],
        [ModulusOfPlain, ModulusOfFactor, ModulusOfChain], [RingOfPlain];
    "Decryptor::new": |o| Decryptor::new(&OWN.params, Arc::clone(&o.keys.secret));
        [], [ParamsOfKeys], [], [], [], [], [];
    "Decryptor::decrypt": |o| OWN.decryptor.decrypt(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [], [], [];
    "Decryptor::noise": |o| OWN.decryptor.noise(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [], [], [];
    "Decryptor::budget": |o| OWN.decryptor.budget(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [], [], [];
    "BatchEncoder::new": |o| BatchEncoder::new(o.modulus, o.log_n);
        [], [], [], [], [], [ModulusWithoutSlots], [Degree];
    "BatchEncoder::with_slots": |o| BatchEncoder::with_slots(o.modulus, o.log_n, o.log_slots);
        [], [], [], [], [], [ModulusWithoutSlots], [Degree, LogSlots];
    "BatchEncoder::encode": |o| o.encoder.encode(&o.values);
        [], [], [], [], [], [], [TooManyValues, TooLarge];
    "BatchEncoder::encode_unsigned": |o| o.encoder.encode_unsigned(&o.unsigned());
        [], [], [], [], [], [], [TooManyValues, TooLarge];
    "BatchEncoder::decode": |o| o.encoder.decode(&o.plain);
        [], [], [], [], [], [ModulusOfPlain], [RingOfPlain, SlotsOfPlain];
    "BatchEncoder::decode_unsigned": |o| o.encoder.decode_unsigned(&o.plain);
        [], [], [], [], [], [ModulusOfPlain], [RingOfPlain, SlotsOfPlain];
    "IntegerEncoder::new": |o| IntegerEncoder::new(o.modulus, o.log_n, o.log_slots);
        [], [], [], [], [], [ModulusWithoutSlots], [Degree, LogSlots];
    "IntegerEncoder::encode": |o| o.integers().encode(&o.values);
        [], [], [], [], [], [], [TooManyValues, TooLarge];
    "IntegerEncoder::decode": |o| o.integers().decode(&o.plain);
        [], [], [], [], [], [ModulusOfPlain], [RingOfPlain, SlotsOfPlain];
    "PlainPoly::new": |o| PlainPoly::new(o.modulus, {
            let mut coeffs = vec![1; if o.log_n == LOG_N { 64 } else { 3 + o.log_n as usize % 20 }];
            coeffs.iter_mut().zip(o.unsigned()).for_each(|(c, value)| *c = value);
            coeffs
        });
        [], [], [], [], [], [], [Degree, TooLarge];
    "PlainPoly::from_signed": |o| PlainPoly::from_signed(o.modulus, o.log_n, &o.values);
        [], [], [], [], [], [], [Degree, TooManyValues, TooLarge];
    "PlainPoly::from_unsigned": |o| PlainPoly::from_unsigned(o.modulus, o.log_n, &o.unsigned());
        [], [], [], [], [], [], [Degree, TooManyValues, TooLarge];
    "PlainPoly::constant": |o| PlainPoly::constant(o.modulus, o.log_n, o.values[0]);
        [], [], [], [], [], [], [Degree];
    "PlainPoly::add": |o| plain(modulus(T), LOG_N).add(&o.plain);
        [], [], [], [], [], [ModulusOfPlain], [RingOfPlain];
    "PlainPoly::sub": |o| plain(modulus(T), LOG_N).sub(&o.plain);
        [], [], [], [], [], [ModulusOfPlain], [RingOfPlain];
    "PlainPoly::mul": |o| plain(modulus(T), LOG_N).mul(&o.plain);
        [], [], [], [], [], [ModulusOfPlain], [RingOfPlain];
    "Value::apply": |o| Value::new(o.evaluator, o.a.clone())
            .apply(|e, a| e.mul_rescale(a, &o.b)).into_ciphertext();
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA, Noise], [], [NoKeys], [ModulusOfB], [];
    "Value::into_ciphertext": |o| {
            let [x, y] = [&o.a, &o.b].map(|a| Value::new(o.evaluator, a.clone()));
            (&x * &y + &x * o.values[0]).into_ciphertext()
        };
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA, Noise], [], [NoKeys], [ModulusOfB], [];
    "PlainPoly::relabelled": |o| o.plain.relabelled(o.modulus);
        [], [], [], [], [], [ModulusAsked], [NotAMultiple];
];

#[test]
fn every_misuse_of_every_exact_operation_is_a_typed_error() {
    crate::matrix::check(ROWS, KINDS, CASES);
}

#[test]
#[ignore = "minutes"]
fn every_misuse_of_every_exact_operation_is_a_typed_error_ten_thousand_times() {
    crate::matrix::check(ROWS, KINDS, 100 * CASES);
}

/// Errors of spoiled operands say nothing if good ones are refused too.
#[test]
fn exact_operands_that_are_not_spoiled_are_accepted() {
    crate::matrix::accept(ROWS, |_, _| {});
}

/// Public methods that can fail, of the types that work with ciphertexts, keys and plaintexts.
#[test]
fn every_public_exact_operation_has_a_row() {
    let files = [
        ("exact/evaluator.rs", ""),
        ("exact/matrix.rs", ""),
        ("exact/raise.rs", ""),
        ("exact/encrypt.rs", ""),
        ("exact/batch.rs", ""),
        ("exact/integers.rs", ""),
        ("exact/plaintext.rs", ""),
        ("rlwe/encrypt.rs", ""),
        ("bfv/evaluator.rs", "bfv::"),
        ("circuits/value.rs", ""),
    ];
    let types = [
        "Evaluator",
        "Encryptor",
        "Decryptor",
        "BatchEncoder",
        "IntegerEncoder",
        "PlainPoly",
        "Value",
    ];
    let rows: BTreeSet<String> = ROWS.iter().map(|row| row.name.to_owned()).collect();
    assert_eq!(rows, crate::matrix::fallible_methods(&files, &types));
    assert!(rows.len() > 60, "{}", rows.len());
}
