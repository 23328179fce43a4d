use super::Level;
use crate::ring::{BaseConverter, Divider, LimbSet, RnsBasis};
use core::ops::Range;
use sudare_arith::Shoup;

/// How polynomials of one section of levels are cut into digits for key switching, and the
/// special primes that the product of digits and key is divided by.
///
/// Chain primes count from the first of the section.
pub(super) struct Gadget {
    /// Special primes, the first of the basis.
    p: usize,
    /// Chain primes of the section.
    chain: LimbSet,
    /// Where each digit starts, and the end of the last.
    bounds: Vec<usize>,
    /// The digit that each chain prime belongs to.
    owners: Vec<usize>,
    /// The product `P` of the special primes, modulo each prime of the chain.
    special: Vec<Shoup>,
    /// By number of chain primes less one: from the primes of the digit that ends there
    /// to every prime of the basis.
    lift: Vec<BaseConverter>,
    /// Division by `P`, from any number of chain primes.
    mod_down: Divider,
    /// The lowest level that can be rescaled to.
    lowest: Level,
    /// By level above the lowest, less one: division by `P` and the primes of the level.
    rescale_down: Vec<Divider>,
}

impl Gadget {
    /// Digits of as many primes of `chain`, a section's, as `widths` says, and the first `p`
    /// special primes. `levels` are the chain primes of levels from `lowest` on that can be
    /// rescaled, and of one below.
    pub(super) fn new(
        basis: &RnsBasis,
        chain: LimbSet,
        (lowest, levels): (Level, &[LimbSet]),
        widths: &[usize],
        p: usize,
    ) -> Self {
        let all = basis.all();
        let moduli: Vec<_> = basis.tables(all).map(|t| *t.modulus()).collect();
        let own = &moduli[chain.start()..][..chain.q()];
        let special = &moduli[all.q()..][..p];
        let special_mod = |m: &sudare_arith::Modulus| {
            let product = special.iter().fold(1, |p, k| m.mul(p, m.reduce(k.value())));
            m.shoup(product)
        };
        let bounds: Vec<usize> = core::iter::once(0)
            .chain(widths.iter().scan(0, |end, width| {
                *end += width;
                Some(*end)
            }))
            .collect();
        let widths = widths.iter().enumerate();
        let owners: Vec<usize> =
            widths.flat_map(|(digit, &width)| core::iter::repeat_n(digit, width)).collect();
        let lift =
            |(i, &digit): (usize, &usize)| BaseConverter::new(&own[bounds[digit]..=i], &moduli);
        Self {
            p,
            chain,
            special: own.iter().map(special_mod).collect(),
            lift: owners.iter().enumerate().map(lift).collect(),
            mod_down: Divider::new(basis, chain.with_special(p), chain),
            lowest,
            rescale_down: levels
                .windows(2)
                .map(|pair| Divider::new(basis, pair[1].with_special(p), pair[0]))
                .collect(),
            bounds,
            owners,
        }
    }

    /// The digit that the `i`-th chain prime belongs to.
    pub(super) fn owner(&self, i: usize) -> usize {
        self.owners[i]
    }

    /// The chain primes of a digit in polynomials with `q` chain primes.
    pub(super) fn owned(&self, digit: usize, q: usize) -> Range<usize> {
        self.bounds[digit]..q.min(self.bounds[digit + 1])
    }

    /// The first `q` chain primes and the special ones: the primes of a key.
    pub(super) fn limbs(&self, q: usize) -> LimbSet {
        self.chain.first(q).with_special(self.p)
    }

    /// The chain primes that each digit of a polynomial with `q >= 1` chain primes owns.
    pub(super) fn digits(&self, q: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
        (0..self.owner(q - 1) + 1).map(move |digit| self.owned(digit, q))
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

    /// Division by `P` and the primes of `level`, above the lowest.
    pub(super) fn rescale_down(&self, level: Level) -> &Divider {
        &self.rescale_down[level.index() - self.lowest.index() - 1]
    }
}
