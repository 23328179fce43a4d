//! Private search: a server answers queries to an index of vectors without seeing one or both.
//!
//! | answer | the owner learns |
//! |---|---|
//! | [`Answer::Scores`] | the similarity of each record, to rank ([`Plan::nearest`]) |
//! | [`Answer::Count`] | the number of records beyond a [`Threshold`] |
//! | [`Answer::Matches`] | numbers and payloads of those records |
//!
//! The index is encrypted, or the queries, or both ([`Mode`]). Vectors are compared by their angle,
//! inner product or distance ([`Metric`]). [`Plan::explain`] lists the cost and the leakage of a
//! search before a key exists.
//!
//! ```
//! use std::sync::Arc;
//! use sudare::{ckks, rlwe::KeyGenerator};
//! use sudare_apps::search::{Answer, Block, Metric, Mode, Plan, Query, Record, Spec};
//!
//! // Owner and server make the same plan of what is public.
//! let metric = Metric::Cosine;
//! let mode = Mode::Encrypted;
//! let answer = Answer::Scores;
//! let spec = Spec { dimension: 3, rows: 1000, metric, mode, answer };
//! let params = Plan::auto_params(&spec)?;
//! let plan = Plan::new(&spec, &params)?;
//!
//! // The owner encrypts blocks of records, and later a query.
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = Arc::new(keygen.public_key(&secret)?);
//! let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
//! let encryptor = ckks::Encryptor::new(&params, public)?;
//! let vectors = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 2.0]];
//! let records = vectors.each_ref().map(|vector| Some(Record { vector, payload: &[] }));
//! let mut block = Vec::new();
//! plan.encrypt_block(&encryptor, 0, &records, |_, part| Ok(block.push(part)))?;
//! let query = plan.encrypt_query(&encryptor, &[0.5, 1.0, 0.0])?;
//!
//! // The server holds `keys`, the block and the query.
//! let evaluator = ckks::Evaluator::new(&params, keys)?;
//! let search = plan.search(&evaluator, Query::Encrypted(&query))?;
//! let scores = search.scores(0, Block::Encrypted(&mut |part| Ok(block[part].clone())))?;
//!
//! // The owner ranks.
//! let decryptor = ckks::Decryptor::new(&params, secret)?;
//! let slots = plan.decrypt(&decryptor, &[scores])?;
//! let scores = plan.decode_scores(0, records.len(), &slots[0])?;
//! assert_eq!(plan.nearest(scores.into_iter().enumerate(), 1)[0].0, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod error;
mod explain;
mod layout;
mod plan;
mod read;
mod run;
mod select;
mod sketch;
mod spec;
#[cfg(test)]
mod tests;

pub use error::{Place, Result, SearchError};
pub use explain::{Explanation, Step};
pub use plan::{Plan, Record};
pub use read::{Count, Match, Matches};
pub use run::{Block, Query, Search};
pub use spec::{Answer, Metric, Mode, Spec, Threshold};
