// See identity.hpp. The key is written before the certificate, so a certificate on disk always has its key.
#include "daemon/head/identity.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace rtrain::head {
namespace {

Error failed(const std::string& doing, const std::string& path) {
    const std::string message = doing + " " + path + ": " + std::strerror(errno);
    if (errno == ENOSPC || errno == EDQUOT) return {ErrorCode::full, message, "make room on the disk of " + path};
    return {ErrorCode::io, message, "check the data directory's disk and permissions"};
}

bool write_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t wrote = ::write(descriptor, bytes.data(), bytes.size());
        if (wrote < 0 && errno != EINTR) return false;
        if (wrote > 0) bytes.remove_prefix(static_cast<std::size_t>(wrote));
    }
    return true;
}

void sync_directory(const std::string& directory) {
    const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
}

Result<security::KeyPair> make_and_keep(const std::string& data_dir) {
    auto made = security::make_authority(security::random_hex(8));
    if (!made) return made.error();
    if (auto kept = write_private(data_dir + "/ca.key", made->private_key); !kept) return kept.error();
    if (auto kept = write_private(data_dir + "/ca.crt", made->certificate); !kept) return kept.error();
    return std::move(*made);
}

Result<security::KeyPair> open_authority(const std::string& data_dir) {
    const bool certificate = std::filesystem::exists(data_dir + "/ca.crt");
    if (!certificate) return make_and_keep(data_dir);
    auto crt = read_file(data_dir + "/ca.crt");
    auto key = read_file(data_dir + "/ca.key");
    if (!crt) return crt.error();
    if (!key)
        return Error{ErrorCode::damaged, data_dir + "/ca.crt is there but its key is not: " + key.error().message,
                     "restore ca.key from a backup; agents and clients trust only this authority"};
    return security::KeyPair{.certificate = *crt, .private_key = *key};
}

}  // namespace

Status write_private(const std::string& path, const std::string& bytes) {
    const std::string aside = path + ".new";
    const int descriptor = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0) return failed("creating", aside);
    const bool wrote = write_all(descriptor, bytes) && ::fsync(descriptor) == 0;
    const Error why = failed("writing", aside);
    ::close(descriptor);
    if (!wrote) {
        ::unlink(aside.c_str());
        return why;
    }
    if (::rename(aside.c_str(), path.c_str()) != 0) return failed("renaming to", path);
    sync_directory(std::filesystem::path(path).parent_path().string());
    return Done{};
}

Result<std::string> read_file(const std::string& path) {
    errno = 0;
    std::ifstream in(path, std::ios::binary);
    if (!in) return failed("reading", path);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    return std::move(bytes).str();
}

net::TlsIdentity Identity::tls() const {
    return {.certificate_chain = leaf.certificate + authority.certificate,
            .private_key = leaf.private_key,
            .ca = authority.certificate};
}

Result<Identity> open_identity(const std::string& data_dir) {
    auto authority = open_authority(data_dir);
    if (!authority) return authority.error();
    auto leaf = security::make_leaf(*authority, "rtrain-head");
    if (!leaf) return leaf.error();
    auto print = security::fingerprint(authority->certificate);
    if (!print) return print.error();
    return Identity{std::move(*authority), std::move(*leaf), std::move(*print)};
}

}  // namespace rtrain::head
