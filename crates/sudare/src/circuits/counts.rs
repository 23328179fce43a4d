//! Counts of a circuit's expensive operations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Operations of a circuit up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Products of two ciphertexts, relinearised.
    pub products: u64,
    /// Products of a ciphertext with a constant.
    pub constant_products: u64,
    /// Rescalings, including the ones within products.
    pub rescalings: u64,
    /// Automorphisms other than the identity.
    pub automorphisms: u64,
    /// Raisings from level 0.
    pub raisings: u64,
}

/// Counters behind [`Counts`], which operations increment.
#[derive(Debug, Default)]
pub(super) struct Counters {
    products: AtomicU64,
    constant_products: AtomicU64,
    rescalings: AtomicU64,
    automorphisms: AtomicU64,
    raisings: AtomicU64,
}

impl Counters {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            products: self.products.load(Relaxed),
            constant_products: self.constant_products.load(Relaxed),
            rescalings: self.rescalings.load(Relaxed),
            automorphisms: self.automorphisms.load(Relaxed),
            raisings: self.raisings.load(Relaxed),
        }
    }

    pub(super) fn products(&self, more: u64) {
        self.products.fetch_add(more, Relaxed);
    }

    pub(super) fn constant_products(&self, more: u64) {
        self.constant_products.fetch_add(more, Relaxed);
    }

    pub(super) fn rescalings(&self, more: u64) {
        self.rescalings.fetch_add(more, Relaxed);
    }

    pub(super) fn automorphisms(&self, more: u64) {
        self.automorphisms.fetch_add(more, Relaxed);
    }

    pub(super) fn raisings(&self, more: u64) {
        self.raisings.fetch_add(more, Relaxed);
    }
}
