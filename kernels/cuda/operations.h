// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/grouped_tiles.h"
#include "kernels/cuda/plugin.h"

// The operations of the plugin's table, checked and queued; plugin.h says what each does.

namespace piper::cuda {

int gemm(PiperCudaContext* context, const PiperCudaGemm* gemm);
int groupedGemm(PiperCudaContext* context, const PiperCudaGrouped* grouped);
int groupedBaseline(PiperCudaContext* context, std::int32_t baseline,
                    const PiperCudaGrouped* grouped, const std::int64_t* host_offsets);
int swigluForward(PiperCudaContext* context, std::int32_t type, const void* gate_up, void* out,
                  std::int64_t rows, std::int64_t ffn);
int swigluInputGrad(PiperCudaContext* context, std::int32_t type, const void* dout,
                    const void* gate_up, void* dgate_up, std::int64_t rows, std::int64_t ffn);
int permuteForward(PiperCudaContext* context, std::int32_t type, const void* x,
                   const std::int32_t* slot_of_row, void* rows, std::int64_t num_rows,
                   std::int64_t router_topk, std::int64_t hidden);
int combineForward(PiperCudaContext* context, const PiperCudaCombine* combine);
int combineInputGrad(PiperCudaContext* context, const PiperCudaCombineGrad* combine);
int makePermutation(PiperCudaContext* context, const PiperCudaPermutation* permutation);
int routerForward(PiperCudaContext* context, const PiperCudaRouter* router);
int routerInputGrad(PiperCudaContext* context, const PiperCudaRouterGrad* router);
int crossEntropy(PiperCudaContext* context, const PiperCudaCrossEntropy* loss);
int exportMemory(PiperCudaContext* context, const void* data, PiperCudaIpcMemory* memory);
int importMemory(PiperCudaContext* context, const PiperCudaIpcMemory* memory, void** data);
int closeMemory(PiperCudaContext* context, const PiperCudaIpcMemory* memory, void* data);
int createEvent(PiperCudaContext* context, PiperCudaEvent** event, unsigned char* handle);
int importEvent(PiperCudaContext* context, const unsigned char* handle, PiperCudaEvent** event);
int destroyEvent(PiperCudaContext* context, PiperCudaEvent* event);
int recordEvent(PiperCudaContext* context, PiperCudaEvent* event);
int waitEvent(PiperCudaContext* context, PiperCudaEvent* event);

/// Why a grouped product cannot be taken, or nullptr.
[[nodiscard]] const char* unusableGrouped(const PiperCudaGrouped* grouped);
[[nodiscard]] GroupedArguments groupedArguments(const PiperCudaGrouped& grouped);

}  // namespace piper::cuda
