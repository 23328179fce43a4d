use super::{
    Ciphertext, Evaluator, PlainNorms, PlainPoly, Unit,
    encrypt::lifted,
    noise::NoiseModel,
    rules::{Form, match_rings},
};
use crate::{
    Error, Result,
    rlwe::{AutomorphismSum, EncodedDiagonals, GaloisElement, Level},
};

const OP: &str = "linear transform";

/// The weights of an [`AutomorphismSum`], encoded with a factor: see [`EncodedDiagonals`].
pub struct EncodedMatrix {
    diagonals: EncodedDiagonals,
    factor: Unit,
    /// The level of the fitted keys that it is applied with, if any.
    tier: Option<Level>,
    stages: Vec<Vec<Weight>>,
}

/// What is known of one weight.
struct Weight {
    norms: PlainNorms,
    /// Whether it multiplies an image, which has the error of a key switch.
    switched: bool,
}

impl EncodedMatrix {
    /// What it is made of.
    #[must_use]
    pub fn sum(&self) -> &AutomorphismSum {
        self.diagonals.sum()
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.diagonals.bytes()
    }
}

impl Evaluator {
    /// Encodes the weights of a sum of automorphisms, for the keys of this evaluator:
    /// `weight(j, b)` is `w_jb` for the `b`-th baby step, none if it is zero, and is multiplied
    /// by `factor`.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a weight of another ring; [`Error::LevelOutOfRange`];
    /// [`Error::Circuit`] for several stages of what is raised;
    /// [`Error::PlaintextModulusNotCoprime`].
    pub fn encode_matrix(
        &self,
        sum: AutomorphismSum,
        factor: Unit,
        weight: impl Fn(usize, usize) -> Option<PlainPoly>,
    ) -> Result<EncodedMatrix> {
        let (params, t) = (self.params(), factor.modulus());
        params.check_modulus(t)?;
        let scaled = |j, b| weight(j, b).map(|weight| weight.scaled(factor.value()));
        let known = |j| {
            let of = |(b, g): (usize, &GaloisElement)| {
                let switched = g.0 != 1;
                scaled(j, b).map(|w| Weight { norms: PlainNorms::of(t, w.coeffs()), switched })
            };
            sum.baby.iter().enumerate().filter_map(of).collect()
        };
        let stages = (0..sum.stages).map(known).collect();
        let several = (sum.stages > 1).then_some(sum.giant);
        let steps: Vec<_> = sum.baby.iter().copied().chain(several).collect();
        let tier = self.keys().tier(params.rlwe(), sum.level, &steps);
        let diagonals = self.inner.encode_diagonals(sum, scaled, |weight, limbs| {
            let ring = self.rules().ring(t);
            match_rings(OP, (weight.modulus(), weight.log_n()), ring)?;
            Ok(lifted(params, limbs, &weight, Unit::one(t), false))
        })?;
        Ok(EncodedMatrix { diagonals, factor, tier, stages })
    }

    /// The sum of automorphisms of each of `inputs`, rescaled, in one pass over keys and matrix.
    /// A ciphertext above the level of the matrix is brought to it.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `matrix - 1` | `a matrix / divisor` | every step at the level of the matrix | 1 decomposition, a key product a baby step, a key switch a stage but one |
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`]; [`Error::NoiseExhausted`]; [`Error::LevelOutOfRange`] for a
    /// ciphertext below the level of the matrix; [`Error::LevelExhausted`];
    /// [`Error::MissingGaloisKey`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn transform_many(
        &self,
        inputs: &[&Ciphertext],
        matrix: &EncodedMatrix,
    ) -> Result<Vec<Ciphertext>> {
        let form = |input: &&Ciphertext| self.transformed(self.form(input)?, matrix);
        let forms = inputs.iter().map(form).collect::<Result<_>>()?;
        let inner: Vec<_> = inputs.iter().map(|input| &input.inner).collect();
        Ok(Ciphertext::all(self.inner.transform_many(&inner, &matrix.diagonals)?, forms))
    }

    fn transformed(&self, a: Form, matrix: &EncodedMatrix) -> Result<Form> {
        let (rules, level) = (self.rules(), matrix.sum().level);
        let [left, right] = [a.factor, matrix.factor].map(|unit| rules.ring(unit.modulus()));
        match_rings(OP, left, right)?;
        let a = rules.dropped(a, level)?;
        let model = NoiseModel::new(self.params().rlwe(), matrix.factor.modulus());
        let switch = model.key_switch(level, matrix.tier);
        let giants = (1..matrix.stages.len()).map(|_| switch);
        let weights = matrix.stages.iter().flatten().map(|weight| {
            let image = if weight.switched { a.noise + switch } else { a.noise };
            model.product_plain(image, weight.norms)
        });
        let noise = weights.chain(giants).reduce(|sum, next| model.sum(sum, next));
        let noise = noise.ok_or_else(|| Error::Circuit(format!("{OP}: all weights are zero")))?;
        let form = Form { level, factor: a.factor * matrix.factor, noise };
        rules.rescaled(OP, rules.checked(OP, form)?)
    }
}
