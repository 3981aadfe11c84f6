// Removes a reported directory. Several ranks may have reported it, and one of them may have made it anew since.
#pragma once

#include <sys/stat.h>

#include <string>

namespace rtrain::worker {

// The directory that `path` names now. It is held open: its inode's number is not given to another one meanwhile.
class ReportedDirectory {
  public:
    explicit ReportedDirectory(const std::string& path);
    ~ReportedDirectory();
    ReportedDirectory(const ReportedDirectory&) = delete;
    ReportedDirectory& operator=(const ReportedDirectory&) = delete;

    // Removes it if its name is still its own: it is renamed first, then removed. What another process has put there
    // since is left alone. A directory that cannot be renamed (a mount point, a link, a parent that may not be written)
    // keeps its files, since another rank may write there by now. Empty: done. Else what stays where, and why.
    std::string remove();

  private:
    bool named(const std::string& name) const;
    std::string path_, parent_path_, name_;
    int parent_ = -1, own_ = -1, error_ = 0;
    struct stat facts_{};
};

}  // namespace rtrain::worker
