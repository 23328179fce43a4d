use super::{
    Ciphertext, DiagonalSum, Evaluator, GaloisElement, KeyRequest, Level, Lift, ModDown, ParamsId,
    Raise, StageDiagonals, next_level,
};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, RnsPoly},
};

const OP: &str = "linear transform";

/// A sum of automorphisms in two stages: with the baby steps `h_b` and the giant step `g`,
/// `sum_j g^j(sum_b w_jb h_b(x))`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutomorphismSum {
    /// Level of the ciphertexts.
    pub level: Level,
    /// The `h_b`.
    pub baby: Vec<GaloisElement>,
    /// `g`.
    pub giant: GaloisElement,
    /// Number of values of `j`. There are `stages - 1` giant steps.
    pub stages: usize,
    /// Raising of ciphertexts from level 0 to this level, if they are raised, through an ephemeral
    /// secret of at most the given weight; see [`Evaluator::raise_transform_many`]. It requires one
    /// stage.
    pub raise: Option<Raise>,
}

impl AutomorphismSum {
    /// Returns the keys for every step, and for raising through an ephemeral secret if needed.
    #[must_use]
    pub fn required_keys(&self) -> KeyRequest {
        let giant = (self.stages > 1).then_some(self.giant);
        let steps = self.baby.iter().copied().chain(giant).filter(|g| g.0 != 1);
        match self.raise {
            Some(raise) => KeyRequest::new().raise(raise).raised_automorphisms(steps),
            None => steps.fold(KeyRequest::new(), |keys, g| keys.automorphism(g, self.level)),
        }
    }
}

/// The encoded weights `w_jb` of an [`AutomorphismSum`]: the diagonals of a matrix.
///
/// They are stored modulo the primes of a key, special ones included, so that results are divided
/// once. Each weight has `N` residues per prime. Level keys for every step
/// ([`KeyRequest::into_level_keys`](super::KeyRequest::into_level_keys)) have fewer primes.
pub struct EncodedDiagonals {
    params: ParamsId,
    sum: AutomorphismSum,
    /// Key level of the level keys that apply the weights, if any.
    key_level: Option<Level>,
    stages: Vec<StageDiagonals>,
}

impl core::fmt::Debug for EncodedDiagonals {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EncodedDiagonals")
            .field("sum", &self.sum)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl EncodedDiagonals {
    /// The sum that the weights belong to.
    #[must_use]
    pub fn sum(&self) -> &AutomorphismSum {
        &self.sum
    }

    /// Bytes of memory in use.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.stages.iter().map(|stage| stage.polys.memory_bytes()).sum()
    }
}

impl Evaluator {
    /// Encodes the weights of a sum of automorphisms for the keys of this evaluator. `weight(j, b)`
    /// is `w_jb`, or `None` if it is zero. `encode` makes a message of it modulo the given primes.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::Circuit`] for several stages of raised ciphertexts;
    /// errors of `encode`.
    pub fn encode_diagonals<W>(
        &self,
        sum: AutomorphismSum,
        weight: impl Fn(usize, usize) -> Option<W>,
        encode: impl Fn(W, LimbSet) -> Result<RnsPoly<Eval>>,
    ) -> Result<EncodedDiagonals> {
        let params = self.params();
        params.check_level(sum.level)?;
        if sum.raise.is_some() && sum.stages > 1 {
            return Err(Error::Circuit(format!(
                "{OP}: found {} stages after raising, but only one is possible",
                sum.stages
            )));
        }
        let (key_level, limbs) = match sum.raise {
            Some(_) => (None, params.raising_limbs(sum.level)),
            None => {
                let mut steps = sum.baby.clone();
                steps.extend((sum.stages > 1).then_some(sum.giant));
                // One key level for all steps: weights have the special primes of the keys.
                let key_level = self.keys().key_level(params, sum.level, &steps);
                (key_level, params.limbs_of_keys(key_level, sum.level))
            }
        };
        let stage = |j| {
            let weight = |b| weight(j, b).map(|weight| (b, weight));
            let (steps, weights): (Vec<_>, Vec<_>) = (0..sum.baby.len()).filter_map(weight).unzip();
            let mut packer = params.basis().packer(limbs, steps.len());
            for weight in weights {
                packer.push(&encode(weight, limbs)?);
            }
            Ok(StageDiagonals { steps, polys: packer.finish() })
        };
        let stages = (0..sum.stages).map(stage).collect::<Result<_>>()?;
        Ok(EncodedDiagonals { params: params.id(), sum, key_level, stages })
    }

    /// Computes the sum of automorphisms of each of `inputs`, divided by the primes of the level,
    /// in one pass over keys and weights. A ciphertext above the level is brought down to it.
    ///
    /// Cost per ciphertext: 1 decomposition, a product with a key for each baby step, a key switch
    /// for each stage except one.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a ciphertext below the level; [`Error::RaisedLevel`];
    /// [`Error::LevelExhausted`]; [`Error::MissingGaloisKey`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`]; [`Error::Circuit`] for weights made for raised ciphertexts.
    pub fn transform_many(
        &self,
        inputs: &[&Ciphertext],
        diagonals: &EncodedDiagonals,
    ) -> Result<Vec<Ciphertext>> {
        let level = diagonals.sum.level;
        let next = self.check_transform(inputs, diagonals, false)?;
        let key = |g: GaloisElement| match g.0 {
            1 => Ok(None),
            _ => self.switcher.galois_key_of(diagonals.key_level, g, level).map(Some),
        };
        let several = diagonals.stages.len() > 1;
        let sum = DiagonalSum {
            special: self.params().limbs_of_keys(diagonals.key_level, level).p(),
            baby: diagonals.sum.baby.iter().map(|&g| key(g)).collect::<Result<_>>()?,
            giant: if several { key(diagonals.sum.giant)? } else { None },
            weights: &diagonals.stages,
        };
        let polys: Vec<_> = inputs.iter().map(|input| &input.polys).collect();
        let results = self.switcher.combine(&polys, level, &sum, ModDown::PAndLevel);
        Ok(results.into_iter().map(|polys| self.holding(polys, next)).collect())
    }

    /// Runs [`Evaluator::mod_raise`] and then [`Evaluator::transform_many`], with keys of one
    /// digit: the second polynomial of a ciphertext raised through an ephemeral secret is small.
    ///
    /// Cost per ciphertext: 1 key switch at level 0, 4 transforms per limb, and a product with a
    /// key of one digit for each step.
    ///
    /// # Errors
    /// [`Error::MissingRaisingKey`]; [`Error::RaisingDivisorMismatch`]; errors of
    /// [`Evaluator::transform_many`].
    pub fn raise_transform_many(
        &self,
        inputs: &[&Ciphertext],
        diagonals: &EncodedDiagonals,
    ) -> Result<Vec<Ciphertext>> {
        self.transform_raised(inputs, diagonals, Lift { divisor: 1, lift: &self.lift_residues() })
    }

    /// Runs [`Evaluator::raise_transform_many`] with another way to lift.
    ///
    /// # Errors
    /// See [`Evaluator::raise_transform_many`].
    pub(crate) fn transform_raised(
        &self,
        inputs: &[&Ciphertext],
        diagonals: &EncodedDiagonals,
        lift: Lift<'_>,
    ) -> Result<Vec<Ciphertext>> {
        let next = self.check_transform(inputs, diagonals, true)?;
        let polys: Vec<_> = inputs.iter().map(|input| &input.polys).collect();
        let AutomorphismSum { level, baby, .. } = &diagonals.sum;
        let stages = &diagonals.stages;
        let results = self.switcher.combine_raised(&polys, *level, baby, stages, lift)?;
        Ok(results.into_iter().map(|polys| self.holding(polys, next)).collect())
    }

    /// Checks the sum and returns the level of its results.
    fn check_transform(
        &self,
        inputs: &[&Ciphertext],
        diagonals: &EncodedDiagonals,
        raised: bool,
    ) -> Result<Level> {
        let sum = &diagonals.sum;
        self.params().check_id("weights", diagonals.params)?;
        if sum.raise.is_some() != raised {
            let found = if raised { "not for what is raised" } else { "for what is raised" };
            return Err(Error::Circuit(format!("{OP}: the weights are {found}")));
        }
        // Raising reads only the primes of level 0, so any level of the chain will do.
        let lowest = if raised { Level(0) } else { sum.level };
        inputs.iter().try_for_each(|input| self.check_drop(input, lowest))?;
        next_level(OP, sum.level)
    }
}
