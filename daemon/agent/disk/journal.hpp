// The metrics of an attempt on their way into the run's directory. A row is in a file of this node before its ranks are
// told that the agent has heard it, so an agent that is killed loses none; files are appended to the run's journal one
// after the other, and removed. Storage that is away keeps them here. A row whose file was appended and not removed
// stands in the journal twice: readers take each index once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/result.hpp"

namespace rtrain::agent {

class Journal {
  public:
    explicit Journal(std::string folder);  // made with the first row; it may hold files of an agent before
    ~Journal();
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    // A node without room: the row and those behind it are in memory until the next delivery, which is said once.
    Status add(const std::string& line);
    // Blocking, from any thread. All rows added before, oldest first; the first error ends it, and the rest stays.
    using Append = std::function<Status(const std::string& lines)>;
    Status deliver(const Append& append);
    bool empty() const;

  private:
    std::string file(std::uint64_t number) const;
    Status write(const std::string& line);
    void close();

    const std::string folder_;
    std::mutex delivering_;                       // before `state_`
    mutable std::mutex state_;                    // of what follows
    std::uint64_t number_ = 0;                    // of the file that rows are added to
    int descriptor_ = -1;                         // its; -1: the next row opens it
    std::map<std::uint64_t, std::string> files_;  // not delivered; beside the path what could not be written
};

}  // namespace rtrain::agent
