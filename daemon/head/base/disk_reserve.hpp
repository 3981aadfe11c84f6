// The space on the data directory's disk that users' data cannot use. Users' data are refused while less than
// `for_users` is free. Small changes (stop, remove, tokens, nodes, the head's start) may use that space. When it is
// used up, a file that holds further space is shortened piece by piece: each piece allows a change. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace rtrain::head {

struct DiskSize {
    std::uint64_t whole = 0, free = 0;
};
// free and total bytes of the disk; nullopt: the file system does not report them
std::optional<DiskSize> disk_size(const std::string& directory);

class DiskReserve {
  public:
    struct Sizes {
        std::uint64_t for_users = 0, file = 0;
    };
    static Sizes sizes_on(std::uint64_t whole_disk);

    // `measure` returns the sizes of the file system; tests replace it.
    using Measure = std::function<std::optional<DiskSize>(const std::string& directory)>;
    explicit DiskReserve(std::string directory, Measure measure = disk_size);

    // Shortens the reserve file by one piece. Returns false if nothing of it is left.
    bool give_up();
    // Shortens the reserve file if the disk is full, so that the head can start. Called before the head opens any file.
    void make_room_for_start();
    // Makes the reserve file whole again if there is space, and measures how much is left. `unused`: bytes inside the
    // state database's file that hold no rows.
    struct Room {
        // the reasons why no further files, and no further rows, of users are accepted; nullopt: they are accepted
        std::optional<Error> files, rows;
    };
    Room look(std::uint64_t unused);
    std::uint64_t file_bytes() const;

  private:
    std::string path() const { return directory_ + "/reserve"; }
    void restore(std::uint64_t free);

    mutable std::mutex guard_;
    const std::string directory_;
    const Measure measure_;
    bool files_scarce_ = false, rows_scarce_ = false;
};

}  // namespace rtrain::head
