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
    clear::{groups::GroupLabels, model::OfRows},
    format::label::{Content, Meta},
    job::Plan,
    os::files::{Access, NewFile},
    sealed::Passphrase,
    server::{
        scoring::AnyModel,
        session::{Inputs, Session},
        training::TrainingServer,
    },
};
use sudare_table::{Missing, Table};
use sudare_web::{
    owner::{Holder, Owner, Summary},
    scorer::Scorer,
    shown::Shown,
    table::{Choice, Csv, Wanted},
};
use tempfile::TempDir;

const LBW: &str = include_str!("../../table/data/lbw.csv");

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.into()).unwrap()
}

fn training(iterations: u32) -> Choice {
    Choice::new(Wanted::Train { target: "y".into(), iterations: Some(iterations) })
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
    figures(csv.plan(&Choice::new(job)).unwrap())
}

/// Computes the figures of a plan as a server, and decrypts them.
fn figures(mut owner: Owner) -> (Summary, Shown) {
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

/// A table as hospitals have it: an identifier, a date, texts, a truth value and gaps.
fn clinical(rows: usize) -> String {
    let mut text = "patient_id,admitted,ward,sex,smokes,age,crp,died\n".to_owned();
    for i in 0..rows {
        let ward = ["east", "north", "west"][i * 5 / 3 % 3];
        let sex = ["F", "M"][i * 7 / 3 % 2];
        let smokes = ["true", "false"][i / 2 % 2];
        let crp = if i % 11 == 3 { String::new() } else { format!("{}.5", i * 37 % 50) };
        let age = 30 + i * 13 % 60;
        let died = if age + i % 7 > 66 { "yes" } else { "no" };
        let day = 1 + i % 28;
        text += &format!("P{i:05},2024-02-{day:02},{ward},{sex},{smokes},{age},{crp},{died}\n");
    }
    text
}

/// Computes means and counts of the table by hand.
#[test]
fn a_clinical_table_becomes_figures_in_the_common_coding() {
    let rows = 120;
    let text = clinical(rows);
    let csv = Csv::new("visits.csv".into(), text.clone().into_bytes());
    let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split(',').collect()).collect();
    let mean = |numbers: Vec<f64>| numbers.iter().sum::<f64>() / numbers.len() as f64;
    let numbers = |at: usize, rows: &[&Vec<&str>]| {
        mean(rows.iter().filter_map(|line| line[at].parse().ok()).collect())
    };
    let all: Vec<&Vec<&str>> = lines.iter().collect();
    let choice = Choice { missing: Missing::Mean, ..Choice::new(Wanted::Stats {}) };
    let (summary, shown) = figures(csv.plan(&choice).unwrap());
    assert_eq!(summary.named, "stats:120x11");
    let Shown::Statistics(named) = &shown else { panic!("no statistics") };
    let found = |name: &str| {
        let at = named.columns.iter().position(|column| column == name);
        named.statistics.mean[at.unwrap_or_else(|| panic!("{name} in {:?}", named.columns))]
    };
    let share = |at: usize, value: &str| {
        lines.iter().filter(|line| line[at] == value).count() as f64 / rows as f64
    };
    // 2024-02-01 is day 19754, by Python's datetime.
    let days = lines.iter().map(|line| 19_753.0 + line[1][8..].parse::<f64>().unwrap());
    expect_near(found("admitted"), mean(days.collect()));
    expect_near(found("ward=north"), share(2, "north"));
    expect_near(found("smokes"), share(4, "true"));
    expect_near(found("crp"), numbers(6, &all));
    expect_near(found("died=yes"), share(7, "yes"));

    let choice =
        Choice { missing: Missing::Mean, ..Choice::new(Wanted::Groups { by: "ward".into() }) };
    let (_, shown) = figures(csv.plan(&choice).unwrap());
    let Shown::Groups(named) = &shown else { panic!("no groups") };
    let wards = ["east", "north", "west"].map(str::to_owned);
    assert_eq!(named.labels, GroupLabels::Texts(wards.to_vec()));
    let age = named.columns.iter().position(|column| column == "age").unwrap();
    for (group, ward) in wards.iter().enumerate() {
        let of: Vec<_> = lines.iter().filter(|line| line[2] == *ward).collect();
        assert_eq!(named.statistics.count[group], of.len());
        expect_near(named.statistics.mean[group][age], numbers(5, &of));
    }
}

/// Scores rows of a clinical table by a model from a file, and compares them with the model's own
/// scores in the clear.
#[test]
fn rows_are_scored_by_a_model() {
    let csv = Csv::new("visits.csv".into(), clinical(120).into_bytes());
    let train = Wanted::Train { target: "died".into(), iterations: Some(2) };
    let mut owner = csv.plan(&Choice { missing: Missing::Mean, ..Choice::new(train) }).unwrap();
    let holder = owner.draw().unwrap();
    let mut keys = Vec::new();
    let mut table = Vec::new();
    owner.make_keys(&holder, &mut keys, |_| {}).unwrap();
    owner.encrypt(&holder, &mut table, |_| {}).unwrap();
    assert_eq!(owner.encrypt_model(&holder, &mut Vec::new()).unwrap(), None);
    let files = Files::new(&keys, &table);
    let mut server = TrainingServer::open(files.session(), None, false, |_| {}).unwrap();
    while server.training().iteration < 2 {
        server.step().unwrap();
    }
    let (model, meta) = server.model().unwrap();
    let result = files.result(server.session(), model, &meta, Content::Model);
    let shown = holder.decrypt(&result, &blake3::hash(&result).to_string()).unwrap();
    let Shown::Model(model) = &shown else { panic!("no model") };

    // New rows: other columns first, one that the model does not have, no labels, and a gap.
    let new = "note,age,sex,crp,ward,smokes,admitted\nx,71,F,,north,true,2024-03-01\n\
               y,35,M,12.5,east,false,2024-02-03\nz,88,M,3,north,false,2024-02-28\n";
    let new = Csv::new("new.csv".into(), new.into());
    let text = shown.json().unwrap();
    let scorer = Scorer::read(text.as_bytes(), "model.json").unwrap();
    let about = scorer.about();
    assert_eq!(
        (about.target, about.classes, about.rows),
        ("died", &["no", "yes"].map(str::to_owned)[..], 120)
    );
    assert_eq!(about.columns, ["admitted", "ward", "sex", "smokes", "age", "crp"]);
    assert!(Scorer::read(b"{}", "model.json").is_err() && shown.scorer().is_some());

    let mut owner = new.plan_scores(&scorer).unwrap();
    let summary = owner.summary().unwrap();
    let scoring = summary.scoring.as_ref().unwrap();
    assert_eq!((&summary.named[..], scoring.classes), ("predict:3x9", 2));
    assert_eq!(scoring.unused, ["note"]);
    let holder = owner.draw().unwrap();
    let [mut keys, mut rows, mut model_file] = [Vec::new(), Vec::new(), Vec::new()];
    owner.make_keys(&holder, &mut keys, |_| {}).unwrap();
    let written = owner.encrypt(&holder, &mut rows, |_| {}).unwrap();
    assert_eq!(written.bytes, rows.len() as u64);
    let written = owner.encrypt_model(&holder, &mut model_file).unwrap().unwrap();
    assert_eq!(written.digest, blake3::hash(&model_file).to_string());
    let files = Files::new(&keys, &rows);
    let path = files.folder.path().join("model.ct");
    fs::write(&path, &model_file).unwrap();
    let session = files.session();
    let Plan::Predict(plan) = &session.plan else { panic!("no plan of scores") };
    let by = AnyModel::read(&path, &session, plan).unwrap();
    let scores = session.scores(plan, by.weights(), |_| {}).unwrap();
    let (results, meta) = by.results(scores, &session);
    let path = files.folder.path().join("scores.ct");
    let file = NewFile::create(&path, Access::Shared, false).unwrap();
    session.write(file, &results, &meta, Content::Scores).unwrap();
    let result = fs::read(path).unwrap();
    let shown = holder.decrypt(&result, &blake3::hash(&result).to_string()).unwrap();
    let Shown::Scores(named) = &shown else { panic!("no scores") };
    let OfRows::One(found) = &named.scores else { panic!("more than one score") };

    // The same scores by hand, from the file of the model.
    let crp = model.centers[model.columns.iter().position(|c| c == "crp").unwrap()];
    let rows = [
        [19_783.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 71.0, crp],
        [19_756.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 35.0, 12.5],
        [19_781.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 88.0, 3.0],
    ];
    for (row, found) in rows.iter().zip(found) {
        let units = model.centers.iter().zip(&model.divisors).zip(row);
        let units = units.map(|((center, divisor), x)| (x - center) / divisor);
        let products = units.zip(&model.weights[0][1..]).map(|(x, w)| x * w);
        expect_near(*found, model.weights[0][0] + products.sum::<f64>());
    }
    assert_eq!(named.predicted, ["yes", "no", "yes"]);
    let page = shown.figures().unwrap().page("new.csv");
    assert!(page.contains("The model predicts <bdi>yes</bdi> for 2 of 3 rows"), "{page}");
    assert!(shown.csv().unwrap().starts_with("score,probability,predicted\n"));
    assert!(shown.json().unwrap().contains("\"kind\": \"scores\""));

    let lacking = Csv::new("new.csv".into(), b"age,sex\n71,F\n".into());
    assert_eq!(lacking.plan_scores(&scorer).map(|_| ()).unwrap_err().kind(), "MissingColumns");
    let unseen = Csv::new(
        "new.csv".into(),
        b"age,sex,crp,ward,smokes,admitted\n71,F,1,attic,true,2024-03-01\n".into(),
    );
    assert_eq!(unseen.plan_scores(&scorer).map(|_| ()).unwrap_err().kind(), "UnseenCategory");
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
