// Chooses the directory of a checkpoint. No attempt uses a name twice, whatever its program requests. So a committed
// checkpoint is never replaced, and a new one is never confused with one that is being removed.
#include <charconv>

#include "daemon/agent/machine/report_group.hpp"

namespace rtrain::agent {
namespace {

constexpr std::string_view by_default = "checkpoint_";

// Returns the name of a checkpoint without its attempt.
std::string name_of(const Coordinator& c, const std::string& wish, std::uint64_t counter) {
    const std::string directory = storage::checkpoint_directory_name(wish, counter, c.attempt.number);
    return directory.substr(0, directory.rfind("-a"));
}

std::uint64_t number_in(std::string_view digits) {
    std::uint64_t number = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return failed == std::errc{} && end == digits.data() + digits.size() ? number : 0;
}

bool given(const Coordinator& c, const std::string& name) {
    if (c.names.contains(name)) return true;
    if (const auto dash = name.rfind('-'); dash != std::string::npos) {
        const auto numbered = c.names.find(name.substr(0, dash));
        const std::uint64_t number = number_in(std::string_view(name).substr(dash + 1));
        if (numbered != c.names.end() && number >= 2 && number <= numbered->second) return true;
    }
    if (!name.starts_with(by_default)) return false;
    const std::uint64_t counter = number_in(std::string_view(name).substr(by_default.size()));
    return counter > c.counter_before && counter < c.counter && name == name_of(c, "", counter);
}

}  // namespace

NewDirectory name_directory(Coordinator& c, const WishedName& wish) {
    ++c.counter;
    const std::string name = name_of(c, wish.text, c.counter);
    if (wish.exact && wish.text.find('/') != std::string::npos) return {.name = wish.text};
    if (wish.exact && !wish.text.empty()) {
        // The directory in which a rank has put its files.
        const bool numbered = storage::attempt_of(wish.text) == c.attempt.number;
        c.names.try_emplace(numbered ? wish.text.substr(0, wish.text.rfind("-a")) : name, 1);
        return {.name = wish.text};
    }
    const auto directory = [&](const std::string& plain) {
        return storage::checkpoint_directory_name(plain, c.counter, c.attempt.number);
    };
    if (!given(c, name)) {
        if (!wish.text.empty()) c.names.emplace(name, 1);
        return {.name = directory(name)};
    }
    std::uint64_t& last = c.names.try_emplace(name, 1).first->second;
    std::uint64_t number = last + 1;
    while (given(c, name + "-" + std::to_string(number))) ++number;
    const bool first = last == 1;
    last = number;
    return {.name = directory(name + "-" + std::to_string(number)), .first_repeated = first ? name : ""};
}

}  // namespace rtrain::agent
