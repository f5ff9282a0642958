//! Listing and watching objects, for programs and tests that keep no store.
//!
//! - A list comes in pages; what it brings stands between [`Event::Init`] and [`Event::InitDone`].
//! - A watch that ends is opened again where it was. One that the server has forgotten (410) becomes a new list.
//! - What goes wrong is told, and tried again after a pause that doubles.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

const PAGE: u32 = 500;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is seen of objects.
#[derive(Clone, Debug)]
pub enum Event<K> {
    /// A list begins.
    Init,
    /// An object of the list.
    InitApply(K),
    /// The list is complete: what it did not contain is gone.
    InitDone,
    /// An object was made or changed.
    Apply(K),
    /// An object was deleted.
    Delete(K),
}

/// Objects that can be watched.
pub trait Watchable: Resource + Clone + Debug + DeserializeOwned + Send + 'static {}

impl<K: Resource + Clone + Debug + DeserializeOwned + Send + 'static> Watchable for K {}

/// Returns what happens to all objects.
pub fn events<K: Watchable>(api: Api<K>) -> impl Stream<Item = kube::Result<Event<K>>> + Send {
    follow(api, Chosen::default())
}

/// Returns what happens to the objects that a field selector chooses.
pub fn events_of<K: Watchable>(
    api: Api<K>,
    fields: &str,
) -> impl Stream<Item = kube::Result<Event<K>>> + Send + use<K> {
    let fields = Some(fields.to_owned());
    follow(api, Chosen { fields, labels: None })
}

/// Returns what happens to the objects that a label selector chooses.
pub fn events_labelled<K: Watchable>(
    api: Api<K>,
    labels: &str,
) -> impl Stream<Item = kube::Result<Event<K>>> + Send + use<K> {
    let labels = Some(labels.to_owned());
    follow(api, Chosen { fields: None, labels })
}

/// Returns the objects that are there, and each that is made or changed.
pub fn applied<K: Watchable>(api: Api<K>) -> impl Stream<Item = kube::Result<K>> + Send {
    events(api).filter_map(|event| {
        ready(match event {
            Ok(Event::InitApply(object) | Event::Apply(object)) => Some(Ok(object)),
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) => None,
            Err(error) => Some(Err(error)),
        })
    })
}

/// Returns the versions of an object; nothing while it does not exist.
pub fn versions<K: Watchable>(api: Api<K>, name: &str) -> impl Stream<Item = kube::Result<Option<K>>> + Send + use<K> {
    let mut is_listed = false;
    events_of(api, &format!("metadata.name={name}")).filter_map(move |event| {
        ready(match event {
            Ok(Event::Init) => {
                is_listed = false;
                None
            }
            Ok(Event::InitApply(object)) => {
                is_listed = true;
                Some(Ok(Some(object)))
            }
            Ok(Event::InitDone) => (!is_listed).then_some(Ok(None)),
            Ok(Event::Apply(object)) => Some(Ok(Some(object))),
            Ok(Event::Delete(_)) => Some(Ok(None)),
            Err(error) => Some(Err(error)),
        })
    })
}

/// Selectors of the objects that are followed; all objects without any.
#[derive(Default)]
struct Chosen {
    fields: Option<String>,
    labels: Option<String>,
}

fn follow<K: Watchable>(api: Api<K>, chosen: Chosen) -> impl Stream<Item = kube::Result<Event<K>>> + Send {
    let begin = Follower {
        api,
        chosen,
        events: VecDeque::new(),
        state: State::List(None),
        pause: None,
    };
    stream::unfold(begin, |mut this| async {
        let item = this.next().await;
        Some((item, this))
    })
}

struct Follower<K> {
    api: Api<K>,
    chosen: Chosen,
    /// What is still to be told.
    events: VecDeque<Event<K>>,
    state: State<K>,
    /// How long to rest before the server is asked again.
    pause: Option<Duration>,
}

enum State<K> {
    /// The next page is to be asked for; the first without a token.
    List(Option<String>),
    /// Everything up to this version is known.
    Known(String),
    Open(String, BoxStream<'static, kube::Result<WatchEvent<K>>>),
}

impl<K: Watchable> Follower<K> {
    async fn next(&mut self) -> kube::Result<Event<K>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                self.pause = None;
                return Ok(event);
            }
            let step = self.step().await;
            if let Err(error) = step {
                self.rest_longer();
                return Err(error);
            }
        }
    }

    fn rest_longer(&mut self) {
        let longer = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        self.pause = Some(longer);
    }

    /// Goes a step further. After an error it begins anew, unless it has said otherwise.
    async fn step(&mut self) -> kube::Result<()> {
        match std::mem::replace(&mut self.state, State::List(None)) {
            State::List(token) => {
                rest(self.pause).await;
                self.list(token).await
            }
            State::Known(version) => {
                rest(self.pause).await;
                let params = WatchParams {
                    field_selector: self.chosen.fields.clone(),
                    label_selector: self.chosen.labels.clone(),
                    ..WatchParams::default()
                };
                let opened = self.api.watch(&params, &version).await.map(StreamExt::boxed);
                match opened {
                    Ok(events) => self.state = State::Open(version, events),
                    Err(error) => {
                        self.failed(&error, version);
                        return Err(error);
                    }
                }
                Ok(())
            }
            State::Open(version, events) => self.watch(version, events).await,
        }
    }

    /// Goes on where it was, unless the server has forgotten that.
    fn failed(&mut self, error: &kube::Error, version: String) {
        if !matches!(error, kube::Error::Api(status) if status.code == 410) {
            self.state = State::Known(version);
        }
    }

    async fn list(&mut self, token: Option<String>) -> kube::Result<()> {
        let params = ListParams {
            field_selector: self.chosen.fields.clone(),
            label_selector: self.chosen.labels.clone(),
            limit: Some(PAGE),
            continue_token: token.clone(),
            ..ListParams::default()
        };
        let list = self.api.list(&params).await?;
        if token.is_none() {
            self.events.push_back(Event::Init);
        }
        self.events.extend(list.items.into_iter().map(Event::InitApply));
        self.state = if let Some(next) = list.metadata.continue_.filter(|token| !token.is_empty()) {
            State::List(Some(next))
        } else {
            self.events.push_back(Event::InitDone);
            State::Known(list.metadata.resource_version.unwrap_or_default())
        };
        Ok(())
    }

    async fn watch(
        &mut self,
        version: String,
        mut events: BoxStream<'static, kube::Result<WatchEvent<K>>>,
    ) -> kube::Result<()> {
        let (event, object) = match events.next().await {
            None => {
                self.state = State::Known(version);
                // One that ends as soon as it is open must not be asked for without a pause.
                self.pause = Some(FIRST_PAUSE);
                return Ok(());
            }
            Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                self.state = State::Open(bookmark.metadata.resource_version, events);
                return Ok(());
            }
            Some(Ok(WatchEvent::Error(status))) => {
                let error = kube::Error::Api(status);
                self.failed(&error, version);
                return Err(error);
            }
            Some(Err(error)) => {
                self.failed(&error, version);
                return Err(error);
            }
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                (Event::Apply as fn(K) -> Event<K>, object)
            }
            Some(Ok(WatchEvent::Deleted(object))) => (Event::Delete as fn(K) -> Event<K>, object),
        };
        let version = object.resource_version().unwrap_or(version);
        self.state = State::Open(version, events);
        self.events.push_back(event(object));
        Ok(())
    }
}

async fn rest(pause: Option<Duration>) {
    if let Some(pause) = pause {
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests;
