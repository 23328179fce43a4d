//! Choice of the places where networks are bootstrapped, and the bootstrapping itself.

use std::collections::BTreeMap;

use sudare::{
    circuits::ckks::{
        ComplexOps,
        bootstrap::{self, BootstrapPlan, BootstrapPreset, Bootstrapper},
        cost::Work,
    },
    ckks::{Params, Scale},
    rlwe::Level,
};
use sudare_arith::{par, real};

use super::{
    error::{NnError, Result},
    uses::LastUses,
};
use crate::bootstrap::{TOGETHER, bootstrapped};

/// Sets to choose from.
const SETS: [&str; 3] = ["n15-boot-net", "n16-boot-real", "n16-boot-high"];
/// Bits by which a set must be more precise than activations, so that errors of eight standard
/// deviations are tolerable.
const MARGIN_BITS: f64 = 3.0;
/// Maximum number of ways to one stage that the search keeps.
const MAX_WAYS: usize = 256;

/// Returns the sets for activations of this precision: all that are precise enough, without the most
/// precise one if others are, or that one if none is.
pub(super) fn sets_for(precision_bits: f64) -> Result<Vec<BootstrapPreset>> {
    let mut sets = SETS.map(bootstrap::preset).into_iter().collect::<sudare::Result<Vec<_>>>()?;
    let most_precise = sets.pop();
    sets.retain(|set| set.precision_bits >= precision_bits + MARGIN_BITS);
    if sets.is_empty() {
        sets.extend(most_precise);
    }
    Ok(sets)
}

/// Bootstrapping of the inputs of functions, each as a fraction of its range.
#[derive(Debug, Clone)]
pub(super) struct Refresh {
    pub(super) name: String,
    pub(super) plan: BootstrapPlan,
    /// Estimated standard deviation of the error that bootstrapping adds to a number of `[-1, 1]`.
    pub(super) error: f64,
}

impl Refresh {
    pub(super) fn new(set: &BootstrapPreset, params: &Params, log_slots: u32) -> Result<Self> {
        let plan = set.plan(params, log_slots)?;
        let error = real::exp2(-set.precision_bits);
        Ok(Self { name: set.preset.name.clone(), plan, error })
    }

    /// Returns the work of bootstrapping `ciphertexts` ciphertexts.
    pub(super) fn work(&self, params: &Params, ciphertexts: usize) -> Result<Work> {
        let mut all = Work::default();
        // In the same parts as a run.
        let parts = [(TOGETHER, ciphertexts / TOGETHER), (ciphertexts % TOGETHER, 1)];
        for (count, times) in parts.into_iter().filter(|&(count, times)| count * times > 0) {
            let stages = self.plan.work(params, count)?;
            (0..times).flat_map(|_| &stages).for_each(|&(_, work)| all += work);
        }
        Ok(all)
    }
}

/// Bootstraps numbers of a magnitude of at most `most`.
pub(super) fn refreshed<E: ComplexOps>(
    ev: &E,
    bootstrapper: &Bootstrapper<E>,
    xs: &[E::Ct],
    most: Scale,
) -> Result<Vec<E::Ct>> {
    let mut all = Vec::with_capacity(xs.len());
    for xs in xs.chunks(TOGETHER) {
        // Read at a larger scale, numbers are fractions of `most`.
        let parts = par::try_map(xs, |x| ev.with_scale(x, ev.scale(x) * most))?;
        let fresh = bootstrapped(ev, bootstrapper, &parts.iter().collect::<Vec<_>>())?;
        all.extend(par::try_map(&fresh, |x| ev.with_scale(x, ev.scale(x) / most))?);
    }
    Ok(all)
}

/// Requirements of a stage.
pub(super) struct Demand {
    /// Indices of the input values. The sample is 0.
    pub(super) sources: Vec<usize>,
    /// Levels of its function.
    pub(super) depth: u32,
    /// Number of ciphertexts of the map's values.
    pub(super) ciphertexts: u64,
}

/// One way to reach a stage.
#[derive(Clone)]
struct Way {
    bootstraps: u64,
    placed: Vec<bool>,
}

/// Returns, for each stage, whether to bootstrap before its function. The choice has the fewest
/// bootstrapped ciphertexts. Values have level `highest` at first and after bootstrapping, and must
/// not go below `lowest`.
///
/// Every input of a stage stays above the lowest level, so that the values of its map can be
/// bootstrapped. Every partial way can therefore be completed. Among ways to the same levels, the
/// search keeps the best. If too many ways remain, it keeps those with the fewest bootstraps. That
/// can lose the optimum only if several earlier values are still needed.
///
/// # Errors
/// [`NnError::DeepActivation`] for a function that takes more levels than there are.
pub(super) fn place(demands: &[Demand], highest: Level, lowest: Level) -> Result<Vec<bool>> {
    let highest = highest.0;
    let lowest = lowest.0;
    let uses = demands.iter().enumerate().flat_map(|(k, d)| d.sources.iter().map(move |&x| (k, x)));
    let last = LastUses::new(demands.len(), uses);
    let mut ways = BTreeMap::from([(vec![highest], Way { bootstraps: 0, placed: Vec::new() })]);
    for (k, demand) in demands.iter().enumerate() {
        // A level above the lowest, because the map of the next stage takes one before it can be
        // bootstrapped.
        let least = lowest + u32::from(k + 1 < demands.len());
        let needed = demand.depth;
        let left = highest.saturating_sub(least);
        if needed > left {
            return Err(NnError::DeepActivation { needed, left });
        }
        let mut next = BTreeMap::<Vec<u32>, Way>::new();
        for (levels, way) in &ways {
            let taken = demand.sources.iter().map(|&value| levels[value]).min();
            let mapped = taken.unwrap_or(highest).saturating_sub(1);
            for (bootstraps, from) in [(0, mapped), (demand.ciphertexts, highest)] {
                if from < least + demand.depth {
                    continue;
                }
                let given = core::iter::once(from - demand.depth);
                let levels = levels.iter().copied().chain(given).enumerate();
                let levels =
                    // Values that are no longer needed get level 0, so that ways which differ in
                    // them only are merged.
                    levels.map(|(value, level)| if last.is_after(k, value) { level } else { 0 });
                let mut way = way.clone();
                way.bootstraps += bootstraps;
                way.placed.push(bootstraps > 0);
                let best = next.entry(levels.collect()).or_insert_with(|| way.clone());
                if way.bootstraps < best.bootstraps {
                    *best = way;
                }
            }
        }
        let mut kept: Vec<_> = next.into_iter().collect();
        kept.sort_by_key(|(_, way)| way.bootstraps);
        kept.truncate(MAX_WAYS);
        ways = kept.into_iter().collect();
    }
    let best = ways.into_values().min_by_key(|way| way.bootstraps);
    Ok(best.map(|way| way.placed).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the fewest bootstraps by trying every choice.
    fn fewest(demands: &[Demand], highest: u32, lowest: u32) -> Option<u64> {
        let cost = |choice: u32| {
            let mut levels = vec![highest];
            let mut cost = 0;
            for (k, demand) in demands.iter().enumerate() {
                let taken = demand.sources.iter().map(|&value| levels[value]).min()?;
                let mut level = taken.checked_sub(1).filter(|&level| level >= lowest)?;
                if choice >> k & 1 == 1 {
                    (level, cost) = (highest, cost + demand.ciphertexts);
                }
                levels.push(level.checked_sub(demand.depth).filter(|&level| level >= lowest)?);
            }
            Some(cost)
        };
        (0..1 << demands.len()).filter_map(cost).min()
    }

    #[test]
    fn bootstraps_are_as_few_as_can_be() {
        let lowest = 2;
        let highest = 8;
        let mut state = 1u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..300 {
            let count = 2 + draw(7) as usize;
            let mut demands = Vec::new();
            for k in 0..count {
                let mut sources = vec![k];
                // A shortcut past some stages.
                if draw(3) == 0 && k > 0 {
                    sources.insert(0, draw(k as u32) as usize);
                }
                let depth = if k + 1 == count { 0 } else { 1 + draw(4) };
                demands.push(Demand { sources, depth, ciphertexts: u64::from(1 + draw(9)) });
            }
            let placed = place(&demands, Level(highest), Level(lowest)).unwrap();
            let found = placed.iter().zip(&demands).filter(|(placed, _)| **placed);
            let found: u64 = found.map(|(_, demand)| demand.ciphertexts).sum();
            assert_eq!(Some(found), fewest(&demands, highest, lowest));
        }
        let deep = [Demand { sources: vec![0], depth: 6, ciphertexts: 1 }];
        assert_eq!(place(&deep, Level(highest), Level(lowest)).unwrap(), [true]);
        let deeper = [Demand { sources: vec![0], depth: 7, ciphertexts: 1 }];
        let error = place(&deeper, Level(highest), Level(lowest)).unwrap_err();
        assert!(matches!(error, NnError::DeepActivation { needed: 7, left: 6 }), "{error}");
    }
}
