//! A rollout in the browser: it is seen to move, from the list and from the page of its workload, on a desk and on a phone. Pictures are kept in the build's temporary
//! folder for people to look at.

use std::{collections::BTreeSet, fs, path::PathBuf, time::Duration};

use kruise_testkit::{
    browser::{Browser, Driver, Screen},
    builders::{Fixture as _, cloneset},
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    sim::{SimOptions, SimulatedNodes},
};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::{
    readers::{may_do_all, reader},
    world::{World, free_port},
};

const PATIENCE: Duration = Duration::from_secs(90);
/// Notes every count of updated Pods that the list shows.
const OBSERVE: &str = r#"
    window.counts = [];
    const look = () => {
        const bar = document.querySelector('tr[data-key$="/web/CloneSet"] progress');
        const seen = bar && bar.value + "/" + bar.max;
        if (seen && window.counts.at(-1) !== seen) window.counts.push(seen);
    };
    look();
    new MutationObserver(look).observe(document.getElementById("main"), { subtree: true, childList: true, attributes: true });
"#;
/// What there is for people who do not see or do not point, and what would break the policy.
const ACCESSIBLE: &str = r#"
    const names = [...document.querySelectorAll("input, select")].filter((field) => !field.labels.length).map((field) => field.id);
    const buttons = [...document.querySelectorAll("button, a")].filter((item) => !item.textContent.trim()).length;
    const heads = [...document.querySelectorAll("table")].filter((table) => !table.caption || !table.querySelector("th[scope=col]")).length;
    const code = document.querySelectorAll("script:not([src]), [style], [onclick]").length;
    return { names, buttons, heads, code, title: document.title, language: document.documentElement.lang,
        width: document.documentElement.scrollWidth, window: innerWidth, small: [...document.querySelectorAll("main *")]
            .filter((item) => item.childElementCount === 0 && item.textContent.trim() && parseFloat(getComputedStyle(item).fontSize) < 12).length };
"#;

fn run(browser: &Browser<'_>, script: &str) -> Value {
    block_in_place(|| browser.run(script)).unwrap()
}

async fn shows(browser: &Browser<'_>, what: &str, script: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(PATIENCE, what, || async {
        let found = run(browser, script);
        if wanted(&found) {
            return Ok(found);
        }
        let text = run(browser, "return document.body.innerText");
        Err(NotYet::new(format!("{found}: {text}")))
    })
    .await
}

async fn log_in(browser: &Browser<'_>, token: &str) {
    shows(
        browser,
        "the form is there",
        "return !!document.getElementById('token')",
        |found| *found == json!(true),
    )
    .await;
    let script = format!(
        "document.getElementById('token').value = {}; document.querySelector('form.login').requestSubmit();",
        json!(token)
    );
    run(browser, &script);
}

fn usable(browser: &Browser<'_>, what: &str) {
    let found = run(browser, ACCESSIBLE);
    assert_eq!(found["names"], json!([]), "{what}: fields without a label");
    for (field, meaning) in [
        ("buttons", "buttons or links without a name"),
        ("heads", "tables without a caption or heads"),
        ("code", "code or styles in the text"),
        ("small", "texts in small letters"),
    ] {
        assert_eq!(found[field], 0, "{what}: {meaning}");
    }
    assert_eq!(found["language"], "en", "{what}");
    assert!(found["title"].as_str().unwrap().ends_with("kruise"), "{what}: {found}");
    assert!(
        found["width"].as_f64() <= found["window"].as_f64(),
        "{what}: it scrolls sideways: {found}"
    );
}

fn keep(browser: &Browser<'_>, name: &str) {
    let size = run(
        browser,
        "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]",
    );
    let side = |number: usize| size[number].as_f64().unwrap();
    let picture = block_in_place(|| browser.picture(side(0), side(1))).unwrap();
    assert!(picture.len() > 5_000, "{name}: there is hardly anything on it");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    fs::write(folder.join(format!("live-page-{name}.png")), picture).unwrap();
}

fn is_calm(browser: &Browser<'_>, what: &str) {
    let complaints = block_in_place(|| browser.complaints()).unwrap();
    assert!(complaints.is_empty(), "{what}: {complaints:?}");
}

async fn updated(sets: &Api<DynamicObject>, image: &str) {
    let update = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    sets.patch("web", &PatchParams::default(), &Patch::Merge(&update))
        .await
        .unwrap();
}

/// The word for the state of the set in the list.
const ROW: &str = r#"return document.querySelector('tr[data-key$="/web/CloneSet"] .state')?.textContent"#;

/// A rollout in the list.
async fn moves_in_the_list(desk: &Browser<'_>, sets: &Api<DynamicObject>) {
    shows(desk, "the set is ready", ROW, |found| found == "Ready").await;
    usable(desk, "the list");
    run(desk, OBSERVE);
    updated(sets, "nginx:1.26").await;
    let is_done = |found: &Value| {
        let counts: Vec<&str> = found.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        counts.len() > 1 && counts.last() == Some(&"5/5")
    };
    let counts = shows(desk, "it is updated", "return window.counts", is_done).await;
    let between: BTreeSet<&str> = counts.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let steps = ["1/5", "2/5", "3/5", "4/5"]
        .iter()
        .filter(|step| between.contains(*step))
        .count();
    assert!(steps >= 2, "it was seen to move: {counts}");
    shows(desk, "the set is ready again", ROW, |found| found == "Ready").await;
    block_in_place(|| desk.prefer("light")).unwrap();
    keep(desk, "desk-light");
    is_calm(desk, "the list");
}

/// The page of the workload: Pods, history, and the reason why it waits.
async fn tells_all_of_a_workload(desk: &Browser<'_>, sets: &Api<DynamicObject>) {
    run(
        desk,
        "document.querySelector('tr[data-key$=\"/web/CloneSet\"] a').click()",
    );
    let cells = "return document.querySelectorAll('#pods > li[data-updated=true]').length";
    shows(desk, "its Pods are there", cells, |found| *found == json!(5)).await;
    let history = "return document.getElementById('history').innerText";
    let shown = shows(desk, "its history is there", history, |found| {
        let text = found.as_str().unwrap_or_default();
        text.contains("nginx:1.25") && text.contains("nginx:1.26")
    })
    .await;
    assert!(shown.as_str().unwrap().contains("containers[main].image"), "{shown}");
    let paused = json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": true}}}});
    sets.patch("web", &PatchParams::default(), &Patch::Merge(&paused))
        .await
        .unwrap();
    updated(sets, "nginx:1.27").await;
    let why = "return document.getElementById('why').parentElement.innerText.toLowerCase()";
    shows(desk, "the reason is told", why, |found| {
        found.as_str().unwrap_or_default().contains("paused")
    })
    .await;
    let all = "return document.documentElement.innerHTML";
    let text = run(desk, all);
    assert!(!text.as_str().unwrap().contains("hunter2"), "no values of variables");
    usable(desk, "the page of a workload");
    is_calm(desk, "the page of a workload");
}

/// A phone in the dark, with another tab's login of its own.
async fn fits_a_phone(phone: &Browser<'_>, token: &str) {
    block_in_place(|| phone.prefer("dark")).unwrap();
    usable(phone, "the login on a phone");
    log_in(phone, token).await;
    shows(phone, "the pause is seen", ROW, |found| found == "Paused").await;
    usable(phone, "the list on a phone");
    let search = |words: &str| {
        let words = json!(words);
        format!(
            "const field = document.getElementById('search'); field.value = {words}; field.dispatchEvent(new Event('input')); \
             return [...document.querySelectorAll('tbody tr')].filter((row) => row.offsetHeight > 0).length;"
        )
    };
    assert_eq!(run(phone, &search("nothing like it")), 0, "what is looked for");
    assert_ne!(run(phone, &search("")), 0, "all");
    run(
        phone,
        "document.querySelector('tr[data-key$=\"/web/CloneSet\"] a').click()",
    );
    shows(
        phone,
        "its Pods are there",
        "return document.querySelectorAll('#pods > li').length",
        |found| *found == json!(5),
    )
    .await;
    usable(phone, "the page of a workload on a phone");
    keep(phone, "phone-dark");
    for place in ["#/budgets", "#/images"] {
        run(phone, &format!("location.hash = {}", json!(place)));
        let there = format!(
            "return document.querySelector('nav [aria-current]')?.hash === {}",
            json!(place)
        );
        shows(phone, place, &there, |found| *found == json!(true)).await;
        usable(phone, place);
    }
    is_calm(phone, "a phone");
    // A token that is none is told, and forgotten.
    run(
        phone,
        "sessionStorage.setItem('kruise-token', 'nonsense'); location.reload()",
    );
    shows(
        phone,
        "the login says so",
        "return document.querySelector('[role=alert]')?.textContent",
        |found| found.as_str().unwrap_or_default().contains("token"),
    )
    .await;
}

#[test]
fn given_a_rollout_then_it_is_seen_to_move_on_a_desk_and_on_a_phone() {
    run_test(Duration::from_mins(8), async {
        let world = World::new("rollout-page").await;
        let port = free_port();
        let replica = world.start_with(&Faults::new(1), &[&format!("--ui-addr=127.0.0.1:{port}")]);
        world.publish(&replica).await;
        replica.leads().await;
        world.all_trust().await;
        let options = SimOptions {
            count: 2,
            name_prefix: "rollout-page".to_owned(),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let token = reader(&world.work, "all").await;
        let binding = may_do_all(&world.client, &world.work, "all").await;
        let sets = world.objects("v1beta1", "CloneSet");
        let mut set = cloneset("web").replicas(5).json();
        set["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "podUpdatePolicy": "InPlaceIfPossible"}});
        // Slow enough to be watched.
        set["spec"]["template"]["metadata"]["annotations"] = json!({"sim.kruise.test/pull-delay": "700ms"});
        set["spec"]["template"]["spec"]["containers"] =
            json!([{"name": "main", "image": "nginx:1.25", "env": [{"name": "PASSWORD", "value": "hunter2"}]}]);
        let params = PostParams::default();
        sets.create(&params, &serde_json::from_value(set).unwrap())
            .await
            .unwrap();

        let driver = block_in_place(Driver::start).unwrap();
        let address = format!("http://127.0.0.1:{port}/");
        let desk = block_in_place(|| driver.visit(&address, Screen::Desk)).unwrap();
        log_in(&desk, &token).await;
        moves_in_the_list(&desk, &sets).await;
        tells_all_of_a_workload(&desk, &sets).await;
        let phone = block_in_place(|| driver.visit(&address, Screen::Phone)).unwrap();
        fits_a_phone(&phone, &token).await;
        drop((desk, phone));
        block_in_place(|| drop(driver));
        drop(binding);
        nodes.stop().await.unwrap();
        world.stop(replica).await;
    });
}
