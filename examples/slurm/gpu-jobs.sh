#!/bin/bash
# Prolog and epilog of slurmd in one: writes down which job has which GPU of this node, for dcgm-exporter, which then
# names the job in the label hpc_job. For sites whose exporters cannot be given the allocations of `trainfare collect slurm`.
#   slurm.conf:     Prolog=/etc/slurm/gpu-jobs.sh
#                   Epilog=/etc/slurm/gpu-jobs.sh
#   dcgm-exporter:  DCGM_HPC_JOB_MAPPING_DIR=/run/gpu-jobs
#   collect.toml:   [slurm] raw_job_ids = true    (of a task of an array, slurmd knows Slurm's own number only)
# A file for each GPU, named by its index, with a line for each job. It never fails: a prolog that fails drains its node.
dir=/run/gpu-jobs
[ -n "${SLURM_JOB_GPUS:-}" ] && [[ "${SLURM_JOB_ID:-}" =~ ^[0-9]+$ ]] || exit 0
mkdir -p "$dir" || exit 0
exec 9>"$dir/.lock" && flock -w 10 9 || exit 0 # jobs that share a GPU begin and end at once
IFS=, read -ra gpus <<<"$SLURM_JOB_GPUS"
for gpu in "${gpus[@]}"; do
    [[ "$gpu" =~ ^[0-9]+$ ]] || continue
    file="$dir/$gpu"
    others=$(grep -vx "$SLURM_JOB_ID" "$file" 2>/dev/null)
    if [ "${SLURM_SCRIPT_CONTEXT:-}" = epilog_slurmd ]; then
        mine=""
    else
        mine=$SLURM_JOB_ID
    fi
    jobs=$(printf '%s\n%s\n' "$others" "$mine" | grep .)
    if [ -n "$jobs" ]; then
        printf '%s\n' "$jobs" >"$file.new" && mv "$file.new" "$file"
    else
        rm -f "$file"
    fi
done
exit 0
