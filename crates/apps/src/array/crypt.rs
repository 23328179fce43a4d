//! Encryption and decryption of plain arrays, and their simulation.

use sudare::{
    Error,
    circuits::ckks::{Complex, ComplexOps, WorstCase, sim},
    ckks::{self, Decryptor, Encoder, Encryptor, Params},
    rlwe::Level,
};
use sudare_arith::{par, real};

use super::{Array, ArrayError, Layout, PlainArray, Range, Result, engine::check_elements};

const OP: &str = "encrypt";

/// Bits of the noise of an operation in the largest rings, at a few standard deviations.
const NOISE_BITS: f64 = 24.0;

/// Encrypts an array in the blocks of `layout`, at `level` and its default scale. The range of the
/// result is the range of the values. To replace it by public numbers, use [`Array::declared`].
///
/// # Errors
/// [`ArrayError::Values`], [`ArrayError::NotFinite`]; [`ArrayError::Shapes`] for a layout of
/// another shape; [`Error::ValueTooLarge`] for a value that exceeds the level at its default scale;
/// [`Error::LevelOutOfRange`] and errors of encoding.
pub fn encrypt(
    encryptor: &Encryptor,
    params: &Params,
    layout: &Layout,
    values: &PlainArray,
    level: Level,
) -> Result<Array<ckks::Evaluator>> {
    let encoder = Encoder::new(params);
    encrypt_with(params, layout, values, Range::of(&values.values), level, |_, slots| {
        encryptor.encrypt(&encoder.encode_real_at(&slots, level, params.scale_at(level))?)
    })
}

/// Simulates [`encrypt`]. Pass the evaluator of the engine, or the evaluator on clear slots inside
/// a [`cost::Evaluator`](sudare::circuits::ckks::cost::Evaluator).
///
/// # Errors
/// The errors of [`encrypt`].
pub fn simulate_encryption<E: ComplexOps<Ct = sim::Ciphertext>>(
    evaluator: &sim::Evaluator,
    params: &Params,
    layout: &Layout,
    values: &PlainArray,
    level: Level,
) -> Result<Array<E>> {
    encrypt_with(params, layout, values, Range::of(&values.values), level, |_, slots| {
        evaluator.encrypt(&complex(slots), level, params.scale_at(level))
    })
}

/// Simulates the encryption of an array that may have any elements in `range`. Error bounds hold
/// for magnitudes up to `largest`.
pub(super) fn simulate_encryption_within<E: ComplexOps<Ct = sim::Ciphertext>>(
    evaluator: &sim::Evaluator,
    params: &Params,
    layout: &Layout,
    values: &PlainArray,
    largest: f64,
    range: Range,
    level: Level,
) -> Result<Array<E>> {
    let most = vec![largest; values.values.len()];
    encrypt_with(params, layout, values, range, level, |block, slots| {
        let most = layout.scatter_block(&most, block);
        evaluator.encrypt_within(&complex(slots), &most, level, params.scale_at(level))
    })
}

fn complex(slots: Vec<f64>) -> Vec<Complex<f64>> {
    slots.into_iter().map(|x| Complex::new(x, 0.0)).collect()
}

fn encrypt_with<E: ComplexOps>(
    params: &Params,
    layout: &Layout,
    values: &PlainArray,
    range: Range,
    level: Level,
    encrypt: impl Fn(usize, Vec<f64>) -> sudare::Result<E::Ct> + Send + Sync,
) -> Result<Array<E>> {
    values.check(OP)?;
    if values.shape != layout.shape() {
        let left = values.shape.clone();
        let right = layout.shape().to_vec();
        return Err(ArrayError::Shapes { op: OP, left, right });
    }
    params.rlwe().check_chain_level(level)?;
    if layout.log_slots() >= params.log_n() {
        let found = layout.slots();
        return Err(Error::TooManySlots { found, slots: params.max_slots() }.into());
    }
    let scale_bits = params.scale_at(level).log2();
    // One bit for the sign.
    let available_bits = params.chain().log2_q(level) - 1.0;
    let most = real::exp2(available_bits - scale_bits);
    if let Some(index) = values.values.iter().position(|x| x.abs() >= most) {
        let needed_bits = real::log2(values.values[index].abs()) + scale_bits;
        return Err(Error::ValueTooLarge { index, needed_bits, available_bits }.into());
    }
    let blocks = par::try_map(0..layout.blocks(), |block| {
        encrypt(block, layout.scatter_block(&values.values, block)).map(std::sync::Arc::new)
    })?;
    let scale = params.scale_at(level);
    let range = range.with_noise(real::exp2(NOISE_BITS - scale.log2()));
    let layout = layout.clone();
    let refreshed = std::sync::Arc::default();
    Ok(Array { layout, level, scale, blocks, padding_is_zero: true, range, refreshed })
}

/// Decrypts an array, without its padding.
///
/// # Errors
/// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`]; [`ArrayError::OutsideRange`] for a value far
/// outside the range of the array, for example because a promised range did not hold.
pub fn decrypt(
    decryptor: &Decryptor,
    params: &Params,
    array: &Array<ckks::Evaluator>,
) -> Result<PlainArray> {
    let encoder = Encoder::new(params);
    let open =
        |block: &std::sync::Arc<ckks::Ciphertext>| encoder.decode_real(&decryptor.decrypt(block)?);
    let slots = par::try_map(&array.blocks, open)?;
    opened(array, &slots)
}

/// Returns the values of a simulated array.
///
/// # Errors
/// [`ArrayError::Overflow`] for values that encryption would have lost; the errors of [`decrypt`].
pub fn simulate_decryption<E: ComplexOps<Ct = sim::Ciphertext>>(
    array: &Array<E>,
) -> Result<PlainArray> {
    let room = array.blocks.iter().map(|block| block.headroom_bits).fold(f64::INFINITY, f64::min);
    if room < 0.0 {
        return Err(ArrayError::Overflow { excess_bits: -room });
    }
    let real = |block: &std::sync::Arc<sim::Ciphertext>| block.slots.iter().map(|z| z.re).collect();
    let slots: Vec<Vec<f64>> = array.blocks.iter().map(real).collect();
    opened(array, &slots)
}

/// Returns the elements in the slots of the blocks, and checks that they lie in the range of the
/// array.
fn opened<E: ComplexOps>(array: &Array<E>, slots: &[Vec<f64>]) -> Result<PlainArray> {
    let elements = array.layout.gather(slots);
    let range = &array.range;
    check_elements("decrypt", &elements, range.low(), range.high(), range.slack())?;
    Ok(PlainArray::new(array.shape(), elements))
}

impl<E: ComplexOps> Array<E> {
    /// Returns the array with elements declared to lie from `low` to `high`. Others may learn these
    /// two numbers. They replace the ends that were read off the data.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] unless both are finite and in order; [`ArrayError::OutsideRange`]
    /// for elements outside this range.
    pub fn declared(&self, values: &PlainArray, low: f64, high: f64) -> Result<Self> {
        // Without slack, because these are the values before encryption.
        check_elements(OP, &values.values, low, high, 0.0)?;
        self.within(low, high)
    }
}

impl<E: ComplexOps<Ct = sim::Ciphertext>> Array<E> {
    /// In simulation, returns `log2` of the standard deviation of the error that encryption would
    /// have caused in an element: the largest of all blocks.
    #[must_use]
    pub fn noise_log2(&self) -> f64 {
        self.blocks.iter().map(|block| block.noise_log2).fold(f64::NEG_INFINITY, f64::max)
    }

    /// In simulation, returns the worst case of the slots of each block, for all inputs.
    pub(super) fn worst(&self) -> impl Iterator<Item = &WorstCase> {
        self.blocks.iter().map(|block| &block.worst)
    }
}
