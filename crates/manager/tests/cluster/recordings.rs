//! CloneSets, StatefulSets and DaemonSets behave as the original did when it was recorded.
//!
//! [`replay`] does what the user did in a recording, step by step, and compares what became of the objects. [`takeover`] starts our manager on objects that the
//! original left behind: CloneSets, StatefulSets and DaemonSets.
//!
//! # What is compared
//!
//! After each step, for every object that changed: the whole sequence of states of each Pod, claim, barrier and ImagePullJob; the revisions, with their names,
//! numbers, labels and (of the first) data; generation and status of the sets; the events; how many Pods were under update and alive at the same time.
//! All feature gates are on, as in the recordings.
//!
//! # What is not, and why
//!
//! | what | why | how |
//! |---|---|---|
//! | names and instance ids of Pods | chance | Pods are told apart by their states; where the user acted on a Pod, we take one in the same state |
//! | which of several equal Pods goes first | depends on seconds and on names | all Pods of a step are compared as a set |
//! | hashes of a DaemonSet's revisions | each implementation has its own | [`hashes`] |
//! | times | | `T` |
//! | ids of images | belong to a registry | the name of the image |
//! | what kubelet, scheduler and volume controller write: phases, nodes, their conditions, container statuses | theirs | left out. Only a `Ready` that the controller itself took away counts, as `unready` |
//! | what the daemon writes | theirs | left out; a stand-in writes it |
//! | events of a StatefulSet after many others | the original merges them and leaves some out | the steps before have all |
//! | the pull policy of an ImagePullJob | a default of its own webhook | left out |
//! | the end of all, when the user deletes a set | garbage collection | left out; owners of all objects are compared |
//! | intermediate counts of a status | depend on when a kubelet reported | the status at the end of a step is compared |
//!
//! What differs on purpose is in [`differences`], each with its reason.

mod daemon;
mod differences;
mod facts;
mod fixture;
mod hashes;
mod replay;
mod takeover;
