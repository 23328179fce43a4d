use super::*;
use proptest::prelude::*;

/// Values in the square `|re|, |im| < 1` with all the bits of `T`.
fn random<T: Real>(len: usize, seed: u64) -> Vec<Complex<T>> {
    let mut state = seed;
    let mut word = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as i64
    };
    let mut real = || T::from_dd(Dd::from(word()).mul_pow2(-63) + Dd::from(word()).mul_pow2(-116));
    (0..len).map(|_| Complex::new(real(), real())).collect()
}

/// Slot `j` by the definition, in double-double.
fn slot<T: Real>(values: &[Complex<T>], j: usize) -> Complex<Dd> {
    let order = 4 * values.len() as u64;
    let root = (0..j).fold(1, |power, _| 5 * power % order);
    let mut sum = Complex::new(Dd::ZERO, Dd::ZERO);
    for (k, x) in values.iter().enumerate() {
        let turns = Dd::from(root * k as u64 % order) / Dd::from(order);
        let (im, re) = turns.sin_cos_turns();
        sum = sum + Complex::new(x.re.to_dd(), x.im.to_dd()) * Complex { re, im };
    }
    sum
}

fn square<T: Real>(x: Complex<T>) -> f64 {
    let re = x.re.to_f64();
    let im = x.im.to_f64();
    re * re + im * im
}

/// Root mean square of the differences, divided by the root mean square of `exact`.
fn distance<T: Real>(got: &[Complex<T>], exact: &[Complex<T>]) -> f64 {
    assert_eq!(got.len(), exact.len());
    let error: f64 = got.iter().zip(exact).map(|(&x, &y)| square(x - y)).sum();
    (error / exact.iter().map(|&x| square(x)).sum::<f64>()).sqrt()
}

fn check_definition<T: Real>(fft: &SpecialFft<T>, log_n: u32, unit: f64) {
    let n = 1usize << log_n;
    let coefficients = random::<T>(n, 1 + u64::from(log_n));
    let mut slots = coefficients.clone();
    fft.forward(&mut slots);
    // Every slot of short transforms, a few of long ones.
    let sample: Vec<usize> = if log_n <= 8 {
        (0..n).collect()
    } else {
        [0, 1, 2, 7, 8, 63, 64, n / 2 - 1, n / 2, 3 * n / 4 + 5, n - 1].to_vec()
    };
    let rms = (2.0 * n as f64 / 3.0).sqrt();
    for j in sample {
        let exact = slot(&coefficients, j);
        let got = Complex::new(slots[j].re.to_dd(), slots[j].im.to_dd());
        let error = square(got - exact).sqrt() / rms;
        assert!(error <= unit * f64::from(4 * log_n), "n = {n}, slot {j}: {error:e}");
    }
}

#[test]
fn forward_is_the_definition() {
    let fft = SpecialFft::<f64>::new(14);
    (0..=14).for_each(|log_n| check_definition(&fft, log_n, 2f64.powi(-53)));
    let fft = SpecialFft::<Dd>::new(14);
    (0..=14).for_each(|log_n| check_definition(&fft, log_n, 2f64.powi(-103)));
}

fn check_inverse<T: Real>(log_max: u32, bound: f64) {
    let fft = SpecialFft::<T>::new(log_max);
    for log_n in 0..=log_max {
        let values = random::<T>(1 << log_n, 99);
        let mut round_trip = values.clone();
        fft.forward(&mut round_trip);
        fft.inverse(&mut round_trip);
        assert!(distance(&round_trip, &values) < bound);
        fft.inverse(&mut round_trip);
        fft.forward(&mut round_trip);
        assert!(distance(&round_trip, &values) < bound);
    }
}

#[test]
fn inverse_undoes_forward() {
    check_inverse::<f64>(16, 1e-14);
    check_inverse::<Dd>(15, 1e-29);
}

#[test]
fn tables_serve_every_size_alike() {
    for log_n in 0..=9 {
        let values = random::<f64>(1 << log_n, 5);
        let mut small = values.clone();
        let mut large = values;
        SpecialFft::new(log_n).forward(&mut small);
        SpecialFft::new(12).forward(&mut large);
        assert_eq!(small, large);
    }
}

fn bits<T: Real>(values: &[Complex<T>]) -> Vec<[u64; 2]> {
    let word = |x: T| [x.to_dd().hi().to_bits(), x.to_dd().lo().to_bits()];
    values.iter().flat_map(|x| [word(x.re), word(x.im)]).collect()
}

fn check_same_bits<T: Real>() {
    for log_n in 0..=13 {
        let values = random::<T>(1 << log_n, 7);
        let results: Vec<_> = Simd::ALL
            .iter()
            .filter(|simd| simd.is_available())
            .map(|&simd| {
                let fft = SpecialFft::<T>::with_simd(13, simd);
                let mut forward = values.clone();
                let mut inverse = values.clone();
                fft.forward(&mut forward);
                fft.inverse(&mut inverse);
                (bits(&forward), bits(&inverse))
            })
            .collect();
        assert!(results.iter().all(|result| *result == results[0]), "n = 2^{log_n}");
    }
}

#[test]
fn every_compilation_gives_the_same_bits() {
    check_same_bits::<f64>();
    check_same_bits::<Dd>();
}

/// Half-coefficients of a real polynomial.
fn half<T: Real>(coefficients: &[T]) -> Vec<Complex<T>> {
    let (re, im) = coefficients.split_at(coefficients.len() / 2);
    re.iter().zip(im).map(|(&re, &im)| Complex { re, im }).collect()
}

fn real<T: Real>(len: usize, seed: u64) -> Vec<T> {
    random::<T>(len, seed).iter().map(|x| x.re).collect()
}

fn check_products<T: Real>(bound: f64) {
    let fft = SpecialFft::<T>::new(9);
    for log_n in 0..=9 {
        let degree = 2usize << log_n;
        let a = real::<T>(degree, 11);
        let b = real::<T>(degree, 13);
        let mut product = vec![T::ZERO; degree];
        for (i, &x) in a.iter().enumerate() {
            for (j, &y) in b.iter().enumerate() {
                let k = (i + j) % degree;
                let wraps = i + j >= degree;
                product[k] = if wraps { product[k] - x * y } else { product[k] + x * y };
            }
        }
        let [mut a, mut b, mut product] = [half(&a), half(&b), half(&product)];
        for values in [&mut a, &mut b, &mut product] {
            fft.forward(values);
        }
        let products: Vec<_> = a.iter().zip(&b).map(|(&x, &y)| x * y).collect();
        assert!(distance(&product, &products) < bound);
    }
}

#[test]
fn slots_of_a_product_are_the_products_of_the_slots() {
    check_products::<f64>(1e-13);
    check_products::<Dd>(1e-28);
}

#[test]
fn the_automorphism_of_5_rotates_the_slots_left() {
    let fft = SpecialFft::<f64>::new(10);
    for log_n in 0..=10 {
        let degree = 2usize << log_n;
        let coefficients = real::<f64>(degree, 17);
        let mut image = vec![0.0; degree];
        for (k, &x) in coefficients.iter().enumerate() {
            let wraps = (5 * k / degree) % 2 == 1;
            image[5 * k % degree] = if wraps { -x } else { x };
        }
        let [mut slots, mut rotated] = [half(&coefficients), half(&image)];
        for values in [&mut slots, &mut rotated] {
            fft.forward(values);
        }
        slots.rotate_left(1);
        assert!(distance(&rotated, &slots) < 1e-14);
    }
}

#[test]
fn a_constant_has_equal_slots() {
    let fft = SpecialFft::<Dd>::new(8);
    for log_n in 0..=8 {
        let mut values = vec![Complex::<Dd>::default(); 1 << log_n];
        values[0] = Complex::new(Dd::PI, Dd::ZERO);
        let mut slots = values.clone();
        fft.forward(&mut slots);
        assert!(slots.iter().all(|x| *x == values[0]));
        fft.inverse(&mut slots);
        assert_eq!(slots, values);
    }
}

#[test]
fn roots_are_accurate() {
    let roots = Roots::new(12);
    for index in 0..1 << 12 {
        let (im, re) = Dd::from(i64::from(index)).mul_pow2(-12).sin_cos_turns();
        let error = roots.power(index as u32) - Complex { re, im };
        assert!(square(error).sqrt() < 2f64.powi(-101));
    }
    assert_eq!(roots.power(1 << 11), Complex::new(-Dd::ONE, Dd::ZERO));
}

#[test]
#[should_panic(expected = "a power of two up to 2^3 is needed")]
fn other_lengths_are_refused() {
    SpecialFft::<f64>::new(3).forward(&mut [Complex::default(); 6]);
}

proptest! {
    #[test]
    fn forward_and_inverse_are_linear(
        log_n in 0u32..9,
        seed in any::<u64>(),
        re in -4.0..4.0,
        im in -4.0..4.0,
    ) {
        let fft = SpecialFft::<f64>::new(8);
        let factor = Complex::new(re, im);
        let a = random::<f64>(1 << log_n, seed);
        let b = random::<f64>(1 << log_n, !seed);
        let combine = |a: &[Complex<f64>], b: &[Complex<f64>]| -> Vec<_> {
            a.iter().zip(b).map(|(&x, &y)| x * factor + y).collect()
        };
        for transform in [SpecialFft::forward, SpecialFft::inverse] {
            let [mut ta, mut tb, mut tc] = [a.clone(), b.clone(), combine(&a, &b)];
            for values in [&mut ta, &mut tb, &mut tc] { transform(&fft, values); }
            prop_assert!(distance(&tc, &combine(&ta, &tb)) < 1e-13);
        }
    }
}
