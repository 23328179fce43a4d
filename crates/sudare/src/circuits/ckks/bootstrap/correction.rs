use crate::{
    Error, Result,
    circuits::ckks::ComplexOps,
    ckks::{Chain, Complex, Scale},
    rlwe::{GaloisElement, KeyRequest, Level},
};
use core::f64::consts::TAU;
use sudare_arith::real;

/// Bends real and imaginary parts `m` to `m + c m^3`, so that the sine of the result is `m` up to
/// its fifth power: with `a = 2 pi 2^-log2_ratio` and `c = a^2 / 6`,
/// `sin(a (m + c m^3)) / a = m - (3 / 40) a^4 m^5 + ...`.
///
/// For complex `z` both parts at once are `z + (c / 4) conj(z) (3 z^2 + conj(z)^2)`. Uses two
/// levels. The small coefficient is a change of scale, without a product.
#[derive(Debug, Clone)]
pub(super) struct Correction {
    real: bool,
    level: Level,
    /// Scale of the cubic term and the message in their sum.
    sum_scale: Scale,
    /// Scale of the factor 1 that brings the message to that scale.
    unit_scale: Scale,
    output_scale: Scale,
}

impl Correction {
    /// Plans the correction for ciphertexts at `level` and `scale`.
    pub(super) fn plan(
        chain: &Chain,
        level: Level,
        scale: Scale,
        log2_ratio: f64,
        real: bool,
    ) -> Result<Self> {
        const OP: &str = "correction of the sine";
        if level.0 < 2 {
            return Err(Error::LevelExhausted { op: OP, needed: 2, level });
        }
        let coefficient = real::powi(TAU * real::exp2(-log2_ratio), 2) / 6.0;
        let coefficient = if real { coefficient } else { coefficient / 4.0 };
        let below = Level(level.0 - 1);
        let square = scale * scale / chain.divisor(level);
        let sum_scale = square * scale / Scale::from_f64(coefficient);
        let log2_q = chain.log2_q(below);
        if sum_scale.log2() + 1.0 > log2_q {
            let log2_scale = sum_scale.log2();
            return Err(Error::ScaleOutOfRange { op: OP, log2_scale, log2_q });
        }
        let unit_scale = sum_scale / scale;
        let output_scale = sum_scale / chain.divisor(below);
        Ok(Self { real, level, sum_scale, unit_scale, output_scale })
    }

    pub(super) fn output_level(&self) -> Level {
        Level(self.level.0 - 2)
    }

    pub(super) fn output_scale(&self) -> Scale {
        self.output_scale
    }

    pub(super) fn required_keys(&self, log_n: u32) -> KeyRequest {
        let request = KeyRequest::new().relinearize(self.level);
        if self.real {
            return request;
        }
        request.automorphism(GaloisElement::conjugation(log_n), Level(self.level.0 - 1))
    }

    pub(super) fn run<E: ComplexOps>(&self, e: &E, z: &E::Ct) -> Result<E::Ct> {
        let one = Complex::new(1.0, 0.0);
        let square = e.mul_rescale(z, z)?;
        let mut z = z.clone();
        e.drop_to(&mut z, Level(self.level.0 - 1))?;
        let cube = if self.real {
            e.mul(&z, &square)?
        } else {
            let three = e.mul_const(&square, Complex::new(3.0, 0.0), Scale::from_u64(1))?;
            e.mul(&e.conjugate(&z)?, &e.add(&three, &e.conjugate(&square)?)?)?
        };
        // Interpret the same plaintext as divided by the coefficient.
        let term = e.with_scale(&cube, self.sum_scale)?;
        let mut sum = e.add(&term, &e.mul_const(&z, one, self.unit_scale)?)?;
        e.rescale_assign(&mut sum)?;
        Ok(sum)
    }
}
