//! Disturbing what a watch tells.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::BoxError;

use super::Cut;

/// What all watches of a program obey.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    pub(super) held: bool,
    pub(super) delay: Duration,
    pub(super) crashed: bool,
    /// Calls that the server has not answered yet.
    pub(super) under_way: usize,
    /// The cuts so far; a watch looks only at those that came after it was opened.
    cuts: Vec<(Option<String>, Cut)>,
}

impl Control {
    pub(super) fn cut(&mut self, resource: Option<&str>, cut: Cut) {
        self.cuts.push((resource.map(str::to_owned), cut));
    }

    /// How many cuts there were so far.
    pub(super) fn cuts(&self) -> usize {
        self.cuts.len()
    }

    pub(super) fn calm(&mut self) {
        self.held = false;
        self.delay = Duration::ZERO;
    }
}

struct Watch<B> {
    body: B,
    resource: String,
    control: watch::Receiver<Control>,
    /// Cuts that came before this watch.
    old_cuts: usize,
    arrived: BytesMut,
    last_arrival: Instant,
    ended: bool,
}

const EXPIRED: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
    r#""message":"too old resource version","reason":"Expired","code":410}}"#,
    "\n"
);

/// The body of a watch, line by line, as the control allows. `old_cuts` came before the watch was asked for.
pub(super) fn disturbed<B>(
    body: B,
    resource: String,
    control: watch::Receiver<Control>,
    old_cuts: usize,
) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    let watch = Watch {
        body,
        resource,
        control,
        old_cuts,
        arrived: BytesMut::new(),
        last_arrival: Instant::now(),
        ended: false,
    };
    futures::stream::unfold(watch, |mut watch| async {
        let item = watch.next().await?;
        Some((item, watch))
    })
}

impl<B> Watch<B>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        loop {
            if self.ended {
                return None;
            }
            let control = self.control.borrow_and_update().clone();
            if control.crashed {
                self.ended = true;
                return Some(Err("the program has crashed".into()));
            }
            let mut cuts = control.cuts.iter().skip(self.old_cuts);
            let cut = cuts.find(|(resource, _)| resource.as_ref().is_none_or(|name| *name == self.resource));
            if let Some((_, cut)) = cut {
                self.ended = true;
                return match cut {
                    Cut::Closed => None,
                    Cut::Expired => Some(Ok(Frame::data(Bytes::from_static(EXPIRED.as_bytes())))),
                };
            }
            let line = self.arrived.iter().position(|byte| *byte == b'\n');
            if let (Some(end), false) = (line, control.held) {
                let due = self.last_arrival + control.delay;
                if Instant::now() < due {
                    // A change of the control counts at once.
                    tokio::select! {
                        () = tokio::time::sleep_until(due) => {}
                        _ = self.control.changed() => {}
                    }
                    continue;
                }
                return Some(Ok(Frame::data(self.arrived.split_to(end + 1).freeze())));
            }
            tokio::select! {
                changed = self.control.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                frame = self.body.frame() => match frame {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            self.arrived.extend_from_slice(&data);
                            self.last_arrival = Instant::now();
                        }
                    }
                    Some(Err(error)) => {
                        self.ended = true;
                        return Some(Err(error.into()));
                    }
                    // What is held back is lost with the connection, as it would be.
                    None => return None,
                },
            }
        }
    }
}
