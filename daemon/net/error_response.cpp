// Makes the answers that the server gives itself, in the form of the API's errors (docs/http-api.md). Finds headers in
// any case.
#include <cstdio>

#include "daemon/net/session.hpp"

namespace rtrain::net {
namespace {

struct Row {
    int status;
    const char* text;
};

Row row_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::usage:
            return {400, "usage"};
        case ErrorCode::not_found:
            return {404, "not_found"};
        case ErrorCode::invalid:
            return {422, "invalid"};
        case ErrorCode::unreachable:
            return {503, "unreachable"};
        case ErrorCode::unauthorised:
            return {401, "unauthorised"};
        case ErrorCode::conflict:
            return {409, "conflict"};
        case ErrorCode::timed_out:
            return {504, "timed_out"};
        case ErrorCode::unplaceable:
            return {409, "unplaceable"};
        case ErrorCode::io:
            return {500, "io"};
        case ErrorCode::damaged:
            return {500, "damaged"};
        case ErrorCode::full:
            return {507, "full"};
        case ErrorCode::internal:
            return {500, "internal"};
    }
    return {500, "internal"};
}

// Text from the network may not be UTF-8: bytes beyond ASCII are shown as question marks.
std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (unsigned char c : text) {
        char escaped[8];
        if (c == '"' || c == '\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c < 0x20) {
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        } else {
            out += c < 0x7f ? static_cast<char>(c) : '?';
        }
    }
    return out + "\"";
}

}  // namespace

Response error_response(const Error& error, int status) {
    const Row row = row_of(error.code);
    return {.status = status == 0 ? row.status : status,
            .body = "{\"schema_version\":1,\"code\":\"" + std::string(row.text) + "\",\"message\":" +
                    quoted(error.message) + ",\"problems\":[],\"next\":" + quoted(error.next) + "}\n"};
}

std::string Request::header(std::string_view name) const {
    std::string lower(name);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const auto entry = headers.find(lower);
    return entry == headers.end() ? std::string{} : entry->second;
}

}  // namespace rtrain::net
