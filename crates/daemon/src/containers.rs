//! What the kubelet has written on containers of the runtime.

use k8s_openapi::jiff::Timestamp;
use kruise_api::names::node::container;
use kruise_cri::wire::ContainerStatus;
use kruise_cri::{Error, Runtime};
use std::collections::BTreeMap;

/// The containers of a Pod, each the newest of its name.
pub(crate) async fn newest_of(runtime: &Runtime, pod_uid: &str) -> Result<BTreeMap<String, ContainerStatus>, Error> {
    let mut newest = BTreeMap::new();
    for status in runtime.containers_of(container::POD_UID, pod_uid).await? {
        newest.entry(name(&status)).or_insert(status);
    }
    Ok(newest)
}

/// The container's name in its Pod.
pub(crate) fn name(status: &ContainerStatus) -> String {
    let by_label = status.labels.get(container::NAME).cloned();
    by_label
        .or_else(|| status.metadata.as_ref().map(|metadata| metadata.name.clone()))
        .unwrap_or_default()
}

/// How often the kubelet has restarted it.
pub(crate) fn restart_count(status: &ContainerStatus) -> i32 {
    let count = status.annotations.get(container::RESTART_COUNT);
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The kubelet's hash of its spec.
pub(crate) fn plain_hash(status: &ContainerStatus) -> u64 {
    let hash = status.annotations.get(container::HASH);
    hash.and_then(|hash| u64::from_str_radix(hash, 16).ok()).unwrap_or(0)
}

/// When it began to run.
pub(crate) fn started_at(status: &ContainerStatus) -> Timestamp {
    Timestamp::from_nanosecond(status.started_at.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_what_the_kubelet_wrote_then_it_is_read_and_nonsense_is_nothing() {
        let annotated = |hash: &str, count: &str| ContainerStatus {
            annotations: [(container::HASH, hash), (container::RESTART_COUNT, count)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            started_at: i64::MAX,
            ..ContainerStatus::default()
        };
        let good = annotated("19fd1bfc", "3");
        assert_eq!((plain_hash(&good), restart_count(&good)), (436_018_172, 3));
        let bad = annotated("xyz", "many");
        assert_eq!((plain_hash(&bad), restart_count(&bad)), (0, 0));
        assert!(started_at(&good) > Timestamp::UNIX_EPOCH);
        assert_eq!(name(&ContainerStatus::default()), "");
    }
}
