//! Owner, server and owner again, each in a folder of its own.

use crate::common::{
    LBW, UIS, assert_fields, names, numbers, reference, scores, sudare, sudare_at,
};
use serde_json::Value;
use std::{fs, path::Path};
use sudare_apps::logreg::{ClassWeights, Preparation, Prepared, TrainSpec, Transform};
use sudare_roles::owner::ledger::{Entries, Ledger};
use sudare_table::{Table, metrics};

fn max_abs(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |largest, x| f64::max(largest, x.abs()))
}

/// Puts only what a server may have into its folder.
fn hand_over(owner: &Path, server: &Path) {
    fs::copy(owner.join("keys/evaluation.key"), server.join("evaluation.key")).unwrap();
    fs::copy(owner.join("table.ct"), server.join("table.ct")).unwrap();
}

/// What others may see of a model has the digits asked for, and no more.
#[test]
fn a_model_is_shared_to_the_bits_that_its_keys_were_made_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::copy(LBW, at.join("lbw.csv")).unwrap();
    let line = "keygen --params auto --for train:189x9 --iterations 3 --share 10 --out keys --json";
    assert!(sudare_at(at, line).json()["security_bits"].as_f64().unwrap() >= 128.0);
    sudare_at(at, "encrypt --public keys/public.key --data lbw.csv --target y -o t.ct").ok();
    sudare_at(at, "train --evaluation-key keys/evaluation.key -i t.ct -o m.ct --history").ok();
    let decrypt = "decrypt --secret keys/secret.key -i m.ct --json";
    let own = sudare_at(at, decrypt).json();
    assert!(own["values"]["history"].is_array());
    let weights = |values: &Value| {
        let [centers, divisors] = ["centers", "divisors"].map(|name| numbers(&values[name]));
        (numbers(&values["weights"]), Transform::affine(centers, divisors).unwrap())
    };
    let own = weights(&own["values"]);
    let share = |bits| sudare_at(at, &format!("{decrypt} --share {bits}"));
    let begun = share(10);
    let key = names(&at.join("keys"))
        .into_iter()
        .find_map(|name| Some(name.strip_suffix(".ledger")?.to_owned()));
    let key = key.unwrap();
    let notice = "counting starts at 0";
    assert!(begun.stderr.contains(notice) && begun.stderr.contains(&key), "{}", begun.stderr);
    // The same release has the same values and counts once. Other bits make another release.
    assert_eq!(share(10).stdout, begun.stdout);
    let ledger = format!("info keys/{key}.ledger --json");
    assert_eq!(sudare_at(at, &ledger).json()["releases"], 1);
    let [first, second] = [10, 9].map(|bits| {
        let shared = share(bits);
        assert!(!shared.stderr.contains(notice));
        let shared = shared.json();
        assert!(shared["values"].get("history").is_none());
        // The output has no means, and a power of two for each range.
        let shared = weights(&shared["values"]);
        assert!(shared.1.centers().iter().all(|&center| center == 0.0));
        assert!(shared.1.divisors().iter().all(|divisor| divisor.log2().fract() == 0.0));
        shared
    });
    // Weights of prepared columns, which have this number of bits.
    let table = Table::bundled("lbw").unwrap();
    let spec = TrainSpec::recommended(189, 9, Preparation::Whiten).unwrap();
    let rows = Prepared::new(&table, &spec, 189, None).unwrap();
    let trained = |(weights, shown): &(Vec<f64>, Transform)| {
        shown.weights_under(weights, rows.transform()).unwrap()
    };
    let own = trained(&own);
    for (shown, steps) in [(&first, 1024.0), (&second, 512.0)] {
        for (shown, own) in trained(shown).iter().zip(&own) {
            assert!((shown - own).abs() <= 1.0 / steps, "{shown} for {own}");
            let steps = shown * steps;
            assert!((steps - steps.round()).abs() < 1e-6, "{shown}");
        }
    }
    let explained = sudare_at(at, &ledger).json();
    assert_eq!((&explained["releases"], &explained["limit"]), (&2.into(), &1024.into()));
    assert_eq!(explained["key_id"], key.as_str());
    let text = sudare_at(at, &ledger.replace(" --json", "")).stdout;
    assert!(text.contains("2 of 1024"), "{text}");

    // The maximum number of releases. Earlier ones can be repeated.
    let path = at.join("keys/secret.key");
    let entries = Entries::read(&at.join(format!("keys/{key}.ledger"))).unwrap();
    let ledger = Ledger::beside(&path, entries.params, entries.key).unwrap();
    let rest: Vec<_> = (0..1022u64).map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes()).collect();
    ledger.count(&rest).unwrap();
    share(8).mistake(&["1024 releases", "make new keys"]);
    assert_eq!(share(10).stdout, begun.stdout);
    // A damaged ledger counts nothing, so nothing is shown.
    fs::write(ledger.path().unwrap(), "nonsense").unwrap();
    share(10).mistake(&["it is not a ledger of releases", "nothing is released"]);

    share(11).mistake(&["to be shared to 10 bits", "make keys with --share 11"]);
    share(13).mistake(&["1 to 12"]);
}

#[test]
fn a_model_trained_by_the_server_is_that_of_training_in_the_clear() {
    let owner = tempfile::tempdir().unwrap();
    let server = tempfile::tempdir().unwrap();
    let owner = owner.path();
    let server = server.path();
    fs::copy(LBW, owner.join("lbw.csv")).unwrap();
    keys_are_made(owner);
    table_is_encrypted(owner);
    hand_over(owner, server);
    model_is_trained(server);
    fs::copy(server.join("model.ct"), owner.join("model.ct")).unwrap();
    let table = Table::bundled("lbw").unwrap();
    let weights = model_is_decrypted(owner, &table);
    let quality = rows_are_scored(owner, &scores(&table, &weights), &table.labels().unwrap());
    probabilities_are_calibrated(owner, &quality);
}

fn keys_are_made(owner: &Path) {
    let line = "keygen --params auto --for train:189x9 --out keys --json";
    let keygen = sudare_at(owner, line).json();
    assert_fields(&keygen, &["evaluation_key_bytes", "keys", "seconds"]);
    assert!(keygen["security_bits"].as_f64().unwrap() >= 128.0);
    assert_eq!(names(&owner.join("keys")), ["evaluation.key", "public.key", "secret.key"]);
    let size = fs::metadata(owner.join("keys/evaluation.key")).unwrap().len();
    assert_eq!(keygen["evaluation_key_bytes"].as_u64(), Some(size));
}

fn table_is_encrypted(owner: &Path) {
    let line = "encrypt --public keys/public.key --data lbw.csv --target y -o table.ct --json";
    let encrypted = sudare_at(owner, line).json();
    assert_fields(&encrypted, &["rows", "features", "ciphertexts", "bytes", "seconds"]);
    assert_eq!((encrypted["rows"].as_u64(), encrypted["features"].as_u64()), (Some(189), Some(9)));
    let size = fs::metadata(owner.join("table.ct")).unwrap().len();
    assert_eq!(encrypted["bytes"].as_u64(), Some(size));
}

/// In one go, interrupted, and with keys wherever they are: the result is the same file.
fn model_is_trained(server: &Path) {
    let line = "train --evaluation-key evaluation.key -i table.ct -o model.ct --json";
    let trained = sudare_at(server, line).json();
    assert_fields(&trained, &["iterations", "bootstraps", "seconds", "seconds_per_iteration"]);
    assert_eq!(trained["iterations"].as_u64(), Some(5));
    assert_eq!(cfg!(target_os = "linux"), trained["peak_rss_bytes"].is_u64());
    let bytes = fs::read(server.join("model.ct")).unwrap();
    assert!(!bytes.windows(10).any(|part| part == b"race_white"), "a column name is readable");

    // Interrupted after three iterations and resumed.
    let line = "train --evaluation-key evaluation.key -i table.ct -o part.ct --checkpoint state";
    sudare_at(server, &format!("{line} --iterations 3")).ok();
    let line = line.replace("part.ct", "resumed.ct");
    let resumed = sudare_at(server, &format!("{line} --resume --json")).json();
    assert_eq!((resumed["resumed_after"].as_u64(), &resumed["iterations"]), (Some(3), &5.into()));
    assert!(fs::read(server.join("resumed.ct")).unwrap() == bytes);

    // Keys in memory, mapped or halved.
    for options in ["--map-keys", "--small-keys", "--map-keys --small-keys"] {
        let line = "train --evaluation-key evaluation.key -i table.ct -o again.ct --force";
        sudare_at(server, &format!("{line} {options}")).ok();
        assert!(fs::read(server.join("again.ct")).unwrap() == bytes, "{options}");
    }
}

/// The weights, which are those of the same steps in the clear.
fn model_is_decrypted(owner: &Path, table: &Table) -> Vec<f64> {
    let shown = sudare_at(owner, "decrypt --secret keys/secret.key -i model.ct --json").json();
    let line = "decrypt --secret keys/secret.key -i model.ct -o model.json --json";
    let written = sudare_at(owner, line).json();
    assert_fields(&written, &["path"]);
    let model: Value =
        serde_json::from_str(&fs::read_to_string(owner.join("model.json")).unwrap()).unwrap();
    assert_eq!(model, shown["values"]);

    let spec = TrainSpec::recommended(189, 9, Preparation::Whiten).unwrap();
    let expected = reference(table, &spec, None).pop().unwrap().pop().unwrap();
    let weights = numbers(&model["weights"]);
    assert_eq!(weights.len(), 10);
    let error = max_abs(weights.iter().zip(&expected).map(|(a, b)| a - b));
    assert!(error <= max_abs(expected.iter().copied()) / 1024.0, "{error}");
    let shown = Transform::spreading(table);
    assert_eq!(numbers(&model["divisors"]), shown.divisors());
    assert_eq!(numbers(&model["centers"]), shown.centers());
    assert_eq!(model["target"], "y");
    assert_eq!(model["columns"].as_array().unwrap().len(), 9);

    sudare_at(owner, "decrypt --secret keys/secret.key -i model.ct -o model.csv").ok();
    let csv = fs::read_to_string(owner.join("model.csv")).unwrap();
    let second: f64 = csv.lines().nth(2).unwrap().split(',').nth(1).unwrap().parse().unwrap();
    assert!(csv.starts_with("column,weight,divisor,center,coefficient\n(intercept),"), "{csv}");
    assert!((second - weights[1]).abs() < 1e-12);
    weights
}

/// What the model is worth on the rows.
fn rows_are_scored(owner: &Path, scores: &[f64], labels: &[bool]) -> Value {
    let line = "evaluate --model model.json --data lbw.csv --target y --json";
    let quality = sudare_at(owner, line).json();
    let expect = |name: &str, value: f64| {
        assert!((quality[name].as_f64().unwrap() - value).abs() < 1e-12, "{name}: {quality}");
    };
    expect("accuracy", metrics::accuracy(scores, labels).unwrap());
    expect("auc", metrics::auc(scores, labels).unwrap());
    expect("ks", metrics::ks(scores, labels).unwrap());

    let line = "predict --model model.json --data lbw.csv --json";
    let predicted = sudare_at(owner, line).json();
    assert_eq!(predicted["accuracy"], quality["accuracy"]);
    assert_eq!(predicted["auc"], quality["auc"]);
    let found = numbers(&predicted["scores"]);
    assert!(max_abs(found.iter().zip(scores).map(|(a, b)| a - b)) < 1e-12);
    let line = "predict --model model.json --data lbw.csv -o scores.csv";
    assert!(sudare_at(owner, line).ok().stdout.contains("189 rows scored, accuracy"));
    let csv = fs::read_to_string(owner.join("scores.csv")).unwrap();
    let head = csv.lines().next();
    assert_eq!((head, csv.lines().count()), (Some("score,probability,predicted"), 190));
    quality
}

/// Right on the rows that it was trained on, in the same order.
fn probabilities_are_calibrated(owner: &Path, quality: &Value) {
    let line = "decrypt --secret keys/secret.key -i model.ct -o right.json --calibrate lbw.csv";
    sudare_at(owner, line).ok();
    let right = sudare_at(owner, "evaluate --model right.json --data lbw.csv --json").json();
    let loss = |quality: &Value| quality["log_loss"].as_f64().unwrap();
    assert!(loss(&right) < loss(quality) + 1e-4, "{right} {quality}");
    assert!((right["auc"].as_f64().unwrap() - quality["auc"].as_f64().unwrap()).abs() < 1e-12);
    assert!((right["largest_class"].as_f64().unwrap() - 130.0 / 189.0).abs() < 1e-12);
}

/// Balanced weights follow from the table; others are given where it is encrypted. The server learns
/// neither.
#[test]
fn rows_weigh_by_their_class() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |line: &str| sudare_at(at, line);
    let table = Table::bundled("lbw").unwrap();
    let encrypt = format!("encrypt --public keys/public.key --data {LBW} --target y -o t.ct");
    for (kind, class_weights, option, given) in [
        ("balanced", ClassWeights::Balanced, "", None),
        ("given", ClassWeights::Given, "--class-weight 1,3", Some(&[1.0, 3.0][..])),
    ] {
        let line =
            "keygen --params auto --for train:189x9 --iterations 4 --out keys --json --force";
        let keygen = run(&format!("{line} --class-weight {kind}")).json();
        assert!(keygen["security_bits"].as_f64().unwrap() >= 128.0);
        let encrypted = run(&format!("{encrypt} {option} --json --force")).json();
        assert_eq!(encrypted["rows"], 189);
        let info = run("info t.ct --json").json();
        assert!(
            info["job"].as_str().unwrap().ends_with(&format!("{kind} class weights")),
            "{info}"
        );
        run("train --evaluation-key keys/evaluation.key -i t.ct -o m.ct --history --force").ok();
        run("decrypt --secret keys/secret.key -i m.ct -o m.json --force").ok();

        let class_weights = Some(class_weights);
        let spec = TrainSpec { iterations: 4, class_weights, ..TrainSpec::default() };
        let expected = reference(&table, &spec, given).pop().unwrap().pop().unwrap();
        let model: Value =
            serde_json::from_str(&fs::read_to_string(at.join("m.json")).unwrap()).unwrap();
        let weights = numbers(&model["weights"]);
        let error = max_abs(weights.iter().zip(&expected).map(|(a, b)| a - b));
        assert!(error <= max_abs(expected.iter().copied()) / 1024.0, "{kind}: {error}");
        assert_eq!(model["training"]["class_weights"], kind);
        assert_eq!(model.get("class_weights"), given.map(|given| given.into()).as_ref());
        // The report compares with the same training in the clear.
        let report = run(&format!("report --model m.json --data {LBW} --json")).json();
        let last = &report["curve"][3];
        let gap = last["clear_log_loss"].as_f64().unwrap() - last["log_loss"].as_f64().unwrap();
        assert!(gap.abs() < 1e-4, "{last}");
    }

    // Keys for given weights, and commands with missing or invalid weights.
    run(&format!("{encrypt} --force")).mistake(&["given class weights", "--class-weight W,W"]);
    run(&format!("{encrypt} --force --class-weight 1,0")).mistake(&["expected positive numbers"]);
    run("keygen --params auto --for train:189x9 --out keys --force").ok();
    run(&format!("{encrypt} --force --class-weight 1,2"))
        .mistake(&["leave out --class-weight", "--class-weight given"]);
    let keygen = "keygen --params auto --out keys --force";
    run(&format!("{keygen} --for stats:189x9 --class-weight balanced"))
        .mistake(&["--class-weight is for trainings"]);
    run(&format!("{keygen} --for train:189x9 --class-weight 1,3"))
        .mistake(&["balanced or given", "sudare encrypt --class-weight"]);
}

/// A table of Parquet is the same as one of CSV.
#[cfg(feature = "parquet")]
#[test]
fn tables_may_be_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/table/tests/parquet");
    fs::copy(place.join("snappy.parquet"), at.join("t.parquet")).unwrap();
    let run = |line: &str| sudare_at(at, line);
    run("keygen --params auto --for train:60x8 --iterations 2 --out keys").ok();
    run("encrypt --public keys/public.key --data t.parquet --target y -o t.ct").ok();
    run("train --evaluation-key keys/evaluation.key -i t.ct -o m.ct").ok();
    run("decrypt --secret keys/secret.key -i m.ct -o m.json").ok();
    let model: Value =
        serde_json::from_str(&fs::read_to_string(at.join("m.json")).unwrap()).unwrap();
    assert_eq!((&model["columns"][3], &model["target"]), (&"long".into(), &"y".into()));
    assert_eq!(model["divisors"].as_array().unwrap().len(), 8);

    let table = Table::read_parquet(at.join("t.parquet"), Some("y")).unwrap();
    let rows = table.iter_rows().zip(table.labels().unwrap()).map(|(row, label)| {
        let cells = row.iter().map(f64::to_string).chain([u8::from(label).to_string()]);
        cells.collect::<Vec<_>>().join(",") + "\n"
    });
    let head = format!("{},y\n", table.columns().join(","));
    fs::write(at.join("t.csv"), head + &rows.collect::<String>()).unwrap();
    for command in ["evaluate", "predict", "report"] {
        let [csv, parquet] = ["t.csv", "t.parquet"]
            .map(|data| run(&format!("{command} --model m.json --data {data} --json")).json());
        assert_eq!(csv, parquet, "{command}");
    }
}

#[test]
fn rows_are_scored_by_the_names_of_their_columns() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = r#"{"kind":"logistic regression","weights":[1.0,2.0,-4.0],"columns":["a","b"],
        "target":"y","divisors":[2.0,8.0],"iterations":5,"rows":9}"#;
    fs::write(folder.join("m.json"), model).unwrap();
    fs::write(folder.join("t.csv"), "b,a\n8,2\n0,6\n").unwrap();
    let predicted = sudare_at(folder, "predict --model m.json --data t.csv --json").json();
    assert_eq!(numbers(&predicted["scores"]), [-1.0, 7.0]);
    assert!(predicted["accuracy"].is_null() && predicted["auc"].is_null());
    let probabilities = numbers(&predicted["probabilities"]);
    assert!((probabilities[0] - 1.0 / (1.0 + 1f64.exp())).abs() < 1e-15);
    fs::write(folder.join("t.csv"), "y,b,a\n0,8,2\n0,0,6\n").unwrap();
    let predicted = sudare_at(folder, "predict --model m.json --data t.csv --json").json();
    assert_eq!(predicted["accuracy"].as_f64(), Some(0.5));
    assert!(predicted["auc"].is_null());
}

#[test]
fn statistics_of_the_server_are_those_of_the_table() {
    let owner = tempfile::tempdir().unwrap();
    let server = tempfile::tempdir().unwrap();
    let owner = owner.path();
    let server = server.path();
    fs::copy(UIS, owner.join("uis.csv")).unwrap();
    sudare_at(owner, "keygen --params auto --for stats:575x8 --out keys").ok();
    sudare_at(owner, "encrypt --public keys/public.key --data uis.csv --target y -o table.ct").ok();
    hand_over(owner, server);
    let line = "stats --evaluation-key evaluation.key -i table.ct -o statistics.ct --json";
    assert_fields(&sudare_at(server, line).json(), &["seconds"]);
    fs::copy(server.join("statistics.ct"), owner.join("statistics.ct")).unwrap();
    let line = "decrypt --secret keys/secret.key -i statistics.ct --json";
    let values = &sudare_at(owner, line).json()["values"];

    let table = Table::bundled("uis").unwrap();
    let n = table.rows() as f64;
    let columns: Vec<Vec<f64>> = (0..8).map(|j| table.column(j).collect()).collect();
    let mean = |x: &[f64]| x.iter().sum::<f64>() / n;
    let moment = |x: &[f64], k: i32| x.iter().map(|v| (v - mean(x)).powi(k)).sum::<f64>() / n;
    let close = |name: &str, found: f64, expected: f64| {
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error < 1e-4, "{name}: {found} is not {expected}");
    };
    let of = |name: &str, j: usize| values[name][j].as_f64().unwrap();
    for (j, x) in columns.iter().enumerate() {
        let variance = moment(x, 2) * n / (n - 1.0);
        close("mean", of("mean", j), mean(x));
        close("variance", of("variance", j), variance);
        close("std_dev", of("std_dev", j), variance.sqrt());
        close("skewness", of("skewness", j), moment(x, 3) / moment(x, 2).powf(1.5));
        close("kurtosis", of("kurtosis", j), moment(x, 4) / moment(x, 2).powi(2) - 3.0);
        for (i, y) in columns.iter().enumerate() {
            let product: f64 =
                x.iter().zip(y).map(|(a, b)| (a - mean(x)) * (b - mean(y))).sum::<f64>();
            let pair = |name: &str| values[name][i][j].as_f64().unwrap();
            close("covariance", pair("covariance"), product / (n - 1.0));
            let spread = (moment(x, 2) * moment(y, 2)).sqrt();
            close("correlation", pair("correlation"), product / n / spread);
        }
    }

    sudare_at(owner, "decrypt --secret keys/secret.key -i statistics.ct -o s.csv").ok();
    let csv = fs::read_to_string(owner.join("s.csv")).unwrap();
    assert_eq!(csv.lines().count(), 9);
    let cells = csv.lines().map(|line| line.split(',').count()).collect::<Vec<_>>();
    assert!(cells.iter().all(|&count| count == 1 + 5 + 2 * 8), "{cells:?}");
}

/// Keys, table, computation and decryption of one job in one folder; the JSON values.
fn values_of(folder: &Path, job: &str, encrypt: &str, decrypt: &str) -> Value {
    let run = |line: &str| sudare_at(folder, line);
    run(&format!("keygen --params auto --for {job} --out keys --force")).ok();
    run(&format!("encrypt --public keys/public.key --data t.csv {encrypt} -o t.ct --force")).ok();
    run("stats --evaluation-key keys/evaluation.key -i t.ct -o r.ct --force").ok();
    run(&format!("decrypt --secret keys/secret.key -i r.ct {decrypt}")).ok();
    run("decrypt --secret keys/secret.key -i r.ct -o r.csv --force").ok();
    run(&format!("decrypt --secret keys/secret.key -i r.ct {decrypt} --json")).json()["values"]
        .take()
}

#[test]
fn owners_finish_models_tests_and_quantiles() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // y = 3 + 2 a with a small disturbance. The groups are `a` above 20, and the rest.
    let row = |i: i32| {
        let y = f64::from(3 + 2 * i) + if i % 2 == 0 { 0.5 } else { -0.5 };
        format!("{},{i},{y},{}\n", if i > 20 { 7 } else { -1 }, 1 + i % 3)
    };
    let rows: String = (1..=40).map(row).collect();
    fs::write(folder.join("t.csv"), format!("g,a,y,w\n{rows}")).unwrap();
    let close = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap();
        assert!((found - expected).abs() < 1e-3 * expected.abs().max(1.0), "{found} {expected}");
    };

    let options = "--regress y --weights w --t-test a,y";
    let found = values_of(folder, "stats:40x4", "", options);
    let fit = &found["least_squares"];
    assert_eq!((&fit["target"], &fit["predictors"][1]), (&"y".into(), &"a".into()));
    // Groups and weights explain little in addition to a.
    assert!((fit["coefficients"][1].as_f64().unwrap() - 2.0).abs() < 0.05);
    assert!(fit["r_squared"].as_f64().unwrap() > 0.999);
    let weight = |i: i32| f64::from(1 + i % 3);
    let total: f64 = (1..=40).map(weight).sum();
    let weighted: f64 = (1..=40).map(|i| weight(i) * f64::from(i)).sum();
    close(&found["weighted_mean"][1], weighted / total);
    // The mean of a is 20.5, and the mean of y is 3 more than twice this.
    close(&found["t_test"]["difference"], 20.5 - 44.0);

    let found = values_of(folder, "groups:40x3x2", "--by g", "--t-test -1,7");
    assert_eq!((&found["key"], &found["labels"][1]), (&"g".into(), &7.0.into()));
    assert_eq!(found["count"], serde_json::json!([20, 20]));
    close(&found["sum"][0][0], 210.0);
    close(&found["mean"][1][0], 30.5);
    // The variance of 20 consecutive whole numbers is 35.
    close(&found["variance"][1][0], 35.0);
    close(&found["t_test"][0]["t"], -20.0 / 3.5f64.sqrt());
    close(&found["t_test"][0]["degrees_of_freedom"], 38.0);
    assert_eq!(fs::read_to_string(folder.join("r.csv")).unwrap().lines().count(), 7);

    let found = values_of(folder, "histogram:40x4x4", "", "--quantiles 0.5");
    assert_eq!(found["columns"][1], "a");
    let histogram = &found["histograms"][1];
    assert_eq!(histogram["edges"], serde_json::json!([0.5, 10.5, 20.5, 30.5, 40.5]));
    assert_eq!(histogram["counts"], serde_json::json!([10.0, 10.0, 10.0, 10.0]));
    assert_eq!(histogram["errors"], serde_json::json!([0.0, 0.0, 0.0, 0.0]));
    assert_eq!(found["quantiles"][1][0], 20.5);
    assert_eq!(found["quantile_bounds"][1][0], serde_json::json!([10.5, 30.5]));
    assert_eq!(fs::read_to_string(folder.join("r.csv")).unwrap().lines().count(), 17);

    let decrypt = |options: &str| {
        sudare_at(folder, &format!("decrypt --secret keys/secret.key -i r.ct {options}"))
    };
    decrypt("--regress y").mistake(&["--regress", "histograms"]);
    decrypt("--quantiles 2").mistake(&["quantile", "0 to 1"]);
    let encrypt = |options: &str| {
        let line = "encrypt --public keys/public.key --data t.csv -o t.ct --force";
        sudare_at(folder, &format!("{line} {options}"))
    };
    encrypt("--by g").mistake(&["histogram:40x4x4", "--by"]);
    encrypt("--edges h=log").mistake(&["\"h\"", "g, a, y, w"]);
    encrypt("--edges log").mistake(&["\"g\"", "positive"]);
    encrypt("--edges 0,1,2").mistake(&["4 bins need 5"]);
    encrypt("--edges 0,2").mistake(&["three or more"]);
    // The last option sets all columns, and one before it a single column.
    encrypt("--edges quantile --edges a=0,5,15.5,30,39").ok();
    let line = "stats --evaluation-key keys/evaluation.key -i t.ct -o r.ct --force";
    sudare_at(folder, line).ok();
    let found = decrypt("--json").json();
    let histogram = &found["values"]["histograms"][1];
    assert_eq!(histogram["counts"], serde_json::json!([4.0, 11.0, 14.0, 10.0]));
    assert_eq!((&histogram["below"], &histogram["above"]), (&0.into(), &1.into()));
    assert_eq!(found["values"]["histograms"][3]["counts"].as_array().unwrap().len(), 4);
    sudare_at(folder, "keygen --params auto --for groups:40x3x5 --out keys --force").ok();
    encrypt("").mistake(&["groups:40x3x5", "--by"]);
    encrypt("--by g --edges log").mistake(&["groups:40x3x5", "--edges"]);
    let exact = "keygen --params auto --exact --out keys --force --for";
    sudare_at(folder, &format!("{exact} groups:40x3x5")).mistake(&["--exact", "histogram:"]);
    encrypt("--by h").mistake(&["\"h\"", "g, a, y, w"]);
    // Fewer groups than planned.
    encrypt("--by g").ok();
    sudare_at(folder, "keygen --params auto --for groups:40x3x1 --out keys --force").ok();
    encrypt("--by g").mistake(&["2 groups", "--for groups:40x3x2"]);

    // Zeros of both signs are one group. Keys too large to be exact stay separate, as text.
    fs::write(folder.join("t.csv"), "g,a\n-0,1\n0,2\n-0.0,3\n1,10\n2,20\n").unwrap();
    let found = values_of(folder, "groups:5x1x3", "--by g", "");
    assert_eq!(found["count"], serde_json::json!([3, 1, 1]));
    assert_eq!(found["labels"], serde_json::json!([0.0, 1.0, 2.0]));
    fs::write(folder.join("t.csv"), "g,a\n95820843523155097,1\n95820843523155098,2\n").unwrap();
    let found = values_of(folder, "groups:2x1x2", "--by g", "");
    assert_eq!(found["labels"], serde_json::json!(["95820843523155097", "95820843523155098"]));
}

#[test]
fn the_demo_runs_all_roles() {
    let fields = [
        "dataset",
        "rows",
        "features",
        "iterations",
        "accuracy",
        "auc",
        "plain_accuracy",
        "plain_auc",
        "largest_class",
        "converged_accuracy",
        "converged_auc",
        "max_abs_weight_error",
        "keygen_s",
        "encrypt_s",
        "train_s",
        "decrypt_s",
        "evaluation_key_bytes",
        "security_bits",
    ];
    let lbw = sudare("demo --json").json();
    assert_fields(&lbw, &fields);
    assert_eq!(
        (&lbw["dataset"], &lbw["rows"], &lbw["features"]),
        (&"lbw".into(), &189.into(), &9.into())
    );
    assert_eq!(lbw["accuracy"], lbw["plain_accuracy"]);
    let of = |name: &str| lbw[name].as_f64().unwrap();
    assert!(of("accuracy") >= 0.735 && of("auc") >= 0.745, "{lbw}");
    assert!((of("auc") - of("converged_auc")).abs() < 0.005, "{lbw}");
    assert!(lbw["security_bits"].as_f64().unwrap() >= 128.0);
    assert!(lbw["max_abs_weight_error"].as_f64().unwrap() < 1e-3);
    assert!(lbw.get("peak_rss_bytes").is_some());
    let uis = sudare(&format!("demo --data {UIS} --target y --iterations 3 --json")).json();
    assert_fields(&uis, &fields);
    assert_eq!((&uis["rows"], &uis["iterations"]), (&575.into(), &3.into()));
    assert!(sudare("demo").ok().stdout.contains("scikit-learn"));
    // The training of the papers: the model predicts the larger class only.
    let paper = sudare("demo --paper --json").json();
    assert_eq!(paper["accuracy"], paper["largest_class"]);
    assert!((paper["auc"].as_f64().unwrap() - 0.697).abs() < 1e-3, "{paper}");
}

#[test]
fn files_explain_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sudare_at(folder, "keygen --params n14 --for stats:189x9 --out keys").ok();
    sudare_at(folder, &format!("encrypt --public keys/public.key --data {LBW} --target y -o t.ct"))
        .ok();
    let evaluation = sudare_at(folder, "info keys/evaluation.key --json").json();
    assert_fields(&evaluation, &["relinearization_level", "memory_bytes", "keys"]);
    assert!(evaluation["automorphisms"].as_u64() > Some(0) && evaluation["raising"].is_null());
    let fields = ["kind", "format_version", "params", "key_id", "bytes", "security_bits"];
    let mut keys = Vec::new();
    for (file, kind) in [
        ("keys/secret.key", "secret key"),
        ("keys/public.key", "public key"),
        ("keys/evaluation.key", "evaluation keys"),
        ("t.ct", "ciphertexts"),
    ] {
        let info = sudare_at(folder, &format!("info {file} --json")).json();
        assert_fields(&info, &fields);
        assert_eq!((&info["kind"], &info["params"]), (&kind.into(), &"n14".into()));
        assert!(info["security_bits"].as_f64().unwrap() >= 128.0);
        assert_eq!(info["job"], "stats:189x9");
        let size = fs::metadata(folder.join(file)).unwrap().len();
        assert_eq!(info["bytes"].as_u64(), Some(size));
        assert_eq!(info.get("keys").is_some(), kind == "evaluation keys");
        keys.push(info["key_id"].clone());
        assert!(sudare_at(folder, &format!("info {file}")).ok().stdout.contains(kind));
    }
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_secrets() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sudare_at(folder, "keygen --params auto --for stats:50x2 --out keys").ok();
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("keys/secret.key"), 0o600);
    assert_ne!(mode("keys/public.key"), 0o600);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_with_status_130() {
    use std::process::{Command, Stdio};
    let mut running = Command::new(env!("CARGO_BIN_EXE_sudare"))
        .args(["bench", "add", "--params", "n13", "--runs", "1000000", "--json"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
}

#[cfg(unix)]
#[test]
fn an_interrupted_key_generation_leaves_no_file() {
    use std::{
        process::{Command, Stdio},
        time::{Duration, Instant},
    };
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let mut running = Command::new(env!("CARGO_BIN_EXE_sudare"))
        .args(["keygen", "--params", "n16", "--for", "train:5000x100", "--threads", "1", "--out"])
        .arg(&keys)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !keys.is_dir() || names(&keys).len() < 3 {
        assert!(start.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(names(&keys).iter().all(|name| name.ends_with(".part")));
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert!(names(&keys).is_empty());
}

/// As in `sudare params | head -1`.
#[cfg(unix)]
#[test]
fn nobody_has_to_read_the_result() {
    use std::process::{Command, Stdio};
    for line in ["--help", "params", "params --json", "keygen --help", "doctor"] {
        let mut running = Command::new(env!("CARGO_BIN_EXE_sudare"))
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(running.stdout.take());
        let output = running.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{line}");
    }
}
