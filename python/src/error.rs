//! Errors as Python classes.

use pyo3::prelude::*;
use std::{fmt::Debug, path::Path};
use sudare_apps::{array::ArrayError, nn::NnError};

/// What native code refuses. Each variant is a class of `sudare.errors`: the name of the variant,
/// or of the variant of the error inside, and `Error`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library, a file or a table.
    #[error(transparent)]
    Library(#[from] sudare_roles::error::Error),
    /// An operation on arrays.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// A network cannot be used so.
    #[error(transparent)]
    Nn(#[from] NnError),
    /// Something encrypted meets something simulated.
    #[error(
        "nothing is encrypted in simulation, and what is encrypted has no values there: keep to \
         arrays of one context, or use mode=\"execute\""
    )]
    Simulation,
    /// A program that is traced asks for values.
    #[error(
        "this array stands for any of its shape while a program is planned, and has no values: \
         let the program only compute with arrays that it is given"
    )]
    Traced,
    /// A table is not the one that was planned for.
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
    #[error("{found}, but {needed} is needed: use what was made for one plan")]
    OtherJob {
        /// What was given, and its job.
        found: String,
        /// What was asked for.
        needed: String,
    },
    /// A secret key would leave the process.
    #[error(
        "a secret key is never pickled or copied, so that it does not travel with other things: \
         write it with save() and keep the file on its owner's machine"
    )]
    SecretKeyPickle,
    /// Native code panicked.
    #[error("{0}; this is a bug, please report it with the output of `sudare doctor`")]
    Bug(&'static str),
    /// Python raised something.
    #[error(transparent)]
    Python(#[from] PyErr),
}

/// Results of native code.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// The class, without `Error`.
    fn kind(&self) -> String {
        match self {
            Self::Library(sudare_roles::error::Error::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                "NoFile".into()
            }
            Self::Library(error) => error.kind(),
            Self::Array(error) => match error {
                ArrayError::Library(error) => variant(error),
                error => variant(error),
            },
            Self::Nn(error) => match error {
                NnError::Library(error) => variant(error),
                error => format!("Nn{}", variant(error)),
            },
            Self::Simulation => "Simulation".into(),
            Self::Traced => "Traced".into(),
            Self::Shape { .. } => "Shape".into(),
            Self::OtherJob { .. } => "OtherJob".into(),
            Self::SecretKeyPickle => "SecretKeyPickle".into(),
            Self::Bug(_) | Self::Python(_) => "Bug".into(),
        }
    }

    /// `source` is about the file at `path`, if there is one.
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
            Error::Python(error) => return error,
            _ => error.kind(),
        };
        Python::attach(|py| {
            let raise = || {
                let classes = py.import("sudare.errors")?;
                let class = classes
                    .getattr(format!("{kind}Error").as_str())
                    .or_else(|_| classes.getattr("Error"))?;
                class.call1((error.to_string(),))
            };
            raise().map_or_else(|error| error, PyErr::from_value)
        })
    }
}

/// The leading word of the debug form.
fn variant(error: &impl Debug) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
}
