//! What plans have in common whose results others than the owner of the key may see.

use sudare::ckks::Params;
use sudare_arith::real;

/// Of a decoded value of at most 1, beside the error of encryption: `f64` rounds it in each of the
/// steps of a transform.
pub(crate) const DECODING_ERROR: f64 = 16.0 * f64::EPSILON;

/// Most bits that are tried. With more, encryption adds less than decoding.
const MOST_BITS: f64 = 92.0;

/// Parameters with as much precision as sharing results to `bits` bits takes: `propose` makes them
/// for a `log2` of precision or scale, from `first` upwards, and `errors` gives the largest error of
/// a value of theirs and the largest with which it can be shared.
///
/// # Errors
/// `TooLittlePrecision` if `f64` has not the digits; those of the functions.
pub(crate) fn precise_params<E: From<sudare::Error>>(
    first: f64,
    bits: u32,
    propose: impl Fn(f64) -> Result<Params, E>,
    errors: impl Fn(&Params) -> Result<(f64, f64), E>,
) -> Result<Params, E> {
    let mut log2 = first;
    loop {
        let params = propose(log2)?;
        let (found, needed) = errors(&params)?;
        if found <= needed {
            return Ok(params);
        }
        // Also if there is no bound.
        if log2 > MOST_BITS || !found.is_finite() {
            return Err(sudare::Error::TooLittlePrecision { bits, found, needed }.into());
        }
        // Primes are not exactly as large as asked for.
        log2 += real::log2(found / needed).max(0.0) + 0.5;
    }
}
