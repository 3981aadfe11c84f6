// See typed_words.hpp. Boost.Program_options reads "--name VALUE", "--name=VALUE", "-n VALUE", "-nVALUE", "-abc" and
// "--". `read_first` reads words that Boost does not know, or would read otherwise.
#include "cmd/dispatch/typed_words.hpp"

#include <boost/make_shared.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <climits>
#include <string_view>

#include "cmd/dispatch/dispatch.hpp"

namespace rtrain::cmd {
namespace {

namespace po = boost::program_options;
using Kind = TypedWord::Kind;
using Options = std::vector<po::option>;

void add_flag(po::options_description& known, const Flag& flag) {
    const bool is_switch = flag.takes == Value::none;
    const std::string letter(flag.letter == 0 ? 0 : 1, flag.letter);
    // a verb's own flag replaces the global flag of the same name
    if (known.find_nothrow(flag.name, false) != nullptr) return;
    const bool has_letter = !letter.empty() && known.find_nothrow("-" + letter, false) == nullptr;
    const std::string names = flag.name + (has_letter ? "," + letter : "");
    // such a switch may stand alone (--warm), or with a value in the same word (--warm=auto)
    const bool has_choices = is_switch && *flag.choices != 0;
    const po::value_semantic* value =
        has_choices ? static_cast<po::value_semantic*>(po::value<std::string>()->implicit_value(""))
                    : new po::untyped_value(is_switch);
    known.add(boost::make_shared<po::option_description>(names.c_str(), value, flag.help));
}

po::options_description described(const Command* command) {
    po::options_description known;
    if (command != nullptr)
        for (const Flag& flag : command->flags) add_flag(known, flag);
    for (const Flag& flag : global_flags()) add_flag(known, flag);
    return known;
}

bool is_argument(std::string_view word) { return word == "-" || !word.starts_with("-"); }

bool is_own_flag(const Command* command, std::string_view word) {
    if (word.starts_with("--")) return find_flag(command, word.substr(2, word.find('=') - 2)) != nullptr;
    return word.size() == 2 && word[0] == '-' && find_letter(command, word[1]) != nullptr;
}

po::option argument(const std::string& word) {
    po::option option;
    option.value = option.original_tokens = {word};
    // the value that Boost sets for words behind "--"; Boost numbers these positions afterwards
    option.position_key = INT_MAX;
    return option;
}

Options unread(std::vector<std::string>& words) {
    Options all;
    for (const std::string& word : words) {
        all.push_back(argument(word));
        all.back().unregistered = true;
    }
    words.clear();
    return all;
}

// Reads two kinds of words that Boost misreads. It refuses "--name=". It takes a name that is empty or begins with a
// dash for an argument or a letter.
Options odd_flag(std::vector<std::string>& words) {
    const std::string word = words.front();
    const auto equals = word.find('=');
    const bool odd_name = word.size() > 2 && (word[2] == '=' || word[2] == '-');
    if (!word.starts_with("--") || !(odd_name || equals + 1 == word.size())) return {};
    po::option option;
    option.string_key = odd_name ? word.substr(0, equals) : word.substr(2, equals - 2);
    if (equals != word.npos) option.value = {word.substr(equals + 1)};
    option.original_tokens = {word};
    words.erase(words.begin());
    return {option};
}

// Reads words at the front that Boost would read otherwise. Returns no option if Boost is to read the first word.
Options read_first(std::vector<std::string>& words, const Command* command, Behind behind) {
    const std::string word = words.front();
    const bool is_program = behind == Behind::nothing || (behind == Behind::nothing_of_py && word.ends_with(".py"));
    if (is_argument(word) && is_program) return unread(words);
    const bool is_foreign = behind == Behind::foreign_flags && word != "--" && !is_own_flag(command, word);
    if (is_argument(word) || is_foreign) {  // Boost would take an argument for the value of a --warm before it
        words.erase(words.begin());
        return {argument(word)};
    }
    return odd_flag(words);
}

TypedWord typed_word(const po::option& option, const Command* command) {
    const std::string typed = option.original_tokens.empty() ? "" : option.original_tokens.front();
    const std::string value = option.value.empty() ? "" : option.value.front();
    if (option.position_key != -1)
        return {.kind = option.unregistered ? Kind::unread : Kind::argument, .text = value, .typed = typed};
    const std::string& name = option.string_key;
    if (option.unregistered)
        return {.kind = Kind::unknown_flag, .text = name.starts_with("-") ? name : "--" + name, .typed = typed};
    const bool in_one_word = option.original_tokens.size() == 1 && !typed.starts_with("--");
    return {.kind = Kind::flag,
            .flag = find_flag(command, name),
            .text = in_one_word && value.starts_with("=") ? value.substr(1) : value,  // "-o=json"
            .typed = typed};
}

}  // namespace

TypedWords split_words(const std::vector<std::string>& words, const Command* command, Behind behind) {
    const po::options_description known = described(command);
    // Boost also calls this function with a copy of one value, to find out whether the value is a flag.
    const std::vector<std::string>* line = nullptr;
    const auto first = [&](std::vector<std::string>& from) {
        if (line == nullptr) line = &from;
        return line == &from ? read_first(from, command, behind) : Options{};
    };
    TypedWords answer;
    try {
        const po::parsed_options parsed =
            po::command_line_parser(words)
                .options(known)
                .style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing)
                .extra_style_parser(first)
                .allow_unregistered()
                .run();
        for (const po::option& option : parsed.options) answer.words.push_back(typed_word(option, command));
    } catch (const po::invalid_command_line_syntax& wrong) {
        const Flag* flag = find_flag(command, std::string_view(wrong.get_option_name()).substr(2));
        (wrong.kind() == po::invalid_syntax::extra_parameter ? answer.takes_no_value : answer.lacks_value) = flag;
    }
    return answer;
}

}  // namespace rtrain::cmd
