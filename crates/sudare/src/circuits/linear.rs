use super::Ops;
use crate::{
    Error, Result,
    ckks::{Chain, Complex, RotationSum, Scale},
    rlwe::{KeyRequest, Level, Raise},
};
use std::collections::BTreeMap;

/// `log2` of the most slots: half the largest ring.
pub(super) const MAX_LOG_SLOTS: u32 = 16;

/// A square matrix over the slots, by its diagonals that are not zero.
///
/// Diagonal `k` holds the entries `(i, i + k mod slots)` in the order of `i`, so the
/// product with `x` is `sum_k diagonal_k * rotate(x, k)`.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearTransform {
    log_slots: u32,
    diagonals: BTreeMap<usize, Vec<Complex<f64>>>,
}

impl LinearTransform {
    /// The matrix of `2^log_slots` rows with these diagonals, each by its offset
    /// below the number of rows.
    ///
    /// # Errors
    /// [`Error::Circuit`] for an offset or a length that does not fit the number of rows;
    /// [`Error::NotFinite`] for an entry that is NaN or infinite.
    pub fn new(log_slots: u32, diagonals: BTreeMap<usize, Vec<Complex<f64>>>) -> Result<Self> {
        if log_slots > MAX_LOG_SLOTS {
            return Err(Error::Circuit(format!(
                "linear transform: 2^{log_slots} rows; at most 2^{MAX_LOG_SLOTS} are possible"
            )));
        }
        let slots = 1usize << log_slots;
        for (&offset, entries) in &diagonals {
            if offset >= slots || entries.len() != slots {
                return Err(Error::Circuit(format!(
                    "linear transform: diagonal {offset} with {} entries does not fit a matrix \
                     of {slots} rows",
                    entries.len()
                )));
            }
            let bad = entries.iter().position(|z| !(z.re.is_finite() && z.im.is_finite()));
            if let Some(index) = bad {
                let value = format!("{} + {}i", entries[index].re, entries[index].im);
                return Err(Error::NotFinite { index, value });
            }
        }
        Ok(Self { log_slots, diagonals })
    }

    /// The identity matrix of `2^log_slots` rows, at most as many as the largest ring has
    /// slots.
    #[must_use]
    pub fn identity(log_slots: u32) -> Self {
        debug_assert!(log_slots <= MAX_LOG_SLOTS);
        let ones = vec![Complex::new(1.0, 0.0); 1 << log_slots];
        Self { log_slots, diagonals: BTreeMap::from([(0, ones)]) }
    }

    /// `log2` of the number of rows.
    #[must_use]
    pub fn log_slots(&self) -> u32 {
        self.log_slots
    }

    /// The diagonals by offset.
    #[must_use]
    pub fn diagonals(&self) -> &BTreeMap<usize, Vec<Complex<f64>>> {
        &self.diagonals
    }

    /// The product with `x`, in the clear; `x` has one value a row.
    #[must_use]
    pub fn apply(&self, x: &[Complex<f64>]) -> Vec<Complex<f64>> {
        debug_assert_eq!(x.len(), 1 << self.log_slots);
        let mut out = vec![Complex::new(0.0, 0.0); x.len()];
        for (&offset, entries) in &self.diagonals {
            let turned = x[offset..].iter().chain(&x[..offset]);
            for ((out, &entry), &x) in out.iter_mut().zip(entries).zip(turned) {
                *out = *out + entry * x;
            }
        }
        out
    }

    /// The matrix of applying `first` and then `self`; both have as many rows.
    #[must_use]
    pub fn after(&self, first: &Self) -> Self {
        debug_assert_eq!(self.log_slots, first.log_slots);
        let slots = 1 << self.log_slots;
        let mut diagonals = BTreeMap::new();
        for (&k, left) in &self.diagonals {
            for (&l, right) in &first.diagonals {
                let sum = diagonals
                    .entry((k + l) % slots)
                    .or_insert_with(|| vec![Complex::new(0.0, 0.0); slots]);
                for (i, (sum, &left)) in sum.iter_mut().zip(left).enumerate() {
                    *sum = *sum + left * right[(i + k) % slots];
                }
            }
        }
        Self { log_slots: self.log_slots, diagonals }
    }

    /// The matrix with every entry multiplied by `factor`.
    #[must_use]
    pub fn scaled(mut self, factor: Complex<f64>) -> Self {
        for entry in self.diagonals.values_mut().flatten() {
            *entry = *entry * factor;
        }
        self
    }

    /// The matrix of twice as many rows that takes `[x | x]` to `[y | -i y]`, `y` being
    /// the product of this one with `x`: with its conjugate added, `[2 Re y | 2 Im y]`.
    ///
    /// Offsets are those of this matrix, read as from `1 - slots / 2` to `slots / 2`.
    #[must_use]
    pub fn to_halves(&self) -> Self {
        let diagonals = self.diagonals.iter().map(|(&offset, entries)| {
            let imaginary = entries.iter().map(|z| Complex::new(z.im, -z.re));
            (self.doubled(offset), entries.iter().copied().chain(imaginary).collect())
        });
        Self { log_slots: self.log_slots + 1, diagonals: diagonals.collect() }
    }

    /// The matrix of twice as many rows that takes `[Re x | Im x]` to a vector whose
    /// halves sum to the product of this one with `x`: with its rotation by half its
    /// length added, both halves are that product.
    ///
    /// Offsets are those of this matrix, read as from `1 - slots / 2` to `slots / 2`.
    #[must_use]
    pub fn of_halves(&self) -> Self {
        let slots = 1usize << self.log_slots;
        let diagonals = self.diagonals.iter().map(|(&offset, entries)| {
            let offset = self.doubled(offset);
            let entry = |(row, z): (usize, &Complex<f64>)| match (row + offset) & slots {
                0 => *z,
                _ => Complex::new(-z.im, z.re),
            };
            let rows = entries.iter().chain(entries).enumerate();
            (offset, rows.map(entry).collect())
        });
        Self { log_slots: self.log_slots + 1, diagonals: diagonals.collect() }
    }

    /// An offset of this matrix in one of twice as many rows, the upper half of the
    /// offsets being negative.
    fn doubled(&self, offset: usize) -> usize {
        let slots = 1usize << self.log_slots;
        if 2 * offset <= slots { offset } else { offset + slots }
    }
}

/// How to apply a [`LinearTransform`] to ciphertexts of one level and scale: by baby and
/// giant steps.
///
/// With the offsets of the diagonals at `start + (j baby + b) stride`, the product is
/// `sum_j rotate(sum_b w_jb rotate(x, start + b stride), j baby stride)`, where `w_jb` is
/// the diagonal rotated back by what the giant steps rotate.
///
/// Reference: [BMTH21](https://eprint.iacr.org/2020/1203), section 4.
#[derive(Debug, Clone)]
pub struct LinearPlan {
    transform: LinearTransform,
    steps: Steps,
    level: Level,
    scale: Scale,
    weight_scale: Scale,
    output_scale: Scale,
    /// Of ciphertexts that are raised: the largest weight of the ephemeral secret.
    ephemeral_weight: Option<u32>,
    request: KeyRequest,
}

/// Offsets `start + t stride` for `t < baby giant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    start: usize,
    stride: usize,
    baby: usize,
    giant: usize,
}

/// A giant step costs about as much as three baby steps: a decomposition and a division
/// beside the product with a key.
const GIANT_COST: usize = 3;

impl Steps {
    /// For offsets below `slots`, in ascending order; with baby steps alone if giant steps
    /// are not wanted.
    fn of(offsets: &[usize], slots: usize, giants: bool) -> Self {
        // The offsets on a circle: they start after the widest gap.
        let gap = |i: usize| {
            let next = offsets.get(i + 1).map_or_else(|| offsets[0] + slots, |&next| next);
            next - offsets[i]
        };
        let last = (0..offsets.len()).max_by_key(|&i| gap(i)).unwrap_or(0);
        let start = offsets.get(last + 1).or(offsets.first()).copied().unwrap_or(0);
        let distance = |&offset: &usize| (offset + slots - start) % slots;
        let stride = match offsets.iter().map(distance).fold(0, gcd) {
            0 => slots,
            stride => stride,
        };
        let count = offsets.iter().map(distance).max().unwrap_or(0) / stride + 1;
        let cost = |baby: &usize| baby + GIANT_COST * count.div_ceil(*baby);
        let baby = if giants { (1..=count).min_by_key(cost).unwrap_or(1) } else { count };
        Self { start, stride, baby, giant: count.div_ceil(baby) }
    }

    fn baby_offsets(self, slots: usize) -> impl Iterator<Item = usize> {
        (0..self.baby).map(move |b| (self.start + b * self.stride) % slots)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl LinearTransform {
    /// Fixes how to apply it to ciphertexts of the given level and scale so that the result,
    /// one level down, has scale `out`: that of the weights is what is left.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a level beyond the chain; [`Error::LevelExhausted`] at
    /// level 0; [`Error::ScaleOutOfRange`] if the scale of the weights is below 1 or the
    /// product does not fit the modulus; [`Error::Circuit`] for a matrix that is zero or has
    /// more rows than the ring has slots.
    pub fn plan(
        &self,
        log_n: u32,
        chain: &Chain,
        level: Level,
        scale: Scale,
        out: Scale,
    ) -> Result<LinearPlan> {
        self.plan_for(log_n, chain, level, [scale, out], None)
    }

    /// As [`LinearTransform::plan`], for ciphertexts that are raised from level 0 to `level`
    /// through an ephemeral secret of at most the given weight. All steps are baby steps,
    /// which cost little there.
    ///
    /// # Errors
    /// As [`LinearTransform::plan`].
    pub fn plan_raised(
        &self,
        log_n: u32,
        chain: &Chain,
        level: Level,
        [scale, out]: [Scale; 2],
        ephemeral_weight: u32,
    ) -> Result<LinearPlan> {
        self.plan_for(log_n, chain, level, [scale, out], Some(ephemeral_weight))
    }

    fn plan_for(
        &self,
        log_n: u32,
        chain: &Chain,
        level: Level,
        [scale, out]: [Scale; 2],
        ephemeral_weight: Option<u32>,
    ) -> Result<LinearPlan> {
        const OP: &str = "linear transform";
        chain.levels().check(level)?;
        if level == Level(0) {
            return Err(Error::LevelExhausted { op: OP, needed: 1, level });
        }
        if self.log_slots >= log_n || self.diagonals.is_empty() {
            return Err(Error::Circuit(format!(
                "linear transform: {} rows and {} diagonals; 1 to {} rows and a diagonal that \
                 is not zero are needed in a ring of degree 2^{log_n}",
                1u64 << self.log_slots,
                self.diagonals.len(),
                1u64 << log_n.saturating_sub(1),
            )));
        }
        let product = out * chain.divisor(level);
        let weight_scale = product / scale;
        let log2_q = chain.log2_q(level);
        for scale in [product, weight_scale] {
            if !scale.is_valid() || scale.log2() < 0.0 || scale.log2() + 1.0 > log2_q {
                let log2_scale = scale.log2();
                return Err(Error::ScaleOutOfRange { op: OP, log2_scale, log2_q });
            }
        }
        let slots = 1 << self.log_slots;
        let offsets: Vec<usize> = self.diagonals.keys().copied().collect();
        let steps = Steps::of(&offsets, slots, ephemeral_weight.is_none());
        let giant = (steps.giant > 1).then_some((steps.baby * steps.stride) % slots);
        let rotations = steps.baby_offsets(slots).chain(giant).map(|k| k as i64);
        let request = match ephemeral_weight {
            Some(weight) => {
                KeyRequest::new().raise(Raise { level, weight }).raised_rotations(log_n, rotations)
            }
            None => KeyRequest::new().rotations(log_n, rotations, level),
        };
        let (transform, output_scale) = (self.clone(), out);
        Ok(LinearPlan {
            transform,
            steps,
            level,
            scale,
            weight_scale,
            output_scale,
            ephemeral_weight,
            request,
        })
    }
}

impl LinearPlan {
    /// The matrix.
    #[must_use]
    pub fn transform(&self) -> &LinearTransform {
        &self.transform
    }

    /// The level of the inputs.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Level of the result, one below that of the inputs.
    #[must_use]
    pub fn output_level(&self) -> Level {
        Level(self.level.0 - 1)
    }

    /// Scale of the result.
    #[must_use]
    pub fn output_scale(&self) -> Scale {
        self.output_scale
    }

    /// The scale at which the diagonals are encoded.
    #[must_use]
    pub fn weight_scale(&self) -> Scale {
        self.weight_scale
    }

    /// Keys needed.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.request
    }

    /// Encoded diagonals that an evaluator keeps.
    #[must_use]
    pub fn weights(&self) -> usize {
        self.transform.diagonals.len()
    }

    /// For ciphertexts that are raised to its level, the largest weight of the ephemeral
    /// secret.
    #[must_use]
    pub fn ephemeral_weight(&self) -> Option<u32> {
        self.ephemeral_weight
    }

    /// The rotations that it sums.
    #[must_use]
    pub fn rotation_sum(&self) -> RotationSum {
        let slots = 1 << self.transform.log_slots;
        RotationSum {
            level: self.level,
            log_slots: self.transform.log_slots,
            scale: self.weight_scale,
            baby: self.steps.baby_offsets(slots).map(|k| k as i64).collect(),
            giant: (self.steps.baby * self.steps.stride % slots) as i64,
            stages: self.steps.giant,
            ephemeral_weight: self.ephemeral_weight,
        }
    }

    /// `w_jb`, none if it is zero.
    pub(super) fn weight(&self, j: usize, b: usize) -> Option<Vec<Complex<f64>>> {
        let slots = 1 << self.transform.log_slots;
        let turned = j * self.steps.baby * self.steps.stride % slots;
        let offset = (self.steps.start + turned + b * self.steps.stride) % slots;
        let mut diagonal = self.transform.diagonals.get(&offset)?.clone();
        diagonal.rotate_right(turned);
        Some(diagonal)
    }

    /// Applies a matrix that `e` prepared from this plan to a ciphertext of its scale, at its
    /// level or above.
    ///
    /// # Errors
    /// [`Error::ScaleMismatch`] if `x` has another scale than planned, and what the evaluator
    /// refuses.
    pub fn run<E: Ops>(&self, e: &E, matrix: &E::Matrix, x: &E::Ct) -> Result<E::Ct> {
        let (found, planned) = (e.scale(x), self.scale);
        if !found.matches(planned) {
            let (left, right) = (found.log2(), planned.log2());
            return Err(Error::ScaleMismatch { op: "linear transform", left, right });
        }
        e.transform(x, matrix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three diagonals of small whole numbers, so that sums are exact.
    fn matrix(seed: usize) -> LinearTransform {
        let entry = |k: usize, i: usize| {
            let x = (seed + 7 * k + 3 * i) % 11;
            Complex::new(x as f64 - 5.0, (x * x % 7) as f64)
        };
        let diagonal = |k: usize| (k, (0..8).map(|i| entry(k, i)).collect());
        LinearTransform::new(3, [0, 1 + seed % 3, 6].map(diagonal).into()).unwrap()
    }

    fn dense(m: &LinearTransform) -> Vec<Vec<Complex<f64>>> {
        let mut rows = vec![vec![Complex::new(0.0, 0.0); 8]; 8];
        for (&k, entries) in m.diagonals() {
            for (i, &entry) in entries.iter().enumerate() {
                rows[i][(i + k) % 8] = entry;
            }
        }
        rows
    }

    #[test]
    fn applies_and_composes_as_dense_matrices_do() {
        let x: Vec<_> = (0..8).map(|i| Complex::new(f64::from(i), 2.0)).collect();
        for seed in 0..5 {
            let (a, b) = (matrix(seed), matrix(seed + 5));
            let product = |row: &Vec<Complex<f64>>| {
                row.iter().zip(&x).fold(Complex::new(0.0, 0.0), |sum, (&m, &x)| sum + m * x)
            };
            assert_eq!(a.apply(&x), dense(&a).iter().map(product).collect::<Vec<_>>());
            assert_eq!(b.after(&a).apply(&x), b.apply(&a.apply(&x)));
            let half = Complex::new(0.0, 0.5);
            let scaled: Vec<_> = a.apply(&x).into_iter().map(|z| z * half).collect();
            assert_eq!(a.scaled(half).apply(&x), scaled);
        }
    }

    #[test]
    fn steps_reach_every_offset_and_no_more_than_needed() {
        let slots = 64;
        let cases: [(&[usize], Steps); 5] = [
            (&[0], Steps { start: 0, stride: 64, baby: 1, giant: 1 }),
            (&[5], Steps { start: 5, stride: 64, baby: 1, giant: 1 }),
            (&[0, 3], Steps { start: 0, stride: 3, baby: 2, giant: 1 }),
            // From -3 to 3.
            (&[0, 1, 2, 3, 61, 62, 63], Steps { start: 61, stride: 1, baby: 4, giant: 2 }),
            // From -24 to 24 in steps of 8.
            (&[0, 8, 16, 24, 40, 48, 56], Steps { start: 40, stride: 8, baby: 4, giant: 2 }),
        ];
        for (offsets, expected) in cases {
            assert_eq!(Steps::of(offsets, slots, true), expected, "{offsets:?}");
            let Steps { start, stride, baby, giant } = Steps::of(offsets, slots, false);
            assert_eq!((start, stride, giant), (expected.start, expected.stride, 1));
            assert!(baby <= expected.baby * expected.giant);
        }
    }

    #[test]
    fn halves_are_real_and_imaginary_parts() {
        let x: Vec<_> = (0..8).map(|i| Complex::new(f64::from(i * i % 5), f64::from(i))).collect();
        for seed in 0..5 {
            let m = matrix(seed);
            let y = m.apply(&x);

            let twice = m.to_halves().apply(&[x.clone(), x.clone()].concat());
            for (i, y) in y.iter().enumerate() {
                let real_part = |z: Complex<f64>| z + z.conj();
                assert_eq!(real_part(twice[i]), Complex::new(2.0 * y.re, 0.0));
                assert_eq!(real_part(twice[i + 8]), Complex::new(2.0 * y.im, 0.0));
            }

            let parts = x.iter().map(|z| z.re).chain(x.iter().map(|z| z.im));
            let parts: Vec<_> = parts.map(|re| Complex::new(re, 0.0)).collect();
            let halves = m.of_halves().apply(&parts);
            for (i, &y) in y.iter().enumerate() {
                assert_eq!(halves[i] + halves[i + 8], y);
            }
        }
    }

    #[test]
    fn halves_have_the_same_signed_offsets() {
        // Offsets 0, 1 and -2 of 8.
        for m in [matrix(0).to_halves(), matrix(0).of_halves()] {
            assert_eq!(m.log_slots(), 4);
            assert_eq!(m.diagonals().keys().copied().collect::<Vec<_>>(), [0, 1, 14]);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let zeros = |len| vec![Complex::new(0.0, 0.0); len];
        for diagonals in [(8, zeros(8)), (0, zeros(7))] {
            assert!(LinearTransform::new(3, [diagonals].into()).is_err());
        }
        assert!(matches!(LinearTransform::new(64, BTreeMap::new()), Err(Error::Circuit(_))));
        let nan = vec![Complex::new(f64::NAN, 0.0); 8];
        let found = LinearTransform::new(3, [(1, nan)].into());
        assert!(matches!(found, Err(Error::NotFinite { index: 0, .. })));
    }
}
