"""What programs say that slots become: lines of JSON with `op` and `slots`."""

import json
import subprocess

from programs import ROOT, BuildFailed, last_line


def parse(text: str) -> dict[str, list]:
    """Slots by the operation that made them."""
    lines = map(json.loads, filter(str.strip, text.splitlines()))
    return {line["op"]: line["slots"] for line in lines}


def of_program(command: list[str]) -> dict[str, list]:
    """What a program says; BuildFailed if it ends with an error."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildFailed(f"{command[0]}: {last_line(done.stderr)}")
    return parse(done.stdout)


def of_example(name: str) -> dict[str, list]:
    """What an example of sudare says."""
    cargo = ["cargo", "run", "--quiet", "--locked", "--profile", "dev", "--package", "sudare"]
    return of_program([*cargo, "--example", name])
