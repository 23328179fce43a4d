//! Layout of vectors in slots, and of a query in its ciphertexts.

use core::f64::consts::PI;

use sudare::ckks::Complex;
use sudare_arith::prng::{Seed, Stream};

use super::spec::Spec;
use sudare_arith::real;

/// Layout of the records of an index.
///
/// Record `r` of a half block has `group` slots, from slot `group r` on. The `c`-th of them holds
/// coordinate `group j + c` in ciphertext `j`. The real parts of the slots are one half block, and
/// the imaginary parts the other. With many records a group is one slot. With fewer records than a
/// block would then hold, groups are as long as the records allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Slots of a ciphertext, a power of two.
    pub slots: usize,
    /// Coordinates of embedded vectors.
    pub coordinates: usize,
    /// Slots of a record in each ciphertext, a power of two.
    pub group: usize,
    /// Blocks of an index with the planned number of records.
    pub blocks: usize,
}

impl Layout {
    /// Returns the layout of a search in ciphertexts of `slots` slots, a power of two, if a vector
    /// fits into one.
    pub fn new(spec: &Spec, slots: usize) -> Option<Self> {
        let coordinates = spec.dimension + spec.metric.further();
        if coordinates.next_power_of_two() > slots {
            return None;
        }
        let most = coordinates.next_power_of_two();
        let halves = spec.rows.div_ceil(2).next_power_of_two();
        let group = (slots / halves).clamp(1, most);
        let blocks = spec.rows.div_ceil(2 * slots / group);
        Some(Self { slots, coordinates, group, blocks })
    }

    /// Returns the records of half a block.
    pub fn half(&self) -> usize {
        self.slots / self.group
    }

    /// Returns the records of a block.
    pub fn block(&self) -> usize {
        2 * self.half()
    }

    /// Returns the ciphertexts of the vectors of a block.
    pub fn parts(&self) -> usize {
        self.coordinates.div_ceil(self.group)
    }

    /// Returns the number of ciphertexts that an encrypted query is spread over: [`Layout::parts`]
    /// rounded up to a power of two. The values of a query grow by this factor.
    pub fn spread(&self) -> usize {
        self.parts().next_power_of_two()
    }

    /// Returns the largest magnitude of an inner product of vectors with a norm of at most 1. A sum
    /// of slots that belong to two records mixes parts of both, so its norm may be `sqrt 2`.
    pub fn reach(&self) -> f64 {
        if self.group == 1 { 1.0 } else { 2f64.sqrt() }
    }

    /// Returns the blocks of an index of `rows` records.
    pub fn blocks_of(&self, rows: usize) -> usize {
        rows.div_ceil(self.block())
    }

    /// Returns the places of the records of a block, in their order. The permutation is public, and
    /// makes the places of matches as good as random.
    pub fn places(&self, block: usize) -> Vec<usize> {
        /// A fixed, readable seed: the permutation is public, so there is nothing to hide in it.
        const SEED: [u8; 32] = *b"places of the records of a block";
        let mut stream = Stream::new(&Seed::from_bytes(SEED), "sudare search", block as u64);
        let mut places: Vec<usize> = (0..self.block()).collect();
        // Fisher–Yates shuffle. The remainder of a 64-bit number is uniform up to 2^-37.
        for i in (1..places.len()).rev() {
            places.swap(i, (stream.next_u64() % (i as u64 + 1)) as usize);
        }
        places
    }

    /// Returns the number of the record at each place of a block.
    pub fn records(&self, block: usize) -> Vec<usize> {
        let places = self.places(block);
        let mut records = vec![0; places.len()];
        for (record, place) in places.into_iter().enumerate() {
            records[place] = record;
        }
        records
    }

    /// Returns the half block of a place, and its first slot.
    pub fn slot(&self, place: usize) -> (usize, usize) {
        (place / self.half(), place % self.half() * self.group)
    }

    /// Returns the slots of part `part` of the embedded vectors of a block, which stand at
    /// `places`.
    pub fn part(
        &self,
        vectors: &[Option<Vec<f64>>],
        places: &[usize],
        part: usize,
    ) -> Vec<Complex<f64>> {
        let mut slots = vec![Complex::new(0.0, 0.0); self.slots];
        let start = part * self.group;
        for (vector, &place) in vectors.iter().zip(places) {
            let coordinates = vector.iter().flat_map(|vector| vector.iter().skip(start));
            let (half, first) = self.slot(place);
            for (slot, &x) in slots[first..first + self.group].iter_mut().zip(coordinates) {
                *if half == 0 { &mut slot.re } else { &mut slot.im } = x;
            }
        }
        slots
    }

    /// Returns the coordinates of an embedded query that belong to part `part`, one for each slot
    /// of a group.
    pub fn query_part(&self, query: &[f64], part: usize) -> Vec<f64> {
        let mut group: Vec<f64> =
            query.iter().skip(part * self.group).take(self.group).copied().collect();
        group.resize(self.group, 0.0);
        group
    }

    /// Returns the slots of an embedded query. Its polynomial is `sum_j X^j q_j` over its parts.
    /// Each part repeats after a group, so it is a polynomial in `X^(slots / group)`.
    pub fn query(&self, query: &[f64]) -> Vec<Complex<f64>> {
        let parts: Vec<_> = (0..self.parts()).map(|part| self.query_part(query, part)).collect();
        let x = powers_of_x(self.slots, 1);
        let value = |(slot, &x): (usize, &Complex<f64>)| {
            let parts = parts.iter().rev();
            parts.fold(Complex::new(0.0, 0.0), |sum, part| {
                sum * x + Complex::new(part[slot % self.group], 0.0)
            })
        };
        x.iter().enumerate().map(value).collect()
    }
}

/// Returns the slots of `X^k` for a power of two of slots: its values at the roots
/// `exp(i pi 5^s / (2 slots))` for slot `s`.
pub(super) fn powers_of_x(slots: usize, k: i64) -> Vec<Complex<f64>> {
    // The order of a root.
    let order = 4 * slots as u64;
    let exponent = k.rem_euclid(order as i64) as u64;
    let of = |power: u64| {
        let angle = 2.0 * PI * ((power * exponent) % order) as f64 / order as f64;
        Complex::new(real::cos(angle), real::sin(angle))
    };
    let powers = core::iter::successors(Some(1u64), |power| Some(power * 5 % order));
    powers.take(slots).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Answer, Metric, Mode};

    fn layout(dimension: usize, rows: usize, slots: usize) -> Layout {
        let metric = Metric::Cosine;
        let mode = Mode::Encrypted;
        let answer = Answer::Scores;
        Layout::new(&Spec { dimension, rows, metric, mode, answer }, slots).unwrap()
    }

    #[test]
    fn groups_fill_what_records_leave() {
        for (dimension, rows, slots, group, blocks, parts) in [
            (128, 50_000, 1 << 14, 1, 2, 128),
            (128, 1 << 15, 1 << 14, 1, 1, 128),
            (128, 1 << 14, 1 << 14, 2, 1, 64),
            (384, 1000, 1 << 14, 32, 1, 12),
            (3, 1, 16, 4, 1, 1),
            (1, 1, 16, 1, 1, 1),
        ] {
            let layout = layout(dimension, rows, slots);
            assert_eq!((layout.group, layout.blocks, layout.parts()), (group, blocks, parts));
            assert!(layout.blocks * layout.block() >= rows);
        }
        let spec = Spec {
            dimension: 17,
            rows: 1,
            metric: Metric::Cosine,
            mode: Mode::Encrypted,
            answer: Answer::Scores,
        };
        assert_eq!(Layout::new(&spec, 16), None);
    }

    #[test]
    fn places_are_a_permutation_for_each_block() {
        let layout = layout(2, 200, 16);
        let places: Vec<_> = (0..2).map(|block| layout.places(block)).collect();
        assert_ne!(places[0], places[1]);
        for (block, mut places) in places.into_iter().enumerate() {
            let records = layout.records(block);
            assert!(places.iter().enumerate().all(|(record, &place)| records[place] == record));
            places.sort_unstable();
            assert_eq!(places, (0..32).collect::<Vec<_>>());
        }
        // Stored indexes depend on these places, so they must never change.
        assert_eq!(layout.places(1)[..4], [0, 13, 14, 9]);
    }

    /// In the clear, products of parts with the parts of a query, summed over groups.
    #[test]
    fn parts_make_inner_products() {
        let layout = layout(5, 4, 16);
        assert_eq!((layout.group, layout.parts(), layout.half()), (8, 1, 2));
        for layout in [layout, Layout { group: 2, ..layout }, Layout { group: 1, ..layout }] {
            let vector = |i: usize| (0..5).map(|c| (i * 5 + c) as f64).collect::<Vec<f64>>();
            let vectors = [Some(vector(0)), None, Some(vector(2)), Some(vector(3))];
            let query = vector(1);
            let places = layout.places(0);
            let mut sums = vec![Complex::new(0.0, 0.0); 16];
            for part in 0..layout.parts() {
                let slots = layout.part(&vectors, &places, part);
                let query = layout.query_part(&query, part);
                for (slot, (sum, x)) in sums.iter_mut().zip(slots).enumerate() {
                    *sum = *sum + x * Complex::new(query[slot % layout.group], 0.0);
                }
            }
            for (vector, &place) in vectors.iter().zip(&places) {
                let (half, first) = layout.slot(place);
                let sum = sums[first..first + layout.group].iter();
                let found: f64 = sum.map(|z| if half == 0 { z.re } else { z.im }).sum();
                let expected = vector.iter().flatten().zip(&query).map(|(a, b)| a * b).sum::<f64>();
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn powers_of_x_multiply_as_such() {
        let product = |a: i64, b: i64| {
            let a = powers_of_x(8, a);
            let b = powers_of_x(8, b);
            a.iter().zip(&b).map(|(&a, &b)| a * b).collect::<Vec<_>>()
        };
        for (a, b) in [(1, 2), (3, -3), (20, 13), (-7, 40)] {
            for (x, y) in product(a, b).iter().zip(powers_of_x(8, a + b)) {
                assert!((x.re - y.re).abs() + (x.im - y.im).abs() < 1e-12);
            }
        }
        // X^N is -1, and X^(N / 2) the imaginary unit at every root of the orbit of 5.
        assert!(powers_of_x(8, 16).iter().all(|z| (z.re + 1.0).abs() < 1e-12));
        assert!(powers_of_x(8, 8).iter().all(|z| (z.im - 1.0).abs() < 1e-12));
    }
}
