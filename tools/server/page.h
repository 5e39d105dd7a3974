// The page at "/": page.html, made part of the program by the build (embed_page.cmake).
#pragma once

#include <string_view>

#include "tools/server/http_message.h"

namespace sluice {

std::string_view page_html();

// The page with a new nonce in its <script> and <style> tags, and a Content-Security-Policy that
// allows these two, connections to this server, and nothing else.
HttpReply page_reply();

}  // namespace sluice
