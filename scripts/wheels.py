#!/usr/bin/env python3
"""Builds wheels of the Python package into wheels/.

Pass the platforms, or `all` for all that this system can link. The default is this machine. Any system builds wheels
for Linux with zig, and for Windows with mingw-w64, which contain the system libraries. Without macOS and its SDK, the
named wheel for macOS is linked with stubs (macos_stubs.py). You also need maturin (`pip install maturin[zig]`) and
Rust's targets, which --targets prints. Each wheel contains the owner's page: `make web` makes it first, and the
script removes it from the package afterwards, so that no later build packs an old one.
"""

import argparse
import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import macos_stubs

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "python/sudare/page"
# Rust's target of the page.
BROWSER = "wasm32-unknown-unknown"
WINDOWS, MACOS = "win_amd64", "macosx_universal2"
# Ends of the names of wheels, and Rust's targets of each platform.
PLATFORMS = {
    "manylinux2014_x86_64": ["x86_64-unknown-linux-gnu"],
    "manylinux2014_aarch64": ["aarch64-unknown-linux-gnu"],
    "musllinux_1_2_x86_64": ["x86_64-unknown-linux-musl"],
    "musllinux_1_2_aarch64": ["aarch64-unknown-linux-musl"],
    WINDOWS: ["x86_64-pc-windows-gnu"],
    MACOS: ["aarch64-apple-darwin", "x86_64-apple-darwin"],
}
# Links for Windows. With zig, maturin would export a wrong symbol for modules within packages.
MINGW = "x86_64-w64-mingw32-gcc"


def here():
    """Returns the platform of this machine."""
    system, machine = platform.system(), platform.machine().lower()
    if system == "Linux":
        libc = "manylinux2014" if platform.libc_ver()[0] == "glibc" else "musllinux_1_2"
        return f"{libc}_{machine}"
    return {"Windows": f"win_{machine}", "Darwin": MACOS}.get(system, system)


def has_libraries(name):
    """Returns whether this system has the libraries of a platform, or stubs of them."""
    return name != MACOS or sys.platform == "darwin" or "SDKROOT" in os.environ


def takes_zig(name):
    return name != WINDOWS and (name != MACOS or sys.platform != "darwin")


def missing(names):
    """Lists tools that are missing for platforms, and how to get them."""
    if not shutil.which("maturin"):
        yield "maturin, of PyPI: pip install maturin[zig]"
    if any(map(takes_zig, names)) and not importlib.util.find_spec("ziglang"):
        yield "zig, of PyPI: pip install ziglang"
    if WINDOWS in names and not shutil.which(MINGW):
        yield f"{MINGW}, of mingw-w64: apt-get install gcc-mingw-w64-x86-64"
    if not shutil.which("rustc"):
        yield "Rust, by rustup"
        return
    for target in targets(names):
        ask = ["rustc", "--print", "target-libdir", "--target", target]
        place = subprocess.run(ask, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        if not pathlib.Path(place.stdout.strip()).exists():
            yield f"a target of Rust: rustup target add {target}"


def targets(names):
    return [BROWSER, *(target for name in names for target in PLATFORMS[name])]


def run(name, command):
    if code := subprocess.run(command, cwd=ROOT).returncode:
        sys.exit(f"{name}: {command[0]} ends with {code}")


def build(name):
    target = "universal2-apple-darwin" if name == MACOS else PLATFORMS[name][0]
    command = ["maturin", "build", "--release", "--out", "wheels", "--target", target]
    if "linux" in name:
        command += ["--compatibility", name.removesuffix("_" + target.partition("-")[0])]
    if takes_zig(name):
        command.append("--zig")
    if not has_libraries(name):
        paths = macos_stubs.write(ROOT / "target/macos")
        command += ["--", *(f"-Clink-arg={path}" for path in paths)]
    run(name, command)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("platform", nargs="*", help=", ".join([*PLATFORMS, "all"]))
    parser.add_argument("--targets", action="store_true", help="print Rust's targets alone")
    chosen = parser.parse_args()
    names = chosen.platform or [here()]
    if "all" in names:
        names = list(filter(has_libraries, PLATFORMS))
    if unknown := [name for name in names if name not in PLATFORMS]:
        sys.exit(f"no wheels for {', '.join(unknown)}, but for {', '.join(PLATFORMS)}; "
                 "pip install . compiles for other machines")
    if chosen.targets:
        print(*targets(names))
    elif lacks := list(missing(names)):
        sys.exit("it takes\n  " + "\n  ".join(lacks))
    else:
        try:
            run("the page", ["make", "web", f"PAGE={PAGE.relative_to(ROOT).as_posix()}"])
            for name in names:
                build(name)
        finally:
            shutil.rmtree(PAGE, ignore_errors=True)


if __name__ == "__main__":
    main()
