//! Lists in a model of a cluster.

use kruise_api::imagelistpulljob::v1beta1::ImageListPullJob;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;

use super::*;
use crate::plan::harness::Cluster;

struct World {
    cluster: Cluster,
    seed: u64,
}

impl World {
    fn new(spec: &Value) -> Self {
        let mut cluster = Cluster::at("2026-05-01T10:00:00Z".parse().unwrap());
        let list = json!({"metadata": {"name": "list", "namespace": "shop"}, "spec": spec});
        cluster.put(ImageListPullJob::RESOURCE, list);
        Self { cluster, seed: 0 }
    }

    fn round(&mut self) -> Plan {
        let list = self.cluster.get(ImageListPullJob::RESOURCE, "list").unwrap();
        let observed = Observed {
            list: Arc::new(serde_json::from_value(list.clone()).unwrap()),
            jobs: self
                .cluster
                .all(ImagePullJob::RESOURCE)
                .map(|job| Arc::new(serde_json::from_value(job.clone()).unwrap()))
                .collect(),
        };
        self.seed += 1;
        let env = Env {
            ids: IdSource::seeded(self.seed),
            ..Env::at(self.cluster.now)
        };
        let plan = plan(&observed, &env);
        assert_eq!(self.cluster.apply(&plan, usize::MAX).failures, [], "{plan:#?}");
        plan
    }

    fn jobs(&self) -> BTreeMap<String, Value> {
        let all = self.cluster.all(ImagePullJob::RESOURCE);
        all.map(|job| (job["spec"]["image"].as_str().unwrap().to_owned(), job.clone()))
            .collect()
    }

    fn answer(&mut self, image: &str, status: &Value) {
        let name = self.jobs()[image]["metadata"]["name"].as_str().unwrap().to_owned();
        let mut full = json!({"startTime": "2026-05-01T10:00:00Z"});
        full.as_object_mut()
            .unwrap()
            .extend(status.as_object().unwrap().clone());
        self.cluster
            .edit(ImagePullJob::RESOURCE, &name, |job| job["status"] = full);
    }

    fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(ImageListPullJob::RESOURCE, "list", change);
    }

    fn status(&self) -> Value {
        self.cluster.get(ImageListPullJob::RESOURCE, "list").unwrap()["status"].clone()
    }
}

fn two() -> Value {
    json!({"images": ["busybox:1.33", "busybox:1.34"], "completionPolicy": {"type": "Always"}, "parallelism": 3})
}

#[test]
fn given_two_images_then_two_jobs_pull_them_and_the_list_is_done_with_them() {
    let mut world = World::new(&two());
    let plan = world.round();
    let jobs = world.jobs();
    assert_eq!(jobs.len(), 2);
    let job = &jobs["busybox:1.33"];
    let list = world.cluster.get(ImageListPullJob::RESOURCE, "list").unwrap();
    assert!(job["metadata"]["name"].as_str().unwrap().starts_with("list-"));
    assert_eq!(job["metadata"]["labels"], list["metadata"]["labels"]);
    assert_eq!(
        job["spec"],
        json!({"image": "busybox:1.33", "completionPolicy": {"type": "Always"}, "parallelism": 3})
    );
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&json!("ImageListPullJob"), &list["metadata"]["uid"], &json!(true))
    );
    let events: Vec<_> = plan
        .actions
        .iter()
        .flat_map(|step| &step.chains)
        .flat_map(|chain| &chain.writes)
        .flat_map(|write| write.succeeded.clone())
        .collect();
    assert_eq!(
        events,
        [Event::normal("Successful create ImagePullJob", "Create 2 ImagePullJob")]
    );
    assert_eq!(
        world.status(),
        json!({"startTime": "2026-05-01T10:00:00Z", "desired": 2, "active": 0, "completed": 0, "succeeded": 0})
    );

    world.answer(
        "busybox:1.33",
        &json!({"desired": 3, "active": 2, "succeeded": 1, "failed": 0}),
    );
    world.answer(
        "busybox:1.34",
        &json!({"desired": 3, "active": 0, "succeeded": 2, "failed": 1}),
    );
    world.round();
    let status = world.status();
    assert_eq!(
        (&status["active"], &status["completed"], &status["succeeded"]),
        (&json!(1), &json!(1), &json!(0))
    );
    let name = world.jobs()["busybox:1.34"]["metadata"]["name"].clone();
    assert_eq!(
        status["failedImageStatuses"],
        json!([{
            "imagePullJob": name, "name": "busybox:1.34",
            "message": format!("Please check for details which nodes failed by 'kubectl get ImagePullJob {}'.", name.as_str().unwrap()),
        }])
    );
    world.answer(
        "busybox:1.33",
        &json!({"desired": 3, "succeeded": 3, "failed": 0, "active": 0}),
    );
    world.round();
    assert_eq!(world.status()["completionTime"], "2026-05-01T10:00:00Z");
    assert!(world.round().is_idle());
}

#[test]
fn given_changes_then_jobs_come_go_and_are_made_anew() {
    let mut world = World::new(&two());
    world.round();
    let first = world.jobs();
    world.edit(|list| list["spec"]["images"] = json!(["busybox:1.34", "nginx:1"]));
    world.round();
    let second = world.jobs();
    assert_eq!(second.keys().collect::<Vec<_>>(), ["busybox:1.34", "nginx:1"]);
    assert_eq!(
        first["busybox:1.34"]["metadata"]["uid"],
        second["busybox:1.34"]["metadata"]["uid"]
    );
    world.edit(|list| list["spec"]["parallelism"] = json!(1));
    world.round();
    let third = world.jobs();
    assert_eq!(third.len(), 2);
    for (image, job) in &third {
        assert_eq!(job["spec"]["parallelism"], 1);
        assert_ne!(job["metadata"]["uid"], second[image]["metadata"]["uid"], "made anew");
    }
    let name = third["nginx:1"]["metadata"]["name"].as_str().unwrap().to_owned();
    world.cluster.objects.remove(&(ImagePullJob::RESOURCE, name));
    world.round();
    assert_eq!(world.jobs().len(), 2, "one that is gone comes back");
}

#[test]
fn given_jobs_of_another_release_that_say_the_same_then_they_are_only_labelled() {
    let mut world = World::new(&two());
    world.round();
    let before = world.jobs();
    for job in before.values() {
        let name = job["metadata"]["name"].as_str().unwrap();
        world.cluster.edit(ImagePullJob::RESOURCE, name, |job| {
            job["metadata"]["labels"]["controller-revision-hash"] = json!("6d5677fd69");
            job["spec"]["imagePullPolicy"] = json!("IfNotPresent");
            job["spec"]["pullPolicy"] = json!({"timeoutSeconds": 600, "backoffLimit": 3});
        });
    }
    world.round();
    for (image, job) in world.jobs() {
        assert_eq!(job["metadata"]["uid"], before[&image]["metadata"]["uid"]);
        assert_eq!(job["metadata"]["labels"], before[&image]["metadata"]["labels"]);
    }
    assert!(world.round().is_idle());
}

#[test]
fn given_an_end_then_the_list_goes_after_its_time_and_never_ends_when_told_so() {
    let mut spec = two();
    spec["completionPolicy"] = json!({"type": "Always", "ttlSecondsAfterFinished": 7});
    let mut world = World::new(&spec);
    world.round();
    for image in ["busybox:1.33", "busybox:1.34"] {
        world.answer(image, &json!({"desired": 0, "succeeded": 0, "failed": 0, "active": 0}));
    }
    world.round();
    assert_eq!(world.round().wake_after, Some(std::time::Duration::from_secs(7)));
    world.cluster.pass(7);
    world.round();
    assert!(world.cluster.get(ImageListPullJob::RESOURCE, "list").is_none());

    let mut spec = two();
    spec["completionPolicy"] = json!({"type": "Never"});
    let mut world = World::new(&spec);
    world.round();
    for image in ["busybox:1.33", "busybox:1.34"] {
        world.answer(image, &json!({"desired": 1, "succeeded": 1, "failed": 0, "active": 0}));
    }
    world.round();
    assert_eq!(world.status()["succeeded"], 2);
    assert!(world.status()["completionTime"].is_null());
}
