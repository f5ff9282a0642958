//! What the fake runtime knows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Ends;
use crate::runtime::{Credentials, Executed};
use crate::wire;

/// Images, registry, containers, and what was asked.
#[derive(Debug)]
pub struct World {
    /// The runtime's name.
    pub name: String,
    /// Images that the node has: reference to ID.
    pub images: BTreeMap<String, String>,
    /// What can be pulled, by the reference that is sent.
    pub registry: BTreeMap<String, Pullable>,
    /// Namespace and name of Pods, by UID, as far as a test has told.
    pub pods: BTreeMap<String, (String, String)>,
    /// All containers ever, in the order of their making.
    pub containers: Vec<FakeContainer>,
    /// What commands print, by their first word; any other succeeds and prints nothing.
    pub commands: BTreeMap<String, Executed>,
    /// Commands that no container has, by their first word.
    pub missing: BTreeSet<String>,
    /// Whether stopped containers come back.
    pub kubelet: bool,
    /// Address of all Pods.
    pub pod_address: String,
    /// Pulls under way, and the most that ever were.
    pub pulling: (usize, usize),
    /// Commands under way, by container and words.
    pub executing: BTreeMap<String, usize>,
    /// The most that one command ever was under way in one container.
    pub most_at_once: usize,
    /// Everything that was asked.
    pub calls: Vec<Called>,
    pub(super) script: BTreeMap<String, VecDeque<Ends>>,
    made: i64,
}

/// An image in the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pullable {
    /// Who may pull; everybody when not given.
    pub only: Option<Credentials>,
    /// Whether the registry never comes to an end.
    pub stuck: bool,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeContainer {
    pub id: String,
    pub name: String,
    pub pod_uid: String,
    /// Whether it runs.
    pub running: bool,
    /// Nanoseconds since 1970.
    pub created_at: i64,
    /// As the kubelet counts.
    pub restart_count: i32,
    /// Labels of the kubelet.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the kubelet.
    pub annotations: BTreeMap<String, String>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// Its name.
    pub call: &'static str,
    /// The image, container or command that it was about.
    pub about: String,
    /// Who asked for an image.
    pub credentials: Option<Credentials>,
    /// Annotations of the sandbox for which an image is pulled.
    pub annotations: BTreeMap<String, String>,
    /// Seconds that it was given.
    pub timeout: i64,
    /// Whether the caller gave up.
    pub given_up: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            name: "containerd".to_owned(),
            images: BTreeMap::new(),
            registry: BTreeMap::new(),
            pods: BTreeMap::new(),
            containers: Vec::new(),
            commands: BTreeMap::new(),
            missing: BTreeSet::new(),
            kubelet: true,
            pod_address: "127.0.0.1".to_owned(),
            pulling: (0, 0),
            executing: BTreeMap::new(),
            most_at_once: 0,
            calls: Vec::new(),
            script: BTreeMap::new(),
            made: 0,
        }
    }
}

impl World {
    /// A container begins to run, as the kubelet would start it. Gives its ID.
    pub fn run(&mut self, pod_uid: &str, name: &str, annotations: &[(&str, &str)]) -> String {
        let restart_count = self.of(pod_uid, name).map_or(0, |before| before.restart_count + 1);
        self.made += 1;
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as i64);
        let id = format!("{name}-{}", self.made);
        let (namespace, pod) = self.pods.get(pod_uid).cloned().unwrap_or_default();
        let labels = [
            ("io.kubernetes.pod.uid", pod_uid),
            ("io.kubernetes.pod.namespace", &namespace),
            ("io.kubernetes.pod.name", &pod),
            ("io.kubernetes.container.name", name),
        ];
        self.containers.push(FakeContainer {
            id: id.clone(),
            name: name.to_owned(),
            pod_uid: pod_uid.to_owned(),
            running: true,
            created_at: now + self.made,
            restart_count,
            labels: owned(&labels),
            annotations: owned(annotations),
        });
        id
    }

    /// The newest container of a name in a Pod.
    pub fn of(&self, pod_uid: &str, name: &str) -> Option<&FakeContainer> {
        let mut newest = self.containers.iter().rev();
        newest.find(|container| container.pod_uid == pod_uid && container.name == name)
    }

    /// A container ends; with a kubelet another one takes its place.
    pub fn end(&mut self, id: &str) {
        let Some(container) = self.containers.iter_mut().find(|container| container.id == id) else {
            return;
        };
        container.running = false;
        if self.kubelet {
            let (pod_uid, name, annotations) = (
                container.pod_uid.clone(),
                container.name.clone(),
                container.annotations.clone(),
            );
            let again = self.run(&pod_uid, &name, &[]);
            if let Some(container) = self.containers.iter_mut().find(|container| container.id == again) {
                container.annotations = annotations;
            }
        }
    }
}

impl FakeContainer {
    pub(super) fn annotations(&self) -> BTreeMap<String, String> {
        let mut all = self.annotations.clone();
        all.insert(
            "io.kubernetes.container.restartCount".to_owned(),
            self.restart_count.to_string(),
        );
        all
    }

    pub(super) fn state(&self) -> wire::ContainerState {
        if self.running {
            wire::ContainerState::ContainerRunning
        } else {
            wire::ContainerState::ContainerExited
        }
    }
}

fn owned(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    owned.collect()
}
