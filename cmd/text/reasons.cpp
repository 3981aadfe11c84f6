// Groups the reasons of nodes by text, the most frequent first.
#include "cmd/text/reasons.hpp"

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

bool contains_text(const json& groups, const std::string& text) {
    return std::any_of(groups.begin(), groups.end(),
                       [&](const json& group) { return group.value("text", "") == text; });
}

}  // namespace

std::string explanation_text(const json& answer) {
    constexpr std::size_t line_column = 70;
    std::string text = answer.value("headline", "") + "\n";
    for (const json& rule : answer.value("rules", json::array())) text += "  " + rule.get<std::string>() + "\n";
    const auto nodes = answer.value("nodes", std::int64_t{0}), fitting = answer.value("fitting", std::int64_t{0});
    const json groups = answer.value("groups", json::array());
    if (nodes > 0)
        text += "  " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes") +
                " considered: " + std::to_string(fitting) + (fitting == 1 ? " fits, " : " fit, ") +
                std::to_string(nodes - fitting) + (nodes - fitting == 1 ? " does not\n" : " do not\n");
    for (const json& group : groups) {
        const std::string count = std::to_string(group.value("nodes", std::int64_t{0}));
        std::string line = std::string(count.size() < 5 ? 5 - count.size() : 0, ' ') + count + "  ";
        std::string kind = group.value("kind", "");
        if (kind.size() < 13) kind.resize(13, ' ');
        line += kind + "  " + group.value("text", "");
        if (group.contains("line") && group["line"].is_string()) {
            if (line.size() < line_column) line.resize(line_column, ' ');
            line += "  " + group["line"].get<std::string>();
        }
        text += line + "\n";
    }
    if (answer.value("verdict", json()) == "infeasible") {
        text += "  No present nodes could ever hold it; it waits for nodes to join\n";
        json others = json::array();
        for (const json& reason : answer.value("reasons", json::array()))
            if (!contains_text(groups, reason.value("text", ""))) others.push_back(reason);
        text += reasons_text(others);
    }
    if (std::string change = answer.value("nearest_change", ""); !change.empty()) {
        if (change.front() == 'w') change.front() = 'W';
        text += "  " + change + "\n";
    }
    return text;
}

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
