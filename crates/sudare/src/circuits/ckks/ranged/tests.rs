use super::*;
use crate::{
    circuits::{
        LockStep,
        ckks::{LinearTransform, Polynomial},
    },
    ckks::{self, Decryptor, Encoder, Encryptor, Params, Spec},
    rlwe::{KeyGenerator, KeyRequest},
};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

const LOG_N: u32 = 6;
const SLOTS: usize = 1 << (LOG_N - 1);

struct World {
    params: Params,
    encryptor: Encryptor,
    decryptor: Decryptor,
    encoder: Encoder,
    evaluator: ckks::Evaluator,
}

/// Six levels of 40 bits above one of 50, in a small ring.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    let spec = Spec::uniform(LOG_N, 50.0, 6, 40.0, vec![50.0, 50.0]);
    let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = keygen.secret_key().unwrap();
    let public = Arc::new(keygen.public_key(&secret).unwrap());
    let top = params.top();
    let rotations = (1..SLOTS as i64).map(|k| GaloisElement::rotation(LOG_N, k));
    let request = rotations
        .chain([GaloisElement::conjugation(LOG_N)])
        .fold(KeyRequest::new().relinearize(top), |request, g| request.automorphism(g, top));
    let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());
    World {
        encryptor: Encryptor::new(&params, public).unwrap(),
        decryptor: Decryptor::new(&params, secret).unwrap(),
        encoder: Encoder::new(&params),
        evaluator: ckks::Evaluator::new(&params, keys).unwrap(),
        params,
    }
});

impl World {
    fn encrypt(&self, slots: &[f64]) -> ckks::Ciphertext {
        self.encryptor.encrypt(&self.encoder.encode_real(slots).unwrap()).unwrap()
    }

    fn decrypt(&self, a: &ckks::Ciphertext) -> Vec<f64> {
        let slots = self.encoder.decode(&self.decryptor.decrypt(a).unwrap()).unwrap();
        slots.iter().map(|z| z.re).collect()
    }
}

/// Both ends of an interval and points between, so that the worst case occurs.
fn points(interval: &RangeInclusive<f64>) -> Vec<f64> {
    let low = interval.start();
    let width = interval.end() - low;
    (0..SLOTS).map(|i| low + width * i as f64 / (SLOTS - 1) as f64).collect()
}

#[test]
fn squares_are_right_where_there_is_room_and_refused_where_there_is_none() {
    let world = &*WORLD;
    let e = Ranged::new(&world.evaluator);
    let mut refused = 0;
    for log2_largest in 0..14 {
        let largest = f64::from(log2_largest).exp2();
        let slots = points(&(-largest..=largest));
        let x = world.encrypt(&slots);
        let mut ranged = e.input(x.clone(), -largest..=largest).unwrap();
        let mut plain = x;
        let mut expected = slots;
        loop {
            let Ok(square) = e.mul_rescale(&ranged, &ranged) else {
                // Refused, or no level is left.
                if ranged.ciphertext().level() > Level(0) {
                    refused += 1;
                    let wrong = world.evaluator.mul_rescale(&plain, &plain).unwrap();
                    let found = world.decrypt(&wrong);
                    let relative = (found[0] - expected[0] * expected[0]).abs() / found[0].abs();
                    assert!(relative > 0.1, "2^{log2_largest}: needlessly refused");
                }
                break;
            };
            expected.iter_mut().for_each(|x| *x *= *x);
            assert_eq!(*square.interval().start(), 0.0);
            assert_eq!(*square.interval().end(), expected[0]);
            let found = world.decrypt(square.ciphertext());
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-3 * square.interval().end());
            }
            plain = square.ciphertext().clone();
            ranged = square;
        }
    }
    assert!(refused >= 10, "{refused}");
}

#[test]
fn arguments_outside_the_interval_of_a_polynomial_are_refused() {
    let world = &*WORLD;
    let e = Ranged::new(&world.evaluator);
    let scale = world.params.scale_at(world.params.top());
    let root = Polynomial::chebyshev(f64::sqrt, 1.0..100.0, 15).unwrap();
    let plan = root.plan(e.chain(), world.params.top(), scale, scale).unwrap();
    let x = world.encrypt(&points(&(1.0..=100.0)));
    let within = e.input(x.clone(), 1.0..=100.0).unwrap();
    let y = plan.run(&e, &within).unwrap();
    for (found, x) in world.decrypt(y.ciphertext()).into_iter().zip(points(&(1.0..=100.0))) {
        assert!((found - root.evaluate(x)).abs() < 1e-4, "{found} at {x}");
    }
    assert!(*y.interval().end() >= 10.0 && *y.interval().end() < 20.0, "{:?}", y.interval());

    for outside in [0.9..=100.0, 1.0..=101.0] {
        let x = e.input(x.clone(), outside).unwrap();
        let refused = plan.run(&e, &x).unwrap_err();
        assert!(matches!(refused, Error::OutsideInterval { degree: 15, .. }), "{refused}");
    }
    // Known by the caller, not by interval arithmetic.
    let wide = e.input(x, -100.0..=100.0).unwrap();
    assert!(plan.run(&e, &wide).is_err());
    let odd = Polynomial::chebyshev(f64::sin, -100.0..100.0, 15).unwrap();
    let odd = odd.plan(e.chain(), world.params.top(), scale, scale).unwrap();
    assert!(odd.run(&e, &wide).is_ok());
    let double = e.add(&wide, &wide).unwrap();
    assert!(odd.run(&e, &double).is_err());
    assert!(odd.run(&e, &e.within(double, 100.0)).is_ok());
}

#[test]
fn matrices_are_bounded_row_by_row() {
    let world = &*WORLD;
    let e = Ranged::new(&world.evaluator);
    let scale = world.params.scale_at(world.params.top());
    let ones = |rows: usize| vec![Complex::new(1.0, 0.0); rows];
    let diagonals: BTreeMap<usize, _> = (0..8).map(|k| (4 * k % SLOTS, ones(SLOTS))).collect();
    let sums = LinearTransform::new(LOG_N - 1, diagonals).unwrap();
    let plan = sums.plan(LOG_N, e.chain(), world.params.top(), scale, scale).unwrap();
    let matrix = e.prepare(&plan).unwrap();
    let x = e.input(world.encrypt(&[3.0; SLOTS]), 0.0..=3.0).unwrap();
    let y = plan.run(&e, &matrix, &x).unwrap();
    assert_eq!(y.interval(), -24.0..=24.0);
    assert!((world.decrypt(y.ciphertext())[5] - 24.0).abs() < 1e-5);
}

#[test]
fn inputs_are_checked() {
    let world = &*WORLD;
    let e = Ranged::new(&world.evaluator);
    let x = world.encrypt(&[1.0]);
    for (low, high) in [(1.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
        assert!(matches!(e.input(x.clone(), low..=high), Err(Error::Circuit(_))));
    }
    let mut low = x;
    world.evaluator.drop_to_assign(&mut low, Level(0)).unwrap();
    assert!(matches!(e.input(low.clone(), 0.0..=600.0), Err(Error::OutOfRoom { .. })));
    let low = e.complex_input(low, 400.0).unwrap();
    // Impossible bounds are accepted without a panic.
    for most in [f64::NAN, -1.0] {
        let _ = e.within(low.clone(), most);
    }
}

/// A step of a random program.
#[derive(Debug, Clone, Copy)]
enum Step {
    Add,
    Subtract,
    Multiply,
    Plus(f64),
    Times(f64),
    Rotate(i64),
    RealPart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Add),
        Just(Step::Subtract),
        Just(Step::Multiply),
        (-100.0..100.0).prop_map(Step::Plus),
        (-100.0..100.0).prop_map(Step::Times),
        prop_oneof![Just(1i64), Just(4)].prop_map(Step::Rotate),
        Just(Step::RealPart),
    ]
}

/// Runs a program on `x`, with `y` brought to its level and scale in each step.
fn run<E: ComplexOps>(e: &E, x: E::Ct, y: &E::Ct, steps: &[Step]) -> Result<E::Ct> {
    steps.iter().try_fold(x, |x, step| {
        let other = || match e.level(&x) {
            level if level < e.level(y) => e.match_scale(y, level, e.scale(&x)),
            _ => Ok(y.clone()),
        };
        match *step {
            Step::Add => e.add(&x, &other()?),
            Step::Subtract => e.sub(&other()?, &x),
            Step::Multiply => e.mul_rescale(&x, &other()?),
            Step::Plus(c) => e.add_const(&x, Complex::new(c, 0.0)),
            Step::Times(c) => {
                let divisor = e.divisor(&x, e.level(&x));
                let mut product = e.mul_const(&x, Complex::new(c, 0.0), divisor)?;
                e.rescale_assign(&mut product)?;
                Ok(product)
            }
            Step::Rotate(k) => e.rotate(&x, k),
            Step::RealPart => e.twice_real_part(&x),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn results_of_random_programs_are_in_their_intervals(
        steps in proptest::collection::vec(step(), 1..7),
        (low, width) in (-30.0..30.0, 0.0..40.0),
    ) {
        let world = &*WORLD;
        let e = Ranged::new(&world.evaluator);
        let interval = low..=low + width;
        let slots = points(&interval);
        let [x, y] = [slots.clone(), slots.iter().rev().copied().collect()];
        let clear = sim::Evaluator::for_params(&world.params);
        let scale = world.params.scale_at(world.params.top());
        let simulate = |slots: &Vec<f64>| {
            let slots: Vec<_> = slots.iter().map(|&re| Complex::new(re, 0.0)).collect();
            clear.encrypt(&slots, world.params.top(), scale).unwrap()
        };
        let expected = run(&clear, simulate(&x), &simulate(&y), &steps);
        let input = |slots| e.input(world.encrypt(slots), interval.clone()).unwrap();
        match (run(&e, input(&x), &input(&y), &steps), expected) {
            (Ok(found), Ok(expected)) => {
                let largest = found.bounds.interval.magnitude();
                for (found_slot, z) in world.decrypt(found.ciphertext()).iter().zip(&expected.slots) {
                    prop_assert!((found_slot - z.re).abs() <= 1e-4 * largest.max(1.0));
                    let slack = 1e-9 * largest;
                    prop_assert!(z.re >= found.interval().start() - slack);
                    prop_assert!(z.re <= found.interval().end() + slack);
                }
            }
            (Err(Error::OutOfRoom { .. }), _) => {}
            (Err(found), Err(expected)) => prop_assert_eq!(found, expected),
            (found, expected) => prop_assert!(false, "{:?}, {:?}", found.err(), expected.err()),
        }
    }
}

#[test]
fn batches_in_lock_step_have_their_own_intervals() {
    let world = &*WORLD;
    let e = Ranged::new(&world.evaluator);
    let xs = [1.0, 20.0].map(|x| e.input(world.encrypt(&[x; SLOTS]), 0.0..=x).unwrap());
    let squares = LockStep::new(&e).run(&xs, |e, x| e.mul_rescale(x, x)).unwrap();
    let ends: Vec<_> = squares.iter().map(|y| *y.interval().end()).collect();
    assert_eq!(ends, [1.0, 400.0]);
    // The intervals of `exp(x)` by one polynomial, one inside and one outside.
    let scale = world.params.scale_at(world.params.top());
    let exp = Polynomial::chebyshev(f64::exp, -2.0..2.0, 7).unwrap();
    let exp = exp.plan(e.chain(), world.params.top(), scale, scale).unwrap();
    assert!(exp.run(&e, &xs[0]).is_ok());
    assert!(matches!(exp.run_many(&e, &xs), Err(Error::OutsideInterval { .. })));
}
