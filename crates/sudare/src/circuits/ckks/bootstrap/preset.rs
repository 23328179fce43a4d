//! A parameter set with a way to bootstrap in it.

use super::{BootstrapPlan, BootstrapSpec, stage_levels::StageLevels};
use crate::{
    Result,
    ckks::{Params, Preset, Spec},
    rlwe::Level,
};

/// A named parameter set with a way to bootstrap in it.
#[derive(Debug, Clone, PartialEq)]
pub struct BootstrapPreset {
    /// Name, source and parameters.
    pub preset: Preset,
    /// Bootstrapping with all slots of the ring.
    pub bootstrap: BootstrapSpec,
    /// `-log2` of the mean error of a slot, of values whose parts are uniform in [-1, 1] or, for
    /// a reproduction, of its source's size. It is the measured value.
    pub precision_bits: f64,
}

impl BootstrapPreset {
    /// The plan for `2^log_slots` slots in the parameters of the set.
    ///
    /// Fewer slots may take fewer factors of the maps. The modulus is raised no higher than for
    /// as many levels as all slots leave, and for a reduction at levels of its size.
    ///
    /// # Errors
    /// Same as [`BootstrapSpec::plan`].
    pub fn plan(&self, params: &Params, log_slots: u32) -> Result<BootstrapPlan> {
        let top = params.upper_top();
        let measured = |plan: BootstrapPlan| plan.with_precision(self.precision_bits);
        if log_slots == self.bootstrap.log_slots {
            return self.bootstrap.plan(params, top).map(measured);
        }
        let fewer = self.bootstrap.with_log_slots(log_slots);
        let [all, few] = [
            StageLevels::new(&self.bootstrap, params, top)?,
            StageLevels::new(&fewer, params, top)?,
        ];
        let usable = few.usable_levels().saturating_sub(all.usable_levels());
        let spared = usable.min(few.reduced.0.saturating_sub(all.reduced.0));
        fewer.plan(params, Level(top.0 - spared)).map(measured)
    }

    pub(super) fn new(
        name: &str,
        summary: &str,
        source: &str,
        spec: Spec,
        bootstrap: BootstrapSpec,
        precision_bits: f64,
    ) -> Self {
        let name = name.into();
        let summary = summary.into();
        let source = source.into();
        Self { preset: Preset { name, summary, source, spec }, bootstrap, precision_bits }
    }
}

/// A specification for slots that fill the ring, without special primes: sizes of the primes
/// of a level and how many such levels, from the bottom.
pub(super) fn full_ring(
    bootstrap: &BootstrapSpec,
    log2_scale: f64,
    levels: &[(&[f64], usize)],
) -> Spec {
    let q_bits = levels.iter().flat_map(|&(bits, count)| vec![bits.to_vec(); count]).collect();
    Spec { q_bits, ..Spec::uniform(bootstrap.log_slots + 1, 0.0, 0, log2_scale, Vec::new()) }
}
