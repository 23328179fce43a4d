//! Text for people.
//!
//! | module | content |
//! |---|---|
//! | [`hex`] | bytes as hexadecimal digits |
//! | [`size`] | sizes in bytes, KiB, MiB and so on |
//! | [`escape`] | text that is harmless in a terminal or a spreadsheet |

pub mod escape;
pub mod hex;
pub mod size;
