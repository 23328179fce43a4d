//! The server's part, with evaluation keys and ciphertexts only.
//!
//! | module | content |
//! |---|---|
//! | [`session`] | the open files of a job, and its result |
//! | [`training`], [`checkpoint`] | trainings, and their states on disk |
//! | [`scoring`] | scores of encrypted rows |
//! | [`receipt`] | signed statements of a server about its results |

pub mod checkpoint;
pub mod receipt;
pub mod scoring;
pub mod session;
pub mod training;
