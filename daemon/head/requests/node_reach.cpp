// See node_reach.hpp.
#include "daemon/head/requests/node_reach.hpp"

#include "daemon/head/requests/exchange.hpp"

namespace rtrain::head {

// Returns a refusal unless the node may access the file. It may access the files of its attempts' runs. A read for a
// removed run is answered with "not found"; its agent then drops its pending deliveries.
std::optional<net::Response> refuse_unreached(const View& view, const Caller& caller, const std::string& path,
                                              Touch touch) {
    if (caller.role != Role::node) return std::nullopt;
    const NodeId node{caller.node};
    const auto& named = view.names.named(run_named_in(path, node));
    if (reaches_file(view.cluster, named, node, path, touch, view.clock.now())) return std::nullopt;
    if (touch == Touch::read && named.empty())
        return net::Response{.status = 404,
                             .body = error_body({ErrorCode::not_found, "cluster://" + path + " is of no run", ""}, {})};
    const Error error{ErrorCode::unauthorised,
                      "node " + caller.node + " may not reach cluster://" + path +
                          ": no attempt of that run is on it, or none has been for two weeks",
                      ""};
    return net::Response{.status = 403, .body = error_body(error, {})};
}

}  // namespace rtrain::head
