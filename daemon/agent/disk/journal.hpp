// The metrics of an attempt on their way to the run's directory. A row is written to a file of this node before the
// agent acknowledges it, so a killed agent loses none. The files are appended to the run's journal one after the other,
// and removed. They stay here while the storage does not answer. If a file was appended but not removed, its rows are
// in the journal twice; readers use each index once.
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
    explicit Journal(std::string folder);  // made with the first row; may hold files of an earlier agent
    ~Journal();
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    // Adds a row. If the node's disk is full, this row and later ones are kept in memory until the next delivery.
    // Returns the error once.
    Status add(const std::string& line);
    // Appends all rows added before, oldest first. Stops at the first error, and keeps the rest. Blocks; may be called
    // from any thread.
    using Append = std::function<Status(const std::string& lines)>;
    Status deliver(const Append& append);
    bool empty() const;

  private:
    std::string file(std::uint64_t number) const;
    Status write(const std::string& line);
    void close();

    const std::string folder_;
    std::mutex delivering_;     // before `state_`
    mutable std::mutex state_;  // guards the members below
    std::uint64_t number_ = 0;  // number of the present file
    int descriptor_ = -1;       // descriptor of the present file; -1: the next row opens it
    // Undelivered files: path, and the rows that could not be written to it.
    std::map<std::uint64_t, std::string> files_;
};

}  // namespace rtrain::agent
