//! What the page's Worker does, without a browser: from a table to a model.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};
use sudare_apps::{
    logreg::{Prepared, reference},
    table::{Missing, Table},
};
use sudare_roles::{
    files::{Access, NewFile},
    label::Content,
    sealed::Passphrase,
    server::{Inputs, Session},
    training::TrainingServer,
};
use sudare_web::{
    owner::Holder,
    table::{Choice, Csv},
};

const LBW: &str = include_str!("../../apps/data/lbw.csv");

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.into()).unwrap()
}

/// The model of a table as a server trains it, and all that the owner saw on the way is as it was
/// said.
#[test]
fn a_table_becomes_a_model() {
    let csv = Csv::new("lbw.csv".into(), LBW.into());
    let choice = Choice { target: "y".into(), missing: Missing::Refuse, iterations: Some(3) };
    let mut owner = csv.plan(&choice).unwrap();
    let summary = owner.summary().unwrap();
    assert_eq!((summary.rows, summary.features, summary.classes), (189, 9, 2));
    assert_eq!((summary.iterations, summary.bootstraps, summary.dropped), (3, 0, 0));
    assert!(summary.security_bits >= 128.0 && summary.seconds > 0.0);
    let early = owner.encrypt(Vec::new(), |_| {}).unwrap_err();
    assert_eq!(early.kind(), "Usage");

    let holder = owner.draw().unwrap();
    let (mut keys, mut told) = (Vec::new(), 0);
    let written = owner.make_keys(&holder, &mut keys, |done| told = done).unwrap();
    assert_eq!((written.bytes, keys.len() as u64), (summary.key_bytes, summary.key_bytes));
    assert_eq!((written.digest, told), (blake3::hash(&keys).to_string(), summary.keys));
    let (mut table, told) = (Vec::new(), AtomicUsize::new(0));
    let written = owner
        .encrypt(&mut table, |done| {
            told.fetch_max(done, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(written.digest, blake3::hash(&table).to_string());
    assert_eq!(told.into_inner(), summary.ciphertexts);
    // Words in memory, packed in the file.
    let about = summary.table_bytes as f64 / written.bytes as f64;
    assert!((1.0..=2.0).contains(&about), "{about}");

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    fs::write(path("evaluation.key"), &keys).unwrap();
    fs::write(path("table.ct"), &table).unwrap();
    let inputs = Inputs {
        evaluation_key: path("evaluation.key"),
        tables: vec![path("table.ct")],
        map_keys: false,
        small_keys: false,
    };
    let mut server =
        TrainingServer::open(Session::open(&inputs).unwrap(), None, false, |_| {}).unwrap();
    while server.training().iteration < 3 {
        server.step().unwrap();
    }
    let (model, meta) = server.model().unwrap();
    let file = NewFile::create(&path("model.ct"), Access::Shared, false).unwrap();
    server.session().write_result(file, model, &meta, Content::Model).unwrap();
    let result = fs::read(path("model.ct")).unwrap();
    let digest = blake3::hash(&result).to_string();

    let sealed = owner.seal(&holder, &passphrase("six random words")).unwrap();
    drop(holder);
    let wrong = Holder::unseal(sealed.clone(), passphrase("five random words"));
    assert_eq!(wrong.map(|_| ()).unwrap_err().kind(), "WrongPassphrase");
    let holder = Holder::unseal(sealed, passphrase("six random words")).unwrap();
    let other = holder.decrypt(&result, &"0".repeat(64)).map(|_| ()).unwrap_err();
    assert_eq!(other.kind(), "OtherFile");
    let shown = holder.decrypt(&result, &digest).unwrap();

    // As training in the clear has it.
    let table = Table::bundled("lbw").unwrap();
    let spec = shown.model().training.unwrap();
    let rows = Prepared::new(&table, &spec, 189, None).unwrap();
    let expected = rows.transform().of_columns(&reference::train(&rows, &spec).unwrap()[0]);
    let model = shown.model();
    for (at, (found, divisor)) in model.weights[0][1..].iter().zip(&model.divisors).enumerate() {
        let (found, expected) = (found / divisor, expected[at + 1]);
        assert!((found - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{found} {expected}");
    }
    assert!(shown.json().unwrap().ends_with("}\n"));
    let report = shown.report(&csv).unwrap();
    assert_eq!(report.quality().rows, 189);
    assert!(report.page("lbw.csv").contains("ROC curve"));
    let other = Csv::new("other.csv".into(), b"a,y\n1,0\n2,1\n".into());
    assert_eq!(shown.report(&other).map(|_| ()).unwrap_err().kind(), "Usage");
}

/// Writers of a browser that has no room left.
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
    let choice = Choice { target: "y".into(), missing: Missing::Refuse, iterations: Some(1) };
    let mut owner = csv.plan(&choice).unwrap();
    let holder = owner.draw().unwrap();
    let refused = owner.make_keys(&holder, Full, |_| {}).unwrap_err();
    assert!(refused.to_string().contains("QuotaExceededError"), "{refused}");
}
