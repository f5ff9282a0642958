//! Clusters whose CRDs are older than we are.
//!
//! Everything of ours speaks v1beta1. Where the CRDs were never renewed, the API server serves some kinds as v1alpha1 only. A client from
//! [`bridged`] lets the rest of the program know nothing of it: requests about such a kind go to v1alpha1, and what comes back is converted.
//!
//! | on the way | what happens |
//! |---|---|
//! | path of such a kind | `v1beta1` becomes `v1alpha1` |
//! | object of such a kind that is written as a whole, merge patch of one | converted down |
//! | any other body, also about other kinds | references to such a kind (owners, objects of events) name v1alpha1, as the server knows no other version |
//! | object, list, watch event in an answer | converted up |
//!
//! A merge patch of such a kind is converted down like an object, with what it has. Some facts of the status are annotations in v1alpha1, which a write of
//! the status does not take: they are written with the object first. Other patches go as they are.
//!
//! What is served is asked for once. A cluster that serves v1beta1 of all that it has keeps its client, and nothing of this runs.

mod translate;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryStreamExt as _};
use http::{Method, Request, Response, Uri, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kruise_api::names::group::{APPS, POLICY, V1ALPHA1, V1BETA1};
use kruise_core::conversion::KINDS;
use kube::Client;
use kube::client::Body;
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::io::StreamReader;
use tower::{BoxError, Service};
use tracing::info;

use translate::{OlderKind, OlderKinds};

const MERGE_PATCH: &str = "application/merge-patch+json";

type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// A client to which every kind seems to be served as v1beta1; the given one when that is so anyway.
pub(super) async fn bridged(client: Client) -> kube::Result<Client> {
    let kinds = older_kinds(&client).await?;
    if kinds.is_empty() {
        return Ok(client);
    }
    let names: Vec<_> = kinds.iter().map(|kind| kind.kind.as_str()).collect();
    info!(
        kinds = names.join(","),
        "the API server serves these kinds as {V1ALPHA1} only; they are read and written in that version"
    );
    let namespace = client.default_namespace().to_owned();
    let kinds = Arc::new(OlderKinds(kinds));
    Ok(Client::new(Bridge { client, kinds }, namespace))
}

/// The kinds with two versions of which the server has only the older one.
async fn older_kinds(client: &Client) -> kube::Result<Vec<OlderKind>> {
    let (apps, policy) = futures::try_join!(older_kinds_of(client, APPS), older_kinds_of(client, POLICY))?;
    Ok([apps, policy].concat())
}

async fn older_kinds_of(client: &Client, group: &'static str) -> kube::Result<Vec<OlderKind>> {
    let (newer, older) = futures::try_join!(served(client, group, V1BETA1), served(client, group, V1ALPHA1))?;
    let convertible = |kind: &str| KINDS.iter().any(|known| known.group == group && known.kind == kind);
    let mut kinds = Vec::new();
    for (kind, plural) in older {
        let is_newer = newer.iter().any(|(_, each)| *each == plural);
        if !is_newer && convertible(&kind) && is_missing(client, group, &plural).await? {
            kinds.push(OlderKind { group, kind, plural });
        }
    }
    Ok(kinds)
}

/// Whether there is no v1beta1 of a kind. The server tells of the versions of a new CRD one after the other, but answers for all at once.
async fn is_missing(client: &Client, group: &str, plural: &str) -> kube::Result<bool> {
    let one = Request::get(format!("/apis/{group}/{V1BETA1}/{plural}?limit=1")).body(Vec::new());
    match client.request_text(one.map_err(kube::Error::HttpError)?).await {
        Ok(_) => Ok(false),
        Err(kube::Error::Api(status)) => Ok(status.code == 404),
        Err(error) => Err(error),
    }
}

/// Kind and plural of what a version of a group has; nothing when there is no such version.
async fn served(client: &Client, group: &str, version: &str) -> kube::Result<Vec<(String, String)>> {
    match client.list_api_group_resources(&format!("{group}/{version}")).await {
        Ok(list) => {
            let whole = list.resources.into_iter().filter(|each| !each.name.contains('/'));
            Ok(whole.map(|each| (each.kind, each.name)).collect())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[derive(Clone)]
struct Bridge {
    client: Client,
    kinds: Arc<OlderKinds>,
}

impl Service<Request<Body>> for Bridge {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        async move { this.exchange(request).await }.boxed()
    }
}

impl Bridge {
    async fn exchange(self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let (mut head, body) = request.into_parts();
        let older = self.kinds.at(head.uri.path());
        let about_older = older.is_some();
        let kind = older.as_ref().map(|(kind, _)| *kind);
        if let Some((_, path)) = &older {
            head.uri = with_path(&head.uri, path)?;
        }
        let watches = head
            .uri
            .query()
            .is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
        let body = if [Method::POST, Method::PUT, Method::PATCH].contains(&head.method) {
            let bytes = body.collect().await?.to_bytes();
            head.headers.remove(header::CONTENT_LENGTH);
            let merges = head
                .headers
                .get(header::CONTENT_TYPE)
                .is_some_and(|kind| kind == MERGE_PATCH);
            if let Some(kind) = kind.filter(|_| merges && head.method == Method::PATCH) {
                let path = head.uri.path().to_owned();
                let whole = path.strip_suffix("/status");
                let patch = self.kinds.patch(kind, whole.is_some(), bytes);
                if let Some((facts, whole)) = patch.of_object.zip(whole) {
                    let mut head = head.clone();
                    head.uri = with_path(&head.uri, whole)?;
                    let answer = self.client.send(Request::from_parts(head, Body::from(facts))).await?;
                    if patch.as_asked.is_none() || !answer.status().is_success() {
                        return self.shown(answer, about_older, watches).await;
                    }
                    answer.into_body().collect().await?;
                }
                Body::from(patch.as_asked.unwrap_or_default())
            } else {
                Body::from(self.kinds.request(&head.method, bytes))
            }
        } else {
            body
        };
        let answer = self.client.send(Request::from_parts(head, body)).await?;
        self.shown(answer, about_older, watches).await
    }

    /// The answer in our own version.
    async fn shown(
        self,
        answer: Response<Body>,
        about_older: bool,
        watches: bool,
    ) -> Result<Response<AnswerBody>, BoxError> {
        let (mut head, body) = answer.into_parts();
        let body = body.map_err(BoxError::from);
        if !about_older || !head.status.is_success() {
            return Ok(Response::from_parts(head, body.boxed_unsync()));
        }
        head.headers.remove(header::CONTENT_LENGTH);
        let body = if watches {
            self.watch(body)
        } else {
            let bytes = body.collect().await?.to_bytes();
            let translated = Full::new(self.kinds.answer(bytes));
            translated.map_err(|never| match never {}).boxed_unsync()
        };
        Ok(Response::from_parts(head, body))
    }

    /// Events come one in a line.
    fn watch<B>(self, body: B) -> AnswerBody
    where
        B: http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
    {
        let bytes = body.into_data_stream().map_err(std::io::Error::other);
        let lines = FramedRead::new(StreamReader::new(Box::pin(bytes)), LinesCodec::new());
        let events = lines.map_ok(move |line| Frame::data(self.kinds.event(line)));
        StreamBody::new(events.map_err(BoxError::from)).boxed_unsync()
    }
}

fn with_path(uri: &Uri, path: &str) -> Result<Uri, BoxError> {
    let mut parts = uri.clone().into_parts();
    let text = uri
        .query()
        .map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    parts.path_and_query = Some(text.parse()?);
    Ok(Uri::from_parts(parts)?)
}
