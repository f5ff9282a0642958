//! The table of feature gates: name, default, stage, first release, and what the gate turns on.

use std::fmt;

/// How settled a gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// May change; `AllAlpha` sets it.
    Alpha,
    /// Settled; `AllBeta` sets it.
    Beta,
}

struct Row {
    name: &'static str,
    on: bool,
    stage: Stage,
    since: &'static str,
    turns_on: &'static str,
}

/// Makes the enum, the list of its members and the table of facts from one line per gate.
macro_rules! gates {
    ($($name:ident, $default:ident, $stage:ident, $since:literal, $turns_on:literal;)+) => {
        /// A feature gate; its name is what users write.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Gate {
            $(#[doc = $turns_on] $name,)+
        }

        impl Gate {
            /// Every gate, in the order in which they came.
            pub const ALL: &'static [Gate] = &[$(Gate::$name),+];

            const fn row(self) -> Row {
                match self {
                    $(Gate::$name => Row {
                        name: stringify!($name),
                        on: gates!(@$default),
                        stage: Stage::$stage,
                        since: $since,
                        turns_on: $turns_on,
                    },)+
                }
            }
        }
    };
    (@on) => { true };
    (@off) => { false };
}

gates! {
    PodWebhook, on, Beta, "0.8", "The webhooks that change and check pods.";
    KruiseDaemon, on, Beta, "0.8", "Everything that needs the node daemon: images, container recreation, probes.";
    DaemonWatchingPod, on, Beta, "0.10", "The daemon watches the pods of its node and reports their containers.";
    CloneSetShortHash, off, Alpha, "0.9", "CloneSet pods carry only the hash of their revision, not its name.";
    KruisePodReadinessGate, off, Alpha, "0.9", "Every created pod gets our readiness gate.";
    PreDownloadImageForInPlaceUpdate, off, Alpha, "0.9", "CloneSet and StatefulSet pull images ahead.";
    CloneSetPartitionRollback, off, Alpha, "0.9", "CloneSet moves pods back when the partition grows.";
    ResourcesDeletionProtection, off, Beta, "0.9", "Labelled objects are protected against deletion.";
    PodUnavailableBudgetDeleteGate, on, Beta, "0.10", "Budgets guard against the deletion and eviction of pods.";
    PodUnavailableBudgetUpdateGate, off, Alpha, "0.10", "Budgets guard against updates of pods.";
    WorkloadSpread, on, Beta, "0.10", "WorkloadSpread: spreads pods over subsets when they are created.";
    TemplateNoDefaults, off, Alpha, "0.10", "Webhooks write no defaults into templates; never switch it off again.";
    InPlaceUpdateEnvFromMetadata, on, Beta, "1.0", "In-place update of environment that comes from metadata.";
    StatefulSetAutoDeletePVC, on, Beta, "1.1", "StatefulSet deletes claims as its retention policy says.";
    SidecarSetPatchPodMetadataDefaultsAllowed, off, Alpha, "1.3", "SidecarSets may change annotations no list allows.";
    PodProbeMarkerGate, on, Beta, "1.3", "PodProbeMarker, NodePodProbe and the daemon's prober.";
    PreDownloadImageForDaemonSetUpdate, off, Alpha, "1.3", "DaemonSet pulls images ahead of updates.";
    CloneSetEventHandlerOptimization, off, Alpha, "1.4", "CloneSet looks at fewer pod changes.";
    SidecarTerminator, off, Alpha, "1.4", "Sidecars end when the main containers of a job have ended.";
    PreparingUpdateAsUpdate, off, Alpha, "1.5", "Pods that prepare for an update count as updated while scaling.";
    ImagePullJobGate, off, Alpha, "1.5", "ImagePullJob and ImageListPullJob.";
    ResourceDistributionGate, off, Beta, "1.5", "ResourceDistribution.";
    DeletionProtectionForCRDCascadingGate, off, Alpha, "1.5", "Protection of a CRD as long as it has instances.";
    EnhancedLivenessProbe, off, Alpha, "1.7", "Liveness probes move into an annotation when a pod is created.";
    RecreatePodWhenChangeVCTInCloneSetGate, off, Alpha, "1.7", "CloneSet recreates pods when claims change.";
    StatefulSetStartOrdinal, off, Alpha, "1.7", "StatefulSet counts from `spec.ordinals.start`.";
    PodIndexLabel, on, Beta, "1.7", "StatefulSet pods carry their ordinal as a label.";
    EnableExternalCerts, off, Alpha, "1.7", "Certificates come from outside of the manager.";
    StatefulSetAutoResizePVCGate, off, Alpha, "1.8", "StatefulSet expands volumes when claim templates grow.";
    ForceDeleteTimeoutExpectationGate, off, Alpha, "1.8", "CloneSet stops waiting for pods that never appear.";
    InPlaceWorkloadVerticalScaling, off, Alpha, "1.8", "Workloads change the resources of containers in place.";
    EnablePodProbeMarkerOnServerless, off, Alpha, "1.8", "Probes for pods on nodes without daemon.";
    EnableSortSidecarContainerByName, off, Alpha, "1.9", "Injected sidecars are sorted by name.";
    InPlacePodVerticalScaling, off, Alpha, "1.9", "The cluster resizes pods in place; budgets tell resizes apart.";
    DefaultHostNetworkHostPortsInPodTemplates, off, Alpha, "post-1.9", "Templates on the host network get ports.";
    DaemonSetPruneIneligibleNodes, off, Alpha, "post-1.9", "Pods on nodes a DaemonSet left do not use up its budget.";
}

impl Gate {
    /// What users write.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether the gate is on when nobody says anything.
    pub const fn default_on(self) -> bool {
        self.row().on
    }

    /// How settled the gate is.
    pub const fn stage(self) -> Stage {
        self.row().stage
    }

    /// First release with this gate.
    pub const fn since(self) -> &'static str {
        self.row().since
    }

    /// What the gate turns on, in one line.
    pub const fn turns_on(self) -> &'static str {
        self.row().turns_on
    }

    /// The gate of this name.
    pub fn by_name(name: &str) -> Option<Gate> {
        Gate::ALL.iter().copied().find(|gate| gate.name() == name)
    }

    pub(super) const fn bit(self) -> u64 {
        1 << self as u32
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_defaults_hold() {
        let on: Vec<_> = Gate::ALL.iter().filter(|gate| gate.default_on()).collect();
        assert_eq!(
            on,
            [
                &Gate::PodWebhook,
                &Gate::KruiseDaemon,
                &Gate::DaemonWatchingPod,
                &Gate::PodUnavailableBudgetDeleteGate,
                &Gate::WorkloadSpread,
                &Gate::InPlaceUpdateEnvFromMetadata,
                &Gate::StatefulSetAutoDeletePVC,
                &Gate::PodProbeMarkerGate,
                &Gate::PodIndexLabel,
            ]
        );
        assert_eq!(Gate::ALL.len(), 36);
    }

    #[test]
    fn only_two_settled_gates_are_off_by_default() {
        let off: Vec<_> = Gate::ALL
            .iter()
            .filter(|gate| gate.stage() == Stage::Beta && !gate.default_on())
            .collect();
        assert_eq!(
            off,
            [&Gate::ResourcesDeletionProtection, &Gate::ResourceDistributionGate]
        );
        assert!(
            Gate::ALL
                .iter()
                .all(|gate| gate.stage() == Stage::Beta || !gate.default_on())
        );
    }

    #[test]
    fn every_gate_is_found_by_its_name_and_says_what_it_does() {
        for gate in Gate::ALL {
            assert_eq!(Gate::by_name(gate.name()), Some(*gate));
            assert!(gate.turns_on().ends_with('.'), "{gate}");
            assert!(!gate.since().is_empty(), "{gate}");
        }
        assert_eq!(Gate::by_name("podwebhook"), None);
    }
}
