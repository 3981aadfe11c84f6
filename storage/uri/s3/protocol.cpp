#include "storage/uri/s3/protocol.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/base64.hpp"
#include "base/crypto/digest.hpp"
#include "base/percent.hpp"
#include "storage/uri/objects/xml.hpp"

namespace rtrain::storage::s3 {
namespace {

using objects::Answer;
using objects::Client;
using objects::ObjectRequest;
constexpr std::size_t removed_by_one_request = 1'000;

class Multipart final : public objects::Upload {
  public:
    Multipart(Client& client, std::string key, const Dialect& dialect)
        : client_(client), key_(std::move(key)), dialect_(dialect) {}

    Status begin(std::size_t parts) override {
        const ObjectRequest request{.method = "POST",
                                    .key = key_,
                                    .doing = "writing",
                                    .query = {{"uploads", ""}},
                                    .headers = {{dialect_.traits.writer_header, writer_}}};
        auto answer = client_.expect_good(request);
        if (!answer) return answer.error();
        id_ = objects::element(answer->body, "UploadId");
        if (id_.empty())
            return Error{ErrorCode::io, "writing " + client_.shown(key_) + ": the server names no upload", ""};
        tags_.resize(parts);
        return Done{};
    }

    Status send(const objects::Source& source, const objects::Part& part) override {
        ObjectRequest request = objects::sending(source, part, key_);
        request.query = {{"partNumber", std::to_string(part.number + 1)}, {"uploadId", id_}};
        auto answer = client_.expect_good(request);
        if (!answer) return answer.error();
        tags_[part.number] = answer->header("etag");
        return Done{};
    }

    Status complete(std::int64_t bytes) override {
        std::string body = "<CompleteMultipartUpload>";
        for (std::size_t i = 0; i < tags_.size(); ++i)
            body += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + objects::xml_text(tags_[i]) +
                    "</ETag></Part>";
        body += "</CompleteMultipartUpload>";
        const ObjectRequest request{
            .method = "POST", .key = key_, .doing = "writing", .query = {{"uploadId", id_}}, .body = {.memory = body}};
        auto answer = client_.send(request);
        if (!answer) return answer.error();
        // The answer may begin well and report a failure at its end.
        if (answer->good() && answer->body.find("<Error>") == answer->body.npos) return Done{};
        if (answer->tries > 1 && answer->code() == "NoSuchUpload" && is_completed(bytes)) return Done{};
        return client_.refused(request, *answer);
    }

    // A server that does not answer has failed the upload already. `abort_uploads` finds the rest.
    Status abort() override {
        auto answer = client_.send({.method = "DELETE",
                                    .key = key_,
                                    .doing = "aborting the upload of",
                                    .query = {{"uploadId", id_}},
                                    .tries_most = 1});
        if (!answer) return answer.error();
        return Done{};
    }

  private:
    // An earlier try was carried out, and only its answer was lost.
    bool is_completed(std::int64_t bytes) {
        auto answer = client_.send({.method = "HEAD", .key = key_, .doing = "reading"});
        return answer && answer->good() && answer->header("content-length") == std::to_string(bytes) &&
               answer->header(dialect_.traits.writer_header) == writer_;
    }

    Client& client_;
    std::string key_, id_;
    const Dialect& dialect_;
    std::string writer_ = objects::random_name();
    std::vector<std::string> tags_;
};

std::string error_xml(objects::Element& error) {
    return "<Error><Code>" + objects::xml_text(error["Code"]) + "</Code><Message>" +
           objects::xml_text(error["Message"]) + "</Message></Error>";
}

class XmlProtocol final : public objects::Protocol {
  public:
    explicit XmlProtocol(const Dialect& dialect) : dialect_(dialect) {}

    const objects::Traits& traits() const override { return dialect_.traits; }
    const char* fault_of_key(const std::string&) const override { return nullptr; }
    objects::Headers put_headers() const override { return {}; }
    objects::Headers headers_of_absence() const override { return {{dialect_.absence_header, dialect_.absence_value}}; }
    bool exists_already(const Answer& answer) const override { return answer.status == 412; }
    bool is_absent(const Answer& answer) const override {
        return answer.code() == "NoSuchKey" || (answer.status == 404 && answer.code().empty());
    }

    Result<objects::Page> list(Client& client, const std::string& key_prefix, const std::string& from) override {
        ObjectRequest request{.doing = "listing",
                              .query = {{"list-type", "2"}, {"prefix", key_prefix}, {"encoding-type", "url"}}};
        if (!from.empty()) request.query["continuation-token"] = from;
        auto answer = client.expect_good(request);
        if (!answer) return answer.error();
        if (!objects::is_answer(answer->body, "ListBucketResult"))
            return objects::no_answer(client, *this, "listing", key_prefix);
        objects::Page page;
        const bool encoded = objects::element(answer->body, "EncodingType") == "url";
        for (objects::Element& object : objects::elements(answer->body, "Contents")) {
            std::string key = object["Key"];
            if (encoded) key = percent_decoded(key, Plus::space).value_or(key);
            page.objects.push_back({key, std::strtoll(object["Size"].c_str(), nullptr, 10)});
        }
        if (objects::element(answer->body, "IsTruncated") == "true")
            page.next = objects::element(answer->body, "NextContinuationToken");
        return page;
    }

    Status remove(Client& client, const std::vector<std::string>& keys) override {
        if (!dialect_.removes_many || keys.size() == 1) return objects::remove_each(client, *this, keys);
        for (std::size_t at = 0; at < keys.size(); at += removed_by_one_request) {
            const auto begin = keys.begin() + static_cast<std::ptrdiff_t>(at);
            const auto end = begin + static_cast<std::ptrdiff_t>(std::min(removed_by_one_request, keys.size() - at));
            if (Status gone = remove_many(client, {begin, end}); !gone) return gone;
        }
        return Done{};
    }

    std::unique_ptr<objects::Upload> upload(Client& client, const std::string& key) override {
        return std::make_unique<Multipart>(client, key, dialect_);
    }

    Status abort_uploads(Client& client, const std::string& key_prefix) override {
        auto answer = client.expect_good({.doing = "listing", .query = {{"uploads", ""}, {"prefix", key_prefix}}});
        if (!answer) return answer.error();
        for (objects::Element& open_upload : objects::elements(answer->body, "Upload")) {
            const ObjectRequest request{.method = "DELETE",
                                        .key = open_upload["Key"],
                                        .doing = "aborting the upload of",
                                        .query = {{"uploadId", open_upload["UploadId"]}}};
            if (auto gone = client.send(request); !gone) return gone.error();
        }
        return Done{};
    }

  private:
    Status remove_many(Client& client, const std::vector<std::string>& keys) const {
        std::string body = "<Delete><Quiet>true</Quiet>";
        for (const std::string& key : keys) body += "<Object><Key>" + objects::xml_text(key) + "</Key></Object>";
        body += "</Delete>";
        const ObjectRequest request{.method = "POST",
                                    .doing = "removing objects of",
                                    .query = {{"delete", ""}},
                                    .headers = {{"content-md5", base64_encode(crypto::md5(body))}},
                                    .body = {.memory = body}};
        auto answer = client.expect_good(request);
        if (!answer) return answer.error();
        if (!answer->body.empty() && !objects::is_answer(answer->body, "DeleteResult"))
            return objects::no_answer(client, *this, "removing", keys.front());
        for (objects::Element& error : objects::elements(answer->body, "Error"))
            if (error["Code"] != "NoSuchKey")
                return client.refused({.key = error["Key"], .doing = "removing"},
                                      {.status = 403, .headers = {}, .body = error_xml(error)});
        return Done{};
    }

    const Dialect& dialect_;
};

}  // namespace

std::unique_ptr<objects::Protocol> protocol_of(const Dialect& dialect) {
    return std::make_unique<XmlProtocol>(dialect);
}

}  // namespace rtrain::storage::s3
