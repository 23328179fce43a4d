use super::*;

fn exp(x: Dd) -> Dd {
    (1..40).rev().fold(Dd::ONE, |sum, k| Dd::ONE + x * sum / Dd::from(k))
}

fn best(f: impl Fn(Dd) -> Dd, intervals: &[Range<f64>], parity: Parity, degree: usize) -> f64 {
    let reach = |i: &Range<f64>| i.start.abs().max(i.end.abs());
    let radius = intervals.iter().map(reach).fold(0.0, f64::max);
    let domain = Domain::new(intervals, radius, parity).unwrap();
    let found = Approximation::minimax(&f, &domain, degree).unwrap();
    check_error(&f, intervals, &found);
    assert!(found.polynomial.degree() <= degree);
    found.max_error
}

/// Compares the reported error with the error at equidistant points, evaluated in plain `f64`.
fn check_error(f: impl Fn(Dd) -> Dd, intervals: &[Range<f64>], found: &Approximation) {
    const STEPS: usize = 4000;
    let mut most = 0f64;
    for interval in intervals {
        for i in 0..=STEPS {
            let part = i as f64 / STEPS as f64;
            let x = interval.start * (1.0 - part) + interval.end * part;
            most = most.max((f(Dd::from(x)).to_f64() - found.polynomial.evaluate(x)).abs());
        }
    }
    let largest: f64 = found.polynomial.coeffs().iter().map(|c| c.abs()).sum();
    assert!(most <= (1.0 + 1e-9) * found.max_error + 1e-14 * largest, "{most} {}", found.max_error);
    assert!(most >= 0.99 * found.max_error - 1e-14 * largest, "{most} {}", found.max_error);
}

fn assert_near(found: f64, exact: f64, relative: f64) {
    assert!((found / exact - 1.0).abs() < relative, "found {found:e}, exact {exact:e}");
}

/// The best approximation of `x^(n + 1)` by lower degrees leaves the error `2^-n T_(n+1)`.
#[test]
fn powers_leave_chebyshev_polynomials() {
    for n in [0, 1, 2, 7, 20] {
        let f = |x: Dd| x.powi(n + 1);
        assert_near(best(f, &[-1.0..1.0], Parity::Any, n as usize), 0.5f64.powi(n), 2e-7);
    }
}

/// Given a cubic `T` that maps three intervals onto `[-1, 1]`, `T_k(T(x))` deviates least from zero
/// on them. Thus `T^k` deviates from lower degrees by `2^(1-k)`.
#[test]
fn inverse_images_of_a_polynomial() {
    let cubic = |x: f64| 4.0 * x * x * x - 5.0 * x + 0.25;
    let crossing = |level: f64, mut low: f64, mut high: f64| {
        for _ in 0..200 {
            let middle = low.midpoint(high);
            let inside = (cubic(middle) < level) == (cubic(low) < level);
            *(if inside { &mut low } else { &mut high }) = middle;
        }
        low
    };
    // The cubic turns at +-sqrt(5/12), where it is 2.4 and -1.9.
    let turn = (5.0f64 / 12.0).sqrt();
    let mut intervals = Vec::new();
    for (low, high) in [(-2.0, -turn), (-turn, turn), (turn, 2.0)] {
        let ends = [-1.0, 1.0].map(|level| crossing(level, low, high));
        intervals.push(ends[0].min(ends[1])..ends[0].max(ends[1]));
    }
    assert!(intervals.windows(2).all(|pair| pair[0].end < pair[1].start));
    let exact = |x: Dd| Dd::from(4) * x * x * x - Dd::from(5) * x + Dd::from(0.25);
    for k in [1, 2, 5, 9] {
        let degree = 3 * k as usize - 1;
        let found = best(|x| exact(x).powi(k), &intervals, Parity::Any, degree);
        assert_near(found, 0.5f64.powi(k - 1), 1e-6);
    }
}

/// On `[-1, -a]` and `[a, 1]`, `x^2m` deviates least from lower degrees by
/// `2 ((1 - a^2) / 4)^m`, as `u^m` on `[a^2, 1]` does.
#[test]
fn two_symmetric_intervals() {
    let a = 0.25;
    for m in [1, 3, 8] {
        let exact = 2.0 * ((1.0 - a * a) / 4.0f64).powi(m);
        let f = |x: Dd| x.powi(2 * m);
        let degree = 2 * m as usize - 1;
        assert_near(best(f, &[a..1.0], Parity::Even, degree), exact, 2e-7);
        assert_near(best(f, &[-1.0..-a, a..1.0], Parity::Any, degree), exact, 2e-7);
    }
}

/// Best lines: for `e^x` on `[-1, 1]` the slope is `sinh 1`; for the sign on `[-1, -a]` and
/// `[a, 1]` the error is `(1 - a) / (1 + a)`.
#[test]
fn lines() {
    let slope = 1f64.sinh();
    let exact = ((-1f64).exp() + slope * slope.ln()) / 2.0;
    assert_near(best(exp, &[-1.0..1.0], Parity::Any, 1), exact, 2e-7);
    assert_near(exact, 0.2787, 1e-3);
    assert_near(best(|_| Dd::ONE, &[0.5..1.0], Parity::Odd, 1), 1.0 / 3.0, 2e-7);
}

/// The errors of the best quadratic, cubic and quartic for `e^x` are known to four digits.
#[test]
fn exponential() {
    for (degree, exact) in [(2, 4.502e-2), (3, 5.528e-3), (4, 5.467e-4)] {
        assert_near(best(exp, &[-1.0..1.0], Parity::Any, degree), exact, 1e-3);
    }
    // Bernstein: 2^n (n+1)! E_n tends to 1.
    let mut factorial = 1.0;
    for n in 1..=12 {
        factorial *= f64::from(n + 1);
        let bound = 1.0 / (2f64.powi(n) * factorial);
        let found = best(exp, &[-1.0..1.0], Parity::Any, n as usize);
        assert!(found > bound && found < bound * (1.0 + 1.0 / f64::from(n)), "{n}: {found:e}");
    }
}

/// `2n E_2n(|x|)` tends to 0.28016 94990 23869 (Varga, Carpenter, "On the Bernstein
/// conjecture in approximation theory", Constr. Approx. 1, 1985), with an expansion in
/// `n^-2`.
#[test]
fn absolute_value() {
    let scaled = |n: usize| 2.0 * n as f64 * best(|x| x.abs(), &[-1.0..1.0], Parity::Even, 2 * n);
    let s = scaled(10);
    let m = scaled(20);
    let l = scaled(40);
    let once = [(4.0 * m - s) / 3.0, (4.0 * l - m) / 3.0];
    assert_near((16.0 * once[1] - once[0]) / 15.0, 0.280_169_499_023_869, 3e-7);
}

/// Best lines for `|x - c|` on `[-1, 1]`, `0 < c < 1`, have an error of `(1 - c^2) / 2`, at `c` and
/// at both ends.
#[test]
fn bends_are_found_where_they_are() {
    for c in [0.1, 0.345_678, 0.9] {
        let bent = |x: Dd| (x - Dd::from(c)).abs();
        assert_near(best(bent, &[-1.0..1.0], Parity::Any, 1), (1.0 - c * c) / 2.0, 2e-7);
        best(bent, &[-1.0..1.0], Parity::Any, 20);
    }
}

#[test]
fn parity_loses_nothing_on_symmetric_domains() {
    let cos = |x: Dd| x.sin_cos_turns().1;
    let sin = |x: Dd| x.sin_cos_turns().0;
    let both = [-1.5..-1.25, -0.5..0.5, 1.25..1.5];
    for degree in [5, 8, 13] {
        for parity in [Parity::Even, Parity::Odd] {
            let f = |x| if parity == Parity::Even { cos(x) } else { sin(x) };
            let whole = best(f, &both, Parity::Any, degree);
            assert_near(best(f, &both, parity, degree), whole, 1e-6);
            let domain = Domain::new(&both[1..], 1.5, parity).unwrap();
            let found = Approximation::minimax(f, &domain, degree).unwrap();
            assert_near(found.max_error, whole, 1e-6);
            let odd = usize::from(parity == Parity::Even);
            assert!(found.polynomial.coeffs().iter().skip(odd).step_by(2).all(|&c| c == 0.0));
        }
    }
}

/// The error has the same magnitude, with alternating signs, at one point more than there are
/// coefficients.
#[test]
fn errors_equioscillate() {
    let intervals = [-1.0..-0.9, -0.5..-0.1, 0.3..0.35, 0.8..1.0];
    let domain = Domain::new(&intervals, 1.0, Parity::Any).unwrap();
    for degree in [3, 5, 8, 11] {
        let found = Approximation::minimax(exp, &domain, degree).unwrap();
        let mut signs = Vec::new();
        for interval in &intervals {
            for i in 0..=20_000 {
                let part = f64::from(i) / 20_000.0;
                let x = interval.start * (1.0 - part) + interval.end * part;
                let error = x.exp() - found.polynomial.evaluate(x);
                if error.abs() > 0.98 * found.max_error && signs.last() != Some(&(error > 0.0)) {
                    signs.push(error > 0.0);
                }
            }
        }
        assert!(signs.len() >= degree + 2, "degree {degree}: {}", signs.len());
    }
}

#[test]
fn never_worse_than_interpolation() {
    let f = |x: Dd| Dd::ONE / (Dd::ONE + Dd::from(25) * x * x);
    for parity in [Parity::Any, Parity::Even] {
        let domain = Domain::new(&[-1.0..-0.7, -0.2..0.3, 0.7..1.0], 1.0, parity).unwrap();
        for degree in [4, 16, 40] {
            let best = Approximation::minimax(f, &domain, degree).unwrap();
            let other = Approximation::chebyshev(f, &domain, degree).unwrap();
            assert!(best.max_error < other.max_error);
        }
    }
    let sin = |x: Dd| x.sin_cos_turns().0;
    let domain = Domain::new(&[0.0..1.0], 1.0, Parity::Odd).unwrap();
    let interpolated = Approximation::chebyshev(sin, &domain, 21).unwrap();
    check_error(sin, &[-1.0..1.0], &interpolated);
    let plain = Polynomial::chebyshev(|x| (2.0 * core::f64::consts::PI * x).sin(), -1.0..1.0, 21);
    for (a, b) in interpolated.polynomial.coeffs().iter().zip(plain.unwrap().coeffs()) {
        assert!((a - b).abs() < 1e-14);
    }
}

#[test]
fn least_degree_within_an_error() {
    let domain = Domain::new(&[-1.0..1.0], 1.0, Parity::Any).unwrap();
    for max_error in [2.0, 0.3, 1e-3, 1e-9, 1e-13] {
        let found = Approximation::minimax_within(exp, &domain, max_error).unwrap();
        assert!(found.max_error <= max_error);
        if let Some(below) = found.polynomial.degree().checked_sub(1) {
            assert!(Approximation::minimax(exp, &domain, below).unwrap().max_error > max_error);
        }
    }
    let step = |x: Dd| if x < Dd::ZERO { Dd::ZERO } else { Dd::ONE };
    let gap = Domain::new(&[-1.0..-0.01, 0.01..1.0], 1.0, Parity::Any).unwrap();
    assert!(matches!(
        Approximation::minimax_within(step, &gap, 1e-9),
        Err(Error::Circuit(m)) if m.contains("accept")
    ));
}

/// Polynomials are reproduced exactly for any allowed degree.
#[test]
fn polynomials_are_exact() {
    let domain = Domain::new(&[-2.0..-1.0, 0.5..3.0], 3.0, Parity::Any).unwrap();
    for degree in [3, 4, 9, 30] {
        let f = |x: Dd| x * x * x - x.mul_pow2(1) + Dd::from(0.5);
        let found = Approximation::minimax(f, &domain, degree).unwrap();
        assert!(found.max_error < 1e-14);
        assert!((found.polynomial.evaluate(2.5) - 11.125).abs() < 1e-13);
        assert!(Approximation::minimax(|_| Dd::ZERO, &domain, degree).unwrap().max_error < 1e-300);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let nan = f64::NAN;
    for bad in [&[][..], &[1.0..1.0], &[1.0..0.5], &[0.0..2.0], &[-1.5..0.0], &[nan..1.0]] {
        assert!(matches!(Domain::new(bad, 1.0, Parity::Any), Err(Error::Circuit(_))));
    }
    for radius in [nan, f64::INFINITY, -1.0, 0.0] {
        assert!(Domain::new(&[0.0..1.0], radius, Parity::Any).is_err());
    }
    let odd = Domain::new(&[-1.0..1.0], 1.0, Parity::Odd).unwrap();
    assert!(Approximation::minimax(|x| x, &odd, 0).is_err());
    assert!(Approximation::minimax(|x| x, &odd, MAX_DEGREE + 1).is_err());
    let any = Domain::new(&[-1.0..1.0], 1.0, Parity::Any).unwrap();
    assert!(Approximation::minimax(|x| (x - Dd::from(0.1)).sqrt(), &any, 4).is_err());
    assert!(Approximation::chebyshev(|_| Dd::from(nan), &any, 4).is_err());
}

#[test]
fn overlaps_are_joined() {
    let one = Domain::new(&[-1.0..1.0], 1.0, Parity::Any).unwrap();
    let many = Domain::new(&[0.5..1.0, -1.0..0.1, 0.0..0.5, 0.2..0.3], 1.0, Parity::Any);
    assert_eq!(many.unwrap(), one);
    let half = Domain::new(&[-1.0..-0.5, 0.25..0.5], 1.0, Parity::Even).unwrap();
    assert_eq!(half, Domain::new(&[0.25..1.0], 1.0, Parity::Even).unwrap());
}
