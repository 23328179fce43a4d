use super::{Ciphertext, Complex, Evaluator, Scale, rules::Form};
use crate::{
    Error, Result,
    rlwe::{self, AutomorphismSum, EncodedDiagonals, GaloisElement, Level},
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

/// The encoded weights of a [`RotationSum`], see [`EncodedDiagonals`].
pub struct EncodedMatrix {
    sum: RotationSum,
    diagonals: EncodedDiagonals,
}

impl EncodedMatrix {
    /// What it is made of.
    #[must_use]
    pub fn sum(&self) -> &RotationSum {
        &self.sum
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.diagonals.bytes()
    }

    fn form(&self) -> Form {
        let RotationSum { level, scale, log_slots, .. } = self.sum;
        Form { level, scale, log_slots }
    }
}

impl Evaluator {
    /// Encodes the weights of a sum of rotations, for the keys of this evaluator:
    /// `weight(j, b)` is `w_jb` for the `b`-th baby step, none if it is zero.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::Circuit`] for several stages of what is raised;
    /// what [`Encoder::encode`](super::Encoder::encode) refuses.
    pub fn encode_matrix(
        &self,
        sum: RotationSum,
        weight: impl Fn(usize, usize) -> Option<Vec<Complex<f64>>>,
    ) -> Result<EncodedMatrix> {
        let rotation = |k| GaloisElement::rotation(self.params().log_n(), k);
        let automorphisms = AutomorphismSum {
            level: sum.level,
            baby: sum.baby.iter().map(|&k| rotation(k)).collect(),
            giant: rotation(sum.giant),
            stages: sum.stages,
            ephemeral_weight: sum.ephemeral_weight,
        };
        let slots = 1 << sum.log_slots;
        let diagonals = self.inner.encode_diagonals(automorphisms, weight, |values, limbs| {
            if values.len() != slots {
                return Err(Error::SlotMismatch { op: OP, found: values.len(), expected: slots });
            }
            let values = values.iter().copied();
            self.encoder().polynomial(values, slots, sum.level, limbs, sum.scale)
        })?;
        Ok(EncodedMatrix { sum, diagonals })
    }

    /// The sum of rotations of `a`, rescaled.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `matrix - 1` | `a matrix / divisor` | every step at the level of the matrix | 1 decomposition, a key product a baby step, a key switch a stage but one |
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a ciphertext below the level of the matrix, one above
    /// is brought to it; [`Error::RaisedLevel`]; [`Error::LevelExhausted`];
    /// [`Error::SlotMismatch`]; [`Error::MissingGaloisKey`]; [`Error::ScaleOutOfRange`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn transform(&self, a: &Ciphertext, matrix: &EncodedMatrix) -> Result<Ciphertext> {
        Ok(self.transform_many(&[a], matrix)?.remove(0))
    }

    /// [`Evaluator::transform`] of each of `inputs`, in one pass over keys and matrix.
    ///
    /// # Errors
    /// As [`Evaluator::transform`].
    pub fn transform_many(
        &self,
        inputs: &[&Ciphertext],
        matrix: &EncodedMatrix,
    ) -> Result<Vec<Ciphertext>> {
        let (forms, inner) = self.transformed(inputs, matrix, false)?;
        Ok(Ciphertext::all(self.inner.transform_many(&inner, &matrix.diagonals)?, forms))
    }

    /// [`Evaluator::mod_raise`] and then [`Evaluator::transform`], by keys of one digit: what
    /// is raised through an ephemeral secret is small.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `matrix - 1` | `a matrix / divisor` | raising, and every step of what is raised | 1 key switch at level 0, 4 transforms a limb, a product with a key of one digit a step |
    ///
    /// # Errors
    /// [`Error::MissingRaisingKey`]; else as [`Evaluator::transform`].
    pub fn raise_transform(&self, a: &Ciphertext, matrix: &EncodedMatrix) -> Result<Ciphertext> {
        Ok(self.raise_transform_many(&[a], matrix)?.remove(0))
    }

    /// [`Evaluator::raise_transform`] of each of `inputs`, in one pass over keys and matrix.
    ///
    /// # Errors
    /// As [`Evaluator::raise_transform`].
    pub fn raise_transform_many(
        &self,
        inputs: &[&Ciphertext],
        matrix: &EncodedMatrix,
    ) -> Result<Vec<Ciphertext>> {
        let (forms, inner) = self.transformed(inputs, matrix, true)?;
        Ok(Ciphertext::all(self.inner.raise_transform_many(&inner, &matrix.diagonals)?, forms))
    }

    /// The forms of results, and what they are computed from.
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
