use super::{
    CoefficientOf, ConstantOf, Ops, ScaleOf, VectorOf,
    linear::LinearPlan,
    ops::{ArgumentError, Extremes},
};
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    rlwe::{GaloisElement, Level, Levels, ProductSum, Scale as _},
};

/// Runs one circuit on several ciphertexts at once, operation by operation.
///
/// It is an evaluator whose ciphertexts are each a [`Batch`], all of one length. Products reach the
/// inner evaluator together, through [`Ops::mul_many`] and similar methods, and can share the
/// reading of a key. The results equal the results of separate runs.
///
/// ```
/// use sudare::ckks::{Chain, Complex, Scale};
/// use sudare::circuits::{LockStep, Trace, ckks::sim};
/// use sudare::rlwe::Level;
///
/// let e = sim::Evaluator::new(4, Chain::new(vec![], vec![50.0]));
/// let encrypt = |re| e.encrypt(&[Complex::new(re, 0.0)], Level(0), Scale::from_log2(30.0));
/// let sum = Trace::inner_sum(4, 1, 8)?.doubling();
/// let sums = LockStep::new(&e).run(&[encrypt(1.0)?, encrypt(2.0)?], |e, x| sum.run(e, x))?;
/// assert_eq!((sums[0].slots[0].re, sums[1].slots[0].re), (8.0, 16.0));
/// # Ok::<(), sudare::Error>(())
/// ```
#[derive(Debug)]
pub struct LockStep<'e, E>(pub(super) &'e E);

impl<'e, E: Ops> LockStep<'e, E> {
    /// Makes a lock step over ciphertexts of `e`.
    #[must_use]
    pub fn new(e: &'e E) -> Self {
        Self(e)
    }

    /// Applies `circuit` to `xs`. Ciphertexts at higher levels are first brought to the lowest
    /// level. Without ciphertexts there are no results.
    ///
    /// # Errors
    /// [`Error::ScaleMismatch`] if scales differ, and errors of the circuit.
    pub fn run(
        &self,
        xs: &[E::Ct],
        circuit: impl FnOnce(&Self, &Batch<E::Ct>) -> Result<Batch<E::Ct>>,
    ) -> Result<Vec<E::Ct>> {
        match self.gather(xs)? {
            Some(xs) => Ok(circuit(self, &xs)?.0),
            None => Ok(Vec::new()),
        }
    }

    /// Returns `xs` at their lowest level, or `None` without ciphertexts.
    ///
    /// # Errors
    /// [`Error::ScaleMismatch`] if scales differ.
    pub(super) fn gather(&self, xs: &[E::Ct]) -> Result<Option<Batch<E::Ct>>> {
        let e = self.0;
        let Some(level) = xs.iter().map(|x| e.level(x)).min() else { return Ok(None) };
        let mut xs = Batch(xs.to_vec());
        let scale = self.scale(&xs);
        for x in &mut xs.0 {
            // The first ciphertext stands for all of them when a circuit asks for level or scale.
            scale.check_matches(e.scale(x), "lock step")?;
            if e.level(x) != level {
                e.drop_to(x, level)?;
            }
        }
        Ok(Some(xs))
    }

    pub(super) fn each(
        &self,
        a: &Batch<E::Ct>,
        f: impl Fn(&E, &E::Ct) -> Result<E::Ct>,
    ) -> Result<Batch<E::Ct>> {
        Ok(Batch(a.0.iter().map(|a| f(self.0, a)).collect::<Result<_>>()?))
    }

    fn paired(
        &self,
        a: &Batch<E::Ct>,
        b: &Batch<E::Ct>,
        f: impl Fn(&E, &E::Ct, &E::Ct) -> Result<E::Ct>,
    ) -> Result<Batch<E::Ct>> {
        Ok(Batch(a.0.iter().zip(&b.0).map(|(a, b)| f(self.0, a, b)).collect::<Result<_>>()?))
    }
}

/// One or more ciphertexts of the same level and scale.
#[derive(Debug, Clone)]
pub struct Batch<C>(Vec<C>);

impl<C> Batch<C> {
    /// Returns the first ciphertext, which represents all where they agree.
    pub(super) fn first(&self) -> &C {
        &self.0[0]
    }

    /// Returns references to all ciphertexts.
    pub(super) fn refs(&self) -> Vec<&C> {
        self.0.iter().collect()
    }

    /// Returns the ciphertexts.
    pub(super) fn into_inner(self) -> Vec<C> {
        self.0
    }

    /// Appends the ciphertexts of another batch.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Splits a [`Batch::join`] of two batches of equal length.
    pub(super) fn halves(mut self) -> [Self; 2] {
        let second = self.0.split_off(self.0.len() / 2);
        [self, Self(second)]
    }

    /// Applies `f` to each ciphertext.
    pub(super) fn map(self, f: impl FnMut(C) -> C) -> Self {
        Self(self.0.into_iter().map(f).collect())
    }

    /// Makes a batch of an evaluator's results.
    pub(super) fn of(results: Result<Vec<C>>) -> Result<Self> {
        results.map(Self)
    }

    /// Pairs the ciphertexts of two batches.
    fn pairs<'a>(&'a self, other: &'a Self) -> Vec<(&'a C, &'a C)> {
        self.0.iter().zip(&other.0).collect()
    }
}

impl<E: Ops> Ops for LockStep<'_, E> {
    type Algebra = E::Algebra;
    type Ct = Batch<E::Ct>;
    type Matrix = E::Matrix;

    fn log_n(&self) -> u32 {
        self.0.log_n()
    }
    fn levels(&self) -> Levels {
        self.0.levels()
    }
    fn divisor(&self, like: &Self::Ct, level: Level) -> ScaleOf<Self> {
        self.0.divisor(like.first(), level)
    }
    fn level(&self, a: &Self::Ct) -> Level {
        self.0.level(a.first())
    }
    fn scale(&self, a: &Self::Ct) -> ScaleOf<Self> {
        self.0.scale(a.first())
    }
    fn with_scale(&self, a: &Self::Ct, scale: ScaleOf<Self>) -> Result<Self::Ct> {
        self.each(a, |e, a| e.with_scale(a, scale))
    }
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.paired(a, b, E::add)
    }
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.paired(a, b, E::sub)
    }
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        Batch::of(self.0.mul_many(&a.pairs(b)))
    }
    fn mul_rescale(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        Batch::of(self.0.mul_rescale_many(&a.pairs(b)))
    }
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct> {
        // Without products, the evaluator rejects the sum.
        let count = sum.products.first().map_or(1, |(a, _)| a.0.len());
        let of = |k: usize| ProductSum {
            products: sum.products.iter().map(|(a, b)| (&a.0[k], &b.0[k])).collect(),
            addend: sum.addend.map(|c| &c.0[k]),
        };
        Batch::of(self.0.mul_sum_rescale_many(&(0..count).map(of).collect::<Vec<_>>()))
    }
    fn add_const(&self, a: &Self::Ct, c: ConstantOf<Self>) -> Result<Self::Ct> {
        self.each(a, |e, a| e.add_const(a, c))
    }
    fn mul_const(
        &self,
        a: &Self::Ct,
        c: ConstantOf<Self>,
        scale: ScaleOf<Self>,
    ) -> Result<Self::Ct> {
        self.each(a, |e, a| e.mul_const(a, c, scale))
    }
    fn mul_const_sum(
        &self,
        terms: &[(&Self::Ct, CoefficientOf<Self>, ScaleOf<Self>)],
    ) -> Result<Self::Ct> {
        // Without terms, the evaluator rejects the sum.
        let count = terms.first().map_or(1, |(a, ..)| a.0.len());
        let of = |k| terms.iter().map(|(a, c, scale)| (&a.0[k], *c, *scale)).collect::<Vec<_>>();
        Batch::of((0..count).map(|k| self.0.mul_const_sum(&of(k))).collect())
    }
    fn add_plain(&self, a: &Self::Ct, values: &VectorOf<Self>) -> Result<Self::Ct> {
        self.each(a, |e, a| e.add_plain(a, values))
    }
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &VectorOf<Self>,
        scale: ScaleOf<Self>,
    ) -> Result<Vec<Self::Ct>> {
        xs.iter().map(|a| Batch::of(self.0.mul_plain_many(&a.refs(), values, scale))).collect()
    }
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()> {
        a.0.iter_mut().try_for_each(|a| self.0.rescale_assign(a))
    }
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()> {
        a.0.iter_mut().try_for_each(|a| self.0.drop_to(a, level))
    }
    fn match_scale(&self, a: &Self::Ct, level: Level, scale: ScaleOf<Self>) -> Result<Self::Ct> {
        self.each(a, |e, a| e.match_scale(a, level, scale))
    }
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct> {
        self.each(a, |e, a| e.automorphism(a, g))
    }
    fn sum_automorphisms(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        self.each(a, |e, a| e.sum_automorphisms(a, groups))
    }
    fn prepare(&self, plan: &LinearPlan<E::Algebra>) -> Result<Self::Matrix> {
        self.0.prepare(plan)
    }
    fn transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct> {
        Batch::of(self.0.transform_many(&a.refs(), matrix))
    }
    fn within(&self, a: Self::Ct, most: f64) -> Self::Ct {
        a.map(|a| self.0.within(a, most))
    }
    fn argument(&self, a: Self::Ct, p: &Extremes) -> Result<(Self::Ct, Vec<ArgumentError>)> {
        let arguments = a.0.into_iter().map(|a| self.0.argument(a, p));
        let arguments: Vec<_> = arguments.collect::<Result<_>>()?;
        let (a, errors): (_, Vec<_>) = arguments.into_iter().unzip();
        Ok((Batch(a), errors.concat()))
    }
    fn image(&self, y: Self::Ct, errors: &[ArgumentError], p: &Extremes) -> Self::Ct {
        // One error for each ciphertext, in the order of `argument`.
        let mut errors = errors.chunks(1);
        y.map(|y| self.0.image(y, errors.next().unwrap_or_default(), p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error,
        circuits::ckks::{ComplexOps as _, Polynomial, sim},
        ckks::{Chain, Complex, Scale},
    };

    fn evaluator() -> sim::Evaluator {
        let log2_q = (0..8).map(|level| 60.0 + 40.0 * f64::from(level)).collect();
        sim::Evaluator::new(5, Chain::new(vec![Scale::from_log2(40.0); 7], log2_q))
    }

    #[test]
    fn results_are_those_of_single_runs() {
        let e = evaluator();
        let scale = Scale::from_log2(40.0);
        let plan = Polynomial::chebyshev(f64::exp, -1.0..1.0, 9).unwrap();
        let plan = plan.plan(e.chain(), Level(6), scale, scale).unwrap();
        let xs: Vec<_> = [(0.5, 7), (-0.25, 6), (1.0, 7)]
            .map(|(re, level)| e.encrypt(&[Complex::new(re, 0.0)], Level(level), scale).unwrap())
            .to_vec();
        let singles: Vec<_> = xs.iter().map(|x| plan.run(&e, x).unwrap()).collect();
        assert_eq!(e.counts().products, 3 * plan.products() as u64);
        assert_eq!(plan.run_many(&e, &xs).unwrap(), singles);
        assert_eq!(e.counts().products, 6 * plan.products() as u64);
        assert_eq!(plan.run_many(&e, &[]), Ok(vec![]));
    }

    #[test]
    fn unequal_scales_and_low_levels_are_refused() {
        let e = evaluator();
        let scale = Scale::from_log2(40.0);
        let plan = Polynomial::monomial(vec![0.0, 0.0, 1.0]).unwrap();
        let plan = plan.plan(e.chain(), Level(3), scale, scale).unwrap();
        let encrypt = |level, bits| e.encrypt(&[], Level(level), Scale::from_log2(bits)).unwrap();
        let found = plan.run_many(&e, &[encrypt(3, 40.0), encrypt(3, 39.0)]);
        let [left, right] = [40.0, 39.0];
        assert_eq!(found, Err(Error::ScaleMismatch { op: "lock step", left, right, levels: None }));
        let found = plan.run_many(&e, &[encrypt(3, 40.0), encrypt(2, 40.0)]);
        assert_eq!(found, Err(Error::LevelOutOfRange { found: Level(3), max: Level(2) }));
    }
}
