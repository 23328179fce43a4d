use super::*;
use std::io::Cursor;
use sudare::{
    exact::{self, serial},
    rlwe::KeyGenerator,
};
use sudare_apps::trees::Feature;

const MODEL: &str = r#"{"features": ["a", "b"], "link": "identity", "offsets": [1.0], "trees": [
    {"output": 0, "nodes": [
        {"split": {"feature": 0, "at": 1.5, "or_equal": true, "left": 1, "right": 2}},
        {"leaf": [0.5]},
        {"split": {"feature": 1, "at": 0.5, "or_equal": false, "left": 3, "right": 4}},
        {"leaf": [2.0]}, {"leaf": [4.0]}]}]}"#;

/// A secret key, the evaluation keys, and the plan, in a small ring.
fn keys() -> (Secret, Vec<u8>, ForestPlan) {
    let forest = Forest::from_json(MODEL.as_bytes()).unwrap();
    let grid = ["a", "b"].map(|name| Feature::new(name, 0.0, 1.0, 3).unwrap());
    let params = Params::new(exact::preset("toy-n8").unwrap().spec).unwrap();
    let plan = ForestPlan::with_params(&forest, &grid, &params).unwrap();
    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let key = keygen.secret_key().unwrap();
    let evaluation = keygen.evaluation_keys(&key, plan.required_keys()).unwrap();
    let label = key_label(plan.setup()).unwrap();
    let mut file = Vec::new();
    serial::write_evaluation_keys(&mut file, &params, &evaluation, &label).unwrap();
    let session = Session { setup: plan.setup().clone(), params, key: key.id() };
    (Secret { session, key: Arc::new(key), warning: None }, file, plan)
}

fn reader(file: &[u8]) -> Reader<Cursor<&[u8]>> {
    Reader::new(Cursor::new(file), file.len() as u64).unwrap()
}

#[test]
fn several_blocks_go_through_files() {
    let (secret, keys, plan) = keys();
    let forest = Forest::from_json(MODEL.as_bytes()).unwrap();
    let path = Path::new("x");
    let server = Server::new(reader(&keys), path, &forest).unwrap();
    // Two blocks of 256 rows, the second one not full.
    let numbers: Vec<f64> =
        (0..300).flat_map(|row| [f64::from(row % 3), f64::from(row / 3 % 3)]).collect();
    let rows = Rows { numbers: &numbers, outside: Outside::Refuse };
    let owner = Owner::new(secret.session.clone(), Key::Secret(Arc::clone(&secret.key))).unwrap();
    assert_eq!(owner.ciphertexts(300), 4);
    let mut file = Vec::new();
    let mut written = 0;
    let bytes = owner.write_rows(&mut file, rows, |done| written = done).unwrap();
    assert_eq!((bytes, written), (file.len() as u64, 4));
    let mut scores = Vec::new();
    let mut blocks = Vec::new();
    let progress = |done, total| blocks.push((done, total));
    let scored = server.write_scores(reader(&file), path, &mut scores, progress).unwrap();
    assert_eq!((scored.rows, scored.blocks, scored.outputs), (300, 2, 1));
    assert_eq!(blocks, [(0, 2), (1, 2), (2, 2)]);
    let found = read_scores(&secret, reader(&scores), path).unwrap();
    let error = plan.setup().error() + 1e-12;
    for (found, row) in found.iter().zip(numbers.chunks(2)) {
        let expected = forest.predict(row).unwrap()[0];
        assert!((found - expected).abs() <= error, "{row:?} {found} {expected}");
    }
    assert_eq!(found.len(), 300);

    // Rows and scores are not taken for each other, and both are of one key pair.
    let swapped = server.write_scores(reader(&scores), path, &mut Vec::new(), |_, _| {});
    assert_eq!(swapped.unwrap_err().kind(), "Malformed");
    assert_eq!(read_scores(&secret, reader(&file), path).unwrap_err().kind(), "Malformed");
    let (other, others, _) = self::keys();
    assert_eq!(read_scores(&other, reader(&scores), path).unwrap_err().kind(), "KeyMismatch");
    let foreign = Server::new(reader(&others), path, &forest).unwrap();
    let foreign = foreign.write_scores(reader(&file), path, &mut Vec::new(), |_, _| {});
    assert_eq!(foreign.unwrap_err().kind(), "KeyMismatch");
    let changed = Forest::from_json(MODEL.replace("[4.0]", "[5.0]").as_bytes()).unwrap();
    let changed = Server::new(reader(&keys), path, &changed).err().unwrap();
    assert_eq!(changed.kind(), "TreesNotAsPlanned");
    let outside = Rows { numbers: &[1.0, 9.0], outside: Outside::Refuse };
    assert_eq!(owner.write_rows(&mut Vec::new(), outside, |_| {}).unwrap_err().kind(), "TreesRow");
    let none = Rows { numbers: &[], outside: Outside::Refuse };
    assert_eq!(owner.write_rows(&mut Vec::new(), none, |_| {}).unwrap_err().kind(), "Usage");
}

#[test]
fn plans_and_labels_are_checked() {
    let (_, _, plan) = keys();
    let path = Path::new("p.json");
    let text = Planned::new(&plan).to_json().unwrap();
    let read = |text: &str| Planned::from_json(text.as_bytes(), path);
    assert_eq!(read(&text).unwrap(), Planned::new(&plan));
    for (from, to, kind) in [
        ("\"version\":1", "\"version\":2", "Parse"),
        ("\"version\":1", "\"extra\":1,\"version\":1", "Parse"),
        ("\"points\":3", "\"points\":0", "TreesGrid"),
        ("\"step\":1.0", "\"step\":-1.0", "TreesGrid"),
        ("\"classes\":[]", "\"classes\":[\"a\",\"b\"]", "TreesCount"),
    ] {
        assert!(text.contains(from), "{from}");
        assert_eq!(read(&text.replacen(from, to, 1)).unwrap_err().kind(), kind, "{to}");
    }
    let table = csv(&["a,b".into(), "c\"".into()], &[vec![1.0, 0.5]]).unwrap();
    assert_eq!(table, "\"a,b\",\"c\"\"\"\n1,0.5\n");
    let formula = csv(&["=1+1".into()], &[vec![-1.0]]).unwrap();
    assert!(!formula.starts_with('=') && formula.ends_with("\n-1\n"), "{formula:?}");
}
