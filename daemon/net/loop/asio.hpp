// The names from Boost.Asio and OpenSSL that this folder uses. Sockets have the concrete executor of an io_context,
// which compiles and runs faster than the type-erased one. asio_impl.cpp contains the compiled parts of the libraries.
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>

namespace rtrain::net {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using Tcp = asio::basic_stream_socket<tcp, asio::io_context::executor_type>;
using Tls = asio::ssl::stream<Tcp>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                                         asio::io_context::executor_type>;
using OnBytes = std::function<void(error_code, std::size_t)>;
using OnDone = std::function<void(error_code)>;

}  // namespace rtrain::net
