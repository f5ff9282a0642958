//! Who may do what: no more than what is built needs with the gates that are on.

use std::collections::{BTreeMap, BTreeSet};

use kruise_admission::descriptor::{Scope, rules};
use kruise_api::gates::Gates;
use serde_json::{Value, json};

use super::gates::TEXTS;
use super::render::{chart, find, get, render, render_on, strings, try_render};

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
/// Kinds of group `apps.kruise.io`.
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
fn given_any_gates_then_the_manager_has_the_rights_of_what_is_built_and_no_more() {
    for text in TEXTS.iter().chain(&[
        "PreDownloadImageForInPlaceUpdate=true",
        "PreDownloadImageForDaemonSetUpdate=true,ImagePullJobGate=false",
        "PreDownloadImageForInPlaceUpdate=true,KruiseDaemon=false",
    ]) {
        let (gates, _) = Gates::parse(text, None).unwrap();
        let objects = render(&json!({"featureGates": text}));
        for (scope, kind, name) in [
            (Scope::Cluster, "ClusterRole", "kruise-manager-role"),
            (Scope::DaemonConfig, "Role", "kruise-manager-secret-role"),
        ] {
            let mut expected = Rights::new();
            for rule in rules()
                .iter()
                .filter(|rule| rule.scope == scope && rule.is_needed(gates))
            {
                for resource in &rule.resources {
                    let verbs = expected.entry(format!("{}/{resource}", rule.group)).or_default();
                    verbs.extend(rule.verbs.iter().map(|verb| (*verb).to_owned()));
                }
            }
            // The CA is written only into objects that another role names.
            for (resource, verbs) in &mut expected {
                let group = resource.split('/').next().unwrap_or_default();
                if ["admissionregistration.k8s.io", "apiextensions.k8s.io"].contains(&group) {
                    verbs.retain(|verb| READ.contains(verb.as_str()));
                }
            }
            let found = find(&objects, kind, name).map(rights).unwrap_or_default();
            assert_eq!(found, expected, "{text:?}: {name}");
        }
    }
}

#[test]
fn given_default_values_then_the_manager_writes_secrets_only_in_two_namespaces() {
    let objects = render(&json!({}));
    let everywhere = role(&objects, "kruise-manager-role");
    assert_eq!(everywhere["/secrets"], READ.split(' ').map(str::to_owned).collect());
    // Budgets count the replicas of workloads of any kind, and read nothing else of them.
    let of_all: Vec<_> = everywhere
        .iter()
        .filter(|(resource, _)| resource.contains('*'))
        .collect();
    assert_eq!(of_all, [(&"*/*/scale".to_owned(), &everywhere["/secrets"])]);
    let copies = get(&objects, "Role", "kruise-manager-secret-role");
    assert_eq!(copies["metadata"]["namespace"], "kruise-daemon-config");
    assert_eq!(rights(copies), table(&[("", "secrets", "create delete update")]));
    let binding = get(&objects, "RoleBinding", "kruise-manager-secret-rolebinding");
    assert_eq!(binding["metadata"]["namespace"], "kruise-daemon-config");
    assert_eq!(binding["subjects"][0]["name"], "kruise-manager");
    assert_eq!(binding["subjects"][0]["namespace"], "kruise-system");
    let without = render(&json!({"featureGates": "ImagePullJobGate=false"}));
    assert!(find(&without, "Role", "kruise-manager-secret-role").is_none());
    assert!(!role(&without, "kruise-manager-role").contains_key("/secrets"));
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

#[test]
fn given_daemons_are_kept_to_their_nodes_then_every_write_they_may_make_is_looked_at() {
    const POLICY: (&str, &str) = ("ValidatingAdmissionPolicy", "kruise-daemon-node-restriction");
    for version in ["1.18.0", "1.34.0"] {
        let objects = render_on(version, &json!({}));
        assert!(find(&objects, POLICY.0, POLICY.1).is_none(), "off by default");
    }
    let values = json!({"daemon": {"nodeRestriction": true}, "installation": {"namespace": "foo"}});
    let objects = render_on("1.30.0", &values);
    let policy = &get(&objects, POLICY.0, POLICY.1)["spec"];
    let condition = "request.userInfo.username == 'system:serviceaccount:foo:kruise-daemon'";
    assert_eq!(policy["matchConditions"][0]["expression"], condition);
    let mut looked_at = BTreeSet::new();
    for rule in policy["matchConstraints"]["resourceRules"].as_array().unwrap() {
        looked_at.extend(strings(&rule["resources"]).into_iter().map(str::to_owned));
    }
    let written = role(&objects, "kruise-daemon-role").into_iter();
    let written: BTreeSet<String> = written
        .filter(|(_, verbs)| verbs.iter().any(|verb| !READ.contains(verb.as_str())))
        .filter_map(|(resource, _)| Some(resource.split_once('/')?.1.to_owned()))
        .collect();
    assert_eq!(looked_at, written);
    let binding = &get(&objects, "ValidatingAdmissionPolicyBinding", POLICY.1)["spec"];
    assert_eq!(*binding, json!({"policyName": POLICY.1, "validationActions": ["Deny"]}));
    let error = try_render(&chart(), &values, &["--kube-version", "1.29.9"]).unwrap_err();
    assert!(
        error.contains("daemon.nodeRestriction needs Kubernetes 1.30"),
        "{error}"
    );
    let off = render(&json!({"daemon": {"nodeRestriction": true}, "featureGates": "KruiseDaemon=false"}));
    assert!(find(&off, POLICY.0, POLICY.1).is_none(), "no daemon, no policy");
}
