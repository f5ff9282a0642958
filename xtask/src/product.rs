//! The product's container image: static binaries of manager and daemon, no base image, no container engine.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use kruise_testkit::image::{Image, LayerBuilder};
use kruise_testkit::progress::{Progress, Step};
use kruise_testkit::shell;
use serde_json::{Value, json};

/// Programs of the workspace and their places in the image, which existing manifests rely on.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("kruise-manager", "kruise-manager", "/manager"),
    ("kruise-manager", "helm_hook", "/helm_hook"),
    ("kruise-daemon", "kruise-daemon", "/kruise-daemon"),
];

/// The profile of what the tests and `up` put into a local cluster.
pub(crate) const LOCAL: &str = "local";

/// What the chart calls the image.
pub(crate) const REPOSITORY: &str = "kruise-rs/kruise-manager";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to write the OCI archive.
    #[arg(long, default_value = "target/kruise-manager.tar")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let image = build("release", &Progress::shown())?;
    image.write_archive(&args.output, &format!("{REPOSITORY}:{}", tag(&image)))?;
    println!("{}: {REPOSITORY}:{}", args.output.display(), tag(&image));
    Ok(())
}

/// A tag that changes with the content, so that installing again rolls out what changed and nothing else.
pub(crate) fn tag(image: &Image) -> String {
    format!(
        "dev-{}",
        image
            .digest()
            .trim_start_matches("sha256:")
            .chars()
            .take(12)
            .collect::<String>()
    )
}

/// Compiles the programs with a cargo profile and puts them into an image.
pub(crate) fn build(profile: &str, progress: &Progress) -> Result<Image> {
    let programs = progress.step("Building the manager and the daemon", |step| compile(profile, step))?;
    let mut layer = LayerBuilder::default()
        .folder("/etc", 0o755)?
        .folder("/log", 0o777)?
        .folder("/tmp", 0o1777)?;
    layer = layer
        .file(
            "/etc/passwd",
            0o644,
            b"root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
        )?
        .file("/etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n")?;
    if let Ok(authorities) = fs::read("/etc/ssl/certs/ca-certificates.crt") {
        layer = layer.folder("/etc/ssl", 0o755)?.folder("/etc/ssl/certs", 0o755)?.file(
            "/etc/ssl/certs/ca-certificates.crt",
            0o644,
            &authorities,
        )?;
    }
    for (built, (_, _, place)) in programs.iter().zip(PROGRAMS) {
        layer = layer.file(
            place,
            0o755,
            &fs::read(built).with_context(|| format!("cannot read {}", built.display()))?,
        )?;
    }
    Ok(Image::new(vec![layer.build()?], &json!({"Entrypoint": ["/manager"]})))
}

/// The arguments that name the packages of the programs.
fn packages() -> Vec<&'static str> {
    let mut packages: Vec<&str> = PROGRAMS.iter().map(|(package, _, _)| *package).collect();
    packages.dedup();
    packages.into_iter().flat_map(|package| ["-p", package]).collect()
}

/// What [`compile`] does, for those who do not ask how far it is.
pub(crate) fn build_command(profile: &str) -> Result<Command> {
    let mut command = static_cargo("build", profile)?;
    command.args(packages());
    Ok(command)
}

/// Builds static binaries; returns their paths in the order of [`PROGRAMS`].
pub(crate) fn compile(profile: &str, step: &Step) -> Result<Vec<PathBuf>> {
    let dependencies = shell::run(
        cargo()
            .args([
                "tree",
                "-e",
                "normal,build",
                "--prefix",
                "none",
                "--format",
                "{p}",
                "--locked",
            ])
            .args(packages()),
    )?;
    let total = dependencies.lines().map(str::trim_end).collect::<BTreeSet<_>>().len() as u64;
    let mut child = build_command(profile)?
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let errors = child.stderr.take().context("no standard error")?;
    let collector =
        std::thread::spawn(move || BufReader::new(errors).lines().map_while(Result::ok).collect::<Vec<_>>());
    let mut done = BTreeSet::new();
    for line in BufReader::new(child.stdout.take().context("no standard output")?).lines() {
        let message: Value = serde_json::from_str(&line?).unwrap_or_default();
        if message["reason"] == "compiler-artifact" {
            done.insert(message["package_id"].to_string());
            step.at(
                done.len() as u64,
                total,
                message["target"]["name"].as_str().unwrap_or_default(),
            );
        }
    }
    let text = collector.join().unwrap_or_default();
    if !child.wait()?.success() {
        bail!("cargo build failed:\n{}", shell::tail(&text.join("\n"), 40));
    }
    let folder = crate::root().join("target").join(host_target()?).join(profile);
    Ok(PROGRAMS.iter().map(|(_, program, _)| folder.join(program)).collect())
}

/// Cargo for programs that need nothing of the machine they run on. What is built this way shares all its crates.
pub(crate) fn static_cargo(verb: &str, profile: &str) -> Result<Command> {
    let mut command = cargo();
    command
        .args([verb, "--locked", "--profile", profile, "--target", &host_target()?])
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    Ok(command)
}

/// Cargo, at the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::root());
    as_by_hand(&mut command);
    command
}

/// The same command, behind everything else that runs on this machine.
pub(crate) fn when_idle(command: &Command) -> Command {
    let mut idle = Command::new("nice");
    idle.args(["-n", "19"])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        idle.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => idle.env(name, value),
            None => idle.env_remove(name),
        };
    }
    idle
}

/// Has a command run as if it were called by hand: what `cargo run` tells xtask about xtask itself would, in a cargo called from it, make
/// build scripts run again, and most of the workspace compile again.
pub(crate) fn as_by_hand(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let about_xtask = name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
        if about_xtask {
            command.env_remove(name);
        }
    }
}

fn host_target() -> Result<String> {
    let version = shell::run(Command::new("rustc").arg("-vV"))?;
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc does not name its host")
}
