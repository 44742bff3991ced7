#!/bin/bash
# Starts and stops a Slurm cluster of two nodes with four made-up GPUs each, accounting included, on this machine alone:
# its files are in one directory, its ports on 127.0.0.1. For trials and tests; as root or as the user that submits.
#   slurm-cluster.sh start DIR [PORT]    DIR absolute, outside of shared folders; takes PORT (default 17800) to PORT+4
#   slurm-cluster.sh stop DIR
# Debian: apt-get install slurm-wlm slurmdbd munge mariadb-server
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export PATH="$PATH:/usr/sbin:/sbin"
what=${1:?start or stop} dir=${2:?the directory} port=${3:-17800}
user=$(id -un) host=$(hostname -s)

stop() {
    local file pid
    for file in slurmctld n1 n2 slurmdbd db munged; do
        pid=$(cat "$dir/run/$file.pid" 2>/dev/null) || continue
        kill "$pid" 2>/dev/null || continue
        for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    done
}

until_it_answers() {
    for _ in $(seq 100); do "$@" >"$dir/log/wait" 2>&1 && return; sleep 0.2; done
    echo "no answer: $*" >&2
    cat "$dir/log/wait" >&2
    exit 1
}

write_configuration() {
    cat >"$dir/slurmdbd.conf" <<E
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge
DbdHost=$host
DbdAddr=127.0.0.1
DbdPort=$((port + 1))
SlurmUser=$user
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
LogFile=$dir/log/slurmdbd
PidFile=$dir/run/slurmdbd.pid
E
    chmod 600 "$dir/slurmdbd.conf" # slurmdbd insists
    cat >"$dir/slurm.conf" <<E
ClusterName=quick
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmctldLogFile=$dir/log/slurmctld
StateSaveLocation=$dir/state
SlurmdPidFile=$dir/run/%n.pid
SlurmdLogFile=$dir/log/%n
SlurmdSpoolDir=$dir/spool/%n
SlurmdParameters=config_overrides
Prolog=$dir/gpu-jobs.sh
Epilog=$dir/gpu-jobs.sh
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 1))
AccountingStoragePass=$dir/run/munge
AccountingStorageTRES=gres/gpu,gres/gpu:h100
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=2
KillWait=2
ReturnToService=2
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 3)) CPUs=4 RealMemory=1000 Gres=gpu:h100:4
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 4)) CPUs=4 RealMemory=1000 Gres=gpu:h100:4
PartitionName=batch Nodes=ALL Default=YES MaxTime=60 PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=60 PriorityTier=10
E
    # Slurm takes a GPU's index from such a name.
    printf 'NodeName=%s Name=gpu Type=h100 File=%s/nvidia[0-3]\n' n1 "$dir/gpu/n1" n2 "$dir/gpu/n2" >"$dir/gres.conf"
    sed "s#^dir=.*#dir=$dir/gpu-jobs/\$SLURMD_NODENAME#" "$here/../slurm/gpu-jobs.sh" >"$dir/gpu-jobs.sh"
    chmod +x "$dir/gpu-jobs.sh"
    echo 'CgroupPlugin=autodetect' >"$dir/cgroup.conf"
}

start() {
    mkdir -p "$dir"/{run,log,state,spool,db,gpu/n1,gpu/n2}
    chmod 755 "$dir" "$dir/run" # munge wants its socket in reach of all
    for node in n1 n2; do # what is no device, Slurm would count but not tell a prolog about
        for gpu in 0 1 2 3; do ln -sf /dev/null "$dir/gpu/$node/nvidia$gpu"; done
    done
    write_configuration
    dd if=/dev/urandom of="$dir/munge.key" bs=128 count=1 status=none
    chmod 400 "$dir/munge.key"
    munged --force --key-file="$dir/munge.key" --socket="$dir/run/munge" --pid-file="$dir/run/munged.pid" \
        --log-file="$dir/log/munged" --seed-file="$dir/run/seed"
    mariadb-install-db --no-defaults --user="$user" --datadir="$dir/db" \
        --auth-root-authentication-method=normal --skip-test-db --force >"$dir/log/install-db" 2>&1
    # Over its socket only, so a database of its own without a password does no harm.
    mariadbd --no-defaults --user="$user" --datadir="$dir/db" --socket="$dir/run/db" --pid-file="$dir/run/db.pid" \
        --skip-networking >"$dir/log/db" 2>&1 </dev/null &
    export MYSQL_UNIX_PORT="$dir/run/db" SLURM_CONF="$dir/slurm.conf"
    until_it_answers mariadb-admin --no-defaults --user=root --socket="$dir/run/db" ping
    slurmdbd
    until_it_answers sacctmgr --noheader show cluster
    {
        sacctmgr -i add cluster quick
        sacctmgr -i add account vision,nlp cluster=quick
        sacctmgr -i add user "$user" account=vision,nlp cluster=quick defaultaccount=vision
    } >"$dir/log/accounts" 2>&1
    slurmctld
    slurmd -N n1
    slurmd -N n2
    until_it_answers srun --nodes=2 --time=1 --job-name=first true
    echo "export SLURM_CONF=$SLURM_CONF"
}

case $what in
start) start || { stop; exit 1; } ;;
stop) stop ;;
*) echo "expected start or stop" >&2; exit 2 ;;
esac
