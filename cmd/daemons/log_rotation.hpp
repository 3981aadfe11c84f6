// The log of a detached daemon: standard output and error of the daemon and its supervisor, in one file of bounded
// size. A full log becomes <log>.1, the older ones move on by one, and the oldest is removed.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::cmd {

struct LogBounds {
    std::int64_t bytes = 16 << 20;  // most bytes of a log before it is renamed: some weeks of a busy head
    int old_files = 3;
};

// Renames a log that is larger than its bounds. Processes that write it follow by `follow_log`.
void rotate_full_log(const std::string& path, const LogBounds& bounds = {});
// Reopens standard output and error on the log file `path`, if that name now belongs to another file, or to none. So a
// program such as logrotate may rename the log too.
void follow_log(const std::string& path);
// Starts a thread that calls rotate_full_log and follow_log each second, for as long as the process lives.
void keep_log_bounded(const std::string& path);

}  // namespace rtrain::cmd
