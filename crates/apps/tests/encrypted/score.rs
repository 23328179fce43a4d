//! Encrypted scores against inner products in the clear.

use crate::session::Session;
use proptest::prelude::*;
use sudare::{
    circuits::ckks::sim,
    ckks::{Ciphertext, Complex, Params, Spec},
    rlwe::Level,
};
use sudare_apps::{
    Error, TablePlan,
    logreg::{
        Job, Moments, Preparation, Probability, ScoreJob, ScorePlan, ScoredModel, TrainError,
        TrainPlan, TrainSpec, Transform, Weights, reference,
    },
};
use sudare_table::Table;

fn given(rows: usize, features: usize, probability: Option<Probability>) -> ScoreJob {
    ScoreJob { rows, model: ScoredModel::Given { features, classes: 2, probability } }
}

/// A ring too small to be secure.
fn toy(log_n: u32, levels: usize, bits: f64) -> Params {
    let spec = Spec::uniform(log_n, bits + 14.0, levels, bits, vec![60.0]);
    Params::new(Spec { insecure: true, ..spec }).unwrap()
}

/// Rows with values of both signs up to about 3 times the divisors.
fn table(rows: usize, features: usize) -> Table {
    let value = |i: usize| ((i * i % 23) as f64 - 11.0) / 4.0;
    let columns = (0..features).map(|j| format!("c{j}")).collect();
    Table::new(columns, (0..rows * features).map(value).collect(), None).unwrap()
}

fn weights(features: usize) -> Vec<f64> {
    (0..=features).map(|j| (j as f64 * 1.7).sin() * 2.0).collect()
}

fn clear(table: &Table, transform: &Transform, weights: &[f64]) -> Vec<f64> {
    let rows = transform.rows(table.values());
    let score = |x: &[f64]| x.iter().zip(weights).map(|(x, w)| x * w).sum();
    rows.chunks_exact(1 + table.features()).map(score).collect()
}

fn largest(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn complex(slots: &[f64]) -> Vec<Complex<f64>> {
    slots.iter().map(|&re| Complex { re, im: 0.0 }).collect()
}

/// Scores on the simulator, by the model plain and encrypted.
fn simulate(plan: &ScorePlan, table: &Table, weights: &[f64]) -> [Vec<f64>; 2] {
    let params = plan.params();
    let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
    let (level, scale) = plan.input();
    let packed = plan.pack(table, &Transform::identity(table.features())).unwrap();
    let rows: Vec<_> =
        packed.map(|slots| e.encrypt(&complex(&slots), level, scale).unwrap()).collect();
    assert_eq!(rows.len(), plan.ciphertexts());
    let (level, scale) = plan.model();
    let model = e.encrypt(&complex(&plan.pack_model(weights).unwrap()), level, scale).unwrap();
    let weights = [weights.to_vec()];
    let model = [model];
    let results = [Weights::Plain(&weights), Weights::Encrypted(&model)].map(|weights| {
        let scorer = plan.scorer(&e, weights).unwrap();
        // Group by group, as a server streams them.
        let groups = rows.chunks(plan.group_len());
        let scores: Vec<_> = groups.flat_map(|rows| scorer.score(rows).unwrap()).collect();
        assert!(scores.iter().all(|score| score.headroom_bits > 0.0));
        let slots = |score: &sim::Ciphertext| score.slots.iter().map(|z| z.re).collect();
        plan.decode(&scores.iter().map(slots).collect::<Vec<Vec<f64>>>()).unwrap().scores.remove(0)
    });
    assert_eq!(&e.used_keys(), plan.required_keys());
    results
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn scores_are_inner_products(rows in 1_usize..70, features in 1_usize..12, log_n in 6_u32..9) {
        let plan = ScorePlan::new(&given(rows, features, None), &toy(log_n, 1, 45.0)).unwrap();
        let table = table(rows, features);
        let weights = weights(features);
        let expected = clear(&table, &Transform::identity(features), &weights);
        for found in simulate(&plan, &table, &weights) {
            prop_assert!(largest(&found, &expected) < 1e-9);
        }
    }
}

#[test]
fn many_rows_are_scored_by_diagonals() {
    // 64 blocks of two slots: no rotation of rows, and products of a group relinearised together.
    let plan = ScorePlan::new(&given(256, 7, None), &toy(8, 1, 45.0)).unwrap();
    assert_eq!((plan.group_len(), plan.groups(), plan.key_switches()), (8, 4, 7 + 4));
    let (level, _) = plan.input();
    assert_eq!((level, plan.group_outputs()), (Level(1), 1));
    // Few rows fit next to each other.
    let plan = ScorePlan::new(&given(8, 7, None), &toy(8, 1, 45.0)).unwrap();
    assert!(plan.groups() == 1 && plan.key_switches() < 8);
}

fn session(plan: &ScorePlan) -> Session {
    Session::new(plan.params().clone(), plan.required_keys())
}

fn decrypted(s: &Session, scores: &[Ciphertext]) -> Vec<Vec<f64>> {
    let slots = |score| s.encoder.decode_real(&s.decryptor.decrypt(score).unwrap()).unwrap();
    scores.iter().map(slots).collect()
}

#[test]
fn encrypted_rows_are_scored_by_plain_and_encrypted_models() {
    let table = Table::bundled("lbw").unwrap();
    let job = given(table.rows(), table.features(), None);
    let params = ScorePlan::auto_params(&job).unwrap();
    assert_eq!((params.log_n(), params.top()), (13, Level(1)));
    assert!(params.rlwe().security_bits() >= 128.0);
    let plan = ScorePlan::new(&job, &params).unwrap();
    assert!(plan.largest_error() < 1e-2, "{}", plan.largest_error());
    let s = session(&plan);
    let transform = Transform::spreading(&table);
    let weights = weights(table.features());
    let rows = plan.encryptions(&s.encryptor, &table, &transform).unwrap();
    let rows: Vec<_> = rows.collect::<Result<_, _>>().unwrap();
    let model = plan.encrypt_model(&s.encryptor, &weights).unwrap();
    let expected = clear(&table, &transform, &weights);
    let weights = [weights];
    let model = [model];
    for weights in [Weights::Plain(&weights), Weights::Encrypted(&model)] {
        let scores = plan.scorer(&s.evaluator, weights).unwrap().score(&rows).unwrap();
        let found = plan.decode(&decrypted(&s, &scores)).unwrap();
        assert_eq!(found.probabilities, None);
        let error = largest(&found.scores[0], &expected);
        assert!(error < plan.largest_error(), "{error}");
        // Close to the actual maximum, because inputs are smaller than their bound.
        assert!(error > plan.largest_error() / 2f64.powi(20), "{error}");
    }
}

#[test]
fn probabilities_have_the_error_stated() {
    let table = Table::bundled("lbw").unwrap();
    let probability = Probability { range: 32.0, bits: 8 };
    let job = given(table.rows(), table.features(), Some(probability));
    let params = ScorePlan::auto_params(&job).unwrap();
    assert!(params.log_n() <= 14 && params.rlwe().security_bits() >= 128.0);
    let plan = ScorePlan::new(&job, &params).unwrap();
    let bound = plan.largest_probability_error().unwrap();
    assert!(bound < 2f64.powi(-6), "{bound}");
    let transform = Transform::spreading(&table);
    let weights = vec![0.7; 10];
    let s = session(&plan);
    let rows = plan.encryptions(&s.encryptor, &table, &transform).unwrap();
    let rows: Vec<_> = rows.collect::<Result<_, _>>().unwrap();
    let scores = clear(&table, &transform, &weights);
    let scorer = plan.scorer(&s.evaluator, Weights::Plain(&[weights])).unwrap();
    let found = plan.decode(&decrypted(&s, &scorer.score(&rows).unwrap())).unwrap();
    let expected: Vec<f64> = scores.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
    assert!(largest(&found.scores[0], &scores) < plan.largest_error());
    let error = largest(&found.probabilities.unwrap()[0], &expected);
    assert!(error < bound, "{error}");

    let refused = plan.scorer(&s.evaluator, Weights::Plain(&[vec![0.9; 10]])).err().unwrap();
    // 0.9 for the intercept, and the maximum for each feature.
    let largest = 0.9 + 9.0 * 0.9 * 4.0;
    assert!(matches!(
        refused,
        Error::ScoresTooLarge { found, range: 32.0 } if (found - largest).abs() < 1e-9
    ));
    let none = given(1, 1, Some(Probability { range: 8.0, bits: 17 }));
    assert!(ScorePlan::auto_params(&none).unwrap_err().to_string().contains("1 to 16"));
    // No polynomial is that precise. A file's label claimed this, and its reader was busy for
    // seconds.
    for range in [1024.1, 126_976.0, f64::MAX, f64::INFINITY] {
        let job = given(1, 1, Some(Probability { range, bits: 4 }));
        for refused in [ScorePlan::auto_params(&job).err(), ScorePlan::new(&job, &params).err()] {
            assert!(refused.unwrap().to_string().contains("at most 1024"), "{range}");
        }
    }
}

/// Rows scored by the models that a training on `table` leaves, as they are.
fn train_and_score(table: &Table, spec: TrainSpec, params: &Params) {
    let job = Job { rows: table.rows(), features: table.features(), spec };
    let training = TrainPlan::new(&job, params).unwrap();
    let s = Session::new(params.clone(), training.required_keys());
    let mut data = training.encrypt(&s.encryptor, table, None, |_| ()).unwrap();
    let sums = data.split_off(training.row_ciphertexts());
    let trainer = training.trainer(&s.evaluator, sums).unwrap();
    let mut state = trainer.start().unwrap();
    while state.iteration < spec.iterations {
        trainer.step(&data[training.batch(state.iteration)], &mut state).unwrap();
    }
    let models = training.model(&state).unwrap();
    for model in &models {
        assert_eq!(model.level(), training.output().0);
        assert!(model.scale().matches(training.output().1));
    }

    let prepared = training.prepare(table, None).unwrap();
    let transform = prepared.transform();
    let expected = reference::train(&prepared, &spec).unwrap();
    // More rows than in the training, and other rows.
    let values: Vec<f64> = table.values().iter().map(|x| x * 0.75).collect();
    let values = [table.values(), &values].concat();
    let rows = Table::new(table.columns().to_vec(), values, None).unwrap();
    let plan = ScorePlan::trained(&training, rows.rows()).unwrap();
    assert_eq!(plan.model().0, models[0].level());
    let mut both = training.required_keys().clone();
    both |= plan.required_keys().clone();
    assert_eq!(&both, training.required_keys(), "keys beyond those of the training");
    let encrypted = plan.encryptions(&s.encryptor, &rows, transform).unwrap();
    let encrypted: Vec<_> = encrypted.collect::<Result<_, _>>().unwrap();
    let largest_weight = expected.iter().flatten().fold(0.0, |most: f64, w| most.max(w.abs()));
    for weights in [Weights::Encrypted(&models), Weights::Plain(&expected)] {
        let plain = matches!(weights, Weights::Plain(_));
        let scores = plan.scorer(&s.evaluator, weights).unwrap().score(&encrypted).unwrap();
        let found = plan.decode(&decrypted(&s, &scores)).unwrap();
        assert_eq!(found.scores.len(), expected.len());
        for (found, expected) in found.scores.iter().zip(&expected) {
            let error = largest(found, &clear(&rows, transform, expected));
            assert!(error < largest_weight / 256.0, "{error} for weights up to {largest_weight}");
            if plain {
                assert!(error < plan.largest_error(), "{error}");
            }
        }
    }
}

#[test]
fn a_trained_model_scores_rows_as_it_is() {
    let table = Table::bundled("lbw").unwrap();
    let scorable = |preparation, iterations| TrainSpec {
        preparation,
        iterations,
        scorable: true,
        ..TrainSpec::default()
    };
    let small = |spec| {
        let job = Job { rows: table.rows(), features: table.features(), spec };
        let secure = TrainPlan::auto_params(&job).unwrap();
        assert!(secure.rlwe().security_bits() >= 128.0);
        let params = Spec { log_n: 11, insecure: true, ..secure.spec().clone() };
        Params::new(params).unwrap()
    };
    for (preparation, iterations) in
        [(Preparation::Whiten, 1), (Preparation::Standardize, 2), (Preparation::Whiten, 4)]
    {
        let spec = scorable(preparation, iterations);
        train_and_score(&table, spec, &small(spec));
    }
    let spec = TrainSpec { scorable: true, ..TrainSpec::published() };
    train_and_score(&table, spec, &small(spec));

    // Three models, each of which scores the same rows.
    let members = table.column(0).map(|age| (age as u32 % 3).min(2)).collect();
    let classes = ["a", "b", "c"].map(String::from).to_vec();
    let target = ("class".to_owned(), classes, members);
    let columns = table.columns().to_vec();
    let values = table.values().to_vec();
    let several = Table::with_classes(columns, values, target).unwrap();
    let spec = TrainSpec { classes: 3, ..scorable(Preparation::Whiten, 3) };
    train_and_score(&several, spec, &small(spec));
}

#[test]
fn a_level_is_left_only_if_asked_for() {
    let table = Table::bundled("lbw").unwrap();
    let plan = |scorable| {
        let spec = TrainSpec { scorable, ..TrainSpec::default() };
        let job = Job { rows: table.rows(), features: table.features(), spec };
        TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap()
    };
    let closed = plan(false);
    let scorable = plan(true);
    assert_eq!((closed.output().0, scorable.output().0), (Level(0), Level(1)));
    assert_eq!(ScorePlan::trained(&closed, 5).unwrap_err(), Error::NotScorable);
    assert!(ScorePlan::trained(&scorable, 5).is_ok());
}

#[test]
fn bootstrapped_models_have_levels_left() {
    let table = Table::bundled("lbw").unwrap();
    let spec = TrainSpec { iterations: 30, ..TrainSpec::published() };
    let job = Job { rows: table.rows(), features: table.features(), spec };
    let training = TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap();
    assert!(training.bootstraps_within(30) > 0);
    let plan = ScorePlan::trained(&training, 1000).unwrap();
    assert_eq!(plan.model(), training.output());
    assert!(plan.largest_error() < 1e-3, "{}", plan.largest_error());
    let mut both = training.required_keys().clone();
    both |= plan.required_keys().clone();
    assert_eq!(&both, training.required_keys());
}

#[test]
fn what_was_not_planned_is_refused() {
    let params = toy(8, 1, 45.0);
    let plan = ScorePlan::new(&given(5, 3, None), &params).unwrap();
    let transform = Transform::identity(3);
    let refused = |table: &Table| plan.pack(table, &transform).err().unwrap();
    assert!(matches!(refused(&table(6, 3)), Error::TableShape { rows: 6, needed_rows: 5, .. }));
    let other = plan.pack(&table(5, 3), &Transform::identity(2)).err().unwrap();
    assert_eq!(other, Error::TransformColumns { found: 2, needed: 3 });
    // Rows as of a training that was planned for four times as many: their intercept is 2.
    let moments = Moments {
        rows: 1,
        centers: vec![0.0; 3],
        deviations: vec![1.0; 3],
        correlations: vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
    };
    let larger = Transform::of_moments(&moments, Preparation::Standardize, 1.0, 4);
    let refused_intercept = plan.pack(&table(5, 3), &larger).err().unwrap();
    assert!(
        matches!(refused_intercept, Error::NotAsPlanned { what: "entry of the intercept", .. }),
        "{refused_intercept}"
    );
    let mut values = vec![1.0; 15];
    values[10] = -9.0;
    let columns = ["a", "b", "c"].map(String::from).to_vec();
    let far = Table::new(columns, values, None).unwrap();
    let column = "b".to_owned();
    assert_eq!(refused(&far), Error::FeatureTooLarge { row: 3, column, found: 9.0, most: 4.0 });
    for bad in [65.0, f64::NAN] {
        let refused = plan.pack_model(&[0.0, bad, 0.0, 0.0]).unwrap_err();
        assert!(matches!(refused, Error::WeightTooLarge { most: 64.0, .. }), "{refused}");
    }
    let refused = plan.pack_model(&[0.0; 3]).unwrap_err();
    assert!(matches!(refused, Error::NotAsPlanned { what: "weights of the model", .. }));

    let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
    let (level, scale) = plan.input();
    let zeros = [vec![0.0; 4]];
    let scorer = plan.scorer(&e, Weights::Plain(&zeros)).unwrap();
    let low = e.encrypt(&complex(&[0.0]), Level(0), scale).unwrap();
    let refused = scorer.score(&vec![low; plan.group_len()]).unwrap_err();
    assert!(refused.to_string().starts_with("level of encrypted rows: found 0"), "{refused}");
    assert!(matches!(scorer.score(&[]), Err(Error::NotAsPlanned { .. })));
    let fine = e.encrypt(&complex(&[0.0]), level, scale * scale).unwrap();
    let refused = scorer.score(&vec![fine; plan.group_len()]).unwrap_err();
    assert!(refused.to_string().starts_with("scale of encrypted rows"), "{refused}");
    let other = toy(8, 2, 45.0);
    let e = sim::Evaluator::new(other.log_n(), other.chain().clone());
    assert!(plan.scorer(&e, Weights::Plain(&zeros)).is_err());
    assert!(plan.decode(&[]).is_err());

    assert!(ScorePlan::new(&given(0, 3, None), &params).is_err());
    for classes in [0, 1, 1001, u32::MAX] {
        let expected = Error::from(TrainError::Classes { found: classes });
        let given = ScoredModel::Given { features: 3, classes, probability: None };
        let shared = ScoredModel::Shared { features: 3, classes, range: 8.0 };
        for model in [given, shared] {
            let job = ScoreJob { rows: 5, model };
            assert_eq!(ScorePlan::new(&job, &params).unwrap_err(), expected);
            assert_eq!(ScorePlan::auto_params(&job).unwrap_err(), expected);
        }
    }
    assert!(ScorePlan::new(&given(5, 0, None), &params).is_err());
    assert!(matches!(
        ScorePlan::new(&given(5, 3, None), &toy(8, 0, 45.0)).unwrap_err(),
        Error::Library(sudare::Error::LevelExhausted { .. })
    ));
    let coarse = ScorePlan::new(&given(5, 3, None), &toy(8, 1, 22.0)).unwrap_err();
    assert!(matches!(coarse, Error::Precision { what: "a score", .. }), "{coarse}");
    assert!(matches!(
        ScorePlan::new(&given(5, 400, None), &params).unwrap_err(),
        Error::TooManyFeatures { found: 400, .. }
    ));
}
