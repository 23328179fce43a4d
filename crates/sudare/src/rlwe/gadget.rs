use crate::ring::{BaseConverter, Divider, LimbSet, RnsBasis};
use core::ops::Range;
use sudare_arith::Shoup;

/// How polynomials are cut into digits for key switching, and the special primes that
/// the product of digits and key is divided by.
///
/// Numbers of chain primes say where in the chain a polynomial is.
pub(super) struct Gadget {
    /// Special primes, the first of the basis.
    p: usize,
    /// Chain primes per digit.
    alpha: usize,
    /// The product `P` of the special primes, modulo each prime of the chain.
    special: Vec<Shoup>,
    /// By number of chain primes less one: from the primes of the digit that ends there
    /// to every prime of the basis.
    lift: Vec<BaseConverter>,
    /// Division by `P`, from any number of chain primes.
    mod_down: Divider,
}

impl Gadget {
    /// Digits of `alpha` primes, cut of polynomials with at most `q` chain primes, and
    /// the first `p` special primes.
    pub(super) fn new(basis: &RnsBasis, q: usize, alpha: usize, p: usize) -> Self {
        let all = basis.all();
        let moduli: Vec<_> = basis.tables(all).map(|t| *t.modulus()).collect();
        let (chain, special) = moduli.split_at(all.q());
        let special_mod = |m: &sudare_arith::Modulus| {
            let product = special[..p].iter().fold(1, |p, k| m.mul(p, m.reduce(k.value())));
            m.shoup(product)
        };
        Self {
            p,
            alpha,
            special: chain.iter().map(special_mod).collect(),
            lift: (1..=q)
                .map(|end| BaseConverter::new(&moduli[(end - 1) / alpha * alpha..end], &moduli))
                .collect(),
            mod_down: Divider::new(basis, LimbSet::chain(all.q()).with_special(p), all.q()),
        }
    }

    /// Chain primes per digit.
    pub(super) fn alpha(&self) -> usize {
        self.alpha
    }

    /// The first `q` chain primes and the special ones: the primes of a key.
    pub(super) fn limbs(&self, q: usize) -> LimbSet {
        LimbSet::chain(q).with_special(self.p)
    }

    /// The chain primes that each digit of a polynomial with `q` chain primes owns.
    pub(super) fn digits(&self, q: usize) -> impl ExactSizeIterator<Item = Range<usize>> + use<> {
        let alpha = self.alpha;
        (0..q.div_ceil(alpha)).map(move |digit| digit * alpha..q.min((digit + 1) * alpha))
    }

    /// Lifts the digit that ends with the `end`-th chain prime to every prime.
    pub(super) fn lift(&self, end: usize) -> &BaseConverter {
        &self.lift[end - 1]
    }

    /// `P` modulo the `i`-th prime of the chain.
    pub(super) fn special(&self, i: usize) -> Shoup {
        self.special[i]
    }

    /// Division by `P`.
    pub(super) fn mod_down(&self) -> &Divider {
        &self.mod_down
    }
}
