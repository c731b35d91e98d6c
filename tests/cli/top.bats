# heddle top and heddle devices: running jobs appear with what they do and vanish with their process, whatever ends it;
# the keys end them; the terminal is given back.

load cli

TERMINAL=$BUILDDIR/tests/cli/on_terminal

# Other people's jobs may run on this machine, and must not be ended: top sees those alone that are shown to it.
show() {
  mkdir -p root/proc
  ln -s /proc/stat /proc/meminfo /proc/loadavg root/proc/ 2>/dev/null || true
  ln -s "/proc/$1" root/proc/
}

# seeing COMMAND...: heddle COMMAND with what is shown.
seeing() {
  HEDDLE_SYSROOT=$PWD/root "$HEDDLE" "$@"
}

# start_job: an endless run in the background, shown.
start_job() {
  start $ENDLESS --out r "$@"
  await_line 'step 40:'
  show "$CHILD"
}

# on_terminal ROWSxCOLUMNS EVENT...: plays heddle top; its exit code in $code, what it wrote in `screen`.
on_terminal() {
  local size=$1
  shift
  code=0
  HEDDLE_SYSROOT=$PWD/root timeout "$LIMIT_S" "$TERMINAL" "$size" screen "$@" -- "$HEDDLE" top --interval 0.1 || code=$?
}

@test "a training job appears, its step advances, SIGKILL leaves nothing behind" {
  start_job --threads 1
  "$HEDDLE" top --once --json >all
  grep -q "\"pid\": $CHILD, \"model\": \"simplenet\"" all
  seeing top --once --json >out
  [ "$(json_get jobs.0.pid jobs.0.model jobs.0.data jobs.0.epochs jobs.0.batch jobs.0.threads <out)" = \
    "$CHILD simplenet random:1x28x28 1000000 8 1" ]
  [ "$(json_get jobs.0.out <out)" = "$(cd r && pwd -P)" ]
  [ "$(json_get jobs.0.ranks.0.rank jobs.0.ranks.0.pid jobs.0.ranks.0.threads <out)" = "0 $CHILD 1" ]
  json_get jobs.0.command <out | grep -q 'train --model simplenet'
  first=$(json_get jobs.0.step <out)
  cat <&9 >/dev/null 3>&- & # what is not read holds up the run
  for try in $(seq 200); do
    seeing top --once --json >out
    step=$(json_get jobs.0.step <out)
    speed=$(json_get jobs.0.samples_per_s <out || true)
    [ "$step" -gt "$first" ] && [ "$speed" != null ] && [ "${speed%%.*}" -gt 0 ] && break
  done
  [ "$step" -gt "$first" ]
  [ "${speed%%.*}" -gt 0 ]
  json_get jobs.0.left_s <out | grep -q '^[0-9]'
  [ "$step" -lt "$(json_get jobs.0.steps <out)" ]
  kill -KILL "$CHILD"
  pid=$CHILD
  finish
  "$HEDDLE" top --once --json >all
  no grep -q "\"pid\": $pid, \"model\"" all
  seeing top --once --json >out
  [ "$(json_get jobs <out)" = "[]" ]
  ls /dev/shm >all
  no grep -q heddle-job all
}

@test "a job's threads are printed with their CPUs" {
  cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
  start_job --cpus "$cpu"
  seeing top --once --json >out
  [ "$(json_get jobs.0.ranks.0.cpus.0 <out)" = "$cpu" ]
  seeing top --once >out
  grep -q "^job $CHILD: simplenet on random:1x28x28, " out
  grep -qx "  1 thread on CPU $cpu" out
  kill -KILL "$CHILD"
  finish
}

@test "the keys of JSON are stable" {
  start_job
  for command in devices "top --once"; do
    seeing $command --json >out
    [ "$(wc -l <out)" -eq 1 ]
    [ "$(json_keys <out)" = "model isa packages cores pus caches memory_bytes memory_used_bytes swap_bytes \
swap_used_bytes use temperature_c power_w load cpus gpus gpu_note cuda_note jobs" ]
    [ "$(json_get cpus.0 <out | grep -o '"[a-z_]*":' | tr -d '":' | tr '\n' ' ')" = "cpu core package numa kind use " ]
  done
  pattern='^{'
  for key in pid model data state step steps epoch epochs batch loss samples_per_s elapsed_s left_s threads isa device \
    out \
    command ranks rank pid state step loss samples_per_s threads cpus; do
    pattern="$pattern.*\"$key\":"
  done
  json_get jobs.0 <out | grep -q "$pattern"
  kill -KILL "$CHILD"
  finish
}

@test "t asks first, and ends a job after a yes: it saves, and exits with 143; the terminal is given back" {
  need_terminal
  start_job
  on_terminal 24x80 "wait:$CHILD simplenet" send:t "wait:end job $CHILD?" send:n wait:up/down send:q
  [ "$code" -eq 0 ]
  no grep -q "told job" screen
  kill -0 "$CHILD"
  on_terminal 24x80 "wait:$CHILD simplenet" send:t "wait:end job $CHILD?" send:y "wait:told job $CHILD to end" send:q
  [ "$code" -eq 0 ]
  finish
  [ "$code" -eq 143 ]
  grep -q 'saved in r; continue with: heddle train --resume r' err
  grep -q $'\e\\[?1049h' screen
  tail -c 40 screen | grep -q $'\e\\[?1049l$'
}

@test "t, once more: no second signal, which would end the job before it has saved" {
  need_terminal
  start_job
  kill -STOP "$CHILD"
  on_terminal 24x80 "wait:$CHILD simplenet" send:t "wait:end job $CHILD?" send:y \
    "wait:told job $CHILD to end" send:t "wait:was already told" send:q
  [ "$code" -eq 0 ]
  kill -CONT "$CHILD"
  finish
  [ "$code" -eq 143 ]
  [ -e r/last ]
}

@test "K asks first, and kills after a yes" {
  need_terminal
  start_job
  on_terminal 24x80 "wait:$CHILD simplenet" send:K "wait:kill job $CHILD at once" send:n wait:up/down send:q
  [ "$code" -eq 0 ]
  kill -0 "$CHILD"
  on_terminal 24x80 "wait:$CHILD simplenet" send:K "wait:kill job $CHILD at once" send:y "wait:job $CHILD has ended" \
    send:q
  [ "$code" -eq 0 ]
  finish
  [ "$code" -eq 137 ]
}

@test "up and down choose among jobs; when one ends no other is ended in its place" {
  need_terminal
  start_job
  first=$CHILD
  "$HEDDLE" train $ENDLESS --out second >second.out 2>&1 3>&- &
  second=$!
  while ! grep -q 'step 40:' second.out; do kill -0 "$second"; done
  show "$second"
  on_terminal 30x120 "wait:>" "send:\e[B\e[B\e[B" "wait:folder  $PWD/second" "send:\eOA\e[A" "wait:folder  $PWD/r" \
    send:K "wait:kill job $first" send:y "wait:job $first has ended" send:t "wait:choose a job first" send:q
  [ "$code" -eq 0 ]
  finish
  [ "$code" -eq 137 ]
  kill -TERM "$second"
  code=0
  wait "$second" || code=$?
  [ "$code" -eq 143 ]
}

@test "signals give the terminal back" {
  need_terminal
  for number in 1 2 3 15; do
    on_terminal 24x80 "wait:heddle top" signal:$number
    [ "$code" -eq $((128 + number)) ]
    tail -c 40 screen | grep -q $'\e\\[?1049l'
  done
  on_terminal 24x80 "wait:heddle top" signal:11
  [ "$code" -eq 139 ]
  tail -c 40 screen | grep -q $'\e\\[?1049l'
}

@test "Ctrl-Z gives the terminal back, and it comes again" {
  need_terminal
  on_terminal 24x80 "wait:heddle top" signal:20 stopped: plain: signal:18 $'wait:\e[?1049h' "wait:heddle top" send:q
  [ "$code" -eq 0 ]
}

@test "another size, and help" {
  need_terminal
  on_terminal 24x80 "wait:heddle top" "size:40x200" "wait:RANKS     EPOCH" "size:5x20" "wait:heddle top" "size:24x80" \
    "send:?" "wait:tell it to end" "send:x" "wait:PID MODEL" send:q
  [ "$code" -eq 0 ]
}

@test "NO_COLOR: there is no colour; without it there is" {
  need_terminal
  show $$
  on_terminal 24x80 "wait:heddle top" "wait:heddle top" send:q
  grep -q $'\e\\[3[0-9]m' screen
  export NO_COLOR=1
  on_terminal 24x80 "wait:heddle top" "wait:heddle top" send:q
  no grep -q $'\e\\[3[0-9]m' screen
}

@test "where there is no terminal, lines, until the reader is gone" {
  # However many lines the jobs of others take.
  "$HEDDLE" top --interval 0.1 2>err | awk '{ print } / CPU.*, load / && ++n == 2 { exit }' >out
  [ "$(grep -c ' CPU.*, load ' out)" -ge 2 ]
  no grep -q $'\e' out
  "$HEDDLE" top --interval 0.1 --json 2>err | head -n 3 >out
  [ "$(grep -c '^{"model": .*}$' out)" -eq 3 ]
}

@test "on a terminal that can do nothing, lines" {
  need_terminal
  code=0
  TERM=dumb timeout "$LIMIT_S" "$TERMINAL" 24x80 screen "wait:load" "wait:load" signal:15 -- env TERM=dumb "$HEDDLE" \
    top \
    --interval 0.1 || code=$?
  [ "$code" -eq 143 ]
  no grep -q $'\e' screen
}

@test "another machine: use, memory, temperature and power are read below HEDDLE_SYSROOT" {
  mkdir -p root/proc root/sys/class/hwmon/hwmon0
  echo k10temp >root/sys/class/hwmon/hwmon0/name
  echo 63125 >root/sys/class/hwmon/hwmon0/temp1_input
  echo 12500000 >root/sys/class/hwmon/hwmon0/power1_input
  printf 'MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n' >root/proc/meminfo
  printf 'cpu%d 1 0 0 1 0 0 0 0\n' 0 1 2 3 >root/proc/stat
  echo '0.25 0.50 0.75 1/2 3' >root/proc/loadavg
  export HEDDLE_SYSROOT=$PWD/root HWLOC_SYNTHETIC="core:2 pu:2"
  "$HEDDLE" devices --json >out
  [ "$(json_get cores pus memory_bytes memory_used_bytes temperature_c power_w load.2 <out)" = \
    "2 4 2147483648 1073741824 63.125 12.5 0.75" ]
  "$HEDDLE" devices >out
  grep -q '^4 CPUs, load 0.25 0.50 0.75, memory 1.0 of 2.0 GiB, 63 C, 12.5 W$' out
}

@test "GPUs: a stand-in's two, a lost one, and none" {
  stub=$BUILDDIR/tests/unit/.libs/nvml_stub.so
  [ -e "$stub" ] || skip "this build makes no modules"
  HEDDLE_NVML=$stub STUB_GPU=lost "$HEDDLE" devices --json >out
  [ "$(json_get gpus.0.name gpus.0.use gpus.0.processes.1.pid gpus.1.trouble <out)" = \
    "NVIDIA H100 80GB HBM3 0.97 4000001 GPU is lost" ]
  HEDDLE_NVML=$stub "$HEDDLE" devices >out
  grep -qx 'GPU 0: NVIDIA H100 80GB HBM3, 97 % busy, memory 40.0 of 80.0 GiB, 61 C, 412 W of 700 W' out
  HEDDLE_NVML=/no/such/library "$HEDDLE" devices >out
  grep -qx "no GPU: NVIDIA's library /no/such/library cannot be loaded" out
  HEDDLE_NVML=/no/such/library "$HEDDLE" devices --json >out
  [ "$(json_get gpus <out)" = "[]" ]
}

@test "wrong usage" {
  for value in 0 -1 0.01 3601 often nan inf ''; do
    fails 2 top --once --interval "$value"
    says --interval "'$value'"
  done
  fails 2 top --once=1
  fails 2 top now
  says "'now'"
  fails 2 devices all
  says "'all'"
  fails 2 devices --once
}
