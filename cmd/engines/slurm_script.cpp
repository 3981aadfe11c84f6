// See slurm_script.hpp. The script begins with the job's values as quoted assignments. The rest of the script is equal
// for all jobs.
#include "cmd/engines/slurm_script.hpp"

#include <algorithm>
#include <charconv>

#include "cmd/text/shell_word.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::cmd {
namespace {

// The part that is equal for all jobs. It runs from the allocation's start to its end. Slurm sets $SLURM_*. Values of
// the job are quoted wherever they are used.
constexpr const char* body = R"sh(
set -u
umask 077
if [ -n "${SLURM_ARRAY_JOB_ID:-}" ]; then  # its tasks would write one directory
  echo "rtrain slurm: a job array cannot train one run" >&2
  exit 2
fi
unset RTRAIN_ADDRESS RTRAIN_TOKEN RTRAIN_CA RTRAIN_CONTEXT RTRAIN_JOIN_TOKEN
unset token  # a variable of that name that sbatch took along would be in every environment, with the join token
warned= alone=
trap 'warned=1' TERM  # Slurm takes the nodes soon
trap 'alone=1' USR1   # every agent has ended
# The name cannot be guessed, so nobody makes the directory first.
own=$(mktemp -d "${TMPDIR:-/tmp}/rtrain-$SLURM_JOB_ID-XXXXXXXX") || exit 10
trap 'rm -rf "$own"' EXIT
export RTRAIN_CONFIG=$own/config.yaml
say() { printf 'rtrain slurm: %s\n' "$1" >&2; }

# Agents find the head where Slurm finds this node, or at the network card that --interface names. Their own addresses,
# for each other, are on the same network.
reachable() { getent ahostsv4 "$1" | awk '$1 !~ /^127[.]/ { print $1; exit }'; }
if [ -n "$interface" ]; then
  host=$(ip -4 -o address show dev "$interface" | awk '{ sub("/.*", "", $4); print $4; exit }')
  [ -n "$host" ] || { say "$interface has no address on $SLURMD_NODENAME"; exit 10; }
else
  host=$(reachable "$(scontrol show node -o "$SLURMD_NODENAME" | sed -n 's/.* NodeAddr=\([^ ]*\) .*/\1/p')")
fi

# The head, on this node's disk: what a run needs to go on is in its directory, on storage.
"$program" head start --host 0.0.0.0 --port 0 --data "$own/head" --name "slurm-$SLURM_JOB_ID" -o name >"$own/address" &
head=$!
until [ -s "$own/address" ]; do
  kill -0 "$head" 2>/dev/null || { say "the head did not start"; exit 10; }
  sleep 0.2
done
address=$(cat "$own/address")
address=${host:-${address%:*}}:${address##*:}

# An agent on each node of the allocation offers what Slurm gave. The token comes through standard input and a pipe:
# it is in no argument, no environment and no file, which the job's processes could read, being the same user's.
token=$("$program" token create --role node --uses "$((2 * SLURM_JOB_NUM_NODES))" --expires 1h -o name) || exit 10
agent='set -u
umask 077
own=$(mktemp -d "${TMPDIR:-/tmp}/rtrain-$SLURM_JOB_ID-$SLURMD_NODENAME-XXXXXXXX") || exit 10
unset token
token=$(cat)
have=CPU=${SLURM_CPUS_ON_NODE:-1}
memory=${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * ${SLURM_CPUS_ON_NODE:-1}))}
if [ "${SLURM_MEM_PER_GPU:-0}" -gt 0 ]; then memory=$((SLURM_MEM_PER_GPU * ${SLURM_GPUS_ON_NODE:-1})); fi
if [ "$memory" -gt 0 ]; then have=$have,memory=${memory}Mi; fi
as_root=
if [ "$(id -u)" = 0 ]; then as_root=--allow-root-workers; fi
"$1" node join "$2" --token-file <(printf "%s\n" "$token") --name "$SLURMD_NODENAME" --data "$own/node" --peer-port 0 \
  --resources "$have" $as_root &
agent=$!
unset token
trap "kill $agent" TERM INT
while kill -0 "$agent" 2>/dev/null; do wait "$agent"; done
rm -rf "$own"'
srun --overlap --input=all --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
  bash -c "$agent" agent "$program" "$address" < <(printf '%s\n' "$token") &
agents=$!
unset token
( while kill -0 "$agents" 2>/dev/null; do sleep 2; done; kill -USR1 "$$" ) 2>/dev/null &
watch=$!

# A job that was requeued goes on with its run.
how=()
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] && [ "$began" != no ]; then how=(--resume); fi
"$program" submit "$spec" "${sets[@]}" --set "name=\"$run\"" "${how[@]}" --follow --propagate-exit &
follower=$!
asked=
while kill -0 "$follower" 2>/dev/null; do
  wait "$follower"
  if [ -n "$asked" ]; then continue; fi
  if [ -n "$warned" ]; then
    say "the allocation ends: the run is asked for a checkpoint"
    if "$program" stop "$run" --checkpoint --deadline "$deadline"; then asked=1; else sleep 1; fi
  elif [ -n "$alone" ]; then
    say "no agent is left: the run is stopped"
    if "$program" stop "$run"; then asked=1; else sleep 1; fi
  fi
done
wait "$follower"  # the first wait may have ended with the signal
code=$?
kill "$watch" 2>/dev/null

# Logs that are not on storage yet get there; then agents and head end.
"$program" runs stored "$run" --timeout 30s >&2 || say "some logs did not reach the run's directory"
scancel --signal=TERM "$SLURM_JOB_ID.0"  # not srun: it would kill them
for _ in $(seq 100); do kill -0 "$agents" 2>/dev/null || break; sleep 0.1; done
kill "$agents" 2>/dev/null
wait "$agents" 2>/dev/null
kill "$head" 2>/dev/null
wait "$head" 2>/dev/null
rm -rf "$own"
# scancel sends SIGTERM as well. It has ended the job by then, and a job that is requeued would come back from the dead.
if [ -n "$warned" ] && [ "$code" != 0 ]; then
  state=$(squeue --noheader --states=all --jobs="$SLURM_JOB_ID" --format=%T)
  if [ "$state" = RUNNING ]; then
    say "requeued: the next start goes on from the checkpoint"
    scontrol requeue "$SLURM_JOB_ID"
  else
    say "not requeued: Slurm has this job as ${state:-unknown}"
  fi
fi
exit "$code"
)sh";

bool plain(const std::string& text, const char* more) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view(more).find(c) != std::string_view::npos;
    });
}

// Returns the time that the run has for its last checkpoint: the warning time minus the time in which logs, agents and
// head end.
std::string deadline_of(const std::vector<std::string>& options) {
    constexpr int for_the_end = 45, least = 15;
    int warning = 0;
    for (const std::string& option : options)
        if (const auto at = option.rfind('@'); option.starts_with("--signal=") && at != option.npos)
            std::from_chars(option.data() + at + 1, option.data() + option.size(), warning);
    return std::to_string(std::max(warning - for_the_end, least)) + "s";
}

// Fails if an option of sbatch needs quotes, because sbatch reads these lines by its own rules.
Status check_option(const std::string& option) {
    const std::string name = option.substr(0, option.find('='));
    if (name.size() > 2 && std::string_view("--array").starts_with(name))  // sbatch also accepts abbreviated names
        return Error{.code = ErrorCode::usage,
                     .message = "--sbatch: \"" + option + "\" would start heads that all write one run's directory",
                     .next = "submit one job for each run, with a name of its own: --set name=..."};
    if (option.starts_with("--") && plain(option, "-=_.,:/+@%[]*")) return Done{};
    return Error{.code = ErrorCode::usage,
                 .message = "--sbatch: \"" + option + "\" is no option that can stand in a batch script",
                 .next = "for example --sbatch --partition=gpu --sbatch --gpus-per-node=8"};
}

Status check_storage(const std::string& path) {
    const Result<storage::StorageUri> uri = storage::parse_uri(path.empty() ? "cluster://" : path);
    if (!uri) return uri.error();
    if (uri->scheme == storage::Scheme::file || storage::is_bucket(uri->scheme)) return Done{};
    return Error{
        .code = ErrorCode::invalid,
        .message = "storage_path: the head's own storage ends with the allocation, and the run's files with it",
        .next =
            "a path that all nodes mount: --set storage_path=/shared/runs, or a bucket (s3://..., gs://..., az://...)"};
}

}  // namespace

Result<std::string> slurm_script(const SlurmWish& wish) {
    if (Status durable = check_storage(wish.storage_path); !durable) return durable.error();
    std::vector<std::string> options = {"--job-name=" + wish.run, "--nodes=" + std::to_string(wish.nodes),
                                        "--ntasks-per-node=1",    "--requeue",
                                        "--open-mode=append",     "--signal=B:TERM@120"};
    if (wish.time_minutes > 0) options.push_back("--time=" + std::to_string(wish.time_minutes));
    if (!wish.output.empty()) options.push_back("--output=" + wish.output);
    options.insert(options.end(), wish.options.begin(), wish.options.end());
    std::string text = "#!/bin/bash\n";
    for (const std::string& option : options) {
        if (Status fine = check_option(option); !fine) return fine.error();
        text += "#SBATCH " + option + "\n";
    }
    // For a run on a disk, run.json shows whether it has begun before. For a run in a bucket only the number of starts
    // shows that.
    const bool on_disk = wish.storage_path.starts_with('/');
    text += "program=" + shell_quoted(wish.program) + "\nrun=" + shell_quoted(wish.run) +
            "\nspec=" + shell_quoted(wish.spec_file) + "\nsets=(";
    for (const std::string& set : wish.sets) text += "--set " + shell_quoted(set) + " ";
    text += ")\ninterface=" + shell_quoted(wish.interface) + "\ndeadline=" + deadline_of(options) + "\nbegan=unknown\n";
    if (on_disk) text += "[ -e " + shell_quoted(wish.storage_path + "/" + wish.run + "/run.json") + " ] || began=no\n";
    return text + body;
}

}  // namespace rtrain::cmd
