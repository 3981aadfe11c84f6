#include "storage/uri/gcs/gcs.hpp"

#include "storage/uri/gcs/service.hpp"
#include "storage/uri/objects/store.hpp"

namespace rtrain::storage {

Result<std::unique_ptr<Store>> open_gcs_store(const std::string& root,
                                              const std::function<std::string(const std::string&)>& variables) {
    auto uri = parse_uri(root);
    if (!uri) return uri.error();
    if (uri->scheme != Scheme::gs)
        return Error{ErrorCode::invalid, "storage " + root + ": it does not begin with gs://", ""};
    return open_object_store(
        root, uri->path, [&](const std::string& bucket) { return gcs::open_client(bucket, variables); },
        s3::protocol_of(gcs::dialect));
}

}  // namespace rtrain::storage
