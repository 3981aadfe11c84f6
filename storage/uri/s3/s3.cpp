#include "storage/uri/s3/s3.hpp"

#include "storage/uri/objects/store.hpp"
#include "storage/uri/s3/protocol.hpp"
#include "storage/uri/s3/service.hpp"

namespace rtrain::storage {

Result<std::unique_ptr<Store>> open_s3_store(const std::string& root,
                                             const std::function<std::string(const std::string&)>& variables) {
    auto uri = parse_uri(root);
    if (!uri) return uri.error();
    if (uri->scheme != Scheme::s3)
        return Error{ErrorCode::invalid, "storage " + root + ": it does not begin with s3://", ""};
    return open_object_store(
        root, uri->path, [&](const std::string& bucket) { return s3::open_client(bucket, variables); },
        s3::protocol_of(s3::amazon_dialect));
}

}  // namespace rtrain::storage
