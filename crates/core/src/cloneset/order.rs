//! Which Pod is updated first.
//!
//! Pods that do little good come first, so that an update harms as little as possible: without a node, then by phase
//! (`Pending`, `Unknown`, `Running`), not ready, only recently ready, restarted often (first regular containers, then
//! restartable init containers), young. What the user says about priorities goes over that, then Pods with certain
//! labels are scattered, and Pods that wait for their `inPlaceUpdate` hook already stay in front.

use kruise_api::cloneset::v1beta1::RollingUpdate;

use crate::shared::lifecycle::State;
use crate::shared::membership::Member;
use crate::shared::pod_rank::cmp_for_update;
use crate::shared::update_order::{by_priority, scattered};

/// The candidates in the order in which they are updated; `all` are all Pods of the set.
pub(super) fn ordered<'r, 'a>(
    mut candidates: Vec<&'r Member<'a>>,
    all: &'r [Member<'a>],
    rolling: Option<&RollingUpdate>,
) -> Vec<&'r Member<'a>> {
    candidates.sort_by(|one, other| cmp_for_update(one.pod, other.pod));
    if let Some(rolling) = rolling {
        by_priority(&mut candidates, rolling.priority_strategy.as_ref(), label);
        if !rolling.scatter_strategy.is_empty() {
            let all: Vec<&Member<'_>> = all.iter().collect();
            candidates = scattered(&candidates, &all, &rolling.scatter_strategy, label);
        }
    }
    candidates.sort_by_key(|member| member.state != State::PreparingUpdate);
    candidates
}

fn label<'m>(member: &'m &Member<'_>, key: &str) -> Option<&'m str> {
    member.pod.metadata.label(key)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kruise_api::pod::Pod;
    use serde_json::json;

    use super::*;
    use crate::cloneset::fixtures::{Fixture as _, PodBuilder, pod, read};
    use crate::shared::availability::availability;
    use crate::shared::lifecycle::state;

    fn order(pods: &[PodBuilder], rolling: &serde_json::Value) -> Vec<String> {
        let pods: Vec<Arc<Pod>> = pods.iter().map(|pod| read(pod.as_json())).collect();
        let now = "2024-05-01T10:00:00Z".parse().unwrap();
        let members: Vec<Member<'_>> = pods
            .iter()
            .map(|pod| Member {
                pod,
                is_updated: false,
                state: state(pod),
                is_specified_delete: false,
                is_ready: true,
                availability: availability(pod, 0, now),
            })
            .collect();
        let rolling = serde_json::from_value(rolling.clone()).unwrap();
        let candidates = members.iter().collect();
        let ordered = ordered(candidates, &members, Some(&rolling));
        ordered.iter().map(|member| member.name().to_owned()).collect()
    }

    #[test]
    fn pods_that_do_little_good_come_first() {
        let pods = [
            pod("j-old").ready().on_node("n").created("2024-01-01T00:00:00Z"),
            pod("i-young").ready().on_node("n").created("2024-02-01T00:00:00Z"),
            pod("h-restarted")
                .ready()
                .on_node("n")
                .restarts(3)
                .created("2024-01-01T00:00:00Z"),
            pod("g-just-ready")
                .ready()
                .on_node("n")
                .ready_since("2024-05-01T09:59:00Z"),
            pod("f-unready").unready().on_node("n"),
            pod("e-unknown").phase("Unknown").on_node("n"),
            pod("d-pending").pending().on_node("n"),
            pod("c-homeless").pending(),
        ];
        assert_eq!(
            order(&pods, &json!({})),
            [
                "c-homeless",
                "d-pending",
                "e-unknown",
                "f-unready",
                "g-just-ready",
                "h-restarted",
                "i-young",
                "j-old"
            ]
        );
    }

    #[test]
    fn priorities_go_over_readiness_and_waiting_pods_over_priorities() {
        let pods = [
            pod("a").ready().on_node("n").label("group", "3"),
            pod("b").unready().on_node("n").label("group", "1"),
            pod("c")
                .ready()
                .on_node("n")
                .label("group", "2")
                .state("PreparingUpdate"),
            pod("d").ready().on_node("n"),
        ];
        let strategy = json!({ "priorityStrategy": { "orderPriority": [{ "orderedKey": "group" }] } });
        assert_eq!(order(&pods, &strategy), ["c", "d", "a", "b"]);
    }

    #[test]
    fn scattered_pods_are_spread_over_the_others() {
        let pods: Vec<_> = (0..6)
            .map(|number| {
                let pod = pod(&format!("p{number}")).ready().on_node("n");
                if number < 3 { pod.label("hot", "yes") } else { pod }
            })
            .collect();
        let strategy = json!({ "scatterStrategy": [{ "key": "hot", "value": "yes" }] });
        assert_eq!(order(&pods, &strategy), ["p0", "p3", "p4", "p1", "p5", "p2"]);
    }
}
