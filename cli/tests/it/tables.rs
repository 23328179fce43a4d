//! Tables as they come: with text, gaps, several classes, and fewer rows than keys are for.

use crate::common::{LBW, sudare_at};
use serde_json::Value;
use std::{fs, path::Path};
use sudare::ckks::serial::Reader;

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Rows of a loan: a number with gaps, a purpose, and an outcome that follows from both.
fn loans(rows: usize) -> String {
    let purposes = ["car", "home", "boat"];
    let line = |i: usize| {
        let amount = (i * 37) % 100;
        let late = amount + 30 * (i % 3) + (i * i) % 41 > 90;
        let cell = if i.is_multiple_of(11) { String::new() } else { format!("{amount},5") };
        format!("{cell};{};{}\n", purposes[i % 3], if late { "late" } else { "paid" })
    };
    "amount;purpose;outcome\n".to_owned() + &(0..rows).map(line).collect::<String>()
}

#[test]
fn text_and_gaps_are_coded_by_their_owner_and_kept_with_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |line: &str| sudare_at(at, line);
    fs::write(at.join("t.csv"), loans(200)).unwrap();
    let coding = "--categorical all --missing flag";
    let keygen = "keygen --params auto --for train:t.csv --target outcome --out keys --predict";
    run(keygen).mistake(&["line 2", "\"amount\"", "empty", "--missing mean", "--drop amount"]);
    run(&format!("{keygen} {coding}")).ok();
    let encrypt = "encrypt --public keys/public.key --data t.csv --target outcome -o t.ct";
    run(&format!("{encrypt} --missing refuse")).mistake(&["line 2", "\"amount\"", "empty"]);
    // The keys store how the table is read, unless options differ.
    run(&format!("{encrypt} --missing mean")).mistake(&["4 features", "200x5"]);
    run(&format!("{encrypt} --hold-out 0.25")).ok();
    run("train --evaluation-key keys/evaluation.key -i t.ct -o m.ct").ok();
    run("decrypt --secret keys/secret.key -i m.ct -o m.json --calibrate t.csv").ok();
    let model = read(&at.join("m.json"));
    let columns = ["amount", "amount missing", "purpose=boat", "purpose=car", "purpose=home"];
    assert_eq!(model["columns"], serde_json::json!(columns));
    assert_eq!(model["classes"], serde_json::json!(["late", "paid"]));
    assert_eq!((&model["rows"], &model["calibrated"]), (&150.into(), &true.into()));
    let held = run("evaluate --model m.json --data t.csv --held-out --json").json();
    assert_eq!(held["rows"], 50);
    assert!(held["auc"].as_f64().unwrap() > 0.85, "{held}");
    let report = run("report --model m.json --data t.csv --held-out --test t.csv --json").json();
    assert_eq!((&report["rows"], &report["test"]["rows"]), (&50.into(), &200.into()));
    other_tables_are_refused(at, &model);

    // New rows with other marks, in another order and without labels.
    fs::write(at.join("new.csv"), "purpose,amount\ncar,\nhome,99.5\n").unwrap();
    let predicted = run("predict --model m.json --data new.csv --json").json();
    assert_eq!(predicted["predicted"].as_array().unwrap().len(), 2);
    fs::write(at.join("new.csv"), "purpose,amount\nplane,1\n").unwrap();
    run("predict --model m.json --data new.csv").mistake(&["line 2", "\"plane\"", "car"]);

    // Rows to be scored under encryption are coded alike.
    fs::write(at.join("rows.csv"), loans(30)).unwrap();
    let line = "encrypt --public keys/public.key --data rows.csv --like m.json -o rows.ct";
    run(line).ok();
    for model in ["m.ct", "m.json"] {
        let line = format!(
            "predict --evaluation-key keys/evaluation.key --model {model} -i rows.ct -o s.ct --force"
        );
        run(&line).ok();
        let values = run("decrypt --secret keys/secret.key -i s.ct --json").json();
        assert!(values["values"]["auc"].as_f64().unwrap() > 0.85, "{values}");
        assert_eq!(values["values"]["classes"], serde_json::json!(["late", "paid"]));
    }
}

/// Tables that `m.json` was not trained on, as held-out rows and to calibrate by.
fn other_tables_are_refused(at: &Path, model: &Value) {
    let run = |line: &str| sudare_at(at, line);
    let text = loans(200);
    let lines: Vec<&str> = text.lines().collect();
    let (head, rows) = lines.split_first().unwrap();
    let table = |rows: &[String]| format!("{head}\n{}\n", rows.join("\n"));
    let owned = |rows: &[&str]| rows.iter().map(|&row| row.to_owned()).collect::<Vec<_>>();
    let mut reversed = owned(rows);
    reversed.reverse();
    let scaled = rows.iter().map(|row| row.replacen(",5;", "7,5;", 1)).collect::<Vec<_>>();
    let flipped = |row: &&str| {
        if row.ends_with("late") {
            row.replace("late", "paid")
        } else {
            row.replace("paid", "late")
        }
    };
    let flipped = rows.iter().map(flipped).collect::<Vec<_>>();
    let evaluate = "evaluate --model m.json --data other.csv --held-out";
    let calibrate =
        "decrypt --secret keys/secret.key -i m.ct -o other.json --force --calibrate other.csv";
    for (rows, problem) in
        [(reversed.clone(), ""), (scaled, "amount"), (owned(&rows[..150]), "rows"), (flipped, "")]
    {
        fs::write(at.join("other.csv"), table(&rows)).unwrap();
        run(evaluate).mistake(&["--held-out: other.csv", "trained on", problem]);
        run(&evaluate.replace("evaluate", "report")).mistake(&["trained on", problem]);
        run(calibrate).mistake(&["trained on", problem]);
    }
    // Files of earlier versions have no fingerprints: means and ranges of columns identify them.
    let mut earlier = model.clone();
    earlier.as_object_mut().unwrap().remove("fingerprints").unwrap();
    fs::write(at.join("earlier.json"), earlier.to_string()).unwrap();
    fs::write(at.join("other.csv"), table(&reversed)).unwrap();
    let evaluate = "evaluate --model earlier.json --held-out --data";
    run(&format!("{evaluate} t.csv")).ok();
    run(&format!("{evaluate} other.csv")).mistake(&["trained on"]);
}

/// Groups that are texts keep their labels, and keys remember how their table is read.
#[test]
fn groups_by_text_are_read_as_when_the_keys_were_planned() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |line: &str| sudare_at(at, line);
    let text = loans(60);
    let numbered = text.lines().enumerate().map(|(i, line)| match i {
        0 => format!("loan_id;{line}\n"),
        _ => format!("{};{line}\n", 1000 + i),
    });
    fs::write(at.join("t.csv"), numbered.collect::<String>()).unwrap();
    let keygen = "keygen --params auto --for groups:t.csv --out keys";
    run(keygen).mistake(&["--by"]);
    run(&format!("{keygen} --by purposes")).mistake(&["did you mean \"purpose\""]);
    let made = run(&format!("{keygen} --by purpose --target outcome --missing drop"));
    let made = made.ok();
    assert!(made.stderr.contains("left out loan_id"), "{}", made.stderr);
    assert!(made.stdout.contains("coding.json"), "{}", made.stdout);
    let info = run("info keys/public.key --json").json();
    assert_eq!(info["job"], "groups:54x1x3");
    let encrypt = "encrypt --public keys/public.key --data t.csv -o t.ct";
    run(encrypt).ok();
    run("stats --evaluation-key keys/evaluation.key -i t.ct -o s.ct").ok();
    let decrypt = "decrypt --secret keys/secret.key -i s.ct";
    let values = run(&format!("{decrypt} --t-test car,home --json")).json()["values"].take();
    assert_eq!(values["labels"], serde_json::json!(["boat", "car", "home"]));
    assert_eq!((&values["key"], &values["columns"][0]), (&"purpose".into(), &"amount".into()));
    assert!(values["t_test"][0]["p_value"].is_number(), "{values}");
    run(&format!("{decrypt} --t-test car,plane")).mistake(&["plane", "boat, car, home"]);
    run(&format!("{decrypt} -o s.csv")).ok();
    assert!(fs::read_to_string(at.join("s.csv")).unwrap().contains("\nboat,amount,"));

    // A group unknown to the keys, the coding of other keys, and keys without a coding.
    fs::write(at.join("more.csv"), text.replace("boat", "plane")).unwrap();
    run(&encrypt.replace("t.csv", "more.csv").replace("t.ct", "more.ct")).mistake(&[
        "more.csv",
        "\"plane\"",
        "boat",
    ]);
    run("keygen --params auto --for stats:9x2 --out other").ok();
    fs::copy(at.join("keys/coding.json"), at.join("other/coding.json")).unwrap();
    run("encrypt --public other/public.key --data t.csv -o other.ct")
        .mistake(&["other keys", "coding.json"]);
    run("keygen --params auto --for stats:9x2 --out other").mistake(&["exists"]);
    run("keygen --params auto --for stats:9x2 --out other --force").ok();
    assert!(!at.join("other/coding.json").exists());
}

/// One model for each class on the same rows, and the softmax of their scores.
#[test]
fn several_classes_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |line: &str| sudare_at(at, line);
    let line = |i: usize| {
        let class = ["blue", "green", "red"][i % 3];
        let x = (i * 7 % 10) as f64 / 10.0;
        let y = (i * 13 % 10) as f64 / 10.0;
        let (dx, dy) = [(0.0, 0.0), (2.0, 0.0), (1.0, 2.0)][i % 3];
        format!("{},{},{class}\n", x + dx, y + dy)
    };
    let rows: String = (0..150).map(line).collect();
    fs::write(at.join("t.csv"), format!("x,y,colour\n{rows}")).unwrap();
    run("keygen --params auto --for train:t.csv --target colour --out keys --predict").ok();
    let info = run("info keys/public.key --json").json();
    assert!(info["job"].as_str().unwrap().contains("3 classes"), "{info}");
    run("encrypt --public keys/public.key --data t.csv --target colour -o t.ct").ok();
    let train = "train --evaluation-key keys/evaluation.key -i t.ct -o m.ct --history";
    run(&format!("{train} --checkpoint state --iterations 3")).ok();
    run(&format!("{train} --checkpoint state --resume --force")).ok();
    run("decrypt --secret keys/secret.key -i m.ct -o m.json --calibrate t.csv").ok();
    let model = read(&at.join("m.json"));
    assert_eq!(model["weights"].as_array().unwrap().len(), 3);
    assert_eq!(model["history"][4].as_array().unwrap().len(), 3);
    let quality = run("evaluate --model m.json --data t.csv --json").json();
    assert!(quality["accuracy"].as_f64().unwrap() > 0.97, "{quality}");
    assert!(quality["auc"].as_f64().unwrap() > 0.99 && quality["ks"].is_null(), "{quality}");
    let report = run("report --model m.json --data t.csv --json").json();
    assert_eq!(report["confusion"].as_array().unwrap().len(), 3);
    assert!(run("report --model m.json --data t.csv").ok().stdout.contains("green"));
    run("decrypt --secret keys/secret.key -i m.ct -o m.csv").ok();
    let csv = fs::read_to_string(at.join("m.csv")).unwrap();
    assert!(csv.starts_with("class,column,weight,"), "{csv}");
    run("predict --model m.json --data t.csv -o p.csv").ok();
    let csv = fs::read_to_string(at.join("p.csv")).unwrap();
    assert!(csv.starts_with("score blue,score green,score red,probability blue,"), "{csv}");

    run("encrypt --public keys/public.key --data t.csv --like t.csv --target colour -o r.ct").ok();
    let line = "predict --evaluation-key keys/evaluation.key --model m.ct -i r.ct -o s.ct";
    run(line).ok();
    let values = run("decrypt --secret keys/secret.key -i s.ct --json").json()["values"].take();
    assert!(values["accuracy"].as_f64().unwrap() > 0.97, "{values}");
    let shown = run("decrypt --secret keys/secret.key -i s.ct").ok().stdout.clone();
    assert!(shown.contains("green") && shown.contains("largest class"), "{shown}");
}

/// Nothing that a server gets depends on the data: files of two tables of one shape differ in the
/// bytes of ciphertexts alone, and so do those of fewer rows.
#[test]
fn a_server_learns_the_shape_that_keys_are_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |line: &str| sudare_at(at, line);
    run("keygen --params auto --for train:189x9 --out keys").ok();
    let text = fs::read_to_string(LBW).unwrap();
    let some = text.lines().take(1).chain(text.lines().skip(1).step_by(2));
    let fewer: String = some.map(|line| format!("{line}\n")).collect();
    // Far from zero, with other spreads and other shares of the classes.
    let other = text.lines().enumerate().map(|(i, line)| match (i, line.rsplit_once(',')) {
        (1.., Some((row, label))) => {
            let label = if i % 3 == 0 { "0" } else { label };
            let cell = |x: &str| (x.parse::<f64>().unwrap() * 1e3 - 7e5 + i as f64).to_string();
            let row: Vec<String> = row.split(',').map(cell).collect();
            format!("{},{label}\n", row.join(","))
        }
        _ => format!("{line}\n"),
    });
    fs::write(at.join("fewer.csv"), fewer).unwrap();
    fs::write(at.join("other.csv"), other.collect::<String>()).unwrap();
    fs::write(at.join("lbw.csv"), &text).unwrap();
    let seen = |name: &str| {
        let line =
            format!("encrypt --public keys/public.key --data {name} --target y -o {name}.ct");
        run(&line).ok();
        let path = at.join(format!("{name}.ct"));
        let bytes = fs::read(&path).unwrap();
        let reader = Reader::new(&bytes[..], bytes.len() as u64).unwrap();
        let label = reader.info().label.clone();
        let params = reader.params().unwrap();
        let items = reader.ciphertexts(&params).unwrap();
        let shapes: Vec<_> = items.iter().map(|item| (item.level(), item.scale())).collect();
        (bytes.len(), label, shapes)
    };
    let first = seen("lbw.csv");
    assert_eq!(seen("other.csv"), first);
    assert_eq!(seen("fewer.csv"), first);
    let info = run("info lbw.csv.ct").ok().stdout.clone();
    assert!(info.contains("189x9") && !info.contains("lwt"), "{info}");
    run("train --evaluation-key keys/evaluation.key -i fewer.csv.ct -o m.ct").ok();
    run("decrypt --secret keys/secret.key -i m.ct -o m.json").ok();
    assert_eq!(read(&at.join("m.json"))["rows"], 95);
}
