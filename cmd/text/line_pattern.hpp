// The pattern of `logs --grep`: a regular expression of the C library, which searches a line of any length with any
// pattern. (std::regex recurses with each character, and ends the process on a long line.)
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"

namespace rtrain::cmd {

class LinePattern {
  public:
    // Compiles an extended regular expression. It may contain the shorthands \d \D \t and (?: ) of Perl and Python.
    static Result<LinePattern> compile(const std::string& text);
    bool found_in(const std::string& line) const;

  private:
    struct Compiled;
    explicit LinePattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace rtrain::cmd
