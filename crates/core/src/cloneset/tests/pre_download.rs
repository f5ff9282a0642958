//! Images pulled ahead of an update, from the outside.

use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::gates::Gate;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::revision::ControllerRevision;
use serde_json::json;

use super::super::world::World;
use crate::plan::harness::name_of;

fn world(replicas: i32) -> World {
    let mut world = World::new(&json!({ "replicas": replicas }));
    world.env.gates = world.env.gates.with(Gate::PreDownloadImageForInPlaceUpdate, true);
    world.env.settings.image_pull_jobs = true;
    world.run();
    world
}

fn jobs(world: &World) -> Vec<String> {
    world.cluster.all(ImagePullJob::RESOURCE).map(name_of).collect()
}

fn label(world: &World, key: &str) -> bool {
    let name = world.status("updateRevision");
    let revision = world
        .cluster
        .get(ControllerRevision::RESOURCE, name.as_str().unwrap())
        .unwrap();
    revision["metadata"]["labels"].get(key).is_some()
}

#[test]
fn given_a_rollout_in_steps_then_there_is_a_job_until_it_is_over() {
    let mut world = world(5);
    world.image("nginx:2");
    world.round();
    let plan = world.round();
    assert_eq!(
        jobs(&world),
        [format!("{}-main", world.status("updateRevision").as_str().unwrap())]
    );
    assert!(label(&world, "apps.kruise.io/pre-predownload-created"));
    let told = plan.actions[0].chains[0].writes[0].succeeded.first().unwrap();
    assert!(
        told.message.ends_with("for image: nginx:2") && told.reason == "CreatedImagePullJob",
        "{told:?}"
    );
    world.run();
    assert_eq!(
        (jobs(&world), world.images()),
        (Vec::<String>::new(), vec!["nginx:2".to_owned(); 5])
    );
}

#[test]
fn given_few_replicas_then_it_is_not_worth_it() {
    let mut world = world(3);
    world.image("nginx:2");
    world.round();
    world.round();
    assert_eq!(jobs(&world), Vec::<String>::new());
    assert!(label(&world, "apps.kruise.io/image-predownload-ignored"));
}

#[test]
fn given_a_share_of_updated_pods_in_the_annotation_then_it_is_waited_for() {
    let mut world = world(5);
    world.cluster.edit(CloneSet::RESOURCE, "web", |set| {
        set["metadata"]["annotations"]["apps.kruise.io/image-predownload-min-updated-ready-pods"] = json!("30%");
    });
    world.image("nginx:2");
    let updated = |world: &World| world.images().iter().filter(|image| *image == "nginx:2").count();
    while jobs(&world).is_empty() {
        assert!(updated(&world) < 5, "no job was made");
        world.round();
        world.cluster.settle();
    }
    assert!(updated(&world) >= 2, "30% of five, rounded up");
}
