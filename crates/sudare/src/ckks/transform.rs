use super::{Ciphertext, Complex, Evaluator, Scale, evaluator::below};
use crate::{
    Error, Result,
    ring::{Eval, RnsPoly},
    rlwe::{Combination, Down, GaloisElement, Level, ParamsId},
};

/// Encoded weights of a sum of rotations in two stages: with the rotations by `b` of the
/// baby steps and by `g`, `sum_j rotate^j(sum_b w_jb rotate(x, b), g)`.
///
/// Weights are held modulo the primes of a key, special ones included, so that results
/// are divided once: at level `l` each takes `N` words for every such prime.
pub struct Weights {
    params: ParamsId,
    level: Level,
    log_slots: u32,
    scale: Scale,
    baby: Vec<GaloisElement>,
    giant: GaloisElement,
    weights: Vec<Vec<Option<RnsPoly<Eval>>>>,
}

impl Weights {
    /// The level of the ciphertexts it is for.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }
}

impl Evaluator {
    /// Encodes the weights of a sum of rotations for ciphertexts of `2^log_slots` slots at
    /// `level`: `weight(j, b)` is `w_jb` for the `b`-th baby step in each of `stages`
    /// stages, none if it is zero.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; what [`Encoder::encode`](super::Encoder::encode) refuses.
    pub fn encode_weights(
        &self,
        level: Level,
        log_slots: u32,
        scale: Scale,
        (baby, giant): (&[i64], i64),
        stages: usize,
        weight: impl Fn(usize, usize) -> Option<Vec<Complex<f64>>>,
    ) -> Result<Weights> {
        let rlwe = self.params().rlwe();
        rlwe.check_level(level)?;
        let limbs = rlwe.key_limbs(level);
        let encode = |values: Vec<Complex<f64>>| {
            if values.len() != 1 << log_slots {
                let (op, expected) = ("encode weights", 1 << log_slots);
                return Err(Error::SlotMismatch { op, found: values.len(), expected });
            }
            let values = values.iter().copied();
            self.encoder().polynomial(values, 1 << log_slots, level, limbs, scale)
        };
        let row = |j| (0..baby.len()).map(|b| weight(j, b).map(encode).transpose()).collect();
        let log_n = self.params().log_n();
        Ok(Weights {
            params: rlwe.id(),
            level,
            log_slots,
            scale,
            baby: baby.iter().map(|&k| GaloisElement::rotation(log_n, k)).collect(),
            giant: GaloisElement::rotation(log_n, giant),
            weights: (0..stages).map(row).collect::<Result<_>>()?,
        })
    }

    /// The sum of rotations of `a`, rescaled.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `weights - 1` | `a weights / divisor` | every step at the level of the weights | 1 decomposition, a key product a baby step, a key switch a stage but one |
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a ciphertext below the level of the weights, one above
    /// is brought to it; [`Error::LevelExhausted`]; [`Error::SlotMismatch`];
    /// [`Error::MissingGaloisKey`]; [`Error::ScaleOutOfRange`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn transform(&self, a: &Ciphertext, weights: &Weights) -> Result<Ciphertext> {
        Ok(self.transform_many(&[a], weights)?.remove(0))
    }

    /// [`Evaluator::transform`] of each of `inputs`, in one pass over keys and weights.
    ///
    /// # Errors
    /// As [`Evaluator::transform`].
    pub fn transform_many(
        &self,
        inputs: &[&Ciphertext],
        weights: &Weights,
    ) -> Result<Vec<Ciphertext>> {
        const OP: &str = "linear transform";
        let level = weights.level;
        self.params().rlwe().check_id("weights", weights.params)?;
        let next = below(OP, level)?;
        let mut scales = Vec::with_capacity(inputs.len());
        for input in inputs {
            self.check(input)?;
            if input.level() < level {
                return Err(Error::LevelOutOfRange { found: level, max: input.level() });
            }
            if input.log_slots != weights.log_slots {
                let (found, expected) = (input.slots(), 1 << weights.log_slots);
                return Err(Error::SlotMismatch { op: OP, found, expected });
            }
            let scale = self.product_scale(OP, input.scale, weights.scale, level)?;
            scales.push(scale / self.params().chain().divisor(level));
        }
        let key = |g: GaloisElement| match g.0 {
            1 => Ok(None),
            _ => self.switcher.galois_key(g, level).map(Some),
        };
        let combination = Combination {
            baby: weights.baby.iter().map(|&g| key(g)).collect::<Result<_>>()?,
            giant: if weights.weights.len() > 1 { key(weights.giant)? } else { None },
            weights: &weights.weights,
        };
        let polys: Vec<_> = inputs.iter().map(|input| &input.inner.polys).collect();
        let results = self.switcher.combine(&polys, level, &combination, Down::SpecialAndLevel);
        let wrapped = results.into_iter().zip(inputs).zip(scales);
        Ok(wrapped.map(|((polys, input), scale)| self.wrap(input, polys, next, scale)).collect())
    }
}
