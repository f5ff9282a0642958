//! The API server has objects converted by us.

use std::time::Duration;

use kruise_testkit::{
    builders::{Fixture as _, cloneset},
    eventually::{NotYet, eventually, run_test},
};
use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::installation::{Installation, PATIENCE};

#[test]
fn given_an_object_of_the_older_version_then_it_is_read_and_written_in_either() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("conversion").await;
        let manager = installation.start().await;
        let older = installation.objects("v1alpha1", "CloneSet", "clonesets");
        let newer = installation.objects("v1beta1", "CloneSet", "clonesets");
        let web = cloneset("web")
            .replicas(0)
            .image("nginx:1.25")
            .set("/apiVersion", "apps.kruise.io/v1alpha1")
            .set(
                "/spec/updateStrategy",
                json!({"type": "InPlaceIfPossible", "partition": "50%"}),
            )
            .set("/spec/template/spec/containers/0/novelField", json!({"kept": true}))
            .json();
        // The API server learns of the conversion a moment after the CRD has it.
        eventually(PATIENCE, "it is created", || async {
            older
                .create(&PostParams::default(), &serde_json::from_value(web.clone()).unwrap())
                .await?;
            Ok(())
        })
        .await;
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {
            "podUpdatePolicy": "InPlaceIfPossible", "partition": "50%",
            // Written by the webhook, in the older version, before the conversion.
            "maxUnavailable": "20%", "maxSurge": 0, "inPlaceUpdateStrategy": {},
        }});
        let web = newer.get("web").await.unwrap();
        assert_eq!(web.data["spec"]["updateStrategy"], strategy);
        assert_eq!(
            web.data["spec"]["template"]["spec"]["containers"][0]["novelField"]["kept"],
            true
        );
        let back = older.list(&ListParams::default()).await.unwrap().items.remove(0);
        assert_eq!(back.data["spec"]["updateStrategy"]["type"], "InPlaceIfPossible");
        manager.stop().await;

        // Nobody answers now; the next one who comes makes it whole.
        assert!(older.get("web").await.is_err());
        let manager = installation.start().await;
        eventually(PATIENCE, "it can be read again", || async {
            let web = older.get("web").await?;
            (web.data["spec"]["replicas"] == 0)
                .then_some(())
                .ok_or_else(|| NotYet::new("odd"))
        })
        .await;
        manager.stop().await;
    });
}
