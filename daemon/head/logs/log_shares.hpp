// Bounds each user's share of the disk for logs. A user beyond the share loses the middle of the largest logs of the
// largest runs. The first lines and the newest ones stay, and a note names the number of missing bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/model/ids.hpp"

namespace rtrain::head {

// the most bytes of logs of each user: an eighth of the file system
std::uint64_t logs_of_user(const std::string& directory);

// Returns the bytes that a run's logs and their indexes take on disk. Removed parts do not count.
std::uint64_t logs_bytes(const std::string& directory, RunId run);

// Used only by the thread that writes logs.
class LogShares {
  public:
    using ShareOfUser = std::function<std::uint64_t(const std::string& directory)>;
    LogShares(std::string directory, ShareOfUser share) : directory_(std::move(directory)), share_(std::move(share)) {}
    // Records that `bytes` were added to a log of the user's run. If the user's logs exceed the share then, cuts them.
    void came(const std::string& user, RunId run, std::uint64_t bytes);
    void gone(RunId run);  // records that the run's logs were removed
    // Returns the run's bytes of each run whose logs changed since the last call.
    std::map<RunId, std::uint64_t> changed_sizes() { return std::exchange(changed_, {}); }

  private:
    struct Owner {
        std::map<RunId, std::uint64_t> runs{};  // key: the run; value: bytes of its logs
        std::uint64_t bytes = 0;                // sum over the runs
    };
    void find_owners();
    void hold(const std::string& user);
    std::uint64_t hold_run(RunId run, std::uint64_t most);

    std::string directory_;
    ShareOfUser share_;
    std::map<RunId, std::uint64_t> changed_;
    std::optional<std::map<std::string, Owner>> owners_;  // nullopt until the logs were counted for the first time
};

}  // namespace rtrain::head
