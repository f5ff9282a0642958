//! What becomes of copies.

use super::{
    Api, Arc, DeleteParams, Distribution, FROM, HASH, NotYet, PATIENCE, Patch, PatchParams, Scenario, Stage, Value,
    eventually, fresh, included, json, scenarios, v1,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_listed_namespaces_then_each_has_a_copy_that_is_kept_as_it_should_be,
        given_an_object_of_somebody_else_then_it_is_left_alone_and_told_of_until_it_goes,
        given_two_distributions_of_one_name_then_the_first_has_it,
        given_a_secret_in_other_words_then_it_is_written_once,
        given_fewer_targets_or_none_then_copies_go,
        given_an_immutable_copy_then_the_refusal_is_told,
    ]
}

async fn given_listed_namespaces_then_each_has_a_copy_that_is_kept_as_it_should_be(stage: Arc<Stage>) {
    let (one, two) = (fresh(&stage, &[]).await, fresh(&stage, &[]).await);
    let distribution = Distribution::new(&stage);
    let made = distribution.create(&included(&[one.name(), two.name()])).await;
    let status = distribution.counts(2, 2, 0, &[]).await;
    let conditions = status["conditions"].as_array().unwrap();
    assert!(
        conditions.iter().all(|condition| condition["reason"] == "Succeeded"),
        "{status:#}"
    );
    let copy = distribution.has(one.name(), &v1()).await;
    assert_eq!(copy["metadata"]["annotations"][FROM], stage.namespace());
    let hash = copy["metadata"]["annotations"][HASH].clone();
    assert_eq!(hash.as_str().map(str::len), Some(64));
    let owner = &copy["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["controller"]),
        (&json!(made.metadata.uid), &json!(true))
    );

    let tampered = json!({"data": {"k": "tampered", "extra": "1"}, "metadata": {"labels": {"mine": "1"}}});
    distribution.edit(one.name(), tampered).await;
    let copy = distribution.has(one.name(), &v1()).await;
    assert_eq!(
        copy["metadata"]["labels"],
        json!({"x": "1", "mine": "1"}),
        "a label that somebody added stays"
    );

    distribution
        .maps(two.name())
        .delete(stage.namespace(), &DeleteParams::default())
        .await
        .unwrap();
    distribution.has(two.name(), &v1()).await;

    let new = json!({"k": "v2", "n": "new"});
    distribution.patch(json!({"resource": {"data": new}})).await;
    for namespace in [one.name(), two.name()] {
        let copy = distribution.has(namespace, &new).await;
        assert_ne!(copy["metadata"]["annotations"][HASH], hash);
    }
    distribution.delete().await;
    distribution.has_none(one.name()).await;
    distribution.has_none(two.name()).await;
}

async fn given_an_object_of_somebody_else_then_it_is_left_alone_and_told_of_until_it_goes(stage: Arc<Stage>) {
    let (one, taken) = (fresh(&stage, &[]).await, fresh(&stage, &[]).await);
    let distribution = Distribution::new(&stage);
    distribution.foreign(taken.name()).await;
    distribution.create(&included(&[one.name(), taken.name()])).await;
    distribution
        .counts(2, 1, 1, &[("ConflictOccurred", &[taken.name()])])
        .await;
    let foreign = distribution.has(taken.name(), &json!({"mine": "yes"})).await;
    assert_eq!(foreign["metadata"]["ownerReferences"], Value::Null);
    distribution
        .maps(taken.name())
        .delete(stage.namespace(), &DeleteParams::default())
        .await
        .unwrap();
    distribution.counts(2, 2, 0, &[]).await;
    distribution.has(taken.name(), &v1()).await;
    distribution.delete().await;
}

async fn given_two_distributions_of_one_name_then_the_first_has_it(stage: Arc<Stage>) {
    let one = fresh(&stage, &[]).await;
    let first = Distribution::new(&stage);
    let second = Distribution::named(&stage, &format!("{}-2", stage.namespace()));
    first.create(&included(&[one.name()])).await;
    first.counts(1, 1, 0, &[]).await;
    let other = second.resource(&json!({"k": "other"}));
    second.try_create(&other, &included(&[one.name()])).await.unwrap();
    second.counts(1, 0, 1, &[("ConflictOccurred", &[one.name()])]).await;
    first.has(one.name(), &v1()).await;
    first.delete().await;
    second.has(one.name(), &json!({"k": "other"})).await;
    second.delete().await;
}

async fn given_a_secret_in_other_words_then_it_is_written_once(stage: Arc<Stage>) {
    let one = fresh(&stage, &[]).await;
    let distribution = Distribution::new(&stage);
    let name = stage.namespace();
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"token": "abc"}});
    distribution
        .try_create(&secret, &included(&[one.name()]))
        .await
        .unwrap();
    distribution.counts(1, 1, 0, &[]).await;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = one.api();
    let copy = secrets.get(name).await.unwrap();
    assert_eq!(json!(copy)["data"], json!({"token": "YWJj"}));
    // A label is no reason to write, whatever is looked at because of it.
    let label = Patch::Merge(json!({"metadata": {"labels": {"l": "1"}}}));
    let labelled = secrets.patch(name, &PatchParams::default(), &label).await.unwrap();
    let more = fresh(&stage, &[]).await;
    distribution
        .patch(json!({"targets": included(&[one.name(), more.name()])}))
        .await;
    distribution.counts(2, 2, 0, &[]).await;
    let after = secrets.get(name).await.unwrap();
    assert_eq!(after.metadata.resource_version, labelled.metadata.resource_version);
    // One that is edited is repaired.
    let edit = Patch::Merge(json!({"stringData": {"token": "stolen"}}));
    secrets.patch(name, &PatchParams::default(), &edit).await.unwrap();
    eventually(PATIENCE, "the Secret is repaired", || async {
        let data = json!(secrets.get(name).await?)["data"].clone();
        if data == json!({"token": "YWJj"}) {
            Ok(())
        } else {
            Err(NotYet::new(format!("{data}")))
        }
    })
    .await;
    distribution.delete().await;
}

async fn given_fewer_targets_or_none_then_copies_go(stage: Arc<Stage>) {
    let (one, two) = (fresh(&stage, &[]).await, fresh(&stage, &[]).await);
    let distribution = Distribution::new(&stage);
    distribution.create(&included(&[one.name(), two.name()])).await;
    distribution.counts(2, 2, 0, &[]).await;
    distribution.patch(json!({"targets": included(&[one.name()])})).await;
    distribution.counts(1, 1, 0, &[]).await;
    distribution.has_none(two.name()).await;
    distribution.has(one.name(), &v1()).await;
    distribution
        .patch(json!({"targets": {"includedNamespaces": null}}))
        .await;
    distribution.counts(0, 0, 0, &[]).await;
    distribution.has_none(one.name()).await;
    distribution.delete().await;
}

async fn given_an_immutable_copy_then_the_refusal_is_told(stage: Arc<Stage>) {
    let one = fresh(&stage, &[]).await;
    let distribution = Distribution::new(&stage);
    let mut resource = distribution.resource(&v1());
    resource["immutable"] = json!(true);
    distribution
        .try_create(&resource, &included(&[one.name()]))
        .await
        .unwrap();
    distribution.counts(1, 1, 0, &[]).await;
    distribution.patch(json!({"resource": {"data": {"k": "v2"}}})).await;
    let status = distribution
        .counts(1, 0, 1, &[("UpdateResourceFailed", &[one.name()])])
        .await;
    let said = status["conditions"][2]["reason"].as_str().unwrap();
    assert!(said.contains("immutable"), "{said}");
    distribution.delete().await;
}
