//! Predicted costs of operations, before a key exists.

use super::{Scheme, Setting};
use sudare::{
    circuits::{
        Ops,
        exact::{bootstrap::Simulation, sim},
    },
    rlwe::{GaloisElement, Level, Rates},
};

/// Predicted seconds for one ciphertext at the highest level of arrays, with one thread of the
/// machine of `docs/performance.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// A product of BGV, if a level is left for one. The product of BFV, which also changes bases,
    /// has no prediction.
    pub product_s: Option<f64>,
    /// A rotation by a power of two.
    pub rotation_s: f64,
    /// A bootstrapping, if the setting has it.
    pub bootstrapping_s: Option<f64>,
    /// Bits by which errors may grow after a bootstrapping, if the setting has it.
    pub budget_bits: Option<f64>,
}

impl Setting {
    /// Runs a product, a rotation and a bootstrapping on the public facts of ciphertexts. With
    /// bootstrapping this takes seconds in the named sets.
    ///
    /// # Errors
    /// [`sudare::Error::NoiseExhausted`] for parameters without room for one of them; the errors of
    /// [`Setting::required_keys`].
    pub fn costs(&self) -> sudare::Result<Costs> {
        let params = self.params();
        let keys = self.required_keys()?;
        let rates = Rates::reference(params.log_n());
        let top = params.top();
        let alone = |run: &dyn Fn(&sim::Evaluator) -> sudare::Result<()>| {
            let e = sim::Evaluator::new(params, &keys);
            run(&e)?;
            Ok::<_, sudare::Error>(e.work().seconds(&rates))
        };
        let fresh = |e: &sim::Evaluator| e.encrypt(top, self.factor(top)?);
        let product = |e: &sim::Evaluator| {
            let x = fresh(e)?;
            e.mul_rescale(&x, &x).map(drop)
        };
        let rotation = |e: &sim::Evaluator| {
            e.automorphism(&fresh(e)?, GaloisElement::rotation(params.log_n(), 1)).map(drop)
        };
        let simulated = self.bootstrapping().map(|plan| plan.simulate(params)).transpose()?;
        let seconds = |simulation: Simulation| simulation.work.seconds(&rates);
        Ok(Costs {
            product_s: match self.scheme() {
                Scheme::Bgv if top > Level(0) => Some(alone(&product)?),
                Scheme::Bgv | Scheme::Bfv => None,
            },
            rotation_s: alone(&rotation)?,
            bootstrapping_s: simulated.map(seconds),
            budget_bits: simulated.map(|simulation| simulation.budget_bits),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{bootstrapping_set, plan};
    use super::*;
    use sudare::exact::{Params, preset};

    #[test]
    fn costs_are_those_of_the_scheme_and_the_set() {
        let params = Params::new(preset("n13-t65537").unwrap().spec).unwrap();
        let [bgv, bfv] = [Scheme::Bgv, Scheme::Bfv]
            .map(|scheme| Setting::new(params.clone(), scheme, true).unwrap().costs().unwrap());
        assert!(bgv.product_s.is_some_and(|s| s > 0.0 && s < 1.0), "{bgv:?}");
        assert_eq!((bfv.product_s, bfv.bootstrapping_s), (None, None));
        assert!(bfv.rotation_s > 0.0 && bfv.rotation_s == bgv.rotation_s);
        // Without a level there is no product to predict.
        let params = Params::new(plan(65537, 0).unwrap().spec).unwrap();
        for scheme in [Scheme::Bgv, Scheme::Bfv] {
            let costs = Setting::new(params.clone(), scheme, true).unwrap().costs().unwrap();
            assert!(costs.product_s.is_none() && costs.rotation_s > 0.0, "{costs:?}");
        }

        let name = "n15-t65537-boot";
        let params = Params::new(bootstrapping_set(name, Some(8)).unwrap().preset.spec).unwrap();
        let costs = Setting::named(name, params, Scheme::Bgv, true).unwrap().costs().unwrap();
        let bootstrapping = costs.bootstrapping_s.unwrap();
        assert!(bootstrapping > 10.0 * costs.product_s.unwrap(), "{costs:?}");
        assert!(costs.budget_bits.is_some_and(|bits| bits > 200.0), "{costs:?}");
    }
}
