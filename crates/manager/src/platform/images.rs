//! How the kinds that pull images and recreate containers are watched, and what they are found by.
//!
//! No event may cost a look at every job or every node: each way from one object to others is an index.

use super::watched::Watched;
use crate::Settings;
use kruise_api::{
    containerrecreaterequest::v1beta1::ContainerRecreateRequest, gates::Gate,
    imagelistpulljob::v1beta1::ImageListPullJob, imagepulljob::v1beta1::ImagePullJob, names::label, node::Node,
    nodeimage::CachedNodeImage, pod::Pod, secret::Secret,
};
use kruise_core::imagepulljob::{is_active, secrets};
use kruise_runtime::cache::{Index, Kind};

/// Pods by namespace.
pub const PODS_BY_NAMESPACE: Index<Pod> = Index::new("namespace", |pod, key| key(&pod.metadata.namespace));

/// Jobs that have something to do, all under the key `true`.
pub const ACTIVE_JOBS: Index<ImagePullJob> = Index::new("active", |job, key| {
    if is_active(job) {
        key("true");
    }
});

/// Jobs by the UID of each owner.
pub const JOBS_BY_OWNER: Index<ImagePullJob> = Index::new("owner", |job, key| {
    for owner in job.metadata.owner_references.iter().flatten() {
        key(&owner.uid);
    }
});

/// Jobs that have something to do and go by Pods, by their namespace.
pub const JOBS_BY_POD_NAMESPACE: Index<ImagePullJob> = Index::new("podNamespace", |job, key| {
    if is_active(job) && job.spec.pod_selector.is_some() {
        key(job.metadata.namespace.as_deref().unwrap_or_default());
    }
});

/// Jobs that have something to do, by `namespace/name` of each Secret they name.
pub const JOBS_BY_SECRET: Index<ImagePullJob> = Index::new("secret", |job, key| {
    if is_active(job) {
        for name in &job.spec.pull_secrets {
            key(&secrets::key(
                job.metadata.namespace.as_deref().unwrap_or_default(),
                name,
            ));
        }
    }
});

impl Watched for ImagePullJob {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
            .index(&ACTIVE_JOBS)
            .index(&JOBS_BY_OWNER)
            .index(&JOBS_BY_POD_NAMESPACE)
            .index(&JOBS_BY_SECRET)
    }
}

/// Lists by the UID of the owner that manages them.
pub const LISTS_BY_OWNER: Index<ImageListPullJob> = Index::new("owner", |list, key| {
    let owners = list.metadata.owner_references.iter().flatten();
    for owner in owners.filter(|owner| owner.controller == Some(true)) {
        key(&owner.uid);
    }
});

impl Watched for ImageListPullJob {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&LISTS_BY_OWNER)
    }
}

/// NodeImages by each of their labels, as `key=value`.
pub const IMAGES_BY_LABEL: Index<CachedNodeImage> = Index::new("label", |images, key| {
    for (name, value) in images.metadata.labels.iter() {
        key(&format!("{name}={}", &**value));
    }
});

/// NodeImages by the UID of each owner of a tag.
pub const IMAGES_BY_JOB: Index<CachedNodeImage> = Index::new("job", |images, key| {
    let tags = images.spec.images.values().flat_map(|image| &image.tags);
    for owner in tags.flat_map(|tag| &tag.owner_references) {
        if let Some(uid) = &owner.uid {
            key(uid);
        }
    }
});

impl Watched for CachedNodeImage {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&IMAGES_BY_LABEL).index(&IMAGES_BY_JOB)
    }
}

impl Watched for Node {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().heartbeats(Node::is_as)
    }
}

/// Copies of Secrets by `namespace/name` of what they are copied from.
pub const SECRETS_BY_SOURCE: Index<Secret> = Index::new("source", |secret, key| {
    if let Some(source) = secrets::source(secret) {
        key(source);
    }
});

/// Copies of Secrets by `namespace/name` of each job that needs them.
pub const SECRETS_BY_USER: Index<Secret> = Index::new("user", |secret, key| {
    for job in secrets::users(secret) {
        key(job);
    }
});

/// Secrets that are large and many, and never for a registry.
const NO_PULL_SECRETS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token";

impl Watched for Secret {
    fn kind(settings: &Settings) -> Kind<Self> {
        let all = Kind::of().index(&SECRETS_BY_SOURCE).index(&SECRETS_BY_USER);
        // Secrets of any type can be distributed.
        if settings.gates.enabled(Gate::ResourceDistributionGate) {
            return all;
        }
        all.fields(NO_PULL_SECRETS)
    }
}

/// Requests that have not ended, by the UID of their Pod.
pub const REQUESTS_BY_POD: Index<ContainerRecreateRequest> = Index::new("pod", |request, key| {
    let has_ended = request
        .status
        .as_ref()
        .is_some_and(|status| status.completion_time.is_some());
    let uid = request
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(label::CRR_POD_UID));
    if let Some(uid) = uid.filter(|_| !has_ended) {
        key(uid);
    }
});

impl Watched for ContainerRecreateRequest {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&REQUESTS_BY_POD)
    }
}
