use super::*;
use std::collections::BTreeSet;

/// A specification of matches of the metrics of [`METRICS`], with gaps that [`vector_at`] knows.
fn spec(metric: Metric, mode: Mode, rows: usize) -> Spec {
    let threshold = match metric {
        Metric::Cosine => Threshold { at: 0.8, margin: 0.1 },
        Metric::InnerProduct { .. } => Threshold { at: 16.0, margin: 2.0 },
        Metric::Euclidean { .. } => Threshold { at: 1.0, margin: 0.3 },
    };
    let answer = Answer::Matches { threshold, most: 3, payload: 4 };
    Spec { dimension: 5, rows, metric, mode, answer }
}

fn counting(spec: Spec) -> Spec {
    let Answer::Matches { threshold, .. } = spec.answer else { panic!("{spec:?}") };
    Spec { answer: Answer::Count(threshold), ..spec }
}

/// A query of norm 1, or 5 for inner products.
fn query(metric: Metric) -> Vec<f64> {
    let direction = &random_vectors(11, 5, 1)[0];
    let length = if matches!(metric, Metric::InnerProduct { .. }) { 5.0 } else { 1.0 };
    direction.iter().map(|x| x * length / norm(direction)).collect()
}

/// A vector of a similarity to the query: a cosine, a fraction of the largest inner product, or a
/// distance.
fn vector_at(metric: Metric, similarity: f64, seed: u64) -> Vec<f64> {
    let query = query(metric);
    let direction: Vec<f64> = query.iter().map(|x| x / norm(&query)).collect();
    let other = &random_vectors(1000 + seed, 5, 1)[0];
    let along: f64 = other.iter().zip(&direction).map(|(a, b)| a * b).sum();
    let across: Vec<f64> = other.iter().zip(&direction).map(|(a, b)| a - along * b).collect();
    let (length, along, beside) = match metric {
        Metric::Cosine => (0.3, similarity, (1.0 - similarity.powi(2)).sqrt()),
        Metric::InnerProduct { .. } => (4.0, similarity, (1.0 - similarity.powi(2)).sqrt()),
        Metric::Euclidean { .. } => (1.0, 1.0, similarity),
    };
    let across = across.iter().map(|x| x / norm(&across));
    let sum = |(a, b): (&f64, f64)| length * (along * a + beside * b);
    direction.iter().zip(across).map(sum).collect()
}

/// Similarities of matches, at the margin and beyond, and of others.
fn similarities(metric: Metric) -> ([f64; 3], [f64; 4]) {
    match metric {
        Metric::Euclidean { .. } => ([0.7, 0.0, 0.4], [1.3, 2.0, 3.0, 1.5]),
        _ => ([0.9, 1.0, 0.95], [0.7, 0.3, -1.0, -0.4]),
    }
}

fn payload(row: usize) -> Vec<u8> {
    (row as u32).wrapping_mul(0x9e37_79b9).to_le_bytes().to_vec()
}

/// Vectors and their payloads. The ones in `matching` match.
fn records(metric: Metric, rows: usize, matching: &[usize]) -> (Vec<Vec<f64>>, Vec<Vec<u8>>) {
    let (near, far) = similarities(metric);
    let vector = |row: usize| match matching.iter().position(|&other| other == row) {
        Some(index) => vector_at(metric, near[index % near.len()], row as u64),
        None => vector_at(metric, far[row % far.len()], row as u64),
    };
    (0..rows).map(|row| (vector(row), payload(row))).unzip()
}

impl World {
    fn answer(&self, query: &[f64]) -> Vec<Vec<ckks::Complex<f64>>> {
        let answer = self.search(query, |mut search| {
            for block in 0..self.blocks() {
                self.with_block(block, |content| search.add(block, content)).unwrap();
            }
            search.finish().unwrap()
        });
        self.plan.decrypt(&self.decryptor, &answer).unwrap()
    }

    fn matches(&self) -> Matches {
        let query = query(self.plan.spec().metric);
        self.plan.decode_matches(&self.answer(&query)).unwrap()
    }
}

fn assert_found(matches: &Matches, rows: &[usize]) {
    let found: Vec<_> = matches.found.iter().map(|found| found.row).collect();
    assert_eq!(found, rows);
    assert!(matches.found.iter().all(|found| found.payload == payload(found.row)));
    assert!(matches.is_complete());
    assert_eq!(matches.more_than_planned, rows.len() > 3);
}

/// No match, some, the planned number, and one more, in all modes and metrics. Some similarities
/// are at the margin.
#[test]
fn matches_are_those_in_the_clear() {
    for metric in METRICS {
        for mode in MODES {
            let planned = spec(metric, mode, 40);
            let params = params(&planned, 9);
            for matching in [&[][..], &[39], &[0, 7, 8], &[3, 17, 20, 33]] {
                let mut world = World::with(&planned, &params);
                let (vectors, payloads) = records(metric, 40, matching);
                world.append(&vectors, &payloads);
                let matches = world.matches();
                assert!(matches.found.len() + matches.crowded == matching.len(), "{matches:?}");
                if matches.crowded == 0 {
                    assert_found(&matches, matching);
                }
                // The same answer tells their number.
                let count = world.plan.decode_count(&world.answer(&query(metric))).unwrap();
                assert_eq!(count, Count { matches: matching.len(), undecided: 0 });
            }
        }
    }
}

/// Tests every place of a block and of the next one, for metrics and numbers of matches between 1
/// and 33. Records are axes of the space, and a query along one axis matches the records on it.
#[test]
fn matches_are_found_at_every_position() {
    const DIMENSION: usize = 24;
    for (metric, mode) in METRICS.into_iter().zip(MODES) {
        let planned = spec(metric, mode, 600);
        let Answer::Matches { threshold, payload: bytes, .. } = planned.answer else { panic!() };
        let answer = Answer::Matches { threshold, most: 40, payload: bytes };
        let mut world = World::new(&Spec { dimension: DIMENSION, answer, ..planned }, 9);
        assert!(world.plan.block_len() < 600);
        // Numbers without a pattern. One axis has a single record.
        let axis = |row: usize| match row {
            511 => DIMENSION - 1,
            _ => row.wrapping_mul(0x9e37_79b9) / 7 % (DIMENSION - 1),
        };
        let (of_record, of_query) = match metric {
            Metric::Cosine => (0.3, 1.0),
            Metric::InnerProduct { .. } => (4.0, 5.0),
            Metric::Euclidean { .. } => (1.0, 1.0),
        };
        let along = |axis: usize, length: f64| {
            (0..DIMENSION).map(|i| if i == axis { length } else { 0.0 }).collect::<Vec<_>>()
        };
        let (vectors, payloads): (Vec<_>, Vec<_>) =
            (0..600).map(|row| (along(axis(row), of_record), payload(row))).unzip();
        world.append(&vectors, &payloads);
        let mut told = 0;
        let mut crowded = 0;
        for number in 0..DIMENSION {
            let matches = world.answer(&along(number, of_query));
            let matches = world.plan.decode_matches(&matches).unwrap();
            let expected = (0..600).filter(|&row| axis(row) == number).count();
            assert_eq!(matches.found.len() + matches.crowded, expected, "{matches:?}");
            for found in &matches.found {
                assert_eq!((axis(found.row), &found.payload), (number, &payload(found.row)));
            }
            told += matches.found.len();
            crowded += matches.crowded;
        }
        assert!(told + crowded == 600 && crowded < 20, "{crowded}");
    }
}

/// With parameters of 128 bits, in a ring of `2^15`.
#[test]
fn matches_at_128_bits_are_those_in_the_clear() {
    let metric = Metric::Cosine;
    let planned = Spec { dimension: 20, rows: 4000, ..spec(metric, Mode::Encrypted, 1) };
    let params = Plan::auto_params(&planned).unwrap();
    assert!(params.rlwe().security_bits() >= 128.0);
    let mut world = World::with(&planned, &params);
    assert!(world.plan.layout.parts() > 2 && world.plan.layout.group > 1);
    let padded = |vector: &Vec<f64>| [&vector[..], &[0.0; 15]].concat();
    let (vectors, payloads) = records(metric, 4000, &[0, 2500, 3999]);
    world.append(&vectors.iter().map(padded).collect::<Vec<_>>(), &payloads);
    let query = padded(&query(metric));
    let matches = world.plan.decode_matches(&world.answer(&query)).unwrap();
    assert_found(&matches, &[0, 2500, 3999]);
    assert_scores(&world, &query);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Compares any shape and any number of matches around the planned one, in all modes and
    /// metrics. The similarities of matches and of others are at the ends of the gap.
    #[test]
    fn matches_of_any_shape_are_those_in_the_clear(
        dimension in 5_usize..=24,
        rows in 1_usize..=600,
        (metric, mode) in (0..METRICS.len(), 0..MODES.len()),
        most in 1_usize..=32,
        beyond in -1_isize..=1,
        matching in proptest::collection::vec(any::<proptest::sample::Index>(), 33),
    ) {
        let metric = METRICS[metric];
        let mode = MODES[mode];
        let Answer::Matches { threshold, payload: bytes, .. } = spec(metric, mode, 1).answer else {
            panic!("matches are asked for")
        };
        let answer = Answer::Matches { threshold, most, payload: bytes };
        let mut world = World::new(&Spec { dimension, rows, metric, mode, answer }, 9);
        let drawn = matching.iter().take(most.saturating_add_signed(beyond));
        let matching: BTreeSet<usize> = drawn.map(|row| row.index(rows)).collect();
        let (near, far) = similarities(metric);
        let padded = |vector: Vec<f64>| [&vector[..], &vec![0.0; dimension - 5]].concat();
        let vectors = (0..rows).map(|row| {
            let end = if matching.contains(&row) { near[0] } else { far[0] };
            padded(vector_at(metric, end, row as u64))
        });
        let (vectors, payloads): (Vec<_>, Vec<_>) = vectors.zip((0..rows).map(payload)).unzip();
        world.append(&vectors, &payloads);
        let matches = world.plan.decode_matches(&world.answer(&padded(query(metric)))).unwrap();
        prop_assert_eq!(matches.found.len() + matches.crowded, matching.len());
        prop_assert_eq!(matches.more_than_planned, matching.len() > most);
        prop_assert_eq!(matches.undecided, 0);
        for found in &matches.found {
            prop_assert!(matching.contains(&found.row));
            prop_assert_eq!(&found.payload, &payload(found.row));
        }
    }
}

/// No match, one, the number that the suite plans for, and one more, in all modes and metrics.
#[test]
fn as_many_matches_as_planned_are_told_from_one_more() {
    for metric in METRICS {
        for mode in MODES {
            let planned = spec(metric, mode, 64);
            let Answer::Matches { threshold, payload, .. } = planned.answer else { panic!() };
            let answer = Answer::Matches { threshold, most: 32, payload };
            let planned = Spec { answer, ..planned };
            let params = params(&planned, 9);
            for count in [0, 1, 32, 33] {
                let mut world = World::with(&planned, &params);
                let matching: Vec<usize> = (0..count).map(|i| 63 - i).collect();
                let (vectors, payloads) = records(metric, 64, &matching);
                world.append(&vectors, &payloads);
                let matches = world.matches();
                assert_eq!(matches.found.len() + matches.crowded, count);
                assert_eq!(matches.more_than_planned, count > 32, "{count}");
            }
        }
    }
}

/// Records of the last block that are appended, deleted and put back.
#[test]
fn matches_follow_the_index() {
    let metric = Metric::Cosine;
    for mode in MODES {
        let mut world = World::new(&spec(metric, mode, 600), 9);
        let (vectors, payloads) = records(metric, 600, &[5, 511, 512]);
        world.append(&vectors[..500], &payloads[..500]);
        assert_found(&world.matches(), &[5]);
        world.append(&vectors[500..], &payloads[500..]);
        assert_found(&world.matches(), &[5, 511, 512]);
        world.delete(511);
        assert_found(&world.matches(), &[5, 512]);
        assert_scores(&world, &query(metric));
    }
}

#[test]
fn counts_are_those_in_the_clear() {
    for metric in METRICS {
        for (mode, rows) in [(MODES[0], 600), (MODES[1], 30), (MODES[2], 600)] {
            let planned = counting(spec(metric, mode, rows));
            let mut world = World::new(&planned, 9);
            let matching: Vec<_> = (0..rows).filter(|row| row % 7 == 2).collect();
            let (vectors, _) = records(metric, rows, &matching);
            world.append(&vectors, &vec![Vec::new(); rows]);
            let query = query(metric);
            let count = |world: &World| world.plan.decode_count(&world.answer(&query)).unwrap();
            assert_eq!(count(&world), Count { matches: matching.len(), undecided: 0 });
            world.delete(matching[2]);
            assert_eq!(count(&world), Count { matches: matching.len() - 1, undecided: 0 });
            let refused = world.plan.decode_matches(&[]);
            assert!(matches!(refused, Err(SearchError::NotPlanned { asked: "matches", .. })));
        }
    }
}

/// If a bucket has more matches than it can resolve, they are counted and not guessed.
#[test]
fn crowds_are_called_crowds() {
    let metric = Metric::Cosine;
    let planned = spec(metric, Mode::Encrypted, 60);
    let mut world = World::new(&planned, 9);
    let all: Vec<usize> = (0..60).collect();
    let (vectors, payloads) = records(metric, 60, &all);
    world.append(&vectors, &payloads);
    let matches = world.matches();
    assert!(matches.more_than_planned);
    assert_eq!((matches.found.len() + matches.crowded, matches.undecided), (60, 0));
    assert!(matches.found.iter().all(|found| found.payload == payload(found.row)));
}

/// Within the margin a record counts, or not, or is undecided. Other records are not affected.
#[test]
fn records_within_the_margin_may_match_or_not() {
    let metric = Metric::Cosine;
    let mut world = World::new(&spec(metric, Mode::Encrypted, 40), 9);
    let (mut vectors, payloads) = records(metric, 40, &[4, 30]);
    let within = [(10, 0.8), (12, 0.81), (20, 0.745), (21, 0.86)];
    for (row, cosine) in within {
        vectors[row] = vector_at(metric, cosine, row as u64);
    }
    world.append(&vectors, &payloads);
    let matches = world.matches();
    assert!(matches.undecided > 0 && !matches.is_complete());
    for found in &matches.found {
        assert_eq!(found.payload, payload(found.row));
        assert!([4, 30].contains(&found.row) || within.iter().any(|(row, _)| *row == found.row));
    }
}

#[test]
fn blocks_come_in_order() {
    let metric = Metric::Cosine;
    let mut world = World::new(&spec(metric, Mode::PlainQuery, 600), 9);
    let (vectors, payloads) = records(metric, 600, &[]);
    world.append(&vectors, &payloads);
    world.search(&query(metric), |mut search| {
        let second = world.with_block(1, |content| search.add(1, content));
        assert_eq!(second.unwrap_err(), SearchError::BlockOrder { found: 1, needed: 0 });
        world.with_block(0, |content| search.add(0, content)).unwrap();
        let again = world.with_block(0, |content| search.add(0, content));
        assert_eq!(again.unwrap_err(), SearchError::BlockOrder { found: 0, needed: 1 });
    });
    world.search(&query(metric), |search| {
        assert!(matches!(search.finish(), Err(SearchError::Count { .. })));
    });
    let scores = Spec { answer: Answer::Scores, ..*world.plan.spec() };
    let scores = World::new(&scores, 9);
    scores.search(&query(metric), |mut search| {
        let refused = search.add(0, Block::Encrypted(&mut |_| panic!("nothing is read")));
        assert!(matches!(refused, Err(SearchError::NotPlanned { planned: "scores", .. })));
    });
    let refused = scores.plan.decode_count(&[]);
    assert!(matches!(refused, Err(SearchError::NotPlanned { .. })));
}

#[test]
fn impossible_thresholds_are_refused() {
    let refused = |metric, at, margin| {
        let answer = Answer::Count(Threshold { at, margin });
        let spec = Spec { answer, ..spec(metric, Mode::Encrypted, 40) };
        let refused = Plan::auto_params(&spec).unwrap_err();
        assert!(matches!(refused, SearchError::Number { .. }), "{refused}");
        refused.to_string()
    };
    assert!(refused(METRICS[0], 1.1, 0.1).contains("a threshold of 1.1: -1 to 1 is possible"));
    assert!(refused(METRICS[0], f64::NAN, 0.1).contains("a threshold of NaN"));
    assert!(refused(METRICS[0], 0.5, 0.0).contains("a margin of 0"));
    assert!(refused(METRICS[1], -21.0, 0.1).contains("-20 to 20"));
    assert!(refused(METRICS[2], -0.5, 0.1).contains("0 to 9"));
}

/// The workload of the public suite: 50,000 records of 128 coordinates, 63 bits each, up to 32
/// matches.
#[test]
fn the_suite_takes_what_is_documented() {
    let threshold = Threshold { at: 0.8, margin: 0.1 };
    let answer = Answer::Matches { threshold, most: 32, payload: 8 };
    let metric = Metric::Cosine;
    let mode = Mode::Encrypted;
    let spec = Spec { dimension: 128, rows: 50_000, metric, mode, answer };
    let params = Plan::auto_params(&spec).unwrap();
    let plan = Plan::new(&spec, &params).unwrap();
    let explained = plan.explain().unwrap();
    assert!(explained.security_bits >= 128.0);
    assert_eq!((explained.log_n, explained.blocks, explained.block_len), (15, 2, 1 << 15));
    assert_eq!((explained.levels, explained.keys), (11, 9));
    let automorphisms =
        [&explained.query, &explained.block, &explained.end].map(|step| step.counts.automorphisms);
    // A block has one for its inner products, and each half has one between the polynomials of the
    // step.
    assert_eq!(automorphisms, [127, 3, 140]);
    assert_eq!((explained.query.counts.products, explained.block.counts.products), (0, 216));
    assert!(explained.log2_incomplete.unwrap() <= -20.0);
    assert!(explained.index_bytes < 2_500_000_000);
    assert!(explained.query_bytes < 10_000_000 && explained.answer_bytes < 2_000_000);
    assert!(explained.key_bytes < 300_000_000);
}
