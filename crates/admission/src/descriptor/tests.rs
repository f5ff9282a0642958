use super::*;
use kruise_api::registry::KINDS;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The rows of a table that was copied from the contract.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split('|').map(str::trim).collect())
}

fn sorted(words: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    let mut words: Vec<_> = words.into_iter().map(Into::into).collect();
    words.sort_unstable();
    words
}

#[test]
fn every_kind_of_the_api_has_exactly_one_descriptor() {
    let ours = |descriptor: &'static Descriptor| match descriptor.resource {
        Resource::Ours(kind) => Some(crd_name(kind)),
        Resource::BuiltIn { .. } => None,
    };
    assert_eq!(
        sorted(descriptors().filter_map(ours)),
        sorted(KINDS.iter().map(|kind| crd_name(kind)))
    );
}

#[test]
fn both_configurations_are_those_of_the_contract() {
    let installation = Installation {
        namespace: "our-namespace",
        service: "our-service",
        timeout: json!(30),
    };
    let mut expected: Vec<_> = rows(include_str!("../../fixtures/webhooks.txt")).collect();
    let mut found = Vec::new();
    for configuration in Configuration::BOTH {
        for webhook in webhooks(configuration) {
            let entry = webhook.manifest(&installation);
            assert_eq!(entry["sideEffects"], "None");
            assert_eq!(entry["admissionReviewVersions"], json!(["v1", "v1beta1"]));
            assert_eq!(entry["timeoutSeconds"], 30);
            let service = &entry["clientConfig"]["service"];
            assert_eq!(
                (&service["namespace"], &service["name"]),
                (&json!("our-namespace"), &json!("our-service"))
            );
            assert_eq!(entry["rules"].as_array().unwrap().len(), 1);
            let rule = &entry["rules"][0];
            let words = |list: &Value| {
                let words: Vec<_> = list
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|word| word.as_str().unwrap())
                    .collect();
                words.join(" ")
            };
            let selector = match (entry.get("namespaceSelector"), entry.get("objectSelector")) {
                (None, None) => "",
                (Some(namespaces), None) => {
                    assert_eq!(
                        *namespaces,
                        json!({"matchExpressions": [
                            {"key": "control-plane", "operator": "NotIn", "values": ["openkruise"]},
                            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "our-namespace"]},
                        ]})
                    );
                    "pods"
                }
                (Some(namespaces), Some(objects)) => {
                    assert_eq!(
                        *namespaces,
                        json!({"matchExpressions": [
                            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
                        ]})
                    );
                    assert_eq!(
                        *objects,
                        json!({"matchExpressions": [
                            {"key": "policy.kruise.io/delete-protection", "operator": "Exists"},
                        ]})
                    );
                    "protected"
                }
                (None, Some(_)) => "unknown",
            };
            found.push(vec![
                match configuration {
                    Configuration::Mutating => "mutating".to_owned(),
                    Configuration::Validating => "validating".to_owned(),
                },
                entry["name"].as_str().unwrap().to_owned(),
                service["path"].as_str().unwrap().to_owned(),
                words(&rule["apiGroups"]),
                words(&rule["apiVersions"]),
                words(&rule["resources"]),
                words(&rule["operations"]),
                entry["failurePolicy"].as_str().unwrap().to_owned(),
                selector.to_owned(),
            ]);
        }
    }
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn given_pods_that_nobody_is_concerned_with_then_the_api_server_does_not_ask() {
    let installation = Installation {
        namespace: "our-namespace",
        service: "our-service",
        timeout: json!(30),
    };
    let all = Configuration::BOTH.into_iter().flat_map(webhooks);
    let conditions: BTreeMap<_, _> = all
        .map(|webhook| {
            (
                webhook.entry.name,
                webhook.manifest(&installation)["matchConditions"].clone(),
            )
        })
        .filter(|(_, conditions)| !conditions.is_null())
        .collect();
    let expression = "!has(oldObject.metadata.deletionTimestamp) && has(oldObject.metadata.annotations) && \
        ['pub.kruise.io/related-pub', 'kruise.io/related-pub', 'apps.kruise.io/matched-workloadspread']\
        .exists(key, key in oldObject.metadata.annotations)";
    let concerned = json!([{"name": "concerned", "expression": expression}]);
    // An eviction does not show the Pod, and a new one is none before.
    let expected = [("vpod.kb.io", concerned.clone()), ("vpodresize.kb.io", concerned)];
    assert_eq!(conditions, BTreeMap::from(expected));
}

#[test]
fn paths_of_older_charts_are_known() {
    let live = live_paths(Gates::default(), |_| true);
    for path in include_str!("../../fixtures/older-paths.txt").lines() {
        assert!(live.contains(path), "{path}");
    }
}

#[test]
fn no_path_and_no_entry_occurs_twice() {
    let hooks = || descriptors().flat_map(|descriptor| descriptor.mutate.iter().chain(&descriptor.validate));
    let paths: Vec<_> = hooks()
        .flat_map(|hook| std::iter::once(hook.path).chain(hook.alias))
        .collect();
    assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len());
    let names: Vec<_> = hooks().flat_map(|hook| hook.entries).map(|entry| entry.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

#[test]
fn paths_are_live_as_gates_and_installed_kinds_say() {
    let conditional = ["/mutate-pod", "/validate-pod", "/validate-service", "/validate-ingress"];
    let live = |gates: Gates, installed: &[&str]| {
        let live = live_paths(gates, |crd| installed.contains(&crd));
        assert!(live.contains("/mutate-apps-kruise-io-cloneset") && live.contains("/validate-namespace"));
        conditional.map(|path| live.contains(path))
    };
    let both = ["sidecarsets.apps.kruise.io", "podunavailablebudgets.policy.kruise.io"];
    let gates = Gates::default();
    assert_eq!(live(gates, &both), [true, true, false, false]);
    assert_eq!(live(gates, &both[..1]), [true, false, false, false]);
    assert_eq!(live(gates, &[]), [false, false, false, false]);
    let nobody_asks = gates
        .with(Gate::PodUnavailableBudgetDeleteGate, false)
        .with(Gate::WorkloadSpread, false);
    assert_eq!(live(nobody_asks, &both), [true, false, false, false]);
    let of_updates = nobody_asks.with(Gate::PodUnavailableBudgetUpdateGate, true);
    assert_eq!(live(of_updates, &both), [true, true, false, false]);
    let no_pods = gates
        .with(Gate::PodWebhook, false)
        .with(Gate::ResourcesDeletionProtection, true);
    assert_eq!(live(no_pods, &both), [false, false, true, true]);
}

#[test]
fn controllers_are_those_of_the_contract() {
    let mut found: Vec<_> = descriptors()
        .flat_map(|descriptor| {
            descriptor
                .controllers
                .iter()
                .map(move |controller| (descriptor, controller))
        })
        .map(|(descriptor, controller)| {
            let one_of = |gates: &&[Gate]| gates.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
            let gates: Vec<_> = controller.gates.iter().map(one_of).collect();
            vec![
                controller.name.to_owned(),
                descriptor.resource.plural().to_owned(),
                gates.join(" "),
                controller.workers.to_string(),
                controller.workers_flag.unwrap_or("-").to_owned(),
                if controller.rate_limited { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    let mut expected: Vec<_> = rows(include_str!("../../fixtures/controllers.txt")).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(controllers().count(), expected.len());
}

#[test]
fn rights_are_no_more_than_those_of_the_contract_and_three_of_ours() {
    let mut contract: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for row in rows(include_str!("../../fixtures/rights.txt")) {
        let group = row[0].trim_start_matches('+').replace("core", "");
        for resource in row[1].split(' ') {
            contract.insert((group.clone(), resource.to_owned()), row[2].split(' ').collect());
        }
    }
    for rule in rules().into_iter().filter(|rule| rule.scope == Scope::Cluster) {
        for resource in &rule.resources {
            let may = contract.get(&(rule.group.to_owned(), resource.clone()));
            let may = may.unwrap_or_else(|| panic!("{resource}: not in the contract"));
            assert!(
                rule.verbs.iter().all(|verb| may.contains(verb)),
                "{resource}: {:?}",
                rule.verbs
            );
        }
    }
}

/// What the manager may do with a resource in a scope, with these gates.
fn verbs(scope: Scope, resource: &str, gates: Gates) -> BTreeSet<&'static str> {
    let rules = rules().into_iter();
    rules
        .filter(|rule| {
            rule.scope == scope && rule.is_needed(gates) && rule.resources.iter().any(|each| each == resource)
        })
        .flat_map(|rule| rule.verbs)
        .copied()
        .collect()
}

#[test]
fn given_what_is_built_and_gates_then_rights_are_those_that_somebody_needs() {
    let gates = Gates::default().with(Gate::ImagePullJobGate, true);
    let no_jobs = gates.with(Gate::ImagePullJobGate, false);
    let no_daemon = gates.with(Gate::KruiseDaemon, false);
    let no_budgets = gates.with(Gate::PodUnavailableBudgetDeleteGate, false);
    let everywhere = |resource: &str, gates| verbs(Scope::Cluster, resource, gates).len();
    for (resource, gates, count) in [
        ("clonesets", no_daemon, 7),
        ("pods/resize", no_daemon, 3),
        ("nodeimages", no_jobs, 7),
        ("nodeimages", no_daemon, 0),
        ("imagepulljobs", gates, 7),
        ("imagepulljobs", no_jobs, 0),
        (
            "imagepulljobs",
            no_jobs.with(Gate::PreDownloadImageForInPlaceUpdate, true),
            7,
        ),
        (
            "imagepulljobs/status",
            no_jobs.with(Gate::PreDownloadImageForInPlaceUpdate, true),
            0,
        ),
        ("secrets", no_jobs, 0),
        ("storageclasses", gates, 0),
        (
            "storageclasses",
            gates.with(Gate::StatefulSetAutoResizePVCGate, true),
            3,
        ),
        ("sidecarsets", gates, 7),
        ("deployments", gates, 7),
        ("deployments", no_budgets, 7),
        ("jobs", gates, 7),
        ("*", gates, 0),
        ("*", gates.with(Gate::DeletionProtectionForCRDCascadingGate, true), 1),
        ("*/scale", gates, 3),
        ("*/scale", no_budgets, 3),
        ("pods/ephemeralcontainers", gates, 3),
        ("resourcedistributions", gates, 0),
        (
            "resourcedistributions",
            gates.with(Gate::ResourceDistributionGate, true),
            3,
        ),
        ("leases", gates, 0),
    ] {
        assert_eq!(everywhere(resource, gates), count, "{resource}");
    }
    let reading = BTreeSet::from(["get", "list", "watch"]);
    assert_eq!(
        verbs(Scope::Cluster, "secrets", gates),
        reading,
        "no Secret is written but in two namespaces"
    );
    assert!(verbs(Scope::DaemonConfig, "secrets", gates).contains("create"));
    assert_eq!(verbs(Scope::DaemonConfig, "secrets", no_jobs).len(), 0);
    assert_eq!(verbs(Scope::System, "secrets", no_jobs).len(), 7);
    assert_eq!(verbs(Scope::System, "leases", no_daemon).len(), 7);
}

#[test]
fn given_missing_gates_then_the_refusal_names_the_gate() {
    let gates = Gates::default();
    let off = |gate| gates.with(gate, false);
    assert_eq!(Needs::Nothing.missing(gates), None);
    let both = Needs::All(&[Gate::KruiseDaemon, Gate::ImagePullJobGate]);
    let refused = |code, gate: &str| Some((code, format!("feature-gate {gate} is not enabled")));
    assert_eq!(both.missing(gates), refused(403, "ImagePullJobGate"));
    assert_eq!(both.missing(off(Gate::KruiseDaemon)), refused(403, "KruiseDaemon"));
    assert_eq!(both.missing(gates.with(Gate::ImagePullJobGate, true)), None);
    let one = Needs::Any(&[
        Gate::PodUnavailableBudgetDeleteGate,
        Gate::PodUnavailableBudgetUpdateGate,
    ]);
    assert_eq!(one.missing(gates), None);
    assert_eq!(
        one.missing(off(Gate::PodUnavailableBudgetDeleteGate)),
        refused(400, "PodUnavailableBudgetDeleteGate or PodUnavailableBudgetUpdateGate")
    );
}

#[test]
fn given_a_gate_off_then_objects_of_its_kind_are_refused() {
    for (plural, gate) in [
        ("podprobemarkers", Gate::PodProbeMarkerGate),
        ("podprobemarkers", Gate::KruiseDaemon),
        ("workloadspreads", Gate::WorkloadSpread),
    ] {
        let mut all = descriptors();
        let kind = all.find(|kind| kind.resource.plural() == plural).unwrap();
        assert_eq!(kind.gates.missing(Gates::default()), None, "{plural}");
        let refusal = Some((403, format!("feature-gate {gate} is not enabled")));
        let gates = Gates::default().with(gate, false);
        assert_eq!(kind.gates.missing(gates), refusal, "{plural}");
    }
}

#[test]
fn kinds_that_convert_know_how() {
    for descriptor in descriptors().filter(|descriptor| descriptor.resource.converts()) {
        let (group, plural) = (descriptor.resource.group(), descriptor.resource.plural());
        let known = kruise_core::conversion::KINDS
            .iter()
            .any(|kind| kind.group == group && format!("{}s", kind.kind.to_lowercase()) == plural);
        assert!(known, "{plural}.{group}");
    }
}
