//! AES-128 (FIPS 197) on encrypted bits, with a block in each slot.
//!
//! The state is 128 ciphertexts, one for each bit, and so is each round key. A round has 544
//! products in four layers, and sums whose signs a coin chooses ([`Evaluator::xor`]). If the noise
//! of a round would be too large, the state is bootstrapped before it. [`Plan`] finds these rounds
//! from the parameters alone. **Insecure**, for research
//! ([`InsecureResearch`](crate::InsecureResearch)).

mod sbox;

use crate::{Ciphertext, Error, Evaluator, Noise, Params, Result, SecretKey};
use sudare_arith::{
    par,
    prng::{Seed, Stream},
};

/// Number of rounds after the first key.
pub const ROUNDS: u32 = 10;
/// Number of bits of a block.
const BITS: usize = 128;
/// Number of products of a round.
pub const ROUND_PRODUCTS: usize = 16 * 34;

/// Operations of a circuit on bits, encrypted or not.
trait Gates {
    type Bit: Clone;

    fn xor(&mut self, a: &Self::Bit, b: &Self::Bit) -> Result<Self::Bit>;

    fn and(&mut self, pairs: &[(&Self::Bit, &Self::Bit)]) -> Result<Vec<Self::Bit>>;
}

/// Computes a round: SubBytes, ShiftRows, MixColumns except in the last round, AddRoundKey.
///
/// Bytes are in the order of the standard, each from its highest bit. The S-box omits the constant
/// 0x63. MixColumns preserves it, so round keys contain it.
fn round<G: Gates>(
    gates: &mut G,
    state: &[[G::Bit; 8]],
    key: &[[G::Bit; 8]],
    last: bool,
) -> Result<Vec<[G::Bit; 8]>> {
    let substituted = sbox::substitute(gates, state)?;
    let shifted: Vec<_> = (0..16).map(|i| substituted[(i + 4 * (i % 4)) % 16].clone()).collect();
    let mixed = if last { shifted } else { mix_columns(gates, &shifted)? };
    mixed.iter().zip(key).map(|(a, b)| xor_bytes(gates, a, b)).collect()
}

/// Computes `b_i = 2 (a_i + a_{i + 1}) + a_{i + 1} + a_{i + 2} + a_{i + 3}` in each column.
fn mix_columns<G: Gates>(gates: &mut G, state: &[[G::Bit; 8]]) -> Result<Vec<[G::Bit; 8]>> {
    let mut mixed = Vec::new();
    for column in state.chunks_exact(4) {
        let sums = (0..4).map(|i| xor_bytes(gates, &column[i], &column[(i + 1) % 4]));
        let sums = sums.collect::<Result<Vec<_>>>()?;
        for i in 0..4 {
            let rest = xor_bytes(gates, &column[(i + 1) % 4], &sums[(i + 2) % 4])?;
            let [d0, d1, d2, d3, d4, d5, d6, d7] = sums[i].clone();
            // Doubles in the field: a shift, and the polynomial 0x1b if the highest bit falls out.
            let d4 = gates.xor(&d4, &d0)?;
            let d5 = gates.xor(&d5, &d0)?;
            let d7 = gates.xor(&d7, &d0)?;
            mixed.push(xor_bytes(gates, &rest, &[d1, d2, d3, d4, d5, d6, d7, d0])?);
        }
    }
    Ok(mixed)
}

fn xor_bytes<G: Gates>(gates: &mut G, a: &[G::Bit; 8], b: &[G::Bit; 8]) -> Result<[G::Bit; 8]> {
    let mut sum = a.clone();
    for (sum, b) in sum.iter_mut().zip(b) {
        *sum = gates.xor(sum, b)?;
    }
    Ok(sum)
}

/// 128 encrypted bits, from the highest of the first byte on.
#[derive(Debug, Clone)]
pub struct State(Vec<[Ciphertext; 8]>);

impl State {
    /// Encrypts blocks, one in each slot. Slots beyond the last block hold zeros.
    ///
    /// # Errors
    /// [`Error::Count`] for more blocks than slots; the errors of [`SecretKey::encrypt`].
    pub fn encrypt(secret: &SecretKey, blocks: &[[u8; 16]]) -> Result<Self> {
        let slots = secret.params().spec().slots;
        if blocks.len() > slots {
            return Err(Error::Count { what: "blocks", found: blocks.len(), needed: slots });
        }
        Self::of_bits(secret, |byte, bit| {
            let bits = blocks.iter().map(|block| u64::from(block[byte] >> (7 - bit) & 1));
            bits.chain(core::iter::repeat(0)).take(slots).collect()
        })
    }

    /// Encrypts the same block in every slot.
    fn repeated(secret: &SecretKey, block: &[u8; 16]) -> Result<Self> {
        let slots = secret.params().spec().slots;
        Self::of_bits(secret, |byte, bit| vec![u64::from(block[byte] >> (7 - bit) & 1); slots])
    }

    fn of_bits(
        secret: &SecretKey,
        messages: impl Fn(usize, usize) -> Vec<u64> + Send + Sync,
    ) -> Result<Self> {
        let bits = par::try_map(0..BITS, |i| secret.encrypt(&messages(i / 8, i % 8), 1))?;
        Ok(Self::of(bits))
    }

    fn of(bits: Vec<Ciphertext>) -> Self {
        let mut bits = bits.into_iter();
        let mut bytes = Vec::new();
        while let [Some(a), Some(b), Some(c), Some(d), Some(e), Some(f), Some(g), Some(h)] =
            [(); 8].map(|()| bits.next())
        {
            bytes.push([a, b, c, d, e, f, g, h]);
        }
        Self(bytes)
    }

    /// Decrypts the block of every slot.
    ///
    /// # Errors
    /// Errors of [`SecretKey::decrypt`].
    pub fn decrypt(&self, secret: &SecretKey) -> Result<Vec<[u8; 16]>> {
        let mut blocks = vec![[0; 16]; secret.params().spec().slots];
        for (place, bits) in self.0.iter().enumerate() {
            for (bit, ciphertext) in bits.iter().enumerate() {
                for (block, message) in blocks.iter_mut().zip(secret.decrypt(ciphertext)?) {
                    block[place] |= (message as u8) << (7 - bit);
                }
            }
        }
        Ok(blocks)
    }

    /// Returns the ciphertexts.
    pub fn bits(&self) -> impl Iterator<Item = &Ciphertext> {
        self.0.iter().flatten()
    }
}

/// The eleven encrypted round keys.
#[derive(Debug, Clone)]
pub struct RoundKeys(Vec<State>);

impl RoundKeys {
    /// Expands a key in the clear and encrypts it for every slot.
    ///
    /// # Errors
    /// Errors of [`SecretKey::encrypt`].
    pub fn encrypt(secret: &SecretKey, key: &[u8; 16]) -> Result<Self> {
        let mut keys = expanded(key);
        // The constant of the S-box, which its circuit omits.
        keys[1..].iter_mut().flatten().for_each(|byte| *byte ^= 0x63);
        let encrypted = keys.iter().map(|key| State::repeated(secret, key));
        Ok(Self(encrypted.collect::<Result<_>>()?))
    }
}

/// Returns the round keys of FIPS 197, section 5.2.
fn expanded(key: &[u8; 16]) -> Vec<[u8; 16]> {
    let boxes = table();
    let mut words: Vec<[u8; 4]> =
        key.chunks_exact(4).map(|word| core::array::from_fn(|i| word[i])).collect();
    let mut constant = 1u8;
    for i in 4..4 * (ROUNDS as usize + 1) {
        let mut word = words[i - 1];
        if i % 4 == 0 {
            word.rotate_left(1);
            word = word.map(|byte| boxes[usize::from(byte)]);
            word[0] ^= constant;
            constant = constant << 1 ^ if constant >> 7 == 1 { 0x1b } else { 0 };
        }
        words.push(core::array::from_fn(|k| words[i - 4][k] ^ word[k]));
    }
    words.chunks_exact(4).map(|key| core::array::from_fn(|i| key[i / 4][i % 4])).collect()
}

/// Encrypts a block in the clear: the first key, and then `rounds` rounds, at most ten.
#[must_use]
pub fn clear_rounds(key: &[u8; 16], block: &[u8; 16], rounds: u32) -> [u8; 16] {
    let keys = expanded(key);
    let boxes = table();
    let doubled = |x: u8| (x << 1) ^ ((x >> 7) * 0x1b);
    let mut state: [u8; 16] = core::array::from_fn(|i| block[i] ^ keys[0][i]);
    for (number, key) in (1..).zip(keys.iter().skip(1)).take(rounds as usize) {
        let s: [u8; 16] =
            core::array::from_fn(|i| boxes[usize::from(state[(i + 4 * (i % 4)) % 16])]);
        let at = |i: usize, k: usize| s[i / 4 * 4 + (i + k) % 4];
        let mixed = |i: usize| doubled(at(i, 0) ^ at(i, 1)) ^ at(i, 1) ^ at(i, 2) ^ at(i, 3);
        state = core::array::from_fn(|i| key[i] ^ if number == ROUNDS { s[i] } else { mixed(i) });
    }
    state
}

/// Returns the S-box as a table, by its circuit on all bytes at once.
fn table() -> [u8; 256] {
    let bits =
        core::array::from_fn(|bit| core::array::from_fn(|x: usize| (x >> (7 - bit) & 1) as u8));
    let mut table = [0x63; 256];
    // Bits in the clear have no noise, so the circuit cannot fail.
    if let Ok(outputs) = sbox::substitute(&mut Clear, &[bits]) {
        for (bit, column) in outputs.iter().flatten().enumerate() {
            for (value, out) in table.iter_mut().zip(column) {
                *value ^= out << (7 - bit);
            }
        }
    }
    table
}

/// Bits in the clear, of 256 inputs at once.
struct Clear;

impl Gates for Clear {
    type Bit = [u8; 256];

    fn xor(&mut self, a: &Self::Bit, b: &Self::Bit) -> Result<Self::Bit> {
        Ok(core::array::from_fn(|i| a[i] ^ b[i]))
    }

    fn and(&mut self, pairs: &[(&Self::Bit, &Self::Bit)]) -> Result<Vec<Self::Bit>> {
        Ok(pairs.iter().map(|(a, b)| core::array::from_fn(|i| a[i] & b[i])).collect())
    }
}

/// The noise of bits.
struct Predicted<'a>(&'a Params);

impl Gates for Predicted<'_> {
    type Bit = Noise;

    fn xor(&mut self, a: &Noise, b: &Noise) -> Result<Noise> {
        a.signed_sum(*b).check("an exclusive or", self.0.noise_limit_bits(1))
    }

    fn and(&mut self, pairs: &[(&Noise, &Noise)]) -> Result<Vec<Noise>> {
        let limit_bits = self.0.noise_limit_bits(1);
        let product =
            |(a, b): &(&Noise, &Noise)| a.product(**b, self.0, 1).check("a product", limit_bits);
        pairs.iter().map(product).collect()
    }
}

/// Encrypted bits, with coins for the signs of sums.
struct Encrypted<'a> {
    evaluator: &'a Evaluator,
    coins: Stream,
}

impl Gates for Encrypted<'_> {
    type Bit = Ciphertext;

    fn xor(&mut self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.evaluator.xor(a, b, self.coins.next_u64() >> 63 == 1)
    }

    fn and(&mut self, pairs: &[(&Ciphertext, &Ciphertext)]) -> Result<Vec<Ciphertext>> {
        self.evaluator.mul_many(pairs)
    }
}

/// Plan of the rounds before which the state is bootstrapped, with the predicted noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    refreshed: Vec<u32>,
    noise_bits: Vec<f64>,
}

impl Plan {
    /// Plans to bootstrap as late as noise allows, and therefore as rarely as possible.
    ///
    /// # Errors
    /// [`Error::NotBits`] unless `t = 2`; [`Error::TooDeep`] if a round has too much noise after
    /// bootstrapping.
    pub fn new(params: &Params) -> Result<Self> {
        if params.spec().t != 2 {
            return Err(Error::NotBits { operation: "AES" });
        }
        let fresh = Noise::fresh(params, 1);
        let mut plan = Self { refreshed: Vec::new(), noise_bits: Vec::new() };
        // Round 0 adds the first key to the block, and both are fresh.
        let mut state = Predicted(params).xor(&fresh, &fresh)?;
        for number in 1..=ROUNDS {
            state = match planned_round(params, state, number) {
                Ok(next) => next,
                // Operands match by construction, so an error always means too much noise.
                Err(_) => {
                    plan.refreshed.push(number);
                    let refreshed = Noise::bootstrapped(params)?;
                    planned_round(params, refreshed, number).map_err(too_deep)?
                }
            };
            plan.noise_bits.push(state.bits());
        }
        Ok(plan)
    }

    /// Returns the rounds, from 1, before which the state is bootstrapped.
    #[must_use]
    pub fn refreshed(&self) -> &[u32] {
        &self.refreshed
    }

    /// Returns the bits of noise after each round.
    #[must_use]
    pub fn noise_bits(&self) -> &[f64] {
        &self.noise_bits
    }
}

/// Returns the worst noise after a round, if the next computation tolerates it.
fn planned_round(params: &Params, state: Noise, number: u32) -> Result<Noise> {
    // Rounds mix bits, so each bit may get the worst noise.
    let state = vec![[state; 8]; 16];
    let key = vec![[Noise::fresh(params, 1); 8]; 16];
    let bits = round(&mut Predicted(params), &state, &key, number == ROUNDS)?;
    let worst = |a: Noise, b: &Noise| if b.bits() > a.bits() { *b } else { a };
    let worst = bits.iter().flatten().fold(bits[0][0], worst);
    match number {
        // The last state is decrypted, which tolerates more noise than bootstrapping.
        ROUNDS => Ok(worst),
        _ => worst.check("bootstrapping", params.bootstrap_limit_bits()),
    }
}

fn too_deep(error: Error) -> Error {
    match error {
        Error::NoiseExhausted { found_bits, limit_bits, .. } => {
            Error::TooDeep { what: "a round of AES", found_bits, limit_bits }
        }
        other => other,
    }
}

/// AES-128 by a plan.
#[derive(Debug)]
pub struct Cipher<'a> {
    evaluator: &'a Evaluator,
    plan: Plan,
}

impl<'a> Cipher<'a> {
    /// Plans for the evaluator's parameters.
    ///
    /// # Errors
    /// Errors of [`Plan::new`].
    pub fn new(evaluator: &'a Evaluator) -> Result<Self> {
        Ok(Self { evaluator, plan: Plan::new(evaluator.params())? })
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Encrypts every block.
    ///
    /// # Errors
    /// [`Error::OtherKey`], [`Error::NoiseExhausted`] for operands that are not fresh.
    pub fn encrypt(&self, keys: &RoundKeys, blocks: &State) -> Result<State> {
        (0..=ROUNDS).try_fold(blocks.clone(), |state, number| self.round(keys, &state, number))
    }

    /// Computes round `number`, after a bootstrapping if the plan has one. Round 0 adds the first
    /// key.
    ///
    /// # Errors
    /// The errors of [`Cipher::encrypt`]; [`Error::Count`] for a round beyond the tenth.
    pub fn round(&self, keys: &RoundKeys, state: &State, number: u32) -> Result<State> {
        let Some(key) = keys.0.get(number as usize) else {
            let needed = ROUNDS as usize;
            return Err(Error::Count { what: "rounds", found: number as usize, needed });
        };
        // Coins have to be independent of keys and messages, but not secret.
        let coins = Stream::new(&Seed::from_bytes([0; 32]), "integers aes signs", number.into());
        let mut gates = Encrypted { evaluator: self.evaluator, coins };
        if number == 0 {
            let bytes = state.0.iter().zip(&key.0);
            let sums = bytes.map(|(a, b)| xor_bytes(&mut gates, a, b));
            return Ok(State(sums.collect::<Result<_>>()?));
        }
        let refreshed;
        let state = if self.plan.refreshed.contains(&number) {
            refreshed = self.refresh(state)?;
            &refreshed
        } else {
            state
        };
        Ok(State(round(&mut gates, &state.0, &key.0, number == ROUNDS)?))
    }

    /// Bootstraps all bits.
    ///
    /// # Errors
    /// The errors of [`Evaluator::bootstrap_many`].
    pub fn refresh(&self, state: &State) -> Result<State> {
        let bits: Vec<&Ciphertext> = state.bits().collect();
        Ok(State::of(self.evaluator.bootstrap_many(&bits)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, insecure_research};
    use ::aes::cipher::{BlockEncrypt, KeyInit};

    /// Counts products and depth on one bit each.
    #[derive(Default)]
    struct Counter {
        products: usize,
        sums: usize,
    }

    impl Gates for Counter {
        type Bit = usize;

        fn xor(&mut self, a: &usize, b: &usize) -> Result<usize> {
            self.sums += 1;
            Ok(*a.max(b))
        }

        fn and(&mut self, pairs: &[(&usize, &usize)]) -> Result<Vec<usize>> {
            self.products += pairs.len();
            Ok(pairs.iter().map(|(a, b)| 1 + **a.max(b)).collect())
        }
    }

    /// Compares with the inverse in `GF(2^8)` and the affine map of FIPS 197, section 5.1.1.
    #[test]
    fn s_box_is_that_of_the_standard() {
        let product = |mut a: u32, mut b: u32| {
            let mut sum = 0;
            while b > 0 {
                sum ^= a * (b & 1);
                a = (a << 1) ^ ((a >> 7) * 0x11b);
                b >>= 1;
            }
            sum
        };
        let boxes = table();
        for x in 0..256u32 {
            let inverse = (1..256).find(|&y| product(x, y) == 1).unwrap_or(0) as u8;
            let affine = [1, 2, 3, 4].iter().fold(inverse, |sum, &k| sum ^ inverse.rotate_left(k));
            assert_eq!(boxes[x as usize], affine ^ 0x63, "{x}");
        }
    }

    #[test]
    fn s_box_has_34_products_four_deep() {
        let mut counter = Counter::default();
        let outputs = sbox::substitute(&mut counter, &[[0; 8]]).unwrap();
        assert_eq!((counter.products, *outputs[0].iter().max().unwrap()), (34, 4));
        assert_eq!(counter.sums, 82);
    }

    /// Compares the rounds of the circuit, in the clear, with another implementation.
    #[test]
    fn circuit_is_aes() {
        let bits = |block: &[u8; 16]| -> Vec<[[u8; 256]; 8]> {
            block.map(|byte| core::array::from_fn(|bit| [byte >> (7 - bit) & 1; 256])).to_vec()
        };
        let mut stream = Stream::new(&Seed::from_bytes([4; 32]), "blocks", 0);
        for _ in 0..8 {
            let [key, block] =
                [(); 2].map(|()| -> [u8; 16] { core::array::from_fn(|_| stream.next_u64() as u8) });
            let mut keys = expanded(&key);
            keys[1..].iter_mut().flatten().for_each(|byte| *byte ^= 0x63);
            let keys: Vec<_> = keys.iter().map(bits).collect();
            let first = bits(&block);
            let mut state: Vec<_> = first
                .iter()
                .zip(&keys[0])
                .map(|(a, b)| xor_bytes(&mut Clear, a, b).unwrap())
                .collect();
            for (number, key) in keys.iter().enumerate().skip(1) {
                state = round(&mut Clear, &state, key, number == 10).unwrap();
            }
            let found: Vec<u8> = state
                .iter()
                .map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit[0]))
                .collect();
            let mut expected = block.into();
            ::aes::Aes128::new(&key.into()).encrypt_block(&mut expected);
            assert_eq!(found, expected.as_slice());
        }
    }

    fn plan(spec: Spec) -> Result<Plan> {
        Plan::new(&Params::new(spec, insecure_research()).unwrap())
    }

    #[test]
    fn plans_refresh_where_noise_says() {
        let named = Spec::named("clt-500").unwrap();
        let full = plan(named.clone()).unwrap();
        assert_eq!(full.refreshed().len(), 4, "{full:?}");
        let tight = plan(Spec::named("clt-500-w32").unwrap()).unwrap();
        assert!(tight.refreshed().len() > 4, "{tight:?}");
        // A longer eta leaves room for more rounds.
        let longer = Spec { eta: 400, gamma: 900_000, ..named.clone() };
        assert!(plan(longer).unwrap().refreshed().len() < 4);
        let shorter = Spec { eta: 128, ..named };
        assert!(matches!(plan(shorter), Err(Error::TooDeep { .. })));
        assert!(matches!(plan(Spec::small(1, 3)), Err(Error::NotBits { .. })));
    }
}
