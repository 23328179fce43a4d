#!/usr/bin/env python3
"""Installs wheels where there is no Rust and no compiler, and runs the first example of each.

    python3 scripts/test_wheel.py [WHEEL…]

All that are in wheels/ are tested unless some are named. The example is taken from the wheel's own
description, which is python/README.md; it has to print what its comment says, in SECONDS. Then the
command of the wheel exports the owner's page, which the wheel has to have. A wheel
for this machine gets a virtual environment. One for ARM with glibc is run by QEMU elsewhere,
without a limit of time: that takes qemu-user and mmdebstrap of Debian, which puts a Python for ARM
into target/arm64. Others are named and left out. It is an error if no wheel was run.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 30
# Run where a wheel is installed: prints its first example, what that prints, and seconds.
EXAMPLE = r"""
import contextlib, importlib.metadata, io, json, re, time
text = importlib.metadata.metadata("sudare")["Description"]
code = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
printed, start = io.StringIO(), time.perf_counter()
with contextlib.redirect_stdout(printed):
    exec(code, {})
print(json.dumps([code, printed.getvalue(), time.perf_counter() - start]))
"""
# What there has to be of the page.
PAGE = {"index.html", "worker.js", "sudare_web_bg.wasm"}
# A system with a Python for ARM: Debian's, which is unpacked and not set up.
ARM = ROOT / "target/arm64"
DEBIAN = "bookworm"
# The second is for NumPy.
ARM_PACKAGES = "python3,libstdc++6"
# Newest first: what NumPy's wheels for that system are made for.
ARM_PLATFORMS = ["manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64"]


class Unsupported(Exception):
    """A wheel is for another machine, and says for which."""


def output(command, **options):
    """What a command prints; if it fails, all ends with what it said."""
    run = subprocess.run(command, capture_output=True, text=True, **options)
    if "is not a supported wheel on this platform" in run.stderr:
        raise Unsupported("it is for another system or processor")
    if run.returncode:
        sys.exit(f"{command[0]} ends with {run.returncode}:\n{run.stdout}{run.stderr}")
    return run.stdout


def environment(folder):
    """Makes a virtual environment and returns its Python."""
    venv.create(folder, with_pip=True)
    return str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")


def install(python, wheel, options=()):
    """Installs a wheel and what it needs, nothing of which is compiled."""
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    output([*pip, "--only-binary=:all:", *options, wheel])


def install_for_arm(python, wheel, folder):
    """Installs a wheel beside a Python for ARM and returns the command that runs that."""
    if missing := [tool for tool in ("qemu-aarch64", "mmdebstrap") if not shutil.which(tool)]:
        raise Unsupported(f"{' and '.join(missing)} would run it")
    if not ARM.exists():
        # It gets its name when it is whole.
        part = ARM.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(exist_ok=True)
        options = ["--variant=extract", "--architectures=arm64", f"--include={ARM_PACKAGES}"]
        output(["mmdebstrap", "--quiet", *options, DEBIAN, part])
        part.rename(ARM)
    command = ["qemu-aarch64", "-L", ARM, "-E", f"PYTHONPATH={folder}", ARM / "usr/bin/python3"]
    version = output([*command, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    options = [f"--target={folder}", f"--python-version={version.strip()}"]
    install(python, wheel, [*options, *(f"--platform={name}" for name in ARM_PLATFORMS)])
    return command


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d*", text)]


def export_page(command, folder):
    """Has the command write the page, which gives the bytes of its files."""
    web = [*command, "-m", "sudare", "--json", "web", "--server", "https://server.example"]
    files = json.loads(output([*web, "--export", folder]))["files"]
    written = {name: (folder / name).stat().st_size for name in files}
    if not PAGE <= written.keys() or any(written[name] != files[name]["bytes"] for name in files):
        sys.exit(f"the page has {written}, and not {files}")
    return sum(written.values())


def check(wheel):
    """Runs the example and exports the page of a wheel, and says how it went; ends all if it fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        python = environment(folder / "environment")
        command, emulated = [python], False
        try:
            install(python, wheel)
        except Unsupported:
            emulated = "manylinux" in wheel.name and "aarch64" in wheel.name
            if not emulated:
                raise
            command = install_for_arm(python, wheel, folder / "arm")
        code, printed, seconds = json.loads(output([*command, "-c", EXAMPLE], cwd=folder))
        page = export_page(command, folder / "page")
    expected = re.search(r"# (\[[^]]*\])", code)[1]
    found, shown = numbers(printed), numbers(expected)
    if len(found) != len(shown) or any(abs(a - b) > 1e-3 for a, b in zip(found, shown)):
        sys.exit(f"{wheel.name} prints {printed.strip()} and not {expected}")
    if seconds > SECONDS and not emulated:
        sys.exit(f"{wheel.name} takes {seconds:.1f} s for its example, and not {SECONDS}")
    emulated = ", by QEMU" if emulated else ""
    print(f"{wheel.name}: {seconds:.1f} s{emulated}; a page of {page} bytes", flush=True)


def main():
    named = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    run = 0
    for wheel in named or sorted((ROOT / "wheels").glob("*.whl")):
        try:
            check(wheel)
            run += 1
        except Unsupported as why:
            print(f"{wheel.name}: not run: {why}", flush=True)
    if not run:
        sys.exit("no wheel was run")


if __name__ == "__main__":
    main()
