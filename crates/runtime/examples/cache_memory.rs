//! How much memory a cached Pod takes, and how fast events pass from the cache into a queue. Run by hand:
//!
//! ```sh
//! cargo run --release -p kruise-runtime --example cache_memory -- 100000
//! ```
//!
//! The Pods are synthetic but of the usual size: two containers, an owner, labels, annotations of a CNI plugin, five conditions,
//! managed fields. They are read from JSON as they come from the API server, in pages, with the projection that the manager uses.

use std::time::{Duration, Instant};

use kruise_api::pod::Pod;
use kruise_runtime::cache::{Change, Index, Kind, Store, uid_key};
use kruise_runtime::controller::priority;
use kruise_runtime::queue::{Limits, Queue, QueueMetrics};
use kruise_runtime::resource::ObjectKey;
use prometheus::Registry;

// As in the manager.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const BY_NODE: Index<Pod> = Index::new("node", |pod, key| {
    if !pod.spec.node_name.is_empty() {
        key(&pod.spec.node_name);
    }
});
const BY_OWNER: Index<Pod> = Index::new("owner", |pod, key| {
    for owner in &pod.metadata.owner_references.0 {
        uid_key(&owner.uid, key);
    }
});
const BY_NAMESPACE: Index<Pod> = Index::new("namespace", |pod, key| key(&pod.metadata.namespace));

const PAGE: usize = 250;

fn main() {
    let pods: usize = std::env::args()
        .nth(1)
        .map_or(10_000, |text| text.parse().expect("a number of Pods"));
    let kind = Kind::<Pod>::of();
    let store: Store<Pod> = Store::new(kind.index(&BY_NODE).index(&BY_OWNER).index(&BY_NAMESPACE));
    println!("one Pod is {} bytes of JSON", json(0, 1).len());

    // What the process itself takes, with one page read and dropped again.
    drop(page(0, 1));
    let before = settled_memory();
    let begin = Instant::now();
    list(&store, pods, 1);
    let took = begin.elapsed();
    let peak = memory();
    let after = settled_memory();
    assert_eq!(store.len(), pods);
    report("listed", after - before, pods);
    println!(
        "  {took:?}, {:.0} Pods/s incl. making the JSON; {} KB more right after",
        rate(pods, took),
        (peak - after) / 1024
    );

    list(&store, pods, 2);
    let again = settled_memory();
    report("listed again, every Pod changed", again - before, pods);

    events(&store, pods);
    report("after one event for each", settled_memory() - before, pods);
}

fn list(store: &Store<Pod>, pods: usize, version: usize) {
    store.feed(Change::ListBegins);
    for begin in (0..pods).step_by(PAGE) {
        for pod in page(begin, version).into_iter().take(pods - begin) {
            store.feed(Change::Listed(pod));
        }
    }
    store.feed(Change::ListEnds);
}

/// A page of Pods, read from JSON.
fn page(begin: usize, version: usize) -> Vec<Pod> {
    let texts: Vec<_> = (begin..begin + PAGE).map(|number| json(number, version)).collect();
    texts
        .iter()
        .map(|text| serde_json::from_str(text).expect("a Pod"))
        .collect()
}

/// One event for each Pod, from its JSON through the cache into the queue and out again.
fn events(store: &Store<Pod>, pods: usize) {
    let metrics = QueueMetrics::new(&Registry::new()).expect("metrics");
    let queue = Queue::new("bench", Limits::default(), &metrics);
    let into = queue.clone();
    store.subscribe(move |event| {
        if let Some(owner) = event.latest().and_then(|pod| pod.metadata.controller()) {
            into.add(ObjectKey::new("n", &owner.name), priority(event));
        }
    });
    let mut reading = Duration::ZERO;
    let begin = Instant::now();
    let mut making = Duration::ZERO;
    for number in 0..pods {
        let make = Instant::now();
        let text = json(number, 3);
        let read = Instant::now();
        making += read - make;
        let pod = serde_json::from_str(&text).expect("a Pod");
        reading += read.elapsed();
        store.feed(Change::Applied(pod));
    }
    let took = begin.elapsed().saturating_sub(making);
    println!(
        "{:.0} events/s from JSON to queue ({:.0}/s without reading the JSON), {} keys wait",
        rate(pods, took),
        rate(pods, took.saturating_sub(reading)),
        queue.len()
    );
}

fn rate(number: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(number).expect("fewer Pods than that")) / took.as_secs_f64()
}

fn report(what: &str, bytes: usize, pods: usize) {
    println!(
        "{what}: {} KB resident, {} bytes for each of {pods} Pods",
        bytes / 1024,
        bytes / pods
    );
}

/// Resident memory once the allocator has given back what is free.
fn settled_memory() -> usize {
    // The allocator gives back as time passes, and looks at the time only now and then when it is used, as a living manager does.
    let mut last = memory();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(250));
        for size in (16..1 << 15).step_by(16) {
            drop(std::hint::black_box(vec![0_u8; size]));
        }
        let now = memory();
        last = last.min(now);
    }
    last
}

fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("resident memory");
    let kilobytes: usize = line
        .split_whitespace()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .expect("a number");
    kilobytes * 1024
}

/// A Pod as the API server writes it.
fn json(number: usize, version: usize) -> String {
    let owner = number / 20;
    let template = owner % 200;
    let (namespace, node) = (owner % 50, number % 1000);
    let uid = format!("{number:08x}-1111-4222-8333-{:012x}", number * 7919);
    let id = |container: usize| {
        format!(
            "containerd://{:064x}",
            number as u128 * 0x9e37_79b9_7f4a_7c15 + container as u128
        )
    };
    let digest = format!(
        "registry.example.com/team-{}/app-{template}@sha256:{template:064x}",
        template % 20
    );
    let time = format!(
        "2024-05-{:02}T{:02}:{:02}:{:02}Z",
        number % 28 + 1,
        number % 24,
        number % 60,
        number / 60 % 60
    );
    let ip = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
    let condition = |kind: &str| {
        format!(
            r#"{{"type":"{kind}","status":"True","observedGeneration":1,"lastProbeTime":null,"lastTransitionTime":"{time}"}}"#
        )
    };
    let conditions = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    .map(condition);
    let container = |name: &str| {
        format!(
            r#"{{"name":"{name}","image":"registry.example.com/team-{}/app-{template}:v1.{}","command":["/bin/app","--config=/etc/app/config.yaml"],
            "env":[{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}},{{"name":"MODE","value":"production"}}],
            "ports":[{{"containerPort":8080,"protocol":"TCP"}}],"resources":{{"limits":{{"cpu":"2","memory":"2Gi"}},"requests":{{"cpu":"100m","memory":"256Mi"}}}},
            "volumeMounts":[{{"name":"config","mountPath":"/etc/app"}},{{"name":"kube-api-access-x2x4z","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],
            "livenessProbe":{{"httpGet":{{"path":"/healthz","port":8080,"scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10}},
            "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}"#,
            template % 20,
            template % 7
        )
    };
    let status = |name: &str, container: usize| {
        format!(
            r#"{{"name":"{name}","state":{{"running":{{"startedAt":"{time}"}}}},"lastState":{{}},"ready":true,"restartCount":0,
            "image":"registry.example.com/team-{}/app-{template}:v1.{}","imageID":"{digest}","containerID":"{}","started":true}}"#,
            template % 20,
            template % 7,
            id(container)
        )
    };
    let managed = managed_fields(&uid, &time);
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"app-{owner}-{:05x}","generateName":"app-{owner}-","namespace":"team-{namespace}","uid":"{uid}",
        "resourceVersion":"{}","generation":1,"creationTimestamp":"{time}",
        "labels":{{"app.kubernetes.io/name":"app-{template}","app.kubernetes.io/instance":"app-{owner}","controller-revision-hash":"app-{owner}-6c9f8d7b5f","apps.kruise.io/cloneset-instance-id":"{:05x}","tier":"backend","version":"v1"}},
        "annotations":{{"cni.projectcalico.org/containerID":"{number:064x}","cni.projectcalico.org/podIP":"{ip}/32","cni.projectcalico.org/podIPs":"{ip}/32","prometheus.io/scrape":"true"}},
        "ownerReferences":[{{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","name":"app-{owner}","uid":"{owner:08x}-aaaa-4bbb-8ccc-{owner:012x}","controller":true,"blockOwnerDeletion":true}}],
        "managedFields":[{managed}]}},
        "spec":{{"volumes":[{{"name":"config","configMap":{{"name":"app-{template}","defaultMode":420}}}},{{"name":"kube-api-access-x2x4z","projected":{{"sources":[],"defaultMode":420}}}}],
        "containers":[{},{}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"app","nodeName":"node-{node:04}","securityContext":{{}},"schedulerName":"default-scheduler",
        "tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],
        "readinessGates":[{{"conditionType":"InPlaceUpdateReady"}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},
        "status":{{"observedGeneration":1,"phase":"Running","conditions":[{}],"hostIP":"192.168.{}.{}","hostIPs":[{{"ip":"192.168.0.1"}}],"podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"startTime":"{time}",
        "containerStatuses":[{},{}],"qosClass":"Burstable"}}}}"#,
        number & 0xf_ffff,
        1_000_000 * version + number,
        number & 0xf_ffff,
        container("app"),
        container("sidecar"),
        conditions.join(","),
        node >> 8,
        node & 255,
        status("app", 0),
        status("sidecar", 1),
    )
}

/// What the server keeps for itself, about a third of a Pod.
fn managed_fields(uid: &str, time: &str) -> String {
    let entry = |manager: &str, fields: &str| {
        format!(
            r#"{{"manager":"{manager}","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{{fields}}}}}"#
        )
    };
    let spec = r#""f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:command":{},"f:env":{".":{},"k:{\"name\":\"POD_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{".":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{},"f:timeoutSeconds":{}},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/app\"}":{".":{},"f:mountPath":{},"f:name":{}}}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:readinessGates":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{},"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},"f:defaultMode":{},"f:name":{}},"f:name":{}}}}"#;
    let meta = format!(
        r#""f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:tier":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{uid}\"}}":{{}}}}}}"#
    );
    let status = r#""f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:hostIPs":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.0.0.1\"}":{".":{},"f:ip":{}}},"f:startTime":{}}"#;
    [
        entry("kruise-manager", &format!("{meta},{spec}")),
        entry("kubelet", status),
    ]
    .join(",")
}
