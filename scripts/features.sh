#!/usr/bin/env bash
# Fails if Cargo chooses other features of a dependency for the Python package alone than where all tests are
# built: everything that depends on it would be compiled once more. Fails, too, if the command that people
# build to try it depends on the libraries of the service.
set -euo pipefail

tree() {
  cargo tree --locked --prefix none --format '{p} {f}' "$@" | sed 's/ (\*)$//' | sort -u
}

all=$(tree --workspace)
others=$(comm -23 <(tree --package sudare-python --edges normal,build) <(echo "$all"))
if [[ -n $others ]]; then
  echo "features for sudare-python that differ from those for all tests:" >&2
  echo "$others" >&2
  exit 1
fi

small=$(cargo tree --locked --prefix none --format '{p}' --package sudare-cli --edges normal,build | sed 's/ .*//' | sort -u)
service='^(axum|hyper|tokio|libsqlite3-sys|rusqlite|postgres|tokio-postgres|object_store|opentelemetry.*|tracing.*|reqwest)$'
if grep -E "$service" <<<"$small" >&2; then
  echo "the command without features depends on these: put them behind its feature serve" >&2
  exit 1
fi
if (($(wc -l <<<"$small") > 150)); then
  echo "the command without features takes $(wc -l <<<"$small") crates, and may take 150" >&2
  exit 1
fi
