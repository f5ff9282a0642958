//! Objects with schedules in a model of a cluster, with a clock that goes as told.

use kruise_api::broadcastjob::v1beta1::BroadcastJob;
use kruise_api::imagelistpulljob::v1beta1::ImageListPullJob;
use kruise_api::job::Job;
use kruise_api::kind::Kind as _;
use kruise_api::resource::Resource;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::plan::harness::{Cluster, name_of};
use crate::plan::{Action, Env};

/// An object `tick`, made at 10:00:00 on 1 May 2026.
#[derive(Clone)]
struct World {
    cluster: Cluster,
    kind: &'static Resource,
    last: Outcome,
}

fn broadcast_template() -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]});
    json!({"broadcastJobTemplate": {"spec": {"template": {"spec": pod}}}})
}

impl World {
    fn new(changes: &Value) -> Self {
        let mut spec = json!({
            "schedule": "* * * * *", "concurrencyPolicy": "Allow", "paused": false,
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1, "template": broadcast_template(),
        });
        kruise_api::merge_patch::merge(&mut spec, changes);
        let template = &spec["template"];
        let kind = if template["jobTemplate"].is_object() {
            Job::RESOURCE
        } else if template["imageListPullJobTemplate"].is_object() {
            ImageListPullJob::RESOURCE
        } else {
            BroadcastJob::RESOURCE
        };
        let mut cluster = Cluster::at("2026-05-01T10:00:00Z".parse().unwrap());
        let cron = json!({"metadata": {"name": "tick", "namespace": "shop", "uid": "u-tick"}, "spec": spec});
        cluster.put(AdvancedCronJob::RESOURCE, cron);
        Self {
            cluster,
            kind,
            last: Outcome::default(),
        }
    }

    fn observe(&self) -> Observed {
        let cron = self.cluster.get(AdvancedCronJob::RESOURCE, "tick").unwrap().clone();
        let child = |job: &Value| match self.kind.kind {
            "Job" => Child::of_job(&serde_json::from_value(job.clone()).unwrap()),
            "BroadcastJob" => Child::of_broadcast_job(&serde_json::from_value(job.clone()).unwrap()),
            _ => Child::of_image_list_pull_job(&serde_json::from_value(job.clone()).unwrap()),
        };
        Observed {
            cron: Arc::new(serde_json::from_value(cron).unwrap()),
            children: self.cluster.all(self.kind).map(child).collect(),
            last: self.last.clone(),
        }
    }

    fn round_of(&mut self, writes: usize) -> Plan {
        let plan = plan(&self.observe(), &Env::at(self.cluster.now));
        self.last = self.cluster.apply(&plan, writes);
        plan
    }

    fn round(&mut self) -> Plan {
        let plan = self.round_of(usize::MAX);
        assert_eq!(self.last.failures, [], "{plan:#?}");
        plan
    }

    fn run(&mut self) {
        for _ in 0..10 {
            if self.round_of(usize::MAX).is_idle() {
                return;
            }
        }
        panic!("there is no end: {:#?}", self.round());
    }

    /// Sets the clock of 1 May 2026.
    fn at(&mut self, time: &str) -> &mut Self {
        self.cluster.now = format!("2026-05-01T{time}Z").parse().unwrap();
        self
    }

    fn jobs(&self) -> Vec<String> {
        self.cluster.all(self.kind).map(name_of).collect()
    }

    /// The times for which there are jobs.
    fn times(&self) -> Vec<String> {
        let time = |job: &Value| {
            let text = job["metadata"]["annotations"]["apps.kruise.io/scheduled-at"].as_str();
            text.unwrap()["2026-05-01T".len()..].trim_end_matches('Z').to_owned()
        };
        self.cluster.all(self.kind).map(time).collect()
    }

    /// Lets a job end.
    fn end(&mut self, name: &str, type_: &str) {
        let status = json!({
            "startTime": self.cluster.now.to_string(), "conditions": [{"type": type_, "status": "True"}],
            "active": 0, "succeeded": 0, "failed": 0, "desired": 0,
        });
        self.cluster.edit(self.kind, name, |job| job["status"] = status);
    }

    fn edit(&mut self, changes: &Value) {
        self.cluster.edit(AdvancedCronJob::RESOURCE, "tick", |cron| {
            kruise_api::merge_patch::merge(&mut cron["spec"], changes);
        });
    }

    fn status(&self) -> Value {
        self.cluster.get(AdvancedCronJob::RESOURCE, "tick").unwrap()["status"].clone()
    }
}

fn reasons(plan: &Plan) -> Vec<String> {
    let name = |why: &crate::plan::Why| json!(why)["reason"].as_str().unwrap().to_owned();
    plan.why.iter().map(name).collect()
}

#[test]
fn given_a_minute_then_a_job_is_started_for_it_once() {
    let mut world = World::new(&json!({}));
    let plan = world.at("10:00:30.5").round();
    assert_eq!((world.jobs().len(), reasons(&plan)), (0, vec!["nextRun".to_owned()]));
    assert_eq!(plan.wake_after, Some(Duration::from_millis(29_500)));
    assert_eq!(world.status(), json!({"type": "BroadcastJob"}));

    world.at("10:01:00.2").run();
    let job = world.cluster.all(BroadcastJob::RESOURCE).next().unwrap().clone();
    let unix: Timestamp = "2026-05-01T10:01:00Z".parse().unwrap();
    assert_eq!(job["metadata"]["name"], format!("tick-{}", unix.as_second()));
    assert_eq!(
        job["metadata"]["annotations"],
        json!({"apps.kruise.io/scheduled-at": "2026-05-01T10:01:00Z"})
    );
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["apiVersion"], &owner["kind"], &owner["controller"]),
        (
            &json!("apps.kruise.io/v1beta1"),
            &json!("AdvancedCronJob"),
            &json!(true)
        )
    );
    let status = world.status();
    assert_eq!(status["lastScheduleTime"], "2026-05-01T10:01:00Z");
    assert_eq!(status["active"][0]["name"], job["metadata"]["name"]);
    assert!(world.round().is_idle());
    let name = world.jobs().remove(0);
    world.end(&name, "Complete");
    world.run();
    assert!(world.status()["active"].is_null());
}

#[test]
fn given_templates_then_jobs_are_of_their_kind_with_their_labels() {
    let job = json!({"broadcastJobTemplate": null, "jobTemplate": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"parallelism": 2, "unknown": 1}}});
    let mut world = World::new(&json!({"template": job}));
    world.at("10:01:00").run();
    let made = world.cluster.all(Job::RESOURCE).next().unwrap();
    assert_eq!(
        (&made["apiVersion"], &made["kind"]),
        (&json!("batch/v1"), &json!("Job"))
    );
    assert_eq!(made["spec"], json!({"parallelism": 2, "unknown": 1}));
    assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(made["metadata"]["annotations"]["c"], "d");
    assert_eq!(world.status()["type"], "Job");

    let list = json!({"broadcastJobTemplate": null, "imageListPullJobTemplate": {"spec": {
        "images": ["a:1"], "completionPolicy": {"type": "Always"}}}});
    let mut world = World::new(&json!({"template": list, "concurrencyPolicy": "Replace"}));
    world.at("10:01:00").run();
    assert_eq!(world.status()["type"], "ImageListPullJob");
    let name = world.jobs().remove(0);
    world.cluster.edit(ImageListPullJob::RESOURCE, &name, |job| {
        job["status"] = json!({"desired": 1, "succeeded": 0, "completionTime": "2026-05-01T10:01:05Z"});
    });
    assert_eq!(world.observe().children[0].end, Some(child::End::Failed));
}

#[test]
fn given_allow_forbid_and_replace_then_jobs_run_beside_wait_or_go() {
    let mut world = World::new(&json!({}));
    world.at("10:01:00").run();
    world.at("10:02:00").run();
    assert_eq!(world.times(), ["10:01:00", "10:02:00"]);

    let mut world = World::new(&json!({"concurrencyPolicy": "Forbid"}));
    world.at("10:01:00").run();
    let plan = world.at("10:02:00").round();
    assert!(reasons(&plan).contains(&"stillRuns".to_owned()));
    assert_eq!(world.times(), ["10:01:00"]);
    let name = world.jobs().remove(0);
    world.at("10:02:40").end(&name, "Complete");
    world.run();
    assert_eq!(world.times(), ["10:01:00", "10:02:00"], "late, but not left out");

    let mut world = World::new(&json!({"concurrencyPolicy": "Replace"}));
    world.at("10:01:00").run();
    world.at("10:02:00").run();
    assert_eq!(world.times(), ["10:02:00"]);
}

#[test]
fn given_ended_jobs_then_the_latest_are_kept_also_while_paused() {
    let mut world = World::new(&json!({"successfulJobsHistoryLimit": 2}));
    for (minute, end) in [
        (1, "Failed"),
        (2, "Complete"),
        (3, "Complete"),
        (4, "Failed"),
        (5, "Complete"),
    ] {
        world.at(&format!("10:0{minute}:00")).run();
        let name = world.jobs().pop().unwrap();
        world.end(&name, end);
    }
    world.edit(&json!({"paused": true}));
    world.at("10:05:30").run();
    assert_eq!(world.times(), ["10:03:00", "10:04:00", "10:05:00"]);
    world.edit(&json!({"successfulJobsHistoryLimit": 0}));
    world.run();
    assert_eq!(world.times(), ["10:04:00"]);
}

#[test]
fn given_a_pause_over_many_times_then_one_job_is_started_afterwards() {
    let mut world = World::new(&json!({"paused": true}));
    assert_eq!(reasons(&world.at("10:05:10").round()), ["jobPaused"]);
    world.edit(&json!({"paused": false}));
    world.run();
    assert_eq!(world.times(), ["10:05:00"]);
}

#[test]
fn given_jobs_that_are_gone_then_their_time_does_not_come_again() {
    let mut world = World::new(&json!({}));
    world.at("10:01:00").run();
    let name = world.jobs().remove(0);
    world.cluster.delete(BroadcastJob::RESOURCE, &name);
    world.at("10:01:20").run();
    assert!(world.jobs().is_empty());
    assert_eq!(world.status()["lastScheduleTime"], "2026-05-01T10:01:00Z");
}

#[test]
fn given_a_starting_deadline_then_what_is_too_late_is_left_out() {
    let mut world = World::new(&json!({"schedule": "0 * * * *", "startingDeadlineSeconds": 10}));
    world.at("11:00:11").run();
    assert!(world.jobs().is_empty());
    world.at("12:00:10").run();
    assert!(
        world.jobs().is_empty(),
        "the time itself is not after the beginning of the look back"
    );
    world.at("13:00:09").run();
    assert_eq!(world.times(), ["13:00:00"]);
}

#[test]
fn given_a_pause_then_it_counts_from_the_last_start_whenever_one_looks() {
    for deadline in [json!(null), json!(10), json!(7200)] {
        let mut world = World::new(&json!({"schedule": "@every 90m", "startingDeadlineSeconds": deadline}));
        // Somebody else leads from here, and knows nothing of earlier timers.
        let plan = world.at("10:30:00.5").round();
        assert_eq!(plan.wake_after, Some(Duration::from_millis(3_599_500)), "{deadline}");
        world.at("11:30:00.5").run();
        assert_eq!(world.times(), ["11:30:00"], "{deadline}");
        let plan = world.at("12:10:00").round();
        assert_eq!(plan.wake_after, Some(Duration::from_mins(50)), "{deadline}");
        world.at("13:00:09").run();
        assert_eq!(world.times(), ["11:30:00", "13:00:00"], "{deadline}");
    }
    let mut late = World::new(&json!({"schedule": "@every 90m", "startingDeadlineSeconds": 10}));
    let plan = late.at("11:31:00").round();
    assert!(late.jobs().is_empty());
    assert_eq!(plan.wake_after, Some(Duration::from_mins(89)));
}

#[test]
fn given_another_schedule_then_the_next_start_follows_it() {
    let mut world = World::new(&json!({}));
    world.at("10:01:00").run();
    world.edit(&json!({"schedule": "30 * * * *"}));
    let plan = world.at("10:02:00").round();
    assert_eq!(plan.wake_after, Some(Duration::from_mins(28)));
    world.at("10:30:00").run();
    assert_eq!(world.times(), ["10:01:00", "10:30:00"]);
}

#[test]
fn given_more_than_a_hundred_missed_times_then_nothing_is_started_and_people_are_told() {
    let mut world = World::new(&json!({}));
    let plan = world.at("11:41:00").round();
    assert_eq!(
        (reasons(&plan), plan.wake_after),
        (vec!["missedTooMany".to_owned()], None)
    );
    assert_eq!(plan.events[0].reason, "TooManyMissedTimes");
    assert!(world.jobs().is_empty());
    world.edit(&json!({"startingDeadlineSeconds": 600}));
    world.run();
    assert_eq!(world.times(), ["11:41:00"]);
    let mut world = World::new(&json!({}));
    world.at("11:40:00").run();
    assert_eq!(world.times(), ["11:40:00"], "a hundred are not too many");
}

#[test]
fn given_a_schedule_that_never_comes_or_cannot_be_read_then_the_plan_says_so() {
    let mut world = World::new(&json!({"schedule": "0 0 30 2 *"}));
    let plan = world.round();
    assert_eq!((reasons(&plan), plan.wake_after), (vec!["neverDue".to_owned()], None));
    let mut world = World::new(&json!({"schedule": "whenever"}));
    assert_eq!(reasons(&world.round()), ["invalid"]);
}

#[test]
fn given_clocks_that_are_set_forward_and_back_then_no_time_comes_twice() {
    let mut world = World::new(&json!({}));
    world.at("10:05:00").run();
    assert_eq!(world.times(), ["10:05:00"]);
    for back in ["10:02:00", "10:04:59", "10:05:00", "10:05:30"] {
        world.at(back).run();
        assert_eq!(world.times(), ["10:05:00"], "at {back}");
    }
    world.at("10:06:00").run();
    assert_eq!(world.times(), ["10:05:00", "10:06:00"]);
}

#[test]
fn given_a_refused_job_then_it_is_told_and_tried_again() {
    let mut world = World::new(&json!({}));
    world.round();
    world.cluster.refuses = Some(|_, action| matches!(action, Action::Create { .. }));
    world.at("10:01:00").round_of(usize::MAX);
    let plan = world.round_of(usize::MAX);
    assert!(reasons(&plan).contains(&"failed".to_owned()));
    assert!(
        world.status()["lastScheduleTime"].is_null(),
        "what was not started was not"
    );
    world.cluster.refuses = None;
    world.run();
    assert_eq!(world.times(), ["10:01:00"]);
}

#[test]
fn given_what_the_original_left_then_nothing_is_written() {
    let mut world = World::new(&json!({}));
    world.at("10:01:00").run();
    world.cluster.edit(AdvancedCronJob::RESOURCE, "tick", |cron| {
        cron["status"]["active"][0]["resourceVersion"] = json!("17");
    });
    assert!(world.at("10:01:10").round().is_idle());
}

/// What stood in the cluster when the original was recorded.
#[test]
fn given_objects_of_the_original_then_nothing_is_written() {
    let states: Value = serde_json::from_str(include_str!("../../fixtures/jobs/takeover.json")).unwrap();
    let mut compared = 0;
    for state in states.as_array().unwrap() {
        for cron in state["crons"].as_array().unwrap() {
            let read: AdvancedCronJob = serde_json::from_value(cron.clone()).unwrap();
            let uid = &cron["metadata"]["uid"];
            let jobs = state["jobs"].as_array().unwrap().iter();
            let children = jobs.filter(|job| job["metadata"]["ownerReferences"][0]["uid"] == *uid);
            let children = children.map(|job| Child::of_broadcast_job(&serde_json::from_value(job.clone()).unwrap()));
            let observed = Observed {
                children: children.collect(),
                cron: Arc::new(read),
                last: Outcome::default(),
            };
            assert_eq!(observed.children.len(), 1, "{state}");
            let last = observed
                .cron
                .status
                .as_ref()
                .unwrap()
                .last_schedule_time
                .as_ref()
                .unwrap()
                .0;
            let now = last.checked_add(jiff::SignedDuration::from_secs(20)).unwrap();
            let plan = plan(&observed, &Env::at(now));
            assert!(plan.is_idle() && plan.events.is_empty(), "{plan:#?}");
            compared += 1;
        }
    }
    assert!(compared >= 2, "{compared}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the clock does and wherever the process dies, there is at most one job for a time, and none is started for a time before the last.
    #[test]
    fn every_time_comes_once_under_crashes_and_clock_jumps(
        steps in proptest::collection::vec((-90_i64..200, 0..5_usize, 0..3_u8, any::<bool>()), 1..14),
        policy in prop_oneof![Just("Allow"), Just("Forbid"), Just("Replace")],
    ) {
        let mut world = World::new(&json!({"concurrencyPolicy": policy, "successfulJobsHistoryLimit": 1}));
        world.cluster.pass(60);
        let mut started: Vec<String> = Vec::new();
        for (seconds, crash, end, stale) in steps {
            world.cluster.pass(seconds);
            let old = plan(&world.observe(), &Env::at(world.cluster.now));
            let before = world.jobs();
            world.round_of(crash);
            world.last = Outcome::default();
            world.run();
            if stale {
                // Another replica still has an older picture, and the same time.
                world.cluster.apply(&old, usize::MAX);
            }
            let now = world.jobs();
            let new: Vec<String> = now.iter().filter(|name| !before.contains(name)).cloned().collect();
            for name in &new {
                prop_assert!(started.iter().all(|known| known < name), "{name} after {started:?}");
            }
            prop_assert!(new.len() <= 1);
            started.extend(new);
            world.run();
            if let Some(name) = now.get(usize::from(end)) {
                world.end(name, "Complete");
            }
            world.run();
        }
    }
}
