//! Functions and statistics of the slots.

use crate::op::Own;
use sudare::{
    ckks::{Ciphertext, Complex, Evaluator, Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    functions::{self, Function, FunctionPlan},
    stats::SlotPlan,
};
use sudare_cli::bench::{
    parties::Parties,
    scheme::{Measured, Session, Task},
};
use sudare_roles::error::Result;

/// A circuit of the Full-RNS paper's Tables 2 and 3.
enum Circuit {
    Function(Box<(Function, FunctionPlan)>),
    Mean(SlotPlan),
    Variance(SlotPlan),
}

impl Circuit {
    fn new(op: Own, params: &Params) -> Result<Self> {
        let [inverse, exp, sigmoid] = functions::table_2()?;
        let function = match op {
            Own::Mean => return Ok(Self::Mean(SlotPlan::new(params.max_slots(), params)?)),
            Own::Variance => return Ok(Self::Variance(SlotPlan::new(params.max_slots(), params)?)),
            Own::Inverse => inverse,
            Own::Exp => exp,
            _ => sigmoid,
        };
        let plan = function.plan(params)?;
        Ok(Self::Function(Box::new((function, plan))))
    }

    fn required_keys(&self) -> KeyRequest {
        match self {
            Self::Function(function) => function.1.required_keys().clone(),
            Self::Mean(plan) => plan.mean_keys().clone(),
            Self::Variance(plan) => plan.variance_keys().clone(),
        }
    }

    /// Level at which to encrypt.
    fn level(&self) -> Level {
        match self {
            Self::Function(function) => function.1.level(),
            Self::Mean(plan) => plan.mean_level(),
            Self::Variance(plan) => plan.level(),
        }
    }

    /// Scale at which to encrypt.
    fn scale(&self) -> Scale {
        match self {
            Self::Function(function) => function.1.scale(),
            Self::Mean(plan) | Self::Variance(plan) => plan.scale(),
        }
    }

    /// Returns numbers to encrypt, made from numbers in `[-1, 1)`, and the results in the clear.
    /// For a function these are the values of its polynomial.
    fn example(&self, x: &[Complex<f64>]) -> (Vec<f64>, Vec<Complex<f64>>) {
        let parts = || x.iter().map(|x| x.re);
        let mean = |parts: &mut dyn Iterator<Item = f64>| parts.sum::<f64>() / x.len() as f64;
        // A sum over all slots appears in each slot.
        let everywhere = |value: f64| vec![Complex { re: value, im: 0.0 }; x.len()];
        match self {
            Self::Function(function) => {
                let interval = function.0.interval();
                let radius = (interval.end - interval.start) / 2.0;
                let slots: Vec<f64> =
                    parts().map(|x| interval.start + radius * (x + 1.0)).collect();
                // The polynomial, not the function: its distance to the function is no error of
                // encryption.
                let value = |&x| Complex { re: function.0.evaluate(x), im: 0.0 };
                let values = slots.iter().map(value).collect();
                (slots, values)
            }
            Self::Mean(_) => (parts().collect(), everywhere(mean(&mut parts()))),
            Self::Variance(_) => {
                let centre = mean(&mut parts());
                let variance = mean(&mut parts().map(|x| (x - centre).powi(2)));
                (parts().collect(), everywhere(variance))
            }
        }
    }

    fn run(&self, evaluator: &Evaluator, a: &Ciphertext) -> Result<Ciphertext> {
        Ok(match self {
            Self::Function(function) => function.1.run(evaluator, a)?,
            Self::Mean(plan) => plan.mean(evaluator, a)?,
            Self::Variance(plan) => plan.variance(evaluator, a)?,
        })
    }
}

/// A circuit that is timed as a whole.
pub struct Timed(pub Own);

impl Task for Timed {
    fn name(&self) -> String {
        self.0.name()
    }

    fn required_keys(&self, params: &Params, _level: Level) -> Result<KeyRequest> {
        // The session's level does not matter: a circuit plans the level of its input.
        Ok(Circuit::new(self.0, params)?.required_keys())
    }

    fn measure(&self, session: &Session, runs: u32) -> Result<Measured> {
        let Parties { encoder, encryptor, evaluator, .. } = &session.parties;
        let circuit = Circuit::new(self.0, &session.params)?;
        let (slots, expected) = circuit.example(&session.x);
        let a = encryptor.encrypt(&encoder.encode_real_at(
            &slots,
            circuit.level(),
            circuit.scale(),
        )?)?;
        let found = session.with_key(runs, &expected, || circuit.run(evaluator, &a))?;
        Ok(Measured { level: circuit.level(), ..found })
    }
}
