//! Networks of more levels than a ring has, against themselves in the clear.

use sudare::{
    circuits::ckks::{
        EvalModSpec, ModMethod,
        bootstrap::{self, BootstrapPreset, BootstrapSpec, Order, Values},
    },
    ckks::{Preset, Spec},
};

use super::*;

/// A set in a small ring, as in the tests of bootstrapping, with `usable` levels.
pub(super) fn small_set(usable: usize) -> BootstrapPreset {
    let bootstrap = BootstrapSpec {
        log_slots: 8,
        order: Order::SlotsToCoeffsFirst,
        values: Values::Real,
        ephemeral_weight: Some(32),
        coeffs_to_slots: vec![4, 4],
        slots_to_coeffs: vec![4, 4],
        eval_mod: EvalModSpec {
            k: 14,
            log2_ratio: 7.0,
            method: ModMethod::Cosine { degree: 28, double_angles: 3 },
            inverse_sine: None,
        },
        correction: true,
        refinement: None,
    };
    let high = 2 + bootstrap.eval_mod.depth().unwrap() as usize;
    let q_bits = [vec![vec![44.0]], vec![vec![37.0]; 4 + usable], vec![vec![49.6]; high]].concat();
    let uniform = Spec::uniform(9, 0.0, 0, 37.0, vec![49.65; 6]);
    let spec = Spec { q_bits, insecure: true, ..uniform };
    let [name, summary, source] = ["small", "insecure", "tests"].map(String::from);
    BootstrapPreset {
        preset: Preset { name, summary, source, spec },
        bootstrap,
        precision_bits: 16.0,
    }
}

fn options(samples: usize, packing: Packing) -> Options {
    Options { samples, packing, precision_bits: 10.0 }
}

fn small_plan(network: &Network, samples: &[&[f64]], packing: Packing, usable: usize) -> Plan {
    let ranges = Ranges::calibrate(network, samples.iter().copied(), 1.25).unwrap();
    let set = small_set(usable);
    Plan::with_bootstrapping(network, &ranges, options(samples.len(), packing), &set).unwrap()
}

/// Squares, sigmoids and residual blocks of them, with numbers far from 1.
pub(super) fn deep_network(seed: u64) -> Network {
    let mut draw = Draw::new(seed);
    let sigmoid = || Layer::Activation(Activation::Sigmoid { degree: 3 });
    let square = || Layer::Activation(Activation::Square);
    let times = |factor: f64| Layer::Normalize { factors: vec![factor; 4], offsets: vec![0.1; 4] };
    let layers = vec![
        draw.dense(3, 4),
        times(30.0),
        square(),
        times(0.01),
        sigmoid(),
        Layer::Residual {
            layers: vec![draw.dense(4, 6), sigmoid(), draw.dense(6, 5), square(), draw.dense(5, 4)],
            shortcut: vec![],
        },
        sigmoid(),
        Layer::Residual {
            layers: vec![draw.dense(4, 4), sigmoid(), times(1e-3)],
            shortcut: vec![times(2e-3)],
        },
        square(),
        times(1e5),
        draw.dense(4, 2),
    ];
    Network::new(vec![3], layers).unwrap()
}

#[test]
fn deep_networks_are_bootstrapped() {
    for (packing, count) in [(Packing::Features, 5), (Packing::Sample, 1)] {
        let network = deep_network(3);
        let samples = Draw::new(4).samples(5, 3);
        let samples = slices(&samples);
        let plan = small_plan(&network, &samples, packing, 6);
        let samples = &samples[..count];
        let explanation = plan.explain().unwrap();
        assert_eq!(explanation.bootstrapping.as_deref(), Some("small"));
        // Seven functions of at least a level and their maps do not fit twice six levels.
        let each = if packing == Packing::Sample { 1 } else { 4 };
        assert!(explanation.bootstraps >= 2 * each, "{explanation:?}");
        assert!(explanation.bootstraps <= 6 * each, "{explanation:?}");
        assert!(explanation.seconds > 0.0 && explanation.key_bytes > 0);

        let clear: Vec<_> = samples.iter().map(|x| plan.clear(x).unwrap()).collect();
        let size = plan.ranges().output;
        assert!(distance(&clear, &forward(&network, samples)) < 0.1 * size);
        let simulated = plan.simulate(samples).unwrap();
        assert!(distance(&simulated.results, &clear) < 1e-3 * size, "{simulated:?} {clear:?}");
        assert!(simulated.headroom_bits > 0.0);

        let world = World::new(plan.clone());
        let error = distance(&world.run(samples), &clear);
        assert!(error < 6.0 * plan.error(), "{packing:?} {error} {}", plan.error());
        assert!(error < 0.02 * size, "{error} of {size}");
        // A plan without levels to raise to is not for this evaluator.
        let leveled =
            planned(&random_network(1, &[3, 2], &Activation::Square), samples, packing, 8.0);
        assert!(matches!(leveled.prepare(&world.evaluator), Err(NnError::NotAsPlanned { .. })));
    }
}

/// One bottleneck among wide layers, where ciphertexts are fewest.
#[test]
fn bootstraps_are_placed_where_there_is_least() {
    let network = random_network(5, &[4, 8, 8, 2, 8, 8, 3], &Activation::Square);
    let samples = Draw::new(6).samples(4, 4);
    let samples = slices(&samples);
    let plan = small_plan(&network, &samples, Packing::Features, 8);
    assert_eq!(plan.explain().unwrap().bootstraps, 2);
    let expected = forward(&network, &samples);
    let error = distance(&World::new(plan.clone()).run(&samples), &expected);
    assert!(error < 6.0 * plan.error(), "{error} {}", plan.error());
    // Nothing is bootstrapped if levels suffice.
    let plan = small_plan(&network, &samples, Packing::Features, 12);
    let explanation = plan.explain().unwrap();
    assert_eq!((explanation.bootstraps, explanation.bootstrapping), (0, None));
    let error = distance(&World::new(plan.clone()).run(&samples), &expected);
    assert!(error < 6.0 * plan.error(), "{error} {}", plan.error());
}

/// Bootstrapping would change numbers beyond their range: simulation finds them.
#[test]
fn numbers_beyond_their_ranges_are_found_in_simulation() {
    let network = random_network(5, &[4, 4, 4, 4, 4, 3], &Activation::Square);
    let samples = Draw::new(6).samples(4, 4);
    let samples = slices(&samples);
    let ranges = Ranges::calibrate(&network, samples.iter().copied(), 1.0).unwrap();
    let narrow = |factor: f64| Ranges {
        activations: ranges.activations.iter().map(|most| factor * most).collect(),
        ..ranges.clone()
    };
    let plan = |ranges: &Ranges| {
        let options = options(4, Packing::Features);
        Plan::with_bootstrapping(&network, ranges, options, &small_set(4)).unwrap()
    };
    assert!(plan(&ranges).explain().unwrap().bootstraps > 0);
    plan(&ranges).simulate(&samples).unwrap();
    let error = plan(&narrow(0.8)).simulate(&samples).unwrap_err();
    assert!(error.to_string().contains("pre-activation"), "{error}");

    let deep = random_network(5, &[4, 4, 3], &Activation::Sigmoid { degree: 40 });
    let ranges = Ranges { input: [-1.0, 1.0], activations: vec![2.0], output: 1.0 };
    let options = options(4, Packing::Features);
    let error = Plan::with_bootstrapping(&deep, &ranges, options, &small_set(4)).unwrap_err();
    assert!(matches!(error, NnError::DeepActivation { needed: 5, left: 4 }), "{error}");
}

/// Layers of about the gain 1, so that an error anywhere is seen in results.
pub(super) fn tanh_network(activations: usize, degree: usize) -> Network {
    let mut draw = Draw::new(9);
    let mut layers = Vec::new();
    for _ in 0..activations {
        let Layer::Dense { mut weights, mut bias, step } = draw.dense(8, 8) else { continue };
        weights.iter_mut().flatten().for_each(|weight| *weight *= 1.7);
        bias.iter_mut().for_each(|bias| *bias *= 0.2);
        layers.push(Layer::Dense { weights, bias, step });
        layers.push(Layer::Activation(Activation::Tanh { degree }));
    }
    layers.push(draw.dense(8, 3));
    Network::new(vec![8], layers).unwrap()
}

/// Forty activations, planned with the existing sets.
#[test]
fn networks_deeper_than_any_ring_are_bootstrapped() {
    let network = tanh_network(40, 7);
    let samples = Draw::new(4).samples(40, 8);
    let samples = slices(&samples);
    for (precision_bits, name) in
        [(8.0, "n15-boot-net"), (14.0, "n16-boot-real"), (20.0, "n16-boot-high")]
    {
        let plan = planned(&network, &samples[..1], Packing::Sample, precision_bits);
        let explanation = plan.explain().unwrap();
        assert_eq!(explanation.bootstrapping.as_deref(), Some(name));
        assert!((2..40).contains(&explanation.bootstraps), "{explanation:?}");
        assert!(plan.params().rlwe().security_bits() >= 128.0);
        let simulated = plan.simulate(&samples[..1]).unwrap();
        let clear = [plan.clear(samples[0]).unwrap()];
        let most = 2f64.powf(3.0 - precision_bits);
        assert!(distance(&simulated.results, &clear) < most, "{simulated:?}");
    }
}

/// A ring of dimension 2^17 has enough levels for these networks, but may be slower, or lack the
/// primes.
#[test]
fn deep_networks_are_planned_for_the_least_time() {
    let samples = Draw::new(4).samples(40, 8);
    let samples = slices(&samples);
    for activations in [16, 24] {
        let network = tanh_network(activations, 7);
        let plan = planned(&network, &samples, Packing::Sample, 8.0);
        let ranges = plan.ranges();
        let options = plan.options();
        let found = plan.explain().unwrap();
        for set in ["n15-boot-net", "n16-boot-real"] {
            let set = bootstrap::preset(set).unwrap();
            let other = Plan::with_bootstrapping(&network, ranges, options, &set).unwrap();
            let other = other.explain().unwrap();
            assert!(found.seconds <= other.seconds, "{found:?} {other:?}");
        }
        assert!(found.log_n >= 16 || found.bootstrapping.is_some(), "{found:?}");
    }
}

/// Twelve activations, compared with the plain network of the same polynomials, and of the exact
/// activations.
#[test]
#[ignore = "minutes at full ring size"]
fn a_deep_network_is_bootstrapped_at_full_size() {
    let network = tanh_network(12, 15);
    let samples = Draw::new(4).samples(200, 8);
    let samples = slices(&samples);
    let ranges = Ranges::calibrate(&network, samples.iter().copied(), 1.25).unwrap();
    let set = bootstrap::preset("n16-boot-real").unwrap();
    for (packing, count) in [(Packing::Sample, 1), (Packing::Features, 100)] {
        let samples = &samples[..count];
        let options = options(count, packing);
        let plan = Plan::with_bootstrapping(&network, &ranges, options, &set).unwrap();
        let explanation = plan.explain().unwrap();
        eprintln!("{explanation:?}");
        assert!(explanation.bootstraps >= 4);
        let world = World::new(plan.clone());
        let prepared = plan.prepare(&world.evaluator).unwrap();
        let inputs = world.encrypt(samples);
        let start = std::time::Instant::now();
        let results = plan.run(&world.evaluator, &prepared, &inputs).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let found = plan.decrypt(&world.decryptor, &results, count).unwrap();
        let clear: Vec<_> = samples.iter().map(|x| plan.clear(x).unwrap()).collect();
        let [error, off] = [&clear, &forward(&network, samples)].map(|x| distance(&found, x));
        eprintln!("{seconds:.1} s, off by {error:e} of planned {:e}, {off:e}", plan.error());
        assert!(error < 6.0 * plan.error());
        assert!(off < 0.05 * plan.ranges().output, "{off}");
    }
}
