#include "storage/uri/open_store.hpp"

#include "storage/uri/azure/azure.hpp"
#include "storage/uri/gcs/gcs.hpp"
#include "storage/uri/objects/client.hpp"
#include "storage/uri/s3/s3.hpp"

namespace rtrain::storage {

Result<std::unique_ptr<Store>> open_store(const std::string& root) {
    const auto uri = parse_uri(root);
    if (!uri) return uri.error();
    return is_bucket(uri->scheme) ? open_bucket_store(root, &objects::process_variable) : open_file_store(root);
}

Result<std::unique_ptr<Store>> open_bucket_store(const std::string& root,
                                                 const std::function<std::string(const std::string&)>& variables) {
    const auto uri = parse_uri(root);
    if (!uri) return uri.error();
    if (uri->scheme == Scheme::s3) return open_s3_store(root, variables);
    return uri->scheme == Scheme::gs ? open_gcs_store(root, variables) : open_azure_store(root, variables);
}

std::string own_endpoint(Scheme scheme) {
    if (scheme == Scheme::s3) return own_s3_endpoint();
    return scheme == Scheme::gs ? own_gcs_endpoint() : own_azure_endpoint();
}

}  // namespace rtrain::storage
