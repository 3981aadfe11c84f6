#include "storage/uri/azure/azure.hpp"

#include "storage/uri/azure/service.hpp"
#include "storage/uri/objects/store.hpp"

namespace rtrain::storage {

Result<std::unique_ptr<Store>> open_azure_store(const std::string& root,
                                                const std::function<std::string(const std::string&)>& variables) {
    auto uri = parse_uri(root);
    if (!uri) return uri.error();
    if (uri->scheme != Scheme::az && uri->scheme != Scheme::abfs && uri->scheme != Scheme::abfss)
        return Error{ErrorCode::invalid, "storage " + root + ": it does not begin with az:// or abfss://", ""};
    const std::string scheme = prefix_of(uri->scheme);
    return open_object_store(
        root, uri->path, [&](const std::string& container) { return azure::open_client(scheme, container, variables); },
        azure::protocol());
}

}  // namespace rtrain::storage
