//! Resources of Kubernetes that we change, check, or need rights for.

use super::{
    Controller, Descriptor, Entry, Grant, Handler, Hook, Live,
    NeededBy::{Controllers, Gated, Process, With},
    Needs,
    Operation::{Create, Delete, Update},
    Reach, Resource, Scope,
    ours::{ALL, CHANGE, OF_OTHER_WORKLOADS, READ, built, entry, fixed, grant, limited, needed, tuned},
};
use crate::{explain, pods, protect, validate_pod};
use kruise_api::{
    gates::Gate,
    names::{annotation, component::controller, group},
    namespace::Namespace,
    persistentpodstate::v1beta1::PersistentPodState,
    podprobemarker::v1alpha1::PodProbeMarker,
    podunavailablebudget::{self, v1beta1::PodUnavailableBudget},
    sidecarset::{self, v1beta1::SidecarSet},
    workloadspread::v1beta1::WorkloadSpread,
};
use kruise_runtime::cache::Stores;

pub(super) const RESOURCES: &[Descriptor] = &[
    Descriptor {
        mutate: Some(Hook {
            path: "/mutate-pod",
            alias: None,
            entries: &[entry("mpod.kb.io", &[Create])],
            live: Live::GatedAndServed(&[&[Gate::PodWebhook]], &sidecarset::KIND),
            reach: Reach::Pods,
            handler: Handler::Later(pods::mutate),
            reads: &[
                Stores::pending::<SidecarSet>,
                Stores::pending::<Namespace>,
                Stores::pending::<PersistentPodState>,
                Stores::pending::<PodProbeMarker>,
                Stores::pending::<WorkloadSpread>,
            ],
        }),
        validate: Some(Hook {
            path: "/validate-pod",
            alias: None,
            entries: &[
                Entry {
                    annotated: CONCERNED,
                    ..entry("vpod.kb.io", &[Update, Delete])
                },
                Entry {
                    subresource: "/eviction",
                    ..entry("vpodeviction.kb.io", &[Create])
                },
                Entry {
                    subresource: "/resize",
                    annotated: CONCERNED,
                    ..entry("vpodresize.kb.io", &[Update])
                },
            ],
            live: Live::GatedAndServed(&[&[Gate::PodWebhook], ASK_ABOUT_PODS], &podunavailablebudget::KIND),
            reach: Reach::Pods,
            handler: Handler::Later(validate_pod::validate),
            reads: &[Stores::pending::<PodUnavailableBudget>],
        }),
        controllers: &[
            built(fixed(controller::POD_READINESS, 3)),
            built(fixed(controller::CONTAINER_LAUNCH_PRIORITY, 4)),
            Controller {
                gates: &[&[Gate::SidecarTerminator]],
                ..built(limited(tuned(
                    controller::SIDECAR_TERMINATOR,
                    "sidecarterminator-workers",
                )))
            },
        ],
        grants: &[
            grant("", ALL),
            grant("/status", CHANGE),
            needed(
                grant("/ephemeralcontainers", CHANGE),
                Controllers(&[controller::EPHEMERAL_JOB]),
            ),
            needed(grant("/eviction", &["create"]), Controllers(&[controller::SIDECAR_SET])),
            needed(
                grant("/resize", CHANGE),
                Controllers(&[controller::CLONE_SET, controller::STATEFUL_SET]),
            ),
        ],
        ..resource("", V1, "pods")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-apps-deployment",
            &[entry("vbuiltindeployment.kb.io", &[Delete])],
            Handler::Later(protect::workload),
        )),
        grants: &[
            needed(grant("", READ), Controllers(OF_OTHER_WORKLOADS)),
            needed(grant("", ALL), Controllers(&[controller::UNITED_DEPLOYMENT])),
            needed(grant("/status", CHANGE), Controllers(&[controller::UNITED_DEPLOYMENT])),
        ],
        ..resource("apps", V1, "deployments")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-apps-replicaset",
            &[entry("vbuiltinreplicaset.kb.io", &[Delete])],
            Handler::Later(protect::workload),
        )),
        grants: &[
            needed(grant("", READ), Controllers(OF_REPLICA_SETS)),
            needed(grant("/status", &["get"]), Controllers(OF_OTHER_WORKLOADS)),
        ],
        ..resource("apps", V1, "replicasets")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-apps-statefulset",
            &[entry("vbuiltinstatefulset.kb.io", &[Delete])],
            Handler::Later(protect::workload),
        )),
        grants: &[
            needed(grant("", READ), Controllers(OF_OTHER_WORKLOADS)),
            needed(grant("", ALL), Controllers(&[controller::UNITED_DEPLOYMENT])),
            needed(grant("/status", CHANGE), Controllers(&[controller::UNITED_DEPLOYMENT])),
        ],
        ..resource("apps", V1, "statefulsets")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-namespace",
            &[entry("vnamespace.kb.io", &[Delete])],
            Handler::Later(protect::namespace),
        )),
        // Whether a SidecarSet applies to a Pod goes by labels of its namespace.
        grants: &[needed(grant("", READ), Process)],
        ..resource("", V1, "namespaces")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-customresourcedefinition",
            &[entry("vcustomresourcedefinition.kb.io", &[Delete])],
            Handler::Later(protect::definition),
        )),
        grants: &[needed(grant("", CONFIGURE), Process)],
        ..resource("apiextensions.k8s.io", V1_V1BETA1, "customresourcedefinitions")
    },
    Descriptor {
        validate: Some(Hook {
            live: Live::Gated(Gate::ResourcesDeletionProtection),
            ..protection(
                "/validate-service",
                &[entry("vservice.kb.io", &[Delete])],
                Handler::Now(protect::endpoint),
            )
        }),
        ..resource("", V1, "services")
    },
    Descriptor {
        validate: Some(Hook {
            live: Live::Gated(Gate::ResourcesDeletionProtection),
            ..protection(
                "/validate-ingress",
                &[entry("vingress.kb.io", &[Delete])],
                Handler::Now(protect::endpoint),
            )
        }),
        ..resource("networking.k8s.io", V1_V1BETA1, "ingresses")
    },
    // Questions of people. Nothing is stored of it, and no controller has anything to do with it.
    Descriptor {
        mutate: Some(Hook {
            path: explain::PATH,
            alias: None,
            entries: &[entry("mexplanation.kb.io", &[Create])],
            live: Live::Always,
            reach: Reach::All,
            handler: Handler::Later(explain::answer),
            reads: &[],
        }),
        ..resource(group::EXPLAIN, &[group::V1ALPHA1], explain::PLURAL)
    },
    granted(
        "authorization.k8s.io",
        "subjectaccessreviews",
        &[needed(grant("", &["create"]), Process)],
    ),
    // Barriers of launch priorities, and our own configuration.
    granted("", "configmaps", &[needed(grant("", ALL), Process)]),
    granted("", "events", &[needed(grant("", &["create", "patch"]), Process)]),
    granted(
        "",
        "nodes",
        &[needed(
            grant("", READ),
            Controllers(&[
                controller::BROADCAST_JOB,
                controller::CLONE_SET,
                controller::CONTAINER_RECREATE_REQUEST,
                controller::DAEMON_SET,
                controller::IMAGE_PULL_JOB,
                controller::NODE_IMAGE,
                controller::PERSISTENT_POD_STATE,
                controller::NODE_POD_PROBE,
                controller::POD_PROBE_MARKER,
                controller::SIDECAR_TERMINATOR,
                controller::WORKLOAD_SPREAD,
            ]),
        )],
    ),
    granted(
        "",
        "persistentvolumeclaims",
        &[needed(
            grant("", ALL),
            Controllers(&[controller::CLONE_SET, controller::STATEFUL_SET]),
        )],
    ),
    // Templates are checked by a dry run of creating one of these.
    granted("", "podtemplates", &[needed(grant("", &["create"]), Process)]),
    // Those that jobs name are copied to where daemons read them; our own are certificates.
    granted(
        "",
        "secrets",
        &[
            needed(grant("", READ), Controllers(&[controller::IMAGE_PULL_JOB])),
            Grant {
                scope: Scope::DaemonConfig,
                ..needed(grant("", WRITE), Controllers(&[controller::IMAGE_PULL_JOB]))
            },
            Grant {
                scope: Scope::System,
                ..needed(grant("", ALL), Process)
            },
            needed(
                grant("", &["create", "delete", "get", "list", "update", "watch"]),
                Controllers(&[controller::RESOURCE_DISTRIBUTION]),
            ),
        ],
    ),
    granted(
        "*",
        "*",
        &[
            // Objects of a CRD that is to be deleted.
            needed(grant("", &["list"]), With(Gate::DeletionProtectionForCRDCascadingGate)),
            needed(grant("/scale", READ), Controllers(OF_OTHER_WORKLOADS)),
        ],
    ),
    granted(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        &[needed(grant("", CONFIGURE), Process)],
    ),
    granted(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        &[needed(grant("", CONFIGURE), Process)],
    ),
    granted(
        "apps",
        "controllerrevisions",
        &[needed(
            grant("", ALL),
            Controllers(&[
                controller::CLONE_SET,
                controller::DAEMON_SET,
                controller::SIDECAR_SET,
                controller::STATEFUL_SET,
                controller::UNITED_DEPLOYMENT,
            ]),
        )],
    ),
    granted(
        "batch",
        "jobs",
        &[
            needed(grant("", ALL), Controllers(&[controller::ADVANCED_CRON_JOB])),
            needed(grant("/status", CHANGE), Controllers(&[controller::ADVANCED_CRON_JOB])),
            needed(grant("", READ), Controllers(&[controller::WORKLOAD_SPREAD])),
        ],
    ),
    granted(
        "coordination.k8s.io",
        "leases",
        &[Grant {
            scope: Scope::System,
            ..needed(grant("", ALL), Process)
        }],
    ),
    granted(
        "storage.k8s.io",
        "storageclasses",
        &[needed(
            grant("", READ),
            Gated(Gate::StatefulSetAutoResizePVCGate, &[controller::STATEFUL_SET]),
        )],
    ),
];

/// Gates without which nobody asks about the Pods that change or go.
const ASK_ABOUT_PODS: &[Gate] = &[
    Gate::PodUnavailableBudgetDeleteGate,
    Gate::PodUnavailableBudgetUpdateGate,
    Gate::WorkloadSpread,
];
/// What a Pod names that is asked, or hears of it.
const CONCERNED: &[&str] = &[
    annotation::RELATED_BUDGET,
    annotation::RELATED_BUDGET_OLD,
    annotation::MATCHED_WORKLOAD_SPREAD,
];
/// Controllers that find the Pods of Deployments.
const OF_REPLICA_SETS: &[&str] = &[
    controller::PERSISTENT_POD_STATE,
    controller::POD_UNAVAILABLE_BUDGET,
    controller::UNITED_DEPLOYMENT,
    controller::WORKLOAD_SPREAD,
];
const V1: &[&str] = &["v1"];
const V1_V1BETA1: &[&str] = &["v1", "v1beta1"];
const WRITE: &[&str] = &["create", "delete", "update"];
const CONFIGURE: &[&str] = &["get", "list", "patch", "update", "watch"];

const fn resource(group: &'static str, versions: &'static [&'static str], plural: &'static str) -> Descriptor {
    Descriptor {
        resource: Resource::BuiltIn {
            group,
            versions,
            plural,
        },
        mutate: None,
        validate: None,
        gates: Needs::Nothing,
        invalid: 422,
        controllers: &[],
        grants: &[],
    }
}

const fn granted(group: &'static str, plural: &'static str, grants: &'static [Grant]) -> Descriptor {
    Descriptor {
        grants,
        ..resource(group, V1, plural)
    }
}

/// Refuses to delete what is protected.
const fn protection(path: &'static str, entries: &'static [Entry], handler: Handler) -> Hook {
    Hook {
        path,
        alias: None,
        entries,
        live: Live::Always,
        reach: Reach::Protected,
        handler,
        reads: &[],
    }
}
