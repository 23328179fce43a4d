use super::LimbSet;
use core::marker::PhantomData;
use std::sync::Arc;
use sudare_arith::mem::{Buf, Secrecy};

/// Representation of limbs: [`Coeff`] or [`Eval`]. Sealed.
pub trait Repr: sealed::Sealed + Copy + Send + Sync + 'static {}

/// Coefficients, in order.
#[derive(Debug, Clone, Copy)]
pub struct Coeff;

/// Evaluations, in the order of [`sudare_arith::NttTable`].
#[derive(Debug, Clone, Copy)]
pub struct Eval;

/// The state between the halves of a transform, as [`NttTable::forward_columns`] leaves
/// coefficients.
///
/// [`NttTable::forward_columns`]: sudare_arith::NttTable::forward_columns
#[derive(Debug, Clone, Copy)]
pub(crate) struct Half;

impl Repr for Coeff {}
impl Repr for Eval {}
impl Repr for Half {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Coeff {}
    impl Sealed for super::Eval {}
    impl Sealed for super::Half {}
}

/// A polynomial: one buffer, limb-major, chain primes before special primes.
///
/// Residues are canonical between calls. A clone shares the buffer until either is written to.
#[derive(Clone)]
pub struct RnsPoly<R: Repr> {
    limbs: LimbSet,
    n: usize,
    buf: Arc<Buf>,
    repr: PhantomData<R>,
}

/// Prints the shape: the residues may be secret.
impl<R: Repr> core::fmt::Debug for RnsPoly<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "RnsPoly({} primes, N = {})", self.limbs.count(), self.n)
    }
}

impl<R: Repr> RnsPoly<R> {
    pub(super) fn new(limbs: LimbSet, n: usize, buf: Buf) -> Self {
        debug_assert!(buf.len() >= limbs.count() * n);
        Self { limbs, n, buf: Arc::new(buf), repr: PhantomData }
    }

    /// The primes of the polynomial.
    #[must_use]
    pub fn limbs(&self) -> LimbSet {
        self.limbs
    }

    /// Residues modulo the `i`-th prime.
    #[must_use]
    pub fn row(&self, i: usize) -> &[u64] {
        &self.buf[i * self.n..][..self.n]
    }

    /// Residues modulo the `i`-th prime, to write to.
    #[must_use]
    pub fn row_mut(&mut self, i: usize) -> &mut [u64] {
        let n = self.n;
        &mut self.words_mut()[i * n..][..n]
    }

    /// All rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        // After `truncate` the buffer has more rows than the polynomial.
        self.buf.chunks_exact(self.n).take(self.limbs.count())
    }

    /// All rows, in order, to write to.
    pub fn rows_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [u64]> {
        let n = self.n;
        self.words_mut().chunks_exact_mut(n)
    }

    /// The words of all rows.
    #[must_use]
    pub fn words_mut(&mut self) -> &mut [u64] {
        let words = self.limbs.count() * self.n;
        if Arc::get_mut(&mut self.buf).is_none() {
            // A buffer of the same pool, as secret as this one.
            let mut own = self.buf.pool().take_as(self.buf.secrecy(), words);
            own[..words].copy_from_slice(&self.buf[..words]);
            self.buf = Arc::new(own);
        }
        // The buffer has no other owner now.
        Arc::get_mut(&mut self.buf).map_or(&mut [], |buf| &mut buf[..words])
    }

    /// Drops all chain primes except the first `q`, and the special primes.
    pub fn truncate(&mut self, q: usize) {
        debug_assert!(q <= self.limbs.q());
        // The words stay in the buffer: rows of dropped primes are the last ones.
        self.limbs = self.limbs.first(q);
    }

    /// The treatment of the words when they are dropped, swapped out, dumped or forked.
    #[must_use]
    pub fn secrecy(&self) -> Secrecy {
        self.buf.secrecy()
    }

    /// Returns `true` if the words stayed in the process that this one was forked from; see
    /// [`Buf::is_lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.buf.is_lost()
    }

    pub(super) fn cast<S: Repr>(self) -> RnsPoly<S> {
        RnsPoly { limbs: self.limbs, n: self.n, buf: self.buf, repr: PhantomData }
    }
}
