use super::*;
use crate::{
    Error,
    ring::{Eval, LimbSet, RnsPoly},
    rlwe::{
        EncryptionKey, GaloisElement, KeyGenerator, KeyRequest, Level, Noise, Params, Raise,
        SecretDistribution, SecretKey, Spec, SwitchingKey, canonical_limit,
        keygen::{encrypt_zero, expand},
        secret::canonical_norm,
        security_bits,
    },
};
use sudare_arith::{
    mem::Secrecy,
    previous_prime,
    prng::{Seed, Stream},
    sample,
};

/// The parties of a ceremony, and all of their messages.
pub(crate) struct Group {
    pub(crate) ceremony: Ceremony,
    pub(crate) commitments: Vec<Commitment>,
    pub(crate) first: Vec<Vec<u8>>,
    pub(crate) last: Vec<Vec<u8>>,
    roots: Vec<Seed>,
}

impl Group {
    /// Makes keys with all parties.
    pub(crate) fn new(params: &Params, sharing: &Sharing, request: &KeyRequest, id: u8) -> Self {
        let ceremony = Ceremony::new(params, sharing, request, [id; 32]).unwrap();
        let roots: Vec<Seed> =
            (0..sharing.parties()).map(|i| Seed::from_bytes([id ^ (i as u8 + 1); 32])).collect();
        let joined =
            || roots.iter().enumerate().map(|(i, root)| Joined::new(&ceremony, i, root).unwrap());
        let commitments: Vec<_> = joined().map(|joined| joined.commitment().unwrap()).collect();
        let mut first = Vec::new();
        let mut shared = Vec::new();
        for joined in joined() {
            let mut message = Vec::new();
            shared.push(joined.share(&commitments, &mut message).unwrap());
            assert_eq!(message.len() as u64, ceremony.first_bytes());
            first.push(message);
        }
        let sums = FirstSums::read(&ceremony, &commitments, slices(&first)).unwrap();
        let finish = |shared: Shared| {
            let mut message = Vec::new();
            shared.finish(&sums, &mut message).unwrap();
            assert_eq!(message.len() as u64, ceremony.last_bytes());
            message
        };
        let last = shared.into_iter().map(finish).collect();
        Self { ceremony, commitments, first, last, roots }
    }

    pub(crate) fn keys(&self) -> JointKeys {
        let first = slices(&self.first);
        combine(&self.ceremony, &self.commitments, first, slices(&self.last)).unwrap()
    }

    /// Returns the pieces of a party, with those that others sent it.
    pub(crate) fn pieces(&self, party: usize) -> Pieces {
        let received = self.received(party);
        let root = &self.roots[party];
        Pieces::new(&self.ceremony, party, root, &received, &self.commitments).unwrap()
    }

    fn received(&self, party: usize) -> Vec<(usize, Seed)> {
        let sharing = self.ceremony.sharing();
        let others = (0..sharing.parties()).filter(|&other| other != party);
        let dealt = others.flat_map(|other| {
            Joined::new(&self.ceremony, other, &self.roots[other]).unwrap().pieces().unwrap()
        });
        dealt.filter(|&(piece, _)| sharing.holds(party, piece)).collect()
    }

    /// Returns the coefficients of the joint secret.
    pub(crate) fn secret(&self) -> Vec<i64> {
        let parties = 0..self.ceremony.sharing().parties();
        parties.map(|party| self.dealt(party)).reduce(|a, b| sum(&a, &b)).unwrap()
    }

    /// Returns the coefficients of the pieces that a party draws.
    fn dealt(&self, party: usize) -> Vec<i64> {
        let params = self.ceremony.params();
        let dealt = self.ceremony.sharing().dealt_by(party).map(|piece| {
            let seed = pieces::drawn(&self.ceremony, &self.roots[party], piece);
            let coeffs = pieces::coefficients(params, &seed);
            coeffs.as_signed().iter().map(|&c| c.into()).collect::<Vec<i64>>()
        });
        dealt.reduce(|a, b| sum(&a, &b)).unwrap_or_else(|| vec![0; params.basis().n()])
    }

    /// Returns the joint secret as a key, which no party of a ceremony has.
    pub(crate) fn secret_key(&self) -> SecretKey {
        let coeffs: Vec<i8> = self.secret().iter().map(|&c| c as i8).collect();
        SecretKey::new(self.ceremony.params(), self.ceremony.key_id(), &coeffs)
    }
}

fn slices(messages: &[Vec<u8>]) -> Vec<&[u8]> {
    messages.iter().map(|message| &message[..]).collect()
}

fn params(log_n: u32, sharing: &Sharing) -> Params {
    let step = 2 << log_n;
    let prime = |end: u64| previous_prime(end, step).unwrap();
    let base = prime(1 << 40);
    let level = prime(1 << 36);
    let special = prime(1 << 44);
    Params::new(Spec {
        log_n,
        q: vec![vec![base], vec![level], vec![prime(level)]],
        upper: None,
        p: vec![special, prime(special)],
        extra_p: vec![],
        secret: sharing.distribution(),
        security_bits: None,
    })
    .unwrap()
}

fn sum(a: &[i64], b: &[i64]) -> Vec<i64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn negated(a: &[i64]) -> Vec<i64> {
    a.iter().map(|a| -a).collect()
}

/// Product modulo `X^N + 1`, by the definition.
fn product(a: &[i64], b: &[i64], q: i128) -> Vec<i64> {
    let n = a.len();
    let mut out = vec![0_i128; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let sign = if i + j < n { 1 } else { -1 };
            let at = (i + j) % n;
            out[at] = (out[at] + sign * i128::from(x) * i128::from(y)) % q;
        }
    }
    out.into_iter().map(|x| x as i64).collect()
}

/// `X -> X^g`, by the definition.
fn image(a: &[i64], g: usize) -> Vec<i64> {
    let n = a.len();
    let mut out = vec![0; n];
    for (i, &x) in a.iter().enumerate() {
        let at = i * g % (2 * n);
        out[at % n] = if at < n { x } else { -x };
    }
    out
}

fn drawn(seed: &Seed, label: &str, index: u64, n: usize) -> Vec<i64> {
    let mut coeffs = vec![0; n];
    match label {
        "error" => sample::cbd21(&mut Stream::new(seed, label, index), &mut coeffs),
        _ => sample::ternary(&mut Stream::new(seed, label, index), &mut coeffs),
    }
    coeffs.into_iter().map(i64::from).collect()
}

/// Coefficients of packed rows: the residues of a half of a key, by digit and by prime.
fn rows(params: &Params, key: &SwitchingKey, second: bool) -> Vec<Vec<Vec<i64>>> {
    let half = if second { key.second.as_ref().unwrap() } else { &key.first };
    let limbs = key.limbs();
    let row = |digit, i| {
        let table = params.basis().table(limbs, i);
        let mut row = vec![0; params.basis().n()];
        assert!(table.modulus().unpack(&mut row, half.row(digit, i)));
        table.inverse(&mut row);
        row.into_iter().map(|x| x as i64).collect()
    };
    (0..half.count()).map(|digit| (0..limbs.count()).map(|i| row(digit, i)).collect()).collect()
}

fn coefficients(params: &Params, a: &RnsPoly<Eval>) -> Vec<Vec<i64>> {
    let a = params.basis().into_coeff(a.clone());
    a.rows().map(|row| row.iter().map(|&x| x as i64).collect()).collect()
}

fn assert_congruent(found: &[i64], expected: &[i64], q: i64) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!((found - expected).rem_euclid(q), 0, "{found} {expected} modulo {q}");
    }
}

/// Every key is the key of the summed secret with the summed errors, in schoolbook integers, and
/// every error follows from its sender's root as the notes say.
#[test]
fn joint_keys_are_the_keys_of_sums() {
    for (parties, threshold) in [(2, 2), (3, 3), (3, 2)] {
        let sharing = Sharing::new(parties, threshold).unwrap();
        let params = &params(4, &sharing);
        let top = params.top();
        let g = GaloisElement::rotation(4, 3);
        let request = KeyRequest::new()
            .relinearize(top)
            .automorphism(g, Level(1))
            .automorphism(GaloisElement::conjugation(4), top);
        let group = Group::new(params, &sharing, &request, 7);
        let keys = group.keys();
        assert_eq!(keys.evaluation.fulfils(), request);
        let ceremony = &group.ceremony;
        let s = group.secret();
        let n = s.len();
        let hex = blake3::Hash::from(*ceremony.id()).to_hex();
        let seeds = |number: u64| {
            let of = |root: &Seed| {
                root.derive(&format!("first share {hex}"), 0).derive("object", number)
            };
            group.roots.iter().map(of).collect::<Vec<_>>()
        };
        let errors = |seeds: &[Seed], digit: u64| {
            seeds
                .iter()
                .map(|seed| drawn(seed, "error", digit, n))
                .reduce(|a, b| sum(&a, &b))
                .unwrap()
        };
        let basis = params.basis();
        let prime = |limbs: LimbSet, i| basis.modulus(limbs, i).value() as i64;
        // `P` modulo the primes of a digit, and 0 modulo the others.
        let factor = |limbs: LimbSet, digit: usize, i: usize| {
            let owned = &params.digit_primes_of(limbs)[digit];
            let q = i128::from(prime(limbs, i));
            let special = params.spec().p.iter().fold(1, |p, &k| p * i128::from(k) % q);
            if owned.contains(&i) { special } else { 0 }
        };
        let times = |a: &[i64], factor: i128, q: i64| -> Vec<i64> {
            a.iter().map(|&a| (i128::from(a) * factor % i128::from(q)) as i64).collect()
        };

        let limbs = params.limbs(top);
        let [b, a] = keys.public.zero.each_ref().map(|half| coefficients(params, half));
        for i in 0..limbs.count() {
            let q = prime(limbs, i);
            let found = sum(&b[i], &product(&a[i], &s, q.into()));
            assert_congruent(&found, &errors(&seeds(1), 0), q);
        }

        let relinearize = keys.evaluation.relinearize.as_ref().unwrap();
        let limbs = relinearize.limbs();
        let of_first = seeds(2);
        let of_second: Vec<Seed> = of_first.iter().map(|s| s.derive("second half", 0)).collect();
        let u: Vec<i64> = of_first
            .iter()
            .map(|seed| drawn(seed, "ephemeral secret", 0, n))
            .reduce(|a, b| sum(&a, &b))
            .unwrap();
        let sums = FirstSums::read(ceremony, &group.commitments, slices(&group.first)).unwrap();
        let transcript = blake3::Hash::from(*sums.transcript()).to_hex();
        let of_last: Vec<Seed> = group
            .roots
            .iter()
            .map(|root| root.derive(&format!("last share {transcript}"), 0).derive("object", 2))
            .collect();
        let halves = [false, true].map(|second| rows(params, relinearize, second));
        let [first, second] = &halves;
        for (digit, (first, second)) in first.iter().zip(second).enumerate() {
            let e0 = errors(&of_first, digit as u64);
            let e1 = negated(&errors(&of_second, digit as u64));
            let e2 = errors(&of_last, digit as u64);
            for (i, (first, second)) in first.iter().zip(second).enumerate() {
                let q = prime(limbs, i);
                let found = sum(first, &product(second, &s, q.into()));
                let square = times(&product(&s, &s, q.into()), factor(limbs, digit, i), q);
                let error = sum(&product(&s, &e0, q.into()), &product(&u, &e1, q.into()));
                assert_congruent(&found, &sum(&square, &sum(&error, &e2)), q);
            }
        }

        // In ascending order of the elements: the conjugation is the largest.
        for (number, (g, key)) in (3..).zip(&keys.evaluation.galois) {
            let limbs = key.key.limbs();
            let seed = key.key.seed().unwrap();
            let to = image(&s, g.inverse(4).0 as usize);
            for (digit, rows) in rows(params, &key.key, false).iter().enumerate() {
                let a = coefficients(params, &expand(params, limbs, seed, digit as u64));
                for (i, b) in rows.iter().enumerate() {
                    let q = prime(limbs, i);
                    let found = sum(b, &product(&a[i], &to, q.into()));
                    let expected = sum(
                        &times(&s, factor(limbs, digit, i), q),
                        &errors(&seeds(number), digit as u64),
                    );
                    assert_congruent(&found, &expected, q);
                }
            }
        }
    }
}

fn centered(row: &[i64], q: i64) -> Vec<f64> {
    row.iter()
        .map(|&x| {
            (if 2 * x.rem_euclid(q) > q { x.rem_euclid(q) - q } else { x.rem_euclid(q) }) as f64
        })
        .collect()
}

fn log2_sd(values: &[f64]) -> f64 {
    (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).log2() / 2.0
}

/// The errors of joint keys and of encryptions under them have the predicted size.
#[test]
fn noise_is_what_the_formulas_say() {
    for (parties, threshold) in [(3, 3), (4, 3)] {
        let sharing = Sharing::new(parties, threshold).unwrap();
        let log_n = 10;
        let params = &params(log_n, &sharing);
        let request = KeyRequest::new().relinearize(params.top());
        let group = Group::new(params, &sharing, &request, 9);
        let keys = group.keys();
        let secret = group.secret_key();
        let basis = params.basis();
        let key = keys.evaluation.relinearize.as_ref().unwrap();
        // Modulo the last special prime the key encrypts 0.
        let limbs = key.limbs();
        let last = limbs.count() - 1;
        let table = basis.table(limbs, last);
        let m = table.modulus();
        let mut errors = Vec::new();
        for digit in 0..key.first.count() {
            let [b, a] = [&key.first, key.second.as_ref().unwrap()].map(|half| {
                let mut row = vec![0; basis.n()];
                assert!(m.unpack(&mut row, half.row(digit, last)));
                row
            });
            let s = secret.s.row(limbs.place(last, basis.all()));
            let mut e: Vec<u64> = (0..basis.n()).map(|j| m.add(b[j], m.mul(a[j], s[j]))).collect();
            table.inverse(&mut e);
            errors.extend(e.into_iter().map(|e| m.centered(e) as f64));
        }
        let p = parties as f64;
        let pieces = sharing.pieces() as f64;
        let variance = 10.5 * p * (2.0 / 3.0 * 1024.0 * (pieces + p) + 1.0);
        let found = log2_sd(&errors);
        assert!((found - variance.log2() / 2.0).abs() < 0.1, "{found} {}", variance.log2() / 2.0);

        let zero = basis.zero(params.limbs(Level(0)));
        let mut errors = Vec::new();
        for i in 0..8 {
            let seed = Seed::from_bytes([i; 32]);
            let fresh = keys.public.encrypt(params, &zero, Level(0), &seed).unwrap();
            let phase = secret.phase(params, &fresh, params.limbs(Level(0))).unwrap();
            let q = basis.modulus(params.limbs(Level(0)), 0).value() as i64;
            errors.extend(centered(&coefficients(params, &phase)[0], q));
        }
        let found = log2_sd(&errors);
        let expected = Noise::fresh(params).log2_sd();
        assert!((found - expected).abs() < 0.1, "{found} {expected}");
        let relinearized = Noise::relinearization(params, params.top()).log2_sd();
        assert!(relinearized > Noise::key_switch(params, params.top()).log2_sd());
    }
}

/// The first polynomial of a message, the share of the public key.
fn public_share(ceremony: &Ceremony, message: &[u8]) -> RnsPoly<Eval> {
    polys(ceremony, message, ceremony.params().limbs(ceremony.params().top()), 1).remove(0)
}

fn polys(
    ceremony: &Ceremony,
    mut bytes: &[u8],
    limbs: LimbSet,
    count: usize,
) -> Vec<RnsPoly<Eval>> {
    let basis = ceremony.params().basis();
    let mut read = || {
        let mut poly: RnsPoly<Eval> = basis.take(limbs);
        for (table, row) in basis.tables(limbs).zip(poly.rows_mut()) {
            let (packed, rest) = bytes.split_at(basis.packed_row_bytes(table));
            bytes = rest;
            assert!(table.modulus().unpack(row, packed));
        }
        poly
    };
    (0..count).map(|_| read()).collect()
}

fn packed(ceremony: &Ceremony, polys: &[RnsPoly<Eval>]) -> Vec<u8> {
    let basis = ceremony.params().basis();
    let mut bytes = Vec::new();
    for poly in polys {
        for (table, row) in basis.tables(poly.limbs()).zip(poly.rows()) {
            let start = bytes.len();
            bytes.resize(start + basis.packed_row_bytes(table), 0);
            table.modulus().pack(&mut bytes[start..], row);
        }
    }
    bytes
}

/// A party that answers after it saw all other shares chooses the joint public key. Its digest,
/// published before, stops it.
#[test]
fn the_last_party_cannot_choose_the_public_key() {
    let sharing = Sharing::new(3, 3).unwrap();
    let params = &params(6, &sharing);
    let group = Group::new(params, &sharing, &KeyRequest::new(), 3);
    let ceremony = &group.ceremony;
    let basis = params.basis();
    let own = drawn(&Seed::from_bytes([99; 32]), "own", 0, 64);
    let own: Vec<i8> = own.into_iter().map(|c| c as i8).collect();
    let own = SecretKey::new(params, ceremony.key_id(), &own);
    let public = ceremony.public_seed(&ceremony.objects()[0]);
    let limbs = params.limbs(params.top());
    let [mut b, _] = encrypt_zero(params, &own.s, limbs, &Seed::from_bytes([98; 32]), &public, 0);
    for honest in &group.first[..2] {
        basis.sub_assign(&mut b, &public_share(ceremony, honest));
    }
    let chosen = packed(ceremony, &[b]);
    let messages = [group.first[0].clone(), group.first[1].clone(), chosen.clone()];
    let none = || slices(&group.last);

    let refused = combine(ceremony, &group.commitments, slices(&messages), none()).unwrap_err();
    assert_eq!(refused, Error::OtherShare { party: 2 });

    // Without the rule it commits to what it chose, and then decrypts everything alone.
    let mut late = group.commitments.clone();
    late[2].first = *blake3::hash(&chosen).as_bytes();
    let keys = combine(ceremony, &late, slices(&messages), none()).unwrap();
    let zero = basis.zero(params.limbs(Level(0)));
    let seed = Seed::from_bytes([1; 32]);
    let fresh = keys.public.encrypt(params, &zero, Level(0), &seed).unwrap();
    let q = basis.modulus(params.limbs(Level(0)), 0).value() as i64;
    let error = |key: &SecretKey| {
        let phase = key.phase(params, &fresh, params.limbs(Level(0))).unwrap();
        log2_sd(&centered(&coefficients(params, &phase)[0], q))
    };
    assert!(error(&own) < 8.0, "{}", error(&own));
    assert!(error(&group.secret_key()) > 30.0);
}

/// A party that answers last makes `h_1` zero and `h_0` a constant, so that every second share shows
/// its sender's secret. Its digest stops it.
#[test]
fn the_last_party_cannot_choose_the_first_shares() {
    let sharing = Sharing::new(3, 3).unwrap();
    let params = &params(6, &sharing);
    let request = KeyRequest::new().relinearize(params.top());
    let group = Group::new(params, &sharing, &request, 4);
    let ceremony = &group.ceremony;
    let basis = params.basis();
    let object = &ceremony.objects()[1];
    let digits = object.digits.len();
    let start = packed(ceremony, &[public_share(ceremony, &group.first[0])]).len();
    let halves = |message: &[u8]| polys(ceremony, &message[start..], object.limbs, 2 * digits);
    const CONSTANT: u64 = 1 << 20;
    let mut chosen: Vec<RnsPoly<Eval>> = (0..2 * digits)
        .map(|i| {
            let zero = basis.zero(object.limbs);
            basis.add_constant(&zero, |_| if i < digits { CONSTANT } else { 0 })
        })
        .collect();
    for honest in &group.first[..2] {
        for (chosen, honest) in chosen.iter_mut().zip(halves(honest)) {
            basis.sub_assign(chosen, &honest);
        }
    }
    let public = public_share(ceremony, &group.first[2]);
    let chosen = [packed(ceremony, &[public]), packed(ceremony, &chosen)].concat();
    let messages = [group.first[0].clone(), group.first[1].clone(), chosen.clone()];
    let refused = FirstSums::read(ceremony, &group.commitments, slices(&messages)).unwrap_err();
    assert_eq!(refused, Error::OtherShare { party: 2 });

    let mut late = group.commitments.clone();
    late[2].first = *blake3::hash(&chosen).as_bytes();
    let sums = FirstSums::read(ceremony, &late, slices(&messages)).unwrap();
    let mut answer = Vec::new();
    let victim = Shared::resume(ceremony, 0, &group.roots[0]).unwrap();
    victim.finish(&sums, &mut answer).unwrap();
    let share = polys(ceremony, &answer, object.limbs, 1).remove(0);
    let q = basis.modulus(object.limbs, 0).value() as i64;
    let found: Vec<i64> = centered(&coefficients(params, &share)[0], q)
        .into_iter()
        .map(|x| (x / CONSTANT as f64).round() as i64)
        .collect();
    assert_eq!(found, group.dealt(0));
}

/// Two shares of one key with different errors and the same uniform half show their secret. The
/// errors of a message follow from the party's root, so it has one form only.
#[test]
fn averages_of_repeated_shares() {
    let sharing = Sharing::new(2, 2).unwrap();
    let params = &params(10, &sharing);
    let group = Group::new(params, &sharing, &KeyRequest::new(), 5);
    let ceremony = &group.ceremony;
    let basis = params.basis();
    let limbs = params.limbs(Level(0));
    let q = basis.modulus(limbs, 0).value() as i64;
    let public = ceremony.public_seed(&ceremony.objects()[0]);
    let coeffs: Vec<i8> = group.dealt(0).into_iter().map(|c| c as i8).collect();
    let s = basis.from_small(&coeffs, basis.all(), Secrecy::Key);
    let exact = {
        let mut exact = expand(params, limbs, &public, 0);
        basis.mul_assign(&mut exact, &s);
        basis.neg_assign(&mut exact);
        coefficients(params, &exact).remove(0)
    };
    // Each repetition as an error around the first: differences of residues are small.
    let repeated = |count: u8, seed: &dyn Fn(u8) -> Seed| {
        let share = |i| {
            let [b, _] = encrypt_zero(params, &s, limbs, &seed(i), &public, 0);
            coefficients(params, &b).remove(0)
        };
        let first = share(0);
        let mut total = vec![0.0; first.len()];
        for i in 0..count {
            let other = share(i);
            let off: Vec<i64> = other.iter().zip(&first).map(|(a, b)| a - b).collect();
            total.iter_mut().zip(centered(&off, q)).for_each(|(total, off)| *total += off);
        }
        let mean = total.iter().map(|total| (total / f64::from(count)).round() as i64);
        let mean: Vec<i64> = mean.zip(&first).map(|(mean, first)| first + mean).collect();
        let right = mean.iter().zip(&exact).filter(|(a, b)| (*a - *b).rem_euclid(q) == 0);
        right.count() as f64 / mean.len() as f64
    };
    let fresh = repeated(250, &|i| Seed::from_bytes([i; 32]));
    assert!(fresh > 0.9, "{fresh}");
    let derived = repeated(250, &|_| Seed::from_bytes([8; 32]));
    assert!(derived < 0.3, "{derived}");
    for _ in 0..3 {
        let mut again = Vec::new();
        let joined = Joined::new(ceremony, 0, &group.roots[0]).unwrap();
        joined.share(&group.commitments, &mut again).unwrap();
        assert!(again == group.first[0]);
    }
}

/// Every message that is not the expected one is refused with a typed error.
#[test]
fn other_messages_are_refused() {
    let sharing = Sharing::new(3, 2).unwrap();
    let params = &params(5, &sharing);
    let request = KeyRequest::new().relinearize(Level(1)).automorphism(GaloisElement(5), Level(1));
    let group = Group::new(params, &sharing, &request, 1);
    let other = Group::new(params, &sharing, &request, 2);
    let keys = |commitments: &[Commitment], first: &[Vec<u8>], last: &[Vec<u8>]| {
        combine(&group.ceremony, commitments, slices(first), slices(last)).map(|_| ())
    };
    keys(&group.commitments, &group.first, &group.last).unwrap();
    type Change = fn(&mut Vec<Vec<u8>>, &[Vec<u8>]);
    let changes: [(&str, Change); 8] = [
        ("another ceremony", |m, other| m[1] = other[1].clone()),
        ("another party", |m, _| m.swap(0, 2)),
        ("repeated", |m, _| m[2] = m[1].clone()),
        ("truncated", |m, _| {
            m[1].pop();
        }),
        ("longer", |m, _| m[1].push(0)),
        ("altered", |m, _| m[1][9] ^= 1),
        ("out of range", |m, _| m[1][..5].fill(0xff)),
        ("missing", |m, _| drop(m.pop())),
    ];
    for (name, change) in changes {
        let mut first = group.first.clone();
        change(&mut first, &other.first);
        let refused = keys(&group.commitments, &first, &group.last).unwrap_err();
        let typed = matches!(refused, Error::OtherShare { .. } | Error::Malformed { .. });
        assert!(typed, "{name}: {refused}");
        let sums = FirstSums::read(&group.ceremony, &group.commitments, slices(&first));
        assert!(sums.is_err(), "{name}");
    }
    // The bytes of second messages are signed by their senders; sizes and ranges are checked here.
    for (name, change) in &changes[3..] {
        let mut last = group.last.clone();
        change(&mut last, &other.last);
        let refused = keys(&group.commitments, &group.first, &last);
        if *name != "altered" {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, Error::Malformed { .. }), "{name}: {refused}");
        }
    }
    let fewer = &group.commitments[..2];
    assert!(keys(fewer, &group.first, &group.last).is_err());
    let joined = || Joined::new(&group.ceremony, 1, &group.roots[1]).unwrap();
    for commitments in [fewer, &other.commitments[..]] {
        let refused = joined().share(commitments, &mut Vec::new()).unwrap_err();
        assert!(matches!(refused, Error::InvalidSpec { field: "commitments", .. }), "{refused}");
    }
    let sums = FirstSums::read(&other.ceremony, &other.commitments, slices(&other.first)).unwrap();
    let shared = Shared::resume(&group.ceremony, 1, &group.roots[1]).unwrap();
    assert!(shared.finish(&sums, &mut Vec::new()).is_err());
    assert!(Joined::new(&group.ceremony, 3, &group.roots[0]).is_err());

    // Pieces.
    let pieces = |received: &[(usize, Seed)]| {
        Pieces::new(&group.ceremony, 1, &group.roots[1], received, &group.commitments).map(|_| ())
    };
    let received = group.received(1);
    pieces(&received).unwrap();
    type Received = Vec<(usize, Seed)>;
    let wrong = |change: &dyn Fn(&mut Received)| {
        let mut received = received.clone();
        change(&mut received);
        let refused = pieces(&received).unwrap_err();
        assert!(matches!(refused, Error::Malformed { what: "piece", .. }), "{refused}");
    };
    wrong(&|received| drop(received.pop()));
    wrong(&|received| received[0].1 = Seed::from_bytes([0; 32]));
    wrong(&|received| received.extend(other.received(1)));
    let lacks = (0..3).find(|&piece| !sharing.holds(1, piece)).unwrap();
    wrong(&|received| received.push((lacks, Seed::from_bytes([0; 32]))));
}

#[test]
fn parameters_of_a_shared_secret() {
    let sharing = Sharing::new(3, 2).unwrap();
    let shared = params(5, &sharing);
    let other = Sharing::new(3, 3).unwrap();
    let four = Sharing::new(4, 4).unwrap();
    let request = KeyRequest::new();
    // Both distribute three pieces among three holders.
    assert!(Ceremony::new(&shared, &other, &request, [0; 32]).is_ok());
    let refused = Ceremony::new(&shared, &four, &request, [0; 32]).unwrap_err();
    assert!(matches!(refused, Error::InvalidSpec { field: "secret", .. }), "{refused}");
    // The digest of a ceremony has everything that shares depend on.
    let of = |sharing: &Sharing, request: &KeyRequest, agreement: u8| {
        *Ceremony::new(&shared, sharing, request, [agreement; 32]).unwrap().id()
    };
    let relinearize = KeyRequest::new().relinearize(Level(1));
    let ids = [
        of(&sharing, &request, 0),
        of(&sharing, &request, 1),
        of(&other, &request, 0),
        of(&sharing, &relinearize, 0),
        of(&sharing, &KeyRequest::new().relinearize(Level(2)), 0),
        of(&sharing, &KeyRequest::new().automorphism(GaloisElement(5), Level(1)), 0),
        of(&sharing, &KeyRequest::new().automorphism(GaloisElement(25), Level(1)), 0),
    ];
    for (i, id) in ids.iter().enumerate() {
        assert!(!ids[..i].contains(id), "{i}");
    }
    let raise = request.raise(Raise::to(Level(2)));
    let refused = Ceremony::new(&shared, &sharing, &raise, [0; 32]).unwrap_err();
    assert!(matches!(refused, Error::InvalidSpec { field: "raise", .. }), "{refused}");
    let seed = Seed::from_bytes([1; 32]);
    let refused = KeyGenerator::from_seed(&shared, &seed).secret_key().unwrap_err();
    assert!(matches!(refused, Error::InvalidSpec { field: "secret", .. }), "{refused}");
    for (parties, pieces) in [(1, 1), (3, 2), (2, 71)] {
        let secret = SecretDistribution::SharedTernary { parties, pieces };
        let refused = Params::new(Spec { secret, ..shared.spec().clone() }).unwrap_err();
        assert!(matches!(refused, Error::InvalidSpec { field: "secret", .. }), "{refused}");
    }
    // One piece alone has to be secure.
    let bits = |secret| security_bits(13, secret, 200.0);
    let one = bits(SecretDistribution::UniformTernary);
    assert_eq!(bits(SecretDistribution::SharedTernary { parties: 3, pieces: 3 }), one);
}

/// The values of a joint secret at the roots stay below its limit.
#[test]
fn joint_secrets_are_below_their_limit() {
    let limit = |secret| canonical_limit(secret, 10).log2();
    let one = limit(SecretDistribution::UniformTernary);
    for parties in [2, 5, 20] {
        let sharing = Sharing::new(parties, parties).unwrap();
        let params = &params(10, &sharing);
        let bound = limit(sharing.distribution());
        assert!(bound > one && bound <= one + (parties as f64).log2() + 1e-9);
        for id in 0..4 {
            let group = Group::new(params, &sharing, &KeyRequest::new(), id);
            let secret: Vec<i8> = group.secret().into_iter().map(|c| c as i8).collect();
            let norm = canonical_norm(&secret).log2();
            assert!(norm < bound && norm > bound - 3.0, "{parties}: {norm} {bound}");
        }
    }
}
