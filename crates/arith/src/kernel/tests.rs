//! Tests every table that the CPU supports against `scalar`, and `scalar` against wide integers.

use super::Isa;
use crate::{
    Column, ConstantDot, Modulus, NttTable, Permutation, next_prime, previous_prime, prng::Seed,
    prng::Stream,
};

fn available() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// Smallest, middle and largest primes of each range of moduli.
fn primes(log_n: u32) -> Vec<u64> {
    let step = 2u64 << log_n;
    let mut list = vec![next_prime(step, step).unwrap()];
    for bits in [30, 40, 47, 48, 49, 50, 51, 55, 60, 61, 62] {
        list.extend(previous_prime(1 << bits, step));
    }
    for bits in [47, 48, 49, 50, 55, 61] {
        list.extend(next_prime(1 << bits, step));
    }
    // Five moduli fit inside a transform, and just do not fit.
    let fifth = (1 << 52) / 5;
    list.extend(previous_prime(fifth, step).into_iter().chain(next_prime(fifth, step)));
    list
}

/// Residues: edges first, then random ones.
fn residues(q: u64, len: usize, salt: u64) -> Vec<u64> {
    let mut stream = Stream::new(&Seed::from_bytes([7; 32]), "kernel tests", salt);
    let mut row = vec![0; len];
    stream.fill(&mut row);
    for (k, x) in row.iter_mut().enumerate() {
        *x = match (k + salt as usize) % 61 {
            0 => 0,
            1 => 1,
            2 => q - 1,
            3 => q / 2,
            _ => *x % q,
        };
    }
    row
}

const LENGTHS: [usize; 8] = [1, 3, 7, 8, 9, 17, 64, 67];

#[test]
fn row_kernels_equal_wide_integers() {
    for q in primes(4).into_iter().chain([3, 5, (1 << 50) - 27, (1 << 62) - 57]) {
        for isa in available() {
            let m = Modulus::with_isa(q, isa).unwrap();
            let w = u128::from(q);
            for len in LENGTHS {
                let [a, b, c] = [1, 2, 3].map(|salt| residues(q, len, salt));
                let check = |name: &str, out: &[u64], f: &dyn Fn(u128, u128, u128) -> u128| {
                    for i in 0..len {
                        let want = f(a[i].into(), b[i].into(), c[i].into()) % w;
                        assert_eq!(u128::from(out[i]), want, "{name} mod {q} on {isa:?}");
                    }
                };
                let mut out = vec![0; len];
                m.add_rows(&mut out, &a, &b);
                check("add", &out, &|a, b, _| a + b);
                m.sub_rows(&mut out, &a, &b);
                check("sub", &out, &|a, b, _| a + w - b);
                m.mul_rows(&mut out, &a, &b);
                check("mul", &out, &|a, b, _| a * b);
                let mut out = a.clone();
                m.add_assign(&mut out, &b);
                check("add_assign", &out, &|a, b, _| a + b);
                let mut out = a.clone();
                m.sub_assign(&mut out, &b);
                check("sub_assign", &out, &|a, b, _| a + w - b);
                let mut out = a.clone();
                m.mul_assign(&mut out, &b);
                check("mul_assign", &out, &|a, b, _| a * b);
                let mut out = a.clone();
                m.neg_assign(&mut out);
                check("neg", &out, &|a, _, _| w - a);
                let mut out = a.clone();
                m.add_constant(&mut out, q - 1);
                check("add_constant", &out, &|a, _, _| a + w - 1);
                let reach = (q - 1).min(127) as i64;
                let small: Vec<i8> =
                    c.iter().map(|&c| (c as i64 % (2 * reach + 1) - reach) as i8).collect();
                m.lift(&mut out, &small);
                for (x, s) in out.iter().zip(small) {
                    assert_eq!(i128::from(*x), i128::from(s).rem_euclid(w as i128), "lift {q}");
                }
                for s in [0, 1, q - 1, q / 3] {
                    let f = m.shoup(s);
                    let s = u128::from(s);
                    m.scale(&mut out, &a, f);
                    check("scale", &out, &|a, _, _| a * s);
                    out.copy_from_slice(&c);
                    m.scale_add(&mut out, &a, f);
                    check("scale_add", &out, &|a, _, c| c + a * s);
                    m.sub_scale(&mut out, &a, &b, f);
                    check("sub_scale", &out, &|a, b, _| (a + w - b) * s);
                    out.copy_from_slice(&b);
                    m.sub_scale_from(&mut out, &a, f);
                    check("sub_scale_from", &out, &|a, b, _| (a + w - b) * s);
                }
            }
        }
    }
}

#[test]
fn sums_of_any_number_of_terms_reduce_once() {
    for q in primes(4).into_iter().chain([3, (1 << 50) - 27, (1 << 62) - 57]) {
        for isa in available() {
            let m = Modulus::with_isa(q, isa).unwrap();
            for terms in [0, 1, 2, 7, 8, 9, 14, 15, 16, 30, 31, 47, 65] {
                let len = 19;
                // One column where every residue is the largest.
                let largest = |mut row: Vec<u64>| {
                    row[0] = q - 1;
                    row
                };
                let a: Vec<_> = (0..terms).map(|k| largest(residues(q, len, k))).collect();
                let b: Vec<_> = (0..terms).map(|k| largest(residues(q, len, 100 + k))).collect();
                // All words of the first and last column, of a vector and of the rest, have their
                // maximum.
                let bits = if q < 1 << 50 { 52.min(100 - m.bits()) } else { 62 };
                let top = (1 << bits) - 1;
                let widened = |row: &Vec<u64>| [&[top], &row[2..], &[top]].concat();
                let wide: Vec<Vec<u64>> = a.iter().map(widened).collect();
                let c: Vec<u64> =
                    (0..terms).map(|k| if k % 7 < 6 { q - 1 } else { k % q }).collect();
                let a: Vec<&[u64]> = a.iter().map(Vec::as_slice).collect();
                let b: Vec<&[u64]> = b.iter().map(Vec::as_slice).collect();
                let wide: Vec<&[u64]> = wide.iter().map(Vec::as_slice).collect();
                let mut sums = vec![9; len];
                let mut dots = vec![9; len];
                m.mul_sum(&mut sums, &a, &b);
                ConstantDot::new(&m, &c, &vec![top; c.len()]).dot(&mut dots, &wide);
                for x in 0..len {
                    let product = |u: u64, v: u64| u128::from(u) * u128::from(v) % u128::from(q);
                    let sum: u128 = a.iter().zip(&b).map(|(a, b)| product(a[x], b[x])).sum();
                    let dot: u128 = wide.iter().zip(&c).map(|(a, &c)| product(a[x], c)).sum();
                    assert_eq!(u128::from(sums[x]), sum % u128::from(q), "{q} {isa:?} {terms}");
                    assert_eq!(u128::from(dots[x]), dot % u128::from(q), "{q} {isa:?} {terms}");
                }
            }
        }
    }
}

/// Moduli of every number of bytes: the smallest, the largest and one in between.
fn moduli_of_every_width() -> impl Iterator<Item = u64> {
    (1..=8u32).flat_map(|bytes| {
        let low = if bytes == 1 { 3 } else { (1 << (8 * (bytes - 1))) + 1 };
        let high = (1u64 << (8 * bytes).min(62)) - 1;
        [low, (low + (high - low) / 3) | 1, high]
    })
}

#[test]
fn packed_words_are_the_low_bytes_in_order() {
    for q in moduli_of_every_width() {
        for (isa, len) in available().flat_map(|isa| LENGTHS.map(|len| (isa, len))) {
            let m = Modulus::with_isa(q, isa).unwrap();
            let width = m.packed_bytes();
            assert!(u128::from(q) < 1 << (8 * width) && q >> (8 * (width - 1)) != 0);
            let words = residues(q, len, len as u64);
            // Works at any alignment and leaves the surrounding bytes unchanged.
            let mut bytes = vec![0xaa; width * len + 9];
            m.pack(&mut bytes[5..][..width * len], &words);
            for (k, &byte) in bytes.iter().enumerate() {
                let expected = match k.checked_sub(5).filter(|&k| k < width * len) {
                    Some(k) => (words[k / width] >> (8 * (k % width)) & 0xff) as u8,
                    None => 0xaa,
                };
                assert_eq!(byte, expected, "byte {k} of {len} words modulo {q} on {isa:?}");
            }
            let mut out = vec![9; len];
            assert!(m.unpack(&mut out, &bytes[5..][..width * len]));
            assert_eq!(out, words, "{q} on {isa:?}");
            assert!(m.are_residues(&bytes[5..][..width * len]));
            // Detects every word that is not a residue.
            for at in 0..len {
                let mut bytes = bytes[5..][..width * len].to_vec();
                bytes[width * at..][..width].copy_from_slice(&q.to_le_bytes()[..width]);
                assert!(!m.unpack(&mut out, &bytes), "{q} at {at} of {len} on {isa:?}");
                assert!(!m.are_residues(&bytes));
            }
        }
    }
}

#[test]
fn sums_of_products_with_packed_words_equal_wide_integers() {
    for q in moduli_of_every_width().chain(primes(4)) {
        for (isa, len) in available().flat_map(|isa| LENGTHS.map(|len| (isa, len))) {
            let m = Modulus::with_isa(q, isa).unwrap();
            for terms in [0, 1, 4, 8, 9, 15, 16, 31] {
                let rows = |salt: u64| {
                    (0..terms).map(move |k| {
                        let mut row = residues(q, len, salt + k);
                        row[0] = q - 1;
                        row
                    })
                };
                let a: Vec<_> = rows(0).collect();
                let b: Vec<_> = rows(100).collect();
                let packed: Vec<Vec<u8>> = b
                    .iter()
                    .map(|words| {
                        let mut bytes = vec![0; m.packed_bytes() * len];
                        m.pack(&mut bytes, words);
                        bytes
                    })
                    .collect();
                let pairs: Vec<&[u64]> = a.iter().map(Vec::as_slice).collect();
                let packed: Vec<&[u8]> = packed.iter().map(Vec::as_slice).collect();
                // Alone, and next to another sum with the same packed words.
                let others: Vec<&[u64]> = pairs.iter().rev().copied().collect();
                let mut out = [(); 3].map(|()| vec![9; len]);
                let [alone, first, second] = &mut out;
                m.mul_sum_packed(alone, &pairs, &packed);
                m.mul_sums_packed([first, second], [&pairs, &others], &packed, 0);
                for (out, a) in out.iter().zip([&pairs, &pairs, &others]) {
                    for x in 0..len {
                        let product = |(a, b): (&&[u64], &Vec<u64>)| {
                            u128::from(a[x]) * u128::from(b[x]) % u128::from(q)
                        };
                        let sum: u128 = a.iter().zip(&b).map(product).sum();
                        assert_eq!(u128::from(out[x]), sum % u128::from(q), "{q} {isa:?} {terms}");
                    }
                }
            }
        }
    }
}

/// Stores one of each run of equal groups, for runs of every length and blocks of every number of
/// runs, next to the same rows in full.
#[test]
fn sums_with_runs_of_equal_groups_are_those_of_the_rows_in_full() {
    for q in moduli_of_every_width().chain(primes(4)) {
        for (isa, log_repeats) in available().flat_map(|isa| (0..=8).map(move |log| (isa, log))) {
            let m = Modulus::with_isa(q, isa).unwrap();
            for (terms, runs) in [(1, 1), (3, 2), (16, 3)] {
                let len = runs << (3 + log_repeats);
                let rows = |salt: u64, len| (0..terms).map(move |k| residues(q, len, salt + k));
                let a: Vec<_> = rows(0, len).collect();
                let b: Vec<_> = rows(100, 8 * runs).collect();
                let packed = |words: &[u64]| {
                    let mut bytes = vec![0; m.packed_bytes() * words.len()];
                    m.pack(&mut bytes, words);
                    bytes
                };
                let stored: Vec<_> = b.iter().map(|words| packed(words)).collect();
                let full = |words: &Vec<u64>| {
                    let runs = words.chunks(8).map(|group| group.repeat(1 << log_repeats));
                    packed(&runs.collect::<Vec<_>>().concat())
                };
                let full: Vec<_> = b.iter().map(full).collect();
                let a: Vec<&[u64]> = a.iter().map(Vec::as_slice).collect();
                let others: Vec<&[u64]> = a.iter().rev().copied().collect();
                let sums = |b: &[Vec<u8>], log_repeats| {
                    let b: Vec<&[u8]> = b.iter().map(Vec::as_slice).collect();
                    let mut out = [(); 2].map(|()| vec![9; len]);
                    let [first, second] = &mut out;
                    m.mul_sums_packed([first, second], [&a, &others], &b, log_repeats);
                    out
                };
                assert_eq!(sums(&stored, log_repeats), sums(&full, 0), "{q} {isa:?} {log_repeats}");
            }
        }
    }
}

/// Sums words and constants close to their bounds, where both parts of an accumulator reduce to
/// nearly twice the modulus.
#[test]
fn sums_of_the_largest_terms_are_canonical() {
    let len = 1 << 12;
    let words = |salt: u64, below: u64| {
        let mut row = vec![0; len];
        Stream::new(&Seed::from_bytes([8; 32]), "large terms", salt).fill(&mut row);
        row.into_iter().map(|x| below - 1 - (x >> 8) % (below >> 3)).collect::<Vec<_>>()
    };
    // Primes all over their range: next to powers of two, reciprocals are nearly integers.
    let spread = (1..30u64).map(|k| previous_prime((30 + k) << 43, 32).unwrap());
    for q in primes(4).into_iter().filter(|&q| q >> 40 != 0).chain(spread) {
        for isa in available() {
            let m = Modulus::with_isa(q, isa).unwrap();
            let bits = if q < 1 << 50 { 52.min(100 - m.bits()) } else { 62 };
            for terms in [1, 2, 7, 8, 15] {
                let mut a: Vec<_> = (0..terms).map(|k| words(k, 1 << bits)).collect();
                a.iter_mut().for_each(|row| row[0] = (1 << bits) - 1);
                let a: Vec<&[u64]> = a.iter().map(Vec::as_slice).collect();
                for c in [words(99, q), vec![q - 1; len]] {
                    let c = &c[..terms as usize];
                    let mut out = vec![0; len];
                    ConstantDot::new(&m, c, &vec![(1 << bits) - 1; c.len()]).dot(&mut out, &a);
                    for (x, found) in out.into_iter().enumerate() {
                        let product = |(a, &c): (&&[u64], &u64)| u128::from(a[x]) * u128::from(c);
                        let sum: u128 = a.iter().zip(c).map(product).sum();
                        assert_eq!(u128::from(found), sum % u128::from(q), "{q} {isa:?} {terms}");
                    }
                }
            }
        }
    }
}

/// Kernels may centre words and constants. Words of 0 and of the maximum next to constants of half
/// of the modulus are then at both ends, alone and in alternation.
#[test]
fn sums_of_words_and_constants_far_from_their_middle_are_canonical() {
    let len = 11;
    for q in primes(4) {
        for (isa, terms) in available().flat_map(|isa| [1, 5, 8, 9, 16, 17, 33].map(|n| (isa, n))) {
            let m = Modulus::with_isa(q, isa).unwrap();
            let bits = if q < 1 << 50 { 52.min(100 - m.bits()) } else { 62 };
            let top = (1u64 << bits) - 1;
            // Bounds of the words by weight: the same, and different ones.
            for bounds in [[top; 5], [top, top / 2, top, top / 2, top / 2]] {
                let most = bounds[4];
                let word = |t: usize, x: usize| match x % 4 {
                    0 => 0,
                    1 => most,
                    2 => most * (t as u64 % 2),
                    _ => most / 2 + t as u64 % 2,
                };
                let rows: Vec<Vec<u64>> =
                    (0..terms).map(|t| (0..len).map(|x| word(t, x)).collect()).collect();
                let rows: Vec<&[u64]> = rows.iter().map(Vec::as_slice).collect();
                let constant = |k: usize, t: usize| q / 2 + ((k + t * (k / 2)) % 2) as u64;
                let weights = [0, 1, 2, 3, 4].map(|k| {
                    let c: Vec<u64> = (0..terms).map(|t| constant(k, t)).collect();
                    ConstantDot::new(&m, &c, &vec![bounds[k]; terms])
                });
                let mut out = vec![vec![9; len]; weights.len()];
                let mut out_rows: Vec<&mut [u64]> = out.iter_mut().map(Vec::as_mut_slice).collect();
                ConstantDot::dots(&weights.each_ref(), &mut out_rows, &rows);
                for (k, x) in (0..weights.len()).flat_map(|k| (0..len).map(move |x| (k, x))) {
                    let product = |t: usize| u128::from(rows[t][x]) * u128::from(constant(k, t));
                    let sum: u128 = (0..terms).map(|t| product(t) % u128::from(q)).sum();
                    let found = u128::from(out[k][x]);
                    assert_eq!(found, sum % u128::from(q), "{q} {isa:?} {terms} {k} {x}");
                }
            }
        }
    }
}

#[test]
fn rejection_keeps_the_words_below_in_order() {
    let mut words = [0; 200];
    for (q, len) in [1u64, 3, 1 << 37, (1 << 37) + 1, (1 << 61) + 3]
        .into_iter()
        .flat_map(|q| [0, 1, 7, 8, 9, 64, 200].map(|len| (q, len)))
    {
        let mask = q.next_power_of_two() - 1;
        Stream::new(&Seed::from_bytes([6; 32]), "rejection", q).fill(&mut words);
        words[0] = q;
        words[7] = q - 1;
        let expected: Vec<u64> =
            words[..len].iter().map(|word| word & mask).filter(|&word| word < q).collect();
        for isa in available() {
            let mut words = words;
            let accepted = super::compact(q, mask, &mut words[..len], isa);
            assert_eq!(words[..accepted], expected, "{len} words below {q} on {isa:?}");
        }
    }
}

#[test]
fn transforms_are_the_same_on_every_table() {
    for log_n in 4..=17 {
        let list = if log_n < 14 { primes(log_n) } else { primes(log_n).split_off(6) };
        for q in list {
            let reference = NttTable::with_isa(q, log_n, Isa::Scalar).unwrap();
            for (case, row) in
                [residues(q, 1 << log_n, 5), vec![q - 1; 1 << log_n]].into_iter().enumerate()
            {
                let mut expected = row.clone();
                reference.forward(&mut expected);
                assert!(expected.iter().all(|&x| x < q));
                for isa in available() {
                    let t = NttTable::with_isa(q, log_n, isa).unwrap();
                    let mut x = row.clone();
                    t.forward(&mut x);
                    assert!(x == expected, "forward 2^{log_n} mod {q} on {isa:?}, case {case}");
                    let mut y = x.clone();
                    let mut z = row.clone();
                    let w = t.modulus().shoup(q - 2);
                    let scaled: Vec<u64> = row.iter().map(|&x| t.modulus().mul(x, q - 2)).collect();
                    let mut far = vec![0; row.len()];
                    t.inverse(&mut x);
                    assert!(x == row, "inverse 2^{log_n} mod {q} on {isa:?}, case {case}");
                    x.copy_from_slice(&expected);
                    t.inverse_scaled(&mut [&mut x, &mut y], w);
                    assert!(x == scaled && y == scaled, "inverses together, 2^{log_n} mod {q}");
                    y.copy_from_slice(&row);
                    t.forward_rows(&mut [&mut z, &mut y]);
                    assert!(y == expected && z == expected, "rows together, 2^{log_n} mod {q}");
                    for (i, &word) in row.iter().enumerate() {
                        z[NttTable::column_place(log_n, i)] = word;
                    }
                    let words = Permutation::block_words(log_n);
                    let blocks = y.chunks_mut(words).zip(expected.chunks(words));
                    for (block, (out, from)) in blocks.enumerate() {
                        t.inverse_lines(block, from, out, &[]);
                    }
                    t.inverse_columns(&mut far, &y, t.modulus().shoup(1));
                    assert!(far == z, "column order 2^{log_n} mod {q} on {isa:?}, case {case}");
                    z.chunks_mut(NttTable::group_words(log_n)).for_each(|g| t.forward_columns(g));
                    for (block, out) in y.chunks_mut(words).enumerate() {
                        t.forward_lines(&z, block, out, &[]);
                    }
                    assert!(y == expected, "halves 2^{log_n} mod {q} on {isa:?}, case {case}");
                }
            }
        }
    }
}

/// Lazy sums enter transforms where both use the same kernels.
#[test]
fn sums_become_evaluations_as_canonical_ones_do() {
    for log_n in [4, 10, 11, 13] {
        let n = 1 << log_n;
        for q in primes(log_n) {
            let evaluations = |isa: Isa, bits: u32, terms: u64| {
                let t = NttTable::with_isa(q, log_n, isa).unwrap();
                let top = (1 << bits) - 1;
                let words = |salt| match salt {
                    0 => vec![top; n],
                    _ => residues(top + 1, n, salt),
                };
                let rows: Vec<Vec<u64>> = (0..terms).map(words).collect();
                let rows: Vec<&[u64]> = rows.iter().map(Vec::as_slice).collect();
                // The maximum number of columns handled together, and one more.
                let weights: Vec<ConstantDot> = (1..=5)
                    .map(|k| vec![q - 1 - k % (q - 1); terms as usize])
                    .map(|c| ConstantDot::new(t.modulus(), &c, &vec![top; terms as usize]))
                    .collect();
                let mut out = vec![vec![9; n]; weights.len()];
                let columns = weights.iter().zip(&mut out);
                let columns = columns.map(|(weights, out)| Column { weights, table: &t, out });
                ConstantDot::columns(&mut columns.collect::<Vec<_>>(), &rows);
                let mut finished = vec![vec![9; n]; out.len()];
                for (half, out) in out.iter().zip(&mut finished) {
                    let words = Permutation::block_words(log_n);
                    for (block, out) in out.chunks_mut(words).enumerate() {
                        t.forward_lines(half, block, out, &[]);
                    }
                }
                finished
            };
            // Narrow words, residues, and wide words.
            for (bits, terms) in [(20, 2), (48, 15), (49, 9), (50, 4), (50, 5), (52, 15), (61, 16)]
            {
                let expected = evaluations(Isa::Scalar, bits, terms);
                assert!(expected.iter().flatten().all(|&x| x < q));
                for isa in available() {
                    let found = evaluations(isa, bits, terms);
                    assert!(found == expected, "{terms} of {bits} bits mod {q} on {isa:?}");
                }
            }
        }
    }
}
