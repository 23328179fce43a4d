use crate::{assert_listed, section};
use sudare_apps::{
    Error,
    array::ArrayError,
    logreg::TrainError,
    nn::NnError,
    pool::PoolError,
    search::{self, SearchError},
    stats::StatsError,
    trees::TreesError,
};
use sudare_table::{Place, TableError};

fn library() -> sudare::Error {
    sudare::Error::TooManySlots { found: 5000, slots: 4096 }
}

fn arrays() -> Vec<ArrayError> {
    vec![
        ArrayError::Library(library()),
        ArrayError::Empty { shape: vec![3, 0], axis: 1 },
        ArrayError::TooLarge { shape: vec![1 << 21, 1 << 20] },
        ArrayError::InvalidLayout { problem: "3 fields for 2 axes in 2^13 slots".into() },
        ArrayError::Blocks { what: "number of blocks", found: "3".into(), needed: "2".into() },
        ArrayError::Shapes { op: "add", left: vec![3, 4], right: vec![4, 3] },
        ArrayError::Axis { op: "sum", axis: 2, ndim: 2 },
        ArrayError::Range { op: "slice", axis: 0, size: 10, start: 7, end: 12 },
        ArrayError::Values { found: 11, shape: vec![3, 4] },
        ArrayError::NotFinite { op: "multiply", index: 3, value: "NaN".into() },
        ArrayError::Argument {
            op: "power",
            problem: "power 0 is 1 for all inputs: use a power of 1 or more".into(),
        },
        ArrayError::SlotRows { op: "swap rows", shape: vec![3, 5], columns: 4096 },
        ArrayError::TooManyDiagonals { op: "reshape", found: 5000, most: 4096 },
        ArrayError::LevelExhausted { op: "multiply", needed: 2, left: 1 },
        ArrayError::LevelExhausted { op: "multiply", needed: 1, left: 0 },
        ArrayError::BeyondBound { op: "multiply", found: 40.0, most: 1.0 },
        ArrayError::OutOfRoom { op: "multiply", low: -4e6, high: 4e6, most: 1e6, level: 1 },
        ArrayError::OutsideInterval {
            op: "sigmoid",
            low: -20.0,
            high: 20.0,
            start: -8.0,
            end: 8.0,
        },
        ArrayError::OutsideRange { op: "within", index: 3, value: 2.5, low: -1.0, high: 1.0 },
        ArrayError::OutsideIntegers { index: 3, value: 300, low: 0, high: 255 },
        ArrayError::TableRange { op: "compare", low: -5000, high: 5000, count: 10_001, most: 4096 },
        ArrayError::Overflow { excess_bits: 2.5 },
        ArrayError::IntervalUnchecked { found: 1.25 },
    ]
}

fn stats() -> Vec<StatsError> {
    vec![
        StatsError::Library(library()),
        StatsError::Empty { rows: 0, features: 3 },
        StatsError::TooFew { what: "bins", found: 1, needed: 2 },
        StatsError::TooLarge { what: "groups", found: 2000, limit: 1024 },
        StatsError::ParamsTooSmall {
            what: "the variance",
            levels: 1,
            rows: 1 << 20,
            log2_q: 60.0,
            log2_scale: 40.0,
        },
        StatsError::Rows { found: 200, most: 189 },
        StatsError::Shape { what: "ciphertexts", found: 1, needed: 2 },
        StatsError::OutOfRange { output: 3, rows: 189, found: 250.5 },
        StatsError::Scaling { column: 2, centre: 0.5, half_range: -1.0 },
        StatsError::Column { found: 9, columns: 9 },
        StatsError::Group { found: 3, groups: 3 },
        StatsError::GroupKey { found: 9_007_199_254_740_993.0 },
        StatsError::Edges {
            column: "age".into(),
            problem: "edge 2 is 30, not above edge 1, 40".into(),
        },
        StatsError::Quantile { found: 1.5 },
        StatsError::Weights { column: 2, mean: 0.001, error: 0.02 },
        StatsError::Sample { count: 1, mean: 2.5, variance: 0.0, variance_error: 1e-6 },
        StatsError::SharedBits { found: 60 },
        StatsError::Regression { problem: "a column depends on others".into() },
    ]
}

fn train() -> Vec<TrainError> {
    vec![
        TrainError::Iterations,
        TrainError::Batch,
        TrainError::Workers,
        TrainError::Tables { found: 0 },
        TrainError::Classes { found: 1 },
        TrainError::Penalty { name: "alpha", found: -1.0, needed: "finite and 0 or more" },
        TrainError::ClassWeight { found: 0.0 },
        TrainError::ClassWeightCount { found: 2, needed: 3 },
        TrainError::NoClassWeights,
        TrainError::UnplannedClassWeights,
        TrainError::SharedBits { found: 60 },
        TrainError::LearningRate { found: 0.0 },
        TrainError::Range { found: 300.0 },
        TrainError::Degree { found: 4 },
        TrainError::Empty,
        TrainError::Diverged { iteration: 4, largest: 1e200 },
    ]
}

fn plans() -> Vec<Error> {
    vec![
        Error::Library(library()),
        Error::Table(TableError::NoTarget),
        Error::Train(TrainError::Iterations),
        Error::TooManyIterations { found: 40, needed: 161, log_n: 15, fit: 5 },
        Error::TooManyIterations { found: 1, needed: 5, log_n: 12, fit: 0 },
        Error::TooManyFeatures { found: 5000, log_n: 13, fit: 4095 },
        Error::Precision { what: "a score", found: 12.3, needed: 20.0 },
        Error::RangeUnchecked { range: 8.0, weight: 512.0 },
        Error::NotScorable,
        Error::TooMuchWork { found: 1 << 33, limit: 1 << 31 },
        Error::ScoresTooLarge { found: 11.2, range: 8.0 },
        Error::InnerProductsTooLarge { found: 11.2, iteration: 2, range: 8.0 },
        Error::TooManyToCorrelate { found: 5000, most: 1024 },
        Error::TableClasses { found: 3, needed: 2 },
        Error::TableShape { rows: 200, features: 8, needed_rows: 189, needed_features: 9 },
        Error::NotAsPlanned {
            what: "level of the encrypted table",
            found: "3".into(),
            needed: "5".into(),
        },
        Error::Finished { iterations: 5 },
    ]
}

fn rows() -> Vec<Error> {
    vec![
        Error::WeightsTooLarge { found: 1000.0, most: 512.0 },
        Error::RowsTooHeavy { found: 20.5, most: 8.0 },
        Error::FeatureTooLarge { row: 17, column: "age".into(), found: 40.5, most: 16.0 },
        Error::RowTooLarge { row: 17, column: "age".into(), found: 40.5, most: 16.0 },
        Error::WeightTooLarge { found: 1000.5, most: 512.0 },
        Error::TransformColumns { found: 8, needed: 9 },
        Error::OtherDirections { part: 0.05 },
        Error::NoteTooLong { found: 20_000, max: 16_384 },
        Error::DamagedNote { problem: "its checksum is wrong".into() },
    ]
}

fn networks() -> Vec<NnError> {
    vec![
        NnError::Library(library()),
        NnError::Layer {
            layer: 2,
            name: "dense",
            problem: "it has 3 inputs, but the layer before has 4 outputs".into(),
        },
        NnError::Network { problem: "has 0 layers; 1 to 256 are possible".into() },
        NnError::Shape { what: "features of a sample", found: 63, needed: "64".into() },
        NnError::OutOfRange {
            what: "feature",
            index: 3,
            sample: 0,
            found: 20.0,
            least: 0.0,
            most: 16.0,
        },
        NnError::TooDeep { levels: 40, log2_q: 2000.0, log_n: 17 },
        NnError::DeepActivation { needed: 14, left: 10 },
        NnError::NotAsPlanned { what: "level of a sample", found: "3".into(), needed: "5".into() },
        NnError::Onnx { problem: "it ends early".into() },
        NnError::Operator {
            node: "/fc/Softmax".into(),
            operator: "Softmax".into(),
            instead: "leave it out, and apply it to decrypted results".into(),
        },
    ]
}

fn searches() -> Vec<SearchError> {
    vec![
        SearchError::Library(library()),
        SearchError::Count { what: "matches", found: 0, least: 1, most: 1024 },
        SearchError::Number {
            what: "a threshold",
            found: 1.1,
            needed: "-1 to 1 is possible".into(),
        },
        SearchError::Shape { what: "slots of scores", found: 4096, needed: 8192 },
        SearchError::Vector {
            place: search::Place::Query,
            problem: "it has 127 coordinates, but the plan is for 128".into(),
        },
        SearchError::Vector {
            place: search::Place::Row(17),
            problem: "its norm is 2, but the plan is for norms of at most 1".into(),
        },
        SearchError::NotAsPlanned {
            what: "the query",
            found: "level 3".into(),
            needed: "level 5".into(),
        },
        SearchError::NotPlanned { asked: "matches", planned: "scores" },
        SearchError::BlockOrder { found: 2, needed: 1 },
        SearchError::TooFewLevels { found: 3, needed: 9 },
        SearchError::Precision { what: "a score", found: 0.02, needed: 0.001 },
        SearchError::Unreadable { block: 0, part: 1, problem: "it is not there".into() },
    ]
}

fn trees() -> Vec<TreesError> {
    vec![
        TreesError::Library(library()),
        TreesError::Format { format: "LightGBM", problem: "its first line is not \"tree\"".into() },
        TreesError::Forest { problem: "has 0 trees: 1 to 16384 are possible".into() },
        TreesError::Node {
            tree: 3,
            node: 5,
            problem: "a threshold is NaN: train without it".into(),
        },
        TreesError::Grid {
            feature: "age".into(),
            problem: "0 points: 1 to 4294967296 are possible".into(),
        },
        TreesError::Row { feature: "age".into(), row: 17, found: 130.0, least: 0.0, most: 120.0 },
        TreesError::Count { what: "features of a row", found: 3, needed: 4 },
        TreesError::TooDeep { height: 63, digits: 8, levels: 15 },
        TreesError::Tolerance { tolerance: 1e-30, least: 1e-9 },
        TreesError::NotAsPlanned {
            what: "the model",
            found: "3 features".into(),
            needed: "4 features".into(),
        },
    ]
}

fn pools() -> Vec<PoolError> {
    let place = Place::Line(17);
    vec![
        PoolError::Library(library()),
        PoolError::Table(TableError::NoTarget),
        PoolError::Schema { problem: "it has 1025 columns, but 1 to 1024 are possible".into() },
        PoolError::FilledByMean,
        PoolError::UnknownOwner { owner: "east".into(), owners: "north, south".into() },
        PoolError::Missing { place, column: "age".into() },
        PoolError::OutOfBounds { place, column: "age".into(), found: 130.0, low: 0.0, high: 120.0 },
        PoolError::OtherTable { what: "columns" },
        PoolError::OtherSchema { what: "the sums".into() },
        PoolError::Count { what: "rows", found: 1001, least: 1, most: 1000 },
        PoolError::ParamsTooSmall { owners: 3, log_n: 13, needed: 80.0, found: 60.0 },
        PoolError::RingTooSmall { found: 16, needed: 64 },
        PoolError::NotAsPlanned { what: "ciphertexts", found: "1".into(), needed: "2".into() },
        PoolError::OwnerMissing { owner: "north".into() },
        PoolError::OwnerRepeated { owner: "north".into(), times: 2 },
        PoolError::Damaged { problem: "slot 3 of ciphertext 0 holds no limb".into() },
        PoolError::NotByClass,
        PoolError::RowWeight { class: 1, found: -1.0 },
    ]
}

#[test]
fn messages_of_applications_are_those_of_the_list() {
    let plans = [plans(), rows()].concat();
    let sections = [
        section("sudare_apps::Error", &plans),
        section("TrainError", &train()),
        section("StatsError", &stats()),
        section("ArrayError", &arrays()),
        section("NnError", &networks()),
        section("SearchError", &searches()),
        section("TreesError", &trees()),
        section("PoolError", &pools()),
    ];
    assert_listed("apps.txt", &sections);
}
