//! The client against a runtime that fails in every way it can.

use std::path::PathBuf;
use std::time::Duration;

use kruise_cri::fake::{Ends, FakeRuntime, Pullable};
use kruise_cri::{Credentials, Error, Executed, PullRequest, Runtime, discover};
use tonic::Code;

const POD: &str = "io.kubernetes.pod.uid";

struct Place {
    fake: FakeRuntime,
    _folder: tempfile::TempDir,
    folder: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().expect("a folder");
    Place {
        fake: FakeRuntime::start(&folder.path().join("containerd.sock")),
        folder: folder.path().to_owned(),
        _folder: folder,
    }
}

async fn connected(place: &Place) -> Runtime {
    Runtime::connect(place.fake.socket()).await.expect("connected")
}

#[tokio::test]
async fn given_a_socket_then_it_is_found_and_known_by_its_name() {
    let place = place();
    let runtimes = discover::connect(&discover::candidates(&place.folder, ""))
        .await
        .expect("found");
    assert_eq!(runtimes.first().name(), "containerd");
    assert!(runtimes.named("containerd").is_some() && runtimes.named("crio").is_none());
}

#[tokio::test]
async fn given_a_runtime_without_version_1_then_it_is_passed_over() {
    let place = place();
    let other = FakeRuntime::start(&place.folder.join("crio.sock"));
    other.world().name = "cri-o".to_owned();
    place
        .fake
        .next("ImageFsInfo", [Ends::With(Code::Unimplemented, "unknown service")]);
    let runtimes = discover::connect(&discover::candidates(&place.folder, ""))
        .await
        .expect("one is left");
    assert_eq!(runtimes.first().name(), "cri-o");
}

#[tokio::test]
async fn given_the_runtime_restarts_then_calls_fail_and_then_work_again_on_the_same_client() {
    let mut place = place();
    let runtime = connected(&place).await;
    place.fake.kill();
    let error = runtime.list_images().await.expect_err("nobody there");
    assert!(matches!(error, Error::Answer { .. }), "{error:?}");
    place.fake.start_again();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while runtime.list_images().await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "it never comes back");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn given_a_pull_that_hangs_then_the_deadline_ends_it_on_both_sides() {
    let place = place();
    let stuck = Pullable {
        stuck: true,
        ..Pullable::default()
    };
    place.fake.world().registry.insert("slow:1".to_owned(), stuck);
    let runtime = connected(&place).await;
    let request = PullRequest {
        image: "slow:1".to_owned(),
        ..PullRequest::default()
    };
    let error = runtime
        .pull_image(&request, Duration::from_millis(100))
        .await
        .expect_err("too slow");
    assert!(error.is_timeout(), "{error}");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while !place.fake.calls("PullImage")[0].given_up {
        assert!(tokio::time::Instant::now() < deadline, "the runtime still pulls");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn given_credentials_then_they_are_sent_and_never_printed() {
    let place = place();
    let who = Credentials {
        username: "u".to_owned(),
        password: "secret".to_owned(),
    };
    let private = Pullable {
        only: Some(who.clone()),
        ..Pullable::default()
    };
    place.fake.world().registry.insert("private:1".to_owned(), private);
    let runtime = connected(&place).await;
    let mut request = PullRequest {
        image: "private:1".to_owned(),
        credentials: Some(who),
        ..PullRequest::default()
    };
    let pulled = runtime.pull_image(&request, Duration::from_secs(5)).await;
    assert!(pulled.expect("pulled").starts_with("sha256:"));
    assert!(!format!("{request:?}").contains("secret"));
    request.credentials = None;
    let error = runtime.pull_image(&request, Duration::from_secs(5)).await;
    assert!(error.expect_err("nobody").to_string().contains("401 Unauthorized"));
}

#[tokio::test]
async fn given_containers_then_the_newest_comes_first_and_one_that_goes_meanwhile_is_left_out() {
    let place = place();
    let first = place.fake.world().run("pod", "main", &[]);
    let runtime = connected(&place).await;
    runtime
        .stop_container(&first, Duration::from_secs(3))
        .await
        .expect("stopped");
    assert_eq!(place.fake.calls("StopContainer")[0].timeout, 3);
    let found = runtime.containers_of(POD, "pod").await.expect("listed");
    assert_eq!(found.len(), 2);
    assert_ne!(found[0].id, first, "the new one is first");
    assert_eq!(found[0].annotations["io.kubernetes.container.restartCount"], "1");
    place.fake.next("ContainerStatus", [Ends::With(Code::NotFound, "gone")]);
    assert_eq!(runtime.containers_of(POD, "pod").await.expect("listed").len(), 1);
    place
        .fake
        .next("ContainerStatus", [Ends::With(Code::Internal, "disk full")]);
    let error = runtime.containers_of(POD, "pod").await.expect_err("broken");
    assert_eq!(error.to_string(), "rpc error: code = Internal desc = disk full");
}

#[tokio::test]
async fn given_a_command_that_prints_very_much_then_nothing_of_it_is_read() {
    let place = place();
    let chatty = |bytes: usize| Executed {
        stdout: vec![b'x'; bytes],
        ..Executed::default()
    };
    place.fake.world().commands.insert("env".to_owned(), chatty(60_000));
    place.fake.world().commands.insert("yes".to_owned(), chatty(15 << 20));
    let id = place.fake.world().run("pod", "main", &[]);
    let runtime = connected(&place).await;
    let most = 64 << 10;
    let ended = runtime.exec(&id, &["env".to_owned()], None, most).await.expect("read");
    assert_eq!(ended.stdout.len(), 60_000);
    for limit in [None, Some(Duration::from_secs(5))] {
        let error = runtime.exec(&id, &["yes".to_owned()], limit, most).await;
        let error = error.expect_err("too much");
        assert_eq!(error, Error::TooLong { call: "ExecSync", most });
    }
    // The connection goes on.
    runtime.exec(&id, &["env".to_owned()], None, most).await.expect("read");
}
