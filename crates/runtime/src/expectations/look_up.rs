//! Asking the server for an object whose creation was not answered.
//!
//! A store in which nothing changes does not tell whether such an object is there; the server does. It is asked by name, a second after the
//! create and then every two seconds:
//!
//! - An object that is found was created. From then on the cache has to show its version, as for any other write.
//! - No object counts as "not created" five seconds after the create: until then the server may still be at it.
//! - No answer, or a refusal, says nothing. Then the cache is waited for, as without asking.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use http::Request;
use kruise_api::meta::PartialObject;
use kruise_api::resource::Resource;
use kube::Client;
use tokio::time::{Instant, timeout};

use super::{Expectations, Pending, UNSURE, Visible, Write};
use crate::resource::ObjectKey;

/// Age of a create at which it is first asked for.
const FIRST: Duration = Duration::from_secs(1);
/// Time between two questions.
const BETWEEN: Duration = Duration::from_secs(2);
/// Longest time for an answer.
const DEADLINE: Duration = Duration::from_secs(3);
/// Questions at the same time.
const AT_ONCE: usize = 8;

/// An object to ask for.
struct Question {
    resource: &'static Resource,
    object: ObjectKey,
    /// Age of the create when it was asked for.
    age: Duration,
}

impl Expectations {
    /// Returns the same as [`Expectations::check`], after asking the server for objects whose creation was not answered.
    pub async fn check_with_server(&self, key: &ObjectKey) -> Visible {
        let visible = self.check(key);
        let Some(client) = self.client.as_ref().filter(|_| visible != Visible::All) else {
            return visible;
        };
        let questions = self.questions(key);
        if questions.is_empty() {
            return visible;
        }
        let answers = stream::iter(questions).map(|question| async {
            let answer = get(client, &question).await;
            (question, answer)
        });
        let answers: Vec<_> = answers.buffer_unordered(AT_ONCE).collect().await;
        for (question, answer) in answers {
            match answer {
                Ok(found) => self.answered(key, &question, found),
                Err(why) => tracing::debug!(%key, object = %question.object, "cannot be asked for: {why}"),
            }
        }
        self.check(key)
    }

    /// What to ask for now.
    fn questions(&self, key: &ObjectKey) -> Vec<Question> {
        let mut all = self.pending.lock();
        let due = all.get_mut(key).into_iter().flatten().filter(|each| each.is_due());
        due.map(|each| {
            each.asked = Some(Instant::now());
            Question {
                resource: each.view.resource(),
                object: each.object.clone(),
                age: each.since.elapsed(),
            }
        })
        .collect()
    }

    fn answered(&self, key: &ObjectKey, question: &Question, found: Option<PartialObject>) {
        let mut all = self.pending.lock();
        let Some(pending) = all.get_mut(key) else {
            return;
        };
        let is_meant = |each: &Pending| each.is_unanswered_create() && each.object == question.object;
        match found {
            Some(found) => {
                for each in pending.iter_mut().filter(|each| is_meant(each)) {
                    each.write = Write::Created {
                        uid: found.metadata.uid.clone(),
                        version: found.metadata.resource_version,
                    };
                }
            }
            None if question.age >= UNSURE => pending.retain(|each| !is_meant(each)),
            None => {}
        }
    }
}

impl Pending {
    fn is_unanswered_create(&self) -> bool {
        matches!(self.write, Write::MaybeCreated)
    }

    fn is_due(&self) -> bool {
        let is_first_due = self.since.elapsed() >= FIRST;
        self.is_unanswered_create() && is_first_due && self.asked.is_none_or(|asked| asked.elapsed() >= BETWEEN)
    }
}

/// Returns the object, or nothing when there is none.
async fn get(client: &Client, question: &Question) -> Result<Option<PartialObject>, String> {
    let (resource, object) = (question.resource, &question.object);
    let path = format!("{}/{}", resource.path(&object.namespace), object.name);
    let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    match timeout(DEADLINE, client.request::<PartialObject>(request)).await {
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(kube::Error::Api(status))) if is_absent(&status, &object.name) => Ok(None),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {DEADLINE:?}")),
    }
}

/// An object that is not there is named in the answer. A kind that is not served is not.
fn is_absent(status: &kube::core::Status, name: &str) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use http::Response;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use parking_lot::Mutex;
    use prometheus::Registry;
    use serde_json::{Value, json};

    use super::*;
    use crate::cache::{Change, Kind, Store};
    use crate::expectations::{ASK_AGAIN, ExpectationMetrics};

    /// Expectations beside a store in which nothing changes, and a server that gives the same answer to every question.
    struct Fixture {
        store: Store<ConfigMap>,
        expectations: Expectations,
        key: ObjectKey,
        asked: Arc<Mutex<Vec<String>>>,
    }

    fn fixture(code: u16, answer: &Value) -> Fixture {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (paths, text) = (asked.clone(), answer.to_string());
        let service = tower::service_fn(move |request: Request<Body>| {
            paths
                .lock()
                .push(format!("{} {}", request.method(), request.uri().path()));
            let answer = Response::builder()
                .status(code)
                .body(Body::from(text.clone().into_bytes()));
            async { Ok::<_, Infallible>(answer.expect("an answer")) }
        });
        let store = Store::new(Kind::<ConfigMap>::of());
        store.feed(Change::ListBegins);
        store.feed(Change::ListEnds);
        let metrics = ExpectationMetrics::new(&Registry::new()).expect("metrics");
        let fixture = Fixture {
            expectations: Expectations::new("test", Duration::from_mins(5), &metrics)
                .asking(Client::new(service, "default")),
            store,
            key: ObjectKey::new("n", "owner"),
            asked,
        };
        let object = ObjectKey::new("n", "a");
        fixture
            .expectations
            .maybe_created(&fixture.key, &fixture.store, &object);
        fixture
    }

    impl Fixture {
        /// Asks as the loop of a controller does; returns after which time everything was visible.
        async fn waits(&self, longest: Duration) -> Option<Duration> {
            let began = Instant::now();
            while began.elapsed() <= longest {
                match self.expectations.check_with_server(&self.key).await {
                    Visible::All => return Some(began.elapsed()),
                    Visible::NotYet { ask_after, .. } => tokio::time::advance(ask_after).await,
                }
            }
            None
        }

        fn questions(&self) -> Vec<String> {
            self.asked.lock().clone()
        }
    }

    fn absent(name: &str) -> Value {
        json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found",
                "details": { "name": name, "kind": "configmaps" } })
    }

    #[tokio::test(start_paused = true)]
    async fn given_a_create_that_never_happened_then_the_server_says_so_within_seconds() {
        let fixture = fixture(404, &absent("a"));
        assert_eq!(fixture.waits(Duration::from_mins(2)).await, Some(UNSURE));
        assert_eq!(fixture.questions(), ["GET /api/v1/namespaces/n/configmaps/a"; 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn given_a_create_that_happened_then_the_cache_has_to_show_its_version() {
        let found = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "k": "v" },
                            "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "10" } });
        let fixture = fixture(200, &found);
        assert_eq!(fixture.waits(Duration::from_secs(30)).await, None);
        assert_eq!(fixture.questions().len(), 1, "once is enough to know");
        fixture.store.feed(Change::Reached(9));
        assert_eq!(fixture.waits(ASK_AGAIN).await, None);
        fixture.store.feed(Change::Reached(10));
        assert_eq!(fixture.waits(ASK_AGAIN).await, Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn given_no_useful_answer_then_the_cache_is_waited_for() {
        let refused = json!({ "kind": "Status", "status": "Failure", "code": 403, "message": "no right" });
        for (code, answer) in [(403, refused), (404, absent("")), (500, json!("broken"))] {
            let fixture = fixture(code, &answer);
            assert_eq!(fixture.waits(Duration::from_secs(30)).await, None, "{code}");
            assert!(fixture.questions().len() > 10, "{code}: it is asked again and again");
            fixture.store.feed(Change::Reached(1));
            assert_eq!(fixture.waits(ASK_AGAIN).await, Some(ASK_AGAIN), "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn given_a_cache_that_shows_the_object_then_the_server_is_not_asked() {
        let fixture = fixture(404, &absent("a"));
        let map = json!({ "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5" } });
        fixture
            .store
            .feed(Change::Applied(serde_json::from_value(map).expect("an object")));
        tokio::time::advance(UNSURE).await;
        assert_eq!(fixture.waits(ASK_AGAIN).await, Some(Duration::ZERO));
        assert_eq!(fixture.questions(), Vec::<String>::new());
    }
}
