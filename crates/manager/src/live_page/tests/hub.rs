//! What readers are sent of changes.

use super::super::frames::Message;
use super::super::hub::{MOST_READERS, Topic};
use super::super::sources::Table;
use super::{Fixture, WORKLOADS, pod, read, set, web};
use kruise_runtime::cache::{Change, Named};
use serde_json::{Value, json};

/// The events of a message: name and content.
fn events(message: Message) -> Vec<(String, Value)> {
    let Message::Frames(frames) = message else {
        panic!("it is to begin anew");
    };
    let event = |text: &str| {
        let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data = data.strip_suffix("\n\n").unwrap();
        assert!(!data.contains('\n'), "one line: {data}");
        (name.to_owned(), serde_json::from_str(data).unwrap())
    };
    let texts = frames.iter().map(|frame| std::str::from_utf8(&frame.bytes).unwrap());
    texts.map(event).collect()
}

fn begin(fixture: &Fixture, topic: &Topic) -> Vec<(String, Value)> {
    let frames: Vec<_> = fixture.hub.frames(topic).unwrap().collect();
    events(Message::Frames(frames.into()))
}

#[test]
fn given_changes_of_one_object_then_all_readers_share_one_event_of_it() {
    let fixture = Fixture::new();
    let mut seats = [(); 3].map(|()| fixture.hub.seat(&WORKLOADS).unwrap());
    for ready in 0..10 {
        fixture.set("shop", "web", ready);
    }
    fixture.hub.send();
    let messages = seats.each_mut().map(|seat| seat.inbox.try_recv().unwrap());
    let starts = messages.each_ref().map(|message| match message {
        Message::Frames(frames) => frames.as_ptr(),
        Message::Again => panic!("it is to begin anew"),
    });
    assert!(starts[0] == starts[1] && starts[1] == starts[2], "the same memory");
    let [message, ..] = messages;
    let told = events(message);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0.as_str(), &told[0].1["ready"]), ("workload", &json!(9)));
    fixture.hub.send();
    assert!(seats[0].inbox.try_recv().is_err(), "nothing has changed");
}

#[test]
fn given_nobody_who_reads_then_nothing_is_noted() {
    let fixture = Fixture::new();
    fixture.set("shop", "web", 1);
    let mut seat = fixture.hub.seat(&WORKLOADS).unwrap();
    fixture.hub.send();
    assert!(seat.inbox.try_recv().is_err());
    assert_eq!(begin(&fixture, &WORKLOADS)[0].1["name"], "web");
    assert!((fixture.metric("kruise_ui_readers") - 1.0).abs() < 0.1);
    drop(seat);
    assert!(fixture.metric("kruise_ui_readers") < 0.1);
}

#[test]
fn given_objects_of_other_tables_then_a_reader_hears_of_its_own_only() {
    let fixture = Fixture::new();
    let mut images = fixture.hub.seat(&Topic::Table(Table::Images)).unwrap();
    let mut workloads = fixture.hub.seat(&WORKLOADS).unwrap();
    fixture.set("shop", "web", 1);
    fixture
        .nodes
        .feed(Change::Applied(read(&json!({"metadata": {"name": "node-1"}}))));
    fixture.hub.send();
    let told = events(images.inbox.try_recv().unwrap());
    assert_eq!((told.len(), told[0].0.as_str()), (1, "node"));
    let told = events(workloads.inbox.try_recv().unwrap());
    assert_eq!((told.len(), told[0].0.as_str()), (1, "workload"));
}

#[test]
fn given_an_object_that_is_deleted_then_it_is_gone() {
    let fixture = Fixture::new();
    fixture.set("shop", "web", 1);
    let mut seat = fixture.hub.seat(&WORKLOADS).unwrap();
    let name = Named {
        namespace: "shop",
        name: "web",
    };
    fixture.sets.feed(Change::Deleted(name, 9));
    fixture.hub.send();
    let gone = json!({"kind": "CloneSet", "namespace": "shop", "name": "web"});
    assert_eq!(events(seat.inbox.try_recv().unwrap()), [("gone".to_owned(), gone)]);
}

#[test]
fn given_a_reader_that_takes_nothing_then_it_is_cut_off_and_others_are_not() {
    let fixture = Fixture::new();
    let mut slow = fixture.hub.seat(&WORKLOADS).unwrap();
    let mut quick = fixture.hub.seat(&WORKLOADS).unwrap();
    for ready in 0..20 {
        fixture.set("shop", "web", ready);
        fixture.hub.send();
        assert_eq!(events(quick.inbox.try_recv().unwrap())[0].1["ready"], ready);
    }
    let mut waiting = 0;
    while slow.inbox.try_recv().is_ok() {
        waiting += 1;
    }
    assert_eq!(waiting, 8, "what fits into its queue");
    assert!(slow.inbox.is_closed());
    assert!((fixture.metric("kruise_ui_cut_off_total") - 1.0).abs() < 0.1);
}

#[test]
fn given_a_storm_then_it_is_sent_in_pieces_and_nothing_is_lost() {
    let fixture = Fixture::new();
    let mut seat = fixture.hub.seat(&WORKLOADS).unwrap();
    for number in 0..1_200 {
        fixture.set("shop", &format!("set-{number:04}"), 1);
    }
    let mut sizes = Vec::new();
    for _ in 0..4 {
        fixture.hub.send();
        sizes.extend(seat.inbox.try_recv().map(|message| events(message).len()));
    }
    assert_eq!(sizes, [500, 500, 200]);
}

#[test]
fn given_too_many_readers_then_the_next_has_no_place_until_one_goes() {
    let fixture = Fixture::new();
    let mut seats: Vec<_> = (0..MOST_READERS)
        .map(|_| fixture.hub.seat(&WORKLOADS).unwrap())
        .collect();
    assert!(fixture.hub.seat(&WORKLOADS).is_none());
    seats.pop();
    assert!(fixture.hub.seat(&WORKLOADS).is_some());
}

#[test]
fn given_the_page_of_a_workload_then_it_has_its_pods_budgets_and_history_and_no_others() {
    let fixture = Fixture::new();
    fixture.set("shop", "web", 1);
    fixture.pods.feed(Change::Applied(pod("shop", "web-a", "web")));
    fixture.pods.feed(Change::Applied(pod("shop", "api-a", "api")));
    for (name, target) in [("for-web", "web"), ("for-api", "api")] {
        let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": target});
        let budget = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"targetRef": target, "maxUnavailable": 1}});
        fixture.budgets.feed(Change::Applied(read(&budget)));
    }
    for (number, owner) in [(1, "web"), (2, "web"), (3, "api")] {
        let revision = json!({
            "metadata": {"name": format!("{owner}-{number}"), "namespace": "shop", "ownerReferences": [
                {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": owner, "uid": format!("uid-{owner}"), "controller": true},
            ]},
            "revision": number, "data": {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": format!("nginx:{number}")}]}}}},
        });
        fixture.revisions.feed(Change::Applied(read(&revision)));
    }
    let all = begin(&fixture, &web());
    let named: Vec<_> = all
        .iter()
        .map(|(event, data)| (event.as_str(), data["name"].as_str()))
        .collect();
    assert_eq!(
        named,
        [
            ("workload", Some("web")),
            ("history", None),
            ("budget", Some("for-web")),
            ("pod", Some("web-a")),
        ]
    );
    assert_eq!(
        all[0].1["details"]["images"],
        json!([{"container": "main", "image": "nginx"}])
    );
    let revisions = all[1].1["revisions"].as_array().unwrap();
    assert_eq!(revisions.len(), 2);
    assert_eq!(revisions[0]["changes"][0]["to"], "nginx:2");
    assert_eq!(all[3].1["updated"], true);
    let text = json!(all).to_string();
    assert!(!text.contains("hunter2") && !text.contains("PASSWORD"), "{text}");
    let other = Topic::Workload(super::SourceObject {
        source: 0,
        namespace: "shop".to_owned(),
        name: "none".to_owned(),
    });
    assert!(fixture.hub.frames(&other).is_none());
}

#[test]
fn given_pods_that_come_and_go_then_the_page_of_their_workload_follows() {
    let fixture = Fixture::new();
    fixture.set("shop", "web", 1);
    let mut seat = fixture.hub.seat(&web()).unwrap();
    begin(&fixture, &web());
    fixture.pods.feed(Change::Applied(pod("shop", "web-a", "web")));
    fixture.pods.feed(Change::Applied(pod("shop", "api-a", "api")));
    fixture.hub.send();
    let told = events(seat.inbox.try_recv().unwrap());
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0.as_str(), &told[0].1["name"]), ("pod", &json!("web-a")));
    let name = Named {
        namespace: "shop",
        name: "web-a",
    };
    fixture.pods.feed(Change::Deleted(name, 9));
    fixture.hub.send();
    let told = events(seat.inbox.try_recv().unwrap());
    assert_eq!(
        told[0],
        (
            "gone".to_owned(),
            json!({"kind": "Pod", "namespace": "shop", "name": "web-a"})
        )
    );
}

#[test]
fn given_another_update_revision_then_the_readers_of_the_workload_begin_anew() {
    let fixture = Fixture::new();
    fixture.set("shop", "web", 1);
    let mut seat = fixture.hub.seat(&web()).unwrap();
    begin(&fixture, &web());
    fixture.set("shop", "web", 2);
    fixture.hub.send();
    assert_eq!(events(seat.inbox.try_recv().unwrap())[0].1["ready"], 2);
    fixture.sets.feed(Change::Applied(set("shop", "web", 2, "web-2")));
    fixture.hub.send();
    assert!(matches!(seat.inbox.try_recv().unwrap(), Message::Again));
    assert_eq!(begin(&fixture, &web())[0].1["details"]["updateRevision"], "web-2");
}
