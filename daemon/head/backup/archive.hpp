// Files as frames of a backup: written one after the other, and read in the same order.
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

// The facts about a backup that stand at its beginning.
struct BackupFacts {
    std::string version, cluster_id, cluster_name, ca_fingerprint;
    std::string address;  // HOST:PORT where the head served; empty: it did not run
    std::int64_t made_wall_ms = 0;
    std::vector<std::string> left_out;  // for people
};
struct BackupTotals {
    std::uint64_t files = 0, bytes = 0;
};

class ArchiveWriter {
  public:
    // `pieces`: where the bytes go; none: into the file itself.
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

// A reader calls these functions with the parts of a backup. Each may be empty.
struct ArchiveTakers {
    std::function<Status(const BackupFacts&)> facts{};
    std::function<Status(const std::string& path)> file{};
    std::function<Status(std::string_view bytes)> bytes{};  // of the file before
    std::function<void(const std::string& id)> piece{};     // with it, the bytes of pieces are not read
};
// Reads a whole backup. Errors: those of SealedReader, and damaged for frames in a wrong order, a path that leads out
// of the target, or a file that comes twice.
Result<BackupTotals> read_archive(const std::string& path, const std::string& secret, std::optional<MasterKey>& master,
                                  const ArchiveTakers& takers);

// Returns true for a relative path without empty, "." or ".." parts and without control characters.
bool is_clean_path(std::string_view path);

}  // namespace rtrain::head
