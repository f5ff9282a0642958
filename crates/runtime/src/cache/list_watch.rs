//! Listing a kind, and then watching it, for as long as somebody asks what comes next.
//!
//! - A list comes in pages, whose size follows what the objects weigh, and object by object out of each page.
//! - A watch that ends is resumed where it was; one that the server has forgotten (410) becomes a new list.
//! - Nothing is waited for without end. Each answer, and each further part of a list, has to come in time; a watch of which nothing is heard although the
//!   server should have ended it is given up. What is late is an error like any other.
//! - A watch that ends as soon as it is open, and has told nothing, is an error, too: whoever resumed it at once would do so for ever.

use std::collections::VecDeque;
use std::time::Duration;

use futures::Stream;
use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::core::{Request, Status};
use tokio::time::{Instant, timeout};

use super::decode::RawObject;
use super::events::Events;
use super::page::{ListMeta, Page, PageSize};

/// What to list and watch.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// The path of the collection.
    pub(crate) path: String,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// Most objects of a page.
    pub(crate) page_size: u32,
    /// The server is asked for nothing but metadata.
    pub(crate) metadata_only: bool,
    /// The watch is read a few times a second when there is much in it.
    pub(crate) in_turns: bool,
    /// How long the server may take to answer.
    pub(crate) deadline: Duration,
}

/// What listing and watching a kind brings.
#[derive(Debug)]
pub(crate) enum ListWatchEvent {
    ListBegins,
    Listed(RawObject),
    ListEnds,
    /// A watch was opened, and every change up to this version has been told.
    Opened(u64),
    /// Every change up to this version has been told.
    Reached(u64),
    Applied(RawObject),
    Deleted(RawObject),
}

/// Why nothing came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListWatchError {
    #[error("list: {0}")]
    List(#[source] kube::Error),
    #[error("open the watch: {0}")]
    Open(#[source] kube::Error),
    #[error("watch: {0}")]
    Watch(#[source] kube::Error),
    #[error("the watch ended as soon as it was open")]
    Short,
    #[error("the server did not say at which version")]
    NoVersion,
}

impl ListWatchError {
    /// The code of the server's answer, if there was one.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::List(kube::Error::Api(status))
            | Self::Open(kube::Error::Api(status))
            | Self::Watch(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }
}

/// The server ends a watch after this time, so that one which died silently is noticed.
const WATCH_SECONDS: u32 = 120;
/// A watch that should have ended is given up after this time.
const LONGEST_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// A watch that lasts for a shorter time and tells nothing has not been one.
const SHORT: Duration = Duration::from_secs(1);

/// Returns everything that the server tells, for ever. After an error the next item is the next attempt.
pub(crate) fn list_watch(
    client: Client,
    selection: Selection,
) -> impl Stream<Item = Result<ListWatchEvent, ListWatchError>> + Send + 'static {
    let begin = ListWatch {
        page_size: PageSize::at_most(selection.page_size),
        client,
        selection,
        state: State::Begin,
    };
    futures::stream::unfold(begin, |mut this| async {
        let item = this.next().await;
        Some((item, this))
    })
}

struct ListWatch {
    client: Client,
    selection: Selection,
    page_size: PageSize,
    state: State,
}

enum State {
    Begin,
    /// The next page is to be asked for; the token is empty for the first.
    NextPage(String),
    Listing(Arriving),
    /// Everything up to this version is known.
    Known(String),
    Watching(Watch),
}

/// An open watch.
struct Watch {
    /// Everything up to this version is known.
    version: String,
    events: Events,
    opened: Instant,
    has_events: bool,
}

/// A page that is being read.
struct Arriving {
    body: Body,
    page: Page,
    items: VecDeque<RawObject>,
    objects: u32,
    bytes: u64,
}

impl ListWatch {
    async fn next(&mut self) -> Result<ListWatchEvent, ListWatchError> {
        loop {
            // After an error it begins anew, unless the arm says otherwise.
            match std::mem::replace(&mut self.state, State::Begin) {
                State::Begin => {
                    self.state = State::NextPage(String::new());
                    return Ok(ListWatchEvent::ListBegins);
                }
                State::NextPage(token) => {
                    let page = self.ask(token).await.map_err(ListWatchError::List)?;
                    self.state = State::Listing(page);
                }
                State::Listing(mut page) => {
                    if let Some(object) = page.items.pop_front() {
                        self.state = State::Listing(page);
                        return Ok(ListWatchEvent::Listed(object));
                    }
                    let end = page.read(self.selection.deadline).await;
                    let Some(list) = end.map_err(ListWatchError::List)? else {
                        self.state = State::Listing(page);
                        continue;
                    };
                    self.page_size.was(page.objects, page.bytes);
                    if list.next.is_empty() {
                        if list.resource_version.is_empty() {
                            return Err(ListWatchError::NoVersion);
                        }
                        self.state = State::Known(list.resource_version);
                        return Ok(ListWatchEvent::ListEnds);
                    }
                    self.state = State::NextPage(list.next);
                }
                State::Known(version) => match self.open(&version).await {
                    Ok(events) => {
                        let reached = number(&version);
                        self.state = State::Watching(Watch {
                            version,
                            events,
                            opened: Instant::now(),
                            has_events: false,
                        });
                        return Ok(ListWatchEvent::Opened(reached));
                    }
                    Err(error) => {
                        self.state = State::Known(version);
                        return Err(ListWatchError::Open(error));
                    }
                },
                State::Watching(watch) => {
                    if let Some(item) = self.watch(watch).await {
                        return item;
                    }
                }
            }
        }
    }

    async fn ask(&mut self, token: String) -> kube::Result<Arriving> {
        let params = ListParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            limit: Some(self.page_size.objects()),
            continue_token: Some(token).filter(|token| !token.is_empty()),
            ..ListParams::default()
        };
        let request = Request::new(&self.selection.path);
        let request = if self.selection.metadata_only {
            request.list_metadata(&params)
        } else {
            request.list(&params)
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let body = send(&self.client, self.selection.deadline, request).await?;
        Ok(Arriving {
            body,
            page: Page::default(),
            items: VecDeque::new(),
            objects: 0,
            bytes: 0,
        })
    }

    async fn open(&mut self, version: &str) -> kube::Result<Events> {
        let params = WatchParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = Request::new(&self.selection.path);
        let request = if self.selection.metadata_only {
            request.watch_metadata(&params, version)
        } else {
            request.watch(&params, version)
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        // Newer servers would compress each event by itself.
        let identity = HeaderValue::from_static("identity");
        request.headers_mut().insert(ACCEPT_ENCODING, identity);
        let body = send(&self.client, self.selection.deadline, request).await?;
        Ok(Events::of(body, self.selection.in_turns))
    }

    /// The next thing that a watch tells; nothing when it has ended as it should.
    async fn watch(&mut self, watch: Watch) -> Option<Result<ListWatchEvent, ListWatchError>> {
        let Watch {
            version,
            mut events,
            opened,
            has_events,
        } = watch;
        let Ok(event) = timeout(LONGEST_SILENCE, events.next()).await else {
            self.state = State::Known(version);
            return Some(Err(ListWatchError::Watch(late(LONGEST_SILENCE))));
        };
        let (event, version) = match event {
            None => {
                self.state = State::Known(version);
                let is_short = !has_events && opened.elapsed() < SHORT;
                return is_short.then_some(Err(ListWatchError::Short));
            }
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                let version = object.meta.resource_version.clone();
                (ListWatchEvent::Applied(object), version)
            }
            Some(Ok(WatchEvent::Deleted(object))) => {
                let version = object.meta.resource_version.clone();
                (ListWatchEvent::Deleted(object), version)
            }
            Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                let version = bookmark.metadata.resource_version;
                (ListWatchEvent::Reached(number(&version)), Some(version))
            }
            Some(Ok(WatchEvent::Error(status))) => {
                if status.code != 410 {
                    self.state = State::Known(version);
                }
                return Some(Err(ListWatchError::Watch(kube::Error::Api(status))));
            }
            Some(Err(error)) => {
                self.state = State::Known(version);
                return Some(Err(ListWatchError::Watch(error)));
            }
        };
        let Some(version) = version.filter(|version| !version.is_empty()) else {
            return Some(Err(ListWatchError::NoVersion));
        };
        self.state = State::Watching(Watch {
            version,
            events,
            opened,
            has_events: true,
        });
        Some(Ok(event))
    }
}

impl Arriving {
    /// Reads on; what the list says about itself is known at its end.
    async fn read(&mut self, deadline: Duration) -> kube::Result<Option<ListMeta>> {
        let Some(frame) = in_time(deadline, async { self.body.frame().await.transpose() }).await? else {
            let list = self.page.end().map_err(kube::Error::SerdeError)?;
            return Ok(Some(list.metadata));
        };
        let Ok(data) = frame.into_data() else {
            return Ok(None);
        };
        self.bytes += data.len() as u64;
        let (items, objects) = (&mut self.items, &mut self.objects);
        let mut broken = None;
        self.page.push(&data, |item| match serde_json::from_slice(item) {
            Ok(object) => {
                *objects += 1;
                items.push_back(object);
            }
            Err(error) => broken = Some(error),
        });
        broken.map_or(Ok(None), |error| Err(kube::Error::SerdeError(error)))
    }
}

/// Sends a request; an answer that is no success is an error.
async fn send(client: &Client, deadline: Duration, request: http::Request<Vec<u8>>) -> kube::Result<Body> {
    let answer = in_time(deadline, client.send(request.map(Body::from))).await?;
    let (head, body) = answer.into_parts();
    if head.status.is_success() {
        return Ok(body);
    }
    let body = in_time(deadline, body.collect()).await?.to_bytes();
    let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        let text: String = String::from_utf8_lossy(&body).chars().take(500).collect();
        Status::failure(&text, "")
    });
    Err(kube::Error::Api(status.with_code(head.status.as_u16()).boxed()))
}

async fn in_time<T>(deadline: Duration, answer: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    timeout(deadline, answer).await.unwrap_or_else(|_| Err(late(deadline)))
}

fn late(deadline: Duration) -> kube::Error {
    kube::Error::Service(format!("the API server has not said anything for {deadline:?}").into())
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::StreamExt as _;
    use http::{Request, Response};
    use serde_json::json;

    use super::*;

    /// What comes from a server whose watches tell this and end.
    async fn comes(events: &'static str) -> Vec<Result<ListWatchEvent, ListWatchError>> {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let list = json!({ "metadata": { "resourceVersion": "7" }, "items": [] }).to_string();
            let text = if is_watch { events.to_owned() } else { list };
            Ok::<_, Infallible>(Response::new(Body::from(text.into_bytes())))
        });
        let selection = Selection {
            path: "/api/v1/configmaps".to_owned(),
            labels: None,
            fields: None,
            page_size: 10,
            metadata_only: false,
            in_turns: false,
            deadline: Duration::from_secs(10),
        };
        let all = list_watch(Client::new(service, "default"), selection);
        all.take(5).collect().await
    }

    #[tokio::test]
    async fn given_watches_that_end_at_once_then_they_are_failures_unless_they_told_something() {
        let nothing = comes("").await;
        let [
            Ok(ListWatchEvent::ListBegins),
            Ok(ListWatchEvent::ListEnds),
            Ok(ListWatchEvent::Opened(7)),
            Err(ListWatchError::Short),
            Ok(ListWatchEvent::Opened(7)),
        ] = &nothing[..]
        else {
            panic!("{nothing:?}")
        };
        let bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"resourceVersion\":\"8\"}}}\n";
        let something = comes(bookmark).await;
        let [
            Ok(ListWatchEvent::ListBegins),
            Ok(ListWatchEvent::ListEnds),
            Ok(ListWatchEvent::Opened(7)),
            Ok(ListWatchEvent::Reached(8)),
            Ok(ListWatchEvent::Opened(8)),
        ] = &something[..]
        else {
            panic!("{something:?}")
        };
    }
}
