// What `logs --grep` looks for: a regular expression of the C library, which searches a line of any length, whatever
// the pattern (std::regex recurses with each character, and ends the process on a long one).
#pragma once

#include <memory>
#include <string>

#include "scheduler/model/result.hpp"

namespace rtrain::cmd {

class LinePattern {
  public:
    // Extended regular expressions, and of Perl's and Python's the shorthands \d \D \t and (?: ).
    static Result<LinePattern> compile(const std::string& text);
    bool found_in(const std::string& line) const;

  private:
    struct Compiled;
    explicit LinePattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace rtrain::cmd
