//! TLS by rustls, with certificates that can be changed while the server runs.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};
use sudare_roles::error::{Error, Result};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

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
