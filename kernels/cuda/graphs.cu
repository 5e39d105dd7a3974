#include <algorithm>
#include <map>
#include <utility>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/graphs.cuh"

namespace sluice::cuda {

void allow_shared(const void* kernel, size_t bytes) {
    constexpr size_t always = 48 * 1024;
    static std::map<std::pair<int, const void*>, size_t> allowed;
    if (bytes <= always) return;
    int device = 0;
    cudaGetDevice(&device);
    size_t& most = allowed.try_emplace({device, kernel}, always).first->second;
    if (bytes <= most) return;
    most = bytes;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
}

namespace {

constexpr size_t argument_alignment = 16;

}  // namespace

Graphs::~Graphs() {
    for (auto& [tag, graphs] : known_) {
        for (Graph& graph : graphs) {
            if (graph.ready) cudaGraphExecDestroy(graph.ready);
            if (graph.graph) cudaGraphDestroy(graph.graph);
        }
    }
}

void Graphs::keep(const void* argument, size_t size, size_t alignment) {
    static_assert(alignof(std::max_align_t) >= argument_alignment);
    const size_t step = std::max(alignment, sizeof(void*));
    const size_t at = (recorded_.bytes.size() + step - 1) / step * step;
    recorded_.bytes.resize(at + size);
    std::memcpy(recorded_.bytes.data() + at, argument, size);
    recorded_.offsets.push_back(at);
}

bool Graphs::same_kernels(const Sequence& a, const Sequence& b) {
    return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
                      [](const Node& x, const Node& y) { return x.kernel == y.kernel; });
}

// The same kernels lay out their arguments alike, so the offsets agree.
bool Graphs::same(const Sequence& a, const Sequence& b, size_t node) {
    const Node &x = a.nodes[node], &y = b.nodes[node];
    const size_t begin = node == 0 ? 0 : a.nodes[node - 1].bytes_end;
    return x.grid.x == y.grid.x && x.grid.y == y.grid.y && x.grid.z == y.grid.z &&
           x.threads == y.threads && x.shared == y.shared &&
           std::memcmp(a.bytes.data() + begin, b.bytes.data() + begin, x.bytes_end - begin) == 0;
}

std::vector<void*> Graphs::arguments(size_t node) {
    const size_t end = node + 1 < recorded_.nodes.size() ? recorded_.nodes[node + 1].first
                                                         : recorded_.offsets.size();
    std::vector<void*> out;
    for (size_t i = recorded_.nodes[node].first; i < end; ++i)
        out.push_back(recorded_.bytes.data() + recorded_.offsets[i]);
    return out;
}

cudaError_t Graphs::make(Graph& graph, bool overlap) {
    if (auto error = cudaGraphCreate(&graph.graph, 0); error != cudaSuccess) return error;
    cudaGraphEdgeData edge{};
    if (overlap) {
        edge.type = cudaGraphDependencyTypeProgrammatic;
        edge.from_port = cudaGraphKernelNodePortProgrammatic;
    }
    cudaGraphNode_t before = nullptr;
    for (size_t i = 0; i < recorded_.nodes.size(); ++i) {
        const Node& node = recorded_.nodes[i];
        auto pointers = arguments(i);
        cudaGraphNodeParams params{};
        params.type = cudaGraphNodeTypeKernel;
        params.kernel.func = const_cast<void*>(node.kernel);
        params.kernel.gridDim = node.grid;
        params.kernel.blockDim = dim3(node.threads);
        params.kernel.sharedMemBytes = node.shared;
        params.kernel.kernelParams = pointers.data();
        cudaGraphNode_t made = nullptr;
        auto error = cudaGraphAddNode(&made, graph.graph, &before, &edge, i ? 1 : 0, &params);
        if (error != cudaSuccess) return error;
        graph.nodes.push_back(made);
        before = made;
    }
    graph.sequence = recorded_;
    return cudaGraphInstantiate(&graph.ready, graph.graph, 0);
}

cudaError_t Graphs::set_changed(Graph& graph) {
    for (size_t i = 0; i < recorded_.nodes.size(); ++i) {
        if (same(graph.sequence, recorded_, i)) continue;
        const Node& node = recorded_.nodes[i];
        auto pointers = arguments(i);
        cudaKernelNodeParams params{};
        params.func = const_cast<void*>(node.kernel);
        params.gridDim = node.grid;
        params.blockDim = dim3(node.threads);
        params.sharedMemBytes = node.shared;
        params.kernelParams = pointers.data();
        auto error = cudaGraphExecKernelNodeSetParams(graph.ready, graph.nodes[i], &params);
        if (error != cudaSuccess) return error;
    }
    std::swap(graph.sequence, recorded_);
    return cudaSuccess;
}

cudaError_t Graphs::flush(cudaStream_t stream, bool overlap) {
    if (recorded_.nodes.empty()) return cudaSuccess;
    auto& graphs = known_[tag_];
    auto found = std::find_if(graphs.begin(), graphs.end(),
                              [&](const Graph& g) { return same_kernels(g.sequence, recorded_); });
    cudaError_t error = cudaSuccess;
    if (found == graphs.end()) {
        graphs.emplace_back();
        found = graphs.end() - 1;
        error = make(*found, overlap);
    } else {
        error = set_changed(*found);
    }
    recorded_.clear();
    if (error == cudaSuccess) return cudaGraphLaunch(found->ready, stream);
    // A graph that is only half made must not be found again.
    if (found->ready) cudaGraphExecDestroy(found->ready);
    if (found->graph) cudaGraphDestroy(found->graph);
    graphs.erase(found);
    return error;
}

}  // namespace sluice::cuda
