//! A socket for hyper that others can watch, and that tells when the client does not take what is sent.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::account::Account;

/// Both halves of a socket.
pub(super) struct Wire {
    read: Arc<OwnedReadHalf>,
    write: OwnedWriteHalf,
    account: Arc<Account>,
}

impl Wire {
    pub(super) fn new(read: Arc<OwnedReadHalf>, write: OwnedWriteHalf, account: Arc<Account>) -> Self {
        Self { read, write, account }
    }

    fn sent(&self, sent: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.account.block(sent.is_pending());
        if let Poll::Ready(Ok(bytes)) = sent {
            self.account.send(bytes);
        }
        sent
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream: &TcpStream = (*self.read).as_ref();
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_read(buf.initialize_unfilled()) {
                Ok(bytes) => {
                    buf.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.write).poll_write(cx, buf);
        self.sent(sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.write).poll_write_vectored(cx, bufs);
        self.sent(sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.write.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(cx)
    }
}
