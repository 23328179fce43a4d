//! Storage: the files of tenants, the records, the audit log, and the room on the disk.

pub mod audit;
pub mod backup;
pub mod disk;
pub mod inspect;
pub mod records;
pub mod store;
pub mod uploads;
