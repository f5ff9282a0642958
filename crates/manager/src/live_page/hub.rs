//! Changes of the cache on their way to readers.
//!
//! - While nobody reads, nothing is noted. A change is a name in a set: an object that changes ten times in a quarter of a second is sent once.
//! - What changed is looked up, encoded once for all who see the same table or workload, and put into their queues, which hold shared memory and are short. Who does
//!   not take what is in theirs is cut off, and comes back to begin anew.
//! - A storm is sent in pieces: what does not fit into one is sent a quarter of a second later, as it is then.
//! - When the revision that a workload asks for changes, all of its Pods look otherwise: its readers begin anew.

use super::{
    access::Right,
    frames::{Frame, Message},
    sources::{Around, Frames, Source, Subject, Table},
};
use kruise_api::{kind::Kind as _, pod::Pod, podunavailablebudget::v1beta1::PodUnavailableBudget};
use kruise_runtime::{
    cache::{Event, Origin},
    shutdown::CancellationToken,
};
use parking_lot::Mutex;
use prometheus::{IntCounter, IntGauge, Registry};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    time::sleep,
};

/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(250);
/// Changed objects, and changed Pods, that are sent at once.
const MOST: usize = 500;
/// Messages that wait for a reader.
const QUEUE: usize = 8;
/// Readers at the same time.
pub(super) const MOST_READERS: usize = 100;

/// What a reader looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    Table(Table),
    Workload(SourceObject),
}

/// An object of one of the sources, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceObject {
    pub(super) source: usize,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What changed since the last time.
#[derive(Default)]
struct Marked {
    objects: BTreeSet<SourceObject>,
    /// Pods as they were before.
    pods: BTreeMap<(String, String), Arc<Pod>>,
    /// Namespaces with other revisions.
    revisions: BTreeSet<String>,
}

/// Those who look at one thing.
#[derive(Default)]
struct Audience {
    queues: Vec<mpsc::Sender<Message>>,
    /// The workload as it was last sent.
    subject: Option<Subject>,
}

/// What readers and the cache have in common.
pub(super) struct Hub {
    pub(super) sources: Vec<Arc<dyn Source>>,
    pub(super) around: Around,
    marked: Mutex<Marked>,
    changed: Notify,
    audiences: Mutex<BTreeMap<Topic, Audience>>,
    readers: AtomicUsize,
    open: IntGauge,
    cut_off: IntCounter,
}

/// A place among the readers.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) inbox: mpsc::Receiver<Message>,
    hub: Weak<Hub>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.readers.fetch_sub(1, Ordering::Relaxed);
            hub.open.dec();
        }
    }
}

impl Hub {
    pub(super) fn new(
        sources: Vec<Arc<dyn Source>>,
        around: Around,
        registry: &Registry,
    ) -> prometheus::Result<Arc<Self>> {
        let open = IntGauge::new("kruise_ui_readers", "Readers of the live page.")?;
        registry.register(Box::new(open.clone()))?;
        let cut_off = IntCounter::new(
            "kruise_ui_cut_off_total",
            "Readers of the live page that took too little of what changed, and had to begin anew.",
        )?;
        registry.register(Box::new(cut_off.clone()))?;
        let hub = Arc::new(Self {
            sources,
            around,
            marked: Mutex::default(),
            changed: Notify::new(),
            audiences: Mutex::default(),
            readers: AtomicUsize::new(0),
            open,
            cut_off,
        });
        hub.listen();
        Ok(hub)
    }

    /// Notes changes of the cache from now on.
    fn listen(self: &Arc<Self>) {
        for (number, source) in self.sources.iter().enumerate() {
            let hub = Arc::downgrade(self);
            source.subscribe(Box::new(move |namespace, name| {
                mark(&hub, |marked| {
                    marked.objects.insert(SourceObject {
                        source: number,
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                    });
                });
            }));
        }
        let hub = Arc::downgrade(self);
        self.around.pods.subscribe(move |event| {
            if let Some(pod) = latest(event) {
                mark(&hub, |marked| {
                    let name = (pod.metadata.namespace.to_string(), pod.metadata.name.to_string());
                    marked.pods.entry(name).or_insert_with(|| pod.clone());
                });
            }
        });
        let hub = Arc::downgrade(self);
        self.around.revisions.subscribe(move |event| {
            if let Some(revision) = latest(event) {
                mark(&hub, |marked| {
                    marked.revisions.insert(revision.metadata.namespace.to_string());
                });
            }
        });
    }

    /// Gives a reader a place; nothing when there are too many. What changes from now on is in its inbox.
    pub(super) fn seat(self: &Arc<Self>, topic: &Topic) -> Option<Seat> {
        let free = |readers: usize| (readers < MOST_READERS).then_some(readers + 1);
        self.readers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
            .ok()?;
        self.open.inc();
        let (queue, inbox) = mpsc::channel(QUEUE);
        let mut audiences = self.audiences.lock();
        let audience = audiences.entry(topic.clone()).or_default();
        audience.queues.retain(|queue| !queue.is_closed());
        if audience.queues.is_empty() {
            // Nobody has followed it: what was known of it may be old.
            audience.subject = None;
        }
        audience.queues.push(queue);
        Some(Seat {
            inbox,
            hub: Arc::downgrade(self),
        })
    }

    /// All that a reader begins with; nothing when there is no such workload.
    pub(super) fn frames(&self, topic: &Topic) -> Option<Frames> {
        match topic {
            Topic::Table(table) => {
                let sources: Vec<_> = self.sources_of(*table).cloned().collect();
                Some(Box::new(sources.into_iter().flat_map(|source| source.frames())))
            }
            Topic::Workload(name) => {
                let subject = self.subject(name)?;
                let mut audiences = self.audiences.lock();
                if let Some(audience) = audiences.get_mut(topic) {
                    audience.subject.get_or_insert_with(|| subject.clone());
                }
                Some(subject.frames(&self.around))
            }
        }
    }

    pub(super) fn sources_of(&self, table: Table) -> impl Iterator<Item = &Arc<dyn Source>> {
        self.sources.iter().filter(move |source| source.table() == table)
    }

    pub(super) fn subject(&self, name: &SourceObject) -> Option<Subject> {
        self.sources.get(name.source)?.subject(&name.namespace, &name.name)
    }

    /// Sends changes until `stop`; then all readers are let go.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), Infallible> {
        let sending = async {
            loop {
                self.changed.notified().await;
                sleep(GATHER).await;
                self.send();
            }
        };
        tokio::select! {
            () = sending => {}
            () = stop.cancelled() => {}
        }
        self.audiences.lock().clear();
        Ok(())
    }

    /// Sends what has changed.
    pub(super) fn send(&self) {
        let marked = self.take();
        let mut audiences = self.audiences.lock();
        audiences.retain(|topic, audience| {
            audience.queues.retain(|queue| !queue.is_closed());
            if audience.queues.is_empty() {
                return false;
            }
            let message = match topic {
                Topic::Table(table) => Message::Frames(self.lines(*table, &marked.objects).into()),
                Topic::Workload(name) => self.page(name, audience, &marked),
            };
            if matches!(&message, Message::Frames(frames) if frames.is_empty()) {
                return true;
            }
            audience.queues.retain(|queue| {
                let taken = queue.try_send(message.clone()).is_ok();
                if !taken {
                    self.cut_off.inc();
                }
                taken
            });
            !audience.queues.is_empty()
        });
    }

    /// Takes as much as is sent at once.
    fn take(&self) -> Marked {
        let mut marked = self.marked.lock();
        let taken = std::mem::take(&mut *marked);
        let Marked {
            mut objects, mut pods, ..
        } = taken;
        if let Some(first) = objects.iter().nth(MOST).cloned() {
            marked.objects = objects.split_off(&first);
        }
        if let Some((first, _)) = pods.iter().nth(MOST) {
            let first = first.clone();
            marked.pods = pods.split_off(&first);
        }
        if !marked.objects.is_empty() || !marked.pods.is_empty() {
            self.changed.notify_one();
        }
        Marked {
            objects,
            pods,
            revisions: taken.revisions,
        }
    }

    /// The lines of a table that have changed.
    fn lines(&self, table: Table, changed: &BTreeSet<SourceObject>) -> Vec<Frame> {
        let line = |object: &SourceObject| {
            let source = self.sources.get(object.source)?;
            let (namespace, name) = (&object.namespace, &object.name);
            (source.table() == table).then(|| {
                let line = source.frame(namespace, name);
                line.unwrap_or_else(|| Frame::gone(source.right(), namespace, name))
            })
        };
        changed.iter().filter_map(line).collect()
    }

    /// What has changed on the page of a workload.
    fn page(&self, name: &SourceObject, audience: &mut Audience, marked: &Marked) -> Message {
        let mut frames = Vec::new();
        if marked.objects.contains(name) || audience.subject.is_none() {
            let now = self.subject(name);
            let before = std::mem::replace(&mut audience.subject, now);
            match (&before, &audience.subject) {
                (Some(before), Some(now)) if now.shows_other_pods(before) => return Message::Again,
                (_, Some(now)) => {
                    frames.push(now.frame());
                    frames.extend(now.history(&self.around.revisions));
                }
                (_, None) => {
                    let right = self.sources.get(name.source).map(|source| source.right());
                    frames.extend(right.map(|right| Frame::gone(right, &name.namespace, &name.name)));
                }
            }
        }
        let Some(subject) = &audience.subject else {
            return Message::Frames(frames.into());
        };
        if marked.revisions.contains(&name.namespace) {
            frames.extend(subject.history(&self.around.revisions));
        }
        let is_budget = |changed: &&SourceObject| {
            let source = self.sources.get(changed.source);
            source.is_some_and(|source| source.right().resource == PodUnavailableBudget::RESOURCE)
                && changed.namespace == name.namespace
        };
        let budgets: BTreeSet<String> = marked
            .objects
            .iter()
            .filter(is_budget)
            .map(|budget| budget.name.clone())
            .collect();
        if !budgets.is_empty() {
            frames.extend(subject.budgets(&self.around, Some(&budgets)));
        }
        for ((namespace, name), last) in &marked.pods {
            let now = self.around.pods.get(namespace, name);
            match now.filter(|pod| subject.has(pod)) {
                Some(pod) => frames.push(subject.pod(&pod)),
                None if subject.has(last) => {
                    frames.push(Frame::gone(Right::list(Pod::RESOURCE), namespace, name));
                }
                None => {}
            }
        }
        Message::Frames(frames.into())
    }
}

/// The object of an event that tells of a change: as it was when it has gone.
fn latest<'a, K>(event: &'a Event<'_, K>) -> Option<&'a Arc<K>> {
    // Of an object that moves away from a workload it counts what it was.
    (event.origin != Origin::Resync)
        .then(|| event.old.or(event.new))
        .flatten()
}

fn mark(hub: &Weak<Hub>, note: impl FnOnce(&mut Marked)) {
    let Some(hub) = hub.upgrade() else { return };
    if hub.readers.load(Ordering::Relaxed) == 0 {
        return;
    }
    note(&mut hub.marked.lock());
    hub.changed.notify_one();
}
