use super::{EvaluationKeys, GaloisElement, Level, Params, SwitchingKey, keys::GaloisKey};
use crate::{
    Error, Result,
    ring::{Coeff, Eval, RnsPoly, TILE, columns},
};
use std::sync::Arc;
use sudare_arith::par;

/// One polynomial cut into digits and raised to `QP`: the part of a key switch
/// that does not depend on the key. Made once and used often, it is hoisting.
pub struct Digits {
    level: Level,
    polys: Vec<RnsPoly<Eval>>,
}

impl Digits {
    /// The level of the polynomial.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }
}

/// Hybrid key switching.
///
/// References: [HK20](https://eprint.iacr.org/2019/688) for the method,
/// [BMTH21](https://eprint.iacr.org/2020/1203) for hoisting. Deviation: digits are
/// raised without correcting the quotient, which adds to each digit less than
/// `alpha` times its modulus; division by `P` rounds exactly.
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

    /// The digits of `c` modulo `QP`, coefficients where they were computed and
    /// unspecified where the digit owns the prime.
    fn raise(&self, c: &RnsPoly<Eval>, level: Level) -> Vec<RnsPoly<Coeff>> {
        let params = &self.params;
        let (basis, limbs) = (params.basis(), params.key_limbs(level));
        let (q, alpha, chain) = (limbs.q(), params.alpha(), basis.all().q());
        let mut y: RnsPoly<Coeff> = basis.take(params.limbs(level));
        par::for_each(y.rows_mut().zip(c.rows()).enumerate(), |(i, (y, row))| {
            let table = basis.table(limbs, i);
            y.copy_from_slice(row);
            table.inverse(y);
            let end = q.min((i / alpha + 1) * alpha);
            table.modulus().scale_assign(y, params.raise(end).inverse(i % alpha));
        });
        let mut digits: Vec<RnsPoly<Coeff>> =
            (0..params.digits(level)).map(|_| basis.take(limbs)).collect();
        let jobs = digits.iter_mut().enumerate().flat_map(|(digit, poly)| {
            columns(poly.rows_mut(), TILE).map(move |(start, parts)| (digit, start, parts))
        });
        par::for_each(jobs, |(digit, start, parts)| {
            let owned = digit * alpha..q.min((digit + 1) * alpha);
            let converter = params.raise(owned.end);
            let len = parts.first().map_or(0, |part| part.len());
            let y: Vec<&[u64]> = owned.clone().map(|i| &y.row(i)[start..][..len]).collect();
            for (i, part) in parts.into_iter().enumerate() {
                if !owned.contains(&i) {
                    // Converters have targets for every prime of the chain.
                    let target = if i < q { i } else { chain + i - q };
                    converter.convert(target, &y, part);
                }
            }
        });
        digits
    }

    /// Makes row `i` of a raised digit an evaluation.
    fn finish_row(&self, c: &RnsPoly<Eval>, level: Level, digit: usize, i: usize, row: &mut [u64]) {
        let limbs = self.params.key_limbs(level);
        if i < limbs.q() && i / self.params.alpha() == digit {
            row.copy_from_slice(c.row(i));
        } else {
            self.params.basis().table(limbs, i).forward(row);
        }
    }

    /// Cuts and raises `c`.
    ///
    /// Cost: a transform per prime of the chain and, for each digit, one per
    /// prime of `QP` that is not its own.
    pub(crate) fn digits(&self, c: &RnsPoly<Eval>, level: Level) -> Digits {
        let mut digits = self.raise(c, level);
        let mut rows: Vec<_> = digits.iter_mut().map(RnsPoly::rows_mut).collect();
        let by_limb = (0..self.params.key_limbs(level).count())
            .map(|i| (i, rows.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()));
        par::for_each(by_limb, |(i, rows)| {
            for (digit, row) in rows.into_iter().enumerate() {
                self.finish_row(c, level, digit, i, row);
            }
        });
        drop(rows);
        let polys = digits.into_iter().map(RnsPoly::assume_eval).collect();
        Digits { level, polys }
    }

    /// `<digits, key>` modulo `QP`; sum as many as wanted, then divide.
    pub(crate) fn product(&self, digits: &Digits, key: &SwitchingKey) -> [RnsPoly<Eval>; 2] {
        let polys: Vec<&RnsPoly<Eval>> = digits.polys.iter().collect();
        let limbs = self.params.key_limbs(digits.level);
        let mut out = [self.params.basis().take(limbs), self.params.basis().take(limbs)];
        let [first, second] = &mut out;
        par::for_each(
            first.rows_mut().zip(second.rows_mut()).enumerate(),
            |(i, (first, second))| {
                let rows: Vec<&[u64]> = polys.iter().map(|poly| poly.row(i)).collect();
                self.multiply(&rows, key, digits.level, i, first, second);
            },
        );
        out
    }

    /// `<digits of c, key>` modulo `QP`, limb by limb while rows are in cache.
    pub(crate) fn switch(
        &self,
        c: &RnsPoly<Eval>,
        level: Level,
        key: &SwitchingKey,
    ) -> [RnsPoly<Eval>; 2] {
        let limbs = self.params.key_limbs(level);
        let mut digits = self.raise(c, level);
        let mut out = [self.params.basis().take(limbs), self.params.basis().take(limbs)];
        let [first, second] = &mut out;
        let mut rows: Vec<_> = digits.iter_mut().map(RnsPoly::rows_mut).collect();
        let by_limb = (0..limbs.count())
            .map(|_| rows.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>());
        let jobs = by_limb.zip(first.rows_mut().zip(second.rows_mut())).enumerate();
        par::for_each(jobs, |(i, (mut digits, (first, second)))| {
            for (digit, row) in digits.iter_mut().enumerate() {
                self.finish_row(c, level, digit, i, row);
            }
            let digits: Vec<&[u64]> = digits.iter().map(|row| &**row).collect();
            self.multiply(&digits, key, level, i, first, second);
        });
        out
    }

    /// Row `i` of both halves of the product of digits and key.
    fn multiply(
        &self,
        digits: &[&[u64]],
        key: &SwitchingKey,
        level: Level,
        i: usize,
        first: &mut [u64],
        second: &mut [u64],
    ) {
        let limbs = self.params.key_limbs(level);
        let m = self.params.basis().modulus(limbs, i);
        let key_q = self.params.limbs(key.level).q();
        let k = if i < limbs.q() { i } else { key_q + i - limbs.q() };
        let keys: [Vec<&[u64]>; 2] = core::array::from_fn(|half| {
            key.digits.iter().take(digits.len()).map(|pair| pair[half].row(k)).collect()
        });
        // Both halves of a tile in turn, while the digits are in the first cache.
        let tiles = first.chunks_mut(TILE).zip(second.chunks_mut(TILE));
        for (start, (first, second)) in tiles.enumerate().map(|(t, pair)| (t * TILE, pair)) {
            let end = start + first.len();
            let digits = cut(digits, start, end);
            let [a, b] = [cut(&keys[0], start, end), cut(&keys[1], start, end)];
            m.mul_sum(first, &digits, &a);
            m.mul_sum(second, &digits, &b);
        }
    }

    /// `round(a / P)`, or by `P` and the primes of the level.
    pub(crate) fn divide(
        &self,
        a: [RnsPoly<Eval>; 2],
        level: Level,
        down: Down,
    ) -> [RnsPoly<Eval>; 2] {
        let divider = match down {
            Down::Special => self.params.mod_down(),
            Down::SpecialAndLevel => self.params.rescale_down(level),
        };
        divider.divide(self.params.basis(), a)
    }

    /// `a += P b` on the primes of the chain.
    pub(crate) fn add_raised(&self, a: &mut RnsPoly<Eval>, b: &RnsPoly<Eval>) {
        let basis = self.params.basis();
        let limbs = a.limbs();
        let q = limbs.q();
        par::for_each(a.rows_mut().take(q).zip(b.rows()).enumerate(), |(i, (out, row))| {
            let m = basis.modulus(limbs, i);
            let special = (q..limbs.count())
                .fold(1, |p, k| m.mul(p, m.reduce(basis.modulus(limbs, k).value())));
            m.scale_add(out, row, m.shoup(special));
        });
    }
}

/// Words `start..end` of each row.
fn cut<'a>(rows: &[&'a [u64]], start: usize, end: usize) -> Vec<&'a [u64]> {
    rows.iter().map(|row| &row[start..end]).collect()
}
