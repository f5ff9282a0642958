//! One request and its answer.

use super::{
    Shared,
    connections::{Peer, Room},
};
use crate::{
    conversion,
    dispatch::{Answer, Route},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use std::{
    convert::Infallible,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, task::spawn_blocking, time::timeout_at};

/// The path for conversions.
pub(crate) const CONVERT: &str = "/convert";
const HEALTH: &str = "/healthz";

const REVIEW_LIMIT: usize = 7 * 1024 * 1024;
const CONVERSION_LIMIT: usize = 32 * 1024 * 1024;
/// Bodies above this are worked on elsewhere, because reading them would hold up all others.
const SMALL: usize = 256 * 1024;
/// The longest that an API server waits for a webhook.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

pub(super) async fn handle(
    request: Request<Incoming>,
    shared: &Arc<Shared>,
    peer: &Peer,
) -> Result<Response<Full<Bytes>>, Infallible> {
    peer.touch();
    let version = request.version();
    let (answer, room) = route(request, shared, peer).await;
    let body = match room {
        // Until the peer has taken it.
        Some(room) if answer.body.len() > SMALL => Bytes::from_owner(Held {
            body: answer.body,
            _room: room,
        }),
        _ => Bytes::from(answer.body),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    if version < Version::HTTP_2 && (shared.leaving.load(Ordering::Relaxed) || peer.is_old()) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// A large answer with the memory that it was given.
struct Held {
    body: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

async fn route(request: Request<Incoming>, shared: &Arc<Shared>, peer: &Peer) -> (Answer, Option<Room>) {
    let refuse = |code, text: &str| (Answer::text(code, text), None);
    let path = request.uri().path();
    if path == HEALTH {
        return refuse(200, "");
    }
    let route = shared.dispatch.route(path).cloned();
    if route.is_none() && path != CONVERT {
        return refuse(404, "there is nothing at this path\n");
    }
    if request.method() != Method::POST {
        return refuse(405, "only POST is answered here\n");
    }
    let is_json = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes) == Some(b"application/json");
    let deadline = Instant::now() + given_time(request.uri().query());
    let limit = if route.is_some() {
        REVIEW_LIMIT
    } else {
        CONVERSION_LIMIT
    };
    let body = if is_json {
        read(request.into_body(), limit, peer, deadline).await
    } else {
        Err(Answer::text(400, "the content type has to be application/json\n"))
    };
    let (body, room) = match body {
        Ok(read) => read,
        Err(refused) => {
            if let Some(route) = route {
                shared.dispatch.count(&route, refused.code);
            }
            return (refused, None);
        }
    };
    let _work = peer.work();
    if body.len() <= SMALL {
        return (decide(shared, route.as_deref(), &body, deadline).await, Some(room));
    }
    let (shared, here) = (shared.clone(), Handle::current());
    let work = spawn_blocking(move || {
        let answer = here.block_on(decide(&shared, route.as_deref(), &body, deadline));
        // The memory is in use until then, even if nobody waits any more.
        (answer, Some(room))
    });
    match before(deadline, work).await {
        Some(Ok(answer)) => answer,
        Some(Err(stopped)) => refuse(500, &stopped.to_string()),
        None => refuse(504, "there was no answer in time\n"),
    }
}

async fn decide(shared: &Shared, route: Option<&Route>, body: &[u8], deadline: Instant) -> Answer {
    let Some(route) = route else {
        let (answer, panicked) = conversion::answer(body);
        if panicked {
            shared.dispatch.metrics().panics.inc();
        }
        return answer;
    };
    shared.dispatch.answer(route, body, deadline).await
}

/// How long the API server waits, as it says in `timeout=10s`.
fn given_time(query: Option<&str>) -> Duration {
    let given = query.unwrap_or_default().split('&').find_map(|pair| {
        let seconds = pair.strip_prefix("timeout=")?.strip_suffix('s')?;
        seconds.parse().ok().map(Duration::from_secs)
    });
    given.unwrap_or(LONGEST).min(LONGEST)
}

/// What comes of it, unless it takes longer.
async fn before<T>(deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
    // Most is there already; a timer would cost more than looking.
    let mut work = pin!(work);
    match futures::poll!(&mut work) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => timeout_at(deadline.into(), work).await.ok(),
    }
}

/// The whole body and the memory for it, or why there is none.
async fn read(body: Incoming, limit: usize, peer: &Peer, deadline: Instant) -> Result<(Bytes, Room), Answer> {
    let size = body.size_hint();
    if size.lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let most = size.upper().and_then(|upper| usize::try_from(upper).ok());
    let most = most.map_or(limit, |most| most.min(limit));
    let room = before(deadline, peer.room(most, most > SMALL)).await;
    let room = room.ok_or_else(|| Answer::text(503, "there was no memory for the body in time\n"))?;
    let arrival = deadline.min(Instant::now() + peer.limits.body);
    let body = before(arrival, collect(body, limit, most)).await;
    let body = body.unwrap_or_else(|| Err(Answer::text(408, "the body did not arrive in time\n")))?;
    Ok((body, room))
}

fn too_large(limit: usize) -> Answer {
    Answer::text(413, format!("the body is too large: the limit is {limit} bytes\n"))
}

async fn collect(mut body: Incoming, limit: usize, most: usize) -> Result<Bytes, Answer> {
    let mut whole = Bytes::new();
    let mut parts = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Answer::text(400, format!("the body cannot be read: {error}\n")))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + parts.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        // A body that comes in one piece is not copied.
        if whole.is_empty() && parts.is_empty() {
            whole = data;
        } else {
            if parts.is_empty() {
                parts.reserve(most.min(SMALL).max(whole.len() + data.len()));
                parts.extend_from_slice(&whole);
                whole.clear();
            }
            parts.extend_from_slice(&data);
        }
    }
    Ok(if parts.is_empty() { whole } else { parts.freeze() })
}
