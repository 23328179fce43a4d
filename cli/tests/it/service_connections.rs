//! What a client says of a service that it cannot use, and when it tries again; and certificates that the
//! service makes for itself.

use crate::common::{Run, server::Service, sudare_at};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Time in which a lasting problem must be explained.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A folder with a file of a token that has the right form.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        fs::write(&token, format!("sudare_{}", "0".repeat(64))).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        folder
    });
    folder.path()
}

fn status(url: &str, options: &str) -> Run {
    sudare_at(folder(), &format!("remote list keys --url {url} --token-file token {options}"))
}

/// The command explains the problem soon, as the user's mistake, and asks for no repetition.
fn explained(url: &str, options: &str, words: &[&str]) {
    let begun = Instant::now();
    let run = status(url, &format!("{options} --json"));
    let took = begun.elapsed();
    run.mistake(words);
    assert!(run.stderr.contains("NoConnection"), "{}", run.stderr);
    assert!(!run.stderr.contains("run the command again"), "{}", run.stderr);
    assert!(took < AT_ONCE, "{took:?} for {words:?}");
}

/// Writes a certificate and its key, and returns the options of a server with them.
fn certificate(
    name: &str,
    names: &[&str],
    change: impl FnOnce(&mut CertificateParams),
) -> [String; 4] {
    let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let file = |ending: &str| folder().join(format!("{name}.{ending}"));
    fs::write(file("pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(file("key"), key.serialize_pem()).unwrap();
    let [cert, key] = ["pem", "key"].map(|ending| file(ending).display().to_string());
    ["--tls-cert".into(), cert, "--tls-key".into(), key]
}

fn with_tls(options: &[String]) -> (Service, String) {
    let service = Service::start(&options.iter().map(|option| &option[..]).collect::<Vec<_>>());
    let url = format!("https://{}", service.address);
    (service, url)
}

#[test]
fn lasting_problems_are_explained_at_once() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    explained(&format!("http://{free}"), "", &["nothing listens there"]);
    explained("https://no-such-host.invalid", "", &["no such host is known"]);

    let clear = Service::start(&[]);
    explained(&format!("https://{}", clear.address), "", &["does not speak TLS", "--tls-cert"]);
    let refused = status(&clear.url(), "");
    refused.mistake(&["the server says", "token"]);
    fs::write(folder().join("damaged"), "sudare_01\u{e9}").unwrap();
    let line = format!("remote list keys --url {} --token-file damaged", clear.url());
    sudare_at(folder(), &line).mistake(&["the token is empty, or has blanks or other invalid"]);

    let (service, url) = with_tls(&certificate("good", &["127.0.0.1"], |_| {}));
    certificate("other", &["127.0.0.1"], |params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "another");
    });
    explained(&url, "", &["no public authority signed", "--ca"]);
    explained(&url, "--ca other.pem", &["other.pem did not sign its certificate"]);
    explained(&format!("http://{}", service.address), "", &["is not HTTP", "use https://"]);
    let localhost = url.replace("127.0.0.1", "localhost");
    explained(&localhost, "--ca good.pem", &["for other names", "it has 127.0.0.1"]);
    // The last check of the handshake is the token's.
    status(&url, "--ca good.pem").mistake(&["the server says", "token"]);
    fs::write(folder().join("none.pem"), "not a certificate").unwrap();
    status(&url, "--ca none.pem").mistake(&["none.pem has no certificate in PEM"]);
}

#[test]
fn bad_certificates_are_explained_at_once() {
    let (_old, url) = with_tls(&certificate("old", &["127.0.0.1"], |params| {
        params.not_after = date_time_ymd(2020, 1, 1);
    }));
    explained(&url, "--ca old.pem", &["has expired"]);
    let (_early, url) = with_tls(&certificate("early", &["127.0.0.1"], |params| {
        params.not_before = date_time_ymd(3000, 1, 1);
    }));
    explained(&url, "--ca early.pem", &["not valid yet"]);
    let (_authority, url) = with_tls(&certificate("authority", &["127.0.0.1"], |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }));
    explained(&url, "--ca authority.pem", &["CA:TRUE", "--tls-self-signed"]);
}

/// Answers requests with `answer`, after `closed` connections that it closes at once.
fn listener(closed: usize, answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (count, stream) in listener.incoming().enumerate() {
            let mut stream: TcpStream = stream.unwrap();
            if count >= closed {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer);
            }
        }
    });
    url
}

#[test]
fn passing_problems_are_tried_again_and_told() {
    // Five attempts last about three seconds.
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n[]";
    let run = status(&listener(4, answer), "--json");
    assert_eq!(run.ok().stdout, "[]\n");
    let told = run.stderr.matches("trying again for up to").count();
    assert!(told == 1 && run.stderr.contains("use https://"), "{}", run.stderr);
    // A short failure prints nothing.
    let run = status(&listener(1, answer), "--json");
    assert!(!run.ok().stderr.contains("trying again"), "{}", run.stderr);

    // The server is silent, as behind a firewall that drops packets.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let line = ["remote", "usage", "--url", &url, "--token-file", "token"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_sudare"));
    let command = command.current_dir(folder()).args(line).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut running = command.spawn().unwrap();
    let mut said = [0; 4096];
    let count = running.stderr.take().unwrap().read(&mut said).unwrap();
    let took = begun.elapsed();
    running.kill().unwrap();
    running.wait().unwrap();
    let said = String::from_utf8_lossy(&said[..count]);
    assert!(said.contains("has not answered yet") && took < AT_ONCE, "{took:?}: {said}");
}

/// A server that restarts refuses connections for a while, which a client that knows it waits for.
#[test]
fn restarts_do_not_end_a_client() {
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = first.local_addr().unwrap();
    thread::spawn(move || {
        // The client first queries the object, then reads the refusal.
        let mut stream = first.accept().unwrap().0;
        let _ = stream.read(&mut [0; 4096]);
        let head = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(head).unwrap();
        drop((stream, first));
        thread::sleep(Duration::from_secs(1));
        let second = TcpListener::bind(address).unwrap();
        let mut stream = second.accept().unwrap().0;
        let _ = stream.read(&mut [0; 4096]);
        let body = br#"{"kind":"Gone","detail":"it is back"}"#;
        let head = format!(
            "HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    });
    let at = folder();
    let files = ["keygen --params auto --for stats:10x2 --out again"];
    for line in files {
        sudare_at(at, line).ok();
    }
    let line = format!(
        "remote upload again/evaluation.key --url http://{address} --token-file token --json"
    );
    sudare_at(at, &line).mistake(&["it is back"]);
}

/// The options of a server that makes its certificate in a folder.
fn self_signed(folder: &Path, names: &[&str]) -> Vec<String> {
    let mut options = vec!["--tls-self-signed".into(), folder.display().to_string()];
    options.extend(names.iter().flat_map(|&name| ["--tls-name".into(), name.into()]));
    options
}

#[test]
fn the_service_makes_a_certificate_for_itself() {
    let own = tempfile::tempdir().unwrap();
    let tls: PathBuf = own.path().join("tls");
    let (mut service, url) = with_tls(&self_signed(&tls, &["server.example"]));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&tls), mode(&tls.join("key.pem"))), (0o700, 0o600));
    let token = service.token("clinic");
    fs::write(own.path().join("token"), &token).unwrap();
    let list = |url: &str| {
        let line = format!("remote list keys --url {url} --token-file token --ca tls/cert.pem");
        sudare_at(own.path(), &format!("{line} --json"))
    };
    assert_eq!(list(&url).ok().stdout, "[]\n");
    assert_eq!(list(&url.replace("127.0.0.1", "localhost")).ok().stdout, "[]\n");
    // A restart keeps the certificate, which clients already have.
    let before = fs::read(tls.join("cert.pem")).unwrap();
    service.kill_and_restart();
    assert_eq!(fs::read(tls.join("cert.pem")).unwrap(), before);
    // A certificate without a requested name is refused at the start, before a client meets it.
    let store = own.path().join("store").display().to_string();
    let line = format!("serve --folder {store} --listen 127.0.0.1:0 --tls-self-signed tls");
    sudare_at(own.path(), &format!("{line} --tls-name other.example"))
        .mistake(&["cert.pem is not for other.example", "remove"]);
    fs::remove_file(tls.join("key.pem")).unwrap();
    sudare_at(own.path(), &line).mistake(&["key.pem", "remove"]);
    sudare_at(own.path(), &format!("{line} --tls-name a..b"))
        .mistake(&["a..b", "no name of a host"]);
    sudare_at(own.path(), &format!("{line} --tls-cert a --tls-key b")).mistake(&["cannot be used"]);
}

/// The lines for OpenSSL in `docs/deploy.md` make a certificate that clients take.
#[test]
fn the_lines_for_openssl_work() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/deploy.md");
    let page = fs::read_to_string(page).unwrap();
    let mut blocks = page.split("```").filter_map(|block| block.strip_prefix("console\n"));
    let block = blocks.find(|block| block.contains("openssl req")).unwrap();
    let script = block.replace("DNS:server.example", "IP:127.0.0.1");
    if Command::new("openssl").arg("version").output().is_err() {
        // OpenSSL is not installed.
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let made = Command::new("sh").args(["-ec", &script]).current_dir(own.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let file = |name: &str| own.path().join(name).display().to_string();
    let options = ["--tls-cert".into(), file("cert.pem"), "--tls-key".into(), file("key.pem")];
    let (_service, url) = with_tls(&options);
    // Only the token is wrong.
    status(&url, &format!("--ca {}", file("cert.pem"))).mistake(&["the server says", "token"]);
}
