//! The encoding of ONNX files, protocol buffers: fields of messages, and the few messages that
//! networks are made of.

use crate::nn::error::{NnError, Result};

/// The most numbers of a tensor.
const MAX_NUMBERS: usize = 1 << 26;

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

pub(super) fn malformed(problem: impl Into<String>) -> NnError {
    NnError::Onnx { problem: problem.into() }
}

/// Takes so many bytes from the front.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(count).ok_or_else(|| malformed("it ends early"))?;
    *bytes = rest;
    Ok(front)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    take(bytes, N)?.try_into().map_err(|_| malformed("it ends early"))
}

/// Seven bits a byte, the lowest first.
fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = array(bytes)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(malformed("a number has more than 64 bits"))
}

/// Calls `each` with the number and content of every field of a message.
pub(super) fn fields<'a>(
    mut bytes: &'a [u8],
    mut each: impl FnMut(u64, Value<'a>) -> Result<()>,
) -> Result<()> {
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut bytes)?),
            1 => Value::Fixed64(array(&mut bytes)?),
            2 => {
                let length = varint(&mut bytes)?;
                let length = usize::try_from(length).map_err(|_| malformed("it ends early"))?;
                Value::Bytes(take(&mut bytes, length)?)
            }
            5 => Value::Fixed32(array(&mut bytes)?),
            other => return Err(malformed(format!("a field has the wire type {other}"))),
        };
        each(key >> 3, value)?;
    }
    Ok(())
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(malformed("a number stands in place of bytes")),
        }
    }

    pub(super) fn text(self) -> Result<String> {
        let text = core::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| malformed("a name is not UTF-8"))
    }

    fn integer(self) -> Result<i64> {
        match self {
            // Negative numbers are their two's complement.
            Self::Varint(value) => Ok(value.cast_signed()),
            _ => Err(malformed("something else stands in place of an integer")),
        }
    }

    /// A repeated integer, packed or not.
    fn integers(self, out: &mut Vec<i64>) -> Result<()> {
        match self {
            Self::Bytes(mut bytes) => {
                while !bytes.is_empty() {
                    check_room(out)?;
                    out.push(varint(&mut bytes)?.cast_signed());
                }
                Ok(())
            }
            value => {
                check_room(out)?;
                out.push(value.integer()?);
                Ok(())
            }
        }
    }
}

fn check_room<T>(numbers: &[T]) -> Result<()> {
    match numbers.len() < MAX_NUMBERS {
        true => Ok(()),
        false => Err(malformed(format!("a tensor has more than {MAX_NUMBERS} numbers"))),
    }
}

/// Constant numbers with a shape.
#[derive(Debug, Clone, Default)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) numbers: Vec<f64>,
}

impl Tensor {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let (mut dims, mut integers, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut kind, mut name, mut raw) = (0, String::new(), None);
        fields(bytes, |field, value| {
            match field {
                1 => value.integers(&mut dims)?,
                2 => kind = value.integer()?,
                4 => match value {
                    Value::Bytes(bytes) => floats(bytes, 4, &mut numbers)?,
                    Value::Fixed32(word) => numbers.push(f64::from(f32::from_le_bytes(word))),
                    _ => return Err(malformed("a tensor has floats of another kind")),
                },
                5 | 7 => value.integers(&mut integers)?,
                8 => name = value.text()?,
                9 => raw = Some(value.bytes()?),
                10 => match value {
                    Value::Bytes(bytes) => floats(bytes, 8, &mut numbers)?,
                    Value::Fixed64(word) => numbers.push(f64::from_le_bytes(word)),
                    _ => return Err(malformed("a tensor has doubles of another kind")),
                },
                13 | 14 => {
                    let problem = "its weights are in another file: save them in the model";
                    return Err(malformed(problem));
                }
                _ => {}
            }
            Ok(())
        })?;
        match (kind, raw) {
            (1, Some(raw)) => floats(raw, 4, &mut numbers)?,
            (11, Some(raw)) => floats(raw, 8, &mut numbers)?,
            (7, Some(raw)) => {
                let words = raw.as_chunks().0.iter().map(|&word| i64::from_le_bytes(word));
                integers.extend(words.take(MAX_NUMBERS));
            }
            (1 | 6 | 7 | 11, None) => {}
            _ => {
                return Err(malformed(format!(
                    "tensor {name:?} has the data type {kind}: float (1), double (11) and int64 (7) \
                     are read"
                )));
            }
        }
        numbers.extend(integers.iter().map(|&n| n as f64));
        // Without zeros no size exceeds the count of numbers.
        let size = |&dim: &i64| match usize::try_from(dim) {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(malformed(format!("tensor {name:?} has a size of {dim}"))),
        };
        let shape = dims.iter().map(size).collect::<Result<Vec<_>>>()?;
        let count = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        if count != Some(numbers.len()) {
            let found = numbers.len();
            let problem = format!("tensor {name:?} has {found} numbers for the shape {shape:?}");
            return Err(malformed(problem));
        }
        Ok(Self { name, shape, numbers })
    }
}

/// Little-endian floating-point numbers of so many bytes, 4 or 8.
fn floats(bytes: &[u8], width: usize, out: &mut Vec<f64>) -> Result<()> {
    if !bytes.len().is_multiple_of(width) || bytes.len().div_ceil(width) > MAX_NUMBERS {
        return Err(malformed(format!("a tensor has {} bytes of numbers", bytes.len())));
    }
    match width {
        4 => {
            let words = bytes.as_chunks().0.iter();
            out.extend(words.map(|&word| f64::from(f32::from_le_bytes(word))));
        }
        _ => out.extend(bytes.as_chunks().0.iter().map(|&word| f64::from_le_bytes(word))),
    }
    Ok(())
}

/// A number, numbers or a tensor that a node has beside its inputs.
#[derive(Debug, Clone, Default)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) float: Option<f64>,
    pub(super) integer: Option<i64>,
    pub(super) integers: Vec<i64>,
    pub(super) text: String,
    pub(super) tensor: Option<Tensor>,
}

/// A step of a graph.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) operator: String,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) attributes: Vec<Attribute>,
}

/// What a graph takes, with the sizes that are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) shape: Vec<Option<usize>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<String>,
}

impl Graph {
    /// That of a model.
    pub(super) fn of_model(bytes: &[u8]) -> Result<Self> {
        let mut graph = None;
        fields(bytes, |field, value| {
            if field == 7 {
                graph = Some(Self::read(value.bytes()?)?);
            }
            Ok(())
        })?;
        graph.ok_or_else(|| malformed("it has no graph"))
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let mut graph = Self::default();
        fields(bytes, |field, value| {
            match field {
                1 => graph.nodes.push(Node::read(value.bytes()?)?),
                5 => graph.tensors.push(Tensor::read(value.bytes()?)?),
                11 => graph.inputs.push(Input::read(value.bytes()?)?),
                12 => graph.outputs.push(Input::read(value.bytes()?)?.name),
                _ => {}
            }
            Ok(())
        })?;
        Ok(graph)
    }
}

impl Node {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut node = Self::default();
        fields(bytes, |field, value| {
            match field {
                1 => node.inputs.push(value.text()?),
                2 => node.outputs.push(value.text()?),
                3 => node.name = value.text()?,
                4 => node.operator = value.text()?,
                5 => node.attributes.push(Attribute::read(value.bytes()?)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(node)
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }
}

impl Attribute {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut attribute = Self::default();
        fields(bytes, |field, value| {
            match (field, value) {
                (1, value) => attribute.name = value.text()?,
                (2, Value::Fixed32(word)) => {
                    attribute.float = Some(f64::from(f32::from_le_bytes(word)));
                }
                (3, value) => attribute.integer = Some(value.integer()?),
                (4, value) => {
                    attribute.text = String::from_utf8_lossy(value.bytes()?).into_owned();
                }
                (5, value) => attribute.tensor = Some(Tensor::read(value.bytes()?)?),
                (8, value) => value.integers(&mut attribute.integers)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(attribute)
    }
}

impl Input {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut input = Self::default();
        fields(bytes, |field, value| {
            match field {
                1 => input.name = value.text()?,
                // A type, of which a tensor's, its shape, and a dimension of that.
                2 => nested(value.bytes()?, &[1, 2, 1], &mut |dimension| {
                    let mut size = None;
                    fields(dimension, |field, value| {
                        if field == 1 {
                            size = usize::try_from(value.integer()?).ok();
                        }
                        Ok(())
                    })?;
                    input.shape.push(size);
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(input)
    }
}

/// Calls `each` with the messages at a path of field numbers.
fn nested(bytes: &[u8], path: &[u64], each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let Some((&first, rest)) = path.split_first() else { return each(bytes) };
    fields(bytes, |field, value| match field == first {
        true => nested(value.bytes()?, rest, each),
        false => Ok(()),
    })
}
