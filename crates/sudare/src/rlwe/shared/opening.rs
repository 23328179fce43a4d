use super::{Ceremony, Flood, Pieces};
use crate::{
    Error, Result,
    ring::{Coeff, LimbSet, RnsPoly},
    rlwe::{Ciphertext, Level, Params},
};
use sudare_arith::mem::Secrecy;

/// A ciphertext that a set of key holders decrypts together, at the lowest level that holds its
/// message and the noise of all shares.
///
/// Schemes make openings from their ciphertexts and bounds: `ckks::Opening`, `exact::Opening`.
#[derive(Debug, Clone)]
pub struct Opening {
    ciphertext: Ciphertext,
    limbs: LimbSet,
    /// Distance of the coefficients of the message. The others are not sent.
    gap: usize,
    flood: Flood,
    set: Vec<usize>,
    /// Digest of everything that shares follow from.
    id: [u8; 32],
}

/// A key holder's share of an opening: `c_1 s + f` for its pieces and its noise.
#[derive(Clone, PartialEq, Eq)]
pub struct OpeningShare {
    party: usize,
    /// Packed residues of the message's coefficients, prime by prime.
    bytes: Vec<u8>,
}

impl core::fmt::Debug for OpeningShare {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "OpeningShare(key holder {}, {} bytes)", self.party, self.bytes.len())
    }
}

impl OpeningShare {
    /// Number of the key holder.
    #[must_use]
    pub fn party(&self) -> usize {
        self.party
    }

    /// The packed residues.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Opening {
    /// Makes the opening of a ciphertext by the holders of `set`, in the coefficients at multiples
    /// of `gap`. `limbs` are the primes of `level`, at most the level of the ciphertext.
    pub(crate) fn new(
        ceremony: &Ceremony,
        ciphertext: &Ciphertext,
        level: Level,
        gap: usize,
        flood: Flood,
        set: &[usize],
    ) -> Result<Self> {
        let params = ceremony.params();
        ciphertext.check_owner(params, ceremony.key_id())?;
        ceremony.sharing().check_set(set)?;
        let limbs = params.limbs(level);
        let basis = params.basis();
        let polys = ciphertext.polys.each_ref().map(|poly| basis.restricted(poly, limbs));
        let ciphertext = Ciphertext { polys, level, ..ciphertext.clone() };
        let mut hasher = blake3::Hasher::new_derive_key("sudare v1 opening");
        hasher.update(ceremony.id());
        let numbers = [u64::from(level.0), gap as u64, flood.log2_deviation().into()];
        let set_of = set.iter().map(|&party| party as u64);
        for number in numbers.into_iter().chain([set.len() as u64]).chain(set_of) {
            hasher.update(&number.to_le_bytes());
        }
        for row in ciphertext.polys.iter().flat_map(RnsPoly::rows) {
            row.iter().for_each(|word| {
                hasher.update(&word.to_le_bytes());
            });
        }
        let id = *hasher.finalize().as_bytes();
        Ok(Self { ciphertext, limbs, gap, flood, set: set.to_vec(), id })
    }

    /// Digest of the ciphertext, the set and the noise. Shares with the same digest have the same
    /// bytes.
    #[must_use]
    pub fn id(&self) -> &[u8; 32] {
        &self.id
    }

    /// The noise of each share.
    #[must_use]
    pub fn flood(&self) -> Flood {
        self.flood
    }

    /// The key holders who open, in ascending order.
    #[must_use]
    pub fn set(&self) -> &[usize] {
        &self.set
    }

    /// Level of the ciphertext in the opening.
    #[must_use]
    pub fn level(&self) -> Level {
        self.ciphertext.level
    }

    /// Bytes of a share.
    #[must_use]
    pub fn share_bytes(&self, params: &Params) -> u64 {
        let rows = params.basis().packed_bytes(self.limbs);
        rows / self.gap as u64
    }

    /// Makes the share of a key holder. The same opening has the same share each time, so that
    /// sending it again reveals nothing more.
    ///
    /// Open only results that you computed yourself from the inputs of all parties: a chosen
    /// ciphertext reveals the key.
    ///
    /// # Errors
    /// [`Error::KeyMismatch`] for pieces of another ceremony; [`Error::InvalidSpec`] for a key
    /// holder outside of the set; [`Error::Forked`].
    pub fn share(self, pieces: &Pieces) -> Result<OpeningShare> {
        let ceremony = pieces.ceremony();
        let params = ceremony.params();
        let basis = params.basis();
        self.ciphertext.check_owner(params, ceremony.key_id())?;
        let party = pieces.party();
        let assigned = ceremony.sharing().assigned(&self.set, party)?;
        let (s, root) = pieces.part(&assigned)?;
        let seed = Ceremony::secret_seed(&root, "opening", &self.id, 0);
        let mut product = basis.restricted(&s, self.limbs);
        basis.mul_assign(&mut product, &self.ciphertext.polys[1]);
        let product = basis.into_coeff(product);
        let noise = self.flood.draw(&seed, basis.n() / self.gap);
        let mut bytes = Vec::new();
        let mut row = basis.pool().take_as(Secrecy::Key, noise.len());
        let row = &mut row[..noise.len()];
        for (table, words) in basis.tables(self.limbs).zip(product.rows()) {
            let m = table.modulus();
            let sums = words.iter().step_by(self.gap).zip(noise.iter());
            for (out, (&word, &noise)) in row.iter_mut().zip(sums) {
                *out = m.add(word, m.reduce_i128(noise));
            }
            let start = bytes.len();
            bytes.resize(start + m.packed_bytes() * row.len(), 0);
            m.pack(&mut bytes[start..], row);
        }
        Ok(OpeningShare { party, bytes })
    }

    /// Reads the share of a key holder from its bytes.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for a key holder outside of the set; [`Error::Malformed`] for bytes
    /// that are no share of this opening.
    pub fn read(&self, params: &Params, party: usize, bytes: &[u8]) -> Result<OpeningShare> {
        if !self.set.contains(&party) {
            let problem = format!("key holder {party} is not among {:?}", self.set);
            return Err(Error::InvalidSpec { field: "set", problem });
        }
        let share = OpeningShare { party, bytes: bytes.to_vec() };
        self.residues(params, &share).map(|_| share)
    }

    /// Returns the rows of a share, one for each prime.
    fn residues(&self, params: &Params, share: &OpeningShare) -> Result<Vec<Vec<u64>>> {
        let basis = params.basis();
        let malformed = |problem: String| {
            let problem = format!("of key holder {}: {problem}", share.party);
            Err(Error::Malformed { what: "share of an opening", problem })
        };
        let found = share.bytes.len() as u64;
        let needed = self.share_bytes(params);
        if found != needed {
            return malformed(format!("it has {found} bytes instead of {needed}"));
        }
        let mut rest = &share.bytes[..];
        let mut rows = Vec::with_capacity(self.limbs.count());
        for table in basis.tables(self.limbs) {
            let m = table.modulus();
            let mut row = vec![0; basis.n() / self.gap];
            let (packed, after) = rest.split_at(m.packed_bytes() * row.len());
            rest = after;
            if !m.unpack(&mut row, packed) {
                return malformed("a residue is not below its prime".into());
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Adds the shares of the whole set to `c_0 + c_1 s` with the noise of all. Coefficients that
    /// are not of the message are 0.
    ///
    /// # Errors
    /// [`Error::Malformed`] unless there is one share of each key holder of the set.
    pub(crate) fn combine(
        &self,
        params: &Params,
        shares: &[OpeningShare],
    ) -> Result<RnsPoly<Coeff>> {
        let mut parties: Vec<usize> = shares.iter().map(OpeningShare::party).collect();
        parties.sort_unstable();
        if parties != self.set {
            let problem = format!("there are shares of {parties:?} instead of {:?}", self.set);
            return Err(Error::Malformed { what: "opening", problem });
        }
        let basis = params.basis();
        let c0 = basis.into_coeff(self.ciphertext.polys[0].clone());
        let mut sum: RnsPoly<Coeff> = basis.take_as(Secrecy::Value, self.limbs);
        for (row, c0) in sum.rows_mut().zip(c0.rows()) {
            let of_message = row.iter_mut().step_by(self.gap).zip(c0.iter().step_by(self.gap));
            of_message.for_each(|(out, &word)| *out = word);
        }
        for share in shares {
            let rows = self.residues(params, share)?;
            for ((table, row), words) in basis.tables(self.limbs).zip(sum.rows_mut()).zip(rows) {
                let m = table.modulus();
                let of_message = row.iter_mut().step_by(self.gap).zip(words);
                of_message.for_each(|(out, word)| *out = m.add(*out, word));
            }
        }
        Ok(sum)
    }
}
