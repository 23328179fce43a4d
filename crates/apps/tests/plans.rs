//! Plans have the same bits on every platform: owner and server make them apart. `make portable` runs
//! this on others.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use core::fmt::Debug;
use sudare::{
    ckks::{self, Params},
    exact::Params as ExactParams,
    rlwe::KeyRequest,
};
use sudare_apps::{
    TablePlan,
    exact::{self, CountsPlan, Scheme, Setting},
    functions::{self, Fit, Function},
    logreg::{self, Preparation, ScoreJob, ScorePlan, ScoredModel, TrainPlan, TrainSpec},
    search,
    stats::{self, GroupJob, GroupPlan, HistogramJob, HistogramPlan, StatsPlan},
};
use sudare_arith::prng::{Seed, Stream};

/// Random numbers of one job.
struct Draws(Stream);

impl Draws {
    fn below(&mut self, end: u64) -> usize {
        (self.0.next_u64() % end) as usize
    }

    /// Within `low..high`.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The numbers of what is planned, in order, names left out: parameters with the digest of their
/// primes, keys, and everything that the plan has.
fn text(params: &dyn Debug, keys: &KeyRequest, plan: &dyn Debug) -> String {
    let all = format!("{params:?} {keys:?} {plan:?}");
    let words = all.split(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    words.filter(|word| is_number(word) || word.len() >= 16).collect::<Vec<_>>().join(" ")
}

/// The plan of a job of the kind and the shape that follow from a number.
fn planned(number: u64) -> String {
    let mut draws = Draws(Stream::new(&Seed::from_bytes([11; 32]), "plans", number));
    let rows = 20 + draws.below(1 << (5 + number % 8));
    let features = 1 + draws.below(30);
    match number % 9 {
        0 => {
            let params = StatsPlan::auto_params(&stats::Job { rows, features }).unwrap();
            let plan = StatsPlan::new(&stats::Job { rows, features }, &params).unwrap();
            text(&params, plan.required_keys(), &plan)
        }
        1 => {
            let job = GroupJob { rows, features, groups: 1 + draws.below(20) };
            let params = GroupPlan::auto_params(&job).unwrap();
            let plan = GroupPlan::new(&job, &params).unwrap();
            text(&params, plan.required_keys(), &plan)
        }
        2 => {
            let job = HistogramJob { rows, features, bins: 2 + draws.below(12) };
            let params = HistogramPlan::auto_params(&job).unwrap();
            let plan = HistogramPlan::new(&job, &params).unwrap();
            text(&params, plan.required_keys(), &plan)
        }
        3 => {
            let classes = 2 + draws.below(3) as u32;
            let model = ScoredModel::Given { features, classes, probability: None };
            let params = ScorePlan::auto_params(&ScoreJob { rows, model }).unwrap();
            let plan = ScorePlan::new(&ScoreJob { rows, model }, &params).unwrap();
            text(&params, plan.required_keys(), &plan)
        }
        4 => {
            let preparation = [Preparation::Whiten, Preparation::Standardize, Preparation::Scale];
            let preparation = preparation[draws.below(3)];
            let spec = TrainSpec::recommended(rows, features, preparation).unwrap();
            let job = logreg::Job { rows, features, spec };
            let params = TrainPlan::auto_params(&job).unwrap();
            let plan = TrainPlan::new(&job, &params).unwrap();
            text(&params, plan.required_keys(), &plan)
        }
        5 => function(&mut draws),
        6 => integers(&mut draws),
        7 => counts(rows, &mut draws),
        _ => {
            let spec = search::Spec {
                dimension: 2 + draws.below(200),
                rows,
                metric: search::Metric::InnerProduct {
                    largest: draws.between(0.5, 40.0),
                    largest_query: draws.between(0.5, 2.0),
                },
                mode: search::Mode::Encrypted,
                answer: search::Answer::Scores,
            };
            let params = search::Plan::auto_params(&spec).unwrap();
            let plan = search::Plan::new(&spec, &params).unwrap();
            text(&params, plan.required_keys(), &(plan.query_form(), plan.largest_error()))
        }
    }
}

/// A setting of exact arrays.
fn integers(draws: &mut Draws) -> String {
    let moduli = [257, 65_537, 786_433, 257 * 257, (1 << 32) - (1 << 20) + 1];
    let choice = exact::plan(moduli[draws.below(5)], draws.below(5) as u32).unwrap();
    let params = ExactParams::new(choice.spec).unwrap();
    let scheme = [Scheme::Bgv, Scheme::Bfv][draws.below(2)];
    let setting = Setting::new(params, scheme, draws.below(2) == 0).unwrap();
    let shape = [1 + draws.below(300), 1 + draws.below(300)];
    let layout = setting.layout(&shape).unwrap();
    text(setting.params(), &setting.required_keys().unwrap(), &(setting.slots(), layout))
}

/// Counts of rows by a group, and where another column has some codes.
fn counts(rows: usize, draws: &mut Draws) -> String {
    let codes = [2 + draws.below(12) as u32, 2 + draws.below(12) as u32];
    let accepted = (0..=draws.below(codes[1].into()) as u32).collect();
    let condition = exact::Condition { column: 1, accepted };
    let plan = CountsPlan::new(rows, &codes, &[0], vec![condition]).unwrap();
    let params = ExactParams::new(exact::plan(65_537, 4).unwrap().spec).unwrap();
    let setting = Setting::new(params, Scheme::Bgv, false).unwrap();
    let layout = setting.layout(&plan.shape()).unwrap();
    text(setting.params(), &setting.required_keys().unwrap(), &(&plan, layout))
}

/// A polynomial and where it stands; what it is of is a pointer, which no two programs share.
fn function(draws: &mut Draws) -> String {
    let params = Params::new(ckks::preset("functions-n14").unwrap().spec).unwrap();
    let low = draws.between(0.2, 1.0);
    let high = draws.between(2.0, 6.0);
    let fit = Fit::Degree(5 + draws.below(10));
    let found: Function = match draws.below(5) {
        0 => functions::exp(-low..high, fit),
        1 => functions::log(low..high, fit),
        2 => functions::sigmoid(-high..high, fit),
        3 => functions::tanh(-high..high, fit),
        _ => functions::inverse(low..high, fit),
    }
    .unwrap();
    let values: Vec<f64> = (0..=20)
        .map(|i| found.evaluate(found.interval().start + f64::from(i) / 20.0 * low))
        .collect();
    let plan = found.plan(&params).unwrap();
    let shape = (plan.level(), plan.scale(), plan.output_level());
    text(&params, plan.required_keys(), &(shape, found.max_error(), values))
}

/// Digest of the plans of so many jobs.
fn digest(jobs: u64) -> String {
    let mut hasher = blake3::Hasher::new();
    for number in 0..jobs {
        let plan = planned(number);
        hasher.update(&(plan.len() as u64).to_le_bytes());
        hasher.update(plan.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[test]
fn plans_of_random_jobs_are_known() {
    assert_eq!(digest(63), "3a40e1caa8f5a0346cfda35fafc8c8ebe2d9d2def72edc459688ea0798c7adea");
}

#[test]
#[ignore = "minutes"]
fn plans_of_1000_random_jobs_are_known() {
    assert_eq!(digest(1000), "5c5ee6b3d5707f27b87a1574aa2a3dbaa3cdd0aa0a4ec9822eb381a1e3acfebe");
}

/// Jobs that differ a little have other plans, so that digests say something.
#[test]
fn plans_tell_jobs_apart() {
    let plans: std::collections::BTreeSet<String> = (0..18).map(planned).collect();
    assert_eq!(plans.len(), 18);
    assert!(plans.iter().all(|plan| plan.split(' ').count() > 15));
}
