// Sets of numbers as people write them: ranks, attempts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrain::head {

// A set of numbers as sorted, disjoint ranges. "0,3-5" has two ranges, however many numbers they contain.
class NumberRanges {
  public:
    void add(std::uint32_t first, std::uint32_t last);  // requires first <= last
    bool contains(std::uint32_t number) const;
    bool empty() const { return last_of_.empty(); }
    std::uint32_t highest() const { return last_of_.rbegin()->second; }  // requires that the set is not empty
    std::optional<std::uint32_t> only() const;                           // the set's number if it has exactly one
    std::size_t ranges() const { return last_of_.size(); }

  private:
    std::map<std::uint32_t, std::uint32_t> last_of_;  // key: the first number of a range; value: its last number
};

// Reads "0,3-5". Returns nullopt for another form, or for more than ranges_most of storage/job_spec/limits.hpp.
std::optional<NumberRanges> number_list(const std::string& text);

// Numbers and lists of words are read from the texts of a query.
bool to_number(std::string_view text, std::uint64_t& value);  // false if the text is not a number
std::vector<std::string> split(const std::string& text);      // splits at commas

}  // namespace rtrain::head
