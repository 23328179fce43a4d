//! The ciphertexts of an array.

use std::sync::{Arc, OnceLock};
use sudare::exact::Ciphertext;

/// Ciphertexts in order, and their bootstrapped form once it exists. Clones are cheap and share
/// that form.
#[derive(Clone)]
pub(super) struct Blocks(Arc<Held>);

struct Held {
    own: Vec<Ciphertext>,
    refreshed: OnceLock<Blocks>,
}

impl Blocks {
    /// Returns whether both are the same blocks, and not only equal ones.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the bootstrapped blocks, if they exist.
    pub(super) fn refreshed(&self) -> Option<&Self> {
        self.0.refreshed.get()
    }

    /// Stores the bootstrapped blocks and returns them, or the blocks that another thread stored
    /// first.
    pub(super) fn keep_refreshed(&self, blocks: Self) -> &Self {
        self.0.refreshed.get_or_init(|| blocks)
    }
}

impl From<Vec<Ciphertext>> for Blocks {
    fn from(own: Vec<Ciphertext>) -> Self {
        Self(Arc::new(Held { own, refreshed: OnceLock::new() }))
    }
}

impl FromIterator<Ciphertext> for Blocks {
    fn from_iter<I: IntoIterator<Item = Ciphertext>>(blocks: I) -> Self {
        Vec::from_iter(blocks).into()
    }
}

impl core::ops::Deref for Blocks {
    type Target = [Ciphertext];

    fn deref(&self) -> &[Ciphertext] {
        &self.0.own
    }
}
