//! Bad input: status 2, a message that says what was found and what to do, and no
//! file left behind.

use crate::common::{names, sudare_at};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};
use sudare::{
    ckks::{
        Encoder, Encryptor, Evaluator, Scale,
        serial::{self, Label, Reader},
    },
    rlwe::{KeyGenerator, KeyRequest, Level},
};
use sudare_apps::logreg::Transform;
use sudare_arith::prng::Seed;
use sudare_roles::clear::note::{About, Note, Trained};
use tempfile::TempDir;

/// A folder with keys and files of a small training and of statistics, made once.
static FIXTURE: LazyLock<PathBuf> = LazyLock::new(|| {
    let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad_input");
    let _ = fs::remove_dir_all(&at);
    fs::create_dir_all(&at).unwrap();
    let make = |line: &str| {
        sudare_at(&at, line).ok();
    };
    fs::write(at.join("t.csv"), table(20)).unwrap();
    for keys in ["a", "b"] {
        make(&format!("keygen --params auto --for train:20x2 --iterations 3 --out {keys}"));
        let out = format!("{keys}.ct");
        make(&format!("encrypt --public {keys}/public.key --data t.csv --target y -o {out}"));
    }
    make("train --evaluation-key a/evaluation.key -i a.ct -o model.ct");
    make("decrypt --secret a/secret.key -i model.ct -o model.json");
    make("keygen --params auto --for stats:20x2 --out s");
    make("encrypt --public s/public.key --data t.csv --target y -o s.ct");
    at
});

/// A table that a model can be trained on.
fn table(rows: usize) -> String {
    let line =
        |i: usize| format!("{},{},{}\n", i % 7, (i * i) % 5, usize::from(i.is_multiple_of(3)));
    "u,v,y\n".to_owned() + &(0..rows).map(line).collect::<String>()
}

/// A folder with a copy of the fixture's files.
fn folder() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_all(&FIXTURE, copy.path());
    copy
}

fn copy_all(from: &Path, to: &Path) {
    for name in names(from) {
        let source = from.join(&name);
        let target = to.join(&name);
        if source.is_dir() {
            fs::create_dir(&target).unwrap();
            copy_all(&source, &target);
        } else {
            fs::copy(source, target).unwrap();
        }
    }
}

/// Every file below `folder` with its size.
fn contents(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = Vec::new();
    for name in names(folder) {
        let path = folder.join(name);
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            all.extend(contents(&path));
        } else {
            all.push((path, found.len()));
        }
    }
    all
}

/// `line` is the user's mistake, says all of `parts`, and leaves `folder` as it is.
fn refused(folder: &Path, line: &str, parts: &[&str]) {
    let before = contents(folder);
    sudare_at(folder, line).mistake(parts);
    assert_eq!(contents(folder), before, "{line}");
}

const TRAIN: &str = "train --evaluation-key a/evaluation.key -i a.ct -o out.ct";
const ENCRYPT: &str = "encrypt --public a/public.key --data bad.csv --target y -o out.ct";
const DECRYPT: &str = "decrypt --secret a/secret.key -i model.ct -o out.json";

/// A terabyte without a line end, most of it a hole, is refused before memory or time run out.
#[test]
fn tables_without_line_ends() {
    let folder = folder();
    let at = folder.path();
    let sparse = fs::File::create(at.join("sparse.csv")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    fs::write(at.join("begun.csv"), "u,v,y\n1,2,0\n").unwrap();
    let begun = fs::File::options().append(true).open(at.join("begun.csv")).unwrap();
    begun.set_len(1 << 40).unwrap();
    for (line, row) in [
        ("encrypt --public s/public.key --data sparse.csv -o never.ct", 1),
        ("encrypt --public s/public.key --data begun.csv --target y -o never.ct", 3),
        ("evaluate --model model.json --data begun.csv", 3),
        ("schema --data begun.csv --target y --owners a,b -o never.json", 3),
    ] {
        let said = format!("the row on line {row}: it has more than 64 MiB");
        sudare_at(at, line).mistake(&[&said, "end each row"]);
    }
    assert!(names(at).iter().all(|name| !name.contains("never")));
}

#[test]
fn keys_of_another_pair_or_other_parameters() {
    let folder = folder();
    let at = folder.path();
    let line = "decrypt --secret b/secret.key -i model.ct -o out.json";
    refused(at, line, &["model.ct", "belongs to key", "same key pair"]);
    let line = "train --evaluation-key b/evaluation.key -i a.ct -o out.ct";
    refused(at, line, &["a.ct", "belongs to key", "same key pair"]);
    let line = "decrypt --secret s/secret.key -i model.ct -o out.json";
    refused(at, line, &["model.ct", "belongs to parameters", "same parameters"]);
    let line = "stats --evaluation-key s/evaluation.key -i a.ct -o out.ct";
    refused(at, line, &["a.ct", "belongs to parameters"]);
}

#[test]
fn files_of_another_kind() {
    let folder = folder();
    let at = folder.path();
    let line = "decrypt --secret a/public.key -i model.ct";
    refused(at, line, &["a/public.key", "public key", "\"secret key\" is needed"]);
    let line = "train --evaluation-key a/secret.key -i a.ct -o out.ct";
    refused(at, line, &["a/secret.key", "secret key", "\"evaluation keys\" is needed"]);
    let line = "train --evaluation-key a/evaluation.key -i model.ct -o out.ct";
    refused(at, line, &["model.ct", "holds model", "table is needed"]);
    refused(at, "decrypt --secret a/secret.key -i a.ct", &["holds table", "model or statistics"]);
    refused(at, "info t.csv", &["t.csv", "not a valid"]);
    refused(at, "info nothing.ct", &["cannot read nothing.ct"]);
    refused(at, "info a", &["a is not a regular file"]);
    let line = "train --evaluation-key s/evaluation.key -i s.ct -o out.ct";
    refused(at, line, &["stats:20x2", "sudare stats", "train:"]);
    let line = "stats --evaluation-key a/evaluation.key -i a.ct -o out.ct";
    refused(at, line, &["train:20x2", "sudare train", "stats:"]);
}

#[test]
fn tables_that_cannot_be_used() {
    let folder = folder();
    let at = folder.path();
    let good = table(20);
    let replaced = |row: usize, line: &str| -> String {
        let lines = good.lines().enumerate();
        lines
            .map(|(i, old)| if i == row { format!("{line}\n") } else { format!("{old}\n") })
            .collect()
    };
    let with_column = |name: &str, cell: &str| -> String {
        let lines = good.lines().enumerate();
        lines.map(|(i, old)| format!("{},{old}\n", if i == 0 { name } else { cell })).collect()
    };
    let constant: String = good
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let (_, rest) = line.split_once(',').unwrap();
            if i == 0 { format!("u,{rest}\n") } else { format!("4,{rest}\n") }
        })
        .collect();
    let one_class: String = good.lines().map(|line| line.replace(",0", ",1") + "\n").collect();
    for (text, parts) in [
        (replaced(3, "1,yes,0"), &["line 4", "\"v\"", "\"yes\""][..]),
        (replaced(3, "1,,0"), &["line 4", "\"v\"", "empty"]),
        (replaced(3, "1,2"), &["line 4", "2 cells", "3 columns"]),
        (replaced(3, "NaN,2,0"), &["line 4", "\"u\"", "stands for no value"]),
        (replaced(3, "inf,2,0"), &["line 4", "\"u\"", "finite"]),
        (replaced(3, "1,2,7"), &["\"y\"", "3 classes", "(0, 1, 7)", "--classes 3"]),
        (one_class, &["\"y\" is 1 in every row", "both classes"]),
        ("u;v;y\n1,5;2;0\n2;2.5;1\n".into(), &["line 2", "\"u\"", "line 3", "\"v\"", "decimal"]),
        (with_column("w", "1"), &["20 rows and 3 features", "train:20x2", "--for train:20x3"]),
        (table(21), &["21 rows and 2 features", "train:20x2", "--for train:21x2"]),
        (good.replace("u,v,y", "u,v,z"), &["\"y\"", "u, v, z"]),
        (String::new(), &["0 rows"]),
    ] {
        fs::write(at.join("bad.csv"), text).unwrap();
        refused(at, ENCRYPT, parts);
    }
    // Neither a constant feature nor semicolons are a mistake.
    fs::write(at.join("bad.csv"), constant.replace(',', ";")).unwrap();
    sudare_at(at, ENCRYPT).ok();
    fs::remove_file(at.join("out.ct")).unwrap();
    fs::write(at.join("bad.csv"), &good).unwrap();
    refused(at, &ENCRYPT.replace("--target y", ""), &["needs labels", "--target"]);
    fs::write(at.join("bad.parquet"), &good).unwrap();
    refused(at, &ENCRYPT.replace("bad.csv", "bad.parquet"), &["bad.parquet", "Parquet", "CSV"]);
    refused(at, &ENCRYPT.replace("bad.csv", "none.csv"), &["none.csv"]);
    fs::write(at.join("bad.csv"), [0x50, 0xff, 0xfe, 0x0a]).unwrap();
    refused(at, ENCRYPT, &["UTF-8"]);
}

#[test]
fn damaged_files() {
    let folder = folder();
    let at = folder.path();
    let commands = [
        ("a/secret.key", DECRYPT),
        ("model.ct", DECRYPT),
        ("a/evaluation.key", TRAIN),
        ("a.ct", TRAIN),
    ];
    for (name, line) in commands {
        let whole = fs::read(at.join(name)).unwrap();
        let len = whole.len();
        let try_bytes = |bytes: &[u8], parts: &[&str]| {
            fs::write(at.join(name), bytes).unwrap();
            refused(at, line, parts);
        };
        for keep in [0, 10, 63, 100, len / 2, len - 1] {
            try_bytes(&whole[..keep], &[name]);
        }
        for place in [0, 9, 14, 20, 28, 34, 45, 52, 70, 200, len / 2, len - 1] {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x10;
            try_bytes(&bytes, &[]);
        }
        let mut longer = whole.clone();
        longer.extend([0; 64]);
        try_bytes(&longer, &[name]);
        // False numbers of sections, of bytes of the file, and of bytes of its header.
        for field in [32, 40, 48] {
            for claim in [u64::MAX, 1 << 62, 1 << 40, 1 << 25] {
                let mut bytes = whole.clone();
                bytes[field..field + 8].copy_from_slice(&claim.to_le_bytes());
                try_bytes(&bytes, &[name]);
            }
        }
        fs::write(at.join(name), whole).unwrap();
    }
    sudare_at(at, TRAIN).ok();
}

/// Valid files whose labels claim too much, or nothing that this program knows.
#[test]
fn false_labels() {
    let folder = folder();
    let at = folder.path();
    let read = |name: &str| {
        let bytes = fs::read(at.join(name)).unwrap();
        let reader = Reader::new(&bytes[..], bytes.len() as u64).unwrap();
        let label = reader.info().label.clone();
        let params = reader.params().unwrap();
        (bytes, label, params)
    };
    let (key_bytes, key_label, params) = read("s/evaluation.key");
    let (table_bytes, table_label, _) = read("s.ct");
    let relabel = |keys: &Label, table: &Label| {
        let reader = Reader::new(&key_bytes[..], key_bytes.len() as u64).unwrap();
        let mut file = Vec::new();
        let object = reader.evaluation_keys(&params).unwrap();
        serial::write_evaluation_keys(&mut file, &params, &object, keys).unwrap();
        fs::write(at.join("s/evaluation.key"), &file).unwrap();
        let reader = Reader::new(&table_bytes[..], table_bytes.len() as u64).unwrap();
        let mut file = Vec::new();
        let items = reader.ciphertexts(&params).unwrap();
        serial::write_ciphertexts(&mut file, &params, &items, table).unwrap();
        fs::write(at.join("s.ct"), &file).unwrap();
    };
    // Version 5; statistics; rows and features; no note, no iterations, no origin, no model, no
    // other owners.
    let claim = |rows: usize, features: usize, note: u32| {
        let none = None::<u8>;
        postcard::to_extend(&(rows, features, note, 0u32, none, none, none), vec![5, 1]).unwrap()
    };
    let with = |label: &Label, meta: Vec<u8>| Label { meta, ..label.clone() };
    assert_eq!(key_label.meta, claim(20, 2, 0));
    let line = "stats --evaluation-key s/evaluation.key -i s.ct -o out.ct";
    for (rows, features) in [(usize::MAX, usize::MAX), (1 << 40, 1), (1 << 24, 1 << 3), (0, 0)] {
        let keys = claim(rows, features, 0);
        let table = claim(rows, features, 1);
        relabel(&with(&key_label, keys), &with(&table_label, table));
        refused(at, line, &[]);
    }
    relabel(&key_label, &with(&table_label, claim(20, 2, u32::MAX)));
    refused(at, line, &["s.ct", "ciphertexts of a note"]);
    relabel(&key_label, &with(&table_label, claim(21, 2, 1)));
    refused(at, line, &["stats:21x2", "stats:20x2", "one job"]);
    for meta in [vec![], vec![5, 9], claim(20, 2, 1)[..5].to_vec()] {
        relabel(&key_label, &with(&table_label, meta));
        refused(at, line, &["s.ct has no label of this program"]);
    }
    let earlier = with(&table_label, [&[4], &table_label.meta[1..]].concat());
    relabel(&key_label, &earlier);
    refused(at, line, &["s.ct was made by another version", "make it again"]);
    relabel(&key_label, &table_label);
    sudare_at(at, &format!("{line} --force")).ok();
    // A result without its note.
    let bytes = fs::read(at.join("out.ct")).unwrap();
    let reader = Reader::new(&bytes[..], bytes.len() as u64).unwrap();
    let label = with(&reader.info().label, claim(20, 2, 0));
    let items = reader.ciphertexts(&params).unwrap();
    let mut file = Vec::new();
    serial::write_ciphertexts(&mut file, &params, &items, &label).unwrap();
    fs::write(at.join("out.ct"), file).unwrap();
    refused(at, "decrypt --secret s/secret.key -i out.ct -o out.json", &["not an intact note"]);
}

/// Keys and tables that say they are for the job, but are not.
#[test]
fn keys_and_tables_that_do_not_suffice() {
    let folder = folder();
    let at = folder.path();
    let open =
        |name: &str| Reader::new(fs::File::open(at.join(name)).unwrap(), size(at, name)).unwrap();
    let reader = open("a/evaluation.key");
    let label = reader.info().label.clone();
    let params = reader.params().unwrap();
    let whole = reader.evaluation_keys(&params).unwrap().fulfils();
    let secret = open("a/secret.key").secret_key(&params).unwrap();
    let mut generator = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([1; 32]));
    let mut without_rotations = whole.clone();
    without_rotations.galois.clear();
    let mut too_low = whole.clone();
    too_low.relinearize = Some(Level(0));
    for (request, part) in [
        (without_rotations, "no Galois key"),
        (too_low, "no relinearisation key"),
        (KeyRequest::new(), "no relinearisation key"),
    ] {
        let keys = generator.evaluation_keys(&secret, &request).unwrap();
        let mut file = Vec::new();
        serial::write_evaluation_keys(&mut file, &params, &keys, &label).unwrap();
        fs::write(at.join("short.key"), file).unwrap();
        let line = TRAIN.replace("a/evaluation.key", "short.key");
        refused(at, &line, &[part, "level", "KeyRequest"]);
    }

    let reader = open("a.ct");
    let label = reader.info().label.clone();
    let items = reader.ciphertexts(&params).unwrap();
    let keys = open("a/evaluation.key").evaluation_keys(&params).unwrap();
    let evaluator = Evaluator::new(&params, Arc::new(keys)).unwrap();
    let low = evaluator.drop_to(&items[0], Level(0)).unwrap();
    let scale = items[0].scale() * Scale::from_f64(2.0);
    let scaled = evaluator.with_scale(&items[0], scale).unwrap();
    for (first, part) in
        [(low, "level of the encrypted table"), (scaled, "scale of the encrypted table")]
    {
        let items = [&[first], &items[1..]].concat();
        let mut file = Vec::new();
        serial::write_ciphertexts(&mut file, &params, &items, &label).unwrap();
        fs::write(at.join("bad.ct"), file).unwrap();
        refused(at, &TRAIN.replace("a.ct", "bad.ct"), &[part, "found", "needs"]);
    }
}

/// Anyone with the public key can make one.
#[test]
fn files_that_are_not_results() {
    let folder = folder();
    let at = folder.path();
    let open =
        |name: &str| Reader::new(fs::File::open(at.join(name)).unwrap(), size(at, name)).unwrap();
    let reader = open("model.ct");
    let label = reader.info().label.clone();
    let params = reader.params().unwrap();
    let items = reader.ciphertexts(&params).unwrap();
    let public = Arc::new(open("a/public.key").public_key(&params).unwrap());
    let encryptor = Encryptor::new(&params, public).unwrap();
    let encoder = Encoder::new(&params);
    let plain = encoder.encode_real_at(&[0.5], Level(0), items[0].scale()).unwrap();
    let short = encryptor.encrypt(&plain).unwrap();
    let transform = Transform::identity(1);
    let trained = Trained {
        target: "y".into(),
        classes: ["0", "1"].map(String::from).to_vec(),
        shown: transform.clone(),
        transform,
        class_weights: None,
        encoding: None,
        held_out: None,
        fingerprints: None,
        text_labels: false,
    };
    let about = About::Train(Box::new(trained));
    let other = Note { columns: vec!["u".into()], rows: 20, about };
    let other = other.encrypt(&encryptor, &params).unwrap();
    // Values would be half as large, or errors would differ from the plan.
    let keys = Arc::new(open("a/evaluation.key").evaluation_keys(&params).unwrap());
    let twice = items[0].scale() * Scale::from_f64(2.0);
    let scaled = Evaluator::new(&params, keys).unwrap().with_scale(&items[0], twice).unwrap();
    let plain = vec![0.5; params.max_slots()];
    let plain = encoder.encode_real_at(&plain, Level(1), items[0].scale()).unwrap();
    let high = encryptor.encrypt(&plain).unwrap();
    for (items, part) in [
        ([&[scaled], &items[1..]].concat(), "its ciphertext 0 has level 0 and scale"),
        ([&[high], &items[1..]].concat(), "its ciphertext 0 has level 1 and scale"),
        ([&[short], &items[1..]].concat(), "fewer slots than a model"),
        ([&items[..1], &other[..]].concat(), "note belongs to another table"),
    ] {
        let mut file = Vec::new();
        serial::write_ciphertexts(&mut file, &params, &items, &label).unwrap();
        fs::write(at.join("model.ct"), file).unwrap();
        refused(at, DECRYPT, &["model.ct is not a valid result", part, "compute it again"]);
    }
}

fn size(folder: &Path, name: &str) -> u64 {
    fs::metadata(folder.join(name)).unwrap().len()
}

#[test]
fn existing_files_are_kept() {
    let folder = folder();
    let at = folder.path();
    let secret = fs::read(at.join("a/secret.key")).unwrap();
    let keygen = "keygen --params auto --for stats:20x2 --out a";
    refused(at, keygen, &["secret.key exists", "--force"]);
    fs::remove_file(at.join("a/public.key")).unwrap();
    fs::remove_file(at.join("a/evaluation.key")).unwrap();
    refused(at, keygen, &["secret.key exists", "--force"]);
    assert!(fs::read(at.join("a/secret.key")).unwrap() == secret);
    sudare_at(at, &format!("{keygen} --force")).ok();
    assert!(fs::read(at.join("a/secret.key")).unwrap() != secret);

    let line = "encrypt --public s/public.key --data t.csv --target y -o s.ct";
    refused(at, line, &["s.ct exists", "--force"]);
    let line = "stats --evaluation-key s/evaluation.key -i s.ct -o model.json";
    refused(at, line, &["model.json exists", "--force"]);
    let line = "predict --model model.json --data t.csv -o t.csv";
    refused(at, line, &["t.csv exists", "--force"]);
    let line = "stats --evaluation-key s/evaluation.key -i s.ct -o none/out.ct";
    refused(at, line, &["no directory none"]);
    let line = "stats --evaluation-key s/evaluation.key -i s.ct -o a --force";
    refused(at, line, &["a is not a regular file"]);
}

#[test]
fn keys_that_cannot_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let keygen =
        |params: &str, job: &str| format!("keygen --params {params} --for {job} --out keys");
    refused(at, &keygen("n99", "train:20x2"), &["n99", "n13", "n16-d24"]);
    let line = keygen("fullrns-stats", "stats:20x2");
    refused(at, &line, &["fullrns-stats", "bits of security", "128", "--insecure"]);
    refused(at, &keygen("n14", "bootstrap"), &["n14 has no bootstrapping", "n16-boot"]);
    refused(at, &keygen("n99", "bootstrap"), &["n99", "n16-boot"]);
    refused(at, &keygen("n14", "bootstrap:9x9"), &["not a job for tables"]);
    refused(at, &keygen("n13", "train:189x9 --iterations 9"), &["9 iterations", "levels"]);
    refused(
        at,
        &keygen("auto", "train:189x9 --iterations 2000"),
        &["2000 iterations", "1000 iterations fit"],
    );
    for bad in ["0", "x"] {
        let job = format!("train:189x9 --iterations {bad}");
        refused(at, &keygen("auto", &job), &["--iterations", "a whole number from 1"]);
    }
    refused(at, &keygen("auto", "train:189x9 --learning-rate nan"), &["a number such as"]);
    refused(at, &keygen("auto", "train:189x9 --learning-rate -1"), &["learning rate is -1"]);
    refused(at, &keygen("auto", "train:189x9 --learning-rate 0"), &["learning rate is 0"]);
    refused(at, &keygen("auto", "train:189x99999999"), &["99999999"]);
    refused(at, &keygen("auto", "stats:99999999999x3"), &["99999999999"]);
    for job in ["train", "train:9", "train:0x3", "train:3x0", "fly:3x3", "histogram:-1x2x3"] {
        refused(at, &keygen("auto", job), &["ROWSxFEATURES"]);
    }
    refused(at, &keygen("auto", "train:axb"), &["axb", "--target"]);
    refused(at, &keygen("auto", "train:axb --target y"), &["cannot read axb"]);
    refused(at, &keygen("auto", "stats:a.csv"), &["cannot read a.csv"]);
    refused(at, &keygen("auto", "train:189x9 --C 0"), &["C is 0", "positive"]);
    refused(at, &keygen("auto", "train:189x9 --alpha -1"), &["alpha is -1", "not negative"]);
    refused(at, &keygen("auto", "train:189x9 --alpha 1 --C 1"), &["cannot be used with"]);
    refused(at, &keygen("auto", "train:189x9 --classes 1"), &["from 2 to 1000"]);
    refused(at, &keygen("auto", "train:189x9 --preparation x"), &["whiten, standardize or scale"]);
    assert!(names(at).is_empty());
    fs::write(at.join("file"), "").unwrap();
    for out in ["file", "file/keys"] {
        let line = keygen("auto", "train:20x2").replace("--out keys", &format!("--out {out}"));
        refused(at, &line, &["file is not a directory", "name a directory"]);
    }
}

#[test]
fn trainings_that_were_not_planned() {
    let folder = folder();
    let at = folder.path();
    let with = |more: &str| format!("{TRAIN} {more}");
    refused(at, &with("--iterations 9"), &["9 iterations", "for 3", "--iterations 9"]);
    for bad in ["0", "-1", "x"] {
        let more = format!("--iterations {bad}");
        refused(at, &with(&more), &["--iterations", "a whole number from 1"]);
    }
    refused(at, &with("--learning-rate nan"), &["--learning-rate", "a number such as"]);
    refused(at, &with("--batch x"), &["--batch", "a whole number from 1"]);
    refused(at, &with("--checkpoint t.csv"), &["t.csv is not a directory", "name a directory"]);
    refused(at, &with("--learning-rate 3"), &["rate of 3", "for 4"]);
    refused(at, &with("--batch 10"), &["batches of 10 rows", "for 20", "--batch 10"]);
    refused(at, &with("--resume"), &["--checkpoint"]);
    sudare_at(at, &with("--batch 20 --learning-rate 4 --checkpoint state")).ok();
    // The state belongs to one encrypted table.
    let line = "encrypt --public a/public.key --data t.csv --target y -o again.ct";
    sudare_at(at, line).ok();
    let line = "train --evaluation-key a/evaluation.key -i again.ct -o new.ct --checkpoint state";
    refused(at, line, &["iteration-000003.ct exists", "--force"]);
    refused(at, &format!("{line} --resume"), &["iteration-000003.ct", "another encrypted table"]);
}

#[test]
fn models_that_cannot_be_read() {
    let folder = folder();
    let at = folder.path();
    let line = "evaluate --model m.json --data t.csv";
    fs::copy(at.join("model.ct"), at.join("m.json")).unwrap();
    refused(at, line, &["m.json", "encrypted", "decrypt it first"]);
    let good = fs::read_to_string(at.join("model.json")).unwrap();
    for (bad, part) in [
        ("{", "EOF"),
        ("[1, 2]", "sudare decrypt"),
        (good.replace("\"y\"", "7").as_str(), "string"),
        (good.replace("logistic regression", "statistics").as_str(), "logistic regression"),
        (
            good.replacen("    \"u\",\n", "", 1).as_str(),
            "1 columns and 2 classes need 1 times 2 weights",
        ),
    ] {
        assert_ne!(bad, good);
        fs::write(at.join("m.json"), bad).unwrap();
        refused(at, line, &["m.json is not a valid model", part]);
    }
    let twice = good.replace("    \"u\",\n    \"v\"\n", "    \"u\",\n    \"u\"\n");
    fs::write(at.join("m.json"), &twice).unwrap();
    assert_ne!(twice, good);
    refused(at, line, &["m.json is not a valid model", "two columns are named \"u\""]);
    let mut model: serde_json::Value = serde_json::from_str(&good).unwrap();
    model["weights"] = serde_json::json!([1e308, 1e308, 1e308]);
    fs::write(at.join("m.json"), model.to_string()).unwrap();
    refused(at, "predict --model m.json --data t.csv", &["the score of row", "finite"]);
    let line = "predict --model model.json --data bad.csv -o out.csv";
    fs::write(at.join("bad.csv"), "u,w\n1,2\n").unwrap();
    refused(at, line, &["u, w", "u, v"]);
    fs::write(at.join("bad.csv"), "u,v,w\n1,2,3\n").unwrap();
    refused(at, line, &["u, v, w"]);
    fs::write(at.join("bad.csv"), "u,v\n1,2\n").unwrap();
    refused(at, "evaluate --model model.json --data bad.csv", &["\"y\""]);
    fs::write(at.join("bad.csv"), "u,v,y\n1,2,1\n").unwrap();
    // One class has no ROC curve.
    let of_one = sudare_at(at, "evaluate --model model.json --data bad.csv --json").json();
    assert!(of_one["accuracy"].is_f64() && of_one["auc"].is_null(), "{of_one}");
    refused(at, "demo --data t.csv", &["--target"]);
    refused(at, "demo --class-weight given", &["--class-weight balanced"]);
}

/// Never replaced, read without an end, or waited for.
#[cfg(unix)]
#[test]
fn pipes_and_devices() {
    let folder = folder();
    let at = folder.path();
    let made = std::process::Command::new("mkfifo").arg(at.join("pipe")).status().unwrap();
    assert!(made.success());
    for name in ["pipe", "/dev/null", "/dev/zero", "a"] {
        let part = format!("{name} is not a regular file");
        for line in [
            format!("info {name}"),
            format!("predict --model {name} --data t.csv"),
            format!("train --evaluation-key {name} -i a.ct -o out.ct"),
            format!("predict --model model.json --data t.csv -o {name} --force"),
            format!("train --evaluation-key a/evaluation.key -i a.ct -o {name} --force"),
        ] {
            sudare_at(at, &line).mistake(&[&part]);
        }
        let part = format!("cannot read {name}: it is not a regular file");
        for line in [
            format!("predict --model model.json --data {name}"),
            format!("encrypt --public a/public.key --data {name} --target y -o out.ct"),
        ] {
            sudare_at(at, &line).mistake(&[&part]);
        }
    }
}

/// Known before hours of work.
#[cfg(unix)]
#[test]
fn results_that_cannot_be_written() {
    let folder = folder();
    let at = folder.path();
    let long = "x".repeat(255);
    let line = TRAIN.replace("out.ct", &long) + " --checkpoint state";
    refused(at, &line, &["cannot create", "name too long"]);
    assert!(!at.join("state").exists());
    let stats = "stats --evaluation-key s/evaluation.key -i s.ct -o";
    refused(at, &format!("{stats} {long}"), &["cannot create", "name too long"]);
    let line = "keygen --params auto --for stats:20x2 --out t.csv";
    refused(at, line, &["t.csv is not a directory"]);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_secret_key_is_a_secret_key() {
    let folder = folder();
    let at = folder.path();
    fs::create_dir(at.join("linked")).unwrap();
    let link = |to: &str| {
        let _ = fs::remove_file(at.join("linked/secret.key"));
        std::os::unix::fs::symlink(to, at.join("linked/secret.key")).unwrap();
    };
    let keygen = "keygen --params auto --for stats:20x2 --out linked";
    for to in ["../a/secret.key", "../nowhere"] {
        link(to);
        refused(at, keygen, &["linked/secret.key exists", "--force"]);
    }
    link("../a/secret.key");
    let secret = fs::read(at.join("a/secret.key")).unwrap();
    sudare_at(at, &format!("{keygen} --force")).ok();
    assert!(fs::read(at.join("a/secret.key")).unwrap() == secret);
}

/// A program that reads only standard error's last line learns what is wrong.
#[test]
fn mistakes_as_json() {
    let folder = folder();
    let at = folder.path();
    for (line, kind, parts) in [
        ("keygen --params n13", "Usage", &["required arguments", "--for <JOB>", "--out <DIR>"][..]),
        ("fly", "Usage", &["unrecognized subcommand 'fly'"]),
        ("--threads 0 doctor", "Usage", &["'0'", "from 1 to 1024"]),
        ("params n99", "UnknownPreset", &["n99", "n13"]),
        ("info t.csv", "Malformed", &["t.csv"]),
        (
            "encrypt --public a/public.key --data t.csv --target u -o o.ct",
            "Usage",
            &["t.csv has 7 classes", "\"u\""],
        ),
        ("decrypt --secret b/secret.key -i model.ct", "KeyMismatch", &["model.ct"]),
        ("decrypt --secret a/public.key -i model.ct", "WrongKind", &["a/public.key"]),
    ] {
        let run = sudare_at(at, &format!("{line} --json"));
        run.mistake(parts);
        let last = run.stderr.lines().last().unwrap();
        let error: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!((&error["kind"], &error["exit_code"]), (&kind.into(), &2.into()), "{last}");
        let message = error["error"].as_str().unwrap();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        assert!(!message.starts_with("error"), "{message}");
    }
}
