//! Products and rotations at the sizes that the other libraries are timed at.

use anyhow::{Result, bail, ensure};
use poulpy_ckks::prelude::*;
use poulpy_core::api::{GLWEAutomorphismKeyPreparedFactory, GLWETensorKeyPreparedFactory};
use poulpy_core::layouts::{
    Base2K, Degree, Dnum, GLWEAutomorphismKeyAlloc, GLWEAutomorphismKeyLayout, GLWELayout,
    GLWETensorKeyAlloc, GLWETensorKeyLayout, LWEInfos, Rank, TorusPrecision,
};
use poulpy_core::{GLWEAutomorphismKeyEncryptSk, GLWETensorKeyEncryptSk};
use poulpy_hal::api::{ScratchOwnedAlloc, ScratchOwnedBorrow};
use poulpy_hal::layouts::{Module, ScratchOwned};
use std::collections::HashMap;

use crate::backend::Cpu;
use crate::client::{Client, random};
use crate::{Key, Times, keys_field};

/// As the library's presets have it: limbs of 52 bits and a secret of weight 1024.
const LIMB_BITS: usize = 52;
const WEIGHT: usize = 1024;
/// Bits below the scale that the worst slot of a right result may be.
const MARGIN_BITS: usize = 25;
const OPS: [&str; 2] = ["mul_rescale", "rotate"];

/// A ciphertext modulus, and keys of three digits as short as cover it.
pub struct Set {
    name: &'static str,
    log_n: u32,
    log2_q: usize,
    scale_bits: usize,
}

const SETS: [Set; 2] = [
    Set { name: "n15-q610", log_n: 15, log2_q: 610, scale_bits: 47 },
    Set { name: "n16-d24", log_n: 16, log2_q: 1140, scale_bits: 45 },
];
const DIGITS: usize = 3;

impl Set {
    pub fn named(name: &str) -> Option<Self> {
        SETS.into_iter().find(|set| set.name == name)
    }

    fn digit_bits(&self) -> usize {
        self.log2_q.div_ceil(DIGITS * LIMB_BITS) * LIMB_BITS
    }

    fn layout(&self) -> CKKSLayout {
        CKKSLayout {
            glwe_layout: GLWELayout {
                n: Degree(1 << self.log_n),
                base2k: Base2K(LIMB_BITS as u32),
                k: TorusPrecision(self.log2_q as u32),
                rank: Rank(1),
            },
            meta: GLWEPlaintextMeta {
                scale: Scale::Log(self.scale_bits),
                slots: SlotsKind::Complex,
                log_sparsity: 0,
            },
        }
    }

    /// The guard is a digit and what a product grows by in the ring.
    fn tensor_key(&self) -> GLWETensorKeyLayout {
        GLWETensorKeyLayout {
            n: Degree(1 << self.log_n),
            base2k: Base2K(LIMB_BITS as u32),
            dnum: Dnum(DIGITS as u32),
            k_aux: TorusPrecision((self.digit_bits() + self.log_n as usize) as u32),
            rank: Rank(1),
            k_digit: TorusPrecision(self.digit_bits() as u32),
        }
    }

    fn rotation_key(&self) -> GLWEAutomorphismKeyLayout {
        let GLWETensorKeyLayout { n, base2k, dnum, k_aux, rank, k_digit } = self.tensor_key();
        GLWEAutomorphismKeyLayout { n, base2k, dnum, k_aux, rank, k_digit }
    }
}

pub fn run(set: &Set, ops: &[String], runs: usize) -> Result<()> {
    if let Some(op) = ops.iter().find(|op| !OPS.contains(&op.as_str())) {
        bail!("unknown operation {op}; there are {}", OPS.join(", "));
    }
    let module = Module::<Cpu>::new(1 << set.log_n);
    let (layout, tensor, rotation) = (set.layout(), set.tensor_key(), set.rotation_key());
    let mut client = Client::new(&module, &layout, WEIGHT);
    let (mut errors, mut masks) = (random(), random());

    let bytes = [
        module.glwe_tensor_key_encrypt_sk_tmp_bytes(&tensor),
        module.glwe_tensor_key_prepare_tmp_bytes(&tensor),
        module.glwe_automorphism_key_encrypt_sk_tmp_bytes(&rotation),
        module.glwe_automorphism_key_prepare_tmp_bytes(&rotation),
        module.ckks_mul_tmp_bytes(&layout, &layout, &layout, &tensor),
        module.ckks_rotate_tmp_bytes(&layout, &rotation),
    ];
    let mut scratch = ScratchOwned::<Cpu>::alloc(bytes.into_iter().fold(0, usize::max));
    let tensor_key = {
        let mut raw = module.glwe_tensor_key_alloc_from_infos(&tensor);
        let secret = &client.raw_secret;
        let scratch = &mut scratch.borrow();
        module.glwe_tensor_key_encrypt_sk(&mut raw, secret, &mut errors, &mut masks, scratch);
        let mut key = module.glwe_tensor_key_prepared_alloc_from_infos(&tensor);
        module.glwe_tensor_key_prepare(&mut key, &raw, scratch);
        key
    };
    let element = module.ckks_galois_element(1);
    let rotation_keys = {
        let mut raw = module.glwe_automorphism_key_alloc_from_infos(&rotation);
        let secret = &client.raw_secret;
        let scratch = &mut scratch.borrow();
        let (errors, masks) = (&mut errors, &mut masks);
        module.glwe_automorphism_key_encrypt_sk(&mut raw, element, secret, errors, masks, scratch);
        let mut key = module.glwe_automorphism_key_prepared_alloc_from_infos(&rotation);
        module.glwe_automorphism_key_prepare(&mut key, &raw, scratch);
        HashMap::from([(element, key)])
    };

    let (x, ct_x) = client.encrypt(&layout)?;
    let (y, ct_y) = client.encrypt(&layout)?;
    for op in ops {
        let mut result = module.ckks_ciphertext_alloc_from_infos(&layout);
        let times = Times::measure(runs, || {
            // An operation narrows the result to what it leaves.
            result.set_k(layout.k());
            let scratch = &mut scratch.borrow();
            match op.as_str() {
                "rotate" => {
                    module.ckks_rotate_into(1, &mut result, &ct_x, &rotation_keys, scratch)?
                }
                _ => module.ckks_mul_into(&mut result, &ct_x, &ct_y, &tensor_key, scratch)?,
            }
            Ok(())
        })?;
        let want = match op.as_str() {
            "rotate" => x.permuted(|i| (i + 1) % x.re.len()),
            _ => x.product(&y),
        };
        let bits = client.decrypt(&result)?.worst_bits(&want)?;
        let least = set.scale_bits - MARGIN_BITS;
        ensure!(
            bits > least as f64,
            "{}, {op}: wrong result: the worst slot is right to {bits:.1} bits, not {least}",
            set.name
        );
        println!("{}", line(set, op, &times, bits, layout.size(), tensor.k().as_usize()));
    }
    Ok(())
}

/// What one operation took, with `limbs` words a coefficient and keys modulo `2^log2_qp`.
fn line(set: &Set, op: &str, times: &Times, bits: f64, limbs: usize, log2_qp: usize) -> String {
    format!(
        "{{{},\"level\":{},\"precision_bits\":{bits:.2},\"bytes\":{},\"log_n\":{},\
         \"log_q\":{},\"log_p\":{},\"dnum\":{DIGITS},{}}}",
        times.fields(op, set.name),
        set.log2_q / set.scale_bits - 1,
        (2 * 8 * limbs) << set.log_n,
        set.log_n,
        set.log2_q,
        log2_qp - set.log2_q,
        keys_field(&[Key { what: "evaluation keys", log2_q: log2_qp, weight: WEIGHT }]),
    )
}
