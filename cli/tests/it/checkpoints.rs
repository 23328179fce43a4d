//! Trainings in batches that are stopped, killed and resumed.

use crate::common::{LBW, names, sudare_at, with_file_limit};
use serde_json::Value;
use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
    thread,
    time::Instant,
};
use sudare::ckks::serial::{self, Reader};
use tempfile::TempDir;

const TRAIN: &str = "train --evaluation-key keys/evaluation.key -i t.ct -o m.ct --json";

/// A folder of keys and a table for three iterations, which take a ring of `2^14`, and the model of a training that nobody
/// stopped, made once.
fn origin() -> &'static Path {
    static ORIGIN: OnceLock<TempDir> = OnceLock::new();
    let folder = ORIGIN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        prepare(at, "--iterations 3 --batch 50");
        let report = sudare_at(at, TRAIN).json();
        assert_eq!((&report["iterations"], &report["resumed_after"]), (&3.into(), &0.into()));
        folder
    });
    folder.path()
}

fn prepare(at: &Path, training: &str) {
    sudare_at(at, &format!("keygen --params auto --for train:189x9 {training} --out keys")).ok();
    encrypt(at);
}

fn encrypt(at: &Path) {
    let line = format!("encrypt --public keys/public.key --data {LBW} --target y -o t.ct --force");
    sudare_at(at, &line).ok();
}

/// A folder with the files of [`origin`], to train in.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("keys")).unwrap();
    for name in ["keys/secret.key", "keys/public.key", "keys/evaluation.key", "t.ct"] {
        fs::hard_link(origin().join(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn model(at: &Path) -> Vec<u8> {
    fs::read(at.join("m.ct")).unwrap()
}

fn uninterrupted() -> Vec<u8> {
    model(origin())
}

/// The batches of the encrypted table are those of the model in the clear, in an order that the
/// owner alone knows: the model is as good, but is not the one of the order in the file.
#[test]
fn batches_train_a_model() {
    let at = origin();
    let line = "decrypt --secret keys/secret.key -i m.ct -o m.json --force";
    sudare_at(at, line).ok();
    let line = format!("evaluate --model m.json --data {LBW} --json");
    let report: Value = sudare_at(at, &line).json();
    assert!(report["auc"].as_f64().unwrap() > 0.6, "{report}");
    let demo = sudare_at(at, "demo --iterations 3 --batch 50 --json").json();
    assert!(demo["max_abs_weight_error"].as_f64().unwrap() < 1e-3);
}

/// Kills trainings, which are processes 1 of a PID namespace in every other case where that is
/// permitted.
fn killed_at_random(kills: u32) {
    let folder = folder();
    let at = folder.path();
    let line = format!("{TRAIN} --history --checkpoint state --resume");
    let start = Instant::now();
    sudare_at(at, &line.replace("-o m.ct", "-o whole.ct").replace("state", "other")).ok();
    let whole = start.elapsed();
    let uninterrupted = fs::read(at.join("whole.ct")).unwrap();
    // A number generator, seeded by the clock.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut random = now.subsec_nanos() | 1;
    let mut done = 0;
    for kill in 0..kills {
        let first = (kill % 2 == 1).then(crate::common::as_process_1).flatten();
        let mut running = first
            .unwrap_or_else(|| Command::new(env!("CARGO_BIN_EXE_sudare")))
            .current_dir(at)
            .args(line.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        thread::sleep(whole.mul_f64(f64::from(random) / f64::from(u32::MAX)));
        running.kill().unwrap();
        let finished = running.wait().unwrap().success();
        wait_until_unlocked(at);
        // No completed iteration is lost: states only advance.
        let states = states(at);
        let last = states.last().copied().unwrap_or(0);
        assert!(last >= done && states.len() <= 3 || finished, "{kill}: {states:?} after {done}");
        done = last;
        if at.join("m.ct").exists() {
            assert!(model(at) == uninterrupted, "{kill}");
            fs::remove_file(at.join("m.ct")).unwrap();
            fs::remove_dir_all(at.join("state")).unwrap();
            done = 0;
        }
    }
    let report = sudare_at(at, &line).json();
    assert_eq!(report["resumed_after"].as_u64(), Some(done.into()));
    assert!(model(at) == uninterrupted);
    // Killed processes leave no files.
    assert!(names(at).iter().all(|name| !name.ends_with(".part")), "{:?}", names(at));
    let weights = (1..=3).map(|iteration| format!("weights-00000{iteration}.ct"));
    let states = ["iteration-000002.ct", "iteration-000003.ct", "lock"].map(String::from);
    assert_eq!(names(&at.join("state")), states.into_iter().chain(weights).collect::<Vec<_>>());
}

/// Waits for what dies after the process that was killed, which may have let go of its states and be
/// writing its model.
fn wait_until_unlocked(at: &Path) {
    let begun = names(at).into_iter().filter(|name| name.ends_with(".part"));
    for name in begun.chain(["state/lock".into()]) {
        if let Ok(lock) = File::options().append(true).open(at.join(name)) {
            lock.lock().unwrap();
        }
    }
}

/// Iterations of the states there are.
fn states(at: &Path) -> Vec<u32> {
    if !at.join("state").is_dir() {
        return Vec::new();
    }
    let number = |name: String| name.strip_prefix("iteration-")?.strip_suffix(".ct")?.parse().ok();
    names(&at.join("state")).into_iter().filter_map(number).collect()
}

#[cfg(unix)]
#[test]
fn killed_trainings_resume() {
    killed_at_random(4);
}

#[cfg(unix)]
#[test]
#[ignore = "minutes"]
fn killed_trainings_resume_however_often() {
    killed_at_random(500);
}

/// Killed between writing the last state and removing the one that is not needed any more.
#[test]
fn a_training_that_is_done_leaves_no_surplus_state() {
    let folder = folder();
    let at = folder.path();
    let line = format!("{TRAIN} --checkpoint state --resume --force");
    sudare_at(at, &format!("{line} --iterations 1")).ok();
    let first = at.join("state/iteration-000001.ct");
    let state = fs::read(&first).unwrap();
    sudare_at(at, &line).ok();
    fs::write(&first, state).unwrap();
    assert_eq!(sudare_at(at, &line).json()["resumed_after"], 3);
    assert_eq!(states(at), [2, 3]);
}

#[test]
fn damaged_states_fall_back_to_earlier_ones() {
    let folder = folder();
    let at = folder.path();
    let line = format!("{TRAIN} --checkpoint state");
    sudare_at(at, &format!("{line} --iterations 2")).ok();
    assert_eq!(states(at), [1, 2]);
    let damage = |name: &str| {
        let path = at.join("state").join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    damage("iteration-000002.ct");
    let resumed = sudare_at(at, &format!("{line} --resume --force"));
    assert!(resumed.stderr.contains("iteration-000002.ct"), "{}", resumed.stderr);
    assert!(resumed.stderr.contains("trying the state before it"), "{}", resumed.stderr);
    assert_eq!(resumed.json()["resumed_after"], 1);
    assert!(model(at) == uninterrupted());

    damage("iteration-000002.ct");
    fs::write(at.join("state/iteration-000003.ct"), b"").unwrap();
    let line = format!("{line} --resume --force");
    sudare_at(at, &line).mistake(&["iteration-000003.ct", "iteration-000002.ct"]);
    fs::remove_dir_all(at.join("state")).unwrap();
    let anew = sudare_at(at, &line);
    assert!(anew.stderr.contains("training from the start"), "{}", anew.stderr);
    assert_eq!(anew.json()["resumed_after"], 0);
}

#[test]
fn a_history_is_whole_or_refused() {
    let folder = folder();
    let at = folder.path();
    let line = format!("{TRAIN} --checkpoint state --force");
    let resume = format!("{line} --resume --history");
    sudare_at(at, &format!("{line} --iterations 1")).ok();
    sudare_at(at, &resume).mistake(&["weights after iteration 1", "leave out --history"]);
    sudare_at(at, &format!("{line} --iterations 2 --history")).ok();
    let weights = at.join("state/weights-000001.ct");
    let whole = fs::read(&weights).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&weights, &damaged).unwrap();
    sudare_at(at, &resume).mistake(&["weights-000001.ct", "without --resume"]);
    fs::copy(at.join("state/weights-000002.ct"), &weights).unwrap();
    sudare_at(at, &resume).mistake(&["weights after iteration 1", "holds other weights"]);
    fs::write(&weights, &whole).unwrap();
    assert_eq!(sudare_at(at, &resume).json()["resumed_after"], 2);

    let info = sudare_at(at, "info m.ct --json").json();
    assert_eq!((&info["history"], &info["iterations"]), (&3.into(), &3.into()));
    assert!(sudare_at(at, "info m.ct").ok().stdout.contains("3 ciphertexts of weights"));
    let info = sudare_at(at, "info state/weights-000002.ct --json").json();
    assert_eq!((&info["content"], &info["history"]), (&"weights".into(), &Value::Null));
    let model = sudare_at(at, "decrypt --secret keys/secret.key -i m.ct --json").json();
    let values = &model["values"];
    let history = values["history"].as_array().unwrap();
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    assert_eq!(history.len(), 3);
    for (last, weight) in numbers(&history[2]).iter().zip(numbers(&values["weights"])) {
        assert!((last - weight).abs() < 1e-9, "{last} {weight}");
    }
    assert_ne!(history[1], history[2]);
}

#[test]
fn states_belong_to_keys_table_and_program() {
    let folder = folder();
    let at = folder.path();
    let line = format!("{TRAIN} --checkpoint state --force");
    sudare_at(at, &format!("{line} --iterations 2")).ok();
    let resume = format!("{line} --resume");

    // Another encryption of the same table.
    fs::remove_file(at.join("t.ct")).unwrap();
    encrypt(at);
    sudare_at(at, &resume).mistake(&["iteration-000002.ct", "another encrypted table"]);

    // Another program.
    let path = at.join("state/iteration-000002.ct");
    let file = fs::read(&path).unwrap();
    let reader = Reader::new(&file[..], file.len() as u64).unwrap();
    let params = reader.params().unwrap();
    let mut label = reader.info().label.clone();
    let state = reader.ciphertexts(&params).unwrap();
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let place = label.meta.windows(version.len()).position(|part| part == version).unwrap();
    label.meta[place] = b'9';
    fs::remove_file(at.join("t.ct")).unwrap();
    fs::hard_link(origin().join("t.ct"), at.join("t.ct")).unwrap();
    serial::write_ciphertexts(&mut File::create(&path).unwrap(), &params, &state, &label).unwrap();
    sudare_at(at, &resume).mistake(&["another version of sudare"]);
    fs::write(&path, &file).unwrap();
    assert_eq!(sudare_at(at, &resume).json()["resumed_after"], 2);

    // Other keys.
    fs::remove_dir_all(at.join("keys")).unwrap();
    fs::remove_file(at.join("t.ct")).unwrap();
    prepare(at, "--iterations 3 --batch 50");
    sudare_at(at, &resume).mistake(&["other evaluation keys", "choose another directory"]);

    // Without --resume, and without --force.
    let fresh = line.replace(" --force", "").replace("m.ct", "n.ct");
    sudare_at(at, &fresh).mistake(&["iteration-000003.ct exists", "--force"]);
    assert_eq!(sudare_at(at, &line).json()["resumed_after"], 0);
    assert_eq!(states(at), [2, 3]);
}

/// Writes fail in the middle, as on a full disk.
#[cfg(unix)]
#[test]
fn a_full_disk_loses_nothing() {
    let folder = folder();
    let at = folder.path();
    let line = format!("{TRAIN} --checkpoint state --resume --force");
    sudare_at(at, &format!("{line} --iterations 1")).ok();
    let before = names(&at.join("state"));
    // Files of 64 KiB at most.
    let run = with_file_limit(at, 128, &format!("exec \"$0\" {line}"));
    let stderr = run.stderr;
    assert_eq!(run.status, Some(2), "{stderr}");
    for part in
        ["cannot store the state after iteration 2", "state", "--resume", "\"kind\":\"Checkpoint\""]
    {
        assert!(stderr.contains(part), "{part:?} is not in {stderr}");
    }
    assert_eq!(names(&at.join("state")), before);
    assert_eq!(sudare_at(at, &line).json()["resumed_after"], 1);
    assert!(model(at) == uninterrupted());
}

#[test]
fn a_folder_is_for_one_training_at_a_time() {
    let folder = folder();
    let at = folder.path();
    fs::create_dir(at.join("state")).unwrap();
    let lock = File::create(at.join("state/lock")).unwrap();
    lock.lock().unwrap();
    let line = format!("{TRAIN} --checkpoint state --force");
    sudare_at(at, &line)
        .mistake(&["state is in use by another process", "choose another directory"]);
    drop(lock);
    sudare_at(at, &format!("{line} --iterations 2")).ok();
}

#[test]
fn batches_are_those_of_the_keys() {
    let folder = folder();
    let at = folder.path();
    sudare_at(at, &format!("{TRAIN} --batch 60")).mistake(&["batches of 60", "keys are for 50"]);
    let line = "keygen --params auto --for train:189x9 --batch 0 --out k";
    sudare_at(at, line).mistake(&["--batch", "a whole number from 1"]);
    let line = "keygen --params auto --for train:189x9 --sigmoid-degree 4 --out k";
    sudare_at(at, line).mistake(&["degree is 4", "3, 5 or 7"]);
    let info = sudare_at(at, "info t.ct --json").json();
    assert_eq!(info["job"], "train:189x9, 3 iterations of 50 rows, whitened columns, C = 1");
    let _ = fs::remove_dir_all(at.join("state"));
}

/// Trainings whose mapped keys are cut, each at a random moment: they end with an error that says
/// so and leave no model, or were done before.
#[cfg(target_os = "linux")]
fn cut_at_random(cuts: u32) {
    let folder = folder();
    let at = folder.path();
    let key = at.join("keys/evaluation.key");
    let whole = origin().join("keys/evaluation.key");
    let bytes = fs::metadata(&whole).unwrap().len();
    let expected = uninterrupted();
    let renew = || {
        fs::remove_file(&key).unwrap();
        fs::copy(&whole, &key).unwrap();
    };
    renew();
    let line = format!("{TRAIN} --map-keys --force");
    let start = Instant::now();
    sudare_at(at, &line).ok();
    let whole_time = start.elapsed();
    let mut random = std::process::id() | 1;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        f64::from(random) / f64::from(u32::MAX)
    };
    let mut done = 0;
    while done < cuts {
        let _ = fs::remove_file(at.join("m.ct"));
        let mut running = Command::new(env!("CARGO_BIN_EXE_sudare"))
            .current_dir(at)
            .args(line.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let maps = format!("/proc/{}/maps", running.id());
        let is_mapped = || fs::read_to_string(&maps).is_ok_and(|m| m.contains("evaluation.key"));
        while !is_mapped() && running.try_wait().unwrap().is_none() {
            thread::yield_now();
        }
        thread::sleep(whole_time.mul_f64(next()));
        let left = (bytes as f64 * next()) as u64;
        File::options().write(true).open(&key).unwrap().set_len(left).unwrap();
        let end = running.wait_with_output().unwrap();
        if end.status.success() {
            assert!(model(at) == expected, "cut to {left} of {bytes} when it was done");
        } else {
            let text = String::from_utf8(end.stderr).unwrap();
            let error: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            assert_eq!((end.status.code(), &error["kind"]), (Some(2), &"FileChanged".into()));
            assert!(!at.join("m.ct").exists(), "a model of keys that were cut");
            done += 1;
        }
        renew();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn keys_that_are_cut_while_they_are_mapped_are_found_out() {
    cut_at_random(5);
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "minutes"]
fn keys_that_are_cut_at_any_moment_are_found_out() {
    cut_at_random(200);
}
