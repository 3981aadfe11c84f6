// rtrain restore: continues a run from its storage path alone, on any cluster.
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/client/job_file.hpp"
#include "cmd/client/run_store.hpp"
#include "cmd/client/submission.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/text/status_text.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// The job spec and the code of the newest claimed attempt. If no attempt was claimed, those with which the run was
// created. The spec's `after` is ignored, because this cluster may have no record of those runs.
struct InForce {
    std::string job_json, code_sha256;
    ArrayMember member;
};
InForce in_force(const RunStore& place, const storage::RunHeader& header) {
    const auto claim = storage::newest_claim(*place.store, place.run_name);
    InForce in_force{.job_json = claim ? claim->job_json : header.job_json,
                     .code_sha256 = claim ? claim->code_sha256.value_or(header.code_sha256) : header.code_sha256,
                     .member = {}};
    if (claim) in_force.member = {.array = claim->array, .index = claim->array_index};
    json job = parse_json(in_force.job_json);
    if (job.is_object() && job.erase("after") > 0) in_force.job_json = json_text(job);
    return in_force;
}

// Uploads the run's stored copy of its code to the head, unless the head has it.
Status ship_stored_code(Invocation& call, Api& api, const RunStore& place, const std::string& sha256) {
    if (sha256.empty()) return Done{};
    Result<bool> there = api.exists("/v1/blobs/" + sha256);
    if (!there) return there.error();
    if (*there) return Done{};
    const TemporaryDirectory temporary;
    const std::string archive = temporary.path() + "/code.tar.zst";
    const std::string stored = place.run_name + "/code/" + sha256 + ".tar.zst";
    if (Status got = place.store->get_file(stored, archive, {}); !got)
        return Error{.code = got.error().code,
                     .message = "the run's code is not readable: " + got.error().message,
                     .next = "submit the job from its sources with `rtrain submit --resume`"};
    return ship_archive(call, api, archive, sha256);
}

// Prints how the last attempt ended. Prints nothing if the file with that information is damaged.
void print_last_end(Invocation& call, const RunStore& place) {
    const Result<std::vector<storage::Claim>> claims = storage::read_claims(*place.store, place.run_name);
    if (!claims || claims->empty()) return;
    const std::string attempt = "its last attempt, " + std::to_string(claims->back().number) + ", ";
    const Result<storage::AttemptEnd> end = storage::read_end(*place.store, place.run_name, claims->back().number);
    if (end)
        call.out.talk(attempt + "ended " + end->state + (end->cause.empty() ? "" : ": " + end->cause));
    else if (end.error().code == ErrorCode::not_found)
        call.out.talk(attempt + "left no word of its end: it may live on, or was cut off");
    else
        call.out.talk(attempt + "has ended; how cannot be read: " + end.error().message);
}

// Prints the checkpoint from which the run will start. Fails if the user names one that is not committed. Does not fail
// if the run has no checkpoint.
Status check_checkpoint(Invocation& call, const RunStore& place) {
    Result<std::vector<storage::CommittedCheckpoint>> all = storage::list_checkpoints(*place.store, place.run_name);
    if (!all) return all.error();
    std::string newest;
    bool exists = place.checkpoint.empty();
    for (const auto& checkpoint : *all) {
        if (checkpoint.live && checkpoint.damage.empty()) newest = checkpoint.manifest.directory;
        if (!checkpoint.damage.empty())
            call.out.talk("passed over: " + checkpoint.manifest.directory + " is damaged: " + checkpoint.damage);
        exists = exists || checkpoint.manifest.directory == place.checkpoint;
    }
    if (!exists)
        return Error{.code = ErrorCode::not_found,
                     .message = place.shown + " has no committed checkpoint " + place.checkpoint,
                     .next = "rtrain checkpoints list " + shell_word(place.shown)};
    const std::string from = place.checkpoint.empty() ? newest : place.checkpoint;
    call.out.talk(from.empty() ? place.shown + " has no committed checkpoint: the run starts from the beginning"
                               : "restoring from " + place.shown + "/" + from);
    return Done{};
}

Result<int> restore(Invocation& call) {
    Result<RunStore> place = open_run_store(call, call.arguments.argument(0));
    if (!place) return place.error();
    Result<storage::RunHeader> header = storage::read_run(*place->store, place->run_name);
    if (!header) return header.error();
    const InForce newest = in_force(*place, *header);
    Result<spec::Job> job = with_sets(call, newest.job_json, call.arguments.list("set"));
    if (!job) return job.error();
    // The directory's name becomes the run's name, because the directory may have been moved or renamed.
    job->name = place->run_name;
    job->storage_path = place->storage_path;
    print_last_end(call, *place);
    if (Status checked = check_checkpoint(call, *place); !checked) return checked.error();
    if (call.arguments.has("dry-run")) {
        call.out.document({{"dry_run", true},
                           {"name", job->name},
                           {"job", parse_json(spec::to_json(*job))},
                           {"code_sha256", newest.code_sha256}},
                          "name", "would restore " + place->shown + "\n");
        return 0;
    }
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    if (Status shipped = ship_stored_code(call, *api, *place, newest.code_sha256); !shipped) return shipped.error();
    Result<json> run = hand_over(*api, {.job = *job,
                                        .code_sha256 = newest.code_sha256,
                                        .restore_from = place->checkpoint,
                                        .resume = true,
                                        .make_new = false,
                                        .array = {},
                                        .lines = {},
                                        .member = newest.member});
    if (!run) return run.error();
    return print_and_follow(call, *api, *run);
}

}  // namespace

std::vector<Command> restore_commands() {
    return {
        {.words = "restore",
         .group = "Checkpoints",
         .help = "go on with a run from its last checkpoint, on any cluster",
         .arguments = {{.name = "PATH|RUN[@CHECKPOINT]", .value = Value::checkpoint}},
         .flags = {{.name = "set",
                    .takes = Value::text,
                    .shown = "FIELD=VALUE",
                    .help = "change the spec",
                    .repeated = true},
                   {.name = "follow", .help = "print its lines until it ends; Ctrl-C leaves it running", .letter = 'f'},
                   {.name = "propagate-exit", .help = "with -f: exit with the first failed rank's code"},
                   {.name = "dry-run", .help = "say what would be restored; send nothing"}},
         .handler = restore,
         .details = "A path needs nothing else: the spec, the code and the checkpoints lie there. Secrets are asked "
                    "from your environment again."}};
}

}  // namespace rtrain::cmd
