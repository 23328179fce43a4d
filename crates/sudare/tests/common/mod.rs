//! Key pairs and files for tests of serialisation.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod exact;

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use sudare::{
    Result,
    ckks::{
        Ciphertext, Complex, Decryptor, Encoder, Encryptor, Evaluator, Params, Scale, Spec,
        SymmetricEncryptor,
        serial::{self, Label, Reader},
    },
    rlwe::{
        EvaluationKeys, GaloisElement, KeyGenerator, KeyRequest, Level, PublicKey, Raise,
        SecretDistribution, SecretKey,
    },
};
use sudare_arith::prng::Seed;

/// A chain for each width of kernels, one with two primes a level, and a sparse
/// secret.
pub fn specs(log_n: u32) -> Vec<Spec> {
    let insecure = |spec| Spec { insecure: true, ..spec };
    let narrow = insecure(Spec::uniform(log_n, 50.0, 2, 40.0, vec![48.0]));
    let mut narrow = Spec { p_bits: vec![48.0, 48.0], ..narrow };
    narrow.q_bits[2] = vec![48.0];
    let wide = insecure(Spec::uniform(log_n, 61.0, 2, 55.0, vec![61.0, 61.0]));
    let mut pairs = insecure(Spec::uniform(log_n, 50.0, 2, 54.0, vec![49.0, 49.0]));
    pairs.q_bits = vec![vec![35.0, 30.0], vec![29.0, 25.0], vec![29.0, 25.0]];
    let secret = SecretDistribution::FixedWeight { h: 16 };
    let sparse = Spec { secret, ..narrow.clone() };
    vec![narrow, wide, pairs, sparse]
}

/// Everything of one key pair, from fixed seeds.
pub struct Session {
    pub params: Params,
    pub secret: SecretKey,
    pub public: Arc<PublicKey>,
    pub keys: Arc<EvaluationKeys>,
    pub request: KeyRequest,
}

pub fn seed(byte: u8) -> Seed {
    Seed::from_bytes([byte; 32])
}

/// With keys of every kind.
pub fn session(spec: Spec) -> Session {
    session_with(spec, |params| switching_keys(params).raise(Raise::to(Level(1)).with_weight(7)))
}

fn switching_keys(params: &Params) -> KeyRequest {
    let log_n = params.log_n();
    KeyRequest::new()
        .relinearize(params.top())
        .rotations(log_n, [1, -3], Level(1))
        .automorphism(GaloisElement::conjugation(log_n), Level(0))
}

/// With the switching keys of [`session`], and low ones where there are any.
pub fn session_with_level_keys(spec: Spec) -> Session {
    session_with(spec, |params| {
        let mut keys = switching_keys(params);
        for level in [Level(0), Level(1)] {
            keys |= level_keys(params, level);
        }
        keys
    })
}

fn level_keys(params: &Params, level: Level) -> KeyRequest {
    let keys = KeyRequest::new().relinearize(level).rotations(params.log_n(), [1, 2], level);
    keys.into_level_keys(params.rlwe())
}

/// With the switching keys of [`session`] and, for levels above the top, those of each level and
/// for raising.
pub fn session_with_upper_keys(spec: Spec) -> Session {
    session_with(spec, |params| {
        let top = params.top();
        let raised = params.upper_top();
        let mut keys = switching_keys(params)
            .raise(Raise::to(raised).with_weight(7))
            .raised_automorphisms([1, -3].map(|k| GaloisElement::rotation(params.log_n(), k)));
        for level in (top.0 + 1..=raised.0).map(Level) {
            keys |= level_keys(params, level);
        }
        keys
    })
}

pub fn session_with(spec: Spec, request: impl Fn(&Params) -> KeyRequest) -> Session {
    let params = Params::new(spec).unwrap();
    let request = request(&params);
    let mut keygen = KeyGenerator::from_seed(params.rlwe(), &seed(1));
    let secret = keygen.secret_key().unwrap();
    let public = Arc::new(keygen.public_key(&secret).unwrap());
    let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());
    Session { params, secret, public, keys, request }
}

pub fn values(slots: usize) -> Vec<Complex<f64>> {
    (0..slots).map(|i| i as f64 * 0.7).map(|t| Complex { re: t.sin(), im: t.cos() }).collect()
}

impl Session {
    /// [`Session::encrypt`], raised to `level`.
    pub fn raised(&self, slots: usize, level: Level) -> Ciphertext {
        self.evaluator().mod_raise(&self.encrypt(slots, Level(0)), level).unwrap()
    }

    /// Of [`values`], at the default scale.
    pub fn encrypt(&self, slots: usize, level: Level) -> Ciphertext {
        let encoder = Encoder::new(&self.params);
        let scale = self.params.scale_at(level);
        let plain = encoder.encode_at(&values(slots), level, scale).unwrap();
        let encryptor = Encryptor::new(&self.params, Arc::clone(&self.public)).unwrap();
        encryptor.encrypt_with(&plain, &seed(2)).unwrap()
    }

    pub fn secret_file(&self, label: &Label) -> Vec<u8> {
        let mut file = Vec::new();
        let bytes = serial::write_secret_key(&mut file, &self.params, &self.secret, label);
        assert_eq!(bytes, Ok(file.len() as u64));
        file
    }

    pub fn public_file(&self, label: &Label) -> Vec<u8> {
        let mut file = Vec::new();
        let bytes = serial::write_public_key(&mut file, &self.params, &self.public, label);
        assert_eq!(bytes, Ok(file.len() as u64));
        file
    }

    pub fn keys_file(&self, label: &Label) -> Vec<u8> {
        let mut file = Vec::new();
        let bytes = serial::write_evaluation_keys(&mut file, &self.params, &self.keys, label);
        assert_eq!(bytes, Ok(file.len() as u64));
        file
    }

    pub fn ciphertexts_file(&self, items: &[Ciphertext], label: &Label) -> Vec<u8> {
        let mut file = Vec::new();
        let bytes = serial::write_ciphertexts(&mut file, &self.params, items, label);
        assert_eq!(bytes, Ok(file.len() as u64));
        file
    }

    pub fn evaluator(&self) -> Evaluator {
        Evaluator::new(&self.params, Arc::clone(&self.keys)).unwrap()
    }

    /// Everything read from the files of `self`.
    pub fn reloaded(&self) -> Session {
        let none = Label::default();
        let files = [self.secret_file(&none), self.public_file(&none), self.keys_file(&none)];
        let [secret, public, keys] = files.each_ref().map(|file| open(file).unwrap());
        let params = secret.params().unwrap();
        Session {
            secret: secret.secret_key(&params).unwrap(),
            public: Arc::new(public.public_key(&params).unwrap()),
            keys: Arc::new(keys.evaluation_keys(&params).unwrap()),
            request: self.request.clone(),
            params,
        }
    }

    /// `-log2` of the largest slot error. Ends the session, as a secret key has one
    /// owner.
    pub fn precision(self, found: &Ciphertext, expected: &[Complex<f64>]) -> f64 {
        let encoder = Encoder::new(&self.params);
        let decryptor = Decryptor::new(&self.params, self.secret).unwrap();
        let found = encoder.decode(&decryptor.decrypt(found).unwrap()).unwrap();
        assert_eq!(found.len(), expected.len());
        let errors = found.iter().zip(expected).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
        -errors.fold(0.0, f64::max).log2()
    }
}

pub fn open(file: &[u8]) -> Result<Reader<&[u8]>> {
    Reader::new(file, file.len() as u64)
}

/// Files of keys, ciphertexts and results of operations from fixed seeds, on a chain
/// with primes for every width of kernels and a level of two primes.
pub fn artefacts() -> Vec<(&'static str, Vec<u8>)> {
    let spec = Spec {
        log_n: 12,
        q_bits: vec![vec![60.0], vec![49.0], vec![48.0], vec![55.0], vec![29.0, 26.0]],
        upper: None,
        p_bits: vec![61.0, 61.0],
        extra_p_bits: vec![],
        log2_scale: 48.0,
        secret: SecretDistribution::UniformTernary,
        insecure: true,
    };
    let s = session_with(spec.clone(), switching_keys);
    let with_low = session_with_level_keys(spec.clone());
    let raise = |params: &Params| Raise::to(params.top());
    let raising = session_with(spec.clone(), |params| KeyRequest::new().raise(raise(params)));
    let heavier =
        session_with(spec, |params| KeyRequest::new().raise(raise(params).with_weight(48)));
    let none = Label::default();
    let mut files = vec![
        ("secret key", s.secret_file(&none)),
        ("public key", s.public_file(&none)),
        ("evaluation keys", s.keys_file(&none)),
    ];
    let encoder = Encoder::new(&s.params);
    let encryptor = Encryptor::new(&s.params, Arc::clone(&s.public)).unwrap();
    let encode = |slots: u32, log2_scale: f64| {
        let real = |i: u32| f64::from(i * 37 % 101) / 64.0 - 0.75;
        let values: Vec<_> =
            (0..slots).map(|i| Complex { re: real(i), im: real(i + 50) }).collect();
        encoder.encode_at(&values, s.params.top(), Scale::from_log2(log2_scale)).unwrap()
    };
    let encrypt = |slots: u32, log2_scale: f64, number: u8| {
        encryptor.encrypt_with(&encode(slots, log2_scale), &seed(number)).unwrap()
    };
    // Encoded in doubles and in double-double numbers.
    let a = encrypt(2048, 40.0, 3);
    let b = encrypt(2048, 48.0, 4);
    let sparse = encrypt(16, 48.0, 5);
    let ev = s.evaluator();
    let product = ev.mul(&a, &b).unwrap();
    let rescaled = ev.rescale(&product).unwrap();
    let low = ev.drop_to(&rescaled, Level(1)).unwrap();
    let hoisted = ev.hoist(&low).unwrap();
    let results = [
        ("ciphertext", a.clone()),
        ("sparse ciphertext", sparse),
        ("rotation", ev.rotate(&low, 1).unwrap()),
        ("hoisted rotation", ev.rotate_hoisted(&hoisted, -3).unwrap()),
        ("conjugation", ev.conjugate(&ev.drop_to(&low, Level(0)).unwrap()).unwrap()),
        ("rescaled product", rescaled),
        ("fused product", ev.mul_rescale(&a, &b).unwrap()),
        ("product", product),
        ("lifted ciphertext", ev.mod_raise(&a, s.params.top()).unwrap()),
        ("raised ciphertext", raising.evaluator().mod_raise(&a, s.params.top()).unwrap()),
    ];
    files.extend(results.map(|(name, a)| (name, s.ciphertexts_file(&[a], &none))));
    let owner = SymmetricEncryptor::new(&s.params, Arc::new(s.reloaded().secret)).unwrap();
    let item = owner.encrypt_seeded_with(&encode(2048, 40.0), &seed(6)).unwrap();
    let mut seeded = Vec::new();
    serial::write_seeded_ciphertexts(&mut seeded, &s.params, &[item], &none).unwrap();
    files.push(("seeded ciphertext", seeded));
    files.push(("raising keys", raising.keys_file(&none)));
    files.push(("raising keys of weight 48", heavier.keys_file(&none)));
    files.push(("level keys", with_low.keys_file(&none)));
    files
}

/// BLAKE3 of each file, in hexadecimal.
pub fn digests(files: &[(&'static str, Vec<u8>)]) -> Vec<(&'static str, String)> {
    let digest = |file: &[u8]| blake3::hash(file).to_hex().to_string();
    files.iter().map(|(name, file)| (*name, digest(file))).collect()
}

/// Reads a file with the parameters in it, whatever it holds.
pub fn load(file: &[u8]) -> Result<()> {
    let reader = open(file)?;
    let params = reader.params()?;
    load_with(reader, &params)
}

pub fn load_with(reader: Reader<&[u8]>, params: &Params) -> Result<()> {
    match reader.info().kind {
        serial::Kind::SecretKey => reader.secret_key(params).map(drop),
        serial::Kind::PublicKey => reader.public_key(params).map(drop),
        serial::Kind::EvaluationKeys => reader.evaluation_keys(params).map(drop),
        serial::Kind::Ciphertexts => reader.ciphertexts(params).map(drop),
    }
}

/// A file in parts, after docs/file-format.md and independent of the library:
/// for making files that are well formed but wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    pub version: u32,
    pub scheme: u16,
    pub kind: u16,
    pub params_id: u64,
    pub key_id: u64,
    pub zero: u64,
    pub spec: Spec,
    pub label: (String, String, Vec<u8>),
    pub table: Vec<Entry>,
    pub sections: Vec<Vec<u8>>,
    /// Claims instead of the truth.
    pub count: Option<u64>,
    pub file_bytes: Option<u64>,
    pub header_bytes: Option<u64>,
    /// After the table, within the header.
    pub header_tail: Vec<u8>,
}

pub type Entry = (Content, u64);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Content {
    SecretKey,
    PublicKey,
    Relinearization(u32),
    Galois(u32, u32),
    Ciphertext { level: u32, scale: (f64, f64), log_slots: u32 },
    Raising { level: u32, weight: u32 },
    Raised(u32, u32),
    LevelRelinearization(u32),
    LevelGalois(u32, u32),
    DividedRaising { level: u32, weight: u32, divisor: u128 },
    SeededCiphertext { level: u32, scale: (f64, f64), log_slots: u32 },
}

impl Parts {
    pub fn of(file: &[u8]) -> Self {
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        assert_eq!(&file[..8], b"\x89sudare\n");
        assert_eq!(word(40), file.len() as u64);
        let header = &file[64..64 + word(48) as usize];
        let (spec, label, table) = postcard::from_bytes(header).unwrap();
        let mut at = sealed_bytes(64 + header.len());
        let table: Vec<Entry> = table;
        let mut sections = Vec::new();
        for (_, bytes) in &table {
            sections.push(file[at..at + *bytes as usize].to_vec());
            at += sealed_bytes(*bytes as usize);
        }
        assert_eq!(at, file.len());
        Self {
            version: word(8) as u32,
            scheme: (word(8) >> 32) as u16,
            kind: (word(8) >> 48) as u16,
            params_id: word(16),
            key_id: word(24),
            zero: word(56),
            spec,
            label,
            table,
            sections,
            count: None,
            file_bytes: None,
            header_bytes: None,
            header_tail: Vec::new(),
        }
    }

    /// The file, with valid checksums.
    pub fn seal(&self) -> Vec<u8> {
        let mut header = postcard::to_allocvec(&(&self.spec, &self.label, &self.table)).unwrap();
        header.extend(&self.header_tail);
        let lengths = self.sections.iter().map(Vec::len);
        let total = lengths.map(sealed_bytes).sum::<usize>() + sealed_bytes(64 + header.len());
        let mut file = b"\x89sudare\n".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(self.scheme.to_le_bytes());
        file.extend(self.kind.to_le_bytes());
        for word in [
            self.params_id,
            self.key_id,
            self.count.unwrap_or(self.table.len() as u64),
            self.file_bytes.unwrap_or(total as u64),
            self.header_bytes.unwrap_or(header.len() as u64),
            self.zero,
        ] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&header);
        let first = seal(&mut file, 0, &[]);
        for (i, section) in self.sections.iter().enumerate() {
            let start = file.len();
            file.extend(section);
            let prefix = [&first[..], &(i as u64 + 1).to_le_bytes()].concat();
            seal(&mut file, start, &prefix);
        }
        file
    }
}

/// Pads the section from `start` and appends its checksum.
pub fn seal(file: &mut Vec<u8>, start: usize, prefix: &[u8]) -> [u8; 32] {
    while file.len() % 64 != 32 {
        file.push(0);
    }
    let hash = blake3::hash(&[prefix, &file[start..]].concat());
    file.extend(hash.as_bytes());
    *hash.as_bytes()
}

fn sealed_bytes(content: usize) -> usize {
    (content + 32).div_ceil(64) * 64
}
