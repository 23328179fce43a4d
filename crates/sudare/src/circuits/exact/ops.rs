use crate::{
    Error, Result, bfv,
    circuits::{Algebra, Batch, Coefficient, LockStep, Ops, linear::LinearPlan},
    exact::{self, Modulus, PlainPoly, Tensor, Unit, rules::match_rings},
    rlwe::{GaloisElement, Level, Levels, ProductSum},
};

/// Slots of integers modulo a prime power, at factors that are units: the algebra of BGV and BFV.
/// Constants and coefficients are integers, taken modulo the plaintext modulus of their
/// ciphertexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegerSlots {}

impl Algebra for IntegerSlots {
    type Scale = Unit;
    type Constant = i128;
    type Coefficient = i128;
    type Vector = PlainPoly;

    fn fits(vector: &PlainPoly, slots: usize) -> Result<bool> {
        // If there are fewer slots than the ring has, the slots of each row repeat.
        Ok(2 * slots <= 1 << vector.log_n() && Self::rotated_right(vector, slots) == *vector)
    }

    fn log_gap(vector: &PlainPoly, _: u32) -> u32 {
        let used = vector.coeffs().iter().enumerate().filter(|(_, c)| **c != 0);
        used.fold(vector.log_n() - 1, |gap, (i, _)| gap.min(i.trailing_zeros()))
    }

    fn rotated_right(vector: &PlainPoly, k: usize) -> PlainPoly {
        vector.image(GaloisElement::rotation(vector.log_n(), -(k as i64)))
    }
}

impl Coefficient for i128 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
}

/// Operations of circuits on slots of integers in addition to [`Ops`]: changes of the plaintext
/// modulus.
pub trait IntegerOps: Ops<Algebra = IntegerSlots> {
    /// Interprets the same ciphertext modulo another power of the prime; see
    /// [`exact::Evaluator::with_plaintext_modulus`].
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a power of another prime; errors of the evaluator.
    fn with_plaintext_modulus(&self, a: &Self::Ct, t: Modulus) -> Result<Self::Ct>;

    /// Rounds a ciphertext at level 0 to the modulus `t`, a higher power of the prime, and raises
    /// it to level `to`, through an ephemeral secret of at most this weight; see
    /// [`exact::Evaluator::raise`]. The result has the scale of the factor 1 there
    /// ([`Tensor::scale`]).
    ///
    /// # Errors
    /// [`Error::EphemeralSecretMismatch`]; errors of the evaluator.
    fn raise(&self, a: &Self::Ct, to: Level, t: Modulus, weight: u32) -> Result<Self::Ct>;

    /// Runs [`IntegerOps::raise`] to the level of a matrix planned with
    /// [`LinearTransform::plan_raised`](crate::circuits::linear::LinearTransform::plan_raised), and
    /// multiplies by the matrix.
    ///
    /// # Errors
    /// See [`IntegerOps::raise`].
    fn raise_transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct> {
        Ok(self.raise_transform_many(&[a], matrix)?.remove(0))
    }

    /// Runs [`IntegerOps::raise_transform`] on each of `xs`.
    ///
    /// # Errors
    /// See [`IntegerOps::raise`].
    fn raise_transform_many(
        &self,
        xs: &[&Self::Ct],
        matrix: &Self::Matrix,
    ) -> Result<Vec<Self::Ct>>;
}

impl IntegerOps for exact::Evaluator {
    fn with_plaintext_modulus(&self, a: &Self::Ct, t: Modulus) -> Result<Self::Ct> {
        self.with_plaintext_modulus(a, t)
    }
    fn raise(&self, a: &Self::Ct, to: Level, t: Modulus, weight: u32) -> Result<Self::Ct> {
        check_secret(self, weight)?;
        self.raise(a, to, t)
    }
    fn raise_transform_many(
        &self,
        xs: &[&Self::Ct],
        matrix: &Self::Matrix,
    ) -> Result<Vec<Self::Ct>> {
        check_secret(self, matrix.sum().raise.map_or(0, |raise| raise.weight))?;
        self.raise_transform_many(xs, matrix)
    }
}

impl<E: IntegerOps> IntegerOps for LockStep<'_, E> {
    fn with_plaintext_modulus(&self, a: &Self::Ct, t: Modulus) -> Result<Self::Ct> {
        self.each(a, |e, a| e.with_plaintext_modulus(a, t))
    }
    fn raise(&self, a: &Self::Ct, to: Level, t: Modulus, weight: u32) -> Result<Self::Ct> {
        self.each(a, |e, a| e.raise(a, to, t, weight))
    }
    fn raise_transform_many(
        &self,
        xs: &[&Self::Ct],
        matrix: &Self::Matrix,
    ) -> Result<Vec<Self::Ct>> {
        xs.iter().map(|x| Batch::of(self.0.raise_transform_many(&x.refs(), matrix))).collect()
    }
}

impl IntegerOps for bfv::Evaluator {
    fn with_plaintext_modulus(&self, a: &Self::Ct, t: Modulus) -> Result<Self::Ct> {
        self.exact().with_plaintext_modulus(a, t)
    }
    fn raise(&self, a: &Self::Ct, to: Level, t: Modulus, weight: u32) -> Result<Self::Ct> {
        check_secret(self.exact(), weight)?;
        // Rescaled, not dropped: the scale of BFV depends on `Q`.
        self.exact().raise(&self.rescale_to(a, Level(0))?, to, t)
    }
    fn raise_transform_many(
        &self,
        xs: &[&Self::Ct],
        matrix: &Self::Matrix,
    ) -> Result<Vec<Self::Ct>> {
        let xs = self.lowered(xs, Level(0))?;
        let xs: Vec<_> = xs.iter().map(|x| &**x).collect();
        IntegerOps::raise_transform_many(self.exact(), &xs, matrix)
    }
}

/// Rejects keys that raise through an ephemeral secret that is not sparse enough for the circuit.
fn check_secret(e: &exact::Evaluator, needed: u32) -> Result<()> {
    let found = e.keys().raise.as_ref().map(|keys| keys.weight);
    match found {
        Some(weight) if weight <= needed => Ok(()),
        _ => Err(Error::EphemeralSecretMismatch { found, needed }),
    }
}

/// Operations with the product of BGV.
impl Ops for exact::Evaluator {
    type Algebra = IntegerSlots;
    type Ct = exact::Ciphertext;
    type Matrix = exact::EncodedMatrix;

    fn log_n(&self) -> u32 {
        self.params().log_n()
    }
    fn levels(&self) -> Levels {
        self.params().rlwe().levels()
    }
    fn divisor(&self, like: &Self::Ct, level: Level) -> Unit {
        // The divisor of an existing level. Another level returns the divisor of no plan.
        let t = like.plaintext_modulus();
        self.params().divisor(level, t).unwrap_or(Unit::one(t))
    }
    fn level(&self, a: &Self::Ct) -> Level {
        a.level()
    }
    fn scale(&self, a: &Self::Ct) -> Unit {
        a.factor()
    }
    fn with_scale(&self, a: &Self::Ct, scale: Unit) -> Result<Self::Ct> {
        self.with_factor(a, scale)
    }
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.add(a, b)
    }
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.sub(a, b)
    }
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.mul(a, b)
    }
    fn mul_rescale(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.mul_rescale(a, b)
    }
    fn mul_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        self.mul_sums(&products(pairs), false)
    }
    fn mul_rescale_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        self.mul_sums(&products(pairs), true)
    }
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct> {
        Ok(self.mul_sums(core::slice::from_ref(sum), true)?.remove(0))
    }
    fn mul_sum_rescale_many(&self, sums: &[ProductSum<'_, Self::Ct>]) -> Result<Vec<Self::Ct>> {
        self.mul_sums(sums, true)
    }
    fn add_const(&self, a: &Self::Ct, c: i128) -> Result<Self::Ct> {
        self.add_const(a, c)
    }
    fn mul_const(&self, a: &Self::Ct, c: i128, scale: Unit) -> Result<Self::Ct> {
        self.mul_scaled_sum(&[(a, c, scale)])
    }
    fn mul_const_sum(&self, terms: &[(&Self::Ct, i128, Unit)]) -> Result<Self::Ct> {
        self.mul_scaled_sum(terms)
    }
    fn add_plain(&self, a: &Self::Ct, values: &PlainPoly) -> Result<Self::Ct> {
        self.add_plain(a, values)
    }
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &PlainPoly,
        scale: Unit,
    ) -> Result<Vec<Self::Ct>> {
        self.mul_plain_many(xs, values, scale)
    }
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()> {
        self.rescale_assign(a)
    }
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()> {
        self.drop_to_assign(a, level)
    }
    fn match_scale(&self, a: &Self::Ct, level: Level, scale: Unit) -> Result<Self::Ct> {
        self.match_factor(a, level, scale)
    }
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct> {
        self.automorphism(a, g)
    }
    fn sum_automorphisms(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        self.sum_automorphisms(a, groups)
    }
    fn prepare(&self, plan: &LinearPlan<IntegerSlots>) -> Result<Self::Matrix> {
        self.encode_matrix(plan.weight_scale(), plan.sum().clone(), |j, b| plan.weight(j, b))
    }
    fn transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct> {
        self.transform(a, matrix)
    }
    fn transform_many(&self, xs: &[&Self::Ct], matrix: &Self::Matrix) -> Result<Vec<Self::Ct>> {
        self.transform_many(xs, matrix)
    }
}

fn products<'a, C>(pairs: &[(&'a C, &'a C)]) -> Vec<ProductSum<'a, C>> {
    pairs.iter().map(|&(a, b)| ProductSum::of(a, b)).collect()
}

/// Operations with the product of BFV: the scale is [`bfv::Evaluator::factor`].
impl Ops for bfv::Evaluator {
    type Algebra = IntegerSlots;
    type Ct = exact::Ciphertext;
    type Matrix = exact::EncodedMatrix;

    fn log_n(&self) -> u32 {
        self.exact().log_n()
    }
    fn levels(&self) -> Levels {
        self.exact().levels()
    }
    fn divisor(&self, like: &Self::Ct, _: Level) -> Unit {
        // Rescaling leaves the factor `-f / Q` alone.
        Unit::one(like.plaintext_modulus())
    }
    fn level(&self, a: &Self::Ct) -> Level {
        a.level()
    }
    fn scale(&self, a: &Self::Ct) -> Unit {
        // For a ciphertext that operations reject anyway, any value will do.
        self.factor(a).unwrap_or(a.factor())
    }
    fn with_scale(&self, a: &Self::Ct, scale: Unit) -> Result<Self::Ct> {
        let form = self.exact().form(a)?;
        let factor = Tensor::Scaled.factor(self.exact().params(), form.level, scale)?;
        self.exact().with_factor(a, factor)
    }
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.add(a, b)
    }
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.sub(a, b)
    }
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.mul(a, b)
    }
    fn mul_rescale(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.mul_rescale(a, b)
    }
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct> {
        self.mul_sum(sum, true)
    }
    fn add_const(&self, a: &Self::Ct, c: i128) -> Result<Self::Ct> {
        self.exact().add_const(a, c)
    }
    fn mul_const(&self, a: &Self::Ct, c: i128, scale: Unit) -> Result<Self::Ct> {
        self.exact().mul_scaled_sum(&[(a, c, scale)])
    }
    fn mul_const_sum(&self, terms: &[(&Self::Ct, i128, Unit)]) -> Result<Self::Ct> {
        let aligned = self.aligned(terms.iter().map(|&(a, ..)| a))?;
        let terms = aligned.iter().zip(terms).map(|(a, &(_, c, scale))| (&**a, c, scale));
        self.exact().mul_scaled_sum(&terms.collect::<Vec<_>>())
    }
    fn add_plain(&self, a: &Self::Ct, values: &PlainPoly) -> Result<Self::Ct> {
        self.exact().add_plain(a, values)
    }
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &PlainPoly,
        scale: Unit,
    ) -> Result<Vec<Self::Ct>> {
        self.exact().mul_plain_many(xs, values, scale)
    }
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()> {
        self.exact().rescale_assign(a)
    }
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()> {
        // BFV rescales where BGV drops primes, because its scale depends on `Q`.
        *a = self.rescale_to(a, level)?;
        Ok(())
    }
    fn match_scale(&self, a: &Self::Ct, level: Level, scale: Unit) -> Result<Self::Ct> {
        match_unit(self, a, level, scale)
    }
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct> {
        self.exact().automorphism(a, g)
    }
    fn sum_automorphisms(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        self.exact().sum_automorphisms(a, groups)
    }
    fn prepare(&self, plan: &LinearPlan<IntegerSlots>) -> Result<Self::Matrix> {
        self.exact().prepare(plan)
    }
    fn transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct> {
        Ok(self.transform_many(&[a], matrix)?.remove(0))
    }
    fn transform_many(&self, xs: &[&Self::Ct], matrix: &Self::Matrix) -> Result<Vec<Self::Ct>> {
        let xs = self.lowered(xs, matrix.sum().level)?;
        self.exact().transform_many(&xs.iter().map(|x| &**x).collect::<Vec<_>>(), matrix)
    }
}

/// Computes [`Ops::match_scale`] from the other operations, like
/// [`exact::Evaluator::match_factor`].
pub(super) fn match_unit<E: Ops<Algebra = IntegerSlots>>(
    e: &E,
    a: &E::Ct,
    level: Level,
    scale: Unit,
) -> Result<E::Ct> {
    let [found, needed] = [e.scale(a).modulus(), scale.modulus()].map(|t| (t, e.log_n()));
    match_rings("match_factor", found, needed)?;
    scale.check_unit()?;
    let mut x = a.clone();
    if scale.matches(e.scale(a)) {
        e.drop_to(&mut x, level)?;
        return Ok(x);
    }
    e.levels().drop(e.level(a), level)?;
    let lower = level < e.level(a);
    let above = Level(level.0 + u32::from(lower));
    e.drop_to(&mut x, above)?;
    let divisor = if lower { e.divisor(&x, above) } else { Unit::one(scale.modulus()) };
    let mut x = e.mul_const(&x, 1, scale * divisor / e.scale(&x))?;
    if lower {
        e.rescale_assign(&mut x)?;
    }
    Ok(x)
}
