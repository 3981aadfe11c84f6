// Opens or makes the head's identity. Writes the key before the certificate, so that a certificate on disk always has
// its key.
#include "daemon/head/access/identity.hpp"

#include "daemon/head/base/data_files.hpp"

namespace rtrain::head {
namespace {

Result<security::KeyPair> make_and_keep(const std::string& data_dir) {
    auto authority = security::make_authority(security::random_hex(8));
    if (!authority) return authority.error();
    if (auto kept = write_private(data_dir + "/ca.key", authority->private_key); !kept) return kept.error();
    if (auto kept = write_private(data_dir + "/ca.crt", authority->certificate); !kept) return kept.error();
    return std::move(*authority);
}

// Opens the authority's key and certificate. Bytes that are not a key are reported as damage. A file that cannot be
// read at present is not, since it may be intact.
Result<security::KeyPair> open_authority(const std::string& data_dir, MissingAuthority missing) {
    auto crt = read_file(data_dir + "/ca.crt");
    if (!crt && crt.error().code == ErrorCode::not_found) {
        if (missing == MissingAuthority::is_made) return make_and_keep(data_dir);
        return Error{ErrorCode::not_found,
                     data_dir +
                         " has the records of a cluster, and not its authority, ca.crt and ca.key: every node "
                         "and every context would refuse a new authority",
                     "rtrain head restore BACKUP into another directory, or put both files back from a copy. If they "
                     "are lost for good: rtrain head start --new-ca, then each node joins anew"};
    }
    if (!crt) return crt.error();
    auto key = read_file(data_dir + "/ca.key");
    if (!key && key.error().code == ErrorCode::not_found)
        return Error{ErrorCode::not_found, data_dir + "/ca.crt is there but its key, ca.key, is not",
                     "restore ca.key from a backup; agents and clients trust only this authority"};
    if (!key) return key.error();
    return security::KeyPair{.certificate = *crt, .private_key = *key};
}

Error unusable(const std::string& data_dir, const Error& why) {
    if (why.code != ErrorCode::invalid) return why;
    return {ErrorCode::damaged, data_dir + "/ca.crt or ca.key is damaged: " + why.message,
            "restore both from a backup; agents and clients trust only this authority"};
}

}  // namespace

net::TlsIdentity Identity::tls() const {
    return {.certificate_chain = leaf.certificate + authority.certificate,
            .private_key = leaf.private_key,
            .ca = authority.certificate};
}

Result<Identity> open_identity(const std::string& data_dir, MissingAuthority missing) {
    auto authority = open_authority(data_dir, missing);
    if (!authority) return authority.error();
    auto leaf = security::make_leaf(*authority, "rtrain-head");
    if (!leaf) return unusable(data_dir, leaf.error());
    auto print = security::fingerprint(authority->certificate);
    if (!print) return unusable(data_dir, print.error());
    return Identity{std::move(*authority), std::move(*leaf), std::move(*print)};
}

}  // namespace rtrain::head
