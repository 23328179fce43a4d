//! Tests against polynomials in the clear, and against BGV.

use super::Evaluator;
use crate::{
    Error, Result,
    exact::{
        self, BatchEncoder, Ciphertext, Encryptor, Modulus, Opening, Params, PlainPoly, Spec,
        Tensor, Unit, preset,
        tests::{Session, add, chain, image, mixed, modulus, mul, scale, sub},
    },
    rlwe::{
        EvaluationKeys, GaloisElement, KeyRequest, Level, ProductSum,
        shared::{Sharing, tests::Group},
    },
};
use std::sync::Arc;

fn evaluator(session: &Session) -> Evaluator {
    Evaluator::new(&session.params, session.keys.clone()).unwrap()
}

#[test]
fn products_and_sums_of_several_levels_have_one_factor() {
    for spec in [mixed(6, modulus(65537, 1)), chain(5, modulus(257, 1), 3)] {
        let t = spec.plaintext_modulus;
        let mut session = Session::new(spec, 21);
        let e = evaluator(&session);
        let a = session.random(t);
        let b = session.random(t);
        let x = session.encrypt(&a);
        let y = session.encrypt(&b);
        let one = Unit::one(t);
        let product = e.mul(&x, &y).unwrap();
        session.assert_holds(&product, &mul(&a, &b));
        let rescaled = e.mul_rescale(&x, &y).unwrap();
        session.assert_holds(&rescaled, &mul(&a, &b));
        assert_eq!(rescaled.level(), Level(product.level().0 - 1));
        for z in [&x, &product, &rescaled] {
            assert!(e.factor(z).unwrap().matches(one));
        }
        let sum = e.add(&rescaled, &x).unwrap();
        session.assert_holds(&sum, &add(&mul(&a, &b), &a));
        let difference = e.sub(&y, &rescaled).unwrap();
        session.assert_holds(&difference, &sub(&b, &mul(&a, &b)));
        let several =
            ProductSum { products: vec![(&x, &sum), (&difference, &y)], addend: Some(&product) };
        let p = add(&mul(&a, &b), &a);
        let q = sub(&b, &mul(&a, &b));
        let expected = add(&add(&mul(&a, &p), &mul(&q, &b)), &mul(&a, &b));
        session.assert_holds(&e.mul_sum(&several, false).unwrap(), &expected);
        session.assert_holds(&e.mul_sum(&several, true).unwrap(), &expected);
        session.assert_holds(&e.rescale_to(&x, Level(1)).unwrap(), &a);
        let none = ProductSum { products: vec![], addend: Some(&x) };
        assert!(matches!(e.mul_sum(&none, true), Err(Error::Circuit(_))));
    }
}

/// Products work for all factors of the operands, at every level.
#[test]
fn any_factors_multiply() {
    let t = modulus(257, 2);
    let mut session = Session::new(mixed(5, t), 22);
    let e = evaluator(&session);
    for level in (1..=session.params.top().0).map(Level) {
        let [f, g] = [1000, 77].map(|f| Unit::new(f, t).unwrap());
        let a = session.random(t);
        let b = session.random(t);
        let x = session.encrypt_at(&a, level, f);
        let y = session.encrypt_at(&b, level, g);
        let product = e.mul(&x, &y).unwrap();
        session.assert_holds(&product, &mul(&a, &b));
        let of_both = e.factor(&x).unwrap() * e.factor(&y).unwrap();
        assert!(e.factor(&product).unwrap().matches(of_both));
        // Sums bring both operands to one factor.
        match e.add(&x, &product) {
            Ok(sum) => session.assert_holds(&sum, &a.add(&mul(&a, &b)).unwrap()),
            Err(error) => assert!(matches!(error, Error::NoiseExhausted { .. }), "{error}"),
        }
    }
}

/// Products multiply the scales of either tensor, and rescaling divides them by the divisor of its
/// chain, at every level.
#[test]
fn scales_follow_the_chain_of_the_tensor() {
    let t = modulus(257, 2);
    let mut session = Session::new(mixed(5, t), 51);
    let e = evaluator(&session);
    let params = session.params.clone();
    for level in (1..=params.top().0).map(Level) {
        let [f, g] = [1000, 77].map(|f| Unit::new(f, t).unwrap());
        let a = session.random(t);
        let b = session.random(t);
        let x = session.encrypt_at(&a, level, f);
        let y = session.encrypt_at(&b, level, g);
        for tensor in [Tensor::Plain, Tensor::Scaled] {
            let scale = |a: &Ciphertext| tensor.scale(&params, a.level(), a.factor()).unwrap();
            let product = match tensor {
                Tensor::Plain => session.evaluator.mul(&x, &y),
                Tensor::Scaled => e.mul(&x, &y),
            }
            .unwrap();
            assert!(scale(&product).matches(scale(&x) * scale(&y)));
            let rescaled = e.exact().rescale(&product).unwrap();
            let divisor = tensor.chain(&params, t).unwrap().divisor(level);
            assert!(scale(&rescaled).matches(scale(&product) / divisor));
            let factor = tensor.factor(&params, rescaled.level(), scale(&rescaled)).unwrap();
            assert!(factor.matches(rescaled.factor()));
        }
    }
    let above = Level(params.top().0 + 1);
    let prime = params.rlwe().spec().q[0][0];
    for tensor in [Tensor::Plain, Tensor::Scaled] {
        assert!(tensor.divisor(&params, above, t).is_err());
        assert!(tensor.chain(&params, modulus(prime, 1)).is_err());
    }
}

#[test]
fn exhausted_budgets_are_refused_before_anything_is_computed() {
    let t = modulus(65537, 1);
    let mut session = Session::new(chain(6, t, 2), 23);
    let e = evaluator(&session);
    let none = Arc::new(EvaluationKeys::none(session.params.rlwe(), session.secret.id()));
    let keyless = Evaluator::new(&session.params, none).unwrap();
    let mut a = session.random(t);
    let mut products = 0;
    let mut x = session.encrypt(&a);
    let error = loop {
        match e.mul(&x, &x) {
            Ok(square) => x = square,
            Err(error) => break error,
        }
        a = mul(&a, &a);
        session.assert_holds(&x, &a);
        products += 1;
    };
    assert!(products >= 2);
    assert!(matches!(error, Error::NoiseExhausted { op: "multiply", .. }), "{error}");
    assert_eq!(keyless.mul(&x, &x).unwrap_err(), error);
}

/// Errors grow by one factor per product, and so does the bound. It is never too low and not much
/// too high. Without rescaling, every factor is bounded by its maximum at a root.
#[test]
fn bounds_are_within_twelve_bits_at_depth_ten() {
    let t = modulus(65537, 1);
    let mut session = Session::new(chain(10, t, 11), 24);
    let e = evaluator(&session);
    let plain = session.random(t);
    let fresh = session.encrypt(&plain);
    for rescales in [true, false] {
        let mut x = fresh.clone();
        let mut a = plain.clone();
        for depth in 0..10 {
            x = if rescales { e.mul_rescale(&x, &x) } else { e.mul(&x, &x) }.unwrap();
            a = mul(&a, &a);
            session.assert_holds(&x, &a);
            let gap = x.noise().log2() - session.decryptor.noise(&x).unwrap();
            let most = if rescales { 12.0 } else { 14.0 + 4.0 * f64::from(depth) };
            assert!(gap < most, "{gap} at depth {depth}");
        }
    }
}

/// A product uses about `log2(t N)` bits of any budget.
#[test]
fn products_consume_the_bits_of_the_modulus_and_the_degree() {
    for (log_n, t) in [(7, modulus(257, 1)), (10, modulus(65537, 1)), (8, modulus(257, 3))] {
        let mut session = Session::new(chain(log_n, t, 8), 28);
        let e = evaluator(&session);
        let a = session.random(t);
        let x = session.encrypt(&a);
        let mut power = e.mul(&x, &x).unwrap();
        let mut found = session.decryptor.noise(&power).unwrap();
        for depth in 2..6 {
            power = e.mul(&power, &x).unwrap();
            let before = core::mem::replace(&mut found, session.decryptor.noise(&power).unwrap());
            let consumed = found - before - t.log2() - f64::from(log_n);
            assert!(consumed.abs() < 2.0, "{consumed} beside log2(t N), depth {depth}, {t}");
        }
    }
}

#[test]
fn errors_stay_below_their_bounds() {
    for (log_n, t, count) in [(5, modulus(257, 1), 600), (7, modulus(65537, 1), 100)] {
        let mut session = Session::new(chain(log_n, t, 4), 26);
        let e = evaluator(&session);
        let check = |session: &Session, x: Ciphertext| {
            let found = session.decryptor.noise(&x).unwrap();
            let bound = x.noise().log2();
            assert!(found <= bound, "2^{found:.2} above 2^{bound:.2}");
            x
        };
        for _ in 0..count {
            let a = session.random(t);
            let b = session.random(t);
            let x = session.encrypt(&a);
            let y = session.encrypt(&b);
            let square = check(&session, e.mul(&x, &x).unwrap());
            let xy = check(&session, e.mul_rescale(&x, &y).unwrap());
            let fourth = check(&session, e.mul(&square, &xy).unwrap());
            check(&session, e.add(&fourth, &fourth).unwrap());
            check(&session, e.exact().rotate(&fourth, 2).unwrap());
        }
    }
}

/// A value, and its encryption if the budget was enough.
#[derive(Clone)]
struct Wire {
    clear: PlainPoly,
    bgv: Option<Ciphertext>,
    bfv: Option<Ciphertext>,
}

/// Brings the operands of a BGV product to one factor if they differ.
fn aligned(
    e: &exact::Evaluator,
    a: &Ciphertext,
    b: &Ciphertext,
) -> Result<(Ciphertext, Ciphertext)> {
    if a.factor().matches(b.factor()) {
        return Ok((a.clone(), b.clone()));
    }
    if a.level() > b.level() {
        return Ok((e.match_factor(a, b.level(), b.factor())?, b.clone()));
    }
    Ok((a.clone(), e.match_factor(b, a.level(), a.factor())?))
}

struct Circuits {
    session: Session,
    bfv: Evaluator,
    t: Modulus,
}

impl Circuits {
    fn new(log_n: u32, t: Modulus) -> Self {
        let session = Session::new(chain(log_n, t, 4), 27);
        Self { bfv: evaluator(&session), session, t }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.session.stream.next_u64() % end
    }

    fn input(&mut self) -> Wire {
        let clear = self.session.random(self.t);
        let encrypted = self.session.encrypt(&clear);
        Wire { clear, bgv: Some(encrypted.clone()), bfv: Some(encrypted) }
    }

    /// Runs the same operation in the clear, in BGV and in BFV.
    fn apply(
        wires: [&Wire; 2],
        clear: PlainPoly,
        bgv: impl Fn(&Ciphertext, &Ciphertext) -> Result<Ciphertext>,
        bfv: impl Fn(&Ciphertext, &Ciphertext) -> Result<Ciphertext>,
    ) -> Wire {
        let run = |result: Result<Ciphertext>| match result {
            Ok(result) => Some(result),
            Err(Error::NoiseExhausted { .. } | Error::LevelExhausted { .. }) => None,
            Err(error) => panic!("{error}"),
        };
        let [a, b] = wires;
        Wire {
            clear,
            bgv: a.bgv.as_ref().zip(b.bgv.as_ref()).and_then(|(a, b)| run(bgv(a, b))),
            bfv: a.bfv.as_ref().zip(b.bfv.as_ref()).and_then(|(a, b)| run(bfv(a, b))),
        }
    }

    fn step(&mut self, a: &Wire, b: &Wire) -> Wire {
        let t = self.t;
        let log_n = self.session.params.log_n();
        let plain = self.session.random(t);
        let constant = i128::from(self.below(64)) - 32;
        let k = 1 << self.below(u64::from(log_n) - 1);
        let op = self.below(10);
        let e = &self.session.evaluator;
        let f = &self.bfv;
        let x = f.exact();
        let of_plain =
            |op: fn(&exact::Evaluator, &Ciphertext, &PlainPoly) -> Result<Ciphertext>,
             clear: PlainPoly| {
                Self::apply([a, a], clear, |a, _| op(e, a, &plain), |a, _| op(x, a, &plain))
            };
        match op {
            0 => Self::apply(
                [a, b],
                add(&a.clear, &b.clear),
                |a, b| aligned(e, a, b).and_then(|(a, b)| e.add(&a, &b)),
                |a, b| f.add(a, b),
            ),
            1 => Self::apply(
                [a, b],
                sub(&a.clear, &b.clear),
                |a, b| aligned(e, a, b).and_then(|(a, b)| e.sub(&a, &b)),
                |a, b| f.sub(a, b),
            ),
            2 | 3 => Self::apply(
                [a, b],
                mul(&a.clear, &b.clear),
                |a, b| e.mul_rescale(a, b),
                |a, b| f.mul(a, b),
            ),
            4 => Self::apply(
                [a, a],
                mul(&a.clear, &a.clear),
                |a, b| e.mul_rescale(a, b),
                |a, b| f.mul_rescale(a, b),
            ),
            5 => of_plain(|e, a, p| e.add_plain(a, p), add(&a.clear, &plain)),
            6 => of_plain(|e, a, p| e.mul_plain(a, p), mul(&a.clear, &plain)),
            7 => Self::apply(
                [a, a],
                scale(&a.clear, t.reduce_i128(constant)),
                |a, _| e.mul_const(a, constant),
                |a, _| x.mul_const(a, constant),
            ),
            8 => Self::apply(
                [a, a],
                image(&a.clear, GaloisElement::rotation(log_n, k)),
                |a, _| e.rotate(a, k),
                |a, _| x.rotate(a, k),
            ),
            _ => Self::apply(
                [a, a],
                image(&a.clear, GaloisElement::conjugation(log_n)),
                |a, _| e.swap_rows(a),
                |a, _| x.swap_rows(a),
            ),
        }
    }

    /// Returns the number of results found and the maximum number possible.
    fn run(&mut self, circuits: usize, steps: usize) -> (usize, usize) {
        let mut found = 0;
        for _ in 0..circuits {
            let mut wires = vec![self.input(), self.input()];
            for _ in 0..steps {
                let count = wires.len() as u64;
                let [i, j] = [(); 2].map(|()| self.below(count) as usize);
                let wire = self.step(&wires[i].clone(), &wires[j].clone());
                for result in wire.bgv.iter().chain(&wire.bfv) {
                    self.session.assert_holds(result, &wire.clear);
                    found += 1;
                }
                wires.push(wire);
            }
        }
        (found, 2 * circuits * steps)
    }
}

#[test]
fn random_circuits_of_bgv_and_bfv_equal_the_clear_ones() {
    for (log_n, t, circuits) in [
        (5, modulus(257, 1), 1000),
        (5, modulus(65537, 1), 1000),
        (4, modulus(2, 8), 300),
        (6, modulus(127, 3), 100),
        (8, modulus(7681, 1), 30),
    ] {
        let (found, all) = Circuits::new(log_n, t).run(circuits, 8);
        assert!(10 * found > 9 * all, "{found} of {all} modulo {t}");
    }
}

/// Runs at full size, in both schemes.
#[test]
fn the_smallest_secure_set_computes() {
    let spec = preset("n12-t65537").unwrap().spec;
    let t = spec.plaintext_modulus;
    let mut session = Session::new(spec, 41);
    let e = evaluator(&session);
    let encoder = BatchEncoder::new(t, 12).unwrap();
    let a: Vec<i128> = (0..4096).map(|i| (i * i - 2000) % 30_000).collect();
    let x = session.encrypt(&encoder.encode(&a).unwrap());
    let squares: Vec<i128> = a.iter().map(|a| t.centered(t.reduce_i128(a * a))).collect();
    let rotated = session.evaluator.rotate(&x, 1).unwrap();
    let sum = session.evaluator.add(&x, &rotated).unwrap();
    let opened = encoder.decode(&session.decryptor.decrypt(&sum).unwrap()).unwrap();
    assert_eq!(opened[0], t.centered(t.reduce_i128(a[0] + a[1])));
    for found in [session.evaluator.mul_rescale(&x, &x), e.mul(&x, &x)] {
        let opened = session.decryptor.decrypt(&found.unwrap()).unwrap();
        assert_eq!(encoder.decode(&opened).unwrap(), squares);
    }
}

/// Products open to the exact result if two of three key holders decrypt.
#[test]
fn products_open_under_a_shared_secret() {
    let sharing = Sharing::new(3, 2).unwrap();
    let t = modulus(257, 1);
    let spec = Spec::uniform(7, t, 55.0, 2, 50.0, vec![56.0]);
    let params =
        &Params::new(Spec { secret: sharing.distribution(), insecure: true, ..spec }).unwrap();
    let request = KeyRequest::new().relinearize(params.top());
    let group = Group::new(params.rlwe(), &sharing, &request, 31);
    let keys = group.keys();
    let encoder = BatchEncoder::new(t, 7).unwrap();
    let value: Vec<u128> = (0..128).map(|i| (5 * i + 2) % 257).collect();
    let plain = encoder.encode_unsigned(&value).unwrap();
    let a = Encryptor::new(params, keys.public).unwrap().encrypt(&plain).unwrap();
    let square = Evaluator::new(params, keys.evaluation).unwrap().mul(&a, &a).unwrap();
    let opening = || Opening::new(&group.ceremony, params, &square, &[0, 2]).unwrap();
    let shares = [0, 2].map(|party| opening().share(&group.pieces(party)).unwrap());
    let found = encoder.decode_unsigned(&opening().open(&shares).unwrap()).unwrap();
    let expected: Vec<u128> = value.iter().map(|x| x * x % 257).collect();
    assert_eq!(found, expected);
}
