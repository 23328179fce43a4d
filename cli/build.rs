//! Records the compiler's version for `sudare doctor`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    if let Some(text) = version.ok().and_then(|out| String::from_utf8(out.stdout).ok()) {
        println!("cargo:rustc-env=SUDARE_RUSTC={}", text.trim());
    }
}
