use super::{
    GaloisRing, Modulus, PlainPoly,
    galois_ring::Quadratic,
    plaintext::{residues_of_signed, zeros},
    transform::{Ring, Transform, place},
};
use crate::{Error, Result, rlwe::GaloisElement};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The slots of `Z_t[X]/(X^N + 1)` for any odd prime power `t = p^k`: `n = N / d` elements of the
/// [Galois ring](GaloisRing) of degree `d`, the order of `p` modulo `2N`.
///
/// Slot `i` is the value at `zeta^(s_i)`, with representatives `s_i` of the cosets of `<p>` among
/// the odd numbers modulo `2N`. They form two rows of `n / 2`, the powers of 5 and their negatives,
/// `s = 5^j` and `-5^j`. These are distinct modulo `2n` as well, as the maps between slots and
/// coefficients require. Other representatives are not: for `p = 3 mod 4` the powers of 5 alone
/// represent all cosets, but are equal modulo `2n` in pairs. If `-1` is a power of `p`, the second
/// row starts at `-5^(n/2)`, which is `-1` modulo `2n`.
///
/// In *slim* packing slots are integers modulo `t`; elements of the ring fill it.
///
/// Reference: Han, "Bootstrapping methods for homomorphic encryption" (PhD thesis, Seoul National
/// University), section 3.4, for the maps and the selection. Deviation: the representatives are
/// chosen such that the maps exist, and the selection takes `log2(d)` steps.
#[derive(Debug, Clone)]
pub struct Slots {
    ring: GaloisRing,
    representatives: Vec<GaloisElement>,
    /// Slot whose coset contains the odd number `2i + 1`, by `i`.
    cosets: Arc<[u32]>,
    transform: Arc<Transform<Quadratic>>,
}

impl Slots {
    /// Makes the slots of the ring of degree `2^log_n` modulo `t`.
    ///
    /// # Errors
    /// See [`GaloisRing::new`].
    pub fn new(t: Modulus, log_n: u32) -> Result<Self> {
        let ring = GaloisRing::new(t, log_n)?;
        let slots = ring.slots();
        let order = 2u32 << log_n;
        // If `-1` is a power of `p`, it is number `d / 2`. Even powers are 1 modulo 8, so `d` is 2
        // and `p` is `-1`.
        let minus = if t.prime() % u64::from(order) == u64::from(order) - 1 {
            order - GaloisElement::rotation(log_n, slots as i64 / 2).0
        } else {
            order - 1
        };
        let half = (0..slots as i64 / 2).map(|j| GaloisElement::rotation(log_n, j).0);
        let second = half.clone().map(|s| product(s, minus, order));
        let representatives: Vec<_> = half.chain(second).map(GaloisElement).collect();
        let mut cosets = vec![0; 1 << log_n];
        let p = (t.prime() % u64::from(order)) as u32;
        for (i, s) in (0..).zip(&representatives) {
            let mut g = s.0;
            for _ in 0..ring.degree() {
                cosets[g as usize / 2] = i;
                g = product(g, p, order);
            }
        }
        let omega = ring.omega(1);
        let points = ring.omega_order() / 2;
        // `p` is odd, so powers of two have inverses.
        let scale = t.inverse(t.reduce(points as u128)).unwrap_or(0);
        let transform = Transform::new(ring.base(), points.ilog2(), omega, [scale, 0]);
        Ok(Self { ring, representatives, cosets: cosets.into(), transform: Arc::new(transform) })
    }

    /// The ring of the slots' elements.
    #[must_use]
    pub fn ring(&self) -> &GaloisRing {
        &self.ring
    }

    /// Number of slots.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ring.slots()
    }

    /// The exponents `s_i` of the slots: row 0, then row 1.
    #[must_use]
    pub fn representatives(&self) -> &[GaloisElement] {
        &self.representatives
    }

    /// Returns the slot whose representative is `g` times a power of `p`. In slim packing slot `i`
    /// of the image under `X -> X^g` is slot `index(g s_i)`.
    #[must_use]
    pub fn index(&self, g: GaloisElement) -> usize {
        self.cosets[g.0 as usize / 2 % self.cosets.len()] as usize
    }

    /// Encodes these elements, with 0 in the remaining slots.
    ///
    /// # Errors
    /// [`Error::TooManySlots`]; [`Error::SlotMismatch`] for an element without `d` coefficients;
    /// [`Error::ValueOutOfRange`] for a coefficient that is not below `t`.
    pub fn encode(&self, elements: &[Vec<u128>]) -> Result<PlainPoly> {
        self.check_count(elements.len())?;
        elements.iter().try_for_each(|element| self.ring.check(element))?;
        let width = self.ring.width();
        Ok(self.interpolated(width, |slot, coordinate| {
            let of = |c: usize| elements.get(slot).and_then(|e| e.get(c)).copied().unwrap_or(0);
            [of(coordinate), of(coordinate + width)]
        }))
    }

    /// Encodes these integers, at most `t / 2` in magnitude, with 0 in the remaining slots.
    ///
    /// # Errors
    /// [`Error::TooManySlots`]; [`Error::ValueOutOfRange`].
    pub fn encode_integers(&self, values: &[i128]) -> Result<PlainPoly> {
        self.check_count(values.len())?;
        let mut residues = Zeroizing::new(vec![0; self.count()]);
        residues_of_signed(self.ring.modulus(), values, &mut residues)?;
        Ok(self.interpolated(1, |slot, _| [residues[slot], 0]))
    }

    /// Decodes the elements in the slots of a plaintext.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a plaintext of another ring.
    pub fn decode(&self, a: &PlainPoly) -> Result<Vec<Vec<u128>>> {
        a.check_ring("decoding", self.ring.modulus(), self.ring.log_n())?;
        let width = self.ring.width();
        let mut elements = vec![vec![0; self.ring.degree()]; self.count()];
        for i in 0..width {
            let coeffs = a.coeffs().iter().skip(i).step_by(width);
            let mut row: Zeroizing<Vec<_>> = Zeroizing::new(coeffs.map(|&c| [c, 0]).collect());
            self.transform.forward(&mut row);
            for (element, s) in elements.iter_mut().zip(&self.representatives) {
                let (coordinate, turns) = self.column(*s, i);
                let value = self.base_mul(row[self.place(*s)], turns);
                for (c, value) in element.iter_mut().skip(coordinate).step_by(width).zip(value) {
                    *c = value;
                }
            }
        }
        Ok(elements)
    }

    /// Decodes the integers in the slots of a plaintext, in `(-t/2, t/2]`.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a plaintext of another ring; [`Error::NotInSlots`] if a
    /// slot is not an integer.
    pub fn decode_integers(&self, a: &PlainPoly) -> Result<Vec<i128>> {
        let elements = Zeroizing::new(self.decode(a)?);
        if let Some(slot) = elements.iter().position(|e| e.iter().skip(1).any(|&c| c != 0)) {
            return Err(Error::NotInSlots {
                slots: self.count(),
                problem: format!(
                    "slot {slot} is an element of the Galois ring of degree {}; decode elements",
                    self.ring.degree()
                ),
            });
        }
        Ok(elements.iter().map(|e| self.ring.modulus().centered(e[0])).collect())
    }

    /// Returns the map from integers `m_i` in slots to the coefficients of `sum_i m_i X^(d i)`.
    ///
    /// # Errors
    /// [`Error::Circuit`] if the map would use more than 256 MiB.
    pub fn slots_to_coeffs(&self) -> Result<LinearMap> {
        let d = self.ring.degree();
        self.map(|s, _, s_i| self.power(d, self.index(self.times(s, s_i)), s_i, false))
    }

    /// Returns the map from `sum_i m_i X^(d i)` to slots with `m_i` in slot `i`.
    ///
    /// # Errors
    /// See [`Slots::slots_to_coeffs`].
    pub fn coeffs_to_slots(&self) -> Result<LinearMap> {
        let t = self.ring.modulus();
        let d = self.ring.degree();
        let scale = t.inverse(t.reduce(self.count() as u128)).unwrap_or(0);
        self.map(|s, i, s_i| self.power(d, i, self.times(s, s_i), true).map(|x| t.mul(x, scale)))
    }

    /// Returns automorphisms that select every `d`-th coefficient. Apply each in turn and add the
    /// result to its input. This yields `d` times the coefficients at multiples of `d`, and 0 at
    /// the others. They are `X -> X^(N/2^i + 1)` for `i < log2(d)`.
    #[must_use]
    pub fn selection(&self) -> Vec<GaloisElement> {
        let steps = 0..self.ring.degree().ilog2();
        steps.map(|i| GaloisElement((1 << (self.ring.log_n() - i)) + 1)).collect()
    }

    /// Returns the plaintext with `scale zeta^(d e)` in slot `i`, where `e` is `exponent(i)`, and 0
    /// where that is `None`.
    pub(super) fn roots(
        &self,
        scale: u128,
        exponent: impl Fn(usize) -> Option<usize>,
    ) -> PlainPoly {
        let t = self.ring.modulus();
        // `omega` is `zeta^width`, so this many turns are `zeta^d`, of order `2 n`.
        let turns = self.ring.degree() / self.ring.width();
        let root = |e: usize| self.ring.omega(turns * (e % (2 * self.count())));
        self.interpolated(1, |slot, _| {
            exponent(slot).map_or([0; 2], |e| root(e).map(|x| t.mul(x, scale)))
        })
    }

    fn check_count(&self, found: usize) -> Result<()> {
        let slots = self.count();
        if found > slots { Err(Error::TooManySlots { found, slots }) } else { Ok(()) }
    }

    /// Returns `sum_s weight_s(a) a(X^s)` over the representatives, from slot `i` of the weights.
    fn map(
        &self,
        weight: impl Fn(GaloisElement, usize, GaloisElement) -> [u128; 2],
    ) -> Result<LinearMap> {
        let slots = self.count();
        let log_n = self.ring.log_n();
        // Before any weight exists: each is a whole polynomial.
        if slots << log_n > MAX_ENTRIES {
            return Err(Error::Circuit(format!(
                "map of slots and coefficients: {slots} weights of 2^{log_n} coefficients; at most \
                 {MAX_ENTRIES} coefficients are possible: use a product of sparse maps"
            )));
        }
        let weights = self.representatives.iter().map(|&s| {
            let slots = |i: usize, _| weight(s, i, self.representatives[i]);
            (s, self.interpolated(1, slots))
        });
        Ok(LinearMap { terms: weights.collect() })
    }

    fn times(&self, a: GaloisElement, b: GaloisElement) -> GaloisElement {
        GaloisElement(product(a.0, b.0, 2 << self.ring.log_n()))
    }

    /// Returns `zeta^(d i s)` or its inverse, where `d` is a multiple of the width.
    fn power(&self, d: usize, i: usize, s: GaloisElement, inverse: bool) -> [u128; 2] {
        let order = self.ring.omega_order();
        let e = d / self.ring.width() * i * s.0 as usize % order;
        self.ring.omega(if inverse { order - e } else { e })
    }

    /// Returns the coordinate `j` and the exponent `e` with `zeta^(s i) = zeta^j omega^e`.
    fn column(&self, s: GaloisElement, i: usize) -> (usize, usize) {
        let e = s.0 as usize * i % (2 << self.ring.log_n());
        (e % self.ring.width(), e / self.ring.width())
    }

    /// Returns the place of the value at `omega^s` in the transforms.
    fn place(&self, s: GaloisElement) -> usize {
        let order = self.ring.omega_order();
        place(order.ilog2() - 1, s.0 as usize % order)
    }

    fn base_mul(&self, a: [u128; 2], turns: usize) -> [u128; 2] {
        self.ring.base().mul(a, self.ring.omega(turns))
    }

    /// Returns the polynomial of these slots, where `coordinates(i, j)` are the coefficients of
    /// `zeta^j` and `zeta^(j + width)` in slot `i`. The second is 0 if the width is `d`.
    ///
    /// `count` is the width, or 1 if all coordinates except number 0 are 0. Then all coefficients
    /// except the ones at multiples of the width are 0 as well.
    fn interpolated(
        &self,
        count: usize,
        coordinates: impl Fn(usize, usize) -> [u128; 2],
    ) -> PlainPoly {
        let n = 1 << self.ring.log_n();
        let order = self.ring.omega_order();
        let mut coeffs = Zeroizing::new(vec![0; n]);
        let p = GaloisElement((self.ring.modulus().prime() % (2 * n as u64)) as u32);
        for i in 0..count {
            let mut row = Zeroizing::new(vec![[0; 2]; order / 2]);
            for (slot, &s) in self.representatives.iter().enumerate() {
                let (coordinate, turns) = self.column(s, i);
                let value = self.base_mul(coordinates(slot, coordinate), order - turns % order);
                row[self.place(s)] = value;
                // If `omega` is not an integer, half of its powers are conjugates of the others.
                if self.ring.width() < self.ring.degree() {
                    row[self.place(self.times(s, p))] = self.ring.base().conjugate(value);
                }
            }
            self.transform.inverse(&mut row);
            debug_assert!(row.iter().all(|c| c[1] == 0));
            for (c, row) in coeffs.iter_mut().skip(i).step_by(self.ring.width()).zip(row.iter()) {
                *c = row[0];
            }
        }
        PlainPoly::from_residues(self.ring.modulus(), coeffs)
    }
}

/// Maximum number of coefficients of all weights of a [`LinearMap`] between slots and coefficients:
/// 256 MiB.
const MAX_ENTRIES: usize = 1 << 24;

/// A linear map of plaintexts: `a -> sum_g w_g(X) a(X^g)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearMap {
    terms: Vec<(GaloisElement, PlainPoly)>,
}

impl LinearMap {
    /// The automorphisms with their weights.
    #[must_use]
    pub fn terms(&self) -> &[(GaloisElement, PlainPoly)] {
        &self.terms
    }

    /// Returns the map times the residue `c`.
    #[must_use]
    pub fn scaled(&self, c: u128) -> Self {
        Self { terms: self.terms.iter().map(|(g, weight)| (*g, weight.scaled(c))).collect() }
    }

    /// Returns the image of `a`.
    ///
    /// # Errors
    /// See [`PlainPoly::mul`].
    pub fn apply(&self, a: &PlainPoly) -> Result<PlainPoly> {
        let zero = PlainPoly::from_residues(a.modulus(), zeros(a.log_n(), 0)?);
        self.terms.iter().try_fold(zero, |sum, (g, weight)| sum.add(&weight.mul(&a.image(*g))?))
    }
}

fn product(a: u32, b: u32, m: u32) -> u32 {
    (u64::from(a) * u64::from(b) % u64::from(m)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::BatchEncoder;
    use std::collections::BTreeSet;

    fn slots(p: u64, k: u32, log_n: u32) -> Slots {
        Slots::new(Modulus::new(p, k).unwrap(), log_n).unwrap()
    }

    /// Primes of both kinds, with few and many slots. The primes that are -1 modulo `2N` come last.
    fn all() -> Vec<Slots> {
        let mut all = Vec::new();
        for (p, log_n) in [
            (7, 5),
            (17, 5),
            (31, 6),
            (3, 4),
            (3, 2),
            (5, 2),
            (127, 7),
            (257, 7),
            (257, 8),
            (97, 4),
            (127, 6),
            (31, 4),
            (7, 2),
        ] {
            all.extend([1, 3].map(|k| slots(p, k, log_n)));
        }
        all
    }

    fn elements(s: &Slots, seed: u128) -> Vec<Vec<u128>> {
        let t = s.ring().modulus();
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645).wrapping_add(12_345);
            t.reduce(x >> 2)
        };
        (0..s.count()).map(|_| (0..s.ring().degree()).map(|_| next()).collect()).collect()
    }

    fn integers(s: &Slots, seed: u128) -> Vec<i128> {
        elements(s, seed).iter().map(|e| s.ring().modulus().centered(e[0])).collect()
    }

    #[test]
    fn slots_are_values_at_the_representatives() {
        for s in all() {
            let elements = elements(&s, 1);
            let encoded = s.encode(&elements).unwrap();
            assert_eq!(s.decode(&encoded).unwrap(), elements, "{:?}", s.ring().modulus());
            for (g, element) in s.representatives().iter().zip(&elements) {
                let mut value = vec![0; s.ring().degree()];
                for (i, &c) in encoded.coeffs().iter().enumerate() {
                    let power = s.ring().power(i * g.0 as usize);
                    for (v, x) in value.iter_mut().zip(power) {
                        let t = s.ring().modulus();
                        *v = t.add(*v, t.mul(c, x));
                    }
                }
                assert_eq!(&value, element);
            }
        }
    }

    #[test]
    fn products_are_slotwise() {
        for s in all() {
            let a = elements(&s, 2);
            let b = elements(&s, 3);
            let product = s.encode(&a).unwrap().mul(&s.encode(&b).unwrap()).unwrap();
            let found = s.decode(&product).unwrap();
            for i in 0..s.count() {
                assert_eq!(found[i], s.ring().mul(&a[i], &b[i]).unwrap());
            }
        }
    }

    #[test]
    fn automorphisms_permute_integers_and_frobenius_acts_on_elements() {
        for s in all() {
            let values = integers(&s, 4);
            let encoded = s.encode_integers(&values).unwrap();
            assert_eq!(s.decode_integers(&encoded).unwrap(), values);
            let order = 2 << s.ring().log_n();
            for g in (1..order).step_by(2).map(GaloisElement) {
                let found = s.decode_integers(&encoded.image(g)).unwrap();
                for (i, &r) in s.representatives().iter().enumerate() {
                    assert_eq!(found[i], values[s.index(s.times(g, r))]);
                }
            }
            let elements = elements(&s, 5);
            let p = GaloisElement((s.ring().modulus().prime() % u64::from(order)) as u32);
            let found = s.decode(&s.encode(&elements).unwrap().image(p)).unwrap();
            for (found, element) in found.iter().zip(&elements) {
                assert_eq!(found, &s.ring().frobenius(element).unwrap());
            }
        }
    }

    #[test]
    fn representatives_are_of_all_cosets_and_distinct_modulo_twice_the_slots() {
        let large = [(127, 14), (127, 15), (257, 14), (257, 15), (8191, 12), (65537, 12)];
        for s in all().into_iter().chain(large.map(|(p, log_n)| slots(p, 1, log_n))) {
            let of = |g: &GaloisElement| g.0 as usize % (2 * s.count());
            let residues: BTreeSet<_> = s.representatives().iter().map(of).collect();
            assert_eq!(residues.len(), s.count());
            let found: Vec<_> = s.representatives().iter().map(|&g| s.index(g)).collect();
            assert_eq!(found, (0..s.count()).collect::<Vec<_>>());
        }
    }

    /// The matrix of the map from `d`-th coefficients to slots has a row of powers of `zeta^(d s)`
    /// for each representative `s`.
    #[test]
    fn powers_of_five_alone_are_singular_for_127() {
        for log_n in [7, 14, 15] {
            let s = slots(127, 1, log_n);
            let n = s.count();
            let row = |g: GaloisElement| -> Vec<_> {
                let d = s.ring().degree();
                (0..n).map(|i| s.ring().power(d * i * g.0 as usize % (2 << log_n))).collect()
            };
            let rank_at_most =
                |of: &[GaloisElement]| of.iter().map(|&g| row(g)).collect::<BTreeSet<_>>().len();
            let powers: Vec<_> = (0..n as i64).map(|j| GaloisElement::rotation(log_n, j)).collect();
            let cosets: BTreeSet<_> = powers.iter().map(|&g| s.index(g)).collect();
            assert_eq!(cosets.len(), n, "powers of 5 represent all cosets");
            assert_eq!(rank_at_most(&powers), n / 2);
            assert_eq!(rank_at_most(s.representatives()), n);
        }
        // For 257 they do not even represent all cosets.
        let s = slots(257, 1, 15);
        let powers = (0..128).map(|j| s.index(GaloisElement::rotation(15, j)));
        assert_eq!(powers.collect::<BTreeSet<_>>().len(), 64);
    }

    fn check_maps(s: &Slots) {
        let t = s.ring().modulus();
        let log_n = s.ring().log_n();
        let d = s.ring().degree();
        let values = integers(s, 6);
        let mut spread = vec![0; 1 << log_n];
        for (i, &value) in values.iter().enumerate() {
            spread[d * i] = value;
        }
        let coeffs = PlainPoly::from_signed(t, log_n, &spread).unwrap();
        let in_slots = s.encode_integers(&values).unwrap();
        assert_eq!(s.slots_to_coeffs().unwrap().apply(&in_slots).unwrap(), coeffs, "{t}, {log_n}");
        assert_eq!(s.coeffs_to_slots().unwrap().apply(&coeffs).unwrap(), in_slots, "{t}, {log_n}");
        // Select every d-th of the coefficients, all of which are nonzero.
        let all: Vec<_> = (0..1i128 << log_n)
            .map(|i| if i % d as i128 == 0 { spread[i as usize] } else { i % 3 - 1 })
            .collect();
        let all = PlainPoly::from_signed(t, log_n, &all).unwrap();
        assert_eq!(1 << s.selection().len(), d);
        let sum = s.selection().into_iter().fold(all, |a, g| a.add(&a.image(g)).unwrap());
        assert_eq!(sum, coeffs.scaled(d as u128));
        // One more step loses every other of them.
        let sum_of_more =
            sum.add(&sum.image(GaloisElement((2 << log_n) / d as u32 / 2 + 1))).unwrap();
        let lost = |i: usize| i / d % 2 == 1;
        let kept = coeffs.scaled(2 * d as u128);
        for (i, (&found, &wanted)) in sum_of_more.coeffs().iter().zip(kept.coeffs()).enumerate() {
            assert_eq!(found, if lost(i) { 0 } else { wanted });
        }
        let unscaled = s.coeffs_to_slots().unwrap().scaled(t.inverse(t.reduce(d as u128)).unwrap());
        assert_eq!(unscaled.apply(&sum).unwrap(), in_slots);
    }

    #[test]
    fn maps_between_slots_and_coefficients_and_selection() {
        for s in all() {
            check_maps(&s);
        }
    }

    #[test]
    fn maps_of_large_rings() {
        for (p, k) in [(127, 2), (257, 2)] {
            check_maps(&slots(p, k, 14));
        }
    }

    #[test]
    fn slots_of_split_primes_are_those_of_batches() {
        for (p, k, log_n) in [(257, 2, 7), (65537, 1, 9), (97, 1, 4)] {
            let s = slots(p, k, log_n);
            let batch = BatchEncoder::new(s.ring().modulus(), log_n).unwrap();
            let values = integers(&s, 7);
            assert_eq!(s.encode_integers(&values), batch.encode(&values));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let s = slots(7, 1, 5);
        let d = s.ring().degree();
        assert!(matches!(s.encode_integers(&[0; 5]), Err(Error::TooManySlots { .. })));
        assert!(matches!(s.encode_integers(&[4]), Err(Error::ValueOutOfRange { .. })));
        assert!(matches!(s.encode(&[vec![0; d - 1]]), Err(Error::SlotMismatch { .. })));
        assert!(matches!(s.encode(&[vec![7; d]]), Err(Error::ValueOutOfRange { .. })));
        let full = s.encode(&elements(&s, 8)).unwrap();
        assert!(matches!(s.decode_integers(&full), Err(Error::NotInSlots { .. })));
        assert!(matches!(
            s.ring().mul(&vec![7; d], &vec![0; d]),
            Err(Error::ValueOutOfRange { .. })
        ));
        assert!(matches!(s.ring().frobenius(&vec![7; d]), Err(Error::ValueOutOfRange { .. })));
        let many = slots(65537, 1, 13);
        assert!(matches!(many.slots_to_coeffs(), Err(Error::Circuit(_))));
        let other = PlainPoly::constant(s.ring().modulus(), 4, 1).unwrap();
        assert!(matches!(s.decode(&other), Err(Error::PlaintextMismatch { .. })));
    }
}
