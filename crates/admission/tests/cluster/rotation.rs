//! Certificates change while the API server keeps calling.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kruise_admission::descriptor::Configuration;
use kruise_testkit::eventually::{NotYet, eventually, run_test};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinHandle};
use tokio_rustls::TlsConnector;

use super::installation::{Installation, PATIENCE};

/// Creates Pods as dry runs all the time, and keeps count of what went wrong.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    pub(super) fn start(installation: &Arc<Installation>) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let task = || {
            let (stop, done, installation) = (stop.clone(), done.clone(), installation.clone());
            async move {
                let mut wrong = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match installation.try_pod(true).await {
                        Ok(pod) if pod.spec.as_ref().unwrap().readiness_gates.is_some() => {}
                        Ok(_) => wrong.push("not changed by us".to_owned()),
                        Err(error) => wrong.push(error.to_string()),
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                wrong
            }
        };
        let tasks = (0..4).map(|_| tokio::spawn(task())).collect();
        Self { stop, done, tasks }
    }

    /// Waits until this many more calls were made.
    pub(super) async fn more(&self, count: usize) {
        let until = self.done.load(Ordering::Relaxed) + count;
        eventually(PATIENCE, "calls go on", || async {
            let done = self.done.load(Ordering::Relaxed);
            (done >= until)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{done} of {until}")))
        })
        .await;
    }

    /// Ends it; not one call may have failed.
    pub(super) async fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            assert_eq!(task.await.unwrap(), Vec::<String>::new());
        }
    }
}

impl Drop for Load {
    /// A test that fails must not go on, or the next one would never get its turn.
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The CAs of a bundle.
fn cas(bundle: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(bundle)
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Whether a client that trusts only this CA accepts what the server shows.
async fn shows_certificate_of(port: u16, ca: &CertificateDer<'static>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_ok()
}

async fn bundle(installation: &Installation) -> Vec<CertificateDer<'static>> {
    let live = installation.configuration(Configuration::Mutating).await;
    cas(&live.bundles()[0])
}

#[test]
fn given_the_secret_is_deleted_or_emptied_under_load_then_a_new_ca_takes_over_without_a_failed_call() {
    run_test(Duration::from_mins(3), async {
        let installation = Arc::new(Installation::new("rotation").await);
        let manager = installation.start().await;
        let port = manager.admission.port();
        let load = Load::start(&installation);
        load.more(50).await;
        for round in 0..2 {
            let old = bundle(&installation).await.remove(0);
            let secrets = installation.secrets();
            if round == 0 {
                secrets.delete("certs", &DeleteParams::default()).await.unwrap();
            } else {
                let empty = json!({"data": null});
                secrets
                    .patch("certs", &PatchParams::default(), &Patch::Merge(&empty))
                    .await
                    .unwrap();
            }
            let new = eventually(PATIENCE, "both CAs are handed out", || async {
                let bundle = bundle(&installation).await;
                match bundle.as_slice() {
                    [new, second] if *second == old => Ok(new.clone()),
                    other => Err(NotYet::new(format!("{} CAs", other.len()))),
                }
            })
            .await;
            eventually(PATIENCE, "the certificate of the new CA is shown", || async {
                let shown = shows_certificate_of(port, &new).await;
                shown.then_some(()).ok_or_else(|| NotYet::new("the old one is shown"))
            })
            .await;
            load.more(50).await;
            eventually(PATIENCE, "the old CA is gone", || async {
                let bundle = bundle(&installation).await;
                (bundle == [new.clone()])
                    .then_some(())
                    .ok_or_else(|| NotYet::new(format!("{} CAs", bundle.len())))
            })
            .await;
            load.more(50).await;
            assert_eq!(manager.readiness.check().await, Ok(()));
        }
        load.end().await;
        manager.stop().await;
    });
}

/// Certificates as the original makes them: RSA, and a key without wrapping. Keys for tests only.
pub(super) fn certificates_of_the_original() -> BTreeMap<String, ByteString> {
    let [ca_key, ca, key, certificate] = [
        &include_bytes!("../../fixtures/rsa/ca-key.pem")[..],
        include_bytes!("../../fixtures/rsa/ca-cert.pem"),
        include_bytes!("../../fixtures/rsa/key.pem"),
        include_bytes!("../../fixtures/rsa/cert.pem"),
    ];
    [
        ("ca-key.pem", ca_key),
        ("ca-cert.pem", ca),
        ("key.pem", key),
        ("tls.key", key),
        ("cert.pem", certificate),
        ("tls.crt", certificate),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), ByteString(value.to_vec())))
    .collect()
}

#[test]
fn given_somebody_puts_other_certificates_into_the_secret_under_load_then_no_call_fails() {
    run_test(Duration::from_mins(3), async {
        let installation = Arc::new(Installation::new("replaced").await);
        let manager = installation.start().await;
        let load = Load::start(&installation);
        load.more(50).await;
        let data = certificates_of_the_original();
        let ca = cas(&data["ca-cert.pem"].0).remove(0);
        let patch = json!({"data": data});
        installation
            .secrets()
            .patch("certs", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        eventually(PATIENCE, "the other certificate is shown", || async {
            let shown = shows_certificate_of(manager.admission.port(), &ca).await;
            shown.then_some(()).ok_or_else(|| NotYet::new("the old one is shown"))
        })
        .await;
        eventually(PATIENCE, "only the other CA is handed out", || async {
            let bundle = bundle(&installation).await;
            (bundle == [ca.clone()])
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{} CAs", bundle.len())))
        })
        .await;
        load.more(50).await;
        load.end().await;
        manager.stop().await;
    });
}

#[test]
fn given_the_certificates_of_the_original_then_they_are_used_as_they_are() {
    run_test(Duration::from_mins(2), async {
        let installation = Arc::new(Installation::new("takeover").await);
        installation
            .secrets()
            .delete("certs", &DeleteParams::default())
            .await
            .unwrap();
        let secret = Secret {
            data: Some(certificates_of_the_original()),
            ..serde_json::from_value(json!({"metadata": {"name": "certs"}, "type": "Opaque"})).unwrap()
        };
        let before = installation
            .secrets()
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
        let manager = installation.start().await;
        assert!(installation.try_pod(true).await.is_ok());
        let after = installation.secrets().get("certs").await.unwrap();
        assert_eq!(
            after.metadata.resource_version, before.metadata.resource_version,
            "nothing was written"
        );
        let live = installation.configuration(Configuration::Validating).await;
        let ca = &certificates_of_the_original()["ca-cert.pem"].0;
        assert!(live.bundles().iter().all(|bundle| bundle == ca));
        let template: Value = serde_json::from_str(&live.annotation("template")).unwrap();
        assert!(template.as_array().is_some_and(|entries| !entries.is_empty()));
        manager.stop().await;
    });
}
