//! A program under test as a child process, and an API server that knows nothing but its version.

use axum::{Router, routing::get};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    net::TcpListener,
    process::{Child, ChildStderr},
    time::timeout,
};

/// Nothing here takes this long; it only ends a test that hangs.
const LONG: Duration = Duration::from_mins(1);

/// A running program whose log is read line by line.
pub(crate) struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    /// Everything it said so far.
    said: Vec<String>,
}

impl Running {
    /// Starts it with an environment of nothing but `variables`.
    pub(crate) fn start(program: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = tokio::process::Command::new(program)
            .args(args)
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let stderr = child.stderr.take().expect("its log");
        Self {
            child,
            lines: BufReader::new(stderr).lines(),
            said: Vec::new(),
        }
    }

    /// Waits for a line that contains `part`.
    pub(crate) async fn says(&mut self, part: &str) -> String {
        loop {
            let line = timeout(LONG, self.lines.next_line())
                .await
                .ok()
                .and_then(Result::ok)
                .flatten();
            let Some(line) = line else {
                panic!("it never said {part:?}, only:\n{}", self.said.join("\n"));
            };
            self.said.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    /// The address it listens on because of a flag.
    pub(crate) async fn listens(&mut self, flag: &str) -> SocketAddr {
        // The endpoints start at the same time: the line may have come before another that was waited for.
        let part = format!("{flag}: listening on ");
        let line = match self.said.iter().find(|line| line.contains(&part)) {
            Some(line) => line.clone(),
            None => self.says(&part).await,
        };
        let (_, address) = line.split_once("listening on ").expect("an address");
        address
            .trim_end_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .expect("an address")
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it still runs");
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
        assert!(sent.expect("a shell").success());
    }

    /// Waits for its end; gives how it ended and all it said.
    pub(crate) async fn ends(mut self) -> (ExitStatus, String) {
        let all = async {
            while let Ok(Some(line)) = self.lines.next_line().await {
                self.said.push(line);
            }
            self.child.wait().await.expect("an exit status")
        };
        let status = timeout(LONG, all).await.expect("it ends in time");
        (status, self.said.join("\n"))
    }
}

/// Runs a program that is expected to refuse its arguments.
pub(crate) async fn refusal(program: &str, args: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let (status, said) = Running::start(program, args, variables).ends().await;
    (status.code().expect("it ended by itself"), said)
}

/// An API server that answers `/version` only; lives as long as the test.
pub(crate) async fn api_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let version = r#"{"major":"1","minor":"34","gitVersion":"v1.34.4","gitCommit":"","gitTreeState":"",
                      "buildDate":"","goVersion":"","compiler":"","platform":""}"#;
    let router = Router::new().route("/version", get(move || async move { version }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A kubeconfig file for `server` in `directory`; gives its path.
pub(crate) fn kubeconfig(directory: &Path, server: SocketAddr) -> String {
    let path = directory.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"http://{server}\"}}}}]\n\
         users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("plain path").to_owned()
}

/// Status and body of a GET, asked again until `wanted` is the status.
pub(crate) fn get_until(address: SocketAddr, path: &str, wanted: u16) -> String {
    let start = Instant::now();
    loop {
        let (status, body) = get_once(address, path);
        if status == wanted {
            return body;
        }
        assert!(start.elapsed() < LONG, "{path} is still {status}: {body}");
        std::thread::yield_now();
    }
}

fn get_once(address: SocketAddr, path: &str) -> (u16, String) {
    let port = address.port();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream.set_read_timeout(Some(LONG)).expect("a deadline");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .expect("a status");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status, body.expect("a body"))
}
