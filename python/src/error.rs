//! Errors as Python exceptions.

use pyo3::prelude::*;
use std::path::Path;
use sudare_apps::{array::ArrayError, nn::NnError};

/// An error of native code. The name of its variant, or of the variant of the error inside, is the `kind`
/// by which `sudare.errors` finds the class.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
pub enum Error {
    /// An error of the library, a file or a table.
    #[error(transparent)]
    Library(#[from] sudare_roles::error::Error),
    /// An error of an operation on arrays.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// An error of a network.
    #[error(transparent)]
    Nn(#[from] NnError),
    /// Something encrypted meets something simulated.
    #[error(
        "simulation encrypts nothing, and cannot compute with encrypted arrays: use the arrays of one \
         context, or mode=\"execute\""
    )]
    Simulation,
    /// A traced program asks for values.
    #[error(
        "this array has no values, because a program is planned with it: let the program only compute \
         with the arrays that it receives"
    )]
    Traced,
    /// A table differs from the planned one.
    #[error(
        "found {found}, but the plan is for {needed}: encrypt such a table, or make a plan and keys \
         for this one"
    )]
    Shape {
        /// The table.
        found: String,
        /// The job.
        needed: String,
    },
    /// Keys, plans or tables of different jobs meet.
    #[error("found {found}, but {needed} is needed: use objects that were made for one plan")]
    OtherJob {
        /// The given object, and its job.
        found: String,
        /// The needed object.
        needed: String,
    },
    /// A secret key would leave the process.
    #[error(
        "a secret key cannot be pickled or copied, so that it stays with its owner: write it with \
         save(), and keep the file on the owner's machine"
    )]
    SecretKeyPickle,
    /// Native code panicked.
    #[error("{0}; this is a bug, please report it with the output of `sudare doctor`")]
    Bug(&'static str),
    /// Python raised an exception.
    #[error(transparent)]
    Python(#[from] PyErr),
}

/// Results of native code.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// Returns a stable word for the error.
    fn kind(&self) -> String {
        match self {
            // Python raises a class of its own for missing files, as `open` does.
            Self::Library(sudare_roles::error::Error::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                "NoFile".into()
            }
            Self::Library(error) => error.kind(),
            Self::Array(ArrayError::Library(error)) | Self::Nn(NnError::Library(error)) => {
                <&str>::from(error).into()
            }
            Self::Array(error) => <&str>::from(error).into(),
            // By this prefix `sudare.errors` finds the class for networks.
            Self::Nn(error) => format!("Nn{}", <&str>::from(error)),
            _ => <&str>::from(self).into(),
        }
    }

    /// Adds the file at `path`, if there is one, to an error.
    pub fn at(path: Option<&Path>) -> impl Fn(sudare::Error) -> Self {
        move |source| match path {
            Some(path) => Self::Library(sudare_roles::error::Error::in_file(path)(source)),
            None => source.into(),
        }
    }
}

impl From<sudare::Error> for Error {
    fn from(error: sudare::Error) -> Self {
        Self::Library(error.into())
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let kind = match error {
            // An exception of a callback or a signal reaches the caller unchanged.
            Error::Python(error) => return error,
            _ => error.kind(),
        };
        Python::attach(|py| {
            let raise = || {
                let of_kind = py.import("sudare.errors")?.getattr("of_kind")?;
                of_kind.call1((kind, error.to_string()))
            };
            // If `sudare.errors` cannot be imported, that exception is the best one to show.
            raise().map_or_else(|error| error, PyErr::from_value)
        })
    }
}
