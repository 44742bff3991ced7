#!/usr/bin/env bash
# One machine, no Kafka: a training that saves, crashes and resumes, and what it cost, as its own clock says.
#
#   examples/quickstart/sdk.sh [DIR]     DIR (default ./meter) is where the meter keeps its log and tables
#
# Needs `trainfare` and, for the training, a Python with NumPy and the SDK (pip install ./sdk). Other programs:
# TRAINFARE=/path/to/trainfare PYTHON=/path/to/python3. It takes half a minute.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
data=${1:-./meter}
python=${PYTHON:-python3}
trainfare=${TRAINFARE:-trainfare}
export TRAINFARE_WEB_PORT=${TRAINFARE_WEB_PORT:-8787}
export TRAINFARE_URL=http://127.0.0.1:$TRAINFARE_WEB_PORT

"$python" -c 'import numpy, trainfare' 2>/dev/null ||
  { echo "sdk.sh: $python has no NumPy or no SDK: $python -m pip install numpy ./sdk" >&2; exit 1; }
mkdir -p "$data"

echo "== trainfare serve --data $data (its log: $data/serve.log; the page: $TRAINFARE_URL)"
"$trainfare" serve --data "$data" >"$data/serve.log" 2>&1 &
serve=$!
trap 'kill "$serve" 2>/dev/null; wait "$serve" || true' EXIT
until "$python" -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + "/readyz")' "$TRAINFARE_URL" 2>/dev/null; do
  kill -0 "$serve" 2>/dev/null || { echo "sdk.sh: serve did not start:" >&2; tail -5 "$data/serve.log" >&2; exit 1; }
  sleep 0.2
done

echo "== a GPU costs 3.60 USD an hour, a millionth of a dollar a millisecond"
(. "$data/log/client.env" && "$trainfare" prices load "$here/sdk_prices.csv")

export TRAINFARE_TOKEN TRAINFARE_STATE_DIR=$data/attempts TRAINFARE_SPOOL=$data/spool
TRAINFARE_TOKEN=$(cat "$data/token")
echo "== attempt 1 crashes at step 60, 10 steps after its checkpoint"
"$python" "$here/sdk_train.py" --folder "$data/run-7" --fail-at 60 || echo "-- exit status $?"
echo "== attempt 2 resumes from the checkpoint"
"$python" "$here/sdk_train.py" --folder "$data/run-7"

echo "== trainfare job run-7 --data $data"
for _ in {1..120}; do
  shown=$("$trainfare" job run-7 --data "$data" 2>&1) && grep -q '^state  *completed' <<<"$shown" && break
  sleep 0.5
done
echo "$shown"
