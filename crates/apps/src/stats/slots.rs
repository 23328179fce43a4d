//! Mean and variance of the slots of one ciphertext.

use sudare::{
    Error,
    circuits::{
        Trace, TracePlan,
        ckks::{ComplexOps, sim},
    },
    ckks::{Complex, Params, Scale},
    rlwe::{KeyRequest, Level, Scale as _},
};

use super::{ROOM_BITS, Result, StatsError};

/// Plan for the mean and the variance of `count` numbers in `[-1, 1]`. Each number is in a slot of
/// one ciphertext, and the whole computation is under encryption.
///
/// The job is Table 3 of Cheon, Han, Kim, Kim, Song, "A full RNS variant of approximate homomorphic
/// encryption" ([2018/931](https://eprint.iacr.org/2018/931)): partial sums by `log2(slots)`
/// rotations. Deviations: the division by `count` reads the sum at a larger scale, and needs
/// neither a product nor a level. Rotations happen at the lowest level that holds the sum. The mean
/// therefore costs rotations at level 0 only. The variance adds the same number of rotations at
/// level 1 and two products.
///
/// Both results fill every slot. The variance is the population's, `E[x^2] - E[x]^2`, which divides
/// by `count`. Its error is absolute, near `2^-24` under the preset `stats-n14`. If the spread is
/// small compared to the mean, few digits of the variance are left. Subtract a rough mean before
/// encryption, and scale the values to fill `[-1, 1]`.
#[derive(Debug, Clone)]
pub struct SlotPlan {
    count: usize,
    sum: TracePlan,
    scale: Scale,
    mean_level: Level,
    level: Level,
    mean_keys: KeyRequest,
    variance_keys: KeyRequest,
}

impl SlotPlan {
    /// Plans for `count` numbers.
    ///
    /// # Errors
    /// [`StatsError::Empty`], [`StatsError::Library`] for more numbers than slots,
    /// [`StatsError::ParamsTooSmall`].
    pub fn new(count: usize, params: &Params) -> Result<Self> {
        if count == 0 {
            return Err(StatsError::Empty { rows: 0, features: 1 });
        }
        if count > params.max_slots() {
            return Err(Error::TooManySlots { found: count, slots: params.max_slots() }.into());
        }
        // Repeated doubling covers a power of two of slots. The further ones are zero.
        let slots = count.next_power_of_two();
        let sum = Trace::inner_sum(params.log_n(), 1, slots)?.doubling();
        let top = params.top();
        let keys = KeyRequest::new();
        for level in (1..=top.0).map(Level) {
            let scale = params.scale_at(level);
            let plan = Self {
                count,
                sum: sum.clone(),
                scale,
                mean_level: level,
                level,
                mean_keys: keys.clone(),
                variance_keys: keys.clone(),
            };
            let Some(variance_keys) = plan.dry_run(params, level, Self::variance) else { continue };
            // The lowest level that holds the sum, because rotations are cheapest there.
            let mean = (0..=level.0).map(Level).find_map(|mean_level| {
                let plan = Self { mean_level, ..plan.clone() };
                Some((mean_level, plan.dry_run(params, mean_level, Self::mean)?))
            });
            if let Some((mean_level, mean_keys)) = mean {
                return Ok(Self { mean_level, mean_keys, variance_keys, ..plan });
            }
        }
        Err(StatsError::ParamsTooSmall {
            what: "the variance",
            levels: 1,
            rows: slots as u128,
            log2_q: params.chain().log2_q(top),
            log2_scale: params.spec().log2_scale,
        })
    }

    /// Finds the keys used, if all slots may be 1.
    fn dry_run(
        &self,
        params: &Params,
        level: Level,
        circuit: impl Fn(&Self, &sim::Evaluator, &sim::Ciphertext) -> Result<sim::Ciphertext>,
    ) -> Option<KeyRequest> {
        let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
        let x = e.encrypt(&[Complex::new(1.0, 0.0)], level, self.scale).ok()?;
        let y = circuit(self, &e, &x).ok()?;
        (y.headroom_bits >= ROOM_BITS).then(|| e.used_keys())
    }

    /// Returns the number of numbers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the level at which to encrypt, which the variance needs.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the level that is enough for the mean alone.
    #[must_use]
    pub fn mean_level(&self) -> Level {
        self.mean_level
    }

    /// Returns the scale at which to encrypt.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the keys for the mean.
    #[must_use]
    pub fn mean_keys(&self) -> &KeyRequest {
        &self.mean_keys
    }

    /// Returns the keys for the variance, which include the keys for the mean.
    #[must_use]
    pub fn variance_keys(&self) -> &KeyRequest {
        &self.variance_keys
    }

    /// Computes the mean in every slot, at [`SlotPlan::mean_level`].
    ///
    /// `x` holds the numbers in its first slots and zeros in the others. It has no more slots than
    /// the next power of two.
    ///
    /// # Errors
    /// [`StatsError::Library`]: [`Error::ScaleMismatch`] if `x` has another scale than
    /// planned, and errors of the evaluator.
    pub fn mean<E: ComplexOps>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        self.check(e, x)?;
        let mut x = x.clone();
        e.drop_to(&mut x, self.mean_level)?;
        Ok(self.average(e, &x)?)
    }

    /// Computes the population variance in every slot, one level below [`SlotPlan::level`].
    ///
    /// # Errors
    /// The errors of [`SlotPlan::mean`].
    pub fn variance<E: ComplexOps>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        self.check(e, x)?;
        let mut x = x.clone();
        e.drop_to(&mut x, self.level)?;
        let mean = self.average(e, &x)?;
        let mean_square = e.mul_rescale(&mean, &mean)?;
        // This integer factor brings the squares to the scale of the square of the mean, after
        // their sum is read as an average.
        let raised = e.mul_const(&x, Complex::new(1.0, 0.0), self.divisor())?;
        let squares = e.mul_rescale(&x, &raised)?;
        Ok(e.sub(&self.average(e, &squares)?, &mean_square)?)
    }

    fn check<E: ComplexOps>(&self, e: &E, x: &E::Ct) -> Result<()> {
        Ok(e.scale(x).check_matches(self.scale, "statistics")?)
    }

    fn divisor(&self) -> Scale {
        Scale::from_u64(self.count as u64)
    }

    fn average<E: ComplexOps>(&self, e: &E, x: &E::Ct) -> sudare::Result<E::Ct> {
        let total = self.sum.run(e, x)?;
        e.with_scale(&total, e.scale(&total) * self.divisor())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn simulated_mean_and_variance_equal_two_passes(
            xs in prop::collection::vec(-1.0..1.0, 1..200),
        ) {
            let params = Params::new(sudare::ckks::preset("stats-n14").unwrap().spec).unwrap();
            let plan = SlotPlan::new(xs.len(), &params).unwrap();
            let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
            let slots: Vec<_> = xs.iter().map(|&x| Complex::new(x, 0.0)).collect();
            let x = e.encrypt(&slots, plan.level(), plan.scale()).unwrap();
            let n = xs.len() as f64;
            let mean = xs.iter().sum::<f64>() / n;
            let variance = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let found = plan.mean(&e, &x).unwrap();
            prop_assert_eq!(found.level, plan.mean_level());
            prop_assert!(found.slots.iter().all(|z| (z.re - mean).abs() < 1e-13));
            let found = plan.variance(&e, &x).unwrap();
            prop_assert_eq!(found.level.0 + 1, plan.level().0);
            prop_assert!(found.headroom_bits > 0.0);
            prop_assert!(found.slots.iter().all(|z| (z.re - variance).abs() < 1e-13));
            prop_assert_eq!(&e.used_keys(), plan.variance_keys());
        }
    }

    #[test]
    fn levels_are_the_lowest_that_hold_the_sums() {
        let params = Params::new(sudare::ckks::preset("stats-n14").unwrap().spec).unwrap();
        let plan = SlotPlan::new(1 << 13, &params).unwrap();
        assert_eq!((plan.mean_level(), plan.level()), (Level(0), Level(1)));
        assert_eq!(plan.mean_keys().count(), 13);
        assert!(plan.mean_keys().galois.values().all(|&level| level == Level(0)));
        // Level 0 of a common chain does not hold 2^13 numbers of 40 bits.
        let params =
            Params::new(sudare::ckks::Spec::uniform(14, 50.0, 3, 40.0, vec![50.0])).unwrap();
        let plan = SlotPlan::new(1 << 13, &params).unwrap();
        assert_eq!((plan.mean_level(), plan.level()), (Level(1), Level(2)));
    }

    #[test]
    fn impossible_wishes_are_refused() {
        let params = Params::new(sudare::ckks::preset("stats-n14").unwrap().spec).unwrap();
        assert!(matches!(SlotPlan::new(0, &params), Err(StatsError::Empty { .. })));
        assert!(matches!(
            SlotPlan::new((1 << 13) + 1, &params),
            Err(StatsError::Library(Error::TooManySlots { .. }))
        ));
        let flat = Params::new(sudare::ckks::Spec::uniform(14, 50.0, 0, 35.0, vec![50.0])).unwrap();
        let refused = SlotPlan::new(1 << 13, &flat).unwrap_err();
        assert!(matches!(refused, StatsError::ParamsTooSmall { levels: 1, .. }), "{refused}");
        let plan = SlotPlan::new(4, &params).unwrap();
        let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
        let x = e.encrypt(&[], Level(1), Scale::from_log2(30.0)).unwrap();
        assert!(matches!(plan.mean(&e, &x), Err(StatsError::Library(Error::ScaleMismatch { .. }))));
    }
}
