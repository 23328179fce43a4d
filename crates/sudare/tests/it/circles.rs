//! Modules of a directory do not import each other in a circle, except where noted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Source directories of the crates, from the root of the workspace.
const CRATES: [&str; 9] = [
    "crates/arith/src",
    "crates/sudare/src",
    "crates/table/src",
    "crates/apps/src",
    "crates/roles/src",
    "crates/server/src",
    "crates/web/src",
    "cli/src",
    "python/src",
];

/// Circles that are there, with the modules of each.
///
/// Kernels take the types that call them. Errors name identifiers of keys and levels. Arrays of the
/// Python module are made by what they are operands of.
const KNOWN: [(&str, &[&str]); 3] = [
    ("crates/arith/src", &["constant_dot", "fraction", "kernel", "modulus", "ntt"]),
    ("crates/sudare/src", &["error", "ring", "rlwe"]),
    (
        "python/src",
        &["array", "data", "function", "keys", "lineage", "op", "plan", "table", "trace"],
    ),
];

type Module = Vec<String>;

/// Sources of a crate by module; the root has an empty path.
struct Sources(BTreeMap<Module, String>);

impl Sources {
    fn read(folder: &Path) -> Self {
        let mut queue = vec![folder.to_path_buf()];
        let mut found = BTreeMap::new();
        while let Some(path) = queue.pop() {
            if path.is_dir() {
                queue.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let module = path.strip_prefix(folder).unwrap().with_extension("");
                let module: Module =
                    module.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
                let (module, last) = match module.last().map(String::as_str) {
                    Some("lib") => (Module::new(), "lib"),
                    Some("main" | "tests") => continue,
                    _ => (module, ""),
                };
                assert!(!last.is_empty() || !module.is_empty());
                let text = fs::read_to_string(&path).unwrap();
                found.insert(module, code(&text));
            }
        }
        Self(found)
    }

    /// For each folder the modules of it that each of them uses, itself or by a module below it.
    fn uses(&self) -> BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> {
        let mut all: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (module, code) in &self.0 {
            for path in paths(code) {
                let used = self.resolve(module, &path);
                let common = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(common), used.get(common)) {
                    let folder = all.entry(module[..common].to_vec()).or_default();
                    folder.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        all
    }

    /// The module in which what a path names is, through what modules show of those below them.
    fn resolve(&self, from: &[String], path: &[String]) -> Module {
        let (mut module, mut rest) = match path[0].as_str() {
            "crate" => (Module::new(), &path[1..]),
            "self" => (from.to_vec(), &path[1..]),
            _ => (from.to_vec(), path),
        };
        while let Some(first) = rest.first() {
            let below = [&module[..], std::slice::from_ref(first)].concat();
            if first == "super" {
                module.pop();
            } else if self.0.contains_key(&below) {
                module = below;
            } else {
                match self.shown(&module, first) {
                    Some(other) => module = other,
                    None => break,
                }
            }
            rest = &rest[1..];
        }
        module
    }

    /// The module below this one that a name comes from which this one shows.
    fn shown(&self, module: &[String], name: &str) -> Option<Module> {
        let statements = self.0.get(module)?.split(';').filter_map(|s| s.rsplit_once("use "));
        let shown = statements.flat_map(|(_, tree)| {
            let mut found = Vec::new();
            parse(tree, &mut Vec::new(), &mut found);
            found
        });
        let mut below = shown.filter(|path| path.last().is_some_and(|last| last == name));
        below.find_map(|path| {
            let child = [module, path.get(..1)?].concat();
            self.0.contains_key(&child).then_some(child)
        })
    }
}

/// Without comments and tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// Every path in `code` that begins with `crate`, `self` or `super`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                parse(&code[at..], &mut Vec::new(), &mut found);
            }
        }
    }
    found
}

/// The paths of a tree such as `a::{b, c::d}` at the beginning of `text`; how much of it that is.
fn parse(text: &str, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let depth = before.len();
    let mut at = text.len() - text.trim_start().len();
    loop {
        let word = text[at..].find(|c: char| !c.is_alphanumeric() && c != '_');
        let end = word.map_or(text.len(), |length| at + length);
        before.push(text[at..end].to_owned());
        at = end;
        let Some(rest) = text[at..].strip_prefix("::") else { break };
        at += 2;
        if rest.starts_with('{') {
            at += 1;
            while !text[at..].trim_start().starts_with('}') && at < text.len() {
                at += parse(&text[at..], before, found);
                at += text[at..].find([',', '}']).unwrap_or(text.len() - at);
                at += usize::from(text[at..].starts_with(','));
            }
            at += text[at..].find('}').map_or(0, |more| more + 1);
            before.truncate(depth);
            return at;
        }
    }
    found.push(before.clone());
    before.truncate(depth);
    at
}

/// The sets of modules each of which uses all others of its set, itself or by others.
fn circles(uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut queue = vec![from.clone()];
        while let Some(module) = queue.pop() {
            let new =
                uses.get(&module).into_iter().flatten().filter(|used| seen.insert((*used).clone()));
            queue.extend(new.cloned().collect::<Vec<_>>());
        }
        seen
    };
    let all: BTreeMap<_, _> = uses.keys().map(|module| (module, reached(module))).collect();
    let circle = |(module, used): (&&String, &BTreeSet<String>)| -> Option<BTreeSet<String>> {
        let back = |other: &&String| all.get(other).is_some_and(|used| used.contains(*module));
        used.contains(*module).then(|| used.iter().filter(back).cloned().collect())
    };
    all.iter().filter_map(circle).collect()
}

#[test]
fn modules_import_each_other_in_no_circle() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut looked_at = 0;
    let mut found = BTreeSet::new();
    for root in CRATES {
        for (folder, uses) in Sources::read(&workspace.join(root)).uses() {
            let place = [&[root.to_owned()][..], &folder].concat().join("/");
            looked_at += uses.len();
            found.extend(circles(&uses).into_iter().map(|circle| (place.clone(), circle)));
        }
    }
    let known = |place: &str, circle: &BTreeSet<String>| {
        let is_known = |(root, modules): &(&str, &[&str])| {
            place == *root && circle.iter().all(|module| modules.contains(&module.as_str()))
        };
        KNOWN.iter().any(is_known)
    };
    found.retain(|(place, circle)| !known(place, circle));
    assert_eq!(found, BTreeSet::new());
    assert!(looked_at > 60, "{looked_at}");
}

/// The command line and Python stand side by side, but for the command itself, which the Python
/// package ships.
#[test]
fn neither_front_uses_the_other() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let names = |folder: &str, name: &str| -> Vec<String> {
        let sources = Sources::read(&workspace.join(folder));
        assert!(sources.0.len() > 5, "{folder}");
        let found = sources.0.values().flat_map(|code| {
            let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            words.filter(|word| word.starts_with(name)).map(str::to_owned).collect::<Vec<_>>()
        });
        found.collect()
    };
    assert_eq!(names("cli/src", "sudare_python"), [""; 0]);
    assert_eq!(names("python/src", "sudare_cli"), ["sudare_cli::run"]);
}

#[test]
fn the_check_itself_finds_circles() {
    let source = |module: &str, text: &str| {
        let module = module.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        (module, code(text))
    };
    let circle_of = |b: &str| {
        let sources = Sources(BTreeMap::from([
            source("", "mod a;\nmod b;\npub use b::{Two, c::Three};"),
            source("a", "use crate::{One, Two};\n// use super::b;"),
            source("b", b),
            source("b/c", "use super::super::b::Two;"),
        ]));
        sources.uses().get(&Module::new()).map(circles).unwrap_or_default()
    };
    assert!(circle_of("use core::fmt;\npub use c::Three;").is_empty());
    assert!(circle_of("#[cfg(test)]\nmod tests {\n    use crate::a;\n}").is_empty());
    for circular in ["use super::a;", "fn f() -> crate::a::A {}", "use crate::{One, a::{A, B}};"] {
        let both = BTreeSet::from(["a", "b"].map(str::to_owned));
        assert_eq!(circle_of(circular), BTreeSet::from([both]));
    }
}
