//! What the page asks for, and who gets an answer.
//!
//! | Address | Answer |
//! |---|---|
//! | `/`, `/page.css`, … | the page itself, to everybody: it has nothing of the cluster |
//! | `/api/tables/{workloads,budgets,images}` | a stream of lines; with `?namespace=` those of one namespace |
//! | `/api/workload?kind=&namespace=&name=` | a stream of a workload, its Pods, revisions and budgets |
//! | `/api/reasons?kind=&namespace=&name=` | why it is not where it should be |
//!
//! Whoever asks for what is below `/api` sends a token of the cluster in the header `Authorization`. What somebody may not see is answered like what is not there.

use super::{
    access::{Access, Reader, Refusal, Right},
    frames::encode,
    hub::{Hub, MOST_READERS, SourceObject, Topic},
    reasons::Asked,
    site,
    sources::{Subject, Table},
    stream::{Reading, Sight},
};
use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Path, Query, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::get,
};
use kruise_runtime::{admin::Peer, lease::Leadership, resource::ObjectKey};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// What answers are made from.
pub(super) struct Answers {
    pub(super) hub: Arc<Hub>,
    pub(super) access: Arc<Access>,
    /// Nothing in tests without a cluster.
    pub(super) asked: Option<Asked>,
    pub(super) leadership: Leadership,
}

const JSON: (HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

type Shared = State<Arc<Answers>>;
type Caller = ConnectInfo<Peer>;

/// Returns the routes of the page.
pub(super) fn router(answers: Answers) -> Router {
    Router::new()
        .route("/api/tables/{table}", get(table))
        .route("/api/workload", get(workload))
        .route("/api/reasons", get(reasons))
        .with_state(Arc::new(answers))
        .merge(site::router())
        .layer(map_response(site::guarded))
}

#[derive(Deserialize)]
struct Chosen {
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
struct Which {
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
}

async fn table(
    State(answers): Shared,
    peer: Caller,
    headers: HeaderMap,
    Path(table): Path<String>,
    Query(chosen): Query<Chosen>,
) -> Result<Response, NoAnswer> {
    let (token, reader) = answers.reader(&headers).await?;
    let table = Table::named(&table).ok_or(NoAnswer::NotFound)?;
    let sight = Sight::new(answers.access.clone(), reader, chosen.namespace);
    answers.stream(&Topic::Table(table), sight, token, &peer)
}

async fn workload(
    State(answers): Shared,
    peer: Caller,
    headers: HeaderMap,
    Query(which): Query<Which>,
) -> Result<Response, NoAnswer> {
    let (token, reader) = answers.reader(&headers).await?;
    let mut sight = Sight::new(answers.access.clone(), reader, String::new());
    let (name, subject) = answers.find(&which)?;
    if !sight.sees(Right::list(subject.resource), &name.namespace).await? {
        return Err(NoAnswer::NotFound);
    }
    answers.stream(&Topic::Workload(name), sight, token, &peer)
}

async fn reasons(State(answers): Shared, headers: HeaderMap, Query(which): Query<Which>) -> Result<Response, NoAnswer> {
    let (_, reader) = answers.reader(&headers).await?;
    let mut sight = Sight::new(answers.access.clone(), reader.clone(), String::new());
    let (name, subject) = answers.find(&which)?;
    if !sight.sees(Right::get(subject.resource), &name.namespace).await? {
        return Err(NoAnswer::NotFound);
    }
    let asked = answers.asked.as_ref().ok_or(NoAnswer::NotFound)?;
    let key = ObjectKey::new(&name.namespace, &name.name);
    match asked.about(&subject, &key, &reader).await {
        Ok(reasons) => Ok(([JSON], json!(*reasons).to_string()).into_response()),
        Err((404 | 403, _)) => Err(NoAnswer::NotFound),
        Err((_, why)) => Err(NoAnswer::Failed(why)),
    }
}

impl Answers {
    /// Who asks.
    async fn reader(&self, headers: &HeaderMap) -> Result<(String, Arc<Reader>), NoAnswer> {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|given| given.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let token = token.map(|(_, token)| token.trim()).unwrap_or_default();
        let reader = self.access.reader(token).await?;
        Ok((token.to_owned(), reader))
    }

    /// The workload that is meant.
    fn find(&self, which: &Which) -> Result<(SourceObject, Subject), NoAnswer> {
        let is_kind = |kind: &str| kind.eq_ignore_ascii_case(&which.kind);
        let mut sources = self.hub.sources.iter();
        let source = sources.position(|source| is_kind(source.right().resource.kind));
        let name = SourceObject {
            source: source.ok_or(NoAnswer::NotFound)?,
            namespace: which.namespace.clone(),
            name: which.name.clone(),
        };
        let subject = self.hub.subject(&name).ok_or(NoAnswer::NotFound)?;
        Ok((name, subject))
    }

    fn stream(&self, topic: &Topic, sight: Sight, token: String, peer: &Caller) -> Result<Response, NoAnswer> {
        let seat = self.hub.seat(topic).ok_or(NoAnswer::Crowded)?;
        let begin = self.hub.frames(topic).ok_or(NoAnswer::NotFound)?;
        let pending = self.hub.sources.iter().filter(|source| source.is_pending());
        let pending: Vec<_> = pending.map(|source| source.right().resource.plural).collect();
        let hello = json!({
            "reader": sight.name(), "version": env!("CARGO_PKG_VERSION"), "leads": self.leadership.leads(), "pending": pending,
        });
        let reading = Reading {
            sight,
            token,
            seat,
            hello: encode("hello", &hello),
            begin,
            _stay: peer.0.stay(),
        };
        let kind = [(header::CONTENT_TYPE, "text/event-stream")];
        Ok((kind, Body::from_stream(reading.pieces())).into_response())
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum NoAnswer {
    Refused(Refusal),
    NotFound,
    Crowded,
    Failed(String),
}

impl From<Refusal> for NoAnswer {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl IntoResponse for NoAnswer {
    fn into_response(self) -> Response {
        let (code, message) = match self {
            Self::Refused(Refusal::NoAnswer) => (StatusCode::SERVICE_UNAVAILABLE, Refusal::NoAnswer.to_string()),
            Self::Refused(refusal) => (StatusCode::UNAUTHORIZED, refusal.to_string()),
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "there is no such object, or you may not see it".to_owned(),
            ),
            Self::Crowded => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{MOST_READERS} readers are here already; try again"),
            ),
            Self::Failed(why) => (StatusCode::BAD_GATEWAY, why),
        };
        let body = json!({"message": message}).to_string();
        if code == StatusCode::UNAUTHORIZED {
            return (code, [JSON, (header::WWW_AUTHENTICATE, "Bearer")], body).into_response();
        }
        (code, [JSON], body).into_response()
    }
}
