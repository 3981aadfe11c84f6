// The specific parts of S3: signatures, settings, lent credentials, texts of refusals.

#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/crypto/digest.hpp"
#include "base/percent.hpp"
#include "storage/uri/objects/xml.hpp"
#include "storage/uri/s3/lent.hpp"
#include "storage/uri/s3/settings.hpp"
#include "tests/unit/bucket_servers.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;
using Headers = std::vector<std::pair<std::string, std::string>>;

std::string authorization(const Headers& headers) {
    for (const auto& [name, value] : headers)
        if (name == "authorization") return value;
    return "";
}
std::string signature_of(const s3::Signing& signing) {
    const std::string text = authorization(s3::signed_headers(
        signing, {.key_id = "AKIAIOSFODNN7EXAMPLE", .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}));
    return text.substr(text.rfind('=') + 1);
}

}  // namespace

TEST_CASE("requests are signed as Amazon's published examples say") {
    const std::string nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    s3::Signing get{.method = "GET",
                    .host = "examplebucket.s3.amazonaws.com",
                    .path = "/test.txt",
                    .headers = {{"range", "bytes=0-9"}},
                    .payload_sha256 = nothing,
                    .region = "us-east-1",
                    .unix_s = 1369353600};
    CHECK(signature_of(get) == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    get.path = "/";
    get.headers = {};
    get.query = {{"lifecycle", ""}};
    CHECK(signature_of(get) == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    get.query = {{"prefix", "J"}, {"max-keys", "2"}};
    CHECK(signature_of(get) == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    const s3::Signing put{
        .method = "PUT",
        .host = "examplebucket.s3.amazonaws.com",
        .path = "/" + percent_encoded("test$file.text", Slash::kept),
        .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
        .payload_sha256 = crypto::sha256_hex("Welcome to Amazon S3."),
        .region = "us-east-1",
        .unix_s = 1369353600};
    CHECK(signature_of(put) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST_CASE("XML of answers: entities, empty elements, longer names that begin alike") {
    const std::string xml = "<L><Keys>no</Keys><Key/><Key a=\"1\">a &amp;&#x20AC;&#38;lt;</Key><Key>b</Key></L>";
    CHECK(objects::elements(xml, "Key").size() == 3);
    CHECK(objects::element(xml, "Keys") == "no");
    CHECK(objects::element("<L><Key a=\"1\">a &amp;&#x20AC;&#38;lt;</Key></L>", "Key") == "a &\xe2\x82\xac&lt;");
    const auto listed = objects::elements("<L><C><K>a</K><S>1</S></C><C><K>b</K></C></L>", "C");
    CHECK(listed == std::vector<objects::Element>{{{"K", "a"}, {"S", "1"}}, {{"K", "b"}}});
    CHECK(objects::elements("<L><C><K>a</K>", "C").empty());  // cut off
    CHECK(objects::is_answer("<?xml version=\"1.0\"?>\n<L xmlns=\"urn:x\"><C/></L>", "L"));
    CHECK(objects::is_answer("\xEF\xBB\xBF<?xml version=\"1.0\"?><L/>", "L"));  // as Azure sends it
    CHECK(objects::element("<B><N Encoded=\"true\">a</N><P><S>7</S></P></B>", "S") == "7");
    CHECK(objects::elements("<B><N Encoded=\"true\">a</N><P><S>7</S></P></B>", "B") ==
          std::vector<objects::Element>{{{"N", "a"}, {"N@Encoded", "true"}, {"P", ""}, {"P/S", "7"}}});
    for (const char* other : {"<html><body>sign in</body></html>", "<L><C>", "", "it works"})
        CHECK_FALSE(objects::is_answer(other, "L"));
    CHECK(objects::element(xml, "None").empty());
    CHECK(objects::element("<a>" + objects::xml_text("<&>\"'") + "</a>", "a") == "<&>\"'");
}

TEST_CASE("credentials come from the environment, then from the profile's files; what is missing is said") {
    std::string folder = (fs::temp_directory_path() / "rtrain-aws-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    fs::create_directory(folder + "/.aws");
    std::ofstream(folder + "/.aws/credentials")
        << "[default]\naws_access_key_id = D\naws_secret_access_key = ds\n\n[other]\n"
           "aws_access_key_id=O\naws_secret_access_key=os\naws_session_token=ot\n";
    std::ofstream(folder + "/.aws/config")
        << "[profile other]\nregion = eu-west-3\ns3 =\n  max_attempts = 9\nendpoint_url = https://o.example/\n";
    const auto read = [&](Named values) {
        values["HOME"] = folder;
        return s3::read_settings(variables_of(values));
    };
    CHECK(read({})->credentials.key_id == "D");
    CHECK(read({})->region == "us-east-1");
    const auto other = read({{"AWS_PROFILE", "other"}});
    CHECK(other->credentials.token == "ot");
    CHECK(other->region == "eu-west-3");
    CHECK(other->endpoint == "https://o.example");
    CHECK(other->attempts == 6);
    const auto set = read(
        {{"AWS_ACCESS_KEY_ID", "E"}, {"AWS_SECRET_ACCESS_KEY", "es"}, {"AWS_REGION", "r"}, {"AWS_PROFILE", "other"}});
    CHECK(set->credentials.key_id == "E");
    CHECK(set->credentials.token.empty());
    CHECK(set->region == "r");
    CHECK(says(read({{"AWS_PROFILE", "none"}}).error(), "profile 'none' is not in " + folder));
    CHECK(says(read({{"AWS_PROFILE", "none"}, {"AWS_ACCESS_KEY_ID", "E"}}).error(), "AWS_SECRET_ACCESS_KEY"));
    CHECK(says(read({{"AWS_ENDPOINT_URL", "host:80"}}).error(), "http://host:port"));
    fs::remove_all(folder);
}

TEST_CASE("a machine's role lends credentials, which are renewed before they end") {
    BucketServer server("s3", {"--lend-for", "200"});
    const Named values{{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint},
                       {"AWS_ENDPOINT_URL", server.endpoint},
                       {"HOME", "/nonexistent"}};
    auto connections = http::Connections::open();
    const auto lent = s3::lent_credentials(variables_of(values), **connections);
    REQUIRE(lent.ok());
    CHECK(lent->source == "the instance's role trainer-role");
    CHECK(lent->expires_unix_s > std::time(nullptr) + 100);
    CHECK(lent->token == "session-2");
    // The credentials session-4 expire within the five minutes before which credentials are renewed.
    auto store = s3_store("s3://runs/lent", values);
    REQUIRE(store->put("a", "x").ok());
    CHECK(s3::lent_credentials(variables_of(values), **connections)->token == "session-8");
    CHECK(*store->get("a") == "x");
    Named off = values;
    off["AWS_EC2_METADATA_DISABLED"] = "true";
    CHECK(s3::lent_credentials(variables_of(off), **connections).error().code == ErrorCode::not_found);
    off.erase("AWS_EC2_METADATA_DISABLED");
    off["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1";
    CHECK(says(open_s3_store("s3://runs/lent", variables_of(off)).error(),
               "no role of a container or an EC2 instance lends any"));
    off["AWS_CONTAINER_CREDENTIALS_FULL_URI"] =
        server.endpoint + "/latest/meta-data/iam/security-credentials/trainer-role";
    CHECK_FALSE(s3::lent_credentials(variables_of(off), **connections).ok());  // refused without its token
    off["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "container-token";
    CHECK(s3::lent_credentials(variables_of(off), **connections)->source == "the container's role");
}

TEST_CASE("the token of a container's role is the one line of a file, or the error says what the file is") {
    BucketServer server("s3");
    auto connections = http::Connections::open();
    const Folder place;
    const std::string& folder = place.path;
    Named values{{"AWS_CONTAINER_CREDENTIALS_FULL_URI",
                  server.endpoint + "/latest/meta-data/iam/security-credentials/trainer-role"},
                 {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder + "/token"},
                 {"HOME", "/nonexistent"}};
    const auto why_not = [&] { return s3::lent_credentials(variables_of(values), **connections).error().message; };
    CHECK(why_not() == "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE is " + folder +
                           "/token, which cannot be read: No such file or directory");
    std::ofstream(folder + "/token").close();
    CHECK(why_not().ends_with("/token, which is empty"));
    std::ofstream(folder + "/token") << "container-token\nx-header: forged\n";
    CHECK(why_not().ends_with("/token, which has more than one line"));
    std::ofstream(folder + "/token") << "container-token\n";
    CHECK(s3::lent_credentials(variables_of(values), **connections)->source == "the container's role");
    values["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = folder;
    CHECK(says(
        open_s3_store("s3://runs/lent", variables_of(values)).error(),
        "lends any (AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE is " + folder + ", which cannot be read: Is a directory)"));
}

TEST_CASE("a refusal names the object, the server and what to correct, and no secret") {
    const auto refusal = [](const std::string& root, Named values) {
        auto store = open_s3_store(root, variables_of(values));
        return store ? (*store)->put("a", "x").error() : store.error();
    };
    Named values = shared_s3();
    const Error bucket = refusal("s3://no-such-bucket-here/p", values);
    CHECK(bucket.code == ErrorCode::invalid);
    CHECK(says(bucket, "writing s3://no-such-bucket-here/p/a: there is no bucket 'no-such-bucket-here' at " +
                           values["AWS_ENDPOINT_URL"]));
    values["AWS_SECRET_ACCESS_KEY"] = "not-it-at-all";
    const Error secret = refusal("s3://runs/p", values);
    CHECK(secret.code == ErrorCode::unauthorised);
    CHECK(says(secret, "correct AWS_SECRET_ACCESS_KEY"));
    CHECK_FALSE(says(secret, "not-it-at-all"));
    values["AWS_ACCESS_KEY_ID"] = "unknown-WXYZ";
    CHECK(says(refusal("s3://runs/p", values),
               "does not know the access key ...WXYZ (from AWS_ACCESS_KEY_ID in the environment)"));
    CHECK(says(refusal("s3://runs/p", {{"HOME", "/nonexistent"}, {"AWS_EC2_METADATA_DISABLED", "true"}}),
               "no S3 credentials"));
    CHECK(says(refusal("s3://runs/a/../b", values), "'..'"));
}

}  // namespace rtrain::storage
