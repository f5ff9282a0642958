//! Certificates are made, kept, handed out and repaired.

use std::{
    collections::BTreeSet,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruise_admission::{AdmissionError, CertStore, Settings, descriptor::Configuration};
use kruise_api::gates::{Gate, Gates};
use kruise_testkit::eventually::{NotYet, consistently, eventually, run_test};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::installation::{CRDS, Installation, PATIENCE, crd, decoded};

/// Of a CA that nobody here uses.
const FOREIGN_CA: &[u8] = include_bytes!("../../fixtures/rsa/ca-cert.pem");
const CA_KEY: &str = "ca-key.pem";
const KEYS: [&str; 6] = ["ca-cert.pem", CA_KEY, "cert.pem", "key.pem", "tls.crt", "tls.key"];

#[test]
fn given_an_empty_secret_when_the_manager_starts_then_everything_carries_its_ca() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("empty-secret").await;
        let manager = installation.start().await;

        let secret = installation.secrets().get("certs").await.unwrap();
        assert_eq!(
            secret.labels()["app.kubernetes.io/managed-by"],
            "Helm",
            "what others wrote stays"
        );
        let certificates = installation.certificates().await;
        assert_eq!(certificates.keys().map(String::as_str).collect::<Vec<_>>(), KEYS);
        assert_eq!(certificates["cert.pem"], certificates["tls.crt"]);
        assert_eq!(certificates["key.pem"], certificates["tls.key"]);
        let ca = &certificates["ca-cert.pem"];

        for configuration in Configuration::BOTH {
            let live = installation.configuration(configuration).await;
            assert!(!live.names().is_empty());
            for entry in live.entries() {
                let config = &entry["clientConfig"];
                let url = config["url"].as_str().unwrap();
                assert!(
                    url.starts_with(&format!("https://127.0.0.1:{}/", manager.admission.port())),
                    "{url}"
                );
                assert_eq!(decoded(&config["caBundle"]), *ca);
            }
        }
        for plural in CRDS {
            assert_eq!(ca_of_crd(&installation, plural).await, *ca, "{plural}");
        }
        let directory = installation.directory.path().join("certs");
        assert!(!directory.join(CA_KEY).exists(), "nobody needs it there");
        for key in KEYS.into_iter().filter(|key| *key != CA_KEY) {
            let file = directory.join(key);
            assert_eq!(std::fs::read(&file).unwrap(), certificates[key], "{key}");
            assert_eq!(
                std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
                0o600,
                "{key}"
            );
        }
        assert_eq!(manager.readiness.check().await, Ok(()));
        let expiry = manager.metric("kruise_webhook_certificate_expiry_timestamp_seconds{certificate=\"server\"}");
        let expiry = jiff::Timestamp::from_duration(jiff::SignedDuration::from_secs_f64(expiry.unwrap())).unwrap();
        assert!(expiry > jiff::Timestamp::now() + jiff::SignedDuration::from_hours(9 * 365 * 24));
        manager.stop().await;
    });
}

async fn ca_of_crd(installation: &Installation, plural: &str) -> Vec<u8> {
    let crds: Api<CustomResourceDefinition> = Api::all(installation.client.clone());
    let name = crd(plural)["metadata"]["name"].as_str().unwrap().to_owned();
    let live = serde_json::to_value(crds.get(&name).await.unwrap()).unwrap();
    decoded(&live["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"])
}

#[test]
fn given_bundles_are_overwritten_then_each_is_repaired_within_a_second() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("repair").await;
        let manager = installation.start().await;
        let ca = installation.certificates().await["ca-cert.pem"].clone();
        for round in 0..4 {
            for configuration in Configuration::BOTH {
                let mut entries = installation.configuration(configuration).await.entries();
                // The API server takes no bundle, and that of somebody else.
                let wiped = if round % 2 == 0 {
                    Value::Null
                } else {
                    json!(BASE64.encode(FOREIGN_CA))
                };
                entries[round]["clientConfig"]["caBundle"] = wiped;
                let patch = json!({"webhooks": entries});
                let api = installation.configurations(configuration);
                let name = installation.name(configuration);
                let overwritten = api
                    .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                    .await
                    .unwrap();
                let start = Instant::now();
                let bundle = &overwritten.data["webhooks"][round]["clientConfig"]["caBundle"];
                assert_ne!(decoded(bundle), ca, "it was overwritten");
                eventually(PATIENCE, "the CA bundle is back", || async {
                    let bundles = installation.configuration(configuration).await.bundles();
                    bundles
                        .iter()
                        .all(|bundle| *bundle == ca)
                        .then_some(())
                        .ok_or_else(|| NotYet::new("not all"))
                })
                .await;
                assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
            }
            let crds: Api<CustomResourceDefinition> = Api::all(installation.client.clone());
            let plural = CRDS[round];
            let name = crd(plural)["metadata"]["name"].as_str().unwrap().to_owned();
            let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
            let overwritten = crds
                .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .unwrap();
            let start = Instant::now();
            let overwritten = serde_json::to_value(overwritten).unwrap();
            let bundle = &overwritten["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"];
            assert_ne!(decoded(bundle), ca, "it was wiped");
            eventually(PATIENCE, "the CA bundle of the CRD is back", || async {
                let bundle = ca_of_crd(&installation, plural).await;
                (bundle == ca).then_some(()).ok_or_else(|| NotYet::new("not yet"))
            })
            .await;
            assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        }
        manager.stop().await;
    });
}

#[test]
fn given_entries_nobody_answers_then_they_are_dropped_and_the_rest_is_kept() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("unknown-path").await;
        let mut manifest = installation.manifest(Configuration::Mutating);
        let entries = manifest["webhooks"].as_array_mut().unwrap();
        let cloneset = entries
            .iter_mut()
            .find(|entry| entry["name"] == "mcloneset.kb.io")
            .unwrap();
        let older = "/mutate-apps-kruise-io-v1alpha1-cloneset";
        cloneset["clientConfig"]["service"]["path"] = json!(older);
        let mut unknown = cloneset.clone();
        unknown["name"] = json!("vfoo.kb.io");
        unknown["clientConfig"]["service"]["path"] = json!("/validate-foo");
        let expected: BTreeSet<_> = entries
            .iter()
            .map(|entry| entry["name"].as_str().unwrap().to_owned())
            .collect();
        entries.push(unknown);
        installation
            .apply_configuration(Configuration::Mutating, manifest)
            .await;

        let manager = installation.start().await;
        let live = installation.configuration(Configuration::Mutating).await;
        assert_eq!(live.names().into_iter().collect::<BTreeSet<_>>(), expected);
        let url = live.entry("mcloneset.kb.io").unwrap()["clientConfig"]["url"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(url.ends_with(older), "{url}");
        manager.stop().await;

        // A gate that is off takes its entries out, and brings them back when it is on again.
        let no_pods = Gates::default().with(Gate::PodWebhook, false);
        let manager = installation.start_with(installation.settings(), no_pods).await.unwrap();
        for (configuration, name) in [
            (Configuration::Mutating, "mpod.kb.io"),
            (Configuration::Validating, "vpod.kb.io"),
        ] {
            assert!(
                installation.configuration(configuration).await.entry(name).is_none(),
                "{name}"
            );
        }
        manager.stop().await;
        let manager = installation.start().await;
        for (configuration, name) in [
            (Configuration::Mutating, "mpod.kb.io"),
            (Configuration::Validating, "vpod.kb.io"),
        ] {
            assert!(
                installation.configuration(configuration).await.entry(name).is_some(),
                "{name}"
            );
        }
        manager.stop().await;
    });
}

#[test]
fn given_a_kind_is_installed_later_then_the_paths_that_need_it_become_live() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("late-crd").await;
        let crds: Api<CustomResourceDefinition> = Api::all(installation.client.clone());
        let sidecarsets = "sidecarsets.apps.kruise.io";
        crds.delete(sidecarsets, &DeleteParams::default()).await.unwrap();
        eventually(PATIENCE, "the CRD is gone", || async {
            match crds.get_opt(sidecarsets).await? {
                None => Ok(()),
                Some(_) => Err(NotYet::new("there")),
            }
        })
        .await;
        let manager = installation.start().await;
        let entry = || async {
            installation
                .configuration(Configuration::Mutating)
                .await
                .entry("mpod.kb.io")
        };
        assert_eq!(entry().await, None);
        installation.install_crds(&["sidecarsets"]).await;
        eventually(PATIENCE, "the pod entry is there", || async {
            entry().await.map(|_| ()).ok_or_else(|| NotYet::new("not there"))
        })
        .await;
        manager.stop().await;
    });
}

#[test]
fn given_a_configuration_is_missing_then_the_start_fails_in_time_and_says_which() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("missing").await;
        let validating = installation.name(Configuration::Validating);
        installation
            .configurations(Configuration::Validating)
            .delete(&validating, &DeleteParams::default())
            .await
            .unwrap();
        let settings = Settings {
            initialize_timeout: Duration::from_secs(2),
            ..installation.settings()
        };
        match installation.start_with(settings, Gates::default()).await.err() {
            Some(AdmissionError::NotReady { reason, .. }) => assert!(reason.contains(&validating), "{reason}"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn given_two_replicas_start_at_once_then_they_share_one_ca_and_do_not_fight() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("replicas").await;
        // Through a Service both replicas are called the same way.
        let settings = |directory: &str| Settings {
            host: None,
            cert_dir: installation.directory.path().join(directory),
            ..installation.settings()
        };
        let (one, two) = tokio::join!(
            installation.start_with(settings("one"), Gates::default()),
            installation.start_with(settings("two"), Gates::default()),
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        let ca = installation.certificates().await["ca-cert.pem"].clone();
        for manager in [&one, &two] {
            assert_eq!(manager.readiness.check().await, Ok(()));
        }
        for directory in ["one", "two"] {
            let file = installation.directory.path().join(directory).join("ca-cert.pem");
            eventually(PATIENCE, "both know the same CA", || async {
                let there = std::fs::read(&file).unwrap_or_default();
                (there == ca).then_some(()).ok_or_else(|| NotYet::new("another one"))
            })
            .await;
        }
        let versions = || async {
            let mut versions = Vec::new();
            for configuration in Configuration::BOTH {
                versions.push(installation.configuration(configuration).await.version());
            }
            versions
        };
        let before = versions().await;
        consistently(Duration::from_secs(2), "nobody writes any more", || async {
            let now = versions().await;
            (now == before)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{before:?} became {now:?}")))
        })
        .await;
        one.stop().await;
        two.stop().await;
    });
}

#[test]
fn given_the_directory_is_the_store_then_no_secret_is_needed_and_a_restart_keeps_the_ca() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("fs").await;
        installation
            .secrets()
            .delete("certs", &DeleteParams::default())
            .await
            .unwrap();
        let settings = Settings {
            cert_store: CertStore::Directory,
            ..installation.settings()
        };
        let file = installation.directory.path().join("certs/ca-cert.pem");
        let mut seen = BTreeSet::new();
        for _ in 0..2 {
            let manager = installation
                .start_with(settings.clone(), Gates::default())
                .await
                .unwrap();
            seen.insert(std::fs::read(&file).unwrap());
            assert!(installation.try_pod(true).await.is_ok());
            manager.stop().await;
        }
        assert_eq!(seen.len(), 1);
        assert!(installation.secrets().get_opt("certs").await.unwrap().is_none());
    });
}
