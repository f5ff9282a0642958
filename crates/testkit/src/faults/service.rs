//! Faults as a layer of kube's client.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::json;
use tower::{BoxError, Layer, Service};

use super::call::Call;
use super::watch::disturbed;
use super::{Fate, Fault, Faults};

/// Puts faults between kube's client and the connection.
#[derive(Clone, Debug)]
pub struct FaultLayer(Faults);

impl FaultLayer {
    pub(super) fn new(faults: Faults) -> Self {
        Self(faults)
    }
}

impl<S> Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> FaultService<S> {
        FaultService {
            inner,
            faults: self.0.clone(),
        }
    }
}

/// A client's service that suffers faults.
#[derive(Debug)]
pub struct FaultService<S> {
    inner: S,
    faults: Faults,
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl<S, B> Service<Request<Body>> for FaultService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let uri = request.uri();
        let call = Call::of(request.method(), uri.path(), uri.query().unwrap_or_default());
        let fate = self.faults.fate(&call);
        match fate {
            Fate::Dead => return async { Err("the program has crashed".into()) }.boxed(),
            Fate::Goes(Fault::Refuse(code)) => return async move { Ok(refusal(code)) }.boxed(),
            Fate::Goes(Fault::Unanswered) => return futures::future::pending().boxed(),
            _ => {}
        }
        let control = self.faults.0.control.subscribe();
        let old_cuts = control.borrow().cuts();
        let under_way = UnderWay::begin(&self.faults);
        let answer = self.inner.call(request);
        async move {
            if let Fate::Goes(Fault::Delay(delay)) = fate {
                tokio::time::sleep(delay).await;
            }
            let answer = answer.await.map_err(Into::into);
            drop(under_way);
            let answer = answer?;
            match fate {
                Fate::Crashes => return Err("the program has crashed".into()),
                Fate::Goes(Fault::LoseReply) => return Err("connection reset before the answer".into()),
                _ => {}
            }
            let watches = call.verb == "watch" && answer.status().is_success();
            Ok(answer.map(|body| {
                if watches {
                    StreamBody::new(disturbed(body, call.resource, control, old_cuts)).boxed_unsync()
                } else {
                    body.map_err(Into::into).boxed_unsync()
                }
            }))
        }
        .boxed()
    }
}

/// A call that the server may be working on.
struct UnderWay(Faults);

impl UnderWay {
    fn begin(faults: &Faults) -> Self {
        faults.0.control.send_modify(|control| control.under_way += 1);
        Self(faults.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.control.send_modify(|control| control.under_way -= 1);
    }
}

/// An answer as the API server gives it.
fn refusal(code: u16) -> Answer {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("a fault was injected: {code}"), "reason": reason, "code": code,
    });
    let body = Full::from(status.to_string())
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).expect("a status code");
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests;
