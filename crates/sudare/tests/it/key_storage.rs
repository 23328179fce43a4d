//! Keys that are whole or small, in memory or in a file: the same bits and the same checks.

use crate::common::Parts;
use std::{
    fs::{self, File},
    path::PathBuf,
    sync::Arc,
};
use sudare::{
    Error,
    circuits::ckks::bootstrap::{BootstrapPlan, preset},
    ckks::{
        Ciphertext, Encoder, Encryptor, Evaluator, Params, Spec,
        serial::{self, Label, Reader},
    },
    rlwe::{EvaluationKeys, KeyGenerator, KeyRequest},
};
use sudare_arith::{mem::Mapping, par, prng::Seed};

fn seed(label: &str) -> Seed {
    Seed::from_bytes([5; 32]).derive(label, 0)
}

/// A file that goes when it is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, content: &[u8]) -> Self {
        let name = format!("sudare-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, content).unwrap();
        Self(path)
    }

    fn mapped(&self) -> Result<Reader<impl std::io::Read>, Error> {
        Reader::shared(Mapping::new(&File::open(&self.0).unwrap()).unwrap())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Bootstrapping uses keys of every kind, hoisted, in pairs, in two stages and raised.
fn setup() -> (Params, BootstrapPlan) {
    let set = preset("n16-boot").unwrap();
    let params = Params::new(Spec { log_n: 10, insecure: true, ..set.preset.spec }).unwrap();
    let plan = set.bootstrap.with_log_slots(9).plan(&params, params.top()).unwrap();
    (params, plan)
}

fn keygen(params: &Params) -> KeyGenerator {
    KeyGenerator::from_seed(params.rlwe(), &seed("keys"))
}

fn file(params: &Params, keys: &EvaluationKeys) -> Vec<u8> {
    let mut file = Vec::new();
    serial::write_evaluation_keys(&mut file, params, keys, &Label::default()).unwrap();
    file
}

#[test]
fn all_keys_give_the_same_bits() {
    let (params, plan) = setup();
    let rlwe = params.rlwe();
    let level = plan.input_level();
    let rotation = 3;
    let request = &plan.required_keys().clone().rotations(10, [rotation], level);
    let make = |mut keygen: KeyGenerator| {
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        (keygen.evaluation_keys(&secret, request).unwrap(), public)
    };
    let (whole, public) = make(keygen(&params));
    let (small, _) = make(keygen(&params).small_keys(true));
    let content = file(&params, &whole);
    assert_eq!(file(&params, &small), content);

    let on_disk = Temporary::new("all-keys", &content);
    let loaded = || Reader::new(&content[..], content.len() as u64).unwrap();
    let forms = [
        ("made small", small),
        ("loaded", loaded().evaluation_keys(&params).unwrap()),
        ("loaded small", loaded().small_keys(true).evaluation_keys(&params).unwrap()),
        ("mapped", on_disk.mapped().unwrap().evaluation_keys(&params).unwrap()),
        (
            "mapped small",
            on_disk.mapped().unwrap().small_keys(true).evaluation_keys(&params).unwrap(),
        ),
    ];
    let all = request.bytes(rlwe).unwrap();
    let half = request.small_bytes(rlwe).unwrap();
    let sizes = [half, all, half, all / 2, half - all / 2];
    // Only the relinearisation keys have second halves.
    let level_keys = request.level_keys.iter().filter(|(_, keys)| keys.relinearize);
    let limbs = (level_keys.map(|(&level, _)| rlwe.level_key_limbs(level).unwrap()))
        .chain(request.relinearize.map(|level| rlwe.key_limbs(level)));
    let bytes = |limbs| rlwe.digit_primes_of(limbs).len() as u64 * rlwe.basis().packed_bytes(limbs);
    let relinearize = limbs.map(|limbs| 2 * bytes(limbs)).sum::<u64>();
    assert_eq!((whole.bytes(), half), (all, (all + relinearize) / 2));

    let encoder = Encoder::new(&params);
    let encryptor = Encryptor::new(&params, public).unwrap();
    let inputs = [1.0, 2.0].map(|salt| {
        let values: Vec<f64> = (0..512).map(|i| (f64::from(i) * salt).sin()).collect();
        let plain = encoder.encode_real_at(&values, level, params.scale_at(level)).unwrap();
        encryptor.encrypt_with(&plain, &seed("encryption")).unwrap()
    });
    let run = |keys: EvaluationKeys| {
        let evaluator = Evaluator::new(&params, Arc::new(keys)).unwrap();
        let bootstrapper = plan.prepare(&evaluator).unwrap();
        // In pairs, next to hoisted rotations.
        let mut out: Vec<Ciphertext> = bootstrapper.run_many(&evaluator, &inputs).unwrap();
        let hoisted = evaluator.hoist(&inputs[0]).unwrap();
        out.push(evaluator.rotate_hoisted(&hoisted, rotation).unwrap());
        let mut file = Vec::new();
        for item in &out {
            serial::write_ciphertexts(
                &mut file,
                &params,
                std::slice::from_ref(item),
                &Label::default(),
            )
            .unwrap();
        }
        file
    };
    let expected = run(whole);
    for ((form, keys), bytes) in forms.into_iter().zip(sizes) {
        assert_eq!(keys.bytes(), bytes, "{form}");
        assert!(keys.fulfils() == *request && file(&params, &keys) == content, "{form}");
        let threads = if form == "mapped small" { 2 } else { 1 };
        let found = par::with_threads(threads, || run(keys)).unwrap();
        assert!(found == expected, "{form} keys give other bits");
    }
}

#[test]
fn mapped_files_are_checked_as_loaded_ones_are() {
    let spec = Spec { insecure: true, ..Spec::uniform(6, 40.0, 2, 30.0, vec![40.0]) };
    let params = Params::new(spec).unwrap();
    let top = params.top();
    let request = KeyRequest::new().relinearize(top).rotations(6, [1], top);
    let mut keygen = keygen(&params);
    let secret = keygen.secret_key().unwrap();
    let keys = keygen.evaluation_keys(&secret, &request).unwrap();
    let content = file(&params, &keys);
    let both = |bytes: &[u8]| {
        let on_disk = Temporary::new("damaged", bytes);
        let loaded = Reader::new(bytes, bytes.len() as u64);
        let loaded = loaded.and_then(|reader| reader.evaluation_keys(&params)).err();
        let mapped = on_disk.mapped().and_then(|reader| reader.evaluation_keys(&params)).err();
        assert_eq!(mapped, loaded);
        mapped
    };
    assert_eq!(both(&content), None);
    for len in [0, 63, content.len() / 2, content.len() - 1] {
        assert!(matches!(both(&content[..len]), Some(Error::Truncated { .. })), "{len} bytes");
    }
    let step = content.len() / 37;
    for at in (0..content.len()).step_by(step) {
        let mut damaged = content.clone();
        damaged[at] ^= 4;
        assert!(both(&damaged).is_some(), "byte {at}");
    }
    let mut parts = Parts::of(&content);
    parts.sections[1][32..40].fill(0xff);
    let found = both(&parts.seal()).unwrap().to_string();
    assert!(found.contains("not below its prime"), "{found}");
    // Files of other kinds are the same, mapped or not.
    let mut file = Vec::new();
    serial::write_secret_key(&mut file, &params, &secret, &Label::default()).unwrap();
    let on_disk = Temporary::new("secret", &file);
    assert_eq!(on_disk.mapped().unwrap().secret_key(&params).unwrap().id(), secret.id());
    assert!(on_disk.mapped().unwrap().evaluation_keys(&params).is_err());
}
