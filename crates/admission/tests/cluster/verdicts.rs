//! Every recorded request about the kinds that place Pods, copies and probes, asked of a real API server with our webhooks in place: the same are allowed, and the
//! same refused by the same side, with the same code, for the same reason.
//!
//! Not compared are values within messages, which the original prints as its language does, and what the API server says by itself, as its releases have their own
//! words. What we say otherwise on purpose stands beside the recorded words, as `here`.

use std::time::Duration;

use kruise_api::gates::{Gate, Gates};
use kruise_api::merge_patch::merge;
use kruise_testkit::eventually::{NotYet, eventually, run_test};
use kube::{
    Api, Error, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use super::installation::{Installation, PATIENCE};

/// The kinds, in their plural, with what was recorded of them.
const RECORDED: [(&str, &str, &str); 5] = [
    (
        "PersistentPodState",
        "persistentpodstates",
        include_str!("../../../core/fixtures/persistentpodstate/verdicts.json"),
    ),
    (
        "PodProbeMarker",
        "podprobemarkers",
        include_str!("../../../core/fixtures/probes/podprobemarker-verdicts.json"),
    ),
    (
        "ResourceDistribution",
        "resourcedistributions",
        include_str!("../../../core/fixtures/resourcedistribution/verdicts.json"),
    ),
    (
        "UnitedDeployment",
        "uniteddeployments",
        include_str!("../../../core/fixtures/uniteddeployment/verdicts.json"),
    ),
    (
        "WorkloadSpread",
        "workloadspreads",
        include_str!("../../../core/fixtures/workloadspread/verdicts.json"),
    ),
];

const CRDS: [&str; 10] = [
    "clonesets",
    "sidecarsets",
    "statefulsets",
    "podunavailablebudgets",
    "persistentpodstates",
    "podprobemarkers",
    "nodepodprobes",
    "resourcedistributions",
    "uniteddeployments",
    "workloadspreads",
];

const DRY: PostParams = PostParams {
    dry_run: true,
    field_manager: None,
};

/// One request.
#[derive(Debug)]
struct Case {
    about: String,
    version: String,
    object: Value,
    /// What it changes.
    old: Option<Value>,
    /// What else is there.
    others: Vec<Value>,
    code: u16,
    says: String,
    by_api_server: bool,
}

/// Reads what was recorded: whole objects, or changes of some that stand before them.
fn cases(recorded: &str) -> Vec<Case> {
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let cases = recorded.as_array().or_else(|| recorded["cases"].as_array()).unwrap();
    let text = |case: &Value, field: &str| case[field].as_str().map(str::to_owned);
    let read = |case: &Value| {
        let version = text(case, "version").unwrap_or_else(|| "v1alpha1".to_owned());
        let base = case["stored"].as_str().map(|name| recorded["stored"][name].clone());
        let object = if case["change"].is_null() {
            case["object"].clone()
        } else {
            let mut object = base.clone().unwrap_or_else(|| recorded["object"].clone());
            merge(&mut object, &case["change"]);
            object
        };
        let others = ["others", "existing"]
            .into_iter()
            .filter_map(|field| case[field].as_array());
        Case {
            about: format!("{version} {}", case["name"]),
            object,
            old: base.or_else(|| case.get("old").cloned()),
            others: others.flatten().cloned().collect(),
            code: case["code"].as_u64().map_or(200, |code| u16::try_from(code).unwrap()),
            says: text(case, "here").or_else(|| text(case, "says")).unwrap_or_default(),
            by_api_server: case["apiServer"] == true,
            version,
        }
    };
    cases.iter().map(read).collect()
}

/// A message without the values in it.
fn brief(message: &str) -> String {
    let mut parts = message.split("Invalid value: ");
    let mut brief = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        brief.push_str("Invalid value: ");
        brief.push_str(part.split_once(": ").map_or("", |(_, rest)| rest));
    }
    brief
}

/// The objects of a kind, as the API server has them.
struct Objects<'a> {
    installation: &'a Installation,
    kind: &'static str,
    plural: &'static str,
}

impl Objects<'_> {
    fn api(&self, version: &str) -> Api<DynamicObject> {
        if self.kind != "ResourceDistribution" {
            return self.installation.objects(version, self.kind, self.plural);
        }
        let kind = GroupVersionKind::gvk("apps.kruise.io", version, self.kind);
        Api::all_with(self.installation.client.clone(), &ApiResource::from_gvk(&kind))
    }

    fn read(&self, object: &Value, version: &str) -> DynamicObject {
        let mut object = object.clone();
        object["apiVersion"] = json!(format!("apps.kruise.io/{version}"));
        object["kind"] = json!(self.kind);
        let mut object: DynamicObject = serde_json::from_value(object).unwrap();
        object.metadata.namespace = None;
        object
    }

    async fn create(&self, object: &Value, version: &str) -> String {
        let mut object = self.read(object, version);
        (
            object.metadata.uid,
            object.metadata.resource_version,
            object.metadata.finalizers,
        ) = (None, None, None);
        self.api(version).create(&PostParams::default(), &object).await.unwrap();
        object.name_any()
    }

    async fn ask(&self, case: &Case) -> Result<(), (u16, String)> {
        let api = self.api(&case.version);
        let mut new = self.read(&case.object, &case.version);
        let answer = if case.old.is_some() {
            let live = api.get(&new.name_any()).await.unwrap();
            (new.metadata.uid, new.metadata.resource_version) = (live.uid(), live.resource_version());
            api.replace(&new.name_any(), &DRY, &new).await
        } else {
            api.create(&DRY, &new).await
        };
        match answer {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) => Err((status.code, status.message.clone())),
            Err(error) => panic!("{}: no answer: {error}", case.about),
        }
    }

    /// What of an answer is not the recorded one.
    fn difference(&self, case: &Case, answer: Result<(), (u16, String)>) -> Option<String> {
        let (code, message) = answer.err().unwrap_or((200, String::new()));
        let webhook = format!(
            "admission webhook \"v{}.kb.io\" denied the request: ",
            self.kind.to_lowercase()
        );
        let is_same = code == case.code
            && match message.strip_prefix(&webhook) {
                None if code == 200 => true,
                None => case.by_api_server && !message.starts_with("admission webhook"),
                Some(said) => !case.by_api_server && brief(said) == brief(&case.says),
            };
        (!is_same).then(|| {
            format!(
                "{} {}:\n  {code} {message}\nbut was:\n  {} {}",
                self.kind, case.about, case.code, case.says
            )
        })
    }
}

#[test]
fn given_every_recorded_request_then_the_api_server_gives_the_same_verdict() {
    run_test(Duration::from_mins(5), async {
        let installation = Installation::of("placing", &CRDS).await;
        let gates = Gates::default().with(Gate::ResourceDistributionGate, true);
        let manager = installation.start_with(installation.settings(), gates).await.unwrap();
        // Patches of subsets are tried on its template.
        let spread_set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "g2-ws-target"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": {
                "metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "nginx:alpine"}]}}},
        });
        let sets = installation.objects("v1beta1", "CloneSet", "clonesets");
        let spread_set: DynamicObject = serde_json::from_value(spread_set).unwrap();
        eventually(PATIENCE, "the webhooks answer", || async {
            Ok(sets.create(&PostParams::default(), &spread_set).await.map(drop)?)
        })
        .await;
        let (mut wrong, mut asked) = (Vec::new(), 0);
        for (kind, plural, recorded) in RECORDED {
            let objects = Objects {
                installation: &installation,
                kind,
                plural,
            };
            let cases = cases(recorded);
            let refused = cases
                .iter()
                .find(|case| case.code != 200 && !case.by_api_server && case.old.is_none());
            eventually(PATIENCE, "the webhooks of the kind answer", || async {
                let (_, message) = objects.ask(refused.unwrap()).await.err().unwrap_or_default();
                let is_heard = message.contains("denied the request") && !message.contains("failed calling");
                is_heard.then_some(()).ok_or_else(|| NotYet::new(message))
            })
            .await;
            for case in &cases {
                let mut there = Vec::new();
                for other in case.old.iter().chain(&case.others) {
                    there.push(objects.create(other, &case.version).await);
                }
                let answer = objects.ask(case).await;
                wrong.extend(objects.difference(case, answer));
                for name in there {
                    let api = objects.api(&case.version);
                    api.delete(&name, &DeleteParams::default()).await.unwrap();
                }
                asked += 1;
            }
        }
        assert!(wrong.is_empty(), "{} of {asked}\n{}", wrong.len(), wrong.join("\n"));
        assert_eq!(asked, 594);
        manager.stop().await;
    });
}
