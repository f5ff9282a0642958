//! What a chart would install, and the admission part of a manager on top of it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::{Pod, Secret, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kruise_admission::{
    Admission, AdmissionError, CertStore, Dependencies, Installed, Readiness, Settings,
    descriptor::{self, Configuration, webhooks},
};
use kruise_api::gates::Gates;
use kruise_runtime::{
    cache::{Cache, CacheOptions, Stores},
    lease::Leadership,
    writer::{Writer, WriterMetrics, WriterOptions},
};
use kruise_testkit::{
    builders::{Fixture as _, cloneset, pod},
    cluster,
    eventually::{NotYet, eventually},
    features::{Feature, lacks},
    namespace::{self, FreshNamespace},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use prometheus::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// What the tests convert, and what makes the paths of the pod webhooks live.
pub(super) const CRDS: [&str; 4] = ["clonesets", "sidecarsets", "statefulsets", "podunavailablebudgets"];

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Everything but the manager.
pub(super) struct Installation {
    pub(super) client: Client,
    pub(super) namespace: FreshNamespace,
    pub(super) directory: TempDir,
    /// What is deleted at the end.
    crds: &'static [&'static str],
    _turn: MutexGuard<'static, ()>,
}

impl Installation {
    /// CRDs, both webhook configurations and an empty Secret.
    pub(super) async fn new(test: &str) -> Self {
        Self::of(test, &CRDS).await
    }

    /// The same, with these CRDs.
    pub(super) async fn of(test: &str, crds: &'static [&'static str]) -> Self {
        let mut this = Self::bare(test).await;
        this.crds = crds;
        this.install_crds(crds).await;
        for configuration in Configuration::BOTH {
            this.apply_configuration(configuration, this.manifest(configuration))
                .await;
        }
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "certs", "labels": {"app.kubernetes.io/managed-by": "Helm"}}, "type": "Opaque",
        }))
        .unwrap();
        this.secrets().create(&PostParams::default(), &secret).await.unwrap();
        this
    }

    /// A namespace, and nothing in it.
    pub(super) async fn bare(test: &str) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let client = cluster::client().await;
        let namespace = namespace::fresh(&client, test).await.unwrap();
        Self {
            client,
            namespace,
            directory: tempfile::tempdir().unwrap(),
            crds: &CRDS,
            _turn: turn,
        }
    }

    pub(super) async fn install_crds(&self, plurals: &[&str]) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for plural in plurals {
            let crd = crd(plural);
            let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
            let params = PatchParams::apply("tests").force();
            crds.patch(&name, &params, &Patch::Apply(&crd)).await.unwrap();
            eventually(PATIENCE, "the CRD is established", || async {
                let status = crds.get(&name).await?.status;
                let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
                let established = conditions
                    .iter()
                    .any(|condition| condition.type_ == "Established" && condition.status == "True");
                established.then_some(()).ok_or_else(|| NotYet::new("not established"))
            })
            .await;
        }
    }

    pub(super) fn name(&self, configuration: Configuration) -> String {
        format!("{}-{}", configuration.kind().to_lowercase(), self.namespace.name())
    }

    /// The configuration as the chart has it, but for this namespace only.
    pub(super) fn manifest(&self, configuration: Configuration) -> Value {
        let installation = descriptor::Installation {
            namespace: self.namespace.name(),
            service: "hooks",
            timeout: json!(10),
        };
        let here = json!({"matchLabels": {"kubernetes.io/metadata.name": self.namespace.name()}});
        let entries: Vec<Value> = webhooks(configuration)
            .map(|webhook| {
                let mut entry = webhook.manifest(&installation);
                entry["namespaceSelector"] = here.clone();
                // As the chart does: older API servers do not know the field.
                if entry.get("matchConditions").is_some() && lacks(Feature::MatchConditions) {
                    entry.as_object_mut().unwrap().remove("matchConditions");
                }
                entry
            })
            .collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": configuration.kind(),
            "metadata": {"name": self.name(configuration), "annotations": {"template": ""}},
            "webhooks": entries,
        })
    }

    pub(super) fn configurations(&self, configuration: Configuration) -> Api<DynamicObject> {
        let resource = match configuration {
            Configuration::Mutating => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            Configuration::Validating => ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        };
        Api::all_with(self.client.clone(), &resource)
    }

    pub(super) async fn apply_configuration(&self, configuration: Configuration, manifest: Value) {
        let params = PatchParams::apply("tests").force();
        let api = self.configurations(configuration);
        api.patch(&self.name(configuration), &params, &Patch::Apply(&manifest))
            .await
            .unwrap();
    }

    pub(super) async fn configuration(&self, configuration: Configuration) -> Live {
        Live(
            self.configurations(configuration)
                .get(&self.name(configuration))
                .await
                .unwrap(),
        )
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        self.namespace.api()
    }

    /// The entries of the certificate Secret.
    pub(super) async fn certificates(&self) -> BTreeMap<String, Vec<u8>> {
        let data = self.secrets().get("certs").await.unwrap().data.unwrap_or_default();
        data.into_iter().map(|(key, ByteString(value))| (key, value)).collect()
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            namespace: self.namespace.name().to_owned(),
            secret_name: "certs".to_owned(),
            port: 0,
            host: Some("127.0.0.1".to_owned()),
            cert_dir: self.directory.path().join("certs"),
            cert_store: CertStore::Secret,
            overlap: Duration::from_secs(1),
            linger: Duration::ZERO,
            mutating_configuration: self.name(Configuration::Mutating),
            validating_configuration: self.name(Configuration::Validating),
            ..Settings::default()
        }
    }

    pub(super) async fn start(&self) -> Manager {
        self.start_with(self.settings(), Gates::default()).await.unwrap()
    }

    /// As in a cluster: called through a Service. The Service leads to an address of this machine.
    pub(super) async fn start_behind_service(&self) -> Manager {
        let settings = Settings {
            host: None,
            service_name: "hooks".to_owned(),
            ..self.settings()
        };
        let manager = self.start_with(settings, Gates::default()).await.unwrap();
        let port = manager.admission.port();
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"}, "spec": {
            "ports": [{"port": 443, "targetPort": port}],
        }});
        let params = PatchParams::apply("tests").force();
        let services: Api<Service> = self.namespace.api();
        services.patch("hooks", &params, &Patch::Apply(&service)).await.unwrap();
        kruise_testkit::service::publish(&self.namespace, "hooks", "hooks", port)
            .await
            .unwrap();
        // The API server learns of the Service a moment later.
        eventually(PATIENCE, "calls arrive", || async {
            self.try_pod(true).await?;
            Ok(())
        })
        .await;
        manager
    }

    pub(super) async fn start_with(&self, settings: Settings, gates: Gates) -> Result<Manager, AdmissionError> {
        let (readiness, registry, stop) = (Readiness::default(), Registry::new(), CancellationToken::new());
        let mut cache = Cache::new(self.client.clone(), CacheOptions::default(), &registry)?;
        let installed = Installed::watch(&mut cache, &settings);
        tokio::spawn(cache.run(stop.clone()));
        let options = WriterOptions::new("kruise-manager");
        let writes = WriterMetrics::new(&registry)?;
        let given = Dependencies {
            client: self.client.clone(),
            stores: Stores::default(),
            installed,
            writer: Writer::new(self.client.clone(), Leadership::always(), options, writes),
            audit: None,
            budgets: None,
            explainer: None,
            spreads: None,
            gates,
            registry: registry.clone(),
            readiness: readiness.clone(),
        };
        let admission = Admission::start(settings, given, stop.clone()).await?;
        Ok(Manager {
            admission,
            readiness,
            registry,
            stop,
        })
    }

    /// Asks the API server to create a Pod as a dry run; webhooks are called all the same.
    pub(super) async fn try_pod(&self, of_ours: bool) -> kube::Result<Pod> {
        let web = cloneset("web").uid("0").json();
        let pod = pod("a").image("nginx:1.25");
        let pod = if of_ours { pod.owned_by(&web) } else { pod };
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        self.namespace.api::<Pod>().create(&params, &pod.build()).await
    }

    /// Objects of a kind of ours, in one version.
    pub(super) fn objects(&self, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "apps.kruise.io".into(),
            version: version.into(),
            api_version: format!("apps.kruise.io/{version}"),
            kind: kind.into(),
            plural: plural.into(),
        };
        Api::namespaced_with(self.client.clone(), self.namespace.name(), &resource)
    }
}

impl Drop for Installation {
    /// Takes away what belongs to the whole cluster; a dead webhook would stand in everybody's way.
    fn drop(&mut self) {
        let names = Configuration::BOTH.map(|configuration| (configuration, self.name(configuration)));
        let plurals = self.crds;
        let clean_up = async move {
            let client = cluster::client().await;
            let now = DeleteParams::default();
            for (configuration, name) in names {
                let _ = match configuration {
                    Configuration::Mutating => {
                        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
                        api.delete(&name, &now).await.map(|_| ())
                    }
                    Configuration::Validating => {
                        let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
                        api.delete(&name, &now).await.map(|_| ())
                    }
                };
            }
            let crds: Api<CustomResourceDefinition> = Api::all(client);
            let no_webhook = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
            for plural in plurals {
                let name = crd(plural)["metadata"]["name"].as_str().unwrap().to_owned();
                let _ = crds
                    .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&no_webhook))
                    .await;
                let _ = crds.delete(&name, &now).await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        std::thread::spawn(move || runtime.block_on(clean_up)).join().unwrap();
    }
}

/// A running manager, as far as admission goes.
pub(super) struct Manager {
    pub(super) admission: Admission,
    pub(super) readiness: Readiness,
    pub(super) registry: Registry,
    stop: CancellationToken,
}

impl Manager {
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.admission.wait().await.unwrap();
    }

    pub(super) fn metric(&self, line: &str) -> Option<f64> {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap();
        text.lines()
            .find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
    }
}

/// A webhook configuration as it is.
pub(super) struct Live(DynamicObject);

impl Live {
    pub(super) fn entries(&self) -> Vec<Value> {
        self.0.data["webhooks"].as_array().unwrap().clone()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.entries()
            .iter()
            .map(|entry| entry["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(super) fn entry(&self, name: &str) -> Option<Value> {
        self.entries().into_iter().find(|entry| entry["name"] == name)
    }

    pub(super) fn version(&self) -> String {
        self.0.resource_version().unwrap()
    }

    pub(super) fn annotation(&self, name: &str) -> String {
        self.0.annotations()[name].clone()
    }

    /// The CA bundles of all entries; an entry without one counts as empty.
    pub(super) fn bundles(&self) -> Vec<Vec<u8>> {
        self.entries()
            .iter()
            .map(|entry| decoded(&entry["clientConfig"]["caBundle"]))
            .collect()
    }
}

pub(super) fn decoded(base64: &Value) -> Vec<u8> {
    BASE64.decode(base64.as_str().unwrap_or_default()).unwrap()
}

/// A CRD of ours as it is installed.
pub(super) fn crd(plural: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/crds");
    let file = ["apps", "policy"]
        .map(|group| folder.join(format!("{group}.kruise.io_{plural}.yaml")))
        .into_iter()
        .find(|file| file.exists())
        .unwrap();
    serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}
