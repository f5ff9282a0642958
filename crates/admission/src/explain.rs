//! `/mutate-explain-kruise-io-explanation`: what controllers would do with an object now, for everybody who may read it.
//!
//! - A question is an Explanation that is created in a dry run; the answer is in the object that comes back. Nothing is stored, as nothing is of a `SubjectAccessReview`.
//! - Who asks has to be allowed to `get` the object, which the API server is asked about, and names its UID, which only who has read it knows: the webhook server
//!   answers everybody who can connect to it.
//! - For the same reason the answer has reasons, and which objects are written, but not what is written: that is what users wrote.
//! - A question may carry the object as it is to be; then it is answered what that change would come to ([`proposal`]).
//! - Who reads the live page asks here, too ([`Inquiry`]): the page has looked whether they may see the object, and the leader looks again.
//! - Only the replica that leads knows what came of its last writes. Others pass the question on to it, once; when it does not answer they answer themselves and say so.

mod proposal;

use crate::{Context, Request, Settings, Verdict, descriptor::Descriptor, review::User};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use futures::future::BoxFuture;
use k8s_openapi::{
    api::{
        authentication::v1::UserInfo,
        authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
        core::v1::{Pod, Secret},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kruise_api::{
    kind::Kind as _,
    merge_patch::merge,
    names::{group, object::cert_key},
    registry::{KINDS, KindInfo},
    resource::{Resource, Scope},
};
use kruise_core::{json_patch::Operation, shared::validate::label::subdomain_faults};
use kruise_runtime::{
    admin::{self, NoPlan, Plans},
    error::Error,
    resource::ObjectKey,
};
use kube::{
    Api, Client, Config,
    api::{DynamicObject, PostParams},
    core::ApiResource,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};
use tokio::time::timeout;

/// Name of the resource in URLs.
pub(crate) const PLURAL: &str = "explanations";
/// Where questions come in.
pub(crate) const PATH: &str = "/mutate-explain-kruise-io-explanation";
/// What a question that was passed on says in the place of a subresource.
const PASSED_ON: &str = "passed-on";
/// How long the API server may take for one answer.
const DEADLINE: Duration = Duration::from_secs(3);
/// How long the leader may take.
const PATIENCE: Duration = Duration::from_secs(4);

/// Who leads.
pub trait Leader: Send + Sync {
    /// Whether this replica does.
    fn leads(&self) -> bool;
    /// Returns the name of this replica.
    fn name(&self) -> &str;
    /// Returns where the leader's webhook server is; nothing when nobody knows.
    fn address(&self) -> BoxFuture<'_, Option<SocketAddr>>;
}

/// What questions are answered from.
#[derive(Clone)]
pub struct Explainer {
    pub plans: Plans,
    pub leader: Arc<dyn Leader>,
}

impl fmt::Debug for Explainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explainer")
            .field("plans", &self.plans)
            .finish_non_exhaustive()
    }
}

/// The explainer, and how other replicas are reached.
#[derive(Clone, Debug)]
pub(crate) struct Explanations {
    explainer: Explainer,
    /// The name that certificates are for.
    host: String,
    /// The Secret with the CA, and its namespace.
    secret: String,
    namespace: String,
}

impl Explanations {
    pub(crate) fn new(explainer: Explainer, settings: &Settings) -> Self {
        Self {
            explainer,
            host: settings.endpoint(settings.port).host(),
            secret: settings.secret_name.clone(),
            namespace: settings.namespace.clone(),
        }
    }

    /// What controllers of this process say of an object.
    fn answer(&self, target: &Target, name: &str) -> Result<Value, Refusal> {
        let key = ObjectKey::new(&target.namespace, name);
        let plans = self.explainer.plans.of(target.resource.kind, &key);
        let plans = plans.map_err(|none| match none {
            NoPlan::Unknown(why) => (404, why),
            NoPlan::Failed(why) => (500, why),
        })?;
        let outlines: Value = plans
            .iter()
            .map(|(name, plan)| (name.clone(), admin::outline(plan)))
            .collect();
        let leader = &self.explainer.leader;
        Ok(json!({"answeredBy": leader.name(), "leader": leader.leads(), "plans": outlines}))
    }
}

/// Questions of who is known to this process and may read the object.
#[derive(Clone)]
pub struct Inquiry {
    explanations: Explanations,
    client: Client,
}

impl Inquiry {
    /// Asks through this client, as the process that has these settings.
    pub fn new(explainer: Explainer, client: Client, settings: &Settings) -> Self {
        Self {
            explanations: Explanations::new(explainer, settings),
            client,
        }
    }

    /// Returns what `status` of an Explanation has.
    ///
    /// # Errors
    ///
    /// Fails with a code and a sentence when there is no such object, and when the leader does not let this user know.
    pub async fn ask(
        &self,
        resource: &'static Resource,
        key: &ObjectKey,
        uid: &str,
        user: &UserInfo,
    ) -> Result<Value, (u16, String)> {
        if !self.explanations.explainer.leader.leads() {
            let spec = json!({"group": resource.group, "kind": resource.kind, "name": &*key.name, "uid": uid});
            let review = json!({
                "uid": uid, "operation": "CREATE", "namespace": &*key.namespace, "object": {"spec": spec},
                "userInfo": {"username": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra},
            });
            match ask_leader(&self.explanations, &self.client, review).await {
                Some(Answer::Status(status)) => return Ok(status),
                Some(Answer::Refused(code, message)) => return Err((code, message)),
                None => {}
            }
        }
        let target = Target {
            resource,
            namespace: key.namespace.to_string(),
        };
        self.explanations.answer(&target, &key.name)
    }
}

impl fmt::Debug for Inquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inquiry")
            .field("explanations", &self.explanations)
            .finish_non_exhaustive()
    }
}

/// What is asked.
#[derive(Debug, Deserialize)]
struct Question {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    name: String,
    /// Empty when there is no such object, and one is proposed.
    #[serde(default)]
    uid: String,
    /// The object as it is to be.
    #[serde(default)]
    proposed: Option<Box<RawValue>>,
}

/// Answers a question.
pub(crate) fn answer<'a>(
    request: &'a Request<'a>,
    context: &'a Context,
    _: &'static Descriptor,
) -> BoxFuture<'a, Verdict> {
    Box::pin(async move {
        match decide(request, context).await {
            Ok(verdict) => verdict,
            Err((code, reason)) => Verdict::refuse(code, reason),
        }
    })
}

type Refusal = (u16, String);

async fn decide(request: &Request<'_>, context: &Context) -> Result<Verdict, Refusal> {
    let is_passed_on = request.sub_resource == PASSED_ON;
    if request.operation != "CREATE" || !(is_passed_on || request.is_about(group::EXPLAIN, PLURAL)) {
        return Ok(Verdict::allow());
    }
    let Some(explanations) = &context.explanations else {
        return Err((501, "this process explains nothing".to_owned()));
    };
    if request.dry_run != Some(true) {
        let how = "an Explanation is never stored: create it in a dry run, for example with `kubectl create --dry-run=server`";
        return Err((400, how.to_owned()));
    }
    let (question, target) = read(request)?;
    allowed(&request.user_info, &target, context).await?;
    is_known(&question, &target, context).await?;
    if !is_passed_on && !explanations.explainer.leader.leads() {
        let User {
            username,
            uid,
            groups,
            extra,
        } = &request.user_info;
        let review = json!({
            "uid": request.uid, "operation": request.operation, "namespace": request.namespace, "object": request.object,
            "userInfo": {"username": username, "uid": uid, "groups": groups, "extra": extra},
        });
        match ask_leader(explanations, &context.client, review).await {
            Some(Answer::Status(status)) => return Ok(answered(status)),
            Some(Answer::Refused(code, message)) => return Ok(Verdict::refuse(code, message)),
            None => {}
        }
    }
    if let Some(proposed) = &question.proposed {
        let proposal = proposal::answer(explanations, &question, proposed, &target, request, context).await?;
        let leader = &explanations.explainer.leader;
        let status = json!({"answeredBy": leader.name(), "leader": leader.leads(), "proposal": proposal});
        return Ok(answered(status));
    }
    Ok(answered(explanations.answer(&target, &question.name)?))
}

/// The object that is asked about.
struct Target {
    resource: &'static Resource,
    /// Empty for objects of the cluster.
    namespace: String,
}

fn read(request: &Request<'_>) -> Result<(Question, Target), Refusal> {
    #[derive(Deserialize)]
    struct Explanation {
        spec: Question,
    }
    let text = request.object.map_or("null", |object| object.get());
    let Explanation { spec } = serde_json::from_str(text).map_err(|error| (400, error.to_string()))?;
    let resource = known(&spec).ok_or_else(|| {
        let kinds: Vec<_> = KINDS.iter().map(|kind| kind.kind).collect();
        let value = Value::from(spec.kind.clone());
        let message = format!(
            "spec.kind: Unsupported value: {value}: supported values: \"Pod\", \"{}\"",
            kinds.join("\", \"")
        );
        (422, message)
    })?;
    if !subdomain_faults(&spec.name).is_empty() {
        let value = Value::from(spec.name);
        return Err((
            422,
            format!("spec.name: Invalid value: {value}: must be the name of an object"),
        ));
    }
    let namespace = match resource.scope {
        Scope::Namespaced => request.namespace.to_string(),
        Scope::Cluster => String::new(),
    };
    Ok((spec, Target { resource, namespace }))
}

/// The kind that is meant, in the version that is stored.
fn known(question: &Question) -> Option<&'static Resource> {
    let is_meant = |kind: &str, group: &str| {
        question.kind.eq_ignore_ascii_case(kind) && question.group.as_deref().is_none_or(|asked| asked == group)
    };
    if is_meant(Pod::KIND, Pod::GROUP) {
        return Some(Pod::RESOURCE);
    }
    let info: &KindInfo = KINDS.iter().find(|info| is_meant(info.kind, info.group))?;
    let version = format!("{}/{}", info.group, info.storage()?.name);
    Some(Resource::interned(&version, info.kind, info.plural, info.scope))
}

/// Refuses who may not read the object.
async fn allowed(user: &User<'_>, target: &Target, context: &Context) -> Result<(), Refusal> {
    let Target { resource, namespace } = target;
    let attributes = ResourceAttributes {
        group: Some(resource.group.to_owned()),
        namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
        resource: Some(resource.plural.to_owned()),
        verb: Some("get".to_owned()),
        version: Some(resource.version.to_owned()),
        ..ResourceAttributes::default()
    };
    let texts = |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let spec = SubjectAccessReviewSpec {
        user: Some(user.username.to_string()),
        uid: Some(user.uid.to_string()),
        groups: texts(user.groups),
        extra: user.extra.and_then(|raw| serde_json::from_str(raw.get()).ok()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec,
        status: None,
    };
    let api: Api<SubjectAccessReview> = Api::all(context.client.clone());
    let params = PostParams::default();
    let decided = within(api.create(&params, &review)).await?;
    if decided.status.is_some_and(|status| status.allowed) {
        return Ok(());
    }
    let place = if namespace.is_empty() {
        "of the cluster".to_owned()
    } else {
        format!("in namespace {namespace}")
    };
    let Resource { plural, group, .. } = resource;
    let kind = if group.is_empty() {
        (*plural).to_owned()
    } else {
        format!("{plural}.{group}")
    };
    Err((403, format!("{} may not get {kind} {place}", user.username)))
}

/// Refuses who does not know the object.
async fn is_known(question: &Question, target: &Target, context: &Context) -> Result<(), Refusal> {
    let Target { resource, namespace } = target;
    let described = ApiResource {
        group: resource.group.to_owned(),
        version: resource.version.to_owned(),
        api_version: resource.api_version.to_owned(),
        kind: resource.kind.to_owned(),
        plural: resource.plural.to_owned(),
    };
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(context.client.clone(), &described)
    } else {
        Api::namespaced_with(context.client.clone(), namespace, &described)
    };
    let found = within(api.get_metadata_opt(&question.name)).await?;
    let name = &question.name;
    if found.is_none() && question.proposed.is_some() && question.uid.is_empty() {
        return Ok(());
    }
    let uid = found.and_then(|object| object.metadata.uid);
    if uid.is_some() && uid.as_deref() == Some(&question.uid) {
        return Ok(());
    }
    Err((
        404,
        format!("spec.uid: there is no {} {name} with this UID", resource.kind),
    ))
}

async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Refusal> {
    match timeout(DEADLINE, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err((500, Error::from(error).to_string())),
        Err(_) => Err((504, "the API server did not answer in time".to_owned())),
    }
}

/// What the leader says.
#[derive(Debug, PartialEq)]
enum Answer {
    Status(Value),
    Refused(u16, String),
}

/// Passes a question on; nothing when the leader cannot be asked. What it refuses is refused.
async fn ask_leader(explanations: &Explanations, client: &Client, review: Value) -> Option<Answer> {
    match timeout(PATIENCE, pass_on(explanations, client, review)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            tracing::debug!("the leader cannot be asked: {error:#}");
            None
        }
        Err(_) => None,
    }
}

async fn pass_on(
    explanations: &Explanations,
    client: &Client,
    mut review: Value,
) -> Result<Option<Answer>, Box<dyn std::error::Error + Send + Sync>> {
    let Some(address) = explanations.explainer.leader.address().await else {
        return Ok(None);
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &explanations.namespace);
    let secret = secrets.get(&explanations.secret).await?;
    let Some(ca) = secret.data.as_ref().and_then(|data| data.get(cert_key::CA_CERT)) else {
        return Ok(None);
    };
    let trusted: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&ca.0)
        .map(|certificate| certificate.map(|certificate| certificate.to_vec()))
        .collect();
    let mut config = Config::new(format!("https://{address}").parse()?);
    config.root_cert = Some(trusted?);
    config.tls_server_name = Some(explanations.host.clone());
    config.connect_timeout = Some(DEADLINE);
    let client = Client::try_from(config)?;
    let resource = json!({"group": group::EXPLAIN, "version": group::V1ALPHA1, "resource": PLURAL});
    merge(
        &mut review,
        &json!({"subResource": PASSED_ON, "dryRun": true, "resource": resource}),
    );
    let question = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": review});
    let post = http::Request::post(PATH).header(http::header::CONTENT_TYPE, "application/json");
    let answer: Review = client.request(post.body(question.to_string().into_bytes())?).await?;
    read_answer(answer.response)
}

/// An answer of another replica.
#[derive(Deserialize)]
struct Review {
    response: Response,
}

#[derive(Deserialize)]
struct Response {
    allowed: bool,
    status: Status,
    #[serde(default)]
    patch: String,
}

#[derive(Deserialize)]
struct Status {
    code: u16,
    #[serde(default)]
    message: String,
}

/// The one change of an answer.
#[derive(Deserialize)]
struct Change {
    value: Value,
}

/// What an answer says.
fn read_answer(response: Response) -> Result<Option<Answer>, Box<dyn std::error::Error + Send + Sync>> {
    if !response.allowed {
        return Ok(Some(Answer::Refused(response.status.code, response.status.message)));
    }
    let changes: Vec<Change> = serde_json::from_slice(&BASE64.decode(response.patch)?)?;
    Ok(changes.into_iter().next().map(|change| Answer::Status(change.value)))
}

/// The verdict that gives a question its answer.
fn answered(status: Value) -> Verdict {
    Verdict::change(vec![Operation::Add {
        path: "/status".into(),
        value: status,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kind: &str, group: Option<&str>) -> Question {
        Question {
            kind: kind.to_owned(),
            group: group.map(str::to_owned),
            name: "web".to_owned(),
            uid: String::new(),
            proposed: None,
        }
    }

    #[test]
    fn given_a_kind_then_it_is_ours_or_a_pod() {
        let plural = |kind, group| known(&question(kind, group)).map(|resource| (resource.group, resource.plural));
        assert_eq!(plural("cloneset", None), Some(("apps.kruise.io", "clonesets")));
        assert_eq!(plural("StatefulSet", None), Some(("apps.kruise.io", "statefulsets")));
        assert_eq!(plural("StatefulSet", Some("apps")), None);
        assert_eq!(plural("Pod", None), Some(("", "pods")));
        assert_eq!(plural("Secret", None), None);
    }

    #[test]
    fn given_an_answer_of_the_leader_then_it_is_ours() {
        let passed = |given: &Verdict| {
            let text = crate::review::answer("admission.k8s.io/v1", "u", given).unwrap();
            let review: Review = serde_json::from_slice(&text).unwrap();
            read_answer(review.response).unwrap().unwrap()
        };
        let status = json!({"a": 1});
        assert_eq!(passed(&answered(status.clone())), Answer::Status(status));
        let refused = passed(&Verdict::refuse(403, "no"));
        assert_eq!(refused, Answer::Refused(403, "no".to_owned()));
    }
}
