// The newest states of lines that workers overwrite with '\r' (progress bars), as `logs -f` shows them. On a terminal
// each state replaces the last line. Elsewhere each state is a line of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cmd/text/output.hpp"

namespace rtrain::cmd {

class LiveStates {
  public:
    explicit LiveStates(Output& out);

    std::int64_t apart_ms() const;  // minimum time between two states of one file
    // Shows a file's state, one line of printable text.
    void show(const std::string& file, const std::string& text);
    // Removes the file's state after its line has ended as `text`. Returns true if the text was shown as a state.
    bool line_ended(const std::string& file, const std::string& text);
    void hide();    // to be called before other output
    void redraw();  // to be called after other output

  private:
    Output& out_;
    const bool terminal_;
    std::map<std::string, std::string> states_;  // key: the file; value: its newest state
    bool is_shown_ = false;
};

}  // namespace rtrain::cmd
