//! Logistic regression by Nesterov's accelerated gradient, in the clear and on encrypted rows.
//!
//! Owner and server make the same [`TrainPlan`] from the public [`Job`] and the parameters. Then
//! they proceed as follows:
//!
//! | party | steps |
//! |---|---|
//! | owner | [`TrainPlan::auto_params`], keys by [`TablePlan::required_keys`](crate::TablePlan::required_keys), [`TrainPlan::prepare`], [`TrainPlan::encryptions`] |
//! | server | [`TrainPlan::trainer`], [`Trainer::start`], [`Trainer::step`] until done, each on its [`TrainPlan::batch`], [`TrainPlan::model`] |
//! | several servers | the same in parts, see [`Trainer`] |
//! | owner | decrypts, [`TrainPlan::decode`], [`Transform::of_columns`] |
//!
//! To score rows by a plain or a trained model, use [`ScorePlan`].
//!
//! ```
//! use std::sync::Arc;
//! use sudare::{ckks, rlwe::KeyGenerator};
//! use sudare_apps::{TablePlan, logreg::{Job, TrainPlan, TrainSpec}};
//! use sudare_table::Table;
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
//! let rows = plan.prepare(&table, None)?;
//! plan.check(&rows)?;
//! let encryptor = ckks::Encryptor::new(&params, public)?;
//! let mut data = plan.encryptions(&encryptor, &rows).collect::<Result<Vec<_>, _>>()?;
//!
//! // The server holds `keys` and `data` only.
//! let evaluator = ckks::Evaluator::new(&params, keys)?;
//! let sums = data.split_off(plan.row_ciphertexts());
//! let trainer = plan.trainer(&evaluator, sums)?;
//! let mut training = trainer.start()?;
//! while training.iteration < job.spec.iterations {
//!     trainer.step(&data[plan.batch(training.iteration)], &mut training)?;
//! }
//! let models = plan.model(&training)?;
//!
//! let plain = ckks::Decryptor::new(&params, secret)?.decrypt(&models[0])?;
//! let trained = plan.decode(&ckks::Encoder::new(&params).decode_real(&plain)?);
//! let weights = rows.transform().of_columns(&trained);
//! assert_eq!(weights.len(), 1 + table.features());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod error;
mod job;
mod layout;
mod plan;
mod planned;
mod prepare;
pub mod reference;
mod score;
mod sigmoid;
mod spec;
mod train;
mod work;

pub(crate) use sigmoid::solved;

pub use error::{Error, Result};
pub use job::Job;
pub use plan::TrainPlan;
pub use prepare::{Moments, Prepared, Transform, class_sums};
pub use score::job::{Probability, ScoreJob, ScoredModel};
pub use score::{ScorePlan, Scorer, Scores, Weights};
pub use spec::{
    Batches, ClassWeights, LearningRate, Penalty, Preparation, SigmoidApprox, SigmoidDegree,
    SigmoidFit, Step, TrainError, TrainSpec, schedule,
};
pub use train::gradient::{Gradient, Gradients, Point};
pub use train::simulate::Simulated;
pub use train::{Trainer, Training};
