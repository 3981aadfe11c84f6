// Shows states of unfinished lines, such as progress bars.
#include "cmd/client/live_states.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "cmd/text/terminal.hpp"

namespace rtrain::cmd {
namespace {

constexpr std::int64_t on_a_terminal_ms = 100, elsewhere_ms = 1'000;
constexpr std::size_t columns_unknown = 80;

bool writes_to_a_terminal() {
    const char* kind = std::getenv("TERM");
    return ::isatty(STDOUT_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

std::size_t terminal_columns() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : columns_unknown;
}

// Cuts the text to fewer columns than `most`, the terminal's width, so that it fits into one line.
std::string fitted(std::string text, std::size_t most) {
    while (width(text) >= most && !text.empty()) {
        do { text.pop_back(); } while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80);
        if (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0xc0) text.pop_back();
    }
    return text;
}

}  // namespace

LiveStates::LiveStates(Output& out) : out_(out), terminal_(writes_to_a_terminal()) {}

std::int64_t LiveStates::apart_ms() const { return terminal_ ? on_a_terminal_ms : elsewhere_ms; }

void LiveStates::show(const std::string& file, const std::string& text) {
    states_[file] = text;
    if (terminal_) {
        hide();
        return redraw();
    }
    out_.raw(text + "\n");
    out_.flush();
}

bool LiveStates::line_ended(const std::string& file, const std::string& text) {
    const auto state = states_.find(file);
    if (state == states_.end()) return false;
    const bool shown = !terminal_ && state->second == text;
    states_.erase(state);
    return shown;
}

void LiveStates::hide() {
    if (!is_shown_) return;
    is_shown_ = false;
    out_.raw("\r\x1b[K");
    out_.flush();
}

// Draws the newest state of the first file only, since lines of several files in turn would be unreadable.
void LiveStates::redraw() {
    if (!terminal_ || states_.empty()) return;
    const std::size_t others = states_.size() - 1;
    const std::string more = others == 0 ? "" : " (and " + std::to_string(others) + " more)";
    const std::size_t most = terminal_columns();
    out_.raw(fitted(states_.begin()->second, most > more.size() ? most - more.size() : 0) + more);
    out_.flush();
    is_shown_ = true;
}

}  // namespace rtrain::cmd
