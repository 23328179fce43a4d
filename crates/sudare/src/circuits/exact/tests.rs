//! Runs the same circuits on the products of BGV and of BFV, on ciphertexts, on forms and on
//! integers.

use super::{IntegerOps, LinearTransform, PolynomialPlan, sim};
use crate::{
    Error, Result, bfv,
    circuits::{Ops, linear::Offset},
    exact::{
        BatchEncoder, Ciphertext, Form, Modulus, NoiseBound, PlainPoly, Spec, Tensor, Unit,
        tests::{Session, modulus},
    },
    rlwe::{GaloisElement, KeyRequest, Level, ProductSum, SecretDistribution},
};
use std::collections::BTreeMap;
use sudare_arith::previous_prime;

/// An operation on a value and perhaps another one, given by its number.
#[derive(Debug)]
enum Step {
    Add(usize),
    Sub(usize),
    Mul(usize),
    MulRescale(usize),
    /// The square plus the product with the other value.
    SumOfProducts(usize),
    Rescale,
    AddConstant(i128),
    /// Product with a constant, which is encoded at a scale.
    MulConstant(i128, u128),
    /// A combination of multiples of both values.
    Combine(usize, [i128; 2]),
    AddPlain(Vec<u128>),
    MulPlain(Vec<u128>, u128),
    Read(u128),
    Rotate(usize),
    Swap,
    /// The sum with the image under a rotation, twice.
    Sum(usize),
    Polynomial(Vec<i128>),
    /// A matrix of diagonal 0, another diagonal, and one of the exchanged rows.
    Matrix(usize, [Vec<u128>; 3]),
}

impl Step {
    fn other(&self) -> Option<usize> {
        match *self {
            Self::Add(i)
            | Self::Sub(i)
            | Self::Mul(i)
            | Self::MulRescale(i)
            | Self::SumOfProducts(i)
            | Self::Combine(i, _) => Some(i),
            _ => None,
        }
    }
}

/// One owner, and the evaluators of ciphertexts and forms with either product.
struct Circuits {
    session: Session,
    encoder: BatchEncoder,
    bfv: bfv::Evaluator,
    simulators: [sim::Evaluator; 2],
}

const TENSORS: [Tensor; 2] = [Tensor::Plain, Tensor::Scaled];

/// A ciphertext and its form, unless an operation was rejected.
type Encrypted = Option<(Ciphertext, Form)>;

/// A value in the clear, and its encryptions for either product.
struct Wire {
    clear: Vec<u128>,
    encrypted: [Encrypted; 2],
}

/// Brings both to one scale, at the lower level.
fn matched<E: IntegerOps>(e: &E, a: &E::Ct, b: &E::Ct) -> Result<[E::Ct; 2]> {
    if e.level(a) < e.level(b) {
        return Ok([a.clone(), e.match_scale(b, e.level(a), e.scale(a))?]);
    }
    Ok([e.match_scale(a, e.level(b), e.scale(b))?, b.clone()])
}

impl Circuits {
    fn new(log_n: u32, t: Modulus, spec: Spec) -> Self {
        let session = Session::new(spec, 62);
        let keys = KeyRequest::new();
        let simulators = TENSORS
            .map(|tensor| sim::Evaluator::with_tensor(&session.params, tensor, &keys).unwrap());
        Self {
            encoder: BatchEncoder::new(t, log_n).unwrap(),
            bfv: bfv::Evaluator::new(&session.params, session.keys.clone()).unwrap(),
            session,
            simulators,
        }
    }

    fn modulus(&self) -> Modulus {
        self.encoder.modulus()
    }

    fn plain(&self, values: &[u128]) -> PlainPoly {
        self.encoder.encode_unsigned(values).unwrap()
    }

    fn rotation(&self, k: usize) -> GaloisElement {
        GaloisElement::rotation(self.session.params.log_n(), k as i64)
    }

    /// Runs a step on ciphertexts or forms, with one of the products.
    fn apply<E: IntegerOps>(
        &self,
        e: &E,
        tensor: Tensor,
        step: &Step,
        a: &E::Ct,
        b: &E::Ct,
    ) -> Result<E::Ct> {
        let t = self.modulus();
        let unit = |u: u128| Unit::new(u, t).unwrap();
        match step {
            Step::Add(_) => matched(e, a, b).and_then(|[a, b]| e.add(&a, &b)),
            Step::Sub(_) => matched(e, a, b).and_then(|[a, b]| e.sub(&a, &b)),
            Step::Mul(_) => e.mul(a, b),
            Step::MulRescale(_) => e.mul_rescale(a, b),
            Step::SumOfProducts(_) => {
                let [a, b] = matched(e, a, b)?;
                e.mul_sum_rescale(&ProductSum { products: vec![(&a, &a), (&a, &b)], addend: None })
            }
            Step::Rescale => {
                let mut out = a.clone();
                e.rescale_assign(&mut out)?;
                Ok(out)
            }
            Step::AddConstant(c) => e.add_const(a, *c),
            Step::MulConstant(c, u) => e.mul_const(a, *c, unit(*u)),
            Step::Combine(_, [c, d]) => {
                let [a, b] = matched(e, a, b)?;
                e.mul_const_sum(&[(&a, *c, Unit::one(t)), (&b, *d, Unit::one(t))])
            }
            Step::AddPlain(values) => e.add_plain(a, &self.plain(values)),
            Step::MulPlain(values, u) => e.mul_plain(a, &self.plain(values), unit(*u)),
            Step::Read(u) => e.with_scale(a, e.scale(a) * unit(*u)),
            Step::Rotate(k) => e.rotate(a, *k as i64),
            Step::Swap => {
                e.automorphism(a, GaloisElement::conjugation(self.session.params.log_n()))
            }
            Step::Sum(k) => {
                let pair = [GaloisElement(1), self.rotation(*k)];
                e.sum_automorphisms(a, &[&pair, &pair])
            }
            Step::Polynomial(coeffs) => {
                let chain = tensor.chain(&self.session.params, t)?;
                let level = e.level(a);
                let scale = e.scale(a);
                PolynomialPlan::new(coeffs, &chain, level, scale, |_| Ok(unit(3)))?.run(e, a)
            }
            Step::Matrix(k, weights) => {
                let chain = tensor.chain(&self.session.params, t)?;
                let plan = self.matrix(*k, weights).plan(
                    self.session.params.log_n(),
                    &chain,
                    e.level(a),
                    e.scale(a),
                    unit(5),
                )?;
                plan.run(e, &e.prepare(&plan)?, a)
            }
        }
    }

    fn matrix(&self, k: usize, weights: &[Vec<u128>; 3]) -> LinearTransform {
        let swap = Offset { columns: 0, conjugated: true };
        let offsets = [Offset::from(0), Offset::from(k), swap];
        let diagonals: BTreeMap<_, _> =
            offsets.into_iter().zip(weights).map(|(k, w)| (k, self.plain(w))).collect();
        LinearTransform::new(self.encoder.slots().ilog2() - 1, diagonals).unwrap()
    }

    /// Runs a step on integers, slot by slot.
    fn expected(&self, step: &Step, a: &[u128], b: &[u128]) -> Vec<u128> {
        let t = self.modulus();
        let columns = a.len() / 2;
        let zip = |a: &[u128], b: &[u128], f: &dyn Fn(u128, u128) -> u128| -> Vec<u128> {
            a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
        };
        let map = |f: &dyn Fn(u128) -> u128| -> Vec<u128> { a.iter().map(|&a| f(a)).collect() };
        let at = |a: &[u128], k: usize, swap: bool| -> Vec<u128> {
            let from = |i: usize| (i / columns + usize::from(swap)) % 2 * columns;
            (0..a.len()).map(|i| a[from(i) + (i + k) % columns]).collect()
        };
        let c = |c: i128| t.reduce_i128(c);
        match step {
            Step::Add(_) => zip(a, b, &|a, b| t.add(a, b)),
            Step::Sub(_) => zip(a, b, &|a, b| t.sub(a, b)),
            Step::Mul(_) | Step::MulRescale(_) => zip(a, b, &|a, b| t.mul(a, b)),
            Step::SumOfProducts(_) => zip(a, b, &|a, b| t.mul(a, t.add(a, b))),
            Step::Rescale => a.to_vec(),
            Step::AddConstant(d) => map(&|a| t.add(a, c(*d))),
            Step::MulConstant(d, _) => map(&|a| t.mul(a, c(*d))),
            Step::Combine(_, [d, e]) => zip(a, b, &|a, b| t.add(t.mul(a, c(*d)), t.mul(b, c(*e)))),
            Step::AddPlain(values) => zip(a, values, &|a, b| t.add(a, b)),
            Step::MulPlain(values, _) => zip(a, values, &|a, b| t.mul(a, b)),
            Step::Read(u) => map(&|a| t.mul(a, t.inverse(*u).unwrap())),
            Step::Rotate(k) => at(a, *k, false),
            Step::Swap => at(a, 0, true),
            Step::Sum(k) => {
                let once = zip(a, &at(a, *k, false), &|a, b| t.add(a, b));
                zip(&once, &at(&once, *k, false), &|a, b| t.add(a, b))
            }
            Step::Polynomial(coeffs) => {
                map(&|a| coeffs.iter().rev().fold(0, |sum, &d| t.add(t.mul(sum, a), c(d))))
            }
            Step::Matrix(k, [w0, w1, w2]) => {
                let images = [at(a, 0, false), at(a, *k, false), at(a, 0, true)];
                let terms = images.iter().zip([w0, w1, w2]);
                terms
                    .map(|(image, w)| zip(image, w, &|a, b| t.mul(a, b)))
                    .reduce(|a, b| zip(&a, &b, &|a, b| t.add(a, b)))
                    .unwrap()
            }
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.session.stream.next_u64() % end
    }

    fn values(&mut self) -> Vec<u128> {
        let t = self.modulus();
        let slots = self.encoder.slots();
        (0..slots).map(|_| t.reduce(u128::from(self.below(u64::MAX)) << 40 | 1)).collect()
    }

    fn unit(&mut self) -> u128 {
        let t = self.modulus();
        loop {
            let u = t.reduce(self.below(u64::MAX).into());
            if Unit::new(u, t).is_ok() {
                return u;
            }
        }
    }

    fn step(&mut self, wires: usize) -> Step {
        let log_n = self.session.params.log_n();
        let other = self.below(wires as u64) as usize;
        let k = 1 << self.below(u64::from(log_n) - 1);
        let constant = i128::from(self.below(1 << 20)) - (1 << 19);
        match self.below(20) {
            0 => Step::Add(other),
            1 => Step::Sub(other),
            2 | 3 => Step::Mul(other),
            4..=6 => Step::MulRescale(other),
            7 => Step::SumOfProducts(other),
            8 => Step::Rescale,
            9 => Step::AddConstant(constant),
            10 => Step::MulConstant(constant, self.unit()),
            11 => Step::Combine(other, [constant, 5]),
            12 => Step::AddPlain(self.values()),
            13 => Step::MulPlain(self.values(), self.unit()),
            14 => Step::Read(self.unit()),
            15 => Step::Rotate(k),
            16 => Step::Swap,
            17 => Step::Sum(k),
            18 => {
                let degree = 1 + self.below(7);
                Step::Polynomial((0..=degree).map(|i| i128::from(i) * constant + 1).collect())
            }
            _ => Step::Matrix(k, [self.values(), self.values(), self.values()]),
        }
    }

    fn input(&mut self) -> Wire {
        let clear = self.values();
        let level = Level(self.below(2) as u32 + self.session.params.top().0 - 1);
        let factor = Unit::new(self.unit(), self.modulus()).unwrap();
        let plain = self.plain(&clear);
        let a = self.session.encrypt_at(&plain, level, factor);
        let forms = self.simulators.each_ref().map(|e| e.encrypt(level, factor).unwrap());
        Wire { clear, encrypted: forms.map(|form| Some((a.clone(), form))) }
    }

    /// Runs a step on a ciphertext and its form. Both must succeed or fail alike, and the
    /// ciphertext must encrypt the expected value.
    fn run_step<E: IntegerOps<Ct = Ciphertext>>(
        &self,
        e: &E,
        tensor: Tensor,
        step: &Step,
        [a, b]: [&Encrypted; 2],
        expected: &PlainPoly,
    ) -> Encrypted {
        let simulator = &self.simulators[tensor as usize];
        let ((a, form_of_a), (b, form_of_b)) = a.as_ref().zip(b.as_ref())?;
        assert_eq!((a.form(), b.form()), (*form_of_a, *form_of_b));
        let found = self.apply(e, tensor, step, a, b);
        let form = self.apply(simulator, tensor, step, form_of_a, form_of_b);
        match (found, form) {
            (Ok(found), Ok(form)) => {
                assert_eq!(found.form(), form, "{tensor:?}, {step:?}");
                assert_eq!(e.scale(&found), simulator.scale(&form));
                self.session.assert_holds(&found, expected);
                Some((found, form))
            }
            (Err(found), Err(error)) => {
                assert_eq!(found, error, "{tensor:?}, {step:?}");
                let exhausted =
                    matches!(error, Error::NoiseExhausted { .. } | Error::LevelExhausted { .. });
                assert!(exhausted, "{tensor:?}, {step:?}: {error}");
                None
            }
            (found, form) => {
                panic!("{tensor:?}, {step:?}: {:?}, {form:?}", found.map(|a| a.form()))
            }
        }
    }

    /// Counts the results of `circuits` circuits with `steps` steps each, with either product.
    fn run(&mut self, circuits: usize, steps: usize) -> [usize; 2] {
        let mut results = [0; 2];
        for _ in 0..circuits {
            let mut wires = vec![self.input(), self.input()];
            for _ in 0..steps {
                let step = self.step(wires.len());
                // If the last value was rejected, use an earlier one.
                let is_there = |wire: &Wire| wire.encrypted.iter().all(Option::is_some);
                let a = wires.iter().rev().find(|wire| is_there(wire)).unwrap();
                let b = step.other().map_or(a, |i| &wires[i]);
                let clear = self.expected(&step, &a.clear, &b.clear);
                let plain = self.plain(&clear);
                let [[bgv, bfv], [c, d]] = [a, b].map(|wire| wire.encrypted.each_ref());
                let e = &self.session.evaluator;
                let encrypted = [
                    self.run_step(e, Tensor::Plain, &step, [bgv, c], &plain),
                    self.run_step(&self.bfv, Tensor::Scaled, &step, [bfv, d], &plain),
                ];
                for (results, found) in results.iter_mut().zip(&encrypted) {
                    *results += usize::from(found.is_some());
                }
                wires.push(Wire { clear, encrypted });
            }
        }
        results
    }
}

/// Checks that most results of random circuits exist with both products, and returns the number of
/// rejected ones.
fn check_circuits(log_n: u32, t: Modulus, circuits: usize) -> [usize; 2] {
    const STEPS: usize = 8;
    let all = circuits * STEPS;
    let results = Circuits::new(log_n, t, levels(log_n, t)).run(circuits, STEPS);
    assert!(results.iter().all(|found| 2 * found > all), "{results:?} of {all} modulo {t}");
    results.map(|found| all - found)
}

#[test]
fn random_circuits_agree_with_either_product_on_ciphertexts_forms_and_integers() {
    for (log_n, t, circuits) in [
        (5, modulus(257, 1), 150),
        (4, modulus(257, 2), 100),
        (6, modulus(65537, 1), 80),
        (5, prime(40, 5), 30),
    ] {
        let refused = check_circuits(log_n, t, circuits);
        assert!(refused.iter().all(|&count| count > 0), "{refused:?} modulo {t}");
    }
}

/// Makes a chain with levels for consecutive products, with the fewest possible primes.
fn levels(log_n: u32, t: Modulus) -> Spec {
    const PRIME_BITS: f64 = 58.0;
    let rounding = NoiseBound::rounding(log_n, SecretDistribution::UniformTernary);
    let bits = t.log2() + rounding.canonical_log2() + 4.0;
    let split = |bits: f64| {
        let primes = (bits / PRIME_BITS).ceil();
        vec![bits / primes; primes as usize]
    };
    let q_bits = [vec![split(bits + 10.0)], vec![split(bits); 4]].concat();
    Spec { q_bits, ..Spec::uniform(log_n, t, 0.0, 0, 0.0, split(bits + 12.0)) }
}

/// Returns the largest prime of `bits` bits that has all slots.
fn prime(bits: u32, log_n: u32) -> Modulus {
    modulus(previous_prime(1 << bits, 2 << log_n).unwrap(), 1)
}

/// Checks moduli of 17 to 60 bits with all slots.
fn check_ring(log_n: u32, circuits: usize) {
    for t in [modulus(65537, 1), prime(30, log_n), prime(45, log_n), prime(60, log_n)] {
        check_circuits(log_n, t, circuits);
    }
}

#[test]
fn a_few_random_circuits_agree_in_the_smallest_ring_of_full_size() {
    check_ring(12, 2);
}

#[test]
#[ignore = "takes an hour or more: a thousand circuits of each modulus in rings of full size"]
fn random_circuits_agree_at_full_size() {
    (12..=15).for_each(|log_n| check_ring(log_n, 1000));
}
