// The states of a line that a program overwrites with '\\r', as progress bars do. A follower of logs gets the newest
// state of such a line while the line is unfinished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/head/logs/log_store.hpp"

namespace rtrain::head {

inline constexpr std::int64_t states_apart_least_ms = 100;

// Returns the newest state of the line: the last part between two '\r' that is not blank, cut to 1,000 bytes. Returns
// an empty text if the line has no '\r', or only blank parts.
std::string newest_state(std::string_view line);

// Chooses the states that one follower gets: for each file at most one in `apart_ms`, and always the last one.
class LineStates {
  public:
    explicit LineStates(std::int64_t apart_ms) : apart_ms_(apart_ms) {}

    // Returns the state to send now; nullopt if there is none. `unfinished`: the file's last line, which has no end
    // yet.
    std::optional<std::string> next(const LogName& file, std::string_view unfinished, std::int64_t now_ms);
    // Returns true if the file's unfinished line has had a state.
    bool is_written_over(const LogName& file) const { return files_.contains(file); }
    // Handles the end of the file's unfinished line. `end`: the line's last piece. Returns the line's last state; empty
    // if it had none.
    std::string line_ended(const LogName& file, std::string_view end);
    // Returns after how many milliseconds a state that `next` has held back may be sent; nullopt if there is none.
    std::optional<std::int64_t> due_ms(std::int64_t now_ms);

  private:
    struct File {
        std::string sent{};
        std::int64_t sent_ms = 0;
    };
    const std::int64_t apart_ms_;
    std::map<LogName, File> files_;  // key: a log; contains only logs whose last line is unfinished and has had a state
    std::optional<std::int64_t> due_at_ms_;
};

}  // namespace rtrain::head
