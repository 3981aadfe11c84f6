// The store of cluster://, a storage path on the head, through its HTTPS API (/v1/storage). Files are sent in pieces of
// 8 MiB that can be resumed. So a head's restart during an upload costs one piece. Calls block; use them on the pool.
#pragma once

#include <memory>

#include "daemon/net/client.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// `head` carries the node's certificate. Thread-safe: concurrent calls use separate connections.
std::unique_ptr<storage::Store> open_cluster_store(net::Endpoint head);

}  // namespace rtrain::agent
