//! Runs the page's Worker without a browser, from a table to a result.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use std::{
    fs,
    io::{self, Write},
    sync::atomic::{AtomicUsize, Ordering},
};
use sudare::ckks::Ciphertext;
use sudare_apps::logreg::{Prepared, reference};
use sudare_roles::{
    format::label::{Content, Meta},
    os::files::{Access, NewFile},
    sealed::Passphrase,
    server::{
        session::{Inputs, Session},
        training::TrainingServer,
    },
};
use sudare_table::{Missing, Table};
use sudare_web::{
    owner::{Holder, Summary},
    shown::Shown,
    table::{Choice, Csv, Wanted},
};
use tempfile::TempDir;

const LBW: &str = include_str!("../../table/data/lbw.csv");

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.into()).unwrap()
}

fn training(iterations: u32) -> Choice {
    let job = Wanted::Train { target: "y".into(), iterations: Some(iterations) };
    Choice { job, missing: Missing::Refuse, columns: None }
}

/// The files that a server has of an owner.
struct Files {
    folder: TempDir,
    inputs: Inputs,
}

impl Files {
    fn new(keys: &[u8], table: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let evaluation_key = written("evaluation.key", keys);
        let tables = vec![written("table.ct", table)];
        let inputs = Inputs { evaluation_key, tables, map_keys: false, small_keys: false };
        Self { folder, inputs }
    }

    fn session(&self) -> Session {
        Session::open(&self.inputs).unwrap()
    }

    /// Returns the bytes of a result.
    fn result(
        &self,
        session: &Session,
        found: Vec<Ciphertext>,
        meta: &Meta,
        content: Content,
    ) -> Vec<u8> {
        let path = self.folder.path().join("result.ct");
        let file = NewFile::create(&path, Access::Shared, false).unwrap();
        session.write_result(file, found, meta, content).unwrap();
        fs::read(path).unwrap()
    }
}

/// Trains a model as a server, and compares it with the summary that the owner saw.
#[test]
fn a_table_becomes_a_model() {
    let csv = Csv::new("lbw.csv".into(), LBW.into());
    let mut owner = csv.plan(&training(3)).unwrap();
    let summary = owner.summary().unwrap();
    assert_eq!((summary.rows, summary.features, summary.dropped), (189, 9, 0));
    let training = summary.training.unwrap();
    assert_eq!((training.classes, training.iterations, summary.bootstraps), (2, 3, 0));
    assert!(summary.security_bits >= 128.0 && summary.seconds > 0.0);

    let holder = owner.draw().unwrap();
    let mut keys = Vec::new();
    let mut told = 0;
    let written = owner.make_keys(&holder, &mut keys, |done| told = done).unwrap();
    assert_eq!((written.bytes, keys.len() as u64), (summary.key_bytes, summary.key_bytes));
    assert_eq!((written.digest, told), (blake3::hash(&keys).to_string(), summary.keys));
    let mut table = Vec::new();
    let told = AtomicUsize::new(0);
    let written = owner
        .encrypt(&holder, &mut table, |done| {
            told.fetch_max(done, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(written.digest, blake3::hash(&table).to_string());
    assert_eq!(told.into_inner(), summary.ciphertexts);
    // Words of one half of each ciphertext, packed in the file.
    let about = summary.table_bytes as f64 / written.bytes as f64;
    assert!((1.0..=2.0).contains(&about), "{about}");

    let files = Files::new(&keys, &table);
    let mut server = TrainingServer::open(files.session(), None, false, |_| {}).unwrap();
    while server.training().iteration < 3 {
        server.step().unwrap();
    }
    let (model, meta) = server.model().unwrap();
    let result = files.result(server.session(), model, &meta, Content::Model);
    let digest = blake3::hash(&result).to_string();

    let sealed = owner.seal(&holder, &passphrase("six random words")).unwrap();
    drop(holder);
    let wrong = Holder::unseal(sealed.clone(), passphrase("five random words"));
    assert_eq!(wrong.map(|_| ()).unwrap_err().kind(), "WrongPassphrase");
    let holder = Holder::unseal(sealed, passphrase("six random words")).unwrap();
    let other = holder.decrypt(&result, &"0".repeat(64)).map(|_| ()).unwrap_err();
    assert_eq!(other.kind(), "OtherFile");
    let shown = holder.decrypt(&result, &digest).unwrap();

    // Compare with a training in the clear.
    let table = Table::bundled("lbw").unwrap();
    let Shown::Model(model) = &shown else { panic!("no model") };
    let spec = model.training.unwrap();
    let rows = Prepared::new(&table, &spec, 189, None).unwrap();
    let expected = rows.transform().of_columns(&reference::train(&rows, &spec).unwrap()[0]);
    for (at, (found, divisor)) in model.weights[0][1..].iter().zip(&model.divisors).enumerate() {
        let found = found / divisor;
        let expected = expected[at + 1];
        assert!((found - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{found} {expected}");
    }
    assert!(shown.json().unwrap().ends_with("}\n"));
    let report = shown.report(&csv).unwrap();
    assert_eq!(report.quality().rows, 189);
    assert!(report.page("lbw.csv").contains("ROC curve"));
    let other = Csv::new("other.csv".into(), b"a,y\n1,0\n2,1\n".into());
    assert_eq!(shown.report(&other).map(|_| ()).unwrap_err().kind(), "Usage");
}

/// Computes statistics of columns as a server, and decrypts them.
fn computed(csv: &Csv, job: Wanted) -> (Summary, Shown) {
    let choice = Choice { job, missing: Missing::Refuse, columns: None };
    let mut owner = csv.plan(&choice).unwrap();
    let holder = owner.draw().unwrap();
    let mut keys = Vec::new();
    let mut table = Vec::new();
    owner.make_keys(&holder, &mut keys, |_| {}).unwrap();
    owner.encrypt(&holder, &mut table, |_| {}).unwrap();
    let files = Files::new(&keys, &table);
    let session = files.session();
    let found = session.statistics(|_| {}).unwrap();
    let result = files.result(&session, found, &session.meta_of_result(), Content::Statistics);
    let shown = holder.decrypt(&result, &blake3::hash(&result).to_string()).unwrap();
    (owner.summary().unwrap(), shown)
}

fn expect_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{found}, not {expected}");
}

#[test]
fn a_table_becomes_figures_of_its_columns() {
    let csv = Csv::new("lbw.csv".into(), LBW.into());
    let table = Table::bundled("lbw").unwrap();
    let at = |columns: &[String]| columns.iter().position(|column| column == "age").unwrap();
    let ages: Vec<f64> = table.column(at(table.columns())).collect();
    let mean = ages.iter().sum::<f64>() / ages.len() as f64;

    let (summary, shown) = computed(&csv, Wanted::Stats {});
    // All columns, since there is no target.
    assert_eq!((&summary.named[..], summary.features), ("stats:189x10", 10));
    assert!(summary.training.is_none() && summary.groups.is_none());
    let Shown::Statistics(named) = &shown else { panic!("no statistics") };
    expect_near(named.statistics.mean[at(&named.columns)], mean);
    assert!(shown.figures().unwrap().page("lbw.csv").contains("Statistics of <bdi>lbw.csv</bdi>"));
    assert!(shown.csv().unwrap().starts_with("column,mean,variance,"));
    assert!(shown.json().unwrap().contains("\"kind\": \"statistics\""));
    assert_eq!(shown.report(&csv).map(|_| ()).unwrap_err().kind(), "Usage");

    let mut counts = [0; 2];
    let mut sums = [0.0; 2];
    for (&label, age) in table.labels().unwrap().iter().zip(&ages) {
        counts[usize::from(label)] += 1;
        sums[usize::from(label)] += age;
    }
    let (summary, shown) = computed(&csv, Wanted::Groups { by: "y".into() });
    assert_eq!((&summary.named[..], summary.groups), ("groups:189x9x2", Some(2)));
    let Shown::Groups(named) = &shown else { panic!("no groups") };
    assert_eq!(named.labels.texts(), ["0", "1"]);
    assert_eq!(named.statistics.count, counts);
    for (found, expected) in named.statistics.sum.iter().zip(sums) {
        expect_near(found[at(&named.columns)], expected);
    }
    assert!(shown.figures().unwrap().body().contains("<th scope=\"col\">y</th>"));

    let (summary, shown) = computed(&csv, Wanted::Histogram { bins: 4 });
    assert_eq!(summary.named, "histogram:189x10x4");
    let Shown::Histograms(named) = &shown else { panic!("no histograms") };
    for histogram in &named.histograms {
        let count: f64 = histogram.counts.iter().sum();
        assert!((count - 189.0).abs() < 1.0, "{count} rows");
    }
    assert_eq!(shown.figures().unwrap().body().matches("<svg ").count(), 10);
}

/// Writers of a browser without free space.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("QuotaExceededError"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_store_is_an_error() {
    let csv = Csv::new("lbw.csv".into(), LBW.into());
    let mut owner = csv.plan(&training(1)).unwrap();
    let holder = owner.draw().unwrap();
    let refused = owner.make_keys(&holder, Full, |_| {}).unwrap_err();
    assert!(refused.to_string().contains("QuotaExceededError"), "{refused}");
}
