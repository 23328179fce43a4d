use crate::{Error, Result, rlwe::SecretDistribution};

/// Distribution of the pieces of a secret among key holders, numbered from 0. A set of `threshold`
/// holders has all pieces.
///
/// There is one piece for each set of `threshold - 1` holders, and all others hold it. So any
/// `threshold` holders have every piece, and a smaller set lacks at least one. If all holders are
/// needed, each has one piece of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharing {
    parties: usize,
    threshold: usize,
    /// Holders that lack each piece, as bits.
    lacking: Vec<u128>,
    /// Holder that draws each piece.
    dealers: Vec<usize>,
}

impl Sharing {
    /// Distributes pieces among `parties` key holders, of whom any `threshold` decrypt.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for fewer than two holders, a threshold below 2 or above their number,
    /// or more pieces than [`SecretDistribution::MAX_PIECES`].
    pub fn new(parties: usize, threshold: usize) -> Result<Self> {
        let refuse = |problem: String| Err(Error::InvalidSpec { field: "sharing", problem });
        let most = SecretDistribution::MAX_PIECES as usize;
        if !(2..=most).contains(&parties) {
            return refuse(format!("{parties} key holders are out of range: 2 to {most}"));
        }
        if !(2..=parties).contains(&threshold) {
            return refuse(format!(
                "{threshold} of {parties} key holders are out of range: 2 to {parties} of them decrypt"
            ));
        }
        if pieces(parties, threshold).is_none_or(|count| count > most) {
            return refuse(format!(
                "{threshold} of {parties} key holders need more than {most} pieces: use fewer \
                 holders, or a threshold next to 2 or to their number"
            ));
        }
        let lacking = subsets(parties, threshold - 1);
        let mut drawn = vec![0; parties];
        let dealers =
            lacking.iter().map(|&lacking| least(&mut drawn, |party| !has(lacking, party)));
        Ok(Self { parties, threshold, dealers: dealers.collect(), lacking })
    }

    /// Number of key holders.
    #[must_use]
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// Number of key holders that decrypt together.
    #[must_use]
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// Number of pieces.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.lacking.len()
    }

    /// Distribution of the secret.
    #[must_use]
    pub fn distribution(&self) -> SecretDistribution {
        SecretDistribution::SharedTernary {
            parties: self.parties as u32,
            pieces: self.pieces() as u32,
        }
    }

    /// Returns `true` if a holder has a piece.
    #[must_use]
    pub fn holds(&self, party: usize, piece: usize) -> bool {
        party < self.parties && self.lacking.get(piece).is_some_and(|&lacking| !has(lacking, party))
    }

    /// Iterates over the pieces that a holder draws, and that it adds to keys.
    pub fn dealt_by(&self, party: usize) -> impl Iterator<Item = usize> {
        self.dealers.iter().enumerate().filter(move |&(_, &dealer)| dealer == party).map(|(i, _)| i)
    }

    /// Returns the holder that draws a piece.
    ///
    /// # Panics
    /// If there is no such piece.
    #[must_use]
    pub fn dealer(&self, piece: usize) -> usize {
        self.dealers[piece]
    }

    /// Returns the pieces that `party` adds to an opening by the holders of `set`. Each piece has
    /// one holder in the set.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] unless the set is ascending and has `threshold` holders, `party`
    /// among them.
    pub fn assigned(&self, set: &[usize], party: usize) -> Result<Vec<usize>> {
        self.check_set(set)?;
        if !set.contains(&party) {
            let problem = format!("key holder {party} is not among {set:?}: use the agreed set");
            return Err(Error::InvalidSpec { field: "set", problem });
        }
        let mut taken = vec![0; self.parties];
        let taker = |&lacking: &u128| {
            least(&mut taken, |party| set.contains(&party) && !has(lacking, party))
        };
        let takers: Vec<usize> = self.lacking.iter().map(taker).collect();
        Ok((0..self.pieces()).filter(|&piece| takers[piece] == party).collect())
    }

    /// Rejects a set of holders that is not ascending or has not `threshold` of them.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`].
    pub fn check_set(&self, set: &[usize]) -> Result<()> {
        let ascending = set.windows(2).all(|pair| pair[0] < pair[1]);
        let known = set.last().is_none_or(|&last| last < self.parties);
        if set.len() == self.threshold && ascending && known {
            return Ok(());
        }
        let problem = format!(
            "{set:?} are not {} different key holders of {} in ascending order",
            self.threshold, self.parties
        );
        Err(Error::InvalidSpec { field: "set", problem })
    }
}

fn has(set: u128, party: usize) -> bool {
    set >> party & 1 == 1
}

/// Returns the candidate with the lowest count, the last of several, and counts it.
fn least(counts: &mut [usize], is_candidate: impl Fn(usize) -> bool) -> usize {
    // From the last on: early pieces then leave pieces for every holder.
    let candidates = (0..counts.len()).rev().filter(|&party| is_candidate(party));
    let found = candidates.min_by_key(|&party| counts[party]).unwrap_or(0);
    counts[found] += 1;
    found
}

/// Number of sets of `threshold - 1` holders, unless it is out of range.
fn pieces(parties: usize, threshold: usize) -> Option<usize> {
    // The smaller of two equal binomial coefficients overflows later.
    let chosen = (threshold - 1).min(parties - threshold + 1);
    (0..chosen).try_fold(1_usize, |count, i| Some(count.checked_mul(parties - i)? / (i + 1)))
}

/// Lists the sets of `size` holders as bits, in ascending order of the bits.
fn subsets(parties: usize, size: usize) -> Vec<u128> {
    let end = 1_u128 << parties;
    let next = |set: &u128| {
        // The next larger number with the same number of ones: Gosper's method.
        let lowest = set & set.wrapping_neg();
        let carried = set + lowest;
        Some(carried | ((set ^ carried) >> (2 + lowest.trailing_zeros()))).filter(|&set| set < end)
    };
    core::iter::successors(Some((1_u128 << size) - 1), next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any threshold of holders has all pieces, and one fewer lacks exactly one.
    #[test]
    fn all_thresholds_up_to_eight_holders() {
        for parties in 2..=8 {
            for threshold in 2..=parties {
                let sharing = Sharing::new(parties, threshold).unwrap();
                let holds = |set: u128, piece| {
                    (0..parties).any(|party| has(set, party) && sharing.holds(party, piece))
                };
                let count = |set| (0..sharing.pieces()).filter(|&piece| holds(set, piece)).count();
                for set in 0..1_u128 << parties {
                    match set.count_ones() as usize {
                        size if size >= threshold => assert_eq!(count(set), sharing.pieces()),
                        size if size + 1 == threshold => {
                            assert_eq!(count(set) + 1, sharing.pieces());
                        }
                        _ => assert!(count(set) < sharing.pieces()),
                    }
                }
                for set in subsets(parties, threshold) {
                    let set: Vec<usize> = (0..parties).filter(|&party| has(set, party)).collect();
                    let assigned = |&party: &usize| sharing.assigned(&set, party).unwrap();
                    let mut all: Vec<usize> = set.iter().flat_map(assigned).collect();
                    for &party in &set {
                        assert!(assigned(&party).iter().all(|&piece| sharing.holds(party, piece)));
                    }
                    all.sort_unstable();
                    assert_eq!(all, Vec::from_iter(0..sharing.pieces()));
                }
                for piece in 0..sharing.pieces() {
                    assert!(sharing.holds(sharing.dealer(piece), piece));
                }
                let dealt = || (0..parties).map(|party| sharing.dealt_by(party).count());
                assert_eq!(dealt().sum::<usize>(), sharing.pieces());
                assert!(dealt().all(|count| count > 0), "{parties} {threshold}");
                let binomial = |n: u64, k: u64| (0..k).fold(1, |c, i| c * (n - i) / (i + 1));
                let pieces = binomial(parties as u64, threshold as u64 - 1);
                assert_eq!(sharing.pieces() as u64, pieces);
            }
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        for (parties, threshold) in [(0, 0), (1, 1), (3, 1), (3, 4), (71, 71), (9, 5), (70, 3)] {
            let refused = Sharing::new(parties, threshold).unwrap_err();
            assert!(matches!(refused, Error::InvalidSpec { field: "sharing", .. }), "{refused}");
        }
        for (parties, threshold, pieces) in [(70, 70, 70), (70, 2, 70), (8, 5, 70), (10, 3, 45)] {
            assert_eq!(Sharing::new(parties, threshold).unwrap().pieces(), pieces);
        }
        let sharing = Sharing::new(3, 2).unwrap();
        for (set, party) in
            [(&[0][..], 0), (&[0, 1, 2], 0), (&[1, 0], 0), (&[1, 1], 1), (&[0, 3], 0), (&[0, 1], 2)]
        {
            assert!(sharing.assigned(set, party).is_err(), "{set:?}");
        }
    }
}
