//! What a request means to the API server.

use http::Method;

/// A call, as audit logs and rights name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) verb: &'static str,
    /// `pods` or `pods/status`; the path itself for what is no resource.
    pub(super) resource: String,
}

impl Call {
    pub(super) fn of(method: &Method, path: &str, query: &str) -> Self {
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        let below = match parts.as_slice() {
            ["api", _version, rest @ ..] | ["apis", _, _version, rest @ ..] => rest,
            _ => &[],
        };
        let below = match below {
            // The namespace itself has no further part but its own.
            ["namespaces", _, rest @ ..] if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) => rest,
            other => other,
        };
        let (resource, name, part) = match below {
            [] => (path, None, None),
            [resource] => (*resource, None, None),
            [resource, name] => (*resource, Some(*name), None),
            [resource, name, part, ..] => (*resource, Some(*name), Some(*part)),
        };
        let watches = query.split('&').any(|pair| matches!(pair, "watch=1" | "watch=true"));
        let verb = match method.as_str() {
            "POST" if part == Some("eviction") => "evict",
            "POST" => "create",
            "PATCH" => "patch",
            "PUT" => "update",
            "DELETE" if name.is_none() => "deletecollection",
            "DELETE" => "delete",
            _ if watches => "watch",
            _ if name.is_none() && !below.is_empty() => "list",
            _ => "get",
        };
        let resource = match part {
            Some("eviction") | None => resource.to_owned(),
            Some(part) => format!("{resource}/{part}"),
        };
        Self { verb, resource }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_requests_then_verb_and_resource_are_those_of_the_api_server() {
        for (method, path, query, verb, resource) in [
            (Method::GET, "/api/v1/pods", "limit=5", "list", "pods"),
            (Method::GET, "/api/v1/pods", "limit=5&watch=true", "watch", "pods"),
            (Method::GET, "/api/v1/namespaces/n/pods/a", "", "get", "pods"),
            (Method::POST, "/api/v1/namespaces/n/pods", "", "create", "pods"),
            (
                Method::POST,
                "/api/v1/namespaces/n/pods/a/eviction",
                "",
                "evict",
                "pods",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/n/pods/a/status",
                "",
                "patch",
                "pods/status",
            ),
            (Method::DELETE, "/api/v1/namespaces/n/pods/a", "", "delete", "pods"),
            (
                Method::DELETE,
                "/api/v1/namespaces/n/pods",
                "",
                "deletecollection",
                "pods",
            ),
            (Method::POST, "/api/v1/namespaces", "", "create", "namespaces"),
            (Method::GET, "/api/v1/namespaces/n", "", "get", "namespaces"),
            (
                Method::PATCH,
                "/api/v1/namespaces/n/status",
                "",
                "patch",
                "namespaces/status",
            ),
            (
                Method::PUT,
                "/apis/apps.kruise.io/v1beta1/namespaces/n/clonesets/a",
                "",
                "update",
                "clonesets",
            ),
            (
                Method::GET,
                "/apis/apps.kruise.io/v1beta1/clonesets",
                "",
                "list",
                "clonesets",
            ),
            (Method::GET, "/version", "", "get", "/version"),
        ] {
            let call = Call::of(&method, path, query);
            assert_eq!(
                (call.verb, call.resource.as_str()),
                (verb, resource),
                "{method} {path}?{query}"
            );
        }
    }
}
