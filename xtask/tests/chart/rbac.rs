//! Who may do what: no more than the published roles, and no less.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::render::{get, render, strings};

/// Verbs by `group/resource`, of rules that are not bound to names.
type Rights = BTreeMap<String, BTreeSet<String>>;

fn rights(role: &Value) -> Rights {
    let mut rights = Rights::new();
    for rule in role["rules"].as_array().unwrap() {
        if rule["resourceNames"].is_array() {
            continue;
        }
        for group in strings(&rule["apiGroups"]) {
            for resource in strings(&rule["resources"]) {
                let verbs = rights.entry(format!("{group}/{resource}")).or_default();
                verbs.extend(strings(&rule["verbs"]).into_iter().map(str::to_owned));
            }
        }
    }
    rights
}

fn table(rows: &[(&str, &str, &str)]) -> Rights {
    let mut rights = Rights::new();
    for (group, resources, verbs) in rows {
        for resource in resources.split(' ') {
            let verbs = verbs.split(' ').map(str::to_owned).collect();
            assert!(
                rights.insert(format!("{group}/{resource}"), verbs).is_none(),
                "{group}/{resource} twice"
            );
        }
    }
    rights
}

fn role(objects: &[Value], name: &str) -> Rights {
    rights(get(objects, "ClusterRole", name))
}

const ALL: &str = "create delete get list patch update watch";
const READ: &str = "get list watch";
const STATUS: &str = "get patch update";
/// Kinds of group `apps.kruise.io` that the manager owns entirely.
const OWNED: [&str; 14] = [
    "advancedcronjobs",
    "broadcastjobs",
    "clonesets",
    "containerrecreaterequests",
    "daemonsets",
    "imagelistpulljobs",
    "imagepulljobs",
    "nodeimages",
    "nodepodprobes",
    "persistentpodstates",
    "podprobemarkers",
    "sidecarsets",
    "statefulsets",
    "uniteddeployments",
];

#[test]
fn given_the_manager_then_its_rights_are_those_of_the_published_role_and_one_more() {
    let mut expected = table(&[
        ("", "configmaps events persistentvolumeclaims pods", ALL),
        ("", "namespaces nodes", READ),
        ("", "pods/status pods/ephemeralcontainers pods/resize", STATUS),
        ("", "secrets", "create delete get list update watch"),
        // Ours: templates are checked by a dry run of creating one.
        ("", "podtemplates", "create"),
        ("*", "*", "list"),
        ("*", "*/scale", READ),
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations validatingwebhookconfigurations",
            READ,
        ),
        ("apiextensions.k8s.io", "customresourcedefinitions", READ),
        ("apps", "controllerrevisions deployments statefulsets", ALL),
        ("apps", "deployments/status statefulsets/status", STATUS),
        ("apps", "replicasets", READ),
        ("apps", "replicasets/status", "get"),
        ("batch", "jobs", ALL),
        ("batch", "jobs/status", STATUS),
        ("apps.kruise.io", "ephemeraljobs", "delete get list patch update watch"),
        (
            "apps.kruise.io",
            "ephemeraljobs/status ephemeraljobs/finalizers",
            STATUS,
        ),
        ("apps.kruise.io", "workloadspreads", "get list patch update watch"),
        (
            "apps.kruise.io",
            "workloadspreads/status resourcedistributions/status",
            STATUS,
        ),
        (
            "apps.kruise.io",
            "workloadspreads/finalizers resourcedistributions/finalizers",
            "update",
        ),
        ("apps.kruise.io", "resourcedistributions", READ),
        ("policy.kruise.io", "podunavailablebudgets", ALL),
        ("policy.kruise.io", "podunavailablebudgets/status", STATUS),
        ("policy.kruise.io", "podunavailablebudgets/finalizers", "update"),
    ]);
    for kind in OWNED {
        expected.extend(table(&[
            ("apps.kruise.io", kind, ALL),
            ("apps.kruise.io", &format!("{kind}/status"), STATUS),
            ("apps.kruise.io", &format!("{kind}/finalizers"), "update"),
        ]));
    }
    assert_eq!(role(&render(&json!({})), "kruise-manager-role"), expected);
}

#[test]
fn given_the_daemon_then_it_reads_secrets_only_in_its_own_place() {
    let objects = render(&json!({}));
    let expected = table(&[
        ("", "events", "create patch"),
        ("", "pods", READ),
        ("", "pods/status", "patch"),
        (
            "apps.kruise.io",
            "containerrecreaterequests nodeimages nodepodprobes",
            READ,
        ),
        (
            "apps.kruise.io",
            "containerrecreaterequests/status nodeimages/status nodepodprobes/status",
            "patch",
        ),
    ]);
    assert_eq!(role(&objects, "kruise-daemon-role"), expected);
    let secrets = get(&objects, "Role", "kruise-daemon-secret-role");
    assert_eq!(secrets["metadata"]["namespace"], "kruise-daemon-config");
    assert_eq!(rights(secrets), table(&[("", "secrets", "get")]));
}

#[test]
fn given_the_namespace_of_the_manager_then_leases_and_certificates_are_its_own() {
    let objects = render(&json!({}));
    let election = rights(get(&objects, "Role", "kruise-leader-election-role"));
    assert_eq!(
        election,
        table(&[("coordination.k8s.io", "leases", ALL), ("", "events", "create")])
    );
    assert_eq!(
        rights(get(&objects, "Role", "kruise-webhook-role")),
        table(&[("", "secrets", ALL)])
    );
}

#[test]
fn given_certificates_of_our_own_then_the_ca_may_be_written_only_where_it_belongs() {
    let objects = render(&json!({}));
    let certs = get(&objects, "ClusterRole", "kruise-certs-role");
    assert_eq!(rights(certs), Rights::new(), "every rule is bound to names");
    let mut names = BTreeMap::new();
    for rule in certs["rules"].as_array().unwrap() {
        assert_eq!(strings(&rule["verbs"]), ["patch", "update"]);
        names.insert(strings(&rule["resources"])[0], strings(&rule["resourceNames"]));
    }
    assert_eq!(
        names["mutatingwebhookconfigurations"],
        ["kruise-mutating-webhook-configuration"]
    );
    assert_eq!(
        names["validatingwebhookconfigurations"],
        ["kruise-validating-webhook-configuration"]
    );
    let crds = &names["customresourcedefinitions"];
    assert_eq!(crds.len(), 15, "every kind with two versions");
    for one_version in ["ephemeraljobs", "nodepodprobes", "podprobemarkers"] {
        assert!(!crds.contains(&format!("{one_version}.apps.kruise.io").as_str()));
    }
}

#[test]
fn given_users_with_the_built_in_roles_then_they_get_our_kinds_and_only_admins_distribute() {
    let objects = render(&json!({}));
    for (name, target) in [("view", "view"), ("edit", "edit"), ("admin", "admin")] {
        let role = get(&objects, "ClusterRole", &format!("aggregate-kruise-{name}"));
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{target}");
        assert_eq!(role["metadata"]["labels"], json!({label: "true"}));
    }
    let view = role(&objects, "aggregate-kruise-view");
    for kind in OWNED.iter().chain(&["ephemeraljobs", "workloadspreads"]) {
        for resource in [
            format!("apps.kruise.io/{kind}"),
            format!("apps.kruise.io/{kind}/status"),
        ] {
            assert_eq!(
                view[&resource],
                READ.split(' ').map(str::to_owned).collect(),
                "{resource}"
            );
        }
    }
    assert!(view.contains_key("policy.kruise.io/podunavailablebudgets"));
    let edit = role(&objects, "aggregate-kruise-edit");
    assert!(edit["apps.kruise.io/clonesets"].contains("create"));
    assert!(
        !edit.keys().any(|resource| resource.ends_with("/status")),
        "status is the controllers'"
    );
    for (name, may) in [("view", false), ("edit", false), ("admin", true)] {
        let rights = role(&objects, &format!("aggregate-kruise-{name}"));
        assert_eq!(
            rights.contains_key("apps.kruise.io/resourcedistributions"),
            may,
            "{name}"
        );
    }
}

#[test]
fn given_the_check_before_an_uninstall_then_it_may_only_list_workloads() {
    let expected = table(&[("apps.kruise.io", "clonesets daemonsets statefulsets", "list")]);
    assert_eq!(role(&render(&json!({})), "kruise-helm-hook-role"), expected);
}
