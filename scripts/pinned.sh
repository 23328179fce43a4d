#!/usr/bin/env bash
# Fails if a workflow names an action without a commit, or deploy/ an image without an exact version: a
# person who can move a tag could otherwise run code next to the data, or where packages are published.
set -euo pipefail
cd "$(dirname "$0")/.."
actions=$(grep -rnE '^[[:space:]-]*uses:' .github/workflows | grep -vE '@[0-9a-f]{40} # v[0-9]+\.[0-9.]+$' || true)
images=$(grep -nE '^FROM |^[[:space:]]*image:' deploy/Dockerfile deploy/compose.yaml |
  grep -vE ':[0-9]+\.[0-9]+(\.[0-9]+)?(-[a-z-]+)?(@sha256:[0-9a-f]{64})?( AS [a-z]+)?$' || true)
if [ -n "$actions$images" ]; then
  printf 'not pinned:\n%s\n%s\n' "$actions" "$images" >&2
  exit 1
fi
