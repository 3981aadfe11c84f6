// Numbers as people list them: ranks, attempts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrain::head {

// Numbers by their ranges, sorted and apart: "0,3-5" has two, however many numbers lie in them.
class NumberRanges {
  public:
    void add(std::uint32_t first, std::uint32_t last);  // first <= last
    bool contains(std::uint32_t number) const;
    bool empty() const { return last_of_.empty(); }
    std::uint32_t highest() const { return last_of_.rbegin()->second; }  // of some
    std::optional<std::uint32_t> only() const;                           // where it is one number
    std::size_t ranges() const { return last_of_.size(); }

  private:
    std::map<std::uint32_t, std::uint32_t> last_of_;  // by the first number of each range
};

// Reads "0,3-5"; none where it is no such list, or has more than ranges_most of storage/job_spec/limits.hpp.
std::optional<NumberRanges> number_list(const std::string& text);

// Numbers and lists of words are read from the texts of a query.
bool to_number(std::string_view text, std::uint64_t& value);  // false: it is none
std::vector<std::string> split(const std::string& text);      // at its commas

}  // namespace rtrain::head
