//! People with tokens, and what they may do.

use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use kruise_testkit::namespace::FreshNamespace;
use kube::{Api, api::PostParams};
use serde_json::json;

/// A service account of a namespace that has no rights yet, and a token of it.
pub(super) async fn reader(home: &FreshNamespace, name: &str) -> String {
    let accounts: Api<ServiceAccount> = home.api();
    let account = json!({"metadata": {"name": name}});
    let params = PostParams::default();
    accounts
        .create(&params, &serde_json::from_value(account).unwrap())
        .await
        .unwrap();
    let request = TokenRequest::default();
    let made = accounts.create_token_request(name, &params, &request);
    made.await.unwrap().status.unwrap().token.unwrap()
}

/// Lets a reader list kinds of ours and Pods in a namespace, and get them.
pub(super) async fn may_look(home: &FreshNamespace, name: &str, place: &FreshNamespace, plurals: &[&str]) {
    let params = PostParams::default();
    let verbs = ["get", "list"];
    let role = json!({"metadata": {"name": name}, "rules": [
        {"apiGroups": ["apps.kruise.io"], "resources": plurals, "verbs": verbs},
        {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
    ]});
    let roles: Api<Role> = place.api();
    roles
        .create(&params, &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    let binding = json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home.name()}]});
    let bindings: Api<RoleBinding> = place.api();
    bindings
        .create(&params, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
}

/// Takes that away again.
pub(super) async fn may_not_look(name: &str, place: &FreshNamespace) {
    let bindings: Api<RoleBinding> = place.api();
    bindings
        .delete(name, &kube::api::DeleteParams::default())
        .await
        .unwrap();
}

/// Lets a reader do everything everywhere. The binding has the name of the namespace, with which it does not go.
pub(super) async fn may_do_all(client: &kube::Client, home: &FreshNamespace, name: &str) -> Binding {
    let binding = json!({"metadata": {"name": home.name()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home.name()}]});
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let params = PostParams::default();
    bindings
        .create(&params, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
    Binding(bindings, home.name().to_owned())
}

/// A binding of the whole cluster.
pub(super) struct Binding(Api<ClusterRoleBinding>, String);

impl Drop for Binding {
    fn drop(&mut self) {
        let removal = async {
            let _ = self.0.delete(&self.1, &kube::api::DeleteParams::default()).await;
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(removal));
    }
}
