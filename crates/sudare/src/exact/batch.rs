use super::{
    Modulus, PlainPoly,
    modulus::{name_primes, primes_near},
    plaintext::{degree, residues_of_signed, residues_of_unsigned, zeros},
    transform::{self, Transform},
};
use crate::{Error, Result};
use std::sync::Arc;
use sudare_arith::{self as arith, NttTable};
use zeroize::Zeroizing;

/// Converts vectors of integers modulo `t` to plaintexts and back. Sums and products of plaintexts
/// are then sums and products of the vectors, entry by entry.
///
/// The `n` slots are the values of a polynomial at the odd powers of `zeta`, the [primitive `2n`-th
/// root of unity](Modulus::root_of_unity) modulo `t`. They form a matrix of two rows. Slot `(0, j)`
/// is the value at `zeta^(5^j)`, and slot `(1, j)` the value at `zeta^(-5^j)`. Thus `X -> X^5`
/// rotates both rows left by one, and `X -> X^-1` swaps them. Vectors are row 0, then row 1.
///
/// If `p = 1 mod 2N`, the ring has `N` slots. If only `p = 1 mod 2n`, plaintexts are polynomials in
/// `X^(N/n)`, and the rows of `n / 2` slots repeat in the `N / 2` slots that rotations act on.
///
/// # Short inputs
/// One rule holds for this encoder and for `ckks::Encoder`: values fill the first slots, and the
/// remaining slots are 0. An encoder that has fewer slots than the ring repeats all of its slots,
/// zeros included, until they fill the ring.
///
/// The encoders differ in their default number of slots. Here it is all slots of the ring. There it
/// is the next power of two of the number of values. To name the number, use `with_slots`. Operands
/// need the same number of slots.
#[derive(Debug, Clone)]
pub struct BatchEncoder {
    modulus: Modulus,
    log_n: u32,
    log_slots: u32,
    root: u128,
    evaluate: Arc<Evaluate>,
    /// Place of each slot in the evaluations.
    places: Arc<[usize]>,
}

/// Transform from coefficients to evaluations: the kernels of words for a prime `t`.
#[derive(Debug)]
enum Evaluate {
    Words(NttTable),
    Residues(Transform<Modulus>),
}

impl BatchEncoder {
    /// Makes an encoder for all `N = 2^log_n` slots.
    ///
    /// # Errors
    /// [`Error::NoSlots`] unless `p = 1 mod 2N`, which names suitable primes;
    /// [`Error::InvalidSpec`] for `log_n` outside `1..=17`.
    pub fn new(t: Modulus, log_n: u32) -> Result<Self> {
        Self::with_slots(t, log_n, log_n)
    }

    /// Makes an encoder for `2^log_slots` repeating slots, from 2 to `N`.
    ///
    /// # Errors
    /// [`Error::NoSlots`] unless `p = 1 mod 2^(log_slots + 1)`, which names suitable primes;
    /// [`Error::InvalidSpec`] for `log_n` outside `1..=17` or `log_slots` outside `1..=log_n`.
    pub fn with_slots(t: Modulus, log_n: u32, log_slots: u32) -> Result<Self> {
        degree(log_n)?;
        if !(1..=log_n).contains(&log_slots) {
            return Err(Error::InvalidSpec {
                field: "log_slots",
                problem: format!("2^{log_slots} slots: from 2 to N = 2^{log_n} are possible"),
            });
        }
        let Some(root) = t.root_of_unity(log_slots + 1) else {
            return Err(Error::NoSlots {
                modulus: t.into(),
                slots: 1 << log_slots,
                possible: Self::most_slots(t, log_n).map_or(0, |log_slots| 1 << log_slots),
                primes: name_primes(&Self::primes_near(t.value(), log_slots)),
            });
        };
        let slots = 1usize << log_slots;
        // The kernels of words are for primes and for 16 slots or more.
        let words = t.exponent() == 1 && log_slots >= 4;
        let evaluate = if words {
            Evaluate::Words(NttTable::new(arith::Modulus::new(t.prime())?, log_slots)?)
        } else {
            // The inverse exists: slots exist only for odd `p`.
            let scale = t.inverse(t.reduce(slots as u128)).unwrap_or(0);
            Evaluate::Residues(Transform::new(t, log_slots, root, scale))
        };
        let mut places = vec![0; slots];
        let mut exponent = 1;
        for column in 0..slots / 2 {
            for (row, e) in [exponent, 2 * slots - exponent].into_iter().enumerate() {
                let place = if words { NttTable::place } else { transform::place };
                places[row * slots / 2 + column] = place(log_slots, e);
            }
            exponent = exponent * 5 % (2 * slots);
        }
        let evaluate = Arc::new(evaluate);
        let places = places.into();
        Ok(Self { modulus: t, log_n, log_slots, root, evaluate, places })
    }

    /// Returns `log2` of the maximum number of slots of plaintexts modulo `t` in the ring of degree
    /// `2^log_n`, if it is two or more.
    #[must_use]
    pub fn most_slots(t: Modulus, log_n: u32) -> Option<u32> {
        // `p - 1` has this many factors 2. Slots can use all except one.
        let twos = (t.prime() - 1).trailing_zeros();
        Some(twos.checked_sub(1)?.min(log_n)).filter(|&log_slots| log_slots > 0)
    }

    /// Returns the primes with `2^log_slots` slots that are nearest to a number: one below and one
    /// above it, or two above. For a number beyond `2^60` they are the nearest below that.
    #[must_use]
    pub fn primes_near(number: u128, log_slots: u32) -> Vec<u64> {
        2u64.checked_shl(log_slots).map_or_else(Vec::new, |step| primes_near(number, step))
    }

    /// `t`.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// `log2(N)`.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        self.log_n
    }

    /// Number of slots, in two rows of equal length.
    #[must_use]
    pub fn slots(&self) -> usize {
        1 << self.log_slots
    }

    /// Returns the plaintext with `scale zeta^e` in slot `i`, where `e` is `exponent(i)`, and 0
    /// where that is `None`.
    pub(super) fn roots(
        &self,
        scale: u128,
        exponent: impl Fn(usize) -> Option<usize>,
    ) -> Result<PlainPoly> {
        let t = self.modulus;
        let powers = core::iter::successors(Some(t.reduce(scale)), |&x| Some(t.mul(x, self.root)));
        // The order of the root.
        let powers: Vec<_> = powers.take(2 * self.slots()).collect();
        let slot = |i| exponent(i).map_or(0, |e: usize| powers[e % powers.len()]);
        self.encode_unsigned(&(0..self.slots()).map(slot).collect::<Vec<_>>())
    }

    /// Encodes `values`, with 0 in the remaining slots.
    ///
    /// # Errors
    /// [`Error::TooManySlots`]; [`Error::ValueOutOfRange`] for a value beyond `t / 2` in magnitude.
    pub fn encode(&self, values: &[i128]) -> Result<PlainPoly> {
        let mut slots = self.empty(values.len())?;
        residues_of_signed(self.modulus, values, &mut slots)?;
        Ok(self.interpolated(&slots))
    }

    /// Encodes values in `[0, t)`; see [`BatchEncoder::encode`].
    ///
    /// # Errors
    /// [`Error::TooManySlots`]; [`Error::ValueOutOfRange`] for a value that is not below `t`.
    pub fn encode_unsigned(&self, values: &[u128]) -> Result<PlainPoly> {
        let mut slots = self.empty(values.len())?;
        residues_of_unsigned(self.modulus, values, &mut slots)?;
        Ok(self.interpolated(&slots))
    }

    /// Decodes the slots of a plaintext, in `(-t/2, t/2]`.
    ///
    /// # Errors
    /// See [`BatchEncoder::decode_unsigned`].
    pub fn decode(&self, a: &PlainPoly) -> Result<Vec<i128>> {
        let slots = Zeroizing::new(self.decode_unsigned(a)?);
        Ok(slots.iter().map(|&slot| self.modulus.centered(slot)).collect())
    }

    /// Decodes the slots of a plaintext, in `[0, t)`.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a plaintext of another ring; [`Error::NotInSlots`] for one
    /// that is not a polynomial in `X^(N/n)`, so that its slots do not repeat.
    pub fn decode_unsigned(&self, a: &PlainPoly) -> Result<Vec<u128>> {
        a.check_ring("decoding", self.modulus, self.log_n)?;
        let gap = 1 << (self.log_n - self.log_slots);
        let outside = |&i: &usize| i % gap != 0 && a.coeffs()[i] != 0;
        if let Some(i) = (0..a.coeffs().len()).find(outside) {
            return Err(Error::NotInSlots {
                slots: self.slots(),
                problem: format!(
                    "its coefficient {i} is not 0, but only coefficients at multiples of {gap} may \
                     differ from 0; encode all operands with the same number of slots"
                ),
            });
        }
        let mut values = Zeroizing::new(vec![0; self.slots()]);
        for (value, &c) in values.iter_mut().zip(a.coeffs().iter().step_by(gap)) {
            *value = c;
        }
        match &*self.evaluate {
            Evaluate::Words(table) => in_words(&mut values, |row| table.forward(row)),
            Evaluate::Residues(transform) => transform.forward(&mut values),
        }
        Ok(self.places.iter().map(|&place| values[place]).collect())
    }

    fn empty(&self, count: usize) -> Result<Zeroizing<Vec<u128>>> {
        zeros(self.log_slots, count)
    }

    fn interpolated(&self, slots: &[u128]) -> PlainPoly {
        let mut values = Zeroizing::new(vec![0; slots.len()]);
        for (&place, &slot) in self.places.iter().zip(slots) {
            values[place] = slot;
        }
        match &*self.evaluate {
            Evaluate::Words(table) => in_words(&mut values, |row| table.inverse(row)),
            Evaluate::Residues(transform) => transform.inverse(&mut values),
        }
        let mut coeffs = Zeroizing::new(vec![0; 1 << self.log_n]);
        let gap = 1 << (self.log_n - self.log_slots);
        for (c, &value) in coeffs.iter_mut().step_by(gap).zip(values.iter()) {
            *c = value;
        }
        PlainPoly::from_residues(self.modulus, coeffs)
    }
}

/// Transforms residues below `2^60`.
fn in_words(values: &mut [u128], transform: impl FnOnce(&mut [u64])) {
    let mut row = Zeroizing::new(vec![0; values.len()]);
    for (word, &value) in row.iter_mut().zip(values.iter()) {
        *word = value as u64;
    }
    transform(&mut row);
    for (value, &word) in values.iter_mut().zip(row.iter()) {
        *value = word.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlwe::GaloisElement;
    use sudare_arith::previous_prime;

    fn modulus(p: u64, k: u32) -> Modulus {
        Modulus::new(p, k).unwrap()
    }

    fn vector(t: Modulus, slots: usize, seed: u128) -> Vec<u128> {
        let step = |x: &u128| {
            Some(x.wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645).wrapping_add(12_345))
        };
        let all = core::iter::successors(Some(seed), step).skip(1);
        all.take(slots).map(|x| t.reduce(x >> 2)).collect()
    }

    /// Encoders of every kind: words and residues, all slots and few slots.
    fn encoders() -> Vec<BatchEncoder> {
        let prime = previous_prime(1 << 60, 1 << 13).unwrap();
        let all = [
            (257, 1, 7, 7),
            (257, 1, 9, 7),
            (257, 1, 9, 3),
            (257, 2, 7, 7),
            (257, 15, 6, 5),
            (65537, 1, 12, 12),
            (65537, 7, 8, 8),
            (786433, 1, 10, 10),
            (5, 3, 4, 1),
            (17, 1, 3, 3),
            (prime, 1, 12, 12),
            (prime, 2, 6, 6),
        ];
        all.map(|(p, k, log_n, log_slots)| {
            BatchEncoder::with_slots(modulus(p, k), log_n, log_slots).unwrap()
        })
        .to_vec()
    }

    #[test]
    fn vectors_come_back() {
        for e in encoders() {
            let t = e.modulus();
            let values = vector(t, e.slots(), 1);
            let encoded = e.encode_unsigned(&values).unwrap();
            assert_eq!(e.decode_unsigned(&encoded).unwrap(), values, "{t}");
            let signed: Vec<i128> = values.iter().map(|&v| t.centered(v)).collect();
            assert_eq!(e.encode(&signed).unwrap(), encoded);
            assert_eq!(e.decode(&encoded).unwrap(), signed);
            let mut few = signed[..e.slots() / 2].to_vec();
            let encoded = e.encode(&few).unwrap();
            few.resize(e.slots(), 0);
            assert_eq!(e.decode(&encoded).unwrap(), few);
        }
    }

    #[test]
    fn slots_are_values_at_the_powers_of_the_root() {
        for e in encoders().into_iter().filter(|e| e.slots() <= 256) {
            let t = e.modulus();
            let values = vector(t, e.slots(), 2);
            let encoded = e.encode_unsigned(&values).unwrap();
            let zeta = t.root_of_unity(e.slots().ilog2() + 1).unwrap();
            let gap = (1 << e.log_n()) / e.slots();
            let rows = values.split_at(e.slots() / 2);
            for column in 0..e.slots() / 2 {
                let five = GaloisElement::rotation(e.slots().ilog2(), column as i64).0;
                let five = u128::from(five);
                let at = |exponent: u128| {
                    let x = t.pow(zeta, exponent);
                    let coeffs = encoded.coeffs().iter().step_by(gap).rev();
                    coeffs.fold(0, |sum, &c| t.add(t.mul(sum, x), c))
                };
                assert_eq!(at(five), rows.0[column]);
                assert_eq!(at(2 * e.slots() as u128 - five), rows.1[column]);
            }
        }
    }

    #[test]
    fn sums_and_products_are_slotwise() {
        for e in encoders() {
            let t = e.modulus();
            let a = vector(t, e.slots(), 3);
            let b = vector(t, e.slots(), 4);
            let [x, y] = [&a, &b].map(|v| e.encode_unsigned(v).unwrap());
            let product = e.decode_unsigned(&x.mul(&y).unwrap()).unwrap();
            let sum = e.decode_unsigned(&x.add(&y).unwrap()).unwrap();
            for i in 0..e.slots() {
                assert_eq!(product[i], t.mul(a[i], b[i]));
                assert_eq!(sum[i], t.add(a[i], b[i]));
            }
        }
    }

    #[test]
    fn automorphisms_rotate_rows_and_swap_them() {
        for e in encoders() {
            let values = vector(e.modulus(), e.slots(), 5);
            let encoded = e.encode_unsigned(&values).unwrap();
            let columns = e.slots() / 2;
            for k in [0, 1, 3, columns as i64 - 1, -1] {
                let image = encoded.image(GaloisElement::rotation(e.log_n(), k));
                let mut expected = values.clone();
                for row in expected.chunks_mut(columns) {
                    row.rotate_left(k.rem_euclid(columns as i64) as usize);
                }
                assert_eq!(e.decode_unsigned(&image).unwrap(), expected);
            }
            let swapped = encoded.image(GaloisElement::conjugation(e.log_n()));
            let mut expected = values.clone();
            expected.rotate_left(columns);
            assert_eq!(e.decode_unsigned(&swapped).unwrap(), expected);
        }
    }

    /// Slots modulo `p^e` reduce to slots modulo lower powers, which lets digits be removed.
    #[test]
    fn slots_of_powers_agree() {
        let [low, high] = [1, 3].map(|k| BatchEncoder::new(modulus(257, k), 6).unwrap());
        let values = vector(low.modulus(), 64, 6);
        let a = low.encode_unsigned(&values).unwrap().relabelled(high.modulus()).unwrap();
        let factor = 257 * 257;
        let expected: Vec<_> = values.iter().map(|v| v * factor).collect();
        assert_eq!(high.decode_unsigned(&a).unwrap(), expected);
    }

    #[test]
    fn moduli_without_slots_name_primes_that_have_them() {
        let refused = |p, k, log_n| match BatchEncoder::new(modulus(p, k), log_n) {
            Err(Error::NoSlots { possible, primes, .. }) => (possible, primes),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(257, 1, 15), (128, "65537 or 786433".into()));
        assert_eq!(refused(127, 2, 15), (0, "65537 or 786433".into()));
        assert_eq!(refused(2, 1, 12), (0, "40961 or 65537".into()));
        assert_eq!(refused(200_003, 1, 13), (0, "163841 or 557057".into()));
        let error = BatchEncoder::new(modulus(257, 1), 15).unwrap_err().to_string();
        assert!(error.contains("1 modulo 65536, such as 65537 or 786433"), "{error}");
        for (log_n, log_slots) in [(0, 0), (18, 1), (5, 0), (5, 6)] {
            let error = BatchEncoder::with_slots(modulus(257, 1), log_n, log_slots).unwrap_err();
            assert!(matches!(error, Error::InvalidSpec { .. }), "{error}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let t = modulus(257, 1);
        let e = BatchEncoder::with_slots(t, 5, 4).unwrap();
        assert_eq!(e.encode(&[0; 17]), Err(Error::TooManySlots { found: 17, slots: 16 }));
        assert!(e.encode(&[128, -128]).is_ok());
        assert!(matches!(e.encode(&[0, 129]), Err(Error::ValueOutOfRange { index: 1, .. })));
        assert!(matches!(e.encode_unsigned(&[257]), Err(Error::ValueOutOfRange { .. })));
        let other = PlainPoly::constant(modulus(257, 2), 5, 1).unwrap();
        assert!(matches!(e.decode(&other), Err(Error::PlaintextMismatch { .. })));
        let outside = PlainPoly::from_signed(t, 5, &[1, 1]).unwrap();
        assert!(matches!(e.decode(&outside), Err(Error::NotInSlots { .. })));
    }
}
