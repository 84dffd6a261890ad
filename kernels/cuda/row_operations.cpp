// SPDX-License-Identifier: Apache-2.0
// Rows, router and loss: sizes checked, then queued.
#include "kernels/cuda/context.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/operations.h"

namespace piper::cuda {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30U;
constexpr std::int64_t kMostColumns = std::int64_t{1} << 24U;

bool within(std::int64_t value, std::int64_t low, std::int64_t high) {
    return value >= low && value <= high;
}
bool isType(int type) {
    return type == PIPER_CUDA_F32 || type == PIPER_CUDA_BF16;
}
/// `rows` of `columns` each, with a router that takes `router_topk`.
bool rowsFit(int type, std::int64_t rows, std::int64_t columns, std::int64_t router_topk) {
    return isType(type) && within(rows, 0, kMostRows) && within(columns, 0, kMostColumns) &&
           within(router_topk, 1, kMaxTopk);
}

constexpr const char* kRowRule =
    "type must be f32 or bf16, rows 0 to 2^30, columns 0 to 2^24, router_topk 1 to 64";
constexpr const char* kExpertRule = "experts must be 1 to 1024, router_topk 1 to 64 of them";

/// Calls launch(T{}) with the type.
template <class Launch>
cudaError_t ofType(int type, Launch launch) {
    return type == PIPER_CUDA_BF16 ? launch(Bf16{}) : launch(0.0F);
}

template <class T>
const T* as(const void* data) {
    return static_cast<const T*>(data);
}
template <class T>
T* as(void* data) {
    return static_cast<T*>(data);
}

int swiglu(PiperCudaContext* context, const char* what, int type, const void* gate_up,
           const void* dout, void* result, std::int64_t rows, std::int64_t ffn) {
    const int status = selectDevice(context, what);
    if (status != PIPER_CUDA_OK) return status;
    if (!rowsFit(type, rows, ffn, 1)) return refuse(PIPER_CUDA_INVALID, what, kRowRule);
    if (rows == 0 || ffn == 0) return PIPER_CUDA_OK;
    return answer(ofType(type,
                         [&](auto t) {
                             using T = decltype(t);
                             const SwigluArguments<T> a{as<T>(gate_up), as<T>(dout), as<T>(result),
                                                        rows, static_cast<int>(ffn)};
                             return launchSwiglu(a, context->traits.multiprocessors,
                                                 context->stream);
                         }),
                  what);
}

bool expertsFit(std::int64_t tokens, std::int64_t num_experts, std::int64_t router_topk) {
    return within(tokens, 0, kMostRows) && within(num_experts, 1, kMaxExperts) &&
           within(router_topk, 1, kMaxTopk) && router_topk <= num_experts;
}

}  // namespace

int swigluForward(PiperCudaContext* context, std::int32_t type, const void* gate_up, void* out,
                  std::int64_t rows, std::int64_t ffn) {
    return swiglu(context, "swigluForward", type, gate_up, nullptr, out, rows, ffn);
}

int swigluInputGrad(PiperCudaContext* context, std::int32_t type, const void* dout,
                    const void* gate_up, void* dgate_up, std::int64_t rows, std::int64_t ffn) {
    if (dout == nullptr && rows > 0) {
        return refuse(PIPER_CUDA_INVALID, "swigluInputGrad", "dout is null");
    }
    return swiglu(context, "swigluInputGrad", type, gate_up, dout, dgate_up, rows, ffn);
}

int permuteForward(PiperCudaContext* context, std::int32_t type, const void* x,
                   const std::int32_t* slot_of_row, void* rows, std::int64_t num_rows,
                   std::int64_t router_topk, std::int64_t hidden) {
    const int status = selectDevice(context, "permuteForward");
    if (status != PIPER_CUDA_OK) return status;
    if (!rowsFit(type, num_rows, hidden, router_topk)) {
        return refuse(PIPER_CUDA_INVALID, "permuteForward", kRowRule);
    }
    if (num_rows == 0 || hidden == 0) return PIPER_CUDA_OK;
    return answer(ofType(type,
                         [&](auto t) {
                             using T = decltype(t);
                             const PermuteArguments<T> a{as<T>(x),
                                                         slot_of_row,
                                                         as<T>(rows),
                                                         num_rows,
                                                         static_cast<int>(router_topk),
                                                         static_cast<int>(hidden)};
                             return launchPermute(a, context->traits.multiprocessors,
                                                  context->stream);
                         }),
                  "permuteForward");
}

int combineForward(PiperCudaContext* context, const PiperCudaCombine* c) {
    const int status = selectDevice(context, "combineForward");
    if (status != PIPER_CUDA_OK) return status;
    if (c == nullptr || !rowsFit(c->type, c->tokens, c->hidden, c->router_topk)) {
        return refuse(PIPER_CUDA_INVALID, "combineForward", kRowRule);
    }
    if (c->tokens == 0 || c->hidden == 0) return PIPER_CUDA_OK;
    return answer(ofType(c->type,
                         [&](auto t) {
                             using T = decltype(t);
                             const CombineArguments<T> a{as<T>(c->rows),
                                                         c->row_of_slot,
                                                         c->weights,
                                                         as<T>(c->y),
                                                         c->tokens,
                                                         static_cast<int>(c->router_topk),
                                                         static_cast<int>(c->hidden),
                                                         c->accumulate != 0};
                             return launchCombine(a, context->traits.multiprocessors,
                                                  context->stream);
                         }),
                  "combineForward");
}

int combineInputGrad(PiperCudaContext* context, const PiperCudaCombineGrad* c) {
    const int status = selectDevice(context, "combineInputGrad");
    if (status != PIPER_CUDA_OK) return status;
    if (c == nullptr || !rowsFit(c->type, c->tokens, c->hidden, c->router_topk)) {
        return refuse(PIPER_CUDA_INVALID, "combineInputGrad", kRowRule);
    }
    if (c->tokens == 0) return PIPER_CUDA_OK;
    return answer(ofType(c->type,
                         [&](auto t) {
                             using T = decltype(t);
                             const CombineGradArguments<T> a{as<T>(c->dy),
                                                             as<T>(c->rows),
                                                             c->row_of_slot,
                                                             c->weights,
                                                             as<T>(c->drows),
                                                             c->dweights,
                                                             c->tokens,
                                                             static_cast<int>(c->router_topk),
                                                             static_cast<int>(c->hidden)};
                             return launchCombineGrad(a, context->traits.multiprocessors,
                                                      context->stream);
                         }),
                  "combineInputGrad");
}

int makePermutation(PiperCudaContext* context, const PiperCudaPermutation* p) {
    const int status = selectDevice(context, "makePermutation");
    if (status != PIPER_CUDA_OK) return status;
    if (p == nullptr || !expertsFit(p->slots, p->num_experts, 1)) {
        return refuse(PIPER_CUDA_INVALID, "makePermutation",
                      "slots must be 0 to 2^30, experts 1 to 1024");
    }
    const int chunk = permutationChunk(p->slots);
    const PermutationArguments a{p->experts,
                                 p->scratch,
                                 p->offsets,
                                 p->slot_of_row,
                                 p->row_of_slot,
                                 p->bad_slot,
                                 static_cast<int>(p->slots),
                                 static_cast<int>(p->num_experts),
                                 chunk,
                                 static_cast<int>(ceilDiv<std::int64_t>(p->slots, chunk))};
    return answer(launchPermutation(a, context->stream), "makePermutation");
}

int routerForward(PiperCudaContext* context, const PiperCudaRouter* r) {
    const int status = selectDevice(context, "routerForward");
    if (status != PIPER_CUDA_OK) return status;
    if (r == nullptr || !expertsFit(r->tokens, r->num_experts, r->router_topk)) {
        return refuse(PIPER_CUDA_INVALID, "routerForward", kExpertRule);
    }
    const bool node_rule =
        r->node_limit == 0 ||
        (within(r->nodes, 1, r->num_experts) && r->node_limit > 0 && r->node_of_expert != nullptr);
    if (!within(r->num_groups, 1, r->num_experts) || !within(r->topk_groups, 1, r->num_groups) ||
        !node_rule) {
        return refuse(PIPER_CUDA_INVALID, "routerForward",
                      "groups and nodes must be 1 to the number of experts, a node limit needs "
                      "node_of_expert");
    }
    if (r->tokens == 0) return PIPER_CUDA_OK;
    const RouterArguments a{r->logits,
                            r->scores,
                            r->experts,
                            r->weights,
                            r->bias,
                            r->node_of_expert,
                            r->bad_row,
                            r->tokens,
                            static_cast<int>(r->num_experts),
                            static_cast<int>(r->router_topk),
                            static_cast<int>(r->num_groups),
                            static_cast<int>(r->topk_groups),
                            static_cast<int>(r->nodes),
                            static_cast<int>(r->node_limit),
                            r->scale,
                            r->sigmoid != 0,
                            r->normalize != 0,
                            r->replay != 0};
    return answer(launchRouter(a, context->traits.multiprocessors, context->stream),
                  "routerForward");
}

int routerInputGrad(PiperCudaContext* context, const PiperCudaRouterGrad* r) {
    const int status = selectDevice(context, "routerInputGrad");
    if (status != PIPER_CUDA_OK) return status;
    if (r == nullptr || !expertsFit(r->tokens, r->num_experts, r->router_topk)) {
        return refuse(PIPER_CUDA_INVALID, "routerInputGrad", kExpertRule);
    }
    if (r->tokens == 0) return PIPER_CUDA_OK;
    const RouterGradArguments a{r->scores,
                                r->experts,
                                r->dweights,
                                r->dscore,
                                r->dlogits,
                                r->tokens,
                                static_cast<int>(r->num_experts),
                                static_cast<int>(r->router_topk),
                                r->scale,
                                r->sigmoid != 0,
                                r->normalize != 0};
    return answer(launchRouterGrad(a, context->traits.multiprocessors, context->stream),
                  "routerInputGrad");
}

int crossEntropy(PiperCudaContext* context, const PiperCudaCrossEntropy* c) {
    const int status = selectDevice(context, "crossEntropy");
    if (status != PIPER_CUDA_OK) return status;
    if (c == nullptr || !rowsFit(c->type, c->rows, c->vocab, 1) || c->vocab < 1) {
        return refuse(PIPER_CUDA_INVALID, "crossEntropy", kRowRule);
    }
    if (c->rows == 0) return PIPER_CUDA_OK;
    return answer(ofType(c->type,
                         [&](auto t) {
                             using T = decltype(t);
                             const CrossEntropyArguments<T> a{as<T>(c->logits),
                                                              c->targets,
                                                              c->lse,
                                                              c->row_loss,
                                                              c->bad_row,
                                                              c->rows,
                                                              static_cast<int>(c->vocab),
                                                              c->scale,
                                                              c->forward != 0,
                                                              c->gradient != 0};
                             return launchCrossEntropy(a, context->traits.multiprocessors,
                                                       context->stream);
                         }),
                  "crossEntropy");
}

}  // namespace piper::cuda
