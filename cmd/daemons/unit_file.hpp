// A systemd unit as a file. Its text is first written beside its final place, so that a failure is known before
// anything else is changed.
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
    // Makes the directory, and writes `text` to a file beside <directory>/<name>. Writes nothing if <directory>/<name>
    // has this text already. Errors: conflict (a masked unit, or a file that rtrain did not write), invalid (the text),
    // and errors of the disk.
    static Result<UnitFile> prepare(const MachineRoot& root, const std::string& directory, const std::string& name,
                                    const std::string& text);
    // Renames the written file to its final place, durably. Before this call nothing has changed.
    Result<Change> put();
    const std::string& path() const { return path_; }  // path as this machine sees it

  private:
    std::string path_;
    Change change_ = Change::none;
    std::optional<storage::disk::Aside> aside_;
};

}  // namespace rtrain::cmd
