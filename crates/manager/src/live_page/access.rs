//! Who reads, and what they may see.
//!
//! - A reader is who a token of the cluster belongs to, which the API server says (`TokenReview`). Nobody else gets an answer.
//! - A reader sees objects of a kind where the API server lets them list it (`SubjectAccessReview`): in all namespaces, or in single ones.
//! - Both answers count for some seconds, so that many pages of one person cost no more than one. Tokens are kept in memory only, and no longer than that.
//! - Whoever has no token costs the API server little: tokens that are none are remembered as well, and few are reviewed at the same time.

use futures::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kruise_api::resource::Resource;
use kruise_runtime::error::Error;
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, time::timeout};
use tracing::warn;

/// How long an answer of the API server counts.
const FRESH: Duration = Duration::from_secs(15);
/// How long the API server may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Reviews that are under way at the same time.
const AT_ONCE: usize = 8;
/// Tokens that are remembered.
const MOST_TOKENS: usize = 512;
/// Longest token that is looked at.
const LONGEST_TOKEN: usize = 16 * 1024;

/// What has to be allowed for something to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Right {
    pub(super) resource: &'static Resource,
    verb: &'static str,
}

impl Right {
    /// To see objects of a kind.
    pub(super) const fn list(resource: &'static Resource) -> Self {
        Self { resource, verb: "list" }
    }

    /// To ask about one.
    pub(super) const fn get(resource: &'static Resource) -> Self {
        Self { resource, verb: "get" }
    }
}

/// The API server, as far as rights go.
pub(super) trait Reviews: Send + Sync {
    /// Returns whose token this is.
    fn review_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, Error>>;
    /// Whether they may do this; an empty namespace means all of them.
    fn allows<'a>(&'a self, user: &'a UserInfo, right: Right, namespace: &'a str)
    -> BoxFuture<'a, Result<bool, Error>>;
}

/// Asks the API server.
pub(super) struct ApiReviews(pub(super) Client);

impl Reviews for ApiReviews {
    fn review_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, Error>> {
        Box::pin(async move {
            let spec = TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            };
            let review = TokenReview {
                spec,
                ..TokenReview::default()
            };
            let api: Api<TokenReview> = Api::all(self.0.clone());
            let status = api.create(&PostParams::default(), &review).await?.status;
            let known = status.filter(|status| status.authenticated == Some(true));
            Ok(known.and_then(|status| status.user))
        })
    }

    fn allows<'a>(
        &'a self,
        user: &'a UserInfo,
        right: Right,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let Resource {
                group, version, plural, ..
            } = right.resource;
            let attributes = ResourceAttributes {
                group: Some((*group).to_owned()),
                namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
                resource: Some((*plural).to_owned()),
                verb: Some(right.verb.to_owned()),
                version: Some((*version).to_owned()),
                ..ResourceAttributes::default()
            };
            let UserInfo {
                username,
                uid,
                groups,
                extra,
            } = user.clone();
            let spec = SubjectAccessReviewSpec {
                user: username,
                uid,
                groups,
                extra,
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview {
                spec,
                ..SubjectAccessReview::default()
            };
            let api: Api<SubjectAccessReview> = Api::all(self.0.clone());
            let status = api.create(&PostParams::default(), &review).await?.status;
            Ok(status.is_some_and(|status| status.allowed))
        })
    }
}

/// Why somebody gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("log in with a token of this cluster")]
    NoToken,
    #[error("the cluster does not know this token, or it has expired")]
    UnknownToken,
    #[error("the API server does not say now who you are and what you may see; try again")]
    NoAnswer,
}

/// Who reads.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) user: UserInfo,
    decisions: Mutex<HashMap<Right, HashMap<Box<str>, Decided>>>,
}

#[derive(Clone, Copy, Debug)]
struct Decided {
    allowed: bool,
    at: Instant,
}

impl Reader {
    fn new(user: UserInfo) -> Self {
        Self {
            user,
            decisions: Mutex::default(),
        }
    }

    /// Returns the name of the reader.
    pub(super) fn name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }
}

/// Those who were here lately.
pub(super) struct Access {
    reviews: Box<dyn Reviews>,
    known: Mutex<HashMap<Box<str>, Known>>,
    at_once: Semaphore,
    fresh: Duration,
}

struct Known {
    reader: Option<Arc<Reader>>,
    at: Instant,
}

impl Access {
    pub(super) fn new(reviews: impl Reviews + 'static) -> Self {
        Self::fresh_for(FRESH, reviews)
    }

    /// With answers that count for so long.
    pub(super) fn fresh_for(fresh: Duration, reviews: impl Reviews + 'static) -> Self {
        Self {
            reviews: Box::new(reviews),
            known: Mutex::default(),
            at_once: Semaphore::new(AT_ONCE),
            fresh,
        }
    }

    /// Returns who reads.
    pub(super) async fn reader(&self, token: &str) -> Result<Arc<Reader>, Refusal> {
        if token.is_empty() {
            return Err(Refusal::NoToken);
        }
        if token.len() > LONGEST_TOKEN {
            return Err(Refusal::UnknownToken);
        }
        if let Some(known) = self.lately(token) {
            return known;
        }
        let user = self.within(self.reviews.review_token(token)).await?;
        let reader = user.map(|user| Arc::new(Reader::new(user)));
        self.remember(token, reader.clone());
        reader.ok_or(Refusal::UnknownToken)
    }

    /// Whether a reader has a right in a namespace, or everywhere when it is empty.
    pub(super) async fn allows(&self, reader: &Reader, right: Right, namespace: &str) -> Result<bool, Refusal> {
        let decided = {
            let decisions = reader.decisions.lock();
            decisions.get(&right).and_then(|of| of.get(namespace)).copied()
        };
        if let Some(decided) = decided
            && decided.at.elapsed() < self.fresh
        {
            return Ok(decided.allowed);
        }
        let allowed = self.within(self.reviews.allows(&reader.user, right, namespace)).await?;
        let decided = Decided {
            allowed,
            at: Instant::now(),
        };
        let mut decisions = reader.decisions.lock();
        decisions.entry(right).or_default().insert(namespace.into(), decided);
        Ok(allowed)
    }

    /// What was found about a token a moment ago.
    fn lately(&self, token: &str) -> Option<Result<Arc<Reader>, Refusal>> {
        let known = self.known.lock();
        let known = known.get(token).filter(|known| known.at.elapsed() < self.fresh)?;
        Some(known.reader.clone().ok_or(Refusal::UnknownToken))
    }

    fn remember(&self, token: &str, reader: Option<Arc<Reader>>) {
        let mut known = self.known.lock();
        known.retain(|_, known| known.at.elapsed() < self.fresh);
        // Somebody tries tokens: nobody is remembered, and reviews are as slow as their number allows.
        if known.len() >= MOST_TOKENS {
            known.clear();
        }
        let at = Instant::now();
        known.insert(token.into(), Known { reader, at });
    }

    async fn within<T>(&self, review: impl Future<Output = Result<T, Error>>) -> Result<T, Refusal> {
        let asked = async {
            // Never closed.
            let _permit = self.at_once.acquire().await;
            review.await
        };
        match timeout(DEADLINE, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                warn!("the live page cannot ask for rights: {error:#}");
                Err(Refusal::NoAnswer)
            }
            Err(_) => Err(Refusal::NoAnswer),
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}
