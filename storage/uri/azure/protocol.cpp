// Azure's requests for blobs: lists of blocks, listings, removal.
// https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "base/base64.hpp"
#include "base/percent.hpp"
#include "storage/uri/azure/service.hpp"
#include "storage/uri/objects/xml.hpp"

namespace rtrain::storage::azure {
namespace {

using objects::Answer;
using objects::Client;
using objects::ObjectRequest;

constexpr objects::Traits azure_traits{.kind = "Azure Blob Storage",
                                       .condition = "`If-None-Match: *`",
                                       .keepers = "use Azure or Azurite",
                                       .longest_key = 1'024,
                                       // A name of metadata has no hyphen here, and proxies drop underscores.
                                       .writer_header = "x-ms-meta-rtrainwriter"};
constexpr std::size_t longest_segment = 254;

// The upload of a blob in blocks. Blocks belong to the blob's name, so their ids contain the writer's name: a late
// writer's blocks are never taken for those of another.
class BlockList final : public objects::Upload {
  public:
    BlockList(Client& client, std::string key) : client_(client), key_(std::move(key)) {}

    Status begin(std::size_t parts) override {
        count_ = parts;
        return Done{};
    }

    Status send(const objects::Source& source, const objects::Part& part) override {
        ObjectRequest request = objects::sending(source, part, key_);
        request.query = {{"comp", "block"}, {"blockid", id_of(part.number)}};
        auto answer = client_.expect_good(request);
        if (!answer) return answer.error();
        return Done{};
    }

    // A repeated request finds the blocks among the committed ones, and changes nothing.
    Status complete(std::int64_t) override {
        std::string body = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
        for (std::size_t i = 0; i < count_; ++i) body += "<Latest>" + id_of(i) + "</Latest>";
        body += "</BlockList>";
        auto answer = client_.expect_good({.method = "PUT",
                                           .key = key_,
                                           .doing = "writing",
                                           .query = {{"comp", "blocklist"}},
                                           .body = {.memory = body}});
        if (!answer) return answer.error();
        return Done{};
    }

    // Azure has no request for it. Blocks that no list names are removed after a week, or by `abort_uploads`.
    Status abort() override { return Error{ErrorCode::conflict, "blocks cannot be removed one by one", ""}; }

  private:
    std::string id_of(std::size_t number) const {  // All ids of a blob have one length.
        char digits[16];
        std::snprintf(digits, sizeof digits, "-%08zu", number);
        return base64_encode(writer_ + digits);
    }

    Client& client_;
    std::string key_;
    std::string writer_ = objects::random_name();
    std::size_t count_ = 0;
};

class BlobProtocol final : public objects::Protocol {
  public:
    const objects::Traits& traits() const override { return azure_traits; }

    const char* fault_of_key(const std::string& key) const override {
        if (key.find('\\') != key.npos) return "contains a backslash";
        for (std::size_t begin = 0; begin <= key.size();) {
            const std::size_t end = std::min(key.find('/', begin), key.size());
            if (end > begin && key[end - 1] == '.') return "has a part that ends with a dot";
            if (end - begin > longest_segment) return "has a part of more than 254 bytes";
            begin = end + 1;
        }
        return nullptr;
    }

    objects::Headers put_headers() const override { return {{"x-ms-blob-type", "BlockBlob"}}; }
    objects::Headers headers_of_absence() const override { return {{"if-none-match", "*"}}; }
    bool exists_already(const Answer& answer) const override {
        const std::string code = answer.code();
        return (answer.status == 409 && code == "BlobAlreadyExists") ||
               (answer.status == 412 && (code == "ConditionNotMet" || code.empty()));
    }
    bool is_absent(const Answer& answer) const override {
        return answer.code() == "BlobNotFound" || (answer.status == 404 && answer.code().empty());
    }

    Result<objects::Page> list(Client& client, const std::string& key_prefix, const std::string& from) override {
        return list_with(client, key_prefix, from, "");
    }

    Status remove(Client& client, const std::vector<std::string>& keys) override {
        return objects::remove_each(client, *this, keys, {{"x-ms-delete-snapshots", "include"}});
    }

    std::unique_ptr<objects::Upload> upload(Client& client, const std::string& key) override {
        return std::make_unique<BlockList>(client, key);
    }

    // Removes blobs that have blocks only. Where the server does not remove them, an empty blob of the same name
    // discards the blocks and is then removed.
    Status abort_uploads(Client& client, const std::string& key_prefix) override {
        auto with_unfinished = all_keys(client, key_prefix, "uncommittedblobs");
        if (!with_unfinished) return with_unfinished.error();
        for (const std::string& key : *with_unfinished)
            if (Status gone = discard_blocks(client, key); !gone) return gone;
        return Done{};
    }

  private:
    Status discard_blocks(Client& client, const std::string& key) {
        const ObjectRequest removal{
            .method = "DELETE", .key = key, .doing = "removing", .headers = {{"x-ms-delete-snapshots", "include"}}};
        auto removed = client.send(removal);
        if (!removed) return removed.error();
        if (removed->good()) return Done{};
        if (!is_absent(*removed)) return client.refused(removal, *removed);
        ObjectRequest emptying{.method = "PUT", .key = key, .doing = "aborting the upload of"};
        emptying.headers = {{"x-ms-blob-type", "BlockBlob"}, {"if-none-match", "*"}};
        auto emptied = client.send(emptying);
        if (!emptied) return emptied.error();
        if (emptied->good()) return remove(client, {key});
        if (exists_already(*emptied)) return Done{};  // It was committed meanwhile.
        return client.refused(emptying, *emptied);
    }

    Result<objects::Page> list_with(Client& client, const std::string& key_prefix, const std::string& from,
                                    const std::string& include) const {
        ObjectRequest request{.doing = "listing",
                              .query = {{"restype", "container"}, {"comp", "list"}, {"prefix", key_prefix}}};
        if (!from.empty()) request.query["marker"] = from;
        if (!include.empty()) request.query["include"] = include;
        auto answer = client.expect_good(request);
        if (!answer) return answer.error();
        if (!objects::is_answer(answer->body, "EnumerationResults"))
            return objects::no_answer(client, *this, "listing", key_prefix);
        objects::Page page;
        for (objects::Element& blob : objects::elements(answer->body, "Blob")) {
            std::string key = blob["Name"];
            if (blob["Name@Encoded"] == "true") key = percent_decoded(key, Plus::literal).value_or(key);
            if (blob["Properties/ResourceType"] == "directory") continue;
            page.objects.push_back({key, std::strtoll(blob["Properties/Content-Length"].c_str(), nullptr, 10)});
        }
        page.next = objects::element(answer->body, "NextMarker");
        return page;
    }

    Result<std::set<std::string>> all_keys(Client& client, const std::string& key_prefix,
                                           const std::string& include) const {
        std::set<std::string> keys;
        std::string from;
        for (;;) {
            auto page = list_with(client, key_prefix, from, include);
            if (!page) return page.error();
            for (const objects::Object& object : page->objects) keys.insert(object.key);
            if (page->next.empty()) return keys;
            from = page->next;
        }
    }
};

}  // namespace

std::unique_ptr<objects::Protocol> protocol() { return std::make_unique<BlobProtocol>(); }

}  // namespace rtrain::storage::azure
