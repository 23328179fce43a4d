//! A value that a computation either borrows or shares.

use std::sync::Arc;

/// A value that is borrowed from its owner, or shared with it.
pub(crate) enum MaybeShared<'a, T> {
    Borrowed(&'a T),
    Shared(Arc<T>),
}

impl<T> Clone for MaybeShared<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Borrowed(held) => Self::Borrowed(held),
            Self::Shared(held) => Self::Shared(Arc::clone(held)),
        }
    }
}

impl<T> core::ops::Deref for MaybeShared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(held) => held,
            Self::Shared(held) => held,
        }
    }
}
