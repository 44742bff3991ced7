#!/bin/bash
# Slurm on the meter, on one machine: starts a Slurm cluster and the meter, submits a sweep of jobs of which one is
# requeued and one fails, and compares what they cost with what sacct says, times the price.
#   examples/quickstart/slurm.sh [DIR]
# With TRAINFARE_KAFKA_BOOTSTRAP_SERVERS set it uses that Kafka, else a log on disk (trainfare serve).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export PATH="$here/../../.venv/bin:$PATH"
dir=${1:-$(mktemp -d /tmp/trainfare-slurm.XXXXXX)}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
price=3.60 # dollars per GPU-hour: a tenth of a cent per GPU-second
pids=()

finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    "$here/slurm-cluster.sh" stop "$dir/slurm"
}
trap finish EXIT

give_up() {
    echo "$1" >&2
    tail -n 20 "$dir"/*.log >&2
    exit 1
}

within() { # within SECONDS COMMAND...: tried again until it succeeds
    local left=$1
    shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 1
    done
}

echo "1. Slurm: two nodes with four GPUs each"
"$here/slurm-cluster.sh" start "$dir/slurm" "${SLURM_PORT:-17800}" >"$dir/cluster.log" || give_up "Slurm did not start"
export SLURM_CONF="$dir/slurm/slurm.conf" SLURM_TIME_FORMAT=%s

echo "2. The meter, with a price of \$$price for an hour of an H100"
export TRAINFARE_WEB_PORT="${TRAINFARE_WEB_PORT:-8787}" TRAINFARE_LOG_LEVEL=warning
if [ -n "${TRAINFARE_KAFKA_BOOTSTRAP_SERVERS:-}" ]; then
    trainfare topics create >"$dir/topics.log" 2>&1 || give_up "no topics"
    trainfare worker --data "$dir/meter" >"$dir/meter.log" 2>&1 &
else
    trainfare serve --data "$dir/meter" >"$dir/meter.log" 2>&1 &
fi
pids+=($!)
within 120 curl --silent --fail "http://127.0.0.1:$TRAINFARE_WEB_PORT/readyz" || give_up "the meter did not start"
# Where Kafka's protocol is spoken, and a password that is new at each start.
[ -n "${TRAINFARE_KAFKA_BOOTSTRAP_SERVERS:-}" ] || . "$dir/meter/log/client.env"
cat >"$dir/prices.jsonl" <<E
{"topic": "prices", "value": {"id": "1", "source": "quickstart", "time_ms": 1767225600000, "sku": "gpu.h100", "component": "gpu", "usd": "$price", "per": "gpu_hour", "effective_ms": 1767225600000, "gpu_type": "H100"}}
E
trainfare publish "$dir/prices.jsonl" >"$dir/publish.log" 2>&1 || give_up "the price was not published"

echo "3. The collector"
cat >"$dir/collect.toml" <<E
[slurm]
interval_s = 1
gpu_types = { h100 = "H100" }
allocations_output_file = "$dir/allocations.json"
E
trainfare collect slurm --config "$dir/collect.toml" --state "$dir/slurm.position" >"$dir/collect.log" 2>&1 &
pids+=($!)

echo "4. A sweep: four jobs, the third fails, and one that is requeued while it runs"
cd "$dir" # Slurm runs jobs where they are submitted
sbatch --parsable -J lr-sweep -A vision --array=1-4 --gres=gpu:h100:2 -o /dev/null \
    --wrap 'sleep $((SLURM_ARRAY_TASK_ID + 2)); [ $SLURM_ARRAY_TASK_ID != 3 ]' >"$dir/submit.log"
again=$(sbatch --parsable -J resumed -A nlp --gres=gpu:h100:1 --requeue -o /dev/null \
    --wrap 'sleep $((20 / (${SLURM_RESTART_COUNT:-0} * 4 + 1)))')
state_is() { [ "$(squeue --noheader --states=all -o %T -j "$again")" = "$1" ]; }
within 60 state_is RUNNING || give_up "the job that is to be requeued did not start"
sleep 2
grep -H . "$dir"/slurm/gpu-jobs/*/? >"$dir/gpu-jobs.log" || true # what the prolog wrote
scontrol requeue "$again"
within 60 state_is PENDING || give_up "the job was not requeued"
scontrol update "JobId=$again" StartTime=now # Slurm would wait two minutes
within 120 state_is COMPLETED || give_up "the requeued job did not end"

echo "5. What sacct says, and what the meter says"
of_sacct() { # job, state, and seconds x GPUs x price of all its attempts
    sacct --duplicates --allocations --noheader --parsable2 --format=JobID,ElapsedRaw,AllocTRES,State |
        awk -F'|' -v price="$price" '
            match($3, /gres\/gpu=[0-9]+/) {
                gpus = substr($3, RSTART + 9, RLENGTH - 9)
                usd[$1] += $2 * gpus * price / 3600
                attempts[$1]++
                state[$1] = tolower($4)
            }
            END { for (job in usd) printf "%s\t%s\t%d\t%.9f\n", job, state[job], attempts[job], usd[job] }' | sort
}
of_meter() {
    trainfare sql "SELECT job_id, state, attempts, cost_usd FROM job_costs ORDER BY job_id" --data "$dir/meter" --format csv |
        tail -n +2 | tr -d '"' |
        awk -F, '{ printf "%s\t%s\t%d\t%.9f\n", $1, $2, $3, $4 }' | sort
}
are_equal() {
    of_sacct >"$dir/sacct.txt"
    of_meter >"$dir/meter.txt"
    [ "$(wc -l <"$dir/sacct.txt")" = 5 ] && cmp "$dir/sacct.txt" "$dir/meter.txt"
}
within 60 are_equal || { diff "$dir/sacct.txt" "$dir/meter.txt" || true; give_up "they differ (< sacct, > meter)"; }
printf 'job\tstate\tattempts\tusd\n'
cat "$dir/meter.txt"
echo "equal, to the nano-dollar"
