use super::{
    Down, KeySwitcher, Level, Operand,
    keys::GaloisKey,
    switch::{Limb, Product},
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
        let finish = |stages: Vec<Raised>| {
            debug_assert!(combination.giant.is_some() || stages.len() < 2);
            let sum = stages.into_iter().rev().reduce(|sum, next| match combination.giant {
                Some(giant) => self.giant_step(&sum, level, giant, next),
                None => next,
            });
            let params = self.params();
            let zero = || [(); 2].map(|()| params.basis().zero(params.key_limbs(level)));
            let sum = sum.unwrap_or_else(zero);
            self.divider(level, down).divide(params.basis(), sum.each_ref())
        };
        self.baby_steps(inputs, level, combination).into_iter().map(finish).collect()
    }

    /// For each input and stage `j` the sum `sum_b weights[j][b] h_b(c)`.
    fn baby_steps<'a>(
        &'a self,
        inputs: &[&[RnsPoly<Eval>; 2]],
        level: Level,
        combination: &Combination<'a>,
    ) -> Vec<Vec<Raised>> {
        let params = self.params();
        let (basis, limbs) = (params.basis(), params.key_limbs(level));
        let operands: Vec<_> = inputs.iter().map(|c| Operand::Ciphertext(c)).collect();
        let digits: Vec<_> = operands.iter().map(|&c| self.digits(c, level)).collect();
        let stages = combination.weights.len();
        let raised = || (0..stages).map(|_| [(); 2].map(|()| basis.take(limbs))).collect();
        let mut sums: Vec<Vec<Raised>> = inputs.iter().map(|_| raised()).collect();
        par::for_each(
            by_limb(&mut sums, limbs.count()).into_iter().enumerate(),
            |(i, mut sums)| {
                let m = basis.modulus(limbs, i);
                let special = (i < limbs.q()).then(|| params.special(i));
                let sources: Vec<Vec<Source<'_>>> = (operands.iter().zip(&digits).zip(inputs))
                    .map(|((&operand, digits), &c)| {
                        let steps = combination.baby.iter().copied();
                        let source = |step: Option<&'a GaloisKey>| match step {
                            None => Source::Identity { c, i, special },
                            Some(GaloisKey { key, permutation }) => {
                                let rows = Limb::Ready(self.ready(digits, i));
                                let product = self.dividend(operand, rows, key, level, i);
                                Source::Switched { product, permutation }
                            }
                        };
                        steps.map(source).collect()
                    })
                    .collect();
                let words = Permutation::block_words(basis.log_n());
                let mut images = vec![0; 2 * words * combination.baby.len()];
                let mut scratch = vec![0; 2 * words];
                for block in 0..basis.n() / words {
                    for (sources, sums) in sources.iter().zip(&mut sums) {
                        for (source, image) in sources.iter().zip(images.chunks_mut(2 * words)) {
                            source.write(m, block, &mut scratch, image);
                        }
                        let place = block * words..(block + 1) * words;
                        for (sum, weights) in sums.iter_mut().zip(combination.weights) {
                            for (half, sum) in sum.iter_mut().enumerate() {
                                let (images, weights): (Vec<&[u64]>, Vec<&[u64]>) =
                                    (images.chunks(words).skip(half).step_by(2).zip(weights))
                                        .filter_map(|(image, weight)| {
                                            Some((image, &weight.as_ref()?.row(i)[place.clone()]))
                                        })
                                        .unzip();
                                m.mul_sum(&mut sum[place.clone()], &images, &weights);
                            }
                        }
                    }
                }
            },
        );
        sums
    }

    /// `next + g(sum)` modulo `QP`: the first half of `sum` stays undivided.
    fn giant_step(
        &self,
        sum: &Raised,
        level: Level,
        giant: &GaloisKey,
        mut next: Raised,
    ) -> Raised {
        let params = self.params();
        let (basis, limbs) = (params.basis(), params.key_limbs(level));
        let [kept, switched] = sum;
        let [switched] = self.divider(level, Down::Special).divide(basis, [switched]);
        let operand = Operand::Alone(&switched);
        let mut digits = self.raise(operand, level);
        let [first, second] = &mut next;
        let jobs = self.by_limb(&mut digits, level).zip(first.rows_mut().zip(second.rows_mut()));
        par::for_each(jobs, |((i, rows), (first, second))| {
            let m = basis.modulus(limbs, i);
            let mut product = self.dividend(operand, Limb::Raised(rows), &giant.key, level, i);
            product.prepare();
            let source = Source::Switched { product, permutation: &giant.permutation };
            let words = Permutation::block_words(basis.log_n());
            let (mut scratch, mut image) = (vec![0; 2 * words], vec![0; 2 * words]);
            let mut kept_image = vec![0; words];
            let blocks = first.chunks_mut(words).zip(second.chunks_mut(words));
            for (block, (first, second)) in blocks.enumerate() {
                source.write(m, block, &mut scratch, &mut image);
                let from = giant.permutation.source_block(block) * words;
                giant.permutation.apply_block(
                    block,
                    &mut kept_image,
                    &kept.row(i)[from..][..words],
                );
                m.add_assign(first, &kept_image);
                m.add_assign(first, &image[..words]);
                m.add_assign(second, &image[words..]);
            }
        });
        next
    }
}

/// One limb of an image of a ciphertext, modulo `QP`.
enum Source<'a> {
    /// `P` times the ciphertext, which is zero modulo the special primes.
    Identity { c: &'a [RnsPoly<Eval>; 2], i: usize, special: Option<Shoup> },
    /// Switched, then permuted.
    Switched { product: Product<'a>, permutation: &'a Permutation },
}

impl Source<'_> {
    /// Writes a block of both halves, one after the other.
    fn write(&self, m: &Modulus, block: usize, scratch: &mut [u64], out: &mut [u64]) {
        let words = out.len() / 2;
        match self {
            Self::Identity { c, i, special: Some(special) } => {
                for (out, poly) in out.chunks_mut(words).zip(*c) {
                    m.scale(out, &poly.row(*i)[block * words..][..words], *special);
                }
            }
            Self::Identity { special: None, .. } => out.fill(0),
            Self::Switched { product, permutation } => {
                let source = permutation.source_block(block) * words;
                let (first, second) = scratch.split_at_mut(words);
                let tiles = first.chunks_mut(TILE).zip(second.chunks_mut(TILE)).enumerate();
                for (t, (first, second)) in tiles {
                    product.write(source + t * TILE, [first, second]);
                }
                for (out, value) in out.chunks_mut(words).zip(scratch.chunks(words)) {
                    permutation.apply_block(block, out, value);
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
