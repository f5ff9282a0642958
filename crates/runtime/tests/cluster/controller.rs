//! The loop as a whole: a small controller that keeps copies of an object, through crashes, lost answers and late news.
//!
//! An owner says in `data.copies` how many copies it wants. Copies have names by chance, so making one twice would show. An observer
//! without faults sees every state and makes sure that there are never too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kruise_api::resource::Preconditions;
use kruise_runtime::back_off::BackOff;
use kruise_runtime::cache::{Cache, CacheOptions, Index, Kind, Store};
use kruise_runtime::controller::{Controller, ControllerMetrics, Outcome, priority};
use kruise_runtime::error::Error;
use kruise_runtime::expectations::{ExpectationMetrics, Expectations, Visible};
use kruise_runtime::queue::{Limits, Queue, QueueMetrics};
use kruise_runtime::resource::ObjectKey;
use kruise_runtime::shutdown::CancellationToken;
use kruise_runtime::writer::{DeleteOptions, Patch, Target, Writer, WriterMetrics, WriterOptions};
use kruise_testkit::eventually::eventually;
use kruise_testkit::faults::{Cut, Fault, Faults, When};
use kube::ResourceExt as _;
use prometheus::Registry;
use serde_json::json;

use crate::support::{CONFIG_MAPS, PATIENCE, World, in_world};

const OWNER: &str = "owner";
const SEEN: &str = "copies-seen";

const BY_OWNER: Index<ConfigMap> = Index::new("owner", |map, key| {
    map.labels().get(OWNER).map(String::as_str).into_iter().for_each(key);
});

/// The program under test: what a manager would be.
struct Program {
    store: Store<ConfigMap>,
    writer: Writer,
    expectations: Expectations,
}

struct Running {
    stop: CancellationToken,
    registry: Registry,
    controller: Option<tokio::task::JoinHandle<()>>,
}

impl Running {
    /// Ends the program. After that it makes nothing any more.
    async fn end(mut self) {
        self.stop.cancel();
        if let Some(controller) = self.controller.take() {
            controller.await.expect("the controller ends");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts the program with a client that suffers these faults.
async fn start(world: &World, faults: &Faults) -> Running {
    start_with(world, faults, WriterOptions::new("kruise-test")).await
}

async fn start_with(world: &World, faults: &Faults, writes: WriterOptions) -> Running {
    let registry = Registry::new();
    let stop = CancellationToken::new();
    let client = faults.client().await;
    let options = CacheOptions {
        namespace: world.ns().to_owned(),
        back_off: BackOff::new(Duration::from_millis(10), Duration::from_millis(100)),
        ..CacheOptions::default()
    };
    let mut cache = Cache::new(client.clone(), options, &registry).expect("metrics");
    let store = cache.watch(Kind::<ConfigMap>::of().index(&BY_OWNER));
    let synced = cache.syncing();
    tokio::spawn(cache.run(stop.clone()));
    let queue_metrics = QueueMetrics::new(&registry).expect("metrics");
    let queue = Queue::new("copies", Limits::default(), &queue_metrics);
    let writer_metrics = WriterMetrics::new(&registry).expect("metrics");
    let leadership = kruise_runtime::lease::Leadership::always();
    let program = Arc::new(Program {
        store: store.clone(),
        writer: Writer::new(client.clone(), leadership, writes, writer_metrics).named("copies"),
        expectations: Expectations::new(
            "copies",
            Duration::from_mins(5),
            &ExpectationMetrics::new(&registry).expect("metrics"),
        )
        .asking(client),
    });
    let controller = Controller::new(
        "copies",
        queue.clone(),
        3,
        &ControllerMetrics::new(&registry).expect("metrics"),
    );
    let token = stop.clone();
    let task = tokio::spawn(async move {
        // A program that cannot list never begins; that is what the test with a crash on the first call is about.
        if synced.within(PATIENCE).await.is_err() {
            return;
        }
        store.subscribe(move |event| {
            if let Some(map) = event.latest() {
                let namespace = map.namespace().unwrap_or_default();
                let name = map.labels().get(OWNER).cloned().unwrap_or_else(|| map.name_any());
                queue.add(ObjectKey::new(&namespace, &name), priority(event));
            }
        });
        controller
            .run(token, move |key| {
                let program = program.clone();
                async move { program.reconcile(&key).await }
            })
            .await;
    });
    Running {
        stop,
        registry,
        controller: Some(task),
    }
}

impl Program {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        if let Visible::NotYet { ask_after, .. } = self.expectations.check_with_server(key).await {
            return Ok(Outcome::wake_after(ask_after));
        }
        let Some(owner) = self.store.get(&key.namespace, &key.name) else {
            self.expectations.forget(key);
            return Ok(Outcome::done());
        };
        let wanted = owner.data.as_ref().and_then(|data| data.get("copies"));
        let Some(wanted) = wanted else {
            return Ok(Outcome::done());
        };
        let wanted: usize = wanted
            .parse()
            .expect("the test asks for a panic with something that is no number");
        let copies = self
            .store
            .select(&BY_OWNER, &key.name, |map| map.metadata.deletion_timestamp.is_none());
        if copies.len() < wanted {
            self.create(key, wanted - copies.len()).await?;
        }
        for extra in copies.iter().skip(wanted) {
            self.delete(key, extra).await?;
        }
        let seen = copies.len().to_string();
        if owner.annotations().get(SEEN) != Some(&seen) {
            let patch = Patch::Merge(json!({ "metadata": { "annotations": { SEEN: seen } } }));
            let target = Target::new(CONFIG_MAPS, &key.namespace, &key.name);
            let version = owner.resource_version().unwrap_or_default();
            let written = self
                .writer
                .patch(&target, patch, &Preconditions::NONE.at(&version))
                .await?;
            self.expectations.changed(key, &self.store, &key.namespace, &written);
        }
        Ok(Outcome::done())
    }

    async fn create(&self, key: &ObjectKey, number: usize) -> Result<(), Error> {
        for _ in 0..number {
            let name = format!("{}-{}", key.name, uuid::Uuid::new_v4());
            let copy = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": { OWNER: &*key.name } } });
            let result = self.writer.create(CONFIG_MAPS, &key.namespace, copy.to_string()).await;
            match &result {
                Ok(written) => self.expectations.changed(key, &self.store, &key.namespace, written),
                Err(error) if error.may_have_applied() => {
                    self.expectations
                        .maybe_created(key, &self.store, &ObjectKey::new(&key.namespace, &name));
                }
                Err(_) => {}
            }
            result?;
        }
        Ok(())
    }

    async fn delete(&self, key: &ObjectKey, copy: &ConfigMap) -> Result<(), Error> {
        let (name, uid) = (copy.name_any(), copy.uid().unwrap_or_default());
        let object = ObjectKey::new(&key.namespace, &name);
        let options = DeleteOptions {
            preconditions: Preconditions::uid(&uid),
            ..DeleteOptions::default()
        };
        let target = Target::new(CONFIG_MAPS, &key.namespace, &name);
        match self.writer.delete(&target, &options).await {
            Ok(_) => self.expectations.deleted(key, &self.store, &object, &uid),
            Err(error) => {
                if error.may_have_applied() {
                    self.expectations.maybe_deleted(key, &self.store, &object, &uid);
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Sees every state without faults.
struct Observer {
    store: Store<ConfigMap>,
    most: Arc<AtomicUsize>,
    _running: crate::support::Running,
}

impl Observer {
    async fn start(world: &World) -> Self {
        let options = CacheOptions {
            namespace: world.ns().to_owned(),
            ..CacheOptions::default()
        };
        let mut cache = Cache::new(world.client.clone(), options, &Registry::new()).expect("metrics");
        let store = cache.watch(Kind::<ConfigMap>::of().index(&BY_OWNER));
        let most = Arc::new(AtomicUsize::new(0));
        let (view, seen) = (store.clone(), most.clone());
        store.subscribe(move |event| {
            if let Some(owner) = event.new.and_then(|map| map.labels().get(OWNER)) {
                seen.fetch_max(view.by(&BY_OWNER, owner).len(), Ordering::Relaxed);
            }
        });
        Self {
            store,
            most,
            _running: crate::support::Running::start(cache).await,
        }
    }

    /// Waits until an owner has what it wants, and says so.
    async fn settled(&self, world: &World, owner: &str, copies: usize) {
        eventually(Duration::from_mins(1), "the owner has its copies", || async {
            let map = self.store.get(world.ns(), owner).ok_or("no owner")?;
            let seen = map.annotations().get(SEEN).cloned().unwrap_or_default();
            let there = self.store.by(&BY_OWNER, owner).len();
            if there == copies && seen == copies.to_string() {
                Ok(())
            } else {
                Err(format!("{owner}: {there} copies, {seen:?} seen, {copies} wanted").into())
            }
        })
        .await;
    }

    fn assert_never_more_than(&self, copies: usize) {
        let most = self.most.load(Ordering::Relaxed);
        assert!(most <= copies, "there were {most} copies, {copies} were wanted");
    }
}

#[test]
fn given_a_crash_after_every_single_write_then_the_end_is_the_same_and_nothing_is_made_twice() {
    in_world("controller-crash", |world| async move {
        const COPIES: usize = 4;
        let observer = Observer::start(&world).await;
        // Four copies and the note of them; the note may have to be written twice.
        for number in 1..=COPIES as u64 + 1 {
            let owner = format!("owner{number}");
            world.create_map(&owner, &json!({ "copies": COPIES.to_string() })).await;
            let faults = Faults::new(number);
            faults.crash_after_writes(number);
            let first = start(&world, &faults).await;
            let crash = tokio::time::timeout(PATIENCE, faults.until_crashed()).await;
            crash.unwrap_or_else(|_| panic!("no crash after {number} writes"));
            drop(first);
            let second = start(&world, &Faults::new(0)).await;
            observer.settled(&world, &owner, COPIES).await;
            // Nobody else looks after the next owner.
            second.end().await;
        }
        observer.assert_never_more_than(COPIES);
    });
}

#[test]
fn given_conflicts_failures_lost_answers_late_and_lost_watches_then_the_end_is_right_and_there_are_never_too_many() {
    in_world("controller-storm", |world| async move {
        const OWNERS: usize = 8;
        const COPIES: usize = 5;
        let observer = Observer::start(&world).await;
        let faults = Faults::new(2024);
        faults.inject(When::writes().with_probability(0.15), Fault::Refuse(409));
        faults.inject(When::writes().with_probability(0.05), Fault::Refuse(429));
        faults.inject(When::writes().with_probability(0.05), Fault::Refuse(500));
        faults.inject(When::writes().with_probability(0.10), Fault::LoseReply);
        faults.delay_watches(Duration::from_millis(50));
        let _running = start(&world, &faults).await;
        for owner in 0..OWNERS {
            world
                .create_map(&format!("o{owner}"), &json!({ "copies": COPIES.to_string() }))
                .await;
            let cut = if owner % 2 == 0 { Cut::Expired } else { Cut::Closed };
            faults.cut_watches(None, cut);
        }
        for owner in 0..OWNERS {
            observer.settled(&world, &format!("o{owner}"), COPIES).await;
        }
        observer.assert_never_more_than(COPIES);
        for owner in 0..OWNERS {
            let patch = Patch::Merge(json!({ "data": { "copies": "2" } }));
            let name = format!("o{owner}");
            let target = Target::new(CONFIG_MAPS, world.ns(), &name);
            world
                .hand()
                .patch(&target, patch, &Preconditions::NONE)
                .await
                .expect("patched");
        }
        for owner in 0..OWNERS {
            observer.settled(&world, &format!("o{owner}"), 2).await;
        }
        assert!(faults.count("create", "configmaps") as usize >= OWNERS * COPIES);
    });
}

#[test]
fn given_a_create_that_went_into_the_void_and_a_quiet_namespace_then_it_is_made_again_within_seconds() {
    in_world("controller-void", |world| async move {
        let observer = Observer::start(&world).await;
        let faults = Faults::new(1);
        faults.inject(When::verb("create").nth(1), Fault::Unanswered);
        let writes = WriterOptions {
            deadline: Duration::from_secs(2),
            ..WriterOptions::new("kruise-test")
        };
        world.create_map("o", &json!({ "copies": "1" })).await;
        let _running = start_with(&world, &faults, writes).await;
        let began = Instant::now();
        observer.settled(&world, "o", 1).await;
        // Otherwise it would wait for the server to say something about this namespace, which it does once a minute.
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert_eq!(
            faults.count("create", "configmaps"),
            1,
            "the first did not reach the server"
        );
        assert!(faults.count("get", "configmaps") >= 1);
        observer.assert_never_more_than(1);
    });
}

#[test]
fn given_a_steady_state_then_nothing_is_written_any_more() {
    in_world("controller-steady", |world| async move {
        let observer = Observer::start(&world).await;
        let faults = Faults::new(1);
        world.create_map("o", &json!({ "copies": "3" })).await;
        let _running = start(&world, &faults).await;
        observer.settled(&world, "o", 3).await;
        let writes = faults.writes();
        // A new list of everything is a good occasion to do something superfluous.
        faults.cut_watches(None, Cut::Expired);
        let lists = faults.count("list", "configmaps");
        eventually(PATIENCE, "it is listed again", || async {
            if faults.count("list", "configmaps") > lists {
                Ok(())
            } else {
                Err("not yet".into())
            }
        })
        .await;
        world.create_map("later", &json!({ "copies": "1" })).await;
        observer.settled(&world, "later", 1).await;
        let for_later = 2..=3;
        assert!(
            for_later.contains(&(faults.writes() - writes)),
            "{writes} and then {}",
            faults.writes()
        );
    });
}

#[test]
fn given_a_reconcile_that_panics_then_the_others_work_and_it_is_counted() {
    in_world("controller-panic", |world| async move {
        let observer = Observer::start(&world).await;
        world.create_map("bad", &json!({ "copies": "not a number" })).await;
        world.create_map("good", &json!({ "copies": "2" })).await;
        let running = start(&world, &Faults::new(1)).await;
        observer.settled(&world, "good", 2).await;
        eventually(PATIENCE, "the panics are counted, and it is tried again", || async {
            let text = kruise_runtime::metrics::render(&running.registry).expect("text");
            let line = "controller_runtime_reconcile_panics_total{controller=\"copies\"} ";
            let panics = text
                .lines()
                .find_map(|each| each.strip_prefix(line))
                .map_or(0, |each| each.parse().expect("a number"));
            if panics >= 3 {
                Ok(())
            } else {
                Err(format!("{panics} panics").into())
            }
        })
        .await;
        let patch = Patch::Merge(json!({ "data": { "copies": "1" } }));
        let target = Target::new(CONFIG_MAPS, world.ns(), "bad");
        world
            .hand()
            .patch(&target, patch, &Preconditions::NONE)
            .await
            .expect("mended");
        observer.settled(&world, "bad", 1).await;
    });
}
