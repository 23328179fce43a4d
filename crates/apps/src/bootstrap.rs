//! Bootstrapping of many ciphertexts, from one array or from several.

use sudare::circuits::ckks::{ComplexOps, bootstrap::Bootstrapper, sim};

/// Number of ciphertexts that go through a circuit together. It is large enough to share the
/// reading of keys and matrices, and small enough that intermediate results do not fill the memory.
pub(crate) const TOGETHER: usize = 16;

/// Bootstraps ciphertexts that have at most the planned number of slots.
pub(crate) fn bootstrapped<E: ComplexOps>(
    ev: &E,
    bootstrapper: &Bootstrapper<E>,
    xs: &[&E::Ct],
) -> sudare::Result<Vec<E::Ct>> {
    let log_slots = bootstrapper.plan().spec().log_slots;
    let mut all = Vec::with_capacity(xs.len());
    for part in xs.chunks(TOGETHER) {
        let wide = part.iter().map(|x| ev.with_log_slots(x, log_slots));
        let wide: Vec<_> = wide.collect::<sudare::Result<_>>()?;
        let fresh = bootstrapper.run_many(ev, &wide)?;
        for (before, after) in part.iter().zip(fresh) {
            all.push(ev.with_log_slots(&after, ev.log_slots(before))?);
        }
    }
    Ok(all)
}

/// Gives the bootstrapped ciphertext `after` the headroom of `before`. The plan of a bootstrapping
/// has room for every value up to its bound. Within it, therefore, the slots do not show how large
/// the coefficients are.
pub(crate) fn restore_headroom(after: &mut sim::Ciphertext, before: &sim::Ciphertext) {
    after.headroom_bits = before.headroom_bits;
    after.worst.headroom_bits = before.worst.headroom_bits;
}
