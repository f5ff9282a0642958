//! The installed chart on a real cluster: what its webhooks do, and how it is upgraded and removed while somebody works with the cluster.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use kruise_testkit::process::wait_until;

use crate::Newcomer;

/// A CloneSet without Pods, in the older version.
const CLONESET: &str = "\
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: shop, namespace: default}
spec:
  replicas: 0
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: main, image: none}]}
  updateStrategy: {type: InPlaceIfPossible, partition: 1}
";

/// A Pod of that CloneSet.
const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: $POD
  namespace: $NAMESPACE
  ownerReferences: [{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: shop, uid: $OWNER, controller: true}]
spec: {containers: [{name: main, image: none}]}
";

/// A cluster with the chart installed.
pub(crate) struct Installed<'a> {
    newcomer: &'a Newcomer,
    /// What a shell needs to use the cluster.
    environment: String,
    owner: String,
}

impl<'a> Installed<'a> {
    /// Creates a CloneSet, which is converted on its way.
    pub(crate) fn with_a_workload(newcomer: &'a Newcomer) -> Self {
        let mut this = Self {
            newcomer,
            environment: newcomer.ok("cargo xtask env"),
            owner: String::new(),
        };
        this.applies(CLONESET);
        this.owner = this.kubectl("get clonesets.v1beta1.apps.kruise.io shop -o jsonpath='{.metadata.uid}'");
        this
    }

    fn kubectl(&self, rest: &str) -> String {
        self.ok(&format!("kubectl {rest}"))
    }

    fn types(&self, script: &str) -> Result<String, String> {
        self.newcomer.types(&format!("{}\n{script}", self.environment))
    }

    fn ok(&self, script: &str) -> String {
        self.types(script)
            .unwrap_or_else(|text| panic!("`{script}` failed:\n{text}"))
    }

    fn applies(&self, manifest: &str) {
        self.kubectl(&format!("apply -f - <<'END'\n{manifest}END"));
    }

    fn pod(&self, name: &str, namespace: &str) -> String {
        POD.replace("$POD", name)
            .replace("$NAMESPACE", namespace)
            .replace("$OWNER", &self.owner)
    }

    fn creates_pod(&self, name: &str, namespace: &str, options: &str) -> Result<String, String> {
        let pod = self.pod(name, namespace);
        self.types(&format!(
            "kubectl create {options} -o jsonpath='{{.spec.readinessGates[*].conditionType}}' -f - <<'END'\n{pod}END"
        ))
    }

    /// Objects are converted, Pods get their readiness gate and then their condition.
    pub(crate) fn webhooks_work(&self) {
        let partition = |version: &str| {
            let path = if version == "v1alpha1" { "" } else { ".rollingUpdate" };
            self.kubectl(&format!(
                "get clonesets.{version}.apps.kruise.io shop -o jsonpath='{{.spec.updateStrategy{path}.partition}}'"
            ))
        };
        assert_eq!([partition("v1alpha1"), partition("v1beta1")], ["1", "1"]);
        let gates = self.creates_pod("gated", "default", "").unwrap();
        assert_eq!(gates, "KruisePodReady");
        let condition = "get pod gated -o jsonpath='{.status.conditions[?(@.type==\"KruisePodReady\")].status}'";
        assert!(
            wait_until(Duration::from_mins(1), || self.kubectl(condition) == "True"),
            "the Pod has no condition"
        );
        self.kubectl("delete pod gated --grace-period=0 --force");
    }

    /// Applies and upgrades the chart over itself while Pods are created all the time; not one creation may fail.
    pub(crate) fn can_be_applied_again(&self) {
        let stop = AtomicBool::new(false);
        let script = [
            "VALUES=$(mktemp); helm get values kruise -n default -o yaml > $VALUES",
            "helm template kruise charts/kruise -n default -f $VALUES | kubectl apply --server-side=false -f - 2>&1 | tail -n 3",
            // Every replica is replaced.
            "helm upgrade kruise charts/kruise -n default -f $VALUES --set manager.log.level=5 --timeout 3m",
            "kubectl -n kruise-system rollout status deployment/kruise-controller-manager --timeout=180s",
            "helm upgrade kruise charts/kruise -n default -f $VALUES --timeout 3m",
            "kubectl -n kruise-system rollout status deployment/kruise-controller-manager --timeout=180s",
        ];
        let before = self.certificate_authority();
        let calls = thread::scope(|scope| {
            let load = scope.spawn(|| {
                let mut calls = 0;
                while !stop.load(Ordering::Relaxed) {
                    let gates = self.creates_pod("load", "default", "--dry-run=server");
                    assert_eq!(gates.as_deref(), Ok("KruisePodReady"), "call {calls}");
                    calls += 1;
                }
                calls
            });
            let done = self.types(&script.join("\n"));
            stop.store(true, Ordering::Relaxed);
            let calls = load.join().expect("no call failed");
            done.unwrap_or_else(|text| panic!("{text}"));
            calls
        });
        assert!(calls > 10, "{calls}");
        assert_eq!(self.certificate_authority(), before, "the CA stays");
    }

    fn certificate_authority(&self) -> String {
        self.kubectl("-n kruise-system get secret kruise-webhook-certs -o jsonpath='{.data.ca-cert\\.pem}'")
    }

    /// What people with the built-in roles may do.
    pub(crate) fn users_have_their_rights(&self) {
        self.kubectl("create rolebinding viewer --clusterrole=view --user=viewer");
        for (what, may) in [
            ("get clonesets.apps.kruise.io", true),
            ("get clonesets.apps.kruise.io --subresource=status", true),
            ("create clonesets.apps.kruise.io", false),
            ("get resourcedistributions.apps.kruise.io", false),
        ] {
            let text = self.types(&format!("kubectl auth can-i {what} --as=viewer"));
            assert_eq!(text.is_ok(), may, "{what}: {text:?}");
        }
    }

    /// Without any manager, Pods of the system can still be created, and others cannot.
    pub(crate) fn only_the_system_goes_on_without_a_manager(&self) {
        let scale = |replicas: u8| {
            self.kubectl(&format!(
                "-n kruise-system scale deployment/kruise-controller-manager --replicas={replicas}"
            ));
        };
        scale(0);
        assert!(
            wait_until(Duration::from_mins(1), || self
                .creates_pod("p", "default", "--dry-run=server")
                .is_err()),
            "nobody was asked"
        );
        self.creates_pod("p", "kube-system", "--dry-run=server").unwrap();
        scale(2);
        self.kubectl("-n kruise-system rollout status deployment/kruise-controller-manager --timeout=180s");
        self.creates_pod("p", "default", "--dry-run=server").unwrap();
    }

    /// An uninstall is refused while a workload is left, and then leaves nothing in anybody's way.
    pub(crate) fn can_be_removed_only_without_workloads(self) {
        let refused = self.types("helm uninstall kruise -n default --timeout 2m");
        let text = refused.expect_err("a CloneSet is left");
        assert!(text.contains("kruise-finalizer failed"), "{text}");
        self.kubectl("get cloneset shop");
        self.kubectl("-n kruise-system get deployment kruise-controller-manager");
        self.kubectl("delete cloneset shop");
        self.ok("helm uninstall kruise -n default --timeout 2m");
        let left = self.kubectl("get crds,mutatingwebhookconfigurations,validatingwebhookconfigurations -o name");
        assert!(!left.contains("kruise"), "{left}");
        let gates = self.creates_pod("free", "default", "--dry-run=server").unwrap();
        assert_eq!(gates, "", "nobody is asked any more");
    }
}
