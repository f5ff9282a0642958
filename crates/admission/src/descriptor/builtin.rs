//! Resources of Kubernetes that we change, check, or need rights for.

use super::{
    Controller, Descriptor, Entry, Grant, Handler, Hook, Live, Needs,
    Operation::{Create, Delete, Update},
    Reach, Resource,
    ours::{ALL, CHANGE, READ, entry, fixed, grant, limited, tuned},
};
use crate::pods;
use kruise_api::{gates::Gate, names::component::controller, podunavailablebudget, sidecarset};

pub(super) const RESOURCES: &[Descriptor] = &[
    Descriptor {
        mutate: Some(Hook {
            path: "/mutate-pod",
            alias: None,
            entries: &[entry("mpod.kb.io", &[Create])],
            live: Live::GatedAndServed(Gate::PodWebhook, &sidecarset::KIND),
            reach: Reach::Pods,
            handler: Handler::Now(pods::mutate),
        }),
        validate: Some(Hook {
            path: "/validate-pod",
            alias: None,
            entries: &[
                entry("vpod.kb.io", &[Update, Delete]),
                Entry {
                    subresource: "/eviction",
                    ..entry("vpodeviction.kb.io", &[Create])
                },
            ],
            live: Live::GatedAndServed(Gate::PodWebhook, &podunavailablebudget::KIND),
            reach: Reach::Pods,
            handler: Handler::NotBuilt,
        }),
        controllers: &[
            fixed(controller::POD_READINESS, 3),
            fixed(controller::CONTAINER_LAUNCH_PRIORITY, 4),
            Controller {
                gates: &[&[Gate::SidecarTerminator]],
                ..limited(tuned(controller::SIDECAR_TERMINATOR, "sidecarterminator-workers"))
            },
        ],
        grants: &[
            grant("", ALL),
            grant("/status", CHANGE),
            grant("/ephemeralcontainers", CHANGE),
            grant("/resize", CHANGE),
        ],
        ..resource("", V1, "pods")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-apps-deployment",
            &[entry("vbuiltindeployment.kb.io", &[Delete])],
        )),
        grants: &[grant("", ALL), grant("/status", CHANGE)],
        ..resource("apps", V1, "deployments")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-apps-replicaset",
            &[entry("vbuiltinreplicaset.kb.io", &[Delete])],
        )),
        grants: &[grant("", READ), grant("/status", &["get"])],
        ..resource("apps", V1, "replicasets")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-apps-statefulset",
            &[entry("vbuiltinstatefulset.kb.io", &[Delete])],
        )),
        grants: &[grant("", ALL), grant("/status", CHANGE)],
        ..resource("apps", V1, "statefulsets")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-namespace",
            &[entry("vnamespace.kb.io", &[Delete])],
        )),
        grants: &[grant("", READ)],
        ..resource("", V1, "namespaces")
    },
    Descriptor {
        validate: Some(protection(
            "/validate-customresourcedefinition",
            &[entry("vcustomresourcedefinition.kb.io", &[Delete])],
        )),
        grants: &[grant("", CONFIGURE)],
        ..resource("apiextensions.k8s.io", V1_V1BETA1, "customresourcedefinitions")
    },
    Descriptor {
        validate: Some(Hook {
            live: Live::Gated(Gate::ResourcesDeletionProtection),
            ..protection("/validate-service", &[entry("vservice.kb.io", &[Delete])])
        }),
        ..resource("", V1, "services")
    },
    Descriptor {
        validate: Some(Hook {
            live: Live::Gated(Gate::ResourcesDeletionProtection),
            ..protection("/validate-ingress", &[entry("vingress.kb.io", &[Delete])])
        }),
        ..resource("networking.k8s.io", V1_V1BETA1, "ingresses")
    },
    granted("", "configmaps", &[grant("", ALL)]),
    granted("", "events", &[grant("", ALL)]),
    granted("", "nodes", &[grant("", READ)]),
    granted("", "persistentvolumeclaims", &[grant("", ALL)]),
    // Templates are checked by a dry run of creating one of these.
    granted("", "podtemplates", &[grant("", &["create"])]),
    granted(
        "",
        "secrets",
        &[grant("", &["create", "delete", "get", "list", "update", "watch"])],
    ),
    granted("*", "*", &[grant("", &["list"]), grant("/scale", READ)]),
    granted(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        &[grant("", CONFIGURE)],
    ),
    granted(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        &[grant("", CONFIGURE)],
    ),
    granted("apps", "controllerrevisions", &[grant("", ALL)]),
    granted("batch", "jobs", &[grant("", ALL), grant("/status", CHANGE)]),
    granted("coordination.k8s.io", "leases", &[grant("", ALL)]),
    granted("storage.k8s.io", "storageclasses", &[grant("", READ)]),
];

const V1: &[&str] = &["v1"];
const V1_V1BETA1: &[&str] = &["v1", "v1beta1"];
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
const fn protection(path: &'static str, entries: &'static [Entry]) -> Hook {
    Hook {
        path,
        alias: None,
        entries,
        live: Live::Always,
        reach: Reach::Protected,
        handler: Handler::NotBuilt,
    }
}
