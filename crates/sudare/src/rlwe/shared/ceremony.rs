use super::Sharing;
use crate::{
    Error, Result,
    ring::LimbSet,
    rlwe::{
        GaloisElement, KeyId, KeyRequest, Level, Params, SwitchingKey, gadget::Gadget,
        keys::KeySection,
    },
};
use core::ops::Range;
use std::sync::Arc;
use sudare_arith::prng::{Seed, Stream};

/// The public facts of a ceremony: everything that its keys depend on, except the secrets of key
/// holders. Cheap to clone.
#[derive(Clone)]
pub struct Ceremony(Arc<Inner>);

struct Inner {
    params: Params,
    sharing: Sharing,
    request: KeyRequest,
    id: [u8; 32],
    public: Seed,
    key: KeyId,
    objects: Vec<Object>,
}

/// A key that a ceremony makes.
#[derive(Debug, Clone)]
pub(super) struct Object {
    /// Number of the key from 1 on. It fixes the seeds.
    pub(super) number: u64,
    pub(super) key: Made,
    pub(super) limbs: LimbSet,
    /// Primes of each digit; one without primes for a public key.
    pub(super) digits: Vec<Range<usize>>,
}

/// A key, and its place among the keys of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Public,
    Relinearization(Level),
    LevelRelinearization(Level),
    Galois(GaloisElement, Level),
    LevelGalois(Level, GaloisElement),
}

impl Made {
    /// Returns `true` if parties need two messages for the key.
    pub(super) fn relinearizes(self) -> bool {
        matches!(self, Self::Relinearization(_) | Self::LevelRelinearization(_))
    }

    /// Returns the highest level that the key serves, for a switching key.
    pub(super) fn level(self) -> Option<Level> {
        match self {
            Self::Public => None,
            Self::Relinearization(level)
            | Self::LevelRelinearization(level)
            | Self::Galois(_, level)
            | Self::LevelGalois(level, _) => Some(level),
        }
    }

    /// Returns the element of a Galois key.
    pub(super) fn element(self) -> Option<GaloisElement> {
        match self {
            Self::Galois(g, _) | Self::LevelGalois(_, g) => Some(g),
            _ => None,
        }
    }

    /// Returns the section of a switching key.
    pub(super) fn section(self, key: SwitchingKey) -> Option<KeySection> {
        Some(match self {
            Self::Public => return None,
            Self::Relinearization(_) => KeySection::Relinearization(key),
            Self::LevelRelinearization(level) => KeySection::LevelRelinearization(level, key),
            Self::Galois(g, _) => KeySection::Galois(g, key),
            Self::LevelGalois(level, g) => KeySection::LevelGalois(level, g, key),
        })
    }
}

impl Object {
    /// Number of polynomials in the first message: both halves of a relinearisation key.
    pub(super) fn first_polys(&self) -> usize {
        if self.key.relinearizes() { 2 * self.digits.len() } else { self.digits.len() }
    }
}

impl Ceremony {
    /// Makes the facts of a ceremony. `agreement` is a digest of everything else that its parties
    /// agreed on, such as their names and keys. No two ceremonies have the same one.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] unless the secret of the parameters has this sharing, or for keys that
    /// raise ciphertexts; errors of [`KeyRequest::bytes`].
    pub fn new(
        params: &Params,
        sharing: &Sharing,
        request: &KeyRequest,
        agreement: [u8; 32],
    ) -> Result<Self> {
        let found = params.spec().secret;
        let needed = sharing.distribution();
        if found != needed {
            let problem =
                format!("the parameters are for {found:?}, but the sharing has {needed:?}");
            return Err(Error::InvalidSpec { field: "secret", problem });
        }
        if request.raise.is_some() {
            // No result of a bootstrapping has a bound of its error, so that none could be opened.
            let problem = "keys for bootstrapping are not made in a ceremony: results after \
                           bootstrapping have no bound that an opening could hide";
            return Err(Error::InvalidSpec { field: "raise", problem: problem.into() });
        }
        request.check(params)?;
        let objects = objects(params, request);
        let id = digest(&agreement, params, sharing, &objects);
        let public = Seed::from_bytes(blake3::derive_key("sudare v1 ceremony, public", &id));
        let key = KeyId(Stream::new(&public, "key id", 0).next_u64());
        let params = params.clone();
        let sharing = sharing.clone();
        let request = request.clone();
        Ok(Self(Arc::new(Inner { params, sharing, request, id, public, key, objects })))
    }

    /// Parameters of the keys.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.0.params
    }

    /// Distribution of the pieces.
    #[must_use]
    pub fn sharing(&self) -> &Sharing {
        &self.0.sharing
    }

    /// The evaluation keys to make.
    #[must_use]
    pub fn request(&self) -> &KeyRequest {
        &self.0.request
    }

    /// The digest of everything that keys and shares depend on: the agreement, parameters, sharing
    /// and requested keys.
    #[must_use]
    pub fn id(&self) -> &[u8; 32] {
        &self.0.id
    }

    /// Fingerprint of the joint secret.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.0.key
    }

    /// Bytes of each party's first message: its shares of all keys.
    #[must_use]
    pub fn first_bytes(&self) -> u64 {
        self.bytes(|_| true, Object::first_polys)
    }

    /// Bytes of each party's second message: its second shares of relinearisation keys. It is 0
    /// without such keys.
    #[must_use]
    pub fn last_bytes(&self) -> u64 {
        self.bytes(|object| object.key.relinearizes(), |object| object.digits.len())
    }

    fn bytes(&self, is_sent: impl Fn(&Object) -> bool, polys: impl Fn(&Object) -> usize) -> u64 {
        let basis = self.params().basis();
        let objects = self.objects().iter().filter(|object| is_sent(object));
        objects.map(|object| polys(object) as u64 * basis.packed_bytes(object.limbs)).sum()
    }

    /// The keys, in the order of messages.
    pub(super) fn objects(&self) -> &[Object] {
        &self.0.objects
    }

    /// Returns the public seed of an object.
    pub(super) fn public_seed(&self, object: &Object) -> Seed {
        self.0.public.derive("object", object.number)
    }

    /// Returns the gadget of a switching key.
    pub(super) fn gadget(&self, object: &Object) -> &Gadget {
        self.params().gadget(object.limbs)
    }

    /// Derives a seed of one party's step from its root.
    pub(super) fn secret_seed(root: &Seed, step: &str, subject: &[u8; 32], index: u64) -> Seed {
        root.derive(&format!("{step} {}", blake3::Hash::from(*subject).to_hex()), index)
    }

    /// Rejects the number of a party that does not exist.
    pub(super) fn check_party(&self, party: usize) -> Result<()> {
        let parties = self.sharing().parties();
        if party < parties {
            return Ok(());
        }
        let problem = format!("there is no key holder {party}: they are 0 to {}", parties - 1);
        Err(Error::InvalidSpec { field: "party", problem })
    }
}

impl core::fmt::Debug for Ceremony {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ceremony").field("key", &self.key_id()).finish_non_exhaustive()
    }
}

/// Returns the digest of a ceremony. All randomness depends on it, so that one root never draws the
/// same errors for other keys, whatever the agreement says.
fn digest(
    agreement: &[u8; 32],
    params: &Params,
    sharing: &Sharing,
    objects: &[Object],
) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("sudare v1 ceremony");
    hasher.update(agreement);
    let of_objects = objects.iter().flat_map(|object| {
        let kind = match object.key {
            Made::Public => 0,
            Made::Relinearization(_) => 1,
            Made::LevelRelinearization(_) => 2,
            Made::Galois(..) => 3,
            Made::LevelGalois(..) => 4,
        };
        let level = object.key.level().map_or(0, |level| level.0.into());
        [kind, level, object.key.element().map_or(0, |g| g.0.into())]
    });
    let numbers = [params.id().0, sharing.parties() as u64, sharing.threshold() as u64];
    for number in numbers.into_iter().chain(of_objects) {
        hasher.update(&number.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// Lists the keys of a request. Relinearisation keys come early, so that their sums can be read
/// without the rest of a message.
fn objects(params: &Params, request: &KeyRequest) -> Vec<Object> {
    let relinearize = request.relinearize.map(Made::Relinearization);
    let of_levels = || request.level_keys.iter();
    let level_relinearize = of_levels()
        .filter(|(_, keys)| keys.relinearize)
        .map(|(&level, _)| Made::LevelRelinearization(level));
    let galois = request.galois.iter().map(|(&g, &level)| Made::Galois(g, level));
    let level_galois = of_levels()
        .flat_map(|(&level, keys)| keys.galois.iter().map(move |&g| Made::LevelGalois(level, g)));
    let all = core::iter::once(Made::Public)
        .chain(relinearize)
        .chain(level_relinearize)
        .chain(galois)
        .chain(level_galois);
    let object = |(number, key): (u64, Made)| {
        let limbs = match key {
            Made::Public => params.limbs(params.top()),
            Made::Relinearization(level) | Made::Galois(_, level) => params.key_limbs(level),
            Made::LevelRelinearization(level) | Made::LevelGalois(level, _) => {
                params.limbs_of_keys(Some(level), level)
            }
        };
        let digits = match key {
            // One digit without primes of its own.
            Made::Public => core::iter::once(0..0).collect(),
            _ => params.digit_primes_of(limbs),
        };
        Object { number, key, limbs, digits }
    };
    (1..).zip(all).map(object).collect()
}
