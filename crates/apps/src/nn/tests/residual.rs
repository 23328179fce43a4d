//! Residual blocks, against sums by hand and against themselves under encryption.

use super::*;

fn dense(weights: &[&[f64]], bias: &[f64]) -> Layer {
    let weights = weights.iter().map(|row| row.to_vec()).collect();
    Layer::Dense { weights, bias: bias.to_vec(), step: 1.0 }
}

fn square() -> Layer {
    Layer::Activation(Activation::Square)
}

fn residual(layers: Vec<Layer>, shortcut: Vec<Layer>) -> Layer {
    Layer::Residual { layers, shortcut }
}

/// Compares the encrypted results of a plan, within the allowed difference.
fn compare(network: &Network, samples: &[&[f64]], packing: Packing) {
    let samples = if packing == Packing::Sample { &samples[..1] } else { samples };
    let plan = planned(network, samples, packing, 12.0);
    let expected = forward(network, samples);
    let simulated = plan.simulate(samples).unwrap();
    assert!(distance(&simulated.results, &expected) < 1e-9, "{packing:?}");
    assert!(simulated.headroom_bits > 0.0);
    let clear: Vec<_> = samples.iter().map(|x| plan.clear(x).unwrap()).collect();
    assert!(distance(&clear, &expected) < 1e-9);
    let error = distance(&World::new(plan.clone()).run(samples), &expected);
    assert!(error < 6.0 * plan.error(), "{packing:?} {error} {}", plan.error());
    assert!(plan.error() < 0.1 * plan.ranges().output, "{}", plan.error());
}

#[test]
fn a_block_adds_what_it_takes() {
    let layers = vec![
        residual(vec![dense(&[&[1.0, 2.0], &[0.0, -1.0]], &[0.5, 1.0]), square()], vec![]),
        residual(
            vec![square(), dense(&[&[1.0, 1.0]], &[0.0])],
            vec![dense(&[&[3.0, -1.0]], &[2.0])],
        ),
    ];
    let network = Network::new(vec![2], layers).unwrap();
    for [x, y] in [[0.0f64, 0.0], [1.0, -0.5], [-0.25, 0.75]] {
        let [u, v] = [(x + 2.0 * y + 0.5).powi(2) + x, (1.0 - y).powi(2) + y];
        let expected = u * u + v * v + 3.0 * u - v + 2.0;
        let found = network.forward(&[x, y]).unwrap();
        assert!((found[0] - expected).abs() < 1e-12 && found.len() == 1, "{found:?} {expected}");
    }
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(Network::from_json(&text).unwrap(), network);
    let short = r#"{"input": [2], "layers": [{"residual": {"layers": ["flatten"]}}]}"#;
    assert_eq!(Network::from_json(short).unwrap().forward(&[1.0, -2.0]).unwrap(), [2.0, -4.0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    /// Successive blocks, with or without an activation after each. Without one, later blocks use
    /// several earlier values.
    #[test]
    fn blocks_of_any_shape_compute_what_they_do_in_the_clear(
        seed in any::<u64>(),
        width in 1usize..9,
        blocks in prop::collection::vec((1usize..9, any::<bool>(), any::<bool>()), 1..3),
        curve in prop_oneof![Just(vec![0.0, 0.0, 1.0]), Just(vec![0.25, 0.5, -0.125])],
        one in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let bend = || Layer::Activation(Activation::Polynomial(curve.clone()));
        let mut layers = vec![draw.dense(width, 6)];
        for (inner, shortcut, after) in blocks {
            let shortcut = if shortcut { vec![draw.dense(6, 6)] } else { vec![] };
            layers.push(residual(vec![draw.dense(6, inner), bend(), draw.dense(inner, 6)], shortcut));
            layers.extend(after.then(bend));
        }
        let network = Network::new(vec![width], layers).unwrap();
        let samples = draw.samples(3, width);
        let packing = if one { Packing::Sample } else { Packing::Features };
        compare(&network, &slices(&samples), packing);
    }
}

/// A block of convolutions with a shortcut of another stride, and one inside another.
#[test]
fn images_go_through_blocks() {
    let mut draw = Draw::new(6);
    let mut convolution = |channels: usize, size: usize, stride: usize| {
        let mut plane = || draw.samples(size, size);
        let mut kernel = || (0..channels).map(|_| plane()).collect::<Vec<_>>();
        Layer::Convolution(Convolution {
            kernels: (0..2).map(|_| kernel()).collect(),
            bias: vec![0.25, -0.5],
            stride: [stride; 2],
            padding: [size / 2; 4],
            groups: 1,
            dilation: [1, 1],
            step: 0.25,
        })
    };
    let block = residual(
        vec![convolution(1, 3, 2), square(), convolution(2, 3, 1)],
        vec![
            convolution(1, 1, 2),
            Layer::Normalize { factors: vec![2.0, -1.0], offsets: vec![0.0; 2] },
        ],
    );
    let inner = residual(vec![Layer::Flatten, square()], vec![Layer::Flatten]);
    let last = Draw::new(7).dense(8, 3);
    let layers = vec![block, inner, residual(vec![residual(vec![], vec![])], vec![]), last];
    let network = Network::new(vec![1, 4, 4], layers).unwrap();
    let samples = Draw::new(8).samples(3, 16);
    for packing in [Packing::Features, Packing::Sample] {
        compare(&network, &slices(&samples), packing);
    }
}

/// The block uses one of six features, and the shortcut two others.
#[test]
fn features_of_shortcuts_are_encrypted() {
    let block =
        residual(vec![Layer::Select(vec![4, 4]), square()], vec![Layer::Select(vec![5, 1])]);
    let network = Network::new(vec![6], vec![block]).unwrap();
    let samples = Draw::new(8).samples(3, 6);
    let samples = slices(&samples);
    let plan = planned(&network, &samples, Packing::Features, 10.0);
    assert_eq!((plan.inputs(), plan.outputs()), (3, 2));
    for packing in [Packing::Features, Packing::Sample] {
        compare(&network, &samples, packing);
    }
    // A branch of weights that are all zero adds its bias.
    let nothing = dense(&[&[0.0; 6], &[0.0; 6]], &[1.0, -1.0]);
    let block = residual(vec![Layer::Select(vec![4, 1]), square()], vec![nothing]);
    let network = Network::new(vec![6], vec![block]).unwrap();
    assert_eq!(network.forward(&[2.0; 6]).unwrap(), [5.0, 3.0]);
    compare(&network, &samples, Packing::Features);
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let refused = |layer: Layer, part: &str| {
        let error = Network::new(vec![2], vec![Layer::Flatten, layer]).unwrap_err();
        assert!(matches!(error, NnError::Layer { layer: 1, .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let narrow = || dense(&[&[1.0, 1.0]], &[0.0]);
    refused(residual(vec![narrow()], vec![]), "the shape [1] and its shortcut [2]");
    refused(residual(vec![square()], vec![narrow()]), "the shape [2] and its shortcut [1]");
    refused(residual(vec![], vec![square()]), "an activation: affine layers are possible");
    refused(residual(vec![], vec![residual(vec![], vec![])]), "a residual block: affine");
    refused(residual(vec![narrow(), narrow()], vec![]), "its layer 1, a dense layer: a row has 2");
    refused(residual(vec![dense(&[&[f64::NAN, 0.0], &[0.0, 0.0]], &[0.0; 2])], vec![]), "NaN");
    let many = residual(vec![Layer::Flatten; 300], vec![]);
    let error = Network::new(vec![2], vec![many]).unwrap_err();
    assert!(error.to_string().contains("has 301 layers"), "{error}");
}
