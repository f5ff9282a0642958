//! A job that a schedule starts, as it was recorded: what is sent, and what defaults make of it.

use std::sync::Arc;

use kruise_core::{
    advancedcronjob::{Observed, plan},
    broadcastjob,
    plan::{Action, Env},
};
use serde_json::{Value, json};

use super::{completed, env};

#[test]
fn given_a_recorded_schedule_then_the_job_is_the_recorded_one() {
    let recorded: Value = serde_json::from_str(include_str!("../../fixtures/jobs/started.json")).unwrap();
    let observed = Observed {
        cron: Arc::new(serde_json::from_value(recorded["cron"].clone()).unwrap()),
        ..Observed::default()
    };
    let plan = plan(&observed, &Env::at("2026-11-15T08:13:00.1Z".parse().unwrap()));
    let created = plan.writes().find_map(|action| match action {
        Action::Create { body, .. } => Some(body.json()),
        _ => None,
    });
    let mut stored = completed::<broadcastjob::Submitted>(&created.unwrap(), None, &env("v1beta1", false));
    // The API server keeps no empty labels.
    let labels = stored["metadata"].as_object_mut().unwrap().remove("labels");
    assert_eq!(labels, Some(json!({})));
    assert_eq!(stored, recorded["job"], "{stored:#}");
}
