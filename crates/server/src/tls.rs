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

/// What is spoken over it.
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
    /// The certificate, and those between it and an authority.
    pub certificate: PathBuf,
    /// The file of the secret key of the certificate.
    pub key: PathBuf,
}

/// Certificates as they were read last.
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads certificates.
    ///
    /// # Errors
    /// [`Error::Usage`] for files that have none, or do not go together.
    pub fn open(files: &TlsFiles) -> Result<Self> {
        let current = RwLock::new(Arc::new(read(files)?));
        Ok(Self { files: files.clone(), current })
    }

    /// Reads the files again, for connections from now on; those that there are keep what they have.
    ///
    /// # Errors
    /// As [`Tls::open`]; the certificates are then those of before.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only a signal of Unix asks for it"))]
    pub fn reload(&self) -> Result<()> {
        let new = Arc::new(read(&self.files)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// What shakes hands with a client.
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
    if certificates.is_empty() {
        return Err(unusable(&files.certificate, &"it has no certificate in PEM"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.map_err(|error| unusable(&files.key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificate, &error))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| unusable(&files.certificate, &error))?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}
