// cluster:// : a storage path that lies on the head, reached over its HTTPS API (/v1/storage). Files travel in pieces
// of 8 MiB that may be resumed, so that a head's restart in mid-upload costs one piece. Calls block: use them on the
// pool.
#pragma once

#include <memory>

#include "daemon/net/client.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// `head` carries the node's certificate. Safe to use from several threads: calls at the same time use connections of
// their own.
std::unique_ptr<storage::Store> open_cluster_store(net::Endpoint head);

}  // namespace rtrain::agent
