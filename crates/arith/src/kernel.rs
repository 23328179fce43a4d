//! One table of row kernels per instruction set and range of moduli.
//!
//! `scalar` is the specification: every other table equals it bit for bit on every input in range,
//! and `tests` compares each table that the CPU supports with it. To add an instruction set, write
//! one file and its `static`s. No code above this module changes.
//!
//! Rows are canonical, in `[0, q)`, on entry and on exit. Other values leave a kernel only for the
//! next one of the same table: from sums to the first half of a transform, and from there to the
//! second half. Each table chooses their form.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128")))]
mod chacha;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(test)]
mod tests;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;

use crate::{ConstantDot, Modulus, NttTable, Shoup, fraction::Fraction};
use std::sync::LazyLock;

pub(crate) use scalar::SCALAR;

/// Instruction sets with kernels, slowest to fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Portable Rust; the reference.
    Scalar,
    /// NEON, of 64-bit ARM.
    Neon,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, DQ, VL and BW: servers since 2017.
    Avx512,
    /// AVX-512 F, DQ, VL, BW, IFMA and VBMI. Every CPU with IFMA also has VBMI.
    Avx512Ifma,
}

impl Isa {
    /// Every set, slowest to fastest.
    pub const ALL: [Self; 5] =
        [Self::Scalar, Self::Neon, Self::Avx2, Self::Avx512, Self::Avx512Ifma];

    /// Returns the best set that this CPU supports, lowered by the environment variable
    /// `SUDARE_ISA` if its value is the [name](Isa::name) of a set. Read once per process.
    #[must_use]
    pub fn detect() -> Self {
        static BEST: LazyLock<Isa> = LazyLock::new(|| {
            let name = std::env::var("SUDARE_ISA").unwrap_or_default();
            let cap = Isa::ALL.into_iter().find(|isa| isa.name() == name);
            let allowed = |isa: &Isa| isa.is_available() && cap.is_none_or(|cap| *isa <= cap);
            Isa::ALL.into_iter().rev().find(allowed).unwrap_or(Isa::Scalar)
        });
        *BEST
    }

    /// Returns `true` if this CPU has the set.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            // Part of the base instruction set of every such CPU.
            Self::Neon => cfg!(all(target_arch = "aarch64", target_endian = "little")),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Ifma => {
                Self::Avx512.is_available()
                    && is_x86_feature_detected!("avx512ifma")
                    && is_x86_feature_detected!("avx512vbmi")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 | Self::Avx512Ifma => false,
        }
    }

    /// The name of the instruction set as `SUDARE_ISA` spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Ifma => "avx512ifma",
        }
    }
}

/// Rows of words.
pub(crate) type Rows<'a> = &'a [*const u64];

/// Packed rows that consist of runs of equal groups of [`COLUMNS`] words, with one group of each
/// run; see [`NttTable::log_repeats`].
#[derive(Clone, Copy)]
pub(crate) struct Repeated<'a> {
    pub rows: &'a [*const u8],
    /// `log2` of the groups in a run.
    pub log_repeats: u32,
}

impl Repeated<'_> {
    /// Returns the place of word `x` of a row among its words.
    #[inline(always)]
    pub fn place(&self, x: usize) -> usize {
        (x >> self.log_repeats) & !(COLUMNS - 1) | x & (COLUMNS - 1)
    }
}

/// Row kernels for one instruction set and range of moduli.
///
/// # Safety
/// Callable only on a CPU that has the set, which [`select`] checks, and with pointers to `len`
/// words. An output may equal an input but may not overlap one in any other way.
pub(crate) struct KernelTable {
    pub name: &'static str,
    /// [`Modulus::radix`] is `2^radix_bits mod q`.
    pub radix_bits: u32,
    /// A table for words of any length, if this one requires words below `2^52`, and below
    /// `2^100 / q` in sums with weights.
    pub wide: Option<&'static KernelTable>,
    pub add: unsafe fn(&Modulus, *mut u64, *const u64, *const u64, usize),
    pub sub: unsafe fn(&Modulus, *mut u64, *const u64, *const u64, usize),
    /// `out = a * b + c`.
    pub mul_add: unsafe fn(&Modulus, *mut u64, *const u64, *const u64, *const u64, usize),
    /// `out[x] = sum_i a[i][x] * b[i][x]`.
    pub mul_sum: unsafe fn(&Modulus, *mut u64, &[*const u64], &[*const u64], usize),
    /// `out[k][x] = sum_i a[k][i][x] * b[i][x]` for packed `b`; see [`Modulus::pack`]. Rows of `b`
    /// may be [`Repeated`].
    pub mul_sum_packed: unsafe fn(&Modulus, &[*mut u64], &[Rows<'_>], Repeated<'_>, usize),
    /// The low bytes of each word.
    pub pack: unsafe fn(&Modulus, *mut u8, *const u64, usize),
    /// Undoes `pack`. Returns `true` if all words are below `q`.
    pub unpack: unsafe fn(&Modulus, *mut u64, *const u8, usize) -> bool,
    /// Converts a constant in `[0, q)` to the form that `dot` reads.
    pub weight: fn(&Modulus, u64) -> u64,
    /// `out[k][x] = sum_i a[i][x] * c[k][i]` for the constants of the `k`-th weights, all of which
    /// use this table. If the flag is set, results are for `ntt_forward_sums` alone.
    pub dot: unsafe fn(&[&ConstantDot], &[*mut u64], Rows<'_>, bool, usize),
    /// `out = a * w`.
    pub scale: unsafe fn(&Modulus, *mut u64, *const u64, Shoup, usize),
    /// `out += a * w`.
    pub scale_add: unsafe fn(&Modulus, *mut u64, *const u64, Shoup, usize),
    /// `out = (a - b) * w`.
    pub sub_scale: unsafe fn(&Modulus, *mut u64, *const u64, *const u64, Shoup, usize),
    /// `out += c`.
    pub add_constant: unsafe fn(&Modulus, *mut u64, u64, usize),
    /// `out = a mod q` for signed `|a| < q`.
    pub lift: unsafe fn(&Modulus, *mut u64, *const i8, usize),
    /// Writes `round(sum_i y_i / q_i)`, or [`UNDECIDED`](crate::fraction::UNDECIDED) if the sum is
    /// within its precision of a half. Returns `true` if all sums are decided.
    pub round_sum: unsafe fn(&[Fraction], &[*const u64], *mut u64, usize) -> bool,
    /// Forward transforms of rows of `N` words for `log_n >= min_log_n`.
    pub ntt_forward: unsafe fn(&NttTable, &[*mut u64]),
    /// [`NttTable::forward_columns`] of the given number of groups of canonical words.
    pub ntt_forward_groups: unsafe fn(&NttTable, *mut u64, usize),
    /// The same for the results of `dot` with its flag.
    pub ntt_forward_sums: unsafe fn(&NttTable, *mut u64, usize),
    /// [`NttTable::forward_lines`] of a row: the block with the given number.
    pub ntt_forward_block: unsafe fn(&NttTable, *const u64, usize, *mut u64, &[&[u8]]),
    /// Inverse transforms of such rows, times a factor.
    pub ntt_inverse: unsafe fn(&NttTable, &[*mut u64], Shoup),
    /// [`NttTable::inverse_lines`] of the block with the given number.
    pub ntt_inverse_block: unsafe fn(&NttTable, usize, *const u64, *mut u64, &[&[u8]]),
    /// [`NttTable::inverse_columns`] of the first row to the second, which must be a different one.
    pub ntt_inverse_groups: unsafe fn(&NttTable, *const u64, *mut u64, Shoup),
    pub min_log_n: u32,
    /// Lays out the powers `psi^rev(k)`, or their inverses, as the transforms
    /// of this table read them.
    pub twiddles: fn(&Modulus, log_n: u32, powers: &[u64]) -> Vec<u64>,
}

/// Selects the best table for the CPU, `best` and the size of `q`. Limbs of one chain may therefore
/// use different tables.
pub(crate) fn select(q: u64, best: Isa) -> &'static KernelTable {
    let usable = |isa: Isa| isa <= best && isa.is_available();
    #[cfg(target_arch = "x86_64")]
    if usable(Isa::Avx512Ifma) {
        return avx512::table(q);
    }
    #[cfg(target_arch = "x86_64")]
    if usable(Isa::Avx512) && q >> 50 == 0 {
        return &avx512::double::BELOW_50;
    }
    #[cfg(target_arch = "x86_64")]
    if usable(Isa::Avx2) && q >> 50 == 0 {
        return &avx2::BELOW_50;
    }
    #[cfg(target_arch = "aarch64")]
    if usable(Isa::Neon) && q >> 50 == 0 {
        return &neon::BELOW_50;
    }
    let _ = (q, usable);
    &SCALAR
}

/// Writes whole blocks of the ChaCha20 key stream with the words of `state`, from block `state[12]`
/// on, and advances that counter. Returns the number of `words` written: fewer than all, or 0, if
/// the cipher is not slower for the rest.
pub(crate) fn key_stream(state: &mut [u32; 16], words: &mut [u64]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if Isa::detect() >= Isa::Avx512 {
        // SAFETY: the CPU has the set.
        return unsafe { avx512::stream::key_stream(state, words) };
    }
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return simd128::key_stream(state, words);
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    {
        let _ = (state, words);
        0
    }
}

/// `out[x] = a[source[x]]`.
///
/// # Safety
/// There are as many sources as outputs, and each is below the length of `a`.
pub(crate) unsafe fn pick(out: &mut [u64], a: &[u64], source: &[u16]) {
    let mut start = 0;
    #[cfg(target_arch = "x86_64")]
    if Isa::detect() >= Isa::Avx512 {
        // SAFETY: the CPU has the set; the rest is guaranteed by the caller.
        start = unsafe { avx512::rows::pick(out, a, source) };
    }
    // Slices instead of `skip`, which would ask before each word if it still skips (performance log,
    // AVX2).
    for (out, &from) in out[start..].iter_mut().zip(&source[start..]) {
        // SAFETY: guaranteed by the caller.
        *out = unsafe { *a.get_unchecked(usize::from(from)) };
    }
}

/// Masks the words, moves those below `q` to the front, in order, and returns their number. The
/// contents after them are unspecified.
pub(crate) fn compact(q: u64, mask: u64, words: &mut [u64], isa: Isa) -> usize {
    let mut accepted = 0;
    let mut start = 0;
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx512 && isa.is_available() {
        // SAFETY: the CPU has the set.
        (accepted, start) = unsafe { avx512::stream::compact(q, mask, words) };
    }
    let _ = isa;
    for i in start..words.len() {
        let word = words[i] & mask;
        // Writes always and advances only after an accepted word: no branch on random bits.
        words[accepted] = word;
        accepted += usize::from(word < q);
    }
    accepted
}

/// Number of products below `2^124` whose sum fits 128 bits.
pub(crate) const TERMS: usize = 15;

/// Evaluations are stored in blocks of this many words if `N` is large enough; see [`NttTable`].
pub(crate) const BLOCK: usize = 8 * ROW;
/// Length of the rows of a block before they are interleaved.
pub(crate) const ROW: usize = 256;
/// Rows of a block, and columns of such rows that are stored together in column order.
pub(crate) const COLUMNS: usize = BLOCK / ROW;
