//! Everything that is fixed when the process starts: flags, the name of the node and feature gates.

use crate::Flags;
use kruise_api::{
    gates::{GateError, Gates},
    names::env,
};
use std::path::PathBuf;

/// Where the chart mounts the host's `/var/run`.
const SOCKETS: &str = "/hostvarrun";

/// What the process goes by.
#[derive(Debug, Clone)]
pub struct Settings {
    pub flags: Flags,
    pub node: String,
    pub gates: Gates,
    /// Folder in which the host's sockets are.
    pub sockets: PathBuf,
    /// What the user should read once in the log.
    pub notices: Vec<String>,
}

/// Why the process cannot start like this.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("--feature-gates: {0}")]
    Gates(#[from] GateError),
    #[error(
        "{} is not set; give the name of the node, in a Pod from the field spec.nodeName",
        env::NODE_NAME
    )]
    NoNode,
}

impl Settings {
    /// Puts flags and environment together; `variable` gives the value of an environment variable.
    pub fn read(flags: Flags, variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let (gates, about_gates) = Gates::parse(&flags.feature_gates.join(","), None)?;
        let node = variable(env::NODE_NAME)
            .filter(|node| !node.is_empty())
            .ok_or(SettingsError::NoNode)?;
        Ok(Self {
            flags,
            node,
            gates,
            sockets: PathBuf::from(SOCKETS),
            notices: about_gates.iter().map(ToString::to_string).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_api::gates::Gate;
    use kruise_runtime::flags::parse;

    fn settings(args: &[&str], node: Option<&str>) -> Result<Settings, SettingsError> {
        let flags = parse(["kruise-daemon"].iter().chain(args)).expect("flags");
        Settings::read(flags, |name| (name == "NODE_NAME").then_some(node?.to_owned()))
    }

    #[test]
    fn given_no_node_name_then_it_says_how_to_give_one() {
        for node in [None, Some("")] {
            let message = settings(&[], node).expect_err("no node").to_string();
            assert!(
                message.contains("NODE_NAME") && message.contains("spec.nodeName"),
                "{message}"
            );
        }
        assert_eq!(
            settings(&[], Some("n1")).map(|settings| settings.node),
            Ok("n1".to_owned())
        );
    }

    #[test]
    fn given_the_gates_of_the_manager_then_the_daemon_reads_them_the_same_way() {
        let off = settings(&["--feature-gates=KruiseDaemon=false"], Some("n1")).expect("valid");
        assert!(!off.gates.enabled(Gate::DaemonWatchingPod));
        assert!(!off.notices.is_empty());
        assert!(settings(&["--feature-gates=NoSuchGate=true"], Some("n1")).is_err());
    }
}
