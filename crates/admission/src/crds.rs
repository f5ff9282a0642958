//! What the conversion of a CRD has to say. A CRD that converts without us is left alone.

use crate::endpoint::Endpoint;
use serde_json::{Value, json};

/// Path of the conversions.
pub(crate) const PATH: &str = "/convert";

/// Whether this CRD asks a webhook.
pub(crate) fn asks_webhook(conversion: &Value) -> bool {
    conversion.get("strategy").and_then(Value::as_str) == Some("Webhook")
}

/// The merge patch for `spec.conversion`; `None` when all is well, or it is not our business.
pub(crate) fn rewritten(conversion: &Value, endpoint: &Endpoint, ca_bundle: &str) -> Option<Value> {
    if !asks_webhook(conversion) {
        return None;
    }
    let mut wanted = endpoint.client_config(PATH, None, ca_bundle);
    if conversion.pointer("/webhook/clientConfig") == Some(&wanted) {
        return None;
    }
    // What the other way of being reached has left is to go.
    for field in ["service", "url"] {
        if wanted.get(field).is_none()
            && let Some(fields) = wanted.as_object_mut()
        {
            fields.insert(field.into(), Value::Null);
        }
    }
    Some(json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": wanted, "conversionReviewVersions": ["v1", "v1beta1"]},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Endpoint {
        Endpoint::Service {
            namespace: "ours".into(),
            name: "hooks".into(),
        }
    }

    #[test]
    fn given_a_placeholder_then_it_is_replaced_and_then_left_alone() {
        let placeholder = json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"service": {"namespace": "system", "name": "webhook-service", "path": "/convert", "port": 443}},
            "conversionReviewVersions": ["v1"],
        }});
        let patch = rewritten(&placeholder, &service(), "Q0E=").unwrap();
        let expected = json!({"namespace": "ours", "name": "hooks", "path": "/convert", "port": 443});
        assert_eq!(patch["webhook"]["clientConfig"]["service"], expected);
        assert_eq!(patch["webhook"]["clientConfig"]["caBundle"], "Q0E=");
        assert_eq!(patch["webhook"]["conversionReviewVersions"], json!(["v1", "v1beta1"]));
        let settled =
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "Q0E=", "service": expected}}});
        assert_eq!(rewritten(&settled, &service(), "Q0E="), None);
        assert!(rewritten(&settled, &service(), "TkVX").is_some());
    }

    #[test]
    fn given_a_host_then_the_service_is_taken_out() {
        let host = Endpoint::Host {
            host: "127.0.0.1".into(),
            port: 1,
        };
        let before = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {}}}});
        let config = rewritten(&before, &host, "Q0E=").unwrap()["webhook"]["clientConfig"].clone();
        assert_eq!(
            config,
            json!({"caBundle": "Q0E=", "url": "https://127.0.0.1:1/convert", "service": null})
        );
    }

    #[test]
    fn given_no_webhook_then_the_crd_is_left_alone() {
        for conversion in [json!(null), json!({}), json!({"strategy": "None"})] {
            assert_eq!(rewritten(&conversion, &service(), "Q0E="), None);
        }
    }
}
