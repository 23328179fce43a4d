//! Encrypted rows that a server scores by a plain and by an encrypted model.

use crate::common::{LBW, assert_fields, names, numbers, reference, scores, sudare_at};
use serde_json::Value;
use std::{fs, path::Path};
use sudare_apps::logreg::{TrainSpec, Transform};
use sudare_table::{Table, metrics};
use tempfile::TempDir;

fn largest(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// What an owner and a server have.
struct Folders {
    owner: TempDir,
    server: TempDir,
}

impl Folders {
    fn new() -> Self {
        let folder = || tempfile::tempdir().unwrap();
        let folders = Self { owner: folder(), server: folder() };
        fs::copy(LBW, folders.owner().join("lbw.csv")).unwrap();
        folders
    }

    fn owner(&self) -> &Path {
        self.owner.path()
    }

    fn server(&self) -> &Path {
        self.server.path()
    }

    fn to_server(&self, files: &[&str]) {
        for file in files {
            let name = Path::new(file).file_name().unwrap();
            fs::copy(self.owner().join(file), self.server().join(name)).unwrap();
        }
    }

    /// Scores of the server, decrypted.
    fn scores(&self, model: &str, options: &str) -> (Value, Value) {
        let line = format!(
            "predict --evaluation-key evaluation.key --model {model} -i rows.ct -o scores.ct \
             --force --json {options}"
        );
        let scored = sudare_at(self.server(), &line).json();
        assert_fields(&scored, &["rows", "features", "ciphertexts", "bytes", "seconds", "path"]);
        fs::copy(self.server().join("scores.ct"), self.owner().join("scores.ct")).unwrap();
        let line = "decrypt --secret keys/secret.key -i scores.ct --json";
        let shown = sudare_at(self.owner(), line).json();
        assert_eq!(shown["content"], "scores");
        (scored, shown["values"].clone())
    }
}

const PREDICT: &str = "predict --evaluation-key evaluation.key -o x.ct";

#[test]
fn a_model_straight_from_training_scores_rows_as_it_is() {
    let f = Folders::new();
    let owner = f.owner();
    let server = f.server();
    sudare_at(owner, "keygen --params auto --for train:189x9 --iterations 3 --predict --out keys")
        .ok();
    sudare_at(owner, "encrypt --public keys/public.key --data lbw.csv --target y -o table.ct").ok();
    // Any number of rows, with columns in another order.
    let text = fs::read_to_string(LBW).unwrap();
    let turned = |line: &str| {
        let (first, rest) = line.split_once(',').unwrap();
        format!("{rest},{first}\n")
    };
    let some = text.lines().take(1).chain(text.lines().skip(81).take(100));
    let rows: String = some.map(turned).collect();
    fs::write(owner.join("new.csv"), rows).unwrap();
    let line = "encrypt --public keys/public.key --data new.csv --like lbw.csv --target y \
                -o rows.ct --json";
    let encrypted = sudare_at(owner, line).json();
    assert_eq!((encrypted["rows"].as_u64(), encrypted["features"].as_u64()), (Some(100), Some(9)));
    f.to_server(&["keys/evaluation.key", "table.ct", "rows.ct"]);
    sudare_at(server, "train --evaluation-key evaluation.key -i table.ct -o model.ct").ok();
    let (scored, values) = f.scores("model.ct", "");
    assert_eq!((&scored["model"], scored["rows"].as_u64()), (&"encrypted".into(), Some(100)));

    let table = Table::bundled("lbw").unwrap();
    let spec = TrainSpec { iterations: 3, ..TrainSpec::default() };
    let weights = reference(&table, &spec, None).pop().unwrap().pop().unwrap();
    let expected = &scores(&table, &weights)[80..180];
    let scores = numbers(&values["scores"]);
    assert!(largest(&scores, expected) < 0.01, "{scores:?} for {expected:?}");
    let sigmoids: Vec<f64> = scores.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
    assert!(largest(&numbers(&values["probabilities"]), &sigmoids) < 1e-12);
    let labels = &table.labels().unwrap()[80..180];
    let close = |name: &str, expected: f64| {
        assert!((values[name].as_f64().unwrap() - expected).abs() < 1e-12, "{name}: {values}");
    };
    close("accuracy", metrics::accuracy(&scores, labels).unwrap());
    close("auc", metrics::auc(&scores, labels).unwrap());

    // The same rows by the model in the clear.
    fs::copy(server.join("model.ct"), owner.join("model.ct")).unwrap();
    sudare_at(owner, "decrypt --secret keys/secret.key -i model.ct -o model.json").ok();
    f.to_server(&["model.json"]);
    for options in ["", "--map-keys --small-keys"] {
        let (scored, values) = f.scores("model.json", options);
        assert_eq!(scored["model"], "plain");
        assert!(largest(&numbers(&values["scores"]), expected) < 0.01);
    }
    let csv = "decrypt --secret keys/secret.key -i scores.ct -o scores.csv";
    sudare_at(owner, csv).ok();
    let csv = fs::read_to_string(owner.join("scores.csv")).unwrap();
    assert_eq!(
        (csv.lines().next(), csv.lines().count()),
        (Some("score,probability,predicted"), 101)
    );
    let shown = sudare_at(owner, "decrypt --secret keys/secret.key -i scores.ct");
    assert!(shown.ok().stdout.contains("accuracy"), "{}", shown.stdout);
    other_models_and_rows_are_refused(&f);
    rows_of_other_preparations_are_noticed(&f, &text);
}

fn other_models_and_rows_are_refused(f: &Folders) {
    let owner = f.owner();
    let server = f.server();
    let refused = |line: &str, parts: &[&str]| {
        sudare_at(server, line).mistake(parts);
    };
    refused(
        &format!("{PREDICT} --model model.ct -i table.ct"),
        &["encrypted for train:189x9", "--like"],
    );
    refused(
        &format!("{PREDICT} --model rows.ct -i rows.ct"),
        &["holds table, but model is needed"],
    );
    refused(
        "stats --evaluation-key evaluation.key -i rows.ct -o x.ct",
        &["predict:100x9", "use `sudare predict`"],
    );
    sudare_at(
        server,
        "train --evaluation-key evaluation.key -i table.ct -o part.ct --iterations 2",
    )
    .ok();
    refused(
        &format!("{PREDICT} --model part.ct -i rows.ct"),
        &["after 2 iterations", "finished training"],
    );
    assert!(!names(server).contains(&"x.ct".to_owned()));
    sudare_at(owner, "decrypt --secret keys/secret.key -i scores.ct --share 4")
        .mistake(&["not precise enough", "--score-range"]);
    sudare_at(owner, "decrypt --secret keys/secret.key -i scores.ct --quantiles 0.5")
        .mistake(&["--quantiles does not apply to scores"]);
}

/// Whatever the model.
fn rows_of_other_preparations_are_noticed(f: &Folders, text: &str) {
    let owner = f.owner();
    let server = f.server();
    let other = text.lines().enumerate().map(|(i, line)| match i {
        0 => format!("{line}\n"),
        _ => format!("2{line}\n"),
    });
    fs::write(owner.join("other.csv"), other.collect::<String>()).unwrap();
    let line = "encrypt --public keys/public.key --data new.csv --like other.csv --target y \
                -o rows.ct --force";
    sudare_at(owner, line).ok();
    f.to_server(&["rows.ct"]);
    for model in ["model.ct", "model.json"] {
        let line = format!("{PREDICT} --model {model} -i rows.ct --force");
        sudare_at(server, &line).ok();
        fs::copy(server.join("x.ct"), owner.join("x.ct")).unwrap();
        sudare_at(owner, "decrypt --secret keys/secret.key -i x.ct")
            .mistake(&["its rows were not prepared for", "--like"]);
    }
}

/// A model in the clear with these weights, for rows of the table as they are prepared.
fn model_of(table: &Table, shown: &Transform, weights: &[f64]) -> Value {
    serde_json::json!({
        "kind": "logistic regression", "weights": weights, "columns": table.columns(),
        "target": "y", "centers": shown.centers(), "divisors": shown.divisors(),
        "iterations": 5, "rows": 189,
    })
}

#[test]
fn rows_are_scored_by_a_model_that_is_given_plain_or_encrypted() {
    let f = Folders::new();
    let owner = f.owner();
    let line = "keygen --params auto --for predict:189x9 --probability 6 --sigmoid-range 24 \
                --out keys --json";
    let keygen = sudare_at(owner, line).json();
    assert!(keygen["security_bits"].as_f64().unwrap() >= 128.0);
    assert!(keygen["job"].as_str().unwrap().contains("probabilities to 6 bits"));
    let table = Table::bundled("lbw").unwrap();
    let shown = Transform::spreading(&table);
    let weights: Vec<f64> = (0..10).map(|j| 0.5 * f64::from(j * j % 7 - 3) / 3.0).collect();
    let model = |weights: &[f64]| model_of(&table, &shown, weights);
    fs::write(owner.join("model.json"), model(&weights).to_string()).unwrap();
    // The owner of the rows needs only columns, centers and divisors.
    let inputs = serde_json::json!({
        "columns": table.columns(), "centers": shown.centers(), "divisors": shown.divisors(),
    });
    fs::write(owner.join("inputs.json"), inputs.to_string()).unwrap();
    let line = "encrypt --public keys/public.key --data lbw.csv --target y --like inputs.json \
                -o rows.ct";
    sudare_at(owner, line).ok();
    let line = "encrypt --public keys/public.key --model model.json -o model.ct --json";
    assert_fields(&sudare_at(owner, line).json(), &["bytes", "seconds"]);
    f.to_server(&["keys/evaluation.key", "rows.ct", "model.ct", "model.json"]);
    let expected = scores(&table, &weights);
    let sigmoids: Vec<f64> = expected.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
    for model in ["model.json", "model.ct"] {
        let (_, values) = f.scores(model, "");
        assert!(largest(&numbers(&values["scores"]), &expected) < 1e-3);
        let error = largest(&numbers(&values["probabilities"]), &sigmoids);
        assert!(error < 0.02 && error > 1e-9, "{error}");
        assert!(values["auc"].is_number());
    }
    sudare_at(owner, "decrypt --secret keys/secret.key -i model.ct")
        .mistake(&["an encrypted model for scoring rows", "in the clear"]);

    let large: Vec<f64> = weights.iter().map(|w| 20.0 * w).collect();
    fs::write(owner.join("large.json"), model(&large).to_string()).unwrap();
    sudare_at(owner, "encrypt --public keys/public.key --model large.json -o x.ct")
        .mistake(&["scores may reach", "make keys for a range of"]);
    let encrypt = "encrypt --public keys/public.key -o x.ct";
    sudare_at(owner, &format!("{encrypt} --data lbw.csv --target y")).mistake(&["--like"]);
    sudare_at(owner, &format!("{encrypt} --data lbw.csv --like inputs.json"))
        .mistake(&["the rows have the columns", "exactly these"]);
    let text = fs::read_to_string(LBW).unwrap();
    fs::write(owner.join("renamed.csv"), text.replace("lwt", "weight")).unwrap();
    sudare_at(owner, &format!("{encrypt} --data renamed.csv --target y --like inputs.json"))
        .mistake(&["the rows have the columns", "weight", "exactly these"]);
    fs::write(owner.join("far.csv"), text.replacen("19,182", "1900,182", 1)).unwrap();
    sudare_at(owner, &format!("{encrypt} --data far.csv --target y --like inputs.json"))
        .mistake(&["row 0, column \"age\"", "times as far from the mean", "at most 4 times"]);
    fs::write(owner.join("bad.json"), r#"{"columns":["a"],"divisors":[1.0,2.0]}"#).unwrap();
    sudare_at(owner, &format!("{encrypt} --data lbw.csv --like bad.json"))
        .mistake(&["bad.json is not a valid description of features", "1 columns and 2 divisors"]);
    assert!(!names(owner).contains(&"x.ct".to_owned()));
}

#[test]
fn unusable_rows_for_scores_are_refused() {
    let f = Folders::new();
    let owner = f.owner();
    let keygen = "keygen --params auto --out keys --for";
    for (job, part) in [
        ("stats:189x9 --predict", "--predict is for trainings"),
        ("train:189x9 --probability 8", "make keys with --for predict:"),
        ("predict:189x9 --share 4", "whose range --score-range states"),
        ("predict:189x9 --score-range 8", "--score-range is for shared scores"),
        ("stats:189x9 --share 4 --score-range 8", "--score-range is for shared scores"),
        (
            "predict:189x9 --share 4 --score-range 8 --probability 4",
            "--probability does not go with --share",
        ),
        ("predict:189x9 --share 4 --score-range 0.5", "a range of 1 to 1024"),
        ("predict:189x9 --share 12 --score-range 1024", "shared to 12 bits"),
        ("bootstrap --share 4", "--share is for trained models, statistics, and scores"),
        ("predict:189x9 --probability 17", "1 to 16"),
        ("predict:189x0", "predict:ROWSxFEATURES"),
    ] {
        sudare_at(owner, &format!("{keygen} {job}")).mistake(&[part]);
    }
    sudare_at(owner, &format!("{keygen} train:189x9")).ok();
    // Keys whose model has no level left.
    let line = "encrypt --public keys/public.key --data lbw.csv --like lbw.csv --target y -o x.ct";
    sudare_at(owner, line).mistake(&["leaves its weights at level 0", "needs one level"]);
    sudare_at(owner, &format!("{keygen} stats:189x9 --force")).ok();
    sudare_at(owner, line).mistake(&["keys are for stats:189x9", "--predict"]);
    for (line, part) in [
        ("predict --model m.json", "--data"),
        ("predict --model m.json --data a.csv -i b.ct", "--evaluation-key"),
        ("predict --model m.json --evaluation-key k -i b.ct", "--output"),
        ("encrypt --public p -o x.ct", "--data"),
        ("encrypt --public p -o x.ct --model m.json --like a.csv", "--like"),
    ] {
        sudare_at(owner, line).mistake(&[part]);
    }
}

/// What others may see of scores has the digits asked for, and is counted.
#[test]
fn scores_are_shared_to_the_bits_that_their_keys_were_made_for() {
    let f = Folders::new();
    let owner = f.owner();
    let line =
        "keygen --params auto --for predict:189x9 --share 8 --score-range 16 --out keys --json";
    let keygen = sudare_at(owner, line).json();
    assert!(keygen["security_bits"].as_f64().unwrap() >= 128.0);
    assert_eq!(keygen["job"], "predict:189x9, for others up to a score of 16");
    let table = Table::bundled("lbw").unwrap();
    let shown = Transform::spreading(&table);
    let weights: Vec<f64> = (0..10).map(|j| f64::from(j * j % 7 - 3) / 10.0).collect();
    let model = |weights: &[f64]| model_of(&table, &shown, weights);
    fs::write(owner.join("model.json"), model(&weights).to_string()).unwrap();
    let line = "encrypt --public keys/public.key --data lbw.csv --target y --like model.json \
                -o rows.ct";
    sudare_at(owner, line).ok();
    f.to_server(&["keys/evaluation.key", "rows.ct", "model.json"]);
    let (_, own) = f.scores("model.json", "");
    let decrypt = |options: &str| {
        sudare_at(owner, &format!("decrypt --secret keys/secret.key -i scores.ct {options}"))
    };
    let shared = decrypt("--share 8 --json").json();
    let own = numbers(&own["scores"]);
    let shared = numbers(&shared["values"]["scores"]);
    assert!(largest(&own, &scores(&table, &weights)) < 1e-9);
    let error = largest(&shared, &own);
    assert!(error > 1e-4 && error <= 1.0 / 256.0, "{error}");
    assert!(shared.iter().all(|score| (score * 256.0).fract() == 0.0));
    // The same release has the same values, and counts once.
    assert_eq!(numbers(&decrypt("--share 8 --json").json()["values"]["scores"]), shared);
    let ledger = format!("info keys/{}.ledger --json", keygen["key_id"].as_str().unwrap());
    assert_eq!(sudare_at(owner, &ledger).json()["releases"], 1);
    decrypt("--share 12").mistake(&["--share 12", "not precise enough"]);
    assert_eq!(sudare_at(owner, &ledger).json()["releases"], 1);

    let large: Vec<f64> = weights.iter().map(|w| 10.0 * w).collect();
    fs::write(f.server().join("large.json"), model(&large).to_string()).unwrap();
    let line = "predict --evaluation-key evaluation.key --model large.json -i rows.ct -o x.ct";
    sudare_at(f.server(), line).mistake(&["scores may reach", "make keys for a range of"]);
}

/// What others may see of statistics has the digits asked for.
#[test]
fn statistics_are_shared_to_the_bits_that_their_keys_were_made_for() {
    let f = Folders::new();
    let owner = f.owner();
    let stats = |keygen: &str, encrypt: &str| {
        sudare_at(owner, &format!("keygen --params auto --out keys --force {keygen}")).ok();
        let line = "encrypt --public keys/public.key --data lbw.csv --target y -o t.ct --force";
        sudare_at(owner, &format!("{line} {encrypt}")).ok();
        sudare_at(owner, "stats --evaluation-key keys/evaluation.key -i t.ct -o s.ct --force").ok();
    };
    let decrypt = |options: &str| {
        sudare_at(owner, &format!("decrypt --secret keys/secret.key -i s.ct --json {options}"))
    };
    stats("--for stats:189x9 --share 10", "");
    let own = decrypt("").json();
    let shared = decrypt("--share 10 --regress lwt").json();
    let table = Table::bundled("lbw").unwrap();
    for (j, column) in table.columns().iter().enumerate() {
        let centre = table.column(j).sum::<f64>() / 189.0;
        let farthest = table.column(j).map(|x| (x - centre).abs()).fold(0.0, f64::max);
        let mean = |values: &Value| values["values"]["mean"][j].as_f64().unwrap();
        let unit = farthest / 1024.0;
        let own = mean(&own);
        let shared = mean(&shared);
        assert!((own - shared).abs() <= unit * 1.000_001, "{column}: {shared} for {own}");
        let steps = (shared - centre) / unit;
        assert!((steps - steps.round()).abs() < 1e-6, "{column}: {steps} steps");
    }
    assert!(shared["values"]["least_squares"].is_object());
    decrypt("--share 13").mistake(&["1 to 12"]);

    stats("--for groups:189x8x2 --share 8", "--by smoke");
    let own = decrypt("").json();
    let shared = decrypt("--share 8").json();
    assert_eq!(own["values"]["count"], shared["values"]["count"]);
    assert_ne!(own["values"]["mean"], shared["values"]["mean"]);

    stats("--for histogram:189x9x2 --share 4", "");
    let shared = decrypt("--share 4").json();
    assert_eq!(shared["values"]["kind"], "histograms");

    stats("--for stats:189x9", "");
    decrypt("--share 1").mistake(&["--share 1", "make keys with --share 1"]);
    // A named set without that precision.
    let line = "keygen --params n14 --for stats:189x9 --share 10 --out other";
    sudare_at(owner, line).mistake(&["shared to 10 bits", "more precision"]);
    assert!(!owner.join("other").exists());
}
