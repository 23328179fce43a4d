//! The ciphertexts of an array.

use std::sync::{Arc, OnceLock};
use sudare::exact::Ciphertext;

/// Ciphertexts in order, and their bootstrapped form once it exists. Clones are cheap and share
/// that form.
pub(crate) struct Blocks<C = Ciphertext>(Arc<Held<C>>);

struct Held<C> {
    own: Vec<C>,
    refreshed: OnceLock<Blocks<C>>,
}

impl<C> Clone for Blocks<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Blocks<C> {
    /// Returns whether both are the same blocks, and not only equal ones.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the bootstrapped blocks, if they exist.
    pub(crate) fn refreshed(&self) -> Option<&Self> {
        self.0.refreshed.get()
    }

    /// Stores the bootstrapped blocks and returns them, or the blocks that another thread stored
    /// first.
    pub(crate) fn keep_refreshed(&self, blocks: Self) -> &Self {
        self.0.refreshed.get_or_init(|| blocks)
    }
}

impl<C> From<Vec<C>> for Blocks<C> {
    fn from(own: Vec<C>) -> Self {
        Self(Arc::new(Held { own, refreshed: OnceLock::new() }))
    }
}

impl<C> FromIterator<C> for Blocks<C> {
    fn from_iter<I: IntoIterator<Item = C>>(blocks: I) -> Self {
        Vec::from_iter(blocks).into()
    }
}

impl<C> core::ops::Deref for Blocks<C> {
    type Target = [C];

    fn deref(&self) -> &[C] {
        &self.0.own
    }
}
