//! What one reader gets, piece by piece, for as long as it is allowed.
//!
//! - First it hears who it is, then all that there is now, then `whole`, then changes as they come. What it gets is filtered by its rights; a namespace that appears is asked about then.
//! - A quiet stream says something every fifteen seconds, so that both sides notice when the other has gone.
//! - Every half minute token and rights are looked at again. A token that has expired ends the stream; rights that are others than before let the reader begin anew.

use super::{
    access::{Access, Reader, Refusal, Right},
    frames::{Frame, Message, encode},
    hub::Seat,
    sources::Frames,
};
use bytes::{Bytes, BytesMut};
use futures::{Stream, stream};
use kruise_api::resource::Scope;
use kruise_runtime::admin::Stay;
use serde_json::json;
use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Longest silence.
const BEAT: Duration = Duration::from_secs(15);
/// How often rights are looked at again.
const CHECK: Duration = Duration::from_secs(30);
/// Bytes of one piece; a frame may go beyond.
const PIECE: usize = 32 * 1024;
/// Namespaces that are asked about for a reader who may not see all of them.
const MOST_NAMESPACES: usize = 200;

/// Which frames a reader may see.
pub(super) struct Sight {
    access: Arc<Access>,
    reader: Arc<Reader>,
    /// The only namespace that is shown; empty for all.
    namespace: String,
    seen: HashMap<Right, HashMap<Box<str>, bool>>,
    pub(super) is_cut: bool,
}

impl Sight {
    pub(super) fn new(access: Arc<Access>, reader: Arc<Reader>, namespace: String) -> Self {
        Self {
            access,
            reader,
            namespace,
            seen: HashMap::new(),
            is_cut: false,
        }
    }

    /// Returns the name of the reader.
    pub(super) fn name(&self) -> &str {
        self.reader.name()
    }

    /// Whether objects of a kind in a namespace may be seen, and are asked for.
    pub(super) async fn sees(&mut self, right: Right, namespace: &str) -> Result<bool, Refusal> {
        let is_asked_for =
            self.namespace.is_empty() || right.resource.scope == Scope::Cluster || self.namespace == namespace;
        if !is_asked_for {
            return Ok(false);
        }
        if let Some(known) = self.seen.get(&right).and_then(|of| of.get(namespace)) {
            return Ok(*known);
        }
        let of = self.seen.get(&right);
        let everywhere = match of.and_then(|of| of.get("")) {
            Some(known) => *known,
            None => self.ask(right, "").await?,
        };
        let asked = self.seen.get(&right).map_or(0, HashMap::len);
        let allowed = if everywhere || namespace.is_empty() {
            everywhere
        } else if asked > MOST_NAMESPACES {
            self.is_cut = true;
            return Ok(false);
        } else {
            self.ask(right, namespace).await?
        };
        self.seen.entry(right).or_default().insert(namespace.into(), allowed);
        Ok(allowed)
    }

    async fn ask(&mut self, right: Right, namespace: &str) -> Result<bool, Refusal> {
        let allowed = self.access.allows(&self.reader, right, namespace).await?;
        self.seen.entry(right).or_default().insert(namespace.into(), allowed);
        Ok(allowed)
    }

    /// Whether everything is still as it was decided.
    pub(super) async fn still_holds(&mut self, token: &str) -> Result<bool, Refusal> {
        let reader = self.access.reader(token).await?;
        if reader.user != self.reader.user {
            return Ok(false);
        }
        self.reader = reader;
        for (right, decided) in &self.seen {
            if decided.get("") == Some(&true) {
                if !self.access.allows(&self.reader, *right, "").await? {
                    return Ok(false);
                }
                continue;
            }
            for (namespace, allowed) in decided {
                if self.access.allows(&self.reader, *right, namespace).await? != *allowed {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// A stream of a reader.
pub(super) struct Reading {
    pub(super) sight: Sight,
    pub(super) token: String,
    pub(super) seat: Seat,
    /// What it begins with.
    pub(super) hello: Bytes,
    pub(super) begin: Frames,
    /// Holds the connection.
    pub(super) _stay: Stay,
}

/// Where a stream stands.
enum Stage {
    Hello,
    Beginning,
    Changes,
    Ended,
}

struct Course {
    reading: Reading,
    stage: Stage,
    check: Instant,
}

impl Reading {
    /// Returns the pieces.
    pub(super) fn pieces(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        let course = Course {
            reading: self,
            stage: Stage::Hello,
            check: Instant::now() + CHECK,
        };
        stream::unfold(course, |mut course| async move {
            let piece = course.next().await?;
            Some((Ok(piece), course))
        })
    }
}

impl Course {
    async fn next(&mut self) -> Option<Bytes> {
        let piece = match self.stage {
            Stage::Hello => {
                self.stage = Stage::Beginning;
                return Some(self.reading.hello.clone());
            }
            Stage::Beginning => self.beginning().await,
            Stage::Changes => self.changes().await,
            Stage::Ended => return None,
        };
        match piece {
            Ok(piece) => Some(piece),
            Err(refusal) => {
                self.stage = Stage::Ended;
                let is_final = refusal != Refusal::NoAnswer;
                let event = if is_final { "refused" } else { "again" };
                Some(encode(event, &json!({"message": refusal.to_string()})))
            }
        }
    }

    /// The next piece of what there is now.
    async fn beginning(&mut self) -> Result<Bytes, Refusal> {
        let mut piece = BytesMut::new();
        loop {
            let Some(frame) = self.reading.begin.next() else {
                self.stage = Stage::Changes;
                piece.extend_from_slice(&encode("whole", &json!({"cut": self.reading.sight.is_cut})));
                return Ok(piece.freeze());
            };
            self.add(&mut piece, &frame).await?;
            if piece.len() >= PIECE {
                return Ok(piece.freeze());
            }
        }
    }

    /// The next changes, or a sign of life.
    async fn changes(&mut self) -> Result<Bytes, Refusal> {
        let beat = Instant::now() + BEAT;
        loop {
            if Instant::now() >= self.check {
                if !self.reading.sight.still_holds(&self.reading.token).await? {
                    return Ok(self.again());
                }
                self.check = Instant::now() + CHECK;
            }
            let until = beat.min(self.check);
            match timeout_at(until, self.reading.seat.inbox.recv()).await {
                Ok(Some(message)) => {
                    let piece = self.gather(message).await?;
                    if !piece.is_empty() {
                        return Ok(piece);
                    }
                }
                // Cut off, or the process ends.
                Ok(None) => return Ok(self.again()),
                Err(_) if Instant::now() >= beat => return Ok(Bytes::from_static(b": \n\n")),
                Err(_) => sleep_until(until).await,
            }
        }
    }

    /// What is in this message and those that wait behind it.
    async fn gather(&mut self, first: Message) -> Result<Bytes, Refusal> {
        let mut piece = BytesMut::new();
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Again => return Ok(self.again()),
                Message::Frames(frames) => {
                    for frame in frames.iter() {
                        self.add(&mut piece, frame).await?;
                    }
                }
            }
            if piece.len() >= PIECE {
                break;
            }
            next = self.reading.seat.inbox.try_recv().ok();
        }
        Ok(piece.freeze())
    }

    async fn add(&mut self, piece: &mut BytesMut, frame: &Frame) -> Result<(), Refusal> {
        if self.reading.sight.sees(frame.right, &frame.namespace).await? {
            piece.extend_from_slice(&frame.bytes);
        }
        Ok(())
    }

    /// The last event of a stream whose reader is to come back.
    fn again(&mut self) -> Bytes {
        self.stage = Stage::Ended;
        encode("again", &json!({}))
    }
}
