//! What the tests share: a namespace, a client with faults, a writer, a cache that runs.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kruise_api::kind::Kind as _;
use kruise_api::resource::Resource;
use kruise_runtime::back_off::BackOff;
use kruise_runtime::cache::{Cache, CacheOptions, Kind, Store};
use kruise_runtime::lease::Leadership;
use kruise_runtime::shutdown::CancellationToken;
use kruise_runtime::writer::{Writer, WriterMetrics, WriterOptions};
use kruise_testkit::cluster;
use kruise_testkit::eventually::{NotYet, eventually, run_test};
use kruise_testkit::faults::Faults;
use kruise_testkit::namespace::{FreshNamespace, fresh};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use prometheus::Registry;
use serde_json::{Value, json};

/// Enough for a busy machine; a test that is well needs a small part of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) static CONFIG_MAPS: &Resource = ConfigMap::RESOURCE;
pub(crate) static PODS: &Resource = Pod::RESOURCE;

/// A test with its namespace and its faults.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: FreshNamespace,
    pub(crate) faults: Faults,
    /// A client of the program under test.
    pub(crate) program: Client,
    pub(crate) registry: Registry,
}

/// Runs a test in a world of its own.
pub(crate) fn in_world<F>(name: &'static str, test: impl FnOnce(World) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    run_test(Duration::from_mins(3), async move {
        let client = cluster::client().await;
        let faults = Faults::new(42);
        let world = World {
            namespace: fresh(&client, name).await.expect("a namespace"),
            program: faults.client().await,
            client,
            faults,
            registry: Registry::new(),
        };
        test(world).await;
    });
}

impl World {
    pub(crate) fn ns(&self) -> &str {
        self.namespace.name()
    }

    /// The program's writer, with the right to write.
    pub(crate) fn writer(&self) -> Writer {
        self.writer_with(Leadership::always(), |_| {})
    }

    pub(crate) fn writer_with(&self, leadership: Leadership, change: impl FnOnce(&mut WriterOptions)) -> Writer {
        let mut options = WriterOptions::new("kruise-test");
        change(&mut options);
        let metrics = WriterMetrics::new(&Registry::new()).expect("metrics");
        Writer::new(self.program.clone(), leadership, options, metrics).named("test-controller")
    }

    /// A writer for the test itself, which suffers no faults.
    pub(crate) fn hand(&self) -> Writer {
        let metrics = WriterMetrics::new(&Registry::new()).expect("metrics");
        let options = WriterOptions::new("hand");
        Writer::new(self.client.clone(), Leadership::always(), options, metrics)
    }

    /// An empty cache of the program that looks at this namespace only and does not wait long after failures.
    pub(crate) fn cache(&self) -> Cache {
        let options = CacheOptions {
            namespace: self.ns().to_owned(),
            back_off: BackOff::new(Duration::from_millis(20), Duration::from_millis(200)),
            ..CacheOptions::default()
        };
        Cache::new(self.program.clone(), options, &self.registry).expect("metrics")
    }

    /// The ConfigMaps of the namespace that a test made: one is always there by itself.
    pub(crate) async fn watch_config_maps(&self, kind: Kind<ConfigMap>) -> (Store<ConfigMap>, Running) {
        let mut cache = self.cache();
        let store = cache.watch(kind.fields("metadata.name!=kube-root-ca.crt"));
        let running = Running::start(cache).await;
        // What is disturbed next has to be there.
        eventually(PATIENCE, "the watch is asked for", || async {
            if self.faults.count("watch", "configmaps") > 0 {
                Ok(())
            } else {
                Err("not yet".into())
            }
        })
        .await;
        (store, running)
    }

    pub(crate) async fn create_map(&self, name: &str, data: &Value) {
        let body = config_map(self.ns(), name, data);
        self.hand().create(CONFIG_MAPS, self.ns(), body).await.expect(name);
    }

    /// Waits until a line stands in the metrics.
    pub(crate) async fn metric(&self, line: &str) {
        eventually(PATIENCE, line, || async {
            let text = kruise_runtime::metrics::render(&self.registry).expect("text");
            if text.lines().any(|each| each == line) {
                Ok(())
            } else {
                Err(NotYet::new(text))
            }
        })
        .await;
    }
}

/// A cache that runs until this is dropped.
pub(crate) struct Running {
    stop: CancellationToken,
}

impl Running {
    pub(crate) async fn start(cache: Cache) -> Self {
        let stop = CancellationToken::new();
        let synced = cache.syncing();
        tokio::spawn(cache.run(stop.clone()));
        synced.within(PATIENCE).await.expect("synced");
        Self { stop }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) fn config_map(namespace: &str, name: &str, data: &Value) -> Vec<u8> {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace }, "data": data })
        .to_string()
        .into_bytes()
}

/// The names of what is stored, in its order.
pub(crate) fn names(store: &Store<ConfigMap>) -> Vec<String> {
    store
        .list()
        .iter()
        .filter_map(|map| map.metadata.name.clone())
        .collect()
}

/// Waits until the store holds exactly these names.
pub(crate) async fn holds(store: &Store<ConfigMap>, expected: &[&str]) {
    eventually(PATIENCE, "the cache holds the objects", || async {
        let names = names(store);
        if names == expected {
            Ok(())
        } else {
            Err(format!("{names:?} instead of {expected:?}").into())
        }
    })
    .await;
}

pub(crate) async fn config() -> Config {
    let kubeconfig = Kubeconfig::read_from(cluster::kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.expect("a configuration")
}

/// What stands in a ConfigMap.
pub(crate) async fn map_data(world: &World, name: &str) -> Value {
    let api: Api<ConfigMap> = world.namespace.api();
    serde_json::to_value(api.get(name).await.expect("a ConfigMap").data).expect("JSON")
}
