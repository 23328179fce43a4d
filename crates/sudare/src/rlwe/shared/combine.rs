use super::{Ceremony, Commitment, ceremony::Object};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, PackedPolys, RnsBasis, RnsPoly},
    rlwe::{EvaluationKeys, PublicKey, SwitchingKey, keygen::expand},
};
use blake3::Hasher;
use std::io::{ErrorKind, Read};

/// The sums of all parties' first shares of relinearisation keys, from which second shares follow.
pub struct FirstSums {
    id: [u8; 32],
    transcript: [u8; 32],
    /// Both halves of each digit, for each relinearisation key.
    halves: Vec<Vec<[RnsPoly<Eval>; 2]>>,
}

/// The keys of a ceremony.
#[derive(Debug)]
pub struct JointKeys {
    /// Encrypts, like any public key.
    pub public: PublicKey,
    /// The requested evaluation keys.
    pub evaluation: EvaluationKeys,
}

impl FirstSums {
    /// Reads the first messages of all key holders, in order, and adds them up.
    ///
    /// # Errors
    /// [`Error::OtherShare`] for a message that differs from its sender's commitment;
    /// [`Error::Malformed`] for another number of messages, or for one that no key holder makes;
    /// [`Error::Io`].
    pub fn read(
        ceremony: &Ceremony,
        commitments: &[Commitment],
        messages: Vec<impl Read>,
    ) -> Result<Self> {
        let mut halves = Vec::new();
        let take = |object: &Object, sums: Vec<RnsPoly<Eval>>| {
            if object.key.relinearizes() {
                halves.push(paired(sums));
            }
        };
        let transcript = read_first(ceremony, commitments, messages, take)?;
        Ok(Self { id: *ceremony.id(), transcript, halves })
    }

    /// The digest of all first messages, which second messages answer.
    #[must_use]
    pub fn transcript(&self) -> &[u8; 32] {
        &self.transcript
    }

    /// Rejects sums of another ceremony.
    pub(super) fn check(&self, ceremony: &Ceremony) -> Result<()> {
        if self.id == *ceremony.id() {
            return Ok(());
        }
        let problem = "they belong to another ceremony: use the messages of this one".into();
        Err(Error::InvalidSpec { field: "sums of first shares", problem })
    }

    /// Iterates over relinearisation keys, with the halves of each digit.
    pub(super) fn relinearizations<'a>(
        &'a self,
        ceremony: &'a Ceremony,
    ) -> impl Iterator<Item = (&'a Object, &'a Vec<[RnsPoly<Eval>; 2]>)> {
        relinearizations(ceremony).zip(&self.halves)
    }
}

impl core::fmt::Debug for FirstSums {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "FirstSums({} relinearisation keys)", self.halves.len())
    }
}

fn relinearizations(ceremony: &Ceremony) -> impl Iterator<Item = &Object> {
    ceremony.objects().iter().filter(|object| object.key.relinearizes())
}

/// Returns the halves of each digit, from all first halves followed by all second halves.
fn paired(mut first: Vec<RnsPoly<Eval>>) -> Vec<[RnsPoly<Eval>; 2]> {
    let second = first.split_off(first.len() / 2);
    first.into_iter().zip(second).map(|(first, second)| [first, second]).collect()
}

/// Adds the messages of all key holders, in order, to the joint keys. The result has the same bits
/// everywhere. Galois keys are small: their uniform halves are expanded at each use.
///
/// # Errors
/// Errors of [`FirstSums::read`], for both messages.
pub fn combine(
    ceremony: &Ceremony,
    commitments: &[Commitment],
    first: Vec<impl Read>,
    last: Vec<impl Read>,
) -> Result<JointKeys> {
    let params = ceremony.params();
    let basis = params.basis();
    let mut evaluation = EvaluationKeys::none(params, ceremony.key_id());
    let mut public = None;
    let mut halves = Vec::new();
    let take = |object: &Object, sums: Vec<RnsPoly<Eval>>| {
        let seed = ceremony.public_seed(object);
        if object.key.relinearizes() {
            let second = paired(sums).into_iter().map(|[_, second]| second).collect::<Vec<_>>();
            halves.push(packed(basis, object.limbs, second));
        } else if let Some(level) = object.key.level() {
            let first = packed(basis, object.limbs, sums);
            let key = SwitchingKey { level, seed: Some(seed), first, second: None };
            if let Some(section) = object.key.section(key) {
                evaluation.put(params, section);
            }
        } else {
            let a = expand(params, object.limbs, &seed, 0);
            public = sums.into_iter().next().map(|b| (seed, [b, a]));
        }
    };
    read_first(ceremony, commitments, first, take)?;
    let mut last = messages(ceremony, last)?;
    for (object, second) in relinearizations(ceremony).zip(halves) {
        let Some(level) = object.key.level() else { continue };
        let sums = (0..object.digits.len()).map(|_| add(&mut last, basis, object.limbs));
        let first = packed(basis, object.limbs, sums.collect::<Result<Vec<_>>>()?);
        let key = SwitchingKey { level, seed: None, first, second: Some(second) };
        if let Some(section) = object.key.section(key) {
            evaluation.put(params, section);
        }
    }
    last.into_iter().try_for_each(|message| message.end().map(|_| ()))?;
    let missing = || Error::Malformed { what: "key share", problem: "it has no public key".into() };
    let (seed, zero) = public.ok_or_else(missing)?;
    let public = PublicKey { params: params.id(), id: ceremony.key_id(), seed, zero };
    Ok(JointKeys { public, evaluation })
}

fn packed(basis: &RnsBasis, limbs: LimbSet, polys: Vec<RnsPoly<Eval>>) -> PackedPolys {
    let mut packer = basis.packer(limbs, polys.len());
    polys.iter().for_each(|poly| packer.push(poly));
    packer.finish()
}

/// Adds up first messages and passes the sums of each key to `take`. Returns the digest of all
/// messages.
fn read_first(
    ceremony: &Ceremony,
    commitments: &[Commitment],
    inputs: Vec<impl Read>,
    mut take: impl FnMut(&Object, Vec<RnsPoly<Eval>>),
) -> Result<[u8; 32]> {
    let basis = ceremony.params().basis();
    let mut messages = messages(ceremony, inputs)?;
    if commitments.len() != messages.len() {
        let problem = format!("there are {} commitments", commitments.len());
        return Err(Error::Malformed { what: "ceremony", problem });
    }
    for object in ceremony.objects() {
        let sums = (0..object.first_polys()).map(|_| add(&mut messages, basis, object.limbs));
        take(object, sums.collect::<Result<_>>()?);
    }
    let mut transcript = Hasher::new_derive_key("sudare v1 ceremony, first shares");
    transcript.update(ceremony.id());
    for (message, commitment) in messages.into_iter().zip(commitments) {
        let party = message.party;
        let digest = message.end()?;
        // Nothing of the sums is used before this check.
        if digest != commitment.first {
            return Err(Error::OtherShare { party });
        }
        transcript.update(&digest);
    }
    Ok(*transcript.finalize().as_bytes())
}

/// A message being read.
struct Message<R> {
    party: usize,
    input: R,
    hasher: Hasher,
}

fn messages<R: Read>(ceremony: &Ceremony, inputs: Vec<R>) -> Result<Vec<Message<R>>> {
    let found = inputs.len();
    let needed = ceremony.sharing().parties();
    if found != needed {
        let problem = format!("there are messages of {found} key holders instead of {needed}");
        return Err(Error::Malformed { what: "ceremony", problem });
    }
    let message = |(party, input)| Message { party, input, hasher: Hasher::new() };
    Ok(inputs.into_iter().enumerate().map(message).collect())
}

/// Reads the next polynomial of every message and returns their sum.
fn add<R: Read>(
    messages: &mut [Message<R>],
    basis: &RnsBasis,
    limbs: LimbSet,
) -> Result<RnsPoly<Eval>> {
    let mut sum = basis.zero(limbs);
    let mut packed = Vec::new();
    let mut words = basis.pool().take(basis.n());
    for message in messages {
        for (table, row) in basis.tables(limbs).zip(sum.rows_mut()) {
            let m = table.modulus();
            packed.resize(basis.packed_row_bytes(table), 0);
            message.fill(&mut packed)?;
            let words = &mut words[..row.len()];
            if !m.unpack(words, &packed) {
                return Err(message.malformed("a residue is not below its prime"));
            }
            m.add_assign(row, words);
        }
    }
    Ok(sum)
}

impl<R: Read> Message<R> {
    fn malformed(&self, problem: &str) -> Error {
        let problem = format!("of key holder {}: {problem}", self.party);
        Error::Malformed { what: "key share", problem }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => self.malformed("it ends too early"),
            _ => error.into(),
        })?;
        self.hasher.update(bytes);
        Ok(())
    }

    /// Refuses bytes after the message, and returns its digest.
    fn end(mut self) -> Result<[u8; 32]> {
        let mut more = Vec::new();
        self.input.by_ref().take(1).read_to_end(&mut more)?;
        match more.is_empty() {
            true => Ok(*self.hasher.finalize().as_bytes()),
            false => Err(self.malformed("it has bytes after its end")),
        }
    }
}
