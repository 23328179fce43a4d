use super::Level;
use crate::ring::{BaseConverter, Divider, LimbSet, RnsBasis};
use core::ops::Range;
use sudare_arith::Shoup;

/// The digits for key switching of polynomials in one section of levels, and the special primes by
/// which the product of digits and key is divided.
///
/// Chain primes count from the first of the section.
pub(super) struct Gadget {
    /// Number of special primes, the first of the basis.
    p: usize,
    /// Chain primes of the section.
    chain: LimbSet,
    /// Start of each digit, and the end of the last.
    bounds: Vec<usize>,
    /// Digit of each chain prime.
    owners: Vec<usize>,
    /// The product `P` of the special primes, modulo each prime of the chain.
    special: Vec<Shoup>,
    /// Indexed by the number of chain primes less one: converters from the primes of the digit that
    /// ends there to every prime of the basis.
    lift: Vec<BaseConverter>,
    /// Division by `P`, from any number of chain primes.
    mod_down: Divider,
    /// Lowest level that a rescaling can reach.
    lowest: Level,
    /// Indexed by level above the lowest, less one: division by `P` and the primes of the level.
    rescale_down: Vec<Divider>,
}

impl Gadget {
    /// Makes digits with the numbers of primes `widths` of a section's `chain`, and the first `p`
    /// special primes. `levels` lists the chain primes of levels from `lowest` on: of one level to
    /// reach, and of all levels above that can be rescaled.
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
        // A level may end within a digit, so each prime of a digit has a converter that ends there.
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

    /// Returns the digit of the `i`-th chain prime.
    pub(super) fn owner(&self, i: usize) -> usize {
        self.owners[i]
    }

    /// Returns the chain primes of a digit in polynomials with `q` chain primes.
    pub(super) fn owned(&self, digit: usize, q: usize) -> Range<usize> {
        self.bounds[digit]..q.min(self.bounds[digit + 1])
    }

    /// Returns the primes of a key: the first `q` chain primes and the special ones.
    pub(super) fn limbs(&self, q: usize) -> LimbSet {
        self.chain.first(q).with_special(self.p)
    }

    /// Iterates over the chain primes of each digit of a polynomial with `q >= 1` chain primes.
    pub(super) fn digits(&self, q: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
        (0..self.owner(q - 1) + 1).map(move |digit| self.owned(digit, q))
    }

    /// Returns the converter that lifts the digit ending with the `end`-th chain prime to every
    /// prime.
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
