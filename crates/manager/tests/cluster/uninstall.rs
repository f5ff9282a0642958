//! The check before `helm uninstall`, in a cluster with workloads of ours, without them, and without their kinds.

use std::{path::Path, time::Duration};

use kruise_testkit::{cluster::TestControlPlane, eventually::run_test};
use kube::{
    Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use tokio::process::Command;

use super::chart::{Kinds, api, apply, as_of_then, as_service_account, config, name, rendered};

const CRDS: [&str; 3] = [
    "clonesets.apps.kruise.io",
    "statefulsets.apps.kruise.io",
    "daemonsets.apps.kruise.io",
];

#[test]
fn given_workloads_of_any_kind_in_any_version_then_the_installation_must_stay() {
    run_test(Duration::from_mins(5), async {
        // Its own, as the check looks into all namespaces.
        let control_plane = TestControlPlane::of_its_own().await.unwrap();
        let kubeconfig = control_plane.kubeconfig();
        let client = Client::try_from(config(&kubeconfig).await).unwrap();

        assert_eq!(ask(&kubeconfig).await, (Some(0), String::new()), "no kind is installed");

        let mut crds = rendered("kruise-system", Kinds::All);
        crds.retain(|object| CRDS.contains(&name(object).as_str()));
        for older in [true, false] {
            for crd in &crds {
                let mut crd = crd.clone();
                if older {
                    as_of_then(&mut crd);
                }
                apply(&client, &crd).await;
                one_of_this_kind_keeps_it(&client, &kubeconfig, &crd).await;
            }
        }
        assert_eq!(ask(&kubeconfig).await, (Some(0), String::new()), "all are gone");

        let folder = tempfile::tempdir().unwrap();
        let (code, said) = ask(&as_service_account(&kubeconfig, "default", folder.path())).await;
        assert_eq!(code, Some(1), "nothing may be seen: {said}");
        assert!(
            said.contains("cannot see whether there are clonesets.apps.kruise.io"),
            "{said}"
        );
        drop(control_plane);
    });
}

async fn one_of_this_kind_keeps_it(client: &Client, kubeconfig: &Path, crd: &Value) {
    let versions = crd["spec"]["versions"].as_array().unwrap();
    // In the version that is stored nobody has to convert it.
    let version = versions.iter().find(|version| version["storage"] == true).unwrap();
    let workload = json!({
        "apiVersion": format!("apps.kruise.io/{}", version["name"].as_str().unwrap()),
        "kind": crd["spec"]["names"]["kind"],
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {}},
    });
    let workloads = api(client, &workload);
    let object = serde_json::from_value(workload).unwrap();
    workloads.create(&PostParams::default(), &object).await.unwrap();
    let (code, said) = ask(kubeconfig).await;
    assert_eq!(code, Some(1), "{said}");
    let named = format!("at least one {} (default/web)", name(crd));
    assert!(said.contains(&named), "{said}");
    workloads.delete("web", &DeleteParams::default()).await.unwrap();
}

/// How the program of the hook ends, and what it complains about.
async fn ask(kubeconfig: &Path) -> (Option<i32>, String) {
    let mut hook = Command::new(env!("CARGO_BIN_EXE_helm_hook"));
    let output = hook.env("KUBECONFIG", kubeconfig).output().await.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}
