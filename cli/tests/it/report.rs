//! Pages about models.

use crate::common::{LBW, assert_fields, reference, scores, sudare_at};
use roxmltree::{Document, ParsingOptions};
use serde_json::Value;
use std::{fs, path::Path};
use sudare_apps::logreg::{Preparation, TrainSpec};
use sudare_table::{Table, metrics};

/// Asserts that a page is well-formed and needs nothing else, and returns its text.
fn text_of(page: &str) -> String {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(page, options).unwrap();
    let mut text = String::new();
    for node in document.descendants() {
        let name = node.tag_name().name();
        let outside = ["script", "link", "img", "iframe", "object", "image", "use", "base"];
        assert!(!outside.contains(&name), "{name}");
        for attribute in node.attributes() {
            let name = attribute.name();
            assert!(!name.starts_with("on") && !["href", "src"].contains(&name), "{name}");
        }
        if name == "svg" && node.attribute("aria-hidden").is_none() {
            let title = node.first_element_child().unwrap();
            assert!(title.tag_name().name() == "title" && !title.text().unwrap().is_empty());
            let labels = node.attribute("aria-labelledby").unwrap();
            for id in labels.split(' ') {
                let count =
                    document.descendants().filter(|n| n.attribute("id") == Some(id)).count();
                assert_eq!(count, 1, "{id}");
            }
        }
        // Every number of a path lies inside the picture.
        if let Some(path) = node.attribute("d") {
            assert!(!path.contains("NaN") && !path.contains("inf"), "{path}");
        }
        text += node.text().filter(|_| node.is_text()).unwrap_or_default();
    }
    for outside in ["url(", "@import", "<!--"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("http").count(), 1 + page.matches("<svg xmlns").count() + 1, "{page}");
    text
}

fn page(at: &Path, options: &str) -> String {
    sudare_at(at, &format!("report --force -o r.html {options}")).ok();
    let page = fs::read_to_string(at.join("r.html")).unwrap();
    text_of(&page);
    page
}

#[test]
fn a_training_with_history_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |line: &str| sudare_at(at, line);
    run("keygen --params auto --for train:189x9 --out keys").ok();
    run(&format!("encrypt --public keys/public.key --data {LBW} --target y -o t.ct")).ok();
    run("train --evaluation-key keys/evaluation.key -i t.ct -o m.ct --history").ok();
    run("decrypt --secret keys/secret.key -i m.ct -o m.json").ok();

    let table = Table::bundled("lbw").unwrap();
    let spec = TrainSpec::recommended(189, 9, Preparation::Whiten).unwrap();
    let reference = reference(&table, &spec, None);
    let model: Value =
        serde_json::from_str(&fs::read_to_string(at.join("m.json")).unwrap()).unwrap();
    assert_eq!(model["training"], serde_json::to_value(spec).unwrap());
    let history = model["history"].as_array().unwrap();
    assert_eq!(history.len(), reference.len());
    for (found, expected) in history.iter().zip(&reference) {
        for (found, expected) in found.as_array().unwrap().iter().zip(&expected[0]) {
            let found = found.as_f64().unwrap();
            assert!((found - expected).abs() < 1e-3, "{found} {expected}");
        }
    }

    // The figures agree with `evaluate`, and with the weights in the history.
    let figures = run(&format!("report --model m.json --data {LBW} --json")).json();
    let quality = run(&format!("evaluate --model m.json --data {LBW} --json")).json();
    for name in ["rows", "accuracy", "auc", "ks"] {
        assert_eq!(figures[name], quality[name], "{name}");
    }
    assert_fields(&figures, &["features", "iterations", "base_rate", "log_loss", "intercepts"]);
    let labels = &table.labels().unwrap();
    let curve = figures["curve"].as_array().unwrap();
    assert_eq!(curve.len(), 5);
    for ((step, weights), iteration) in curve.iter().zip(&reference).zip(1_u64..) {
        assert_eq!(step["iteration"].as_u64(), Some(iteration));
        let scores = scores(&table, &weights[0]);
        let of = |name: &str| step[name].as_f64().unwrap();
        let loss = metrics::log_loss(&scores, labels).unwrap();
        assert!((of("clear_log_loss") - loss).abs() < 1e-12, "{step}");
        assert!((of("log_loss") - loss).abs() < 1e-4, "{step}");
        assert!((of("clear_auc") - metrics::auc(&scores, labels).unwrap()).abs() < 1e-12);
    }
    assert_eq!(curve[4]["auc"], figures["auc"]);
    assert_eq!(curve[4]["log_loss"], figures["log_loss"]);
    let count = |name: &str| -> u64 {
        let counts = figures["histogram"][name].as_array().unwrap();
        counts.iter().map(|count| count.as_u64().unwrap()).sum()
    };
    assert_eq!((count("zeros"), count("ones")), (59, 130));
    let calibration = figures["calibration"].as_array().unwrap();
    let rows: u64 = calibration.iter().map(|group| group["rows"].as_u64().unwrap()).sum();
    let ones = |name: &str| -> f64 {
        let of = |g: &Value| g[name].as_f64().unwrap() * g["rows"].as_f64().unwrap();
        calibration.iter().map(of).sum()
    };
    assert_eq!((rows, ones("observed").round() as u64), (189, 130));
    assert!(ones("predicted") > 60.0 && ones("predicted") < 189.0);

    let whole = page(at, &format!("--model m.json --data {LBW}"));
    // The sentence at the beginning has the accuracy and the share of the larger class, 130 of 189.
    let lead = "The model names the right class of <bdi>y</bdi> for 74.1\u{a0}% of the rows; naming the \
                larger class for every row would be right for 68.8\u{a0}%.";
    for part in [lead, "0.7407", "189", "in the clear", "Log loss by iteration", "lbw.csv"] {
        assert!(whole.contains(part), "{part}");
    }
    assert_eq!(whole.matches("role=\"img\"").count(), 5);
    run(&format!("report --model m.json --data {LBW} -o r.html")).mistake(&["r.html exists"]);
    let printed = run(&format!("report --model m.json --data {LBW}"));
    assert_eq!(printed.ok().stdout, whole);

    // Another table is not compared with a training on it.
    let lines = fs::read_to_string(LBW).unwrap();
    let some: Vec<&str> = lines.lines().step_by(2).collect();
    fs::write(at.join("some.csv"), some.join("\n")).unwrap();
    let figures = run("report --model m.json --data some.csv --json").json();
    assert!(figures["curve"][4]["clear_auc"].is_null() && figures["curve"][4]["auc"].is_f64());
    assert!(!page(at, "--model m.json --data some.csv").contains("in the clear"));
}

#[test]
fn a_model_without_history_is_reported_and_names_are_text() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let evil = "<script>alert(1)</script>";
    let model = serde_json::json!({
        "kind": "logistic regression", "weights": [0.5, -2.0, 1e-3],
        "columns": [evil, "a&b\"'\u{1}"], "target": "</title><b>", "divisors": [2.0, 8.0],
        "iterations": 5, "rows": 9,
    });
    fs::write(at.join("m.json"), model.to_string()).unwrap();
    let table = format!("{evil},\"a&b\"\"'\u{1}\",</title><b>\n1,2,0\n-1,3,1\n0,4,1\n");
    fs::write(at.join("<i>t.csv"), table).unwrap();
    let whole = page(at, "--model m.json --data <i>t.csv");
    assert!(!whole.contains("<script") && !whole.contains("<b>") && !whole.contains("<i>"));
    let text = text_of(&whole);
    for part in [evil, "a&b\"'\u{fffd}", "</title><b>", "<i>t.csv"] {
        assert!(text.contains(part), "{part}");
    }
    let figures = sudare_at(at, "report --model m.json --data <i>t.csv --json").json();
    assert_eq!(figures["curve"], serde_json::json!([]));
    assert_eq!(figures["weights"][0]["column"], evil);
    assert_eq!(whole.matches("role=\"img\"").count(), 3);

    // A history must belong to the model.
    for history in [
        serde_json::json!([[0.5, -2.0, 1e-3]]),
        serde_json::json!([[0.5], [0.5], [0.5], [0.5], [0.5]]),
    ] {
        let mut bad = model.clone();
        bad["history"] = history;
        fs::write(at.join("bad.json"), bad.to_string()).unwrap();
        let refused = sudare_at(at, "report --model bad.json --data <i>t.csv");
        refused.mistake(&["bad.json", "history of 5 iterations with 3 weights"]);
    }
    let mut none = model.clone();
    (none["iterations"], none["history"]) = (0.into(), serde_json::json!([]));
    fs::write(at.join("bad.json"), none.to_string()).unwrap();
    sudare_at(at, "report --model bad.json --data <i>t.csv").mistake(&["history of 0 iterations"]);
    fs::write(at.join("one.csv"), format!("{evil},\"a&b\"\"'\u{1}\",</title><b>\n1,2,0\n"))
        .unwrap();
    // One class has no ROC curve.
    let one = page(at, "--model m.json --data one.csv");
    assert_eq!(one.matches("role=\"img\"").count(), 2);
}

/// A column with one outlier has a large range, but not a large effect.
#[test]
fn an_outlier_makes_no_column_important() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // The same coefficient per unit, with ranges of 60 and 200.
    let model = serde_json::json!({
        "kind": "logistic regression", "weights": [0.1, 0.02 * 60.0, 0.02 * 200.0],
        "columns": ["age", "crp"], "target": "ill", "divisors": [60.0, 200.0],
        "iterations": 5, "rows": 100,
    });
    fs::write(at.join("m.json"), model.to_string()).unwrap();
    let ages: Vec<f64> = (0..100).map(|row| f64::from(row * 37 % 100)).collect();
    let crp: Vec<f64> =
        (0..100).map(|row| if row == 7 { 200.0 } else { f64::from(row % 5) }).collect();
    let rows = (0..100).map(|row| format!("{},{},{}\n", ages[row], crp[row], row % 3 / 2));
    fs::write(at.join("t.csv"), format!("age,crp,ill\n{}", rows.collect::<String>())).unwrap();
    let figures = sudare_at(at, "report --model m.json --data t.csv --json").json();
    let deviation = |values: &[f64]| -> f64 {
        let mean = values.iter().sum::<f64>() / 100.0;
        (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 100.0).sqrt()
    };
    for (place, column, expected) in
        [(0, "age", 0.02 * deviation(&ages)), (1, "crp", 0.02 * deviation(&crp))]
    {
        let weight = &figures["weights"][place];
        assert_eq!(weight["column"], column);
        assert!((weight["per_std"].as_f64().unwrap() - expected).abs() < 1e-12, "{weight}");
    }
    let text = text_of(&page(at, "--model m.json --data t.csv"));
    let sentence =
        "The strongest column is age: a standard deviation more multiplies the odds of class 1";
    assert!(text.contains(sentence), "{text}");
}
