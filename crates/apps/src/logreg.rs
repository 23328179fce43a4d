//! Logistic regression by Nesterov's accelerated gradient, in the clear and on encrypted rows.
//!
//! The owner of a table and a server proceed as follows; [`TrainPlan`] is made by both from the
//! public [`Job`] and the parameters.
//!
//! | who | does |
//! |---|---|
//! | owner | [`TrainPlan::auto_params`], keys by [`TrainPlan::required_keys`], [`TrainPlan::encrypt`] |
//! | server | [`Trainer::start`], [`Trainer::step`] until done, each on its [`TrainPlan::batch`], [`TrainPlan::model`] |
//! | several servers | the same in parts: [`Trainer`] says which |
//! | owner | decrypts, [`TrainPlan::decode`] |
//!
//! [`ScorePlan`] is for rows that are scored by a model, plain or as a training leaves it.
//!
//! ```
//! use std::sync::Arc;
//! use sudare::{ckks, rlwe::KeyGenerator};
//! use sudare_apps::{logreg::{Job, TrainPlan, TrainSpec}, table::Table};
//!
//! let table = Table::bundled("lbw")?;
//! let spec = TrainSpec { iterations: 3, ..TrainSpec::default() };
//! let job = Job { rows: table.rows(), features: table.features(), spec };
//! let params = TrainPlan::auto_params(&job)?;
//! let plan = TrainPlan::new(&job, &params)?;
//!
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = Arc::new(keygen.public_key(&secret)?);
//! let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
//! let data = plan.encrypt(&ckks::Encryptor::new(&params, public)?, &table, None, |_| ())?;
//!
//! // The server holds `keys` and `data` only.
//! let evaluator = ckks::Evaluator::new(&params, keys)?;
//! let trainer = plan.trainer(&evaluator)?;
//! let mut training = trainer.start(&data[plan.batch(0)])?;
//! while training.iteration < job.spec.iterations {
//!     trainer.step(&data[plan.batch(training.iteration)], &mut training)?;
//! }
//! let model = plan.model(&training)?;
//!
//! let plain = ckks::Decryptor::new(&params, secret)?.decrypt(&model)?;
//! let weights = plan.decode(&ckks::Encoder::new(&params).decode_real(&plain)?);
//! assert_eq!(weights.len(), 1 + table.features());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod gradient;
mod history;
mod plan;
pub mod reference;
mod refresh;
mod score;
mod simulate;
mod train;

pub(crate) use budget::split;
pub use gradient::{Gradient, Point};
pub(crate) use plan::special_primes;
pub use plan::{Job, TrainPlan};
pub use reference::{Batches, ClassWeights, LearningRate, SigmoidApprox, SigmoidDegree, TrainSpec};
pub use score::{Probability, ScoreJob, ScorePlan, ScoredModel, Scorer, Scores, Weights};
pub use simulate::Simulated;
pub use train::{Trainer, Training};
