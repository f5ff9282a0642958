//! Our own kinds.

use super::{
    Controller, Descriptor, Entry, Grant, Handler, Hook, Live, NeededBy, Needs,
    Operation::{self, Create, Delete, Update},
    Reach, Resource, Scope,
};
use crate::admit;
use kruise_api::{
    advancedcronjob, broadcastjob, cloneset, containerrecreaterequest, daemonset, ephemeraljob, gates::Gate,
    imagelistpulljob, imagepulljob, names::component::controller, nodeimage, nodepodprobe, persistentpodstate,
    pod::Pod, podprobemarker, podunavailablebudget, registry::KindInfo, resourcedistribution, sidecarset, statefulset,
    uniteddeployment, workloadspread,
};
use kruise_core as core;
use kruise_runtime::cache::Stores;

pub(super) const KINDS: &[Descriptor] = &[
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::advancedcronjob::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-advancedcronjob",
                Some("/mutate-apps-kruise-io-v1alpha1-advancedcronjob"),
                &[entry("madvancedcronjob.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::advancedcronjob::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-advancedcronjob",
                Some("/validate-apps-kruise-io-v1alpha1-advancedcronjob"),
                &[entry("vadvancedcronjob.kb.io", CU)],
            )
        }),
        controllers: &[built(tuned(controller::ADVANCED_CRON_JOB, "advancedcronjob-workers"))],
        ..kind(&advancedcronjob::KIND)
    },
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::broadcastjob::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-broadcastjob",
                Some("/mutate-apps-kruise-io-v1alpha1-broadcastjob"),
                &[entry("mbroadcastjob.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::broadcastjob::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-broadcastjob",
                Some("/validate-apps-kruise-io-v1alpha1-broadcastjob"),
                &[entry("vbroadcastjob.kb.io", CU)],
            )
        }),
        controllers: &[built(limited(tuned(controller::BROADCAST_JOB, "broadcastjob-workers")))],
        ..kind(&broadcastjob::KIND)
    },
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::cloneset::version::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-cloneset",
                Some("/mutate-apps-kruise-io-v1alpha1-cloneset"),
                &[entry("mcloneset.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::cloneset::version::Submitted>),
            reads: &[Stores::pending::<Pod>],
            ..hook(
                "/validate-apps-kruise-io-cloneset",
                Some("/validate-apps-kruise-io-v1alpha1-cloneset"),
                &[entry("vcloneset.kb.io", CUD)],
            )
        }),
        controllers: &[built(limited(tuned(controller::CLONE_SET, "cloneset-workers")))],
        ..kind(&cloneset::KIND)
    },
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::containerrecreaterequest::admit::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-containerrecreaterequest",
                Some("/mutate-apps-kruise-io-v1alpha1-containerrecreaterequest"),
                &[entry("mcontainerrecreaterequest.kb.io", CU)],
            )
        }),
        gates: Needs::All(&[Gate::KruiseDaemon]),
        invalid: 400,
        controllers: &[Controller {
            gates: &[&[Gate::KruiseDaemon]],
            ..built(tuned(controller::CONTAINER_RECREATE_REQUEST, "crr-workers"))
        }],
        ..kind(&containerrecreaterequest::KIND)
    },
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::daemonset::admit::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-daemonset",
                Some("/mutate-apps-kruise-io-v1alpha1-daemonset"),
                &[entry("mdaemonset.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::daemonset::admit::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-daemonset",
                Some("/validate-apps-kruise-io-v1alpha1-daemonset"),
                &[entry("vdaemonset.kb.io", CU)],
            )
        }),
        controllers: &[built(limited(tuned(controller::DAEMON_SET, "daemonset-workers")))],
        ..kind(&daemonset::KIND)
    },
    Descriptor {
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::ephemeraljob::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-v1alpha1-ephemeraljob",
                None,
                &[entry("vephemeraljobs.kb.io", CU)],
            )
        }),
        invalid: 400,
        controllers: &[built(fixed(controller::EPHEMERAL_JOB, 10))],
        // Its objects are made by users only.
        grants: &[
            grant("", &["delete", "get", "list", "patch", "update", "watch"]),
            grant("/finalizers", CHANGE),
            grant("/status", CHANGE),
        ],
        ..kind(&ephemeraljob::KIND)
    },
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::imagelistpulljob::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-imagelistpulljob",
                Some("/mutate-apps-kruise-io-v1alpha1-imagelistpulljob"),
                &[entry("mimagelistpulljob-v1beta1.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::imagelistpulljob::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-imagelistpulljob",
                Some("/validate-apps-kruise-io-v1alpha1-imagelistpulljob"),
                &[entry("vimagelistpulljob-v1beta1.kb.io", CU)],
            )
        }),
        gates: Needs::All(&[Gate::KruiseDaemon, Gate::ImagePullJobGate]),
        invalid: 400,
        controllers: &[Controller {
            gates: &[&[Gate::KruiseDaemon], &[Gate::ImagePullJobGate]],
            ..built(fixed(controller::IMAGE_LIST_PULL_JOB, 3))
        }],
        // They are started by the clock, too.
        grants: &[
            needed(
                grant("", ALL),
                NeededBy::Controllers(&[controller::IMAGE_LIST_PULL_JOB, controller::ADVANCED_CRON_JOB]),
            ),
            grant("/status", CHANGE),
            grant("/finalizers", UPDATE),
        ],
        ..kind(&imagelistpulljob::KIND)
    },
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::imagepulljob::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-imagepulljob",
                Some("/mutate-apps-kruise-io-v1alpha1-imagepulljob"),
                &[entry("mimagepulljob-v1beta1.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::imagepulljob::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-imagepulljob",
                Some("/validate-apps-kruise-io-v1alpha1-imagepulljob"),
                &[entry("vimagepulljob-v1beta1.kb.io", CU)],
            )
        }),
        gates: Needs::All(&[Gate::KruiseDaemon, Gate::ImagePullJobGate]),
        invalid: 400,
        controllers: &[Controller {
            gates: &[&[Gate::KruiseDaemon], &[Gate::ImagePullJobGate]],
            ..built(tuned(controller::IMAGE_PULL_JOB, "imagepulljob-workers"))
        }],
        // Workloads make jobs, too, to pull ahead.
        grants: &[
            needed(
                grant("", ALL),
                NeededBy::Controllers(&[controller::IMAGE_PULL_JOB, controller::IMAGE_LIST_PULL_JOB]),
            ),
            needed(
                grant("", ALL),
                NeededBy::Gated(Gate::PreDownloadImageForInPlaceUpdate, &[controller::CLONE_SET]),
            ),
            grant("/status", CHANGE),
            grant("/finalizers", UPDATE),
        ],
        ..kind(&imagepulljob::KIND)
    },
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::nodeimage::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-nodeimage",
                Some("/mutate-apps-kruise-io-v1alpha1-nodeimage"),
                &[entry("mnodeimage.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::nodeimage::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-nodeimage",
                Some("/validate-apps-kruise-io-v1alpha1-nodeimage"),
                &[entry("vnodeimage.kb.io", CU)],
            )
        }),
        gates: Needs::All(&[Gate::KruiseDaemon]),
        invalid: 400,
        controllers: &[Controller {
            gates: &[&[Gate::KruiseDaemon]],
            ..built(tuned(controller::NODE_IMAGE, "nodeimage-workers"))
        }],
        ..kind(&nodeimage::KIND)
    },
    Descriptor {
        controllers: &[Controller {
            gates: &[&[Gate::PodProbeMarkerGate], &[Gate::KruiseDaemon]],
            ..built(limited(tuned(controller::NODE_POD_PROBE, "nodepodprobe-workers")))
        }],
        ..kind(&nodepodprobe::KIND)
    },
    Descriptor {
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::persistentpodstate::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-persistentpodstate",
                None,
                &[entry("vpersistentpodstate.kb.io", CU)],
            )
        }),
        invalid: 400,
        controllers: &[built(limited(tuned(
            controller::PERSISTENT_POD_STATE,
            "persistentpodstate-workers",
        )))],
        ..kind(&persistentpodstate::KIND)
    },
    Descriptor {
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::podprobemarker::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-podprobemarker",
                None,
                &[entry("vpodprobemarker.kb.io", CU)],
            )
        }),
        gates: Needs::All(&[Gate::KruiseDaemon, Gate::PodProbeMarkerGate]),
        invalid: 400,
        controllers: &[Controller {
            gates: &[&[Gate::PodProbeMarkerGate]],
            ..built(limited(tuned(controller::POD_PROBE_MARKER, "podprobemarker-workers")))
        }],
        ..kind(&podprobemarker::KIND)
    },
    Descriptor {
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::resourcedistribution::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-resourcedistribution",
                Some("/validate-apps-kruise-io-v1alpha1-resourcedistribution"),
                &[entry("vresourcedistribution.kb.io", CU)],
            )
        }),
        gates: Needs::All(&[Gate::ResourceDistributionGate]),
        controllers: &[Controller {
            gates: &[&[Gate::ResourceDistributionGate]],
            ..built(limited(tuned(
                controller::RESOURCE_DISTRIBUTION,
                "resourcedistribution-workers",
            )))
        }],
        grants: &[grant("", READ), grant("/status", CHANGE), grant("/finalizers", UPDATE)],
        ..kind(&resourcedistribution::KIND)
    },
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::sidecarset::admit::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-sidecarset",
                Some("/mutate-apps-kruise-io-v1alpha1-sidecarset"),
                &[entry("msidecarset.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::sidecarset::admit::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-sidecarset",
                Some("/validate-apps-kruise-io-v1alpha1-sidecarset"),
                &[entry("vsidecarset.kb.io", CU)],
            )
        }),
        controllers: &[built(limited(tuned(controller::SIDECAR_SET, "sidecarset-workers")))],
        ..kind(&sidecarset::KIND)
    },
    Descriptor {
        grants: &[
            grant("", ALL),
            grant("/status", CHANGE),
            grant("/finalizers", UPDATE),
            // Budgets have to know its replicas.
            needed(grant("", READ), NeededBy::Controllers(OF_OTHER_WORKLOADS)),
        ],
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::statefulset::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-statefulset",
                None,
                &[entry("mstatefulset.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::statefulset::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-statefulset",
                None,
                &[entry("vstatefulset.kb.io", CUD)],
            )
        }),
        controllers: &[built(limited(tuned(controller::STATEFUL_SET, "statefulset-workers")))],
        ..kind(&statefulset::KIND)
    },
    Descriptor {
        mutate: Some(Hook {
            handler: Handler::Later(admit::mutate::<core::uniteddeployment::Submitted>),
            ..hook(
                "/mutate-apps-kruise-io-uniteddeployment",
                Some("/mutate-apps-kruise-io-v1alpha1-uniteddeployment"),
                &[entry("muniteddeployment.kb.io", CU)],
            )
        }),
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::uniteddeployment::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-uniteddeployment",
                Some("/validate-apps-kruise-io-v1alpha1-uniteddeployment"),
                &[entry("vuniteddeployment.kb.io", CUD)],
            )
        }),
        controllers: &[built(limited(tuned(
            controller::UNITED_DEPLOYMENT,
            "uniteddeployment-workers",
        )))],
        ..kind(&uniteddeployment::KIND)
    },
    Descriptor {
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::workloadspread::Submitted>),
            ..hook(
                "/validate-apps-kruise-io-workloadspread",
                Some("/validate-apps-kruise-io-v1alpha1-workloadspread"),
                &[entry("vworkloadspread.kb.io", CU)],
            )
        }),
        gates: Needs::All(&[Gate::WorkloadSpread]),
        invalid: 400,
        controllers: &[Controller {
            gates: &[&[Gate::WorkloadSpread]],
            ..built(limited(tuned(controller::WORKLOAD_SPREAD, "workloadspread-workers")))
        }],
        grants: &[
            grant("", &["get", "list", "patch", "update", "watch"]),
            grant("/status", CHANGE),
            grant("/finalizers", UPDATE),
        ],
        ..kind(&workloadspread::KIND)
    },
    Descriptor {
        validate: Some(Hook {
            handler: Handler::Later(admit::validate::<core::podunavailablebudget::Submitted>),
            ..hook(
                "/validate-policy-kruise-io-podunavailablebudget",
                None,
                &[entry("vpodunavailablebudget.kb.io", CU)],
            )
        }),
        gates: Needs::Any(BUDGETS),
        invalid: 400,
        controllers: &[Controller {
            gates: &[BUDGETS],
            ..built(limited(tuned(
                controller::POD_UNAVAILABLE_BUDGET,
                "podunavailablebudget-workers",
            )))
        }],
        ..kind(&podunavailablebudget::KIND)
    },
];

/// Controllers that look at workloads of any kind.
pub(super) const OF_OTHER_WORKLOADS: &[&str] = &[
    controller::PERSISTENT_POD_STATE,
    controller::POD_UNAVAILABLE_BUDGET,
    controller::WORKLOAD_SPREAD,
];
const CU: &[Operation] = &[Create, Update];
const CUD: &[Operation] = &[Create, Update, Delete];
const BUDGETS: &[Gate] = &[
    Gate::PodUnavailableBudgetDeleteGate,
    Gate::PodUnavailableBudgetUpdateGate,
];
pub(super) const ALL: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
pub(super) const READ: &[&str] = &["get", "list", "watch"];
pub(super) const CHANGE: &[&str] = &["get", "patch", "update"];
const UPDATE: &[&str] = &["update"];
const USUAL: &[Grant] = &[grant("", ALL), grant("/status", CHANGE), grant("/finalizers", UPDATE)];

/// A kind without webhooks and controller, with the rights that nearly all kinds need.
const fn kind(kind: &'static KindInfo) -> Descriptor {
    Descriptor {
        resource: Resource::Ours(kind),
        mutate: None,
        validate: None,
        gates: Needs::Nothing,
        invalid: 422,
        controllers: &[],
        grants: USUAL,
    }
}

const fn hook(path: &'static str, alias: Option<&'static str>, entries: &'static [Entry]) -> Hook {
    Hook {
        path,
        alias,
        entries,
        live: Live::Always,
        reach: Reach::All,
        handler: Handler::NotBuilt,
        reads: &[],
    }
}

pub(super) const fn entry(name: &'static str, operations: &'static [Operation]) -> Entry {
    Entry {
        name,
        subresource: "",
        operations,
        annotated: &[],
    }
}

/// A right that the controllers of the kind need, in all namespaces.
pub(super) const fn grant(subresource: &'static str, verbs: &'static [&'static str]) -> Grant {
    Grant {
        subresource,
        verbs,
        needed_by: NeededBy::Own,
        scope: Scope::Cluster,
    }
}

pub(super) const fn needed(grant: Grant, needed_by: NeededBy) -> Grant {
    Grant { needed_by, ..grant }
}

/// A controller with three workers, unless its flag says otherwise.
pub(super) const fn tuned(name: &'static str, workers_flag: &'static str) -> Controller {
    Controller {
        workers_flag: Some(workers_flag),
        ..fixed(name, 3)
    }
}

pub(super) const fn fixed(name: &'static str, workers: i64) -> Controller {
    Controller {
        name,
        gates: &[],
        workers_flag: None,
        workers,
        rate_limited: false,
        built: false,
    }
}

/// A controller that exists.
pub(super) const fn built(controller: Controller) -> Controller {
    Controller {
        built: true,
        ..controller
    }
}

pub(super) const fn limited(controller: Controller) -> Controller {
    Controller {
        rate_limited: true,
        ..controller
    }
}
