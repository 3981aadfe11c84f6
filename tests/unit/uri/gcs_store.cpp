// The specific parts of Google Cloud Storage: settings, tokens, metadata servers, texts of refusals.

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/json_text.hpp"
#include "storage/uri/gcs/settings.hpp"
#include "storage/uri/gcs/tokens.hpp"
#include "tests/unit/bucket_servers.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::storage {
namespace {

constexpr const char* user_account =
    R"({"type": "authorized_user", "client_id": "a-client", "client_secret": "s", "refresh_token": "a-refresh-token"})";

// A server, and the key of a service account that takes its tokens there.
struct WithAccount {
    Folder folder;
    std::string key_file = folder.path + "/key.json";
    BucketServer server{"gcs", {"--key-file", key_file}};
    Named values{{"STORAGE_EMULATOR_HOST", server.endpoint},
                 {"GOOGLE_APPLICATION_CREDENTIALS", key_file},
                 {"HOME", "/nonexistent"}};
};

Error google_refusal(const std::string& root, const Named& values) {
    auto store = open_gcs_store(root, variables_of(values));
    return store ? (*store)->put("a", "x").error() : store.error();
}

std::string decoded(std::string text) {  // base64 for URLs
    std::replace(text.begin(), text.end(), '-', '+');
    std::replace(text.begin(), text.end(), '_', '/');
    while (text.size() % 4 != 0) text += '=';
    return base64_decode(text).value();
}

}  // namespace

TEST_CASE("Google's credentials come from variables first, then from files, then from the metadata server") {
    const Folder folder;
    Named values{{"HOME", folder.path}};
    const auto read = [&] { return gcs::read_settings(variables_of(values)); };
    CHECK(read()->kind == gcs::Kind::metadata);
    CHECK(read()->endpoint == "https://storage.googleapis.com");
    CHECK(read()->metadata_server == "http://169.254.169.254");
    CHECK(read()->why_no_file == folder.path + "/.config/gcloud/application_default_credentials.json is not there");
    std::filesystem::create_directories(folder.path + "/.config/gcloud");
    write_to_file(folder.path + "/.config/gcloud/application_default_credentials.json", user_account);
    CHECK(read()->kind == gcs::Kind::authorized_user);
    CHECK(read()->account.token_server == "https://oauth2.googleapis.com/token");
    write_to_file(
        folder.path + "/key.json",
        R"({"type": "service_account", "client_email": "a@b", "private_key": "p", "token_uri": "https://t/t"})");
    values["GOOGLE_APPLICATION_CREDENTIALS"] = folder.path + "/key.json";
    CHECK(read()->kind == gcs::Kind::service_account);
    CHECK(read()->source == folder.path + "/key.json");
    values["GOOGLE_SERVICE_ACCOUNT_KEY"] = user_account;
    CHECK(read()->kind == gcs::Kind::authorized_user);
    values["GOOGLE_OAUTH_ACCESS_TOKEN"] = "t";
    CHECK(read()->kind == gcs::Kind::token);
    values["GS_ACCESS_KEY_ID"] = "k";
    CHECK(says(read().error(), "of GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY, the second is not set"));
    values["GS_SECRET_ACCESS_KEY"] = "s";
    CHECK(read()->hmac.key_id == "k");
    values["STORAGE_EMULATOR_HOST"] = "localhost:9";
    CHECK(read()->endpoint == "http://localhost:9");
    values["STORAGE_EMULATOR_HOST"] = "http://me:secret@host";
    CHECK(says(read().error(), "give it as http://host:port"));
    CHECK(gcs::read_settings(variables_of({{"STORAGE_EMULATOR_HOST", "h:1"}, {"HOME", "/none"}}))->kind ==
          gcs::Kind::anonymous);
}

TEST_CASE("a credentials file of Google's that cannot be used says why, and shows nothing of itself") {
    const Folder folder;
    const std::string file = folder.path + "/key.json";
    Named values{{"GOOGLE_APPLICATION_CREDENTIALS", file}, {"HOME", "/none"}};
    const auto why = [&] { return gcs::read_settings(variables_of(values)).error(); };
    CHECK(says(why(), "GOOGLE_APPLICATION_CREDENTIALS names " + file + ", which is not there"));
    for (const auto& [text, words] : Named{{"no JSON: hush", "they are no JSON object"},
                                           {R"({"type": "external_account"})", "type is 'external_account'"},
                                           {R"({"type": "service_account"})", "client_email or private_key is missing"},
                                           {R"({"type": "authorized_user"})", "client_id or refresh_token is missing"},
                                           {R"({"token_uri": "file:///etc"})", "token_uri is no URL"}}) {
        write_to_file(file, text);
        CHECK(says(why(), file + " cannot be used: " + words));
        CHECK_FALSE(says(why(), "hush"));
    }
    const auto unsigned_one = gcs::assertion_of({.email = "a@b",
                                                 .key_id = {},
                                                 .private_key = "hush",
                                                 .client_id = {},
                                                 .client_secret = {},
                                                 .refresh_token = {},
                                                 .token_server = "https://t"},
                                                0);
    CHECK(says(unsigned_one.error(), "the key of the service account a@b cannot be used"));
    CHECK_FALSE(says(unsigned_one.error(), "hush"));
}

TEST_CASE("a service account signs its request for a token, and tokens are renewed when they are revoked") {
    WithAccount story;
    auto connections = http::Connections::open();
    const auto settings = gcs::read_settings(variables_of(story.values));
    REQUIRE(settings.ok());
    const auto assertion = gcs::assertion_of(settings->account, 1'700'000'000);
    REQUIRE(assertion.ok());
    const auto claims = parse_json(
        decoded(assertion->substr(assertion->find('.') + 1, assertion->rfind('.') - assertion->find('.') - 1)));
    CHECK(claims["exp"] == 1'700'003'600);
    CHECK(claims["iss"] == "trainer@rtrain-tests.iam.gserviceaccount.com");
    CHECK(claims["aud"] == story.server.endpoint + "/token");
    const auto token = gcs::fetch_token(*settings, **connections);
    REQUIRE(token.ok());
    CHECK(token->expires_unix_s > std::time(nullptr) + 3'000);

    auto store = bucket_store(kind_named("gcs"), "gs://runs/account", story.values);
    REQUIRE(store->put("a", "x").ok());
    REQUIRE((*connections)
                ->send({.method = "GET", .url = story.server.endpoint + "/revoke", .headers = {}, .body = {}})
                .status == 204);
    CHECK(*store->get("a") == "x");
    CHECK(*store->create("claim", "1"));
    CHECK_FALSE(*store->create("claim", "2"));
}

TEST_CASE("an access token that was given is used as it is, and its end is said") {
    WithAccount story;
    auto connections = http::Connections::open();
    const auto token = gcs::fetch_token(*gcs::read_settings(variables_of(story.values)), **connections);
    REQUIRE(token.ok());
    Named values{{"STORAGE_EMULATOR_HOST", story.server.endpoint}, {"GOOGLE_OAUTH_ACCESS_TOKEN", token->text}};
    auto store = bucket_store(kind_named("gcs"), "gs://runs/token", values);
    REQUIRE(store->put("a", "x").ok());
    (*connections)->send({.method = "GET", .url = story.server.endpoint + "/revoke", .headers = {}, .body = {}});
    const Error ended = store->put("a", "y").error();
    CHECK(ended.code == ErrorCode::unauthorised);
    CHECK(says(ended, "does not accept the token (from GOOGLE_OAUTH_ACCESS_TOKEN in the environment)"));
    CHECK_FALSE(says(ended, token->text));
    values["GOOGLE_OAUTH_ACCESS_TOKEN"] = "a\r\nx-goog-acl: public-read";
    CHECK(says(google_refusal("gs://runs/p", values), "has a space or a control character"));
}

TEST_CASE("the metadata server lends tokens, and only one of Google's is accepted") {
    BucketServer google("gcs"), amazon("s3");
    const auto settings = [](const std::string& endpoint) {
        return *gcs::read_settings(
            variables_of({{"GCE_METADATA_HOST", endpoint.substr(endpoint.find("://") + 3)}, {"HOME", "/none"}}));
    };
    auto connections = http::Connections::open();
    CHECK(gcs::fetch_token(settings(google.endpoint), **connections)->text == "token-1");
    const auto other = gcs::fetch_token(settings(amazon.endpoint), **connections);
    CHECK(says(other.error(), "the server at " + amazon.endpoint + " is not Google's"));
    const auto nobody =
        open_gcs_store("gs://runs/p", variables_of({{"GCE_METADATA_HOST", "127.0.0.1:1"}, {"HOME", "/none"}}));
    CHECK(nobody.error().code == ErrorCode::unauthorised);
    for (const char* words :
         {"gs://runs/p: no Google Cloud Storage credentials", "GS_ACCESS_KEY_ID", "GOOGLE_SERVICE_ACCOUNT_KEY",
          "GOOGLE_APPLICATION_CREDENTIALS", "/none/.config/gcloud/application_default_credentials.json is not there",
          "no metadata server lends a token"})
        CHECK(says(nobody.error(), words));
    const auto off = open_gcs_store("gs://runs/p", variables_of({{"NO_GCE_CHECK", "true"}, {"HOME", "/none"}}));
    CHECK(says(off.error(), "NO_GCE_CHECK is true"));
}

TEST_CASE("a token is kept until five minutes before its end, and longer if none can be had") {
    int fetched = 0;
    std::int64_t lasts_s = 3'600;
    bool fails = false;
    objects::Tokens tokens([&]() -> Result<objects::Token> {
        ++fetched;
        if (fails) return Error{ErrorCode::unreachable, "no answer", ""};
        return objects::Token{std::to_string(fetched), std::time(nullptr) + lasts_s};
    });
    fails = true;
    CHECK(tokens.current().error().message == "no answer");
    fails = false;
    CHECK(*tokens.current() == "2");
    CHECK(*tokens.current() == "2");
    lasts_s = 200;
    CHECK(tokens.renew());
    fails = true;
    CHECK(*tokens.current() == "3");
    CHECK_FALSE(tokens.renew());
    CHECK(*tokens.current() == "3");
    fails = false;
    lasts_s = -1;
    CHECK(tokens.renew());
    CHECK(*tokens.current() == "6");  // each token has expired already
}

TEST_CASE("a token server's refusal names the account and the reason; a wrong clock is named") {
    http::Reply reply{.status = 400,
                      .headers = {{"date", "Thu, 01 Jan 2015 00:00:00 GMT"}},
                      .body = R"({"error": "invalid_grant", "error_description": "Invalid JWT"})",
                      .trouble = {}};
    const Error skewed = objects::read_token(reply, "https://t", "the service account a@b").error();
    CHECK(skewed.code == ErrorCode::unauthorised);
    CHECK(says(skewed,
               "the token server https://t refuses the service account a@b (status 400): invalid_grant: Invalid JWT"));
    CHECK(says(skewed, "set the clock (NTP)"));
    reply.headers.clear();
    CHECK(says(objects::read_token(reply, "https://t", "x").error(), "still valid"));
    reply.status = 503;
    CHECK(objects::read_token(reply, "https://t", "x").error().code == ErrorCode::unreachable);
    reply = {.status = 200, .headers = {}, .body = R"({"access_token": "a\r\nb", "expires_in": 3}))", .trouble = {}};
    CHECK(says(objects::read_token(reply, "https://t", "x").error(), "is no token"));
}

TEST_CASE("a refusal of Google Cloud Storage names the object, the account and what to correct") {
    const BucketKind kind = kind_named("gcs");
    Named values = shared_server(kind);
    const Error bucket = google_refusal("gs://no-such-bucket/p", values);
    CHECK(bucket.code == ErrorCode::invalid);
    CHECK(says(bucket, "writing gs://no-such-bucket/p/a: there is no bucket 'no-such-bucket' at " +
                           values["STORAGE_EMULATOR_HOST"]));
    values["GS_SECRET_ACCESS_KEY"] = "not-it-at-all";
    CHECK(says(google_refusal("gs://runs/p", values), "correct GS_SECRET_ACCESS_KEY"));
    CHECK_FALSE(says(google_refusal("gs://runs/p", values), "not-it-at-all"));
    values["GS_ACCESS_KEY_ID"] = "unknown-WXYZ";
    CHECK(says(google_refusal("gs://runs/p", values),
               "does not know the access key ...WXYZ (from GS_ACCESS_KEY_ID in the environment)"));
    const Error anonymous =
        google_refusal("gs://runs/p", {{"STORAGE_EMULATOR_HOST", values["STORAGE_EMULATOR_HOST"]}, {"HOME", "/n"}});
    CHECK(anonymous.code == ErrorCode::unauthorised);
    CHECK(says(anonymous, "denies it to a request without credentials"));
    CHECK(says(google_refusal("gs://runs/a/../b", values), "'..'"));
}

TEST_CASE("a key that takes its tokens elsewhere than at Google's is known") {
    CHECK(foreign_token_server(user_account)->empty());
    const auto key = [](const std::string& url) {
        return R"({"type": "service_account", "client_email": "a@b", "private_key": "p", "token_uri": ")" + url + "\"}";
    };
    CHECK(foreign_token_server(key("https://oauth2.googleapis.com/token"))->empty());
    CHECK(*foreign_token_server(key("http://169.254.169.254/latest")) == "http://169.254.169.254");
    CHECK(*foreign_token_server(key("https://oauth2.googleapis.com@inside:1/t")) ==
          "https://oauth2.googleapis.com@inside:1");
    CHECK_FALSE(foreign_token_server("{}").ok());
}

}  // namespace rtrain::storage
