// The room on the disk of the data directory that no user's data takes. Users' data are refused while less than
// `for_users` is free. Small changes (stop, remove, tokens, nodes, the head's start) may take that room, and when it is
// gone as well, a file that holds some more is given up, piece by piece: each piece lets a change through.
// Safe from any thread.
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
std::optional<DiskSize> disk_size(const std::string& directory);  // nullopt: the file system reports no size

class DiskReserve {
  public:
    struct Sizes {
        std::uint64_t for_users = 0, file = 0;
    };
    static Sizes sizes_on(std::uint64_t whole_disk);

    // `measure` is for tests: the room on the file system.
    using Measure = std::function<std::optional<DiskSize>(const std::string& directory)>;
    explicit DiskReserve(std::string directory, Measure measure = disk_size);

    // Gives a piece of the file up. False: there is none left.
    bool give_up();
    // Before a head has opened anything: a disk that is full gets room for the start.
    void make_room_for_start();
    // Makes the file whole again where there is room, and looks how much is left. `unused`: bytes of the state
    // database's file that have no rows.
    struct Room {
        std::optional<Error> files, rows;  // why no user's files, or rows, are added; none: there is room
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
