use super::*;
use crate::{
    exact_files,
    format::label::Meta,
    job::Job,
    sealed::{Passphrase, seal},
};
use std::{fs, sync::Arc};
use sudare::{
    ckks::{
        Ciphertext, Encoder, Encryptor, Params, Spec,
        serial::{self, Label},
    },
    exact,
    rlwe::{KeyGenerator, KeyRequest},
};
use sudare_apps::exact::{PlainIntegers, Scheme, Setting, encrypt};

const ALL: [Destination; 5] = [
    Destination::Keys,
    Destination::Tables,
    Destination::Models,
    Destination::States,
    Destination::Results,
];

/// A file, and the destinations that accept it: without and with a model in clear.
struct Sample {
    name: String,
    file: Vec<u8>,
    fits: Vec<Destination>,
    fits_as_plain: Vec<Destination>,
}

fn sample(name: &str, file: Vec<u8>, fits: &[Destination]) -> Sample {
    Sample { name: name.into(), file, fits: fits.to_vec(), fits_as_plain: fits.to_vec() }
}

fn model(shared_bits: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"kind": "logistic regression", "weights": [1, 2], "columns": ["a"], "target": "y",
            "divisors": [1], "iterations": 3, "rows": 9{shared_bits}}}"#
    );
    text.into_bytes()
}

/// Files of CKKS: of keys, and one of each content of ciphertexts.
fn ckks() -> Vec<Sample> {
    let spec = Spec { insecure: true, ..Spec::uniform(10, 40.0, 1, 30.0, vec![40.0]) };
    let params = Params::new(spec).unwrap();
    let mut generator = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = generator.secret_key().unwrap();
    let public = Arc::new(generator.public_key(&secret).unwrap());
    let request = KeyRequest::new().relinearize(params.top());
    let keys = generator.evaluation_keys(&secret, &request).unwrap();
    let meta = Meta::of(Job::Stats(sudare_apps::stats::Job { rows: 20, features: 2 }));
    let label = |content| meta.label("small", content).unwrap();
    let [mut secret_file, mut public_file, mut keys_file, mut unlabelled] =
        [const { Vec::new() }; 4];
    serial::write_secret_key(&mut secret_file, &params, &secret, &label(Content::Keys)).unwrap();
    serial::write_public_key(&mut public_file, &params, &public, &label(Content::Keys)).unwrap();
    serial::write_evaluation_keys(&mut keys_file, &params, &keys, &label(Content::Keys)).unwrap();
    serial::write_evaluation_keys(&mut unlabelled, &params, &keys, &Label::default()).unwrap();
    let passphrase = Passphrase::new(b"six random words".to_vec()).unwrap();
    let encryptor = Encryptor::new(&params, public).unwrap();
    let plain = Encoder::new(&params)
        .encode_real_at(&[0.5], params.top(), params.scale_at(params.top()))
        .unwrap();
    let encrypted = [encryptor.encrypt(&plain).unwrap()];
    let ciphertexts = |items: &[Ciphertext], label: &Label| {
        let mut file = Vec::new();
        serial::write_ciphertexts(&mut file, &params, items, label).unwrap();
        file
    };
    let mut damaged = keys_file.clone();
    damaged[100] ^= 1;
    let mut samples = vec![
        sample("a sealed key", seal(&secret_file, &passphrase).unwrap(), &[]),
        sample("the start of a secret key", secret_file[..16].to_vec(), &[]),
        sample("a secret key", secret_file, &[]),
        sample("a public key", public_file, &[]),
        sample("evaluation keys", keys_file, &[Destination::Keys]),
        sample("evaluation keys of nothing", unlabelled, &[]),
        sample("damaged evaluation keys", damaged, &[]),
        sample("ciphertexts of nothing", ciphertexts(&encrypted, &Label::default()), &[]),
    ];
    for (content, fits) in [
        (Content::Keys, &[][..]),
        (Content::Table, &[Destination::Tables]),
        (Content::Sums, &[]),
        (Content::Model, &[Destination::Models, Destination::Results]),
        (Content::Statistics, &[Destination::Results]),
        (Content::Checkpoint, &[Destination::States]),
        (Content::Weights, &[Destination::States]),
        (Content::Scores, &[Destination::Results]),
    ] {
        let name = format!("encrypted {}", content.name());
        samples.push(sample(&name, ciphertexts(&encrypted, &label(content)), fits));
    }
    samples
}

/// Files for exact integers. None of them may be sent.
fn integers_of(scheme: Scheme) -> Vec<Sample> {
    const NAME: &str = "toy-n5";
    let spec = exact::preset(NAME).unwrap().spec;
    let params = exact::Params::new(spec).unwrap();
    let setting = Setting::named(NAME, params.clone(), scheme, true).unwrap();
    let label = exact_files::key_label(NAME, &setting).unwrap();
    let mut generator = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = generator.secret_key().unwrap();
    let public = generator.public_key(&secret).unwrap();
    let keys = generator.evaluation_keys(&secret, &KeyRequest::new()).unwrap();
    let passphrase = Passphrase::new(b"six random words".to_vec()).unwrap();
    let written = |passphrase| {
        let mut file = Vec::new();
        let path = Path::new("secret.key");
        exact_files::write_secret(&mut file, path, &params, &secret, &label, passphrase).unwrap();
        file
    };
    let [mut public_file, mut keys_file, mut array] = [const { Vec::new() }; 3];
    exact::serial::write_public_key(&mut public_file, &params, &public, &label).unwrap();
    exact::serial::write_evaluation_keys(&mut keys_file, &params, &keys, &label).unwrap();
    let encryptor = exact::Encryptor::new(&params, Arc::new(public)).unwrap();
    let encrypted = encrypt(&encryptor, &setting, &PlainIntegers::new(&[2], vec![1, 2])).unwrap();
    exact_files::write_array(&mut array, NAME, &setting, &encrypted).unwrap();
    let of = |name: &str, file| sample(&format!("{name} of {scheme:?}"), file, &[]);
    vec![
        of("a secret key", written(None)),
        of("a sealed key", written(Some(&passphrase))),
        of("a public key", public_file),
        of("evaluation keys", keys_file),
        of("an array", array),
    ]
}

fn others() -> Vec<Sample> {
    let plain = |name: &str, file| Sample {
        fits_as_plain: vec![Destination::Models],
        ..sample(name, file, &[])
    };
    let of = |name: &str, file: &[u8]| sample(name, file.to_vec(), &[]);
    vec![
        plain("a model in clear", model("")),
        plain("a released model", model(r#", "shared_bits": 10"#)),
        of("a model with more in it", &model(r#", "patients": ["Ann"]"#)),
        of("statistics", br#"{"kind": "statistics", "columns": ["a"], "rows": 9}"#),
        of("a table", b"a,b\n1,2\n3,4\n"),
        of("a table in Parquet", b"PAR1\x15\x04\x15\x10PAR1"),
        of("an array of NumPy", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}"),
        of("a ledger", b"\x89sudareL\x01\0\0\0\0\0\0\0"),
        of("a note", b"remember the milk"),
        of("an archive", b"PK\x03\x04"),
        of("nothing", b""),
        of("bytes", &[7; 300]),
        of("magic alone", MAGIC),
    ]
}

fn samples() -> Vec<Sample> {
    let mut samples = ckks();
    samples.extend([Scheme::Bgv, Scheme::Bfv].into_iter().flat_map(integers_of));
    samples.extend(others());
    samples
}

#[test]
fn every_file_goes_where_it_belongs_and_nowhere_else() {
    for Sample { name, file, fits, fits_as_plain } in samples() {
        for destination in ALL {
            for (plain_model, fits) in [(false, &fits), (true, &fits_as_plain)] {
                let path = Path::new("named.file");
                let bytes = file.len() as u64;
                let found = check(&file[..], bytes, path, &[destination], plain_model);
                let shown = format!("{name} to {destination:?}, {plain_model}: {found:?}");
                assert_eq!(found.is_ok(), fits.contains(&destination), "{shown}");
                match found {
                    Ok(found) => assert_eq!(found, destination, "{shown}"),
                    Err(error) => assert!(error.to_string().contains("named.file"), "{shown}"),
                }
            }
        }
        let collections = Destination::COLLECTIONS;
        let found = check(&file[..], file.len() as u64, Path::new("x"), &collections, false);
        let expected = fits.iter().copied().find(|fit| collections.contains(fit));
        assert_eq!(found.ok(), expected, "{name}");
        assert!(!name.contains("secret key") || is_secret(&file), "{name}");
        assert!(!is_secret(&file) || fits_as_plain.is_empty(), "{name}");
    }
}

/// Only the header of a file is read, except for a model in clear.
#[test]
fn no_more_than_the_header_is_read() {
    struct Counted<'a>(&'a [u8], u64);
    impl Read for Counted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(buffer)?;
            self.1 += read as u64;
            Ok(read)
        }
    }
    for Sample { name, file, .. } in samples() {
        let mut counted = Counted(&file, 0);
        let bytes = file.len() as u64;
        let found = check(&mut counted, bytes, Path::new("x"), &Destination::COLLECTIONS, true);
        let most = if is_secret(&file) { START_BYTES } else { 4096 };
        assert!(counted.1 <= most, "{name}: {} of {bytes} bytes", counted.1);
        drop(found);
    }
    let large = MAX_MODEL_BYTES + 1;
    let mut endless = Counted(&[b'{'; 1000], 0);
    check(&mut endless, large, Path::new("x"), &Destination::COLLECTIONS, true).unwrap_err();
    assert!(endless.1 <= START_BYTES, "{}", endless.1);
}

#[test]
fn refusals_say_what_to_do() {
    let refused = |file: &[u8], destination| {
        let found = check(file, file.len() as u64, Path::new("a.b"), &[destination], false);
        found.unwrap_err().to_string()
    };
    let plain = refused(&model(""), Destination::Models);
    assert!(plain.contains("--plain-model") && plain.contains("--share"), "{plain}");
    let released = refused(&model(r#", "shared_bits": 10"#), Destination::Models);
    assert!(released.contains("--plain-model") && !released.contains("--share"), "{released}");
    let table = refused(b"a,b\n1,2\n", Destination::Tables);
    assert!(table.contains("only encrypted tables are"), "{table}");
    for name in ["keys", "tables", "models"] {
        assert_eq!(name.parse::<Destination>().unwrap().name(), name);
    }
    for name in ["results", "states", "Keys", "../keys", ""] {
        assert!(name.parse::<Destination>().unwrap_err().to_string().contains("keys, tables"));
    }
}

#[test]
fn files_are_sent_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.json");
    let text = model("");
    fs::write(&path, &text).unwrap();
    Outgoing::open(&path, &[Destination::Models], false).map(|_| ()).unwrap_err();
    let file = Outgoing::open(&path, &Destination::COLLECTIONS, true).unwrap();
    let expected = (&*path, text.len() as u64, Destination::Models);
    assert_eq!((file.path(), file.bytes(), file.destination()), expected);
    assert_eq!(file.digest().unwrap(), blake3::hash(&text).to_string());
    assert_eq!(file.part(0, u64::MAX).unwrap(), text);
    assert_eq!(file.part(5, 7).unwrap(), text[5..12]);
    assert_eq!(file.part(text.len() as u64, 7).unwrap(), b"");
    // Bytes that were appended later are not sent.
    fs::write(&path, [&text[..], b"more"].concat()).unwrap();
    assert_eq!(file.part(5, u64::MAX).unwrap(), text[5..]);
    let mut all = Vec::new();
    file.rewound().unwrap().read_to_end(&mut all).unwrap();
    assert!(all.starts_with(&text));
    Outgoing::open(folder.path(), &Destination::COLLECTIONS, true).map(|_| ()).unwrap_err();
}

#[test]
fn secrets_are_known_by_their_first_bytes() {
    let mut start = [0; 64];
    start[..8].copy_from_slice(MAGIC);
    for (kind, is) in [(1_u8, true), (2, false), (3, false), (4, false)] {
        start[14] = kind;
        assert_eq!(is_secret(&start), is, "{kind}");
    }
    assert!(is_secret(&sealed::MAGIC) && !is_secret(b"") && !is_secret(&start[..15]));
}
