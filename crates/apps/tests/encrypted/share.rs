//! Statistics and scores that others than the owner of the key may see.

use crate::session::Session;
use sudare::{
    circuits::ckks::sim,
    ckks::{Ciphertext, Complex, Params, Spec},
};
use sudare_apps::{
    Error, TablePlan,
    logreg::{ScoreJob, ScorePlan, ScoredModel, TrainError, Transform, Weights},
    stats::{
        ColumnScaling, Edges, GroupJob, GroupPlan, Grouping, HistogramJob, HistogramPlan, Job,
        MAX_SHARED_BITS, Statistics, StatsError, StatsPlan, TableStatistics,
    },
};
use sudare_arith::prng::Seed;
use sudare_table::Table;

const BITS: u32 = 10;

fn seed() -> Seed {
    Seed::from_bytes([3; 32])
}

/// The same chain in a ring that is small enough for a test.
fn small(secure: &Params) -> Params {
    assert!(secure.rlwe().security_bits() >= 128.0);
    Params::new(Spec { log_n: 11, insecure: true, ..secure.spec().clone() }).unwrap()
}

fn slots(s: &Session, outputs: &[Ciphertext]) -> Vec<Vec<f64>> {
    let slots = |output| s.encoder.decode_real(&s.decryptor.decrypt(output).unwrap()).unwrap();
    outputs.iter().map(slots).collect()
}

/// What is shared differs from what is not by the last bit at most, has no further digits, and
/// shows nothing else.
fn check_shared(own: &[Vec<f64>], shared: &[Vec<f64>], rows: usize) {
    let unit = rows as f64 / f64::from(1 << BITS);
    let mut read = 0;
    for (own, shared) in own.iter().zip(shared) {
        assert_eq!(own.len(), shared.len());
        for (own, &shared) in own.iter().zip(shared) {
            if shared != 0.0 {
                read += 1;
                assert!((own - shared).abs() <= unit * 1.000_001, "{shared} for {own}");
                assert_eq!((shared / unit).fract(), 0.0);
            }
        }
    }
    assert!(read > 3, "{read}");
}

fn too_little(error: StatsError) {
    let engine = matches!(error, StatsError::Library(sudare::Error::TooLittlePrecision { .. }));
    assert!(engine, "{error}");
}

#[test]
fn statistics_are_shared_to_the_bits_planned_for() {
    let table = Table::bundled("lbw").unwrap();
    let job = Job::of(&table);
    let secure = StatsPlan::shared_params(&job, BITS).unwrap();
    assert_eq!(secure.log_n(), 14);
    let plan = StatsPlan::new(&job, &small(&secure)).unwrap();
    let s = Session::new(plan.params().clone(), plan.required_keys());
    let scaling = ColumnScaling::of(&table);
    let data = plan.encrypt(&s.encryptor, &table, &scaling, |_| ()).unwrap();
    let own = slots(&s, &plan.run(&s.evaluator, &data, |_| ()).unwrap());

    // The bound holds for sums of the first four powers, and is close to them.
    let mut largest: f64 = 0.0;
    for (power, sums) in own.iter().take(4).enumerate() {
        for (j, &(centre, half_range)) in scaling.maps().iter().enumerate().take(sums.len() / 256) {
            let scaled = table.column(j).map(|x| (x - centre) / half_range);
            let exact: f64 = scaled.map(|x| x.powi(power as i32 + 1)).sum();
            largest = largest.max((sums[j * 256] - exact).abs());
        }
    }
    let bound = plan.largest_error() * job.rows as f64;
    assert!(largest < bound && largest > bound / 1e4, "{largest:e} of {bound:e}");

    let shared = plan.share(&own, BITS, &seed()).unwrap();
    check_shared(&own, &shared, job.rows);
    let close = |name: &str, a: f64, b: f64, unit: f64| {
        assert!((a - b).abs() <= 4.0 * unit / 1024.0, "{name}: {a} for {b}, unit {unit}");
    };
    let own: Statistics = plan.decode(&own, &scaling, job.rows, None).unwrap();
    let shared = plan.decode(&shared, &scaling, job.rows, Some(BITS)).unwrap();
    for (j, &(_, half_range)) in scaling.maps().iter().enumerate() {
        close("mean", shared.mean[j], own.mean[j], half_range);
        close("variance", shared.variance[j], own.variance[j], half_range * half_range);
        // Within the stated error of each.
        let off = (shared.mean[j] - own.mean[j]).abs();
        assert!(off <= shared.mean_error[j] + own.mean_error[j], "{off:e}");
        let off = (shared.variance[j] - own.variance[j]).abs();
        assert!(off <= shared.covariance_error[j][j] + own.covariance_error[j][j], "{off:e}");
    }
}

#[test]
fn parameters_without_that_precision_are_refused() {
    let table = Table::bundled("lbw").unwrap();
    let job = Job::of(&table);
    let plan = StatsPlan::new(&job, &small(&StatsPlan::auto_params(&job).unwrap())).unwrap();
    let slots = vec![vec![0.0; plan.params().max_slots()]; plan.outputs()];
    assert!(plan.largest_error() > plan.largest_shared_error(1));
    too_little(plan.share(&slots, 1, &seed()).unwrap_err());
    for bits in [0, MAX_SHARED_BITS + 1] {
        let refused = StatsError::SharedBits { found: bits };
        assert_eq!(plan.share(&slots, bits, &seed()).unwrap_err(), refused);
        assert_eq!(StatsPlan::shared_params(&job, bits).unwrap_err(), refused);
    }
    // With this number of values, f64 has too few digits for the noise.
    let many = Job { rows: 1 << 10, features: 256 };
    too_little(StatsPlan::shared_params(&many, MAX_SHARED_BITS).unwrap_err());
    assert!(StatsPlan::shared_params(&many, 4).is_ok());
}

#[test]
fn groups_are_shared_to_the_bits_planned_for() {
    let (table, keys) = Table::bundled("lbw").unwrap().without("smoke").unwrap();
    let grouping = Grouping::of(&keys).unwrap();
    let rows = table.rows();
    let features = table.features();
    let groups = grouping.labels().len();
    let job = GroupJob { rows, features, groups };
    let secure = GroupPlan::shared_params(&job, BITS).unwrap();
    let params = small(&secure);
    let plan = GroupPlan::new(&job, &params).unwrap();
    let s = Session::new(params, plan.required_keys());
    let scalings = plan.scalings(&table, &grouping);
    let data = plan.encrypt(&s.encryptor, &table, &scalings, &grouping, |_| ()).unwrap();
    let own = slots(&s, &plan.run(&s.evaluator, &data, |_| ()).unwrap());
    let shared = plan.share(&own, BITS, &seed()).unwrap();
    let own = plan.decode(&own, &scalings, groups, None).unwrap();
    let shared = plan.decode(&shared, &scalings, groups, Some(BITS)).unwrap();
    assert_eq!(own.count, shared.count);
    for (group, scaling) in scalings.iter().enumerate() {
        for (j, &(_, half_range)) in scaling.maps().iter().enumerate() {
            let own_mean = own.mean[group][j];
            let shared_mean = shared.mean[group][j];
            assert!((own_mean - shared_mean).abs() <= half_range / 64.0, "{shared_mean}");
            let off = (shared.variance[group][j] - own.variance[group][j]).abs();
            let error = shared.variance_error[group][j] + own.variance_error[group][j];
            assert!(off.is_nan() || off <= error, "{off:e} of {error:e}");
        }
    }
}

#[test]
fn histograms_are_shared_to_the_bits_planned_for() {
    let table = Table::bundled("lbw").unwrap();
    let job = HistogramJob { rows: table.rows(), features: table.features(), bins: 2 };
    let secure = HistogramPlan::shared_params(&job, BITS).unwrap();
    let params = small(&secure);
    let plan = HistogramPlan::new(&job, &params).unwrap();
    let s = Session::new(params, plan.required_keys());
    let bins = plan.bins(&table, &[Edges::Equal]).unwrap();
    let data = plan.encrypt(&s.encryptor, &table, &bins, |_| ()).unwrap();
    let own = slots(&s, &plan.run(&s.evaluator, &data, |_| ()).unwrap());
    let shared = plan.share(&own, BITS, &seed()).unwrap();
    check_shared(&own, &shared, job.rows);
    let shared = plan.decode(&shared, &bins, job.rows, Some(BITS)).unwrap();
    for (own, shared) in plan.decode(&own, &bins, job.rows, None).unwrap().iter().zip(shared) {
        let difference = (own.counts[0] - shared.counts[0]).abs();
        let rows = job.rows as f64;
        assert!(difference <= shared.errors[0] && shared.errors[0] < rows / 512.0, "{shared:?}");
    }
}

/// With the scales of results that are shared, where `f64` rounds most, and with smaller ones.
#[test]
fn errors_of_histograms_are_within_their_bound_at_an_edge() {
    let job = HistogramJob { rows: 256, features: 8, bins: 4 };
    let (at_edges, bound) = errors_at_edges(job, &HistogramPlan::auto_params(&job).unwrap());
    assert!(at_edges > bound / 2f64.powi(14), "{at_edges:e} of {bound:e}");
    // At this precision, errors may be below the last digit of f64.
    errors_at_edges(job, &HistogramPlan::shared_params(&job, BITS).unwrap());
}

/// Against the same circuit in the clear, for columns with all values at an edge, where the step is
/// steepest, and for one with values everywhere: the largest error at an edge, and the bound that
/// all are below.
fn errors_at_edges(job: HistogramJob, secure: &Params) -> (f64, f64) {
    let HistogramJob { rows, features, bins } = job;
    let params = small(secure);
    let plan = HistogramPlan::new(&job, &params).unwrap();
    let s = Session::new(params.clone(), plan.required_keys());
    // The edges are -1/2, 0 and 1/2.
    let value = |row: usize, column: usize| match (row, column) {
        (0, _) => -1.0,
        (1, _) => 1.0,
        (_, 7) => row as f64 / 128.0 - 1.0,
        _ => (column % 3) as f64 / 2.0 - 0.5,
    };
    let columns = params.max_slots() / rows;
    let groups = (0..features / columns).map(|group| {
        let place = |i| value(i % rows, group * columns + i / rows) / 2.0;
        (0..params.max_slots()).map(place).collect::<Vec<f64>>()
    });
    let encrypt = |values: Vec<f64>| {
        let plain = s.encoder.encode_real_at(&values, plan.level(), plan.scale()).unwrap();
        s.encryptor.encrypt(&plain).unwrap()
    };
    let data: Vec<_> = groups.clone().map(encrypt).collect();
    let found = slots(&s, &plan.run(&s.evaluator, &data, |_| ()).unwrap());

    let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
    let in_clear = |values: Vec<f64>| {
        let values: Vec<_> = values.iter().map(|&x| Complex::new(x, 0.0)).collect();
        e.encrypt(&values, plan.level(), plan.scale()).unwrap()
    };
    let clear: Vec<_> = groups.map(in_clear).collect();
    let exact = plan.run(&e, &clear, |_| ()).unwrap();

    let mut at_edges: f64 = 0.0;
    let mut elsewhere: f64 = 0.0;
    for (output, (found, exact)) in found.iter().zip(&exact).enumerate() {
        let group = output / (bins - 1);
        let edge = output % (bins - 1);
        for place in 0..columns {
            let column = group * columns + place;
            let error = (found[place * rows] - exact.slots[place * rows].re).abs() / rows as f64;
            let most =
                if column < 7 && column % 3 == edge { &mut at_edges } else { &mut elsewhere };
            *most = most.max(error);
        }
    }
    let bound = plan.largest_error();
    assert!(elsewhere < at_edges.max(1e-12), "{elsewhere:e}, at edges {at_edges:e}");
    assert!(at_edges < bound, "{at_edges:e} of {bound:e}");
    (at_edges, bound)
}

fn scores_up_to(range: f64, rows: usize, features: usize) -> ScoreJob {
    ScoreJob { rows, model: ScoredModel::Shared { features, classes: 2, range } }
}

/// Weights of both signs with which scores of the largest rows reach a range.
fn weights_for(range: f64, features: usize) -> Vec<f64> {
    let weight = |j: usize| if j.is_multiple_of(3) { -1.0 } else { 1.0 };
    let part = range * (1.0 - 1e-12) / (1.0 + 4.0 * features as f64);
    (0..=features).map(|j| part * weight(j)).collect()
}

/// Rows as large as they may be, with signs that follow from their place.
fn largest_rows(rows: usize, features: usize) -> Table {
    let value = |i: usize| if i * i % 7 < 3 { 4.0 } else { -4.0 };
    let columns = (0..features).map(|j| format!("c{j}")).collect();
    Table::new(columns, (0..rows * features).map(value).collect(), None).unwrap()
}

fn score(x: &[f64], weights: &[f64]) -> f64 {
    weights[0] + x.iter().zip(&weights[1..]).map(|(x, w)| x * w).sum::<f64>()
}

#[test]
fn scores_are_shared_to_the_bits_planned_for() {
    const RANGE: f64 = 8.0;
    let rows = 150;
    let features = 9;
    let bits = 9;
    let job = scores_up_to(RANGE, rows, features);
    let secure = ScorePlan::shared_params(&job, bits).unwrap();
    let plan = ScorePlan::new(&job, &small(&secure)).unwrap();
    assert!(plan.largest_error() <= plan.largest_shared_error(bits));
    let s = Session::new(plan.params().clone(), plan.required_keys());
    let table = largest_rows(rows, features);
    let weights = weights_for(RANGE, features);
    let transform = Transform::identity(features);
    let encrypted = plan.encryptions(&s.encryptor, &table, &transform).unwrap();
    let encrypted: Vec<_> = encrypted.collect::<Result<_, _>>().unwrap();
    let model = plan.encrypt_model(&s.encryptor, &weights).unwrap();
    let exact: Vec<f64> = table.values().chunks(features).map(|row| score(row, &weights)).collect();
    let weights = [weights];
    let model = [model];
    for weights in [Weights::Plain(&weights), Weights::Encrypted(&model)] {
        let scores = plan.scorer(&s.evaluator, weights).unwrap().score(&encrypted).unwrap();
        let own = plan.decode(&slots(&s, &scores)).unwrap().scores;
        let errors = own[0].iter().zip(&exact).map(|(own, exact)| (own - exact).abs());
        let largest = errors.fold(0.0, f64::max);
        let bound = plan.largest_error();
        // An exact value in f64 shows that its rounding is compared.
        assert!(largest < bound && largest > bound / 1e6, "{largest:e} of {bound:e}");
        let shared = plan.share(&own, bits, &seed()).unwrap();
        let unit = (-f64::from(bits)).exp2();
        assert_eq!((shared.len(), shared[0].len()), (1, rows));
        for (own, shared) in own[0].iter().zip(&shared[0]) {
            assert!((own - shared).abs() <= unit && (shared / unit).fract() == 0.0);
        }
        assert_ne!(plan.share(&own, bits, &Seed::from_bytes([4; 32])).unwrap(), shared);
        // More values than in any ring: f64 has too few digits for the range.
        let refused = plan.share(&own, 12, &seed()).unwrap_err();
        assert!(matches!(refused, Error::Library(sudare::Error::TooLittlePrecision { .. })));
    }
}

/// What decoding rounds is bounded by the range: that of other slots, too, which hold sums of parts
/// of rows.
#[test]
fn no_slot_of_scores_is_beyond_their_range() {
    const RANGE: f64 = 8.0;
    for (rows, features, log_n) in [(5, 9, 8), (70, 11, 7), (256, 7, 8)] {
        let job = scores_up_to(RANGE, rows, features);
        let secure = ScorePlan::auto_params(&job).unwrap();
        let spec = Spec { log_n, insecure: true, ..secure.spec().clone() };
        let plan = ScorePlan::new(&job, &Params::new(spec).unwrap()).unwrap();
        let e = sim::Evaluator::new(log_n, plan.params().chain().clone());
        let (level, scale) = plan.input();
        let transform = Transform::identity(features);
        // All values have one sign, so nothing cancels.
        let weights: Vec<f64> = weights_for(RANGE, features).iter().map(|w| w.abs()).collect();
        let columns = (0..features).map(|j| format!("c{j}")).collect();
        let table = Table::new(columns, vec![4.0; rows * features], None).unwrap();
        let complex = |slots: Vec<f64>| -> Vec<_> {
            slots.into_iter().map(|re| Complex { re, im: 0.0 }).collect()
        };
        let packed = plan.pack(&table, &transform).unwrap();
        let encrypted: Vec<_> =
            packed.map(|slots| e.encrypt(&complex(slots), level, scale).unwrap()).collect();
        let weights = [weights];
        let scores = plan.scorer(&e, Weights::Plain(&weights)).unwrap().score(&encrypted).unwrap();
        let slots = scores.iter().flat_map(|score| &score.slots);
        let largest = slots.map(|slot| slot.re.abs()).fold(0.0, f64::max);
        assert!((largest / RANGE - 1.0).abs() < 1e-9, "{rows}x{features}: {largest}");
    }
}

#[test]
fn scores_that_cannot_be_shared_are_refused() {
    let too_little = |error: Error| {
        let engine = matches!(error, Error::Library(sudare::Error::TooLittlePrecision { .. }));
        assert!(engine, "{error}");
    };
    let rows = 20;
    let features = 3;
    let job = scores_up_to(16.0, rows, features);
    for bits in [0, MAX_SHARED_BITS + 1] {
        let refused = Error::Train(TrainError::SharedBits { found: bits });
        assert_eq!(ScorePlan::shared_params(&job, bits).unwrap_err(), refused);
    }
    // The precision of scores for their owner.
    let plan = ScorePlan::new(&job, &small(&ScorePlan::auto_params(&job).unwrap())).unwrap();
    too_little(plan.share(&[vec![0.0; rows]], 1, &seed()).unwrap_err());
    // A range for which f64 has too few digits.
    too_little(ScorePlan::shared_params(&scores_up_to(1024.0, rows, features), 12).unwrap_err());
    for range in [0.0, 0.99, -1.0, 1025.0, f64::NAN, f64::INFINITY] {
        let job = scores_up_to(range, rows, features);
        let refused = |error: Error| assert!(error.to_string().contains("1 to 1024"), "{error}");
        refused(ScorePlan::auto_params(&job).unwrap_err());
        refused(ScorePlan::new(&job, plan.params()).unwrap_err());
        refused(ScorePlan::shared_params(&job, 4).unwrap_err());
    }
    // Models larger than the public bound.
    let weights: Vec<f64> = weights_for(16.5, features);
    let found = plan.pack_model(&weights).unwrap_err();
    assert!(matches!(found, Error::ScoresTooLarge { range: 16.0, .. }), "{found}");
    let found = plan.pack_model(&[f64::NAN; 4]).unwrap_err();
    assert!(matches!(found, Error::WeightTooLarge { .. }), "{found}");
    // Models without a known range.
    let model = ScoredModel::Given { features, classes: 2, probability: None };
    let job = ScoreJob { rows, model };
    too_little(ScorePlan::shared_params(&job, 4).unwrap_err());
    let plan = ScorePlan::new(&job, &small(&ScorePlan::auto_params(&job).unwrap())).unwrap();
    too_little(plan.share(&[vec![0.0; rows]], 1, &seed()).unwrap_err());
}
