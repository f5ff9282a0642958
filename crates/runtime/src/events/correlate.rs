//! Which events belong together. No clock inside.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::recent::Recent;
use super::{EventType, Happened, Regarding};
use crate::queue::limit::Bucket;

/// How much is remembered. Beyond that an event is simply made anew.
const REMEMBERED: usize = 4096;
/// With so many different messages of one reason for one object, they are folded.
const DIFFERENT: usize = 10;
const WITHIN: Duration = Duration::from_mins(10);
/// Events for one object: so many at once, and so many per second.
const BURST: u32 = 25;
const RATE: f64 = 1.0 / 300.0;
/// What the server takes.
const LONGEST_MESSAGE: usize = 1024;
const LONGEST_NAME: usize = 253;

/// An event as it is to be written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    key: Key,
    pub(super) seen_before: bool,
    pub(super) name: String,
    pub(super) message: String,
    pub(super) count: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    component: Arc<str>,
    regarding: Regarding,
    event_type: EventType,
    reason: String,
    /// `None` for the event into which similar ones are folded.
    message: Option<String>,
}

#[derive(Debug)]
pub(super) struct Correlator {
    buckets: Recent<(Arc<str>, Regarding), Bucket>,
    similar: Recent<Key, Similar>,
    known: Recent<Key, Event>,
}

#[derive(Debug)]
struct Similar {
    messages: HashSet<String>,
    last: Instant,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            buckets: Recent::new(REMEMBERED),
            similar: Recent::new(REMEMBERED),
            known: Recent::new(REMEMBERED),
        }
    }
}

impl Correlator {
    /// What to write for something that happened at `now`, which is `tick` on the steady clock; `None` when it is too much.
    pub(super) fn judge(&mut self, happened: &Happened, now: Timestamp, tick: Instant) -> Option<Event> {
        // An object stays the same object whatever its version.
        let regarding = Regarding {
            resource_version: String::new(),
            ..happened.regarding.clone()
        };
        let (key, message) = self.fold(happened, regarding.clone(), tick);
        let bucket = self
            .buckets
            .get_or((happened.component.clone(), regarding), || Bucket::new(RATE, BURST));
        if !bucket.try_take(tick) {
            return None;
        }
        let known = self.known.get(&key).cloned();
        let seen_before = known.is_some();
        let event = known.unwrap_or_else(|| Event {
            name: name(&happened.regarding.name, now),
            key,
            seen_before,
            message: String::new(),
            count: 0,
            first: now,
            last: now,
        });
        Some(Event {
            seen_before,
            message: cut(message, LONGEST_MESSAGE),
            count: event.count.saturating_add(1),
            last: now,
            ..event
        })
    }

    /// Remembers an event that the server has.
    pub(super) fn wrote(&mut self, event: &Event) {
        self.known.insert(event.key.clone(), event.clone());
    }

    /// The key under which an event is counted, and its message.
    fn fold(&mut self, happened: &Happened, regarding: Regarding, tick: Instant) -> (Key, String) {
        let alike = Key {
            component: happened.component.clone(),
            regarding,
            event_type: happened.event_type,
            reason: happened.reason.clone(),
            message: None,
        };
        let new = || Similar {
            messages: HashSet::new(),
            last: tick,
        };
        let similar = self.similar.get_or(alike.clone(), new);
        if tick.saturating_duration_since(similar.last) > WITHIN {
            *similar = new();
        }
        similar.last = tick;
        if similar.messages.len() + 1 < DIFFERENT || similar.messages.contains(&happened.message) {
            similar.messages.insert(happened.message.clone());
            let key = Key {
                message: Some(happened.message.clone()),
                ..alike
            };
            return (key, happened.message.clone());
        }
        (alike, format!("(combined from similar events): {}", happened.message))
    }
}

/// `<object>.<time in hexadecimal>`, within what the server takes.
fn name(object: &str, now: Timestamp) -> String {
    let suffix = format!(".{:x}", now.as_nanosecond());
    let room = LONGEST_NAME - suffix.len();
    cut(object.to_owned(), room) + &suffix
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened(object: &str, reason: &str, message: &str) -> Happened {
        Happened {
            component: "cloneset-controller".into(),
            regarding: Regarding {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                namespace: "n".to_owned(),
                name: object.to_owned(),
                uid: format!("uid-{object}"),
                resource_version: "1".to_owned(),
                field_path: String::new(),
            },
            event_type: EventType::Normal,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    struct Fixture {
        correlator: Correlator,
        begin: Instant,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                correlator: Correlator::default(),
                begin: Instant::now(),
            }
        }

        /// What is written for an event at a second, if anything is; the server takes everything.
        fn write(&mut self, second: u64, happened: &Happened) -> Option<Event> {
            let now = Timestamp::UNIX_EPOCH + Duration::from_secs(second);
            let tick = self.begin + Duration::from_secs(second);
            let event = self.correlator.judge(happened, now, tick)?;
            self.correlator.wrote(&event);
            Some(event)
        }
    }

    #[test]
    fn given_the_same_event_again_then_it_is_counted() {
        let mut fixture = Fixture::new();
        let first = fixture.write(1, &happened("a", "Created", "m")).expect("written");
        assert_eq!((first.count, first.seen_before), (1, false));
        assert_eq!(first.name, "a.3b9aca00");
        let mut changed = happened("a", "Created", "m");
        changed.regarding.resource_version = "2".to_owned();
        let second = fixture.write(5, &changed).expect("written");
        assert_eq!((second.count, second.seen_before), (2, true));
        assert_eq!((&second.name, second.first), (&first.name, first.first));
        assert_eq!(second.last.as_second(), 5);
    }

    #[test]
    fn given_another_object_reason_message_or_component_then_it_is_another_event() {
        let mut fixture = Fixture::new();
        let mut other_component = happened("a", "Created", "m");
        other_component.component = "other".into();
        for event in [
            happened("a", "Created", "m"),
            happened("b", "Created", "m"),
            happened("a", "Deleted", "m"),
            happened("a", "Created", "other"),
            other_component,
        ] {
            assert_eq!(fixture.write(1, &event).expect("written").count, 1, "{event:?}");
        }
    }

    #[test]
    fn given_many_different_messages_then_the_tenth_and_later_ones_are_folded_into_one() {
        let mut fixture = Fixture::new();
        for number in 1..=14 {
            let message = format!("pod {number}");
            let event = fixture
                .write(number, &happened("a", "Created", &message))
                .expect("written");
            if number < 10 {
                assert_eq!((event.message.as_str(), event.count), (message.as_str(), 1));
            } else {
                assert_eq!(event.message, format!("(combined from similar events): {message}"));
                assert_eq!(u64::from(event.count), number - 9);
            }
        }
        let known = fixture.write(15, &happened("a", "Created", "pod 3")).expect("written");
        assert_eq!(
            (known.message.as_str(), known.count),
            ("pod 3", 2),
            "a known one is still counted by itself"
        );
        let later = fixture
            .write(15 + 601, &happened("a", "Created", "pod 99"))
            .expect("written");
        assert_eq!(later.message, "pod 99", "after ten quiet minutes it begins anew");
    }

    #[test]
    fn given_a_flood_for_one_object_then_it_is_cut_and_others_are_not() {
        let mut fixture = Fixture::new();
        let event = happened("a", "Created", "m");
        let written = (0..100).filter(|_| fixture.write(1, &event).is_some()).count();
        assert_eq!(written, 25);
        assert!(fixture.write(1, &happened("b", "Created", "m")).is_some());
        assert!(fixture.write(299, &event).is_none());
        assert!(fixture.write(302, &event).is_some());
        assert!(fixture.write(303, &event).is_none());
    }

    #[test]
    fn given_long_texts_then_they_are_cut_to_what_the_server_takes() {
        let mut fixture = Fixture::new();
        let event = fixture
            .write(1, &happened(&"n".repeat(253), "Created", &"ä".repeat(1000)))
            .expect("written");
        assert_eq!(event.message.len(), 1024);
        assert_eq!(event.name.len(), 253);
    }
}
