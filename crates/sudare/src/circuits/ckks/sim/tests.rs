use super::*;

const LOG_N: u32 = 5;

fn scale() -> Scale {
    Scale::from_log2(40.0)
}

fn evaluator() -> Evaluator {
    let divisors = [(1 << 40) - 87, (1 << 40) + 15, (1 << 40) - 167].map(Scale::from_u64);
    Evaluator::new(LOG_N, Chain::new(divisors.to_vec(), vec![60.0, 100.0, 140.0, 180.0]))
}

fn encrypt(e: &Evaluator, level: u32) -> Ciphertext {
    let slots: Vec<_> = (0..16).map(|i| Complex::new(f64::from(i), 1.0)).collect();
    e.encrypt(&slots, Level(level), scale()).unwrap()
}

/// Applies `X -> X^g` to the polynomial with the given slots by brute force. Slot `j` is the value
/// at `zeta^(5^j)`, so the slot of the result is the value at `zeta^(g 5^j)`.
fn by_definition(slots: &[Complex<f64>], g: u32) -> Vec<Complex<f64>> {
    let modulus = 2u64 << LOG_N;
    let exponents: Vec<u64> = (0..slots.len())
        .scan(1, |power, _| {
            let this = *power;
            *power = *power * 5 % modulus;
            Some(this)
        })
        .collect();
    let value = |exponent: u64| {
        let place = |e: u64| exponents.iter().position(|&x| x == e);
        match place(exponent) {
            Some(j) => slots[j],
            None => slots[place(modulus - exponent).unwrap()].conj(),
        }
    };
    exponents.iter().map(|&e| value(e * u64::from(g) % modulus)).collect()
}

#[test]
fn every_automorphism_moves_slots_as_defined() {
    let e = evaluator();
    let a = encrypt(&e, 2);
    for g in (1..2 << LOG_N).step_by(2) {
        let moved = e.automorphism(&a, GaloisElement(g)).unwrap();
        assert_eq!(moved.slots, by_definition(&a.slots, g), "{g}");
    }
    for g in [0, 2, (2 << LOG_N) + 1] {
        assert!(matches!(e.automorphism(&a, GaloisElement(g)), Err(Error::Circuit(_))));
    }
    assert_eq!(e.rotate(&a, -3).unwrap().slots[3], a.slots[0]);
    assert_eq!(e.rotate(&a, 16).unwrap(), a);
    assert_eq!(e.conjugate(&a).unwrap().slots[7], a.slots[7].conj());
}

#[test]
fn sparse_slots_are_periodic() {
    let e = evaluator();
    let slots = [1.0, 2.0, 3.0, 4.0].map(|x| Complex::new(x, 0.0));
    let a = e.encrypt(&slots[..3], Level(1), scale()).unwrap();
    assert_eq!(a.slots.len(), 4);
    assert_eq!(e.rotate(&a, 5).unwrap().slots, e.rotate(&a, 1).unwrap().slots);
}

#[test]
fn refuses_what_encryption_refuses() {
    let e = evaluator();
    let a = encrypt(&e, 3);
    let low = encrypt(&e, 0);
    let other = e.with_scale(&a, scale() * Scale::from_f64(1.0 + 1e-15)).unwrap();
    assert!(matches!(e.add(&a, &other), Err(Error::ScaleMismatch { op: "add", .. })));
    assert!(matches!(e.sub(&a, &other), Err(Error::ScaleMismatch { op: "subtract", .. })));
    assert_eq!(e.add(&a, &low).unwrap().level, Level(0));
    assert!(matches!(e.mul(&low, &low), Err(Error::ScaleOutOfRange { op: "multiply", .. })));
    assert_eq!(
        e.mul_rescale(&a, &low),
        Err(Error::LevelExhausted { op: "multiply and rescale", needed: 1, level: Level(0) })
    );
    assert_eq!(
        e.rescale_assign(&mut low.clone()),
        Err(Error::LevelExhausted { op: "rescale", needed: 1, level: Level(0) })
    );
    assert_eq!(
        e.drop_to(&mut low.clone(), Level(1)),
        Err(Error::LevelOutOfRange { found: Level(1), max: Level(0) })
    );
    for scale in [0.0, f64::NAN, f64::INFINITY, -1.0].map(Scale::from_f64) {
        assert!(matches!(e.with_scale(&a, scale), Err(Error::ScaleOutOfRange { .. })));
        let one = Complex::new(1.0, 0.0);
        assert!(matches!(e.mul_const(&a, one, scale), Err(Error::ScaleOutOfRange { .. })));
    }
    let nan = Complex::new(0.0, f64::NAN);
    assert!(matches!(e.add_const(&a, nan), Err(Error::NotFinite { .. })));
    assert!(matches!(e.mul_const(&a, nan, scale()), Err(Error::NotFinite { .. })));

    let encrypt = |n, x, level| e.encrypt(&vec![Complex::new(x, 0.0); n], level, scale());
    assert_eq!(encrypt(32, 0.0, Level(0)), Err(Error::TooManySlots { found: 32, slots: 16 }));
    assert!(matches!(encrypt(2, 0.0, Level(4)), Err(Error::LevelOutOfRange { .. })));
    assert!(matches!(encrypt(2, f64::NAN, Level(0)), Err(Error::NotFinite { .. })));
    assert!(matches!(encrypt(2, 1e6, Level(0)), Err(Error::ValueTooLarge { .. })));
    let million = Complex::new(1e6, 0.0);
    assert!(matches!(e.add_const(&low, million), Err(Error::ValueTooLarge { .. })));
    let huge = Complex::new(1e27, 0.0);
    assert!(matches!(e.mul_const(&a, huge, scale()), Err(Error::ValueTooLarge { .. })));
    let too_large = Scale::from_log2(100.0);
    let refused = e.encrypt(&[], Level(0), too_large);
    assert!(matches!(refused, Err(Error::ScaleOutOfRange { op: "encode", .. })));
    let few = encrypt(2, 1.0, Level(3)).unwrap();
    assert!(matches!(e.add(&a, &few), Err(Error::SlotMismatch { .. })));
    assert!(matches!(e.mul(&a, &few), Err(Error::SlotMismatch { .. })));
}

#[test]
fn counts_and_records() {
    let e = evaluator();
    let high = encrypt(&e, 3);
    let a = encrypt(&e, 2);
    assert_eq!(e.used_keys(), KeyRequest::default());
    e.mul(&a, &high).unwrap();
    e.mul_rescale(&a, &a).unwrap();
    assert_eq!(e.used_keys().relinearize, Some(Level(2)));
    e.rotate(&a, 1).unwrap();
    e.rotate(&high, 1).unwrap();
    e.rotate(&a, 1).unwrap();
    e.rotate(&a, 0).unwrap();
    e.conjugate(&a).unwrap();
    e.mul_const(&a, Complex::new(2.0, 0.0), scale()).unwrap();
    assert_eq!(
        e.counts(),
        Counts { products: 2, constant_products: 1, rescalings: 1, automorphisms: 4, raisings: 0 }
    );
    let elements = [
        (GaloisElement::rotation(LOG_N, 1), Level(3)),
        (GaloisElement::conjugation(LOG_N), Level(2)),
    ];
    assert_eq!(e.used_keys().galois, elements.into());
}

#[test]
fn raising_keeps_values_and_records_its_keys() {
    let e = evaluator();
    let a = encrypt(&e, 2);
    let raised = e.mod_raise(&a, Level(3), None).unwrap();
    assert_eq!((raised.level, &raised.slots), (Level(3), &a.slots));
    assert!(raised.scale.matches(a.scale));
    assert_eq!(raised.noise_log2, a.noise_log2);
    // Only the headroom at level 0 counts.
    assert!((raised.headroom_bits - (59.0 - 40.0 - 226f64.sqrt().log2())).abs() < 1e-9);
    assert_eq!(e.used_keys(), KeyRequest::new());
    let above = Error::LevelOutOfRange { found: Level(4), max: Level(3) };
    assert_eq!(e.mod_raise(&a, Level(4), None), Err(above));

    let none = Error::EphemeralSecretMismatch { found: None, needed: 48 };
    assert_eq!(e.mod_raise(&a, Level(3), Some(48)), Err(none));

    let e = evaluator().with_ephemeral_secret(48);
    let denser = Error::EphemeralSecretMismatch { found: Some(48), needed: 47 };
    assert_eq!(e.mod_raise(&a, Level(3), Some(47)), Err(denser));
    let raised = e.mod_raise(&a, Level(1), Some(48)).unwrap();
    let raised = e.mod_raise(&raised, Level(2), None).unwrap();
    assert!(raised.noise_log2 > a.noise_log2);
    assert_eq!(e.used_keys().raise, Some(Raise::to(Level(2)).with_weight(48)));
    assert_eq!(e.counts().raisings, 2);
}

#[test]
fn scales_are_exact_and_values_are_kept() {
    let e = evaluator();
    let a = encrypt(&e, 3);
    let mut b = e.mul_const(&a, Complex::new(0.0, 3.0), e.chain().divisor(Level(3))).unwrap();
    e.rescale_assign(&mut b).unwrap();
    assert!(b.scale.matches(a.scale));
    assert_eq!(b.level, Level(2));
    assert_eq!(b.slots[5], Complex::new(-3.0, 15.0));
    let halved = e.with_scale(&a, scale() * Scale::from_f64(2.0)).unwrap();
    assert_eq!(halved.slots[6], Complex::new(3.0, 0.5));
    assert!((halved.noise_log2 - a.noise_log2 + 1.0).abs() < 1e-9);
}

/// Returns parameters with an evaluator that has bounds, and the scale of its top.
fn bounded(levels: usize, log2_scale: f64) -> (ckks::Params, Evaluator, Scale) {
    let spec = ckks::Spec::uniform(LOG_N + 1, 50.0, levels, log2_scale, vec![50.0, 50.0]);
    let params = ckks::Params::new(ckks::Spec { insecure: true, ..spec }).unwrap();
    let e = Evaluator::for_params(&params);
    let scale = params.scale_at(params.top());
    (params, e, scale)
}

#[test]
fn errors_that_meet_themselves_add_up() {
    let (params, e, scale) = bounded(3, 40.0);
    let top = params.top();
    let slots = [0.5, -0.25, 0.0, 0.125].map(|x| Complex::new(x, 0.0));
    let x = e.encrypt(&slots, top, scale).unwrap();
    let noise = x.noise().whole;
    assert!(x.worst.error > 8.0 * noise && x.worst.error < 256.0 * noise);

    let twice = e.add(&x, &x).unwrap();
    assert!((twice.worst.error / x.worst.error - 2.0).abs() < 1e-9);
    let nothing = e.sub(&x, &x).unwrap();
    assert_eq!(nothing.worst.largest, [1.0, 0.5, 0.0, 0.25]);
    assert_eq!(nothing.worst.error, twice.worst.error);
    let turned = e.rotate(&x, 1).unwrap();
    assert_eq!(turned.worst.largest, [0.25, 0.0, 0.125, 0.5]);
    // The largest weight counts.
    let weights = [8.0, 0.01, 0.01, 0.01].map(|x| Complex::new(x, 0.0));
    let weighed = e.mul_plain(&x, &weights, scale).unwrap();
    assert!((weighed.worst.error / x.worst.error - 8.0).abs() < 0.01);
    assert!(weighed.noise().whole < 5.0 * noise);
    // Both factors have the same error.
    let square = e.mul_rescale(&twice, &twice).unwrap();
    assert!(square.worst.error > 1.9 * twice.worst.error);

    // The bound is for the declared inputs, not for the present ones.
    let wide = e.encrypt_within(&slots, &[1024.0; 4], Level(0), scale).unwrap();
    assert!(wide.headroom_bits > 0.0 && wide.worst.headroom_bits < 0.0);
    let few = e.encrypt_within(&slots, &[1.0; 3], top, scale);
    assert!(matches!(few, Err(Error::SlotMismatch { found: 3, expected: 4, .. })));

    let raised = e.mod_raise(&x, top, None).unwrap();
    assert_eq!(raised.worst.error, f64::INFINITY);
    let zero = e.mul_const(&raised, Complex::new(0.0, 0.0), scale).unwrap();
    assert_eq!(zero.worst.error, f64::INFINITY);
    let unknown = Evaluator::new(LOG_N + 1, params.chain().clone());
    let unknown = unknown.encrypt(&slots, top, scale).unwrap();
    assert_eq!((unknown.worst.error, unknown.noise_log2), (f64::INFINITY, x.noise_log2));
}

/// An argument's error is multiplied by the slope of the polynomial, not by the slope of each
/// power.
#[test]
fn errors_of_arguments_meet_slopes() {
    let (params, e, scale) = bounded(6, 45.0);
    let top = params.top();
    let x = e.encrypt(&[Complex::new(0.5, 0.0)], top, scale).unwrap();
    let series = vec![0.0, 1.0, 0.0, -1.0 / 3.0, 0.0, 0.2, 0.0, -1.0 / 7.0, 0.0, 1.0 / 9.0];
    let steep = |x: f64| crate::circuits::ckks::Polynomial::chebyshev_series(series.clone(), -x..x);
    let errors = [1.0, 8.0].map(|reach| {
        let plan = steep(reach).unwrap().plan(params.chain(), top, scale, scale).unwrap();
        plan.run(&e, &x).unwrap().worst.error
    });
    // The slope at 0 is 5; the slope of T_9 alone would be 81 / 9.
    assert!(errors[0] > 5.0 * x.worst.error && errors[0] < 8.0 * x.worst.error);
    assert!(errors[1] < errors[0] / 2.0);
}

/// Values of a polynomial have its bound on the interval, and arguments that could be outside leave
/// no bound.
#[test]
fn bounds_of_polynomials_are_for_their_intervals() {
    let (params, e, scale) = bounded(6, 45.0);
    let top = params.top();
    let x = e.encrypt(&[Complex::new(-1.0, 0.0)], top, scale).unwrap();
    let series = vec![0.0, 1.0, 0.0, 1.0, 0.0, -1.0];
    let largest = (0..=1_000_000).map(|i| core::f64::consts::PI * f64::from(i) / 1e6);
    let largest =
        largest.map(|a| (a.cos() + (3.0 * a).cos() - (5.0 * a).cos()).abs()).fold(0.0, f64::max);
    let run = |reach: f64| {
        let polynomial =
            crate::circuits::ckks::Polynomial::chebyshev_series(series.clone(), -reach..reach);
        let plan = polynomial.unwrap().plan(params.chain(), top, scale, scale).unwrap();
        plan.run(&e, &x).unwrap().worst
    };
    let within = run(1.0);
    assert!((1.0..1.0 + 1e-5).contains(&(within.magnitude() / largest)), "{within:?}");
    assert!(within.argument == 1.0 && within.largest_error() == within.error);
    let beyond = run(0.75);
    assert!((beyond.argument - 4.0 / 3.0).abs() < 1e-9, "{beyond:?}");
    assert!(beyond.error.is_finite() && beyond.largest_error() == f64::INFINITY);
}

/// At a scale that is not a power of two, a product of 2^52 and more has digits that f64 lacks.
#[test]
fn constants_are_exact_if_all_of_their_digits_are() {
    let c = Complex::new(1.0, 0.0);
    for (scale, exact) in [
        (Scale::from_log2(52.0), true),
        (Scale::from_u64((1 << 52) + 3), true),
        (Scale::from_u64((1 << 53) + 1), true),
        (Scale::from_u64((1 << 54) + 1) / Scale::from_f64(3.0), false),
        (Scale::from_u64((1 << 53) + 1) / Scale::from_f64(2.0), false),
        (Scale::from_log2(80.0), true),
    ] {
        assert_eq!(largest_encoding(c, scale) == 0.0, exact, "{scale}");
    }
}

#[test]
fn noise_and_headroom_are_tracked() {
    let e = evaluator();
    let a = encrypt(&e, 3);
    // N = 32: sqrt(10.5 * 32 * (4 * 32 / 3 + 1)) / 2^40.
    let fresh = (10.5 * 32.0 * 131.0 / 3.0f64).sqrt().log2() - 40.0;
    assert!((a.noise_log2 - fresh).abs() < 1e-9);
    let squared = e.mul_rescale(&a, &a).unwrap();
    assert!(squared.noise_log2 > a.noise_log2 + 3.0);
    let turned = e.mul_const(&a, Complex::new(0.0, 1.0), Scale::from_u64(1)).unwrap();
    assert_eq!((turned.noise_log2, turned.scale), (a.noise_log2, a.scale));
    // The largest slot is 15 + i.
    let largest = 226f64.sqrt().log2();
    assert!((a.headroom_bits - (179.0 - 40.0 - largest)).abs() < 1e-9);
    let mut low = a.clone();
    e.drop_to(&mut low, Level(0)).unwrap();
    assert!((low.headroom_bits - (59.0 - 40.0 - largest)).abs() < 1e-9);
    let large = Complex::new(5e5, 0.0);
    let doubled = e.add_const(&e.add_const(&low, large).unwrap(), large).unwrap();
    assert!(doubled.headroom_bits < 0.0);
    let back = e.sub(&doubled, &doubled).unwrap();
    assert!(back.headroom_bits < 0.0);
}

/// Polynomials of the sign on `[-1, 1]` one after the other, in a chain with enough levels.
mod imaginary_noise {
    use super::*;
    use crate::{
        circuits::ckks::Polynomial,
        ckks::{Decryptor, Encoder, Encryptor, Params, Spec},
        rlwe::KeyGenerator,
    };
    use std::sync::Arc;

    const STAGES: u32 = 6;
    const DEPTH: u32 = 5;

    fn params() -> Params {
        let spec = Spec::uniform(10, 50.0, (STAGES * DEPTH) as usize, 40.0, vec![50.0; 7]);
        Params::new(Spec { insecure: true, ..spec }).unwrap()
    }

    /// Values up to 1 at the ends, where the slope is some hundreds.
    fn stage() -> Polynomial {
        let p = Polynomial::chebyshev(|x| (40.0 * x).tanh(), -1.0..1.0, 31).unwrap();
        let coeffs = p.coeffs().iter().map(|c| c * 0.85).collect();
        Polynomial::chebyshev_series(coeffs, -1.0..1.0).unwrap()
    }

    /// Runs `STAGES` stages, with real parts taken or not.
    fn run<E: ComplexOps>(e: &E, params: &Params, mut x: E::Ct, real: bool) -> Result<Vec<E::Ct>> {
        let two = Scale::from_u64(2);
        let mut values = Vec::new();
        for _ in 0..STAGES {
            let half =
                |end| Ok(if real { params.scale_at(end) / two } else { params.scale_at(end) });
            x = stage().plan_to(e.chain(), e.level(&x), e.scale(&x), half)?.run(e, &x)?;
            if real {
                let sum = e.twice_real_part(&x)?;
                x = e.with_scale(&sum, e.scale(&sum) * two)?;
            }
            values.push(x.clone());
        }
        Ok(values)
    }

    #[test]
    fn what_runs_away_from_the_real_line_is_refused() {
        let params = params();
        let top = params.top();
        let e = Evaluator::for_params(&params);
        let ends: Vec<_> =
            (0..512).map(|i| Complex::new(1.0 - f64::from(i % 2) * 2.0, 0.0)).collect();
        let x = e.encrypt(&ends, top, params.scale_at(top)).unwrap();
        let refused = run(&e, &params, x.clone(), false).unwrap_err();
        assert!(refused.to_string().contains("take real parts"), "{refused}");
        let simulated = run(&e, &params, x, true).unwrap();

        // Encrypted, imaginary parts are at most the simulated ones, and values stay.
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = Arc::new(keygen.evaluation_keys(&secret, &e.used_keys()).unwrap());
        let encoder = Encoder::new(&params);
        let encryptor = Encryptor::new(&params, public).unwrap();
        let decryptor = Decryptor::new(&params, secret).unwrap();
        let evaluator = ckks::Evaluator::new(&params, keys).unwrap();
        let x = encryptor.encrypt(&encoder.encode_at(&ends, top, params.scale_at(top)).unwrap());
        let found = run(&evaluator, &params, x.unwrap(), true).unwrap();
        for (found, simulated) in found.iter().zip(&simulated) {
            let slots = encoder.decode(&decryptor.decrypt(found).unwrap()).unwrap();
            let most = PEAK * simulated.imaginary_log2.exp2();
            let largest = slots.iter().map(|z| z.im.abs()).fold(0.0, f64::max);
            // In a ring with few special primes, a key switch adds more than its rounding.
            assert!(largest < 4.0 * most, "{largest:e} {most:e}");
            let pairs = slots.iter().zip(&simulated.slots);
            let error = pairs.map(|(z, exact)| (z.re - exact.re).abs()).fold(0.0, f64::max);
            assert!(error < 1e-3, "{error:e}");
        }
    }

    #[test]
    fn slots_that_stand_for_others_are_folded() {
        for (t, inside) in [(0.3, 0.3), (1.5, 0.5), (3.2, -0.8), (-1.25, -0.75), (-205.0, -1.0)] {
            assert!((folded(t) - inside).abs() < 1e-12, "{t}");
        }
        let params = params();
        let top = params.top();
        let e = Evaluator::for_params(&params).with_folded_arguments();
        let p = Polynomial::chebyshev(|x| 1.0 / x, 0.05..1.0, 31).unwrap();
        let plan = p.plan(e.chain(), top, params.scale_at(top), params.scale_at(top)).unwrap();
        let slots = [-1.0, -0.3, 0.5, 0.9].map(|x| Complex::new(x, 0.0));
        let y = plan.run(&e, &e.encrypt(&slots, top, params.scale_at(top)).unwrap()).unwrap();
        assert!(y.slots.iter().all(|y| (0.9..21.0).contains(&y.re)));
        assert!((y.slots[2].re - 2.0).abs() < 1e-2 && y.noise_log2 < -15.0);
    }
}
