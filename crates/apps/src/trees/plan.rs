//! Plans of forests: the modulus, the ring, levels and keys.

use super::{
    bound::Bound,
    circuit::{Circuit, Run},
    error::{Result, TreesError},
    grid::Feature,
    model::Forest,
    setup::Setup,
};
use sudare::{
    Error,
    circuits::exact::sim::{self, Counts},
    exact::{BatchEncoder, Ciphertext, Evaluator, Modulus, Needs, Params, choose},
    rlwe::{KeyRequest, Level, Work},
};

/// Plaintext moduli from 16 to 40 bits. The first ones have the smallest levels.
const SMALL_MODULI: [u64; 2] = [65537, 786_433];
const LARGE_MODULI_BITS: [u32; 5] = [24, 28, 32, 36, 40];

/// `log2` of the slots that each modulus has.
const LOG_SLOTS: u32 = 16;

/// Numbers of ciphertexts that there may be room to sum before a product.
const SUMMED: [u32; 4] = [1, 3, 7, 15];

/// Options of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PlanOptions {
    /// The largest tolerable error of a raw score by rounded leaves. Without it, the smallest modulus
    /// is taken: the error is then about `2^-16` of the range of scores, times half the number of
    /// trees.
    pub tolerance: Option<f64>,
}

/// A plan to compute a forest on encrypted rows without bootstrapping.
#[derive(Debug, Clone)]
pub struct ForestPlan {
    setup: Setup,
    bound: Bound,
    circuit: Circuit,
    params: Params,
    simulated: Simulated,
    /// Trees of the forest, including constant ones.
    trees: usize,
}

/// Results of a run on public facts.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    pub keys: KeyRequest,
    pub counts: Counts,
    pub work: Work,
    pub relinearizations: usize,
}

impl ForestPlan {
    /// Plans a forest on rows with these grids, at 128 bits of security.
    ///
    /// # Errors
    /// [`TreesError::Count`] for another number of grids; [`TreesError::Grid`];
    /// [`TreesError::Forest`] if no test is left on the grid, so that predictions are constant;
    /// [`TreesError::Tolerance`]; [`TreesError::TooDeep`]; [`TreesError::Library`].
    pub fn new(forest: &Forest, grid: &[Feature], options: &PlanOptions) -> Result<Self> {
        let tolerance = options.tolerance.unwrap_or(f64::INFINITY);
        if tolerance.is_nan() || tolerance <= 0.0 {
            return Err(TreesError::Tolerance { tolerance, least: 0.0 });
        }
        let large = LARGE_MODULI_BITS
            .into_iter()
            .filter_map(|bits| BatchEncoder::primes_near(1 << bits, LOG_SLOTS).into_iter().next());
        let mut least = f64::INFINITY;
        let mut deep = None;
        for t in SMALL_MODULI.into_iter().chain(large) {
            let t = Modulus::new(t, 1)?;
            let drafted = Draft::new(forest, grid, t)?;
            least = least.min(drafted.setup.error());
            if drafted.setup.error() > tolerance {
                continue;
            }
            match drafted.chosen()? {
                Some(plan) => return Ok(plan),
                // A larger modulus needs larger levels, or has more slots.
                None => deep = deep.or(Some(drafted.too_deep())),
            }
        }
        Err(deep.unwrap_or(TreesError::Tolerance { tolerance, least }))
    }

    /// Plans a forest under given parameters, for example of existing keys.
    ///
    /// # Errors
    /// The errors of [`ForestPlan::new`]; [`TreesError::Library`] for parameters with too few levels
    /// or slots, or too little room for errors.
    pub fn with_params(forest: &Forest, grid: &[Feature], params: &Params) -> Result<Self> {
        BatchEncoder::new(params.plaintext_modulus(), params.log_n())?;
        Draft::new(forest, grid, params.plaintext_modulus())?.planned(params.clone())
    }

    /// Plans a forest for keys with this setup. This is for the server.
    ///
    /// # Errors
    /// [`TreesError::NotAsPlanned`] if the setup is of another forest; the errors of
    /// [`ForestPlan::with_params`].
    pub fn with_setup(forest: &Forest, setup: &Setup, params: &Params) -> Result<Self> {
        setup.check()?;
        let plan = Self::with_params(forest, &setup.features, params)?;
        if plan.setup == *setup {
            return Ok(plan);
        }
        let described = |setup: &Setup| {
            let Setup { features, outputs, link, .. } = setup;
            format!("{} features, {link:?}, {outputs:?}", features.len())
        };
        Err(TreesError::NotAsPlanned {
            what: "the model",
            found: described(&plan.setup),
            needed: described(setup),
        })
    }

    /// Returns the public part of the plan, for the owner of rows.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the keys that the server needs: one for relinearisation.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.simulated.keys
    }

    /// Computes a block of rows. `input` reads the ciphertext of a digit by its place, which are the
    /// places of [`Setup::plaintexts`]; it is called once for each digit that tests need. Returns a
    /// ciphertext for each output.
    ///
    /// # Errors
    /// The errors of `input`; [`TreesError::Library`] for ciphertexts or keys of other parameters.
    pub fn run<X: From<Error>>(
        &self,
        evaluator: &Evaluator,
        mut input: impl FnMut(usize) -> core::result::Result<Ciphertext, X>,
    ) -> core::result::Result<Vec<Ciphertext>, X> {
        let factor =
            self.params.fresh_factor(self.params.top(), self.params.plaintext_modulus())?;
        let checked = |place| {
            let x = input(place)?;
            let problem = |what: String| Error::Malformed { what: "ciphertext", problem: what };
            if x.level() != self.params.top() {
                let needed = self.params.top();
                return Err(
                    problem(format!("a digit has level {}, not {needed}", x.level())).into()
                );
            }
            if !x.factor().matches(factor) {
                return Err(problem("a digit has another factor than fresh ones".into()).into());
            }
            Ok(x)
        };
        let mut run = Run::new(evaluator, &self.params)?;
        self.circuit.run(&mut run, &self.bound, checked)
    }

    pub(super) fn simulated(&self) -> &Simulated {
        &self.simulated
    }

    pub(super) fn circuit(&self) -> &Circuit {
        &self.circuit
    }

    /// Number of trees, of different tests, and of leaves.
    pub(super) fn sizes(&self) -> [usize; 2] {
        [self.trees, self.bound.cuts.len()]
    }

    #[cfg(test)]
    pub(super) fn bound(&self) -> &Bound {
        &self.bound
    }
}

/// A plan without parameters.
struct Draft {
    t: Modulus,
    setup: Setup,
    bound: Bound,
    circuit: Circuit,
    trees: usize,
}

impl Draft {
    fn new(forest: &Forest, grid: &[Feature], t: Modulus) -> Result<Self> {
        let refused = |problem: &str| Err(TreesError::Forest { problem: problem.into() });
        // Below 2^63, since moduli of plans and keys with slots are.
        let most = u64::try_from(t.value() / 2).unwrap_or(u64::MAX >> 1);
        if 2 * forest.trees().len() as u64 > most {
            return refused("has more trees than the modulus has values: use fewer trees");
        }
        let bound = Bound::new(forest, grid, most.saturating_sub(1))?;
        if bound.cuts.is_empty() {
            return refused(
                "has no test that tells two points of the grid apart, so its predictions are constant: \
                 use a finer grid, or no encryption",
            );
        }
        let setup = Setup {
            features: grid.to_vec(),
            outputs: bound.outputs.clone(),
            link: forest.link(),
            classes: forest.classes().to_vec(),
        };
        let circuit = Circuit::new(&bound, grid, |feature| setup.place(feature));
        Ok(Self { t, setup, bound, circuit, trees: forest.trees().len() })
    }

    /// Returns the plan in the smallest ring, or `None` if no ring has enough levels, or if the
    /// modulus has too few slots in it.
    fn chosen(&self) -> Result<Option<ForestPlan>> {
        for rotations in SUMMED {
            let needs = Needs {
                plaintext_modulus: self.t,
                depth: self.circuit.depth(),
                rotations,
                last_rotations: 2 * self.bound.trees.len() as u32,
            };
            // The only reason is a depth that fits no ring.
            let Ok(choice) = choose(needs) else { return Ok(None) };
            if BatchEncoder::new(self.t, choice.spec.log_n).is_err() {
                return Ok(None);
            }
            match self.planned(Params::new(choice.spec)?) {
                // More room for errors.
                Err(TreesError::Library(Error::NoiseExhausted { .. })) => {}
                result => return result.map(Some),
            }
        }
        Ok(None)
    }

    fn planned(&self, params: Params) -> Result<ForestPlan> {
        let needed = self.circuit.depth();
        if params.top() < Level(needed) {
            let level = params.top();
            return Err(Error::LevelExhausted { op: "trees", needed, level }.into());
        }
        let e = sim::Evaluator::new(&params, &KeyRequest::new());
        let mut run = Run::new(&e, &params)?;
        let top = params.top();
        let fresh = |_| e.encrypt(top, params.fresh_factor(top, self.t)?);
        self.circuit.run(&mut run, &self.bound, fresh)?;
        let simulated = Simulated {
            keys: Setup::required_keys(&params),
            counts: e.counts(),
            work: e.work(),
            relinearizations: run.relinearizations,
        };
        Ok(ForestPlan {
            setup: self.setup.clone(),
            bound: self.bound.clone(),
            circuit: self.circuit.clone(),
            params,
            simulated,
            trees: self.trees,
        })
    }

    fn too_deep(&self) -> TreesError {
        TreesError::TooDeep {
            height: self.circuit.height(),
            digits: self.circuit.digits() as usize,
            levels: self.circuit.depth(),
        }
    }
}
