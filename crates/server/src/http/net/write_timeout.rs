//! Streams that fail if the other side reads nothing for a long time.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::io::{self, IoSlice};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream that fails when nothing could be written for a time. Without it, a client that reads nothing
/// would keep its connection forever.
pub struct WriteTimeout<S> {
    stream: S,
    patience: Duration,
    /// Deadline of the pending write.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    /// Wraps a stream with a write timeout.
    pub fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, until: None }
    }
}

impl<S: Unpin> WriteTimeout<S> {
    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        act: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let done = act(Pin::new(&mut self.stream), context);
        if done.is_ready() {
            self.until = None;
            return done;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        until.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Reading has limits of its own: for headers in `net`, for bodies in `api::body`.
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |stream, context| stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(context, |stream, context| stream.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const PATIENCE: Duration = Duration::from_millis(400);

    #[tokio::test]
    async fn clients_that_read_nothing_are_disconnected() {
        let (ours, _theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, PATIENCE);
        ours.write_all(b"fits").await.unwrap();
        let refused = ours.write_all(b"not").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }

    /// Takes longer in total than one write may, including data that waits to be read.
    #[tokio::test]
    async fn slow_readers_stay_connected() {
        let (ours, mut theirs) = duplex(4);
        let writing = tokio::spawn(async move {
            let mut ours = WriteTimeout::new(ours, PATIENCE);
            ours.write_all(&[7; 32]).await.unwrap();
            sleep(2 * PATIENCE).await;
            ours.write_all(&[7; 4]).await.unwrap();
            ours.read_u8().await.unwrap()
        });
        for _ in 0..9 {
            sleep(PATIENCE / 5).await;
            theirs.read_exact(&mut [0; 4]).await.unwrap();
        }
        sleep(2 * PATIENCE).await;
        theirs.write_u8(1).await.unwrap();
        assert_eq!(writing.await.unwrap(), 1);
    }
}
