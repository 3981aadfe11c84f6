// Removes a reported directory. Several ranks may have reported it, and one of them may have created a new one with its
// name.
#pragma once

#include <sys/stat.h>

#include <string>

namespace rtrain::worker {

// The directory that `path` names now. It is held open, so its inode number is not given to another directory
// meanwhile.
class ReportedDirectory {
  public:
    explicit ReportedDirectory(const std::string& path);
    ~ReportedDirectory();
    ReportedDirectory(const ReportedDirectory&) = delete;
    ReportedDirectory& operator=(const ReportedDirectory&) = delete;

    // Removes the directory if its name is still its own: it is renamed first, then removed. A directory that another
    // process has put in its place is left alone. A directory that cannot be renamed (a mount point, a link, a parent
    // without write permission) keeps its files, because another rank may write there by now. Returns an empty text, or
    // what remains and why.
    std::string remove();

  private:
    bool named(const std::string& name) const;
    std::string path_, parent_path_, name_;
    int parent_ = -1, own_ = -1, error_ = 0;
    struct stat facts_{};
};

}  // namespace rtrain::worker
