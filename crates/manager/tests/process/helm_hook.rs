//! The check before `helm uninstall`, when there is nobody to ask.

use crate::support::Running;

#[tokio::test]
async fn given_no_api_server_then_it_must_stay() {
    let (status, said) = Running::start(env!("CARGO_BIN_EXE_helm_hook"), &[], &[]).ends().await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the installation must stay"), "{said}");
}
