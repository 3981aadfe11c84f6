// See identity.hpp. The key is written before the certificate, so a certificate on disk always has its key.
#include "daemon/head/access/identity.hpp"

#include <filesystem>

#include "daemon/head/base/data_files.hpp"

namespace rtrain::head {
namespace {

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
