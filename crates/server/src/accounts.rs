//! Accounts: tokens of tenants and workers, the pages that may call the API, and request rates.

pub mod origin;
pub mod rates;
pub mod token;
