use super::{EvaluationKeys, GaloisElement, Level, Params, SwitchingKey, keys::GaloisKey};
use crate::{
    Error, Result,
    ring::{Dividend, Divider, Eval, RnsPoly, TILE, columns},
};
use core::ops::Deref;
use std::sync::Arc;
use sudare_arith::{Modulus, NttTable, Permutation, Shoup, par};

/// One polynomial cut into digits and raised to `QP`: the part of a key switch
/// that does not depend on the key. Made once and used often, it is hoisting.
pub struct Digits {
    level: Level,
    /// The rows of the primes that a digit owns are unspecified: there it is the
    /// polynomial itself.
    polys: Vec<RnsPoly<Eval>>,
}

impl Digits {
    /// The level of the polynomial.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }
}

/// What a key switch is applied to: one polynomial is switched, what it is
/// summed with is kept. Their rows are computed tile by tile where needed.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a> {
    /// `c_0` is kept and `c_1` switched.
    Ciphertext(&'a [RnsPoly<Eval>; 2]),
    /// Switched, and nothing kept.
    Alone(&'a RnsPoly<Eval>),
    /// Of a product, `a_1 b_1` is switched, `a_0 b_0` and `a_0 b_1 + a_1 b_0` kept.
    Product(&'a [RnsPoly<Eval>; 2], &'a [RnsPoly<Eval>; 2]),
}

impl<'a> Operand<'a> {
    /// Evaluations modulo the `i`-th prime, from `start` on, of what is switched.
    fn write_switched(self, m: &Modulus, i: usize, start: usize, out: &mut [u64]) {
        let len = out.len();
        let part = |poly: &'a RnsPoly<Eval>| &poly.row(i)[start..][..len];
        match self {
            Self::Ciphertext([_, c]) | Self::Alone(c) => out.copy_from_slice(part(c)),
            Self::Product([_, a1], [_, b1]) => m.mul_rows(out, part(a1), part(b1)),
        }
    }

    /// Adds `w` times what is kept to both halves.
    fn add_kept(self, m: &Modulus, i: usize, start: usize, w: Shoup, out: [&mut [u64]; 2]) {
        let [first, second] = out;
        let len = first.len();
        let part = |poly: &'a RnsPoly<Eval>| &poly.row(i)[start..][..len];
        match self {
            Self::Ciphertext([c0, _]) => m.scale_add(first, part(c0), w),
            Self::Alone(_) => {}
            Self::Product([a0, a1], [b0, b1]) => {
                let [a0, a1, b0, b1] = [a0, a1, b0, b1].map(part);
                let mut product = [0; TILE];
                let product = &mut product[..len];
                m.mul_rows(product, a0, b0);
                m.scale_add(first, product, w);
                m.mul_sum(product, &[a0, a1], &[b1, b0]);
                m.scale_add(second, product, w);
            }
        }
    }
}

/// Hybrid key switching.
///
/// References: [HK20](https://eprint.iacr.org/2019/688) for the method,
/// [BMTH21](https://eprint.iacr.org/2020/1203) for hoisting. Deviation: digits are
/// raised exactly, to the representatives next to zero, and division by `P` rounds
/// exactly; see `docs/notes/keyswitch-noise.md` for what that is worth.
#[derive(Clone)]
pub struct KeySwitcher {
    params: Params,
    keys: Arc<EvaluationKeys>,
}

/// Division that ends a key switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Down {
    /// By `P`.
    Special,
    /// By `P` and the primes of the level: a rescaling at no cost.
    SpecialAndLevel,
}

impl KeySwitcher {
    /// A switcher that holds `keys`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`].
    pub fn new(params: &Params, keys: Arc<EvaluationKeys>) -> Result<Self> {
        params.check_id("evaluation key", keys.params)?;
        Ok(Self { params: params.clone(), keys })
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &Arc<EvaluationKeys> {
        &self.keys
    }

    pub(super) fn params(&self) -> &Params {
        &self.params
    }

    pub(crate) fn relinearization_key(&self, level: Level) -> Result<&SwitchingKey> {
        self.keys
            .relinearize
            .as_ref()
            .filter(|key| key.level >= level)
            .ok_or(Error::MissingRelinearizationKey { level })
    }

    pub(crate) fn galois_key(&self, element: GaloisElement, level: Level) -> Result<&GaloisKey> {
        self.keys.galois.get(&element).filter(|key| key.key.level >= level).ok_or_else(|| {
            let log_n = self.params.log_n();
            let slots = 1i64 << (log_n - 1);
            let rotation =
                (0..slots).find(|&k| GaloisElement::rotation(log_n, k) == element).map_or_else(
                    || "with conjugation".to_owned(),
                    |k| format!("rotation by {}", if k > slots / 2 { k - slots } else { k }),
                );
            Error::MissingGaloisKey { element, rotation, level }
        })
    }

    /// Cuts what is switched of `operand` and raises the digits.
    ///
    /// Cost: a transform per prime of the chain and, for each digit, one per
    /// prime of `QP` that is not its own.
    pub(crate) fn digits(&self, operand: Operand<'_>, level: Level) -> Digits {
        let mut polys = self.raise(operand, level);
        par::for_each(self.by_limb(&mut polys, level), |(i, mut rows)| {
            self.table(level, i).forward_rows(&mut rows);
        });
        Digits { level, polys }
    }

    /// Switches `operand` and divides: `round((P kept + <digits, key>) / D)` modulo
    /// the primes that stay, then permuted.
    pub(crate) fn switch(
        &self,
        operand: Operand<'_>,
        level: Level,
        key: &SwitchingKey,
        down: Down,
        permutation: Option<&Permutation>,
    ) -> [RnsPoly<Eval>; 2] {
        let mut digits = self.raise(operand, level);
        let dividends = self
            .by_limb(&mut digits, level)
            .map(|(i, rows)| self.dividend(operand, Limb::Raised(rows), key, level, i))
            .collect();
        self.divide(level, down, dividends, permutation)
    }

    /// As [`KeySwitcher::switch`] with [`Down::Special`], from the digits of
    /// `operand`.
    pub(crate) fn switch_hoisted(
        &self,
        operand: Operand<'_>,
        digits: &Digits,
        key: &SwitchingKey,
        permutation: Option<&Permutation>,
    ) -> [RnsPoly<Eval>; 2] {
        let level = digits.level;
        let dividends = (0..self.params.key_limbs(level).count())
            .map(|i| self.dividend(operand, Limb::Ready(self.ready(digits, i)), key, level, i))
            .collect();
        self.divide(level, Down::Special, dividends, permutation)
    }

    fn divide(
        &self,
        level: Level,
        down: Down,
        dividends: Vec<Product<'_>>,
        permutation: Option<&Permutation>,
    ) -> [RnsPoly<Eval>; 2] {
        let limbs = self.params.key_limbs(level);
        self.divider(level, down).run(self.params.basis(), limbs, dividends, permutation)
    }

    pub(super) fn divider(&self, level: Level, down: Down) -> &Divider {
        match down {
            Down::Special => self.params.mod_down(),
            Down::SpecialAndLevel => self.params.rescale_down(level),
        }
    }

    /// The `i`-th rows of the digits that do not own the prime.
    pub(super) fn ready<'a>(&self, digits: &'a Digits, i: usize) -> Vec<&'a [u64]> {
        let owner = self.owner(digits.level, i);
        let others = digits.polys.iter().enumerate().filter(|(d, _)| owner != Some(*d));
        others.map(|(_, poly)| poly.row(i)).collect()
    }

    fn table(&self, level: Level, i: usize) -> &NttTable {
        self.params.basis().table(self.params.key_limbs(level), i)
    }

    /// The digits modulo `QP`: coefficients for now, nothing where a digit owns
    /// the prime.
    pub(super) fn raise(&self, operand: Operand<'_>, level: Level) -> Vec<RnsPoly<Eval>> {
        let params = &self.params;
        let (basis, limbs) = (params.basis(), params.key_limbs(level));
        let mut y: RnsPoly<Eval> = basis.take(params.limbs(level));
        par::for_each(y.rows_mut().enumerate(), |(i, row)| {
            let table = basis.table(limbs, i);
            for (t, tile) in row.chunks_mut(TILE).enumerate() {
                operand.write_switched(table.modulus(), i, t * TILE, tile);
            }
            table.inverse(row);
            let owned = params.owned(level, i / params.alpha());
            let factor = params.raise(owned.end).inverse(i - owned.start);
            table.modulus().scale_assign(row, factor);
        });
        let mut digits: Vec<RnsPoly<Eval>> =
            (0..params.digits(level)).map(|_| basis.take(limbs)).collect();
        let jobs = digits.iter_mut().enumerate().flat_map(|(digit, poly)| {
            columns(poly.rows_mut(), TILE).map(move |(start, parts)| (digit, start, parts))
        });
        par::for_each(jobs, |(digit, start, parts)| {
            let owned = params.owned(level, digit);
            let converter = params.raise(owned.end);
            let len = parts.first().map_or(0, |part| part.len());
            let y = owned.clone().map(|i| &y.row(i)[start..][..len]);
            // Converters have targets for every prime of the chain.
            let target = |i| limbs.place(i, basis.all());
            let others = parts.into_iter().enumerate().filter(|(i, _)| !owned.contains(i));
            converter.convert(y, others.map(|(i, part)| (target(i), part)));
        });
        digits
    }

    /// The digit that owns the `i`-th prime, if it is one of the chain.
    fn owner(&self, level: Level, i: usize) -> Option<usize> {
        (i < self.params.limbs(level).q()).then(|| i / self.params.alpha())
    }

    /// The rows of raised digits limb by limb, without those that a digit owns.
    pub(super) fn by_limb<'a>(
        &self,
        digits: &'a mut [RnsPoly<Eval>],
        level: Level,
    ) -> impl Iterator<Item = (usize, Vec<&'a mut [u64]>)> + use<'a, '_> {
        let mut rows: Vec<_> = digits.iter_mut().map(RnsPoly::rows_mut).collect();
        (0..self.params.key_limbs(level).count()).map(move |i| {
            let owner = self.owner(level, i);
            let row = |(digit, rows): (usize, &mut _)| {
                Iterator::next(rows).filter(|_| owner != Some(digit))
            };
            (i, rows.iter_mut().enumerate().filter_map(row).collect())
        })
    }

    /// The `i`-th limb of the product of digits and key.
    pub(super) fn dividend<'a>(
        &'a self,
        operand: Operand<'a>,
        digits: Limb<'a>,
        key: &'a SwitchingKey,
        level: Level,
        i: usize,
    ) -> Product<'a> {
        let limbs = self.params.key_limbs(level);
        let table = self.table(level, i);
        let k = limbs.place(i, self.params.key_limbs(key.level));
        let count = self.params.digits(level);
        let half = |half: usize| key.digits[..count].iter().map(|pair| pair[half].row(k)).collect();
        let special = |digit| Owner { digit, limb: i, special: self.params.special(i) };
        let owner = self.owner(level, i).map(special);
        Product { table, operand, digits, keys: [half(0), half(1)], owner }
    }
}

/// Rows of the digits of one limb.
pub(super) enum Limb<'a> {
    /// To be transformed; without the digit that owns the prime.
    Raised(Vec<&'a mut [u64]>),
    /// Transformed, likewise.
    Ready(Vec<&'a [u64]>),
}

/// A limb of `P kept + <digits, key>`.
pub(super) struct Product<'a> {
    table: &'a NttTable,
    operand: Operand<'a>,
    digits: Limb<'a>,
    /// Of each half of the key, the row of each digit.
    keys: [Vec<&'a [u64]>; 2],
    owner: Option<Owner>,
}

/// For a prime of the chain.
struct Owner {
    /// The digit that owns the prime.
    digit: usize,
    limb: usize,
    /// `P` modulo the prime.
    special: Shoup,
}

impl Dividend<2> for Product<'_> {
    fn prepare(&mut self) {
        if let Limb::Raised(rows) = &mut self.digits {
            self.table.forward_rows(rows);
        }
    }

    fn write(&self, start: usize, out: [&mut [u64]; 2]) {
        let m = self.table.modulus();
        let [first, second] = out;
        let len = first.len();
        let mut own = [0; TILE];
        let own = &mut own[..len];
        if let Some(owner) = &self.owner {
            self.operand.write_switched(m, owner.limb, start, own);
        }
        let mut digits = match &self.digits {
            Limb::Raised(rows) => cut(rows, start, len),
            Limb::Ready(rows) => cut(rows, start, len),
        };
        if let Some(owner) = &self.owner {
            digits.insert(owner.digit, own);
        }
        let [a, b] = self.keys.each_ref().map(|rows| cut(rows, start, len));
        m.mul_sum(first, &digits, &a);
        m.mul_sum(second, &digits, &b);
        if let Some(owner) = &self.owner {
            self.operand.add_kept(m, owner.limb, start, owner.special, [first, second]);
        }
    }
}

/// `len` words of each row from `start` on.
fn cut<R: Deref<Target = [u64]>>(rows: &[R], start: usize, len: usize) -> Vec<&[u64]> {
    rows.iter().map(|row| &row[start..][..len]).collect()
}
