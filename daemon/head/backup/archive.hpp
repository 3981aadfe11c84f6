// Writes files as frames of a backup, one after the other, and reads them in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/head/backup/pieces.hpp"
#include "daemon/head/backup/sealed_file.hpp"

namespace rtrain::head {

// The facts at the beginning of a backup.
struct BackupFacts {
    std::string version, cluster_id, cluster_name, ca_fingerprint;
    std::string address;  // HOST:PORT of the head; empty if it did not run
    std::int64_t made_wall_ms = 0;
    std::vector<std::string> left_out;  // one message for each file that the backup leaves out
};
struct BackupTotals {
    std::uint64_t files = 0, bytes = 0;
};

class ArchiveWriter {
  public:
    // `pieces`: where the bytes of files are stored; null: in the backup's own file.
    ArchiveWriter(SealedWriter file, std::unique_ptr<Pieces> pieces)
        : file_(std::move(file)), pieces_(std::move(pieces)) {}
    Status begin(const BackupFacts& facts);
    // Adds the whole content of an opened file under a relative path.
    Status add(const std::string& path, const storage::Descriptor& content);
    Status end();
    const BackupTotals& totals() const { return totals_; }

  private:
    SealedWriter file_;
    std::unique_ptr<Pieces> pieces_;
    BackupTotals totals_;
};

// Functions that a reader of a backup calls with its parts. Each may be empty.
struct ArchiveTakers {
    std::function<Status(const BackupFacts&)> facts{};
    std::function<Status(const std::string& path)> file{};
    std::function<Status(std::string_view bytes)> bytes{};  // called with the next bytes of the current file
    // called with the id of each piece; if it is set, the bytes of pieces are not read
    std::function<void(const std::string& id)> piece{};
};
// Reads a whole backup. Errors: those of SealedReader. `damaged`: frames are in a wrong order, a path leads out of the
// target, or a file occurs twice.
Result<BackupTotals> read_archive(const std::string& path, const std::string& secret, std::optional<MasterKey>& master,
                                  const ArchiveTakers& takers);

// Returns true for a relative path without empty, "." or ".." parts and without control characters.
bool is_clean_path(std::string_view path);

}  // namespace rtrain::head
