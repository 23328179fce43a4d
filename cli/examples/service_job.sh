#!/bin/sh
# A job on a running server: the operator starts it and makes a token, and the owner uploads keys
# and a table, waits for the result, and checks its receipt. It needs a command with the service
# (`cargo install --locked --path cli --features full`).
#
# sh cli/examples/service_job.sh
set -eu

examples=$(cd "$(dirname "$0")" && pwd)
table=$(realpath "$examples/../../crates/apps/data/lbw.csv")
work=$(mktemp -d)
server=
finish() {
  # On SIGTERM the server saves its state and ends.
  if [ -n "$server" ]; then kill "$server" && wait "$server" || true; fi
  rm -rf "$work"
}
trap finish EXIT
cd "$work"
mkdir operator owner

# The operator. Port 0 is a free one, and JSON tells which. Between machines, use TLS.
sudare serve token add --folder operator/store --tenant clinic --days 90 > owner/clinic.token
chmod 600 owner/clinic.token
sudare serve key --folder operator/store > owner/server-key.txt
sudare serve --folder operator/store --listen 127.0.0.1:0 --json \
  > operator/serving.json 2> operator/server.log &
server=$!
until grep -qs listening operator/serving.json; do
  kill -0 "$server"
  sleep 1
done
url=$(sed 's/.*"listening":"\([^"]*\)".*/\1/' operator/serving.json)

# The owner. One command uploads missing files, starts the job, waits and downloads the result. If
# the line breaks, run it again.
cd owner
SUDARE_URL=$url
SUDARE_SERVER_KEY=$(cat server-key.txt)
export SUDARE_URL SUDARE_SERVER_KEY
sudare keygen --params auto --for stats:189x10 --out keys
sudare encrypt --secret keys/secret.key --data "$table" -o births.ct
sudare remote stats --token-file clinic.token --evaluation-key keys/evaluation.key -i births.ct \
  -o result.ct
sudare receipt check result.ct.receipt --server-key "$SUDARE_SERVER_KEY" --result result.ct \
  --evaluation-key keys/evaluation.key -i births.ct
sudare decrypt --secret keys/secret.key -i result.ct --table births.ct -o result.json
sudare remote status --token-file clinic.token
