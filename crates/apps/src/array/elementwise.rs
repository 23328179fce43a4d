//! Elementwise operations: sums, products, polynomials.

use std::{collections::HashMap, sync::Arc};

use sudare::{
    circuits::ckks::{Complex, ComplexOps, Polynomial, PolynomialPlan},
    rlwe::Level,
};
use sudare_arith::par;

use super::{
    Array, ArrayError, Engine, Layout, PlainArray, Range, Result,
    function::RealParts,
    layout::{PADDING, broadcast_shape, c_strides},
};
use crate::{bootstrap::TOGETHER, functions::twice};

/// Maximum magnitude of an integer factor that costs no level.
const MAX_WHOLE: f64 = (1u64 << 31) as f64;

/// Two operands in one layout, block by block.
struct Pair<E: ComplexOps> {
    layout: Layout,
    level: Level,
    a: Vec<Arc<E::Ct>>,
    b: Vec<Arc<E::Ct>>,
    /// Pairs for the padded axes: true if `a` is zero in the padding of the axis, and the same for
    /// `b`.
    zero: Vec<[bool; 2]>,
    ranges: [Range; 2],
    /// The largest magnitude in the padding of each, including elements that are broadcast into it.
    padding: [f64; 2],
    /// True if no operand is broadcast, so that elements in the same places meet.
    paired: bool,
}

impl<E: ComplexOps> Pair<E> {
    fn blocks(&self) -> impl Iterator<Item = (&E::Ct, &E::Ct)> {
        self.a.iter().zip(&self.b).map(|(a, b)| (&**a, &**b))
    }
}

/// Returns whether an operand is zero in the padding of an axis of the result's layout.
fn is_zero_beyond<E: ComplexOps>(own: &Array<E>, axis: usize) -> bool {
    own.padding_is_zero() && own.layout().shape()[axis] > 1
}

/// # Elementwise operations
///
/// Operands are broadcast as in NumPy. Broadcasting an encrypted operand along an axis of one
/// element is free. If the fields of two operands clash, [`Engine::relayout`] moves one of them
/// first.
///
/// | operation | levels |
/// |---|---|
/// | sum, difference, negation, product with an integer | 0 |
/// | product, square, product with other plain numbers | 1 |
/// | power `n` | `ceil(log2(n))` |
/// | polynomial | its depth, see [`Polynomial::plan`], and one if padding is not zero |
impl<E: ComplexOps> Engine<'_, E> {
    /// Returns `a + b`.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`]; [`ArrayError::LevelExhausted`]; errors of the evaluator.
    pub fn add(&self, a: &Array<E>, b: &Array<E>) -> Result<Array<E>> {
        self.sum_of_two("add", a, b, 1.0, E::add)
    }

    /// Returns `a - b`.
    ///
    /// # Errors
    /// The errors of [`Engine::add`].
    pub fn sub(&self, a: &Array<E>, b: &Array<E>) -> Result<Array<E>> {
        self.sum_of_two("subtract", a, b, -1.0, E::sub)
    }

    /// Returns `a b`, element by element.
    ///
    /// # Errors
    /// The errors of [`Engine::add`].
    pub fn mul(&self, a: &Array<E>, b: &Array<E>) -> Result<Array<E>> {
        const OP: &str = "multiply";
        let pair = self.pair(OP, a, b, 1)?;
        // A zero in one factor is enough.
        let zero = pair.zero.iter().all(|zero| zero.contains(&true));
        let level = Level(pair.level.0 - 1);
        let padding = if zero { 0.0 } else { pair.padding[0] * pair.padding[1] };
        if !self.holds_padding(level, padding) {
            if a.padding() > 0.0 {
                return self.mul(&self.masked(OP, &self.ready(OP, a, 2)?, 1.0)?, b);
            }
            if b.padding() > 0.0 {
                return self.mul(a, &self.masked(OP, &self.ready(OP, b, 2)?, 1.0)?);
            }
            // The padding holds elements that are broadcast, which no mask removes.
            self.check_room(OP, level, &Range::new(-padding, padding))?;
        }
        let [left, right] = &pair.ranges;
        let range = left.product(right, pair.paired).with_padding(padding);
        self.check_room(OP, level, &range)?;
        let products = self.evaluator().mul_rescale_many(&pair.blocks().collect::<Vec<_>>())?;
        let blocks = products.into_iter().map(Arc::new).collect();
        self.array(OP, pair.layout, level, blocks, zero, range)
    }

    /// Returns `a^2`.
    ///
    /// # Errors
    /// The errors of [`Engine::add`].
    pub fn square(&self, a: &Array<E>) -> Result<Array<E>> {
        const OP: &str = "square";
        let a = self.ready(OP, a, 1)?;
        let level = Level(a.level().0 - 1);
        let padding = a.padding() * a.padding();
        // Masked padding is 0, so the second attempt is the last.
        if !self.holds_padding(level, padding) {
            return self.square(&self.masked(OP, &self.ready(OP, &a, 2)?, 1.0)?);
        }
        let range = a.range().product(a.range(), true).with_padding(padding);
        self.check_room(OP, level, &range)?;
        let pairs: Vec<_> = a.blocks().iter().map(|a| (&**a, &**a)).collect();
        let blocks = self.evaluator().mul_rescale_many(&pairs)?.into_iter().map(Arc::new).collect();
        self.array(OP, a.layout().clone(), level, blocks, a.padding_is_zero(), range)
    }

    /// Returns `a^n` for `n` of at least 1.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for `n = 0`; the errors of [`Engine::add`].
    pub fn powi(&self, a: &Array<E>, n: u32) -> Result<Array<E>> {
        if n == 0 {
            let problem = "power 0 is 1 for all inputs: use a power of 1 or more".into();
            return Err(ArrayError::Argument { op: "power", problem });
        }
        self.power(a, n, &mut HashMap::new())
    }

    fn power(&self, a: &Array<E>, n: u32, known: &mut HashMap<u32, Array<E>>) -> Result<Array<E>> {
        if n == 1 {
            return Ok(a.clone());
        }
        if let Some(power) = known.get(&n) {
            return Ok(power.clone());
        }
        // The largest power of two below `n` keeps the depth at `ceil(log2(n))`.
        let half = 1 << (n - 1).ilog2();
        let first = self.power(a, half, known)?;
        let power = match n - half {
            rest if rest == half => self.square(&first)?,
            rest => self.mul(&first, &self.power(a, rest, known)?)?,
        };
        known.insert(n, power.clone());
        Ok(power)
    }

    /// Returns `-a`.
    ///
    /// # Errors
    /// Errors of the evaluator.
    pub fn neg(&self, a: &Array<E>) -> Result<Array<E>> {
        self.mul_scalar(a, -1.0)
    }

    /// Returns `a + c`.
    ///
    /// # Errors
    /// [`ArrayError::NotFinite`]; errors of the evaluator.
    pub fn add_scalar(&self, a: &Array<E>, c: f64) -> Result<Array<E>> {
        const OP: &str = "add";
        check_scalar(OP, c)?;
        self.add_by_slot(&self.ready(OP, a, 0)?, c, 0.0)
    }

    /// Returns `c a`. This costs no level for an integer `c` of magnitude at most `2^31`. With 0
    /// the result is an encryption without randomness, which everybody can read.
    ///
    /// # Errors
    /// [`ArrayError::NotFinite`]; the errors of [`Engine::add`].
    pub fn mul_scalar(&self, a: &Array<E>, c: f64) -> Result<Array<E>> {
        const OP: &str = "multiply by a number";
        check_scalar(OP, c)?;
        let layout = a.layout().clone();
        let zero = a.padding_is_zero();
        // At scale 1 an integer is exact, so nothing has to be rescaled.
        if c.fract() == 0.0 && c.abs() <= MAX_WHOLE {
            let one = sudare::ckks::Scale::from_u64(1);
            let factor = Complex::new(c, 0.0);
            let a = self.ready(OP, a, 0)?;
            if !self.holds_padding(a.level(), a.padding() * c.abs()) {
                return self.mul_scalar(&self.masked(OP, &self.ready(OP, &a, 1)?, 1.0)?, c);
            }
            let range = a.range().times(c).with_padding(a.padding() * c.abs());
            self.check_room(OP, a.level(), &range)?;
            let blocks =
                self.each(a.blocks(), |block| self.evaluator().mul_const(block, factor, one))?;
            return self.array(OP, layout, a.level(), blocks, zero, range);
        }
        let a = self.ready(OP, a, 1)?;
        let level = Level(a.level().0 - 1);
        let range = a.range().times(c).with_padding(a.padding() * c.abs());
        self.check_room(OP, level, &range)?;
        if !self.holds_padding(level, range.padding()) {
            // The mask applies the factor, at the same level.
            return self.masked(OP, &a, c);
        }
        let blocks = self.times_constant(a.level(), a.blocks(), c)?;
        self.array(OP, layout, level, blocks, zero, range)
    }

    /// Returns `a + b` with a plain array.
    ///
    /// # Errors
    /// [`ArrayError::Values`]; [`ArrayError::NotFinite`]; the errors of [`Engine::add`].
    pub fn add_plain(&self, a: &Array<E>, b: &PlainArray) -> Result<Array<E>> {
        const OP: &str = "add";
        b.check(OP)?;
        if let [c] = b.values[..]
            && b.shape.len() <= a.shape().len()
        {
            return self.add_scalar(a, c);
        }
        let (a, layout) = self.stretched(OP, &self.ready(OP, a, 0)?, &b.shape)?;
        let zero = (0..layout.ndim()).all(|axis| !layout.pads(axis) || is_zero_beyond(&a, axis));
        let padding = if zero { 0.0 } else { broadcast_padding(&a, &layout) };
        let range = a.range().sum(&Range::public_of(&b.values), 1.0, false).with_padding(padding);
        self.check_room(OP, a.level(), &range)?;
        let sources = layout.sources(a.layout());
        let blocks = self.by_vectors(&layout, b, |members, values| {
            let values: Vec<_> = values.into_iter().map(|x| Complex::new(x, 0.0)).collect();
            let sum =
                |&block: &usize| self.evaluator().add_plain(&a.blocks()[sources[block]], &values);
            Ok(par::try_map(members, |block| sum(block).map(Arc::new))?)
        })?;
        self.array(OP, layout, a.level(), blocks, zero, range)
    }

    /// Returns `a - b` with a plain array.
    ///
    /// # Errors
    /// The errors of [`Engine::add_plain`].
    pub fn sub_plain(&self, a: &Array<E>, b: &PlainArray) -> Result<Array<E>> {
        let values = b.values.iter().map(|x| -x).collect();
        self.add_plain(a, &PlainArray { shape: b.shape.clone(), values })
    }

    /// Returns `a b` with a plain array, element by element.
    ///
    /// # Errors
    /// The errors of [`Engine::add_plain`].
    pub fn mul_plain(&self, a: &Array<E>, b: &PlainArray) -> Result<Array<E>> {
        const OP: &str = "multiply by a plain array";
        b.check(OP)?;
        if let [c] = b.values[..]
            && b.shape.len() <= a.shape().len()
        {
            return self.mul_scalar(a, c);
        }
        broadcast_shape(OP, a.shape(), &b.shape)?;
        let (a, layout) = self.stretched(OP, &self.ready(OP, a, 1)?, &b.shape)?;
        let level = Level(a.level().0 - 1);
        let range = a.range().product(&Range::public_of(&b.values), false).with_padding(0.0);
        self.check_room(OP, level, &range)?;
        let sources = layout.sources(a.layout());
        let blocks = self.by_vectors(&layout, b, |members, values| {
            let of = |&block: &usize| &*a.blocks()[sources[block]];
            self.times_vector(a.level(), &members.iter().map(of).collect::<Vec<_>>(), &values)
        })?;
        self.array(OP, layout, level, blocks, true, range)
    }

    /// Evaluates `p` at every element. The elements must lie in the interval of `p`.
    ///
    /// # Errors
    /// The errors of [`Engine::add`] and [`Polynomial::plan`].
    pub fn polynomial(&self, a: &Array<E>, p: &Polynomial) -> Result<Array<E>> {
        self.polynomial_with(a, p, RealParts::default())
    }

    /// Evaluates [`Engine::polynomial`], and takes real parts before or after where `real` says so.
    pub(super) fn polynomial_with(
        &self,
        a: &Array<E>,
        p: &Polynomial,
        real: RealParts,
    ) -> Result<Array<E>> {
        const OP: &str = "polynomial";
        // The padding must lie in the interval as well.
        let dirty = !a.padding_is_zero();
        let range = self.argument(OP, a, &p.interval())?.polynomial(p).with_padding(0.0);
        let (mut a, plan) = self.polynomial_input(OP, a, u32::from(dirty), p, real)?;
        if dirty {
            a = self.masked(OP, &a, 1.0)?;
        }
        let interval = p.interval();
        // Padding becomes a number in the interval: 0 if possible, otherwise the middle.
        let inside = match interval.start <= 0.0 && 0.0 <= interval.end {
            true => 0.0,
            false => interval.start / 2.0 + interval.end / 2.0,
        };
        if a.layout().is_padded() && inside != 0.0 {
            a = self.add_by_slot(&a, 0.0, inside)?;
        }
        self.check_room(OP, plan.output_level(), &range)?;
        let mut blocks = Vec::with_capacity(a.blocks().len());
        for part in a.blocks().chunks(TOGETHER) {
            let part =
                real.before(self.evaluator(), part.iter().map(|block| E::Ct::clone(block)))?;
            let values = plan.run_many(self.evaluator(), &part)?;
            blocks.extend(real.after(self.evaluator(), values)?.into_iter().map(Arc::new));
        }
        let level = plan.output_level();
        let result = self.array(OP, a.layout().clone(), level, blocks, true, range.clone())?;
        // Padding now has the polynomial's value, which has to be taken off again.
        match p.evaluate(inside) {
            value if a.layout().is_padded() && value != 0.0 => {
                Ok(Array { range, ..self.add_by_slot(&result, 0.0, -value)? })
            }
            _ => Ok(result),
        }
    }

    /// Returns the array, bootstrapped if necessary, and the plan of `p` with `before` levels below
    /// the array's level.
    fn polynomial_input(
        &self,
        op: &'static str,
        a: &Array<E>,
        before: u32,
        p: &Polynomial,
        real: RealParts,
    ) -> Result<(Array<E>, PolynomialPlan)> {
        let floor = self.lowest_level();
        let fits = |a: &Array<E>| {
            let level = a.level().0.checked_sub(before)?;
            let plan = self.polynomial_plan(Level(level), p, real);
            Some(plan).filter(|plan| plan.as_ref().is_ok_and(|p| p.output_level() >= floor))
        };
        if let Some(plan) = fits(a) {
            return Ok((a.clone(), plan?));
        }
        let exhausted = |needed, a: &Array<E>| {
            let left = a.level().0.saturating_sub(floor.0);
            let all = self.highest_level().0 - floor.0;
            match self.bootstraps() {
                true => Err(too_deep(op, p.degree(), before + needed, all)),
                false => Err(ArrayError::LevelExhausted { op, needed: before + needed, left }),
            }
        };
        let depth = match self.polynomial_plan(self.highest_level(), p, real) {
            Ok(plan) => plan.depth(),
            Err(ArrayError::Library(sudare::Error::LevelExhausted { needed, .. })) => {
                return exhausted(needed, a);
            }
            Err(error) => return Err(error),
        };
        if before + depth > self.highest_level().0 - floor.0 {
            return exhausted(depth, a);
        }
        // The remaining levels do not suffice.
        // One level more than there are, so that `ready` bootstraps in any case.
        let own = a.level().0.saturating_sub(floor.0);
        let a = self.ready(op, a, (before + depth).max(own + 1))?;
        match fits(&a) {
            Some(plan) => Ok((a, plan?)),
            None => exhausted(depth, &a),
        }
    }

    /// Plans the polynomial to end at the default scale of its last level.
    fn polynomial_plan(
        &self,
        level: Level,
        p: &Polynomial,
        real: RealParts,
    ) -> Result<PolynomialPlan> {
        let chain = self.evaluator().chain();
        let scale = self.scale_at(level) * twice(real.before);
        Ok(p.plan_to(chain, level, scale, |end| Ok(self.scale_at(end) / twice(real.after)))?)
    }

    /// Returns the array with zero padding, times `factor`, one level down.
    pub(super) fn masked(&self, op: &'static str, a: &Array<E>, factor: f64) -> Result<Array<E>> {
        let layout = a.layout();
        let blocks =
            self.by_vectors(layout, &PlainArray::new(&[], vec![factor]), |members, values| {
                let own: Vec<_> = members.iter().map(|&block| &*a.blocks()[block]).collect();
                self.times_vector(a.level(), &own, &values)
            })?;
        let range = a.range().times(factor).with_padding(0.0);
        self.array(op, layout.clone(), Level(a.level().0 - 1), blocks, true, range)
    }

    /// Adds `inside` to every element and `outside` to zero padding. Other padding counts as
    /// elements, so that no block needs a vector.
    fn add_by_slot(&self, a: &Array<E>, inside: f64, outside: f64) -> Result<Array<E>> {
        let layout = a.layout();
        let padding = if a.padding_is_zero() { 0.0 } else { a.padding() + inside.abs() };
        let range = a.range().plus(inside).with_padding(padding);
        self.check_room("add", a.level(), &range)?;
        let mut blocks = a.blocks().to_vec();
        for (ends, members) in layout.alike(|_| false) {
            // Only the last blocks along an axis have padding.
            let vector = a.padding_is_zero() && ends.contains(&1);
            let values: Vec<_> = match vector {
                true => layout
                    .offsets(members[0], &vec![0; layout.ndim()])
                    .into_iter()
                    .map(|offset| if offset == PADDING { outside } else { inside })
                    .map(|value| Complex::new(value, 0.0))
                    .collect(),
                false => Vec::new(),
            };
            let own: Vec<_> = members.iter().map(|&block| &a.blocks()[block]).collect();
            let sums = par::try_map(own, |block| match vector {
                true => self.evaluator().add_plain(block, &values).map(Arc::new),
                false if inside == 0.0 => Ok(Arc::clone(block)),
                false => self.evaluator().add_const(block, Complex::new(inside, 0.0)).map(Arc::new),
            })?;
            members.iter().zip(sums).for_each(|(&block, sum)| blocks[block] = sum);
        }
        self.array("add", layout.clone(), a.level(), blocks, a.padding_is_zero(), range)
    }

    fn sum_of_two(
        &self,
        op: &'static str,
        a: &Array<E>,
        b: &Array<E>,
        sign: f64,
        f: impl Fn(&E, &E::Ct, &E::Ct) -> sudare::Result<E::Ct> + Send + Sync,
    ) -> Result<Array<E>> {
        let pair = self.pair(op, a, b, 0)?;
        // A sum is zero only where both operands are.
        let zero = pair.zero.iter().all(|zero| *zero == [true; 2]);
        let padding = if zero { 0.0 } else { pair.padding[0] + pair.padding[1] };
        let fits = self.holds_padding(pair.level, padding);
        if !fits && a.padding() + b.padding() == 0.0 {
            // The padding holds elements that are broadcast, which no mask removes.
            self.check_room(op, pair.level, &Range::new(-padding, padding))?;
        } else if !fits {
            let clean = |x: &Array<E>| match x.padding() > 0.0 {
                true => self.masked(op, &self.ready(op, x, 1)?, 1.0),
                false => Ok(x.clone()),
            };
            return self.sum_of_two(op, &clean(a)?, &clean(b)?, sign, f);
        }
        let [left, right] = &pair.ranges;
        let range = left.sum(right, sign, pair.paired).with_padding(padding);
        self.check_room(op, pair.level, &range)?;
        let sum = |(a, b)| f(self.evaluator(), a, b).map(Arc::new);
        let blocks = par::try_map(pair.blocks(), sum)?;
        self.array(op, pair.layout, pair.level, blocks, zero, range)
    }

    /// Brings both operands to one level and one layout.
    fn pair(&self, op: &'static str, a: &Array<E>, b: &Array<E>, needed: u32) -> Result<Pair<E>> {
        let shape = broadcast_shape(op, a.shape(), b.shape())?;
        let paired = a.shape() == b.shape();
        let full = |x: &Array<E>| {
            x.with_layout(x.layout().with_leading_axes(shape.len() - x.shape().len()))
        };
        let mut a = full(a);
        let mut b = full(b);
        let layout = match a.layout().merged(b.layout(), &shape) {
            Some(layout) => layout,
            None => {
                // Moving costs a level, so the operand of the higher level moves. Of equal levels,
                // the smaller operand moves.
                let size = |x: &Array<E>| (core::cmp::Reverse(x.level()), x.layout().elements());
                let (still, moves) = if size(&a) < size(&b) { (&b, &mut a) } else { (&a, &mut b) };
                let layout = self.stretched_layout(still.layout(), &shape);
                let mut target = layout.clone();
                for axis in 0..shape.len() {
                    if moves.layout().shape()[axis] == 1 {
                        target = target.with_axis(axis, 1, Default::default());
                    }
                }
                *moves = self.relayout(&self.ready(op, moves, needed + 1)?, &target)?;
                layout
            }
        };
        let [a, b] = self.aligned(op, &a, &b, needed)?;
        let log_slots = layout.log_slots();
        let [a, b] = [self.widened(&a, log_slots)?, self.widened(&b, log_slots)?];
        let padded = (0..layout.ndim()).filter(|&axis| layout.pads(axis));
        let zero =
            padded.map(|axis| [is_zero_beyond(&a, axis), is_zero_beyond(&b, axis)]).collect();
        let of = |x: &Array<E>| -> Vec<_> {
            let sources = layout.sources(x.layout());
            sources.into_iter().map(|block| Arc::clone(&x.blocks()[block])).collect()
        };
        let padding = [&a, &b].map(|x| broadcast_padding(x, &layout));
        let ranges = [&a, &b].map(|x| x.range().clone());
        let level = a.level();
        let [a, b] = [&a, &b].map(of);
        Ok(Pair { layout, level, a, b, zero, ranges, padding, paired })
    }

    /// Returns the layout broadcast to `shape`, with new axes above all others.
    fn stretched_layout(&self, own: &Layout, shape: &[usize]) -> Layout {
        let mut layout = own.with_leading_axes(shape.len() - own.ndim());
        for axis in (0..shape.len()).rev() {
            if layout.shape()[axis] != shape[axis] {
                layout = layout.stretched(axis, shape[axis], self.log_slots_max());
            }
        }
        layout
    }

    /// Returns `a` with the axes and slots of its broadcast with a plain array of shape `other`,
    /// and the layout of that broadcast.
    fn stretched(
        &self,
        op: &'static str,
        a: &Array<E>,
        other: &[usize],
    ) -> Result<(Array<E>, Layout)> {
        let shape = broadcast_shape(op, a.shape(), other)?;
        let layout = self.stretched_layout(a.layout(), &shape);
        let a = a.with_layout(a.layout().with_leading_axes(shape.len() - a.shape().len()));
        Ok((self.widened(&a, layout.log_slots())?, layout))
    }

    /// Applies `f` to the blocks that meet the same values of a plain array, and to these values,
    /// which are 0 in the padding.
    fn by_vectors(
        &self,
        layout: &Layout,
        plain: &PlainArray,
        f: impl Fn(&[usize], Vec<f64>) -> Result<Vec<Arc<E::Ct>>> + Send + Sync,
    ) -> Result<Vec<Arc<E::Ct>>> {
        let leading = layout.ndim() - plain.shape.len();
        let mut strides = vec![0; leading];
        let own = c_strides(&plain.shape);
        // A stride of 0 repeats the element of a broadcast axis.
        strides
            .extend(own.iter().zip(&plain.shape).map(|(&s, &size)| if size > 1 { s } else { 0 }));
        let groups = layout.alike(|axis| strides[axis] != 0);
        let results = par::try_map(groups.values(), |members| {
            let offsets = layout.offsets(members[0], &strides);
            let value = |offset| if offset == PADDING { 0.0 } else { plain.values[offset] };
            f(members, offsets.into_iter().map(value).collect())
        })?;
        let mut blocks = vec![None; layout.blocks()];
        for (members, results) in groups.values().zip(results) {
            members.iter().zip(results).for_each(|(&block, result)| blocks[block] = Some(result));
        }
        Ok(blocks.into_iter().flatten().collect())
    }
}

/// Returns the largest magnitude of the padding of an array, read along the axes of a layout. An
/// axis of one element fills the layout's padding with that element.
fn broadcast_padding<E: ComplexOps>(own: &Array<E>, layout: &Layout) -> f64 {
    let fills = |axis| layout.pads(axis) && own.layout().shape()[axis] == 1;
    let spread = if (0..layout.ndim()).any(fills) { own.range().magnitude() } else { 0.0 };
    own.padding().max(spread)
}

/// Returns the error for a polynomial that needs more levels than bootstrapping leaves.
fn too_deep(op: &'static str, degree: usize, needed: u32, all: u32) -> ArrayError {
    let problem = format!(
        "degree {degree} takes {needed} levels, and bootstrapping leaves {all}: use a polynomial of \
         a lower degree, or a set with more levels"
    );
    ArrayError::Argument { op, problem }
}

fn check_scalar(op: &'static str, c: f64) -> Result<()> {
    match c.is_finite() {
        true => Ok(()),
        false => Err(ArrayError::NotFinite { op, index: 0, value: c.to_string() }),
    }
}
