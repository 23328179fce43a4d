use super::{Complex, Params, Plaintext, Scale};
use crate::{
    Error, Result,
    ring::{Coeff, Eval, LimbSet, MixedRadix, RnsPoly},
    rlwe::Level,
};
use std::sync::Arc;
use sudare_arith::{
    Modulus,
    dd::Dd,
    fft::{Real, SpecialFft},
    mem::{Buf, Pool, Secrecy},
    par, real,
};
use zeroize::Zeroizing;

/// Bits of the largest decoded value, above its scale.
pub(super) const VALUE_BITS: f64 = 112.0;

/// Coefficients that are encoded have fewer bits than this, the sign included.
const ENCODED_BITS: f64 = 128.0;

/// The largest coefficient, relative to the scale, that doubles decode. Their rounding then stays
/// below `2^-30`.
const LARGEST_IN_F64: f64 = (1u64 << 20) as f64;

/// Converts vectors to plaintexts and back.
///
/// # Short inputs
/// One rule holds for this encoder and for [`exact::BatchEncoder`](crate::exact::BatchEncoder):
/// values fill the first slots, and the remaining slots are 0. An encoder that has fewer slots than
/// the ring repeats all of its slots, zeros included, until they fill the ring.
///
/// The encoders differ in their default number of slots. Here it is the next power of two of the
/// number of values, so that few values need few rotations. There it is all slots of the ring. To
/// name the number, use `with_slots`. Operands need the same number of slots.
#[derive(Debug, Clone)]
pub struct Encoder {
    params: Params,
    /// `log2` of the number of slots, unless it follows from the number of values.
    log_slots: Option<u32>,
}

impl Encoder {
    /// Makes an encoder whose number of slots follows from the values: the next power of two.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        Self { params: params.clone(), log_slots: None }
    }

    /// Makes an encoder for `slots` slots, a power of two up to `N / 2`, for vectors of at most this
    /// length.
    ///
    /// # Errors
    /// [`Error::TooManySlots`]; [`Error::InvalidSpec`] for a number that is not a power of two.
    pub fn with_slots(params: &Params, slots: usize) -> Result<Self> {
        if slots > params.max_slots() {
            return Err(Error::TooManySlots { found: slots, slots: params.max_slots() });
        }
        if !slots.is_power_of_two() {
            let problem =
                format!("{slots} is no power of two: choose {}", slots.next_power_of_two());
            return Err(Error::InvalidSpec { field: "slots", problem });
        }
        Ok(Self { params: params.clone(), log_slots: Some(slots.ilog2()) })
    }

    /// Encodes complex values at the top level and its default scale. The remaining slots are 0; see
    /// [`Encoder`].
    ///
    /// The plaintext is the rounded polynomial whose values at the roots of the orbit of 5 are the
    /// scale times the slots. Fewer slots than `N / 2` repeat (sparse packing).
    ///
    /// # Errors
    /// [`Error::NotFinite`]; [`Error::TooManySlots`]; [`Error::ValueTooLarge`] if a coefficient
    /// does not fit half the modulus.
    pub fn encode(&self, values: &[Complex<f64>]) -> Result<Plaintext> {
        let top = self.params.top();
        self.encode_at(values, top, self.params.scale_at(top))
    }

    /// Encodes complex values at `level` and `scale`; see [`Encoder::encode`].
    ///
    /// # Errors
    /// The errors of [`Encoder::encode`]; [`Error::LevelOutOfRange`]; [`Error::ScaleOutOfRange`].
    pub fn encode_at(
        &self,
        values: &[Complex<f64>],
        level: Level,
        scale: Scale,
    ) -> Result<Plaintext> {
        self.encode_slots(values.iter().copied(), values.len(), level, scale)
    }

    /// Encodes real values at the top level and its default scale; see [`Encoder::encode`].
    ///
    /// # Errors
    /// See [`Encoder::encode`].
    pub fn encode_real(&self, values: &[f64]) -> Result<Plaintext> {
        let top = self.params.top();
        self.encode_real_at(values, top, self.params.scale_at(top))
    }

    /// Encodes real values at `level` and `scale`; see [`Encoder::encode`].
    ///
    /// # Errors
    /// See [`Encoder::encode_at`].
    pub fn encode_real_at(&self, values: &[f64], level: Level, scale: Scale) -> Result<Plaintext> {
        let complex = values.iter().map(|&re| Complex { re, im: 0.0 });
        self.encode_slots(complex, values.len(), level, scale)
    }

    fn encode_slots(
        &self,
        values: impl Iterator<Item = Complex<f64>> + Clone,
        count: usize,
        level: Level,
        scale: Scale,
    ) -> Result<Plaintext> {
        self.params.rlwe().check_level(level)?;
        let slots = match self.log_slots {
            Some(log_slots) if count > 1 << log_slots => {
                return Err(Error::TooManySlots { found: count, slots: 1 << log_slots });
            }
            Some(log_slots) => 1 << log_slots,
            // No values are one slot of 0. Too many are refused below.
            None => count,
        };
        let limbs = self.params.rlwe().limbs(level);
        let slots = self.params.rules().encoded(slots, level, scale)?.slots();
        Ok(Plaintext {
            poly: self.polynomial(values, slots, level, limbs, scale)?,
            level,
            scale,
            log_slots: slots.ilog2(),
            params: self.params.rlwe().id(),
        })
    }

    /// Returns the polynomial of these values modulo the primes of `limbs`. Its coefficients must
    /// fit the modulus of `level`.
    pub(super) fn polynomial(
        &self,
        values: impl Iterator<Item = Complex<f64>> + Clone,
        count: usize,
        level: Level,
        limbs: LimbSet,
        scale: Scale,
    ) -> Result<RnsPoly<Eval>> {
        let rules = self.params.rules();
        let slots = rules.encoded(count, level, scale)?.slots();
        let bad = |v: &Complex<f64>| !(v.re.is_finite() && v.im.is_finite());
        if let Some((index, v)) = values.clone().enumerate().find(|(_, v)| bad(v)) {
            let value =
                if v.im == 0.0 { v.re.to_string() } else { format!("{} + {}i", v.re, v.im) };
            return Err(Error::NotFinite { index, value });
        }
        let pool = self.params.rlwe().basis().pool();
        let (coeffs, largest) = if self.params.needs_dd(scale) {
            let to_dd = |v: Complex<f64>| Complex { re: Dd::from(v.re), im: Dd::from(v.im) };
            coefficients(self.params.fft_dd(), values.clone().map(to_dd), slots, scale, pool)
        } else {
            coefficients(self.params.fft(), values.clone(), slots, scale, pool)
        };
        // Coefficients must fit, not values, and their size is known only after the transform.
        let needed_bits = real::log2(largest);
        let available_bits = rules.value_bits(level);
        let Some(coeffs) = coeffs.filter(|_| needed_bits < available_bits) else {
            let size = |v: &Complex<f64>| v.re.abs().max(v.im.abs());
            let larger = |a: (usize, f64), (i, v)| if size(&v) > a.1 { (i, size(&v)) } else { a };
            let index = values.enumerate().fold((0, 0.0), larger).0;
            return Err(Error::ValueTooLarge { index, needed_bits, available_bits });
        };
        Ok(self.params.rlwe().basis().into_eval(self.reduce(&coeffs, slots, limbs)))
    }

    /// Returns the residues of `2 slots` integers, spread over the ring.
    fn reduce(&self, coeffs: &Integers, slots: usize, limbs: LimbSet) -> RnsPoly<Coeff> {
        let basis = self.params.rlwe().basis();
        let gap = self.params.max_slots() / slots;
        // Secret buffers are zero when taken, so the coefficients between the gaps stay 0.
        let mut poly: RnsPoly<Coeff> = basis.take_as(Secrecy::Value, limbs);
        par::for_each(basis.tables(limbs).zip(poly.rows_mut()), |(table, row)| {
            let m = table.modulus();
            match coeffs {
                Integers::Wide(coeffs) => {
                    for (x, &c) in row.iter_mut().step_by(gap).zip(coeffs.iter()) {
                        *x = m.reduce_i128(c);
                    }
                }
                Integers::Words { words, bits } => {
                    // Any modulus reduces words of 52 bits.
                    let m: Modulus = if *bits > 52 { m.for_inputs_of(*bits) } else { *m };
                    // Undoes the offset that made the coefficients nonnegative: rows have no signs.
                    let minus = m.neg(m.reduce(1 << (bits - 1)));
                    if gap == 1 {
                        m.reduce_rows(row, words);
                        m.add_constant(row, minus);
                    } else {
                        for (x, &word) in row.iter_mut().step_by(gap).zip(words.iter()) {
                            *x = m.add(m.reduce(word), minus);
                        }
                    }
                }
            }
        });
        poly
    }

    /// Decodes a plaintext without any rounding. For the holder of the secret key only; see
    /// `SECURITY.md`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`].
    pub fn decode(&self, a: &Plaintext) -> Result<Vec<Complex<f64>>> {
        self.params.rlwe().check_id("plaintext", a.params)?;
        let slots = a.slots();
        let coefficients = self.coefficients(a);
        let largest = coefficients.iter().fold(0.0f64, |most, x| most.max(x.to_f64().abs()));
        // A transform of doubles is off by a few units in the last place of the largest value,
        // which hides small values next to large ones.
        if self.params.needs_dd(a.scale) || largest > LARGEST_IN_F64 {
            let values = transformed(&coefficients, slots, self.params.fft_dd());
            let to_f64 = |v: &Complex<Dd>| Complex { re: v.re.to_f64(), im: v.im.to_f64() };
            Ok(values.iter().map(to_f64).collect())
        } else {
            Ok(transformed(&coefficients, slots, self.params.fft()))
        }
    }

    /// Returns the real parts of [`Encoder::decode`].
    ///
    /// # Errors
    /// See [`Encoder::decode`].
    pub fn decode_real(&self, a: &Plaintext) -> Result<Vec<f64>> {
        Ok(self.decode(a)?.into_iter().map(|v| v.re).collect())
    }

    /// Returns the coefficients of the real parts of the slots, then of the imaginary parts,
    /// divided by the scale.
    fn coefficients(&self, a: &Plaintext) -> Vec<Dd> {
        let rlwe = self.params.rlwe();
        let basis = rlwe.basis();
        // Doubles could not hold the moduli of high levels, but coefficients are far smaller:
        // encoded ones by their type, decrypted ones by the choice of level.
        let enough_bits = (a.scale.log2() + VALUE_BITS).max(ENCODED_BITS);
        let enough = |level: &Level| rlwe.log2_q(*level) >= enough_bits;
        let level = rlwe.levels().below(a.level).find(enough).unwrap_or(a.level);
        let poly = basis.into_coeff(basis.restricted(&a.poly, rlwe.limbs(level)));
        let slots = a.slots();
        let gap = self.params.max_slots() / slots;
        let mut reader =
            IntegerReader::new(basis.tables(poly.limbs()).map(|t| *t.modulus()).collect());
        let rows: Vec<&[u64]> = poly.rows().collect();
        let unscale = Dd::ONE / a.scale.to_dd();
        (0..2 * slots).map(|k| reader.read(&rows, k * gap) * unscale).collect()
    }
}

/// Transforms coefficients to slots, real parts first.
fn transformed<T: Scaled>(
    coefficients: &[Dd],
    slots: usize,
    fft: &SpecialFft<T>,
) -> Vec<Complex<T>> {
    let (real, imaginary) = coefficients.split_at(slots);
    let pairs = real.iter().zip(imaginary);
    let mut values: Vec<Complex<T>> =
        pairs.map(|(&re, &im)| Complex { re: T::from_dd(re), im: T::from_dd(im) }).collect();
    fft.forward(&mut values);
    values
}

/// Integer coefficients, wiped when dropped.
enum Integers {
    /// Words `c + 2^(bits - 1)` below `2^bits`, which the row kernels reduce.
    Words { words: Buf, bits: u32 },
    /// Integers of at most 127 bits.
    Wide(Zeroizing<Vec<i128>>),
}

/// A real number that rounds to the nearest integer coefficient.
trait Scaled: Real {
    /// Returns `self * scale` approximately, to compare sizes.
    fn approximately(self, scale: f64) -> f64;
    /// Returns `round(self * scale)`, which must be at most `2^62` in magnitude.
    fn narrow(self, scale: Scale) -> i64;
    /// Returns `round(self * scale)`, or `None` for more than 127 bits.
    fn wide(self, scale: Scale) -> Option<i128>;
}

impl Scaled for f64 {
    fn approximately(self, scale: f64) -> f64 {
        self * scale
    }

    fn narrow(self, scale: Scale) -> i64 {
        nearest(self * scale.to_f64())
    }

    fn wide(self, scale: Scale) -> Option<i128> {
        let x = (self * scale.to_f64()).round_ties_even();
        (x.abs() < real::exp2(127.0)).then_some(x as i128)
    }
}

impl Scaled for Dd {
    fn approximately(self, scale: f64) -> f64 {
        self.hi() * scale
    }

    fn narrow(self, scale: Scale) -> i64 {
        let x = self * scale.to_dd();
        let whole = nearest(x.hi());
        // `lo` may carry the number across a half, so the rest is rounded again.
        whole + nearest((x.hi() - whole as f64) + x.lo())
    }

    fn wide(self, scale: Scale) -> Option<i128> {
        (self * scale.to_dd()).round_i128()
    }
}

/// Rounds to the nearest integer, a half away from zero, for `|x| < 2^62`.
fn nearest(x: f64) -> i64 {
    // The largest number below a half: adding a half itself can round up.
    const ALMOST_HALF: f64 = 0.5 - f64::EPSILON / 4.0;
    (x + ALMOST_HALF.copysign(x)) as i64
}

/// Returns the `2 slots` integer coefficients of `values` at `scale`, or `None` if one exceeds 127
/// bits, and the size of the largest.
fn coefficients<T: Scaled>(
    fft: &SpecialFft<T>,
    values: impl Iterator<Item = Complex<T>>,
    slots: usize,
    scale: Scale,
    pool: &Arc<Pool>,
) -> (Option<Integers>, f64) {
    let mut values: Vec<Complex<T>> = values.collect();
    values.resize(slots, Complex { re: T::ZERO, im: T::ZERO });
    fft.inverse(&mut values);
    let factor = scale.to_f64();
    let largest = values.iter().fold(0f64, |largest, v| {
        let size = |x: T| x.approximately(factor).abs();
        largest.max(size(v.re)).max(size(v.im))
    });
    let halves = || values.iter().map(|v| v.re).chain(values.iter().map(|v| v.im));
    // One bit below the limit of `narrow`, because `largest` is only approximate.
    let coeffs = if largest < real::exp2(61.0) {
        // Words of 52 bits suit the kernels of every modulus.
        let bits = if largest < real::exp2(50.0) { 52 } else { 64 };
        let mut words = pool.take_as(Secrecy::Value, 2 * slots);
        for (word, x) in words.iter_mut().zip(halves()) {
            *word = (x.narrow(scale) as u64).wrapping_add(1 << (bits - 1));
        }
        Some(Integers::Words { words, bits })
    } else {
        let wide: Option<Vec<i128>> = halves().map(|x| x.wide(scale)).collect();
        wide.map(|wide| Integers::Wide(Zeroizing::new(wide)))
    };
    (coeffs, largest)
}

/// Converts residues to the integer in `(-Q/2, Q/2)`.
pub(super) struct IntegerReader {
    radix: MixedRadix,
    digits: Zeroizing<Vec<i64>>,
}

impl IntegerReader {
    pub(super) fn new(moduli: Vec<Modulus>) -> Self {
        let digits = Zeroizing::new(vec![0; moduli.len()]);
        Self { radix: MixedRadix::new(moduli), digits }
    }

    /// Returns the integer with the residues in column `k` of `rows`, to 106 bits.
    pub(super) fn read(&mut self, rows: &[&[u64]], k: usize) -> Dd {
        self.radix.resolve(&mut self.digits, |i| rows[i][k]);
        let mut value = Dd::ZERO;
        let mut weight = Dd::ONE;
        for (&digit, m) in self.digits.iter().zip(self.radix.moduli()) {
            value += Dd::from(digit) * weight;
            weight *= Dd::from(m.value());
        }
        value
    }
}
