//! Sums over slots by rotations.

use super::Ops;
use crate::{
    Error, Result,
    rlwe::{KeyRequest, Level},
};

/// The sum of `count` batches of `batch` slots: slot `i` of the result is
/// `sum_(j < count) x[i + j batch]`, indices modulo the number of slots.
///
/// If `batch * count` is the number of slots of the ciphertext, each batch of the
/// result is the same sum: it comes out replicated. Otherwise only slots `i` for
/// which `i .. i + batch * count` is one group of the data hold a sum of that group;
/// the others mix neighbours.
///
/// A sum of `n` batches needs `floor(log2 n)` rotations, and one more for each
/// further binary digit 1 of `n`: the double-and-add form of "partial sums" in
/// Cheon, Kim, Kim, Song, "Homomorphic encryption for arithmetic of approximate
/// numbers" ([2016/421](https://eprint.iacr.org/2016/421), Algorithm 2), which has
/// powers of two only. It uses no level and leaves the scale; values grow by up to
/// `count`, for which the modulus must have room. Rotations are the cheaper the
/// fewer primes are left, so drop to the lowest level with that room first.
///
/// ```
/// use sudare::ckks::{Chain, Complex, Scale};
/// use sudare::circuits::{InnerSum, sim};
/// use sudare::rlwe::Level;
///
/// let e = sim::Evaluator::new(4, Chain::new(vec![], vec![50.0]));
/// let slots: Vec<_> = (0..8).map(|i| Complex::new(f64::from(i), 0.0)).collect();
/// let x = e.encrypt(&slots, Level(0), Scale::from_log2(30.0))?;
/// let rows = InnerSum::new(4, 2, 4)?;
/// let y = rows.run(&e, &x)?;
/// assert_eq!((y.slots[0].re, y.slots[1].re), (0.0 + 2.0 + 4.0 + 6.0, 1.0 + 3.0 + 5.0 + 7.0));
/// assert_eq!(e.used_keys(), rows.required_keys(Level(0)));
/// # Ok::<(), sudare::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerSum {
    log_n: u32,
    steps: Vec<Step>,
}

/// What makes a sum of more batches from one of fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// From `m` batches to `2m`; rotation by `m` batches.
    Double(i64),
    /// From `m` batches to `m + 1`; rotation by one batch.
    Next(i64),
}

impl InnerSum {
    /// Plans the sum of `count >= 1` batches of `batch >= 1` slots in the ring of
    /// dimension `2^log_n`.
    ///
    /// # Errors
    /// [`Error::Circuit`] if a number is 0 or the batches exceed `N/2` slots.
    pub fn new(log_n: u32, batch: usize, count: usize) -> Result<Self> {
        let slots = 1usize.checked_shl(log_n.saturating_sub(1)).unwrap_or(0);
        let fits = batch.checked_mul(count).is_some_and(|total| (1..=slots).contains(&total));
        if !fits {
            return Err(Error::Circuit(format!(
                "inner sum: {count} batches of {batch} slots, of {slots} slots in the ring: at \
                 least one batch of one slot is needed, and at most all slots"
            )));
        }
        let rotation = |batches: usize| (batch * batches) as i64;
        let mut steps = Vec::new();
        for bit in (0..count.ilog2()).rev() {
            let done = count >> (bit + 1);
            steps.push(Step::Double(rotation(done)));
            if count >> bit & 1 == 1 {
                steps.push(Step::Next(rotation(1)));
            }
        }
        Ok(Self { log_n, steps })
    }

    /// Keys for sums at `level` and below.
    #[must_use]
    pub fn required_keys(&self, level: Level) -> KeyRequest {
        let rotations = self.steps.iter().map(|&(Step::Double(k) | Step::Next(k))| k);
        KeyRequest::new().rotations(self.log_n, rotations, level)
    }

    /// The sum, at the level and the scale of `x`.
    ///
    /// # Errors
    /// [`Error::Circuit`] if the evaluator has another ring than planned for, and
    /// what the evaluator refuses.
    pub fn run<E: Ops>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        if e.log_n() != self.log_n {
            return Err(Error::Circuit(format!(
                "inner sum: planned for N = 2^{}, the evaluator has 2^{}: plan for the ring of \
                 the evaluator",
                self.log_n,
                e.log_n()
            )));
        }
        self.steps.iter().try_fold(x.clone(), |sum, step| match *step {
            Step::Double(k) => e.add(&sum, &e.rotate(&sum, k)?),
            Step::Next(k) => e.add(x, &e.rotate(&sum, k)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        circuits::sim,
        ckks::{Chain, Complex, Scale},
    };

    const LOG_N: u32 = 6;
    const SLOTS: usize = 32;

    fn evaluator() -> sim::Evaluator {
        sim::Evaluator::new(LOG_N, Chain::new(vec![], vec![60.0]))
    }

    #[test]
    fn equals_the_definition_for_every_shape() {
        for batch in 1..=SLOTS {
            for count in 1..=SLOTS / batch {
                let e = evaluator();
                let slots: Vec<_> =
                    (0..SLOTS).map(|i| Complex::new((i * i % 37) as f64, i as f64)).collect();
                let x = e.encrypt(&slots, Level(0), Scale::from_log2(30.0)).unwrap();
                let sum = InnerSum::new(LOG_N, batch, count).unwrap();
                let found = sum.run(&e, &x).unwrap();
                for i in 0..SLOTS {
                    let expected = (0..count)
                        .map(|j| slots[(i + j * batch) % SLOTS])
                        .fold(Complex::new(0.0, 0.0), |sum, z| sum + z);
                    assert_eq!(found.slots[i], expected, "{count} batches of {batch}, slot {i}");
                }
                assert_eq!(e.used_keys(), sum.required_keys(Level(0)));
                let rotations = count.ilog2() + count.count_ones() - 1;
                assert_eq!(e.counts().automorphisms, u64::from(rotations));
            }
        }
    }

    #[test]
    fn sums_of_all_slots_are_replicated() {
        let e = evaluator();
        let slots: Vec<_> = (0..8).map(|i| Complex::new(f64::from(i), 0.0)).collect();
        let x = e.encrypt(&slots, Level(0), Scale::from_log2(30.0)).unwrap();
        let sum = InnerSum::new(LOG_N, 1, 8).unwrap().run(&e, &x).unwrap();
        assert!(sum.slots.iter().all(|z| *z == Complex::new(28.0, 0.0)));
    }

    #[test]
    fn refuses_empty_and_oversized_sums_and_other_rings() {
        for (batch, count) in [(0, 1), (1, 0), (1, 33), (33, 1), (usize::MAX, 2)] {
            assert!(matches!(InnerSum::new(LOG_N, batch, count), Err(Error::Circuit(_))));
        }
        assert!(matches!(InnerSum::new(0, 1, 2), Err(Error::Circuit(_))));
        let e = evaluator();
        let x = e.encrypt(&[], Level(0), Scale::from_log2(30.0)).unwrap();
        let other = InnerSum::new(LOG_N + 1, 1, 2).unwrap();
        assert!(matches!(other.run(&e, &x), Err(Error::Circuit(_))));
    }
}
