//! Every public operation on ciphertexts, plaintexts and keys, with everything that a caller can
//! get wrong about its operands: a typed error each time, and operands as they were.
//!
//! The table below has a row for each operation and a cell for each kind of mistake. A public
//! method without a row fails the test.

use crate::matrix::{CASES, Draw, Row, rows};
use crate::session::Session;
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};
use sudare::{
    Error, Value,
    circuits::{
        Ops,
        ckks::{LinearPlan, LinearTransform},
    },
    ckks::{
        Ciphertext, Complex, Decryptor, Encryptor, Evaluator, Params, Plaintext, ProductSum, Scale,
        Spec, SymmetricEncryptor,
    },
    rlwe::{
        EvaluationKeys, GaloisElement, KeyGenerator, KeyRequest, Level, PublicKey, Raise, SecretKey,
    },
};
use sudare_arith::prng::Seed;

const LOG_N: u32 = 6;
const TOP: Level = Level(3);

fn spec(levels: usize) -> Spec {
    Spec { insecure: true, ..Spec::uniform(LOG_N, 50.0, levels, 40.0, vec![50.0, 41.0]) }
}

/// A linear transform with one rotation.
fn matrix() -> LinearTransform {
    let diagonal = |k, re| (k, vec![Complex { re, im: 0.0 }; 32]);
    LinearTransform::new(LOG_N - 1, [diagonal(0, 0.5), diagonal(1, 0.25)].into()).unwrap()
}

/// A key pair with what works with it, and its keys themselves.
struct World {
    session: Session,
    /// Has no keys but those of the session's pair.
    bare: Evaluator,
    public: Arc<PublicKey>,
    keys: Arc<EvaluationKeys>,
    /// A second copy of the secret key, which has one owner.
    secret: SecretKey,
    plan: LinearPlan,
    raising: LinearPlan,
}

impl World {
    fn new(levels: usize) -> Self {
        let params = Params::new(spec(levels)).unwrap();
        let chain = params.chain();
        let scale = Scale::from_log2(30.0);
        let matrix = matrix();
        let plan = matrix.plan(LOG_N, chain, params.top(), scale, scale).unwrap();
        let raising = matrix
            .plan_raised(LOG_N, chain, Raise::to(params.top()).with_weight(8), [scale; 2])
            .unwrap();
        let mut request = KeyRequest::new().relinearize(params.top()).rotations(LOG_N, [1], TOP);
        request = request.automorphism(GaloisElement::conjugation(LOG_N), params.top());
        request |= KeyRequest::new().raise(Raise::to(params.top()).with_weight(8));
        request |= plan.required_keys();
        request |= raising.required_keys();
        if params.top() < TOP {
            request.galois.values_mut().for_each(|level| *level = (*level).min(params.top()));
        }
        // Each call makes the same keys.
        let seed = Seed::random().unwrap();
        let make = || {
            let mut keygen = KeyGenerator::from_seed(params.rlwe(), &seed);
            let secret = keygen.secret_key().unwrap();
            let public = Arc::new(keygen.public_key(&secret).unwrap());
            (keygen, secret, public)
        };
        let ((mut keygen, secret, public), (_, again, _)) = (make(), make());
        let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());
        let none = EvaluationKeys::none(params.rlwe(), secret.id());
        let session = Session {
            encoder: sudare::ckks::Encoder::new(&params),
            encryptor: Encryptor::new(&params, Arc::clone(&public)).unwrap(),
            evaluator: Evaluator::new(&params, Arc::clone(&keys)).unwrap(),
            decryptor: Decryptor::new(&params, secret).unwrap(),
            params: params.clone(),
        };
        let bare = Evaluator::new(&params, Arc::new(none)).unwrap();
        Self { session, bare, public, keys, secret: again, plan, raising }
    }

    fn plain(&self, slots: usize, level: Level, scale: Scale) -> Plaintext {
        self.session.encoder.encode_real_at(&vec![0.25; slots], level, scale).unwrap()
    }

    fn encrypted(&self, slots: usize, level: Level) -> Ciphertext {
        let s = &self.session;
        let plain = self.plain(slots, s.params.top(), s.params.scale_at(s.params.top()));
        let fresh = s.encryptor.encrypt(&plain).unwrap();
        s.evaluator.drop_to(&fresh, level.min(s.params.top())).unwrap()
    }
}

/// One's own keys, those of another pair, and those of other parameters.
static OWN: LazyLock<World> = LazyLock::new(|| World::new(3));
static STRANGER: LazyLock<World> = LazyLock::new(|| World::new(3));
static OTHER: LazyLock<World> = LazyLock::new(|| World::new(2));

/// A plan of a chain with more levels.
static TALL: LazyLock<LinearPlan> = LazyLock::new(|| {
    let params = Params::new(spec(5)).unwrap();
    let scale = Scale::from_log2(30.0);
    matrix().plan(LOG_N, params.chain(), params.top(), scale, scale).unwrap()
});

/// Whatever operations take.
struct Operands {
    evaluator: &'static Evaluator,
    /// Whose keys are given to what is made with keys.
    keys: &'static World,
    a: Ciphertext,
    b: Ciphertext,
    /// An addend of products.
    square: Ciphertext,
    plain: Plaintext,
    values: Vec<Complex<f64>>,
    level: Level,
    scale: Scale,
    log_slots: u32,
    steps: i64,
    element: GaloisElement,
    request: KeyRequest,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    KeyOfA,
    KeyOfB,
    ParamsOfA,
    ParamsOfB,
    ParamsOfPlain,
    ParamsOfKeys,
    /// An operand has no level left.
    LevelOfA,
    /// The level asked for is too high.
    LevelAbove,
    /// That of the plaintext is below the one that is read.
    LevelOfPlain,
    LevelOfRequest,
    ScaleOfB,
    /// At the level of `a`, where no product can match the scales of a sum.
    ScaleAtLevel,
    ScaleOfPlain,
    /// The scale asked for is no positive number.
    ScaleOfNone,
    /// Products do not fit the modulus.
    ScaleOfA,
    NoKeys,
    /// Nor for a ciphertext where plans of linear transforms begin.
    NoKeysAtTop,
    SlotsOfB,
    SlotsOfPlain,
    TooManyValues,
    NotFinite,
    TooLarge,
    LogSlots,
    Element,
}

impl crate::matrix::Operands for Operands {
    type Fault = Fault;
    type State = ([(Level, String, usize); 3], Vec<Vec<u64>>);

    /// Ciphertexts of any common level but the lowest, and of any slots.
    fn good(draw: &mut Draw) -> Self {
        let own = &*OWN;
        let s = &own.session;
        let slots = 1 << (1 + draw.below(5));
        let level = Level(1 + draw.below(3) as u32);
        let lower = Level(1 + draw.below(3) as u32);
        let a = own.encrypted(slots, level);
        let b = own.encrypted(slots, lower);
        let square = s.evaluator.mul(&a, &a).unwrap();
        let below = Level(draw.below(level.0.into()) as u32);
        Self {
            evaluator: &s.evaluator,
            keys: own,
            plain: own.plain(slots, TOP, a.scale()),
            values: (0..slots).map(|i| Complex { re: i as f64 / 64.0, im: 0.0 }).collect(),
            scale: s.params.scale_at(below),
            level: below,
            log_slots: draw.below(u64::from(LOG_N)) as u32,
            steps: 1,
            element: GaloisElement::conjugation(LOG_N),
            request: KeyRequest::new().relinearize(Level(0)),
            a,
            b,
            square,
        }
    }

    fn spoil(&mut self, fault: Fault, draw: &mut Draw) {
        let stranger = &*STRANGER;
        let other = &*OTHER;
        let slots = self.a.slots();
        let level = self.a.level();
        let wrong_slots = if slots == 32 { 16 } else { 2 * slots };
        let ev = &OWN.session.evaluator;
        match fault {
            Fault::KeyOfA => self.a = stranger.encrypted(slots, level),
            Fault::KeyOfB => self.b = stranger.encrypted(slots, self.b.level()),
            Fault::ParamsOfA => self.a = other.encrypted(slots, level),
            Fault::ParamsOfB => self.b = other.encrypted(slots, level),
            Fault::ParamsOfPlain => self.plain = other.plain(slots, Level(2), self.a.scale()),
            Fault::ParamsOfKeys => self.keys = other,
            Fault::LevelOfA => self.a = ev.drop_to(&self.a, Level(0)).unwrap(),
            Fault::LevelAbove => {
                self.level = Level(draw.one_of(&[TOP.0 + 1, TOP.0 + 2, 1 << 20, u32::MAX]));
            }
            Fault::LevelOfPlain => self.plain = OWN.plain(slots, Level(0), self.a.scale()),
            Fault::LevelOfRequest => {
                let level = Level(draw.one_of(&[TOP.0 + 1, 1 << 20, u32::MAX]));
                self.request = KeyRequest::new().relinearize(level);
            }
            Fault::ScaleOfB => {
                let factor = draw.one_of(&[2.0, 0.5, 1.0 + 1e-5, 1e-9]);
                let scale = self.b.scale() * Scale::from_f64(factor);
                self.b = ev.with_scale(&self.b, scale).unwrap();
            }
            Fault::ScaleAtLevel => {
                self.b = OWN.encrypted(slots, level);
                self.spoil(Fault::ScaleOfB, draw);
            }
            Fault::ScaleOfPlain => {
                self.plain = OWN.plain(slots, TOP, self.a.scale() * Scale::from_f64(2.0));
            }
            Fault::ScaleOfNone => {
                let bad = [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
                self.scale = Scale::from_f64(draw.one_of(&bad));
            }
            Fault::ScaleOfA => {
                let large = Scale::from_log2(200.0 + draw.below(300) as f64);
                self.a = ev.with_scale(&self.a, large).unwrap();
                self.b = ev.with_scale(&self.b, large).unwrap();
            }
            Fault::NoKeys => self.evaluator = &OWN.bare,
            Fault::NoKeysAtTop => {
                (self.a, self.evaluator) = (OWN.encrypted(32, TOP), &OWN.bare);
            }
            Fault::SlotsOfB => self.b = OWN.encrypted(wrong_slots, self.b.level()),
            Fault::SlotsOfPlain => self.plain = OWN.plain(wrong_slots, TOP, self.a.scale()),
            Fault::TooManyValues => {
                self.values = vec![Complex::default(); 33 + draw.below(100) as usize];
            }
            Fault::NotFinite => {
                let at = draw.below(slots as u64) as usize;
                self.values[at].re = draw.one_of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
                self.values[0] = self.values[at];
            }
            Fault::TooLarge => {
                self.values[0].re = draw.one_of(&[1e100, -1e200, f64::MAX]);
            }
            Fault::LogSlots => {
                self.log_slots = draw.one_of(&[LOG_N, LOG_N + 1, 31, 63, 64, u32::MAX]);
            }
            Fault::Element => {
                let g = draw.one_of(&[0, 2, 7, 1 << 7, 129, u32::MAX]);
                self.element = GaloisElement(g);
                self.request = KeyRequest::new().automorphism(GaloisElement(g & !1), Level(0));
            }
        }
    }

    fn state(&self) -> Self::State {
        let items = [&self.a, &self.b, &self.square];
        let facts = items.map(|item| (item.level(), item.scale().to_string(), item.slots()));
        let polys = items.into_iter().flat_map(|item| item.polys()).chain([self.plain.poly()]);
        let rows: Vec<_> = polys.flat_map(|poly| poly.rows()).map(<[u64]>::to_vec).collect();
        (facts, rows)
    }

    fn explains(fault: Fault, error: &Error) -> bool {
        use Error::*;
        let error = if let Expression { source, .. } = error { &**source } else { error };
        match fault {
            Fault::KeyOfA | Fault::KeyOfB => matches!(error, KeyMismatch { .. }),
            Fault::ParamsOfA | Fault::ParamsOfB | Fault::ParamsOfPlain | Fault::ParamsOfKeys => {
                matches!(error, ParamsMismatch { .. })
            }
            Fault::LevelOfA | Fault::LevelAbove | Fault::LevelOfPlain | Fault::LevelOfRequest => {
                matches!(error, LevelExhausted { .. } | LevelOutOfRange { .. })
            }
            Fault::ScaleOfB | Fault::ScaleAtLevel => matches!(error, ScaleMismatch { .. }),
            Fault::ScaleOfPlain => matches!(error, ScaleMismatch { .. }),
            Fault::ScaleOfNone | Fault::ScaleOfA => matches!(error, ScaleOutOfRange { .. }),
            Fault::NoKeys | Fault::NoKeysAtTop => matches!(
                error,
                MissingGaloisKey { .. }
                    | MissingRelinearizationKey { .. }
                    | MissingRaisingKey { .. }
            ),
            Fault::SlotsOfB | Fault::SlotsOfPlain => matches!(error, SlotMismatch { .. }),
            Fault::TooManyValues | Fault::LogSlots => matches!(error, TooManySlots { .. }),
            Fault::NotFinite => matches!(error, NotFinite { .. }),
            Fault::TooLarge => matches!(error, ValueTooLarge { .. }),
            Fault::Element => matches!(error, InvalidSpec { .. } | MissingGaloisKey { .. }),
        }
    }
}

impl Operands {
    fn real(&self) -> Vec<f64> {
        self.values.iter().map(|value| value.re).collect()
    }
}

/// Another key, other parameters, level, scale, a missing key, and shape or value.
const KINDS: [&str; 6] =
    ["another key", "other parameters", "level", "scale", "missing key", "shape"];

use Fault::{
    Element, KeyOfA, KeyOfB, LevelAbove, LevelOfA, LevelOfPlain, LevelOfRequest, LogSlots, NoKeys,
    NoKeysAtTop, NotFinite, ParamsOfA, ParamsOfB, ParamsOfKeys, ParamsOfPlain, ScaleAtLevel,
    ScaleOfA, ScaleOfB, ScaleOfNone, ScaleOfPlain, SlotsOfB, SlotsOfPlain, TooLarge, TooManyValues,
};

/// Weights of a linear transform, for keys of one's own.
fn weights(plan: &LinearPlan) -> <Evaluator as Ops>::Matrix {
    OWN.session.evaluator.prepare(plan).unwrap()
}

#[rustfmt::skip]
const ROWS: &[Row<Operands, { KINDS.len() }>] = rows![
    "Evaluator::new": |o| Evaluator::new(&OWN.session.params, Arc::clone(&o.keys.keys));
        [], [ParamsOfKeys], [], [], [], [];
    "Evaluator::add": |o| o.evaluator.add(&o.a, &o.b);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [], [ScaleAtLevel], [], [SlotsOfB];
    "Evaluator::add_assign": |o| o.evaluator.add_assign(&mut o.a, &o.b);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [], [ScaleAtLevel], [], [SlotsOfB];
    "Evaluator::sub": |o| o.evaluator.sub(&o.a, &o.b);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [], [ScaleAtLevel], [], [SlotsOfB];
    "Evaluator::neg": |o| o.evaluator.neg(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [], [];
    "Evaluator::add_plain": |o| o.evaluator.add_plain(&o.a, &o.plain);
        [KeyOfA], [ParamsOfA, ParamsOfPlain], [], [ScaleOfPlain], [], [SlotsOfPlain];
    "Evaluator::mul_plain": |o| o.evaluator.mul_plain(&o.a, &o.plain);
        [KeyOfA], [ParamsOfA, ParamsOfPlain], [], [ScaleOfA], [], [SlotsOfPlain];
    "Evaluator::add_const": |o| o.evaluator.add_const(&o.a, o.values[0]);
        [KeyOfA], [ParamsOfA], [], [], [], [NotFinite, TooLarge];
    "Evaluator::mul_const": |o| o.evaluator.mul_const(&o.a, o.values[0], o.scale);
        [KeyOfA], [ParamsOfA], [], [ScaleOfA, ScaleOfNone], [], [NotFinite, TooLarge];
    "Evaluator::mul_const_sum": |o| o.evaluator
            .mul_const_sum(&[(&o.a, o.values[0].re, o.scale), (&o.b, 0.5, o.scale)]);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [], [ScaleOfA, ScaleOfB, ScaleOfNone], [],
        [SlotsOfB, NotFinite, TooLarge];
    "Evaluator::mul_const_sums": |o| o.evaluator
            .mul_const_sums(&[&o.a, &o.b], &[vec![o.values[0].re, 0.5]], o.scale);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [], [ScaleOfA, ScaleOfB, ScaleOfNone], [],
        [SlotsOfB, NotFinite, TooLarge];
    "Evaluator::mul": |o| o.evaluator.mul(&o.a, &o.b);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [], [ScaleOfA], [NoKeys], [SlotsOfB];
    "Evaluator::mul_rescale": |o| o.evaluator.mul_rescale(&o.a, &o.b);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA], [ScaleOfA], [NoKeys], [SlotsOfB];
    "Evaluator::mul_many": |o| o.evaluator.mul_many(&[(&o.a, &o.a), (&o.a, &o.b)]);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [], [ScaleOfA], [NoKeys], [SlotsOfB];
    "Evaluator::mul_rescale_many": |o| o.evaluator.mul_rescale_many(&[(&o.a, &o.a), (&o.a, &o.b)]);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA], [ScaleOfA], [NoKeys], [SlotsOfB];
    "Evaluator::mul_sum_rescale": |o| o.evaluator
            .mul_sum_rescale(&ProductSum { products: vec![(&o.a, &o.b)], addend: Some(&o.square) });
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA], [ScaleOfA, ScaleOfB], [NoKeys],
        [SlotsOfB];
    "Evaluator::mul_sum_rescale_many": |o| o.evaluator.mul_sum_rescale_many(
            &[ProductSum { products: vec![(&o.a, &o.a), (&o.a, &o.b)], addend: None }]);
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA], [ScaleOfA, ScaleOfB], [NoKeys],
        [SlotsOfB];
    "Evaluator::rescale": |o| o.evaluator.rescale(&o.a);
        [KeyOfA], [ParamsOfA], [LevelOfA], [], [], [];
    "Evaluator::rescale_assign": |o| o.evaluator.rescale_assign(&mut o.a);
        [KeyOfA], [ParamsOfA], [LevelOfA], [], [], [];
    "Evaluator::drop_to": |o| o.evaluator.drop_to(&o.a, o.level);
        [KeyOfA], [ParamsOfA], [LevelAbove], [], [], [];
    "Evaluator::drop_to_assign": |o| o.evaluator.drop_to_assign(&mut o.a, o.level);
        [KeyOfA], [ParamsOfA], [LevelAbove], [], [], [];
    "Evaluator::match_scale": |o| o.evaluator.match_scale(&o.a, o.level, o.scale);
        [KeyOfA], [ParamsOfA], [LevelOfA, LevelAbove], [ScaleOfNone], [], [];
    "Evaluator::with_scale": |o| o.evaluator.with_scale(&o.a, o.scale);
        [KeyOfA], [ParamsOfA], [], [ScaleOfNone], [], [];
    "Evaluator::with_log_slots": |o| o.evaluator.with_log_slots(&o.a, o.log_slots);
        [KeyOfA], [ParamsOfA], [], [], [], [LogSlots];
    "Evaluator::mod_raise": |o| Evaluator::mod_raise(o.evaluator, &o.a, o.level);
        [KeyOfA], [ParamsOfA], [LevelAbove], [], [], [];
    "Evaluator::rotate": |o| o.evaluator.rotate(&o.a, o.steps);
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [];
    "Evaluator::conjugate": |o| o.evaluator.conjugate(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [];
    "Evaluator::automorphism": |o| o.evaluator.automorphism(&o.a, o.element);
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [Element];
    "Evaluator::sum_automorphisms": |o| o.evaluator.sum_automorphisms(&o.a, &[&[GaloisElement(1), o.element]]);
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [Element];
    "Evaluator::hoist": |o| o.evaluator.hoist(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [], [];
    "Evaluator::rotate_hoisted": |o| o.evaluator
            .hoist(&o.a).and_then(|hoisted| o.evaluator.rotate_hoisted(&hoisted, o.steps));
        [KeyOfA], [ParamsOfA], [], [], [NoKeys], [];
    "Evaluator::encode_matrix": |o| o.evaluator.prepare(if o.level > TOP { &TALL } else { &OWN.plan });
        [], [], [LevelAbove], [], [], [];
    "Evaluator::transform": |o| o.evaluator.transform(&low(o), &weights(&OWN.plan));
        [KeyOfA], [ParamsOfA], [LevelOfA], [], [NoKeysAtTop], [];
    "Evaluator::transform_many": |o| o.evaluator.transform_many(&[&low(o)], &weights(&OWN.plan));
        [KeyOfA], [ParamsOfA], [LevelOfA], [], [NoKeysAtTop], [];
    "Evaluator::raise_transform": |o| o.evaluator.raise_transform(&low(o), &weights(&OWN.raising));
        [KeyOfA], [ParamsOfA], [], [], [NoKeysAtTop], [];
    "Evaluator::raise_transform_many": |o| o.evaluator
            .raise_transform_many(&[&low(o)], &weights(&OWN.raising));
        [KeyOfA], [ParamsOfA], [], [], [NoKeysAtTop], [];
    "Value::apply": |o| Value::new(o.evaluator, o.a.clone())
            .apply(|e, a| e.mul_rescale(a, &o.b)).into_ciphertext();
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA], [ScaleOfA], [NoKeys], [SlotsOfB];
    "Value::into_ciphertext": |o| {
            let [x, y] = [&o.a, &o.b].map(|a| Value::new(o.evaluator, a.clone()));
            (&x * &y + o.values[0].re * &x).into_ciphertext()
        };
        [KeyOfA, KeyOfB], [ParamsOfA, ParamsOfB], [LevelOfA], [ScaleOfA], [NoKeys],
        [SlotsOfB, NotFinite, TooLarge];
    "Encryptor::new": |o| Encryptor::new(&OWN.session.params, Arc::clone(&o.keys.public));
        [], [ParamsOfKeys], [], [], [], [];
    "Encryptor::encrypt": |o| OWN.session.encryptor.encrypt(&o.plain);
        [], [ParamsOfPlain], [], [], [], [];
    "Encryptor::encrypt_with": |o| OWN.session.encryptor
            .encrypt_with(&o.plain, &Seed::from_bytes([1; 32]));
        [], [ParamsOfPlain], [], [], [], [];
    "SymmetricEncryptor::encrypt_seeded": |o| symmetric().encrypt_seeded(&o.plain);
        [], [ParamsOfPlain], [], [], [], [];
    "SymmetricEncryptor::encrypt_seeded_with": |o| symmetric()
            .encrypt_seeded_with(&o.plain, &Seed::from_bytes([1; 32]));
        [], [ParamsOfPlain], [], [], [], [];
    "Decryptor::new": |o| {
            let mut keygen = KeyGenerator::new(o.keys.session.params.rlwe())?;
            Decryptor::new(&OWN.session.params, keygen.secret_key()?)
        };
        [], [ParamsOfKeys], [], [], [], [];
    "Decryptor::decrypt": |o| OWN.session.decryptor.decrypt(&o.a);
        [KeyOfA], [ParamsOfA], [], [], [], [];
    "Decryptor::measure_noise": |o| OWN.session.decryptor.measure_noise(&o.a, &o.plain);
        [KeyOfA], [ParamsOfA, ParamsOfPlain], [LevelOfPlain], [], [], [];
    "Encoder::with_slots": |o| {
            let slots = 1usize.checked_shl(o.log_slots).unwrap_or(usize::MAX);
            sudare::ckks::Encoder::with_slots(&OWN.session.params, slots)
        };
        [], [], [], [], [], [LogSlots];
    "Encoder::encode": |o| OWN.session.encoder.encode(&o.values);
        [], [], [], [], [], [TooManyValues, NotFinite, TooLarge];
    "Encoder::encode_real": |o| OWN.session.encoder.encode_real(&o.real());
        [], [], [], [], [], [TooManyValues, NotFinite, TooLarge];
    "Encoder::encode_at": |o| OWN.session.encoder.encode_at(&o.values, o.level, o.scale);
        [], [], [LevelAbove], [ScaleOfNone], [], [TooManyValues, NotFinite, TooLarge];
    "Encoder::encode_real_at": |o| OWN.session.encoder.encode_real_at(&o.real(), o.level, o.scale);
        [], [], [LevelAbove], [ScaleOfNone], [], [TooManyValues, NotFinite, TooLarge];
    "Encoder::decode": |o| OWN.session.encoder.decode(&o.plain);
        [], [ParamsOfPlain], [], [], [], [];
    "Encoder::decode_real": |o| OWN.session.encoder.decode_real(&o.plain);
        [], [ParamsOfPlain], [], [], [], [];
    "KeyGenerator::public_key": |o| generator().public_key(&o.keys.secret);
        [], [ParamsOfKeys], [], [], [], [];
    "KeyGenerator::evaluation_keys": |o| generator()
            .evaluation_keys(&o.keys.secret, &o.request);
        [], [ParamsOfKeys], [LevelOfRequest], [], [], [Element];
    "KeyGenerator::evaluation_keys_with": |o| generator()
            .evaluation_keys_with(&o.keys.secret, &o.request, |_| ());
        [], [ParamsOfKeys], [LevelOfRequest], [], [], [Element];
];

fn symmetric() -> SymmetricEncryptor {
    let secret = Arc::new(generator().secret_key().unwrap());
    SymmetricEncryptor::new(&OWN.session.params, secret).unwrap()
}

fn generator() -> KeyGenerator {
    KeyGenerator::new(OWN.session.params.rlwe()).unwrap()
}

/// At the scale of the plans of linear transforms.
fn low(o: &Operands) -> Ciphertext {
    let scale = Scale::from_log2(30.0);
    let wide = o.evaluator.with_log_slots(&o.a, LOG_N - 1);
    let read = wide.and_then(|a| o.evaluator.with_scale(&a, scale));
    read.unwrap_or_else(|_| o.a.clone())
}

/// Operations that take nothing but the system's randomness, or any bytes.
const NOTHING_TO_GET_WRONG: [&str; 3] =
    ["KeyGenerator::new", "KeyGenerator::secret_key", "Decryptor::release_seed"];

#[test]
fn every_misuse_of_every_operation_is_a_typed_error() {
    crate::matrix::check(ROWS, KINDS, CASES);
}

#[test]
#[ignore = "minutes"]
fn every_misuse_of_every_operation_is_a_typed_error_ten_thousand_times() {
    crate::matrix::check(ROWS, KINDS, 100 * CASES);
}

/// Errors of spoiled operands say nothing if good ones are refused too.
#[test]
fn operands_that_are_not_spoiled_are_accepted() {
    crate::matrix::accept(ROWS, |name, operands: &mut Operands| {
        if name.ends_with("transform") || name.ends_with("transform_many") {
            operands.a = OWN.encrypted(32, TOP);
        }
    });
}

/// Public methods that can fail, of the types that work with ciphertexts and keys.
fn fallible_methods() -> BTreeSet<String> {
    let files = [
        "ckks/evaluator.rs",
        "ckks/transform.rs",
        "ckks/encrypt.rs",
        "ckks/encode.rs",
        "rlwe/encrypt.rs",
        "rlwe/keygen.rs",
        "circuits/value.rs",
    ];
    let types = [
        "Evaluator",
        "Encryptor",
        "SymmetricEncryptor",
        "Decryptor",
        "Encoder",
        "KeyGenerator",
        "Value",
    ];
    crate::matrix::fallible_methods(&files.map(|file| (file, "")), &types)
}

#[test]
fn every_public_operation_has_a_row() {
    let names = ROWS.iter().map(|row| row.name).chain(NOTHING_TO_GET_WRONG);
    let rows: BTreeSet<String> = names.map(str::to_owned).collect();
    assert_eq!(rows, fallible_methods());
    assert!(rows.len() > 40, "{}", rows.len());
}
