// `setup:` within a preparation: its lines are shipped as they come, its failure is the attempt's and permanent.
#include <filesystem>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/unused.hpp"
#include "daemon/agent/service.hpp"

namespace rtrain::agent {

void Service::set_up(const Gear& gear) {
    if (gear->job.setup.empty()) return finish_preparation(gear);
    const AttemptKey key = key_of(gear->prepare.attempt);
    const SetupOrder order = setup_order(*gear, facts());
    if (Status made = make_directory(files_.logs(key), 0711); !made) return set_up_failed(gear, made.error().message);
    for (const protocol::PeerNode& peer : gear->prepare.nodes)
        if (peer.node == identity_.node && !peer.ranks.empty())
            logs_->follow_setup(gear->prepare.attempt, peer.ranks.front());
    setups_->run(order, [this, gear, key](const SetupResult& result) {
        if (!result.why.empty()) return set_up_failed(gear, result.why);
        const Gear ready = with_setup(*gear, result);
        held_[key].gear = ready;
        finish_preparation(ready);
    });
}

void Service::set_up_failed(const Gear& gear, const std::string& why) {
    const AttemptKey key = key_of(gear->prepare.attempt);
    logs_->finish(key, [this, key, why] {
        loop_.post([this, key, why] {
            feed(PreparationDone{.attempt = key, .why = identity_.node + ": setup: " + why, .permanent = true});
        });
    });
}

// Code and setups of attempts that are over, at the start and each day. Those of one that is being prepared were marked
// as used a moment ago.
void Service::remove_what_is_unused() {
    std::set<std::string> in_use;
    for (const auto& [key, one] : held_) {
        if (!one.gear) continue;
        in_use.insert(one.gear->prepare.code_sha256);
        in_use.insert(std::filesystem::path(one.gear->driver_file).stem());
        if (!one.gear->job.setup.empty()) in_use.insert(former_setup_key(setup_order(*one.gear, facts())));
        if (one.gear->setup)
            in_use.insert(std::filesystem::path(one.gear->setup->working_dir).parent_path().filename());
    }
    loop_.offload(
        [files = files_, in_use] {
            keep_apart(files);
            remove_unused(files.data_dir, in_use, wall_ms());
        },
        [this] { loop_.after(day_ms, [this] { remove_what_is_unused(); }); });
}

}  // namespace rtrain::agent
