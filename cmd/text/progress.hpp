// Shows the progress of long work on stderr, because stdout is for data. On a terminal it shows bytes and remaining
// time, otherwise one line per tenth of the work.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::cmd {

class Progress {
  public:
    explicit Progress(std::string what);
    ~Progress();
    void at(std::uint64_t done, std::uint64_t total);

  private:
    std::string what_;
    std::int64_t started_ms_;
    std::int64_t shown_ms_ = 0;
    int tenth_ = -1;
    bool terminal_;
    bool line_shown_ = false;
};

}  // namespace rtrain::cmd
