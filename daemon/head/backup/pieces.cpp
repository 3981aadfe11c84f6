// See pieces.hpp.
#include "daemon/head/backup/pieces.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/crypto/digest.hpp"
#include "base/crypto/seal.hpp"
#include "base/descriptor.hpp"
#include "base/hex.hpp"
#include "daemon/head/base/data_files.hpp"
#include "storage/state/codec/compression.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

constexpr int piece_level = 3;
constexpr std::size_t id_bytes = 32;
constexpr const char* unfinished_ending = ".new";

// Makes a directory unless it exists. The directory's name is on the disk at return.
Status make_folder_of_pieces(const std::string& path) {
    const bool is_new = ::mkdir(path.c_str(), 0700) == 0;
    if (!is_new && errno == EEXIST) return Done{};
    const storage::Descriptor above(::open(fs::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (is_new && above.open() && ::fsync(above.number()) == 0) return Done{};
    return Error{errno == ENOSPC || errno == EDQUOT ? ErrorCode::full : ErrorCode::io,
                 "making " + path + ": " + std::strerror(errno), "check the disk of the backups"};
}

}  // namespace

Pieces::Pieces(std::string folder, const MasterKey& master)
    : folder_(std::move(folder) + "/pieces"),
      key_(crypto::derived_key(master.key, "", "rtrain backup pieces")),
      id_key_(crypto::derived_key(master.key, "", "rtrain backup ids")) {}

std::string Pieces::path_of(std::string_view id) const {
    const std::string name = storage::hex(id);
    return folder_ + "/" + name.substr(0, 2) + "/" + name;
}

Result<std::string> Pieces::put(std::string_view bytes) {
    std::string id = crypto::hmac_sha256(id_key_, bytes);
    const std::string path = path_of(id);
    if (get(id)) return id;  // Returns the id if an intact piece exists. A damaged piece is written again.
    const std::string directory = fs::path(path).parent_path();
    for (const std::string& needed : {folder_, directory})
        if (Status created = make_folder_of_pieces(needed); !created) return created.error();
    const std::string nonce = crypto::random_bytes(crypto::nonce_bytes);
    const std::string text =
        nonce + crypto::sealed({.key = key_, .nonce = nonce, .beside = id}, state::compressed(bytes, piece_level));
    if (Status kept = write_private(path, text, path + unfinished_ending); !kept) return kept.error();
    return id;
}

Result<std::string> Pieces::get(std::string_view id) const {
    const std::string path = path_of(id);
    const Error wrong{ErrorCode::damaged, path + " is missing or was changed", "use another backup"};
    const Result<std::string> text = read_file(path);
    if (!text) return text.error().code == ErrorCode::not_found ? wrong : text.error();
    if (text->size() < crypto::nonce_bytes) return wrong;
    const std::string_view nonce = std::string_view(*text).substr(0, crypto::nonce_bytes);
    const auto frame = crypto::unsealed({.key = key_, .nonce = nonce, .beside = id},
                                        std::string_view(*text).substr(crypto::nonce_bytes));
    auto bytes = frame ? state::expanded(*frame, piece_bytes) : std::nullopt;
    if (!bytes || crypto::hmac_sha256(id_key_, *bytes) != id) return wrong;
    return std::move(*bytes);
}

void Pieces::remove_unfinished() const {
    std::vector<fs::path> unfinished;
    std::error_code failed;
    for (fs::recursive_directory_iterator at(folder_, failed), end; !failed && at != end; at.increment(failed)) {
        const fs::path name = at->path().filename();
        const std::string stem = name.stem();
        if (name.extension() == unfinished_ending && stem.size() == 2 * id_bytes && storage::is_hex(stem))
            unfinished.push_back(at->path());
    }
    for (const fs::path& file : unfinished) fs::remove(file, failed);
}

Result<std::size_t> Pieces::remove_unused(const std::set<std::string>& used) const {
    std::set<std::string> names;
    for (const std::string& id : used) names.insert(storage::hex(id));
    std::vector<fs::path> unused;
    std::error_code failed;
    for (fs::recursive_directory_iterator at(folder_, failed), end; !failed && at != end; at.increment(failed)) {
        const std::string name = at->path().filename();
        const bool piece = name.size() == 2 * id_bytes && storage::is_hex(name);
        if (piece && names.find(name) == names.end()) unused.push_back(at->path());
    }
    if (failed) return Error{ErrorCode::io, "listing " + folder_ + ": " + failed.message(), "check its disk"};
    for (const fs::path& piece : unused) fs::remove(piece, failed);
    return unused.size();
}

}  // namespace rtrain::head
