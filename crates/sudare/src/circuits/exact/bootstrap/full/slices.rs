use crate::{
    Error, Result,
    circuits::{
        LockStep, Ops,
        exact::{IntegerOps, IntegerSlots},
        lock_step::Batch,
    },
    exact::{IntegerEncoder, Modulus, PlainPoly, Unit},
    rlwe::{GaloisElement, KeyRequest, Level},
};

/// `log2` of the number of slices that go through a stage in lock step.
const LOG_TOGETHER: usize = 2;

/// One step that splits a ring into halves: `v = v_0 + b v_1`, with an automorphism that keeps
/// `v_0` and `v_1` and negates `b`.
pub(super) struct Halving {
    image: GaloisElement,
    /// `b`.
    basis: PlainPoly,
    /// Factor that turns `2 b v_1` into a slice.
    dual: PlainPoly,
}

impl Halving {
    /// Makes the halvings into polynomials in `X^2`, of these into polynomials in `X^4`, and so on.
    pub(super) fn of_coefficients(t: Modulus, log_n: u32, steps: u32) -> Result<Vec<Self>> {
        let halving = |i: u32| {
            Ok(Self {
                // Maps `b = X^(2^i)` to `X^(N + 2^i) = -b`, and keeps `b^2`.
                image: GaloisElement((1 << (log_n - i)) + 1),
                basis: monomial(t, log_n, 1 << i)?,
                // The inverse of `b`, because `X^2N = 1`.
                dual: monomial(t, log_n, (2 << log_n) - (1 << i))?,
            })
        };
        (0..steps).map(halving).collect()
    }

    /// Makes the halvings into integers in slots.
    pub(super) fn of_slots(encoder: &IntegerEncoder, steps: u32) -> Result<Vec<Self>> {
        let t = encoder.modulus();
        let log_n = encoder.log_n();
        let Some(delta) = delta(encoder)? else {
            return Self::of_coefficients(t, log_n, steps);
        };
        let mut all = Self::of_coefficients(t, log_n, steps.saturating_sub(1))?;
        all.push(Self { image: frobenius(encoder), basis: delta.clone(), dual: delta });
        Ok(all)
    }

    /// Returns `delta^-2` if slices of integers in slots are multiples of `delta^2`.
    ///
    /// # Errors
    /// [`Error::NotAUnit`], which never happens.
    pub(super) fn excess_inverse(encoder: &IntegerEncoder) -> Result<Option<PlainPoly>> {
        let Some(delta) = delta(encoder)? else { return Ok(None) };
        let t = encoder.modulus();
        let inverse = |excess: i128| {
            let value = t.reduce_i128(excess);
            let not_a_unit = Error::NotAUnit { value, modulus: t.into() };
            Ok(t.centered(t.inverse(value).ok_or(not_a_unit)?))
        };
        let excess = encoder.decode(&delta.mul(&delta)?)?;
        let inverses = excess.into_iter().map(inverse).collect::<Result<Vec<_>>>()?;
        Ok(Some(encoder.encode(&inverses)?))
    }
}

/// Returns the automorphism that keeps integers in slots.
fn frobenius(encoder: &IntegerEncoder) -> GaloisElement {
    GaloisElement((encoder.modulus().prime() % (2 << encoder.log_n())) as u32)
}

/// Returns `W - W^p` for `W = X^(d/2)`, unless integers in slots are all polynomials in `X^d`.
fn delta(encoder: &IntegerEncoder) -> Result<Option<PlainPoly>> {
    let IntegerEncoder::Slim(slots) = encoder else { return Ok(None) };
    let root = monomial(encoder.modulus(), encoder.log_n(), slots.ring().degree() / 2)?;
    root.sub(&root.image(frobenius(encoder))).map(Some)
}

/// Returns `X^e`, for `e` below `2N`.
fn monomial(t: Modulus, log_n: u32, e: usize) -> Result<PlainPoly> {
    let n = 1 << log_n;
    let mut coeffs = vec![0; n];
    // `X^N = -1`.
    coeffs[e % n] = if e < n { 1 } else { t.value() - 1 };
    PlainPoly::new(t, coeffs)
}

/// The halvings of one basis that take a ciphertext apart, and the halvings of another that put it
/// together.
#[derive(Debug, Clone)]
pub(super) struct Slices {
    steps: Vec<Step>,
    /// The factor by which splits multiply slices.
    multiple: Unit,
}

#[derive(Debug, Clone)]
struct Step {
    image: GaloisElement,
    dual: PlainPoly,
    basis: PlainPoly,
}

/// Processing of a few slices at a time.
pub(super) type Work<'w, E> =
    &'w mut dyn FnMut(&LockStep<'_, E>, Batch<<E as Ops>::Ct>) -> Result<Batch<<E as Ops>::Ct>>;

impl Slices {
    /// Prepares for ciphertexts modulo `t`, the modulus of the first basis.
    pub(super) fn new(t: Modulus, apart: &[Halving], together: &[Halving]) -> Result<Self> {
        let step = |(apart, together): (&Halving, &Halving)| Step {
            image: apart.image,
            dual: apart.dual.clone(),
            basis: together.basis.clone(),
        };
        let steps: Vec<_> = apart.iter().zip(together).map(step).collect();
        let multiple = Unit::new(1 << steps.len(), t)?;
        Ok(Self { steps, multiple })
    }

    /// Returns the keys for ciphertexts at `level`.
    pub(super) fn required_keys(&self, level: Level) -> KeyRequest {
        let images = self.steps.iter().map(|step| step.image);
        images.fold(KeyRequest::new(), |keys, g| keys.automorphism(g, level))
    }

    /// Takes `x` apart, passes all slices to `work`, a few at a time, and puts the results
    /// together. If a dual is not an inverse, slices of the second half are multiplied by its
    /// product with the basis.
    ///
    /// Cost: one key switch fewer than there are slices. Memory: the slices being processed, and
    /// one ciphertext per step.
    pub(super) fn through<E: IntegerOps>(
        &self,
        e: &E,
        x: E::Ct,
        work: Work<'_, E>,
    ) -> Result<E::Ct> {
        let multiple = self.multiple;
        one_by_one(e, x, &self.steps, &mut |many, slices| {
            work(many, many.with_scale(&slices, many.scale(&slices) * multiple)?)
        })
    }
}

fn one_by_one<E: IntegerOps>(e: &E, x: E::Ct, steps: &[Step], work: Work<'_, E>) -> Result<E::Ct> {
    match steps {
        // Splits one by one until the remaining steps make a group of slices.
        [step, rest @ ..] if rest.len() >= LOG_TOGETHER => {
            let [low, high] = step.split(e, &x)?;
            // Before the halves are processed: otherwise each step would hold one ciphertext more.
            drop(x);
            let low = one_by_one(e, low, rest, work)?;
            let high = one_by_one(e, high, rest, work)?;
            step.join(e, &low, &high)
        }
        _ => {
            let all = LockStep::new(e).run(&[x], |many, x| together(many, x.clone(), steps, work));
            Ok(all?.remove(0))
        }
    }
}

fn together<E: IntegerOps>(
    many: &LockStep<'_, E>,
    x: Batch<E::Ct>,
    steps: &[Step],
    work: Work<'_, E>,
) -> Result<Batch<E::Ct>> {
    let [step, rest @ ..] = steps else { return work(many, x) };
    let [low, high] = step.split(many, &x)?;
    drop(x);
    // The batch holds all low halves, then all high ones, and keeps this order.
    let [low, high] = together(many, low.join(high), rest, work)?.halves();
    step.join(many, &low, &high)
}

impl Step {
    /// Returns `v + g(v)` and `dual (v - g(v))`.
    fn split<E: Ops<Algebra = IntegerSlots>>(&self, e: &E, x: &E::Ct) -> Result<[E::Ct; 2]> {
        let image = e.automorphism(x, self.image)?;
        let difference = e.sub(x, &image)?;
        let one = Unit::one(self.dual.modulus());
        Ok([e.add(x, &image)?, e.mul_plain(&difference, &self.dual, one)?])
    }

    fn join<E: Ops<Algebra = IntegerSlots>>(
        &self,
        e: &E,
        low: &E::Ct,
        high: &E::Ct,
    ) -> Result<E::Ct> {
        let one = Unit::one(self.basis.modulus());
        e.add(low, &e.mul_plain(high, &self.basis, one)?)
    }
}

#[cfg(test)]
impl Halving {
    /// Splits a plaintext.
    pub(super) fn apply(&self, x: &PlainPoly) -> [PlainPoly; 2] {
        let image = x.image(self.image);
        let difference = x.sub(&image).unwrap();
        [x.add(&image).unwrap(), self.dual.mul(&difference).unwrap()]
    }
}
