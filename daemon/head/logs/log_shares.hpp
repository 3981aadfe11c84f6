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

// Bytes of logs that each user may have: an eighth of the file system.
std::uint64_t logs_of_user(const std::string& directory);

// Returns the bytes on disk of a run's logs and of their indexes. Removed parts do not count.
std::uint64_t logs_bytes(const std::string& directory, RunId run);

// Used by the thread that writes logs.
class LogShares {
  public:
    using ShareOfUser = std::function<std::uint64_t(const std::string& directory)>;
    LogShares(std::string directory, ShareOfUser share) : directory_(std::move(directory)), share_(std::move(share)) {}
    // Records that `bytes` were added to a log of the user's run. Afterwards the user's logs are within the share.
    void came(const std::string& user, RunId run, std::uint64_t bytes);
    void gone(RunId run);  // its logs were removed
    // Returns the bytes of each run whose logs changed since the last call.
    std::map<RunId, std::uint64_t> changed_sizes() { return std::exchange(changed_, {}); }

  private:
    struct Owner {
        std::map<RunId, std::uint64_t> runs{};  // bytes by run
        std::uint64_t bytes = 0;                // sum over the runs
    };
    void find_owners();
    void hold(const std::string& user);
    std::uint64_t hold_run(RunId run, std::uint64_t most);

    std::string directory_;
    ShareOfUser share_;
    std::map<RunId, std::uint64_t> changed_;
    std::optional<std::map<std::string, Owner>> owners_;  // nullopt before they were read
};

}  // namespace rtrain::head
