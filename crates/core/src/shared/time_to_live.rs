//! What has done its work is kept for its time to live, so that people can see how it went; then it goes.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::kind::Kind;
use kruise_api::meta::Object;
use kruise_api::resource::Preconditions;

use crate::plan::why;
use crate::plan::{Action, Chain, Env, OnFailure, Pace, Phase, Plan, Step, Target};
use crate::shared::seconds::whole_seconds;

/// So many seconds after a time, or never if that is further away than time goes.
pub fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

/// Deletes an object that ended at a time, once its time to live is over. Without one it stays.
pub fn delete_after_ttl(
    object: &(impl Kind + Object),
    ended: Option<&Time>,
    seconds: Option<i32>,
    env: &Env,
    plan: &mut Plan,
) {
    let (Some(ended), Some(seconds)) = (ended, seconds) else {
        plan.because(why::General::Done { until: None });
        return;
    };
    let end = after(ended.0, i64::from(seconds));
    if end > env.now {
        plan.because(why::General::Done { until: Some(end) });
        plan.wake(whole_seconds(end.duration_since(env.now)));
        return;
    }
    let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
    step.push(Chain::of(
        Action::delete(Target::of(object), Preconditions::same(object)).into(),
    ));
    plan.push(step);
}
