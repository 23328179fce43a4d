//! Encrypted arrays of integers modulo `t`, of any shape, by BGV or BFV.
//!
//! A [`Setting`] is a set of parameters with a scheme. A [`Layout`] maps the elements of an array
//! to the slots of its ciphertexts. An [`Engine`] has NumPy's operations on integers modulo `t`.
//! Results are exact, and a result that might not decrypt is an error.
//!
//! ```
//! use std::sync::Arc;
//! use sudare::{exact::{Decryptor, Encryptor, Params, preset}, rlwe::KeyGenerator};
//! use sudare_apps::exact::{self, Engine, PlainIntegers, Scheme, Setting};
//!
//! # fn main() -> Result<(), sudare_apps::array::ArrayError> {
//! let params = Params::new(preset("toy-n8")?.spec)?;
//! let setting = Setting::new(params.clone(), Scheme::Bgv, true)?;
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let encryptor = Encryptor::new(&params, Arc::new(keygen.public_key(&secret)?))?;
//! let keys = keygen.evaluation_keys(&secret, &setting.required_keys()?)?;
//! let engine = Engine::new(&setting, Arc::new(keys))?;
//!
//! let x = exact::encrypt(&encryptor, &setting, &PlainIntegers::new(&[3], vec![1, -2, 3]))?;
//! let sum = engine.sum(&engine.mul(&x, &x)?)?;
//! let decryptor = Decryptor::new(&params, Arc::new(secret))?;
//! assert_eq!(exact::decrypt(&decryptor, &setting, &sum)?.values, [14]);
//! # Ok(())
//! # }
//! ```
//!
//! # Levels
//! These operations take a level: a product of two arrays, with a plain array, with a scalar of
//! magnitude above 16, and with a plain matrix. A polynomial takes levels of its depth. The factor
//! of an array follows from scheme and level. Arrays of one level can therefore be added, and an
//! array of a higher level is lowered first. If errors are too large for an operation at a level,
//! it runs at the next level below. A sum of many slots therefore costs a level if a product
//! follows.
//!
//! # Bootstrapping
//! With a [`Setting`] for bootstrapping, programs may have any depth. An operation bootstraps its
//! operands if too few levels are left, or if the errors of its result would be too large to
//! bootstrap. An array keeps its refreshed blocks, so this happens once. Results stay at or above
//! the input level of bootstrapping, and can be bootstrapped.
//!
//! # Ranges
//! An array knows a range that contains its elements: a declared one, or the range of the encrypted
//! data, whose ends move outward to powers of two. Operations carry it on. If a result may be
//! reduced modulo `t`, it has the range of the modulus. [`Engine::tables`] and comparisons are
//! polynomials on the known range, so a smaller range makes them faster.
//!
//! # Padding
//! An array fills its slots in C order. The remaining slots are zero in new arrays, and an array
//! knows whether they still are. If nonzero padding would be summed, the engine masks it first, at
//! the cost of a level.

mod blocks;
mod bootstrap;
mod cost;
mod counts;
mod crypt;
mod elementwise;
mod layout;
mod levels;
mod linear;
mod range;
mod rows;
mod setting;
mod table;
#[cfg(test)]
mod tests;

use crate::array::{ArrayError, Result};
use core::fmt;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use sudare::{
    bfv,
    circuits::exact::bootstrap::Bootstrapper,
    exact::{self, Ciphertext},
    rlwe::{EvaluationKeys, KeyId, Level},
};

pub(crate) use blocks::Blocks;
pub(crate) use bootstrap::TOGETHER;
pub use bootstrap::{bootstrapping_set, matrix_bytes, plan_bootstrapping};
pub use cost::Costs;
pub use counts::{Condition, CountsPlan};
pub use crypt::{budget, decrypt, encrypt, encrypt_within};
pub(crate) use layout::broadcast;
pub use layout::{Layout, PlainIntegers};
pub(crate) use levels::Leveled;
pub use range::IntegerRange;
pub use setting::{Scheme, Setting, plan};
pub use table::{Comparison, Operand};

/// An encrypted array of integers. Clones share the blocks, so cloning is cheap.
#[derive(Clone)]
pub struct IntegerArray {
    layout: Layout,
    /// Blocks of one level, with its factor.
    blocks: Blocks,
    padding_is_zero: bool,
    /// Range of the elements. Padding may lie outside.
    range: IntegerRange,
}

impl IntegerArray {
    /// Builds an array from its blocks in order, for example from a file. Pass `false` for padding
    /// that is not known to be zero. The elements have the range of the modulus; see
    /// [`IntegerArray::within`].
    ///
    /// # Errors
    /// [`ArrayError::Blocks`] unless the number of blocks matches the layout, and all have one
    /// level and the modulus `t`; [`sudare::Error::FactorMismatch`] if they are not of the scheme
    /// of `setting`; [`sudare::Error::ParamsMismatch`].
    pub fn from_blocks(
        setting: &Setting,
        layout: Layout,
        blocks: Vec<Ciphertext>,
        padding_is_zero: bool,
    ) -> Result<Self> {
        let differs =
            |what, found: String, needed: String| Err(ArrayError::Blocks { what, found, needed });
        let Some(first) = blocks.first().filter(|_| blocks.len() == layout.blocks()) else {
            let found = blocks.len().to_string();
            let needed = layout.blocks().to_string();
            return differs("number of blocks", found, needed);
        };
        let level = first.level();
        let t = setting.modulus();
        for block in &blocks {
            if block.level() != level {
                let found = block.level().to_string();
                let needed = level.to_string();
                return differs("level of a block", found, needed);
            }
            if block.plaintext_modulus() != t {
                let found = block.plaintext_modulus().to_string();
                let needed = t.to_string();
                return differs("plaintext modulus of a block", found, needed);
            }
        }
        let range = setting.range();
        let array = Self { layout, blocks: blocks.into(), padding_is_zero, range };
        array.check(setting)?;
        Ok(array)
    }

    /// Checks that an array has the parameters and the scheme of `setting`.
    ///
    /// # Errors
    /// [`sudare::Error::ParamsMismatch`]; [`sudare::Error::FactorMismatch`].
    pub fn check(&self, setting: &Setting) -> sudare::Result<()> {
        for block in &self.blocks[..] {
            setting.check_params(block.params_id())?;
            let found = block.factor();
            let needed = setting.factor(block.level())?;
            if !found.matches(needed) {
                let left = found.value();
                let right = needed.value();
                let op = "use an array of another scheme";
                let modulus = needed.modulus().into();
                return Err(sudare::Error::FactorMismatch { op, left, right, modulus });
            }
        }
        Ok(())
    }

    /// Checks that an array is encrypted under the key `expected`.
    ///
    /// # Errors
    /// [`sudare::Error::KeyMismatch`].
    pub fn check_key(&self, expected: KeyId) -> sudare::Result<()> {
        match self.blocks.iter().map(Ciphertext::key_id).find(|&found| found != expected) {
            Some(found) => Err(sudare::Error::KeyMismatch { what: "array", found, expected }),
            None => Ok(()),
        }
    }

    /// Returns the layout of the array in its blocks.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the elements along each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Returns the level of the blocks.
    #[must_use]
    pub fn level(&self) -> Level {
        self.blocks.first().map_or(Level(0), Ciphertext::level)
    }

    /// Returns the ciphertexts of the array, in order.
    #[must_use]
    pub fn blocks(&self) -> &[Ciphertext] {
        &self.blocks
    }

    /// Returns whether slots beyond the last element are known to be zero.
    #[must_use]
    pub fn padding_is_zero(&self) -> bool {
        self.padding_is_zero || !self.layout.is_padded()
    }

    /// Returns the size of the blocks in memory, in bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        let polys = self.blocks.iter().flat_map(Ciphertext::polys);
        polys.flat_map(|poly| poly.rows()).map(|row| 8 * row.len() as u64).sum()
    }

    /// Returns an array of another shape with the same elements in C order.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`] for a shape of more or fewer elements; [`ArrayError::Empty`];
    /// [`ArrayError::TooLarge`].
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self> {
        Ok(Self { layout: self.layout.reshaped(shape)?, ..self.clone() })
    }

    /// Applies `map` to all blocks.
    fn map(&self, map: impl FnMut(&Ciphertext) -> sudare::Result<Ciphertext>) -> Result<Self> {
        let blocks = self.blocks.iter().map(map).collect::<sudare::Result<_>>()?;
        Ok(Self { blocks, ..self.clone() })
    }
}

impl fmt::Debug for IntegerArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.shape();
        let level = self.level();
        let blocks = self.blocks.len();
        write!(f, "IntegerArray(shape {shape:?}, level {level}, {blocks} blocks)")
    }
}

/// Computes on arrays of integers with evaluation keys.
pub struct Engine {
    setting: Setting,
    evaluator: Evaluator,
    /// Bootstrapping of the setting, prepared at its first use.
    bootstrapper: Mutex<Option<Arc<Bootstrapper<exact::Evaluator>>>>,
    /// Number of bootstrapped ciphertexts.
    bootstraps: AtomicU64,
}

/// Products of ciphertexts, by the scheme.
enum Evaluator {
    Bgv(exact::Evaluator),
    Bfv(Box<bfv::Evaluator>),
}

impl Engine {
    /// Creates an engine with these keys, which should be the keys of [`Setting::required_keys`].
    /// An operation whose key is missing returns an error.
    ///
    /// # Errors
    /// [`sudare::Error::ParamsMismatch`]; [`sudare::Error::InvalidSpec`] if BFV finds too few
    /// primes.
    pub fn new(setting: &Setting, keys: Arc<EvaluationKeys>) -> Result<Self> {
        let params = setting.params();
        let evaluator = match setting.scheme() {
            Scheme::Bgv => Evaluator::Bgv(exact::Evaluator::new(params, keys)?),
            Scheme::Bfv => Evaluator::Bfv(Box::new(bfv::Evaluator::new(params, keys)?)),
        };
        Ok(Self {
            setting: setting.clone(),
            evaluator,
            bootstrapper: Mutex::default(),
            bootstraps: AtomicU64::new(0),
        })
    }

    /// Returns the parameters and the scheme.
    #[must_use]
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Returns the number of ciphertexts bootstrapped by this engine.
    #[must_use]
    pub fn bootstraps(&self) -> u64 {
        self.bootstraps.load(Relaxed)
    }

    /// Rejects an array of other parameters, another scheme or another key, before any computation.
    fn check(&self, a: &IntegerArray) -> sudare::Result<()> {
        a.check(&self.setting)?;
        a.check_key(self.exact().keys().id())
    }

    /// Returns the evaluator of operations that do not depend on the scheme.
    fn exact(&self) -> &exact::Evaluator {
        match &self.evaluator {
            Evaluator::Bgv(evaluator) => evaluator,
            Evaluator::Bfv(evaluator) => evaluator.exact(),
        }
    }

    /// Runs `compute` on operands at one level; see [`Leveled::where_all_fit`].
    fn where_it_fits<const N: usize>(
        &self,
        op: &'static str,
        operands: [&IntegerArray; N],
        above: u32,
        compute: impl Fn([IntegerArray; N]) -> Result<IntegerArray>,
    ) -> Result<IntegerArray> {
        let compute = |operands| Ok(vec![compute(operands)?]);
        Ok(self.where_all_fit(op, operands, above, compute)?.remove(0))
    }

    /// Runs [`Engine::where_it_fits`] for several results.
    fn where_all_fit<const N: usize>(
        &self,
        op: &'static str,
        operands: [&IntegerArray; N],
        above: u32,
        compute: impl Fn([IntegerArray; N]) -> Result<Vec<IntegerArray>>,
    ) -> Result<Vec<IntegerArray>> {
        // Checked before anything is bootstrapped, which takes long.
        operands.iter().try_for_each(|a| self.check(a))?;
        Leveled::where_all_fit(self, op, &operands, above, |operands| {
            compute(core::array::from_fn(|i| operands[i].clone()))
        })
    }

    /// Multiplies by a plaintext. The product is one level below.
    fn mul_plain(
        &self,
        blocks: &[&Ciphertext],
        plain: &exact::PlainPoly,
    ) -> sudare::Result<Vec<Ciphertext>> {
        let Some(first) = blocks.first() else { return Ok(Vec::new()) };
        let factor = self.setting.weight_factor("multiply by a plaintext", first.level())?;
        let mut products = self.exact().mul_plain_many(blocks, plain, factor)?;
        products.iter_mut().try_for_each(|product| self.exact().rescale_assign(product))?;
        Ok(products)
    }
}

impl Leveled for Engine {
    type Value = IntegerArray;

    fn setting(&self) -> &Setting {
        &self.setting
    }
    fn level(&self, a: &IntegerArray) -> Level {
        a.level()
    }
    fn lowered(&self, a: &IntegerArray, level: Level) -> Result<IntegerArray> {
        if a.level() == level {
            return Ok(a.clone());
        }
        let factor = self.setting.factor(level)?;
        a.map(|block| match &self.evaluator {
            Evaluator::Bgv(evaluator) => evaluator.match_factor(block, level, factor),
            Evaluator::Bfv(evaluator) => evaluator.rescale_to(block, level),
        })
    }
    fn refreshed(&self, a: &IntegerArray) -> Result<IntegerArray> {
        self.bootstrap(a)
    }
    fn check_refreshable(&self, a: &IntegerArray) -> sudare::Result<()> {
        a.blocks
            .iter()
            .map(Ciphertext::form)
            .try_for_each(|form| self.setting.check_refreshable(form))
    }
}
