//! Every place where our answer differs from a recording, and why. A difference that is not listed fails the test, and
//! so does a row that no longer differs.
//!
//! Steps: `down` and `up` compare the two readings of a stored object, `roundtrip` what reading and writing back in the
//! other version leaves of it, `direct` and `back` the answers of the conversion endpoint.

pub(crate) struct Difference {
    pub(crate) kind: &'static str,
    pub(crate) cases: &'static [&'static str],
    pub(crate) step: &'static str,
    pub(crate) path: &'static str,
    pub(crate) why: &'static str,
}

const fn row(
    kind: &'static str,
    cases: &'static [&'static str],
    step: &'static str,
    path: &'static str,
    why: &'static str,
) -> Difference {
    Difference {
        kind,
        cases,
        step,
        path,
        why,
    }
}

// Ours differs from the original.
const REFUSED: &str = "v1beta1 would refuse the value in every later write; it stays in the annotation only";
const OLD_SHAPE: &str = "the original forgets a CloneSet template in the shape of 1.9, we translate it";
const FALLBACK: &str = "an annotation whose field is not set still counts, so the way down does not delete it";
const SPELLING: &str = "an annotation that says the same as its field is left as the user wrote it";
const REQUIRED: &str = "required by v1beta1; the original writes null, which its own schema refuses";
const EMPTY_MESSAGE: &str = "filled on the way up because v1beta1 requires it; the original drops it again when empty";
// The recording shows something else than a conversion.
const NO_CONVERTER: &str = "recorded with conversion `None`: the API server only pruned the object";
const CONTROLLER: &str = "a controller or the webhook of the second write changed it, not the conversion";
// Both versions cannot express the same, and no round trip is on record to compare with.
const LOST: &str = "v1alpha1 cannot express it; a write through v1alpha1 was refused";
const STAYS: &str = "stored through v1beta1 without the annotation; it appears in v1alpha1 and stays on the way up";

const OLD: &[&str] = &["v1alpha1-cloneset-oldshape", "v1beta1-cloneset-oldshape"];
const EQUAL: &str = "v1beta1-fields-and-annotations-equal";

pub(crate) const DIFFERENCES: &[Difference] = &[
    row(
        "advancedcronjob",
        &["v1beta1-imagelist-minimal", "v1beta1-imagelist-typed"],
        "up",
        "spec.template.imageListPullJobTemplate",
        LOST,
    ),
    row(
        "cloneset",
        &["v1alpha1-predownload-annotations", "v1beta1-predownload-annotations"],
        "up",
        "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism",
        REFUSED,
    ),
    row(
        "cloneset",
        &["v1beta1-predownload-annotations"],
        "roundtrip",
        "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism",
        REFUSED,
    ),
    row(
        "cloneset",
        &["v1beta1-grace-zero-with-predownload"],
        "back",
        "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism",
        REFUSED,
    ),
    row(
        "cloneset",
        &["v1alpha1-predownload-negative"],
        "direct",
        "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy",
        REFUSED,
    ),
    row(
        "cloneset",
        &["v1beta1-ondelete-rollingupdate"],
        "up",
        "spec.updateStrategy.rollingUpdate",
        LOST,
    ),
    row(
        "cloneset",
        &["v1beta1-rich"],
        "roundtrip",
        "spec.scaleStrategy.podsToDelete",
        CONTROLLER,
    ),
    row(
        "cloneset",
        &["v1beta1-rich"],
        "up",
        "spec.scaleStrategy.podsToDelete",
        CONTROLLER,
    ),
    row(
        "containerrecreaterequest",
        &["v1alpha1-rich"],
        "up",
        "metadata.annotations.sync-container-statuses",
        STAYS,
    ),
    row(
        "containerrecreaterequest",
        &["v1alpha1-rich"],
        "up",
        "metadata.annotations.unready-acquired",
        STAYS,
    ),
    row(
        "imagelistpulljob",
        &["v1beta1-pullpolicy-partial"],
        "up",
        "metadata.labels",
        CONTROLLER,
    ),
    row(
        "imagelistpulljob",
        &["v1beta1-pullpolicy-partial"],
        "up",
        "spec.pullPolicy.timeoutSeconds",
        CONTROLLER,
    ),
    row(
        "imagelistpulljob",
        &["v1beta1-pullpolicy-partial"],
        "roundtrip",
        "metadata.labels",
        CONTROLLER,
    ),
    row(
        "imagelistpulljob",
        &["v1beta1-pullpolicy-partial"],
        "roundtrip",
        "spec.pullPolicy.timeoutSeconds",
        CONTROLLER,
    ),
    row(
        "nodeimage",
        &["v1beta1-rich"],
        "up",
        "spec.images.nginx.pullSecrets",
        CONTROLLER,
    ),
    row(
        "nodeimage",
        &["v1beta1-rich"],
        "roundtrip",
        "spec.images.nginx.pullSecrets",
        CONTROLLER,
    ),
    row(
        "podunavailablebudget",
        &[
            "v1alpha1-annotations",
            "v1beta1-annotations",
            "v1beta1-annotation-bad-ops",
        ],
        "up",
        "spec.protectOperations",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &["v1alpha1-annotations", "v1beta1-annotations"],
        "up",
        "spec.protectTotalReplicas",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &["v1beta1-annotations", "v1beta1-fields", EQUAL],
        "roundtrip",
        "spec.protectOperations",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &["v1beta1-annotations", "v1beta1-fields", EQUAL],
        "roundtrip",
        "spec.protectTotalReplicas",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &[EQUAL],
        "down",
        "metadata.annotations.pub-protect-operations",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &[EQUAL],
        "up",
        "spec.protectOperations",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &[EQUAL],
        "up",
        "spec.protectTotalReplicas",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &[EQUAL],
        "roundtrip",
        "metadata.annotations.pub-protect-operations",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &["v1beta1-fields"],
        "down",
        "metadata.annotations",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &["v1beta1-fields"],
        "roundtrip",
        "metadata.annotations",
        NO_CONVERTER,
    ),
    row(
        "podunavailablebudget",
        &["v1alpha1-annotations"],
        "back",
        "metadata.annotations.pub-protect-operations",
        SPELLING,
    ),
    row(
        "podunavailablebudget",
        &["v1alpha1-empty-values"],
        "back",
        "metadata.annotations",
        FALLBACK,
    ),
    row(
        "podunavailablebudget",
        &["v1beta1-annotations-only"],
        "direct",
        "metadata.annotations.pub-protect-operations",
        FALLBACK,
    ),
    row(
        "podunavailablebudget",
        &["v1beta1-annotations-only"],
        "direct",
        "metadata.annotations.protect-total-replicas",
        FALLBACK,
    ),
    row(
        "uniteddeployment",
        OLD,
        "up",
        "spec.template.cloneSetTemplate.spec.scaleStrategy.enablePVCReuse",
        OLD_SHAPE,
    ),
    row(
        "uniteddeployment",
        OLD,
        "up",
        "spec.template.cloneSetTemplate.spec.updateStrategy.rollingUpdate",
        OLD_SHAPE,
    ),
    row(
        "uniteddeployment",
        OLD,
        "up",
        "spec.template.cloneSetTemplate.spec.updateStrategy.type",
        OLD_SHAPE,
    ),
    row(
        "uniteddeployment",
        &["v1alpha1-cloneset-oldshape"],
        "roundtrip",
        "spec.template.cloneSetTemplate.spec.scaleStrategy.enablePVCReuse",
        OLD_SHAPE,
    ),
    row(
        "uniteddeployment",
        OLD,
        "roundtrip",
        "spec.template.cloneSetTemplate.spec.updateStrategy.rollingUpdate",
        OLD_SHAPE,
    ),
    row(
        "uniteddeployment",
        OLD,
        "roundtrip",
        "spec.template.cloneSetTemplate.spec.updateStrategy.type",
        OLD_SHAPE,
    ),
    row(
        "uniteddeployment",
        &["v1alpha1-cloneset-oldshape"],
        "direct",
        "spec.template.cloneSetTemplate.spec.updateStrategy.rollingUpdate",
        OLD_SHAPE,
    ),
    row(
        "uniteddeployment",
        &["v1alpha1-cloneset-oldshape"],
        "direct",
        "spec.template.cloneSetTemplate.spec.updateStrategy.type",
        OLD_SHAPE,
    ),
    row(
        "workloadspread",
        &["v1alpha1-status"],
        "direct",
        "status.subsetStatuses[0].conditions[0].lastTransitionTime",
        REQUIRED,
    ),
    row(
        "workloadspread",
        &["v1alpha1-status"],
        "back",
        "status.versionedSubsetStatuses.v1[0].conditions[0].message",
        EMPTY_MESSAGE,
    ),
];
