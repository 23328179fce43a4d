use super::*;
use crate::{
    circuits::{Ops, ckks::sim},
    ckks::Complex,
};
use proptest::prelude::*;

const TOP: Level = Level(10);

/// Distinct divisors near `2^40`.
fn chain() -> Chain {
    let divisors: Vec<_> =
        (0..10).map(|i| Scale::from_u64((1 << 40) + ((i * 7919 % 31) << 26) + 1)).collect();
    let mut log2_q = vec![60.0];
    for d in &divisors {
        log2_q.push(log2_q[log2_q.len() - 1] + d.log2());
    }
    Chain::new(divisors, log2_q)
}

fn real(x: f64) -> Complex<f64> {
    Complex::new(x, 0.0)
}

fn scale() -> Scale {
    Scale::from_log2(40.0)
}

/// Runs `p` on 64 points of its interval and compares everything that its plan promises.
fn verify(p: &Polynomial, level: Level, input: Scale, out: Scale) -> PolynomialPlan {
    let plan = p.plan(&chain(), level, input, out).unwrap();
    let e = sim::Evaluator::new(8, chain());
    let Range { start, end } = p.interval();
    let points: Vec<f64> = (0..64).map(|i| start + (end - start) * f64::from(i) / 63.0).collect();
    let slots: Vec<_> = points.iter().map(|&x| real(x)).collect();
    let x = e.encrypt(&slots, level, input).unwrap();
    let y = plan.run(&e, &x).unwrap();
    let sum: f64 = p.coeffs().iter().map(|c| c.abs()).sum();
    // Rounding in the map to [-1, 1], times the largest slopes there: T_n has n^2.
    let slope: f64 = (0u32..).zip(p.coeffs()).map(|(n, c)| f64::from(n * n) * c.abs()).sum();
    let offset = start.abs().max(end.abs()) / (end - start);
    let most = 1e-9f64.max(1e-13 * sum).max(8.0 * f64::EPSILON * offset * slope);
    for (&x, y) in points.iter().zip(e.decrypt(&y)) {
        let error = (y.re - p.evaluate(x)).abs();
        assert!(error < most && y.im == 0.0, "{p:?} at {x}: {y:?}, error {error:e}");
    }
    assert!(y.scale.matches(out) && plan.output_scale().matches(out));
    assert_eq!(y.level, plan.output_level());
    assert_eq!(y.level.0 + plan.depth(), level.0);
    assert_eq!(e.counts().products, plan.products() as u64);
    assert_eq!(e.used_keys(), *plan.required_keys());
    assert!(y.headroom_bits > 0.0);
    plan
}

fn random(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(next).collect()
}

#[test]
fn every_degree_has_its_value_scale_and_least_depth() {
    for degree in (0..=40).chain([63, 64, 127, 128, 255]) {
        let coeffs = random(degree as u64, degree + 1);
        let depth = (degree as f64 + 1.0).log2().ceil() as u32;
        let monomial = Polynomial::monomial(coeffs.clone()).unwrap();
        let series = Polynomial::chebyshev_series(coeffs, -1.0..1.0).unwrap();
        for p in [monomial, series] {
            assert_eq!(p.degree(), degree);
            let plan = verify(&p, TOP, scale(), Scale::from_log2(39.3));
            assert_eq!(plan.depth(), depth, "{degree}");
            verify(&p, Level(depth), scale(), Scale::from_log2(41.0));
            let shallow = p.plan(&chain(), Level(depth.saturating_sub(1)), scale(), scale());
            let level = Level(depth.wrapping_sub(1));
            let exhausted = Error::LevelExhausted { op: "polynomial", needed: depth, level };
            assert!(depth == 0 || shallow.unwrap_err() == exhausted);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sparse_polynomials_on_any_interval(
        coeffs in prop::collection::vec(prop_oneof![Just(0.0), -2.0..2.0], 1..48),
        start in -20.0..20.0,
        width in 0.01..30.0,
        log2_out in 30.0..45.0,
    ) {
        let p = Polynomial::chebyshev_series(coeffs.clone(), start..start + width).unwrap();
        let out = Scale::from_log2(log2_out);
        let plan = verify(&p, TOP, scale(), out);
        let least = bits(p.degree());
        prop_assert!(plan.depth() == least || plan.depth() == least + 1);
        let p = Polynomial::monomial(coeffs).unwrap();
        prop_assert_eq!(verify(&p, TOP, scale(), out).depth(), bits(p.degree()));
    }
}

/// Counts relinearisations for degree `2^m - 1` with `2^l` baby steps:
///
/// - `2^l - 1` for the baby steps;
/// - `m - l - 1` for the other giant steps;
/// - `2^(m-l-1)` for the sums that put parts together, since the sum of degree `2^k - 1` has one
///   product with such a sum for each giant step below;
/// - `l - 1` to halve the leading part so that the depth is `m`.
///
/// The minimum is `min_l 2^l + 2^(m-l-1) + m - 3`.
#[test]
fn relinearizations_are_as_few_as_the_method_allows() {
    for (degree, most) in [(3, 2), (7, 4), (15, 7), (31, 10), (63, 15), (127, 20), (255, 29)] {
        for chebyshev in [false, true] {
            let relinearizations = |zero: &dyn Fn(usize) -> bool| {
                let mut coeffs = random(1, degree + 1);
                (0..=degree).filter(|&n| zero(n)).for_each(|n| coeffs[n] = 0.0);
                let p = match chebyshev {
                    true => Polynomial::chebyshev_series(coeffs, -1.0..1.0),
                    false => Polynomial::monomial(coeffs),
                };
                verify(&p.unwrap(), TOP, scale(), scale()).relinearizations()
            };
            let dense = relinearizations(&|_| false);
            assert!(dense <= most, "{degree}: {dense}");
            let odd = relinearizations(&|n| n % 2 == 0);
            let even = relinearizations(&|n| n % 2 == 1);
            assert!(odd <= dense && even < dense, "{degree}: {dense}, {odd}, {even}");
        }
    }
}

#[test]
fn even_series_cost_one_product_more_than_series_in_its_square() {
    for half in [5, 13, 14, 15, 16, 31] {
        let coeffs = random(1, half + 1);
        let mut even = vec![0.0; 2 * half + 1];
        even.iter_mut().step_by(2).zip(&coeffs).for_each(|(e, &c)| *e = c);
        let [dense, even] = [coeffs, even].map(|coeffs| {
            let p = Polynomial::chebyshev_series(coeffs, -1.0..1.0).unwrap();
            verify(&p, TOP, scale(), scale())
        });
        assert!(even.products() <= dense.products() + 1, "{half}");
        assert_eq!(even.depth(), dense.depth() + 1);
    }
}

#[test]
fn lone_powers_are_made_by_squaring() {
    for (n, products) in [(2, 1), (4, 2), (32, 5), (64, 6), (6, 3), (12, 4), (10, 4)] {
        let mut coeffs = vec![0.0; n + 1];
        coeffs[n] = 0.5;
        let p = Polynomial::monomial(coeffs.clone()).unwrap();
        assert!(verify(&p, TOP, scale(), scale()).products() <= products, "x^{n}");
        let p = Polynomial::chebyshev_series(coeffs, -1.0..1.0).unwrap();
        assert!(verify(&p, TOP, scale(), scale()).products() <= products + 1, "T_{n}");
    }
}

#[test]
fn change_of_variable_takes_a_level_only_where_it_must() {
    let depth = |interval: Range<f64>, degree: usize| {
        let p = Polynomial::chebyshev_series(random(2, degree + 1), interval).unwrap();
        verify(&p, TOP, scale(), scale()).depth()
    };
    assert_eq!(depth(-8.0..8.0, 1), 1);
    assert_eq!(depth(-8.0..8.0, 3), 2);
    assert_eq!(depth(-1.1..1.1, 31), 5);
    assert_eq!(depth(-1.0..1.5, 7), 3);
    assert_eq!(depth(-8.0..8.0, 15), 5);
    assert_eq!(depth(2.0..30.0, 31), 6);
    assert_eq!(depth(-0.001..0.001, 31), 6);
}

#[test]
fn estimated_noise_stays_near_that_of_one_product() {
    let e = sim::Evaluator::new(14, chain());
    let slots: Vec<_> = random(3, 1024).into_iter().map(real).collect();
    let x = e.encrypt(&slots, TOP, scale()).unwrap();
    let product = e.mul_rescale(&x, &x).unwrap();
    for interval in [-1.0..1.0, -1.1..1.1, -16.0..16.0] {
        let p = Polynomial::chebyshev(f64::sin, interval.clone(), 31).unwrap();
        let plan = p.plan(&chain(), TOP, scale(), scale()).unwrap();
        let y = plan.run(&e, &x).unwrap();
        assert!(y.noise_log2 < product.noise_log2 + 10.0, "{interval:?}: {}", y.noise_log2);
    }
}

#[test]
fn runs_on_higher_levels_and_refuses_others() {
    let p = Polynomial::monomial(vec![0.5, 0.25, -1.0, 0.125]).unwrap();
    let plan = p.plan(&chain(), Level(4), scale(), scale()).unwrap();
    assert_eq!(plan.required_keys().relinearize, Some(Level(4)));
    let e = sim::Evaluator::new(5, chain());
    let encrypt = |level, scale| e.encrypt(&[real(0.5)], level, scale).unwrap();
    let y = plan.run(&e, &encrypt(TOP, scale())).unwrap();
    assert_eq!(y.level, Level(2));
    assert!((y.slots[0].re - p.evaluate(0.5)).abs() < 1e-12);
    assert_eq!(
        plan.run(&e, &encrypt(Level(3), scale())),
        Err(Error::LevelOutOfRange { found: Level(4), max: Level(3) })
    );
    let other = plan.run(&e, &encrypt(Level(4), Scale::from_log2(40.001)));
    assert!(matches!(other, Err(Error::ScaleMismatch { op: "polynomial", .. })));
    let divisors = vec![scale(); 10];
    let log2_q = (0..11).map(|l| 60.0 + 40.0 * f64::from(l)).collect();
    let foreign = sim::Evaluator::new(5, Chain::new(divisors, log2_q));
    let x = foreign.encrypt(&[real(0.5)], TOP, scale()).unwrap();
    assert!(matches!(plan.run(&foreign, &x), Err(Error::Circuit(_))));
}

#[test]
fn plans_refuse_scales_and_values_that_do_not_fit() {
    let p = Polynomial::monomial(random(4, 8)).unwrap();
    let plan = |level, input, out| {
        p.plan(&chain(), level, Scale::from_f64(input), Scale::from_f64(out)).map(|_| ())
    };
    let one = 40f64.exp2();
    assert_eq!(
        plan(Level(11), one, one),
        Err(Error::LevelOutOfRange { found: Level(11), max: TOP })
    );
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 70f64.exp2()] {
        let input = plan(Level(3), bad, one);
        let out = plan(Level(3), one, bad);
        assert!(matches!(input, Err(Error::ScaleOutOfRange { .. })), "{bad}: {input:?}");
        assert!(matches!(out, Err(Error::ScaleOutOfRange { .. })), "{bad}: {out:?}");
    }
    let far = Polynomial::taylor(vec![1.0; 32], 30.0).unwrap();
    let refused = far.plan(&chain(), Level(5), scale(), scale());
    assert!(matches!(refused, Err(Error::Circuit(_))));
    verify(&far.to_chebyshev().unwrap(), TOP, scale(), Scale::from_log2(-120.0));
}

#[test]
fn constructors_refuse_what_is_not_finite_or_not_an_interval() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let coeffs = vec![0.0, bad];
        let refused = Err(Error::NotFinite { index: 1, value: bad.to_string() });
        assert_eq!(Polynomial::monomial(coeffs.clone()), refused);
        assert_eq!(Polynomial::taylor(coeffs.clone(), 1.0), refused);
        assert_eq!(Polynomial::chebyshev_series(coeffs, 0.0..1.0), refused);
        let f = |x: f64| if x < 0.9 { bad } else { 0.0 };
        let refused = Polynomial::chebyshev(f, 0.0..1.0, 4);
        assert!(matches!(refused, Err(Error::NotFinite { .. })));
        let refused = Polynomial::least_squares(f, 0.0..1.0, 4);
        assert!(matches!(refused, Err(Error::NotFinite { .. })));
        assert!(matches!(Polynomial::taylor(vec![1.0], bad), Err(Error::Circuit(_))));
        let interval = Polynomial::chebyshev(f64::sin, 0.0..bad, 3);
        assert!(matches!(interval, Err(Error::Circuit(_))));
    }
    for interval in [1.0..1.0, 2.0..1.0] {
        let refused = Polynomial::least_squares(f64::sin, interval.clone(), 3);
        assert!(matches!(refused, Err(Error::Circuit(_))));
        let refused = Polynomial::chebyshev_series(vec![1.0], interval);
        assert!(matches!(refused, Err(Error::Circuit(_))));
    }
    assert!(matches!(Polynomial::taylor(vec![1.0], 0.0), Err(Error::Circuit(_))));
}

#[test]
fn values_follow_the_definitions() {
    let coeffs = random(5, 30);
    let p = Polynomial::chebyshev_series(coeffs.clone(), 2.0..6.0).unwrap();
    let q = Polynomial::monomial(coeffs.clone()).unwrap();
    for i in 0..=20 {
        let t = f64::from(i) / 10.0 - 1.0;
        let terms = coeffs.iter().zip(0..);
        let series: f64 = terms.clone().map(|(c, n)| c * (f64::from(n) * t.acos()).cos()).sum();
        let powers: f64 = terms.map(|(c, n)| c * t.powi(n)).sum();
        assert!((p.evaluate(4.0 + 2.0 * t) - series).abs() < 1e-12);
        assert!((q.evaluate(t) - powers).abs() < 1e-12);
    }
    assert_eq!(Polynomial::monomial(vec![]).unwrap().evaluate(3.0), 0.0);
    assert_eq!(Polynomial::monomial(vec![1.0, 2.0, 0.0]).unwrap().degree(), 1);
    assert!((q.max_error(|x| q.evaluate(x) + 3.0 * x, 17) - 3.0).abs() < 1e-14);
    assert_eq!(q.max_error(|_| f64::NAN, 2), f64::INFINITY);
}

#[test]
fn conversion_to_chebyshev_keeps_values_and_parity() {
    let p = Polynomial::taylor(vec![0.0, 1.0, 0.0, -1.0 / 6.0, 0.0, 1.0 / 120.0], 2.0).unwrap();
    let q = p.to_chebyshev().unwrap();
    assert_eq!(q.basis(), Basis::Chebyshev { a: -2.0, b: 2.0 });
    assert!(q.coeffs().iter().step_by(2).all(|&c| c == 0.0));
    assert!(q.max_error(|x| p.evaluate(x), 100) < 1e-14);
    // x^3 = (3 T_1 + T_3) / 4 and x^4 = (3 T_0 + 4 T_2 + T_4) / 8.
    let p = Polynomial::monomial(vec![0.0, 0.0, 0.0, 4.0, 8.0]).unwrap();
    assert_eq!(p.to_chebyshev().unwrap().coeffs(), [3.0, 3.0, 4.0, 1.0, 1.0]);
}

/// The error of interpolation of degree `n` at Chebyshev nodes is at most
/// `r^(n+1) max |f^(n+1)| / (2^n (n+1)!)` on an interval of half-width `r`.
#[test]
fn interpolation_errors_are_within_their_bounds() {
    let bound = |degree: i32, radius: f64, derivative: f64| {
        let factorial: f64 = (1..=degree + 1).map(f64::from).product();
        radius.powi(degree + 1) * derivative / (f64::from(degree).exp2() * factorial)
    };
    for degree in [1, 2, 5, 10] {
        let p = Polynomial::chebyshev(f64::exp, -1.0..1.0, degree as usize).unwrap();
        let error = p.max_error(f64::exp, 2000);
        let most = bound(degree, 1.0, 1f64.exp());
        assert!(error <= most && error > most / 10.0, "{degree}: {error:e}, {most:e}");
    }
    for degree in [3, 7, 15] {
        let p = Polynomial::chebyshev(f64::sin, -3.0..3.0, degree as usize).unwrap();
        let error = p.max_error(f64::sin, 2000);
        assert!(error <= bound(degree, 3.0, 1.0), "{degree}: {error:e}");
        assert!(p.coeffs().iter().step_by(2).all(|&c| c == 0.0));
    }
    let converged = Polynomial::chebyshev(f64::cos, -1.0..1.0, 60).unwrap();
    assert!(converged.degree() < 16 && converged.max_error(f64::cos, 500) < 1e-14);
}

/// Compares with the cubic of Kim, Song, Wang, Xia, Jiang, "Secure logistic regression based on
/// homomorphic encryption" (2018), section 2.2.
#[test]
fn least_squares_gives_the_published_sigmoid() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let p = Polynomial::least_squares(sigmoid, -8.0..8.0, 3).unwrap();
    let [c0, c1, c2, c3] = p.coeffs() else { panic!("{p:?}") };
    assert!((c0 - 0.5).abs() < 1e-14 && *c2 == 0.0);
    assert!((c1 - 3.0 * c3 - 1.20096).abs() < 1e-4, "{}", c1 - 3.0 * c3);
    assert!((4.0 * c3 + 0.81562).abs() < 1e-4, "{}", 4.0 * c3);
}

#[test]
fn least_squares_residual_is_orthogonal_to_lower_degrees() {
    let f = |x: f64| (1.3 * x).exp() / (1.0 + x * x);
    let p = Polynomial::least_squares(f, -1.0..3.0, 9).unwrap();
    for n in 0..=9 {
        // Simpson's rule in 2000 steps.
        let term = |i: i32| {
            let x = -1.0 + f64::from(i) / 500.0;
            let weight = if i == 0 || i == 2000 { 1.0 } else { f64::from(2 + i % 2 * 2) };
            weight * (f(x) - p.evaluate(x)) * (x - 1.0).powi(n) / 1500.0
        };
        let inner: f64 = (0..=2000).map(term).sum();
        assert!(inner.abs() < 1e-8, "{n}: {inner:e}");
    }
}
