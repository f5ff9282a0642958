//! Forced values: gates that make no sense without others follow them, whatever the command line says.
//!
//! Applied once, in order. The daemon's rule comes before the one that lets pre-download pull in ImagePullJob, so that
//! without the daemon neither is on.

use super::{Gate, Gates};

/// A value that a rule overrode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced {
    /// The gate that was set.
    pub gate: Gate,
    /// What it was set to.
    pub on: bool,
    /// The gate it follows.
    pub because: Gate,
    /// The value of that gate.
    pub because_on: bool,
}

/// When one of the gates `when` has the value `is`, all of `then` are set to `to`.
struct Rule {
    when: &'static [Gate],
    is: bool,
    then: &'static [Gate],
    to: bool,
}

const RULES: &[Rule] = &[
    Rule {
        when: &[Gate::PodWebhook],
        is: false,
        then: &[
            Gate::KruisePodReadinessGate,
            Gate::PodUnavailableBudgetDeleteGate,
            Gate::PodUnavailableBudgetUpdateGate,
            Gate::WorkloadSpread,
            Gate::SidecarSetPatchPodMetadataDefaultsAllowed,
            Gate::EnhancedLivenessProbe,
            Gate::EnablePodProbeMarkerOnServerless,
        ],
        to: false,
    },
    Rule {
        when: &[Gate::KruiseDaemon],
        is: false,
        then: &[
            Gate::PreDownloadImageForInPlaceUpdate,
            Gate::PreDownloadImageForDaemonSetUpdate,
            Gate::DaemonWatchingPod,
            Gate::InPlaceUpdateEnvFromMetadata,
            Gate::PodProbeMarkerGate,
            Gate::SidecarTerminator,
            Gate::ImagePullJobGate,
            Gate::EnhancedLivenessProbe,
        ],
        to: false,
    },
    Rule {
        when: &[
            Gate::PreDownloadImageForInPlaceUpdate,
            Gate::PreDownloadImageForDaemonSetUpdate,
        ],
        is: true,
        then: &[Gate::ImagePullJobGate],
        to: true,
    },
    Rule {
        when: &[Gate::ResourcesDeletionProtection],
        is: false,
        then: &[Gate::DeletionProtectionForCRDCascadingGate],
        to: false,
    },
];

/// The gates after all rules, and what the rules changed.
pub(super) fn force(mut gates: Gates) -> (Gates, Vec<Forced>) {
    let mut changed = Vec::new();
    for rule in RULES {
        let Some(because) = rule.when.iter().copied().find(|gate| gates.enabled(*gate) == rule.is) else {
            continue;
        };
        for gate in rule.then.iter().copied() {
            if gates.enabled(gate) != rule.to {
                gates = gates.with(gate, rule.to);
                changed.push(Forced {
                    gate,
                    on: rule.to,
                    because,
                    because_on: rule.is,
                });
            }
        }
    }
    (gates, changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_on() -> Gates {
        Gate::ALL
            .iter()
            .fold(Gates::default(), |gates, gate| gates.with(*gate, true))
    }

    fn turned_off(by: Gate) -> Vec<Gate> {
        let (gates, changed) = force(all_on().with(by, false));
        assert!(
            changed
                .iter()
                .all(|forced| !gates.enabled(forced.gate) && forced.because == by)
        );
        changed.into_iter().map(|forced| forced.gate).collect()
    }

    #[test]
    fn given_nothing_is_off_or_all_is_default_then_nothing_is_forced() {
        assert_eq!(force(all_on()), (all_on(), vec![]));
        assert_eq!(force(Gates::default()), (Gates::default(), vec![]));
    }

    #[test]
    fn given_no_pod_webhook_then_what_lives_in_it_is_off() {
        assert_eq!(
            turned_off(Gate::PodWebhook),
            [
                Gate::KruisePodReadinessGate,
                Gate::PodUnavailableBudgetDeleteGate,
                Gate::PodUnavailableBudgetUpdateGate,
                Gate::WorkloadSpread,
                Gate::SidecarSetPatchPodMetadataDefaultsAllowed,
                Gate::EnhancedLivenessProbe,
                Gate::EnablePodProbeMarkerOnServerless,
            ]
        );
    }

    #[test]
    fn given_no_daemon_then_what_needs_it_is_off_and_stays_off() {
        assert_eq!(
            turned_off(Gate::KruiseDaemon),
            [
                Gate::PreDownloadImageForInPlaceUpdate,
                Gate::PreDownloadImageForDaemonSetUpdate,
                Gate::DaemonWatchingPod,
                Gate::InPlaceUpdateEnvFromMetadata,
                Gate::PodProbeMarkerGate,
                Gate::SidecarTerminator,
                Gate::ImagePullJobGate,
                Gate::EnhancedLivenessProbe,
            ]
        );
    }

    #[test]
    fn given_either_pre_download_then_image_pull_jobs_are_on() {
        for gate in [
            Gate::PreDownloadImageForInPlaceUpdate,
            Gate::PreDownloadImageForDaemonSetUpdate,
        ] {
            let (gates, changed) = force(Gates::default().with(gate, true));
            assert!(gates.enabled(Gate::ImagePullJobGate));
            assert_eq!(
                changed,
                [Forced {
                    gate: Gate::ImagePullJobGate,
                    on: true,
                    because: gate,
                    because_on: true
                }]
            );
        }
    }

    #[test]
    fn given_no_deletion_protection_then_none_for_crds() {
        assert_eq!(
            turned_off(Gate::ResourcesDeletionProtection),
            [Gate::DeletionProtectionForCRDCascadingGate]
        );
    }
}
