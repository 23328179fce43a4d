//! Files of keys, tables, results and arrays: in memory, or on disk and read when needed.

use crate::{
    error::{Error, Result},
    job,
};
use pyo3::{
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyMemoryView, PyTuple, PyType},
};
use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, Write},
    path::{Path, PathBuf},
};
use sudare::{ckks, exact};
use sudare_arith::mem::Mapping;
use sudare_roles::{
    error::Error as Engine,
    os::files::{self, Access, NewFile},
};

/// Name of files in memory in messages.
pub const IN_MEMORY: &str = "the bytes in memory";

/// Maximum size of a file that becomes a `bytes` object at once. Copying takes half a second a
/// gigabyte, and Python does nothing else meanwhile, so larger files are copied on request.
const PYTHON_BYTES: usize = 64 << 20;

/// The pickled form of an object.
pub type Reduced<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>);

/// A file in memory. Clones share it.
pub struct Memory {
    bytes: Mapping,
    /// The same bytes, if they belong to Python.
    object: Option<Py<PyBytes>>,
}

impl Memory {
    /// Takes a file that was made here.
    pub fn new(py: Python<'_>, bytes: Vec<u8>) -> Self {
        match bytes.len() {
            0..=PYTHON_BYTES => Self::of_python(PyBytes::new(py, &bytes)),
            _ => Self { bytes: Mapping::shared(bytes), object: None },
        }
    }

    /// Reads the result of `to_bytes`.
    pub fn from_python(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return Ok(Self::of_python(bytes.clone()));
        }
        // Pickle may give back another buffer than `bytes`. It can change, so its bytes are copied.
        let view = PyMemoryView::from(data).map_err(|_| {
            let found = data.get_type();
            let problem = format!(
                "data is of type {found}: pass the bytes of a file, as to_bytes returns them"
            );
            Error::from(Engine::Usage(problem))
        })?;
        let bytes = data.py().get_type::<PyBytes>().call1((view,))?;
        Ok(Self::of_python(bytes.cast_into::<PyBytes>().map_err(PyErr::from)?))
    }

    /// Reads the file at `path`.
    pub fn read(py: Python<'_>, path: PathBuf) -> Result<Self> {
        let bytes = job::run(py, None, move |_| {
            let (file, bytes) = files::open(&path, Access::Shared)?;
            read_all(file, bytes, &path)
        })?;
        Ok(Self::new(py, bytes))
    }

    /// Writes the bytes to another file.
    pub fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        let mut input = Cursor::new(self.mapping());
        save(py, path, Access::Shared, overwrite, move |file| Ok(io::copy(&mut input, file)?))
    }

    fn of_python(object: Bound<'_, PyBytes>) -> Self {
        // `bytes` objects never change, so native code reads them in place, without the lock.
        let bytes = Mapping::shared(PyBackedBytes::from(object.clone()));
        Self { bytes, object: Some(object.unbind()) }
    }

    /// Returns the bytes.
    pub fn mapping(&self) -> Mapping {
        self.bytes.clone()
    }

    /// Returns the bytes as a Python object: the existing one, or a copy.
    pub fn to_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        let made = || PyBytes::new(py, &self.bytes).unbind();
        self.object.as_ref().map_or_else(made, |object| object.clone_ref(py))
    }

    /// Returns the pickled form of an object whose class has `from_bytes`. Protocol 5 can send the bytes
    /// outside the pickle.
    pub fn reduce<'py>(&self, class: &Bound<'py, PyType>, protocol: i32) -> PyResult<Reduced<'py>> {
        reduce(class, self.to_bytes(class.py()).into_bound(class.py()), protocol)
    }
}

/// Returns the pickled form of any bytes, as [`Memory::reduce`] does.
pub fn reduce<'py>(
    class: &Bound<'py, PyType>,
    bytes: Bound<'py, PyBytes>,
    protocol: i32,
) -> PyResult<Reduced<'py>> {
    let py = class.py();
    let argument = match protocol {
        // Below protocol 5 pickle has no buffers, and copies the bytes into its stream.
        5.. => py.import("pickle")?.getattr("PickleBuffer")?.call1((bytes,))?,
        _ => bytes.into_any(),
    };
    Ok((class.getattr("from_bytes")?, PyTuple::new(py, [argument])?))
}

/// The place of a file that is read when it is needed: of a table, or of evaluation keys, whose first
/// halves stay in it.
pub enum Source {
    Memory(Memory),
    File(Fingerprint),
}

impl Source {
    /// Returns the digest of the file.
    pub fn digest(&self) -> Result<[u8; 32]> {
        match self {
            Self::Memory(memory) => {
                let bytes = memory.mapping();
                let length = memory.bytes.len() as u64;
                Ok(digest(Cursor::new(bytes), length)?)
            }
            Self::File(file) => {
                let digest = blake3::Hash::from_hex(&file.digest);
                Ok(digest.map_err(|_| Error::Bug("a digest is not in hexadecimal"))?.into())
            }
        }
    }

    /// Returns the path of the file, unless it is in memory.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Memory(_) => None,
            Self::File(file) => Some(&file.path),
        }
    }

    /// Returns the name of the file in messages.
    pub fn name(&self) -> &Path {
        self.path().unwrap_or(Path::new(IN_MEMORY))
    }

    /// Returns the place of the file, to be shown.
    pub fn place(&self) -> String {
        self.path().map_or_else(|| "memory".into(), |path| format!("{path:?}"))
    }

    /// Returns a function that opens the file, if it did not change.
    pub fn opener(&self) -> impl FnOnce() -> Result<Input> + Send + use<> {
        let source = match self {
            Self::Memory(memory) => Ok(memory.mapping()),
            Self::File(file) => Err((file.path.clone(), file.digest.clone(), file.bytes)),
        };
        move || match source {
            Ok(bytes) => Ok(Box::new(Cursor::new(bytes))),
            Err((path, digest, bytes)) => {
                let (_, file) = Fingerprint::open(&path, Some((&digest, bytes)))?;
                Ok(Box::new(BufReader::new(file)))
            }
        }
    }

    /// Returns the pickled form of an object whose class has `from_bytes` and `_reopen`.
    pub fn reduce<'py>(&self, class: &Bound<'py, PyType>, protocol: i32) -> PyResult<Reduced<'py>> {
        match self {
            Self::Memory(memory) => memory.reduce(class, protocol),
            Self::File(file) => {
                let arguments = (&file.path, &file.digest, file.bytes).into_pyobject(class.py())?;
                Ok((class.getattr("_reopen")?, arguments))
            }
        }
    }
}

/// Something that a file can be read from.
pub trait Readable: Read + Seek {}

impl<T: Read + Seek> Readable for T {}

/// A file of ciphertexts, in memory or on disk.
pub type Input = Box<dyn Readable + Send>;

/// A file and the digest of its content.
pub struct Fingerprint {
    pub path: PathBuf,
    pub digest: String,
    pub bytes: u64,
}

impl Fingerprint {
    /// Opens a file. If it was pickled, it must have the same digest and size.
    pub fn open(path: &Path, pickled: Option<(&str, u64)>) -> Result<(Self, File)> {
        let (file, bytes) = files::open(path, Access::Shared)?;
        // A pickled path may be read in another working directory.
        let path = std::path::absolute(path).map_err(|error| Engine::io("find", path, error))?;
        let changed = |problem| Err(Engine::FileChanged { path: path.clone(), problem }.into());
        // The size comes first: it is known without a read.
        if let Some((_, needed)) = pickled
            && needed != bytes
        {
            return changed(format!("it has {bytes} bytes instead of {needed}"));
        }
        // A handle of its own: the digest moves its position, and callers read `file` from the
        // start.
        let (again, _) = files::open(&path, Access::Shared)?;
        let digest = digest(again.into_inner(), bytes).map_err(Error::at(Some(&path)))?;
        let digest = blake3::Hash::from(digest).to_string();
        if pickled.is_some_and(|(needed, _)| needed != digest) {
            return changed("its digest is another".into());
        }
        Ok((Self { path, digest, bytes }, file.into_inner()))
    }
}

/// Returns the digest of a file of any scheme.
fn digest(mut file: impl Read + Seek, bytes: u64) -> sudare::Result<[u8; 32]> {
    // A file of neither scheme gets the error of CKKS, the usual scheme.
    ckks::serial::digest(&mut file, bytes).or_else(|error| {
        file.rewind()?;
        exact::serial::digest(file, bytes).map_err(|_| error)
    })
}

/// Reads a whole file.
pub fn read_all(file: impl Read, bytes: u64, path: &Path) -> Result<Vec<u8>> {
    let length = usize::try_from(bytes).map_err(|_| Error::Bug("a file exceeds memory"))?;
    let io = |error| Engine::io("read", path, error);
    let mut content = Vec::with_capacity(length);
    // A file that grows meanwhile is read up to its size at the start, and never without an end.
    file.take(bytes).read_to_end(&mut content).map_err(io)?;
    match content.len() == length {
        true => Ok(content),
        false => Err(io(io::ErrorKind::UnexpectedEof.into()).into()),
    }
}

/// Returns the bytes of a file, as `write` writes it.
pub fn written(
    py: Python<'_>,
    write: impl FnOnce(&mut dyn Write) -> sudare::Result<u64> + Send + 'static,
) -> Result<Py<PyBytes>> {
    let bytes = job::run(py, None, move |progress| {
        let mut file = Vec::new();
        write(&mut progress.watch(&mut file))?;
        Ok(file)
    })?;
    Ok(PyBytes::new(py, &bytes).unbind())
}

/// Writes a file that is complete or absent.
pub fn save(
    py: Python<'_>,
    path: PathBuf,
    access: Access,
    overwrite: bool,
    write: impl FnOnce(&mut dyn Write) -> sudare::Result<u64> + Send + 'static,
) -> Result<()> {
    job::run(py, None, move |progress| {
        // Created before the work, so that a taken name or a full directory costs no time.
        let mut file = NewFile::create(&path, access, overwrite)?;
        write(&mut progress.watch(&mut file)).map_err(Error::at(Some(&path)))?;
        Ok(file.finish()?)
    })
}
