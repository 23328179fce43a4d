use super::{
    Digits, LEAST_MODULUS, argument,
    clear::{product_ends, sum_ends},
    plan::required_keys,
};
use crate::{
    array::{ArrayError, Result},
    exact::{Blocks, IntegerRange, Layout, Leveled, Scheme, Setting, TOGETHER},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};
use sudare::{
    circuits::exact::{IntegerOps, Tables, bootstrap::Bootstrapper, sim},
    exact::{self, Ciphertext, Form, Unit},
    rlwe::{EvaluationKeys, KeyId, Level, ProductSum},
};

/// Evaluators of planes: of ciphertexts, or of their public properties.
pub trait Evaluator: IntegerOps {
    /// Returns the public properties of a ciphertext.
    fn form(a: &Self::Ct) -> Form;
}

impl Evaluator for exact::Evaluator {
    fn form(a: &Ciphertext) -> Form {
        a.form()
    }
}

impl Evaluator for sim::Evaluator {
    fn form(a: &Form) -> Form {
        *a
    }
}

/// A plane in ciphertexts. Clones share them, and their bootstrapped form once it exists.
pub struct Plane<C> {
    layout: Layout,
    blocks: Blocks<C>,
    range: IntegerRange,
}

/// A plane of ciphertexts.
pub type EncryptedPlane = Plane<Ciphertext>;

/// Planes of ciphertexts.
pub type EncryptedPlanes = Planes<exact::Evaluator>;

/// Planes of public properties, for plans.
pub type SimulatedPlanes = Planes<sim::Evaluator>;

impl<C> Clone for Plane<C> {
    fn clone(&self) -> Self {
        Self { layout: self.layout.clone(), blocks: self.blocks.clone(), range: self.range }
    }
}

impl<C> core::fmt::Debug for Plane<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Plane(shape {:?}, {})", self.layout.shape(), self.range)
    }
}

impl<C> Plane<C> {
    /// Makes a plane of ciphertexts of one level.
    pub(super) fn new(layout: Layout, blocks: Vec<C>, range: IntegerRange) -> Self {
        Self { layout, blocks: blocks.into(), range }
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the ciphertexts, in order.
    #[must_use]
    pub fn blocks(&self) -> &[C] {
        &self.blocks
    }

    /// Returns the range of the elements.
    #[must_use]
    pub fn range(&self) -> IntegerRange {
        self.range
    }
}

impl EncryptedPlane {
    /// Checks parameters, scheme and key.
    ///
    /// # Errors
    /// [`sudare::Error::ParamsMismatch`]; [`sudare::Error::FactorMismatch`];
    /// [`sudare::Error::KeyMismatch`].
    pub fn check(&self, setting: &Setting, key: KeyId) -> Result<()> {
        let array = crate::exact::IntegerArray::from_blocks(
            setting,
            self.layout.clone(),
            self.blocks.to_vec(),
            false,
        )?;
        Ok(array.check_key(key)?)
    }
}

/// Computes on planes by BGV, with automatic levels and bootstrapping.
pub struct Planes<E: Evaluator> {
    setting: Setting,
    evaluator: E,
    /// Tries tables before they are computed.
    rehearsal: sim::Evaluator,
    bootstrapper: Mutex<Option<Arc<Bootstrapper<E>>>>,
    tables: Mutex<HashMap<TableKey, Arc<Tables>>>,
    relinearizations: AtomicU64,
    bootstraps: AtomicU64,
    /// The lowest level of a result.
    lowest: AtomicU32,
}

/// The range and the values of functions.
type TableKey = (i64, i64, Vec<Vec<i64>>);

impl<E: Evaluator> core::fmt::Debug for Planes<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Planes({:?})", self.setting)
    }
}

impl EncryptedPlanes {
    /// Creates an engine with these keys, which should be the keys of [`required_keys`].
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for a setting that words cannot have;
    /// [`sudare::Error::ParamsMismatch`].
    pub fn encrypted(setting: &Setting, keys: Arc<EvaluationKeys>) -> Result<Self> {
        Self::new(setting, exact::Evaluator::new(setting.params(), keys)?)
    }

    /// Returns the key pair of the engine.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.evaluator.keys().id()
    }
}

impl SimulatedPlanes {
    /// Creates an engine on public properties.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for a setting that words cannot have.
    pub fn simulated(setting: &Setting) -> Result<Self> {
        let keys = required_keys(setting);
        Self::new(setting, sim::Evaluator::new(setting.params(), &keys))
    }

    /// Returns the simulator.
    #[must_use]
    pub fn simulator(&self) -> &sim::Evaluator {
        &self.evaluator
    }

    /// Returns a new plane, as encryption makes it.
    ///
    /// # Errors
    /// [`ArrayError::Empty`]; [`ArrayError::TooLarge`].
    pub fn fresh(&self, shape: &[usize], range: IntegerRange) -> Result<Plane<Form>> {
        let layout = self.setting.layout(shape)?;
        let top = self.setting.params().top();
        let form = self.evaluator.encrypt(top, self.setting.factor(top)?)?;
        let blocks = vec![form; layout.blocks()];
        Ok(Plane::new(layout, blocks, range))
    }
}

impl<E: Evaluator> Planes<E> {
    fn new(setting: &Setting, evaluator: E) -> Result<Self> {
        let t = setting.modulus();
        if setting.scheme() != Scheme::Bgv || t.exponent() != 1 || t.value() < LEAST_MODULUS {
            let problem = format!(
                "{} modulo {t}: words need BGV modulo a prime above {LEAST_MODULUS}, such as 65537",
                setting.scheme()
            );
            return Err(argument("words", problem));
        }
        let keys = required_keys(setting);
        Ok(Self {
            setting: setting.clone(),
            evaluator,
            rehearsal: sim::Evaluator::new(setting.params(), &keys),
            bootstrapper: Mutex::default(),
            tables: Mutex::default(),
            relinearizations: AtomicU64::new(0),
            bootstraps: AtomicU64::new(0),
            lowest: AtomicU32::new(setting.params().top().0),
        })
    }

    /// Returns the number of relinearisations up to now, without those of bootstrapping.
    #[must_use]
    pub fn relinearizations(&self) -> u64 {
        self.relinearizations.load(Relaxed)
    }

    /// Returns the number of ciphertexts bootstrapped up to now.
    #[must_use]
    pub fn bootstraps(&self) -> u64 {
        self.bootstraps.load(Relaxed)
    }

    /// Returns the levels between new planes and the lowest result.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.setting.params().top().0 - self.lowest.load(Relaxed)
    }

    /// Returns the parameters and the scheme.
    #[must_use]
    pub fn parameters(&self) -> &Setting {
        &self.setting
    }

    /// Returns the results of an operation, whose levels count for [`Planes::depth`].
    fn noted(&self, planes: Vec<Plane<E::Ct>>) -> Vec<Plane<E::Ct>> {
        for plane in &planes {
            self.lowest.fetch_min(self.level(plane).0, Relaxed);
        }
        planes
    }

    /// Returns the levels that are left of a plane, before it is bootstrapped.
    #[must_use]
    pub fn levels_left(&self, a: &Plane<E::Ct>) -> u32 {
        let lowest = self.setting.bootstrapping().map_or(0, |plan| plan.input_level().0);
        self.level(a).0.saturating_sub(lowest)
    }

    fn unit(&self) -> Unit {
        Unit::one(self.setting.modulus())
    }

    /// Returns the range between two numbers, which elements must be able to have.
    fn ranged(&self, op: &'static str, [low, high]: [i128; 2]) -> Result<IntegerRange> {
        // A setting of unsigned elements has the same residues.
        let most = (self.setting.modulus().value() / 2) as i128;
        match -most <= low && high <= most {
            // Moduli are below 2^62, so the casts keep the values.
            true => Ok(IntegerRange { low: low as i64, high: high as i64 }),
            false => {
                let count = (high - low + 1).unsigned_abs();
                Err(ArrayError::TableRange {
                    op,
                    low,
                    high,
                    count,
                    most: self.setting.modulus().value(),
                })
            }
        }
    }

    fn table(&self, range: IntegerRange, functions: &[Vec<i64>]) -> Result<Arc<Tables>> {
        let key = (range.low, range.high, functions.to_vec());
        if let Some(known) = held(&self.tables).get(&key) {
            return Ok(Arc::clone(known));
        }
        let points: Vec<i128> = (range.low..=range.high).map(i128::from).collect();
        let values = |f: &Vec<i64>| f.iter().map(|&y| y.into()).collect();
        let functions: Vec<_> = functions.iter().map(values).collect();
        let tables = Arc::new(Tables::new(self.setting.modulus(), &points, &functions)?);
        held(&self.tables).insert(key, Arc::clone(&tables));
        Ok(tables)
    }

    fn bootstrapper(&self) -> Result<Arc<Bootstrapper<E>>> {
        let Some(plan) = self.setting.bootstrapping() else {
            let problem =
                "these parameters cannot bootstrap: choose a set for bootstrapping".into();
            return Err(argument("bootstrap", problem));
        };
        // The value is set only when it is complete, so a panic of another thread leaves it usable.
        let mut made = held(&self.bootstrapper);
        if let Some(bootstrapper) = &*made {
            return Ok(Arc::clone(bootstrapper));
        }
        let bootstrapper = Arc::new(plan.prepare(&self.evaluator)?);
        *made = Some(Arc::clone(&bootstrapper));
        Ok(bootstrapper)
    }

    /// Returns the same planes with new blocks, made from theirs.
    fn with_blocks(
        &self,
        a: &Plane<E::Ct>,
        range: IntegerRange,
        block: impl Fn(&E::Ct) -> sudare::Result<E::Ct>,
    ) -> Result<Plane<E::Ct>> {
        let blocks = a.blocks.iter().map(block).collect::<sudare::Result<Vec<_>>>()?;
        Ok(Plane::new(a.layout.clone(), blocks, range))
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E: Evaluator> Leveled for Planes<E> {
    type Value = Plane<E::Ct>;

    fn setting(&self) -> &Setting {
        &self.setting
    }
    fn level(&self, a: &Plane<E::Ct>) -> Level {
        a.blocks.first().map_or(Level(0), |block| self.evaluator.level(block))
    }
    fn lowered(&self, a: &Plane<E::Ct>, level: Level) -> Result<Plane<E::Ct>> {
        if self.level(a) == level {
            return Ok(a.clone());
        }
        let factor = self.setting.factor(level)?;
        self.with_blocks(a, a.range, |block| self.evaluator.match_scale(block, level, factor))
    }
    fn refreshed(&self, a: &Plane<E::Ct>) -> Result<Plane<E::Ct>> {
        let mut planes = [a.clone()];
        self.refresh_all(&mut planes, |_| true)?;
        let [refreshed] = planes;
        Ok(refreshed)
    }
    fn check_refreshable(&self, a: &Plane<E::Ct>) -> sudare::Result<()> {
        a.blocks.iter().map(E::form).try_for_each(|form| self.setting.check_refreshable(form))
    }
    fn raise(&self, operands: &mut [Plane<E::Ct>], level: Level) -> Result<()> {
        self.refresh_all(operands, |a| self.level(a) < level)
    }
}

impl<E: Evaluator> Planes<E> {
    /// Bootstraps planes, several ciphertexts together. Each plane keeps its new blocks, so this
    /// happens once.
    fn refresh_all(
        &self,
        planes: &mut [Plane<E::Ct>],
        needed: impl Fn(&Plane<E::Ct>) -> bool,
    ) -> Result<()> {
        let needed: Vec<usize> = (0..planes.len()).filter(|&i| needed(&planes[i])).collect();
        let mut missing: Vec<Blocks<E::Ct>> = Vec::new();
        for &i in &needed {
            let blocks = &planes[i].blocks;
            if blocks.refreshed().is_none() && !missing.iter().any(|other| other.is(blocks)) {
                missing.push(blocks.clone());
            }
        }
        if !missing.is_empty() {
            let bootstrapper = self.bootstrapper()?;
            let input = bootstrapper.plan().input_level();
            let factor = self.setting.factor(input)?;
            let lowered = |block: &E::Ct| {
                let level = input.min(self.evaluator.level(block));
                match self.evaluator.level(block) == level {
                    true => Ok(block.clone()),
                    false => self.evaluator.match_scale(block, level, factor),
                }
            };
            let inputs = missing.iter().flat_map(|blocks| blocks.iter()).map(lowered);
            let inputs = inputs.collect::<sudare::Result<Vec<_>>>()?;
            let mut results = Vec::with_capacity(inputs.len());
            for part in inputs.chunks(TOGETHER) {
                results.extend(bootstrapper.run_many(&self.evaluator, part)?);
            }
            self.bootstraps.fetch_add(results.len() as u64, Relaxed);
            let mut results = results.into_iter();
            for blocks in &missing {
                blocks.keep_refreshed(results.by_ref().take(blocks.len()).collect());
            }
        }
        for i in needed {
            if let Some(blocks) = planes[i].blocks.refreshed() {
                planes[i].blocks = blocks.clone();
            }
        }
        Ok(())
    }
}

impl<E: Evaluator> Digits for Planes<E> {
    type Plane = Plane<E::Ct>;

    fn layout<'a>(&self, a: &'a Plane<E::Ct>) -> &'a Layout {
        &a.layout
    }
    fn range(&self, a: &Plane<E::Ct>) -> IntegerRange {
        a.range
    }
    fn within(&self, a: &Plane<E::Ct>, range: IntegerRange) -> Plane<E::Ct> {
        Plane { range, ..a.clone() }
    }
    fn reshaped(&self, a: &Plane<E::Ct>, shape: &[usize]) -> Result<Plane<E::Ct>> {
        Ok(Plane { layout: a.layout.reshaped(shape)?, ..a.clone() })
    }
    fn repeated(
        &self,
        op: &'static str,
        a: &Plane<E::Ct>,
        shape: &[usize],
    ) -> Result<Plane<E::Ct>> {
        let layout = a.layout.repeated(op, self.setting.layout(shape)?)?;
        if layout.elements() == a.layout.elements() {
            return Ok(Plane { layout, ..a.clone() });
        }
        let blocks = vec![a.blocks[0].clone(); layout.blocks()];
        Ok(Plane::new(layout, blocks, a.range))
    }
    fn sum(&self, terms: &[(&Plane<E::Ct>, i64)], constant: i64) -> Result<Plane<E::Ct>> {
        const OP: &str = "sum of digits";
        let ends = sum_ends(terms.iter().map(|(a, c)| (a.range, *c)), constant);
        let range = self.ranged(OP, ends)?;
        let one = self.unit();
        let e = &self.evaluator;
        let operands: Vec<_> = terms.iter().map(|&(a, _)| a).collect();
        let found = self.where_all_fit(OP, &operands, 0, |operands| {
            let [first, ..] = operands else {
                return Err(sudare::Error::Circuit("a sum needs a term".into()).into());
            };
            let block = |i: usize| {
                let sum = match terms {
                    [(_, 1)] => first.blocks[i].clone(),
                    _ => {
                        let terms = operands.iter().zip(terms);
                        let terms = terms.map(|(a, (_, c))| (&a.blocks[i], i128::from(*c), one));
                        e.mul_const_sum(&terms.collect::<Vec<_>>())?
                    }
                };
                if constant == 0 { Ok(sum) } else { e.add_const(&sum, constant.into()) }
            };
            let blocks = (0..first.blocks.len()).map(block).collect::<sudare::Result<_>>()?;
            Ok(vec![Plane::new(first.layout.clone(), blocks, range)])
        })?;
        only(self.noted(found))
    }
    fn add_plain(&self, a: &Plane<E::Ct>, values: &[i64]) -> Result<Plane<E::Ct>> {
        const OP: &str = "add plain digits";
        let ends = a.range.extremes(IntegerRange::of(values), |x, y| x + y);
        let range = self.ranged(OP, ends)?;
        let t = self.setting.modulus();
        let residues: Vec<u128> = values.iter().map(|&x| t.reduce_i128(x.into())).collect();
        let plain = |i| self.setting.encode(&a.layout.scattered(i, &residues));
        let plains = (0..a.layout.blocks()).map(plain).collect::<sudare::Result<Vec<_>>>()?;
        let found = self.where_all_fit(OP, &[a], 0, |operands| {
            let blocks = operands[0].blocks.iter().zip(&plains);
            let blocks = blocks.map(|(block, plain)| self.evaluator.add_plain(block, plain));
            let blocks = blocks.collect::<sudare::Result<_>>()?;
            Ok(vec![Plane::new(a.layout.clone(), blocks, range)])
        })?;
        only(self.noted(found))
    }
    fn products(&self, sums: &[Vec<(Plane<E::Ct>, Plane<E::Ct>)>]) -> Result<Vec<Plane<E::Ct>>> {
        const OP: &str = "products of digits";
        let ends =
            sums.iter().map(|pairs| product_ends(pairs.iter().map(|(a, b)| (a.range, b.range))));
        let ranges = ends.map(|ends| self.ranged(OP, ends)).collect::<Result<Vec<_>>>()?;
        if sums.is_empty() {
            return Ok(Vec::new());
        }
        // A plane in several products is lowered once.
        let mut operands: Vec<&Plane<E::Ct>> = Vec::new();
        let mut indices: Vec<Vec<(usize, usize)>> = Vec::with_capacity(sums.len());
        for pairs in sums {
            let mut places = Vec::with_capacity(2 * pairs.len());
            for a in pairs.iter().flat_map(|(a, b)| [a, b]) {
                let known = operands.iter().position(|b| b.blocks.is(&a.blocks));
                places.push(known.unwrap_or(operands.len()));
                if known.is_none() {
                    operands.push(a);
                }
            }
            indices.push(places.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect());
        }
        let blocks = operands[0].blocks.len();
        let results = self.where_all_fit(OP, &operands, 1, |operands| {
            let product_sum = |(pairs, i): (&Vec<(usize, usize)>, usize)| {
                let block = |k: usize| &operands[k].blocks[i];
                let products = pairs.iter().map(|&(a, b)| (block(a), block(b))).collect();
                ProductSum { products, addend: None }
            };
            let all = indices.iter().flat_map(|pairs| (0..blocks).map(move |i| (pairs, i)));
            let all: Vec<_> = all.map(product_sum).collect();
            let mut found = Vec::with_capacity(all.len());
            for part in all.chunks(TOGETHER) {
                found.extend(self.evaluator.mul_sum_rescale_many(part)?);
            }
            let mut found = found.into_iter();
            let plane = |range: &IntegerRange| {
                let blocks = found.by_ref().take(blocks).collect();
                Plane::new(operands[0].layout.clone(), blocks, *range)
            };
            Ok(ranges.iter().map(plane).collect())
        })?;
        self.relinearizations.fetch_add((sums.len() * blocks) as u64, Relaxed);
        Ok(self.noted(results))
    }
    fn tables(
        &self,
        xs: &[Plane<E::Ct>],
        functions: &[Vec<i64>],
    ) -> Result<Vec<Vec<Plane<E::Ct>>>> {
        const OP: &str = "table of digits";
        let Some(first) = xs.first() else { return Ok(Vec::new()) };
        let range = first.range;
        let tables = self.table(range, functions)?;
        let ranges: Vec<_> = functions.iter().map(|f| IntegerRange::of(f)).collect();
        let params = self.setting.params();
        let chain = params.chain(self.setting.modulus())?;
        let blocks = first.blocks.len();
        let operands: Vec<_> = xs.iter().collect();
        let results = self.where_all_fit(OP, &operands, tables.depth(), |operands| {
            let level = self.level(&operands[0]);
            let factor = |level| self.setting.factor(level);
            let plan = tables.plan(&chain, level, factor(level)?, factor)?;
            // The bounds of errors are known before anything is computed.
            let all: Vec<&E::Ct> = operands.iter().flat_map(|a| a.blocks.iter()).collect();
            let louder = |a: &Form, b: &Form| a.noise.log2().total_cmp(&b.noise.log2());
            if let Some(worst) = all.iter().map(|block| E::form(block)).max_by(louder) {
                let results = plan.run(&self.rehearsal, &worst)?;
                results.into_iter().try_for_each(|form| self.setting.check_refreshable(form))?;
            }
            let mut found = vec![Vec::with_capacity(all.len()); ranges.len()];
            for part in all.chunks(TOGETHER) {
                let part: Vec<E::Ct> = part.iter().map(|&block| block.clone()).collect();
                for (all, some) in found.iter_mut().zip(plan.run_many(&self.evaluator, &part)?) {
                    all.extend(some);
                }
            }
            let mut found: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
            let mut planes = Vec::with_capacity(operands.len() * ranges.len());
            for a in operands {
                for (found, range) in found.iter_mut().zip(&ranges) {
                    let blocks = found.by_ref().take(blocks).collect();
                    planes.push(Plane::new(a.layout.clone(), blocks, *range));
                }
            }
            Ok(planes)
        })?;
        let count = tables.relinearizations() * xs.len() * blocks;
        self.relinearizations.fetch_add(count as u64, Relaxed);
        let mut results = self.noted(results).into_iter();
        Ok(xs.iter().map(|_| results.by_ref().take(functions.len()).collect()).collect())
    }
}

/// Returns the only result.
fn only<C>(mut found: Vec<Plane<C>>) -> Result<Plane<C>> {
    found.pop().ok_or_else(|| sudare::Error::Circuit("an operation has no result".into()).into())
}
