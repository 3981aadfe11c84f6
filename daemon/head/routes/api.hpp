// Processes a request: it is matched, authenticated, authorised (access.hpp), audited, and answered by its handler.
#pragma once

#include <cstddef>
#include <memory>

#include "daemon/head/access/change_rate.hpp"
#include "daemon/head/access/credentials.hpp"
#include "daemon/head/access/first_admin.hpp"
#include "daemon/head/access/identity.hpp"
#include "daemon/head/access/ownership.hpp"
#include "daemon/head/requests/route.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

class CountedUpload;  // defined in admission.cpp

class Api {
  public:
    struct Uses {
        net::Background background;
        Intake events;
        Durability durability;
        const View& view;
        const HeadOptions& options;
        metrics::Metrics& metrics;
        const Credentials& credentials;
        FirstAdmin& first_admin;
        const Ownership& ownership;
        UserBytes& bytes;
        const StoredFiles& stored;
        Parts parts;  // the parts that handlers may request
    };
    explicit Api(Uses uses) : uses_(uses) {}

    void dispatch(net::Request request, std::shared_ptr<net::Responder> responder);
    net::ServerOptions server_options(const Identity& identity, std::size_t connections_max);

  private:
    void answer(Exchange& exchange);
    std::int64_t wait_for_change(const Exchange& exchange);
    bool count_stream(Exchange& exchange);

    // ---- admission.cpp, on the server's threads
    net::Admission admission_of(const net::Request& request);
    net::Admission upload_of(const net::Request& request, const Caller& caller, const std::string& path);
    std::optional<net::Response> refused_by_loop(const Caller& caller, const std::string& path,
                                                 const std::shared_ptr<CountedUpload>& counted, std::uint64_t bytes);

    const Uses uses_;
    ChangeRate changes_;
};

}  // namespace rtrain::head
