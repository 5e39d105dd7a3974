#include "tools/client/open_answerer.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "io/text.h"
#include "tools/answer/local_answerer.h"
#include "tools/answer/model_run.h"
#include "tools/client/remote_answerer.h"
#include "tools/server/access.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

// "--attach http://127.0.0.1:8080: ..."
tl::unexpected<Error> about_server(const Options& options, Error error) {
    return within(cat(options.attach.source, ' ', printable(options.attach.url)), std::move(error));
}

// The first of those given: a server takes any of its keys.
Result<std::string> api_key(const Options& options) {
    if (options.serve.api_keys.empty()) return std::string();
    auto keys = read_api_keys(options.serve.api_keys.front());
    if (!keys) return tl::unexpected(keys.error());
    return keys->front();
}

// The server's model with the name of the one given, or its first; null: it serves none of that
// name.
const RemoteModel* served(const std::vector<RemoteModel>& models, const Options& options) {
    if (options.engine.locations.empty()) return &models.front();
    const auto found = std::ranges::find(models, model_name(options), &RemoteModel::name);
    return found == models.end() ? nullptr : &*found;
}

// Finds out whether the server answers; null: a model is to be loaded here, and it was said why.
class Attaching {
 public:
    Attaching(const Options& options, const Terminal& terminal)
        : options_(options),
          terminal_(terminal),
          may_load_(!options.attach.typed && !options.engine.locations.empty()) {}

    Result<std::unique_ptr<Answerer>> run() {
        const std::string& flag = options_.attach.loading_flag;
        if (may_load_ && !flag.empty()) return load_here(cat(flag, " has no use there"));
        auto url = parse_server_url(options_.attach.url);
        if (!url) return within(options_.attach.source, url.error());
        auto key = api_key(options_);
        if (!key) return tl::unexpected(key.error());
        auto client = HttpClient::connect(std::move(*url), std::move(*key), *cancel_flag());
        if (!client) return unreachable(client.error());
        auto models = remote_models(*client, options_, terminal_);
        if (!models) return about_server(options_, models.error());
        if (const RemoteModel* model = served(*models, options_))
            return remote_answerer(std::move(*client), *model, options_, terminal_);
        return serves_another(models->front().name);
    }

 private:
    Result<std::unique_ptr<Answerer>> load_here(std::string_view why) const {
        if (!options_.quiet) {
            std::fprintf(stderr, "sluice: %s %s is not used: %s; the model is loaded here\n",
                         printable(options_.attach.source).c_str(),
                         printable(options_.attach.url).c_str(), std::string(why).c_str());
        }
        return nullptr;
    }
    Result<std::unique_ptr<Answerer>> unreachable(Error error) const {
        if (error.code != Code::io) return about_server(options_, error);
        if (may_load_) return load_here(error.message);
        error.message += "; `sluice serve MODEL` starts a server";
        return about_server(options_, error);
    }
    Result<std::unique_ptr<Answerer>> serves_another(const std::string& name) const {
        const std::string other =
            cat("it serves ", printable(name), ", not ", printable(model_name(options_)));
        if (may_load_) return load_here(other);
        return about_server(options_,
                            {Code::usage, other + "; leave out the MODEL, or the server"});
    }

    const Options& options_;
    const Terminal& terminal_;
    const bool may_load_;
};

}  // namespace

Result<std::unique_ptr<Answerer>> open_answerer(const Options& options, const Terminal& terminal,
                                                const OpenAnswerer& how) {
    if (!options.attach.url.empty()) {
        auto remote = Attaching(options, terminal).run();
        if (!remote || *remote) return remote;
    }
    auto run = load_model(options, terminal, how.report_placement);
    if (!run) return tl::unexpected(run.error());
    return local_answerer(std::move(*run), options, terminal, how.predict_must_fit);
}

}  // namespace sluice
