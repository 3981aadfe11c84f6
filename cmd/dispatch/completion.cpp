// Computes the candidates for the next word of a command line.
#include "cmd/dispatch/completion.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cmd/client/api.hpp"
#include "cmd/dispatch/dispatch.hpp"
#include "cmd/dispatch/typed_words.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// ms; a key press must not wait longer than this for a head that does not answer
constexpr std::int64_t patience_ms = 1'000;

std::vector<std::string> contexts() {
    std::vector<std::string> names;
    Result<ConfigFile> config = read_config(user_config_path({}));
    if (config)
        for (const auto& [name, place] : config->contexts) names.push_back(name);
    return names;
}

std::vector<std::string> live(Invocation& call, const std::string& target, const char* field) {
    std::vector<std::string> names;
    Result<Settings> settings = Settings::load({});
    if (!settings) return names;
    const Place place{.address = settings->value("address"),
                      .token = settings->value("token"),
                      .ca = settings->value("ca"),
                      .ca_fingerprint = settings->value("ca_fingerprint")};
    Result<Api> api = Api::open(call, place, patience_ms);
    if (!api) return names;
    Result<json> answer = api->get(target);
    if (!answer) return names;
    for (const json& item : answer->value("items", json::array())) names.push_back(item.value(field, ""));
    return names;
}

std::vector<std::string> values(Invocation& call, Value value, const char* choices) {
    switch (value) {
        case Value::choice:
            return split(choices, '|');
        case Value::context:
            return contexts();
        case Value::run:
        case Value::checkpoint:
            return live(call, "/v1/runs?all=true&limit=200", "name");
        case Value::node:
            return live(call, "/v1/nodes?limit=200", "node");
        case Value::run_or_node: {
            std::vector<std::string> both = live(call, "/v1/runs?all=true&limit=200", "name");
            const std::vector<std::string> nodes = live(call, "/v1/nodes?limit=200", "node");
            both.insert(both.end(), nodes.begin(), nodes.end());
            return both;
        }
        case Value::verb:
        case Value::none:
        case Value::text:
        case Value::number:
        case Value::duration:
        case Value::file:
            return {};
    }
    return {};
}

// The command that the words before the last one select, and the part of its line that the next word is.
struct Progress_ {
    std::string group;  // the first word typed; may begin a command of two words
    const Command* command = nullptr;
    std::size_t positional = 0;
    const Flag* open_flag = nullptr;  // a flag whose value is the next word
};

// Takes words from the front of `words` as long as they name a verb.
void take_verb(Progress_& at, std::vector<std::string>& words) {
    if (at.group.empty()) {
        at.group = words.front();
        at.command = find_command(at.group);
        words.erase(words.begin());
    }
    if (words.empty() || words.front().starts_with("-")) return;
    const Command* longer = find_command(at.group + " " + words.front());
    if (longer != nullptr) at.command = longer;
    if (longer != nullptr || at.command == nullptr) words.erase(words.begin());
}

Progress_ walk(const std::vector<std::string>& words) {
    Progress_ at;
    std::vector<std::string> unread(words.begin(), words.end() - 1);
    while (at.command == nullptr && !unread.empty()) {
        const TypedWords typed = split_words(std::exchange(unread, {}), nullptr, Behind::nothing);
        at.open_flag = typed.lacks_value;
        for (const TypedWord& word : typed.words)
            if (word.kind == TypedWord::Kind::unread) unread.push_back(word.text);
        if (!unread.empty()) take_verb(at, unread);
    }
    if (at.command == nullptr || unread.empty()) return at;
    const TypedWords typed = split_words(unread, at.command, Behind::flags);
    at.open_flag = typed.lacks_value;
    for (const TypedWord& word : typed.words)
        if (word.kind == TypedWord::Kind::argument) ++at.positional;
    return at;
}

std::vector<std::string> verbs_after(const std::string& group) {
    std::vector<std::string> words;
    const std::string prefix = group.empty() ? "" : group + " ";
    for (const Command& command : commands()) {
        const std::string all = command.words;
        if (command.hidden || !all.starts_with(prefix)) continue;
        words.push_back(split(all.substr(prefix.size()), ' ')[0]);
    }
    return words;
}

std::vector<std::string> flag_words(const Command* command) {
    std::vector<std::string> words;
    if (command != nullptr)
        for (const Flag& flag : command->flags) words.push_back(std::string("--") + flag.name);
    for (const Flag& flag : global_flags()) words.push_back(std::string("--") + flag.name);
    return words;
}

std::vector<std::string> candidates(Invocation& call, const Progress_& at, const std::string& last) {
    if (at.open_flag != nullptr) return values(call, at.open_flag->takes, at.open_flag->choices);
    if (last.starts_with("-")) return flag_words(at.command);
    std::vector<std::string> words;
    if (at.command == nullptr || at.positional == 0)
        words =
            at.command != nullptr && at.group != at.command->words ? std::vector<std::string>{} : verbs_after(at.group);
    if (at.command == nullptr) return words;
    if (at.positional >= at.command->arguments.size()) return words;
    const Argument& argument = at.command->arguments[at.positional];
    if (std::string_view(at.command->words) == "completion") return {"bash", "zsh", "fish"};
    const std::vector<std::string> more =
        argument.value == Value::verb ? verbs_after("") : values(call, argument.value, "");
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

}  // namespace

std::vector<std::string> completions(Invocation& call, const std::vector<std::string>& given) {
    std::vector<std::string> words = given;
    if (!words.empty() && words.front() == "--") words.erase(words.begin());
    if (words.empty()) words.emplace_back();
    const std::string last = words.back();
    std::vector<std::string> matches;
    for (const std::string& word : candidates(call, walk(words), last)) {
        const bool safe = word.find_first_of(" \t\n\\'\"$`;&|<>()") == word.npos;
        if (!word.empty() && safe && word.starts_with(last)) matches.push_back(word);
    }
    std::sort(matches.begin(), matches.end());
    matches.erase(std::unique(matches.begin(), matches.end()), matches.end());
    return matches;
}

std::string completion_script(const std::string& shell) {
    if (shell == "bash")
        return R"(_rtrain() {
    local IFS=$'\n'
    COMPREPLY=($(rtrain __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _rtrain rtrain
)";
    if (shell == "zsh")
        return R"(#compdef rtrain
_rtrain() {
    local -a candidates
    candidates=("${(@f)$(rtrain __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    candidates=(${candidates:#})
    if (( ${#candidates} )); then compadd -a candidates; else _files; fi
}
compdef _rtrain rtrain
)";
    if (shell == "fish")
        return R"(function __rtrain_complete
    set -l words (commandline -opc) (commandline -ct)
    rtrain __complete -- $words[2..-1] 2>/dev/null
end
complete -c rtrain -a '(__rtrain_complete)'
)";
    return "";
}

}  // namespace rtrain::cmd
