// The specific parts of Azure Blob Storage: paths, settings, signatures, tokens, texts of refusals.

#include <fstream>

#include "base/base64.hpp"
#include "base/crypto/digest.hpp"
#include "base/percent.hpp"
#include "storage/uri/azure/settings.hpp"
#include "storage/uri/azure/signature.hpp"
#include "storage/uri/azure/tokens.hpp"
#include "tests/unit/bucket_servers.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::storage {
namespace {

Error azure_refusal(const std::string& root, const Named& values) {
    auto store = open_azure_store(root, variables_of(values));
    return store ? (*store)->put("a", "x").error() : store.error();
}

Result<azure::Settings> azure_settings(const Named& values, const std::string& container = "runs") {
    auto named = azure::container_of(container);
    if (!named) return named.error();
    return azure::read_settings(variables_of(values), *named);
}

const std::string key_text = azure_keys_for("").at("AZURE_STORAGE_KEY");

// Returns a service SAS for the container `runs`, signed with the key of the tests' account.
std::string signature_for_container() {
    const std::string fields =
        "racwdl\n\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/runs\n\n\n\n2021-12-02\nc\n\n\n\n\n\n\n";
    const std::string signature = base64_encode(crypto::hmac_sha256(*base64_decode(key_text), fields));
    return "sp=racwdl&se=2030-01-01T00%3A00%3A00Z&sv=2021-12-02&sr=c&sig=" + percent_encoded(signature, Slash::encoded);
}

}  // namespace

TEST_CASE("requests are signed with a shared key as Azure's published example says") {
    const azure::Signing request{
        .method = "GET",
        .account = "myaccount",
        .path = "/mycontainer",
        .query = {{"restype", "container"}, {"comp", "metadata"}, {"timeout", "20"}},
        .headers = {{"x-ms-version", "2015-02-21"}, {"x-ms-date", azure::http_date(1'435'361'952)}}};
    CHECK(azure::text_to_sign(request) ==
          "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
          "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20");
    CHECK(azure::http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST_CASE("the path names a container, and an account only at one of Azure's servers") {
    CHECK(azure::container_of("runs")->account.empty());
    CHECK(azure::container_of("runs@lab.dfs.core.windows.net")->blob_host == "lab.blob.core.windows.net");
    CHECK(azure::container_of("runs@lab.blob.core.chinacloudapi.cn")->blob_host == "lab.blob.core.chinacloudapi.cn");
    for (const char* bad : {"runs@lab.dfs.core.windows.net.evil.example", "runs@169.254.169.254", "runs@", "runs@lab",
                            "runs@evil.example#.dfs.core.windows.net", "runs@a@b.dfs.core.windows.net", "r?ns", "R"}) {
        INFO(bad);
        CHECK(azure::container_of(bad).error().code == ErrorCode::invalid);
    }
    const auto named = azure_settings({{"AZURE_STORAGE_KEY", key_text}, {"AZURE_STORAGE_ACCOUNT", "lab"}},
                                      "runs@lab.dfs.core.windows.net");
    CHECK(named->endpoint == "https://lab.blob.core.windows.net");
    const auto other = azure_settings({{"AZURE_STORAGE_KEY", key_text}, {"AZURE_STORAGE_ACCOUNT", "home"}},
                                      "runs@lab.dfs.core.windows.net");
    CHECK(says(other.error(), "names the storage account 'lab', and the credentials are those of 'home'"));
}

TEST_CASE("Azure's credentials: connection string, key, signature, identity; what is missing is said") {
    Named values{{"AZURE_STORAGE_ACCOUNT", "lab"}};
    CHECK(azure_settings(values)->kind == azure::Kind::managed_identity);
    CHECK(azure_settings(values)->endpoint == "https://lab.blob.core.windows.net");
    values.insert({{"AZURE_TENANT_ID", "t"}, {"AZURE_CLIENT_ID", "c"}, {"AZURE_FEDERATED_TOKEN_FILE", "/f"}});
    CHECK(azure_settings(values)->kind == azure::Kind::federated);
    values["AZURE_CLIENT_SECRET"] = "s";
    CHECK(azure_settings(values)->kind == azure::Kind::client_secret);
    values["AZURE_STORAGE_SAS_TOKEN"] = "?sv=1&sig=x";
    CHECK(azure_settings(values)->sas == "sv=1&sig=x");
    values["AZURE_STORAGE_KEY"] = key_text;
    CHECK(azure_settings(values)->kind == azure::Kind::shared_key);
    values["AZURE_STORAGE_CONNECTION_STRING"] = "DefaultEndpointsProtocol=http;AccountName=dev;AccountKey=" + key_text +
                                                ";BlobEndpoint=http://127.0.0.1:1/dev/;";
    CHECK(azure_settings(values)->endpoint == "http://127.0.0.1:1/dev");
    CHECK(azure_settings(values)->key == *base64_decode(key_text));
    CHECK(says(azure_settings({}).error(), "neither AZURE_STORAGE_CONNECTION_STRING nor AZURE_STORAGE_ACCOUNT is set"));
    CHECK(says(azure_settings({{"AZURE_STORAGE_ACCOUNT", "x/../y"}}).error(), "no account's name"));
    for (const auto& [name, text] : Named{{"AZURE_STORAGE_KEY", "hush hush"},
                                          {"AZURE_STORAGE_SAS_TOKEN", "hush"},
                                          {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=dev;hush"}}) {
        const Error refused = azure_settings({{"AZURE_STORAGE_ACCOUNT", "lab"}, {name, text}}).error();
        CHECK(says(refused, name));
        CHECK_FALSE(says(refused, "hush"));
    }
}

TEST_CASE("a shared access signature is a part of each request, and of no message") {
    BucketServer server("azure");
    Named values{{"AZURE_STORAGE_ACCOUNT", "devstoreaccount1"},
                 {"AZURE_STORAGE_SERVICE_ENDPOINT", server.endpoint + "/devstoreaccount1"},
                 {"AZURE_STORAGE_SAS_TOKEN", signature_for_container()}};
    auto store = bucket_store(kind_named("azure"), "az://runs/sas", values);
    REQUIRE(store->put("a b", "x").ok());
    CHECK(*store->get("a b") == "x");
    CHECK(*store->create("claim", "1"));
    CHECK_FALSE(*store->create("claim", "2"));
    values["AZURE_STORAGE_SAS_TOKEN"] = "sv=2021-12-02&sig=hush";
    const Error refused = azure_refusal("az://runs/sas", values);
    CHECK(refused.code == ErrorCode::unauthorised);
    CHECK(says(refused, "does not accept the shared access signature (from AZURE_STORAGE_SAS_TOKEN"));
    CHECK_FALSE(says(refused, "hush"));
    server.stop();
    values["RTRAIN_STORAGE_MAX_ATTEMPTS"] = "1";
    CHECK_FALSE(says(azure_refusal("az://runs/sas", values), "sig="));
}

TEST_CASE("a machine, a pod and a service principal get tokens, which are renewed when they are refused") {
    BucketServer server("azure");
    const Folder folder;
    write_to_file(folder.path + "/token", "a-pods-token\n");
    const Named place{{"AZURE_STORAGE_ACCOUNT", "devstoreaccount1"},
                      {"AZURE_STORAGE_SERVICE_ENDPOINT", server.endpoint + "/devstoreaccount1"},
                      {"AZURE_AUTHORITY_HOST", server.endpoint + "/"},
                      {"AZURE_POD_IDENTITY_AUTHORITY_HOST", server.endpoint}};
    const Named principal{{"AZURE_TENANT_ID", "a-tenant"}, {"AZURE_CLIENT_ID", "c"}};
    Named secret = principal, pod = principal;
    secret["AZURE_CLIENT_SECRET"] = "a-client-secret";
    pod["AZURE_FEDERATED_TOKEN_FILE"] = folder.path + "/token";
    for (Named values : {Named{}, secret, pod}) {
        values.insert(place.begin(), place.end());
        auto store = bucket_store(kind_named("azure"), "az://runs/token", values);
        REQUIRE(store->put("a", "x").ok());
        auto connections = http::Connections::open();
        (*connections)->send({.method = "GET", .url = server.endpoint + "/revoke", .headers = {}, .body = {}});
        CHECK(*store->get("a") == "x");
    }
    secret["AZURE_CLIENT_SECRET"] = "hush";
    secret.insert(place.begin(), place.end());
    const Error refused = azure_refusal("az://runs/p", secret);
    CHECK(says(refused, "refuses the client c (status 401): invalid_client"));
    CHECK_FALSE(says(refused, "hush"));
    const Error nobody = azure_refusal(
        "az://runs/p", {{"AZURE_STORAGE_ACCOUNT", "lab"}, {"AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1"}});
    CHECK(nobody.code == ErrorCode::unauthorised);
    for (const char* words :
         {"no Azure credentials", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "managed identity"})
        CHECK(says(nobody, words));
}

TEST_CASE("a refusal of Azure names the blob, the account and what to correct") {
    Named values = shared_server(kind_named("azure"));
    const Error container = azure_refusal("az://no-such-container/p", values);
    CHECK(container.code == ErrorCode::invalid);
    CHECK(says(container,
               "writing az://no-such-container/p/a: there is no container 'no-such-container' in the account "
               "'devstoreaccount1'"));
    values["AZURE_STORAGE_KEY"] = base64_encode("not-it-at-all");
    const Error key = azure_refusal("az://runs/p", values);
    CHECK(key.code == ErrorCode::unauthorised);
    CHECK(says(key, "does not accept the key of the account 'devstoreaccount1' (from AZURE_STORAGE_KEY"));
    CHECK(says(key, "GMT"));
    CHECK(says(azure_refusal("az://runs/a/../b", values), "'..'"));
}

TEST_CASE("names that Azure would change are refused") {
    auto store = bucket_store(kind_named("azure"), "az://runs/names", shared_server(kind_named("azure")));
    CHECK(says(store->put("a\\b", "x").error(), "accepts no name that contains a backslash"));
    CHECK(says(store->put("a./b", "x").error(), "has a part that ends with a dot"));
    CHECK(says(store->put(std::string(255, 'a'), "x").error(), "more than 254 bytes"));
}

TEST_CASE("a connection string that leads elsewhere than to Azure is known") {
    CHECK(foreign_blob_server("AccountName=lab;AccountKey=eA==")->empty());
    CHECK(foreign_blob_server("AccountName=lab;EndpointSuffix=core.chinacloudapi.cn")->empty());
    CHECK(*foreign_blob_server("AccountName=lab;EndpointSuffix=evil.example") == "https://lab.blob.evil.example");
    CHECK(*foreign_blob_server("BlobEndpoint=http://169.254.169.254/x") == "http://169.254.169.254");
    CHECK(*foreign_blob_server("DefaultEndpointsProtocol=http;AccountName=lab") == "http://lab.blob.core.windows.net");
    CHECK_FALSE(foreign_blob_server("AccountName=a/b").ok());
    CHECK_FALSE(foreign_blob_server("BlobEndpoint=https://lab.blob.core.windows.net@evil.example").ok());
}

}  // namespace rtrain::storage
