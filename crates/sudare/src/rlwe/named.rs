use crate::{Error, Result};

/// Returns the parameter set named `name`.
///
/// # Errors
/// [`Error::UnknownPreset`], which lists the names.
pub(crate) fn named<T>(all: Vec<T>, name: &str, name_of: impl Fn(&T) -> &str) -> Result<T> {
    let known = all.iter().map(&name_of).collect::<Vec<_>>().join(", ");
    all.into_iter()
        .find(|set| name_of(set) == name)
        // Names come from users and files. A long one must not fill the message.
        .ok_or_else(|| Error::UnknownPreset { name: name.chars().take(40).collect(), known })
}
