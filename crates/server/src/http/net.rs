//! Connections: accepted until the server shuts down, and then closed.

mod write_timeout;

use crate::tls::Tls;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use sudare_roles::error::{Error, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{sleep, timeout},
};
use write_timeout::WriteTimeout;

/// Maximum time to receive request headers, and for a TLS handshake.
// No token was checked by then, so this bounds how long strangers hold connections.
const HEADER_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time in which a client reads nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time for open responses when the server shuts down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum connections at a time.
const MAX_CONNECTIONS: usize = 4096;
/// Additional connections for health checks when all others are in use. Further connections wait.
// Without them, clients that hold all other connections would make a sound server look dead.
const RESERVED_CONNECTIONS: usize = 64;
/// Maximum duration of a reserved connection.
// Short, so that clients that take the reserve, too, lose it soon.
const RESERVED_TIME: Duration = Duration::from_secs(5);
/// Open files besides connections: records, uploads and pipes.
#[cfg(unix)]
const OTHER_FILES: u64 = 1024;
/// Pause after a failed accept.
// Accepting fails while no file descriptor is free. Without a pause the loop would spin.
const PAUSE: Duration = Duration::from_millis(100);

/// Address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A Unix socket in a file.
    Unix(PathBuf),
}

/// A listening socket.
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

impl Listener {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Usage`] for a Unix socket on a system without them.
    pub async fn bind(place: &Endpoint) -> Result<Self> {
        match place {
            Endpoint::Tcp(address) => {
                let bound = TcpListener::bind(address).await;
                let name = PathBuf::from(address.to_string());
                bound.map(Self::Tcp).map_err(|error| Error::io("listen at", &name, error))
            }
            #[cfg(unix)]
            Endpoint::Unix(path) => {
                remove_socket(path)?;
                let bound = tokio::net::UnixListener::bind(path);
                bound.map(Self::Unix).map_err(|error| Error::io("listen at", path, error))
            }
            #[cfg(not(unix))]
            Endpoint::Unix(_) => {
                Err(Error::Usage("this system has no Unix sockets: use TCP".into()))
            }
        }
    }

    /// Returns the URL of the socket, with `scheme` and the port that the system chose.
    #[must_use]
    pub fn url(&self, scheme: &str) -> String {
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

/// Removes the socket that a killed server left. A live server holds the lock of its directory. Removes no
/// other file.
///
/// # Errors
/// [`Error::Usage`] for a file that is not a socket.
#[cfg(unix)]
fn remove_socket(path: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt;
    // Does not follow a link, whose target may be anything.
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            std::fs::remove_file(path).map_err(|error| Error::io("remove", path, error))
        }
        Ok(_) => Err(Error::Usage(format!(
            "--socket {}: this file is not a socket; remove it, or pass another path",
            path.display()
        ))),
        // Usually there is no such file. `bind` reports any other problem.
        Err(_) => Ok(()),
    }
}

/// Raises the limit of open files for the maximum number of connections, as far as the system allows. By
/// default most systems allow fewer.
pub fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = (MAX_CONNECTIONS + RESERVED_CONNECTIONS) as u64 + OTHER_FILES;
        // Beyond the maximum the system refuses the whole change.
        let wanted = maximum.map_or(wanted, |maximum| wanted.min(maximum));
        if current.is_some_and(|current| current < wanted) {
            // On failure there is room for fewer connections, and the others wait.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
        }
    }
}

/// Routers for connections.
pub struct Routers {
    /// Handles requests while there is room.
    pub all: Router,
    /// Handles requests when there is no room.
    pub health: Router,
}

/// Serves requests, over TLS if configured, until `ending`. Then it accepts no connection, and the open
/// ones have a few seconds.
pub async fn serve(
    listener: Listener,
    routers: Routers,
    tls: Option<Arc<Tls>>,
    ending: watch::Receiver<bool>,
) {
    serve_within(listener, routers, tls, ending, [MAX_CONNECTIONS, RESERVED_CONNECTIONS]).await;
}

/// Serves requests with the given numbers of connections for all requests and for health checks.
async fn serve_within(
    listener: Listener,
    routers: Routers,
    tls: Option<Arc<Tls>>,
    ending: watch::Receiver<bool>,
    most: [usize; 2],
) {
    let [room, reserve] = most.map(|most| Arc::new(Semaphore::new(most)));
    let connections =
        Connections { routers, tls, graceful: GracefulShutdown::new(), room, reserve };
    let mut ended = ending;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &connections) => accepted,
            _ = ended.wait_for(|ending| *ending) => break,
        };
        if let Err(error) = accepted {
            tracing::warn!(%error, "cannot accept a connection");
            sleep(PAUSE).await;
        }
    }
    // Clients are refused at once from here on, and not accepted and left without an answer.
    drop(listener);
    let _ = timeout(SHUTDOWN_TIMEOUT, connections.graceful.shutdown()).await;
}

async fn accept(listener: &Listener, connections: &Connections) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            // Events and small responses must not wait until earlier packets are acknowledged.
            stream.set_nodelay(true)?;
            connections.handle(stream).await;
        }
        #[cfg(unix)]
        Listener::Unix(listener) => connections.handle(listener.accept().await?.0).await,
    }
    Ok(())
}

struct Connections {
    routers: Routers,
    tls: Option<Arc<Tls>>,
    graceful: GracefulShutdown,
    room: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
}

/// The room of a connection, until it is dropped.
struct Room {
    router: Router,
    /// Maximum duration of the connection, if there is one.
    limit: Option<Duration>,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    /// Waits for room for a connection.
    async fn room(&self) -> Option<Room> {
        let Routers { all, health } = &self.routers;
        let (router, limit, permit) = tokio::select! {
            // The reserve is for the time when all other connections are taken.
            biased;
            permit = Arc::clone(&self.room).acquire_owned() => (all, None, permit),
            permit = Arc::clone(&self.reserve).acquire_owned() => {
                (health, Some(RESERVED_TIME), permit)
            }
        };
        Some(Room { router: router.clone(), limit, _permit: permit.ok()? })
    }

    async fn handle(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        // The accept loop waits here, so connections without room stay in the queue of the system.
        let Some(room) = self.room().await else { return };
        let stream = WriteTimeout::new(stream, WRITE_TIMEOUT);
        let watcher = self.graceful.watcher();
        let Some(tls) = &self.tls else {
            tokio::spawn(serve_connection(stream, watcher, room));
            return;
        };
        let shaking = tls.acceptor().accept(stream);
        // In a task of its own: a slow handshake must not stop the accept loop.
        tokio::spawn(async move {
            match timeout(room.limit.unwrap_or(HEADER_TIMEOUT), shaking).await {
                Ok(Ok(stream)) => serve_connection(stream, watcher, room).await,
                Ok(Err(error)) => {
                    // Below the level of the log, because strangers could fill the log otherwise.
                    tracing::debug!(%error, "a TLS handshake failed")
                }
                Err(_) => tracing::debug!("a TLS handshake timed out"),
            }
        });
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    watcher: Watcher,
    room: Room,
) {
    let Room { router, limit, _permit } = room;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        // A reserved connection has one request, so that the next check finds room.
        .keep_alive(limit.is_none())
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let watched = watcher.watch(connection);
    let ended = match limit {
        None => watched.await,
        Some(limit) => timeout(limit, watched).await.unwrap_or(Ok(())),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    /// When strangers hold all connections, health checks still work, and other requests are told to retry.
    #[tokio::test]
    async fn connections_are_kept_for_health() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&Endpoint::Tcp(any)).await.unwrap();
        let at = listener.url("http").strip_prefix("http://").unwrap().to_owned();
        let [all, health] = ["all", "health"].map(|name| Router::new().fallback(get(name)));
        let (ending, ended) = watch::channel(false);
        let routers = Routers { all, health };
        let answering = tokio::spawn(serve_within(listener, routers, None, ended, [2, 1]));
        let ask = async || {
            let mut stream = TcpStream::connect(&at).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut text = vec![0; 512];
            let mut read = 0;
            while !text[..read].ends_with(b"all") && !text[..read].ends_with(b"health") {
                let count = stream.read(&mut text[read..]).await.unwrap();
                assert!(count > 0, "{}", String::from_utf8_lossy(&text[..read]));
                read += count;
            }
            (String::from_utf8_lossy(&text[..read]).lines().last().unwrap().to_owned(), stream)
        };
        let (first, held) = ask().await;
        assert_eq!(first, "all");
        let silent = TcpStream::connect(&at).await.unwrap();
        for _ in 0..3 {
            let (word, mut stream) = ask().await;
            assert_eq!(word, "health");
            // The server closes the connection at once.
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        }
        drop((held, silent));
        while ask().await.0 != "all" {}
        ending.send_replace(true);
        answering.await.unwrap();
    }

    /// Replaces a leftover socket, and keeps any other file of that name.
    #[cfg(unix)]
    #[tokio::test]
    async fn sockets_alone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, b"important").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for taken in [&path, &link] {
            let refused = Listener::bind(&Endpoint::Unix(taken.clone())).await;
            let refused = refused.map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains("not a socket"), "{refused}");
        }
        assert_eq!(std::fs::read(&link).unwrap(), b"important");
        let socket = Endpoint::Unix(folder.path().join("http"));
        for _ in 0..2 {
            drop(Listener::bind(&socket).await.unwrap());
        }
    }
}
