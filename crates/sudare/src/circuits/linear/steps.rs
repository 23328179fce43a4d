//! Baby and giant steps for a set of offsets of any shape.

/// Cost of a giant step in baby steps: a decomposition and a division in addition to the product
/// with a key.
const GIANT_COST: usize = 3;
/// Maximum number of giant steps for offsets that are no dense progression.
const MAX_GIANTS: usize = 32;
/// Maximum number of differences of neighbouring offsets that are tried as turns.
const MAX_DIFFERENCES: usize = 16;
/// Progressions with at most this many places for each offset are dense.
const SPARSE: usize = 4;

/// Baby steps and turns of giant steps. Every offset of the set is one baby step with some number
/// of turns, in one way only.
///
/// Offsets of images have gaps: a kernel reads a few neighbours in each of several planes. Baby
/// steps are therefore any set, and only giant steps are a progression, by Horner's scheme. For
/// each length of a turn, offsets that differ by turns form classes. In a class, each baby step
/// covers one neighbour for each giant step, from the first that is not covered yet. This takes the
/// fewest baby steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Steps {
    slots: usize,
    /// The offset from which distances count.
    start: usize,
    /// Distances of the baby steps, in ascending order.
    baby: Vec<usize>,
    /// Rotation of a giant step.
    turn: usize,
    /// Number of stages: one more than there are giant steps.
    giant: usize,
}

impl Steps {
    /// Finds the cheapest steps for offsets below `slots`, in ascending order, where `conjugates`
    /// of them also use the conjugate. Without `giants` there are baby steps only.
    pub(super) fn of(offsets: &[usize], conjugates: usize, slots: usize, giants: bool) -> Self {
        let start = first_after_gap(offsets, slots);
        let mut distances: Vec<usize> =
            offsets.iter().map(|offset| (offset + slots - start) % slots).collect();
        distances.sort_unstable();
        let alone = Self { slots, start, turn: slots, giant: 1, baby: distances.clone() };
        if !giants {
            return alone;
        }
        let cost =
            |babies: usize, giant: usize| babies + babies.min(conjugates) + GIANT_COST * giant;
        let mut best = (usize::MAX, slots, 1);
        for turn in turns(&distances) {
            let classes = Classes::of(&distances, turn.length);
            for giant in turn.giants {
                // No baby step covers more offsets than there are stages.
                if cost(distances.len().div_ceil(giant), giant) >= best.0 {
                    continue;
                }
                let found = cost(classes.babies(giant).count(), giant);
                if found < best.0 {
                    best = (found, turn.length, giant);
                }
            }
        }
        let (least, turn, giant) = best;
        // Of two equal costs, fewer baby steps need fewer keys.
        if cost(distances.len(), 1) < least {
            return alone;
        }
        let mut baby: Vec<usize> = Classes::of(&distances, turn).babies(giant).collect();
        baby.sort_unstable();
        Self { slots, start, baby, turn, giant }
    }

    /// Number of stages: one more than there are giant steps.
    pub(super) fn stages(&self) -> usize {
        self.giant
    }

    /// Returns the rotation of `j` giant steps.
    pub(super) fn turned(&self, j: usize) -> usize {
        j * self.turn % self.slots
    }

    /// Returns the offsets of the baby steps.
    pub(super) fn babies(&self) -> impl Iterator<Item = usize> {
        self.baby.iter().map(|distance| (self.start + distance) % self.slots)
    }

    /// Returns the offset of `j` giant steps after the baby step that rotates by `columns`. Steps
    /// that pass once round all slots would reach the first offsets again, and lead nowhere.
    pub(super) fn reached(&self, columns: usize, j: usize) -> Option<usize> {
        let distance = (columns + self.slots - self.start) % self.slots + j * self.turn;
        (distance < self.slots).then(|| (self.start + distance) % self.slots)
    }
}

/// Returns the offset after the widest gap, of offsets below `slots` in ascending order on a circle.
pub(super) fn first_after_gap(offsets: &[usize], slots: usize) -> usize {
    let gap = |i: usize| {
        let next = offsets.get(i + 1).map_or_else(|| offsets[0] + slots, |&next| next);
        next - offsets[i]
    };
    let last = (0..offsets.len()).max_by_key(|&i| gap(i)).unwrap_or(0);
    offsets.get(last + 1).or(offsets.first()).copied().unwrap_or(0)
}

/// A length of giant steps to try, with the numbers of stages.
struct Turn {
    length: usize,
    giants: core::ops::RangeInclusive<usize>,
}

/// Returns the turns to try for distances in ascending order, the shortest first: all of a dense
/// progression, powers of two, and the differences between neighbours, such as rows of an image.
fn turns(distances: &[usize]) -> Vec<Turn> {
    if distances.len() < 2 {
        return Vec::new();
    }
    let stride = distances.iter().copied().fold(0, gcd).max(1);
    let last = distances.last().map_or(0, |distance| distance / stride);
    let count = last + 1;
    if count <= SPARSE * distances.len() {
        let turn = |baby: usize| {
            let giants = count.div_ceil(baby);
            Turn { length: baby * stride, giants: giants..=giants }
        };
        return (1..count).map(turn).collect();
    }
    let powers = (0..last.ilog2() + 1).map(|i| stride << i);
    let mut differences: Vec<usize> =
        distances.windows(2).map(|pair| pair[1] - pair[0]).filter(|&d| d > stride).collect();
    differences.sort_unstable();
    differences.dedup();
    differences.truncate(MAX_DIFFERENCES);
    let mut lengths: Vec<usize> = powers.chain(differences).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let most = distances.len().clamp(2, MAX_GIANTS);
    lengths.into_iter().map(|length| Turn { length, giants: 2..=most }).collect()
}

/// Distances by their remainder modulo a turn, as pairs of the remainder and the number of turns.
struct Classes {
    turn: usize,
    sorted: Vec<(usize, usize)>,
}

impl Classes {
    fn of(distances: &[usize], turn: usize) -> Self {
        let mut sorted: Vec<_> = distances.iter().map(|d| (d % turn, d / turn)).collect();
        sorted.sort_unstable();
        Self { turn, sorted }
    }

    /// Returns the fewest baby steps that reach all distances in `giant` stages.
    fn babies(&self, giant: usize) -> impl Iterator<Item = usize> {
        let mut covered = None;
        let mut is_new = move |&(class, turns): &(usize, usize)| {
            let inside = covered.is_some_and(|(of, first)| of == class && turns < first + giant);
            if !inside {
                covered = Some((class, turns));
            }
            !inside
        };
        let babies = self.sorted.iter().filter(move |place| is_new(place));
        babies.map(|(class, turns)| class + turns * self.turn)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Offsets reached, in ascending order, with repetitions.
    fn reached(steps: &Steps) -> Vec<usize> {
        let all = steps.babies().flat_map(|b| (0..steps.stages()).map(move |j| (b, j)));
        let mut reached: Vec<usize> =
            all.filter_map(|(columns, j)| steps.reached(columns, j)).collect();
        reached.sort_unstable();
        reached
    }

    #[test]
    fn steps_are_as_few_as_needed() {
        let slots = 64;
        let cases: [(&[usize], usize, usize); 5] = [
            (&[0], 1, 1),
            (&[5], 1, 1),
            (&[0, 3], 2, 1),
            // From -3 to 3.
            (&[0, 1, 2, 3, 61, 62, 63], 4, 2),
            // From -24 to 24 in steps of 8.
            (&[0, 8, 16, 24, 40, 48, 56], 4, 2),
        ];
        for (offsets, babies, giants) in cases {
            let steps = Steps::of(offsets, 0, slots, true);
            assert_eq!((steps.babies().count(), steps.stages()), (babies, giants), "{offsets:?}");
            let steps = Steps::of(offsets, 0, slots, false);
            assert_eq!((steps.babies().count(), steps.stages()), (offsets.len(), 1));
        }
    }

    /// A kernel of three by three in each of 16 planes of 32 by 32: one stage for each plane and
    /// one baby step for each tap would need 16 and 9.
    #[test]
    fn kernels_take_steps_by_planes() {
        let slots = 1usize << 14;
        let tap = |plane: usize, row: usize, column: usize| {
            (slots + plane * 1024 + row * 32 + column - 33) % slots
        };
        let mut offsets: Vec<usize> =
            (0..16).flat_map(|plane| (0..9).map(move |i| tap(plane, i / 3, i % 3))).collect();
        offsets.sort_unstable();
        let steps = Steps::of(&offsets, 0, slots, true);
        assert_eq!((steps.babies().count(), steps.stages()), (18, 8));
        assert_eq!(reached(&steps), offsets);
    }

    /// Includes dense matrices, where the last giant step would reach the first offsets again.
    #[test]
    fn every_offset_of_a_progression_is_reached_once() {
        for log_slots in 0..=9 {
            let slots = 1usize << log_slots;
            for stride in (0..=log_slots).map(|i| 1 << i) {
                let offsets: Vec<usize> = (0..slots).step_by(stride).collect();
                for start in [0, slots / 2] {
                    let few: Vec<usize> = offsets.iter().copied().filter(|&k| k >= start).collect();
                    for offsets in [&offsets, &few] {
                        check(offsets, slots);
                    }
                }
            }
        }
    }

    fn check(offsets: &[usize], slots: usize) {
        let steps = Steps::of(offsets, 0, slots, true);
        let reached = reached(&steps);
        assert!(reached.windows(2).all(|pair| pair[0] < pair[1]), "twice: {offsets:?} {steps:?}");
        assert!(offsets.iter().all(|k| reached.binary_search(k).is_ok()), "{offsets:?} {steps:?}");
    }

    proptest! {
        #[test]
        fn every_offset_of_any_shape_is_reached_once(
            log_slots in 2u32..12,
            places in prop::collection::btree_set(any::<u16>(), 1..60),
            planes in 1usize..9,
        ) {
            let slots = 1usize << log_slots;
            // Random places, repeated in planes.
            let all = places.iter().flat_map(|&place| {
                (0..planes).map(move |plane| (usize::from(place) + plane * slots / 8) % slots)
            });
            let offsets: std::collections::BTreeSet<usize> = all.collect();
            check(&offsets.into_iter().collect::<Vec<_>>(), slots);
        }
    }

    /// A step for both the ciphertext and its conjugate costs two images.
    #[test]
    fn conjugates_shorten_baby_steps() {
        let offsets: Vec<usize> = (0..127).collect();
        for (conjugates, babies, giants) in [(0, 16, 8), (1, 16, 8), (127, 13, 10)] {
            let steps = Steps::of(&offsets, conjugates, 1 << 14, true);
            assert_eq!((steps.babies().count(), steps.stages()), (babies, giants));
        }
    }
}
