// Fuzzes WebSocket frames of a peer after the upgrade, which Beast reads with the head's settings, and their texts.
#include <boost/beast/_experimental/test/stream.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "daemon/protocol/messages.hpp"
#include "tests/fuzz/input.hpp"

namespace beast = boost::beast;
using namespace rtrain;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::string_view upgrade =
        "GET /v1/agents HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    boost::asio::io_context io;
    beast::test::stream ours(io), peer(io);
    ours.connect(peer);
    beast::websocket::stream<beast::test::stream, false> socket(std::move(ours));
    socket.read_message_max(std::size_t{16} << 20);
    beast::test::stream& below = socket.next_layer();
    below.append({upgrade.data(), upgrade.size()});
    beast::error_code error;
    socket.accept(error);
    fuzz::promise(!error, "an upgrade is accepted");
    below.append({reinterpret_cast<const char*>(data), size});
    peer.close();  // no further bytes follow the written ones
    while (!error) {
        beast::flat_buffer in;
        socket.read(in, error);
        if (error) break;
        (void)protocol::decode_from_agent(beast::buffers_to_string(in.data()));
    }
    return 0;
}
