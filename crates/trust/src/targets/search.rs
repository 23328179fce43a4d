//! Targets of searches: labels of keys, and manifests of indices.

use super::{Harness, Reached, Target, mutate_text, unchanged};
use crate::{file::Parts, world::PATH};
use std::{path::Path, sync::LazyLock};
use sudare::{
    ckks::{
        self, Params,
        serial::{self, Label},
    },
    rlwe::KeyGenerator,
};
use sudare_apps::search::{Answer, Metric, Mode, Plan, Spec, Threshold};
use sudare_arith::prng::Seed;
use sudare_roles::{
    error::Result,
    format::opened::Opened,
    search::{Index, Payload, Session, Setup, key_label},
};

/// Reads a label and plans its search.
pub const LABEL: Target = Target {
    name: "search_label",
    harness: Harness::Evaluate,
    prepare: unchanged,
    run: label,
    mutate: mutate_text,
    seeds: || setups().map(|setup| key_label("test", &setup).unwrap().meta).to_vec(),
};

pub const INDEX: Target = Target {
    name: "search_index",
    harness: Harness::Parse,
    prepare: unchanged,
    run: index,
    mutate: mutate_text,
    seeds: manifests,
};

fn setups() -> [Setup; 3] {
    let threshold = Threshold { at: 0.5, margin: 0.25 };
    let payload = Payload::Integers { columns: 2, bits: 9 };
    let distance = Metric::Euclidean { largest: 2.0 };
    [
        (Metric::Cosine, Mode::Encrypted, Answer::Scores, Payload::Rows),
        (distance, Mode::PlainIndex, Answer::Count(threshold), Payload::Rows),
        (
            Metric::InnerProduct { largest: 1.0, largest_query: 2.0 },
            Mode::PlainQuery,
            Answer::Matches { threshold, most: 3, payload: 0 },
            payload,
        ),
    ]
    .map(|(metric, mode, answer, payload)| {
        let spec = Spec { dimension: 3, rows: 200, metric, mode, answer };
        Setup::new(spec, payload).unwrap()
    })
}

/// The file of a public key in a small ring, with the levels of the last of [`setups`].
static KEY: LazyLock<Parts> = LazyLock::new(|| {
    let spec = Plan::auto_params(&setups()[2].spec).unwrap().spec().clone();
    let params = Params::new(ckks::Spec { log_n: 6, insecure: true, ..spec }).unwrap();
    let mut keygen = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([1; 32]));
    let secret = keygen.secret_key().unwrap();
    let public = keygen.public_key(&secret).unwrap();
    let mut file = Vec::new();
    serial::write_public_key(&mut file, &params, &public, &Label::default()).unwrap();
    Parts::of(&file).unwrap()
});

/// Returns the session of a public key with this label.
fn session(meta: &[u8]) -> Result<Session> {
    let label = Label { meta: meta.to_vec(), ..key_label("test", &setups()[0])? };
    let file = Parts { label, ..KEY.clone() }.seal();
    Session::of(&Opened::new(&file[..], file.len() as u64, Path::new(PATH))?)
}

fn label(meta: &[u8]) -> Reached {
    Reached::content(session(meta))
}

static SESSION: LazyLock<Session> =
    LazyLock::new(|| session(&key_label("test", &setups()[2]).unwrap().meta).unwrap());

fn index(text: &[u8]) -> Reached {
    let text = String::from_utf8_lossy(text);
    Reached::content(Index::parse(&text, Path::new(PATH), &SESSION))
}

/// Returns the manifests of a complete index, whose records fill its blocks, and of an unfinished
/// one.
fn manifests() -> Vec<Vec<u8>> {
    let params = SESSION.plan.params().rlwe().id().to_string();
    let setup = SESSION.setup;
    let of = serde_json::json!({
        "version": 1, "params": params, "key": SESSION.key.to_string(), "setup": setup,
    });
    let rows = 2 * SESSION.plan.block_len();
    let digest = "0123456789abcdef".repeat(4);
    let manifest = |blocks: usize, complete: bool| {
        let blocks = vec![digest.as_str(); blocks];
        let text = serde_json::json!({
            "of": of, "rows": rows, "complete": complete, "blocks": blocks,
        });
        text.to_string().into_bytes()
    };
    vec![manifest(2, true), manifest(1, false)]
}
