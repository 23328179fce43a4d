//! Connections: accepted until the server ends, and then let go.

mod impatient;

use crate::tls::Tls;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use impatient::Impatient;
use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use sudare_roles::error::{Error, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{sleep, timeout},
};

/// How long headers may take, and hands to be shaken.
const HEADERS: Duration = Duration::from_secs(20);
/// How long a client may take nothing of an answer.
const NOTHING_TAKEN: Duration = Duration::from_secs(300);
/// How long answers under way may take when the server ends.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// Connections at a time; more wait.
const MOST_CONNECTIONS: usize = 4096;
/// Files that are open beside connections: records, uploads and pipes.
#[cfg(unix)]
const FILES_BESIDE: u64 = 1024;
/// After a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Where a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// By TCP.
    Tcp(SocketAddr),
    /// By a socket in a file, of Unix.
    Unix(PathBuf),
}

/// What accepts connections.
pub enum Listener {
    /// By TCP.
    Tcp(TcpListener),
    /// By a socket in a file.
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Usage`] for sockets in files where there are none.
    pub async fn bind(place: &Place) -> Result<Self> {
        match place {
            Place::Tcp(address) => {
                let bound = TcpListener::bind(address).await;
                let name = PathBuf::from(address.to_string());
                bound.map(Self::Tcp).map_err(|error| Error::io("listen at", &name, error))
            }
            #[cfg(unix)]
            Place::Unix(path) => {
                // What a server left that was killed; one that lives has the lock of its folder.
                let _ = std::fs::remove_file(path);
                let bound = tokio::net::UnixListener::bind(path);
                bound.map(Self::Unix).map_err(|error| Error::io("listen at", path, error))
            }
            #[cfg(not(unix))]
            Place::Unix(_) => Err(Error::Usage("there are no Unix sockets here: use TCP".into())),
        }
    }

    /// Where it listens, by `scheme`, with the port that the system chose.
    #[must_use]
    pub fn place(&self, scheme: &str) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| "?".into(), |at| format!("{scheme}://{at}"))
            }
            #[cfg(unix)]
            Self::Unix(listener) => {
                let path = listener.local_addr().ok();
                let path =
                    path.and_then(|at| at.as_pathname().map(|path| path.display().to_string()));
                format!("unix:{}", path.unwrap_or_default())
            }
        }
    }
}

/// Has the system let this process have that many connections, as far as it may: without being asked most
/// systems let it have fewer than it may.
pub fn make_room() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = FILES_BESIDE.saturating_add(MOST_CONNECTIONS as u64);
        let wanted = maximum.map_or(wanted, |maximum| wanted.min(maximum));
        if current.is_some_and(|current| current < wanted) {
            // Else there is room for fewer, and the others wait.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
        }
    }
}

/// Answers requests by `router`, over TLS if there is one, until `ending`; then no connection is
/// accepted, and those there are have a few seconds.
pub async fn answer(
    listener: Listener,
    router: Router,
    tls: Option<Arc<Tls>>,
    ending: watch::Receiver<bool>,
) {
    let connections = Connections {
        router,
        tls,
        graceful: GracefulShutdown::new(),
        room: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
    };
    let mut ended = ending;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &connections) => accepted,
            _ = ended.wait_for(|ending| *ending) => break,
        };
        if let Err(error) = accepted {
            tracing::warn!(%error, "a connection cannot be accepted");
            sleep(PAUSE).await;
        }
    }
    drop(listener);
    let _ = timeout(LAST_ANSWERS, connections.graceful.shutdown()).await;
}

async fn accept(listener: &Listener, connections: &Connections) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            connections.attend(stream).await;
        }
        #[cfg(unix)]
        Listener::Unix(listener) => connections.attend(listener.accept().await?.0).await,
    }
    Ok(())
}

struct Connections {
    router: Router,
    tls: Option<Arc<Tls>>,
    graceful: GracefulShutdown,
    room: Arc<Semaphore>,
}

impl Connections {
    async fn attend(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Ok(place) = Arc::clone(&self.room).acquire_owned().await else { return };
        let stream = Impatient::new(stream, NOTHING_TAKEN);
        let (router, watcher) = (self.router.clone(), self.graceful.watcher());
        let Some(tls) = &self.tls else {
            tokio::spawn(serve(stream, router, watcher, place));
            return;
        };
        let shaking = tls.acceptor().accept(stream);
        tokio::spawn(async move {
            match timeout(HEADERS, shaking).await {
                Ok(Ok(stream)) => serve(stream, router, watcher, place).await,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a client does not speak TLS as it should")
                }
                Err(_) => tracing::debug!("a client takes too long to begin TLS"),
            }
        });
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    watcher: Watcher,
    place: OwnedSemaphorePermit,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended");
    }
    drop(place);
}
