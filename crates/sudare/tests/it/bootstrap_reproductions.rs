//! Bootstrapping with the sets of publications.

use crate::session::Session;
use sudare::{
    circuits::ckks::bootstrap,
    ckks::{Complex, Params, Spec},
};
use sudare_arith::prng::{Seed, Stream};

/// `-log2` of the mean error of a slot, and the level after refreshing `2^log_slots` slots of
/// size `2^integer_bits`, in the set's chain over a ring of degree `2^log_n`.
fn refresh(name: &str, log_n: u32, log_slots: u32, integer_bits: u32) -> (f64, u32) {
    let set = bootstrap::preset(name).unwrap();
    let spec = Spec { log_n, ..set.preset.spec };
    let params = Params::new(spec).unwrap();
    let spec = match log_slots == set.bootstrap.log_slots {
        true => set.bootstrap,
        false => set.bootstrap.with_log_slots(log_slots),
    };
    let plan = spec.plan(&params, params.top()).unwrap();
    let s = Session::from_seed(params, &Seed::from_bytes([5; 32]), plan.required_keys());
    let mut stream = Stream::new(&Seed::from_bytes([6; 32]), "slots", 0);
    let size = f64::from(integer_bits).exp2();
    let mut part = || (stream.next_u64() as i64) as f64 / 2f64.powi(63) * size;
    let slots: Vec<_> = (0..1 << log_slots).map(|_| Complex::new(part(), part())).collect();
    let plain = s.encoder.encode_at(&slots, plan.input_level(), plan.input_scale()).unwrap();
    let x = s.encryptor.encrypt_with(&plain, &Seed::from_bytes([7; 32])).unwrap();
    let y = plan.prepare(&s.evaluator).unwrap().run(&s.evaluator, &x).unwrap();
    assert_eq!(y.level(), plan.output_level());
    let open = |a| s.encoder.decode(&s.decryptor.decrypt(a).unwrap()).unwrap();
    let expected = open(&x);
    let found = open(&y);
    let errors = expected.iter().zip(&found).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
    let mean = errors.sum::<f64>() / expected.len() as f64;
    (-mean.log2(), plan.usable_levels())
}

/// In a small ring errors are smaller: by the square root of the degree's ratio, and by as much
/// again where the slots are fewer. The integers that are reduced are those of the large ring.
#[test]
fn small_rings_keep_the_precision_and_levels_printed() {
    for (name, integer_bits, log_slots, bits, levels) in [
        ("fullrns-boot", 0, 11, 19.0, 7),
        ("thesis-boot", 0, 11, 15.0, 14),
        ("seal-boot-1", 17, 11, 8.5, 9),
        ("seal-boot-11", 4, 11, 18.5, 11),
        ("seal-boot-12", 1, 11, 23.0, 9),
        ("seal-boot-3", 1, 8, 28.0, 6),
    ] {
        let (found, left) = refresh(name, 12, log_slots, integer_bits);
        assert!(found > bits, "{name}: {found:.2} bits");
        assert!(left >= levels, "{name}: {left} levels");
    }
}

/// Minutes, and 14 GB of memory.
#[test]
#[ignore = "full ring size"]
fn full_rings_keep_the_precision_and_levels_printed() {
    for (name, integer_bits, bits, levels) in
        [("fullrns-boot", 0, 11.0, 7), ("seal-boot-1", 17, 4.17, 9), ("seal-boot-3", 1, 19.70, 7)]
    {
        let (found, left) = refresh(name, 16, 15, integer_bits);
        let stated = bootstrap::preset(name).unwrap().precision_bits;
        assert!(found >= bits && (found - stated).abs() < 0.5, "{name}: {found:.2} bits");
        assert!(left >= levels, "{name}: {left} levels");
    }
}
