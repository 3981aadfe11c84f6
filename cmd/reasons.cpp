// Reasons per node, grouped by what they say; the most frequent first.
#include "cmd/reasons.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace rtrain::cmd {
namespace {

using nlohmann::json;

struct Group {
    std::string text;
    std::vector<std::string> nodes;
};

}  // namespace

std::string reasons_text(const json& reasons) {
    constexpr std::size_t nodes_named = 8;
    std::vector<Group> groups;
    for (const json& reason : reasons) {
        const std::string text = reason.value("text", "");
        auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.text == text; });
        if (group == groups.end()) group = groups.insert(groups.end(), Group{text, {}});
        group->nodes.push_back(reason.value("node", ""));
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group& a, const Group& b) { return a.nodes.size() > b.nodes.size(); });
    std::string out;
    for (const Group& group : groups) {
        const std::string count = std::to_string(group.nodes.size());
        out += std::string(count.size() < 5 ? 5 - count.size() : 0, ' ') + count + "  " + group.text;
        for (std::size_t i = 0; i < group.nodes.size() && i < nodes_named; ++i)
            out += (i == 0 ? "   " : " ") + group.nodes[i];
        if (group.nodes.size() > nodes_named)
            out += " and " + std::to_string(group.nodes.size() - nodes_named) + " more";
        out += "\n";
    }
    return out;
}

}  // namespace rtrain::cmd
