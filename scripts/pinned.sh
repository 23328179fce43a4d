#!/usr/bin/env bash
# Fails on actions of workflows that are not named by a commit, and on images of deploy/ without an exact
# version: whoever can move a tag would run code where packages are published, or beside the data.
set -euo pipefail
cd "$(dirname "$0")/.."
actions=$(grep -rnE '^[[:space:]-]*uses:' .github/workflows | grep -vE '@[0-9a-f]{40} # v[0-9]+\.[0-9.]+$' || true)
images=$(grep -nE '^FROM |^[[:space:]]*image:' deploy/Dockerfile deploy/compose.yaml |
  grep -vE ':[0-9]+\.[0-9]+(\.[0-9]+)?(-[a-z-]+)?(@sha256:[0-9a-f]{64})?( AS [a-z]+)?$' || true)
if [ -n "$actions$images" ]; then
  printf 'not pinned:\n%s\n%s\n' "$actions" "$images" >&2
  exit 1
fi
