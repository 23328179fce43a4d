use std::sync::Arc;

use proptest::prelude::*;
use sudare::{
    ckks::{Ciphertext, Decryptor, Evaluator, SymmetricEncryptor},
    rlwe::KeyGenerator,
};
use sudare_arith::prng::{Seed, Stream};

use super::*;

mod bootstrap;
mod deep;
mod hidden;
mod residual;

/// Owner and server of a plan.
struct World {
    plan: Plan,
    encryptor: SymmetricEncryptor,
    decryptor: Decryptor,
    evaluator: Evaluator,
}

impl World {
    fn new(plan: Plan) -> Self {
        let params = plan.params().clone();
        let seed = Seed::from_bytes([5; 32]);
        let keygen = || KeyGenerator::from_seed(params.rlwe(), &seed);
        let secret = || keygen().secret_key().unwrap();
        let mut with_keys = keygen();
        let own = with_keys.secret_key().unwrap();
        let keys = Arc::new(with_keys.evaluation_keys(&own, plan.required_keys()).unwrap());
        Self {
            encryptor: SymmetricEncryptor::new(&params, Arc::new(secret())).unwrap(),
            decryptor: Decryptor::new(&params, own).unwrap(),
            evaluator: Evaluator::new(&params, keys).unwrap(),
            plan,
        }
    }

    fn encrypt(&self, samples: &[&[f64]]) -> Vec<Ciphertext> {
        self.plan.encrypt(&self.encryptor, samples).unwrap()
    }

    fn run(&self, samples: &[&[f64]]) -> Vec<Vec<f64>> {
        let prepared = self.plan.prepare(&self.evaluator).unwrap();
        let results = self.plan.run(&self.evaluator, &prepared, &self.encrypt(samples)).unwrap();
        self.plan.decrypt(&self.decryptor, &results, samples.len()).unwrap()
    }
}

/// Numbers from -1 to 1.
struct Draw(Stream);

impl Draw {
    fn new(seed: u64) -> Self {
        Self(Stream::new(&Seed::from_bytes([3; 32]), "networks", seed))
    }

    fn number(&mut self) -> f64 {
        self.0.next_u64() as f64 / u64::MAX as f64 * 2.0 - 1.0
    }

    fn numbers(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.number()).collect()
    }

    fn dense(&mut self, inputs: usize, outputs: usize) -> Layer {
        let size = 1.0 / (inputs as f64).sqrt();
        let mut row = || self.numbers(inputs).iter().map(|x| size * x).collect();
        let weights = (0..outputs).map(|_| row()).collect();
        Layer::Dense { weights, bias: self.numbers(outputs), step: 1.0 }
    }

    fn samples(&mut self, count: usize, features: usize) -> Vec<Vec<f64>> {
        (0..count).map(|_| self.numbers(features)).collect()
    }
}

fn slices(samples: &[Vec<f64>]) -> Vec<&[f64]> {
    samples.iter().map(Vec::as_slice).collect()
}

fn planned(network: &Network, samples: &[&[f64]], packing: Packing, precision_bits: f64) -> Plan {
    let ranges = Ranges::calibrate(network, samples.iter().copied(), 1.25).unwrap();
    let options = Options { samples: samples.len(), packing, precision_bits };
    Plan::new(network, &ranges, options).unwrap()
}

/// The largest difference of results.
fn distance(found: &[Vec<f64>], expected: &[Vec<f64>]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected).flat_map(|(found, expected)| {
        assert_eq!(found.len(), expected.len());
        found.iter().zip(expected)
    });
    pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

fn forward(network: &Network, samples: &[&[f64]]) -> Vec<Vec<f64>> {
    samples.iter().map(|x| network.forward(x).unwrap()).collect()
}

/// Images with strokes of about the size of digits.
fn strokes(count: usize) -> Vec<Vec<f64>> {
    let mut draw = Draw::new(1);
    let stroke = |draw: &mut Draw| {
        let mut image = vec![0.0; 784];
        for _ in 0..3 {
            let y = 8.0 + 6.0 * draw.number();
            let x = 14.0 + 5.0 * draw.number();
            let dy = 0.6 + 0.4 * draw.number();
            let dx = draw.number();
            for step in 0..10 {
                let place = |start: f64, d: f64| (start + d * f64::from(step)).clamp(2.0, 25.0);
                let row = place(y, dy) as usize;
                let column = place(x, dx) as usize;
                image[28 * row + column] = 1.0;
                image[28 * row + column + 1] = 0.6;
            }
        }
        image
    };
    (0..count).map(|_| stroke(&mut draw)).collect()
}

#[test]
fn digits_are_computed_in_the_smallest_ring_for_many() {
    let (network, _) = digits().unwrap();
    let samples = strokes(40);
    let samples = slices(&samples);
    let plan = planned(&network, &samples, Packing::Features, 7.0);
    let explanation = plan.explain().unwrap();
    assert_eq!((explanation.log_n, explanation.keys), (12, 1));
    assert!(explanation.key_bytes < 1_000_000, "{explanation:?}");
    assert!(explanation.input_bytes < 60_000_000, "{explanation:?}");
    let simulated = plan.simulate(&samples[..2]).unwrap();
    assert!(simulated.headroom_bits > 0.5, "{simulated:?}");
    let expected = forward(&network, &samples);
    assert!(distance(&simulated.results, &expected[..2]) < 1e-9);
    let error = distance(&World::new(plan.clone()).run(&samples), &expected);
    assert!(error < 4.0 * plan.error(), "{error} {}", plan.error());
    assert!(error > plan.error() / 100.0, "{error} {}", plan.error());
    // Far less than the distance between digits.
    assert!(error < 0.03 * plan.ranges().output, "{error}");
}

#[test]
fn one_digit_is_computed_by_diagonals() {
    let (network, _) = digits().unwrap();
    let samples = strokes(20);
    let ranges = Ranges::calibrate(&network, slices(&samples), 1.25).unwrap();
    let plan = Plan::new(&network, &ranges, Options::for_samples(1)).unwrap();
    let explanation = plan.explain().unwrap();
    assert_eq!((explanation.log_n, explanation.inputs, explanation.outputs), (13, 1, 1));
    assert!(explanation.key_bytes < 30_000_000, "{explanation:?}");
    let world = World::new(plan);
    for sample in &slices(&samples)[..2] {
        let expected = [network.forward(sample).unwrap()];
        let simulated = world.plan.simulate(&[sample]).unwrap();
        assert!(simulated.headroom_bits > 0.5, "{simulated:?}");
        assert!(distance(&simulated.results, &expected) < 1e-9);
        let error = distance(&world.run(&[sample]), &expected);
        assert!(error < 4.0 * world.plan.error(), "{error} {}", world.plan.error());
        assert!(world.plan.error() < 0.05 * world.plan.ranges().output, "{}", world.plan.error());
    }
}

fn random_network(seed: u64, sizes: &[usize], activation: &Activation) -> Network {
    let mut draw = Draw::new(seed);
    let mut layers = Vec::new();
    for pair in sizes.windows(2) {
        layers.push(draw.dense(pair[0], pair[1]));
        layers.push(Layer::Activation(activation.clone()));
    }
    layers.pop();
    Network::new(vec![sizes[0]], layers).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, ..ProptestConfig::default() })]

    /// Squares and other polynomials of degree 2, of any shape, in both packings.
    #[test]
    fn networks_of_any_shape_compute_what_they_do_in_the_clear(
        seed in any::<u64>(),
        sizes in prop::collection::vec(1usize..20, 2..5),
        count in 1usize..9,
        curve in prop_oneof![Just(vec![0.0, 0.0, 1.0]), Just(vec![0.25, 0.5, -0.125])],
        one in any::<bool>(),
    ) {
        let network = random_network(seed, &sizes, &Activation::Polynomial(curve));
        let samples = Draw::new(seed ^ 1).samples(if one { 1 } else { count }, sizes[0]);
        let samples = slices(&samples);
        let packing = if one { Packing::Sample } else { Packing::Features };
        let plan = planned(&network, &samples, packing, 12.0);
        let expected = forward(&network, &samples);
        let simulated = plan.simulate(&samples).unwrap();
        prop_assert!(distance(&simulated.results, &expected) < 1e-9);
        prop_assert!(simulated.headroom_bits > 0.0, "{}", simulated.headroom_bits);
        let clear: Vec<_> = samples.iter().map(|x| plan.clear(x).unwrap()).collect();
        prop_assert!(distance(&clear, &expected) < 1e-9);
        let found = World::new(plan.clone()).run(&samples);
        let error = distance(&found, &expected);
        prop_assert!(error < 6.0 * plan.error(), "{} {}", error, plan.error());
        prop_assert!(plan.error() < 0.1 * plan.ranges().output);
    }
}

/// Primes near 2^20 differ from their planned sizes, and squares double the difference. A bias may be
/// larger than the results.
#[test]
fn plans_have_room_for_the_sizes_of_real_primes() {
    for seed in 0..200 {
        let mut draw = Draw::new(seed);
        let sizes: Vec<usize> =
            draw.numbers(3).iter().map(|x| 1 + (x.abs() * 18.0) as usize).collect();
        let curve = if seed % 2 == 0 { vec![0.0, 0.0, 1.0] } else { vec![0.25, 0.5, -0.125] };
        let network = random_network(seed, &sizes, &Activation::Polynomial(curve));
        let samples = draw.samples(5, sizes[0]);
        let samples = slices(&samples);
        let plan = planned(&network, &samples, Packing::Features, 12.0);
        let simulated = plan.simulate(&samples).unwrap();
        assert!(simulated.headroom_bits > 0.0, "{seed}: {}", simulated.headroom_bits);
    }
}

#[test]
fn results_far_below_one_have_room_for_their_scale() {
    let samples = Draw::new(11).samples(3, 4);
    let samples = slices(&samples);
    for size in [1e-2, 1e-5] {
        let small = |outputs| Layer::Dense {
            weights: vec![vec![size; 4]; outputs],
            bias: vec![size; outputs],
            step: 1.0,
        };
        let square = Layer::Activation(Activation::Square);
        for layers in [vec![small(2)], vec![small(4), square, small(1)]] {
            let network = Network::new(vec![4], layers).unwrap();
            let plan = planned(&network, &samples, Packing::Features, 12.0);
            let found = World::new(plan.clone()).run(&samples);
            assert!(distance(&found, &forward(&network, &samples)) < 6.0 * plan.error());
        }
    }
}

/// An image of two channels, through all layers that images have.
fn image_network(activation: Activation) -> Network {
    let mut draw = Draw::new(9);
    let kernels = (0..3).map(|_| (0..2).map(|_| draw.samples(3, 2)).collect()).collect();
    let convolution = Convolution {
        kernels,
        bias: draw.numbers(3),
        stride: [2, 1],
        padding: [1, 0, 0, 1],
        groups: 1,
        dilation: [1, 1],
        step: 0.5,
    };
    let layers = vec![
        Layer::Convolution(convolution),
        Layer::Normalize { factors: draw.numbers(3), offsets: draw.numbers(3) },
        Layer::Activation(activation),
        Layer::AveragePool { window: [2, 3], stride: [1, 2] },
        Layer::Flatten,
        draw.dense(3 * 2 * 2, 4),
    ];
    Network::new(vec![2, 6, 6], layers).unwrap()
}

#[test]
fn images_are_convolved_and_pooled() {
    let network = image_network(Activation::Square);
    let samples = Draw::new(2).samples(5, 72);
    let samples = slices(&samples);
    let expected = forward(&network, &samples);
    for (packing, count) in [(Packing::Features, 5), (Packing::Sample, 1)] {
        let samples = &samples[..count];
        let expected = &expected[..count];
        let plan = planned(&network, samples, packing, 12.0);
        assert!(distance(&plan.simulate(samples).unwrap().results, expected) < 1e-9);
        let error = distance(&World::new(plan.clone()).run(samples), expected);
        assert!(error < 6.0 * plan.error(), "{error} {}", plan.error());
    }
}

/// By its definition, from a padded image.
#[test]
fn convolution_is_that_of_a_padded_image() {
    let network = image_network(Activation::Square);
    let Layer::Convolution(c) = &network.layers()[0] else { panic!("it is a convolution") };
    let alone = Network::new(vec![2, 6, 6], vec![Layer::Convolution(c.clone())]).unwrap();
    let image = Draw::new(4).numbers(72);
    let found = alone.forward(&image).unwrap();
    let mut padded = vec![vec![vec![0.0; 7]; 7]; 2];
    for (channel, plane) in padded.iter_mut().enumerate() {
        for y in 0..6 {
            plane[y + 1][..6].copy_from_slice(&image[36 * channel + 6 * y..][..6]);
        }
    }
    // Kernels of three rows and two columns: rows 0, 2 and 4, columns 0 to 5.
    assert_eq!(found.len(), 3 * 3 * 6);
    for (i, found) in found.iter().enumerate() {
        let channel = i / 18;
        let y = 2 * (i / 6 % 3);
        let x = i % 6;
        let mut sum = 0.0;
        for (plane, padded) in padded.iter().enumerate() {
            for row in 0..3 {
                for column in 0..2 {
                    let weight = c.kernels[channel][plane][row][column];
                    sum += weight * padded[y + row][x + column];
                }
            }
        }
        assert!((found - (0.5 * sum + c.bias[channel])).abs() < 1e-12);
    }
}

#[test]
fn other_activations_are_polynomials_on_their_ranges() {
    let cases = [
        (Activation::Relu { degree: 7 }, 0.2),
        (Activation::Gelu { degree: 7 }, 0.05),
        (Activation::Sigmoid { degree: 5 }, 1e-2),
        (Activation::Tanh { degree: 7 }, 2e-2),
        (Activation::Polynomial(vec![0.1, -0.5, 0.0, 0.25]), 1e-9),
    ];
    for (k, (activation, tolerance)) in cases.into_iter().enumerate() {
        let network = image_network(activation);
        let samples = Draw::new(k as u64).samples(1, 72);
        let samples = slices(&samples);
        let packing = if k == 1 { Packing::Sample } else { Packing::Features };
        let plan = planned(&network, &samples, packing, 12.0);
        let clear = [plan.clear(samples[0]).unwrap()];
        let error = distance(&clear, &forward(&network, &samples));
        assert!(error < tolerance, "{k}: {error}");
        let simulated = plan.simulate(&samples).unwrap();
        assert!(distance(&simulated.results, &clear) < 1e-9);
        assert!(simulated.headroom_bits > 0.0);
        if k < 2 {
            let error = distance(&World::new(plan.clone()).run(&samples), &clear);
            assert!(error < 6.0 * plan.error(), "{k}: {error} {}", plan.error());
        }
    }
}

/// Values of the normal distribution function to 12 digits, from tables.
#[test]
fn gelu_has_its_published_values() {
    let gelu = Activation::Gelu { degree: 7 };
    for (x, phi) in [
        (0.0, 0.5),
        (1.0, 0.841_344_746_069),
        (-2.0, 0.022_750_131_948),
        (3.5, 0.999_767_370_921),
        (-5.0, 2.866_515_719e-7),
    ] {
        assert!((gelu.value(x) - x * phi).abs() < 1e-11, "{x}");
    }
}

#[test]
fn features_without_weights_are_not_encrypted() {
    let mut draw = Draw::new(8);
    let layers = vec![Layer::Select(vec![4, 1]), draw.dense(2, 3)];
    let network = Network::new(vec![6], layers).unwrap();
    let samples = draw.samples(3, 6);
    let samples = slices(&samples);
    let plan = planned(&network, &samples, Packing::Features, 10.0);
    assert_eq!((plan.inputs(), plan.outputs()), (2, 3));
    let found = World::new(plan).run(&samples);
    assert!(distance(&found, &forward(&network, &samples)) < 1e-2);
}

#[test]
fn descriptions_are_read_and_written() {
    let network = image_network(Activation::Tanh { degree: 9 });
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(serde_json::from_str::<Network>(&text).unwrap(), network);
    let message = |text: &str| serde_json::from_str::<Network>(text).unwrap_err().to_string();
    let short = r#"{"input": [3], "layers": [{"dense": {"weights": [[1, 2]], "bias": [0]}}]}"#;
    assert!(message(short).contains("a row has 2 weights for 3 features"), "{}", message(short));
    let unknown = r#"{"input": [3], "layers": [{"attention": {}}]}"#;
    assert!(message(unknown).contains("unknown variant `attention`"));
    assert_eq!(Network::from_json(&text).unwrap(), network);
    assert!(matches!(Network::from_json(short), Err(NnError::Layer { layer: 0, .. })));
    assert!(matches!(Network::from_json(unknown), Err(NnError::Network { .. })));
}

#[test]
fn layers_that_do_not_fit_are_refused() {
    let refused = |input: &[usize], layer: Layer, part: &str| {
        let error = Network::new(input.to_vec(), vec![layer]).unwrap_err();
        assert!(matches!(error, NnError::Layer { layer: 0, .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let dense = |weights, bias| Layer::Dense { weights, bias, step: 1.0 };
    refused(&[2], dense(vec![vec![1.0, f64::NAN]], vec![0.0]), "NaN");
    refused(&[2], dense(vec![vec![1.0, 1.0]], vec![]), "0 outputs");
    refused(&[1, 2, 2], dense(vec![vec![1.0; 4]], vec![0.0]), "flatten");
    refused(&[2], dense(vec![], vec![]), "1 to 65536 features");
    refused(&[2], Layer::Select(vec![2]), "feature 2");
    refused(&[6], Layer::Reshape(vec![2, 2]), "the shape [2, 2] of [6]");
    refused(&[1], Layer::Reshape(vec![]), "the shape []");
    refused(&[4], Layer::Reshape(vec![usize::MAX, 2, 2]), "the shape");
    let grouped = |kernels: usize, groups| {
        let kernels = vec![vec![vec![vec![1.0]]]; kernels];
        let bias = vec![0.0; kernels.len()];
        let stride = [1; 2];
        let padding = [0; 4];
        Layer::Convolution(Convolution {
            kernels,
            bias,
            stride,
            padding,
            groups,
            dilation: [1, 1],
            step: 1.0,
        })
    };
    refused(&[3, 2, 2], grouped(2, 2), "2 groups");
    refused(&[3, 2, 2], grouped(2, 3), "3 groups");
    refused(&[3, 2, 2], grouped(3, 0), "0 groups");
    refused(&[4, 2, 2], grouped(4, 2), "1 input channels of a kernel, but there are 2");
    refused(&[4], Layer::AveragePool { window: [2, 2], stride: [2, 2] }, "an image");
    let pool = |window, stride| Layer::AveragePool { window, stride };
    refused(&[1, 4, 4], pool([2, 5], [1, 1]), "do not fit 4 places");
    refused(&[1, 4, 4], pool([2, 2], [0, 1]), "a stride of 0");
    refused(&[2], Layer::Normalize { factors: vec![1.0], offsets: vec![0.0; 2] }, "1 channels");
    refused(&[2], Layer::Activation(Activation::Polynomial(vec![1.0, 0.0])), "a constant");
    refused(&[2], Layer::Activation(Activation::Relu { degree: 256 }), "1 to 255");
    for input in [vec![], vec![0], vec![1 << 17], vec![usize::MAX, 2, 2], vec![2, 2]] {
        let error = Network::new(input, vec![Layer::Flatten]).unwrap_err();
        assert!(matches!(error, NnError::Network { .. }), "{error:?}");
    }
    assert!(matches!(Network::new(vec![2], vec![]), Err(NnError::Network { .. })));
}

#[test]
fn what_was_not_planned_for_is_refused() {
    let network = random_network(6, &[4, 3, 2], &Activation::Square);
    let samples = Draw::new(5).samples(3, 4);
    let samples = slices(&samples);
    let plan = planned(&network, &samples, Packing::Features, 10.0);
    let world = World::new(plan.clone());
    let encrypt = |samples: &[&[f64]]| plan.encrypt(&world.encryptor, samples).map(drop);
    let out_of_range = |result: Result<()>| matches!(result, Err(NnError::OutOfRange { .. }));
    assert!(out_of_range(encrypt(&[&[0.0, f64::NAN, 0.0, 0.0]])));
    assert!(out_of_range(encrypt(&[&[0.0, 1e3, 0.0, 0.0]])));
    assert!(matches!(encrypt(&[&[0.0; 3]]), Err(NnError::Shape { .. })));
    assert!(matches!(encrypt(&[]), Err(NnError::Shape { .. })));
    assert!(matches!(encrypt(&[samples[0]; 5]), Err(NnError::Shape { .. })));

    let inputs = world.encrypt(&samples);
    let prepared = plan.prepare(&world.evaluator).unwrap();
    let run = |inputs: &[Ciphertext]| plan.run(&world.evaluator, &prepared, inputs);
    assert!(matches!(run(&inputs[1..]), Err(NnError::Shape { .. })));
    let other = world.evaluator.with_scale(&inputs[0], plan.params().scale_at(plan.params().top()));
    let mut others = inputs.clone();
    others[0] = world
        .evaluator
        .mul_const_sum(&[(&other.unwrap(), 1.0, plan.params().scale_at(plan.params().top()))])
        .unwrap();
    assert!(matches!(run(&others), Err(NnError::NotAsPlanned { .. })));
    let single = planned(&network, &samples[..1], Packing::Sample, 10.0);
    assert!(matches!(single.prepare(&world.evaluator), Err(NnError::NotAsPlanned { .. })));
    let results = run(&inputs).unwrap();
    let read = |results: &[Ciphertext], count| plan.decrypt(&world.decryptor, results, count);
    assert!(matches!(read(&results[1..], 3), Err(NnError::Shape { .. })));
    assert!(matches!(read(&results, 5), Err(NnError::Shape { .. })));
    let far = vec![vec![1e3; 4]; 2];
    assert!(matches!(plan.read(&far, 3), Err(NnError::OutOfRange { .. })));
}

#[test]
fn ranges_are_checked() {
    let network = random_network(7, &[4, 3, 2], &Activation::Square);
    let samples = Draw::new(5).samples(30, 4);
    let ranges = Ranges::calibrate(&network, slices(&samples), 1.0).unwrap();
    ranges.check(&network, slices(&samples)).unwrap();
    // Ranges of squares are the ranges of their arguments.
    let Layer::Dense { weights, bias, .. } = &network.layers()[0] else { panic!("it is dense") };
    let dot = |row: &[f64], x: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    let of = |x: &Vec<f64>| {
        weights.iter().zip(bias).map(|(row, b)| (dot(row, x) + b).abs()).fold(0.0, f64::max)
    };
    let largest = samples.iter().map(of).fold(0.0, f64::max);
    // A server sees the next powers of two.
    let size = ranges.activations[0];
    assert!(size / 2.0 < largest && largest <= size && size.log2().fract() == 0.0, "{size}");
    assert_eq!(ranges.input, [-1.0, 1.0]);
    let narrow = Ranges { activations: vec![largest / 2.0], ..ranges.clone() };
    let error = narrow.check(&network, slices(&samples)).unwrap_err();
    assert!(error.to_string().contains("pre-activation"), "{error}");
    let results = forward(&network, &slices(&samples));
    let most = results.iter().flatten().fold(0.0, |most: f64, y| most.max(y.abs()));
    assert!(ranges.output / 2.0 < most && most <= ranges.output);
    let narrow = Ranges { output: most / 2.0, ..ranges.clone() };
    assert!(narrow.check(&network, slices(&samples)).unwrap_err().to_string().contains("result"));
    let calibrated =
        |samples: &[&[f64]], margin| Ranges::calibrate(&network, samples.iter().copied(), margin);
    assert!(matches!(calibrated(&[], 1.0), Err(NnError::Shape { .. })));
    assert!(matches!(calibrated(&[&[0.0; 3]], 1.0), Err(NnError::Shape { .. })));
    assert!(matches!(calibrated(&[&[f64::INFINITY; 4]], 1.0), Err(NnError::OutOfRange { .. })));
    assert!(matches!(calibrated(&[&[0.0; 4]], f64::NAN), Err(NnError::OutOfRange { .. })));
    let options = Options::for_samples(10);
    for wrong in [
        Ranges { activations: vec![], ..ranges.clone() },
        Ranges { output: f64::NAN, ..ranges.clone() },
        Ranges { input: [1.0, 0.0], ..ranges.clone() },
    ] {
        assert!(Plan::new(&network, &wrong, options).is_err(), "{wrong:?}");
    }
    for wrong in [
        Options { precision_bits: f64::NAN, ..options },
        Options { precision_bits: 60.0, ..options },
        Options { precision_bits: -5.0, ..options },
    ] {
        let error = Plan::new(&network, &ranges, wrong).unwrap_err();
        assert!(matches!(error, NnError::Network { .. }), "{error:?}");
        let bits = format!("at {} bits", wrong.precision_bits);
        assert!(error.to_string().contains(&bits), "{error}");
    }
    let none = Options { samples: 0, ..options };
    assert!(matches!(Plan::new(&network, &ranges, none), Err(NnError::Shape { .. })));
}

/// Bounds of calibrated ranges are powers of two that contain all samples, next to the measured
/// ones.
#[test]
fn calibrated_ranges_are_powers_of_two() {
    let network = Network::new(vec![2], vec![Layer::Activation(Activation::Square)]).unwrap();
    let calibrated = |a: f64, b: f64| {
        let sample = [a, b];
        Ranges::calibrate(&network, [&sample[..]], 1.0).unwrap()
    };
    for ([a, b], input, largest, output) in [
        ([0.3, 0.9], [0.25, 1.0], 1.0, 1.0),
        ([-0.3, 0.0], [-0.5, 0.0], 0.5, 0.125),
        ([-3.0, -0.75], [-4.0, -0.5], 4.0, 16.0),
        ([-1.0, 255.0], [-1.0, 256.0], 256.0, 65536.0),
        ([2.0, 2.0], [2.0, 2.0], 2.0, 4.0),
    ] {
        let found = calibrated(a, b);
        let expected = Ranges { input, activations: vec![largest], output };
        assert_eq!(found, expected);
        assert_eq!(Outline::of(&network, &found, 8.0).unwrap().ranges(), &expected);
    }
    // This includes ranges that were passed.
    let given = Ranges { input: [0.3, 0.9], activations: vec![0.9], output: 0.81 };
    let outline = Outline::of(&network, &given, 8.0).unwrap();
    let rounded = Ranges { input: [0.25, 1.0], activations: vec![1.0], output: 1.0 };
    assert_eq!(outline.ranges(), &rounded);
}

/// A sample inside the range of features that leaves the range of an activation, or of results.
/// Encryption, simulation and hidden weights all reject it.
#[test]
fn samples_that_leave_ranges_inside_the_network_are_not_encrypted() {
    let dense = |weights: &[&[f64]]| Layer::Dense {
        weights: weights.iter().map(|row| row.to_vec()).collect(),
        bias: vec![0.0; weights.len()],
        step: 1.0,
    };
    let tanh = Layer::Activation(Activation::Tanh { degree: 9 });
    let layers = vec![dense(&[&[1.0, 1.0], &[1.0, -1.0]]), tanh, dense(&[&[1.0, 1.0]])];
    let network = Network::new(vec![2], layers).unwrap();
    let ranges = Ranges { input: [-1.0, 1.0], activations: vec![1.0], output: 0.75 };
    for (sample, part) in [([0.75, 0.75], "pre-activation 0"), ([0.875, 0.0], "result 0")] {
        for (packing, samples) in [(Packing::Features, 3), (Packing::Sample, 1)] {
            let options = Options { samples, packing, precision_bits: 10.0 };
            let world = World::new(Plan::new(&network, &ranges, options).unwrap());
            let mut all = vec![&[0.25, 0.25][..]; samples];
            all[samples - 1] = &sample;
            let errors = [
                world.plan.encrypt(&world.encryptor, &all).map(drop).unwrap_err(),
                world.plan.encrypt_seeded(&world.encryptor, &all).map(drop).unwrap_err(),
                world.plan.simulate(&all).map(drop).unwrap_err(),
                world.plan.check(&all).unwrap_err(),
            ];
            for error in errors {
                assert!(matches!(error, NnError::OutOfRange { .. }), "{error:?}");
                let needed = format!("{part} of sample {}", samples - 1);
                assert!(error.to_string().contains(&needed), "{error}");
            }
        }
        let hidden = HiddenPlan::new(&Outline::of(&network, &ranges, 10.0).unwrap()).unwrap();
        let error = hidden.simulate(&network, &sample).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn activations_deeper_than_bootstrapping_allows_are_refused() {
    let network = random_network(3, &[2; 30], &Activation::Tanh { degree: 255 });
    let ranges = Ranges { input: [-1.0, 1.0], activations: vec![300.0; 28], output: 1.0 };
    let set = sudare::circuits::ckks::bootstrap::preset("n15-boot-net").unwrap();
    for packing in [Packing::Features, Packing::Sample] {
        let options = Options { samples: 1, packing, precision_bits: 8.0 };
        let plan = |set| Plan::with_bootstrapping(&network, &ranges, options, set).map(drop);
        let error = plan(&set).unwrap_err();
        assert!(matches!(error, NnError::DeepActivation { needed: 8, left: 6..=7 }), "{error:?}");
    }
    let outline = Outline::of(&network, &ranges, 8.0).unwrap();
    let error = HiddenPlan::with_bootstrapping(&outline, &set).map(drop).unwrap_err();
    assert!(matches!(error, NnError::DeepActivation { needed: 8, left: 6..=7 }), "{error:?}");
}
