//! The last words of `up`: what there is now, and first steps that show what the product is for.

use std::time::Instant;

use anyhow::Result;
use kruise_testkit::instance::Instance;
use kruise_testkit::kubernetes::Kubernetes;
use kruise_testkit::progress::seconds;
use kruise_testkit::shell;

use crate::install;

/// The README has the same, with what they print.
const FIRST_STEPS: &[&str] = &[
    "kubectl apply -f docs/examples/first-steps.yaml",
    "kubectl wait cloneset/hello --for=jsonpath='{.status.readyReplicas}'=3 --timeout=2m",
    "kubectl get pods -l app=hello -o custom-columns-file=docs/examples/first-steps.columns",
    "sed s/nginx:1.20/nginx:1.21/ docs/examples/first-steps.yaml | kubectl apply -f -",
    "kubectl kruise explain cloneset hello",
    "kubectl wait pods -l app=hello --for=jsonpath='{.status.containerStatuses[0].image}'=docker.io/library/nginx:1.21 --timeout=2m",
    "kubectl get pods -l app=hello -o custom-columns-file=docs/examples/first-steps.columns",
];

pub(super) fn say(instance: &Instance, kubernetes: &Kubernetes, started: Instant) -> Result<()> {
    let kubectl = |args: &[&str]| shell::run(instance.kubectl(kubernetes).args(args));
    let nodes = kubectl(&["get", "nodes"])?;
    let pods = kubectl(&["get", "pods", "-n", install::NAMESPACE, "-o", "wide"])?;
    let name = if instance.name() == "dev" {
        String::new()
    } else {
        format!(" --name {}", instance.name())
    };
    let real_nodes = instance.shape().is_some_and(|shape| shape.nodes > 0);
    let steps: String = FIRST_STEPS
        .iter()
        // A manager that runs beside the cluster is not where the plugin looks for it.
        .filter(|step| real_nodes || !step.starts_with("kubectl kruise"))
        .map(|step| format!("  {step}\n"))
        .collect();
    println!(
        "\nThe cluster {} is up after {}.\n\n{nodes}\n{pods}\n\
         To use it, with kubectl, kubectl kruise and helm on the PATH:\n\n  eval \"$(cargo xtask env{name})\"\n\n\
         Then try an update in place. The Pods keep their names, UIDs and addresses, only their container is restarted:\n\n{steps}\n\
         Later: `cargo xtask status`, `cargo xtask logs{name} apiserver`, `cargo xtask down{name}`.",
        instance.name(),
        seconds(started.elapsed()),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_same_first_steps() {
        let readme = std::fs::read_to_string(crate::root().join("README.md")).unwrap();
        let mut lines = readme.lines();
        for step in FIRST_STEPS {
            let found = lines.any(|line| line == *step);
            assert!(found, "README.md lacks, or has at another place: {step}");
        }
    }
}
