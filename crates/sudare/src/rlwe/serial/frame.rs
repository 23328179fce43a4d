//! Frame of files: a preamble, and sections with checksums.

use super::{
    super::{KeyId, ParamsId},
    ALIGN, FORMAT_VERSION, HASH_BYTES, Header, Kind, PREAMBLE_BYTES, Scheme,
    header::{HeaderOf, MAX_LABEL_BYTES},
    malformed,
};
use crate::{Error, Result};
use blake3::Hasher;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use sudare_arith::mem::Mapping;
use zeroize::Zeroizing;

/// A byte that is not text, so that programs do not treat the file as text; the name; and a line
/// end that a transfer in text mode would change.
const MAGIC: [u8; 8] = *b"\x89sudare\n";
/// Maximum size of the header, which is parsed before parameters are known.
const MAX_HEADER_BYTES: u64 = 64 << 20;
/// Minimum number of header bytes read at a time while memory for it grows.
const CHUNK_BYTES: usize = 64 << 10;

type Checksum = [u8; HASH_BYTES as usize];

/// The fixed start of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Preamble {
    pub(super) kind: Kind,
    pub(super) params: ParamsId,
    pub(super) key: KeyId,
}

/// Number of zeros between `content` bytes of a section and its checksum.
fn padding(content: u64) -> usize {
    (content.wrapping_add(HASH_BYTES).wrapping_neg() % ALIGN) as usize
}

fn section_hasher(header: &Checksum, section: u64) -> Zeroizing<Hasher> {
    let mut hasher = Zeroizing::new(Hasher::new());
    // Header and number come first, so that a section of another header or place does not match.
    hasher.update(header);
    hasher.update(&section.to_le_bytes());
    hasher
}

/// Writes a file section by section.
pub(super) struct FileWriter<'a, W: ?Sized> {
    out: &'a mut W,
    hasher: Zeroizing<Hasher>,
    /// Checksum of the header. The other checksums start from it.
    header: Checksum,
    /// Number of the section being written.
    section: u64,
    written: u64,
    total: u64,
    pub(super) row: Vec<u8>,
}

impl<'a, W: Write + ?Sized> FileWriter<'a, W> {
    /// Writes the header.
    pub(super) fn new<P: Scheme>(
        out: &'a mut W,
        preamble: Preamble,
        header: &HeaderOf<P>,
    ) -> Result<Self> {
        let label = &header.label;
        let parts = [label.name.len(), label.content.len(), label.meta.len()];
        let label_bytes = parts.into_iter().fold(0, usize::saturating_add);
        // Lengths are encoded in at most five bytes each.
        if label_bytes > MAX_LABEL_BYTES.saturating_sub(15) {
            return Err(Error::InvalidSpec {
                field: "label",
                problem: format!("{label_bytes} bytes are too many: at most 16 MiB less 15 fit"),
            });
        }
        let encoded = header.encode()?;
        let count = header.sections.count();
        let bytes = encoded.len() as u64;
        // Both sizes are known before the first byte is written.
        let total =
            header.file_bytes(bytes).filter(|_| bytes <= MAX_HEADER_BYTES).ok_or_else(|| {
                let problem = format!("{count} objects are too many for one file: use several");
                Error::InvalidSpec { field: "file", problem }
            })?;
        let mut writer = Self {
            out,
            hasher: Zeroizing::new(Hasher::new()),
            header: Checksum::default(),
            section: 0,
            written: 0,
            total,
            row: Vec::new(),
        };
        let mut start = Vec::with_capacity(PREAMBLE_BYTES as usize);
        start.extend(MAGIC);
        start.extend(FORMAT_VERSION.to_le_bytes());
        start.extend(P::CODE.to_le_bytes());
        start.extend(preamble.kind.code().to_le_bytes());
        for word in [preamble.params.0, preamble.key.0, count as u64, total, bytes, 0] {
            start.extend(word.to_le_bytes());
        }
        writer.put(&start)?;
        writer.put(&encoded)?;
        writer.end_section()?;
        Ok(writer)
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes)?;
        self.written = self.written.saturating_add(bytes.len() as u64);
        Ok(())
    }

    pub(super) fn end_section(&mut self) -> Result<()> {
        let zeros = [0; ALIGN as usize];
        self.put(zeros.get(..padding(self.written)).unwrap_or_default())?;
        let hash = self.hasher.finalize();
        self.out.write_all(hash.as_bytes())?;
        self.written = self.written.saturating_add(HASH_BYTES);
        if self.section == 0 {
            self.header = *hash.as_bytes();
        }
        self.section = self.section.saturating_add(1);
        self.hasher = section_hasher(&self.header, self.section);
        Ok(())
    }

    /// Flushes and returns the bytes written.
    pub(super) fn finish(self) -> Result<u64> {
        debug_assert_eq!(self.written, self.total);
        self.out.flush()?;
        Ok(self.written)
    }
}

/// Reads a file section by section.
pub(super) struct FileReader<R> {
    input: R,
    file_bytes: u64,
    hasher: Zeroizing<Hasher>,
    header: Checksum,
    section: u64,
    read: u64,
    pub(super) row: Vec<u8>,
    /// Mapping of the same file, if keys stay in it.
    pub(super) mapping: Option<Mapping>,
    /// `true` if evaluation keys are small.
    pub(super) small_keys: bool,
}

impl<R: Read> FileReader<R> {
    /// Reads the header of a file of `file_bytes`. Its claims are then consistent in themselves and
    /// with that size, but not yet checked against any parameters.
    ///
    /// Uses memory for at most twice that size plus less than a mebibyte.
    pub(super) fn open<P: Scheme>(
        input: R,
        file_bytes: u64,
    ) -> Result<(Self, Preamble, HeaderOf<P>)> {
        let mut file = Self {
            input,
            file_bytes,
            hasher: Zeroizing::new(Hasher::new()),
            header: Checksum::default(),
            section: 0,
            read: 0,
            row: Vec::new(),
            mapping: None,
            small_keys: false,
        };
        if file.array()? != MAGIC {
            return Err(malformed("it is not a file of this library".into()));
        }
        let found = u32::from_le_bytes(file.array()?);
        // Before scheme and sizes, whose places may differ in another version.
        if found != FORMAT_VERSION {
            return Err(Error::UnsupportedVersion { found, supported: FORMAT_VERSION });
        }
        let code = u16::from_le_bytes(file.array()?);
        if code != P::CODE {
            return Err(malformed(format!("its scheme {code} is not {}", P::NAME)));
        }
        let code = u16::from_le_bytes(file.array()?);
        let kind = Kind::ALL.into_iter().find(|kind| kind.code() == code);
        let kind = kind.ok_or_else(|| malformed(format!("there is no kind {code}")))?;
        let params = ParamsId(file.word()?);
        let key = KeyId(file.word()?);
        let count = file.word()?;
        let total = file.word()?;
        let header_bytes = file.word()?;
        let zero = file.word()?;
        // All sizes are compared with the file's before memory is taken for any of them.
        if total > file_bytes {
            return Err(Error::Truncated { found: file_bytes, needed: total });
        }
        if total < file_bytes {
            let surplus = file_bytes.saturating_sub(total);
            return Err(malformed(format!("{surplus} bytes follow its end")));
        }
        // A section has at least `ALIGN` bytes with its checksum.
        let most = total.saturating_sub(header_bytes) / ALIGN;
        if zero != 0 || header_bytes > MAX_HEADER_BYTES.min(total) || count > most {
            return Err(malformed("its header has impossible sizes".into()));
        }
        let encoded = file.header(header_bytes)?;
        file.end_section()?;
        let header = Header::decode(&encoded, count)?;
        if !header.is_encoded_as(&encoded) {
            return Err(malformed("its header is not in the one form that writers give it".into()));
        }
        if header.file_bytes(header_bytes) != Some(total) {
            return Err(malformed(format!("its sections do not have {total} bytes together")));
        }
        if header.sections.contents().any(|content| content.kind() != kind) {
            return Err(malformed(format!("a section does not belong to {kind}")));
        }
        if matches!(kind, Kind::SecretKey | Kind::PublicKey) && count != 1 {
            return Err(malformed(format!("a file of a {kind} has one section, this {count}")));
        }
        Ok((file, Preamble { kind, params, key }, header))
    }

    /// Reads the encoded part of the header. Memory grows with the bytes that exist, not with the
    /// size that the file claims.
    fn header(&mut self, bytes: u64) -> Result<Vec<u8>> {
        let mut encoded = Vec::new();
        loop {
            let missing = bytes.saturating_sub(encoded.len() as u64);
            // At most doubled, so that memory stays within twice the bytes that exist.
            let next = missing.min(encoded.len().max(CHUNK_BYTES) as u64);
            if next == 0 {
                break;
            }
            encoded.reserve_exact(next as usize);
            if self.input.by_ref().take(next).read_to_end(&mut encoded)? == 0 {
                break;
            }
        }
        self.hasher.update(&encoded);
        self.read = self.read.saturating_add(encoded.len() as u64);
        if (encoded.len() as u64) < bytes {
            return Err(Error::Truncated { found: self.read, needed: self.file_bytes });
        }
        Ok(encoded)
    }

    pub(super) fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        let end = self.read.saturating_add(bytes.len() as u64);
        let mut rest = &mut *bytes;
        while !rest.is_empty() {
            // Not `read_exact`, which does not tell how many bytes there were.
            match self.input.read(rest) {
                Ok(0) => {
                    let found = end.saturating_sub(rest.len() as u64);
                    return Err(Error::Truncated { found, needed: self.file_bytes.max(end) });
                }
                Ok(read) => rest = rest.get_mut(read..).unwrap_or_default(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.hasher.update(bytes);
        self.read = end;
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    fn word(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Checks padding and checksum.
    pub(super) fn end_section(&mut self) -> Result<()> {
        let mut zeros = [0; ALIGN as usize];
        self.take(zeros.get_mut(..padding(self.read)).unwrap_or_default())?;
        let hash = self.hasher.finalize();
        let found: Checksum = self.array()?;
        let section = self.section;
        // Before the padding, so that damage is reported as damage and not as a malformed file.
        if hash != found {
            return Err(Error::Checksum { section });
        }
        if zeros != [0; ALIGN as usize] {
            return Err(malformed(format!("the padding of section {section} is not zero")));
        }
        if section == 0 {
            self.header = found;
        }
        self.section = section.saturating_add(1);
        self.hasher = section_hasher(&self.header, self.section);
        Ok(())
    }

    /// Number of the section that is read next.
    pub(super) fn section(&self) -> u64 {
        self.section
    }

    /// Position in the file: after [`FileReader::open`], the start of the first section.
    pub(super) fn position(&self) -> u64 {
        self.read
    }

    /// Moves to a section, by its number, that begins at `start`.
    pub(super) fn seek(&mut self, section: u64, start: u64) -> Result<()>
    where
        R: Seek,
    {
        self.input.seek(SeekFrom::Start(start))?;
        (self.section, self.read) = (section, start);
        self.hasher = section_hasher(&self.header, section);
        Ok(())
    }

    /// Returns the digest of all checksums of a file. `starts` are the starts of its sections and
    /// the end.
    pub(super) fn digest(&mut self, starts: &[u64]) -> Result<Checksum>
    where
        R: Seek,
    {
        let mut hasher = Hasher::new();
        hasher.update(&self.header);
        // A section ends with its checksum, and the next one starts right after.
        for end in starts.iter().skip(1) {
            let mut checksum = Checksum::default();
            self.input.seek(SeekFrom::Start(end.saturating_sub(HASH_BYTES)))?;
            self.input.read_exact(&mut checksum)?;
            hasher.update(&checksum);
        }
        Ok(*hasher.finalize().as_bytes())
    }

    /// Rejects bytes after the last section.
    pub(super) fn finish(mut self) -> Result<()> {
        let mut more = Vec::new();
        // A single byte is enough to know, whatever follows it.
        self.input.by_ref().take(1).read_to_end(&mut more)?;
        if more.is_empty() { Ok(()) } else { Err(malformed("bytes follow its end".into())) }
    }
}
