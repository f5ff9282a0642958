//! Images are pulled ahead of time, as the NodeImage of this node asks.
//!
//! - Each tag that is asked for has a worker of its own. With `--max-workers-for-pull-image` only so many pull at once; the others wait.
//! - The NodeImage's status tells how far each tag is, together with the version that was asked for. It is written when something has
//!   changed, at most five times at once and then every two seconds, and twice a day in any case. A long status costs the API server
//!   much, so as long as something is under way one with many tags is written less often.
//! - A tag that is no longer asked for, or is asked for anew, ends the pull that is under way.
//! - Success is an event on the NodeImage. Failure is one on the NodeImage and on every job that asked for the image.
//!
//! One task owns all of this; workers send it their progress.

mod default_keys;
mod keyring;
mod plugins;
mod pull;
mod secrets;
mod sync;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kruise_api::names::component::source;
use kruise_api::names::event;
use kruise_api::nodeimage::v1beta1::NodeImage;
use kruise_api::nodeimage::{ImageTagStatus, NodeImageStatus};
use kruise_api::resource::Preconditions;
use kruise_runtime::back_off::BackOff;
use kruise_runtime::cache::Store;
use kruise_runtime::error::{Class, Error};
use kruise_runtime::events::{Recorder, Regarding};
use kruise_runtime::queue::limit::Bucket;
use kruise_runtime::shutdown::CancellationToken;
use kruise_runtime::writer::{Patch, Target, Writer};
use serde_json::json;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::Flags;
use crate::platform::Platform;
use default_keys::DefaultKeys;
use plugins::Plugins;
use pull::{PullContext, Task};
use secrets::Secrets;
use sync::{ImageKey, Known, Step};

/// Reports at once, and one more each time this has passed.
const REPORTS_AT_ONCE: u32 = 5;
const BETWEEN_REPORTS: Duration = Duration::from_secs(2);
/// While something is under way, the next report waits this long for each of the tags it tells of, but not longer than two seconds.
const PER_TAG: Duration = Duration::from_millis(10);
/// The report is written again after this, and up to an hour more.
const REFRESH: Duration = Duration::from_hours(12);
const REFRESH_SPREAD: Duration = Duration::from_hours(1);
/// Pauses after a report that could not be written.
const BACK_OFF: BackOff = BackOff::new(Duration::from_millis(500), Duration::from_secs(50));

/// The one who owns all pulls.
pub(crate) struct Puller {
    node: String,
    images: Store<NodeImage>,
    context: Arc<PullContext>,
    writer: Writer,
    recorder: Recorder,
    slots: Option<Arc<Semaphore>>,
    tags: BTreeMap<ImageKey, Tag>,
    /// Whose tags these are: another NodeImage of the same name begins anew.
    uid: String,
    report_progress: mpsc::UnboundedSender<Progress>,
    progress: mpsc::UnboundedReceiver<Progress>,
    reports: Bucket,
    failures: u32,
    last: Option<Reported>,
}

/// A tag that is asked for. Dropping it ends the work.
struct Tag {
    known: Known,
    worker: Option<AbortHandle>,
}

impl Drop for Tag {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.abort();
        }
    }
}

/// How far a worker is.
struct Progress {
    key: ImageKey,
    status: ImageTagStatus,
}

/// The last report that was written.
struct Reported {
    status: NodeImageStatus,
    version: u64,
    /// When the next one may be written while something is under way.
    next: Instant,
    refresh: Instant,
}

impl Puller {
    pub(crate) fn new(platform: &Platform, images: Store<NodeImage>, flags: &Flags) -> Self {
        let plugins = Plugins::read(Path::new(&flags.plugin_config_file), Path::new(&flags.plugin_bin_dir));
        let (report_progress, progress) = mpsc::unbounded_channel();
        let most = usize::try_from(flags.max_workers_for_pull_image).unwrap_or(0);
        Self {
            node: platform.node().to_owned(),
            images,
            context: Arc::new(PullContext {
                runtime: platform.runtimes().first().clone(),
                secrets: Secrets::new(platform.client().clone()),
                keys: DefaultKeys::new(plugins),
            }),
            writer: platform.writer("image-puller"),
            recorder: platform.recorder(source::DAEMON_IMAGE_PULLER),
            slots: (most > 0).then(|| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))),
            tags: BTreeMap::new(),
            uid: String::new(),
            report_progress,
            progress,
            reports: Bucket::new(1.0 / BETWEEN_REPORTS.as_secs_f64(), REPORTS_AT_ONCE),
            failures: 0,
            last: None,
        }
    }

    /// Works until `stop`; then pulls end, and begin again with the next daemon.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        let changed = Arc::new(Notify::new());
        let wake = changed.clone();
        self.images.subscribe(move |event| {
            let spec =
                |image: Option<&Arc<NodeImage>>| image.map(|image| (image.metadata.uid.clone(), image.spec.clone()));
            if event.old.is_none() || spec(event.old) != spec(event.new) {
                wake.notify_one();
            }
        });
        loop {
            let pause = self.look().await;
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = changed.notified() => {}
                Some(progress) = self.progress.recv() => self.on_progress(progress),
                () = tokio::time::sleep(pause) => {}
            }
            while let Ok(progress) = self.progress.try_recv() {
                self.on_progress(progress);
            }
        }
    }

    fn on_progress(&mut self, progress: Progress) {
        let Some(tag) = self.tags.get_mut(&progress.key) else {
            return;
        };
        // What an ended worker still said is of no interest.
        if tag.known.working && tag.known.status.version == progress.status.version {
            tag.known.working = progress.status.completion_time.is_none();
            tag.known.status = progress.status;
        }
    }

    /// Brings workers in line with what is asked for and reports. Gives the time after which to look again.
    async fn look(&mut self) -> Duration {
        let Some(image) = self.images.get("", &self.node) else {
            self.tags.clear();
            self.last = None;
            return REFRESH;
        };
        let uid = image.metadata.uid.clone().unwrap_or_default();
        if self.uid != uid {
            self.tags.clear();
            self.last = None;
            self.uid = uid;
        }
        self.set_to_work(&image);
        if let Some(wait) = self.too_early() {
            return wait;
        }
        let known = self.tags.iter().map(|(key, tag)| (key, &tag.known.status));
        let status = sync::report(&image, known);
        match self.report(&image, status).await {
            Ok(next) => {
                self.failures = 0;
                next
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let pause = BACK_OFF.after(self.failures);
                if !matches!(error.class(), Class::Conflict | Class::Gone) {
                    tracing::warn!(?pause, "the state of images cannot be reported: {error}");
                }
                pause.mul_f64(1.0 + 0.1 * fastrand::f64())
            }
        }
    }

    /// How long to gather more before the next report.
    fn too_early(&self) -> Option<Duration> {
        let wait = self.last.as_ref()?.next.checked_duration_since(Instant::now())?;
        self.tags.values().any(|tag| tag.known.working).then_some(wait)
    }

    fn set_to_work(&mut self, image: &NodeImage) {
        let is_asked_for = |(name, tag): &ImageKey| {
            let image = image.spec.images.get(name);
            image.is_some_and(|image| image.tags.iter().any(|asked| asked.tag == *tag))
        };
        self.tags.retain(|key, _| is_asked_for(key));
        for (name, entry) in &image.spec.images {
            for asked in &entry.tags {
                let key = (name.clone(), asked.tag.clone());
                let reported = sync::reported(image, name, &asked.tag);
                let tag = match sync::step(asked, reported, self.tags.get(&key).map(|tag| &tag.known)) {
                    Step::Keep => continue,
                    Step::TakeOver(status) => Tag {
                        known: Known { status, working: false },
                        worker: None,
                    },
                    Step::Begin(status) => Tag {
                        known: Known { status, working: true },
                        worker: Some(self.begin(image, Task::new(name, entry, asked))),
                    },
                };
                self.tags.insert(key, tag);
            }
        }
    }

    /// A worker for one tag.
    fn begin(&self, image: &NodeImage, task: Task) -> AbortHandle {
        let (context, slots, report_progress, recorder) = (
            self.context.clone(),
            self.slots.clone(),
            self.report_progress.clone(),
            self.recorder.clone(),
        );
        let about = about(self.images.resource(), image);
        let key = (task.name.clone(), task.asked.tag.clone());
        let work = async move {
            // Held until the end, pauses between attempts included. An ended worker does not wait for one any more.
            let _slot = match slots {
                Some(slots) => slots.acquire_owned().await.ok(),
                None => None,
            };
            let begun = pull::begun(&task.asked, Timestamp::now());
            let status = begun.clone();
            if report_progress
                .send(Progress {
                    key: key.clone(),
                    status,
                })
                .is_err()
            {
                return;
            }
            // Not even a mistake of ours leaves a tag in the air.
            let pulled = AssertUnwindSafe(context.pull(&task)).catch_unwind().await;
            let result = pulled.unwrap_or_else(|_| Err("the pull failed within the daemon, see its log".to_owned()));
            announce(&recorder, &about, &task, &result);
            let status = pull::ended(begun, result, Timestamp::now());
            let _ = report_progress.send(Progress { key, status });
        };
        tokio::spawn(work).abort_handle()
    }

    /// Writes the report if there is something new. Gives the time after which to look again.
    async fn report(&mut self, image: &NodeImage, status: NodeImageStatus) -> Result<Duration, Error> {
        let now = Instant::now();
        let seen = self.images.version(image).resource_version;
        let (shown, refresh) = match &self.last {
            // The cache does not show yet what we wrote.
            Some(last) if last.version > seen => (Some(&last.status), last.refresh),
            Some(last) => (image.status.as_ref(), last.refresh),
            None => (image.status.as_ref(), now + next_refresh()),
        };
        // No report is as good as one of nothing.
        let same = shown.map_or_else(|| status == NodeImageStatus::default(), |shown| *shown == status);
        if same && now < refresh {
            if self.last.is_none() {
                self.last = Some(Reported {
                    status,
                    version: seen,
                    next: now,
                    refresh,
                });
            }
            return Ok(refresh - now);
        }
        if !self.reports.try_take(now.into_std()) {
            return Ok(BETWEEN_REPORTS);
        }
        let target = Target::new(self.images.resource(), "", &self.node).status();
        let patch = Patch::Json(vec![json!({ "op": "add", "path": "/status", "value": status })]);
        let written = self
            .writer
            .patch(&target, patch, &Preconditions::uid(&self.uid))
            .await?;
        let refresh = Instant::now() + next_refresh();
        self.last = Some(Reported {
            status,
            version: written.resource_version.parse().unwrap_or(0),
            next: now + gathering(self.tags.len()),
            refresh,
        });
        Ok(refresh - Instant::now())
    }
}

/// How long to gather changes of so many tags.
fn gathering(tags: usize) -> Duration {
    PER_TAG
        .saturating_mul(u32::try_from(tags).unwrap_or(u32::MAX))
        .min(BETWEEN_REPORTS)
}

fn next_refresh() -> Duration {
    REFRESH + REFRESH_SPREAD.mul_f64(fastrand::f64())
}

fn about(resource: &kruise_api::resource::Resource, image: &NodeImage) -> Regarding {
    let (name, uid) = (&image.metadata.name, &image.metadata.uid);
    Regarding::new(
        resource,
        "",
        name.as_deref().unwrap_or_default(),
        uid.as_deref().unwrap_or_default(),
    )
}

/// Tells people how a pull ended.
fn announce(recorder: &Recorder, about: &Regarding, task: &Task, result: &Result<String, String>) {
    let image = task.reference();
    match result {
        Ok(_) => {
            tracing::info!(image, "the image is there");
            recorder.normal(about, event::PULL_IMAGE_SUCCEED, format!("Image {image}"));
        }
        Err(message) => {
            tracing::warn!(image, "given up: {message}");
            let message = format!("Image {image} {message}");
            for owner in &task.asked.owner_references {
                recorder.warning(&owner_of(owner), event::PULL_IMAGE_FAILED, message.clone());
            }
            recorder.warning(about, event::PULL_IMAGE_FAILED, message);
        }
    }
}

fn owner_of(owner: &ObjectReference) -> Regarding {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Regarding {
        api_version: text(&owner.api_version),
        kind: text(&owner.kind),
        namespace: text(&owner.namespace),
        name: text(&owner.name),
        uid: text(&owner.uid),
        resource_version: text(&owner.resource_version),
        field_path: text(&owner.field_path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_more_tags_then_changes_are_gathered_for_longer() {
        let gathered = [0, 1, 20, 199, 200, usize::MAX].map(|tags| gathering(tags).as_millis());
        assert_eq!(gathered, [0, 10, 200, 1990, 2000, 2000]);
    }
}
