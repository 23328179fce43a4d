//! Convolutional networks in one ciphertext: layouts of images, kernels, and fitted activations.

use sudare::circuits::ckks::LinearPlan;

use super::*;

/// A convolution with random kernels of this size.
#[derive(Clone, Copy)]
struct Shape {
    channels: [usize; 2],
    window: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 4],
    groups: usize,
    dilation: [usize; 2],
}

impl Shape {
    fn new(channels: [usize; 2], window: usize, stride: usize) -> Self {
        let before = window / 2;
        Self {
            channels,
            window: [window; 2],
            stride: [stride; 2],
            padding: [before; 4],
            groups: 1,
            dilation: [1, 1],
        }
    }

    fn layer(self, draw: &mut Draw) -> Layer {
        let [inputs, outputs] = self.channels;
        let [height, width] = self.window;
        let fan = (inputs / self.groups * height * width) as f64;
        let mut kernel = || {
            let mut rows = || {
                let rows = draw.samples(height, width);
                rows.into_iter().map(|row| row.iter().map(|x| x / fan.sqrt()).collect()).collect()
            };
            (0..inputs / self.groups).map(|_| rows()).collect()
        };
        let kernels = (0..outputs).map(|_| kernel()).collect();
        Layer::Convolution(Convolution {
            kernels,
            bias: draw.numbers(outputs),
            stride: self.stride,
            padding: self.padding,
            groups: self.groups,
            dilation: self.dilation,
            step: 1.0,
        })
    }
}

fn square() -> Layer {
    Layer::Activation(Activation::Square)
}

/// Returns a plan of one sample, and the largest difference of its simulation from the network.
fn simulated(network: &Network, seed: u64) -> (Plan, f64) {
    let samples = Draw::new(seed).samples(3, network.inputs());
    let samples = slices(&samples);
    let ranges = Ranges::calibrate(network, samples.iter().copied(), 1.25).unwrap();
    let plan = Plan::new(network, &ranges, Options::for_samples(1)).unwrap();
    let found = plan.simulate(&samples[..1]).unwrap();
    assert!(found.headroom_bits > 0.0);
    let clear = plan.clear(samples[0]).unwrap();
    let expected = forward(network, &samples[..1]);
    assert!(distance(&[clear], &expected) < 1e-9);
    (plan, distance(&found.results, &expected))
}

/// Two convolutions of each kind one after the other, on images of any size.
#[test]
fn convolutions_of_every_kind_are_diagonals() {
    let base = |window, stride| Shape::new([3, 4], window, stride);
    let cases: [([usize; 2], Shape); 12] = [
        ([8, 8], base(1, 1)),
        ([8, 8], base(3, 1)),
        ([9, 7], base(5, 1)),
        ([8, 8], base(3, 2)),
        ([9, 11], base(3, 3)),
        ([7, 5], base(1, 2)),
        ([8, 6], Shape { padding: [0, 1, 2, 0], ..base(3, 2) }),
        ([8, 8], Shape { padding: [2; 4], dilation: [2, 2], ..base(3, 1) }),
        ([8, 9], Shape { stride: [2, 1], window: [2, 3], dilation: [1, 2], ..base(3, 1) }),
        ([8, 8], Shape { channels: [4, 6], groups: 2, ..base(3, 2) }),
        ([8, 8], Shape { channels: [6, 6], groups: 6, ..base(3, 1) }),
        // Results larger than the image.
        ([5, 5], Shape { padding: [3; 4], ..base(2, 1) }),
    ];
    for (k, ([rows, columns], shape)) in cases.into_iter().enumerate() {
        let mut draw = Draw::new(k as u64);
        let [inputs, outputs] = shape.channels;
        let again = Shape { channels: [outputs, inputs], ..shape };
        let layers = vec![shape.layer(&mut draw), square(), again.layer(&mut draw)];
        let network = Network::new(vec![inputs, rows, columns], layers).unwrap();
        let (_, difference) = simulated(&network, k as u64);
        assert!(difference < 1e-9, "case {k}: {difference}");
    }
}

/// Strides, pools between strides, and shortcuts of both kinds.
fn residual_network(activation: &Activation, channels: usize) -> Network {
    let mut draw = Draw::new(8);
    let bend = || Layer::Activation(activation.clone());
    let block = |draw: &mut Draw, from: usize, stride: usize| {
        let to = from * stride;
        let layers = vec![
            Shape::new([from, to], 3, stride).layer(draw),
            Layer::Normalize { factors: draw.numbers(to), offsets: draw.numbers(to) },
            bend(),
            Shape::new([to, to], 3, 1).layer(draw),
        ];
        let shortcut = match stride {
            1 => vec![],
            _ => vec![Shape::new([from, to], 1, stride).layer(draw)],
        };
        Layer::Residual { layers, shortcut }
    };
    let layers = vec![
        Shape::new([3, channels], 3, 1).layer(&mut draw),
        bend(),
        block(&mut draw, channels, 1),
        bend(),
        block(&mut draw, channels, 2),
        bend(),
        Layer::AveragePool { window: [4, 4], stride: [4, 4] },
        Layer::Flatten,
        draw.dense(2 * channels, 5),
    ];
    Network::new(vec![3, 8, 8], layers).unwrap()
}

#[test]
fn residual_networks_keep_images_in_their_places() {
    let (plan, difference) = simulated(&residual_network(&Activation::Square, 4), 2);
    assert!(difference < 1e-9, "{difference}");
    let matrices: Vec<_> = plan.steps.iter().flat_map(|step| &step.matrices).collect();
    let offsets = |plan: &LinearPlan| plan.diagonals().offsets().len();
    let counts: Vec<_> = matrices.iter().map(|m| (m.log_slots, offsets(&m.plan))).collect();
    // Three planes of 64 for four; a block within four planes; a stride into two planes of four
    // channels each, with its shortcut; the second convolution there; pool and dense layer.
    assert_eq!(counts[0], ([8, 8], 36));
    assert_eq!(counts[1], ([8, 8], 36));
    assert_eq!((counts[2], counts[3]), (([8, 8], 36), ([8, 8], 1)));
    assert_eq!(counts[4].0, [8, 7]);
    assert!(counts.iter().all(|(_, offsets)| *offsets <= 128), "{counts:?}");
}

/// Every weight of a stage is in one diagonal, and sums of diagonals are the map.
#[test]
fn steps_of_counted_keys_are_those_of_the_sum() {
    let (plan, _) = simulated(&residual_network(&Activation::Square, 4), 3);
    for matrix in plan.steps.iter().flat_map(|step| &step.matrices) {
        let sum = matrix.plan.sum();
        let turns = sum.baby.iter().filter(|g| g.0 != 1).count() + usize::from(sum.stages > 1);
        assert_eq!(matrix.plan.required_keys().count(), turns);
        assert!(turns <= matrix.plan.weights());
    }
    let work = plan.work().unwrap().0;
    assert!(work.matrix_bytes > 0 && work.key_bytes > 0);
}

/// Bootstrapped, with fitted activations, against the same network in the clear.
#[test]
fn a_small_residual_network_is_computed_encrypted() {
    let relu = residual_network(&Activation::Relu { degree: 7 }, 1);
    let samples = Draw::new(4).samples(40, relu.inputs());
    let samples = slices(&samples);
    let network = relu.fitted(&samples, 7, 1.5).unwrap();
    let ranges = Ranges::calibrate(&network, samples.iter().copied(), 1.0).unwrap();
    let options = Options { samples: 1, packing: Packing::Sample, precision_bits: 8.0 };
    let set = bootstrap::small_set(5);
    let plan = Plan::with_bootstrapping(&network, &ranges, options, &set).unwrap();
    let explanation = plan.explain().unwrap();
    assert!((2..=5).contains(&explanation.bootstraps), "{explanation:?}");
    assert!(explanation.diagonals > 50 && explanation.matrix_bytes > 1_000_000);
    let expected = [network.forward(samples[0]).unwrap()];
    let clear = [plan.clear(samples[0]).unwrap()];
    assert!(distance(&clear, &expected) < 1e-9);
    let simulated = plan.simulate(&samples[..1]).unwrap();
    let size = plan.ranges().output;
    assert!(distance(&simulated.results, &expected) < 1e-3 * size, "{simulated:?}");
    let error = distance(&World::new(plan.clone()).run(&samples[..1]), &expected);
    assert!(error < 6.0 * plan.error() && error < 0.02 * size, "{error} {}", plan.error());

    // With a smaller range of the first activation the sample would leave it.
    let mut narrow = ranges;
    narrow.activations[0] /= 16.0;
    let plan = Plan::with_bootstrapping(&network, &narrow, options, &set).unwrap();
    assert!(matches!(plan.check(&samples[..1]), Err(NnError::OutOfRange { .. })));
}

/// The fit is the best in the weighted mean square: errors are orthogonal to lower degrees, and
/// closer to the numbers seen than the fit of the range.
#[test]
fn fits_follow_the_numbers() {
    let network = random_network(3, &[20, 40, 4], &Activation::Relu { degree: 31 });
    let samples = Draw::new(5).samples(300, 20);
    let samples = slices(&samples);
    let fitted = network.fitted(&samples, 15, 4.0).unwrap();
    let Layer::Activation(Activation::Fitted { function, range, coefficients }) =
        &fitted.layers()[1]
    else {
        panic!("it is fitted")
    };
    assert_eq!(**function, Activation::Relu { degree: 15 });
    assert_eq!(coefficients.len(), 16);
    let first = Network::new(vec![20], network.layers()[..1].to_vec()).unwrap();
    let numbers: Vec<f64> = forward(&first, &samples).concat();
    let most = numbers.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    assert!((range / most - 4.0).abs() < 1e-9);
    let error = |f: &dyn Fn(f64) -> f64| {
        numbers.iter().map(|&x| (f(x) - x.max(0.0)).powi(2)).sum::<f64>() / numbers.len() as f64
    };
    let own = error(&|x| fitted_value(&fitted, x));
    let even =
        sudare::circuits::ckks::Polynomial::least_squares(|x| x.max(0.0), -range..*range, 15);
    let even = even.unwrap();
    assert!(own < 0.75 * error(&|x| even.evaluate(x)), "{own}");
    // Any change of a coefficient is for the worse, up to bins and the weight of the range.
    for n in 0..16 {
        for step in [1e-2, -1e-2] {
            let changed = |x: f64| {
                fitted_value(&fitted, x) + step * range * (f64::from(n) * (x / range).acos()).cos()
            };
            assert!(error(&changed) > own, "{n}");
        }
    }
    let text = serde_json::to_string(&fitted).unwrap();
    assert_eq!(Network::from_json(&text).unwrap(), fitted);
    assert!(network.fitted(&samples, 0, 1.0).is_err());
    assert!(network.fitted(&samples, 15, 0.5).is_err());
    assert!(network.fitted(&[], 15, 1.0).is_err());
    // Numbers beyond the fit are refused.
    let far: Vec<f64> = samples[0].iter().map(|x| 40.0 * x).collect();
    let refused = Ranges::calibrate(&fitted, [samples[1], &far[..]], 1.0).unwrap_err();
    assert!(refused.to_string().contains("of sample 1"), "{refused}");
}

fn fitted_value(network: &Network, x: f64) -> f64 {
    let Layer::Activation(activation) = &network.layers()[1] else { panic!("an activation") };
    activation.value(x)
}
