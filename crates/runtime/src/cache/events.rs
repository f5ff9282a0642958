//! The events of an open watch, line by line.
//!
//! The server writes one event per line, and nearly always `{"type":"…","object":…}`. What stands there as the object is not looked at here, so that it is read
//! once, by whoever knows its kind.
//!
//! A watch can be read in turns. When there is much to read, whoever has seen all there is pauses, and finds what came meanwhile in one go: five hundred nodes a second
//! that say that they are alive wake nobody five hundred times. A change is seen at once as long as there are few.

use std::borrow::Cow;
use std::error::Error as _;
use std::io;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use kube::api::WatchEvent;
use kube::client::Body;
use kube::core::Status;
use serde::{Deserialize, de};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::decode::RawObject;

/// So many events of one turn are much.
const MUCH: u32 = 50;
/// A turn lasts at least so long, so that everything is read in it, and at most so long.
const SHORTEST_TURN: Duration = Duration::from_millis(25);
const LONGEST_TURN: Duration = Duration::from_millis(250);
/// The pause behind a turn that brought much.
const PAUSE: Duration = Duration::from_millis(225);

/// The events of an open watch.
pub(super) struct Events {
    body: Body,
    /// What has come and was not handed out.
    rest: BytesMut,
    /// So much of it is known to hold no end of a line.
    searched: usize,
    in_turns: bool,
    turn: Turn,
}

/// What was read lately.
struct Turn {
    began: Instant,
    events: u32,
}

impl Turn {
    fn now() -> Self {
        Self {
            began: Instant::now(),
            events: 0,
        }
    }
}

impl Events {
    pub(super) fn of(body: Body, in_turns: bool) -> Self {
        Self {
            body,
            rest: BytesMut::new(),
            searched: 0,
            in_turns,
            turn: Turn::now(),
        }
    }

    /// The next event; nothing at the end.
    pub(super) async fn next(&mut self) -> Option<kube::Result<WatchEvent<RawObject>>> {
        loop {
            if let Some(line) = self.line() {
                if line.trim_ascii().is_empty() {
                    continue;
                }
                self.turn.events = self.turn.events.saturating_add(1);
                return Some(event(&line));
            }
            match self.data().await {
                Some(Ok(data)) => self.rest.extend_from_slice(&data),
                Some(Err(error)) if is_cut(&error) => return None,
                Some(Err(error)) => return Some(Err(error)),
                None => return self.last(),
            }
        }
    }

    /// A line that has come as a whole.
    fn line(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.rest[self.searched..]) else {
            self.searched = self.rest.len();
            return None;
        };
        let line = self.rest.split_to(self.searched + end).freeze();
        self.rest.advance(1);
        self.searched = 0;
        if self.rest.is_empty() {
            // What was read is not held by what is empty.
            self.rest = BytesMut::new();
        }
        Some(line)
    }

    /// What stands behind the last end of a line: a whole event, or one that was cut off and comes again.
    fn last(&mut self) -> Option<kube::Result<WatchEvent<RawObject>>> {
        let line = std::mem::take(&mut self.rest).freeze();
        self.searched = 0;
        let is_whole = serde_json::from_slice::<de::IgnoredAny>(&line).is_ok();
        is_whole.then(|| event(&line))
    }

    async fn data(&mut self) -> Option<kube::Result<Bytes>> {
        loop {
            let frame = match self.frame().await? {
                Ok(frame) => frame,
                Err(error) => return Some(Err(error)),
            };
            if let Ok(data) = frame.into_data() {
                return Some(Ok(data));
            }
        }
    }

    async fn frame(&mut self) -> Option<kube::Result<http_body::Frame<Bytes>>> {
        if !self.in_turns {
            return self.body.frame().await;
        }
        if let Some(ready) = self.body.frame().now_or_never() {
            return ready;
        }
        let lasts = self.turn.began.elapsed();
        if lasts > LONGEST_TURN {
            self.turn = Turn::now();
        } else if lasts >= SHORTEST_TURN && self.turn.events >= MUCH {
            sleep(PAUSE).await;
            self.turn = Turn::now();
        }
        self.body.frame().await
    }
}

/// How a line begins that tells of an object.
const ADDED: &[u8] = br#"{"type":"ADDED","object":"#;
const MODIFIED: &[u8] = br#"{"type":"MODIFIED","object":"#;
const DELETED: &[u8] = br#"{"type":"DELETED","object":"#;

fn event(line: &Bytes) -> kube::Result<WatchEvent<RawObject>> {
    let object = |prefix| {
        let object = line.trim_ascii_end().strip_prefix(prefix)?.strip_suffix(b"}")?;
        Some(RawObject::new(line.slice_ref(object)))
    };
    if let Some(object) = object(MODIFIED) {
        return Ok(WatchEvent::Modified(object));
    }
    if let Some(object) = object(ADDED) {
        return Ok(WatchEvent::Added(object));
    }
    if let Some(object) = object(DELETED) {
        return Ok(WatchEvent::Deleted(object));
    }
    let Line { type_, object } = serde_json::from_slice(line).map_err(|error| unexpected(line, error))?;
    let whole = || RawObject::new(Bytes::copy_from_slice(object.get().as_bytes()));
    let read = match &*type_ {
        "ADDED" => Ok(WatchEvent::Added(whole())),
        "MODIFIED" => Ok(WatchEvent::Modified(whole())),
        "DELETED" => Ok(WatchEvent::Deleted(whole())),
        "BOOKMARK" => serde_json::from_str(object.get()).map(WatchEvent::Bookmark),
        "ERROR" => serde_json::from_str(object.get()).map(WatchEvent::Error),
        other => Err(de::Error::unknown_variant(
            other,
            &["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"],
        )),
    };
    read.map_err(kube::Error::SerdeError)
}

/// An event in any other form.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    type_: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// In the place of an event there may be an answer that says what is wrong.
fn unexpected(line: &[u8], error: serde_json::Error) -> kube::Error {
    match serde_json::from_slice::<Status>(line) {
        Ok(status) if status.code != 0 => kube::Error::Api(status.boxed()),
        _ => kube::Error::SerdeError(error),
    }
}

/// Whether the connection ended in the middle, which the server may do at any time.
fn is_cut(error: &kube::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if io == Some(io::ErrorKind::UnexpectedEof) || error.to_string().contains("unexpected EOF during chunk") {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;
    use std::sync::Arc;

    use futures::{Stream, StreamExt as _, stream};
    use http::{Request, Response};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use kube::Client;
    use parking_lot::Mutex;
    use proptest::prelude::*;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    /// What a client makes of an answer with this body.
    async fn body(data: impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static) -> Body {
        let body = StreamBody::new(data.map(|data| data.map(Frame::data)).boxed());
        let body = Arc::new(Mutex::new(Some(body)));
        let service = tower::service_fn(move |_: Request<Body>| {
            let body = body.lock().take().expect("asked once");
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let answer = Client::new(service, "default").send(Request::new(Body::empty())).await;
        answer.expect("an answer").into_body()
    }

    fn line(kind: &str, name: &str) -> String {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{{\"name\":\"{name}\",\"resourceVersion\":\"7\"}}}}}}\n"
        )
    }

    fn name(event: &kube::Result<WatchEvent<RawObject>>) -> String {
        match event {
            Ok(WatchEvent::Added(object)) => format!("+{}", object.meta.name.as_deref().unwrap_or_default()),
            Ok(WatchEvent::Modified(object)) => format!("~{}", object.meta.name.as_deref().unwrap_or_default()),
            Ok(WatchEvent::Deleted(object)) => format!("-{}", object.meta.name.as_deref().unwrap_or_default()),
            Ok(WatchEvent::Bookmark(bookmark)) => format!("={}", bookmark.metadata.resource_version),
            Ok(WatchEvent::Error(status)) => format!("!{}", status.code),
            Err(kube::Error::Api(status)) => format!("?{}", status.code),
            Err(error) => format!("{error}"),
        }
    }

    async fn names(data: Vec<Result<Bytes, io::Error>>) -> Vec<String> {
        let mut events = Events::of(body(stream::iter(data)).await, false);
        let mut names = Vec::new();
        while let Some(event) = events.next().await {
            names.push(name(&event));
        }
        names
    }

    #[tokio::test]
    async fn given_lines_as_a_server_may_write_them_then_each_is_an_event() {
        let bookmark = json!({ "type": "BOOKMARK", "object": { "apiVersion": "v1", "kind": "Node", "metadata": { "resourceVersion": "9" } } });
        let gone = json!({ "type": "ERROR", "object": { "status": "Failure", "message": "too old", "reason": "Expired", "code": 410 } });
        let refused =
            json!({ "kind": "Status", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403 });
        let backwards = r#"{ "object": {"metadata": {"name": "d"}}, "type": "MODIFIED" }"#;
        for (text, expected) in [
            (
                line("ADDED", "a") + &line("MODIFIED", "b") + &line("DELETED", "c"),
                vec!["+a", "~b", "-c"],
            ),
            (format!("{bookmark}\n\n{gone}\r\n"), vec!["=9", "!410"]),
            (format!("{refused}\n"), vec!["?403"]),
            (format!("{backwards}\r\n"), vec!["~d"]),
            // The end of a line may be missing, or the line with it.
            (line("ADDED", "a").trim_end().to_owned(), vec!["+a"]),
            (line("ADDED", "a") + r#"{"type":"MODIFIED","obj"#, vec!["+a"]),
            (String::new(), vec![]),
        ] {
            assert_eq!(names(vec![Ok(text.clone().into())]).await, expected, "{text}");
        }
        let garbage = names(vec![Ok("what\n".into())]).await;
        assert!(garbage[0].contains("expected value"), "{garbage:?}");
    }

    #[tokio::test]
    async fn given_a_connection_that_is_cut_then_the_watch_has_ended_and_other_errors_are_told() {
        let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "gone");
        assert_eq!(names(vec![Ok(line("ADDED", "a").into()), Err(cut)]).await, ["+a"]);
        let broken = names(vec![Err(io::Error::other("a wrong record"))]).await;
        assert!(broken[0].contains("a wrong record"), "{broken:?}");
    }

    proptest! {
        #[test]
        fn given_data_in_any_pieces_then_the_events_are_the_same(cuts in prop::collection::btree_set(0_usize..200, 0..20)) {
            let text = line("ADDED", "a") + &line("MODIFIED", "b") + &line("DELETED", "c") + &line("ADDED", "d");
            let cuts: BTreeSet<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).chain([0, text.len()]).collect();
            let cuts: Vec<usize> = cuts.into_iter().collect();
            let pieces = cuts.windows(2).map(|ends| Ok(Bytes::copy_from_slice(&text.as_bytes()[ends[0]..ends[1]])));
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let names = runtime.block_on(names(pieces.collect()));
            prop_assert_eq!(names, ["+a", "~b", "-c", "+d"]);
        }
    }

    /// A watch that is read in turns, and what feeds it.
    async fn read_in_turns() -> (mpsc::UnboundedSender<Bytes>, Events) {
        let (send, receive) = mpsc::unbounded_channel();
        let data = stream::unfold(receive, |mut receive| async {
            Some((Ok(receive.recv().await?), receive))
        });
        (send, Events::of(body(data).await, true))
    }

    #[tokio::test(start_paused = true)]
    async fn given_few_changes_then_each_is_seen_at_once() {
        let (send, mut events) = read_in_turns().await;
        let begin = Instant::now();
        tokio::spawn(async move {
            for number in 0..100_u32 {
                sleep(Duration::from_millis(10)).await;
                let _ = send.send(Bytes::from(line("MODIFIED", &number.to_string())));
            }
        });
        for number in 1..=100_u128 {
            let _ = events.next().await.expect("an event");
            assert_eq!(begin.elapsed().as_millis(), number * 10);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn given_many_changes_then_they_are_seen_a_few_times_a_second_and_one_after_a_quiet_time_at_once() {
        let (send, mut events) = read_in_turns().await;
        let begin = Instant::now();
        let sent = tokio::spawn(async move {
            for number in 0..500_u32 {
                let _ = send.send(Bytes::from(line("MODIFIED", &number.to_string())));
                sleep(Duration::from_millis(2)).await;
            }
            sleep(Duration::from_secs(10)).await;
            let _ = send.send(Bytes::from(line("MODIFIED", "last")));
        });
        let (mut seen, mut moments) = (Vec::new(), BTreeSet::new());
        let mut last = Duration::ZERO;
        while let Some(event) = events.next().await {
            seen.push(name(&event));
            last = begin.elapsed();
            moments.insert(last.as_millis());
        }
        sent.await.expect("all is sent");
        let all: Vec<_> = (0..500)
            .map(|number| format!("~{number}"))
            .chain(["~last".to_owned()])
            .collect();
        assert_eq!(seen, all);
        // Without turns there would be 501: the first fifty, some of each turn, and the last; the others are found together.
        assert!(moments.len() < 150, "{}", moments.len());
        assert_eq!(last, Duration::from_secs(11));
    }
}
