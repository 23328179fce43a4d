use crate::{assert_listed, section};
use std::{io, path::PathBuf};
use sudare::rlwe::KeyId;
use sudare_apps::{
    array::ArrayError, logreg::TrainError, pool::PoolError, search::SearchError, stats::StatsError,
    trees::TreesError,
};
use sudare_roles::{
    error::{Error, IndexError, LedgerError, PooledError, ReceiptError},
    sealed::SealError,
};
use sudare_table::{TableError, metrics::MetricError};

const KEY: KeyId = KeyId(0xfedc_ba98_7654_3210);
const OTHER_KEY: KeyId = KeyId(0x0022_4466_88aa_ccee);
const DIGEST: &str = "6a1f…";
const OTHER_DIGEST: &str = "c04e…";

fn library() -> sudare::Error {
    sudare::Error::Checksum { section: 2 }
}

fn full() -> io::Error {
    io::Error::other("no space left on device (os error 28)")
}

fn io_error() -> Error {
    Error::Io { action: "write", path: "keys/secret.key.releases".into(), source: full() }
}

fn wrapping() -> Vec<Error> {
    let path = || PathBuf::from("births.csv");
    let column = || "age".to_owned();
    vec![
        library().into(),
        Error::File { path: "births.ct".into(), source: library() },
        TableError::NoTarget.into(),
        Error::TableFile { path: path(), source: TableError::AllMissing { column: column() } },
        sudare_apps::Error::NotScorable.into(),
        ArrayError::Values { found: 11, shape: vec![3, 4] }.into(),
        StatsError::Quantile { found: 1.5 }.into(),
        TrainError::Iterations.into(),
        PoolError::NotByClass.into(),
        Error::PoolFile { path: path(), source: PoolError::OtherTable { what: "columns" } },
        PooledError::Single { found: 2 }.into(),
        SearchError::BlockOrder { found: 2, needed: 1 }.into(),
        TreesError::Count { what: "features of a row", found: 3, needed: 4 }.into(),
        Error::TreesFile {
            path: "model.json".into(),
            source: TreesError::Format {
                format: "XGBoost",
                problem: "its booster has no trees".into(),
            },
        },
        IndexError::UnfinishedIndex { folder: "records".into() }.into(),
        Error::Seal { path: "secret.key".into(), source: SealError::WrongPassphrase },
        SealError::EmptyPassphrase.into(),
        MetricError::Empty.into(),
        Error::Ledger {
            path: "secret.key.releases".into(),
            source: LedgerError::Version { found: 2, supported: 1 },
        },
        ReceiptError::Forged.into(),
        Error::ReceiptFile { path: "births.receipt".into(), source: ReceiptError::Forged },
    ]
}

fn files() -> Vec<Error> {
    let path = || PathBuf::from("secret.key");
    vec![
        Error::Sealed { path: path() },
        Error::Parse {
            path: "model.json".into(),
            what: "model",
            problem:
                "expected value at line 1 column 1; name the JSON file of a model that `sudare \
                      decrypt` made"
                    .into(),
        },
        io_error(),
        Error::Exists { path: path() },
        Error::NoFolder { path: "keys/secret.key".into(), folder: "keys".into() },
        Error::NotAFolder { path: path() },
        Error::NotAFile { path: "keys".into() },
        Error::FileChanged {
            path: "births.ct".into(),
            problem: "it has 4096 bytes instead of 65536".into(),
        },
        Error::OtherFile {
            path: "births.ct".into(),
            found: DIGEST.into(),
            expected: OTHER_DIGEST.into(),
        },
        Error::ForgedKey { key: KEY },
        Error::OtherTable {
            path: "result.ct".into(),
            tables: "births.ct".into(),
            found: "a table of 200 rows".into(),
        },
        Error::InUse { folder: "states".into() },
        Error::Checkpoint {
            iterations: 3,
            folder: "states".into(),
            source: Box::new(Error::Io {
                action: "write",
                path: "states/3.ct".into(),
                source: full(),
            }),
        },
        Error::NotCounted { source: Box::new(io_error()) },
        Error::ReleasesSpent {
            ledger: "secret.key.releases".into(),
            counted: 1000,
            needed: 30,
            limit: 1024,
        },
    ]
}

fn others() -> Vec<Error> {
    vec![
        Error::Usage("no encrypted table is given: name at least one".into()),
        Error::NoBootstrapping { name: "n16".into(), known: "n16-boot, n16-boot-real".into() },
        Error::Memory {
            what: "the tables of the parameters",
            needed: 12 << 30,
            available: 8 << 30,
            advice: "close other programs, or use a machine with more memory",
        },
        Error::Refused {
            kind: "TooManyJobs".into(),
            detail: "a tenant may have 8 jobs under way: wait for one to end".into(),
        },
        Error::Unreachable {
            url: "https://server.example".into(),
            problem: "connection refused".into(),
        },
        Error::NoConnection {
            url: "https://server.example".into(),
            problem: "nothing listens there: check the port".into(),
        },
        Error::WrongResult("counts by group or bin of encrypted rows".into()),
        Error::Bug("a batch without shares".into()),
        Error::Stdout(full()),
    ]
}

fn index() -> Vec<IndexError> {
    vec![
        IndexError::NoIndex {
            folder: "records".into(),
            problem: "4096 rows need 2 blocks, but it lists 1".into(),
        },
        IndexError::ForeignIndex {
            path: "records".into(),
            found: format!("key {KEY}"),
            needed: format!("key {OTHER_KEY}"),
        },
        IndexError::UnfinishedIndex { folder: "records".into() },
        IndexError::MissingBlock { block: 3, path: "records/3.ct".into() },
        IndexError::AlteredBlock {
            block: 3,
            path: "records/3.ct".into(),
            problem: "it has no ciphertext 7".into(),
        },
        IndexError::ForeignBlock {
            block: 3,
            path: "records/3.ct".into(),
            problem: "it is block 4".into(),
        },
    ]
}

fn ledger() -> Vec<LedgerError> {
    vec![
        LedgerError::Malformed { problem: "its checksum does not match".into() },
        LedgerError::Version { found: 2, supported: 1 },
        LedgerError::OtherKey { found: KEY, expected: OTHER_KEY },
        LedgerError::Older { found: 3, known: 5 },
    ]
}

fn pooled() -> Vec<PooledError> {
    vec![
        PooledError::Alone { path: "north.ct".into() },
        PooledError::Single { found: 2 },
        PooledError::Schema { path: "north.ct".into(), other: "south.ct".into() },
        PooledError::Transform { path: "north.ct".into(), other: "south.ct".into() },
        PooledError::Twice { path: "north.ct".into(), owner: "north".into() },
        PooledError::Missing { owners: vec!["east".into(), "west".into()] },
    ]
}

fn receipt() -> Vec<ReceiptError> {
    vec![
        ReceiptError::Malformed { problem: "its signature is not hexadecimal".into() },
        ReceiptError::Forged,
        ReceiptError::OtherServer { found: DIGEST.into(), expected: OTHER_DIGEST.into() },
        ReceiptError::Differs {
            what: "the result",
            found: DIGEST.into(),
            expected: OTHER_DIGEST.into(),
        },
        ReceiptError::Missing { job: "0123456789abcdef".into() },
    ]
}

fn seal() -> Vec<SealError> {
    vec![
        SealError::EmptyPassphrase,
        SealError::LongPassphrase,
        SealError::WrongPassphrase,
        SealError::SealCosts { memory_kib: 1 << 24, passes: 100, lanes: 4 },
        SealError::SealMemory { memory_kib: 1 << 20 },
        SealError::Library(library()),
    ]
}

#[test]
fn messages_of_roles_are_those_of_the_list() {
    let errors: Vec<Error> = wrapping().into_iter().chain(files()).chain(others()).collect();
    let sections = [
        section("sudare_roles::Error", &errors),
        section("IndexError", &index()),
        section("LedgerError", &ledger()),
        section("PooledError", &pooled()),
        section("ReceiptError", &receipt()),
        section("SealError", &seal()),
    ];
    assert_listed("roles.txt", &sections);
}
