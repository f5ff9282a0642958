//! The docs as a site, built by `mdBook` as `book.toml` says. What is wrong with links, `cargo test -p xtask --test site` finds.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use kruise_testkit::progress::Progress;
use kruise_testkit::{paths, shell};

use super::Totals;
use crate::product;

const VERSION: &str = "0.4.52";

pub(super) fn check(totals: &mut Totals, progress: &Progress) -> Result<()> {
    let program = provide(progress)?;
    totals.check("the site of the docs", progress, || {
        let folder = tempfile::tempdir()?;
        let mut build = Command::new(program);
        build
            .arg("build")
            .arg(crate::root())
            .arg("--dest-dir")
            .arg(folder.path());
        shell::run(&mut build)?;
        for page in ["index.html", "cloneset.html", "flags.html"] {
            if !folder.path().join(page).is_file() {
                bail!("the site has no {page}");
            }
        }
        Ok(())
    });
    Ok(())
}

/// Takes `mdBook` from the cache, or builds it first.
fn provide(progress: &Progress) -> Result<PathBuf> {
    let folder = paths::cache()?.join("mdbook").join(VERSION);
    let program = folder.join("bin/mdbook");
    if !program.exists() {
        progress.step(&format!("Building mdBook {VERSION} (once)"), |_| {
            let mut install = product::cargo();
            install
                .args([
                    "install",
                    "mdbook",
                    "--locked",
                    "--no-default-features",
                    "--version",
                    VERSION,
                    "--root",
                ])
                .arg(&folder)
                // It runs for a second.
                .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
            shell::run(&mut install).context("mdBook could not be built; is the crate registry reachable?")
        })?;
    }
    Ok(program)
}
