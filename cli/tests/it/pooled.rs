//! Several owners of rows, a server, and the holder of the key, each in a folder of its own.

use crate::common::{LBW, numbers, sudare_at};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const OWNERS: [&str; 3] = ["north", "south", "west"];

/// What the holder of the key makes of the total.
const TRANSFORM: &str = "pool transform --secret keys/secret.key --schema schema.json -i all.sums";

/// Everybody's folder.
struct Folders {
    all: TempDir,
}

impl Folders {
    fn new() -> Self {
        let folders = Self { all: tempfile::tempdir().unwrap() };
        for name in OWNERS.into_iter().chain(["holder", "server"]) {
            fs::create_dir(folders.at(name)).unwrap();
        }
        folders
    }

    fn at(&self, name: &str) -> PathBuf {
        self.all.path().join(name)
    }

    fn send(&self, file: &str, from: &str, to: &str) {
        let name = Path::new(file).file_name().unwrap();
        fs::copy(self.at(from).join(file), self.at(to).join(name)).unwrap();
    }

    fn to_owners(&self, file: &str) {
        OWNERS.iter().for_each(|owner| self.send(file, "holder", owner));
    }

    /// Cuts a table into that of each owner, the columns of the second in another order.
    fn cut(&self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        for (i, owner) in OWNERS.iter().enumerate() {
            let rows = lines[1..].iter().skip(i).step_by(3);
            let own = core::iter::once(&lines[0]).chain(rows);
            let turned = |line: &&str| match line.rsplit_once(',') {
                Some((rest, last)) if i == 1 => format!("{last},{rest}\n"),
                _ => format!("{line}\n"),
            };
            fs::write(self.at(owner).join("t.csv"), own.map(turned).collect::<String>()).unwrap();
        }
    }

    /// All files of one name that owners have, as arguments.
    fn inputs(ending: &str) -> String {
        OWNERS.iter().map(|owner| format!(" -i {owner}.{ending}")).collect()
    }

    /// Schema, keys, sums of all owners, and the total with the holder of the key.
    fn pool(&self, job: &str) {
        let line = "schema --data t.csv --target y --owners north,south,west -o schema.json --json";
        let drafted = sudare_at(&self.at("north"), line).json();
        assert_eq!((&drafted["columns"], &drafted["owners"]), (&9.into(), &3.into()));
        self.send("schema.json", "north", "holder");
        self.widen();
        let line = format!("keygen --params auto --for {job} --out keys");
        sudare_at(&self.at("holder"), &line).ok();
        for name in OWNERS.into_iter().chain(["server"]) {
            self.send("schema.json", "holder", name);
        }
        self.to_owners("keys/public.key");
        for owner in OWNERS {
            sudare_at(&self.at(owner), "schema --check schema.json --data t.csv").ok();
            let line = format!(
                "pool sums --public public.key --schema schema.json --owner {owner} --data t.csv \
                 -o {owner}.sums --json"
            );
            let sums = sudare_at(&self.at(owner), &line).json();
            assert_eq!(sums["rows"], 63);
            assert!(sums["seconds"].as_f64().unwrap() < 5.0, "{sums}");
            self.send(&format!("{owner}.sums"), owner, "server");
        }
        let line = format!("pool add --schema schema.json -o all.sums{}", Self::inputs("sums"));
        sudare_at(&self.at("server"), &line).ok();
        self.send("all.sums", "server", "holder");
    }

    /// After the total, the tables of all owners with the server, and what it takes to train.
    fn encrypt(&self) {
        let line = format!("{TRANSFORM} -o transform.json --json");
        assert_eq!(sudare_at(&self.at("holder"), &line).json()["rows"], 189);
        self.to_owners("transform.json");
        for owner in OWNERS {
            let line = format!(
                "encrypt --public public.key --transform transform.json --owner {owner} \
                 --data t.csv -o {owner}.ct"
            );
            sudare_at(&self.at(owner), &line).ok();
            self.send(&format!("{owner}.ct"), owner, "server");
        }
        self.send("keys/evaluation.key", "holder", "server");
    }

    /// The bounds of one owner's columns, made wider by hand for those of the others.
    fn widen(&self) {
        let path = self.at("holder").join("schema.json");
        let mut schema: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for column in schema["columns"].as_array_mut().unwrap() {
            let number = column.pointer_mut("/kind/number").unwrap();
            let [low, high] = ["low", "high"].map(|end| number[end].as_f64().unwrap());
            number["low"] = (low - (high - low)).into();
            number["high"] = (high + (high - low)).into();
        }
        fs::write(&path, serde_json::to_string_pretty(&schema).unwrap()).unwrap();
    }
}

/// Nobody can check that all rows stay in the range that the noise is for: that has to be said.
#[test]
fn models_of_several_owners_are_shared_on_their_word() {
    let f = Folders::new();
    f.cut(&fs::read_to_string(LBW).unwrap());
    f.pool("train:189x9 --schema schema.json --iterations 2 --share 6");
    f.encrypt();
    let line = "train --evaluation-key evaluation.key -o model.ct";
    sudare_at(&f.at("server"), &format!("{line}{}", Folders::inputs("ct"))).ok();
    f.send("model.ct", "server", "holder");
    let decrypt = |options: &str| {
        let line = format!("decrypt --secret keys/secret.key -i model.ct {options}--json");
        sudare_at(&f.at("holder"), &line)
    };
    decrypt("--share 6 ").mistake(&["rows of several owners", "--assume-range"]);
    decrypt("--assume-range ").mistake(&["--share"]);
    // No release was counted before.
    let scores = |model: &Value| -> Vec<f64> {
        let [weights, divisors] =
            ["weights", "divisors"].map(|name| numbers(&model["values"][name]));
        weights.iter().skip(1).zip(divisors).map(|(weight, divisor)| weight / divisor).collect()
    };
    let own = decrypt("").json();
    let shared = decrypt("--share 6 --assume-range ").json();
    let key = sudare_at(&f.at("holder"), "info keys/secret.key --json").json()["key_id"].take();
    let line = format!("info keys/{}.ledger --json", key.as_str().unwrap());
    assert_eq!(sudare_at(&f.at("holder"), &line).json()["releases"], 1);
    assert_eq!(shared["values"]["shared_bits"], 6);
    for (own, shared) in scores(&own).iter().zip(scores(&shared)) {
        assert!((own - shared).abs() < 0.5 * own.abs() + 0.05, "{own} {shared}");
    }
}

#[test]
fn owners_train_the_model_of_all_their_rows() {
    let f = Folders::new();
    let text = fs::read_to_string(LBW).unwrap();
    f.cut(&text);
    f.pool("train:189x9 --schema schema.json");
    f.encrypt();
    let holder = f.at("holder");
    let server = f.at("server");
    let train = "train --evaluation-key evaluation.key -o model.ct";
    sudare_at(&server, &format!("{train}{} --checkpoint state", Folders::inputs("ct"))).ok();
    // Tables in any order, and a resumed training.
    let turned = " -i west.ct -i north.ct -i south.ct";
    let line = format!("{train}{turned} --checkpoint state --resume --force --json");
    assert_eq!(sudare_at(&server, &line).json()["resumed_after"], 5);
    f.send("model.ct", "server", "holder");
    sudare_at(&holder, "decrypt --secret keys/secret.key -i model.ct -o model.json").ok();
    let read = |path: &Path| -> Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let pooled = read(&holder.join("model.json"));
    assert_eq!(pooled["rows"], 189);

    // The model of a single owner with all rows.
    let alone = tempfile::tempdir().unwrap();
    let at = alone.path();
    fs::write(at.join("t.csv"), &text).unwrap();
    let run = |line: &str| sudare_at(at, line);
    run("keygen --params auto --for train:189x9 --sigmoid-range 16 --out keys").ok();
    run("encrypt --public keys/public.key --data t.csv --target y -o t.ct").ok();
    run("train --evaluation-key keys/evaluation.key -i t.ct -o m.ct").ok();
    run("decrypt --secret keys/secret.key -i m.ct -o m.json").ok();
    let single = read(&at.join("m.json"));
    let own = |model: &Value| -> Vec<f64> {
        let divisors = numbers(&model["divisors"]);
        numbers(&model["weights"])[1..].iter().zip(divisors).map(|(w, d)| w / d).collect()
    };
    let found = own(&pooled);
    let expected = own(&single);
    let size = expected.iter().fold(0.0_f64, |size, w| size.max(w.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-4 * size, "{found} {expected}");
    }
    fs::write(holder.join("t.csv"), &text).unwrap();
    let quality = sudare_at(&holder, "evaluate --model model.json --data t.csv --json").json();
    let alone = run("evaluate --model m.json --data t.csv --json").json();
    assert!((quality["auc"].as_f64().unwrap() - alone["auc"].as_f64().unwrap()).abs() < 1e-3);

    // Files that do not belong together are refused.
    let train = |inputs: &str, parts: &[&str]| {
        let line = format!("train --evaluation-key evaluation.key -o x.ct {inputs}");
        sudare_at(&server, &line).mistake(parts);
    };
    train("-i north.ct -i south.ct", &["there is no file of west", "all owners"]);
    train("-i north.ct -i south.ct -i south.ct", &["south.ct belongs to \"south\"", "each owner"]);
    sudare_at(&holder, &format!("{TRANSFORM} -o other.json")).ok();
    f.send("other.json", "holder", "west");
    let encrypt = "encrypt --public public.key --data t.csv -o west.ct --force";
    let west = f.at("west");
    sudare_at(&west, &format!("{encrypt} --transform other.json --owner west")).ok();
    f.send("west.ct", "west", "server");
    train(&Folders::inputs("ct"), &["another transform", "the latest transform"]);
    sudare_at(&west, &format!("{encrypt} --transform other.json --owner east"))
        .mistake(&["no owner \"east\"", "north, south, west"]);
    sudare_at(&west, &format!("{encrypt} --target y")).mistake(&["3 tables", "--transform"]);
    sudare_at(at, "train --evaluation-key keys/evaluation.key -i t.ct -i t.ct -o x.ct")
        .mistake(&["found 2 tables", "--schema"]);
}

/// Batches have rows of every owner, and each class its weight.
#[test]
fn owners_train_in_batches_by_weighed_classes() {
    let f = Folders::new();
    let text = fs::read_to_string(LBW).unwrap();
    f.cut(&text);
    f.pool("train:189x9 --schema schema.json --batch 64 --class-weight balanced");
    let holder = f.at("holder");
    let server = f.at("server");
    let transform = "pool transform --secret keys/secret.key --schema schema.json -i all.sums";
    sudare_at(&holder, &format!("{transform} -o transform.json")).ok();
    f.to_owners("transform.json");
    for owner in OWNERS {
        let line = format!(
            "encrypt --public public.key --transform transform.json --owner {owner} --data t.csv \
             -o {owner}.ct"
        );
        sudare_at(&f.at(owner), &line).ok();
        f.send(&format!("{owner}.ct"), owner, "server");
    }
    f.send("keys/evaluation.key", "holder", "server");
    let line =
        format!("train --evaluation-key evaluation.key -o model.ct{}", Folders::inputs("ct"));
    sudare_at(&server, &line).ok();
    f.send("model.ct", "server", "holder");
    sudare_at(&holder, "decrypt --secret keys/secret.key -i model.ct -o model.json").ok();
    fs::write(holder.join("t.csv"), &text).unwrap();
    let quality = sudare_at(&holder, "evaluate --model model.json --data t.csv --json").json();
    assert!(quality["auc"].as_f64().unwrap() > 0.72, "{quality}");
    // Balanced, the model predicts the smaller class more often than the share of its rows.
    let predicted = sudare_at(&holder, "predict --model model.json --data t.csv --json").json();
    let named = predicted["predicted"].as_array().unwrap();
    assert!(named.iter().filter(|class| **class == "0").count() > 60, "{predicted}");
    sudare_at(&holder, &format!("{transform} -o other.json --class-weight 1,2"))
        .mistake(&["weights were passed", "omit them"]);
}

#[test]
fn the_holder_of_the_key_reads_statistics_of_all_rows() {
    let f = Folders::new();
    let text = fs::read_to_string(LBW).unwrap();
    f.cut(&text);
    f.pool("stats:189x9");
    let decrypt = "decrypt --secret keys/secret.key -i all.sums --json";
    let holder = f.at("holder");
    let line = format!("{decrypt} --schema schema.json --regress lwt");
    let values = sudare_at(&holder, &line).json()["values"].take();
    let table = sudare_table::Table::bundled("lbw").unwrap();
    assert_eq!(values["rows"], 189);
    for (j, found) in numbers(&values["mean"]).iter().enumerate() {
        let expected = table.column(j).sum::<f64>() / 189.0;
        assert!((found - expected).abs() < 1e-10 * expected.abs(), "{found} {expected}");
    }
    assert!(values["least_squares"]["r_squared"].is_f64());
    sudare_at(&holder, decrypt).mistake(&["sums of several owners", "--schema"]);
    sudare_at(&holder, &format!("{decrypt} --schema schema.json --share 4"))
        .mistake(&["--share is for models"]);
    let transform = "pool transform --secret keys/secret.key --schema schema.json -i all.sums";
    sudare_at(&holder, &format!("{transform} -o t.json"))
        .mistake(&["sums are for stats:189x9", "sudare decrypt"]);

    let server = f.at("server");
    let add = |inputs: &str, parts: &[&str]| {
        let line = format!("pool add --schema schema.json -o x.sums {inputs}");
        sudare_at(&server, &line).mistake(parts);
    };
    add("-i north.sums -i west.sums", &["there is no file of south"]);
    add(
        "-i north.sums -i north.sums -i west.sums",
        &["belongs to \"north\"", "one file of each owner"],
    );
    // Values, columns and categories that the schema lacks.
    let north = f.at("north");
    let sums = |text: &str, parts: &[&str]| {
        fs::write(north.join("bad.csv"), text).unwrap();
        let line = "pool sums --public public.key --schema schema.json --owner north \
                    --data bad.csv -o x.sums";
        sudare_at(&north, line).mistake(parts);
    };
    let own = fs::read_to_string(north.join("t.csv")).unwrap();
    let first = own.lines().nth(1).unwrap();
    let (_, rest) = first.split_once(',').unwrap();
    sums(&own.replace(first, &format!("1e300,{rest}")), &["\"age\"", "1e300", "bounds"]);
    sums(&own.replace("lwt", "weight"), &["lwt"]);
    sums(&own.replace(first, &format!(",{rest}")), &["\"age\"", "line 2"]);
    // A schema with other bounds is another schema.
    let schema = fs::read_to_string(north.join("schema.json")).unwrap();
    let mut other: Value = serde_json::from_str(&schema).unwrap();
    other["columns"][0]["kind"]["number"]["high"] = 1e6.into();
    fs::write(north.join("schema.json"), other.to_string()).unwrap();
    let line = "pool sums --public public.key --schema schema.json --owner north --data t.csv \
                -o north.sums --force";
    sudare_at(&north, line).ok();
    f.send("north.sums", "north", "server");
    add(&Folders::inputs("sums"), &["has another schema", "the same schema"]);
}
