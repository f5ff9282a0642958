//! The only door through which anything is written to the cluster.
//!
//! - Writes are patches, creates, deletes and evictions of plain JSON. Nothing is read into a type and written back, because a
//!   type drops the fields it does not know.
//! - Each call has a deadline. A call without an answer is an error that says so: [`Error::may_have_applied`].
//! - Nothing is written without the right to write ([`Leadership`]), which is looked at right before the call is sent, and no call
//!   outlasts the lease.
//! - Nothing is tried again here. The error has a class, and the queue decides.
//! - How many calls are under way at the same time follows what the server can take, and no controller is left without; `--rest-config-qps` and
//!   `--rest-config-burst` limit each controller on top when they are given.
//! - In a dry run the server checks everything and stores nothing.

mod metrics;
mod pace;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, header};
use http_body_util::BodyExt as _;
use kruise_api::resource::{Preconditions, Resource};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

pub use metrics::WriterMetrics;
pub use request::{DeleteOptions, Patch, Target};

use crate::error::{Error, with_causes};
use crate::lease::Leadership;
use crate::queue::limit::Bucket;
use pace::{Answered, Floor, Pace};
use request::Call;

/// How a writer works.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Our name among the managers of an object's fields, and the beginning of the user agent.
    pub component: String,
    /// Longest time for a call.
    pub deadline: Duration,
    /// Calls per second and at once, for each controller, when the user asked for a limit.
    pub rate: Option<(f64, u32)>,
    /// Let the server check everything and store nothing.
    pub dry_run: bool,
}

impl WriterOptions {
    /// The usual: half a minute (admission webhooks of others may need that), no rate, no dry run.
    pub fn new(component: &str) -> Self {
        Self {
            component: component.to_owned(),
            deadline: Duration::from_secs(30),
            rate: None,
            dry_run: false,
        }
    }
}

/// The object as it is after a write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Written {
    /// Its name, which the server may have chosen.
    pub name: String,
    pub uid: String,
    /// The version that this write made; empty when the answer did not say (deletions without a grace period).
    pub resource_version: String,
}

/// Writes for one controller. Clones are the same writer.
#[derive(Clone)]
pub struct Writer(Arc<Inner>);

struct Inner {
    client: Client,
    leadership: Leadership,
    options: WriterOptions,
    controller: String,
    agent: HeaderValue,
    bucket: Option<Mutex<Bucket>>,
    pace: Arc<Pace>,
    floor: Floor,
    metrics: WriterMetrics,
}

impl Writer {
    /// A writer for a whole process; give each controller its own with [`Writer::named`].
    pub fn new(client: Client, leadership: Leadership, options: WriterOptions, metrics: WriterMetrics) -> Self {
        let pace = Arc::new(Pace::new());
        metrics.limit.set(pace.limit() as i64);
        Self(Arc::new(Inner {
            client,
            leadership,
            controller: String::new(),
            agent: agent(&options.component),
            bucket: bucket(&options),
            options,
            pace,
            floor: Floor::new(),
            metrics,
        }))
    }

    /// The same door under the name of a controller, with a rate of its own.
    #[must_use]
    pub fn named(&self, controller: &str) -> Self {
        let this = &self.0;
        Self(Arc::new(Inner {
            client: this.client.clone(),
            leadership: this.leadership.clone(),
            options: this.options.clone(),
            controller: controller.to_owned(),
            agent: agent(&format!("{}/{controller}", this.options.component)),
            bucket: bucket(&this.options),
            pace: this.pace.clone(),
            floor: Floor::new(),
            metrics: this.metrics.clone(),
        }))
    }

    /// Creates an object.
    ///
    /// # Errors
    ///
    /// Fails with the class that the server's answer has, see [`crate::error`]. Without an answer [`Error::may_have_applied`] says whether the
    /// write may have happened.
    pub async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: impl Into<Vec<u8>>,
    ) -> Result<Written, Error> {
        self.call(Call::create(resource, namespace, object.into())).await
    }

    /// Changes an object, or a part of it, if the conditions hold.
    ///
    /// # Errors
    ///
    /// As [`Writer::create`]; a condition that does not hold is [`Conflict`](crate::error::Class::Conflict).
    pub async fn patch(&self, target: &Target<'_>, patch: Patch, conditions: &Preconditions) -> Result<Written, Error> {
        self.call(Call::patch(target, patch, conditions)).await
    }

    /// Replaces an object as a whole.
    ///
    /// Only for what may not be patched (the published rights allow no patch of Secrets) and only with JSON that was read from the
    /// server, so that no field is lost; the resourceVersion in it is the condition.
    pub async fn replace(&self, target: &Target<'_>, object: impl Into<Vec<u8>>) -> Result<Written, Error> {
        self.call(Call::replace(target, object.into())).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    ///
    /// As [`Writer::patch`]; an object that is gone already is [`Gone`](crate::error::Class::Gone).
    pub async fn delete(&self, target: &Target<'_>, options: &DeleteOptions<'_>) -> Result<Written, Error> {
        self.call(Call::delete(target, options)).await
    }

    /// Asks for a Pod to be deleted, as far as disruption budgets allow; their refusal is [`Denied`](crate::error::Class::Denied).
    pub async fn evict(&self, pod: &Target<'_>, options: &DeleteOptions<'_>) -> Result<Written, Error> {
        self.call(Call::evict(pod, options)).await
    }

    async fn call(&self, call: Result<Call, Error>) -> Result<Written, Error> {
        let call = call?;
        let (verb, resource) = (call.verb, call.resource.clone());
        let this = &self.0;
        let wait = this
            .bucket
            .as_ref()
            .map(|bucket| bucket.lock().take(Instant::now().into_std()));
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        let slot = this.pace.begin(&this.floor).await;
        let began = Instant::now();
        let result = self.send(call).await;
        let took = began.elapsed();
        let answered = match &result {
            Err(error) if error.is_overload() => Answered::Overloaded(error.retry_after()),
            Err(error) if !error.was_answered() && !error.is_timeout() => Answered::Nothing,
            _ => Answered::In((verb, resource.clone()), took),
        };
        slot.end(answered);
        this.metrics.limit.set(this.pace.limit() as i64);
        let label = result.as_ref().map_or_else(|error| error.class().as_str(), |_| "ok");
        let measured = result
            .as_ref()
            .map_or_else(Error::was_answered, |_| true)
            .then_some(took);
        this.metrics.wrote(&this.controller, verb, &resource, label, measured);
        result
    }

    async fn send(&self, call: Call) -> Result<Written, Error> {
        let this = &self.0;
        // Held until the answer is there: the lease is not given back before.
        let permit = this.leadership.permit()?;
        let now = Instant::now();
        let end = permit.ends().map_or(now + this.options.deadline, |ends| {
            ends.min(now + this.options.deadline)
        });
        let left = end.saturating_duration_since(now);
        let call = if this.options.dry_run { call.dry_run() } else { call };
        let request = call.request(&this.options.component, left, this.agent.clone())?;
        match tokio::time::timeout_at(end, exchange(&this.client, request)).await {
            Ok(result) => result,
            Err(_) => Err(Error::timed_out(format!(
                "the API server did not answer within {left:?}"
            ))),
        }
    }
}

async fn exchange(client: &Client, request: Request<Body>) -> Result<Written, Error> {
    let lost = |error: kube::Error| Error::lost(with_causes(&error));
    let answer = client.send(request).await.map_err(lost)?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.map_err(lost)?.to_bytes();
    if head.status.is_success() {
        // Whatever the answer looks like, the write has happened.
        return Ok(serde_json::from_slice::<Reply>(&body).unwrap_or_default().written());
    }
    let retry_after = head
        .headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    let retry_after = retry_after
        .and_then(|seconds| seconds.parse().ok())
        .map(Duration::from_secs);
    Err(Error::from_answer(head.status.as_u16(), &body, retry_after))
}

/// The object, or a `Status` about it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Reply {
    metadata: Written,
    details: Written,
}

impl Reply {
    fn written(self) -> Written {
        if self.metadata.uid.is_empty() {
            self.details
        } else {
            self.metadata
        }
    }
}

fn agent(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("kruise"))
}

fn bucket(options: &WriterOptions) -> Option<Mutex<Bucket>> {
    options.rate.map(|(rate, burst)| Mutex::new(Bucket::new(rate, burst)))
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({:?})", self.0.agent)
    }
}
