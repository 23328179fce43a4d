use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use sudare::{
    ckks::{self, Ciphertext, Decryptor, Encryptor, Evaluator, Params, planner::Room},
    rlwe::KeyGenerator,
};
use sudare_arith::prng::{Seed, Stream};

use super::{plan::propose, *};

mod matches;

/// An owner, a server and an index between them, in a ring too small to be secure.
struct World {
    plan: Plan,
    encryptor: Encryptor,
    decryptor: Decryptor,
    evaluator: Evaluator,
    /// Blocks by their numbers.
    index: BTreeMap<usize, Vec<Ciphertext>>,
    vectors: Vec<Vec<f64>>,
    payloads: Vec<Vec<u8>>,
    deleted: Vec<usize>,
    /// Blocks that were encrypted so far, in this order.
    encrypted: Vec<usize>,
}

fn params(spec: &Spec, log_n: u32) -> Params {
    let proposed = propose(spec, log_n).unwrap();
    let spec = Room::UNLIMITED.complete(proposed).unwrap();
    Params::new(ckks::Spec { insecure: true, ..spec }).unwrap()
}

impl World {
    fn new(spec: &Spec, log_n: u32) -> Self {
        Self::with(spec, &params(spec, log_n))
    }

    fn with(spec: &Spec, params: &Params) -> Self {
        let plan = Plan::new(spec, params).unwrap();
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys()).unwrap());
        Self {
            plan,
            encryptor: Encryptor::new(params, public).unwrap(),
            decryptor: Decryptor::new(params, secret).unwrap(),
            evaluator: Evaluator::new(params, keys).unwrap(),
            index: BTreeMap::new(),
            vectors: Vec::new(),
            payloads: Vec::new(),
            deleted: Vec::new(),
            encrypted: Vec::new(),
        }
    }

    fn records(&self, block: usize) -> Vec<Option<Record<'_>>> {
        let length = self.plan.block_len();
        let rows = (block * length..self.vectors.len()).take(length);
        let record = |row: usize| {
            let record = Record { vector: &self.vectors[row], payload: &self.payloads[row] };
            (!self.deleted.contains(&row)).then_some(record)
        };
        rows.map(record).collect()
    }

    /// Encrypts a block in its current state.
    fn encrypt(&mut self, block: usize) {
        let mut parts = Vec::new();
        let write = |part: usize, ciphertext: Ciphertext| {
            assert_eq!(part, parts.len());
            parts.push(ciphertext);
            Ok(())
        };
        self.plan.encrypt_block(&self.encryptor, block, &self.records(block), write).unwrap();
        assert_eq!(parts.len(), self.plan.block_parts());
        self.index.insert(block, parts);
        self.encrypted.push(block);
    }

    fn blocks(&self) -> usize {
        self.plan.blocks(self.vectors.len()).unwrap()
    }

    /// Adds records, and encrypts the blocks that contain them.
    fn append(&mut self, vectors: &[Vec<f64>], payloads: &[Vec<u8>]) {
        let first = self.vectors.len() / self.plan.block_len();
        self.vectors.extend_from_slice(vectors);
        self.payloads.extend_from_slice(payloads);
        if self.plan.spec().mode != Mode::PlainIndex {
            (first..self.blocks()).for_each(|block| self.encrypt(block));
        }
    }

    fn delete(&mut self, row: usize) {
        self.deleted.push(row);
        if self.plan.spec().mode != Mode::PlainIndex {
            self.encrypt(row / self.plan.block_len());
        }
    }

    /// Calls `f` with a search for a query.
    fn search<T>(&self, query: &[f64], f: impl FnOnce(Search<'_, Evaluator>) -> T) -> T {
        if self.plan.spec().mode == Mode::PlainQuery {
            return f(self.plan.search(&self.evaluator, Query::Plain(query)).unwrap());
        }
        let query = self.plan.encrypt_query(&self.encryptor, query).unwrap();
        f(self.plan.search(&self.evaluator, Query::Encrypted(&query)).unwrap())
    }

    /// Calls `f` with a block as the server has it.
    fn with_block<T>(&self, block: usize, f: impl FnOnce(Block<'_, Ciphertext>) -> T) -> T {
        match self.index.get(&block) {
            Some(parts) => f(Block::Encrypted(&mut |part| Ok(parts[part].clone()))),
            None => f(Block::Plain(&self.records(block))),
        }
    }

    fn scores(&self, query: &[f64]) -> Vec<f64> {
        self.search(query, |search| {
            let scores = |block| {
                let scores = self.with_block(block, |content| search.scores(block, content));
                let slots = self.plan.decrypt(&self.decryptor, &[scores.unwrap()]).unwrap();
                let records = self.records(block).len();
                self.plan.decode_scores(block, records, &slots[0]).unwrap()
            };
            (0..self.blocks()).flat_map(scores).collect()
        })
    }
}

/// Random numbers that are roughly normal.
fn random_vectors(seed: u64, dimension: usize, count: usize) -> Vec<Vec<f64>> {
    let mut stream = Stream::new(&Seed::from_bytes([7; 32]), "test", seed);
    let mut coordinate = || {
        let uniform = |word: u64| word as f64 / u64::MAX as f64 - 0.5;
        (0..4).map(|_| uniform(stream.next_u64())).sum::<f64>()
    };
    (0..count).map(|_| (0..dimension).map(|_| coordinate()).collect()).collect()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The similarity by definition. For distances, it is the square.
fn similarity(metric: Metric, a: &[f64], b: &[f64]) -> f64 {
    let inner: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    match metric {
        Metric::Cosine => inner / norm(a) / norm(b),
        Metric::InnerProduct { .. } => inner,
        Metric::Euclidean { .. } => a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum(),
    }
}

const METRICS: [Metric; 3] = [
    Metric::Cosine,
    Metric::InnerProduct { largest: 4.0, largest_query: 5.0 },
    Metric::Euclidean { largest: 4.5 },
];

const MODES: [Mode; 3] = [Mode::PlainIndex, Mode::Encrypted, Mode::PlainQuery];

fn assert_scores(world: &World, query: &[f64]) {
    let found = world.scores(query);
    assert_eq!(found.len(), world.vectors.len());
    let bound = world.plan.largest_error();
    for (row, (found, vector)) in found.iter().zip(&world.vectors).enumerate() {
        if world.deleted.contains(&row) {
            continue;
        }
        let expected = similarity(world.plan.spec().metric, vector, query);
        let error = (found - expected).abs();
        assert!(error < bound, "row {row}: {found}, expected {expected}, bound {bound}");
    }
}

/// In all modes and metrics, with groups of several slots, one slot, and several blocks.
#[test]
fn scores_are_those_in_the_clear() {
    for metric in METRICS {
        for mode in MODES {
            for (dimension, rows, spare) in [(5, 9, 0), (19, 3, 40), (3, 700, 0)] {
                let rows_planned = rows + spare;
                let answer = Answer::Scores;
                let spec = Spec { dimension, rows: rows_planned, metric, mode, answer };
                let mut world = World::new(&spec, 9);
                let vectors = random_vectors(1, dimension, rows);
                world.append(&vectors, &vec![Vec::new(); rows]);
                assert_scores(&world, &random_vectors(2, dimension, 1)[0]);
                // A vector of the index is nearest to itself.
                let nearest = world.scores(&vectors[1]).into_iter().enumerate();
                let nearest = world.plan.nearest(nearest, 2);
                assert!(metric == METRICS[1] || nearest[0].0 == 1, "{nearest:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Compares scores for any shape, with deleted rows, in all modes and metrics.
    #[test]
    fn scores_of_any_shape_are_those_in_the_clear(
        dimension in 1_usize..=32,
        rows in 1_usize..=700,
        spare in 0_usize..=200,
        (metric, mode) in (0..METRICS.len(), 0..MODES.len()),
        deleted in proptest::collection::vec(any::<proptest::sample::Index>(), 0..3),
        seed in any::<u64>(),
    ) {
        // Shortened to the largest allowed norm.
        let within = |mut vector: Vec<f64>| {
            let length = 4.0 / norm(&vector).max(4.0);
            vector.iter_mut().for_each(|x| *x *= length);
            vector
        };
        let vectors = |seed, count| {
            random_vectors(seed, dimension, count).into_iter().map(within).collect::<Vec<_>>()
        };
        let metric = METRICS[metric];
        let mode = MODES[mode];
        let spec = Spec { dimension, rows: rows + spare, metric, mode, answer: Answer::Scores };
        let mut world = World::new(&spec, 9);
        world.append(&vectors(seed, rows), &vec![Vec::new(); rows]);
        deleted.iter().for_each(|row| world.delete(row.index(rows)));
        assert_scores(&world, &vectors(!seed, 1)[0]);
    }
}

#[test]
fn appending_and_deleting_encrypt_one_block() {
    for mode in MODES {
        let spec =
            Spec { dimension: 4, rows: 600, metric: METRICS[2], mode, answer: Answer::Scores };
        let mut world = World::new(&spec, 9);
        let vectors = random_vectors(3, 4, 530);
        let none = vec![Vec::new(); 530];
        world.append(&vectors[..300], &none[..300]);
        world.append(&vectors[300..], &none[300..]);
        let query = &random_vectors(4, 4, 1)[0];
        assert_scores(&world, query);
        assert_eq!(world.blocks(), 2);
        world.delete(520);
        world.delete(17);
        assert_scores(&world, query);
        let encrypted: &[usize] = if mode == Mode::PlainIndex { &[] } else { &[0, 0, 1, 1, 0] };
        assert_eq!(world.encrypted, encrypted);
    }
}

#[test]
fn nearest_ones_come_first() {
    let spec = |metric| Spec {
        dimension: 2,
        rows: 4,
        metric,
        mode: Mode::PlainQuery,
        answer: Answer::Scores,
    };
    let plan = |metric| Plan::new(&spec(metric), &params(&spec(metric), 9)).unwrap();
    let scores = [(0, 0.5), (1, f64::NAN), (2, 0.75), (3, 0.5)];
    let rows = |plan: Plan, most| {
        plan.nearest(scores, most).iter().map(|(row, _)| *row).collect::<Vec<_>>()
    };
    assert_eq!(rows(plan(METRICS[0]), 9), [2, 0, 3, 1]);
    assert_eq!(rows(plan(METRICS[2]), 3), [0, 3, 2]);
    assert!(rows(plan(METRICS[2]), 0).is_empty());
}

/// Proposals have 128 bits of security, in the smallest ring that is precise enough.
#[test]
fn proposals_are_secure_and_small() {
    for (dimension, rows, mode, log_n) in [
        (128, 50_000, Mode::Encrypted, 13),
        (256, 1_000_000, Mode::PlainIndex, 13),
        (768, 1000, Mode::PlainQuery, 13),
        (100, 50_000, Mode::Encrypted, 13),
        (4096, 10, Mode::Encrypted, 13),
    ] {
        let metric = Metric::Cosine;
        let spec = Spec { dimension, rows, metric, mode, answer: Answer::Scores };
        let params = Plan::auto_params(&spec).unwrap();
        assert!(params.rlwe().security_bits() >= 128.0 && params.log_n() == log_n);
        let plan = Plan::new(&spec, &params).unwrap();
        assert!(plan.largest_error() < 1.0 / 4096.0, "{}", plan.largest_error());
        // One automorphism for each part of a query except the first.
        let explained = plan.explain().unwrap();
        let spread = explained.query.counts.automorphisms as usize;
        let parts = if mode == Mode::PlainQuery { 1 } else { plan.layout.parts() };
        assert_eq!(spread, parts - 1);
        // Parts in the clear have no ciphertexts.
        let [index, query] = [explained.index_bytes, explained.query_bytes].map(|bytes| bytes > 0);
        assert_eq!((index, query), (mode != Mode::PlainIndex, mode != Mode::PlainQuery));
        assert_eq!(explained.block_parts > 0, index);
    }
}

#[test]
fn impossible_searches_are_refused() {
    let good = Spec {
        dimension: 4,
        rows: 100,
        metric: Metric::Euclidean { largest: 2.0 },
        mode: Mode::Encrypted,
        answer: Answer::Scores,
    };
    let small = params(&good, 9);
    for (bad, what) in [
        (Spec { dimension: 0, ..good }, "found 0 coordinates"),
        (Spec { dimension: 5000, ..good }, "found 5000 coordinates"),
        (Spec { dimension: 255, ..good }, "1 to 254 are possible"),
        (Spec { rows: 0, ..good }, "found 0 records"),
        (Spec { rows: usize::MAX, ..good }, "records, but 1 to 67108864"),
        (Spec { metric: Metric::Euclidean { largest: f64::NAN }, ..good }, "a largest norm of NaN"),
        (Spec { metric: Metric::Euclidean { largest: 0.0 }, ..good }, "a largest norm of 0"),
    ] {
        let refused = Plan::new(&bad, &small).unwrap_err().to_string();
        assert!(refused.contains(what), "{refused}");
    }
    let world = World::new(&good, 9);
    let refused = |vector: &[f64]| {
        world.plan.encrypt_query(&world.encryptor, vector).unwrap_err().to_string()
    };
    assert!(refused(&[1.0; 3]).contains("the query: it has 3 coordinates"));
    assert!(refused(&[0.0, f64::NAN, 0.0, 0.0]).contains("coordinate 1 is NaN"));
    assert!(refused(&[2.0; 4]).contains("its norm is 4"));
    assert!(refused(&[f64::MAX; 4]).contains("its norm is inf"));

    let vector = [0.5; 4];
    let record = |payload: &'static [u8]| Some(Record { vector: &vector, payload });
    let encrypt = |block, records: &[Option<Record<'_>>]| {
        let refused = world.plan.encrypt_block(&world.encryptor, block, records, |_, _| Ok(()));
        refused.unwrap_err().to_string()
    };
    assert!(encrypt(1, &[record(b"")]).contains("found 1 as the number of a block"));
    assert!(encrypt(0, &[record(b""); 101]).contains("found 101 records of a block"));
    assert!(encrypt(0, &[record(b"x")]).contains("found 1 bytes of a payload"));
    assert!(world.plan.blocks(101).is_err());
    assert!(matches!(
        world.plan.decode_scores(0, 1, &[]),
        Err(SearchError::Shape { what: "slots of scores", .. })
    ));
}

/// Inputs that are not part of this index, or differ from the plan, are rejected before any
/// computation.
#[test]
fn other_inputs_are_refused() {
    let spec = Spec {
        dimension: 4,
        rows: 100,
        metric: Metric::Cosine,
        mode: Mode::Encrypted,
        answer: Answer::Scores,
    };
    let mut world = World::new(&spec, 9);
    world.append(&random_vectors(5, 4, 7), &vec![Vec::new(); 7]);
    let plan = &world.plan;
    let vector = [1.0; 4];
    let query = plan.encrypt_query(&world.encryptor, &vector).unwrap();
    let search = plan.search(&world.evaluator, Query::Encrypted(&query)).unwrap();
    let scores = |content: Block<'_, Ciphertext>| search.scores(0, content);
    let plain = scores(Block::Plain(&[None]));
    assert!(matches!(plain, Err(SearchError::NotAsPlanned { what: "the index", .. })));
    let low = scores(Block::Encrypted(&mut |part| Ok(world.index[&0][part].clone()))).unwrap();
    let other = scores(Block::Encrypted(&mut |_| Ok(low.clone())));
    assert!(matches!(other, Err(SearchError::NotAsPlanned { what: "a part of the index", .. })));
    let unreadable =
        SearchError::Unreadable { block: 0, part: 1, problem: "it is not there".into() };
    let missing = scores(Block::Encrypted(&mut |_| Err(unreadable.clone())));
    assert_eq!(missing.unwrap_err(), unreadable);
    let stranger = World::new(&spec, 9);
    let foreign = stranger.encryptor.clone();
    let foreign = plan.encrypt_query(&foreign, &vector).unwrap();
    let refused = plan.search(&world.evaluator, Query::Encrypted(&foreign));
    assert!(matches!(refused.err(), Some(SearchError::Library(_))));
    let plain = plan.search(&world.evaluator, Query::Plain(&vector));
    assert!(matches!(plain.err(), Some(SearchError::NotAsPlanned { what: "the query", .. })));
    let other = plan.search(&world.evaluator, Query::Encrypted(&low));
    assert!(matches!(other.err(), Some(SearchError::NotAsPlanned { what: "the query", .. })));
    let larger = World::new(&spec, 10);
    let refused = plan.search(&larger.evaluator, Query::Encrypted(&query));
    assert!(matches!(refused.err(), Some(SearchError::NotAsPlanned { .. })));
    let outside = search.scores(1, Block::Encrypted(&mut |_| Ok(query.clone())));
    assert!(matches!(outside, Err(SearchError::Count { .. })));
}
