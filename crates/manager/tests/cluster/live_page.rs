//! The live page over HTTP, for readers with different rights.

use std::time::Duration;

use kruise_testkit::{
    builders::{Fixture as _, cloneset},
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{
    readers::{may_do_all, may_look, may_not_look, reader},
    world::{PATIENCE, World, free_port},
};

/// Rights are looked at again every half minute, and count for a quarter more.
const FOR_RIGHTS: Duration = Duration::from_mins(2);

/// An answer that is being read.
struct Stream {
    stream: TcpStream,
    text: String,
}

impl Stream {
    async fn open(port: u16, path: &str, token: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Self {
            stream,
            text: String::new(),
        }
    }

    /// Reads until it says this, and returns all that it has said.
    async fn until(&mut self, wanted: &str, patience: Duration) -> &str {
        let reading = async {
            while !self.text.contains(wanted) {
                let mut buffer = [0; 4096];
                let read = self.stream.read(&mut buffer).await.unwrap();
                assert!(read > 0, "it ended without {wanted}: {}", self.text);
                self.text.push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        };
        let found = timeout(patience, reading).await.is_ok();
        assert!(found, "no {wanted} in {}", self.text);
        &self.text
    }
}

async fn ask(port: u16, path: &str, token: &str) -> String {
    let mut answer = Stream::open(port, path, token).await;
    let mut text = String::new();
    let read = timeout(PATIENCE, answer.stream.read_to_string(&mut text)).await;
    read.unwrap().unwrap();
    text
}

#[test]
fn given_readers_with_different_rights_then_each_sees_its_own_moving_for_as_long_as_it_may() {
    run_test(Duration::from_mins(6), async {
        let world = World::new("live-page").await;
        let port = free_port();
        let replica = world.start_with(&Faults::new(1), &[&format!("--ui-addr=127.0.0.1:{port}")]);
        world.publish(&replica).await;
        replica.leads().await;
        world.all_trust().await;
        let other = world.reached("live-page-other").await;
        let all = reader(&world.work, "all").await;
        let ann = reader(&world.work, "ann").await;
        let bob = reader(&world.work, "bob").await;
        let _binding = may_do_all(&world.client, &world.work, "all").await;
        may_look(&world.work, "ann", &world.work, &["clonesets"]).await;
        let params = PostParams::default();
        for (place, name) in [(&world.work, "web"), (&other, "vault")] {
            let set: DynamicObject = serde_json::from_value(cloneset(name).replicas(2).json()).unwrap();
            let sets: kube::Api<kruise_api::cloneset::v1beta1::CloneSet> = place.api();
            let set = serde_json::from_value(json!(set)).unwrap();
            sets.create(&params, &set).await.unwrap();
        }
        let sets = world.objects("v1beta1", "CloneSet");
        eventually(PATIENCE, "Pods are made", || async {
            let seen = sets.get("web").await?.data["status"]["replicas"].clone();
            (seen == 2).then_some(()).ok_or_else(|| NotYet::new(seen.to_string()))
        })
        .await;

        let table = "/api/tables/workloads";
        for (token, sees_web, sees_vault) in [(&all, true, true), (&ann, true, false), (&bob, false, false)] {
            let mut answer = Stream::open(port, table, token).await;
            let text = answer.until("event: whole", PATIENCE).await;
            let seen = ["\"web\"", "\"vault\""].map(|name| text.contains(name));
            assert_eq!(seen, [sees_web, sees_vault], "{text}");
        }
        for token in ["", "nonsense", &format!("{}x", &all)] {
            let answer = ask(port, table, token).await;
            assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        }

        let page = format!("?kind=CloneSet&namespace={}&name=web", world.work.name());
        let refused = ask(port, &format!("/api/workload{page}"), &bob).await;
        assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
        let mut open = Stream::open(port, &format!("/api/workload{page}"), &ann).await;
        let text = open.until("event: whole", PATIENCE).await;
        assert_eq!(text.matches("event: pod\n").count(), 2, "{text}");
        assert!(!text.contains("event: history"), "ann may not list revisions: {text}");
        let mut open_to_all = Stream::open(port, &format!("/api/workload{page}"), &all).await;
        let text = open_to_all.until("event: whole", PATIENCE).await;
        assert!(text.contains("event: history"), "{text}");

        // It moves, and says why it does not.
        let paused = json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": true}},
            "template": {"spec": {"containers": [{"name": "main", "image": "nginx:1.26"}]}}}});
        sets.patch("web", &PatchParams::default(), &Patch::Merge(&paused))
            .await
            .unwrap();
        open.until("event: again", PATIENCE).await;
        let reasons = format!("/api/reasons{page}");
        eventually(PATIENCE, "the reason is told", || async {
            let answer = ask(port, &reasons, &ann).await;
            let is_told = answer.contains("\"leads\":true") && answer.to_lowercase().contains("paused");
            is_told.then_some(()).ok_or_else(|| NotYet::new(answer))
        })
        .await;
        let refused = ask(port, &reasons, &bob).await;
        assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");

        // Rights that are taken away end what was open.
        let mut open = Stream::open(port, table, &ann).await;
        open.until("event: whole", PATIENCE).await;
        may_not_look("ann", &world.work).await;
        open.until("event: again", FOR_RIGHTS).await;
        let mut answer = Stream::open(port, table, &ann).await;
        let text = answer.until("event: whole", PATIENCE).await;
        assert!(!text.contains("\"web\""), "{text}");
        world.stop(replica).await;
    });
}
