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

# The network that scheduler and workers listen on, such as ib0; else all of them.
interface=${PBDIST_INTERFACE:-}

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

here=()
[[ -z $interface ]] || here=(--interface "$interface")
dashboard=(--dashboard-address 127.0.0.1:0)

"$python" -m distributed.cli.dask_scheduler --scheduler-file "$folder/scheduler.json" --port 0 "${here[@]}" \
  "${dashboard[@]}" >>"$log" 2>&1 &
scheduler=$!
srun --ntasks="$workers" --kill-on-bad-exit=0 --export=ALL --overlap --open-mode=append --output="$log" \
  "$python" -m distributed.cli.dask_worker --scheduler-file "$folder/scheduler.json" "${here[@]}" \
  --nthreads 1 --memory-limit "$memory" --nanny --no-dashboard "${dashboard[@]}" --death-timeout 300 &
srun=$!

for _ in {1..600}; do
  [[ -s $folder/scheduler.json ]] && break
  kill -0 "$scheduler" 2>/dev/null || { tail -n 3 "$log" >&2; exit 1; }
  sleep 0.2
done
# With job control, which lets it hear SIGINT.
set -m
"$python" -m pbdist run "$@" --scheduler "$folder/scheduler.json" &
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
