// See warm_memory.hpp.
#include "daemon/agent/base/warm_memory.hpp"

#include <algorithm>

#include "daemon/agent/base/limits.hpp"

namespace rtrain::agent {
namespace {

std::string mib_text(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

WarmDecision decide_warm_starts(const AgentOptions& options, std::int64_t node_memory) {
    if (options.warm == WarmMode::off) return {};
    const bool is_automatic = options.warm == WarmMode::automatic;
    WarmDecision decision{.on = true, .memory_max = options.warm_memory};
    if (is_automatic) decision.memory_left = node_memory / limits::templates_part;
    if (options.warm_memory > 0) return decision;
    if (!is_automatic) {
        decision.memory_max = limits::templates_memory;
        return decision;
    }
    const std::int64_t share = node_memory / limits::templates_part / std::max<std::int64_t>(options.agents_here, 1);
    decision.memory_max = std::min(share, limits::templates_memory_most);
    if (decision.memory_max >= limits::template_memory) return decision;
    return {.why_off = "the templates' share of this node's memory, " + mib_text(decision.memory_max) +
                       ", is too small for one template (" + mib_text(limits::template_memory) +
                       "); --warm-memory sets another amount"};
}

std::string why_no_memory(const WarmDecision& decision, std::int64_t available) {
    if (decision.memory_left == 0 || available - limits::template_memory >= decision.memory_left) return {};
    return "the node has " + mib_text(available) + " of memory available, and a template needs " +
           mib_text(limits::template_memory) + " beside the " + mib_text(decision.memory_left) + " that stay free";
}

}  // namespace rtrain::agent
