//! Costs of searches and contents of answers, as JSON and as text.

use super::{Answered, Found, Session, Value};
use crate::output;
use serde::Serialize;
use serde_json::json;
use sudare_roles::{search::Explained, text::size};

/// Cost and leakage of a search.
#[derive(Serialize)]
pub struct Plan {
    pub job: String,
    #[serde(flatten)]
    pub explained: Explained,
}

/// Shows the plan of a search.
pub fn explained(plan: &Plan) -> String {
    let e = &plan.explained;
    let index = match e.block_ciphertexts {
        0 => format!("in the clear, {} blocks of {} rows", e.blocks, e.block_rows),
        parts => format!(
            "{} blocks of {} rows, {parts} ciphertexts each, {}, half by the secret key",
            e.blocks,
            e.block_rows,
            size::bytes(e.index_bytes)
        ),
    };
    let mut fields = vec![
        ("job", plan.job.clone()),
        ("ring", format!("N = 2^{}, {} levels", e.log_n, e.levels)),
        ("security", format!("{:.0} bits", e.security_bits)),
        ("keys", format!("{}, {} in memory", e.keys, size::bytes(e.key_memory_bytes))),
        ("index", index),
        ("query", size::bytes(e.query_bytes)),
        ("answer", size::bytes(e.answer_bytes)),
        ("operations", format!("{} products, {} automorphisms", e.products, e.automorphisms)),
        ("time", format!("about {:.1} s on one thread", e.seconds)),
        ("scores", format!("within {:.1e}", e.largest_error)),
    ];
    if let Some(log2) = e.log2_incomplete {
        fields.push(("incomplete", format!("2^{log2:.0} of the answers with planned matches")));
    }
    if let Some(log2) = e.log2_wrong {
        fields.push(("wrong by noise", format!("at most 2^{log2:.0} of the answers")));
    }
    fields.extend(e.leakage.iter().map(|sentence| ("leakage", sentence.clone())));
    output::fields(&fields)
}

/// A record and its similarity.
#[derive(Serialize)]
pub struct Near {
    row: usize,
    /// The cosine, the inner product, or the distance.
    similarity: f64,
}

/// Content of an answer.
#[derive(Serialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Read {
    Scores {
        rows: usize,
        largest_error: f64,
        nearest: Vec<Near>,
    },
    Count {
        matches: usize,
        undecided: usize,
    },
    Matches {
        complete: bool,
        matches: Vec<Match>,
        crowded: usize,
        undecided: usize,
        more_than_planned: bool,
    },
}

/// A matching record, with its payload as JSON has it.
#[derive(Serialize)]
pub struct Match {
    row: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<serde_json::Value>,
}

impl Match {
    fn new(found: Found) -> Self {
        let payload = match found.payload {
            Value::Nothing => None,
            Value::Integers(numbers) => Some(numbers.into()),
            Value::Bytes(bytes) => Some(match String::from_utf8(bytes) {
                Ok(text) => text.into(),
                // JSON has no bytes, and no other text would give these back.
                Err(error) => json!({ "hex": hex(error.as_bytes()) }),
            }),
        };
        Self { row: found.row, payload }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Read {
    pub fn new(answered: Answered, nearest: Option<Vec<(usize, f64)>>, session: &Session) -> Self {
        match answered {
            Answered::Scores(scores) => {
                let near = |(row, similarity)| Near { row, similarity };
                let nearest = nearest.unwrap_or_default().into_iter().map(near).collect();
                let largest_error = session.plan.largest_error();
                Self::Scores { rows: scores.len(), largest_error, nearest }
            }
            Answered::Count { matches, undecided } => Self::Count { matches, undecided },
            Answered::Matches { found, crowded, undecided, more_than_planned } => Self::Matches {
                // More matches than planned are complete, too, if each of them was listed.
                complete: crowded == 0 && undecided == 0,
                matches: found.into_iter().map(Match::new).collect(),
                crowded,
                undecided,
                more_than_planned,
            },
        }
    }
}

/// Shows the answer to a query.
pub fn read(read: &Read) -> String {
    match read {
        Read::Scores { nearest, .. } => {
            let rows: Vec<_> = nearest
                .iter()
                .map(|near| vec![near.row.to_string(), format!("{:.6}", near.similarity)])
                .collect();
            output::table(&["row", "similarity"], &rows)
        }
        Read::Count { matches, undecided } => {
            format!("{matches} rows match{}\n", undecided_text(*undecided))
        }
        Read::Matches { matches, crowded, undecided, more_than_planned, .. } => {
            let rows: Vec<_> = matches
                .iter()
                .map(|found| {
                    let payload = found.payload.as_ref().map(ToString::to_string);
                    vec![found.row.to_string(), payload.unwrap_or_default()]
                })
                .collect();
            let mut text = output::table(&["row", "payload"], &rows);
            text += &format!("{} rows match{}", matches.len(), undecided_text(*undecided));
            if *crowded > 0 {
                text += &format!("; {crowded} more matches are too crowded to be listed");
            }
            if *more_than_planned {
                text += "; more than planned: make keys with a larger --most, or a stricter --at";
            }
            text.push('\n');
            text
        }
    }
}

fn undecided_text(undecided: usize) -> String {
    match undecided {
        0 => String::new(),
        _ => {
            format!("; {undecided} sums with rows within the margin of the threshold are left out")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are no text came back as other ones.
    #[test]
    fn payloads_are_told_as_they_are() {
        for (payload, expected) in [
            (Value::Nothing, None),
            (Value::Integers(vec![1, 2]), Some(json!([1, 2]))),
            (Value::Bytes("maß".into()), Some(json!("maß"))),
            (Value::Bytes(vec![]), Some(json!(""))),
            (Value::Bytes(vec![1, 255, 7]), Some(json!({ "hex": "01ff07" }))),
        ] {
            let told = Match::new(Found { row: 3, payload });
            assert_eq!((told.row, told.payload), (3, expected));
        }
    }
}
