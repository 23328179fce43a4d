//! A training under way on a server, which can be stopped and gone on with.

use crate::{
    checkpoint::Checkpoints,
    error::{Error, Result},
    job::Plan,
    label::Meta,
    machine,
    price::MOST_SHARE_BYTES,
    server::{Session, Share},
};
use std::{
    io::{Read, Seek},
    ops::Range,
    path::PathBuf,
    sync::Arc,
};
use sudare::ckks::{Ciphertext, Evaluator};
use sudare_apps::logreg::{Gradient, Point, TrainPlan, Trainer, Training};

/// Of the memory that is free, the part that the rows of a share may take.
const SHARE_OF_MEMORY: u64 = 8;

/// Where the states of a training are kept.
pub struct CheckpointFolder {
    /// The folder.
    pub folder: PathBuf,
    /// Whether to go on from the last state there, if there is one.
    pub resume: bool,
    /// Whether to begin though there are states.
    pub replace: bool,
}

/// A training on encrypted tables.
pub struct TrainingServer<R> {
    session: Session<R>,
    plan: Arc<TrainPlan>,
    trainer: Trainer<'static, Evaluator>,
    checkpoints: Option<Checkpoints>,
    /// Whether the weights after each iteration are kept.
    keeps_history: bool,
    training: Training,
    resumed: bool,
    history: Vec<Ciphertext>,
    rows: Share,
    /// Most bytes of the rows that are computed with at a time.
    share_bytes: u64,
}

impl<R: Read + Seek + Send> TrainingServer<R> {
    /// Begins to train, or goes on. The iterations that take no rows are then done. `notice` is
    /// told of damaged states.
    ///
    /// # Errors
    /// [`Error::Usage`] for tables of another job, and for states of another training;
    /// [`Error::Exists`] for states that are neither to be gone on from nor to be replaced;
    /// [`Error::File`] for damaged tables; [`Error::InUse`]; [`Error::Checkpoint`].
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
        if !is_resumed {
            this.keep(training)?;
        }
        Ok(this)
    }

    /// How it is planned.
    #[must_use]
    pub fn plan(&self) -> &Arc<TrainPlan> {
        &self.plan
    }

    /// What it computes with.
    #[must_use]
    pub fn session(&self) -> &Session<R> {
        &self.session
    }

    /// Whether it went on from a state that was kept.
    #[must_use]
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// How far it is.
    #[must_use]
    pub fn training(&self) -> &Training {
        &self.training
    }

    /// Does the next iteration, on so many rows at a time as memory allows, and keeps its state.
    ///
    /// # Errors
    /// [`Error::Apps`] if none is left; [`Error::File`]; [`Error::Checkpoint`]. The iterations done
    /// are then as before.
    pub fn step(&mut self) -> Result<()> {
        self.session.check_keys()?;
        let point = self.point()?;
        let shares = self.shares(point.iteration);
        let last = self.plan.job().spec.iterations - 1;
        let ahead = self.shares(last.min(point.iteration + 1)).first().cloned();
        let mut gradient: Option<Gradient> = None;
        for (i, share) in shares.iter().enumerate() {
            let next = shares.get(i + 1).or(ahead.as_ref()).unwrap_or(share);
            let (trainer, tables) = (&self.trainer, &self.session.tables);
            self.rows.bring(tables, share.clone())?;
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

    /// The rows of an iteration, in parts that memory has room for.
    fn shares(&self, iteration: u32) -> Vec<Range<usize>> {
        let (level, _) = self.plan.input(self.plan.batches().of(iteration));
        let params = &self.session.params;
        let each = 16 * (params.rlwe().limbs(level).q() << params.log_n()) as u64;
        let batch = self.plan.batch(iteration).len() as u64 * each;
        self.plan.shares(iteration, batch.div_ceil(self.share_bytes) as usize)
    }

    /// Where the gradient of the next iteration is taken. Weights are bootstrapped before if they
    /// have to be.
    ///
    /// # Errors
    /// As [`TrainingServer::step`].
    pub fn point(&mut self) -> Result<Point> {
        self.session.check_keys()?;
        self.trainer.refresh(&mut self.training)?;
        Ok(self.trainer.point(&self.training))
    }

    /// Does the next iteration with a gradient over all its rows, and keeps the state.
    ///
    /// # Errors
    /// As [`TrainingServer::step`].
    pub fn update(&mut self, gradient: Gradient) -> Result<()> {
        let mut next = self.training.clone();
        self.trainer.update(gradient, &mut next)?;
        self.keep(next)
    }

    /// Takes the state after an iteration, once it is written where states are kept.
    fn keep(&mut self, next: Training) -> Result<()> {
        self.session.check_keys()?;
        let weights = match self.keeps_history {
            true => self.plan.snapshot(&*self.session.evaluator, &next)?,
            false => Vec::new(),
        };
        if let Some(checkpoints) = &self.checkpoints {
            if !weights.is_empty() {
                checkpoints.write_weights(&weights, next.iteration, &self.session)?;
            }
            checkpoints.write(&next, &self.session)?;
        }
        self.history.extend(weights);
        self.training = next;
        Ok(())
    }

    /// The encrypted weights after the iterations that are done, then those after each where they
    /// were kept, and what their file says of itself.
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

/// Iterations to do of a planned training: all, or as many as are asked for.
///
/// # Errors
/// [`Error::Usage`] for more than the keys are for, and for a part of the first step.
pub fn iterations_of(plan: &TrainPlan, asked: Option<u32>) -> Result<u32> {
    let spec = &plan.job().spec;
    let (planned, least) = (spec.iterations, spec.label_iterations());
    let iterations = asked.unwrap_or(planned);
    if iterations > planned {
        return Err(Error::Usage(format!(
            "{iterations} iterations asked for, the keys are for {planned}: ask for at most as \
             many, or make keys with --iterations {iterations}"
        )));
    }
    if iterations < least {
        return Err(Error::Usage(format!(
            "{iterations} iteration(s) asked for, but the first {least} are one step: ask for at \
             least {least}, or make keys with --iterations {iterations}"
        )));
    }
    Ok(iterations)
}

/// Bytes of rows to compute with at a time. What is computed does not depend on it.
fn share_bytes() -> u64 {
    let free = machine::available_bytes().map(|bytes| bytes / SHARE_OF_MEMORY);
    free.unwrap_or(MOST_SHARE_BYTES).clamp(1, MOST_SHARE_BYTES)
}
