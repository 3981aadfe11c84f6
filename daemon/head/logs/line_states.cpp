// See line_states.hpp.
#include "daemon/head/logs/line_states.hpp"

#include <algorithm>
#include <utility>

namespace rtrain::head {
namespace {

constexpr std::size_t state_most = 1'000;

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t") == std::string_view::npos; }

// Removes escape sequences that move the cursor, change colours or erase: ESC [ parameters letter.
std::string without_sequences(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (!text.substr(at).starts_with("\x1b[")) {
            out += text[at];
            continue;
        }
        at = std::min(text.find_first_not_of("0123456789;?", at + 2), text.size());
    }
    return out;
}

}  // namespace

std::string newest_state(std::string_view line) {
    if (line.find('\r') == std::string_view::npos) return {};
    for (;;) {
        const std::size_t begin = line.rfind('\r');
        // if there is no '\r', `begin` is npos, and npos + 1 is 0
        const std::string part = without_sequences(line.substr(begin + 1));
        if (!is_blank(part)) return part.substr(0, state_most);
        if (begin == std::string_view::npos) return {};
        line = line.substr(0, begin);
    }
}

std::optional<std::string> LineStates::next(const LogName& file, std::string_view unfinished, std::int64_t now_ms) {
    std::string state = newest_state(unfinished);
    if (state.empty()) return std::nullopt;
    const auto [known, fresh] = files_.try_emplace(file);
    if (!fresh && known->second.sent == state) return std::nullopt;
    const std::int64_t at = known->second.sent_ms + apart_ms_;
    if (!fresh && now_ms < at) {
        due_at_ms_ = std::min(due_at_ms_.value_or(at), at);
        return std::nullopt;
    }
    known->second = {.sent = state, .sent_ms = now_ms};
    return state;
}

std::string LineStates::line_ended(const LogName& file, std::string_view end) {
    std::string state = newest_state(end);
    const auto known = files_.find(file);
    if (known == files_.end()) return state;
    // `end` has no state of its own, so the last state that was sent belongs to the line
    if (state.empty()) state = std::move(known->second.sent);
    files_.erase(known);
    return state;
}

std::optional<std::int64_t> LineStates::due_ms(std::int64_t now_ms) {
    const auto at = std::exchange(due_at_ms_, std::nullopt);
    if (!at) return std::nullopt;
    return std::max<std::int64_t>(*at - now_ms, 1);
}

}  // namespace rtrain::head
