//! Limits on the memory and the CPU time for reading files of tenants.
//!
//! A header of one kilobyte can name parameters whose tables take half a gibibyte and seconds to build. So
//! everything that reads a header or plans a job holds a [`Turn`]. Each tenant has one turn at a time, a
//! few of its requests wait, and more are rejected. Memory is reserved before use. Work beyond reading runs
//! in a [process of its own](crate::jobs::planning).

use crate::problem::{Answer, Problem};
use axum::http::StatusCode;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    num::NonZero,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread::available_parallelism,
    time::{Duration, Instant},
};
use sudare_roles::text::size;

/// Bounds of a gate.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum turns of all tenants.
    pub turns: usize,
    /// Maximum requests of one tenant: the one with the turn, and the ones that wait.
    pub of_tenant: usize,
    /// Maximum waiting requests of all tenants. Each holds a thread. The first request of a tenant
    /// may wait beyond it, up to twice the bound.
    pub waiting: usize,
    /// Maximum memory for headers, in bytes.
    pub header_bytes: u64,
    /// Maximum memory for tables in each [`Lane`], in bytes.
    pub table_bytes: [u64; 2],
    /// Maximum memory for tables in the first lane, per turn, in bytes.
    pub small_bytes: u64,
    /// Maximum time that a request waits.
    pub patience: Duration,
}

const MIB: u64 = 1 << 20;

impl Default for Bounds {
    /// Returns estimates for the largest tables, which together take less than a gibibyte. Large parameters
    /// have a lane of their own, so that a tenant who fills it does not block usual parameters.
    fn default() -> Self {
        Self {
            turns: available_parallelism().map_or(1, NonZero::get).max(4),
            of_tenant: 8,
            waiting: 48,
            header_bytes: 160 * MIB,
            table_bytes: [384 * MIB, 512 * MIB],
            small_bytes: 192 * MIB,
            patience: Duration::from_secs(20),
        }
    }
}

/// Grants turns to tenants.
pub struct Gate {
    bounds: Bounds,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of the last ticket. Turns and requests have tickets.
    tickets: u64,
    running: HashSet<String>,
    waiting: Vec<Waiting>,
    /// Ticket of each tenant's last turn.
    served: HashMap<String, u64>,
    header_bytes: u64,
    lanes: [Lane; 2],
}

/// A request that waits for a turn.
struct Waiting {
    ticket: u64,
    tenant: String,
    header_bytes: u64,
}

/// Memory for tables. The first lane is for small parameters, the second for large ones.
#[derive(Default)]
struct Lane {
    used: u64,
    /// Tickets of turns that wait for memory.
    waiting: VecDeque<u64>,
}

impl State {
    /// Returns whether the request with this ticket is next: the oldest one of the tenant with the oldest
    /// last turn. Others do not overtake it while it has no room.
    fn is_next(&self, ticket: u64, bounds: &Bounds) -> bool {
        let may = |waiting: &&Waiting| !self.running.contains(&waiting.tenant);
        let last = |waiting: &&Waiting| {
            (self.served.get(&waiting.tenant).copied().unwrap_or(0), waiting.ticket)
        };
        // A tenant without a turn so far has 0 here, and goes before all others.
        let next = self.waiting.iter().filter(may).min_by_key(last);
        next.is_some_and(|next| {
            next.ticket == ticket
                && self.running.len() < bounds.turns
                && fits(self.header_bytes, next.header_bytes, bounds.header_bytes)
        })
    }

    fn of_tenant(&self, tenant: &str) -> usize {
        let waiting = self.waiting.iter().filter(|waiting| waiting.tenant == tenant).count();
        waiting + usize::from(self.running.contains(tenant))
    }
}

/// Returns whether `more` fits next to `used` bytes. Anything fits when nothing is used.
fn fits(used: u64, more: u64, most: u64) -> bool {
    used == 0 || used.saturating_add(more) <= most
}

fn busy() -> Problem {
    let detail = "the server is busy with other files: try again in a moment";
    let retry_after = Some(1);
    Problem { retry_after, ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", detail) }
}

impl Gate {
    /// Makes a gate with these bounds.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, state: Mutex::default(), freed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_ready`. Returns false on a timeout.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        is_ready: impl Fn(&State) -> bool,
    ) -> (MutexGuard<'a, State>, bool) {
        let until = Instant::now() + self.bounds.patience;
        while !is_ready(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (state, false);
            }
            let woken = self.freed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        (state, true)
    }

    /// Waits for a turn of a tenant to read headers, which take `header_bytes` of memory.
    ///
    /// # Errors
    /// A [`Problem`]: 422 for headers that are too large, 429 if too many requests of the tenant wait, 503
    /// on a timeout.
    pub fn enter(&self, tenant: &str, header_bytes: u64) -> Answer<Turn<'_>> {
        let Bounds { of_tenant, header_bytes: most, .. } = self.bounds;
        // Waiting would not help, so the request is refused for good.
        if header_bytes > most {
            let found = size::bytes(header_bytes);
            let most = size::bytes(most);
            let detail =
                format!("reading the headers needs {found} of memory, but the limit is {most}");
            return Err(Problem::unusable("Memory", detail));
        }
        let mut state = self.lock();
        if state.of_tenant(tenant) >= of_tenant {
            let detail = format!(
                "a tenant may have {of_tenant} files and jobs checked at a time: \
                 try again in a moment"
            );
            return Err(Problem::too_many("TooManyRequests", detail, Some(1)));
        }
        // A few tenants can fill the shared places. They must not shut out a tenant that has no
        // request here, so its first one may wait beyond the bound.
        let is_first = state.of_tenant(tenant) == 0;
        let most = if is_first { 2 * self.bounds.waiting } else { self.bounds.waiting };
        if state.waiting.len() >= most {
            return Err(busy());
        }
        state.tickets += 1;
        let ticket = state.tickets;
        state.waiting.push(Waiting { ticket, tenant: tenant.into(), header_bytes });
        let (mut state, is_next) = self.wait(state, |state| state.is_next(ticket, &self.bounds));
        state.waiting.retain(|waiting| waiting.ticket != ticket);
        // Another request may be next now, whether this one got a turn or not.
        self.freed.notify_all();
        if !is_next {
            return Err(busy());
        }
        state.running.insert(tenant.into());
        state.tickets += 1;
        let turn = state.tickets;
        state.served.insert(tenant.into(), turn);
        state.header_bytes += header_bytes;
        Ok(Turn { gate: self, tenant: tenant.into(), ticket, header_bytes, tables: Vec::new() })
    }
}

/// The right of a tenant to have files read and planned, until it is dropped.
pub struct Turn<'a> {
    gate: &'a Gate,
    tenant: String,
    ticket: u64,
    header_bytes: u64,
    /// Reserved bytes, each with its lane.
    tables: Vec<(usize, u64)>,
}

impl Turn<'_> {
    /// Waits for memory for tables, and reserves it.
    ///
    /// # Errors
    /// A [`Problem`]: 422 for more than the lane ever has, 503 on a timeout.
    pub fn reserve(&mut self, bytes: u64) -> Answer<()> {
        let Bounds { table_bytes, small_bytes, .. } = self.gate.bounds;
        // Usual parameters have a lane of their own, so that large ones do not hold them up.
        let at = usize::from(bytes > small_bytes);
        let Some(&most) = table_bytes.get(at).filter(|most| bytes <= **most) else {
            let most = size::bytes(table_bytes.into_iter().max().unwrap_or(0));
            let detail = format!(
                "planning this needs {} of memory, but the limit is {most}",
                size::bytes(bytes)
            );
            return Err(Problem::unusable("Memory", detail));
        };
        let ticket = self.ticket;
        let mut state = self.gate.lock();
        state.lanes[at].waiting.push_back(ticket);
        let (mut state, has_room) = self.gate.wait(state, |state| {
            let lane = &state.lanes[at];
            // In the order of arrival, so that small requests cannot overtake a larger one forever.
            lane.waiting.front() == Some(&ticket) && fits(lane.used, bytes, most)
        });
        let lane = &mut state.lanes[at];
        lane.waiting.retain(|waiting| *waiting != ticket);
        if has_room {
            lane.used += bytes;
            self.tables.push((at, bytes));
        }
        self.gate.freed.notify_all();
        if has_room { Ok(()) } else { Err(busy()) }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.running.remove(&self.tenant);
        state.header_bytes = state.header_bytes.saturating_sub(self.header_bytes);
        for (at, bytes) in self.tables.drain(..) {
            let lane = &mut state.lanes[at];
            lane.used = lane.used.saturating_sub(bytes);
        }
        self.gate.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::mpsc,
        thread::{scope, sleep},
    };

    fn gate(patience: Duration) -> Gate {
        Gate::new(Bounds {
            turns: 2,
            of_tenant: 3,
            waiting: 3,
            header_bytes: 100,
            table_bytes: [10, 100],
            small_bytes: 10,
            patience,
        })
    }

    const LONG: Duration = Duration::from_secs(60);

    fn until(gate: &Gate, is: impl Fn(&State) -> bool) {
        while !is(&gate.lock()) {
            sleep(Duration::from_millis(1));
        }
    }

    /// Gives a tenant one turn, lets some of its requests wait, and rejects more. Another tenant gets a
    /// turn, even when the places to wait are taken.
    #[test]
    fn a_tenant_has_one_turn_and_few_that_wait() {
        let gate = gate(LONG);
        let first = gate.enter("a", 1).unwrap();
        scope(|scope| {
            let waiting = [(); 2].map(|()| scope.spawn(|| gate.enter("a", 1).map(|_| ())));
            until(&gate, |state| state.waiting.len() == 2);
            let refused = gate.enter("a", 1).map(|_| ()).unwrap_err();
            assert_eq!((refused.status.as_u16(), refused.retry_after), (429, Some(1)));
            drop(gate.enter("b", 1).unwrap());
            assert_eq!(gate.lock().waiting.len(), 2);
            // Waiting requests do not take all threads.
            let second = gate.enter("b", 1).unwrap();
            let again = scope.spawn(|| gate.enter("b", 1).map(|_| ()));
            until(&gate, |state| state.waiting.len() == 3);
            assert_eq!(gate.enter("b", 1).map(|_| ()).unwrap_err().kind, "Busy");
            // The first request of another tenant waits all the same, up to twice the bound.
            let mut others = Vec::new();
            for (tenant, count) in [("c", 4), ("d", 5), ("e", 6)] {
                let gate = &gate;
                others.push(scope.spawn(move || gate.enter(tenant, 1)));
                until(gate, |state| state.waiting.len() == count);
            }
            assert_eq!(gate.enter("f", 1).map(|_| ()).unwrap_err().kind, "Busy");
            // It is next, before the older request of a tenant that had a turn.
            drop(second);
            for other in others {
                let turn = other.join().unwrap().unwrap();
                assert!(!again.is_finished());
                drop(turn);
            }
            again.join().unwrap().unwrap();
            drop(first);
            waiting.into_iter().for_each(|waiting| waiting.join().unwrap().unwrap());
        });
        let state = gate.lock();
        assert!(state.running.is_empty() && state.waiting.is_empty() && state.header_bytes == 0);
    }

    /// When turns are scarce, the tenant with the oldest last turn is next, not the first to ask.
    #[test]
    fn turns_go_round() {
        let gate = gate(LONG);
        drop(gate.enter("a", 1).unwrap());
        let held = ["x", "y"].map(|tenant| gate.enter(tenant, 1).unwrap());
        let (sender, order) = mpsc::channel();
        scope(|scope| {
            for (tenant, count) in [("a", 1), ("a", 2), ("b", 3)] {
                let gate = &gate;
                let sender = sender.clone();
                scope.spawn(move || {
                    let turn = gate.enter(tenant, 1).unwrap();
                    sender.send(tenant).unwrap();
                    sleep(Duration::from_millis(20));
                    drop(turn);
                });
                until(gate, |state| state.waiting.len() == count);
            }
            let [x, y] = held;
            drop(x);
            assert_eq!(order.recv().unwrap(), "b");
            drop(y);
        });
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["a", "a"]);
    }

    /// Reserves memory for headers and tables. Large tables leave room for small ones.
    #[test]
    fn memory_is_reserved() {
        let gate = gate(Duration::from_millis(50));
        let mut large = gate.enter("a", 60).unwrap();
        assert_eq!(gate.enter("b", 60).map(|_| ()).unwrap_err().kind, "Busy");
        assert_eq!(gate.enter("b", 101).map(|_| ()).unwrap_err().kind, "Memory");
        let mut small = gate.enter("b", 40).unwrap();
        large.reserve(90).unwrap();
        small.reserve(10).unwrap();
        assert_eq!(small.reserve(1).unwrap_err().kind, "Busy");
        assert_eq!(small.reserve(101).unwrap_err().kind, "Memory");
        drop(large);
        small.reserve(90).unwrap();
        drop(small);
        let state = gate.lock();
        assert!(state.lanes.iter().all(|lane| lane.used == 0 && lane.waiting.is_empty()));
        assert_eq!(state.header_bytes, 0);
    }
}
