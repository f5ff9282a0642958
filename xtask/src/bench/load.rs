//! Admission requests straight at a webhook server, over connections that stay open, as the API server sends them.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::iter;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Where requests go, and how the server is known.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) port: u16,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) request: Arc<[u8]>,
    /// Every answer has to be a yes, or a no.
    is_allowed: bool,
}

impl Target {
    /// Requests of one path and body; the server has to show a certificate of the authority in `ca`.
    pub(super) fn new(port: u16, ca: &Path, path: &str, body: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(ca).with_context(|| format!("cannot read {}", ca.display()))? {
            roots.add(authority?)?;
        }
        let tls = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            port,
            tls: Arc::new(tls),
            request: request(path, body),
            is_allowed: true,
        })
    }

    /// The same server, asked something else.
    pub(super) fn asking(&self, path: &str, body: &str) -> Self {
        Self {
            request: request(path, body),
            ..self.clone()
        }
    }

    /// The same question, whose answer has to be no.
    pub(super) fn refused(self) -> Self {
        Self {
            is_allowed: false,
            ..self
        }
    }

    pub(super) fn connect(&self) -> Result<Connection> {
        let name = ServerName::try_from("127.0.0.1")?;
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let session = ClientConnection::new(self.tls.clone(), name)?;
        Ok(Connection {
            stream: StreamOwned::new(session, socket),
            request: self.request.clone(),
            is_allowed: self.is_allowed,
            answer: Vec::with_capacity(4096),
        })
    }
}

fn request(path: &str, body: &str) -> Arc<[u8]> {
    let head = "Host: localhost\r\nContent-Type: application/json";
    format!(
        "POST {path}?timeout=10s HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
    .into()
}

pub(super) struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    request: Arc<[u8]>,
    is_allowed: bool,
    answer: Vec<u8>,
}

impl Connection {
    /// Sends the request and reads the whole answer, which has to be the expected one.
    pub(super) fn ask(&mut self) -> Result<()> {
        self.stream.write_all(&self.request)?;
        self.answer.clear();
        let mut buffer = [0; 4096];
        loop {
            let count = self.stream.read(&mut buffer)?;
            if count == 0 {
                bail!("the server hung up");
            }
            self.answer.extend_from_slice(&buffer[..count]);
            if let Some(body) = whole_body(&self.answer)? {
                let says = |answer: &[u8]| body.windows(answer.len()).any(|text| text == answer);
                let is_expected = if self.is_allowed {
                    says(b"\"allowed\":true")
                } else {
                    says(b"\"allowed\":false")
                };
                if !is_expected {
                    bail!("not as expected: {}", String::from_utf8_lossy(&body));
                }
                return Ok(());
            }
        }
    }
}

/// The body of an answer, as soon as it is there: of the length that the head says, or in chunks.
fn whole_body(answer: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
    let Some(end) = find(answer, b"\r\n\r\n") else {
        return Ok(None);
    };
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    let head = String::from_utf8_lossy(head).to_lowercase();
    if !head.starts_with("http/1.1 200") {
        bail!("the answer is {}", head.lines().next().unwrap_or_default());
    }
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if header("transfer-encoding:") == Some("chunked") {
        return Ok(joined(body)?.map(Cow::Owned));
    }
    let length: usize = header("content-length:")
        .context("an answer without a length")?
        .parse()?;
    Ok(body.get(..length).map(Cow::Borrowed))
}

/// The chunks of a body, put together as soon as the last is there.
fn joined(mut rest: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut whole = Vec::new();
    loop {
        let Some(end) = find(rest, b"\r\n") else {
            return Ok(None);
        };
        let line = std::str::from_utf8(&rest[..end])?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).with_context(|| format!("a chunk of size {size:?}"))?;
        rest = &rest[end + 2..];
        // After the last there may be more headers, and an empty line.
        if size == 0 {
            let is_over = rest.starts_with(b"\r\n") || find(rest, b"\r\n\r\n").is_some();
            return Ok(is_over.then_some(whole));
        }
        let Some(chunk) = rest.get(..size + 2) else {
            return Ok(None);
        };
        whole.extend_from_slice(&chunk[..size]);
        rest = &rest[size + 2..];
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// How long requests took.
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The time within which so many of a thousand requests were answered.
    pub(super) fn per_mille(&self, share: usize) -> Duration {
        self.0
            .get((self.0.len() * share / 1000).min(self.0.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

/// The same request again and again on one connection.
pub(super) fn one_by_one(target: &Target, requests: usize) -> Result<Latencies> {
    in_order(iter::repeat_n(target.clone(), requests))
}

/// Requests to one server, one after the other on one connection.
pub(super) fn in_order(requests: impl IntoIterator<Item = Target>) -> Result<Latencies> {
    let mut requests = requests.into_iter().peekable();
    let mut connection = requests.peek().context("nothing to ask")?.connect()?;
    let mut times = Vec::new();
    for target in requests {
        connection.request = target.request;
        let begin = Instant::now();
        connection.ask()?;
        times.push(begin.elapsed());
    }
    Ok(Latencies::new(times))
}

/// As many requests as the server takes, over several connections.
pub(super) fn flat_out(target: &Target, connections: u32, time: Duration) -> Result<Latencies> {
    let begin = Instant::now() + Duration::from_millis(100);
    on_all(target, connections, move |connection, _| {
        let mut times = Vec::new();
        thread::sleep(begin.saturating_duration_since(Instant::now()));
        while begin.elapsed() < time {
            let asked = Instant::now();
            connection.ask()?;
            times.push(asked.elapsed());
        }
        Ok(times)
    })
}

/// A steady rate over several connections. A request that had to wait for the one before counts from when it was due.
pub(super) fn steady(target: &Target, connections: u32, per_second: u32, time: Duration) -> Result<Latencies> {
    let gap = Duration::from_secs(1) * connections / per_second;
    let begin = Instant::now() + Duration::from_millis(200);
    on_all(target, connections, move |connection, number| {
        let mut times = Vec::new();
        let mut due = begin + gap * number / connections;
        while due < begin + time {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            connection.ask()?;
            times.push(due.elapsed());
            due += gap;
        }
        Ok(times)
    })
}

/// The same work on each of several connections, with a thread each.
fn on_all(
    target: &Target,
    connections: u32,
    work: impl Fn(&mut Connection, u32) -> Result<Vec<Duration>> + Clone + Send + 'static,
) -> Result<Latencies> {
    let threads: Vec<_> = (0..connections)
        .map(|number| {
            let (target, work) = (target.clone(), work.clone());
            thread::spawn(move || work(&mut target.connect()?, number))
        })
        .collect();
    let mut times = Vec::new();
    for thread in threads {
        times.extend(
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a connection's thread panicked"))??,
        );
    }
    Ok(Latencies::new(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"{\"allowed\":true}";

    #[test]
    fn given_an_answer_in_parts_then_its_body_is_there_with_the_last_byte() {
        for answer in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"allowed\":true}"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{\"allo\r\nA;x=y\r\nwed\":true}\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding:chunked\r\n\r\n10\r\n{\"allowed\":true}\r\n0\r\nTrailer: x\r\n\r\n",
        ] {
            for length in 0..answer.len() {
                assert_eq!(whole_body(&answer[..length]).unwrap(), None, "{length}");
            }
            assert_eq!(whole_body(answer).unwrap().as_deref(), Some(BODY));
        }
    }

    #[test]
    fn given_an_answer_that_cannot_be_read_then_the_reason_is_told() {
        for (answer, reason) in [
            ("HTTP/1.1 500 Oh\r\n\r\n", "500"),
            ("HTTP/1.1 200 OK\r\n\r\n", "without a length"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
                "a chunk of size \"x\"",
            ),
        ] {
            let error = whole_body(answer.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
