//! The evaluator, the simulator and the cost model decide alike which level, scale and slots a
//! result has, and refuse the same operands with the same error.

use crate::session::Session;
use proptest::prelude::*;
use std::sync::LazyLock;
use sudare::{
    Error, Result,
    circuits::ckks::{ComplexOps, cost, sim},
    ckks::{Complex, Params, Scale, Spec, UpperSpec},
    rlwe::{GaloisElement, KeyRequest, Level, ProductSum},
};

const LOG_N: u32 = 5;
const TOP: u32 = 3;
/// Levels above the top included.
const HIGHEST: u32 = 5;

/// With every key for the levels of the chain.
static SESSION: LazyLock<Session> = LazyLock::new(|| {
    let spec = Spec::uniform(LOG_N, 50.0, TOP as usize, 40.0, vec![50.0, 50.0]);
    let raised = UpperSpec { base_bits: vec![42.5; 4], levels_bits: vec![vec![45.0]; 2] };
    let params = Params::new(Spec { insecure: true, upper: Some(raised), ..spec }).unwrap();
    let top = params.top();
    let request = KeyRequest::new().relinearize(top).rotations(LOG_N, [1], top);
    Session::new(params, &request)
});

/// What is public about an operand.
#[derive(Debug, Clone, Copy)]
struct Operand {
    level: u32,
    log2_scale: f64,
    slots: usize,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Add,
    Sub,
    Mul,
    MulRescale,
    MulSum,
    AddConst(f64),
    MulConst(f64, f64),
    MulConstSum(f64, f64),
    AddPlain(usize),
    MulPlain(usize, f64),
    Rescale,
    DropTo(u32),
    MatchScale(u32, f64),
    WithScale(f64),
    WithLogSlots(u32),
    Rotate,
    ModRaise(u32, Option<u32>),
}

fn operands() -> impl Strategy<Value = [Operand; 3]> {
    // Mostly equal, so that some combinations are accepted.
    let operand = (
        prop_oneof![5 => Just(2), 5 => 0..=HIGHEST],
        prop_oneof![5 => Just(40.0), 1 => Just(41.0), 1 => Just(20.0), 1 => Just(80.0)],
        prop_oneof![8 => Just(4usize), 1 => Just(8)],
    );
    let operand =
        operand.prop_map(|(level, log2_scale, slots)| Operand { level, log2_scale, slots });
    [operand.clone(), operand.clone(), operand]
}

fn operations() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let value = prop_oneof![-8.0..8.0f64, Just(f64::NAN), Just(1e300), Just(1e20)];
    // Integers are limited to 2^127.
    let scale = prop_oneof![Just(40.0), 0.0..200.0f64, 125.0..129.0f64, Just(f64::NAN)];
    let level = 0..HIGHEST + 2;
    let slots = prop_oneof![Just(4usize), Just(8), Just(3)];
    prop_oneof![
        prop_oneof![Just(Add), Just(Sub), Just(Mul), Just(MulRescale), Just(MulSum)],
        value.clone().prop_map(AddConst),
        (value.clone(), scale.clone()).prop_map(|(c, s)| MulConst(c, s)),
        (value, scale.clone()).prop_map(|(c, s)| MulConstSum(c, s)),
        slots.clone().prop_map(AddPlain),
        (slots, scale.clone()).prop_map(|(n, s)| MulPlain(n, s)),
        prop_oneof![Just(Rescale), Just(Rotate)],
        level.clone().prop_map(DropTo),
        (level.clone(), scale.clone()).prop_map(|(l, s)| MatchScale(l, s)),
        scale.prop_map(WithScale),
        (0..40u32).prop_map(WithLogSlots),
        (level, prop_oneof![Just(None), Just(Some(32))]).prop_map(|(l, w)| ModRaise(l, w)),
    ]
}

fn run<E: ComplexOps>(e: &E, [a, b, c]: &[E::Ct; 3], operation: Operation) -> Result<E::Ct> {
    use Operation::*;
    let vector = |n: usize| vec![Complex::new(0.5, 0.0); n];
    let scaled = Scale::from_log2;
    match operation {
        Add => e.add(a, b),
        Sub => e.sub(a, b),
        Mul => e.mul(a, b),
        MulRescale => e.mul_rescale(a, b),
        MulSum => {
            e.mul_sum_rescale(&ProductSum { products: vec![(a, b), (a, a)], addend: Some(c) })
        }
        AddConst(x) => e.add_const(a, Complex::new(x, 0.0)),
        MulConst(x, scale) => e.mul_const(a, Complex::new(x, 0.0), scaled(scale)),
        MulConstSum(x, scale) => e.mul_const_sum(&[(a, x, scaled(scale)), (b, 0.5, scaled(scale))]),
        AddPlain(n) => e.add_plain(a, &vector(n)),
        MulPlain(n, scale) => e.mul_plain(a, &vector(n), scaled(scale)),
        Rescale => {
            let mut a = a.clone();
            e.rescale_assign(&mut a).map(|()| a)
        }
        DropTo(level) => {
            let mut a = a.clone();
            e.drop_to(&mut a, Level(level)).map(|()| a)
        }
        MatchScale(level, scale) => e.match_scale(a, Level(level), scaled(scale)),
        WithScale(scale) => e.with_scale(a, scaled(scale)),
        WithLogSlots(log_slots) => e.with_log_slots(a, log_slots),
        Rotate => e.automorphism(a, GaloisElement::rotation(LOG_N, 1)),
        ModRaise(level, weight) => e.mod_raise(a, Level(level), weight),
    }
}

/// Level, scale and slots of the result, or the error; as text, in which NaN equals itself. By how
/// much a vector is too large, encryption knows of its coefficients and simulation of its slots.
fn outcome<E: ComplexOps>(e: &E, operands: &[E::Ct; 3], operation: Operation) -> String {
    match run(e, operands, operation) {
        Err(Error::ValueTooLarge { .. }) => "too large".into(),
        result => {
            let form = |a| (e.level(&a), <(f64, f64)>::from(e.scale(&a)), e.log_slots(&a));
            format!("{:?}", result.map(form))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn encrypted_in_the_clear_and_counted(operands in operands(), operation in operations()) {
        let s = &*SESSION;
        let clear = sim::Evaluator::new(LOG_N, s.params.chain().clone());
        let counted = cost::Evaluator::new(&s.params, &KeyRequest::new());
        let values = |slots| vec![Complex::new(0.25, 0.0); slots];
        let simulated = operands.map(|Operand { level, log2_scale, slots }| {
            // Above the top nothing is encrypted, only raised.
            let top = Level(level.min(TOP));
            let level = Level(level);
            let fresh = clear.encrypt(&values(slots), top, Scale::from_log2(log2_scale));
            fresh.and_then(|fresh| match level > top {
                true => clear.mod_raise(&fresh, level, None),
                false => Ok(fresh),
            })
        });
        let [Ok(a), Ok(b), Ok(c)] = simulated else { return Ok(()) };
        let simulated = [a, b, c];
        let encrypted = operands.map(|Operand { level, log2_scale, slots }| {
            let top = Level(level.min(TOP));
            let level = Level(level);
            let plain = s.encoder.encode_at(&values(slots), top, Scale::from_log2(log2_scale)).unwrap();
            let fresh = s.encryptor.encrypt(&plain).unwrap();
            if level > top { s.evaluator.mod_raise(&fresh, level).unwrap() } else { fresh }
        });
        let expected = outcome(&s.evaluator, &encrypted, operation);
        // Keys do not exist above the top. Simulation does not know this.
        prop_assume!(!expected.contains("MissingRelinearizationKey"));
        prop_assume!(!expected.contains("MissingGaloisKey"));
        prop_assert_eq!(&outcome(&clear, &simulated, operation), &expected);
        prop_assert_eq!(&outcome(&counted, &simulated, operation), &expected);
    }
}
