use super::LimbSet;
use core::marker::PhantomData;
use sudare_arith::mem::Buf;

/// How limbs are to be read: [`Coeff`] or [`Eval`]. Sealed.
pub trait Repr: sealed::Sealed + Copy + Send + Sync + 'static {}

/// Coefficients, in order.
#[derive(Debug, Clone, Copy)]
pub struct Coeff;

/// Evaluations, in the order of [`sudare_arith::NttTable`].
#[derive(Debug, Clone, Copy)]
pub struct Eval;

impl Repr for Coeff {}
impl Repr for Eval {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Coeff {}
    impl Sealed for super::Eval {}
}

/// A polynomial: one buffer, limb-major, chain primes before special primes.
///
/// Residues are canonical between calls.
pub struct RnsPoly<R: Repr> {
    limbs: LimbSet,
    n: usize,
    buf: Buf,
    repr: PhantomData<R>,
}

impl<R: Repr> RnsPoly<R> {
    pub(super) fn new(limbs: LimbSet, n: usize, buf: Buf) -> Self {
        debug_assert!(buf.len() >= limbs.count() * n);
        Self { limbs, n, buf, repr: PhantomData }
    }

    /// The primes carried.
    #[must_use]
    pub fn limbs(&self) -> LimbSet {
        self.limbs
    }

    /// Coefficients, `N`.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// Residues modulo the `i`-th of them.
    #[must_use]
    pub fn row(&self, i: usize) -> &[u64] {
        &self.buf[i * self.n..][..self.n]
    }

    /// Residues modulo the `i`-th of them.
    #[must_use]
    pub fn row_mut(&mut self, i: usize) -> &mut [u64] {
        &mut self.buf[i * self.n..][..self.n]
    }

    /// All rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        self.buf.chunks_exact(self.n).take(self.limbs.count())
    }

    /// All rows, in order.
    pub fn rows_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [u64]> {
        self.buf.chunks_exact_mut(self.n).take(self.limbs.count())
    }

    /// The words of all rows.
    #[must_use]
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.buf[..self.limbs.count() * self.n]
    }

    /// Forgets all chain primes but the first `q`, and the special primes.
    pub fn truncate(&mut self, q: usize) {
        debug_assert!(q <= self.limbs.q());
        self.limbs = LimbSet::chain(q);
    }

    /// Whether it is wiped when dropped.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.buf.is_secret()
    }

    pub(super) fn cast<S: Repr>(self) -> RnsPoly<S> {
        RnsPoly { limbs: self.limbs, n: self.n, buf: self.buf, repr: PhantomData }
    }
}

impl RnsPoly<Coeff> {
    /// For one whose rows were transformed one by one.
    pub(crate) fn assume_eval(self) -> RnsPoly<Eval> {
        self.cast()
    }
}

/// A copy in a buffer of the same pool, wiped on drop if this one is.
impl<R: Repr> Clone for RnsPoly<R> {
    fn clone(&self) -> Self {
        let words = self.limbs.count() * self.n;
        let pool = self.buf.pool();
        let mut buf = if self.buf.is_secret() { pool.take_secret(words) } else { pool.take(words) };
        buf.copy_from_slice(&self.buf[..words]);
        Self { limbs: self.limbs, n: self.n, buf, repr: PhantomData }
    }
}
