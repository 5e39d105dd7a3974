// What a server's refusals and broken replies become here.
#pragma once

#include <string_view>

#include "io/error.h"
#include "io/json.h"
#include "tools/client/http_client.h"

namespace sluice {

// Of a reply whose status is not 200: the server's own words, if its body has some in a form that
// is known, and the next step. usage: a request that it refuses, a key that it wants; io: anything
// else. Safe to print.
Error refusal_of(const ServerReply& reply);

// Of the member "error" of an event.
Error failure_of(const Json& error);

}  // namespace sluice
