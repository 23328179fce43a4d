//! Kernels written once for vectors of any width and kind.
//!
//! [`Lanes`] is the arithmetic of one instruction set and range of moduli, for example with doubles
//! ([`double`]). The row kernels ([`rows`]) and the transforms ([`transform`]) are functions of it;
//! [`entry_points`] compiles them for an instruction set.

pub(super) mod double;
pub(super) mod pair;
pub(super) mod rows;
pub(super) mod transform;

use crate::{Modulus, Shoup};

/// A factor as two vectors, from the two words of [`Lanes::factor`].
pub(super) type Factor<L> = (<L as Lanes>::V, <L as Lanes>::V);

/// A vector of words. Any bits are valid.
///
/// # Safety
/// Call every function only on a CPU with the instruction set. They are inlined into functions
/// compiled for it.
pub(super) trait Vector: Copy {
    /// Number of words, a divisor of 8.
    const LANES: usize;

    unsafe fn splat(word: u64) -> Self;
    /// Loads the words at `p`, which need not be aligned.
    unsafe fn load(p: *const u64) -> Self;
    unsafe fn store(self, p: *mut u64);
    /// Transposes eight rows of eight words, which must not overlap.
    unsafe fn transpose(from: Strided, to: Strided);
}

/// Rows at a fixed distance, in words.
#[derive(Clone, Copy)]
pub(super) struct Strided {
    pub start: *mut u64,
    pub stride: usize,
}

impl Strided {
    /// # Safety
    /// The pointer has at least `i + 1` rows.
    #[inline(always)]
    pub unsafe fn row(self, i: usize) -> *mut u64 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.start.add(i * self.stride) }
    }
}

/// Distance ahead at which packed rows are prefetched. Sums of products read several rows from
/// memory, a tile at a time.
pub(super) const AHEAD_BYTES: usize = 1 << 10;

/// Prefetches the cache line at any address into the cache of this level: 1 or 2.
#[inline(always)]
pub(super) fn prefetch<const LEVEL: u32>(p: *const u8) {
    const { assert!(LEVEL == 1 || LEVEL == 2) }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction never faults, and every such CPU has it.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        match LEVEL {
            1 => _mm_prefetch::<_MM_HINT_T0>(p.cast()),
            _ => _mm_prefetch::<_MM_HINT_T1>(p.cast()),
        }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction never faults and changes no memory.
    unsafe {
        use core::arch::asm;
        match LEVEL {
            1 => {
                asm!("prfm pldl1keep, [{}]", in(reg) p, options(nostack, preserves_flags, readonly))
            }
            _ => {
                asm!("prfm pldl2keep, [{}]", in(reg) p, options(nostack, preserves_flags, readonly))
            }
        }
    }
}

/// Arithmetic of one range of moduli.
///
/// Vectors hold words, as in memory, or values, which represent residues inside a kernel and may
/// have another form. Values have a *width*: values of width `k` are in an interval of length
/// `k q`, either `[0, k q)` or `[-k q / 2, k q / 2]`.
///
/// # Safety
/// See [`Vector`].
pub(super) trait Lanes: Copy {
    type V: Vector;

    /// The largest width of values inside a transform.
    const LIMIT: u32;
    /// Layers of a forward transform that need no [`Lanes::centre`] after [`Lanes::enter`] or
    /// [`Lanes::mul_centred`]. These leave values of width 2 in the middle of the range, and values
    /// drift by `q` per layer.
    const LAYERS: u32 = Self::LIMIT / 2 - 1;
    /// The number of such layers after [`Lanes::centre`].
    const LAYERS_CENTRED: u32 = Self::LAYERS;
    /// The number of such layers after [`Lanes::mul_centred`] if the next step is
    /// [`Lanes::reduce`].
    const LAYERS_TWISTED: u32 = Self::LAYERS;
    /// Layers of a line processed at a time in registers: 2, 3 or 4.
    const LOG_RADIX: u32;
    /// Layers of a column processed at a time: 2, 3 or 4.
    const LOG_COLUMN_RADIX: u32;
    /// `true` if values and words have different bits. The values of words in `[0, q)` then have
    /// width 2.
    const CONVERTS: bool;

    /// Converts a factor to the two words of the vectors. The first determines the second.
    fn factor(m: &Modulus, w: Shoup) -> [u64; 2];
    /// Returns the residue of a factor with the first word `first`.
    fn residue(m: &Modulus, first: u64) -> u64;

    unsafe fn new(m: &Modulus) -> Self;

    /// Converts words to values. The words are below `2^52` if the table has a wide one.
    unsafe fn value(words: Self::V) -> Self::V;
    /// Converts values of width 2 to words in `[0, q)`.
    unsafe fn fold(self, a: Self::V) -> Self::V;

    /// Reduces any value that occurs in a transform to width 2.
    unsafe fn reduce(self, a: Self::V) -> Self::V;
    /// Moves any value that occurs in a transform to within `q` of the middle of its range, or to
    /// width 2 if `LIMIT` is 4.
    unsafe fn centre(self, a: Self::V) -> Self::V;
    /// Converts words to values in the range of [`Lanes::centre`]. The words are in `[0, q)`, or in
    /// `[0, 2 q)` after lazy sums with AVX-512 IFMA.
    unsafe fn enter(self, words: Self::V) -> Self::V;
    /// Returns `a w` of width 2, for the value of any word or any value that occurs in a transform.
    unsafe fn mul_lazy(self, a: Self::V, w: Factor<Self>) -> Self::V;
    /// Returns `a w` in the range of [`Lanes::centre`].
    unsafe fn mul_centred(self, a: Self::V, w: Factor<Self>) -> Self::V;
    /// Returns `(x + w y, x - w y)`. The outputs are within `q` of `x`. If `LIMIT` is 4, `x` must
    /// be in the range of [`Lanes::centre`].
    unsafe fn forward(self, x: Self::V, y: Self::V, w: Factor<Self>) -> (Self::V, Self::V);
    /// Returns `(x + y, (x - y) w)` for inputs of width `LIMIT / 2`. The second output has width 2.
    unsafe fn inverse(self, x: Self::V, y: Self::V, w: Factor<Self>) -> (Self::V, Self::V);

    /// `a + b` for words in `[0, q)`.
    unsafe fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b` for words in `[0, q)`.
    unsafe fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b + q` for words in `[0, q)`.
    unsafe fn sub_lazy(self, a: Self::V, b: Self::V) -> Self::V;

    /// `a b` for words in `[0, q)`.
    unsafe fn mul(self, a: Self::V, b: Self::V) -> Self::V;
}

/// Defines the row kernels and transforms of a [`KernelTable`](crate::kernel::KernelTable)
/// for any [`Lanes`], compiled for the CPU features `$features`.
macro_rules! entry_points {
    ($features:literal) => {
        $crate::kernel::vector::entry_points! {
            $features, $crate::kernel::vector::rows, Lanes;
            add(m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, len: usize);
            sub(m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, len: usize);
            mul_add(
                m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, c: *const u64, len: usize
            );
            scale(m: &Modulus, out: *mut u64, a: *const u64, w: Shoup, len: usize);
            scale_add(m: &Modulus, out: *mut u64, a: *const u64, w: Shoup, len: usize);
            sub_scale(
                m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, w: Shoup, len: usize
            );
            add_constant(m: &Modulus, out: *mut u64, c: u64, len: usize);
        }
        $crate::kernel::vector::entry_points! {
            $features, $crate::kernel::vector::transform, Lanes;
            forward(t: &NttTable, rows: &[*mut u64]);
            forward_groups(t: &NttTable, groups: *mut u64, count: usize);
            forward_block(
                t: &NttTable, row: *const u64, block: usize, out: *mut u64, prefetch: &[&[u8]]
            );
            inverse(t: &NttTable, rows: &[*mut u64], scale: Shoup);
            inverse_block(
                t: &NttTable, block: usize, from: *const u64, out: *mut u64, prefetch: &[&[u8]]
            );
            inverse_groups(t: &NttTable, row: *const u64, out: *mut u64, scale: Shoup);
        }
    };
    (
        $features:literal, $module:path, $kind:ident;
        $($name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*
    ) => {
        $(
            #[target_feature(enable = $features)]
            unsafe fn $name<L: $kind>($($arg: $type),*) $(-> $result)? {
                use $module as kernels;
                // SAFETY: the table's contract.
                unsafe { kernels::$name::<L>($($arg),*) }
            }
        )*
    };
}
pub(super) use entry_points;
