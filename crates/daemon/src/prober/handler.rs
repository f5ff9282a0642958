//! One check of a container.
//!
//! - A command passes when it ends with 0, and what it prints is the message; otherwise what it complains of is. One that does not end in time has failed, and
//!   the runtime kills it. One that prints very much has failed as well, as how it ended cannot be told without reading all of it.
//! - A connection passes when it opens.
//! - A request passes with a status from 200 to 399, and the answer is the message. Redirects are followed as long as they stay at the Pod.
//! - Anything else cannot be checked.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ExecAction, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kruise_cri::{Error, Runtime};

use super::course::Check;
use crate::http;

/// The longest answer to a command, in bytes. Many may end at the same moment.
const LONGEST_ANSWER: usize = 64 << 10;
/// So much of any answer is looked at.
const READ: usize = 10 << 10;
/// A request is passed on so often at most.
const REDIRECTS: usize = 10;

/// Checks a container once.
pub(super) async fn check(runtime: &Runtime, container: &str, address: &str, probe: &Probe) -> Check {
    let seconds = u64::try_from(probe.timeout_seconds.unwrap_or_default()).unwrap_or(0);
    let limit = Duration::from_secs(seconds.max(1));
    if let Some(exec) = &probe.exec {
        return command(runtime, container, exec, limit).await;
    }
    let reached = async {
        if let Some(get) = &probe.http_get {
            return match request(get, address) {
                Ok(request) => answer(request).await,
                Err(why) => Check::Impossible(why),
            };
        }
        if let Some(tcp) = &probe.tcp_socket {
            return match (place(tcp.host.as_deref(), address), number(&tcp.port)) {
                (Ok(host), Ok(port)) => match http::dial(&host, port).await {
                    Ok(_) => Check::Passed(String::new()),
                    Err(why) => Check::Failed(why),
                },
                (Err(why), _) | (_, Err(why)) => Check::Impossible(why),
            };
        }
        Check::Impossible("the probe has no handler that the daemon knows".to_owned())
    };
    let late = || Check::Failed(format!("no answer within {limit:?}"));
    tokio::time::timeout(limit, reached).await.unwrap_or_else(|_| late())
}

async fn command(runtime: &Runtime, container: &str, exec: &ExecAction, limit: Duration) -> Check {
    let words = exec.command.as_deref().unwrap_or_default();
    match runtime.exec(container, words, Some(limit), LONGEST_ANSWER).await {
        Ok(ended) if ended.exit_code == 0 => Check::Passed(text(&ended.stdout)),
        Ok(ended) => Check::Failed(text(&ended.stderr)),
        Err(Error::TooLong { most, .. }) => Check::Failed(format!(
            "the command printed more than {most} bytes, so how it ended is not known"
        )),
        Err(error) if error.is_timeout() => Check::Failed(format!("the command did not end within {limit:?}")),
        Err(error) => Check::Impossible(error.to_string()),
    }
}

fn text(output: &[u8]) -> String {
    let beginning = output.get(..READ).unwrap_or(output);
    String::from_utf8_lossy(beginning).into_owned()
}

fn request(get: &HTTPGetAction, address: &str) -> Result<http::Request, String> {
    let headers = get.http_headers.iter().flatten();
    Ok(http::Request {
        tls: is_tls(get.scheme.as_deref().unwrap_or_default()),
        host: place(get.host.as_deref(), address)?,
        port: number(&get.port)?,
        path: get.path.clone().unwrap_or_default(),
        headers: headers
            .map(|header| (header.name.clone(), header.value.clone()))
            .collect(),
    })
}

fn is_tls(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("https")
}

/// The given host, or the Pod.
fn place(host: Option<&str>, address: &str) -> Result<String, String> {
    let given = host.filter(|host| !host.is_empty()).unwrap_or(address);
    if given.is_empty() {
        return Err("the Pod has no address yet".to_owned());
    }
    Ok(given.to_owned())
}

fn number(port: &IntOrString) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(text) => text.parse().ok(),
    };
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("{port:?} is no port number"))
}

async fn answer(mut request: http::Request) -> Check {
    for _ in 0..=REDIRECTS {
        let answer = match http::ask(&request, READ).await {
            Ok(answer) => answer,
            Err(why) => return Check::Failed(format!("Get {:?}: {why}", address_of(&request))),
        };
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        let onward = answer.location.filter(|_| (300..400).contains(&answer.status));
        match onward.map(|to| follow(&request, &to)) {
            Some(Onward::Here(next)) => request = next,
            Some(Onward::Elsewhere) => {
                return Check::Passed(format!("Probe terminated redirects, Response body: {body}"));
            }
            Some(Onward::Nowhere(why)) => return Check::Failed(why),
            None if (200..400).contains(&answer.status) => return Check::Passed(body),
            None => return Check::Failed(format!("HTTP probe failed with statuscode: {}", answer.status)),
        }
    }
    Check::Failed(format!(
        "Get {:?}: stopped after {REDIRECTS} redirects",
        address_of(&request)
    ))
}

/// Where an answer points to.
#[derive(Debug, PartialEq, Eq)]
enum Onward {
    Here(http::Request),
    Elsewhere,
    Nowhere(String),
}

fn follow(request: &http::Request, to: &str) -> Onward {
    let mut next = request.clone();
    let uri: ::http::Uri = match to.parse() {
        Ok(uri) => uri,
        // A path without a slash in front.
        Err(_) => match format!("/{to}").parse() {
            Ok(uri) => uri,
            Err(error) => return Onward::Nowhere(format!("failed to parse Location header {to:?}: {error}")),
        },
    };
    if let Some(scheme) = uri.scheme_str() {
        next.tls = is_tls(scheme);
    }
    match (uri.host(), uri.scheme_str()) {
        (Some(host), Some(_)) => {
            if host.trim_matches(['[', ']']) != request.host.trim_matches(['[', ']']) {
                return Onward::Elsewhere;
            }
            next.port = uri.port_u16().unwrap_or(if next.tls { 443 } else { 80 });
        }
        // `there` alone reads as a host.
        (Some(_), None) => {
            next.path = beside(&request.path, to);
            return Onward::Here(next);
        }
        (None, _) => {}
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    next.path = if to.starts_with('/') || uri.host().is_some() {
        path.to_owned()
    } else {
        beside(&request.path, to)
    };
    Onward::Here(next)
}

/// A path that is relative to another one.
fn beside(path: &str, to: &str) -> String {
    let before_query = path.split('?').next().unwrap_or_default();
    let folder = before_query.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/{to}")
}

fn address_of(request: &http::Request) -> String {
    let scheme = if request.tls { "https" } else { "http" };
    let slash = if request.path.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{}:{}{slash}{}", request.host, request.port, request.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// Answers one request after another, each connection with the next answer; the last one stays.
    async fn server(answers: &[&'static str]) -> u16 {
        let answers = answers.to_vec();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            let mut place = 0;
            loop {
                let (mut stream, _) = listener.accept().await.expect("somebody");
                let _ = stream.read(&mut vec![0; 4096]).await;
                let answer = answers.get(place).or(answers.last()).copied().unwrap_or_default();
                let _ = stream.write_all(answer.as_bytes()).await;
                place += 1;
            }
        });
        port
    }

    async fn checked(probe: Value) -> Check {
        let probe: Probe = serde_json::from_value(probe).expect("a probe");
        let folder = tempfile::tempdir().expect("a folder");
        let fake = kruise_cri::fake::FakeRuntime::start(&folder.path().join("fake.sock"));
        let runtime = Runtime::connect(fake.socket()).await.expect("connected");
        check(&runtime, "c", "127.0.0.1", &probe).await
    }

    async fn got(answers: &[&'static str]) -> Check {
        let port = server(answers).await;
        checked(json!({"httpGet": {"port": port, "path": "/a/b?c", "scheme": "HTTP"}})).await
    }

    #[tokio::test]
    async fn given_answers_then_those_from_200_to_399_pass_with_their_body() {
        let passed = |text: &str| Check::Passed(text.to_owned());
        assert_eq!(
            got(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"]).await,
            passed("hi")
        );
        assert_eq!(
            got(&["HTTP/1.1 304 Same\r\ncontent-length: 0\r\n\r\n"]).await,
            passed("")
        );
        assert_eq!(
            got(&["HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nhi"]).await,
            Check::Failed("HTTP probe failed with statuscode: 503".to_owned())
        );
        let here = "HTTP/1.1 302 Found\r\nlocation: /there\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(
            got(&[here, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nthere"]).await,
            passed("there")
        );
        let elsewhere = "HTTP/1.1 302 Found\r\nlocation: http://example.com/\r\ncontent-length: 2\r\n\r\nhi";
        assert_eq!(
            got(&[elsewhere]).await,
            passed("Probe terminated redirects, Response body: hi")
        );
        let Check::Failed(why) = got(&[here]).await else {
            panic!("round and round")
        };
        assert!(why.ends_with("stopped after 10 redirects"), "{why}");
    }

    #[tokio::test]
    async fn given_nobody_or_somebody_who_says_nothing_then_it_has_failed_with_the_reason() {
        let port = server(&[""]).await;
        assert_eq!(
            checked(json!({"tcpSocket": {"port": port}})).await,
            Check::Passed(String::new())
        );
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = closed.local_addr().expect("an address").port();
        drop(closed);
        let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
        assert_eq!(
            checked(json!({"tcpSocket": {"port": port}})).await,
            Check::Failed(refused.clone())
        );
        let get = json!({"httpGet": {"port": port, "path": "/x", "scheme": "HTTP"}});
        assert_eq!(
            checked(get).await,
            Check::Failed(format!("Get \"http://127.0.0.1:{port}/x\": {refused}"))
        );
        // Its backlog takes the connection; nobody answers.
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = silent.local_addr().expect("an address").port();
        let get = json!({"httpGet": {"port": port, "path": "/x", "scheme": "HTTP"}});
        assert_eq!(checked(get).await, Check::Failed("no answer within 1s".to_owned()));
    }

    #[tokio::test]
    async fn given_what_cannot_be_checked_then_it_says_so() {
        for probe in [
            json!({}),
            json!({"grpc": {"port": 1}}),
            json!({"tcpSocket": {"port": "web"}}),
            json!({"tcpSocket": {"port": 70_000}}),
            json!({"httpGet": {"port": 0}}),
        ] {
            let check = checked(probe.clone()).await;
            assert!(matches!(check, Check::Impossible(_)), "{probe} {check:?}");
        }
        let nowhere = place(None, "");
        assert_eq!(nowhere, Err("the Pod has no address yet".to_owned()));
    }

    #[test]
    fn given_redirects_then_they_are_followed_only_at_the_pod() {
        let request = http::Request {
            host: "10.0.0.1".to_owned(),
            port: 8080,
            path: "/a/b?c".to_owned(),
            ..http::Request::default()
        };
        let to = |tls: bool, port: u16, path: &str| {
            Onward::Here(http::Request {
                tls,
                port,
                path: path.to_owned(),
                ..request.clone()
            })
        };
        for (location, expected) in [
            ("/x?y", to(false, 8080, "/x?y")),
            ("x", to(false, 8080, "/a/x")),
            ("http://10.0.0.1/x", to(false, 80, "/x")),
            ("https://10.0.0.1:444/x", to(true, 444, "/x")),
            ("http://10.0.0.2:8080/x", Onward::Elsewhere),
        ] {
            assert_eq!(follow(&request, location), expected, "{location}");
        }
        assert!(matches!(follow(&request, "\u{7f} "), Onward::Nowhere(_)));
    }
}
