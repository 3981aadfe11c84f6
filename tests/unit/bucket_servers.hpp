// The object stores of the tests: servers of each kind, started at their first use.
// RTRAIN_TEST_S3=http://host:port names another S3 server, whose key is in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
// RTRAIN_TEST_AZURE=http://host:port names an Azurite.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "storage/uri/azure/azure.hpp"
#include "storage/uri/azure/service.hpp"
#include "storage/uri/gcs/gcs.hpp"
#include "storage/uri/gcs/service.hpp"
#include "storage/uri/objects/store.hpp"
#include "storage/uri/s3/s3.hpp"
#include "storage/uri/s3/service.hpp"
#include "tests/unit/bucket_server.hpp"
#include "tests/unit/catch.hpp"

namespace rtrain::storage {

using Named = std::map<std::string, std::string>;
inline objects::Variables variables_of(Named values) {
    return [values = std::move(values)](const std::string& name) {
        const auto entry = values.find(name);
        return entry == values.end() ? std::string{} : entry->second;
    };
}

// A kind of object store, as the tests of all kinds use it.
struct BucketKind {
    std::string name;    // the folder of its server in tests/
    std::string bucket;  // "s3://runs"
    std::function<Result<std::unique_ptr<Store>>(const std::string& root, const objects::Variables&)> open;
    std::function<Result<std::unique_ptr<objects::Client>>(const objects::Variables&)> client;  // opens the bucket
    std::function<std::unique_ptr<objects::Protocol>()> protocol;
    std::function<Named(const std::string& endpoint)> values;  // the server and a key that it accepts
    std::string endpoint_variable, ca_variable, tries_variable;
    std::string condition;              // condition of exclusive creation
    objects::ObjectRequest unfinished;  // lists the uploads of the bucket that are not complete, with `prefix`
    std::string unfinished_element;
};
inline const std::vector<std::string>& bucket_kinds() {
    static const std::vector<std::string> names{"s3", "gcs", "azure"};
    return names;
}
inline Named keys_for(const std::string& endpoint) {
    return {{"AWS_ENDPOINT_URL", endpoint},
            {"AWS_ACCESS_KEY_ID", "rtrain-test-key"},
            {"AWS_SECRET_ACCESS_KEY", "rtrain-test-secret"},
            {"HOME", "/nonexistent"}};
}
inline Named gcs_keys_for(const std::string& endpoint) {
    return {{"STORAGE_EMULATOR_HOST", endpoint},
            {"GS_ACCESS_KEY_ID", "rtrain-test-key"},
            {"GS_SECRET_ACCESS_KEY", "rtrain-test-secret"},
            {"HOME", "/nonexistent"}};
}
inline Named azure_keys_for(const std::string& endpoint) {
    return {{"AZURE_STORAGE_SERVICE_ENDPOINT", endpoint + "/devstoreaccount1"},
            {"AZURE_STORAGE_ACCOUNT", "devstoreaccount1"},
            {"AZURE_STORAGE_KEY",  // published with Azurite
             "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="},
            {"HOME", "/nonexistent"}};
}
inline BucketKind kind_named(const std::string& name) {
    if (name == "azure")
        return {.name = name,
                .bucket = "az://runs",
                .open = [](const auto& root, const auto& variables) { return open_azure_store(root, variables); },
                .client = [](const auto& variables) { return azure::open_client("az://", "runs", variables); },
                .protocol = [] { return azure::protocol(); },
                .values = azure_keys_for,
                .endpoint_variable = "AZURE_STORAGE_SERVICE_ENDPOINT",
                .ca_variable = "SSL_CERT_FILE",
                .tries_variable = "RTRAIN_STORAGE_MAX_ATTEMPTS",
                .condition = "`If-None-Match: *`",
                .unfinished = {.doing = "listing",
                               .query = {{"restype", "container"}, {"comp", "list"}, {"include", "uncommittedblobs"}}},
                .unfinished_element = "Blob"};
    if (name == "gcs")
        return {.name = name,
                .bucket = "gs://runs",
                .open = [](const auto& root, const auto& variables) { return open_gcs_store(root, variables); },
                .client = [](const auto& variables) { return gcs::open_client("runs", variables); },
                .protocol = [] { return s3::protocol_of(gcs::dialect); },
                .values = gcs_keys_for,
                .endpoint_variable = "STORAGE_EMULATOR_HOST",
                .ca_variable = "SSL_CERT_FILE",
                .tries_variable = "RTRAIN_STORAGE_MAX_ATTEMPTS",
                .condition = "`x-goog-if-generation-match: 0`",
                .unfinished = {.doing = "listing", .query = {{"uploads", ""}}},
                .unfinished_element = "Upload"};
    return {.name = "s3",
            .bucket = "s3://runs",
            .open = [](const auto& root, const auto& variables) { return open_s3_store(root, variables); },
            .client = [](const auto& variables) { return s3::open_client("runs", variables); },
            .protocol = [] { return s3::protocol_of(s3::amazon_dialect); },
            .values = keys_for,
            .endpoint_variable = "AWS_ENDPOINT_URL",
            .ca_variable = "AWS_CA_BUNDLE",
            .tries_variable = "AWS_MAX_ATTEMPTS",
            .condition = "`If-None-Match: *`",
            .unfinished = {.doing = "listing", .query = {{"uploads", ""}}},
            .unfinished_element = "Upload"};
}

inline std::unique_ptr<Store> bucket_store(const BucketKind& kind, const std::string& root, const Named& values) {
    auto store = kind.open(root, variables_of(values));
    // Without Catch's assertions, which are for one thread: some tests open stores in several threads.
    if (!store.ok()) throw std::runtime_error("no store at " + root + ": " + store.error().message);
    return std::move(store).value();
}
inline std::unique_ptr<Store> s3_store(const std::string& root, const Named& values) {
    return bucket_store(kind_named("s3"), root, values);
}

// Returns the one server of the kind that all tests of the program share.
inline const Named& shared_server(const BucketKind& kind) {
    static std::map<std::string, std::unique_ptr<BucketServer>> servers;
    static std::map<std::string, Named> values;
    if (const auto known = values.find(kind.name); known != values.end()) return known->second;
    const char* given =
        kind.name == "gcs" ? nullptr : std::getenv(kind.name == "s3" ? "RTRAIN_TEST_S3" : "RTRAIN_TEST_AZURE");
    if (given == nullptr) {
        servers[kind.name] = std::make_unique<BucketServer>(kind.name);
        return values[kind.name] = kind.values(servers[kind.name]->endpoint);
    }
    Named own = kind.values(given);
    for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CA_BUNDLE"})
        if (const char* value = std::getenv(name); value != nullptr) own[name] = value;
    auto client = kind.client(variables_of(own));
    REQUIRE(client.ok());
    objects::ObjectRequest making{.method = "PUT", .doing = "making"};
    if (kind.name == "azure") making.query = {{"restype", "container"}};
    REQUIRE((*client)->send(making).ok());
    return values[kind.name] = own;
}
inline const Named& shared_s3() { return shared_server(kind_named("s3")); }

// True if the message or the next step contains the words.
inline bool says(const Error& error, const std::string& words) {
    return (error.message + " | " + error.next).find(words) != std::string::npos;
}

}  // namespace rtrain::storage
