// Finds the row of the table that the typed words name, and checks their values. The error for an unknown word names
// the nearest known one.
#include <algorithm>
#include <charconv>
#include <utility>

#include "cmd/dispatch/dispatch.hpp"
#include "cmd/dispatch/typed_words.hpp"
#include "cmd/line/command.hpp"
#include "cmd/text/suggest.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

Error usage(std::string message, std::string next) {
    return {.code = ErrorCode::usage, .message = std::move(message), .next = std::move(next)};
}

std::string in_quotes(std::string_view word) { return "\"" + std::string(word) + "\""; }

std::string meant(std::string_view word, const std::vector<std::string>& known) {
    const std::string near = nearest(word, known);
    return near.empty() ? "" : "; did you mean " + in_quotes(near) + "?";
}

std::vector<std::string> flag_names(const Command* command) {
    std::vector<std::string> names;
    if (command != nullptr)
        for (const Flag& flag : command->flags) names.push_back(std::string("--") + flag.name);
    for (const Flag& flag : global_flags()) names.push_back(std::string("--") + flag.name);
    return names;
}

std::vector<std::string> words_at(std::size_t position, std::string_view first) {
    std::vector<std::string> known;
    for (const Command& command : commands()) {
        if (command.hidden) continue;
        const std::string_view words = command.words;
        const auto space = words.find(' ');
        if (position == 0) known.emplace_back(words.substr(0, space));
        if (position == 1 && space != words.npos && words.substr(0, space) == first)
            known.emplace_back(words.substr(space + 1));
    }
    return known;
}

class Reader {
  public:
    explicit Reader(const std::vector<std::string>& words) : unread_(words) {}

    Result<Parsed> read() {
        while (parsed_.command == nullptr && !unread_.empty()) {
            Status step = take(std::exchange(unread_, {}), Behind::nothing);
            if (step && !unread_.empty()) step = verb_word();
            if (!step) return step.error();
        }
        Status step = parsed_.command == nullptr ? Status(Done{}) : verb_arguments();
        if (step && !is_raw()) step = check_complete();
        if (!step) return step.error();
        return parsed_;
    }

  private:
    bool is_raw() const { return parsed_.command != nullptr && parsed_.command->raw; }
    bool takes_job_or_program() const { return std::string_view(parsed_.command->words) == "submit"; }

    // Reads the words behind the verb.
    Status verb_arguments() {
        const Command& command = *parsed_.command;
        std::vector<std::string>& positional = parsed_.arguments.positional;
        if (!command.raw) {
            const Behind behind = command.program          ? Behind::nothing
                                  : takes_job_or_program() ? Behind::nothing_of_py
                                                           : Behind::flags;
            Status taken = take(std::exchange(unread_, {}), behind);
            if (!taken) return taken;
        }
        if (command.program || command.raw) {
            positional.insert(positional.end(), unread_.begin(), unread_.end());
            return Done{};
        }
        return unread_.empty() ? Status(Done{}) : program_words();
    }

    // Reads a program's name and the words behind it. They are the program's arguments, except flags of rtrain before
    // "--".
    Status program_words() {
        Status named = argument(unread_.front());
        if (!named) return named;
        return take({unread_.begin() + 1, unread_.end()}, Behind::foreign_flags);
    }

    // Keeps flags and arguments, and leaves the words of Kind::unread in `unread_`.
    Status take(std::vector<std::string> words, Behind behind) {
        if (no_more_flags_) words.insert(words.begin(), "--");
        const TypedWords typed = split_words(words, parsed_.command, behind);
        if (typed.lacks_value != nullptr)
            return usage(std::string("--") + typed.lacks_value->name + " needs " + typed.lacks_value->shown, next());
        if (typed.takes_no_value != nullptr)
            return usage(std::string("--") + typed.takes_no_value->name + " takes no value", next());
        for (const TypedWord& word : typed.words) {
            Status taken = take(word);
            if (!taken) return taken;
        }
        return Done{};
    }

    Status take(const TypedWord& word) {
        switch (word.kind) {
            case TypedWord::Kind::flag:
                if (after_program_) parsed_.arguments.after_program.push_back(word.typed);
                return keep(*word.flag, word.text);
            case TypedWord::Kind::unknown_flag:
                return unknown_flag(word.text);
            case TypedWord::Kind::argument:
                if (parsed_.command != nullptr) return argument(word.text);
                no_more_flags_ = true;  // "--" stood before the verb
                break;
            case TypedWord::Kind::unread:
                break;
        }
        unread_.push_back(word.text);
        return Done{};
    }

    // Finds the verb whose words are the first unread ones, and removes these words from `unread_`.
    Status verb_word() {
        const std::string word = unread_.front();
        unread_.erase(unread_.begin());
        if (!group_.empty()) {
            parsed_.command = find_command(group_ + " " + word);
            if (parsed_.command != nullptr) return Done{};
            return usage("rtrain " + group_ + ": unknown verb " + in_quotes(word) + meant(word, words_at(1, group_)),
                         "rtrain " + group_ + " --help");
        }
        const bool leads = !words_at(1, word).empty();
        parsed_.command = find_command(word);
        if (parsed_.command != nullptr && leads && !unread_.empty()) {
            const Command* longer = find_command(word + " " + unread_.front());
            if (longer != nullptr) {
                parsed_.command = longer;
                unread_.erase(unread_.begin());
            }
        }
        if (parsed_.command != nullptr) return Done{};
        if (!leads) return usage("unknown verb " + in_quotes(word) + meant(word, words_at(0, "")), "rtrain help");
        group_ = word;
        return Done{};
    }

    Status argument(const std::string& word) {
        const Command& command = *parsed_.command;
        const bool any_number = command.program || after_program_;
        if (!any_number && parsed_.arguments.positional.size() >= command.arguments.size())
            return usage("rtrain " + std::string(command.words) + " does not take " + in_quotes(word),
                         usage_line(command));
        parsed_.arguments.positional.push_back(word);
        if (takes_job_or_program() && word.ends_with(".py")) after_program_ = true;
        return Done{};
    }

    Status keep(const Flag& flag, const std::string& value) {
        const std::string name = std::string("--") + flag.name;
        std::vector<std::string>& values = parsed_.arguments.flags[flag.name];
        if (flag.takes == Value::none && value.empty()) return Done{};
        if (flag.takes == Value::number) {
            std::int64_t number = 0;
            const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
            if (error != std::errc{} || end != value.data() + value.size() || number < 0)
                return usage(name + ": " + in_quotes(value) + " is not a whole number of 0 or more", next());
        }
        if (flag.takes == Value::duration && !parse_duration(value))
            return usage(name + ": " + in_quotes(value) + " is not a duration such as 30s, 5m, 2h or 7d", next());
        if (*flag.choices != 0) {
            const std::vector<std::string> choices = split(flag.choices, '|');
            bool known = false;
            for (const std::string& choice : choices) known = known || choice == value;
            if (!known)
                return usage(name + ": " + in_quotes(value) + " is none of " + flag.choices + meant(value, choices),
                             next());
        }
        if (!flag.repeated && !values.empty()) return usage(name + " is given twice", next());
        values.push_back(value);
        return Done{};
    }

    Status unknown_flag(const std::string& shown) {
        const std::string where =
            parsed_.command == nullptr ? "" : "rtrain " + std::string(parsed_.command->words) + ": ";
        const bool program = parsed_.command != nullptr && parsed_.command->program;
        return usage(where + "unknown flag " + in_quotes(shown) + meant(shown, flag_names(parsed_.command)),
                     next() + (program ? "; flags of the program stand behind its name" : ""));
    }

    Status check_complete() {
        if (parsed_.arguments.has("help")) return Done{};
        if (parsed_.command == nullptr && !group_.empty()) {
            std::string verbs;
            for (const std::string& verb : words_at(1, group_)) verbs += (verbs.empty() ? "" : ", ") + verb;
            return usage("rtrain " + group_ + " needs a verb: " + verbs, "rtrain " + group_ + " --help");
        }
        if (parsed_.command == nullptr) return Done{};
        const auto& expected = parsed_.command->arguments;
        for (std::size_t i = parsed_.arguments.positional.size(); i < expected.size(); ++i)
            if (!expected[i].optional)
                return usage("rtrain " + std::string(parsed_.command->words) + " needs " + expected[i].name,
                             usage_line(*parsed_.command));
        return check_reach();
    }

    // Fails if the user gives a flag that names a head to a verb that connects to none, where the flag would have no
    // effect.
    Status check_reach() const {
        const Command& command = *parsed_.command;
        if (command.reach == Reach::head) return Done{};
        for (const char* name : {"context", "address", "token", "ca"}) {
            const bool own = std::any_of(command.flags.begin(), command.flags.end(),
                                         [&](const Flag& flag) { return std::string_view(flag.name) == name; });
            if (!own && parsed_.arguments.has(name))
                return usage("rtrain " + std::string(command.words) + " works on this machine alone: --" + name +
                                 " would change nothing",
                             "leave --" + std::string(name) + " out; rtrain " + command.words + " --help");
        }
        return Done{};
    }

    std::string next() const {
        return "rtrain " + (parsed_.command == nullptr ? std::string() : parsed_.command->words + std::string(" ")) +
               "--help";
    }

    std::vector<std::string> unread_;  // words that have not been split yet
    bool no_more_flags_ = false, after_program_ = false;
    std::string group_;  // the first word of a verb of two words: "head"
    Parsed parsed_;
};

}  // namespace

Result<Parsed> parse(const std::vector<std::string>& words) { return Reader(words).read(); }

}  // namespace rtrain::cmd
