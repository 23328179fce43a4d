use super::{
    EvaluationKeys, GaloisElement, KeyId, KeyRequest, Level, Params, PublicKey, Raise,
    SecretDistribution, SecretKey, SwitchingKey,
    gadget::Gadget,
    keys::KeySection,
    secret::{canonical_limit, canonical_norm, small_secret},
};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, Packer, RnsPoly},
};
use core::ops::Range;
use std::collections::BTreeSet;
use sudare_arith::{
    Modulus, Permutation,
    mem::Secrecy,
    par,
    prng::{KeptSeed, Seed, Stream},
    sample,
};

/// Makes keys, each from fresh randomness of the operating system.
///
/// Every uniform half has its own public seed, and every secret and every error its own secret
/// seed; see `docs/notes/randomness.md`. After a `fork`, only the process that made the generator
/// can use it. In the other process, every call returns [`Error::Forked`].
#[derive(Debug)]
pub struct KeyGenerator {
    params: Params,
    /// Root of all secret seeds of this generator.
    secret: KeptSeed,
    /// Root of all public seeds. No secret is derived from it.
    public: Seed,
    made: u64,
    small_keys: bool,
}

impl KeyGenerator {
    /// Makes a generator with fresh randomness.
    ///
    /// # Errors
    /// [`crate::Error::Arith`] if the operating system returns none.
    pub fn new(params: &Params) -> Result<Self> {
        Ok(Self::from_seed(params, &Seed::random()?))
    }

    /// Makes a generator whose keys follow from `seed`: anyone who knows the seed knows the keys.
    /// For known-answer tests.
    #[must_use]
    pub fn from_seed(params: &Params, seed: &Seed) -> Self {
        Self {
            params: params.clone(),
            secret: KeptSeed::new(params.basis().pool(), &seed.derive("key generator, secret", 0)),
            public: seed.derive("key generator, public", 0),
            made: 0,
            small_keys: false,
        }
    }

    /// Selects whole or small evaluation keys; see [`EvaluationKeys`]. Small keys suffice if they
    /// are only written to a file.
    #[must_use]
    pub fn small_keys(self, small: bool) -> Self {
        Self { small_keys: small, ..self }
    }

    /// Returns the secret and the public seed of the next object.
    fn next_seeds(&mut self) -> Result<(Seed, Seed)> {
        let secret = self.secret.get().ok_or(Error::Forked { what: "key generator" })?;
        // Counted before use, from 1 on: docs/notes/randomness.md numbers objects in this way.
        self.made += 1;
        Ok((secret.derive("object", self.made), self.public.derive("object", self.made)))
    }

    /// Makes a fresh secret key. A secret whose value at a root of `X^N + 1` exceeds the limit of
    /// the error bounds is drawn again. Fewer than one in a thousand do.
    ///
    /// # Errors
    /// [`Error::Arith`] if the weight of a sparse secret does not fit the ring;
    /// [`Error::InvalidSpec`] for parameters of a shared secret; [`Error::Forked`].
    pub fn secret_key(&mut self) -> Result<SecretKey> {
        if let SecretDistribution::SharedTernary { parties, .. } = self.params.spec().secret {
            let problem = format!(
                "{parties} key holders share the secret, so that no party makes it alone: make keys \
                 in a ceremony, or use parameters of one holder"
            );
            return Err(Error::InvalidSpec { field: "secret", problem });
        }
        let (secret, public) = self.next_seeds()?;
        let mut coeffs = small_secret(self.params.basis());
        let mut stream = Stream::new(&secret, "secret key", 0);
        let distribution = self.params.spec().secret;
        let limit = canonical_limit(distribution, self.params.log_n());
        loop {
            match distribution {
                SecretDistribution::UniformTernary | SecretDistribution::SharedTernary { .. } => {
                    sample::ternary(&mut stream, coeffs.as_signed_mut());
                }
                SecretDistribution::FixedWeight { h } => {
                    sample::fixed_weight(&mut stream, h as usize, coeffs.as_signed_mut())?;
                }
            }
            if canonical_norm(coeffs.as_signed()) <= limit {
                break;
            }
        }
        // From the public seed, because every object of the key publishes the id.
        let id = KeyId(Stream::new(&public, "key id", 0).next_u64());
        Ok(SecretKey::new(&self.params, id, coeffs.as_signed()))
    }

    /// Makes a public key for `sk`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::Forked`].
    pub fn public_key(&mut self, sk: &SecretKey) -> Result<PublicKey> {
        sk.check(&self.params)?;
        // At the top, because encryptions at every level of the chain use its primes.
        let limbs = self.params.limbs(self.params.top());
        let (secret, seed) = self.next_seeds()?;
        let zero = encrypt_zero(&self.params, &sk.s, limbs, &secret, &seed, 0);
        Ok(PublicKey { params: self.params.id(), id: sk.id, seed, zero })
    }

    /// Makes exactly the keys of `request`.
    ///
    /// # Errors
    /// [`crate::Error::ParamsMismatch`]; [`crate::Error::LevelOutOfRange`];
    /// [`crate::Error::InvalidSpec`] for a Galois element that is even or too large, the weight of
    /// an ephemeral secret, or special primes below the modulus of level 0 where there is one;
    /// [`crate::Error::Insecure`] if a key's modulus is too large for its secret;
    /// [`Error::Forked`].
    pub fn evaluation_keys(
        &mut self,
        sk: &SecretKey,
        request: &KeyRequest,
    ) -> Result<EvaluationKeys> {
        self.evaluation_keys_with(sk, request, |_| {})
    }

    /// Runs [`KeyGenerator::evaluation_keys`], calling `progress` with the number of keys made
    /// after each.
    ///
    /// # Errors
    /// See [`KeyGenerator::evaluation_keys`].
    pub fn evaluation_keys_with(
        &mut self,
        sk: &SecretKey,
        request: &KeyRequest,
        progress: impl FnMut(usize),
    ) -> Result<EvaluationKeys> {
        let mut keys = EvaluationKeys::none(&self.params, sk.id);
        let params = self.params.clone();
        let take = |section| {
            keys.put(&params, section);
            Ok(())
        };
        self.each_section(sk, request, take, progress)?;
        Ok(keys)
    }

    /// Makes the keys of `request` in the order of a file's sections and passes each to `take`,
    /// which need not keep it. Then `progress` receives the number of keys made.
    ///
    /// # Errors
    /// Errors of [`KeyGenerator::evaluation_keys`]; errors of `take`, which stop the work.
    pub(super) fn each_section(
        &mut self,
        sk: &SecretKey,
        request: &KeyRequest,
        mut take: impl FnMut(KeySection) -> Result<()>,
        mut progress: impl FnMut(usize),
    ) -> Result<()> {
        // Checks come first: no randomness is drawn for a request that fails.
        sk.check(&self.params)?;
        request.check(&self.params)?;
        let mut made = 0;
        let mut take = |section: KeySection| -> Result<()> {
            take(section)?;
            made += 1;
            progress(made);
            Ok(())
        };
        // The order fixes both the seed of each key and the section of a file that holds it.
        if let Some(level) = request.relinearize {
            let limbs = self.params.key_limbs(level);
            let key = self.relinearization_key(sk, level, limbs)?;
            take(KeySection::Relinearization(key))?;
        }
        for (&g, &level) in &request.galois {
            let key = self.galois_key(sk, g, level, self.params.key_limbs(level))?;
            take(KeySection::Galois(g, key))?;
        }
        if let Some(raise) = request.raise {
            self.raising_keys(sk, raise, &request.raised, &mut take)?;
        }
        for (&level, keys) in &request.level_keys {
            let limbs = self.params.limbs_of_keys(Some(level), level);
            if keys.relinearize {
                let key = self.relinearization_key(sk, level, limbs)?;
                take(KeySection::LevelRelinearization(level, key))?;
            }
            for &g in &keys.galois {
                let key = self.galois_key(sk, g, level, limbs)?;
                take(KeySection::LevelGalois(level, g, key))?;
            }
        }
        Ok(())
    }

    /// Makes a key from the square of the secret to the secret.
    fn relinearization_key(
        &mut self,
        sk: &SecretKey,
        level: Level,
        limbs: LimbSet,
    ) -> Result<SwitchingKey> {
        let basis = self.params.basis();
        let mut square = basis.restricted(&sk.s, self.params.limbs(level));
        basis.mul_assign(&mut square, &sk.s);
        self.switching_key(&sk.s, &square, level, limbs, false)
    }

    /// Makes a key from `s` to `s(X^(1/g))`. The permutation of `g` afterwards then ends under `s`,
    /// and the digits of a hoisted automorphism need no permutation.
    fn galois_key(
        &mut self,
        sk: &SecretKey,
        g: GaloisElement,
        level: Level,
        limbs: LimbSet,
    ) -> Result<SwitchingKey> {
        let log_n = self.params.log_n();
        let inverse = Permutation::galois(log_n, g.inverse(log_n).0 as usize);
        let image = self.params.basis().automorphism(&sk.s, &inverse);
        self.switching_key(&image, &sk.s, level, limbs, self.small_keys)
    }

    /// Makes keys through an ephemeral secret, which is not stored.
    fn raising_keys(
        &mut self,
        sk: &SecretKey,
        raise: Raise,
        raised: &BTreeSet<GaloisElement>,
        mut take: impl FnMut(KeySection) -> Result<()>,
    ) -> Result<()> {
        let (secret, _) = self.next_seeds()?;
        let params = self.params.clone();
        let mut coeffs = small_secret(params.basis());
        // Drawn once, whatever its values at the roots: its error bounds follow from its weight
        // alone.
        let mut stream = Stream::new(&secret, "ephemeral secret", 0);
        sample::fixed_weight(&mut stream, raise.weight as usize, coeffs.as_signed_mut())?;
        let all = params.basis().all();
        let sparse = params.basis().from_small(coeffs.as_signed(), all, Secrecy::Key);
        let divided = params.basis().scale(&sparse, |i| {
            let m = params.basis().modulus(all, i);
            m.inv(m.reduce_u128(raise.divisor))
        });
        // A lifted polynomial is the same modulo every prime: one digit owns all primes.
        let mut key = |to: &RnsPoly<Eval>, from: &RnsPoly<Eval>, level: Level| {
            let digits = core::iter::once(0..params.limbs(level).q());
            let gadget = params.gadget(params.raising_limbs(level));
            self.switching_key_by(gadget, to, from, level, digits, self.small_keys)
        };
        let both = [key(&sparse, &sk.s, Level(0))?, key(&sk.s, &divided, raise.level)?];
        take(KeySection::Raising(raise, Box::new(both)))?;
        let log_n = params.log_n();
        for &g in raised {
            // As in `galois_key`.
            let inverse = Permutation::galois(log_n, g.inverse(log_n).0 as usize);
            let image = params.basis().automorphism(&sk.s, &inverse);
            take(KeySection::Raised(g, key(&image, &divided, raise.level)?))?;
        }
        Ok(())
    }

    /// Makes a key modulo the primes of `limbs`, for any polynomial of `level`.
    fn switching_key(
        &mut self,
        to: &RnsPoly<Eval>,
        from: &RnsPoly<Eval>,
        level: Level,
        limbs: LimbSet,
        small: bool,
    ) -> Result<SwitchingKey> {
        let params = self.params.clone();
        let gadget = params.gadget(limbs);
        let digits = gadget.digits(limbs.q());
        self.switching_key_by(gadget, to, from, level, digits, small)
    }

    /// Encrypts under `to`, once for each digit: `P from`, which is secret, modulo the primes of
    /// the digit, and 0 modulo the others.
    fn switching_key_by(
        &mut self,
        gadget: &Gadget,
        to: &RnsPoly<Eval>,
        from: &RnsPoly<Eval>,
        level: Level,
        digits: impl ExactSizeIterator<Item = Range<usize>>,
        small: bool,
    ) -> Result<SwitchingKey> {
        debug_assert!(to.secrecy() == Secrecy::Key && from.secrecy() == Secrecy::Key);
        let (secret, seed) = self.next_seeds()?;
        let params = &self.params;
        let basis = params.basis();
        let limbs = gadget.limbs(params.limbs(level).q());
        let mut first = basis.packer(limbs, digits.len());
        let mut second = (!small).then(|| basis.packer(limbs, digits.len()));
        for (digit, owned) in digits.enumerate() {
            let [mut b, a] = encrypt_zero(params, to, limbs, &secret, &seed, digit as u64);
            for i in owned {
                let m = basis.modulus(limbs, i);
                let row = from.row(limbs.place(i, from.limbs()));
                m.scale_add(b.row_mut(i), row, gadget.special(i));
            }
            first.push(&b);
            if let Some(second) = &mut second {
                second.push(&a);
            }
        }
        let first = first.finish();
        let second = second.map(Packer::finish);
        Ok(SwitchingKey { level, seed: Some(seed), first, second })
    }
}

/// `(-a s + e, a)` modulo the primes of `limbs`, with `a` from the public seed.
pub(super) fn encrypt_zero(
    params: &Params,
    s: &RnsPoly<Eval>,
    limbs: LimbSet,
    secret: &Seed,
    public: &Seed,
    index: u64,
) -> [RnsPoly<Eval>; 2] {
    let basis = params.basis();
    let a = expand(params, limbs, public, index);
    let mut error = small_secret(basis);
    sample::cbd21(&mut Stream::new(secret, "error", index), error.as_signed_mut());
    let mut b = basis.from_small(error.as_signed(), limbs, Secrecy::Key);
    par::for_each(b.rows_mut().zip(a.rows()).enumerate(), |(i, (b, a))| {
        let m = basis.modulus(limbs, i);
        let mut product = basis.pool().take_as(Secrecy::Key, a.len());
        m.mul_rows(&mut product, a, s.row(limbs.place(i, s.limbs())));
        m.sub_assign(b, &product);
    });
    // The result is public. The buffer of `b`, which held the error alone, is secret and is wiped.
    let mut published = basis.take(limbs);
    for (out, row) in published.rows_mut().zip(b.rows()) {
        out.copy_from_slice(row);
    }
    [published, a]
}

/// Returns the uniform half number `index` of a public seed.
pub(crate) fn expand(params: &Params, limbs: LimbSet, seed: &Seed, index: u64) -> RnsPoly<Eval> {
    let basis = params.basis();
    let mut a = basis.take(limbs);
    par::for_each(a.rows_mut().enumerate(), |(i, row)| {
        expand_row(basis.modulus(limbs, i), seed, index, row);
    });
    a
}

/// Returns the row of a uniform half modulo one prime.
pub(super) fn expand_row(m: &Modulus, seed: &Seed, index: u64, row: &mut [u64]) {
    // The stream of a prime is independent of the level of the key.
    let mut stream = Stream::new(&seed.derive("uniform", index), "prime", m.value());
    sample::uniform(m.value(), &mut stream, row);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Params {
        Params::new(super::super::Spec {
            log_n: 7,
            q: vec![vec![12289], vec![13313]],
            p: vec![15361, 18433],
            upper: None,
            extra_p: vec![],
            secret: SecretDistribution::UniformTernary,
            security_bits: None,
        })
        .unwrap()
    }

    /// Returns `true` if a free buffer of the pool contains the row.
    fn is_left(params: &Params, row: &[u64]) -> bool {
        let pool = params.basis().pool();
        let basis = params.basis();
        let mut taken = Vec::new();
        for secrecy in [Secrecy::Public, Secrecy::Value, Secrecy::Key] {
            for rows in 1..=basis.all().count() {
                let before = pool.allocations();
                while pool.allocations() == before {
                    taken.push(pool.take_as(secrecy, rows * basis.n()));
                }
            }
        }
        taken.iter().any(|buf| buf.windows(row.len()).any(|words| words == row))
    }

    #[test]
    fn the_ephemeral_secret_is_what_the_notes_say_and_is_wiped() {
        let params = params();
        let root = Seed::from_bytes([4; 32]);
        let raise = Raise::to(Level(1)).with_weight(40);
        let mut keygen = KeyGenerator::from_seed(&params, &root);
        let secret = keygen.secret_key().unwrap();
        let request = KeyRequest::new().raise(raise);
        let keys = keygen.evaluation_keys(&secret, &request).unwrap();

        // The generator's second object.
        let seed = root.derive("key generator, secret", 0).derive("object", 2);
        let mut coeffs = vec![0; 128];
        let mut stream = Stream::new(&seed, "ephemeral secret", 0);
        sample::fixed_weight(&mut stream, 40, &mut coeffs).unwrap();
        let elsewhere = self::params();
        let basis = elsewhere.basis();
        let sparse = basis.from_small(&coeffs, basis.all(), Secrecy::Public);

        // b + a s - P s' is a small error, under the secret of each key.
        let raising = keys.raise.as_ref().unwrap();
        for (key, s, from) in
            [(&raising.to_sparse, &sparse, &secret.s), (&raising.to_dense, &secret.s, &sparse)]
        {
            let limbs = key.limbs();
            let halves = [&key.first, key.second.as_ref().unwrap()];
            assert!(limbs.p() == 1 && halves.iter().all(|half| half.count() == 1));
            for i in 0..limbs.count() {
                let table = basis.table(limbs, i);
                let k = limbs.place(i, basis.all());
                let m = table.modulus();
                let special = if i < limbs.q() { m.reduce(15361) } else { 0 };
                let [b, a] = halves.map(|half| {
                    let mut row = [0; 128];
                    assert!(m.unpack(&mut row, half.row(0, i)));
                    row
                });
                let mut error: Vec<u64> = (0..128)
                    .map(|j| {
                        let sum = m.add(b[j], m.mul(a[j], s.row(k)[j]));
                        m.sub(sum, m.mul(special, from.row(k)[j]))
                    })
                    .collect();
                table.inverse(&mut error);
                assert!(error.iter().all(|&e| m.centered(e).abs() <= 21));
            }
        }

        let rows: Vec<&[u64]> = sparse.rows().collect();
        assert!(rows.iter().all(|row| !is_left(&params, row)));
        // The test would detect it.
        drop(params.basis().from_small(&coeffs, params.basis().all(), Secrecy::Public));
        assert!(is_left(&params, rows[0]));
    }
}
