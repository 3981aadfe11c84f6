// Parses the typed words into a row of the table and its values. A prefix of a flag does not stand for the flag. The
// error for an unknown word names the nearest known one.
#include <algorithm>
#include <charconv>

#include "cmd/dispatch/dispatch.hpp"
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
    explicit Reader(const std::vector<std::string>& words) : words_(words) {}

    Result<Parsed> read() {
        for (; at_ < words_.size(); ++at_) {
            Status step = read_word();
            if (!step) return step.error();
            if (parsed_.command != nullptr && parsed_.command->raw) {
                parsed_.arguments.positional.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_) + 1,
                                                    words_.end());
                return parsed_;
            }
        }
        Status complete = check_complete();
        if (!complete) return complete.error();
        return parsed_;
    }

  private:
    Status read_word() {
        const std::string& word = words_[at_];
        if (only_positional_ || word == "-" || !word.starts_with("-")) {
            if (parsed_.command == nullptr) return verb_word(word);
            return positional(word);
        }
        if (word == "--") {
            only_positional_ = true;
            return Done{};
        }
        return word.starts_with("--") ? long_flag(word) : short_flags(word);
    }

    Status verb_word(const std::string& word) {
        if (!group_.empty()) {
            parsed_.command = find_command(group_ + " " + word);
            if (parsed_.command != nullptr) return Done{};
            return usage("rtrain " + group_ + ": unknown verb " + in_quotes(word) + meant(word, words_at(1, group_)),
                         "rtrain " + group_ + " --help");
        }
        const bool leads = !words_at(1, word).empty();
        const Command* alone = find_command(word);
        if (alone != nullptr && leads && at_ + 1 < words_.size() &&
            find_command(word + " " + words_[at_ + 1]) != nullptr)
            alone = find_command(word + " " + words_[++at_]);
        if (alone != nullptr) {
            parsed_.command = alone;
            return Done{};
        }
        if (!leads) return usage("unknown verb " + in_quotes(word) + meant(word, words_at(0, "")), "rtrain help");
        group_ = word;
        return Done{};
    }

    Status positional(const std::string& word) {
        const Command& command = *parsed_.command;
        if (command.program) {
            parsed_.arguments.positional.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
            at_ = words_.size();
            return Done{};
        }
        if (parsed_.arguments.positional.size() >= command.arguments.size())
            return usage("rtrain " + std::string(command.words) + " does not take " + in_quotes(word),
                         usage_line(command));
        parsed_.arguments.positional.push_back(word);
        const bool program = std::string_view(command.words) == "submit" && word.ends_with(".py");
        return program ? program_words() : Status(Done{});
    }

    // Reads the words after the program's name. They are the program's arguments, except flags of rtrain before "--".
    Status program_words() {
        while (++at_ < words_.size()) {
            const std::string& word = words_[at_];
            if (word == "--" && !only_positional_) {
                only_positional_ = true;
            } else if (only_positional_ || !own_flag(word)) {
                parsed_.arguments.positional.push_back(word);
            } else {
                parsed_.arguments.after_program.push_back(word);
                const Status taken = word.starts_with("--") ? long_flag(word) : short_flags(word);
                if (!taken) return taken;
            }
        }
        return Done{};
    }

    bool own_flag(const std::string& word) const {
        if (word.starts_with("--")) return find_flag(parsed_.command, word.substr(2, word.find('=') - 2)) != nullptr;
        return word.size() == 2 && word[0] == '-' && find_letter(parsed_.command, word[1]) != nullptr;
    }

    Status long_flag(const std::string& word) {
        const auto equals = word.find('=');
        const std::string name = word.substr(2, equals == word.npos ? word.npos : equals - 2);
        const Flag* flag = find_flag(parsed_.command, name);
        if (flag == nullptr) return unknown_flag("--" + name);
        if (equals != word.npos) {
            if (flag->takes == Value::none) return usage("--" + name + " takes no value", next());
            return keep(*flag, word.substr(equals + 1));
        }
        return with_next_word(*flag);
    }

    Status short_flags(const std::string& word) {
        for (std::size_t i = 1; i < word.size(); ++i) {
            const Flag* flag = find_letter(parsed_.command, word[i]);
            if (flag == nullptr) return unknown_flag(std::string("-") + word[i]);
            if (flag->takes == Value::none) {
                parsed_.arguments.flags[flag->name];
                continue;
            }
            if (i + 1 < word.size()) return keep(*flag, word.substr(i + 1 + (word[i + 1] == '=' ? 1 : 0)));
            return with_next_word(*flag);
        }
        return Done{};
    }

    Status with_next_word(const Flag& flag) {
        if (flag.takes == Value::none) {
            parsed_.arguments.flags[flag.name];
            return Done{};
        }
        if (at_ + 1 >= words_.size()) return usage(std::string("--") + flag.name + " needs " + flag.shown, next());
        return keep(flag, words_[++at_]);
    }

    Status keep(const Flag& flag, const std::string& value) {
        const std::string name = std::string("--") + flag.name;
        if (flag.takes == Value::number) {
            std::int64_t number = 0;
            const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
            if (error != std::errc{} || end != value.data() + value.size() || number < 0)
                return usage(name + ": " + in_quotes(value) + " is not a whole number of 0 or more", next());
        }
        if (flag.takes == Value::duration && !parse_duration(value))
            return usage(name + ": " + in_quotes(value) + " is not a duration such as 30s, 5m, 2h or 7d", next());
        if (flag.takes == Value::choice) {
            const std::vector<std::string> choices = split(flag.choices, '|');
            bool known = false;
            for (const std::string& choice : choices) known = known || choice == value;
            if (!known)
                return usage(name + ": " + in_quotes(value) + " is none of " + flag.choices + meant(value, choices),
                             next());
        }
        auto& values = parsed_.arguments.flags[flag.name];
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

    const std::vector<std::string>& words_;
    std::size_t at_ = 0;
    bool only_positional_ = false;
    std::string group_;
    Parsed parsed_;
};

}  // namespace

Result<Parsed> parse(const std::vector<std::string>& words) { return Reader(words).read(); }

}  // namespace rtrain::cmd
