//! Encrypted arrays of integers modulo `t`, of any shape, by BGV or BFV.
//!
//! A [`Setting`] is parameters with a scheme; a [`Layout`] says how the elements of an array lie in
//! the slots of its ciphertexts; an [`Engine`] computes as NumPy does on integers modulo `t`. What
//! it returns is exact, and what might not decrypt is refused.
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
//! Products of arrays, with plain arrays, and with scalars beyond 16 in size take a level; so do
//! products with plain matrices, and polynomials the depth of theirs. Each array has the factor
//! that follows from scheme and level, so that arrays of one level can be added, and one of a
//! higher level is brought down to it. An operation that finds too large errors at a level is done
//! at the next one below, so that a sum of many slots costs a level where a product follows.
//!
//! # Bootstrapping
//! With a [`Setting`] that has it, programs may be of any depth: an operation that finds too few
//! levels left, or whose result would have errors too large to be bootstrapped, bootstraps its
//! operands, and an array keeps its refreshed blocks, so that this happens once. Results stay at or
//! above the level that bootstrapping takes in, and can be bootstrapped.
//!
//! # Padding
//! An array fills its slots in C order. Those left are zero in new arrays. An array knows whether
//! they still are; where they are not, and would be summed, they are masked first, which takes a
//! level.

mod blocks;
mod bootstrap;
mod cost;
mod counts;
mod crypt;
mod elementwise;
mod layout;
mod linear;
mod rows;
mod setting;
#[cfg(test)]
mod tests;

use crate::array::{ArrayError, Result};
use blocks::Blocks;
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

pub use bootstrap::{bootstrapping_set, matrix_bytes, plan_bootstrapping};
pub use cost::Costs;
pub use counts::{Condition, CountsPlan};
pub use crypt::{budget, decrypt, encrypt};
pub use layout::{Layout, PlainIntegers};
pub use setting::{Scheme, Setting, plan};

/// An encrypted array of integers. Cheap to clone: blocks are shared.
#[derive(Clone)]
pub struct IntegerArray {
    layout: Layout,
    /// At one level, and with its factor.
    blocks: Blocks,
    padding_is_zero: bool,
}

impl IntegerArray {
    /// An array of blocks in order, such as those of a file. Padding that is not known to be zero is said
    /// not to be.
    ///
    /// # Errors
    /// [`ArrayError::Blocks`] unless there are as many blocks as the layout has, of one level and
    /// modulo `t`; [`sudare::Error::FactorMismatch`] if they are not of the scheme of `setting`;
    /// [`sudare::Error::ParamsMismatch`].
    pub fn from_blocks(
        setting: &Setting,
        layout: Layout,
        blocks: Vec<Ciphertext>,
        padding_is_zero: bool,
    ) -> Result<Self> {
        let differs =
            |what, found: String, needed: String| Err(ArrayError::Blocks { what, found, needed });
        let Some(first) = blocks.first().filter(|_| blocks.len() == layout.blocks()) else {
            let (found, needed) = (blocks.len().to_string(), layout.blocks().to_string());
            return differs("number of blocks", found, needed);
        };
        let (level, t) = (first.level(), setting.modulus());
        for block in &blocks {
            if block.level() != level {
                let (found, needed) = (block.level().to_string(), level.to_string());
                return differs("level of a block", found, needed);
            }
            if block.plaintext_modulus() != t {
                let (found, needed) = (block.plaintext_modulus().to_string(), t.to_string());
                return differs("plaintext modulus of a block", found, needed);
            }
        }
        let array = Self { layout, blocks: blocks.into(), padding_is_zero };
        array.check(setting)?;
        Ok(array)
    }

    /// Refuses an array of other parameters or of the other scheme.
    ///
    /// # Errors
    /// [`sudare::Error::ParamsMismatch`]; [`sudare::Error::FactorMismatch`].
    pub fn check(&self, setting: &Setting) -> sudare::Result<()> {
        for block in &self.blocks[..] {
            setting.check_params(block.params_id())?;
            let (found, needed) = (block.factor(), setting.factor(block.level())?);
            if !found.matches(needed) {
                let (left, right) = (found.value(), needed.value());
                let (op, modulus) = ("use an array of another scheme", needed.modulus().into());
                return Err(sudare::Error::FactorMismatch { op, left, right, modulus });
            }
        }
        Ok(())
    }

    /// Refuses an array of another key.
    ///
    /// # Errors
    /// [`sudare::Error::KeyMismatch`].
    pub fn check_key(&self, expected: KeyId) -> sudare::Result<()> {
        match self.blocks.iter().map(Ciphertext::key_id).find(|&found| found != expected) {
            Some(found) => Err(sudare::Error::KeyMismatch { what: "array", found, expected }),
            None => Ok(()),
        }
    }

    /// How it lies in its blocks.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Elements along each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The level of its blocks.
    #[must_use]
    pub fn level(&self) -> Level {
        self.blocks.first().map_or(Level(0), Ciphertext::level)
    }

    /// The ciphertexts of the array, in order.
    #[must_use]
    pub fn blocks(&self) -> &[Ciphertext] {
        &self.blocks
    }

    /// Whether slots beyond the last element are known to be zero.
    #[must_use]
    pub fn padding_is_zero(&self) -> bool {
        self.padding_is_zero || !self.layout.is_padded()
    }

    /// Bytes of memory that the blocks take.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        let polys = self.blocks.iter().flat_map(Ciphertext::polys);
        polys.flat_map(|poly| poly.rows()).map(|row| 8 * row.len() as u64).sum()
    }

    /// An array with the same elements in C order in another shape.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`] for a shape of more or fewer elements; [`ArrayError::Empty`];
    /// [`ArrayError::TooLarge`].
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self> {
        Ok(Self { layout: self.layout.reshaped(shape)?, ..self.clone() })
    }

    /// The images of all blocks under `map`.
    fn map(&self, map: impl FnMut(&Ciphertext) -> sudare::Result<Ciphertext>) -> Result<Self> {
        let blocks = self.blocks.iter().map(map).collect::<sudare::Result<_>>()?;
        Ok(Self { blocks, ..self.clone() })
    }
}

impl fmt::Debug for IntegerArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, level, blocks) = (self.shape(), self.level(), self.blocks.len());
        write!(f, "IntegerArray(shape {shape:?}, level {level}, {blocks} blocks)")
    }
}

/// Computes on arrays of integers with evaluation keys.
pub struct Engine {
    setting: Setting,
    evaluator: Evaluator,
    /// Of the setting, once something was bootstrapped.
    bootstrapper: Mutex<Option<Arc<Bootstrapper<exact::Evaluator>>>>,
    /// Ciphertexts that were.
    bootstraps: AtomicU64,
}

/// How ciphertexts are multiplied.
enum Evaluator {
    Bgv(exact::Evaluator),
    Bfv(Box<bfv::Evaluator>),
}

impl Engine {
    /// With these keys, which should be those of [`Setting::required_keys`]: what lacks one is
    /// refused.
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

    /// The parameters and the scheme.
    #[must_use]
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Ciphertexts that were bootstrapped since the engine was made.
    #[must_use]
    pub fn bootstraps(&self) -> u64 {
        self.bootstraps.load(Relaxed)
    }

    /// Refuses an array of other parameters, of the other scheme or of another key, whatever is then
    /// computed with it.
    fn check(&self, a: &IntegerArray) -> sudare::Result<()> {
        a.check(&self.setting)?;
        a.check_key(self.exact().keys().id())
    }

    /// What does not depend on the scheme.
    fn exact(&self) -> &exact::Evaluator {
        match &self.evaluator {
            Evaluator::Bgv(evaluator) => evaluator,
            Evaluator::Bfv(evaluator) => evaluator.exact(),
        }
    }

    /// Brought down to `level`, with its factor there.
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

    /// What `compute` gives of operands at one level, the highest from theirs down where errors
    /// leave room for the result, and at least `above` the lowest. Operands that have no such level
    /// are bootstrapped if the setting has a way to, and so are all where errors find no room, be it
    /// for the result or for bootstrapping it.
    fn where_it_fits<const N: usize>(
        &self,
        op: &'static str,
        operands: [&IntegerArray; N],
        above: u32,
        compute: impl Fn([IntegerArray; N]) -> Result<IntegerArray>,
    ) -> Result<IntegerArray> {
        operands.iter().try_for_each(|a| self.check(a))?;
        let operands = operands.map(IntegerArray::clone);
        let Some(plan) = self.setting.bootstrapping() else {
            return self.descend(op, operands, Level(above), compute);
        };
        let (lowest, highest) = (Level(plan.input_level().0 + above), plan.output_level());
        if lowest > highest {
            return Err(ArrayError::LevelExhausted {
                op,
                needed: above,
                left: plan.usable_levels(),
            });
        }
        let compute = |operands| self.refreshable(compute(operands)?);
        let mut operands = self.at_least(operands, lowest)?;
        match self.descend(op, operands.clone(), lowest, compute) {
            Err(ArrayError::Library(sudare::Error::NoiseExhausted { .. })) => {
                operands = self.at_least(operands, highest)?;
                self.descend(op, operands, lowest, compute)
            }
            result => result,
        }
    }

    /// An array unless it could not be bootstrapped and arrays are.
    fn refreshable(&self, a: IntegerArray) -> Result<IntegerArray> {
        let mut forms = a.blocks.iter().map(Ciphertext::form);
        forms.try_for_each(|form| self.setting.check_refreshable(form))?;
        Ok(a)
    }

    /// What `compute` gives of operands at the highest level down to `lowest` where it fits.
    fn descend<const N: usize>(
        &self,
        op: &'static str,
        operands: [IntegerArray; N],
        lowest: Level,
        compute: impl Fn([IntegerArray; N]) -> Result<IntegerArray>,
    ) -> Result<IntegerArray> {
        let mut level = operands.iter().map(IntegerArray::level).min().unwrap_or(Level(0));
        if level < lowest {
            let needed = lowest.0;
            return Err(sudare::Error::LevelExhausted { op, needed, level }.into());
        }
        let at = |level| {
            let mut operands = operands.clone();
            for a in &mut operands {
                *a = self.lowered(a, level)?;
            }
            compute(operands)
        };
        loop {
            match at(level) {
                Err(ArrayError::Library(sudare::Error::NoiseExhausted { .. }))
                    if level > lowest =>
                {
                    level = Level(level.0 - 1);
                }
                result => return result,
            }
        }
    }

    /// The product with a plaintext, a level below.
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
