// The file tree of a machine: of this one, or of a system image in a directory. Paths in the tree are absolute.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace rtrain::cmd {

// A link within an image is followed as on the image's own machine, so no path leads out of the image.
class MachineRoot {
  public:
    static Result<MachineRoot> open(const std::string& directory);  // "/": this machine

    Result<storage::Descriptor> open_path(const std::string& path, int flags) const;
    Result<struct stat> look_at(const std::string& path) const;  // returns the file's status; links are followed
    // Returns the path within this tree with all links resolved.
    Result<std::string> resolved(const std::string& path) const;
    // Opens a directory, and makes its missing parts with mode 0755.
    Result<storage::Descriptor> make_directory(const std::string& path) const;
    // Returns the path as this machine sees it, for messages: "/image/etc/systemd".
    std::string shown(const std::string& path) const { return name_ + path; }
    const storage::Descriptor& top() const { return top_; }

  private:
    MachineRoot(storage::Descriptor top, std::string name) : top_(std::move(top)), name_(std::move(name)) {}
    storage::Descriptor top_;
    std::string name_;  // path of the image on this machine, without a slash at its end; empty: this machine's own tree
};

}  // namespace rtrain::cmd
