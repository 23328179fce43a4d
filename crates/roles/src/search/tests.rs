use super::*;
use crate::{error::Error, format::opened::Opened};
use std::{collections::BTreeSet, fs, path::Path, sync::Arc};
use sudare::{
    ckks::{self, Decryptor, Params, serial},
    rlwe::KeyGenerator,
};
use sudare_apps::search::{Answer, Metric, Mode, Plan, Spec, Threshold};
use tempfile::TempDir;

/// Records in memory, and a log of the reads.
#[derive(Clone)]
struct Table {
    vectors: Vec<Vec<f64>>,
    payload: Payload,
}

struct Reading<'a>(&'a Table, usize);

impl Records for Reading<'_> {
    fn next(&mut self, most: usize) -> crate::error::Result<Batch> {
        let Self(table, first) = *self;
        let end = table.vectors.len().min(first + most);
        self.1 = end;
        let payload = |row: usize| match table.payload {
            Payload::Rows => Value::Nothing,
            _ => Value::Integers(vec![row as u64 % 512, 7]),
        };
        let payloads = (first..end).map(|row| table.payload.pack(row, &payload(row)));
        Ok(Batch {
            vectors: table.vectors[first..end].concat(),
            payloads: payloads.collect::<crate::error::Result<_>>()?,
        })
    }
}

/// An owner with keys in a ring too small to be secure.
struct World {
    folder: TempDir,
    session: Session,
    decryptor: Decryptor,
    /// Writers with the public and with the secret key.
    writers: [Arc<Writer>; 2],
}

fn bytes(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut file = Vec::new();
    write(&mut file);
    file
}

fn open(file: &[u8]) -> Opened<&[u8]> {
    Opened::new(file, file.len() as u64, Path::new("in memory")).unwrap()
}

impl World {
    fn new(setup: &Setup, log_n: u32) -> Self {
        let spec = Plan::auto_params(&setup.spec).unwrap().spec().clone();
        let params = Params::new(ckks::Spec { log_n, insecure: true, ..spec }).unwrap();
        let plan = Plan::new(&setup.spec, &params).unwrap();
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = keygen.public_key(&secret).unwrap();
        let keys = keygen.evaluation_keys(&secret, plan.required_keys()).unwrap();
        let label = key_label("test", setup).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, file: Vec<u8>| fs::write(folder.path().join(name), file).unwrap();
        let file = bytes(|out| {
            serial::write_public_key(out, &params, &public, &label).unwrap();
        });
        let session = Session::of(&open(&file)).unwrap();
        assert_eq!(session.setup, *setup);
        write("public.key", file);
        write(
            "evaluation.key",
            bytes(|out| {
                serial::write_evaluation_keys(out, &params, &keys, &label).unwrap();
            }),
        );
        let secret = Arc::new(secret);
        let decryptor = Decryptor::new(&params, Arc::clone(&secret)).unwrap();
        let public = Opened::open(&folder.path().join("public.key"), serial::Kind::PublicKey);
        let writers = [
            Writer::public(public.unwrap()).unwrap(),
            Writer::secret(session.clone(), secret).unwrap(),
        ];
        Self { folder, session, decryptor, writers: writers.map(Arc::new) }
    }

    fn builder(&self) -> crate::error::Result<Builder> {
        self.builder_by(0)
    }

    fn builder_by(&self, writer: usize) -> crate::error::Result<Builder> {
        let index = self.folder.path().join("index");
        Builder::open(&index, &catalogue_path(&index), Arc::clone(&self.writers[writer]))
    }

    /// Updates the index, and returns the blocks that were encrypted.
    fn update(&self, table: &Table, deleted: &[usize]) -> Vec<usize> {
        self.update_by(0, table, deleted)
    }

    fn update_by(&self, writer: usize, table: &Table, deleted: &[usize]) -> Vec<usize> {
        let deleted = deleted.iter().copied().collect();
        let mut builder = self.builder_by(writer).unwrap();
        let update = builder.update(&mut Reading(table, 0), &deleted, |_| ()).unwrap();
        assert_eq!(update.rows, table.vectors.len());
        update.encrypted
    }

    fn query(&self, vector: &[f64]) -> Vec<u8> {
        bytes(|out| {
            self.writers[0].write_query(out, vector).unwrap();
        })
    }

    fn server(&self) -> Server {
        let keys = self.folder.path().join("evaluation.key");
        Server::new(Opened::open(&keys, serial::Kind::EvaluationKeys).unwrap(), false).unwrap()
    }

    /// Searches the index.
    fn ask(&self, vector: &[f64], wanted: SearchKind) -> crate::error::Result<Answered> {
        let server = self.server();
        let index = Index::open(&self.folder.path().join("index"), server.session())?;
        let query = self.query(vector);
        let asked = Asked::Encrypted(Box::new(open(&query)));
        let outcome = server.run(asked, Searched::Index(&index), wanted, |_| ())?;
        let answer = bytes(|out| {
            outcome.write(out).unwrap();
        });
        open_answer(&self.session, &self.decryptor, open(&answer))
    }

    fn block(&self, block: usize) -> std::path::PathBuf {
        self.folder.path().join(format!("index/block-{block:05}.ct"))
    }
}

/// Vectors with angles that grow from row to row.
fn table(rows: usize, payload: Payload) -> Table {
    let angle = |row: usize| row as f64 * 2.399_963;
    let vector = |row: usize| vec![angle(row).cos(), angle(row).sin(), 0.5, -0.25];
    Table { vectors: (0..rows).map(vector).collect(), payload }
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn scores_setup(rows: usize) -> Setup {
    let metric = Metric::Cosine;
    let mode = Mode::Encrypted;
    let spec = Spec { dimension: 4, rows, metric, mode, answer: Answer::Scores };
    Setup::new(spec, Payload::Rows).unwrap()
}

/// Only changed blocks are encrypted again, also after an interruption.
#[test]
fn an_index_follows_its_records() {
    let world = World::new(&scores_setup(20_000), 10);
    let length = world.session.plan.block_len();
    let mut table = table(2 * length + 5, Payload::Rows);
    assert_eq!(world.update(&table, &[]), [0, 1, 2]);
    assert!(world.update(&table, &[]).is_empty());
    table.vectors.push(vec![1.0, 0.0, 0.0, 0.0]);
    assert_eq!(world.update(&table, &[]), [2]);
    assert_eq!(world.update(&table, &[3, length + 1]), [0, 1]);
    assert_eq!(world.builder().unwrap().deleted(), &BTreeSet::from([3, length + 1]));
    fs::remove_file(world.block(1)).unwrap();
    assert_eq!(world.update(&table, &[3, length + 1]), [1]);

    let query = [0.3, -0.2, 0.1, 0.9];
    let answered = world.ask(&query, SearchKind::Scores).unwrap();
    let Answered::Scores(scores) = &answered else { panic!("{answered:?}") };
    assert_eq!(scores.len(), table.vectors.len());
    for (row, score) in scores.iter().enumerate() {
        let expected = match row {
            3 => 0.0,
            row if row == length + 1 => 0.0,
            row => cosine(&table.vectors[row], &query),
        };
        assert!((score - expected).abs() < world.session.plan.largest_error(), "{row}");
    }
    let deleted = world.builder().unwrap().deleted().clone();
    let nearest = answered.nearest(&world.session, &deleted, 3).unwrap();
    let mut expected: Vec<usize> =
        (0..table.vectors.len()).filter(|row| !deleted.contains(row)).collect();
    expected.sort_by(|a, b| {
        let of = |row: &usize| cosine(&table.vectors[*row], &query);
        of(b).total_cmp(&of(a))
    });
    assert_eq!(nearest[0].0, expected[0]);

    // Blocks beyond the last record are removed, and an interrupted update leaves the index
    // unfinished.
    table.vectors.truncate(length);
    assert!(world.update(&table, &[3]).is_empty());
    assert!(!world.block(1).exists() && !world.block(2).exists());
    table.vectors.extend([vec![0.0, 1.0, 0.0, 0.0], vec![0.0; 4]]);
    let refused = world.builder().unwrap().update(&mut Reading(&table, 0), &[3].into(), |_| ());
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), "SearchVector");
    assert!(refused.to_string().contains(&format!("row {}", length + 1)), "{refused}");
    assert_eq!(world.ask(&query, SearchKind::Scores).unwrap_err().kind(), "UnfinishedIndex");
    table.vectors.pop();
    assert_eq!(world.update(&table, &[3]), [1]);
    world.ask(&query, SearchKind::Scores).unwrap();
    let refused = world.builder().unwrap().update(&mut Reading(&table, 0), &[9999].into(), |_| ());
    assert!(refused.unwrap_err().to_string().contains("row 9999"));
}

/// Secret-key blocks and queries have half the bytes and the same content.
#[test]
fn the_secret_key_halves_files() {
    let world = World::new(&scores_setup(20_000), 10);
    let table = table(world.session.plan.block_len() + 5, Payload::Rows);
    let query = [0.3, -0.2, 0.1, 0.9];
    assert_eq!(world.update(&table, &[]), [0, 1]);
    let bytes = |block| fs::metadata(world.block(block)).unwrap().len() as f64;
    let whole = bytes(1);
    // An unchanged block keeps its file.
    assert_eq!(world.update_by(1, &table, &[table.vectors.len() - 1]), [1]);
    assert!((0.5..0.55).contains(&(bytes(1) / bytes(0))), "{} of {whole}", bytes(1));
    let server = world.server();
    let index = Index::open(&world.folder.path().join("index"), server.session()).unwrap();
    let mut sizes = Vec::new();
    for writer in &world.writers {
        let mut file = Vec::new();
        let written = writer.write_query(&mut file, &query).unwrap();
        assert_eq!(written, file.len() as u64);
        sizes.push(written as f64);
        let asked = Asked::Encrypted(Box::new(open(&file)));
        let outcome =
            server.run(asked, Searched::Index(&index), SearchKind::Scores, |_| ()).unwrap();
        let mut answer = Vec::new();
        outcome.write(&mut answer).unwrap();
        let answered = open_answer(&world.session, &world.decryptor, open(&answer)).unwrap();
        let Answered::Scores(scores) = answered else { panic!("{answered:?}") };
        for (vector, score) in table.vectors.iter().zip(&scores).take(scores.len() - 1) {
            let error = (score - cosine(vector, &query)).abs();
            assert!(error < world.session.plan.largest_error(), "{error}");
        }
    }
    assert!((0.5..0.55).contains(&(sizes[1] / sizes[0])), "{sizes:?}");

    let other = World::new(&scores_setup(20_000), 10);
    let key = KeyGenerator::new(world.session.plan.params().rlwe()).unwrap().secret_key().unwrap();
    let refused = Writer::secret(other.session, Arc::new(key)).err().unwrap();
    assert!(refused.to_string().contains("this search uses"), "{refused}");
}

/// An error names the unusable block.
#[test]
fn blocks_that_are_wrong_are_named() {
    let world = World::new(&scores_setup(20_000), 10);
    let table = table(2 * world.session.plan.block_len() + 5, Payload::Rows);
    world.update(&table, &[]);
    let query = [1.0; 4];
    let good = fs::read(world.block(1)).unwrap();
    let refused = |part: &str| {
        let error = world.ask(&query, SearchKind::Scores).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        error.kind()
    };
    fs::remove_file(world.block(1)).unwrap();
    assert_eq!(refused("block 1 "), "MissingBlock");
    fs::copy(world.block(0), world.block(1)).unwrap();
    assert_eq!(refused("block 1 "), "ForeignBlock");
    let mut bad = good.clone();
    // Damage within the last ciphertext.
    let at = bad.len() - 1000;
    bad[at] ^= 1;
    fs::write(world.block(1), &bad).unwrap();
    assert_eq!(refused("block 1 "), "AlteredBlock");
    fs::write(world.block(1), &good[..good.len() - 1]).unwrap();
    assert_eq!(refused("block 1 "), "AlteredBlock");
    // An older version of the block.
    world.update(&table, &[world.session.plan.block_len()]);
    fs::write(world.block(1), &good).unwrap();
    assert_eq!(refused("block 1 "), "AlteredBlock");

    let other = World::new(&scores_setup(20_000), 10);
    other.update(&table, &[]);
    fs::copy(other.block(1), world.block(1)).unwrap();
    assert_eq!(refused("block 1 "), "ForeignBlock");
    let index = other.folder.path().join("index");
    let foreign = Index::open(&index, &world.session).unwrap_err();
    assert_eq!(foreign.kind(), "ForeignIndex");
    let writer = Arc::clone(&world.writers[1]);
    let foreign = Builder::open(&index, &catalogue_path(&index), writer).err().unwrap();
    assert_eq!(foreign.kind(), "ForeignIndex");
    let nothing = Index::open(world.folder.path(), &world.session).unwrap_err();
    assert_eq!(nothing.kind(), "NoIndex");
    let held = world.builder().unwrap();
    assert!(matches!(world.builder().err().unwrap(), Error::InUse { .. }));
    drop(held);
}

/// Payloads of matches across blocks, and records in the clear on the server.
#[test]
fn matches_carry_payloads() {
    let payload = Payload::Integers { columns: 2, bits: 9 };
    let threshold = Threshold { at: 0.8, margin: 0.15 };
    for mode in [Mode::Encrypted, Mode::PlainIndex] {
        let answer = Answer::Matches { threshold, most: 8, payload: 0 };
        let spec = Spec { dimension: 4, rows: 6000, metric: Metric::Cosine, mode, answer };
        let setup = Setup::new(spec, payload).unwrap();
        let world = World::new(&setup, 11);
        let length = world.session.plan.block_len();
        let far = [0.0, 0.0, 0.0, 1.0];
        let mut table = Table { vectors: vec![far.to_vec(); length + 40], payload };
        let near = [3, 4, length - 1, length, length + 39];
        for row in near {
            table.vectors[row] = vec![2.0, 0.1, 0.0, 0.0];
        }
        let deleted = BTreeSet::from([4]);
        let query = [1.0, 0.0, 0.0, 0.0];
        let answered = |wanted| {
            if mode == Mode::Encrypted {
                return world.ask(&query, wanted).unwrap();
            }
            let encrypted = world.query(&query);
            let mut records = Reading(&table, 0);
            let searched = Searched::Records(&mut records, &deleted);
            let asked = Asked::Encrypted(Box::new(open(&encrypted)));
            let outcome = world.server().run(asked, searched, wanted, |_| ()).unwrap();
            let answer = bytes(|out| {
                outcome.write(out).unwrap();
            });
            open_answer(&world.session, &world.decryptor, open(&answer)).unwrap()
        };
        if mode == Mode::Encrypted {
            world.update(&table, &[4]);
        }
        let found = |row: usize| Found { row, payload: Value::Integers(vec![row as u64 % 512, 7]) };
        if mode == Mode::PlainIndex {
            let scores = answered(SearchKind::Scores);
            let nearest = scores.nearest(&world.session, &BTreeSet::new(), 9).unwrap();
            assert!(nearest.iter().all(|&(row, _)| row != 4));
            assert!(matches!(scores, Answered::Scores(all) if all[4].is_nan()));
        }
        let rows = near.into_iter().filter(|&row| row != 4);
        let expected = Answered::Matches {
            found: rows.map(found).collect(),
            crowded: 0,
            undecided: 0,
            more_than_planned: false,
        };
        assert_eq!(answered(SearchKind::Matches), expected);
        let count = Answered::Count { matches: 4, undecided: 0 };
        assert_eq!(answered(SearchKind::Count), count);
    }
}

#[test]
fn setups_and_files_that_do_not_go_together_are_refused() {
    let mut setup = scores_setup(100);
    let refused = Setup::new(setup.spec, Payload::Bytes { most: 3 }).unwrap_err();
    assert!(refused.to_string().contains("ask for matches"), "{refused}");
    let world = World::new(&setup, 10);
    let query = world.query(&[1.0; 4]);
    let refused = Session::of(&open(&query)).unwrap_err().to_string();
    assert!(refused.contains("keys of a search is needed"), "{refused}");
    setup.spec.rows = 99;
    let other = World::new(&setup, 10);
    let server = other.server();
    let table = table(5, Payload::Rows);
    let mut records = Reading(&table, 0);
    let searched = Searched::Records(&mut records, &BTreeSet::new());
    let asked = Asked::Encrypted(Box::new(open(&query)));
    let refused = server.run(asked, searched, SearchKind::Scores, |_| ()).err().unwrap();
    assert_eq!(refused.kind(), "KeyMismatch");
}
