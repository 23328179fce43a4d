use super::{
    Digits, Down, KeySwitcher, Level, Operand,
    keys::GaloisKey,
    switch::{Cut, Limb, Product},
};
use crate::ring::{Dividend, Eval, RnsPoly, TILE};
use sudare_arith::{Modulus, Permutation, Shoup, par};

/// A sum of automorphisms in two stages: `sum_j g^j(sum_b weights[j][b] h_b(c))`, with
/// the baby steps `h_b` and the giant step `g`.
pub(crate) struct Combination<'a> {
    /// None is the identity.
    pub(crate) baby: Vec<Option<&'a GaloisKey>>,
    /// Must be there if there are several stages.
    pub(crate) giant: Option<&'a GaloisKey>,
    /// With the limbs of a key at the level of the ciphertexts; none is zero.
    pub(crate) weights: &'a [Vec<Option<RnsPoly<Eval>>>],
}

/// Two polynomials modulo `QP`, to be divided by `P`.
type Raised = [RnsPoly<Eval>; 2];

/// One limb of them.
type RaisedLimb<'a> = [&'a mut [u64]; 2];

impl KeySwitcher {
    /// The combination of each of several ciphertexts, divided by `P` and, if asked, by
    /// the primes of the level. All ciphertexts share one pass over keys and weights.
    ///
    /// Each ciphertext is cut into digits once; products with keys and weights are summed
    /// modulo `QP`. Cost per ciphertext: a decomposition and a product with each key of
    /// the baby steps; for each stage but one a division of one polynomial, a
    /// decomposition and a product with the key of the giant step; the final division.
    ///
    /// Reference: [BMTH21](https://eprint.iacr.org/2020/1203), Algorithm 6. Deviation:
    /// giant steps are nested, `S_0 + g(S_1 + g(S_2 + ...))`, so that one key serves all.
    pub(crate) fn combine(
        &self,
        inputs: &[&[RnsPoly<Eval>; 2]],
        level: Level,
        combination: &Combination<'_>,
        down: Down,
    ) -> Vec<[RnsPoly<Eval>; 2]> {
        debug_assert!(combination.giant.is_some() || combination.weights.len() < 2);
        let cut = self.cut(level);
        let basis = cut.params.basis();
        let digits: Vec<_> =
            inputs.iter().map(|c| self.digits(Operand::Ciphertext(c), level)).collect();
        let stages = cut.baby_steps(inputs, &digits, combination);
        drop(digits);
        let finish = |stages: Vec<Raised>| {
            let sum = stages.into_iter().rev().reduce(|sum, next| match combination.giant {
                Some(giant) => cut.giant_step(&sum, giant, next),
                None => next,
            });
            let sum = sum.unwrap_or_else(|| [(); 2].map(|()| basis.zero(cut.limbs())));
            cut.divider(down).divide(basis, sum.each_ref())
        };
        stages.into_iter().map(finish).collect()
    }
}

impl Cut<'_> {
    /// For each input and stage `j` the sum `sum_b weights[j][b] h_b(c)`.
    fn baby_steps(
        self,
        inputs: &[&[RnsPoly<Eval>; 2]],
        digits: &[Digits],
        combination: &Combination<'_>,
    ) -> Vec<Vec<Raised>> {
        let (basis, limbs) = (self.params.basis(), self.limbs());
        let stages = combination.weights.len();
        let raised = || (0..stages).map(|_| [(); 2].map(|()| basis.take(limbs))).collect();
        let mut sums: Vec<Vec<Raised>> = inputs.iter().map(|_| raised()).collect();
        par::for_each(
            by_limb(&mut sums, limbs.count()).into_iter().enumerate(),
            |(i, mut sums)| {
                let m = basis.modulus(limbs, i);
                let images: Vec<Vec<Image<'_>>> = (inputs.iter().zip(digits))
                    .map(|(c, digits)| {
                        combination
                            .baby
                            .iter()
                            .map(|&step| self.image(c, digits, step, i))
                            .collect()
                    })
                    .collect();
                let words = Permutation::block_words(basis.log_n());
                let mut blocks = vec![0; 2 * words * combination.baby.len()];
                for start in (0..basis.n()).step_by(words) {
                    for (images, sums) in images.iter().zip(&mut sums) {
                        for (image, block) in images.iter().zip(blocks.chunks_mut(2 * words)) {
                            let (first, second) = block.split_at_mut(words);
                            image.write(m, start, [first, second]);
                        }
                        for (sum, weights) in sums.iter_mut().zip(combination.weights) {
                            for (half, sum) in sum.iter_mut().enumerate() {
                                let blocks = blocks.chunks(words).skip(half).step_by(2);
                                let (mut a, mut b) = (Vec::new(), Vec::new());
                                for (block, weight) in blocks.zip(weights) {
                                    if let Some(weight) = weight {
                                        a.push(block);
                                        b.push(&weight.row(i)[start..][..words]);
                                    }
                                }
                                m.mul_sum(&mut sum[start..][..words], &a, &b);
                            }
                        }
                    }
                }
            },
        );
        sums
    }

    /// The `i`-th limb of the image of a ciphertext under a baby step.
    fn image<'b>(
        self,
        c: &'b [RnsPoly<Eval>; 2],
        digits: &'b Digits,
        step: Option<&'b GaloisKey>,
        i: usize,
    ) -> Image<'b>
    where
        Self: 'b,
    {
        match step {
            None => {
                let chain = (i < self.limbs().q()).then(|| self.gadget.special(i));
                Image::Same(chain.map(|special| (c.each_ref().map(|poly| poly.row(i)), special)))
            }
            Some(GaloisKey { key, permutation }) => {
                let rows = self.ready(digits, i);
                let product = self.dividend(Operand::Ciphertext(c), rows, key, i);
                Image::Switched { product, permutation }
            }
        }
    }

    /// `next + g(sum)` modulo `QP`: the first half of `sum` stays undivided.
    fn giant_step(self, sum: &Raised, giant: &GaloisKey, mut next: Raised) -> Raised {
        let (basis, limbs) = (self.params.basis(), self.limbs());
        let [kept, switched] = sum;
        let [switched] = self.divider(Down::Special).divide(basis, [switched]);
        let operand = Operand::Alone(&switched);
        let mut digits = self.lift(operand);
        let [first, second] = &mut next;
        let jobs = self.by_limb(&mut digits).zip(first.rows_mut().zip(second.rows_mut()));
        par::for_each(jobs, |((i, rows), (first, second))| {
            let m = basis.modulus(limbs, i);
            let mut product = self.dividend(operand, Limb::Lifted(rows), &giant.key, i);
            product.prepare();
            let permutation = &giant.permutation;
            let image = Image::Switched { product, permutation };
            let words = Permutation::block_words(basis.log_n());
            let mut blocks = [(); 3].map(|()| vec![0; words]);
            let [a, b, c] = &mut blocks;
            let halves = first.chunks_mut(words).zip(second.chunks_mut(words));
            for (block, (first, second)) in halves.enumerate() {
                image.write(m, block * words, [a, b]);
                let source = permutation.source_block(block) * words;
                permutation.apply_block(block, c, &kept.row(i)[source..][..words]);
                m.add_assign(first, c);
                m.add_assign(first, a);
                m.add_assign(second, b);
            }
        });
        next
    }
}

/// One limb of an image of a ciphertext, modulo `QP`.
enum Image<'a> {
    /// `P` times the ciphertext; None modulo the special primes, where that is zero.
    Same(Option<([&'a [u64]; 2], Shoup)>),
    /// Switched, then permuted.
    Switched { product: Product<'a>, permutation: &'a Permutation },
}

impl Image<'_> {
    /// Writes a block of evaluations from `start` on of both halves.
    fn write(&self, m: &Modulus, start: usize, out: [&mut [u64]; 2]) {
        match self {
            Self::Same(Some((rows, special))) => {
                for (out, row) in out.into_iter().zip(rows) {
                    let len = out.len();
                    m.scale(out, &row[start..][..len], *special);
                }
            }
            Self::Same(None) => out.into_iter().for_each(|out| out.fill(0)),
            Self::Switched { product, permutation } => {
                let words = out[0].len();
                let block = start / words;
                let source = permutation.source_block(block) * words;
                let mut values = [[0; 2 * TILE]; 2];
                for tile in (0..words).step_by(TILE) {
                    let end = words.min(tile + TILE);
                    product.write(source + tile, values.each_mut().map(|v| &mut v[tile..end]));
                }
                for (out, value) in out.into_iter().zip(&values) {
                    permutation.apply_block(block, out, &value[..words]);
                }
            }
        }
    }
}

/// Their rows, limb by limb.
fn by_limb(sums: &mut [Vec<Raised>], limbs: usize) -> Vec<Vec<Vec<RaisedLimb<'_>>>> {
    let mut out: Vec<Vec<Vec<RaisedLimb<'_>>>> =
        (0..limbs).map(|_| sums.iter().map(|_| Vec::new()).collect()).collect();
    for (k, stages) in sums.iter_mut().enumerate() {
        for [first, second] in stages {
            for (limb, rows) in out.iter_mut().zip(first.rows_mut().zip(second.rows_mut())) {
                limb[k].push(rows.into());
            }
        }
    }
    out
}
