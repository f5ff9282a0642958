//! What people's boards and alerts ask about objects: numbers of every kind, as Prometheus text.
//!
//! - Names, labels and the order of labels are those of `kruise-state-metrics`, which boards are made for. Every family is a gauge, and is announced even while it has
//!   no sample.
//! - Every sample has the object's `namespace` (empty for objects of the cluster) and its name under the name of its kind; then come the labels of the
//!   family.
//! - What is only told by a label (a strategy, a partition, a revision) is a sample of 1.
//! - What an object does not say has no sample. A value that cannot be read has none either, and is [reported](Unreadable). No object spoils the page.
//! - No two samples of a page have the same labels: of an object that says something twice, the first counts.
//! - Text is written straight into one buffer, an object at a time; nothing is kept between two pages.
//!
//! A kind is a file with its [`Family`] table. [`Exposition`] writes the page of one kind as [`Options`] say, and [`catalogue`] lists what there is.

mod advancedcronjob;
mod broadcastjob;
mod cloneset;
mod containerrecreaterequest;
mod daemonset;
mod ephemeraljob;
mod exposition;
mod family;
mod imagelistpulljob;
mod imagepulljob;
mod key;
mod nodeimage;
mod nodepodprobe;
mod options;
mod persistentpodstate;
mod podprobemarker;
mod podunavailablebudget;
mod resourcedistribution;
mod samples;
mod sidecarset;
mod statefulset;
#[cfg(test)]
mod tests;
mod uniteddeployment;
mod workloadspread;

use kruise_api::kind::Kind;
use kruise_api::meta::Object;

pub use exposition::{Exposition, Unreadable};
pub use family::{Family, FamilyInfo, KindInfo};
pub use options::{Options, OptionsError};
pub use samples::Samples;

use family::Head;

/// A kind that has families.
pub trait Sampled: Kind + Object + Sized + Send + Sync + 'static {
    /// What is told about each object.
    const FAMILIES: &'static [Family<Self>];

    /// Returns what the families of all kinds read.
    fn head(&self) -> &dyn Head;
}

/// Every kind with its families, by plural.
pub fn catalogue() -> Vec<KindInfo> {
    use kruise_api as api;
    vec![
        KindInfo::of::<api::advancedcronjob::v1beta1::AdvancedCronJob>(),
        KindInfo::of::<api::broadcastjob::v1beta1::BroadcastJob>(),
        KindInfo::of::<api::cloneset::v1beta1::CloneSet>(),
        KindInfo::of::<api::containerrecreaterequest::v1beta1::ContainerRecreateRequest>(),
        KindInfo::of::<api::daemonset::v1beta1::DaemonSet>(),
        KindInfo::of::<api::ephemeraljob::v1alpha1::EphemeralJob>(),
        KindInfo::of::<api::imagelistpulljob::v1beta1::ImageListPullJob>(),
        KindInfo::of::<api::imagepulljob::v1beta1::ImagePullJob>(),
        KindInfo::of::<api::nodeimage::CachedNodeImage>(),
        KindInfo::of::<api::nodepodprobe::CachedNodePodProbe>(),
        KindInfo::of::<api::persistentpodstate::v1beta1::PersistentPodState>(),
        KindInfo::of::<api::podprobemarker::v1alpha1::PodProbeMarker>(),
        KindInfo::of::<api::podunavailablebudget::v1beta1::PodUnavailableBudget>(),
        KindInfo::of::<api::resourcedistribution::v1beta1::ResourceDistribution>(),
        KindInfo::of::<api::sidecarset::v1beta1::SidecarSet>(),
        KindInfo::of::<api::statefulset::v1beta1::StatefulSet>(),
        KindInfo::of::<api::uniteddeployment::v1beta1::UnitedDeployment>(),
        KindInfo::of::<api::workloadspread::v1beta1::WorkloadSpread>(),
    ]
}

/// Declares that a kind has families, in its module.
macro_rules! sampled {
    ($kind:ty, $families:expr) => {
        impl super::Sampled for $kind {
            const FAMILIES: &'static [super::Family<Self>] = $families;

            fn head(&self) -> &dyn super::family::Head {
                &self.metadata
            }
        }
    };
}
use sampled;

/// Reads a number of a status; what has no status yet has zeros.
#[expect(clippy::unnecessary_wraps, reason = "families read what may be absent")]
fn of<S, N: Into<i64>>(status: Option<&S>, read: impl Fn(&S) -> N) -> Option<i64> {
    Some(status.map_or(0, |status| read(status).into()))
}

/// Returns a text of a status, empty without one.
fn text_of<S>(status: Option<&S>, read: impl Fn(&S) -> &str) -> &str {
    status.map_or("", read)
}

/// Returns how many there are.
fn count(items: usize) -> Option<i64> {
    i64::try_from(items).ok()
}
