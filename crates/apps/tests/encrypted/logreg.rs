//! Encrypted logistic regression against its reference implementation in the clear.

use crate::session::Session;
use core::ops::Range;
use proptest::prelude::*;
use sudare::{
    circuits::ckks::{ComplexOps, bootstrap, sim},
    ckks::{Ciphertext, Complex, Params, Spec, serial},
    rlwe::{Level, SecretDistribution, max_log2_qp},
};
use sudare_apps::{
    Error, TablePlan,
    logreg::{
        ClassWeights, Gradient, Job, LearningRate, Penalty, Point, Preparation, Prepared,
        SigmoidApprox, SigmoidDegree, TrainError, TrainPlan, TrainSpec, Trainer, Training,
        Transform, reference,
    },
};
use sudare_arith::prng::Seed;
use sudare_table::{Table, TableError, metrics};

fn job(table: &Table, spec: TrainSpec) -> Job {
    Job { rows: table.rows(), features: table.features(), spec }
}

/// Given to every training that takes class weights.
const GIVEN: [f64; 2] = [1.0, 2.5];

fn given(spec: &TrainSpec) -> Option<&'static [f64]> {
    (spec.class_weights == Some(ClassWeights::Given)).then_some(&GIVEN)
}

/// The table as a training of all its rows sees it.
fn prepared<'a>(table: &'a Table, spec: &TrainSpec) -> Prepared<'a> {
    Prepared::new(table, spec, table.rows(), given(spec)).unwrap()
}

/// The weights of all models, one after the other.
fn clear(table: &Table, spec: &TrainSpec) -> Vec<f64> {
    reference::train(&prepared(table, spec), spec).unwrap().concat()
}

fn planned(table: &Table, spec: TrainSpec) -> TrainPlan {
    let job = job(table, spec);
    TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap()
}

/// The weights of all models by training on the simulator, with its evaluator and the least
/// headroom of a model in bits.
fn simulate(plan: &TrainPlan, table: &Table) -> (Vec<f64>, sim::Evaluator, f64) {
    let e = plan.simulator();
    let spec = &plan.job().spec;
    let rows = plan.prepare(table, given(spec)).unwrap();
    let encrypted = plan.pack(&rows).map(|(slots, level, scale)| {
        let slots: Vec<_> = slots.into_iter().map(|re| Complex { re, im: 0.0 }).collect();
        e.encrypt(&slots, level, scale).unwrap()
    });
    let mut data: Vec<_> = encrypted.collect();
    assert_eq!(data.len(), plan.ciphertexts());
    let sums = data.split_off(plan.row_ciphertexts());
    let trainer = plan.trainer(&e, sums).unwrap();
    let mut training = trainer.start().unwrap();
    let real = |c: &sim::Ciphertext| -> Vec<f64> { e.decrypt(c).iter().map(|z| z.re).collect() };
    let snapshot = |training: &Training<sim::Ciphertext>| {
        let models = plan.snapshot(&e, training).unwrap();
        let shapes = models.iter().map(|model| (model.level, model.scale)).collect::<Vec<_>>();
        (models.iter().map(real).collect::<Vec<_>>(), shapes)
    };
    let (mut snapshots, mut levels) = snapshot(&training);
    while training.iteration < spec.iterations {
        let most = training.iteration as usize % 4;
        step_in_shares(&trainer, plan, &data, &mut training, most);
        let (slots, shapes) = snapshot(&training);
        snapshots.extend(slots);
        levels.extend(shapes);
    }
    let refused = trainer.step(&[], &mut training);
    drop(trainer);
    assert_eq!(refused, Err(Error::Finished { iterations: spec.iterations }));
    let models = plan.model(&training).unwrap();
    let weights: Vec<_> = models.iter().map(|model| plan.decode(&real(model))).collect();

    assert_eq!(snapshots.len(), plan.snapshots(training.iteration) * spec.models());
    let shapes = plan.snapshot_shapes(training.iteration).collect::<Vec<_>>();
    assert_eq!(shapes.len(), plan.snapshots(training.iteration));
    for (snapshot, (level, scale)) in levels.chunks(spec.models()).zip(shapes) {
        assert!(snapshot.iter().all(|found| found.0 == level && found.1.matches(scale)));
    }
    let history = plan.history(&snapshots).unwrap();
    let expected = reference::history(&rows, spec).unwrap();
    assert_eq!((history.len(), history.last()), (expected.len(), Some(&weights)));
    for (found, expected) in history.iter().zip(&expected) {
        let found = error(&found.concat(), &expected.concat());
        assert!(found < 2f64.powi(-10), "2^{}", found.log2());
    }
    let headroom = models.iter().map(|model| model.headroom_bits);
    (weights.concat(), e, headroom.fold(f64::INFINITY, f64::min))
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

    /// Of all models, one after the other.
    fn weights(&self, training: &Training) -> Vec<f64> {
        let decode = |model: &Ciphertext| {
            let plain = self.decryptor.decrypt(model).unwrap();
            self.plan.decode(&self.encoder.decode_real(&plain).unwrap())
        };
        self.plan.model(training).unwrap().iter().flat_map(decode).collect()
    }

    /// What trains on an encrypted table, and its rows.
    fn trainer<'a>(
        &'a self,
        data: &'a [Ciphertext],
    ) -> (Trainer<'a, sudare::ckks::Evaluator>, &'a [Ciphertext]) {
        let (rows, sums) = data.split_at(self.plan.row_ciphertexts());
        (self.plan.trainer(&self.evaluator, sums.to_vec()).unwrap(), rows)
    }

    fn start(&self, data: &[Ciphertext]) -> Training {
        self.trainer(data).0.start().unwrap()
    }

    fn step(&self, data: &[Ciphertext], training: &mut Training) {
        let (trainer, rows) = self.trainer(data);
        trainer.step(&rows[self.plan.batch(training.iteration)], training).unwrap();
    }

    fn finish(&self, data: &[Ciphertext], training: &mut Training) {
        let (trainer, rows) = self.trainer(data);
        while training.iteration < self.plan.job().spec.iterations {
            trainer.step(&rows[self.plan.batch(training.iteration)], training).unwrap();
        }
    }
}

/// An iteration in at most so many shares, the last ones summed first.
fn step_in_shares<E: ComplexOps>(
    trainer: &Trainer<'_, E>,
    plan: &TrainPlan,
    data: &[E::Ct],
    training: &mut Training<E::Ct>,
    most: usize,
) {
    trainer.refresh(training).unwrap();
    let point = trainer.point(training);
    let gradients = trainer.gradients();
    let shares = plan.shares(point.iteration, most);
    let mut parts: Vec<_> = shares
        .iter()
        .map(|share| gradients.part(&point, share.clone(), &data[share.clone()]).unwrap())
        .collect();
    while parts.len() > 1 {
        let sum = gradients.sum(&parts.split_off(parts.len().saturating_sub(3))).unwrap();
        parts.insert(parts.len() / 2, sum);
    }
    trainer.update(parts.remove(0), training).unwrap();
}

/// The weights so far are the same from a small part of the modulus.
fn assert_snapshot_is_small(parties: &Parties, training: &Training) {
    let plan = &parties.plan;
    let snapshot = plan.snapshot(&parties.evaluator, training).unwrap();
    assert!(snapshot.iter().all(|weights| weights.level() <= Level(1)));
    let decode = |weights: &Ciphertext| {
        let plain = parties.decryptor.decrypt(weights).unwrap();
        plan.decode(&parties.encoder.decode_real(&plain).unwrap())
    };
    let alone: Vec<f64> = snapshot.iter().flat_map(decode).collect();
    assert!(error(&alone, &parties.weights(training)) < 1e-12);
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

fn scores(table: &Table, spec: &TrainSpec, w: &[f64]) -> Vec<f64> {
    let rows = prepared(table, spec).transform().rows(table.values());
    rows.chunks_exact(w.len()).map(|x| x.iter().zip(w).map(|(x, w)| x * w).sum()).collect()
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
fn plans_compute_the_reference_exactly() {
    for name in Table::BUNDLED {
        let table = Table::bundled(name).unwrap();
        for degree in [SigmoidDegree::Three, SigmoidDegree::Five, SigmoidDegree::Seven] {
            let sigmoid = SigmoidApprox { degree, ..SigmoidApprox::published() };
            let spec = TrainSpec { sigmoid, ..TrainSpec::published() };
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
        let plan = planned(&table, TrainSpec::published());
        let params = plan.params();
        assert_eq!((params.log_n(), params.top()), (14, Level(9)));
        assert_eq!(plan.row_ciphertexts() as u32, groups * pieces);
        assert_eq!(plan.sum_ciphertexts(), 1);
        assert!(params.rlwe().log2_qp(params.top()) <= limit);
        assert!(params.rlwe().security_bits() >= 128.0);
        assert!(plan.required_keys().bytes(params.rlwe()).unwrap() < 300_000_000);
        // Products before relinearisation: two for each group, and three for each ciphertext.
        // Products of a group share one relinearisation.
        let (_, e, _) = simulate(&plan, &table);
        let counts = e.counts();
        assert_eq!(counts.products, u64::from(3 * (groups + 3 * groups * pieces)));
        // Rotations that sum a piece of each group, sum all periods, and align the pieces of
        // weights and sums.
        let turns = pieces - 1;
        let rotations = 3 * ((5 - pieces.ilog2()) * groups + 8 + 2 * turns);
        assert_eq!(counts.automorphisms, u64::from(rotations));
    }
}

fn encrypted_training_equals_the_reference(name: &str) {
    let table = Table::bundled(name).unwrap();
    let spec = TrainSpec::published();
    let job = job(&table, spec);
    let parties = Parties::new(&job, &TrainPlan::auto_params(&job).unwrap());
    let data = parties.encrypt(&table);
    let mut training = parties.start(&data);
    assert_eq!(training.iteration, 2);
    parties.step(&data, &mut training);
    let paused = training.clone();
    parties.finish(&data, &mut training);
    let w = parties.weights(&training);
    let expected = clear(&table, &spec);
    let found = error(&w, &expected);
    assert!(found < 2f64.powi(-12), "2^{}", found.log2());

    let (scores, expected, labels) =
        (scores(&table, &spec, &w), scores(&table, &spec, &expected), table.labels().unwrap());
    let accuracy = |scores: &[f64]| metrics::accuracy(scores, &labels).unwrap();
    assert_eq!(accuracy(&scores), accuracy(&expected));
    // Scores that differ by less than the error may change places.
    let auc = |scores: &[f64]| metrics::auc(scores, &labels).unwrap();
    assert!((auc(&scores) - auc(&expected)).abs() < 3e-4);

    let plan = &parties.plan;
    let mut resumed = plan.resume(paused.iteration, paused.state).unwrap();
    parties.finish(&data, &mut resumed);
    assert_eq!(parties.weights(&resumed), w);
}

#[test]
fn encrypted_training_on_lbw_equals_the_reference() {
    encrypted_training_equals_the_reference("lbw");
}

#[test]
fn encrypted_training_on_uis_equals_the_reference() {
    encrypted_training_equals_the_reference("uis");
}

/// Groups of rows in several ciphertexts, in batches of 7 and 6 rows that come again.
#[test]
fn encrypted_batches_equal_the_reference() {
    let mut table = Table::bundled("lbw").unwrap();
    table.shuffle(&Seed::from_bytes([7; 32]));
    let spec = TrainSpec {
        iterations: 6,
        learning_rate: LearningRate::Constant(1.0),
        batch: Some(70),
        ..TrainSpec::published()
    };
    let parties = Parties::new(&job(&table, spec), &toy(12, 40.0));
    let plan = &parties.plan;
    assert_eq!((plan.batches().count(), plan.batches().most_rows()), (3, 63));
    let per_batch = plan.batch(0).len();
    assert!(per_batch > 1);
    let batches = (0..6).map(|iteration| plan.batch(iteration).start / per_batch);
    assert_eq!(batches.collect::<Vec<_>>(), [0, 0, 1, 2, 0, 1]);
    let data = parties.encrypt(&table);
    // And the means of labels of each batch.
    assert_eq!(data.len(), 3 * per_batch + 3);
    let mut training = parties.start(&data);
    while training.iteration < spec.iterations {
        assert_snapshot_is_small(&parties, &training);
        parties.step(&data, &mut training);
    }
    let expected = clear(&table, &spec);
    let found = error(&parties.weights(&training), &expected);
    assert!(found < 2f64.powi(-12), "2^{}", found.log2());
    // They differ from the means of the whole table.
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
        let spec = TrainSpec { iterations: 4, batch, workers, ..TrainSpec::published() };
        let parties = Parties::new(&job(&table, spec), &toy_in(6, 7, 40.0));
        let plan = &parties.plan;
        let data = parties.encrypt(&table);
        let mut whole = parties.start(&data);
        parties.finish(&data, &mut whole);
        let (trainer, rows) = parties.trainer(&data);
        let all = plan.shares(2, usize::MAX).len();
        assert!(all >= workers.unwrap_or(3), "{all}");
        for most in [0, 2, 3, all] {
            let mut training = trainer.start().unwrap();
            while training.iteration < spec.iterations {
                step_in_shares(&trainer, plan, rows, &mut training, most);
            }
            assert!(bits(plan, &training.state) == bits(plan, &whole.state), "{most} shares");
        }
    }
}

#[test]
fn shares_cover_a_batch_evenly() {
    let table = tall_table();
    let spec = TrainSpec { iterations: 4, batch: Some(310), ..TrainSpec::published() };
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
            let least = shares.iter().map(units).min();
            let largest = shares.iter().map(units).max();
            assert!(largest.zip(least).is_some_and(|(a, b)| b > 0 && a - b <= 1));
        }
    }
}

#[test]
fn batches_have_as_many_shares_as_workers() {
    let shares = |workers| {
        let spec =
            TrainSpec { iterations: 4, batch: Some(1024), workers, ..TrainSpec::published() };
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
    let spec = TrainSpec { iterations: 4, ..TrainSpec::published() };
    let parties = Parties::new(&job(&table, spec), &toy_in(6, 7, 40.0));
    let plan = &parties.plan;
    let all = parties.encrypt(&table);
    let (trainer, data) = parties.trainer(&all);
    let mut training = trainer.start().unwrap();
    let point = trainer.point(&training);
    let gradients = trainer.gradients();
    let shares = plan.shares(2, 3);
    let parts: Vec<Gradient> = shares
        .iter()
        .map(|share| gradients.part(&point, share.clone(), &data[share.clone()]).unwrap())
        .collect();
    let refused = |result: sudare_apps::Result<Gradient>| match result {
        Err(Error::NotAsPlanned { what, .. }) => what,
        other => panic!("{other:?}"),
    };

    let off = shares[1].start + 1..shares[1].end;
    let part = gradients.part(&point, off.clone(), &data[off]);
    assert_eq!(refused(part), "share of a batch");
    let empty = shares[1].start..shares[1].start;
    assert_eq!(refused(gradients.part(&point, empty, &[])), "share of a batch");
    let short = gradients.part(&point, shares[1].clone(), &data[1..shares[1].end]);
    assert_eq!(refused(short), "ciphertexts of the share");
    let nowhere = Point { iteration: 2, v: Vec::new() };
    let part = gradients.part(&nowhere, shares[0].clone(), &data[shares[0].clone()]);
    assert_eq!(refused(part), "ciphertexts of the point of a gradient");
    let never = Point { iteration: 1, ..point.clone() };
    let part = gradients.part(&never, shares[0].clone(), &data[shares[0].clone()]);
    assert_eq!(refused(part), "iterations done");

    assert_eq!(refused(gradients.sum(&[])), "parts of a gradient");
    assert_eq!(
        refused(gradients.sum(&[parts[1].clone(), parts[1].clone()])),
        "shares of a gradient"
    );
    let late = Gradient { iteration: 3, ..parts[0].clone() };
    let sum = gradients.sum(&[late.clone(), parts[1].clone()]);
    assert_eq!(refused(sum), "iterations done before a gradient");

    let whole = gradients.sum(&parts).unwrap();
    let mut update = |gradient: Gradient| {
        let before = bits(plan, &training.state);
        let done = trainer.update(gradient.clone(), &mut training);
        assert_eq!(training.iteration, 2);
        assert!(bits(plan, &training.state) == before);
        refused(done.map(|()| gradient))
    };
    assert_eq!(update(parts[0].clone()), "shares of a gradient");
    let two = gradients.sum(&[parts[2].clone(), parts[0].clone()]).unwrap();
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
    let spec = TrainSpec { iterations: 4, batch: Some(50), ..TrainSpec::published() };
    let plan = TrainPlan::new(&job(&table, spec), &toy(6, 40.0)).unwrap();
    assert_eq!(plan.batches().count(), 12);
    assert_eq!(plan.row_ciphertexts(), 3 * plan.batch(0).len());
    assert_eq!(plan.batch(3).end, plan.row_ciphertexts());
    let (w, ..) = simulate(&plan, &table);
    assert!(error(&w, &clear(&table, &spec)) < 1e-9);
}

/// All degrees, several ciphertexts, on a chain that was not made for the job.
/// Weights that others may see are precise to all digits that they are shown with, and are
/// refused where noise that hides their errors would reach these.
#[test]
fn weights_are_shared_to_the_bits_planned_for() {
    let table = Table::bundled("lbw").unwrap();
    let spec = TrainSpec { shared_bits: Some(10), ..TrainSpec::published() };
    let job = job(&table, spec);
    let params = TrainPlan::auto_params(&job).unwrap();
    assert!(params.rlwe().security_bits() >= 128.0);
    let p = Parties::new(&job, &params);
    let data = p.encrypt(&table);
    let mut training = p.start(&data);
    p.finish(&data, &mut training);
    let found = p.weights(&training);
    let expected = clear(&table, &spec);
    let largest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(largest < p.plan.largest_error(), "{largest:e}");
    let nothing = p.plan.largest_error() / 2f64.powi(20);
    assert!(largest > nothing, "the bound says nothing: {largest:e}");

    let shared = p.plan.share(&found, 10, false, &Seed::from_bytes([3; 32])).unwrap();
    for (shared, expected) in shared.iter().zip(&expected) {
        assert!((shared - expected).abs() <= (-10f64).exp2(), "{shared} for {expected}");
        assert_eq!((shared * 1024.0).fract(), 0.0);
    }
    let refused = p.plan.share(&found, 13, false, &Seed::from_bytes([3; 32])).unwrap_err();
    let too_little =
        |error: &Error| matches!(error, Error::Library(sudare::Error::TooLittlePrecision { .. }));
    assert!(too_little(&refused), "{refused}");
    let owners = planned(&table, TrainSpec::published());
    assert!(too_little(&owners.share(&found, 1, true, &Seed::from_bytes([3; 32])).unwrap_err()));
    let owners = owners.params();
    let refused = TrainPlan::new(&job, owners).unwrap_err();
    assert!(matches!(refused, Error::Precision { what: "a weight to be shared", .. }), "{refused}");
    // Bootstrapping is less precise.
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
            sigmoid: SigmoidApprox { degree, range: 4.0, ..SigmoidApprox::published() },
            penalty: Penalty::Alpha(0.2),
            ..TrainSpec::published()
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

/// Weights with a penalty are others.
#[test]
fn a_penalty_takes_no_level() {
    let table = Table::bundled("lbw").unwrap();
    for plain in [TrainSpec::published(), TrainSpec::default()] {
        let plain = TrainSpec { penalty: Penalty::None, ..plain };
        let spec = TrainSpec { penalty: Penalty::Alpha(0.1), ..plain };
        let plan = planned(&table, spec);
        assert_eq!(plan.params().spec().q_bits, planned(&table, plain).params().spec().q_bits);
        let (w, e, _) = simulate(&plan, &table);
        assert!(error(&w, &clear(&table, &spec)) < 1e-9);
        assert_eq!(e.used_keys(), *plan.required_keys());
        assert!(error(&w, &clear(&table, &plain)) > 0.01);
    }
}

#[test]
fn encrypted_training_with_class_weights_equals_the_reference() {
    let table = Table::bundled("lbw").unwrap();
    let plain = TrainSpec::published();
    let unweighted = clear(&table, &plain);
    for class_weights in [ClassWeights::Balanced, ClassWeights::Given].map(Some) {
        let spec = TrainSpec { class_weights, ..plain };
        let job = job(&table, spec);
        let parties = Parties::new(&job, &TrainPlan::auto_params(&job).unwrap());
        let data = parties.encrypt(&table);
        let mut training = parties.start(&data);
        parties.finish(&data, &mut training);
        let w = parties.weights(&training);
        let expected = clear(&table, &spec);
        let found = error(&w, &expected);
        assert!(found < 2f64.powi(-12), "{class_weights:?}: 2^{}", found.log2());
        assert!(error(&unweighted, &expected) > 0.1);
    }
}

/// They take no level, no larger primes and no further key; a second copy of the rows, and a bound
/// of errors for the heaviest rows.
#[test]
fn class_weights_take_a_second_copy_of_the_rows() {
    let penalty = Penalty::Alpha(0.1);
    for (name, iterations, penalty) in
        [("lbw", 5, Penalty::None), ("uis", 5, penalty), ("uis", 30, Penalty::None)]
    {
        let table = Table::bundled(name).unwrap();
        let plain = TrainSpec { iterations, penalty, batch: Some(150), ..TrainSpec::published() };
        let plain_plan = planned(&table, plain);
        for class_weights in [ClassWeights::Balanced, ClassWeights::Given].map(Some) {
            let spec = TrainSpec { class_weights, ..plain };
            let plan = planned(&table, spec);
            assert_eq!(plan.params().spec(), plain_plan.params().spec());
            assert_eq!(plan.required_keys(), plain_plan.required_keys());
            assert_eq!(plan.row_ciphertexts(), 2 * plain_plan.row_ciphertexts());
            assert_eq!(plan.sum_ciphertexts(), plain_plan.sum_ciphertexts());
            let more = (plan.noise_log2() - plain_plan.noise_log2()).exp2();
            let least = if plan.bootstraps_within(iterations) == 0 { 4.0 } else { 1.0 };
            assert!((least..=8.0).contains(&more), "{more}");
            assert!(plan.largest_error() >= plain_plan.largest_error());
            let (w, e, headroom_bits) = simulate(&plan, &table);
            let most = if plan.bootstraps_within(iterations) == 0 { 1e-9 } else { 2f64.powi(-13) };
            let found = error(&w, &clear(&table, &spec));
            assert!(found < most, "{name}: {found:e}");
            assert!(headroom_bits > 1.0, "{name}: {headroom_bits}");
            assert_eq!(e.used_keys(), *plan.required_keys());
            let work = plan.work().unwrap();
            let plain_work = plain_plan.work().unwrap();
            let rates = sudare::circuits::ckks::cost::Rates::reference(plan.params().log_n());
            let more = work.seconds(&rates) / plain_work.seconds(&rates);
            assert!((1.0..1.02).contains(&more), "{more}");
        }
    }
}

/// Weights that are the same for both classes change nothing but noise.
#[test]
fn equal_class_weights_give_the_same_model() {
    let table = Table::bundled("lbw").unwrap();
    let plain = TrainSpec { iterations: 4, ..TrainSpec::published() };
    let weights = |spec: TrainSpec, given| {
        let parties = Parties::new(&job(&table, spec), &toy_in(10, 7, 40.0));
        let given: Option<[f64; 2]> = given;
        let given = given.as_ref().map(|given| &given[..]);
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
fn weighted_batches_in_shares_equal_the_reference() {
    let table = tall_table();
    let spec = TrainSpec {
        iterations: 4,
        batch: Some(310),
        workers: Some(4),
        class_weights: Some(ClassWeights::Balanced),
        learning_rate: LearningRate::Constant(1.0),
        ..TrainSpec::published()
    };
    let parties = Parties::new(&job(&table, spec), &toy_in(6, 7, 40.0));
    let plan = &parties.plan;
    let data = parties.encrypt(&table);
    assert_eq!(data.len(), plan.ciphertexts());
    let mut whole = parties.start(&data);
    parties.finish(&data, &mut whole);
    let found = error(&parties.weights(&whole), &clear(&table, &spec));
    assert!(found < 2f64.powi(-11), "2^{}", found.log2());
    let (trainer, rows) = parties.trainer(&data);
    for most in [2, 4] {
        let mut training = trainer.start().unwrap();
        while training.iteration < spec.iterations {
            step_in_shares(&trainer, plan, rows, &mut training, most);
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
    let spec = |class_weights| TrainSpec { class_weights, iterations: 3, ..TrainSpec::published() };
    let plan = |class_weights| {
        TrainPlan::new(&job(&table(2), spec(class_weights)), &toy(9, 40.0)).unwrap()
    };
    let simulated = |class_weights, ones, given| {
        let plan = plan(class_weights);
        let table = table(ones);
        let given: Option<[f64; 2]> = given;
        let rows = plan.prepare(&table, given.as_ref().map(|given| &given[..]))?;
        plan.simulate(&rows, |_| ()).map(|_| ())
    };
    let [balanced, own] = [ClassWeights::Balanced, ClassWeights::Given].map(Some);
    // The root mean square, sqrt((200 + 200 / 398 n) / 2), is 10 for one row of 400, and 7.1 for
    // two.
    assert_eq!(simulated(balanced, 2, None), Ok(()));
    let Err(Error::RowsTooHeavy { found, most }) = simulated(balanced, 1, None) else { panic!() };
    assert!((found - 10.0).abs() < 0.1 && most == 8.0, "{found} {most}");
    // One class alone counts: sqrt(400 / 2), and sqrt(400 / 10).
    let heavy = simulated(own, 2, Some([1e-9, 1.0]));
    assert!(matches!(heavy, Err(Error::RowsTooHeavy { .. })), "{heavy:?}");
    assert_eq!(simulated(own, 10, Some([1e-9, 1.0])), Ok(()));

    let train = |error| Err(Error::Train(error));
    assert_eq!(simulated(own, 10, None), train(TrainError::NoClassWeights));
    for none in [balanced, None] {
        let refused = simulated(none, 10, Some([1.0, 2.0]));
        assert_eq!(refused, train(TrainError::UnplannedClassWeights));
    }
    let bad = TrainError::ClassWeight { found: -2.0 };
    assert_eq!(simulated(own, 10, Some([1.0, -2.0])), train(bad));

    // A training without weights has half the required ciphertexts.
    let weighted = plan(balanced);
    let plain = plan(None);
    assert_eq!(weighted.groups_of(plain.ciphertexts()), Ok(weighted.groups() / 2));
    let refused = weighted.groups_of(weighted.ciphertexts() - 1).unwrap_err();
    assert!(matches!(refused, Error::NotAsPlanned { what: "ciphertexts of the table", .. }));
}

/// Weights to be shared are as precise as without class weights: those of rows are 1 in the mean.
#[test]
fn weighted_trainings_may_be_shared() {
    let class_weights = Some(ClassWeights::Balanced);
    let spec = TrainSpec { shared_bits: Some(10), class_weights, ..TrainSpec::published() };
    let table = Table::bundled("lbw").unwrap();
    let plan = planned(&table, spec);
    let plain = planned(&table, TrainSpec { class_weights: None, ..spec });
    assert!(plan.share(&[0.0; 10], 10, false, &Seed::from_bytes([3; 32])).is_ok());
    assert!(plan.params().spec().log2_qp() >= plain.params().spec().log2_qp());
}

#[test]
fn the_first_iterations_take_no_level() {
    let table = small_table();
    for (iterations, class_weights) in
        [(1, None), (2, None), (1, Some(ClassWeights::Balanced)), (2, Some(ClassWeights::Given))]
    {
        let spec = TrainSpec { iterations, class_weights, ..TrainSpec::published() };
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
        ..TrainSpec::published()
    };
    let mut last = 0;
    for iterations in [1, 3, 5, 9, 16] {
        let plan = planned(&table, spec(iterations));
        assert!(plan.params().log_n() >= last);
        last = plan.params().log_n();
        let (w, ..) = simulate(&plan, &table);
        let most = if plan.bootstraps_within(iterations) == 0 { 1e-9 } else { 2f64.powi(-13) };
        assert!(error(&w, &clear(&table, &spec(iterations))) < most);
    }
    assert!(last > 14);
}

fn thirty() -> (Table, TrainSpec) {
    (Table::bundled("lbw").unwrap(), TrainSpec { iterations: 30, ..TrainSpec::published() })
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
        let rounds = (plan.input(0).0.0 - 2) / 3;
        assert_eq!(plan.bootstraps_within(30), 28u32.div_ceil(rounds) - 1);
        assert_eq!(
            (plan.bootstraps_within(2 + rounds), plan.bootstraps_within(3 + rounds)),
            (0, 1)
        );

        let (w, e, headroom_bits) = simulate(&plan, &table);
        assert_eq!(e.counts().raisings, u64::from(plan.bootstraps_within(30)));
        assert_eq!(e.used_keys(), *plan.required_keys());
        // The sine's error for weights far below their bound.
        let found = error(&w, &clear(&table, &spec));
        assert!(found < 2f64.powi(-13), "{name}: 2^{}", found.log2());
        assert!(headroom_bits > 1.0, "{name}: {headroom_bits}");
    }
}

#[test]
fn any_number_of_iterations_can_be_bootstrapped() {
    let table = small_table();
    for (iterations, degree, rate) in [
        (31, SigmoidDegree::Five, LearningRate::Decaying { initial: 10.0 }),
        (40, SigmoidDegree::Seven, LearningRate::Constant(0.1)),
        (1000, SigmoidDegree::Three, LearningRate::Decaying { initial: 10.0 }),
    ] {
        let sigmoid = SigmoidApprox { degree, range: 12.0, ..SigmoidApprox::published() };
        let spec = TrainSpec { iterations, learning_rate: rate, sigmoid, ..TrainSpec::published() };
        let plan = planned(&table, spec);
        assert!(plan.bootstraps_within(iterations) > 0);
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
    // Level 18 is two below the large primes; 2 levels lead to the next bootstrapping.
    assert_eq!((plan.input(0).0, plan.bootstraps_within(30)), (Level(18), 5));
    let (w, ..) = simulate(&plan, &table);
    assert!(error(&w, &clear(&table, &spec)) < 2f64.powi(-13));
}

#[test]
fn weights_without_room_are_refused() {
    let values = vec![-1.0, -0.9, 0.9, 1.0];
    let labels = vec![false, false, true, true];
    let table = Table::new(vec!["a".into()], values, Some(("y".into(), labels))).unwrap();
    let sigmoid = SigmoidApprox { range: 64.0, ..SigmoidApprox::published() };
    let learning_rate = LearningRate::Constant(15.0);
    let spec = TrainSpec { iterations: 5, learning_rate, sigmoid, ..TrainSpec::published() };
    let parties = Parties::new(&job(&table, spec), &toy(9, 40.0));
    let refused = parties.try_encrypt(&table).unwrap_err();
    let Error::WeightsTooLarge { found, most } = refused else { panic!("{refused}") };
    assert!(found > most && most == 16.0, "{found} {most}");
}

/// As in the ring that is proposed, for the same chain in a smaller one.
#[test]
fn bootstrapped_training_equals_the_reference() {
    let (table, spec) = thirty();
    bootstrapped_training_equals_the_reference_in(&table, spec, 11);
}

/// Weights of several pieces, in batches of rows that weigh by their class.
#[test]
fn bootstrapped_batches_equal_the_reference() {
    let (table, spec) = thirty();
    let class_weights = Some(ClassWeights::Given);
    let spec = TrainSpec {
        iterations: 24,
        batch: Some(100),
        penalty: Penalty::Alpha(0.01),
        class_weights,
        ..spec
    };
    bootstrapped_training_equals_the_reference_in(&table, spec, 10);
}

#[test]
#[ignore = "minutes at full ring size"]
fn bootstrapped_training_equals_the_reference_at_full_size() {
    let (table, spec) = thirty();
    bootstrapped_training_equals_the_reference_in(&table, spec, 15);
}

fn bootstrapped_training_equals_the_reference_in(table: &Table, spec: TrainSpec, log_n: u32) {
    let job = job(table, spec);
    let parties = Parties::new(&job, &in_ring(&job, log_n));
    let plan = &parties.plan;
    assert!(plan.bootstraps_within(spec.iterations) > 1);
    let data = parties.encrypt(table);
    let (trainer, rows) = parties.trainer(&data);
    let mut training = parties.start(&data);
    let mut paused = None;
    while training.iteration < spec.iterations {
        if training.iteration + 2 == spec.iterations {
            paused = Some(training.clone());
        }
        let mut in_shares = training.clone();
        step_in_shares(&trainer, plan, rows, &mut in_shares, 2);
        parties.step(&data, &mut training);
        assert!(bits(plan, &in_shares.state) == bits(plan, &training.state));
        let so_far = TrainSpec { iterations: training.iteration, ..spec };
        let weights = parties.weights(&training);
        let found = error(&weights, &clear(table, &so_far));
        assert!(found < 2f64.powi(-10), "{}: 2^{}", training.iteration, found.log2());
        assert_snapshot_is_small(&parties, &training);
    }
    let w = parties.weights(&training);
    let expected = clear(table, &spec);
    let (scores, expected) = (scores(table, &spec, &w), scores(table, &spec, &expected));
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
    let job = |iterations| job(&table, TrainSpec { iterations, ..TrainSpec::published() });
    let refused = TrainPlan::new(&job(6), &toy(9, 40.0)).unwrap_err();
    assert_eq!(refused, Error::TooManyIterations { found: 6, needed: 12, log_n: 9, fit: 5 });
    assert!(refused.to_string().contains("5 iterations fit"), "{refused}");
    let found = u32::MAX;
    let needed = 3 * u64::from(u32::MAX - 2);
    let refused = TrainPlan::new(&job(found), &toy(9, 40.0)).unwrap_err();
    assert_eq!(refused, Error::TooManyIterations { found, needed, log_n: 9, fit: 5 });
    let refused = TrainPlan::auto_params(&job(found)).unwrap_err();
    assert_eq!(refused, Error::TooManyIterations { found, needed, log_n: 17, fit: 1000 });
}

#[test]
fn impossible_jobs_are_refused() {
    let good = Job { rows: 10, features: 3, spec: TrainSpec::published() };
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
        let spec = TrainSpec { iterations: 4, ..TrainSpec::published() };
        let job = Job { rows, features, spec };
        let plan = TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap();
        assert!(plan.ciphertexts() > rows / plan.params().max_slots());
    }
}

#[test]
fn what_was_not_planned_is_refused() {
    let table = small_table();
    let spec = TrainSpec { iterations: 4, ..TrainSpec::published() };
    let parties = Parties::new(&job(&table, spec), &toy(7, 40.0));
    let plan = &parties.plan;
    let ev = &parties.evaluator;
    let other = Table::bundled("lbw").unwrap();
    assert_eq!(
        parties.try_encrypt(&other).unwrap_err(),
        Error::TableShape { rows: 189, features: 9, needed_rows: 12, needed_features: 3 }
    );
    let unlabelled = Table::new(table.columns().to_vec(), table.values().to_vec(), None).unwrap();
    let refused = parties.try_encrypt(&unlabelled).unwrap_err();
    assert_eq!(refused, Error::Table(TableError::NoTarget));

    let all = parties.encrypt(&table);
    let planned = |result: sudare_apps::Result<Training>| match result {
        Err(Error::NotAsPlanned { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let (trainer, data) = parties.trainer(&all);
    let training = trainer.start().unwrap();
    let step = |rows: &[Ciphertext]| {
        let mut training = training.clone();
        trainer.step(rows, &mut training).map(|()| training)
    };
    assert_eq!(planned(step(&[])), "ciphertexts of the batch");
    let low = ev.drop_to(&data[0], Level(1)).unwrap();
    assert_eq!(planned(step(&[low])), "level of the encrypted table");
    let coarse = ev.with_scale(&data[0], sudare::ckks::Scale::from_log2(20.0)).unwrap();
    assert_eq!(planned(step(&[coarse])), "scale of the encrypted table");
    let elsewhere = Parties::new(&job(&table, spec), &toy(8, 40.0));
    let sums = || all[data.len()..].to_vec();
    let foreign = |sums| plan.trainer(&elsewhere.evaluator, sums).and_then(|t| t.start());
    assert_eq!(planned(foreign(sums())), "the evaluator's parameters");
    let with = |sums| plan.trainer(ev, sums).and_then(|trainer| trainer.start());
    assert_eq!(planned(with(vec![])), "ciphertexts of sums");
    assert_eq!(planned(with(data.to_vec())), "scale of encrypted sums");
    let low = ev.drop_to(&sums()[0], Level(1)).unwrap();
    assert_eq!(planned(with(vec![low])), "level of encrypted sums");

    let state = training.state.clone();
    assert_eq!(planned(plan.resume(1, state.clone())), "iterations done");
    assert_eq!(planned(plan.resume(5, state.clone())), "iterations done");
    let short = plan.resume(2, state[..1].to_vec());
    assert_eq!(planned(short), "ciphertexts of the training's state");
    let mut late = plan.resume(3, state.clone()).unwrap();
    let step = trainer.step(data, &mut late).map(|()| late);
    assert_eq!(planned(step), "level of the training's state");
    let coarse = ev.with_scale(&state[1], sudare::ckks::Scale::from_log2(20.0)).unwrap();
    let mut coarse = plan.resume(2, vec![state[0].clone(), coarse]).unwrap();
    let step = trainer.step(data, &mut coarse).map(|()| coarse);
    assert_eq!(planned(step), "scale of the training's state");
    let empty = Training::<Ciphertext> { iteration: 2, state: vec![] };
    assert!(matches!(plan.model(&empty), Err(Error::NotAsPlanned { .. })));
}

#[test]
fn progress_counts_ciphertexts() {
    let table = Table::bundled("lbw").unwrap();
    let spec = TrainSpec { iterations: 2, ..TrainSpec::published() };
    let parties = Parties::new(&job(&table, spec), &toy(0, 35.0));
    let calls = std::cell::RefCell::new(vec![]);
    let data =
        parties.plan.encrypt(&parties.encryptor, &table, None, |n| calls.borrow_mut().push(n));
    // Iterations that use only means of labels.
    assert_eq!(data.unwrap().len(), 1);
    assert_eq!(*calls.borrow(), [1]);
    calls.borrow_mut().clear();
    let spec = TrainSpec { iterations: 3, ..spec };
    let parties = Parties::new(&job(&table, spec), &toy(4, 35.0));
    let data =
        parties.plan.encrypt(&parties.encryptor, &table, None, |n| calls.borrow_mut().push(n));
    // 8 blocks of 32 slots in a ciphertext, and means of labels.
    assert_eq!(data.unwrap().len(), 25);
    assert_eq!(*calls.borrow(), (1..=25).collect::<Vec<_>>());
}

#[test]
fn jobs_survive_serialisation() {
    let job = Job { rows: 189, features: 9, spec: TrainSpec::published() };
    let text = serde_json::to_string(&job).unwrap();
    assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
}

/// Three columns that say something, one that is the sum of two, one that is constant, and one in
/// another unit; labels of so many classes.
fn mixed_table(rows: usize, classes: u32, seed: u64) -> Table {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    let mut values = Vec::new();
    let mut members = Vec::new();
    for _ in 0..rows {
        let x = [next(), next() + 3.0, 1e6 * next()];
        values.extend([x[0], x[1], x[0] + x[1], 7.0, x[2]]);
        let score = 2.0 * x[0] - (x[1] - 3.0) + 1e-6 * x[2] + next();
        members.push(((score + 1.5) / 3.0 * f64::from(classes)).clamp(0.0, 1e9) as u32);
    }
    let members: Vec<u32> = members.iter().map(|&member| member.min(classes - 1)).collect();
    let columns = ["a", "b", "a+b", "seven", "unit"].map(String::from).to_vec();
    let names = (0..classes).map(|class| format!("class {class}")).collect();
    Table::with_classes(columns, values, ("y".into(), names, members)).unwrap()
}

/// Of tables whose rows are prepared, with one model and with three.
#[test]
fn prepared_training_equals_the_reference() {
    let lbw = Table::bundled("lbw").unwrap();
    let three = mixed_table(300, 3, 5);
    for (preparation, table, classes) in [
        (Preparation::Whiten, &lbw, 2),
        (Preparation::Whiten, &three, 3),
        (Preparation::Standardize, &three, 3),
    ] {
        let spec = TrainSpec { iterations: 4, preparation, classes, ..TrainSpec::default() };
        let job = job(table, spec);
        let parties = Parties::new(&job, &TrainPlan::auto_params(&job).unwrap());
        let data = parties.encrypt(table);
        let mut training = parties.start(&data);
        assert_eq!(training.iteration, 1);
        parties.finish(&data, &mut training);
        let found = parties.weights(&training);
        let expected = clear(table, &spec);
        assert_eq!(found.len(), spec.models() * (1 + table.features()));
        let largest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(largest < parties.plan.largest_error(), "{preparation:?}: {largest:e}");
        assert!(error(&found, &expected) < 2f64.powi(-12), "{preparation:?}");
    }
}

/// Rows that are multiplied after the polynomial take a level more and no key switch each.
#[test]
fn many_rows_are_multiplied_after_the_polynomial() {
    let few = Table::bundled("lbw").unwrap();
    let many = mixed_table(20_000, 2, 1);
    for (table, levels) in [(&few, 4_u32), (&many, 5)] {
        for degree in [SigmoidDegree::Five, SigmoidDegree::Seven] {
            let sigmoid = SigmoidApprox { degree, ..SigmoidApprox::default() };
            let spec = TrainSpec { iterations: 3, sigmoid, ..TrainSpec::default() };
            let params = toy_in(10, 2 * levels as usize, 45.0);
            let plan = TrainPlan::new(&job(table, spec), &params).unwrap();
            assert_eq!(plan.input(0).0, Level(2 * levels), "{degree:?}");
            let (w, e, headroom_bits) = simulate(&plan, table);
            assert!(error(&w, &clear(table, &spec)) < 1e-9, "{degree:?}");
            assert!(headroom_bits > 1.0);
            assert_eq!(e.used_keys(), *plan.required_keys());
            if levels == 5 {
                // In each of two passes: two for each ciphertext of rows, and the powers of each
                // group.
                let powers = if degree == SigmoidDegree::Five { 3 } else { 4 };
                let products = 2 * (2 * plan.batch(1).len() + powers * plan.groups());
                assert_eq!(e.counts().products, 2 + products as u64, "{degree:?}");
            }
        }
    }
}

/// A plan for more rows serves: the same ciphertexts, the same model.
#[test]
fn fewer_rows_than_planned_are_trained_on_alike() {
    let table = Table::bundled("lbw").unwrap();
    for spec in [TrainSpec::default(), TrainSpec { iterations: 4, ..TrainSpec::published() }] {
        let job = Job { rows: 300, ..job(&table, spec) };
        let parties = Parties::new(&job, &toy_in(10, 16, 45.0));
        let data = parties.encrypt(&table);
        assert_eq!(data.len(), parties.plan.ciphertexts());
        let mut training = parties.start(&data);
        parties.finish(&data, &mut training);
        let rows = parties.plan.prepare(&table, None).unwrap();
        let found = rows.transform().of_columns(&parties.weights(&training));
        let own = prepared(&table, &spec);
        let expected = own.transform().of_columns(&clear(&table, &spec));
        assert!(error(&found, &expected) < 2f64.powi(-11));
        let more = Table::bundled("uis").unwrap();
        let refused = parties.try_encrypt(&more).unwrap_err();
        assert!(matches!(refused, Error::TableShape { rows: 575, needed_rows: 300, .. }));
    }
}

/// Some rows of a table.
fn taken(table: &Table, rows: &[usize]) -> Table {
    let columns = table.features();
    let values = rows.iter().flat_map(|&i| table.values()[i * columns..][..columns].to_vec());
    let members = rows.iter().map(|&i| table.members().unwrap()[i]).collect();
    let classes = table.classes().unwrap().to_vec();
    let target = ("y".into(), classes, members);
    Table::with_classes(table.columns().to_vec(), values.collect(), target).unwrap()
}

/// Rows of three owners, prepared by what they have in common, trained on together.
#[test]
fn tables_of_several_owners_are_trained_on_as_one() {
    for (batch, classes) in [(None, 3), (Some(40), 2)] {
        let whole = mixed_table(150, classes, 9);
        let spec = TrainSpec { batch, classes, tables: 3, ..TrainSpec::default() };
        let job = Job { rows: 400, ..job(&whole, spec) };
        let parties = Parties::new(&job, &toy_in(9, 20, 45.0));
        let plan = &parties.plan;
        let all = plan.prepare(&whole, None).unwrap();
        let part = |rows: Range<usize>| taken(&whole, &rows.collect::<Vec<_>>());
        let mut rows = Vec::new();
        let mut sums = Vec::new();
        let mut groups = Vec::new();
        for table in [part(0..20), part(20..90), part(90..150)] {
            let weights = all.row_weights().to_vec();
            let own = plan.prepare_with(&table, weights, all.transform().clone()).unwrap();
            groups.push(plan.groups_for(table.rows()));
            let plan = plan.for_groups(*groups.last().unwrap()).unwrap();
            let mut data: Vec<_> = plan
                .encryptions(&parties.encryptor, &own)
                .collect::<sudare_apps::Result<_>>()
                .unwrap();
            assert_eq!(parties.plan.groups_of(data.len()), Ok(plan.groups()));
            sums.push(data.split_off(plan.row_ciphertexts()));
            rows.push(data);
        }
        let together = plan.for_groups(groups.iter().sum()).unwrap();
        assert!(together.groups() <= plan.groups());
        let sums = together.add_sums(&parties.evaluator, sums).unwrap();
        let trainer = together.trainer(&parties.evaluator, sums).unwrap();
        let mut training = trainer.start().unwrap();
        while training.iteration < spec.iterations {
            let batch = plan.batches().of(training.iteration);
            let of_table = |rows: &Vec<Ciphertext>| {
                let each = rows.len() / plan.batches().used(spec.iterations);
                rows[batch * each..][..each].to_vec()
            };
            let batch: Vec<_> = rows.iter().flat_map(of_table).collect();
            trainer.step(&batch, &mut training).unwrap();
        }
        // Batches mix rows of all tables.
        let order = (0..10).flat_map(|k| {
            let of_tables = [(0, 2), (20, 7), (90, 6)];
            of_tables
                .into_iter()
                .flat_map(move |(start, each)| (0..each).map(move |i| start + k * each + i))
        });
        let mixed = taken(&whole, &order.collect::<Vec<_>>());
        // Directions may have the other sign. The weights of columns are the same.
        let of_columns = |transform: &Transform, weights: &[f64]| -> Vec<f64> {
            weights.chunks(6).flat_map(|weights| transform.of_columns(weights)).collect()
        };
        let found = of_columns(all.transform(), &parties.weights(&training));
        let one = Prepared::new(&mixed, &spec, 400, None).unwrap();
        let expected = reference::train(&one, &spec).unwrap().concat();
        let found = error(&found, &of_columns(one.transform(), &expected));
        assert!(found < 2f64.powi(-11), "{batch:?}: {found}");
        let none = plan.add_sums(&parties.evaluator, Vec::new()).unwrap_err();
        assert!(matches!(none, Error::NotAsPlanned { what: "encrypted tables", .. }));
        let refused = plan.for_groups(plan.groups() + 1).unwrap_err();
        assert!(matches!(refused, Error::NotAsPlanned { what: "groups of rows", .. }));
    }
}

/// Two clusters, and a row far from both.
fn far_table() -> Table {
    let mut values: Vec<f64> = (0..400).map(|i| f64::from(i % 2 * 2 - 1)).collect();
    values[1] = 20.0;
    let labels = (0..400).map(|i| i % 2 == 1).collect();
    Table::new(vec!["x".into()], values, Some(("y".into(), labels))).unwrap()
}

#[test]
fn the_sigmoids_range_is_found_or_refused() {
    let table = far_table();
    let spec = TrainSpec { iterations: 3, ..TrainSpec::default() };
    let plan = TrainPlan::new(&job(&table, spec), &toy_in(10, 10, 45.0)).unwrap();
    let rows = plan.prepare(&table, None).unwrap();
    let Err(Error::InnerProductsTooLarge { found, range, .. }) = plan.check(&rows) else {
        panic!("{:?}", plan.check(&rows));
    };
    assert!(found > range && range == 8.0, "{found}");
    let wider = spec.with_fitting_range(&rows).unwrap();
    assert!(wider.sigmoid.range > 8.0);
    let plan = TrainPlan::new(&job(&table, wider), &toy_in(10, 10, 45.0)).unwrap();
    assert_eq!(plan.check(&plan.prepare(&table, None).unwrap()), Ok(()));
    // A table with small scores has a smaller range.
    let lbw = Table::bundled("lbw").unwrap();
    let few = prepared(&lbw, &TrainSpec::default());
    assert_eq!(TrainSpec::default().with_fitting_range(&few).unwrap().sigmoid.range, 6.0);
    let wild = TrainSpec { learning_rate: LearningRate::Constant(1e4), ..spec };
    let refused = wild.with_fitting_range(&rows).unwrap_err();
    assert!(matches!(refused, Error::InnerProductsTooLarge { range: 64.0, .. }), "{refused}");
}

#[test]
fn other_classes_and_transforms_than_planned_are_refused() {
    let two = mixed_table(50, 2, 1);
    let three = mixed_table(50, 3, 1);
    let plan = TrainPlan::new(&job(&two, TrainSpec::default()), &toy_in(9, 16, 45.0)).unwrap();
    let refused = plan.prepare(&three, None).unwrap_err();
    assert_eq!(refused, Error::TableClasses { found: 3, needed: 2 });
    let other = Transform::identity(4);
    let refused = plan.prepare_with(&two, vec![1.0; 2], other).unwrap_err();
    assert_eq!(refused, Error::TransformColumns { found: 4, needed: 5 });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn plans_compute_the_reference_on_any_table(
        features in 1_usize..9,
        values in prop::collection::vec(-1.0..1.0_f64, 9..200),
        rate in 0.1..2.0_f64,
        iterations in 1_u32..6,
        degree in prop::sample::select(vec![3_u32, 5, 7]),
        batch in prop::option::of(1_usize..40),
        penalty in prop::option::of(0.0..0.5_f64),
        workers in prop::option::of(1_usize..9),
        class_weights in
            prop::sample::select(vec![None, Some(ClassWeights::Balanced), Some(ClassWeights::Given)]),
        preparation in prop::sample::select(vec![
            Preparation::Scale,
            Preparation::Standardize,
            Preparation::Whiten,
        ]),
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
            sigmoid: SigmoidApprox {
                degree: SigmoidDegree::try_from(degree).unwrap(),
                range: 6.0,
                ..SigmoidApprox::published()
            },
            batch,
            penalty: penalty.map_or(Penalty::None, Penalty::Alpha),
            workers,
            class_weights,
            preparation,
            ..TrainSpec::published()
        };
        let plan = TrainPlan::new(&job(&table, spec), &toy_in(log_n, 20, 45.0)).unwrap();
        prop_assume!(plan.check(&plan.prepare(&table, given(&spec)).unwrap()).is_ok());
        let (w, ..) = simulate(&plan, &table);
        prop_assert!(error(&w, &clear(&table, &spec)) < 1e-9);
    }
}
