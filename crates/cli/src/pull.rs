//! `kubectl kruise pull`: an ImagePullJob, and how it goes.

use crate::{
    args::{Connection, Pull},
    connect::connect,
    explain::Completeness,
    follow::{Followed, Progress, say, seconds},
};
use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::{
    imagepulljob::{ImagePullJobSpec, ImagePullJobStatus, v1beta1::ImagePullJob},
    shared::{
        IntOrPercent,
        completion::{CompletionPolicy, CompletionPolicyType},
        image_pull::{ImagePullPolicy, NodeChoice, PullPolicy},
    },
};

/// Seconds that a job is kept after its end, for those who want to look.
const KEPT_SECONDS: i32 = 600;

pub(crate) async fn run(connection: &Connection, args: &Pull) -> Result<Completeness> {
    let (client, namespace) = connect(connection).await?;
    let followed = Followed::make(&client, &namespace, &job(args), connection).await?;
    if args.no_wait {
        return Ok(Completeness::All);
    }
    let done = followed.until_done(|job| progress(job.status.as_ref())).await?;
    let status = done.status.unwrap_or_default();
    if status.desired == 0 {
        say("no node was chosen; a node has to be ready for half a minute, and its daemon has to run")?;
    }
    if status.failed == 0 {
        return Ok(Completeness::All);
    }
    say(&format!("failed on {}", status.failed_nodes.join(", ")))?;
    Ok(Completeness::Failed)
}

fn job(args: &Pull) -> ImagePullJob {
    let choice = NodeChoice {
        names: args.nodes.clone(),
        match_labels: args.selector.iter().cloned().collect(),
        ..NodeChoice::default()
    };
    ImagePullJob {
        metadata: ObjectMeta {
            generate_name: Some("pull-".to_owned()),
            ..ObjectMeta::default()
        },
        spec: ImagePullJobSpec {
            image: args.image.clone(),
            pull_secrets: args.secrets.clone(),
            selector: (choice != NodeChoice::default()).then_some(choice),
            parallelism: Some(IntOrPercent::Int(i32::from(args.parallelism))),
            pull_policy: Some(PullPolicy {
                timeout_seconds: i32::try_from(seconds(args.attempt)).ok(),
                ..PullPolicy::default()
            }),
            completion_policy: CompletionPolicy {
                type_: CompletionPolicyType::Always,
                ttl_seconds_after_finished: Some(KEPT_SECONDS),
                ..CompletionPolicy::default()
            },
            image_pull_policy: if args.always {
                ImagePullPolicy::Always
            } else {
                ImagePullPolicy::IfNotPresent
            },
            ..ImagePullJobSpec::default()
        },
        ..ImagePullJob::default()
    }
}

/// `3 of 10 nodes have it, 5 pull, 1 failed`.
fn progress(status: Option<&ImagePullJobStatus>) -> Progress {
    let Some(status) = status else {
        return Progress {
            line: "waiting for the manager".to_owned(),
            is_done: false,
        };
    };
    let is_done = status.completion_time.is_some();
    let ImagePullJobStatus {
        desired,
        active,
        succeeded,
        failed,
        ..
    } = status;
    let counts = format!("{succeeded} of {desired} nodes have it, {active} pull, {failed} failed");
    let line = if is_done {
        format!("{}: {counts}", status.message)
    } else {
        counts
    };
    Progress { line, is_done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser as _;
    use serde_json::json;

    #[test]
    fn given_flags_then_the_job_is_as_they_say() {
        let line = "kubectl-kruise pull nginx:1 --nodes b,a --secret s --parallelism 2 --always --pull-timeout 30s";
        let Command::Pull(args) = Args::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("another command");
        };
        assert_eq!(
            serde_json::to_value(job(&args)).unwrap()["spec"],
            json!({
                "image": "nginx:1", "pullSecrets": ["s"], "selector": {"names": ["b", "a"]}, "parallelism": 2, "pullPolicy": {"timeoutSeconds": 30},
                "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 600}, "imagePullPolicy": "Always",
            })
        );
        let Command::Pull(args) = Args::try_parse_from(["kubectl-kruise", "pull", "nginx:1"])
            .unwrap()
            .command
        else {
            panic!("another command");
        };
        assert!(job(&args).spec.selector.is_none(), "all nodes");
    }

    #[test]
    fn given_a_status_then_it_is_told_in_a_line() {
        let status = |json| serde_json::from_value::<ImagePullJobStatus>(json).unwrap();
        let under_way = status(
            json!({"desired": 10, "active": 5, "succeeded": 3, "failed": 1, "message": "job is running, progress 40.0%"}),
        );
        assert_eq!(
            progress(Some(&under_way)).line,
            "3 of 10 nodes have it, 5 pull, 1 failed"
        );
        let done = status(
            json!({"desired": 1, "active": 0, "succeeded": 1, "failed": 0, "message": "job has completed", "completionTime": "2026-01-01T00:00:00Z"}),
        );
        let shown = progress(Some(&done));
        assert_eq!(
            (shown.line.as_str(), shown.is_done),
            ("job has completed: 1 of 1 nodes have it, 0 pull, 0 failed", true)
        );
        assert!(!progress(None).is_done);
    }
}
