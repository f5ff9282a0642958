//! Conversion between the two versions of a kind, and the `ConversionReview` that asks for it.
//!
//! Every kind with two versions is known here, also those whose CRD needs no webhook: an administrator may turn it on.
//! What each kind does is in its own `convert` module; [`Rules`] tells what holds for all of them.
//!
//! A review is answered as a whole: one object that cannot be converted fails it, with a message that names the object.
//! Values that were left out do not fail it; they come back as warnings for the log.

mod review;

pub use crate::shared::convert::{ConvertError, Rules, Warning};
pub use review::{BadReview, Reviewed, review};

use crate::shared::tree::Object;
use crate::{
    advancedcronjob, cloneset, containerrecreaterequest, daemonset, nodeimage, persistentpodstate,
    podunavailablebudget, resourcedistribution, sidecarset, statefulset, uniteddeployment, workloadspread,
};
use kruise_api::names::group::{APPS, POLICY, V1ALPHA1, V1BETA1};
use serde_json::Value;

/// A kind that exists as v1alpha1 and v1beta1.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub group: &'static str,
    pub kind: &'static str,
    pub rules: Rules,
}

const fn apps(kind: &'static str, rules: Rules) -> Kind {
    Kind {
        group: APPS,
        kind,
        rules,
    }
}

/// Every kind that can be converted.
pub const KINDS: [Kind; 15] = [
    apps("AdvancedCronJob", advancedcronjob::convert::RULES),
    apps("BroadcastJob", Rules::SAME),
    apps("CloneSet", cloneset::convert::RULES),
    apps("ContainerRecreateRequest", containerrecreaterequest::convert::RULES),
    apps("DaemonSet", daemonset::convert::RULES),
    apps("ImageListPullJob", Rules::SAME),
    apps("ImagePullJob", Rules::SAME),
    apps("NodeImage", nodeimage::convert::RULES),
    apps("PersistentPodState", persistentpodstate::convert::RULES),
    Kind {
        group: POLICY,
        kind: "PodUnavailableBudget",
        rules: podunavailablebudget::convert::RULES,
    },
    apps("ResourceDistribution", resourcedistribution::convert::RULES),
    apps("SidecarSet", sidecarset::convert::RULES),
    apps("StatefulSet", statefulset::convert::RULES),
    apps("UnitedDeployment", uniteddeployment::convert::RULES),
    apps("WorkloadSpread", workloadspread::convert::RULES),
];

/// Converts one object to `desired`, an `apiVersion` such as `apps.kruise.io/v1beta1`. Returns what was left out.
///
/// The object is changed in place. After an error it is in neither version and must be thrown away.
pub fn convert(object: &mut Object, desired: &str) -> Result<Vec<Warning>, ConvertError> {
    let text = |field: &'static str| {
        let value = object.get(field).and_then(Value::as_str);
        value.map(str::to_owned).ok_or(ConvertError::Malformed(field))
    };
    let (have, kind) = (text("apiVersion")?, text("kind")?);
    if !object.get("metadata").is_some_and(Value::is_object) {
        return Err(ConvertError::Malformed("metadata"));
    }
    let (from, source) = resolve(&have, &kind)?;
    let (to, target) = resolve(desired, &kind)?;
    if source.group != target.group {
        return Err(ConvertError::UnknownKind {
            api_version: desired.to_owned(),
            kind,
        });
    }
    let mut warnings = Vec::new();
    match (from, to) {
        (Version::V1alpha1, Version::V1beta1) => source.rules.convert_up(object, &mut warnings)?,
        (Version::V1beta1, Version::V1alpha1) => source.rules.convert_down(object, &mut warnings)?,
        _ => return Err(ConvertError::SameVersion { api_version: have }),
    }
    object.insert("apiVersion".into(), desired.into());
    Ok(warnings)
}

#[derive(Clone, Copy)]
enum Version {
    V1alpha1,
    V1beta1,
}

fn resolve(api_version: &str, kind: &str) -> Result<(Version, &'static Kind), ConvertError> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let known = KINDS.iter().find(|known| known.group == group && known.kind == kind);
    let version = match version {
        V1ALPHA1 => Some(Version::V1alpha1),
        V1BETA1 => Some(Version::V1beta1),
        _ => None,
    };
    version.zip(known).ok_or_else(|| ConvertError::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    })
}
