// Files and directories that a backup first writes under a temporary name. Each is locked while its process lives. So
// the next backup recognises those of a killed process, and removes them.
#pragma once

#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace rtrain::head {

// makes an error about a file, with the text of errno; `doing`: "writing"
Error backup_file_error(const std::string& doing, const std::string& path);

// A file with a temporary name. The destructor removes it, unless it was moved to its final place.
class Scratch {
  public:
    // `begin` is the path up to the random part, such as "/b/head.rtbackup.partial-".
    static Result<Scratch> make(const std::string& begin);
    Scratch(Scratch&& other) noexcept;
    ~Scratch();
    const std::string& path() const { return path_; }
    Result<storage::Descriptor> writer() const;  // returns the file, open for writing; this object keeps the lock
    Status move_to(const std::string& target);   // renames the file to `target`, durably

  private:
    Scratch(std::string path, storage::Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
    std::string path_;
    storage::Descriptor file_;
};

// A directory with a new name in `directory`, for the copy of the database. The destructor removes it.
class ScratchDirectory {
  public:
    static Result<ScratchDirectory> make(const std::string& directory);
    ScratchDirectory(ScratchDirectory&& other) noexcept;
    ~ScratchDirectory();
    const std::string& path() const { return path_; }

  private:
    ScratchDirectory(std::string path, storage::Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
    std::string path_;
    storage::Descriptor lock_;
};

// Removes what killed backups have left in `directory`, if this process may. Removes a plain file only if its name has
// the form of Scratch, and it is empty or begins as a backup does.
void remove_dead_scratch(const std::string& directory);

}  // namespace rtrain::head
