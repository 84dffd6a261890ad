// SPDX-License-Identifier: Apache-2.0
// Which communication each framework hides when no option is given.
#include "core/plan/overlap.h"

#include "core/base/json.h"

namespace piper {

Overlap defaultOverlap(Framework framework, ScheduleKind schedule, int zero_stage) {
    Overlap out;
    switch (framework) {
        case Framework::Plain:
            return out;
        case Framework::Megatron:
            // cp_comm_type p2p is a ring. overlap_p2p_comm is on by itself only when interleaved;
            // 1F1B sends and receives in one batch and waits for it. tp_comm_overlap,
            // overlap_grad_reduce, overlap_param_gather and overlap_moe_expert_parallel_comm are
            // off until asked for.
            out.cp = true;
            out.pp = schedule == ScheduleKind::InterleavedOneF1B;
            return out;
        case Framework::DeepSpeed:
            // overlap_comm is off for stages 1 and 2 and on for stage 3; pipeline messages block.
            out.pp = false;
            out.dp_grad_reduce = out.dp_param_gather = zero_stage >= 3;
            return out;
        case Framework::Torchtitan:
            // fully_shard prefetches the next block's weights and reduces behind backward.
            out.dp_grad_reduce = out.dp_param_gather = true;
            return out;
    }
    return out;
}

Overlap effectiveOverlap(const Plan& plan) {
    return plan.overlap ? *plan.overlap
                        : defaultOverlap(plan.framework, plan.schedule, plan.zero_stage);
}

Result<Overlap> readOverlap(const Json& json, std::string where, const Overlap& usual) {
    Overlap out;
    ObjectReader in(json, std::move(where));
    out.tp = in.boolean("tp", usual.tp);
    out.cp = in.boolean("cp", usual.cp);
    out.ep = in.boolean("ep", usual.ep);
    out.pp = in.boolean("pp", usual.pp);
    out.dp_grad_reduce = in.boolean("dp_grad_reduce", usual.dp_grad_reduce);
    out.dp_param_gather = in.boolean("dp_param_gather", usual.dp_param_gather);
    PIPER_TRY(in.finish());
    return out;
}

Json writeOverlap(const Overlap& o) {
    return {{"tp", o.tp},
            {"cp", o.cp},
            {"ep", o.ep},
            {"pp", o.pp},
            {"dp_grad_reduce", o.dp_grad_reduce},
            {"dp_param_gather", o.dp_param_gather}};
}

}  // namespace piper
