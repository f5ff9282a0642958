//! AdvancedCronJobs. Most have a schedule of seconds, so that nobody waits for the next minute.

use std::{sync::Arc, time::Duration};

use axum::http::{Request, header::CONTENT_TYPE};
use k8s_openapi::jiff::{Timestamp, tz::Offset};
use kruise_testkit::{
    eventually::{NotYet, eventually},
    sim::SET_LABEL,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, Scenario, Stage, broadcast, create, nodes, scenarios, status, try_create, version};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_every_minute_then_a_job_is_started_and_its_time_comes_once,
        given_ended_jobs_then_the_history_limits_hold,
        given_replace_then_the_old_job_goes_for_the_new_one,
        given_forbid_then_the_next_job_starts_when_the_first_has_ended,
        given_a_time_zone_then_its_clock_counts,
        given_a_pause_over_many_times_then_one_job_is_started_afterwards,
        given_images_then_lists_are_started,
        given_objects_that_cannot_be_then_they_are_refused_with_their_field,
        given_a_schedule_that_never_comes_then_the_plan_says_so,
        given_a_job_that_is_refused_then_people_are_told,
    ]
}

const KIND: &str = "AdvancedCronJob";

/// Jobs of Kubernetes, their Pods on the nodes of the scenario.
fn job_template(stage: &Stage, script: &Value) -> Value {
    let annotations = script.as_object().unwrap().iter();
    let annotations: serde_json::Map<String, Value> = annotations
        .map(|(key, value)| (format!("sim.kruise.test/{key}"), value.clone()))
        .collect();
    let pod = json!({"restartPolicy": "Never", "nodeSelector": {(SET_LABEL): stage.namespace()},
        "containers": [{"name": "main", "image": "busybox:1"}]});
    let pod = json!({"metadata": {"labels": {"app": "job"}, "annotations": annotations}, "spec": pod});
    json!({"jobTemplate": {"metadata": {"labels": {"from": "tick"}}, "spec": {"template": pod}}})
}

fn broadcast_template(stage: &Stage, script: &Value) -> Value {
    json!({"broadcastJobTemplate": {"metadata": {"labels": {"from": "tick"}}, "spec": broadcast(stage, script, &json!({}))}})
}

fn jobs(stage: &Stage) -> Api<DynamicObject> {
    let resource = kube::api::ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk("batch", "v1", "Job"));
    Api::namespaced_with(stage.client(), stage.namespace(), &resource)
}

/// Waits until the jobs are as wanted.
async fn until(
    jobs: &Api<DynamicObject>,
    what: &str,
    wanted: impl Fn(&[DynamicObject]) -> bool + Send + Sync,
) -> Vec<DynamicObject> {
    eventually(PATIENCE, what, || async {
        let all = jobs.list(&ListParams::default()).await?.items;
        let names: Vec<String> = all
            .iter()
            .map(|job| format!("{} {}", job.name_any(), job.data["status"]))
            .collect();
        if wanted(&all) {
            Ok(all)
        } else {
            Err(NotYet::new(names.join("\n")))
        }
    })
    .await
}

async fn given_every_minute_then_a_job_is_started_and_its_time_comes_once(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 1).await;
    let spec = json!({"schedule": "*/1 * * * *", "template": job_template(&stage, &json!({}))});
    let cron = create(&stage, KIND, "tick", &spec).await;
    assert_eq!(
        (
            &cron.data["spec"]["concurrencyPolicy"],
            &cron.data["spec"]["successfulJobsHistoryLimit"]
        ),
        (&json!("Allow"), &json!(3))
    );
    let jobs = jobs(&stage);
    let made = until(&jobs, "a job is started", |jobs| jobs.len() == 1).await;
    let job = &made[0];
    let time = &job.annotations()["apps.kruise.io/scheduled-at"];
    let at: Timestamp = time.parse().unwrap();
    assert!(time.ends_with(":00Z"), "{time}");
    assert_eq!(job.name_any(), format!("tick-{}", at.as_second()));
    assert_eq!(job.labels()["from"], "tick");
    let owner = &json!(job.metadata.owner_references)[0];
    assert_eq!(
        (
            &owner["apiVersion"],
            &owner["kind"],
            &owner["controller"],
            &owner["blockOwnerDeletion"]
        ),
        (
            &json!("apps.kruise.io/v1beta1"),
            &json!(KIND),
            &json!(true),
            &json!(true)
        )
    );
    status(&stage, KIND, "tick", &json!({"type": "Job", "lastScheduleTime": time})).await;
    let crons = stage.objects(version(KIND), KIND);
    eventually(PATIENCE, "the job is active", || async {
        let told = crons.get("tick").await?.data["status"].clone();
        let is_active = told["active"].as_array().map_or(0, Vec::len) == 1;
        is_active.then_some(()).ok_or_else(|| NotYet::new(told.to_string()))
    })
    .await;
    // The job is gone, and the object is looked at again: its time has been.
    jobs.delete(&job.name_any(), &DeleteParams::background()).await.unwrap();
    status(&stage, KIND, "tick", &json!({"active": null, "lastScheduleTime": time})).await;
    stage
        .about(KIND)
        .patch(
            "tick",
            json!({"spec": {"failedJobsHistoryLimit": 2, "schedule": "0 0 1 1 *"}}),
        )
        .await;
    stage.about(KIND).why("tick", "nextRun").await;
    until(
        &jobs,
        "nothing is started for that time again",
        <[DynamicObject]>::is_empty,
    )
    .await;
}

async fn given_ended_jobs_then_the_history_limits_hold(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 1).await;
    let spec = json!({"schedule": "@every 2s", "template": job_template(&stage, &json!({"exit-after": "0s"}))});
    create(&stage, KIND, "tick", &spec).await;
    let jobs = jobs(&stage);
    let is_complete = |job: &DynamicObject| json!(job.data["status"])["completionTime"].is_string();
    let first = until(&jobs, "a job is complete", |jobs| jobs.iter().any(is_complete)).await;
    let first = first[0].name_any();
    until(&jobs, "the first goes when there are others", |jobs| {
        jobs.iter().all(|job| job.name_any() != first) && jobs.iter().filter(|job| is_complete(job)).count() >= 3
    })
    .await;
    stage.about(KIND).patch("tick", json!({"spec": {"paused": true}})).await;
    until(&jobs, "three are kept", |jobs| {
        jobs.len() == 3 && jobs.iter().all(is_complete)
    })
    .await;
}

async fn given_replace_then_the_old_job_goes_for_the_new_one(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 1).await;
    let template = broadcast_template(&stage, &json!({}));
    let spec = json!({"schedule": "@every 4s", "concurrencyPolicy": "Replace", "template": template});
    create(&stage, KIND, "tick", &spec).await;
    let jobs = stage.objects("v1beta1", "BroadcastJob");
    let first = until(&jobs, "a job is started", |jobs| jobs.len() == 1).await;
    assert!(
        first[0].labels().is_empty(),
        "the API server keeps no metadata of such templates"
    );
    let first = first[0].name_any();
    until(
        &jobs,
        "another takes its place",
        |jobs| matches!(jobs, [job] if job.name_any() != first),
    )
    .await;
    status(&stage, KIND, "tick", &json!({"type": "BroadcastJob"})).await;
}

async fn given_forbid_then_the_next_job_starts_when_the_first_has_ended(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 1).await;
    let template = broadcast_template(&stage, &json!({}));
    let spec = json!({"schedule": "@every 3s", "concurrencyPolicy": "Forbid", "template": template});
    create(&stage, KIND, "tick", &spec).await;
    let jobs = stage.objects("v1beta1", "BroadcastJob");
    let first = until(&jobs, "a job is started", |jobs| jobs.len() == 1).await;
    let waits = stage.about(KIND).why("tick", "stillRuns").await;
    assert_eq!(waits["jobs"]["names"], json!([first[0].name_any()]));
    assert_eq!(jobs.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let pods = stage.until("job", "its Pod runs", |pods| pods.len() == 1).await;
    let pod = pods.keys().next().unwrap();
    stage.script_pod(pod, "exit-after", Some("0s")).await;
    until(&jobs, "the next is started", |jobs| jobs.len() == 2).await;
}

async fn given_a_time_zone_then_its_clock_counts(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 1).await;
    // The minute after the next one, by the clocks of Shanghai, which are never set.
    let soon = Timestamp::now() + Duration::from_secs(61);
    let there = Offset::constant(8).to_datetime(soon);
    let spec = json!({
        "schedule": format!("{} {} * * *", there.minute(), there.hour()), "timeZone": "Asia/Shanghai",
        "template": job_template(&stage, &json!({})),
    });
    create(&stage, KIND, "tick", &spec).await;
    let made = until(&jobs(&stage), "a job is started", |jobs| jobs.len() == 1).await;
    let minute = soon.as_second() - soon.as_second().rem_euclid(60);
    assert_eq!(made[0].name_any(), format!("tick-{minute}"));
    assert!(made[0].annotations()["apps.kruise.io/scheduled-at"].ends_with('Z'));
}

async fn given_a_pause_over_many_times_then_one_job_is_started_afterwards(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 1).await;
    let spec = json!({"schedule": "@every 2s", "paused": true, "concurrencyPolicy": "Forbid",
        "template": broadcast_template(&stage, &json!({}))});
    create(&stage, KIND, "tick", &spec).await;
    let crons = stage.about(KIND);
    crons.why("tick", "jobPaused").await;
    let since = Timestamp::now();
    eventually(PATIENCE, "some times have passed", || async {
        let passed = Timestamp::now().duration_since(since);
        if passed.as_secs() >= 7 {
            Ok(())
        } else {
            Err(NotYet::new(format!("{passed:?}")))
        }
    })
    .await;
    let jobs = stage.objects("v1beta1", "BroadcastJob");
    assert!(jobs.list(&ListParams::default()).await.unwrap().items.is_empty());
    crons.patch("tick", json!({"spec": {"paused": false}})).await;
    until(&jobs, "a job is started", |jobs| jobs.len() == 1).await;
    crons.why("tick", "stillRuns").await;
    assert_eq!(jobs.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

async fn given_images_then_lists_are_started(stage: Arc<Stage>) {
    let list = json!({"images": ["busybox:1"], "selector": {"names": ["no-such-node"]}});
    let spec = json!({"schedule": "@every 2s", "template": {"imageListPullJobTemplate": {"spec": list}}});
    let cron = create(&stage, KIND, "tick", &spec).await;
    assert_eq!(cron.data["spec"]["concurrencyPolicy"], "Replace");
    let lists = stage.objects("v1beta1", "ImageListPullJob");
    let made = until(&lists, "a list is started", |lists| !lists.is_empty()).await;
    assert!(made[0].name_any().starts_with("tick-"));
    status(&stage, KIND, "tick", &json!({"type": "ImageListPullJob"})).await;
}

async fn given_objects_that_cannot_be_then_they_are_refused_with_their_field(stage: Arc<Stage>) {
    let template = job_template(&stage, &json!({}));
    let mut both = template.clone();
    kruise_api::merge_patch::merge(&mut both, &broadcast_template(&stage, &json!({})));
    let mut no_image = template.clone();
    no_image["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("");
    for (spec, field) in [
        (json!({"schedule": "x", "template": template}), "spec.schedule"),
        (json!({"schedule": "60 * * * *", "template": template}), "spec.schedule"),
        (
            json!({"schedule": "TZ=UTC 0 9 * * *", "timeZone": "UTC", "template": template}),
            "spec.schedule",
        ),
        (
            json!({"schedule": "@daily", "timeZone": "local", "template": template}),
            "spec.timeZone",
        ),
        (json!({"schedule": "@daily", "template": both}), "spec.template"),
        (json!({"schedule": "@daily", "template": {}}), "spec.template"),
        (
            json!({"schedule": "@daily", "template": no_image}),
            "spec.template.jobTemplate.spec.template.spec.containers[0].image",
        ),
    ] {
        let refused = try_create(&stage, KIND, "tick", &spec).await;
        let kube::Error::Api(answer) = refused.unwrap_err() else {
            panic!("{spec}: no answer of the API server")
        };
        assert_eq!(answer.code, 422, "{}", answer.message);
        assert!(answer.message.contains(field), "{spec}: {}", answer.message);
    }
    create(
        &stage,
        KIND,
        "tick",
        &json!({"schedule": "@yearly", "template": template}),
    )
    .await;
    let crons = stage.about(KIND);
    let labels = json!({"spec": {"template": {"jobTemplate": {"metadata": {"labels": {"new": "x"}}}}}});
    let refused = crons.try_patch("tick", labels).await.unwrap_err().to_string();
    assert!(
        refused.contains("spec: Forbidden: updates to advancedcronjob spec"),
        "{refused}"
    );
    crons.patch("tick", json!({"spec": {"schedule": "@hourly"}})).await;
}

async fn given_a_schedule_that_never_comes_then_the_plan_says_so(stage: Arc<Stage>) {
    let spec = json!({"schedule": "0 0 30 2 *", "template": job_template(&stage, &json!({}))});
    let cron =
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": KIND, "metadata": {"name": "tick"}, "spec": spec});
    let path = format!(
        "/apis/apps.kruise.io/v1beta1/namespaces/{}/advancedcronjobs",
        stage.namespace()
    );
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    let request = request.body(cron.to_string().into_bytes().into()).unwrap();
    let answer = stage.client().send(request).await.unwrap();
    assert_eq!(answer.status(), 201);
    let warning = answer.headers()["warning"].to_str().unwrap();
    assert!(warning.contains("names no time within five years"), "{warning}");
    stage.about(KIND).why("tick", "neverDue").await;
}

async fn given_a_job_that_is_refused_then_people_are_told(stage: Arc<Stage>) {
    // The name of the job is longer than the value of a label may be.
    let name = "t".repeat(60);
    let spec = json!({"schedule": "@every 1s", "concurrencyPolicy": "Forbid",
        "template": broadcast_template(&stage, &json!({}))});
    create(&stage, KIND, &name, &spec).await;
    let crons = stage.about(KIND);
    crons
        .event(&name, "FailedCreate", "must be no more than 63 characters")
        .await;
    crons.why(&name, "failed").await;
}
