// The compiled parts of Asio (with TLS) and Beast, once for the whole binary: see the definitions in
// daemon/CMakeLists.txt.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
