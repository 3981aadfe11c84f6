#include "daemon/agent/adoption.hpp"

#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/workers/environment.hpp"

namespace rtrain::agent {
namespace {

// Takes over one attempt. Its workers may run or may have ended during the restart.
void adopt(const Adopters& to, const SavedAttempt& saved) {
    const AttemptKey key = key_of(saved.prepare.attempt);
    auto result = make_context(to.node.facts(), saved.prepare, Probing::no);
    if (const auto* why = std::get_if<Trouble>(&result)) {
        warn("attempt " + attempt_text(saved.prepare, saved.number) +
             " cannot be adopted, its workers are ended: " + why->why);
        kill_strays(attempt_text(saved.prepare, saved.number), to.node.name());
        ::unlink((to.node.files.attempt(key) + "/" + live_attempt_file).c_str());
        return;
    }
    LiveAttempt& attempt = to.attempts.open(key);
    attempt.context = std::get<Context>(result);
    attempt.number = saved.number;
    AttemptFound adopted{.saved = saved};
    if (saved.launch) {
        attempt.adopted = true;
        attempt.launch = *saved.launch;
        if (auto start_state = read_start_state(to.node.files.attempt(key)))
            attempt.start_state = std::move(*start_state);
        else if (!saved.launch->from.empty())
            warn("a worker of attempt " + attempt_text(saved.prepare, saved.number) +
                 " that has not begun yet would start_state from nothing: " + start_state.error().message);
        adopted.workers = to.workers.adopt(key);
    }
    log_info("adopted attempt " + attempt_text(saved.prepare, saved.number) + " with " +
             std::to_string(adopted.workers.size()) + " workers");
    to.journals.open(key);
    to.inputs.enqueue(std::move(adopted));
    to.journals.deliver(key);
    if (saved.uploading && saved.prepare.claim) to.checkpoints.look_for_commit(key, saved);
}

// Ships the logs of an attempt that ended before the restart.
void ship_logs(const Adopters& to, const SavedAttempt& saved) {
    std::vector<std::uint32_t> ranks;
    if (saved.launch)
        for (const protocol::LaunchWorker& worker : saved.launch->workers) ranks.push_back(worker.rank);
    protocol::AttemptRef attempt = saved.prepare.attempt;
    attempt.number = saved.number;
    to.logs.follow(attempt, ranks, {.user = saved.prepare.user});
    to.logs.finish(key_of(attempt), [] {});
}

}  // namespace

void adopt_kept_attempts(const Adopters& adopters) {
    const NodeFiles& files = adopters.node.files;
    std::error_code failed;
    for (const auto& folder : std::filesystem::directory_iterator(files.attempts(), failed))
        ::rmdir(folder.path().c_str());  // removes empty folders alone, whose removal was interrupted
    std::vector<std::string> damaged;
    for (const SavedAttempt& saved : kept_attempts(files, live_attempt_file, damaged)) adopt(adopters, saved);
    std::set<std::string> in_use;
    for (const auto& [key, attempt] : adopters.attempts.all()) in_use.insert(files.scratch(key));
    adopters.node.short_names.remove_all_but(in_use);
    for (const SavedAttempt& saved : kept_attempts(files, ended_attempt_file, damaged)) {
        adopters.pending.find_of_ended(saved);
        ship_logs(adopters, saved);
    }
    for (const std::string& text : damaged) warn("left alone: " + text);
}

}  // namespace rtrain::agent
