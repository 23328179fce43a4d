//! Two vectors side by side as one. Two independent chains hide more of the latency of doubles than
//! a single one, where registers are too few for a larger radix.

use super::{
    Strided, Vector,
    double::{Doubles, Words},
};

/// The words of the first vector, then the words of the second.
#[derive(Clone, Copy)]
pub struct Pair<T>(T, T);

/// Defines functions of vectors by the same function of both.
macro_rules! of_both {
    ($($name:ident($($arg:ident),*) -> $result:ty;)*) => {
        $(
            #[inline(always)]
            unsafe fn $name(self $(, $arg: Self)*) -> $result {
                // SAFETY: guaranteed by the caller.
                unsafe { Pair(self.0.$name($($arg.0),*), self.1.$name($($arg.1),*)) }
            }
        )*
    };
}

impl<V: Vector> Vector for Pair<V> {
    const LANES: usize = 2 * V::LANES;

    #[inline(always)]
    unsafe fn splat(word: u64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(V::splat(word), V::splat(word)) }
    }

    #[inline(always)]
    unsafe fn load(p: *const u64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(V::load(p), V::load(p.add(V::LANES))) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u64) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.0.store(p);
            self.1.store(p.add(V::LANES));
        }
    }

    #[inline(always)]
    unsafe fn transpose(from: Strided, to: Strided) {
        // SAFETY: guaranteed by the caller.
        unsafe { V::transpose(from, to) }
    }
}

impl<W: Words> Words for Pair<W> {
    type Doubles = Pair<W::Doubles>;

    const LOG_RADIX: u32 = W::LOG_RADIX;

    of_both! {
        doubles() -> Pair<W::Doubles>;
        add(other) -> Self;
        sub(other) -> Self;
        or(other) -> Self;
        xor(other) -> Self;
        if_negative(other) -> Self;
    }
}

impl<D: Doubles> Doubles for Pair<D> {
    type Words = Pair<D::Words>;

    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(D::splat(x), D::splat(x)) }
    }

    of_both! {
        words() -> Pair<D::Words>;
        add(other) -> Self;
        sub(other) -> Self;
        mul(other) -> Self;
        plus_product(a, b) -> Self;
        less_product(a, b) -> Self;
        floor() -> Self;
        if_negative(other) -> Self;
        differs(other) -> Pair<D::Words>;
    }
}
