use super::{
    KeySwitcher, Level, ModDown, Operand,
    keys::GaloisKey,
    switch::{Decomposition, Limb},
};
use crate::ring::{Dividend, Eval, RnsPoly, finish};
use sudare_arith::{
    NttTable, Permutation,
    mem::Buf,
    par::{self, Within},
};

impl KeySwitcher {
    /// Computes, for each group in turn, the sum of the images of the ciphertext under its keys;
    /// `None` is the identity. The result is divided by `P`, the product of the first `special`
    /// special primes of the keys.
    ///
    /// Products with keys are summed modulo `QP`. After a group only the second polynomial is
    /// divided, because the next decomposition needs it. The first stays undivided to the end. Cost
    /// of a group: a decomposition, a product with each key, and a division of one polynomial. The
    /// end adds the division of the other.
    ///
    /// Reference: Ishimaki, Yamana, "Faster homomorphic trace-type function evaluation" (IEEE
    /// Access 9, 2021), Algorithms 4 and 5. Deviation: the paper divides both polynomials after
    /// each group.
    pub(super) fn sum_automorphisms(
        &self,
        a: &[RnsPoly<Eval>; 2],
        level: Level,
        special: usize,
        groups: &[Vec<Option<&GaloisKey>>],
    ) -> [RnsPoly<Eval>; 2] {
        let decomposition = self.decomposition(level, special);
        let basis = decomposition.params.basis();
        let [kept, switched] = a;
        let start = (
            decomposition.times_p(kept),
            basis.restricted(switched, decomposition.limbs().first(decomposition.limbs().q())),
        );
        let (kept, switched) = groups.iter().fold(start, |(kept, switched), group| {
            decomposition.sum_group(&kept, &switched, group)
        });
        let [kept] = decomposition.divider(ModDown::P).divide(basis, [&kept]);
        [kept, switched]
    }
}

impl Decomposition<'_> {
    /// Returns `P` times a polynomial, modulo `QP`.
    fn times_p(self, a: &RnsPoly<Eval>) -> RnsPoly<Eval> {
        let basis = self.params.basis();
        let limbs = self.limbs();
        let mut out = basis.take(limbs);
        par::for_limbs(out.rows_mut().enumerate(), |_, (i, row)| match i < limbs.q() {
            true => basis.modulus(limbs, i).scale(row, a.row(i), self.gadget.special(i)),
            // `P` is 0 modulo the special primes.
            false => row.fill(0),
        });
        out
    }

    /// Returns the sum of the images of a ciphertext. Its first polynomial is `P` times as large
    /// and modulo `QP`, before and after.
    fn sum_group(
        self,
        kept: &RnsPoly<Eval>,
        switched: &RnsPoly<Eval>,
        keys: &[Option<&GaloisKey>],
    ) -> (RnsPoly<Eval>, RnsPoly<Eval>) {
        let basis = self.params.basis();
        let limbs = self.limbs();
        let digits = self.lift(Operand::Alone(switched));
        let mut first = basis.take(limbs);
        let sums = self.by_limb(digits.iter().map(RnsPoly::rows)).zip(first.rows_mut());
        let sums = sums.map(|((i, halves), first)| LimbSum {
            decomposition: self,
            i,
            table: basis.table(limbs, i),
            halves,
            kept: kept.row(i),
            switched,
            keys,
            first,
            second: None,
        });
        let divider = self.divider(ModDown::P);
        let [second] = divider.run(basis, limbs, sums.collect(), None);
        (first, second)
    }
}

/// One limb of a sum of images: the first half is kept, the second is divided.
struct LimbSum<'a> {
    decomposition: Decomposition<'a>,
    i: usize,
    table: &'a NttTable,
    /// Digits, half transformed.
    halves: Vec<&'a [u64]>,
    kept: &'a [u64],
    switched: &'a RnsPoly<Eval>,
    keys: &'a [Option<&'a GaloisKey>],
    first: &'a mut [u64],
    /// The second half, once prepared.
    second: Option<Buf>,
}

impl Dividend<1> for LimbSum<'_> {
    fn prepare(&mut self, within: Within) {
        let Self { decomposition, i, kept, switched, table, .. } = *self;
        let m = table.modulus();
        let basis = decomposition.params.basis();
        let chain = i < decomposition.limbs().q();
        let mut digits = basis.pool().take(self.halves.len() * basis.n());
        let rows = self.halves.iter().zip(digits.chunks_exact_mut(basis.n()));
        within.for_rows(rows, |(half, row)| finish(within, table, half, row));
        let digits: Vec<&[u64]> = digits.chunks_exact(basis.n()).collect();
        let images: Vec<_> = self
            .keys
            .iter()
            .flatten()
            .map(|GaloisKey { key, permutation }| {
                let digits = Limb::Ready(digits.clone());
                let mut product = decomposition.dividend(Operand::Alone(switched), digits, key, i);
                product.prepare(within);
                (product, permutation)
            })
            .collect();
        let identities = self.keys.len() - images.len();
        let mut sum = basis.pool().take(basis.n());
        let words = Permutation::block_words(basis.log_n());
        let halves = self.first.chunks_mut(words).zip(sum.chunks_mut(words)).enumerate();
        let room = || basis.pool().take(3 * words);
        within.for_blocks(halves, room, |scratch, (block, (first, second))| {
            let start = block * words;
            first.fill(0);
            second.fill(0);
            for _ in 0..identities {
                m.add_assign(first, &kept[start..][..words]);
                // Times `P`, which is 0 modulo the special primes.
                if chain {
                    m.scale_add(
                        second,
                        &switched.row(i)[start..][..words],
                        decomposition.gadget.special(i),
                    );
                }
            }
            for (product, permutation) in &images {
                let source = permutation.source_block(block) * words;
                let mut halves = [(block, [&mut *first, &mut *second])];
                product.add_image(permutation, kept, source, scratch, &mut halves);
            }
        });
        self.second = Some(sum);
    }

    fn write(&self, start: usize, [out]: [&mut [u64]; 1]) {
        if let Some(second) = &self.second {
            let words = out.len();
            out.copy_from_slice(&second[start..][..words]);
        }
    }
}
