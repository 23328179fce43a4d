//! What the owner of keys and tables can rely on, whatever is killed, forged or replaced.

use crate::common::{Run, names, sudare_at, with_file_limit};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, LazyLock},
    thread,
    time::{Duration, Instant},
};
use sudare::ckks::{
    Encryptor,
    serial::{self, Reader},
};
use sudare_apps::stats::ColumnScaling;
use sudare_roles::clear::note::{About, Note};
use tempfile::TempDir;

/// A folder with keys, a table and a result of statistics, made once.
static FIXTURE: LazyLock<PathBuf> = LazyLock::new(|| {
    let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join("owner");
    let _ = fs::remove_dir_all(&at);
    fs::create_dir_all(&at).unwrap();
    let rows: String = (0..20).map(|i| format!("{},{}\n", i % 7, (i * i) % 5)).collect();
    fs::write(at.join("t.csv"), "u,v\n".to_owned() + &rows).unwrap();
    for line in [
        "keygen --params auto --for stats:20x2 --out keys",
        "encrypt --public keys/public.key --data t.csv -o t.ct",
        "stats --evaluation-key keys/evaluation.key -i t.ct -o r.ct",
    ] {
        sudare_at(&at, line).ok();
    }
    at
});

/// A folder with copies of the files of [`FIXTURE`].
fn folder() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let at = copy.path();
    fs::create_dir(at.join("keys")).unwrap();
    let keys = names(&FIXTURE.join("keys")).into_iter().map(|name| format!("keys/{name}"));
    for name in keys.chain(["t.csv", "t.ct", "r.ct"].map(String::from)) {
        fs::copy(FIXTURE.join(&name), at.join(&name)).unwrap();
    }
    copy
}

const KEYGEN: &str = "keygen --params auto --for stats:20x2 --out made";
const KEYS: [&str; 3] = ["evaluation.key", "public.key", "secret.key"];

/// A file that a killed process of the same number left does not stand in the way.
#[cfg(unix)]
#[test]
fn a_leftover_of_the_same_process_number_blocks_nothing() {
    let folder = folder();
    let at = folder.path();
    let left = "mkdir made; for name in secret public evaluation; do \
                touch made/.$name.key.$$.part; done; exec \"$0\" ";
    let run = Command::new("sh")
        .current_dir(at)
        .args(["-c", &(left.to_owned() + KEYGEN), env!("CARGO_BIN_EXE_sudare")])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(KEYS.iter().all(|name| at.join("made").join(name).exists()));
}

/// Process 1 of a container is killed, begins again as process 1, and leaves nothing behind.
#[cfg(unix)]
#[test]
fn a_killed_process_1_can_begin_again() {
    let Some(mut command) = crate::common::as_process_1() else { return };
    let folder = folder();
    let made = folder.path().join("made");
    let mut running = command
        .args(["keygen", "--params", "n16", "--for", "train:5000x100", "--threads", "1", "--out"])
        .arg(&made)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !made.is_dir() || names(&made).len() < 3 {
        assert!(start.elapsed() < Duration::from_secs(120));
        thread::sleep(Duration::from_millis(5));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let left = names(&made);
    assert!(left.len() == 3 && left.iter().all(|name| name.ends_with(".part")), "{left:?}");
    for name in left {
        // Wait until the process is gone, which ends after the killed one.
        File::options().append(true).open(made.join(name)).unwrap().lock().unwrap();
    }
    let mut again = crate::common::as_process_1().unwrap();
    let again = again.current_dir(folder.path()).args(KEYGEN.split(' ')).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(names(&made), KEYS);
}

/// Anybody with the public key can make a result whose columns are called anything.
#[test]
fn names_in_results_do_nothing_to_a_terminal() {
    let folder = folder();
    let at = folder.path();
    let open = |name: &str| {
        let bytes = fs::metadata(at.join(name)).unwrap().len();
        Reader::new(File::open(at.join(name)).unwrap(), bytes).unwrap()
    };
    let result = open("r.ct");
    let params = result.params().unwrap();
    let label = result.info().label.clone();
    let mut items = result.ciphertexts(&params).unwrap();
    let public = Arc::new(open("keys/public.key").public_key(&params).unwrap());
    let encryptor = Encryptor::new(&params, public).unwrap();
    let evil = ["\x1b]0;owned\x07\x1b[2J", "=1+\u{9b}31m\u{202e}gnp\nerror: none\r\x7f"];
    let table = sudare_table::Table::from_csv("u,v\n0,1\n2,3\n".as_bytes(), None, 100).unwrap();
    let about = About::Columns(ColumnScaling::of(&table));
    let note = Note { columns: evil.map(String::from).to_vec(), rows: 20, about };
    let note = note.encrypt(&encryptor, &params).unwrap();
    items.truncate(items.len() - note.len());
    items.extend(note);
    let mut file = Vec::new();
    serial::write_ciphertexts(&mut file, &params, &items, &label).unwrap();
    fs::write(at.join("r.ct"), file).unwrap();

    let line = "decrypt --secret keys/secret.key -i r.ct";
    let acts = |text: &str| {
        text.chars().any(|c| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c))
    };
    for options in ["", " --regress u", " --json", " --json --weights z"] {
        let run = sudare_at(at, &format!("{line}{options}"));
        assert!(!acts(&run.stdout) && !acts(&run.stderr), "{}{}", run.stdout, run.stderr);
        let said = run.stdout + &run.stderr;
        assert!(said.contains(r"\u001b]0;owned\u0007\u001b[2J"), "{said}");
        assert!(said.contains(r"\u009b31m\u202egnp\nerror: none\r\u007f"), "{said}");
        assert!(!said.contains("\nerror: none"), "{said}");
    }
    let shown = sudare_at(at, &format!("{line} --json")).json();
    assert_eq!(shown["values"]["columns"][1], evil[1]);

    // A CSV file has no formulas in names, and unchanged numbers.
    sudare_at(at, &format!("{line} -o r.csv")).ok();
    let text = fs::read_to_string(at.join("r.csv")).unwrap();
    assert!(!acts(&text), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[1].starts_with(r"\u001b]0;owned\u0007\u001b[2J,"), "{text}");
    assert!(lines[2].starts_with(r"'=1+\u009b31m\u202egnp\nerror: none\r\u007f,"), "{text}");
    let cells = lines[1..].iter().flat_map(|line| line.split(',').skip(1));
    assert!(cells.clone().any(|cell| cell.starts_with('-')), "{text}");
    assert!(
        cells.filter(|cell| !cell.is_empty()).all(|cell| cell.parse::<f64>().is_ok()),
        "{text}"
    );
}

#[cfg(unix)]
#[test]
fn a_secret_key_that_others_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let at = folder.path();
    let line = "decrypt --secret keys/secret.key -i r.ct";
    assert_eq!(sudare_at(at, line).ok().stderr, "");
    fs::set_permissions(at.join("keys/secret.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let warned = sudare_at(at, line);
    let said = &warned.ok().stderr;
    assert!(said.contains("warning: keys/secret.key can be read by other users"), "{said}");
    assert!(said.contains("chmod 600"), "{said}");
}

/// Runs `sudare` with a line of passphrase on its standard input, which is descriptor 0.
#[cfg(unix)]
fn with_passphrase(at: &Path, line: &str, passphrase: &str) -> Run {
    use std::io::Write;
    let mut running = Command::new(env!("CARGO_BIN_EXE_sudare"))
        .current_dir(at)
        .args(line.split_whitespace())
        .args(["--passphrase-fd", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails earlier does not read it.
    let _ = running.stdin.take().unwrap().write_all(passphrase.as_bytes());
    running.wait_with_output().unwrap().into()
}

#[cfg(unix)]
#[test]
fn sealed_keys_do_what_clear_ones_do() {
    let folder = folder();
    let at = folder.path();
    let clear = fs::read(at.join("keys/secret.key")).unwrap();
    let decrypt = "decrypt --secret keys/secret.key -i r.ct --json";
    let values = sudare_at(at, decrypt).json();
    let report = with_passphrase(at, "key seal keys/secret.key --json", "right\n").json();
    assert_eq!((&report["sealed"], &report["path"]), (&true.into(), &"keys/secret.key".into()));
    assert_eq!(names(&at.join("keys")), KEYS);
    let sealed = fs::read(at.join("keys/secret.key")).unwrap();
    assert!(sealed.starts_with(b"\x89sealed\n") && sealed.len() == clear.len() + 80);
    assert_eq!(with_passphrase(at, decrypt, "right\n").json(), values);
    assert_eq!(with_passphrase(at, decrypt, "right").json(), values);
    with_passphrase(at, decrypt, "wrong\n").mistake(&["keys/secret.key", "WrongPassphrase"]);
    with_passphrase(at, decrypt, "\n").mistake(&["passphrase is empty", "EmptyPassphrase"]);
    let long = "x".repeat(2000);
    with_passphrase(at, decrypt, &long).mistake(&["more than 1024 bytes", "LongPassphrase"]);

    let info = sudare_at(at, "info keys/secret.key --json").json();
    assert_eq!((&info["sealed"], &info["kind"]), (&true.into(), &"secret key".into()));
    assert_eq!(info["key_id"], sudare_at(at, "info keys/public.key --json").json()["key_id"]);
    assert!(sudare_at(at, "info keys/secret.key").ok().stdout.contains("sealed by a passphrase"));
    let other = "decrypt --secret keys/secret.key -i t.ct";
    with_passphrase(at, other, "right").mistake(&["t.ct holds table"]);

    let unsealed = "key unseal keys/secret.key -o clear.key";
    with_passphrase(at, unsealed, "wrong").mistake(&["passphrase is wrong"]);
    assert!(!at.join("clear.key").exists());
    with_passphrase(at, unsealed, "right").ok();
    assert!(fs::read(at.join("clear.key")).unwrap() == clear);
    with_passphrase(at, unsealed, "right").mistake(&["clear.key exists", "--force"]);
    with_passphrase(at, "key unseal clear.key", "p").mistake(&["is already in the clear"]);
    with_passphrase(at, "key seal keys/secret.key", "p").mistake(&["is already sealed"]);
    with_passphrase(at, "key seal keys/public.key", "p").mistake(&["\"secret key\" is needed"]);

    let keygen = "keygen --params auto --for stats:20x2 --out made";
    with_passphrase(at, keygen, "").mistake(&["passphrase is empty"]);
    assert!(!at.join("made").exists());
    with_passphrase(at, keygen, "right").ok();
    let made = fs::read(at.join("made/secret.key")).unwrap();
    assert!(made.starts_with(b"\x89sealed\n"));
    // Altered bytes anywhere, and absurd costs.
    for at_byte in [0, 8, 12, 16, 20, 30, 50, 70, 200, made.len() - 40, made.len() - 1] {
        let mut altered = made.clone();
        altered[at_byte] ^= 0x40;
        fs::write(at.join("made/secret.key"), altered).unwrap();
        let line = "key unseal made/secret.key -o out.key";
        with_passphrase(at, line, "right").mistake(&["made/secret.key"]);
        assert!(!at.join("out.key").exists());
    }
}

/// What the secret key encrypts, sealed or not, takes half the bytes, and statistics of it are the same.
#[cfg(unix)]
#[test]
fn the_secret_key_encrypts_in_half_the_bytes() {
    let folder = folder();
    let at = folder.path();
    let encrypt = "encrypt --secret keys/secret.key --data t.csv -o own.ct";
    sudare_at(at, encrypt).ok();
    let size = |name: &str| fs::metadata(at.join(name)).unwrap().len() as f64;
    let of_public = size("own.ct") / size("t.ct");
    assert!((0.5..0.51).contains(&of_public), "{of_public}");
    let again = fs::read(at.join("own.ct")).unwrap();

    sudare_at(at, "key seal keys/secret.key -o sealed.key --passphrase-fd 0").mistake(&["empty"]);
    with_passphrase(at, "key seal keys/secret.key", "right").ok();
    with_passphrase(at, &format!("{encrypt} --force"), "right").ok();
    assert!(fs::read(at.join("own.ct")).unwrap() != again);
    sudare_at(at, "stats --evaluation-key keys/evaluation.key -i own.ct -o own.r.ct").ok();
    let found = |table: &str, result: &str| {
        let line = format!("decrypt --secret keys/secret.key --table {table} -i {result} --json");
        with_passphrase(at, &line, "right").json()
    };
    let own = found("own.ct", "own.r.ct");
    let public = found("t.ct", "r.ct");
    // Means of `i % 7` and `i * i % 5` over 20 rows.
    for means in [own, public].map(|found| crate::common::numbers(&found["values"]["mean"])) {
        assert!((means[0] - 2.85).abs() < 1e-4 && (means[1] - 2.0).abs() < 1e-4, "{means:?}");
    }

    let refused = |key: &str, parts: &[&str]| {
        let line = format!("encrypt {key} --data t.csv -o no.ct");
        with_passphrase(at, &line, "right").mistake(parts);
        assert!(!at.join("no.ct").exists());
    };
    let digest = "0".repeat(64);
    refused("--secret keys/public.key", &["keys/public.key", "\"secret key\" is needed"]);
    refused("--secret keys/secret.key --public keys/public.key", &["cannot be used with"]);
    refused(&format!("--secret keys/secret.key --expect {digest}"), &["--expect"]);
    refused("", &["--public", "--secret"]);
}

/// Without a terminal and without a descriptor there is nobody to ask.
#[cfg(unix)]
#[test]
fn nobody_to_ask_is_an_error() {
    let folder = folder();
    let at = folder.path();
    with_passphrase(at, "key seal keys/secret.key", "right").ok();
    let line = "decrypt --secret keys/secret.key -i r.ct --json";
    // A new session has no terminal.
    let run = Command::new("setsid")
        .arg("--wait")
        .arg(env!("CARGO_BIN_EXE_sudare"))
        .args(line.split_whitespace())
        .current_dir(at)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{stderr}");
    for part in ["keys/secret.key is sealed", "--passphrase-fd", "\"kind\":\"Sealed\""] {
        assert!(stderr.contains(part), "{stderr}");
    }
    let line = format!("{line} --passphrase-fd 77");
    sudare_at(at, &line).mistake(&["/dev/fd/77"]);
}

#[test]
fn another_public_key_is_refused_by_its_digest() {
    let folder = folder();
    let at = folder.path();
    let made = sudare_at(at, &format!("{KEYGEN} --json")).json();
    let digest = made["public_key_digest"].as_str().unwrap();
    assert_eq!(sudare_at(at, "info made/public.key --json").json()["digest"], digest);
    let evaluation = sudare_at(at, "info made/evaluation.key --json").json();
    assert_eq!(evaluation["digest"], made["evaluation_key_digest"]);
    // Another key with the same fingerprint is still another key.
    let forged = at.join("forged.key");
    let own = read_public(at, "made/public.key");
    let other = read_public(at, "keys/public.key");
    let mut bytes = other.0;
    bytes[24..32].copy_from_slice(&own.0[24..32]);
    fs::write(&forged, crate::common::resealed(&bytes)).unwrap();
    assert_eq!(read_public(at, "forged.key").1, own.1);

    let line = format!("encrypt --data t.csv -o e.ct --expect {digest} --public");
    for other in ["keys/public.key", "forged.key"] {
        sudare_at(at, &format!("{line} {other}")).mistake(&[other, digest, "was expected"]);
        assert!(!at.join("e.ct").exists());
    }
    sudare_at(at, &format!("{line} made/public.key")).ok();
    let wrong = "encrypt --public made/public.key --data t.csv -o f.ct --expect";
    sudare_at(at, &format!("{wrong} 12ab")).mistake(&["64 hexadecimal digits"]);

    // Data encrypted under the forged key does not decrypt to wrong numbers.
    sudare_at(at, "encrypt --public forged.key --data t.csv -o f.ct").ok();
    sudare_at(at, "stats --evaluation-key made/evaluation.key -i f.ct -o g.ct").ok();
    sudare_at(at, "decrypt --secret made/secret.key -i g.ct").mistake(&["note"]);
}

/// The bytes of a public key and its fingerprint.
fn read_public(at: &Path, name: &str) -> (Vec<u8>, String) {
    let bytes = fs::read(at.join(name)).unwrap();
    let id = Reader::new(&bytes[..], bytes.len() as u64).unwrap().info().key_id.to_string();
    (bytes, id)
}

#[test]
fn a_result_of_another_table_is_refused() {
    let folder = folder();
    let at = folder.path();
    sudare_at(at, "encrypt --public keys/public.key --data t.csv -o other.ct").ok();
    let line = "decrypt --secret keys/secret.key -i r.ct -o r.json --table";
    sudare_at(at, &format!("{line} other.ct")).mistake(&["r.ct is not a result of other.ct"]);
    sudare_at(at, &format!("{line} t.ct --table other.ct")).mistake(&["t.ct and other.ct"]);
    assert!(!at.join("r.json").exists());
    sudare_at(at, &format!("{line} t.ct")).ok();
    let digest =
        |name: &str| sudare_at(at, &format!("info {name} --json")).json()["digest"].clone();
    let origin = &sudare_at(at, "info r.ct --json").json()["origin"];
    assert_eq!(origin["table_digest"], digest("t.ct"));
    assert_eq!(origin["evaluation_key_digest"], digest("keys/evaluation.key"));
    assert!(sudare_at(at, "info r.ct").ok().stdout.contains(digest("t.ct").as_str().unwrap()));
}

/// Writes fail after some bytes, as on a full disk: a typed error, nothing half-written, and what
/// there was is as before.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let folder = folder();
    let at = folder.path();
    sudare_at(at, "decrypt --secret keys/secret.key -i r.ct -o r.json").ok();
    let size = |name: &str| fs::metadata(at.join(name)).unwrap().len();
    for (line, bytes) in [
        (KEYGEN, size("keys/secret.key")),
        (KEYGEN, size("keys/public.key")),
        (KEYGEN, size("keys/evaluation.key")),
        ("encrypt --public keys/public.key --data t.csv -o t.ct --force", size("t.ct")),
        ("stats --evaluation-key keys/evaluation.key -i t.ct -o r.ct --force", size("r.ct")),
        ("decrypt --secret keys/secret.key -i r.ct -o r.json --force", size("r.json")),
        ("key seal keys/secret.key --passphrase-fd 0", size("keys/secret.key") + 80),
        ("schema --data t.csv --owners a,b -o s.json", 1),
    ] {
        let before = contents(at);
        // In blocks of 512 bytes, fewer than the file has.
        let blocks = (bytes - 1) / 512;
        let run = with_file_limit(at, blocks, &format!("echo p | \"$0\" {line} --json"));
        let stderr = run.stderr;
        assert_eq!(run.status, Some(2), "{line} {blocks}: {stderr}");
        assert!(stderr.contains("\"kind\":\"Io\""), "{line}: {stderr}");
        let _ = fs::remove_dir(at.join("made"));
        assert_eq!(contents(at), before, "{line}");
    }
}

/// Every file in a folder and in that of keys.
fn contents(at: &Path) -> Vec<(String, Vec<u8>)> {
    let keys = names(&at.join("keys")).into_iter().map(|name| format!("keys/{name}"));
    let files = names(at).into_iter().filter(|name| !at.join(name).is_dir());
    files.chain(keys).map(|name| (name.clone(), fs::read(at.join(name)).unwrap())).collect()
}

/// Key generation that is killed at random moments leaves each file whole or absent, and does not
/// stand in the way of the next.
#[cfg(unix)]
fn key_generations_killed(kills: u32, command: impl Fn() -> Option<Command>) {
    let folder = folder();
    let at = folder.path();
    let line = "keygen --params auto --for stats:20x2 --out made --force";
    let start = Instant::now();
    sudare_at(at, line).ok();
    let whole = start.elapsed();
    for kill in 0..kills {
        let Some(mut command) = command() else { return };
        let mut running = command
            .current_dir(at)
            .args(line.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(whole.mul_f64(1.2 * f64::from(kill) / f64::from(kills)));
        running.kill().unwrap();
        running.wait().unwrap();
        for name in names(&at.join("made")).into_iter().filter(|name| !name.starts_with('.')) {
            sudare_at(at, &format!("info made/{name}")).ok();
        }
        if kill % 5 == 0 {
            sudare_at(at, line).ok();
            assert_eq!(names(&at.join("made")), KEYS, "{kill}");
            sudare_at(at, "encrypt --public made/public.key --data t.csv -o e.ct --force").ok();
            sudare_at(at, "stats --evaluation-key made/evaluation.key -i e.ct -o s.ct --force")
                .ok();
            sudare_at(at, "decrypt --secret made/secret.key -i s.ct --table e.ct").ok();
        }
    }
}

#[cfg(unix)]
fn plainly() -> Option<Command> {
    Some(Command::new(env!("CARGO_BIN_EXE_sudare")))
}

#[cfg(unix)]
#[test]
fn killed_key_generations_can_begin_again() {
    key_generations_killed(10, plainly);
    key_generations_killed(6, crate::common::as_process_1);
}

#[cfg(unix)]
#[test]
#[ignore = "minutes"]
fn killed_key_generations_can_begin_again_however_often() {
    key_generations_killed(250, plainly);
    key_generations_killed(250, crate::common::as_process_1);
}
