//! Commands on BGV and BFV, in a ring for tests.

use crate::common::{BENCH_FIELDS, assert_fields, sudare, sudare_in};
use serde_json::Value;
use std::{fs, path::Path, sync::Arc};
use sudare::{
    exact::{Encryptor, Params, serial},
    rlwe::KeyGenerator,
};
use sudare_apps::exact::{PlainIntegers, Scheme, Setting, bootstrapping_set, encrypt};
use sudare_roles::{exact_files, sealed::Passphrase};

#[test]
fn sets_are_listed_and_explained() {
    let list = sudare("params --json").json();
    let sets = list["exact"].as_array().unwrap();
    for name in ["n12-t65537", "n15-t786433", "bench-n14-q330-t65537", "toy-n8"] {
        let listed = sets.iter().find(|set| set["name"] == name).unwrap();
        let set = sudare(&format!("params {name} --json")).json();
        assert_fields(
            &set,
            &[
                "summary",
                "source",
                "schemes",
                "log_n",
                "log_q",
                "log_p",
                "log_qp",
                "secret",
                "security_bits",
                "levels",
                "slots",
                "plaintext_modulus",
                "dnum",
                "keys",
                "ciphertext_bytes",
                "switching_key_bytes",
            ],
        );
        for field in ["log_n", "levels", "slots", "plaintext_modulus", "summary"] {
            assert_eq!(listed[field], set[field], "{name}");
        }
        assert!(set["log2_scale"].is_null());
        for field in ["log_qp", "security_bits"] {
            let difference = listed[field].as_f64().unwrap() - set[field].as_f64().unwrap();
            assert!(difference.abs() < 0.5, "{name} {field}: {difference}");
        }
        let secure = set["security_bits"].as_f64() >= Some(128.0);
        assert_eq!(
            (set["insecure"] == false, name.contains("-t") && name.starts_with('n')),
            (secure, secure)
        );
    }
    let set = sudare("params bench-n14-q330-t65537 --json").json();
    assert_eq!((set["log_q"].as_f64().unwrap().round(), set["dnum"].as_u64()), (330.0, Some(3)));
    assert!(sudare("params toy-n8").ok().stdout.contains("256 slots of integers modulo 7681"));
    assert!(sudare("params").ok().stdout.contains("n13-t65537"));
    for name in ["bfv-n12", "bgv-n12"] {
        assert_eq!(sudare(&format!("params {name} --json")).json()["name"], "n12-t65537");
    }
    sudare("params n99").mistake(&["n99", "n16-d24", "n14-t65537"]);
}

#[test]
fn sets_for_bootstrapping_say_what_they_promise() {
    let set = sudare("params n15-t65537-boot --json").json();
    assert_eq!(sudare("params bfv-slim-65537 --json").json(), set);
    let facts = &set["bootstrapping"];
    assert_fields(facts, &["input_level", "output_level", "top", "keys", "key_bytes"]);
    assert!(facts["matrix_bytes"].as_u64() > Some(1 << 27), "{facts}");
    assert_eq!((&facts["slots"], &facts["levels_left"]), (&32768.into(), &7.into()));
    assert_eq!((&facts["bound"], &facts["degree"]), (&15.into(), &61.into()));
    assert!(facts["log2_failure"].as_f64() < Some(-128.0), "{facts}");
    for key in set["keys"].as_array().unwrap() {
        assert!(key["security_bits"].as_f64() >= Some(128.0), "{key}");
    }
    let text = sudare("params bfv-slim-65537");
    let weight = "through an ephemeral secret of weight 32";
    assert!(text.ok().stdout.contains(weight), "{}", text.stdout);
    let listed = sudare("params --json").json();
    let names = listed["exact"].as_array().unwrap().iter().map(|set| &set["name"]);
    assert!(names.filter(|name| name.as_str().unwrap().ends_with("-boot")).count() >= 3);

    let refused = |arguments: &str| sudare(&format!("bench bfv_bootstrap_slim {arguments}"));
    refused("").mistake(&["--params", "n15-t65537-boot"]);
    refused("--params n13-t65537").mistake(&["n13-t65537", "n16-t786433-boot"]);
    refused("--params n15-t65537-boot --level 3").mistake(&["does not use --level"]);
    sudare("bench bfv_bootstrap_slim bgv_mul --params n15")
        .mistake(&["bfv_bootstrap_slim has parameter sets of its own"]);
}

#[test]
fn sets_for_all_coefficients_say_what_they_promise() {
    let set = sudare("params bfv-full-257-2 --json").json();
    assert_eq!(set["name"], "n15-t257-2-full");
    let facts = &set["bootstrapping"];
    assert_eq!((&facts["mode"], &facts["slots"]), (&"full".into(), &128.into()));
    assert_eq!((&facts["slot_degree"], &facts["degree"]), (&256.into(), &91.into()));
    assert!(facts["levels_left"].as_u64() >= Some(6), "{facts}");
    assert!(facts["log2_failure"].as_f64() < Some(-128.0), "{facts}");
    assert!(set["security_bits"].as_f64() >= Some(128.0), "{set}");
    for (alias, name) in [
        ("bgv-full-127", "n15-t127-full"),
        ("bgv-slim-257", "n15-t257-boot"),
        ("bfv-slim-127-3", "n15-t127-3-boot"),
        ("n15-t12289-auto", "n15-t12289-auto"),
    ] {
        assert_eq!(sudare(&format!("params {alias} --json")).json()["name"], name);
    }
    // The thesis's levels, approximately, and the security of this set.
    for (name, levels) in [("full-127", 7), ("full-257", 4), ("slim-127", 9), ("slim-257", 7)] {
        let set = sudare(&format!("params bfv-thesis-{name} --json")).json();
        assert_eq!(set["bootstrapping"]["levels_left"], levels, "{name}");
        assert!(set["security_bits"].as_f64() < Some(110.0), "{set}");
        assert_eq!(set["insecure"], true);
    }
    let text = sudare("params bfv-thesis-full-127");
    assert!(text.ok().stdout.contains("64 slots of degree 256"), "{}", text.stdout);

    let refused = |arguments: &str| sudare(&format!("bench bfv_bootstrap {arguments}"));
    refused("").mistake(&["--params", "n15-t257-full"]);
    refused("--params n15-t257-boot").mistake(&["n15-t257-boot", "n15-t257-full"]);
    refused("--params bfv-full-257 --level 3").mistake(&["does not use --level"]);
}

#[test]
fn operations_are_timed_and_checked() {
    let line = "bench bfv_mul bfv_rotate bgv_mul bgv_rotate --params toy-n8 --runs 2 --threads 1";
    let run = sudare(&format!("{line} --json"));
    let lines: Vec<Value> =
        run.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ops: Vec<&str> = lines.iter().map(|line| line["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["bfv_mul", "bfv_rotate", "bgv_mul", "bgv_rotate"]);
    for line in &lines {
        assert_fields(line, &BENCH_FIELDS);
        assert_eq!((&line["params"], line["level"].as_u64()), (&"toy-n8".into(), Some(4)));
        assert_eq!(
            (&line["plaintext_modulus"], line["slots"].as_u64()),
            (&"7681".into(), Some(256))
        );
        assert!(line["precision_bits"].is_null());
        assert!(line["min_ms"].as_f64().unwrap() > 0.0);
        assert!(line["median_ms"].as_f64() >= line["min_ms"].as_f64());
        assert!(line["noise_bits"].as_f64() < line["predicted_noise_bits"].as_f64(), "{line}");
    }
    let text = sudare(line);
    assert!(text.ok().stdout.contains("exact"), "{}", text.stdout);
    let low = sudare("bench bgv_rotate --params toy-n5 --level 2 --runs 1 --json").json();
    assert_eq!(low["level"].as_u64(), Some(2));
}

/// The files of an owner's keys that bootstrap 256 slots, and of an array.
fn write_files(folder: &Path) {
    const NAME: &str = "n15-t65537-boot";
    let params = Params::new(bootstrapping_set(NAME, Some(8)).unwrap().preset.spec).unwrap();
    let setting = Setting::named(NAME, params.clone(), Scheme::Bfv, true).unwrap();
    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = keygen.secret_key().unwrap();
    let public = Arc::new(keygen.public_key(&secret).unwrap());
    let keys = keygen.evaluation_keys(&secret, &setting.required_keys().unwrap()).unwrap();
    let label = exact_files::key_label(NAME, &setting).unwrap();
    let [mut public_file, mut keys_file, mut array_file] = [const { Vec::new() }; 3];
    serial::write_public_key(&mut public_file, &params, &public, &label).unwrap();
    serial::write_evaluation_keys(&mut keys_file, &params, &keys, &label).unwrap();
    let encryptor = Encryptor::new(&params, public).unwrap();
    let plain = PlainIntegers::new(&[2, 200], (0..400).collect());
    let array = encrypt(&encryptor, &setting, &plain).unwrap();
    exact_files::write_array(&mut array_file, NAME, &setting, &array).unwrap();
    let files = [("public.key", public_file), ("evaluation.key", keys_file), ("x.ct", array_file)];
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let passphrase = Passphrase::new(b"six random words".to_vec()).unwrap();
    for (name, passphrase) in [("secret.key", None), ("sealed.key", Some(&passphrase))] {
        let mut file = Vec::new();
        let path = folder.join(name);
        exact_files::write_secret(&mut file, &path, &params, &secret, &label, passphrase).unwrap();
        fs::write(path, file).unwrap();
    }
}

#[test]
fn files_of_integers_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let info = |name: &str| sudare_in(folder.path(), &["info", name, "--json"]).json();
    let mut ids = Vec::new();
    for name in ["public.key", "evaluation.key", "secret.key", "sealed.key", "x.ct"] {
        let facts = info(name);
        let fields = ["kind", "content", "format_version", "params_id", "bytes", "count", "secret"];
        assert_fields(&facts, &fields);
        assert_eq!((&facts["params"], &facts["log_n"]), (&"n15-t65537-boot".into(), &8.into()));
        assert_eq!((&facts["slots"], &facts["levels"]), (&256.into(), &9.into()));
        assert_eq!(
            (&facts["plaintext_modulus"], &facts["insecure"]),
            (&"65537".into(), &true.into())
        );
        assert_eq!(facts["digest"].is_null(), name == "sealed.key");
        assert_eq!(facts["scheme"].is_null(), name == "x.ct", "{facts}");
        if name != "x.ct" {
            assert_eq!((&facts["scheme"], &facts["signed"]), (&"bfv".into(), &true.into()));
            assert_eq!(facts["bootstrapping"]["levels_left"], 7);
            assert!(facts["bootstrapping"]["log2_failure"].as_f64() < Some(-128.0));
        }
        ids.push(facts["key_id"].clone());
    }
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(
        (&info("sealed.key")["sealed"], &info("secret.key")["sealed"]),
        (&true.into(), &false.into())
    );
    let keys = info("evaluation.key");
    assert_eq!(
        (&keys["relinearization_level"], &keys["raising"]["ephemeral_weight"]),
        (&9.into(), &32.into())
    );
    assert!(keys["keys"].as_array().unwrap().len() > 3 && keys["fitted_keys"].as_u64() > Some(10));
    let array = info("x.ct");
    assert_eq!((&array["shape"], &array["level"]), (&serde_json::json!([2, 200]), &9.into()));
    let noise = array["log2_noise"].as_f64();
    assert!(noise > Some(1.0) && noise < Some(30.0), "{array}");
    let text = sudare_in(folder.path(), &["info", "evaluation.key"]);
    for needed in ["bfv, signed integers", "7 levels left", "ephemeral secret of weight 32"] {
        assert!(text.ok().stdout.contains(needed), "{}", text.stdout);
    }
    assert!(sudare_in(folder.path(), &["info", "x.ct"]).ok().stdout.contains("errors below 2^"));
    // A damaged file is named, and a file of another scheme is explained as before.
    let whole = fs::read(folder.path().join("x.ct")).unwrap();
    for (bytes, needed) in
        [(&whole[..whole.len() - 1], "x.ct"), (&whole[..10], "x.ct"), (&[], "x.ct")]
    {
        fs::write(folder.path().join("x.ct"), bytes).unwrap();
        sudare_in(folder.path(), &["info", "x.ct"]).mistake(&[needed]);
    }
}

/// Counts that are those in the clear, and how many ciphertexts were bootstrapped for them.
fn counted(line: &str) -> u64 {
    let report = sudare(line).json();
    assert_fields(
        &report,
        &["dataset", "rows", "conditions", "keygen_s", "count_s", "evaluation_key_bytes", "slots"],
    );
    let groups = report["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 6);
    for group in groups {
        assert_eq!(group["births"], group["plain_births"]);
        assert_eq!(group["low_weight"], group["plain_low_weight"]);
    }
    assert_eq!((&groups[0]["births"], &groups[0]["low_weight"]), (&31.into(), &1.into()));
    let histogram = report["histogram"].as_array().unwrap();
    assert_eq!((histogram.len(), &histogram[2]["births"]), (12, &61.into()));
    for bin in histogram {
        assert_eq!(bin["births"], bin["plain_births"]);
    }
    assert!(report["security_bits"].as_f64() >= Some(128.0));
    report["bootstraps"].as_u64().unwrap()
}

#[test]
#[ignore = "full ring size"]
fn demonstration_counts_exactly_and_bootstraps() {
    assert!(counted("demo counts --json") > 0);
}

#[test]
#[ignore = "takes minutes and gigabytes"]
fn demonstration_needs_no_bootstrapping_in_the_larger_ring() {
    // The set has levels enough for these conditions.
    assert_eq!(counted("demo counts --params n16-t65537-boot --json"), 0);
}

#[test]
fn mistakes_are_told() {
    for (line, needed) in [
        ("bench bfv_mul", "n14-t65537"),
        ("bench bfv_mul --params n15", "bench-n14-q330-t65537"),
        ("bench bfv_mul add --params n13", "BGV and BFV have parameter sets of their own"),
        ("bench bgv_mul --params toy-n5 --level 5", "level 5"),
        ("bench bfv_mul --params toy-n8 --level 0", "could reach"),
        ("bench add --params n14-t65537", "n15"),
        ("demo counts --params n14-t65537", "n16-t786433-boot"),
        ("demo counts --params n15-t127-boot", "slots"),
        ("demo counts --params n14-t257-boot", "use a prime above 378"),
        ("demo counts --scheme ckks", "bgv or bfv"),
        ("demo --paper counts", "counts"),
    ] {
        sudare(line).mistake(&[needed]);
    }
}
