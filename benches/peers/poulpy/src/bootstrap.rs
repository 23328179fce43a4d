//! Bootstrapping of all slots of one ciphertext by a preset of the library.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use poulpy_ckks::api::{CKKSBootstrappingCIOps, CKKSBootstrappingOps};
use poulpy_ckks::layouts::{
    BootstrappingContextPrepared, BootstrappingKeySet, BootstrappingKeysPrepared,
    CKKSCiphertextOwned, EvalModRing,
};
use poulpy_ckks::prelude::*;
use poulpy_ckks::presets::bootstrapping::{self, BootstrappingPreset};
use poulpy_core::api::{
    GGLWEPreparedFactory, GLWEAutomorphismKeyPreparedFactory, GLWECIKeyPreparedFactory,
    GLWESwitchingKeyPreparedFactory, GLWETensorKeyPreparedFactory,
};
use poulpy_core::layouts::{GGLWEInfos, GLWESwitchingKey, GLWETensorKeyPrepared, LWEInfos};
use poulpy_core::{
    GLWEAutomorphismKeyEncryptSk, GLWESwitchingKeyEncryptSk, GLWETensorKeyEncryptSk,
};
use poulpy_hal::api::{ScratchOwnedAlloc, ScratchOwnedBorrow};
use poulpy_hal::layouts::{Backend, Module, ScratchArena, ScratchOwned};

use crate::backend::{Cpu, RealCpu};
use crate::client::{Client, random};
use crate::{Key, Times, keys_field};

/// Failure probability of a bootstrapping, `2^-FAILURE_BITS`, that limbs are as wide as allows. The
/// library's own benchmarks choose the same.
const FAILURE_BITS: usize = 128;
/// Bits below the preset's precision, the least of all slots, that a right result may be.
const MARGIN_BITS: f64 = 4.0;

type Owned = <Cpu as Backend>::OwnedBuf;
type Word = <Cpu as Backend>::ZnxWord;
type Keys<B> = BootstrappingKeysPrepared<Owned, Cpu, B>;

fn preset(name: &str) -> Result<BootstrappingPreset> {
    let (base, powers_of_two) = match name.strip_suffix("+pow2") {
        Some(base) => (base, true),
        None => (name, false),
    };
    let presets = bootstrapping::all()?;
    let names: Vec<_> = presets.iter().map(BootstrappingPreset::name).collect();
    let preset = presets
        .iter()
        .find(|preset| preset.name() == base)
        .with_context(|| format!("unknown set {name}; there are {}", names.join(", ")))?;
    let preset = if powers_of_two { preset.with_power_of_two_keys()? } else { preset.clone() };
    preset.with_backend_base2k::<Cpu, RealCpu>(FAILURE_BITS)
}

/// What a bootstrapping needs beside the ciphertexts.
enum Circuit {
    Standard {
        context: Context64,
        keys: Keys<Cpu>,
    },
    /// The reduction runs on the conjugate-invariant ring.
    Invariant {
        ci: Module<RealCpu>,
        context: Context64,
        keys: Keys<RealCpu>,
        scratch: ScratchOwned<RealCpu>,
    },
}

type Context64 = BootstrappingContextPrepared<Cpu, f64>;

/// Prepares keys one at a time and drops each raw one, so that few are in memory twice.
fn prepare_keys<B: Backend>(
    raw: BootstrappingKeySet<Owned, Word>,
    module: &Module<Cpu>,
    tensor_key: GLWETensorKeyPrepared<Owned, B>,
    scratch: &mut ScratchArena<'_, Cpu>,
) -> Keys<B> {
    let mut rotation_keys = HashMap::with_capacity(raw.rotation_keys.len());
    for (element, key) in raw.rotation_keys {
        let mut prepared = module.glwe_automorphism_key_prepared_alloc_from_infos(&key);
        module.glwe_automorphism_key_prepare(&mut prepared, &key, scratch);
        rotation_keys.insert(element, prepared);
    }
    let mut switching = |key: GLWESwitchingKey<Owned, Word>| {
        let mut prepared = module.glwe_switching_key_prepared_alloc_from_infos(&key);
        module.glwe_switching_key_prepare(&mut prepared, &key, scratch);
        prepared
    };
    let encapsulation_keys =
        raw.encapsulation_keys.map(|(to, from)| (switching(to), from.map(&mut switching)));
    let first_factor_keys = raw
        .first_factor_keys
        .into_iter()
        .map(|(rotation, key)| (rotation, switching(key)))
        .collect();
    let conversion_keys = raw.conversion_keys.map(|(trace, embed)| {
        let mut trace_key = module.glwe_ci_trace_key_prepared_alloc_from_infos(&trace);
        module.glwe_ci_key_prepare(&mut trace_key, &trace, scratch);
        let mut embed_key = module.glwe_ci_embed_key_prepared_alloc_from_infos(&embed);
        module.glwe_ci_key_prepare(&mut embed_key, &embed, scratch);
        (trace_key, embed_key)
    });
    BootstrappingKeysPrepared {
        rotation_keys,
        tensor_key,
        encapsulation_keys,
        first_factor_keys,
        conversion_keys,
    }
}

/// What making keys and matrices took.
struct SetUp {
    keygen: Duration,
    prepare: Duration,
    key_bytes: usize,
}

/// The circuit and the scratch memory of its bootstrapping.
fn set_up(
    preset: &BootstrappingPreset,
    module: &Module<Cpu>,
    client: &Client,
) -> Result<(Circuit, ScratchOwned<Cpu>, SetUp)> {
    let (plan, layouts, base2k) = (preset.plan(), preset.keys_layout(), preset.base2k().into());
    let (input, output) = (preset.input_layout(), preset.bootstrap_layout());
    let (mut secrets, mut errors, mut masks) = (random(), random(), random());
    let (secret, start) = (&client.raw_secret, Instant::now());
    if plan.eval_mod_ring() == EvalModRing::Standard {
        let context = {
            let bytes = Context64::compile_unprepared_tmp_bytes(module, plan)?;
            let mut scratch = ScratchOwned::<Cpu>::alloc(bytes);
            let context =
                Context64::compile_unprepared(module, base2k, plan, &mut scratch.borrow())?;
            let bytes = context.prepare_tmp_bytes(module);
            let mut scratch = ScratchOwned::<Cpu>::alloc(bytes);
            context.prepare(module, &mut scratch.borrow())?
        };
        let prepare = start.elapsed();
        let start = Instant::now();
        let bytes = generate_bytes(preset, module).max(layouts.prepare_tmp_bytes(module));
        let mut scratch = ScratchOwned::<Cpu>::alloc(bytes);
        let raw = plan.generate_keys(
            module,
            secret,
            layouts,
            &mut secrets,
            &mut errors,
            &mut masks,
            &mut scratch.borrow(),
        )?;
        let mut tensor = module.glwe_tensor_key_prepared_alloc_from_infos(&raw.tensor_key);
        module.glwe_tensor_key_prepare(&mut tensor, &raw.tensor_key, &mut scratch.borrow());
        let keys = prepare_keys(raw, module, tensor, &mut scratch.borrow());
        let (keygen, key_bytes) = (start.elapsed(), key_bytes(module, &keys));
        let bytes = module.ckks_bootstrap_tmp_bytes(&output, &input, &context, layouts);
        let circuit = Circuit::Standard { context, keys };
        return Ok((circuit, ScratchOwned::alloc(bytes), SetUp { keygen, prepare, key_bytes }));
    }

    let ci = Module::<RealCpu>::new(preset.n() as u64);
    let context = {
        let (bytes, bytes_ci) = Context64::compile_ci_unprepared_tmp_bytes(module, &ci, plan)?;
        let mut scratch = ScratchOwned::<Cpu>::alloc(bytes);
        let mut scratch_ci = ScratchOwned::<RealCpu>::alloc(bytes_ci);
        let (scratch, scratch_ci) = (&mut scratch.borrow(), &mut scratch_ci.borrow());
        let context =
            Context64::compile_ci_unprepared(module, &ci, base2k, plan, scratch, scratch_ci)?;
        let bytes = context.prepare_tmp_bytes(module);
        let mut scratch = ScratchOwned::<Cpu>::alloc(bytes);
        context.prepare(module, &mut scratch.borrow())?
    };
    let prepare = start.elapsed();
    let start = Instant::now();
    let (generate, generate_ci) = layouts.generate_ci_tmp_bytes(module, &ci);
    let (bytes, bytes_ci) = layouts.prepare_ci_tmp_bytes(module, &ci);
    let mut scratch = ScratchOwned::<Cpu>::alloc(bytes.max(generate));
    let mut scratch_ci = ScratchOwned::<RealCpu>::alloc(bytes_ci.max(generate_ci));
    let raw = plan.generate_keys_ci(
        module,
        &ci,
        secret,
        layouts,
        &mut secrets,
        &mut errors,
        &mut masks,
        &mut scratch.borrow(),
        &mut scratch_ci.borrow(),
    )?;
    let mut tensor = ci.glwe_tensor_key_prepared_alloc_from_infos(&raw.tensor_key);
    ci.glwe_tensor_key_prepare(&mut tensor, &raw.tensor_key, &mut scratch_ci.borrow());
    let keys = prepare_keys(raw, module, tensor, &mut scratch.borrow());
    let (keygen, key_bytes) = (start.elapsed(), key_bytes(module, &keys));
    let (bytes, bytes_ci) =
        module.ckks_bootstrap_ci_tmp_bytes(&ci, &output, &input, &context, layouts);
    let scratch_ci = ScratchOwned::alloc(bytes_ci);
    let circuit = Circuit::Invariant { ci, context, keys, scratch: scratch_ci };
    Ok((circuit, ScratchOwned::alloc(bytes), SetUp { keygen, prepare, key_bytes }))
}

/// Scratch of key generation: the largest encryption of a key, beside an ephemeral secret.
fn generate_bytes(preset: &BootstrappingPreset, module: &Module<Cpu>) -> usize {
    let layouts = preset.keys_layout();
    let mut bytes = module.glwe_tensor_key_encrypt_sk_tmp_bytes(&layouts.tensor_key);
    for layout in layouts.rotation_keys.values() {
        bytes = bytes.max(module.glwe_automorphism_key_encrypt_sk_tmp_bytes(layout));
    }
    let encapsulation = layouts.encapsulation.iter();
    let raising = encapsulation.flat_map(|e| [Some(e.dense_to_sparse), e.sparse_to_dense]);
    for layout in raising.chain([layouts.first_factor_key]).flatten() {
        bytes = bytes.max(module.glwe_switching_key_encrypt_sk_tmp_bytes(&layout));
    }
    // An ephemeral secret and a rotated one, with room for their alignment.
    bytes + 2 * (8 * preset.n() + 4096)
}

impl Circuit {
    fn bootstrap(
        &mut self,
        module: &Module<Cpu>,
        output: &mut CKKSCiphertextOwned<Cpu>,
        input: &CKKSCiphertextOwned<Cpu>,
        scratch: &mut ScratchOwned<Cpu>,
    ) -> Result<()> {
        let scratch = &mut scratch.borrow();
        match self {
            Self::Standard { context, keys } => {
                module.ckks_bootstrap(output, input, context, keys, scratch)?;
            }
            Self::Invariant { ci, context, keys, scratch: scratch_ci } => {
                let scratch_ci = &mut scratch_ci.borrow();
                module.ckks_bootstrap_ci_into(
                    ci, output, input, context, keys, scratch, scratch_ci,
                )?;
            }
        }
        Ok(())
    }
}

/// Bytes of the prepared keys.
fn key_bytes<B: Backend>(module: &Module<Cpu>, keys: &Keys<B>) -> usize {
    fn total<K: GGLWEInfos>(module: &Module<Cpu>, keys: impl IntoIterator<Item = K>) -> usize {
        keys.into_iter().map(|key| module.gglwe_prepared_bytes_of_from_infos(&key)).sum()
    }
    let encapsulation = keys.encapsulation_keys.iter();
    let conversion = keys.conversion_keys.iter();
    total(module, keys.rotation_keys.values())
        + total(module, [&keys.tensor_key])
        + total(module, encapsulation.flat_map(|(to, from)| [Some(to), from.as_ref()]).flatten())
        + total(module, keys.first_factor_keys.values())
        + conversion
            .map(|(trace, embed)| total(module, [trace]) + total(module, [embed]))
            .sum::<usize>()
}

/// The kinds of keys that are published, each at the modulus of its widest one.
fn published_keys(preset: &BootstrappingPreset) -> Vec<Key> {
    let layouts = preset.keys_layout();
    let dense = preset.dense_secret_hamming_weight();
    let rotations = layouts.rotation_keys.values().map(|layout| layout.k().as_usize());
    let evaluation = rotations.fold(layouts.tensor_key.k().as_usize(), usize::max);
    let mut keys = vec![Key { what: "evaluation keys", log2_q: evaluation, weight: dense }];
    if let Some(layout) = &layouts.encapsulation {
        keys.push(Key {
            what: "key to the ephemeral secret",
            log2_q: layout.dense_to_sparse.k().as_usize(),
            weight: preset.sparse_secret_hamming_weight(),
        });
        if let Some(layout) = &layout.sparse_to_dense {
            let (what, log2_q) = ("key from the ephemeral secret", layout.k().as_usize());
            keys.push(Key { what, log2_q, weight: dense });
        }
    }
    if let Some(layout) = &layouts.first_factor_key {
        let (what, log2_q) = ("keys of the first factor", layout.k().as_usize());
        keys.push(Key { what, log2_q, weight: dense });
    }
    if let Some((trace, embed)) = &layouts.conversion_keys {
        let log2_q = trace.k().as_usize().max(embed.k().as_usize());
        keys.push(Key { what: "conversion keys", log2_q, weight: dense });
    }
    keys
}

pub fn run(name: &str, runs: usize) -> Result<()> {
    let preset = preset(name)?;
    let invariant = preset.plan().eval_mod_ring() != EvalModRing::Standard;
    let degree = if invariant { 2 * preset.n() } else { preset.n() };
    let module = Module::<Cpu>::new(degree as u64);
    let (input_layout, output_layout) = (preset.input_layout(), preset.bootstrap_layout());
    let mut client = Client::new(&module, &output_layout, preset.dense_secret_hamming_weight());
    let (mut circuit, mut scratch, set_up) = set_up(&preset, &module, &client)?;

    let mut output = module.ckks_ciphertext_alloc_from_infos(&output_layout);
    let (mut ms, mut distances) = (Vec::with_capacity(runs), Vec::new());
    // The first run is the warm-up.
    for run in 0..=runs {
        let (_, input) = client.encrypt(&input_layout)?;
        let want = client.decrypt(&input)?;
        output.set_k(output_layout.k());
        let start = Instant::now();
        circuit.bootstrap(&module, &mut output, &input, &mut scratch)?;
        let elapsed = start.elapsed();
        if run > 0 {
            ms.push(elapsed.as_secs_f64() * 1e3);
        }
        distances.extend(client.decrypt(&output)?.distances(&want)?);
    }
    let worst = -distances.iter().copied().fold(0.0, f64::max).log2();
    let mean = -(distances.iter().sum::<f64>() / distances.len() as f64).log2();
    let least = preset.log2_precision() as f64 - MARGIN_BITS;
    ensure!(
        worst > least,
        "{name}, bootstrap: wrong result: the worst slot is right to {worst:.1} bits, not {least}"
    );
    ensure!(
        output.k().as_usize() == preset.output_k() && output.log_delta() == preset.log_delta(),
        "{name}, bootstrap: {} bits at a scale of {}, not {} at {}",
        output.k(),
        output.log_delta(),
        preset.output_k(),
        preset.log_delta()
    );

    let usable = preset.output_k() - preset.input_k();
    let widest = preset.keys_layout().rotation_keys.values().max_by_key(|key| key.k());
    println!(
        "{{{},\"level\":0,\"precision_bits\":{mean:.2},\"worst_precision_bits\":{worst:.2},\
         \"bytes\":{},\"log_n\":{},\"log_q\":{},\"log_p\":{},\"dnum\":{},\"log_slots\":{},\
         \"ciphertexts\":1,\"levels_left\":{},\"scale_bits\":{},\"residual_bits\":{},\
         \"key_bytes\":{},\"keygen_s\":{:.3},\"prepare_s\":{:.3},{}}}",
        Times::new(ms).fields("bootstrap", name),
        set_up.key_bytes,
        preset.log_n(),
        preset.bootstrap_k(),
        widest.map_or(0, |key| key.k().as_usize().saturating_sub(preset.bootstrap_k())),
        widest.map_or(0, |key| key.dnum().as_usize()),
        preset.log_n() - 1,
        usable / preset.log_delta(),
        preset.log_delta(),
        preset.log_modulus() + usable,
        set_up.key_bytes,
        set_up.keygen.as_secs_f64(),
        set_up.prepare.as_secs_f64(),
        keys_field(&published_keys(&preset)),
    );
    Ok(())
}
