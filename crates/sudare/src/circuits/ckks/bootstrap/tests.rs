//! Tests stages on encrypted data against integers. Coefficients come from decryptions by residues,
//! not from the transforms under test.

use super::*;
use crate::{
    circuits::ckks::{ModMethod, dft::bit_reversed},
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Evaluator, Spec},
    rlwe::KeyGenerator,
};
use std::sync::Arc;
use sudare_arith::prng::Seed;

const LOG_N: u32 = 10;
const RATIO: f64 = 7.0;

struct Setup {
    params: Params,
    bootstrapper: Bootstrapper<Evaluator>,
    evaluator: Evaluator,
    encryptor: Encryptor,
    decryptor: Decryptor,
    encoder: Encoder,
}

impl Setup {
    fn new(order: Order, values: Values, log_slots: u32) -> Self {
        let spec = BootstrapSpec {
            log_slots: LOG_N - 1,
            order,
            values,
            ephemeral_weight: Some(32),
            coeffs_to_slots: vec![3, 3, 3],
            slots_to_coeffs: vec![5, 4],
            eval_mod: EvalModSpec {
                k: 14,
                log2_ratio: RATIO,
                method: ModMethod::Cosine { degree: 28, double_angles: 3 },
                inverse_sine: None,
            },
            correction: false,
            refinement: None,
        }
        .with_log_slots(log_slots);
        let q_bits = [(44.0, 1), (37.0, 4), (49.6, 11)];
        let q_bits = q_bits.map(|(bits, count)| vec![vec![bits]; count]).concat();
        let uniform = Spec::uniform(LOG_N, 0.0, 0, 37.0, vec![49.65; 6]);
        let params = Params::new(Spec { q_bits, insecure: true, ..uniform }).unwrap();
        let plan = spec.plan(&params, params.upper_top()).unwrap();
        let mut keygen = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([4; 32]));
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = keygen.evaluation_keys(&secret, plan.required_keys()).unwrap();
        let evaluator = Evaluator::new(&params, Arc::new(keys)).unwrap();
        Self {
            bootstrapper: plan.prepare(&evaluator).unwrap(),
            encoder: Encoder::new(&params),
            encryptor: Encryptor::new(&params, public).unwrap(),
            decryptor: Decryptor::new(&params, secret).unwrap(),
            evaluator,
            params,
        }
    }

    /// Returns slots and their encryption at the input level.
    fn input(&self) -> (Vec<Complex<f64>>, Ciphertext) {
        let plan = self.bootstrapper.plan();
        let imaginary = if plan.spec.values == Values::Real { 0.0 } else { 1.0 };
        let slots: Vec<_> = (0..1 << plan.spec.log_slots)
            .map(f64::from)
            .map(|i| Complex::new((i * 1.7).sin(), imaginary * (i * 0.9 + 1.0).cos()))
            .collect();
        let plain = self.encoder.encode_at(&slots, plan.input_level(), plan.input_scale()).unwrap();
        (slots, self.encryptor.encrypt_with(&plain, &Seed::from_bytes([5; 32])).unwrap())
    }

    fn decode(&self, a: &Ciphertext) -> Vec<Complex<f64>> {
        self.encoder.decode(&self.decryptor.decrypt(a).unwrap()).unwrap()
    }

    /// Returns the coefficients of the plaintext that slots use, next to zero. They must be below
    /// half the product of two primes.
    fn coeffs(&self, a: &Ciphertext) -> Vec<i128> {
        let low = self.evaluator.drop_to(a, a.level().min(Level(1))).unwrap();
        let plain = self.decryptor.decrypt(&low).unwrap();
        let basis = self.params.rlwe().basis();
        let limbs = plain.poly().limbs();
        let rows: Vec<(i128, Vec<u64>)> = (0..limbs.count())
            .map(|i| {
                let mut row = plain.poly().row(i).to_vec();
                basis.table(limbs, i).inverse(&mut row);
                (i128::from(basis.modulus(limbs, i).value()), row)
            })
            .collect();
        let (q0, first) = &rows[0];
        let used = 2usize << self.bootstrapper.plan().spec.log_slots;
        let step = basis.n() / used;
        let combined = |i: usize| match rows.get(1) {
            None => (i128::from(first[i]), *q0),
            Some((q1, second)) => {
                let low = i128::from(first[i]);
                let high = i128::from(second[i]);
                let inverse = power(*q0 % q1, q1 - 2, *q1);
                let digit = (high - low).rem_euclid(*q1) * inverse % q1;
                (low + q0 * digit, q0 * q1)
            }
        };
        let centred = |(x, q): (i128, i128)| if 2 * x > q { x - q } else { x };
        (0..used).map(|i| centred(combined(i * step))).collect()
    }

    /// Returns the slots that coefficients move to: `c_k + i c_(k+n)` in bit-reversed places.
    fn paired(&self, coeffs: &[i128], scale: f64) -> Vec<Complex<f64>> {
        let log_slots = self.bootstrapper.plan().spec.log_slots;
        let part = |i: usize| coeffs[i] as f64 / scale;
        (0..1usize << log_slots)
            .map(|place| bit_reversed(log_slots, place))
            .map(|k| Complex::new(part(k), part(k + (1 << log_slots))))
            .collect()
    }

    fn q0(&self) -> f64 {
        self.params.rlwe().primes_of(Level(0))[0] as f64
    }
}

fn power(base: i128, exponent: i128, modulus: i128) -> i128 {
    let bits = (0..64).rev().map(|bit| exponent >> bit & 1 == 1);
    bits.fold(1, |x, bit| {
        let square = x * x % modulus;
        if bit { square * base % modulus } else { square }
    })
}

fn assert_close(found: &[Complex<f64>], expected: &[Complex<f64>], least_bits: f64) {
    assert_eq!(found.len(), expected.len());
    let errors = found.iter().zip(expected).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
    let bits = -errors.fold(0.0, f64::max).log2();
    assert!(bits > least_bits, "{bits:.1} bits, {least_bits} needed");
}

/// Full and sparse slots, complex and real.
fn setups(order: Order) -> [Setup; 3] {
    [(Values::Complex, 9), (Values::Complex, 4), (Values::Real, 9)]
        .map(|(values, log_slots)| Setup::new(order, values, log_slots))
}

#[test]
fn slots_to_coeffs_puts_slots_into_coefficients() {
    for s in setups(Order::SlotsToCoeffsFirst) {
        let (slots, a) = s.input();
        let many = LockStep::new(&s.evaluator);
        let moved = s.bootstrapper.slots_to_coeffs(&many, Batch::of(Ok(vec![a])).unwrap()).unwrap();
        let moved = moved.first().clone();
        assert_eq!(moved.level(), Level(0));
        let scale = s.q0() / RATIO.exp2();
        assert!((moved.scale().to_f64() / scale - 1.0).abs() < 1e-12);
        assert_close(&s.paired(&s.coeffs(&moved), scale), &slots, 23.5);
    }
}

/// After CoeffsToSlots the slots hold the raised polynomial, `m + q_0 I`, and after EvalMod they
/// hold `m`.
#[test]
fn the_raised_polynomial_comes_to_the_slots_and_loses_its_integers() {
    for order in [Order::SlotsToCoeffsFirst, Order::CoeffsToSlotsFirst] {
        for s in setups(order) {
            let plan = s.bootstrapper.plan();
            let many = LockStep::new(&s.evaluator);
            let (slots, a) = s.input();
            let input = Batch::of(Ok(vec![a]));
            let low = match order {
                Order::SlotsToCoeffsFirst => s.bootstrapper.slots_to_coeffs(&many, input.unwrap()),
                Order::CoeffsToSlotsFirst => input,
            };
            let low = low.unwrap();
            // Without the matrix that may come with raising. `I` is the same.
            let raised = s.evaluator.mod_raise(low.first(), s.params.top()).unwrap();
            let quotients = s.paired(&s.coeffs(&raised), s.q0());

            let raised = s.bootstrapper.mod_raise(&many, low).unwrap();
            let moved = s.bootstrapper.coeffs_to_slots(&many, raised).unwrap();
            let halves = s.decode(moved.first());
            let count = quotients.len();
            let found: Vec<_> = match halves.len() == count {
                true => halves.iter().map(|z| Complex::new(2.0 * z.re, 2.0 * z.im)).collect(),
                false => (0..count)
                    .map(|i| Complex::new(2.0 * halves[i].re, 2.0 * halves[i + count].re))
                    .collect(),
            };
            assert_close(&found, &quotients, 28.0);

            let parts = found.iter().flat_map(|z| [z.re, z.im]);
            assert!(parts.clone().all(|x| x.round().abs() <= 14.0));
            assert!(parts.clone().any(|x| x.round().abs() >= 3.0));
            assert!(parts.clone().all(|x| (x - x.round()).abs() < (0.01 - RATIO).exp2()));

            let reduced = s.bootstrapper.eval_mod(&many, moved).unwrap();
            let real = plan.spec.values == Values::Real;
            let sine = |x: f64| plan.eval_mod().evaluate(x);
            let expected =
                |z: &Complex<f64>| Complex::new(sine(z.re), if real { 0.0 } else { sine(z.im) });
            let expected: Vec<_> = quotients.iter().map(expected).collect();
            let after = s.decode(reduced.first());
            let after = if after.len() == count {
                after
            } else {
                (0..count).map(|i| Complex::new(after[i].re, after[i + count].re)).collect()
            };
            assert_close(&after, &expected, 22.5);
            if order == Order::SlotsToCoeffsFirst {
                // Only the cubic error of the sine remains.
                assert_close(&after, &slots, 10.7);
            }
        }
    }
}

/// The identity needs no key. Only what is raised rotates by other steps.
#[test]
fn later_matrices_to_slots_begin_with_the_identity() {
    for s in setups(Order::SlotsToCoeffsFirst) {
        let plan = s.bootstrapper.plan();
        let identities = plan.to_slots.iter().map(|matrix| {
            let steps = &matrix.sum().baby;
            steps.iter().filter(|g| g.0 == 1).count()
        });
        let expected = (0..plan.to_slots.len()).map(|i| usize::from(i > 0));
        assert!(identities.eq(expected), "{:?}", plan.spec);
    }
}

#[test]
fn few_slots_are_projected_to_their_subring() {
    let s = Setup::new(Order::SlotsToCoeffsFirst, Values::Complex, 4);
    let plan = s.bootstrapper.plan();
    assert_eq!(plan.sub_sum.groups().iter().product::<usize>(), 32);
    // After the first of two factors.
    assert_eq!(plan.before_sub_sum, 1);
    let level = Level(plan.top().0 - 1);
    let keys = plan.sub_sum.required_keys(level);
    let rotations = KeyRequest::new().rotations(LOG_N, (1..32).map(|i| 16 * i), level);
    assert!(keys.galois.iter().all(|key| rotations.galois.iter().any(|other| other == key)));
    let needed = &plan.required_keys().level_keys[&level].galois;
    assert!(keys.galois.iter().all(|(g, &at)| needed.contains(g) && at == level));
}

#[test]
fn fewer_slots_take_fewer_factors_and_are_raised_no_higher_than_they_need() {
    let set = preset("n16-boot").unwrap();
    let params = Params::new(set.preset.spec.clone()).unwrap();
    let full = set.plan(&params, 15).unwrap();
    assert_eq!((full.top(), full.spec()), (params.upper_top(), &set.bootstrap));
    let shape = |log_slots| {
        let BootstrapSpec { coeffs_to_slots, slots_to_coeffs, .. } =
            set.bootstrap.with_log_slots(log_slots);
        [coeffs_to_slots, slots_to_coeffs]
    };
    assert_eq!(shape(15), [vec![4, 4, 4, 3], vec![5, 5, 5]]);
    assert_eq!(shape(8), [vec![4, 4], vec![4, 4]]);
    assert_eq!(shape(9), [vec![3, 3, 3], vec![5, 4]]);
    assert_eq!(shape(1), [vec![1], vec![1]]);
    for (log_slots, spared) in [(1, 3), (5, 2), (8, 2), (14, 0)] {
        let plan = set.plan(&params, log_slots).unwrap();
        assert_eq!(plan.top().0 + spared, params.upper_top().0, "{log_slots}");
        let lost = u32::from(log_slots == 14);
        assert!(plan.usable_levels() + lost >= full.usable_levels(), "{log_slots}");
        assert!(plan.eval_mod().output_level() >= full.eval_mod().output_level());
    }
}

/// Every matrix is read once. Raising with the first one costs a key switch at level 0, the
/// transforms of both polynomials at the primes raised to, and a division.
#[test]
fn work_is_that_of_the_plan() {
    let Setup { params, bootstrapper, .. } =
        Setup::new(Order::SlotsToCoeffsFirst, Values::Complex, LOG_N - 1);
    let plan = bootstrapper.plan();
    let rlwe = params.rlwe();
    let work = plan.work(&params, 1).unwrap();
    let stages: Vec<Stage> = work.iter().map(|&(stage, _)| stage).collect();
    use Stage::{CoeffsToSlots, EvalMod, ModRaise, SlotsToCoeffs};
    assert_eq!(stages, [SlotsToCoeffs, ModRaise, CoeffsToSlots, EvalMod]);
    let matrix_bytes: u64 = work.iter().map(|(_, work)| work.matrix_bytes).sum();
    assert_eq!(matrix_bytes, plan.matrix_bytes(&params));

    let [low, raised] = [Level(0), plan.top()].map(|level| rlwe.raising_limbs(level).count());
    let q = rlwe.limbs(plan.top()).q();
    // One digit at level 0. Both polynomials are lifted from its primes.
    let transforms = (1 + 2) * low + 2 * rlwe.limbs(Level(0)).q() + q + raised + 2 * raised;
    assert_eq!(work[1].1.transforms(), transforms as u64);
    let keys = plan.required_keys();
    let raising =
        KeyRequest { raise: keys.raise, raised: keys.raised.clone(), ..KeyRequest::new() };
    // The key back of raising alone is one of them, and no step of the matrix is the identity.
    let back = 2 * rlwe.basis().packed_bytes(rlwe.raising_limbs(plan.top()));
    assert_eq!(work[1].1.key_bytes, raising.bytes(rlwe).unwrap() - back);
    // Both polynomials of each image.
    assert_eq!(work[1].1.permuted, ((2 * raised * keys.raised.len()) << LOG_N) as u64);

    let twice = plan.work(&params, 2).unwrap();
    for ((_, one), (stage, two)) in work.iter().zip(&twice) {
        assert_eq!(two.transforms(), 2 * one.transforms(), "{stage:?}");
        assert_eq!(two.matrix_bytes, one.matrix_bytes, "{stage:?}");
    }
}
