use super::{Modulus, PlainPoly};
use sudare_arith::{
    fft::{Complex, SpecialFft},
    real,
};

/// Norms of a plaintext operand with coefficients in `(-t/2, t/2]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlainNorms {
    /// `log2` of the sum of the coefficients' magnitudes, at least 0.
    pub log2_sum: f64,
    /// `log2` of the root of the sum of the coefficients' squares, at least 0.
    pub log2_root_sum_squares: f64,
    /// `log2` of a bound of the values at the roots of `X^N + 1`.
    pub log2_canonical: f64,
}

impl PlainNorms {
    /// Computes the norms of a polynomial with these coefficients.
    #[must_use]
    pub fn of(t: Modulus, coeffs: &[u128]) -> Self {
        Self::of_residues(t, coeffs.iter().copied())
    }

    /// Computes the norms of `c` times a plaintext.
    pub(crate) fn of_multiple(values: &PlainPoly, c: u128) -> Self {
        let t = values.modulus();
        let c = values.modulus().reduce(c);
        Self::of_residues(t, values.coeffs().iter().map(|&a| t.mul(a, c)))
    }

    fn of_residues(t: Modulus, coeffs: impl Iterator<Item = u128>) -> Self {
        let sizes = coeffs.map(|c| t.centered_f64(c).abs());
        let (sum, squares) = sizes.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let sum = real::log2(f64::max(sum, 1.0));
        let two = real::log2(f64::max(squares, 1.0)) / 2.0;
        Self { log2_sum: sum, log2_root_sum_squares: two, log2_canonical: sum }
    }

    /// Computes the norms of a constant.
    #[must_use]
    pub fn constant(t: Modulus, c: u128) -> Self {
        Self::of(t, &[t.reduce(c)])
    }

    /// Norms of zero.
    pub(crate) const NONE: Self = Self {
        log2_sum: f64::NEG_INFINITY,
        log2_root_sum_squares: f64::NEG_INFINITY,
        log2_canonical: f64::NEG_INFINITY,
    };
}

/// Norms of two operands whose products are summed.
impl core::ops::Add for PlainNorms {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let two = log2_sum(self.log2_root_sum_squares, other.log2_root_sum_squares);
        Self {
            log2_sum: log2_sum(self.log2_sum, other.log2_sum),
            log2_root_sum_squares: two,
            log2_canonical: log2_sum(self.log2_canonical, other.log2_canonical),
        }
    }
}

/// `log2(2^a + 2^b)`.
pub(super) fn log2_sum(a: f64, b: f64) -> f64 {
    let high = a.max(b);
    let low = a.min(b);
    // Both may be: the difference of two infinities is NaN.
    if low == f64::NEG_INFINITY {
        return high;
    }
    high + real::ln_1p(real::exp2(low - high)) / core::f64::consts::LN_2
}

/// Collects norms of the weights of each stage of a sum of automorphisms.
///
/// Images `x_b` of one error have the same norms. By the inequality of Cauchy and Schwarz, for
/// coefficients and at each root, `sum_b w_b x_b` has the bound of one product. The other factor is
/// the root of the number of weights times the sum of their squares.
pub(crate) struct WeightNorms {
    t: Modulus,
    fft: SpecialFft<f64>,
    stages: Vec<Stage>,
}

#[derive(Clone)]
struct Stage {
    count: f64,
    sum: f64,
    squares: f64,
    /// Sums of squares of values at the roots, one per pair.
    values: Vec<f64>,
}

impl WeightNorms {
    /// Makes `stages` stages without weights.
    pub(crate) fn new(t: Modulus, log_n: u32, stages: usize) -> Self {
        let values = vec![0.0; 1 << (log_n - 1)];
        let none = Stage { count: 0.0, sum: 0.0, squares: 0.0, values };
        Self { t, fft: SpecialFft::new(log_n - 1), stages: vec![none; stages] }
    }

    /// Adds a weight to a stage.
    pub(crate) fn add(&mut self, stage: usize, weight: &PlainPoly) {
        let Some(stage) = self.stages.get_mut(stage) else { return };
        let coeff = |&c: &u128| self.t.centered_f64(c);
        let (low, high) = weight.coeffs().split_at(weight.coeffs().len() / 2);
        let pairs = low.iter().zip(high);
        let mut values: Vec<_> = pairs.map(|(a, b)| Complex::new(coeff(a), coeff(b))).collect();
        stage.count += 1.0;
        stage.sum += values.iter().map(|z| z.re.abs() + z.im.abs()).sum::<f64>();
        stage.squares += values.iter().map(|z| z.re * z.re + z.im * z.im).sum::<f64>();
        self.fft.forward(&mut values);
        for (sum, z) in stage.values.iter_mut().zip(values) {
            *sum += z.re * z.re + z.im * z.im;
        }
    }

    /// Returns the norms of each stage, over all its weights together.
    pub(crate) fn norms(&self) -> Vec<PlainNorms> {
        let of = |stage: &Stage| {
            // The minimum of 1 below would count no weights as the polynomial 1.
            if stage.count == 0.0 {
                return PlainNorms::NONE;
            }
            let root = |squares: f64| real::log2((stage.count * squares).max(1.0)) / 2.0;
            PlainNorms {
                log2_sum: real::log2(stage.sum.max(1.0)),
                log2_root_sum_squares: root(stage.squares),
                // More than doubles round away.
                log2_canonical: root(stage.values.iter().fold(0.0, |a: f64, &b| a.max(b))) + 1e-9,
            }
        };
        self.stages.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_are_of_centred_coefficients() {
        let t = Modulus::new(17, 1).unwrap();
        let norms = PlainNorms::of(t, &[16, 0, 3, 14]);
        assert!((norms.log2_sum - 7f64.log2()).abs() < 1e-12);
        assert!((norms.log2_root_sum_squares - 19f64.log2() / 2.0).abs() < 1e-12);
        assert_eq!(PlainNorms::constant(t, 18), PlainNorms::of(t, &[0, 0]));
        let both = norms + norms;
        assert!((both.log2_canonical - 14f64.log2()).abs() < 1e-12);
    }

    /// Compares `-1 + 3 X^2 - 3 X^3` and `2` with the definition.
    #[test]
    fn norms_of_weights_are_those_at_roots() {
        let t = Modulus::new(17, 1).unwrap();
        let weights = [[16, 0, 3, 14], [2, 0, 0, 0]];
        let mut norms = WeightNorms::new(t, 2, 2);
        for weight in weights {
            norms.add(1, &PlainPoly::new(t, weight.to_vec()).unwrap());
        }
        let largest = (0..4u32).map(|k| {
            let angle = core::f64::consts::PI * f64::from(2 * k + 1) / 4.0;
            let re = -1.0 + 3.0 * (2.0 * angle).cos() - 3.0 * (3.0 * angle).cos();
            let im = 3.0 * (2.0 * angle).sin() - 3.0 * (3.0 * angle).sin();
            re * re + im * im + 4.0
        });
        let largest = largest.fold(0.0, f64::max);
        let found = norms.norms();
        assert!((found[1].log2_canonical - (2.0 * largest).log2() / 2.0).abs() < 1e-8);
        assert!((found[1].log2_root_sum_squares - 46f64.log2() / 2.0).abs() < 1e-12);
        assert!((found[1].log2_sum - 9f64.log2()).abs() < 1e-12);
        assert_eq!(found[0], PlainNorms::NONE);
    }
}
