//! Reasons for failed connections in plain words, and the decision to try again.

use rustls::{CertificateError, Error as TlsError};
use std::{
    io,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};
use sudare_roles::error::Error;

/// The connection to a service, and its history.
pub(super) struct Connection {
    url: String,
    /// File of the certificates that the client trusts, if public authorities do not decide.
    authority: Option<PathBuf>,
    /// The service has answered this client.
    is_known: AtomicBool,
}

/// The reason for a failed request.
struct Reason {
    problem: String,
    /// A repetition fails in the same way.
    lasts: bool,
}

impl Connection {
    pub(super) fn new(url: &str, authority: Option<PathBuf>) -> Self {
        Self { url: url.into(), authority, is_known: AtomicBool::new(false) }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Decides whether the service has answered before.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Notes an answer: from now on a refused connection means that the service restarts.
    pub(super) fn answered(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Returns the error of a failed request: [`Error::NoConnection`] if a repetition fails in the
    /// same way, else [`Error::Unreachable`].
    pub(super) fn error(&self, error: &ureq::Error) -> Error {
        let url = self.url.clone();
        match self.reason(error) {
            Reason { problem, lasts: true } => Error::NoConnection { url, problem },
            Reason { problem, .. } => Error::Unreachable { url, problem },
        }
    }

    /// Returns the error of a request that failed for now.
    pub(super) fn interrupted(&self, problem: impl core::fmt::Display) -> Error {
        Error::Unreachable { url: self.url.clone(), problem: problem.to_string() }
    }

    /// Returns the error of a request that the caller repeats whatever the reason, as workers do.
    #[cfg(feature = "cluster")]
    pub(super) fn interrupted_by(&self, error: &ureq::Error) -> Error {
        self.interrupted(self.reason(error).problem)
    }

    fn reason(&self, error: &ureq::Error) -> Reason {
        // A service that has answered may restart, and its proxy may break a connection.
        let at_first = |problem: &str| Reason { problem: problem.into(), lasts: !self.is_known() };
        match error {
            ureq::Error::Rustls(error) => self.tls_reason(error),
            ureq::Error::Io(error) => self.io_reason(error),
            ureq::Error::HostNotFound => at_first(NO_HOST),
            ureq::Error::Protocol(error) => at_first(&format!(
                "its answer is not HTTP ({error}): check the address{}",
                self.tls_hint()
            )),
            ureq::Error::Timeout(_) => {
                Reason { problem: format!("no answer ({error})"), lasts: false }
            }
            // Such as a proxy that refuses.
            error => at_first(&error.to_string()),
        }
    }

    /// Returns advice for a port that may speak TLS, if the address says that it does not.
    fn tls_hint(&self) -> &'static str {
        match self.url.starts_with("https") {
            true => "",
            false => "; if its port speaks TLS, use https://",
        }
    }

    fn io_reason(&self, error: &io::Error) -> Reason {
        let inner = error.get_ref();
        if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<TlsError>()) {
            return self.tls_reason(error);
        }
        let text = error.to_string();
        let problem = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "nothing listens there: check host and port, and that the server runs".into()
            }
            // The standard library has no kind for the failures of the resolver.
            _ if text.contains("lookup address") => NO_HOST.into(),
            // Some servers of TLS close a connection without it, as failing servers do.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if !self.is_known() => {
                let problem = format!("{text}{}", self.tls_hint());
                return Reason { problem, lasts: false };
            }
            _ => return Reason { problem: text, lasts: false },
        };
        Reason { problem, lasts: !self.is_known() }
    }

    fn tls_reason(&self, error: &TlsError) -> Reason {
        match error {
            TlsError::InvalidCertificate(error) => {
                Reason { problem: self.certificate_problem(error), lasts: true }
            }
            // A port without TLS sends text.
            TlsError::InvalidMessage(_) if !self.is_known() => {
                let problem = "its port does not speak TLS: check the port; `sudare serve` speaks TLS with \
                               --tls-cert, and without it use http:// on the machine of the server";
                Reason { problem: problem.into(), lasts: true }
            }
            _ => Reason { problem: format!("TLS fails: {error}"), lasts: !self.is_known() },
        }
    }

    fn certificate_problem(&self, error: &CertificateError) -> String {
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => match &self.authority
            {
                Some(file) => format!(
                    "{} did not sign its certificate: pass the certificate of its authority, or its own if it \
                     is self-signed",
                    file.display()
                ),
                None => "no public authority signed its certificate: ask its operator for the certificate of \
                         its authority, and pass the file with --ca"
                    .into(),
            },
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: its operator must renew it; check the clock of this machine, too"
                    .into()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: check the clocks of both machines".into()
            }
            CertificateError::NotValidForName => {
                "its certificate is for another name: use a name that is in it".into()
            }
            CertificateError::NotValidForNameContext { presented, .. } => format!(
                "its certificate is for other names: use one of them in the address, or have its operator add \
                 this one; it has {}",
                presented.iter().map(|name| bare(name)).collect::<Vec<_>>().join(", ")
            ),
            // The verifier has no public name for this error.
            CertificateError::Other(error) if format!("{error:?}").contains("CaUsedAsEndEntity") => {
                "its certificate is the certificate of an authority (CA:TRUE), as `openssl req -x509` makes by \
                 default: its operator must make one with CA:FALSE, for example with `sudare serve \
                 --tls-self-signed DIR`"
                    .into()
            }
            _ => format!("its certificate is not accepted: {error}"),
        }
    }
}

/// Returns a name as people write it: rustls presents `DnsName("server.example")`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

const NO_HOST: &str = "no such host is known: check the name, and the network of this machine";
