//! Sums in the slots of ciphertexts, as small integers that add up exactly.

use num_bigint::BigInt;
use sudare::{
    circuits::ckks::ComplexOps,
    ckks::{Ciphertext, Encoder, Encryptor, Params, Scale},
    rlwe::{CanonicalBounds, Level, Noise, SecretDistribution, shared::Flood},
};
use sudare_arith::{par, prng::Seed, real};
use sudare_table::excerpt;

use super::{
    PoolError, Schema, Totals,
    sums::{FRACTION_BITS, Shape, Sums, check_rows},
};

/// Bits of each mark of a ciphertext. One mark identifies the plan and the place of the ciphertext.
/// The other is common to all ciphertexts of one encryption.
const MARK_BITS: u64 = 64;

/// Maximum `log2` of the scale. Up to it, encoding is exact in double precision.
const MAX_LOG2_SCALE: f64 = 45.0;

/// The same, if several key holders open the total. Their noise needs a larger scale, at which
/// encoding takes more time.
const MAX_LOG2_SHARED_SCALE: f64 = 100.0;

/// Maximum bits of a limb. Sums of the limbs of all owners stay far below the precision of
/// decoding.
const MAX_LIMB_BITS: u32 = 24;

/// `log2(9)`: the largest error of a slot in standard deviations. Larger errors have a probability
/// of 2^-60.
const LARGEST_ERROR_BITS: f64 = 3.17;

/// Bits of a modulus above the sums of all owners: for a sign, and so that sums of twice the number
/// of owners are still detected.
const ROOM_BITS: f64 = 2.0;

/// Plan by which owners encrypt their sums, a server adds them, and the holder of the key reads the
/// total.
///
/// An offset, the negated lower bound of a sum, makes each sum positive. The result is cut into
/// limbs of a few bits, and a slot holds a limb. Slots of all owners add up, which yields the limbs
/// of the total exactly. The errors of one fresh encryption for each owner stay below a quarter of
/// a limb's step, except with a probability of 2^-60 per slot. The number of ciphertexts follows
/// from the schema and the arguments of [`SumsPlan::new`].
///
/// If several key holders share the secret of the parameters, they decrypt the total with
/// [`ckks::Opening`](sudare::ckks::Opening), for [`SumsPlan::largest_error`]. The plan leaves room
/// for their noise.
///
/// Every owner has its own slot with a 1, so the total shows missing and repeated owners. Every
/// ciphertext begins with two marks. One is computed from schema, plan and place. The owner draws
/// the other at random for all ciphertexts of an encryption. The marks detect mistakes, not a
/// malicious server, which can encrypt any total itself.
#[derive(Debug, Clone)]
pub struct SumsPlan {
    schema: Schema,
    shape: Shape,
    most_rows: usize,
    params: Params,
    coding: Coding,
    /// Digest of schema and plan, from which the marks of ciphertexts are computed.
    digest: [u8; 32],
}

/// Layout of limbs in ciphertexts.
#[derive(Debug, Clone, Copy)]
struct Coding {
    level: Level,
    scale: Scale,
    /// Bits of a limb.
    bits: u32,
    ciphertexts: usize,
}

impl SumsPlan {
    /// Plans the sums of the owners' tables, each of at most `most_rows` rows, by class or not. The
    /// plan uses the level at which the ciphertexts are smallest.
    ///
    /// # Errors
    /// [`PoolError::Count`] for too many sums, or if the rows of all owners together are not
    /// between 1 and [`Sums::MAX_ROWS`]; [`PoolError::ParamsTooSmall`] if no level has room for a
    /// bit of each owner above the errors; [`PoolError::RingTooSmall`].
    pub fn new(
        schema: &Schema,
        by_class: bool,
        most_rows: usize,
        params: &Params,
    ) -> Result<Self, PoolError> {
        let owners = schema.owners().len();
        check_rows(most_rows)?;
        // Each table is small enough, but the total must be as well.
        check_rows(owners.saturating_mul(most_rows))?;
        let shape = Shape::new(schema, by_class)?;
        let coding = coding(&shape, most_rows, owners, params)?;
        let facts = format!("sums by class: {by_class}, rows: {most_rows}, bits: {}", coding.bits);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&schema.digest()).update(facts.as_bytes());
        let digest = *hasher.finalize().as_bytes();
        let schema = schema.clone();
        let params = params.clone();
        Ok(Self { schema, shape, most_rows, params, coding, digest })
    }

    /// Returns a bound of the error of any slot of the total, except with a probability of `2^-96`.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        let owners = self.schema.owners().len();
        largest_error(&self.params, owners) / self.coding.scale.to_f64()
    }

    /// Returns the number of ciphertexts that each owner sends, which is also the number of
    /// ciphertexts of the total.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        self.coding.ciphertexts
    }

    /// Encrypts the sums of an owner's table, for the index that the owner has in the schema.
    ///
    /// # Errors
    /// [`PoolError::UnknownOwner`]; [`PoolError::OtherSchema`] for sums of another schema, or by
    /// class if the plan is not, and vice versa; [`PoolError::Count`] for more rows than planned;
    /// [`PoolError::Library`] if the encryptor has other parameters.
    pub fn encrypt(
        &self,
        encryptor: &Encryptor,
        owner: usize,
        sums: &Sums,
    ) -> Result<Vec<Ciphertext>, PoolError> {
        let owners = self.schema.owners().len();
        if owner >= owners {
            return Err(self.schema.unknown_owner(&owner.to_string()));
        }
        // The shape includes the digest of the schema, so other bounds are noticed as well.
        if *sums.shape() != self.shape {
            return Err(PoolError::OtherSchema { what: "the sums".to_owned() });
        }
        let found = sums.rows() as u128;
        let most = self.most_rows as u128;
        if found > most {
            return Err(PoolError::Count { what: "rows", found, least: 1, most });
        }
        let mut limbs: Vec<u64> = (0..owners).map(|index| u64::from(index == owner)).collect();
        for (number, power) in sums.numbers().iter().zip(self.shape.powers()) {
            let offset = offset(self.most_rows, power);
            let width = self.width(power);
            // The lower bound becomes 0: limbs are digits of a number that is not negative.
            push_limbs(&mut limbs, &(number + offset), self.coding.bits, width);
        }
        let own = Seed::random().map_err(sudare::Error::from)?;
        let own = mark(own.as_bytes(), 0);
        let step = self.step();
        let encoder = Encoder::new(&self.params);
        par::try_map(limbs.chunks(self.payload()).enumerate(), |(index, limbs)| {
            let mut slots = Vec::with_capacity(self.params.max_slots());
            for mark in [mark(&self.digest, index), own] {
                push_limbs(&mut slots, &mark.into(), self.coding.bits, self.mark_width());
            }
            slots.extend_from_slice(limbs);
            let mut slots: Vec<f64> = slots.iter().map(|&limb| limb as f64 * step).collect();
            slots.resize(self.params.max_slots(), 0.0);
            let plain = encoder.encode_real_at(&slots, self.coding.level, self.coding.scale)?;
            Ok(encryptor.encrypt(&plain)?)
        })
    }

    /// Adds the ciphertexts of one owner to a total, which is empty before the first owner. An
    /// evaluator without keys suffices, see
    /// [`EvaluationKeys::none`](sudare::rlwe::EvaluationKeys::none).
    ///
    /// # Errors
    /// [`PoolError::NotAsPlanned`] for ciphertexts that [`SumsPlan::encrypt`] does not make;
    /// [`PoolError::Library`] for ciphertexts of another key or other parameters.
    pub fn add<E: ComplexOps>(
        &self,
        ops: &E,
        total: &mut Vec<E::Ct>,
        owner: Vec<E::Ct>,
    ) -> Result<(), PoolError> {
        self.check(ops, &owner)?;
        if total.is_empty() {
            *total = owner;
            return Ok(());
        }
        self.check(ops, total)?;
        let added = total.iter().zip(&owner).map(|(total, owner)| ops.add(total, owner));
        *total = added.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Checks the number and the form of ciphertexts.
    fn check<E: ComplexOps>(&self, ops: &E, ciphertexts: &[E::Ct]) -> Result<(), PoolError> {
        let planned = |what, found: String, needed: String| {
            if found == needed {
                return Ok(());
            }
            Err(PoolError::NotAsPlanned { what, found, needed })
        };
        let count = |count: usize| count.to_string();
        planned("ciphertexts", count(ciphertexts.len()), count(self.ciphertexts()))?;
        for ciphertext in ciphertexts {
            let Coding { level, scale, .. } = self.coding;
            planned("level", ops.level(ciphertext).to_string(), level.to_string())?;
            let slots = 1 << ops.log_slots(ciphertext);
            planned("slots", count(slots), count(self.params.max_slots()))?;
            let bits = |scale: Scale| format!("{:.3} bits", scale.log2());
            planned("scale", bits(ops.scale(ciphertext)), bits(scale))?;
        }
        Ok(())
    }

    /// Reads the total of all owners from the slots of its ciphertexts, decrypted and decoded.
    ///
    /// # Errors
    /// [`PoolError::NotAsPlanned`] for another number of ciphertexts or slots;
    /// [`PoolError::OtherSchema`] if an owner or the reader has another schema or plan;
    /// [`PoolError::OwnerMissing`]; [`PoolError::OwnerRepeated`]; [`PoolError::Damaged`] if the
    /// slots hold no valid sums, for example after decryption with another key.
    pub fn decode(&self, slots: &[Vec<f64>]) -> Result<Totals, PoolError> {
        let slots = self.integers(slots)?;
        let header = 2 * self.mark_width();
        let mut limbs: Vec<u64> =
            slots.iter().flat_map(|slots| &slots[header..]).copied().collect();
        let padding = limbs.split_off(self.limbs());
        let (owners, limbs) = limbs.split_at(self.schema.owners().len());
        // Marks come first: with another plan, the slots of owners are elsewhere and mean nothing.
        self.check_marks(&slots, owners.iter().sum())?;
        self.check_owners(owners)?;
        if padding.iter().any(|&limb| limb != 0) {
            return Err(damaged("slots that must be empty are not"));
        }
        let own = |slots: &Vec<u64>| slots[self.mark_width()..header].to_vec();
        if slots.iter().any(|other| own(other) != own(&slots[0])) {
            return Err(damaged("ciphertexts of different encryptions are mixed"));
        }
        let sums = Sums::from_numbers(self.shape.clone(), self.numbers(limbs, owners.len()));
        self.check_sums(&sums)?;
        Totals::new(&self.schema, sums)
    }

    /// Returns the integers in the slots.
    fn integers(&self, slots: &[Vec<f64>]) -> Result<Vec<Vec<u64>>, PoolError> {
        let planned = |what, found: usize, needed: usize| {
            if found == needed {
                return Ok(());
            }
            let found = found.to_string();
            let needed = needed.to_string();
            Err(PoolError::NotAsPlanned { what, found, needed })
        };
        planned("ciphertexts", slots.len(), self.ciphertexts())?;
        // Twice the owners, for which the modulus has room, so that repeated owners are found and
        // named.
        let step = self.step();
        let most = 2.0 * self.schema.owners().len() as f64 / self.step();
        let integer = |index: usize, at: usize, slot: f64| {
            let value = slot / step;
            let integer = value.round();
            // Negated, so that NaN is rejected as well.
            if !((0.0..=most).contains(&integer) && (value - integer).abs() < 0.25) {
                return Err(damaged(format!("slot {at} of ciphertext {index} holds no limb")));
            }
            Ok(integer as u64)
        };
        let ciphertext = |(index, slots): (usize, &Vec<f64>)| {
            planned("slots", slots.len(), self.params.max_slots())?;
            slots.iter().enumerate().map(|(at, &slot)| integer(index, at, slot)).collect()
        };
        slots.iter().enumerate().map(ciphertext).collect()
    }

    /// Rejects ciphertexts of another schema or plan, or out of order. `tables` is the number of
    /// tables in the total.
    fn check_marks(&self, slots: &[Vec<u64>], tables: u64) -> Result<(), PoolError> {
        for (index, slots) in slots.iter().enumerate() {
            let mut expected = Vec::new();
            let mark = mark(&self.digest, index).into();
            push_limbs(&mut expected, &mark, self.coding.bits, self.mark_width());
            // Not trusted yet: `tables` comes from slots that may hold any limbs.
            if !slots.iter().zip(expected).all(|(&slot, limb)| slot == tables.saturating_mul(limb))
            {
                let what = format!("marks of ciphertext {index} (counted from 0)");
                return Err(PoolError::OtherSchema { what });
            }
        }
        Ok(())
    }

    /// Rejects a total that does not contain each owner once.
    fn check_owners(&self, times: &[u64]) -> Result<(), PoolError> {
        let owners = || times.iter().copied().zip(self.schema.owners());
        if let Some((times, owner)) = owners().find(|&(times, _)| times > 1) {
            return Err(PoolError::OwnerRepeated { owner: excerpt(owner), times });
        }
        match owners().find(|&(times, _)| times == 0) {
            Some((_, owner)) => Err(PoolError::OwnerMissing { owner: excerpt(owner) }),
            None => Ok(()),
        }
    }

    /// Returns the sums from these limbs.
    fn numbers(&self, limbs: &[u64], owners: usize) -> Vec<BigInt> {
        let mut rest = limbs;
        let number = |power: u32| {
            let (own, others) = rest.split_at(self.width(power));
            rest = others;
            let positive = own
                .iter()
                .rev()
                .fold(BigInt::ZERO, |number, limb| (number << self.coding.bits) + limb);
            // Every owner added one offset, and all owners are present once by now.
            positive - offset(self.most_rows, power) * owners
        };
        self.shape.powers().map(number).collect()
    }

    /// Rejects sums that no rows can have.
    fn check_sums(&self, sums: &Sums) -> Result<(), PoolError> {
        let bad = || Err(damaged("its sums are impossible for its number of rows"));
        let owners = self.schema.owners().len();
        let counts = &sums.numbers()[..self.shape.classes];
        // Every owner has a row, because sums of no rows are refused.
        let all: BigInt = counts.iter().sum();
        if counts.iter().any(|count| *count < BigInt::ZERO)
            || all < BigInt::from(owners)
            || all > BigInt::from(owners) * self.most_rows
        {
            return bad();
        }
        let rows = sums.rows();
        for (number, power) in sums.numbers().iter().zip(self.shape.powers()) {
            // By the rows found, which is stricter than the bound by the rows planned.
            if *number.magnitude() > *offset(rows, power).magnitude() {
                return bad();
            }
        }
        // A variance cannot be negative.
        for (group, rows) in sums.group_rows().into_iter().enumerate() {
            let scatter = |j| sums.product(group, j, j) * rows - sums.sum(group, j).pow(2);
            if (0..self.shape.columns).any(|j| scatter(j) < BigInt::ZERO) {
                return bad();
            }
        }
        Ok(())
    }

    /// Returns the value of a limb of 1 in a slot.
    fn step(&self) -> f64 {
        real::powi(2_f64, -(self.coding.bits as i32))
    }

    /// Returns the limbs of a mark.
    fn mark_width(&self) -> usize {
        mark_width(self.coding.bits)
    }

    /// Returns the limbs of a sum of this power.
    fn width(&self, power: u32) -> usize {
        width(self.most_rows, power, self.coding.bits)
    }

    /// Returns the limbs of all owners' presence and of all sums.
    fn limbs(&self) -> usize {
        limbs(&self.shape, self.most_rows, self.schema.owners().len(), self.coding.bits)
    }

    /// Returns the slots of a ciphertext without the slots of its marks.
    fn payload(&self) -> usize {
        self.params.max_slots() - 2 * self.mark_width()
    }
}

/// Chooses the layout of the limbs of the sums of `owners` owners, at the level at which the
/// ciphertexts are smallest.
fn coding(
    shape: &Shape,
    most_rows: usize,
    owners: usize,
    params: &Params,
) -> Result<Coding, PoolError> {
    let chain = params.chain();
    let owner_bits = real::log2(owners as f64);
    let noise = (Noise::fresh(params.rlwe()) + Noise::encoding()).log2_sd();
    let summed = noise + (f64::from(params.log_n()) + owner_bits) / 2.0;
    let opening = opening_bits(params, owners)?;
    // The sum of all owners' errors in a slot must be below a quarter of a limb's step.
    let error_bits = summed.max(opening.unwrap_or(0.0)) + LARGEST_ERROR_BITS + 2.0;
    let room_bits = owner_bits + ROOM_BITS;
    let most = opening.map_or(MAX_LOG2_SCALE, |_| MAX_LOG2_SHARED_SCALE);
    let at = |level: Level| {
        let log2_scale = (chain.log2_q(level) - room_bits).min(most);
        let bits = (log2_scale - error_bits).min(f64::from(MAX_LIMB_BITS));
        (bits >= 1.0).then(|| (level, Scale::from_log2(log2_scale), bits as u32))
    };
    let levels: Vec<_> = (0..=params.top().0).map(Level).filter_map(at).collect();
    if levels.is_empty() {
        let found = chain.log2_q(params.top());
        let log_n = params.log_n();
        // Room, errors and one bit of a limb, for which even the top level is too small.
        let needed = error_bits + room_bits + 1.0;
        return Err(PoolError::ParamsTooSmall { owners, log_n, needed, found });
    }
    let marks = levels.iter().map(|&(.., bits)| 2 * mark_width(bits)).min();
    let codings = levels.into_iter().filter_map(|(level, scale, bits)| {
        let payload = params.max_slots().checked_sub(2 * mark_width(bits)).filter(|&p| p > 0)?;
        let ciphertexts = limbs(shape, most_rows, owners, bits).div_ceil(payload);
        Some(Coding { level, scale, bits, ciphertexts })
    });
    // A ciphertext grows with the modulus of its level. A larger modulus holds more bits in a slot.
    let size = |coding: &Coding| coding.ciphertexts as f64 * chain.log2_q(coding.level);
    codings.min_by(|a, b| size(a).total_cmp(&size(b))).ok_or_else(|| PoolError::RingTooSmall {
        found: params.max_slots(),
        needed: marks.unwrap_or(0),
    })
}

/// Returns `log2` of the deviation that the noise of all key holders has in a slot, if several share
/// the secret. It is far above the error that it hides.
fn opening_bits(params: &Params, owners: usize) -> Result<Option<f64>, PoolError> {
    let SecretDistribution::SharedTernary { parties, .. } = params.rlwe().spec().secret else {
        return Ok(None);
    };
    let flood = Flood::hiding(real::log2(largest_error(params, owners)))?;
    // The real part of a slot adds up half of the coefficients' variances. At most all holders open.
    let terms = params.max_slots() as f64 * f64::from(parties);
    Ok(Some(f64::from(flood.log2_deviation()) + real::log2(terms) / 2.0))
}

/// Returns a bound of the error of a slot in integers: of one fresh encryption for each owner.
fn largest_error(params: &Params, owners: usize) -> f64 {
    // Encoding `n` slots is off by `n` at most (docs/notes/worst-case-error.md).
    let one = CanonicalBounds::new(params.rlwe()).fresh() + params.max_slots() as f64;
    one * owners as f64
}

/// Returns the limbs of all owners' presence and of all sums.
fn limbs(shape: &Shape, most_rows: usize, owners: usize, bits: u32) -> usize {
    owners + shape.powers().map(|power| width(most_rows, power, bits)).sum::<usize>()
}

/// Bounds the magnitude of a sum over `rows` rows of this power of values.
fn offset(rows: usize, power: u32) -> BigInt {
    BigInt::from(rows) << (FRACTION_BITS * power)
}

/// Returns the limbs of such a sum after its offset was added.
fn width(most_rows: usize, power: u32, bits: u32) -> usize {
    let largest: BigInt = offset(most_rows, power) * 2;
    largest.bits().div_ceil(u64::from(bits)) as usize
}

fn mark_width(bits: u32) -> usize {
    MARK_BITS.div_ceil(u64::from(bits)) as usize
}

/// Returns the mark of a ciphertext.
fn mark(digest: &[u8; 32], index: usize) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(digest).update(&(index as u64).to_le_bytes());
    let mut mark = [0; 8];
    mark.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(mark)
}

/// Appends the limbs of a nonnegative number, the lowest first.
fn push_limbs(limbs: &mut Vec<u64>, number: &BigInt, bits: u32, width: usize) {
    let words: Vec<u64> = number.iter_u64_digits().collect();
    let word = |at: usize| words.get(at).copied().map_or(0, u128::from);
    let limb = |index: usize| {
        let start = index * bits as usize;
        // A limb may begin in one word and end in the next.
        let pair = word(start / 64) | word(start / 64 + 1) << 64;
        (pair >> (start % 64)) as u64 & ((1 << bits) - 1)
    };
    limbs.extend((0..width).map(limb));
}

fn damaged(problem: impl Into<String>) -> PoolError {
    PoolError::Damaged { problem: problem.into() }
}

#[cfg(test)]
mod tests;
