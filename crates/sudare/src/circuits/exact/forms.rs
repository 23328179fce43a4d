use super::{IntegerOps, IntegerSlots, LinearPlan};
use crate::{
    Result,
    circuits::Ops,
    exact::{
        Form, Modulus, Params, PlainNorms, PlainPoly, Unit,
        rules::{FormSum, Rules, Tensor, match_rings},
    },
    rlwe::{AutomorphismSum, GaloisElement, KeyRequest, Level, Levels, ProductSum},
};

const OP: &str = "linear transform";

/// Runs circuits on forms instead of ciphertexts: results have the levels, factors and bounds of
/// errors that an [`exact::Evaluator`](crate::exact::Evaluator) with the requested keys would give
/// them, and what it would refuse is refused. There need not be a key.
pub(super) struct FormEvaluator<'a> {
    params: &'a Params,
    keys: &'a KeyRequest,
}

/// What is known of an encoded matrix.
pub(super) struct MatrixNorms {
    factor: Unit,
    sum: AutomorphismSum,
    /// Of each stage, of all its weights together.
    stages: Vec<PlainNorms>,
}

impl<'a> FormEvaluator<'a> {
    /// Under these parameters, with keys as requested, which must be enough.
    pub(super) fn new(params: &'a Params, keys: &'a KeyRequest) -> Self {
        Self { params, keys }
    }

    /// A fresh encryption under the public key.
    ///
    /// # Errors
    /// What encryption refuses.
    pub(super) fn encrypt_at(&self, level: Level, factor: Unit) -> Result<Form> {
        self.rules().encrypted(level, factor, false)
    }

    fn rules(&self) -> Rules<'_> {
        Rules::new(self.params)
    }

    fn key_level(&self, level: Level, needed: &KeyRequest) -> Option<Level> {
        self.keys.key_level(self.params.rlwe().levels().above(level), needed)
    }

    fn key_level_of<'g>(
        &self,
        level: Level,
        elements: impl IntoIterator<Item = &'g GaloisElement>,
    ) -> Option<Level> {
        let moved = elements.into_iter().filter(|g| g.0 != 1);
        self.key_level(
            level,
            &moved.fold(KeyRequest::new(), |keys, &g| keys.automorphism(g, level)),
        )
    }

    fn product_sum(&self, sum: &ProductSum<'_, Form>, rescale: bool) -> Result<Form> {
        let products = sum.products.iter().map(|&(&a, &b)| (a, b)).collect();
        let sum = FormSum { products, addend: sum.addend.copied() };
        let key_level = |level| self.key_level(level, &KeyRequest::new().relinearize(level));
        self.rules().product_sum(&sum, Tensor::Plain, key_level, rescale)
    }

    fn transformed(&self, a: Form, matrix: &MatrixNorms) -> Result<Form> {
        let (rules, sum) = (self.rules(), &matrix.sum);
        match_rings(OP, rules.ring(a.factor.modulus()), rules.ring(matrix.factor.modulus()))?;
        let giant = (sum.stages > 1).then_some(&sum.giant);
        let key_level = self.key_level_of(sum.level, sum.baby.iter().chain(giant));
        let form = rules.transformed(OP, a, sum.level, &matrix.stages, key_level)?;
        Ok(Form { factor: form.factor * matrix.factor, ..form })
    }
}

/// With the product of BGV.
impl Ops for FormEvaluator<'_> {
    type Algebra = IntegerSlots;
    type Ct = Form;
    type Matrix = MatrixNorms;

    fn log_n(&self) -> u32 {
        self.params.log_n()
    }
    fn levels(&self) -> Levels {
        self.params.rlwe().levels()
    }
    fn divisor(&self, like: &Form, level: Level) -> Unit {
        let t = like.factor.modulus();
        self.params.divisor(level, t).unwrap_or(Unit::one(t))
    }
    fn level(&self, a: &Form) -> Level {
        a.level
    }
    fn scale(&self, a: &Form) -> Unit {
        a.factor
    }
    fn with_scale(&self, a: &Form, factor: Unit) -> Result<Form> {
        Ok(Form { factor, ..*a })
    }
    fn add(&self, a: &Form, b: &Form) -> Result<Form> {
        self.rules().sum("add", *a, *b)
    }
    fn sub(&self, a: &Form, b: &Form) -> Result<Form> {
        self.rules().sum("subtract", *a, *b)
    }
    fn mul(&self, a: &Form, b: &Form) -> Result<Form> {
        self.product_sum(&ProductSum::of(a, b), false)
    }
    fn mul_rescale(&self, a: &Form, b: &Form) -> Result<Form> {
        self.product_sum(&ProductSum::of(a, b), true)
    }
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Form>) -> Result<Form> {
        self.product_sum(sum, true)
    }
    fn add_const(&self, a: &Form, _: i128) -> Result<Form> {
        self.rules().sum_plain("add a constant", *a, self.rules().ring(a.factor.modulus()))
    }
    fn mul_const(&self, a: &Form, c: i128, scale: Unit) -> Result<Form> {
        self.mul_const_sum(&[(a, c, scale)])
    }
    fn mul_const_sum(&self, terms: &[(&Form, i128, Unit)]) -> Result<Form> {
        let term = |&(a, c, unit): &(&Form, i128, Unit)| {
            let t = unit.modulus();
            let product = Form { factor: a.factor * unit, ..*a };
            (product, t.mul(unit.value(), t.reduce_i128(c)))
        };
        self.rules().constant_sum(&terms.iter().map(term).collect::<Vec<_>>())
    }
    fn add_plain(&self, a: &Form, values: &PlainPoly) -> Result<Form> {
        self.rules().sum_plain("add a plaintext", *a, (values.modulus(), values.log_n()))
    }
    fn mul_plain_many(&self, xs: &[&Form], values: &PlainPoly, scale: Unit) -> Result<Vec<Form>> {
        let ring = (values.modulus(), values.log_n());
        let norms = PlainNorms::of(ring.0, values.scaled(scale.value()).coeffs());
        let product = |a: &&Form| {
            let form = self.rules().product_plain(**a, ring, norms)?;
            Ok(Form { factor: form.factor * scale, ..form })
        };
        xs.iter().map(product).collect()
    }
    fn rescale_assign(&self, a: &mut Form) -> Result<()> {
        *a = self.rules().rescaled("rescale", *a)?;
        Ok(())
    }
    fn drop_to(&self, a: &mut Form, level: Level) -> Result<()> {
        *a = self.rules().dropped(*a, level)?;
        Ok(())
    }
    fn match_scale(&self, a: &Form, level: Level, factor: Unit) -> Result<Form> {
        let (rules, t) = (self.rules(), a.factor.modulus());
        if factor.matches(a.factor) {
            return rules.dropped(*a, level);
        }
        let above = Level(level.0 + u32::from(level < a.level));
        let product = rules.dropped(*a, above)?;
        let divisor = if above > level { self.params.divisor(above, t)? } else { Unit::one(t) };
        let constant = (factor * divisor / a.factor).value();
        let product =
            Form { factor: factor * divisor, ..rules.product_constant(product, constant)? };
        if above > level { rules.rescaled("rescale", product) } else { Ok(product) }
    }
    fn automorphism(&self, a: &Form, g: GaloisElement) -> Result<Form> {
        const OP: &str = "automorphism";
        if g.0 == 1 {
            return Ok(*a);
        }
        let a = self.rules().negated(OP, *a)?;
        self.rules().sum_automorphisms(OP, a, (1, 1), self.key_level_of(a.level, &[g]))
    }
    fn sum_automorphisms(&self, a: &Form, groups: &[&[GaloisElement]]) -> Result<Form> {
        let key_level = self.key_level_of(a.level, groups.iter().copied().flatten());
        groups.iter().try_fold(*a, |form, group| {
            let switches = group.iter().filter(|g| g.0 != 1).count();
            self.rules().sum_automorphisms(
                "sum of images",
                form,
                (group.len(), switches),
                key_level,
            )
        })
    }
    fn prepare(&self, plan: &LinearPlan) -> Result<MatrixNorms> {
        let (factor, sum) = (plan.weight_scale(), plan.sum().clone());
        let norms = |weight: PlainPoly| {
            PlainNorms::of(factor.modulus(), weight.scaled(factor.value()).coeffs())
        };
        let stage = |j| {
            let weights = (0..sum.baby.len()).filter_map(|b| plan.weight(j, b));
            weights.map(norms).fold(PlainNorms::NONE, |all, norms| all + norms)
        };
        let stages = (0..sum.stages).map(stage).collect();
        Ok(MatrixNorms { factor, sum, stages })
    }
    fn transform(&self, a: &Form, matrix: &MatrixNorms) -> Result<Form> {
        self.transformed(*a, matrix)
    }
}

impl IntegerOps for FormEvaluator<'_> {
    fn with_plaintext_modulus(&self, a: &Form, t: Modulus) -> Result<Form> {
        self.rules().with_modulus(*a, t)
    }
    fn raise(&self, a: &Form, to: Level, t: Modulus, weight: u32) -> Result<Form> {
        self.rules().raised(*a, to, t, weight)
    }
    fn raise_transform_many(&self, xs: &[&Form], matrix: &MatrixNorms) -> Result<Vec<Form>> {
        let (rules, sum) = (self.rules(), &matrix.sum);
        let weight = sum.raise.map_or(0, |raise| raise.weight);
        let form = |a: &&Form| {
            let form = rules.raised(**a, sum.level, matrix.factor.modulus(), weight)?;
            let form = rules.raised_sum(OP, form, &matrix.stages)?;
            Ok(Form { factor: form.factor * matrix.factor, ..form })
        };
        xs.iter().map(form).collect()
    }
}
