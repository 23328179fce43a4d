//! The serialised form of an encoding.

use serde::{Deserialize, Serialize};

use super::{
    super::dates::DatePart, Code, Encoding, Input, Labels, Missing, Omission, Parts, Source,
    TableError, Unseen,
};

/// An encoding in JSON and in notes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    inputs: Vec<StoredInput>,
    target: Option<Labels>,
    missing: Missing,
    unseen: Unseen,
}

/// A column of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredInput {
    name: String,
    code: StoredCode,
}

/// The code of a column of the file.
// Notes store the number of the variant, so only append variants. Codes do not contain each other:
// a note may come from anybody, and nested ones could exhaust the stack.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredCode {
    Number {
        mean: Option<f64>,
        flag: bool,
    },
    Categories {
        values: Vec<String>,
        missing: bool,
    },
    Date {
        mean: Option<f64>,
        flag: bool,
    },
    Joined {
        values: Vec<String>,
        other: bool,
        missing: bool,
        fill: Option<u32>,
    },
    LeftOut {
        reason: Omission,
    },
    /// A code with a rule of its own for missing values.
    Ruled {
        missing: Missing,
        code: Code,
    },
    /// The parts of a column of dates.
    Split {
        parts: Vec<StoredPart>,
    },
}

/// A part of a column of dates.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPart {
    part: DatePart,
    missing: Missing,
    code: Code,
}

impl From<Code> for StoredCode {
    fn from(code: Code) -> Self {
        match code {
            Code::Number { mean, flag } => Self::Number { mean, flag },
            Code::Categories { values, missing } => Self::Categories { values, missing },
            Code::Date { mean, flag } => Self::Date { mean, flag },
            Code::Joined { values, other, missing, fill } => {
                Self::Joined { values, other, missing, fill }
            }
            Code::LeftOut { reason } => Self::LeftOut { reason },
        }
    }
}

impl StoredInput {
    /// Returns the column, or the columns of its parts. `missing` is the rule of columns without
    /// one of their own.
    fn inputs(self, missing: Missing) -> Vec<Input> {
        let Self { name, code } = self;
        let (rule, code) = match code {
            StoredCode::Number { mean, flag } => (missing, Code::Number { mean, flag }),
            StoredCode::Categories { values, missing: gaps } => {
                (missing, Code::Categories { values, missing: gaps })
            }
            StoredCode::Date { mean, flag } => (missing, Code::Date { mean, flag }),
            StoredCode::Joined { values, other, missing: gaps, fill } => {
                (missing, Code::Joined { values, other, missing: gaps, fill })
            }
            StoredCode::LeftOut { reason } => (missing, Code::LeftOut { reason }),
            StoredCode::Ruled { missing, code } => (missing, code),
            StoredCode::Split { parts } => {
                let of_part = |StoredPart { part, missing, code }| {
                    let source = Some(Source { column: name.clone(), part });
                    Input { name: part.column_of(&name), code, rule: missing, source }
                };
                return parts.into_iter().map(of_part).collect();
            }
        };
        vec![Input { name, code, rule, source: None }]
    }
}

impl TryFrom<Stored> for Encoding {
    type Error = TableError;

    fn try_from(stored: Stored) -> Result<Self, TableError> {
        let Stored { inputs, target, missing, unseen } = stored;
        let inputs = inputs.into_iter().flat_map(|input| input.inputs(missing)).collect();
        Self::try_from(Parts { inputs, target, missing, unseen })
    }
}

impl From<Encoding> for Stored {
    fn from(encoding: Encoding) -> Self {
        let Parts { inputs, target, missing, unseen } = encoding.parts;
        let mut stored: Vec<StoredInput> = Vec::new();
        for Input { name, code, rule, source } in inputs {
            let Some(Source { column, part }) = source else {
                let code = match rule == missing {
                    true => code.into(),
                    false => StoredCode::Ruled { missing: rule, code },
                };
                stored.push(StoredInput { name, code });
                continue;
            };
            let of_part = StoredPart { part, missing: rule, code };
            match stored.last_mut() {
                Some(StoredInput { name, code: StoredCode::Split { parts } })
                    if *name == column =>
                {
                    parts.push(of_part);
                }
                _ => {
                    let code = StoredCode::Split { parts: vec![of_part] };
                    stored.push(StoredInput { name: column, code });
                }
            }
        }
        Self { inputs: stored, target, missing, unseen }
    }
}
