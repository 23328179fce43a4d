//! Targets that parse.

use super::{Harness, Reached, Target, mutate_bytes, mutate_text, unchanged};
use crate::{
    file::{Parts, Written, build_small, resealed},
    mutate::{self, Rng},
    world::{self, PAIRS, PATH, Pair},
};
use std::{fs, io::Cursor, path::Path};
use sudare::{
    Result,
    ckks::{
        Spec,
        serial::{self, Kind, Label, Reader},
    },
};
use sudare_apps::{
    array::{Array, Layout, Range},
    nn::Network,
    pool::Schema,
};
use sudare_arith::mem::Mapping;
use sudare_roles::{
    clear::{features::Inputs, model::Model},
    format::label::{ArrayMeta, Content, Holds, Meta, PartMeta},
    job::Job,
    pooled::transform::PooledTransform,
    sealed::Sealed,
    search::Npy,
};
use sudare_table::{Categorical, Encoding, EncodingOptions, Frame, ReadOptions, Table};

/// Maximum number of cells of a table. A Parquet file of a few bytes can claim millions of rows.
const MAX_CELLS: usize = 1 << 14;

/// Creates a target for files with checksums, in the smallest rings.
const fn of_files(
    name: &'static str,
    run: fn(&[u8]) -> Reached,
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    let prepare = resealed::<Spec>;
    let mutate = mutate_file::<Spec>;
    Target { name, harness: Harness::Parse, prepare, run, mutate, seeds }
}

pub const SECRET_KEY: Target = of_files("secret_key", whole, || of_pairs(0));
pub const PUBLIC_KEY: Target = of_files("public_key", whole, || of_pairs(1));
pub const EVALUATION_KEYS: Target = of_files("evaluation_keys", keys, || of_pairs(2));
pub const CIPHERTEXTS: Target =
    of_files("ciphertexts", ciphertexts, || [of_pairs(3), of_pairs(4)].concat());
pub const ARRAY: Target = of_files("array", array, arrays);
pub const PART: Target = of_files("part", part, parts);

/// Creates a target for bytes without checksums.
const fn of_text(
    name: &'static str,
    run: fn(&[u8]) -> Reached,
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    let harness = Harness::Parse;
    let prepare = unchanged;
    let mutate = mutate_text;
    Target { name, harness, prepare, run, mutate, seeds }
}

pub const LABEL: Target = Target { mutate: mutate_bytes, ..of_text("label", label, labels) };
pub const SEALED: Target = Target { mutate: mutate_bytes, ..of_text("sealed", sealed, seals) };
pub const CSV: Target = of_text("csv", csv, csvs);
pub const NPY: Target = Target { mutate: mutate_bytes, ..of_text("npy", npy, npys) };
pub const PARQUET: Target =
    Target { mutate: mutate_parquet, ..of_text("parquet", parquet, parquets) };
pub const MODEL: Target = of_text("model", model, || vec![world::MODEL.into()]);
pub const ONNX: Target = Target { mutate: mutate_bytes, ..of_text("onnx", onnx, onnxs) };
pub const SCHEMA: Target = of_text("schema", schema, || vec![SCHEMA_JSON.into()]);
pub const TRANSFORM: Target = of_text("transform", transform, transforms);

/// Returns the file of this number from all pairs.
pub fn of_pairs(number: usize) -> Vec<Vec<u8>> {
    PAIRS.iter().map(|pair| pair.files[number].clone()).collect()
}

/// Alters the facts in a file or its bytes, and often keeps the fingerprint of the parameters
/// valid.
pub fn mutate_file<S: Written>(input: &mut Vec<u8>, rng: &mut Rng) {
    if rng.below(3) == 0 {
        return mutate::bytes(input, &[], rng);
    }
    let Some(mut parts) = Parts::<S>::of(input) else { return mutate::bytes(input, &[], rng) };
    for _ in 0..1 + rng.below(2) {
        parts.mutate(rng);
    }
    parts.set_params();
    *input = parts.seal();
}

/// Opens a file and reads its header.
fn opened(file: &[u8]) -> Result<Reader<&[u8]>> {
    let reader = Reader::new(file, file.len() as u64)?;
    let spec = &reader.info().spec;
    let id = reader.info().params_id;
    let primes = spec.q_bits.iter().flatten().chain(&spec.p_bits).chain(&spec.extra_p_bits);
    build_small((spec, id), (spec.log_n, primes.count()), || drop(reader.params()));
    Ok(reader)
}

/// Reads a whole file under the parameters of the pair that it names.
fn whole(file: &[u8]) -> Reached {
    let Ok(reader) = opened(file) else { return Reached::Frame };
    let params = &Pair::of(reader.info().params_id).params;
    let read = match reader.info().kind {
        Kind::SecretKey => reader.secret_key(params).map(drop),
        Kind::PublicKey => reader.public_key(params).map(drop),
        Kind::EvaluationKeys => reader.small_keys(true).evaluation_keys(params).map(drop),
        Kind::Ciphertexts => reader.ciphertexts(params).map(drop),
    };
    Reached::of_read(&read)
}

/// Reads evaluation keys, also as a shared file.
fn keys(file: &[u8]) -> Reached {
    if let Ok(reader) = Reader::shared(Mapping::shared(file.to_vec())) {
        let params = &Pair::of(reader.info().params_id).params;
        let _ = reader.small_keys(true).evaluation_keys(params);
    }
    whole(file)
}

/// Reads ciphertexts, also one by one.
fn ciphertexts(file: &[u8]) -> Reached {
    let bytes = file.len() as u64;
    let _ = serial::digest(Cursor::new(file), bytes);
    if let Ok(reader) = Reader::new(Cursor::new(file), bytes) {
        let params = &Pair::of(reader.info().params_id).params;
        if let Ok(mut items) = reader.into_ciphertexts(params) {
            let count = items.shapes().len();
            // One more than there are: a range beyond the end must be an error.
            let _ = (items.read(count.saturating_sub(1)..count), items.read(0..count + 1));
        }
    }
    whole(file)
}

/// Repeats `from_bytes` of arrays in Python.
fn array(file: &[u8]) -> Reached {
    let Ok(reader) = opened(file) else { return Reached::Frame };
    let Ok(meta) = ArrayMeta::read(&reader.info().label) else { return Reached::Content };
    let params = &Pair::of(reader.info().params_id).params;
    let blocks = reader.ciphertexts(params);
    let reached = Reached::of_read(&blocks);
    let ArrayMeta { layout, padding_is_zero, range, .. } = meta;
    let Ok(blocks) = blocks else { return reached };
    let range = range.map_or_else(Range::unknown, Range::from);
    Reached::content(Array::from_ciphertexts(layout, blocks, padding_is_zero, range))
}

fn arrays() -> Vec<Vec<u8>> {
    let pair = &PAIRS[0];
    let layout = Layout::new(&[3, 4], pair.params.log_n() - 1).unwrap();
    let range = Some(Range::new(-1.0, 1.0).public());
    let label = ArrayMeta { layout, padding_is_zero: true, lineage: Some([7; 32]), range };
    let label = label.label("tiny").unwrap();
    let mut parts: Parts = Parts::of(&with_label(&pair.files[3], &label)).unwrap();
    parts.table.truncate(1);
    parts.sections.truncate(1);
    vec![parts.seal()]
}

/// Repeats `from_bytes` of parts of a training in Python, and the next step of a worker.
fn part(file: &[u8]) -> Reached {
    let Ok(reader) = opened(file) else { return Reached::Frame };
    let Ok(Some(meta)) = PartMeta::read(&reader.info().label) else { return Reached::Content };
    let _ = (meta.job.to_string(), meta.holds.name());
    let params = &Pair::of(reader.info().params_id).params;
    Reached::of_read(&reader.ciphertexts(params))
}

fn parts() -> Vec<Vec<u8>> {
    let job = some_jobs()[1];
    let holds = Holds::Gradient;
    let meta = PartMeta { job, holds, groups: 1, iteration: 2, shares: vec![0..2, 3..4] };
    vec![with_label(&PAIRS[0].files[3], &meta.label("tiny").unwrap())]
}

fn with_label(file: &[u8], label: &Label) -> Vec<u8> {
    let parts: Parts = Parts::of(file).unwrap();
    Parts { label: label.clone(), ..parts }.seal()
}

/// Reads the job in a file's label. The first byte selects the content.
fn label(bytes: &[u8]) -> Reached {
    let Some((&first, meta)) = bytes.split_first() else { return Reached::Content };
    let content = CONTENTS[usize::from(first) % CONTENTS.len()].name().to_owned();
    let label = Label { name: "auto".into(), content, meta: meta.to_vec() };
    let Some((_, meta)) = Meta::read(&label) else {
        let _ = Meta::is_of_another_version(&label);
        return Reached::Content;
    };
    let _ = (meta.job.to_string(), meta.job.shape(), meta.job.kind(), meta.job.scoring(1 << 40));
    Reached::Accepted
}

const CONTENTS: [Content; 3] = [Content::Keys, Content::Table, Content::Checkpoint];

fn labels() -> Vec<Vec<u8>> {
    let of = |job: &Job| {
        let label = Meta::of(*job).label("auto", Content::Table).unwrap();
        [&[1], &label.meta[..]].concat()
    };
    some_jobs().iter().map(of).collect()
}

/// Returns jobs in the form that labels store.
pub fn some_jobs() -> [Job; 4] {
    use sudare_apps::{
        logreg::{self, ScoreJob, ScoredModel, TrainSpec},
        stats::{self, GroupJob},
    };
    let rows = 16;
    let features = 2;
    let training = logreg::Job { rows, features, spec: TrainSpec::default() };
    [
        Job::Stats(stats::Job { rows, features }),
        Job::Train(training),
        Job::Groups(GroupJob { rows, features, groups: 3 }),
        Job::Predict(ScoreJob { rows, model: ScoredModel::Trained(training) }),
    ]
}

/// Reads the clear part of a sealed secret key.
fn sealed(bytes: &[u8]) -> Reached {
    Reached::content(Sealed::new(bytes))
}

/// Returns a file that another program sealed, with the minimum of accepted memory.
fn seals() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../roles/tests/data");
    let mut sealed = fs::read(folder.join("sealed.bin")).unwrap();
    sealed[12..16].copy_from_slice(&(8u32 << 10).to_le_bytes());
    vec![sealed]
}

/// Reads a table in every supported way.
fn csv(bytes: &[u8]) -> Reached {
    let _ = Table::from_csv(bytes, Some("y"), MAX_CELLS);
    coded(|options| Frame::from_csv(Cursor::new(bytes), options))
}

/// Reads rows with text, gaps and a target, then encodes them as numbers.
fn coded<E>(read: impl Fn(&ReadOptions) -> core::result::Result<Frame, E>) -> Reached {
    let target = Some("y".to_owned());
    let mut reached = Reached::Content;
    for (categorical, missing) in [(Categorical::Every, true), (Categorical::None, false)] {
        let options = ReadOptions {
            categorical,
            missing,
            target: target.clone(),
            max_cells: MAX_CELLS,
            ..ReadOptions::default()
        };
        let Ok(frame) = read(&options) else { continue };
        reached = Reached::Accepted;
        let fitted = Encoding::fit(&frame, None, &EncodingOptions::default());
        let _ = fitted.and_then(|encoding| encoding.apply(frame));
    }
    reached
}

fn csvs() -> Vec<Vec<u8>> {
    [
        "u,v,y\n1,2.5,0\n3,-4e1,1\n",
        "u;v;y\n1,5;\"a;b\";0\n;\"say \"\"x\"\"\";1\n",
        "\u{feff}u\tv\ty\r\n1\t2\t1\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Reads the elements of a NumPy array of any type.
fn npy(bytes: &[u8]) -> Reached {
    let open = || Npy::new(bytes, bytes.len() as u64);
    let Ok(array) = open() else { return Reached::Content };
    let (rows, columns) = array.shape();
    // Elements of zero bytes can occur any number of times.
    let count = rows.saturating_mul(columns).min(MAX_CELLS);
    let floats = open().and_then(|mut array| array.floats(count)).is_ok();
    let integers = open().and_then(|mut array| array.integers(count)).is_ok();
    let texts = open().and_then(|mut array| array.bytes(count)).is_ok();
    match floats || integers || texts {
        true => Reached::Accepted,
        false => Reached::Content,
    }
}

fn npys() -> Vec<Vec<u8>> {
    [("<f4", "(3, 2)", 24), (">f8", "(2,)", 16), ("<i2", "(4, 1)", 8), ("|S5", "(2,)", 10)]
        .map(|(descr, shape, bytes)| {
            let header =
                format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
            let length = (header.len() as u16).to_le_bytes();
            let data: Vec<u8> = (1..=bytes).collect();
            [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &data].concat()
        })
        .to_vec()
}

fn parquet(bytes: &[u8]) -> Reached {
    coded(|options| Frame::from_parquet(Cursor::new(bytes), options))
}

/// Returns files of all supported kinds that other programs wrote.
fn parquets() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../table/tests/parquet");
    let small = ["encodings", "text-none", "text-v2", "v2", "text-delta", "refused-null"];
    small.map(|name| fs::read(folder.join(format!("{name}.parquet"))).unwrap()).to_vec()
}

/// Alters bytes near the end, which the footer describes.
fn mutate_parquet(input: &mut Vec<u8>, rng: &mut Rng) {
    if rng.below(2) == 0 {
        return mutate::bytes(input, &[], rng);
    }
    let at = input.len().saturating_sub(8 + rng.below(500));
    let mut footer = input.split_off(at);
    // The last 8 bytes are the length of the footer and the magic, without which nothing is read.
    let end = footer.split_off(footer.len().saturating_sub(8));
    mutate::bytes(&mut footer, &[], rng);
    input.extend(footer);
    input.extend(end);
}

fn model(bytes: &[u8]) -> Reached {
    let _: core::result::Result<Inputs, _> = serde_json::from_slice(bytes);
    let read = Model::from_json(bytes, Path::new(PATH));
    let _ = read.as_ref().map(Model::inputs);
    Reached::content(read)
}

fn onnx(bytes: &[u8]) -> Reached {
    Reached::content(Network::from_onnx(bytes, 7))
}

/// Returns models of dense layers and of images that other programs wrote.
fn onnxs() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps/tests/onnx");
    ["dense", "image"].map(|name| fs::read(folder.join(format!("{name}.onnx"))).unwrap()).to_vec()
}

const SCHEMA_JSON: &str = r#"{
  "version": 1,
  "owners": ["north", "south"],
  "target": { "name": "y", "classes": ["0", "1"] },
  "missing": "flag",
  "unseen": "zero",
  "columns": [
    { "name": "u", "kind": { "number": { "low": 1.0, "high": 10.0 } }, "missing": true },
    { "name": "v", "kind": { "categories": ["car", "home"] }, "missing": false }
  ]
}"#;

fn schema(bytes: &[u8]) -> Reached {
    let Ok(text) = core::str::from_utf8(bytes) else { return Reached::Content };
    let read = Schema::from_json(text);
    if let Ok(schema) = &read {
        let _ = schema.digest();
        let _ = schema.units();
    }
    Reached::content(read)
}

fn transform(bytes: &[u8]) -> Reached {
    let Ok(text) = core::str::from_utf8(bytes) else { return Reached::Content };
    let read = PooledTransform::from_json(text, Path::new(PATH));
    if let Ok(common) = &read {
        let _ = (common.of_owner("north"), common.trained().is_ok());
    }
    Reached::content(read)
}

fn transforms() -> Vec<Vec<u8>> {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA_JSON).unwrap();
    let columns = Schema::from_json(SCHEMA_JSON).unwrap().columns().len();
    let transform = sudare_apps::logreg::Transform::identity(columns);
    let document = serde_json::json!({
        "kind": "transform of several owners",
        "id": vec![7; 32],
        "schema": schema,
        "rows": 16,
        "row_weights": [1.0, 1.0],
        "class_weights": null,
        "transform": transform,
    });
    vec![document.to_string().into_bytes()]
}
