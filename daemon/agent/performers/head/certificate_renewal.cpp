#include "daemon/agent/performers/head/certificate_renewal.hpp"

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/peers/cluster_store.hpp"
#include "daemon/agent/performers/offload.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t renew_margin_ms = 30LL * 24 * 3600 * 1000, renew_every_ms = 12LL * 3600 * 1000;

}  // namespace

void CertificateRenewal::renew() {
    offload_at(
        background_, "",
        [identity = node_.identity, data = node_.options.data_dir]() mutable -> Result<Identity> {
            auto renewed = agent::renew(identity, data, wall_ms(), renew_margin_ms);
            if (!renewed) return renewed.error();
            return identity;
        },
        [this](const Result<Identity>& identity) {
            if (!identity) warn("the certificate could not be renewed: " + identity.error().message);
            if (identity && identity->certificate != node_.identity.certificate) renewed(*identity);
            background_.after(renew_every_ms, [this] { renew(); });
        });
}

void CertificateRenewal::renewed(const Identity& identity) {
    node_.identity.certificate = identity.certificate;
    node_.identity.private_key = identity.private_key;
    node_.on_head = open_cluster_store(head_endpoint(node_.identity));
    peers_.certificate_renewed();
    log_info("the node's certificate was renewed");
}

}  // namespace rtrain::agent
