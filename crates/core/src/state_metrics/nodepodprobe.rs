//! NodePodProbe.

use kruise_api::nodepodprobe::CachedNodePodProbe;
use kruise_api::shared::probing::ProbeState;

use super::{Family, count, sampled};

sampled!(CachedNodePodProbe, FAMILIES);

const FAMILIES: &[Family<CachedNodePodProbe>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value("spec_pods", "Pods that are to be probed on the node.", |list| {
        count(list.spec.pod_probes.len())
    }),
    Family::samples(
        "status_probes",
        "Probes of the node by what they found last.",
        &["state"],
        |list, to| {
            let pods = list.status.pod_probe_statuses.iter();
            let states: Vec<_> = pods
                .flat_map(|pod| &pod.probe_states)
                .map(|probe| &probe.state)
                .collect();
            for state in [ProbeState::Succeeded, ProbeState::Failed, ProbeState::Unknown] {
                let found = states.iter().filter(|found| ***found == state).count();
                to.labelled(&[("state", state.as_str())], count(found).unwrap_or_default());
            }
        },
    ),
];
