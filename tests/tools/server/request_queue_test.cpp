// The queue and the loop that empties it, on scripted logits.
#include "tools/server/request_queue.h"

#include <doctest/doctest.h>

#include <thread>

#include "tests/support/tokenizers.h"
#include "tools/server/answer_loop.h"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

using Pushed = RequestQueue::Pushed;

std::shared_ptr<AnswerJob> job_of(const std::string& client, int64_t predict = 5,
                                  bool streams = true) {
    PreparedRequest prepared;
    prepared.ids = {0, 5, 6};
    prepared.options.sampler.temperature = 0;
    prepared.options.context = 100'000;
    prepared.options.predict = predict;
    return std::make_shared<AnswerJob>(client, std::move(prepared), streams);
}

// The clients in the order in which they are served.
std::string served(RequestQueue& queue) {
    std::string out;
    while (const auto job = queue.next(0ms)) {
        out += job->client;
        queue.done();
    }
    return out;
}

void push(RequestQueue& queue, const std::string& clients) {
    for (const char client : clients) {
        REQUIRE(queue.push(job_of(std::string(1, client))) == Pushed::waits);
    }
}

// Answers every prompt with the same token for ever; a pause for each.
class Endless : public TokenSource {
 public:
    std::atomic<int> fed{0};
    std::chrono::microseconds pause{0};
    Result<int32_t> rewind_to_prefix(std::span<const int32_t>) override { return 0; }
    Result<std::span<const float>> feed(std::span<const int32_t>) override {
        return fail(Code::usage, "not used");
    }
    Result<int32_t> feed_best(std::span<const int32_t>) override {
        std::this_thread::sleep_for(pause);
        ++fed;
        return 300;
    }
    RunStats stats() const override { return {}; }
};

// The engine's thread.
class EngineThread {
 public:
    EngineThread(RequestQueue& queue, Endless& source)
        : loop_(queue, source, test::tiny_tokenizer(), {},
                {[](AnswerJob&) {}, [](AnswerJob&) {},
                 [this](AnswerJob&, const Result<Answer>&) { ++ended; }}),
          thread_([this] {
              while (!over_) loop_.step(10ms);
          }) {}
    ~EngineThread() {
        over_ = true;
        thread_.join();
    }
    std::atomic<int> ended{0};

 private:
    AnswerLoop loop_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

// Takes everything; the tokens' text.
std::string taken(AnswerJob& job) {
    std::string out;
    while (true) {
        const auto taken = job.take(1s);
        for (const auto& piece : taken.pieces) out += piece.content;
        if (taken.finished) return out;
    }
}

}  // namespace

TEST_CASE("the queue serves clients in turn") {
    RequestQueue queue(100);
    push(queue, "aaaabbc");
    CHECK(served(queue) == "abcabaa");
}

TEST_CASE("a client that comes to the queue later does not wait for all of another's requests") {
    RequestQueue queue(100);
    push(queue, "aaaaaaaaaa");
    REQUIRE(queue.next(0ms)->client == "a");
    queue.done();
    REQUIRE(queue.next(0ms)->client == "a");
    push(queue, "b");
    queue.done();
    // The turn after the one that is being served.
    CHECK(queue.next(0ms)->client == "b");
    queue.done();
}

TEST_CASE("clients of the queue that come again and again do not keep another from its turn") {
    RequestQueue queue(100);
    push(queue, "aabc");
    std::string order;
    for (int i = 0; i < 6; ++i) {
        const auto job = queue.next(0ms);
        order += job->client;
        if (job->client != "a") push(queue, job->client);
        queue.done();
    }
    CHECK(order.substr(0, 5) == "abcab");
}

TEST_CASE("the queue has a limit and says when to come back") {
    RequestQueue queue(2);
    CHECK(queue.retry_after_s() == 1);
    const auto first = job_of("a"), second = job_of("a"), third = job_of("a");
    CHECK(queue.push(first) == Pushed::waits);
    CHECK(queue.push(second) == Pushed::waits);
    CHECK(queue.push(third) == Pushed::full);
    CHECK(queue.place(*first) == 1);
    CHECK(queue.place(*second) == 2);
    CHECK(queue.place(*third) == 0);
    queue.leave(first);
    CHECK(first->cancelled());
    CHECK(queue.waiting() == 1);
    CHECK(queue.place(*second) == 1);
    CHECK(queue.push(third) == Pushed::waits);
    CHECK(queue.next(0ms) == second);
    CHECK(queue.running() == second);
    CHECK(queue.place(*second) == 0);
    std::this_thread::sleep_for(20ms);
    queue.done();
    CHECK(queue.expected_wait_s(2) >= 0.02);
    CHECK(queue.expected_wait_s(1) == 0);
}

TEST_CASE("a stopped queue cancels what waits and runs and takes no more") {
    RequestQueue queue(10);
    const auto running = job_of("a"), waiting = job_of("b");
    queue.push(running);
    queue.push(waiting);
    REQUIRE(queue.next(0ms) == running);
    queue.stop();
    CHECK(running->cancelled());
    REQUIRE(waiting->take(0ms).finished);
    CHECK(waiting->result().error().code == Code::interrupted);
    CHECK(queue.push(job_of("c")) == Pushed::stopped);
    CHECK(queue.next(0ms) == nullptr);
}

TEST_CASE("many clients of the queue get their own whole answers") {
    RequestQueue queue(100);
    Endless source;
    EngineThread engine(queue, source);
    const std::string piece(test::tiny_tokenizer().bytes(300));
    std::vector<std::thread> clients;
    std::atomic<int> right{0};
    for (int client = 0; client < 8; ++client) {
        clients.emplace_back([&, client] {
            for (int64_t length = 1; length <= 10; ++length) {
                const auto job = job_of(std::to_string(client), length, client % 2 == 0);
                if (queue.push(job) != Pushed::waits) continue;
                const std::string streamed = taken(*job);
                std::string wanted;
                for (int64_t i = 0; i < length; ++i) wanted += piece;
                right += job->result()->text == wanted &&
                         streamed == (client % 2 == 0 ? wanted : std::string());
                queue.leave(job);
            }
        });
    }
    for (auto& client : clients) client.join();
    CHECK(right == 80);
    CHECK(engine.ended == 80);
}

TEST_CASE("an answer whose client leaves the queue stops at once and the next one begins") {
    RequestQueue queue(100);
    Endless source;
    source.pause = 1ms;
    EngineThread engine(queue, source);
    const auto endless = job_of("a", -1), next = job_of("b", 3);
    queue.push(endless);
    queue.push(next);
    while (endless->take(1s).pieces.empty()) {
    }
    const auto left = Clock::now();
    queue.leave(endless);
    CHECK_FALSE(taken(*next).empty());
    CHECK(seconds_since(left) < 0.5);
    CHECK(engine.ended == 2);
    CHECK(endless->result()->finish == Finish::interrupted);
}

TEST_CASE("the queue's engine does not wait for a client that takes nothing") {
    RequestQueue queue(100);
    Endless source;
    EngineThread engine(queue, source);
    const auto deaf = job_of("a", -1);
    queue.push(deaf);
    while (engine.ended == 0) std::this_thread::sleep_for(1ms);
    CHECK(deaf->cancelled());
    while (!deaf->take(1s).finished) {
    }
    CHECK(deaf->result()->finish == Finish::interrupted);
    CHECK(source.fed > 1000);
}
