//! One request and its answer.

use super::Shared;
use crate::{conversion, dispatch::Answer};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use std::{
    convert::Infallible,
    pin::pin,
    sync::atomic::Ordering,
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::Semaphore, task::spawn_blocking, time::timeout_at};

/// The path for conversions.
pub(crate) const CONVERT: &str = "/convert";
const HEALTH: &str = "/healthz";

const REVIEW_LIMIT: usize = 7 * 1024 * 1024;
const CONVERSION_LIMIT: usize = 32 * 1024 * 1024;
const MEGABYTE: usize = 1024 * 1024;
/// Bodies above this share a store of memory, so that many of them cannot use up that of the process.
const SMALL: usize = MEGABYTE / 4;
/// That store.
pub(super) const LARGE_MEGABYTES: u32 = 64;
/// The longest that an API server waits for a webhook.
const LONGEST: Duration = Duration::from_secs(30);

pub(super) async fn answer(request: Request<Incoming>, shared: &Shared) -> Result<Response<Full<Bytes>>, Infallible> {
    let version = request.version();
    let answer = route(request, shared).await;
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    if shared.leaving.load(Ordering::Relaxed) && version < Version::HTTP_2 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

async fn route(request: Request<Incoming>, shared: &Shared) -> Answer {
    let path = request.uri().path();
    if path == HEALTH {
        return Answer::text(200, "");
    }
    let route = shared.dispatch.route(path).cloned();
    if route.is_none() && path != CONVERT {
        return Answer::text(404, "there is nothing at this path\n");
    }
    if request.method() != Method::POST {
        return Answer::text(405, "only POST is answered here\n");
    }
    let is_json = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes) == Some(b"application/json");
    let deadline = Instant::now() + given_time(request.uri().query());
    let Some(route) = route else {
        if !is_json {
            return Answer::text(400, "the content type has to be application/json\n");
        }
        return match read(request.into_body(), CONVERSION_LIMIT, &shared.large, deadline).await {
            Ok(body) => {
                let (answer, panicked) = conversion::answer(body).await;
                if panicked {
                    shared.dispatch.metrics().panics.inc();
                }
                answer
            }
            Err(refused) => refused,
        };
    };
    let body = if is_json {
        read(request.into_body(), REVIEW_LIMIT, &shared.large, deadline).await
    } else {
        Err(Answer::text(400, "the content type has to be application/json\n"))
    };
    match body {
        Ok(body) if body.len() > SMALL => {
            // Reading it would hold up all others.
            let (dispatch, here) = (shared.dispatch.clone(), Handle::current());
            let answer = spawn_blocking(move || here.block_on(dispatch.answer(&route, &body, deadline)));
            answer
                .await
                .unwrap_or_else(|stopped| Answer::text(500, stopped.to_string()))
        }
        Ok(body) => shared.dispatch.answer(&route, &body, deadline).await,
        Err(refused) => {
            shared.dispatch.count(&route, refused.code);
            refused
        }
    }
}

/// How long the API server waits, as it says in `timeout=10s`.
fn given_time(query: Option<&str>) -> Duration {
    let given = query.unwrap_or_default().split('&').find_map(|pair| {
        let seconds = pair.strip_prefix("timeout=")?.strip_suffix('s')?;
        seconds.parse().ok().map(Duration::from_secs)
    });
    given.unwrap_or(LONGEST).min(LONGEST)
}

/// The whole body, or why there is none.
async fn read(body: Incoming, limit: usize, large: &Semaphore, deadline: Instant) -> Result<Bytes, Answer> {
    // Most bodies are here already; a timer would cost more than reading them.
    let mut reading = pin!(collect(body, limit, large));
    match futures::poll!(&mut reading) {
        Poll::Ready(read) => read,
        Poll::Pending => timeout_at(deadline.into(), reading)
            .await
            .unwrap_or_else(|_| Err(Answer::text(408, "the body did not arrive in time\n"))),
    }
}

async fn collect(mut body: Incoming, limit: usize, large: &Semaphore) -> Result<Bytes, Answer> {
    let too_large = || Answer::text(413, format!("the body is too large: the limit is {limit} bytes\n"));
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return Err(too_large());
    }
    let most = body
        .size_hint()
        .upper()
        .map_or(limit, |upper| usize::try_from(upper).unwrap_or(limit).min(limit));
    let _room = if most > SMALL {
        let megabytes = u32::try_from(most / MEGABYTE + 1).unwrap_or(LARGE_MEGABYTES);
        // The semaphore is never closed.
        large.acquire_many(megabytes).await.ok()
    } else {
        None
    };
    let mut whole = Bytes::new();
    let mut parts = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Answer::text(400, format!("the body cannot be read: {error}\n")))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + parts.len() + data.len() > limit {
            return Err(too_large());
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
