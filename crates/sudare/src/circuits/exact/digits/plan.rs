use super::{DigitRemoval, Step};
use crate::{
    Result,
    circuits::exact::{IntegerOps, PolynomialPlan},
    exact::{Params, Tensor, Unit, rules::match_rings},
    rlwe::{KeyRequest, Level, Scale as _},
};

/// A plan to apply a [`DigitRemoval`] to ciphertexts of one level and scale. The result has the
/// same scale, modulo `p^(e - v)`.
///
/// Digits keep the scale of the input, reduced to their moduli. Interpreted modulo `p^e` they are
/// multiples of a power of `p`, which scales that agree modulo the quotient multiply alike.
#[derive(Debug, Clone)]
pub struct RemovalPlan {
    removal: DigitRemoval,
    scale: Unit,
    level: Level,
    output_level: Level,
    /// Plans of the polynomials, in the order of the steps.
    polynomials: Vec<PolynomialPlan>,
}

const OP: &str = "digit removal";

impl DigitRemoval {
    /// Plans for evaluators with the product of BGV, where the scale is the factor; see
    /// [`DigitRemoval::plan_with`].
    ///
    /// # Errors
    /// See [`DigitRemoval::plan_with`].
    pub fn plan(&self, params: &Params, level: Level, factor: Unit) -> Result<RemovalPlan> {
        self.plan_with(params, Tensor::Plain, level, factor)
    }

    /// Plans levels for ciphertexts of this level and scale ([`Tensor::scale`]), for evaluators
    /// with one of the products.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`](crate::Error::LevelExhausted) if the [depth](DigitRemoval::depth)
    /// exceeds the level; [`Error::PlaintextMismatch`](crate::Error::PlaintextMismatch) for a scale
    /// of another modulus;
    /// [`Error::PlaintextModulusNotCoprime`](crate::Error::PlaintextModulusNotCoprime).
    pub fn plan_with(
        &self,
        params: &Params,
        tensor: Tensor,
        level: Level,
        scale: Unit,
    ) -> Result<RemovalPlan> {
        let ring = |t| (t, params.log_n());
        match_rings(OP, ring(scale.modulus()), ring(self.modulus))?;
        let mut polynomials = Vec::new();
        // Levels of the values computed until now.
        let mut levels = vec![level];
        for step in &self.steps {
            levels.push(match step {
                Step::Evaluate { value, polynomial } => {
                    let t = polynomial.modulus();
                    let chain = tensor.chain(params, t)?;
                    let own = scale.reduced(t);
                    let coeffs = polynomial.centered();
                    let level = levels[*value];
                    let plan = PolynomialPlan::new(&coeffs, &chain, level, own, |_| Ok(own))?;
                    let level = plan.output_level();
                    polynomials.push(plan);
                    level
                }
                Step::Remove { digits } => {
                    digits.iter().map(|&digit| levels[digit]).fold(level, Level::min)
                }
            });
        }
        let output_level = levels.last().copied().unwrap_or(level);
        Ok(RemovalPlan { removal: self.clone(), scale, level, output_level, polynomials })
    }
}

impl RemovalPlan {
    /// The planned removal.
    #[must_use]
    pub fn removal(&self) -> &DigitRemoval {
        &self.removal
    }

    /// Level of the inputs.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.output_level
    }

    /// Number of products of ciphertexts.
    #[must_use]
    pub fn products(&self) -> usize {
        self.polynomials.iter().map(PolynomialPlan::products).sum()
    }

    /// Required keys, some of them made for single levels.
    #[must_use]
    pub fn required_keys(&self, params: &Params) -> KeyRequest {
        let levels = params.rlwe().key_levels(Level(self.output_level.0 + 1)..=self.level);
        let stages = levels.into_iter().map(|level| KeyRequest::new().relinearize(level));
        KeyRequest::of_stages(stages.collect(), params.rlwe())
    }

    /// Removes digits from each slot of `x`, or from its only coefficient if it is a constant.
    ///
    /// # Errors
    /// [`Error::FactorMismatch`](crate::Error::FactorMismatch) for another scale than planned, and
    /// errors of the evaluator.
    pub fn run<E: IntegerOps>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        e.scale(x).check_matches(self.scale, OP)?;
        let mut polynomials = self.polynomials.iter();
        let evaluate = |x: &E::Ct, _: &_| match polynomials.next() {
            Some(plan) => plan.run(e, x),
            // Never: there is a plan for each polynomial of the removal.
            None => Ok(x.clone()),
        };
        self.removal.run(x, evaluate, |x, digits, to| {
            let rest = digits.iter().try_fold(x.clone(), |rest, digit| {
                let digit = e.with_plaintext_modulus(digit, self.scale.modulus())?;
                e.sub(&rest, &e.with_scale(&digit, self.scale)?)
            })?;
            e.with_plaintext_modulus(&rest, to)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error, bfv,
        exact::{BatchEncoder, IntegerEncoder, Modulus, PlainPoly, Spec, tests::Session},
    };

    fn session(t: Modulus, removal: &DigitRemoval) -> (RemovalPlan, Session) {
        session_for(t, removal, Tensor::Plain)
    }

    fn session_for(t: Modulus, removal: &DigitRemoval, tensor: Tensor) -> (RemovalPlan, Session) {
        let bits = t.log2() + 25.0;
        let spec = Spec::uniform(5, t, bits, removal.depth() as usize + 1, bits, vec![55.0; 2]);
        let spec = Spec { insecure: true, ..spec };
        let params = Params::new(spec.clone()).unwrap();
        let top = params.top();
        let factor = params.fresh_factor(params.top(), t).unwrap();
        let scale = tensor.scale(&params, top, factor).unwrap();
        let plan = removal.plan_with(&params, tensor, top, scale).unwrap();
        assert_eq!(top.0 - plan.output_level().0, removal.depth());
        let keys = plan.required_keys(&params);
        (plan, Session::with_exactly(spec, 5, &keys))
    }

    /// The encrypted result equals the result in the clear, slot by slot.
    #[test]
    fn digits_are_removed_in_slots() {
        for (p, e, v, log_slots) in
            [(5, 6, 3, 1), (17, 4, 2, 3), (17, 3, 1, 3), (7, 4, 2, 2), (3, 5, 3, 1)]
        {
            let t = Modulus::new(p, e).unwrap();
            let removal = DigitRemoval::new(t, v).unwrap();
            let (plan, mut s) = session(t, &removal);
            let values: Vec<u128> = (0..1 << log_slots)
                .map(|i| t.reduce(1 + i * i * 7_919 + i * u128::from(p)))
                .collect();
            let centered: Vec<i128> = values.iter().map(|&x| t.centered(x)).collect();
            let x = match p % 4 {
                1 => BatchEncoder::with_slots(t, 5, log_slots).unwrap().encode(&centered).unwrap(),
                _ => PlainPoly::constant(t, 5, centered[0]).unwrap(),
            };
            let a = s.encrypt(&x);
            let found = plan.run(&s.evaluator, &a).unwrap();
            assert_eq!((found.level(), plan.level()), (plan.output_level(), a.level()));
            let out = removal.output_modulus();
            assert!(found.factor().matches(a.factor().reduced(out)));
            let plain = s.decryptor.decrypt(&found).unwrap();
            let expected: Vec<i128> =
                values.iter().map(|&x| out.centered(removal.evaluate(x).unwrap())).collect();
            match p % 4 {
                1 => {
                    let encoder = IntegerEncoder::new(out, 5, log_slots).unwrap();
                    assert_eq!(encoder.decode(&plain).unwrap(), expected, "{t}");
                }
                _ => assert_eq!(plain, PlainPoly::constant(out, 5, expected[0]).unwrap()),
            }
        }
    }

    /// The products of BFV and of BGV return the same result, at the same levels.
    #[test]
    fn digits_are_removed_by_either_product() {
        for (p, e, v) in [(5, 6, 3), (17, 4, 2), (2, 8, 5)] {
            let t = Modulus::new(p, e).unwrap();
            let removal = DigitRemoval::new(t, v).unwrap();
            let (plan, mut s) = session_for(t, &removal, Tensor::Scaled);
            let bfv = bfv::Evaluator::new(&s.params, s.keys.clone()).unwrap();
            let x = t.value() / 3 + 7;
            let a = s.encrypt(&PlainPoly::constant(t, 5, t.centered(x)).unwrap());
            let found = plan.run(&bfv, &a).unwrap();
            assert_eq!(found.level(), plan.output_level());
            let out = removal.output_modulus();
            assert!(bfv.factor(&found).unwrap().matches(bfv.factor(&a).unwrap().reduced(out)));
            let expected = removal.evaluate(x).unwrap();
            s.assert_holds(&found, &PlainPoly::from_unsigned(out, 5, &[expected]).unwrap());
            // Other evaluators have another chain of scales.
            let other = plan.run(&s.evaluator, &a).unwrap_err();
            assert!(matches!(other, Error::FactorMismatch { .. }), "{other}");
        }
    }

    /// Without slots, a value is the constant of a plaintext.
    #[test]
    fn bits_are_removed_from_constants() {
        for (e, v) in [(4, 2), (8, 5), (11, 5)] {
            let t = Modulus::new(2, e).unwrap();
            let removal = DigitRemoval::new(t, v).unwrap();
            let (plan, mut s) = session(t, &removal);
            for x in [0, 1, 5, t.value() - 1, t.value() / 2 + 3] {
                let a = s.encrypt(&PlainPoly::constant(t, 5, t.centered(x)).unwrap());
                let found = s.decryptor.decrypt(&plan.run(&s.evaluator, &a).unwrap()).unwrap();
                let expected = removal.evaluate(x).unwrap();
                let expected = PlainPoly::from_unsigned(removal.output_modulus(), 5, &[expected]);
                assert_eq!(found, expected.unwrap(), "2^{e}: {x}");
            }
        }
    }

    #[test]
    fn other_factors_and_too_few_levels_are_refused() {
        let t = Modulus::new(17, 3).unwrap();
        let removal = DigitRemoval::new(t, 1).unwrap();
        let (plan, mut s) = session(t, &removal);
        let x = s.random(t);
        let other = s.encrypt_at(&x, plan.level(), Unit::new(3, t).unwrap());
        let error = plan.run(&s.evaluator, &other).unwrap_err();
        assert!(matches!(error, Error::FactorMismatch { .. }), "{error}");
        let planned = |level, t| removal.plan(&s.params, level, Unit::one(t)).map(drop);
        let low = Level(removal.depth() - 1);
        assert!(matches!(planned(low, t), Err(Error::LevelExhausted { .. })));
        let mismatched = planned(plan.level(), Modulus::new(17, 2).unwrap());
        assert!(matches!(mismatched, Err(Error::PlaintextMismatch { .. })));
    }
}
