use super::{KeyId, Level, ParamsId};
use crate::ring::{Eval, RnsPoly};

/// `c_0 + c_1 s`: what every scheme wraps and adds its metadata to.
#[derive(Clone)]
pub struct Ciphertext {
    pub(crate) polys: [RnsPoly<Eval>; 2],
    pub(crate) level: Level,
    pub(crate) params: ParamsId,
    pub(crate) key: KeyId,
}

impl Ciphertext {
    /// How many more rescalings it can take.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The parameters it was made under.
    #[must_use]
    pub fn params_id(&self) -> ParamsId {
        self.params
    }

    /// The secret key that opens it.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.key
    }
}
