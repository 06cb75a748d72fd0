#!/usr/bin/env bash
# Driver, scheduler and workers in one allocation of SLURM: nothing has to run on the login node.
#
#   sbatch cluster/sbatch.sh STUDY.yaml [--store STORE]
#
# Give sbatch's own options before the script (sbatch --ntasks=65 cluster/sbatch.sh ..). The same command, given again,
# goes on where a job ended. README-sbatch.md beside this file says more.
#SBATCH --job-name=pbdist
#SBATCH --ntasks=9
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=2560M
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@120
set -euo pipefail

# Lines for your site, such as `module load python` or `source /path/to/.venv/bin/activate`.
python=${PBDIST_PYTHON:-python}
# Of each worker, somewhat below --mem-per-cpu: the process that watches over it needs some too.
memory=${PBDIST_WORKER_MEMORY:-2GiB}

# The network that scheduler and workers listen on, such as ib0; else the address with which a node reaches the others.
interface=${PBDIST_INTERFACE:-}
# Anything but nothing: certificates are made for this job, and only who has them is let in (pip install 'pbdist[tls]').
tls=${PBDIST_TLS:-}

if [[ $# -eq 0 || -z ${SLURM_JOB_ID:-} ]]; then
  echo "usage: sbatch ${BASH_SOURCE[0]} STUDY.yaml [options of pbdist run]" >&2
  exit 2
fi
# One task's share is the driver's and the scheduler's, the others are workers.
workers=$((SLURM_NTASKS > 1 ? SLURM_NTASKS - 1 : 1))

# Dask's own MALLOC_TRIM_THRESHOLD_ gives every vector's pages back to the system and fetches them again for the next.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
export MALLOC_TRIM_THRESHOLD_=268435456 MALLOC_MMAP_THRESHOLD_=268435456

# What scheduler and workers say of themselves, apart from the driver's progress.
log="$PWD/slurm-$SLURM_JOB_ID-workers.out"
# All nodes must see it; it goes with the job.
folder=$(mktemp -d "$PWD/.pbdist-$SLURM_JOB_ID-XXXXXX")
driver="" scheduler="" srun=""
finish() {
  trap - EXIT
  # The scheduler first: workers that lose it end by themselves.
  for process in $scheduler $srun; do kill -TERM "$process" 2>/dev/null || true; done
  for process in $scheduler $srun; do wait "$process" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT
# SLURM asks two minutes before the time is over: the driver then stops in good order.
trap '[[ -z $driver ]] || kill -INT "$driver" 2>/dev/null || true' TERM INT

if [[ -n $interface ]]; then
  here=(--interface "$interface")
else
  here=(--host "$("$python" -c 'from distributed.utils import get_ip; print(get_ip())')")
fi
certificates=() trusted=()
if [[ -n $tls ]]; then
  # Into the job's folder, which only you may enter.
  made=$("$python" -m pbdist.run.clusters.security "$folder")
  certificates=(--protocol tls --tls-ca-file "$made/ca.pem" --tls-cert "$made/certificate.pem" --tls-key "$made/key.pem")
  trusted=(--tls-ca "$made/ca.pem" --tls-certificate "$made/certificate.pem" --tls-key "$made/key.pem")
fi
dashboard=(--dashboard-address 127.0.0.1:0)

"$python" -m distributed.cli.dask_scheduler --scheduler-file "$folder/scheduler.json" --port 0 "${here[@]}" \
  "${dashboard[@]}" "${certificates[@]}" >>"$log" 2>&1 &
scheduler=$!
# Each worker listens on the address with which its node reaches the scheduler, or on the interface.
route='import socket, sys; s = socket.socket(type=socket.SOCK_DGRAM); s.connect((sys.argv[1], 80)); print(s.getsockname()[0])'
listen='if [[ $1 == --host ]]; then there=$("$3" -c "$4" "$2"); else there=$2; fi; here=$1; shift 4; exec "$@" "$here" "$there"'
srun --ntasks="$workers" --kill-on-bad-exit=0 --export=ALL --overlap --open-mode=append --output="$log" \
  bash -c "$listen" worker "${here[@]}" "$python" "$route" \
  "$python" -m distributed.cli.dask_worker --scheduler-file "$folder/scheduler.json" "${certificates[@]}" \
  --nthreads 1 --memory-limit "$memory" --nanny --no-dashboard "${dashboard[@]}" --death-timeout 300 &
srun=$!

for _ in {1..600}; do
  [[ -s $folder/scheduler.json ]] && break
  kill -0 "$scheduler" 2>/dev/null || { tail -n 3 "$log" >&2; exit 1; }
  sleep 0.2
done
# With job control, which lets it hear SIGINT.
set -m
"$python" -m pbdist run "$@" --scheduler-file "$folder/scheduler.json" "${trusted[@]}" &
set +m
driver=$!
code=0
wait "$driver" || code=$?
# A signal ends the first wait at once, while the driver still stops.
while kill -0 "$driver" 2>/dev/null; do
  code=0
  wait "$driver" || code=$?
done
exit "$code"
