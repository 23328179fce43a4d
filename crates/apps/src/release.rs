//! Parts shared by plans whose results people other than the key's owner may see.

use sudare::ckks::Params;
use sudare_arith::real;

/// Error of decoding a value of at most 1, on top of the error of encryption. It is the rounding of
/// `f64` in each step of a transform.
pub(crate) const DECODING_ERROR: f64 = 16.0 * f64::EPSILON;

/// Maximum number of bits to try. With more, the error of decoding exceeds the error of encryption.
const MAX_BITS: f64 = 92.0;

/// Finds parameters with the precision that sharing results to `bits` bits requires.
///
/// `propose` makes parameters for a `log2` of precision or scale, from `first` upwards. `errors`
/// returns two numbers for them: the largest error of a value, and the largest error with which the
/// value can be shared.
///
/// # Errors
/// `TooLittlePrecision` if `f64` has too few digits; errors of `propose` and `errors`.
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
        // The second condition covers parameters without a bound.
        if log2 > MAX_BITS || !found.is_finite() {
            return Err(sudare::Error::TooLittlePrecision { bits, found, needed }.into());
        }
        // Proposed primes may be slightly smaller than requested, so half a bit is added.
        log2 += real::log2(found / needed).max(0.0) + 0.5;
    }
}
