use super::*;
use crate::table::Wanted;

fn csv(text: &str) -> Csv {
    Csv::new("t.csv".into(), text.into())
}

#[test]
fn columns_are_told_as_they_are() {
    let contents = csv("\u{feff}ward;age;y\r\n\"A\";1,5;0\r\nB;NA;1\r\n;1,5;1\r\n").contents();
    let Contents { rows, columns } = contents.unwrap();
    let found: Vec<_> =
        columns.iter().map(|c| (&c.name[..], c.kinds[0], c.missing, c.values, c.more)).collect();
    assert_eq!(rows, 3);
    let number = Kind::Number;
    let text = Kind::Categories;
    assert_eq!(
        found,
        [("ward", text, 1, 2, false), ("age", number, 1, 1, false), ("y", number, 0, 2, false)]
    );
    assert_eq!(
        (&columns[0].examples[..], &columns[1].examples[..]),
        (&["A".to_owned(), "B".to_owned()][..], &["1.5".to_owned()][..])
    );
    let many: String = (0..=MAX_COUNTED).map(|i| format!("{i}\n")).collect();
    let column = &csv(&format!("x\n{many}")).contents().unwrap().columns[0];
    assert!(column.more && column.values == MAX_COUNTED && column.remark.is_none());
    assert_eq!(csv("a,b\n1\n").contents().unwrap_err().kind(), "Ragged");
}

#[test]
fn remarks_are_those_of_the_coding() {
    let table = |head: &str, rows: usize, cell: &dyn Fn(usize) -> String| {
        let rows: String = (0..rows).map(|i| format!("{i}.5,{}\n", cell(i))).collect();
        let found = csv(&format!("x,{head}\n{rows}")).contents().unwrap().columns.pop().unwrap();
        (found.kinds[0], found.remark)
    };
    let id = |i: usize| format!("P-{i:04}");
    let number = |i: usize| format!("{}", 7 * i);
    let date = |i: usize| format!("2024-01-{:02}", i % 31 + 1);
    let repeated = |count: usize| move |i: usize| format!("c{}", i % count);
    assert_eq!(table("c", 40, &id), (Kind::Categories, Some(Remark::Id)));
    assert_eq!(table("patient_id", 40, &number), (Kind::Number, Some(Remark::Id)));
    assert_eq!(table("dose", 40, &number), (Kind::Number, None));
    assert_eq!(table("c", 40, &|i| id(i / 2)), (Kind::Categories, None));
    assert_eq!(table("c", 40, &date), (Kind::Date, None));
    assert_eq!(table("c", 40, &|_| "same".into()), (Kind::Categories, Some(Remark::Constant)));
    assert_eq!(table("c", 40, &|_| "true".into()), (Kind::Number, Some(Remark::Constant)));
    assert_eq!(table("c", 40, &|_| String::new()), (Kind::Number, Some(Remark::Empty)));
    let mixed = |i: usize| if i == 7 { "high".into() } else { (i % 6).to_string() };
    assert_eq!(table("c", 40, &mixed), (Kind::Number, Some(Remark::Mixed)));
    assert_eq!(table("c", 200, &repeated(60)), (Kind::Categories, Some(Remark::Wide)));
    assert_eq!(table("c", 3000, &repeated(1500)), (Kind::Categories, Some(Remark::Crowded)));
}

const TABLE: &str = "id;when;ward;age;y\na1;2024-03-01;\"A \"\"1\"\", x\";1,5;no\na2;;;NA;yes\n\
                     a3;1970-01-02;B;2;no\n";

fn chosen(columns: &[(&str, Kind)]) -> Choice {
    let column = |&(name, kind): &(&str, Kind)| Chosen { name: name.into(), kind };
    let columns = Some(columns.iter().map(column).collect());
    Choice { columns, ..Choice::new(Wanted::Train { target: "y".into(), iterations: None }) }
}

#[test]
fn a_choice_becomes_options_of_the_coding() {
    let table = csv(TABLE);
    let words = |choice: &Choice| words(&table.options(choice).unwrap()).join(" ");
    let y = ("y", Kind::Categories);
    let all = [
        ("id", Kind::Categories),
        ("when", Kind::Date),
        ("ward", Kind::Categories),
        ("age", Kind::Number),
        y,
    ];
    assert_eq!(words(&chosen(&all)), "");
    assert_eq!(words(&chosen(&all[1..])), "--drop id");
    let changed = [("when", Kind::Categories), ("age", Kind::Categories), y];
    let changed = Choice {
        missing: Missing::MostFrequent,
        unseen: Unseen::Zero,
        rare: 5,
        ..chosen(&changed)
    };
    assert_eq!(
        words(&changed),
        "--drop id,ward --categorical when,age --missing most-frequent --unseen zero --rare 5"
    );
    assert_eq!(listed("a \"b\", c"), "\"a \"\"b\"\", c\"");
}

#[test]
fn identifiers_are_used_only_if_they_are_switched_on() {
    let rows: String = (0..30).map(|i| format!("P{i},{},{}\n", i % 7, i % 2)).collect();
    let table = csv(&format!("patient_id,age,y\n{rows}"));
    let age = ("age", Kind::Number);
    let y = ("y", Kind::Number);
    let options = |columns: &[(&str, Kind)]| table.options(&chosen(columns)).unwrap();
    assert_eq!(options(&[age, y]).selection, Selection::default());
    let used = options(&[("patient_id", Kind::Categories), age, y]);
    assert_eq!(words(&used), ["--columns", "patient_id,age,y"]);
    let features = |columns: &[(&str, Kind)]| {
        table.plan(&chosen(columns)).unwrap().summary().unwrap().features
    };
    assert_eq!(
        (features(&[age, y]), features(&[("patient_id", Kind::Categories), age, y])),
        (1, 31)
    );
}

#[test]
fn a_column_that_is_called_all_is_one_column() {
    let table = csv("all,b,y\n1,2,0\n2,3,1\n");
    let columns = [("all", Kind::Categories), ("b", Kind::Number), ("y", Kind::Number)];
    assert_eq!(words(&table.options(&chosen(&columns)).unwrap()), ["--categorical", "all,all"]);
}

#[test]
fn choices_that_do_not_suit_the_table_are_refused() {
    let refused = |columns: &[(&str, Kind)]| {
        csv(TABLE).options(&chosen(columns)).map(|_| ()).unwrap_err().to_string()
    };
    assert!(refused(&[]).contains("no column is switched on"));
    assert!(refused(&[("wing", Kind::Number)]).contains("no column \"wing\""));
    assert!(refused(&[("ward", Kind::Number)]).contains("choose one of [Categories]"));
    assert!(refused(&[("ward", Kind::Date)]).contains("choose one of [Categories]"));
    assert!(refused(&[("age", Kind::Date)]).contains("choose one of [Number, Categories]"));
    // Numbers that are not exact are texts where they are categories.
    let large = csv("a,y\n9007199254740993,1\n9007199254740992,0\n");
    let choice = chosen(&[("a", Kind::Categories), ("y", Kind::Number)]);
    assert_eq!(large.plan(&choice).unwrap().summary().unwrap().features, 2);
}
