//! Several owners of rows, one holder of the key, and sums that nobody sees but of all rows.
//!
//! What training needs to know of all rows beforehand, and statistics of them, follow from sums of
//! columns and of their products. Each owner computes those of its own rows in the clear, exactly,
//! and encrypts them; the holder of the key reads the total of all owners only. No precision is
//! lost: means, spreads and correlations are those that one table of all rows would have.
//!
//! | who | does |
//! |---|---|
//! | one owner | [`Schema::draft`] from its table, which all owners check and agree on |
//! | holder of the key | parameters and keys, [`SumsPlan::new`]; publishes schema and public key |
//! | each owner | [`Schema::apply`], [`Sums::of`], [`SumsPlan::encrypt`] |
//! | server | [`SumsPlan::add`], without any key |
//! | holder of the key | decrypts, [`SumsPlan::decode`], [`Totals::moments`] or [`Totals::statistics`] |
//! | each owner | prepares its rows by the transform that follows, see [`crate::logreg::Transform::of_moments`] |
//!
//! The server sees ciphertexts, and from the schema columns, bounds, categories and owners. The
//! holder of the key must not see what single owners send: who holds the key and runs the server
//! sees every owner's sums. Who is told the exact total and has rows in it can subtract their sums,
//! and knows those of all others together.
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
//! let (decryptor, encoder) = (ckks::Decryptor::new(&params, secret)?, ckks::Encoder::new(&params));
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
