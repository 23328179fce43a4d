use super::{Ceremony, Commitment};
use crate::{
    Error, Result,
    ring::{Eval, RnsPoly},
    rlwe::{
        Params, SecretDistribution,
        secret::{canonical_limit, canonical_norm, small_secret},
    },
};
use sudare_arith::{
    mem::{Buf, Secrecy},
    prng::{KeptSeed, Seed, Stream},
    sample,
};

/// The pieces that one key holder has, and its root, from which the noise of its shares follows.
/// They are wiped when dropped.
pub struct Pieces {
    ceremony: Ceremony,
    party: usize,
    root: KeptSeed,
    /// By piece; `None` for the pieces that the holder lacks.
    seeds: Vec<Option<KeptSeed>>,
}

impl Pieces {
    /// Collects the pieces of a key holder: its own ones follow from its root, and the others,
    /// `received` from other holders, have the digests of `commitments`, one of each holder.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for a holder that does not exist; [`Error::Malformed`] for a piece
    /// that is missing, that the holder must not have, or that differs from its digest.
    pub fn new(
        ceremony: &Ceremony,
        party: usize,
        root: &Seed,
        received: &[(usize, Seed)],
        commitments: &[Commitment],
    ) -> Result<Self> {
        ceremony.check_party(party)?;
        let sharing = ceremony.sharing();
        let pool = ceremony.params().basis().pool();
        let malformed = |problem: String| Err(Error::Malformed { what: "piece", problem });
        let mut seeds: Vec<Option<KeptSeed>> = (0..sharing.pieces()).map(|_| None).collect();
        for piece in sharing.dealt_by(party) {
            seeds[piece] = Some(KeptSeed::new(pool, &drawn(ceremony, root, piece)));
        }
        for (piece, seed) in received {
            let piece = *piece;
            if !sharing.holds(party, piece) || sharing.dealer(piece) == party {
                return malformed(format!("key holder {party} does not receive piece {piece}"));
            }
            let dealer = sharing.dealer(piece);
            let place = sharing.dealt_by(dealer).position(|dealt| dealt == piece).unwrap_or(0);
            let digest = commitments.get(dealer).and_then(|joined| joined.pieces.get(place));
            if digest != Some(&digest_of(seed)) {
                return malformed(format!(
                    "piece {piece} is not the one whose digest key holder {dealer} published"
                ));
            }
            seeds[piece] = Some(KeptSeed::new(pool, seed));
        }
        let missing = |&piece: &usize| sharing.holds(party, piece) && seeds[piece].is_none();
        if let Some(piece) = (0..sharing.pieces()).find(missing) {
            let dealer = sharing.dealer(piece);
            return malformed(format!("piece {piece} of key holder {dealer} is missing"));
        }
        let ceremony = ceremony.clone();
        Ok(Self { ceremony, party, root: KeptSeed::new(pool, root), seeds })
    }

    /// The ceremony of the pieces.
    #[must_use]
    pub fn ceremony(&self) -> &Ceremony {
        &self.ceremony
    }

    /// Number of the key holder.
    #[must_use]
    pub fn party(&self) -> usize {
        self.party
    }

    /// Returns the sum of pieces modulo every prime, and the root.
    pub(super) fn part(&self, pieces: &[usize]) -> Result<(RnsPoly<Eval>, Seed)> {
        let forked = || Error::Forked { what: "pieces of a secret" };
        let seed =
            |&piece: &usize| self.seeds[piece].as_ref().and_then(KeptSeed::get).ok_or_else(forked);
        let seeds = pieces.iter().map(seed).collect::<Result<Vec<_>>>()?;
        let root = self.root.get().ok_or_else(forked)?;
        Ok((sum(self.ceremony.params(), &seeds), root))
    }
}

impl core::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pieces").field("party", &self.party).finish_non_exhaustive()
    }
}

/// Returns the seed of a piece that the party with this root draws.
pub(super) fn drawn(ceremony: &Ceremony, root: &Seed, piece: usize) -> Seed {
    Ceremony::secret_seed(root, "piece", ceremony.id(), piece as u64)
}

/// Returns the digest by which the holders of a piece recognise its seed.
pub(super) fn digest_of(seed: &Seed) -> [u8; 32] {
    // The seed has full entropy, so that its digest reveals nothing about it.
    blake3::derive_key("sudare v1 digest of a piece", seed.as_bytes())
}

/// Returns the coefficients of a piece: uniform ternary, drawn again like other secrets if a value
/// at a root exceeds the limit of the error bounds.
pub(super) fn coefficients(params: &Params, seed: &Seed) -> Buf {
    let mut coeffs = small_secret(params.basis());
    let mut stream = Stream::new(seed, "piece", 0);
    let limit = canonical_limit(SecretDistribution::UniformTernary, params.log_n());
    loop {
        sample::ternary(&mut stream, coeffs.as_signed_mut());
        if canonical_norm(coeffs.as_signed()) <= limit {
            return coeffs;
        }
    }
}

/// Returns the sum of the pieces of these seeds, modulo every prime.
pub(super) fn sum(params: &Params, seeds: &[Seed]) -> RnsPoly<Eval> {
    let mut sum = small_secret(params.basis());
    for seed in seeds {
        let piece = coefficients(params, seed);
        // At most 70 pieces, so that a sum fits a byte.
        for (sum, &coefficient) in sum.as_signed_mut().iter_mut().zip(piece.as_signed()) {
            *sum += coefficient;
        }
    }
    let basis = params.basis();
    basis.from_small(sum.as_signed(), basis.all(), Secrecy::Key)
}
