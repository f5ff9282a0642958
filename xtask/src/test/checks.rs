//! What is checked without running anything of ours: formatting, lints, dependencies, the docs as a site, generated files, the chart.

use std::process::Command;

use anyhow::Result;
use kruise_testkit::progress::Progress;
use kruise_testkit::{kubernetes, shell};

use super::{Totals, deny, site};
use crate::product;

pub(super) fn run(totals: &mut Totals, progress: &Progress) -> Result<()> {
    let cargo = |args: &[&str]| {
        let mut command = product::cargo();
        shell::run(command.args(args)).map(drop)
    };
    totals.check("cargo fmt", progress, || cargo(&["fmt", "--all", "--check"]));
    totals.check("cargo clippy", progress, || {
        cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ])
    });
    deny::check(totals, progress)?;
    site::check(totals, progress)?;
    #[cfg(feature = "manifests")]
    totals.check("generated files", progress, crate::manifests::check_all);
    let helm = kubernetes::helm(progress)?;
    totals.check("helm lint", progress, || {
        shell::run(
            Command::new(helm)
                .args(["lint", "--strict"])
                .arg(crate::root().join("charts/kruise")),
        )
        .map(drop)
    });
    Ok(())
}
