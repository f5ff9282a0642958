//! Prometheus and its `promtool`, built once from the Go module proxy and kept in the cache folder by version; and a Prometheus at work.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::kubernetes::lock;
use crate::progress::Progress;
use crate::{paths, shell};

/// 3.5, which is supported for long.
const VERSION: &str = "0.305.0";
const MODULE: &str = "github.com/prometheus/prometheus";
const PROGRAMS: [&str; 2] = ["promtool", "prometheus"];
/// For an answer.
const PATIENCE: Duration = Duration::from_secs(20);
const ROOM_FOR_A_BUILD: u64 = 4 << 30;

/// The folder of the programs: taken from the cache, or built first, which takes some minutes.
pub fn provide(progress: &Progress) -> Result<PathBuf> {
    let folder = paths::cache()?.join("prometheus").join(VERSION);
    let bin = folder.join("bin");
    let is_complete = || PROGRAMS.iter().all(|program| bin.join(program).exists());
    if is_complete() {
        return Ok(bin);
    }
    let _lock = lock(&folder)?;
    if !is_complete() {
        progress.step(&format!("Building Prometheus {VERSION} (once)"), |_| build(&folder))?;
    }
    Ok(bin)
}

fn build(folder: &Path) -> Result<()> {
    if shell::find("go").is_none() {
        bail!("Go is needed once to build Prometheus and is not on the PATH: install Go 1.21 or newer");
    }
    if let Some(lack) = paths::lacks_room(folder, ROOM_FOR_A_BUILD) {
        bail!("{lack}: the build of Prometheus needs that much once");
    }
    let (source, made) = (folder.join("src"), folder.join("made"));
    for each in [&source, &made] {
        fs::create_dir_all(each)?;
    }
    let manifest = format!("module kruise.local/prometheus\n\ngo 1.23.0\n\nrequire {MODULE} v{VERSION}\n");
    fs::write(source.join("go.mod"), manifest)?;
    // Of a module that needs nothing, `-mod=mod` would take the requirement away.
    fs::write(
        source.join("needs.go"),
        format!("package needs\n\nimport _ \"{MODULE}/model/labels\"\n"),
    )?;
    let mut command = Command::new("go");
    command
        .args(["build", "-ldflags", "-s -w", "-o"])
        .arg(&made)
        .args(PROGRAMS.map(|program| format!("{MODULE}/cmd/{program}")))
        .current_dir(&source)
        .env("GOTOOLCHAIN", "auto")
        .env("GOFLAGS", "-mod=mod -buildvcs=false");
    shell::run(&mut command).context("Prometheus could not be built; is the Go module proxy reachable?")?;
    // There as a whole or not at all.
    fs::rename(made, folder.join("bin")).context("cannot keep what was built")
}

/// A Prometheus that scrapes. It ends with this.
#[derive(Debug)]
pub struct Prometheus {
    process: Child,
    /// Port of its API, on the loopback.
    port: u16,
    folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts one that scrapes these addresses every second, with rules from a file.
    pub fn start(programs: &Path, addresses: &[String], rules: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let targets = serde_json::json!([{ "targets": addresses }]);
        let configuration = serde_json::json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [rules],
            "scrape_configs": [{ "job_name": "kruise", "honor_labels": true, "static_configs": targets }],
        });
        let file = folder.path().join("prometheus.yaml");
        // JSON is YAML.
        fs::write(&file, configuration.to_string())?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = fs::File::create(folder.path().join("log"))?;
        let process = Command::new(programs.join("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("Prometheus does not start")?;
        Ok(Self { process, port, folder })
    }

    /// The answer of its API to a GET of this path.
    pub fn get(&self, path: &str) -> Result<Value> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // In the older protocol answers are not cut into pieces.
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("no whole answer")?;
        serde_json::from_str(body).with_context(|| format!("no JSON: {body}"))
    }

    /// The samples that a query finds.
    pub fn query(&self, query: &str) -> Result<Value> {
        let encoded = query.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        });
        let answer = self.get(&format!("/api/v1/query?query={}", encoded.collect::<String>()))?;
        if answer["status"] != "success" {
            bail!("{query}: {answer}");
        }
        Ok(answer["data"]["result"].clone())
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
