//! Exact counts of the rows of an encrypted table, by groups and under conditions.
//!
//! Each column holds a code in each row, from 0 up: a category or a bin of numbers. A
//! [`CountsPlan`] lists the columns that make the groups, and the codes that are accepted in other
//! columns. The server learns the plan, but neither codes nor counts. A *cell* is one code for each
//! column of groups. Every cell has its own copy of the table's rows, so all cells are counted at
//! once. Each slot holds a product of indicators, 1 or 0: the codes match the cell, and they are
//! accepted.
//!
//! An indicator of accepted codes among `k` is a polynomial of degree `k - 1`. An indicator of
//! groups, which compares codes, has degree `2k - 2`. Indicators are multiplied from the highest
//! level on, which keeps products shallow. They are bootstrapped if they are too deep.
//!
//! ```
//! use sudare_apps::exact::{Condition, CountsPlan};
//!
//! # fn main() -> Result<(), sudare_apps::array::ArrayError> {
//! // Six rows with a group of two and an age of four bins, of which the last two are counted.
//! let ages = Condition { column: 1, accepted: vec![2, 3] };
//! let plan = CountsPlan::new(6, &[2, 4], &[0], vec![ages])?;
//! let counts = plan.clear(&[vec![0, 1, 0, 1, 0, 1], vec![3, 0, 2, 2, 1, 0]])?;
//! assert_eq!(counts, [2, 1]);
//! # Ok(())
//! # }
//! ```

use super::{Engine, IntegerArray, PlainIntegers, Setting};
use crate::array::{ArrayError, Result};

const OP: &str = "count";

/// Maximum number of codes of a column.
const MAX_CODES: u32 = 1 << 10;

/// Maximum number of cells, and of rows of one cell.
const MAX_SIZE: usize = 1 << 20;

/// The accepted codes of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The column.
    pub column: usize,
    /// Codes of the column in rows that are counted.
    pub accepted: Vec<u32>,
}

/// The public facts of a count: columns, groups and conditions.
#[derive(Debug, Clone)]
pub struct CountsPlan {
    rows: usize,
    /// Number of codes of each column.
    codes: Vec<u32>,
    groups: Vec<usize>,
    conditions: Vec<Condition>,
}

fn invalid<T>(problem: String) -> Result<T> {
    Err(ArrayError::Argument { op: OP, problem })
}

impl CountsPlan {
    /// Plans counts among `rows` rows. `codes` has the number of codes of each column. Rows that
    /// meet all conditions are counted by the columns of `groups`. The last of these columns varies
    /// fastest from cell to cell.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] without rows or groups, for a column that does not exist, a column
    /// of groups that is named twice or has one code, more than 1024 codes, a condition on no code
    /// or on a code that does not exist, or more than 2^20 rows or cells.
    pub fn new(
        rows: usize,
        codes: &[u32],
        groups: &[usize],
        conditions: Vec<Condition>,
    ) -> Result<Self> {
        if !(1..=MAX_SIZE).contains(&rows) || groups.is_empty() {
            return invalid(format!(
                "{rows} rows by {} columns of groups: 1 to {MAX_SIZE} rows and a column of groups are \
                 needed",
                groups.len()
            ));
        }
        if let Some(found) = codes.iter().find(|&&k| k == 0 || k > MAX_CODES) {
            return invalid(format!("a column has {found} codes: 1 to {MAX_CODES} are possible"));
        }
        let known = |column: &usize| *column < codes.len();
        let columns = conditions.iter().map(|condition| &condition.column);
        if let Some(column) = groups.iter().chain(columns).find(|column| !known(column)) {
            return invalid(format!("there is no column {column}: there are {}", codes.len()));
        }
        // With one code, all differences are 0, also beyond the last row, where rows would be
        // counted.
        let single = |i: usize| codes[groups[i]] < 2 || groups[..i].contains(&groups[i]);
        if let Some(i) = (0..groups.len()).find(|&i| single(i)) {
            return invalid(format!(
                "column {} has one code or is named twice: groups are made by different columns of two \
                 codes or more",
                groups[i]
            ));
        }
        for Condition { column, accepted } in &conditions {
            if accepted.is_empty() {
                return invalid(format!(
                    "no code of column {column} is accepted: accept one or more"
                ));
            }
            if let Some(code) = accepted.iter().find(|&&code| code >= codes[*column]) {
                return invalid(format!(
                    "code {code} of column {column} is accepted, but its codes are below {}",
                    codes[*column]
                ));
            }
        }
        let sizes = groups.iter().map(|&column| codes[column] as usize);
        // Too many cells must be refused, not wrapped to a possible number.
        let cells = sizes.fold(1usize, usize::saturating_mul);
        if cells > MAX_SIZE {
            return invalid(format!("{cells} cells: at most {MAX_SIZE} are possible"));
        }
        Ok(Self { rows, codes: codes.to_vec(), groups: groups.to_vec(), conditions })
    }

    /// Returns the number of counts.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.groups.iter().map(|&column| self.codes[column] as usize).product()
    }

    /// Returns the codes of a cell, one for each column of groups, in their order.
    #[must_use]
    pub fn cell(&self, cell: usize) -> Vec<u32> {
        let mut rest = cell;
        let mut codes: Vec<u32> = (self.groups.iter().rev())
            .map(|&column| {
                let k = self.codes[column] as usize;
                let code = rest % k;
                rest /= k;
                // Below the number of codes of the column, so the cast is exact.
                code as u32
            })
            .collect();
        codes.reverse();
        codes
    }

    /// Returns the slots of a cell: the rows, rounded up to a power of two.
    fn width(&self) -> usize {
        self.rows.next_power_of_two()
    }

    /// Returns the shape of encrypted columns: a row of slots for each cell.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.cells(), self.width()]
    }

    fn check(&self, column: usize, codes: &[u32]) -> Result<()> {
        let Some(&k) = self.codes.get(column) else {
            return invalid(format!("there is no column {column}: there are {}", self.codes.len()));
        };
        if codes.len() != self.rows {
            let found = codes.len();
            let rows = self.rows;
            return invalid(format!("column {column} has {found} rows, but {rows} were planned"));
        }
        match codes.iter().position(|&code| code >= k) {
            None => Ok(()),
            Some(row) => invalid(format!(
                "column {column} has the code {} in row {row}: its codes are below {k}",
                codes[row]
            )),
        }
    }

    /// Returns a column to encrypt, repeated for each cell. This is for the owner.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for another number of rows, or codes that were not planned.
    pub fn column(&self, column: usize, codes: &[u32]) -> Result<PlainIntegers> {
        self.check(column, codes)?;
        let code = |row: usize| codes.get(row).map_or(0, |&code| code.into());
        let one: Vec<i64> = (0..self.width()).map(code).collect();
        Ok(PlainIntegers::new(&self.shape(), one.repeat(self.cells())))
    }

    /// Checks that the slots of a setting can count the planned rows.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for a modulus that is not a prime above twice the rows and twice
    /// the codes of each column, or more rows than a row of slots has.
    pub fn fits(&self, setting: &Setting) -> Result<()> {
        let t = setting.modulus();
        let most = setting.slots() / 2;
        let most_codes = self.codes.iter().copied().max().unwrap_or(0);
        // Signed elements must hold a count of all rows. Differences of codes must differ modulo
        // `t`.
        let largest = (2 * self.rows as u128).max(2 * u128::from(most_codes));
        // Indicators divide by differences of codes, which is always possible modulo a prime only.
        if t.exponent() != 1 || t.value() <= largest || self.width() > most {
            return invalid(format!(
                "{} rows do not fit {most} slots modulo {t}: use a prime above {largest}, and a \
                 ring with enough slots",
                self.rows
            ));
        }
        Ok(())
    }

    /// Counts all cells. The count is at the first element of each cell, and the other elements are
    /// zero.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for another number of columns; the errors of [`CountsPlan::fits`];
    /// [`ArrayError::Shapes`] for a column of another shape than [`CountsPlan::shape`]; errors of
    /// the engine.
    pub fn run(&self, engine: &Engine, columns: &[IntegerArray]) -> Result<IntegerArray> {
        self.fits(engine.setting())?;
        if columns.len() != self.codes.len() {
            let found = columns.len();
            let needed = self.codes.len();
            return invalid(format!("found {found} columns, but {needed} were planned"));
        }
        let shape = self.shape();
        if let Some(other) = columns.iter().find(|column| column.shape() != shape) {
            let left = other.shape().to_vec();
            let right = shape.to_vec();
            return Err(ArrayError::Shapes { op: OP, left, right });
        }
        let groups = self.groups.iter().enumerate();
        let mut indicators: Vec<IntegerArray> = groups
            .map(|(place, &column)| self.equal(engine, &columns[column], place))
            .collect::<Result<_>>()?;
        for Condition { column, accepted } in &self.conditions {
            // Beyond the last row a condition may hold for code 0. An indicator of groups is 0
            // there.
            let codes = 0..i128::from(self.codes[*column]);
            let accepted = |code| accepted.iter().any(|&other| i128::from(other) == code);
            indicators.push(engine.indicated(OP, &columns[*column], codes, accepted)?);
        }
        let counted = product(engine, indicators)?;
        let sums = engine.windows(&counted, self.width())?;
        // Every slot has a sum over the slots that follow, but only the first one is a count.
        let first = |i| i64::from(i % self.width() == 0);
        let firsts = (0..self.cells() * self.width()).map(first).collect();
        engine.mul_plain_array(&sums, &PlainIntegers::new(&shape, firsts))
    }

    /// Returns 1 where a column of groups has the code of the cell, and 0 elsewhere.
    fn equal(&self, engine: &Engine, column: &IntegerArray, place: usize) -> Result<IntegerArray> {
        let cells = self.cells();
        let width = self.width();
        // Codes are 0 beyond the last row, and differ from -1 by 1 there.
        let own = (0..cells).flat_map(|cell| {
            let code = self.cell(cell).get(place).map_or(0, |&code| i64::from(code));
            (0..width).map(move |row| if row < self.rows { -code } else { 1 })
        });
        let own = PlainIntegers::new(&self.shape(), own.collect());
        let difference = engine.add_plain(column, &own)?;
        // Differences of `k` codes are from `1 - k` to `k - 1`.
        let k = i128::from(self.codes[self.groups[place]]);
        engine.indicated(OP, &difference, 1 - k..k, |x| x == 0)
    }

    /// Decodes the counts from the decrypted result of [`CountsPlan::run`]. This is for the owner.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for any other array.
    pub fn decode(&self, decrypted: &PlainIntegers) -> Result<Vec<u64>> {
        let mut firsts = decrypted.values.chunks(self.width()).map(|cell| cell.first());
        let counts = firsts.try_fold(Vec::new(), |mut counts, count| {
            counts.push(u64::try_from(*count?).ok().filter(|&x| x <= self.rows as u64)?);
            Some(counts)
        });
        match counts {
            Some(counts) if decrypted.shape == self.shape() => Ok(counts),
            _ => invalid(format!("an array of shape {:?} lacks these counts", decrypted.shape)),
        }
    }

    /// Computes the counts in the clear.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for columns that were not planned.
    pub fn clear(&self, columns: &[Vec<u32>]) -> Result<Vec<u64>> {
        if columns.len() != self.codes.len() {
            let found = columns.len();
            let needed = self.codes.len();
            return invalid(format!("found {found} columns, but {needed} were planned"));
        }
        // All columns are checked before rows are read, so no index below is out of range.
        for (column, codes) in columns.iter().enumerate() {
            self.check(column, codes)?;
        }
        let mut counts = vec![0; self.cells()];
        for row in 0..self.rows {
            let row: Vec<u32> = columns.iter().map(|codes| codes[row]).collect();
            let holds = |condition: &Condition| condition.accepted.contains(&row[condition.column]);
            if self.conditions.iter().all(holds) {
                let place = |cell, &column: &usize| {
                    cell * self.codes[column] as usize + row[column] as usize
                };
                counts[self.groups.iter().fold(0, place)] += 1;
            }
        }
        Ok(counts)
    }
}

/// Returns the product of arrays. The arrays of the highest levels are multiplied first.
fn product(engine: &Engine, mut factors: Vec<IntegerArray>) -> Result<IntegerArray> {
    loop {
        // A product is one level below the lower factor. Pairing the highest levels keeps it
        // shallow.
        factors.sort_by_key(IntegerArray::level);
        match (factors.pop(), factors.pop()) {
            (Some(a), Some(b)) => factors.push(engine.mul(&a, &b)?),
            (Some(a), None) => return Ok(a),
            (None, _) => {
                return invalid("there is nothing to count: choose a column of groups".into());
            }
        }
    }
}

impl Engine {
    /// Sums, in each slot of a row, the `width` slots from there on. `width` is a power of two up
    /// to the columns of the layout. This takes `log2(width)` key switches.
    fn windows(&self, a: &IntegerArray, width: usize) -> Result<IntegerArray> {
        let sums = self
            .where_it_fits(OP, [a], 0, |[a]| a.map(|block| self.exact().inner_sum(block, width)))?;
        // Padding is zero in some sums.
        let [low, high] = a.range.ends().map(|end| end.saturating_mul(width as i128));
        let sums = self.ranged(sums, [low.min(0), high.max(0)]);
        Ok(IntegerArray { padding_is_zero: false, ..sums })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Scheme, bootstrapping_set,
        tests::{Session, values},
    };
    use super::*;
    use sudare::exact::{Params, preset};

    /// `values`, reduced below the number of codes of a column.
    fn codes(rows: usize, k: u32, salt: i64) -> Vec<u32> {
        let values = values(&[rows], salt).values;
        values.iter().map(|x| (x.unsigned_abs() % u64::from(k)) as u32).collect()
    }

    fn check(s: &Session, plan: &CountsPlan, columns: &[Vec<u32>]) {
        let encrypted: Vec<_> = (columns.iter().enumerate())
            .map(|(i, codes)| s.encrypt(&plan.column(i, codes).unwrap()))
            .collect();
        let found = plan.run(&s.engine, &encrypted).unwrap();
        let found = super::super::decrypt(&s.decryptor, &s.setting, &found).unwrap();
        let clear = plan.clear(columns).unwrap();
        assert_eq!(plan.decode(&found).unwrap(), clear);
        assert!(clear.iter().sum::<u64>() > 0);
        // All other elements are zero.
        assert_eq!(found.values.iter().sum::<i64>() as u64, clear.iter().sum::<u64>());
    }

    #[test]
    fn counts_are_those_in_the_clear() {
        let params = Params::new(preset("toy-n8").unwrap().spec).unwrap();
        for scheme in [Scheme::Bgv, Scheme::Bfv] {
            let s = Session::of(Setting::new(params.clone(), scheme, true).unwrap());
            let columns = [codes(50, 2, 1), codes(50, 3, 4)];
            check(&s, &CountsPlan::new(50, &[2, 3], &[0], vec![]).unwrap(), &columns);
            let condition = Condition { column: 1, accepted: vec![2, 0, 2] };
            let plan = CountsPlan::new(50, &[2, 3], &[0], vec![condition]).unwrap();
            check(&s, &plan, &columns);
            let wide = [codes(128, 3, 1)];
            check(&s, &CountsPlan::new(128, &[3], &[0], vec![]).unwrap(), &wide);
        }
    }

    #[test]
    fn many_conditions_are_bootstrapped() {
        let name = "n15-t65537-boot";
        let set = bootstrapping_set(name, Some(8)).unwrap();
        let params = Params::new(set.preset.spec).unwrap();
        let s = Session::of(Setting::named(name, params, Scheme::Bgv, false).unwrap());
        let sizes = [2, 40, 3, 33, 2];
        let columns: Vec<_> = (0..).zip(sizes).map(|(salt, k)| codes(60, k, 3 * salt)).collect();
        let among = |column, accepted: core::ops::Range<u32>| Condition {
            column,
            accepted: accepted.collect(),
        };
        let conditions = vec![among(1, 5..40), among(3, 0..25), among(4, 0..1)];
        let plan = CountsPlan::new(60, &sizes, &[2, 0], conditions).unwrap();
        assert_eq!((plan.cells(), plan.cell(4), plan.cell(5)), (6, vec![2, 0], vec![2, 1]));
        check(&s, &plan, &columns);
        assert!(s.engine.bootstraps() > 0);
    }

    #[test]
    fn impossible_counts_are_refused() {
        let plan = |codes: &[u32], groups: &[usize], column, code| {
            CountsPlan::new(9, codes, groups, vec![Condition { column, accepted: vec![code] }])
        };
        assert!(plan(&[2, 3], &[0], 1, 2).is_ok());
        for refused in [
            plan(&[2, 3], &[], 1, 2),
            plan(&[2, 3], &[2], 1, 2),
            plan(&[2, 3], &[0, 0], 1, 2),
            plan(&[1, 3], &[0], 1, 2),
            plan(&[2, 0], &[0], 1, 2),
            plan(&[2, 2000], &[0], 1, 2),
            plan(&[2, 3], &[0], 1, 3),
            plan(&[2, 3], &[0], 5, 0),
            plan(&[1000, 1000, 1000], &[0, 1, 2], 1, 2),
            CountsPlan::new(0, &[2], &[0], vec![]),
            CountsPlan::new(5, &[2], &[0], vec![Condition { column: 0, accepted: vec![] }]),
        ] {
            assert!(matches!(refused, Err(ArrayError::Argument { op: OP, .. })), "{refused:?}");
        }
        let plan = plan(&[2, 3], &[0], 1, 2).unwrap();
        assert!(plan.column(0, &[0; 8]).is_err() && plan.column(0, &[2; 9]).is_err());
        assert!(plan.clear(&[vec![0; 9]]).is_err());
        let many = PlainIntegers::new(&plan.shape(), vec![10; 32]);
        assert!(plan.decode(&many).is_err() && plan.decode(&PlainIntegers::scalar(1)).is_err());

        let params = Params::new(preset("toy-n8").unwrap().spec).unwrap();
        let s = Session::of(Setting::new(params, Scheme::Bgv, true).unwrap());
        let column = s.encrypt(&plan.column(0, &[1; 9]).unwrap());
        let few = plan.run(&s.engine, core::slice::from_ref(&column)).unwrap_err();
        assert!(few.to_string().contains("2 were planned"), "{few}");
        let other = s.encrypt(&values(&[5], 1));
        let refused = plan.run(&s.engine, &[column.clone(), other]).unwrap_err();
        assert!(matches!(refused, ArrayError::Shapes { .. }), "{refused}");
        let long = CountsPlan::new(200, &[2], &[0], vec![]).unwrap();
        assert!(
            long.run(&s.engine, &[column])
                .unwrap_err()
                .to_string()
                .contains("do not fit 128 slots")
        );
    }
}
