//! What a decision depends on besides the objects: the time, the switches of the installation, and chance, handed in as
//! data.

use jiff::Timestamp;
use kruise_api::gates::Gates;

/// The surroundings of a decision. Equal surroundings and equal objects give equal plans.
#[derive(Clone, Debug)]
pub struct Env {
    /// The time of the decision.
    pub now: Timestamp,
    /// Feature gates.
    pub gates: Gates,
    /// Flags of the process.
    pub settings: Settings,
    /// What the API server can do.
    pub server: Server,
    /// Where random names come from.
    pub ids: IdSource,
}

impl Env {
    /// Surroundings with every switch at its default.
    pub fn at(now: Timestamp) -> Self {
        Self {
            now,
            gates: Gates::default(),
            settings: Settings::default(),
            server: Server { pod_resize: true },
            ids: IdSource::seeded(0),
        }
    }
}

/// Flags of the process that decisions read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `--cloneset-scaling-exclude-preparing-delete`: Pods that wait for their `preDelete` hook do not count, for every
    /// CloneSet.
    pub exclude_preparing_delete: bool,
    /// ImagePullJobs are known to the cluster and the daemon is on: images can be pulled ahead of an update.
    pub image_pull_jobs: bool,
    /// `--assign-pods-by-scheduler=false`: Pods of a DaemonSet are bound to their nodes by its controller.
    pub daemon_pods_skip_scheduler: bool,
}

/// What the API server can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Resources of a Pod are changed through its `resize` part, as Kubernetes 1.32 and later want it.
    pub pod_resize: bool,
}

/// A source of names that look random. The seed comes from outside: give another one each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdSource(u64);

/// Characters of generated names: no vowels and no look-alikes, so that no words arise.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl IdSource {
    /// The names that follow from this seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next name, five characters.
    pub fn next_id(&mut self) -> String {
        let mut random = self.next_u64();
        let mut id = String::with_capacity(5);
        for _ in 0..5 {
            let place = (random % ALPHABET.len() as u64) as usize;
            random /= ALPHABET.len() as u64;
            id.extend(ALPHABET.get(place).map(|byte| char::from(*byte)));
        }
        id
    }

    /// The next number below a bound; 0 for the bound 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or_default()
    }

    /// The next six hexadecimal digits.
    pub fn next_hex(&mut self) -> String {
        format!("{:06x}", self.next_u64() & 0x00ff_ffff)
    }

    /// Sebastiano Vigna's `SplitMix64`: every seed gives a full period.
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
