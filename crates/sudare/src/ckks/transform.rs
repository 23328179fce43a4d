use super::{Ciphertext, Complex, Evaluator, Scale, rules::Form};
use crate::{
    Error, Result,
    rlwe::{self, AutomorphismSum, EncodedDiagonals},
};

const OP: &str = "linear transform";

/// Returns the shortest power of two after which all numbers repeat. Their count is a power of two.
pub(crate) fn period<T: PartialEq>(values: &[T]) -> usize {
    let mut period = values.len();
    while period > 1 && values[..period / 2] == values[period / 2..period] {
        period /= 2;
    }
    period
}

/// The weights of an [`AutomorphismSum`] for ciphertexts with a fixed number of slots, encoded at a
/// scale; see [`EncodedDiagonals`].
#[derive(Debug)]
pub struct EncodedMatrix {
    diagonals: EncodedDiagonals,
    scale: Scale,
    log_slots: u32,
}

impl EncodedMatrix {
    /// The sum that the weights belong to.
    #[must_use]
    pub fn sum(&self) -> &AutomorphismSum {
        self.diagonals.sum()
    }

    /// Bytes of memory in use.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.diagonals.bytes()
    }

    fn form(&self) -> Form {
        Form { level: self.sum().level, scale: self.scale, log_slots: self.log_slots }
    }
}

impl Evaluator {
    /// Encodes the weights of a sum of automorphisms of ciphertexts with `2^log_slots` slots, for
    /// the keys of this evaluator. `weight(j, b)` is `w_jb` for the `b`-th baby step, or `None` if
    /// it is zero.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::Circuit`] for several stages of raised ciphertexts;
    /// errors of [`Encoder::encode`](super::Encoder::encode).
    pub fn encode_matrix(
        &self,
        sum: AutomorphismSum,
        scale: Scale,
        log_slots: u32,
        weight: impl Fn(usize, usize) -> Option<Vec<Complex<f64>>>,
    ) -> Result<EncodedMatrix> {
        let level = sum.level;
        let slots = self.rules().with_log_slots(Form { level, scale, log_slots: 0 }, log_slots)?;
        let slots = slots.slots();
        let diagonals = self.inner.encode_diagonals(sum, weight, |values, limbs| {
            if values.len() != slots {
                return Err(Error::SlotMismatch { op: OP, found: values.len(), expected: slots });
            }
            // Slots with a shorter period belong to a smaller ring.
            let period = period(&values);
            let values = values[..period].iter().copied();
            self.encoder().polynomial(values, period, level, limbs, scale)
        })?;
        Ok(EncodedMatrix { diagonals, scale, log_slots })
    }

    /// Computes the sum of rotations of `a`, rescaled.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `matrix - 1` | `a matrix / divisor` | every step at the level of the matrix | 1 decomposition, a key product per baby step, a key switch per stage except one |
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a ciphertext below the level of the matrix (one above is
    /// brought down to it); [`Error::RaisedLevel`]; [`Error::LevelExhausted`];
    /// [`Error::SlotMismatch`]; [`Error::MissingGaloisKey`]; [`Error::ScaleOutOfRange`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
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
        let (forms, inner) = self.transformed(inputs, matrix, false)?;
        Ok(Ciphertext::all(self.inner.transform_many(&inner, &matrix.diagonals)?, forms))
    }

    /// Runs [`Evaluator::mod_raise`] and then [`Evaluator::transform`], with keys of one digit: the
    /// second polynomial of a ciphertext raised through an ephemeral secret is small.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `matrix - 1` | `a matrix / divisor` | raising, and every step on raised ciphertexts | 1 key switch at level 0, 4 transforms per limb, a product with a key of one digit per step |
    ///
    /// # Errors
    /// [`Error::MissingRaisingKey`]; errors of [`Evaluator::transform`].
    pub fn raise_transform(&self, a: &Ciphertext, matrix: &EncodedMatrix) -> Result<Ciphertext> {
        Ok(self.raise_transform_many(&[a], matrix)?.remove(0))
    }

    /// Runs [`Evaluator::raise_transform`] on each of `inputs`, in one pass over keys and matrix.
    ///
    /// # Errors
    /// See [`Evaluator::raise_transform`].
    pub fn raise_transform_many(
        &self,
        inputs: &[&Ciphertext],
        matrix: &EncodedMatrix,
    ) -> Result<Vec<Ciphertext>> {
        let (forms, inner) = self.transformed(inputs, matrix, true)?;
        Ok(Ciphertext::all(self.inner.raise_transform_many(&inner, &matrix.diagonals)?, forms))
    }

    /// Returns the forms of results, with the inputs that they are computed from.
    fn transformed<'a>(
        &self,
        inputs: &[&'a Ciphertext],
        matrix: &EncodedMatrix,
        raised: bool,
    ) -> Result<(Vec<Form>, Vec<&'a rlwe::Ciphertext>)> {
        let form = |input: &&Ciphertext| {
            self.rules().transformed(self.form(input)?, matrix.form(), raised)
        };
        let forms = inputs.iter().map(form).collect::<Result<_>>()?;
        Ok((forms, inputs.iter().map(|input| &input.inner).collect()))
    }
}
