use super::*;
use crate::rlwe::{KeyGenerator, Spec};

/// Returns the kind of each key, as `KeyRequest::moduli` counts them, and the `log2` of its
/// modulus.
fn published(keys: &EvaluationKeys, params: &Params) -> Vec<(usize, f64)> {
    let log2_q = |key: &SwitchingKey| params.basis().log2_product(key.limbs());
    let galois = keys.galois.values().map(|galois| &galois.key);
    let single = keys.relinearize.iter().chain(galois).map(|key| (0, log2_q(key)));
    let level_keys = keys.level_keys.values().flat_map(|keys| {
        keys.relinearize.iter().chain(keys.galois.values().map(|galois| &galois.key))
    });
    let level_keys = level_keys.map(|key| (1, log2_q(key)));
    let raising = keys.raise.iter().flat_map(|raise| {
        let images = raise.images.values().map(|image| (3, log2_q(&image.key)));
        [(2, log2_q(&raise.to_sparse)), (3, log2_q(&raise.to_dense))].into_iter().chain(images)
    });
    single.chain(level_keys).chain(raising).collect()
}

/// Returns `true` if the largest modulus of each kind of key is the one that its security was
/// estimated for.
fn is_priced(request: &KeyRequest, keys: &EvaluationKeys, params: &Params) -> bool {
    let security: Vec<f64> =
        request.moduli(params).into_iter().map(|(.., log2_q)| log2_q).collect();
    let found = published(keys, params);
    let largest =
        |kind| found.iter().filter(|key| key.0 == kind).map(|key| key.1).fold(0.0, f64::max);
    assert_eq!(security.len(), 4);
    (0..4).all(|kind| security[kind] == largest(kind))
}

/// Checks the modulus of every key: a key at a higher level than its estimate broke the security of
/// other libraries.
#[test]
fn keys_have_the_moduli_that_they_are_priced_at() {
    let mut end = 1 << 30;
    let mut prime = || {
        end = sudare_arith::previous_prime(end, 256).unwrap();
        end
    };
    let mut primes = |count: usize| (0..count).map(|_| prime()).collect::<Vec<u64>>();
    let params = Params::new(Spec {
        log_n: 7,
        q: primes(6).into_iter().map(|prime| vec![prime]).collect(),
        p: primes(2),
        upper: None,
        extra_p: primes(2),
        secret: SecretDistribution::UniformTernary,
        security_bits: None,
    })
    .unwrap();
    let level_keys: Vec<Level> =
        (0..6).map(Level).filter(|&level| params.level_key_limbs(level).is_some()).collect();
    assert!(!level_keys.is_empty());
    let mut generator = KeyGenerator::new(&params).unwrap();
    let secret = generator.secret_key().unwrap();
    let raise = Raise::to(Level(4));
    let mut request = KeyRequest::new()
        .relinearize(Level(3))
        .rotations(7, [1, 5], Level(2))
        .raise(raise)
        .raised_automorphisms([GaloisElement::rotation(7, 2)]);
    let keys = LevelKeys { relinearize: true, galois: request.galois.keys().copied().collect() };
    request.level_keys = level_keys.iter().map(|&level| (level, keys.clone())).collect();
    let mut keys = generator.evaluation_keys(&secret, &request).unwrap();
    assert_eq!(published(&keys, &params).len(), 6 + 3 * level_keys.len());
    assert!(is_priced(&request, &keys, &params));

    // Plant a key at too high a level, of each kind that can be swapped.
    let top = KeyRequest::new().relinearize(params.top());
    let mut planted = || generator.evaluation_keys(&secret, &top).unwrap().relinearize.unwrap();
    let mut raise = keys.raise.take().unwrap();
    let sparse = core::mem::replace(&mut raise.to_sparse, planted());
    keys.raise = Some(raise);
    assert!(!is_priced(&request, &keys, &params));
    keys.raise.as_mut().unwrap().to_sparse = sparse;
    assert!(is_priced(&request, &keys, &params));
    keys.relinearize = Some(planted());
    assert!(!is_priced(&request, &keys, &params));
}

#[test]
fn no_keys_belong_to_a_pair_and_do_nothing() {
    let params = Params::new(Spec {
        log_n: 7,
        q: vec![vec![12289], vec![13313]],
        p: vec![15361],
        upper: None,
        extra_p: vec![],
        secret: SecretDistribution::UniformTernary,
        security_bits: None,
    })
    .unwrap();
    let secret = KeyGenerator::new(&params).unwrap().secret_key().unwrap();
    let keys = EvaluationKeys::none(&params, secret.id());
    assert_eq!((keys.id(), keys.params_id()), (secret.id(), params.id()));
    assert_eq!((keys.fulfils(), keys.bytes()), (KeyRequest::new(), 0));
    assert_eq!(keys.sections().count(), 0);
}
