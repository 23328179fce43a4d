//! Analytic functions of encrypted slots: inverse, exponential, sigmoid.
//!
//! The job is Table 2 of Cheon, Han, Kim, Kim, Song, "A full RNS variant of
//! approximate homomorphic encryption" (SAC 2018, [2018/931](https://eprint.iacr.org/2018/931)):
//! polynomials of degree 15, 7 and 7 on `2^13` slots. [`table_2`] has the same degrees;
//! deviation: Chebyshev approximations take the place of the paper's Taylor
//! polynomials, and are far closer to the function at the same cost.
//!
//! Two errors add up. That of the *approximation* is [`Function::max_error`], known
//! in the clear. That of the *evaluation*, the difference between the decrypted slots
//! and the polynomial, stays below `2^-32` for these three under the
//! preset `functions-n14`: a ciphertext starts one level above the polynomial and is rescaled first, which divides the noise
//! of encryption away, so that only roundings are left.

use core::ops::Range;

use sudare::{
    Error, Result,
    circuits::{Ops, Polynomial, PolynomialPlan, sim},
    ckks::{Chain, Complex, Params, Scale},
    rlwe::{KeyRequest, Level},
};

/// Bits of scale that a result may lack before it is left at a higher level.
const MAX_LOST_BITS: f64 = 2.0;

/// Points at which errors and bounds are taken.
const SAMPLES: usize = 10_001;

/// The functions of the paper's Table 2 in its order and of its degrees: the inverse
/// on `[1/2, 3/2]` (degree 15), the exponential on `[-1, 1]` (7) and the sigmoid on
/// `[-4, 4]` (7).
///
/// # Errors
/// None: the intervals are valid.
pub fn table_2() -> Result<[Function; 3]> {
    Ok([inverse(0.5..1.5, 4)?, exp(-1.0..1.0, 7)?, sigmoid(-4.0..4.0, 7)?])
}

/// `1 / x` on an interval of positive numbers, by a polynomial of degree
/// `2^factors - 1` in product form.
///
/// Let `x = r (c + t)` with `t` in `[-1, 1]`, `t_k = T_(2^k)(t)` and `c_k = T_(2^k)(c)`,
/// `T` being Chebyshev polynomials. As `2 (c_k - t_k)(c_k + t_k) = c_(k+1) - t_(k+1)`,
///
/// ```text
/// 1 / x  =  2^n (c_0 - t_0)(c_1 + t_1) … (c_(n-1) + t_(n-1)) / (r (c_n - t_n))
/// ```
///
/// and putting `c_n` for `c_n - t_n` leaves a relative error of `1 / T_(2^n)(c)`, the
/// least of all polynomials of this degree: `2^-29` on `[1/2, 3/2]` with four factors,
/// where `c = 2`. It takes `2 (factors - 1)` products.
///
/// Deviation from the paper, which takes `(1 + y)(1 + y^2)(1 + y^4) …` with `y = 1 - x`
/// (Algorithm 2 of Cheon, Kim, Kim, Song, [2016/421](https://eprint.iacr.org/2016/421)):
/// its relative error there is `2^-16`, at the same cost.
///
/// # Errors
/// [`Error::Circuit`] unless the interval is finite and positive and
/// `2 <= factors <= 6`, or if it is so narrow that fewer factors are exact.
pub fn inverse(interval: Range<f64>, factors: u32) -> Result<Function> {
    let form = InverseForm::new(&interval, factors)?;
    let polynomial = Polynomial::chebyshev(|x| form.evaluate(x), interval, (1 << factors) - 1)?;
    Ok(Function::with_form("inverse", f64::recip, polynomial, Some(form)))
}

/// `e^x`.
///
/// # Errors
/// [`Error::Circuit`] for an interval that is empty or infinite,
/// [`Error::NotFinite`] for one where the function overflows.
pub fn exp(interval: Range<f64>, degree: usize) -> Result<Function> {
    Function::new("exponential", f64::exp, interval, degree)
}

/// `1 / (1 + e^-x)`.
///
/// # Errors
/// [`Error::Circuit`] for an interval that is empty or infinite.
pub fn sigmoid(interval: Range<f64>, degree: usize) -> Result<Function> {
    Function::new("sigmoid", |x| 1.0 / (1.0 + (-x).exp()), interval, degree)
}

/// A function with the polynomial that stands for it on an interval.
#[derive(Debug, Clone)]
pub struct Function {
    name: &'static str,
    exact: fn(f64) -> f64,
    polynomial: Polynomial,
    /// The product form, if it is evaluated so.
    inverse: Option<InverseForm>,
    max_error: f64,
}

impl Function {
    /// The Chebyshev interpolant of `exact`, see [`Polynomial::chebyshev`].
    ///
    /// # Errors
    /// As [`Polynomial::chebyshev`].
    pub fn new(
        name: &'static str,
        exact: fn(f64) -> f64,
        interval: Range<f64>,
        degree: usize,
    ) -> Result<Self> {
        let polynomial = Polynomial::chebyshev(exact, interval, degree)?;
        Ok(Self::with_form(name, exact, polynomial, None))
    }

    fn with_form(
        name: &'static str,
        exact: fn(f64) -> f64,
        polynomial: Polynomial,
        inverse: Option<InverseForm>,
    ) -> Self {
        let max_error = polynomial.max_error(exact, SAMPLES);
        Self { name, exact, polynomial, inverse, max_error }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The function itself at `x`.
    #[must_use]
    pub fn exact(&self, x: f64) -> f64 {
        (self.exact)(x)
    }

    /// The polynomial that is evaluated in its place.
    #[must_use]
    pub fn polynomial(&self) -> &Polynomial {
        &self.polynomial
    }

    /// Where the polynomial is close to the function; slots must lie there.
    #[must_use]
    pub fn interval(&self) -> Range<f64> {
        self.polynomial.interval()
    }

    /// Degree of the polynomial.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.polynomial.degree()
    }

    /// The largest difference between function and polynomial among 10,001 points of
    /// the interval.
    #[must_use]
    pub fn max_error(&self) -> f64 {
        self.max_error
    }

    /// Levels that evaluation takes, `ceil(log2(degree + 1))`; the ciphertext starts
    /// one above if the chain has one more.
    #[must_use]
    pub fn depth(&self) -> u32 {
        usize::BITS - self.degree().leading_zeros()
    }

    /// Fixes level and scale for a ciphertext of `params`: it starts one level above
    /// the depth, or at the depth if the chain is no longer, so that no prime is carried
    /// that is not needed, and ends at level 0 with the largest scale, up to the default,
    /// at which that holds the values. If this is over two bits below the default and
    /// the chain has levels to spare, it ends above.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] if the chain has too few levels, and what
    /// [`Polynomial::plan`] refuses.
    pub fn plan(&self, params: &Params) -> Result<FunctionPlan> {
        let (depth, chain) = (self.depth(), params.chain());
        let Some(spare) = params.top().0.checked_sub(depth) else {
            let op = "function";
            return Err(Error::LevelExhausted { op, needed: depth, level: params.top() });
        };
        let highest = spare.saturating_sub(1);
        let Range { start, end } = self.interval();
        let step = (end - start) / (SAMPLES - 1) as f64;
        let values = (0..SAMPLES).map(|i| self.polynomial.evaluate(start + step * i as f64).abs());
        // Evaluators want room for 1 in any case.
        let bound = values.fold(1.0, f64::max);
        // Sign, and a few hundredths of a bit for what lies between the samples.
        let room_bits = |level| chain.log2_q(Level(level)) - 1.03 - bound.log2();
        let lost_bits = |level: &u32| params.scale_at(Level(*level)).log2() - room_bits(*level);
        let base = (0..highest).find(|level| lost_bits(level) <= MAX_LOST_BITS).unwrap_or(highest);
        let lost_bits = lost_bits(&base).max(0.0);
        let out = params.scale_at(Level(base)) * Scale::from_log2(-lost_bits);
        let start_level = Level(base + depth);
        // The variable on [-1, 1] has the default scale of its level, or what ends at
        // `out`.
        let radius = Scale::from_f64(end / 2.0 - start / 2.0);
        let (input, form) = match &self.inverse {
            None => {
                let input = params.scale_at(start_level) / radius;
                let plan = self.polynomial.plan(chain, start_level, input, out)?;
                (input, Form::Polynomial(Box::new(plan)))
            }
            Some(form) => {
                (form.input_scale(chain, start_level, out) / radius, Form::Inverse(form.clone()))
            }
        };
        let output_level = Level(base);
        let (level, scale) = match spare {
            0 => (start_level, input),
            _ => {
                let above = Level(start_level.0 + 1);
                (above, input * chain.divisor(above))
            }
        };
        let plan = FunctionPlan { level, scale, start_level, output_level, input, form };
        // Refused here rather than by the server.
        let e = sim::Evaluator::new(params.log_n(), chain.clone());
        let ends = [start, end].map(|x| Complex::new(x, 0.0));
        plan.run(&e, &e.encrypt(&ends, level, scale)?)?;
        Ok(plan)
    }
}

/// How to evaluate a [`Function`] on ciphertexts of one level and scale.
#[derive(Debug, Clone)]
pub struct FunctionPlan {
    level: Level,
    scale: Scale,
    /// The level of the first product; a ciphertext from above is rescaled to it.
    start_level: Level,
    output_level: Level,
    /// The scale there.
    input: Scale,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Polynomial(Box<PolynomialPlan>),
    Inverse(InverseForm),
}

impl FunctionPlan {
    /// Level at which to encrypt.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Scale at which to encrypt.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.output_level
    }

    /// Keys needed: one to relinearise.
    #[must_use]
    pub fn required_keys(&self) -> KeyRequest {
        match &self.form {
            Form::Polynomial(plan) => plan.required_keys().clone(),
            Form::Inverse(_) => KeyRequest::new().relinearize(self.start_level),
        }
    }

    /// Number of products of two ciphertexts.
    #[must_use]
    pub fn products(&self) -> usize {
        match &self.form {
            Form::Polynomial(plan) => plan.products(),
            Form::Inverse(form) => 2 * (form.centres.len() - 1),
        }
    }

    /// The polynomial of every slot of `x`. A ciphertext of a higher level is dropped
    /// first.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `x` is below the planned level,
    /// [`Error::ScaleMismatch`] if it has another scale than planned, and what the
    /// evaluator refuses.
    pub fn run<E: Ops>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        if e.level(x) < self.level {
            return Err(Error::LevelOutOfRange { found: self.level, max: e.level(x) });
        }
        if !e.scale(x).matches(self.scale) {
            let (left, right) = (e.scale(x).log2(), self.scale.log2());
            return Err(Error::ScaleMismatch { op: "function", left, right });
        }
        let mut x = x.clone();
        e.drop_to(&mut x, self.level)?;
        if self.level > self.start_level {
            e.rescale_assign(&mut x)?;
        }
        match &self.form {
            Form::Polynomial(plan) => plan.run(e, &e.with_scale(&x, self.input)?),
            Form::Inverse(form) => form.run(e, &x),
        }
    }
}

/// The product form of [`inverse`].
#[derive(Debug, Clone)]
struct InverseForm {
    radius: f64,
    /// `c_0 .. c_(n-1)`.
    centres: Vec<f64>,
    /// What `(1 - t_0/c_0)(1 + t_1/c_1) …` is multiplied with.
    factor: f64,
}

impl InverseForm {
    fn new(interval: &Range<f64>, factors: u32) -> Result<Self> {
        let (start, end) = (interval.start, interval.end);
        let invalid = |needed: &str| {
            Err(Error::Circuit(format!("inverse by {factors} factors on {interval:?}: {needed}")))
        };
        if !(start > 0.0 && start < end && end.is_finite()) {
            return invalid("an interval of positive finite numbers is needed");
        }
        if !(2..=6).contains(&factors) {
            return invalid("2 to 6 factors are needed");
        }
        let radius = end / 2.0 - start / 2.0;
        let mut centre = (end / 2.0 + start / 2.0) / radius;
        let (mut centres, mut factor) = (Vec::new(), 1.0 / radius);
        for _ in 0..factors {
            let next = 2.0 * centre * centre - 1.0;
            factor *= 2.0 * centre;
            centres.push(centre);
            centre = next;
        }
        // Beyond, the last factor is 1 to double precision.
        if centres[centres.len() - 1] > 1e16 {
            return invalid("the interval is so narrow that fewer factors are exact");
        }
        Ok(Self { radius, centres, factor: factor / centre })
    }

    fn evaluate(&self, x: f64) -> f64 {
        let mut t = x / self.radius - self.centres[0];
        let mut product = self.factor * (1.0 - t / self.centres[0]);
        for centre in &self.centres[1..] {
            t = 2.0 * t * t - 1.0;
            product *= 1.0 + t / centre;
        }
        product
    }

    /// The scale of `t_0` at `level` for which [`InverseForm::run`] ends at `out`.
    fn input_scale(&self, chain: &Chain, level: Level, out: Scale) -> Scale {
        // In log2, the result is `power` times the input plus a constant.
        let (mut t, mut product) = (0.0, self.centres[0].log2() - self.factor.log2());
        let divisor_bits = |below: u32| chain.divisor(Level(level.0 - below)).log2();
        for (k, centre) in (1..).zip(&self.centres[1..]) {
            t = 2.0 * t - divisor_bits(k - 1) - 1.0;
            product += t + centre.log2() - divisor_bits(k);
        }
        let power = f64::from((1u32 << self.centres.len()) - 1);
        Scale::from_log2((out.log2() - product) / power)
    }

    /// `t_k` follow by squaring; factors `1 + t_k / c_k` are `c_k + t_k` read at a
    /// larger scale, and doubling is reading at half the scale.
    fn run<E: Ops>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        let read = |a: &E::Ct, factor: f64| e.with_scale(a, e.scale(a) / Scale::from_f64(factor));
        let add = |a: &E::Ct, c: f64| e.add_const(a, Complex::new(c, 0.0));
        let first = self.centres[0];
        let x = read(x, 1.0 / self.radius)?;
        let minus_x = e.sub(&e.sub(&x, &x)?, &x)?;
        let mut t = add(&x, -first)?;
        let mut product = read(&add(&minus_x, 2.0 * first)?, self.factor / first)?;
        for &centre in &self.centres[1..] {
            t = add(&read(&e.mul_rescale(&t, &t)?, 2.0)?, -1.0)?;
            product = e.mul_rescale(&product, &read(&add(&t, centre)?, 1.0 / centre)?)?;
        }
        Ok(product)
    }
}

#[cfg(test)]
mod tests {
    use sudare::circuits::sim;

    use super::*;

    #[test]
    fn approximation_errors_are_those_of_theory() {
        // T_16(2), by the recurrence of T_n.
        let (_, t16) = (0..15).fold((1.0, 2.0), |(a, b): (f64, f64), _| (b, 4.0 * b - a));
        let f = inverse(0.5..1.5, 4).unwrap();
        assert_eq!(f.degree(), 15);
        assert!((f.max_error() * t16 / 2.0 - 1.0).abs() < 1e-4, "{:e}", f.max_error());
        for i in 0..1000 {
            let x = 0.5 + f64::from(i) / 999.0;
            assert!((x * f.polynomial().evaluate(x) - 1.0).abs() < 1.0001 / t16);
        }
        let f = exp(-1.0..1.0, 7).unwrap();
        // The first term left out, T_8 / (2^7 8!), and a part of the next.
        let leading = 1.0 / (128.0 * 40_320.0);
        assert!(f.max_error() < 1.3 * leading && f.max_error() > leading);
    }

    #[test]
    fn the_simulator_agrees_with_the_polynomials() {
        let params = Params::new(sudare::ckks::preset("functions-n14").unwrap().spec).unwrap();
        let mut functions = table_2().unwrap().to_vec();
        functions.push(inverse(1e3..1.1e4, 3).unwrap());
        functions.push(inverse(2.0..2.5, 2).unwrap());
        for f in functions {
            let plan = f.plan(&params).unwrap();
            let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
            let Range { start, end } = f.interval();
            let xs: Vec<f64> =
                (0..256).map(|i| start + (end - start) * f64::from(i) / 255.0).collect();
            let slots: Vec<_> = xs.iter().map(|&x| Complex::new(x, 0.0)).collect();
            let x = e.encrypt(&slots, plan.level(), plan.scale()).unwrap();
            let y = plan.run(&e, &x).unwrap();
            assert_eq!(y.level, plan.output_level());
            assert!(y.headroom_bits > 0.0, "{}: {} bits of room", f.name(), y.headroom_bits);
            assert_eq!(e.used_keys(), plan.required_keys());
            assert_eq!(e.counts().products, plan.products() as u64);
            for (x, y) in xs.iter().zip(&y.slots) {
                assert!((f.polynomial().evaluate(*x) - y.re).abs() < 1e-11, "{} {x}", f.name());
                assert!((f.exact(*x) - y.re).abs() < 1.001 * f.max_error() + 1e-11);
            }
        }
    }

    #[test]
    fn impossible_wishes_are_refused() {
        for (interval, factors) in [
            (-1.0..1.0, 4),
            (2.0..1.0, 4),
            (1.0..f64::NAN, 4),
            (1.0..2.0, 1),
            (1.0..2.0, 7),
            (1.0..1.0 + 1e-9, 4),
        ] {
            assert!(matches!(inverse(interval, factors), Err(Error::Circuit(_))));
        }
        assert!(matches!(exp(0.0..f64::INFINITY, 7), Err(Error::Circuit(_))));
        assert!(matches!(exp(0.0..1e4, 7), Err(Error::NotFinite { .. })));
        let params = Params::new(sudare::ckks::preset("functions-n14").unwrap().spec).unwrap();
        let deep = sigmoid(-8.0..8.0, 63).unwrap();
        let refused = deep.plan(&params).unwrap_err();
        assert!(matches!(refused, Error::LevelExhausted { needed: 6, .. }), "{refused}");
        let plan = table_2().unwrap()[1].plan(&params).unwrap();
        let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
        let low = e.encrypt(&[], Level(1), params.scale_at(Level(1))).unwrap();
        assert!(matches!(plan.run(&e, &low), Err(Error::LevelOutOfRange { .. })));
        let other = e.encrypt(&[], plan.level(), params.scale_at(Level(1))).unwrap();
        assert!(matches!(plan.run(&e, &other), Err(Error::ScaleMismatch { .. })));
    }
}
