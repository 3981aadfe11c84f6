// Applies to a job file what the submitter adds on the command line (--set), and environment variables.

#include <algorithm>
#include <array>

#include "storage/job_spec/value.hpp"

namespace rtrain::spec {
namespace {

void refuse(Tree& tree, const std::string& path, const std::string& set, const std::string& message,
            const std::string& suggestion) {
    tree.add({path, 0, 0, "--set " + shown(set) + ": " + message, suggestion});
}

Value& entry_of(Value& map, const std::string& key, const std::string& set) {
    for (Entry& entry : map.entries)
        if (entry.key == key) return entry.value;
    map.entries.push_back({key, {}, Value{.set = set}});
    return map.entries.back().value;
}

void mark(Value& value, const std::string& set) {
    value.set = set;
    value.place = {};
    for (Value& item : value.items) mark(item, set);
    for (Entry& entry : value.entries) {
        entry.place = {};
        mark(entry.value, set);
    }
}

// The fields in which ${VAR} is expanded. Entrypoint and setup are not among them, because a shell expands them where
// they run.
constexpr std::array fields_with_variables = {"name", "working_dir", "env", "storage_path", "labels"};

bool variable_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool variable_name(std::string_view name) {
    return !name.empty() && variable_start(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
        return variable_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
    });
}

class Expansion {
  public:
    Expansion(Tree& tree, const std::map<std::string, std::string>& environment)
        : tree_(tree), environment_(environment) {}

    void expand(Value& value, const std::string& path) {
        for (std::size_t i = 0; i < value.items.size(); ++i) expand(value.items[i], below(path, i));
        for (Entry& entry : value.entries) expand(entry.value, below(path, entry.key));
        if (value.kind == Kind::string && value.text.find('$') != std::string::npos) value.text = expanded(value, path);
    }

  private:
    std::string expanded(const Value& value, const std::string& path) {
        const std::string& text = value.text;
        std::string out;
        for (std::size_t at = 0; at < text.size(); ++at) {
            if (text[at] != '$' || at + 1 == text.size() || (text[at + 1] != '$' && text[at + 1] != '{')) {
                out += text[at];
                continue;
            }
            if (text[++at] == '$') {
                out += '$';
                continue;
            }
            const std::size_t end = text.find('}', at);
            if (end == std::string::npos) {
                problem(value, path, "${ without }", "write $$ for a dollar sign");
                return text;
            }
            out += value_of(value, path, text.substr(at + 1, end - at - 1));
            at = end;
        }
        return out;
    }
    std::string value_of(const Value& value, const std::string& path, const std::string& inside) {
        const std::size_t colon = inside.find(":-");
        const std::string name = inside.substr(0, colon);
        if (!variable_name(name)) {
            problem(value, path, shown("${" + inside + "}") + " is not ${VAR} or ${VAR:-default}",
                    "write $$ for a dollar sign");
            return "";
        }
        const auto entry = environment_.find(name);
        if (entry != environment_.end() && (colon == std::string::npos || !entry->second.empty())) return entry->second;
        if (colon != std::string::npos) return inside.substr(colon + 2);
        std::vector<std::string> names;
        for (const auto& [known, ignored] : environment_) names.push_back(known);
        const std::string guess = nearest(name, names);
        problem(value, path, "the variable " + name + " is not set in your environment",
                guess.empty() ? "set it, or give a default: ${" + name + ":-...}" : did_you_mean(guess));
        return "";
    }
    void problem(const Value& value, const std::string& path, const std::string& message,
                 const std::string& suggestion) {
        const std::string from = value.set.empty() ? "" : "--set " + shown(value.set) + ": ";
        tree_.add({path, value.place.line, value.place.column, from + message, suggestion});
    }

    Tree& tree_;
    const std::map<std::string, std::string>& environment_;
};

}  // namespace

void lay_over(Tree& tree, const std::string& set) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
        return refuse(tree, "", set, "it has no FIELD=VALUE", "for example --set scaling.workers=4");
    const std::string path = set.substr(0, equals);
    const std::string text = set.substr(equals + 1);
    Tree parsed = yaml_tree(text);
    for (const Problem& problem : parsed.problems) refuse(tree, path, set, problem.message, problem.suggestion);
    if (!parsed.problems.empty()) return;
    mark(parsed.root, set);
    Value* at = &tree.root;
    for (std::size_t begin = 0; begin <= path.size();) {
        const std::size_t end = std::min(path.find('.', begin), path.size());
        const std::string key = path.substr(begin, end - begin);
        if (key.empty())
            return refuse(tree, path, set, "the field has an empty part", "for example --set scaling.workers=4");
        if (at->kind == Kind::null) at->kind = Kind::map;
        if (at->kind != Kind::map)
            return refuse(tree, path, set, shown(path.substr(0, begin == 0 ? 0 : begin - 1)) + " is not a map", "");
        at = &entry_of(*at, key, set);
        begin = end + 1;
    }
    *at = std::move(parsed.root);
}

void put_in_variables(Tree& tree, const std::map<std::string, std::string>& environment) {
    Expansion expansion(tree, environment);
    for (Entry& entry : tree.root.entries)
        if (std::find(fields_with_variables.begin(), fields_with_variables.end(), entry.key) !=
            fields_with_variables.end())
            expansion.expand(entry.value, entry.key);
}

}  // namespace rtrain::spec
