//! One copy for each Secret, also when several jobs need it at the same moment.
//!
//! Jobs are worked on side by side. Of those that find no copy, the first makes it; the others look again shortly after, and find it.

use kruise_core::plan::{Action, Plan};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// How long a copy that was made may take to be seen.
const PATIENCE: Duration = Duration::from_secs(10);
/// When others look again.
pub(super) const AGAIN: Duration = Duration::from_millis(100);

/// The Secrets of which a copy is being made, by `namespace/name`.
#[derive(Debug, Default)]
pub(super) struct Copies(Mutex<HashMap<String, Instant>>);

impl Copies {
    /// Takes on the copies that a plan makes; false when somebody else is at one of them.
    pub(super) fn begin(&self, plan: &Plan) -> bool {
        let wanted = made(plan);
        if wanted.is_empty() {
            return true;
        }
        let mut begun = self.0.lock();
        begun.retain(|_, since| since.elapsed() < PATIENCE);
        if wanted.iter().any(|source| begun.contains_key(source)) {
            return false;
        }
        begun.extend(wanted.into_iter().map(|source| (source, Instant::now())));
        true
    }

    /// Gives up the copies of a plan that failed.
    pub(super) fn fail(&self, plan: &Plan) {
        let mut begun = self.0.lock();
        for source in made(plan) {
            begun.remove(&source);
        }
    }

    /// A copy of this Secret was seen.
    pub(super) fn seen(&self, source: &str) {
        self.0.lock().remove(source);
    }
}

fn made(plan: &Plan) -> Vec<String> {
    let sources = plan.writes().filter_map(|action| match action {
        Action::CopySecret {
            from: Some(from),
            preconditions: None,
            ..
        } => Some(format!("{}/{}", from.namespace, from.name)),
        _ => None,
    });
    sources.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_api::{kind::Kind as _, secret::Secret};
    use kruise_core::plan::{Chain, OnFailure, Pace, Phase, Step, Target};
    use std::collections::BTreeMap;

    fn copying(source: &str) -> Plan {
        let action = Action::CopySecret {
            object: Target::new(Secret::RESOURCE, "config", "copy"),
            from: Some(Target::new(Secret::RESOURCE, "shop", source)),
            annotations: BTreeMap::new(),
            preconditions: None,
        };
        let mut step = Step::new(Phase::Secrets, Pace::InOrder, OnFailure::Stop);
        step.push(Chain::of(action.into()));
        let mut plan = Plan::default();
        plan.push(step);
        plan
    }

    #[test]
    fn given_two_that_need_a_copy_then_the_second_waits_until_it_is_seen_or_failed() {
        let copies = Copies::default();
        assert!(copies.begin(&copying("a")));
        assert!(!copies.begin(&copying("a")));
        assert!(copies.begin(&copying("b")), "others go on");
        assert!(copies.begin(&Plan::default()));
        copies.fail(&copying("a"));
        assert!(copies.begin(&copying("a")));
        copies.seen("shop/a");
        assert!(copies.begin(&copying("a")));
    }
}
