// A unit of systemd as a file: written beside its place first, so that what cannot be written is known before anything
// else is done for it.
#pragma once

#include <optional>
#include <string>

#include "cmd/daemons/machine_root.hpp"
#include "scheduler/model/result.hpp"
#include "storage/uri/files/disk.hpp"

namespace rtrain::cmd {

enum class Change { none, created, replaced };

class UnitFile {
  public:
    // Makes the directory, and has `text` on the disk beside <directory>/<name>; where that has this very text, nothing
    // is written. Errors: conflict (a masked unit, or a file that rtrain did not write), invalid (the text), and those
    // of a disk.
    static Result<UnitFile> prepare(const MachineRoot& root, const std::string& directory, const std::string& name,
                                    const std::string& text);
    // Puts the text in its place, durable. Without it nothing has changed.
    Result<Change> put();
    const std::string& path() const { return path_; }  // as it is called from this machine

  private:
    std::string path_;
    Change change_ = Change::none;
    std::optional<storage::disk::Aside> aside_;
};

}  // namespace rtrain::cmd
