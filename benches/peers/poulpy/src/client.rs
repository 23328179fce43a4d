//! The owner's side: a secret, fresh inputs, and results compared with what they should be.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use anyhow::{Result, ensure};
use poulpy_ckks::layouts::CKKSCiphertextOwned;
use poulpy_ckks::prelude::*;
use poulpy_core::api::{GLWESecretPreparedFactory, GLWESecretSampling};
use poulpy_core::layouts::{
    BackendGLWESecret, BackendGLWESecretPrepared, GLWESecretAlloc, LWEInfos,
};
use poulpy_hal::api::{ScratchOwnedAlloc, ScratchOwnedBorrow};
use poulpy_hal::layouts::{Module, ScratchOwned};
use poulpy_hal::source::Source;

use crate::backend::Cpu;

/// Bits above the scale that decrypted values have.
const INTEGER_BITS: usize = 8;

/// A stream seeded by the operating system through the standard library's hasher keys.
pub fn random() -> Source {
    let mut seed = [0; 32];
    for bytes in seed.chunks_mut(8) {
        bytes.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
    }
    Source::new(seed)
}

/// Real and imaginary parts of every slot.
#[derive(Clone)]
pub struct Slots {
    pub re: Vec<f64>,
    pub im: Vec<f64>,
}

impl Slots {
    fn zero(count: usize) -> Self {
        Self { re: vec![0.0; count], im: vec![0.0; count] }
    }

    /// Parts uniform in [-1, 1).
    pub fn random(count: usize, source: &mut Source) -> Self {
        let mut part = || (0..count).map(|_| source.next_f64(-1.0, 1.0)).collect();
        Self { re: part(), im: part() }
    }

    /// The slots of `self` at the indices that `index` gives.
    pub fn permuted(&self, index: impl Fn(usize) -> usize) -> Self {
        let part = |values: &[f64]| (0..values.len()).map(|i| values[index(i)]).collect();
        Self { re: part(&self.re), im: part(&self.im) }
    }

    pub fn product(&self, other: &Self) -> Self {
        let mut product = Self::zero(self.re.len());
        for i in 0..self.re.len() {
            product.re[i] = self.re[i] * other.re[i] - self.im[i] * other.im[i];
            product.im[i] = self.re[i] * other.im[i] + self.im[i] * other.re[i];
        }
        product
    }

    /// Distances in the plane of each slot from that of `other`.
    pub fn distances(&self, other: &Self) -> Result<Vec<f64>> {
        let parts = |slots: &Self| slots.re.iter().copied().zip(slots.im.iter().copied()).collect();
        let (ours, theirs): (Vec<_>, Vec<_>) = (parts(self), parts(other));
        let distances: Vec<f64> =
            ours.iter().zip(&theirs).map(|(a, b)| (a.0 - b.0).hypot(a.1 - b.1)).collect();
        ensure!(distances.iter().all(|d| d.is_finite()), "a slot is not a number");
        Ok(distances)
    }

    /// `-log2` of the largest distance of a real or imaginary part from that of `other`.
    pub fn worst_bits(&self, other: &Self) -> Result<f64> {
        let parts = self.re.iter().zip(&other.re).chain(self.im.iter().zip(&other.im));
        let errors: Vec<f64> = parts.map(|(a, b)| (a - b).abs()).collect();
        ensure!(errors.iter().all(|e| e.is_finite()), "a slot is not a number");
        Ok(-errors.into_iter().fold(0.0, f64::max).log2())
    }
}

pub struct Client<'a> {
    module: &'a Module<Cpu>,
    pub raw_secret: BackendGLWESecret<Cpu>,
    secret: BackendGLWESecretPrepared<Cpu>,
    source: Source,
}

impl<'a> Client<'a> {
    /// A fresh ternary secret of the given weight for ciphertexts of the layout.
    pub fn new(module: &'a Module<Cpu>, layout: &CKKSLayout, weight: usize) -> Self {
        let mut source = random();
        let mut raw_secret = module.glwe_secret_alloc_from_infos(&layout.glwe_layout);
        module.glwe_secret_fill_ternary_hw(&mut raw_secret, weight, &mut source);
        let mut secret = module.glwe_secret_prepared_alloc_from_infos(&layout.glwe_layout);
        module.glwe_secret_prepare(&mut secret, &raw_secret);
        Self { module, raw_secret, secret, source }
    }

    /// Encrypts fresh slots.
    pub fn encrypt(&mut self, layout: &CKKSLayout) -> Result<(Slots, CKKSCiphertextOwned<Cpu>)> {
        let module = self.module;
        let slots = Slots::random(layout.n().as_usize() / 2, &mut self.source);
        let mut plaintext = module.ckks_plaintext_alloc_from_slots(
            slots.re.len(),
            layout.base2k(),
            (layout.log_delta() + layout.log_budget().min(INTEGER_BITS)).into(),
        );
        plaintext.set_meta(layout.meta());
        let bytes = encoding_bytes(module, &slots).max(module.ckks_encrypt_sk_tmp_bytes(layout));
        let mut scratch = ScratchOwned::<Cpu>::alloc(bytes);
        module.ckks_encode_slots_host_into(
            &mut plaintext,
            &slots.re,
            &slots.im,
            &mut scratch.borrow(),
        )?;
        let mut ciphertext = module.ckks_ciphertext_alloc_from_infos(layout);
        let mut errors = random();
        module.ckks_encrypt_sk(
            &mut ciphertext,
            &plaintext,
            &self.secret,
            &mut errors,
            &mut self.source,
            &mut scratch.borrow(),
        )?;
        Ok((slots, ciphertext))
    }

    pub fn decrypt(&self, ciphertext: &CKKSCiphertextOwned<Cpu>) -> Result<Slots> {
        let module = self.module;
        let mut slots = Slots::zero(ciphertext.n().as_usize() / 2);
        let bits = ciphertext.log_delta() + ciphertext.log_budget().min(INTEGER_BITS);
        let mut plaintext = module.ckks_plaintext_alloc_from_slots(
            slots.re.len(),
            ciphertext.base2k(),
            bits.into(),
        );
        plaintext.set_meta(ciphertext.meta());
        let bytes = encoding_bytes(module, &slots)
            .max(module.ckks_decrypt_tmp_bytes(&plaintext, ciphertext));
        let mut scratch = ScratchOwned::<Cpu>::alloc(bytes);
        module.ckks_decrypt(&mut plaintext, ciphertext, &self.secret, &mut scratch.borrow())?;
        module.ckks_decode_slots_host_into(
            &plaintext,
            &mut slots.re,
            &mut slots.im,
            &mut scratch.borrow(),
        )?;
        Ok(slots)
    }
}

fn encoding_bytes(module: &Module<Cpu>, slots: &Slots) -> usize {
    CKKSEncodingHostOps::<Cpu, f64>::ckks_encoding_host_tmp_bytes(module, slots.re.len())
}
