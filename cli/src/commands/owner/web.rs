#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    output::Output,
    remote::{check_url, host_of},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    env, fs,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use sudare_roles::{
    error::{Error, Result},
    os::files::{self, Access, NewFile},
};
use sudare_server::{PageFile, serve_page};

/// Open the owner's side in a browser: serve the page to this machine, or export it
///
/// The page encrypts a table, lets a service train on it (`sudare serve`) and decrypts the model.
/// All keys stay in the browser. The host of the page could steal the keys, so the page comes from
/// this machine and never from the server that computes. That server must allow the page's origin:
/// `--allow-origin http://127.0.0.1:8471`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare web --server https://server.example\n  \
    sudare web --server https://server.example --export page")]
pub struct Args {
    /// Address of the service that computes, the only address that the page connects to
    #[arg(long, value_name = "URL", env = "SUDARE_URL")]
    server: String,
    /// Address and port of this machine for the browser; port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8471")]
    listen: SocketAddr,
    /// Directory of the page, as `make web` makes it; default: the page of the Python package, or web,
    /// ../web or ../share/sudare/web next to this program
    #[arg(long, value_name = "DIR", env = "SUDARE_PAGE")]
    page: Option<PathBuf>,
    /// Directory to write the page and the digests of its files into, for the owner's host of
    /// static files
    #[arg(long, value_name = "DIR", conflicts_with = "listen")]
    export: Option<PathBuf>,
    /// Replace existing files
    #[arg(long, requires = "export")]
    force: bool,
}

/// Directories in which the page may be, relative to the directory of this program.
const PLACES: [&str; 3] = ["web", "../web", "../share/sudare/web"];
const INDEX: &str = "index.html";
/// File of the thread that owns the keys.
const WORKER: &str = "worker.js";
/// File with the digests of exported files.
const MANIFEST: &str = "manifest.json";
/// Types of the page's files. Files of other types in the directory are not served.
const MEDIA_TYPES: [(&str, &str); 4] = [
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("wasm", "application/wasm"),
];

#[derive(Serialize)]
struct Serving<'a> {
    listening: &'a str,
    server: &'a str,
}

#[derive(Serialize)]
struct Exported<'a> {
    folder: &'a Path,
    server: &'a str,
    files: BTreeMap<&'a str, Exact>,
}

/// A file to the last bit, and the headers to serve it with.
#[derive(Serialize)]
struct Exact {
    bytes: usize,
    blake3: String,
    content_type: &'static str,
    content_security_policy: String,
}

impl Args {
    /// Decides whether the command serves the page until it is stopped.
    pub fn serves(&self) -> bool {
        self.export.is_none()
    }
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let files = page(args)?;
    if let Some(folder) = &args.export {
        return export(args, folder, &files, output);
    }
    // The page is served without TLS: on a network, anyone could change its code and get the keys.
    if !args.listen.ip().is_loopback() {
        return Err(Error::Usage(format!(
            "other machines can reach {}: pass --listen 127.0.0.1:{}, or export the page for a host \
             with TLS",
            args.listen,
            args.listen.port()
        )));
    }
    serve_page(args.listen, files, |listening| {
        let serving = Serving { listening, server: &args.server };
        // The reader of standard output may have gone.
        let _ = output.write(&serving, |serving| {
            format!(
                "open {0} in a browser; {1} must allow it: --allow-origin {0}\n",
                serving.listening, serving.server
            )
        });
    })
}

/// Reads the files of the page, for one server.
fn page(args: &Args) -> Result<BTreeMap<String, PageFile>> {
    let server = args.server.trim_end_matches('/');
    let origin = origin(server)?;
    let mut files = BTreeMap::new();
    let folder = folder(args)?;
    let io = |error| Error::io("read", &folder, error);
    for entry in fs::read_dir(&folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let extension = path.extension().unwrap_or_default();
        let media_type = MEDIA_TYPES.iter().find(|(known, _)| extension == *known);
        let (Some((_, media_type)), Some(name)) = (media_type, path.file_name()) else { continue };
        let name = name.to_string_lossy().into_owned();
        // Read once, at the start: the page cannot change while a browser loads its parts.
        let mut content = fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
        let policy = policy(&name, &origin);
        // Only this file differs by server, so digests of all others are the same everywhere.
        if name == INDEX {
            let text = String::from_utf8_lossy(&content);
            content = text.replace("{POLICY}", &policy).replace("{SERVER}", server).into();
        }
        // Browsers obey this directive only in headers, so it is not in the text of the page.
        let policy = format!("{policy}; frame-ancestors 'none'");
        files.insert(name, PageFile { media_type, policy, content });
    }
    Ok(files)
}

/// Returns the content security policy of a file. The thread with the keys connects to nothing. The
/// page connects to its host and to the server.
fn policy(name: &str, origin: &str) -> String {
    // WebAssembly needs 'wasm-unsafe-eval', which does not permit `eval` of scripts.
    const NOTHING_ELSE: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; base-uri 'none'; form-action 'none'";
    match name {
        WORKER => NOTHING_ELSE.into(),
        _ => format!(
            "{NOTHING_ELSE}; style-src 'self'; worker-src 'self'; connect-src 'self' {origin}"
        ),
    }
}

/// Returns the origin of a server, without characters that have a meaning in a policy or a page.
fn origin(server: &str) -> Result<String> {
    check_url(server)?;
    // The address goes into a policy and a page. A space or `;` there could add a rule.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]%".contains(c);
    match server.split_once("://") {
        Some((scheme, rest)) if server.chars().all(plain) => {
            Ok(format!("{scheme}://{}", host_of(rest)))
        }
        _ => Err(Error::Usage(format!(
            "{server:?} is not a plain address: pass one such as https://server.example"
        ))),
    }
}

fn folder(args: &Args) -> Result<PathBuf> {
    let is_page = |folder: &PathBuf| [INDEX, WORKER].iter().all(|name| folder.join(name).is_file());
    if let Some(folder) = &args.page {
        return Some(folder.clone()).filter(is_page).ok_or_else(|| {
            Error::Usage(format!(
                "there is no page in {}: wheels have one, and `make web` makes one in a checkout; \
                 pass its directory with --page",
                folder.display()
            ))
        });
    }
    let program = env::current_exe();
    let program = program.map_err(|error| Error::io("find", Path::new("this program"), error))?;
    let beside = program.parent().unwrap_or(Path::new("."));
    PLACES.iter().map(|place| beside.join(place)).find(is_page).ok_or_else(|| {
        Error::Usage(format!(
            "there is no page in {} next to {}: make it with `make web`, and pass its directory with \
             --page",
            PLACES.join(", "),
            program.display()
        ))
    })
}

fn export(
    args: &Args,
    folder: &Path,
    page: &BTreeMap<String, PageFile>,
    output: Output,
) -> Result<()> {
    files::make_folder(folder)?;
    let exact = |file: &PageFile| Exact {
        bytes: file.content.len(),
        blake3: blake3::hash(&file.content).to_string(),
        content_type: file.media_type,
        content_security_policy: file.policy.clone(),
    };
    let files = page.iter().map(|(name, file)| (&name[..], exact(file))).collect();
    let exported = Exported { folder, server: &args.server, files };
    let manifest = serde_json::to_string_pretty(&exported.files);
    let manifest = manifest.map_err(|error| Error::Bug(error.to_string()))?;
    let all = page.iter().map(|(name, file)| (&name[..], &file.content[..]));
    // The manifest comes last: it exists only next to complete files.
    for (name, content) in all.chain([(MANIFEST, manifest.as_bytes())]) {
        let path = folder.join(name);
        let mut file = NewFile::create(&path, Access::Shared, args.force)?;
        file.write_all(content).map_err(|error| Error::io("write", &path, error))?;
        file.finish()?;
    }
    output.write(&exported, |exported| {
        let count = exported.files.len();
        let folder = exported.folder.display();
        format!(
            "{folder}: {count} files for {}, digests and headers in {MANIFEST}\n",
            exported.server
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_plain() {
        let origins = [
            ("https://server.example", "https://server.example"),
            ("https://server.example:8443/sudare", "https://server.example:8443"),
            ("http://127.0.0.1:8470", "http://127.0.0.1:8470"),
            ("http://[::1]:8470", "http://[::1]:8470"),
        ];
        for (server, expected) in origins {
            assert_eq!(origin(server).unwrap(), expected);
        }
        for bad in [
            "http://server.example",
            "https://server.example; script-src *",
            "https://server.example\"><script>",
            "https://me@server.example",
            "https://server.example?x",
            "server.example",
        ] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }

    /// The thread with the keys has no way out.
    #[test]
    fn the_worker_connects_to_nothing() {
        let page = policy(INDEX, "https://s.example");
        assert!(page.contains("connect-src 'self' https://s.example"));
        let worker = policy(WORKER, "https://s.example");
        assert!(!worker.contains("connect-src") && worker.contains("default-src 'none'"));
        for policy in [page, worker] {
            assert!(!policy.contains("'unsafe-inline'") && !policy.contains("'unsafe-eval'"));
        }
    }
}
