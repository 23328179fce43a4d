//! Rates of a machine for each kind of work, in the ring of a parameter set.

use std::time::Instant;
use sudare::{circuits::ckks::cost::Rates, ring::RnsBasis};
use sudare_arith::{ConstantDot, NttTable, Permutation, mem::Pool, par};

/// Bytes of rows and of packed rows, both more than caches hold.
const ROW_BYTES: usize = 128 << 20;
const PACKED_BYTES: usize = 512 << 20;
/// Memory that measuring needs.
pub(super) const WORKING_BYTES: u64 = (ROW_BYTES + PACKED_BYTES) as u64;
/// Rows that are transformed one after the other, and terms of a sum: the usual number of digits of a
/// key.
const TERMS: usize = 4;
/// Keys that are multiplied with the same digits: the usual number of baby steps of a matrix.
const KEYS: usize = 8;
/// Words that are worked on at a time in sums.
const TILE: usize = 1 << 10;
/// Timed runs, after a warm-up.
const RUNS: usize = 3;

/// Measures the rates of all threads together, in about a second.
pub(super) fn measure(basis: &RnsBasis) -> Rates {
    let pool = Pool::new(0);
    let n = basis.n();
    let mut rows = pool.take_zeroed(ROW_BYTES / 8);
    let packed = pool.take_zeroed(PACKED_BYTES / 8);
    let (narrow, wide): (Vec<&NttTable>, Vec<&NttTable>) =
        // Kernels for primes of at most 50 bits are faster: wider ones need a rate of their own.
        basis.tables(basis.all()).partition(|table| table.modulus().bits() <= 50);
    Rates {
        narrow_transform_ns: transform(&narrow, &mut rows, n),
        wide_transform_ns: transform(&wide, &mut rows, n),
        streamed_product_ns: streamed_product(basis, &rows, packed.as_bytes()),
        cached_product_ns: cached_product(basis),
        permuted_ns: permuted(basis.log_n()),
        row_byte_ns: row_byte(basis, &mut rows),
    }
}

/// Times both directions in turn, on rows that come from memory and go there. Returns 0 without tables.
fn transform(tables: &[&NttTable], rows: &mut [u64], n: usize) -> f64 {
    if tables.is_empty() {
        return 0.0;
    }
    let count = rows.len() / n;
    median_ns(2 * count, || {
        for forward in [true, false] {
            par::for_each(
                rows.chunks_mut(TERMS * n).zip(tables.iter().cycle()),
                |(rows, table)| {
                    let mut rows: Vec<&mut [u64]> = rows.chunks_exact_mut(n).collect();
                    if forward {
                        table.forward_rows(&mut rows);
                    } else {
                        table.inverse_scaled(&mut rows, table.modulus().shoup(1));
                    }
                },
            );
        }
    })
}

/// Times products of both halves of keys from memory with digits that several keys share, tile by tile.
fn streamed_product(basis: &RnsBasis, digits: &[u64], packed: &[u8]) -> f64 {
    let n = basis.n();
    let tables: Vec<&NttTable> = basis.tables(basis.all()).collect();
    let mut jobs = Vec::new();
    let mut rest = packed;
    for (k, digits) in (0..).zip(digits.chunks_exact(TERMS * n).cycle().flat_map(|d| [d; KEYS])) {
        let m = tables[k / KEYS % tables.len()].modulus();
        let Some((key, after)) = rest.split_at_checked(2 * TERMS * n * m.packed_bytes()) else {
            break;
        };
        jobs.push((m, digits, key));
        rest = after;
    }
    median_ns(2 * TERMS * n * jobs.len(), || {
        par::for_each(&jobs, |&(m, digits, key)| {
            let width = m.packed_bytes();
            let mut out = [0; TILE];
            for start in (0..n).step_by(TILE) {
                let len = TILE.min(n - start);
                let digits: Vec<&[u64]> =
                    digits.chunks_exact(n).map(|row| &row[start..][..len]).collect();
                for half in key.chunks_exact(TERMS * n * width) {
                    let rows = half.chunks_exact(n * width);
                    let rows: Vec<&[u8]> =
                        rows.map(|row| &row[start * width..][..len * width]).collect();
                    m.mul_sum_packed(&mut out[..len], &digits, &rows);
                }
            }
        });
    })
}

/// Times sums of products with constants.
fn cached_product(basis: &RnsBasis) -> f64 {
    const REPEATS: usize = 1 << 12;
    let m = basis.modulus(basis.all(), 0);
    let weights = ConstantDot::new(m, &[2; TERMS], &[m.value() - 1; TERMS]);
    let len = TILE.min(basis.n());
    let threads = par::threads();
    median_ns(threads * REPEATS * TERMS * len, || {
        par::for_each(0..threads, |_| {
            // On the stack of each thread, so that operands stay in its cache.
            let rows = [[1; TILE]; TERMS];
            let mut out = [0; TILE];
            let rows = rows.each_ref().map(|row| &row[..len]);
            for _ in 0..REPEATS {
                weights.dot(&mut out[..len], &rows);
                // The compiler could leave out repeats with equal results.
                core::hint::black_box(&mut out);
            }
        });
    })
}

/// Times a permutation block by block, from cache to cache.
fn permuted(log_n: u32) -> f64 {
    const ROWS: usize = 1 << 6;
    // 5 generates the rotations, so this is the rotation by one.
    let permutation = Permutation::galois(log_n, 5);
    let words = Permutation::block_words(log_n);
    let threads = par::threads();
    median_ns((threads * ROWS) << log_n, || {
        par::for_each(0..threads, |_| {
            let from = vec![1; words];
            let mut to = vec![0; words];
            for _ in 0..ROWS {
                for block in 0..(1 << log_n) / words {
                    permutation.apply_block(block, &mut to, &from);
                    core::hint::black_box(&mut to);
                }
            }
        });
    })
}

/// Times sums of two rows to a third, counted as three rows.
fn row_byte(basis: &RnsBasis, rows: &mut [u64]) -> f64 {
    let n = basis.n();
    let m = basis.modulus(basis.all(), 0);
    let third = rows.len() / n / 3 * n;
    let (out, rest) = rows.split_at_mut(third);
    let (a, b) = rest.split_at(third);
    median_ns(3 * 8 * third, || {
        let rows = out.chunks_mut(n).zip(a.chunks(n)).zip(b.chunks(n));
        par::for_each(rows, |((out, a), b)| m.add_rows(out, a, &b[..n]));
    })
}

/// Returns the nanoseconds for each of `count` parts of `work`.
fn median_ns(count: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        // The first run touches the memory and is a warm-up.
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    1e9 * times[RUNS / 2] / count as f64
}
