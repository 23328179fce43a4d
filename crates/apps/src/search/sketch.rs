//! Numbers next to each vector, whose sums over matches determine the matches.
//!
//! The places of records divide them into buckets. For each bucket, the server sums the numbers of
//! matching records. If a bucket has at most `L` matches, its sums determine all of them. Let `t`
//! be the tag of a record, its number within its bucket, and let `p_c` be the bytes of its payload.
//! The numbers of the record are `1`, `t, …, t^L` and `p_c, t p_c, …, t^(L-1) p_c` modulo a prime.
//!
//! The first sum is the number of matches. The next sums are power sums of their tags, from which
//! Newton's identities give the tags. The remaining sums are a Vandermonde system for the bytes. A
//! digest of place and payload, two more bytes, detects sums that do not come from whole matches.

use super::{
    layout::Layout,
    spec::{Answer, Mode, Spec},
};
use sudare_arith::real;

/// Bytes of the digest.
const CHECK_BYTES: usize = 2;

/// The smallest prime above all bytes.
const MIN_PRIME: u64 = 257;

/// Maximum number of matches of a bucket that are resolved.
const MAX_SOLVED: usize = 16;

/// Maximum `log2` of the probability that the planned number of matches, at random places, has too
/// many in one bucket.
const LOG2_CROWDED: f64 = -20.0;

/// Maximum number of candidates of a bucket.
const MAX_CANDIDATES: usize = 1 << 13;

/// The numbers next to each vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sketch {
    /// Number of buckets, a power of two.
    pub buckets: usize,
    /// Places of all blocks in each bucket.
    pub candidates: usize,
    /// Number of matches of a bucket that are resolved, 0 if they are only counted.
    pub solved: usize,
    /// Bytes of payload.
    payload: usize,
    prime: u64,
}

/// The content of a bucket, as its sums show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bucket {
    /// The matches: their tags and payloads.
    Solved(Vec<(usize, Vec<u8>)>),
    /// The number of matches, which is too large to resolve them.
    Crowded(usize),
    /// The sums do not come from whole matches.
    Undecided,
}

impl Sketch {
    /// Returns the sketch of a specification, or `None` for scores. Too many matches in one bucket
    /// must be improbable. Among such sketches, the one with the fewest ciphertexts of an answer,
    /// and then with the fewest numbers, is returned.
    pub fn new(spec: &Spec, layout: &Layout) -> Option<Self> {
        let half = layout.half();
        let of = |buckets: usize, solved: usize, payload: usize| {
            let candidates = 2 * layout.blocks * (half / buckets);
            // Tags must differ modulo the prime.
            let prime = least_prime(MIN_PRIME.max(candidates as u64));
            Self { buckets, candidates, solved, payload, prime }
        };
        match spec.answer {
            Answer::Scores => None,
            // One bucket: people who do not own the index must not learn where the matches are.
            Answer::Count(_) if spec.mode == Mode::PlainIndex => Some(of(1, 0, 0)),
            Answer::Count(_) => Some(of(half, 0, 0)),
            Answer::Matches { most, payload, .. } => {
                let all = (0..=half.ilog2()).flat_map(|log| {
                    (1..=MAX_SOLVED).map(move |solved| of(1 << log, solved, payload))
                });
                let few = |sketch: &Self| {
                    let Self { buckets, candidates, solved, .. } = *sketch;
                    candidates <= MAX_CANDIDATES
                        && (solved >= most.min(candidates)
                            || log2_crowded(most, solved, buckets) <= LOG2_CROWDED)
                };
                // Sums of larger numbers need more precision, so the smallest prime comes first.
                let cost = |sketch: &Self| {
                    (sketch.prime, sketch.outputs(layout), sketch.pairs(), sketch.candidates)
                };
                all.filter(few).min_by_key(cost)
            }
        }
    }

    /// Returns the number of numbers next to a vector.
    pub fn columns(&self) -> usize {
        1 + self.solved * (1 + self.bytes())
    }

    /// Returns the number of pairs of numbers: real and imaginary parts of slots.
    pub fn pairs(&self) -> usize {
        self.columns().div_ceil(2)
    }

    /// Returns the slots after which sums of buckets repeat.
    pub fn period(&self, layout: &Layout) -> usize {
        self.buckets * layout.group
    }

    /// Returns the pairs of sums in a ciphertext of an answer: the number of classes of
    /// coefficients of polynomials in `X^(slots / period)`.
    pub fn packed(&self, layout: &Layout) -> usize {
        layout.slots / self.period(layout)
    }

    /// Returns the ciphertexts of an answer.
    pub fn outputs(&self, layout: &Layout) -> usize {
        self.pairs().div_ceil(self.packed(layout))
    }

    /// Returns the largest of the numbers.
    pub fn largest(&self) -> f64 {
        if self.solved == 0 { 1.0 } else { (self.prime - 1) as f64 }
    }

    /// Returns the tolerated distance of the count of a bucket from an integer, at most a quarter.
    /// Other sums are off by [`Sketch::largest`] times this distance.
    pub fn tolerance(&self) -> f64 {
        0.25 / self.largest()
    }

    /// Returns the bytes of a record that determine its numbers.
    fn bytes(&self) -> usize {
        if self.solved == 0 { 0 } else { self.payload + CHECK_BYTES }
    }

    /// Returns the bucket of a place of a block, and the tag there.
    pub fn tag(&self, layout: &Layout, block: usize, place: usize) -> (usize, usize) {
        let half = place / layout.half();
        let record = place % layout.half();
        let each = layout.half() / self.buckets;
        let tag = (2 * block + half) * each + record / self.buckets;
        (record % self.buckets, tag)
    }

    /// Returns the block and the place of a tag in a bucket.
    pub fn place(&self, layout: &Layout, bucket: usize, tag: usize) -> (usize, usize) {
        let each = layout.half() / self.buckets;
        let half_block = tag / each;
        let record = tag % each * self.buckets + bucket;
        (half_block / 2, half_block % 2 * layout.half() + record)
    }

    /// Returns the bytes that, together with the tag, determine the numbers of a record: its
    /// payload and the digest.
    pub fn symbols(&self, bucket: usize, tag: usize, payload: &[u8]) -> Vec<u8> {
        match self.solved {
            0 => Vec::new(),
            _ => [payload, &check(bucket, tag, payload)].concat(),
        }
    }

    /// Returns number `column` of a record, or 0 beyond the last.
    pub fn number(&self, tag: usize, symbols: &[u8], column: usize) -> f64 {
        let power = |exponent| power(tag as u64, exponent, self.prime);
        let number = match column.checked_sub(1 + self.solved) {
            None => power(column),
            Some(moment) => {
                let exponent = moment / symbols.len().max(1);
                let c = moment % symbols.len().max(1);
                let symbol = symbols.get(c).filter(|_| exponent < self.solved);
                symbol.map_or(0, |&symbol| u64::from(symbol) * power(exponent) % self.prime)
            }
        };
        number as f64
    }

    /// Returns the number of matches that the first sum of a bucket represents, if it is close to
    /// an integer.
    pub fn count(&self, sum: f64) -> Option<usize> {
        let count = sum.round();
        // The comparison is false for NaN.
        let is_one = (sum - count).abs() <= self.tolerance();
        (is_one && (0.0..=self.candidates as f64).contains(&count)).then_some(count as usize)
    }

    /// Decodes the sums of a bucket, at least [`Sketch::columns`] of them.
    pub fn read(&self, bucket: usize, sums: &[f64]) -> Bucket {
        let Some(count) = sums.first().and_then(|&sum| self.count(sum)) else {
            return Bucket::Undecided;
        };
        if count == 0 {
            return Bucket::Solved(Vec::new());
        }
        if count > self.solved {
            return Bucket::Crowded(count);
        }
        self.solve(bucket, count, sums).map_or(Bucket::Undecided, Bucket::Solved)
    }

    fn solve(&self, bucket: usize, count: usize, sums: &[f64]) -> Option<Vec<(usize, Vec<u8>)>> {
        let p = self.prime;
        let symbols = self.bytes();
        let residue = |&sum: &f64| {
            let integer = sum.round();
            let is_one = (sum - integer).abs() <= 0.25 + self.tolerance();
            // Integers of this size are exact.
            (is_one && (0.0..1e15).contains(&integer)).then_some(integer as u64 % p)
        };
        let sums: Vec<u64> = sums[1..self.columns()].iter().map(residue).collect::<Option<_>>()?;
        let (powers, moments) = sums.split_at(self.solved);
        let tags = self.tags(count, powers)?;
        let mut payloads = vec![Vec::with_capacity(symbols); count];
        for c in 0..symbols {
            let moments: Vec<u64> = moments.iter().skip(c).step_by(symbols).copied().collect();
            let symbol = |tag: &u64| {
                // The polynomial that is 1 at this tag and 0 at the others.
                let mut lagrange = vec![1];
                for other in tags.iter().filter(|other| *other != tag) {
                    let inverse = inverse((tag + p - other) % p, p);
                    lagrange = times_linear(&lagrange, other * inverse % p, inverse, p);
                }
                lagrange.iter().zip(&moments).fold(0, |sum, (a, b)| (sum + a * b) % p)
            };
            let found: Vec<u64> = tags.iter().map(symbol).collect();
            let moment = |m: usize| {
                let terms = tags.iter().zip(&found);
                terms.fold(0, |sum, (&tag, x)| (sum + power(tag, m, p) * x) % p)
            };
            // The unused sums must agree, too. Otherwise the sums do not come from whole matches.
            if (count..self.solved).any(|m| moment(m) != moments[m]) {
                return None;
            }
            for (payload, symbol) in payloads.iter_mut().zip(found) {
                payload.push(u8::try_from(symbol).ok()?);
            }
        }
        let matched = tags.into_iter().zip(payloads).map(|(tag, mut payload)| {
            let found = payload.split_off(self.payload);
            let tag = tag as usize;
            (found == check(bucket, tag, &payload)).then_some((tag, payload))
        });
        matched.collect()
    }

    /// Finds `count` different tags of candidates with these power sums. The first power sum is the
    /// sum.
    fn tags(&self, count: usize, powers: &[u64]) -> Option<Vec<u64>> {
        let p = self.prime;
        // Newton: k e_k = e_(k-1) p_1 - e_(k-2) p_2 + …, and (-1)^k e_k are coefficients.
        let mut coefficients = vec![1];
        for k in 1..=count {
            let terms = coefficients.iter().rev().zip(powers);
            let sum = terms.fold(0, |sum, (a, b)| (sum + a * b) % p);
            coefficients.push((p - sum) % p * inverse(k as u64, p) % p);
        }
        // All candidates are tried: there are at most `MAX_CANDIDATES`, and the degree is at most
        // `MAX_SOLVED`.
        let value = |x: u64| coefficients.iter().fold(0, |sum, a| (sum * x + a) % p);
        let tags: Vec<u64> = (0..self.candidates as u64).filter(|&tag| value(tag) == 0).collect();
        let sum = |k: usize| tags.iter().fold(0, |sum, &tag| (sum + power(tag, k, p)) % p);
        // The unused power sums must agree, too. Otherwise the sums do not come from whole matches.
        let agrees = (count + 1..=self.solved).all(|k| sum(k) == powers[k - 1]);
        (tags.len() == count && agrees).then_some(tags)
    }
}

/// Returns `log2` of a bound of the probability that more than `solved` of `matches` matches, at
/// random places, are in one bucket. The bound is the expected number of sets of `solved + 1`
/// matches in one bucket.
pub(super) fn log2_crowded(matches: usize, solved: usize, buckets: usize) -> f64 {
    let sets = (0..=solved).map(|i| real::log2((matches as f64 - i as f64) / (i as f64 + 1.0)));
    sets.sum::<f64>() - solved as f64 * real::log2(buckets as f64)
}

fn check(bucket: usize, tag: usize, payload: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new();
    for number in [bucket, tag] {
        hasher.update(&(number as u64).to_le_bytes());
    }
    let digest = hasher.update(payload).finalize();
    core::array::from_fn(|i| digest.as_bytes()[i])
}

/// Multiplies the polynomial with these coefficients, the lowest first, by `slope x - root`.
fn times_linear(polynomial: &[u64], root: u64, slope: u64, p: u64) -> Vec<u64> {
    let mut product = vec![0; polynomial.len() + 1];
    for (i, &a) in polynomial.iter().enumerate() {
        product[i] = (product[i] + a * (p - root)) % p;
        product[i + 1] = (product[i + 1] + a * slope) % p;
    }
    product
}

fn power(x: u64, exponent: usize, p: u64) -> u64 {
    let mut result = 1;
    let mut base = x % p;
    let mut rest = exponent;
    while rest > 0 {
        if rest % 2 == 1 {
            result = result * base % p;
        }
        base = base * base % p;
        rest /= 2;
    }
    result
}

/// Returns the inverse modulo a prime, by Fermat's little theorem.
fn inverse(x: u64, p: u64) -> u64 {
    power(x, p as usize - 2, p)
}

/// Returns the smallest prime that is at least `from`.
fn least_prime(from: u64) -> u64 {
    let is_prime =
        |&n: &u64| n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    (from..).find(is_prime).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Metric, Threshold};

    fn layout(spec: &Spec) -> Layout {
        Layout::new(spec, 1 << 14).unwrap()
    }

    fn spec(rows: usize, most: usize, payload: usize) -> Spec {
        let threshold = Threshold { at: 0.8, margin: 0.1 };
        Spec {
            dimension: 128,
            rows,
            metric: Metric::Cosine,
            mode: Mode::Encrypted,
            answer: Answer::Matches { threshold, most, payload },
        }
    }

    fn sum(numbers: &[Vec<f64>]) -> Vec<f64> {
        (0..numbers[0].len()).map(|i| numbers.iter().map(|x| x[i]).sum()).collect()
    }

    /// Returns all numbers of a record, and two beyond the last.
    fn numbers(sketch: &Sketch, bucket: usize, tag: usize, payload: &[u8]) -> Vec<f64> {
        let symbols = sketch.symbols(bucket, tag, payload);
        (0..sketch.columns() + 2).map(|column| sketch.number(tag, &symbols, column)).collect()
    }

    #[test]
    fn places_and_tags_are_the_same() {
        let spec = spec(50_000, 32, 8);
        let layout = layout(&spec);
        let sketch = Sketch::new(&spec, &layout).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for block in 0..layout.blocks {
            for place in 0..layout.block() {
                let (bucket, tag) = sketch.tag(&layout, block, place);
                assert!(bucket < sketch.buckets && tag < sketch.candidates);
                assert!(seen.insert((bucket, tag)));
                assert_eq!(sketch.place(&layout, bucket, tag), (block, place));
            }
        }
    }

    /// Tests each number of matches up to the maximum that is resolved, and one more.
    #[test]
    fn sums_of_matches_are_solved() {
        let spec = spec(50_000, 32, 8);
        let sketch = Sketch { solved: 4, ..Sketch::new(&spec, &layout(&spec)).unwrap() };
        let payload = |tag: usize| (0..8).map(|i| (tag * 37 + i * 101) as u8).collect::<Vec<u8>>();
        for tags in [&[][..], &[0], &[31], &[0, 1], &[5, 30, 2], &[0, 7, 31, 12]] {
            let of = |tag: usize| numbers(&sketch, 9, tag, &payload(tag));
            let none = vec![0.0; sketch.columns() + 2];
            let all: Vec<_> = tags.iter().map(|&tag| of(tag)).chain([none]).collect();
            let mut expected: Vec<_> = tags.iter().map(|&tag| (tag, payload(tag))).collect();
            expected.sort();
            let error = |(i, x): (usize, f64)| x + if i == 0 { 5e-4 } else { 0.12 };
            let sums: Vec<f64> = sum(&all).into_iter().enumerate().map(error).collect();
            assert_eq!(sketch.read(9, &sums), Bucket::Solved(expected));
            // The sums of another bucket, or with half a match added.
            if !tags.is_empty() {
                assert_eq!(sketch.read(8, &sums), Bucket::Undecided);
                let half: Vec<f64> = sums.iter().map(|x| x * 0.5).collect();
                assert_eq!(sketch.read(9, &half), Bucket::Undecided);
            }
        }
        let five: Vec<_> = (0..5).map(|tag| numbers(&sketch, 9, tag, &payload(tag))).collect();
        assert_eq!(sketch.read(9, &sum(&five)), Bucket::Crowded(5));
        // Two halves of different matches count as one.
        let halves: Vec<f64> = sum(&five[..2]).iter().map(|x| x / 2.0).collect();
        assert_eq!(sketch.read(9, &halves), Bucket::Undecided);
        assert_eq!(sketch.read(9, &vec![f64::NAN; sketch.columns()]), Bucket::Undecided);
        assert_eq!(sketch.read(9, &[]), Bucket::Undecided);
    }

    #[test]
    fn answers_are_short_and_buckets_seldom_crowded() {
        for (rows, most, payload, outputs) in
            [(50_000, 32, 8, 2), (1_000_000, 32, 8, 5), (1000, 10, 8, 2), (5, 5, 0, 1)]
        {
            let spec = spec(rows, most, payload);
            let layout = layout(&spec);
            let sketch = Sketch::new(&spec, &layout).unwrap();
            let all = sketch.solved >= most.min(sketch.candidates);
            assert!(all || log2_crowded(most, sketch.solved, sketch.buckets) <= -20.0);
            assert!(sketch.outputs(&layout) <= outputs, "{rows}: {sketch:?}");
            assert!(sketch.prime >= sketch.candidates as u64);
        }
        let count = |mode| {
            let answer = Answer::Count(Threshold { at: 0.8, margin: 0.1 });
            let spec = Spec { mode, answer, ..spec(50_000, 1, 0) };
            Sketch::new(&spec, &layout(&spec)).unwrap()
        };
        assert_eq!((count(Mode::PlainIndex).buckets, count(Mode::Encrypted).buckets), (1, 1 << 14));
        assert_eq!(count(Mode::Encrypted).columns(), 1);
    }

    /// Three matches in 2^k buckets: all sets of two, and the set of three.
    #[test]
    fn bounds_are_expected_numbers_of_sets() {
        assert!((log2_crowded(3, 1, 8) - (3f64 / 8.0).log2()).abs() < 1e-12);
        assert!((log2_crowded(3, 2, 8) - (1f64 / 64.0).log2()).abs() < 1e-12);
        assert_eq!(log2_crowded(3, 3, 8), f64::NEG_INFINITY);
    }

    #[test]
    fn primes_and_inverses() {
        assert_eq!([2, 257, 258, 514, 8192].map(least_prime), [2, 257, 263, 521, 8209]);
        assert!((1..257).all(|x| x * inverse(x, 257) % 257 == 1));
    }
}
