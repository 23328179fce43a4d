//! What every target has in common under libFuzzer.

/// Runs the target of this name, and alters inputs as it does or as libFuzzer does, in turn.
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
