//! Row operations on words that are not residues, through moduli made for words of
//! other moduli, at every length and alignment; each tier against wide integers.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use sudare_arith::{
    ConstantDot, Isa, Modulus, next_prime, previous_prime,
    prng::{Seed, Stream},
};

const TERMS: [usize; 7] = [0, 1, 2, 15, 16, 31, 46];

/// None to two vectors of eight words, with every remainder, and longer rows.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=25).chain([63, 64, 65, 127])
}

/// The smallest, and the ends of each range of kernels.
fn moduli() -> Vec<u64> {
    let mut list = vec![3, 5, 97, (1 << 50) - 27, (1 << 62) - 57];
    for bits in [30, 48, 49, 50, 51, 52, 55, 61, 62] {
        list.push(previous_prime(1 << bits, 32).unwrap());
    }
    for bits in [30, 48, 49, 50, 52, 61] {
        list.push(next_prime(1 << bits, 32).unwrap());
    }
    list
}

/// Each modulus with every instruction set there is, as it is and made for words of each
/// size, with the largest words that `dot` and that `scale` take.
fn cases() -> impl Iterator<Item = (Modulus, u64, u64)> {
    let sets = || Isa::ALL.into_iter().filter(|isa| isa.is_available());
    moduli().into_iter().flat_map(move |q| {
        sets().flat_map(move |isa| {
            let m = Modulus::with_isa(q, isa).unwrap();
            let word = |bits: u32| u64::MAX >> (64 - bits);
            let (dot, scale) = if q < 1 << 50 { (52.min(100 - m.bits()), 52) } else { (62, 64) };
            let made = [30, 50, 51, 52, 53, 62, 64].map(|bits| {
                (m.for_inputs_of(bits), word(bits.clamp(dot, 62)), word(bits.max(scale)))
            });
            core::iter::once((m, word(dot), word(scale))).chain(made)
        })
    })
}

/// Words up to `top`: edges around the multiples of `q` first, then at random.
fn words(q: u64, top: u64, len: usize, salt: u64) -> Vec<u64> {
    let mut stream = Stream::new(&Seed::from_bytes([4; 32]), "rows", salt);
    let edges = [Some(0), Some(1), Some(q - 1), Some(q), Some(q + 1), q.checked_mul(2)];
    let edges =
        edges.into_iter().chain([q.checked_mul(4).map(|x| x - 1), Some(top - 1), Some(top)]);
    let edges: Vec<u64> = edges.flatten().filter(|&x| x <= top).collect();
    (0..len)
        .map(|k| {
            let random = stream.next_u64() >> top.leading_zeros();
            let edge = edges.get((k + salt as usize) % (edges.len() + 3));
            edge.copied().unwrap_or(random.min(top))
        })
        .collect()
}

fn factors(q: u64) -> [u64; 5] {
    [0, 1, q - 1, q / 2, q / 3]
}

#[test]
fn factors_take_words_that_are_not_residues() {
    for (m, _, top) in cases() {
        let q = m.value();
        for len in lengths() {
            let a = words(q, top, len, len as u64);
            let check = |out: &[u64], w: u64, what: &str| {
                for (x, a) in out.iter().zip(&a) {
                    let expected = u128::from(*a) * u128::from(w) % u128::from(q);
                    assert_eq!(u128::from(*x), expected, "{what} {a} {w}, {m:?}");
                }
            };
            let mut out = vec![9; len];
            m.reduce_rows(&mut out, &a);
            check(&out, 1, "reduce_rows");
            for w in factors(q) {
                m.scale(&mut out, &a, m.shoup(w));
                check(&out, w, "scale");
                let mut assigned = a.clone();
                m.scale_assign(&mut assigned, m.shoup(w));
                check(&assigned, w, "scale_assign");
                // Factors are reduced when they are prepared.
                if let Some(above) = w.checked_add(2 * q) {
                    assert_eq!(m.shoup(above), m.shoup(w));
                    assert_eq!(m.shoup(above).value(), w);
                }
            }
        }
    }
}

#[test]
fn dot_takes_words_that_are_not_residues() {
    for (m, top, _) in cases() {
        let q = m.value();
        for terms in TERMS {
            for len in [1, 7, 8, 19] {
                let mut rows: Vec<Vec<u64>> =
                    (0..terms).map(|t| words(q, top, len, (7 * t + len) as u64)).collect();
                // One column where every word is the largest.
                rows.iter_mut().for_each(|row| row[0] = top);
                for constant in [q - 1, q / 2] {
                    let c: Vec<u64> = (0..terms as u64)
                        .map(|t| if t % 4 == 3 { (q / 5).wrapping_mul(t) % q } else { constant })
                        .collect();
                    let a: Vec<&[u64]> = rows.iter().map(Vec::as_slice).collect();
                    let mut out = vec![9; len];
                    ConstantDot::new(&m, &c, &vec![top; terms]).dot(&mut out, &a);
                    for (x, found) in out.iter().enumerate() {
                        let product = |(a, &c): (&&[u64], &u64)| {
                            u128::from(a[x]) * u128::from(c) % u128::from(q)
                        };
                        let sum: u128 = a.iter().zip(&c).map(product).sum();
                        assert_eq!(u128::from(*found), sum % u128::from(q), "{terms} terms, {m:?}");
                    }
                }
            }
        }
    }
}

/// Everything that works on residues, also through moduli made for longer words.
#[test]
fn residues_at_every_length_and_alignment() {
    for (m, ..) in cases() {
        let q = m.value();
        let w = u128::from(m.value());
        for len in lengths() {
            for shift in [0, 1, 3] {
                let rows = [1, 2, 3].map(|salt| words(q, q - 1, len + shift, salt));
                let [a, b, c] = rows.each_ref().map(|row| &row[shift..]);
                let wide = |i: usize| [a, b, c].map(|row| u128::from(row[i]));
                let check = |out: &[u64], what: &str, f: &dyn Fn([u128; 3]) -> u128| {
                    for (i, x) in out.iter().enumerate() {
                        assert_eq!(u128::from(*x), f(wide(i)) % w, "{what}, {i} of {len}, {m:?}");
                    }
                };
                let mut buffer = vec![9; len + shift];
                let out = &mut buffer[shift..];
                m.add_rows(out, a, b);
                check(out, "add", &|[a, b, _]| a + b);
                m.sub_rows(out, a, b);
                check(out, "sub", &|[a, b, _]| a + w - b);
                m.mul_rows(out, a, b);
                check(out, "mul", &|[a, b, _]| a * b);
                m.mul_add(out, a, b, c);
                check(out, "mul_add", &|[a, b, c]| a * b + c);
                m.mul_sum(out, &[a, b, c], &[b, c, a]);
                check(out, "mul_sum", &|[a, b, c]| a * b % w + b * c % w + c * a % w);
                m.mul_sum(out, &[], &[]);
                check(out, "no terms", &|_| 0);
                out.copy_from_slice(a);
                m.add_assign(out, b);
                m.sub_assign(out, c);
                m.neg_assign(out);
                check(out, "assigned", &|[a, b, c]| 3 * w + c - a - b);
                out.copy_from_slice(a);
                m.mul_assign(out, b);
                check(out, "mul_assign", &|[a, b, _]| a * b);
                for s in factors(q) {
                    let f = m.shoup(s);
                    let s128 = u128::from(s);
                    out.copy_from_slice(c);
                    m.scale_add(out, a, f);
                    check(out, "scale_add", &|[a, _, c]| c + a * s128 % w);
                    m.sub_scale(out, a, b, f);
                    check(out, "sub_scale", &|[a, b, _]| (a + w - b) % w * s128);
                    out.copy_from_slice(b);
                    m.sub_scale_from(out, a, f);
                    check(out, "sub_scale_from", &|[a, b, _]| (a + w - b) % w * s128);
                    out.copy_from_slice(a);
                    m.add_constant(out, s);
                    check(out, "add_constant", &|[a, ..]| a + s128);
                }
                // The bytes before the row stay.
                assert!(buffer[..shift].iter().all(|&x| x == 9));
            }
        }
    }
}

#[test]
fn the_tier_follows_the_modulus_and_the_words() {
    let [m47, m48, m49, m50] = [47, 48, 49, 50].map(|bits| format!("avx512ifma-{bits}"));
    let [m47, m48, m49, m50] = [&m47, &m48, &m49, &m50].map(String::as_str);
    let doubles = |name| [name, name, name, name, name, "scalar", "scalar"];
    // Primes of these numbers of bits, and longer words.
    let tiers = [
        (Isa::Scalar, ["scalar"; 7], "scalar"),
        (Isa::Neon, doubles("neon-50"), "scalar"),
        (Isa::Avx2, doubles("avx2-50"), "scalar"),
        (Isa::Avx512, doubles("avx512-50"), "scalar"),
        (Isa::Avx512Ifma, [m47, m47, m48, m49, m50, "avx512-62", "avx512-62"], "avx512-62"),
    ];
    for (isa, names, wide) in tiers.into_iter().filter(|(isa, ..)| isa.is_available()) {
        for (bits, name) in [30, 47, 48, 49, 50, 51, 62].into_iter().zip(names) {
            let m = Modulus::with_isa(previous_prime(1 << bits, 32).unwrap(), isa).unwrap();
            assert_eq!(m.kernel_name(), name, "{bits} bits");
            assert_eq!(m.bits(), bits);
            let longest = 52.min(100 - bits);
            assert_eq!(m.for_inputs_of(longest).kernel_name(), name, "{bits} bits");
            assert_eq!(m.for_inputs_of(longest + 1).kernel_name(), wide, "{bits} bits");
        }
        if isa == Isa::Avx512Ifma {
            let fifth = (1 << 52) / 5;
            let below = Modulus::with_isa(previous_prime(fifth, 32).unwrap(), isa).unwrap();
            let above = Modulus::with_isa(next_prime(fifth, 32).unwrap(), isa).unwrap();
            assert_eq!((below.kernel_name(), above.kernel_name()), ("avx512ifma-49.6", m50));
        }
    }
}

#[test]
fn rows_of_different_lengths_are_refused() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let m = Modulus::new((1 << 50) - 27).unwrap();
    let long = vec![1; 9];
    let short = vec![1; 8];
    let refused = |f: &mut dyn FnMut(&mut [u64])| {
        let mut out = vec![0; 9];
        assert!(catch_unwind(AssertUnwindSafe(|| f(&mut out))).is_err());
    };
    let w = m.shoup(3);
    refused(&mut |out| m.add_rows(out, &long, &short));
    refused(&mut |out| m.sub_rows(out, &short, &long));
    refused(&mut |out| m.add_assign(out, &short));
    refused(&mut |out| m.sub_assign(out, &short));
    refused(&mut |out| m.mul_rows(out, &short, &short));
    refused(&mut |out| m.mul_assign(out, &short));
    refused(&mut |out| m.mul_sum(out, &[&long, &long], &[&long]));
    refused(&mut |out| m.mul_sum(out, &[&long, &short], &[&long, &long]));
    let weights = ConstantDot::new(&m, &[1, 1], &[2, 2]);
    refused(&mut |out| weights.dot(out, &[&long, &short]));
    refused(&mut |out| weights.dot(out, &[&long]));
    refused(&mut |out| m.scale(out, &short, w));
    refused(&mut |out| m.reduce_rows(out, &short));
    refused(&mut |out| m.scale_add(out, &short, w));
    refused(&mut |out| m.mul_add(out, &long, &long, &short));
    refused(&mut |out| m.sub_scale(out, &long, &short, w));
    refused(&mut |out| m.sub_scale_from(out, &short, w));
}
