#include "storage/uri/open_store.hpp"

#include "storage/uri/s3/s3.hpp"

namespace rtrain::storage {

Result<std::unique_ptr<Store>> open_store(const std::string& root) {
    const auto uri = parse_uri(root);
    if (!uri) return uri.error();
    if (uri->scheme == Scheme::s3) return open_s3_store(root);
    if (uri->scheme == Scheme::gs)
        return Error{
            ErrorCode::invalid, "storage " + root + ": gs:// is not supported by this version",
            "use s3://, a shared directory, or leave storage_path out: the run's files are then kept on the head"};
    return open_file_store(root);
}

}  // namespace rtrain::storage
