#!/usr/bin/env bash
# Fails if Cargo chooses other features of a dependency for the command or the Python package alone than
# where all tests are built: what stands on it would be compiled once more for each.
set -euo pipefail

tree() {
  cargo tree --locked --prefix none --format '{p} {f}' "$@" | sed 's/ (\*)$//' | sort -u
}

all=$(tree --workspace)
for package in sudare-cli sudare-python; do
  others=$(comm -23 <(tree --package "$package" --edges normal,build) <(echo "$all"))
  if [[ -n $others ]]; then
    echo "features for $package that differ from those for all tests:" >&2
    echo "$others" >&2
    exit 1
  fi
done
