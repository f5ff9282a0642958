//! The rules of the queue as a state machine. Time comes in as an argument.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::limit::{Bucket, KeyBackOff, Limits};
use crate::shrink::shrink_if_empty;

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Nobody waits for it: the objects that were there at the start, and looking again after a long time.
    Background,
    /// Something has changed, or it is time.
    Change,
}

/// After so many changes in a row, one of the background gets its turn: a busy cluster must not keep it waiting for ever.
const TURN: u32 = 16;

/// Keys that wait, keys for later, keys in flight.
#[derive(Debug)]
pub struct State<T> {
    entries: HashMap<T, Entry>,
    /// In the order of hand-out within each priority.
    ready: [BTreeMap<u64, T>; 2],
    later: BTreeMap<(Instant, u64), T>,
    numbers: u64,
    changes_in_a_row: u32,
    shut_down: bool,
    added: u64,
    back_off: KeyBackOff<T>,
    bucket: Bucket,
}

#[derive(Debug, Default)]
struct Entry {
    /// Waits to be handed out.
    ready: Option<Ready>,
    /// Is to be added at this time.
    later: Option<(Instant, u64, Priority)>,
    /// Was handed out at this time.
    taken: Option<Instant>,
    /// Was added while in flight.
    again: Option<Priority>,
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    number: u64,
    priority: Priority,
    since: Instant,
}

/// How long the keys in flight have been worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ages {
    /// All of them together.
    pub total: Duration,
    /// The one that takes longest.
    pub longest: Duration,
}

impl<T: Clone + Eq + Hash + Ord> State<T> {
    /// An empty queue.
    pub fn new(limits: Limits) -> Self {
        Self {
            entries: HashMap::new(),
            ready: [BTreeMap::new(), BTreeMap::new()],
            later: BTreeMap::new(),
            numbers: 0,
            changes_in_a_row: 0,
            shut_down: false,
            added: 0,
            back_off: KeyBackOff::new(&limits),
            bucket: Bucket::new(limits.rate, limits.burst),
        }
    }

    /// Adds a key; false when it was waiting already.
    pub fn add(&mut self, key: T, priority: Priority, now: Instant) -> bool {
        let added = !self.shut_down && self.insert(key, priority, now);
        self.added += u64::from(added);
        added
    }

    fn insert(&mut self, key: T, priority: Priority, now: Instant) -> bool {
        let number = self.number();
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.taken.is_some() {
            let new = entry.again.is_none();
            entry.again = entry.again.max(Some(priority));
            return new;
        }
        match entry.ready {
            Some(ready) if ready.priority >= priority => false,
            Some(ready) => {
                // A higher priority: it moves to the end of the better row and keeps its age.
                self.ready[ready.priority as usize].remove(&ready.number);
                entry.ready = Some(Ready {
                    number,
                    priority,
                    since: ready.since,
                });
                self.ready[priority as usize].insert(number, key);
                false
            }
            None => {
                entry.ready = Some(Ready {
                    number,
                    priority,
                    since: now,
                });
                self.ready[priority as usize].insert(number, key);
                true
            }
        }
    }

    /// Adds a key after a delay; an earlier time that was set before stays.
    pub fn add_after(&mut self, key: T, priority: Priority, delay: Duration, now: Instant) {
        let due = now.checked_add(delay);
        let Some(due) = due.filter(|_| !delay.is_zero() && !self.shut_down) else {
            // A delay beyond all times is never.
            if delay.is_zero() {
                self.add(key, priority, now);
            }
            return;
        };
        let number = self.number();
        let entry = self.entries.entry(key.clone()).or_default();
        let mut priority = priority;
        if let Some((earlier, old_number, old_priority)) = entry.later {
            priority = priority.max(old_priority);
            if earlier <= due {
                entry.later = Some((earlier, old_number, priority));
                return;
            }
            self.later.remove(&(earlier, old_number));
        }
        entry.later = Some((due, number, priority));
        self.later.insert((due, number), key);
    }

    /// Adds a key whose work failed, after a pause of its own that is not longer than this. Returns the pause.
    pub fn add_limited(&mut self, key: T, priority: Priority, longest: Duration, now: Instant) -> Duration {
        let pause = self.back_off.next(key.clone(), longest).max(self.bucket.take(now));
        self.add_after(key, priority, pause, now);
        pause
    }

    /// Forgets the failures of a key.
    pub fn forget(&mut self, key: &T) {
        self.back_off.forget(key);
    }

    /// Returns the next key, the priority under which it came, and how long it waited.
    pub fn take(&mut self, now: Instant) -> Option<(T, Priority, Duration)> {
        if self.shut_down {
            return None;
        }
        self.wake(now);
        let [background, changes] = &mut self.ready;
        let turn = self.changes_in_a_row >= TURN && !background.is_empty();
        let (key, priority) = if changes.is_empty() || turn {
            self.changes_in_a_row = 0;
            (background.pop_first()?.1, Priority::Background)
        } else {
            self.changes_in_a_row += 1;
            (changes.pop_first()?.1, Priority::Change)
        };
        let entry = self.entries.entry(key.clone()).or_default();
        let since = entry.ready.take().map_or(now, |ready| ready.since);
        entry.taken = Some(now);
        Some((key, priority, now.saturating_duration_since(since)))
    }

    /// Ends the work on a key. Returns how long it took.
    pub fn done(&mut self, key: &T, now: Instant) -> Duration {
        let Some(entry) = self.entries.get_mut(key) else {
            return Duration::ZERO;
        };
        let taken = entry.taken.take();
        let again = entry.again.take();
        if entry.later.is_none() && entry.ready.is_none() {
            self.entries.remove(key);
            shrink_if_empty(&mut self.entries);
        }
        if let Some(priority) = again.filter(|_| !self.shut_down) {
            // It was counted when it was added.
            self.insert(key.clone(), priority, now);
        }
        taken.map_or(Duration::ZERO, |taken| now.saturating_duration_since(taken))
    }

    /// Returns when the next key for later is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns the number of keys that wait to be handed out.
    pub fn len(&self) -> usize {
        self.ready.iter().map(BTreeMap::len).sum()
    }

    /// Whether nothing waits to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops everything that waits, and takes in nothing any more. Keys in flight can still be told as done.
    pub fn shut_down(&mut self) {
        self.shut_down = true;
        self.ready = [BTreeMap::new(), BTreeMap::new()];
        self.later.clear();
        self.entries.retain(|_, entry| {
            *entry = Entry {
                taken: entry.taken,
                ..Entry::default()
            };
            entry.taken.is_some()
        });
    }

    /// Whether it was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    /// Returns how many keys were added since this was last asked, those whose time had come included.
    pub fn added(&mut self) -> u64 {
        std::mem::take(&mut self.added)
    }

    /// Returns how long the keys in flight have been worked on.
    pub fn ages(&self, now: Instant) -> Ages {
        let taken = self.entries.values().filter_map(|entry| entry.taken);
        taken.fold(Ages::default(), |ages, taken| {
            let age = now.saturating_duration_since(taken);
            Ages {
                total: ages.total + age,
                longest: ages.longest.max(age),
            }
        })
    }

    /// Adds the keys whose time has come.
    fn wake(&mut self, now: Instant) {
        while let Some(first) = self.later.first_entry() {
            if first.key().0 > now {
                return;
            }
            let key = first.remove();
            let later = self.entries.get_mut(&key).and_then(|entry| entry.later.take());
            let (_, _, priority) = later.unwrap_or((now, 0, Priority::Change));
            self.add(key, priority, now);
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

#[cfg(test)]
mod tests;
