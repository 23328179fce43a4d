//! Targets for ciphertexts over the integers.

use super::{Harness, Reached, Target};
use crate::mutate::{self, Rng};
use std::sync::{Arc, LazyLock};
use sudare_arith::prng::Seed;
use sudare_research_clt::{
    Ciphertext, EvaluationKey, Evaluator, KeyGenerator, Params, SecretKey, Spec, insecure_research,
};

const DIGEST_BYTES: usize = 32;

pub const CIPHERTEXT: Target =
    Target { name: "integers", harness: Harness::Parse, prepare: digested, run, mutate, seeds };
pub const USED: Target =
    Target { name: "integers_used", harness: Harness::Evaluate, run: used, ..CIPHERTEXT };

/// Keys of two slots, and their ciphertexts of each message space.
struct World {
    secret: SecretKey,
    key: Arc<EvaluationKey>,
    items: Vec<Ciphertext>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let params = Params::new(Spec::small(2, 2), insecure_research()).unwrap();
    let generator = KeyGenerator::from_seed(&params, Seed::from_bytes([7; 32]));
    let (secret, key) = generator.generate().unwrap();
    let exponents = 1..=params.max_exponent();
    let items = exponents.map(|exponent| secret.encrypt(&[1, 0], exponent).unwrap()).collect();
    World { secret, key: Arc::new(key), items }
});

/// Updates the digest at the end. Leaves one in sixteen files unchanged.
fn digested(bytes: &[u8]) -> Vec<u8> {
    let digest = blake3::hash(bytes);
    let content = bytes.len().saturating_sub(DIGEST_BYTES);
    if digest.as_bytes()[0] < 16 {
        return bytes.to_vec();
    }
    let content = &bytes[..content];
    [content, blake3::hash(content).as_bytes()].concat()
}

fn read(bytes: &[u8]) -> (Reached, Option<Ciphertext>) {
    use sudare_research_clt::Error::Damaged;
    match Ciphertext::from_bytes(bytes, &WORLD.key) {
        Ok(read) => (Reached::Accepted, Some(read)),
        // Problems with size, magic bytes and digest.
        Err(Damaged { problem }) if is_of_frame(problem) => (Reached::Frame, None),
        Err(_) => (Reached::Content, None),
    }
}

fn is_of_frame(problem: &str) -> bool {
    ["they ", "their number"].iter().any(|begin| problem.starts_with(begin))
}

fn run(bytes: &[u8]) -> Reached {
    read(bytes).0
}

/// Uses an untrusted ciphertext with trusted ciphertexts and keys.
fn used(bytes: &[u8]) -> Reached {
    let (reached, read) = read(bytes);
    let Some(a) = read else { return reached };
    let evaluator = Evaluator::new(Arc::clone(&WORLD.key));
    for b in &WORLD.items {
        let _ = (evaluator.add(&a, b), evaluator.sub(b, &a), evaluator.mul(&a, b));
        let _ = evaluator.xor(&a, b, true);
    }
    for steps in [0, 1, u32::MAX] {
        let _ = (evaluator.contract(&a, steps), evaluator.dilate(&a, steps));
    }
    let _ = (evaluator.bootstrap(&a), a.to_bytes(WORLD.secret.params()));
    let _ = (WORLD.secret.decrypt(&a), WORLD.secret.measure_noise(&a));
    reached
}

/// Alters an input, mostly without a change of its size.
fn mutate(input: &mut Vec<u8>, rng: &mut Rng) {
    if rng.below(4) == 0 || input.is_empty() {
        return mutate::bytes(input, &[], rng);
    }
    for _ in 0..1 + rng.below(3) {
        // Magic bytes, key, exponent and noise, or any byte.
        let most = if rng.below(2) == 0 { 44 } else { usize::MAX };
        let at = rng.below(input.len().min(most));
        let number = rng.number().to_bits();
        let word = if rng.below(2) == 0 { rng.edge() } else { number };
        for (byte, new) in input[at..].iter_mut().zip(word.to_le_bytes()).take(1 + rng.below(8)) {
            *byte = new;
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    WORLD.items.iter().map(|item| item.to_bytes(WORLD.secret.params())).collect()
}
