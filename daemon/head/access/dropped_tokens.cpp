// See dropped_tokens.hpp.
#include "daemon/head/access/dropped_tokens.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/write_all.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/files/plain_files.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

constexpr const char* folder = "new-tokens";

constexpr const char* as_its_user = "run it as the user that the head runs as, or as root";

Error failure(const std::string& doing) { return {ErrorCode::io, doing + ": " + std::strerror(errno), as_its_user}; }

Error no_head_here(const std::string& data_dir, const Error& why) {
    if (why.code != ErrorCode::not_found)
        return {why.code, "looking for ca.key in " + data_dir + ": " + why.message, as_its_user};
    return {ErrorCode::not_found, data_dir + " is no head's data directory: it has no ca.key",
            "give the --data of `rtrain head start`, on the head's machine"};
}

bool whole(int file, const std::string& text) { return storage::write_all(file, text) == 0 && ::fsync(file) == 0; }

// Writes the file with such an owner that the head can read it, even if root makes it.
Result<std::string> write_file(const storage::Descriptor& data, const std::string& id, const std::string& text) {
    struct stat owner{};
    if (::fstat(data.number(), &owner) != 0) return failure("looking at the data directory");
    if (::mkdirat(data.number(), folder, 0700) != 0 && errno != EEXIST) return failure(std::string("making ") + folder);
    const auto below = storage::open_beneath(data, folder, O_RDONLY | O_DIRECTORY);
    if (!below) return below.error();
    const std::string aside = "." + id, name = id + ".json";
    const storage::Descriptor file(
        ::openat(below->number(), aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const bool given = ::geteuid() != 0 || (::fchown(below->number(), owner.st_uid, owner.st_gid) == 0 && file.open() &&
                                            ::fchown(file.number(), owner.st_uid, owner.st_gid) == 0);
    if (!file.open() || !given || !whole(file.number(), text) ||
        ::renameat(below->number(), aside.c_str(), below->number(), name.c_str()) != 0)
        return failure("writing " + name);
    return std::string(folder) + "/" + name;
}

state::TokenRow row_of(const json& token) {
    const auto text = [&](const char* name) {
        const json value = token.value(name, json());
        return value.is_string() ? value.get<std::string>() : "";
    };
    const auto number = [&](const char* name) {
        const json value = token.value(name, json());
        return value.is_number_integer() ? value.get<std::int64_t>() : 0;
    };
    return {.id = text("id"),
            .secret_hash = text("secret_hash"),
            .role = to_text(Role::admin),
            .user = text("user"),
            .created_wall_ms = number("created_wall_ms"),
            .expires_wall_ms = number("expires_wall_ms"),
            .uses_left = -1,
            .revoked = false};
}

}  // namespace

Result<DroppedToken> drop_admin_token(const std::string& data_dir, const std::string& user,
                                      std::int64_t expires_wall_ms) {
    if (!is_user_name(user)) return bad_user_name();
    const auto data = storage::open_top(data_dir);
    if (!data) return no_head_here(data_dir, data.error());
    if (const auto key = storage::open_beneath(*data, "ca.key", O_PATH); !key)
        return no_head_here(data_dir, key.error());
    const FreshToken fresh =
        make_token({.role = Role::admin, .user = user, .now_wall_ms = wall_ms(), .expires_wall_ms = expires_wall_ms});
    const json token = {{"id", fresh.row.id},
                        {"secret_hash", fresh.row.secret_hash},
                        {"user", user},
                        {"created_wall_ms", fresh.row.created_wall_ms},
                        {"expires_wall_ms", expires_wall_ms}};
    const auto written = write_file(*data, fresh.row.id, json_text(token));
    if (!written) return written.error();
    return DroppedToken{.id = fresh.row.id, .text = fresh.text, .file = data_dir + "/" + *written};
}

Status take_dropped_tokens(const std::string& data_dir, state::SqliteJournal& journal, TokenBook& tokens) {
    const auto data = storage::open_top(data_dir);
    if (!data) return data.error();
    const auto files = files_beneath(*data, folder);
    if (!files) return Done{};  // most heads have no such files
    for (const FoundFile& token_file : *files) {
        if (!token_file.path.ends_with(".json")) continue;
        const auto file = open_plain(*data, token_file.path);
        const auto text = file ? text_of(*file) : std::nullopt;
        const json token = text ? parsed_or_null(*text) : json();
        const state::TokenRow row = token.is_object() ? row_of(token) : state::TokenRow{};
        const bool good =
            !row.id.empty() && is_user_name(row.user) && row.secret_hash.size() == 64 && !tokens.row(row.id);
        if (good) {
            state::Batch batch;
            batch.tokens.push_back(row);
            batch.audit.push_back({.wall_ms = wall_ms(),
                                   .from = "the head's machine",
                                   .action = "rtrain token create --data",
                                   .target = "id=" + row.id + " role=" + row.role + " user=" + row.user});
            if (auto saved = journal.commit(batch); !saved) return saved;
            tokens.set(row);
            std::fprintf(stderr, "rtrain head: admin token %s for %s was made on this machine\n", row.id.c_str(),
                         row.user.c_str());
        }
        if (::unlinkat(data->number(), token_file.path.c_str(), 0) != 0) return failure("removing " + token_file.path);
    }
    return Done{};
}

}  // namespace rtrain::head
