//! Reading and writing of keys and ciphertexts in sections.

use super::{
    super::{
        Ciphertext, EvaluationKeys, GaloisElement, KeyId, KeyRequest, Level, Params, PublicKey,
        Raise, SecretKey, Seeded, SwitchingKey,
        keygen::expand,
        keys::{GaloisKey, LevelSwitchingKeys, RaisingKeys},
        secret::small_secret,
    },
    FileReader, FileWriter, malformed,
};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, PackedPolys, RnsBasis, RnsPoly},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
};
use sudare_arith::{
    Permutation,
    mem::{Buf, Secrecy},
    prng::Seed,
};

/// Allocates room for the coefficients of a secret key, four per byte.
fn packed_secret(basis: &RnsBasis) -> Buf {
    // Two bits each: 32 coefficients in a word.
    basis.pool().take_as(Secrecy::Key, basis.n().div_ceil(32))
}

impl<W: Write + ?Sized> FileWriter<'_, W> {
    fn put_poly(&mut self, params: &Params, limbs: LimbSet, a: &RnsPoly<Eval>) -> Result<()> {
        let mut row = core::mem::take(&mut self.row);
        let basis = params.basis();
        for (table, words) in basis.tables(limbs).zip(a.rows()) {
            row.resize(basis.packed_row_bytes(table), 0);
            table.modulus().pack(&mut row, words);
            self.put(&row)?;
        }
        self.row = row;
        Ok(())
    }

    pub(super) fn secret_key(&mut self, key: &SecretKey) -> Result<()> {
        let coeffs = key.coeffs();
        let code = |&c: &i8| c as u8 & 3;
        let pack = |four: &[i8]| four.iter().rev().fold(0, |byte, c| byte << 2 | code(c));
        let mut packed = packed_secret(key.params().basis());
        let bytes = packed.as_bytes_mut().get_mut(..coeffs.as_signed().len() / 4);
        let bytes = bytes.unwrap_or_default();
        for (byte, four) in bytes.iter_mut().zip(coeffs.as_signed().chunks_exact(4)) {
            *byte = pack(four);
        }
        self.put(bytes)?;
        self.end_section()
    }

    pub(super) fn public_key(&mut self, params: &Params, key: &PublicKey) -> Result<()> {
        let [first, _] = &key.zero;
        self.put(key.seed.as_bytes())?;
        self.put_poly(params, params.limbs(params.top()), first)?;
        self.end_section()
    }

    pub(super) fn evaluation_keys(&mut self, keys: &EvaluationKeys) -> Result<()> {
        keys.sections().try_for_each(|section| self.switching_keys(section))
    }

    /// Returns the keys of one section.
    pub(super) fn switching_keys<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k SwitchingKey>,
    ) -> Result<()> {
        for key in keys {
            if let Some(seed) = &key.seed {
                self.put(seed.as_bytes())?;
            }
            self.put(key.first.bytes())?;
            // Without a seed the second half is no less than the first.
            if let (None, Some(second)) = (&key.seed, &key.second) {
                self.put(second.bytes())?;
            }
        }
        self.end_section()
    }

    pub(super) fn ciphertext(&mut self, params: &Params, a: &Ciphertext) -> Result<()> {
        for poly in &a.polys {
            self.put_poly(params, params.limbs(a.level), poly)?;
        }
        self.end_section()
    }

    pub(super) fn seeded_ciphertext<C: AsRef<Ciphertext>>(
        &mut self,
        params: &Params,
        a: &Seeded<C>,
    ) -> Result<()> {
        let Ciphertext { polys: [c0, _], level, .. } = a.ciphertext().as_ref();
        self.put(a.seed().as_bytes())?;
        self.put_poly(params, params.limbs(*level), c0)?;
        self.end_section()
    }
}

/// A switching key whose section is not yet verified.
struct UncheckedKey {
    level: Level,
    seed: Seed,
    first: PackedPolys,
    /// `true` if residues are below their primes.
    valid: bool,
}

impl UncheckedKey {
    /// Returns the key with its second halves, unless it is to be small.
    fn finish(self, params: &Params, small: bool) -> SwitchingKey {
        let Self { level, seed, first, .. } = self;
        let second = (!small).then(|| {
            let mut packer = params.basis().packer(first.limbs(), first.count());
            for digit in 0..first.count() {
                packer.push(&expand(params, first.limbs(), &seed, digit as u64));
            }
            packer.finish()
        });
        SwitchingKey { level, seed: Some(seed), first, second }
    }
}

impl<R: Read> FileReader<R> {
    fn seed(&mut self) -> Result<Seed> {
        Ok(Seed::from_bytes(self.array()?))
    }

    /// Reads a polynomial. The flag tells whether its residues are below their primes.
    fn poly(&mut self, params: &Params, limbs: LimbSet) -> Result<(RnsPoly<Eval>, bool)> {
        let basis = params.basis();
        let mut a = basis.take(limbs);
        let mut valid = true;
        let mut row = core::mem::take(&mut self.row);
        for (table, words) in basis.tables(limbs).zip(a.rows_mut()) {
            row.resize(basis.packed_row_bytes(table), 0);
            self.take(&mut row)?;
            // Only remembered: the checksum at the end of the section tells damage from a wrong
            // residue.
            valid &= table.modulus().unpack(words, &row);
        }
        self.row = row;
        Ok((a, valid))
    }

    /// Ends the section. `valid` tells whether all residues were in range. Damage is reported by
    /// the checksum first.
    fn end_polys(&mut self, valid: bool) -> Result<()> {
        let section = self.section();
        self.end_section()?;
        if valid {
            return Ok(());
        }
        Err(malformed(format!("a residue of section {section} is not below its prime")))
    }

    pub(super) fn secret_key(&mut self, params: &Params, id: KeyId) -> Result<SecretKey> {
        let basis = params.basis();
        let mut packed = packed_secret(basis);
        let bytes = packed.as_bytes_mut().get_mut(..basis.n() / 4).unwrap_or_default();
        self.take(bytes)?;
        self.end_section()?;
        let mut coeffs = small_secret(basis);
        for (four, &byte) in coeffs.as_signed_mut().chunks_exact_mut(4).zip(bytes.iter()) {
            let mut codes = byte;
            for c in four {
                // The two bits, as a signed number.
                *c = (codes << 6) as i8 >> 6;
                codes >>= 2;
            }
        }
        SecretKey::from_coeffs(params, id, coeffs.as_signed())
    }

    pub(super) fn public_key(&mut self, params: &Params, id: KeyId) -> Result<PublicKey> {
        let limbs = params.limbs(params.top());
        let seed = self.seed()?;
        let (b, valid) = self.poly(params, limbs)?;
        self.end_polys(valid)?;
        let a = expand(params, limbs, &seed, 0);
        Ok(PublicKey { params: params.id(), id, seed, zero: [b, a] })
    }

    /// Reads a switching key at any place of its section.
    fn part(
        &mut self,
        params: &Params,
        level: Level,
        limbs: LimbSet,
        digits: usize,
    ) -> Result<UncheckedKey> {
        let seed = self.seed()?;
        let (first, valid) = self.half(params, limbs, digits)?;
        Ok(UncheckedKey { level, seed, first, valid })
    }

    /// Reads one half of a key. The flag tells whether its residues are below their primes.
    fn half(
        &mut self,
        params: &Params,
        limbs: LimbSet,
        digits: usize,
    ) -> Result<(PackedPolys, bool)> {
        let basis = params.basis();
        let mut valid = true;
        let half = match self.mapping.clone() {
            None => {
                let mut packer = basis.packer(limbs, digits);
                for _ in 0..digits {
                    for (m, row) in packer.next_rows() {
                        self.take(row)?;
                        valid &= m.are_residues(row);
                    }
                }
                packer.finish()
            }
            Some(mapping) => {
                let start = self.position() as usize;
                let mut row = core::mem::take(&mut self.row);
                for table in (0..digits).flat_map(|_| basis.tables(limbs)) {
                    row.resize(basis.packed_row_bytes(table), 0);
                    self.take(&mut row)?;
                    valid &= table.modulus().are_residues(&row);
                }
                self.row = row;
                let found = mapping.len() as u64;
                let needed = self.position();
                let bytes = mapping.slice(start..needed as usize);
                // A mapping that ends too early is reported like a file that does.
                basis.packed(limbs, bytes.ok_or(Error::Truncated { found, needed })?)
            }
        };
        Ok((half, valid))
    }

    /// Reads a relinearisation key, which is whole even among small keys.
    fn relinearization_key(
        &mut self,
        params: &Params,
        level: Level,
        limbs: LimbSet,
    ) -> Result<SwitchingKey> {
        if !params.spec().secret.is_shared() {
            return self.switching_key(params, level, limbs, false);
        }
        let digits = params.digit_primes_of(limbs).len();
        let (first, first_valid) = self.half(params, limbs, digits)?;
        let (second, second_valid) = self.half(params, limbs, digits)?;
        self.end_polys(first_valid & second_valid)?;
        Ok(SwitchingKey { level, seed: None, first, second: Some(second) })
    }

    fn switching_key(
        &mut self,
        params: &Params,
        level: Level,
        limbs: LimbSet,
        small: bool,
    ) -> Result<SwitchingKey> {
        let digits = params.digit_primes_of(limbs).len();
        let key = self.part(params, level, limbs, digits)?;
        self.end_polys(key.valid)?;
        Ok(key.finish(params, small))
    }

    fn galois_key(
        &mut self,
        params: &Params,
        g: GaloisElement,
        level: Level,
        limbs: LimbSet,
    ) -> Result<GaloisKey> {
        let key = self.switching_key(params, level, limbs, self.small_keys)?;
        Ok(GaloisKey { key, permutation: Permutation::galois(params.log_n(), g.0 as usize) })
    }

    fn raising_keys(
        &mut self,
        params: &Params,
        raise: Raise,
        raised: &BTreeSet<GaloisElement>,
    ) -> Result<RaisingKeys> {
        let [to_sparse, back] = raise.limbs(params);
        let to_sparse = self.part(params, Level(0), to_sparse, 1)?;
        let to_dense = self.part(params, raise.level, back, 1)?;
        // Both keys share a section.
        self.end_polys(to_sparse.valid & to_dense.valid)?;
        let small = self.small_keys;
        let [to_sparse, to_dense] = [to_sparse, to_dense].map(|key| key.finish(params, small));
        let mut images = BTreeMap::new();
        for &g in raised {
            let key = self.part(params, raise.level, back, 1)?;
            self.end_polys(key.valid)?;
            let permutation = Permutation::galois(params.log_n(), g.0 as usize);
            images.insert(g, GaloisKey { key: key.finish(params, small), permutation });
        }
        let Raise { weight, divisor, .. } = raise;
        Ok(RaisingKeys { weight, divisor, to_sparse, to_dense, images })
    }

    /// Reads the keys of a request from [`Sections::key_request`](super::Sections::key_request).
    pub(super) fn evaluation_keys(
        &mut self,
        params: &Params,
        id: KeyId,
        request: &KeyRequest,
    ) -> Result<EvaluationKeys> {
        let relinearize = request
            .relinearize
            .map(|level| self.relinearization_key(params, level, params.key_limbs(level)))
            .transpose()?;
        let mut galois = BTreeMap::new();
        for (&g, &level) in &request.galois {
            galois.insert(g, self.galois_key(params, g, level, params.key_limbs(level))?);
        }
        let raise = (request.raise)
            .map(|raise| self.raising_keys(params, raise, &request.raised))
            .transpose()?;
        let mut level_keys = BTreeMap::new();
        for (&level, keys) in &request.level_keys {
            let limbs = params.limbs_of_keys(Some(level), level);
            let mut read = LevelSwitchingKeys::default();
            if keys.relinearize {
                read.relinearize = Some(self.relinearization_key(params, level, limbs)?);
            }
            for &g in &keys.galois {
                read.galois.insert(g, self.galois_key(params, g, level, limbs)?);
            }
            level_keys.insert(level, read);
        }
        Ok(EvaluationKeys { params: params.id(), id, relinearize, galois, raise, level_keys })
    }

    /// Reads a ciphertext of a level in range, and expands its uniform half if it is seeded.
    pub(super) fn ciphertext(
        &mut self,
        params: &Params,
        key: KeyId,
        level: Level,
        seeded: bool,
    ) -> Result<Ciphertext> {
        let limbs = params.limbs(level);
        if seeded {
            let seed = self.seed()?;
            let (c0, valid) = self.poly(params, limbs)?;
            self.end_polys(valid)?;
            let polys = [c0, expand(params, limbs, &seed, 0)];
            return Ok(Ciphertext { polys, level, params: params.id(), key });
        }
        let (c0, first) = self.poly(params, limbs)?;
        let (c1, second) = self.poly(params, limbs)?;
        self.end_polys(first & second)?;
        Ok(Ciphertext { polys: [c0, c1], level, params: params.id(), key })
    }
}
