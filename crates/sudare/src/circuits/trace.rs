//! Trace-type functions: sums of the images of a ciphertext under automorphisms.
//!
//! A [`Trace`] lists the images to sum, and a [`TracePlan`] groups them. The sum over `m n` images
//! is the sum over `m` of sums over `n`. Thus `2^M` images need `M` groups of one rotation each
//! (repeated doubling), or `h` larger ones (unrolling). An image costs a product with its own key.
//! A group costs a decomposition and a division, for any number of images
//! ([`Ops::sum_automorphisms`]). Fewer groups are faster until their keys cost more than the groups
//! saved; see [`TracePlan::work`].
//!
//! No sum uses a level or changes the scale. Values grow by up to the number of images, and the
//! modulus must have room for that. Images are cheaper with fewer primes, so first drop to the
//! lowest level with enough room.
//!
//! Reference: Ishimaki, Yamana, "Faster homomorphic trace-type function evaluation" (IEEE Access 9,
//! 2021), Algorithm 5. Deviation: the number of images is arbitrary, not only a power of two.
//!
//! ```
//! use sudare::ckks::{Chain, Complex, Scale};
//! use sudare::circuits::{Trace, ckks::sim};
//! use sudare::rlwe::Level;
//!
//! let e = sim::Evaluator::new(4, Chain::new(vec![], vec![50.0]));
//! let slots: Vec<_> = (0..8).map(|i| Complex::new(f64::from(i), 0.0)).collect();
//! let x = e.encrypt(&slots, Level(0), Scale::from_log2(30.0))?;
//! let rows = Trace::inner_sum(4, 2, 4)?.doubling();
//! let y = rows.run(&e, &x)?;
//! assert_eq!((y.slots[0].re, y.slots[1].re), (0.0 + 2.0 + 4.0 + 6.0, 1.0 + 3.0 + 5.0 + 7.0));
//! assert_eq!(e.used_keys(), rows.required_keys(Level(0)));
//! # Ok::<(), sudare::Error>(())
//! ```

use super::Ops;
use crate::{
    Error, Result,
    rlwe::{GaloisElement, KeyRequest, Level, Params, Rates, Work, work::AutomorphismGroup},
};
use std::collections::BTreeMap;

const OP: &str = "trace";

/// Maximum number of images of one group: more keys would cost far more than the groups they save.
const MAX_IMAGES: usize = 1 << 8;

/// The images of a ciphertext to sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    log_n: u32,
    /// Distance of images, in slots.
    step: i64,
    /// Number of rotations, including the identity.
    count: usize,
    /// `true` if the conjugates of all of them are summed as well.
    conjugates: bool,
}

impl Trace {
    /// Makes the sum of `count >= 1` batches of `batch >= 1` slots in the ring of dimension
    /// `2^log_n`: slot `i` of the result is `sum_(j < count) x[i + j batch]`, indices modulo the
    /// number of slots.
    ///
    /// If `batch * count` is the number of slots of the ciphertext, each batch of the result is the
    /// same sum, replicated. Otherwise only slots `i` for which `i .. i + batch * count` is one
    /// group of the data hold a sum of that group. The others mix neighbours.
    ///
    /// # Errors
    /// [`Error::Circuit`] if a number is 0 or the batches exceed `N/2` slots.
    pub fn inner_sum(log_n: u32, batch: usize, count: usize) -> Result<Self> {
        let slots = 1usize.checked_shl(log_n.saturating_sub(1)).unwrap_or(0);
        let fits = batch.checked_mul(count).is_some_and(|total| (1..=slots).contains(&total));
        if !fits {
            return Err(Error::Circuit(format!(
                "{OP}: {count} batches of {batch} slots, of {slots} slots in the ring: at least \
                 one batch of one slot is needed, and at most all slots"
            )));
        }
        Ok(Self { log_n, step: batch as i64, count, conjugates: false })
    }

    /// Makes the trace that copies the first batch of `batch` slots to each of the first `count`
    /// batches, if the other slots read are zero. Slot `i` of the result is
    /// `sum_(j < count) x[i - j batch]`.
    ///
    /// # Errors
    /// See [`Trace::inner_sum`].
    pub fn replicate(log_n: u32, batch: usize, count: usize) -> Result<Self> {
        let sum = Self::inner_sum(log_n, batch, count)?;
        Ok(Self { step: -sum.step, ..sum })
    }

    /// Makes the trace from the ring to the ring of `2^log_slots` slots:
    /// `2^(log_n - 1 - log_slots)` times the projection to the coefficients of the smaller ring,
    /// known as SubSum.
    ///
    /// # Errors
    /// [`Error::Circuit`] for more slots than the ring has.
    pub fn to_slots(log_n: u32, log_slots: u32) -> Result<Self> {
        match log_n.checked_sub(1).and_then(|all| all.checked_sub(log_slots)) {
            Some(gap) => Self::inner_sum(log_n, 1 << log_slots, 1 << gap),
            None => Err(Error::Circuit(format!(
                "{OP}: to 2^{log_slots} slots of a ring of degree 2^{log_n}: at most half the \
                 degree is possible"
            ))),
        }
    }

    /// Makes the sum of all images: `N` times the constant coefficient of the polynomial, twice the
    /// real part of the sum of all slots.
    ///
    /// # Errors
    /// [`Error::Circuit`] for a ring without slots.
    pub fn field(log_n: u32) -> Result<Self> {
        Ok(Self { conjugates: true, ..Self::to_slots(log_n, 0)? })
    }

    /// Number of images.
    #[must_use]
    pub fn images(&self) -> usize {
        self.count << u32::from(self.conjugates)
    }

    /// Plans repeated doubling, which needs the fewest keys: one for each doubling and one more for
    /// each further binary digit 1 of the number of images.
    #[must_use]
    pub fn doubling(&self) -> TracePlan {
        let doublings = self.count.checked_ilog2().unwrap_or(0) as usize;
        self.plan(&Split { factors: vec![2; doublings], conjugates_merged: false })
    }

    /// Plans `groups` groups with the fewest keys. For `2^M` images, groups have `M / groups`
    /// doublings, rounded up or down.
    ///
    /// # Errors
    /// [`Error::Circuit`] if there is no such plan: for more groups than doublings, or if a group
    /// had more than 256 images.
    pub fn unrolled(&self, groups: usize) -> Result<TracePlan> {
        let keys = |group: AutomorphismGroup| group.keys() as f64;
        match self.cheapest(groups, &mut Search::new(&keys)) {
            Some((_, split)) => Ok(self.plan(&split)),
            None => Err(Error::Circuit(format!(
                "{OP}: {} images cannot be summed in {groups} groups: choose at least 1 group and at \
                 most one for each doubling, with at most {MAX_IMAGES} images each",
                self.images()
            ))),
        }
    }

    /// Plans the groups with the least time for ciphertexts at `level`, by [`Rates::reference`].
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`].
    pub fn fastest(&self, params: &Params, level: Level) -> Result<TracePlan> {
        params.check_level(level)?;
        let rates = Rates::reference(params.log_n());
        let seconds = |group: AutomorphismGroup| group.work(params, level).seconds(&rates);
        let mut search = Search::new(&seconds);
        let most = self.images().checked_ilog2().unwrap_or(0) as usize;
        let splits = (0..=most).filter_map(|groups| self.cheapest(groups, &mut search));
        let best = splits.min_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(best.map_or_else(|| self.doubling(), |(_, split)| self.plan(&split)))
    }

    /// Returns the best split into `groups` groups, with its cost.
    fn cheapest(&self, groups: usize, search: &mut Search<'_>) -> Option<(f64, Split)> {
        if !self.conjugates {
            let (cost, factors) = search.factors(self.count, groups, true)?;
            return Some((cost, Split { factors, conjugates_merged: false }));
        }
        let rest = groups.checked_sub(1)?;
        let alone = search.factors(self.count, rest, false).map(|(cost, factors)| {
            let last =
                (search.cost)(AutomorphismGroup { images: 2, adds_input: false, last: true });
            (cost + last, Split { factors, conjugates_merged: false })
        });
        let merged = |factor: usize| {
            let divides = self.count.is_multiple_of(factor) && 2 * factor <= MAX_IMAGES;
            let (cost, mut factors) =
                divides.then(|| search.factors(self.count / factor, rest, false)).flatten()?;
            let last = (search.cost)(AutomorphismGroup {
                images: 2 * factor,
                adds_input: false,
                last: true,
            });
            factors.push(factor);
            Some((cost + last, Split { factors, conjugates_merged: true }))
        };
        let all = (2..=self.count.min(MAX_IMAGES)).filter_map(merged).chain(alone);
        all.min_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    fn plan(&self, split: &Split) -> TracePlan {
        let mut groups = Vec::with_capacity(split.factors.len() + 1);
        let mut count = self.count;
        for &factor in split.factors.iter().rev() {
            let inner = count / factor;
            let rest = count % factor;
            // An added input takes the first place, so all images move by one.
            let rotations = (0..factor).map(|j| ((rest + j * inner) as i64) * self.step);
            let images = rotations.map(|k| GaloisElement::rotation(self.log_n, k)).collect();
            groups.push(Group { images, adds_input: rest > 0 });
            count = inner;
        }
        debug_assert_eq!(count, 1);
        groups.reverse();
        if self.conjugates {
            let identity = GaloisElement::rotation(self.log_n, 0);
            if !split.conjugates_merged {
                groups.push(Group { images: vec![identity], adds_input: false });
            }
            if let Some(last) = groups.last_mut() {
                let conjugate = |g: &GaloisElement| g.conjugated(self.log_n);
                last.images.extend(last.images.iter().map(conjugate).collect::<Vec<_>>());
            }
        }
        TracePlan { log_n: self.log_n, groups }
    }
}

/// Split of a number of rotations. In each group, applied in this order, the sum `S_n` over `n`
/// becomes the sum over `factor n`, or over `factor n + 1` by adding the input.
struct Split {
    factors: Vec<usize>,
    /// `true` if the last group includes the conjugates, which otherwise are a group of their own.
    conjugates_merged: bool,
}

/// Factors of a [`Split`] with their cost.
type Priced = (f64, Vec<usize>);

/// The cheapest factors of numbers of rotations. Each is computed once.
struct Search<'a> {
    cost: &'a dyn Fn(AutomorphismGroup) -> f64,
    known: BTreeMap<(usize, usize, bool), Option<Priced>>,
}

impl<'a> Search<'a> {
    fn new(cost: &'a dyn Fn(AutomorphismGroup) -> f64) -> Self {
        Self { cost, known: BTreeMap::new() }
    }

    /// Returns the cheapest factors for `count` rotations in `groups` groups. `last` tells whether
    /// these are the last groups.
    fn factors(&mut self, count: usize, groups: usize, last: bool) -> Option<Priced> {
        if groups == 0 {
            return (count == 1).then(|| (0.0, Vec::new()));
        }
        // Every group at least doubles the number of images.
        if count >> groups == 0 {
            return None;
        }
        if let Some(known) = self.known.get(&(count, groups, last)) {
            return known.clone();
        }
        let mut best: Option<Priced> = None;
        // Among equally cheap factors, prefer one that divides.
        let leaving = |rest| move |factor: &usize| count % factor == rest;
        let all = || 2..=count.min(MAX_IMAGES);
        for factor in all().filter(leaving(0)).chain(all().filter(leaving(1))) {
            let adds_input = count % factor == 1;
            let Some((cost, mut factors)) = self.factors(count / factor, groups - 1, false) else {
                continue;
            };
            let cost = cost + (self.cost)(AutomorphismGroup { images: factor, adds_input, last });
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                factors.push(factor);
                best = Some((cost, factors));
            }
        }
        self.known.insert((count, groups, last), best.clone());
        best
    }
}

/// A [`Trace`] in groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracePlan {
    log_n: u32,
    groups: Vec<Group>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    /// Automorphisms applied to the result of the previous groups.
    images: Vec<GaloisElement>,
    /// `true` if the input of the whole plan is added to the sum.
    adds_input: bool,
}

impl TracePlan {
    /// Number of images of each group, including the identity.
    #[must_use]
    pub fn groups(&self) -> Vec<usize> {
        self.groups.iter().map(|group| group.images.len()).collect()
    }

    /// Returns the keys for sums at `level` and below.
    #[must_use]
    pub fn required_keys(&self, level: Level) -> KeyRequest {
        let images = self.groups.iter().flat_map(|group| &group.images);
        let images = images.filter(|g| g.0 != 1);
        images.fold(KeyRequest::new(), |request, &g| request.automorphism(g, level))
    }

    /// Returns the work of a sum at `level`, with keys for every level.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`].
    pub fn work(&self, params: &Params, level: Level) -> Result<Work> {
        params.check_level(level)?;
        let mut work = Work::default();
        for (i, group) in self.groups.iter().enumerate() {
            let images = group.images.len();
            let adds_input = group.adds_input;
            let last = i + 1 == self.groups.len();
            work += AutomorphismGroup { images, adds_input, last }.work(params, level);
        }
        Ok(work)
    }

    /// Computes the sum, at the level and the scale of `x`.
    ///
    /// # Errors
    /// [`Error::Circuit`] if the evaluator has another ring than planned, and errors of the
    /// evaluator.
    pub fn run<E: Ops>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        if e.log_n() != self.log_n {
            return Err(Error::Circuit(format!(
                "{OP}: planned for N = 2^{}, but the evaluator has 2^{}: plan for the ring of the \
                 evaluator",
                self.log_n,
                e.log_n()
            )));
        }
        if self.groups.is_empty() {
            // Apply the identity, so that evaluators also reject a foreign ciphertext here.
            return e.automorphism(x, GaloisElement::rotation(self.log_n, 0));
        }
        let mut sum = x.clone();
        // Groups up to an addition go together, since one of their polynomials stays undivided
        // among them.
        for groups in self.groups.split_inclusive(|group| group.adds_input) {
            let images: Vec<&[_]> = groups.iter().map(|group| &group.images[..]).collect();
            sum = e.sum_automorphisms(&sum, &images)?;
            if groups.last().is_some_and(|group| group.adds_input) {
                sum = e.add(&sum, x)?;
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        circuits::ckks::{cost, sim},
        ckks::{self, Chain, Complex, Scale},
        exact::{self, tests::Session},
    };

    const LOG_N: u32 = 6;
    const SLOTS: usize = 32;

    fn evaluator() -> sim::Evaluator {
        sim::Evaluator::new(LOG_N, Chain::new(vec![], vec![60.0]))
    }

    fn encrypted(e: &sim::Evaluator, slots: usize) -> sim::Ciphertext {
        let slots: Vec<_> =
            (0..slots).map(|i| Complex::new((i * i % 37) as f64, i as f64)).collect();
        e.encrypt(&slots, Level(0), Scale::from_log2(30.0)).unwrap()
    }

    fn zero() -> Complex<f64> {
        Complex::new(0.0, 0.0)
    }

    fn params() -> ckks::Params {
        let spec = ckks::Spec::uniform(LOG_N, 50.0, 3, 40.0, vec![48.0, 48.0]);
        ckks::Params::new(ckks::Spec { insecure: true, ..spec }).unwrap()
    }

    /// Also if there is nothing to sum.
    #[test]
    fn ciphertexts_of_another_key_are_refused() {
        let t = exact::Modulus::new(257, 1).unwrap();
        let spec = exact::Spec::uniform(LOG_N, t, 40.0, 1, 36.0, vec![45.0]);
        let [mut owner, other] = [1, 2].map(|seed| Session::new(spec.clone(), seed));
        let x = owner.encrypt(&exact::PlainPoly::constant(t, LOG_N, 5).unwrap());
        for (batch, count) in [(1, 1), (SLOTS, 1), (1, 2), (4, 7)] {
            for trace in [Trace::inner_sum, Trace::replicate] {
                let sum = trace(LOG_N, batch, count).unwrap();
                let plans = [sum.doubling(), sum.fastest(owner.params.rlwe(), Level(0)).unwrap()];
                for plan in plans {
                    let refused = plan.run(&other.evaluator, &x).map(drop);
                    assert!(matches!(refused, Err(Error::KeyMismatch { .. })), "{refused:?}");
                }
            }
        }
    }

    /// Returns plans by repeated doubling, with any possible number of groups, and by the automatic
    /// choice.
    fn plans(trace: &Trace) -> Vec<TracePlan> {
        let unrolled = (1..=LOG_N as usize).filter_map(|groups| trace.unrolled(groups).ok());
        let fastest = trace.fastest(params().rlwe(), Level(1)).unwrap();
        unrolled.chain([trace.doubling(), fastest]).collect()
    }

    /// Runs every plan and checks slots, keys, level and scale.
    fn assert_sums(trace: &Trace, expected: impl Fn(&[Complex<f64>], usize) -> Complex<f64>) {
        for plan in plans(trace) {
            let e = evaluator();
            let x = encrypted(&e, SLOTS);
            let found = plan.run(&e, &x).unwrap();
            for i in 0..SLOTS {
                assert_eq!(found.slots[i], expected(&x.slots, i), "{trace:?}, {plan:?}, slot {i}");
            }
            assert_eq!((found.level, found.scale), (x.level, x.scale));
            assert_eq!(e.used_keys(), plan.required_keys(Level(0)));
            let images = plan.groups.iter().flat_map(|group| &group.images);
            let automorphisms = images.filter(|g| g.0 != 1).count() as u64;
            assert_eq!(e.counts().automorphisms, automorphisms);
        }
    }

    #[test]
    fn inner_sums_equal_the_definition_for_every_shape() {
        for batch in 1..=SLOTS {
            for count in 1..=SLOTS / batch {
                let sum = Trace::inner_sum(LOG_N, batch, count).unwrap();
                assert_sums(&sum, |x, i| {
                    let terms = (0..count).map(|j| x[(i + j * batch) % SLOTS]);
                    terms.fold(zero(), |sum, z| sum + z)
                });
                let keys = sum.doubling().required_keys(Level(0)).count();
                let least = count.ilog2() + count.count_ones() - 1;
                assert!(keys <= least as usize, "{count} batches of {batch}");
            }
        }
    }

    #[test]
    fn batches_are_replicated_to_the_right() {
        for (batch, count) in [(1, 32), (4, 8), (4, 5), (3, 7), (32, 1)] {
            let copies = Trace::replicate(LOG_N, batch, count).unwrap();
            assert_sums(&copies, |x, i| {
                let terms = (0..count).map(|j| x[(i + SLOTS * batch - j * batch) % SLOTS]);
                terms.fold(zero(), |sum, z| sum + z)
            });
            let e = evaluator();
            let slots: Vec<_> = (0..batch).map(|i| Complex::new(i as f64 + 1.0, 0.0)).collect();
            let mut padded = slots.clone();
            padded.resize(SLOTS, zero());
            let x = e.encrypt(&padded, Level(0), Scale::from_log2(30.0)).unwrap();
            let copies = copies.doubling().run(&e, &x).unwrap();
            for i in 0..batch * count {
                assert_eq!(copies.slots[i], slots[i % batch]);
            }
        }
    }

    #[test]
    fn traces_to_few_slots_and_of_the_field_equal_their_definitions() {
        for log_slots in 0..LOG_N {
            let slots = 1 << log_slots;
            let trace = Trace::to_slots(LOG_N, log_slots).unwrap();
            assert_eq!(trace.images(), SLOTS >> log_slots);
            assert_sums(&trace, |x, i| {
                x.iter().skip(i % slots).step_by(slots).fold(zero(), |sum, &z| sum + z)
            });
        }
        let field = Trace::field(LOG_N).unwrap();
        assert_eq!(field.images(), 2 * SLOTS);
        assert_sums(&field, |x, _| x.iter().fold(zero(), |sum, &z| sum + z + z.conj()));
    }

    #[test]
    fn unrolled_groups_are_even() {
        let groups = |trace: Trace, count| trace.unrolled(count).unwrap().groups();
        let all = Trace::to_slots(16, 0).unwrap();
        assert_eq!(groups(all, 15), [2; 15]);
        assert_eq!(groups(all, 5), [8; 5]);
        let mut uneven = groups(all, 8);
        uneven.sort_unstable();
        assert_eq!(uneven, [2, 4, 4, 4, 4, 4, 4, 4]);
        let field = Trace::field(15).unwrap();
        assert_eq!(field.unrolled(5).unwrap().groups(), [8; 5]);
        let keys = field.unrolled(2).unwrap().required_keys(Level(0)).count();
        assert_eq!(keys, 255 + 127);
        for (trace, count) in [(all, 0), (all, 1), (all, 16), (field, 16)] {
            assert!(matches!(trace.unrolled(count), Err(Error::Circuit(_))), "{count}");
        }
        let one = Trace::inner_sum(4, 3, 1).unwrap();
        assert_eq!(one.unrolled(0).unwrap().groups(), [0; 0]);
        assert!(one.unrolled(1).is_err());
    }

    #[test]
    fn the_fastest_plan_costs_the_least_of_all() {
        let params = params();
        for count in 1..=SLOTS {
            let trace = Trace::inner_sum(LOG_N, 1, count).unwrap();
            for level in (0..4).map(Level) {
                let rates = Rates::reference(LOG_N);
                let seconds =
                    |plan: &TracePlan| plan.work(params.rlwe(), level).unwrap().seconds(&rates);
                let least = seconds(&trace.fastest(params.rlwe(), level).unwrap());
                for plan in plans(&trace) {
                    assert!(least <= seconds(&plan) * (1.0 + 1e-9), "{plan:?}");
                }
            }
        }
        let trace = Trace::field(LOG_N).unwrap();
        let above = Err(Error::LevelOutOfRange { found: Level(4), max: Level(3) });
        assert_eq!(trace.fastest(params.rlwe(), Level(4)), above);
    }

    /// Three groups at level 1: a digit of two primes, raised to two more. There are transforms of
    /// both primes, of the digit at the other primes and of divisions of one polynomial, two at the
    /// end.
    #[test]
    fn costs_are_those_of_the_groups() {
        let params = params();
        let plan = Trace::inner_sum(LOG_N, 1, 32).unwrap().unrolled(3).unwrap();
        let mut groups = plan.groups();
        groups.sort_unstable();
        assert_eq!(groups, [2, 4, 4]);
        let work = plan.work(params.rlwe(), Level(1)).unwrap();
        assert_eq!(work.transforms(), 3 * (2 + 2 + 4) + 4);
        assert_eq!(work.permuted, (2 * 4 * 7) << LOG_N);
        // A change of basis needs two fractions and two sums of three terms, and a division two
        // more differences. The identity and the kept polynomial are multiplied by the divisor.
        let lift = 2 + 2 * 3;
        let division = 2 + 2 * 3 + 2;
        assert_eq!(work.cached_products, (3 * (lift + 2 + division) + 2 + division) << LOG_N);
        assert_eq!(work.key_bytes, plan.required_keys(Level(1)).bytes(params.rlwe()).unwrap());
    }

    #[test]
    fn costs_are_those_of_an_evaluator_that_counts() {
        let params = params();
        let level = Level(1);
        for trace in [11, 12, 32].map(|count| Trace::inner_sum(LOG_N, 1, count).unwrap()) {
            for plan in plans(&trace) {
                let e = cost::Evaluator::new(&params, &KeyRequest::new());
                let zeros = vec![zero(); SLOTS];
                let x = e.slots().encrypt(&zeros, level, params.scale_at(level)).unwrap();
                plan.run(&e, &x).unwrap();
                assert_eq!(e.work(), plan.work(params.rlwe(), level).unwrap(), "{plan:?}");
            }
        }
    }

    #[test]
    fn refuses_empty_and_oversized_sums_and_other_rings() {
        for (batch, count) in [(0, 1), (1, 0), (1, 33), (33, 1), (usize::MAX, 2)] {
            assert!(matches!(Trace::inner_sum(LOG_N, batch, count), Err(Error::Circuit(_))));
            assert!(matches!(Trace::replicate(LOG_N, batch, count), Err(Error::Circuit(_))));
        }
        assert!(matches!(Trace::inner_sum(0, 1, 2), Err(Error::Circuit(_))));
        for (log_n, log_slots) in [(LOG_N, LOG_N), (0, 0), (6, u32::MAX)] {
            assert!(matches!(Trace::to_slots(log_n, log_slots), Err(Error::Circuit(_))));
        }
        let e = evaluator();
        let x = encrypted(&e, 1);
        let other = Trace::inner_sum(LOG_N + 1, 1, 2).unwrap().doubling();
        assert!(matches!(other.run(&e, &x), Err(Error::Circuit(_))));
    }
}
