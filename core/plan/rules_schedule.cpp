// SPDX-License-Identifier: Apache-2.0
// Batches over replicas, and what each pipeline schedule needs.
#include <algorithm>

#include "core/plan/pipeline_shape.h"
#include "core/plan/rules.h"

namespace piper {
namespace {

bool frameworkHas(Framework framework, ScheduleKind kind) {
    using K = ScheduleKind;
    switch (framework) {
        case Framework::Plain:
            return true;
        case Framework::Megatron:
            return kind == K::OneF1B || kind == K::InterleavedOneF1B;
        case Framework::DeepSpeed:
            return kind == K::OneF1B;
        case Framework::Torchtitan:
            return kind == K::GPipe || kind == K::OneF1B || kind == K::InterleavedOneF1B ||
                   kind == K::ZbV || kind == K::DualPipeV;
    }
    return false;
}

std::vector<std::string> schedulesOf(Framework framework) {
    std::vector<std::string> out;
    for (const EnumName<ScheduleKind>& row : enumNames<ScheduleKind>())
        if (frameworkHas(framework, row.value)) out.push_back(fmt::format("schedule={}", row.name));
    return out;
}

void chunkRules(const Plan& plan, Violations& out) {
    const std::int64_t vpp = plan.layout.vpp;
    const ScheduleKind kind = plan.schedule;
    const std::string_view name = toText(kind);
    if (kind == ScheduleKind::InterleavedOneF1B) {
        if (vpp == 1)
            out.add("interleaved_needs_vpp",
                    "interleaved_1f1b needs vpp above 1: with one chunk a rank it is 1f1b",
                    {"vpp=2", "schedule=1f1b"});
        if (plan.layout.pp == 1)
            out.add("interleaved_needs_pp", "interleaved_1f1b needs pp above 1", {"vpp=1", "pp=2"});
        return;
    }
    if (kind == ScheduleKind::ZbV || kind == ScheduleKind::DualPipeV) {
        if (vpp != 2)
            out.add(
                "v_schedule_needs_two_chunks",
                fmt::format("{} folds the model in a V: 2 chunks a rank, not vpp {}", name, vpp),
                {"vpp=2"});
        return;
    }
    if (vpp > 1)
        out.add("vpp_needs_interleaved",
                fmt::format("vpp {} under {}: only interleaved_1f1b, zb_v and dualpipe_v run "
                            "several chunks a rank",
                            vpp, name),
                {"schedule=interleaved_1f1b", "vpp=1"});
}

void microBatchRules(const Plan& plan, std::int64_t num_microbatches, Violations& out) {
    const std::int64_t pp = plan.layout.pp;
    const auto batch = [&](std::int64_t m) {
        return fmt::format("global_batch_size={}", m * plan.micro_batch_size * plan.layout.dp);
    };
    // torch's ScheduleInterleaved1F1B takes rounds of another size; Megatron-LM's are of pp.
    const bool torchtitan = plan.framework == Framework::Torchtitan;
    const std::int64_t rounds = torchtitan ? std::max<std::int64_t>(1, num_microbatches / pp) : pp;
    const bool single =
        plan.schedule == ScheduleKind::OneF1B || plan.schedule == ScheduleKind::GPipe;
    if (torchtitan && single && pp > 1 && num_microbatches < pp)
        out.add("microbatches_cover_stages",
                fmt::format("{} micro-batches over {} stages: {} of torch wants one for each stage",
                            num_microbatches, pp, toText(plan.schedule)),
                {batch(pp)});
    if (plan.schedule == ScheduleKind::InterleavedOneF1B && num_microbatches % rounds != 0)
        out.add("interleaved_needs_whole_rounds",
                fmt::format("{} micro-batches over pp {} leaves {}: interleaved_1f1b takes whole "
                            "rounds of pp micro-batches",
                            num_microbatches, pp, num_microbatches % pp),
                {batch((num_microbatches + pp - 1) / pp * pp)});
    const bool both_ways = pairsSlots(plan.schedule);
    if (both_ways && num_microbatches < 2 * pp)
        out.add("dualpipe_needs_microbatches",
                fmt::format("{} needs at least 2 x pp = {} micro-batches, the batch has {}",
                            toText(plan.schedule), 2 * pp, num_microbatches),
                {batch(2 * pp)});
    if (plan.schedule == ScheduleKind::DualPipe && (pp % 2 != 0 || num_microbatches % 2 != 0))
        out.add("dualpipe_needs_even",
                fmt::format("dualpipe needs an even pp and an even number of micro-batches, not {} "
                            "and {}",
                            pp, num_microbatches),
                {"schedule=1f1b"});
}

}  // namespace

namespace {

/// Batches a framework forms for validation, like those for training.
void validationBatch(const Plan& plan, const RuleScope& scope, Violations& out) {
    const FrameworkOptions& o = scope.options;
    if (!o.validation_global_batch_size) return;
    const std::int64_t size = *o.validation_global_batch_size;
    const std::int64_t micro = o.validation_micro_batch_size.value_or(plan.micro_batch_size);
    const std::int64_t step = micro * plan.layout.dp;
    if (size % step == 0) return;
    std::vector<std::string> fix;
    if (size > step)
        fix.push_back(fmt::format("validation_global_batch_size={}", size / step * step));
    fix.push_back(fmt::format("validation_global_batch_size={}", size / step * step + step));
    out.add("validation_batch_divides",
            fmt::format("the validation batch of {} over micro_batch_size {} x dp {} = {} leaves "
                        "{}: it forms no whole micro-batches",
                        size, micro, plan.layout.dp, step, size % step),
            std::move(fix));
}

/// DeepSpeed's elasticity: one of the sizes allowed must divide global_batch_size / (GPUs / MP).
void elasticBatch(const Plan& plan, const RuleScope& scope, Violations& out) {
    const std::vector<std::int64_t>& sizes = scope.options.micro_batch_sizes;
    const std::int64_t dp = plan.layout.dp;
    if (sizes.empty() || !scope.global_batch || plan.global_batch_size % dp != 0) return;
    const std::int64_t each = plan.global_batch_size / dp;
    if (std::ranges::any_of(sizes, [&](std::int64_t v) { return each % v == 0; })) return;
    out.add("elastic_micro_batch",
            fmt::format("none of the micro batch sizes {} divides the {} sequences of a replica: "
                        "global_batch_size {} / dp {}",
                        listed(sizes), each, plan.global_batch_size, dp),
            settings("micro_batch_sizes", legalNear(sizes.front(), each, [&](std::int64_t v) {
                         return each % v == 0;
                     })));
}

}  // namespace

void batchRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    validationBatch(plan, scope, out);
    elasticBatch(plan, scope, out);
    if (!scope.global_batch || !scope.micro_batch) return;
    const std::int64_t step = plan.micro_batch_size * plan.layout.dp;
    if (plan.global_batch_size % step == 0) return;
    std::vector<std::string> fix;
    const std::int64_t down = plan.global_batch_size / step * step;
    if (down > 0) fix.push_back(fmt::format("global_batch_size={}", down));
    fix.push_back(fmt::format("global_batch_size={}", down + step));
    if (plan.global_batch_size % plan.layout.dp == 0) {
        const std::int64_t each = plan.global_batch_size / plan.layout.dp;
        for (const std::string& s :
             settings("micro_batch_size", legalNear(
                                              plan.micro_batch_size, each,
                                              [&](std::int64_t v) { return each % v == 0; }, 2)))
            fix.push_back(s);
    }
    out.add("batch_divides",
            fmt::format("global_batch_size {} over micro_batch_size {} x dp {} = {} leaves {}",
                        plan.global_batch_size, plan.micro_batch_size, plan.layout.dp, step,
                        plan.global_batch_size % step),
            std::move(fix));
}

void scheduleRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    if (!frameworkHas(plan.framework, plan.schedule))
        out.add("framework_has_schedule",
                fmt::format("{} has no schedule {}", toText(plan.framework), toText(plan.schedule)),
                schedulesOf(plan.framework));
    chunkRules(plan, out);
    const std::int64_t step = plan.micro_batch_size * plan.layout.dp;
    if (scope.global_batch && scope.micro_batch && plan.global_batch_size % step == 0)
        microBatchRules(plan, plan.global_batch_size / step, out);
}

}  // namespace piper
