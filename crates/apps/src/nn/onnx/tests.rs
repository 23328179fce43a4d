use super::*;

/// A field of bytes.
fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let mut out = number_bytes(number << 3 | 2);
    out.extend(number_bytes(content.len() as u64));
    out.extend(content);
    out
}

fn whole(number: u64, value: u64) -> Vec<u8> {
    [number_bytes(number << 3), number_bytes(value)].concat()
}

fn number_bytes(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn tensor(name: &str, shape: &[u64], numbers: &[f32]) -> Vec<u8> {
    let dims: Vec<u8> = shape.iter().flat_map(|&size| whole(1, size)).collect();
    let raw: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    [dims, whole(2, 1), field(8, name.as_bytes()), field(9, &raw)].concat()
}

fn integers(name: &str, values: &[u64]) -> Vec<u8> {
    let values: Vec<u8> = values.iter().flat_map(|&value| whole(8, value)).collect();
    field(5, &[field(1, name.as_bytes()), values].concat())
}

fn node(operator: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|name| field(1, name.as_bytes())).collect();
    let rest = [field(2, output.as_bytes()), field(4, operator.as_bytes())].concat();
    [inputs, rest, field(3, b"it"), attributes.concat()].concat()
}

fn value(name: &str, shape: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = shape.iter().flat_map(|&size| field(1, &whole(1, size))).collect();
    let tensor = [whole(1, 1), field(2, &dims)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

/// A model from `x` to `y`.
fn model(shape: &[u64], tensors: &[Vec<u8>], nodes: &[Vec<u8>]) -> Vec<u8> {
    [graph(shape, tensors, nodes), opset("", 17)].concat()
}

/// A version of the operators of a domain.
fn opset(domain: &str, version: u64) -> Vec<u8> {
    field(8, &[field(1, domain.as_bytes()), whole(2, version)].concat())
}

fn graph(shape: &[u64], tensors: &[Vec<u8>], nodes: &[Vec<u8>]) -> Vec<u8> {
    let tensors: Vec<u8> = tensors.iter().flat_map(|tensor| field(5, tensor)).collect();
    let nodes: Vec<u8> = nodes.iter().flat_map(|node| field(1, node)).collect();
    let ends = [field(11, &value("x", shape)), field(12, &value("y", &[]))].concat();
    field(7, &[nodes, tensors, ends].concat())
}

/// An image of one channel through all kinds of layers.
fn image_model() -> Vec<u8> {
    let kernel: Vec<f32> = (0u8..8).map(|i| f32::from(i) / 4.0 - 1.0).collect();
    let dense: Vec<f32> = (0u8..12).map(|i| f32::from(i) - 5.0).collect();
    let tensors = [
        tensor("k", &[2, 1, 2, 2], &kernel),
        tensor("kb", &[2], &[0.5, -0.5]),
        tensor("s", &[2], &[1.0, 2.0]),
        tensor("b", &[2], &[0.25, 0.0]),
        tensor("m", &[2], &[0.5, 1.0]),
        tensor("v", &[2], &[1.0, 3.0]),
        tensor("w", &[4, 3], &dense),
        tensor("c", &[3], &[1.0, 2.0, 3.0]),
    ];
    let epsilon = [field(1, b"epsilon"), vec![0x15], 1.0f32.to_le_bytes().to_vec()].concat();
    let nodes = [
        node("Conv", &["x", "k", "kb"], "1", &[integers("pads", &[1, 0, 0, 1])]),
        node("BatchNormalization", &["1", "s", "b", "m", "v"], "2", &[field(5, &epsilon)]),
        node("Mul", &["2", "2"], "3", &[]),
        node(
            "AveragePool",
            &["3"],
            "4",
            &[integers("kernel_shape", &[2, 4]), integers("strides", &[2, 1])],
        ),
        node("Flatten", &["4"], "5", &[]),
        node("MatMul", &["5", "w"], "6", &[]),
        node("Add", &["c", "6"], "y", &[]),
    ];
    model(&[1, 1, 4, 4], &tensors, &nodes)
}

#[test]
fn a_model_computes_what_onnx_defines() {
    let network = Network::from_onnx(&image_model(), 7).unwrap();
    assert_eq!((network.input(), network.outputs()), (&[1, 4, 4][..], 3));
    let image: Vec<f64> = (0..16).map(|i| f64::from(i * i % 7) / 4.0).collect();
    let at = |row: i32, column: i32| match (0..4).contains(&row) && (0..4).contains(&column) {
        true => image[(4 * row + column) as usize],
        false => 0.0,
    };
    let mut pooled = Vec::new();
    for channel in 0..2 {
        let (scale, shift, mean, variance, bias) = match channel {
            0 => (1.0, 0.25, 0.5, 1.0, 0.5),
            _ => (2.0, 0.0, 1.0, 3.0, -0.5),
        };
        for half in 0..2 {
            let mut sum = 0.0;
            for row in 2 * half..2 * half + 2 {
                for column in 0..4 {
                    let mut y = bias;
                    for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        let weight = f64::from(4 * channel + 2 * i + j) / 4.0 - 1.0;
                        y += weight * at(row + i - 1, column + j);
                    }
                    let y: f64 = scale * (y - mean) / f64::sqrt(variance + 1.0) + shift;
                    sum += y * y;
                }
            }
            pooled.push(sum / 8.0);
        }
    }
    let found = network.forward(&image).unwrap();
    for (j, found) in found.iter().enumerate() {
        let sum: f64 = pooled.iter().enumerate().map(|(i, x)| x * ((3 * i + j) as f64 - 5.0)).sum();
        assert!((found - (sum + j as f64 + 1.0)).abs() < 1e-9);
    }
}

#[test]
fn general_products_and_powers_are_read() {
    let weights = tensor("w", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let alpha = [field(1, b"alpha"), vec![0x15], 0.5f32.to_le_bytes().to_vec()].concat();
    let transposed = field(5, &[field(1, b"transB"), whole(3, 1)].concat());
    let tensors = [weights, tensor("c", &[2], &[1.0, -1.0]), tensor("e", &[], &[3.0])];
    let nodes = [
        node("Gemm", &["x", "w", "c"], "1", &[field(5, &alpha), transposed]),
        node("Pow", &["1", "e"], "y", &[]),
    ];
    let network = Network::from_onnx(&model(&[1, 3], &tensors, &nodes), 7).unwrap();
    let found = network.forward(&[1.0, 0.0, -1.0]).unwrap();
    assert_eq!(found, [0.0f64.powi(3), (-2.0f64).powi(3)]);
}

#[test]
fn unknown_operators_are_named_with_what_would_replace_them() {
    for (operator, instead) in [
        ("MaxPool", "AveragePool"),
        ("Softmax", "leave it out"),
        ("LeakyRelu", "use Relu"),
        ("Nonsense", "dense and convolutional"),
        ("Gelu", "from version 20 on"),
    ] {
        let bytes = model(&[1, 3], &[], &[node(operator, &["x"], "y", &[])]);
        let error = Network::from_onnx(&bytes, 7).unwrap_err();
        assert!(matches!(error, NnError::Operator { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(operator) && text.contains(instead), "{text}");
    }
}

/// A block with an identity, one with an affine shortcut, and sums that are not blocks.
#[test]
fn sums_of_branches_are_residual_blocks() {
    let tensors = [
        tensor("w", &[2, 3], &[1.0, 0.0, 2.0, -1.0, 1.0, 0.5]),
        tensor("v", &[3, 2], &[1.0, 2.0, 0.0, -1.0, 1.0, 1.0]),
        tensor("s", &[2, 3], &[1.0, 1.0, 0.0, 0.0, 2.0, -1.0]),
        tensor("b", &[3], &[1.0, 2.0, 3.0]),
    ];
    let nodes = [
        node("MatMul", &["x", "w"], "1", &[]),
        node("Mul", &["1", "1"], "2", &[]),
        node("MatMul", &["2", "v"], "3", &[]),
        node("Add", &["3", "x"], "4", &[]),
        node("MatMul", &["4", "s"], "5", &[]),
        node("Add", &["b", "5"], "6", &[]),
        node("MatMul", &["4", "w"], "7", &[]),
        node("Mul", &["7", "7"], "8", &[]),
        node("Add", &["6", "8"], "y", &[]),
    ];
    let network = Network::from_onnx(&model(&[1, 2], &tensors, &nodes), 7).unwrap();
    assert_eq!(network.layers().len(), 2);
    for [x, y] in [[0.0f64, 1.0], [0.5, -2.0]] {
        let found = network.forward(&[x, y]).unwrap();
        let [a, b, c] = [x - y, y, 2.0 * x + 0.5 * y].map(|sum| sum * sum);
        let [x, y] = [a + c + x, 2.0 * a - b + c + y];
        let [a, b, c] = [x - y, y, 2.0 * x + 0.5 * y].map(|sum| sum * sum);
        assert_eq!(found, [a + x + 1.0, b + x + 2.0 * y + 2.0, c - y + 3.0]);
    }
    let refused = |nodes: &[Vec<u8>], part: &str| {
        let error = Network::from_onnx(&model(&[1, 2], &tensors, nodes), 7).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let branches = [
        node("Relu", &["x"], "1", &[]),
        node("Tanh", &["x"], "2", &[]),
        node("Add", &["1", "2"], "y", &[]),
    ];
    refused(&branches, "without an activation");
    let shapes = [node("MatMul", &["x", "w"], "1", &[]), node("Add", &["1", "x"], "y", &[])];
    refused(&shapes, "the shapes [3] and [2]");
    let product = [node("Relu", &["x"], "1", &[]), node("Mul", &["1", "x"], "y", &[])];
    refused(&product, "sums and squares");
}

/// Models that another program wrote, and results that a third one computed with them, from
/// `tests/onnx/make.py`.
#[test]
fn models_compute_what_onnxruntime_does() {
    #[derive(serde::Deserialize)]
    struct Said {
        samples: Vec<Vec<f64>>,
        results: Vec<Vec<f64>>,
    }
    for (model, said) in [
        (
            &include_bytes!("../../../tests/onnx/dense.onnx")[..],
            include_str!("../../../tests/onnx/dense.json"),
        ),
        (
            &include_bytes!("../../../tests/onnx/image.onnx")[..],
            include_str!("../../../tests/onnx/image.json"),
        ),
        (
            &include_bytes!("../../../tests/onnx/residual.onnx")[..],
            include_str!("../../../tests/onnx/residual.json"),
        ),
    ] {
        let network = Network::from_onnx(model, 7).unwrap();
        let said: Said = serde_json::from_str(said).unwrap();
        for (sample, expected) in said.samples.iter().zip(&said.results) {
            let found = network.forward(sample).unwrap();
            assert_eq!(found.len(), expected.len());
            for (x, y) in found.iter().zip(expected) {
                assert!((x - y).abs() < 1e-5, "{x} {y}");
            }
        }
    }
}

/// Damage of any kind gives an error or another network, and nothing else.
#[test]
fn damaged_models_are_refused() {
    let whole = image_model();
    for length in 0..whole.len() {
        assert!(Network::from_onnx(&whole[..length], 7).is_err(), "{length}");
    }
    for place in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[place] ^= flip;
            let _ = Network::from_onnx(&bytes, 7);
        }
    }
}

/// An attribute of an integer.
fn integer(name: &str, value: u64) -> Vec<u8> {
    field(5, &[field(1, name.as_bytes()), whole(3, value)].concat())
}

fn text(name: &str, value: &str) -> Vec<u8> {
    field(5, &[field(1, name.as_bytes()), field(4, value.as_bytes())].concat())
}

/// A tensor of 64-bit integers.
fn sizes(name: &str, values: &[i64]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let head = [whole(1, values.len() as u64), whole(2, 7)].concat();
    [head, field(8, name.as_bytes()), field(9, &raw)].concat()
}

fn refused(bytes: &[u8], part: &str) {
    let error = Network::from_onnx(bytes, 7).unwrap_err();
    assert!(error.to_string().contains(part), "{error} has no {part:?}");
}

/// Parts of ONNX that are not supported, one for each reason. Sizes of samples are behind an axis
/// of one sample.
#[test]
fn what_is_not_computed_as_onnx_defines_it_is_refused() {
    let numbers = [
        tensor("two", &[2], &[1.0, 2.0]),
        tensor("row", &[1, 2], &[1.0, 2.0]),
        tensor("column", &[2, 1], &[1.0, 2.0]),
        tensor("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
        tensor("k", &[2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0]),
        tensor("powers", &[2], &[2.0, 3.0]),
        sizes("whole", &[1, 2]),
        sizes("features", &[-1, 3]),
        sizes("merged", &[2, -1]),
        sizes("one", &[1]),
        sizes("zero", &[0]),
        field(8, b"unread"),
    ];
    let image: &[u64] = &[1, 2, 3, 3];
    let vector: &[u64] = &[1, 2];
    let normalized = ["x", "two", "two", "two", "two"];
    let training = [integer("training_mode", 1)];
    for (shape, node, part) in [
        (image, node("BatchNormalization", &normalized, "y", &training), "training mode"),
        (image, node("BatchNormalization", &["x", "two", "two", "row", "two"], "y", &[]), "[1, 2]"),
        (image, node("BatchNormalization", &normalized[..4], "y", &[]), "inputs"),
        (image, node("Relu", &["x"], "y", &[integer("axis", 1)]), "\"axis\""),
        (image, node("Flatten", &["x"], "y", &[integer("axis", 2)]), "axis 1"),
        (image, node("Flatten", &["x"], "y", &[text("axis", "1")]), "\"axis\""),
        (image, node("Flatten", &["x"], "y", &[integer("axis", 1), integer("axis", 2)]), "twice"),
        (image, node("Reshape", &["x", "features"], "y", &[]), "samples must stay"),
        (
            image,
            node("Reshape", &["x", "merged"], "y", &[integer("allowzero", 1)]),
            "[2, -1] of samples",
        ),
        (image, node("Transpose", &["x"], "y", &[]), "stay the first"),
        (image, node("ReduceMean", &["x"], "y", &[]), "samples are averaged"),
        (image, node("ReduceMean", &["x"], "y", &[integers("axes", &[1, 2])]), "not its channels"),
        (image, node("ReduceMean", &["x"], "y", &[integers("axes", &[0, 2])]), "first axis"),
        (image, node("Squeeze", &["x"], "y", &[]), "name the axes"),
        (image, node("Squeeze", &["x", "zero"], "y", &[]), "first axis"),
        (image, node("Squeeze", &["x", "one"], "y", &[]), "drops the axes"),
        (image, node("Unsqueeze", &["x", "zero"], "y", &[]), "first axis"),
        (image, node("Conv", &["x", "k"], "y", &[integers("dilations", &[0, 1])]), "distances"),
        (
            image,
            node("Conv", &["x", "k"], "y", &[integers("kernel_shape", &[1, 2])]),
            "kernel_shape",
        ),
        (image, node("Conv", &["x", "k"], "y", &[integers("pads", &[1, 1])]), "[1, 1]"),
        (image, node("Conv", &["x", "k"], "y", &[text("auto_pad", "SAME")]), "SAME"),
        (image, node("Conv", &["x", "k", "row"], "y", &[]), "[1, 2]"),
        (image, node("Conv", &["x", "k"], "y", &[integer("group", 3)]), "3 groups"),
        (
            image,
            node(
                "AveragePool",
                &["x"],
                "y",
                &[
                    integers("kernel_shape", &[2, 2]),
                    integer("ceil_mode", 1),
                    integers("strides", &[2, 2]),
                ],
            ),
            "ceil_mode",
        ),
        (
            image,
            node(
                "AveragePool",
                &["x"],
                "y",
                &[integers("kernel_shape", &[2, 2]), integers("dilations", &[2, 2])],
            ),
            "\"dilations\"",
        ),
        (vector, node("Gemm", &["x", "w", "column"], "y", &[]), "each sample"),
        (vector, node("Gemm", &["x", "w", "two"], "y", &[integer("transA", 1)]), "transposed"),
        (vector, node("Gemm", &["w", "x", "two"], "y", &[]), "input 1 must be a constant"),
        (vector, node("MatMul", &["x", "two"], "y", &[]), "a matrix"),
        (vector, node("MatMul", &["x", "whole"], "y", &[]), "a matrix"),
        (
            vector,
            node("MatMul", &["x", "unknown"], "y", &[]),
            "no node before it gives \"unknown\"",
        ),
        (vector, node("Add", &["x", "column"], "y", &[]), "each sample"),
        (vector, node("Add", &["x", "whole"], "y", &[]), "floats"),
        (vector, node("Pow", &["x", "powers"], "y", &[]), "one whole exponent"),
        (vector, node("Cast", &["x"], "y", &[integer("to", 7)]), "data type 7"),
        (vector, node("Dropout", &["x", "two", "one"], "y", &[]), "training mode"),
        (vector, node("Sqrt", &["x"], "y", &[]), "constants alone"),
        (vector, [node("Relu", &["x"], "y", &[]), field(7, b"my.ops")].concat(), "my.ops"),
        (vector, [node("Relu", &["x"], "y", &[]), field(2, b"z")].concat(), "one is possible"),
    ] {
        refused(&model(shape, &numbers, &[node]), part);
    }
    let relu = [node("Relu", &["x"], "y", &[])];
    let network = |end: &[u8]| [&graph(vector, &[], &relu), end].concat();
    assert!(Network::from_onnx(&network(&opset("ai.onnx", 28)), 7).is_ok());
    refused(&network(&[]), "no version");
    refused(&network(&opset("", 6)), "version 6");
    refused(&network(&opset("", 29)), "version 29");
    refused(&network(&[opset("", 17), opset("ai.onnx", 18)].concat()), "several");
    let function = field(25, &field(1, b"Relu"));
    refused(&network(&[opset("", 17), function].concat()), "the function \"Relu\"");
    let twice = [relu[0].clone(), node("Tanh", &["x"], "y", &[])];
    refused(&model(vector, &[], &twice), "defined twice");
}

/// Weights in another file are read only in the directory of the model, and only the numbers of the
/// shape.
#[test]
fn weights_beside_a_model_stay_in_its_directory() {
    let beside = |location: &str, entries: &[(&str, &str)]| {
        let entry = |key: &str, value: &str| {
            field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
        };
        let entries: Vec<u8> = entries.iter().flat_map(|(key, value)| entry(key, value)).collect();
        let head = [whole(1, 2), whole(1, 1), whole(2, 1), field(8, b"w")].concat();
        let tensor = [head, entry("location", location), entries, whole(14, 1)].concat();
        model(&[1, 2], &[tensor], &[node("MatMul", &["x", "w"], "y", &[])])
    };
    let bytes = [0.0f32, 3.0, -5.0].map(f32::to_le_bytes).concat();
    let read = |model: &[u8]| {
        Network::from_onnx_with(model, 7, &mut |location, offset, count| {
            assert_eq!((location, offset, count), ("m.data", 4, 8));
            Ok(bytes[offset as usize..].to_vec())
        })
    };
    let network = read(&beside("m.data", &[("offset", "4"), ("length", "8")])).unwrap();
    assert_eq!(network.forward(&[1.0, 2.0]).unwrap(), [-7.0]);
    refused(&beside("m.data", &[]), "by its path");
    for (location, entries, part) in [
        ("../m.data", &[][..], "in the directory"),
        ("/etc/passwd", &[], "in the directory"),
        ("a/../../m.data", &[], "in the directory"),
        ("..\\m.data", &[], "in the directory"),
        ("C:m.data", &[], "in the directory"),
        ("", &[], "in the directory"),
        ("m.data", &[("length", "12")], "12 bytes"),
        ("m.data", &[("offset", "-1")], "offset"),
        ("m.data", &[("basepath", "/")], "basepath"),
    ] {
        let error = read(&beside(location, entries)).unwrap_err().to_string();
        assert!(error.contains(part), "{error} has no {part:?}");
    }
}
