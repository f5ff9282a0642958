//! The terminal of whoever calls: what is typed goes to the container as it is, and what comes back is shown at once.

use kube::api::TerminalSize;
use std::{
    io::{self, IsTerminal as _, Read as _, Write},
    process::{Command, Stdio},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

/// Bytes at a time.
const CHUNK: usize = 16 << 10;

/// A terminal that passes every key on; it is as before when this is dropped.
pub(super) struct Raw {
    before: String,
}

impl Raw {
    /// Nothing when the standard input is no terminal.
    pub(super) fn begin() -> Option<Self> {
        if !io::stdin().is_terminal() {
            return None;
        }
        let before = stty(&["-g"])?;
        stty(&["raw", "-echo"])?;
        Some(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        drop(stty(&[&self.before]));
    }
}

/// Asks the system's own program, as there is no safe call for it here.
fn stty(words: &[&str]) -> Option<String> {
    let output = Command::new("stty")
        .args(words)
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// What `stty size` says: lines and columns.
fn size_in(text: &str) -> Option<TerminalSize> {
    let (height, width) = text.split_once(' ')?;
    Some(TerminalSize {
        width: width.parse().ok()?,
        height: height.parse().ok()?,
    })
}

/// Tells how large the terminal is, now and whenever that changes.
pub(super) async fn send_sizes(is_terminal: bool, mut send: impl FnMut(TerminalSize)) {
    if !is_terminal {
        return;
    }
    let mut changed = Changes::new();
    loop {
        if let Some(size) = stty(&["size"]).as_deref().and_then(size_in) {
            send(size);
        }
        changed.next().await;
    }
}

/// Changes of the size.
#[cfg(unix)]
struct Changes(Option<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Changes {
    fn new() -> Self {
        Self(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::window_change()).ok())
    }

    async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}

#[cfg(not(unix))]
struct Changes;

#[cfg(not(unix))]
impl Changes {
    fn new() -> Self {
        Self
    }

    async fn next(&mut self) {
        std::future::pending().await
    }
}

/// Passes the standard input on until it ends.
pub(super) async fn read_into(input: Option<impl AsyncWrite + Unpin>) {
    let Some(mut input) = input else {
        return;
    };
    let (send, mut receive) = mpsc::channel::<Vec<u8>>(4);
    // A read of the terminal cannot be broken off, so its thread is left behind when the command ends first.
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        while let Ok(count) = io::stdin().read(&mut buffer) {
            let chunk = buffer.get(..count).unwrap_or_default().to_vec();
            if chunk.is_empty() || send.blocking_send(chunk).is_err() {
                return;
            }
        }
    });
    while let Some(chunk) = receive.recv().await {
        if input.write_all(&chunk).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
    drop(input.shutdown().await);
}

/// Shows what comes back. What nobody wants to see any more is read all the same, so that the command can end.
pub(super) async fn write(output: Option<impl AsyncRead + Unpin>, to: impl Fn() -> Box<dyn Write>) {
    let Some(mut output) = output else {
        return;
    };
    let mut buffer = vec![0; CHUNK];
    while let Ok(count) = output.read(&mut buffer).await {
        let chunk = buffer.get(..count).unwrap_or_default();
        if chunk.is_empty() {
            return;
        }
        let mut to = to();
        drop(to.write_all(chunk).and_then(|()| to.flush()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_the_words_of_stty_then_the_size_is_known() {
        let size = size_in("24 80").unwrap();
        assert_eq!((size.width, size.height), (80, 24));
        assert!(size_in("").is_none() && size_in("a b").is_none());
    }
}
