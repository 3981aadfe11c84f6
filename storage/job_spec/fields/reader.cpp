// Makes a Job from text: the tree, --set, variables, each row of the table, and checks of the whole. Reports all
// problems in one pass.

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/json_text.hpp"
#include "storage/job_spec/fields/rules.hpp"

namespace rtrain::spec {
namespace {

using nlohmann::json;

bool is_group(std::string_view name) {
    static const auto groups = [] {
        std::set<std::string_view> out;
        for (const Rule& rule : rules())
            if (const std::size_t dot = rule.path.find('.'); dot != std::string_view::npos)
                out.insert(rule.path.substr(0, dot));
        return out;
    }();
    return groups.contains(name);
}

// Returns the fields that may stand directly in `group` ("" is the top).
std::vector<std::string> fields_in(const std::string& group) {
    std::vector<std::string> names;
    for (const Rule& rule : rules()) {
        std::string name(rule.path);
        if (!group.empty()) {
            if (!name.starts_with(group + ".")) continue;
            name = name.substr(group.size() + 1);
        } else {
            name = name.substr(0, name.find('.'));
        }
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
}

std::string guess(const std::string& group, const std::string& key) {
    std::string word = nearest(key, fields_in(group));
    if (!word.empty()) return word;
    std::vector<std::string> everywhere;
    for (const Rule& rule : rules()) everywhere.emplace_back(rule.path);
    for (const std::string& path : everywhere)  // the last word of the path is the name of a field in another group
        if (path.substr(path.rfind('.') + 1) == key) return path;
    return nearest(key, everywhere);
}

void read_fields(Reading& reading, const Value& map, const std::string& group) {
    for (const Entry& entry : map.entries) {
        const std::string path = below(group, entry.key);
        if (const Rule* rule = rule_of(path)) {
            const bool is_default = entry.value.kind == Kind::null && path != "entrypoint";
            if (is_default) continue;
            if (check_shape(reading, *rule, entry.value))
                rule->take(reading, entry.value);
            else if (const auto part = fitting_part(*rule, entry.value))
                rule->take(reading, *part);
        } else if (!group.empty() || !is_group(entry.key)) {
            const Value at_key{.place = entry.value.set.empty() ? entry.place : entry.value.place,
                               .set = entry.value.set};
            reading.problem(path, at_key, "unknown field",
                            reading.lists_more() ? did_you_mean(guess(group, entry.key)) : "");
        } else if (entry.value.kind == Kind::map) {
            read_fields(reading, entry.value, entry.key);
        } else if (entry.value.kind != Kind::null) {
            std::string names;
            for (const std::string& name : fields_in(entry.key)) names += (names.empty() ? "" : ", ") + name;
            reading.problem(path, entry.value, "wants a map of " + names, "");
        }
    }
}

ReadAnswer read_tree(Tree tree, JsonFrom from) {
    Reading reading{.problems = std::move(tree.problems), .problems_more = tree.problems_more, .from = from};
    if (tree.root.kind == Kind::null) tree.root.kind = Kind::map;
    if (tree.root.kind != Kind::map) {
        reading.problem("", tree.root, "a job is a map of fields", "for example: entrypoint: python train.py");
        return {.problems = std::move(reading.problems)};
    }
    read_fields(reading, tree.root, "");
    if (tree.root.find("entrypoint") == nullptr && !reading.unusable.contains("entrypoint"))
        reading.problem("entrypoint", Value{.place = {1, 1}}, "is missing: what should the workers run?",
                        "for example entrypoint: python train.py");
    if (reading.job.entrypoint.empty()) reading.unusable.insert("entrypoint");
    check_whole(reading, tree.root);
    auto& problems = reading.problems;
    std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
        return std::tuple(a.line == 0, a.line, a.column) < std::tuple(b.line == 0, b.line, b.column);
    });
    add_count(problems, reading.problems_more);
    if (!problems.empty()) return {.problems = std::move(problems)};
    return {.job = std::move(reading.job)};
}

// Escapes control characters of the file's line, so that the terminal does not execute them. A tab becomes one
// character, so that columns stay right.
std::string harmless(std::string line) {
    for (char& c : line)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\t' ? ' ' : '?';
    return line;
}

std::string line_of(const std::string& text, int number) {
    std::size_t begin = 0;
    for (int i = 1; i < number && begin != std::string::npos; ++i) {
        begin = text.find('\n', begin);
        if (begin != std::string::npos) ++begin;
    }
    if (begin == std::string::npos || begin > text.size()) return "";
    std::string line = text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return harmless(line);
}

}  // namespace

ReadAnswer read_job(const std::string& yaml_text, const ReadOptions& options) {
    Tree tree = yaml_tree(yaml_text);
    const bool unreadable = !tree.problems.empty() && tree.root.kind == Kind::null && tree.root.entries.empty();
    add_count(tree.problems, unreadable ? std::exchange(tree.problems_more, 0) : 0);
    if (unreadable) return {.problems = std::move(tree.problems)};
    for (const std::string& set : options.sets) lay_over(tree, set);
    put_in_variables(tree, options.environment);
    return read_tree(std::move(tree), JsonFrom::submitter);
}

ReadAnswer job_from_json(const std::string& text, JsonFrom from) {
    Tree tree = json_tree(text);
    if (!tree.problems.empty()) return {.problems = std::move(tree.problems)};
    return read_tree(std::move(tree), from);
}

std::string to_json(const Job& job) {
    json out = json::object();
    for (const Rule& rule : rules()) {
        const std::string path(rule.path);
        const std::size_t dot = path.find('.');
        json& place = dot == std::string::npos ? out[path] : out[path.substr(0, dot)][path.substr(dot + 1)];
        place = rule.give(job);
    }
    return json_text(out);
}

std::string problem_text(const Problem& problem, const std::string& file_name, const std::string& yaml_text) {
    std::string out = file_name;
    if (problem.line > 0) out += ":" + std::to_string(problem.line) + ":" + std::to_string(problem.column);
    out += ": error: " + (problem.path.empty() ? "" : problem.path + ": ") + harmless(problem.message);
    if (!problem.suggestion.empty()) out += "; " + harmless(problem.suggestion);
    if (problem.line <= 0 || yaml_text.size() > file_bytes_most) return out;
    const std::string line = line_of(yaml_text, problem.line);
    const std::string number = std::to_string(problem.line);
    if (line.empty() || line.size() > 200) return out;
    const auto before = static_cast<std::size_t>(std::max(problem.column - 1, 0));
    return out + "\n  " + number + " | " + line + "\n  " + std::string(number.size(), ' ') + " | " +
           std::string(before, ' ') + "^";
}

}  // namespace rtrain::spec
