use super::*;
use crate::exact::{Comparison, Scheme, Setting, bootstrapping_set};
use std::{panic::Location, sync::LazyLock};
use sudare::{
    exact::{Decryptor, Encryptor, Modulus, Params, Spec},
    rlwe::KeyGenerator,
};

/// 256 slots modulo 65537 and these levels, without security.
fn setting(levels: usize) -> Setting {
    let t = Modulus::new(65537, 1).unwrap();
    let spec = Spec::uniform(8, t, 50.0, levels, 40.0, vec![50.0; 3]);
    let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
    Setting::new(params, Scheme::Bgv, true).unwrap()
}

/// Clear words with the reference arithmetic of this machine beside them.
struct Bench {
    words: Words<Clear>,
    kind: WordType,
    radix: Radix,
}

impl Bench {
    fn new(kind: WordType, radix: Radix) -> Self {
        Self { words: Words::new(Clear::new(&setting(1))), kind, radix }
    }

    fn encrypt(&self, values: &[i128]) -> Word<ClearPlane> {
        Word::made_of(&plain(values), self.kind, self.radix, |shape, digits, range| {
            self.words.digits().plane(shape, digits, range)
        })
        .unwrap()
    }

    /// Compares with numbers that are reduced to the type.
    #[track_caller]
    fn expect(&self, found: Result<Word<ClearPlane>>, expected: impl Iterator<Item = i128>) {
        let place = Location::caller();
        let found = found.unwrap_or_else(|error| panic!("{place}: {error}"));
        let digits: Vec<_> = found.planes().iter().map(|plane| plane.values().to_vec()).collect();
        let opened = PlainWords::of_digits(found.kind, found.radix, &[digits[0].len()], &digits);
        let expected: Vec<u64> = expected.map(|x| wrapped(found.kind, x)).collect();
        assert!(opened.values == expected, "{place}: {} in {:?}", self.kind, self.radix);
    }
}

fn wrapped(kind: WordType, x: i128) -> u64 {
    kind.word(kind.code(x as u64))
}

fn plain(values: &[i128]) -> PlainWords {
    PlainWords { shape: vec![values.len()], values: values.iter().map(|&x| x as u64).collect() }
}

fn scalar<P>(x: i128) -> Operand<P> {
    Operand::Plain(PlainWords::scalar(x as u64))
}

fn limits(kind: WordType) -> (i128, i128) {
    let count = 1i128 << kind.bits();
    if kind.is_signed() { (-count / 2, count / 2 - 1) } else { (0, count - 1) }
}

fn kinds() -> impl Iterator<Item = WordType> {
    let kinds = |bits| [false, true].map(|signed| WordType::new(bits, signed).unwrap());
    [8, 16, 32, 64].into_iter().flat_map(kinds)
}

/// Both ends, their neighbours, powers of two and pseudorandom numbers.
fn samples(kind: WordType) -> Vec<i128> {
    let (low, high) = limits(kind);
    let mut all = vec![low, low + 1, high, high - 1, 0, 1, 2, 3, 15, 16, 17, 100];
    let mut state = 7u64;
    for i in 0..40 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.push(kind.word(kind.code(state >> (i % 3 * 13))) as i64 as i128);
    }
    let unsigned = |x: i128| if kind.is_signed() { x } else { x & ((1 << kind.bits()) - 1) };
    let mut all: Vec<i128> = all.into_iter().map(unsigned).collect();
    all.extend((0..kind.bits() - 1).map(|bit| 1i128 << bit));
    all
}

type Predicate = fn(&i128, &i128) -> bool;

const COMPARISONS: [(Comparison, Predicate); 6] = [
    (Comparison::Less, i128::lt),
    (Comparison::LessEqual, i128::le),
    (Comparison::Greater, i128::gt),
    (Comparison::GreaterEqual, i128::ge),
    (Comparison::Equal, i128::eq),
    (Comparison::NotEqual, i128::ne),
];

/// Checks every operation of two operands.
fn check_pairs(bench: &Bench, pairs: &[(i128, i128)]) {
    let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    let x = Operand::Encrypted(bench.encrypt(&a));
    let y = Operand::Encrypted(bench.encrypt(&b));
    let w = &bench.words;
    let each = |f: fn(i128, i128) -> i128| pairs.iter().map(move |&(a, b)| f(a, b));
    bench.expect(w.add(&x, &y), each(|a, b| a + b));
    bench.expect(w.sub(&x, &y), each(|a, b| a - b));
    bench.expect(w.mul(&x, &y), each(i128::wrapping_mul));
    bench.expect(w.carried(&w.add(&x, &y).unwrap()), each(|a, b| a + b));
    bench.expect(w.carried(&w.sub(&x, &y).unwrap()), each(|a, b| a - b));
    bench.expect(w.minimum(&x, &y), each(|a, b| a.min(b)));
    bench.expect(w.maximum(&x, &y), each(|a, b| a.max(b)));
    bench.expect(w.bitwise(Bitwise::And, &x, &y), each(|a, b| a & b));
    bench.expect(w.bitwise(Bitwise::Or, &x, &y), each(|a, b| a | b));
    bench.expect(w.bitwise(Bitwise::Xor, &x, &y), each(|a, b| a ^ b));
    for (comparison, holds) in COMPARISONS {
        let found = w.compare(&x, comparison, &y);
        bench.expect(found, pairs.iter().map(|(a, b)| holds(a, b).into()));
    }
    let mask = Operand::Encrypted(w.compare(&x, Comparison::Less, &y).unwrap());
    bench.expect(w.select(&mask, &y, &x), each(|a, b| a.max(b)));
    // A plain array in place of an encrypted one.
    let other = Operand::Plain(plain(&b));
    bench.expect(w.sub(&x, &other), each(|a, b| a - b));
    bench.expect(w.compare(&other, Comparison::Less, &x), each(|a, b| i128::from(b < a)));
}

#[test]
fn all_pairs_of_bytes_are_right() {
    for signed in [false, true] {
        let kind = WordType::new(8, signed).unwrap();
        let (low, high) = limits(kind);
        let pairs: Vec<_> = (low..=high).flat_map(|a| (low..=high).map(move |b| (a, b))).collect();
        for radix in [Radix::Nibbles, Radix::Bytes] {
            check_pairs(&Bench::new(kind, radix), &pairs);
        }
    }
}

#[test]
fn edges_of_all_types_are_right() {
    for kind in kinds() {
        let all = samples(kind);
        let pairs: Vec<_> = all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).collect();
        for radix in [Radix::Nibbles, Radix::Bytes] {
            check_pairs(&Bench::new(kind, radix), &pairs);
        }
    }
}

/// Checks every operation with a scalar.
fn check_scalar(bench: &Bench, all: &[i128], x: &Word<ClearPlane>, c: i128) {
    let w = &bench.words;
    let e = Operand::Encrypted(x.clone());
    let s = scalar(c);
    let each = |f: fn(i128, i128) -> i128| all.iter().map(move |&a| f(a, c));
    bench.expect(w.add(&e, &s), each(|a, c| a + c));
    bench.expect(w.carried(&w.add(&s, &e).unwrap()), each(|a, c| a + c));
    bench.expect(w.carried(&w.sub(&e, &s).unwrap()), each(|a, c| a - c));
    bench.expect(w.carried(&w.sub(&s, &e).unwrap()), each(|a, c| c - a));
    bench.expect(w.mul(&e, &s), each(i128::wrapping_mul));
    bench.expect(w.bitwise(Bitwise::And, &e, &s), each(|a, c| a & c));
    bench.expect(w.bitwise(Bitwise::Or, &e, &s), each(|a, c| a | c));
    bench.expect(w.bitwise(Bitwise::Xor, &s, &e), each(|a, c| a ^ c));
    bench.expect(w.maximum(&e, &s), each(|a, c| a.max(c)));
    for (comparison, holds) in COMPARISONS {
        bench.expect(w.compare(&e, comparison, &s), all.iter().map(|a| holds(a, &c).into()));
        bench.expect(w.compare(&s, comparison, &e), all.iter().map(|a| holds(&c, a).into()));
    }
    if c > 0 {
        bench.expect(w.quotient(x, c as u64), each(i128::div_euclid));
        bench.expect(w.remainder(x, c as u64), each(i128::rem_euclid));
    }
}

#[test]
fn scalars_are_right() {
    for kind in kinds() {
        let (low, high) = limits(kind);
        let all = if kind.bits() == 8 { (low..=high).collect() } else { samples(kind) };
        for radix in [Radix::Nibbles, Radix::Bytes] {
            let bench = Bench::new(kind, radix);
            let x = bench.encrypt(&all);
            let step = if radix == Radix::Nibbles { 4 } else { 11 };
            for c in samples(kind).into_iter().step_by(step) {
                check_scalar(&bench, &all, &x, c);
            }
        }
    }
}

#[test]
fn bytes_are_divided_by_all_numbers() {
    for signed in [false, true] {
        let kind = WordType::new(8, signed).unwrap();
        let (low, high) = limits(kind);
        let all: Vec<i128> = (low..=high).collect();
        let bench = Bench::new(kind, Radix::Nibbles);
        let x = bench.encrypt(&all);
        for c in 1..=high {
            bench.expect(bench.words.quotient(&x, c as u64), all.iter().map(|a| a.div_euclid(c)));
            bench.expect(bench.words.remainder(&x, c as u64), all.iter().map(|a| a.rem_euclid(c)));
        }
    }
}

#[test]
fn single_operands_are_right() {
    for kind in kinds() {
        let all = samples(kind);
        for radix in [Radix::Nibbles, Radix::Bytes] {
            let bench = Bench::new(kind, radix);
            let w = &bench.words;
            let x = bench.encrypt(&all);
            let each = |f: fn(i128) -> i128| all.iter().map(move |&a| f(a));
            bench.expect(w.carried(&w.neg(&x).unwrap()), each(|a| -a));
            bench.expect(w.invert(&x), each(|a| !a));
            bench.expect(w.abs(&x), each(i128::abs));
            for count in 0..=kind.bits() + 1 {
                let up = |a: &i128| if count < 64 { a << count } else { 0 };
                bench.expect(w.shift_left(&x, count), all.iter().map(up));
                bench.expect(w.shift_right(&x, count), all.iter().map(|a| a >> count));
            }
            for to in kinds().chain([WordType::BOOL]) {
                let nonzero = |&a: &i128| if to == WordType::BOOL { (a != 0).into() } else { a };
                bench.expect(w.converted(&x, to), all.iter().map(nonzero));
                let converted = w.converted(&x, to).unwrap();
                bench.expect(w.carried(&converted), all.iter().map(nonzero));
            }
            let few = [all[3], all[20], 1 << 70];
            let numbers: Vec<u64> = few[..2].iter().map(|&x| x as u64).collect();
            bench.expect(w.is_in(&x, &numbers), all.iter().map(|a| few.contains(a).into()));
            let mut edges = [all[5], all[2], all[30]];
            edges.sort_unstable();
            let words: Vec<u64> = edges.iter().map(|&x| x as u64).collect();
            for right in [false, true] {
                let place =
                    |a: &i128| edges.iter().filter(|e| *e < a || right && *e == a).count() as i128;
                bench.expect(w.search_sorted(&words, &x, right), all.iter().map(place));
            }
        }
    }
}

#[test]
fn booleans_are_right() {
    let bench = Bench::new(WordType::BOOL, Radix::Nibbles);
    let w = &bench.words;
    let x = bench.encrypt(&[0, 0, 1, 1]);
    let y = bench.encrypt(&[0, 1, 0, 1]);
    let a = Operand::Encrypted(x.clone());
    let b = Operand::Encrypted(y);
    bench.expect(w.bitwise(Bitwise::And, &a, &b), [0, 0, 0, 1].into_iter());
    bench.expect(w.bitwise(Bitwise::Or, &a, &b), [0, 1, 1, 1].into_iter());
    bench.expect(w.bitwise(Bitwise::Xor, &a, &b), [0, 1, 1, 0].into_iter());
    bench.expect(w.bitwise(Bitwise::Xor, &a, &scalar(1)), [1, 1, 0, 0].into_iter());
    bench.expect(w.bitwise(Bitwise::And, &a, &scalar(0)), [0; 4].into_iter());
    bench.expect(w.add(&a, &b), [0, 1, 1, 1].into_iter());
    bench.expect(w.mul(&a, &b), [0, 0, 0, 1].into_iter());
    bench.expect(w.compare(&a, Comparison::Equal, &b), [1, 0, 0, 1].into_iter());
    bench.expect(w.invert(&x), [1, 1, 0, 0].into_iter());
    bench.expect(w.maximum(&a, &b), [0, 1, 1, 1].into_iter());
    for kind in kinds() {
        bench.expect(w.converted(&x, kind), [0, 0, 1, 1].into_iter());
    }
    for refused in [w.sub(&a, &b), w.neg(&x), w.shift_left(&x, 1), w.quotient(&x, 1)] {
        assert!(matches!(refused, Err(ArrayError::Argument { .. })));
    }
}

#[test]
fn sums_wait_for_their_carries() {
    for kind in kinds() {
        for radix in [Radix::Nibbles, Radix::Bytes] {
            let bench = Bench::new(kind, radix);
            let w = &bench.words;
            let all = samples(kind);
            let x = Operand::Encrypted(bench.encrypt(&all));
            let mut total = w.sub(&x, &scalar(1)).unwrap();
            let mut expected: Vec<i128> = all.iter().map(|a| a - 1).collect();
            for step in 0..90 {
                let sum = Operand::Encrypted(total);
                total = if step % 3 == 0 { w.sub(&sum, &x) } else { w.add(&sum, &x) }.unwrap();
                let sign = if step % 3 == 0 { -1 } else { 1 };
                expected.iter_mut().zip(&all).for_each(|(sum, a)| *sum += sign * a);
                bench.expect(Ok(total.clone()), expected.iter().copied());
                if step % 10 == 9 {
                    bench.expect(w.carried(&total), expected.iter().copied());
                }
            }
        }
    }
}

#[test]
fn wrong_operands_are_refused() {
    let bench = Bench::new(WordType::new(8, false).unwrap(), Radix::Nibbles);
    let w = &bench.words;
    let x = Operand::Encrypted(bench.encrypt(&[1, 2, 3]));
    let other = Bench::new(WordType::new(16, false).unwrap(), Radix::Nibbles).encrypt(&[1, 2, 3]);
    let coarse = Bench::new(bench.kind, Radix::Bytes).encrypt(&[1, 2, 3]);
    let Operand::Encrypted(word) = &x else { unreachable!() };
    for refused in [
        w.add(&x, &scalar(256)),
        w.add(&x, &scalar(-1)),
        w.add(&x, &Operand::Encrypted(other)),
        w.add(&x, &Operand::Encrypted(coarse)),
        w.add(&scalar(1), &scalar(2)),
        w.select(&x, &x, &x),
        w.quotient(word, 0),
        w.remainder(word, 0),
        w.full_like(word, 300),
    ] {
        assert!(matches!(refused, Err(ArrayError::Argument { .. })), "{refused:?}");
    }
    let short = Operand::Plain(plain(&[1, 2]));
    assert!(matches!(w.add(&x, &short), Err(ArrayError::Shapes { .. })));
    let signed = Bench::new(WordType::new(8, true).unwrap(), Radix::Nibbles).encrypt(&[1]);
    assert!(w.quotient(&signed, -3i64 as u64).is_err());
    assert!(WordType::new(24, false).is_err() && "uint24".parse::<WordType>().is_err());
    assert!(kinds().all(|kind| kind.to_string().parse::<WordType>().unwrap() == kind));
}

/// Keys, and both engines.
struct Session {
    setting: Setting,
    encryptor: Encryptor,
    decryptor: Decryptor,
    encrypted: Words<EncryptedPlanes>,
    simulated: Words<Paired<Clear, SimulatedPlanes>>,
}

impl Session {
    fn new(setting: Setting) -> Self {
        let params = setting.params().clone();
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = keygen.evaluation_keys(&secret, &required_keys(&setting)).unwrap();
        let planes = EncryptedPlanes::encrypted(&setting, Arc::new(keys)).unwrap();
        Self {
            encryptor: Encryptor::new(&params, public).unwrap(),
            decryptor: Decryptor::new(&params, Arc::new(secret)).unwrap(),
            encrypted: Words::new(planes),
            simulated: simulated(&setting),
            setting,
        }
    }

    /// Runs a program on both engines, which must agree, and compares with its results.
    #[track_caller]
    fn expect(
        &self,
        kind: WordType,
        radix: Radix,
        inputs: &[&[i128]],
        program: &dyn Program,
        expected: impl Iterator<Item = i128>,
    ) {
        let encrypt = |values: &&[i128]| {
            encrypt(&self.encryptor, &self.setting, &plain(values), kind, radix).unwrap()
        };
        let xs: Vec<_> = inputs.iter().map(encrypt).collect();
        let found = program.encrypted(&self.encrypted, &xs).unwrap();
        let opened = decrypt(&self.decryptor, &self.setting, &found).unwrap();
        let expected: Vec<u64> = expected.map(|x| wrapped(found.kind, x)).collect();
        assert_eq!(opened.values, expected);

        let xs: Vec<_> =
            inputs.iter().map(|values| fresh(&self.simulated, values, kind, radix)).collect();
        let again = program.simulated(&self.simulated, &xs).unwrap();
        let digits: Vec<_> = again.planes().iter().map(|p| p.0.values().to_vec()).collect();
        let clear = PlainWords::of_digits(again.kind, again.radix, &[expected.len()], &digits);
        assert_eq!(clear.values, expected);
        // Level, factor and bound of every ciphertext.
        for (plane, known) in found.planes().iter().zip(again.planes()) {
            let forms: Vec<_> =
                plane.blocks().iter().map(sudare::exact::Ciphertext::form).collect();
            assert_eq!(forms, known.1.blocks());
            assert_eq!(plane.range(), known.1.range());
        }
    }
}

fn simulated(setting: &Setting) -> Words<Paired<Clear, SimulatedPlanes>> {
    let planes = SimulatedPlanes::simulated(setting).unwrap();
    Words::new(Paired(Clear::new(setting), planes))
}

fn fresh(
    words: &Words<Paired<Clear, SimulatedPlanes>>,
    values: &[i128],
    kind: WordType,
    radix: Radix,
) -> Word<PairedPlane<ClearPlane, Plane<sudare::exact::Form>>> {
    let Paired(clear, planes) = words.digits();
    Word::made_of(&plain(values), kind, radix, |shape, digits, range| {
        let own = clear.plane(shape, digits, range)?;
        Ok(PairedPlane(own, planes.fresh(shape, range)?))
    })
    .unwrap()
}

type Simulated = Paired<Clear, SimulatedPlanes>;

/// A program for both engines.
trait Program {
    fn encrypted(
        &self,
        w: &Words<EncryptedPlanes>,
        xs: &[Word<EncryptedPlane>],
    ) -> Result<Word<EncryptedPlane>>;
    fn simulated(
        &self,
        w: &Words<Simulated>,
        xs: &[Word<<Simulated as Digits>::Plane>],
    ) -> Result<Word<<Simulated as Digits>::Plane>>;
}

/// Implements [`Program`] by one generic function of words and inputs.
macro_rules! program {
    ($name:ident, |$w:ident, $xs:ident| $body:expr) => {
        struct $name;

        impl Program for $name {
            fn encrypted(
                &self,
                w: &Words<EncryptedPlanes>,
                xs: &[Word<EncryptedPlane>],
            ) -> Result<Word<EncryptedPlane>> {
                let run = |$w: &Words<EncryptedPlanes>, $xs: &[Word<EncryptedPlane>]| $body;
                run(w, xs)
            }
            fn simulated(
                &self,
                w: &Words<Simulated>,
                xs: &[Word<<Simulated as Digits>::Plane>],
            ) -> Result<Word<<Simulated as Digits>::Plane>> {
                let run = |$w: &Words<Simulated>, $xs: &[Word<<Simulated as Digits>::Plane>]| $body;
                run(w, xs)
            }
        }
    };
}

fn op<P: Clone>(x: &Word<P>) -> Operand<P> {
    Operand::Encrypted(x.clone())
}

program!(Carried, |w, xs| w.carried(&w.add(&op(&xs[0]), &op(&xs[1]))?));
program!(Less, |w, xs| w.compare(&op(&xs[0]), Comparison::Less, &op(&xs[1])));
program!(Equal, |w, xs| w.compare(&op(&xs[0]), Comparison::Equal, &op(&xs[1])));
program!(Maximum, |w, xs| w.maximum(&op(&xs[0]), &op(&xs[1])));
program!(And, |w, xs| w.bitwise(Bitwise::And, &op(&xs[0]), &op(&xs[1])));
program!(Product, |w, xs| w.mul(&op(&xs[0]), &op(&xs[1])));
program!(Third, |w, xs| w.quotient(&xs[0], 3));
program!(Mixed, |w, xs| {
    let difference = w.sub(&op(&xs[0]), &op(&xs[1]))?;
    let larger = w.compare(&op(&difference), Comparison::Greater, &op(&xs[1]))?;
    let chosen = w.select(&op(&larger), &op(&w.shift_right(&xs[0], 3)?), &op(&difference))?;
    w.bitwise(Bitwise::Xor, &op(&chosen), &scalar(85))
});
program!(Long, |w, xs| {
    let mut x = xs[0].clone();
    for _ in 0..3 {
        let smaller = w.minimum(&op(&w.add(&op(&x), &op(&xs[1]))?), &op(&xs[0]))?;
        x = w.bitwise(Bitwise::Xor, &op(&smaller), &op(&xs[1]))?;
    }
    Ok(x)
});

static LEVELED: LazyLock<Session> = LazyLock::new(|| Session::new(setting(26)));

#[test]
fn encrypted_words_are_right_and_as_simulated() {
    let s = &*LEVELED;
    for kind in [WordType::new(32, false).unwrap(), WordType::new(16, true).unwrap()] {
        let all = samples(kind);
        let a: Vec<i128> = all.iter().copied().take(60).collect();
        let mut b: Vec<i128> = all.iter().rev().copied().take(60).collect();
        b[7] = a[7];
        let pairs: Vec<_> = a.iter().zip(&b).map(|(&a, &b)| (a, b)).collect();
        let each = |f: fn(i128, i128) -> i128| pairs.iter().map(move |&(a, b)| f(a, b));
        let inputs: [&[i128]; 2] = [&a, &b];
        let radix = Radix::Nibbles;
        s.expect(kind, radix, &inputs, &Carried, each(|a, b| a + b));
        s.expect(kind, radix, &inputs, &Less, each(|a, b| (a < b).into()));
        s.expect(kind, radix, &inputs, &Equal, each(|a, b| (a == b).into()));
        s.expect(kind, radix, &inputs, &Maximum, each(|a, b| a.max(b)));
        s.expect(kind, radix, &inputs, &And, each(|a, b| a & b));
        s.expect(kind, radix, &inputs[..1], &Third, each(|a, _| a.div_euclid(3)));
        s.expect(kind, radix, &inputs, &Mixed, pairs.iter().map(|&(a, b)| mixed(kind, a, b)));
    }
    let kind = WordType::new(8, true).unwrap();
    let a: Vec<i128> = (-128..128).collect();
    let b: Vec<i128> = (-128..128).map(|x| (x * 37 + 11) % 128).collect();
    let inputs: [&[i128]; 2] = [&a, &b];
    let products = a.iter().zip(&b).map(|(a, b)| a * b);
    s.expect(kind, Radix::Nibbles, &inputs, &Product, products);
    let less = a.iter().zip(&b).map(|(a, b)| (a < b).into());
    s.expect(kind, Radix::Bytes, &inputs, &Less, less);
}

/// The program [`Mixed`] in the arithmetic of this machine.
fn mixed(kind: WordType, a: i128, b: i128) -> i128 {
    let signed = |x: i128| match kind.is_signed() {
        true => wrapped(kind, x) as i64 as i128,
        false => wrapped(kind, x).into(),
    };
    let difference = signed(a - b);
    (if difference > b { a >> 3 } else { difference }) ^ 85
}

#[test]
fn programs_of_any_depth_are_refreshed() {
    const NAME: &str = "n15-t65537-boot";
    let params = Params::new(bootstrapping_set(NAME, Some(8)).unwrap().preset.spec).unwrap();
    let s = Session::new(Setting::named(NAME, params, Scheme::Bgv, true).unwrap());
    let kind = WordType::new(8, false).unwrap();
    let a: Vec<i128> = (0..256).collect();
    let b: Vec<i128> = (0..256).map(|x| x * 91 % 256).collect();
    let long = |(&a, &b): (&i128, &i128)| (0..3).fold(a, |x, _| ((x + b) % 256).min(a) ^ b);
    s.expect(kind, Radix::Nibbles, &[&a, &b], &Long, a.iter().zip(&b).map(long));
    let Paired(_, planes) = s.simulated.digits();
    let found = s.encrypted.digits().bootstraps();
    assert!(found > 4 && found == planes.bootstraps(), "{found} {}", planes.bootstraps());
    // Tables of 9 levels do not fit between two bootstrappings.
    let refused = Session::expect_refused(&s, kind);
    assert!(matches!(refused, ArrayError::LevelExhausted { needed: 9, left: 7, .. }), "{refused}");
}

impl Session {
    fn expect_refused(&self, kind: WordType) -> ArrayError {
        let x = fresh(&self.simulated, &[1, 2, 3], kind, Radix::Bytes);
        self.simulated.compare(&op(&x), Comparison::Less, &op(&x)).err().unwrap()
    }
}

/// Relinearisations and levels of operations.
#[test]
fn operations_have_the_known_costs() {
    let setting = setting(34);
    let counted = |kind: WordType, program: &dyn Program| {
        let words = simulated(&setting);
        let ones = vec![1; 4];
        let xs = [0, 1].map(|_| fresh(&words, &ones, kind, Radix::Nibbles));
        let found = program.simulated(&words, &xs).unwrap();
        let Paired(_, planes) = words.digits();
        let levels = found.planes().iter().map(|plane| planes.levels_left(&plane.1));
        (planes.relinearizations(), 34 - levels.min().unwrap())
    };
    let u8 = WordType::new(8, false).unwrap();
    let u32 = WordType::new(32, false).unwrap();
    let u64 = WordType::new(64, false).unwrap();
    let costs = [
        counted(u32, &Less),
        counted(u32, &Equal),
        counted(u32, &Carried),
        counted(u32, &Maximum),
        counted(u32, &And),
        counted(u8, &Product),
        counted(u64, &Product),
    ];
    let known = [(111, 8), (71, 8), (117, 8), (119, 9), (264, 5), (75, 15), (1965, 28)];
    assert_eq!(costs, known);
}

/// Times operations on all slots of rings with 128 bits of security, and compares their results.
#[test]
#[ignore = "full rings and keys: a minute; cargo test -p sudare-apps --release --lib words::tests::full_rings -- --ignored --nocapture"]
fn full_rings() {
    let kind = WordType::new(32, false).unwrap();
    let params = Params::new(leveled(9).unwrap().spec).unwrap();
    let setting = Setting::new(params, Scheme::Bgv, true).unwrap();
    let slots = setting.slots();
    let s = Session::new(setting);
    let mut state = 9u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i128::from(state >> 32)
    };
    let a: Vec<i128> = (0..slots).map(|_| next()).collect();
    let b: Vec<i128> = (0..slots).map(|_| next()).collect();
    let encrypt = |values: &[i128]| {
        encrypt(&s.encryptor, &s.setting, &plain(values), kind, Radix::Nibbles).unwrap()
    };
    let xs = [encrypt(&a), encrypt(&b)];
    type Clear = fn(i128, i128) -> i128;
    let programs: [(&str, &dyn Program, Clear); 4] = [
        ("<", &Less, |a, b| (a < b).into()),
        ("carries of +", &Carried, |a, b| a + b),
        ("maximum", &Maximum, i128::max),
        ("&", &And, |a, b| a & b),
    ];
    for (name, program, f) in programs {
        // The first run makes tables.
        program.encrypted(&s.encrypted, &xs).unwrap();
        let start = std::time::Instant::now();
        let found = program.encrypted(&s.encrypted, &xs).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let words = simulated(&s.setting);
        let few = [1, 2].map(|x| fresh(&words, &vec![x; slots], kind, Radix::Nibbles));
        program.simulated(&words, &few).unwrap();
        let Paired(_, planes) = words.digits();
        eprintln!(
            "{name} of {slots} {kind}: {seconds:.3} s, {:.2} us a word, {} relinearisations, predicted {:.3} s",
            1e6 * seconds / slots as f64,
            planes.relinearizations(),
            planes.usage().seconds
        );
        let opened = decrypt(&s.decryptor, &s.setting, &found).unwrap();
        let expected: Vec<u64> =
            a.iter().zip(&b).map(|(&a, &b)| wrapped(found.kind, f(a, b))).collect();
        assert!(opened.values == expected);
    }
}
