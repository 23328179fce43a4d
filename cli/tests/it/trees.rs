//! A model of trees on encrypted rows, as an owner and a server do it, and what is refused.

use crate::common::{Run, sudare_at};
use serde_json::Value;
use std::{fs, path::Path};
use tempfile::TempDir;

/// A folder with a recorded model of XGBoost, its rows as a table, and their predictions.
struct Folder {
    folder: TempDir,
    predictions: Vec<Vec<f64>>,
}

const COLUMNS: &str = "a,b,c,d,e,f,g,h";

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/apps/tests/trees");
        fs::copy(data.join("xgboost-binary.model.json"), folder.path().join("m.json")).unwrap();
        let recorded = fs::read(data.join("xgboost-binary.json")).unwrap();
        let recorded: Value = serde_json::from_slice(&recorded).unwrap();
        let rows: Vec<Vec<f64>> = serde_json::from_value(recorded["rows"].clone()).unwrap();
        let line = |row: &Vec<f64>| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        let lines: Vec<String> = rows.iter().map(line).collect();
        // The columns of the table have another order, and one more.
        let table = format!(
            "id,{COLUMNS}\n{}\n",
            lines.iter().map(|l| format!("1,{l}")).collect::<Vec<_>>().join("\n")
        );
        fs::write(folder.path().join("t.csv"), table).unwrap();
        let predictions = serde_json::from_value(recorded["predictions"].clone()).unwrap();
        Self { folder, predictions }
    }

    fn run(&self, line: &str) -> Run {
        sudare_at(self.folder.path(), line)
    }
}

#[test]
fn rows_are_predicted_without_being_seen() {
    let f = Folder::new();
    let plan = format!(
        "trees plan --model m.json --data t.csv --columns {COLUMNS} --digits 4 --tolerance 1e-3 -o p.json"
    );
    let planned = f.run(&format!("{plan} --json")).json();
    assert_eq!((&planned["trees"], &planned["bootstraps"]), (&6.into(), &0.into()));
    assert!(planned["error"].as_f64().unwrap() <= 1e-3);
    // The plan for the owner has no threshold of the model.
    let text = fs::read_to_string(f.folder.path().join("p.json")).unwrap();
    assert!(text.contains("\"points\"") && !text.contains("split"));
    f.run(&plan).mistake(&["p.json", "exists"]);
    let keys = f.run("trees keygen --plan p.json --out keys --json").json();
    assert!(keys["security_bits"].as_f64().unwrap() >= 128.0 && keys["keys"] == 1);
    for key in ["--public keys/public.key", "--secret keys/secret.key"] {
        let rows =
            f.run(&format!("trees encrypt {key} --data t.csv -o r.ct --force --json")).json();
        assert_eq!(rows["rows"], f.predictions.len());
    }
    let scored = f
        .run("trees predict --model m.json --evaluation-key keys/evaluation.key -i r.ct -o s.ct --json")
        .json();
    assert_eq!((&scored["rows"], &scored["bootstraps"]), (&f.predictions.len().into(), &0.into()));
    let read = f.run("trees decrypt --secret keys/secret.key -i s.ct --json").json();
    let found: Vec<Vec<f64>> = serde_json::from_value(read["predictions"].clone()).unwrap();
    let mut equal = 0;
    for (found, expected) in found.iter().zip(&f.predictions) {
        // Four digits tell all of these rows from the thresholds.
        equal += usize::from((found[1] - expected[1]).abs() < 1e-3);
    }
    assert_eq!(equal, f.predictions.len());
    f.run("trees decrypt --secret keys/secret.key -i s.ct -o p.csv").ok();
    let table = fs::read_to_string(f.folder.path().join("p.csv")).unwrap();
    assert_eq!(table.lines().count(), f.predictions.len() + 1);

    // Files that do not belong together.
    let refused = |line: &str, parts: &[&str]| {
        f.run(line).mistake(parts);
    };
    f.run("trees keygen --plan p.json --out others").ok();
    refused("trees decrypt --secret others/secret.key -i s.ct", &["s.ct", "key"]);
    let predict = "trees predict --model m.json -o x.ct --evaluation-key";
    refused(&format!("{predict} others/evaluation.key -i r.ct"), &["r.ct", "key"]);
    refused(&format!("{predict} keys/evaluation.key -i s.ct"), &["s.ct", "rows for trees"]);
    refused("trees decrypt --secret keys/secret.key -i r.ct", &["r.ct", "scores of trees"]);
    let model = fs::read_to_string(f.folder.path().join("m.json")).unwrap();
    let retrained = model.replacen("\"split_conditions\":[", "\"split_conditions\":[1e1,", 1);
    assert_ne!(retrained, model);
    fs::write(f.folder.path().join("n.json"), retrained).unwrap();
    let line = "trees predict --model n.json --evaluation-key keys/evaluation.key -i r.ct -o x.ct";
    refused(line, &["n.json", "different lengths"]);
    fs::write(f.folder.path().join("far.csv"), format!("{COLUMNS}\n1e9,1,1,1,1,1,1,1\n")).unwrap();
    let far = "trees encrypt --secret keys/secret.key --data far.csv -o far.ct";
    refused(far, &["row 0", "clamp"]);
    f.run(&format!("{far} --clamp")).ok();
    fs::write(f.folder.path().join("few.csv"), "a,b\n1,2\n").unwrap();
    refused(
        "trees encrypt --secret keys/secret.key --data few.csv -o x.ct",
        &["few.csv", "column"],
    );
    assert!(!f.folder.path().join("x.ct").exists());
}
