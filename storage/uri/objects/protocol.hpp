// The requests in which the kinds of object stores differ. Used inside of storage/uri only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "storage/uri/objects/client.hpp"

namespace rtrain::storage::objects {

struct Source {  // an open local file that is uploaded
    Descriptor file;
    std::string path;
    std::int64_t bytes = 0;
};
struct Part {
    std::size_t number = 0;  // counts from 0
    std::int64_t offset = 0, bytes = 0;
};
// Returns the request that sends a part of the file, or the whole file.
ObjectRequest sending(const Source&, const Part&, const std::string& key);

// The upload of one object in parts. The object appears when `complete` succeeds, and has its whole content.
class Upload {
  public:
    virtual ~Upload() = default;
    virtual Status begin(std::size_t parts) = 0;
    virtual Status send(const Source&, const Part&) = 0;  // called by several threads at once
    virtual Status complete(std::int64_t bytes) = 0;
    virtual Status abort() = 0;  // tried once
};

struct Object {
    std::string key;
    std::int64_t bytes = 0;
};
struct Page {
    std::vector<Object> objects;
    std::string next;  // where the following page begins; empty: there is none
};

struct Traits {
    const char* kind;         // "S3", for messages
    const char* condition;    // the condition of an exclusive creation, for messages
    const char* keepers;      // the servers that keep it, for messages
    std::size_t longest_key;  // bytes
    // The header that stores the name of an object's writer with the object, in lower case.
    const char* writer_header;
};

class Protocol {
  public:
    virtual ~Protocol() = default;
    virtual const Traits& traits() const = 0;
    virtual const char* fault_of_key(const std::string& key) const = 0;  // nullptr: the server accepts the key
    virtual Headers put_headers() const = 0;
    virtual Headers headers_of_absence() const = 0;        // the condition that no object has the key
    virtual bool exists_already(const Answer&) const = 0;  // the refusal of such a condition
    virtual bool is_absent(const Answer&) const = 0;       // the refusal of a request for an absent object
    virtual Result<Page> list(Client&, const std::string& key_prefix, const std::string& from) = 0;
    virtual Status remove(Client&, const std::vector<std::string>& keys) = 0;  // succeeds for absent objects
    virtual std::unique_ptr<Upload> upload(Client&, const std::string& key) = 0;
    // Aborts the uploads that an ended writer left unfinished.
    virtual Status abort_uploads(Client&, const std::string& key_prefix) = 0;
};

std::string random_name();  // 24 hexadecimal digits
// Calls `work` for 0 to `count` - 1, in several threads at once. After the first failure no further call begins.
Status for_each_of(std::size_t count, std::size_t at_once, const std::function<Status(std::size_t)>& work);
// Removes objects with one request each, a few at a time.
Status remove_each(Client&, const Protocol&, const std::vector<std::string>& keys, const Headers& headers = {});
// The answer is not the server's XML (for example a proxy's HTML page or a truncated body). It must not be read as an
// empty listing.
Error no_answer(Client&, const Protocol&, const std::string& doing, const std::string& key);

// Returns the hash of the request's body, in memory or a part of an open file.
Result<std::string> sha256_of_body(const ObjectRequest&);  // hexadecimal
Result<std::string> md5_of_body(const ObjectRequest&);     // base64, as in Content-MD5

}  // namespace rtrain::storage::objects
