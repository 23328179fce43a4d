//! Checks the security of the keys of jobs with an independent estimator.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

#[path = "../../sudare/tests/estimator/mod.rs"]
mod estimator;

use estimator::Secret;
use sudare::rlwe::{KeyRequest, KeySecurity, SecretDistribution::UniformTernary};
use sudare_apps::{
    logreg::{self, Preparation, ScoreJob, ScoredModel, TrainSpec},
    stats::{self, GroupJob, HistogramJob},
};
use sudare_arith::prng::{Seed, Stream};
use sudare_roles::job::Job;

/// Maximum difference in bits between the table and the estimator.
const TOLERANCE: f64 = 0.8;

/// Returns jobs of every kind, with shapes that follow from a number.
fn job(number: u64) -> Job {
    let mut stream = Stream::new(&Seed::from_bytes([9; 32]), "jobs", number);
    let mut below = |end: u64| (stream.next_u64() % end) as usize;
    let rows = 20 + below(1 << (5 + number % 8));
    let features = 1 + below(30);
    match number % 5 {
        0 => Job::Stats(stats::Job { rows, features }),
        1 => Job::Groups(GroupJob { rows, features, groups: 1 + below(20) }),
        2 => Job::Histogram(HistogramJob { rows, features, bins: 2 + below(12) }),
        3 => {
            let classes = 2 + below(3) as u32;
            let model = ScoredModel::Given { features, classes, probability: None };
            Job::Predict(ScoreJob { rows, model })
        }
        _ => {
            let preparation =
                [Preparation::Whiten, Preparation::Standardize, Preparation::Scale][below(3)];
            let spec = TrainSpec::recommended(rows, features, preparation).unwrap();
            Job::Train(logreg::Job { rows, features, spec })
        }
    }
}

/// Returns the bits of a key by the estimator, for its ephemeral secret if it has one.
fn estimated(log_n: u32, request: &KeyRequest, key: &KeySecurity) -> f64 {
    let ephemeral = request.raise.filter(|_| key.what.starts_with("key to an ephemeral"));
    let secret = ephemeral.map_or(Secret::Ternary, |raise| Secret::Weight(raise.weight));
    estimator::security_bits(log_n, secret, key.log2_q)
}

fn keys_are_secure(jobs: u64) {
    let mut keys = 0;
    for number in 0..jobs {
        let job = job(number);
        let params = job.auto_params().unwrap();
        let rlwe = params.rlwe();
        assert_eq!(rlwe.spec().secret, UniformTernary);
        let plan = job.plan(&params).unwrap();
        let request = plan.required_keys();
        for key in request.key_security(rlwe).unwrap().iter().chain(&rlwe.key_security()) {
            let KeySecurity { what, log2_q, security_bits } = key;
            let found = estimated(rlwe.log_n(), request, key);
            let about = format!("{job}, {what} of {log2_q} bits: {security_bits}, {found}");
            assert!(*security_bits >= 128.0 && found >= 128.0 - TOLERANCE, "{about}");
            assert!(*security_bits <= found + TOLERANCE || found > 256.0, "{about}");
            keys += 1;
        }
    }
    assert!(keys >= 3 * jobs);
}

#[test]
fn keys_of_random_jobs_are_secure_by_the_estimator_too() {
    keys_are_secure(20);
}

#[test]
#[ignore = "minutes"]
fn keys_of_many_random_jobs_are_secure_by_the_estimator_too() {
    keys_are_secure(500);
}
