use super::{Ciphertext, Complex, Evaluator, Scale, evaluator::below};
use crate::{
    Error, Result,
    ring::{Eval, RnsPoly},
    rlwe::{Combination, Down, GaloisElement, Level, ParamsId, StageWeights},
};

const OP: &str = "linear transform";

/// A sum of rotations in two stages: with the rotations by `b` of the baby steps and by
/// `g`, `sum_j rotate^j(sum_b w_jb rotate(x, b), g)`.
#[derive(Debug, Clone)]
pub struct RotationSum {
    /// Level of the ciphertexts.
    pub level: Level,
    /// `log2` of their slots.
    pub log_slots: u32,
    /// Scale of the weights.
    pub scale: Scale,
    /// Rotations of the baby steps, in slots.
    pub baby: Vec<i64>,
    /// That of the giant step, in slots.
    pub giant: i64,
    /// Values of `j`: `stages - 1` giant steps.
    pub stages: usize,
    /// The largest weight of the ephemeral secret, if ciphertexts come from level 0 and are
    /// raised to this one: see [`Evaluator::raise_transform`]. There is one stage then.
    pub ephemeral_weight: Option<u32>,
}

/// The encoded weights of a [`RotationSum`].
///
/// They are held modulo the primes of a key, special ones included, so that results are
/// divided once: each takes `N` residues for every such prime. If the evaluator has fitted keys
/// for every step ([`KeyRequest::into_fitted`](crate::rlwe::KeyRequest::into_fitted)), these are
/// fewer.
pub struct Weights {
    params: ParamsId,
    sum: RotationSum,
    baby: Vec<GaloisElement>,
    giant: GaloisElement,
    /// The level of the fitted keys that they are applied with, if any.
    tier: Option<Level>,
    stages: Vec<StageWeights>,
}

impl Weights {
    /// What they are for.
    #[must_use]
    pub fn sum(&self) -> &RotationSum {
        &self.sum
    }

    /// Bytes of memory that they take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.stages.iter().map(|stage| stage.polys.memory_bytes()).sum()
    }
}

impl Evaluator {
    /// Encodes the weights of a sum of rotations, for the keys of this evaluator:
    /// `weight(j, b)` is `w_jb` for the `b`-th baby step, none if it is zero.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::Circuit`] for several stages of what is raised;
    /// what [`Encoder::encode`](super::Encoder::encode) refuses.
    pub fn encode_weights(
        &self,
        sum: RotationSum,
        weight: impl Fn(usize, usize) -> Option<Vec<Complex<f64>>>,
    ) -> Result<Weights> {
        let rlwe = self.params().rlwe();
        rlwe.check_level(sum.level)?;
        if sum.ephemeral_weight.is_some() && sum.stages > 1 {
            return Err(Error::Circuit(format!(
                "{OP}: {} stages of what is raised; one is possible",
                sum.stages
            )));
        }
        let rotation = |k| GaloisElement::rotation(self.params().log_n(), k);
        let baby: Vec<_> = sum.baby.iter().map(|&k| rotation(k)).collect();
        let giant = rotation(sum.giant);
        let (tier, limbs) = match sum.ephemeral_weight {
            Some(_) => (None, rlwe.raising_limbs(sum.level)),
            None => {
                let mut steps = baby.clone();
                steps.extend((sum.stages > 1).then_some(giant));
                let tier = self.keys().tier(rlwe, sum.level, &steps);
                (tier, rlwe.tier_limbs(tier, sum.level))
            }
        };
        let slots = 1 << sum.log_slots;
        let encode = |values: Vec<Complex<f64>>| {
            if values.len() != slots {
                return Err(Error::SlotMismatch { op: OP, found: values.len(), expected: slots });
            }
            let values = values.iter().copied();
            self.encoder().polynomial(values, slots, sum.level, limbs, sum.scale)
        };
        let stage = |j| {
            let weight = |b| weight(j, b).map(|values| (b, values));
            let (steps, values): (Vec<_>, Vec<_>) = (0..sum.baby.len()).filter_map(weight).unzip();
            let mut packer = rlwe.basis().packer(limbs, steps.len());
            for values in values {
                packer.push(&encode(values)?);
            }
            Ok(StageWeights { steps, polys: packer.finish() })
        };
        let stages = (0..sum.stages).map(stage).collect::<Result<_>>()?;
        Ok(Weights { params: rlwe.id(), baby, giant, tier, stages, sum })
    }

    /// The sum of rotations of `a`, rescaled.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `weights - 1` | `a weights / divisor` | every step at the level of the weights | 1 decomposition, a key product a baby step, a key switch a stage but one |
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a ciphertext below the level of the weights, one above
    /// is brought to it; [`Error::RaisedLevel`]; [`Error::LevelExhausted`];
    /// [`Error::SlotMismatch`]; [`Error::MissingGaloisKey`]; [`Error::ScaleOutOfRange`]; [`Error::ParamsMismatch`];
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
        let (level, scales) = self.check_transform(inputs, weights, false)?;
        let key = |g: GaloisElement| match g.0 {
            1 => Ok(None),
            _ => self.switcher.galois_key_of(weights.tier, g, level).map(Some),
        };
        let combination = Combination {
            special: self.params().rlwe().tier_limbs(weights.tier, level).p(),
            baby: weights.baby.iter().map(|&g| key(g)).collect::<Result<_>>()?,
            giant: if weights.stages.len() > 1 { key(weights.giant)? } else { None },
            weights: &weights.stages,
        };
        let polys: Vec<_> = inputs.iter().map(|input| &input.inner.polys).collect();
        let results = self.switcher.combine(&polys, level, &combination, Down::SpecialAndLevel);
        self.wrap_all(inputs, results, level, scales)
    }

    /// [`Evaluator::mod_raise`] and then [`Evaluator::transform`], by keys of one digit: what
    /// is raised through an ephemeral secret is small.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `weights - 1` | `a weights / divisor` | raising, and every step of what is raised | 1 key switch at level 0, 4 transforms a limb, a product with a key of one digit a step |
    ///
    /// # Errors
    /// [`Error::MissingRaisingKey`]; else as [`Evaluator::transform`].
    pub fn raise_transform(&self, a: &Ciphertext, weights: &Weights) -> Result<Ciphertext> {
        Ok(self.raise_transform_many(&[a], weights)?.remove(0))
    }

    /// [`Evaluator::raise_transform`] of each of `inputs`, in one pass over keys and weights.
    ///
    /// # Errors
    /// As [`Evaluator::raise_transform`].
    pub fn raise_transform_many(
        &self,
        inputs: &[&Ciphertext],
        weights: &Weights,
    ) -> Result<Vec<Ciphertext>> {
        let (level, scales) = self.check_transform(inputs, weights, true)?;
        let polys: Vec<_> = inputs.iter().map(|input| &input.inner.polys).collect();
        let (steps, stages) = (&weights.baby, &weights.stages);
        let results = self.switcher.combine_raised(&polys, level, steps, stages)?;
        self.wrap_all(inputs, results, level, scales)
    }

    /// The level of the weights, and the scales of results.
    fn check_transform(
        &self,
        inputs: &[&Ciphertext],
        weights: &Weights,
        raised: bool,
    ) -> Result<(Level, Vec<Scale>)> {
        let (sum, level) = (&weights.sum, weights.sum.level);
        self.params().rlwe().check_id("weights", weights.params)?;
        if sum.ephemeral_weight.is_some() != raised {
            let found = if raised { "not for what is raised" } else { "for what is raised" };
            return Err(Error::Circuit(format!("{OP}: the weights are {found}")));
        }
        below(OP, level)?;
        let scale = |input: &&Ciphertext| {
            self.check_drop(input, if raised { Level(0) } else { level })?;
            if input.log_slots != sum.log_slots {
                let (found, expected) = (input.slots(), 1 << sum.log_slots);
                return Err(Error::SlotMismatch { op: OP, found, expected });
            }
            let product = self.product_scale(OP, input.scale, sum.scale, level)?;
            Ok(product / self.params().chain().divisor(level))
        };
        Ok((level, inputs.iter().map(scale).collect::<Result<_>>()?))
    }

    fn wrap_all(
        &self,
        inputs: &[&Ciphertext],
        results: Vec<[RnsPoly<Eval>; 2]>,
        level: Level,
        scales: Vec<Scale>,
    ) -> Result<Vec<Ciphertext>> {
        let next = below(OP, level)?;
        let wrapped = results.into_iter().zip(inputs).zip(scales);
        Ok(wrapped.map(|((polys, input), scale)| self.wrap(input, polys, next, scale)).collect())
    }
}
