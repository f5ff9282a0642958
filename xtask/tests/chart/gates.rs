//! Feature gates mean the same to the chart and to the processes it starts.

use kruise_api::gates::{Gate, Gates};
use serde_json::json;

use super::render::{find, get, render};

/// Texts a user may write; the chart must come to the same result as the manager.
pub(super) const TEXTS: [&str; 16] = [
    "",
    "ImagePullJobGate=true",
    "KruiseDaemon=false",
    " KruiseDaemon = false ",
    "KruiseDaemon=False,PodWebhook=true",
    "KruiseDaemon=false,KruiseDaemon=true",
    "AllBeta=false",
    "AllBeta=false,KruiseDaemon=true",
    "KruiseDaemon=1,AllBeta=0",
    "EnableExternalCerts=true",
    "AllAlpha=true",
    "AllAlpha=true,EnableExternalCerts=false",
    "EnableExternalCerts=false,AllAlpha=true,AllBeta=true",
    "AllAlpha=true,StatefulSetAutoResizePVCGate=false",
    "StatefulSetAutoResizePVCGate=T",
    "PodWebhook=false,,WorkloadSpread=false",
];

#[test]
fn given_any_text_of_gates_then_chart_and_manager_agree() {
    for text in TEXTS {
        let (gates, _) = Gates::parse(text, None).unwrap();
        let objects = render(&json!({"featureGates": text}));
        let daemon = find(&objects, "DaemonSet", "kruise-daemon").is_some();
        assert_eq!(daemon, gates.enabled(Gate::KruiseDaemon), "{text:?}: daemon");
        for (kind, name) in [("Secret", "kruise-webhook-certs"), ("ClusterRole", "kruise-certs-role")] {
            let own_certs = find(&objects, kind, name).is_some();
            assert_eq!(own_certs, !gates.enabled(Gate::EnableExternalCerts), "{text:?}: {name}");
        }
        for (kind, entry) in [("Mutating", "mpod.kb.io"), ("Validating", "vpodeviction.kb.io")] {
            let name = format!("kruise-{}-webhook-configuration", kind.to_lowercase());
            let configuration = get(&objects, &format!("{kind}WebhookConfiguration"), &name);
            let entries = configuration["webhooks"].as_array().unwrap();
            let is_there = entries.iter().any(|each| each["name"] == entry);
            assert_eq!(is_there, gates.enabled(Gate::PodWebhook), "{text:?}: {entry}");
        }
    }
}

#[test]
fn given_gates_then_both_processes_get_the_text_unchanged() {
    for text in TEXTS {
        let objects = render(&json!({"featureGates": text}));
        let flag = format!("--feature-gates={text}");
        for workload in [
            ("Deployment", "kruise-controller-manager"),
            ("DaemonSet", "kruise-daemon"),
        ] {
            if let Some(object) = find(&objects, workload.0, workload.1) {
                let args = object["spec"]["template"]["spec"]["containers"][0]["args"]
                    .as_array()
                    .unwrap();
                assert!(args.contains(&json!(flag)), "{args:?}");
            }
        }
    }
}
