use super::{bound::Bound, circuit::Run, *};
use serde::Deserialize;
use std::sync::Arc;
use sudare::{
    circuits::exact::sim,
    exact::{Decryptor, Encryptor, Evaluator, Modulus, Params, Spec},
    rlwe::{KeyGenerator, KeyRequest, Level},
};

/// Random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// A number from 0 to 1.
    fn real(&mut self) -> f64 {
        self.below(1 << 30) as f64 / f64::from(1 << 30)
    }

    /// A tree of at most this height. Some paths end early.
    fn tree(&mut self, height: u64, output: Option<usize>, width: usize, grid: &[Feature]) -> Tree {
        let mut nodes = vec![None];
        let mut open = vec![(0, height)];
        while let Some((node, height)) = open.pop() {
            if height == 0 || (node > 0 && self.below(8) == 0) {
                nodes[node] = Some(Node::Leaf((0..width).map(|_| self.real() - 0.3).collect()));
                continue;
            }
            let feature = self.below(grid.len() as u64) as usize;
            let points = grid[feature].points;
            // On points, between them, and at times outside of the grid.
            let at = grid[feature].point(self.below(points))
                + grid[feature].step * (self.real() - 0.5).round() / 2.0;
            let left = nodes.len();
            nodes.extend([None, None]);
            nodes[node] = Some(Node::Split(Split {
                feature,
                at,
                or_equal: self.below(2) == 0,
                single: self.below(2) == 0,
                left,
                right: left + 1,
            }));
            open.extend([(left, height - 1), (left + 1, height - 1)]);
        }
        Tree { output, nodes: nodes.into_iter().flatten().collect() }
    }

    fn forest(
        &mut self,
        trees: usize,
        height: u64,
        outputs: usize,
        shared: bool,
        grid: &[Feature],
    ) -> Forest {
        let names = grid.iter().map(|feature| feature.name.clone()).collect();
        let trees = (0..trees).map(|number| match shared {
            true => self.tree(height, None, outputs, grid),
            false => self.tree(height, Some(number % outputs), 1, grid),
        });
        let trees = trees.collect();
        let offsets = (0..outputs).map(|output| output as f64 / 2.0).collect();
        Forest::new(names, Link::Identity, offsets, vec![], trees).unwrap()
    }

    fn codes(&mut self, rows: usize, grid: &[Feature]) -> Vec<u64> {
        (0..rows)
            .flat_map(|_| grid.iter().map(|f| f.points).collect::<Vec<_>>())
            .map(|points| self.below(points))
            .collect()
    }
}

/// Grids of one, two, three and four digits.
fn grid() -> Vec<Feature> {
    let sizes =
        [(0.0, 1.0, 2), (-3.5, 0.1, 200), (10.0, 1.0, 12), (0.0, 1e-3, 3000), (-9.0, 0.25, 40_000)];
    let feature = |(place, &(low, step, points)): (usize, &(f64, f64, u64))| {
        Feature::new(&format!("f{place}"), low, step, points).unwrap()
    };
    sizes.iter().enumerate().map(feature).collect()
}

#[test]
fn cuts_decide_as_the_tests_do() {
    let mut random = Random(1);
    for feature in grid() {
        for _ in 0..40 {
            let tree = random.tree(1, Some(0), 1, std::slice::from_ref(&feature));
            let Node::Split(split) = &tree.nodes[0] else { panic!() };
            let cut = feature.cut(split);
            for code in (0..feature.points).step_by(1 + feature.points as usize / 500) {
                assert_eq!(split.passes(feature.point(code)), code < cut, "{split:?} {code}");
                assert_eq!(feature.code(feature.point(code), Outside::Refuse).unwrap(), code);
            }
            for code in cut.saturating_sub(2)..(cut + 2).min(feature.points) {
                assert_eq!(split.passes(feature.point(code)), code < cut, "{split:?} {code}");
            }
        }
    }
}

#[test]
fn rounded_leaves_are_within_the_stated_error() {
    let mut random = Random(2);
    let grid = grid();
    for (outputs, shared) in [(1, false), (3, false), (3, true)] {
        let forest = random.forest(9, 4, outputs, shared, &grid);
        let bound = Bound::new(&forest, &grid, 3000).unwrap();
        let codes = random.codes(200, &grid);
        let mut largest = 0.0f64;
        for codes in codes.chunks(grid.len()) {
            let points: Vec<f64> = grid.iter().zip(codes).map(|(f, &code)| f.point(code)).collect();
            let raw = forest.raw(&points).unwrap();
            for ((sum, output), raw) in bound.sums(codes).iter().zip(&bound.outputs).zip(raw) {
                assert!(sum.unsigned_abs() <= 3000);
                let error = (output.offset + output.unit * *sum as f64 - raw).abs();
                assert!(error <= output.error + 1e-12, "{error} {output:?}");
                largest = largest.max(error / output.error);
            }
        }
        // The bound is no wild guess.
        assert!(largest > 0.2, "{largest}");
    }
}

/// Parameters in a small ring, insecure.
fn params(levels: u32) -> Params {
    let t = Modulus::new(7681, 1).unwrap();
    let spec = Spec::uniform(8, t, 50.0, levels as usize, 40.0, vec![50.0]);
    Params::new(Spec { insecure: true, ..spec }).unwrap()
}

/// Runs a plan on encrypted rows, and checks every sum.
fn check(forest: &Forest, grid: &[Feature], random: &mut Random) -> ForestPlan {
    let mut levels = 5;
    let plan = loop {
        match ForestPlan::with_params(forest, grid, &params(levels)) {
            Err(TreesError::Library(sudare::Error::LevelExhausted { .. })) => levels += 1,
            plan => break plan.unwrap(),
        }
    };
    let params = plan.params();
    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = keygen.secret_key().unwrap();
    let encryptor = Encryptor::new(params, Arc::new(keygen.public_key(&secret).unwrap())).unwrap();
    let keys = keygen.evaluation_keys(&secret, plan.required_keys()).unwrap();
    let evaluator = Evaluator::new(params, Arc::new(keys)).unwrap();
    let setup = plan.setup();
    let codes = random.codes(Setup::block_rows(params) - 3, grid);
    let plains = setup.plaintexts(params, &codes).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(plains.len(), setup.inputs());
    let found = plan.run(&evaluator, |place| encryptor.encrypt(&plains[place])).unwrap();
    let simulator = sim::Evaluator::new(params, &KeyRequest::new());
    let factor = params.fresh_factor(params.top(), params.plaintext_modulus()).unwrap();
    let mut run = Run::new(&simulator, params).unwrap();
    let fresh = |_| simulator.encrypt(params.top(), factor);
    let forms = plan.circuit().run(&mut run, plan.bound(), fresh).unwrap();
    let decryptor = Decryptor::new(params, Arc::new(secret)).unwrap();
    for (found, form) in found.iter().zip(forms) {
        assert_eq!((found.form(), found.level()), (form, Level(0)));
    }
    let opened: Vec<_> = found.iter().map(|found| decryptor.decrypt(found).unwrap()).collect();
    let rows = codes.len() / grid.len();
    let raw = setup.raw(params, &opened, rows).unwrap();
    for (codes, raw) in codes.chunks(grid.len()).zip(raw.chunks(setup.outputs.len())) {
        let expected = plan.bound().sums(codes).into_iter().zip(&setup.outputs);
        let expected: Vec<f64> =
            expected.map(|(sum, output)| output.offset + output.unit * sum as f64).collect();
        assert_eq!(raw, expected);
    }
    plan
}

#[test]
fn encrypted_rows_have_the_sums_of_the_forest() {
    let mut random = Random(3);
    let grid = grid();
    for (trees, height, outputs, shared) in
        [(1, 1, 1, false), (4, 4, 1, false), (5, 3, 3, false), (3, 4, 3, true), (2, 6, 2, true)]
    {
        let forest = random.forest(trees, height, outputs, shared, &grid);
        check(&forest, &grid, &mut random);
    }
    // One digit, and few features.
    let grid = &grid[..3];
    for grid in [&grid[..1], &grid[1..2], &grid[2..]] {
        let forest = random.forest(3, 2, 1, false, grid);
        check(&forest, grid, &mut random);
    }
}

#[test]
fn lopsided_trees_are_as_shallow_as_balanced_ones() {
    let mut random = Random(4);
    let grid = &grid()[1..2];
    // A chain of tests, as trees that grow leaf by leaf have them.
    let chain = (0..10).flat_map(|number| {
        let split = Split {
            feature: 0,
            at: grid[0].point(180 - 15 * number as u64),
            or_equal: false,
            single: false,
            left: 2 * number + 2,
            right: 2 * number + 1,
        };
        [Node::Split(split), Node::Leaf(vec![f64::from(number as u8)])]
    });
    let nodes: Vec<Node> = chain.chain([Node::Leaf(vec![-5.0])]).collect();
    let tree = Tree { output: Some(0), nodes };
    let forest =
        Forest::new(vec!["x".into()], Link::Identity, vec![0.0], vec![], vec![tree]).unwrap();
    let plan = check(&forest, grid, &mut random);
    let explained = plan.explain().unwrap();
    // 5 levels for digits, 1 for two digits, and `ceil(log2(10 + 1))` for the tree.
    assert_eq!((explained.height, explained.levels, explained.thresholds), (10, 10, 10));
}

#[test]
fn a_hundred_trees_fit_a_ring_without_bootstrapping() {
    let grid: Vec<_> =
        (0..20).map(|i| Feature::new(&format!("f{i}"), 0.0, 1.0, 256).unwrap()).collect();
    let mut random = Random(5);
    // Full trees, as in the figure of the design.
    let forest = random.forest(100, 4, 1, false, &grid);
    let plan = ForestPlan::new(&forest, &grid, &PlanOptions::default()).unwrap();
    let explained = plan.explain().unwrap();
    assert_eq!((explained.log_n, explained.levels, explained.inputs), (15, 9, 40));
    assert!(explained.security_bits >= 128.0 && explained.key_bytes < 150_000_000, "{explained:?}");
    assert!(explained.relinearizations < 560 + 1500 + 700, "{explained:?}");
    let finer = PlanOptions { tolerance: Some(explained.error / 100.0) };
    let finer = ForestPlan::new(&forest, &grid, &finer).unwrap().explain().unwrap();
    assert!(finer.error <= explained.error / 100.0 && finer.t > explained.t, "{finer:?}");
    let impossible = PlanOptions { tolerance: Some(1e-30) };
    let refused = ForestPlan::new(&forest, &grid, &impossible).unwrap_err();
    assert!(matches!(refused, TreesError::Tolerance { .. }), "{refused}");
}

#[derive(Deserialize)]
struct Recorded {
    rows: Vec<Vec<f64>>,
    predictions: Vec<Vec<f64>>,
}

#[test]
fn models_of_other_libraries_predict_as_they_do() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
    let models = [
        ("xgboost-binary", "json"),
        ("xgboost-regression", "json"),
        ("xgboost-classes", "json"),
        ("xgboost-dart", "json"),
        ("lightgbm-binary", "txt"),
        ("lightgbm-regression", "txt"),
        ("lightgbm-classes", "txt"),
        ("lightgbm-rf", "txt"),
        ("onnx-classes", "onnx"),
        ("onnx-binary", "onnx"),
        ("onnx-regression", "onnx"),
    ];
    for (name, ending) in models {
        let bytes = std::fs::read(folder.join(format!("{name}.model.{ending}"))).unwrap();
        let forest = Forest::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(Forest::from_json(&forest.to_json().unwrap()).unwrap(), forest, "{name}");
        let recorded = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
        let recorded: Recorded = serde_json::from_slice(&recorded).unwrap();
        for (row, expected) in recorded.rows.iter().zip(&recorded.predictions) {
            let found = forest.predict(row).unwrap();
            assert_eq!(found.len(), expected.len(), "{name}");
            for (found, expected) in found.iter().zip(expected) {
                // The libraries sum in 32 bits.
                let error = (found - expected).abs();
                assert!(error <= 2e-6 * expected.abs().max(1.0), "{name} {found} {expected}");
            }
        }
        // Cut short anywhere, a file is an error, and never another model.
        for part in 1..40 {
            let cut = bytes.len() * part / 40;
            if let Ok(other) = Forest::read(&bytes[..cut]) {
                assert_eq!(other, forest, "{name} cut at {cut}");
            }
        }
    }
}

#[test]
fn models_that_would_be_wrong_are_refused() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let xgboost = text("xgboost-binary.model.json");
    let lightgbm = text("lightgbm-binary.model.txt");
    let change = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Forest::read(text.replacen(from, to, 1).as_bytes())
    };
    for (from, to) in [
        ("\"binary:logistic\"", "\"survival:cox\""),
        ("\"split_type\":[0", "\"split_type\":[1"),
        ("\"categories\":[", "\"categories\":[3"),
        ("\"name\":\"gbtree\"", "\"name\":\"gblinear\""),
        ("\"split_conditions\":[", "\"split_conditions\":[1.0,"),
        ("\"split_conditions\":[", "\"split_conditions\":[NaN,"),
        ("\"size_leaf_vector\":\"1\"", "\"size_leaf_vector\":\"2\""),
    ] {
        let found = change(&xgboost, from, to);
        assert!(
            matches!(found, Err(TreesError::Format { .. } | TreesError::Node { .. })),
            "{to} {found:?}"
        );
    }
    for (from, to) in [
        ("objective=binary sigmoid:1", "objective=unheard_of"),
        ("objective=binary sigmoid:1", "objective=regression sqrt"),
        ("decision_type=2", "decision_type=1"),
        // Zeros are missing.
        ("decision_type=2", "decision_type=6"),
        ("threshold=", "threshold=nan "),
        ("is_linear=0", "is_linear=1"),
        ("num_leaves=9", "num_leaves=8"),
        ("end of trees", ""),
    ] {
        let found = change(&lightgbm, from, to);
        assert!(
            matches!(found, Err(TreesError::Format { .. } | TreesError::Node { .. })),
            "{to} {found:?}"
        );
    }
    // A threshold that is not a number.
    let first = lightgbm.find("threshold=").unwrap() + "threshold=".len();
    let end = first + lightgbm[first..].find(' ').unwrap();
    let nan = Forest::read(format!("{}nan{}", &lightgbm[..first], &lightgbm[end..]).as_bytes());
    assert!(nan.unwrap_err().to_string().contains("a threshold is NaN"));
}

#[test]
fn forests_and_rows_are_checked() {
    let leaf = |value: f64| Node::Leaf(vec![value]);
    let split = |feature, at, left, right| {
        Node::Split(Split { feature, at, or_equal: true, single: false, left, right })
    };
    let forest = |nodes: Vec<Node>| {
        let tree = Tree { output: Some(0), nodes };
        Forest::new(vec!["a".into()], Link::Identity, vec![0.0], vec![], vec![tree])
    };
    let good = forest(vec![split(0, 0.5, 1, 2), leaf(1.0), leaf(2.0)]).unwrap();
    for nodes in [
        vec![leaf(f64::NAN)],
        vec![split(1, 0.5, 1, 2), leaf(1.0), leaf(2.0)],
        vec![split(0, f64::NAN, 1, 2), leaf(1.0), leaf(2.0)],
        vec![split(0, 0.5, 0, 2), leaf(1.0), leaf(2.0)],
        vec![split(0, 0.5, 1, 1), leaf(1.0)],
        vec![split(0, 0.5, 1, 3), leaf(1.0), leaf(2.0)],
        vec![split(0, 0.5, 1, 2), leaf(1.0), leaf(2.0), leaf(3.0)],
        vec![Node::Leaf(vec![1.0, 2.0])],
    ] {
        let found = forest(nodes.clone());
        assert!(matches!(found, Err(TreesError::Node { .. })), "{nodes:?} {found:?}");
    }
    let high: Vec<Node> =
        (0..64).flat_map(|i| [split(0, 0.5, 2 * i + 1, 2 * i + 2), leaf(1.0)]).collect();
    let high = [high, vec![leaf(0.0)]].concat();
    let empty = Forest::new(vec!["a".into()], Link::Identity, vec![0.0], vec![], vec![]);
    let unfit =
        Forest::new(vec!["a".into()], Link::Softmax, vec![0.0], vec![], good.trees().to_vec());
    for found in [forest(vec![]), forest(high), empty, unfit] {
        assert!(matches!(found, Err(TreesError::Forest { .. })), "{found:?}");
    }

    let grid = |points| Feature::new("a", 0.0, 1.0, points);
    let plan =
        |forest: &Forest, grid: &[Feature]| ForestPlan::new(forest, grid, &PlanOptions::default());
    assert!(matches!(plan(&good, &[]), Err(TreesError::Count { .. })));
    // All points pass the test.
    let constant = Feature::new("a", -9.0, 1.0, 10).unwrap();
    assert!(matches!(plan(&good, &[constant]), Err(TreesError::Forest { .. })));
    for found in [
        grid(0),
        grid(1 << 33),
        Feature::new("a", 1e30, 1.0, 9),
        Feature::new("a", f64::NAN, 1.0, 9),
    ] {
        assert!(matches!(found, Err(TreesError::Grid { .. })), "{found:?}");
    }
    let fitted = |numbers: &[f64]| Feature::fitted("a", numbers.iter().copied(), 2);
    let whole = fitted(&[3.0, -2.0, 200.0]).unwrap();
    assert_eq!((whole.low, whole.step, whole.points), (-2.0, 1.0, 203));
    assert_eq!(fitted(&[0.0, 255.0]).unwrap().points, 256);
    assert_eq!(fitted(&[0.0, 510.0]).unwrap().step, 2.0);
    assert_eq!(fitted(&[0.5, 0.5]).unwrap().points, 1);
    assert!(
        fitted(&[]).is_err()
            && fitted(&[f64::NAN]).is_err()
            && fitted(&[f64::MIN, f64::MAX]).is_err()
    );

    let plan = plan(&good, &[grid(3).unwrap()]).unwrap();
    let codes = |rows: &[f64], outside| plan.setup().codes(rows, outside);
    assert_eq!(codes(&[0.4, 1.6, 2.4], Outside::Refuse).unwrap(), [0, 2, 2]);
    assert_eq!(codes(&[-5.0, 1e300], Outside::Clamp).unwrap(), [0, 2]);
    for outside in [-0.6, 2.6, f64::NAN, f64::INFINITY] {
        let found = codes(&[1.0, outside], Outside::Refuse);
        assert!(matches!(found, Err(TreesError::Row { row: 1, .. })), "{found:?}");
    }
    assert!(codes(&[f64::NAN], Outside::Clamp).is_err());
    // Keys of another model are refused.
    let other = forest(vec![split(0, 0.5, 1, 2), leaf(1.0), leaf(4.0)]).unwrap();
    let found = ForestPlan::with_setup(&other, plan.setup(), plan.params());
    assert!(matches!(found, Err(TreesError::NotAsPlanned { what: "the model", .. })), "{found:?}");
    assert!(ForestPlan::with_setup(&good, plan.setup(), plan.params()).is_ok());
}
