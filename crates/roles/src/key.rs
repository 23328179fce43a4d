//! Encrypts with public and secret keys, and writes files of the ciphertexts.

use crate::error::{Error, Result};
use std::{io::Write, path::Path, sync::Arc};
use sudare::{
    ckks::{
        Ciphertext, Encoder, Encryptor, Params, Plaintext, SymmetricEncryptor,
        serial::{CiphertextWriter, Label, Shape},
    },
    rlwe::{KeyId, PublicKey, SecretKey, Seeded},
};
use sudare_apps::Slots;
use sudare_arith::par;

/// Maximum number of ciphertexts that are computed at once, each on its own thread. Bounds the
/// memory for a large file.
const AT_ONCE: usize = 8;

/// A key that encrypts: the public key, or the owner's secret key. Secret-key encryption takes half
/// the work and half the bytes in files, and its errors are smaller. Its ciphertexts are otherwise
/// equivalent.
#[derive(Clone)]
pub enum Key {
    /// The public key, for anyone with data for the owner.
    Public(Arc<PublicKey>),
    /// The secret key, for the owner alone.
    Secret(Arc<SecretKey>),
}

impl From<Arc<PublicKey>> for Key {
    fn from(key: Arc<PublicKey>) -> Self {
        Self::Public(key)
    }
}

impl From<Arc<SecretKey>> for Key {
    fn from(key: Arc<SecretKey>) -> Self {
        Self::Secret(key)
    }
}

/// Encrypts for files, with either key.
pub(crate) enum FileEncryptor {
    Public(Encryptor),
    Secret(SymmetricEncryptor),
}

/// A fresh ciphertext in the form that its file stores.
pub(crate) enum Fresh {
    Whole(Ciphertext),
    Seeded(Seeded<Ciphertext>),
}

impl FileEncryptor {
    /// # Errors
    /// [`Error::Library`] for a key of other parameters, and for a secret key from before a fork.
    pub fn new(params: &Params, key: Key) -> Result<Self> {
        Ok(match key {
            Key::Public(key) => Self::Public(Encryptor::new(params, key)?),
            Key::Secret(key) => Self::Secret(SymmetricEncryptor::new(params, key)?),
        })
    }

    pub fn key_id(&self) -> KeyId {
        match self {
            Self::Public(key) => key.key_id(),
            Self::Secret(key) => key.key_id(),
        }
    }

    fn encrypt(&self, a: &Plaintext) -> sudare::Result<Fresh> {
        Ok(match self {
            Self::Public(key) => Fresh::Whole(key.encrypt(a)?),
            Self::Secret(key) => Fresh::Seeded(key.encrypt_seeded(a)?),
        })
    }

    /// Encrypts messages, writes their file and returns its bytes. Messages to people call the file
    /// `path`. Calls `progress` with the number of written ciphertexts, after each.
    ///
    /// # Errors
    /// [`Error::Library`]; [`Error::File`].
    pub fn write(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        label: &Label,
        params: &Params,
        messages: Messages<'_>,
        progress: impl Fn(usize),
    ) -> Result<u64> {
        let Messages { shapes, mut slots } = messages;
        let in_file = Error::in_file(path);
        let mut file = self.writer(out, params, shapes, label).map_err(&in_file)?;
        let encoder = Encoder::new(params);
        let encrypt = |(slots, level, scale): Slots| {
            self.encrypt(&encoder.encode_real_at(&slots, level, scale)?)
        };
        let mut done = 0;
        loop {
            // No more than the threads can use, since every waiting ciphertext costs memory.
            let some: Vec<Slots> = slots.by_ref().take(par::threads().min(AT_ONCE)).collect();
            if some.is_empty() {
                return file.finish().map_err(&in_file);
            }
            // In order: the file lists the shapes of its ciphertexts before their content.
            for item in par::try_map(some, encrypt)? {
                match item {
                    Fresh::Whole(item) => file.write(&item),
                    Fresh::Seeded(item) => file.write_seeded(&item),
                }
                .map_err(&in_file)?;
                done += 1;
                progress(done);
            }
        }
    }

    /// Creates a writer for a file of ciphertexts under this key.
    pub fn writer<'a, W: Write + ?Sized>(
        &self,
        out: &'a mut W,
        params: &Params,
        shapes: Vec<Shape>,
        label: &Label,
    ) -> sudare::Result<CiphertextWriter<'a, W>> {
        // Under the secret key the uniform half follows from a seed, which saves half the bytes.
        let start = match self {
            Self::Public(_) => CiphertextWriter::new,
            Self::Secret(_) => CiphertextWriter::seeded,
        };
        start(out, params, self.key_id(), shapes, label)
    }
}

/// Messages to encrypt into a file, in order, and the shapes of their ciphertexts. The file begins
/// with the shapes.
pub(crate) struct Messages<'a> {
    shapes: Vec<Shape>,
    slots: Box<dyn Iterator<Item = Slots> + 'a>,
}

impl<'a> Messages<'a> {
    /// Pairs messages with their shapes, one for each.
    pub fn new(
        shapes: impl IntoIterator<Item = Shape>,
        slots: impl IntoIterator<Item = Slots, IntoIter: 'a>,
    ) -> Self {
        Self { shapes: shapes.into_iter().collect(), slots: Box::new(slots.into_iter()) }
    }

    /// Creates messages from slots that are already in memory.
    pub fn of(all: Vec<Slots>) -> Self {
        let shape = |(slots, level, scale): &Slots| Shape {
            level: *level,
            scale: *scale,
            log_slots: slots.len().ilog2(),
        };
        Self::new(all.iter().map(shape).collect::<Vec<_>>(), all)
    }

    /// Appends more messages.
    pub fn and(self, more: Vec<Slots>) -> Self {
        let more = Messages::of(more);
        let shapes = [self.shapes, more.shapes].concat();
        Self { shapes, slots: Box::new(self.slots.chain(more.slots)) }
    }

    pub fn len(&self) -> usize {
        self.shapes.len()
    }
}
