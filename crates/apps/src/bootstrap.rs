//! Bootstrapping of many ciphertexts, whatever they are part of.

use sudare::circuits::{ComplexOps, bootstrap::Bootstrapper, sim};

/// Ciphertexts that go through a circuit together: enough to share the reading of keys and
/// matrices, few enough that what is between does not fill the memory.
pub(crate) const TOGETHER: usize = 16;

/// Bootstraps ciphertexts of as many slots as was planned for, or fewer.
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

/// Gives a bootstrapped ciphertext the room that the second one had: within a bootstrapping, whose
/// plan has room for values up to the bound, slots do not tell how large coefficients are.
pub(crate) fn restore_headroom(after: &mut sim::Ciphertext, before: &sim::Ciphertext) {
    after.headroom_bits = before.headroom_bits;
    after.worst.headroom_bits = before.worst.headroom_bits;
}
