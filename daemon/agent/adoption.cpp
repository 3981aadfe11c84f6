#include "daemon/agent/adoption.hpp"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/workers/environment.hpp"

namespace rtrain::agent {
namespace {

// Its workers may be running, or have ended meanwhile.
void adopt(const Adopters& to, const AttemptImage& image) {
    const AttemptKey key = key_of(image.prepare.attempt);
    auto result = make_context(to.node.facts(), image.prepare, Probing::no);
    if (const auto* why = std::get_if<Trouble>(&result)) {
        warn("attempt " + attempt_text(image.prepare, image.number) +
             " cannot be adopted, its workers are ended: " + why->why);
        kill_strays(attempt_text(image.prepare, image.number), to.node.name());
        ::unlink((to.node.files.attempt(key) + "/" + live_image).c_str());
        return;
    }
    LiveAttempt& attempt = to.attempts.open(key);
    attempt.context = std::get<Context>(result);
    attempt.number = image.number;
    AttemptFound found{.image = image};
    if (image.launch) {
        attempt.launch = *image.launch;
        if (auto start_state = read_start_state(to.node.files.attempt(key)))
            attempt.start_state = std::move(*start_state);
        else if (!image.launch->from.empty())
            warn("a worker of attempt " + attempt_text(image.prepare, image.number) +
                 " that has not begun yet would start_state from nothing: " + start_state.error().message);
        found.workers = to.workers.adopt(key);
    }
    say("adopted attempt " + attempt_text(image.prepare, image.number) + " with " +
        std::to_string(found.workers.size()) + " workers");
    to.journals.open(key);
    to.loop.enqueue(std::move(found));
    to.journals.deliver(key);
    if (image.uploading && image.prepare.claim) to.checkpoints.look_for_commit(key, image);
}

// Of one that ended before the restart.
void ship_logs(const Adopters& to, const AttemptImage& image) {
    std::vector<std::uint32_t> ranks;
    if (image.launch)
        for (const protocol::LaunchWorker& worker : image.launch->workers) ranks.push_back(worker.rank);
    protocol::AttemptRef attempt = image.prepare.attempt;
    attempt.number = image.number;
    to.logs.follow(attempt, ranks);
    to.logs.finish(key_of(attempt), [] {});
}

}  // namespace

void adopt_kept_attempts(const Adopters& adopters) {
    const NodeFiles& files = adopters.node.files;
    std::vector<std::string> damaged;
    for (const AttemptImage& image : kept_attempts(files, live_image, damaged)) adopt(adopters, image);
    for (const AttemptImage& image : kept_attempts(files, ended_image, damaged)) {
        adopters.pending.find_of_ended(image);
        ship_logs(adopters, image);
    }
    for (const std::string& text : damaged) warn("left alone: " + text);
}

}  // namespace rtrain::agent
