// A file that redirects a browser to the one-time link. Every user of a machine can read the arguments of its programs,
// so the browser gets the file's address, and only the file contains the link.
#pragma once

#include <string>

#include "base/result.hpp"

namespace rtrain::cmd {

class LinkFile {
  public:
    // Makes the file (mode 0600) in a new folder (0700) beneath $XDG_RUNTIME_DIR, $TMPDIR or /tmp.
    static Result<LinkFile> make(const std::string& link);
    ~LinkFile() { remove(); }
    LinkFile(LinkFile&& other) noexcept;
    LinkFile& operator=(LinkFile&&) = delete;

    std::string address() const;  // address of the file: "file:///run/user/1000/rtrain-x7Gh2k/page.html"
    void remove();                // removes the file and its folder

  private:
    explicit LinkFile(std::string folder) : folder_(std::move(folder)) {}
    std::string path() const { return folder_ + "/page.html"; }
    std::string folder_;  // empty: the folder was removed
};

}  // namespace rtrain::cmd
