//! Private search: files and messages between the owner of an index, who asks, and a server.
//!
//! | who | does |
//! |---|---|
//! | owner | makes keys for a [`Setup`], which the label of each says ([`key_label`]) |
//! | owner | encrypts an index block by block, and brings it up to date ([`Builder`]) |
//! | owner | encrypts a query ([`Writer::write_query`]) |
//! | server | finds what is near the query ([`Server`]), in an [`Index`] or in [`Records`] in the clear |
//! | owner | reads the answer ([`open_answer`]) |
//!
//! The server needs the file of evaluation keys beside index and query, and nothing else: the setup
//! stands in it. What is found is defined by [`sudare_apps::search`].

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
