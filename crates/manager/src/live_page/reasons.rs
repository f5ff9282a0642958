//! What holds an object back, in words: those of the planner, as `kubectl kruise explain` tells them.
//!
//! The replica that leads is asked. A plan is made anew for each question, so that an answer counts for two seconds for everybody who may know it.

use super::{access::Reader, sources::Subject};
use kruise_admission::explain::Inquiry;
use kruise_core::plan::Why;
use kruise_runtime::resource::ObjectKey;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(2);

/// Reasons, and who gave them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reasons {
    /// The replica that answered.
    answered_by: String,
    /// Whether it leads; one that does not lead does not know what came of the last writes.
    leads: bool,
    /// In whole sentences.
    sentences: Vec<String>,
    /// Writes that would be made now.
    writes: usize,
}

impl Reasons {
    /// Reads what an Explanation says.
    fn read(status: &Value) -> Self {
        let plans = status["plans"].as_object().into_iter().flatten();
        let mut reasons = Self {
            answered_by: status["answeredBy"].as_str().unwrap_or_default().to_owned(),
            leads: status["leader"] == true,
            ..Self::default()
        };
        for (_, plan) in plans {
            for why in items(&plan["why"]) {
                // A replica of a newer release may have reasons that this one does not know.
                let sentence = serde_json::from_value::<Why>(why.clone()).map(|why| why.to_string());
                reasons.sentences.push(sentence.unwrap_or_else(|_| why.to_string()));
            }
            let chains = items(&plan["actions"]).iter().flat_map(|step| items(&step["chains"]));
            reasons.writes += chains.map(|chain| items(&chain["writes"]).len()).sum::<usize>();
        }
        reasons
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

type Answers = HashMap<(String, String), (Instant, Arc<Reasons>)>;

/// Asks, and remembers for a moment.
pub(super) struct Asked {
    inquiry: Inquiry,
    lately: Mutex<Answers>,
}

impl Asked {
    pub(super) fn new(inquiry: Inquiry) -> Self {
        Self {
            inquiry,
            lately: Mutex::default(),
        }
    }

    /// Returns what holds a workload back, for somebody who may `get` it.
    pub(super) async fn about(
        &self,
        subject: &Subject,
        key: &ObjectKey,
        reader: &Reader,
    ) -> Result<Arc<Reasons>, (u16, String)> {
        // The name belongs to it, because a workload may be asked about before it has a UID.
        let remembered = (subject.uid.clone(), key.to_string());
        if let Some((at, reasons)) = self.lately.lock().get(&remembered)
            && at.elapsed() < FRESH
        {
            return Ok(reasons.clone());
        }
        let asked = self.inquiry.ask(subject.resource, key, &subject.uid, &reader.user);
        let reasons = Arc::new(Reasons::read(&asked.await?));
        let mut lately = self.lately.lock();
        lately.retain(|_, (at, _)| at.elapsed() < FRESH);
        lately.insert(remembered, (Instant::now(), reasons.clone()));
        Ok(reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_plans_then_their_reasons_are_sentences_and_what_is_not_known_is_shown_as_it_is() {
        let plan = json!({
            "why": [{"reason": "partition", "keeps": 2}, {"reason": "unheardOf"}],
            "actions": [{"chains": [{"writes": [{}, {}]}, {"writes": [{}]}]}],
        });
        let status = json!({"answeredBy": "kruise-0", "leader": true, "plans": {"cloneset-controller": plan}});
        let reasons = Reasons::read(&status);
        assert_eq!(
            (reasons.answered_by.as_str(), reasons.leads, reasons.writes),
            ("kruise-0", true, 3)
        );
        assert_eq!(reasons.sentences.len(), 2);
        assert!(
            reasons.sentences[0].contains('2') && reasons.sentences[0].ends_with('.'),
            "{reasons:?}"
        );
        assert_eq!(reasons.sentences[1], r#"{"reason":"unheardOf"}"#);
        assert_eq!(Reasons::read(&Value::Null), Reasons::default());
    }
}
