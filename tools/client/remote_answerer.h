// Answers with the model of a server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/answer/answerer.h"
#include "tools/client/http_client.h"
#include "tools/terminal/terminal.h"

namespace sluice {

struct RemoteModel {
    std::string name;     // as the server writes it
    int32_t context = 0;  // tokens; 0: the server does not say
};

// The server's models, at least one. Waits while the server loads, and says so on stderr. Errors
// are those of HttpClient::ask() and refusal_of().
Result<std::vector<RemoteModel>> remote_models(const HttpClient& client, const Options& options,
                                               const Terminal& terminal);

// usage: what is wrong with --format.
Result<std::unique_ptr<Answerer>> remote_answerer(HttpClient client, const RemoteModel& model,
                                                  const Options& options, const Terminal& terminal);

}  // namespace sluice
