// The file tree of a machine: of this one, or of an image below a directory. Paths in it are absolute.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace rtrain::cmd {

// A link in an image leads where it would lead on that machine: no path leaves the image.
class MachineRoot {
  public:
    static Result<MachineRoot> open(const std::string& directory);  // "/": this machine

    Result<storage::Descriptor> open_path(const std::string& path, int flags) const;
    Result<struct stat> look_at(const std::string& path) const;  // links are followed
    // Returns the path in this tree without links.
    Result<std::string> resolved(const std::string& path) const;
    // Opens a directory, and makes its missing parts with mode 0755.
    Result<storage::Descriptor> make_directory(const std::string& path) const;
    // Returns the path as seen from this machine, for messages: "/image/etc/systemd".
    std::string shown(const std::string& path) const { return name_ + path; }
    const storage::Descriptor& top() const { return top_; }

  private:
    MachineRoot(storage::Descriptor top, std::string name) : top_(std::move(top)), name_(std::move(name)) {}
    storage::Descriptor top_;
    std::string name_;  // without a slash at its end: empty for "/"
};

}  // namespace rtrain::cmd
