//! Threads. The only module that names rayon; the only loops that fork.
//!
//! There is no thread parameter anywhere: work runs on the ambient rayon pool,
//! so callers choose with [`with_threads`]. Results never depend on it. Without
//! the feature `parallel`, and on one thread, everything is a plain loop.

use crate::{Error, Result};

/// Below this many words a loop is not worth a fork.
const FORK_WORDS: usize = 1 << 14;

/// Runs `f` once on every item, in parallel if there are threads.
pub fn for_each<T: Send>(items: impl IntoIterator<Item = T>, f: impl Fn(T) + Send + Sync) {
    #[cfg(feature = "parallel")]
    if rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        let items: Vec<T> = items.into_iter().collect();
        items.into_par_iter().with_max_len(1).for_each(f);
        return;
    }
    items.into_iter().for_each(f);
}

/// `f` of every item, in order.
pub fn map<T: Send, U: Send>(
    items: impl IntoIterator<Item = T>,
    f: impl Fn(T) -> U + Send + Sync,
) -> Vec<U> {
    #[cfg(feature = "parallel")]
    if rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        let items: Vec<T> = items.into_iter().collect();
        return items.into_par_iter().with_max_len(1).map(f).collect();
    }
    items.into_iter().map(f).collect()
}

/// `f` of every item, in order, or the first error.
///
/// # Errors
/// Those of `f`.
pub fn try_map<T: Send, U: Send, E: Send>(
    items: impl IntoIterator<Item = T>,
    f: impl Fn(T) -> core::result::Result<U, E> + Send + Sync,
) -> core::result::Result<Vec<U>, E> {
    map(items, f).into_iter().collect()
}

/// Runs both, in parallel if there are threads.
pub fn join<A: Send, B: Send>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    #[cfg(feature = "parallel")]
    if rayon::current_num_threads() > 1 {
        return rayon::join(a, b);
    }
    (a(), b())
}

/// A part of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Row index.
    pub row: usize,
    /// First word of the row in the tile.
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
    let tiles = words.chunks_exact_mut(stride).enumerate().flat_map(|(row, words)| {
        words
            .chunks_mut(tile)
            .enumerate()
            .map(move |(k, part)| (Tile { row, start: k * tile }, part))
    });
    if fork {
        for_each(tiles, |(tile, part)| f(tile, part));
    } else {
        tiles.for_each(|(tile, part)| f(tile, part));
    }
}

/// Threads that work is spread over here.
#[must_use]
pub fn threads() -> usize {
    #[cfg(feature = "parallel")]
    return rayon::current_num_threads();
    #[cfg(not(feature = "parallel"))]
    1
}

/// Runs `f` where work is spread over `n` threads; 1 is sequential.
///
/// # Errors
/// [`Error::Threads`] if `n` is 0 or the system has no threads to give.
pub fn with_threads<T: Send>(n: usize, f: impl FnOnce() -> T + Send) -> Result<T> {
    if n == 0 {
        return Err(Error::Threads(n));
    }
    #[cfg(feature = "parallel")]
    {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build();
        pool.map(|pool| pool.install(f)).map_err(|_| Error::Threads(n))
    }
    #[cfg(not(feature = "parallel"))]
    Ok(f())
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
}
