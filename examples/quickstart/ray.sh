#!/bin/bash
# Ray on the meter, on one machine: starts a Ray cluster and the meter, submits jobs of which one fails and is submitted
# again, and compares what they cost with Ray's own times, times the price.
#   examples/quickstart/ray.sh [DIR]
# Needs Ray with its dashboard, in an environment of its own: python3 -m venv ray && ray/bin/pip install "ray[default]",
# then RAY=ray/bin examples/quickstart/ray.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
ray=${RAY:-$(dirname "$(command -v ray || echo ray/bin/ray)")}
[ -x "$ray/ray" ] || { echo "ray.sh: no Ray; name the folder of its programs with RAY=FOLDER" >&2; exit 1; }
ray=$(cd "$ray" && pwd)
export PATH="$here/../../.venv/bin:$ray:$PATH"
dir=${1:-$(mktemp -d /tmp/trainfare-ray.XXXXXX)}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
temporary=$(mktemp -d /tmp/ray.XXXXXX) # Ray's sockets need a short path
port=${RAY_PORT:-6379}
address=http://127.0.0.1:${RAY_DASHBOARD_PORT:-8265}
price=3.60 # dollars per GPU-hour: a millionth of a dollar per GPU-millisecond
pids=()

finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$temporary"
}
trap finish EXIT

give_up() {
    echo "$1" >&2
    tail -n 20 "$dir"/*.log >&2
    exit 1
}

within() { # within SECONDS COMMAND...: tried again until it succeeds
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 1
    done
}

echo "1. Ray: one node with four GPUs"
RAY_USAGE_STATS_ENABLED=0 ray start --head --block --disable-usage-stats --temp-dir="$temporary" --port="$port" \
    --dashboard-port="${address##*:}" --num-cpus=4 --num-gpus=4 --node-name=n1 ${RAY_OPTIONS:-} >"$dir/cluster.log" 2>&1 &
pids+=($!)
within 180 curl --silent --fail "$address/api/jobs/" || give_up "Ray did not start"

echo "2. The meter, with a price of \$$price for an hour of a GPU"
export TRAINFARE_WEB_PORT="${TRAINFARE_WEB_PORT:-8787}" TRAINFARE_LOG_LEVEL=warning
trainfare serve --data "$dir/meter" >"$dir/meter.log" 2>&1 &
pids+=($!)
within 120 curl --silent --fail "http://127.0.0.1:$TRAINFARE_WEB_PORT/readyz" || give_up "the meter did not start"
. "$dir/meter/log/client.env"
trainfare prices load "$here/sdk_prices.csv" >"$dir/prices.log" 2>&1 || give_up "the price was not loaded"

echo "3. The collector"
cat >"$dir/collect.toml" <<E
[ray]
url = "$address"
interval_s = 1
E
trainfare collect ray --config "$dir/collect.toml" --state "$dir/ray.position" >"$dir/collect.log" 2>&1 &
pids+=($!)

echo "4. Four jobs: one fails and is submitted again, one holds a placement group of two GPUs"
submit() { # submit NAME GPUS COMMAND...
    local name=$1 gpus=$2
    shift 2
    ray job submit --address "$address" --no-wait --entrypoint-num-gpus "$gpus" \
        --metadata-json "{\"trainfare.job_id\": \"$name\", \"owner\": \"ada\"}" -- "$@" >>"$dir/submit.log" 2>&1 ||
        give_up "job $name was not submitted"
}
states() { # what became of all jobs
    curl --silent --fail "$address/api/jobs/" |
        "$ray/python" -c 'import json, sys; print(*sorted(job["status"] for job in json.load(sys.stdin)))'
}
are() { [ "$(states)" = "$1" ]; }
submit lr-1 1 sleep 4
submit lr-2 0.5 bash -c 'sleep 3; exit 3'
within 180 are "FAILED SUCCEEDED" || give_up "the first two jobs did not end"
submit lr-2 0.5 sleep 5
submit groups 0 "$ray/python" "$here/ray_groups.py"
within 180 are "FAILED SUCCEEDED SUCCEEDED SUCCEEDED" || give_up "the last two jobs did not end"

echo "5. What Ray says, and what the meter says"
of_meter() {
    trainfare sql "SELECT job_id, state, attempts, cost_usd FROM job_costs ORDER BY job_id" --data "$dir/meter" --format csv |
        tail -n +2 | tr -d '"' | awk -F, '{ printf "%s\t%s\t%d\t%.9f\n", $1, $2, $3, $4 }' | sort
}
are_equal() {
    "$ray/python" "$here/ray_figures.py" "$address" "$price" >"$dir/ray.txt"
    of_meter >"$dir/meter.txt"
    [ "$(wc -l <"$dir/ray.txt")" = 3 ] && cmp "$dir/ray.txt" "$dir/meter.txt"
}
within 300 are_equal || { diff "$dir/ray.txt" "$dir/meter.txt" || true; give_up "they differ (< Ray, > meter)"; }
printf 'job\tstate\tattempts\tusd\n'
cat "$dir/meter.txt"
echo "equal, to the nano-dollar"
