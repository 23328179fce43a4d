#!/usr/bin/env bash
# Runs a command beside a server of PostgreSQL of its own, whose address is in SUDARE_TEST_POSTGRES:
# `with_postgres.sh COMMAND ARGUMENT…`. Server and data are gone when the command has ended.
set -euo pipefail
# Debian has it apart from other programs.
bin=$({ ls -d /usr/lib/postgresql/*/bin 2>/dev/null || true; } | sort -V | tail -1)
bin=${bin:-$(dirname "$(command -v initdb || echo /missing/initdb)")}
[[ -x $bin/initdb ]] || { echo "install PostgreSQL first: postgresql of Debian" >&2; exit 1; }
folder=$(mktemp -d)
as=()
if [[ $(id -u) == 0 ]]; then
  # It refuses to run as root.
  chown postgres "$folder"
  as=(runuser -u postgres --)
fi
end() {
  "${as[@]}" "$bin/pg_ctl" --pgdata "$folder/data" --mode immediate --silent stop || true
  rm -rf "$folder"
}
trap end EXIT
cd "$folder"
"${as[@]}" "$bin/initdb" --pgdata "$folder/data" --username sudare --auth trust >"$folder/log" \
  || { cat "$folder/log" >&2; exit 1; }
port=$((20000 + RANDOM % 20000))
"${as[@]}" "$bin/pg_ctl" --pgdata "$folder/data" --silent --wait --log "$folder/server.log" \
  --options "-c fsync=off -c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=$folder" start
cd - >/dev/null
SUDARE_TEST_POSTGRES=postgresql://sudare@127.0.0.1:$port/postgres "$@"
