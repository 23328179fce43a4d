//! Whole searches, as an owner and a server do them, and what is refused.

use crate::common::{Run, names, sudare, sudare_at};
use serde_json::{Value, json};
use std::{fs, path::Path};
use tempfile::TempDir;

const ROWS: usize = 40;
const MATCHES: &str = "--answer matches --at 0.7 --margin 0.2";

/// A direction for each row: three of them near the first axis.
fn vector(row: usize) -> Vec<f64> {
    let angle = row as f64 * 2.399_963;
    match row {
        7 | 8 | 21 => vec![1.0, 0.05 * angle.cos(), 0.05, 0.0],
        _ => vec![0.1, angle.cos(), angle.sin(), 0.3],
    }
}

/// An array of NumPy, as numpy.save writes it.
fn npy(path: &Path, descr: &str, shape: &str, data: Vec<u8>) {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:117}\n");
    let length = (header.len() as u16).to_le_bytes();
    let file = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &data].concat();
    fs::write(path, file).unwrap();
}

fn vectors(path: &Path, rows: usize) {
    let data = (0..rows).flat_map(vector).flat_map(|x| (x as f32).to_le_bytes()).collect();
    npy(path, "<f4", &format!("({rows}, 4)"), data);
}

fn payloads(path: &Path, rows: usize) {
    let data = (0..rows).flat_map(|row| (1000 + row as i64).to_le_bytes()).collect();
    npy(path, "<i8", &format!("({rows},)"), data);
}

/// A folder with keys, an index of it, and a query.
struct Folder(TempDir);

impl Folder {
    fn new(keygen: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        vectors(&folder.at().join("v.npy"), ROWS);
        payloads(&folder.at().join("p.npy"), ROWS);
        fs::write(folder.at().join("q.csv"), "a,b,c,d\n2,0.1,0,0\n").unwrap();
        folder.run(&format!("search keygen --for 5000x4 {keygen} --out keys")).ok();
        folder
    }

    fn at(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, line: &str) -> Run {
        sudare_at(self.at(), line)
    }

    fn index(&self, rest: &str) -> Run {
        self.run(&format!(
            "search index --public keys/public.key --data v.npy -o index {rest} --json"
        ))
    }

    fn query(&self) {
        self.run("search query --public keys/public.key --data q.csv -o q.ct --force").ok();
    }

    fn search(&self, rest: &str) -> Run {
        let line = format!(
            "search run --evaluation-key keys/evaluation.key -o a.ct --force --json {rest}"
        );
        self.run(&line)
    }

    fn open(&self, rest: &str) -> Value {
        self.run(&format!("search open --secret keys/secret.key -i a.ct --json {rest}")).json()
    }
}

#[test]
fn scores_of_an_encrypted_index_are_ranked() {
    let f = Folder::new("");
    let made = f.index("").json();
    assert_eq!((&made["rows"], &made["encrypted"]), (&ROWS.into(), &json!([0])));
    assert_eq!(names(&f.at().join("index")), ["block-00000.ct", "index.json", "lock"]);
    assert_eq!(f.index("").json()["encrypted"], json!([]));
    f.query();
    let found = f.search("-i q.ct --index index").json();
    assert_eq!((&found["answer"], &found["rows"]), (&"scores".into(), &ROWS.into()));
    let read = f.open("--top 4");
    let query = [2.0, 0.1, 0.0, 0.0];
    let cosine = |row: usize| {
        let v = vector(row);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        dot(&v, &query) / (dot(&v, &v) * dot(&query, &query)).sqrt()
    };
    let mut expected: Vec<usize> = (0..ROWS).collect();
    expected.sort_by(|a, b| cosine(*b).total_cmp(&cosine(*a)));
    let nearest = read["nearest"].as_array().unwrap();
    assert_eq!((nearest.len(), &read["rows"]), (4, &ROWS.into()));
    for (found, row) in nearest.iter().zip(&expected) {
        assert_eq!(found["row"], *row);
        let similarity = found["similarity"].as_f64().unwrap();
        assert!((similarity - cosine(*row)).abs() < 1e-4, "{found}");
    }

    // A deleted row is missing, and new rows are there.
    vectors(&f.at().join("v.npy"), ROWS + 5);
    let made = f.index(&format!("--delete {}", expected[0])).json();
    assert_eq!((&made["rows"], &made["deleted"]), (&(ROWS + 5).into(), &1.into()));
    f.search("-i q.ct --index index").ok();
    let read = f.open("--top 2 --catalogue index.owner");
    assert_eq!(
        (&read["rows"], &read["nearest"][0]["row"]),
        (&(ROWS + 5).into(), &expected[1].into())
    );
    // The catalogue remembers the deleted rows.
    assert_eq!(f.index("").json()["deleted"], 1);
}

#[test]
fn matches_of_an_encrypted_index_carry_payloads() {
    let f = Folder::new(&format!("{MATCHES} --most 4 --payload integers:1x32"));
    f.index("--payloads p.npy").ok();
    f.query();
    f.search("-i q.ct --index index").ok();
    let read = f.open("");
    assert_eq!(read["complete"], true);
    let row = |row: usize| json!({ "row": row, "payload": [1000 + row] });
    assert_eq!(read["matches"], json!([row(7), row(8), row(21)]));
    f.search("-i q.ct --index index --answer count").ok();
    assert_eq!(f.open("")["matches"], 3);

    // More matches than planned.
    let data = (0..ROWS).flat_map(|_| vector(7)).flat_map(|x| x.to_le_bytes()).collect();
    npy(&f.at().join("v.npy"), "<f8", &format!("({ROWS}, 4)"), data);
    f.index("--payloads p.npy").ok();
    f.search("-i q.ct --index index").ok();
    let read = f.open("");
    assert_eq!(read["more_than_planned"], true);
    let told = read["matches"].as_array().unwrap().len() as u64;
    assert_eq!(told + read["crowded"].as_u64().unwrap(), ROWS as u64);

    // The error names a missing or altered block.
    let block = f.at().join("index/block-00000.ct");
    let mut bytes = fs::read(&block).unwrap();
    let at = bytes.len() - 5000;
    bytes[at] ^= 1;
    fs::write(&block, bytes).unwrap();
    let refused = f.search("-i q.ct --index index");
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("AlteredBlock") && refused.stderr.contains("block 0 "));
    fs::remove_file(&block).unwrap();
    let refused = f.search("-i q.ct --index index");
    assert!(refused.stderr.contains("MissingBlock") && refused.stderr.contains("block 0 "));
    assert_eq!(f.index("--payloads p.npy").json()["encrypted"], json!([0]));
    f.search("-i q.ct --index index").ok();
}

#[test]
fn one_side_can_be_in_the_clear() {
    let f = Folder::new("--mode plain-index --metric euclidean --largest 2.5");
    f.query();
    f.search("-i q.ct --data v.npy --delete 21").ok();
    let read = f.open("--top 2");
    let distance = |row: usize| {
        let pairs = vector(row).into_iter().zip([2.0, 0.1, 0.0, 0.0]);
        pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
    };
    let nearest = &read["nearest"][0];
    let row = nearest["row"].as_u64().unwrap() as usize;
    assert!(row == 7 || row == 8);
    assert!((nearest["similarity"].as_f64().unwrap() - distance(row)).abs() < 1e-3, "{read}");
    f.index("").mistake(&["an index in the clear"]);

    let f = Folder::new("--mode plain-query --metric inner --largest 1.2 --largest-query 3");
    f.index("").ok();
    f.search("--query q.csv --index index").ok();
    let read = f.open("--top 3");
    let rows: Vec<_> = (0..3).map(|i| read["nearest"][i]["row"].as_u64().unwrap()).collect();
    assert!([7, 8, 21].iter().all(|row| rows.contains(row)), "{read}");
    f.run("search query --public keys/public.key --data q.csv -o q.ct")
        .mistake(&["queries in the clear"]);
}

#[test]
fn unusable_searches_are_refused() {
    let explain = |rest: &str| sudare(&format!("search explain --for 100x4 {rest}"));
    explain("--answer count --at 1.5 --margin 0.1").mistake(&["a threshold of 1.5", "-1 to 1"]);
    explain("--answer count --at -2 --margin 0.1").mistake(&["a threshold of -2"]);
    explain("--answer count").mistake(&["--at and --margin"]);
    explain("--at 0.5 --margin 0.1").mistake(&["scores have no threshold"]);
    explain("--metric inner").mistake(&["--largest"]);
    explain("--payload bytes:3").mistake(&["ask for matches"]);
    explain("--largest 2").mistake(&["cosine"]);
    let explained = explain("--json").json();
    assert_eq!((&explained["log_n"], &explained["blocks"]), (&13.into(), &1.into()));
    let plain = explain("--mode plain-index");
    assert!(plain.ok().stdout.contains("in the clear, 1 blocks of"), "{}", plain.stdout);
    assert!(explained["leakage"][0].as_str().unwrap().contains("learns"));

    let f = Folder::new("--metric inner --largest 1.2");
    let index = |file: &str| {
        f.run(&format!("search index --public keys/public.key --data {file} -o index"))
    };
    for (text, parts) in [
        ("1,2,3\n", &["line 1", "3 coordinates", "4"][..]),
        ("1,0,0,0\n0,nan,0,0\n", &["row 1", "coordinate 1 is NaN"]),
        ("1,0,0,0\n1,1,1,1\n", &["row 1", "norm is 2", "at most 1.2"]),
        ("1,0,0,0\n1,0,x,0\n", &["line 2", "\"x\""]),
    ] {
        fs::write(f.at().join("bad.csv"), text).unwrap();
        index("bad.csv").mistake(parts);
    }
    let data = [0_u8; 12].to_vec();
    npy(&f.at().join("bad.npy"), "<f4", "(1, 3)", data.clone());
    index("bad.npy").mistake(&["3 coordinates"]);
    npy(&f.at().join("bad.npy"), "<i4", "(1, 3)", data);
    index("bad.npy").mistake(&["3 coordinates"]);
    index("v.npy --delete 40").mistake(&["row 40"]);
    let query = "search query --public keys/public.key -o q.ct --data";
    f.run(&format!("{query} q.csv")).mistake(&["the query", "norm"]);
    f.run(&format!("{query} v.npy")).mistake(&["a query is one vector"]);

    // Keys of another search.
    let data = "1,0,0,0\n";
    fs::write(f.at().join("q.csv"), data).unwrap();
    index("v.npy").ok();
    f.query();
    f.run("search keygen --for 5000x4 --out other").ok();
    let run = "search run -i q.ct --index index -o a.ct --evaluation-key";
    f.run(&format!("{run} other/evaluation.key")).mistake(&["index belongs to key"]);
    f.run("search index --public other/public.key --data v.npy -o index")
        .mistake(&["index belongs to key"]);
    f.run(&format!("{run} keys/public.key")).mistake(&["public key"]);
    f.search("-i keys/public.key --index index").mistake_of("WrongKind");
    f.search("-i q.ct --index .").mistake_of("NoIndex");
    f.search("-i q.ct --index index --answer count").mistake_of("SearchNotPlanned");
    f.search("-i q.ct --index index").ok();
    f.run("search open --secret other/secret.key -i a.ct").mistake(&["a.ct"]);
}

/// Refusals as JSON.
trait Refused {
    fn mistake_of(&self, kind: &str);
}

impl Refused for Run {
    fn mistake_of(&self, kind: &str) {
        assert_eq!(self.status, Some(2), "{}", self.stderr);
        assert!(self.stderr.contains(&format!("\"kind\":\"{kind}\"")), "{}", self.stderr);
    }
}
