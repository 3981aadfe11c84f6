// Files that a backup writes under another name first. Each is locked while its process lives, so that the next backup
// recognises and removes the files of a process that was killed.
#pragma once

#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace rtrain::head {

Error backup_file_error(const std::string& doing, const std::string& path);  // includes the text of errno

// A file with a new name. The destructor removes it, unless the file was moved to its final place.
class Scratch {
  public:
    // `begin` is the path up to the random part, such as "/b/head.rtbackup.partial-".
    static Result<Scratch> make(const std::string& begin);
    Scratch(Scratch&& other) noexcept;
    ~Scratch();
    const std::string& path() const { return path_; }
    Result<storage::Descriptor> writer() const;  // returns the file, open for writing; this object keeps the lock
    Status move_to(const std::string& target);   // durable at return

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

// Removes the files and directories of killed backups in `directory`, if this process may. Removes a plain file only if
// its name has the form of Scratch and it is empty or begins as a backup does.
void remove_dead_scratch(const std::string& directory);

}  // namespace rtrain::head
