// From options to a serving agent. Each step that fails says why.
#include "daemon/agent/agent.hpp"

#include <utility>

#include "daemon/agent/parts.hpp"
#include "daemon/agent/preparation/places.hpp"

namespace rtrain {

Status run_agent(const AgentOptions& options, const std::function<Status()>& serves,
                 const std::function<void(bool)>& registered) {
    auto lock = agent::DirectoryLock::take(options.data_dir);
    if (!lock) return lock.error();
    if (!options.allow_root_workers)
        if (Status safe = agent::check_data_directory(options.data_dir); !safe) return safe;
    auto identity = agent::load_identity(options.data_dir);
    if (!identity) return identity.error();
    if (!options.head_host.empty()) {
        identity->head_host = options.head_host;
        identity->head_port = options.head_port;
    }
    auto outbox = agent::Outbox::open(options.data_dir + "/outbox.jsonl");
    if (!outbox) return outbox.error();
    auto node = agent::find_this_node(options, std::move(*identity));
    if (!node) return node.error();
    agent::Agent parts(std::move(*lock), std::move(*node), std::move(*outbox));
    if (Status opened = parts.open(); !opened) return opened;
    return parts.serve(serves, registered);
}

}  // namespace rtrain
