use std::sync::Arc;

use proptest::prelude::*;
use sudare::{
    ckks::{Decryptor, Evaluator, Spec},
    rlwe::{EvaluationKeys, KeyGenerator},
};
use sudare_table::Table;

use super::{super::testkit, *};

struct Parties {
    params: Params,
    encryptor: Encryptor,
    decryptor: Decryptor,
    evaluator: Evaluator,
}

impl Parties {
    /// Creates parties under one prime of `base_bits` bits.
    fn new(log_n: u32, base_bits: f64) -> Self {
        let spec = Spec::uniform(log_n, base_bits, 0, 20.0, vec![base_bits]);
        let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = Arc::new(EvaluationKeys::none(params.rlwe(), secret.id()));
        Self {
            encryptor: Encryptor::new(&params, public).unwrap(),
            decryptor: Decryptor::new(&params, secret).unwrap(),
            evaluator: Evaluator::new(&params, keys).unwrap(),
            params,
        }
    }

    fn plan(&self, schema: &Schema, by_class: bool) -> SumsPlan {
        SumsPlan::new(schema, by_class, 1000, &self.params).unwrap()
    }

    fn slots(&self, total: &[Ciphertext]) -> Vec<Vec<f64>> {
        let encoder = Encoder::new(&self.params);
        let decode = |part| encoder.decode_real(&self.decryptor.decrypt(part).unwrap()).unwrap();
        total.iter().map(decode).collect()
    }

    /// Returns the total of some owners' ciphertexts. Each owner has its own table.
    fn total(&self, plan: &SumsPlan, owners: &[usize]) -> Vec<Ciphertext> {
        let mut total = Vec::new();
        for &owner in owners {
            let sums = sums(plan, owner);
            let sent = plan.encrypt(&self.encryptor, owner, &sums).unwrap();
            assert_eq!(sent.len(), plan.ciphertexts());
            plan.add(&self.evaluator, &mut total, sent).unwrap();
        }
        total
    }

    fn decoded(&self, plan: &SumsPlan, owners: &[usize]) -> Result<Totals, PoolError> {
        plan.decode(&self.slots(&self.total(plan, owners)))
    }
}

/// Returns the sums of an owner's table, which has 5 rows or more.
fn sums(plan: &SumsPlan, owner: usize) -> Sums {
    let table = testkit::mixed(5 + owner % 7, owner as u8);
    Sums::of(&plan.schema, &table, plan.shape.groups > 1).unwrap()
}

fn in_the_clear(plan: &SumsPlan, owners: usize) -> Totals {
    let mut total = sums(plan, 0);
    (1..owners).for_each(|owner| total.add(&sums(plan, owner)).unwrap());
    Totals::new(&plan.schema, total).unwrap()
}

#[test]
fn totals_are_exact() {
    for (log_n, base_bits) in [(8, 30.0), (11, 36.0), (11, 60.0)] {
        let parties = Parties::new(log_n, base_bits);
        for owners in [1, 3] {
            for by_class in [false, true] {
                let plan = parties.plan(&testkit::schema(owners), by_class);
                let all: Vec<usize> = (0..owners).rev().collect();
                let found = parties.decoded(&plan, &all).unwrap();
                assert_eq!(found, in_the_clear(&plan, owners));
            }
        }
    }
}

#[test]
fn a_thousand_owners() {
    let parties = Parties::new(11, 50.0);
    let schema = testkit::schema(1000);
    let plan = parties.plan(&schema, false);
    let all: Vec<usize> = (0..1000).collect();
    let mut total = parties.total(&plan, &all[1..]);
    let missing = PoolError::OwnerMissing { owner: "owner 0".into() };
    assert_eq!(plan.decode(&parties.slots(&total)), Err(missing));
    let first = plan.encrypt(&parties.encryptor, 0, &sums(&plan, 0)).unwrap();
    plan.add(&parties.evaluator, &mut total, first.clone()).unwrap();
    let slots = parties.slots(&total);
    assert_eq!(plan.decode(&slots).unwrap(), in_the_clear(&plan, 1000));
    // Errors are below a quarter of a step with the planned margin, and the margin is not much
    // larger.
    let step = plan.step();
    let errors = slots.iter().flatten().map(|slot| (slot / step - (slot / step).round()).abs());
    let largest = errors.fold(0.0, f64::max);
    assert!((0.005..0.25).contains(&largest), "{largest}");
    plan.add(&parties.evaluator, &mut total, first).unwrap();
    let repeated = PoolError::OwnerRepeated { owner: "owner 0".into(), times: 2 };
    assert_eq!(plan.decode(&parties.slots(&total)), Err(repeated));
}

#[test]
fn totals_have_each_owner_once() {
    let parties = Parties::new(10, 45.0);
    let plan = parties.plan(&testkit::schema(3), true);
    let missing = |owner: &str| Err(PoolError::OwnerMissing { owner: owner.into() });
    let repeated =
        |owner: &str, times| Err(PoolError::OwnerRepeated { owner: owner.into(), times });
    for (owners, expected) in [
        (&[0, 2][..], missing("owner 1")),
        (&[2], missing("owner 0")),
        (&[0, 1, 2, 1], repeated("owner 1", 2)),
        (&[0, 2, 2], repeated("owner 2", 2)),
        (&[0, 0, 0], repeated("owner 0", 3)),
    ] {
        assert_eq!(parties.decoded(&plan, owners), expected, "{owners:?}");
    }
    let empty = vec![vec![0.0; parties.params.max_slots()]; plan.ciphertexts()];
    assert_eq!(plan.decode(&empty), missing("owner 0"));
}

#[test]
fn other_schemas_and_plans_are_refused() {
    let parties = Parties::new(10, 45.0);
    let schema = testkit::schema(2);
    let plan = parties.plan(&schema, false);
    // A schema of the same shape, with other bounds.
    let text = schema.to_json().unwrap().replace("1234.5", "1234.0");
    let other = parties.plan(&Schema::from_json(&text).unwrap(), false);
    let rows = SumsPlan::new(&schema, false, 1001, &parties.params).unwrap();
    assert_eq!(other.ciphertexts(), plan.ciphertexts());
    assert_eq!(rows.ciphertexts(), plan.ciphertexts());
    for other in [&other, &rows] {
        let mut total = parties.total(&plan, &[0]);
        let sent = other.encrypt(&parties.encryptor, 1, &sums(other, 1)).unwrap();
        plan.add(&parties.evaluator, &mut total, sent).unwrap();
        let slots = parties.slots(&total);
        assert!(matches!(plan.decode(&slots), Err(PoolError::OtherSchema { .. })));
        let slots = parties.slots(&parties.total(&plan, &[0, 1]));
        assert!(matches!(other.decode(&slots), Err(PoolError::OtherSchema { .. })));
    }
    let refused = plan.encrypt(&parties.encryptor, 0, &sums(&other, 0)).unwrap_err();
    assert_eq!(refused, PoolError::OtherSchema { what: "the sums".into() });
    let by_class = Sums::of(&schema, &testkit::mixed(9, 1), true).unwrap();
    let refused = plan.encrypt(&parties.encryptor, 0, &by_class).unwrap_err();
    assert_eq!(refused, PoolError::OtherSchema { what: "the sums".into() });
    let refused = plan.encrypt(&parties.encryptor, 2, &sums(&plan, 0)).unwrap_err();
    let owners = "owner 0, owner 1".to_owned();
    assert_eq!(refused, PoolError::UnknownOwner { owner: "2".into(), owners });
    let many = Sums::of(&schema, &testkit::mixed(1001, 1), false).unwrap();
    let refused = plan.encrypt(&parties.encryptor, 0, &many).unwrap_err();
    assert_eq!(refused, PoolError::Count { what: "rows", found: 1001, least: 1, most: 1000 });
}

/// A change of decrypted slots.
type Change<'a> = &'a dyn Fn(&mut Vec<Vec<f64>>);

#[test]
fn damage_is_noticed() {
    let parties = Parties::new(7, 45.0);
    let plan = parties.plan(&testkit::schema(2), false);
    assert!(plan.ciphertexts() > 2);
    let total = parties.total(&plan, &[0, 1]);
    let slots = parties.slots(&total);
    let good = plan.decode(&slots).unwrap();
    let step = plan.step();
    let header = 2 * plan.mark_width();
    let decode = |change: Change<'_>| {
        let mut slots = slots.clone();
        change(&mut slots);
        plan.decode(&slots)
    };
    assert_eq!(decode(&|slots| slots[1][header] += 0.2 * step), Ok(good));
    let cases: [(Change<'_>, &str); 9] = [
        (&|slots| slots[1][header + 3] += 0.5 * step, "slot"),
        (&|slots| slots[0][0] = f64::NAN, "slot 0 of ciphertext 0 holds no limb"),
        (&|slots| slots[0][0] = f64::INFINITY, "slot 0 of ciphertext 0 holds no limb"),
        (&|slots| slots[0][0] = -step, "slot 0 of ciphertext 0 holds no limb"),
        (&|slots| slots[2][5] = 1e9, "slot 5 of ciphertext 2 holds no limb"),
        (&|slots| slots[1][header - 1] += step, "different encryptions"),
        // The highest limb of the rows of the first class.
        (&|slots| slots[0][header + 2] = 3.0, "its sums are impossible"),
        (&|slots| slots[0][header + 2] = 0.0, "its sums are impossible"),
        (
            &|slots| {
                if let Some(last) = slots.last_mut().and_then(|slots| slots.last_mut()) {
                    *last += step;
                }
            },
            "must be empty",
        ),
    ];
    for (change, part) in cases {
        match decode(change) {
            Err(PoolError::Damaged { problem }) => assert!(problem.contains(part), "{problem}"),
            other => panic!("{part}: {other:?}"),
        }
    }
    // Squares whose sum is 0.
    let first = header + 2 + 3 * plan.width(0) + 6 * plan.width(1);
    let zero = |slots: &mut Vec<Vec<f64>>| {
        let mut limbs = Vec::new();
        push_limbs(&mut limbs, &(offset(1000, 2) * 2), plan.coding.bits, plan.width(2));
        slots[0][first..].iter_mut().zip(limbs).for_each(|(slot, limb)| *slot = limb as f64 * step);
    };
    assert!(matches!(decode(&zero), Err(PoolError::Damaged { .. })));
    for change in [
        &(|slots: &mut Vec<Vec<f64>>| slots.swap(0, 1)) as Change<'_>,
        &|slots| slots[1] = slots[2].clone(),
        &|slots| slots[0][1] += step,
        &|slots| slots.iter_mut().flatten().for_each(|slot| *slot += step),
    ] {
        assert!(matches!(decode(change), Err(PoolError::OtherSchema { .. })));
    }
    // A ciphertext of another encryption by the same owner.
    let mut mixed = parties.total(&plan, &[0]);
    mixed[1] = parties.total(&plan, &[0])[1].clone();
    plan.add(&parties.evaluator, &mut mixed, parties.total(&plan, &[1])).unwrap();
    match plan.decode(&parties.slots(&mixed)) {
        Err(PoolError::Damaged { problem }) => assert!(problem.contains("mixed"), "{problem}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_as_planned_is_refused() {
    let parties = Parties::new(8, 45.0);
    let plan = parties.plan(&testkit::schema(2), false);
    let total = parties.total(&plan, &[0, 1]);
    let slots = parties.slots(&total);
    let refused = |result: Result<(), PoolError>, quantity: &str| match result {
        Err(PoolError::NotAsPlanned { what, .. }) => assert_eq!(what, quantity),
        other => panic!("{quantity}: {other:?}"),
    };
    let decode = |slots: &[Vec<f64>]| plan.decode(slots).map(|_| ());
    refused(decode(&[]), "ciphertexts");
    refused(decode(&slots[1..]), "ciphertexts");
    let mut short = slots.clone();
    short[1].pop();
    refused(decode(&short), "slots");

    let add = |owner| plan.add(&parties.evaluator, &mut total.clone(), owner);
    refused(add(Vec::new()), "ciphertexts");
    refused(plan.add(&parties.evaluator, &mut total[1..].to_vec(), total.clone()), "ciphertexts");
    let encoder = Encoder::new(&parties.params);
    let fresh = |slots: usize, scale| {
        let plain = encoder.encode_real_at(&vec![0.0; slots], Level(0), scale).unwrap();
        vec![parties.encryptor.encrypt(&plain).unwrap(); plan.ciphertexts()]
    };
    refused(add(fresh(64, plan.coding.scale)), "slots");
    refused(add(fresh(128, Scale::from_log2(20.0))), "scale");
    let stranger = Parties::new(8, 45.0);
    let foreign = stranger.total(&plan, &[0]);
    assert!(matches!(add(foreign), Err(PoolError::Library(_))));
    let other = Parties::new(9, 45.0);
    let sums = sums(&plan, 0);
    assert!(matches!(plan.encrypt(&other.encryptor, 0, &sums), Err(PoolError::Library(_))));
}

#[test]
fn impossible_plans_are_refused() {
    let schema = testkit::schema(1000);
    let params = |log_n, bits| Parties::new(log_n, bits).params;
    let rows = |rows| SumsPlan::new(&schema, false, rows, &params(8, 50.0)).map(|_| ());
    let most = Sums::MAX_ROWS as usize / 1000;
    for found in [0, usize::MAX, most + 1] {
        assert!(matches!(rows(found), Err(PoolError::Count { what: "rows", .. })), "{found}");
    }
    assert_eq!(rows(most), Ok(()));
    match SumsPlan::new(&schema, false, 10, &params(11, 32.0)) {
        Err(PoolError::ParamsTooSmall { owners: 1000, log_n: 11, needed, found }) => {
            assert!(needed > found && (31.0..33.0).contains(&found), "{needed} {found}");
            // This number of owners fits.
            assert!(SumsPlan::new(&schema, false, 10, &params(11, needed.ceil() + 0.1)).is_ok());
        }
        other => panic!("{other:?}"),
    }
    let refused = SumsPlan::new(&schema, false, 10, &params(4, 36.0)).unwrap_err();
    assert!(matches!(refused, PoolError::RingTooSmall { found: 8, needed: 8.. }), "{refused:?}");
}

#[test]
fn higher_levels_are_taken_where_ciphertexts_are_smaller_there() {
    let spec = Spec::uniform(11, 36.0, 2, 25.0, vec![50.0]);
    let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
    let level = |owners| {
        let plan = SumsPlan::new(&testkit::schema(owners), false, 1000, &params).unwrap();
        plan.coding.level
    };
    assert_eq!((level(1), level(1000)), (Level(0), Level(1)));
}

proptest! {
    /// Limbs of numbers of any sign add up to the limbs of their sum.
    #[test]
    fn limbs_add_up(
        numbers in prop::collection::vec((any::<i128>(), any::<u32>()), 1..20),
        bits in 1..=MAX_LIMB_BITS,
    ) {
        let bound = BigInt::from(1) << 160;
        let width = 162_u64.div_ceil(bits.into()) as usize;
        let mut limbs = vec![0; width];
        let mut expected = BigInt::ZERO;
        for (number, factor) in &numbers {
            let number = BigInt::from(*number) * *factor;
            let mut own = Vec::new();
            push_limbs(&mut own, &(&number + &bound), bits, width);
            prop_assert!(own.len() == width && own.iter().all(|limb| limb >> bits == 0));
            limbs.iter_mut().zip(own).for_each(|(sum, limb)| *sum += limb);
            expected += number;
        }
        let found = limbs.iter().rev().fold(BigInt::ZERO, |sum, limb| (sum << bits) + limb);
        prop_assert_eq!(found - bound * numbers.len(), expected);
    }
}

#[test]
fn tables_without_a_target_are_summed_too() {
    let mut document: serde_json::Value =
        serde_json::from_str(&testkit::schema(1).to_json().unwrap()).unwrap();
    document["target"] = serde_json::Value::Null;
    let schema = Schema::from_json(&document.to_string()).unwrap();
    let parties = Parties::new(8, 45.0);
    let plan = parties.plan(&schema, true);
    let labelled = testkit::mixed(50, 1);
    let columns = labelled.columns().to_vec();
    let values = labelled.values().to_vec();
    let table = Table::new(columns, values, None).unwrap();
    let sums = Sums::of(&schema, &table, true).unwrap();
    let sent = plan.encrypt(&parties.encryptor, 0, &sums).unwrap();
    let totals = plan.decode(&parties.slots(&sent)).unwrap();
    assert_eq!((totals.class_counts(), totals.rows()), (vec![50], 50));
    assert_eq!(totals, Totals::new(&schema, sums).unwrap());
}
