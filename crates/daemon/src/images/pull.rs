//! One image is pulled: attempts, pauses, deadlines, credentials.
//!
//! - There are `backoffLimit` attempts after the first, with pauses of 1, 2, 4, … 30 seconds between them. Each takes `timeoutSeconds` at
//!   most; all together end with `activeDeadlineSeconds`, counted from when this daemon began.
//! - With `IfNotPresent` an image that the node has is not pulled. Any other word pulls.
//! - Credentials of the image's Secrets come first, then those of the daemon's files and plugins; the first with which the pull
//!   succeeds wins. When there are credentials and all of them are refused, nobody asks anonymously: the answer would hide the cause.
//! - A name that is no image's name, or a tag that is none, fails at once.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kruise_api::names::annotation::{PULLING_IMAGE_BY, PULLING_IMAGE_BY_DAEMON};
use kruise_api::nodeimage::v1beta1::{ImageSpec, SecretReference};
use kruise_api::nodeimage::{ImagePullPhase, ImageTagPullPolicy, ImageTagSpec, ImageTagStatus};
use kruise_api::shared::image_pull::{ImagePullPolicy, SandboxConfig};
use kruise_core::shared::image_name::{Image, reference};
use kruise_core::shared::seconds::truncate;
use kruise_cri::{Credentials, PullRequest, Runtime};
use kruise_runtime::back_off::BackOff;
use tokio::time::Instant;

use super::default_keys::DefaultKeys;
use super::keyring::Keyring;
use super::secrets::Secrets;

const ATTEMPT: u64 = 600;
const RETRIES: i32 = 3;
const BACK_OFF: BackOff = BackOff::new(Duration::from_secs(1), Duration::from_secs(30));
/// A deadline further away than this is none.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// What pulls share.
pub(super) struct PullContext {
    pub(super) runtime: Runtime,
    pub(super) secrets: Secrets,
    pub(super) keys: DefaultKeys,
}

/// What is to be pulled, and how.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) asked: ImageTagSpec,
    pub(super) secrets: Vec<SecretReference>,
    pub(super) sandbox: SandboxConfig,
}

impl Task {
    pub(super) fn new(name: &str, image: &ImageSpec, asked: &ImageTagSpec) -> Self {
        Self {
            name: name.to_owned(),
            asked: asked.clone(),
            secrets: image.pull_secrets.clone(),
            sandbox: image.sandbox_config.clone().unwrap_or_default(),
        }
    }

    /// The reference that is sent: the familiar name, so that the runtime resolves it as it would for a Pod.
    pub(super) fn reference(&self) -> String {
        reference(&self.name, &self.asked.tag)
    }
}

/// How long and how often to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    attempts: u32,
    attempt: Duration,
    all: Duration,
}

fn limits(policy: Option<&ImageTagPullPolicy>) -> Limits {
    let retries = policy.and_then(|policy| policy.backoff_limit);
    let retries = retries.filter(|retries| *retries >= 0).unwrap_or(RETRIES);
    let seconds = policy.and_then(|policy| policy.timeout_seconds).map(i64::from);
    let all = policy.and_then(|policy| policy.active_deadline_seconds);
    let positive = |seconds: i64| u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    Limits {
        attempts: retries.unsigned_abs().saturating_add(1),
        attempt: Duration::from_secs(seconds.and_then(positive).unwrap_or(ATTEMPT)),
        all: all.map_or(FOREVER, |all| {
            Duration::from_secs(positive(all).unwrap_or(0)).min(FOREVER)
        }),
    }
}

/// The status when a pull begins.
pub(super) fn begun(asked: &ImageTagSpec, now: Timestamp) -> ImageTagStatus {
    ImageTagStatus {
        tag: asked.tag.clone(),
        phase: ImagePullPhase::Pulling,
        version: asked.version,
        start_time: Some(Time(truncate(now))),
        ..ImageTagStatus::default()
    }
}

/// The status when it has ended: with the ID of the image, or with what went wrong.
pub(super) fn ended(begun: ImageTagStatus, result: Result<String, String>, now: Timestamp) -> ImageTagStatus {
    let completion_time = Some(Time(truncate(now)));
    match result {
        Ok(image_id) => ImageTagStatus {
            phase: ImagePullPhase::Succeeded,
            progress: 100,
            image_id,
            completion_time,
            ..begun
        },
        Err(message) => ImageTagStatus {
            phase: ImagePullPhase::Failed,
            message,
            completion_time,
            ..begun
        },
    }
}

impl PullContext {
    /// Pulls until it is there or there is no hope. Gives the ID of the image.
    pub(super) async fn pull(&self, task: &Task) -> Result<String, String> {
        let wanted = Image::parse(&task.reference()).map_err(|error| error.to_string())?;
        let limits = limits(task.asked.pull_policy.as_ref());
        let end = Instant::now() + limits.all;
        let mut failures = 0;
        loop {
            let left = end.saturating_duration_since(Instant::now()).min(limits.attempt);
            if left.is_zero() {
                return Err("pulling exceeds the activeDeadlineSeconds".to_owned());
            }
            let attempt = tokio::time::timeout(left, self.attempt(task, &wanted, left)).await;
            let error = match attempt {
                Ok(Ok(id)) => return Ok(self.image_id(task, id).await),
                Ok(Err(error)) => error,
                Err(_) => format!("pulling image {} is canceled", task.reference()),
            };
            failures += 1;
            tracing::warn!(image = task.reference(), failures, "not pulled: {error}");
            if failures >= limits.attempts {
                return Err(error);
            }
            self.secrets.forget(&task.secrets);
            tokio::time::sleep(BACK_OFF.after(failures)).await;
        }
    }

    /// Gives what the runtime says the image is.
    async fn attempt(&self, task: &Task, wanted: &Image, left: Duration) -> Result<String, String> {
        if task.asked.image_pull_policy == ImagePullPolicy::IfNotPresent {
            let image = self.runtime.image(&task.reference()).await;
            if let Some(image) = image.map_err(|error| error.to_string())? {
                return Ok(image.id);
            }
        }
        let mut request = request(task);
        let candidates = self.candidates(task, wanted).await?;
        if candidates.is_empty() {
            return self.send(&request, left).await;
        }
        let mut refusals = Vec::new();
        for credentials in candidates {
            request.credentials = Some(credentials);
            match self.send(&request, left).await {
                Ok(id) => return Ok(id),
                Err(error) => {
                    if !refusals.contains(&error) {
                        refusals.push(error);
                    }
                }
            }
        }
        match refusals.as_slice() {
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    async fn send(&self, request: &PullRequest, left: Duration) -> Result<String, String> {
        let answer = self.runtime.pull_image(request, left).await;
        answer.map_err(|error| {
            if error.is_timeout() {
                format!("pulling image {} is canceled", request.image)
            } else {
                format!("Failed to pull image reference \"{}\": {error}", request.image)
            }
        })
    }

    async fn candidates(&self, task: &Task, wanted: &Image) -> Result<Vec<Credentials>, String> {
        let repository = wanted.repository();
        let mut ring = Keyring::default();
        for secret in self.secrets.of(&task.secrets).await {
            ring.add_secret(&secret).map_err(|error| error.to_string())?;
        }
        let mut candidates = ring.find(&repository);
        for other in self.keys.find(&repository).await {
            if !candidates.contains(&other) {
                candidates.push(other);
            }
        }
        Ok(candidates)
    }

    /// The ID of an image as it is reported. Some runtimes answer a pull with the image's name instead of its ID: they are asked once more.
    /// Empty when the runtime does not tell, which is no failure.
    async fn image_id(&self, task: &Task, answered: String) -> String {
        let id = if answered.starts_with("sha256:") {
            answered
        } else {
            let image = self.runtime.image(&task.reference()).await.ok().flatten();
            image.map(|image| image.id).unwrap_or_default()
        };
        if id.is_empty() {
            id
        } else {
            format!("{}@{id}", task.name)
        }
    }
}

fn request(task: &Task) -> PullRequest {
    let mut annotations = task.sandbox.annotations.clone();
    annotations.insert(PULLING_IMAGE_BY.to_owned(), PULLING_IMAGE_BY_DAEMON.to_owned());
    PullRequest {
        image: task.reference(),
        credentials: None,
        labels: task.sandbox.labels.clone(),
        annotations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_policy_then_odd_values_become_sensible_ones() {
        let policy = |timeout, retries, deadline| ImageTagPullPolicy {
            timeout_seconds: timeout,
            backoff_limit: retries,
            active_deadline_seconds: deadline,
            ..ImageTagPullPolicy::default()
        };
        let of = |policy: Option<ImageTagPullPolicy>| {
            let limits = limits(policy.as_ref());
            (limits.attempts, limits.attempt.as_secs(), limits.all)
        };
        let seconds = Duration::from_secs;
        assert_eq!(of(None), (4, 600, FOREVER));
        assert_eq!(of(Some(policy(Some(5), Some(0), Some(9)))), (1, 5, seconds(9)));
        assert_eq!(of(Some(policy(Some(0), Some(-1), Some(0)))), (4, 600, seconds(0)));
        assert_eq!(of(Some(policy(Some(-7), Some(1), Some(-1)))), (2, 600, seconds(0)));
        assert_eq!(of(Some(policy(None, Some(i32::MAX), Some(i64::MAX)))).0, 1 << 31);
    }

    #[test]
    fn given_failures_then_pauses_double_up_to_half_a_minute() {
        let pauses: Vec<_> = [1, 2, 3, 4, 5, 6, 99]
            .map(|failures| BACK_OFF.after(failures).as_secs())
            .into();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn given_a_task_then_the_request_says_who_pulls_and_for_which_sandbox() {
        let task = Task {
            name: "nginx".to_owned(),
            asked: ImageTagSpec {
                tag: "sha256:12".to_owned(),
                ..ImageTagSpec::default()
            },
            secrets: Vec::new(),
            sandbox: SandboxConfig {
                labels: [("l".to_owned(), "1".to_owned())].into(),
                annotations: [("a".to_owned(), "2".to_owned())].into(),
            },
        };
        let request = request(&task);
        assert_eq!(request.image, "nginx@sha256:12");
        assert_eq!(request.labels["l"], "1");
        assert_eq!(request.annotations.len(), 2);
        assert_eq!(request.annotations[PULLING_IMAGE_BY], PULLING_IMAGE_BY_DAEMON);
    }
}
