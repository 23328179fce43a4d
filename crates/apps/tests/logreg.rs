//! Encrypted logistic regression against its clear twin.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

#[path = "../../sudare/tests/session/mod.rs"]
mod session;

use core::ops::Range;
use proptest::prelude::*;
use session::Session;
use sudare::{
    circuits::{Ops, bootstrap, sim},
    ckks::{Ciphertext, Complex, Params, Spec, serial},
    rlwe::{Level, SecretDistribution, max_log2_qp},
};
use sudare_apps::{
    Error,
    logreg::{
        ClassWeights, Gradient, Job, LearningRate, Point, SigmoidApprox, SigmoidDegree, TrainPlan,
        TrainSpec, Trainer, Training, reference,
    },
    metrics,
    table::{Scaling, Table, TableError},
};
use sudare_arith::prng::Seed;

fn job(table: &Table, spec: TrainSpec) -> Job {
    Job { rows: table.rows(), features: table.features(), spec }
}

/// Given to every training that takes class weights.
const GIVEN: [f64; 2] = [1.0, 2.5];

fn given(spec: &TrainSpec) -> Option<[f64; 2]> {
    (spec.class_weights == Some(ClassWeights::Given)).then_some(GIVEN)
}

fn clear(table: &Table, spec: &TrainSpec) -> Vec<f64> {
    let rows = Scaling::max_abs(table).signed_rows(table).unwrap();
    reference::train(&rows, spec, given(spec)).unwrap()
}

fn clear_history(table: &Table, spec: &TrainSpec) -> Vec<Vec<f64>> {
    let rows = Scaling::max_abs(table).signed_rows(table).unwrap();
    reference::history(&rows, spec, given(spec)).unwrap()
}

fn planned(table: &Table, spec: TrainSpec) -> TrainPlan {
    let job = job(table, spec);
    TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap()
}

/// The weights by training on the simulator, with its evaluator and the model's headroom in bits.
fn simulate(plan: &TrainPlan, table: &Table) -> (Vec<f64>, sim::Evaluator, f64) {
    let e = plan.simulator();
    let (level, scale) = plan.input();
    let complex = |slots: Vec<f64>| -> Vec<_> {
        slots.into_iter().map(|re| Complex { re, im: 0.0 }).collect()
    };
    let packed = plan.pack(table, given(&plan.job().spec)).unwrap().map(complex);
    let data: Vec<_> = packed.map(|slots| e.encrypt(&slots, level, scale).unwrap()).collect();
    assert_eq!(data.len(), plan.ciphertexts());
    let trainer = plan.trainer(&e).unwrap();
    let mut training = trainer.start(&data[plan.batch(0)]).unwrap();
    let real = |c: &sim::Ciphertext| -> Vec<f64> { e.decrypt(c).iter().map(|z| z.re).collect() };
    let mut snapshots = vec![real(&plan.snapshot(&e, &training).unwrap())];
    while training.iteration < plan.job().spec.iterations {
        let most = training.iteration as usize % 4;
        step_in_shares(&trainer, plan, &data, &mut training, most);
        snapshots.push(real(&plan.snapshot(&e, &training).unwrap()));
    }
    let refused = trainer.step(&data[plan.batch(training.iteration)], &mut training);
    drop(trainer);
    assert_eq!(refused, Err(Error::Finished { iterations: plan.job().spec.iterations }));
    let model = plan.model(&training).unwrap();
    let weights = plan.decode(&real(&model));

    assert_eq!(snapshots.len(), plan.snapshots(training.iteration));
    let (history, expected) = (plan.history(&snapshots), clear_history(table, &plan.job().spec));
    assert_eq!((history.len(), history.last()), (expected.len(), Some(&weights)));
    for (found, expected) in history.iter().zip(&expected) {
        assert!(error(found, expected) < 2f64.powi(-10), "{found:?} {expected:?}");
    }
    (weights, e, model.headroom_bits)
}

struct Parties {
    plan: TrainPlan,
    session: Session,
}

impl core::ops::Deref for Parties {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Parties {
    fn new(job: &Job, params: &Params) -> Self {
        let plan = TrainPlan::new(job, params).unwrap();
        Self { session: Session::new(params.clone(), plan.required_keys()), plan }
    }

    fn encrypt(&self, table: &Table) -> Vec<Ciphertext> {
        self.try_encrypt(table).unwrap()
    }

    fn try_encrypt(&self, table: &Table) -> sudare_apps::Result<Vec<Ciphertext>> {
        self.plan.encrypt(&self.encryptor, table, given(&self.plan.job().spec), |_| ())
    }

    fn weights(&self, training: &Training) -> Vec<f64> {
        let plain = self.decryptor.decrypt(&self.plan.model(training).unwrap()).unwrap();
        self.plan.decode(&self.encoder.decode_real(&plain).unwrap())
    }

    fn start(&self, data: &[Ciphertext]) -> Training {
        let trainer = self.plan.trainer(&self.evaluator).unwrap();
        trainer.start(&data[self.plan.batch(0)]).unwrap()
    }

    fn step(&self, data: &[Ciphertext], training: &mut Training) {
        let batch = &data[self.plan.batch(training.iteration)];
        self.plan.trainer(&self.evaluator).unwrap().step(batch, training).unwrap();
    }

    fn finish(&self, data: &[Ciphertext], training: &mut Training) {
        let trainer = self.plan.trainer(&self.evaluator).unwrap();
        while training.iteration < self.plan.job().spec.iterations {
            let batch = &data[self.plan.batch(training.iteration)];
            trainer.step(batch, training).unwrap();
        }
    }
}

/// An iteration in at most so many shares, the last ones summed first.
fn step_in_shares<E: Ops>(
    trainer: &Trainer<'_, E>,
    plan: &TrainPlan,
    data: &[E::Ct],
    training: &mut Training<E::Ct>,
    most: usize,
) {
    trainer.refresh(training).unwrap();
    let point = training.point();
    let shares = plan.shares(point.iteration, most);
    let mut parts: Vec<_> = shares
        .iter()
        .map(|share| trainer.gradient(&point, share.clone(), &data[share.clone()]).unwrap())
        .collect();
    while parts.len() > 1 {
        let sum = trainer.sum(&parts.split_off(parts.len().saturating_sub(3))).unwrap();
        parts.insert(parts.len() / 2, sum);
    }
    trainer.update(parts.remove(0), training).unwrap();
}

/// All that there is of ciphertexts.
fn bits(plan: &TrainPlan, ciphertexts: &[Ciphertext]) -> Vec<u8> {
    let mut file = Vec::new();
    let label = serial::Label::default();
    serial::write_ciphertexts(&mut file, plan.params(), ciphertexts, &label).unwrap();
    file
}

/// The largest error, as a part of the largest weight.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(0.0, |most: f64, w| most.max(w.abs()));
    let errors = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    errors.fold(0.0, f64::max) / largest
}

fn scores(table: &Table, w: &[f64]) -> Vec<f64> {
    let rows = Scaling::max_abs(table).design_rows(table).unwrap();
    rows.iter().map(|x| x.iter().zip(w).map(|(x, w)| x * w).sum()).collect()
}

/// Small primes, for evaluations that need no security.
fn toy(levels: usize, bits: f64) -> Params {
    toy_in(9, levels, bits)
}

/// The same in any ring.
fn toy_in(log_n: u32, levels: usize, bits: f64) -> Params {
    let spec = Spec::uniform(log_n, bits + 12.0, levels, bits, vec![bits + 13.0]);
    Params::new(Spec { insecure: true, ..spec }).unwrap()
}

fn small_table() -> Table {
    let values = (0..36_u32).map(|i| f64::from(i * i % 13) - 4.0).collect();
    let labels = (0..12_u32).map(|i| i * i % 5 > 1).collect();
    let columns = ["a", "b", "c"].map(String::from).to_vec();
    Table::new(columns, values, Some(("y".into(), labels))).unwrap()
}

#[test]
fn plans_compute_the_twin_exactly() {
    for name in Table::BUNDLED {
        let table = Table::bundled(name).unwrap();
        for degree in [SigmoidDegree::Three, SigmoidDegree::Five, SigmoidDegree::Seven] {
            let sigmoid = SigmoidApprox { degree, ..SigmoidApprox::default() };
            let spec = TrainSpec { sigmoid, ..TrainSpec::default() };
            let plan = planned(&table, spec);
            let (w, e, headroom_bits) = simulate(&plan, &table);
            let found = error(&w, &clear(&table, &spec));
            assert!(found < 1e-9, "{name} {degree:?}: {found:e}");
            assert!(headroom_bits > 1.0, "{name} {degree:?}: {headroom_bits}");
            assert_eq!(e.used_keys(), *plan.required_keys());
        }
    }
}

#[test]
fn five_iterations_take_nine_levels_of_the_ring_of_dimension_2_14() {
    let limit = max_log2_qp(14, SecretDistribution::UniformTernary, 128.0);
    // Groups of rows and pieces of a row.
    for (name, groups, pieces) in [("lbw", 1_u32, 1_u32), ("uis", 1, 4)] {
        let table = Table::bundled(name).unwrap();
        let plan = planned(&table, TrainSpec::default());
        let params = plan.params();
        assert_eq!((params.log_n(), params.top()), (14, Level(9)));
        assert_eq!(plan.ciphertexts() as u32, groups * pieces);
        assert!(params.rlwe().log2_qp(params.top()) <= limit);
        assert!(params.rlwe().security_bits() >= 128.0);
        assert!(plan.required_keys().bytes(params.rlwe()).unwrap() < 300_000_000);
        // Products before relinearisation: two of each group, and three of each ciphertext, of
        // which those of a group are relinearised together.
        let (_, e, _) = simulate(&plan, &table);
        let counts = e.counts();
        assert_eq!(counts.products, u64::from(3 * (groups + 3 * groups * pieces)));
        // To sum a piece of each group; to sum all periods, which is all that the first two
        // iterations take; and to turn the pieces of the weights and the sums.
        let turns = pieces - 1;
        let rotations = 3 * ((5 - pieces.ilog2()) * groups + turns) + 4 * (8 + turns);
        assert_eq!(counts.automorphisms, u64::from(rotations));
    }
}

fn encrypted_training_equals_the_twin(name: &str) {
    let table = Table::bundled(name).unwrap();
    let spec = TrainSpec::default();
    let job = job(&table, spec);
    let parties = Parties::new(&job, &TrainPlan::auto_params(&job).unwrap());
    let data = parties.encrypt(&table);
    let mut training = parties.start(&data);
    assert_eq!(training.iteration, 2);
    parties.step(&data, &mut training);
    let paused = training.clone();
    parties.finish(&data, &mut training);
    let (w, expected) = (parties.weights(&training), clear(&table, &spec));
    let found = error(&w, &expected);
    assert!(found < 2f64.powi(-12), "2^{}", found.log2());

    let (scores, expected, labels) =
        (scores(&table, &w), scores(&table, &expected), table.labels().unwrap());
    let accuracy = |scores: &[f64]| metrics::accuracy(scores, &labels).unwrap();
    assert_eq!(accuracy(&scores), accuracy(&expected));
    // Scores nearer to each other than the error may change places.
    let auc = |scores: &[f64]| metrics::auc(scores, &labels).unwrap();
    assert!((auc(&scores) - auc(&expected)).abs() < 3e-4);

    let plan = &parties.plan;
    let mut resumed = plan.resume(paused.iteration, paused.state).unwrap();
    parties.finish(&data, &mut resumed);
    assert_eq!(parties.weights(&resumed), w);
}

#[test]
fn encrypted_training_on_lbw_equals_the_twin() {
    encrypted_training_equals_the_twin("lbw");
}

#[test]
fn encrypted_training_on_uis_equals_the_twin() {
    encrypted_training_equals_the_twin("uis");
}

/// Groups of rows in several ciphertexts, in batches of 7 and 6 rows that come again.
#[test]
fn encrypted_batches_equal_the_twin() {
    let mut table = Table::bundled("lbw").unwrap();
    table.shuffle(&Seed::from_bytes([7; 32]));
    let spec = TrainSpec {
        iterations: 6,
        learning_rate: LearningRate::Constant(1.0),
        batch: Some(70),
        ..TrainSpec::default()
    };
    let parties = Parties::new(&job(&table, spec), &toy(12, 40.0));
    let plan = &parties.plan;
    assert_eq!((plan.batches().count(), plan.batches().most_rows()), (3, 63));
    let per_batch = plan.batch(0).len();
    assert!(per_batch > 1);
    let batches = (0..6).map(|iteration| plan.batch(iteration).start / per_batch);
    assert_eq!(batches.collect::<Vec<_>>(), [0, 0, 1, 2, 0, 1]);
    let data = parties.encrypt(&table);
    assert_eq!(data.len(), 3 * per_batch);
    let mut training = parties.start(&data);
    while training.iteration < spec.iterations {
        let snapshot = plan.snapshot(&parties.evaluator, &training).unwrap();
        assert!(snapshot.level() <= Level(1), "{}", snapshot.level());
        let alone = Training { iteration: training.iteration, state: vec![snapshot] };
        assert!(error(&parties.weights(&alone), &parties.weights(&training)) < 1e-12);
        parties.step(&data, &mut training);
    }
    let expected = clear(&table, &spec);
    let found = error(&parties.weights(&training), &expected);
    assert!(found < 2f64.powi(-12), "2^{}", found.log2());
    // And they are not those of the whole table.
    let whole = clear(&table, &TrainSpec { batch: None, ..spec });
    assert!(error(&expected, &whole) > 2f64.powi(-8));
}

/// Rows of ten features in many groups.
fn tall_table() -> Table {
    let values = (0..6000_u32).map(|i| f64::from(i * i % 17) - 8.0).collect();
    let labels = (0..600_u32).map(|i| i * i % 7 > 2).collect();
    let columns = (0..10).map(|i| format!("x{i}")).collect();
    Table::new(columns, values, Some(("y".into(), labels))).unwrap()
}

#[test]
fn shares_of_a_batch_give_the_same_model_bit_for_bit() {
    let table = tall_table();
    for (batch, workers) in [(None, None), (Some(310), Some(7))] {
        let spec = TrainSpec { iterations: 4, batch, workers, ..TrainSpec::default() };
        let parties = Parties::new(&job(&table, spec), &toy_in(6, 7, 40.0));
        let plan = &parties.plan;
        let data = parties.encrypt(&table);
        let mut whole = parties.start(&data);
        parties.finish(&data, &mut whole);
        let trainer = plan.trainer(&parties.evaluator).unwrap();
        let all = plan.shares(0, usize::MAX).len();
        assert!(all >= workers.unwrap_or(3), "{all}");
        for most in [0, 2, 3, all] {
            let mut training = Training::new();
            while training.iteration < spec.iterations {
                step_in_shares(&trainer, plan, &data, &mut training, most);
            }
            assert!(bits(plan, &training.state) == bits(plan, &whole.state), "{most} shares");
        }
    }
}

#[test]
fn shares_cover_a_batch_evenly() {
    let table = tall_table();
    let spec = TrainSpec { iterations: 4, batch: Some(310), ..TrainSpec::default() };
    let plan = TrainPlan::new(&job(&table, spec), &toy_in(6, 6, 40.0)).unwrap();
    for iteration in [0, 2, 3] {
        let batch = plan.batch(iteration);
        let finest = plan.shares(iteration, usize::MAX);
        for most in 0..12 {
            let shares = plan.shares(iteration, most);
            assert_eq!(shares.len(), most.clamp(1, finest.len()));
            assert_eq!((shares[0].start, shares[shares.len() - 1].end), (batch.start, batch.end));
            assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(shares.iter().all(|share| finest.iter().any(|one| one.start == share.start)));
            let units = |share: &Range<usize>| {
                finest.iter().filter(|one| share.contains(&one.start)).count()
            };
            let (least, largest) = (shares.iter().map(units).min(), shares.iter().map(units).max());
            assert!(largest.zip(least).is_some_and(|(a, b)| b > 0 && a - b <= 1));
        }
    }
}

#[test]
fn batches_have_as_many_shares_as_workers() {
    let shares = |workers| {
        let spec = TrainSpec { iterations: 4, batch: Some(1024), workers, ..TrainSpec::default() };
        let job = Job { rows: 11_982, features: 196, spec };
        let plan = TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap();
        plan.shares(2, usize::MAX).len()
    };
    assert_eq!(shares(None), shares(Some(1)));
    for workers in [2, 4, 7, 16] {
        assert!(shares(Some(workers)) >= workers);
    }
}

#[test]
fn gradients_are_checked() {
    let table = tall_table();
    let spec = TrainSpec { iterations: 4, ..TrainSpec::default() };
    let parties = Parties::new(&job(&table, spec), &toy_in(6, 7, 40.0));
    let plan = &parties.plan;
    let data = parties.encrypt(&table);
    let trainer = plan.trainer(&parties.evaluator).unwrap();
    let mut training = trainer.start(&data).unwrap();
    let point = training.point();
    let shares = plan.shares(2, 3);
    let parts: Vec<Gradient> = shares
        .iter()
        .map(|share| trainer.gradient(&point, share.clone(), &data[share.clone()]).unwrap())
        .collect();
    let refused = |result: sudare_apps::Result<Gradient>| match result {
        Err(Error::NotAsPlanned { what, .. }) => what,
        other => panic!("{other:?}"),
    };

    let off = shares[1].start + 1..shares[1].end;
    let part = trainer.gradient(&point, off.clone(), &data[off]);
    assert_eq!(refused(part), "share of a batch");
    let empty = shares[1].start..shares[1].start;
    assert_eq!(refused(trainer.gradient(&point, empty, &[])), "share of a batch");
    let short = trainer.gradient(&point, shares[1].clone(), &data[1..shares[1].end]);
    assert_eq!(refused(short), "ciphertexts of the share");
    let nowhere = Point { iteration: 2, v: None };
    let part = trainer.gradient(&nowhere, shares[0].clone(), &data[shares[0].clone()]);
    assert_eq!(refused(part), "ciphertexts of the point of a gradient");
    let never = Point { iteration: 1, ..point.clone() };
    let part = trainer.gradient(&never, shares[0].clone(), &data[shares[0].clone()]);
    assert_eq!(refused(part), "iterations done");

    assert_eq!(refused(trainer.sum(&[])), "parts of a gradient");
    assert_eq!(refused(trainer.sum(&[parts[1].clone(), parts[1].clone()])), "shares of a gradient");
    let late = Gradient { iteration: 3, ..parts[0].clone() };
    let sum = trainer.sum(&[late.clone(), parts[1].clone()]);
    assert_eq!(refused(sum), "iterations done before a gradient");

    let whole = trainer.sum(&parts).unwrap();
    let mut update = |gradient: Gradient| {
        let before = bits(plan, &training.state);
        let done = trainer.update(gradient.clone(), &mut training);
        assert_eq!(training.iteration, 2);
        assert!(bits(plan, &training.state) == before);
        refused(done.map(|()| gradient))
    };
    assert_eq!(update(parts[0].clone()), "shares of a gradient");
    let two = trainer.sum(&[parts[2].clone(), parts[0].clone()]).unwrap();
    assert_eq!(two.shares, [shares[0].clone(), shares[2].clone()]);
    assert_eq!(update(two), "shares of a gradient");
    assert_eq!(update(late), "iterations done before a gradient");
    let sums = whole.sums[1..].to_vec();
    assert_eq!(update(Gradient { sums, ..whole.clone() }), "ciphertexts of a gradient");
    let scale = sudare::ckks::Scale::from_log2(20.0);
    let sums = whole.sums.iter().map(|sum| parties.evaluator.with_scale(sum, scale).unwrap());
    let coarse = Gradient { sums: sums.collect(), ..whole.clone() };
    assert_eq!(update(coarse), "scale of a gradient");
    trainer.update(whole, &mut training).unwrap();
    assert_eq!(training.iteration, 3);
}

#[test]
fn batches_that_are_not_looked_at_are_not_encrypted() {
    let table = Table::bundled("uis").unwrap();
    let spec = TrainSpec { iterations: 4, batch: Some(50), ..TrainSpec::default() };
    let plan = TrainPlan::new(&job(&table, spec), &toy(6, 40.0)).unwrap();
    assert_eq!(plan.batches().count(), 12);
    assert_eq!(plan.ciphertexts(), 3 * plan.batch(0).len());
    assert_eq!(plan.batch(3).end, plan.ciphertexts());
    let (w, ..) = simulate(&plan, &table);
    assert!(error(&w, &clear(&table, &spec)) < 1e-9);
}

/// All degrees, several ciphertexts, on a chain that was not made for the job.
/// Weights that others may see are precise to all digits that they are shown with, and are
/// refused where noise that hides their errors would reach these.
#[test]
fn weights_are_shared_to_the_bits_planned_for() {
    let table = Table::bundled("lbw").unwrap();
    let spec = TrainSpec { shared_bits: Some(10), ..TrainSpec::default() };
    let job = job(&table, spec);
    let params = TrainPlan::auto_params(&job).unwrap();
    assert!(params.rlwe().security_bits() >= 128.0);
    let p = Parties::new(&job, &params);
    let data = p.encrypt(&table);
    let mut training = p.start(&data);
    p.finish(&data, &mut training);
    let (found, expected) = (p.weights(&training), clear(&table, &spec));
    let largest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(largest < p.plan.largest_error() / 4.0, "{largest:e}");
    assert!(largest > p.plan.largest_error() / 1e4, "the bound says nothing: {largest:e}");

    let shared = p.plan.share(&found, 10).unwrap();
    for (shared, expected) in shared.iter().zip(&expected) {
        assert!((shared - expected).abs() <= (-10f64).exp2(), "{shared} for {expected}");
        assert_eq!((shared * 1024.0).fract(), 0.0);
    }
    let refused = p.plan.share(&found, 13).unwrap_err();
    let too_little =
        |error: &Error| matches!(error, Error::Engine(sudare::Error::TooLittlePrecision { .. }));
    assert!(too_little(&refused), "{refused}");
    let owners = planned(&table, TrainSpec::default());
    assert!(too_little(&owners.share(&found, 1).unwrap_err()));
    let owners = owners.params();
    let refused = TrainPlan::new(&job, owners).unwrap_err();
    assert!(matches!(refused, Error::Precision { what: "a weight to be shared", .. }), "{refused}");
    // Bootstrapping is not as precise.
    let long = Job { spec: TrainSpec { iterations: 300, ..spec }, ..job };
    assert!(matches!(TrainPlan::auto_params(&long), Err(Error::TooManyIterations { .. })));
    for bits in [0, 13] {
        let spec = TrainSpec { shared_bits: Some(bits), ..spec };
        let refused = TrainPlan::auto_params(&Job { spec, ..job }).unwrap_err();
        assert!(refused.to_string().contains("1 to 12"), "{refused}");
    }
}

#[test]
fn any_chain_of_enough_levels_serves() {
    let table = small_table();
    for degree in [SigmoidDegree::Three, SigmoidDegree::Five, SigmoidDegree::Seven] {
        let spec = TrainSpec {
            iterations: 4,
            learning_rate: LearningRate::Constant(1.0),
            sigmoid: SigmoidApprox { degree, range: 4.0 },
            l2: 0.2,
            ..TrainSpec::default()
        };
        let plan = TrainPlan::new(&job(&table, spec), &toy(9, 40.0)).unwrap();
        let (w, ..) = simulate(&plan, &table);
        assert!(error(&w, &clear(&table, &spec)) < 1e-9);
        let parties = Parties::new(&job(&table, spec), &toy(9, 40.0));
        let data = parties.encrypt(&table);
        let mut training = parties.start(&data);
        parties.finish(&data, &mut training);
        let found = error(&parties.weights(&training), &clear(&table, &spec));
        assert!(found < 2f64.powi(-12), "{degree:?}: 2^{}", found.log2());
    }
}

/// Weights with a penalty are others, and the intercept has none.
#[test]
fn a_penalty_takes_no_level() {
    let table = Table::bundled("lbw").unwrap();
    let plain = TrainSpec::default();
    let spec = TrainSpec { l2: 0.1, ..plain };
    let plan = planned(&table, spec);
    assert_eq!(plan.params().spec().q_bits, planned(&table, plain).params().spec().q_bits);
    let (w, e, _) = simulate(&plan, &table);
    assert!(error(&w, &clear(&table, &spec)) < 1e-9);
    assert_eq!(e.used_keys(), *plan.required_keys());
    assert!(error(&w, &clear(&table, &plain)) > 0.01);
    let heavy = TrainSpec { l2: 0.31, ..plain };
    let refused = TrainPlan::new(&job(&table, heavy), plan.params()).unwrap_err();
    assert!(refused.to_string().contains("from 0 to 0.3"), "{refused}");
}

#[test]
fn encrypted_training_with_class_weights_equals_the_twin() {
    let table = Table::bundled("lbw").unwrap();
    let plain = TrainSpec::default();
    let unweighted = clear(&table, &plain);
    for class_weights in [ClassWeights::Balanced, ClassWeights::Given].map(Some) {
        let spec = TrainSpec { class_weights, ..plain };
        let job = job(&table, spec);
        let parties = Parties::new(&job, &TrainPlan::auto_params(&job).unwrap());
        let data = parties.encrypt(&table);
        let mut training = parties.start(&data);
        parties.finish(&data, &mut training);
        let (w, expected) = (parties.weights(&training), clear(&table, &spec));
        let found = error(&w, &expected);
        assert!(found < 2f64.powi(-12), "{class_weights:?}: 2^{}", found.log2());
        assert!(error(&unweighted, &expected) > 0.1);
    }
}

/// They take no level, no larger primes and no further key; a second copy of the rows, and a bound
/// of errors for the heaviest rows.
#[test]
fn class_weights_take_a_second_copy_of_the_rows() {
    for (name, iterations, l2) in [("lbw", 5, 0.0), ("uis", 5, 0.1), ("uis", 30, 0.0)] {
        let table = Table::bundled(name).unwrap();
        let plain = TrainSpec { iterations, l2, batch: Some(150), ..TrainSpec::default() };
        let plain_plan = planned(&table, plain);
        for class_weights in [ClassWeights::Balanced, ClassWeights::Given].map(Some) {
            let spec = TrainSpec { class_weights, ..plain };
            let plan = planned(&table, spec);
            assert_eq!(plan.params().spec(), plain_plan.params().spec());
            assert_eq!(plan.required_keys(), plain_plan.required_keys());
            assert_eq!(plan.ciphertexts(), 2 * plain_plan.ciphertexts());
            let bound = plan.largest_error() / plain_plan.largest_error();
            let least = if plan.bootstraps(iterations) == 0 { 4.0 } else { 1.0 };
            assert!((least..=8.0).contains(&bound), "{bound}");
            let (w, e, headroom_bits) = simulate(&plan, &table);
            let most = if plan.bootstraps(iterations) == 0 { 1e-9 } else { 2f64.powi(-13) };
            let found = error(&w, &clear(&table, &spec));
            assert!(found < most, "{name}: {found:e}");
            assert!(headroom_bits > 1.0, "{name}: {headroom_bits}");
            assert_eq!(e.used_keys(), *plan.required_keys());
            let (work, plain_work) = (plan.work().unwrap(), plain_plan.work().unwrap());
            let rates = sudare::circuits::cost::Rates::reference(plan.params().log_n());
            let more = work.seconds(&rates) / plain_work.seconds(&rates);
            assert!((1.0..1.02).contains(&more), "{more}");
        }
    }
}

/// Weights that are the same for both classes change nothing but noise.
#[test]
fn equal_class_weights_give_the_same_model() {
    let table = Table::bundled("lbw").unwrap();
    let plain = TrainSpec { iterations: 4, ..TrainSpec::default() };
    let weights = |spec: TrainSpec, given| {
        let parties = Parties::new(&job(&table, spec), &toy_in(10, 7, 40.0));
        let data = parties.plan.encrypt(&parties.encryptor, &table, given, |_| ()).unwrap();
        let mut training = parties.start(&data);
        parties.finish(&data, &mut training);
        parties.weights(&training)
    };
    let expected = weights(plain, None);
    let spec = TrainSpec { class_weights: Some(ClassWeights::Given), ..plain };
    for given in [[1.0, 1.0], [7.0, 7.0]] {
        let found = error(&weights(spec, Some(given)), &expected);
        assert!(found < 2f64.powi(-12), "2^{}", found.log2());
    }
}

/// Rows in several ciphertexts, in batches whose last blocks are empty, on several machines.
#[test]
fn weighted_batches_in_shares_equal_the_twin() {
    let table = tall_table();
    let spec = TrainSpec {
        iterations: 4,
        batch: Some(310),
        workers: Some(4),
        class_weights: Some(ClassWeights::Balanced),
        learning_rate: LearningRate::Constant(1.0),
        ..TrainSpec::default()
    };
    let parties = Parties::new(&job(&table, spec), &toy_in(6, 7, 40.0));
    let plan = &parties.plan;
    let data = parties.encrypt(&table);
    assert_eq!(data.len(), plan.ciphertexts());
    let mut whole = parties.start(&data);
    parties.finish(&data, &mut whole);
    let found = error(&parties.weights(&whole), &clear(&table, &spec));
    assert!(found < 2f64.powi(-11), "2^{}", found.log2());
    let trainer = plan.trainer(&parties.evaluator).unwrap();
    for most in [2, 4] {
        let mut training = Training::new();
        while training.iteration < spec.iterations {
            step_in_shares(&trainer, plan, &data, &mut training, most);
        }
        assert!(bits(plan, &training.state) == bits(plan, &whole.state), "{most} shares");
    }
}

#[test]
fn class_weights_that_do_not_fit_are_refused() {
    let table = |ones: u32| {
        let values = (0..400_u32).map(|i| f64::from(i % 7) - 3.0).collect();
        let labels = (0..400).map(|i| i < ones).collect();
        Table::new(vec!["a".into()], values, Some(("y".into(), labels))).unwrap()
    };
    let spec = |class_weights| TrainSpec { class_weights, iterations: 3, ..TrainSpec::default() };
    let plan = |class_weights| {
        TrainPlan::new(&job(&table(2), spec(class_weights)), &toy(9, 40.0)).unwrap()
    };
    let simulated = |class_weights, ones, given| {
        plan(class_weights).simulate(&table(ones), given, |_| ()).map(|_| ())
    };
    let [balanced, own] = [ClassWeights::Balanced, ClassWeights::Given].map(Some);
    // The root of (200 + 200 / 398 n) / 2 at one row of 400 is 10, at two 7.1.
    assert_eq!(simulated(balanced, 2, None), Ok(()));
    let Err(Error::RowsTooHeavy { found, most }) = simulated(balanced, 1, None) else { panic!() };
    assert!((found - 10.0).abs() < 0.1 && most == 8.0, "{found} {most}");
    // One class alone counts: the root of 400 / 2, and of 400 / 10.
    let heavy = simulated(own, 2, Some([1e-9, 1.0]));
    assert!(matches!(heavy, Err(Error::RowsTooHeavy { .. })), "{heavy:?}");
    assert_eq!(simulated(own, 10, Some([1e-9, 1.0])), Ok(()));

    let train = |error| Err(Error::Train(error));
    assert_eq!(simulated(own, 10, None), train(reference::TrainError::NoClassWeights));
    for none in [balanced, None] {
        let refused = simulated(none, 10, Some([1.0, 2.0]));
        assert_eq!(refused, train(reference::TrainError::UnplannedClassWeights));
    }
    let bad = reference::TrainError::ClassWeight { found: -2.0 };
    assert_eq!(simulated(own, 10, Some([1.0, -2.0])), train(bad));

    // Ciphertexts of a training without weights are half of those that are needed.
    let (weighted, plain) = (plan(balanced), plan(None));
    let e = weighted.simulator();
    let (level, scale) = plain.input();
    let rows = plain.pack(&table(2), None).unwrap();
    let rows: Vec<_> = rows
        .map(|slots| {
            let slots: Vec<_> = slots.into_iter().map(|re| Complex { re, im: 0.0 }).collect();
            e.encrypt(&slots, level, scale).unwrap()
        })
        .collect();
    let refused = weighted.trainer(&e).unwrap().start(&rows).unwrap_err();
    assert!(matches!(refused, Error::NotAsPlanned { what: "ciphertexts of the batch", .. }));
}

/// Weights to be shared are as precise as without class weights, at larger primes.
#[test]
fn weighted_trainings_may_be_shared() {
    let class_weights = Some(ClassWeights::Balanced);
    let spec = TrainSpec { shared_bits: Some(10), class_weights, ..TrainSpec::default() };
    let table = Table::bundled("lbw").unwrap();
    let plan = planned(&table, spec);
    let plain = planned(&table, TrainSpec { class_weights: None, ..spec });
    assert!(plan.share(&[0.0; 10], 10).is_ok());
    assert!(plan.params().spec().log2_qp() > plain.params().spec().log2_qp());
}

#[test]
fn the_first_iterations_take_no_level() {
    let table = small_table();
    for (iterations, class_weights) in
        [(1, None), (2, None), (1, Some(ClassWeights::Balanced)), (2, Some(ClassWeights::Given))]
    {
        let spec = TrainSpec { iterations, class_weights, ..TrainSpec::default() };
        let parties = Parties::new(&job(&table, spec), &toy(0, 33.0));
        assert_eq!(parties.plan.required_keys().relinearize, None);
        let data = parties.encrypt(&table);
        let training = parties.start(&data);
        assert_eq!(training.iteration, iterations);
        let found = error(&parties.weights(&training), &clear(&table, &spec));
        assert!(found < 2f64.powi(-10), "2^{}", found.log2());
    }
}

#[test]
fn long_training_gets_a_larger_ring() {
    let table = small_table();
    let spec = |iterations| TrainSpec {
        iterations,
        learning_rate: LearningRate::Constant(0.5),
        ..TrainSpec::default()
    };
    let mut last = 0;
    for iterations in [1, 3, 5, 9, 16] {
        let plan = planned(&table, spec(iterations));
        assert!(plan.params().log_n() >= last);
        last = plan.params().log_n();
        let (w, ..) = simulate(&plan, &table);
        let most = if plan.bootstraps(iterations) == 0 { 1e-9 } else { 2f64.powi(-13) };
        assert!(error(&w, &clear(&table, &spec(iterations))) < most);
    }
    assert!(last > 14);
}

fn thirty() -> (Table, TrainSpec) {
    (Table::bundled("lbw").unwrap(), TrainSpec { iterations: 30, ..TrainSpec::default() })
}

/// The chain for the job in a ring of another dimension, of no security.
fn in_ring(job: &Job, log_n: u32) -> Params {
    let spec = TrainPlan::auto_params(job).unwrap().spec().clone();
    Params::new(Spec { log_n, insecure: true, ..spec }).unwrap()
}

#[test]
fn thirty_iterations_are_bootstrapped_in_a_ring_of_dimension_2_15() {
    for name in Table::BUNDLED {
        let (_, spec) = thirty();
        let table = Table::bundled(name).unwrap();
        let plan = planned(&table, spec);
        let params = plan.params();
        assert_eq!(params.log_n(), 15);
        assert!(params.rlwe().security_bits() >= 128.0);
        assert!(plan.required_keys().bytes(params.rlwe()).unwrap() < 1_000_000_000);
        let rounds = (plan.input().0.0 - 3) / 3;
        assert_eq!(plan.bootstraps(30), 28u32.div_ceil(rounds) - 1);
        assert_eq!((plan.bootstraps(2 + rounds), plan.bootstraps(3 + rounds)), (0, 1));

        let (w, e, headroom_bits) = simulate(&plan, &table);
        assert_eq!(e.counts().raisings, u64::from(plan.bootstraps(30)));
        assert_eq!(e.used_keys(), *plan.required_keys());
        // The sine's error of weights far below their bound.
        let found = error(&w, &clear(&table, &spec));
        assert!(found < 2f64.powi(-13), "{name}: 2^{}", found.log2());
        assert!(headroom_bits > 1.0, "{name}: {headroom_bits}");
    }
}

#[test]
fn any_number_of_iterations_can_be_bootstrapped() {
    let table = small_table();
    for (iterations, degree, rate) in [
        (31, SigmoidDegree::Five, LearningRate::default()),
        (40, SigmoidDegree::Seven, LearningRate::Constant(0.1)),
        (1000, SigmoidDegree::Three, LearningRate::default()),
    ] {
        let sigmoid = SigmoidApprox { degree, range: 12.0 };
        let spec = TrainSpec { iterations, learning_rate: rate, sigmoid, ..TrainSpec::default() };
        let plan = planned(&table, spec);
        assert!(plan.bootstraps(iterations) > 0);
        let (w, ..) = simulate(&plan, &table);
        let found = error(&w, &clear(&table, &spec));
        assert!(found < 2f64.powi(-12), "{iterations}: 2^{}", found.log2());
    }
}

#[test]
fn a_named_set_is_bootstrapped_with_the_levels_that_it_has() {
    let (table, spec) = thirty();
    let params = Params::new(bootstrap::preset("n16-boot").unwrap().preset.spec).unwrap();
    let plan = TrainPlan::new(&job(&table, spec), &params).unwrap();
    // Level 19 is the highest below the large primes; 2 levels lead to the next bootstrapping.
    assert_eq!((plan.input().0, plan.bootstraps(30)), (Level(19), 5));
    let (w, ..) = simulate(&plan, &table);
    assert!(error(&w, &clear(&table, &spec)) < 2f64.powi(-13));
}

#[test]
fn weights_without_room_are_refused() {
    let values = vec![-1.0, -0.9, 0.9, 1.0];
    let labels = vec![false, false, true, true];
    let table = Table::new(vec!["a".into()], values, Some(("y".into(), labels))).unwrap();
    let sigmoid = SigmoidApprox { range: 64.0, ..SigmoidApprox::default() };
    let learning_rate = LearningRate::Constant(15.0);
    let spec = TrainSpec { iterations: 5, learning_rate, sigmoid, ..TrainSpec::default() };
    let parties = Parties::new(&job(&table, spec), &toy(9, 40.0));
    let refused = parties.try_encrypt(&table).unwrap_err();
    let Error::WeightsTooLarge { found, most } = refused else { panic!("{refused}") };
    assert!(found > most && most == 16.0, "{found} {most}");
}

/// As in the ring that is proposed, for the same chain in a smaller one.
#[test]
fn bootstrapped_training_equals_the_twin() {
    let (table, spec) = thirty();
    bootstrapped_training_equals_the_twin_in(&table, spec, 11);
}

/// Weights of several pieces, in batches of rows that weigh by their class.
#[test]
fn bootstrapped_batches_equal_the_twin() {
    let (table, spec) = thirty();
    let class_weights = Some(ClassWeights::Given);
    let spec = TrainSpec { iterations: 24, batch: Some(100), l2: 0.01, class_weights, ..spec };
    bootstrapped_training_equals_the_twin_in(&table, spec, 10);
}

#[test]
#[ignore = "minutes at full ring size"]
fn bootstrapped_training_equals_the_twin_at_full_size() {
    let (table, spec) = thirty();
    bootstrapped_training_equals_the_twin_in(&table, spec, 15);
}

fn bootstrapped_training_equals_the_twin_in(table: &Table, spec: TrainSpec, log_n: u32) {
    let job = job(table, spec);
    let parties = Parties::new(&job, &in_ring(&job, log_n));
    let plan = &parties.plan;
    assert!(plan.bootstraps(spec.iterations) > 1);
    let data = parties.encrypt(table);
    let trainer = plan.trainer(&parties.evaluator).unwrap();
    let mut training = parties.start(&data);
    let mut paused = None;
    while training.iteration < spec.iterations {
        if training.iteration + 2 == spec.iterations {
            paused = Some(training.clone());
        }
        let mut in_shares = training.clone();
        step_in_shares(&trainer, plan, &data, &mut in_shares, 2);
        parties.step(&data, &mut training);
        assert!(bits(plan, &in_shares.state) == bits(plan, &training.state));
        let so_far = TrainSpec { iterations: training.iteration, ..spec };
        let weights = parties.weights(&training);
        let found = error(&weights, &clear(table, &so_far));
        assert!(found < 2f64.powi(-10), "{}: 2^{}", training.iteration, found.log2());
        // The same, from a small part of the modulus.
        let snapshot = plan.snapshot(&parties.evaluator, &training).unwrap();
        assert!(snapshot.level() <= Level(1), "{}", snapshot.level());
        let alone = Training { state: vec![snapshot], ..training };
        assert!(error(&parties.weights(&alone), &weights) < 1e-12);
    }
    let (w, expected) = (parties.weights(&training), clear(table, &spec));
    let (scores, expected) = (scores(table, &w), scores(table, &expected));
    let labels = table.labels().unwrap();
    let accuracy = |scores: &[f64]| metrics::accuracy(scores, &labels).unwrap();
    assert_eq!(accuracy(&scores), accuracy(&expected));
    let auc = |scores: &[f64]| metrics::auc(scores, &labels).unwrap();
    assert!((auc(&scores) - auc(&expected)).abs() < 3e-4);

    let paused = paused.unwrap();
    let mut resumed = plan.resume(paused.iteration, paused.state).unwrap();
    parties.finish(&data, &mut resumed);
    assert_eq!(parties.weights(&resumed), w);
}

#[test]
fn too_many_iterations_are_refused_with_what_fits() {
    let table = small_table();
    let job = |iterations| job(&table, TrainSpec { iterations, ..TrainSpec::default() });
    let refused = TrainPlan::new(&job(6), &toy(9, 40.0)).unwrap_err();
    assert_eq!(refused, Error::TooManyIterations { found: 6, needed: 12, log_n: 9, fit: 5 });
    assert!(refused.to_string().contains("5 iterations fit"), "{refused}");
    let (found, needed) = (u32::MAX, 3 * u64::from(u32::MAX - 2));
    let refused = TrainPlan::new(&job(found), &toy(9, 40.0)).unwrap_err();
    assert_eq!(refused, Error::TooManyIterations { found, needed, log_n: 9, fit: 5 });
    let refused = TrainPlan::auto_params(&job(found)).unwrap_err();
    assert_eq!(refused, Error::TooManyIterations { found, needed, log_n: 17, fit: 1000 });
}

#[test]
fn impossible_jobs_are_refused() {
    let good = Job { rows: 10, features: 3, spec: TrainSpec::default() };
    let refuse = |job: Job| TrainPlan::new(&job, &toy(9, 40.0)).unwrap_err();
    assert!(matches!(refuse(Job { rows: 0, ..good }), Error::Train(_)));
    assert!(matches!(refuse(Job { features: 0, ..good }), Error::Train(_)));
    let bad = TrainSpec { iterations: 0, ..good.spec };
    assert!(matches!(refuse(Job { spec: bad, ..good }), Error::Train(_)));
    for rate in [f64::MIN_POSITIVE, 5e-324, 1e308] {
        let learning_rate = LearningRate::Constant(rate);
        let job = Job { spec: TrainSpec { learning_rate, ..good.spec }, ..good };
        assert!(matches!(refuse(job), Error::Precision { .. }), "{rate:e}");
        let refused = TrainPlan::auto_params(&Job { rows: usize::MAX, ..job }).unwrap_err();
        assert!(matches!(refused, Error::TooManyIterations { .. }), "{refused}");
    }
    let wide = |features| Job { features, ..good };
    for found in [128, usize::MAX] {
        let refused = Error::TooManyFeatures { found, log_n: 9, fit: 127 };
        assert_eq!(refuse(wide(found)), refused);
    }
    assert!(TrainPlan::new(&wide(127), &toy(9, 40.0)).is_ok());
    let huge = TrainPlan::auto_params(&wide(usize::MAX)).unwrap_err();
    assert!(matches!(huge, Error::TooManyFeatures { log_n: 17, fit: 32767, .. }), "{huge}");
    let refused = TrainPlan::new(&good, &toy(9, 22.0)).unwrap_err();
    assert!(matches!(refused, Error::Precision { .. }), "{refused}");
}

#[test]
fn large_tables_can_be_planned() {
    for (rows, features) in [(422_108, 200), (1 << 30, 20), (usize::MAX, 3)] {
        let spec = TrainSpec { iterations: 4, ..TrainSpec::default() };
        let job = Job { rows, features, spec };
        let plan = TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap();
        assert!(plan.ciphertexts() > rows / plan.params().max_slots());
    }
}

#[test]
fn what_was_not_planned_is_refused() {
    let table = small_table();
    let spec = TrainSpec { iterations: 4, ..TrainSpec::default() };
    let parties = Parties::new(&job(&table, spec), &toy(7, 40.0));
    let (plan, ev) = (&parties.plan, &parties.evaluator);
    let other = Table::bundled("lbw").unwrap();
    assert_eq!(
        parties.try_encrypt(&other).unwrap_err(),
        Error::TableShape { rows: 189, features: 9, needed_rows: 12, needed_features: 3 }
    );
    let unlabelled = Table::new(table.columns().to_vec(), table.values().to_vec(), None).unwrap();
    let refused = parties.try_encrypt(&unlabelled).unwrap_err();
    assert_eq!(refused, Error::Table(TableError::NoTarget));

    let data = parties.encrypt(&table);
    let planned = |result: sudare_apps::Result<Training>| match result {
        Err(Error::NotAsPlanned { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let trainer = plan.trainer(ev).unwrap();
    assert_eq!(planned(trainer.start(&[])), "ciphertexts of the batch");
    let low = ev.drop_to(&data[0], Level(1)).unwrap();
    assert_eq!(planned(trainer.start(&[low])), "level of the encrypted table");
    let coarse = ev.with_scale(&data[0], sudare::ckks::Scale::from_log2(20.0)).unwrap();
    assert_eq!(planned(trainer.start(&[coarse])), "scale of the encrypted table");
    let elsewhere = Parties::new(&job(&table, spec), &toy(8, 40.0));
    let foreign = plan.trainer(&elsewhere.evaluator).and_then(|trainer| trainer.start(&data));
    assert_eq!(planned(foreign), "the evaluator's parameters");

    let training = trainer.start(&data).unwrap();
    let state = training.state.clone();
    assert_eq!(planned(plan.resume(1, state.clone())), "iterations done");
    assert_eq!(planned(plan.resume(5, state.clone())), "iterations done");
    let short = plan.resume(2, state[..1].to_vec());
    assert_eq!(planned(short), "ciphertexts of the training's state");
    let mut late = plan.resume(3, state.clone()).unwrap();
    let step = trainer.step(&data, &mut late).map(|()| late);
    assert_eq!(planned(step), "level of the training's state");
    let coarse = ev.with_scale(&state[1], sudare::ckks::Scale::from_log2(20.0)).unwrap();
    let mut coarse = plan.resume(2, vec![state[0].clone(), coarse]).unwrap();
    let step = trainer.step(&data, &mut coarse).map(|()| coarse);
    assert_eq!(planned(step), "scale of the training's state");
    let empty = Training::<Ciphertext> { iteration: 2, state: vec![] };
    assert!(matches!(plan.model(&empty), Err(Error::NotAsPlanned { .. })));
}

#[test]
fn progress_counts_ciphertexts() {
    let table = Table::bundled("lbw").unwrap();
    let spec = TrainSpec { iterations: 2, ..TrainSpec::default() };
    let parties = Parties::new(&job(&table, spec), &toy(0, 35.0));
    let calls = std::cell::RefCell::new(vec![]);
    let data =
        parties.plan.encrypt(&parties.encryptor, &table, None, |n| calls.borrow_mut().push(n));
    // 8 blocks of 32 slots in a ciphertext.
    assert_eq!(data.unwrap().len(), 24);
    assert_eq!(*calls.borrow(), (1..=24).collect::<Vec<_>>());
}

#[test]
fn jobs_survive_serialisation() {
    let job = Job { rows: 189, features: 9, spec: TrainSpec::default() };
    let text = serde_json::to_string(&job).unwrap();
    assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn plans_compute_the_twin_on_any_table(
        features in 1_usize..9,
        values in prop::collection::vec(-1.0..1.0_f64, 9..200),
        rate in 0.1..2.0_f64,
        iterations in 1_u32..6,
        degree in prop::sample::select(vec![3_u32, 5, 7]),
        batch in prop::option::of(1_usize..40),
        l2 in prop::option::of(0.0..0.5_f64),
        workers in prop::option::of(1_usize..9),
        class_weights in
            prop::sample::select(vec![None, Some(ClassWeights::Balanced), Some(ClassWeights::Given)]),
        log_n in 6_u32..13,
    ) {
        let rows = values.len() / features;
        let columns = (0..features).map(|i| format!("x{i}")).collect();
        let labels = values.iter().take(rows).map(|&x| x > 0.1).collect();
        let values = values[..rows * features].to_vec();
        let table = Table::new(columns, values, Some(("y".into(), labels))).unwrap();
        let spec = TrainSpec {
            iterations,
            learning_rate: LearningRate::Constant(rate),
            sigmoid: SigmoidApprox { degree: SigmoidDegree::try_from(degree).unwrap(), range: 6.0 },
            batch,
            l2: l2.unwrap_or(0.0),
            workers,
            class_weights,
            ..TrainSpec::default()
        };
        let plan = TrainPlan::new(&job(&table, spec), &toy_in(log_n, 12, 45.0)).unwrap();
        let (w, ..) = simulate(&plan, &table);
        prop_assert!(error(&w, &clear(&table, &spec)) < 1e-9);
    }
}
