mod interval;

use self::interval::Interval;
use super::{Chain, Complex, ComplexOps, ComplexSlots, LinearPlan, WorstCase, sim};
use crate::{
    Error, Result,
    circuits::{ArgumentError, Extremes, Ops},
    ckks::Scale,
    rlwe::{GaloisElement, Level, Levels, ProductSum},
};
use core::{iter::repeat, ops::RangeInclusive};
use sudare_arith::real;

/// Bits that stay free above the largest value, for its error.
const MARGIN_BITS: f64 = 1.0 / 32.0;

/// An evaluator that knows how large slots may be, and refuses results that could be wrong.
///
/// A value that is too large for the modulus of its level decrypts to noise, and a polynomial
/// outside its interval returns numbers without meaning. An evaluator of ciphertexts sees neither.
/// This one follows the interval of the slots, from [`Ranged::input`] through each operation, and
/// refuses before it computes: with [`Error::OutOfRoom`] or [`Error::OutsideInterval`]. It runs any
/// circuit, as it is an evaluator itself.
///
/// Intervals are worst cases. The difference of a ciphertext and itself has twice its width. Where
/// you know a better bound, declare it with [`Ops::within`]. Intervals say nothing about the
/// precision of a result: see [`sim`].
///
/// ```
/// use sudare::Error;
/// use sudare::ckks::{Chain, Complex, Scale};
/// use sudare::circuits::{Ops, ckks::{Ranged, sim}};
/// use sudare::rlwe::Level;
///
/// // Any evaluator will do: `sudare::ckks::Evaluator`, or this one on clear values.
/// let scale = Scale::from_log2(40.0);
/// let evaluator = sim::Evaluator::new(4, Chain::new(vec![scale], vec![50.0, 90.0]));
/// let age = evaluator.encrypt(&[Complex::new(63.0, 0.0)], Level(1), scale)?;
///
/// let e = Ranged::new(&evaluator);
/// let age = e.input(age, 0.0..=120.0)?;
/// // A square may be 14,400. Level 0 has room for 501.
/// let square = e.mul_rescale(&age, &age);
/// assert!(matches!(square, Err(Error::OutOfRoom { largest: 14_400.0, .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Ranged<'e, E> {
    evaluator: &'e E,
    /// Follows magnitudes, without keys.
    clear: sim::Evaluator,
}

/// A ciphertext with the interval of its slots: see [`Ranged`].
#[derive(Debug, Clone)]
pub struct RangedCiphertext<C> {
    ciphertext: C,
    bounds: Bounds,
}

#[derive(Debug, Clone)]
struct Bounds {
    /// Slots at their largest magnitudes, which overestimates imaginary noise.
    slots: sim::Ciphertext,
    /// The interval of all slots.
    interval: Interval,
}

impl<C> RangedCiphertext<C> {
    /// The ciphertext.
    pub fn ciphertext(&self) -> &C {
        &self.ciphertext
    }

    /// Returns the ciphertext without its interval.
    pub fn into_ciphertext(self) -> C {
        self.ciphertext
    }

    /// The interval of the real parts of slots. Complex slots are no larger in magnitude than its
    /// ends.
    pub fn interval(&self) -> RangeInclusive<f64> {
        self.bounds.interval.low..=self.bounds.interval.high
    }

    /// Bits left between the largest scaled value until now, sign included, and its modulus.
    pub fn headroom_bits(&self) -> f64 {
        self.bounds.slots.worst.headroom_bits
    }
}

impl<'e, E: ComplexOps> Ranged<'e, E> {
    /// Makes an evaluator that computes by `evaluator`.
    #[must_use]
    pub fn new(evaluator: &'e E) -> Self {
        let clear = sim::Evaluator::new(evaluator.log_n(), evaluator.chain().clone());
        Self { evaluator, clear }
    }

    /// Declares that every slot of a ciphertext is a real number in this interval.
    ///
    /// The evaluator cannot check it: check the values before you encrypt them.
    ///
    /// # Errors
    /// [`Error::Circuit`] for an interval whose first end is above the last, or not finite;
    /// [`Error::OutOfRoom`] if level and scale of the ciphertext leave no room for it.
    pub fn input(
        &self,
        ciphertext: E::Ct,
        interval: RangeInclusive<f64>,
    ) -> Result<RangedCiphertext<E::Ct>> {
        let low = *interval.start();
        let high = *interval.end();
        if !(low <= high && low.is_finite() && high.is_finite()) {
            return Err(Error::Circuit(format!(
                "input: the interval [{low}, {high}] is not one of finite numbers: name the lower \
                 end first"
            )));
        }
        let interval = Interval { low, high };
        let slots = 1 << self.evaluator.log_slots(&ciphertext);
        let level = self.evaluator.level(&ciphertext);
        let scale = self.evaluator.scale(&ciphertext);
        // Zeros, as larger slots would be refused in terms of their encoding.
        let zeros = vec![Complex::new(0.0, 0.0); slots];
        let largest = vec![interval.magnitude(); slots];
        let fresh = self.clear.encrypt_within(&zeros, &largest, level, scale)?;
        let slots = vec![Complex::new(interval.magnitude(), 0.0); slots];
        let bounds = sim::Ciphertext { slots, ..fresh };
        self.compute("input", Ok(bounds), interval, |_| Ok(ciphertext))
    }

    /// Declares that no slot of a ciphertext is larger than `most` in magnitude, for complex slots;
    /// see [`Ranged::input`].
    ///
    /// # Errors
    /// Errors of [`Ranged::input`].
    pub fn complex_input(&self, ciphertext: E::Ct, most: f64) -> Result<RangedCiphertext<E::Ct>> {
        self.input(ciphertext, -most..=most)
    }

    /// Refuses bounds without room, or computes. The slots bound the interval, too.
    fn compute<C>(
        &self,
        op: &'static str,
        slots: Result<sim::Ciphertext>,
        interval: Interval,
        compute: impl FnOnce(&E) -> Result<C>,
    ) -> Result<RangedCiphertext<C>> {
        let bounds = self.bounds(op, slots?, interval)?;
        Ok(RangedCiphertext { ciphertext: compute(self.evaluator)?, bounds })
    }

    /// Runs [`Ranged::compute`] on each, with one computation.
    fn compute_many<C>(
        &self,
        op: &'static str,
        slots: Result<Vec<sim::Ciphertext>>,
        intervals: impl IntoIterator<Item = Interval>,
        compute: impl FnOnce(&E) -> Result<Vec<C>>,
    ) -> Result<Vec<RangedCiphertext<C>>> {
        let bounds = slots?.into_iter().zip(intervals);
        let bounds = bounds.map(|(slots, interval)| self.bounds(op, slots, interval));
        let bounds = bounds.collect::<Result<Vec<_>>>()?;
        let results = compute(self.evaluator)?.into_iter().zip(bounds);
        Ok(results.map(|(ciphertext, bounds)| RangedCiphertext { ciphertext, bounds }).collect())
    }

    /// Joins the bounds of a result, and refuses them if they leave the modulus.
    fn bounds(
        &self,
        op: &'static str,
        slots: sim::Ciphertext,
        interval: Interval,
    ) -> Result<Bounds> {
        let interval = interval.within(slots.worst.magnitude());
        let slots = self.clear.within(slots, interval.magnitude());
        let headroom_bits = slots.worst.headroom_bits;
        if headroom_bits < MARGIN_BITS {
            let largest = slots.worst.magnitude();
            // The operands had room, so this operation lacks it.
            let room = largest * real::exp2(headroom_bits - MARGIN_BITS);
            return Err(Error::OutOfRoom { op, largest, room });
        }
        Ok(Bounds { slots, interval })
    }
}

impl<C> RangedCiphertext<C> {
    fn times(&self, other: &Self) -> Interval {
        let a = self.bounds.interval;
        // The same ciphertext, as in a square.
        if core::ptr::eq(self, other) { a.square() } else { a.times(other.bounds.interval) }
    }
}

/// The factors of a product.
type Pair<'a, C> = (&'a C, &'a C);

fn ciphertexts<'a, C>(xs: &[&'a RangedCiphertext<C>]) -> Vec<&'a C> {
    xs.iter().map(|x| &x.ciphertext).collect()
}

fn slots<'a, C>(xs: &[&'a RangedCiphertext<C>]) -> Vec<&'a sim::Ciphertext> {
    xs.iter().map(|x| &x.bounds.slots).collect()
}

fn scaled(a: Interval, factor: f64) -> Interval {
    a.times(Interval { low: factor, high: factor })
}

impl<E: ComplexOps> Ops for Ranged<'_, E> {
    type Algebra = ComplexSlots;
    type Ct = RangedCiphertext<E::Ct>;
    type Matrix = (E::Matrix, LinearPlan);

    fn log_n(&self) -> u32 {
        self.evaluator.log_n()
    }
    fn levels(&self) -> Levels {
        self.evaluator.levels()
    }
    fn divisor(&self, like: &Self::Ct, level: Level) -> Scale {
        self.evaluator.divisor(&like.ciphertext, level)
    }
    fn level(&self, a: &Self::Ct) -> Level {
        self.evaluator.level(&a.ciphertext)
    }
    fn scale(&self, a: &Self::Ct) -> Scale {
        self.evaluator.scale(&a.ciphertext)
    }
    fn with_scale(&self, a: &Self::Ct, scale: Scale) -> Result<Self::Ct> {
        let slots = self.clear.with_scale(&a.bounds.slots, scale);
        let interval = scaled(a.bounds.interval, (self.scale(a) / scale).to_f64());
        self.compute("with_scale", slots, interval, |e| e.with_scale(&a.ciphertext, scale))
    }
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        let slots = self.clear.add(&a.bounds.slots, &b.bounds.slots);
        let interval = a.bounds.interval.plus(b.bounds.interval);
        self.compute("add", slots, interval, |e| e.add(&a.ciphertext, &b.ciphertext))
    }
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        // Slots at their largest magnitudes must not cancel.
        let mut negative = b.bounds.slots.clone();
        negative.slots.iter_mut().for_each(|z| z.re = -z.re);
        let slots = self.clear.sub(&a.bounds.slots, &negative);
        let interval = a.bounds.interval.minus(b.bounds.interval);
        self.compute("subtract", slots, interval, |e| e.sub(&a.ciphertext, &b.ciphertext))
    }
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        let slots = self.clear.mul(&a.bounds.slots, &b.bounds.slots);
        self.compute("multiply", slots, a.times(b), |e| e.mul(&a.ciphertext, &b.ciphertext))
    }
    fn mul_rescale(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        let slots = self.clear.mul_rescale(&a.bounds.slots, &b.bounds.slots);
        self.compute("multiply", slots, a.times(b), |e| e.mul_rescale(&a.ciphertext, &b.ciphertext))
    }
    fn mul_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        self.multiply_many(pairs, sim::Evaluator::mul, E::mul_many)
    }
    fn mul_rescale_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        self.multiply_many(pairs, sim::Evaluator::mul_rescale, E::mul_rescale_many)
    }
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct> {
        let products = sum.products.iter().map(|(a, b)| (&a.bounds.slots, &b.bounds.slots));
        let slots = self.clear.mul_sum_rescale(&ProductSum {
            products: products.collect(),
            addend: sum.addend.map(|c| &c.bounds.slots),
        });
        let products = sum.products.iter().map(|(a, b)| a.times(b));
        let interval = products
            .chain(sum.addend.map(|c| c.bounds.interval))
            .fold(Interval::symmetric(0.0), Interval::plus);
        self.compute("sum products", slots, interval, |e| {
            let products = sum.products.iter().map(|(a, b)| (&a.ciphertext, &b.ciphertext));
            let addend = sum.addend.map(|c| &c.ciphertext);
            e.mul_sum_rescale(&ProductSum { products: products.collect(), addend })
        })
    }
    fn add_const(&self, a: &Self::Ct, c: Complex<f64>) -> Result<Self::Ct> {
        // Slots at their largest magnitudes must not cancel.
        let most = Complex::new(Interval::of(c).magnitude(), 0.0);
        let slots = self.clear.add_const(&a.bounds.slots, most);
        let interval = a.bounds.interval.plus(Interval::of(c));
        self.compute("add", slots, interval, |e| e.add_const(&a.ciphertext, c))
    }
    fn mul_const(&self, a: &Self::Ct, c: Complex<f64>, scale: Scale) -> Result<Self::Ct> {
        let slots = self.clear.mul_const(&a.bounds.slots, c, scale);
        let interval = a.bounds.interval.times(Interval::of(c));
        self.compute("multiply", slots, interval, |e| e.mul_const(&a.ciphertext, c, scale))
    }
    fn mul_const_sum(&self, terms: &[(&Self::Ct, f64, Scale)]) -> Result<Self::Ct> {
        let products: Vec<_> =
            terms.iter().map(|&(a, c, scale)| (&a.bounds.slots, c.abs(), scale)).collect();
        let slots = self.clear.mul_const_sum(&products);
        let intervals = terms.iter().map(|&(a, c, _)| scaled(a.bounds.interval, c));
        let interval = intervals.fold(Interval::symmetric(0.0), Interval::plus);
        self.compute("sum products", slots, interval, |e| {
            let terms: Vec<_> =
                terms.iter().map(|&(a, c, scale)| (&a.ciphertext, c, scale)).collect();
            e.mul_const_sum(&terms)
        })
    }
    fn mul_const_sums(
        &self,
        xs: &[&Self::Ct],
        rows: &[Vec<f64>],
        scale: Scale,
    ) -> Result<Vec<Self::Ct>> {
        let magnitudes: Vec<Vec<f64>> =
            rows.iter().map(|row| row.iter().map(|c| c.abs()).collect()).collect();
        let sums = self.clear.mul_const_sums(&slots(xs), &magnitudes, scale);
        let intervals = rows.iter().map(|row| {
            let products = xs.iter().zip(row).map(|(x, &c)| scaled(x.bounds.interval, c));
            products.fold(Interval::symmetric(0.0), Interval::plus)
        });
        self.compute_many("sum products", sums, intervals, |e| {
            e.mul_const_sums(&ciphertexts(xs), rows, scale)
        })
    }
    fn add_plain(&self, a: &Self::Ct, values: &[Complex<f64>]) -> Result<Self::Ct> {
        let sums = self.clear.add_plain(&a.bounds.slots, &largest(values));
        let interval = a.bounds.interval.plus(Interval::of_slots(values));
        self.compute("add", sums, interval, |e| e.add_plain(&a.ciphertext, values))
    }
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &[Complex<f64>],
        scale: Scale,
    ) -> Result<Vec<Self::Ct>> {
        let products = self.clear.mul_plain_many(&slots(xs), values, scale);
        let interval = Interval::of_slots(values);
        let intervals = xs.iter().map(|x| x.bounds.interval.times(interval));
        self.compute_many("multiply", products, intervals, |e| {
            e.mul_plain_many(&ciphertexts(xs), values, scale)
        })
    }
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()> {
        let mut slots = a.bounds.slots.clone();
        self.clear.rescale_assign(&mut slots)?;
        let bounds = self.bounds("rescale", slots, a.bounds.interval)?;
        self.evaluator.rescale_assign(&mut a.ciphertext)?;
        a.bounds = bounds;
        Ok(())
    }
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()> {
        let mut slots = a.bounds.slots.clone();
        self.clear.drop_to(&mut slots, level)?;
        let bounds = self.bounds("drop to a lower level", slots, a.bounds.interval)?;
        self.evaluator.drop_to(&mut a.ciphertext, level)?;
        a.bounds = bounds;
        Ok(())
    }
    fn match_scale(&self, a: &Self::Ct, level: Level, scale: Scale) -> Result<Self::Ct> {
        let slots = self.clear.match_scale(&a.bounds.slots, level, scale);
        let compute = |e: &E| e.match_scale(&a.ciphertext, level, scale);
        self.compute("match_scale", slots, a.bounds.interval, compute)
    }
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct> {
        let slots = self.clear.automorphism(&a.bounds.slots, g);
        let compute = |e: &E| e.automorphism(&a.ciphertext, g);
        self.compute("automorphism", slots, a.bounds.interval, compute)
    }
    fn sum_automorphisms(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        let slots = self.clear.sum_automorphisms(&a.bounds.slots, groups);
        let images: f64 = groups.iter().map(|group| group.len() as f64).product();
        let interval = scaled(a.bounds.interval, images);
        self.compute("sum images", slots, interval, |e| e.sum_automorphisms(&a.ciphertext, groups))
    }
    fn prepare(&self, plan: &LinearPlan) -> Result<Self::Matrix> {
        Ok((self.evaluator.prepare(plan)?, plan.clone()))
    }
    fn transform(&self, a: &Self::Ct, (matrix, plan): &Self::Matrix) -> Result<Self::Ct> {
        let slots = self.clear.transform(&a.bounds.slots, plan);
        let compute = |e: &E| e.transform(&a.ciphertext, matrix);
        self.compute("linear transform", slots, Interval::ALL, compute)
    }
    fn transform_many(
        &self,
        xs: &[&Self::Ct],
        (matrix, plan): &Self::Matrix,
    ) -> Result<Vec<Self::Ct>> {
        let images = self.clear.transform_many(&slots(xs), plan);
        self.compute_many("linear transform", images, repeat(Interval::ALL), |e| {
            e.transform_many(&ciphertexts(xs), matrix)
        })
    }
    fn within(&self, a: Self::Ct, most: f64) -> Self::Ct {
        RangedCiphertext {
            ciphertext: self.evaluator.within(a.ciphertext, most),
            bounds: Bounds {
                slots: self.clear.within(a.bounds.slots, most),
                interval: a.bounds.interval.within(most),
            },
        }
    }
    fn argument(&self, a: Self::Ct, p: &Extremes) -> Result<(Self::Ct, Vec<ArgumentError>)> {
        let largest = a.bounds.interval.magnitude();
        if largest > WorstCase::LARGEST_ARGUMENT {
            return Err(Error::OutsideInterval { degree: p.degree(), largest });
        }
        let (slots, mut errors) = self.clear.argument(a.bounds.slots, p)?;
        let interval = a.bounds.interval.within(1.0);
        let (ciphertext, own) = self.evaluator.argument(a.ciphertext, p)?;
        // `image` returns the errors of the inner evaluator to it: all after the first.
        errors.extend(own);
        Ok((RangedCiphertext { ciphertext, bounds: Bounds { slots, interval } }, errors))
    }
    fn image(&self, y: Self::Ct, errors: &[ArgumentError], p: &Extremes) -> Self::Ct {
        let (errors, own) = errors.split_at(errors.len().min(1));
        RangedCiphertext {
            ciphertext: self.evaluator.image(y.ciphertext, own, p),
            bounds: Bounds { slots: self.clear.image(y.bounds.slots, errors, p), ..y.bounds },
        }
    }
}

/// Returns the magnitude of each number.
fn largest(values: &[Complex<f64>]) -> Vec<Complex<f64>> {
    values.iter().map(|&z| Complex::new(Interval::of(z).magnitude(), 0.0)).collect()
}

impl<E: ComplexOps> ComplexOps for Ranged<'_, E> {
    fn chain(&self) -> &Chain {
        self.evaluator.chain()
    }
    fn log_slots(&self, a: &Self::Ct) -> u32 {
        self.evaluator.log_slots(&a.ciphertext)
    }
    fn with_log_slots(&self, a: &Self::Ct, log_slots: u32) -> Result<Self::Ct> {
        let slots = self.clear.with_log_slots(&a.bounds.slots, log_slots);
        let compute = |e: &E| e.with_log_slots(&a.ciphertext, log_slots);
        self.compute("with_log_slots", slots, a.bounds.interval, compute)
    }
    fn mod_raise(&self, a: &Self::Ct, to: Level, weight: Option<u32>) -> Result<Self::Ct> {
        // The weight concerns keys, which bounds do not depend on.
        let slots = self.clear.mod_raise(&a.bounds.slots, to, None);
        let compute = |e: &E| e.mod_raise(&a.ciphertext, to, weight);
        self.compute("raise", slots, a.bounds.interval, compute)
    }
    fn raise_transform(&self, a: &Self::Ct, (matrix, plan): &Self::Matrix) -> Result<Self::Ct> {
        let compute = |e: &E| e.raise_transform(&a.ciphertext, matrix);
        self.compute("raise", self.raised(a, plan), Interval::ALL, compute)
    }
    fn raise_transform_many(
        &self,
        xs: &[&Self::Ct],
        (matrix, plan): &Self::Matrix,
    ) -> Result<Vec<Self::Ct>> {
        let images = xs.iter().map(|a| self.raised(a, plan)).collect();
        self.compute_many("raise", images, repeat(Interval::ALL), |e| {
            e.raise_transform_many(&ciphertexts(xs), matrix)
        })
    }
    fn twice_real_part(&self, a: &Self::Ct) -> Result<Self::Ct> {
        let slots = self.clear.twice_real_part(&a.bounds.slots);
        let interval = scaled(a.bounds.interval, 2.0);
        self.compute("take real parts", slots, interval, |e| e.twice_real_part(&a.ciphertext))
    }
    fn off_by(&self, a: Self::Ct, error: f64) -> Self::Ct {
        RangedCiphertext {
            ciphertext: self.evaluator.off_by(a.ciphertext, error),
            bounds: Bounds { slots: self.clear.off_by(a.bounds.slots, error), ..a.bounds },
        }
    }
}

impl<E: ComplexOps> Ranged<'_, E> {
    /// Multiplies pairs with one computation, and their slots one by one.
    fn multiply_many(
        &self,
        pairs: &[Pair<'_, RangedCiphertext<E::Ct>>],
        slots: fn(&sim::Evaluator, &sim::Ciphertext, &sim::Ciphertext) -> Result<sim::Ciphertext>,
        compute: impl FnOnce(&E, &[Pair<'_, E::Ct>]) -> Result<Vec<E::Ct>>,
    ) -> Result<Vec<RangedCiphertext<E::Ct>>> {
        let products =
            pairs.iter().map(|(a, b)| slots(&self.clear, &a.bounds.slots, &b.bounds.slots));
        let intervals = pairs.iter().map(|(a, b)| a.times(b));
        self.compute_many("multiply", products.collect(), intervals, |e| {
            let pairs: Vec<_> = pairs.iter().map(|(a, b)| (&a.ciphertext, &b.ciphertext)).collect();
            compute(e, &pairs)
        })
    }

    fn raised(&self, a: &RangedCiphertext<E::Ct>, plan: &LinearPlan) -> Result<sim::Ciphertext> {
        let raised = self.clear.mod_raise(&a.bounds.slots, plan.level(), None)?;
        self.clear.transform(&raised, plan)
    }
}

#[cfg(test)]
mod tests;
