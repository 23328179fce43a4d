//! Threads. Only this module names rayon, and only its loops fork. Before each part of a loop it
//! checks whether the work was stopped ([`Stop`](crate::stop::Stop)).
//!
//! Functions have no thread parameter: work runs on the ambient rayon pool, and callers choose the
//! pool with [`with_threads`]. Results never depend on it. Without the feature `parallel`, and on
//! one thread, every loop is a plain loop.
//!
//! An operation on polynomials in RNS form is a grid of limbs and coefficients. A loop states the
//! dimension that it runs over: [`for_limbs`] and within it [`Within`], or [`for_tiles`]. The
//! [`Strategy`] of the pool decides which loops fork.

use crate::{Error, Result, stop::Work};
#[cfg(feature = "parallel")]
use core::cell::Cell;
#[cfg(feature = "parallel")]
use std::sync::{Mutex, PoisonError};

/// Ways to cut an operation's grid of limbs and coefficients into jobs.
///
/// Reference: Akimoto, Sakuma, "Speed-up of RNS type approximate homomorphic encryption by parallel
/// processing" (in Japanese), section 4, the source of all but the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Cuts by limbs while every thread has one, and the remaining limbs by coefficients as well.
    /// Sums and products are cut by both at once.
    #[default]
    Own,
    /// Processes limb after limb, each by blocks of coefficients. A transform mixes coefficients,
    /// so it runs on one thread.
    Coefficients,
    /// Makes each limb one job for every operation.
    Limbs,
    /// Cuts by both: each transform of a limb is a job, and so is each block of its coefficients.
    Both,
}

#[cfg(feature = "parallel")]
thread_local! {
    /// The strategy of the pool that the thread belongs to.
    static STRATEGY: Cell<Strategy> = const { Cell::new(Strategy::Own) };
}

/// Returns the strategy in effect on this thread.
#[must_use]
pub fn strategy() -> Strategy {
    #[cfg(feature = "parallel")]
    return STRATEGY.get();
    #[cfg(not(feature = "parallel"))]
    Strategy::Own
}

/// Loops over fewer words than this are not worth a fork.
const FORK_WORDS: usize = 1 << 14;

/// Parts of a loop per thread: more than one, so that threads that finish early take over parts of
/// slower ones.
#[cfg(feature = "parallel")]
const PARTS_A_THREAD: usize = 4;

/// Runs a job once with each number below `n`, separately.
///
/// All loops fork here, so that rayon's part of them is compiled once. A copy per loop would be a
/// sixth of the code of the crates above.
#[cfg(feature = "parallel")]
fn fork_each(n: usize, job: &(dyn Fn(usize) + Sync)) {
    use rayon::prelude::*;
    // Each job is a task of its own, so that idle threads can steal it.
    (0..n).into_par_iter().with_max_len(1).for_each(job);
}

/// One value per job of a loop. One thread puts it in or takes it out.
#[cfg(feature = "parallel")]
struct Places<T>(Vec<Mutex<Option<T>>>);

#[cfg(feature = "parallel")]
impl<T> Places<T> {
    fn of(items: impl IntoIterator<Item = T>) -> Self {
        Self(items.into_iter().map(|item| Mutex::new(Some(item))).collect())
    }

    fn empty(n: usize) -> Self {
        Self((0..n).map(|_| Mutex::new(None)).collect())
    }

    fn at(&self, i: usize) -> std::sync::MutexGuard<'_, Option<T>> {
        self.0[i].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, i: usize) -> Option<T> {
        self.at(i).take()
    }

    /// Returns all values in order.
    fn into_values(self) -> Vec<T> {
        let values = self.0.into_iter().map(|place| place.into_inner());
        values.filter_map(|value| value.unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// Runs `f` once on every item, in parallel if there are threads.
pub fn for_each<T: Send>(items: impl IntoIterator<Item = T>, f: impl Fn(T) + Send + Sync) {
    spread(true, items, f);
}

/// Runs [`for_each`], or a loop in order on this thread unless `fork` is set.
fn spread<T: Send>(fork: bool, items: impl IntoIterator<Item = T>, f: impl Fn(T) + Send + Sync) {
    // Threads of the pool do not inherit this thread's work, so each part brings it along.
    let work = Work::current();
    let f = |item| work.run(|| f(item));
    if fork && threads() > 1 {
        #[cfg(feature = "parallel")]
        {
            let items = Places::of(items);
            fork_each(items.0.len(), &|i| items.take(i).into_iter().for_each(&f));
            return;
        }
    }
    items.into_iter().for_each(f);
}

/// Applies `f` to every item, keeping the order.
pub fn map<T: Send, U: Send>(
    items: impl IntoIterator<Item = T>,
    f: impl Fn(T) -> U + Send + Sync,
) -> Vec<U> {
    // As in `spread`: parts on other threads belong to the work of this one.
    let work = Work::current();
    let f = |item| work.run(|| f(item));
    #[cfg(feature = "parallel")]
    if threads() > 1 {
        let items = Places::of(items);
        let values = Places::empty(items.0.len());
        fork_each(items.0.len(), &|i| {
            let value = items.take(i).map(&f);
            *values.at(i) = value;
        });
        return values.into_values();
    }
    items.into_iter().map(f).collect()
}

/// Applies `f` to every item, keeping the order, or returns the first error.
///
/// # Errors
/// Errors of `f`.
pub fn try_map<T: Send, U: Send, E: Send>(
    items: impl IntoIterator<Item = T>,
    f: impl Fn(T) -> core::result::Result<U, E> + Send + Sync,
) -> core::result::Result<Vec<U>, E> {
    map(items, f).into_iter().collect()
}

/// Runs both closures, in parallel if there are threads.
pub fn join<A: Send, B: Send>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    let work = Work::current();
    let a = || work.run(a);
    let b = || work.run(b);
    #[cfg(feature = "parallel")]
    if threads() > 1 {
        return rayon::join(a, b);
    }
    (a(), b())
}

/// Selects the loops that fork within the job of a limb.
#[derive(Debug, Clone, Copy)]
pub struct Within {
    rows: bool,
    blocks: bool,
}

impl Within {
    /// The job is a plain loop.
    const NOTHING: Self = Self { rows: false, blocks: false };
    const ALL: Self = Self { rows: true, blocks: true };

    /// Runs `f` once on every row.
    pub fn for_rows<T: Send>(self, rows: impl IntoIterator<Item = T>, f: impl Fn(T) + Send + Sync) {
        spread(self.rows, rows, f);
    }

    /// Runs `f` once on every block of coefficients. `init` makes a scratch value for each run of
    /// blocks that one thread processes in turn.
    pub fn for_blocks<T: Send, S>(
        self,
        blocks: impl Iterator<Item = T>,
        init: impl Fn() -> S + Send + Sync,
        f: impl Fn(&mut S, T) + Send + Sync,
    ) {
        let work = Work::current();
        let f = |room: &mut S, block| work.run(|| f(room, block));
        if self.blocks && threads() > 1 {
            #[cfg(feature = "parallel")]
            {
                let blocks = Places::of(blocks);
                let n = blocks.0.len();
                let parts = n.min(PARTS_A_THREAD * threads());
                fork_each(parts, &|part| {
                    let mut room = init();
                    // Shares differ by one block at most, and each is contiguous.
                    let turn = part * n / parts..(part + 1) * n / parts;
                    turn.filter_map(|i| blocks.take(i)).for_each(|block| f(&mut room, block));
                });
                return;
            }
        }
        let mut room = init();
        blocks.for_each(|block| f(&mut room, block));
    }
}

/// Runs `f` once on every limb's share of some work. The first argument of `f` tells which inner
/// loops fork.
///
/// If the number of limbs is not a multiple of the number of threads, the last limbs fork within,
/// so that no thread waits for them.
pub fn for_limbs<T: Send>(limbs: impl IntoIterator<Item = T>, f: impl Fn(Within, T) + Send + Sync) {
    let limbs = limbs.into_iter();
    let threads = threads();
    if threads == 1 {
        return spread(false, limbs, |limb| f(Within::NOTHING, limb));
    }
    let limbs: Vec<T> = limbs.collect();
    let (fork, whole, within) = match strategy() {
        Strategy::Own => (true, limbs.len() - limbs.len() % threads, Within::ALL),
        Strategy::Coefficients => (false, 0, Within { rows: false, blocks: true }),
        Strategy::Limbs => (true, limbs.len(), Within::NOTHING),
        Strategy::Both => (true, 0, Within::ALL),
    };
    spread(fork, limbs.into_iter().enumerate(), |(i, limb)| {
        f(if i < whole { Within::NOTHING } else { within }, limb);
    });
}

/// A part of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Row index.
    pub row: usize,
    /// First word of the tile in the row.
    pub start: usize,
}

/// Runs `f` once on every tile of at most `tile` words of each row of `stride`
/// words, in parallel if the whole is worth a fork.
pub fn for_tiles(
    words: &mut [u64],
    stride: usize,
    tile: usize,
    f: impl Fn(Tile, &mut [u64]) + Send + Sync,
) {
    let fork = words.len() >= FORK_WORDS;
    let all = (words.len() / stride).max(1);
    // Number of rows that fork together, and words per job.
    let (rows, job) = match strategy() {
        Strategy::Own | Strategy::Both => (all, tile),
        Strategy::Coefficients => (1, tile),
        Strategy::Limbs => (all, stride),
    };
    for (first, words) in (0..).step_by(rows).zip(words.chunks_mut(rows * stride)) {
        let jobs = (first..).zip(words.chunks_exact_mut(stride)).flat_map(|(row, words)| {
            (0..).step_by(job).zip(words.chunks_mut(job)).map(move |at| (row, at))
        });
        spread(fork, jobs, |(row, (start, words))| {
            for (start, part) in (start..).step_by(tile).zip(words.chunks_mut(tile)) {
                f(Tile { row, start }, part);
            }
        });
    }
}

/// Number of threads that work is spread over here.
#[must_use]
#[inline]
pub fn threads() -> usize {
    // WebAssembly has one thread. A constant lets its compiler remove the code that forks.
    #[cfg(feature = "parallel")]
    if !cfg!(target_family = "wasm") {
        return rayon::current_num_threads();
    }
    1
}

/// Runs `f` with work spread over `n` threads; 1 is sequential.
///
/// # Errors
/// [`Error::Threads`] if `n` is 0 or the system cannot start the threads.
pub fn with_threads<T: Send>(n: usize, f: impl FnOnce() -> T + Send) -> Result<T> {
    with_strategy(n, Strategy::Own, f)
}

/// Runs [`with_threads`] with grids cut by `strategy` instead of the engine's own. For benchmarks
/// and tests.
///
/// # Errors
/// See [`with_threads`].
pub fn with_strategy<T: Send>(
    n: usize,
    strategy: Strategy,
    f: impl FnOnce() -> T + Send,
) -> Result<T> {
    if n == 0 {
        return Err(Error::Threads(n));
    }
    let work = Work::current();
    let f = || work.run(f);
    #[cfg(feature = "parallel")]
    {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n)
            // `install` runs `f` on a thread of the pool, where loops read this value.
            .start_handler(move |_| STRATEGY.set(strategy))
            .build();
        pool.map(|pool| pool.install(f)).map_err(|_| Error::Threads(n))
    }
    #[cfg(not(feature = "parallel"))]
    {
        let _ = strategy;
        Ok(f())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_is_visited_once_on_any_number_of_threads() {
        for n in [1, 2, 3] {
            let mut words = vec![0; 5 * 1000];
            with_threads(n, || {
                for_tiles(&mut words, 1000, 300, |tile, part| {
                    for (k, word) in part.iter_mut().enumerate() {
                        *word += (tile.row * 1000 + tile.start + k) as u64;
                    }
                });
            })
            .unwrap();
            assert!(words.iter().enumerate().all(|(i, &word)| word == i as u64));
            let squares = with_threads(n, || map(0..100u64, |x| x * x)).unwrap();
            assert!(squares.iter().zip(0..).all(|(&s, x): (_, u64)| s == x * x));
            assert_eq!(with_threads(n, threads), Ok(n));
        }
        assert_eq!(with_threads(0, || ()), Err(Error::Threads(0)));
        assert_eq!(join(|| 1, || 2), (1, 2));
        assert_eq!(try_map(0..9, |x| if x == 5 { Err(x) } else { Ok(x) }), Err(5));
    }

    const STRATEGIES: [Strategy; 4] =
        [Strategy::Own, Strategy::Coefficients, Strategy::Limbs, Strategy::Both];

    #[test]
    fn every_part_of_every_limb_is_visited_once_under_any_strategy() {
        for (n, strategy) in [1, 2, 3].into_iter().flat_map(|n| STRATEGIES.map(|s| (n, s))) {
            let mut limbs = vec![vec![0u64; 1 << 12]; 5];
            let mut words = vec![0u64; 5 << 12];
            with_strategy(n, strategy, || {
                for_limbs(limbs.iter_mut().enumerate(), |within, (i, limb)| {
                    let (first, second) = limb.split_at_mut(1 << 11);
                    within.for_rows([first, second], |row| {
                        row.iter_mut().for_each(|x| *x += 1);
                    });
                    let blocks = limb.chunks_mut(100).enumerate();
                    within.for_blocks(
                        blocks,
                        || 0,
                        |done, (k, block)| {
                            *done += 1;
                            assert!(*done <= 41);
                            block.iter_mut().for_each(|x| *x += (i * 1000 + k) as u64);
                        },
                    );
                });
                for_tiles(&mut words, 1 << 12, 100, |tile, part| {
                    part.iter_mut().for_each(|x| *x += (tile.row * 1000 + tile.start / 100) as u64);
                });
            })
            .unwrap();
            for ((i, limb), words) in limbs.iter().enumerate().zip(words.chunks(1 << 12)) {
                let expected = |k: usize| (i * 1000 + k / 100) as u64;
                assert!(limb.iter().enumerate().all(|(k, &x)| x == expected(k) + 1));
                assert!(words.iter().enumerate().all(|(k, &x)| x == expected(k)));
            }
        }
    }

    #[cfg(feature = "parallel")]
    #[test]
    fn limbs_left_over_fork_within() {
        let forks = |n, strategy, limbs: usize| {
            with_strategy(n, strategy, || {
                let found = std::sync::Mutex::new(vec![None; limbs]);
                for_limbs(0..limbs, |Within { rows, blocks }, i| {
                    found.lock().unwrap()[i] = Some((rows, blocks));
                });
                found.into_inner().unwrap().into_iter().map(Option::unwrap).collect::<Vec<_>>()
            })
            .unwrap()
        };
        let no = (false, false);
        let yes = (true, true);
        assert_eq!(forks(2, Strategy::Own, 3), [no, no, yes]);
        assert_eq!(forks(2, Strategy::Own, 4), [no; 4]);
        assert_eq!(forks(4, Strategy::Own, 2), [yes; 2]);
        assert_eq!(forks(1, Strategy::Both, 3), [no; 3]);
        assert_eq!(forks(2, Strategy::Both, 3), [yes; 3]);
        assert_eq!(forks(2, Strategy::Limbs, 3), [no; 3]);
        assert_eq!(forks(2, Strategy::Coefficients, 3), [(false, true); 3]);
    }
}
