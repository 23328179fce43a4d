//! Sums over the rows of several owners, revealed to one holder of the key as totals only.
//!
//! Preparing rows for training, and their statistics, requires sums of columns and of products of
//! columns. Each owner computes the exact sums of its own rows in the clear and encrypts them. The
//! holder of the key reads only the total of all owners. No precision is lost: means, spreads and
//! correlations are the same as for one table of all rows.
//!
//! | party | steps |
//! |---|---|
//! | one owner | [`Schema::draft`] from its table, which all owners check and agree on |
//! | holder of the key | parameters and keys, [`SumsPlan::new`]; publishes schema and public key |
//! | each owner | [`Schema::apply`], [`Sums::of`], [`SumsPlan::encrypt`] |
//! | server | [`SumsPlan::add`], without any key |
//! | holder of the key | decrypts, [`SumsPlan::decode`], [`Totals::moments`] or [`Totals::statistics`] |
//! | each owner | prepares its rows by the resulting transform, see [`crate::logreg::Transform::of_moments`] |
//!
//! The server sees ciphertexts, and in the schema it sees columns, bounds, categories and owners.
//! The holder of the key must not see the ciphertexts of single owners: a server that also holds
//! the key sees every owner's sums. An owner who learns the exact total can subtract its own sums,
//! and then knows the sums of all other owners together.
//!
//! ```
//! use std::{io::Cursor, sync::Arc};
//! use sudare::{ckks, rlwe::{EvaluationKeys, KeyGenerator}};
//! use sudare_apps::pool::{Schema, Sums, SumsPlan};
//! use sudare_table::{EncodingOptions, Frame};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // All agree on what one of them drafts.
//! let options = EncodingOptions::default();
//! let read = |text| Frame::from_csv(Cursor::new(text), &options.read_options(Some("ill")));
//! let north = read("age,dose,ill\n31,0.5,0\n64,1.5,1\n58,0.1,1\n")?;
//! let south = read("dose,ill,age\n1.25,0,47\n0.75,1,52\n")?;
//! let schema = Schema::draft(&north, Some("ill"), &options, &["north".into(), "south".into()])?;
//!
//! // The holder of the key.
//! let params = ckks::Params::new(ckks::Spec::uniform(13, 50.0, 0, 40.0, vec![50.0]))?;
//! let plan = SumsPlan::new(&schema, true, 1_000_000, &params)?;
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = Arc::new(keygen.public_key(&secret)?);
//!
//! // Each owner.
//! let encryptor = ckks::Encryptor::new(&params, public)?;
//! let mut sent = Vec::new();
//! for (name, frame) in [("north", &north), ("south", &south)] {
//!     let sums = Sums::of(&schema, &schema.apply(frame)?, true)?;
//!     sent.push(plan.encrypt(&encryptor, schema.owner(name)?, &sums)?);
//! }
//!
//! // The server.
//! let keys = EvaluationKeys::none(params.rlwe(), encryptor.key_id());
//! let evaluator = ckks::Evaluator::new(&params, Arc::new(keys))?;
//! let mut total = Vec::new();
//! for owner in sent {
//!     plan.add(&evaluator, &mut total, owner)?;
//! }
//!
//! // The holder of the key.
//! let decryptor = ckks::Decryptor::new(&params, secret)?;
//! let encoder = ckks::Encoder::new(&params);
//! let decode = |part| encoder.decode_real(&decryptor.decrypt(part)?);
//! let slots = total.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
//! let totals = plan.decode(&slots)?;
//! assert_eq!(totals.class_counts(), [2, 3]);
//! assert!((totals.statistics().mean[0] - 50.4).abs() < 1e-12);
//! # Ok(())
//! # }
//! ```

mod error;
mod plan;
mod schema;
mod sums;
mod totals;

pub use error::PoolError;
pub use plan::SumsPlan;
pub use schema::{Bounds, Schema};
pub use sums::Sums;
pub use totals::Totals;

#[cfg(test)]
mod testkit;
