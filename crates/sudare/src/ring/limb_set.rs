use core::ops::Range;

/// Primes carried: `q` of the chain that follow each other and the first `p` special ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LimbSet {
    /// Number of the first.
    start: u16,
    q: u16,
    p: u16,
}

impl LimbSet {
    /// The first `q` primes of the chain.
    #[must_use]
    pub fn chain(q: usize) -> Self {
        Self::range(0..q)
    }

    /// The primes of the chain with these numbers.
    #[must_use]
    pub fn range(q: Range<usize>) -> Self {
        Self { start: q.start as u16, q: q.len() as u16, p: 0 }
    }

    /// The first `q` of these primes, which are of the chain.
    #[must_use]
    pub fn first(self, q: usize) -> Self {
        Self { q: q as u16, p: 0, ..self }
    }

    /// The set of these primes and of the first `p` special primes.
    #[must_use]
    pub fn with_special(self, p: usize) -> Self {
        Self { p: p as u16, ..self }
    }

    /// Number of the first chain prime.
    #[must_use]
    pub fn start(self) -> usize {
        self.start.into()
    }

    /// Chain primes.
    #[must_use]
    pub fn q(self) -> usize {
        self.q.into()
    }

    /// Special primes.
    #[must_use]
    pub fn p(self) -> usize {
        self.p.into()
    }

    /// All primes.
    #[must_use]
    pub fn count(self) -> usize {
        self.q() + self.p()
    }

    /// Returns the index of the `i`-th of these primes in a set that includes them.
    #[must_use]
    pub fn place(self, i: usize, within: Self) -> usize {
        if i < self.q() { self.start() + i - within.start() } else { within.q() + i - self.q() }
    }
}
