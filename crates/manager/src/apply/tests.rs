use std::future::pending;
use std::time::Duration;

use kruise_admission::descriptor;
use kruise_api::{
    cloneset::v1beta1::CloneSet, kind::Kind as _, names::component::controller, pod::Pod, resource::Preconditions,
};
use kruise_core::plan::{Chain, OnFailure, Pace, Phase, Step, Target, Write};
use kruise_runtime::{
    admin::Plans, client::ServerVersion, expectations::Visible, flags::parse, lease::Leadership, writer::WriterMetrics,
};
use kube::{Client, Config};
use prometheus::Registry;
use serde_json::json;
use tokio::{net::TcpListener, time::timeout};

use super::*;
use crate::{Settings, platform::Platform};

/// A platform whose API server takes every call and answers none.
async fn unanswered() -> Platform {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            held.push(connection);
        }
        pending::<()>().await;
    });
    let config = Config::new(format!("http://{address}").parse().expect("an address"));
    let client = Client::try_from(config).expect("a client");
    let settings = Settings::read(parse(["manager".to_owned()]).expect("flags"), |_| None).expect("settings");
    let registry = Registry::new();
    let writes = WriterMetrics::new(&registry).expect("metrics");
    let version = ServerVersion::parse("1.34.4");
    let always = Leadership::always();
    let plans = Plans::default();
    let built = Platform::new(&Arc::new(settings), client, version, plans, always, &writes, &registry);
    built.expect("a platform").0
}

#[tokio::test]
async fn given_an_application_that_is_cut_off_then_what_it_had_sent_is_waited_for() {
    let pod = |name: &str| Target::new(Pod::RESOURCE, "shop", name);
    let create = Action::create(pod("web-a"), json!({ "kind": "Pod", "metadata": { "name": "web-a" } }));
    let delete = Action::delete(pod("web-b"), Preconditions::uid("uid-b"));
    let mut platform = unanswered().await;
    let described = descriptor::controllers().find(|known| known.name == controller::CLONE_SET);
    let context = Arc::new(platform.context(described.expect("known")));
    let pods: kruise_runtime::cache::Store<Pod> = platform.store();
    let seen = json!({ "metadata": { "name": "web-b", "namespace": "shop", "uid": "uid-b", "resourceVersion": "7" } });
    let seen: Pod = serde_json::from_str(&seen.to_string()).expect("a Pod");
    pods.feed(kruise_runtime::cache::Change::Applied(seen));
    let mut views = Views::default();
    views.add(&pods);
    let applier = Applier::new(context.clone(), views);
    let key = ObjectKey::new("shop", "web");
    let regarding = Regarding::new(CloneSet::RESOURCE, "shop", "web", "uid");
    for (action, object) in [(create, "shop/web-a"), (delete, "shop/web-b")] {
        let mut step = Step::new(Phase::Scale, Pace::InOrder, OnFailure::Stop);
        step.push(Chain::of(Write::from(action)));
        let mut plan = Plan::default();
        plan.push(step);
        let cut_off = timeout(Duration::from_millis(100), applier.apply(&key, &regarding, &plan)).await;
        assert!(cut_off.is_err());
        let Visible::NotYet { object: waits_for, .. } = context.expectations().check(&key) else {
            panic!("{object} is forgotten")
        };
        assert_eq!(waits_for.to_string(), object);
        context.expectations().forget(&key);
    }
}
