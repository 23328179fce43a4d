use super::{
    Ciphertext, Evaluator, Modulus, PlainNorms, PlainPoly, Unit,
    encrypt::lifted,
    norms::WeightNorms,
    rules::{Form, match_rings},
};
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    rlwe::{AutomorphismSum, EncodedDiagonals, Level, Lift},
};
use core::cell::RefCell;

const OP: &str = "linear transform";

/// Encoded weights of a sum of automorphisms: the diagonals of a matrix, or any other linear map
/// of slots.
#[derive(Debug)]
pub struct EncodedMatrix {
    factor: Unit,
    diagonals: EncodedDiagonals,
    /// Norms of each stage, over all its weights together.
    stages: Vec<PlainNorms>,
}

impl EncodedMatrix {
    /// The sum that the weights belong to.
    #[must_use]
    pub fn sum(&self) -> &AutomorphismSum {
        self.diagonals.sum()
    }

    /// The modulus of the weights.
    #[must_use]
    pub fn plaintext_modulus(&self) -> Modulus {
        self.factor.modulus()
    }

    /// Bytes of memory in use.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.diagonals.bytes()
    }
}

impl Evaluator {
    /// Encodes the weights of a sum of automorphisms for the keys of this evaluator. `weight(j, b)`
    /// is `w_jb`, or `None` if it is zero. Weights are multiplied by `factor`, and their
    /// coefficients are taken next to zero.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::PlaintextMismatch`];
    /// [`Error::PlaintextModulusNotCoprime`]; [`Error::NotAUnit`]; [`Error::Circuit`] for several
    /// stages of raised ciphertexts.
    pub fn encode_matrix(
        &self,
        factor: Unit,
        sum: AutomorphismSum,
        weight: impl Fn(usize, usize) -> Option<PlainPoly>,
    ) -> Result<EncodedMatrix> {
        let t = factor.modulus();
        self.params().check_modulus(t)?;
        factor.check_unit()?;
        // A cell, because the closure that encodes weights may be called from shared references
        // only.
        let norms = RefCell::new(WeightNorms::new(t, self.params().log_n(), sum.stages));
        let diagonals = self.inner.encode_diagonals(
            sum,
            |j, b| weight(j, b).map(|weight| (j, weight)),
            |(j, weight), limbs| {
                match_rings(OP, (weight.modulus(), weight.log_n()), self.rules().ring(t))?;
                let weight = weight.scaled(factor.value());
                norms.borrow_mut().add(j, &weight);
                Ok(lifted(self.params(), limbs, &weight, Unit::one(t), false))
            },
        )?;
        Ok(EncodedMatrix { factor, diagonals, stages: norms.borrow().norms() })
    }

    /// Computes the sum of automorphisms of `a`, rescaled.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `matrix - 1` | `a matrix / divisor` | every step at the level of the matrix | 1 decomposition, a key product per baby step, a key switch per stage except one |
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a ciphertext below the level of the matrix (one above is
    /// brought down to it); [`Error::LevelExhausted`]; [`Error::PlaintextMismatch`];
    /// [`Error::NoiseExhausted`]; [`Error::MissingGaloisKey`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn transform(&self, a: &Ciphertext, matrix: &EncodedMatrix) -> Result<Ciphertext> {
        Ok(self.transform_many(&[a], matrix)?.remove(0))
    }

    /// Runs [`Evaluator::transform`] on each of `inputs`, in one pass over keys and matrix.
    ///
    /// # Errors
    /// See [`Evaluator::transform`].
    pub fn transform_many(
        &self,
        inputs: &[&Ciphertext],
        matrix: &EncodedMatrix,
    ) -> Result<Vec<Ciphertext>> {
        let sum = matrix.sum();
        let mut steps = sum.baby.clone();
        // With a single stage there is no step to a next one, and no key for it.
        steps.extend((sum.stages > 1).then_some(sum.giant));
        let key_level: Option<Level> =
            self.keys().key_level(self.params().rlwe(), sum.level, &steps);
        let form = |a: &&Ciphertext| {
            let form = self.form(a)?;
            let rules = self.rules();
            let t = matrix.plaintext_modulus();
            match_rings(OP, rules.ring(a.plaintext_modulus()), rules.ring(t))?;
            let form = rules.transformed(OP, form, sum.level, &matrix.stages, key_level)?;
            Ok(Form { factor: form.factor * matrix.factor, ..form })
        };
        let forms = inputs.iter().map(form).collect::<Result<_>>()?;
        let inner: Vec<_> = inputs.iter().map(|a| &a.inner).collect();
        Ok(Ciphertext::all(self.inner.transform_many(&inner, &matrix.diagonals)?, forms))
    }

    /// Runs [`Evaluator::raise`] to the modulus of the matrix and then [`Evaluator::transform`] on
    /// each of `inputs`, with keys of one digit: the second polynomial of a ciphertext raised
    /// through an ephemeral secret is small.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `matrix - 1` | `matrix / divisor` | raising, and every step on raised ciphertexts | 1 key switch at level 0, 4 transforms per limb, a product with a key of one digit per step |
    ///
    /// # Errors
    /// See [`Evaluator::raise`] and [`Evaluator::transform`].
    pub fn raise_transform_many(
        &self,
        inputs: &[&Ciphertext],
        matrix: &EncodedMatrix,
    ) -> Result<Vec<Ciphertext>> {
        let to = matrix.sum().level;
        let t = matrix.plaintext_modulus();
        let weight = self.ephemeral_weight(to)?;
        let form = |a: &&Ciphertext| {
            let form = self.rules().raised(self.form(a)?, to, t, weight)?;
            let form = self.rules().raised_sum(OP, form, &matrix.stages)?;
            Ok(Form { factor: form.factor * matrix.factor, ..form })
        };
        let forms = inputs.iter().map(form).collect::<Result<_>>()?;
        let lift = self.rounding_lift(t)?;
        let lift = Lift { divisor: t.value(), lift: &lift };
        let inner: Vec<_> = inputs.iter().map(|a| &a.inner).collect();
        Ok(Ciphertext::all(self.inner.transform_raised(&inner, &matrix.diagonals, lift)?, forms))
    }
}
