#include "tools/server/endpoint.h"

#include "tools/api/errors.h"

namespace sluice {

void reply_error(Exchange& exchange, int status, std::string_view message, const Dialect* dialect) {
    exchange.reply(
        {status, dialect ? dialect->error(status, message) : openai_error(status, message)});
}

}  // namespace sluice
