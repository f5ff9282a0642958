use super::*;

fn gates(flag: &str) -> Gates {
    Gates::parse(flag, None).unwrap().0
}

fn on(flag: &str, gate: Gate) -> bool {
    gates(flag).enabled(gate)
}

#[test]
fn given_no_flag_then_every_gate_has_its_default() {
    for empty in ["", " ", ",", " , "] {
        assert_eq!(Gates::parse(empty, None), Ok((Gates::default(), vec![])), "{empty:?}");
    }
}

#[test]
fn given_settings_then_they_win_over_defaults_and_blanks_do_not_matter() {
    let parsed = gates(" CloneSetShortHash = true ,PodIndexLabel=false,");
    assert!(parsed.enabled(Gate::CloneSetShortHash));
    assert!(!parsed.enabled(Gate::PodIndexLabel));
}

#[test]
fn given_a_gate_twice_then_the_last_setting_counts() {
    assert!(!on(
        "CloneSetShortHash=true,CloneSetShortHash=false",
        Gate::CloneSetShortHash
    ));
    assert!(on(
        "CloneSetShortHash=false,CloneSetShortHash=true",
        Gate::CloneSetShortHash
    ));
}

#[test]
fn given_a_boolean_in_any_published_spelling_then_it_is_taken() {
    for text in ["1", "t", "T", "true", "TRUE", "True"] {
        assert!(
            on(&format!("CloneSetShortHash={text}"), Gate::CloneSetShortHash),
            "{text}"
        );
    }
    for text in ["0", "f", "F", "false", "FALSE", "False"] {
        assert!(!on(&format!("PodIndexLabel={text}"), Gate::PodIndexLabel), "{text}");
    }
}

#[test]
fn given_an_unknown_gate_then_the_error_names_it_and_lists_what_is_known() {
    let error = Gates::parse("NoSuchGate=true", None).unwrap_err();
    assert_eq!(
        error,
        GateError::Unknown {
            name: "NoSuchGate".into()
        }
    );
    let text = error.to_string();
    for expected in [
        "\"NoSuchGate\"",
        "AllAlpha",
        "AllBeta",
        "CloneSetShortHash",
        "WorkloadSpread",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    for gate in ["podwebhook=true", "=true", "NoSuchGate=perhaps"] {
        assert!(
            matches!(Gates::parse(gate, None), Err(GateError::Unknown { .. })),
            "{gate}"
        );
    }
}

#[test]
fn given_a_value_that_is_no_boolean_then_the_error_says_what_to_write() {
    for flag in [
        "PodWebhook=yes",
        "PodWebhook=",
        "PodWebhook=tRUE",
        "PodWebhook=true=true",
    ] {
        let error = Gates::parse(flag, None).unwrap_err();
        assert!(matches!(error, GateError::NotBoolean { .. }), "{flag}");
        assert!(error.to_string().contains("PodWebhook=true"), "{error}");
    }
    assert!(matches!(
        Gates::parse("AllAlpha=on", None),
        Err(GateError::NotBoolean { .. })
    ));
    assert_eq!(
        Gates::parse("PodWebhook", None),
        Err(GateError::NoValue {
            name: "PodWebhook".into()
        })
    );
}

#[test]
fn given_all_alpha_then_every_alpha_gate_and_only_those_follow() {
    let parsed = gates("AllAlpha=true,ResourcesDeletionProtection=true");
    for gate in Gate::ALL.iter().copied().filter(|gate| gate.stage() == Stage::Alpha) {
        assert!(parsed.enabled(gate), "{gate}");
    }
    assert!(
        !parsed.enabled(Gate::ResourceDistributionGate),
        "a Beta gate keeps its default"
    );
    assert_eq!(gates("AllAlpha=false"), Gates::default());
}

#[test]
fn given_all_beta_then_every_beta_gate_follows() {
    let parsed = gates("AllBeta=true");
    for gate in Gate::ALL.iter().copied().filter(|gate| gate.stage() == Stage::Beta) {
        assert!(parsed.enabled(gate), "{gate}");
    }
    assert!(
        !parsed.enabled(Gate::CloneSetShortHash),
        "an Alpha gate keeps its default"
    );
    let none = gates("AllBeta=false");
    assert!(Gate::ALL.iter().all(|gate| !none.enabled(*gate)));
}

#[test]
fn given_a_gate_of_its_own_then_it_wins_over_its_stage_wherever_it_stands() {
    for flag in [
        "AllAlpha=true,CloneSetShortHash=false",
        "CloneSetShortHash=false,AllAlpha=true",
    ] {
        assert!(!on(flag, Gate::CloneSetShortHash), "{flag}");
        assert!(on(flag, Gate::SidecarTerminator), "{flag}");
    }
}

#[test]
fn given_all_alpha_then_external_certs_and_no_defaults_are_on_too_unless_switched_off() {
    for gate in [Gate::EnableExternalCerts, Gate::TemplateNoDefaults] {
        assert!(on("AllAlpha=true", gate), "{gate}");
        let installed = "AllAlpha=true,AllBeta=true,EnableExternalCerts=false,TemplateNoDefaults=false";
        assert!(!on(installed, gate), "{gate}");
    }
}

#[test]
fn given_the_name_of_the_readme_then_it_is_taken_for_the_gate_and_noticed() {
    let (parsed, notices) = Gates::parse("ForceDeleteTimeoutExpectationFeatureGate=true", None).unwrap();
    assert!(parsed.enabled(Gate::ForceDeleteTimeoutExpectationGate));
    assert_eq!(notices.len(), 1);
    assert!(
        notices[0]
            .to_string()
            .contains("is called ForceDeleteTimeoutExpectationGate")
    );
    assert_eq!(
        Gates::parse("ForceDeleteTimeoutExpectationGate=true", None),
        Ok((parsed, vec![]))
    );
}

#[test]
fn given_a_legacy_list_without_sidecar_set_then_the_pod_webhook_is_off_by_default() {
    let pod_webhook = |flag, list| Gates::parse(flag, Some(list)).unwrap().0.enabled(Gate::PodWebhook);
    assert!(pod_webhook("", ""), "an empty variable is no list");
    assert!(pod_webhook("", "CloneSet,SidecarSet"));
    assert!(pod_webhook("", "CloneSet, SidecarSet"));
    assert!(!pod_webhook("", "CloneSet,StatefulSet"));
    assert!(pod_webhook("PodWebhook=true", "CloneSet"), "an explicit setting wins");
    assert!(
        pod_webhook("AllBeta=true", "CloneSet"),
        "so does the setting of its stage"
    );
    assert!(!pod_webhook("PodWebhook=false", "SidecarSet"));
    let (parsed, _) = Gates::parse("", Some("CloneSet")).unwrap();
    assert!(!parsed.enabled(Gate::WorkloadSpread), "what follows from it is forced");
}

#[test]
fn given_no_daemon_then_pre_download_does_not_bring_image_pull_jobs_back() {
    let (parsed, notices) = Gates::parse("KruiseDaemon=false,PreDownloadImageForInPlaceUpdate=true", None).unwrap();
    assert!(!parsed.enabled(Gate::ImagePullJobGate));
    assert!(!parsed.enabled(Gate::PreDownloadImageForInPlaceUpdate));
    let texts = notices.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        texts.contains(
            &"feature gate PreDownloadImageForInPlaceUpdate is set to false because KruiseDaemon is false".to_owned()
        ),
        "{texts:?}"
    );
}

#[test]
fn given_pre_download_for_daemon_sets_then_image_pull_jobs_are_on_even_when_switched_off() {
    assert!(on("PreDownloadImageForDaemonSetUpdate=true", Gate::ImagePullJobGate));
    assert!(on(
        "PreDownloadImageForDaemonSetUpdate=true,ImagePullJobGate=false",
        Gate::ImagePullJobGate
    ));
}

#[test]
fn given_no_pod_webhook_then_workload_spread_is_off_even_when_switched_on() {
    assert!(!on("PodWebhook=false", Gate::WorkloadSpread));
    assert!(!on("PodWebhook=false,WorkloadSpread=true", Gate::WorkloadSpread));
}

#[test]
fn given_no_deletion_protection_then_crds_are_not_protected_either() {
    assert!(!on(
        "DeletionProtectionForCRDCascadingGate=true",
        Gate::DeletionProtectionForCRDCascadingGate
    ));
    let both = "ResourcesDeletionProtection=true,DeletionProtectionForCRDCascadingGate=true";
    assert!(on(both, Gate::DeletionProtectionForCRDCascadingGate));
}
