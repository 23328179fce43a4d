use super::{
    Ciphertext, DiagonalSum, Evaluator, GaloisElement, KeyRequest, Level, Lift, ModDown, Params,
    ParamsId, Raise, Stage, Weights, next_level,
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
/// once. Each weight has `N` residues per prime, or fewer if all of them are polynomials in a power
/// of `X`: weights whose slots have a short period, as in all but one factor of a Fourier
/// transform. Level keys for every step
/// ([`KeyRequest::into_level_keys`](super::KeyRequest::into_level_keys)) have fewer primes.
pub struct EncodedDiagonals {
    params: ParamsId,
    sum: AutomorphismSum,
    /// Key level of the level keys that apply the weights, if any.
    key_level: Option<Level>,
    weights: Weights,
}

/// Number and form of the weights that a sum of automorphisms stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WeightForm {
    pub(crate) count: usize,
    /// `log2` of the times that a stored residue repeats.
    pub(crate) log_repeats: u32,
}

impl WeightForm {
    /// Returns the bytes of weights modulo the primes of `limbs`.
    pub(crate) fn bytes(self, params: &Params, limbs: LimbSet) -> u64 {
        (self.count as u64).saturating_mul(params.basis().packed_bytes(limbs) >> self.log_repeats)
    }
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
        self.weights.polys.memory_bytes()
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
        let mut weights = Vec::new();
        let mut stages = Vec::new();
        for j in 0..sum.stages {
            let weight = |b| weight(j, b).map(|weight| (b, weight));
            let (steps, of_stage): (Vec<_>, Vec<_>) =
                (0..sum.baby.len()).filter_map(weight).unzip();
            stages.push(Stage { first: weights.len(), steps });
            weights.extend(of_stage);
        }
        let mut packer = params.basis().repeat_packer(limbs, weights.len());
        for weight in weights {
            packer.push(&encode(weight, limbs)?);
        }
        let weights = Weights { polys: packer.finish(), stages };
        Ok(EncodedDiagonals { params: params.id(), sum, key_level, weights })
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
        let several = diagonals.sum.stages > 1;
        let sum = DiagonalSum {
            special: self.params().limbs_of_keys(diagonals.key_level, level).p(),
            baby: diagonals.sum.baby.iter().map(|&g| key(g)).collect::<Result<_>>()?,
            giant: if several { key(diagonals.sum.giant)? } else { None },
            weights: &diagonals.weights,
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
        let weights = &diagonals.weights;
        let results = self.switcher.combine_raised(&polys, *level, baby, weights, lift)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ring::{Coeff, Packer},
        rlwe::{EncryptionKey, KeyGenerator, SecretDistribution, Spec},
    };
    use std::sync::Arc;
    use sudare_arith::{par, previous_prime, prng::Seed};

    const LOG_N: u32 = 12;
    const STEPS: usize = 40;

    fn params() -> Params {
        let prime = |end| previous_prime(end, 2 << LOG_N).unwrap();
        let [base, first, special] = [1 << 50, 1 << 40, 1 << 48].map(prime);
        let params = Params::new(Spec {
            log_n: LOG_N,
            q: vec![vec![base], vec![first], vec![prime(first)]],
            upper: None,
            p: vec![special, prime(special)],
            extra_p: Vec::new(),
            secret: SecretDistribution::UniformTernary,
            security_bits: None,
        });
        params.unwrap()
    }

    /// A polynomial in `X^(2^log_gap)`, unlike others.
    fn poly(params: &Params, limbs: LimbSet, salt: usize, log_gap: u32) -> RnsPoly<Eval> {
        let basis = params.basis();
        let mut poly: RnsPoly<Coeff> = basis.zero(limbs);
        for row in poly.rows_mut() {
            let used = row.iter_mut().step_by(1 << log_gap).enumerate();
            used.for_each(|(i, x)| *x = (i * i + 7 * salt + 1) as u64 % 10_007);
        }
        basis.into_eval(poly)
    }

    /// In two stages, of more images than one group, with weights that are zero.
    #[test]
    fn weights_in_a_subring_are_stored_by_their_period_and_give_the_same_bits() {
        let params = params();
        let level = Level(2);
        let rotation = |k: usize| GaloisElement::rotation(LOG_N, k as i64);
        let sum = AutomorphismSum {
            level,
            baby: (0..STEPS).map(rotation).collect(),
            giant: rotation(STEPS),
            stages: 2,
            raise: None,
        };
        let mut generator = KeyGenerator::from_seed(&params, &Seed::from_bytes([1; 32]));
        let secret = generator.secret_key().unwrap();
        let keys = generator.evaluation_keys(&secret, &sum.required_keys()).unwrap();
        let ev = Evaluator::new(&params, Arc::new(keys)).unwrap();
        let message = poly(&params, params.limbs(level), 99, 0);
        let seed = Seed::from_bytes([2; 32]);
        let inputs = [3, 4].map(|k| seed.derive("input", k));
        let inputs = inputs.map(|seed| secret.encrypt(&params, &message, level, &seed).unwrap());
        let inputs: Vec<&Ciphertext> = inputs.iter().collect();

        let weight = |j: usize, b: usize| ((j + b) % 7 != 3).then_some(STEPS * j + b);
        for log_gap in [0, 1, 3, 8, 9, 11] {
            let encode = |salt, limbs| Ok(poly(&params, limbs, salt, log_gap));
            let stored = ev.encode_diagonals(sum.clone(), weight, encode).unwrap();
            let mut full = ev.encode_diagonals(sum.clone(), weight, encode).unwrap();
            let limbs = full.weights.polys.limbs();
            let count = full.weights.polys.count();
            let mut packer: Packer<'_> = params.basis().packer(limbs, count);
            let places = (0..2).flat_map(|j| (0..STEPS).map(move |b| (j, b)));
            for salt in places.filter_map(|(j, b)| weight(j, b)) {
                packer.push(&poly(&params, limbs, salt, log_gap));
            }
            full.weights.polys = packer.finish();
            assert_eq!(stored.bytes(), full.bytes() >> log_gap.min(8), "X^(2^{log_gap})");

            let run = |threads, diagonals: &EncodedDiagonals| -> Vec<Vec<u64>> {
                let results = par::with_threads(threads, || ev.transform_many(&inputs, diagonals));
                let results = results.unwrap().unwrap();
                let polys = results.iter().flat_map(|result| &result.polys);
                polys.map(|poly| poly.rows().flatten().copied().collect()).collect()
            };
            let expected = run(1, &full);
            for threads in [1, 2] {
                assert!(run(threads, &stored) == expected, "X^(2^{log_gap}), {threads} threads");
            }
        }
    }
}
