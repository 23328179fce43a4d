use super::{
    Digits, GaloisElement, KeySwitcher, Level, Lift, ModDown, Operand, SwitchingKey,
    keys::GaloisKey,
    rows::KeyRows,
    switch::{Decomposition, Product, extended_product},
};
use crate::{
    Result,
    ring::{
        Dividend, Divider, Eval, LimbSet, PackedPolys, RnsBasis, RnsPoly, STRETCH, columns,
        stretches,
    },
};
use sudare_arith::{Modulus, Permutation, Shoup, par};

/// A sum of automorphisms in two stages: `sum_j g^j(sum_b weights[j][b] h_b(c))`, with
/// the baby steps `h_b` and the giant step `g`.
pub(super) struct DiagonalSum<'a> {
    /// Special primes of the keys.
    pub(super) special: usize,
    /// `None` is the identity.
    pub(super) baby: Vec<Option<&'a GaloisKey>>,
    /// Required if there are several stages.
    pub(super) giant: Option<&'a GaloisKey>,
    /// Weights with the limbs of the keys at the level of the ciphertexts.
    pub(super) weights: &'a Weights,
}

/// The nonzero weights of a sum of automorphisms, stage by stage.
pub(super) struct Weights {
    pub(super) polys: PackedPolys,
    pub(super) stages: Vec<Stage>,
}

/// The nonzero weights of one stage.
pub(super) struct Stage {
    /// Number of the first weight.
    pub(super) first: usize,
    /// Number of the baby step of each weight.
    pub(super) steps: Vec<usize>,
}

/// Images per group. A block of each stays in the second-level cache: a megabyte in total.
const IMAGES: usize = 32;

/// Place in a row.
#[derive(Clone, Copy)]
struct Place<'a> {
    modulus: &'a Modulus,
    /// Number of the prime.
    limb: usize,
    /// The first word.
    start: usize,
}

impl Weights {
    /// Writes the part of a group of [`IMAGES`] images in a block of both sums of a stage for the
    /// first group, and adds it for later ones. `blocks` has both halves of each image; `scratch`
    /// holds two blocks.
    fn sum_group(
        &self,
        stage: &Stage,
        Place { modulus: m, limb, start }: Place<'_>,
        group: usize,
        blocks: &[u64],
        scratch: &mut [u64],
        sum: [&mut [u64]; 2],
    ) {
        let words = sum[0].len();
        let width = m.packed_bytes();
        let log_repeats = self.polys.log_repeats();
        let stored = |word: usize| (width * word) >> log_repeats;
        let stored = stored(start)..stored(start + words);
        let members =
            (stage.first..).zip(&stage.steps).filter(|(_, step)| **step / IMAGES == group);
        let (weights, places): (Vec<&[u8]>, Vec<usize>) = members
            .map(|(k, step)| {
                (&self.polys.row(k, limb)[stored.clone()], 2 * words * (step % IMAGES))
            })
            .unzip();
        let half = |half: usize| -> Vec<&[u64]> {
            places.iter().map(|place| &blocks[place + half * words..][..words]).collect()
        };
        let [a, b] = [0, 1].map(half);
        if group == 0 {
            return m.mul_sums_packed(sum, [&a, &b], &weights, log_repeats);
        }
        let (first, second) = scratch.split_at_mut(words);
        m.mul_sums_packed([first, second], [&a, &b], &weights, log_repeats);
        for (sum, part) in sum.into_iter().zip([&*first, &*second]) {
            m.add_assign(sum, part);
        }
    }
}

/// Two polynomials modulo `QP`, to be divided by `P`.
type PairModQp = [RnsPoly<Eval>; 2];

impl KeySwitcher {
    /// Computes the sum of automorphisms of each of several ciphertexts, divided by `P` and, if
    /// requested, by the primes of the level. All ciphertexts share one pass over keys and weights.
    ///
    /// Each ciphertext is cut into digits once. Products with keys and weights are summed modulo
    /// `QP`. Cost per ciphertext: a decomposition and a product with each key of the baby steps,
    /// and the final division. Each stage except one adds a division of one polynomial, a
    /// decomposition and a product with the key of the giant step.
    ///
    /// Reference: [BMTH21](https://eprint.iacr.org/2020/1203), Algorithm 6. Deviation: giant steps
    /// are nested, `S_0 + g(S_1 + g(S_2 + ...))`, so that one key serves all.
    pub(super) fn combine(
        &self,
        inputs: &[&[RnsPoly<Eval>; 2]],
        level: Level,
        sum: &DiagonalSum<'_>,
        down: ModDown,
    ) -> Vec<[RnsPoly<Eval>; 2]> {
        debug_assert!(sum.giant.is_some() || sum.weights.stages.len() < 2);
        let special = sum.special;
        let decomposition = self.decomposition(level, special);
        let basis = decomposition.params.basis();
        let switches = sum.baby.iter().any(Option::is_some);
        let cut_up = |c| switches.then(|| self.digits(Operand::Ciphertext(c), level, special));
        let digits: Vec<_> = inputs.iter().map(|&c| cut_up(c)).collect();
        let stages = weighted_sums(
            basis,
            decomposition.limbs(),
            inputs.len(),
            sum.weights,
            |i| sum.baby.iter().map(|step| step.map(|key| decomposition.step(key, i))).collect(),
            |k, i, step| decomposition.image(inputs[k], digits[k].as_ref(), step.as_ref(), i),
        );
        // Return the buffers of the digits to the pool before the giant steps take more.
        drop(digits);
        let giant: Option<Vec<_>> = sum.giant.map(|giant| {
            par::map(0..decomposition.limbs().count(), |i| decomposition.step(giant, i))
        });
        let finish = |stages: Vec<PairModQp>| {
            // From the innermost stage outwards: `S_0 + g(S_1 + g(S_2 + ...))`.
            let sum = stages.into_iter().rev().reduce(|sum, next| match &giant {
                Some(giant) => decomposition.giant_step(&sum, giant, next),
                None => next,
            });
            // A matrix without weights is zero.
            let sum = sum.unwrap_or_else(|| [(); 2].map(|()| basis.zero(decomposition.limbs())));
            decomposition.divider(down).divide(basis, sum.each_ref())
        };
        stages.into_iter().map(finish).collect()
    }

    /// Runs one stage of [`KeySwitcher::combine`] on ciphertexts raised to level `to`, divided by
    /// the primes of the level. The second polynomial of a lifted ciphertext is small, so it is its
    /// own only digit. Each image returns from the ephemeral secret by its own key. Weights have
    /// the limbs of such a key.
    ///
    /// Cost per ciphertext: a key switch at level 0, a transform of both polynomials, a product
    /// with a key of one digit for each step, and the division.
    ///
    /// Reference: Yan, Zeng, Song, Wang ([2025/1298](https://eprint.iacr.org/2025/1298)),
    /// aggregated key switching.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::MissingRaisingKey`] without keys, or with keys for
    /// lower levels only; [`Error::RaisingDivisorMismatch`]; [`Error::MissingGaloisKey`].
    pub(super) fn combine_raised(
        &self,
        inputs: &[&[RnsPoly<Eval>; 2]],
        to: Level,
        steps: &[GaloisElement],
        weights: &Weights,
        lift: Lift<'_>,
    ) -> Result<Vec<[RnsPoly<Eval>; 2]>> {
        let params = self.params();
        let keys = self.raising_keys(to, lift.divisor)?;
        let back: Vec<_> = steps
            .iter()
            .map(|g| match g.0 {
                // The identity is no image: its key back is the key of plain raising.
                1 => Ok((&keys.to_dense, None)),
                _ => keys
                    .images
                    .get(g)
                    .map(|image| (&image.key, Some(&image.permutation)))
                    .ok_or_else(|| self.missing_galois_key(None, *g, to)),
            })
            .collect::<Result<_>>()?;
        let basis = params.basis();
        let limbs = params.raising_limbs(to);
        let lifted: Vec<PairModQp> =
            inputs.iter().map(|a| self.lift_under_sparse(a, keys, to, lift)).collect();
        let sums = weighted_sums(
            basis,
            limbs,
            inputs.len(),
            weights,
            |i| {
                let place = |key: &SwitchingKey| limbs.place(i, key.limbs());
                let rows = back.iter().map(|&(key, permutation)| {
                    (key.rows(params, 1, place(key)).prepared(), permutation)
                });
                rows.collect()
            },
            |k, i, (rows, permutation): &(KeyRows<'_>, _)| {
                let product = extended_product(params, limbs, &lifted[k], rows.clone(), i);
                Image::Switched { product, permutation: *permutation }
            },
        );
        drop(lifted);
        // `check_transform` has rejected level 0.
        let divider = Divider::new(basis, limbs, params.limbs(Level(to.0.saturating_sub(1))));
        let finish = |mut stages: Vec<PairModQp>| {
            let zero = || [(); 2].map(|()| basis.zero(limbs));
            divider.divide(basis, stages.pop().unwrap_or_else(zero).each_ref())
        };
        Ok(sums.into_iter().map(finish).collect())
    }
}

/// Returns, for each of `count` inputs and the weights `w` of each stage, the sum `sum_b w_b h_b`.
/// `image(k, i, step)` is the `i`-th limb of an image of input `k` under each of `steps(i)`, which
/// all inputs share.
fn weighted_sums<'b, S>(
    basis: &RnsBasis,
    limbs: LimbSet,
    count: usize,
    weights: &Weights,
    steps: impl Fn(usize) -> Vec<S> + Send + Sync,
    image: impl Fn(usize, usize, &S) -> Image<'b> + Send + Sync,
) -> Vec<Vec<PairModQp>> {
    let stages = &weights.stages;
    let raised = || stages.iter().map(|_| [(); 2].map(|()| basis.take(limbs))).collect();
    let mut sums: Vec<Vec<PairModQp>> = (0..count).map(|_| raised()).collect();
    par::for_limbs(
        by_limb(&mut sums, limbs.count()).into_iter().enumerate(),
        |within, (i, sums)| {
            let modulus = basis.modulus(limbs, i);
            let steps = steps(i);
            let images = |k| steps.iter().map(|step| image(k, i, step)).collect();
            let images: Vec<Vec<Image<'_>>> = (0..count).map(images).collect();
            let words = Permutation::block_words(basis.log_n());
            let most = steps.len().min(IMAGES);
            let room = || basis.pool().take(2 * words * (most + 1));
            within.for_blocks(columns(sums.into_iter(), words), room, |room, (start, mut sums)| {
                let (scratch, blocks) = room.split_at_mut(2 * words);
                let place = Place { modulus, limb: i, start };
                for (images, sums) in images.iter().zip(sums.chunks_mut(2 * stages.len())) {
                    // One group even without images, because the first group writes the sums.
                    for group in 0..images.len().div_ceil(IMAGES).max(1) {
                        let group_images = images.iter().skip(group * IMAGES).take(IMAGES);
                        for (image, block) in group_images.zip(blocks.chunks_mut(2 * words)) {
                            let (first, second) = block.split_at_mut(words);
                            image.write(modulus, start, scratch, [first, second]);
                        }
                        for (sum, stage) in sums.as_chunks_mut().0.iter_mut().zip(stages) {
                            let sum = sum.each_mut().map(|sum| &mut **sum);
                            weights.sum_group(stage, place, group, blocks, scratch, sum);
                        }
                    }
                }
            });
        },
    );
    sums
}

impl Decomposition<'_> {
    /// Returns the rows of a step's key modulo the `i`-th prime, for all ciphertexts and stages.
    fn step<'b>(self, step: &'b GaloisKey, i: usize) -> Step<'b>
    where
        Self: 'b,
    {
        Step { rows: self.rows(&step.key, i).prepared(), permutation: &step.permutation }
    }

    /// Returns the `i`-th limb of a ciphertext's image under a baby step. The digits are present if
    /// any step needs them.
    fn image<'b>(
        self,
        c: &'b [RnsPoly<Eval>; 2],
        digits: Option<&'b Digits>,
        step: Option<&Step<'b>>,
        i: usize,
    ) -> Image<'b>
    where
        Self: 'b,
    {
        match step.zip(digits) {
            None => {
                let chain = (i < self.limbs().q()).then(|| self.gadget.special(i));
                Image::Same(chain.map(|special| (c.each_ref().map(|poly| poly.row(i)), special)))
            }
            Some((Step { rows, permutation }, digits)) => {
                let digits = self.ready(digits, i);
                let product = self.product(Operand::Ciphertext(c), digits, rows.clone(), i);
                Image::Switched { product, permutation: Some(permutation) }
            }
        }
    }

    /// Returns `next + g(sum)` modulo `QP`. The first half of `sum` stays undivided.
    fn giant_step(self, sum: &PairModQp, giant: &[Step<'_>], mut next: PairModQp) -> PairModQp {
        let basis = self.params.basis();
        let [kept, switched] = sum;
        let [switched] = self.divider(ModDown::P).divide(basis, [switched]);
        let operand = Operand::Alone(&switched);
        let digits = self.lift(operand);
        let [first, second] = &mut next;
        let jobs = self.lifted(&digits).zip(first.rows_mut().zip(second.rows_mut()));
        par::for_limbs(jobs, |within, ((i, rows), (first, second))| {
            let Step { rows: keys, permutation } = giant[i].clone();
            let mut product = self.product(operand, rows, keys, i);
            product.prepare(within);
            let words = Permutation::block_words(basis.log_n());
            let room = || basis.pool().take((2 * STRETCH + 1) * words);
            let blocks = stretches([first, second], Some(permutation));
            within.for_blocks(blocks, room, |scratch, (start, mut blocks)| {
                product.add_image(permutation, kept.row(i), start, scratch, &mut blocks);
            });
        });
        next
    }
}

/// One limb of a step's key.
#[derive(Clone)]
struct Step<'a> {
    rows: KeyRows<'a>,
    permutation: &'a Permutation,
}

/// One limb of an image of a ciphertext, modulo `QP`.
enum Image<'a> {
    /// `P` times the ciphertext; `None` modulo the special primes, where that is zero.
    Same(Option<([&'a [u64]; 2], Shoup)>),
    /// Switched, then permuted except for the identity.
    Switched { product: Product<'a>, permutation: Option<&'a Permutation> },
}

impl Image<'_> {
    /// Writes a block of evaluations of both halves from `start` on. `scratch` has the same size as
    /// the outputs.
    fn write(&self, m: &Modulus, start: usize, scratch: &mut [u64], out: [&mut [u64]; 2]) {
        match self {
            Self::Same(Some((rows, special))) => {
                for (out, row) in out.into_iter().zip(rows) {
                    let len = out.len();
                    m.scale(out, &row[start..][..len], *special);
                }
            }
            Self::Same(None) => out.into_iter().for_each(|out| out.fill(0)),
            Self::Switched { product, permutation: None } => {
                product.write(start, out);
            }
            Self::Switched { product, permutation: Some(permutation) } => {
                let words = out[0].len();
                let block = start / words;
                let (first, second) = scratch.split_at_mut(words);
                product.write(permutation.source_block(block) * words, [first, second]);
                for (out, value) in out.into_iter().zip([&*first, &*second]) {
                    permutation.apply_block(block, out, value);
                }
            }
        }
    }
}

/// Returns the rows of sums limb by limb: both halves for each input and each stage.
fn by_limb(sums: &mut [Vec<PairModQp>], limbs: usize) -> Vec<Vec<&mut [u64]>> {
    let mut out: Vec<Vec<&mut [u64]>> = (0..limbs).map(|_| Vec::new()).collect();
    for poly in sums.iter_mut().flatten().flatten() {
        for (limb, row) in out.iter_mut().zip(poly.rows_mut()) {
            limb.push(row);
        }
    }
    out
}
