// An API request from its body to its reply: parsed by its dialect, checked, queued, answered, and
// written as a stream or as a whole. On the connection's thread, which waits for the engine's.
#pragma once

#include "tools/api/dialect.h"
#include "tools/server/endpoint.h"
#include "tools/server/monitor.h"
#include "tools/server/request_queue.h"
#include "tools/server/served_model.h"

namespace sluice {

class AnswerEndpoint {
 public:
    AnswerEndpoint(const Dialect& dialect, RequestQueue& queue, Monitor& monitor)
        : dialect_(dialect), queue_(queue), monitor_(monitor) {}
    void handle(const ServedModel& model, Exchange& exchange, Handled& handled) const;

 private:
    bool push(Exchange& exchange, const std::shared_ptr<AnswerJob>& job) const;
    // False: the client has gone.
    bool follow(Exchange& exchange, AnswerJob& job, ReplyWriter& writer) const;
    const Dialect& dialect_;
    RequestQueue& queue_;
    Monitor& monitor_;
};

}  // namespace sluice
