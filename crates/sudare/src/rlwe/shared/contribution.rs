use super::{
    Ceremony, Commitment,
    ceremony::{Made, Object},
    combine::FirstSums,
    pieces::{digest_of, drawn, sum},
};
use crate::{
    Error, Result,
    ring::{Eval, RnsBasis, RnsPoly},
    rlwe::{keygen::encrypt_zero, secret::small_secret},
};
use std::io::Write;
use sudare_arith::{
    Permutation,
    mem::Secrecy,
    prng::{KeptSeed, Seed, Stream},
    sample,
};

/// A key holder that joined a ceremony and has published only digests.
pub struct Joined(Contribution);

/// A key holder that published its first message.
pub struct Shared(Contribution);

/// A key holder's part of the secret, and its root.
struct Contribution {
    ceremony: Ceremony,
    party: usize,
    root: KeptSeed,
    /// The sum of the pieces that the holder draws, modulo every prime.
    s: RnsPoly<Eval>,
}

impl Joined {
    /// Joins a ceremony as the key holder with this number. Everything that the holder draws
    /// follows from `root` and the ceremony: 32 bytes of the operating system that serve one
    /// ceremony only.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for a key holder that does not exist.
    pub fn new(ceremony: &Ceremony, party: usize, root: &Seed) -> Result<Self> {
        ceremony.check_party(party)?;
        let seeds: Vec<Seed> =
            ceremony.sharing().dealt_by(party).map(|piece| drawn(ceremony, root, piece)).collect();
        let params = ceremony.params();
        Ok(Self(Contribution {
            s: sum(params, &seeds),
            root: KeptSeed::new(params.basis().pool(), root),
            ceremony: ceremony.clone(),
            party,
        }))
    }

    /// Returns the seeds of the pieces that the holder draws and shares with others, and their
    /// numbers. Send each to its other holders only.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn pieces(&self) -> Result<Vec<(usize, Seed)>> {
        let root = self.0.root()?;
        let ceremony = &self.0.ceremony;
        let seed = |piece| (piece, drawn(ceremony, &root, piece));
        Ok(ceremony.sharing().dealt_by(self.0.party).map(seed).collect())
    }

    /// Returns the digests to publish. It makes the first message, as [`Joined::share`] does.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn commitment(&self) -> Result<Commitment> {
        let mut hasher = blake3::Hasher::new();
        self.0.write_first(&mut hasher)?;
        let first = *hasher.finalize().as_bytes();
        let pieces = self.pieces()?.iter().map(|(_, seed)| digest_of(seed)).collect();
        Ok(Commitment { first, pieces })
    }

    /// Writes the first message: a share of every key.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] unless there is a commitment of every key holder, its own among them;
    /// [`Error::Forked`]; [`Error::Io`].
    pub fn share(self, commitments: &[Commitment], out: &mut impl Write) -> Result<Shared> {
        let Contribution { ceremony, party, .. } = &self.0;
        let parties = ceremony.sharing().parties();
        // A holder that saw another share before publishing a digest could choose the joint key.
        if commitments.len() != parties || commitments.get(*party) != Some(&self.commitment()?) {
            let problem = format!(
                "a share is published after the digests of all {parties} key holders, its own among \
                 them: collect them first"
            );
            return Err(Error::InvalidSpec { field: "commitments", problem });
        }
        self.0.write_first(out)?;
        Ok(Shared(self.0))
    }
}

impl Shared {
    /// Returns the state after the first message was published, in another process.
    ///
    /// # Errors
    /// See [`Joined::new`].
    pub fn resume(ceremony: &Ceremony, party: usize, root: &Seed) -> Result<Self> {
        Ok(Self(Joined::new(ceremony, party, root)?.0))
    }

    /// Writes the second message: the second share of each relinearisation key, which follows from
    /// the sums of all first shares.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for sums of another ceremony; [`Error::Forked`]; [`Error::Io`].
    pub fn finish(self, sums: &FirstSums, out: &mut impl Write) -> Result<()> {
        sums.check(&self.0.ceremony)?;
        self.0.write_last(sums, out)
    }
}

impl Contribution {
    fn root(&self) -> Result<Seed> {
        self.root.get().ok_or(Error::Forked { what: "pieces of a secret" })
    }

    /// Returns the secret seed of an object in the first message.
    fn first_seed(&self, root: &Seed, object: &Object) -> Seed {
        let seed = Ceremony::secret_seed(root, "first share", self.ceremony.id(), 0);
        seed.derive("object", object.number)
    }

    /// Draws the ephemeral secret of a relinearisation key.
    fn ephemeral(&self, seed: &Seed) -> RnsPoly<Eval> {
        let basis = self.ceremony.params().basis();
        let mut coeffs = small_secret(basis);
        sample::ternary(&mut Stream::new(seed, "ephemeral secret", 0), coeffs.as_signed_mut());
        basis.from_small(coeffs.as_signed(), basis.all(), Secrecy::Key)
    }

    fn write_first(&self, out: &mut impl Write) -> Result<()> {
        let params = self.ceremony.params();
        let basis = params.basis();
        let root = self.root()?;
        for object in self.ceremony.objects() {
            let limbs = object.limbs;
            let secret = self.first_seed(&root, object);
            let public = self.ceremony.public_seed(object);
            // A Galois key leads from `s` to its image under the inverse, as in `KeyGenerator`.
            let image = object.key.element().map(|g| {
                let inverse = g.inverse(params.log_n()).0 as usize;
                basis.automorphism(&self.s, &Permutation::galois(params.log_n(), inverse))
            });
            let ephemeral = object.key.relinearizes().then(|| self.ephemeral(&secret));
            let to = image.as_ref().or(ephemeral.as_ref()).unwrap_or(&self.s);
            for (digit, owned) in object.digits.iter().enumerate() {
                let [mut b, _] = encrypt_zero(params, to, limbs, &secret, &public, digit as u64);
                if object.key != Made::Public {
                    let gadget = self.ceremony.gadget(object);
                    for i in owned.clone() {
                        let row = self.s.row(limbs.place(i, self.s.limbs()));
                        basis.modulus(limbs, i).scale_add(b.row_mut(i), row, gadget.special(i));
                    }
                }
                put(params.basis(), &b, out)?;
            }
            if object.key.relinearizes() {
                let secret = secret.derive("second half", 0);
                for digit in 0..object.digits.len() as u64 {
                    let [mut b, _] = encrypt_zero(params, &self.s, limbs, &secret, &public, digit);
                    // `s a - e`, whose error has the same distribution as `e`.
                    basis.neg_assign(&mut b);
                    put(basis, &b, out)?;
                }
            }
        }
        Ok(())
    }

    /// `s h_0 + (u - s) h_1 + e` for each digit.
    fn write_last(&self, sums: &FirstSums, out: &mut impl Write) -> Result<()> {
        let params = self.ceremony.params();
        let basis = params.basis();
        let root = self.root()?;
        let last = Ceremony::secret_seed(&root, "last share", sums.transcript(), 0);
        for (object, halves) in sums.relinearizations(&self.ceremony) {
            let limbs = object.limbs;
            let ephemeral = self.ephemeral(&self.first_seed(&root, object));
            let mut difference = basis.restricted(&ephemeral, limbs);
            basis.sub_assign(&mut difference, &self.s);
            let secret = last.derive("object", object.number);
            for (digit, [h0, h1]) in halves.iter().enumerate() {
                let mut error = small_secret(basis);
                let mut stream = Stream::new(&secret, "error", digit as u64);
                sample::cbd21(&mut stream, error.as_signed_mut());
                let mut share = basis.from_small(error.as_signed(), limbs, Secrecy::Key);
                for (h, factor) in [(h0, &self.s), (h1, &difference)] {
                    // A copy as secret as the factor: the product reveals it.
                    let mut product = basis.restricted(factor, limbs);
                    basis.mul_assign(&mut product, h);
                    basis.add_assign(&mut share, &product);
                }
                put(basis, &share, out)?;
            }
        }
        Ok(())
    }
}

/// Writes the packed rows of a polynomial.
fn put(basis: &RnsBasis, a: &RnsPoly<Eval>, out: &mut impl Write) -> Result<()> {
    let mut packed = Vec::new();
    for (table, row) in basis.tables(a.limbs()).zip(a.rows()) {
        packed.resize(basis.packed_row_bytes(table), 0);
        table.modulus().pack(&mut packed, row);
        out.write_all(&packed)?;
    }
    Ok(())
}

impl core::fmt::Debug for Contribution {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Contribution").field("party", &self.party).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Joined {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Joined(key holder {})", self.0.party)
    }
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Shared(key holder {})", self.0.party)
    }
}
