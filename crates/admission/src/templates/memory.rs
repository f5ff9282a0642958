//! What the API server said of which template.

use super::TemplateCheck;
use sha2::{Digest as _, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Entries that are kept at most; the oldest goes first.
const MOST: usize = 2048;
/// The API server may be upgraded: what it said is asked anew now and then.
const LIFE: Duration = Duration::from_mins(10);

/// The content of a template, by hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn of(kind: &str, content: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(kind);
        hash.update([0]);
        hash.update(content);
        Self(hash.finalize().into())
    }
}

/// The memory itself.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    checks: HashMap<Key, (TemplateCheck, Instant)>,
    order: VecDeque<Key>,
}

impl Memory {
    pub(super) fn recall(&self, key: &Key, now: Instant) -> Option<TemplateCheck> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (check, until) = known.checks.get(key)?;
        (now < *until).then(|| check.clone())
    }

    pub(super) fn remember(&self, key: Key, check: TemplateCheck, now: Instant) {
        self.remember_for_now(key, check, now + LIFE);
    }

    pub(super) fn remember_for_now(&self, key: Key, check: TemplateCheck, until: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.checks.insert(key, (check, until)).is_none() {
            known.order.push_back(key);
        }
        if known.order.len() > MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.checks.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::of("x", &number.to_be_bytes())
    }

    #[test]
    fn given_an_answer_then_it_is_remembered_for_a_while() {
        let (memory, now) = (Memory::default(), Instant::now());
        assert_eq!(memory.recall(&key(1), now), None);
        memory.remember(key(1), TemplateCheck::Good, now);
        assert_eq!(
            memory.recall(&key(1), now + Duration::from_mins(9)),
            Some(TemplateCheck::Good)
        );
        assert_eq!(memory.recall(&key(1), now + LIFE), None);
        assert_eq!(
            memory.recall(&Key::of("y", &1_usize.to_be_bytes()), now),
            None,
            "another kind"
        );
    }

    #[test]
    fn given_too_many_answers_then_the_oldest_goes() {
        let (memory, now) = (Memory::default(), Instant::now());
        for number in 0..=MOST {
            memory.remember(key(number), TemplateCheck::Good, now);
        }
        assert_eq!(memory.recall(&key(0), now), None);
        assert_eq!(memory.recall(&key(1), now), Some(TemplateCheck::Good));
        assert_eq!(memory.recall(&key(MOST), now), Some(TemplateCheck::Good));
    }
}
