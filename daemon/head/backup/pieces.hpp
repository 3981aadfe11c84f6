// The pieces of an incremental backup: a folder in which equal bytes are stored once. README.md has the format.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "daemon/head/backup/sealed_file.hpp"

namespace rtrain::head {

class Pieces {
  public:
    // `folder`: the directory of the backups; pieces are stored in a folder of it.
    Pieces(std::string folder, const MasterKey& master);
    // Stores the bytes durably, unless an intact piece with them exists. Returns their id, 32 raw bytes.
    Result<std::string> put(std::string_view bytes);
    // Returns the bytes of an id. Error damaged: the piece is missing or was changed.
    Result<std::string> get(std::string_view id) const;
    void remove_unfinished() const;  // removes the unfinished files of a killed backup; no other backup may be running
    // Removes the pieces whose ids are not in `used`. Returns their number.
    Result<std::size_t> remove_unused(const std::set<std::string>& used) const;

  private:
    std::string path_of(std::string_view id) const;
    std::string folder_, key_, id_key_;
};

}  // namespace rtrain::head
