//! Common code of all targets under libFuzzer.

/// Runs the named target. Alters inputs alternately with the target's own mutator and with
/// libFuzzer's.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        libfuzzer_sys::fuzz_target!(|input: &[u8]| sudare_trust::campaign::check($name, input));
        libfuzzer_sys::fuzz_mutator!(|input: &mut [u8], size: usize, most: usize, seed: u32| {
            if seed % 2 == 0 {
                return libfuzzer_sys::fuzzer_mutate(input, size, most);
            }
            let altered = sudare_trust::targets::mutate($name, &input[..size], most, seed);
            input[..altered.len()].copy_from_slice(&altered);
            altered.len()
        });
    };
}
