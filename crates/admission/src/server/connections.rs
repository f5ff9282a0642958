//! Who is connected, and who has to go when it gets crowded.
//!
//! - There are so many slots, and so many for one source, which is the address that connections come from. Several API servers may share one, behind a
//!   proxy or the address of a node, and each keeps as many connections as it has questions at the same time.
//! - A connection is idle while we do not work for it. A handshake, a head or a body that does not come and an answer that nobody reads are idle, too.
//! - A newcomer whose source has all its slots takes that of the source's longest idle connection. When all slots of the server are taken, it is the
//!   longest idle one of the source that has most. Only when none of these is idle, the newcomer is refused.
//! - Who is idle for too long is closed. API servers do so themselves, earlier.
//! - Who is old is asked to come back, over HTTP/1 by the next answer, so that no question is lost. So the load spreads again over all replicas.
//! - The bodies of one source take so much memory at most; the rest waits. Large ones do not hold up small ones.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep_until,
};
use tokio_util::sync::CancellationToken;

/// Kilobytes for small bodies of one source.
const SMALL_BODIES: usize = 16 * 1024;
/// Kilobytes for large bodies of one source: the largest that there may be, and a little more.
const LARGE_BODIES: usize = 40 * 1024;
/// Kilobytes for large bodies of all sources: not enough for two of the largest.
const ALL_LARGE_BODIES: usize = 64 * 1024;

/// What peers may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Open connections. Together with all else that is open they stay below 1,024, which is what many systems give a process.
    pub(crate) connections: usize,
    /// Open connections of one source.
    pub(crate) of_one_source: usize,
    /// How long a connection may be idle. API servers close theirs after 90 seconds.
    pub(crate) idle: Duration,
    /// When a connection is old.
    pub(crate) age: Duration,
    /// How long a body may take to arrive. An API server has all of it when it begins.
    pub(crate) body: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 768,
            of_one_source: 512,
            idle: Duration::from_secs(150),
            age: Duration::from_mins(10),
            body: Duration::from_secs(10),
        }
    }
}

/// All open connections.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) limits: Limits,
    started: Instant,
    large: Arc<Semaphore>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    peers: BTreeMap<u64, Arc<Peer>>,
    /// Sources are known as long as they have a connection or use memory.
    sources: HashMap<IpAddr, Weak<Source>>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            started: Instant::now(),
            large: Arc::new(Semaphore::new(ALL_LARGE_BODIES)),
            open: Mutex::default(),
        })
    }

    /// A slot for a connection from this address; whoever has to go for it is told to.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let mut open = self.open();
        let mut of_source: HashMap<IpAddr, usize> = HashMap::new();
        for peer in open.peers.values() {
            *of_source.entry(peer.source.address).or_default() += 1;
        }
        let has_all_places = of_source
            .get(&address)
            .is_some_and(|count| *count >= self.limits.of_one_source);
        if has_all_places || open.peers.len() >= self.limits.connections {
            let idle = open
                .peers
                .iter()
                .filter(|(_, peer)| peer.is_idle() && (!has_all_places || peer.source.address == address));
            let longest = idle.max_by_key(|(number, peer)| {
                let crowd = of_source.get(&peer.source.address).copied();
                (crowd, Reverse(peer.last.load(Ordering::Relaxed)), Reverse(**number))
            });
            let number = *longest?.0;
            if let Some(peer) = open.peers.remove(&number) {
                peer.leave.cancel();
            }
        }
        open.sources.retain(|_, source| source.strong_count() > 0);
        let known = open.sources.get(&address).and_then(Weak::upgrade);
        let source = known.unwrap_or_else(|| Arc::new(Source::new(address, self.large.clone())));
        open.sources.insert(address, Arc::downgrade(&source));
        let number = open.next;
        open.next += 1;
        let peer = Arc::new(Peer {
            source,
            limits: self.limits,
            server_started: self.started,
            old_at: Instant::now() + self.limits.age.mul_f64(0.9 + fastrand::f64() / 5.0),
            last: AtomicU64::default(),
            working: AtomicUsize::new(0),
            leave: CancellationToken::new(),
        });
        peer.touch();
        open.peers.insert(number, peer.clone());
        drop(open);
        Some(Slot {
            number,
            peer,
            connections: self.clone(),
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    number: u64,
    pub(super) peer: Arc<Peer>,
    connections: Arc<Connections>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.open().peers.remove(&self.number);
    }
}

/// Where connections come from.
#[derive(Debug)]
struct Source {
    address: IpAddr,
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    large_of_all: Arc<Semaphore>,
}

impl Source {
    fn new(address: IpAddr, large_of_all: Arc<Semaphore>) -> Self {
        Self {
            address,
            small: Arc::new(Semaphore::new(SMALL_BODIES)),
            large: Arc::new(Semaphore::new(LARGE_BODIES)),
            large_of_all,
        }
    }
}

/// Memory that a body and its answer take, until it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    _source: Arc<Source>,
    _of_source: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

/// Who is at the other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    source: Arc<Source>,
    pub(super) limits: Limits,
    server_started: Instant,
    old_at: Instant,
    /// When we last had to do with it, in milliseconds after the server was started.
    last: AtomicU64,
    /// Requests that we are working on.
    working: AtomicUsize,
    leave: CancellationToken,
}

impl Peer {
    /// It began a request.
    pub(super) fn touch(&self) {
        let now = u64::try_from(self.server_started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// We work for it until this is dropped.
    pub(super) fn work(&self) -> Work<'_> {
        self.working.fetch_add(1, Ordering::Relaxed);
        Work(self)
    }

    fn is_idle(&self) -> bool {
        self.working.load(Ordering::Relaxed) == 0
    }

    /// Waits for memory for a body of so many bytes.
    pub(super) async fn room(&self, bytes: usize, is_large: bool) -> Room {
        let kilobytes = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let source = &self.source;
        let of_source = if is_large { &source.large } else { &source.small };
        // The semaphores are never closed.
        let of_source = of_source.clone().acquire_many_owned(kilobytes).await.ok();
        let of_all = if is_large {
            source.large_of_all.clone().acquire_many_owned(kilobytes).await.ok()
        } else {
            None
        };
        Room {
            _source: source.clone(),
            _of_source: of_source,
            _of_all: of_all,
        }
    }

    pub(super) fn is_old(&self) -> bool {
        Instant::now() >= self.old_at
    }

    /// Waits until it is old.
    pub(super) async fn old(&self) {
        sleep_until(self.old_at.into()).await;
    }

    /// Waits until another needs its slot.
    pub(super) async fn crowded_out(&self) {
        self.leave.cancelled().await;
    }

    /// Waits until it was idle for too long.
    pub(super) async fn idle_for_too_long(&self) {
        loop {
            let now = Instant::now();
            let last = self.server_started + Duration::from_millis(self.last.load(Ordering::Relaxed));
            let since = if self.is_idle() { last } else { now };
            if now >= since + self.limits.idle {
                return;
            }
            sleep_until((since + self.limits.idle).into()).await;
        }
    }
}

/// A request that we are working on.
#[derive(Debug)]
pub(super) struct Work<'a>(&'a Peer);

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LIMITS: Limits = Limits {
        connections: 4,
        of_one_source: 3,
        idle: Duration::from_secs(150),
        age: Duration::from_mins(10),
        body: Duration::from_secs(10),
    };

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    /// Which of these were told to leave.
    fn leaving(slots: &[Slot]) -> Vec<usize> {
        let leaves = |(index, slot): (usize, &Slot)| slot.peer.leave.is_cancelled().then_some(index);
        slots.iter().enumerate().filter_map(leaves).collect()
    }

    /// Slots of these sources, of which the first is idle for longest.
    fn admitted(connections: &Arc<Connections>, sources: &[u8]) -> Vec<Slot> {
        let admit = |(index, source): (usize, &u8)| {
            let slot = connections.admit(address(*source)).unwrap();
            slot.peer.last.store(index as u64, Ordering::Relaxed);
            slot
        };
        sources.iter().enumerate().map(admit).collect()
    }

    #[test]
    fn given_a_source_with_all_its_places_then_its_own_longest_idle_connection_goes() {
        let connections = Connections::new(LIMITS);
        let slots = admitted(&connections, &[1, 2, 2, 2]);
        let _newcomer = connections.admit(address(2)).unwrap();
        assert_eq!(leaving(&slots), [1]);
    }

    #[test]
    fn given_a_full_server_then_the_longest_idle_of_the_source_that_has_most_goes() {
        let connections = Connections::new(LIMITS);
        let slots = admitted(&connections, &[1, 2, 3, 2]);
        let _newcomer = connections.admit(address(4)).unwrap();
        assert_eq!(leaving(&slots), [1]);
    }

    #[test]
    fn given_connections_at_work_then_another_goes_and_without_any_the_newcomer_is_refused() {
        let connections = Connections::new(LIMITS);
        let slots = admitted(&connections, &[2, 2, 2, 1]);
        let first = slots[0].peer.work();
        let newcomer = connections.admit(address(2)).unwrap();
        assert_eq!(leaving(&slots), [1], "the first is at work");
        let (_third, _newcomer) = (slots[2].peer.work(), newcomer.peer.work());
        assert!(connections.admit(address(2)).is_none(), "all of its source are at work");
        let _other = connections.admit(address(5)).unwrap();
        assert_eq!(leaving(&slots), [1, 3], "the only one that is idle");
        drop(first);
        assert!(connections.admit(address(2)).is_some());
        assert_eq!(leaving(&slots), [0, 1, 3]);
    }

    #[test]
    fn given_a_connection_that_ended_then_its_place_is_free() {
        let connections = Connections::new(LIMITS);
        let mut slots = admitted(&connections, &[1, 2, 3, 4]);
        slots.remove(2);
        let _newcomer = connections.admit(address(5)).unwrap();
        assert_eq!(leaving(&slots), [0; 0]);
    }

    #[tokio::test]
    async fn given_large_bodies_of_one_source_then_small_ones_and_those_of_others_have_room() {
        let connections = Connections::new(LIMITS);
        let slots = admitted(&connections, &[1, 1, 2]);
        let mebibytes = |count: usize| count * 1024 * 1024;
        let held = slots[0].peer.room(mebibytes(30), true).await;
        let mut second = std::pin::pin!(slots[1].peer.room(mebibytes(30), true));
        assert!(futures::poll!(&mut second).is_pending());
        let _small = slots[1].peer.room(1000, false).await;
        let other = slots[2].peer.room(mebibytes(30), true).await;
        drop(held);
        second.await;
        drop(other);
    }
}
