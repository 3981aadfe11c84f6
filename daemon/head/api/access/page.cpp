// Serves the page for people: files of the binary, equal for all callers. The page requests its data from the API.
#include <string_view>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/page/page_files.hpp"

namespace rtrain::head {
namespace {

// The content security policy of the page: no inline script or style, no other origin, no frame, and no text becomes
// markup.
constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

constexpr const char* no_page =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>rtrain</title>"
    "<h1>This head has no page</h1>"
    "<p>It was built without node. The same facts are in the command line: "
    "<code>rtrain status</code>, <code>rtrain list</code>, <code>rtrain describe RUN</code>.</p>"
    "<p>To build a head with the page, in the sources: <code>scripts/bootstrap page</code>, then "
    "<code>scripts/build</code>.</p></html>\n";

// Files below /assets never change, since their names contain a hash of their content. A browser may keep the other
// files, and must request them again each time.
std::map<std::string, std::string> headers_of(const PageFile& file) {
    const bool fixed = file.path.starts_with("/assets/");
    return {{"cache-control", fixed ? "public, max-age=31536000, immutable" : "no-cache"},
            {"content-encoding", "gzip"},
            {"content-security-policy", policy},
            {"cross-origin-opener-policy", "same-origin"},
            {"etag", std::string(file.etag)},
            {"permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
            {"vary", "accept-encoding"},
            {"x-frame-options", "DENY"}};
}

const PageFile* file_of(const std::string& path) {
    for (const PageFile& file : page_files())
        if (file.path == path) return &file;
    return nullptr;
}

}  // namespace

void get_page(Exchange& exchange) {
    const net::Request& request = exchange.request;
    const PageFile* file = file_of(request.path);
    if (!file && request.path == "/")
        return exchange.responder->send(
            {.status = 200, .body = no_page, .content_type = "text/html; charset=utf-8", .headers = {}});
    if (!file)
        return refuse(exchange, {ErrorCode::not_found, "the page has no " + request.path, "load the page again: /"});
    auto headers = headers_of(*file);
    if (request.header("if-none-match").find(file->etag) != std::string::npos)
        return exchange.responder->send(
            {.status = 304, .body = "", .content_type = std::string(file->content_type), .headers = headers});
    if (request.header("accept-encoding").find("gzip") == std::string::npos)
        return refuse(exchange, {ErrorCode::usage, "the page is kept compressed", "accept it: curl --compressed"});
    exchange.responder->send({.status = 200,
                              .body = std::string(file->gzip),
                              .content_type = std::string(file->content_type),
                              .headers = headers});
}

}  // namespace rtrain::head
