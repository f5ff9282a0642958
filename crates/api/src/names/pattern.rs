//! Names made from other names.

/// The ConfigMap that holds back the containers of a pod.
pub fn barrier_config_map(pod: &str) -> String {
    format!("{pod}-barrier")
}

/// What comes before the priority in a key of the barrier ConfigMap.
pub const BARRIER_KEY_PREFIX: &str = "p_";

/// The key that lets containers of this priority start.
pub fn barrier_key(priority: i64) -> String {
    format!("{BARRIER_KEY_PREFIX}{priority}")
}

/// The priority in such a key.
pub fn barrier_priority(key: &str) -> Option<i64> {
    key.strip_prefix(BARRIER_KEY_PREFIX)?.parse().ok()
}

/// A pod of a CloneSet, from its instance id.
pub fn clone_set_pod(set: &str, instance_id: &str) -> String {
    format!("{set}-{instance_id}")
}

/// A claim of a CloneSet's pod.
pub fn clone_set_claim(claim: &str, set: &str, instance_id: &str) -> String {
    format!("{claim}-{set}-{instance_id}")
}

/// A claim of a StatefulSet's pod.
pub fn stateful_set_claim(claim: &str, set: &str, ordinal: i32) -> String {
    format!("{claim}-{set}-{ordinal}")
}

/// The ImagePullJob that pulls one container's image ahead of an update.
pub fn pre_download_job(revision: &str, container: &str) -> String {
    format!("{revision}-{container}")
}

/// Beginning of the jobs that an ImageListPullJob makes; the server adds the rest.
pub fn child_pull_job_prefix(list_job: &str) -> String {
    format!("{list_job}-")
}

/// A copy of a pull Secret where the daemon can read it; `suffix` is six random hexadecimal digits.
pub fn copied_pull_secret(secret: &str, suffix: &str) -> String {
    format!("{secret}-{suffix}")
}

/// The ContainerRecreateRequest by which sidecars of a finished pod are stopped.
pub fn sidecar_termination_request(pod_uid: &str) -> String {
    format!("sidecar-termination-{pod_uid}")
}

/// The job that an AdvancedCronJob makes for one scheduled time: the same time gives the same name.
pub fn cron_child(cron_job: &str, scheduled_unix_seconds: i64) -> String {
    format!("{cron_job}-{scheduled_unix_seconds}")
}

/// A probe of a PodProbeMarker, as NodePodProbe names it.
pub fn node_probe(marker: &str, probe: &str) -> String {
    format!("{marker}#{probe}")
}

/// Marker and probe from the name that NodePodProbe uses.
pub fn parse_node_probe(name: &str) -> Option<(&str, &str)> {
    name.split_once('#')
}

/// The two containers that a hot-upgrade sidecar becomes.
pub fn hot_upgrade_containers(sidecar: &str) -> [String; 2] {
    [format!("{sidecar}-1"), format!("{sidecar}-2")]
}

/// The label by which somebody marks a pod unavailable.
pub fn is_unavailable_label(key: &str) -> bool {
    key.starts_with(super::label::UNAVAILABLE_POD_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barrier_keys_carry_negative_priorities_both_ways() {
        assert_eq!(barrier_key(10), "p_10");
        assert_eq!(barrier_key(-1), "p_-1");
        assert_eq!(barrier_priority("p_-1"), Some(-1));
        for bad in ["p_", "p_x", "10", ""] {
            assert_eq!(barrier_priority(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn given_the_parts_then_names_are_those_users_know() {
        assert_eq!(barrier_config_map("web-0"), "web-0-barrier");
        assert_eq!(clone_set_pod("web", "x7k2p"), "web-x7k2p");
        assert_eq!(clone_set_claim("data", "web", "x7k2p"), "data-web-x7k2p");
        assert_eq!(stateful_set_claim("data", "db", 3), "data-db-3");
        assert_eq!(pre_download_job("web-7c9f8", "app"), "web-7c9f8-app");
        assert_eq!(child_pull_job_prefix("warm"), "warm-");
        assert_eq!(copied_pull_secret("registry", "0a1b2c"), "registry-0a1b2c");
        assert_eq!(sidecar_termination_request("u-1"), "sidecar-termination-u-1");
        assert_eq!(cron_child("nightly", 1_700_000_000), "nightly-1700000000");
        assert_eq!(hot_upgrade_containers("log"), ["log-1", "log-2"]);
        assert_eq!(node_probe("idle", "check"), "idle#check");
        assert_eq!(parse_node_probe("idle#check"), Some(("idle", "check")));
        assert_eq!(parse_node_probe("idle"), None);
    }

    #[test]
    fn only_the_prefix_makes_a_pod_unavailable() {
        assert!(is_unavailable_label("unavailable-pod.kruise.io/maintenance"));
        assert!(!is_unavailable_label("other.kruise.io/maintenance"));
    }
}
