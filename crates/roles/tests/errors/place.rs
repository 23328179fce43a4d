//! A place in a source file, apart so that its line stays the same.

pub fn here() -> &'static core::panic::Location<'static> {
    core::panic::Location::caller()
}
