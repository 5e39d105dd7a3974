// The HTTP service: checks who asks, finds the endpoint, counts and logs. The endpoints themselves
// are in answer_endpoint, model_endpoints and page.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "tools/api/dialect.h"
#include "tools/server/access.h"
#include "tools/server/endpoint.h"
#include "tools/server/http_server.h"
#include "tools/server/monitor.h"
#include "tools/server/request_queue.h"
#include "tools/server/served_model.h"

namespace sluice {

struct ServiceOptions {
    AccessRules access;
    bool log_requests = true;  // a line each on stderr
    bool log_details = false;  // also what the page polls, and the fields that change nothing
};

class Service : public HttpHandler {
 public:
    // All but `options` outlive the service.
    Service(ServiceOptions options, std::span<const ApiRoute> routes, RequestQueue& queue,
            Monitor& monitor);

    // The thread that loads, then answers.
    void loading(double done);                 // 0..1
    void loaded(const ServedModel& model);     // outlives the service
    void stopping();                           // what comes from now on is refused with 503
    void served_by(const HttpServer& server);  // whose connections /metrics counts

    void handle(Exchange& exchange) override;
    bool wants_body(Exchange& exchange) override;
    void refuse(Exchange& exchange, int status, const std::string& problem) override;

 private:
    void add_endpoints(std::span<const ApiRoute> routes);
    // The first endpoint at the path; `other` says whether it wants another method.
    const Endpoint* find(const HttpRequest& request, bool& other) const;
    // The endpoint that the request is for; null: it was refused, or needs none (OPTIONS).
    const Endpoint* endpoint_for(Exchange& exchange, Handled& handled) const;
    bool admitted(Exchange& exchange, const Endpoint* endpoint, Handled& handled) const;
    bool available(Exchange& exchange, const Endpoint& endpoint) const;
    void preflight(Exchange& exchange) const;
    void health(Exchange& exchange) const;
    void note_reply(const Exchange& exchange, const Handled& handled, double seconds);

    const ServiceOptions options_;
    RequestQueue& queue_;
    Monitor& monitor_;
    std::vector<Endpoint> endpoints_;
    std::atomic<const HttpServer*> server_{nullptr};
    std::atomic<const ServedModel*> model_{nullptr};
    std::atomic<double> load_done_{0};
    std::atomic<bool> stopping_{false};
};

}  // namespace sluice
