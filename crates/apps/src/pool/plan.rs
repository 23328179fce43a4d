//! Sums in the slots of ciphertexts, as small integers that add up exactly.

use num_bigint::BigInt;
use sudare::{
    circuits::ComplexOps,
    ckks::{Ciphertext, Encoder, Encryptor, Params, Scale},
    rlwe::{Level, Noise},
};
use sudare_arith::{par, prng::Seed, real};
use sudare_table::excerpt;

use super::{
    PoolError, Schema, Totals,
    sums::{FRACTION_BITS, Shape, Sums, check_rows},
};

/// Bits of the mark by which a ciphertext tells what it belongs to, and of that by which those of
/// one encryption know each other.
const MARK_BITS: u64 = 64;

/// Largest `log2` of the scale, at which encoding is exact in double precision.
const MAX_LOG2_SCALE: f64 = 45.0;

/// Most bits of a limb: sums of those of all owners stay far below what decoding rounds.
const MAX_LIMB_BITS: u32 = 24;

/// The largest error of a slot over its standard deviation, `log2(9)`, but for a chance of 2^-60.
const LARGEST_ERROR_BITS: f64 = 3.17;

/// Room of a modulus above the sums of all owners, in bits: for a sign, and so that sums of twice
/// as many are still told from others.
const ROOM_BITS: f64 = 2.0;

/// How owners encrypt their sums, a server adds them, and the holder of the key reads the total.
///
/// Each sum is made positive by what it can be at least, cut into limbs of a few bits, and a slot
/// holds a limb. Slots of all owners add up, and limbs of the total follow exactly: the errors of
/// as many fresh encryptions as there are owners stay below a quarter of a limb's step, but for a
/// chance of 2^-60 a slot. The number of ciphertexts follows from the schema and the arguments of
/// [`SumsPlan::new`].
///
/// Every owner has a slot of its own with a 1, so that the total tells whose sums are missing or
/// there twice. Every ciphertext begins with two marks: one that follows from schema and plan and
/// from its place, and one that its owner draws for all ciphertexts of an encryption. These show
/// mistakes; a server that sets out to deceive can encrypt any total itself.
#[derive(Debug, Clone)]
pub struct SumsPlan {
    schema: Schema,
    shape: Shape,
    most_rows: usize,
    params: Params,
    coding: Coding,
    /// What the marks of ciphertexts follow from.
    digest: [u8; 32],
}

/// How limbs stand in ciphertexts.
#[derive(Debug, Clone, Copy)]
struct Coding {
    level: Level,
    scale: Scale,
    /// Of a limb.
    bits: u32,
    ciphertexts: usize,
}

impl SumsPlan {
    /// A plan for the tables of the owners of a schema, each of at most `most_rows` rows, summed by
    /// class or not. It takes the level at which the ciphertexts are smallest.
    ///
    /// # Errors
    /// [`PoolError::Count`] for too many sums, or rows that are not 1 to [`Sums::MAX_ROWS`] for
    /// all owners together; [`PoolError::ParamsTooSmall`] if no level has room for a bit of each
    /// owner beside the errors; [`PoolError::RingTooSmall`].
    pub fn new(
        schema: &Schema,
        by_class: bool,
        most_rows: usize,
        params: &Params,
    ) -> Result<Self, PoolError> {
        let owners = schema.owners().len();
        check_rows(most_rows)?;
        check_rows(owners.saturating_mul(most_rows))?;
        let shape = Shape::new(schema, by_class)?;
        let coding = coding(&shape, most_rows, owners, params)?;
        let facts = format!("sums by class: {by_class}, rows: {most_rows}, bits: {}", coding.bits);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&schema.digest()).update(facts.as_bytes());
        let digest = *hasher.finalize().as_bytes();
        let (schema, params) = (schema.clone(), params.clone());
        Ok(Self { schema, shape, most_rows, params, coding, digest })
    }

    /// Ciphertexts that each owner sends, and of the total.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        self.coding.ciphertexts
    }

    /// Encrypts the sums of an owner's table, for the index that the owner has in the schema.
    ///
    /// # Errors
    /// [`PoolError::UnknownOwner`]; [`PoolError::OtherSchema`] for sums of another schema, or by
    /// class where they are planned otherwise; [`PoolError::Count`] for more rows than planned;
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
        if *sums.shape() != self.shape {
            return Err(PoolError::OtherSchema { what: "the sums".to_owned() });
        }
        let (found, most) = (sums.rows() as u128, self.most_rows as u128);
        if found > most {
            return Err(PoolError::Count { what: "rows", found, least: 1, most });
        }
        let mut limbs: Vec<u64> = (0..owners).map(|index| u64::from(index == owner)).collect();
        for (number, power) in sums.numbers().iter().zip(self.shape.powers()) {
            let (offset, width) = (offset(self.most_rows, power), self.width(power));
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
            let plain = encoder.encode_real(&slots, self.coding.level, self.coding.scale)?;
            Ok(encryptor.encrypt(&plain)?)
        })
    }

    /// Adds what one owner encrypted to a total, which is empty before the first. It takes an
    /// evaluator without keys, see [`EvaluationKeys::none`](sudare::rlwe::EvaluationKeys::none).
    ///
    /// # Errors
    /// [`PoolError::NotAsPlanned`] for other ciphertexts than [`SumsPlan::encrypt`] makes;
    /// [`PoolError::Library`] for those of another key or other parameters.
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

    /// Refuses ciphertexts of another shape.
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
    /// [`PoolError::OtherSchema`] if an owner, or who reads, has another schema or plan;
    /// [`PoolError::OwnerMissing`]; [`PoolError::OwnerRepeated`]; [`PoolError::Damaged`] if slots
    /// hold no such sums, as after decryption with another key.
    pub fn decode(&self, slots: &[Vec<f64>]) -> Result<Totals, PoolError> {
        let slots = self.integers(slots)?;
        let header = 2 * self.mark_width();
        let mut limbs: Vec<u64> =
            slots.iter().flat_map(|slots| &slots[header..]).copied().collect();
        let padding = limbs.split_off(self.limbs());
        let (owners, limbs) = limbs.split_at(self.schema.owners().len());
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

    /// The integers that the slots hold.
    fn integers(&self, slots: &[Vec<f64>]) -> Result<Vec<Vec<u64>>, PoolError> {
        let planned = |what, found: usize, needed: usize| {
            if found == needed {
                return Ok(());
            }
            let (found, needed) = (found.to_string(), needed.to_string());
            Err(PoolError::NotAsPlanned { what, found, needed })
        };
        planned("ciphertexts", slots.len(), self.ciphertexts())?;
        let (step, most) = (self.step(), 2.0 * self.schema.owners().len() as f64 / self.step());
        let integer = |index: usize, at: usize, slot: f64| {
            let value = slot / step;
            let integer = value.round();
            // Negated, so that NaN is no integer.
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

    /// Refuses ciphertexts of another schema or plan, or in another order, of so many tables.
    fn check_marks(&self, slots: &[Vec<u64>], tables: u64) -> Result<(), PoolError> {
        for (index, slots) in slots.iter().enumerate() {
            let mut expected = Vec::new();
            let mark = mark(&self.digest, index).into();
            push_limbs(&mut expected, &mark, self.coding.bits, self.mark_width());
            if !slots.iter().zip(expected).all(|(&slot, limb)| slot == tables.saturating_mul(limb))
            {
                let what = format!("marks of ciphertext {index} (counted from 0)");
                return Err(PoolError::OtherSchema { what });
            }
        }
        Ok(())
    }

    /// Refuses a total that has not each owner once.
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

    /// The sums of these limbs.
    fn numbers(&self, limbs: &[u64], owners: usize) -> Vec<BigInt> {
        let mut rest = limbs;
        let number = |power: u32| {
            let (own, others) = rest.split_at(self.width(power));
            rest = others;
            let positive = own
                .iter()
                .rev()
                .fold(BigInt::ZERO, |number, limb| (number << self.coding.bits) + limb);
            positive - offset(self.most_rows, power) * owners
        };
        self.shape.powers().map(number).collect()
    }

    /// Refuses sums that no rows have.
    fn check_sums(&self, sums: &Sums) -> Result<(), PoolError> {
        let bad = || Err(damaged("its sums are none of as many rows"));
        let owners = self.schema.owners().len();
        let counts = &sums.numbers()[..self.shape.classes];
        let all: BigInt = counts.iter().sum();
        if counts.iter().any(|count| *count < BigInt::ZERO)
            || all < BigInt::from(owners)
            || all > BigInt::from(owners) * self.most_rows
        {
            return bad();
        }
        let rows = sums.rows();
        for (number, power) in sums.numbers().iter().zip(self.shape.powers()) {
            if *number.magnitude() > *offset(rows, power).magnitude() {
                return bad();
            }
        }
        // No variance is negative.
        for (group, rows) in sums.group_rows().into_iter().enumerate() {
            let scatter = |j| sums.product(group, j, j) * rows - sums.sum(group, j).pow(2);
            if (0..self.shape.columns).any(|j| scatter(j) < BigInt::ZERO) {
                return bad();
            }
        }
        Ok(())
    }

    /// What a limb of 1 is in a slot.
    fn step(&self) -> f64 {
        real::powi(2_f64, -(self.coding.bits as i32))
    }

    /// Limbs of a mark.
    fn mark_width(&self) -> usize {
        mark_width(self.coding.bits)
    }

    /// Limbs of a sum of this power.
    fn width(&self, power: u32) -> usize {
        width(self.most_rows, power, self.coding.bits)
    }

    /// Limbs of all owners' presence and of all sums.
    fn limbs(&self) -> usize {
        limbs(&self.shape, self.most_rows, self.schema.owners().len(), self.coding.bits)
    }

    /// Slots of a ciphertext beside those of its marks.
    fn payload(&self) -> usize {
        self.params.max_slots() - 2 * self.mark_width()
    }
}

/// How limbs of the sums of so many owners stand in ciphertexts, at the level at which these are
/// smallest.
fn coding(
    shape: &Shape,
    most_rows: usize,
    owners: usize,
    params: &Params,
) -> Result<Coding, PoolError> {
    let chain = params.chain();
    let owner_bits = real::log2(owners as f64);
    let noise = (Noise::fresh(params.rlwe()) + Noise::encoding()).log2_sd();
    // In a slot, of all owners' encryptions; a quarter of a limb's step is more.
    let error_bits =
        noise + (f64::from(params.log_n()) + owner_bits) / 2.0 + LARGEST_ERROR_BITS + 2.0;
    let room_bits = owner_bits + ROOM_BITS;
    let at = |level: Level| {
        let log2_scale = (chain.log2_q(level) - room_bits).min(MAX_LOG2_SCALE);
        let bits = (log2_scale - error_bits).min(f64::from(MAX_LIMB_BITS));
        (bits >= 1.0).then(|| (level, Scale::from_log2(log2_scale), bits as u32))
    };
    let levels: Vec<_> = (0..=params.top().0).map(Level).filter_map(at).collect();
    if levels.is_empty() {
        let found = chain.log2_q(params.top());
        let (log_n, needed) = (params.log_n(), error_bits + room_bits + 1.0);
        return Err(PoolError::ParamsTooSmall { owners, log_n, needed, found });
    }
    let marks = levels.iter().map(|&(.., bits)| 2 * mark_width(bits)).min();
    let codings = levels.into_iter().filter_map(|(level, scale, bits)| {
        let payload = params.max_slots().checked_sub(2 * mark_width(bits)).filter(|&p| p > 0)?;
        let ciphertexts = limbs(shape, most_rows, owners, bits).div_ceil(payload);
        Some(Coding { level, scale, bits, ciphertexts })
    });
    let size = |coding: &Coding| coding.ciphertexts as f64 * chain.log2_q(coding.level);
    codings.min_by(|a, b| size(a).total_cmp(&size(b))).ok_or_else(|| PoolError::RingTooSmall {
        found: params.max_slots(),
        needed: marks.unwrap_or(0),
    })
}

/// Limbs of all owners' presence and of all sums.
fn limbs(shape: &Shape, most_rows: usize, owners: usize, bits: u32) -> usize {
    owners + shape.powers().map(|power| width(most_rows, power, bits)).sum::<usize>()
}

/// What a sum over so many rows of this power of values is at most, and minus which at least.
fn offset(rows: usize, power: u32) -> BigInt {
    BigInt::from(rows) << (FRACTION_BITS * power)
}

/// Limbs of such a sum after its offset was added.
fn width(most_rows: usize, power: u32, bits: u32) -> usize {
    let largest: BigInt = offset(most_rows, power) * 2;
    largest.bits().div_ceil(u64::from(bits)) as usize
}

fn mark_width(bits: u32) -> usize {
    MARK_BITS.div_ceil(u64::from(bits)) as usize
}

/// The mark of a ciphertext.
fn mark(digest: &[u8; 32], index: usize) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(digest).update(&(index as u64).to_le_bytes());
    let mut mark = [0; 8];
    mark.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(mark)
}

/// Adds the limbs of a number that is not negative, the lowest first.
fn push_limbs(limbs: &mut Vec<u64>, number: &BigInt, bits: u32, width: usize) {
    let words: Vec<u64> = number.iter_u64_digits().collect();
    let word = |at: usize| words.get(at).copied().map_or(0, u128::from);
    let limb = |index: usize| {
        let start = index * bits as usize;
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
