use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::limits::Limits;

/// What all callers together may use at one time, and what each source of them may: half of it.
///
/// The halves are what keeps a flood from one place from using up everything, so that API servers elsewhere still get
/// their answers; a webhook that doesn't answer may be skipped, which is just what the flood would be for. Against many
/// sources only a network policy helps.
#[derive(Debug)]
pub(super) struct Budget {
    all: Shares,
    limits: Limits,
    /// Sources with a connection. Taken when one opens or closes, never for a request.
    sources: Mutex<HashMap<IpAddr, Arc<Shares>>>,
}

/// One connection's hold on the budget; it gives back what it has when it is dropped.
#[derive(Debug)]
pub(super) struct Peer {
    budget: Arc<Budget>,
    source: Arc<Shares>,
    address: IpAddr,
}

/// A hold on calls or bytes, given back when dropped.
#[derive(Debug)]
pub(super) struct Held {
    peer: Arc<Peer>,
    what: What,
    amount: usize,
}

/// What there is a budget of.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Bytes,
    Calls,
    Connections,
}

#[derive(Debug, Default)]
struct Shares([AtomicUsize; 3]);

impl Budget {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self { all: Shares::default(), limits: limits.clone(), sources: Mutex::default() })
    }

    /// Lets a connection from this address in, if there is room.
    pub(super) fn connect(self: &Arc<Self>, address: IpAddr) -> Option<Arc<Peer>> {
        // An IPv4 caller of an IPv6 socket is the same caller.
        let address = address.to_canonical();
        let mut sources = self.sources();
        let source = Arc::clone(sources.entry(address).or_default());
        let taken = self.take(&source, What::Connections, 1);
        if !taken && source.used(What::Connections) == 0 {
            sources.remove(&address);
        }
        drop(sources);
        taken.then(|| Arc::new(Peer { budget: Arc::clone(self), source, address }))
    }

    fn take(&self, source: &Shares, what: What, amount: usize) -> bool {
        let all = match what {
            What::Bytes => self.limits.bytes,
            What::Calls => self.limits.calls,
            What::Connections => self.limits.connections,
        };
        if !source.take(what, amount, all.div_ceil(2)) {
            return false;
        }
        let taken = self.all.take(what, amount, all);
        if !taken {
            source.give(what, amount);
        }
        taken
    }

    fn sources(&self) -> MutexGuard<'_, HashMap<IpAddr, Arc<Shares>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    /// A hold on nothing yet.
    pub(super) fn hold(self: &Arc<Self>, what: What) -> Held {
        Held { peer: Arc::clone(self), what, amount: 0 }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut sources = self.budget.sources();
        self.source.give(What::Connections, 1);
        self.budget.all.give(What::Connections, 1);
        if self.source.used(What::Connections) == 0 {
            sources.remove(&self.address);
        }
    }
}

impl Held {
    /// Holds this much more, if there is room.
    pub(super) fn more(&mut self, amount: usize) -> bool {
        let taken = self.peer.budget.take(&self.peer.source, self.what, amount);
        self.amount += if taken { amount } else { 0 };
        taken
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.peer.source.give(self.what, self.amount);
        self.peer.budget.all.give(self.what, self.amount);
    }
}

impl Shares {
    fn take(&self, what: What, amount: usize, most: usize) -> bool {
        let add = |used: usize| used.checked_add(amount).filter(|used| *used <= most);
        self.0[what as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn give(&self, what: What, amount: usize) {
        self.0[what as usize].fetch_sub(amount, Ordering::Relaxed);
    }

    fn used(&self, what: What) -> usize {
        self.0[what as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(connections: usize, calls: usize) -> Arc<Budget> {
        Budget::new(&Limits { connections, calls, ..Limits::default() })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn one_source_gets_half_and_two_get_all() {
        let budget = budget(4, 4);
        let ours: Vec<_> = (0..3).map(|_| budget.connect(address(1))).collect();
        assert_eq!(ours.iter().flatten().count(), 2);
        let theirs: Vec<_> = (0..3).map(|_| budget.connect(address(2))).collect();
        assert_eq!(theirs.iter().flatten().count(), 2);
        assert!(budget.connect(address(3)).is_none(), "there is nothing left for a third");
        assert_eq!(budget.sources().len(), 2, "a source without a connection isn't kept");
        drop(ours);
        assert!(budget.connect(address(3)).is_some());
        drop(theirs);
        assert!(budget.sources().is_empty());
        assert_eq!(budget.all.used(What::Connections), 0);
    }

    #[test]
    fn what_is_held_comes_back_whole() {
        let budget = budget(8, 4);
        let peer = budget.connect(address(1)).unwrap();
        let mut held = peer.hold(What::Calls);
        assert!(held.more(1) && held.more(1));
        assert!(!held.more(1), "a source's half is two");
        assert!(!peer.hold(What::Calls).more(usize::MAX), "no sum runs over");
        drop(held);
        assert_eq!((peer.source.used(What::Calls), budget.all.used(What::Calls)), (0, 0));
    }

    #[test]
    fn an_ipv4_caller_is_the_same_through_an_ipv6_socket() {
        let budget = budget(2, 2);
        let _first = budget.connect(address(1)).unwrap();
        assert!(budget.connect("::ffff:127.0.0.1".parse().unwrap()).is_none());
    }
}
