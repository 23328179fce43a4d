//! Jobs of several key holders, none of whom decrypts alone, at full size.

use std::{io::Read, sync::Arc};
use sudare::{
    ckks::{Ciphertext, Encoder, Encryptor, Evaluator, Opening, Params, Spec},
    rlwe::{
        EvaluationKeys, KeyRequest, PublicKey,
        shared::{Ceremony, Commitment, FirstSums, Joined, Pieces, Sharing, combine},
    },
};
use sudare_apps::pool::{Schema, Sums, SumsPlan};
use sudare_arith::prng::Seed;
use sudare_table::{EncodingOptions, Frame, Table};

/// The key holders of a ceremony after it, and the joint keys.
struct Holders {
    ceremony: Ceremony,
    commitments: Vec<Commitment>,
    roots: Vec<Seed>,
    public: Arc<PublicKey>,
    evaluation: Arc<EvaluationKeys>,
}

impl Holders {
    fn new(params: &Params, sharing: &Sharing, request: &KeyRequest) -> Self {
        let ceremony = Ceremony::new(params.rlwe(), sharing, request, [5; 32]).unwrap();
        let roots: Vec<Seed> = (0..sharing.parties()).map(|_| Seed::random().unwrap()).collect();
        let join = |(i, root)| Joined::new(&ceremony, i, root).unwrap();
        let joined: Vec<Joined> = roots.iter().enumerate().map(join).collect();
        let commitments: Vec<Commitment> =
            joined.iter().map(|joined| joined.commitment().unwrap()).collect();
        let mut first = Vec::new();
        let mut shared = Vec::new();
        for joined in joined {
            let mut message = Vec::new();
            shared.push(joined.share(&commitments, &mut message).unwrap());
            first.push(message);
        }
        let read = |messages: &[Vec<u8>]| -> Vec<Box<dyn Read>> {
            let copy = |message: &Vec<u8>| {
                Box::new(std::io::Cursor::new(message.clone())) as Box<dyn Read>
            };
            messages.iter().map(copy).collect()
        };
        let sums = FirstSums::read(&ceremony, &commitments, read(&first)).unwrap();
        let last: Vec<Vec<u8>> = shared
            .into_iter()
            .map(|shared| {
                let mut message = Vec::new();
                shared.finish(&sums, &mut message).unwrap();
                message
            })
            .collect();
        let keys = combine(&ceremony, &commitments, read(&first), read(&last)).unwrap();
        let public = Arc::new(keys.public);
        let evaluation = Arc::new(keys.evaluation);
        Self { ceremony, commitments, roots, public, evaluation }
    }

    fn pieces(&self, party: usize) -> Pieces {
        let sharing = self.ceremony.sharing();
        let others = (0..sharing.parties()).filter(|&other| other != party);
        let dealt = others.flat_map(|other| {
            Joined::new(&self.ceremony, other, &self.roots[other]).unwrap().pieces().unwrap()
        });
        let received: Vec<_> = dealt.filter(|&(piece, _)| sharing.holds(party, piece)).collect();
        let root = &self.roots[party];
        Pieces::new(&self.ceremony, party, root, &received, &self.commitments).unwrap()
    }

    /// Opens a result by a set of key holders, and returns its slots and the deviation of their
    /// noise.
    fn open(&self, params: &Params, a: &Ciphertext, error: f64, set: &[usize]) -> (Vec<f64>, f64) {
        let opening =
            || Opening::new(&self.ceremony, params, a, params.max_slots(), error, set).unwrap();
        let share = |&party: &usize| opening().share(&self.pieces(party)).unwrap();
        let shares: Vec<_> = set.iter().map(share).collect();
        let plain = opening().open(&shares).unwrap();
        (Encoder::new(params).decode_real(&plain).unwrap(), opening().deviation())
    }
}

/// Rows of a table as the file of their owner has them, with the target last.
fn rows(table: &Table, owned: impl Fn(usize) -> bool) -> Frame {
    let names = table.columns().iter().map(String::as_str).chain(table.target());
    let members = table.members().unwrap();
    let class = |row: usize| table.classes().unwrap()[members[row] as usize].parse().unwrap();
    let rows = table.iter_rows().enumerate().filter(|&(row, _)| owned(row));
    let numbers = rows.flat_map(|(row, values)| [values, &[class(row)]].concat());
    Frame::new(names.map(|name| (name.to_owned(), None)).collect(), numbers.collect()).unwrap()
}

/// Three owners of rows are the key holders. They learn the statistics of all rows, exactly, and no
/// party decrypts alone: all of three open the total, or any two of three.
#[test]
fn totals_of_three_owners_need_no_trusted_holder() {
    let table = Table::bundled("lbw").unwrap();
    let frames = [0, 1, 2].map(|third| rows(&table, |row| row % 3 == third));
    let names = ["north", "south", "west"].map(str::to_owned);
    let whole = rows(&table, |_| true);
    let options = EncodingOptions::default();
    let schema = Schema::draft(&whole, table.target(), &options, &names).unwrap();
    let mut expected = Vec::new();
    for (threshold, set) in [(3, vec![0, 1, 2]), (2, vec![0, 2])] {
        let sharing = Sharing::new(3, threshold).unwrap();
        let spec = Spec::uniform(13, 60.0, 1, 40.0, vec![60.0]);
        let params = Params::new(Spec { secret: sharing.distribution(), ..spec }).unwrap();
        assert!(params.rlwe().security_bits() >= 128.0);
        let holders = Holders::new(&params, &sharing, &KeyRequest::new());
        let plan = SumsPlan::new(&schema, true, 189, &params).unwrap();
        let encryptor = Encryptor::new(&params, Arc::clone(&holders.public)).unwrap();
        let evaluator = Evaluator::new(&params, Arc::clone(&holders.evaluation)).unwrap();
        let mut total = Vec::new();
        for (owner, frame) in frames.iter().enumerate() {
            let sums = Sums::of(&schema, &schema.apply(frame).unwrap(), true).unwrap();
            let encrypted = plan.encrypt(&encryptor, owner, &sums).unwrap();
            plan.add(&evaluator, &mut total, encrypted).unwrap();
        }
        let error = plan.largest_error();
        let open = |part| holders.open(&params, part, error, &set);
        let opened: Vec<(Vec<f64>, f64)> = total.iter().map(open).collect();
        // The noise of the holders is far above the bound of the error.
        assert!(opened[0].1 > error * 2f64.powi(26));
        let slots: Vec<Vec<f64>> = opened.into_iter().map(|(slots, _)| slots).collect();
        let statistics = plan.decode(&slots).unwrap().statistics();
        assert_eq!(statistics.rows, 189);
        // Exact sums do not depend on who opens.
        if expected.is_empty() {
            expected = statistics.mean.clone();
            for (j, mean) in expected.iter().enumerate() {
                let exact = table.column(j).sum::<f64>() / 189.0;
                assert!((mean - exact).abs() < 1e-9 * exact.abs().max(1.0), "{mean} {exact}");
            }
        }
        assert_eq!(statistics.mean, expected);
        // The total without one owner is refused, as with one key holder.
        let mut fewer = Vec::new();
        for (owner, frame) in frames.iter().take(2).enumerate() {
            let sums = Sums::of(&schema, &schema.apply(frame).unwrap(), true).unwrap();
            let encrypted = plan.encrypt(&encryptor, owner, &sums).unwrap();
            plan.add(&evaluator, &mut fewer, encrypted).unwrap();
        }
        let slots: Vec<Vec<f64>> =
            fewer.iter().map(|part| holders.open(&params, part, error, &set).0).collect();
        assert!(plan.decode(&slots).is_err());
    }
}
