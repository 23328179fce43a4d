use crate::{assert_listed, section};
use sudare_arith::Error;

#[test]
fn messages_of_arith_are_those_of_the_list() {
    let errors = [
        Error::ModulusOutOfRange(1 << 63),
        Error::DegreeOutOfRange(18),
        Error::NoRootOfUnity { q: 65_537, log_2n: 17 },
        Error::NoEntropy("getrandom: not supported (os error 38)".into()),
        Error::WeightOutOfRange { weight: 4096, len: 2048 },
        Error::Threads(0),
    ];
    assert_listed("arith.txt", &[section("sudare_arith::Error", &errors)]);
}
