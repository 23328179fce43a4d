//! Checks that the machine has enough memory before it is allocated.

use crate::{
    error::{Error, Result},
    os::machine::available_bytes,
};

/// Refuses to allocate `needed` bytes for `what` if the system has less memory available, where
/// `/proc` reports it.
///
/// # Errors
/// [`Error::Memory`] with `advice`.
pub fn check(what: &'static str, needed: u64, advice: &'static str) -> Result<()> {
    match available_bytes() {
        Some(available) if needed > available => {
            Err(Error::Memory { what, needed, available, advice })
        }
        // Where the system does not tell, only the allocation itself can fail.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_the_system_cannot_give() {
        assert!(check("keys", 1, "").is_ok());
        let refused = check("keys", u64::MAX, "make fewer").unwrap_err();
        assert_eq!((refused.kind().as_str(), refused.exit_code()), ("Memory", 2));
        assert!(refused.to_string().ends_with("available: make fewer"), "{refused}");
    }
}
