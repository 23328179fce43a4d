//! Reduction of encrypted numbers modulo 1, near integers: the step of CKKS bootstrapping that
//! removes multiples of the modulus.
//!
//! Near the integers, `sin(2 pi x) / 2 pi` is the distance of `x` to the nearest integer, up to a
//! cubic error that an inverse sine removes. The sine is a polynomial of the angle divided by
//! `2^r`, followed by `r` doublings of the angle.

use super::{
    ComplexOps, Polynomial, PolynomialPlan, ScaledCosine,
    approximations::{exponential, inverse_sine, sine_radius},
};
use crate::{
    Error, Result,
    circuits::{
        LockStep,
        input::Input,
        polynomial::{bits, double_angle},
    },
    ckks::{Chain, Complex, Scale},
    rlwe::{GaloisElement, KeyRequest, Level},
};
use core::f64::consts::TAU;
use sudare_arith::real;

const OP: &str = "modular reduction";

/// Minimum scale in bits: smaller ones leave only rounding errors of a value.
const MIN_LOG2_SCALE: f64 = 20.0;

/// Maximum difference, in bits, between the scale of the highest power of a Taylor polynomial and
/// the prime products. Beyond it, a level is spent on bringing the variable to `[-1, 1]`.
const DRIFT_BITS: f64 = 8.0;

/// Specification of a reduction modulo 1 of values `I + 2^-log2_ratio m` to `m`, where `I` is an
/// integer of at most `k` and `m` is real and at most 1, both in absolute value.
///
/// ```
/// use sudare::ckks::{Chain, Complex, Scale};
/// use sudare::circuits::ckks::{EvalModSpec, ModMethod, sim};
/// use sudare::rlwe::Level;
///
/// let spec = EvalModSpec {
///     k: 14,
///     log2_ratio: 8.0,
///     method: ModMethod::Cosine { degree: 30, double_angles: 3 },
///     inverse_sine: None,
/// };
/// let log2_q: Vec<_> = (0..10).map(|level| 50.0 + 50.0 * f64::from(level)).collect();
/// let chain = Chain::new(vec![Scale::from_log2(50.0); 9], log2_q);
/// let scale = Scale::from_log2(50.0 - spec.bound().log2());
/// let plan = spec.plan(&chain, Level(9), scale, Scale::from_log2(38.0))?;
/// assert_eq!((plan.depth(), plan.products()), (8, 12));
/// assert!(plan.max_error() < 1.1e-4);
///
/// let e = sim::Evaluator::new(12, chain);
/// let x = Complex { re: -13.0 + 0.75 / 256.0, im: 0.0 };
/// let m = plan.run(&e, &e.encrypt(&[x], Level(9), scale)?)?;
/// assert!((m.slots[0].re - 0.75).abs() < plan.max_error() + 1e-9);
/// # Ok::<(), sudare::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvalModSpec {
    /// The largest `|I|`, at most 1024.
    pub k: u32,
    /// `-log2` of the largest distance to an integer, 3 to 32.
    pub log2_ratio: f64,
    /// Method of computing the sine.
    pub method: ModMethod,
    /// Degree of the polynomial for the inverse sine, odd and at most 63. Without it, the result is
    /// the sine, with an error of up to `(2 pi 2^-log2_ratio)^2 / 6`.
    pub inverse_sine: Option<usize>,
}

/// Method of computing `sin(2 pi x)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModMethod {
    /// Evaluates `cos(2 pi t / 2^r)` for `t = x - 1/4` as an even polynomial, then `r` times
    /// `y -> 2 y^2 - 1`.
    ///
    /// Sources: Han, Ki, "Better bootstrapping for approximate homomorphic encryption"
    /// ([2019/688](https://eprint.iacr.org/2019/688)) for the cosine and the doublings, Lee et al.
    /// ([2020/552](https://eprint.iacr.org/2020/552)) for the polynomial; see [`ScaledCosine`].
    Cosine {
        /// Degree of the polynomial, 2 to 254. An odd one counts as the even one below.
        degree: usize,
        /// `r`, at most 16.
        double_angles: u32,
    },
    /// Computes the imaginary part of `exp(2 pi i x)`: a Taylor polynomial of
    /// `exp(2 pi i x / 2^r)`, then `r` squarings, then a conjugation.
    ///
    /// Source: Akimoto, Sakuma, "Speed-up of RNS type approximate homomorphic encryption by
    /// parallel processing: bootstrapping in less than 1 ms", section 3.1, steps 3 and 4 (EvalExp,
    /// ImgExt), with `r = 8` in section 5. Deviation: the polynomial is evaluated in the minimum
    /// depth, and the divisions by 2 and `2 pi` only change the scale of the plaintext.
    Exponential {
        /// Degree of the polynomial, 1 to 511.
        degree: usize,
        /// `r`, at most 32.
        squarings: u32,
    },
}

impl ModMethod {
    fn doublings(self) -> u32 {
        match self {
            Self::Cosine { double_angles: r, .. } | Self::Exponential { squarings: r, .. } => r,
        }
    }

    /// Returns the factor of the result over the sine.
    fn sines(self) -> f64 {
        match self {
            Self::Cosine { .. } => 1.0,
            Self::Exponential { .. } => 2.0,
        }
    }
}

impl EvalModSpec {
    /// Returns the half-width `B` of the interval of the polynomial's variable.
    ///
    /// If the scale of inputs is the prime product of their level divided by `B`, bringing that
    /// variable to `[-1, 1]` needs no level. Their plaintext then equals the plaintext of `x / B`
    /// at the scale of the prime product.
    #[must_use]
    pub fn bound(&self) -> f64 {
        let reach = f64::from(self.k) + real::exp2(-self.log2_ratio);
        match self.method {
            // The interval has its middle at 1/4, and `-reach` is this far from it.
            ModMethod::Cosine { .. } => reach + 0.25,
            ModMethod::Exponential { .. } => reach,
        }
    }

    /// Returns the number of levels, at the input scale of [`EvalModSpec::bound`]: one for each
    /// binary digit of a polynomial's degree, and one for each doubling of the angle.
    ///
    /// # Errors
    /// [`Error::Circuit`] for a field out of its range; [`Error::NotFinite`] if a Taylor
    /// coefficient is not finite, for too few squarings.
    pub fn depth(&self) -> Result<u32> {
        self.check()?;
        let first = match self.method {
            ModMethod::Cosine { degree, .. } => degree & !1,
            // Coefficients too small for an `f64` are omitted. The polynomial is cheap to build.
            ModMethod::Exponential { degree, squarings } => {
                exponential(degree, squarings, self.bound())?.degree()
            }
        };
        Ok(bits(first) + self.method.doublings() + self.inverse_sine.map_or(0, bits))
    }

    /// Plans the reduction of ciphertexts of the given level and scale, with a result of scale
    /// `out`.
    ///
    /// Scales are fixed from the result upwards: a doubling of the angle at a level of prime
    /// product `q` turns scale `s` into `s^2 / q`. Without an inverse sine the last scale is
    /// `out 2^log2_ratio / 2 pi`. With primes near `2^50`, `out = 2^38` and a ratio of `2^8`, it is
    /// `2^43.3`, and the scales before are above `2^46`. With an inverse sine, the sines fill the
    /// primes of their level.
    ///
    /// # Errors
    /// Errors of [`EvalModSpec::depth`]; [`Error::Circuit`] for an inner scale that leaves no
    /// precision, [`Error::LevelOutOfRange`] for a level beyond the chain,
    /// [`Error::LevelExhausted`] if the depth exceeds it, [`Error::ScaleOutOfRange`] if an inner
    /// scale is not positive and finite or does not fit the modulus.
    pub fn plan(
        &self,
        chain: &Chain,
        level: Level,
        scale: Scale,
        out: Scale,
    ) -> Result<EvalModPlan> {
        let curves = self.curves()?;
        chain.levels().check(level)?;
        let needs = |needed| match needed <= level.0 {
            true => Ok(()),
            false => Err(Error::LevelExhausted { op: OP, needed, level }),
        };
        needs(curves.depth())?;
        let doublings = self.method.doublings();
        let sine_scale = |end: Level| match &curves.inverse {
            Some(_) => chain.divisor(end) / Scale::from_f64(sine_radius(self.log2_ratio)),
            None => out * Scale::from_log2(self.log2_ratio) / Scale::from_f64(TAU),
        };
        let first = |angle_level: Level| {
            needs(level.0 - angle_level.0 + curves.depth_after())?;
            let end = Level(angle_level.0 - doublings);
            let scale = sine_scale(end) / Scale::from_f64(self.method.sines());
            scale_before_doublings(chain, end, scale, doublings)
        };
        let (variable, polynomial) = match self.method {
            ModMethod::Cosine { .. } => {
                (None, curves.polynomial.plan_to(chain, level, scale, first)?)
            }
            ModMethod::Exponential { .. } => {
                let degree = curves.polynomial.degree();
                let variable = Variable::plan(chain, level, scale, self.bound(), degree)?;
                let level = variable.level;
                let scale = variable.scale;
                (Some(variable), curves.polynomial.plan_to(chain, level, scale, first)?)
            }
        };
        let sine_level = Level(polynomial.output_level().0 - doublings);
        let (sine_scale, inverse) = match &curves.inverse {
            Some(inverse) => {
                let scale = sine_scale(sine_level);
                (scale, Some(inverse.plan(chain, sine_level, scale, out)?))
            }
            None => (out, None),
        };
        let output_level = inverse.as_ref().map_or(sine_level, PolynomialPlan::output_level);
        let input = Input::new(OP, chain, level, scale, output_level);
        Ok(EvalModPlan {
            curves,
            input,
            variable,
            polynomial,
            sine_level,
            sine_scale,
            inverse,
            output_level,
            output_scale: out,
        })
    }

    /// Rejects fields out of their ranges.
    fn check(&self) -> Result<()> {
        let within = |name: &str, found: f64, least: f64, most: f64| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            Err(Error::Circuit(format!("{OP}: {name} {found}: choose it from {least} to {most}")))
        };
        within("k", f64::from(self.k), 0.0, 1024.0)?;
        within("log2_ratio", self.log2_ratio, 3.0, 32.0)?;
        match self.method {
            ModMethod::Cosine { degree, double_angles } => {
                within("degree", degree as f64, 2.0, 254.0)?;
                within("double_angles", f64::from(double_angles), 0.0, 16.0)?;
            }
            ModMethod::Exponential { degree, squarings } => {
                within("degree", degree as f64, 1.0, 511.0)?;
                within("squarings", f64::from(squarings), 0.0, 32.0)?;
            }
        }
        match self.inverse_sine {
            Some(degree) if degree % 2 == 0 || degree > 63 => Err(Error::Circuit(format!(
                "{OP}: degree {degree} of the inverse sine: choose an odd one up to 63"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the polynomials in the clear.
    fn curves(&self) -> Result<Curves> {
        self.check()?;
        let polynomial = match self.method {
            ModMethod::Cosine { degree, double_angles } => {
                // Use the next whole ratio below: its intervals include the requested ones.
                let ratio = self.log2_ratio.floor() as u32;
                let cosine = ScaledCosine::new(self.k, double_angles, ratio)?;
                let even = cosine.minimax(degree & !1)?.polynomial;
                let radius = cosine.radius();
                // In `x`: the variable of the cosine is `x - 1/4`.
                Polynomial::chebyshev_series(even.coeffs().to_vec(), 0.25 - radius..0.25 + radius)?
            }
            ModMethod::Exponential { degree, squarings } => {
                exponential(degree, squarings, self.bound())?
            }
        };
        let inverse = self.inverse_sine.map(|degree| inverse_sine(degree, self.log2_ratio));
        let inverse = inverse.transpose()?;
        Ok(Curves { spec: *self, polynomial, inverse })
    }
}

/// The functions of a specification, in the clear.
#[derive(Debug, Clone)]
struct Curves {
    spec: EvalModSpec,
    /// Polynomial in `x` for the cosine, and in `v` for the exponential, `i v B = i x`.
    polynomial: Polynomial,
    /// Polynomial from sines to results.
    inverse: Option<Polynomial>,
}

impl Curves {
    fn depth(&self) -> u32 {
        bits(self.polynomial.degree()) + self.depth_after()
    }

    /// Returns the number of levels after the first polynomial.
    fn depth_after(&self) -> u32 {
        self.spec.method.doublings() + self.inverse.as_ref().map_or(0, |p| bits(p.degree()))
    }

    fn evaluate(&self, x: f64) -> f64 {
        let doublings = 0..self.spec.method.doublings();
        let sine = match self.spec.method {
            ModMethod::Cosine { .. } => {
                let start = self.polynomial.evaluate(x);
                doublings.fold(start, |y, _| 2.0 * y * y - 1.0)
            }
            ModMethod::Exponential { .. } => {
                let v = Complex::new(0.0, x / self.spec.bound());
                let coeffs = self.polynomial.coeffs().iter().rev();
                let start = coeffs.fold(Complex::from(0.0), |sum, &c| sum * v + Complex::from(c));
                doublings.fold(start, |z, _| z * z).im
            }
        };
        match &self.inverse {
            Some(inverse) => inverse.evaluate(sine),
            None => sine * real::exp2(self.spec.log2_ratio) / TAU,
        }
    }
}

/// Returns the scale before the first of the doublings that end at level `end` with `scale`.
fn scale_before_doublings(
    chain: &Chain,
    end: Level,
    mut scale: Scale,
    doublings: u32,
) -> Result<Scale> {
    check_scale(chain, end, scale, 1.0)?;
    for above in (end.0 + 1..).map(Level).take(doublings as usize) {
        scale = (scale * chain.divisor(above)).sqrt();
        // Squared here, unlike at the end.
        check_scale(chain, above, scale, 2.0)?;
    }
    Ok(scale)
}

/// Checks that `power` ciphertexts of this scale leave precision and fit the modulus when
/// multiplied.
fn check_scale(chain: &Chain, level: Level, scale: Scale, power: f64) -> Result<()> {
    let log2_scale = scale.log2();
    let log2_q = chain.log2_q(level);
    if !scale.is_valid() || power * log2_scale + 1.0 > log2_q {
        return Err(Error::ScaleOutOfRange { op: OP, log2_scale: power * log2_scale, log2_q });
    }
    if log2_scale < MIN_LOG2_SCALE {
        return Err(Error::Circuit(format!(
            "{OP}: the result would need a scale of 2^{log2_scale:.1} at level {level}, at least \
             2^{MIN_LOG2_SCALE} is needed for any precision: ask for a larger scale of the \
             result, or use larger primes"
        )));
    }
    Ok(())
}

/// Conversion to `x / B` for a polynomial that cannot change its variable.
#[derive(Debug, Clone)]
struct Variable {
    /// Plan of the conversion, if it uses a level.
    division: Option<Box<PolynomialPlan>>,
    level: Level,
    scale: Scale,
}

impl Variable {
    fn plan(chain: &Chain, level: Level, scale: Scale, bound: f64, degree: usize) -> Result<Self> {
        let read = scale * Scale::from_f64(bound);
        // A deviation of the variable's scale is multiplied by the power.
        let highest_power = real::exp2(f64::from(bits(degree) - 1));
        let drift = (read / chain.divisor(level)).log2() * highest_power;
        if drift.abs() <= DRIFT_BITS {
            return Ok(Self { division: None, level, scale: read });
        }
        let divide = Polynomial::monomial(vec![0.0, 1.0 / bound])?;
        let below = |level: Level| match level.0 {
            0 => Err(Error::LevelExhausted { op: OP, needed: 1, level }),
            _ => Ok(chain.divisor(level)),
        };
        let division = Box::new(divide.plan_to(chain, level, scale, below)?);
        let level = division.output_level();
        let scale = division.output_scale();
        Ok(Self { division: Some(division), level, scale })
    }

    fn reach<E: ComplexOps>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        match &self.division {
            Some(division) => division.run(e, x),
            None => e.with_scale(x, self.scale),
        }
    }
}

/// A plan to reduce ciphertexts of one level and scale; see [`EvalModSpec::plan`].
#[derive(Debug, Clone)]
pub struct EvalModPlan {
    curves: Curves,
    input: Input<Scale>,
    /// Variable of the exponential.
    variable: Option<Variable>,
    /// Polynomial before the first doubling of the angle.
    polynomial: PolynomialPlan,
    sine_level: Level,
    /// Scale at which the sine is interpreted: as input of the inverse sine, or as the result.
    sine_scale: Scale,
    inverse: Option<PolynomialPlan>,
    output_level: Level,
    output_scale: Scale,
}

impl EvalModPlan {
    /// The specification of the plan.
    #[must_use]
    pub fn spec(&self) -> &EvalModSpec {
        &self.curves.spec
    }

    /// Number of levels consumed.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.input.depth()
    }

    /// Level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.output_level
    }

    /// Scale of the result.
    #[must_use]
    pub fn output_scale(&self) -> Scale {
        self.output_scale
    }

    /// Required keys in the ring of dimension `2^log_n`: relinearisation at the level of the first
    /// product and, for [`ModMethod::Exponential`], conjugation after the last squaring.
    #[must_use]
    pub fn required_keys(&self, log_n: u32) -> KeyRequest {
        let mut request = self.polynomial.required_keys().clone();
        if self.spec().method.doublings() > 0 {
            request = request.relinearize(self.polynomial.output_level());
        }
        if self.variable.is_some() {
            request = request.automorphism(GaloisElement::conjugation(log_n), self.sine_level);
        }
        if let Some(inverse) = &self.inverse {
            request |= inverse.required_keys();
        }
        request
    }

    /// Number of products of two ciphertexts.
    #[must_use]
    pub fn products(&self) -> usize {
        let inverse = self.inverse.as_ref().map_or(0, PolynomialPlan::products);
        self.polynomial.products() + self.spec().method.doublings() as usize + inverse
    }

    /// Computes the function of the plan at `x`, in the clear.
    #[must_use]
    pub fn evaluate(&self, x: f64) -> f64 {
        self.curves.evaluate(x)
    }

    /// Returns the largest error of a result in the clear, among 65 equidistant `m` next to each
    /// integer; infinite if an inner value is not finite.
    #[must_use]
    pub fn max_error(&self) -> f64 {
        let k = f64::from(self.spec().k);
        let width = real::exp2(-self.spec().log2_ratio);
        let integers = (0..=2 * self.spec().k).map(|i| f64::from(i) - k);
        let distances = (0..=64).map(|j| f64::from(j) / 32.0 - 1.0);
        integers
            .flat_map(|i| distances.clone().map(move |m| (i, m)))
            .map(|(i, m)| (self.evaluate(i + m * width) - m).abs())
            .map(|error| if error.is_nan() { f64::INFINITY } else { error })
            .fold(0.0, f64::max)
    }

    /// Reduces every slot of `x`, which must be real and near an integer. Drops `x` to the planned
    /// level first if it is above.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `x` is below the planned level, [`Error::ScaleMismatch`] if it
    /// has another scale than planned, [`Error::Circuit`] if the evaluator has another chain than
    /// planned, and errors of the evaluator.
    pub fn run<E: ComplexOps>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        let x = self.input.accept(e, x)?;
        let sine = match &self.variable {
            None => self.double(self.polynomial.run(e, &x)?, |y| double_angle(e, y))?,
            Some(variable) => {
                // The factors `i` and `-i` are integers at scale 1, so they use no level.
                let turn =
                    |a: &E::Ct, im| e.mul_const(a, Complex::new(0.0, im), Scale::from_u64(1));
                let angle = turn(&variable.reach(e, &x)?, 1.0)?;
                let z = self.polynomial.run(e, &angle)?;
                let z = self.double(z, |z| e.mul_rescale(z, z))?;
                turn(&e.sub(&z, &e.conjugate(&z)?)?, -1.0)?
            }
        };
        let sine = e.with_scale(&sine, self.sine_scale)?;
        match &self.inverse {
            Some(inverse) => inverse.run(e, &sine),
            None => Ok(sine),
        }
    }

    /// Runs [`EvalModPlan::run`] on each of `xs`, in lock step; see [`LockStep`].
    ///
    /// # Errors
    /// Errors of [`EvalModPlan::run`]; [`Error::ScaleMismatch`] if the scales of `xs` differ.
    pub fn run_many<E: ComplexOps>(&self, e: &E, xs: &[E::Ct]) -> Result<Vec<E::Ct>> {
        LockStep::new(e).run(xs, |e, x| self.run(e, x))
    }

    fn double<C>(&self, start: C, step: impl Fn(&C) -> Result<C>) -> Result<C> {
        (0..self.spec().method.doublings()).try_fold(start, |y, _| step(&y))
    }
}

#[cfg(test)]
mod tests;
