//! Certificates that somebody else manages.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruise_admission::{AdmissionError, Settings, descriptor::Configuration};
use kruise_api::gates::{Gate, Gates};
use kruise_testkit::eventually::run_test;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use super::installation::{CRDS, Installation, crd};

/// What a CA injector does: writes its bundle, and the way to us, into everything.
async fn inject(installation: &Installation, port: u16, ca: &str) {
    let ca = BASE64.encode(ca);
    let config =
        |path: &str| json!({"caBundle": ca, "service": null, "url": format!("https://127.0.0.1:{port}{path}")});
    for configuration in Configuration::BOTH {
        let manifest = installation.manifest(configuration);
        let mut entries: Vec<Value> = manifest["webhooks"].as_array().unwrap().clone();
        for entry in &mut entries {
            let path = entry["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
            entry["clientConfig"] = config(&path);
        }
        let patch = json!({"webhooks": entries});
        let name = installation.name(configuration);
        let api = installation.configurations(configuration);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }
    let crds: Api<CustomResourceDefinition> = Api::all(installation.client.clone());
    for plural in CRDS {
        let name = crd(plural)["metadata"]["name"].as_str().unwrap().to_owned();
        let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": config("/convert")}}}});
        crds.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }
}

/// CA, certificate and key for `127.0.0.1` and `localhost`.
fn certificates() -> (String, String, String) {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let leaf = CertificateParams::new(names).unwrap();
    let certificate = leaf.signed_by(&key, &Issuer::new(params, ca_key)).unwrap().pem();
    (ca, certificate, key.serialize_pem())
}

#[test]
fn given_external_certificates_then_we_only_look_and_start_once_they_are_injected() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("external").await;
        let (ca, certificate, key) = certificates();
        let data = json!({"stringData": {"ca.crt": ca, "tls.crt": certificate, "tls.key": key}});
        installation
            .secrets()
            .patch("certs", &PatchParams::default(), &Patch::Merge(&data))
            .await
            .unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let gates = Gates::default().with(Gate::EnableExternalCerts, true);
        let settings = Settings {
            port,
            initialize_timeout: Duration::from_secs(2),
            ..installation.settings()
        };
        let versions = || async {
            let mut versions = vec![
                installation
                    .secrets()
                    .get("certs")
                    .await
                    .unwrap()
                    .metadata
                    .resource_version
                    .unwrap(),
            ];
            for configuration in Configuration::BOTH {
                versions.push(installation.configuration(configuration).await.version());
            }
            versions
        };

        let before = versions().await;
        match installation.start_with(settings.clone(), gates).await.err() {
            Some(AdmissionError::NotReady { reason, .. }) => assert!(reason.contains("caBundle"), "{reason}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(versions().await, before, "nothing was written");

        inject(&installation, port, &ca).await;
        let before = versions().await;
        let manager = installation.start_with(settings, gates).await.unwrap();
        assert!(
            installation
                .try_pod(true)
                .await
                .unwrap()
                .spec
                .unwrap()
                .readiness_gates
                .is_some()
        );
        assert_eq!(manager.readiness.check().await, Ok(()));
        assert_eq!(versions().await, before, "nothing was written");
        manager.stop().await;
    });
}
