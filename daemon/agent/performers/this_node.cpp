#include "daemon/agent/performers/this_node.hpp"

#include <pwd.h>
#include <unistd.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/limits.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/hardware/nvidia_nodes.hpp"
#include "daemon/agent/peers/cluster_store.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/storage_access.hpp"
#include "daemon/agent/worker_link/worker_server.hpp"
#include "daemon/agent/workers/environment.hpp"
#include "daemon/agent/workers/worker_library.hpp"

extern char** environ;

namespace rtrain::agent {
namespace {

constexpr std::size_t passwd_most = 16'384;  // bound on the bytes of one user's entry

std::map<std::string, std::string> own_environment() {
    std::map<std::string, std::string> out;
    for (char** variable = environ; *variable; ++variable) {
        const std::string text = *variable;
        if (const auto equals = text.find('='); equals != std::string::npos)
            out[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return out;
}

// Adds USER, LOGNAME and HOME of this process's user if its environment lacks them. A user id without a passwd entry,
// as in a container, gets its number as the name, and a home in the data directory. Python's `getpass.getuser()` and
// `~` need them.
Status add_user_variables(std::map<std::string, std::string>& variables, const std::string& data_dir) {
    std::vector<char> room(passwd_most);
    passwd entry{};
    passwd* account = nullptr;
    ::getpwuid_r(::geteuid(), &entry, room.data(), room.size(), &account);
    const std::string name = account ? account->pw_name : "uid-" + std::to_string(::geteuid());
    for (const char* variable : {"USER", "LOGNAME"}) variables.insert({variable, name});
    if (variables.contains("HOME")) return Done{};
    std::error_code failed;
    const std::string home = std::filesystem::absolute(data_dir, failed).string() + "/home";
    variables["HOME"] = account ? account->pw_dir : home;
    return account ? Status(Done{}) : make_directory(home, 0700);
}

// Finds the inventory. First makes the device files, since workers cannot (nvidia_nodes.hpp), and NVML needs them too.
Result<Inventory> own_inventory(const AgentOptions& options) {
    const bool root = ::geteuid() == 0;
    if (Status status = root ? make_nvidia_nodes("/proc", "/dev") : Status(Done{}); !status)
        warn(status.error().message + "; " + status.error().next);
    auto inventory = discover(wishes(options));
    if (inventory) inventory->facts["jobs_run_as"] = root ? "their users" : "one user";  // doctor reads it
    return inventory;
}

// Stores the decision in the node's facts too, which `rtrain describe NODE` prints.
void store_warm_decision(ThisNode& node) {
    const Amount memory = amount_of(node.inventory.total, memory_key);
    node.warm = decide_warm_starts(node.options, memory.ticks / Amount::per_unit);
    if (!node.warm.why_off.empty()) log_info("warm starts are off: " + node.warm.why_off);
    std::string& fact = node.inventory.facts["warm_starts"];
    if (node.warm.on)
        fact = "on: templates may take " + std::to_string(node.warm.memory_max >> 20) + " MiB";
    else
        fact = "off" + (node.warm.why_off.empty() ? "" : ": " + node.warm.why_off);
}

std::string scratch_of(const AgentOptions& options, const Identity& identity) {
    return options.scratch.empty() ? options.data_dir + "/scratch"
                                   : options.scratch + "/rtrain-" + identity.cluster_id + "-" + identity.node;
}

}  // namespace

NodeFacts ThisNode::facts() const {
    return {.files = files,
            .node = identity.node,
            .may_run_as_root = options.allow_root_workers,
            .allow_setuid = options.allow_setuid,
            .inherited = inherited,
            .head = head_endpoint(identity),
            .on_head = on_head,
            .storage_rules = options.storage_rules};
}

void ThisNode::take_next_head() {
    if (options.other_heads.empty()) return;
    const AgentOptions::HeadAddress next = options.other_heads.front();
    options.other_heads.erase(options.other_heads.begin());
    options.other_heads.push_back({.host = identity.head_host, .port = identity.head_port});
    identity.head_host = next.host;
    identity.head_port = next.port;
    on_head = open_cluster_store(head_endpoint(identity));
}

Result<ThisNode> find_this_node(const AgentOptions& options, Identity identity) {
    ThisNode node{.options = options,
                  .identity = std::move(identity),
                  .files = {},
                  .inherited = passed_on(own_environment(), options.pass_env)};
    if (Status added = add_user_variables(node.inherited, options.data_dir); !added) return added.error();
    if (node.options.program.empty()) node.options.program = "/proc/self/exe";
    node.files = {options.data_dir, scratch_of(options, node.identity)};
    node.worker_library = find_worker_library(node.options.program);
    if (!options.storage_rules.empty())
        if (auto rules = load_storage_rules(options.storage_rules); !rules) return rules.error();
    node.on_head = open_cluster_store(head_endpoint(node.identity));
    auto inventory = own_inventory(options);
    if (!inventory) return inventory.error();
    node.inventory = std::move(*inventory);
    store_warm_decision(node);
    if (Status status = make_directory(node.files.attempts(), 0711); !status) return status.error();
    if (Status status = make_scratch_directory(node.files.scratch_dir); !status) return status.error();
    auto path = socket_path(options.data_dir);
    if (!path) return path.error();
    node.socket_path = *path;
    if (auto directory = short_directory(options.data_dir, for_links))
        node.short_names = ShortNames(*directory);
    else
        warn(directory.error().message + "; " + directory.error().next);
    return node;
}

AgentState first_state(const ThisNode& node) {
    AgentState state;
    state.node = node.name();
    state.boot_id = this_boot();
    Labels labels = node.inventory.labels;
    for (const auto& [name, value] : node.options.labels) labels[name] = value;
    state.inventory = {.address = node.options.address,
                       .port = 0,
                       .labels = labels,
                       .total = node.inventory.total,
                       .gpus = node.inventory.gpus,
                       .gpu_model = node.inventory.gpu_model,
                       .held = {},
                       .next_news = 1,
                       .facts = node.inventory.facts};
    state.scratch_quota = node.options.scratch_quota;
    state.templates.policy.on = node.warm.on;
    state.templates.policy.memory_max = node.warm.memory_max;
    state.templates.policy.memory_guess = limits::template_memory;
    state.templates.policy.user_templates_max = limits::templates_of_user;
    return state;
}

}  // namespace rtrain::agent
