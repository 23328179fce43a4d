//! The encoding of ONNX files, which is protocol buffers: fields of messages, and the few messages
//! that networks use.
//!
//! The numbers of fields are from
//! [onnx.proto](https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).

use std::path::{Component, Path};

use super::constant::{Constant, Numbers};
use crate::nn::error::{NnError, Result};

/// Maximum number of numbers of a tensor.
const MAX_NUMBERS: usize = 1 << 26;

/// The content of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

pub(crate) fn malformed(problem: impl Into<String>) -> NnError {
    NnError::Onnx { problem: problem.into() }
}

/// Splits off the first `count` bytes.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(count).ok_or_else(|| malformed("it ends early"))?;
    *bytes = rest;
    Ok(front)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    take(bytes, N)?.try_into().map_err(|_| malformed("it ends early"))
}

/// Reads seven bits from each byte, the lowest first.
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
pub(crate) fn fields<'a>(
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
            // Types 3 and 4 are groups, which are deprecated.
            other => return Err(malformed(format!("a field has the wire type {other}"))),
        };
        each(key >> 3, value)?;
    }
    Ok(())
}

impl<'a> Value<'a> {
    pub(crate) fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(malformed("a number is in place of bytes")),
        }
    }

    pub(crate) fn text(self) -> Result<String> {
        let text = core::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| malformed("a name is not UTF-8"))
    }

    fn integer(self) -> Result<i64> {
        match self {
            // Negative numbers are stored as their two's complement.
            Self::Varint(value) => Ok(value.cast_signed()),
            _ => Err(malformed("a value in place of an integer has another type")),
        }
    }

    /// Reads a repeated integer, packed or not.
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

/// Place of a tensor's numbers in another file.
#[derive(Debug, Default)]
struct External {
    location: String,
    offset: u64,
    length: Option<u64>,
}

impl External {
    /// Reads an entry with a key and a value.
    fn add(&mut self, entry: &[u8]) -> Result<()> {
        let mut key = String::new();
        let mut text = String::new();
        fields(entry, |field, value| {
            match field {
                1 => key = value.text()?,
                2 => text = value.text()?,
                _ => {}
            }
            Ok(())
        })?;
        let number = || {
            let number = text.parse::<u64>();
            number
                .map_err(|_| malformed(format!("weights in another file have the {key} {text:?}")))
        };
        match key.as_str() {
            "location" => self.location = text,
            "offset" => self.offset = number()?,
            "length" => self.length = Some(number()?),
            "checksum" => {}
            _ => {
                return Err(malformed(format!("weights in another file have the entry {key:?}")));
            }
        }
        Ok(())
    }

    /// Reads `count` bytes of the file.
    fn read(&self, name: &str, count: usize, beside: &mut Beside<'_>) -> Result<Vec<u8>> {
        let location = &self.location;
        let is_name = |component| matches!(component, Component::Normal(_) | Component::CurDir);
        // A model must not choose which file of a machine is read.
        let inside = !location.is_empty()
            && !location.contains(['\\', ':', '\0'])
            && Path::new(location).components().all(is_name);
        if !inside {
            return Err(malformed(format!(
                "the numbers of tensor {name:?} are in the file {location:?}: only files in the \
                 directory of the model are read"
            )));
        }
        if self.length.is_some_and(|length| usize::try_from(length) != Ok(count)) {
            let length = self.length.unwrap_or(0);
            return Err(malformed(format!(
                "tensor {name:?} has {length} bytes in {location:?}, but its shape needs {count}"
            )));
        }
        let bytes = beside(location, self.offset, count)?;
        match bytes.len() == count {
            true => Ok(bytes),
            false => Err(malformed(format!("{location:?} ends before tensor {name:?} does"))),
        }
    }
}

/// Reads bytes of a file next to a model, by its name, an offset, and a length.
pub type Beside<'a> = dyn FnMut(&str, u64, usize) -> Result<Vec<u8>> + 'a;

/// Data types of tensors.
pub(crate) const FLOAT: i64 = 1;
pub(crate) const INT32: i64 = 6;
pub(crate) const INT64: i64 = 7;
const BOOL: i64 = 9;
pub(crate) const DOUBLE: i64 = 11;

/// A tensor in its stored form. It is parsed when a node uses it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored<'a>(&'a [u8]);

impl<'a> Stored<'a> {
    fn name(self) -> Result<String> {
        let mut name = String::new();
        fields(self.0, |field, value| {
            if field == 8 {
                name = value.text()?;
            }
            Ok(())
        })?;
        Ok(name)
    }

    pub(crate) fn read(self, beside: &mut Beside<'_>) -> Result<Constant> {
        let name = self.name()?;
        let mut dims = Vec::new();
        let mut kind = 0;
        let mut floats = Vec::new();
        let mut small = Vec::new();
        let mut large = Vec::new();
        let mut doubles = Vec::new();
        let mut raw: Option<&[u8]> = None;
        let mut external: Option<External> = None;
        let mut is_external = false;
        fields(self.0, |field, value| {
            // Fields of `TensorProto`.
            match field {
                1 => value.integers(&mut dims)?,
                2 => kind = value.integer()?,
                3 => return Err(malformed(format!("tensor {name:?} is in segments"))),
                4 => match value {
                    Value::Bytes(bytes) => singles(bytes, &mut floats)?,
                    Value::Fixed32(word) => floats.push(f64::from(f32::from_le_bytes(word))),
                    _ => return Err(malformed("a tensor has floats of another kind")),
                },
                5 => value.integers(&mut small)?,
                7 => value.integers(&mut large)?,
                9 => raw = Some(value.bytes()?),
                10 => match value {
                    Value::Bytes(bytes) => words(bytes, &mut doubles, f64::from_le_bytes)?,
                    Value::Fixed64(word) => doubles.push(f64::from_le_bytes(word)),
                    _ => return Err(malformed("a tensor has doubles of another kind")),
                },
                13 => external.get_or_insert_default().add(value.bytes()?)?,
                14 => is_external = value.integer()? != 0,
                _ => {}
            }
            Ok(())
        })?;
        // Without zeros, no size exceeds the number of numbers.
        let size = |&dim: &i64| match usize::try_from(dim) {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(malformed(format!("tensor {name:?} has a size of {dim}"))),
        };
        let shape = dims.iter().map(size).collect::<Result<Vec<_>>>()?;
        let count = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let count = count.filter(|&count| count <= MAX_NUMBERS);
        let Some(count) = count else {
            return Err(malformed(format!("tensor {name:?} has the shape {shape:?}")));
        };
        let width = match kind {
            FLOAT | INT32 => 4,
            INT64 | DOUBLE => 8,
            BOOL => 1,
            _ => {
                return Err(malformed(format!(
                    "tensor {name:?} has the data type {kind}: float (1), int32 (6), int64 (7), \
                     bool (9) and double (11) are read"
                )));
            }
        };
        let bytes: Vec<u8>;
        if let Some(external) = external.filter(|_| is_external) {
            bytes = external.read(&name, count.saturating_mul(width), beside)?;
            if raw.replace(&bytes).is_some() {
                return Err(malformed(format!("tensor {name:?} is here and in another file")));
            }
        } else if is_external {
            return Err(malformed(format!("tensor {name:?} is in a file that is not named")));
        }
        if let Some(raw) = raw {
            match kind {
                FLOAT => singles(raw, &mut floats)?,
                DOUBLE => words(raw, &mut doubles, f64::from_le_bytes)?,
                INT64 => words(raw, &mut large, i64::from_le_bytes)?,
                INT32 => words(raw, &mut small, |word| i64::from(i32::from_le_bytes(word)))?,
                _ => words(raw, &mut small, |[byte]| i64::from(byte))?,
            }
        }
        let found = [&floats, &doubles].map(Vec::len).iter().sum::<usize>();
        let found = found.saturating_add([&small, &large].map(Vec::len).iter().sum());
        let integers =
            |numbers: Vec<i64>| Numbers::Integers(numbers.into_iter().map(Some).collect());
        let numbers = match kind {
            FLOAT => Numbers::Floats { numbers: floats, single: true },
            DOUBLE => Numbers::Floats { numbers: doubles, single: false },
            INT64 => integers(large),
            // Other types have 32 bits, in any encoding.
            _ => integers(small.into_iter().map(|number| i64::from(number as i32)).collect()),
        };
        // This also rejects numbers of a different type than the tensor declares.
        if found != count || numbers.len() != count {
            let problem = format!("tensor {name:?} has {found} numbers for the shape {shape:?}");
            return Err(malformed(problem));
        }
        Ok(Constant { shape, numbers })
    }
}

/// Returns numbers of `N` bytes each, the lowest byte first.
fn words<const N: usize, T>(
    bytes: &[u8],
    out: &mut Vec<T>,
    number: impl Fn([u8; N]) -> T,
) -> Result<()> {
    let (words, rest) = bytes.as_chunks();
    if !rest.is_empty() || words.len() > MAX_NUMBERS {
        return Err(malformed(format!("a tensor has {} bytes of numbers", bytes.len())));
    }
    out.extend(words.iter().map(|&word| number(word)));
    Ok(())
}

fn singles(bytes: &[u8], out: &mut Vec<f64>) -> Result<()> {
    words(bytes, out, |word| f64::from(f32::from_le_bytes(word)))
}

/// Content of an attribute.
#[derive(Debug, Clone)]
pub(crate) enum Content<'a> {
    Float(f64),
    Integer(i64),
    Text(String),
    Tensor(Stored<'a>),
    Floats(Vec<f64>),
    Integers(Vec<i64>),
    Texts(Vec<String>),
    /// Graphs, sparse tensors.
    Other,
}

/// An attribute of a node: a number, numbers or a tensor.
#[derive(Debug, Clone)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: String,
    pub(crate) content: Content<'a>,
}

/// A node of a graph.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node<'a> {
    pub(crate) name: String,
    pub(crate) operator: String,
    pub(crate) domain: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) attributes: Vec<Attribute<'a>>,
}

/// An input of a graph, with its known sizes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Input {
    pub(crate) name: String,
    /// The data type, with the numbers of tensor types. 0 if the input is not a tensor.
    pub(crate) kind: i64,
    pub(crate) shape: Vec<Option<usize>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Graph<'a> {
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) tensors: Vec<(String, Stored<'a>)>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<String>,
    /// The version of ONNX's own operators.
    pub(crate) version: i64,
}

/// Returns whether a domain contains ONNX's own operators.
pub(crate) fn is_own(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

impl<'a> Graph<'a> {
    /// Reads the graph of a model.
    pub(crate) fn of_model(bytes: &'a [u8]) -> Result<Self> {
        let mut graphs = Vec::new();
        let mut versions = Vec::new();
        fields(bytes, |field, value| {
            // Fields of `ModelProto`.
            match field {
                7 => graphs.push(value.bytes()?),
                8 => {
                    let mut domain = String::new();
                    let mut version = 0;
                    fields(value.bytes()?, |field, value| {
                        match field {
                            1 => domain = value.text()?,
                            2 => version = value.integer()?,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    if is_own(&domain) {
                        versions.push(version);
                    }
                }
                // A function replaces the operator of its name.
                25 => {
                    let mut name = String::new();
                    let mut domain = String::new();
                    fields(value.bytes()?, |field, value| {
                        match field {
                            1 => name = value.text()?,
                            10 => domain = value.text()?,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    if is_own(&domain) {
                        return Err(malformed(format!(
                            "it defines the function {name:?} in place of an operator"
                        )));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        let [graph] = graphs[..] else {
            return Err(malformed(format!("it has {} graphs: one is needed", graphs.len())));
        };
        // Some exporters name the same version twice.
        versions.dedup();
        let [version] = versions[..] else {
            return Err(malformed(
                "it has no version of ONNX's operators, or several: export it with one opset",
            ));
        };
        Ok(Self { version, ..Self::read(graph)? })
    }

    fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut graph = Self::default();
        fields(bytes, |field, value| {
            // Fields of `GraphProto`.
            match field {
                1 => graph.nodes.push(Node::read(value.bytes()?)?),
                5 => {
                    let stored = Stored(value.bytes()?);
                    graph.tensors.push((stored.name()?, stored));
                }
                11 => graph.inputs.push(Input::read(value.bytes()?)?),
                12 => graph.outputs.push(Input::read(value.bytes()?)?.name),
                _ => {}
            }
            Ok(())
        })?;
        Ok(graph)
    }
}

impl<'a> Node<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut node = Self::default();
        fields(bytes, |field, value| {
            // Fields of `NodeProto`.
            match field {
                1 => node.inputs.push(value.text()?),
                2 => node.outputs.push(value.text()?),
                3 => node.name = value.text()?,
                4 => node.operator = value.text()?,
                5 => node.attributes.push(Attribute::read(value.bytes()?)?),
                7 => node.domain = value.text()?,
                8 if !value.bytes()?.is_empty() => {
                    return Err(malformed("a node has the overload of a function"));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(node)
    }

    pub(crate) fn content(&self, name: &str) -> Option<&Content<'a>> {
        let named = self.attributes.iter().find(|attribute| attribute.name == name);
        named.map(|attribute| &attribute.content)
    }
}

impl<'a> Attribute<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut name = String::new();
        let mut kind = 0;
        let mut floats = Vec::new();
        let mut integers = Vec::new();
        let mut texts = Vec::new();
        let mut content = Vec::new();
        fields(bytes, |field, value| {
            // Fields of `AttributeProto`.
            match (field, value) {
                (1, value) => name = value.text()?,
                (2, Value::Fixed32(word)) => {
                    content.push(Content::Float(f64::from(f32::from_le_bytes(word))));
                }
                (3, value) => content.push(Content::Integer(value.integer()?)),
                (4, value) => {
                    let text = String::from_utf8_lossy(value.bytes()?).into_owned();
                    content.push(Content::Text(text));
                }
                (5, value) => content.push(Content::Tensor(Stored(value.bytes()?))),
                (7, Value::Bytes(bytes)) => singles(bytes, &mut floats)?,
                (7, Value::Fixed32(word)) => floats.push(f64::from(f32::from_le_bytes(word))),
                (8, value) => value.integers(&mut integers)?,
                (9, value) => {
                    check_room(&texts)?;
                    texts.push(String::from_utf8_lossy(value.bytes()?).into_owned());
                }
                (20, value) => kind = value.integer()?,
                // This includes a reference to an attribute of a function.
                (2 | 6 | 7 | 10 | 11 | 14 | 15 | 21..=23, _) => content.push(Content::Other),
                _ => {}
            }
            Ok(())
        })?;
        if !floats.is_empty() {
            content.push(Content::Floats(floats));
        }
        if !integers.is_empty() {
            content.push(Content::Integers(integers));
        }
        if !texts.is_empty() {
            content.push(Content::Texts(texts));
        }
        // A second content makes the attribute ambiguous.
        let known = (content.pop(), content.pop());
        // Writers may omit zero or empty content.
        let content = match (kind, known) {
            (0 | 1, (Some(content @ Content::Float(_)), None))
            | (0 | 2, (Some(content @ Content::Integer(_)), None))
            | (0 | 3, (Some(content @ Content::Text(_)), None))
            | (0 | 4, (Some(content @ Content::Tensor(_)), None))
            | (0 | 6, (Some(content @ Content::Floats(_)), None))
            | (0 | 7, (Some(content @ Content::Integers(_)), None))
            | (0 | 8, (Some(content @ Content::Texts(_)), None)) => content,
            (1, (None, _)) => Content::Float(0.0),
            (2, (None, _)) => Content::Integer(0),
            (3, (None, _)) => Content::Text(String::new()),
            (6, (None, _)) => Content::Floats(Vec::new()),
            (7, (None, _)) => Content::Integers(Vec::new()),
            _ => Content::Other,
        };
        Ok(Self { name, content })
    }
}

impl Input {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut input = Self::default();
        fields(bytes, |field, value| {
            // Fields of `ValueInfoProto`.
            match field {
                1 => input.name = value.text()?,
                // A type. Its first alternative is a tensor type.
                2 => fields(value.bytes()?, |field, value| match field {
                    1 => input.read_tensor(value.bytes()?),
                    _ => Ok(()),
                })?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(input)
    }

    fn read_tensor(&mut self, bytes: &[u8]) -> Result<()> {
        fields(bytes, |field, value| {
            match field {
                1 => self.kind = value.integer()?,
                2 => fields(value.bytes()?, |field, value| {
                    if field == 1 {
                        self.shape.push(Self::read_size(value.bytes()?)?);
                    }
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })
    }

    /// Reads a size, if it is a number.
    fn read_size(bytes: &[u8]) -> Result<Option<usize>> {
        let mut size = None;
        fields(bytes, |field, value| {
            if field == 1 {
                size = usize::try_from(value.integer()?).ok();
            }
            Ok(())
        })?;
        Ok(size)
    }
}
