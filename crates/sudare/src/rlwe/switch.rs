mod product;

use product::{Kept, Owner, Pair};
pub(super) use product::{Limb, Product, extended_product};

use super::{
    EvaluationKeys, GaloisElement, Level, Params, SwitchingKey,
    gadget::Gadget,
    keys::{GaloisKey, RaisingKeys},
    rows::KeyRows,
};
use crate::{
    Error, Result,
    ring::{Blocks, Divider, Eval, Half, LimbSet, RnsPoly, Tile, convert_rows, finish, to_columns},
};
use core::ops::Range;
use std::sync::Arc;
use sudare_arith::{Modulus, NttTable, Permutation, Shoup, mem::bytes_of, par};

/// One polynomial cut into digits and lifted to `QP`: the part of a key switch that does not depend
/// on the key. Using it for several keys is hoisting.
pub(super) struct Digits {
    level: Level,
    /// Number of special primes of the keys that the digits serve.
    special: usize,
    /// The rows of the primes that a digit owns are unspecified: there the digit is the polynomial
    /// itself.
    polys: Vec<RnsPoly<Eval>>,
}

/// The operand of a key switch: one polynomial is switched, the rest is kept and added. Rows of
/// products are computed block by block when needed.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a> {
    /// `c_0` is kept and `c_1` switched.
    Ciphertext(&'a [RnsPoly<Eval>; 2]),
    /// The polynomial is switched, and nothing is kept.
    Alone(&'a RnsPoly<Eval>),
    /// A product: `a_1 b_1` is switched, `a_0 b_0` and `a_0 b_1 + a_1 b_0` are kept and the addend,
    /// if any, is added to them.
    Product { factors: [&'a [RnsPoly<Eval>; 2]; 2], addend: Option<&'a [RnsPoly<Eval>; 2]> },
    /// `c_0` and `c_1` are kept and `c_2` is switched.
    Tensor(&'a [RnsPoly<Eval>; 3]),
}

impl<'a> Operand<'a> {
    /// Returns the polynomial that is switched, if it exists already.
    fn switched(self) -> Option<&'a RnsPoly<Eval>> {
        match self {
            Self::Ciphertext([_, c]) | Self::Alone(c) | Self::Tensor([.., c]) => Some(c),
            Self::Product { .. } => None,
        }
    }

    /// Writes the evaluations of a product's switched polynomial modulo the `i`-th prime, from
    /// `start` on.
    fn write_switched(self, m: &Modulus, i: usize, start: usize, out: &mut [u64]) {
        if let Self::Product { factors: [[_, a1], [_, b1]], .. } = self {
            let len = out.len();
            m.mul_rows(out, &a1.row(i)[start..][..len], &b1.row(i)[start..][..len]);
        }
    }

    /// Lists the memory that [`Operand::write_switched`] and products with a key read in `len`
    /// words of a row.
    fn switched_parts(self, (i, start, len): (usize, usize, usize)) -> Vec<&'a [u8]> {
        let part = |poly: &'a RnsPoly<Eval>| bytes_of(&poly.row(i)[start..][..len]);
        match self {
            Self::Product { factors: [[_, a1], [_, b1]], .. } => vec![part(a1), part(b1)],
            _ => self.switched().map(part).into_iter().collect(),
        }
    }

    /// Lists the memory that [`Operand::add_kept`] reads for a half, without the memory that it
    /// read for the previous one.
    fn kept_parts(self, half: usize, (i, start, len): (usize, usize, usize)) -> Vec<&'a [u8]> {
        let part = |poly: &'a RnsPoly<Eval>| bytes_of(&poly.row(i)[start..][..len]);
        match self {
            Self::Product { factors: [a, b], addend } => {
                let polys = [&a[half], &b[half]].into_iter();
                polys.chain(addend.map(|c| &c[half])).map(part).collect()
            }
            _ => self.kept(half).map(part).into_iter().collect(),
        }
    }

    /// Returns the polynomial added to half `half`, if it exists already.
    fn kept(self, half: usize) -> Option<&'a RnsPoly<Eval>> {
        match self {
            Self::Ciphertext([c0, _]) => Some(c0).filter(|_| half == 0),
            Self::Tensor(c) => Some(&c[half]),
            Self::Alone(_) | Self::Product { .. } => None,
        }
    }

    /// Adds the kept polynomial to a half, times `w` if given.
    fn add_kept(
        self,
        half: usize,
        m: &Modulus,
        (i, start): (usize, usize),
        w: Option<Shoup>,
        out: &mut [u64],
    ) {
        let len = out.len();
        let part = |poly: &'a RnsPoly<Eval>| &poly.row(i)[start..][..len];
        let add = |out: &mut [u64], kept: &[u64]| match w {
            Some(w) => m.scale_add(out, kept, w),
            None => m.add_assign(out, kept),
        };
        if let Some(kept) = self.kept(half) {
            return add(out, part(kept));
        }
        if let Self::Product { factors: [[a0, a1], [b0, b1]], addend } = self {
            let mut product = Tile::ZERO;
            let product = &mut product.0[..len];
            match (half, addend) {
                (0, None) => m.mul_rows(product, part(a0), part(b0)),
                (0, Some([c0, _])) => m.mul_add(product, part(a0), part(b0), part(c0)),
                (_, c) => {
                    m.mul_sum(product, &[part(a0), part(a1)], &[part(b1), part(b0)]);
                    if let Some([_, c1]) = c {
                        m.add_assign(product, part(c1));
                    }
                }
            }
            add(out, product);
        }
    }
}

/// Hybrid key switching.
///
/// References: [HK20](https://eprint.iacr.org/2019/688) for the method,
/// [BMTH21](https://eprint.iacr.org/2020/1203) for hoisting. Deviation: digits are lifted exactly,
/// to the representatives next to zero, and division by `P` rounds exactly. See
/// `docs/notes/keyswitch-noise.md` for the gain.
#[derive(Clone)]
pub(super) struct KeySwitcher {
    params: Params,
    keys: Arc<EvaluationKeys>,
}

/// Division that ends a key switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModDown {
    /// Division by `P`.
    P,
    /// Division by `P` and the primes of the level: a free rescaling.
    PAndLevel,
}

impl KeySwitcher {
    /// Makes a switcher that holds `keys`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`].
    pub(super) fn new(params: &Params, keys: Arc<EvaluationKeys>) -> Result<Self> {
        params.check_id("evaluation key", keys.params)?;
        Ok(Self { params: params.clone(), keys })
    }

    pub(super) fn params(&self) -> &Params {
        &self.params
    }

    /// The keys.
    pub(super) fn keys(&self) -> &Arc<EvaluationKeys> {
        &self.keys
    }

    pub(super) fn relinearization_key(&self, level: Level) -> Result<&SwitchingKey> {
        let key = self.keys.relinearization_key(&self.params, level);
        key.ok_or(Error::MissingRelinearizationKey { level })
    }

    pub(super) fn galois_key(&self, element: GaloisElement, level: Level) -> Result<&GaloisKey> {
        let key_level = self.keys.key_level(&self.params, level, &[element]);
        self.galois_key_of(key_level, element, level)
    }

    /// Returns the key among the level keys for `key_level`, or among the keys for every level.
    pub(super) fn galois_key_of(
        &self,
        key_level: Option<Level>,
        element: GaloisElement,
        level: Level,
    ) -> Result<&GaloisKey> {
        let key = self.keys.galois_key(key_level, element, level);
        key.ok_or_else(|| self.missing_galois_key(key_level, element, level))
    }

    pub(super) fn missing_galois_key(
        &self,
        key_level: Option<Level>,
        element: GaloisElement,
        level: Level,
    ) -> Error {
        let log_n = self.params.log_n();
        let slots = 1i64 << (log_n - 1);
        let rotation =
            // A search over all slots will do: it runs only on the way to an error.
            (0..slots).find(|&k| GaloisElement::rotation(log_n, k) == element).map_or_else(
                || "with conjugation".to_owned(),
                // The shorter way round, as users write a rotation to the right.
                |k| format!("rotation by {}", if k > slots / 2 { k - slots } else { k }),
            );
        Error::MissingGaloisKey { element, rotation, level, key_level }
    }

    /// Cuts the switched polynomial of `operand` and lifts the digits, for keys with the first
    /// `special` special primes.
    ///
    /// Cost: a transform per prime of the chain and, for each digit, one per prime of `QP` that is
    /// not its own.
    pub(super) fn digits(&self, operand: Operand<'_>, level: Level, special: usize) -> Digits {
        let decomposition = self.decomposition(level, special);
        let halves = decomposition.lift(operand);
        let take = || self.params.basis().take(decomposition.limbs());
        let mut polys: Vec<_> = halves.iter().map(|_| take()).collect();
        let out = decomposition.by_limb(polys.iter_mut().map(RnsPoly::rows_mut));
        let limbs = decomposition.by_limb(halves.iter().map(RnsPoly::rows)).zip(out);
        par::for_limbs(limbs, |within, ((i, halves), (_, out))| {
            within.for_rows(halves.into_iter().zip(out), |(half, out)| {
                finish(within, decomposition.table(i), half, out);
            });
        });
        Digits { level, special, polys }
    }

    /// Switches `operand` and divides: computes `round((P kept + <digits, key>) / D)` modulo the
    /// remaining primes, then permutes.
    pub(super) fn switch(
        &self,
        operand: Operand<'_>,
        level: Level,
        key: &SwitchingKey,
        down: ModDown,
        permutation: Option<&Permutation>,
    ) -> [RnsPoly<Eval>; 2] {
        self.decomposition(level, key.limbs().p()).switch(operand, key, down, permutation)
    }

    /// Runs [`KeySwitcher::switch`] on both, in one pass over the key.
    pub(super) fn switch_pair(
        &self,
        operands: [Operand<'_>; 2],
        level: Level,
        key: &SwitchingKey,
        down: ModDown,
    ) -> [[RnsPoly<Eval>; 2]; 2] {
        let decomposition = self.decomposition(level, key.limbs().p());
        let lifted = operands.map(|operand| decomposition.lift(operand));
        let [first, second] = lifted.each_ref().map(|digits| decomposition.lifted(digits));
        let pairs = first.zip(second);
        let dividends =
            pairs.map(|((i, first), (_, second))| {
                let [a, b] = operands;
                Pair([(a, first), (b, second)].map(|(operand, rows)| {
                    decomposition.dividend(operand, rows, key, i).divided(down)
                }))
            });
        let basis = decomposition.params.basis();
        let limbs = decomposition.limbs();
        let [a, b, c, d] = decomposition.divider(down).run(basis, limbs, dividends.collect(), None);
        [[a, b], [c, d]]
    }

    /// Runs [`KeySwitcher::switch`] with [`ModDown::P`], from the digits of `operand` if they serve
    /// such a key.
    pub(super) fn switch_hoisted(
        &self,
        operand: Operand<'_>,
        digits: &Digits,
        key: &SwitchingKey,
        permutation: Option<&Permutation>,
    ) -> [RnsPoly<Eval>; 2] {
        let decomposition = self.decomposition(digits.level, key.limbs().p());
        // A level key with another number of special primes has digits of its own.
        if digits.special != key.limbs().p() {
            return decomposition.switch(operand, key, ModDown::P, permutation);
        }
        let dividends = (0..decomposition.limbs().count())
            .map(|i| decomposition.dividend(operand, decomposition.ready(digits, i), key, i))
            .collect();
        decomposition.divide(ModDown::P, dividends, permutation)
    }

    /// Lifts a ciphertext modulo `q_0` to the primes of level `to`: switches to the ephemeral
    /// secret, lifts, and switches back.
    ///
    /// Primes of `a` above level 0 are not read. Cost: key switches of one digit at level 0 and at
    /// `to`, plus the lifting.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::MissingRaisingKey`] without keys, or with keys for
    /// lower levels; [`Error::RaisingDivisorMismatch`].
    pub(super) fn raise(
        &self,
        a: &[RnsPoly<Eval>; 2],
        to: Level,
        lift: Lift<'_>,
    ) -> Result<[RnsPoly<Eval>; 2]> {
        let keys = self.raising_keys(to, lift.divisor)?;
        let basis = self.params.basis();
        let limbs = self.params.raising_limbs(to);
        let lifted = self.lift_under_sparse(a, keys, to, lift);
        let key = &keys.to_dense;
        let dividends = (0..limbs.count())
            .map(|i| {
                // One digit, because the lifted second polynomial is small.
                let rows = key.rows(&self.params, 1, limbs.place(i, key.limbs()));
                extended_product(&self.params, limbs, &lifted, rows, i)
            })
            .collect();
        Ok(self.params.gadget(limbs).mod_down().run(basis, limbs, dividends, None))
    }

    /// Switches both polynomials of `a` to the ephemeral secret and lifts them: the first to the
    /// chain primes of level `to`, the second also to the special primes of a key back.
    pub(super) fn lift_under_sparse(
        &self,
        a: &[RnsPoly<Eval>; 2],
        keys: &RaisingKeys,
        to: Level,
        lift: Lift<'_>,
    ) -> [RnsPoly<Eval>; 2] {
        let operand = Operand::Ciphertext(a);
        let sparse = self.switch(operand, Level(0), &keys.to_sparse, ModDown::P, None);
        (lift.lift)(&sparse, [self.params.limbs(to), self.params.raising_limbs(to)])
    }

    /// Returns the keys to the ephemeral secret and back from level `to`, with this divisor.
    pub(super) fn raising_keys(&self, to: Level, divisor: u128) -> Result<&RaisingKeys> {
        self.params.check_level(to)?;
        let missing = |found| Error::MissingRaisingKey { level: to, found };
        let keys = self.keys.raise.as_ref().ok_or(missing(None))?;
        if !self.params.levels().above(to).contains(&keys.to_dense.level) {
            return Err(missing(Some(keys.to_dense.level)));
        }
        if keys.divisor != divisor {
            return Err(Error::RaisingDivisorMismatch { found: keys.divisor, needed: divisor });
        }
        Ok(keys)
    }

    /// Returns the decomposition into digits of keys with the first `special` special primes.
    pub(super) fn decomposition(&self, level: Level, special: usize) -> Decomposition<'_> {
        let limbs = self.params.limbs(level).with_special(special);
        Decomposition { params: &self.params, gadget: self.params.gadget(limbs), level }
    }
}

/// Method to lift a ciphertext modulo `q_0` to other primes.
#[derive(Clone, Copy)]
pub(crate) struct Lift<'a> {
    /// Divisor of the lifted ciphertext on the way back from the ephemeral secret.
    pub(crate) divisor: u128,
    /// Lifts both polynomials, each to primes of its own. The first is then already divided, if
    /// there is a divisor. The second is small.
    pub(crate) lift: &'a (dyn Fn(&Halves, [LimbSet; 2]) -> Halves + 'a),
}

/// Both polynomials of a ciphertext.
pub(crate) type Halves = [RnsPoly<Eval>; 2];

/// Polynomials of a level, cut by a gadget.
#[derive(Clone, Copy)]
pub(super) struct Decomposition<'a> {
    pub(super) params: &'a Params,
    pub(super) gadget: &'a Gadget,
    level: Level,
}

impl<'a> Decomposition<'a> {
    /// The primes of the level and the special ones.
    pub(super) fn limbs(self) -> LimbSet {
        self.gadget.limbs(self.params.limbs(self.level).q())
    }

    fn digits(self) -> impl ExactSizeIterator<Item = Range<usize>> + use<'a> {
        self.gadget.digits(self.limbs().q())
    }

    /// Runs [`KeySwitcher::switch`] with this decomposition.
    fn switch(
        self,
        operand: Operand<'_>,
        key: &SwitchingKey,
        down: ModDown,
        permutation: Option<&Permutation>,
    ) -> [RnsPoly<Eval>; 2] {
        let digits = self.lift(operand);
        let dividends =
            self.lifted(&digits).map(|(i, rows)| self.dividend(operand, rows, key, i)).collect();
        self.divide(down, dividends, permutation)
    }

    fn divide(
        self,
        down: ModDown,
        dividends: Vec<Product<'_>>,
        permutation: Option<&Permutation>,
    ) -> [RnsPoly<Eval>; 2] {
        let dividends = dividends.into_iter().map(|product| product.divided(down)).collect();
        self.divider(down).run(self.params.basis(), self.limbs(), dividends, permutation)
    }

    pub(super) fn divider(self, down: ModDown) -> &'a Divider {
        match down {
            ModDown::P => self.gadget.mod_down(),
            ModDown::PAndLevel => self.gadget.rescale_down(self.level),
        }
    }

    /// Returns the `i`-th limb of transformed digits.
    pub(super) fn ready(self, digits: &Digits, i: usize) -> Limb<'_> {
        let owner = self.owner(i);
        let others = digits.polys.iter().enumerate().filter(|(d, _)| owner != Some(*d));
        let row = |poly: &'_ RnsPoly<Eval>| self.limbs().place(i, poly.limbs());
        Limb::Ready(others.map(|(_, poly)| poly.row(row(poly))).collect())
    }

    fn table(self, i: usize) -> &'a NttTable {
        self.params.basis().table(self.limbs(), i)
    }

    /// Returns the digits modulo `QP`, half transformed; empty rows where a digit owns the prime.
    pub(super) fn lift(self, operand: Operand<'_>) -> Vec<RnsPoly<Half>> {
        let basis = self.params.basis();
        let limbs = self.limbs();
        let n = basis.n();
        let pool = basis.pool();
        let mut y = pool.take(limbs.q() * n);
        par::for_limbs(y.chunks_exact_mut(n).enumerate(), |within, (i, row)| {
            let table = self.table(i);
            let owned = self.gadget.owned(self.gadget.owner(i), limbs.q());
            // The factor of base conversion, `(D / q_i)^-1` for the digit's modulus `D`, goes into
            // the transform.
            let factor = self.gadget.lift(owned.end).inverse(i - owned.start);
            let write = |start: usize, out: &mut [u64]| {
                operand.write_switched(table.modulus(), i, start, out);
            };
            let parts = |start, len| operand.switched_parts((i, start, len));
            let evaluations = match operand.switched() {
                Some(c) => Blocks::Row(c.row(i)),
                None => Blocks::Made(&write, &parts),
            };
            to_columns(pool, within, table, evaluations, row, factor);
        });
        let y: Vec<&[u64]> = y.chunks_exact(n).collect();
        let mut digits: Vec<RnsPoly<Half>> = self.digits().map(|_| basis.take(limbs)).collect();
        let conversions = digits.iter_mut().zip(self.digits()).map(|(poly, owned)| {
            let targets = basis.targets(limbs, |i| !owned.contains(&i));
            let rows = poly.rows_mut().enumerate().filter(|(i, _)| !owned.contains(i));
            let rows = rows.map(|(_, row)| row).collect();
            (self.gadget.lift(owned.end).rows(y[owned].to_vec(), targets), rows)
        });
        convert_rows(pool, conversions.collect());
        digits
    }

    /// Returns the digit that owns the `i`-th prime, if it is a chain prime.
    fn owner(self, i: usize) -> Option<usize> {
        (i < self.limbs().q()).then(|| self.gadget.owner(i))
    }

    /// Returns the rows of digits limb by limb, without the rows that a digit owns.
    pub(super) fn by_limb<T>(
        self,
        digits: impl Iterator<Item = impl Iterator<Item = T>>,
    ) -> impl Iterator<Item = (usize, Vec<T>)> {
        let mut rows: Vec<_> = digits.collect();
        (0..self.limbs().count()).map(move |i| {
            let owner = self.owner(i);
            let row = |(digit, rows): (usize, &mut _)| {
                Iterator::next(rows).filter(|_| owner != Some(digit))
            };
            (i, rows.iter_mut().enumerate().filter_map(row).collect())
        })
    }

    /// Returns lifted digits limb by limb.
    pub(super) fn lifted<'b>(
        self,
        digits: &'b [RnsPoly<Half>],
    ) -> impl Iterator<Item = (usize, Limb<'b>)> + use<'a, 'b> {
        let limbs = self.by_limb(digits.iter().map(RnsPoly::rows));
        limbs.map(|(i, rows)| (i, Limb::Extended(rows)))
    }

    /// Returns the `i`-th limb of the product of digits and key.
    pub(super) fn dividend<'b>(
        self,
        operand: Operand<'b>,
        digits: Limb<'b>,
        key: &'b SwitchingKey,
        i: usize,
    ) -> Product<'b>
    where
        'a: 'b,
    {
        self.product(operand, digits, self.rows(key, i), i)
    }

    /// Returns the rows of a key modulo the `i`-th prime.
    pub(super) fn rows<'b>(self, key: &'b SwitchingKey, i: usize) -> KeyRows<'b>
    where
        'a: 'b,
    {
        key.rows(self.params, self.digits().len(), self.limbs().place(i, key.limbs()))
    }

    /// Returns [`Decomposition::dividend`] for the given rows of the key.
    pub(super) fn product<'b>(
        self,
        operand: Operand<'b>,
        digits: Limb<'b>,
        keys: KeyRows<'b>,
        i: usize,
    ) -> Product<'b>
    where
        'a: 'b,
    {
        let owner = self.owner(i).map(|digit| Owner {
            digit: Some(digit),
            limb: i,
            special: self.gadget.special(i),
        });
        let pool = self.params.basis().pool();
        Product { table: self.table(i), pool, operand, digits, keys, owner, kept: Kept::TimesP }
    }
}
