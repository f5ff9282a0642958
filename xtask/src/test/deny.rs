//! `cargo deny`, as `deny.toml` says: licences, banned crates and sources always, known vulnerabilities where the advisory database can be
//! reached.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use kruise_testkit::progress::Progress;
use kruise_testkit::{paths, shell};

use super::Totals;
use crate::product;

const VERSION: &str = "0.20.2";

pub(super) fn check(totals: &mut Totals, progress: &Progress) -> Result<()> {
    let program = provide(progress)?;
    let deny = |args: &[&str]| shell::run(on_workspace(Command::new(&program)).args(args)).map(drop);
    totals.check("cargo deny check licenses bans sources", progress, || {
        deny(&["check", "--hide-inclusion-graph", "licenses", "bans", "sources"])
    });
    // Where packets are dropped, git would wait for minutes.
    let mut fetch = Command::new("timeout");
    fetch.arg("60").arg(&program);
    match shell::run(on_workspace(fetch).args(["fetch", "db"])) {
        Ok(_) => totals.check("cargo deny check advisories", progress, || {
            deny(&["check", "--hide-inclusion-graph", "advisories"])
        }),
        Err(error) => {
            let why = error.to_string();
            let why = why.trim().lines().last().unwrap_or_default();
            progress.say(&format!(
                "  advisories: not checked, because their database cannot be reached ({why})"
            ));
        }
    }
    Ok(())
}

fn on_workspace(mut command: Command) -> Command {
    product::as_by_hand(&mut command);
    command
        .current_dir(crate::root())
        .args(["--log-level", "error", "--color", "never", "--locked", "--all-features"]);
    command
}

/// Takes cargo-deny from the cache, or builds it first.
fn provide(progress: &Progress) -> Result<PathBuf> {
    let folder = paths::cache()?.join("cargo-deny").join(VERSION);
    let program = folder.join("bin/cargo-deny");
    if !program.exists() {
        progress.step(&format!("Building cargo-deny {VERSION} (once)"), |_| {
            let mut install = product::cargo();
            install
                .args(["install", "cargo-deny", "--locked", "--version", VERSION, "--root"])
                .arg(&folder)
                // It runs for a second: to optimise it as its authors do would cost minutes.
                .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
            shell::run(&mut install).context("cargo-deny could not be built; is the crate registry reachable?")
        })?;
    }
    Ok(program)
}
