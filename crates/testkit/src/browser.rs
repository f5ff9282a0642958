//! A real browser, Chromium, led by `chromedriver`: just enough of the browsers' remote control protocol, which is JSON over HTTP on the loopback. Every call has a deadline.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use serde_json::{Value, json};

use crate::packages::{self, Install, Program};
use crate::process::wait_until;
use crate::progress::Progress;
use crate::shell;

const PROGRAMS: &[Program] = &[
    Program {
        name: "chromium",
        package: "chromium",
    },
    Program {
        name: "chromedriver",
        package: "chromium-driver",
    },
];
const PATIENCE: Duration = Duration::from_mins(1);

/// The screen that a page is shown on.
#[derive(Debug, Clone, Copy)]
pub enum Screen {
    Phone,
    Desk,
}

/// `chromedriver` with its browsers. All of them are gone when this is.
#[derive(Debug)]
pub struct Driver {
    process: Child,
    guard: Child,
    port: u16,
    home: tempfile::TempDir,
}

impl Driver {
    pub fn start() -> Result<Self> {
        packages::ensure(PROGRAMS, false, Install::Allowed, &Progress::shown())?;
        let home = tempfile::tempdir()?;
        let log = home.path().join("chromedriver.log");
        let out = File::create(&log)?;
        let process = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            // Browsers are started into this group.
            .process_group(0)
            .spawn()
            .context("cannot start chromedriver")?;
        // Ends the group when our end of its input closes, which also happens when this process is killed.
        let guard = Command::new("sh")
            .args(["-c", "read -r line; kill -KILL -$1", "guard", &process.id().to_string()])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot start the guard of chromedriver")?;
        let mut started = Self {
            process,
            guard,
            port: 0,
            home,
        };
        wait_until(PATIENCE, || {
            started.port = port(&fs::read_to_string(&log).unwrap_or_default()).unwrap_or_default();
            started.port != 0
        });
        ensure!(
            started.port != 0,
            "chromedriver has no port: {}",
            fs::read_to_string(&log)?
        );
        Ok(started)
    }

    /// Opens a file in a new browser.
    pub fn open(&self, page: &Path, screen: Screen) -> Result<Browser<'_>> {
        self.visit(&format!("file://{}", page.display()), screen)
    }

    /// Opens an address in a new browser.
    pub fn visit(&self, url: &str, screen: Screen) -> Result<Browser<'_>> {
        let profile = tempfile::tempdir_in(self.home.path())?.keep();
        let mut arguments: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--force-color-profile=srgb",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--user-data-dir={}", profile.display()));
        let mut options = json!({ "binary": shell::find("chromium").context("no chromium")? });
        match screen {
            Screen::Phone => {
                // Finer pixels lay out the same page and make the pictures slow to check.
                let metrics = json!({ "width": 390, "height": 844, "pixelRatio": 1, "touch": true });
                options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
            }
            Screen::Desk => arguments.push("--window-size=1280,900".to_owned()),
        }
        options["args"] = json!(arguments);
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let session = self.call(
            "POST",
            "/session",
            &json!({ "capabilities": { "alwaysMatch": wanted } }),
        )?;
        let session = session["sessionId"].as_str().context("no session")?.to_owned();
        let browser = Browser { driver: self, session };
        browser.ask("url", &json!({ "url": url }))?;
        Ok(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let answer = self
            .exchange(method, path, &body.to_string())
            .with_context(|| format!("{method} {path}"))?;
        let value = answer["value"].clone();
        if !value["error"].is_null() {
            bail!("{method} {path}: {}: {}", value["error"], value["message"]);
        }
        Ok(value)
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut content = vec![0; length];
        answer.read_exact(&mut content)?;
        Ok(serde_json::from_slice(&content)?)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The driver is reaped last: until then nobody else can have its id.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        let _ = self.process.kill();
        let _ = self.process.wait();
        let group = rustix::process::Pid::from_child(&self.process);
        let gone = wait_until(PATIENCE, || rustix::process::test_kill_process_group(group).is_err());
        assert!(
            gone || std::thread::panicking(),
            "processes of the browser are left in the group {group:?}"
        );
    }
}

/// One page in one browser.
#[derive(Debug)]
pub struct Browser<'a> {
    driver: &'a Driver,
    session: String,
}

impl Browser<'_> {
    fn ask(&self, command: &str, body: &Value) -> Result<Value> {
        self.driver
            .call("POST", &format!("/session/{}/{command}", self.session), body)
    }

    /// Runs a script in the page and returns what it returns.
    pub fn run(&self, script: &str) -> Result<Value> {
        self.ask("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// What the browser complained about since the last call.
    pub fn complaints(&self) -> Result<Vec<Value>> {
        let all = self.ask("se/log", &json!({ "type": "browser" }))?;
        Ok(all.as_array().cloned().unwrap_or_default())
    }

    /// Shows the page as those see it who asked for a dark or a light look.
    pub fn prefer(&self, look: &str) -> Result<()> {
        let feature = json!({ "name": "prefers-color-scheme", "value": look });
        self.tool("Emulation.setEmulatedMedia", &json!({ "features": [feature] }))
            .map(drop)
    }

    /// The whole page as PNG, with what is below the screen's edge.
    pub fn picture(&self, width: f64, height: f64) -> Result<Vec<u8>> {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let taken = self.tool("Page.captureScreenshot", &asked)?;
        let data = taken["data"].as_str().context("no picture")?;
        Ok(base64::engine::general_purpose::STANDARD.decode(data)?)
    }

    fn tool(&self, name: &str, parameters: &Value) -> Result<Value> {
        self.ask("goog/cdp/execute", &json!({ "cmd": name, "params": parameters }))
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        // What does not end by itself ends with the driver.
        let _ = self
            .driver
            .call("DELETE", &format!("/session/{}", self.session), &json!({}));
    }
}

fn port(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("started successfully on port ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    // Without the full stop the number may not be complete yet.
    rest[digits.len()..].starts_with('.').then(|| digits.parse().ok())?
}
