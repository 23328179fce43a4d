//! A training in progress on a server, which can stop and resume.

use crate::{
    error::{Error, Result},
    format::label::Meta,
    job::Plan,
    os::machine,
    plan::price::MAX_SHARE_BYTES,
    server::{
        checkpoint::Checkpoints,
        session::{Session, Share},
    },
};
use std::{
    io::{Read, Seek},
    ops::Range,
    path::PathBuf,
    sync::Arc,
};
use sudare::ckks::{Ciphertext, Evaluator};
use sudare_apps::logreg::{Gradient, Point, TrainPlan, Trainer, Training};

/// The rows of a share may take this fraction of the free memory: one part in 8.
// Two shares are in memory at a time, next to the keys and the working copies of rows.
const SHARE_OF_MEMORY: u64 = 8;

/// Options for keeping the states of a training.
pub struct CheckpointFolder {
    /// The directory of states.
    pub folder: PathBuf,
    /// Resumes from the last state in the directory, if there is one.
    pub resume: bool,
    /// Starts over and replaces existing states.
    pub replace: bool,
}

/// A training on encrypted tables.
pub struct TrainingServer<R> {
    session: Session<R>,
    plan: Arc<TrainPlan>,
    trainer: Trainer<'static, Evaluator>,
    checkpoints: Option<Checkpoints>,
    /// Keeps the weights after each iteration.
    keeps_history: bool,
    training: Training,
    resumed: bool,
    history: Vec<Ciphertext>,
    rows: Share,
    /// Maximum bytes of rows to compute with at a time.
    share_bytes: u64,
}

impl<R: Read + Seek + Send> TrainingServer<R> {
    /// Starts a training, or resumes one. Then runs the iterations that need no rows. Reports
    /// damaged states to `notice`.
    ///
    /// # Errors
    /// [`Error::Usage`] for tables of another job, and for states of another training;
    /// [`Error::Exists`] for states that may neither be resumed nor replaced; [`Error::File`] for
    /// damaged tables; [`Error::InUse`]; [`Error::Checkpoint`].
    pub fn open(
        session: Session<R>,
        kept: Option<CheckpointFolder>,
        keeps_history: bool,
        mut notice: impl FnMut(&str),
    ) -> Result<Self> {
        let Plan::Train(plan) = &session.plan else {
            return Err(Error::Usage(format!(
                "the table was encrypted for {}: use `sudare {}`, or make keys with --for train:…",
                session.meta.job,
                session.plan.command()
            )));
        };
        let plan = Arc::new((**plan).clone());
        let checkpoints = kept.as_ref().map(|kept| {
            let replace = kept.resume || kept.replace;
            Checkpoints::open(&kept.folder, session.origin.clone(), replace)
        });
        let checkpoints = checkpoints.transpose()?;
        let resumed = match (&checkpoints, &kept) {
            (Some(checkpoints), Some(CheckpointFolder { resume: true, .. })) => {
                checkpoints.last(&plan, &session, &mut notice)?
            }
            _ => None,
        };
        let history = match (&checkpoints, &resumed) {
            (Some(checkpoints), Some(training)) if keeps_history => {
                checkpoints.weights(&plan, training, &session)?
            }
            _ => Vec::new(),
        };
        session.check_keys()?;
        let sums = plan.add_sums(&*session.evaluator, session.tables.sums(&plan)?)?;
        let trainer = Trainer::shared(Arc::clone(&plan), Arc::clone(&session.evaluator), sums)?;
        let is_resumed = resumed.is_some();
        let training = match resumed {
            Some(training) => training,
            None => trainer.start()?,
        };
        let mut this = Self {
            session,
            plan,
            trainer,
            checkpoints,
            keeps_history,
            training: training.clone(),
            resumed: is_resumed,
            history,
            rows: Share::default(),
            share_bytes: share_bytes(),
        };
        // The start may have taken iterations, which a resumption must not repeat.
        if !is_resumed {
            this.store(training)?;
        }
        Ok(this)
    }

    /// Returns the plan of the training.
    #[must_use]
    pub fn plan(&self) -> &Arc<TrainPlan> {
        &self.plan
    }

    /// Returns the session of the training.
    #[must_use]
    pub fn session(&self) -> &Session<R> {
        &self.session
    }

    /// Returns whether the training resumed from a stored state.
    #[must_use]
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// Returns the current state.
    #[must_use]
    pub fn training(&self) -> &Training {
        &self.training
    }

    /// Runs the next iteration, in shares of rows that fit in memory, and stores its state.
    ///
    /// # Errors
    /// [`Error::Apps`] if no iteration is left; [`Error::File`]; [`Error::Checkpoint`]. The state
    /// is then unchanged.
    pub fn step(&mut self) -> Result<()> {
        self.session.check_keys()?;
        let point = self.point()?;
        let shares = self.shares(point.iteration);
        let last = self.plan.job().spec.iterations - 1;
        // The first rows of the next iteration are read while this one still computes.
        let ahead = self.shares(last.min(point.iteration + 1)).first().cloned();
        let mut gradient: Option<Gradient> = None;
        for (i, share) in shares.iter().enumerate() {
            let next = shares.get(i + 1).or(ahead.as_ref()).unwrap_or(share);
            let trainer = &self.trainer;
            let tables = &self.session.tables;
            self.rows.load(tables, share.clone())?;
            let part = self.rows.with_next(tables, next.clone(), |rows| {
                Ok(trainer.gradients().part(&point, share.clone(), rows)?)
            })?;
            gradient = Some(match gradient {
                Some(sum) => trainer.gradients().sum(&[sum, part])?,
                None => part,
            });
        }
        let gradient = gradient.ok_or_else(|| Error::Bug("a batch without shares".into()))?;
        self.update(gradient)
    }

    /// Splits the rows of an iteration into shares that fit in memory.
    fn shares(&self, iteration: u32) -> Vec<Range<usize>> {
        let (level, _) = self.plan.input(self.plan.batches().of(iteration));
        let params = &self.session.params;
        // Two polynomials, with eight bytes a residue.
        let each = 16 * (params.rlwe().limbs(level).q() << params.log_n()) as u64;
        let batch = self.plan.batch(iteration).len() as u64 * each;
        self.plan.shares(iteration, batch.div_ceil(self.share_bytes) as usize)
    }

    /// Returns the weights at which the next iteration computes its gradient. Bootstraps them first
    /// if necessary.
    ///
    /// # Errors
    /// The errors of [`TrainingServer::step`].
    pub fn point(&mut self) -> Result<Point> {
        self.session.check_keys()?;
        self.trainer.refresh(&mut self.training)?;
        Ok(self.trainer.point(&self.training))
    }

    /// Runs the next iteration with a gradient over all its rows, and stores its state.
    ///
    /// # Errors
    /// The errors of [`TrainingServer::step`].
    pub fn update(&mut self, gradient: Gradient) -> Result<()> {
        let mut next = self.training.clone();
        self.trainer.update(gradient, &mut next)?;
        self.store(next)
    }

    /// Adopts the state after an iteration, once it is stored.
    fn store(&mut self, next: Training) -> Result<()> {
        self.session.check_keys()?;
        let weights = match self.keeps_history {
            true => self.plan.snapshot(&*self.session.evaluator, &next)?,
            false => Vec::new(),
        };
        if let Some(checkpoints) = &self.checkpoints {
            // The weights first: a state on the disk promises that its weights are there.
            if !weights.is_empty() {
                checkpoints.write_weights(&weights, next.iteration, &self.session)?;
            }
            checkpoints.write(&next, &self.session)?;
        }
        self.history.extend(weights);
        self.training = next;
        Ok(())
    }

    /// Returns the encrypted weights and the metadata of their file. The weights of the finished
    /// iterations come first, then the weights after each iteration, if they were kept.
    ///
    /// # Errors
    /// [`Error::Apps`].
    pub fn model(&self) -> Result<(Vec<Ciphertext>, Meta)> {
        let mut items = self.plan.model(&self.training)?;
        items.extend(self.history.iter().cloned());
        let iterations = self.training.iteration;
        Ok((items, Meta { iterations, ..self.session.meta_of_result() }))
    }
}

/// Returns the number of iterations to run: `asked`, or by default all planned ones.
///
/// # Errors
/// [`Error::Usage`] for more iterations than planned, and for a part of the first step.
pub fn iterations_of(plan: &TrainPlan, asked: Option<u32>) -> Result<u32> {
    let spec = &plan.job().spec;
    let planned = spec.iterations;
    let least = spec.label_iterations();
    let iterations = asked.unwrap_or(planned);
    if iterations > planned {
        return Err(Error::Usage(format!(
            "{iterations} iterations were requested, but the keys are for {planned}: request at \
             most {planned}, or make keys with --iterations {iterations}"
        )));
    }
    if iterations < least {
        return Err(Error::Usage(format!(
            "{iterations} iteration(s) were requested, but the first {least} form one step: \
             request at least {least}, or make keys with --iterations {iterations}"
        )));
    }
    Ok(iterations)
}

/// Returns the bytes of rows to compute with at a time. The result does not depend on it.
fn share_bytes() -> u64 {
    let free = machine::available_bytes().map(|bytes| bytes / SHARE_OF_MEMORY);
    free.unwrap_or(MAX_SHARE_BYTES).clamp(1, MAX_SHARE_BYTES)
}
