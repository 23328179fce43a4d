//! TLS by rustls, with certificates that can be changed while the server runs.

use crate::private::make_private;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use std::{
    fmt,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};
use sudare_roles::{
    error::{Error, Result},
    os::files::{Access, NewFile},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        client::verify_server_name,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
        server::ParsedCertificate,
    },
};

/// Names of this machine, which every certificate of [`TlsFiles::self_signed`] has.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Days until a self-signed certificate expires.
// Its clients name this certificate, so a short life would not protect them further.
const SELF_SIGNED_DAYS: u32 = 3650;

/// Protocol over TLS.
// Clients must not choose HTTP/2, because `net` serves HTTP/1 alone.
const PROTOCOL: &[u8] = b"http/1.1";

/// Makes ring the provider of TLS for the clients in this process.
#[cfg(feature = "cluster")]
pub fn install_provider() {
    // A process has one provider, and a caller may have set it.
    let _ = default_provider().install_default();
}

/// The files of a certificate and of its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// File of the certificate and of the intermediate certificates.
    pub certificate: PathBuf,
    /// File of the private key of the certificate.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Returns a self-signed certificate and its key in a directory: `cert.pem` and `key.pem`. Makes both
    /// for this machine and `names` if neither exists. Clients that trust the certificate accept no other.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that no certificate can have, for files of other names, and if one of the
    /// files is missing; [`Error::Io`].
    pub fn self_signed(folder: &Path, names: &[String]) -> Result<Self> {
        let mut all: Vec<String> = LOCAL_NAMES.map(str::to_owned).into();
        for name in names {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        let names = all;
        for name in &names {
            ServerName::try_from(&name[..]).map_err(|_| {
                Error::Usage(format!(
                    "{name:?} is no name of a host: pass one such as server.example"
                ))
            })?;
        }
        make_private(folder)?;
        let certificate = folder.join("cert.pem");
        let key = folder.join("key.pem");
        match (certificate.exists(), key.exists()) {
            (false, false) => make_self_signed(&certificate, &key, names)?,
            (true, true) => check_names(&certificate, &names)?,
            (has_certificate, _) => {
                let (found, missing) =
                    if has_certificate { (&certificate, &key) } else { (&key, &certificate) };
                return Err(Error::Usage(format!(
                    "{} is missing: restore it, or remove {}, too, to make both anew",
                    missing.display(),
                    found.display()
                )));
            }
        }
        Ok(Self { certificate, key })
    }
}

fn make_self_signed(certificate: &Path, key: &Path, names: Vec<String>) -> Result<()> {
    let unable = |error: rcgen::Error| Error::Usage(format!("cannot make a certificate: {error}"));
    let mut params = CertificateParams::new(names).map_err(unable)?;
    let now = SystemTime::now();
    // Clocks of clients may be slow.
    params.not_before = now.checked_sub(DAY).unwrap_or(now).into();
    params.not_after = now.checked_add(DAY * SELF_SIGNED_DAYS).unwrap_or(now).into();
    params.distinguished_name.push(DnType::CommonName, "sudare");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let pair = KeyPair::generate().map_err(unable)?;
    let made = params.self_signed(&pair).map_err(unable)?;
    write(key, &pair.serialize_pem(), Access::Owner)?;
    write(certificate, &made.pem(), Access::Shared)
}

fn write(path: &Path, text: &str, access: Access) -> Result<()> {
    let mut file = NewFile::create(path, access, false)?;
    file.write_all(text.as_bytes()).map_err(|error| Error::io("write", path, error))?;
    file.finish()?;
    Ok(())
}

/// Refuses a certificate that lacks one of the names, before a client does.
fn check_names(certificate: &Path, names: &[String]) -> Result<()> {
    let unusable = |problem: &dyn fmt::Display| {
        Error::Usage(format!("{} cannot be used for TLS: {problem}", certificate.display()))
    };
    let found = CertificateDer::from_pem_file(certificate).map_err(|error| unusable(&error))?;
    let found = ParsedCertificate::try_from(&found).map_err(|error| unusable(&error))?;
    let lacks = |name: &&String| {
        let name = ServerName::try_from(&name[..]);
        name.is_ok_and(|name| verify_server_name(&found, &name).is_err())
    };
    match names.iter().find(lacks) {
        None => Ok(()),
        Some(name) => Err(Error::Usage(format!(
            "{} is not for {name}: remove it and its key to make both anew, and give the new certificate to \
             the clients",
            certificate.display()
        ))),
    }
}

/// The certificates as last read.
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the certificates.
    ///
    /// # Errors
    /// [`Error::Usage`] for files that have none, or do not belong together.
    pub fn open(files: &TlsFiles) -> Result<Self> {
        let current = RwLock::new(Arc::new(read(files)?));
        Ok(Self { files: files.clone(), current })
    }

    /// Reads the files again for new connections.
    ///
    /// # Errors
    /// Same as [`Tls::open`]. The old certificates then stay.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only a signal of Unix asks for it"))]
    pub fn reload(&self) -> Result<()> {
        // Read before the lock is taken: handshakes do not wait for the disk, and a bad file
        // changes nothing.
        let new = Arc::new(read(&self.files)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Returns the acceptor of TLS handshakes.
    pub fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current).into()
    }
}

fn read(files: &TlsFiles) -> Result<ServerConfig> {
    let unusable = |path: &Path, problem: &dyn fmt::Display| {
        Error::Usage(format!("{} cannot be used for TLS: {problem}", path.display()))
    };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<core::result::Result<Vec<_>, _>>)
        .map_err(|error| unusable(&files.certificate, &error))?;
    // A file without a certificate is no error for the PEM parser.
    if certificates.is_empty() {
        return Err(unusable(&files.certificate, &"it has no certificate in PEM"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.map_err(|error| unusable(&files.key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificate, &error))?
        // Tokens authenticate clients.
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| unusable(&files.certificate, &error))?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}
