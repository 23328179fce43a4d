use super::*;

fn modulus(p: u64, e: u32) -> Modulus {
    Modulus::new(p, e).unwrap()
}

/// Returns the first eight bytes of the SHA-256 digest of the coefficients in decimal, with commas.
fn digest(coeffs: &[u128]) -> String {
    let text: Vec<_> = coeffs.iter().map(u128::to_string).collect();
    let hash = sha256(text.join(",").as_bytes());
    format!("{:08x}{:08x}", hash[0], hash[1])
}

/// Computes SHA-256 as in FIPS 180-4.
fn sha256(message: &[u8]) -> [u32; 8] {
    // The first 32 bits of the fractional parts of roots of the first primes.
    let primes: Vec<u32> = (2..312).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
    let fraction = |root: f64| ((root - root.floor()) * 2f64.powi(32)) as u32;
    let round: Vec<u32> = primes.iter().map(|&p| fraction(f64::from(p).cbrt())).collect();
    let mut state = [0; 8];
    for (h, &p) in state.iter_mut().zip(&primes) {
        *h = fraction(f64::from(p).sqrt());
    }
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((message.len() + 9).div_ceil(64) * 64 - 8, 0);
    padded.extend((8 * message.len() as u64).to_be_bytes());
    for block in padded.chunks_exact(64) {
        let word = |word: &[u8]| u32::from_be_bytes(word.try_into().unwrap());
        let mut w: Vec<u32> = block.chunks_exact(4).map(word).collect();
        for i in 16..64 {
            let a = w[i - 15];
            let b = w[i - 2];
            let low = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let high = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            w.push(w[i - 16].wrapping_add(low).wrapping_add(w[i - 7]).wrapping_add(high));
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for i in 0..64 {
            let high = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let first = [high, choice, round[i], w[i]].into_iter().fold(h, u32::wrapping_add);
            let low = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = low.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        }
        for (x, y) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *x = x.wrapping_add(y);
        }
    }
    state
}

#[test]
fn the_digest_is_that_of_the_standard() {
    assert_eq!(sha256(b"abc")[..2], [0xba78_16bf, 0x8f01_cfea]);
    assert_eq!(sha256(b"")[..2], [0xe3b0_c442, 0x98fc_1c14]);
}

/// Checks the function at all residues, or at many from all classes modulo `p`.
fn check_retains(g: &ResiduePolynomial) {
    let t = g.modulus();
    let work = t.value().saturating_mul(g.degree() as u128);
    // Steps are coprime to `p`.
    let step = (work / 5_000_000) as usize * t.prime() as usize + 1;
    for x in (0..t.value()).step_by(step) {
        let digit = t.reduce_i128(lowest_digit(t.prime(), (x % u128::from(t.prime())) as u64));
        assert_eq!(g.evaluate(x), digit, "{t}: {x}");
    }
}

/// Exponents from 1 with the digests of the polynomials.
const RETAIN: [(u64, &[&str]); 8] = [
    (
        2,
        &[
            "83b97b859aa5f81b",
            "c54d94ef5f237b68",
            "cc41b0a149395064",
            "6a9376fda7c8abb1",
            "e32e0ca075cacef1",
            "e0a9cd60e2c4be26",
            "08e68b028566a682",
            "199349333e9b9375",
            "b234930d0bcd473c",
            "b366e97ca040f604",
            "90e721fb6909eb05",
            "aa82da83f6f487b0",
        ],
    ),
    (
        3,
        &[
            "83b97b859aa5f81b",
            "c4b2a5b533a5c608",
            "20217821ff0f890e",
            "84f617f8559a9ec4",
            "757a7b1e3966d154",
            "de3ac01ee701d8bb",
        ],
    ),
    (
        5,
        &[
            "83b97b859aa5f81b",
            "7dd07d3d8ed4016f",
            "ec2bdcf7cff70ba5",
            "f0b2baa48e63ea19",
            "72972d553e6456bb",
        ],
    ),
    (7, &["83b97b859aa5f81b", "b7b7eabd76438a83", "e3440118b92ae4cd", "ab464f83f0c5a6d7"]),
    (17, &["83b97b859aa5f81b", "d75ebb69b372ac23", "3eedd528bf16d72a", "dba84a87bf97f5f1"]),
    (31, &["83b97b859aa5f81b", "8c6ec8b274b31d75", "bc2ad6e808b816f2"]),
    (127, &["83b97b859aa5f81b", "d6a7e0bc7bd9ce35", "31c4764e9f84bd0c"]),
    (257, &["83b97b859aa5f81b", "bd758930a231abe1", "b0aca2fffbfc6561"]),
];

const RETAIN_ODD: [(u64, &[&str]); 7] = [
    (
        3,
        &[
            "83b97b859aa5f81b",
            "c4b2a5b533a5c608",
            "736e4455b15d92ea",
            "9ade361e0104482a",
            "8c4e226ff5ffb30b",
            "18adc7e2ce17de24",
        ],
    ),
    (
        5,
        &[
            "83b97b859aa5f81b",
            "7dd07d3d8ed4016f",
            "77dbfcf8d7a9e776",
            "800af031f7370b98",
            "ff77b13cc3c4224c",
        ],
    ),
    (7, &["83b97b859aa5f81b", "b7b7eabd76438a83", "ed0c83ad80f26199", "da80805a4cad7f3e"]),
    (17, &["83b97b859aa5f81b", "d75ebb69b372ac23", "5fc83a5f10ad2678", "a1521b66d640bf3d"]),
    (31, &["83b97b859aa5f81b", "8c6ec8b274b31d75", "b27ab4b1357bd8f7"]),
    (127, &["83b97b859aa5f81b", "d6a7e0bc7bd9ce35", "d86be5609dec9dbe"]),
    (257, &["83b97b859aa5f81b", "bd758930a231abe1", "3b41cfc84703a84c"]),
];

#[test]
fn lowest_digits_are_retained() {
    for (p, digests) in RETAIN {
        for (e, expected) in (1..).zip(digests) {
            let g = ResiduePolynomial::retain(modulus(p, e)).unwrap();
            assert_eq!(g.degree() as u64, u64::from(e - 1) * (p - 1) + 1);
            assert_eq!(&digest(g.coeffs()), expected, "{p}^{e}");
            check_retains(&g);
        }
    }
}

#[test]
fn symmetric_polynomials_retain_the_same() {
    for (p, digests) in RETAIN_ODD {
        for (e, expected) in (1..).zip(digests) {
            let g = ResiduePolynomial::retain_symmetric(modulus(p, e)).unwrap();
            assert!(g.is_odd() && g.degree() as u64 <= u64::from(e - 1) * (p - 1) + 1);
            assert_eq!(&digest(g.coeffs()), expected, "{p}^{e}");
            check_retains(&g);
        }
    }
    for e in 1..=16 {
        let g = ResiduePolynomial::retain_symmetric(modulus(2, e)).unwrap();
        assert!(g.is_even() && g.degree() <= e as usize + 1);
        check_retains(&g);
    }
}

#[test]
fn coefficients_are_those_known() {
    let retain = |e| ResiduePolynomial::retain(modulus(2, e)).unwrap().coeffs;
    assert_eq!(retain(2), [0, 2, 3]);
    assert_eq!(retain(3), [0, 6, 5, 6]);
    assert_eq!(retain(4), [0, 0, 4, 8, 5]);
    assert_eq!(retain(5), [0, 0, 8, 18, 9, 30]);
    assert_eq!(retain(6), [0, 48, 20, 60, 23, 52, 54]);
    assert_eq!(retain(7), [0, 112, 100, 92, 99, 40, 122, 76]);
    assert_eq!(retain(8), [0, 0, 0, 0, 32, 32, 84, 96, 13]);
    let symmetric = |p, e| {
        let all = ResiduePolynomial::retain_symmetric(modulus(p, e)).unwrap().coeffs;
        all.into_iter().skip(usize::from(p != 2)).step_by(2).collect::<Vec<_>>()
    };
    // The even powers first, then the odd ones.
    assert_eq!(symmetric(2, 2), [0, 1]);
    assert_eq!(symmetric(2, 3), [0, 4, 5]);
    assert_eq!(symmetric(2, 4), [0, 8, 9]);
    assert_eq!(symmetric(2, 5), [0, 20, 23, 22]);
    assert_eq!(symmetric(2, 6), [0, 36, 35, 58]);
    assert_eq!(symmetric(2, 7), [0, 0, 32, 84, 13]);
    assert_eq!(symmetric(2, 8), [0, 160, 104, 132, 117]);
    assert_eq!(symmetric(3, 2), [0, 1]);
    assert_eq!(symmetric(3, 3), [18, 16, 21]);
    assert_eq!(symmetric(3, 4), [18, 64, 69, 12]);
    assert_eq!(symmetric(3, 5), [0, 81, 153, 198, 55]);
    assert_eq!(symmetric(5, 2), [0, 20, 6]);
    assert_eq!(symmetric(5, 3), [0, 35, 26, 85, 105]);
    assert_eq!(symmetric(5, 4), [375, 620, 561, 465, 85, 35, 360]);
    assert_eq!(symmetric(7, 2), [0, 0, 35, 15]);
    assert_eq!(symmetric(7, 3), [0, 0, 105, 302, 0, 322, 301]);
    let bounded = ResiduePolynomial::bounded_removal(modulus(17, 2), 3).unwrap();
    assert_eq!(bounded.centered(), [0, 1, 0, -41, 0, -95, 0, -97, 0, -31, 0, -29, 0, 3]);
}

/// The closed form is `x + x (x^2 - 1) (x^2 - 4) .. (x^2 - ((p-1)/2)^2)`.
#[test]
fn retaining_modulo_squares_has_a_closed_form() {
    for p in [3, 5, 7, 17, 31, 127, 257] {
        let t = modulus(p, 2);
        let factors = (1..=i128::from(p / 2)).map(|i| [t.reduce_i128(-i * i), 0, 1]);
        let all = factors.fold(vec![0, 1], |all, factor| product(t, &all, &factor));
        let closed = ResiduePolynomial::new(t, sum(t, &all, &[0, 1])).unwrap();
        assert!(closed.is_odd() && closed.degree() as u64 == p);
        check_retains(&closed);
    }
}

#[test]
fn digits_are_lifted() {
    for (p, e, expected) in [
        (2, 8, "d7d89f8004eac51a"),
        (3, 5, "c4b2a5b533a5c608"),
        (5, 4, "88cacd047827fcaf"),
        (7, 3, "7d435ee63dbf2c62"),
        (17, 3, "f97f07d44e90c348"),
        (31, 2, "8fe91f5a22d172d9"),
        (127, 2, "4e333bc5336090f4"),
        (257, 2, "16754cff38bdba3c"),
    ] {
        let f = ResiduePolynomial::lifting(modulus(p, e + 1)).unwrap();
        assert_eq!(f.degree() as u64, p);
        assert_eq!(digest(f.coeffs()), expected, "{p}^{}", e + 1);
        for k in 1..=e {
            let power = modulus(p, k);
            let above = modulus(p, k + 1);
            for digit in (0..p).map(|z| lowest_digit(p, z)) {
                for y in 0..u128::from(p) {
                    let x = f.modulus().reduce_i128(digit + (power.value() * y) as i128);
                    let value = above.reduce(f.evaluate(x));
                    assert_eq!(value, above.reduce_i128(digit), "{p}, {k}: {digit}, {y}");
                }
            }
        }
    }
    let coeffs = |p, e| ResiduePolynomial::lifting(modulus(p, e)).unwrap().centered();
    assert_eq!(coeffs(2, 9), [0, 0, 1]);
    assert_eq!(coeffs(3, 6), [0, 0, 0, 1]);
    assert_eq!(coeffs(5, 5), [0, 5, 0, -5, 0, 1]);
    assert_eq!(coeffs(7, 4), [0, -35, 0, 49, 0, -14, 0, 1]);
    assert_eq!(coeffs(7, 1), [0, 0, 0, 0, 0, 0, 0, 1]);
}

/// Checks that `f` maps `i + p y` to `p y` for `|i| <= bound`, and does not for `bound + 1`.
fn check_bounded(f: &ResiduePolynomial, bound: u32) {
    let t = f.modulus();
    let p = u128::from(f.modulus().prime());
    let multiples = t.value() / p;
    // A number of places that takes about the same time for every degree.
    let places = (2_000_000 / (f.degree() as u128 * u128::from(2 * bound + 1))).max(2);
    let step = (multiples / places).max(1);
    let bound = i128::from(bound);
    let mut wrong = 0;
    for y in (0..places.min(multiples)).map(|k| k * step) {
        let at = |i: i128| f.evaluate(t.add(t.reduce_i128(i), p * y));
        for i in -bound..=bound {
            assert_eq!(at(i), p * y, "{t}: {i} + {y} p");
        }
        wrong += u32::from(at(bound + 1) != p * y) + u32::from(at(-bound - 1) != p * y);
    }
    assert!(wrong > 0, "{t}: right beyond {bound}");
}

#[test]
fn bounded_digits_are_removed_modulo_squares() {
    for (p, bound, expected) in [
        (127, 13, "9706359fa1b5a456"),
        (127, 28, "703ab3baebd9412d"),
        (257, 13, "2d897cea6d3c2ce9"),
        (257, 16, "2073fbde0076076c"),
        (257, 28, "fe65af75c8604af5"),
        (8191, 13, "6c4a57436ed94a44"),
        (65537, 13, "fd65aa1a07c93a88"),
        (65537, 16, "1d1b0645837d1cd6"),
        (786_433, 16, "ee52ec0d81854246"),
        (127, 15, "e9b7f5e51d7d1aee"),
        (257, 15, "9ba3e2f666084f77"),
        (8191, 15, "447a60bb11de7a53"),
        (65537, 15, "be8ef358ff58b628"),
        (786_433, 15, "69a9661b2c50288c"),
    ] {
        let f = ResiduePolynomial::bounded_removal(modulus(p, 2), bound).unwrap();
        assert_eq!(f.degree(), 4 * bound as usize + 1);
        assert!(f.is_odd());
        assert_eq!(digest(f.coeffs()), expected, "{p}, {bound}");
        check_bounded(&f, bound);
    }
}

#[test]
fn bounded_digits_are_removed_modulo_every_power() {
    let large = sudare_arith::previous_prime(1 << 60, 1).unwrap();
    for (p, e, bound) in [
        (31, 3, 7),
        (127, 3, 15),
        (257, 3, 15),
        (127, 4, 15),
        (257, 8, 5),
        (5, 6, 1),
        (65537, 7, 15),
        (large, 2, 15),
        (11, 5, 0),
    ] {
        let f = ResiduePolynomial::bounded_removal(modulus(p, e), bound).unwrap();
        assert!(f.is_odd() && f.degree() < (e * (2 * bound + 1)) as usize);
        check_bounded(&f, bound);
    }
    // Digits of every size.
    let f = ResiduePolynomial::bounded_removal(modulus(7, 3), 3).unwrap();
    check_retains(&ResiduePolynomial::bounded_retain(modulus(7, 3), 3).unwrap());
    assert!(f.degree() < 21);
}

/// Retaining polynomials of the same degree, computed by division from the polynomials for all
/// digits.
#[test]
fn bounded_polynomials_are_remainders_of_those_of_all_digits() {
    for (p, e, bound, degree, expected) in [
        (31, 3, 7, 43, "af891bdee95562b0"),
        (127, 2, 15, 61, "9452688402ddb97a"),
        (127, 3, 15, 91, "2d513fdfdfa13a92"),
        (257, 2, 15, 61, "0a1e80a01402a391"),
        (257, 3, 15, 91, "e9a0dc184a330c7f"),
        (127, 4, 15, 123, "81b9d8d2fe416195"),
    ] {
        let t = modulus(p, e);
        let mut divisor = vec![1];
        for i in -i128::from(bound)..=i128::from(bound) {
            for _ in 0..e {
                divisor = product(t, &divisor, &[t.reduce_i128(-i), 1]);
            }
        }
        let mut rest = ResiduePolynomial::retain_symmetric(t).unwrap().coeffs;
        for high in (divisor.len() - 1..rest.len()).rev() {
            let factor = rest[high];
            for (x, &d) in rest[high + 1 - divisor.len()..].iter_mut().zip(&divisor) {
                *x = t.sub(*x, t.mul(factor, d));
            }
        }
        let rest = ResiduePolynomial::trimmed(t, rest);
        assert_eq!((rest.degree(), digest(rest.coeffs()).as_str()), (degree, expected));
        let ours = ResiduePolynomial::bounded_retain(t, bound).unwrap();
        assert!(ours.degree() <= degree, "{t}: {}", ours.degree());
        let multiples = t.value() / u128::from(p);
        for y in (0..multiples).step_by(multiples as usize / 100 + 1) {
            for i in -i128::from(bound)..=i128::from(bound) {
                let x = t.add(t.reduce_i128(i), u128::from(p) * y);
                assert_eq!(
                    (rest.evaluate(x), ours.evaluate(x)),
                    (t.reduce_i128(i), t.reduce_i128(i))
                );
            }
        }
    }
}

#[test]
fn missing_names_are_refused() {
    let refused = |found: Result<ResiduePolynomial>| match found {
        Err(Error::Circuit(message)) => message,
        other => panic!("{other:?}"),
    };
    let message = refused(ResiduePolynomial::retain(modulus(65537, 2)));
    assert!(message.contains("degree 65537") && message.contains("bound"), "{message}");
    refused(ResiduePolynomial::retain(modulus(3, 70)));
    refused(ResiduePolynomial::lifting(modulus(65537, 2)));
    let message = refused(ResiduePolynomial::bounded_removal(modulus(17, 2), 9));
    assert!(message.contains("at most 8 are digits"), "{message}");
    refused(ResiduePolynomial::bounded_removal(modulus(2, 2), 0));
    refused(ResiduePolynomial::bounded_removal(modulus(65537, 2), 4000));
    let t = modulus(5, 1);
    assert!(matches!(ResiduePolynomial::new(t, vec![0, 5]), Err(Error::ValueOutOfRange { .. })));
    assert_eq!(ResiduePolynomial::new(t, vec![1, 2, 0]).unwrap().coeffs(), [1, 2]);
    assert_eq!(ResiduePolynomial::new(t, vec![]).unwrap().evaluate(3), 0);
}
