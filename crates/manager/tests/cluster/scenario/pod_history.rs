//! Everything that happened to the Pods of a set, not only what a question happened to see.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::watch::{self, Event};
use kube::{Api, ResourceExt as _};
use tokio::{sync::oneshot, task::JoinHandle};

/// The living Pods by name.
pub(crate) type PodsByName = BTreeMap<String, Pod>;

/// Is being recorded.
pub(crate) struct PodHistory {
    states: Arc<Mutex<Vec<PodsByName>>>,
    task: JoinHandle<()>,
}

impl PodHistory {
    /// Begins with what is there when this returns.
    pub(crate) async fn begin(pods: Api<Pod>, set: &str) -> Self {
        let states: Arc<Mutex<Vec<PodsByName>>> = Arc::default();
        let (tell, begun) = oneshot::channel();
        let events = watch::events_labelled(pods, &format!("app={set}"));
        let seen = states.clone();
        let task = tokio::spawn(async move {
            let mut tell = Some(tell);
            let mut now = PodsByName::new();
            pin_mut!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => now.clear(),
                    Ok(Event::InitDone) => drop(tell.take().map(|tell| tell.send(()))),
                    Ok(Event::InitApply(pod) | Event::Apply(pod)) if pod.metadata.deletion_timestamp.is_none() => {
                        now.insert(pod.name_any(), pod);
                    }
                    Ok(Event::InitApply(pod) | Event::Apply(pod) | Event::Delete(pod)) => {
                        now.remove(&pod.name_any());
                    }
                    Err(_) => {}
                }
                if tell.is_none() {
                    seen.lock().unwrap().push(now.clone());
                }
            }
        });
        begun.await.unwrap();
        Self { states, task }
    }

    pub(crate) async fn end(self) -> Vec<PodsByName> {
        self.task.abort();
        let _ = self.task.await;
        std::mem::take(&mut *self.states.lock().unwrap())
    }
}
