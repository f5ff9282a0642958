use std::time::Duration;

use serde_json::json;

use super::super::status::{Addresses, report};
use super::super::view::{ContainerStatus, Status};
use super::*;
use crate::builders::{Fixture, PodBuilder, pod};

/// A Pod under a clock that the test moves.
struct Stage {
    pod: PodView,
    life: Life,
    now: Timestamp,
    wake: Option<Timestamp>,
}

impl Stage {
    fn with(builder: PodBuilder) -> Self {
        let pod = view(builder);
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let life = Life::begin(&pod, &Script::default(), now);
        let mut stage = Stage {
            pod,
            life,
            now,
            wake: None,
        };
        stage.look();
        stage
    }

    /// Advances as the engine does, and lets the API show what was reported.
    fn look(&mut self) -> &Status {
        let script = Script::parse(&Script::default(), self.pod.annotations());
        let reading = script.as_ref().map_err(String::as_str);
        self.wake = self.life.advance(&self.pod, reading, self.now);
        let addresses = Addresses {
            host: "198.18.0.1",
            pod: "100.64.0.1",
        };
        self.pod.status = report(&self.pod, &self.life, reading, addresses, self.now);
        &self.pod.status
    }

    fn after(&mut self, millis: u64) -> &Status {
        self.now += Duration::from_millis(millis);
        self.look()
    }

    fn change(&mut self, builder: PodBuilder) -> &Status {
        let status = std::mem::take(&mut self.pod.status);
        self.pod = PodView {
            status,
            ..view(builder)
        };
        self.look()
    }

    fn wakes_in(&self) -> Option<u64> {
        self.wake
            .map(|at| u64::try_from(at.duration_since(self.now).as_millis()).unwrap())
    }

    fn ready(&self) -> &str {
        &self.pod.status.condition("Ready").unwrap().status
    }

    fn main(&self) -> &ContainerStatus {
        &self.pod.status.container_statuses[0]
    }

    fn waits_for(&self) -> &str {
        self.main()
            .state
            .waiting
            .as_ref()
            .map_or("", |waiting| waiting.reason.as_str())
    }
}

fn view(builder: PodBuilder) -> PodView {
    serde_json::from_value(builder.uid("u1").json()).unwrap()
}

#[test]
fn a_plain_pod_is_ready_at_once() {
    let stage = Stage::with(pod("a"));
    assert_eq!(stage.pod.status.phase, "Running");
    assert_eq!(stage.ready(), "True");
    assert_eq!(stage.wake, None);
    let main = stage.main();
    assert!(main.ready && main.started == Some(true) && main.restart_count == 0);
    assert!(main.container_id.starts_with("containerd://") && main.image_id.starts_with("nginx@sha256:"));
}

#[test]
fn a_start_delay_keeps_everything_back() {
    let mut stage = Stage::with(pod("a").script("start-delay", "2s"));
    assert_eq!(stage.pod.status, Status::default());
    assert_eq!(stage.wakes_in(), Some(2_000));
    assert_eq!(stage.after(2_000).phase, "Running");
}

#[test]
fn readiness_comes_after_its_delay_or_never() {
    let mut stage = Stage::with(pod("a").container("b", "b:1").script("ready-delay.main", "3s"));
    assert_eq!((stage.ready(), stage.wakes_in()), ("False", Some(3_000)));
    let message = stage.pod.status.condition("ContainersReady").unwrap().message.clone();
    assert_eq!(message.as_deref(), Some("containers with unready status: [main]"));
    stage.after(3_000);
    assert_eq!((stage.ready(), stage.wakes_in()), ("True", None));
    stage.change(pod("a").container("b", "b:1").script("never-ready", "true"));
    assert_eq!((stage.ready(), stage.wakes_in()), ("False", None));
}

#[test]
fn a_new_image_restarts_its_container_only() {
    let mut stage = Stage::with(pod("a").image("a:1").container("b", "b:1"));
    let before = stage.pod.status.container_statuses.clone();
    stage.now += Duration::from_secs(5);
    stage.change(pod("a").image("a:2").container("b", "b:1"));
    let after = &stage.pod.status.container_statuses;
    assert_eq!((after[0].restart_count, after[0].image.as_str()), (1, "a:2"));
    assert_ne!(after[0].image_id, before[0].image_id);
    assert_ne!(after[0].container_id, before[0].container_id);
    let ended = after[0].last_state.terminated.as_ref().unwrap();
    assert_eq!(
        (ended.exit_code, ended.container_id.as_str()),
        (0, before[0].container_id.as_str())
    );
    assert_eq!(after[1], before[1]);
    assert_eq!(stage.ready(), "True");
}

#[test]
fn a_slow_restart_shows_each_step() {
    let slow = |image| {
        pod("a")
            .image(image)
            .script("terminate-delay", "1s")
            .script("pull-delay", "2s")
    };
    let mut stage = Stage::with(slow("a:1"));
    assert_eq!(
        (stage.waits_for(), stage.pod.status.phase.as_str()),
        ("ContainerCreating", "Pending")
    );
    stage.after(2_000);
    stage.change(slow("a:2"));
    assert!(stage.main().ready, "the old container runs until it has stopped");
    stage.after(1_000);
    assert!(stage.main().state.terminated.is_some() && stage.main().image == "a:1");
    assert_eq!((stage.ready(), stage.pod.status.phase.as_str()), ("False", "Running"));
    stage.after(2_000);
    assert_eq!(
        (stage.main().image.as_str(), stage.main().restart_count, stage.ready()),
        ("a:2", 1, "True")
    );
}

#[test]
fn two_tags_can_be_one_image_and_a_new_token_is_a_restart() {
    let mut stage = Stage::with(pod("a").image("a:1").script("image-id", "a@sha256:1"));
    stage.change(pod("a").image("a:2").script("image-id", "a@sha256:1"));
    assert_eq!(
        (stage.main().image_id.as_str(), stage.main().restart_count),
        ("a@sha256:1", 1)
    );
    stage.change(pod("a").image("a:2").script("restart", "now"));
    assert_eq!(stage.main().restart_count, 2);
    assert_eq!(stage.after(1_000).container_statuses[0].restart_count, 2);
}

#[test]
fn an_image_that_cannot_be_pulled_waits_for_another() {
    let broken = |image| pod("a").image(image).script("pull-error", "a:broken");
    let mut stage = Stage::with(broken("a:broken"));
    assert_eq!((stage.waits_for(), stage.wakes_in()), ("ErrImagePull", Some(1_000)));
    stage.after(1_000);
    assert_eq!((stage.waits_for(), stage.wakes_in()), ("ImagePullBackOff", None));
    assert_eq!(stage.pod.status.phase, "Pending");
    stage.change(broken("a:1"));
    assert_eq!((stage.ready(), stage.main().restart_count), ("True", 0));
}

#[test]
fn a_crashing_container_backs_off_longer_each_time_and_recovers() {
    let mut stage = Stage::with(pod("a").script("crash", "2"));
    assert_eq!(
        (stage.waits_for(), stage.main().restart_count, stage.wakes_in()),
        ("CrashLoopBackOff", 0, Some(1_000))
    );
    assert_eq!(stage.main().last_state.terminated.as_ref().unwrap().exit_code, 1);
    assert_eq!((stage.pod.status.phase.as_str(), stage.ready()), ("Running", "False"));
    stage.after(1_000);
    assert_eq!(
        (stage.waits_for(), stage.main().restart_count, stage.wakes_in()),
        ("CrashLoopBackOff", 1, Some(2_000))
    );
    stage.after(2_000);
    assert_eq!(
        (stage.waits_for(), stage.main().restart_count, stage.ready()),
        ("", 2, "True")
    );
}

#[test]
fn the_restart_policy_decides_about_the_end() {
    let cases = [
        ("Never", "0", "Succeeded"),
        ("Never", "3", "Failed"),
        ("OnFailure", "0", "Succeeded"),
    ];
    for (policy, code, phase) in cases {
        let job = pod("a")
            .restart_policy(policy)
            .script("exit-after", "5s")
            .script("exit-code", code);
        let mut stage = Stage::with(
            job.container("helper", "h:1")
                .script("exit-after.helper", "1s")
                .script("exit-code.helper", "0"),
        );
        assert_eq!(stage.pod.status.phase, "Running");
        stage.after(1_000);
        assert_eq!(stage.pod.status.phase, "Running", "{policy}: one container is left");
        stage.after(4_000);
        assert_eq!(stage.pod.status.phase, phase, "{policy} {code}");
        let reason = stage.pod.status.condition("Ready").unwrap().reason.clone().unwrap();
        assert_eq!(reason, if phase == "Failed" { "PodFailed" } else { "PodCompleted" });
    }
    let restarts = pod("a")
        .restart_policy("OnFailure")
        .script("exit-after", "1s")
        .script("exit-code", "3");
    let mut stage = Stage::with(restarts);
    stage.after(1_000);
    assert_eq!(
        (stage.waits_for(), stage.pod.status.phase.as_str()),
        ("CrashLoopBackOff", "Running")
    );
}

#[test]
fn init_containers_run_in_order_and_sidecars_stay() {
    let with_inits = pod("a")
        .init_container("one", "i:1")
        .sidecar("mesh", "m:1")
        .init_container("two", "i:2");
    let mut stage = Stage::with(with_inits.script("exit-after.one", "1s").script("exit-after.two", "1s"));
    let initialized = |stage: &Stage| stage.pod.status.condition("Initialized").unwrap().clone();
    assert_eq!(
        initialized(&stage).message.as_deref(),
        Some("containers with incomplete status: [one two]")
    );
    assert!(stage.pod.status.init_container_statuses[1].state.waiting.is_some());
    stage.after(1_000);
    assert!(stage.pod.status.init_container_statuses[1].state.running.is_some());
    assert_eq!(
        (initialized(&stage).status.as_str(), stage.pod.status.phase.as_str()),
        ("False", "Pending")
    );
    stage.after(1_000);
    assert_eq!((initialized(&stage).status.as_str(), stage.ready()), ("True", "True"));
    let states: Vec<_> = stage
        .pod
        .status
        .init_container_statuses
        .iter()
        .map(|s| s.state.terminated.is_some())
        .collect();
    assert_eq!(states, [true, false, true]);
}

#[test]
fn a_failing_init_container_ends_a_pod_that_never_restarts() {
    let failing = || pod("a").init_container("one", "i:1").script("exit-code.one", "1");
    assert_eq!(
        Stage::with(failing().restart_policy("Never")).pod.status.phase,
        "Failed"
    );
    let stage = Stage::with(failing());
    let waiting = stage.pod.status.init_container_statuses[0]
        .state
        .waiting
        .as_ref()
        .unwrap();
    assert_eq!(
        (waiting.reason.as_str(), stage.pod.status.phase.as_str()),
        ("CrashLoopBackOff", "Pending")
    );
}

#[test]
fn readiness_gates_are_part_of_ready() {
    let gated = || pod("a").readiness_gate("G");
    let mut stage = Stage::with(gated());
    let ready = stage.pod.status.condition("Ready").unwrap();
    assert_eq!(ready.reason.as_deref(), Some("ReadinessGatesNotReady"));
    assert_eq!(
        ready.message.as_deref(),
        Some("corresponding condition of pod readiness gate \"G\" does not exist.")
    );
    let gate = |status: &str| serde_json::from_value(json!({ "type": "G", "status": status })).unwrap();
    stage.pod.status.conditions.push(gate("True"));
    let opened = stage.now + Duration::from_secs(7);
    stage.after(7_000);
    assert_eq!(stage.ready(), "True");
    assert_eq!(
        stage.pod.status.condition("Ready").unwrap().last_transition_time,
        Some(opened)
    );
    *stage.pod.status.conditions.last_mut().unwrap() = gate("False");
    stage.after(1_000);
    let ready = stage.pod.status.condition("Ready").unwrap();
    assert_eq!(
        ready.message.as_deref(),
        Some("the status of pod readiness gate \"G\" is not \"True\", but False")
    );
}

#[test]
fn a_deleted_pod_stops_within_its_grace_period() {
    // (annotation, grace, stops after, exit code)
    let cases = [
        ("0", 30, 0, 0),
        ("2s", 30, 2_000, 0),
        ("1m", 3, 3_000, 137),
        ("1m", 0, 0, 137),
    ];
    for (delay, grace, millis, code) in cases {
        let builder = || pod("a").script("terminate-delay", delay);
        let mut stage = Stage::with(builder());
        let deletion = json!("2026-01-01T00:00:30Z");
        stage.change(
            builder()
                .set("/metadata/deletionTimestamp", deletion)
                .set("/metadata/deletionGracePeriodSeconds", grace),
        );
        if millis > 0 {
            assert_eq!(
                (stage.life.stopped, stage.wakes_in(), stage.ready()),
                (false, Some(millis), "True"),
                "{delay}"
            );
            stage.after(millis);
        }
        assert!(stage.life.stopped, "{delay} of {grace}");
        assert_eq!(stage.main().state.terminated.as_ref().unwrap().exit_code, code);
        assert_eq!(stage.ready(), "False");
    }
}

#[test]
fn resources_follow_the_spec() {
    let sized = |cpu| pod("a").resource("cpu", cpu).resource("memory", "1Gi");
    let mut stage = Stage::with(sized("1"));
    stage.change(sized("2"));
    assert_eq!(stage.main().resources.as_ref().unwrap().limits["cpu"], "2");
    assert_eq!(
        (
            stage.main().allocated_resources["cpu"].as_str(),
            stage.main().restart_count
        ),
        ("2", 0)
    );

    let slow = |cpu| sized(cpu).script("resize-delay", "2s");
    stage.change(slow("3"));
    assert_eq!(stage.main().resources.as_ref().unwrap().limits["cpu"], "2");
    assert!(stage.pod.status.condition("PodResizeInProgress").is_some());
    stage.after(2_000);
    assert_eq!(stage.main().resources.as_ref().unwrap().limits["cpu"], "3");
    assert!(stage.pod.status.condition("PodResizeInProgress").is_none());

    stage.change(sized("99").script("resize", "infeasible"));
    assert_eq!(
        stage
            .pod
            .status
            .condition("PodResizePending")
            .unwrap()
            .reason
            .as_deref(),
        Some("Infeasible")
    );

    let policy = json!([{ "resourceName": "cpu", "restartPolicy": "RestartContainer" }]);
    stage.change(sized("4").set("/spec/containers/0/resizePolicy", policy));
    assert_eq!(
        (
            stage.main().restart_count,
            stage.main().resources.as_ref().unwrap().limits["cpu"].as_str()
        ),
        (1, "4")
    );
}

#[test]
fn a_wrong_annotation_is_told_in_the_status_and_may_be_corrected() {
    let mut stage = Stage::with(pod("a").script("ready-delay", "soon"));
    let waiting = stage.main().state.waiting.clone().unwrap();
    assert_eq!(waiting.reason, "CreateContainerConfigError");
    assert!(
        waiting
            .message
            .contains("sim.kruise.test/ready-delay: \"soon\" is not a duration"),
        "{}",
        waiting.message
    );
    stage.change(pod("a"));
    assert_eq!(stage.ready(), "True");
}

#[test]
fn a_missing_config_map_key_holds_the_container() {
    let mut stage = Stage::with(
        pod("a")
            .env_from_config_map("E", "barrier", "p_1")
            .container("b", "b:1"),
    );
    assert_eq!(stage.waits_for(), "CreateContainerConfigError");
    assert!(stage.pod.status.container_statuses[1].ready);
    assert_eq!(
        stage.life.wanted_config_maps(&stage.pod),
        BTreeSet::from(["barrier".to_owned()])
    );
    stage
        .life
        .config_maps
        .insert("barrier".to_owned(), Some(BTreeSet::from(["p_0".to_owned()])));
    stage.look();
    assert_eq!(
        stage.main().state.waiting.as_ref().unwrap().message,
        "couldn't find key p_1 in ConfigMap barrier"
    );
    stage
        .life
        .config_maps
        .insert("barrier".to_owned(), Some(BTreeSet::from(["p_1".to_owned()])));
    stage.look();
    assert_eq!(stage.ready(), "True");
    assert!(stage.life.wanted_config_maps(&stage.pod).is_empty());
}

#[test]
fn a_static_phase_is_all_that_happens() {
    let failed = pod("a").script("phase", "Failed").script("phase-reason", "Evicted");
    let stage = Stage::with(failed);
    assert_eq!(
        (stage.pod.status.phase.as_str(), stage.pod.status.reason.as_deref()),
        ("Failed", Some("Evicted"))
    );
    assert!(stage.pod.status.container_statuses.is_empty());
    assert_eq!(
        Stage::with(pod("a").script("phase", "Pending")).pod.status,
        Status::default()
    );
}

#[test]
fn a_pod_of_an_earlier_simulator_lives_on() {
    let mut stage = Stage::with(pod("a").image("a:1").container("b", "b:1").script("crash.b", "true"));
    let before = stage.pod.status.clone();
    stage.life = Life::begin(&stage.pod, &Script::default(), stage.now);
    stage.look();
    assert_eq!(stage.main(), &before.container_statuses[0]);
    stage.change(pod("a").image("a:2").container("b", "b:1"));
    assert_eq!((stage.main().restart_count, stage.main().image.as_str()), (1, "a:2"));
}

#[test]
fn ephemeral_containers_join_later_and_do_not_count() {
    let mut stage = Stage::with(pod("a"));
    let ephemeral = json!([{ "name": "debug", "image": "d:1" }]);
    let with_debug = || {
        pod("a")
            .set("/spec/ephemeralContainers", &ephemeral)
            .script("exit-after.debug", "2s")
    };
    stage.change(with_debug());
    assert!(stage.pod.status.ephemeral_container_statuses[0].state.running.is_some());
    stage.after(2_000);
    assert!(
        stage.pod.status.ephemeral_container_statuses[0]
            .state
            .terminated
            .is_some()
    );
    assert_eq!((stage.ready(), stage.pod.status.phase.as_str()), ("True", "Running"));
}
