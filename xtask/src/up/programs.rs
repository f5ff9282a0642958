//! What a user of the cluster calls, in one folder for the PATH: kubectl and Helm of the right version, and the plugin `kubectl kruise`.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result};
use kruise_testkit::instance::Instance;
use kruise_testkit::kubernetes::{self, Kubernetes};
use kruise_testkit::progress::Progress;

/// Builds the plugin and puts links to all of them into the cluster's folder.
pub(super) fn put(instance: &Instance, kubernetes: &Kubernetes, progress: &Progress) -> Result<()> {
    let plugin = progress.step("Building kubectl kruise", |_| {
        super::beside_xtask("kubectl-kruise", "kruise-cli")
    })?;
    let folder = instance.programs();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, program) in [
        ("kubectl", kubernetes.part("kubectl")),
        ("helm", kubernetes::helm(progress)?),
        ("kubectl-kruise", plugin),
    ] {
        let link = folder.join(name);
        let _ = fs::remove_file(&link);
        symlink(&program, &link).with_context(|| format!("cannot make {}", link.display()))?;
    }
    Ok(())
}
