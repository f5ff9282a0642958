use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;
use kruise_api::revision::ControllerRevision;
use serde_json::json;

use super::super::{Fallback, Target};
use super::*;

fn target(name: &str) -> Target {
    Target::new(Pod::RESOURCE, "shop", name)
}

/// Makes a Pod; both ends are told.
fn create(name: &str) -> Write {
    let write = Write::from(Action::create(target(name), json!({})));
    write
        .then(Event::normal("Done", name))
        .or_else(Event::warning("Failed", name))
}

fn delete(name: &str) -> Write {
    let write = Write::from(Action::delete(target(name), Preconditions::default()));
    write
        .then(Event::normal("Done", name))
        .or_else(Event::warning("Failed", name))
}

/// Chains of one write each.
fn step(pace: Pace, on_failure: OnFailure, count: usize) -> Step {
    let mut step = Step::new(Phase::Scale, pace, on_failure);
    step.chains = (0..count)
        .map(|number| Chain::of(create(&format!("p{number}"))))
        .collect();
    step
}

/// A step of one write.
fn one(write: Write) -> Step {
    Step {
        most: None,
        chains: vec![Chain::of(write)],
        ..Step::new(Phase::Update, Pace::InOrder, OnFailure::Skip)
    }
}

fn status() -> Action {
    Action::merge(target("status"), None, json!({}), Preconditions::default())
}

fn plan(steps: impl IntoIterator<Item = Step>) -> Plan {
    Plan {
        actions: steps.into_iter().collect(),
        status: Some(status()),
        ..Plan::default()
    }
}

fn failed(class: FailureClass) -> Result<(), WriteError> {
    Err(WriteError {
        class,
        message: format!("{class:?}"),
        may_have_applied: false,
    })
}

/// Everything that may be sent now.
fn turns<'p>(progress: &mut Progress<'p>) -> Vec<Turn<'p>> {
    std::iter::from_fn(|| progress.next_turn()).collect()
}

fn names(turns: &[Turn<'_>]) -> Vec<String> {
    turns.iter().map(|turn| turn.action.object().name.clone()).collect()
}

/// Goes through a plan with these failures, answering all that is under way at once. Returns what was sent each time, and what came of it.
fn run<'p>(plan: &'p Plan, failures: &[(&str, FailureClass)]) -> (Vec<Vec<String>>, Finished<'p>) {
    let mut progress = Progress::of(plan);
    let mut sent = Vec::new();
    loop {
        let turns = turns(&mut progress);
        if turns.is_empty() {
            return (sent, progress.finish());
        }
        sent.push(names(&turns));
        for turn in turns {
            let name = &turn.action.object().name;
            let failure = failures.iter().find(|(known, _)| known == name);
            progress.answered(turn, failure.map_or(Ok(()), |(_, class)| failed(*class)));
        }
    }
}

fn counts(sent: &[Vec<String>]) -> Vec<usize> {
    sent.iter().map(Vec::len).collect()
}

#[test]
fn given_a_pace_then_so_many_chains_are_under_way_and_the_status_comes_last() {
    for (pace, chains, expected) in [
        (Pace::InOrder, 3, vec![1, 1, 1, 1]),
        (Pace::Bounded, 300, vec![256, 44, 1]),
        (Pace::SlowStart, 10, vec![1, 2, 4, 3, 1]),
    ] {
        let plan = plan([step(pace, OnFailure::Stop, chains)]);
        let (sent, finished) = run(&plan, &[]);
        assert_eq!(counts(&sent), expected, "{pace:?}");
        assert_eq!(sent.last().unwrap(), &["status"]);
        assert_eq!(finished.outcome, Outcome::default());
    }
    let idle = Plan::default();
    assert!(Progress::of(&idle).next_turn().is_none());
}

#[test]
fn given_a_slow_start_and_one_answer_that_is_late_then_the_others_do_not_wait_for_it() {
    let plan = plan([step(Pace::SlowStart, OnFailure::Skip, 20)]);
    let mut progress = Progress::of(&plan);
    let first = progress.next_turn().unwrap();
    progress.answered(first, Ok(()));
    let mut second = turns(&mut progress);
    let late = second.pop().unwrap();
    let mut others = 0;
    while let Some(turn) = second.pop().or_else(|| progress.next_turn()) {
        progress.answered(turn, Ok(()));
        others += 1;
    }
    assert_eq!(others, 18);
    progress.answered(late, Ok(()));
    assert_eq!(names(&turns(&mut progress)), ["status"]);
}

#[test]
fn given_a_failure_then_the_pace_and_the_step_say_what_is_still_begun() {
    use FailureClass::{Conflict, Denied, Transient};
    use OnFailure::{GoOn, Skip, Stop};
    for (pace, on_failure, class, sent_of_step, goes_on) in [
        (Pace::InOrder, Stop, Conflict, 2, false),
        (Pace::InOrder, Skip, Denied, 9, true),
        (Pace::InOrder, Skip, Transient, 2, true),
        (Pace::InOrder, GoOn, Transient, 9, true),
        // All nine are under way when the answer comes.
        (Pace::Bounded, Stop, Denied, 9, false),
        (Pace::Bounded, GoOn, Denied, 9, true),
        // The second fails while the third is under way; a failure that passes costs the others nothing.
        (Pace::SlowStart, Skip, Denied, 3, true),
        (Pace::SlowStart, GoOn, Transient, 3, true),
        (Pace::SlowStart, Skip, Conflict, 9, true),
        (Pace::SlowStart, Stop, Conflict, 9, false),
    ] {
        let plan = plan([step(pace, on_failure, 9), one(create("next"))]);
        let (sent, finished) = run(&plan, &[("p1", class)]);
        let sent = sent.concat();
        let case = format!("{pace:?} {on_failure:?} {class:?}: {sent:?}");
        assert_eq!(
            sent.iter().filter(|name| name.starts_with('p')).count(),
            sent_of_step,
            "{case}"
        );
        assert_eq!(sent.contains(&"next".to_owned()), goes_on, "{case}");
        assert_eq!(sent.last().unwrap(), "status", "{case}");
        let failures = finished.outcome.failures;
        assert_eq!(failures.len(), 1, "{case}");
        assert_eq!((failures[0].phase, failures[0].class), (Phase::Scale, class), "{case}");
    }
}

#[test]
fn given_a_chain_then_its_first_failure_ends_it_and_only_it() {
    let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::GoOn);
    step.chains = vec![
        [create("a1"), create("a2"), create("a3")].into_iter().collect(),
        Chain::default(),
        [create("b1"), create("b2")].into_iter().collect(),
    ];
    let plan = plan([step]);
    let (mut sent, _) = run(&plan, &[("a2", FailureClass::Denied)]);
    for names in &mut sent {
        names.sort();
    }
    assert_eq!(sent, [vec!["a1", "b1"], vec!["a2", "b2"], vec!["status"]]);
}

#[test]
fn given_answers_in_any_order_then_failures_are_in_the_order_of_the_plan() {
    let plan = plan([step(Pace::Bounded, OnFailure::Skip, 5)]);
    let mut progress = Progress::of(&plan);
    for turn in turns(&mut progress).into_iter().rev() {
        progress.answered(turn, failed(FailureClass::Denied));
    }
    assert_eq!(names(&turns(&mut progress)), ["status"]);
    let failures = progress.finish().outcome.failures;
    let names: Vec<&str> = failures.iter().map(|failure| &*failure.object.name).collect();
    assert_eq!(names, ["p0", "p1", "p2", "p3", "p4"]);
}

#[test]
fn given_an_answer_then_it_says_what_users_are_told() {
    let after = |plan: &Plan, answer| {
        let mut progress = Progress::of(plan);
        let turn = progress.next_turn().unwrap();
        let told = match progress.answered(turn, answer) {
            Meaning::Done(events) => format!("done {}", events.len()),
            Meaning::FoundNothing => "nothing".to_owned(),
            Meaning::Failed(event) => format!("failed {}", event.is_some()),
        };
        (told, names(&turns(&mut progress)))
    };
    let chain = |first: Write| {
        let mut step = Step::new(Phase::Scale, Pace::InOrder, OnFailure::Skip);
        step.push([first, create("behind")].into_iter().collect());
        plan([step])
    };
    for (first, answer, told, next) in [
        (create("x"), Ok(()), "done 1", "behind"),
        (create("x"), failed(FailureClass::Denied), "failed true", "status"),
        // An object that changed meanwhile or is gone is no news; but a deletion of what is gone is no failure at all.
        (create("x"), failed(FailureClass::Conflict), "failed false", "status"),
        (create("x"), failed(FailureClass::Gone), "failed false", "status"),
        (delete("x"), failed(FailureClass::Conflict), "failed false", "status"),
        (delete("x"), failed(FailureClass::Gone), "nothing", "behind"),
    ] {
        assert_eq!(after(&chain(first), answer), (told.to_owned(), vec![next.to_owned()]));
    }
}

#[test]
fn given_a_fallback_then_it_is_done_only_when_its_phase_wrote_nothing_and_the_plan_was_not_ended() {
    let instead = Plan {
        events: vec![Event::normal("Instead", "")],
        wake_after: Some(Duration::from_secs(1)),
        ..plan([one(create("instead"))])
    };
    let with = |on_failure, resource| Plan {
        fallback: Some(Fallback {
            phase: Phase::Scale,
            resource,
            plan: Box::new(instead.clone()),
        }),
        wake_after: Some(Duration::from_secs(5)),
        ..plan([step(Pace::InOrder, on_failure, 1)])
    };
    let lost = Err(WriteError {
        class: FailureClass::Transient,
        message: String::new(),
        may_have_applied: true,
    });
    for (on_failure, resource, answer, is_done) in [
        (OnFailure::Skip, Pod::RESOURCE, Ok(()), false),
        (OnFailure::Skip, ControllerRevision::RESOURCE, Ok(()), true),
        (OnFailure::Skip, Pod::RESOURCE, failed(FailureClass::Denied), true),
        (OnFailure::Skip, Pod::RESOURCE, lost, false),
        (OnFailure::Stop, Pod::RESOURCE, failed(FailureClass::Denied), false),
    ] {
        let plan = with(on_failure, resource);
        let mut progress = Progress::of(&plan);
        let turn = progress.next_turn().unwrap();
        progress.answered(turn, answer);
        let mut sent = Vec::new();
        while let Some(turn) = progress.next_turn() {
            sent.push(turn.action.object().name.clone());
            progress.answered(turn, Ok(()));
        }
        let finished = progress.finish();
        let (expected, wake_after): (&[&str], _) = if is_done {
            (&["instead", "status"], 1)
        } else {
            (&["status"], 5)
        };
        assert_eq!(sent, expected, "{on_failure:?} {resource:?}");
        assert_eq!(finished.wake_after, Some(Duration::from_secs(wake_after)));
        assert_eq!(finished.events.len(), usize::from(is_done));
    }
}

#[test]
fn given_a_status_that_could_not_be_written_then_events_of_the_plan_wait_for_the_next_one() {
    let plan = Plan {
        events: vec![Event::normal("Seen", "")],
        ..plan([])
    };
    let (sent, finished) = run(&plan, &[("status", FailureClass::Conflict)]);
    assert_eq!((sent.concat(), finished.events.len()), (vec!["status".to_owned()], 0));
    assert_eq!(finished.outcome.failures[0].phase, Phase::Housekeeping);
    assert_eq!(run(&plan, &[]).1.events.len(), 1);
}

#[test]
fn given_a_budget_that_refuses_then_only_that_pod_waits_and_it_is_asked_again_after_a_second() {
    let mut update = Step::new(Phase::Update, Pace::InOrder, OnFailure::Skip);
    for pod in ["a", "b"] {
        let mut chain = Chain::of(create(pod));
        chain.guard = Some(Guard::Budget { pod: pod.to_owned() });
        update.chains.push(chain);
    }
    let plan = plan([update, one(delete("c"))]);
    let mut progress = Progress::of(&plan);
    let turn = progress.next_turn().unwrap();
    let question = |pod, disruption| Some(Question { pod, disruption });
    assert_eq!(turn.question(), question("a", Disruption::Update));
    progress.refused(&turn);
    let turn = progress.next_turn().unwrap();
    assert_eq!(turn.question(), question("b", Disruption::Update));
    progress.answered(turn, Ok(()));
    let turn = progress.next_turn().unwrap();
    assert_eq!(turn.question(), question("c", Disruption::Delete));
    progress.refused(&turn);
    let turn = progress.next_turn().unwrap();
    assert_eq!((turn.action.object().name.as_str(), turn.question()), ("status", None));
    progress.answered(turn, Ok(()));
    assert!(progress.next_turn().is_none());
    let finished = progress.finish();
    assert_eq!(finished.outcome.refused, ["a", "c"]);
    assert!(finished.outcome.failures.is_empty());
    assert_eq!(finished.wake_after, Some(Duration::from_secs(1)));
}

#[test]
fn given_a_wish_to_look_again_at_once_then_it_is_granted_only_when_something_was_written() {
    let mut update = Step::new(Phase::Update, Pace::InOrder, OnFailure::Skip);
    let mut chain = Chain::of(create("a"));
    chain.guard = Some(Guard::Budget { pod: "a".to_owned() });
    update.chains.push(chain);
    let wakes = |steps: Vec<Step>| {
        let mut plan = plan(steps);
        plan.wake(Duration::ZERO);
        plan
    };
    let plan = wakes(vec![update]);
    for (is_granted, after) in [(true, Duration::ZERO), (false, ASK_AGAIN)] {
        let mut progress = Progress::of(&plan);
        let turn = progress.next_turn().unwrap();
        if is_granted {
            progress.answered(turn, Ok(()));
        } else {
            progress.refused(&turn);
        }
        let status = progress.next_turn().unwrap();
        progress.answered(status, Ok(()));
        assert_eq!(progress.finish().wake_after, Some(after), "{is_granted}");
    }
    assert_eq!(run(&wakes(Vec::new()), &[]).1.wake_after, Some(ASK_AGAIN));
}
