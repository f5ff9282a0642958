//! Kubernetes' own controllers on simulated nodes.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::{Fixture, deployment, pod};
use kruise_testkit::eventually::{eventually, not_yet};
use kruise_testkit::sim::SimOptions;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{PATIENCE, Scenario, with_nodes};

async fn rolled_out(scenario: &Scenario, replicas: i32, generation: i64) {
    let deployments: Api<Deployment> = scenario.api();
    eventually(PATIENCE, "the Deployment has rolled out", || async {
        let status = deployments.get("web").await?.status.unwrap_or_default();
        let counts = [status.replicas, status.updated_replicas, status.available_replicas];
        let done = counts == [Some(replicas); 3] && status.observed_generation == Some(generation);
        if done { Ok(()) } else { Err(not_yet(&status)) }
    })
    .await;
}

#[test]
fn a_deployment_rolls_out_and_over() {
    with_nodes(
        "deployment",
        SimOptions {
            count: 3,
            ..SimOptions::default()
        },
        |scenario| async move {
            let web = deployment("web").replicas(6).image("nginx:1");
            let web = web.pod(|pod| {
                pod.node_selector(scenario.nodes.selector())
                    .script("ready-delay", "200ms")
            });
            let deployments: Api<Deployment> = scenario.api();
            deployments.create(&PostParams::default(), &web.build()).await.unwrap();
            rolled_out(&scenario, 6, 1).await;

            let change = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": "nginx:2" }] } } } });
            deployments
                .patch("web", &PatchParams::default(), &Patch::Strategic(change))
                .await
                .unwrap();
            rolled_out(&scenario, 6, 2).await;
            let pods: Api<Pod> = scenario.api();
            eventually(PATIENCE, "only new Pods are left", || async {
                let images: Vec<_> = pods
                    .list(&ListParams::default())
                    .await?
                    .into_iter()
                    .map(|pod| pod.spec.unwrap().containers[0].image.clone())
                    .collect();
                if images == vec![Some("nginx:2".to_owned()); 6] {
                    Ok(())
                } else {
                    Err(not_yet(&images))
                }
            })
            .await;
            assert_eq!(scenario.nodes.stats().pods, 6);
        },
    );
}

#[test]
fn a_job_retries_and_completes() {
    with_nodes("job", SimOptions::default(), |scenario| async move {
        let template = pod("")
            .restart_policy("OnFailure")
            .script("crash", "1")
            .script("exit-after", "200ms");
        let mut template = template.node_selector(scenario.nodes.selector()).json();
        template["metadata"].as_object_mut().unwrap().remove("name");
        let spec = json!({ "template": { "metadata": template["metadata"], "spec": template["spec"] } });
        let job: Job = serde_json::from_value(json!({ "metadata": { "name": "once" }, "spec": spec })).unwrap();
        let jobs: Api<Job> = scenario.api();
        jobs.create(&PostParams::default(), &job).await.unwrap();
        eventually(PATIENCE, "the Job is complete", || async {
            let status = jobs.get("once").await?.status.unwrap_or_default();
            if status.succeeded == Some(1) && status.completion_time.is_some() {
                Ok(())
            } else {
                Err(not_yet(&status))
            }
        })
        .await;
    });
}
