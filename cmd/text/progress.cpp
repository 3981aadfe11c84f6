// Shows progress by redrawing one line on a terminal, or else by few lines.
#include "cmd/text/progress.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

std::int64_t steady_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)), started_ms_(steady_ms()) {
    const char* term = std::getenv("TERM");
    terminal_ = isatty(STDERR_FILENO) != 0 && term != nullptr && std::string(term) != "dumb";
}

Progress::~Progress() {
    if (line_shown_) std::fputs("\n", stderr);
}

void Progress::at(std::uint64_t done, std::uint64_t total) {
    // bytes; with fewer, a progress line would disappear before anybody could read it
    constexpr std::uint64_t quiet_below = 1u << 20;
    constexpr std::int64_t redraw_ms = 200;
    if (total < quiet_below) return;
    const std::int64_t now = steady_ms();
    const int tenth = static_cast<int>(done * 10 / total);
    const bool last = done >= total;
    if (terminal_ ? (now - shown_ms_ < redraw_ms && !last) : tenth == tenth_) return;
    shown_ms_ = now;
    tenth_ = tenth;
    std::string left;
    if (done > 0 && !last)
        left = ", " +
               duration_text((now - started_ms_) * static_cast<std::int64_t>((total - done) * 1000 / done) / 1000) +
               " left";
    const std::string text = what_ + " " + bytes_text(static_cast<std::int64_t>(done)) + " of " +
                             bytes_text(static_cast<std::int64_t>(total)) + left;
    std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", text.c_str());
    std::fflush(stderr);
    line_shown_ = terminal_;
}

}  // namespace rtrain::cmd
