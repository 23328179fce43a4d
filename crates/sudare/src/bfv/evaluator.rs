use super::tensor::Auxiliary;
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    exact::{self, Ciphertext, Params, Tensor, Unit},
    rlwe::{EvaluationKeys, Level, ProductSum},
};
use std::{borrow::Cow, sync::Arc};

/// Computes on ciphertexts: the operations of [`exact::Evaluator`], with the products of BFV.
///
/// Operands of different levels are brought to the lower level by rescaling, so that sums of
/// products and inputs need no care. Different factors, which products of BGV have, are aligned as
/// in [`exact::Evaluator`].
#[derive(Clone)]
pub struct Evaluator {
    exact: exact::Evaluator,
    auxiliary: Arc<Auxiliary>,
}

impl core::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Evaluator").field("exact", &self.exact).finish_non_exhaustive()
    }
}

impl Evaluator {
    /// Makes an evaluator that holds `keys`, and tables for auxiliary primes with about as many
    /// bits as the modulus.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::InvalidSpec`] for more primes than the ring has room
    /// for.
    pub fn new(params: &Params, keys: impl Into<Arc<EvaluationKeys>>) -> Result<Self> {
        let exact = exact::Evaluator::new(params, keys)?;
        Ok(Self { exact, auxiliary: Arc::new(Auxiliary::new(params)?) })
    }

    /// Operations common to the schemes: automorphisms, operations with plaintexts and constants,
    /// rescaling.
    #[must_use]
    pub fn exact(&self) -> &exact::Evaluator {
        &self.exact
    }

    /// Returns the quantity that products multiply and rescaling keeps: `-f / Q mod t`, with the
    /// factor `f` and the modulus `Q` of the ciphertext. It is the scale of [`Tensor::Scaled`].
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn factor(&self, a: &Ciphertext) -> Result<Unit> {
        let form = self.exact.form(a)?;
        Tensor::Scaled.scale(self.exact.params(), form.level, form.factor)
    }

    /// Brings the ciphertext down to `level` by rescaling, which keeps the plaintext and
    /// [`Evaluator::factor`].
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `level` is above the level of `a`; [`Error::NoiseExhausted`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn rescale_to(&self, a: &Ciphertext, level: Level) -> Result<Ciphertext> {
        let params = self.exact.params().rlwe();
        self.exact.form(a)?;
        params.levels().drop(a.level(), level)?;
        let mut out = a.clone();
        (level.0..a.level().0).try_for_each(|_| self.exact.rescale_assign(&mut out))?;
        Ok(out)
    }

    /// Returns each ciphertext at the lowest level of all.
    pub(crate) fn aligned<'a>(
        &self,
        all: impl Iterator<Item = &'a Ciphertext>,
    ) -> Result<Vec<Cow<'a, Ciphertext>>> {
        let all: Vec<_> = all.collect();
        let level = all.iter().map(|a| a.level()).min().unwrap_or(Level(0));
        self.lowered(&all, level)
    }

    /// Returns each ciphertext at `level`, or at its own level if that is lower.
    pub(crate) fn lowered<'a>(
        &self,
        all: &[&'a Ciphertext],
        level: Level,
    ) -> Result<Vec<Cow<'a, Ciphertext>>> {
        let lowered = |&a: &&'a Ciphertext| match a.level() <= level {
            true => Ok(Cow::Borrowed(a)),
            false => self.rescale_to(a, level).map(Cow::Owned),
        };
        all.iter().map(lowered).collect()
    }

    /// Adds.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | of the lower operand | none | 2 row sums per limb at one level |
    ///
    /// # Errors
    /// See [`exact::Evaluator::add`].
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let operands = self.aligned([a, b].into_iter())?;
        self.exact.add(&operands[0], &operands[1])
    }

    /// Subtracts; see [`Evaluator::add`].
    ///
    /// # Errors
    /// See [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let operands = self.aligned([a, b].into_iter())?;
        self.exact.sub(&operands[0], &operands[1])
    }

    /// Multiplies and relinearises, without rescaling.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | `a b` | relinearisation | 1 key switch, 6 changes of basis, 3 divisions |
    ///
    /// # Errors
    /// [`Error::MissingRelinearizationKey`]; [`Error::NoiseExhausted`];
    /// [`Error::PlaintextMismatch`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.mul_sum(&ProductSum::of(a, b), false)
    }

    /// Multiplies, relinearises and rescales at the cost of [`Evaluator::mul`]. Later operations
    /// have fewer limbs.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; errors of [`Evaluator::mul`].
    pub fn mul_rescale(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.mul_sum(&ProductSum::of(a, b), true)
    }

    /// Sums products of one factor and relinearises them with one key switch. If `rescale` is set,
    /// also rescales at no further cost.
    ///
    /// # Errors
    /// [`Error::Circuit`] without products; [`Error::FactorMismatch`]; [`Error::LevelExhausted`];
    /// errors of [`Evaluator::mul`].
    pub fn mul_sum(&self, sum: &ProductSum<'_, Ciphertext>, rescale: bool) -> Result<Ciphertext> {
        let operands = self.aligned(sum.operands())?;
        let mut operands = operands.iter().map(|a| &**a);
        // The lowered operands are in the order of the originals.
        let mut next = || operands.next();
        let products = sum.products.iter().map_while(|_| Some((next()?, next()?))).collect();
        let sum = ProductSum { products, addend: next() };
        let forms =
            self.exact.product_forms(core::slice::from_ref(&sum), Tensor::Scaled, rescale)?;
        let params = self.exact.params().rlwe();
        let inner = sum.map(|a| &a.inner);
        let Some((&(first, _), form)) = sum.products.first().zip(forms.into_iter().next()) else {
            return Err(crate::Error::Circuit("multiply: at least one product is needed".into()));
        };
        let level = first.level();
        let t = first.plaintext_modulus();
        let tensor = self.auxiliary.tensor(params, &inner, level, t);
        let result = self.exact.inner.relinearize(&tensor, level, rescale)?;
        Ok(Ciphertext::new(result, form))
    }
}
