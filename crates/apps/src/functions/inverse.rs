use core::ops::Range;

use sudare::{
    Error, Result,
    circuits::ckks::ComplexOps,
    ckks::{Chain, Complex, Scale},
    rlwe::Level,
};
use sudare_arith::real;

/// The product form of [`inverse`](super::inverse()).
#[derive(Debug, Clone)]
pub(super) struct ProductForm {
    radius: f64,
    /// `c_0 .. c_(n-1)`.
    centres: Vec<f64>,
    /// Factor of the product `(1 - t_0/c_0)(1 + t_1/c_1) …`.
    factor: f64,
}

impl ProductForm {
    pub(super) const MIN_FACTORS: u32 = 2;
    pub(super) const MAX_FACTORS: u32 = 8;

    pub(super) fn new(interval: &Range<f64>, factors: u32) -> Result<Self> {
        let start = interval.start;
        let end = interval.end;
        let invalid = |needed: &str| {
            Err(Error::Circuit(format!("inverse by {factors} factors on {interval:?}: {needed}")))
        };
        if !(start > 0.0 && start < end && end.is_finite()) {
            return invalid("an interval of positive finite numbers is needed");
        }
        if !(Self::MIN_FACTORS..=Self::MAX_FACTORS).contains(&factors) {
            return invalid("the degree must be at most 255");
        }
        let radius = end / 2.0 - start / 2.0;
        let mut centre = (end / 2.0 + start / 2.0) / radius;
        let mut centres = Vec::new();
        let mut factor = 1.0 / radius;
        for _ in 0..factors {
            // `T_(2n) = 2 T_n^2 - 1`.
            let next = 2.0 * centre * centre - 1.0;
            factor *= 2.0 * centre;
            centres.push(centre);
            centre = next;
        }
        // Above this, the last factor is 1 in double precision.
        if centres[centres.len() - 1] > 1e16 {
            return invalid(
                "the interval is so narrow that a lower degree is exact: choose a lower degree",
            );
        }
        Ok(Self { radius, centres, factor: factor / centre })
    }

    /// Returns the levels of the evaluation: one for each factor.
    pub(super) fn depth(&self) -> u32 {
        self.centres.len() as u32
    }

    pub(super) fn evaluate(&self, x: f64) -> f64 {
        let mut t = x / self.radius - self.centres[0];
        let mut product = self.factor * (1.0 - t / self.centres[0]);
        for centre in &self.centres[1..] {
            t = 2.0 * t * t - 1.0;
            product *= 1.0 + t / centre;
        }
        product
    }

    /// Returns the scale of the argument at `level` for which [`ProductForm::run`] ends at `out`.
    pub(super) fn input_scale(&self, chain: &Chain, level: Level, out: Scale) -> Scale {
        // In log2, the scale of the result is `power` times the scale of `t_0` plus a constant.
        let mut t = 0.0;
        let mut product = real::log2(self.centres[0]) - real::log2(self.factor);
        let divisor_bits = |below: u32| chain.divisor(Level(level.0 - below)).log2();
        for (k, centre) in (1..).zip(&self.centres[1..]) {
            t = 2.0 * t - divisor_bits(k - 1) - 1.0;
            product += t + real::log2(*centre) - divisor_bits(k);
        }
        let power = f64::from((1u32 << self.centres.len()) - 1);
        Scale::from_log2((out.log2() - product) / power) / Scale::from_f64(self.radius)
    }

    /// Evaluates the product. Each `t_k` is the square of the one before. A factor `1 + t_k / c_k`
    /// is `c_k + t_k` read at a larger scale, and doubling is reading at half the scale.
    pub(super) fn run<E: ComplexOps>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        let read = |a: &E::Ct, factor: f64| e.with_scale(a, e.scale(a) / Scale::from_f64(factor));
        let add = |a: &E::Ct, c: f64| e.add_const(a, Complex::new(c, 0.0));
        let first = self.centres[0];
        let x = read(x, 1.0 / self.radius)?;
        // `-x`, without a level.
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
