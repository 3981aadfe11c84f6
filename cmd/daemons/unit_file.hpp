// A systemd unit as a file. It is first written beside its place, so that a failure is known before anything else is
// changed.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "cmd/daemons/machine_root.hpp"
#include "storage/uri/files/disk.hpp"

namespace rtrain::cmd {

enum class Change { none, created, replaced };

class UnitFile {
  public:
    // Makes the directory, and writes `text` to the disk beside <directory>/<name>. Writes nothing if the file has this
    // text already. Errors: conflict (a masked unit, or a file that rtrain did not write), invalid (the text), and
    // those of a disk.
    static Result<UnitFile> prepare(const MachineRoot& root, const std::string& directory, const std::string& name,
                                    const std::string& text);
    // Moves the text to its place, durably. Without this call nothing has changed.
    Result<Change> put();
    const std::string& path() const { return path_; }  // as seen from this machine

  private:
    std::string path_;
    Change change_ = Change::none;
    std::optional<storage::disk::Aside> aside_;
};

}  // namespace rtrain::cmd
