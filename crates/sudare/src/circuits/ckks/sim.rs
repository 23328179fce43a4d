//! An evaluator on clear slots, to dry-run circuits.
//!
//! It rejects the same operations as the encrypted evaluator, counts operations and records the
//! keys that they would use. One run of a circuit thus yields its depth, cost and exact
//! [`KeyRequest`] before any key exists.

use super::{
    ComplexOps, ComplexSlots, LinearPlan, WorstCase, matrix,
    ops::{match_scale_by_product, summands},
    worst_case,
};
use crate::{
    Error, Result,
    circuits::{ArgumentError, Extremes, Ops, counts::Counters, input::at},
    ckks::{
        self, Chain, Complex, Scale,
        rules::{Form, Rules},
    },
    rlwe::{CanonicalBounds, GaloisElement, KeyRequest, Level, Levels, ProductSum, Raise},
};
use std::sync::{Mutex, PoisonError};
use sudare_arith::{dd::Dd, real, sample::CBD21_VARIANCE};

pub use crate::circuits::counts::Counts;

/// Slots in the clear, with all public properties of a ciphertext.
#[derive(Debug, Clone, PartialEq)]
pub struct Ciphertext {
    /// The values. Their number is a power of two, and they repeat to fill `N / 2`.
    pub slots: Vec<Complex<f64>>,
    /// The level.
    pub level: Level,
    /// The scale.
    pub scale: Scale,
    /// `log2` of the standard deviation of the error of a slot that encryption would have caused.
    /// An estimate: it treats all errors as independent, all slots as equal to their root mean
    /// square, and the secret as uniform ternary.
    pub noise_log2: f64,
    /// `log2` of the standard deviation of the imaginary part of that error, which
    /// [`ComplexOps::twice_real_part`] removes. Also an estimate: polynomials amplify it by the
    /// largest slope on their interval, wherever the slots are.
    pub imaginary_log2: f64,
    /// Bits left between the largest scaled value until now, sign included, and its modulus. If
    /// negative, decryption would return noise.
    pub headroom_bits: f64,
    /// Bounds that hold for all inputs. Errors are bounded if the evaluator has parameters
    /// ([`Evaluator::for_params`]) and nothing was raised from level 0.
    pub worst: WorstCase,
}

/// [`Ops`] on clear slots.
#[derive(Debug)]
pub struct Evaluator {
    log_n: u32,
    chain: Chain,
    /// Weight of the ephemeral secret that raising goes through, if any.
    ephemeral_weight: Option<u32>,
    /// The existing level keys.
    level_keys: KeyRequest,
    /// Bounds of errors, if parameters are known.
    bounds: Option<CanonicalBounds>,
    /// `true` to fold arguments of polynomials into their intervals.
    folds_arguments: bool,
    /// `true` to accept arguments of polynomials with any imaginary part of their noise.
    trusts_arguments: bool,
    counters: Counters,
    keys: Mutex<KeyRequest>,
}

/// Largest noise in any of many slots, in standard deviations.
const PEAK: f64 = 6.0;

/// Maximum change of a polynomial's real part by imaginary parts of arguments, relative to its
/// largest value. Beyond it the polynomial soon diverges: twice the imaginary part changes it at
/// least four times as much.
const MAX_OFF: f64 = 1.0 / 64.0;

/// Standard deviations of the error of a slot.
#[derive(Debug, Clone, Copy)]
struct Noise {
    whole: f64,
    imaginary: f64,
}

impl Noise {
    /// Makes an error without a preferred direction.
    fn complex(whole: f64) -> Self {
        Self { whole, imaginary: whole * 0.5f64.sqrt() }
    }

    /// Returns the noise of the sum of two independent errors.
    fn plus(self, other: Self) -> Self {
        Self {
            whole: real::hypot(self.whole, other.whole),
            imaginary: real::hypot(self.imaginary, other.imaginary),
        }
    }

    fn times(self, factor: f64) -> Self {
        Self { whole: self.whole * factor, imaginary: self.imaginary * factor }
    }
}

impl Evaluator {
    /// Makes an evaluator for rings of dimension `N = 2^log_n`, `3 <= log_n <= 30`, and a chain.
    /// Errors have estimates but no bounds.
    #[must_use]
    pub fn new(log_n: u32, chain: Chain) -> Self {
        debug_assert!((3..=30).contains(&log_n));
        let (level_keys, counters, keys) = Default::default();
        Self {
            log_n,
            chain,
            ephemeral_weight: None,
            level_keys,
            bounds: None,
            folds_arguments: false,
            trusts_arguments: false,
            counters,
            keys,
        }
    }

    /// Makes an evaluator for these parameters, with bounds of errors.
    #[must_use]
    pub fn for_params(params: &ckks::Params) -> Self {
        let bounds = Some(CanonicalBounds::new(params.rlwe()));
        Self { bounds, ..Self::new(params.log_n(), params.chain().clone()) }
    }

    /// Makes raising go through an ephemeral secret of this weight, with keys to it and back; see
    /// [`Raise`].
    #[must_use]
    pub fn with_ephemeral_secret(self, weight: u32) -> Self {
        Self { ephemeral_weight: Some(weight), ..self }
    }

    /// Makes slots stand for arbitrary others: arguments of polynomials outside `[-1, 1]` are
    /// reflected at its ends. A plan runs programs on its own numbers, which are not in the
    /// intervals of the program's functions.
    #[must_use]
    pub fn with_folded_arguments(self) -> Self {
        Self { folds_arguments: true, ..self }
    }

    /// Assumes that arguments of polynomials are real enough, for circuits that track noise
    /// themselves. The imaginary parts tracked here are a worst case, which grows with each layer
    /// of a network.
    #[must_use]
    pub fn with_trusted_arguments(self) -> Self {
        Self { trusts_arguments: true, ..self }
    }

    /// Adds the level keys of a request. Operations use them where the encrypted evaluator would;
    /// see [`KeyRequest::into_level_keys`].
    #[must_use]
    pub fn with_level_keys(self, keys: &KeyRequest) -> Self {
        Self {
            level_keys: KeyRequest { level_keys: keys.level_keys.clone(), ..KeyRequest::new() },
            ..self
        }
    }

    /// Makes a fresh public-key encryption of `slots`, filled with zeros up to a power of two.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] above the top of the chain, [`Error::ScaleOutOfRange`],
    /// [`Error::TooManySlots`] for more than `N/2`, [`Error::NotFinite`], [`Error::ValueTooLarge`]
    /// for a slot that the modulus has no room for.
    pub fn encrypt(
        &self,
        slots: &[Complex<f64>],
        level: Level,
        scale: Scale,
    ) -> Result<Ciphertext> {
        self.encrypt_within(slots, &worst_case::magnitudes(slots), level, scale)
    }

    /// Runs [`Evaluator::encrypt`] for slots with these values here, and with a bound for all
    /// inputs: `largest` has one number per slot.
    ///
    /// # Errors
    /// Errors of [`Evaluator::encrypt`]; [`Error::SlotMismatch`].
    pub fn encrypt_within(
        &self,
        slots: &[Complex<f64>],
        largest: &[f64],
        level: Level,
        scale: Scale,
    ) -> Result<Ciphertext> {
        let found = largest.len();
        let expected = slots.len();
        if found != expected {
            return Err(Error::SlotMismatch { op: "encrypt", found, expected });
        }
        self.chain.levels().check_chain(level)?;
        let form = self.rules().encoded(slots.len(), level, scale)?;
        let mut slots = slots.to_vec();
        slots.resize(form.slots(), Complex::new(0.0, 0.0));
        for (index, &slot) in slots.iter().enumerate() {
            self.check_integer(index, slot, scale, level)?;
        }
        // v e + e_0 + e_1 s: two of three terms are sums of N products.
        let n = self.dimension();
        let noise = (CBD21_VARIANCE * n * (4.0 * n / 3.0 + 1.0)).sqrt() / scale.to_f64();
        let noise = Noise::complex(noise);
        let mut largest = largest.to_vec();
        // The slots after the values are 0 for all inputs.
        largest.resize(slots.len(), 0.0);
        let error = self.bound(CanonicalBounds::fresh) / scale.to_f64();
        let error = error + worst_case::encoding(&largest, scale);
        let worst = WorstCase::new(largest, error);
        Ok(self.ciphertext(slots, level, scale, noise, f64::INFINITY, worst))
    }

    /// Returns the values, without any error.
    #[must_use]
    pub fn decrypt(&self, a: &Ciphertext) -> Vec<Complex<f64>> {
        a.slots.clone()
    }

    /// Operations computed since this evaluator was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// The keys used since this evaluator was made, each at its highest level of use.
    #[must_use]
    pub fn used_keys(&self) -> KeyRequest {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn use_keys(&self, request: KeyRequest) {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) |= request;
    }

    /// Records the keys of an operation at `level`, level keys if they exist. Returns the largest
    /// error of a switch with one, in integers.
    fn use_keys_at(&self, level: Level, needed: KeyRequest) -> f64 {
        let key_level = self.level_keys.key_level(self.chain.levels().above(level), &needed);
        let relinearizes = needed.relinearize.is_some();
        self.use_keys(match key_level {
            Some(key_level) => needed.moved_to_level_keys(|_| Some(key_level)),
            None => needed,
        });
        self.bound(|bounds| match relinearizes {
            true => bounds.relinearization(level, key_level),
            false => bounds.key_switch(level, key_level),
        })
    }

    /// Returns a bound of an error in integers; infinite if none is known.
    fn bound(&self, of: impl FnOnce(&CanonicalBounds) -> f64) -> f64 {
        self.bounds.as_ref().map_or(f64::INFINITY, of)
    }

    fn dimension(&self) -> f64 {
        real::exp2(f64::from(self.log_n))
    }

    /// Returns the standard deviation of a slot's error from rounding both parts of a ciphertext.
    /// Coefficients have variance `(1 + 2N/3) / 12 ~ N/18`, and slots `N` times that.
    fn rounding(&self, scale: Scale) -> Noise {
        Noise::complex(self.dimension() / 18f64.sqrt() / scale.to_f64())
    }

    fn rules(&self) -> Rules<'_> {
        Rules::new(&self.chain, self.log_n)
    }

    /// Checks that `a scale` is a number that fits the modulus and 128 bits.
    fn check_integer(
        &self,
        index: usize,
        a: Complex<f64>,
        scale: Scale,
        level: Level,
    ) -> Result<()> {
        if !(a.re.is_finite() && a.im.is_finite()) {
            let value = match a.im {
                0.0 => a.re.to_string(),
                im => format!("{} + {im}i", a.re),
            };
            return Err(Error::NotFinite { index, value });
        }
        let needed_bits = real::log2(modulus(a)) + scale.log2();
        let available_bits = self.rules().value_bits(level);
        if needed_bits < available_bits {
            return Ok(());
        }
        Err(Error::ValueTooLarge { index, needed_bits, available_bits })
    }

    /// Checks that a constant in every slot fits. A real constant is an integer.
    fn check_constant(&self, c: Complex<f64>, scale: Scale, level: Level) -> Result<()> {
        match c.im {
            0.0 => self.rules().integer(c.re, scale, level).map(drop),
            _ => self.check_integer(0, c, scale, level),
        }
    }

    /// Checks that a polynomial with these slots fits. Its coefficients are no larger than the
    /// slots.
    fn check_integers(&self, values: &[Complex<f64>], scale: Scale, level: Level) -> Result<()> {
        let mut values = values.iter().enumerate();
        values.try_for_each(|(index, &value)| self.check_integer(index, value, scale, level))
    }

    /// Returns the standard deviation of a slot's error from rounding `N` coefficients.
    fn encoding_of_slots(&self, scale: Scale) -> Noise {
        Noise::complex((self.dimension() / 12.0).sqrt() / scale.to_f64())
    }

    fn ciphertext(
        &self,
        slots: Vec<Complex<f64>>,
        level: Level,
        scale: Scale,
        noise: Noise,
        headroom_bits: f64,
        worst: WorstCase,
    ) -> Ciphertext {
        let largest = slots.iter().fold(0.0, |most, &slot| modulus(slot).max(most));
        // One bit is for the sign.
        let available_bits = self.chain.log2_q(level) - 1.0;
        // The least room so far counts: once a value has overflowed, every later result is wrong.
        let headroom_bits = headroom_bits.min(available_bits - real::log2(largest) - scale.log2());
        let worst = worst.held(available_bits, scale);
        let noise_log2 = real::log2(noise.whole);
        let imaginary_log2 = real::log2(noise.imaginary);
        Ciphertext { slots, level, scale, noise_log2, imaginary_log2, headroom_bits, worst }
    }

    fn sum(
        &self,
        op: &'static str,
        a: &Ciphertext,
        b: &Ciphertext,
        sum: impl Fn(Complex<f64>, Complex<f64>) -> Complex<f64>,
    ) -> Result<Ciphertext> {
        let [a, b] = summands(self, op, a, b)?;
        let Form { level, scale, .. } = self.rules().sum(op, a.form(), b.form())?;
        let slots = a.slots.iter().zip(&b.slots).map(|(&a, &b)| sum(a, b)).collect();
        let noise = a.noise().plus(b.noise());
        let headroom_bits = a.headroom_bits.min(b.headroom_bits);
        let worst = a.worst.sum(&b.worst);
        Ok(self.ciphertext(slots, level, scale, noise, headroom_bits, worst))
    }
}

impl Ciphertext {
    fn form(&self) -> Form {
        let level = self.level;
        let scale = self.scale;
        let log_slots = self.slots.len().ilog2();
        Form { level, scale, log_slots }
    }

    /// Makes a fresh encryption stand for one of `slots` slots like these: its largest error then
    /// includes the rounding of all of them.
    #[must_use]
    pub fn standing_for(mut self, slots: usize) -> Self {
        let others = slots.saturating_sub(self.slots.len());
        self.worst.error += worst_case::rounding(others, self.scale);
        self
    }

    fn noise(&self) -> Noise {
        Noise { whole: real::exp2(self.noise_log2), imaginary: real::exp2(self.imaginary_log2) }
    }

    fn take_worst(&mut self) -> WorstCase {
        WorstCase { largest: core::mem::take(&mut self.worst.largest), ..self.worst }
    }

    /// Returns the root mean square of the slots.
    fn magnitude(&self) -> f64 {
        let squares: f64 = self.slots.iter().map(|&z| norm(z)).sum();
        (squares / self.slots.len() as f64).sqrt()
    }
}

impl Ops for Evaluator {
    type Algebra = ComplexSlots;
    type Ct = Ciphertext;
    type Matrix = LinearPlan;

    fn log_n(&self) -> u32 {
        self.log_n
    }

    fn levels(&self) -> Levels {
        self.chain.levels()
    }

    fn divisor(&self, _: &Ciphertext, level: Level) -> Scale {
        self.chain.divisor(level)
    }

    fn level(&self, a: &Ciphertext) -> Level {
        a.level
    }

    fn scale(&self, a: &Ciphertext) -> Scale {
        a.scale
    }

    fn with_scale(&self, a: &Ciphertext, scale: Scale) -> Result<Ciphertext> {
        self.rules().with_scale(a.form(), scale)?;
        let ratio = (a.scale / scale).to_f64();
        let slots = a.slots.iter().map(|&z| z * Complex::new(ratio, 0.0)).collect();
        let worst = a.worst.times(ratio, 0.0);
        Ok(self.ciphertext(slots, a.level, scale, a.noise().times(ratio), a.headroom_bits, worst))
    }

    fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.sum("add", a, b, |a, b| a + b)
    }

    fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.sum("subtract", a, b, |a, b| a - b)
    }

    fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let Form { level, scale, .. } = self.rules().product(a.form(), b.form())?;
        let slots = a.slots.iter().zip(&b.slots).map(|(&a, &b)| a * b).collect();
        let noise = a.noise().times(b.magnitude()).plus(b.noise().times(a.magnitude()));
        let noise = noise.plus(a.noise().times(b.noise().whole)).plus(self.rounding(scale));
        self.counters.products(1);
        let switch = self.use_keys_at(level, KeyRequest::new().relinearize(level));
        let headroom_bits = a.headroom_bits.min(b.headroom_bits);
        let worst = a.worst.product(&b.worst).with_more_error(switch / scale.to_f64());
        Ok(self.ciphertext(slots, level, scale, noise, headroom_bits, worst))
    }

    fn mul_rescale(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.rules().rescaled_product(a.form(), b.form())?;
        let mut product = self.mul(a, b)?;
        self.rescale_assign(&mut product)?;
        Ok(product)
    }

    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Ciphertext>) -> Result<Ciphertext> {
        let forms: Vec<_> = sum.products.iter().map(|(a, b)| (a.form(), b.form())).collect();
        self.rules().product_sum(&forms, sum.addend.map(Ciphertext::form))?;
        let products = sum.products.iter().map(|(a, b)| self.mul(a, b));
        let total = products
            .chain(sum.addend.map(|c| Ok(c.clone())))
            .reduce(|total, next| self.add(&total?, &next?));
        let mut total =
            total.unwrap_or_else(|| Err(Error::Circuit("sum of products: none".into())))?;
        self.rescale_assign(&mut total)?;
        Ok(total)
    }

    fn add_const(&self, a: &Ciphertext, c: Complex<f64>) -> Result<Ciphertext> {
        self.check_constant(c, a.scale, a.level)?;
        let slots = a.slots.iter().map(|&z| z + c).collect();
        let noise = a.noise().plus(encoding(c, a.scale));
        let worst = a.worst.plus(modulus(c), largest_encoding(c, a.scale));
        Ok(self.ciphertext(slots, a.level, a.scale, noise, a.headroom_bits, worst))
    }

    fn mul_const(&self, a: &Ciphertext, c: Complex<f64>, scale: Scale) -> Result<Ciphertext> {
        let product = self.rules().constant_product(a.form(), scale)?.scale;
        self.check_constant(c, scale, a.level)?;
        let slots = a.slots.iter().map(|&z| z * c).collect();
        let noise = a.noise().times(modulus(c)).plus(encoding(c, scale).times(a.magnitude()));
        self.counters.constant_products(1);
        let worst = a.worst.times(modulus(c), largest_encoding(c, scale));
        Ok(self.ciphertext(slots, a.level, product, noise, a.headroom_bits, worst))
    }

    fn mul_const_sum(&self, terms: &[(&Ciphertext, f64, Scale)]) -> Result<Ciphertext> {
        let forms: Vec<_> = terms.iter().map(|(a, _, scale)| (a.form(), *scale)).collect();
        let level = self.rules().constant_sum(&forms)?.level;
        let product = |(a, c, scale): &(&Ciphertext, f64, Scale)| {
            self.mul_const(&*at(self, a, level)?, Complex::new(*c, 0.0), *scale)
        };
        let sum = terms.iter().map(product).reduce(|sum, next| self.add(&sum?, &next?));
        sum.unwrap_or_else(|| Err(Error::Circuit("sum of products: no terms".into())))
    }

    fn add_plain(&self, a: &Ciphertext, values: &[Complex<f64>]) -> Result<Ciphertext> {
        self.rules().one_a_slot("add", values, a.form())?;
        self.check_integers(values, a.scale, a.level)?;
        let slots = a.slots.iter().zip(values).map(|(&a, &b)| a + b).collect();
        let noise = a.noise().plus(self.encoding_of_slots(a.scale));
        let worst = a.worst.plus_slots(values, a.scale);
        Ok(self.ciphertext(slots, a.level, a.scale, noise, a.headroom_bits, worst))
    }

    fn mul_plain_many(
        &self,
        xs: &[&Ciphertext],
        values: &[Complex<f64>],
        scale: Scale,
    ) -> Result<Vec<Ciphertext>> {
        let squares: f64 = values.iter().map(|&z| norm(z)).sum();
        let magnitude = (squares / values.len().max(1) as f64).sqrt();
        let product = |a: &&Ciphertext| {
            self.rules().one_a_slot("multiply", values, a.form())?;
            self.rules().encoded(values.len(), a.level, scale)?;
            self.check_integers(values, scale, a.level)?;
            let product = self.rules().constant_product(a.form(), scale)?.scale;
            let slots = a.slots.iter().zip(values).map(|(&a, &b)| a * b).collect();
            let encoding = self.encoding_of_slots(scale).times(a.magnitude());
            let noise = a.noise().times(magnitude).plus(encoding);
            self.counters.constant_products(1);
            let worst = a.worst.times_slots(values, scale);
            Ok(self.ciphertext(slots, a.level, product, noise, a.headroom_bits, worst))
        };
        xs.iter().map(product).collect()
    }

    fn rescale_assign(&self, a: &mut Ciphertext) -> Result<()> {
        let Form { level, scale, .. } = self.rules().rescaled("rescale", a.form())?;
        let noise = a.noise().plus(self.rounding(scale));
        let slots = core::mem::take(&mut a.slots);
        let rounding = self.bound(CanonicalBounds::rounding) / scale.to_f64();
        let worst = a.take_worst().with_more_error(rounding);
        *a = self.ciphertext(slots, level, scale, noise, a.headroom_bits, worst);
        self.counters.rescalings(1);
        Ok(())
    }

    fn drop_to(&self, a: &mut Ciphertext, level: Level) -> Result<()> {
        self.rules().dropped(a.form(), level)?;
        let slots = core::mem::take(&mut a.slots);
        let worst = a.take_worst();
        *a = self.ciphertext(slots, level, a.scale, a.noise(), a.headroom_bits, worst);
        Ok(())
    }

    fn match_scale(&self, a: &Ciphertext, level: Level, scale: Scale) -> Result<Ciphertext> {
        match_scale_by_product(self, a, level, scale)
    }

    fn automorphism(&self, a: &Ciphertext, g: GaloisElement) -> Result<Ciphertext> {
        let (k, conjugates) = slot_action(self.log_n, g).ok_or_else(|| {
            Error::Circuit(format!(
                "automorphism X -> X^{g}: an odd exponent below 2N = 2^{} is needed; make it \
                 with GaloisElement::rotation or ::conjugation",
                self.log_n + 1
            ))
        })?;
        if g == GaloisElement(1) {
            return Ok(a.clone());
        }
        let mut slots = a.slots.clone();
        slots.rotate_left(k % a.slots.len());
        if conjugates {
            slots.iter_mut().for_each(|z| z.im = -z.im);
        }
        let noise = a.noise().plus(self.rounding(a.scale));
        self.counters.automorphisms(1);
        let switch = self.use_keys_at(a.level, KeyRequest::new().automorphism(g, a.level));
        let worst = a.worst.rotated(k).with_more_error(switch / a.scale.to_f64());
        Ok(self.ciphertext(slots, a.level, a.scale, noise, a.headroom_bits, worst))
    }

    fn prepare(&self, plan: &LinearPlan) -> Result<LinearPlan> {
        Ok(plan.clone())
    }

    fn transform(&self, a: &Ciphertext, plan: &LinearPlan) -> Result<Ciphertext> {
        let level = plan.level();
        let log_slots = plan.diagonals().log_slots();
        let weights = Form { level, scale: plan.weight_scale(), log_slots };
        self.rules().transformed(a.form(), weights, false)?;
        let scale = a.scale * plan.weight_scale();
        let switch = self.use_keys_at(level, plan.required_keys().clone());
        let MatrixProduct { slots, squares, worst } = MatrixProduct::of(a, plan, switch);
        // Each weight has the rounding error of N coefficients.
        let rounded = (plan.weights() as f64 * self.dimension() / 12.0).sqrt();
        let encoding = Noise::complex(a.magnitude() * rounded / plan.weight_scale().to_f64());
        let noise = a.noise().times((squares / a.slots.len() as f64).sqrt());
        let noise = noise.plus(encoding).plus(self.rounding(scale));
        let mut product = self.ciphertext(slots, level, scale, noise, a.headroom_bits, worst);
        self.rescale_assign(&mut product)?;
        self.counters.automorphisms(plan.required_keys().count() as u64);
        Ok(product)
    }

    fn within(&self, mut a: Ciphertext, most: f64) -> Ciphertext {
        a.worst.largest.iter_mut().for_each(|x| *x = x.min(most));
        a
    }

    fn argument(&self, a: Ciphertext, p: &Extremes) -> Result<(Ciphertext, Vec<ArgumentError>)> {
        let imaginary = a.noise().imaginary;
        let off = p.off_the_real_line(PEAK * imaginary);
        let harmless = off <= MAX_OFF * p.value;
        // The value is NaN if noise is infinite.
        if p.degree() > 1 && !harmless && !self.trusts_arguments {
            return Err(Error::Circuit(format!(
                "polynomial of degree {}: noise gives its argument imaginary parts up to 2^{:.1}, \
                 with which its values are off by 2^{:.1}: take real parts of the argument first, \
                 (x + conjugate(x)) / 2, or use larger scales",
                p.degree(),
                real::log2(PEAK * imaginary),
                real::log2(off)
            )));
        }
        let argument = a.worst.argument.max(a.worst.magnitude());
        let mut exact = self.within(a, 1.0);
        exact.worst.argument = argument;
        exact.imaginary_log2 = f64::NEG_INFINITY;
        if self.folds_arguments {
            exact.slots.iter_mut().for_each(|z| z.re = folded(z.re));
        }
        // Until `image` the argument counts as exact. The slope of the polynomial then covers its
        // error.
        let largest = core::mem::replace(&mut exact.worst.error, 0.0);
        Ok((exact, vec![ArgumentError { largest, imaginary }]))
    }

    fn image(&self, mut y: Ciphertext, errors: &[ArgumentError], p: &Extremes) -> Ciphertext {
        let ArgumentError { largest, imaginary } = errors.first().copied().unwrap_or_default();
        // Beyond the interval, values, slopes and powers are larger by this factor.
        let beyond = worst_case::chebyshev_beyond(p.degree(), largest);
        let own = y.worst.error * real::powi(beyond, p.degree().max(1).ilog2() as i32 + 1);
        let all = own + p.slope * beyond * largest;
        // An infinite error times a slope of 0 is NaN.
        y.worst.error = if all.is_nan() { f64::INFINITY } else { all };
        y.imaginary_log2 = real::log2(real::hypot(y.noise().imaginary, p.slope * imaginary));
        y
    }
}

impl ComplexOps for Evaluator {
    fn chain(&self) -> &Chain {
        &self.chain
    }

    fn log_slots(&self, a: &Ciphertext) -> u32 {
        a.slots.len().ilog2()
    }

    fn with_log_slots(&self, a: &Ciphertext, log_slots: u32) -> Result<Ciphertext> {
        let count = self.rules().with_log_slots(a.form(), log_slots)?.slots();
        let slots = a.slots.iter().copied().cycle().take(count).collect();
        let largest = a.worst.largest.iter().copied().cycle().take(count).collect();
        let worst = WorstCase { largest, ..a.worst };
        let Ciphertext { level, scale, noise_log2, imaginary_log2, headroom_bits, .. } = *a;
        Ok(Ciphertext { slots, level, scale, noise_log2, imaginary_log2, headroom_bits, worst })
    }

    fn off_by(&self, mut a: Ciphertext, error: f64) -> Ciphertext {
        a.imaginary_log2 = real::log2(real::hypot(a.noise().imaginary, error / PEAK));
        a
    }

    fn twice_real_part(&self, a: &Ciphertext) -> Result<Ciphertext> {
        let mut sum = self.add(a, &self.conjugate(a)?)?;
        // The key switch of one of the two remains.
        sum.imaginary_log2 = real::log2(self.rounding(sum.scale).imaginary);
        Ok(sum)
    }

    /// The slots stay the slots of `m`, as if `I` were zero. The part of `I` that a circuit does
    /// not remove, and the room that `q_0 I` needs, do not show here. `I` depends on the key, so no
    /// bound of errors is known after it.
    fn mod_raise(
        &self,
        a: &Ciphertext,
        to: Level,
        ephemeral_weight: Option<u32>,
    ) -> Result<Ciphertext> {
        self.rules().ephemeral_secret(ephemeral_weight, self.ephemeral_weight)?;
        self.rules().raised(a.form(), to)?;
        let mut low = a.clone();
        self.drop_to(&mut low, Level(0))?;
        let mut noise = low.noise();
        if let Some(weight) = self.ephemeral_weight {
            // The rounding under the sparse secret is small compared with the rounding under the
            // main one.
            noise = noise.plus(self.rounding(low.scale));
            self.use_keys(KeyRequest::new().raise(Raise::to(to).with_weight(weight)));
        }
        self.counters.raisings(1);
        let worst = low.take_worst().with_more_error(f64::INFINITY);
        Ok(self.ciphertext(low.slots, to, low.scale, noise, low.headroom_bits, worst))
    }
    fn raise_transform(&self, a: &Ciphertext, plan: &LinearPlan) -> Result<Ciphertext> {
        self.transform(
            &self.mod_raise(a, plan.level(), plan.raise().map(|raise| raise.weight))?,
            plan,
        )
    }
}

/// The product of a matrix with slots.
struct MatrixProduct {
    slots: Vec<Complex<f64>>,
    /// Sum of the squares of all weights.
    squares: f64,
    /// Bounds before the product is rescaled.
    worst: WorstCase,
}

impl MatrixProduct {
    /// Computes the product, diagonal by diagonal. `switch` bounds the error of a key switch.
    fn of(a: &Ciphertext, plan: &LinearPlan, switch: f64) -> Self {
        let count = a.slots.len();
        let weight_scale = plan.weight_scale();
        let mut slots = vec![Complex::new(0.0, 0.0); count];
        let mut squares = 0.0;
        // Row by row, the magnitudes of the weights, and of the weights times the slots.
        let mut row_sums = vec![0.0; count];
        let mut largest = vec![0.0; count];
        let mut rounded = 0.0;
        for offset in plan.diagonals().offsets() {
            let Some(weights) = plan.diagonals().diagonal(offset) else { continue };
            matrix::add_product(&mut slots, offset, &weights, &a.slots);
            squares += weights.iter().map(|&z| norm(z)).sum::<f64>();
            let weights = worst_case::magnitudes(&weights);
            rounded += worst_case::encoding(&weights, weight_scale);
            for (row, weight) in weights.into_iter().enumerate() {
                row_sums[row] += weight;
                largest[row] += weight * a.worst.largest[(row + offset.columns) % count];
            }
        }
        let row_sum = worst_case::most(&row_sums);
        // Each rotated ciphertext has its own error, and so do the sums of each giant step.
        let rotated = a.worst.error + switch / a.scale.to_f64();
        let stages = plan.sum().stages as f64;
        let error = rotated * row_sum
            + (a.worst.magnitude() + rotated) * rounded
            + 2.0 * stages * switch / (a.scale * weight_scale).to_f64();
        Self { slots, squares, worst: WorstCase { largest, error, ..a.worst } }
    }
}

/// Returns `k < N/2` for `g = 5^k` or `-5^k mod 2N`, and whether `g` conjugates.
fn slot_action(log_n: u32, g: GaloisElement) -> Option<(usize, bool)> {
    let g = u64::from(g.0);
    let modulus = 2u64 << log_n;
    if g % 2 == 0 || g >= modulus {
        return None;
    }
    // Powers of 5 are the units that are 1 modulo 4.
    let conjugates = g % 4 == 3;
    let rotation = if conjugates { modulus - g } else { g };
    // power = 5^k agrees with g below bit i + 2, and 5^(2^i) = 1 + 2^(i+2) mod 2^(i+3).
    let mut k = 0;
    let mut power = 1;
    let mut base = 5;
    for i in 0..log_n - 1 {
        if ((power ^ rotation) >> (i + 2)) & 1 == 1 {
            k |= 1 << i;
            power = power * base % modulus;
        }
        base = base * base % modulus;
    }
    Some((k, conjugates))
}

/// Reflects a number at the ends of `[-1, 1]` until it is in the interval.
fn folded(t: f64) -> f64 {
    if t.abs() <= 1.0 || !t.is_finite() {
        return t;
    }
    let turn = (t + 1.0).rem_euclid(4.0);
    if turn <= 2.0 { turn - 1.0 } else { 3.0 - turn }
}

fn modulus(a: Complex<f64>) -> f64 {
    real::hypot(a.re, a.im)
}

fn norm(a: Complex<f64>) -> f64 {
    a.re * a.re + a.im * a.im
}

/// Returns the standard deviation of rounding both parts of a constant to integers, or no noise if
/// they are integers.
fn encoding(c: Complex<f64>, scale: Scale) -> Noise {
    let whole = if is_exact(c, scale) { 0.0 } else { 1.0 / 12f64.sqrt() / scale.to_f64() };
    let imaginary = if c.im == 0.0 { 0.0 } else { whole };
    Noise { whole, imaginary }
}

/// Returns the largest error of rounding both parts of a constant to integers.
fn largest_encoding(c: Complex<f64>, scale: Scale) -> f64 {
    if is_exact(c, scale) { 0.0 } else { 0.5f64.sqrt() / scale.to_f64() }
}

fn is_exact(c: Complex<f64>, scale: Scale) -> bool {
    let exact = |part: f64| {
        let product = scale.to_dd() * Dd::from(part);
        let same = |integer| Dd::from_i128(integer) == product;
        // With more digits, the product itself is rounded.
        product.abs() < Dd::from(real::exp2(96.0)) && product.round_i128().is_some_and(same)
    };
    exact(c.re) && exact(c.im)
}

#[cfg(test)]
mod tests;
