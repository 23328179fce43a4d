//! Private search: files and messages between the owner of an index, who asks, and a server.
//!
//! | role | operation |
//! |---|---|
//! | owner | makes keys for a [`Setup`], which the label of each key carries ([`key_label`]) |
//! | owner | encrypts an index block by block, and updates it ([`Builder`]) |
//! | owner | encrypts a query ([`Writer::write_query`]) |
//! | server | searches an [`Index`], or [`Records`] in the clear ([`Server`]) |
//! | owner | reads the answer ([`open_answer`]) |
//!
//! Besides index and query, the server needs only the file of evaluation keys. That file contains
//! the setup. [`sudare_apps::search`] defines the results.

mod answer;
mod explained;
mod index;
mod npy;
mod payload;
mod records;
mod server;
mod setup;
#[cfg(test)]
mod tests;
mod writer;

pub use answer::{Answered, Found, open_answer};
pub use explained::Explained;
pub use index::{Builder, Index, Update, catalogue_path, deleted};
pub use npy::Npy;
pub use payload::{Payload, Value};
pub use records::{Batch, FileRecords, Records, read_vector};
pub use server::{Asked, Outcome, SearchKind, Searched, Server};
pub use setup::{Session, Setup, key_label};
pub use writer::Writer;
