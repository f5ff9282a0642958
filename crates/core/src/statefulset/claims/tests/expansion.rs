//! Claims that grow with their templates.

use kruise_api::gates::Gates;
use kruise_api::merge_patch::merge;
use kruise_api::storage::PersistentVolumeClaim;
use serde_json::{Value, json};

use super::super::Expansion;
use super::{body, claim, class, expanding, sized, with, with_class};
use crate::plan::why;

#[test]
fn given_a_bigger_template_then_claims_are_asked_to_grow_and_waited_for() {
    let pending = json!({"status": {"conditions": [{"type": "FileSystemResizePending", "status": "True"}], "capacity": {"storage": "1Gi"}}});
    for (what, claim, compatible, ready, outcome) in [
        ("too small", sized("data-web-0", "1Gi", "1Gi"), false, true, "asked"),
        ("asked", sized("data-web-0", "2Gi", "1Gi"), true, false, "waits"),
        ("has grown", sized("data-web-0", "2Gi", "2Gi"), true, true, "completed"),
        (
            "the same in other words",
            sized("data-web-0", "2048Mi", "2Gi"),
            true,
            true,
            "completed",
        ),
        (
            "bigger than the template",
            sized("data-web-0", "3Gi", "3Gi"),
            true,
            true,
            "completed",
        ),
        (
            "needs a restart",
            claim("data-web-0", &pending),
            true,
            false,
            "completed",
        ),
        (
            "going",
            claim(
                "data-web-0",
                &json!({"metadata": {"deletionTimestamp": "2024-05-01T10:00:00Z"}, "spec": {"accessModes": []}}),
            ),
            true,
            true,
            "completed",
        ),
    ] {
        let claims = [claim];
        with(&json!({}), &claims, expanding(), |claims| {
            assert_eq!(claims.are_compatible(0), compatible, "{what}");
            assert_eq!(claims.are_ready(0), ready, "{what}");
            let found = match claims.expand(0) {
                Expansion::Completed => "completed",
                Expansion::Growing(writes) if writes.is_empty() => "waits",
                Expansion::Growing(writes) => {
                    assert_eq!(
                        body(&writes[0]),
                        json!({
                            "metadata": {"annotations": {"apps.kruise.io/owned-by-asts": "web"}},
                            "spec": {"resources": {"requests": {"storage": "2Gi"}}},
                        })
                    );
                    "asked"
                }
                Expansion::Refused { .. } => "refused",
            };
            assert_eq!(found, outcome, "{what}");
        });
        // Without the gate, or with the strategy OnDelete, claims have no say.
        let on_delete = json!({"volumeClaimUpdateStrategy": {"type": "OnDelete"}});
        for (spec, gates) in [(&json!({}), Gates::default()), (&on_delete, expanding())] {
            let silent = with(spec, &claims, gates, |claims| {
                (claims.are_compatible(0), claims.are_ready(0), claims.expand(0))
            });
            assert_eq!(silent, (true, true, Expansion::Completed), "{what}");
        }
    }
}

#[test]
fn given_a_claim_that_cannot_grow_then_it_is_said_and_not_tried() {
    let small = json!({"resources": {"requests": {"storage": "1Gi"}}});
    let other = |change: &Value| {
        let mut spec = small.clone();
        merge(&mut spec, change);
        claim("data-web-0", &json!({"spec": spec}))
    };
    let no_class = json!({"storageClassName": null, "resources": {"requests": {"storage": "1Gi"}}});
    let no_class = claim("data-web-0", &json!({"spec": no_class}));
    let allowed = || Some(class(Some(true)));
    for (what, claim, class, refused) in [
        ("allowed", other(&json!({})), allowed(), None),
        ("no class of its own", no_class, None, None),
        (
            "not allowed",
            other(&json!({})),
            Some(class(Some(false))),
            Some(("FailedResize", "does not allow")),
        ),
        (
            "nothing said",
            other(&json!({})),
            Some(class(None)),
            Some(("FailedResize", "does not allow")),
        ),
        (
            "no such class",
            other(&json!({})),
            None,
            Some(("FailedResize", "does not exist")),
        ),
        (
            "another class",
            other(&json!({"storageClassName": "slow"})),
            allowed(),
            Some(("FailedUpdatePVC", "more than its size")),
        ),
        (
            "another mode",
            other(&json!({"accessModes": ["ReadWriteMany"]})),
            allowed(),
            Some(("FailedUpdatePVC", "more than its size")),
        ),
    ] {
        let found = with_class(&json!({}), &[claim], class.as_ref(), expanding(), |claims| {
            claims.expand(0)
        });
        match (found, refused) {
            (Expansion::Growing(writes), None) => assert_eq!(writes.len(), 1, "{what}"),
            (Expansion::Refused { why, event }, Some((reason, text))) => {
                assert_eq!(event.reason, reason, "{what}");
                assert!(event.message.contains(text), "{what}: {}", event.message);
                assert!(why.to_string().contains("data-web-0"), "{what}: {why}");
            }
            (found, _) => panic!("{what}: {found:?}"),
        }
    }
}

#[test]
fn given_claims_in_all_states_then_the_status_counts_them_whether_they_grow_or_not() {
    let claims = [
        sized("data-web-0", "2Gi", "2Gi"),
        sized("data-web-1", "2Gi", "1Gi"),
        sized("data-web-2", "1Gi", "1Gi"),
        sized("data-web-9", "2Gi", "2Gi"),
        claim("logs-web-0", &json!({"status": {"capacity": null}})),
    ];
    for gates in [Gates::default(), expanding()] {
        let counted = with(&json!({}), &claims, gates, |claims| json!(claims.status(&[0, 1, 2])));
        assert_eq!(
            counted,
            json!([
                {"volumeClaimName": "data", "compatibleReplicas": 2, "compatibleReadyReplicas": 1},
                {"volumeClaimName": "logs", "compatibleReplicas": 1, "compatibleReadyReplicas": 0},
            ])
        );
    }
}

#[test]
fn given_claims_that_hold_up_their_pods_then_each_is_named_with_its_reason() {
    let pending = json!([{"type": "FileSystemResizePending", "status": "True"}]);
    let claims = [
        claim("data-web-0", &json!({"status": {"phase": "Pending", "capacity": null}})),
        sized("data-web-1", "2Gi", "1Gi"),
        claim(
            "data-web-2",
            &json!({"status": {"conditions": pending, "capacity": {"storage": "1Gi"}}}),
        ),
        sized("data-web-3", "2Gi", "2Gi"),
    ];
    let why = with(&json!({}), &claims, expanding(), |claims| claims.explain(0..4));
    let one = |name: &str| [name].into_iter().collect();
    assert_eq!(
        why,
        [
            why::Claims::ClaimsNotBound {
                claims: one("data-web-0")
            },
            why::Claims::ClaimsGrowing {
                claims: one("data-web-1")
            },
            why::Claims::ClaimsNeedRestart {
                claims: one("data-web-2")
            },
        ]
    );
}

#[test]
fn given_a_volume_that_could_not_be_made_bigger_then_its_storage_is_quoted() {
    let error = json!([{"type": "ControllerResizeError", "status": "True", "message": "no room"}]);
    let failing = |capacity: &str| {
        let status = json!({"capacity": {"storage": capacity}, "conditions": error});
        claim("data-web-0", &json!({"status": status}))
    };
    let failed =
        |claim: PersistentVolumeClaim, gates| with(&json!({}), &[claim], gates, |claims| claims.failed_to_grow([0]));
    let why = why::Claims::ClaimNotExpandable {
        claim: "data-web-0".to_owned(),
        message: "its volume could not be made bigger: no room".to_owned(),
    };
    assert_eq!(failed(failing("1Gi"), expanding()), [(0, why)]);
    assert_eq!(failed(failing("2Gi"), expanding()), [], "it has what it asks for");
    assert_eq!(
        failed(failing("1Gi"), Gates::default()),
        [],
        "claims do not follow templates"
    );
}
