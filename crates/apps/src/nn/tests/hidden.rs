//! Networks with encrypted weights, against themselves in the clear.

use sudare::rlwe::{Level, Seeded};

use super::*;

/// Owner and server of a plan, and the weights as the server has them.
struct Hidden {
    plan: HiddenPlan,
    encryptor: SymmetricEncryptor,
    decryptor: Decryptor,
    evaluator: Evaluator,
    weights: Vec<Ciphertext>,
}

fn outline(network: &Network, samples: &[&[f64]], precision_bits: f64) -> Outline {
    let ranges = Ranges::calibrate(network, samples.iter().copied(), 1.25).unwrap();
    Outline::of(network, &ranges, precision_bits).unwrap()
}

/// An outline that has travelled as text.
fn sent(outline: &Outline) -> Outline {
    serde_json::from_str(&serde_json::to_string(outline).unwrap()).unwrap()
}

impl Hidden {
    fn new(network: &Network, outline: &Outline) -> Self {
        Self::with_plan(network, HiddenPlan::new(outline).unwrap())
    }

    fn with_plan(network: &Network, plan: HiddenPlan) -> Self {
        let params = plan.params().clone();
        let mut keygen = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([6; 32]));
        let secret = Arc::new(keygen.secret_key().unwrap());
        let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys()).unwrap());
        let encryptor = SymmetricEncryptor::new(&params, Arc::clone(&secret)).unwrap();
        let mut weights = Vec::new();
        let write = |part: usize, item: Seeded<Ciphertext>| {
            assert_eq!(part, weights.len());
            weights.push(item.into_ciphertext());
            Ok(())
        };
        plan.encrypt_weights(&encryptor, network, write).unwrap();
        assert_eq!(weights.len(), plan.weights());
        for (weights, form) in weights.iter().zip(plan.weight_forms()) {
            let slots = weights.slots().ilog2();
            assert_eq!((weights.level(), weights.scale(), slots), form);
        }
        let decryptor = Decryptor::new(&params, secret).unwrap();
        let evaluator = Evaluator::new(&params, keys).unwrap();
        Self { plan, encryptor, decryptor, evaluator, weights }
    }

    /// The server's side. Its plan is made from the outline alone.
    fn server(&self, plan: &HiddenPlan, sample: &[f64]) -> Vec<f64> {
        let sample = self.plan.encrypt(&self.encryptor, sample).unwrap().into_ciphertext();
        let prepared = plan.prepare(&self.evaluator).unwrap();
        let read = |part: usize| Ok(self.weights[part].clone());
        let result = plan.run(&self.evaluator, &prepared, read, &sample).unwrap();
        self.plan.decrypt(&self.decryptor, &result).unwrap()
    }

    fn run(&self, sample: &[f64]) -> Vec<f64> {
        self.server(&HiddenPlan::new(&sent(self.plan.outline())).unwrap(), sample)
    }

    /// Compares a simulated and an encrypted run with the network in the clear, whose results are
    /// up to `largest`.
    fn check(&self, network: &Network, sample: &[f64], largest: f64) {
        let expected = network.forward(sample).unwrap();
        let simulated = self.plan.simulate(network, sample).unwrap();
        assert!(distance(&[simulated], std::slice::from_ref(&expected)) < 1e-9);
        let error = distance(&[self.run(sample)], &[expected]);
        assert!(error < 2f64.powi(-9) * largest, "{error} of {largest}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn networks_of_any_shape_may_be_hidden(
        seed in any::<u64>(),
        sizes in prop::collection::vec(1usize..20, 2..4),
        curve in prop_oneof![Just(vec![0.0, 0.0, 1.0]), Just(vec![0.25, 0.5, 0.0, -0.125])],
    ) {
        let network = random_network(seed, &sizes, &Activation::Polynomial(curve));
        let samples = Draw::new(seed ^ 1).samples(20, sizes[0]);
        let samples = slices(&samples);
        let outline = outline(&network, &samples, 12.0);
        let hidden = Hidden::new(&network, &outline);
        let largest = outline_output(&network, &samples);
        samples[..2].iter().for_each(|sample| hidden.check(&network, sample, largest));
    }
}

fn outline_output(network: &Network, samples: &[&[f64]]) -> f64 {
    Ranges::calibrate(network, samples.iter().copied(), 1.25).unwrap().output
}

/// The digits' network, and one with convolutions and an approximated activation.
#[test]
fn digits_and_images_are_classified_by_hidden_weights() {
    let images = strokes(20);
    let images = slices(&images);
    let (network, _) = digits().unwrap();
    let hidden = Hidden::new(&network, &outline(&network, &images, 8.0));
    // 128, 64 and 16 diagonals, and three biases.
    assert_eq!(hidden.plan.weights(), 211);
    assert!(hidden.plan.params().rlwe().security_bits() >= 128.0);
    let expected = network.forward(images[0]).unwrap();
    let most = expected.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let error = distance(&[hidden.run(images[0])], &[expected]);
    assert!(error < 0.02 * most, "{error} of {most}");

    let network = image_network(Activation::Sigmoid { degree: 7 });
    let samples = Draw::new(2).samples(20, 72);
    let samples = slices(&samples);
    let plan = planned(&network, &samples[..1], Packing::Sample, 12.0);
    let hidden = Hidden::new(&network, &outline(&network, &samples, 12.0));
    let simulated = hidden.plan.simulate(&network, samples[0]).unwrap();
    let error = distance(&[hidden.run(samples[0])], &[simulated]);
    assert!(error < 0.01 * plan.ranges().output, "{error}");
}

/// A block with an unchanged shortcut, one with a layer as its shortcut, and later layers that use
/// several earlier values.
#[test]
fn residual_blocks_may_be_hidden() {
    let mut draw = Draw::new(21);
    let square = || Layer::Activation(Activation::Square);
    let cubic = || Layer::Activation(Activation::Polynomial(vec![0.1, 0.5, 0.0, -0.125]));
    let block = |layers, shortcut| Layer::Residual { layers, shortcut };
    let layers = vec![
        draw.dense(3, 6),
        cubic(),
        block(vec![draw.dense(6, 2), square(), draw.dense(2, 6)], vec![]),
        block(vec![draw.dense(6, 9), cubic(), draw.dense(9, 4)], vec![draw.dense(6, 4)]),
        square(),
        draw.dense(4, 2),
    ];
    let network = Network::new(vec![3], layers).unwrap();
    let samples = draw.samples(20, 3);
    let samples = slices(&samples);
    let hidden = Hidden::new(&network, &outline(&network, &samples, 14.0));
    // Layers of 6, 2, 9 and 4 rows, the third of two values and the fourth of three, and one of 2.
    let diagonals = 8 + 2 + 2 * 16 + 3 * 4 + 2;
    assert_eq!(hidden.plan.weights(), diagonals + 5);
    assert_eq!(hidden.plan.explain().unwrap().bootstrapping, None);
    let largest = outline_output(&network, &samples);
    samples[..2].iter().for_each(|sample| hidden.check(&network, sample, largest));
}

/// Bootstrapped in a small ring, and planned with the existing sets.
#[test]
fn deep_networks_may_be_hidden() {
    let network = bootstrap::deep_network(3);
    let samples = Draw::new(4).samples(20, 3);
    let samples = slices(&samples);
    let outline = outline(&network, &samples, 10.0);
    let plan = |outline: &Outline| {
        HiddenPlan::with_bootstrapping(outline, &bootstrap::small_set(6)).unwrap()
    };
    let hidden = Hidden::with_plan(&network, plan(&outline));
    let explanation = hidden.plan.explain().unwrap();
    assert_eq!(explanation.bootstrapping.as_deref(), Some("small"));
    assert!((2..=6).contains(&explanation.bootstraps), "{explanation:?}");
    assert!(explanation.seconds > 0.0);
    let largest = outline_output(&network, &samples);
    let simulated = hidden.plan.simulate(&network, samples[0]).unwrap();
    let expected = network.forward(samples[0]).unwrap();
    assert!(distance(std::slice::from_ref(&simulated), &[expected]) < 0.1 * largest);
    let found = hidden.server(&plan(&sent(&outline)), samples[0]);
    let error = distance(&[found], &[simulated]);
    assert!(error < 0.02 * largest, "{error} of {largest}");
    // An evaluator without bootstrapping is rejected, and so are matrices for fewer slots.
    let shallow = random_network(1, &[3, 2], &Activation::Square);
    let narrow = random_network(1, &[3, 2, 2, 2, 2, 2, 2, 2, 2], &Activation::Square);
    for network in [shallow, narrow] {
        let other = plan(&self::outline(&network, &samples, 8.0));
        let prepared = other.prepare(&hidden.evaluator).unwrap();
        let sample = hidden.plan.encrypt(&hidden.encryptor, samples[0]).unwrap();
        let read = |part: usize| Ok(hidden.weights[part].clone());
        let refused =
            hidden.plan.run(&hidden.evaluator, &prepared, read, &sample.into_ciphertext());
        assert!(matches!(refused, Err(NnError::NotAsPlanned { .. })), "{refused:?}");
    }
    // The owner of the network can find numbers that are too large to be bootstrapped.
    let mut narrow = serde_json::to_value(&outline).unwrap();
    let ranges = narrow.pointer_mut("/ranges/activations").unwrap().as_array_mut().unwrap();
    ranges.iter_mut().for_each(|most| *most = (0.2 * most.as_f64().unwrap()).into());
    let narrow = plan(&serde_json::from_value(narrow).unwrap());
    let error = narrow.simulate(&network, samples[0]).unwrap_err();
    assert!(error.to_string().contains("pre-activation"), "{error}");

    let network = bootstrap::tanh_network(40, 7);
    let samples = Draw::new(4).samples(40, 8);
    let outline = self::outline(&network, &slices(&samples), 8.0);
    let explanation = HiddenPlan::new(&outline).unwrap().explain().unwrap();
    assert_eq!(explanation.bootstrapping.as_deref(), Some("n15-boot-net"));
    assert!((2..40).contains(&explanation.bootstraps), "{explanation:?}");
}

/// Twelve activations, whose weights take minutes to encrypt and read.
#[test]
#[ignore = "minutes at full ring size"]
fn a_deep_network_is_hidden_at_full_size() {
    let network = bootstrap::tanh_network(12, 15);
    let samples = Draw::new(4).samples(200, 8);
    let samples = slices(&samples);
    let hidden = Hidden::new(&network, &outline(&network, &samples, 10.0));
    let explanation = hidden.plan.explain().unwrap();
    eprintln!("{explanation:?}");
    assert!(explanation.bootstraps >= 4);
    let start = std::time::Instant::now();
    let found = hidden.run(samples[0]);
    eprintln!("{:.1} s", start.elapsed().as_secs_f64());
    let simulated = hidden.plan.simulate(&network, samples[0]).unwrap();
    let error = distance(&[found], &[simulated]);
    assert!(error < 0.02 * outline_output(&network, &samples), "{error}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let network = random_network(1, &[5, 6, 3], &Activation::Square);
    let samples = Draw::new(4).samples(9, 5);
    let samples = slices(&samples);
    let outline = outline(&network, &samples, 10.0);
    let hidden = Hidden::new(&network, &outline);
    let sample = hidden.plan.encrypt(&hidden.encryptor, samples[0]).unwrap().into_ciphertext();

    let other = random_network(1, &[5, 7, 3], &Activation::Square);
    let refused = hidden.plan.encrypt_weights(&hidden.encryptor, &other, |_, _| Ok(()));
    assert!(matches!(refused, Err(NnError::Shape { .. } | NnError::Network { .. })), "{refused:?}");
    let refused = hidden.plan.encrypt(&hidden.encryptor, &[0.0; 4]).err().unwrap();
    assert!(matches!(refused, NnError::Shape { .. }), "{refused}");
    let refused = hidden.plan.encrypt(&hidden.encryptor, &[1e3; 5]).err().unwrap();
    assert!(matches!(refused, NnError::OutOfRange { .. }), "{refused}");

    // A bias in place of a diagonal, and weights in place of a sample.
    let bias = hidden.weights[8].clone();
    let prepared = hidden.plan.prepare(&hidden.evaluator).unwrap();
    let run = |sample: &Ciphertext, first: &Ciphertext| {
        let read = |part: usize| Ok(if part == 0 { first } else { &hidden.weights[part] }.clone());
        hidden.plan.run(&hidden.evaluator, &prepared, read, sample)
    };
    assert!(run(&sample, &hidden.weights[0]).is_ok());
    for (sample, first) in [(&sample, &bias), (&bias, &hidden.weights[0])] {
        let refused = run(sample, first).unwrap_err();
        assert!(matches!(refused, NnError::NotAsPlanned { .. }), "{refused}");
    }

    // Outlines that no network has.
    let text = serde_json::to_value(&outline).unwrap();
    let change = |pointer: &str, value: serde_json::Value| {
        let mut text = text.clone();
        *text.pointer_mut(pointer).unwrap() = value;
        HiddenPlan::new(&serde_json::from_value(text).unwrap()).err()
    };
    assert!(change("/features", 5.into()).is_none());
    for (pointer, value) in [
        ("/features", 0.into()),
        ("/features", (1u64 << 40).into()),
        ("/layers/0/outputs", 0.into()),
        ("/layers/0/activation", serde_json::Value::Null),
        ("/layers/1/activation", "square".into()),
        ("/layers", serde_json::json!([])),
        ("/ranges/activations", serde_json::json!([])),
        ("/precision_bits", 99.0.into()),
    ] {
        assert!(change(pointer, value.clone()).is_some(), "{pointer} {value}");
    }
    for sources in [&[] as &[usize], &[1, 1], &[0, 2]] {
        let mut text = text.clone();
        text["layers"][1]["sources"] = sources.into();
        let error = HiddenPlan::new(&serde_json::from_value(text).unwrap()).unwrap_err();
        assert!(error.to_string().contains("a layer 1 whose inputs"), "{error}");
    }
    // An absurd number of weights, from little text.
    let mut text = text.clone();
    for layer in 0..2 {
        text["layers"][layer]["outputs"] = (1 << 15).into();
    }
    let error = HiddenPlan::new(&serde_json::from_value(text).unwrap()).unwrap_err();
    assert!(error.to_string().contains("weights to be encrypted"), "{error}");
    assert_eq!(hidden.plan.params().top(), Level(3));
}
