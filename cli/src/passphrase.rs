//! Passphrases, from a terminal that does not show them or from a file descriptor.

use crate::output::printable;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};
use sudare_roles::{
    error::{Error, Result},
    sealed::Passphrase,
};

#[cfg(unix)]
pub use terminal::show_again;

/// Source of a passphrase.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Source {
    /// File descriptor whose first line is the passphrase of a sealed secret key; default: the
    /// terminal asks for it
    #[arg(long, value_name = "N")]
    passphrase_fd: Option<u32>,
}

impl Source {
    /// Decides whether a descriptor is named.
    pub fn is_named(self) -> bool {
        self.passphrase_fd.is_some()
    }

    /// Reads the passphrase of the file at `path`.
    pub fn of(self, path: &Path) -> Result<Passphrase> {
        match self.passphrase_fd {
            Some(fd) => from_descriptor(fd),
            None => prompt(path, "Passphrase"),
        }
    }

    /// Reads a passphrase to seal the file at `path` with. The terminal asks for it twice.
    pub fn to_seal(self, path: &Path) -> Result<Passphrase> {
        if let Some(fd) = self.passphrase_fd {
            return from_descriptor(fd);
        }
        let passphrase = prompt(path, "New passphrase")?;
        // Typed unseen: a typing error would lock the key forever.
        if passphrase != prompt(path, "The same again")? {
            return Err(Error::Usage("the passphrases differ: type the same one twice".into()));
        }
        Ok(passphrase)
    }
}

fn from_descriptor(fd: u32) -> Result<Passphrase> {
    // By its path, because taking over a descriptor by number would need `unsafe`.
    let path = PathBuf::from(format!("/dev/fd/{fd}"));
    let io = |error| Error::io("read the passphrase from", &path, error);
    let file = File::open(&path).map_err(io)?;
    Ok(Passphrase::new(line(file).map_err(io)?)?)
}

/// Reads the first line of a file, up to the maximum length of a passphrase.
#[expect(clippy::unbuffered_bytes, reason = "a buffer would keep a copy")]
fn line(file: impl Read) -> io::Result<Vec<u8>> {
    // A buffer that grows would leave a copy in freed memory.
    let mut line = Vec::with_capacity(Passphrase::MAX_BYTES + 2);
    // Room for a line end of two bytes. `Passphrase::new` refuses a longer line.
    for byte in file.bytes().take(Passphrase::MAX_BYTES + 2) {
        match byte? {
            b'\n' => break,
            byte => line.push(byte),
        }
    }
    // A file that was edited on Windows ends its lines so.
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

/// Asks on the terminal.
fn prompt(path: &Path, what: &str) -> Result<Passphrase> {
    let shown = path.display().to_string();
    let prompt = format!("{what} for {}: ", printable(&shown));
    let line = terminal::ask(&prompt).map_err(|_| Error::Sealed { path: path.into() })?;
    Ok(Passphrase::new(line)?)
}

#[cfg(unix)]
mod terminal {
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
    use std::{
        fs::File,
        io::{self, Write},
        sync::{Mutex, MutexGuard, PoisonError},
    };

    /// A terminal that does not show typed characters, and its modes before.
    static HIDDEN: Mutex<Option<(File, Termios)>> = Mutex::new(None);

    fn hidden() -> MutexGuard<'static, Option<(File, Termios)>> {
        HIDDEN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the terminal show typed characters again, if it hides them.
    pub fn show_again() {
        if let Some((terminal, modes)) = hidden().take() {
            let _ = tcsetattr(&terminal, OptionalActions::Flush, &modes);
        }
    }

    /// Reads a line from the terminal without showing it.
    pub fn ask(prompt: &str) -> io::Result<Vec<u8>> {
        // The terminal itself, because standard input may be a pipe with data.
        let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
        let modes = tcgetattr(&terminal)?;
        let mut quiet = modes.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        // Before the modes change, so that Ctrl-C at any moment restores them.
        *hidden() = Some((terminal.try_clone()?, modes));
        // Flushing drops characters that were typed before the prompt.
        let line = tcsetattr(&terminal, OptionalActions::Flush, &quiet)
            .map_err(io::Error::from)
            .and_then(|()| terminal.write_all(prompt.as_bytes()))
            .and_then(|()| super::line(&terminal));
        show_again();
        // The user's own line end was not shown.
        let _ = terminal.write_all(b"\n");
        line
    }
}

#[cfg(not(unix))]
mod terminal {
    use std::io;

    /// Fails, because no terminal is known.
    pub fn ask(_prompt: &str) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Does nothing: without a terminal, nothing is hidden.
#[cfg(not(unix))]
pub fn show_again() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_passphrase() {
        for (text, expected) in
            [("a b\nc", "a b"), ("a b", "a b"), ("a b\r\n", "a b"), ("\n", ""), (" ü ", " ü ")]
        {
            assert_eq!(line(text.as_bytes()).unwrap(), expected.as_bytes(), "{text:?}");
        }
        let long = vec![b'a'; 5000];
        assert!(Passphrase::new(line(&long[..]).unwrap()).is_err());
        assert!(Passphrase::new(line(&long[..Passphrase::MAX_BYTES]).unwrap()).is_ok());
    }
}
